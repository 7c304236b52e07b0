/**
 * A regular file that is open: what it was when it was opened, its bytes, and whether it is still the same.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { HTTPException } from '../../base/errors.ts';
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

/** What tells two states of a file apart. */
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

// a pipe put in its place blocks nobody
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** Closes itself after the last read under way, however often it is told to. */
export class OpenFile implements FileState {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ino: number;
  readonly #handle: FileHandle;
  #closing: Promise<void> | undefined;

  constructor(handle: FileHandle, { size, mtimeMs, ino }: Stats) {
    this.#handle = handle;
    this.size = size;
    this.mtimeMs = mtimeMs;
    this.ino = ino;
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

  /** Whether nobody has written to it since it was opened. */
  async isUnchanged(): Promise<boolean> {
    return isSameState(this, await this.#handle.stat());
  }

  /** Whether it was told to close. */
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
