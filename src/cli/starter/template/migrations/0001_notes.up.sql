-- One text for SQLite and PostgreSQL. SQLite takes any name for a type: it keeps "timestamptz" as ISO 8601.
create table account (
  -- The name of the identity provider, and its id for the account: names change, an id does not.
  provider text not null,
  subject text not null,
  person text not null,
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
