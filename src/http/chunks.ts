/**
 * Reads the chunks of a body. Pulls one chunk at a time from a source, and ends the source as soon as no more
 * chunks are wanted.
 *
 * iterate() returns a ChunkIterator of a source. prime() pulls its first chunk before the response starts. So
 * if the source fails at once, the response is an error.
 */
import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { currentContext, ignore } from '../base/promises.ts';
import { asBuffer, bytesOf } from '../base/bytes.ts';
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import type { ByteSource } from '../base/bytes.ts';
import type { Writable } from 'node:stream';

/** Whether a step of a source is a promise. */
export function isPending(step: ChunkStep | PromiseLike<ChunkStep>): step is PromiseLike<ChunkStep> {
  return typeof (step as { readonly then?: unknown }).then === 'function';
}

/**
 * Starts to read a source. Streams are read by two classes of this file, which end a stream at once. The
 * iterators of node and web streams would end it only when the next chunk has come.
 */
export function iterate(chunks: Chunks): ChunkIterator {
  if (chunks instanceof ReadableStream) return new WebChunks(chunks as ReadableStream<Chunk>);
  if (chunks instanceof Readable) return new NodeChunks(chunks);
  if (Symbol.asyncIterator in chunks) return chunks[Symbol.asyncIterator]();
  return chunks[Symbol.iterator]();
}

/**
 * Makes every step of a source run in the async context of the caller. Without this, a step would run in the
 * context of the server, which pulls it later.
 */
export function inContext(source: ChunkIterator): ChunkIterator {
  const run = currentContext();
  return {
    next: () => run(() => source.next()),
    return: () => run(() => source.return?.()),
  };
}

/** Ends a source that will not be read. */
export async function discard(chunks: Chunks): Promise<void> {
  await iterate(chunks).return?.();
}

/**
 * Checks the value of a step and returns it as a chunk: text unchanged, bytes of any kind as a `Uint8Array`.
 * @throws SvcError `E_STREAM` for other values
 */
export function checkedChunk(value: unknown): Chunk {
  if (typeof value === 'string') return value;
  const bytes = bytesOf(value);
  if (bytes !== undefined) return bytes;
  throw new SvcError('E_STREAM', [
    `the source yielded ${shown(value)}, but only strings and bytes can be sent`,
  ]);
}

class WebChunks implements ChunkIterator {
  readonly #reader: ReadableStreamDefaultReader<Chunk>;

  /** @throws SvcError `E_STREAM` for a stream that is being read already */
  constructor(stream: ReadableStream<Chunk>) {
    if (stream.locked)
      throw new SvcError('E_STREAM', ['the source is a stream that already has another reader']);
    this.#reader = stream.getReader();
  }

  next(): Promise<ChunkStep> {
    return this.#reader.read() as Promise<ChunkStep>;
  }
  return(): Promise<void> {
    return this.#reader.cancel();
  }
}

/**
 * Reader of FormData that Node encodes. Node's encoder continues after `cancel()`, and if it throws then, the
 * process ends. So if the form is not wanted (HEAD, or the client has left), `return()` reads it to its end
 * instead of cancelling it.
 */
class FormChunks extends WebChunks {
  override return(): Promise<void> {
    void this.#readOver();
    return Promise.resolve();
  }

  async #readOver(): Promise<void> {
    try {
      while ((await this.next()).done !== true);
    } catch {
      /* no caller waits for the rest of the form, so the error is ignored */
    }
  }
}

/** Returns the chunks of a FormData body, which Node encodes. */
export function formChunks(stream: ReadableStream<Uint8Array>): Chunks {
  // the cast only hides the type of return(), whose result `for await` does not use
  return { [Symbol.asyncIterator]: () => new FormChunks(stream) as ChunkIterator as AsyncIterator<Chunk> };
}

class NodeChunks implements ChunkIterator {
  readonly #stream: Readable;
  readonly #steps: AsyncIterator<Chunk, unknown>;
  #isEnded = false;

  constructor(stream: Readable) {
    this.#stream = stream;
    // without a listener an "error" event would end the process; next() reports the error to the reader
    stream.on('error', ignore);
    this.#steps = stream[Symbol.asyncIterator]() as AsyncIterator<Chunk, unknown>;
  }

