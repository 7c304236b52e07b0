/**
 * Sends the content of an open file: all of it, a slice, or several slices with text between them.
 *
 * Sending to a socket uses two blocks in turn: one is filled from the file while the other is written. The
 * blocks come from a pool, because a new block would cost a page fault for each 4 KiB (test/bench/streams.ts
 * --only=file). Code that iterates the body gets a new block each time. If the file changes meanwhile, the
 * body ends with an error before its last bytes, so that the client sees an incomplete response.
 */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { ClientDisconnected, HTTPException } from '../../base/errors.ts';
import type { ServerResponse } from 'node:http';
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

/**
 * Size of a block, which is one write. Larger blocks are not faster, and it would take longer to detect that
 * a client does not read.
 */
const BLOCK_BYTES = 131_072;
/** Maximum number of free blocks in the pool: 4 MiB. */
const MAX_FREE_BLOCKS = 32;
const freeBlocks: Buffer[] = [];

/**
 * A body that is read from a file. The file is closed when the body was sent, when sending fails, and when
 * the iterator's return() is called.
 */
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
          // the client has left: the end of the request closed the file during a read
          const isLeft = file.isClosed;
          await end();
          throw isLeft ? new ClientDisconnected() : error;
        }
      },
      return: end,
    };
  }

  /**
   * Sends everything and ends the response. On failure it cuts the response and rejects, unless the client
   * left.
   */
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
      if (outgoing.destroyed) return; // the end of the request closed the file during a read
      outgoing.destroy();
      throw error;
    } finally {
      writer.release();
      await this.#file.close();
    }
  }
}

/** Reads the parts of a body block by block, and keeps the position. */
class Cursor {
  readonly #file: OpenFile;
  readonly #parts: readonly (Uint8Array | Slice)[];
  #index = 0;
  #at = -1;

  constructor(file: OpenFile, parts: readonly (Uint8Array | Slice)[]) {
    this.#file = file;
    this.#parts = parts;
  }

  /** Size of the block that the next read can fill, in bytes. */
  get wanted(): number {
    const part = this.#parts[this.#index];
    return part === undefined || part instanceof Uint8Array
      ? 0
      : Math.min(BLOCK_BYTES, part.end - Math.max(part.start, this.#at));
  }

  /**
   * The next bytes, read into `block` if they come from the file; undefined at the end. @throws Error when
   * the file has changed
   */
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

  /** The block that may be filled now. The other block may still be being written. */
  block(): Buffer {
    return (this.#blocks[this.#turn] ??= freeBlocks.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES));
  }

  /** Writes bytes to the connection, and switches to the other block. */
  write(bytes: Uint8Array): void {
    this.#turn ^= 1;
    this.#writing = new Promise((resolve) => {
      this.#onWritten = resolve;
      this.#outgoing.write(bytes, () => resolve());
    });
  }

  /** Waits for the last write. Returns false if the client has left. */
  async isReady(): Promise<boolean> {
    await this.#writing;
    return !this.#outgoing.destroyed;
  }

  /**
   * Returns the blocks to the pool. After a broken connection, it waits until the socket is closed: until
   * then the kernel may read the blocks.
   */
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
 * The field `Range` (RFC 9110 §14), and multipart/byteranges for several ranges. For example, `bytes=0-499,
 * 1000-, -500` requests the first 500 bytes, all bytes from offset 1,000 on, and the last 500 bytes.
 */

/** Bytes `start ... end - 1`. */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

/** Maximum number of ranges. A request with more ranges gets the whole content. */
const MAX_RANGES = 16;
const MAX_FIELD_LENGTH = 1_000;

/**
 * Parses `Range` for content of `size` bytes. Returns the slices in the order of the request, or
 * `unsatisfiable` (416) if no slice is within the content. Returns `whole` if the field is malformed, has
 * another unit (RFC 9110 §14.2), more than 16 ranges, or overlapping ranges, which no client needs.
 */
export function readRanges(field: string, size: number): readonly Slice[] | 'unsatisfiable' | 'whole' {
  if (field.length > MAX_FIELD_LENGTH || !/^bytes=/i.test(field)) return 'whole';
  const slices: Slice[] = [];
  let count = 0;
  for (const text of field.slice(6).split(',')) {
    const spec = text.replace(/^[ \t]+|[ \t]+$/g, '');
    if (spec === '') continue; // empty list members are allowed (RFC 9110 §5.6.1.2)
    const slice = readRange(spec, size);
    if (slice === undefined || ++count > MAX_RANGES) return 'whole';
    if (slice.start < slice.end) slices.push(slice);
    // a suffix range of an empty file is satisfiable (RFC 9110 §14.1.2), but Content-Range cannot express an
    // empty range
    else if (size === 0 && spec.startsWith('-') && /[1-9]/.test(spec)) return 'whole';
  }
  if (count === 0) return 'whole';
  if (slices.length === 0) return 'unsatisfiable';
  return overlap(slices) ? 'whole' : slices;
}

/**
 * Parses one range. The result is within the content, and empty if the range lies beyond its end. Undefined
 * if the range is malformed.
 */
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

/**
 * Whether the number `left` is greater than `right`. Compares the digits as text, so the numbers may exceed
 * 2^53.
 */
function isGreater(left: string, right: string): boolean {
  const [a, b] = [left, right].map((digits) => digits.replace(/^0+/, '')) as [string, string];
  return a.length === b.length ? a > b : a.length > b.length;
}

function overlap(slices: readonly Slice[]): boolean {
  const sorted = slices.toSorted((left, right) => left.start - right.start);
  return sorted.some((slice, index) => index > 0 && slice.start < sorted[index - 1]!.end);
}

/** The value of `Content-Range`: for a slice, or without one for a 416. */
export function contentRange(slice: Slice | undefined, size: number): string {
  return slice === undefined ? `bytes */${size}` : `bytes ${slice.start}-${slice.end - 1}/${size}`;
}

/**
 * Several slices as one body (RFC 9110 §14.6). Each part is the text of its headers, followed by its slice.
 */
interface Multipart {
  readonly mediaType: string;
  readonly parts: readonly (Uint8Array | Slice)[];
  readonly length: number;
}

/**
 * Builds a multipart body; each part has a slice and its type and range. The boundary is random, so the
 * content almost certainly does not contain it.
 */
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

/** Properties that differ between two states of a file. */
export interface FileState {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ino: number;
}

export function isSameState(left: FileState, right: FileState): boolean {
  return left.size === right.size && left.mtimeMs === right.mtimeMs && left.ino === right.ino;
}

/** Error codes of a path that does not lead to a regular file. */
const ABSENT: ReadonlySet<string | undefined> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ENAMETOOLONG',
  'ELOOP',
  'EISDIR',
  'ENXIO',
]);
const EXHAUSTED: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE']);

/** Whether a file-system error means that there is no readable file. */
export function isAbsence(error: unknown): boolean {
  return ABSENT.has((error as NodeJS.ErrnoException).code);
}

// O_NONBLOCK, because opening must not block if the path leads to a pipe
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/**
 * An open file. close() waits until the current read has ended. Further calls of close() return the same
 * promise.
 */
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

  /** Reads into the block. Returns the number of bytes read, 0 at the end. */
  async read(block: Uint8Array, length: number, position: number): Promise<number> {
    const { bytesRead } = await this.#handle.read(block, 0, length, position);
    return bytesRead;
  }

  /** Reads the whole content into one buffer, which is shorter than `size` if the file has shrunk. */
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
 * Opens a regular file. Undefined if the path leads to no readable regular file. `followsLink`: whether the
 * last part of the path may be a link.
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
