/**
 * Checks the head of a request, in addition to the parser of node:http. The check allocates no memory for a
 * valid head.
 *
 * The parser refuses malformed lines, control characters and contradictory lengths. This file checks the
 * version, the target, Host, Transfer-Encoding, Expect, fields that must not repeat, and the number of
 * fields.
 *
 * An ambiguous head is refused and not repaired, because a proxy may have read it differently.
 */
import { parseAddress } from '../request/proxy.ts';
import { findField, isNamed } from '../headers.ts';

/** Head of a request, with the property names of IncomingMessage in node:http. */
interface RequestHead {
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** Alternating names and values, as received. */
  readonly rawHeaders: readonly string[];
}

/**
 * Refusal of a request. With the status 0, the request is handled, but as the last one of its connection.
 * After an invalid head, the connection also ends, because the server cannot know where the next request
 * begins.
 */
export interface HeadVerdict {
  /**
   * Status of the response that the server itself sends, 400 ... 505; 0 if the application handles the
   * request.
   */
  readonly status: number;
  readonly detail: string;
}

const refusal = (status: number, detail: string): HeadVerdict => Object.freeze({ status, detail });

/**
 * Verdict for a request that asks for an unsupported protocol. The request is handled in HTTP (RFC 9110
 * §7.8), as the last request of its connection, because node:http reads nothing after it.
 */
const UPGRADE = refusal(0, '');
const VERSION = refusal(505, 'The protocol must be HTTP/1.1 or HTTP/1.0');
const FIELDS = refusal(431, 'The request has too many header fields');
const FRAGMENT = refusal(400, 'A request target must not have a fragment');
const TARGET = refusal(400, 'The request target is neither a path nor an http or https URL');
const AUTHORITY = refusal(400, 'The request target must contain a valid host, optionally followed by a port');
const HOST_ABSENT = refusal(400, 'A request must have exactly one Host field');
const HOST = refusal(400, 'The Host field must be a valid host, optionally followed by a port');
const CODING = refusal(501, 'The only supported transfer coding is chunked');
const CODING_LAST = refusal(400, 'The last transfer coding must be chunked');
const CODING_EARLY = refusal(400, 'An HTTP/1.0 request must not have Transfer-Encoding');
const PROTO = refusal(400, 'A header field must not be named __proto__');
const TWICE = refusal(400, 'A header field that may occur only once is repeated');
// the connection ends after a 417, because the server cannot know whether the body follows
const EXPECTATION = refusal(417, 'The only supported value of the header field Expect is 100-continue');

/**
 * One bit for each field that must not repeat (RFC 9110 §5.3), because two programs could use different
 * values. `upgrade` may repeat; its bit only shows that the field is present.
 */
const SEEN = {
  host: 1,
  range: 2,
  origin: 4,
  ifRange: 8,
  contentType: 16,
  authorization: 32,
  upgrade: 64,
} as const;

