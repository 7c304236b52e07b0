/**
 * Lets a test that fails end: gates that open when it is over, and waits that do not last for ever.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';

/** A promise that the test resolves, at the latest when it is over: servers and clients that close wait for what waits for it. Make it before them. */
export function gateOf<T = void>(t: TestContext, value?: T): PromiseWithResolvers<T> {
  const gate = Promise.withResolvers<T>();
  t.after(() => gate.resolve(value as T));
  return gate;
}

/** For tests that keep sockets open: what they wait for in vain would keep their process, and the file, until it is killed. */
export const LIMITED = { timeout: 15_000 } as const;
/** For a suite as a whole, and for each of its tests. */
export const LIMITED_SUITE = { timeout: 30_000 } as const;

/** How long a test waits for what takes milliseconds. Once one has waited in vain, the others of its file, which most likely wait for it too, have less. */
let patienceMs = 15_000;
const SHORT_MS = 1_000;

/** Resolves once `holds()`, which is asked each turn. Rejects where it takes far too long. */
export async function until(holds: () => boolean): Promise<void> {
  const endMs = performance.now() + patienceMs;
  while (!holds()) {
    if (performance.now() > endMs) inVain(String(holds));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Resolves with what the promise does. Rejects where it takes far too long. */
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
