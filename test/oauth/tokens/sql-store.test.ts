/**
 * The token store on SQLite, and its behaviour when the database fails or is locked. A thief of its files gets no token.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import {
  ConnectionLost,
  Database,
  Deadlock,
  LockTimeout,
  SerializationFailure,
  StorageFailed,
} from '../../../src/db/index.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { SvcError } from '../../../src/base/errors.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { OAuthError } from '../../../src/oauth/errors.ts';
import { SqlTokenStore } from '../../../src/oauth/tokens/sql-store.ts';
import { oauthDatabase, tokensIn, tokensOver } from '../../support/oauth-tokens.ts';
import { Ends, folder } from '../../support/run.ts';
import { loginRow, storeClock, tokenStoreContract } from './store.contract.ts';
import type { Connection, Dialect, Driver } from '../../../src/db/index.ts';
import type { Limit } from '../../../src/db/driver.ts';

/** Time limit in milliseconds, longer than all attempts of the store. */
const MOST_MS = 30_000;

tokenStoreContract(
  'SqlTokenStore with an in-memory SQLite database passes the contract tests for token stores',
  async () => {
    const database = await oauthDatabase('sqlite::memory:');
    return {
      store: new SqlTokenStore(() => database, storeClock()),
      live: new SqlTokenStore(() => database, systemClock),
      close: () => database.close(),
    };
  },
);

tokenStoreContract(
  'SqlTokenStore with a SQLite file passes the contract tests for token stores',
  async () => {
    const scope = new Ends();
    const path = join(folder(scope), 'data.db');
    const database = await oauthDatabase(`sqlite:${path}`, { synchronous: 'normal' });
    scope.after(() => database.close());
    return {
      store: new SqlTokenStore(() => database, storeClock()),
      live: new SqlTokenStore(() => database, systemClock),
      close: () => scope[Symbol.asyncDispose](),
    };
  },
);

/** A database of any dialect whose statements fail as scripted, or else affect one row. It records statements. */
function failing(
  dialect: Dialect,
  failures: Error[],
): {
  readonly database: Database;
  readonly asked: { readonly sql: string; readonly params: readonly unknown[] }[];
  /** Time limits of the statements in milliseconds. */
  readonly limits: (number | undefined)[];
} {
  const asked: { sql: string; params: readonly unknown[] }[] = [];
  const limits: (number | undefined)[] = [];
  function answer<T>(result: T) {
    return (sql: string, params: readonly unknown[], limit: Limit | undefined): T => {
      asked.push({ sql, params });
      limits.push(limit?.timeoutMs);
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      return result;
    };
  }
  const connection = {
    isInTransaction: false,
    execute: answer({ affectedRows: 1, lastInsertId: undefined }),
    fetchOne: answer(undefined),
    fetchAll: answer([]),
    scalar: answer(0),
  };
  const driver = {
    dialect,
    acquire: () => connection as unknown as Connection,
    release() {},
  } as unknown as Driver;
  const database = new Database(driver, { clock: new ManualClock(), statementTimeoutMs: 0 });
  return { database, asked, limits };
}

function isUnavailable(cause: unknown) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof OAuthError, String(error));
    assert.deepEqual(
      [error.code, error.status, error.headers?.['Retry-After'], error.reason],
      ['temporarily_unavailable', 503, '1', 'store'],
    );
    assert.equal(error.cause, cause);
    assert.ok(
      !JSON.stringify(error.description).includes('database'),
      'the client does not learn what has failed',
    );
    return true;
  };
}

/** Moves the clock until a promise settles. Returns by how many milliseconds. */
async function passed(clock: ManualClock, work: Promise<unknown>): Promise<number> {
  let isDone = false;
  const startedMs = clock.monotonicMs();
  void work
    .catch(() => undefined)
    .finally(() => {
      isDone = true;
    });
  while (!isDone) {
    assert.ok(clock.monotonicMs() - startedMs < MOST_MS, 'the work does not end');
    await clock.advance(1);
  }
  return clock.monotonicMs() - startedMs;
}

