/**
 * Responses: status, header fields and body, until the server sends them. Has classes for common kinds of
 * bodies, their JSON encoding, and delayed responses.
 *
 * A body of JSON lines (`application/x-ndjson`) has one line for each value of a source. A line is sent as
 * soon as the source has yielded its value.
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

/** Body of a response: text, bytes, none, or chunks, which are pulled while the response is sent. */
type ResponseBody = string | Uint8Array | null | Chunks;

/** Options of every response class. An option that is `undefined` has its default. */
export interface ResponseOptions {
  /** An integer 200 ... 599. Default 200. */
  readonly status?: number | undefined;
  /** Header fields by name. The server sets Content-Length, Transfer-Encoding and Connection. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Value of `Content-Type`. Default: that of the class. */
  readonly mediaType?: string | undefined;
}

/** The members of a request that its response uses. */
export interface Answered {
  readonly method: string;
  readonly headers: HeaderView;
  /** Aborts when the client no longer waits for the response. */
  readonly signal?: AbortSignal | undefined;
  /** Returns a field by its lower-case name. Present if the request has a faster way than `headers`. */
  field?(name: string): string | undefined;
  /** Runs `fn` when the response was sent, or will never be sent. */
  afterwards?(fn: () => Promise<void>): void;
}

/** Status and checked fields that many responses share. @internal */
export class Prepared {
  readonly status: number;
  readonly flat: readonly string[];
  /**
   * Status line and fields as text, stored when they are sent first: see http/server/fast-path/internals.ts.
   */
  headText: string | undefined;

  constructor(status: number, flat: readonly string[]) {
    this.status = status;
    this.flat = flat;
  }
}

