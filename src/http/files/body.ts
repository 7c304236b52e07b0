/**
 * The content of an open file on its way out: whole, a slice, or several with texts between them.
 *
 * Sent to a socket, two blocks of a pool take turns, one read while the other is written: a fresh block costs a page fault
 * per 4 KiB (topic `static` of test/bench/table.ts). A reader that iterates gets blocks of its own. A file that is changed meanwhile ends
 * with an error before its last bytes, so that the client sees an answer that is not whole.
 */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { ClientDisconnected, HTTPException } from '../../base/errors.ts';
import type { ServerResponse } from 'node:http';
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

/** As much as is written at once: larger ones are no faster, and hide for longer that a client reads nothing. */
const BLOCK_BYTES = 131_072;
/** Blocks that wait to be used again: 4 MiB. */
const MAX_FREE_BLOCKS = 32;
const freeBlocks: Buffer[] = [];

/** Closes its file when it has been sent, when it fails, and when its iterator is told to return. */
export class FileBody implements AsyncIterable<Uint8Array> {
  readonly #file: OpenFile;
  readonly #parts: readonly (Uint8Array | Slice)[];

  constructor(file: OpenFile, parts: readonly (Uint8Array | Slice)[]) {
    this.#file = file;
    this.#parts = parts;
  }

  get length(): number {
    return this.#parts.reduce((sum, part) => sum + lengthOf(part), 0);
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    const file = this.#file;
    const cursor = new Cursor(file, this.#parts);
    const end = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
      await file.close();
      return { done: true, value: undefined };
    };
    return {
      async next() {
        try {
          const value = await cursor.next(Buffer.allocUnsafeSlow(cursor.wanted));
          return value === undefined ? await end() : { done: false, value };
        } catch (error) {
          const isLeft = file.isClosed; // with its request, while it was read: nobody waits for this
          await end();
          throw isLeft ? new ClientDisconnected() : error;
        }
      },
      return: end,
    };
  }

  /** Sends all of it and ends the answer, or cuts it: then it rejects, unless it was the client who left. */
  async sendTo(outgoing: ServerResponse): Promise<void> {
    const cursor = new Cursor(this.#file, this.#parts);
    const writer = new BlockWriter(outgoing);
    try {
      for (;;) {
        const bytes = await cursor.next(writer.block());
        if (!(await writer.isReady())) return;
        if (bytes === undefined) break;
        writer.write(bytes);
      }
      outgoing.end();
    } catch (error) {
      if (outgoing.destroyed) return; // the file was closed with its request, while it was read
      outgoing.destroy();
      throw error;
    } finally {
      writer.release();
      await this.#file.close();
    }
  }
}

/** Where reading has come to. */
class Cursor {
  readonly #file: OpenFile;
  readonly #parts: readonly (Uint8Array | Slice)[];
  #index = 0;
  #at = -1;

  constructor(file: OpenFile, parts: readonly (Uint8Array | Slice)[]) {
    this.#file = file;
    this.#parts = parts;
  }