for (const Failure of [LockTimeout, Deadlock, SerializationFailure]) {
  test(`after a ${Failure.name}, SqlTokenStore retries up to three times with pauses, and returns the result of the fourth attempt`, async () => {
    const clock = new ManualClock();
    const { database, asked } = failing('postgres', [new Failure('1'), new Failure('2'), new Failure('3')]);
    const work = new SqlTokenStore(() => database, clock).rotate({
      id: 'a',
      generation: 0,
      currentHash: 'b',
      keyThumbprint: null,
      nextHash: 'c',
      now: 1,
      idleExpiresAt: 2,
    });
    const tookMs = await passed(clock, work);
    assert.equal(await work, true);
    assert.equal(asked.length, 4);
    assert.ok(tookMs >= 3 && tookMs <= 20 + 40 + 80 + 3, `${tookMs} ms`);
  });

  test(`if all four attempts fail with a ${Failure.name}, SqlTokenStore reports temporarily_unavailable, never invalid_grant`, async () => {
    const clock = new ManualClock();
    const failures = ['1', '2', '3', '4'].map((text) => new Failure(text));
    const { database, asked } = failing('mysql', [...failures]);
    const work = new SqlTokenStore(() => database, clock).rotate({
      id: 'a',
      generation: 0,
      currentHash: 'b',
      keyThumbprint: null,
      nextHash: 'c',
      now: 1,
      idleExpiresAt: 2,
    });
    await passed(clock, work);
    await assert.rejects(work, isUnavailable(failures[3]));
    assert.equal(asked.length, 4);
    assert.equal(clock.pending, 0);
  });
}

for (const failure of [new ConnectionLost('gone'), new StorageFailed('disk'), new Error('something else')]) {
  test(`if a SQL statement throws ${failure.constructor.name}, every method of SqlTokenStore reports temporarily_unavailable and does not retry`, async () => {
    const calls: ((store: SqlTokenStore) => Promise<unknown>)[] = [
      (store) =>
        store.rotate({
          id: 'a',
          generation: 0,
          currentHash: 'b',
          keyThumbprint: null,
          nextHash: 'c',
          now: 1,
          idleExpiresAt: 2,
        }),
      (store) => store.findLogin('a'),
      (store) => store.readLogin('a'),
      (store) => store.addLogin(loginRow()),
      (store) => store.noteOverlap('a', 1),
      (store) => store.markDelivered('a', 1, 2),
      (store) => store.revoke('a', 'logout', 1),
      (store) => store.revokeOf('a', 'b', 1),
      (store) => store.revokeAll('a', 1),
      (store) => store.validAfter('a'),
      (store) => store.listLogins('a', 1),
      (store) => store.cleanUp(1, 1),
    ];
    for (const call of calls) {
      const { database, asked, limits } = failing('sqlite', [failure]);
      await assert.rejects(
        call(new SqlTokenStore(() => database, new ManualClock())),
        isUnavailable(failure),
      );
      assert.equal(asked.length, 1);
      assert.deepEqual(limits, [10_000]); // a server that does not answer holds no request for longer
    }
  });
}

test('a call of SqlTokenStore inside a transaction of the application fails with E_DB_NESTED and not with temporarily_unavailable', async () => {
  await using database = await oauthDatabase('sqlite::memory:');
  const store = new SqlTokenStore(() => database, new ManualClock());
  await database.transaction(async () => {
    await assert.rejects(store.revokeAll('ada', 1), { code: 'E_DB_NESTED' });
    await assert.rejects(store.listLogins('ada', 1), { code: 'E_DB_NESTED' });
  });
  assert.equal(await store.revokeAll('ada', 1), 0);
});

test('SqlTokenStore reports temporarily_unavailable if the database is not open', async () => {
  const closed = new SvcError('E_DB_CLOSED', []);
  await assert.rejects(
    new SqlTokenStore(() => {
      throw closed;
    }, new ManualClock()).findLogin('a'),
    isUnavailable(closed),
  );
});

