/**
 * Turns of the event loop, for tests that wait for work of the next turn.
 */

/** Resolves in the next turn of the event loop. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
