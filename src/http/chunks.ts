/**
 * Reads a response body chunk by chunk from its source: an iterable, an async iterable or a stream. Ends the
 * source as soon as no further chunk is needed.
 *
 * prime() reads the first chunk before the response starts. If the source fails by then, the client gets an
 * error response.
 */
import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { systemClock } from '../base/clock.ts';
import { currentContext, ignore, nextTurn, promised, within } from '../base/promises.ts';
import { asBuffer, bytesOf } from '../base/bytes.ts';
import { SvcError, errorAfter } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import type { ByteSource } from '../base/bytes.ts';
import type { Writable } from 'node:stream';

/** Returns whether the result of {@link ChunkIterator.next} is a promise. */
export function isPending(step: ChunkStep | PromiseLike<ChunkStep>): step is PromiseLike<ChunkStep> {
  return typeof (step as { readonly then?: unknown }).then === 'function';
}

/**
 * Returns an iterator over the chunks of a source. If the source is a stream, return() ends the stream at
 * once. Node's own iterators would first wait for the next chunk.
 */
export function iterate(chunks: Chunks): ChunkIterator {
  if (chunks instanceof ReadableStream) return new WebChunks(chunks as ReadableStream<Chunk>);
  if (chunks instanceof Readable) return new NodeChunks(chunks);
  if (Symbol.asyncIterator in chunks) return chunks[Symbol.asyncIterator]();
  return chunks[Symbol.iterator]();
}

/** Time in milliseconds that a source has to end after its response has ended early. */
export const LAST_WORDS_MS = 1_000;

/**
 * Calls a source in the AsyncLocalStorage context of the constructor, even if another context reads the
 * chunks. Remembers whether the source was ended early, so that clean-ups can wait until it has ended.
 */
export class OwnedSource implements ChunkIterator {
  readonly #source: ChunkIterator;
  readonly #run = currentContext();
  #ending: Promise<unknown> | undefined;

  constructor(source: ChunkIterator) {
    this.#source = source;
  }

  next(): ChunkStep | PromiseLike<ChunkStep> {
    return this.#run(() => this.#source.next());
  }

