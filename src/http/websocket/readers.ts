/**
 * Readers of frames that have nothing to read. A socket takes one with a chunk and gives it back behind the last whole message,
 * so that of ten thousand idle sockets none has one: 232 bytes each (test/bench/websocket.ts: idle).
 */
import { FrameReader } from './frames.ts';
import type { FrameSink } from './frames.ts';

/** More than these are let go of. */
const MOST_SPARE = 16;

/** The spare readers of one route. They inflate nothing. */
export class SpareReaders {
  readonly #maxMessageBytes: number;
  readonly #spare: FrameReader[] = [];

  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  /** One for this sink alone, until it gives it back; `ownsChunks` as in the options of a reader. */
  take(sink: FrameSink, ownsChunks: boolean): FrameReader {
    return (
      this.#spare.pop()?.serve(sink, ownsChunks) ??
      new FrameReader({ isMasked: true, maxMessageBytes: this.#maxMessageBytes, ownsChunks }, sink)
    );
  }

  /** Takes one back, at rest. */
  give(reader: FrameReader): void {
    if (this.#spare.length < MOST_SPARE) this.#spare.push(reader.serve(NOBODY, false));
  }
}

/** What nobody reads. */
const NOBODY: FrameSink = {
  onText: ignore,
  onBinary: ignore,
  onPing: ignore,
  onPong: ignore,
  onClose: ignore,
  onViolation: ignore,
};

function ignore(): void {
  /* nothing is read at rest */
}