  next(): Promise<ChunkStep> {
    return this.#steps.next().catch((error: unknown) => {
      if (!this.#isEnded) throw error;
      return { done: true, value: undefined };
    });
  }

  return(): void {
    this.#isEnded = true;
    this.#stream.destroy();
  }
}

/** Receives chunks that a source writes itself: a response that is being sent. */
export interface ChunkSink {
  write(chunk: Chunk): boolean;
  writeShared(chunk: SharedChunk): boolean;
  /** Bytes that are buffered because the client has not received them yet. */
  readonly writableLength: number;
  end(): unknown;
  destroy(): unknown;
}

/** Source of chunks without a known end, such as an event stream. */
export abstract class EndlessChunks implements ChunkIterator {
  #isTaken = false;

  /** Marks the source as read, and returns the source itself, which is also the iterator. */
  [Symbol.asyncIterator](): AsyncIterator<Chunk, unknown> {
    this.#isTaken = true;
    // the cast is safe: `for await` also accepts a step that is not a promise
    return this as unknown as AsyncIterator<Chunk, unknown>;
  }

  abstract next(): ChunkStep | PromiseLike<ChunkStep>;
  abstract return(): unknown;
  /** Ends the stream after the current chunk, without an error, because the server stops. */
  abstract finish(): void;
  /** Whether the source writes its chunks to `sink` itself from now on. If true, the server stops pulling. */
  attach(_sink: ChunkSink): boolean {
    return false;
  }

  /**
   * Ends the source if no code has begun to read it. That happens if middleware has sent another response
   * instead.
   */
  drop(): void {
    if (!this.#isTaken) Promise.try(() => this.return()).catch(ignore);
  }
}

/** Maximum number of empty chunks in a row that are pulled without waiting for the event loop. */
const MOST_EMPTY = 1_000;

/** A source whose first chunk has already been pulled. It can be read once. */
export class Primed implements ChunkIterator {
  readonly #source: ChunkIterator;
  #first: ChunkStep | undefined;
  #isTaken = false;
  #isEnded = false;

  constructor(source: ChunkIterator, first?: ChunkStep) {
    this.#source = source;
    this.#first = first;
  }

  /**
   * Lets middleware read the chunks with `for await`. The cast is safe: `for await` also accepts a step that
   * is not a promise.
   */
  [Symbol.asyncIterator](): AsyncIterator<Chunk, unknown> {
    return this as unknown as AsyncIterator<Chunk, unknown>;
  }

  next(): ChunkStep | PromiseLike<ChunkStep> {
    const first = this.#first;
    this.#isTaken = true;
    if (first === undefined) return this.#isEnded ? { done: true, value: undefined } : this.#source.next();
    this.#first = undefined;
    this.#isEnded ||= first.done === true;
    return first;
  }

