/**
 * Runtime of a generated client: builds requests, sends them with `fetch`, and reads responses by status and
 * media type.
 *
 * `svc openapi --client` copies this file into the client, so it imports nothing and runs in browsers, Node,
 * Deno and Bun. Values from a caller never change the path or origin of a request. Redirects are not
 * followed, because fetch would send API keys in header fields to another site.
 */

/**
 * A credential, or a function that returns the credential for each call. If the function returns undefined,
 * the request is sent without a credential.
 */
export type Credential = string | (() => string | undefined | Promise<string | undefined>);

/** Options of a client. */
export interface BaseOptions {
  /** Address of the application, such as `https://api.example.com/v1`. In browsers, `''` is the page's own site. */
  readonly baseUrl: string;
  /** Function that sends requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
  /** Header fields to send with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Option `credentials` of fetch(): whether browsers send cookies. Default: only to the page's own origin.
   */
  readonly credentials?: 'include' | 'omit' | 'same-origin' | undefined;
  /** Repeats calls that the server refuses for a while. Default: no call is repeated. */
  readonly retry?: Retry | undefined;
  /** Credentials, by the name of their security scheme. */
  readonly auth?: Readonly<Record<string, Credential | undefined>> | undefined;
}

/**
 * How calls are repeated after a 429 or 503 whose `Retry-After` says when. Only calls that may be repeated are:
 * those of idempotent methods (RFC 9110 §9.2.2), and those with an `Idempotency-Key`.
 */
export interface Retry {
  /** Number of repetitions. Default 2. */
  readonly times?: number | undefined;
  /** Longest wait in seconds. If the server asks for more, its response is the result. Default 30. */
  readonly maxSeconds?: number | undefined;
}

/** Options of one call. */
export interface CallOptions {
  /** Aborts the call; the promise rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
  /** Header fields to send with this request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the option of the client; false: the call is not repeated. */
  readonly retry?: Retry | false | undefined;
}

/** A successful response. `response` has the header fields. */
export interface Success<Status extends number, Data> {
  readonly ok: true;
  readonly status: Status;
  readonly data: Data;
  readonly response: Response;
}

/** A failed response. `error` is its body. */
export interface Failure<Status extends number, Body> {
  readonly ok: false;
  readonly status: Status;
  readonly error: Body;
  readonly response: Response;
}

/** An event of an event stream (`text/event-stream`). */
export interface ServerSentEvent {
  /** Name of the event; `message` if the server sends none. */
  readonly event: string;
  readonly data: string;
  /**
   * Id of this event, or else of the last event before it that had an id. To continue the stream later, send
   * this id as `Last-Event-ID`.
   */
  readonly id: string;
}

/** A request body that is sent unchanged. */
export type RawBody = NonNullable<RequestInit['body']>;

/** A failed response as an error, thrown by {@link unwrap}. */
export class HttpError extends Error {
  override readonly name: string = 'HttpError';
  readonly status: number;
  readonly body: unknown;
  readonly response: Response;

  constructor({ status, error, response }: Failure<number, unknown>) {
    super(`${response.url} returned status ${status}`);
    this.status = status;
    this.body = error;
    this.response = response;
  }
}

/** A response that the OpenAPI document does not describe, such as the error page of a proxy. */
export class UnexpectedResponse extends Error {
  override readonly name: string = 'UnexpectedResponse';
  readonly response: Response;

  constructor(response: Response, what: string, options?: { readonly cause: unknown }) {
    super(`${response.url} returned ${what}`, options);
    this.response = response;
  }
}

/** Returns the data of a successful result, or throws. */
export async function unwrap<R extends Success<number, unknown> | Failure<number, unknown>>(
  result: R | Promise<R>,
): Promise<Extract<R, { readonly ok: true }>['data']> {
  const settled: Success<number, unknown> | Failure<number, unknown> = await result;
  if (!settled.ok) throw new HttpError(settled);
  return settled.data as Extract<R, { readonly ok: true }>['data'];
}

