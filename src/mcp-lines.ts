/**
 * Bytes → lines: what arrives in pieces of any size, one text for each line feed.
 *
 *   line = UTF-8 without line feed; a carriage return at its end is none of it; empty lines are none
 *
 * A line beyond the limit is dropped up to its end, and told once; so is one that is no UTF-8.
 */
import { isUtf8 } from 'node:buffer';

/** What becomes of a line. */
export interface LineHandler {
  onLine(text: string): void;
  /** It cannot be read. */
  onBadLine(problem: 'long' | 'encoding'): void;
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/** Reads lines out of pieces. */
export class LineReader {
  readonly #maxBytes: number;
  readonly #handler: LineHandler;
  #pieces: Uint8Array[] = [];
  #length = 0;
  /** The rest of the line is passed over. */
  #isDropping = false;

  constructor(maxBytes: number, handler: LineHandler) {
    this.#maxBytes = maxBytes;
    this.#handler = handler;
  }

  /** The next bytes. They must not be written to afterwards. */
  push(piece: Uint8Array): void {
    let start = 0;
    for (let end = piece.indexOf(LINE_FEED); end !== -1; end = piece.indexOf(LINE_FEED, start)) {
      this.#add(piece.subarray(start, end));
      this.#endLine();
      start = end + 1;
    }
    if (start < piece.length) this.#add(piece.subarray(start));
  }

  /** Nothing more comes: what is left is a line without its end. */
  end(): void {
    if (this.#length > 0 || this.#isDropping) this.#endLine();
  }

  #add(part: Uint8Array): void {
    if (this.#isDropping || part.length === 0) return;
    this.#length += part.length;
    if (this.#length <= this.#maxBytes) this.#pieces.push(part);
    else {
      this.#isDropping = true;
      this.#pieces = [];
      this.#handler.onBadLine('long');
    }
  }

  #endLine(): void {
    const bytes = Buffer.concat(this.#pieces);
    const isDropped = this.#isDropping;
    this.#pieces = [];
    this.#length = 0;
    this.#isDropping = false;
    if (isDropped) return;
    const line = bytes.at(-1) === CARRIAGE_RETURN ? bytes.subarray(0, -1) : bytes;
    if (line.length === 0) return;
    if (isUtf8(line)) this.#handler.onLine(line.toString());
    else this.#handler.onBadLine('encoding');
  }
}
