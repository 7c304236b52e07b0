/**
 * Responses: status, header fields and body, until the server sends them. Also the encoding of JSON bodies,
 * and problem documents (RFC 9457).
 *
 * An NDJSON body (`application/x-ndjson`) has one line for each value that its source yields. A line is sent
 * as soon as its value is yielded.
 */
import { Readable } from 'node:stream';
import { FORGOTTEN_AWAIT, ignore, isThenable, lossInJson } from '../base/promises.ts';
import { statusTitle, SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import { bytesOf, forJson, isJsonBytes } from '../base/bytes.ts';
import { inspectAsJson } from '../observability/redact.ts';
import { HeaderList } from './headers.ts';
import { cookieKeyOf, needsSecure, serializeCookie } from './cookies.ts';
import { encodeLocation } from './path.ts';
import { isChunks, prime, isPending, iterate } from './chunks.ts';
import type { ByteSource } from '../base/bytes.ts';
import type { HTTPException, Issue } from '../base/errors.ts';
import type { HeaderView } from './headers.ts';
import type { CookieOptions } from './cookies.ts';
import type { Chunks, Primed, Chunk, ChunkIterator, ChunkStep } from './chunks.ts';

/** Text, bytes, null for none, or a source of chunks that is read while the response is sent. */
type ResponseBody = string | Uint8Array | null | Chunks;

/** Options of all response classes. An option that is `undefined` has its default. */
export interface ResponseOptions {
  /** An integer 200 ... 599. Default 200. */
  readonly status?: number | undefined;
  /** Header fields by name. The server itself sets Content-Length, Transfer-Encoding and Connection. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Value of `Content-Type`. Each class has a default. */
  readonly mediaType?: string | undefined;
}

/** The part of a request that a response needs. */
export interface Answered {
  readonly method: string;
  readonly headers: HeaderView;
  /** Aborts when the client no longer waits for the response. */
  readonly signal?: AbortSignal | undefined;
  /** Returns a header field by its lower-case name. Faster than `headers`, which contains all fields. */
  field?(name: string): string | undefined;
  /**
   * Calls `fn` after the response was sent, or with an error when it can no longer be sent. `isOfBody`: before the clean-ups
   * of dependencies, which the source of the body may still use.
   */
  afterwards?(fn: (outcome: unknown) => Promise<void>, isOfBody?: boolean): void;
}

/** Returns a header field by its lower-case name, if possible without parsing the other fields. */
export function fieldOf(request: Answered, name: string): string | undefined {
  return request.field === undefined ? request.headers[name] : request.field(name);
}

/** A status and checked header fields that many responses share. @internal */
export class Prepared {
  readonly status: number;
  readonly flat: readonly string[];
  /** Status line and header fields as text; created when a response with them is sent for the first time. */
  headText: string | undefined;

  constructor(status: number, flat: readonly string[]) {
    this.status = status;
    this.flat = flat;
  }
}

/** Creates one {@link Prepared} object for each status of responses with one media type. @internal */
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

/** A response. Until it is sent, middleware may change its status, header fields and body. */
export class HttpResponse {
  #body: ResponseBody;
  /** Length in bytes of a body that is a source of chunks; -1 if unknown. */
  contentLength = -1;
  #status: number;
  /** Status and header fields that many responses share. They are copied when `headers` is first read. */
  readonly #prepared: Prepared;
  #headers: HeaderList | undefined;
  /** `Set-Cookie` values to which `Secure` is added in production and over TLS. */
  #securedLater: Set<string> | undefined;
  /**
   * Whether the response was created for one request. If not, the program may return it for several requests,
   * so each request gets a copy.
   */
  readonly #isForOne: boolean;

  /**
   * @throws SvcError `E_HEADER` when a header field is malformed, `E_REPLY` when the body is a promise;
   * RangeError when the status is not an integer 200 ... 599
   */
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

  /** Body of the response. Buffers and other views of bytes are stored as a `Uint8Array`. */
  get body(): ResponseBody {
    return this.#body;
  }
  set body(body: ResponseBody | ByteSource) {
    this.#body = bodyOf(body);
  }

  /** Header fields of the response. They may be changed. */
  get headers(): HeaderList {
    return (this.#headers ??= new HeaderList([...this.#prepared.flat]));
  }

  /** Status of the response. @throws RangeError when set to a value other than an integer 200 ... 599 */
  get status(): number {
    return this.#status;
  }
  set status(status: number) {
    this.#status = checkedStatus(status);
  }

  /**
   * Adds a cookie. By default, it is HttpOnly, SameSite=Lax, and Secure as described at {@link
   * CookieOptions.secure}. It replaces a cookie of this response with the same name, domain and path.
   * @throws SvcError `E_COOKIE` when name, value or attributes are invalid, `E_OPTION_UNKNOWN` for an unknown
   * option, `E_OPTION_RANGE` for an option of a wrong type
   */
  setCookie(name: string, value: string, options: CookieOptions = {}): this {
    const isDecided = options.secure !== undefined;
    const field = serializeCookie(
      name,
      value,
      needsSecure(name, options) && !isDecided ? { ...options, secure: true } : options,
    );
    this.#removeCookieOf(field);
    if (!isDecided && !field.endsWith('; Secure')) (this.#securedLater ??= new Set()).add(field);
    this.headers.append('Set-Cookie', field);
    return this;
  }

  /** Removes the cookie that a new field replaces, because a response should not set one twice (RFC 6265 §4.1.1). */
  #removeCookieOf(field: string): void {
    const fields = this.headers.getSetCookie();
    if (fields.length === 0) return;
    const key = cookieKeyOf(field);
    const kept = fields.filter((one) => cookieKeyOf(one) !== key);
    if (kept.length === fields.length) return;
    this.headers.delete('Set-Cookie');
    for (const field of kept) this.headers.append('Set-Cookie', field);
    for (const one of fields) if (!kept.includes(one)) this.#securedLater?.delete(one);
  }

  /** Removes a cookie from the browser. `path` and `domain` must be those with which the cookie was set. */
  deleteCookie(name: string, options: Pick<CookieOptions, 'path' | 'domain' | 'secure'> = {}): this {
    return this.setCookie(name, '', { ...options, maxAgeSeconds: 0 });
  }

  /**
   * Prepares the response for one request, for example by opening a file, before middleware gets it. If the
   * program may return this response again, the result is a copy, so that middleware changes only the copy.
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

  /** Copies status, header fields and cookies to another response, and returns that response. @internal */
  protected fill<T extends HttpResponse>(other: T): T {
    other.#status = this.#status;
    other.#headers = new HeaderList([...this.fields(false)], this.hasAsciiFields);
    other.contentLength = this.contentLength;
    if (this.#securedLater !== undefined) other.#securedLater = new Set(this.#securedLater);
    return other;
  }

  /** Returns the response for a log: without cookies, and with the size of the body instead of the body. */
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

  /**
   * Shared status and header fields; undefined after `headers` was read or `status` was changed.
   * @internal
   */
  get prepared(): Prepared | undefined {
    return this.#headers === undefined && this.#prepared.status === this.#status ? this.#prepared : undefined;
  }

  /** Whether all characters of the header fields are ASCII. @internal */
  get hasAsciiFields(): boolean {
    return this.#headers === undefined || this.#headers.isAscii;
  }

  /** Whether the response has cookies to which `Secure` is added in production and over TLS. @internal */
  get hasWaitingCookies(): boolean {
    return this.#securedLater !== undefined;
  }

  /**
   * Returns the header fields as they are sent. `isSecure` adds `Secure` to cookies that were set without the
   * option `secure`. The list must not be changed.
   * @internal
   */
  fields(isSecure: boolean): readonly string[] {
    const flat = this.#headers === undefined ? this.#prepared.flat : this.#headers.flat;
    const later = this.#securedLater;
    if (later === undefined || !isSecure) return flat;
    return flat.map((value) => (later.has(value) ? `${value}; Secure` : value));
  }
}

/**
 * Defines the property `then` as undefined on the prototype. A promise reads `then` of its result, and
 * without the property, this read searches the whole prototype chain. That takes a tenth of the time of a
 * middleware ("five middleware functions" of test/bench/http.ts).
 */
function sayNoPromise(prototype: HttpResponse): void {
  Object.defineProperty(prototype, 'then', { value: undefined, writable: true, configurable: true });
}

/** Returns a body as it is stored: bytes of any kind as a `Uint8Array`, other values unchanged. */
function bodyOf(body: ResponseBody | ByteSource): ResponseBody {
  if (typeof body !== 'object' || body === null) return body;
  if (isThenable(body)) throw new SvcError('E_REPLY', [`the body ${FORGOTTEN_AWAIT}`]);
  return bytesOf(body) ?? (body as Chunks);
}

export function setFields(
  { headers }: HttpResponse,
  fields: Readonly<Record<string, string>> | undefined,
): void {
  for (const [name, value] of Object.entries(fields ?? {})) headers.set(name, value);
}

/** Returns the size of a body in bytes. For a source of chunks or no body, it is `contentLength`. */
export function lengthOf({ body, contentLength }: Pick<HttpResponse, 'body' | 'contentLength'>): number {
  if (typeof body === 'string') return Buffer.byteLength(body);
  return body instanceof Uint8Array ? body.length : contentLength;
}

/** Returns whether responses with this status have no content (RFC 9110 §6.4.1). */
export function hasNoContent(status: number): boolean {
  return status === 204 || status === 304 || status === 205;
}

export function checkedStatus(status: number): number {
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw new RangeError(`A response status must be an integer from 200 to 599, found ${String(status)}`);
  return status;
}

/**
 * Sends a value as `application/json`. Dates are in ISO 8601, and bigints become decimal strings.
 * @throws SvcError `E_REPLY` when the value contains a cycle or a promise, or has no JSON form
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

/**
 * Escapes text for HTML content and quoted attribute values. It does not make text safe in scripts, styles,
 * names of tags or attributes, or URLs, which may begin with `javascript:`.
 *
 * Example:
 *   new HTMLResponse(`<p title="${escapeHtml(title)}">${escapeHtml(name)}</p>`)
 */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Sends HTML as `text/html; charset=utf-8`. It does not escape anything, so escape user input before. */
export class HTMLResponse extends HttpResponse {
  constructor(body: string, options: ResponseOptions = {}) {
    super(body, { ...options, mediaType: options.mediaType ?? HTML_TYPE });
  }
}

/**
 * Redirects the client with status 307, or with `status`: 301, 302, 303 or 308. Unsafe characters of the
 * location are percent-encoded.
 */
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
  /** Size of the body in bytes, if known. It is sent as Content-Length, instead of chunked coding. */
  readonly contentLength?: number | undefined;
}

/** @internal */
export function checkedSource<T>(source: T): T & Chunks {
  if (!isChunks(source) || !(Symbol.asyncIterator in source || Symbol.iterator in source))
    throw new SvcError('E_STREAM', [`${shown(source)} is not an iterable, async iterable or stream`]);
  // The stream may fail before it is read. Without a listener, its "error" event would end the process. The
  // reader still gets the error.
  if (source instanceof Readable) source.on('error', ignore);
  return source as T & Chunks;
}

/**
 * Sends a body in chunks, which are read only as fast as the client receives them. The source is an iterable,
 * an async iterable, a web stream or a `Readable` of Node. The default media type is
 * `application/octet-stream`.
 *
 * The first chunk is read before the response starts. So if the source fails before that, the response is a
 * 500. If it fails later, the connection is closed, so that the client sees an incomplete response. When the
 * client disconnects, the source is ended at once by `return()`, `cancel()` or `destroy()`.
 */
export class StreamingResponse extends HttpResponse {
  /** @throws SvcError `E_STREAM` when the source cannot be iterated, or `contentLength` is not an integer */
  constructor(chunks: Chunks | ReadableStream<string | ByteSource>, options: StreamingOptions = {}) {
    const { contentLength = -1, ...rest } = options;
    if (contentLength !== -1 && !(Number.isSafeInteger(contentLength) && contentLength >= 0))
      throw new SvcError('E_STREAM', [
        `contentLength must be a number of bytes, found ${shown(contentLength)}`,
      ]);
    super(checkedSource(chunks), { ...rest, mediaType: options.mediaType ?? BYTES_TYPE });
    this.contentLength = contentLength;
  }

  /** @internal */
  override copy(): StreamingResponse {
    const copy = this.fill(new StreamingResponse([]));
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
      return answer; // no body is sent, or the client has disconnected, so the source is not read
    const primed = prime(body, contentLength, request.signal);
    return primed instanceof Promise
      ? primed.then((ready) => withChunks(answer, ready, request))
      : withChunks(answer, primed, request);
  }
}

function withChunks(answer: HttpResponse, primed: Primed, request: Answered): HttpResponse {
  answer.body = primed;
  request.afterwards?.((outcome) => primed.drop(outcome), true);
  return answer;
}

export const JSON_TYPE = 'application/json';
export const TEXT_TYPE = 'text/plain; charset=utf-8';
export const HTML_TYPE = 'text/html; charset=utf-8';
export const BYTES_TYPE = 'application/octet-stream';

/** Media type of problem documents, the bodies of error responses (RFC 9457). */
export const PROBLEM_TYPE = 'application/problem+json';
const PROBLEM = new PreparedType(PROBLEM_TYPE);

/** Members of a problem document apart from its status and title. */
interface ProblemDetails {
  readonly detail?: string | undefined;
  readonly code?: string | undefined;
  readonly issues?: readonly Issue[] | undefined;
  /** Stack of the error; only set if the setting `debug` is true. */
  readonly trace?: string | undefined;
}

/**
 * Creates a problem document. `requestId` must be a valid id, because it is not escaped in the JSON text.
 * `prepared` may set further header fields; its media type must be `application/problem+json`.
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

/** Creates the problem document of an exception. */
export function issueOf(error: HTTPException, requestId: string, trace?: string): HttpResponse {
  const { detail, code, issues } = error;
  const response = problem(error.status, requestId, { detail, code, issues, trace });
  setFields(response, error.headers);
  return response;
}

const heads = new Map<number, string>();

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
 * JSON.stringify with three differences. Bigints become decimal strings, and a Uint8Array becomes base64, as in a
 * response with a schema. An error names the place of a cycle, a promise, or an object without a JSON form, such as
 * a Map.
 */

export function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    text = slowJson(value);
  }
  if (text === undefined) throw new SvcError('E_REPLY', [`${describe(value)} cannot be written as JSON`]);
  // JSON.stringify() writes a promise, a Map and empty bytes as {}, other bytes as {"0":…}, and a Buffer as
  // {"type":"Buffer","data":[…]}. The search for the latter begins at its first rare letter, which is faster.
  if (!text.includes('{}') && !text.includes('{"0":') && !text.includes('Buffer","data":[')) return text;
  const bytes = { found: false };
  const problem = lossIn(value, '$', bytes);
  if (problem !== undefined) throw new SvcError('E_REPLY', [problem]);
  return bytes.found ? slowJson(value)! : text; // the value has a text, as JSON.stringify() has shown
}

