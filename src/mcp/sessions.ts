/**
 * Sessions of legacy clients over HTTP. The id holds what the session is, sealed: the server keeps nothing that a flood of them could
 * fill, and with `authSecret` every process of the application reads it. It gives no rights; those are in the fields of each request.
 *
 *   Mcp-Session-Id: e1.key.issued.expires.box        box = version, whose it is, and 16 random bytes
 *
 * In memory is only what belongs to a process: requests that run, the log level, and which sessions have been ended.
 */
import { createHash, randomBytes } from 'node:crypto';
import { Keyring, authSecrets } from '../crypto/keys.ts';
import { legacyDialect } from './messages.ts';
import { ProtectedValues } from '../http/session/cookie.ts';
import type { Dialect, RequestId } from './messages.ts';
import type { McpSession } from './server.ts';
import type { Services } from '../http/contracts.ts';

/** A session as this process knows it. */
export interface HttpSession extends McpSession {
  readonly id: string;
  /** Requests that are not answered yet, and how to end them. */
  readonly inFlight: Map<RequestId, AbortController>;
}

/** What is kept of a session that somebody uses. */
interface Kept {
  readonly session: HttpSession;
  isEnded: boolean;
}

const NAME = 'mcp';
/** Sessions in memory, those that were used last. Of others it is forgotten which log level they had, and that they were ended: they gave no rights. */
const MAX_KEPT = 10_000;
const ANONYMOUS = digest('');

/** The sessions of one endpoint. */
export class McpSessions {
  readonly #services: Services;
  readonly #ttlSeconds: number;
  readonly #values: ProtectedValues;
  readonly #kept = new Map<string, Kept>();

  constructor(services: Services, ttlSeconds: number) {
    this.#services = services;
    this.#ttlSeconds = ttlSeconds;
    const hasSecret = services.config.get('authSecret', null) !== null;
    this.#values = new ProtectedValues(
      Keyring.of(hasSecret ? authSecrets(services.config) : randomBytes(32).toString('hex')),
      'mcp session',
      'sealed',
    );
  }

  /** A new session of whoever `principal` is; one of nobody, '', is of whoever has its id: its client may log in later on. */
  begin({ dialect, logLevel }: McpSession, principal: string): HttpSession {
    const issuedSeconds = this.#nowSeconds();
    const payload = JSON.stringify([
      dialect.version,
      digest(principal),
      randomBytes(16).toString('base64url'),
    ]);
    const id = this.#values.write(NAME, payload, {
      issuedSeconds,
      expiresSeconds: issuedSeconds + this.#ttlSeconds,
    });
    return this.#keep(id, dialect, logLevel).session;
  }

  /** The session of an id; undefined when it is none, has expired or been ended, or is somebody else's. */
  find(id: string, principal: string): HttpSession | undefined {
    const read = this.#values.read(NAME, id, this.#nowSeconds());
    if (read.kind !== 'valid') return undefined;
    const [version, owner] = JSON.parse(read.payload) as readonly [string, string]; // written above
    const dialect = legacyDialect(version);
    if (dialect === undefined || (owner !== digest(principal) && owner !== ANONYMOUS)) return undefined;
    const kept = this.#kept.get(id);
    if (kept === undefined) return this.#keep(id, dialect, 'info').session;
    this.#kept.delete(id); // and goes to the end of the line
    this.#kept.set(id, kept);
    return kept.isEnded ? undefined : kept.session;
  }

  /** Ends a session and what runs in it. */
  end({ id, inFlight }: HttpSession): void {
    for (const request of inFlight.values()) request.abort();
    inFlight.clear();
    const kept = this.#kept.get(id);
    if (kept !== undefined) kept.isEnded = true;
  }

  #keep(id: string, dialect: Dialect, logLevel: McpSession['logLevel']): Kept {
    const kept: Kept = { session: { id, dialect, logLevel, inFlight: new Map() }, isEnded: false };
    this.#kept.set(id, kept);
    if (this.#kept.size > MAX_KEPT) this.#kept.delete(this.#kept.keys().next().value!); // it is full, so there is one
    return kept;
  }

  #nowSeconds(): number {
    return Math.floor(this.#services.clock.nowMs() / 1_000);
  }
}

function digest(principal: string): string {
  return createHash('sha256').update(principal).digest('base64url').slice(0, 22);
}