/** Status and fields of responses with one media type, made once for each status. @internal */
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
  /** Length in bytes of a body in chunks, or -1 if unknown. */
  contentLength = -1;
  #status: number;
  /** Shared status and fields. They are used until `headers` is read. */
  readonly #prepared: Prepared;
  #headers: HeaderList | undefined;
  /** `Set-Cookie` values that get `Secure` when the response is sent over TLS, or in production. */
  #securedLater: Set<string> | undefined;
  /**
   * Whether the response was made for one request. If not, the program may return it for many requests, so
   * each gets a copy.
   */
  readonly #isForOne: boolean;

  /** @throws SvcError `E_HEADER`; RangeError for a status outside 200 ... 599 */
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
    setFields(this, headers);
  }

  /** The content. Buffers and other views of bytes become a `Uint8Array` when they are set. */
  get body(): ResponseBody {
    return this.#body;
  }
  set body(body: ResponseBody | ByteSource) {
    this.#body = bodyOf(body);
  }

  /** The header fields, which may be changed. */
  get headers(): HeaderList {
    return (this.#headers ??= new HeaderList([...this.#prepared.flat]));
  }

  /** Status, an integer 200 ... 599. @throws RangeError when set to another value */
  get status(): number {
    return this.#status;
  }
  set status(status: number) {
    this.#status = checkedStatus(status);
  }

  /**
   * Adds a cookie. It is HttpOnly and SameSite=Lax by default, and Secure as {@link CookieOptions.secure}
   * says.
   * @throws SvcError `E_COOKIE`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
   */
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

  /** Removes a cookie from the client. Path and domain must equal those with which it was set. */
  deleteCookie(name: string, options: Pick<CookieOptions, 'path' | 'domain' | 'secure'> = {}): this {
    return this.setCookie(name, '', { ...options, maxAgeSeconds: 0 });
  }

  /**
   * Prepares the response for one request, before middleware gets it. Opens files. Copies a response that the
   * program may return again, so that middleware changes only the copy.
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

  /** Copies header fields and cookies to another response. @internal */
  protected fill<T extends HttpResponse>(other: T): T {
    other.#headers = new HeaderList([...this.fields(false)], this.hasAsciiFields);
    other.contentLength = this.contentLength;
    if (this.#securedLater !== undefined) other.#securedLater = new Set(this.#securedLater);
    return other;
  }

  /** The response for logs: without cookies, and with the size of the body instead of the body. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { status, headers, body } = this;
    const size =
      typeof body === 'string'
        ? `[${body.length} characters]`
        : body instanceof Uint8Array
          ? `[${body.length} bytes]`
          : body === null
            ? null
            : '[chunks]';
    return { status, headers: headers.toJSON(), body: size };
  }

  static {
    inspectAsJson(HttpResponse);
    sayNoPromise(this.prototype);
  }

  /** The shared status and fields, if they were not changed. @internal */
  get prepared(): Prepared | undefined {
    return this.#headers === undefined && this.#prepared.status === this.#status ? this.#prepared : undefined;
  }

  /** Whether all characters of the header fields are ASCII. @internal */
  get hasAsciiFields(): boolean {
    return this.#headers === undefined || this.#headers.isAscii;
  }

  /** Whether there are cookies that get `Secure` when sent over TLS, or in production. @internal */
  get hasWaitingCookies(): boolean {
    return this.#securedLater !== undefined;
  }

  /**
   * Header fields as they are sent. If `isSecure`, cookies whose `Secure` is not decided get it. Do not
   * change the list. @internal
   */
  fields(isSecure: boolean): readonly string[] {
    const flat = this.#headers === undefined ? this.#prepared.flat : this.#headers.flat;
    const later = this.#securedLater;
    if (later === undefined || !isSecure) return flat;
    return flat.map((value) => (later.has(value) ? `${value}; Secure` : value));
  }
}

/**
 * Defines `then` as undefined on the prototype. A promise reads `then` of its result, and without this
 * property the search would go through the whole prototype chain. The shorter search saves a tenth of the
 * time of a middleware (`mw5` of test/bench/http.ts).
 */
function sayNoPromise(prototype: HttpResponse): void {
  Object.defineProperty(prototype, 'then', { value: undefined, writable: true, configurable: true });
}

/**
 * Converts the content of a response: bytes of any kind become a `Uint8Array`, other values stay.
 * @throws SvcError `E_REPLY` for a promise
 */
function bodyOf(body: ResponseBody | ByteSource): ResponseBody {
  if (typeof body !== 'object' || body === null) return body;
  if (isThenable(body)) throw new SvcError('E_REPLY', [`the body ${FORGOTTEN_AWAIT}`]);
  return bytesOf(body) ?? (body as Chunks); // the cast is safe: any other object must be a source of chunks
}

/** Sets header fields, if there are any. @throws SvcError `E_HEADER` */
export function setFields(
  { headers }: HttpResponse,
  fields: Readonly<Record<string, string>> | undefined,
): void {
  for (const [name, value] of Object.entries(fields ?? {})) headers.set(name, value);
}

/** The size of a response's body in bytes. If the body is in chunks or absent, it is `contentLength`. */
export function lengthOf({ body, contentLength }: Pick<HttpResponse, 'body' | 'contentLength'>): number {
  if (typeof body === 'string') return Buffer.byteLength(body);
  return body instanceof Uint8Array ? body.length : contentLength;
}

/** Statuses of responses without content (RFC 9110 §6.4.1). */
export function hasNoContent(status: number): boolean {
  return status === 204 || status === 304 || status === 205;
}

/** Checks and returns the status of a final response. @throws RangeError */
export function checkedStatus(status: number): number {
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw new RangeError(`A response status must be an integer 200 … 599, found ${String(status)}`);
  return status;
}

/**
 * Sends a value as `application/json`: dates in ISO 8601, bigints as decimal strings.
 * @throws SvcError `E_REPLY` for a cycle, or a value without a JSON form
 */
export class JSONResponse extends HttpResponse {
  constructor(body: unknown, options: ResponseOptions = {}) {
    super(toJson(body), { ...options, mediaType: options.mediaType ?? JSON_TYPE });
  }
}

/** Sends text as `text/plain; charset=utf-8`. */
export class TextResponse extends HttpResponse {
  constructor(body: string, options: ResponseOptions = {}) {
    super(body, { ...options, mediaType: options.mediaType ?? TEXT_TYPE });
  }
}

/** Sends HTML as `text/html; charset=utf-8`. Escape user input before. */
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
      throw new RangeError(
        `A redirect must have the status 301, 302, 303, 307 or 308, found ${String(status)}`,
      );
    super(null, { ...options, status });
    this.headers.set('Location', encodeLocation(location));
  }
}

