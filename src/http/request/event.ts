/**
 * Diagnostics of a request on node:diagnostics_channel, for OpenTelemetry, profilers and tests. Without
 * subscribers, no event is created.
 *
 * Channels:
 *   tracing:svc:request:start        the route was found, and no middleware has been called
 *   tracing:svc:dependency:...       a dependency of the route is resolved
 *   tracing:svc:handler:...          the handler of the route is called
 *   tracing:svc:request:end          the synchronous part of the request has returned
 *   tracing:svc:request:error        an error was not handled, or occurred after the head was sent
 *   tracing:svc:request:asyncStart   the response is known: `status`, `durationMs`
 *   tracing:svc:request:asyncEnd     the response was sent, or the client has disconnected: `isDelivered`
 *
 * A subscriber can call bindStore() of the channel `start` to set a value of an AsyncLocalStorage.
 * Middleware, dependencies and the handler of the request see this value.
 *
 * A request publishes `start`, `end`, `asyncStart` and `asyncEnd`, in this order, and `error` only after an
 * error. All its messages carry the same event object. A request that is refused before its route is
 * searched, for example without a Host field, publishes no messages.
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel';
import { ClientDisconnected } from '../../base/errors.ts';
import { inspectAsJson, mask } from '../../observability/redact.ts';
import { fail, traced, type Failable } from '../../observability/traced.ts';
import { EndlessChunks, isPending, isChunks, iterate } from '../chunks.ts';
import { hasNoContent, lengthOf } from '../response.ts';
import type { HttpRequest } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { TraceContext } from '../request-id.ts';
import type { ChunkIterator, ChunkStep, Chunks } from '../chunks.ts';

/** Channels `tracing:svc:request:*`. Each event is a request. @internal */
export const requests: TracingChannel<unknown, object> = tracingChannel('svc:request');
/** Channels `tracing:svc:handler:*`. Each event is a call of a handler. @internal */
export const handlers: TracingChannel<unknown, object> = tracingChannel('svc:handler');
/** Channels `tracing:svc:dependency:*`. Each event is a dependency that is resolved. @internal */
export const dependencies: TracingChannel<unknown, object> = tracingChannel('svc:dependency');

/** Maximum number of characters of a user agent in events and logs. @internal */
export const MAX_AGENT_CHARACTERS = 256;

/**
 * Event of the `svc:request` channels: one request. It has no query, no body, and no header field except the
 * user agent.
 */
export class RequestEvent implements Failable {
  /** The error that no exception handler handled, or that interrupted the response. */
  error?: unknown;
  /** Status of the response; 0 before the message `asyncStart`. */
  status = 0;
  /**
   * Time in milliseconds from the arrival of the request until the response is known; 0 before `asyncStart`.
   */
  durationMs = 0;
  /**
   * Size of the response body in bytes; undefined before `asyncStart`. If the length of the body is not known
   * in advance, it is the number of bytes sent so far.
   */
  bytes: number | undefined = undefined;
  /** Whether the response was sent completely; undefined before `asyncEnd`. */
  isDelivered: boolean | undefined = undefined;
  /**
   * Whether the message `start` was published. If not, no further message of the request is published.
   * @internal
   */
  hasBegun = false;
  readonly #req: HttpRequest;

  /** @internal */
  constructor(req: HttpRequest) {
    this.#req = req;
  }

