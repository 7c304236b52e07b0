/**
 * Tests whether the time of a response distinguishes an unknown login from a known login with a wrong secret.
 * Forged tokens of both kinds are sent at random: 50,000 of each to the codec alone, and at least 10,000 of
 * each to `/oauth/token` over a socket, for SOAK_SECONDS (default 60).
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/oauth-timing.ts
 *
 * Welch's t of the times up to their common 95th percentile: above it is what the machine did beside. |t| <
 * 4.5, the bound of dudect (Reparaz, Balasch, Verbauwhede 2017). A control must be found: a forged token
 * against a valid one whose login is unknown, which costs a statement.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Keyring } from '../../src/crypto/keys.ts';
import { RefreshTokenCodec } from '../../src/oauth/tokens/refresh-codec.ts';
import { OAUTH_SECRET } from '../support/oauth-tokens.ts';
import { Sites } from '../support/oauth-races.ts';
import { seeded } from '../support/random.ts';
import { scoped, SECONDS } from '../support/soak.ts';

const LEAST = 10_000;
const LEAST_PARSED = 50_000;
const BOUND = 4.5;
const codec = new RefreshTokenCodec(Keyring.of(OAUTH_SECRET));
const random = seeded(20_261_121);

/** Times by kind, 0 and 1, in nanoseconds. */
type Times = readonly [number[], number[]];

interface Difference {
  readonly t: number;
  readonly ns: number;
  readonly meanNs: number;
}

function welch(times: Times): Difference {
  const limit = Float64Array.from(times.flat()).sort()[
    Math.floor(0.95 * (times[0].length + times[1].length))
  ]!;
  const [left, right] = times.map((all) => {
    const kept = all.filter((time) => time <= limit);
    const mean = kept.reduce((sum, time) => sum + time, 0) / kept.length;
    const variance = kept.reduce((sum, time) => sum + (time - mean) ** 2, 0) / (kept.length - 1);
    return { mean, error: variance / kept.length };
  }) as [{ mean: number; error: number }, { mean: number; error: number }];
  const ns = left.mean - right.mean;
  return { t: ns / Math.sqrt(left.error + right.error), ns, meanNs: left.mean };
}

/**
 * Returns the text in the form that a socket gives: V8 stores concatenated text in another form, which would
 * change the times.
 */
const flat = (text: string): string => Buffer.from(text).toString('latin1');
const noise = (bytes: number): string => randomBytes(bytes).toString('base64url');

/**
 * Token of an unknown login, or of a known one with another secret, both with a wrong tag. Created by the
 * same steps, because earlier work affects later timing.
 */
function forged(known: string, isKnown: boolean): string {
  const [head, id] = known.split('.');
  const ids = [noise(16), flat(id!)];
  return flat([head, ids[Number(isKnown)], '0', noise(32), noise(16)].join('.'));
}

async function measured(
  least: number,
  endMs: number,
  make: (kind: 0 | 1) => string,
  run: (text: string) => unknown,
): Promise<Times> {
  const times: Times = [[], []];
  for (let index = 0; index < 2_000; index++) await run(make(index % 2 === 0 ? 0 : 1));
  while (times[0].length < least || times[1].length < least || performance.now() < endMs) {
    for (let index = 0; index < 1_000; index++) {
      const kind = random(2) === 0 ? 0 : 1;
      const text = make(kind);
      const startedNs = process.hrtime.bigint();
      const answer = run(text);
      if (answer instanceof Promise) await answer;
      times[kind].push(Number(process.hrtime.bigint() - startedNs));
    }
  }
  return times;
}

let sites: Sites;
const isRefused = async (text: string): Promise<void> =>
  assert.equal(await sites.refresh(text), '400 invalid_grant');
await scoped(async (scope) => {
  sites = await Sites.start(scope, 1, 'no limits');
  const known = (await sites.own.issue('alice')).refreshToken;
  const startedMs = performance.now();
  const parse = await measured(
    LEAST_PARSED,
    0,
    (kind) => forged(known, kind === 1),
    (text) => assert.equal(codec.parse(text), undefined),
  );
  const answers = await measured(
    LEAST,
    startedMs + 800 * SECONDS,
    (kind) => forged(known, kind === 1),
    isRefused,
  );
  const control = await measured(
    LEAST,
    0,
    (kind) => (kind === 0 ? forged(known, false) : flat(codec.format(codec.first()))),
    isRefused,
  );
  for (const [what, times] of [
    ['by the codec', parse],
    ['over a socket', answers],
    ['control', control],
  ] as const) {
    const { t, ns, meanNs } = welch(times);
    console.log(
      `${what}: ${times[0].length} and ${times[1].length}, t = ${t.toFixed(2)}, ${ns.toFixed(0)} of ${meanNs.toFixed(0)} ns`,
    );
  }
  for (const times of [parse, answers])
    assert.ok(Math.abs(welch(times).t) < BOUND, 'the time tells a known login from an unknown one');
  assert.ok(
    Math.abs(welch(control).t) > BOUND,
    'a difference that is there was not found: this measures nothing',
  );
  console.log('ok');
});
process.exit(0);
