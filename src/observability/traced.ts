/**
 * Work between the events of a `TracingChannel` of node:diagnostics_channel, in their documented order:
 *
 *   start -> end                                           what gave a value
 *   start -> error -> end                                   what threw
 *   start -> end -> [error ->] asyncStart -> asyncEnd         what gave a promise, once that has settled
 *
 * What is bound to `start` with `bindStore()` holds inside the work and behind its promises. A subscriber that throws does so
 * outside of the work: Node reports it as an uncaught exception.
 */
import { isThenable } from '../base/promises.ts';
import type { TracingChannel } from 'node:diagnostics_channel';

/** What an event has at least: what stopped the work, once something has. */
export interface Failable {
  error?: unknown;
}

/** Runs `work` between the events of `channel`, each of which is given `event`; gives what it gives, throws what it throws. */
export function traced<E extends Failable, T>(
  channel: TracingChannel<unknown, object>,
  event: E,
  work: () => T,
): T {
  return channel.start.runStores(event, () => {
    try {
      const value = work();
      return isThenable(value) ? (settled(channel, event, value) as T) : value; // a promise of the same value
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

/** Tells what stopped the work. */
export function fail(channel: TracingChannel<unknown, object>, event: Failable, error: unknown): void {
  event.error = error;
  channel.error.publish(event);
}

function leave(channel: TracingChannel<unknown, object>, event: Failable): void {
  channel.asyncStart.publish(event);
  channel.asyncEnd.publish(event);
}
