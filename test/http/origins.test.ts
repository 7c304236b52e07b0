/** Functions that decide which origins are allowed: which mistakes are found, and how often a function is called. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AllowedOrigins, UNKNOWN_ORIGIN, type Origins } from '../../src/http/origins.ts';
import type { Awaitable } from '../../src/http/contracts.ts';

const TEXT = 'the application is at example.com';
/** Origins that settle() tries for the host name in `TEXT`, in this order. */
const CANDIDATES = [
  UNKNOWN_ORIGIN,
  'https://svc-checkexample.com',
  'https://example.com.svc-check.invalid',
  'https://examplexcom.invalid',
  'https://examplexcom',
];
const LIMIT_MS = 600_000;

/** Returns a function, and the origins that it was called with. Its source code contains no host name. */
function recorded(answer: (origin: string) => Awaitable<boolean>): { origins: Origins; asked: string[] } {
  const asked: string[] = [];
  const record = (origin: string): Awaitable<boolean> => {
    asked.push(origin);
    return answer(origin);
  };
  return { asked, origins: (origin) => record(origin) };
}

const isLast = (origin: string): boolean => origin === CANDIDATES.at(-1);

for (const [what, answer, stranger, isAsynchronous, calls] of [
  ['allows no origin', () => false, undefined, false, 5],
  ['allows every origin', () => true, CANDIDATES[0], false, 1],
  ['allows the last candidate', isLast, CANDIDATES[4], false, 5],
  ['returns another value than true', () => 'yes' as never, undefined, false, 5],
  [
    'throws',
    () => {
      throw new Error('no request');
    },
    undefined,
    false,
    5,
  ],
  ['resolves to false', async () => false, undefined, true, 10],
  ['resolves to true', async () => true, CANDIDATES[0], true, 10],
  ['resolves to true for the last candidate', async (origin) => isLast(origin), CANDIDATES[4], true, 10],
  ['resolves to another value than true', async () => 'yes' as never, undefined, true, 10],
  ['rejects', () => Promise.reject(new Error('no request')), undefined, true, 10],
  [
    'rejects for some candidates',
    (origin) => (isLast(origin) ? Promise.resolve(true) : Promise.reject(new Error('unknown'))),
    CANDIDATES[4],
    true,
    10,
  ],
  [
    'returns a promise for one candidate, and allows the next at once',
    (origin) => (origin === UNKNOWN_ORIGIN ? Promise.resolve(false) : true),
    CANDIDATES[1],
    true,
    2,
  ],
] as readonly (readonly [
  string,
  (origin: string) => Awaitable<boolean>,
  string | undefined,
  boolean,
  number,
])[])
  test(`AllowedOrigins finds ${stranger ?? 'no stranger'} if the function ${what}, and calls the function ${calls} times`, async () => {
    const { origins, asked } = recorded(answer);
    const allowed = new AllowedOrigins(origins);
    assert.deepEqual([allowed.isFunction, allowed.isAny, allowed.list], [true, false, undefined]);
    await allowed.settle(TEXT, LIMIT_MS);
    assert.equal(asked.length, calls);
    assert.deepEqual([...new Set(asked)], CANDIDATES.slice(0, Math.min(calls, CANDIDATES.length)));
    assert.equal(allowed.isAsynchronous, isAsynchronous);
    assert.equal(allowed.strangerAmong(TEXT), stranger);
  });

test('AllowedOrigins finds no stranger if the option is "*" or a list', async () => {
  for (const origins of ['*', ['https://example.com'], []] as const) {
    const allowed = new AllowedOrigins(origins);
    await allowed.settle(TEXT, LIMIT_MS);
    assert.deepEqual(
      [allowed.strangerAmong(TEXT), allowed.isAsynchronous, allowed.isFunction, allowed.isAny],
      [undefined, false, false, origins === '*'],
    );
  }
});

test('AllowedOrigins gives up a function whose promises do not settle within the limit', async () => {
  const allowed = new AllowedOrigins(() => new Promise<boolean>(() => undefined));
  await allowed.settle(TEXT, 0);
  assert.deepEqual([allowed.strangerAmong(TEXT), allowed.isAsynchronous], [undefined, true]);
});
