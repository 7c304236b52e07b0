import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionLost, openDatabase } from '../../../src/db/index.ts';
import { PostgresListener } from '../../../src/db/postgres/listener.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { fault } from '../../contract/database.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { fakePostgres } from '../../support/fake-postgres.ts';
import type { PostgresSession } from '../../../src/db/postgres/url.ts';

/** A fake session that listens until the test ends it. */
class FakeSession {
  readonly scripts: string[] = [];
  pings = 0;
  isDead = false;
  isClosed = false;
  onNotification: PostgresSession['onNotification'];
  onLost: PostgresSession['onLost'];
  isDying: () => boolean = () => false;

  async script(text: string): Promise<void> {
    if (this.isClosed) throw new ConnectionLost('closed');
    this.scripts.push(text);
    if (this.isDying()) this.lose(); // closed after the reply
  }
  async ping(): Promise<void> {
    this.pings++;
    if (this.isDead) throw new ConnectionLost('no answer');
  }
  async close(): Promise<void> {
    this.isClosed = true;
  }
  destroy(): void {
    this.isClosed = true;
  }
  lose(): void {
    this.isClosed = true;
    this.onLost?.(new ConnectionLost('terminated'));
  }
}

function bench() {
  const clock = new ManualClock();
  const sessions: FakeSession[] = [];
  const state = { isAway: false, attempts: 0, isDying: () => false };
  const { logger, events } = collectedLog();
  const connect = async (): Promise<PostgresSession> => {
    state.attempts++;
    if (state.isAway) throw new ConnectionLost('connection refused');
    const session = new FakeSession();
    session.isDying = () => state.isDying();
    sessions.push(session);
    return session as unknown as PostgresSession; // the listener no longer uses it
  };
  return {
    clock,
    sessions,
    state,
    events,
    listener: new PostgresListener({ connect, connectTimeoutMs: 1_000, clock, log: logger }),
  };
}

test('PostgresListener sends one LISTEN for each channel, and closes its connection after the last listener was removed', async () => {
  const { listener, sessions, clock } = bench();
  const received: string[] = [];
  const first = await listener.listen(
    'a"b',
    (payload, { channel, processId }) => received.push(`1 ${channel} ${payload} ${processId}`),
    {},
  );
  const second = await listener.listen('a"b', (payload) => received.push(`2 ${payload}`), {});
  const other = await listener.listen('Other', (payload) => received.push(`3 ${payload}`), {});
  const [session] = sessions;
  assert.deepEqual([sessions.length, session!.scripts], [1, ['listen "a""b"', 'listen "Other"']]);
  session!.onNotification!('a"b', 'x', 7);
  session!.onNotification!('unknown', 'x', 7);
  assert.deepEqual(received, ['1 a"b x 7', '2 x']);
  await first[Symbol.asyncDispose]();
  await first[Symbol.asyncDispose]();
  session!.onNotification!('a"b', 'y', 7);
  assert.deepEqual(received.slice(2), ['2 y']);
  await second[Symbol.asyncDispose]();
  assert.deepEqual(session!.scripts.at(-1), 'unlisten "a""b"');
  await other[Symbol.asyncDispose]();
  assert.deepEqual([session!.isClosed, clock.pending], [true, 0]);
  await listener.listen('again', () => undefined, {});
  assert.equal(sessions.length, 2);
  await listener.close();
});

test('when a listener throws, PostgresListener logs the exception and continues', async () => {
  const { listener, sessions, events } = bench();
  const received: string[] = [];
  await listener.listen(
    'c',
    () => {
      throw new Error('mine');
    },
    {},
  );
  await listener.listen('c', async () => Promise.reject(new Error('mine too')), {});
  await listener.listen('c', (payload) => received.push(payload), {});
  sessions[0]!.onNotification!('c', 'x', 1);
  await new Promise(setImmediate);
  assert.deepEqual(
    [received, events.filter(({ event }) => event === 'notification_failed').length],
    [['x'], 2],
  );
  await listener.close();
});

test('when its connection is lost, PostgresListener reconnects after pauses, listens to all channels again, and calls onReconnect()', async () => {
  const { listener, sessions, state, clock } = bench();
  let reconnects = 0;
  const received: string[] = [];
  await listener.listen('a', (payload) => received.push(payload), { onReconnect: () => reconnects++ });
  await listener.listen('b', () => undefined, {
    onReconnect: () => {
      throw new Error('mine');
    },
  });
  state.isAway = true;
  sessions[0]!.lose();
  await new Promise(setImmediate);
  await clock.advance(10_000);
  assert.ok(state.attempts > 5 && state.attempts < 30, `${state.attempts} attempts`);
  state.isAway = false;
  await clock.advance(1_000);
  assert.deepEqual([sessions.length, sessions[1]!.scripts, reconnects], [2, ['listen "a"', 'listen "b"'], 1]);
  sessions[1]!.onNotification!('a', 'again', 1);
  assert.deepEqual(received, ['again']);
  await listener.close();
  assert.equal(clock.pending, 0);
});

