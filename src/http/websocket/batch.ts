/**
 * Batches of WebSocket frames: all replies to a received chunk are written into one buffer, and sent in one
 * write (test/bench/websocket.ts: 64Bx16, text4KiB).
 *
 * All sockets of the process write short frames into one shared buffer, the slab. The batch of a socket
 * refers to its part of the slab.
 */

/** Bytes, or a string that is written in Latin-1, one byte for each character. */
export type Chunk = Buffer | string;

const SLAB_BYTES = 262_144;
const NONE: Chunk[] = [];

let slab: Buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
let end = 0;
let owner: Batch | undefined;

/**
 * Encoded frames of one socket that are not sent yet. An idle socket has no batch, which saves memory
 * (test/bench/websocket.ts: idle).
 */
export class Batch {
  /** Chunks of the batch. All batches without chunks share the same empty list. */
  #chunks: Chunk[] = NONE;
  #start = 0;
  #bytes = 0;

  /** Number of bytes in the batch. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Reserves memory for a frame of at most `most` bytes (up to 128 KiB). Returns the offset of the frame in
   * {@link memory}. The caller must write the frame and call {@link wrote} before any other call.
   */
  reserve(most: number): number {
    if (owner !== this || end + most > slab.length) {
      if (owner !== undefined) owner.#cut();
      if (end + most > slab.length) {
        slab = Buffer.allocUnsafeSlow(SLAB_BYTES); // a new buffer, because chunks still refer to the old one
        end = 0;
      }
      owner = this;
      this.#start = end;
    }
    return end;
  }

  /** The shared buffer in which {@link reserve} has reserved memory. */
  get memory(): Buffer {
    return slab;
  }

  /** Records the end of the frame in the reserved memory. `at`: the offset after its last byte. */
  wrote(at: number): void {
    this.#bytes += at - end;
    end = at;
  }

  /** Adds bytes as a chunk, without copying them. */
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

  /**
   * If the batch is a single chunk in the shared buffer, removes and returns this chunk. Otherwise returns
   * undefined.
   */
  takeOne(): Buffer | undefined {
    if (owner !== this || this.#chunks.length > 0) return undefined;
    owner = undefined;
    this.#bytes = 0;
    return slab.subarray(this.#start, end);
  }

  /**
   * Frees the memory of a chunk from {@link takeOne}, if nothing was written after it. Call this when the
   * kernel has accepted the bytes.
   */
  static release(chunk: Buffer): void {
    if (
      chunk.buffer === slab.buffer &&
      owner === undefined &&
      chunk.byteOffset + chunk.length === slab.byteOffset + end
    )
      end = chunk.byteOffset - slab.byteOffset;
  }

  /** Whether a chunk is part of the shared buffer. */
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
