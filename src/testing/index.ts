/**
 * `svc/testing`: a client that sends requests through an application without a socket, and a clock that tests move.
 *
 *   await using client = new TestClient(app);
 *   const response = await client.post('/users', { json: { name: 'Ada' } });
 *   assert.equal(response.status, 201);
 */
/// <reference types="node" preserve="true" />
import '../base/need-node.ts';
import { http } from '../base/node-http.ts';
import { CookieJar } from './cookie-jar.ts';
import { systemClock } from '../base/clock.ts';
import { HTTPException, errorAfter } from '../base/errors.ts';
import { ignore } from '../base/promises.ts';
import { bool, given, isObject, readOptions, text } from '../base/options.ts';
import { answerInMemory, upgradeInMemory } from '../http/server/memory.ts';
import { HttpServer } from '../http/server/server.ts';
import { CLOSE } from '../http/websocket/codes.ts';
import { TestWebSocket, WebSocketRefused } from './websocket.ts';
import type { Svc } from '../app/svc.ts';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Context } from '../http/contracts.ts';
import type { ServedApplication } from '../http/server/server.ts';
import type { WebSocketConnection } from '../http/websocket/websocket.ts';
import type { ErrorSource, TestWebSocketOptions } from './websocket.ts';

export { CookieJar } from './cookie-jar.ts';
export { ManualClock } from '../base/manual-clock.ts';
export { DevProvider } from '../oauth/dev-provider/dev-provider.ts';
export type {
  DevProviderOptions,
  DevRequest,
  DevResponse,
  DevUser,
} from '../oauth/dev-provider/dev-provider.ts';
export { TestWebSocket, WebSocketRefused } from './websocket.ts';
export type { TestWebSocketOptions } from './websocket.ts';

/** How a {@link TestClient} talks to its application. `undefined` means not given. */
export interface TestClientOptions {
  /** The time the application lives by. Only before it is compiled. */
  readonly clock?: Clock | undefined;
  /** Where the application believes it runs. Default `test`, unless its configuration names one. Only before it is compiled. */
  readonly env?: Env | undefined;
  /** Before every path. Default `http://localhost`, or the address that it listens on. */
  readonly baseUrl?: string | undefined;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Goes over a real socket on a free port of 127.0.0.1. Default false. */
  readonly listen?: boolean | undefined;
  /**
   * Whether a call rejects with an error that no handler of the application took, instead of answering 500. The error of a socket's
   * handler rejects `receive()`, `close()` and `closed` of the {@link TestWebSocket}, else `close()` of the client. The error of a
   * background task or a clean-up rejects the call, and `close()` of the client where the response came before. Default true.
   */
  readonly raiseErrors?: boolean | undefined;
  /** Sources of dependencies, and what stands in for them with this client. The application stays as it is. */
  readonly overrides?:
    readonly (readonly [source: unknown, replacement: (context: Context) => unknown])[] | undefined;
}

/** What a web `Request` takes as its body. */
export type WebBody = NonNullable<ConstructorParameters<typeof Response>[0]> | null;

/** What a request is made of. At most one of `json`, `form` and `body`. */
export interface TestRequest {
  /** Beside those of the client; of one name, this one is sent. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Added to the path's own query. */
  readonly query?:
    Readonly<Record<string, string | number | boolean | readonly (string | number | boolean)[]>> | undefined;
  /** Sent as `application/json`. */
  readonly json?: unknown;
  /** Sent as `application/x-www-form-urlencoded`, or, when it is FormData, as `multipart/form-data`. */
  readonly form?: Readonly<Record<string, string | readonly string[]>> | FormData | undefined;
  readonly body?: WebBody | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How long requests in flight may take when a client that listens closes. */
const CLOSE_DEADLINE_MS = 5_000;
/** How long handlers of sockets in memory may run when a client closes. */
const LAST_WORDS_MS = 1_000;

/** How many clients use an application: the last one to close shuts it down. */
const clientsOf = new WeakMap<Svc, number>();

/** A client of one application. Starts it with the first request; redirects are not followed, cookies are kept. */
export class TestClient implements AsyncDisposable {
  /** What the application has set, and what is sent back. */
  readonly cookies: CookieJar;
  readonly #app: Svc;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #listens: boolean;
  readonly #raises: boolean;
  readonly #overrides: ReadonlyMap<unknown, (context: Context) => unknown>;
  readonly #errors = new Map<string, unknown>();
  /** The ids of requests of which a background task or a clean-up has failed; one of them is empty for clean-ups of scope `app`. */
  readonly #failedAfter = new Set<string>();
  /** The application's ends of the sockets in memory. Each promise resolves when no handler runs. */
  readonly #sockets = new Map<WebSocketConnection, Promise<void>>();
  /** The client's ends of all sockets. */
  readonly #opened: TestWebSocket[] = [];
  #baseUrl: string;
  #server: HttpServer | undefined;
  #ready: Promise<ServedApplication> | undefined;
  #closing: Promise<void> | undefined;
  /** Leaves this client's dependencies of scope `app`. */
  #leave: (() => Promise<void>) | undefined;

