/**
 * Runs a function, and publishes the events of a `TracingChannel` of node:diagnostics_channel in their
 * documented order.
 *
 * Order of the events:
 * - if the function returns a value: start, end
 * - if the function throws: start, error, end
 * - if the function returns a promise: start, end; when the promise has settled: asyncStart, asyncEnd;
 *   if it has rejected, `error` comes before asyncStart
 *
 * Values that subscribers bind to `start` with `bindStore()` are visible in the function, and in the
 * continuations of its promises. An exception of a subscriber does not reach the function, because Node
 * reports it as an uncaught exception.
 */
import { isThenable } from '../base/promises.ts';
import type { TracingChannel } from 'node:diagnostics_channel';

/** Event of a tracing channel. `error` is set if the traced function throws or rejects. */
export interface Failable {
  error?: unknown;
}

/**
 * Calls `work`, and publishes `event` on a tracing channel before and after it. Returns the result of `work`,
 * or throws its error.
 */
export function traced<E extends Failable, T>(
  channel: TracingChannel<unknown, object>,
  event: E,
  work: () => T,
): T {
  return channel.start.runStores(event, () => {
    try {
      const value = work();
      // the returned promise has the same result, and settles after the events were published
      return isThenable(value) ? (settled(channel, event, value) as T) : value;
    } catch (error) {
      fail(channel, event, error);
      throw error;
    } finally {
      channel.end.publish(event);
    }
  });
}

function settled(
  channel: TracingChannel<unknown, object>,
  event: Failable,
  pending: PromiseLike<unknown>,
): Promise<unknown> {
  return Promise.resolve(pending).then(
    (value) => {
      leave(channel, event);
      return value;
    },
    (error: unknown) => {
      fail(channel, event, error);
      leave(channel, event);
      throw error;
    },
  );
}

/** Publishes `event` on the `error` channel, after its member `error` was set. */
export function fail(channel: TracingChannel<unknown, object>, event: Failable, error: unknown): void {
  event.error = error;
  channel.error.publish(event);
}

function leave(channel: TracingChannel<unknown, object>, event: Failable): void {
  channel.asyncStart.publish(event);
  channel.asyncEnd.publish(event);
}
