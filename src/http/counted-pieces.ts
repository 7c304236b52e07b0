/**
 * A body in pieces whose bytes are counted while it is sent.
 */
import { isPending, iterate } from './pull-pieces.ts';
import type { Piece, PieceIterator, PieceStep, Pieces } from './pieces.ts';

/** The pieces as they are; `onBytes` is told of each how many bytes it has. To be read once. */
export class CountedPieces implements PieceIterator {
  readonly #pieces: Pieces;
  readonly #onBytes: (bytes: number) => void;
  #source: PieceIterator | undefined;

  constructor(pieces: Pieces, onBytes: (bytes: number) => void) {
    this.#pieces = pieces;
    this.#onBytes = onBytes;
  }

  /** Its steps may be there without a promise, which `for await` takes, too. */
  [Symbol.asyncIterator](): AsyncIterator<Piece, unknown> { return this as unknown as AsyncIterator<Piece, unknown>; }

  next(): PieceStep | PromiseLike<PieceStep> {
    const step = this.#begun().next();
    return isPending(step) ? step.then((settled) => this.#count(settled)) : this.#count(step);
  }

  return(): unknown { return this.#begun().return?.(); }

  #begun(): PieceIterator { return this.#source ??= iterate(this.#pieces); }

  #count(step: PieceStep): PieceStep {
    if (step.done !== true) this.#onBytes(typeof step.value === 'string' ? Buffer.byteLength(step.value) : step.value?.byteLength ?? 0); // what is no piece is refused by whoever sends
    return step;
  }
}
