/**
 * `svc/testing`: a client that calls an application without a network connection, and a clock that tests
 * control.
 *
 * Example:
 *   await using client = new TestClient(app);
 *   const response = await client.post('/users', { json: { name: 'Ada' } });
 *   assert.equal(response.status, 201);
 */
/// <reference types="node" preserve="true" />
import '../base/need-node.ts';
import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { http } from '../base/node-http.ts';
import { Svc } from '../app/svc.ts';
import { CookieJar } from './cookie-jar.ts';
import { systemClock } from '../base/clock.ts';
import { HTTPException, SvcError, errorAfter } from '../base/errors.ts';
import { ignore, promised, untilAborted } from '../base/promises.ts';
import { bool, given, isObject, readOptions, text } from '../base/options.ts';
import { answerInMemory, upgradeInMemory } from '../http/server/memory.ts';
import { HttpServer } from '../http/server/server.ts';
import { CLOSE } from '../http/websocket/codes.ts';
import { TestWebSocket, WebSocketRefused } from './websocket.ts';
import type { Clock } from '../base/clock.ts';
import { ENVS, type Env } from '../base/config.ts';
import type { Awaitable, Context } from '../http/contracts.ts';
import type { ServedApplication } from '../http/server/server.ts';
import type { WebSocketConnection } from '../http/websocket/websocket.ts';
import type { ErrorSource, TestWebSocketOptions } from './websocket.ts';

export { CookieJar } from './cookie-jar.ts';
export { ManualClock } from '../base/manual-clock.ts';
export { DevProvider } from '../oauth/dev-provider/dev-provider.ts';
export { FakeIssuer } from './issuer.ts';
export type { FakeIssuerOptions } from './issuer.ts';
export type {
  DevProviderOptions,
  DevRequest,
  DevResponse,
  DevUser,
} from '../oauth/dev-provider/dev-provider.ts';
export { TestWebSocket, WebSocketRefused } from './websocket.ts';
export type { TestWebSocketOptions } from './websocket.ts';

/** Options of {@link TestClient}. An option that is `undefined` has its default. */
export interface TestClientOptions {
  /**
   * Clock of the application. It can only be set before the application is compiled. Default: the clock of
   * the application.
   */
  readonly clock?: Clock | undefined;
  /**
   * Environment of the application. It can only be set before the application is compiled. Default: `test`,
   * unless the configuration of the application sets `env`. An application that is already compiled keeps its
   * environment.
   */
  readonly env?: Env | undefined;
  /**
   * URL at which relative paths start. Default `http://localhost`; with `listen`, the address of the server.
   */
  readonly baseUrl?: string | undefined;
  /** Header fields of every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Sends requests over a real network connection, to a free port of 127.0.0.1. Requests with the header field
   * `host` or `sec-fetch-mode` are refused, because `fetch()` would replace it. Default false.
   */
  readonly listen?: boolean | undefined;
  /**
   * Whether a call rejects with an error of the application that no exception handler handles. If false, the
   * call returns a 500. Default true.
   *
   * An error of a WebSocket handler rejects `receive()`, `close()` and `closed` of the {@link TestWebSocket}.
   * If the test uses none of these, `close()` of the client rejects. An error of a background task or
   * clean-up rejects the call, or `close()` of the client if the call has already returned.
   */
  readonly raiseErrors?: boolean | undefined;
  /**
   * Whether a call without `listen` waits for the clean-ups and background tasks of its request. If false, the
   * call returns with the response, as with `listen`. Set it to false for tasks that sleep on a ManualClock.
   * `close()` waits for the tasks of all calls that have returned, or return within a second. The tasks of a
   * stream start after the test has read it. Default true.
   */
  readonly awaitTasks?: boolean | undefined;
  /**
   * Replacements for dependencies: pairs of the original function or class, and its replacement. They apply
   * only to this client.
   */
  readonly overrides?:
    readonly (readonly [source: unknown, replacement: (context: Context) => unknown])[] | undefined;
}

/** Body of a request, as for a web `Request`. */
export type WebBody = NonNullable<ConstructorParameters<typeof Response>[0]> | null;

