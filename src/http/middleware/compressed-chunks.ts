/**
 * Pieces, compressed as they are sent. What has been given goes out before anything is waited for, so that a stream stays a
 * stream: a source that has its next piece at once fills a block, one that is silent gets all it gave to the client.
 */
import { EndlessChunks, checkedChunk, discard, ignore, isPending, iterate } from '../chunks.ts';
import type { Transform } from 'node:stream';
import type { Coder } from '../content-codings.ts';
import type { ChunkIterator, ChunkStep, Chunks } from '../chunks.ts';

const DONE: ChunkStep = Object.freeze({ done: true, value: undefined });

/** Compresses the pieces of another body. */
export class CompressedChunks extends EndlessChunks {
  readonly #chunks: Chunks;
  readonly #coder: Coder;
  readonly #isEager: boolean;
  readonly #onEnd: () => void;
  #source: ChunkIterator | undefined;
  #encoder: Encoder | undefined;
  /** What the source was asked for while what it had given went out. */
  #asked: PromiseLike<ChunkStep> | undefined;
  /** Whether the encoder holds something back. */
  #isDirty = false;
  #isOver = false;

  /** `isEager`: each piece is a message, and goes out without waiting for another. `onEnd` is called once. */
  constructor(
    chunks: Chunks,
    {
      coder,
      isEager,
      onEnd,
    }: { readonly coder: Coder; readonly isEager: boolean; readonly onEnd: () => void },
  ) {
    super();
    this.#chunks = chunks;
    this.#coder = coder;
    this.#isEager = isEager;
    this.#onEnd = onEnd;
  }

  async next(): Promise<ChunkStep> {
    const source = (this.#source ??= iterate(this.#chunks));
    const encoder = (this.#encoder ??= new Encoder(this.#coder));
    while (!this.#isOver) {
      let step = this.#asked ?? source.next();
      if (isPending(step)) {
        const early = await this.#flushBefore(step, encoder);
        if (early !== undefined) return { done: false, value: early };
        step = await step;
        this.#asked = undefined;
      }
      const coded =
        step.done === true ? await this.#finish(encoder) : await encoder.write(checkedChunk(step.value));
      this.#isDirty = true;
      if (coded.length > 0) return { done: false, value: coded };
    }
    return DONE;
  }

  return(): unknown {
    if (this.#source === undefined) return this.#end() ? discard(this.#chunks) : undefined;
    return this.#end() ? this.#source.return?.() : undefined;
  }

  finish(): void {
    if (this.#chunks instanceof EndlessChunks) this.#chunks.finish();
  }

  /** What the encoder holds back, if the source lets it wait. */
  async #flushBefore(step: PromiseLike<ChunkStep>, encoder: Encoder): Promise<Buffer | undefined> {
    if (!this.#isDirty) return undefined;
    this.#asked = step;
    step.then(undefined, ignore); // told to whoever asks again
    if (!this.#isEager && (await isReady(step))) return undefined;
    this.#isDirty = false;
    const coded = await encoder.flush();
    return coded.length === 0 ? undefined : coded;
  }

  async #finish(encoder: Encoder): Promise<Buffer> {
    const coded = await encoder.finish();
    this.#end();
    return coded;
  }

  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#encoder?.close();
    this.#onEnd();
    return true;
  }
}

/** Whether a step is there within a turn of the event loop. */
function isReady(step: PromiseLike<ChunkStep>): Promise<boolean> {
  return new Promise((resolve) => {
    step.then(
      () => resolve(true),
      () => resolve(true),
    );
    setImmediate(() => resolve(false));
  });
}

/** A stream of node:zlib as three questions with answers. */
class Encoder {
  readonly #stream: Transform & { flush?(kind: number, done: () => void): void };
  readonly #flush: number;
  #chunks: Buffer[] = [];

  constructor({ stream, flush }: Coder) {
    this.#stream = stream();
    this.#flush = flush;
    this.#stream.on('data', (chunk: Buffer) => this.#chunks.push(chunk)).on('error', ignore); // told by the call that fails
  }

  write(chunk: string | Uint8Array): Promise<Buffer> {
    return this.#ask((done) => this.#stream.write(chunk, done));
  }

  /** All that it holds back. */
  flush(): Promise<Buffer> {
    return this.#ask((done) => this.#stream.flush!(this.#flush, done));
  }

  /** The rest. */
  finish(): Promise<Buffer> {
    return this.#ask((done) => {
      this.#stream.once('end', done).end();
    });
  }

  close(): void {
    this.#stream.destroy();
  }

  #ask(how: (done: (error?: Error | null) => void) => void): Promise<Buffer> {
    if (this.#stream.destroyed) return Promise.resolve(EMPTY); // while a piece was awaited, which is no failure
    return new Promise((resolve, reject) => {
      const lose = (): void => resolve(EMPTY); // it was closed, and nobody waits any more
      this.#stream.once('close', lose);
      how((error) => {
        this.#stream.off('close', lose);
        if (error !== undefined && error !== null) reject(error);
        else resolve(this.#take());
      });
    });
  }

  #take(): Buffer {
    while (this.#stream.read() !== null); // what has not been told by "data" yet is told now
    const chunks = this.#chunks;
    this.#chunks = [];
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  }
}

const EMPTY = Buffer.alloc(0);
