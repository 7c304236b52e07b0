/**
 * The opening handshake of a WebSocket, the server's side (RFC 6455 §4.2): what a request asks for, or why it is refused.
 *
 *   GET /chat HTTP/1.1 · Host · Upgrade: websocket · Connection: Upgrade · Sec-WebSocket-Key · Sec-WebSocket-Version: 13
 *   [Origin] [Sec-WebSocket-Protocol] [Sec-WebSocket-Extensions]
 *
 *   400   what is no handshake: key, version or a list that cannot be read
 *   426   no handshake at all, or one of another version; says which there are (§4.4)
 *
 * Method, version of HTTP, Host and a body are looked at before, by the server: see {@link asksForWebSocket}.
 */
import { hash } from 'node:crypto';
import { Forbidden, HTTPException } from '../../base/errors.ts';
import { findField, isToken } from '../headers.ts';
import { AllowedOrigins, fieldOf, isOwnOrigin } from '../origins.ts';
import { CORSMiddleware } from '../middleware/cors.ts';
import { readTrustProxy } from '../request/proxy.ts';
import type { CompiledView, HttpRequest } from '../contracts.ts';
import type { Origins } from '../origins.ts';

/** What a client asks for. */
export interface Handshake {
  readonly key: string;
  /** Subprotocols in the order of the client's preference. */
  readonly protocols: readonly string[];
  /** `Sec-WebSocket-Extensions`, several joined; empty when there is none. */
  readonly extensions: string;
}

const VERSION = '13';
const NONE: readonly string[] = Object.freeze([]);
/** §1.3 */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** 16 bytes in base64. */
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/** A head, as node:http gives it. */
interface UpgradeHead {
  readonly method?: string | undefined;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly rawHeaders: readonly string[];
}

/** Whether a request would open a WebSocket: GET of HTTP/1.1 without a body (RFC 9110 §7.8 has HTTP/1.0 ignored). */
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

/** What a request asks for that {@link asksForWebSocket}. @throws HTTPException 400, 426 */
export function readHandshake(req: HttpRequest): Handshake {
  const key = fieldOf(req, 'sec-websocket-key'); // one by one: an open socket would keep the view of all
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

/** Why a request is answered at the path of a WebSocket without opening one. */
export function refusePlain({ headers }: Pick<HttpRequest, 'headers'>): HTTPException {
  if (!hasToken(headers['upgrade'] ?? '', 'websocket')) return upgradeRequired('This path opens a WebSocket');
  if (!hasToken(headers['connection'] ?? '', 'upgrade'))
    return new HTTPException(400, 'Connection does not name Upgrade');
  if (headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined)
    return new HTTPException(400, 'A handshake has no body');
  return upgradeRequired(
    'A WebSocket is opened with HTTP/1.1, and not behind another request that waits for its answer',
  ); // the Upgrade of HTTP/1.0 does not count
}

function upgradeRequired(detail: string): HTTPException {
  return new HTTPException(426, detail, {
    headers: { Upgrade: 'websocket', 'Sec-WebSocket-Version': VERSION },
  });
}

/** Tokens, each once (§4.1 item 10). @throws HTTPException 400 */
function readProtocols(field: string | undefined): readonly string[] {
  if (field === undefined) return NONE;
  const protocols = field.split(',').map((part) => part.trim());
  if (!protocols.every(isToken) || new Set(protocols).size < protocols.length)
    throw new HTTPException(400, 'Sec-WebSocket-Protocol is not a list of tokens, each once');
  return protocols;
}

/** Whether a list of tokens has this one, given in lower case. */
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
 * Whose pages may open a WebSocket. Browsers send an origin with each handshake, cookies too, and read what comes: nothing else
 * keeps other sites out (RFC 6455 §10.2, "cross-site WebSocket hijacking").
 */

/** Looks at the origin of handshakes. */
export class OriginGuard {
  readonly #allowed: AllowedOrigins | undefined;
  readonly #allowsAbsent: boolean;
  /** Those that CORS lets in with their cookies. */
  #others: AllowedOrigins | undefined;
  #knowsScheme = false;

  /** Without `origins`: those of the application itself, and those that its CORSMiddleware lets in with credentials. @throws SvcError `E_CORS` */
  constructor(origins: Origins | undefined, allowsAbsent: boolean) {
    if (origins !== undefined) this.#allowed = new AllowedOrigins(origins);
    this.#allowsAbsent = allowsAbsent;
  }

  /** Whether every page may open one. */
  get isOpen(): boolean {
    return this.#allowed?.isAny === true;
  }

  /** An origin of no known site that its function allows, if there is one. */
  get stranger(): string | undefined {
    return this.#allowed?.strangerAmong();
  }

  /** Waits for what an asynchronous function says of strangers. */
  async settle(text: string, limitMs: number): Promise<void> {
    await this.#allowed?.settle(text, limitMs);
  }

  /** What it needs to know of the application. */
  compile(view: CompiledView): void {
    this.#knowsScheme = readTrustProxy(view.config('trustProxy')) !== undefined;
    if (this.#allowed !== undefined) return;
    const cors = view.middleware.find((layer) => layer instanceof CORSMiddleware);
    if (cors?.allowsCredentials === true) this.#others = cors.allowed;
  }

  /** A promise where somebody has to be asked, undefined where not. @throws Forbidden for another origin, and for none, which only clients send that are no browsers */
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