  get method(): string {
    return this.#req.method;
  }
  /** Path template of the matched route; undefined if no route matched. */
  get route(): string | undefined {
    return this.#req.route?.template;
  }
  /** Path as received, without the query. Values that look like secrets are masked. */
  get path(): string {
    return mask(this.#req.path);
  }
  get scheme(): 'http' | 'https' {
    return this.#req.scheme;
  }
  get host(): string {
    return this.#req.host;
  }
  get ip(): string {
    return this.#req.ip;
  }
  get requestId(): string {
    return this.#req.id;
  }
  get trace(): TraceContext {
    return this.#req.trace;
  }
  /** The first 256 characters of the `User-Agent` field. */
  get userAgent(): string | undefined {
    return this.#req.headers['user-agent']?.slice(0, MAX_AGENT_CHARACTERS);
  }

  /** Returns the method, route, path, ids, status and duration. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { method, route, path, requestId, status, durationMs } = this;
    return { method, route, path, requestId, trace: this.trace, status, durationMs };
  }

  static {
    inspectAsJson(RequestEvent);
  }
}

/** Event of the `svc:handler` channels: one call of a handler. */
export interface HandlerEvent extends Failable {
  readonly request: RequestEvent;
  /** Name of the handler function; empty for an anonymous function. */
  readonly name: string;
}

/**
 * Event of the `svc:dependency` channels: one dependency that is resolved for a request. It covers the time
 * until the value is known, not the clean-up.
 */
export interface DependencyEvent extends Failable {
  readonly request: RequestEvent;
  /** Name of the dependency's function, class or state key; empty if it has none. */
  readonly name: string;
  readonly scope: 'request' | 'handler';
}

/**
 * Publishes `start`, calls `answer`, and publishes `end` when the call returns. `answer` never throws.
 * @internal
 */
export function beginRequest<R extends HttpRequest & { event: RequestEvent | undefined }, T>(
  req: R,
  answer: (req: R) => T,
): T {
  const event = (req.event = new RequestEvent(req));
  event.hasBegun = true;
  return requests.start.runStores(event, () => {
    const response = answer(req);
    requests.end.publish(event);
    return response;
  });
}

/** Publishes `asyncStart` when the response is about to be sent. @internal */
export function answerRequest(event: RequestEvent, response: HttpResponse, durationMs: number): void {
  event.status = response.status;
  event.durationMs = durationMs;
  const isEmpty = event.method === 'HEAD' || response.body === null || hasNoContent(response.status);
  const length = isEmpty ? 0 : lengthOf(response);
  event.bytes = length < 0 ? countBytes(event, response) : length;
  if (event.hasBegun) requests.asyncStart.publish(event);
}

/**
 * Adds the size of each chunk to `event.bytes` while the body is sent. Returns 0, the initial value of
 * `event.bytes`.
 */
function countBytes(event: RequestEvent, response: HttpResponse): number {
  const { body } = response;
  if (isChunks(body))
    response.body = new CountedChunks(body, (bytes) => {
      // `event.bytes` is defined: answerRequest() sets it before the first chunk is sent
      event.bytes! += bytes;
    });
  return 0;
}

/**
 * Publishes `asyncEnd`. `outcome` is undefined if the response was sent completely, else it is the error.
 * @internal
 */
export function endRequest(event: RequestEvent, outcome: unknown): void {
  event.isDelivered = outcome === undefined;
  if (outcome !== undefined && !(outcome instanceof ClientDisconnected)) failRequest(event, outcome);
  if (event.hasBegun) requests.asyncEnd.publish(event);
}

/**
 * Publishes `error` if no exception handler handled an error, or if the error interrupted the response.
 * @internal
 */
export function failRequest(event: RequestEvent, error: unknown): void {
  if (event.hasBegun) fail(requests, event, error);
}

/** Calls a handler, and publishes the messages of `svc:handler`. @internal */
export function observeHandler<C, T>(request: RequestEvent, handler: (context: C) => T, context: C): T {
  return handlers.hasSubscribers
    ? traced<HandlerEvent, T>(handlers, { request, name: handler.name }, () => handler(context))
    : handler(context);
}

/** Resolves a dependency, and publishes the messages of `svc:dependency`. @internal */
export function observeDependency<T>(
  request: RequestEvent,
  name: string,
  scope: DependencyEvent['scope'],
  resolve: () => T,
): T {
  return dependencies.hasSubscribers
    ? traced<DependencyEvent, T>(dependencies, { request, name, scope }, resolve)
    : resolve();
}

/**
 * Yields the chunks of a response body, and passes the size of each chunk to `onBytes`. The chunks can be
 * read only once.
 */
export class CountedChunks extends EndlessChunks {
  readonly #chunks: Chunks;
  readonly #onBytes: (bytes: number) => void;
  #source: ChunkIterator | undefined;

  constructor(chunks: Chunks, onBytes: (bytes: number) => void) {
    super();
    this.#chunks = chunks;
    this.#onBytes = onBytes;
  }

  next(): ChunkStep | PromiseLike<ChunkStep> {
    const step = this.#begun().next();
    return isPending(step) ? step.then((ready) => this.#count(ready)) : this.#count(step);
  }

  return(): unknown {
    return this.#begun().return?.();
  }

  finish(): void {
    if (this.#chunks instanceof EndlessChunks) this.#chunks.finish();
  }

  #begun(): ChunkIterator {
    return (this.#source ??= iterate(this.#chunks));
  }

  #count(step: ChunkStep): ChunkStep {
    // an invalid chunk counts as 0 bytes, because it is not sent
    if (step.done !== true)
      this.#onBytes(
        typeof step.value === 'string' ? Buffer.byteLength(step.value) : (step.value?.byteLength ?? 0),
      );
    return step;
  }
}
