/**
 * Redis with callers that give up: commands are abandoned at any moment, servers are paused and killed, and
 * no reply may reach another caller. At least 100,000 commands are abandoned, whatever SOAK_SECONDS is
 * (default 60).
 *
 *   node --conditions=svc-source test/soak/redis.ts
 */
import assert from 'node:assert/strict';
import { systemClock } from '../../src/base/clock.ts';
import {
  ConnectionLost,
  DatabaseError,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
  Redis,
  RedisRateLimitStore,
  RedisRecordStore,
} from '../../src/db/index.ts';
import { seeded } from '../support/random.ts';
import { RedisServer } from '../support/redis-server.ts';
import { scoped, SECONDS, together } from '../support/soak.ts';

const ABANDONED = 100_000;
const CALLERS = 100;
/** Errors of a caller that has given up. */
const GIVEN_UP = [QueryCanceled, QueryTimeout, PoolTimeout];
const random = seeded(1);

/** Abandons commands by a signal or by a time limit. Each reply names its command. */
async function abandoned(redis: Redis, count: number): Promise<{ given: number; answered: number }> {
  let [given, answered, next] = [0, 0, 0];
  await together(CALLERS, async () => {
    while (given < count) {
      const nonce = `${next++}`;
      const abort = new AbortController();
      const how = random(4);
      if (how === 0) abort.abort();
      else if (how === 1) queueMicrotask(() => abort.abort());
      else if (how === 2) setImmediate(() => abort.abort());
      const command = random(3);
      const { signal } = abort;
      const echo = ['ECHO', nonce];
      try {
        const reply =
          command === 0
            ? await redis.command(echo, { signal })
            : command === 1
              ? (await redis.transaction([echo, echo], { signal }))[1]
              : await redis.command(['ECHO', Buffer.from(nonce)], {
                  signal,
                  asBytes: true,
                  ...(how === 3 && random(10) === 0 && { timeoutMs: 1 }),
                });
        const text = reply instanceof Uint8Array ? Buffer.from(reply).toString() : reply;
        assert.equal(text, nonce, 'the reply of another');
        answered++;
      } catch (error) {
        if (!GIVEN_UP.some((kind) => error instanceof kind)) throw error;
        given++;
      }
    }
  });
  assert.equal(await redis.command(['ECHO', 'last']), 'last');
  return { given, answered };
}

/**
 * A server that stalls, is killed and restarts under load: nothing hangs, no result goes to another caller,
 * and it serves again soon.
 */
async function restarted(
  server: RedisServer,
  redis: Redis,
  times: number,
): Promise<Readonly<Record<'backMs' | 'failed' | 'served', number>>> {
  let [isOver, failed, served, backMs] = [false, 0, 0, 0];
  const records = new RedisRecordStore(redis);
  const limits = new RedisRateLimitStore(redis);
  const loading = together(CALLERS, async (caller) => {
    for (let count = 0; !isOver; count++) {
      const startedMs = systemClock.monotonicMs();
      try {
        const value = `${caller}:${count}`;
        await records.set(`${caller}`, value, 60_000);
        const found = await records.get(`${caller}`);
        // a server without files loses its data when it is killed
        assert.ok(found === value || found === undefined, `${found} is not ${value}`);
        await limits.take(`${caller}`, { limit: 1_000_000, periodMs: 1_000 });
        served++;
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
        failed++;
        if (error instanceof ConnectionLost) await systemClock.sleep(1 + random(5));
      }
      assert.ok(systemClock.monotonicMs() - startedMs < 5_000, 'a caller was held up');
    }
  });
  for (let round = 0; round < times; round++) {
    await systemClock.sleep(200);
    if (round % 2 === 0) {
      server.pause();
      await systemClock.sleep(300 + random(500));
      server.resume();
    } else {
      await server.kill();
      await systemClock.sleep(random(500));
      await server.start();
    }
    const [startedMs, before] = [systemClock.monotonicMs(), served];
    while (served < before + 100) await systemClock.sleep(2);
    backMs = Math.max(backMs, systemClock.monotonicMs() - startedMs);
  }
  isOver = true;
  await loading;
  return { backMs, failed, served };
}

await scoped(async (scope) => {
  const endMs = systemClock.monotonicMs() + SECONDS * 1_000;
  const server = await RedisServer.start(scope);
  const redis = await new Redis(server.url, { maxPending: 50_000 }).open();
  scope.after(() => redis.close());
  const totals = { given: 0, answered: 0 };
  do {
    const counts = await abandoned(redis, ABANDONED);
    totals.given += counts.given;
    totals.answered += counts.answered;
  } while (systemClock.monotonicMs() < endMs - SECONDS * 500);
  console.log(
    `${totals.given} commands abandoned, ${totals.answered} answered, none by the reply of another`,
  );
  assert.ok(totals.given >= ABANDONED);
  const outage = await restarted(server, redis, Math.max(4, Math.round(SECONDS / 5)));
  console.log(
    `back within ${Math.round(outage.backMs)} ms, ${outage.served} served, ${outage.failed} failed`,
  );
  assert.ok(outage.backMs < 2_000, 'back too late');
});
