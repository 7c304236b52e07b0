-- For SQLite and PostgreSQL. SQLite accepts any type name: it stores "timestamptz" as text in ISO 8601.
create table account (
  -- Name of the identity provider, and its id of the account, which never changes as a user name may.
  provider text not null,
  subject text not null,
  person text not null,
  name text not null,
  primary key (provider, subject)
);
create index account_person on account (person);
create table note (
  id text not null primary key,
  owner text not null,
  text text not null check (text <> '' and length(text) <= 500),
  created_at timestamptz not null
);
create index note_owner on note (owner, created_at);
