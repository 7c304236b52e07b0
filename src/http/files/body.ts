/**
 * Sends the content of an open file: the whole file, one byte range, or several byte ranges as a multipart
 * body.
 *
 * While a file is sent, two memory blocks are used in turn: one is filled from the file while the other is
 * written to the socket. They come from a pool, because a new block would cost a page fault for each 4 KiB
 * (test/bench/streams.ts --only=file).
 *
 * If the file changes while it is sent, the connection is closed before the last bytes. So the client detects
 * an incomplete response.
 */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { ClientDisconnected, errorCode } from '../../base/errors.ts';
import { stripped } from '../headers.ts';
import type { ServerResponse } from 'node:http';
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

/** Size in bytes of the memory blocks in which files are read and sent. Larger blocks are not faster. */
const BLOCK_BYTES = 131_072;
/** Maximum number of unused memory blocks that are kept in the pool, together 4 MiB. */
const MAX_FREE_BLOCKS = 32;
const freeBlocks: Buffer[] = [];

/**
 * A body that is read from a file. Closes the file when the body was sent, when sending fails, or when
 * `return()` of the iterator is called.
 */
export class FileBody implements AsyncIterable<Uint8Array> {
  readonly #file: OpenFile;
  readonly #parts: readonly (Uint8Array | Slice)[];

  constructor(file: OpenFile, parts: readonly (Uint8Array | Slice)[]) {
    this.#file = file;
    this.#parts = parts;
  }

  get length(): number {
    return this.#parts.reduce(
      (sum, part) => sum + (part instanceof Uint8Array ? part.length : part.end - part.start),
      0,
    );
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
          // if return() has closed the file during the read, the client has disconnected
          const isLeft = file.isClosed;
          await end();
          throw isLeft ? new ClientDisconnected() : error;
        }
      },
      return: end,
    };
  }

  /**
   * Sends the body, and ends the response. Resolves if the client disconnects. After any other failure,
   * closes the connection and rejects.
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
      if (outgoing.destroyed) return; // the client has disconnected during a read
      outgoing.destroy();
      throw error;
    } finally {
      writer.release();
      await this.#file.close();
    }
  }
}

/** Reads the parts of a body in order, and remembers the position in the file. */
class Cursor {
  readonly #file: OpenFile;
  readonly #parts: readonly (Uint8Array | Slice)[];
  #index = 0;
  #at = -1;

  constructor(file: OpenFile, parts: readonly (Uint8Array | Slice)[]) {
    this.#file = file;
    this.#parts = parts;
  }