/**
 * Returns an error text such as `$.user.name is a promise: await it` if `value` contains a promise, or an
 * object that JSON.stringify() writes as `{}`. Sets `bytes.found` if it contains bytes.
 */
function lossIn(value: unknown, path: string, bytes: { found: boolean }): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isJsonBytes(value)) {
    bytes.found = true;
    return undefined;
  }
  if (isThenable(value)) return `${path} ${FORGOTTEN_AWAIT}`;
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === 'function') return lossIn(toJSON.call(value), path, bytes);
  const loss = lossInJson(value);
  if (loss !== undefined) return `${path} ${loss}`;
  for (const [key, member] of Object.entries(value)) {
    const found = lossIn(member, memberPath(path, value, key), bytes);
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

/** Like JSON.stringify, but converts bigints and bytes to strings. The error for a cycle names its place. */
function slowJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(forJson(value));
  } catch (cause) {
    const problem = cycleIn(value, '$', new Set());
    throw problem === undefined ? cause : new SvcError('E_REPLY', [problem], { cause });
  }
}

/**
 * Returns an error text such as `a cycle at $.parent` if `value` contains itself or is nested deeper than 512
 * levels.
 */
function cycleIn(value: unknown, path: string, above: Set<object>): string | undefined {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return undefined;
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

/**
 * Sends values as lines of JSON. Dates are in ISO 8601, and bigints become decimal strings. If the first
 * value cannot be read or has no JSON form, the response is a 500. After a later failure, the connection is
 * closed.
 */
export class NDJSONResponse extends StreamingResponse {
  /** @throws SvcError `E_STREAM` when the source cannot be iterated */
  constructor(
    values: Iterable<unknown> | AsyncIterable<unknown> | ReadableStream<unknown>,
    options: ResponseOptions = {},
  ) {
    const source = checkedSource(values) as Chunks;
    super(
      { [Symbol.asyncIterator]: () => linesOf(iterate(source)) as unknown as AsyncIterator<Chunk> },
      { ...options, mediaType: options.mediaType ?? 'application/x-ndjson' },
    );
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
