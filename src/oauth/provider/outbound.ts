/**
 * Calls to a provider, each with an end: no more of them at once, no longer, no larger and no further than agreed.
 *
 *   queue -> connect (and DNS) -> TLS -> first byte -> whole body      10 s for each; then the socket is destroyed
 *
 * No redirect is followed, no proxy asked, no encoding undone: a compressed answer is refused. TLS is always verified,
 * whatever the environment says. Nothing here blocks the event loop, and nothing keeps the process alive but a call itself.
 */
import { isRecord } from '../../base/options.ts';
import { lookup as systemLookup } from 'node:dns';
import https from 'node:https';
import { BlockList, isIP } from 'node:net';
import { http } from '../../base/node-http.ts';
import type { LookupAddress } from 'node:dns';
import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import type { LookupFunction, Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';

/** Answers are cut off beyond this. They are never decoded, so it counts what a parser would see. */
export const MAX_ANSWER_BYTES = 1_048_576;
const MAX_AT_ONCE = 16;
const MAX_WAITING = 64;

/** One call. */
export interface OutboundCall {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
  /** Refuse to connect to private addresses. */
  readonly isGuarded?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What came back: any status, the body whole. */
export interface OutboundAnswer {
  readonly status: number;
  /** Media type in lower case, without parameters; empty when there is none. */
  readonly mediaType: string;
  readonly body: Buffer;
  /** Whether it came from a private address. */
  readonly isPrivate: boolean;
}

/** Resolves every address of a name, as `dns.lookup` with `all: true` does. */
export type Resolve = (
  hostname: string,
  callback: (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void,
) => void;

/** What calls are made with. */
export interface OutboundDeps {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** PEM: the only authorities that are trusted. Default: those of Node.js. */
  readonly ca?: string | undefined;
  /** For tests; default the system's resolver. */
  readonly resolve?: Resolve | undefined;
}

interface Waiting {
  go(): void;
  refuse(reason: ProviderFailure): void;
}

/** Calls to one provider: at most 16 at once, at most 64 waiting for their turn, each no longer than a stage may take. */
export class Outbound {
  readonly #deps: OutboundDeps;
  readonly #agents: { readonly plain: Agent; readonly tls: https.Agent };
  readonly #waiting = new Set<Waiting>();
  readonly #closing = new AbortController();
  #running = 0;

  constructor(deps: OutboundDeps) {
    this.#deps = deps;
    // A connection for each call: one that was kept may be closed by the other side just when a code is sent, which cannot be
    // sent twice. TLS sessions are resumed. The agent's own settings stand whatever NODE_TLS_REJECT_UNAUTHORIZED says.
    this.#agents = {
      plain: new http.Agent({ keepAlive: false }),
      tls: new https.Agent({
        keepAlive: false,
        rejectUnauthorized: true,
        minVersion: 'TLSv1.2',
        ...(deps.ca === undefined ? {} : { ca: deps.ca }),
      }),
    };
  }

  /** How many calls run, and how many wait. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running, waiting: this.#waiting.size };
  }

  /**
   * Sends and reads. Rejects with the signal's reason when that is aborted.
   *
   * @throws ProviderFailure `provider_error`, `provider_timeout`, `temporarily_unavailable` (too many calls, or closed)
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

  /** Ends every call, and refuses those to come. */
  close(): void {
    const reason = new ProviderFailure('temporarily_unavailable', 'closed');
    this.#closing.abort(reason);
    for (const each of this.#waiting) each.refuse(reason);
    this.#agents.plain.destroy();
    this.#agents.tls.destroy();
  }

  /** Resolves when the call may run; then it counts as running. */
  #turn(signal: AbortSignal | undefined): Promise<void> | undefined {
    signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    if (this.#running < MAX_AT_ONCE) {
      this.#running++;
      return undefined;
    }
    if (this.#waiting.size >= MAX_WAITING) throw new ProviderFailure('temporarily_unavailable', 'queue_full');
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
        waiting.refuse(new ProviderFailure('temporarily_unavailable', 'queue_timeout')),
      );
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(waiting);
    });
  }

  #send(call: OutboundCall): Promise<OutboundAnswer> {
    const url = new URL(call.url);
    if (
      call.isGuarded === true &&
      isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0 &&
      isPrivateAddress(url.hostname)
    ) {
      return Promise.reject(new ProviderFailure('provider_error', 'private_address')); // an address is connected to without a look-up
    }
    return new Promise((resolve, reject) => {
      const isTls = url.protocol === 'https:';
      const request = (isTls ? https : http).request(url, {
        method: call.method,
        agent: isTls ? this.#agents.tls : this.#agents.plain,
        headers: {
          accept: 'application/json',
          'accept-encoding': 'identity',
          'user-agent': 'svc',
          ...call.headers,
        },
        lookup: lookupOf(this.#deps.resolve ?? resolveAll, call.isGuarded === true),
      });
      const signals = [this.#closing.signal, ...(call.signal === undefined ? [] : [call.signal])];
      new Exchange(request, isTls, this.#deps, signals, resolve, reject).begin(call.body);
    });
  }
}

/** One request on its way through the stages. */
class Exchange {
  readonly #request: ClientRequest;
  readonly #isTls: boolean;
  readonly #deps: OutboundDeps;
  readonly #signals: readonly AbortSignal[];
  readonly #resolve: (answer: OutboundAnswer) => void;
  readonly #reject: (reason: unknown) => void;
  readonly #chunks: Buffer[] = [];
  #length = 0;
  #isPrivate = true;
  #stage = '';
  #timer: Disposable | undefined;

  constructor(
    request: ClientRequest,
    isTls: boolean,
    deps: OutboundDeps,
    signals: readonly AbortSignal[],
    resolve: (answer: OutboundAnswer) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#request = request;
    this.#isTls = isTls;
    this.#deps = deps;
    this.#signals = signals;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  begin(body: string | undefined): void {
    this.#enter('connect');
    for (const signal of this.#signals) signal.addEventListener('abort', this.#onAbort);
    this.#request.on('socket', (socket) => this.#onSocket(socket));
    this.#request.on('response', (response) => this.#onResponse(response));
    this.#request.on('error', (error) => this.#onError(error));
    this.#request.on('close', () =>
      this.#fail(new ProviderFailure('provider_error', `${this.#stage}_closed`)),
    );
    this.#request.end(body);
  }

  readonly #onAbort = (): void => this.#fail(this.#signals.find((signal) => signal.aborted)!.reason);

  /** The next stage, with the whole time of a stage before it. */
  #enter(stage: string): void {
    this.#timer?.[Symbol.dispose]();
    this.#stage = stage;
    this.#timer = this.#deps.clock.after(this.#deps.timeoutMs, () =>
      this.#fail(new ProviderFailure('provider_timeout', stage)),
    );
  }

  #onSocket(socket: Socket): void {
    socket.once('connect', () => {
      this.#isPrivate = isPrivateAddress(socket.remoteAddress ?? '');
      this.#enter(this.#isTls ? 'tls' : 'first_byte');
    });
    if (this.#isTls) socket.once('secureConnect', () => this.#enter('first_byte'));
  }

  #onResponse(response: IncomingMessage): void {
    this.#enter('body');
    const encoding = response.headers['content-encoding'];
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
      return this.#fail(new ProviderFailure('provider_error', 'encoded'));
    response.on('data', (chunk: Buffer) => {
      this.#length += chunk.length;
      if (this.#length > MAX_ANSWER_BYTES) this.#fail(new ProviderFailure('provider_error', 'too_large'));
      else this.#chunks.push(chunk);
    });
    response.on('error', (error) => this.#onError(error));
    response.on('end', () => {
      this.#leave();
      const mediaType = (response.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase();
      this.#resolve({
        status: response.statusCode ?? 0,
        mediaType,
        body: Buffer.concat(this.#chunks),
        isPrivate: this.#isPrivate,
      });
    });
  }

  /** The look-up fails with a failure of ours; everything else has the system's word for it. */
  #onError(error: NodeJS.ErrnoException): void {
    this.#fail(
      error instanceof ProviderFailure
        ? error
        : new ProviderFailure('provider_error', `${this.#stage}_${word(error.code ?? error.name)}`, {
            cause: error,
          }),
    );
  }

  /** The first reason counts; the socket goes with it. */
  #fail(reason: unknown): void {
    this.#leave();
    this.#chunks.length = 0;
    this.#reject(reason);
    this.#request.destroy();
  }

  #leave(): void {
    this.#timer?.[Symbol.dispose]();
    for (const signal of this.#signals) signal.removeEventListener('abort', this.#onAbort);
  }
}