test('while the server is down, PostgresListener.listen() rejects, and removing a listener does not wait for the server', async () => {
  const { listener, sessions, state, clock } = bench();
  let reconnects = 0;
  const onReconnect = (): number => reconnects++;
  const kept = await listener.listen('kept', () => undefined, { onReconnect });
  const dropped = await listener.listen('dropped', () => undefined, { onReconnect });
  state.isAway = true;
  sessions[0]!.lose();
  await new Promise(setImmediate);
  await assert.rejects(
    listener.listen('new', () => undefined, {}),
    ConnectionLost,
  );
  await dropped[Symbol.asyncDispose]();
  state.isAway = false;
  // connects before the next attempt to reconnect
  const later = await listener.listen('later', () => undefined, { onReconnect });
  assert.deepEqual(sessions[1]!.scripts, ['listen "kept"', 'listen "later"']);
  await clock.advance(2_000);
  assert.deepEqual([sessions.length, reconnects], [2, 1]); // "later" has missed nothing
  sessions[1]!.lose();
  await Promise.all([kept[Symbol.asyncDispose](), later[Symbol.asyncDispose]()]);
  await clock.advance(2_000);
  assert.equal(sessions.at(-1)!.isClosed, true);
  await listener.close();
  assert.equal(clock.pending, 0);
});

test('when the connection ends right after LISTEN, PostgresListener.listen() rejects, and earlier listeners get a new connection', async () => {
  const { listener, sessions, clock, state } = bench();
  let dying = 0;
  state.isDying = () => dying-- > 0;
  dying = 1;
  await assert.rejects(
    listener.listen('a', () => undefined, {}),
    ConnectionLost,
  );
  const received: string[] = [];
  let reconnects = 0;
  await listener.listen('a', (payload) => received.push(payload), { onReconnect: () => reconnects++ });
  assert.equal(sessions.length, 2);
  dying = 1;
  sessions[1]!.lose();
  await new Promise(setImmediate);
  await clock.advance(1_000);
  assert.deepEqual([sessions.length, sessions[3]?.scripts, reconnects], [4, ['listen "a"'], 1]);
  sessions[3]!.onNotification!('a', 'heard', 1);
  assert.deepEqual(received, ['heard']);
  await listener.close();
  assert.equal(clock.pending, 0);
});

test('PostgresListener pings its server twice a minute, and opens a new connection when the server does not answer', async () => {
  const { listener, sessions, clock } = bench();
  let reconnects = 0;
  await listener.listen('a', () => undefined, { onReconnect: () => reconnects++ });
  await clock.advance(90_000);
  assert.equal(sessions[0]!.pings, 3);
  sessions[0]!.isDead = true;
  await clock.advance(31_000);
  assert.deepEqual(
    [sessions.length, sessions[0]!.isClosed, sessions[1]!.scripts, reconnects],
    [2, true, ['listen "a"'], 1],
  );
  await listener.close();
});

test('PostgresListener.listen() rejects when the server is unreachable, or when the channel name is empty', async () => {
  const { listener, state } = bench();
  state.isAway = true;
  await assert.rejects(
    listener.listen('a', () => undefined, {}),
    ConnectionLost,
  );
  state.isAway = false;
  await assert.rejects(
    listener.listen('', () => undefined, {}),
    fault('E_DB_IDENTIFIER'),
  );
  await listener.listen('a', () => undefined, {});
  await listener.close();
  await assert.rejects(
    listener.listen('a', () => undefined, {}),
    ConnectionLost,
  );
});

test('PostgresListener.close() stops further attempts to reconnect to an unreachable server', async () => {
  const { listener, sessions, state, clock } = bench();
  await listener.listen('a', () => undefined, {});
  state.isAway = true;
  sessions[0]!.lose();
  await clock.advance(500);
  await listener.close();
  assert.equal(clock.pending, 0);
});

for (const [what, query, pid, isRefused] of [
  ['a server', '', '0', false],
  ['a server, without a statement cache', '?statement_cache=0', '7', false],
  ['a pooler that changes the session', '?statement_cache=0', '8', true],
] as const)
  test(`listen() of a database opens its own connection, and needs one session (${what})`, async (t) => {
    const none = { columns: [], rows: [], tag: 'LISTEN' };
    const { port, texts } = await fakePostgres(t, {
      listen: none,
      unlisten: none,
      'select pg_catalog.pg_backend_pid()': { columns: [['pid', 23]], rows: [[pid]] },
    });
    await using db = await openDatabase(`postgres://u@127.0.0.1:${port}/d${query}`, { pool: { max: 1 } });
    // the only connection of the pool is in use
    await db.transaction(async () => {
      const listening = db.listen('jobs', () => undefined);
      if (isRefused) await assert.rejects(listening, fault('E_DB_OPTION'));
      else await (await listening)[Symbol.asyncDispose]();
    });
    assert.equal(texts.includes('listen "jobs"'), !isRefused);
  });
