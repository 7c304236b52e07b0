/**
 * The request, read from a transport: the IncomingMessage of node:http, or of http/server/memory.ts. Each
 * part is parsed once, when it is first used. body.ts reads the body.
 */
import { ClientDisconnected, SvcError } from '../../base/errors.ts';
import { inspectAsJson, mask } from '../../observability/redact.ts';
import { peerAddress } from './proxy.ts';
import { parseCookies } from '../cookies.ts';
import { findField, viewOf } from '../headers.ts';
import { parsePairs } from './query.ts';
import { RequestBody } from './body.ts';
import { readTraceContext } from '../request-id.ts';
import { RequestState, SESSION } from '../state.ts';
import type { HTTPException } from '../../base/errors.ts';
import type { BodySource } from './body-stream.ts';
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
import type { Answer, HttpResponse } from '../response.ts';
import type { HeaderView } from '../headers.ts';
import type { Forwarding, ProxyTrust } from './proxy.ts';
import type { MultiMap, Pairs } from './query.ts';
import type { BodyDefaults, JsonBodyOptions, JsonTaker } from './body.ts';
import type { RequestEvent } from './event.ts';
import type { RequestIdentity, TraceContext } from '../request-id.ts';
import type { Match } from '../router.ts';

/** The receiving side of a transport. */
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

/** The members of the transport's sending side that a request uses. */
export interface Outgoing {
  readonly writableFinished: boolean;
  /**
   * Whether the connection has accepted the whole response. Set only if that is known before the event
   * "finish".
   */
  readonly isTaken?: boolean;
  /** Whether the response has ended, successfully or not. */
  readonly destroyed: boolean;
  readonly headersSent?: boolean;
  once(event: 'close', listener: () => void): unknown;
  /** Undefined if the transport cannot send interim responses. */
  writeEarlyHints?(hints: { link: string[] }): void;
}

/** Settings of the application for its requests. */
export interface RequestDefaults extends BodyDefaults {
  readonly state: StateMap;
  /** The trusted proxies. */
  readonly trust?: ProxyTrust | undefined;
  /** How requests get their ids. */
  readonly identity: RequestIdentity;
}

/** Counts responses of one method of one route. */
export interface Tally {
  count(status: number, durationMs: number): void;
}

/** The result of a match in the routing table. */
export interface Endpoint {
  readonly route: CompiledRoute;
  /** Converts the captured segments of the path to the values of its parameters. */
  readParams(captures: readonly string[]): Readonly<Record<string, unknown>>;
  /** Maximum size of bodies in bytes; undefined: the application's limit. */
  readonly maxBodyBytes: number | undefined;
  /** Counter of the endpoint's responses, created by its first request. */
  tally?: Tally | undefined;
  /** Handles the request. Never throws, never rejects. */
  run(req: TransportRequest): Answer;
}

/** Outcome of a request: undefined if the response was sent, else the error. */
export type Outcome = unknown;

/** Runs callbacks that are added after the request has ended. */
interface LateRunner {
  runLate(req: TransportRequest, fn: (outcome: Outcome) => Awaitable<void>, outcome: Outcome): void;
}

const UNMATCHED: Match<Endpoint> = Object.freeze({ kind: 'none' });
const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});