  /** How large a block is of use. */
  get wanted(): number {
    const part = this.#parts[this.#index];
    return part === undefined || part instanceof Uint8Array
      ? 0
      : Math.min(BLOCK_BYTES, part.end - Math.max(part.start, this.#at));
  }

  /** The next bytes, read into `block` where they are the file's; undefined behind the last. @throws Error when the file has changed */
  async next(block: Buffer): Promise<Uint8Array | undefined> {
    const part = this.#parts[this.#index];
    if (part === undefined) return undefined;
    if (part instanceof Uint8Array) {
      this.#index++;
      return part;
    }
    const from = this.#at === -1 ? part.start : this.#at;
    const count = await this.#file.read(block, Math.min(block.length, part.end - from), from);
    if (count === 0) throw new Error(`The file ended after ${from} of ${this.#file.size} bytes`);
    this.#at = from + count;
    if (this.#at === part.end) {
      this.#index++;
      this.#at = -1;
      if (!(await this.#file.isUnchanged())) throw new Error('The file was written to while it was sent');
    }
    return count === block.length ? block : block.subarray(0, count);
  }
}

/** Writes one block while the next is read. */
class BlockWriter {
  readonly #outgoing: ServerResponse;
  readonly #blocks: Buffer[] = [];
  #turn = 0;
  #writing: Promise<void> | undefined;
  #onWritten: (() => void) | undefined;
  readonly #leave = (): void => {
    this.#onWritten?.();
  };

  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing;
    outgoing.once('close', this.#leave);
  }

  /** The block that is not being written. */
  block(): Buffer {
    return (this.#blocks[this.#turn] ??= freeBlocks.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES));
  }

  /** Hands bytes to the connection, and turns to the other block. */
  write(bytes: Uint8Array): void {
    this.#turn ^= 1;
    this.#writing = new Promise((resolve) => {
      this.#onWritten = resolve;
      this.#outgoing.write(bytes, () => resolve());
    });
  }

  /** Waits for the last write; false once the client has left. */
  async isReady(): Promise<boolean> {
    await this.#writing;
    return !this.#outgoing.destroyed;
  }

  /** Gives the blocks back; those of a connection that broke once it is closed: until then the kernel may read them. */
  release(): void {
    this.#outgoing.off('close', this.#leave);
    if (this.#outgoing.destroyed && !this.#outgoing.closed)
      this.#outgoing.once('close', () => this.#giveBack());
    else this.#giveBack();
  }

  #giveBack(): void {
    for (const block of this.#blocks) if (freeBlocks.length < MAX_FREE_BLOCKS) freeBlocks.push(block);
  }
}

/*
 * The field `Range` (RFC 9110 §14), and multipart/byteranges for several ranges.
 *
 *   Range: bytes=0-499, 1000-, -500          first and last, inclusive; from an offset to the end; the last 500 bytes
 */

/** Bytes `start ... end - 1`. */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

/** More are no honest wish: then the content is sent whole. */
const MAX_RANGES = 16;
const MAX_FIELD_LENGTH = 1_000;

/**
 * Reads `Range` for content of `size` bytes: the slices in the order of the request, `unsatisfiable` (416) when no slice
 * lies within the content, or `whole` when the field is ignored. It is ignored when it is malformed, has another unit
 * (§14.2), or asks for too much: more than 16 ranges, or ranges that overlap, which only cost the server.
 */
export function readRanges(field: string, size: number): readonly Slice[] | 'unsatisfiable' | 'whole' {
  if (field.length > MAX_FIELD_LENGTH || !/^bytes=/i.test(field)) return 'whole';
  const slices: Slice[] = [];
  let count = 0;
  for (const text of field.slice(6).split(',')) {
    const spec = text.replace(/^[ \t]+|[ \t]+$/g, '');
    if (spec === '') continue; // empty list members (§5.6.1.2)
    const slice = readRange(spec, size);
    if (slice === undefined || ++count > MAX_RANGES) return 'whole';
    if (slice.start < slice.end) slices.push(slice);
    else if (size === 0 && spec.startsWith('-') && /[1-9]/.test(spec)) return 'whole'; // satisfied by nothing, which no Content-Range can say
  }
  if (count === 0) return 'whole';
  if (slices.length === 0) return 'unsatisfiable';
  return overlap(slices) ? 'whole' : slices;
}

/** One range within the content, empty where it lies outside; undefined when it is malformed. */
function readRange(spec: string, size: number): Slice | undefined {
  const match = /^(?:(\d+)-(\d*)|-(\d+))$/.exec(spec);
  if (match === null) return undefined;
  const [, first, last, suffix] = match;
  if (first === undefined) return { start: Math.max(0, size - Number(suffix)), end: size };
  const start = Number(first);
  if (last === '') return { start: Math.min(start, size), end: size };
  if (isGreater(first, last!)) return undefined;
  return { start: Math.min(start, size), end: Math.min(Number(last) + 1, size) };
}

/** Digits compared as numbers of any length. */
function isGreater(left: string, right: string): boolean {
  const [a, b] = [left, right].map((digits) => digits.replace(/^0+/, '')) as [string, string];
  return a.length === b.length ? a > b : a.length > b.length;
}

function overlap(slices: readonly Slice[]): boolean {
  const sorted = slices.toSorted((left, right) => left.start - right.start);
  return sorted.some((slice, index) => index > 0 && slice.start < sorted[index - 1]!.end);
}

/** `Content-Range` of a slice, or, without one, of an answer 416. */
export function contentRange(slice: Slice | undefined, size: number): string {
  return slice === undefined ? `bytes */${size}` : `bytes ${slice.start}-${slice.end - 1}/${size}`;
}

/** Several slices as one body (§14.6): texts to be sent as they are, and slices of the content between them. */
interface Multipart {
  readonly mediaType: string;
  readonly parts: readonly (Uint8Array | Slice)[];
  readonly length: number;
}

/** Lays slices out, each with its own type and range. The boundary is random: no content has it but by a chance of 2^-122. */
export function layOut(slices: readonly Slice[], size: number, mediaType: string | undefined): Multipart {
  const boundary = randomUUID();
  const type = mediaType === undefined ? '' : `Content-Type: ${mediaType}\r\n`;
  const parts = slices.flatMap((slice, index): (Uint8Array | Slice)[] => [
    Buffer.from(
      `${index === 0 ? '' : '\r\n'}--${boundary}\r\n${type}Content-Range: ${contentRange(slice, size)}\r\n\r\n`,
      'latin1',
    ),
    slice,
  ]);
  parts.push(Buffer.from(`\r\n--${boundary}--\r\n`));
  const length = parts.reduce((sum, part) => sum + lengthOf(part), 0);
  return { mediaType: `multipart/byteranges; boundary=${boundary}`, parts, length };
}

/** The length of a text or slice, in bytes. */
export function lengthOf(part: Uint8Array | Slice): number {
  return part instanceof Uint8Array ? part.length : part.end - part.start;
}

/*
 * An open regular file: its state when it was opened, its bytes, and whether it has changed since.
 */

/** Distinguishes two states of a file. */
export interface FileState {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ino: number;
}

export function isSameState(left: FileState, right: FileState): boolean {
  return left.size === right.size && left.mtimeMs === right.mtimeMs && left.ino === right.ino;
}

/** Nothing is there, or nothing that could be sent. */
const ABSENT: ReadonlySet<string | undefined> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ENAMETOOLONG',
  'ELOOP',
  'EISDIR',
  'ENXIO',
]);
const EXHAUSTED: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE']);

/** Whether an error of the file system says that there is nothing to be had. */
export function isAbsence(error: unknown): boolean {
  return ABSENT.has((error as NodeJS.ErrnoException).code);
}

// opening a pipe in its place must not block
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** An open file. close() waits for the last read under way; later calls return the same promise. */
export class OpenFile implements FileState {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ino: number;
  readonly dev: number;
  readonly #handle: FileHandle;
  #closing: Promise<void> | undefined;