/** Checks a head. Returns undefined if it is valid. More than `maxFields` header fields lead to 431. */
export function judgeHead(head: RequestHead, maxFields: number): HeadVerdict | undefined {
  const { rawHeaders, httpVersionMinor } = head;
  if (head.httpVersionMajor !== 1) return VERSION; // the parser of node:http also accepts 0.9 and 2.0
  if (rawHeaders.length > 2 * maxFields) return FIELDS;
  let refused = judgeTarget(head.method, head.url ?? '');
  let seen = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    const value = rawHeaders[index + 1]!;
    let bit = 0;
    switch (
      name.length // most field names are excluded by their length, without a comparison
    ) {
      case 4:
        if (name === 'Host' || isNamed(name, 'host')) {
          // nearly all clients write `Host`, so this spelling is compared first
          bit = SEEN.host;
          if (value !== lastHost) {
            if (isHost(value)) lastHost = value;
            else refused ??= HOST;
          }
        }
        break;
      case 5:
        if (isNamed(name, 'range')) bit = SEEN.range;
        break;
      case 6:
        if (isNamed(name, 'origin')) bit = SEEN.origin;
        else if (httpVersionMinor > 0 && isNamed(name, 'expect') && !isNamed(value, '100-continue'))
          refused ??= EXPECTATION; // in HTTP/1.0, Expect is ignored (RFC 9110 §10.1.1)
        break;
      case 7:
        if (isNamed(name, 'upgrade')) seen |= SEEN.upgrade;
        break;
      case 8:
        if (isNamed(name, 'if-range')) bit = SEEN.ifRange;
        break;
      case 9:
        // refused: in code that copies header fields to an object, a field `__proto__` would set the
        // prototype
        if (isNamed(name, '__proto__')) refused ??= PROTO;
        break;
      case 12:
        if (name === 'Content-Type' || isNamed(name, 'content-type')) bit = SEEN.contentType;
        break;
      case 13:
        if (isNamed(name, 'authorization')) bit = SEEN.authorization;
        break;
      case 17:
        if (isNamed(name, 'transfer-encoding')) refused ??= judgeCoding(value, httpVersionMinor);
    }
    if ((seen & bit) !== 0) refused ??= bit === SEEN.host ? HOST_ABSENT : TWICE;
    seen |= bit;
  }
  // HTTP/1.1 requires the Host field (RFC 9112 §3.2)
  if ((seen & SEEN.host) === 0 && httpVersionMinor > 0) refused ??= HOST_ABSENT;
  return refused ?? ((seen & SEEN.upgrade) === 0 ? undefined : UPGRADE);
}

/**
 * Checks the form of a request target (RFC 9112 §3.2). The authority-form is not accepted, because only
 * CONNECT uses it.
 */
function judgeTarget(method: string | undefined, target: string): HeadVerdict | undefined {
  if (target.includes('#')) return FRAGMENT;
  if (target.charCodeAt(0) === SLASH) return undefined;
  if (target === '*') return method === 'OPTIONS' ? undefined : TARGET;
  const authority = /^https?:\/\/([^/?]*)/i.exec(target)?.[1];
  if (authority === undefined) return TARGET;
  // isHost() also refuses a user name, which is not allowed in the target (RFC 9110 §4.2.4)
  return authority !== '' && isHost(authority) ? undefined : AUTHORITY;
}

/**
 * Checks `Transfer-Encoding`. If chunked is not the last coding, the end of the body is unknown, which leads
 * to 400. Any other coding leads to 501 (RFC 9112 §6.1, §6.3).
 */
function judgeCoding(value: string, httpVersionMinor: number): HeadVerdict | undefined {
  if (httpVersionMinor === 0) return CODING_EARLY;
  if (isNamed(value, 'chunked')) return undefined;
  return /[ \t,]chunked$/i.test(value) ? CODING : CODING_LAST;
}

const SLASH = 0x2f;
const MAX_PORT = 65_535;
/**
 * Syntax of a host: `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2). The sub-delims of RFC 3986 are
 * not accepted: no host name contains them, and a comma could separate two hosts.
 */
const HOST_AND_PORT = /^(?:[\w.~-]+|\[([\da-f:.]+)\])(?::(\d*))?$/i;

/** Last valid value of a Host field. Most requests have the same value, which then needs no further check. */
let lastHost = '';

/** Returns whether a text is a host, optionally followed by a port. The empty text is also accepted. */
function isHost(text: string): boolean {
  const match = HOST_AND_PORT.exec(text);
  if (match === null) return text === '';
  const [, address, port] = match;
  if (address !== undefined && (!address.includes(':') || parseAddress(address) === undefined)) return false;
  return port === undefined || Number(port) <= MAX_PORT;
}

/** Returns whether the client wants to keep the connection open (RFC 9112 §9.3). */
export function keepsConnection({ rawHeaders, httpVersionMinor }: RequestHead): boolean {
  const options =
    findField(rawHeaders, 'connection')
      ?.toLowerCase()
      .split(/[\s,]+/) ?? [];
  return httpVersionMinor === 0 ? options.includes('keep-alive') : !options.includes('close');
}
