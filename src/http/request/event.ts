/**
 * What others may watch of a request, by node:diagnostics_channel: OpenTelemetry, profilers, tests. Costs nothing while nobody does.
 *
 *   tracing:svc:request:start        matched, before the middleware       -\ what is bound with bindStore() holds in here,
 *   tracing:svc:dependency:...         each that is resolved for it          | and behind every promise of it
 *   tracing:svc:handler:...            its handler                           |
 *   tracing:svc:request:end          that part has returned               -/
 *   tracing:svc:request:error        an error that nothing handled, or one after the head had gone
 *   tracing:svc:request:asyncStart   the answer is decided: `status`, `durationMs`
 *   tracing:svc:request:asyncEnd     it has gone out, or the client has left: `isDelivered`
 *
 * Every request that has a `start` has all of them but `error`, in this order, with one and the same event object. Requests
 * that are refused before they are matched, for lack of a Host for example, have none.
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel';
import { ClientDisconnected } from '../../base/errors.ts';
import { inspectAsJson, mask } from '../../observability/redact.ts';
import { fail, traced, type Failable } from '../../observability/traced.ts';
import { EndlessChunks, isPending, isChunks, iterate } from '../chunks.ts';
import { hasNoContent } from '../response.ts';
import type { HttpRequest } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { TraceContext } from '../request-id.ts';
import type { ChunkIterator, ChunkStep, Chunks } from '../chunks.ts';

/** Events of requests. @internal */
export const requests: TracingChannel<unknown, object> = tracingChannel('svc:request');
/** Events of handlers. @internal */
export const handlers: TracingChannel<unknown, object> = tracingChannel('svc:handler');
/** Events of dependencies. @internal */
export const dependencies: TracingChannel<unknown, object> = tracingChannel('svc:dependency');

/** A user agent that is longer says no more. @internal */
export const MAX_AGENT_CHARACTERS = 256;

/** A request, in the events of `svc:request`. No query, no fields, no body; of `error` whatever was thrown. */
export class RequestEvent implements Failable {
  /** What nothing handled, or what broke the answer off. */
  error?: unknown;
  /** From `asyncStart` on; before it 0. */
  status = 0;
  /** From its head to the decision about its answer, in milliseconds; before `asyncStart` 0. */
  durationMs = 0;
  /** Of the content; undefined before `asyncStart`. Of pieces without a known length those that were sent so far. */
  bytes: number | undefined = undefined;
  /** Whether the whole answer has gone out: true or false from `asyncEnd` on. */
  isDelivered: boolean | undefined = undefined;
  /** Whether there was a `start`: without one there is nothing else. @internal */
  hasBegun = false;
  readonly #req: HttpRequest;

  /** @internal */
  constructor(req: HttpRequest) {
    this.#req = req;
  }

  get method(): string {
    return this.#req.method;
  }
  /** The template of its route; undefined where none matched. */
  get route(): string | undefined {
    return this.#req.route?.template;
  }
  /** As it was sent, without the query; what looks like a secret is left out. */
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
  /** The first 256 characters. */
  get userAgent(): string | undefined {
    return this.#req.headers['user-agent']?.slice(0, MAX_AGENT_CHARACTERS);
  }

  toJSON(): Readonly<Record<string, unknown>> {
    const { method, route, path, requestId, status, durationMs } = this;
    return { method, route, path, requestId, trace: this.trace, status, durationMs };
  }

  static {
    inspectAsJson(RequestEvent);
  }
}

/** A handler, in the events of `svc:handler`. */
export interface HandlerEvent extends Failable {
  readonly request: RequestEvent;
  /** Its function's name; empty when it has none. */
  readonly name: string;
}

/** A dependency that is resolved for a request, in the events of `svc:dependency`: up to its value, without its clean-up. */
export interface DependencyEvent extends Failable {
  readonly request: RequestEvent;
  /** The name of its function, class or state key. */
  readonly name: string;
  readonly scope: 'request' | 'handler';
}

/** Answers between `start` and `end`, for those who watch. `answer` never throws. @internal */
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

/** The answer is decided. @internal */
export function answerRequest(event: RequestEvent, response: HttpResponse, durationMs: number): void {
  event.status = response.status;
  event.durationMs = durationMs;
  event.bytes = event.method === 'HEAD' ? 0 : (lengthOf(response) ?? countBytes(event, response));
  if (event.hasBegun) requests.asyncStart.publish(event);
}

/** Of the content as it is sent; undefined where nobody knows before. */
function lengthOf({ status, body, contentLength }: HttpResponse): number | undefined {
  if (body === null || hasNoContent(status)) return 0;
  if (typeof body === 'string') return Buffer.byteLength(body);
  if (body instanceof Uint8Array) return body.byteLength;
  return contentLength < 0 ? undefined : contentLength;
}

/** Counts the pieces of the body while they are sent. */
function countBytes(event: RequestEvent, response: HttpResponse): number {
  const { body } = response;
  if (isChunks(body))
    response.body = new CountedChunks(body, (bytes) => {
      event.bytes! += bytes;
    }); // 0 by then: it is what this gives
  return 0;
}

/** It has gone out, or what stopped it is the `outcome`. @internal */
export function endRequest(event: RequestEvent, outcome: unknown): void {
  event.isDelivered = outcome === undefined;
  if (outcome !== undefined && !(outcome instanceof ClientDisconnected)) failRequest(event, outcome);
  if (event.hasBegun) requests.asyncEnd.publish(event);
}

/** Something that nothing handles has stopped it. @internal */
export function failRequest(event: RequestEvent, error: unknown): void {
  if (event.hasBegun) fail(requests, event, error);
}

/** Calls a handler, for those who watch. @internal */
export function observeHandler<C, T>(request: RequestEvent, handler: (context: C) => T, context: C): T {
  return handlers.hasSubscribers
    ? traced<HandlerEvent, T>(handlers, { request, name: handler.name }, () => handler(context))
    : handler(context);
}

/** Resolves a dependency, for those who watch. @internal */
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

/** The pieces as they are; `onBytes` is told of each how many bytes it has. To be read once. Those that have no end are told when the server stops. */
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
    return isPending(step) ? step.then((settled) => this.#count(settled)) : this.#count(step);
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
    if (step.done !== true)
      this.#onBytes(
        typeof step.value === 'string' ? Buffer.byteLength(step.value) : (step.value?.byteLength ?? 0),
      ); // what is no piece is refused by whoever sends
    return step;
  }
}
