/**
 * The request, read from a transport: node:http's IncomingMessage, or the one of http/server/memory.ts. Each part is parsed once,
 * when it is first read; unread parts cost nothing. body.ts reads its body.
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

/** Sending side of a transport, as far as a request uses it. */
export interface Outgoing {
  readonly writableFinished: boolean;
  /** Whether the connection has taken all of it, if known before it is finished. */
  readonly isTaken?: boolean;
  /** Whether it has ended, successfully or not. */
  readonly destroyed: boolean;
  readonly headersSent?: boolean;
  once(event: 'close', listener: () => void): unknown;
  /** Absent without interim responses. */
  writeEarlyHints?(hints: { link: string[] }): void;
}

/** Settings from the application. */
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

/** Where a match leads. */
export interface Endpoint {
  readonly route: CompiledRoute;
  /** The parameters of the path out of its raw captures. */
  readParams(captures: readonly string[]): Readonly<Record<string, unknown>>;
  /** The cap of its bodies in bytes; undefined: the application's. */
  readonly maxBodyBytes: number | undefined;
  /** Counter of its responses, after the look-up. */
  tally?: Tally | undefined;
  /** Handles the request. Never throws, never rejects. */
  run(req: TransportRequest): Answer;
}

/** Outcome of a request: `undefined` if the response was sent, else the error. */
export type Outcome = unknown;

/** Runs late callbacks of a request that has already ended. */
interface LateRunner {
  runLate(req: TransportRequest, fn: (outcome: Outcome) => Awaitable<void>, outcome: Outcome): void;
}

const UNMATCHED: Match<Endpoint> = Object.freeze({ kind: 'none' });
const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});

/** `<address>; name=value; ...`, as node:http takes it. */
const HINT =
  /^<[!#-;=?-~]+>(?:[ \t]*;[ \t]*[\w!#$%&'*+.^`|~-]+(?:=(?:[\w!#$%&'*+./:^`|~-]+|"[!#-:<-~]*"))?)+$/;

/** A request of one transport. */
export class TransportRequest implements HttpRequest {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  /** Result of the router, before the middleware runs. Set by the application. @internal */
  match: Match<Endpoint> = UNMATCHED;
  /** Error that cut its response, if it was not the client. Set by the transport. @internal */
  failure: unknown;
  /** Whether there is a response: until then a client that leaves does not end the request. Set by the transport. @internal */
  isAnswered = false;
  /** Why its time is over, once it is. @internal */
  expiry: HTTPException | undefined;
  /** A response after that, which is discarded. @internal */
  late: Promise<HttpResponse> | undefined;
  /** Its server connection, if there is one. @internal */
  connection: Connection | undefined;
  /** Whether another server's code runs around the request: it may have entered an AsyncLocalStorage. @internal */
  keepsContext = false;
  /** When it came, by the monotonic clock. Set by the transport. @internal */
  startedMs = 0;
  /** Diagnostics event; undefined without subscribers. Set by the application. @internal */
  event: RequestEvent | undefined;
  /** Whether its client has half-closed the connection, and may have left. @internal */
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
  /** Runner of late callbacks, and how the request ended. */
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
      // absolute-form (RFC 9112 §3.2.2); other targets match nothing
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

  /** Response field with the id. @internal */
  get idField(): string {
    return this.identity.field;
  }

  /** How it gets its id. @internal */
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

  /** A field by lower-case name, several joined with commas: the view of all is not built for it. @internal */
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
    )!); // no limit, so never undefined
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
      leave(); // the client left before the signal was first read
    else outgoing.once('close', leave);
    return abort.signal;
  }

  /** Called when the client has ended its side, and may have left: aborts the signal. @internal */
  leave(): void {
    this.hasLeft = true;
    this.#abort?.abort(new ClientDisconnected());
  }

  /** Aborts the signal because the time is over. Only the first call counts. @internal */
  expire(reason: HTTPException, late: Promise<HttpResponse>): void {
    if (this.expiry !== undefined) return;
    this.expiry = reason;
    this.late = late;
    this.#abort?.abort(reason);
  }

  /** Whether the whole response was sent. Node 24.16 emits "finished" for a response whose socket broke. @internal */
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

  /** Body for a layer: the handler can still read it in any way, also as a stream. @internal */
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

  /** `json()` combined with a use of the value; see {@link JsonTaker}. @internal */
  readJson<T>(
    options: JsonBodyOptions,
    use: (value: unknown, isPlainJson: boolean) => T | PromiseLike<T>,
  ): Promise<T> {
    return this.#content.json(options, use);
  }

  /** Variant without a promise. @internal */
  takeJson(options: JsonBodyOptions, taker: JsonTaker): void {
    this.#content.takeJson(options, taker);
  }

  form(options: FormOptions = {}): Promise<FormFields> {
    return this.#content.form(options);
  }

  /** `form()` that keeps only the files that `keeper` names. @internal */
  readForm(options: FormOptions, keeper?: FileKeeper): Promise<FormFields> {
    return this.#content.form(options, keeper);
  }

  parts(options: FormOptions = {}): AsyncGenerator<FormPart, void, undefined> {
    return this.#content.parts(options);
  }

  leadingFields(): Promise<MultiMap> {
    return this.#content.leadingFields();
  }

  /** The cap of its route's bodies, in place of the application's. @internal */
  get maxBodyBytes(): number | undefined {
    const { match } = this;
    return match.kind === 'found' ? match.endpoint.maxBodyBytes : undefined;
  }

  get #content(): RequestBody {
    return (this.#body ??= new RequestBody(this, this.#incoming, this.#defaults));
  }

  /** Representation for logs: no query, no fields, no body. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { method, path, route, id, ip } = this;
    return { method, path: mask(path), route: route?.template, id, ip };
  }

  static {
    inspectAsJson(TransportRequest, 'HttpRequest');
  }

  /** Trace id, if the request came with a trace, or it was read. @internal */
  get knownTraceId(): string | undefined {
    if (this.#trace === undefined && findField(this.#incoming.rawHeaders, 'traceparent') === undefined)
      return undefined;
    return this.trace.traceId;
  }

  /** Fields for a log line. @internal */
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

  /** Runs `fn` after the response was sent or the request has ended, last added first. @internal */
  afterwards(fn: (outcome: Outcome) => Awaitable<void>): void {
    if (this.#late !== undefined)
      this.#late.runLate(this, fn, this.#outcomeReported); // a middleware answered before the handler did
    else (this.#afterwards ??= []).push(fn);
  }

  /** Takes the callbacks of {@link afterwards}; later ones go to `runner`. @internal */
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

  /** Values from trusted proxies; undefined if no proxy is trusted. */
  #forwarded(): Forwarding | undefined {
    const { trust } = this.#defaults;
    return trust === undefined
      ? undefined
      : (this.#forwarding ??= trust.resolve(this.#incoming.socket.remoteAddress ?? '', (name) =>
          this.field(name),
        ));
  }
}

/** The path of a request target, as {@link TransportRequest} has it. @internal */
export function pathOf(target: string): string {
  const start = target.charCodeAt(0) === 47 ? 0 : (/^https?:\/\/[^/?#]*/i.exec(target)?.[0].length ?? 0);
  const question = target.indexOf('?', start);
  return target.slice(start, question === -1 ? target.length : question) || '/';
}