/** Yields the events of a stream as they arrive. Leaving the loop closes the connection. */
export async function* events(response: Response): AsyncGenerator<ServerSentEvent, void, undefined> {
  let [event, data, id] = ['', '', ''];
  for await (const line of linesOf(response)) {
    if (line === '') {
      if (data !== '') yield { event: event === '' ? 'message' : event, data: data.slice(0, -1), id };
      [event, data] = ['', ''];
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') data += `${value}\n`;
    else if (field === 'event') event = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
    if (data.length > MOST_CHARACTERS) throw new UnexpectedResponse(response, 'an event of more than 16 MiB');
  }
}

/** Yields the values of a stream that has one JSON text per line. */
export async function* jsonLines(response: Response): AsyncGenerator<unknown, void, undefined> {
  for await (const line of linesOf(response)) if (line.trim() !== '') yield JSON.parse(line);
}

/** Maximum length of one event or line, in characters. */
const MOST_CHARACTERS = 16 * 1024 * 1024;

async function* linesOf(response: Response): AsyncGenerator<string, void, undefined> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder(); // besides decoding, TextDecoder removes a byte order mark
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const isOpen = !done && rest.endsWith('\r'); // the line feed of a CRLF may be in the next chunk
      const lines = (isOpen ? rest.slice(0, -1) : rest).split(/\r\n|\r|\n/);
      // `lines` is not empty, because split() returns at least one item
      rest = lines.pop()! + (isOpen ? '\r' : '');
      yield* lines;
      if (done) return;
      if (rest.length > MOST_CHARACTERS) throw new UnexpectedResponse(response, 'a line of more than 16 MiB');
    }
  } finally {
    await reader.cancel().catch(() => undefined); // cancel() rejects if the stream has failed already
  }
}

export interface Operation {
  readonly method: string;
  readonly path: string;
  /** Media type of the request body. */
  readonly body?: string;
  /** Names of list parameters whose items are sent as one text, separated by commas. */
  readonly joined?: readonly string[];
  /** Media types of responses by status. An empty list means that a success has no content. */
  readonly responses: Readonly<Record<string, readonly string[]>>;
  /** Security schemes. Any one inner list is sufficient; all schemes of that list are needed. */
  readonly security?: readonly (readonly string[])[];
}

/** The place of a credential in a request. */
export interface Scheme {
  readonly in: 'bearer' | 'basic' | 'header' | 'query' | 'cookie';
  readonly name?: string;
}

interface Input {
  readonly params?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly cookies?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly form?: Readonly<Record<string, unknown>>;
}

/** Returns an object with a function for each operation. */
export function functionsOf(
  operations: Readonly<Record<string, Operation>>,
  schemes: Readonly<Record<string, Scheme>>,
  options: BaseOptions,
): Record<string, (input?: Input, call?: CallOptions) => Promise<unknown>> {
  return Object.fromEntries(
    Object.entries(operations).map(([name, operation]) => [
      name,
      (input: Input = {}, call: CallOptions = {}) => send({ operation, schemes, options }, input, call),
    ]),
  );
}

/** An operation of one client. */
interface BoundOperation {
  readonly operation: Operation;
  readonly schemes: Readonly<Record<string, Scheme>>;
  readonly options: BaseOptions;
}

async function send(endpoint: BoundOperation, input: Input, call: CallOptions): Promise<unknown> {
  const { operation, options } = endpoint;
  const { signal, retry = options.retry } = call;
  const { url, headers, init } = await requestOf(endpoint, input, call);
  const isRepeatable = IDEMPOTENT.test(operation.method) || headers.has('Idempotency-Key');
  let left = retry && isRepeatable && init.duplex === undefined ? (retry.times ?? 2) : 0;
  for (;;) {
    const response = await (options.fetch ?? fetch)(url, init);
    const seconds = left-- > 0 ? secondsUntilRetry(response) : undefined;
    if (!retry || seconds === undefined || seconds > (retry.maxSeconds ?? 30))
      return resultOf(operation, response);
    await response.body?.cancel();
    await sleep(seconds * 1_000, signal);
  }
}

interface BuiltRequest {
  readonly url: string;
  readonly headers: Headers;
  readonly init: RequestInit & { readonly duplex?: 'half' };
}

