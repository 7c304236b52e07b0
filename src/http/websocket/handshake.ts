/**
 * Server side of the WebSocket opening handshake (RFC 6455 §4.2): parses a request, or refuses it.
 *
 * A handshake with a malformed key, version or list of subprotocols gets 400. A handshake without Upgrade, or
 * for another version of the protocol, gets 426 with the supported version (RFC 6455 §4.4).
 *
 * Before a handshake is parsed, the server has checked its method, HTTP version and `Host`, and that it has
 * no body: see {@link asksForWebSocket}.
 */
import { hash } from 'node:crypto';
import { Forbidden, HTTPException } from '../../base/errors.ts';
import { bool, int, readOptions } from '../../base/options.ts';
import { findField, isToken } from '../headers.ts';
import { AllowedOrigins, isOwnOrigin } from '../origins.ts';
import { fieldOf } from '../response.ts';
import { CORSMiddleware } from '../middleware/cors.ts';
import { readTrustProxy } from '../request/proxy.ts';
import type { CompiledView, HttpRequest } from '../contracts.ts';
import type { Origins } from '../origins.ts';

/** Parameters of a parsed handshake. */
export interface Handshake {
  readonly key: string;
  /** Subprotocols in the client's order of preference. */
  readonly protocols: readonly string[];
  /** Value of `Sec-WebSocket-Extensions`. Several fields are joined. Empty if there is none. */
  readonly extensions: string;
}

const VERSION = '13';
const NONE: readonly string[] = Object.freeze([]);
/** Constant in the computation of `Sec-WebSocket-Accept` (RFC 6455 §1.3). */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** Syntax of `Sec-WebSocket-Key`: 16 bytes in base64. */
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/** Members of a request, named as in IncomingMessage of node:http. */
interface UpgradeHead {
  readonly method?: string | undefined;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly rawHeaders: readonly string[];
}

/**
 * Whether a request asks for a WebSocket: GET with `Upgrade: websocket` and without a body, in HTTP/1.1.
 * HTTP/1.0 has no `Upgrade` (RFC 9110 §7.8).
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

/** Parses the handshake of a request that {@link asksForWebSocket} has accepted. */
export function readHandshake(req: HttpRequest): Handshake {
  // does not use req.headers, because that object would stay in memory as long as the socket is open
  const key = fieldOf(req, 'sec-websocket-key');
  const version = fieldOf(req, 'sec-websocket-version');
  if (key === undefined || !KEY.test(key))
    throw new HTTPException(400, 'The header field Sec-WebSocket-Key must contain 16 bytes in base64');
  if (version === undefined || !/^\d{1,3}$/.test(version))
    throw new HTTPException(400, 'The header field Sec-WebSocket-Version must be a number');
  if (version !== VERSION) throw upgradeRequired(`The version of the WebSocket protocol is ${VERSION}`);
  return {
    key,
    protocols: readProtocols(fieldOf(req, 'sec-websocket-protocol')),
    extensions: fieldOf(req, 'sec-websocket-extensions') ?? '',
  };
}

/** Returns the error for a request to a WebSocket's path that {@link asksForWebSocket} has not accepted. */
export function refusePlain({ headers }: Pick<HttpRequest, 'headers'>): HTTPException {
  if (!hasToken(headers['upgrade'] ?? '', 'websocket')) return upgradeRequired('This path opens a WebSocket');
  if (!hasToken(headers['connection'] ?? '', 'upgrade'))
    return new HTTPException(400, 'A WebSocket handshake needs the header field Connection: Upgrade');
  if (headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined)
    return new HTTPException(400, 'A WebSocket handshake must not have a body');
  return upgradeRequired(
    'A WebSocket handshake needs HTTP/1.1, and a connection on which no earlier request waits for its response',
  );
}

function upgradeRequired(detail: string): HTTPException {
  return new HTTPException(426, detail, {
    headers: { Upgrade: 'websocket', 'Sec-WebSocket-Version': VERSION },
  });
}

/** Parses `Sec-WebSocket-Protocol`: a list of different tokens (RFC 6455 §4.1 item 10). */
function readProtocols(field: string | undefined): readonly string[] {
  if (field === undefined) return NONE;
  const protocols = field.split(',').map((part) => part.trim());
  if (!protocols.every(isToken) || new Set(protocols).size < protocols.length)
    throw new HTTPException(
      400,
      'The header field Sec-WebSocket-Protocol must be a list of protocol names without repetition',
    );
  return protocols;
}

