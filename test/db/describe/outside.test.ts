/**
 * Statements of migrations that act outside of their database, and do not run on a scratch database.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refuseOutside } from '../../../src/db/describe/outside.ts';
import { readMigrations } from '../../../src/db/migrations/source.ts';
import { folder } from '../../support/run.ts';
import type { TestContext } from 'node:test';
import type { Dialect } from '../../../src/db/driver.ts';

const OTHERS = ['shop', 'mysql', 'information_schema'];

/** Statements that act outside of their database. */
const OUTSIDE: readonly (readonly [engine: 'postgres' | 'mysql', statement: string])[] = [
  ['postgres', 'create database shop2'],
  ['postgres', 'CREATE /* quietly */ DATABASE shop2'],
  ['postgres', 'drop database if exists shop'],
  ['postgres', 'create role app login'],
  ['postgres', 'alter user app superuser'],
  ['postgres', 'create tablespace fast location $$/fast$$'],
  ['postgres', "alter system set work_mem = '1GB'"],
  ['postgres', 'grant admin to app'],
  ['postgres', 'revoke admin from app'],
  ['postgres', "comment on database shop is 'x'"],
  ['postgres', 'drop owned by app'],
  ['postgres', 'reassign owned by app to admin'],
  ['postgres', "copy book to program 'cat'"],
  ['postgres', "copy book from '/etc/passwd'"],
  ['postgres', "load 'evil'"],
  ['postgres', "create subscription s connection 'host=shop' publication p"],
  ['mysql', 'create database if not exists shop2'],
  ['mysql', '/*!40000 create database shop2 */'],
  ['mysql', 'drop schema shop'],
  ['mysql', 'use shop'],
  ['mysql', 'USE `shop`'],
  ['mysql', 'create or replace user app'],
  ['mysql', 'grant all on *.* to app'],
  ['mysql', 'set global max_connections = 1'],
  ['mysql', 'set @@global.max_connections = 1'],
  ['mysql', 'flush privileges'],
  ['mysql', "load data infile '/tmp/x' into table book"],
  ['mysql', "select * from book into outfile '/tmp/x'"],
  ['mysql', 'kill 7'],
  ['mysql', 'insert into shop.book (id) values (1)'],
  ['mysql', 'update `Shop` . `book` set id = 1'],
  ['mysql', 'drop table if exists book, shop.book'],
  ['mysql', 'delete from mysql.user'],
];

/** Statements that act inside of their database. */
const INSIDE: readonly (readonly [engine: 'postgres' | 'mysql', statement: string])[] = [
  ['postgres', 'create table database (role int, "user" int)'],
  ['postgres', 'create user mapping for current_user server elsewhere'],
  ['postgres', 'grant select on book to app'],
  ['postgres', 'revoke all on schema public from public'],
  ['postgres', "comment on table book is 'on database shop'"],
  ['postgres', "insert into book (title) values ('create database shop')"],
  ['postgres', 'create schema shop'],
  ['postgres', 'insert into shop.book (id) values (1)'],
  ['mysql', 'create table book (id int, shop int)'],
  ['mysql', 'update book set book.shop = 1'],
  ['mysql', "insert into book (title) values ('use shop; shop.book')"],
  ['mysql', 'select table_name from information_schema.tables'],
  ['mysql', 'set session sql_mode = default'],
  ['mysql', '-- use shop\ncreate table book (id int)'],
];

function refusalOf(t: TestContext, dialect: Dialect, statement: string): unknown {
  const directory = folder(t, { '0001_first.up.sql': `-- svc: no-transaction\n\n${statement};` });
  try {
    return refuseOutside(readMigrations({ directory }, dialect), dialect, OTHERS);
  } catch (error) {
    return error;
  }
}

for (const [engine, statement] of OUTSIDE)
  test(`${engine}: a migration with "${statement}" is refused for a scratch database, with its line`, (t) => {
    const { code, message } = refusalOf(t, engine, statement) as { code: string; message: string };
    assert.equal(code, 'E_SCRATCH_DATABASE');
    assert.match(
      message,
      /^Cannot use a scratch database: line 3 of .*0001_first\.up\.sql .*no migration was applied$/,
    );
  });

for (const [engine, statement] of INSIDE)
  test(`${engine}: a migration with "${statement.replace('\n', ' ')}" may run on a scratch database`, (t) => {
    assert.equal(refusalOf(t, engine, statement), undefined);
  });
