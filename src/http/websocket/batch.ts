/**
 * Frames that leave together: written one behind the other into one piece of memory, so that the replies to a chunk
 * cost one write and no object each (test/bench/websocket.ts: 16 in flight, text4KiB).
 *
 * The memory is one slab for all sockets of the process. Whoever writes owns its end; when another socket writes, what the
 * first one has written is a piece of its own. Once the kernel has taken a piece, the next one may have its place.
 */

/** Bytes, or text whose characters are its bytes. */
export type Chunk = Buffer | string;

const SLAB_BYTES = 262_144;
const NONE: Chunk[] = [];

let slab: Buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
let end = 0;
let owner: Batch | undefined;

/** More batches than these that nobody writes to are let go of. */
const MOST_SPARE = 64;
const spare: Batch[] = [];

/** What one socket has written and not sent. */
export class Batch {
  /** One for a socket that writes: those that do not have none (test/bench/websocket.ts: idle). */
  static take(): Batch {
    return spare.pop() ?? new Batch();
  }

  /** Takes one back whose pieces have been taken. */
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
        slab = Buffer.allocUnsafeSlow(SLAB_BYTES); // the old one lives as long as what is written in it
        end = 0;
      }
      owner = this;
      this.#start = end;
    }
    return end;
  }

  /** The memory that {@link reserve} speaks of. */
  get memory(): Buffer {
    return slab;
  }

  /** The frame ends here. */
  wrote(at: number): void {
    this.#bytes += at - end;
    end = at;
  }

  /** Adds what is not copied. */
  add(chunk: Chunk): void {
    if (owner === this) this.#cut();
    this.#push(chunk);
    this.#bytes += chunk.length;
  }

  /** Takes all pieces, in order. */
  take(): Chunk[] {
    if (owner === this) this.#cut();
    const chunks = this.#chunks;
    this.#chunks = NONE;
    this.#bytes = 0;
    return chunks;
  }

  /** Takes what waits, if it is a single piece of the slab. */
  takeOne(): Buffer | undefined {
    if (owner !== this || this.#chunks.length > 0) return undefined;
    owner = undefined;
    this.#bytes = 0;
    return slab.subarray(this.#start, end);
  }

  /** What {@link takeOne} gave last is nobody's any more: the kernel has it. */
  static release(chunk: Buffer): void {
    if (
      chunk.buffer === slab.buffer &&
      owner === undefined &&
      chunk.byteOffset + chunk.length === slab.byteOffset + end
    )
      end = chunk.byteOffset - slab.byteOffset;
  }

  /** Whether a piece lies in the memory that all share. */
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