async function requestOf(
  { operation, schemes, options }: BoundOperation,
  input: Input,
  { signal, headers: own = {} }: CallOptions,
): Promise<BuiltRequest> {
  const { baseUrl, credentials, auth = {} } = options;
  const { method, path, joined, body: type } = operation;
  const headers = new Headers(options.headers);
  const query = queryOf(input.query, joined);
  const cookies = textsOf(input.cookies, joined).map(cookieOf);
  for (const [name, text] of textsOf(input.headers, Object.keys(input.headers ?? {}), HEADER_ITEM))
    headers.set(name, text);
  for (const [scheme, text] of await credentialsOf(operation, auth)) {
    const { in: place, name = '' } = schemes[scheme] ?? { in: 'bearer' };
    if (place === 'query') query.push(`${encodeURIComponent(name)}=${encodeURIComponent(text)}`);
    else if (place === 'cookie') cookies.push(cookieOf([name, text]));
    else if (place === 'header') headers.set(name, text);
    else headers.set('Authorization', place === 'basic' ? `Basic ${base64(text)}` : `Bearer ${text}`);
  }
  // browsers ignore the field Cookie, and send their own cookies
  if (cookies.length > 0) headers.set('Cookie', cookies.join('; '));
  for (const [name, text] of Object.entries(own)) headers.set(name, text);
  const body = bodyOf(operation, input);
  // for multipart, fetch() adds the content type with the boundary
  if (type !== undefined && body !== undefined && !(body instanceof FormData))
    headers.set('Content-Type', type);
  const init = {
    method,
    headers,
    redirect: 'manual',
    ...(signal && { signal }),
    ...(credentials && { credentials }),
    ...(body !== undefined && { body }),
    ...(body instanceof ReadableStream && { duplex: 'half' as const }),
  } as const;
  const address = `${baseUrl.replace(/\/$/, '')}${pathOf(path, input.params)}`;
  return { url: query.length === 0 ? address : `${address}?${query.join('&')}`, headers, init };
}

/** Methods that may be repeated (RFC 9110 §9.2.2). */
const IDEMPOTENT = /^(?:GET|HEAD|PUT|DELETE|OPTIONS|TRACE)$/;

/** Returns how long a 429 or 503 asks to wait (RFC 9110 §10.2.3); undefined for another response. */
function secondsUntilRetry({ status, headers }: Response): number | undefined {
  const text = headers.get('Retry-After');
  if ((status !== 429 && status !== 503) || text === null) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1_000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error); // fetch() rejects with it, too
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Returns the path with its parameters filled in. */
function pathOf(template: string, params: Readonly<Record<string, unknown>> = {}): string {
  return template.replace(/\{([^}]+)\}/g, (_, name: string) => {
    const text = textOf(params[name] ?? '');
    if (text === '' || text === '.' || text === '..')
      throw new TypeError(
        `The path parameter "${name}" is "${text}", which would change the path: pass a value other than "", "." and ".."`,
      );
    return encodeURIComponent(text);
  });
}

function queryOf(values: Input['query'], joined: readonly string[] = []): string[] {
  return textsOf(values, joined).map(([name, text]) => {
    const encoded = joined.includes(name)
      ? text.split(',').map(encodeURIComponent).join(',')
      : encodeURIComponent(text);
    return `${encodeURIComponent(name)}=${encoded}`;
  });
}

/** Returns a cookie as svc reads it: the value may contain any character, and cannot add another cookie. */
function cookieOf([name, text]: readonly [string, string]): string {
  return `${name}=${encodeURIComponent(text)}`;
}

