/**
 * Calls to a provider, each with an end: no more of them at once, no longer, no larger and no further than agreed.
 *
 *   queue -> connect (and DNS) -> TLS -> first byte -> whole body      10 s for each; then the socket is destroyed
 *
 * No redirect is followed, no proxy asked, no encoding undone: a compressed answer is refused. TLS is always verified,
 * whatever the environment says. Nothing here blocks the event loop, and nothing keeps the process alive but a call itself.
 */
import { lookup as systemLookup } from 'node:dns';
import https from 'node:https';
import { isIP } from 'node:net';
import { http } from '../../base/node-http.ts';
import { isPrivateAddress } from './addresses.ts';
import { ProviderFault, word } from './failure.ts';
import type { LookupAddress } from 'node:dns';
import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import type { LookupFunction, Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';

/** Answers are cut off beyond this. They are never decoded, so it counts what a parser would see. */
const MAX_ANSWER_BYTES = 1_048_576;
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
  refuse(reason: ProviderFault): void;
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
   * @throws ProviderFault `provider_error`, `provider_timeout`, `temporarily_unavailable` (too many calls, or closed)
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
    const reason = new ProviderFault('temporarily_unavailable', 'closed');
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
    if (
      call.isGuarded === true &&
      isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0 &&
      isPrivateAddress(url.hostname)
    ) {
      return Promise.reject(new ProviderFault('provider_error', 'private_address')); // an address is connected to without a look-up
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
    this.#request.on('close', () => this.#fail(new ProviderFault('provider_error', `${this.#stage}_closed`)));
    this.#request.end(body);
  }

  readonly #onAbort = (): void => this.#fail(this.#signals.find((signal) => signal.aborted)!.reason);

  /** The next stage, with the whole time of a stage before it. */
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
      this.#enter(this.#isTls ? 'tls' : 'first_byte');
    });
    if (this.#isTls) socket.once('secureConnect', () => this.#enter('first_byte'));
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
      error instanceof ProviderFault
        ? error
        : new ProviderFault('provider_error', `${this.#stage}_${word(error.code ?? error.name)}`, {
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
        error = new ProviderFault('provider_error', 'private_address');
      const [first] = addresses ?? [];
      if (error !== null || first === undefined)
        callback(error ?? new ProviderFault('provider_error', 'no_address'), '', 0);
      else if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}