/** Whether a list of tokens contains `token`, which is in lower case. */
function hasToken(list: string, token: string): boolean {
  return (
    list === token ||
    list
      .toLowerCase()
      .split(',')
      .some((part) => part.trim() === token)
  );
}

/** Returns the value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455 §4.2.2 item 5.4). */
export function acceptKey(key: string): string {
  return hash('sha1', key + GUID, 'base64');
}

/**
 * Checks the `Origin` of handshakes. Without this check, pages of every site could open a WebSocket with the
 * cookies of the user (RFC 6455 §10.2).
 */
export class OriginGuard {
  readonly allowed: AllowedOrigins | undefined;
  readonly #allowsAbsent: boolean;
  /** Origins that CORSMiddleware allows to send credentials. Used only without the option `origins`. */
  #others: AllowedOrigins | undefined;
  #knowsScheme = false;

  /**
   * The application's own origin is always allowed. If `origins` is undefined, the origins that
   * CORSMiddleware allows to send credentials are allowed, too. `allowsAbsent`: whether handshakes without
   * `Origin` are accepted.
   */
  constructor(origins: Origins | undefined, allowsAbsent: boolean) {
    if (origins !== undefined) this.allowed = new AllowedOrigins(origins);
    this.#allowsAbsent = allowsAbsent;
  }

  /** Reads the setting `trustProxy` and, without the option `origins`, the origins of CORSMiddleware. */
  compile(view: CompiledView): void {
    this.#knowsScheme = readTrustProxy(view.config('trustProxy')) !== undefined;
    if (this.allowed !== undefined) return;
    const cors = view.middleware.find((layer) => layer instanceof CORSMiddleware);
    if (cors?.allowsCredentials === true) this.#others = cors.allowed;
  }

