/**
 * Frames that leave together: written one after another into one buffer, so that the replies to a chunk cost one write and no object
 * each (test/bench/websocket.ts: 16 in flight, text4KiB).
 *
 * The buffer is one slab for all sockets of the process. The writing socket owns its end; when another socket writes, the bytes of
 * the first become a chunk of their own. After the kernel took a chunk, its space is reused.
 */

/** Bytes, or a string whose characters are bytes. */
export type Chunk = Buffer | string;

const SLAB_BYTES = 262_144;
const NONE: Chunk[] = [];

let slab: Buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
let end = 0;
let owner: Batch | undefined;

/** Limit of unused batches that are kept. */
const MOST_SPARE = 64;
const spare: Batch[] = [];

/** Bytes that one socket has written but not sent. */
export class Batch {
  /** Only for a socket that writes: idle ones have none (test/bench/websocket.ts: idle). */
  static take(): Batch {
    return spare.pop() ?? new Batch();
  }

  /** Takes back a batch whose chunks were taken. */
  static give(batch: Batch): void {
    if (spare.length < MOST_SPARE) spare.push(batch);
  }

  /** None of its own as long as there is none. */
  #chunks: Chunk[] = NONE;
  #start = 0;
  #bytes = 0;

  /** How many bytes wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Room for a frame of at most `most` bytes, as memory and place; {@link wrote} must follow at once. `most` is at most 128 KiB. */
  reserve(most: number): number {
    if (owner !== this || end + most > slab.length) {
      if (owner !== undefined) owner.#cut();
      if (end + most > slab.length) {
        slab = Buffer.allocUnsafeSlow(SLAB_BYTES); // the old slab lives as long as its chunks
        end = 0;
      }
      owner = this;
      this.#start = end;
    }
    return end;
  }

  /** The slab of {@link reserve}. */
  get memory(): Buffer {
    return slab;
  }

  /** The frame ends here. */
  wrote(at: number): void {
    this.#bytes += at - end;
    end = at;
  }

  /** Adds bytes without copying. */
  add(chunk: Chunk): void {
    if (owner === this) this.#cut();
    this.#push(chunk);
    this.#bytes += chunk.length;
  }

  /** Takes all chunks, in order. */
  take(): Chunk[] {
    if (owner === this) this.#cut();
    const chunks = this.#chunks;
    this.#chunks = NONE;
    this.#bytes = 0;
    return chunks;
  }

  /** Takes the waiting bytes if they are a single chunk of the slab. */
  takeOne(): Buffer | undefined {
    if (owner !== this || this.#chunks.length > 0) return undefined;
    owner = undefined;
    this.#bytes = 0;
    return slab.subarray(this.#start, end);
  }

  /** Frees the last result of {@link takeOne}: the kernel has it. */
  static release(chunk: Buffer): void {
    if (
      chunk.buffer === slab.buffer &&
      owner === undefined &&
      chunk.byteOffset + chunk.length === slab.byteOffset + end
    )
      end = chunk.byteOffset - slab.byteOffset;
  }

  /** Whether a chunk is part of the shared slab. */
  static holds(chunk: Chunk): chunk is Buffer {
    return typeof chunk !== 'string' && chunk.buffer === slab.buffer;
  }

  #cut(): void {
    if (end > this.#start) this.#push(slab.subarray(this.#start, end));
    owner = undefined;
  }

  #push(chunk: Chunk): void {
    if (this.#chunks === NONE) this.#chunks = [];
    this.#chunks.push(chunk);
  }
}