  return(): Promise<unknown> {
    return (this.#ending ??= promised(() => this.#run(() => this.#source.return?.())));
  }

  /** Resolves when return() has ended the source, at the latest after LAST_WORDS_MS. */
  async ended(): Promise<void> {
    // not the clock of the application: a test that never advances it would wait forever
    if (this.#ending !== undefined)
      await within<unknown, void>(systemClock, LAST_WORDS_MS, this.#ending.catch(ignore), ignore);
  }
}

/** Ends a source that will not be read. The source then frees its resources. */
export async function discard(chunks: Chunks): Promise<void> {
  await iterate(chunks).return?.();
}

/** Checks a chunk that a source yielded. Returns text unchanged, and bytes of any type as a `Uint8Array`. */
export function checkedChunk(value: unknown): Chunk {
  if (typeof value === 'string') return value;
  const bytes = bytesOf(value);
  if (bytes !== undefined) return bytes;
  throw new SvcError('E_STREAM', [
    `the response body yielded ${shown(value)}, but can only contain strings and bytes`,
  ]);
}

class WebChunks implements ChunkIterator {
  readonly #reader: ReadableStreamDefaultReader<Chunk>;

  constructor(stream: ReadableStream<Chunk>) {
    if (stream.locked)
      throw new SvcError('E_STREAM', ['the stream is locked, because another reader already reads it']);
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
 * Reads a FormData body that Node encodes. After `cancel()`, an error in Node's encoder would end the
 * process. So `return()` reads the rest of the form instead.
 */
class FormChunks extends WebChunks {
  override return(): Promise<void> {
    void this.#readRest();
    return Promise.resolve();
  }

  async #readRest(): Promise<void> {
    try {
      while ((await this.next()).done !== true);
    } catch {
      /* the error is ignored, because the rest of the form is not sent anyway */
    }
  }
}

/** Returns the chunks of `stream`, a FormData body that Node has encoded. */
export function formChunks(stream: ReadableStream<Uint8Array>): Chunks {
  return { [Symbol.asyncIterator]: () => new FormChunks(stream) as ChunkIterator as AsyncIterator<Chunk> };
}

class NodeChunks implements ChunkIterator {
  readonly #stream: Readable;
  readonly #steps: AsyncIterator<Chunk, unknown>;
  #isEnded = false;

  constructor(stream: Readable) {
    this.#stream = stream;
    // Without a listener, an "error" event would end the process. The reader gets the error from next().
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

/**
 * Output of a response, to which an {@link EndlessChunks} source such as an event stream writes its chunks
 * directly.
 */
export interface ChunkSink {
  write(chunk: Chunk): boolean;
  writeShared(chunk: SharedChunk): boolean;
  /** Number of buffered bytes, which the client has not received yet. */
  readonly writableLength: number;
  end(): unknown;
  destroy(): unknown;
}

/** Work without a known end, which ends when the server or the application stops. */
export interface Endless {
  /**
   * Ends the work. The signal of its request aborts with `reason`. May return a promise that resolves when the
   * work has ended.
   */
  finish(reason: Error): void | Promise<void>;
}

/** A source of chunks without a known end, such as an event stream. */
export abstract class EndlessChunks implements ChunkIterator, Endless {
  #isTaken = false;

  /** Marks the source as read, and returns the source, which is its own iterator. */
  [Symbol.asyncIterator](): AsyncIterator<Chunk, unknown> {
    this.#isTaken = true;
    return this as unknown as AsyncIterator<Chunk, unknown>;
  }

  abstract next(): ChunkStep | PromiseLike<ChunkStep>;
  abstract return(): unknown;
  /** Whether {@link finish} ends the source. False for {@link PassedChunks} of a finite source. */
  get isEndless(): boolean {
    return true;
  }

  /** Ends the stream after the current chunk, without an error. */
  abstract finish(reason: Error): void | Promise<void>;
  /**
   * Lets the source write its chunks directly to `sink`. Returns false if the source does not support this;
   * the server then reads the chunks with next().
   */
  attach(_sink: ChunkSink): boolean {
    return false;
  }

  /**
   * Called after the request. Ends the source if it was never read, for example because middleware has sent
   * another response, or if the response failed with the error `outcome`. May return a promise that resolves
   * when the source has ended.
   */
  drop(outcome?: unknown): void | Promise<void> {
    if (!this.#isTaken || outcome !== undefined) Promise.try(() => this.return()).catch(ignore);
  }
}

/** Chunks that are made from the chunks of another source. */
export abstract class PassedChunks extends EndlessChunks {
  protected readonly chunks: Chunks;

  constructor(chunks: Chunks) {
    super();
    this.chunks = chunks;
  }

  override get isEndless(): boolean {
    return this.chunks instanceof EndlessChunks && this.chunks.isEndless;
  }

  finish(reason: Error): void | Promise<void> {
    return this.chunks instanceof EndlessChunks ? this.chunks.finish(reason) : undefined;
  }
}

/** Maximum number of empty chunks that prime() skips: more would block the event loop. */
const MOST_EMPTY = 1_000;

/** Yields the first chunk of a source, which was already read, and then the rest. */
export class Primed implements ChunkIterator {
  readonly #source: OwnedSource;
  #first: ChunkStep | undefined;
  #isTaken = false;
  #isEnded = false;

  constructor(source: OwnedSource, first?: ChunkStep) {
    this.#source = source;
    this.#first = first;
  }

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
    return this.#source.return();
  }

  /** Called after the request, see {@link EndlessChunks.drop}. Resolves when the source has ended. */
  drop(outcome?: unknown): Promise<void> {
    if (!this.#isTaken || outcome !== undefined) void this.return();
    return this.#source.ended();
  }
}

/**
 * Reads the first chunk that is not empty, before the response starts. If the source fails by then, an error
 * response can still be sent. `announced` is the Content-Length, or -1 if unknown. When `signal` aborts,
 * prime() ends the source and resolves at once.
 * @throws errors of the source, and SvcError `E_STREAM` when the chunk is neither text nor bytes, or has a
 * length that contradicts `announced`
 */
export function prime(
  chunks: Chunks,
  announced: number,
  signal: AbortSignal | undefined,
): Primed | Promise<Primed> {
  if (chunks instanceof Primed) return chunks;
  const source = new OwnedSource(iterate(chunks));
  for (let empty = 0; ; empty++) {
    const step = source.next();
    if (isPending(step)) return unlessLeft(source, primeLater(source, step, announced), signal);
    try {
      if (isFirst(step, announced) || empty === MOST_EMPTY) return new Primed(source, step);
    } catch (error) {
      return failed(source, error);
    }
  }
}

/** Ends a source because of `error`. @throws `error`, or an error of the source's end with `error` as its cause */
async function failed(source: ChunkIterator, error: unknown): Promise<never> {
  throw await errorOfEnd(() => source.return?.(), error);
}

/**
 * Calls `end`, which ends a source after `error`. Returns `error`, or the error of `end` with `error` as its
 * cause. Waits for one turn of the event loop only, because a source may never end.
 */
export async function errorOfEnd(end: () => unknown, error: unknown): Promise<unknown> {
  let last = error;
  Promise.try(end).catch((failure: unknown) => {
    last = errorAfter(failure, error);
  });
  await nextTurn();
  return last;
}

async function primeLater(
  source: OwnedSource,
  pending: PromiseLike<ChunkStep>,
  announced: number,
): Promise<Primed> {
  for (let step = await pending; ; step = await source.next()) {
    try {
      if (isFirst(step, announced)) return new Primed(source, step);
    } catch (error) {
      return failed(source, error);
    }
  }
}

function unlessLeft(
  source: OwnedSource,
  priming: Promise<Primed>,
  signal: AbortSignal | undefined,
): Promise<Primed> {
  if (signal === undefined) return priming;
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      const rest = new Primed(source);
      void rest.return(); // an error of return() is ignored, because the request was aborted
      resolve(rest);
    };
    signal.addEventListener('abort', leave, { once: true });
    priming.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}

/** Returns whether `step` is the first chunk that is not empty, or the end of the source. */
function isFirst(step: ChunkStep, announced: number): boolean {
  if (step.done === true) {
    if (announced > 0) throw lengthError(announced, 0);
    return true;
  }
  const { length } = checkedChunk(step.value);
  if (announced >= 0 && length > announced) throw lengthError(announced, length);
  return length !== 0;
}

/** Reads a source to its end, and returns its chunks as one buffer. Ends the source after an invalid chunk. */
export async function gather(chunks: Chunks, announced: number): Promise<Buffer> {
  const all: Buffer[] = [];
  let length = 0;
  for await (const chunk of { [Symbol.asyncIterator]: () => iterate(chunks) as AsyncIterator<Chunk> }) {
    const checked = checkedChunk(chunk);
    const bytes = typeof checked === 'string' ? Buffer.from(checked) : asBuffer(checked);
    length += bytes.length;
    if (length > announced) throw lengthError(announced, length);
    all.push(bytes);
  }
  if (length < announced) throw lengthError(announced, length);
  return all.length === 1 ? all[0]! : Buffer.concat(all, length);
}

/** Returns the error for a source that yields more or fewer bytes than its Content-Length announced. */
export function lengthError(announced: number, found: number): SvcError {
  return new SvcError('E_STREAM', [
    `contentLength is ${announced} bytes, but the response body has ${found > announced ? `at least ${found}` : found} bytes`,
  ]);
}

/** One chunk of a body: bytes, or a string that is sent as UTF-8. */
export type Chunk = string | Uint8Array;
/** Source of a response body. Its chunks are strings, buffers or typed arrays. */
export type Chunks = AsyncIterable<string | ByteSource> | Iterable<string | ByteSource>;
/** Result of {@link ChunkIterator.next}: a chunk that is not checked yet, or the end of the body. */
export type ChunkStep = IteratorResult<string | ByteSource, unknown>;

/** Iterator over the chunks of a source. next() may return its result without a promise. */
export interface ChunkIterator {
  next(): ChunkStep | PromiseLike<ChunkStep>;
  /** Ends the source. A stream ends at once, even while a promise of next() is pending. */
  return?(): unknown;
}

export function isChunks(body: unknown): body is Chunks {
  return typeof body === 'object' && body !== null && !ArrayBuffer.isView(body);
}

/** Text of an event that is sent to many clients. It is encoded only once for all of them. */
export class SharedChunk {
  /** Must not be empty, because an empty chunk would end the body. */
  readonly text: string;
  #encoded: Buffer | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** The text in chunked transfer coding: its length, then the text (RFC 9112 §7.1). */
  get encoded(): Buffer {
    return (this.#encoded ??= Buffer.from(
      `${Buffer.byteLength(this.text).toString(16)}\r\n${this.text}\r\n`,
    ));
  }
}

/** Resolves when the stream accepts more data or is destroyed. */
export function writable(stream: Writable): Promise<void> {
  // a destroyed stream may have emitted "close" already, so waiting for it could take forever
  if (stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}
