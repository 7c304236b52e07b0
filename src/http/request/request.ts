/**
 * A request that is read from a transport: an IncomingMessage of node:http, or its substitute in
 * http/server/memory.ts. Each member is parsed once, when it is first read. body.ts reads the body.
 */
import { ClientDisconnected, SvcError } from '../../base/errors.ts';
import { inspectAsJson, mask } from '../../observability/redact.ts';
import { clientOf, peerAddress } from './proxy.ts';
import { parseCookies } from '../cookies.ts';
import { findField, viewOf } from '../headers.ts';
import { PLAIN_PATH, canonicalPath } from '../path.ts';
import { parsePairs } from './query.ts';
import { RequestBody } from './body.ts';
import { readTraceContext } from '../request-id.ts';
import { CARRIER, RequestState, SESSION } from '../state.ts';
import type { HTTPException } from '../../base/errors.ts';
import type { BodySource } from './body-stream.ts';
import type { Holder } from './budget.ts';
import type { Connection } from '../server/connections.ts';
import type {
  Awaitable,
  BodyOptions,
  CompiledRoute,
  FormFields,
  FormOptions,
  FormPart,
  HttpRequest,
  Session,
  StateMap,
} from '../contracts.ts';
import type { FileKeeper } from './form.ts';
import type { HttpResponse } from '../response.ts';
import type { HeaderView } from '../headers.ts';
import type { Forwarding, ProxyTrust } from './proxy.ts';
import type { MultiMap, Pairs } from './query.ts';
import type { BodyDefaults, BodyRules, JsonUse } from './body.ts';
import type { Delivery } from './delivery.ts';
import type { RequestSpan } from './span.ts';
import type { RequestIdentity, TraceContext } from '../request-id.ts';
import type { Match } from '../router.ts';

/** Members of an IncomingMessage that a request reads. */
export interface Incoming extends BodySource {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersionMinor?: number;
  readonly socket: {
    readonly remoteAddress?: string | undefined;
    readonly encrypted?: boolean;
    readonly errored?: Error | null;
  };
}

/** Members of a ServerResponse that a request uses. */
export interface Outgoing {
  readonly writableFinished: boolean;
  /** Whether the operating system has accepted the whole response, if known before the event "finish". */
  readonly isTaken?: boolean;
  /** Whether the response has ended, completely or not. */
  readonly destroyed: boolean;
  readonly headersSent?: boolean;
  once(event: 'close', listener: () => void): unknown;
  /** Sends a 103 response; undefined if the transport has no interim responses. */
  writeEarlyHints?(hints: { link: string[] }): void;
}

/** Settings of the application that its requests use. */
export interface RequestDefaults extends BodyDefaults {
  readonly state: StateMap;
  /** Trusted proxies; undefined if the application trusts none. */
  readonly trust?: ProxyTrust | undefined;
  /** Determines the ids of requests. */
  readonly identity: RequestIdentity;
}

/** Counts the responses to one method of one route. */
export interface Tally {
  count(status: number, durationMs: number): void;
}

/** A route with the functions that process its requests. */
export interface Endpoint {
  readonly route: CompiledRoute;
  /** Converts the matched segments of the path into the values of the parameters. */
  readParams(captures: readonly string[]): Readonly<Record<string, unknown>>;
  readonly bodyRules: BodyRules;
  /** Counter of the responses; created for the first request to this endpoint. */
  tally?: Tally | undefined;
  /** Handles the request. Never throws, never rejects. */
  run(req: TransportRequest): Awaitable<HttpResponse>;
  /** Returns `stored`, or the response of a guard that refuses. Undefined without guards. Never rejects. */
  readonly admit?: ((req: TransportRequest, stored: HttpResponse) => Promise<HttpResponse>) | undefined;
}

/** Outcome of a request: undefined if the response was sent completely, else the error. */
export type Outcome = unknown;

