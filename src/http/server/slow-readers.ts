/**
 * Slow readers: a client that takes no byte of an answer for a while loses its connection. Otherwise whoever asks for much
 * and reads nothing holds an answer, a file or a database's cursor for as long as it likes (the slow-read attack).
 *
 * Watched are only answers that the kernel did not take at once. One timer looks at all of them: what was taken since the
 * last look is told by the socket's own counts. An answer that waits behind another one, or for its source, is not slow.
 *
 * The kernel takes megabytes before a client has had a byte of them, and then none until a third of these has gone: a client behind
 * a proxy may read for a minute meanwhile. So where nothing was taken, it is asked how much it still holds.
 */
import fs from 'node:fs'; // whole: names of its functions are taken in the file that the package's core is joined to
import { endianness } from 'node:os';
import { isIPv4, parseAddress } from '../request/proxy.ts';
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import type { SentMessage } from './fast-path/outgoing.ts';

/** How often each is looked at within its limit. */
const LOOKS = 4;

/** The most bytes that are written at once: what a client has taken of more than that could not be told. */
export const SLICE_BYTES = 131_072;

/** What the kernel must have got rid of within the limit for a client to count as one that reads: with a byte now and then it would hold megabytes for ever. */
const LEAST_READ_BYTES = 16_384;

interface Reading {
  /** Bytes that the client's side had taken at the last look; -1 when nothing waited for it. */
  taken: number;
  /** The least that the kernel held of them when the client was last seen to read; -1 when it has not been asked since, or does not say. */
  held: number;
  sinceMs: number;
  /** Of its request. */
  readonly id: string;
}

/** The answers of one server that are not taken yet. */
export class SlowReaders {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #onCut: (outgoing: ServerResponse, id: string) => void;
  readonly #heldBytes: typeof heldBytes;
  readonly #readings = new Map<ServerResponse, Reading>();
  #timer: Disposable | undefined;

  /** `limitMs`: without progress for so long, and at most half as long again, a connection is cut; `onCut` is told before. */
  constructor({
    clock,
    limitMs,
    onCut,
    held = heldBytes,
  }: {
    readonly clock: Clock;
    readonly limitMs: number;
    readonly onCut: (outgoing: ServerResponse, id: string) => void;
    readonly held?: typeof heldBytes;
  }) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#onCut = onCut;
    this.#heldBytes = held;
  }

  /**
   * Watches a whole answer that has been sent, where the kernel has not taken it. One behind others is looked at when it is its turn: watched while it
   * waits, answers to pipelined requests cost a third more (wrk, 16 deep).
   */
  watchSent(outgoing: SentMessage, id: string): void {
    if (outgoing.writableLength === 0) return;
    if (outgoing.socket !== null) return this.watch(outgoing, id);
    const look = (): void => {
      if (outgoing.writableLength !== 0) this.watch(outgoing, id);
    };
    outgoing.onTurn = () => process.nextTick(look); // node:http hands it over behind the event
  }

  /** Watches the answer to the request of that id until it is over. */
  watch(outgoing: ServerResponse, id: string): void {
    if (outgoing.closed || this.#readings.has(outgoing)) return;
    this.#readings.set(outgoing, {
      taken: takenOf(outgoing),
      held: -1,
      sinceMs: this.#clock.monotonicMs(),
      id,
    });
    outgoing.once('close', () => this.#forget(outgoing));
    this.#timer ??= this.#nextLook();
  }

  /** Cuts off what is not taken yet, all of it: for a server that waits no longer. */
  cutAll(): void {
    for (const outgoing of [...this.#readings.keys()]) outgoing.destroy();
  }

  /**
   * Does what ends idle connections. For node:http a connection is idle as soon as its answer has been handed over whole, whatever
   * of that its client has yet to take.
   */
  spare(endIdle: () => void): void {
    const ended = [...this.#readings.keys()].filter(({ finished }) => finished);
    for (const outgoing of ended) outgoing.finished = false; // what it goes by
    endIdle();
    for (const outgoing of ended) outgoing.finished = true;
  }

  #nextLook(): Disposable {
    return this.#clock.after(this.#limitMs / LOOKS, () => {
      this.#timer = this.#nextLook();
      this.#look();
    });
  }

  #look(): void {
    const nowMs = this.#clock.monotonicMs();
    const stuck: [ServerResponse, Reading][] = [];
    for (const [outgoing, reading] of this.#readings) {
      const taken = takenOf(outgoing);
      if (taken === -1 || taken !== reading.taken)
        Object.assign(reading, { taken, held: -1, sinceMs: nowMs } satisfies Partial<Reading>);
      else stuck.push([outgoing, reading]);
    }
    if (stuck.length === 0) return;
    const heldBy = this.#heldBytes(stuck.map(([{ socket }]) => socket!)); // takenOf() has had it
    for (const [outgoing, reading] of stuck) {
      const held = heldBy.get(outgoing.socket!) ?? -1;
      const isRead = held !== -1 && reading.held - held >= LEAST_READ_BYTES;
      if (isRead) reading.sinceMs = nowMs;
      if (isRead || held > reading.held) reading.held = held;
      if (nowMs - reading.sinceMs < this.#limitMs) continue;
      this.#onCut(outgoing, reading.id);
      outgoing.destroy();
    }
  }

  #forget(outgoing: ServerResponse): void {
    this.#readings.delete(outgoing);
    if (this.#readings.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}

/** What the kernel has taken of everything that was written to the connection; -1 when nothing waits there. */
function takenOf({ socket }: ServerResponse): number {
  if (socket === null || socket.writableLength === 0) return -1; // not its turn yet, or nothing to take
  return socket.bytesWritten - socket.writableLength;
}

/*
 * What the kernel holds of what was written to a connection: bytes that the other side has not acknowledged, and, where that is on
 * this machine, as a proxy may be, those that it has not read. Linux tells, in a table of all connections; others do not.
 *
 *   sl  local_address rem_address   st tx_queue rx_queue ...
 *    7: 0100007F:1F90 0100007F:C350 01 003A0000:00000000 ...        addresses are words of this machine's order, in hexadecimal
 */

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
