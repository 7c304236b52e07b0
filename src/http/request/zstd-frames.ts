/**
 * Zstandard frames (RFC 8878 §3.1): bytes in, where each frame ends out. Decodes nothing; body-codings.ts does.
 *
 *   frame     = FD2FB528  descriptor:1  [window:1] [dictionary:1,2,4] [size:1,2,4,8]  { block }  [checksum:4]
 *   block     = last:1 type:2 size:21 (3 bytes)  content        of type RLE one byte of content, whatever the size
 *   skippable = 184D2A5?  size:4  content                                        all numbers are little-endian
 *
 * What is no frame has no end: whoever decodes it finds out.
 */
const MAGIC = 0xfd2fb528;
const SKIPPABLE_MAGIC = 0x184d2a5;
const MAGIC_BYTES = 4,
  SIZE_BYTES = 4,
  BLOCK_BYTES = 3,
  CHECKSUM_BYTES = 4;
const SINGLE_SEGMENT = 0x20,
  CHECKSUM = 0x04,
  DICTIONARY = 0x03;
const DICTIONARY_BYTES = [0, 1, 2, 4] as const;
const CONTENT_SIZE_BYTES = [0, 2, 4, 8] as const;
const LAST = 1,
  RLE = 1;

/** Follows frames through chunks, however they are cut. */
export class ZstdFrames {
  /** Reads the number that comes next, and says what follows. */
  #read: (value: number) => void = this.#magic;
  #wanted = MAGIC_BYTES;
  #value = 0;
  #got = 0;
  /** Bytes that nobody looks at. */
  #passing = 0;
  /** Whether the frame ends behind them. */
  #isEnding = false;
  #checksumBytes = 0;

  /** Where the frame ends whose next bytes are those at `start`: the index behind it, or the length of a chunk that it goes beyond. */
  endIn(chunk: Uint8Array, start: number): number {
    for (let at = start; at < chunk.length;) {
      if (this.#passing > 0) {
        const passed = Math.min(this.#passing, chunk.length - at);
        this.#passing -= passed;
        at += passed;
      } else {
        if (this.#read === this.#block && this.#got === 0) at = behindBlocks(chunk, at);
        if (at === chunk.length) break;
        this.#value |= chunk[at++]! << (8 * this.#got++);
        if (this.#got < this.#wanted) continue;
        const value = this.#value >>> 0; // four bytes have a sign until then
        this.#value = this.#got = 0;
        this.#read(value);
      }
      if (this.#passing > 0 || !this.#isEnding) continue;
      this.#isEnding = false;
      this.#expect(MAGIC_BYTES, this.#magic);
      return at;
    }
    return chunk.length;
  }

  #magic(value: number): void {
    if (value === MAGIC) this.#expect(1, this.#descriptor);
    else if (Math.floor(value / 16) === SKIPPABLE_MAGIC) this.#expect(SIZE_BYTES, this.#end);
    else this.#passing = Infinity;
  }

  #descriptor(value: number): void {
    const isSingle = (value & SINGLE_SEGMENT) !== 0;
    const sizeBytes = isSingle && value < 0x40 ? 1 : CONTENT_SIZE_BYTES[(value >> 6) & 3]!;
    this.#checksumBytes = (value & CHECKSUM) === 0 ? 0 : CHECKSUM_BYTES;
    this.#passing = (isSingle ? 0 : 1) + DICTIONARY_BYTES[value & DICTIONARY]! + sizeBytes;
    this.#expect(BLOCK_BYTES, this.#block);
  }

  #block(value: number): void {
    const content = contentOf(value);
    if ((value & LAST) !== 0) this.#end(content + this.#checksumBytes);
    else this.#passing = content;
  }

  /** So many bytes more. */
  #end(bytes: number): void {
    this.#passing = bytes;
    this.#isEnding = true;
  }

  #expect(bytes: number, read: (value: number) => void): void {
    this.#wanted = bytes;
    this.#read = read;
  }
}

/** Behind the blocks that stand in `chunk` whole, but for the last one of a frame: empty ones make millions of a body. */
function behindBlocks(chunk: Uint8Array, start: number): number {
  let at = start;
  while (at + BLOCK_BYTES <= chunk.length) {
    const head = chunk[at]! | (chunk[at + 1]! << 8) | (chunk[at + 2]! << 16);
    const end = at + BLOCK_BYTES + contentOf(head);
    if ((head & LAST) !== 0 || end > chunk.length) break;
    at = end;
  }
  return at;
}

function contentOf(blockHead: number): number {
  return ((blockHead >> 1) & 3) === RLE ? 1 : blockHead >> 3;
}
