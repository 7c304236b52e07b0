/**
 * Bodies in pieces: what they are. Who reads them: pull-pieces.ts.
 */

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