  /** Maximum number of bytes that the following call of next() reads into its block. */
  get wanted(): number {
    const part = this.#parts[this.#index];
    return part === undefined || part instanceof Uint8Array
      ? 0
      : Math.min(BLOCK_BYTES, part.end - Math.max(part.start, this.#at));
  }

  /** Returns the next bytes of the body, or undefined at its end. Bytes of the file are read into `block`. */
  async next(block: Buffer): Promise<Uint8Array | undefined> {
    const part = this.#parts[this.#index];
    if (part === undefined) return undefined;
    if (part instanceof Uint8Array) {
      this.#index++;
      return part;
    }
    const from = this.#at === -1 ? part.start : this.#at;
    const count = await this.#file.read(block, Math.min(block.length, part.end - from), from);
    if (count === 0)
      throw new Error(
        `The file became shorter while it was sent: the file ended after ${from} of ${this.#file.size} bytes`,
      );
    this.#at = from + count;
    if (this.#at === part.end) {
      this.#index++;
      this.#at = -1;
      if (!(await this.#file.isUnchanged())) throw new Error('The file was changed while it was sent');
    }
    return count === block.length ? block : block.subarray(0, count);
  }
}

/** Writes one memory block to the response while the next block is read from the file. */
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

  /** Returns the memory block that may be filled now. The other block may still be in use by a write. */
  block(): Buffer {
    return (this.#blocks[this.#turn] ??= freeBlocks.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES));
  }

  /** Begins to write bytes to the response. Afterwards, block() returns the other block. */
  write(bytes: Uint8Array): void {
    this.#turn ^= 1;
    this.#writing = new Promise((resolve) => {
      this.#onWritten = resolve;
      this.#outgoing.write(bytes, () => resolve());
    });
  }

  /** Waits until the last write is complete. Returns false if the client has disconnected. */
  async isReady(): Promise<boolean> {
    await this.#writing;
    return !this.#outgoing.destroyed;
  }

  /**
   * Returns the memory blocks to the pool. If the response was destroyed during a write, waits for its event
   * "close", because the kernel may still read the blocks.
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

/** A byte range of the file, from `start` (inclusive) to `end` (exclusive). */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

/** Maximum number of ranges in a request. If there are more, the whole content is sent. */
const MAX_RANGES = 16;
const MAX_FIELD_LENGTH = 1_000;

/**
 * Parses the field `Range`, such as `bytes=0-499, -500`, for content of `size` bytes. Returns the slices in
 * the order of the request, or `unsatisfiable` (for a 416) if all ranges lie beyond the content. Returns
 * `whole` if the field must be ignored: it is malformed or too long, has another unit than bytes (RFC 9110
 * §14.2), more than 16 ranges, or overlapping ranges.
 */
export function readRanges(field: string, size: number): readonly Slice[] | 'unsatisfiable' | 'whole' {
  if (field.length > MAX_FIELD_LENGTH || !/^bytes=/i.test(field)) return 'whole';
  const slices: Slice[] = [];
  let count = 0;
  for (const text of field.slice(6).split(',')) {
    const spec = stripped(text);
    if (spec === '') continue; // empty list members are allowed (RFC 9110 §5.6.1.2)
    const slice = readRange(spec, size);
    if (slice === undefined || ++count > MAX_RANGES) return 'whole';
    if (slice.start < slice.end) slices.push(slice);
    // `bytes=-5` of an empty file is valid (RFC 9110 §14.1.2), but Content-Range cannot express an empty
    // range
    else if (size === 0 && spec.startsWith('-') && /[1-9]/.test(spec)) return 'whole';
  }
  if (count === 0) return 'whole';
  if (slices.length === 0) return 'unsatisfiable';
  return overlap(slices) ? 'whole' : slices;
}

/** Returns an empty slice for a range beyond the content; undefined for a malformed range. */
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
 * Whether the decimal number `left` is greater than `right`. Compares text, because the numbers may exceed
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

/** Returns `Content-Range` for a 206 with this slice, or without a slice for a 416. */
export function contentRange(slice: Slice | undefined, size: number): string {
  return slice === undefined ? `bytes */${size}` : `bytes ${slice.start}-${slice.end - 1}/${size}`;
}

/**
 * A multipart/byteranges body (RFC 9110 §14.6). In `parts`, the text before each slice contains the header
 * fields of the slice.
 */
interface Multipart {
  readonly mediaType: string;
  readonly parts: readonly (Uint8Array | Slice)[];
}

/**
 * Builds a multipart/byteranges body from slices of the content. The boundary is random, so that the content
 * almost certainly does not contain it.
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
  return { mediaType: `multipart/byteranges; boundary=${boundary}`, parts };
}

/** Properties of a file that change when its content changes. */
export interface FileState {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ino: number;
}

export function isSameState(left: FileState, right: FileState): boolean {
  return left.size === right.size && left.mtimeMs === right.mtimeMs && left.ino === right.ino;
}

/** Error codes of the file system if a path leads to no regular file. */
const ABSENT: ReadonlySet<string | undefined> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ENAMETOOLONG',
  'ELOOP',
  'EISDIR',
  'ENXIO',
]);

/** Whether an error of the file system means that the path leads to no regular file. */
export function isAbsence(error: unknown): boolean {
  return ABSENT.has(errorCode(error));
}

// with O_NONBLOCK, open() does not wait if the path leads to a named pipe
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** An open file. close() waits until the current read is complete, and may be called repeatedly. */
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

  /** Returns the number of bytes read, 0 at the end of the file. */
  async read(block: Uint8Array, length: number, position: number): Promise<number> {
    const { bytesRead } = await this.#handle.read(block, 0, length, position);
    return bytesRead;
  }

  /** Reads the whole content. The result is shorter than `size` if the file has become shorter. */
  async readAll(): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(this.size);
    let at = 0;
    for (let count = -1; at < this.size && count !== 0; at += count)
      count = (await this.#handle.read(bytes, at, this.size - at, at)).bytesRead;
    return bytes.subarray(0, at);
  }

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
 * Returns undefined if the path leads to no regular file. `followsLink` allows its last segment to be a link.
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
    throw error;
  }
}
