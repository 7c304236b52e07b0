/**
 * The channels by which others may watch requests (request-event.ts), and whether anybody does.
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel';

/** Of what befalls a request. @internal */
export const requests: TracingChannel<unknown, object> = tracingChannel('svc:request');
/** Of its handler. @internal */
export const handlers: TracingChannel<unknown, object> = tracingChannel('svc:handler');
/** Of what is resolved for it. @internal */
export const dependencies: TracingChannel<unknown, object> = tracingChannel('svc:dependency');

/** A user agent that is longer says no more. @internal */
export const MAX_AGENT_CHARACTERS = 256;

/** Whether anybody watches requests, or what is inside of them. Some 2 ns. Closures for those who do are made elsewhere: they would cost every request a context. @internal */
export function isObserved(): boolean {
  return requests.hasSubscribers || handlers.hasSubscribers || dependencies.hasSubscribers;
}
