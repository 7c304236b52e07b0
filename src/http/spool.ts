/**
 * A temporary file without a name: bytes are appended, and read anywhere.
 *
 * It is made for its owner alone (0600), and unlinked before the first byte is written, so that a process that is killed leaves
 * nothing behind. Where a system cannot unlink an open file, close() removes it.
 */
import { randomBytes } from 'node:crypto';
import { unlinkSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ByteQueue } from '../bytes.ts';
import { HTTPException, SvcError } from '../errors.ts';
import type { FileHandle } from 'node:fs/promises';

/** What is written at once. */
const BLOCK_BYTES = 262_144;
/** How many pieces are written at once: fewer than any system's IOV_MAX. */
const MAX_PIECES = 256;

/** The file is made with the first flush(). */
export class Spool {
  readonly #directory: string;
  readonly #pending = new ByteQueue();
  #handle: FileHandle | undefined;
  /** There where the open file could not be unlinked. */
  #path: string | undefined;
  #written = 0;
  /** Written or pending. */
  length = 0;

  constructor(directory: string) { this.#directory = directory; }

  get pending(): number { return this.#pending.length; }

  push(piece: Uint8Array): void {
    this.#pending.push(piece);
    this.length += piece.length;
  }

  async flush(isAll: boolean): Promise<void> {
    try {
      const handle = this.#handle ??= await this.#open();
      while (this.#pending.length >= BLOCK_BYTES || (isAll && this.#pending.length > 0)) await this.#writeBlock(handle);
    } catch (error) {
      throw this.#failure(error as NodeJS.ErrnoException);
    }
  }

  /** Chunks are written as they are: joining them would make as much garbage again. */
  async #writeBlock(handle: FileHandle): Promise<void> {
    let pieces: Uint8Array[] = [];
    let length = 0;
    while (length < BLOCK_BYTES && pieces.length < MAX_PIECES && this.#pending.length > 0) {
      const piece = this.#pending.takeChunk()!;
      pieces.push(piece);
      length += piece.length;
    }
    while (pieces.length > 0) {
      const { bytesWritten } = await handle.writev(pieces, this.#written);
      this.#written += bytesWritten;
      pieces = behind(pieces, bytesWritten);
    }
  }

  async read(position: number, length: number): Promise<Uint8Array> {
    const bytes = Buffer.allocUnsafeSlow(length);
    for (let at = 0; at < length;) {
      const { bytesRead } = await this.#handle!.read(bytes, at, length - at, position + at);
      if (bytesRead === 0) throw new Error('The temporary file of a form has lost its end');
      at += bytesRead;
    }
    return bytes;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    if (this.#path !== undefined) await rm(this.#path, { force: true });
  }

  async #open(): Promise<FileHandle> {
    const path = join(this.#directory, `svc-upload-${randomBytes(16).toString('hex')}`);
    const handle = await open(path, 'wx+', 0o600);
    try {
      unlinkSync(path); // at once: a process that is killed before leaves an empty file
    } catch {
      this.#path = path;
    }
    return handle;
  }

  /** A full disk is no mistake of the client's, nor of the code. */
  #failure(error: NodeJS.ErrnoException): unknown {
    if (error.code === 'ENOSPC' || error.code === 'EDQUOT') return new HTTPException(507, 'There is no room for the files of this form', { cause: error });
    if (error.code === 'EMFILE' || error.code === 'ENFILE') return new HTTPException(503, 'There are too many uploads at the moment', { cause: error, headers: { 'Retry-After': '5' } });
    return this.#handle === undefined ? new SvcError('E_UPLOAD_DIRECTORY', [this.#directory, error.code ?? error.message], { cause: error }) : error;
  }
}

/** What is left of the pieces when so many bytes have been written. */
function behind(pieces: readonly Uint8Array[], written: number): Uint8Array[] {
  let left = written;
  return pieces.flatMap((piece) => {
    const skipped = Math.min(left, piece.length);
    left -= skipped;
    return skipped === piece.length ? [] : [piece.subarray(skipped)];
  });
}
