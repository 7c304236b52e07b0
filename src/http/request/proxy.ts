/**
 * Determines the client, scheme and host of a request that came through trusted proxies (setting
 * `trustProxy`).
 *
 * Example: the connection comes from 10.0.0.1, and `trustProxy` is `10.0.0.0/8`.
 *   X-Forwarded-For: 203.0.113.9, 198.51.100.7, 10.0.0.2
 * The addresses are read from right to left, up to the first one that is not trusted. So the client is
 * 198.51.100.7. The address 203.0.113.9 is ignored, because the client may have sent it.
 *
 * Each proxy appends the address from which it received the request. So an entry of X-Forwarded-For is
 * reliable only if a trusted proxy wrote it.
 *
 * The field `Forwarded` (RFC 7239) is read in the same way if the setting `forwardedHeader` names it. Only
 * one of the two fields is read, because a proxy usually writes one, and forwards the other unchanged from
 * the client.
 *
 * Addresses are stored as eight groups of 16 bits, IPv4 as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2). So all
 * notations of one address are equal: 1.2.3.4, ::ffff:1.2.3.4, ::ffff:102:304. IPv6 addresses are written as
 * RFC 5952 recommends.
 */
import { isIP } from 'node:net';
import { SvcError } from '../../base/errors.ts';
import { didYouMean, shown } from '../../base/options.ts';
import { itemsOf } from '../headers.ts';
import type { Logger } from '../../observability/log.ts';
import type { HttpRequest } from '../contracts.ts';

/** An IP address as eight groups of 16 bits, the most significant first. */
type Address = readonly number[];

/** A network: all addresses that have the first `bits` bits in common with `address`. */
interface Network {
  readonly address: Address;
  /** Prefix length 0 ... 128. For an IPv4 network it is the written length plus 96: 104 for `10.0.0.0/8`. */
  readonly bits: number;
}

/** Number of bits that precede the IPv4 address in an IPv4-mapped IPv6 address. */
const MAPPED_BITS = 96;
/**
 * Parses an IP address. Returns undefined if it is invalid. Numbers with leading zeros are invalid, because
 * some programs read them as octal. An address with a zone (`%eth0`) is invalid too.
 */
export function parseAddress(text: string): Address | undefined {
  const family = text.includes('%') ? 0 : isIP(text);
  if (family === 0) return undefined;
  if (family === 4) {
    const [a, b, c, d] = text.split('.').map(Number) as [number, number, number, number];
    return [0, 0, 0, 0, 0, 0xffff, (a << 8) | b, (c << 8) | d];
  }
  const [left, right = []] = shortest(text)
    .split('::')
    .map((side) => (side === '' ? [] : side.split(':').map((group) => parseInt(group, 16))));
  return [...left!, ...Array<number>(8 - left!.length - right.length).fill(0), ...right];
}

/**
 * Formats an IPv6 address in lower case, with the longest run of zeros as `::`, and an IPv4 part as two
 * groups (RFC 5952 §4).
 */
function shortest(text: string): string {
  return new URL(`http://[${text}]`).hostname.slice(1, -1);
}

/** Whether an address is IPv4 in any notation, including IPv4-mapped IPv6. */
export function isIPv4(address: Address): boolean {
  return address[5] === 0xffff && address.findIndex((group) => group !== 0) === 5;
}

/** Formats an address: IPv4 with dots, IPv6 as RFC 5952 §4 recommends. */
export function formatAddress(address: Address): string {
  if (isIPv4(address)) {
    const [high, low] = address.slice(6) as [number, number];
    return `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`;
  }
  return shortest(address.map((group) => group.toString(16)).join(':'));
}

/**
 * Parses a network such as `10.0.0.0/8` or `fd00::/8`, or a single address. Returns undefined if it is
 * invalid. Bits after the prefix are ignored.
 */
export function parseNetwork(text: string): Network | undefined {
  const slash = text.indexOf('/');
  const address = parseAddress(slash === -1 ? text : text.slice(0, slash));
  if (address === undefined) return undefined;
  if (slash === -1) return { address, bits: 128 };
  const prefix = text.slice(slash + 1);
  if (!/^(?:0|[1-9]\d{0,2})$/.test(prefix)) return undefined;
  const bits = Number(prefix) + (text.includes(':') ? 0 : MAPPED_BITS);
  return bits > 128 ? undefined : { address, bits };
}

export function contains({ address, bits }: Network, candidate: Address): boolean {
  const whole = bits >> 4;
  for (let index = 0; index < whole; index++) if (address[index] !== candidate[index]) return false;
  const rest = 16 - (bits & 15);
  return rest === 16 || address[whole]! >> rest === candidate[whole]! >> rest;
}

