/**
 * Batches of frames: frames are written one after another into one buffer. So all replies to a received chunk
 * need only one write, and no object for each reply (test/bench/websocket.ts: 16 in flight, text4KiB).
 *
 * The buffer is one slab for all sockets of the process, and the socket that is writing owns its end. When
 * another socket writes, the bytes of the first one become a chunk, and the second one writes after it. When
 * the kernel has accepted the last chunk, its memory is used again.
 */

/** Bytes, or a string of Latin-1 characters. */
export type Chunk = Buffer | string;

const SLAB_BYTES = 262_144;
const NONE: Chunk[] = [];

let slab: Buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
let end = 0;
let owner: Batch | undefined;

/**
 * Bytes that one socket has written but not sent. Only a socket that is writing has a batch
 * (test/bench/websocket.ts: idle).
 */
export class Batch {
  /** Chunks of the batch. All batches without chunks share one empty list. */
  #chunks: Chunk[] = NONE;
  #start = 0;
  #bytes = 0;

  /** Number of bytes in the batch. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Reserves memory for a frame of at most `most` bytes (up to 128 KiB), and returns its offset in {@link
   * memory}. The caller must at once write the frame, and then call {@link wrote}.
   */
  reserve(most: number): number {
    if (owner !== this || end + most > slab.length) {
      if (owner !== undefined) owner.#cut();
      if (end + most > slab.length) {
        slab = Buffer.allocUnsafeSlow(SLAB_BYTES); // the old slab stays in memory as long as chunks use it
        end = 0;
      }
      owner = this;
      this.#start = end;
    }
    return end;
  }

  /** The shared slab, in which {@link reserve} has reserved memory. */
  get memory(): Buffer {
    return slab;
  }

  /** Ends the frame that was written into the reserved memory. `at`: the offset of its end. */
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

  /** Removes and returns all chunks, in order. */
  take(): Chunk[] {
    if (owner === this) this.#cut();
    const chunks = this.#chunks;
    this.#chunks = NONE;
    this.#bytes = 0;
    return chunks;
  }

  /** If all bytes are one chunk of the slab, removes and returns them; otherwise returns undefined. */
  takeOne(): Buffer | undefined {
    if (owner !== this || this.#chunks.length > 0) return undefined;
    owner = undefined;
    this.#bytes = 0;
    return slab.subarray(this.#start, end);
  }

  /**
   * Makes the memory of the last {@link takeOne} free again. Call it when the kernel has accepted the bytes.
   */
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