test('SqlTokenStore: while another process locks the database, a refresh gets a 503 and replaces no token, and afterwards it succeeds', async (t) => {
  const path = join(folder(t), 'data.db');
  const database = await oauthDatabase(`sqlite:${path}`, { busyTimeoutMs: 0 });
  t.after(() => database.close());
  const { issue, refresh, store } = tokensIn(database, { holdMs: 0 });
  const { refreshToken, login } = await issue('alice');
  const other = new DatabaseSync(path);
  t.after(() => other.close());
  other.exec('begin immediate');
  await assert.rejects(
    refresh(refreshToken),
    (error: unknown) =>
      error instanceof OAuthError &&
      error.code === 'temporarily_unavailable' &&
      error.status === 503 &&
      error.cause instanceof LockTimeout,
  );
  assert.deepEqual(await store.findLogin(login.id), login);
  other.exec('rollback');
  assert.ok(await refresh(refreshToken));
});

test('SqlTokenStore: if a database lock is released between two attempts, the refresh succeeds', async (t) => {
  const path = join(folder(t), 'data.db');
  const database = await oauthDatabase(`sqlite:${path}`, { busyTimeoutMs: 0 });
  t.after(() => database.close());
  const other = new DatabaseSync(path);
  t.after(() => other.close());
  const clock = new (class extends ManualClock {
    override pass(ms: number): Promise<void> {
      return this.sleep(ms); // the clock of the test, which the test can observe
    }
  })();
  const { issue, refresh } = tokensIn(database, { holdMs: 0 }, clock);
  const { refreshToken } = await issue('alice');
  other.exec('begin immediate');
  const work = refresh(refreshToken);
  await clock.advance(0); // the first attempt failed, and the second waits
  assert.equal(clock.pending, 1);
  other.exec('rollback');
  await passed(clock, work);
  assert.notEqual(await work, refreshToken);
});

test('SqlTokenStore: if the delivery of a new token cannot be recorded, the refresh fails, and a retry returns this token', async () => {
  await using database = await oauthDatabase('sqlite::memory:');
  const clock = new ManualClock();
  const store = new SqlTokenStore(() => database, clock);
  let fails = true;
  const half = new Proxy(store, {
    get(target, name: keyof SqlTokenStore) {
      if (name === 'markDelivered' && fails)
        return () => Promise.reject(new OAuthError('temporarily_unavailable'));
      return (target[name] as (...args: unknown[]) => unknown).bind(target);
    },
  });
  const { issue, refresh, codec } = tokensOver(half, { holdMs: 0 }, clock);
  const { refreshToken } = await issue('alice');
  await assert.rejects(refresh(refreshToken), { code: 'temporarily_unavailable' });
  fails = false;
  await clock.advance(60_000);
  assert.equal(await refresh(refreshToken), codec.format(codec.next(codec.parse(refreshToken)!)));
});

test("SqlTokenStore writes no part of any refresh token's secret to the files of the database", async (t) => {
  const path = join(folder(t), 'data.db');
  await using database = await oauthDatabase(`sqlite:${path}`);
  const { issue, refresh, codec, store, clock } = tokensIn(database, { holdMs: 0 });
  const issued: string[] = [];
  for (let index = 0; index < 20; index++) {
    let { refreshToken } = await issue(`user-${index % 5}`);
    issued.push(refreshToken);
    for (let step = 0; step < 5; step++) issued.push((refreshToken = await refresh(refreshToken)));
  }
  await store.revokeAll('user-1', clock.nowMicros());
  const files = [path, `${path}-wal`]
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'latin1'));
  assert.equal(files.length, 2);
  assert.ok(
    files.some((text) => text.includes(codec.parse(issued[0]!)!.id)),
    'the id is there, so the scan can find what is',
  );
  // all texts of twelve consecutive characters of a secret, in each encoding of its bytes
  const chunks = new Set<string>();
  for (const text of issued) {
    const { secret } = codec.parse(text)!;
    const tag = text.split('.')[4]!;
    for (const form of [
      secret.toString('latin1'),
      secret.toString('hex'),
      secret.toString('hex').toUpperCase(),
      secret.toString('base64'),
      secret.toString('base64url'),
      tag,
      Buffer.from(tag, 'base64url').toString('latin1'),
    ]) {
      for (let at = 0; at + 12 <= form.length; at++) chunks.add(form.slice(at, at + 12));
    }
  }
  for (const text of files)
    for (let at = 0; at + 12 <= text.length; at++)
      assert.ok(!chunks.has(text.slice(at, at + 12)), `a part of a token is at ${at}`);
  assert.equal(issued.length, 120);
});