/** Returns the address of a socket in canonical form: `::ffff:1.2.3.4` becomes `1.2.3.4`. */
export function peerAddress(text: string): string {
  return text.startsWith('::ffff:') && text.includes('.') ? text.slice(7) : text;
}

/**
 * Removes the zone, which names a network interface, from a link-local address: `fe80::1%eth0` becomes
 * `fe80::1` (RFC 4007 §11).
 */
export function withoutZone(text: string): string {
  const zone = text.indexOf('%');
  return zone === -1 ? text : text.slice(0, zone);
}

const IPV6_BITS = 64;

/**
 * Returns the key under which limits count a client. It is the IPv4 address, or the first `ipv6Bits` bits of
 * an IPv6 address, because IPv6 clients have whole networks (RFC 6177 §2). Text that is not an address is
 * returned unchanged.
 */
export function clientOf(text: string, ipv6Bits: number = IPV6_BITS): string {
  if (!text.includes(':')) return text;
  const address = parseAddress(withoutZone(text));
  if (address === undefined) return text;
  if (isIPv4(address) || ipv6Bits === 128) return formatAddress(address);
  const masked = address.map((group, index) => {
    const kept = Math.min(16, Math.max(0, ipv6Bits - 16 * index));
    return group & (0xffff << (16 - kept)) & 0xffff;
  });
  return `${formatAddress(masked)}/${ipv6Bits}`;
}

/**
 * Client, scheme and host that trusted proxies report. If scheme or host is undefined, the connection and the
 * `Host` field determine it.
 */
export interface Forwarding {
  readonly ip: string;
  readonly scheme: 'http' | 'https' | undefined;
  readonly host: string | undefined;
}

/** Returns a header field of the request by lower-case name. Repeated values are joined by commas. */
type ReadField = (name: string) => string | undefined;

/** Maximum number of entries that are read from a forwarding field, even if all proxies are trusted. */
const MAX_HOPS = 32;
/** Maximum length of one entry of `X-Forwarded-For` or `Forwarded`, in characters. */
const MAX_ENTRY_LENGTH = 512;

const WORDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1']],
  ['private', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
  ['linklocal', ['169.254.0.0/16', 'fe80::/10']],
]);

/**
 * All loopback, private and link-local networks. They are parsed when they are first needed, because the
 * first `isIP()` of an IPv6 address takes 5 ms: Node then compiles a regular expression.
 */
let privateNetworks: readonly Network[] | undefined;

/** Returns whether an address is loopback, private (RFC 1918, RFC 4193) or link-local. */
export function isPrivatePeer(text: string): boolean {
  const address = parseAddress(withoutZone(text));
  if (address === undefined) return false;
  privateNetworks ??= [...WORDS.keys()].flatMap(readNetworks);
  return privateNetworks.some((network) => contains(network, address));
}

interface Chain {
  readonly ip: string;
  /** Number of entries that were read. Trusted proxies wrote all of them. */
  readonly read: number;
}

/** Parses the setting `trustProxy`. Returns undefined if no proxy is trusted. */
export function readTrustProxy(
  setting: unknown,
  fields: ForwardedFields = { header: 'x-forwarded', saysHost: false },
): ProxyTrust | undefined {
  if (setting === undefined || setting === null || setting === 0) return undefined;
  if (typeof setting === 'string')
    return readTrustProxy(/^\s*\d+\s*$/.test(setting) ? Number(setting) : itemsOf(setting), fields);
  if (typeof setting === 'number') {
    if (!Number.isInteger(setting) || setting < 1 || setting > MAX_HOPS)
      throw new SvcError('E_TRUST_PROXY', [
        `the number of proxies must be an integer from 1 to ${MAX_HOPS}, found ${setting}`,
      ]);
    return new ProxyTrust(setting, [], fields);
  }
  if (!Array.isArray(setting))
    throw new SvcError('E_TRUST_PROXY', [
      setting === true
        ? EVERY_CLIENT
        : `the number of proxies or a list of their addresses is needed, found ${shown(setting)}`,
    ]);
  return setting.length === 0 ? undefined : new ProxyTrust(0, setting.flatMap(readNetworks), fields);
}

const EVERY_CLIENT = 'if every client is a trusted proxy, each client can claim any address';

