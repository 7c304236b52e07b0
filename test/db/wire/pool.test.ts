/**
 * The pool: order of callers, broken connections, and servers that stop and return.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ConnectionLost,
  DatabaseError,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
} from '../../../src/db/index.ts';
import { Pool } from '../../../src/db/wire/pool.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { fault } from '../../contract/database.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { FakeConnection, FakeServer } from '../../support/fake-pooled.ts';
import { seeded } from '../../support/random.ts';
import { turn } from '../../support/turn.ts';
import type { PoolEventKind, PoolDeps, PooledConnection } from '../../../src/db/wire/pool-settings.ts';

interface Bench {
  readonly pool: Pool<PooledConnection>;
  readonly server: FakeServer;
  readonly clock: ManualClock;
  readonly log: ReturnType<typeof collectedLog>;
  readonly events: PoolEventKind[];
}

function bench(deps: Partial<PoolDeps<PooledConnection>> = {}): Bench {
  const [server, clock, log, events] = [
    new FakeServer(),
    new ManualClock(),
    collectedLog(),
    [] as PoolEventKind[],
  ];
  const pool = new Pool({
    max: 10,
    min: 0,
    idleMs: 60_000,
    maxLifetimeMs: 1_800_000,
    acquireTimeoutMs: 5_000,
    maxWaiting: 1_000,
    connectTimeoutMs: 10_000,
    closeMs: 10_000,
    reset: 'transaction',
    leakAfterMs: 0,
    connect: server.connect(() => clock.monotonicMs()),
    clock,
    log: log.logger,
    random: () => 0.5,
    onEvent: (kind) => void events.push(kind),
    ...deps,
  });
  return { pool, server, clock, log, events };
}

const limit = (more: { signal?: AbortSignal; timeoutMs?: number } = {}, clock?: ManualClock) => ({
  signal: more.signal,
  deadlineMs: more.timeoutMs === undefined ? Infinity : clock!.monotonicMs() + more.timeoutMs,
  timeoutMs: more.timeoutMs ?? 0,
});
// bench() creates only this kind
const fake = (connection: PooledConnection): FakeConnection => connection as unknown as FakeConnection;

async function lend(pool: Pool<PooledConnection>, count: number): Promise<PooledConnection[]> {
  return Promise.all(Array.from({ length: count }, () => pool.acquire(undefined)));
}

// ── lending ──

test('Pool.acquire() returns the connection that was released last, at once and without a promise', async () => {
  const { pool, server } = bench();
  const [first, second] = await lend(pool, 2);
  assert.notEqual(first, second);
  pool.release(first!);
  pool.release(second!);
  assert.equal(pool.acquire(undefined), second);
  assert.equal(pool.acquire(undefined), first);
  assert.deepEqual([server.attempts.length, pool.load], [2, { inUse: 2, idle: 0, waiting: 0 }]);
  await Promise.all([first!, second!].map((connection) => pool.release(connection)));
  await pool.close();
});

test('Pool opens at most "max" connections, and gives them to callers in the order of the calls', async () => {
  const { pool, server } = bench({ max: 2 });
  const held = await lend(pool, 2);
  const served: number[] = [];
  const waiting = Array.from({ length: 5 }, async (_, index) => {
    const connection = await pool.acquire(undefined);
    served.push(index);
    return connection;
  });
  await turn();
  assert.deepEqual([server.open.size, pool.load], [2, { inUse: 2, idle: 0, waiting: 5 }]);
  for (const connection of held) pool.release(connection);
  for (const each of waiting) pool.release(await each);
  assert.deepEqual(served, [0, 1, 2, 3, 4]);
  assert.deepEqual([server.open.size, pool.load], [2, { inUse: 0, idle: 2, waiting: 0 }]);
});

test('Pool ignores the release of a connection that was already released or belongs to another pool', async () => {
  const { pool } = bench({ max: 1 });
  const [connection] = await lend(pool, 1);
  pool.release(connection!);
  pool.release(connection!);
  pool.release({} as PooledConnection);
  assert.deepEqual(pool.load, { inUse: 0, idle: 1, waiting: 0 });
  assert.equal(pool.acquire(undefined), connection);
  assert.ok(pool.acquire(undefined) instanceof Promise);
});

test('when a caller has waited too long, Pool throws PoolTimeout with the numbers of connections and waiting callers', async () => {
  const { pool, clock, events } = bench({ max: 1 });
  await lend(pool, 1);
  const late = assert.rejects(
    async () => pool.acquire(undefined),
    (error) => {
      assert.ok(error instanceof PoolTimeout && error.sqlstate === '53300');
      assert.deepEqual(error.load, { inUse: 1, idle: 0, waiting: 1 });
      assert.match(
        error.message,
        /none became free within 5000 ms \(1 in use, 0 being opened or checked, maximum 1; 1 waiting\)$/,
      );
      return true;
    },
  );
  await clock.advance(5_000);
  await late;
  assert.deepEqual([pool.load.waiting, events], [0, ['opened', 'timeout']]);
});

test('Pool lets each caller wait for up to the full "acquireTimeoutMs"', async () => {
  const { pool, clock } = bench({ max: 1 });
  await lend(pool, 1);
  const ended: number[] = [];
  for (const index of [0, 1, 2]) {
    void Promise.resolve(pool.acquire(undefined)).catch(() => ended.push(clock.monotonicMs() - index * 100));
    await clock.advance(100);
  }
  await clock.advance(6_000);
  assert.deepEqual(ended, [5_000, 5_000, 5_000]);
});

test('when "maxWaiting" callers wait for connections in use, Pool refuses further callers at once', async () => {
  const { pool, events } = bench({ max: 2, maxWaiting: 1 });
  const [first] = await lend(pool, 2);
  const waiting = pool.acquire(undefined);
  assert.throws(
    () => pool.acquire(undefined),
    (error) => error instanceof PoolTimeout && error.load?.waiting === 1,
  );
  assert.deepEqual(events.at(-1), 'refused');
  pool.release(first!);
  assert.equal(await waiting, first);
  const none = bench({ max: 1, maxWaiting: 0 });
  const [only] = await lend(none.pool, 1); // it waits for its own connection to open
  assert.throws(() => none.pool.acquire(undefined), PoolTimeout);
  none.pool.release(only!);
  await none.clock.advance(2_000);
  assert.equal(await none.pool.acquire(undefined), only); // it waits for the check of its connection
});

test("Pool removes a caller from the queue when the caller's signal is aborted or its time limit is reached", async () => {
  const { pool, clock } = bench({ max: 1 });
  const [held] = await lend(pool, 1);
  const abort = new AbortController();
  const aborted = assert.rejects(async () => pool.acquire(limit({ signal: abort.signal })), QueryCanceled);
  const late = assert.rejects(async () => pool.acquire(limit({ timeoutMs: 50 }, clock)), QueryTimeout);
  const patient = pool.acquire(undefined);
  assert.equal(pool.load.waiting, 3);
  abort.abort();
  await aborted;
  await clock.advance(50);
  await late;
  assert.equal(pool.load.waiting, 1);
  await assert.rejects(async () => pool.acquire(limit({ signal: abort.signal })), QueryCanceled);
  pool.release(held!);
  assert.equal(await patient, held);
});

// ── maintenance ──

test('Pool checks a connection that was idle for more than a second, and gives the caller another connection if the check fails', async () => {
  const { pool, server, clock } = bench();
  const [first] = await lend(pool, 1);
  pool.release(first!);
  await clock.advance(1_000);
  assert.equal(pool.acquire(undefined), first);
  pool.release(first!);
  await clock.advance(1_001);
  assert.equal(await pool.acquire(undefined), first);
  assert.deepEqual(fake(first!).calls, ['ping']);
  pool.release(first!);
  await clock.advance(1_001);
  server.answers = () => new Promise(() => undefined); // a network that drops everything
  const next = pool.acquire(undefined);
  await clock.advance(2_000);
  assert.notEqual(await next, first);
  assert.equal(fake(first!).isBroken, true);
  assert.equal(server.open.size, 1);
});

test('Pool rolls back the open transaction of a released connection, and logs a warning at most once a minute', async () => {
  const { pool, clock, log, events } = bench({ max: 1, leakAfterMs: 30_000 });
  for (let round = 0; round < 3; round++) {
    const connection = await pool.acquire(undefined);
    fake(connection).isInTransaction = true;
    pool.release(connection);
    assert.deepEqual(pool.load, { inUse: 0, idle: 0, waiting: 0 });
    await turn();
    assert.deepEqual([pool.load.idle, fake(connection).calls.at(-1)], [1, 'rollback']);
  }
  assert.equal(events.filter((kind) => kind === 'left_open').length, 3);
  const warnings = log.events.filter(({ event }) => event === 'connection_left_in_use');
  assert.equal(warnings.length, 1);
  assert.match(String(warnings[0]!['acquired']), /pool\.test\.ts/);
  await clock.advance(60_000);
  const connection = await pool.acquire(undefined);
  fake(connection).inFlight = 1;
  pool.release(connection);
  await turn();
  assert.equal(fake(connection).calls.at(-1), 'ping'); // queued after the statement
  assert.equal(log.events.filter(({ event }) => event === 'connection_left_in_use').length, 2);
});

test('Pool closes a released connection if its clean-up fails', async () => {
  for (const answers of [() => Promise.reject(new Error('no')), () => new Promise<void>(() => undefined)]) {
    const { pool, server, clock } = bench({ max: 1 });
    const [connection] = await lend(pool, 1);
    fake(connection!).isInTransaction = true;
    server.answers = answers;
    pool.release(connection!);
    const next = pool.acquire(undefined);
    await clock.advance(5_000);
    assert.notEqual(await next, connection);
    assert.equal(server.open.size, 1);
  }
});

test('with the option reset: "full", Pool resets all session state of a connection before the next caller gets it', async () => {
  const { pool } = bench({ reset: 'full' });
  const [connection] = await lend(pool, 1);
  pool.release(connection!);
  await turn();
  assert.deepEqual([fake(connection!).calls, pool.load.idle], [['reset'], 1]);
});

test('Pool never gives a caller a connection that is broken or stale', async () => {
  const { pool, server, events, log } = bench();
  const [first, second, third] = await lend(pool, 3);
  pool.release(first!);
  fake(first!).lose();
  assert.equal(pool.load.idle, 0);
  fake(second!).lose();
  pool.release(second!);
  assert.equal(pool.load.idle, 0);
  fake(third!).isStale = true;
  pool.release(third!);
  assert.equal(fake(third!).calls.at(-1), 'close');
  assert.equal(server.open.size, 0);
  assert.equal(events.filter((kind) => kind === 'lost').length, 2);
  assert.equal(log.events.filter(({ level }) => level === 'error' || level === 'warn').length, 0);
  const [fourth] = await lend(pool, 1);
  pool.release(fourth!);
  fake(fourth!).isStale = true;
  assert.notEqual(await pool.acquire(undefined), fourth);
});

test('Pool closes connections that were idle for a minute, but keeps or opens at least "min" connections', async () => {
  const { pool, server, clock } = bench({ min: 2 });
  pool.fill();
  await turn();
  assert.deepEqual([server.open.size, pool.load.idle], [2, 2]);
  for (const connection of await lend(pool, 5)) pool.release(connection);
  assert.equal(pool.load.idle, 5);
  await clock.advance(59_000);
  assert.equal(pool.load.idle, 5);
  await clock.advance(2_000);
  assert.equal(pool.load.idle, 2);
  [...server.open][0]!.lose();
  await turn();
  assert.deepEqual([server.open.size, pool.load.idle], [2, 2]);
});

test('Pool closes connections when they reach their maximum age (plus or minus a tenth), but not while a caller uses them', async () => {
  const { pool, server, clock } = bench({ random: seededRandom(1), max: 3 });
  const connections = await lend(pool, 3);
  pool.release(connections[0]!);
  const ended: number[] = [];
  for (let minute = 0; minute < 40; minute++) {
    await clock.advance(60_000);
    if (connections.length > 1 && minute === 36) pool.release(connections[1]!);
    ended.push(3 - server.open.size);
    if (minute < 26) pool.release(await pool.acquire(undefined)); // keeps it from being idle for long
  }
  assert.deepEqual([ended[36], ended[39]], [2, 2]);
  assert.equal(ended[35], 1);
  assert.equal(fake(connections[2]!).isBroken, false);
});

function seededRandom(seed: number): () => number {
  const next = seeded(seed);
  return () => next(1_000_000) / 1_000_000;
}

test('Pool reports once that a caller has used a connection for longer than "leakAfterMs"', async () => {
  const { pool, clock, log, events } = bench({ leakAfterMs: 30_000 });
  async function theOneWhoKeepsIt(): Promise<void> {
    await pool.acquire(undefined);
  }
  await theOneWhoKeepsIt();
  await clock.advance(29_000);
  assert.equal(events.includes('held_long'), false);
  await clock.advance(60_000);
  const reports = log.events.filter(({ event }) => event === 'connection_held_long');
  assert.equal(reports.length, 1);
  assert.match(String(reports[0]!['acquired']), /theOneWhoKeepsIt/);
});

// ── a server that stops and returns ──

test('Pool tries to connect less than 20 times a second while its server is stopped, and connects within two seconds after the server runs again', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { pool, server, clock } = bench({ random: seededRandom(seed), acquireTimeoutMs: 60_000 });
    for (const connection of await lend(pool, 10)) pool.release(connection);
    server.refusal = () => new ConnectionLost('connection refused');
    server.die();
    const before = server.attempts.length;
    const callers = Array.from({ length: 100 }, async () => pool.release(await pool.acquire(undefined)));
    await clock.advance(10_000);
    const attempts = server.attempts.slice(before);
    const most = Math.max(
      ...attempts.map((atMs) => attempts.filter((other) => other >= atMs && other < atMs + 1_000).length),
    );
    assert.ok(most < 20, `${most} in a second`);
    assert.ok(attempts.length > 10, 'it goes on trying');
    server.refusal = () => undefined;
    const backMs = clock.monotonicMs();
    while (pool.load.waiting > 0) await clock.advance(10);
    assert.ok(clock.monotonicMs() - backMs <= 2_000);
    await Promise.all(callers);
    assert.ok(server.open.size <= 10);
    await pool.close();
    assert.equal(clock.pending, 0);
  }
});

test('Pool counts an attempt to connect as failed if isStale is true for the new connection', async () => {
  const { pool, server, clock, events } = bench({ acquireTimeoutMs: 1_000 });
  server.areStale = true;
  const refused = assert.rejects(
    async () => pool.acquire(undefined),
    (error) => error instanceof PoolTimeout && error.cause instanceof ConnectionLost,
  );
  await turn();
  await clock.advance(1_000);
  await refused;
  assert.ok(server.attempts.length < 20, `${server.attempts.length} attempts`);
  assert.deepEqual([server.open.size, events.includes('opened')], [0, false]);
});

test('Pool makes no attempt to connect while no caller waits for a connection', async () => {
  const { pool, server, clock } = bench({ acquireTimeoutMs: 100 });
  server.refusal = () => new ConnectionLost('connection refused');
  const refused = assert.rejects(
    async () => pool.acquire(undefined),
    (error) =>
      error instanceof PoolTimeout &&
      error.cause instanceof ConnectionLost &&
      /connection refused/.test(error.message),
  );
  await turn();
  await clock.advance(100);
  await refused;
  const { length } = server.attempts;
  await clock.advance(60_000);
  assert.ok(server.attempts.length <= length + 1);
});

test('after a permanent refusal by the server, Pool rejects all callers and does not retry by itself', async () => {
  const { pool, server, clock } = bench({ min: 3 });
  const wrong = new DatabaseError('password authentication failed', { sqlstate: '28P01' });
  server.refusal = () => wrong;
  const all = await Promise.allSettled(Array.from({ length: 20 }, () => pool.acquire(undefined)));
  assert.ok(all.every((each) => each.status === 'rejected' && each.reason === wrong));
  const { length } = server.attempts;
  assert.throws(() => pool.acquire(undefined), wrong);
  await clock.advance(60_000);
  assert.equal(server.attempts.length, length);
  server.refusal = () => undefined;
  assert.ok(await pool.acquire(undefined));
});

test('Pool gives released connections to waiting callers, even if no further connection can be opened', async () => {
  const { pool, server } = bench();
  const [held] = await lend(pool, 1);
  server.refusal = () => new DatabaseError('no more', { sqlstate: '28000' });
  const waiting = pool.acquire(undefined);
  await turn();
  pool.release(held!);
  assert.equal(await waiting, held);
});

// ── ending ──

test('Pool.close() refuses new callers, serves waiting callers, waits for connections in use, and leaves no timer', async () => {
  const { pool, server, clock } = bench({ max: 1 });
  const [held] = await lend(pool, 1);
  const waiting = pool.acquire(undefined);
  const closing = pool.close();
  assert.equal(pool.close(), closing);
  assert.throws(() => pool.acquire(undefined), fault('E_DB_CLOSED'));
  await turn();
  pool.release(held!);
  assert.equal(await waiting, held);
  pool.release(held!);
  await closing;
  assert.deepEqual([server.open.size, clock.pending, fake(held!).calls], [0, 0, ['close']]);
});

test('Pool.close() ends connections that are not released in time, and rejects waiting callers', async () => {
  const { pool, server, clock, log } = bench({ max: 1, acquireTimeoutMs: 60_000 });
  const [held] = await lend(pool, 1);
  const sentAway = assert.rejects(async () => pool.acquire(undefined), fault('E_DB_CLOSED'));
  const closing = pool.close();
  await clock.advance(10_000);
  await closing;
  await sentAway;
  assert.deepEqual([server.open.size, fake(held!).isBroken], [0, true]);
  assert.ok(log.events.some(({ event }) => event === 'database_closed_in_use'));
  pool.release(held!);
  assert.equal(clock.pending, 0);
});

test('Pool.close() does not wait for a connection that is being opened if no caller waits for it', async () => {
  const { pool, server, clock } = bench({ min: 2 });
  server.delay = () => new Promise(() => undefined);
  pool.fill();
  await pool.close();
  assert.deepEqual([server.open.size, clock.pending], [0, 0]);
  const down = bench();
  down.server.refusal = () => new ConnectionLost('refused');
  const refused = assert.rejects(async () => down.pool.acquire(undefined), PoolTimeout);
  await turn();
  const closing = down.pool.close();
  await down.clock.advance(5_000);
  await refused;
  await closing;
  assert.equal(down.clock.pending, 0);
});

test('Pool.close() also closes a connection whose opening has not yet finished', async () => {
  const [gate, server] = [Promise.withResolvers<void>(), new FakeServer()];
  const { pool, clock } = bench({
    min: 1,
    async connect() {
      await gate.promise; // regardless of the signal
      const connection = new FakeConnection(server, 1);
      server.open.add(connection);
      return connection as unknown as PooledConnection;
    },
  });
  pool.fill();
  const closing = pool.close();
  gate.resolve();
  await closing;
  for (let count = 0; count < 5; count++) await turn();
  assert.deepEqual([server.open.size, pool.load, clock.pending], [0, { inUse: 0, idle: 0, waiting: 0 }, 0]);
});

test('Pool logs only one warning for each outage of its server', async () => {
  const { pool, server, clock, log } = bench({ max: 1 });
  for (let outage = 1; outage <= 2; outage++) {
    server.refusal = () => new ConnectionLost('refused');
    const refused = assert.rejects(async () => pool.acquire(undefined), PoolTimeout);
    await clock.advance(5_000);
    await refused;
    server.refusal = () => undefined;
    await clock.advance(10_000);
    const connection = await pool.acquire(undefined);
    fake(connection).lose();
    pool.release(connection);
    assert.deepEqual(log.events.filter(({ event }) => event === 'database_not_reached').length, outage);
  }
});

test('Pool keeps a connection that was cleaned up in time, even if its next use takes longer than the limit for the clean-up', async () => {
  const { pool, clock } = bench({ max: 1 });
  const connection = await pool.acquire(undefined);
  fake(connection).isInTransaction = true;
  pool.release(connection);
  await turn();
  assert.equal(pool.acquire(undefined), connection);
  await clock.advance(60_000);
  assert.equal(fake(connection).isBroken, false);
  pool.release(connection);
});

test('Pool checks two connections that were idle for long, and gives both to callers when the server answers', async () => {
  const { pool, server, clock } = bench({ max: 2 });
  const connections = await lend(pool, 2);
  for (const connection of connections) pool.release(connection);
  for (let use = 1; use <= 3; use++) {
    await clock.advance(50_000);
    const lent = await lend(pool, 2);
    assert.deepEqual(new Set(lent), new Set(connections));
    for (const connection of lent)
      assert.deepEqual(
        fake(connection).calls,
        Array.from({ length: use }, () => 'ping'),
      );
    for (const connection of lent) pool.release(connection);
  }
  assert.equal(server.attempts.length, 2);
});

// ── comparison with a plain reference ──

/** Invariants after every step. */
function assertSound(
  { pool, server }: Bench,
  held: ReadonlyMap<PooledConnection, unknown>,
  waiting: number,
  max: number,
): void {
  assert.equal(pool.load.inUse, held.size);
  assert.equal(pool.load.waiting, waiting);
  assert.ok(pool.size <= max, `${pool.size} connections`);
  assert.ok(server.open.size <= max, `${server.open.size} on the server`);
  if (pool.load.idle > 0)
    assert.ok(waiting <= pool.size - pool.load.idle - held.size, 'somebody waits beside an idle connection');
}

