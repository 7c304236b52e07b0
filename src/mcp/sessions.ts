/**
 * Sessions of HTTP clients with a protocol version before 2026-07-28. The session id contains the encrypted
 * state of the session. With `authSecret`, every process of the application can decrypt the id. A session
 * grants no rights: each request has its own credentials.
 *
 * Form of the session id: `Mcp-Session-Id: e1.key.issued.expires.box`. The encrypted `box` holds the protocol
 * version, the owner, 16 random bytes, and the kinds of requests that the server may send.
 *
 * Memory holds only running requests, log levels and the ids of ended sessions, for at most 10,000 sessions.
 * The processes of an application send each other news through its RoomBus: behind a load balancer, a message of a
 * client may reach another process than the one that runs the client's call.
 */
import cluster from 'node:cluster';
import { createHash, randomBytes } from 'node:crypto';
import { isRecord, jsonOf, remember } from '../base/options.ts';
import { hasSecret, ringOf } from '../crypto/keys.ts';
import { legacyDialect } from './messages.ts';
import { ProtectedValues } from '../crypto/protected-values.ts';
import type { ToolLogLevel } from './calls.ts';
import type { RequestId, RpcResponse } from './messages.ts';
import type { ClientAbility } from './questions.ts';
import type { McpSession } from './server.ts';
import type { Services } from '../http/contracts.ts';

/** A session, with its state in this process. */
export interface HttpSession extends McpSession {
  readonly id: string;
  /** Abort controllers of the requests from the client that have no response yet, by request id. */
  readonly inFlight: Map<RequestId, AbortController>;
  isEnded: boolean;
}

const NAME = 'mcp';
/**
 * Maximum number of session states in memory. The least recently used states are dropped. Without its
 * state, a session has the default log level, and an ended session is valid again.
 */
const MAX_KEPT = 10_000;
const ANONYMOUS = digest('');

export class McpSessions {
  readonly #services: Services;
  readonly #ttlSeconds: number;
  readonly #values: ProtectedValues;
  readonly #kept = new Map<string, HttpSession>();

  constructor(services: Services, ttlSeconds: number) {
    this.#services = services;
    this.#ttlSeconds = ttlSeconds;
    this.#values = new ProtectedValues(ringOf(services.config), 'mcp session', 'sealed');
    if (cluster.isWorker && !hasSecret(services.config))
      services.log.warn('mcp_sessions_unshared', {
        problem: 'other worker processes refuse the sessions of this one',
        remedy: 'Set SVC_AUTH_SECRET, or mount with sessions: false',
      });
  }

  /** Returns a new session of `principal`; with '', of each client that has the id. */
  begin({ dialect, logLevel, abilities }: McpSession, principal: string): HttpSession {
    const issuedSeconds = this.#nowSeconds();
    const payload = JSON.stringify([
      dialect.version,
      digest(principal),
      randomBytes(16).toString('base64url'),
      [...abilities],
    ]);
    const id = this.#values.write(NAME, payload, {
      issuedSeconds,
      expiresSeconds: issuedSeconds + this.#ttlSeconds,
    });
    return this.#keep(id, { dialect, logLevel, abilities });
  }

  /** Returns the session of this client with this id, unless it has expired or ended. */
  find(id: string, principal: string): HttpSession | undefined {
    const opened = this.#open(id);
    if (opened === undefined || (opened.owner !== digest(principal) && opened.owner !== ANONYMOUS))
      return undefined;
    return opened.session.isEnded ? undefined : opened.session;
  }

  /** Returns the session with this id, of any owner; undefined if the id is invalid or expired. */
  named(id: string): HttpSession | undefined {
    return this.#open(id)?.session;
  }

  #open(id: string): { readonly session: HttpSession; readonly owner: string } | undefined {
    const read = this.#values.read(NAME, id, this.#nowSeconds());
    if (read.kind !== 'valid') return undefined;
    const [version, owner, , abilities = []] = JSON.parse(read.payload) as readonly [
      string,
      string,
      string,
      (readonly ClientAbility[])?,
    ];
    const dialect = legacyDialect(version);
    if (dialect === undefined) return undefined;
    const kept = this.#kept.get(id);
    if (kept === undefined)
      return { owner, session: this.#keep(id, { dialect, logLevel: 'info', abilities: new Set(abilities) }) };
    return { owner, session: remember(this.#kept, MAX_KEPT, id, kept) };
  }

  #keep(id: string, state: McpSession): HttpSession {
    return remember(this.#kept, MAX_KEPT, id, { ...state, id, inFlight: new Map(), isEnded: false });
  }

  #nowSeconds(): number {
    return Math.floor(this.#services.clock.nowMs() / 1_000);
  }
}

export function endSession(session: HttpSession): void {
  for (const request of session.inFlight.values()) request.abort();
  session.inFlight.clear();
  session.isEnded = true;
}

function digest(principal: string): string {
  return createHash('sha256').update(principal).digest('base64url').slice(0, 22);
}

/** A message of a client that concerns the state of its session in a process. */
export type News =
  | { readonly kind: 'response'; readonly response: RpcResponse }
  | { readonly kind: 'cancelled'; readonly request: RequestId }
  | { readonly kind: 'log level'; readonly level: ToolLogLevel }
  | { readonly kind: 'ended' };

/** Writes news for other processes. `session` is the id of the session. */
export function writeNews(session: string, news: News): string {
  return JSON.stringify({ session, news });
}

/** Reads news of another process; undefined if another version of this package has written them. */
export function readNews(text: string): { readonly session: string; readonly news: News } | undefined {
  const value = jsonOf(text);
  return isRecord(value) && typeof value['session'] === 'string' && isRecord(value['news'])
    ? (value as unknown as { session: string; news: News })
    : undefined;
}