function readNetworks(text: unknown): Network[] {
  if (typeof text !== 'string')
    throw new SvcError('E_TRUST_PROXY', [
      `each entry of the list of proxies must be text, found ${shown(text)}`,
    ]);
  const meant = WORDS.get(text);
  if (meant !== undefined) return meant.flatMap(readNetworks);
  if (/^(?:true|all|\*)$/i.test(text)) throw new SvcError('E_TRUST_PROXY', [EVERY_CLIENT]);
  const network = parseNetwork(text);
  if (network === undefined)
    throw new SvcError('E_TRUST_PROXY', [
      `"${text}" is neither an IP address nor a network such as "10.0.0.0/8"${didYouMean(text, WORDS.keys())}`,
    ]);
  if (network.bits === 0 || (network.bits <= MAPPED_BITS && isIPv4(network.address)))
    throw new SvcError('E_TRUST_PROXY', [`the network "${text}" includes every client: ${EVERY_CLIENT}`]);
  return [network];
}

/** The trusted proxies: their number, or the networks of their addresses. */
export class ProxyTrust {
  /** Number of trusted proxies; 0 if `#networks` lists their addresses. */
  readonly #hops: number;
  readonly #networks: readonly Network[];
  readonly #fields: ForwardedFields;

  /** @internal */
  constructor(hops: number, networks: readonly Network[], fields: ForwardedFields) {
    this.#hops = hops;
    this.#networks = networks;
    this.#fields = fields;
  }

  /** Header fields are read only if `peer` is trusted. */
  resolve(peer: string, field: ReadField): Forwarding {
    const ip = peerAddress(peer);
    if (!this.#trusts(parseAddress(withoutZone(ip)), 1)) return { ip, scheme: undefined, host: undefined };
    const {
      ip: client,
      scheme,
      host,
    } = this.#fields.header === 'forwarded' ? this.#readElements(ip, field) : this.#readLists(ip, field);
    return { ip: client, scheme, host: this.#fields.saysHost ? host : undefined };
  }

  #readLists(peer: string, field: ReadField): Forwarding {
    const list = field('x-forwarded-for');
    const { ip, read } = list === undefined ? { ip: peer, read: 1 } : this.#walk(peer, list, readNode);
    return {
      ip,
      scheme: schemeOf(nthFromRight(field('x-forwarded-proto'), read)),
      host: hostOf(nthFromRight(field('x-forwarded-host'), read)),
    };
  }

  #readElements(peer: string, field: ReadField): Forwarding {
    const elements = field('forwarded');
    const values: ForwardedValues = { scheme: undefined, host: undefined };
    const ip =
      elements === undefined
        ? peer
        : this.#walk(peer, elements, (element) => readElement(element, values)).ip;
    return { ip, ...values };
  }

  /**
   * Reads a list of addresses from right to left, that is, from the peer towards the client. Stops at the
   * first address that is not trusted, or before an entry that cannot be parsed.
   */
  #walk(peer: string, list: string, read: (entry: string) => Address | undefined): Chain {
    let ip = peer;
    let count = 0;
    for (let end = list.length; count < MAX_HOPS && end >= 0;) {
      // lastIndexOf() treats a negative position as 0, so it is not called with -1
      const start = end === 0 ? -1 : list.lastIndexOf(',', end - 1);
      const entry = end - start > MAX_ENTRY_LENGTH ? undefined : list.slice(start + 1, end).trim();
      end = start;
      if (entry === '') continue; // empty elements of a list are ignored (RFC 9110 §5.6.1)
      const address = entry === undefined ? undefined : read(entry);
      count++;
      if (address === undefined) break;
      ip = formatAddress(address);
      if (!this.#trusts(address, count + 1)) break;
    }
    return { ip, read: count };
  }

  /** Returns whether a proxy is trusted. `hop` is its position: 1 for the peer of the connection. */
  #trusts(address: Address | undefined, hop: number): boolean {
    if (this.#hops > 0) return hop <= this.#hops;
    return address !== undefined && this.#networks.some((network) => contains(network, address));
  }
}

/**
 * Parses the address in an entry: `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]`, `[::1]:80`. Returns undefined for
 * `unknown`, and for names that hide the address (RFC 7239 §6).
 */
function readNode(text: string): Address | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([0-9.]+))(?::\d{1,5})?$/i.exec(text);
  if (match === null) return parseAddress(text);
  const address = match[1] ?? match[2]!;
  return match[1] !== undefined && !address.includes(':') ? undefined : parseAddress(address);
}

/** Scheme and host that were read so far. Elements nearer to the client overwrite earlier values. */
interface ForwardedValues {
  scheme: 'http' | 'https' | undefined;
  host: string | undefined;
}

/**
 * Parses one element of `Forwarded`, `for=...;proto=...;host=...` (RFC 7239 §4). Returns the address in
 * `for`, and stores scheme and host in `values`. Call it only for an element that a trusted proxy wrote.
 */
