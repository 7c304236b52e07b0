/**
 * What lets a test that fails end: gates that open when it is over, and waits that do not last for ever.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';

/** A promise that the test resolves, at the latest when it is over: servers and clients that close wait for what waits for it. Make it before them. */
export function gateOf<T = void>(t: TestContext, value?: T): PromiseWithResolvers<T> {
  const gate = Promise.withResolvers<T>();
  t.after(() => gate.resolve(value as T));
  return gate;
}

/** For tests that keep sockets open: what they wait for in vain would keep their process, and the file, until it is killed. Suites hand it on. */
export const LIMITED = { timeout: 60_000 } as const;

/** How long a test waits for what takes milliseconds. */
const PATIENCE_MS = 20_000;

/** Resolves once `holds()`, which is asked each turn. Rejects where it takes far too long. */
export async function until(holds: () => boolean): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(performance.now() < endMs, `waited ${PATIENCE_MS} ms in vain for ${String(holds)}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
