/**
 * A piece of a body that goes to many clients: made into bytes once.
 */
import { Buffer } from 'node:buffer'; // the global of that name is a getter

/** Some text. */
export class SharedPiece {
  /** Not empty: that would be the end of a body. */
  readonly text: string;
  #chunk: Buffer | undefined;

  constructor(text: string) { this.text = text; }

  /** The text as a chunk of chunked coding, its length in front (RFC 9112 §7.1). */
  get chunk(): Buffer { return this.#chunk ??= Buffer.from(`${Buffer.byteLength(this.text).toString(16)}\r\n${this.text}\r\n`); }
}
