/**
 * What a request's head may not be, where node:http's parser lets it through: one pass, which allocates nothing for a good one.
 *
 *   parser (400, 431)   bare LF, obs-fold, "X :", two lengths, a length beside Transfer-Encoding, control characters
 *   here                versions, targets, Host, Transfer-Encoding, Expect, fields that count once, the number of fields
 *
 * What two readers could understand in two ways is refused, not mended: one of the two may be the proxy in front.
 */
import { parseAddress } from '../request/proxy.ts';
import { findField, isNamed } from '../headers.ts';

/** The parts of a head, as node:http's IncomingMessage has them. */
interface RequestHead {
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** Name and value in turn, as they came. */
  readonly rawHeaders: readonly string[];
}

/** What is special about a head. Whatever it is, the connection ends with the answer: what follows cannot be relied upon. */
export interface HeadVerdict {
  /** 400 ... 505, answered in place of the application; 0 where the application answers. */
  readonly status: number;
  readonly detail: string;
}

const refusal = (status: number, detail: string): HeadVerdict => Object.freeze({ status, detail });

/** Another protocol is named, and nobody here speaks it: answered as it stands (RFC 9110 §7.8). node:http reads nothing behind it. */
const UPGRADE = refusal(0, '');
const VERSION = refusal(505, 'The protocol is HTTP/1.1 or HTTP/1.0');
const FIELDS = refusal(431, 'The request has too many header fields');
const FRAGMENT = refusal(400, 'A request target has no fragment');
const TARGET = refusal(400, 'The request target is neither a path nor an http or https URL');
const AUTHORITY = refusal(400, 'The request target does not name a host, with or without a port');
const HOST_ABSENT = refusal(400, 'A request has one Host field');
const HOST = refusal(400, 'Host is not a host, with or without a port');
const CODING = refusal(501, 'No transfer coding but chunked is understood');
const CODING_LAST = refusal(400, 'The last transfer coding is not chunked');
const CODING_EARLY = refusal(400, 'HTTP/1.0 has no Transfer-Encoding');
const PROTO = refusal(400, 'A field must not be called __proto__');
const TWICE = refusal(400, 'A field that counts once came twice');
const EXPECTATION = refusal(417, 'Nothing but 100-continue can be expected'); // and nobody knows whether the body will come

/** One bit for each field that decides something and is defined once (RFC 9110 §5.3): of two, one reader may take the first, another the last. `upgrade` may come often. */
const SEEN = {
  host: 1,
  range: 2,
  origin: 4,
  ifRange: 8,
  contentType: 16,
  authorization: 32,
  upgrade: 64,
} as const;

/** What is special about a head; undefined, for nearly all, means nothing. `maxFields`: beyond it 431. */
export function judgeHead(head: RequestHead, maxFields: number): HeadVerdict | undefined {
  const { rawHeaders, httpVersionMinor } = head;
  if (head.httpVersionMajor !== 1) return VERSION; // 0.9 and 2.0 pass the parser
  if (rawHeaders.length > 2 * maxFields) return FIELDS;
  let refused = judgeTarget(head.method, head.url ?? '');
  let seen = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    const value = rawHeaders[index + 1]!;
    let bit = 0;
    switch (
      name.length // few other fields have one of these lengths, so few names are compared
    ) {
      case 4:
        if (name === 'Host' || isNamed(name, 'host')) {
          // as nearly all write it: no copy in lower case
          bit = SEEN.host;
          if (value !== lastHost && !isNewHost(value)) refused ??= HOST;
        }
        break;
      case 5:
        if (isNamed(name, 'range')) bit = SEEN.range;
        break;
      case 6:
        if (isNamed(name, 'origin')) bit = SEEN.origin;
        else if (httpVersionMinor > 0 && isNamed(name, 'expect') && !isNamed(value, '100-continue'))
          refused ??= EXPECTATION; // 1.0: ignored, RFC 9110 §10.1.1
        break;
      case 7:
        if (isNamed(name, 'upgrade')) seen |= SEEN.upgrade;
        break;
      case 8:
        if (isNamed(name, 'if-range')) bit = SEEN.ifRange;
        break;
      case 9:
        if (isNamed(name, '__proto__')) refused ??= PROTO; // whoever copies the fields into an object would set its prototype
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
  if ((seen & SEEN.host) === 0 && httpVersionMinor > 0) refused ??= HOST_ABSENT; // RFC 9112 §3.2
  return refused ?? ((seen & SEEN.upgrade) === 0 ? undefined : UPGRADE);
}

/** The four forms of RFC 9112 §3.2, but authority-form, which belongs to CONNECT. */
function judgeTarget(method: string | undefined, target: string): HeadVerdict | undefined {
  if (target.includes('#')) return FRAGMENT;
  if (target.charCodeAt(0) === SLASH) return undefined;
  if (target === '*') return method === 'OPTIONS' ? undefined : TARGET;
  const authority = /^https?:\/\/([^/?]*)/i.exec(target)?.[1];
  if (authority === undefined) return TARGET;
  return authority !== '' && isHost(authority) ? undefined : AUTHORITY; // with a user it is no host (RFC 9110 §4.2.4)
}

/** Without chunked at its end a body has no end that could be known: 400. Other codings before it nobody here decodes: 501 (RFC 9112 §6.1, §6.3). */
function judgeCoding(value: string, httpVersionMinor: number): HeadVerdict | undefined {
  if (httpVersionMinor === 0) return CODING_EARLY;
  if (isNamed(value, 'chunked')) return undefined;
  return /[ \t,]chunked$/i.test(value) ? CODING : CODING_LAST;
}

const SLASH = 0x2f,
  COLON = 0x3a,
  OPENING = 0x5b;
const DIGIT_0 = 0x30,
  DIGIT_9 = 0x39;
const MAX_PORT = 65_535;
/** Letters, digits and `-._~`: a host's name. Without sub-delims, which no name has that can be resolved: a comma would be two hosts. */
const OF_HOST = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~')
  OF_HOST[character.charCodeAt(0)] = 1;

/** The host of the request before, which nearly every one names again: to compare costs a third of reading it. */
let lastHost = '';

function isNewHost(text: string): boolean {
  if (!isHost(text)) return false;
  lastHost = text;
  return true;
}

/** `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2). It may be empty. */
function isHost(text: string): boolean {
  let index = 0;
  if (text.charCodeAt(0) === OPENING) {
    const closing = text.indexOf(']');
    const address = text.slice(1, Math.max(1, closing));
    if (!address.includes(':') || parseAddress(address) === undefined) return false;
    index = closing + 1;
  } else while (index < text.length && OF_HOST[text.charCodeAt(index)] === 1) index++; // a look beyond the end would cost ten times the loop
  if (index === text.length) return true;
  return index > 0 && text.charCodeAt(index) === COLON && isPort(text, index + 1);
}

/** Digits up to the end, perhaps none. */
function isPort(text: string, start: number): boolean {
  let port = 0;
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < DIGIT_0 || code > DIGIT_9 || (port = 10 * port + code - DIGIT_0) > MAX_PORT) return false;
  }
  return true;
}

/** Whether a client wants to go on with the connection behind the answer (RFC 9112 §9.3). */
export function keepsConnection({ rawHeaders, httpVersionMinor }: RequestHead): boolean {
  const options =
    findField(rawHeaders, 'connection')
      ?.toLowerCase()
      .split(/[\s,]+/) ?? [];
  return httpVersionMinor === 0 ? options.includes('keep-alive') : !options.includes('close');
}