  return(): unknown {
    if (this.#isEnded) return undefined;
    this.#isEnded = true;
    this.#first = undefined;
    return this.#source.return?.();
  }

  /**
   * Ends the source if no code has begun to read it. That happens if middleware has sent another response
   * instead.
   */
  drop(): void {
    if (!this.#isTaken) Promise.try(() => this.return()).catch(ignore);
  }
}

/**
 * Pulls the first chunk that is not empty. So if the source fails by then, the response can still be an
 * error. `announced` is the Content-Length, or -1 if unknown. When `signal` aborts, the source is ended at
 * once, and the result is returned without waiting for the source.
 *
 * @throws errors of the source, and SvcError `E_STREAM`
 */
export function prime(
  chunks: Chunks,
  announced: number,
  signal: AbortSignal | undefined,
): Primed | Promise<Primed> {
  if (chunks instanceof Primed) return chunks;
  const source = inContext(iterate(chunks));
  for (let empty = 0; ; empty++) {
    const step = source.next();
    if (isPending(step)) return unlessLeft(source, primeLater(source, step, announced), signal);
    if (isFirst(source, step, announced) || empty === MOST_EMPTY) return new Primed(source, step);
  }
}

async function primeLater(
  source: ChunkIterator,
  pending: PromiseLike<ChunkStep>,
  announced: number,
): Promise<Primed> {
  let step = await pending;
  while (!isFirst(source, step, announced)) step = await source.next();
  return new Primed(source, step);
}

function unlessLeft(
  source: ChunkIterator,
  priming: Promise<Primed>,
  signal: AbortSignal | undefined,
): Promise<Primed> {
  if (signal === undefined) return priming;
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      const rest = new Primed(source);
      // the caller already has its result, so an error of return() is ignored
      Promise.try(() => rest.return()).catch(ignore);
      resolve(rest);
    };
    signal.addEventListener('abort', leave, { once: true });
    priming.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}

/**
 * Whether a step is the first chunk with content, or the end of the body. Ends the source after an invalid
 * chunk.
 * @throws SvcError `E_STREAM`
 */
function isFirst(source: ChunkIterator, step: ChunkStep, announced: number): boolean {
  if (step.done === true) {
    if (announced > 0) throw lengthError(announced, 0);
    return true;
  }
  try {
    const { length } = checkedChunk(step.value);
    if (announced >= 0 && length > announced) throw lengthError(announced, length);
    return length !== 0;
  } catch (error) {
    // the caller gets `error`; an error of return() is ignored
    Promise.try(() => source.return?.()).catch(ignore);
    throw error;
  }
}

/** Joins all chunks. The source is ended after an invalid chunk. @throws errors of the source, and SvcError `E_STREAM`, also if the length differs from `announced` */
export async function gather(chunks: Chunks, announced: number): Promise<Buffer> {
  const all: Buffer[] = [];
  let length = 0;
  for await (const chunk of { [Symbol.asyncIterator]: () => iterate(chunks) as AsyncIterator<Chunk> }) {
    // the cast is safe: `for await` also accepts a step that is not a promise
    const checked = checkedChunk(chunk);
    const bytes = typeof checked === 'string' ? Buffer.from(checked) : asBuffer(checked);
    length += bytes.length;
    if (length > announced) throw lengthError(announced, length);
    all.push(bytes);
  }
  if (length < announced) throw lengthError(announced, length);
  return all.length === 1 ? all[0]! : Buffer.concat(all, length);
}

/** Error for a source that yields more or fewer bytes than its Content-Length announced. */
export function lengthError(announced: number, found: number): SvcError {
  return new SvcError('E_STREAM', [
    `contentLength is ${announced} bytes, but the source yielded ${found > announced ? `${found} or more` : found}`,
  ]);
}

/** A chunk: a string, sent as UTF-8, or bytes. */
export type Chunk = string | Uint8Array;
/** Values that can be sent as chunks: strings, buffers, and views of them. */
export type Chunks = AsyncIterable<string | ByteSource> | Iterable<string | ByteSource>;
/** The result of {@link ChunkIterator.next}: a value that {@link checkedChunk} must check, or the end. */
export type ChunkStep = IteratorResult<string | ByteSource, unknown>;

/** Iterator of chunks. */
export interface ChunkIterator {
  next(): ChunkStep | PromiseLike<ChunkStep>;
  /** Ends the source at once if possible, even while a chunk is awaited. */
  return?(): unknown;
}

/** Whether a body consists of chunks. */
export function isChunks(body: unknown): body is Chunks {
  return typeof body === 'object' && body !== null && !ArrayBuffer.isView(body);
}

/** Text that is sent to many clients. It is encoded for chunked coding only once. */
export class SharedChunk {
  /** Must not be empty: an empty chunk would end the body. */
  readonly text: string;
  #encoded: Buffer | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** The text as one chunk of the chunked transfer coding, which begins with the length (RFC 9112 §7.1). */
  get encoded(): Buffer {
    return (this.#encoded ??= Buffer.from(
      `${Buffer.byteLength(this.text).toString(16)}\r\n${this.text}\r\n`,
    ));
  }
}

/** Resolves when the stream accepts more data, or is destroyed. Then its listeners are removed. */
export function writable(stream: Writable): Promise<void> {
  // a destroyed stream may have emitted "close" already, and then no event would follow
  if (stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}
