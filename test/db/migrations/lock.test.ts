import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { beginRunning, isRunning, remainsOf } from '../../../src/db/migrations/lock.ts';
import { LockTimeout } from '../../../src/db/index.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { folder } from '../../support/run.ts';
import type { Connection, Dialect } from '../../../src/db/driver.ts';

const INDEX = /invalid index/;
const PROCEDURE = /procedure may have committed/;
const OBJECTS = /some of the objects/;

test('remainsOf() names what a failed statement may leave outside of a transaction, and nothing for a statement that is undone as a whole', () => {
  const cases: readonly (readonly [Dialect, string, RegExp | undefined])[] = [
    ['postgres', 'create index concurrently a on b (c)', INDEX],
    ['postgres', '/* x */ Create Unique Index -- y\n Concurrently if not exists a on b (c)', INDEX],
    ['postgres', 'drop index concurrently if exists a', INDEX],
    ['postgres', 'reindex (verbose, tablespace x) table concurrently b', INDEX],
    [
      'postgres',
      'alter table if exists only b detach partition s.p concurrently',
      /detach partition … finalize/,
    ],
    ['postgres', 'call fill()', PROCEDURE],
    ['postgres', 'do $$ begin commit; end $$', PROCEDURE],
    ['postgres', 'create index "concurrently" on b (c)', undefined],
    ['postgres', 'refresh materialized view concurrently b', undefined],
    ['postgres', "insert into b values ('create index concurrently')", undefined],
    ['postgres', 'vacuum b', undefined],
    ['sqlite', 'vacuum', undefined],
    ['sqlite', 'create table concurrently (id)', undefined],
  ];
  const mysql: readonly (readonly [string, RegExp | undefined])[] = [
    ['call fill()', PROCEDURE],
    ['begin not atomic insert into a values (1); end', PROCEDURE],
    ['drop table a, b', OBJECTS],
    ['drop database c', OBJECTS],
    ['drop table `a,b`', undefined],
    ['create table a (b int, c int)', undefined],
    ['do sleep(1)', undefined],
  ];
  for (const [dialect, text, expected] of [
    ...cases,
    ...mysql.flatMap(([text, expected]) =>
      (['mysql', 'mariadb'] as const).map((dialect) => [dialect, text, expected] as const),
    ),
  ]) {
    const remains = remainsOf(dialect, text);
    if (expected === undefined) assert.equal(remains, undefined, text);
    else assert.match(remains ?? '', expected, text);
  }
});

/** Connection that returns the results in order, then `false`, and keeps the statements. */
function answering(...results: readonly unknown[]): { connection: Connection; texts: string[] } {
  const texts: string[] = [];
  const left = [...results];
  const scalar = (text: string): unknown => {
    texts.push(text);
    const next = left.length === 0 ? false : left.shift();
    if (next instanceof Error) throw next;
    return next;
  };
  return { connection: { scalar } as unknown as Connection, texts };
}

/** Clock whose pauses end at once. */
class Paused extends ManualClock {
  readonly pauses: number[] = [];
  override sleep(ms: number): Promise<void> {
    this.pauses.push(ms);
    return Promise.resolve();
  }
}

const TAKE = 'select pg_try_advisory_lock(8319946623122237299)';
const LEAVE = 'select pg_advisory_unlock(8319946623122237299)';

for (const [what, failures, released] of [
  ['at once', 0, true],
  ['after two attempts', 2, true],
  ['at the last attempt', 49, true],
  ['although its release fails', 0, new Error('lost')],
] as const)
  test(`beginRunning() takes the lock of a PostgreSQL session ${what}, and releases it`, async () => {
    const clock = new Paused();
    const { connection, texts } = answering(...Array.from({ length: failures }, () => false), true, released);
    const lock = await beginRunning(connection, 'postgres', clock);
    assert.deepEqual(
      texts,
      Array.from({ length: failures + 1 }, () => TAKE),
    );
    assert.deepEqual(
      clock.pauses,
      Array.from({ length: failures }, () => 1),
    );
    await lock![Symbol.asyncDispose]();
    assert.equal(texts.at(-1), LEAVE);
  });

test('beginRunning() goes on without the lock that a pooler keeps, after 50 attempts', async () => {
  const { connection, texts } = answering();
  assert.equal(await beginRunning(connection, 'postgres', new Paused()), undefined);
  assert.equal(texts.length, 50);
});

test('beginRunning() takes no lock for MySQL, MariaDB, and a SQLite database in memory', async () => {
  for (const dialect of ['mysql', 'mariadb'] as const) {
    const { connection, texts } = answering();
    assert.equal(await beginRunning(connection, dialect, new Paused()), undefined);
    assert.deepEqual(texts, []);
  }
  for (const file of ['', null, undefined])
    assert.equal(await beginRunning(answering(file).connection, 'sqlite', new Paused()), undefined);
});

test('beginRunning() rejects while another process holds the lock of a SQLite file', async (t) => {
  const path = join(folder(t), 'data.db');
  const lock = await beginRunning(answering(path).connection, 'sqlite', new Paused());
  assert.equal(await isRunning(answering(path).connection, 'sqlite'), true);
  const clock = new Paused();
  await assert.rejects(beginRunning(answering(path).connection, 'sqlite', clock), (error) => {
    assert.ok(error instanceof LockTimeout);
    assert.equal(
      error.message,
      'Another process is migrating the database file: try again when that process has finished',
    );
    return true;
  });
  assert.equal(clock.pauses.length, 50);
  await lock![Symbol.asyncDispose]();
  assert.equal(await isRunning(answering(path).connection, 'sqlite'), false);
});

for (const [dialect, reply, expected] of [
  ['postgres', 0, false],
  ['postgres', 1, true],
  ['postgres', '2', true],
  ['mysql', 1, false],
  ['mysql', 0, true],
  ['mariadb', 0, true],
  ['sqlite', '', false],
] as const)
  test(`isRunning() returns ${expected} for the reply ${JSON.stringify(reply)} of ${dialect}`, async () => {
    assert.equal(await isRunning(answering(reply).connection, dialect), expected);
  });