  constructor(handle: FileHandle, { size, mtimeMs, ino, dev }: Stats) {
    this.#handle = handle;
    this.size = size;
    this.mtimeMs = mtimeMs;
    this.ino = ino;
    this.dev = dev;
  }

  /** Reads into the block; answers how many bytes, 0 at the end. */
  async read(block: Uint8Array, length: number, position: number): Promise<number> {
    const { bytesRead } = await this.#handle.read(block, 0, length, position);
    return bytesRead;
  }

  /** Everything, in one buffer; shorter when the file has become so. */
  async readAll(): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(this.size);
    let at = 0;
    for (let count = -1; at < this.size && count !== 0; at += count)
      count = (await this.#handle.read(bytes, at, this.size - at, at)).bytesRead;
    return bytes.subarray(0, at);
  }

  /** Whether the file is unchanged since it was opened. */
  async isUnchanged(): Promise<boolean> {
    return isSameState(this, await this.#handle.stat());
  }

  /** Whether close() was called. */
  get isClosed(): boolean {
    return this.#closing !== undefined;
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#handle.close());
  }
}

/**
 * Opens a regular file; undefined where there is none that can be read. `followsLink`: the last part of the path may be a link.
 *
 * @throws HTTPException 503 when this process, or the machine, has too many files open
 */
export async function openFile(path: string, followsLink = true): Promise<OpenFile | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, followsLink ? FLAGS : FLAGS | constants.O_NOFOLLOW);
    const stats = await handle.stat();
    if (stats.isFile()) return new OpenFile(handle, stats);
    await handle.close();
    return undefined;
  } catch (error) {
    await handle?.close();
    if (isAbsence(error)) return undefined;
    if (EXHAUSTED.has((error as NodeJS.ErrnoException).code))
      throw new HTTPException(503, 'Too many files are open', {
        headers: { 'Retry-After': '1' },
        cause: error,
      });
    throw error;
  }
}
