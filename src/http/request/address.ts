/**
 * Addresses of the internet protocol: text <-> eight groups of 16 bits, and the networks they belong to. No names, no I/O.
 *
 *   1.2.3.4, ::ffff:1.2.3.4, ::ffff:102:304 -> 0 0 0 0 0 ffff 102 304        one address, however it is written
 *
 * IPv4 is read as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2), IPv6 written as RFC 5952 recommends.
 */

/** Eight groups, the most significant first. */
export type Address = readonly number[];

/** The addresses that begin with the first `bits` bits of `address`. */
export interface Network {
  readonly address: Address;
  /** 0 ... 128; of an IPv4 network 96 more than it says. */
  readonly bits: number;
}

const GROUPS = 8;
/** Bits before an IPv4 address in its mapped form. */
export const MAPPED_BITS = 96;
/** `0000:0000:0000:0000:0000:ffff:255.255.255.255` */
const MAX_LENGTH = 45;

/** The address of a text, or undefined. Octets have no leading zeros, which some read as octal; a zone (`%eth0`) is refused. */
export function parseAddress(text: string): Address | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  if (!text.includes(':')) {
    const octets = parseOctets(text);
    return octets === undefined ? undefined : [0, 0, 0, 0, 0, 0xffff, ...octets];
  }
  const gap = text.indexOf('::');
  const left = parseGroups(gap === -1 ? text : text.slice(0, gap), gap === -1);
  const right = gap === -1 ? [] : parseGroups(text.slice(gap + 2), true);
  if (left === undefined || right === undefined) return undefined;
  const missing = GROUPS - left.length - right.length;
  if (gap === -1 ? missing !== 0 : missing < 1) return undefined;
  return [...left, ...Array<number>(missing).fill(0), ...right];
}

/** `a:b:c`, of which the last may be IPv4; nothing at all has no group. */
function parseGroups(text: string, isEnd: boolean): number[] | undefined {
  if (text === '') return [];
  const groups: number[] = [];
  const parts = text.split(':');
  for (const [index, part] of parts.entries()) {
    if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(parseInt(part, 16));
    else {
      const octets = isEnd && index === parts.length - 1 ? parseOctets(part) : undefined;
      if (octets === undefined) return undefined;
      groups.push(...octets);
    }
  }
  return groups;
}

/** `1.2.3.4` as two groups. */
function parseOctets(text: string): readonly [number, number] | undefined {
  const match = /^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})$/.exec(text);
  if (match === null) return undefined;
  const [a, b, c, d] = match.slice(1).map(Number) as [number, number, number, number]; // four groups have matched
  return a > 255 || b > 255 || c > 255 || d > 255 ? undefined : [(a << 8) | b, (c << 8) | d];
}

/** Whether it is an IPv4 address in whatever form. */
export function isIPv4(address: Address): boolean {
  return (
    address[5] === 0xffff &&
    address[0] === 0 &&
    address[1] === 0 &&
    address[2] === 0 &&
    address[3] === 0 &&
    address[4] === 0
  );
}

/** The one text of an address: IPv4 with dots, IPv6 in lower case with its longest run of zeros left out (RFC 5952 §4). */
export function formatAddress(address: Address): string {
  if (isIPv4(address)) {
    const [high, low] = address.slice(6) as [number, number];
    return `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`;
  }
  let start = 0,
    length = 0;
  for (let index = 0; index < GROUPS; index++) {
    let end = index;
    while (end < GROUPS && address[end] === 0) end++;
    if (end - index > length) [start, length] = [index, end - index];
    index = end;
  }
  const hex = address.map((group) => group.toString(16));
  return length < 2
    ? hex.join(':')
    : `${hex.slice(0, start).join(':')}::${hex.slice(start + length).join(':')}`;
}

/** `10.0.0.0/8`, `fd00::/8`, or one address; undefined for anything else. Bits behind the prefix do not matter. */
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

/** Whether an address belongs to a network. */
export function contains({ address, bits }: Network, candidate: Address): boolean {
  const whole = bits >> 4;
  for (let index = 0; index < whole; index++) if (address[index] !== candidate[index]) return false;
  const rest = 16 - (bits & 15);
  return rest === 16 || address[whole]! >> rest === candidate[whole]! >> rest;
}

/** The address of a socket's other end, as one text whichever family accepted it: `1.2.3.4` for `::ffff:1.2.3.4`. */
export function peerAddress(text: string): string {
  return text.startsWith('::ffff:') && text.includes('.') ? text.slice(7) : text;
}

/** The address of a link-local peer without the interface it came by: `fe80::1` of `fe80::1%eth0` (RFC 4007 §11). */
export function withoutZone(text: string): string {
  const zone = text.indexOf('%');
  return zone === -1 ? text : text.slice(0, zone);
}

/**
 * What a client is counted by: its IPv4 address, or the first `ipv6Bits` bits of its IPv6 address, for a client of IPv6 has a
 * whole network (RFC 6177 §2). Text that is no address stays as it is.
 */
export function clientOf(text: string, ipv6Bits: number): string {
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
