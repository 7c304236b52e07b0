/**
 * Reads bodies in chunks: pulls one at a time from a source, and ends the source as soon as no reader wants more.
 *
 *   source - iterate() -> ChunkIterator - prime() -> Primed: its first chunk is there, or the source failed before a response was sent
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { ignore } from '../base/promises.ts';
import { bytesOf } from '../base/bytes.ts';
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import type { ByteSource } from '../base/bytes.ts';
import type { Writable } from 'node:stream';

/** Whether a step is a promise. */
export function isPending(step: ChunkStep | PromiseLike<ChunkStep>): step is PromiseLike<ChunkStep> {
  return typeof (step as { readonly then?: unknown }).then === 'function';
}

/**
 * Starts to read a source. The iterators of streams queue `return()`, so they would end only with the next chunk. Streams
 * therefore have their own readers.
 */
export function iterate(chunks: Chunks): ChunkIterator {
  if (chunks instanceof ReadableStream) return new WebChunks(chunks as ReadableStream<Chunk>);
  if (chunks instanceof Readable) return new NodeChunks(chunks);
  if (Symbol.asyncIterator in chunks) return chunks[Symbol.asyncIterator]();
  return chunks[Symbol.iterator]();
}

/** Runs the steps of a source in the async context of this call. The server pulls them later, in its own. */
export function inContext(source: ChunkIterator): ChunkIterator {
  const run = AsyncLocalStorage.snapshot();
  return {
    next: () => run(() => source.next()),
    return: () => run(() => source.return?.()),
  };
}

/** Ends a source that is not read. */
export async function discard(chunks: Chunks): Promise<void> {
  await iterate(chunks).return?.();
}

/** The chunk of a step: text unchanged, bytes as a `Uint8Array`. @throws SvcError `E_STREAM` for other values */
export function checkedChunk(value: unknown): Chunk {
  if (typeof value === 'string') return value;
  const bytes = bytesOf(value);
  if (bytes !== undefined) return bytes;
  throw new SvcError('E_STREAM', [
    `its source yielded ${shown(value)}, but only strings and bytes can be sent`,
  ]);
}

class WebChunks implements ChunkIterator {
  readonly #reader: ReadableStreamDefaultReader<Chunk>;

  /** @throws SvcError `E_STREAM` for a stream that is being read already */
  constructor(stream: ReadableStream<Chunk>) {
    if (stream.locked)
      throw new SvcError('E_STREAM', ['its source is a stream that already has another reader']);
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
 * FormData as encoded by Node. Its encoder continues after `cancel()`, and an error that it throws then ends the process. So a
 * form that is no longer needed, for HEAD or after the client left, is read to its end, which is in memory or in files.
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
      /* an unused form has no reader that could get the error */
    }
  }
}

/** The chunks of a form that Node encodes. */
export function formChunks(stream: ReadableStream<Uint8Array>): Chunks {
  return { [Symbol.asyncIterator]: () => new FormChunks(stream) as ChunkIterator as AsyncIterator<Chunk> }; // the result of its return() is not used
}

class NodeChunks implements ChunkIterator {
  readonly #stream: Readable;
  readonly #steps: AsyncIterator<Chunk, unknown>;
  #isEnded = false;