function resolveAll(hostname: string, callback: Parameters<Resolve>[1]): void {
  systemLookup(hostname, { all: true, order: 'verbatim' }, callback);
}

/** The look-up of a connection: what it checks is what is connected to, so an answer that changes afterwards changes nothing. */
function lookupOf(resolve: Resolve, isGuarded: boolean): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      if (error === null && isGuarded && addresses.some(({ address }) => isPrivateAddress(address)))
        error = new ProviderFailure('provider_error', 'private_address');
      const [first] = addresses ?? [];
      if (error !== null || first === undefined)
        callback(error ?? new ProviderFailure('provider_error', 'no_address'), '', 0);
      else if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

/*
 * Where provider calls may go: https, http only to this very machine and only when allowed, and for addresses that the
 * provider named itself nothing private (server-side request forgery).
 */

/** Networks that lead to this machine or stay inside a site: RFC 6890, RFC 4193, RFC 6598, RFC 2544, RFC 5737, RFC 3849, RFC 2765. */
const PRIVATE: readonly (readonly [network: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
  ['::', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
];

const privateNetworks = new BlockList();
for (const [network, prefix] of PRIVATE)
  privateNetworks.addSubnet(network, prefix, isIP(network) === 6 ? 'ipv6' : 'ipv4');

/**
 * Whether an IP address is no public one. IPv4 inside IPv6 (`::ffff:127.0.0.1`, and NAT64, RFC 6052) counts as the IPv4
 * address; what is no address at all counts as private.
 */
export function isPrivateAddress(address: string): boolean {
  const bare = address.replace(/^\[|\]$|%.*$/g, '');
  const version = isIP(bare);
  if (version !== 6) return version === 0 || privateNetworks.check(bare, 'ipv4');
  const inside = /^\[64:ff9b::(?:([\da-f]{1,4}):)?([\da-f]{1,4})?\]$/.exec(
    new URL(`http://[${bare}]`).hostname,
  );
  if (inside === null) return privateNetworks.check(bare, 'ipv6');
  const bits = Buffer.from((inside[1] ?? '').padStart(4, '0') + (inside[2] ?? '').padStart(4, '0'), 'hex');
  return privateNetworks.check(bits.join('.'), 'ipv4');
}

/** Why a URL may not be called; undefined when it may. In words, the URL not repeated. */
export function problemOfUrl(text: string, allowsInsecure: boolean): string | undefined {
  if (typeof text !== 'string' || !URL.canParse(text)) return 'is no absolute URL';
  const url = new URL(text);
  if (/[\s\\]|[^\x21-\x7e]/.test(text))
    return 'has spaces, backslashes or characters that a URL has to escape';
  if (url.username !== '' || url.password !== '') return 'has user information';
  if (text.includes('#')) return 'has a fragment';
  if (url.protocol === 'https:') return undefined;
  if (url.protocol !== 'http:') return 'is not https';
  if (!isLoopback(url.hostname)) return 'is not https, and leads to another machine';
  return allowsInsecure
    ? undefined
    : 'is not https: allowInsecure lets http through to the loopback interface';
}

/** Names and addresses of this very machine, as `URL.hostname` writes them. */
export function isLoopback(hostname: string): boolean {
  return (
    hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
  );
}

/** Whether a host is `site`, or a name below it. */
export function isWithinSite(host: string, site: string): boolean {
  return host === site || host.endsWith(`.${site}`);
}

/*
 * Answers of a provider that must be JSON: status 200, a JSON media type, valid UTF-8, and the form expected.
 */

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The JSON value of an answer. `what` begins the reason of a failure. @throws ProviderFailure `provider_error` */
export function jsonValue(what: string, answer: OutboundAnswer): unknown {
  if (answer.status !== 200) throw new ProviderFailure('provider_error', `${what}_status_${answer.status}`);
  if (!isJson(answer.mediaType)) throw new ProviderFailure('provider_error', `${what}_media_type`);
  try {
    return JSON.parse(utf8.decode(answer.body));
  } catch {
    throw new ProviderFailure('provider_error', `${what}_not_json`); // without the cause, which quotes the text
  }
}

/** The JSON object of an answer. @throws ProviderFailure `provider_error` */
export function jsonObject(what: string, answer: OutboundAnswer): Record<string, unknown> {
  const value = jsonValue(what, answer);
  if (!isRecord(value)) throw new ProviderFailure('provider_error', `${what}_not_object`);
  return value;
}

/** `application/json`, or any type with its suffix (RFC 6839 §3.1). */
export function isJson(mediaType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json$/.test(mediaType);
}

/** An object without its members that are null, which say nothing: some providers write every member that they know of. */
export function withoutNulls(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

/*
 * What goes wrong with an identity provider: a code that decides the answer, and a reason for the log.
 */

/** What the client is told: 502, 504, 503 and 400. */
export type ProviderFailureCode =
  'provider_error' | 'provider_timeout' | 'temporarily_unavailable' | 'issuer_mismatch';

const MAX_REASON_CHARACTERS = 120;

/**
 * An identity provider has refused, misanswered or not answered at all.
 *
 * `reason` is for the log only: words of ours such as `token_status_500`, at most 120 visible ASCII characters, never a
 * token, a code, a secret or a body.
 */
export class ProviderFailure extends Error {
  readonly code: ProviderFailureCode;
  readonly reason: string;

  constructor(code: ProviderFailureCode, reason: string, options: { readonly cause?: unknown } = {}) {
    const bounded = word(reason, MAX_REASON_CHARACTERS);
    super(
      `The identity provider failed: ${bounded}`,
      'cause' in options ? { cause: options.cause } : undefined,
    );
    this.name = 'ProviderFailure';
    this.code = code;
    this.reason = bounded;
  }
}

/** Text from outside as a reason may carry it: visible ASCII, everything else `?`, cut to `most` characters. */
export function word(text: string, most: number = 40): string {
  return text.slice(0, most).replace(/[^\x21-\x7e]/g, '?');
}