  /** Checks the origin of a handshake. Returns undefined if it is allowed at once, else a promise. */
  assertAdmitted(req: HttpRequest): Promise<void> | undefined {
    if (this.allowed?.isAny) return undefined;
    const origin = fieldOf(req, 'origin');
    if (origin === undefined) {
      if (!this.#allowsAbsent) throw new Forbidden('A WebSocket handshake needs the header field Origin');
      return undefined;
    }
    return isOwnOrigin(origin, req, this.#knowsScheme) ? undefined : this.#assertAllowed(origin, req);
  }

  async #assertAllowed(origin: string, req: HttpRequest): Promise<void> {
    const allowed = this.allowed ?? this.#others;
    if (allowed === undefined || !(await allowed.allows(origin, req)))
      throw new Forbidden('Pages of this origin may not open a WebSocket of this application');
  }
}

/** Options of the compression of messages. An option that is `undefined` has its default. */
export interface WebSocketCompression {
  /** Compression level, 1 (fast) ... 9 (small). Default 3. */
  readonly level?: number | undefined;
  /** Minimum size in bytes of a message that is compressed, 1 ... 1_073_741_824. Default 1_024. */
  readonly thresholdBytes?: number | undefined;
  /**
   * Whether a message may refer to earlier ones (context takeover). Messages are then smaller, but a
   * connection takes up to 64 KiB more memory. Do not use it if messages contain both secrets and text of
   * other users: the size of a message could then reveal a secret. Default false.
   */
  readonly contextTakeover?: boolean | undefined;
  /**
   * Size of the window as a power of two, 9 (512 bytes) ... 15 (32 KiB): how far back a message may refer to
   * earlier bytes. Default 15.
   */
  readonly windowBits?: number | undefined;
}

/** Options of the compression, with defaults for missing ones. */
export type ResolvedCompressionOptions = {
  readonly [K in keyof Required<WebSocketCompression>]: NonNullable<WebSocketCompression[K]>;
};

/** Returns the checked options with their defaults. */
export function readCompression(owner: string, options: WebSocketCompression): ResolvedCompressionOptions {
  return readOptions(owner, options, {
    level: int(3, 1, 9),
    thresholdBytes: int(1_024, 1, 2 ** 30),
    contextTakeover: bool(false),
    windowBits: int(15, LEAST_BITS, MOST_BITS),
  });
}

/** Parameters of permessage-deflate on which client and server have agreed. */
export interface DeflateAgreement {
  /** Size of the window for messages of the server, as a power of two. */
  readonly serverBits: number;
  /** Whether a message of the server may refer to earlier ones. */
  readonly serverTakesOver: boolean;
  /** Size of the window for messages of the client, as a power of two. */
  readonly clientBits: number;
  /** Whether a message of the client may refer to earlier ones. */
  readonly clientTakesOver: boolean;
  /** Value of `Sec-WebSocket-Extensions` in the response. */
  readonly field: string;
}

const NAME = 'permessage-deflate';
/**
 * Smallest window as a power of two. The RFC also allows 8, but zlib supports no raw window of 256 bytes, so
 * offers that require it are skipped.
 */
export const LEAST_BITS = 9;
const MOST_BITS = 15;

/**
 * Returns the parameters of the first valid offer; undefined if there is none. An offer with an unknown,
 * repeated or out-of-range parameter is skipped (RFC 7692 §7). Returns `malformed` if the field is not a
 * valid list of extensions (RFC 6455 §9.1).
 */
export function negotiateDeflate(
  field: string,
  options: ResolvedCompressionOptions,
): DeflateAgreement | undefined | 'malformed' {
  const offers = parseExtensions(field);
  if (offers === undefined) return 'malformed';
  for (const { name, parameters } of offers) {
    const agreement = name === NAME ? accept(parameters, options) : undefined;
    if (agreement !== undefined) return agreement;
  }
  return undefined;
}

type Parameters = readonly (readonly [name: string, value: string | undefined])[];

function accept(parameters: Parameters, options: ResolvedCompressionOptions): DeflateAgreement | undefined {
  let serverBits = options.windowBits;
  let clientBits = MOST_BITS;
  let serverTakesOver = options.contextTakeover,
    clientTakesOver = options.contextTakeover;
  const seen = new Set<string>();
  for (const [name, value] of parameters) {
    if (seen.has(name)) return undefined;
    seen.add(name);
    if (name === 'server_no_context_takeover' && value === undefined) serverTakesOver = false;
    else if (name === 'client_no_context_takeover' && value === undefined) clientTakesOver = false;
    else if (name === 'server_max_window_bits' && isBits(value) && Number(value) >= LEAST_BITS)
      serverBits = Math.min(serverBits, Number(value));
    else if (name === 'client_max_window_bits' && (value === undefined || isBits(value)))
      clientBits = Math.min(options.windowBits, Number(value ?? MOST_BITS));
    else return undefined;
  }
  const field = [
    NAME,
    ...(serverTakesOver ? [] : ['server_no_context_takeover']),
    ...(clientTakesOver ? [] : ['client_no_context_takeover']),
    ...(serverBits < MOST_BITS || seen.has('server_max_window_bits')
      ? [`server_max_window_bits=${serverBits}`]
      : []),
    // allowed only if the client has offered it (RFC 7692 §7.1.2.2); if not, `clientBits` is MOST_BITS
    ...(clientBits < MOST_BITS ? [`client_max_window_bits=${clientBits}`] : []),
  ].join('; ');
  return { serverBits, serverTakesOver, clientBits, clientTakesOver, field };
}

/** Whether a parameter is a window size: 8 ... 15 without a leading zero (RFC 7692 §7.1.2). */
function isBits(value: string | undefined): boolean {
  return value !== undefined && /^(?:[89]|1[0-5])$/.test(value);
}

interface Extension {
  readonly name: string;
  readonly parameters: Parameters;
}

const PARAMETER = /[ \t]*;[ \t]*([^\s;,="]+)[ \t]*(?:=[ \t]*(?:([^\s;,="]+)|"((?:[^"\\]|\\.)*)"))?/y;
const EXTENSION = /[ \t]*([^\s;,="]+)/y;
const END = /[ \t]*(?:,|$)/y;

/**
 * Parses the field `Sec-WebSocket-Extensions` (RFC 6455 §9.1). Returns undefined if it is invalid. Empty
 * members are skipped (RFC 9110 §5.6.1).
 */
export function parseExtensions(field: string): readonly Extension[] | undefined {
  const extensions: Extension[] = [];
  let at = 0;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(field);
    if (found !== null) at = pattern.lastIndex;
    return found;
  };
  while (at < field.length) {
    if (match(END) !== null) continue;
    const name = match(EXTENSION)?.[1];
    if (name === undefined || !isToken(name)) return undefined;
    const parameters: [string, string | undefined][] = [];
    for (let found = match(PARAMETER); found !== null; found = match(PARAMETER)) {
      const value = found[2] ?? found[3]?.replace(/\\(.)/g, '$1');
      // the grammar of RFC 6455 requires a token even within quotation marks
      if (!isToken(found[1]!) || (value !== undefined && !isToken(value))) return undefined;
      parameters.push([found[1]!, value]);
    }
    if (match(END) === null) return undefined;
    extensions.push({ name, parameters });
  }
  return extensions;
}