/** Runs clean-ups that are added after their request has ended. */
interface LateRunner {
  runLate(req: TransportRequest, fn: (outcome: Outcome) => Awaitable<void>, outcome: Outcome): void;
}

const UNMATCHED: Match<Endpoint> = Object.freeze({ kind: 'none' });
const NO_RULES: BodyRules = Object.freeze({});
const NO_OPTIONS: BodyOptions = Object.freeze({});
const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});

/** Syntax of an early hint that node:http accepts: `<address>; name=value; ...`. */
const HINT =
  /^<[!#-;=?-~]+>(?:[ \t]*;[ \t]*[\w!#$%&'*+.^`|~-]+(?:=(?:[\w!#$%&'*+./:^`|~-]+|"[!#-:<-~]*"))?)+$/;

/** A request that a server, `app.fetch()` or a test client received. */
export class TransportRequest implements HttpRequest {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  /** Result of the router. The application sets it before middleware runs. @internal */
  match: Match<Endpoint> = UNMATCHED;
  /**
   * Error of the server that interrupted the response. Undefined if the client interrupted it by
   * disconnecting. The transport sets the error.
   * @internal
   */
  failure: unknown;
  /** Whether a response was chosen and may no longer be replaced. The transport sets it. @internal */
  isAnswered = false;
  /** Error that is set when the time limit has passed. @internal */
  expiry: HTTPException | undefined;
  /** The response that the handler returns after its time limit. It is not sent to the client. @internal */
  late: Promise<HttpResponse> | undefined;
  /** The server's record of the connection; undefined if the transport has no connections. @internal */
  connection: Connection | undefined;
  /**
   * Address of the other end of the connection. A server sets it, because the socket forgets it when the client
   * leaves. @internal
   */
  peer: string | undefined;
  /** When the request arrived, in milliseconds of the monotonic clock. The transport sets it. @internal */
  startedMs = 0;
  /** Delivery of the response, for the access log. The application sets it. @internal */
  delivery: Delivery | undefined;
  /** Span of the request; undefined without a tracer. The application sets it. @internal */
  span: RequestSpan | undefined;
  /** Whether the client has closed its side of the connection. It has probably disconnected. @internal */
  hasLeft = false;
  readonly #incoming: Incoming;
  readonly #outgoing: Outgoing;
  readonly #defaults: RequestDefaults;
  readonly #queryStart: number;
  #authority: string | undefined;
  #forwarding: Forwarding | undefined;
  #params: Readonly<Record<string, unknown>> | undefined;
  #id: string | undefined;
  #trace: TraceContext | undefined;
  #headers: HeaderView | undefined;
  #cookies: Readonly<Record<string, string>> | undefined;
  #query: Pairs | undefined;
  #state: RequestState | undefined;
  #abort: AbortController | undefined;
  /** The first reason for which the server has ended the request early. */
  #interruption: Error | undefined;
  /** Body of the request; undefined until it is first used. */
  #body: RequestBody | undefined;
  #afterwards: ((outcome: Outcome) => Awaitable<void>)[] | undefined;
  #bodyEnds: ((outcome: Outcome) => Awaitable<void>)[] | undefined;
  /** Runs clean-ups that are added after the end of the request. Undefined before the end. */
  #late: LateRunner | undefined;
  #outcomeReported: Outcome;

  constructor(incoming: Incoming, outgoing: Outgoing, defaults: RequestDefaults) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#defaults = defaults;
    this.method = incoming.method ?? 'GET';
    const target = incoming.url ?? '/';
    this.target = target;
    let start = 0;
    if (target.charCodeAt(0) !== 47) {
      // the target may be an absolute URL (RFC 9112 §3.2.2); a target that is neither a path nor a URL
      // matches no route
      const absolute = /^https?:\/\/([^/?#]*)/i.exec(target);
      if (absolute !== null) {
        this.#authority = absolute[1]!;
        start = absolute[0].length;
      }
    }
    const question = target.indexOf('?', start);
    this.#queryStart = question;
    const path =
      question === -1 ? (start === 0 ? target : target.slice(start)) : target.slice(start, question);
    this.path = path === '' ? '/' : PLAIN_PATH.test(path) ? path : canonicalPath(path);
  }

  get scheme(): 'http' | 'https' {
    return this.#forwarded()?.scheme ?? (this.#incoming.socket.encrypted === true ? 'https' : 'http');
  }

  get host(): string {
    return this.#forwarded()?.host ?? this.#authority ?? findField(this.#incoming.rawHeaders, 'host') ?? '';
  }

  /** Version of HTTP; undefined without a connection. @internal */
  get httpVersion(): string | undefined {
    const { httpVersionMinor } = this.#incoming;
    return httpVersionMinor === undefined ? undefined : `1.${httpVersionMinor}`;
  }

  get ip(): string {
    return this.#forwarded()?.ip ?? peerAddress(this.peer ?? this.#incoming.socket.remoteAddress ?? '');
  }

  get id(): string {
    return (this.#id ??= this.#defaults.identity.idOf(this.#incoming.rawHeaders));
  }

  get trace(): TraceContext {
    return (this.#trace ??=
      this.span?.context ?? readTraceContext(this.field('traceparent'), this.field('tracestate')));
  }

  /** Name of the header field with the request id. @internal */
  get idField(): string {
    return this.identity.field;
  }

  /** Determines the ids of the application's requests. @internal */
  get identity(): RequestIdentity {
    return this.#defaults.identity;
  }

  get route(): CompiledRoute | undefined {
    return this.match.kind === 'found' ? this.match.endpoint.route : undefined;
  }

  get pathParams(): Readonly<Record<string, unknown>> {
    const { match } = this;
    return (this.#params ??= match.kind === 'found' ? match.endpoint.readParams(match.captures) : NO_PARAMS);
  }

  get headers(): HeaderView {
    return (this.#headers ??= viewOf(this.#incoming.rawHeaders));
  }

  /**
   * Returns the value of a header field by its lower-case name. Repeated values are joined by commas. For a
   * few fields it is faster than `headers`, which parses all fields.
   * @internal
   */
  field(name: string): string | undefined {
    if (this.#headers !== undefined) return this.#headers[name];
    const { rawHeaders } = this.#incoming;
    let value: string | undefined;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const candidate = rawHeaders[index]!;
      if (candidate.length !== name.length || (candidate !== name && candidate.toLowerCase() !== name))
        continue;
      value = value === undefined ? rawHeaders[index + 1]! : `${value}, ${rawHeaders[index + 1]!}`;
    }
    return value;
  }

  get cookies(): Readonly<Record<string, string>> {
    return (this.#cookies ??= parseCookies(this.headers['cookie']));
  }

  get query(): MultiMap {
    // not undefined: without a maximum number of pairs, parsePairs() always returns pairs
    return (this.#query ??= parsePairs(
      this.#queryStart === -1 ? '' : this.target.slice(this.#queryStart + 1),
    )!);
  }

  get state(): StateMap {
    return (this.#state ??= new RequestState(this.#defaults.state));
  }

  get session(): Session {
    if (!this.state.has(SESSION)) throw new SvcError('E_SESSION_ABSENT', []);
    return this.state.get(SESSION);
  }

  get signal(): AbortSignal {
    if (this.#abort !== undefined) return this.#abort.signal;
    const abort = (this.#abort = new AbortController());
    const outgoing = this.#outgoing;
    const leave = (): void => {
      if (this.isAbandoned) abort.abort(new ClientDisconnected());
    };
    if (this.#interruption !== undefined) abort.abort(this.#interruption);
    else outgoing.once('close', leave);
    leave(); // the client may have disconnected before the signal was first read
    return abort.signal;
  }

  /**
   * Aborts the signal. The server calls this method when the client has closed its side of the connection.
   * @internal
   */
  leave(): void {
    this.hasLeft = true;
    this.#abort?.abort(new ClientDisconnected());
  }

  /** Aborts the signal because the time limit is over. Only the first call has an effect. @internal */
  expire(reason: HTTPException, late: Promise<HttpResponse>): void {
    if (this.expiry !== undefined) return;
    this.expiry = reason;
    this.late = late;
    this.interrupt(reason);
  }

  /** Aborts the signal, because the server ends the request early. @internal */
  interrupt(reason: Error): void {
    this.#interruption ??= reason;
    this.#abort?.abort(reason);
  }

  /**
   * Whether the whole response was sent. The event "finish" alone does not prove that: Node 24.16 also emits
   * it for a broken socket.
   * @internal
   */
  get wasDelivered(): boolean {
    const { writableFinished, isTaken } = this.#outgoing;
    return (
      !this.hasLeft &&
      (writableFinished || isTaken === true) &&
      (this.#incoming.socket.errored ?? null) === null
    );
  }

  /** Whether the client has disconnected before its response was complete. @internal */
  get isAbandoned(): boolean {
    return (this.#outgoing.destroyed || this.hasLeft) && !this.wasDelivered && this.failure === undefined;
  }

  body(options: BodyOptions = {}): Promise<Uint8Array> {
    return this.#content.bytes(options);
  }

  /**
   * Returns the whole body to a middleware. Afterwards, the handler can still read it with any method,
   * including stream().
   * @internal
   */
  wholeBody(options: BodyOptions): Promise<Uint8Array> {
    return this.#content.whole(options);
  }

  stream(options: BodyOptions = {}): AsyncIterable<Uint8Array> {
    return this.#content.stream(options);
  }

  text(options: BodyOptions = {}): Promise<string> {
    return this.#content.text(options);
  }

  json(options: BodyOptions = {}): Promise<unknown> {
    return this.#content.json(options);
  }

  /**
   * Parses the body as JSON, and calls `use` with the value: at once if the whole body is there. Returns the
   * result of `use`, or a promise of it.
   * @internal
   */
  readJson<T>(use: JsonUse<T>): Awaitable<T> {
    return this.#content.readJson(NO_OPTIONS, use);
  }

  form(options: FormOptions = {}): Promise<FormFields> {
    return this.#content.form(options);
  }

  /**
   * Reads a form. `keeper` decides for each form field whether its files are stored, and up to which size.
   * @internal
   */
  readForm(keeper: FileKeeper | undefined): Awaitable<FormFields> {
    return this.#content.readForm(NO_OPTIONS, keeper);
  }

  parts(options: FormOptions = {}): AsyncGenerator<FormPart, void, undefined> {
    return this.#content.parts(options);
  }

  leadingFields(): Promise<MultiMap> {
    return this.#content.leadingFields();
  }

  /** Options of the matched route for its body. @internal */
  get bodyRules(): BodyRules {
    const { match } = this;
    return match.kind === 'found' ? match.endpoint.bodyRules : NO_RULES;
  }

  get #content(): RequestBody {
    if (this.#body === undefined) {
      this.#body = new RequestBody(this, this.#incoming, this.#defaults);
      // Nothing would free the bytes of a body that is first read after the end of its request. The request that
      // carries a call of an MCP tool already holds the bytes of the call.
      if (this.#late !== undefined || this.#state?.has(CARRIER) === true) this.#body.budget = undefined;
    }
    return this.#body;
  }

  /** Returns a holder of bytes that are received after the request, for a WebSocket. @internal */
  holder(): Holder {
    return { budget: this.#defaults.budget, heldBytes: 0, holderIndex: 0, client: clientOf(this.ip) };
  }

  /** Returns the members of the request that may be logged: no query, header fields or body. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { method, path, route, id, ip } = this;
    return { method, path: mask(path), route: route?.template, id, ip };
  }

  static {
    inspectAsJson(TransportRequest, 'HttpRequest');
  }

  /**
   * The trace id, if the request has a span or a `traceparent` field, or if `trace` was read before; otherwise
   * undefined.
   * @internal
   */
  get knownTraceId(): string | undefined {
    const isKnown = this.span !== undefined || this.#trace !== undefined;
    if (!isKnown && findField(this.#incoming.rawHeaders, 'traceparent') === undefined) return undefined;
    return this.trace.traceId;
  }

  /** Returns the fields that identify the request in a log line. @internal */
  logFields(): Record<string, unknown> {
    const { method, route, id, knownTraceId, span } = this;
    const trace = { trace_id: knownTraceId, span_id: span?.spanId };
    return { method, route: route?.template, request_id: id, ...trace };
  }

  earlyHints(links: string | readonly string[]): boolean {
    const link = typeof links === 'string' ? [links] : [...links];
    if (!link.every((value) => typeof value === 'string' && HINT.test(value)))
      throw new SvcError('E_HEADER', [
        'Link',
        'an early hint must be a URL in angle brackets and its parameters, such as </app.css>; rel=preload; as=style',
      ]);
    const outgoing = this.#outgoing;
    if (
      link.length === 0 ||
      outgoing.writeEarlyHints === undefined ||
      outgoing.headersSent === true ||
      outgoing.destroyed ||
      this.#incoming.httpVersionMinor === 0
    )
      return false;
    outgoing.writeEarlyHints({ link });
    return true;
  }

  /**
   * Adds a clean-up that runs after the response was sent, or the request ended without one. The clean-up
   * that was added last runs first. The end of the response's source `isOfBody`: it runs before all others.
   * @internal
   */
  afterwards(fn: (outcome: Outcome) => Awaitable<void>, isOfBody = false): void {
    if (this.#late !== undefined)
      // the request has already ended: a middleware sent a response before the handler added this clean-up
      this.#late.runLate(this, fn, this.#outcomeReported);
    else (isOfBody ? (this.#bodyEnds ??= []) : (this.#afterwards ??= [])).push(fn);
  }

  /**
   * Called when the request has ended. Frees the bytes of its body.
   *
   * Removes and returns the clean-ups of {@link afterwards}. Clean-ups that are added later go to `runner`.
   * @internal
   */
  takeAfterwards(
    outcome: Outcome,
    runner: LateRunner,
  ): ((outcome: Outcome) => Awaitable<void>)[] | undefined {
    const body = this.#body;
    if (body?.budget !== undefined) {
      // a handler that still runs after its time limit holds the bytes until it ends
      if (this.late === undefined) body.budget.release(body);
      else void this.late.then(() => body.budget?.release(body));
    }
    const bodyEnds = this.#bodyEnds;
    const taken = bodyEnds === undefined ? this.#afterwards : [...(this.#afterwards ?? []), ...bodyEnds];
    this.#afterwards = this.#bodyEnds = undefined;
    this.#outcomeReported = outcome;
    this.#late = runner;
    return taken;
  }

  /** Client, scheme and host that trusted proxies report; undefined if the application trusts no proxy. */
  #forwarded(): Forwarding | undefined {
    const { trust } = this.#defaults;
    return trust === undefined
      ? undefined
      : (this.#forwarding ??= trust.resolve(this.peer ?? this.#incoming.socket.remoteAddress ?? '', (name) =>
          this.field(name),
        ));
  }
}

/** Returns the canonical path of a request target, like `TransportRequest.path`. @internal */
export function pathOf(target: string): string {
  const start = target.charCodeAt(0) === 47 ? 0 : (/^https?:\/\/[^/?#]*/i.exec(target)?.[0].length ?? 0);
  const question = target.indexOf('?', start);
  return canonicalPath(target.slice(start, question === -1 ? target.length : question)) || '/';
}
