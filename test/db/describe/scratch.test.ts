/** Scratch databases on fake servers: what is created, locked, kept and dropped. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { createScratch } from '../../../src/db/describe/scratch.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { fakePostgres, type Result } from '../../support/fake-postgres.ts';
import { fault } from '../../contract/database.ts';

const TEXT = 25;
const NONE: Result = { columns: [], rows: [] };
const OVER = 'svc_check_20231231235959_00000000';
const RUNNING = 'svc_check_20240101003000_11111111';
const ENDED = 'svc_check_20240101003000_22222222';
const OTHERS = ['app', 'svc_check_20200101000000_1234567', 'my_svc_check_20200101000000_12345678'];

async function server(t: TestContext, changes: Readonly<Record<string, Result>> = {}) {
  const fake = await fakePostgres(t, {
    'select datname': { columns: [['name', TEXT]], rows: [OVER, ...OTHERS].map((name) => [name]) },
    'select pg_catalog.pg_try_advisory_lock(1937138539,': { columns: [['lock', TEXT]], rows: [['1']] },
    'select count(*)::int from pg_catalog.pg_locks': { columns: [['count', TEXT]], rows: [['0']] },
    'create database': NONE,
    'drop database': NONE,
    ...changes,
  });
  const { logger, events } = collectedLog();
  const deps = { clock: new ManualClock(), log: logger, timeoutMs: 10_000 };
  return { ...fake, events, deps, url: `postgres://u@127.0.0.1:${fake.port}/app` };
}

const changesOf = (texts: readonly string[]): string[] =>
  texts.filter((text) => /^(?:create|drop) database|pg_try_advisory/.test(text));

test('a scratch database is named by its lease, locked before it is created, and dropped in the end', async (t) => {
  const { url, texts, deps } = await server(t);
  const scratch = await createScratch(url, deps);
  const name = new URL(scratch.url).pathname.slice(1);
  assert.match(name, /^svc_check_20240101010000_[0-9a-f]{8}$/);
  assert.deepEqual(scratch.others, [OVER, ...OTHERS]);
  const lock = 'select pg_catalog.pg_try_advisory_lock(1937138539, pg_catalog.hashtext($1))::int';
  const left = `drop database if exists "${OVER}" with (force)`;
  const own = [lock, `create database "${name}"`];
  assert.deepEqual(changesOf(texts), [left, ...own]);
  await scratch[Symbol.asyncDispose]();
  assert.deepEqual(changesOf(texts), [left, ...own, `drop database if exists "${name}" with (force)`, left]);
});

for (const [name, locks, isDropped] of [
  [OVER, '1', true],
  [RUNNING, '1', false],
  [ENDED, '0', true],
] as const)
  test(`a run ${isDropped ? 'drops' : 'keeps'} the scratch database ${name} of another run that holds ${locks} locks`, async (t) => {
    const { url, texts, deps } = await server(t, {
      'select datname': { columns: [['name', TEXT]], rows: [[name]] },
      'select count(*)::int from pg_catalog.pg_locks': { columns: [['count', TEXT]], rows: [[locks]] },
    });
    await (await createScratch(url, deps))[Symbol.asyncDispose]();
    assert.equal(texts.includes(`drop database if exists "${name}" with (force)`), isDropped);
  });

test('a scratch database that cannot be dropped is kept, and the run goes on', async (t) => {
  const failures = [{ C: '42501', M: 'must be owner of database' }];
  const { url, deps, events } = await server(t, { 'drop database': { ...NONE, failures } });
  await (await createScratch(url, deps))[Symbol.asyncDispose]();
  assert.deepEqual(
    events.filter(({ event }) => event === 'scratch_database_kept').map(({ database }) => database),
    [OVER],
  );
});

test('a scratch database that cannot be created is an error, and is dropped', async (t) => {
  const failures = [{ C: '42501', M: 'permission denied to create database' }];
  const { url, texts, deps } = await server(t, { 'create database': { ...NONE, failures } });
  await assert.rejects(createScratch(url, deps), (error) => {
    assert.ok(fault('E_SCRATCH_DATABASE')(error));
    assert.match((error as Error).message, /permission denied to create database/);
    return true;
  });
  assert.match(changesOf(texts)[3]!, /^drop database if exists "svc_check_20240101010000_/);
  await assert.rejects(createScratch('sqlite::memory:', deps), fault('E_SCRATCH_DATABASE'));
});
