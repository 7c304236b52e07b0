/**
 * A process that refreshes tokens in a database which other processes use at the same time. Messages control
 * it until it exits or is killed.
 */
import { systemClock } from '../../src/base/clock.ts';
import { DatabaseRecordStore } from '../../src/db/record-store.ts';
import { SingleUse } from '../../src/oauth/single-use.ts';
import { OAuthError } from '../../src/oauth/errors.ts';
import { SqlTokenStore } from '../../src/oauth/tokens/sql-store.ts';
import { oauthDatabase, tokensIn, tokensOver } from './oauth-tokens.ts';
import type { Clock } from '../../src/base/clock.ts';

/** Commands for a process. */
export type Order =
  /**
   * Refreshes one token `count` times at `atMs`. The requests also count as arrived at that time, unless
   * `isLate`.
   */
  | {
      readonly kind: 'refresh';
      readonly token: string;
      readonly count: number;
      readonly atMs: number;
      readonly mode: 'coalesce' | 'strict';
      readonly isLate: boolean;
    }
  /** Rotates each token until it is refused. */
  | { readonly kind: 'rotate'; readonly tokens: readonly string[] }
  /** Stores `count` logins of a subject, which started at `startedAt`, in microseconds. */
  | {
      readonly kind: 'issue';
      readonly sub: string;
      readonly count: number;
      readonly startedAt: number;
      readonly atMs: number;
    }
  /** Tries `count` times to use one login state. */
  | { readonly kind: 'take'; readonly stateHash: string; readonly count: number; readonly atMs: number }
  /** Refreshes a token and kills this process `afterMs` milliseconds after the commit, as kill -9 does. */
  | { readonly kind: 'die'; readonly token: string; readonly afterMs: number };

/**
 * Result of a command: for each refresh or login its token, or `code reason`. Also the number of rotations,
 * and of detected reuses.
 */
export interface Outcome {
  readonly id: number;
  readonly results: readonly string[];
  readonly rotations: number;
  readonly reuses: number;
}

const database = await oauthDatabase(process.argv[2]!);
const records = new DatabaseRecordStore(database, { table: 'svc_oauth_used' });
const used = new SingleUse(records);
const machines = {
  coalesce: tokensIn(database),
  strict: tokensIn(database, { concurrency: 'strict' }),
  quick: tokensIn(database, { holdMs: 0 }),
};

async function resultOf(work: Promise<string>): Promise<string> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error;
    return `${error.code} ${error.reason ?? ''}`;
  }
}

async function rotate(first: string): Promise<{ rotations: number; result: string }> {
  for (let rotations = 0, token = first; ; rotations++) {
    const result = await resultOf(machines.quick.refresh(token));
    if (!result.startsWith('svcrt_')) return { rotations, result };
    token = result;
    await new Promise(setImmediate);
  }
}

function die(): never {
  process.kill(process.pid, 'SIGKILL');
  for (;;); // wait for the signal, which comes at once
}

/**
 * Refreshes a token and kills this process while the refresh waits for overlapping requests: `afterMs` after
 * the wait began. With 0, right after the commit.
 */
async function refreshAndDie(text: string, afterMs: number): Promise<void> {
  const clock: Clock = { ...systemClock, sleep: (ms) => systemClock.sleep(Math.min(ms, afterMs)).then(die) };
  const store = new SqlTokenStore(() => database, systemClock);
  if (afterMs === 0) store.readLogin = () => Promise.resolve(die());
  await tokensOver(store, {}, clock).refresh(text);
}

async function obey(order: Order): Promise<Omit<Outcome, 'id' | 'reuses'>> {
  switch (order.kind) {
    case 'refresh': {
      await systemClock.sleep(Math.max(0, order.atMs - systemClock.nowMs()));
      const arrivedAt = order.isLate ? undefined : order.atMs * 1_000;
      return {
        results: await Promise.all(
          Array.from({ length: order.count }, () =>
            resultOf(machines[order.mode].refresh(order.token, arrivedAt)),
          ),
        ),
        rotations: 0,
      };
    }
    case 'rotate': {
      const ended = await Promise.all(order.tokens.map(rotate));
      return {
        results: ended.map(({ result }) => result),
        rotations: ended.reduce((sum, { rotations }) => sum + rotations, 0),
      };
    }
    case 'issue': {
      await systemClock.sleep(Math.max(0, order.atMs - systemClock.nowMs()));
      const { tokens } = machines.quick;
      const results: string[] = [];
      for (let index = 0; index < order.count; index++) {
        results.push(
          await resultOf(
            tokens
              .issue({
                sub: order.sub,
                provider: 'dev',
                subject: 'p',
                scopes: [],
                claims: {},
                startedAt: order.startedAt,
                userAgent: null,
                ip: null,
                keyThumbprint: null,
              })
              .then(({ refreshToken }) => refreshToken),
          ),
        );
        await new Promise(setImmediate);
      }
      return { results, rotations: 0 };
    }
    case 'take': {
      await systemClock.sleep(Math.max(0, order.atMs - systemClock.nowMs()));
      const taken = await Promise.all(
        Array.from({ length: order.count }, () => used.use('state', order.stateHash, 60_000)),
      );
      return { results: taken.map((isFirst) => (isFirst ? 'taken' : 'none')), rotations: 0 };
    }
    case 'die':
      await refreshAndDie(order.token, order.afterMs);
      return { results: [], rotations: 0 };
  }
}

const reuses = (): number =>
  Object.values(machines)
    .flatMap(({ events }) => events)
    .filter(({ event }) => event === 'token_reuse_detected').length;
let reported = 0;
process.on('message', ({ id, order }: { id: number; order: Order }) => {
  void obey(order).then((outcome) => {
    const seen = reuses();
    process.send!({ ...outcome, id, reuses: seen - reported } satisfies Outcome);
    reported = seen;
  });
});
process.on('disconnect', () => process.exit(0));
process.send!('ready');
