import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionLost, DatabaseError } from '../../../src/db/index.ts';
import { findServer, searchMs, type Search, type ServerKind } from '../../../src/db/wire/server-hosts.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import type { PooledConnection } from '../../../src/db/wire/pool-settings.ts';
import type { ServerHost, TargetSession } from '../../../src/db/wire/server-url.ts';

type Kind = 'primary off' | 'primary on' | 'standby on' | 'away' | 'refuses' | 'dies';

/** Runs `findServer` on named fake servers, and records its steps. */
function searched(
  kinds: readonly Kind[],
  target: TargetSession,
): { readonly search: Search<PooledConnection>; readonly done: string[] } {
  const done: string[] = [];
  async function connect({ host, port }: ServerHost): Promise<PooledConnection> {
    const kind = kinds[port - 1]!;
    done.push(`try ${port}`);
    if (kind === 'away') throw new ConnectionLost('connection refused');
    if (kind === 'refuses') throw new DatabaseError('password authentication failed', { sqlstate: '28P01' });
    const session = {
      host,
      port,
      async scalar() {
        if (kind === 'dies') throw new ConnectionLost('gone');
        return kind;
      },
      async close() {
        done.push(`close ${port}`);
      },
      destroy() {
        done.push(`destroy ${port}`);
      },
    };
    return session as unknown as PooledConnection; // findServer() does not use more
  }
  const hosts = kinds.map((_, index) => ({ host: 'h', port: index + 1 }));
  return {
    done,
    search: {
      hosts,
      target,
      connectTimeoutMs: 1_000,
      connect,
      kindOf: async (session) => (await session.scalar('', [], undefined)) as ServerKind,
      clock: new ManualClock(),
    },
  };
}

const LIMIT = { signal: undefined, deadlineMs: Infinity, timeoutMs: 0 };

for (const [kinds, target, done, found] of [
  [['primary off'], 'any', ['try 1'], 1],
  [['away', 'standby on'], 'any', ['try 1', 'try 2'], 2],
  [['standby on', 'primary off'], 'read-write', ['try 1', 'close 1', 'try 2'], 2],
  [['primary on', 'primary off'], 'read-write', ['try 1', 'close 1', 'try 2'], 2],
  [['primary on', 'primary off'], 'primary', ['try 1'], 1],
  [['primary off', 'primary on'], 'read-only', ['try 1', 'close 1', 'try 2'], 2],
  [['primary off', 'standby on'], 'standby', ['try 1', 'close 1', 'try 2'], 2],
  [['primary off', 'standby on'], 'prefer-standby', ['try 1', 'close 1', 'try 2'], 2],
  [['away', 'primary off'], 'prefer-standby', ['try 1', 'try 2', 'close 2', 'try 1', 'try 2'], 2],
  [['dies', 'primary off'], 'read-write', ['try 1', 'destroy 1', 'try 2'], 2],
] as const) {
  test(`findServer() for target_session_attrs=${target} selects server ${found} of "${kinds.join('", "')}" (role, and read-only mode on or off)`, async () => {
    const { search, done: did } = searched(kinds, target);
    const session = (await findServer(search, LIMIT)) as unknown as { readonly port: number };
    assert.deepEqual([did, session.port], [done, found]);
  });
}

test('findServer() throws the error of the last server if none can be used, but tries no other server after a refused login', async () => {
  const none = searched(['primary off', 'standby on'], 'read-write');
  assert.ok(await findServer(none.search, LIMIT));
  const wrong = searched(['away', 'standby on'], 'primary');
  await assert.rejects(
    findServer(wrong.search, LIMIT),
    (error) =>
      error instanceof ConnectionLost &&
      error.sqlstate === '08001' &&
      /port 2 is a standby, but target_session_attrs requires "primary"/.test(error.message),
  );
  for (const target of ['any', 'prefer-standby'] as const) {
    const refused = searched(['away', 'refuses', 'primary off'], target);
    await assert.rejects(
      findServer(refused.search, LIMIT),
      (error) => error instanceof DatabaseError && error.sqlstate === '28P01',
    );
    assert.deepEqual(refused.done, ['try 1', 'try 2']);
  }
});

test('searchMs() returns the sum of the time limits of all hosts, or twice this sum for the target "prefer-standby"', () => {
  const { search } = searched(['away', 'away', 'away'], 'any');
  assert.deepEqual([searchMs(search), searchMs({ ...search, target: 'prefer-standby' })], [3_000, 6_000]);
});
