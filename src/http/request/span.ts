/**
 * The span of a request: from the match of its route until its response was sent, its client has left, or its
 * WebSocket has closed. Names and attributes follow the stable semantic conventions of OpenTelemetry for HTTP
 * servers.
 *
 * The parent is the span that `traceparent` names. A request without a connection, such as a call of
 * app.fetch(), has the active span as its parent, if there is one.
 */
import { failSpan } from '../../observability/tracer.ts';
import { mask, safeField } from '../../observability/redact.ts';
import { MAX_AGENT_CHARACTERS, hasSecret } from './delivery.ts';
import { readTraceContext } from '../request-id.ts';
import type { Span, SpanValue, Tracer } from '../../observability/tracer.ts';
import type { TraceContext } from '../request-id.ts';
import type { HttpRequest } from '../contracts.ts';
import type { MultiMap } from './query.ts';

/** Methods that a span names. Any other method is `_OTHER`, because clients can invent methods. */
const METHODS: ReadonlySet<string> = new Set(
  'GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY'.split(' '),
);
const SERVER_ERROR = 500;
const MAX_QUERY_CHARACTERS = 1_024;
const REDACTED = '[redacted]';

/** Members of a request that its span reads. */
interface TracedRequest extends HttpRequest {
  /** Undefined if the request did not come over a connection of this server. */
  readonly connection: object | undefined;
  readonly httpVersion: string | undefined;
  field(name: string): string | undefined;
}

export class RequestSpan {
  readonly #span: Span;
  readonly #tracer: Tracer;
  readonly #req: TracedRequest;
  #hasFailed = false;
  #isOver = false;

  private constructor(span: Span, tracer: Tracer, req: TracedRequest) {
    this.#span = span;
    this.#tracer = tracer;
    this.#req = req;
  }

  /** Starts the span of a request. Returns undefined if the tracer makes no span. */
  static of(tracer: Tracer, req: TracedRequest): RequestSpan | undefined {
    const { route, method } = req;
    const shown = METHODS.has(method) ? method : 'HTTP';
    const isNested = req.connection === undefined && Object.keys(tracer.inject()).length > 0;
    const span = tracer.start(route === undefined ? shown : `${shown} ${route.template}`, {
      kind: 'server',
      attributes: attributesOf(req),
      remote: isNested ? undefined : req.headers,
    });
    return span === undefined ? undefined : new RequestSpan(span, tracer, req);
  }

  get spanId(): string {
    return this.#span.spanId;
  }

  get context(): TraceContext {
    const { traceId, spanId, isSampled, state } = this.#span;
    const caller = readTraceContext(this.#req.field('traceparent'), undefined);
    const parentId = caller.traceId === traceId ? caller.parentId : undefined;
    return { traceId, parentId, spanId, isSampled, state, inject: () => this.#tracer.inject() };
  }

  run<T>(fn: () => T): T {
    return this.#span.run(fn);
  }

  /** Records an error that no exception handler has handled, or that has interrupted the response. */
  fail(error: unknown): void {
    if (this.#isOver) return; // an error of a handler that has exceeded its time limit
    this.#hasFailed = true;
    failSpan(this.#span, error);
  }

  answer(status: number): void {
    this.#span.set('http.response.status_code', status);
    if (status < SERVER_ERROR || this.#hasFailed) return;
    this.#hasFailed = true;
    this.#span.set('error.type', String(status));
    this.#span.fail();
  }

  /** Ends the span. `outcome` is undefined if the response was sent completely, else it is the error. */
  end(outcome: unknown): void {
    if (this.#isOver) return;
    if (outcome !== undefined) {
      this.#span.set('svc.aborted', true);
      this.fail(outcome);
    }
    this.#isOver = true;
    this.#span.end();
  }
}

function attributesOf(req: TracedRequest): Record<string, SpanValue | undefined> {
  const { method, route, host, query } = req;
  const isKnown = METHODS.has(method);
  const [, address, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(host) ?? [];
  return {
    'http.request.method': isKnown ? method : '_OTHER',
    'http.request.method_original': isKnown ? undefined : method,
    'http.route': route?.template,
    'url.path': route !== undefined && hasSecret(route) ? route.template : mask(req.path),
    'url.query': queryOf(query),
    'url.scheme': req.scheme,
    'server.address': address === '' ? undefined : address,
    'server.port': port === undefined ? undefined : Number(port),
    'client.address': req.ip,
    'network.protocol.version': req.httpVersion,
    'user_agent.original': mask(req.field('user-agent') ?? '').slice(0, MAX_AGENT_CHARACTERS) || undefined,
  };
}

/** Returns the query with the values of secrets masked, as in logs; undefined if there is no query. */
function queryOf(query: MultiMap): string | undefined {
  const pairs = [...query.keys()].flatMap((name) =>
    query
      .getAll(name)
      .map((value) => `${encodeURIComponent(name)}=${encodeURIComponent(safeField(name, value))}`),
  );
  if (pairs.length === 0) return undefined;
  return mask(`?${pairs.join('&')}`)
    .replaceAll(encodeURIComponent(REDACTED), REDACTED)
    .slice(1, 1 + MAX_QUERY_CHARACTERS);
}
