/**
 * A body in pieces whose bytes are counted while it is sent.
 */
import { EndlessPieces, isPending, iterate } from './pull-pieces.ts';
import type { PieceIterator, PieceStep, Pieces } from './pieces.ts';

/** The pieces as they are; `onBytes` is told of each how many bytes it has. To be read once. Those that have no end are told when the server stops. */
export class CountedPieces extends EndlessPieces {
  readonly #pieces: Pieces;
  readonly #onBytes: (bytes: number) => void;
  #source: PieceIterator | undefined;

  constructor(pieces: Pieces, onBytes: (bytes: number) => void) {
    super();
    this.#pieces = pieces;
    this.#onBytes = onBytes;
  }

  next(): PieceStep | PromiseLike<PieceStep> {
    const step = this.#begun().next();
    return isPending(step) ? step.then((settled) => this.#count(settled)) : this.#count(step);
  }

  return(): unknown { return this.#begun().return?.(); }

  finish(): void {
    if (this.#pieces instanceof EndlessPieces) this.#pieces.finish();
  }

  #begun(): PieceIterator { return this.#source ??= iterate(this.#pieces); }

  #count(step: PieceStep): PieceStep {
    if (step.done !== true) this.#onBytes(typeof step.value === 'string' ? Buffer.byteLength(step.value) : step.value?.byteLength ?? 0); // what is no piece is refused by whoever sends
    return step;
  }
}