test('SqlTokenStore deletes and inserts with statements in the SQL dialect of each database', async () => {
  for (const dialect of ['sqlite', 'postgres', 'mysql', 'mariadb'] as const) {
    const { database, asked } = failing(dialect, []);
    const store = new SqlTokenStore(() => database, new ManualClock());
    assert.equal(await store.cleanUp(5, 7), 1);
    assert.equal(await store.revokeAll('alice', 9), 1);
    const knowsConflict = dialect === 'sqlite' || dialect === 'postgres';
    const [logins, subject, ...rest] = asked;
    assert.match(
      logins!.sql,
      knowsConflict
        ? /^DELETE FROM svc_oauth_login WHERE id IN \(SELECT id .* LIMIT \?\)$/
        : /^DELETE FROM svc_oauth_login WHERE abs_expires_at <= \? LIMIT \?$/,
    );
    assert.deepEqual(logins!.params, [5, 7]);
    assert.match(subject!.sql, knowsConflict ? /ON CONFLICT \(sub\) DO NOTHING$/ : /^INSERT IGNORE INTO/);
    assert.equal(rest.length, 1);
  }
});

test('SqlTokenStore.rotate() sets the previous hash before the current one, because MySQL evaluates assignments from left to right', async () => {
  const { database, asked } = failing('mysql', []);
  await new SqlTokenStore(() => database, new ManualClock()).rotate({
    id: 'a',
    generation: 0,
    currentHash: 'b',
    keyThumbprint: null,
    nextHash: 'c',
    now: 1,
    idleExpiresAt: 2,
  });
  assert.ok(asked[0]!.sql.indexOf('prev_hash = cur_hash') < asked[0]!.sql.indexOf('cur_hash = ?'));
  assert.deepEqual(asked[0]!.params, ['c', 1, 2, 2, 'a', 0, 'b', 1, 1]);
  await new SqlTokenStore(() => database, new ManualClock()).rotate({
    id: 'a',
    generation: 0,
    currentHash: 'b',
    keyThumbprint: 'k',
    nextHash: 'c',
    now: 1,
    idleExpiresAt: 2,
  });
  assert.match(asked[1]!.sql, /SET cnf_jkt = \?, gen = [^]* AND \(cnf_jkt IS NULL OR cnf_jkt = \?\)$/);
  assert.deepEqual(asked[1]!.params, ['k', 'c', 1, 2, 2, 'a', 0, 'b', 1, 1, 'k']);
});

test('no SQL statement of SqlTokenStore scans a whole table', async () => {
  const { database, asked } = failing('sqlite', []);
  const store = new SqlTokenStore(() => database, new ManualClock());
  await store.addLogin(loginRow());
  await store.findLogin('a');
  await store.readLogin('a');
  await store.rotate({
    id: 'a',
    generation: 0,
    currentHash: 'b',
    keyThumbprint: null,
    nextHash: 'c',
    now: 1,
    idleExpiresAt: 2,
  });
  await store.rotate({
    id: 'a',
    generation: 0,
    currentHash: 'b',
    keyThumbprint: 'k',
    nextHash: 'c',
    now: 1,
    idleExpiresAt: 2,
  });
  await store.noteOverlap('a', 1);
  await store.markDelivered('a', 1, 2);
  await store.revoke('a', 'logout', 1);
  await store.revokeOf('a', 'b', 1);
  await store.revokeAll('a', 1);
  await store.validAfter('a');
  await store.listLogins('a', 1);
  await store.cleanUp(1, 1);
  await using real = await oauthDatabase('sqlite::memory:');
  const scans: string[] = [];
  for (const { sql, params } of asked) {
    const plan = await real.fetchAll(`EXPLAIN QUERY PLAN ${sql}`, params as []);
    if (plan.some(({ detail }) => String(detail).startsWith('SCAN'))) scans.push(sql);
  }
  assert.equal(asked.length, 14);
  assert.deepEqual(scans, []);
});
