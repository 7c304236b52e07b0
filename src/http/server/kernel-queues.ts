/**
 * What the kernel holds of what was written to a connection: bytes that the other side has not acknowledged, and, where that is on
 * this machine, as a proxy may be, those that it has not read. Linux tells, in a table of all connections; others do not.
 *
 *   sl  local_address rem_address   st tx_queue rx_queue ...
 *    7: 0100007F:1F90 0100007F:C350 01 003A0000:00000000 ...        addresses are words of this machine's order, in hexadecimal
 */
import fs from 'node:fs'; // whole: names of its functions are taken in the file that the package's core is joined to
import { endianness } from 'node:os';
import { isIPv4, parseAddress } from '../request/address.ts';

/** The ends of a connection, as node:net's Socket has them. */
export interface Ends {
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6'];
const ROW = /: ([0-9A-F]+:[0-9A-F]{4}) ([0-9A-F]+:[0-9A-F]{4}) [0-9A-F]{2} ([0-9A-F]{8}):([0-9A-F]{8})/g;
/** An IPv4 address of a table of IPv6 begins by it. */
const MAPPED = /^0{16}(?:FFFF0000|0000FFFF)/;
/** Of a table: some 14,000 connections, which take 10 ms. Of others nothing is known. */
const MAX_BYTES = 2_097_152;

/** The bytes that are held of each connection, as far as that can be known. */
export function heldBytes<S extends Ends>(connections: readonly S[]): ReadonlyMap<S, number> {
  const held = new Map<S, number>();
  const rows = new Map<string, { readonly connection: S; readonly isSent: boolean }>();
  for (const connection of connections) {
    const [local, remote] = [
      endOf(connection.localAddress, connection.localPort),
      endOf(connection.remoteAddress, connection.remotePort),
    ];
    if (local === undefined || remote === undefined) continue;
    rows.set(`${local} ${remote}`, { connection, isSent: true });
    rows.set(`${remote} ${local}`, { connection, isSent: false });
  }
  if (rows.size === 0 || process.platform !== 'linux') return held;
  for (const table of TABLES) {
    for (const [, local, remote, sent, received] of beginningOf(table).matchAll(ROW)) {
      const row = rows.get(`${local!.replace(MAPPED, '')} ${remote!.replace(MAPPED, '')}`);
      if (row !== undefined)
        held.set(
          row.connection,
          (held.get(row.connection) ?? 0) + parseInt(row.isSent ? sent! : received!, 16),
        );
    }
  }
  return held;
}

/** An end as a table has it. */
function endOf(address: string | undefined, port: number | undefined): string | undefined {
  const groups = address === undefined ? undefined : parseAddress(address);
  if (groups === undefined || port === undefined) return undefined;
  const bytes = (isIPv4(groups) ? groups.slice(6) : groups).flatMap((group) => [group >> 8, group & 0xff]);
  let text = '';
  for (let word = 0; word < bytes.length; word += 4) {
    const four = bytes.slice(word, word + 4);
    text += hex(endianness() === 'LE' ? four.reverse() : four, 2);
  }
  return `${text}:${hex([port], 4)}`;
}

function hex(numbers: readonly number[], digits: number): string {
  return numbers.map((number) => number.toString(16).toUpperCase().padStart(digits, '0')).join('');
}

/** Empty where this process may not read it, or nobody has written it. */
function beginningOf(table: string): string {
  let file: number | undefined;
  try {
    file = fs.openSync(table, 'r');
    const bytes = Buffer.allocUnsafeSlow(MAX_BYTES);
    let length = 0;
    for (let count = -1; count !== 0 && length < MAX_BYTES; length += count)
      count = fs.readSync(file, bytes, length, MAX_BYTES - length, null);
    return bytes.toString('latin1', 0, length);
  } catch {
    return '';
  } finally {
    if (file !== undefined) fs.closeSync(file);
  }
}