/** Options of a request. At most one of `json`, `form` and `body` can be set. */
export interface TestRequest {
  /** Header fields of this request. They replace fields of the client with the same name. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Query parameters, which are added to the query parameters in the path. */
  readonly query?:
    Readonly<Record<string, string | number | boolean | readonly (string | number | boolean)[]>> | undefined;
  /** Value that is sent as `application/json`. */
  readonly json?: unknown;
  /** Form that is sent as `application/x-www-form-urlencoded`. FormData is sent as `multipart/form-data`. */
  readonly form?: Readonly<Record<string, string | readonly string[]>> | FormData | undefined;
  /** Body of the request; objects are sent as JSON. */
  readonly body?: WebBody | undefined;
  /** If it aborts, the call rejects at once with its reason, and the signal of the handler aborts. */
  readonly signal?: AbortSignal | undefined;
}

/** Time in milliseconds that running requests have to end when a client with `listen` closes. */
const CLOSE_DEADLINE_MS = 5_000;
/** Time in milliseconds that handlers have to end when a client without `listen` closes. */
const LAST_WORDS_MS = 1_000;

/** Number of open clients of each application. The last one to close shuts the application down. */
const clientsOf = new WeakMap<Svc, number>();

/**
 * A client of one application. Its first request starts the application. It stores cookies, but does not
 * follow redirects.
 */
export class TestClient implements AsyncDisposable {
  /** Cookies that the application has set. They are sent with each request. */
  readonly cookies: CookieJar;
  readonly #app: Svc;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #listens: boolean;
  readonly #raises: boolean;
  readonly #awaitsTasks: boolean;
  readonly #overrides: ReadonlyMap<unknown, (context: Context) => unknown>;
  readonly #errors = new Map<string, unknown>();
  /**
   * Ids of requests whose background task or clean-up has failed. The id is '' for clean-ups of the scope
   * `app`.
   */
  readonly #failedAfter = new Set<string>();
  /**
   * Server sides of WebSockets without a network connection. Each promise resolves when all handlers of its
   * WebSocket have ended.
   */
  readonly #sockets = new Map<WebSocketConnection, Promise<void>>();
  /** Running calls without a network connection. */
  readonly #calls = new Set<Promise<void>>();
  /** Clean-ups and background tasks for which their call does not wait. */
  readonly #endings = new Set<Promise<void>>();
  readonly #opened: TestWebSocket[] = [];
  #baseUrl: string;
  #server: HttpServer | undefined;
  #ready: Promise<ServedApplication> | undefined;
  #closing: Promise<void> | undefined;
  /** Runs the clean-ups of this client's dependencies with the scope `app`. */
  #leave: (() => Promise<void>) | undefined;

  /**
   * @throws SvcError `E_APP_FROZEN` when the application is already compiled, and the options set another
   * clock or environment; `E_APP_COPY` when another copy of this package created the application
   */
  constructor(app: Svc, options: TestClientOptions = {}) {
    if (!(app instanceof Svc)) throw new SvcError('E_APP_COPY', []);
    const read = readOptions('TestClient', options, {
      clock: given<Clock>('a clock', isObject),
      env: given<Env>('"production", "development" or "test"', (value) => ENVS.some((env) => env === value)),
      baseUrl: text('http://localhost'),
      headers: given<Readonly<Record<string, string>>>('an object', isObject),
      listen: bool(false),
      raiseErrors: bool(true),
      awaitTasks: bool(true),
      overrides: given<NonNullable<TestClientOptions['overrides']>>(
        'a list of [source, replacement]',
        Array.isArray,
      ),
    });
    const { clock, env } = read;
    this.#app = app;
    this.#headers = { ...read.headers };
    this.#listens = read.listen;
    this.#raises = read.raiseErrors;
    this.#awaitsTasks = read.awaitTasks;
    this.#overrides = new Map(read.overrides);
    this.#baseUrl = read.baseUrl;
    this.cookies = new CookieJar(() => app.clock.nowMs());
    const hasOwnEnv = app.config.get('env') !== undefined;
    app.withEnvironment({ clock, env, usualEnv: hasOwnEnv ? undefined : 'test' });
    clientsOf.set(app, (clientsOf.get(app) ?? 0) + 1);
  }

