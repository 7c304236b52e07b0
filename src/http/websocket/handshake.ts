/**
 * Server side of the WebSocket opening handshake (RFC 6455 §4.2): parses a request, or refuses it.
 *
 * A request has these parts:
 *
 *   GET /chat HTTP/1.1 · Host · Upgrade: websocket · Connection: Upgrade · Sec-WebSocket-Key · Sec-WebSocket-Version: 13
 *   [Origin] [Sec-WebSocket-Protocol] [Sec-WebSocket-Extensions]
 *
 * Refusals:
 *
 *   400   malformed: key, version or a list
 *   426   not a handshake, or another version; the response names the supported one (§4.4)
 *
 * The server has checked method, HTTP version, Host and body before: see {@link asksForWebSocket}.
 */
import { hash } from 'node:crypto';
import { Forbidden, HTTPException } from '../../base/errors.ts';
import { findField, isToken } from '../headers.ts';
import { AllowedOrigins, fieldOf, isOwnOrigin } from '../origins.ts';
import { CORSMiddleware } from '../middleware/cors.ts';
import { readTrustProxy } from '../request/proxy.ts';
import type { CompiledView, HttpRequest } from '../contracts.ts';
import type { Origins } from '../origins.ts';

/** Parsed parameters of a handshake. */
export interface Handshake {
  readonly key: string;
  /** Subprotocols in the order of the client's preference. */
  readonly protocols: readonly string[];
  /** Value of `Sec-WebSocket-Extensions`, repeated fields joined; empty if absent. */
  readonly extensions: string;
}

const VERSION = '13';
const NONE: readonly string[] = Object.freeze([]);
/** constant of the protocol (§1.3) */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** Syntax of `Sec-WebSocket-Key`: 16 bytes in base64. */
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/** Head of a request, with the names of node:http. */
interface UpgradeHead {
  readonly method?: string | undefined;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly rawHeaders: readonly string[];
}

/**
 * Whether a request asks for a WebSocket: GET in HTTP/1.1 without a body (in HTTP/1.0, Upgrade is ignored:
 * RFC 9110 §7.8).
 */
export function asksForWebSocket({
  method,
  httpVersionMajor,
  httpVersionMinor,
  rawHeaders,
}: UpgradeHead): boolean {
  if (method !== 'GET' || httpVersionMajor !== 1 || httpVersionMinor < 1) return false;
  if (
    findField(rawHeaders, 'transfer-encoding') !== undefined ||
    (findField(rawHeaders, 'content-length') ?? '0') !== '0'
  )
    return false;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (
      name.length === 7 &&
      name.toLowerCase() === 'upgrade' &&
      hasToken(rawHeaders[index + 1]!, 'websocket')
    )
      return true;
  }
  return false;
}

/**
 * Parses the handshake of a request that {@link asksForWebSocket} has accepted.
 * @throws HTTPException 400, 426
 */
export function readHandshake(req: HttpRequest): Handshake {
  // reads single fields: `headers` would stay in memory with the open socket
  const key = fieldOf(req, 'sec-websocket-key');
  const version = fieldOf(req, 'sec-websocket-version');
  if (key === undefined || !KEY.test(key))
    throw new HTTPException(400, 'Sec-WebSocket-Key is not 16 bytes in base64');
  if (version === undefined || !/^\d{1,3}$/.test(version))
    throw new HTTPException(400, 'Sec-WebSocket-Version is not a number');
  if (version !== VERSION) throw upgradeRequired(`The version of the WebSocket protocol is ${VERSION}`);
  return {
    key,
    protocols: readProtocols(fieldOf(req, 'sec-websocket-protocol')),
    extensions: fieldOf(req, 'sec-websocket-extensions') ?? '',
  };
}

/** The error for an ordinary request at the path of a WebSocket. */
export function refusePlain({ headers }: Pick<HttpRequest, 'headers'>): HTTPException {
  if (!hasToken(headers['upgrade'] ?? '', 'websocket')) return upgradeRequired('This path opens a WebSocket');
  if (!hasToken(headers['connection'] ?? '', 'upgrade'))
    return new HTTPException(400, 'Connection does not name Upgrade');
  if (headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined)
    return new HTTPException(400, 'A handshake has no body');
  return upgradeRequired(
    'A WebSocket is opened with HTTP/1.1, and not behind another request that waits for its answer',
  ); // HTTP/1.0 has no Upgrade
}

