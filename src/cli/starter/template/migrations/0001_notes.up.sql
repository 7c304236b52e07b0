-- One text for SQLite and PostgreSQL. SQLite takes any name for a type: it keeps "timestamptz" as ISO 8601.
create table note (
  id text not null primary key,
  -- The provider and its id for a person, such as github:583231: names change, an id does not.
  owner text not null,
  text text not null check (text <> '' and length(text) <= 500),
  created_at timestamptz not null
);

create index note_owner on note (owner, created_at);
