/**
 * Sends HTTP requests to a provider. Limits their number and duration, the size of the responses, and the
 * addresses that they may reach.
 *
 * A request has these stages: queue, connect (with DNS), TLS, first byte, whole body. Each stage has a time
 * limit, by default 10 seconds. Redirects are not followed, and TLS certificates are always verified.
 *
 * With a proxy, the stage `connect` is named `proxy`. The proxy opens a tunnel by CONNECT (RFC 9110 §9.3.6),
 * through which TLS to the provider is verified as without a proxy. The proxy resolves the host name, so only
 * IP addresses in URLs can be checked. `proxyEnv` of Node's agents is not used: a call that is cancelled would
 * leave the connection to the proxy open, and the agent takes a response of any size from the proxy.
 *
 * JSON responses must have the status 200, a JSON media type and valid UTF-8.
 */
import { lookup as systemLookup } from 'node:dns';
import https from 'node:https';
import { isIP } from 'node:net';
import tls from 'node:tls';
import { http } from '../../base/node-http.ts';
import { isPrivateAddress } from './addresses.ts';
import { ProviderFault, word } from './failure.ts';
import { isRecord } from '../../base/options.ts';
import { parseValue } from '../../crypto/jwt-json.ts';
import { pemText } from '../../crypto/keys.ts';
import { mask } from '../../observability/redact.ts';
import { inSpan } from '../../observability/tracer.ts';
import type { LookupAddress } from 'node:dns';
import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import type { LookupFunction, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Tracer } from '../../observability/tracer.ts';
import type { Proxies, Proxy } from './addresses.ts';

/** Maximum size of a response in bytes. Compressed responses are refused. */
const MAX_ANSWER_BYTES = 1_048_576;
/** Lowest status that makes the span of a call an error. */
const FAILED_STATUS = 400;
const MAX_AT_ONCE = 16;
const MAX_WAITING = 64;

export interface Target {
  readonly url: string;
  /**
   * True if the host must have a public address, because a provider with a public address has named this URL.
   */
  readonly isGuarded: boolean;
}

export interface OutboundCall {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
  /** Whether connections to private addresses are refused. */
  readonly isGuarded?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A response of any status, with the whole body. */
export interface OutboundAnswer {
  readonly status: number;
  /** Media type in lower case, without parameters. Empty if the response has none. */
  readonly mediaType: string;
  readonly body: Buffer;
  /** Whether the response, or behind a proxy the URL, is of a private address. */
  readonly isPrivate: boolean;
}

/** Resolves all addresses of a host name, like `dns.lookup` with `all: true`. */
type Resolve = (
  hostname: string,
  callback: (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void,
) => void;

export interface OutboundDeps {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Trusted certificate authorities in PEM. Default: the authorities of Node.js. */
  readonly ca?: string | undefined;
  /** Resolves host names; tests pass their own function. Default: the system's resolver. */
  readonly resolve?: Resolve | undefined;
  /** Proxies through which requests are sent. Default: none. */
  readonly proxies?: Proxies | undefined;
}

interface Waiting {
  go(): void;
  refuse(reason: ProviderFault): void;
}

/** Sends requests to one provider: 16 run at once, 64 wait, and each stage has a limit. */
export class Outbound {
  readonly #deps: OutboundDeps;
  readonly #agents: { readonly plain: Agent; readonly tls: https.Agent };
  readonly #tls: tls.SecureContextOptions & { readonly rejectUnauthorized: true };
  readonly #waiting = new Set<Waiting>();
  readonly #closing = new AbortController();
  #running = 0;

  constructor(deps: OutboundDeps) {
    this.#deps = deps;
    // Each request has its own connection: the provider could close an idle connection while a code is sent,
    // and a code cannot be sent twice. `rejectUnauthorized` takes precedence over the environment variable
    // NODE_TLS_REJECT_UNAUTHORIZED.
    this.#tls = {
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ...(deps.ca === undefined ? {} : { ca: pemText(deps.ca) }),
    };
    this.#agents = {
      plain: new http.Agent({ keepAlive: false }),
      tls: new https.Agent({ keepAlive: false, ...this.#tls }),
    };
  }

  /** Number of running and waiting requests. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running, waiting: this.#waiting.size };
  }

  /**
   * Sends a request, and reads the whole response. If `signal` aborts, rejects with its reason.
   *
   * @throws ProviderFault `provider_error` when the request fails, `provider_timeout` when a stage takes too
   * long, `temporarily_unavailable` when the queue is full, a request waits in it too long, or close() was
   * called
   */
  async call(call: OutboundCall): Promise<OutboundAnswer> {
    await this.#turn(call.signal);
    try {
      return await this.#send(call);
    } finally {
      this.#running--;
      const [next] = this.#waiting;
      next?.go();
    }
  }

  close(): void {
    const reason = new ProviderFault('temporarily_unavailable', 'closed');
    this.#closing.abort(reason);
    for (const each of this.#waiting) each.refuse(reason);
    this.#agents.plain.destroy();
    this.#agents.tls.destroy();
  }

  /** Waits in the queue until the request may run. Returns undefined if no wait is necessary. */
  #turn(signal: AbortSignal | undefined): Promise<void> | undefined {
    signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    if (this.#running < MAX_AT_ONCE) {
      this.#running++;
      return undefined;
    }
    if (this.#waiting.size >= MAX_WAITING) throw new ProviderFault('temporarily_unavailable', 'queue_full');
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(waiting);
        timer[Symbol.dispose]();
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => {
        leave();
        reject(signal!.reason);
      };
      const waiting: Waiting = {
        go: () => {
          leave();
          this.#running++;
          resolve();
        },
        refuse: (reason) => {
          leave();
          reject(reason);
        },
      };
      const timer = this.#deps.clock.after(this.#deps.timeoutMs, () =>
        waiting.refuse(new ProviderFault('temporarily_unavailable', 'queue_timeout')),
      );
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(waiting);
    });
  }