function upgradeRequired(detail: string): HTTPException {
  return new HTTPException(426, detail, {
    headers: { Upgrade: 'websocket', 'Sec-WebSocket-Version': VERSION },
  });
}

/** Parses a list of tokens without duplicates (§4.1 item 10). @throws HTTPException 400 */
function readProtocols(field: string | undefined): readonly string[] {
  if (field === undefined) return NONE;
  const protocols = field.split(',').map((part) => part.trim());
  if (!protocols.every(isToken) || new Set(protocols).size < protocols.length)
    throw new HTTPException(400, 'Sec-WebSocket-Protocol is not a list of tokens, each once');
  return protocols;
}

/** Whether a list of tokens contains `token`, given in lower case. */
function hasToken(list: string, token: string): boolean {
  return (
    list === token ||
    list
      .toLowerCase()
      .split(',')
      .some((part) => part.trim() === token)
  );
}

/** The value of `Sec-WebSocket-Accept` for a key (§4.2.2 item 5.4). */
export function acceptKey(key: string): string {
  return hash('sha1', key + GUID, 'base64');
}

/*
 * Origins that may open a WebSocket. Browsers send an origin and cookies with each handshake, and let pages
 * read the messages. So only this check keeps other sites out (RFC 6455 §10.2, "cross-site WebSocket
 * hijacking").
 */

/** Checks the origin of handshakes. */
export class OriginGuard {
  readonly #allowed: AllowedOrigins | undefined;
  readonly #allowsAbsent: boolean;
  /** Origins that the CORS middleware allows with credentials. */
  #others: AllowedOrigins | undefined;
  #knowsScheme = false;

  /**
   * Without `origins`, the application's own origin is allowed, and those that its CORSMiddleware allows with
   * credentials. `allowsAbsent`: accepts requests without an origin.
   * @throws SvcError `E_CORS`
   */
  constructor(origins: Origins | undefined, allowsAbsent: boolean) {
    if (origins !== undefined) this.#allowed = new AllowedOrigins(origins);
    this.#allowsAbsent = allowsAbsent;
  }

  /** Whether every page may open a WebSocket. */
  get isOpen(): boolean {
    return this.#allowed?.isAny === true;
  }

  /** An unknown origin that the function allows, if there is one: a sign that it is too weak. */
  get stranger(): string | undefined {
    return this.#allowed?.strangerAmong();
  }

  /** Waits, up to `limitMs`, for the results of an asynchronous function for unknown origins. */
  async settle(text: string, limitMs: number): Promise<void> {
    await this.#allowed?.settle(text, limitMs);
  }

  /** Takes settings and middleware from the application. */
  compile(view: CompiledView): void {
    this.#knowsScheme = readTrustProxy(view.config('trustProxy')) !== undefined;
    if (this.#allowed !== undefined) return;
    const cors = view.middleware.find((layer) => layer instanceof CORSMiddleware);
    if (cors?.allowsCredentials === true) this.#others = cors.allowed;
  }

  /**
   * Checks the origin of a request. Returns a promise if a function decides asynchronously.
   * @throws Forbidden for another origin, and for a missing one, as of clients that are not browsers
   */
  assertAdmitted(req: HttpRequest): Promise<void> | undefined {
    if (this.isOpen) return undefined;
    const origin = fieldOf(req, 'origin');
    if (origin === undefined) {
      if (!this.#allowsAbsent) throw new Forbidden('A WebSocket is opened with an Origin');
      return undefined;
    }
    return isOwnOrigin(origin, req, this.#knowsScheme) ? undefined : this.#assertAllowed(origin, req);
  }

  async #assertAllowed(origin: string, req: HttpRequest): Promise<void> {
    const allowed = this.#allowed ?? this.#others;
    if (allowed === undefined || !(await allowed.allows(origin, req)))
      throw new Forbidden('This origin may not open a WebSocket here');
  }
}