for (let seed = 1; seed <= 60; seed++) {
  test(`in 400 random steps from seed ${seed}, Pool gives no connection to two callers, settles every call, and does not exceed its limits`, async () => {
    const below = seeded(seed);
    const settings = {
      max: 1 + below(5),
      min: below(2),
      idleMs: 3_000,
      maxLifetimeMs: 20_000,
      maxWaiting: 3 + below(20),
      reset: below(4) === 0 ? ('full' as const) : ('transaction' as const),
    };
    const all = bench({ ...settings, random: () => below(1_000) / 1_000 });
    const { pool, server, clock } = all;
    const held = new Map<PooledConnection, number>();
    const waiting: number[] = [];
    let next = 0;
    let settled = 0;
    const got = (connection: PooledConnection, id: number): void => {
      assert.ok(!held.has(connection), 'lent twice');
      held.set(connection, id);
    };
    const ask = (): void => {
      const id = next++;
      const abort = new AbortController();
      try {
        const answer = pool.acquire(below(4) === 0 ? limit({ signal: abort.signal }) : undefined);
        if (!(answer instanceof Promise)) {
          settled++;
          return got(answer, id);
        }
        waiting.push(id);
        if (below(4) === 0) void clock.sleep(below(200)).then(() => abort.abort());
        answer
          .then(
            (connection) => {
              assert.equal(waiting[0], id, 'served out of turn');
              waiting.shift();
              got(connection, id);
            },
            () => void waiting.splice(waiting.indexOf(id), 1),
          )
          .finally(() => settled++)
          .catch((error) => {
            broken ??= error;
          });
      } catch (error) {
        settled++;
        assert.ok(error instanceof PoolTimeout || error instanceof DatabaseError, String(error));
      }
    };
    let broken: unknown;
    const steps: readonly (() => void | Promise<void>)[] = [
      ask,
      ask,
      ask,
      ask,
      ...Array.from({ length: 4 }, () => () => {
        const connection = [...held.keys()][below(Math.max(1, held.size))];
        if (connection === undefined) return;
        if (below(6) === 0) fake(connection).isInTransaction = true;
        if (below(8) === 0) fake(connection).inFlight = 1;
        if (below(20) === 0) fake(connection).isStale = true;
        held.delete(connection);
        pool.release(connection);
      }),
      () => {
        const open = [...server.open];
        open[below(Math.max(1, open.length))]?.lose();
      },
      () => {
        if (below(5) === 0) server.die();
      },
      () => {
        const roll = below(5);
        server.refusal =
          roll === 0
            ? () => new ConnectionLost('down')
            : roll === 1
              ? () => new DatabaseError('no', { sqlstate: '28P01' })
              : () => undefined;
      },
      () => {
        const ms = below(50);
        server.delay = below(2) === 0 ? async () => undefined : () => clock.sleep(ms);
      },
      () => {
        const ms = below(4_000);
        server.answers = below(3) > 0 ? async () => undefined : () => clock.sleep(ms);
      },
      () => clock.advance(below(300)),
      () => clock.advance(below(2_000)),
      turn,
      turn,
    ];
    for (let step = 0; step < 400; step++) {
      await steps[below(steps.length)]!();
      await Promise.resolve();
      if (step % 8 === 0) {
        await turn();
        assertSound(all, held, waiting.length, settings.max);
      }
      if (broken !== undefined) throw broken;
    }
    server.refusal = () => undefined;
    server.delay = server.answers = async () => undefined;
    const end = pool.close();
    while (waiting.length > 0 || held.size > 0) {
      for (const connection of [...held.keys()]) {
        held.delete(connection);
        pool.release(connection);
      }
      await clock.advance(100);
    }
    await clock.advance(10_000);
    await end;
    assert.deepEqual([settled, server.open.size, pool.load], [next, 0, { inUse: 0, idle: 0, waiting: 0 }]);
  });
}

test('when the server ends idle connections at once, Pool pauses between attempts to reach "min" connections, but callers do not wait for these pauses', async () => {
  const { pool, server, clock } = bench({ min: 5 });
  pool.fill();
  for (let step = 0; step < 600; step++) {
    await clock.advance(100);
    server.die();
  }
  const { attempts } = server;
  const most = Math.max(
    ...attempts.map((atMs) => attempts.filter((other) => other >= atMs && other < atMs + 1_000).length),
  );
  assert.ok(most < 20, `${most} attempts within a second`);
  assert.ok(
    attempts.length > 30 && attempts.length < 120,
    `${attempts.length} attempts in a minute: it goes on, slowly`,
  );
  const beforeMs = clock.monotonicMs();
  const [connection] = await lend(pool, 1);
  assert.equal(clock.monotonicMs(), beforeMs, 'a caller is served at once');
  pool.release(connection!);
  for (let step = 0; step < 100 && pool.load.idle < 5; step++) await clock.advance(100);
  assert.equal(pool.load.idle, 5, 'all of them, once they last');
  await pool.close();
  assert.equal(clock.pending, 0);
});