  /** @throws SvcError `E_APP_FROZEN` when the application is compiled and would have to live by another clock or environment */
  constructor(app: Svc, options: TestClientOptions = {}) {
    const { clock, env, baseUrl, headers, listen, raiseErrors, overrides } = readOptions(
      'TestClient',
      options,
      {
        clock: given<Clock>('a clock', isObject),
        env: given<Env>('"production", "development" or "test"', isEnv),
        baseUrl: text('http://localhost'),
        headers: given<Readonly<Record<string, string>>>('an object', isObject),
        listen: bool(false),
        raiseErrors: bool(true),
        overrides: given<NonNullable<TestClientOptions['overrides']>>(
          'a list of [source, replacement]',
          Array.isArray,
        ),
      },
    );
    this.#app = app;
    this.#headers = { ...headers };
    this.#listens = listen;
    this.#raises = raiseErrors;
    this.#overrides = new Map(overrides);
    this.#baseUrl = baseUrl;
    this.cookies = new CookieJar(() => app.clock.nowMs());
    const hasOwnEnv = app.config.get('env') !== undefined;
    app.withEnvironment({ clock, env: env ?? (hasOwnEnv || app.env === 'test' ? undefined : 'test') });
    clientsOf.set(app, (clientsOf.get(app) ?? 0) + 1);
  }

  /** Where requests go. With `listen` it is known after the first one. */
  get baseUrl(): string {
    return this.#baseUrl;
  }

  get(path: string, request?: TestRequest): Promise<Response> {
    return this.request('GET', path, request);
  }
  head(path: string, request?: TestRequest): Promise<Response> {
    return this.request('HEAD', path, request);
  }
  post(path: string, request?: TestRequest): Promise<Response> {
    return this.request('POST', path, request);
  }
  put(path: string, request?: TestRequest): Promise<Response> {
    return this.request('PUT', path, request);
  }
  patch(path: string, request?: TestRequest): Promise<Response> {
    return this.request('PATCH', path, request);
  }
  delete(path: string, request?: TestRequest): Promise<Response> {
    return this.request('DELETE', path, request);
  }
  options(path: string, request?: TestRequest): Promise<Response> {
    return this.request('OPTIONS', path, request);
  }