/** Options of {@link StreamingResponse}. */
export interface StreamingOptions extends ResponseOptions {
  /** Size of the body in bytes, if known: sent as Content-Length, instead of chunked transfer coding. */
  readonly contentLength?: number | undefined;
}

/** Checks that chunks or events can be pulled from a source. @throws SvcError `E_STREAM` @internal */
export function checkedSource<T>(source: T): T & Chunks {
  if (!isChunks(source) || !(Symbol.asyncIterator in source || Symbol.iterator in source))
    throw new SvcError('E_STREAM', [`${shown(source)} is not an iterable, async iterable or stream`]);
  // the stream may fail before it is read, and an "error" event without a listener would end the process. Its
  // reader still gets the error
  if (source instanceof Readable) source.on('error', ignore);
  return source as T & Chunks; // the cast is safe: each chunk is checked when it is pulled
}

/**
 * Sends a body in chunks, pulled only as fast as the client reads. Sources: iterables, async iterables, web
 * streams, Node's `Readable`. Default media type `application/octet-stream`.
 *
 * The first chunk is pulled before the response starts, so if the source fails by then, the response is a
 * 500. If it fails later, the connection is closed, and the client sees an incomplete response. The source is
 * ended (`return()`, `cancel()`, `destroy()`) when the client leaves, even while a chunk is awaited.
 */
export class StreamingResponse extends HttpResponse {
  /** @throws SvcError `E_STREAM` for a source that cannot be iterated, and for an invalid `contentLength` */
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
      return answer; // no chunk of the source is needed
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

/* Problems (RFC 9457): the bodies of responses from 400 on. All have the same members. */

export const PROBLEM_TYPE = 'application/problem+json';
const PROBLEM = new PreparedType(PROBLEM_TYPE);

/** Members of a problem in addition to its status. */
interface ProblemDetails {
  readonly detail?: string | undefined;
  readonly code?: string | undefined;
  readonly issues?: readonly Issue[] | undefined;
  /** The stack, only if the setting `debug` is true. */
  readonly trace?: string | undefined;
}

/**
 * Creates a response with a problem. `requestId` must be a valid id, because it is written into the JSON text
 * unchanged. `prepared`: status and fields, with the media type of problems.
 */
export function problem(
  status: number,
  requestId: string,
  details: ProblemDetails = {},
  prepared: Prepared = PROBLEM.get(status),
): HttpResponse {
  const { detail, code, issues, trace } = details;
  let text = head(status);
  if (detail !== undefined) text += `,"detail":${JSON.stringify(detail)}`;
  if (code !== undefined) text += `,"code":${JSON.stringify(code)}`;
  if (issues !== undefined) text += `,"errors":${JSON.stringify(issues)}`;
  text += `,"request_id":"${requestId}"`;
  if (trace !== undefined) text += `,"trace":${JSON.stringify(trace)}`;
  return new HttpResponse(`${text}}`, prepared);
}

/** Creates the problem response for an exception, including its headers. */
export function issueOf(error: HTTPException, requestId: string, trace?: string): HttpResponse {
  const { detail, code, issues } = error;
  const response = problem(error.status, requestId, { detail, code, issues, trace });
  setFields(response, error.headers);
  return response;
}

const heads = new Map<number, string>();

/** The start of the JSON text. It is the same for all problems with one status. */
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
 * JSON.stringify with two differences. Bigints become decimal strings. A value without a JSON form, a cycle
 * and a promise are refused with an error that names the place. A Map or a Set inside an object becomes `{}`,
 * as in JSON.stringify.
 */

/**
 * Returns the JSON text of a value.
 * @throws SvcError `E_REPLY` with the place of a cycle, a promise, or another value without JSON
 */
export function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    text = slowJson(value);
  }
  if (text === undefined) throw new SvcError('E_REPLY', [`${describe(value)} has no JSON form`]);
  // JSON.stringify converts a promise to {}, so without {} there is none
  const place = text.includes('{}') ? promiseIn(value) : undefined;
  if (place !== undefined) throw new SvcError('E_REPLY', [`${place} ${FORGOTTEN_AWAIT}`]);
  return text;
}