  #send(call: OutboundCall): Promise<OutboundAnswer> {
    const url = new URL(call.url);
    const isPrivate = isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0 && isPrivateAddress(url.hostname);
    // checked here, because Node.js does not call lookupOf() if the URL contains an IP address
    if (call.isGuarded === true && isPrivate)
      return Promise.reject(new ProviderFault('provider_error', 'private_address'));
    const { proxies, resolve: resolver = resolveAll } = this.#deps;
    const isTls = url.protocol === 'https:';
    const options: RequestOptions = {
      method: call.method,
      agent: isTls ? this.#agents.tls : this.#agents.plain,
      headers: {
        accept: 'application/json',
        'accept-encoding': 'identity',
        'user-agent': 'svc',
        ...call.headers,
      },
      lookup: lookupOf(resolver, call.isGuarded === true),
    };
    const signals = [this.#closing.signal, ...(call.signal === undefined ? [] : [call.signal])];
    return new Promise((resolve, reject) => {
      const exchange = new Exchange({ ...this.#deps, isTls, signals, resolve, reject });
      const proxy = proxies?.proxyFor(url);
      if (proxy === undefined) exchange.begin((isTls ? https : http).request(url, options), call.body);
      else
        exchange.beginBehind(
          connectRequest(proxy, url),
          isPrivate,
          (tunnel) =>
            (isTls ? https : http).request(url, { ...options, ...this.#through(tunnel, url, isTls) }),
          call.body,
        );
    });
  }

  /** Returns request options that use the tunnel of a proxy in place of a connection of an agent. */
  #through(tunnel: Duplex, url: URL, isTls: boolean): RequestOptions {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const secured = (): Duplex =>
      tls.connect({ ...this.#tls, socket: tunnel, host, ...(isIP(host) === 0 ? { servername: host } : {}) });
    return { agent: undefined, createConnection: isTls ? secured : () => tunnel };
  }
}

/**
 * Sends a request in a client span, and names this span to the provider in `traceparent`. `tracestate` and
 * baggage are not sent, because a provider is not a service of the application.
 */
export function tracedCall(
  tracer: Tracer,
  call: OutboundCall,
  send: (call: OutboundCall) => Promise<OutboundAnswer>,
): Promise<OutboundAnswer> {
  const { origin, pathname, hostname, port, protocol } = new URL(call.url);
  const attributes = {
    'http.request.method': call.method,
    'url.full': mask(origin + pathname), // without the query, which may contain secrets
    'server.address': hostname,
    'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
  };
  return inSpan(tracer, call.method, { kind: 'client', attributes }, async (span) => {
    const { traceparent } = tracer.inject();
    const headers = traceparent === undefined ? call.headers : { ...call.headers, traceparent };
    const answer = await send({ ...call, headers });
    if (span === undefined) return answer;
    span.set('http.response.status_code', answer.status);
    if (answer.status >= FAILED_STATUS) {
      span.set('error.type', String(answer.status));
      span.fail();
    }
    return answer;
  });
}

interface ExchangeDeps {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly isTls: boolean;
  readonly signals: readonly AbortSignal[];
  readonly resolve: (answer: OutboundAnswer) => void;
  readonly reject: (reason: unknown) => void;
}

class Exchange {
  readonly #deps: ExchangeDeps;
  readonly #chunks: Buffer[] = [];
  #request: ClientRequest | undefined;
  #length = 0;
  #isPrivate = true;
  #stage = '';
  #timer: Disposable | undefined;

  constructor(deps: ExchangeDeps) {
    this.#deps = deps;
  }

  begin(request: ClientRequest, body: string | undefined): void {
    this.#open('connect', request);
    request.on('socket', (socket) => this.#onSocket(socket));
    this.#send(request, body);
  }

  /**
   * Sends a CONNECT request to a proxy. If the proxy opens the tunnel, sends the request that `make` returns
   * through the tunnel. `isPrivate` is whether the URL contains a private address.
   */
  beginBehind(
    proxy: ClientRequest,
    isPrivate: boolean,
    make: (tunnel: Duplex) => ClientRequest,
    body: string | undefined,
  ): void {
    this.#open('proxy', proxy);
    this.#isPrivate = isPrivate;
    proxy.on('error', (error) => this.#onError(error));
    proxy.on('connect', ({ statusCode = 0 }, tunnel, head) => {
      tunnel.on('error', (error) => this.#onError(error));
      if (statusCode !== 200) {
        tunnel.destroy();
        return this.#fail(new ProviderFault('provider_error', `proxy_status_${statusCode}`));
      }
      tunnel.unshift(head);
      this.#enter(this.#deps.isTls ? 'tls' : 'first_byte');
      const request = (this.#request = make(tunnel));
      request.on('socket', (socket) => socket.once('secureConnect', () => this.#enter('first_byte')));
      request.on('close', () => tunnel.destroy());
      this.#send(request, body);
    });
    proxy.on('close', () => {
      if (this.#request === proxy) this.#fail(new ProviderFault('provider_error', 'proxy_closed'));
    });
    proxy.end();
  }

  #open(stage: string, request: ClientRequest): void {
    this.#request = request;
    this.#enter(stage);
    for (const signal of this.#deps.signals) signal.addEventListener('abort', this.#onAbort);
  }

  #send(request: ClientRequest, body: string | undefined): void {
    request.on('response', (response) => this.#onResponse(response));
    request.on('error', (error) => this.#onError(error));
    request.on('close', () => this.#fail(new ProviderFault('provider_error', `${this.#stage}_closed`)));
    request.end(body);
  }

  readonly #onAbort = (): void => this.#fail(this.#deps.signals.find((signal) => signal.aborted)!.reason);

  /** Begins a stage, and sets its time limit. */
  #enter(stage: string): void {
    this.#timer?.[Symbol.dispose]();
    this.#stage = stage;
    this.#timer = this.#deps.clock.after(this.#deps.timeoutMs, () =>
      this.#fail(new ProviderFault('provider_timeout', stage)),
    );
  }

  #onSocket(socket: Socket): void {
    socket.once('connect', () => {
      this.#isPrivate = isPrivateAddress(socket.remoteAddress ?? '');
      this.#enter(this.#deps.isTls ? 'tls' : 'first_byte');
    });
    if (this.#deps.isTls) socket.once('secureConnect', () => this.#enter('first_byte'));
  }

  #onResponse(response: IncomingMessage): void {
    this.#enter('body');
    const encoding = response.headers['content-encoding'];
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
      return this.#fail(new ProviderFault('provider_error', 'encoded'));
    response.on('data', (chunk: Buffer) => {
      this.#length += chunk.length;
      if (this.#length > MAX_ANSWER_BYTES) this.#fail(new ProviderFault('provider_error', 'too_large'));
      else this.#chunks.push(chunk);
    });
    response.on('error', (error) => this.#onError(error));
    response.on('end', () => {
      this.#leave();
      const mediaType = (response.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase();
      this.#deps.resolve({
        status: response.statusCode ?? 0,
        mediaType,
        body: Buffer.concat(this.#chunks),
        isPrivate: this.#isPrivate,
      });
    });
  }

  /** Fails the request with an error of the socket, converted to a ProviderFault. */
  #onError(error: NodeJS.ErrnoException): void {
    this.#fail(
      error instanceof ProviderFault
        ? error
        : new ProviderFault('provider_error', `${this.#stage}_${word(error.code ?? error.name)}`, {
            cause: error,
          }),
    );
  }

  /** Rejects the promise of the request, and destroys the socket. Later calls of #fail() have no effect. */
  #fail(reason: unknown): void {
    this.#leave();
    this.#chunks.length = 0;
    this.#deps.reject(reason);
    this.#request?.destroy();
  }

  #leave(): void {
    this.#timer?.[Symbol.dispose]();
    for (const signal of this.#deps.signals) signal.removeEventListener('abort', this.#onAbort);
  }
}

/** Returns a request that asks a proxy for a tunnel to the host of a URL. The caller must end it. */
function connectRequest({ url, authorization }: Proxy, { host, protocol, port }: URL): ClientRequest {
  const target = port === '' ? `${host}:${protocol === 'https:' ? 443 : 80}` : host;
  return (url.protocol === 'https:' ? https : http).request(url, {
    method: 'CONNECT',
    path: target,
    // without an agent, the connection to the proxy belongs to this request alone
    agent: false,
    rejectUnauthorized: true,
    auth: null,
    headers: {
      host: target,
      ...(authorization === undefined ? {} : { 'proxy-authorization': authorization }),
    },
  });
}

function resolveAll(hostname: string, callback: Parameters<Resolve>[1]): void {
  systemLookup(hostname, { all: true, order: 'verbatim' }, callback);
}

/** Returns a DNS look-up that checks the addresses to which the socket connects. */
function lookupOf(resolve: Resolve, isGuarded: boolean): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      if (error === null && isGuarded && addresses.some(({ address }) => isPrivateAddress(address)))
        error = new ProviderFault('provider_error', 'private_address');
      const [first] = addresses ?? [];
      if (error !== null || first === undefined)
        callback(error ?? new ProviderFault('provider_error', 'no_address'), '', 0);
      else if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Parses the JSON value of a response. `what` names the request in the reasons of errors. */
export function jsonValue(what: string, answer: OutboundAnswer): unknown {
  if (answer.status !== 200) throw new ProviderFault('provider_error', `${what}_status_${answer.status}`);
  if (!isJson(answer.mediaType)) throw new ProviderFault('provider_error', `${what}_media_type`);
  let text: string;
  try {
    text = utf8.decode(answer.body);
    JSON.parse(text);
  } catch {
    // no `cause`, because the message of the error contains text of the response
    throw new ProviderFault('provider_error', `${what}_not_json`);
  }
  const value = parseValue(text);
  // parseValue() returns undefined if a name occurs twice, because parsers differ in the value they use
  if (value === undefined) throw new ProviderFault('provider_error', `${what}_ambiguous_json`);
  return value;
}

/** Parses the JSON object of a response. */
export function jsonObject(what: string, answer: OutboundAnswer): Record<string, unknown> {
  const value = jsonValue(what, answer);
  if (!isRecord(value)) throw new ProviderFault('provider_error', `${what}_not_object`);
  return value;
}

/** Returns whether a media type is `application/json` or has the suffix `+json` (RFC 6839 §3.1). */
export function isJson(mediaType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json$/.test(mediaType);
}