function readElement(element: string, values: ForwardedValues): Address | undefined {
  const pairs = new Map<string, string>();
  const pattern = /[ \t]*([!#$%&'*+\-.^_`|~\w]+)=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[^"\\]|\\.)*)")[ \t]*(;|$)/y;
  while (pattern.lastIndex < element.length) {
    const match = pattern.exec(element);
    // the element is malformed, or has a parameter twice
    if (match === null || pairs.has(match[1]!.toLowerCase())) return undefined;
    pairs.set(match[1]!.toLowerCase(), match[2] ?? match[3]!.replace(/\\(.)/g, '$1'));
  }
  values.scheme = schemeOf(pairs.get('proto')) ?? values.scheme;
  values.host = hostOf(pairs.get('host')) ?? values.host;
  const node = pairs.get('for');
  // in `Forwarded`, IPv6 addresses need brackets
  return node === undefined || /^[^[]*:.*:/.test(node) ? undefined : readNode(node);
}

/**
 * Returns entry `count` of X-Forwarded-Proto or X-Forwarded-Host, counted from the right. From a shorter
 * list, returns the first entry, because some proxies write only one.
 */
function nthFromRight(list: string | undefined, count: number): string | undefined {
  if (list === undefined) return undefined;
  const entries = itemsOf(list.slice(-MAX_HOPS * MAX_ENTRY_LENGTH));
  return entries[Math.max(0, entries.length - count)];
}

function schemeOf(text: string | undefined): 'http' | 'https' | undefined {
  const scheme = text?.toLowerCase();
  if (scheme === 'https' || scheme === 'wss') return 'https';
  return scheme === 'http' || scheme === 'ws' ? 'http' : undefined;
}

/** Returns `text` if it is a host whose characters are safe in links; otherwise undefined. */
function hostOf(text: string | undefined): string | undefined {
  return text !== undefined && text.length <= 260 && /^(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i.test(text)
    ? text
    : undefined;
}

/**
 * Maximum number of requests in which {@link ProxyWatch} looks for fields of a proxy. One request is not
 * enough: the proxy's own requests, such as health checks, have none of these fields.
 */
const WATCHED_REQUESTS = 1_000;
/** Header fields that proxies add, and that clients rarely send. */
const PROXY_FIELDS = ['x-forwarded-for', 'x-forwarded-proto', 'forwarded'] as const;

/**
 * Logs a warning once if requests come through a proxy that `trustProxy` does not name. All clients behind
 * that proxy then have its address: they share rate limits, and logs do not tell them apart.
 *
 * Only peers in private networks count, because any other client may send the header fields of a proxy
 * itself. Only the first thousand requests are checked, so that later ones cost nothing.
 */
export class ProxyWatch {
  readonly #log: Logger;
  #left = WATCHED_REQUESTS;

  constructor(log: Logger) {
    this.#log = log.child('svc_security');
  }

  /** Returns true after the last check. Call it only if the application trusts no proxy. */
  look(req: HttpRequest): boolean {
    const field = PROXY_FIELDS.find((name) => req.headers[name] !== undefined);
    if (field === undefined || !isPrivatePeer(req.ip)) return --this.#left === 0;
    this.#log.warn('proxy_not_trusted', {
      peer: req.ip,
      field,
      request_id: req.id,
      problem:
        'req.ip is the address of the proxy for all clients behind it, so they share rate limits and lines of the log',
      remedy:
        "Set the address of the proxy: trustProxy: ['loopback', '10.0.0.0/8'], or the environment variable SVC_TRUST_PROXY",
    });
    return true;
  }
}

/**
 * Number of trusted proxies in front of the application (1 ... 32), or their addresses: single addresses,
 * networks (`10.0.0.0/8`), `loopback`, `private`, `linklocal`.
 */
export type TrustProxy = number | string | readonly string[];

/**
 * Header fields that the trusted proxies write: `X-Forwarded-For` and `X-Forwarded-Proto`, or `Forwarded`.
 * The fields of the other kind are ignored, because clients may have sent them.
 */
export type ForwardedHeader = (typeof FORWARDED_HEADERS)[number];
/** All values of {@link ForwardedHeader}; the default is first. @internal */
export const FORWARDED_HEADERS = ['x-forwarded', 'forwarded'] as const;

/** Selects the header fields of trusted proxies that are read. @internal */
export interface ForwardedFields {
  readonly header: ForwardedHeader;
  /**
   * Whether the host is read, too. That is safe only if the proxy overwrites `X-Forwarded-Host`; many proxies
   * pass the value of the client on.
   */
  readonly saysHost: boolean;
}
