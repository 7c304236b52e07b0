/**
 * Responses: a status, fields and a body, until the server writes them. Seven classes for common bodies, their JSON, and delayed
 * responses.
 *
 * With lines of JSON (`application/x-ndjson`) each value of a source is one line, sent when it comes.
 */
import { Readable } from 'node:stream';
import { FORGOTTEN_AWAIT, ignore, isThenable } from '../base/promises.ts';
import { statusTitle, SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import { bytesOf } from '../base/bytes.ts';
import { inspectAsJson } from '../observability/redact.ts';
import { HeaderList } from './headers.ts';
import { needsSecure, serializeCookie } from './cookies.ts';
import { encodeLocation } from './path.ts';
import { isChunks, prime, isPending, iterate } from './chunks.ts';
import type { ByteSource } from '../base/bytes.ts';
import type { HTTPException, Issue } from '../base/errors.ts';
import type { HeaderView } from './headers.ts';
import type { CookieOptions } from './cookies.ts';
import type { Chunks, Primed, Chunk, ChunkIterator, ChunkStep } from './chunks.ts';
import type { Awaitable } from '../cache/stores.ts';

/** Body of a response: text, bytes, nothing, or chunks that are pulled during sending. */
type ResponseBody = string | Uint8Array | null | Chunks;

/** Options of every response class, beside the body. `undefined` means not given. */
export interface ResponseOptions {
  /** An integer 200 ... 599. Default 200. */
  readonly status?: number | undefined;
  /** Fields by name. Content-Length, Transfer-Encoding and Connection are the server's. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The value of `Content-Type`, in place of the class's own. */
  readonly mediaType?: string | undefined;
}

/** The parts of its request that a response may use. */
export interface Answered {
  readonly method: string;
  readonly headers: HeaderView;
  /** Aborts when the client no longer waits for the response. */
  readonly signal?: AbortSignal | undefined;
  /** A field by lower-case name, where that is cheaper than the view of all. */
  field?(name: string): string | undefined;
  /** Runs `fn` when the response was sent, or will never be. */
  afterwards?(fn: () => Promise<void>): void;
}

/** Status and checked fields of a shared response. @internal */
export class Prepared {
  readonly status: number;
  readonly flat: readonly string[];
  /** Status line and fields as text, after they were sent once: see http/server/request-head.ts. */
  headText: string | undefined;

  constructor(status: number, flat: readonly string[]) {
    this.status = status;
    this.flat = flat;
  }
}

/** Start of responses with one media type, made once for each status. @internal */
export class PreparedType {
  readonly #flat: readonly string[];
  readonly #byStatus = new Map<number, Prepared>();

  constructor(mediaType: string) {
    this.#flat = ['Content-Type', mediaType];
  }

  get(status: number): Prepared {
    let prepared = this.#byStatus.get(status);
    if (prepared === undefined) this.#byStatus.set(status, (prepared = new Prepared(status, this.#flat)));
    return prepared;
  }
}

const NO_FIELDS: readonly string[] = Object.freeze([]);
const UNPREPARED = new Prepared(0, NO_FIELDS);

/** A response. Middleware may change its status, fields and body until it is sent. */
export class HttpResponse {
  #body: ResponseBody;
  /** Length of a chunked body if known, else -1. */
  contentLength = -1;
  #status: number;
  /** Shared fields, until the list of fields is requested. */
  readonly #prepared: Prepared;
  #headers: HeaderList | undefined;
  /** `Set-Cookie` values that get `Secure` when the response is sent over TLS, or in production. */
  #securedLater: Set<string> | undefined;
  /** Whether it was made for one request. A response that a program keeps may be returned for many: each gets a copy. */
  readonly #isForOne: boolean;

  /** @throws SvcError `E_HEADER`; RangeError for a status that no final response has */
  constructor(body: ResponseBody | ByteSource = null, options: ResponseOptions | Prepared = {}) {
    this.#body = typeof body === 'string' ? body : bodyOf(body);
    this.#isForOne = options instanceof Prepared;
    if (options instanceof Prepared) {
      this.#status = options.status;
      this.#prepared = options;
      return;
    }
    const { status = 200, headers, mediaType } = options;
    this.#status = checkedStatus(status);
    this.#prepared = UNPREPARED;
    if (mediaType !== undefined) this.headers.set('Content-Type', mediaType);
    if (headers !== undefined)
      for (const [name, value] of Object.entries(headers)) this.headers.set(name, value);
  }

  /** The content. Buffers and views of every kind become a `Uint8Array` when they are set. */
  get body(): ResponseBody {
    return this.#body;
  }
  set body(body: ResponseBody | ByteSource) {
    this.#body = bodyOf(body);
  }

  /** Header fields; they may be changed. */
  get headers(): HeaderList {
    return (this.#headers ??= new HeaderList([...this.#prepared.flat]));
  }

  /** Status, an integer 200 ... 599. @throws RangeError for other values: a final response has none */
  get status(): number {
    return this.#status;
  }
  set status(status: number) {
    this.#status = checkedStatus(status);
  }

  /** Adds a cookie: by default HttpOnly and SameSite=Lax; Secure as {@link CookieOptions.secure} says. @throws SvcError `E_COOKIE`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  setCookie(name: string, value: string, options: CookieOptions = {}): this {
    const isDecided = options.secure !== undefined;
    const field = serializeCookie(
      name,
      value,
      needsSecure(name, options) && !isDecided ? { ...options, secure: true } : options,
    );
    if (!isDecided && !field.endsWith('; Secure')) (this.#securedLater ??= new Set()).add(field);
    this.headers.append('Set-Cookie', field);
    return this;
  }

  /** Removes a cookie from the client. Path and domain must equal those it was set with. */
  deleteCookie(name: string, options: Pick<CookieOptions, 'path' | 'domain' | 'secure'> = {}): this {
    return this.setCookie(name, '', { ...options, maxAgeSeconds: 0 });
  }

  /**
   * Prepares the response to one request before it passes through the middleware: looks up files, and copies a response that the
   * program keeps, so that middleware does not change it.
   */
  settle(_request: Answered): HttpResponse | Promise<HttpResponse> {
    return this.#isForOne ? this : this.copy();
  }

  /** Copies the response for one request. @internal */
  copy(): HttpResponse {
    const copy = this.fill(new HttpResponse(null, new Prepared(this.#status, NO_FIELDS)));
    copy.body = this.body;
    return copy;
  }

  /** Copies the fields to another response. @internal */
  protected fill<T extends HttpResponse>(other: T): T {
    other.#headers = new HeaderList([...this.fields(false)], this.hasAsciiFields);
    other.contentLength = this.contentLength;
    if (this.#securedLater !== undefined) other.#securedLater = new Set(this.#securedLater);
    return other;
  }

  /** Representation for logs: without cookies, and with the size of the body. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { status, headers, body } = this;
    const size =
      typeof body === 'string'
        ? `[${body.length} characters]`
        : body instanceof Uint8Array
          ? `[${body.length} bytes]`
          : body === null
            ? null
            : '[pieces]';
    return { status, headers: headers.toJSON(), body: size };
  }

  static {
    inspectAsJson(HttpResponse);
    sayNoPromise(this.prototype);
  }

  /** Its original parts, if they were not changed. @internal */
  get prepared(): Prepared | undefined {
    return this.#headers === undefined && this.#prepared.status === this.#status ? this.#prepared : undefined;
  }

  /** Whether the characters of its fields equal their UTF-8 bytes. @internal */
  get hasAsciiFields(): boolean {
    return this.#headers === undefined || this.#headers.isAscii;
  }

  /** Whether there are cookies that get `Secure` on a protected connection. @internal */
  get hasWaitingCookies(): boolean {
    return this.#securedLater !== undefined;
  }

  /** Fields as sent, with secured cookies. Read-only. @internal */
  fields(isSecure: boolean): readonly string[] {
    const flat = this.#headers === undefined ? this.#prepared.flat : this.#headers.flat;
    const later = this.#securedLater;
    if (later === undefined || !isSecure) return flat;
    return flat.map((value) => (later.has(value) ? `${value}; Secure` : value));
  }
}

/**
 * Shows at once that responses are not promises. A promise looks up `then` on its result along the prototype chain, down to
 * Object. Each asynchronous layer has two promises, so this property saves a tenth of a layer (`mw5` of test/bench/http.ts).
 */
function sayNoPromise(prototype: HttpResponse): void {
  Object.defineProperty(prototype, 'then', { value: undefined, writable: true, configurable: true });
}

/** @throws SvcError `E_REPLY` for a promise */
function bodyOf(body: ResponseBody | ByteSource): ResponseBody {
  if (typeof body !== 'object' || body === null) return body;
  if (isThenable(body)) throw new SvcError('E_REPLY', [`the body ${FORGOTTEN_AWAIT}`]);
  return bytesOf(body) ?? (body as Chunks); // any other object is chunks
}

/** Statuses of responses without content (RFC 9110 §6.4.1). */
export function hasNoContent(status: number): boolean {
  return status === 204 || status === 304 || status === 205;
}

/** The status, if a final response can have it. @throws RangeError */
export function checkedStatus(status: number): number {
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw new RangeError(`A response status is an integer 200 … 599, found ${String(status)}`);
  return status;
}

/** A value as `application/json`: dates in ISO 8601, bigints as decimal strings. @throws SvcError `E_REPLY` for a cycle or no JSON value */
export class JSONResponse extends HttpResponse {
  constructor(body: unknown, options: ResponseOptions = {}) {
    super(toJson(body), { ...options, mediaType: options.mediaType ?? JSON_TYPE });
  }
}

/** Text as `text/plain; charset=utf-8`. */
export class TextResponse extends HttpResponse {
  constructor(body: string, options: ResponseOptions = {}) {
    super(body, { ...options, mediaType: options.mediaType ?? TEXT_TYPE });
  }
}

/** HTML as `text/html; charset=utf-8`. Escape user input first. */
export class HTMLResponse extends HttpResponse {
  constructor(body: string, options: ResponseOptions = {}) {
    super(body, { ...options, mediaType: options.mediaType ?? HTML_TYPE });
  }
}

/** Redirects the client: 307, or `status` 301, 302, 303 or 308. The location is encoded if necessary. */
export class RedirectResponse extends HttpResponse {
  constructor(location: string, options: ResponseOptions = {}) {
    const { status = 307 } = options;
    if (![301, 302, 303, 307, 308].includes(status))
      throw new RangeError(`A redirect has the status 301, 302, 303, 307 or 308, found ${String(status)}`);
    super(null, { ...options, status });
    this.headers.set('Location', encodeLocation(location));
  }
}

/** Options of {@link StreamingResponse}. */
export interface StreamingOptions extends ResponseOptions {
  /** The number of bytes, when it is known: sent as Content-Length instead of chunked coding. */
  readonly contentLength?: number | undefined;
}

/** Checks that chunks or events can be pulled from a source. @throws SvcError `E_STREAM` @internal */
export function checkedSource<T>(source: T): T & Chunks {
  if (!isChunks(source) || !(Symbol.asyncIterator in source || Symbol.iterator in source))
    throw new SvcError('E_STREAM', [`${shown(source)} is not an iterable, async iterable or stream`]);
  if (source instanceof Readable) source.on('error', ignore); // it may fail before it is pulled, which reports the error
  return source as T & Chunks; // each chunk is checked when it is pulled
}

/**
 * A body in chunks, pulled only as fast as the client reads. Sources: iterables, async iterables, web streams, Node's
 * `Readable`. Default media type `application/octet-stream`.
 *
 * The first chunk is pulled before the response starts, so a source that fails by then is an ordinary error (500). A later failure
 * closes the connection, and the client sees an incomplete response. The source is ended (`return()`, `cancel()`, `destroy()`)
 * when the client leaves, even while a chunk is awaited.
 */
export class StreamingResponse extends HttpResponse {
  /** @throws SvcError `E_STREAM` for a source without chunks, and for an invalid `contentLength` */
  constructor(chunks: Chunks | ReadableStream<string | ByteSource>, options: StreamingOptions = {}) {
    const { contentLength = -1, ...rest } = options;
    if (contentLength !== -1 && !(Number.isSafeInteger(contentLength) && contentLength >= 0))
      throw new SvcError('E_STREAM', [
        `contentLength is ${shown(contentLength)}, a number of bytes is needed`,
      ]);
    super(checkedSource(chunks), { ...rest, mediaType: options.mediaType ?? BYTES_TYPE });
    this.contentLength = contentLength;
  }

  /** @internal */
  override copy(): StreamingResponse {
    const copy = this.fill(new StreamingResponse([], { status: this.status }));
    copy.body = this.body;
    return copy;
  }

  override settle(request: Answered): HttpResponse | Promise<HttpResponse> {
    const answer = super.copy();
    const { body, contentLength } = answer;
    if (
      request.method === 'HEAD' ||
      hasNoContent(answer.status) ||
      !isChunks(body) ||
      request.signal?.aborted === true
    )
      return answer; // it is not read
    const primed = prime(body, contentLength, request.signal);
    return primed instanceof Promise
      ? primed.then((ready) => withChunks(answer, ready, request))
      : withChunks(answer, primed, request);
  }
}

function withChunks(answer: HttpResponse, primed: Primed, request: Answered): HttpResponse {
  answer.body = primed;
  request.afterwards?.(async () => primed.drop());
  return answer;
}

export const JSON_TYPE = 'application/json';
export const TEXT_TYPE = 'text/plain; charset=utf-8';
export const HTML_TYPE = 'text/html; charset=utf-8';
export const BYTES_TYPE = 'application/octet-stream';

/*
 * Problems: bodies of failed requests (RFC 9457), with one shape for every 4xx and 5xx.
 */

export const PROBLEM_TYPE = 'application/problem+json';
const PROBLEM = new PreparedType(PROBLEM_TYPE);

/** Members of a problem beside its status. Only the places of issues and the request id come from the request. */
interface ProblemDetails {
  readonly detail?: string | undefined;
  readonly code?: string | undefined;
  readonly issues?: readonly Issue[] | undefined;
  /** The stack, with `debug` only. */
  readonly trace?: string | undefined;
}

/** A problem as a response. `requestId` was checked: it goes into the text unchanged. */
export function problem(status: number, requestId: string, details: ProblemDetails = {}): HttpResponse {
  const { detail, code, issues, trace } = details;
  let text = head(status);
  if (detail !== undefined) text += `,"detail":${JSON.stringify(detail)}`;
  if (code !== undefined) text += `,"code":${JSON.stringify(code)}`;
  if (issues !== undefined) text += `,"errors":${JSON.stringify(issues)}`;
  text += `,"request_id":"${requestId}"`;
  if (trace !== undefined) text += `,"trace":${JSON.stringify(trace)}`;
  return new HttpResponse(`${text}}`, PROBLEM.get(status));
}

/** The problem of an exception, its headers included. */
export function issueOf(error: HTTPException, requestId: string, trace?: string): HttpResponse {
  const { detail, code, issues } = error;
  const response = problem(error.status, requestId, { detail, code, issues, trace });
  if (error.headers !== undefined)
    for (const [name, value] of Object.entries(error.headers)) response.headers.set(name, value);
  return response;
}

const heads = new Map<number, string>();

/** Shared start of every problem with one status. */
function head(status: number): string {
  let text = heads.get(status);
  if (text === undefined)
    heads.set(
      status,
      (text = `{"type":"about:blank","title":${JSON.stringify(statusTitle(status))},"status":${status}`),
    );
  return text;
}

/*
 * JSON.stringify, with bigints as decimal strings. A value without a JSON form, a cycle and a promise are errors that name their
 * place. JSON.stringify decides everything else: a Map or a Set inside an object becomes `{}`.
 */

/** JSON text of a value. @throws SvcError `E_REPLY` with the place of a cycle, a promise, or another value without JSON */
export function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    text = slowJson(value);
  }
  if (text === undefined) throw new SvcError('E_REPLY', [`${describe(value)} has no JSON form`]);
  if (text.includes('{}') && hasPromise(value)) throw forgottenAwait(value); // a promise becomes that, and little else does
  return text;
}

/** Whether a JSON value contains a promise. */
function hasPromise(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(hasPromise);
  if (isThenable(value)) return true;
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function')
    return hasPromise((value as { toJSON(): unknown }).toJSON());
  for (const key of Object.keys(value))
    if (hasPromise((value as Readonly<Record<string, unknown>>)[key])) return true;
  return false;
}

/** The error for a promise in a value, with its place as JSON.stringify reaches it. */
function forgottenAwait(value: unknown): SvcError {
  const paths = new Map<unknown, string>();
  let found: string | undefined;
  JSON.stringify(value, function (this: unknown, key: string, member: unknown): unknown {
    const above = paths.get(this); // undefined for the wrapper that JSON.stringify adds
    const path = above === undefined ? '$' : Array.isArray(this) ? `${above}[${key}]` : `${above}.${key}`;
    if (isThenable(member)) found ??= path;
    else if (typeof member === 'object') paths.set(member, path);
    return found === undefined && typeof member !== 'bigint' ? member : null;
  });
  return new SvcError('E_REPLY', [`${found ?? '$'} ${FORGOTTEN_AWAIT}`]);
}

function describe(value: unknown): string {
  return typeof value === 'function'
    ? `the function ${value.name || '(anonymous)'}`
    : `a value of type ${typeof value}`;
}

/** The second attempt, when there are bigints or a cycle. */
function slowJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, (_key, member: unknown) =>
      typeof member === 'bigint' ? member.toString() : member,
    );
  } catch (cause) {
    const problem = cycleIn(value, '$', new Set());
    throw problem === undefined ? cause : new SvcError('E_REPLY', [problem], { cause });
  }
}

/** Returns the place where a value contains itself, or is nested deeper than 512 levels. */
function cycleIn(value: unknown, path: string, above: Set<object>): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (above.has(value)) return `a cycle at ${path}`;
  if (above.size >= 512) return `nesting deeper than 512 levels at ${path.slice(0, 80)}…`;
  above.add(value);
  for (const [key, member] of Object.entries(value)) {
    const problem = cycleIn(member, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`, above);
    if (problem !== undefined) return problem;
  }
  above.delete(value);
  return undefined;
}

/** The response to a request, now or later. */
export type Answer = Awaitable<HttpResponse> | LateAnswer;

/**
 * A response that is made and sent as soon as the body of its request is complete. A promise would settle only after all received
 * data was read, so it would wait for requests of other connections. It has one receiver; `await` uses a promise.
 */
export class LateAnswer implements PromiseLike<HttpResponse> {
  #answer: HttpResponse | undefined;
  #taker: ((answer: HttpResponse) => void) | undefined;

  /** Resolves with the response, or with a promise that never rejects. Call it once. */
  protected settle(answer: Awaitable<HttpResponse>): void {
    if (!(answer instanceof HttpResponse)) return void answer.then((settled) => this.settle(settled));
    this.#answer = answer;
    this.#taker?.(answer);
  }

  /** Passes the response to `taker`, at once if it is ready. */
  giveTo(taker: (answer: HttpResponse) => void): void {
    if (this.#answer === undefined) this.#taker = taker;
    else taker(this.#answer);
  }

  /** Never rejects. */
  get promise(): Promise<HttpResponse> {
    return new Promise((resolve) => this.giveTo(resolve));
  }

  then<T = HttpResponse, F = never>(
    onFulfilled?: ((answer: HttpResponse) => T | PromiseLike<T>) | null,
    onRejected?: ((error: unknown) => F | PromiseLike<F>) | null,
  ): Promise<T | F> {
    return this.promise.then(onFulfilled, onRejected);
  }
}

/**
 * Values as lines of JSON: dates in ISO 8601, bigints as decimal strings. A value without JSON, like any failure of the source, is a 500
 * if it is the first, and closes the connection later.
 */
export class NDJSONResponse extends StreamingResponse {
  /** @throws SvcError `E_STREAM` for a source without values */
  constructor(
    values: Iterable<unknown> | AsyncIterable<unknown> | ReadableStream<unknown>,
    options: ResponseOptions = {},
  ) {
    const source = checkedSource(values) as Chunks; // any value becomes a line
    super(
      { [Symbol.asyncIterator]: () => new Lines(iterate(source)) as unknown as AsyncIterator<Chunk> },
      { ...options, mediaType: options.mediaType ?? 'application/x-ndjson' },
    ); // see Primed
  }
}

class Lines implements ChunkIterator {
  readonly #source: ChunkIterator;

  constructor(source: ChunkIterator) {
    this.#source = source;
  }

  next(): ChunkStep | PromiseLike<ChunkStep> {
    const step = this.#source.next();
    return isPending(step) ? step.then(lineOf) : lineOf(step);
  }

  return(): unknown {
    return this.#source.return?.();
  }
}

function lineOf(step: ChunkStep): ChunkStep {
  return step.done === true ? step : { done: false, value: `${toJson(step.value)}\n` };
}
