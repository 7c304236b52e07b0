/**
 * Lets a failing test end: promises that resolve when the test is over, and waits with a time limit.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';

/**
 * Returns a promise that the test resolves, at the latest when it is over. Create it before servers and
 * clients: when they close, they wait for work that waits for this promise.
 */
export function gateOf<T = void>(t: TestContext, value?: T): PromiseWithResolvers<T> {
  const gate = Promise.withResolvers<T>();
  t.after(() => gate.resolve(value as T));
  return gate;
}

/**
 * Milliseconds that a test waits for something that usually takes milliseconds. After one wait in vain, later
 * waits in the same file are shorter, because they probably wait for the same thing.
 */
let patienceMs = 15_000;
const SHORT_MS = 1_000;

/** Resolves when `holds()` returns true; calls it once a turn of the event loop. Fails after a long wait. */
export async function until(holds: () => boolean): Promise<void> {
  let isLate = false;
  const timer = setTimeout(() => (isLate = true), patienceMs);
  try {
    while (!holds()) {
      if (isLate) inVain(String(holds));
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Settles as the promise does. Fails after a long wait. */
export async function soon<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, patienceMs, undefined);
  });
  const first = await Promise.race([promise.then((value) => ({ value })), late]).finally(() =>
    clearTimeout(timer),
  );
  return first === undefined ? inVain(what) : first.value;
}

function inVain(what: string): never {
  const waitedMs = patienceMs;
  patienceMs = SHORT_MS;
  assert.fail(`waited ${waitedMs} ms in vain for ${what}`);
}