  constructor(stream: Readable) {
    this.#stream = stream;
    stream.on('error', ignore); // a pulling reader gets it; after return() it is ignored
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

/** Sink for chunks that are pushed instead of pulled: a response that is being sent. */
export interface ChunkSink {
  write(chunk: Chunk): boolean;
  writeShared(chunk: SharedChunk): boolean;
  /** Bytes that wait for the client. */
  readonly writableLength: number;
  end(): unknown;
  destroy(): unknown;
}

/** Chunks of an endless stream. */
export abstract class EndlessChunks implements ChunkIterator {
  #isTaken = false;

  /** Pulls them. */
  [Symbol.asyncIterator](): AsyncIterator<Chunk, unknown> {
    this.#isTaken = true;
    return this as unknown as AsyncIterator<Chunk, unknown>; // `for await` takes steps without promises, too
  }

  abstract next(): ChunkStep | PromiseLike<ChunkStep>;
  abstract return(): unknown;
  /** Ends the stream after the current chunk, without a failure: the server stops. */
  abstract finish(): void;
  /** Whether it writes to `sink` by itself from now on, so that pulling stops. */
  attach(_sink: ChunkSink): boolean {
    return false;
  }

  /** Ends the source if it is unread: another layer sent a different response. */
  drop(): void {
    if (!this.#isTaken) Promise.try(() => this.return()).catch(ignore);
  }
}

/** Empty chunks to pull in a row before yielding to the event loop. */
const MOST_EMPTY = 1_000;

/** Chunks whose first one was pulled. They can be read once. */
export class Primed implements ChunkIterator {
  readonly #source: ChunkIterator;
  #first: ChunkStep | undefined;
  #isTaken = false;
  #isEnded = false;

  constructor(source: ChunkIterator, first?: ChunkStep) {
    this.#source = source;
    this.#first = first;
  }

  /** For middleware that changes bodies; `for await` takes steps with and without promises. */
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

  /** Ends the source if it is unread: another layer sent a different response. */
  drop(): void {
    if (!this.#isTaken) Promise.try(() => this.return()).catch(ignore);
  }
}

/**
 * Pulls the first chunk that is not empty, so that a failing source becomes an error before the response starts.
 * `announced` is the Content-Length, or -1. When `signal` aborts, the source is ended without waiting for it.
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
      Promise.try(() => rest.return()).catch(ignore); // no caller is left for its errors
      resolve(rest);
    };
    signal.addEventListener('abort', leave, { once: true });
    priming.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}

/** Whether a step settles how the body begins. A source with an invalid chunk is ended. @throws SvcError `E_STREAM` */
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
    Promise.try(() => source.return?.()).catch(ignore); // `error` is reported
    throw error;
  }
}

/** Joins all chunks. The source is ended after an invalid chunk. @throws errors of the source, and SvcError `E_STREAM`, also if the length differs from `announced` */
export async function gather(chunks: Chunks, announced: number): Promise<Buffer> {
  const all: Buffer[] = [];
  let length = 0;
  for await (const chunk of { [Symbol.asyncIterator]: () => iterate(chunks) as AsyncIterator<Chunk> }) {
    // `for await` takes steps without promises, too
    const checked = checkedChunk(chunk);
    const bytes =
      typeof checked === 'string'
        ? Buffer.from(checked)
        : Buffer.from(checked.buffer, checked.byteOffset, checked.byteLength);
    length += bytes.length;
    if (length > announced) throw lengthError(announced, length);
    all.push(bytes);
  }
  if (length < announced) throw lengthError(announced, length);
  return all.length === 1 ? all[0]! : Buffer.concat(all, length);
}

/** Error for a source that yields more or less than announced. */
export function lengthError(announced: number, found: number): SvcError {
  return new SvcError('E_STREAM', [
    `contentLength is ${announced} bytes, but its source yielded ${found > announced ? `${found} or more` : found}`,
  ]);
}

/*
 * Types of chunked bodies. chunks.ts reads them.
 */

/** A chunk: a string, sent as UTF-8, or bytes. */
export type Chunk = string | Uint8Array;
/** Values that can be sent as chunks: strings, buffers, and views of them. */
export type Chunks = AsyncIterable<string | ByteSource> | Iterable<string | ByteSource>;
/** The result of {@link ChunkIterator.next}: a chunk for {@link checkedChunk}, or the end. */
export type ChunkStep = IteratorResult<string | ByteSource, unknown>;

/** Iterator of chunks. */
export interface ChunkIterator {
  next(): ChunkStep | PromiseLike<ChunkStep>;
  /** Ends the source at once if it can, even while a chunk is awaited. */
  return?(): unknown;
}

/** Whether a body consists of chunks. */
export function isChunks(body: unknown): body is Chunks {
  return typeof body === 'object' && body !== null && !ArrayBuffer.isView(body);
}

/** Some text. */
export class SharedChunk {
  /** Not empty: that would be the end of a body. */
  readonly text: string;
  #encoded: Buffer | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** The text as a chunk of chunked coding, its length in front (RFC 9112 §7.1). */
  get encoded(): Buffer {
    return (this.#encoded ??= Buffer.from(
      `${Buffer.byteLength(this.text).toString(16)}\r\n${this.text}\r\n`,
    ));
  }
}

/*
 * Back-pressure: waiting until a stream takes more.
 */

/** Resolves when the stream can take more, or is destroyed. It removes its listeners. */
export function writable(stream: Writable): Promise<void> {
  if (stream.destroyed) return Promise.resolve(); // "close" may have been emitted already
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}