/** Syntax of an early hint, as node:http requires it: `<address>; name=value; ...`. */
const HINT =
  /^<[!#-;=?-~]+>(?:[ \t]*;[ \t]*[\w!#$%&'*+.^`|~-]+(?:=(?:[\w!#$%&'*+./:^`|~-]+|"[!#-:<-~]*"))?)+$/;

/** A request that came over a transport. */
export class TransportRequest implements HttpRequest {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  /** Result of the router. Set by the application before middleware runs. @internal */
  match: Match<Endpoint> = UNMATCHED;
  /**
   * Error in the server that interrupted the response; undefined if the client left instead. Set by the
   * transport.
   * @internal
   */
  failure: unknown;
  /** Whether the response is decided. Set by the transport. @internal */
  isAnswered = false;
  /** The error of the time limit; undefined until the limit has passed. @internal */
  expiry: HTTPException | undefined;
  /** The response that the handler returns after the time limit. It is not sent. @internal */
  late: Promise<HttpResponse> | undefined;
  /** The connection of the server, if the transport has one. @internal */
  connection: Connection | undefined;
  /**
   * Whether another server has called the application. If so, the AsyncLocalStorage contexts of that server
   * must be preserved.
   * @internal
   */
  keepsContext = false;
  /** Time when the request came, in milliseconds of the monotonic clock. Set by the transport. @internal */
  startedMs = 0;
  /**
   * Diagnostics event of the request; undefined if its channels have no subscribers. Set by the application.
   * @internal
   */
  event: RequestEvent | undefined;
  /** Whether the client has closed its side of the connection, and may have left. @internal */
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
  /** Body reader; undefined until it is used. */
  #body: RequestBody | undefined;
  #afterwards: ((outcome: Outcome) => Awaitable<void>)[] | undefined;
  /** Runs callbacks that are added after the end of the request. They get `#outcomeReported`. */
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
      // absolute-form (RFC 9112 §3.2.2); a target of any other form matches no route
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
    this.path = path === '' ? '/' : path;
  }

  get scheme(): 'http' | 'https' {
    return this.#forwarded()?.scheme ?? (this.#incoming.socket.encrypted === true ? 'https' : 'http');
  }

  get host(): string {
    return this.#forwarded()?.host ?? this.#authority ?? findField(this.#incoming.rawHeaders, 'host') ?? '';
  }

  get ip(): string {
    return this.#forwarded()?.ip ?? peerAddress(this.#incoming.socket.remoteAddress ?? '');
  }

  get id(): string {
    return (this.#id ??= this.#defaults.identity.idOf(this.#incoming.rawHeaders));
  }

  get trace(): TraceContext {
    return (this.#trace ??= readTraceContext(this.field('traceparent'), this.field('tracestate')));
  }

  /** Name of the response field with the request id. @internal */
  get idField(): string {
    return this.identity.field;
  }

  /** How the request gets its id. @internal */
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
   * The value of a field by lower-case name; repeated values are joined with commas. For a few fields faster
   * than `headers`, which parses all. @internal
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
    return (this.#query ??= parsePairs(
      this.#queryStart === -1 ? '' : this.target.slice(this.#queryStart + 1),
    )!); // the result is defined, because the number of pairs is not limited
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
      if (!this.wasDelivered && this.failure === undefined) abort.abort(new ClientDisconnected());
    };
    if (this.expiry !== undefined) abort.abort(this.expiry);
    else if (outgoing.destroyed || this.hasLeft)
      leave(); // the client had left before this first use of the signal
    else outgoing.once('close', leave);
    return abort.signal;
  }

  /**
   * Aborts the signal. Called when the client has closed its side of the connection, and may have left.
   * @internal
   */
  leave(): void {
    this.hasLeft = true;
    this.#abort?.abort(new ClientDisconnected());
  }

  /** Aborts the signal because the time limit has passed. Only the first call has an effect. @internal */
  expire(reason: HTTPException, late: Promise<HttpResponse>): void {
    if (this.expiry !== undefined) return;
    this.expiry = reason;
    this.late = late;
    this.#abort?.abort(reason);
  }

  /**
   * Whether the whole response was sent. An event "finish" is not enough: Node 24.16 also emits it if the
   * socket broke. @internal
   */
  get wasDelivered(): boolean {
    const { writableFinished, isTaken } = this.#outgoing;
    return (
      !this.hasLeft &&
      (writableFinished || isTaken === true) &&
      (this.#incoming.socket.errored ?? null) === null
    );
  }

  body(options: BodyOptions = {}): Promise<Uint8Array> {
    return this.#content.bytes(options);
  }

  /**
   * Returns the whole body to a middleware. Afterwards the handler can still read it in every way, also as a
   * stream. @internal
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
    return this.#content.value(options);
  }

  /** Reads a JSON body, and resolves with the result of `use` for its value. @internal */
  readJson<T>(
    options: JsonBodyOptions,
    use: (value: unknown, isPlainJson: boolean) => T | PromiseLike<T>,
  ): Promise<T> {
    return this.#content.json(options, use);
  }

  /** Reads a JSON body, and passes its value to a callback instead of a promise. @internal */
  takeJson(options: JsonBodyOptions, taker: JsonTaker): void {
    this.#content.takeJson(options, taker);
  }

  form(options: FormOptions = {}): Promise<FormFields> {
    return this.#content.form(options);
  }

  /** Reads a form, and keeps only the files for which `keeper` returns a size. @internal */
  readForm(options: FormOptions, keeper?: FileKeeper): Promise<FormFields> {
    return this.#content.form(options, keeper);
  }

  parts(options: FormOptions = {}): AsyncGenerator<FormPart, void, undefined> {
    return this.#content.parts(options);
  }

  leadingFields(): Promise<MultiMap> {
    return this.#content.leadingFields();
  }

  /** Maximum size of bodies that the route sets, instead of the application's. @internal */
  get maxBodyBytes(): number | undefined {
    const { match } = this;
    return match.kind === 'found' ? match.endpoint.maxBodyBytes : undefined;
  }

  get #content(): RequestBody {
    return (this.#body ??= new RequestBody(this, this.#incoming, this.#defaults));
  }

  /** The request for logs: without query, header fields and body. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { method, path, route, id, ip } = this;
    return { method, path: mask(path), route: route?.template, id, ip };
  }

  static {
    inspectAsJson(TransportRequest, 'HttpRequest');
  }

  /**
   * The trace id if the request has a `traceparent`, or if `trace` was read before; otherwise undefined.
   * @internal
   */
  get knownTraceId(): string | undefined {
    if (this.#trace === undefined && findField(this.#incoming.rawHeaders, 'traceparent') === undefined)
      return undefined;
    return this.trace.traceId;
  }

  /** Fields that identify the request in a log line. @internal */
  logFields(): Record<string, unknown> {
    const { method, route, id, knownTraceId } = this;
    return { method, route: route?.template, request_id: id, trace_id: knownTraceId };
  }

  earlyHints(links: string | readonly string[]): boolean {
    const link = typeof links === 'string' ? [links] : [...links];
    if (!link.every((value) => typeof value === 'string' && HINT.test(value)))
      throw new SvcError('E_HEADER', [
        'Link',
        'an early hint must be a URL in <>, with parameters after it: </app.css>; rel=preload; as=style',
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
   * Runs `fn` when the response was sent, or the request has ended without one. The function that was added
   * last runs first. @internal
   */
  afterwards(fn: (outcome: Outcome) => Awaitable<void>): void {
    if (this.#late !== undefined)
      // the request has ended, because a middleware responded before the handler added this callback
      this.#late.runLate(this, fn, this.#outcomeReported);
    else (this.#afterwards ??= []).push(fn);
  }

  /**
   * Removes and returns the callbacks of {@link afterwards}. Callbacks that are added later are passed to
   * `runner`. @internal
   */
  takeAfterwards(
    outcome: Outcome,
    runner: LateRunner,
  ): ((outcome: Outcome) => Awaitable<void>)[] | undefined {
    const taken = this.#afterwards;
    this.#afterwards = undefined;
    this.#outcomeReported = outcome;
    this.#late = runner;
    return taken;
  }

  /** Client, scheme and host as trusted proxies report them; undefined if no proxy is trusted. */
  #forwarded(): Forwarding | undefined {
    const { trust } = this.#defaults;
    return trust === undefined
      ? undefined
      : (this.#forwarding ??= trust.resolve(this.#incoming.socket.remoteAddress ?? '', (name) =>
          this.field(name),
        ));
  }
}

/** The path of a request target, as in `TransportRequest.path`. @internal */
export function pathOf(target: string): string {
  const start = target.charCodeAt(0) === 47 ? 0 : (/^https?:\/\/[^/?#]*/i.exec(target)?.[0].length ?? 0);
  const question = target.indexOf('?', start);
  return target.slice(start, question === -1 ? target.length : question) || '/';
}
