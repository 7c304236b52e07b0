/** Migrations that give rights by default, that fail on a table with rows, or that keep its writers waiting (SVC423). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coreRule } from '../../../src/check/rules/rules.ts';
import { riskyMigrations } from '../../../src/check/statements/releases.ts';
import { DatabasePlugin } from '../../../src/db/index.ts';
import { quiet } from '../../support/found.ts';
import { asSevere } from '../../support/severities.ts';
import { folder } from '../../support/run.ts';
import type { TestContext } from 'node:test';

/** Returns the file, line and message of each finding about migrations. */
function found(t: TestContext, address: string, files: Readonly<Record<string, string>>): string[] {
  const plugin = new DatabasePlugin(address, { migrationDirectory: folder(t, files) });
  quiet().register(plugin).check();
  return asSevere(riskyMigrations([plugin], coreRule('SVC423'))).map(
    ({ place, message }) => `${place!.file.split('/').at(-1)}:${place!.line} ${message.split(',')[0]}`,
  );
}

const FIRST = {
  '0001_first.up.sql': 'create table person (id integer primary key, mail text not null);\n',
};

test('svc check reports a migration whose columns have rights by default (SVC423)', (t) => {
  const second = `-- who may do what
alter table person
  add column is_admin boolean not null default true;
create table member (person integer, role varchar(20) default 'owner', email_verified integer default 1);
create table guest (person integer, is_admin boolean default false, role varchar(20) default 'reader');
`;
  assert.deepEqual(found(t, 'sqlite::memory:', { ...FIRST, '0002_rights.up.sql': second }), [
    '0002_rights.up.sql:3 each row of the table "person" has "is_admin" by default: true',
    '0002_rights.up.sql:4 each row of the table "member" has "role" by default: \'owner\'',
    '0002_rights.up.sql:4 each row of the table "member" has "email_verified" by default: 1',
  ]);
});

test('svc check reports a column that the rows of an earlier migration cannot have (SVC423)', (t) => {
  const add = (rest: string): Record<string, string> => ({
    ...FIRST,
    '0002_add.up.sql': `alter table person add column lane text ${rest};\n`,
  });
  assert.deepEqual(found(t, 'postgres://app@db/app', add('not null')), [
    '0002_add.up.sql:1 the rows that are in the table "person" have no value for the column "lane"',
  ]);
  for (const rest of ["not null default 'new'", 'null', 'generated always as (mail) stored not null'])
    assert.deepEqual(found(t, 'postgres://app@db/app', add(rest)), []);
  assert.deepEqual(found(t, 'mysql://app@db/app', add('not null')), []);
});

test('svc check reports an index that keeps the writers of a table of PostgreSQL waiting (SVC423)', (t) => {
  const index = (text: string): Record<string, string> => ({ ...FIRST, '0002_index.up.sql': text });
  const plain = 'create unique index person_mail on person (mail);\n';
  assert.deepEqual(found(t, 'postgres://app@db/app', index(plain)), [
    '0002_index.up.sql:1 all writers of the table "person" wait until the index is complete',
  ]);
  const concurrent = '-- svc: no-transaction\ncreate index concurrently person_mail on person (mail);\n';
  assert.deepEqual(found(t, 'postgres://app@db/app', index(concurrent)), []);
  const fresh = 'create table pet (name text);\ncreate index pet_name on pet (name);\n';
  assert.deepEqual(found(t, 'postgres://app@db/app', index(fresh)), []);
  assert.deepEqual(found(t, 'sqlite::memory:', index(plain)), []);
});

test('svc check reports an index that PostgreSQL builds concurrently unless it exists, because a failed build leaves it invalid (SVC423)', (t) => {
  const index = (text: string): Record<string, string> => ({
    ...FIRST,
    '0002_index.up.sql': `-- svc: no-transaction\n${text}\n`,
  });
  for (const text of [
    'create index concurrently if not exists person_mail on person (mail);',
    'create unique index concurrently if not exists app.person_mail on person (mail);',
    'drop index concurrently if exists person_name;create index concurrently if not exists person_mail on person (mail);',
  ])
    assert.deepEqual(
      found(t, 'postgres://app@db/app', index(text)).map((each) => each.replace('app.', '')),
      ['0002_index.up.sql:2 a build of the index "person_mail" that fails leaves it invalid'],
    );
  const kept = 'create index concurrently if not exists person_mail on person (mail);';
  for (const text of [
    'create index concurrently person_mail on person (mail);',
    `drop index concurrently if exists person_mail;\n${kept}`,
    'create index if not exists pet_name on pet (name);',
  ])
    assert.deepEqual(found(t, 'postgres://app@db/app', index(text)), [], text);
  assert.deepEqual(
    found(t, 'sqlite::memory:', index('create index if not exists person_mail on person (mail);')),
    [],
  );
});

test('svc check says nothing of migrations that cannot be read, which other rules report', (t) => {
  assert.deepEqual(found(t, 'sqlite::memory:', { '0002_gap.up.sql': 'select 1;\n' }), []);
});