/** A text that is one item of a list that is separated by commas. */
const ITEM = /^[^,]*$/;
/** One item of a header field. Commas in a quoted string (RFC 9110 §5.6.4) separate no items, so each must be complete. */
const HEADER_ITEM = /^(?:[^",]|"(?:[^"\\]|\\.)*")*$/;

/**
 * Converts parameters to texts. A list gives one text for each item, or one comma-separated text if `joined`
 * contains its name. Undefined and null are not sent, because no text stands for them.
 * @throws TypeError for a text that does not match `item` in a comma-separated text
 */
function textsOf(
  values: Input['query'] = {},
  joined: readonly string[] = [],
  item: RegExp = ITEM,
): [string, string][] {
  return Object.entries(values).flatMap(([name, value]): [string, string][] => {
    const texts = itemsOf(value).map(textOf);
    if (!Array.isArray(value) || !joined.includes(name)) return texts.map((text) => [name, text]);
    const split = texts.find((text) => !item.test(text));
    if (split !== undefined)
      throw new TypeError(
        `The list "${name}" has the item "${split}", which would not arrive as one item: pass items without commas, and with closed quotation marks in header fields`,
      );
    return texts.length === 0 ? [] : [[name, texts.join(',')]];
  });
}

/** Returns the items of a list, or a value as its only item, without those that are undefined or null. */
function itemsOf(value: unknown): unknown[] {
  const items: unknown[] = Array.isArray(value) ? value : [value];
  return items.filter((item) => item !== undefined && item !== null);
}

/** Converts a parameter to text. A Date becomes ISO 8601, and another object JSON. */
function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}

/**
 * Returns the credentials for the first alternative of `security` for which `auth` has all credentials. If
 * there is none, returns the credentials that `auth` has for the last alternative.
 */
async function credentialsOf(
  { security = [] }: Operation,
  auth: NonNullable<BaseOptions['auth']>,
): Promise<[scheme: string, text: string][]> {
  const texts = new Map<string, string | undefined>(); // each function is called once
  for (const names of security) {
    const found: [string, string][] = [];
    for (const name of names) {
      const given = auth[name];
      if (!texts.has(name)) texts.set(name, typeof given === 'function' ? await given() : given);
      const text = texts.get(name);
      if (text !== undefined) found.push([name, text]);
    }
    if (found.length === names.length || names === security.at(-1)) return found;
  }
  return [];
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

/** Returns the body of a request in its media type; undefined for a request without a body. */
function bodyOf({ body: type, joined }: Operation, { body, form }: Input): RawBody | undefined {
  if (type === undefined || (body === undefined && form === undefined)) return undefined;
  if (type === 'multipart/form-data') return formOf(form, joined);
  if (type === 'application/x-www-form-urlencoded') return queryOf(form, joined).join('&');
  return isJson(type) ? JSON.stringify(body) : (body as RawBody);
}

function formOf(form: Input['form'] = {}, joined: readonly string[] = []): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(form)) {
    const values = itemsOf(value);
    if (values[0] instanceof Blob) for (const file of values) data.append(name, file as Blob);
    else for (const [, text] of textsOf({ [name]: value }, joined)) data.append(name, text);
  }
  return data;
}

async function resultOf({ responses }: Operation, response: Response): Promise<unknown> {
  const { status } = response;
  const ok = status < 400;
  const types = responses[status] ?? responses[`${Math.floor(status / 100)}XX`] ?? responses['default'];
  if (types === undefined) {
    // browsers hide the status and the target of a redirect
    const what = response.type === 'opaqueredirect' ? 'a redirect' : `status ${status}`;
    throw new UnexpectedResponse(response, `${what}, which is not documented`);
  }
  const data = await (ok || types.length > 0 ? dataOf(response, types) : undescribed(response));
  return ok ? { ok, status, data, response } : { ok, status, error: data, response };
}

async function dataOf(response: Response, types: readonly string[]): Promise<unknown> {
  if (types.includes('*/*')) return response;
  if (types.length === 0) return void (await response.body?.cancel());
  const [given = ''] = (response.headers.get('Content-Type') ?? '').split(';');
  const type = given.trim().toLowerCase();
  if (!types.some((one) => one === type || (one.endsWith('/*') && type.startsWith(one.slice(0, -1)))))
    throw new UnexpectedResponse(response, `status ${response.status} with content of type "${type}"`);
  if (type === 'text/event-stream') return events(response);
  if (isJsonLines(type)) return jsonLines(response);
  if (isText(type)) return response.text();
  if (!isJson(type)) return response.blob();
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UnexpectedResponse(response, 'content that is not JSON', { cause });
  }
}

/** Returns the content of an error that the document does not describe: a value of JSON, or else text. */
async function undescribed(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** Whether a media type is JSON. */
export function isJson(type: string): boolean {
  return /[/+]json$/.test(type);
}

/** Whether a media type has one JSON text per line. */
export function isJsonLines(type: string): boolean {
  return type === 'application/x-ndjson' || type === 'application/jsonl';
}

/** Whether a media type is text. */
export function isText(type: string): boolean {
  return type.startsWith('text/') || /[/+]xml$/.test(type);
}