/** Returns the place of a promise inside a JSON value; undefined if there is none. */
function promiseIn(value: unknown, path = '$'): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isThenable(value)) return path;
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === 'function') return promiseIn(toJSON.call(value), path);
  for (const [key, member] of Object.entries(value)) {
    const found = promiseIn(member, memberPath(path, value, key));
    if (found !== undefined) return found;
  }
  return undefined;
}

function memberPath(path: string, value: object, key: string): string {
  return Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`;
}

function describe(value: unknown): string {
  return typeof value === 'function'
    ? `the function ${value.name || '(anonymous)'}`
    : `a value of type ${typeof value}`;
}

/** Called when JSON.stringify has failed: converts bigints, and finds cycles. */
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
    const problem = cycleIn(member, memberPath(path, value, key), above);
    if (problem !== undefined) return problem;
  }
  above.delete(value);
  return undefined;
}

/** A response, or an object that provides it later. */
export type Answer = Awaitable<HttpResponse> | LateAnswer;

/**
 * A response that is made and sent as soon as the body of its request is complete. With a promise, it would
 * be sent only after Node has processed all received data, also that of other connections. It can be taken
 * only once, by giveTo() or by `await`.
 */
export class LateAnswer implements PromiseLike<HttpResponse> {
  #answer: HttpResponse | undefined;
  #taker: ((answer: HttpResponse) => void) | undefined;

  /** Sets the response, or a promise of it that never rejects. Must be called once. */
  protected settle(answer: Awaitable<HttpResponse>): void {
    if (!(answer instanceof HttpResponse)) return void answer.then((settled) => this.settle(settled));
    this.#answer = answer;
    this.#taker?.(answer);
  }

  /** Passes the response to `taker`: at once if it is there, otherwise when it is set. */
  giveTo(taker: (answer: HttpResponse) => void): void {
    if (this.#answer === undefined) this.#taker = taker;
    else taker(this.#answer);
  }

  /** A promise of the response, which never rejects. */
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
 * Sends values as lines of JSON: dates in ISO 8601, bigints as decimal strings. If the first value has no
 * JSON form, or the source fails before it, the response is a 500. After a later failure, the connection is
 * closed.
 */
export class NDJSONResponse extends StreamingResponse {
  /** @throws SvcError `E_STREAM` for a source that cannot be iterated */
  constructor(
    values: Iterable<unknown> | AsyncIterable<unknown> | ReadableStream<unknown>,
    options: ResponseOptions = {},
  ) {
    const source = checkedSource(values) as Chunks; // the cast is safe: linesOf() converts each value to text
    super(
      { [Symbol.asyncIterator]: () => linesOf(iterate(source)) as unknown as AsyncIterator<Chunk> },
      { ...options, mediaType: options.mediaType ?? 'application/x-ndjson' },
    ); // the cast is safe: `for await` also accepts a step that is not a promise
  }
}

function linesOf(source: ChunkIterator): ChunkIterator {
  return {
    next() {
      const step = source.next();
      return isPending(step) ? step.then(lineOf) : lineOf(step);
    },
    return: () => source.return?.(),
  };
}

function lineOf(step: ChunkStep): ChunkStep {
  return step.done === true ? step : { done: false, value: `${toJson(step.value)}\n` };
}
