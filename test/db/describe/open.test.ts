/** Databases that are opened to describe statements: in memory, at an address, and on a scratch database. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Database } from '../../../src/db/database.ts';
import { openDescriber } from '../../../src/db/describe/open.ts';
import { Migrator } from '../../../src/db/migrations/migrations.ts';
import { hashOf, readMigrations } from '../../../src/db/migrations/source.ts';
import { openDatabase } from '../../../src/db/open.ts';
import { SvcError } from '../../../src/base/errors.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { fakePostgres, type Result } from '../../support/fake-postgres.ts';
import { folder } from '../../support/run.ts';
import { fault } from '../../contract/database.ts';

const NOTES = 'create table note (id integer primary key);\n';
const BOOKS = 'create table book (id integer primary key);\n';
const FILES = { '0001_note.up.sql': NOTES, '0002_book.up.sql': BOOKS };

type Plugin = Parameters<typeof openDescriber>[1];

function pluginOf(t: TestContext, files: Readonly<Record<string, string>>, url: string): Plugin {
  const { logger } = collectedLog();
  const sources = Object.keys(files).length === 0 ? {} : { directory: folder(t, files) };
  return {
    name: 'shop',
    url,
    sources,
    snakeCase: true,
    ownTypes: new Set(),
    clock: new ManualClock(),
    log: logger,
  };
}

/** Returns the address of a file with the migrations of these files. */
async function migrated(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const url = `sqlite:${join(folder(t), 'data.db')}`;
  await using db = await openDatabase(url);
  await new Migrator(db, { directory: folder(t, files) }, { clock: new ManualClock() }).up();
  return url;
}

test('without an address, the migrations run in memory, and the tables are theirs', async (t) => {
  const plugin = pluginOf(t, FILES, 'sqlite:./missing.db');
  await using describer = await openDescriber({}, plugin);
  assert.deepEqual(
    describer.tables.map(({ name }) => name),
    ['book', 'note'],
  );
  assert.deepEqual(
    [describer.dialect, describer.snakeCase, describer.hash],
    ['sqlite', true, hashOf(readMigrations(plugin.sources, 'sqlite'), true)],
  );
  assert.equal((await describer.describeStatement('select id from note')).kind, 'described');
});

test('a database whose migrations equal the files is only read, and closed in the end', async (t) => {
  const url = await migrated(t, FILES);
  const describer = await openDescriber({ url }, pluginOf(t, FILES, url));
  assert.deepEqual(
    describer.tables.map(({ name }) => name).filter((name) => !name.startsWith('svc_')),
    ['book', 'note'],
  );
  assert.equal((await describer.describeStatement('select id from note')).kind, 'described');
  await describer[Symbol.asyncDispose]();
  assert.equal((await describer.describeStatement('select id from note')).kind, 'untold');
});

const EDITED = NOTES.replace('id integer', 'no integer');
for (const [what, before, now, states] of [
  ['lacks a migration', { '0001_note.up.sql': NOTES }, FILES, ['0002_book is pending']],
  ['has another migration', FILES, { '0001_note.up.sql': NOTES }, ['0002_book is unknown']],
  ['has an edited migration', FILES, { ...FILES, '0001_note.up.sql': EDITED }, ['0001_note is changed']],
] as const)
  test(`a database that ${what} is refused, and its connection closes`, async (t) => {
    const url = await migrated(t, before);
    const closed = t.mock.method(Database.prototype, 'close');
    await assert.rejects(openDescriber({ url }, pluginOf(t, now, url)), (error) => {
      assert.ok(error instanceof SvcError);
      assert.deepEqual(
        [error.code, error.message],
        [
          'E_MIGRATION_DIFFERS',
          `Cannot read the tables of ${url}: its migrations differ from those of the application: ${states.join(', ')}`,
        ],
      );
      return true;
    });
    assert.equal(closed.mock.callCount(), 1);
  });

test('an application without migrations of its own may use the tables of another one', async (t) => {
  const url = await migrated(t, FILES);
  await using describer = await openDescriber({ url }, pluginOf(t, {}, url));
  assert.equal((await describer.describeStatement('select id from note')).kind, 'described');
});

test('a database that does not exist is refused', async (t) => {
  const url = `sqlite:${join(folder(t), 'missing.db')}`;
  await assert.rejects(openDescriber({ url }, pluginOf(t, FILES, url)), fault('E_DB_OPEN'));
});

test('invalid migrations are refused, also in memory', async (t) => {
  const broken = { '0001_note.up.sql': 'create tabel note (id integer);\n' };
  await assert.rejects(
    openDescriber({}, pluginOf(t, broken, 'sqlite::memory:')),
    fault('E_MIGRATION_FAILED'),
  );
});

// ── scratch databases ──

const TEXT = 25;
const NONE: Result = { columns: [], rows: [] };

async function scratchServer(t: TestContext, changes: Readonly<Record<string, Result>> = {}) {
  const fake = await fakePostgres(t, {
    'select datname': { columns: [['name', TEXT]], rows: [['app'], ['other']] },
    'select pg_catalog.pg_try_advisory_lock(1937138539,': { columns: [['lock', TEXT]], rows: [['1']] },
    'select count(*)::int from pg_catalog.pg_locks': { columns: [['count', TEXT]], rows: [['0']] },
    'create database': NONE,
    'drop database': NONE,
    ...changes,
  });
  return { ...fake, url: `postgres://u@127.0.0.1:${fake.port}/app` };
}

const changesOf = (texts: readonly string[]): string[] =>
  texts.filter((text) => /^(?:create|drop) database/.test(text)).map((text) => text.slice(0, 26));

for (const [what, statement, changes, code] of [
  ['whose migrations act outside of it', 'create database elsewhere;', {}, 'E_SCRATCH_DATABASE'],
  [
    'on which the schema cannot be created',
    'create table note (id int);',
    { 'do $$': { ...NONE, failures: [{ C: '42501', M: 'permission denied' }] } },
    undefined,
  ],
] as const)
  test(`a scratch database ${what} is dropped, and the error is thrown`, async (t) => {
    const { url, texts } = await scratchServer(t, changes as never);
    const plugin = pluginOf(t, { '0001_a.up.sql': `${statement}\n` }, url);
    await assert.rejects(openDescriber({ url, isScratch: true }, plugin), (error) =>
      code === undefined ? /permission denied/.test((error as Error).message) : fault(code)(error),
    );
    assert.deepEqual(
      changesOf(texts),
      ['create database "svc_check', 'drop database if exists "s'].map((text) => text.slice(0, 26)),
    );
  });

test('a scratch database is dropped when its signal has aborted', async (t) => {
  const { url, texts } = await scratchServer(t);
  const plugin = pluginOf(t, FILES, url);
  const reason = new Error('enough');
  await assert.rejects(
    openDescriber({ url, isScratch: true, signal: AbortSignal.abort(reason) }, plugin),
    (error) => error === reason,
  );
  assert.equal(changesOf(texts).length, 2);
});
