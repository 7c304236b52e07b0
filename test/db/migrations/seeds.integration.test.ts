/**
 * Seeds, and migrations with files for one engine, on every engine.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { Migrator, Seeder, openDatabase } from '../../../src/db/index.ts';
import { refuseInProduction } from '../../../src/db/migrations/seeds.ts';
import { fault } from '../../contract/database.ts';
import { onEveryDatabase } from '../../support/every-database.ts';
import { folder } from '../../support/run.ts';

onEveryDatabase(
  'migrations and seeds read a file for the engine instead of the file for all engines',
  async (db, _url, t) => {
    const create = (name: string): string => `create table found (${name} integer)`;
    const migrations = folder(t, {
      '0001_note.up.sql': 'create table note (id integer primary key, word varchar(20) not null)',
      '0002_found.up.sql': create('plain'),
      '0002_found.postgres.up.sql': create('postgres'),
      '0002_found.mysql.up.sql': create('mysql'),
      '0002_found.down.sql': 'drop table found',
      '0003_sqlite.sqlite.up.sql': 'create table only_sqlite (id integer)',
      '0004_last.up.sql': 'create table last_one (id integer)',
    });
    const migrator = new Migrator(db, { directory: migrations });
    const isSqlite = db.dialect === 'sqlite';
    assert.deepEqual(
      (await migrator.up()).map(({ id }) => id),
      isSqlite ? ['0001', '0002', '0003', '0004'] : ['0001', '0002', '0004'],
    );
    assert.deepEqual(await migrator.up(), []);
    const { columns } = await db.fetchArrays('select * from found');
    const expected = { sqlite: 'plain', postgres: 'postgres', mysql: 'mysql', mariadb: 'mysql' }[db.dialect];
    assert.deepEqual(
      columns.map(({ name }) => name),
      [expected],
    );

    const seeds = folder(t, {
      '10_notes.sql':
        "delete from note; insert into note (id, word) values (1, 'plain'); insert into note (id, word) values (2, 'all')",
      '20_more.postgres.sql': "insert into note (id, word) values (3, 'postgres')",
      '20_more.sql': "insert into note (id, word) values (3, 'plain')",
      '30_last.mysql.sql': "insert into note (id, word) values (4, 'mysql')",
    });
    const seeder = new Seeder(db, seeds);
    for (let run = 0; run < 2; run++) {
      const done = await seeder.run();
      assert.deepEqual(done[0]!.file, '10_notes.sql');
      assert.equal(done.length, db.dialect === 'mysql' || db.dialect === 'mariadb' ? 3 : 2);
    }
    assert.equal(
      await db.scalar('select word from note where id = 3'),
      db.dialect === 'postgres' ? 'postgres' : 'plain',
    );
  },
);

onEveryDatabase(
  'when a seed file fails, none of its rows are stored, and the error names the file and the line',
  async (db, _url, t) => {
    await db.script('create table note (id integer primary key)');
    const directory = folder(t, {
      '1_good.sql': 'insert into note (id) values (1)',
      '2_bad.sql': 'insert into note (id) values (2);\ninsert into note (id) values (2);',
      '3_later.sql': 'insert into note (id) values (3)',
    });
    await assert.rejects(
      new Seeder(db, directory).run(),
      (error) =>
        fault('E_SEED')(error) &&
        (error as Error).message.includes(`${join(directory, '2_bad.sql')}, line 2`),
    );
    assert.deepEqual(await db.fetchAll('select id from note'), [{ id: 1 }]);
  },
);

test('refuseInProduction() throws in production, unless the caller allows seeds in production', () => {
  assert.throws(() => refuseInProduction('production', false), fault('E_SEED_PRODUCTION'));
  refuseInProduction('production', true);
  refuseInProduction('development', false);
});

test('Seeder refuses a missing folder, and a seed file with an invalid name, a directive, a transaction or no statement', async (t) => {
  await using db = await openDatabase('sqlite::memory:');
  for (const files of [
    { 'Notes.sql': 'select 1' },
    { 'notes.txt': 'select 1' },
    { 'notes.sql': '-- svc: no-transaction\nselect 1' },
    { 'notes.sql': 'begin; select 1' },
    { 'notes.sql': '' },
  ])
    await assert.rejects(new Seeder(db, folder(t, files as Record<string, string>)).run(), fault('E_SEED'));
  await assert.rejects(new Seeder(db, join(folder(t), 'absent')).run(), fault('E_SEED'));
});
