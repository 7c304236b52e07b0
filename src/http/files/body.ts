/**
 * The content of an open file on its way out: whole, a slice, or several with texts between them.
 *
 * Sent to a socket, two blocks of a pool take turns, one read while the other is written: a fresh block costs a page fault
 * per 4 KiB (test/bench/static.ts). Whoever iterates instead gets blocks of its own. A file that is changed meanwhile ends
 * with an error before its last bytes, so that the client sees an answer that is not whole.
 */
import { ClientDisconnected } from '../../base/errors.ts';
import { lengthOf } from './ranges.ts';
import type { ServerResponse } from 'node:http';
import type { OpenFile } from './open.ts';
import type { Slice } from './ranges.ts';

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
