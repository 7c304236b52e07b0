/**
 * Bodies in pieces: what they are. Who reads them: pull-chunks.ts.
 */
import { Buffer } from 'node:buffer'; // the global of that name is a getter

/** Strings are sent as UTF-8, bytes as they are. */
export type Piece = string | Uint8Array;
/** What can be sent piece by piece. */
export type Pieces = AsyncIterable<Piece> | Iterable<Piece>;
/** What {@link PieceIterator.next} answers: a piece, or that there are no more. */
export type PieceStep = IteratorResult<Piece, unknown>;

/** What pieces are pulled from. */
export interface PieceIterator {
  next(): PieceStep | PromiseLike<PieceStep>;
  /** Ends the source, where it can at once: also while a piece is awaited. */
  return?(): unknown;
}

/** Whether a body comes in pieces. */
export function isPieces(body: unknown): body is Pieces {
  return typeof body === 'object' && body !== null && !(body instanceof Uint8Array);
}

/** Some text. */
export class SharedPiece {
  /** Not empty: that would be the end of a body. */
  readonly text: string;
  #chunk: Buffer | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** The text as a chunk of chunked coding, its length in front (RFC 9112 §7.1). */
  get chunk(): Buffer {
    return (this.#chunk ??= Buffer.from(`${Buffer.byteLength(this.text).toString(16)}\r\n${this.text}\r\n`));
  }
}