  /** Sends a request. @throws what the application's handler threw, unless `raiseErrors` is false */
  async request(method: string, path: string, request: TestRequest = {}): Promise<Response> {
    if (this.#closing !== undefined) throw new Error('The test client is closed');
    const served = await (this.#ready ??= this.#start());
    const url = new URL(path, this.#baseUrl);
    for (const [name, values] of Object.entries(request.query ?? {})) {
      for (const value of Array.isArray(values) ? (values as readonly unknown[]) : [values])
        url.searchParams.append(name, String(value));
    }
    const { body, type } = bodyOf(request);
    const headers = new Headers(type === undefined ? {} : { 'content-type': type });
    for (const fields of [this.#headers, request.headers ?? {}])
      for (const [name, value] of Object.entries(fields)) headers.set(name, value);
    const cookie = this.cookies.headerFor(url);
    if (cookie !== '' && !headers.has('cookie')) headers.set('cookie', cookie);
    const web = new Request(url, {
      method,
      headers,
      body,
      redirect: 'manual',
      signal: request.signal ?? null,
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    });
    const response = this.#listens ? await fetch(web) : await answerInMemory(served, web, '127.0.0.1');
    for (const field of response.headers.getSetCookie()) this.cookies.take(field, url);
    this.#rethrow(response);
    return response;
  }

  /**
   * Opens a WebSocket, with the Origin of the application unless `headers` has another. @throws WebSocketRefused with the answer
   * when that is not 101; and what the application has thrown instead, unless `raiseErrors` is false
   */
  async websocket(path: string, options: TestWebSocketOptions = {}): Promise<TestWebSocket> {
    if (this.#closing !== undefined) throw new Error('The test client is closed');
    const {
      headers: own,
      protocols,
      compression,
    } = readOptions('websocket()', options, {
      headers: given<Readonly<Record<string, string>>>('an object', isObject),
      protocols: given<readonly string[]>('a list of strings', Array.isArray),
      compression: bool(false),
    });
    const served = await (this.#ready ??= this.#start());
    const url = new URL(path, this.#baseUrl);
    const headers = new Headers({
      origin: url.origin,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('base64'),
      ...(protocols === undefined ? {} : { 'sec-websocket-protocol': protocols.join(', ') }),
      ...(compression ? { 'sec-websocket-extensions': 'permessage-deflate; client_max_window_bits' } : {}),
    });
    for (const fields of [this.#headers, own ?? {}])
      for (const [name, value] of Object.entries(fields)) headers.set(name, value);
    if (headers.get('origin') === '') headers.delete('origin');
    const cookie = this.cookies.headerFor(url);
    if (cookie !== '' && !headers.has('cookie')) headers.set('cookie', cookie);
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

  async #openInMemory(served: ServedApplication, request: Request): Promise<Response | TestWebSocket> {
    const opened = await upgradeInMemory(served, request, '127.0.0.1');
    if (opened instanceof Response) return opened;
    const { socket, stream, over } = opened;
    this.#sockets.set(
      socket,
      over.then(() => void this.#sockets.delete(socket)),
    );
    return new TestWebSocket(stream, opened.headers, undefined, this.#takeError);
  }

  /**
   * Stops listening, and shuts the application down when no other client uses it. Closing again changes nothing. @throws what a
   * socket's handler, a background task or a clean-up threw, when no other call has thrown it; several as AggregateError
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await this.#ready?.catch(() => {
      /* told to whoever sent the request */
    });
    for (const socket of this.#sockets.keys()) socket.close(CLOSE.goingAway, 'the server stops');
    await this.#lastWords();
    await this.#server?.close(CLOSE_DEADLINE_MS);
    const others = clientsOf.get(this.#app)! - 1; // counted by the constructor
    clientsOf.set(this.#app, others);
    await this.#leave?.();
    if (others === 0) await this.#app.shutdown();
    for (const socket of this.#opened) socket.rethrow();
    const late = [...this.#failedAfter]
      .filter((id) => this.#errors.has(id))
      .map((id) => this.#errors.get(id));
    if (late.length > 0) throw late.length === 1 ? late[0] : new AggregateError(late);
  }

  /** Resolves when no handler of a socket in memory runs, or one runs for too long. */
  async #lastWords(): Promise<void> {
    if (this.#sockets.size === 0) return;
    const limit = new AbortController();
    const isLate = systemClock.sleep(LAST_WORDS_MS, limit.signal).catch(ignore);
    await Promise.race([Promise.all(this.#sockets.values()), isLate]);
    limit.abort();
  }

  async #start(): Promise<ServedApplication> {
    const served = this.#app.variant({
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
    await this.#app.lifecycle.startParts();
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

  /** Returns the error of the request that was answered with these fields, once. */
  readonly #takeError: ErrorSource = (headers) => {
    const id = headers.get(this.#app.defaults.identity.field) ?? '';
    if (!this.#errors.has(id)) return undefined;
    const error = this.#errors.get(id);
    this.#errors.delete(id);
    return { error };
  };
}

/** Over a real socket. */
function openSocket(url: URL, headers: Headers, takeError: ErrorSource): Promise<Response | TestWebSocket> {
  return new Promise((resolve, reject) => {
    const outgoing = http.request(url, { headers: Object.fromEntries(headers), agent: false });
    outgoing.once('error', reject);
    outgoing.once('upgrade', (incoming, socket, head) =>
      resolve(new TestWebSocket(socket, headersOf(incoming.rawHeaders), head, takeError)),
    );
    outgoing.once('response', (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk)).once('error', reject);
      incoming.once('end', () =>
        resolve(
          new Response(Buffer.concat(chunks), {
            status: incoming.statusCode!,
            headers: headersOf(incoming.rawHeaders),
          }),
        ),
      );
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

function isEnv(value: unknown): boolean {
  return value === 'production' || value === 'development' || value === 'test';
}