  /** URL at which relative paths start. With `listen`, it is known after the first request. */
  get baseUrl(): string {
    return this.#baseUrl;
  }

  /** Sends a GET request. */
  get(path: string, request?: TestRequest): Promise<Response> {
    return this.request('GET', path, request);
  }
  /** Sends a HEAD request. */
  head(path: string, request?: TestRequest): Promise<Response> {
    return this.request('HEAD', path, request);
  }
  /** Sends a POST request. */
  post(path: string, request?: TestRequest): Promise<Response> {
    return this.request('POST', path, request);
  }
  /** Sends a PUT request. */
  put(path: string, request?: TestRequest): Promise<Response> {
    return this.request('PUT', path, request);
  }
  /** Sends a PATCH request. */
  patch(path: string, request?: TestRequest): Promise<Response> {
    return this.request('PATCH', path, request);
  }
  /** Sends a DELETE request. */
  delete(path: string, request?: TestRequest): Promise<Response> {
    return this.request('DELETE', path, request);
  }
  /** Sends an OPTIONS request. */
  options(path: string, request?: TestRequest): Promise<Response> {
    return this.request('OPTIONS', path, request);
  }

  /**
   * Sends a request. Resolves with the response.
   * @throws the error of the application that no exception handler handles, unless `raiseErrors` is false
   */
  request(method: string, path: string, request: TestRequest = {}): Promise<Response> {
    const call = untilAborted(request.signal, () => this.#request(method, path, request));
    return this.#listens ? call : held(call, this.#calls);
  }

  /**
   * Sends a request as the global `fetch` does, so that a generated client calls the application in process:
   * `createClient({ baseUrl: '', fetch: client.fetch })`. Redirects are not followed.
   * @throws the error of the application that no exception handler handles, unless `raiseErrors` is false
   */
  readonly fetch: typeof fetch = (input, init) => {
    const call = this.#fetch(input, init);
    return this.#listens ? call : held(call, this.#calls);
  };

  async #fetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
    const served = await this.#served();
    const given = input instanceof Request ? input : new URL(input, this.#baseUrl);
    const sent = new Request(given, { ...init, redirect: 'manual' });
    const headers = this.#fieldsFor(new URL(sent.url), {}, Object.fromEntries(sent.headers));
    const web = new Request(sent, { headers });
    return untilAborted(sent.signal, () => this.#exchange(served, web));
  }

  async #request(method: string, path: string, request: TestRequest): Promise<Response> {
    const served = await this.#served();
    const url = new URL(path, this.#baseUrl);
    for (const [name, values] of Object.entries(request.query ?? {})) {
      for (const value of Array.isArray(values) ? (values as readonly unknown[]) : [values])
        url.searchParams.append(name, String(value));
    }
    const { body, type } = bodyOf(request);
    const headers = this.#fieldsFor(url, type === undefined ? {} : { 'content-type': type }, request.headers);
    const web = new Request(url, {
      method,
      headers,
      body,
      redirect: 'manual',
      signal: request.signal ?? null,
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    });
    return this.#exchange(served, web);
  }

  /** Returns the application, which the first request starts. */
  async #served(): Promise<ServedApplication> {
    if (this.#closing !== undefined) throw new Error('The test client is closed: create a new test client');
    return (this.#ready ??= this.#start());
  }

  async #exchange(served: ServedApplication, web: Request): Promise<Response> {
    const response = await (this.#listens ? fetch(arriving(web)) : this.#answerInMemory(served, web));
    for (const field of response.headers.getSetCookie()) this.cookies.take(field, new URL(web.url));
    this.#rethrow(response);
    return response;
  }

  /** Calls the application. close() waits for calls that were aborted, because their handlers may still run. */
  #answerInMemory(served: ServedApplication, request: Request): Promise<Response> {
    const onEnding = this.#awaitsTasks ? undefined : this.#holdEnding;
    return held(answerInMemory(served, request, '127.0.0.1', undefined, onEnding), this.#calls);
  }

  /** Makes close() wait for the clean-ups of a request, and for its background tasks. */
  readonly #holdEnding = (ending: Awaitable<void>): void =>
    void held(
      promised(() => ending),
      this.#endings,
    );

  /**
   * Opens a WebSocket. The Origin field is the application's origin, unless `headers` sets another one.
   * @throws WebSocketRefused when the response is not 101
   * @throws the error of the application that no exception handler handles, unless `raiseErrors` is false
   */
  async websocket(path: string, options: TestWebSocketOptions = {}): Promise<TestWebSocket> {
    const served = await this.#served();
    const read = readOptions('websocket()', options, {
      headers: given<Readonly<Record<string, string>>>('an object', isObject),
      protocols: given<readonly string[]>('a list of strings', Array.isArray),
      compression: bool(false),
    });
    const { headers: own, protocols, compression } = read;
    const url = new URL(path, this.#baseUrl);
    const handshake: Record<string, string> = {
      origin: url.origin,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
    };
    if (protocols !== undefined) handshake['sec-websocket-protocol'] = protocols.join(', ');
    if (compression) handshake['sec-websocket-extensions'] = 'permessage-deflate; client_max_window_bits';
    const headers = this.#fieldsFor(url, handshake, own);
    if (headers.get('origin') === '') headers.delete('origin');
    const answer = this.#listens
      ? await openSocket(url, headers, this.#takeError)
      : await this.#openInMemory(served, new Request(url, { headers }));
    for (const field of answer.headers.getSetCookie()) this.cookies.take(field, url);
    if (answer instanceof TestWebSocket) {
      this.#opened.push(answer);
      return answer;
    }
    this.#rethrow(answer);
    throw new WebSocketRefused(answer);
  }

  /**
   * Returns the header fields of a request. Fields in `own` replace fields of the client, and these replace
   * fields in `base`.
   */
  #fieldsFor(
    url: URL,
    base: Readonly<Record<string, string>>,
    own: Readonly<Record<string, string>> = {},
  ): Headers {
    const headers = new Headers(base);
    for (const fields of [this.#headers, own])
      for (const [name, value] of Object.entries(fields)) headers.set(name, value);
    const cookie = this.cookies.headerFor(url);
    if (cookie !== '' && !headers.has('cookie')) headers.set('cookie', cookie);
    return headers;
  }

  async #openInMemory(served: ServedApplication, request: Request): Promise<Response | TestWebSocket> {
    const opened = await upgradeInMemory(served, request, '127.0.0.1', this.#holdEnding);
    if (opened instanceof Response) return opened;
    const { socket, stream, over } = opened;
    const ended = over.then(() => void this.#sockets.delete(socket));
    this.#sockets.set(socket, ended);
    return new TestWebSocket(stream, opened.headers, undefined, this.#takeError);
  }

  /**
   * Closes the client. If no other client uses the application, the application is shut down. Further calls
   * do nothing.
   * @throws errors of WebSocket handlers, background tasks or clean-ups that no other call has thrown.
   * Several errors are thrown as one AggregateError.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    // an error of the start is ignored here, because the call that started the application rejects with it
    await this.#ready?.catch(ignore);
    for (const socket of this.#sockets.keys()) socket.close(CLOSE.goingAway, 'the server stops');
    await this.#lastWords();
    await this.#server?.close(CLOSE_DEADLINE_MS);
    const others = clientsOf.get(this.#app)! - 1;
    clientsOf.set(this.#app, others);
    await this.#leave?.();
    if (others === 0) await this.#app.shutdown();
    for (const socket of this.#opened) socket.rethrow();
    const late = [...this.#failedAfter].flatMap((id) => (this.#errors.has(id) ? [this.#errors.get(id)] : []));
    if (late.length > 0) throw late.length === 1 ? late[0] : new AggregateError(late);
  }

  /**
   * Resolves when all handlers have ended, at the latest after LAST_WORDS_MS, and then the tasks of their
   * requests. Tasks have no time limit, as in the shutdown of the application.
   */
  async #lastWords(): Promise<void> {
    if (this.#sockets.size + this.#calls.size > 0) {
      const limit = new AbortController();
      const isLate = systemClock.sleep(LAST_WORDS_MS, limit.signal).catch(ignore);
      await Promise.race([Promise.all([...this.#sockets.values(), allOf(this.#calls)]), isLate]);
      limit.abort();
    }
    await allOf(this.#endings);
  }

  async #start(): Promise<ServedApplication> {
    const { served, replaced } = this.#app.variant({
      overrides: this.#overrides,
      onUnhandled: (error, requestId) => {
        if (this.#raises && !(error instanceof HTTPException)) this.#errors.set(requestId, error);
      },
      onFailedAfter: (error, requestId) => {
        if (!this.#raises) return;
        this.#failedAfter.add(requestId);
        const before = this.#errors.get(requestId);
        this.#errors.set(requestId, before === undefined ? error : errorAfter(error, before));
      },
    });
    await this.#app.lifecycle.startParts(replaced);
    this.#leave = await served.start();
    if (this.#listens) {
      this.#server = new HttpServer(served);
      this.#baseUrl = (await this.#server.listen({ port: 0 })).url;
    }
    return served;
  }

  #rethrow(response: Response): void {
    const taken = this.#takeError(response.headers);
    if (taken !== undefined) throw taken.error;
  }

  /** Removes and returns the error of the request whose response has these header fields. */
  readonly #takeError: ErrorSource = (headers) => {
    const id = headers.get(this.#app.defaults.identity.field) ?? '';
    if (!this.#errors.has(id)) return undefined;
    const error = this.#errors.get(id);
    this.#errors.delete(id);
    return { error };
  };
}

/** Adds a promise to the running ones until it settles. Returns the promise. */
function held<T>(promise: Promise<T>, running: Set<Promise<void>>): Promise<T> {
  const ended = promise.then(ignore, ignore);
  running.add(ended);
  void ended.then(() => running.delete(ended));
  return promise;
}

/** Resolves when no promise is running, also none that was added meanwhile. */
async function allOf(running: ReadonlySet<Promise<void>>): Promise<void> {
  while (running.size > 0) await Promise.all(running);
}

/**
 * Returns a request whose header fields `fetch()` sends as they are.
 * @throws TypeError if it would replace one, because a test would then pass for another request
 */
function arriving(web: Request): Request {
  const replaced = { host: new URL(web.url).host, 'sec-fetch-mode': 'cors' };
  for (const [name, sent] of Object.entries(replaced))
    if ((web.headers.get(name) ?? sent) !== sent)
      throw new TypeError(
        `A test client with listen: true cannot send the header field "${name}", because fetch() replaces it: use a test client without listen`,
      );
  return web;
}

/** Opens a WebSocket over a real network connection. */
function openSocket(url: URL, headers: Headers, takeError: ErrorSource): Promise<Response | TestWebSocket> {
  return new Promise((resolve, reject) => {
    const outgoing = http.request(url, { headers: Object.fromEntries(headers), agent: false });
    outgoing.once('error', reject);
    outgoing.once('upgrade', (incoming, socket, head) =>
      resolve(new TestWebSocket(socket, headersOf(incoming.rawHeaders), head, takeError)),
    );
    outgoing.once('response', (incoming) => {
      const init = { status: incoming.statusCode!, headers: headersOf(incoming.rawHeaders) };
      buffer(incoming).then((body) => resolve(new Response(body, init)), reject);
    });
    outgoing.end();
  });
}

function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let index = 0; index < rawHeaders.length; index += 2)
    headers.append(rawHeaders[index]!, rawHeaders[index + 1]!);
  return headers;
}

function bodyOf(request: TestRequest): { body: WebBody; type?: string } {
  const { json, form, body = null } = request;
  if (json !== undefined) return { body: JSON.stringify(json), type: 'application/json' };
  if (form === undefined || form instanceof FormData) return { body: form ?? body };
  const pairs = Object.entries(form).flatMap(([name, values]) =>
    (typeof values === 'string' ? [values] : values).map((value) => [name, value] as [string, string]),
  );
  return { body: new URLSearchParams(pairs) };
}
