/**
 * Turns of the event loop, for tests that wait for what happens in the next one.
 */

/** Resolves in the next turn. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
