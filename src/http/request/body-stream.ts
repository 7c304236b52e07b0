/**
 * Request bodies: collects the chunks of a stream into bytes, and enforces the size limit while they arrive.
 */
import { ByteQueue } from '../../base/bytes.ts';
import { ClientDisconnected, PayloadTooLarge, SvcError, withoutStack } from '../../base/errors.ts';
import type { Readable } from 'node:stream';

const EMPTY: Uint8Array = Buffer.alloc(0);
/** From this number of chunks on, small chunks are copied together into chunks of `GATHER_BYTES`. */
const FEW_PARTS = 8;
const SMALL_BYTES = 4_096;
const GATHER_BYTES = 16_384;

/** Key of the property under which a source holds the collector of its body. */
const COLLECTOR: unique symbol = Symbol('collector');

/** A 413 error with the limit in its detail. */
export function tooLarge(maxBytes: number): PayloadTooLarge {
  return withoutStack(() => new PayloadTooLarge(`The request body is larger than ${maxBytes} bytes`));
}

/**
 * Returns why a body can no longer be read: its sender has left, or it was discarded after the response.
 * Undefined if it can be read.
 */
function lossOf(source: BodySource): Error | undefined {
  const { destroyed, complete } = source;
  if (source.isLetGo === true)
    return destroyed && !complete ? new ClientDisconnected() : new SvcError('E_BODY_DISCARDED', []);
  return destroyed && !source.readableEnded ? new ClientDisconnected() : undefined;
}

/** Receives the whole body, or the error that ended it. */
export interface BodyReader {
  onBody(bytes: Uint8Array | undefined, error: unknown): void;
}

/**
 * Reads the whole body. `declared` is its Content-Length, or -1. Takes a callback instead of returning a
 * promise, so that a caller needs only one promise, that of its own result.
 *
 * Fails with PayloadTooLarge: at once if `declared` is too large, else at the first byte beyond the limit.
 * Fails with ClientDisconnected if the sender left before the end, and with E_BODY_DISCARDED if the response
 * was sent before the body was read. Memory is reserved only for bytes that have arrived, whatever `declared`
 * is.
 */
export function collect(source: BodySource, declared: number, maxBytes: number, reader: BodyReader): void {
  if (declared > maxBytes) return reader.onBody(undefined, tooLarge(maxBytes));
  const loss = lossOf(source);
  if (loss !== undefined) return reader.onBody(undefined, loss);
  if (source.readableEnded) return reader.onBody(EMPTY, undefined);
  source.onFirstRead?.();
  const collector = new Collector(source, maxBytes, reader);
  if (source.handTo?.(collector) === true) return;
  source[COLLECTOR] = collector;
  // the listeners stay until the request ends, because removing them would take longer
  source.on('data', onData).on('end', onEnd).on('close', onClose);
  source.read(0); // from now on the stream passes chunks to onData() at once, and does not buffer them
}

/*
 * All bodies have the same three functions as listeners. With them and read(0), a small POST takes 5 % less
 * time than with three closures for each body (http-inject --steps=post with SVC_NODE_INTERNALS=off).
 */

function onData(this: BodySource, chunk: Buffer): void {
  this[COLLECTOR]!.take(chunk); // the collector is defined: collect() has set it
}

function onEnd(this: BodySource): void {
  this[COLLECTOR]!.end();
}

function onClose(this: BodySource): void {
  this[COLLECTOR]!.lose();
}

/** Collects the chunks of one body. */
class Collector implements BodyTaker {
  readonly #source: BodySource;
  readonly #maxBytes: number;
  /** Undefined after it was called. */
  #reader: BodyReader | undefined;
  #first: Buffer | undefined;
  /** Created with the second chunk, because most bodies have only one chunk. */
  #parts: Buffer[] | undefined;
  #length = 0;
  /** Buffer that collects small chunks. */
  #gathered: Buffer | undefined;
  #gatheredLength = 0;

  constructor(source: BodySource, maxBytes: number, reader: BodyReader) {
    this.#source = source;
    this.#maxBytes = maxBytes;
    this.#reader = reader;
  }

  take(chunk: Buffer): void {
    if (this.#reader === undefined) return;
    this.#length += chunk.length;
    if (this.#length > this.#maxBytes) this.#refuse();
    else if (this.#first === undefined) this.#first = chunk;
    else this.#add(chunk);
  }

  end(): void {
    this.#report(this.#parts === undefined ? (this.#first ?? EMPTY) : this.#whole(this.#parts), undefined);
  }

  /**
   * Adds a chunk. Small chunks are copied into one buffer. A Buffer object takes about a hundred bytes, so
   * one-byte chunks would take a hundred times the memory of their content.
   */
  #add(chunk: Buffer): void {
    const parts = (this.#parts ??= [this.#first!]); // `#first` is defined: take() has set it before
    if (chunk.length >= SMALL_BYTES || parts.length < FEW_PARTS) {
      this.#closeGathered(parts);
      parts.push(chunk);
      return;
    }
    if (this.#gathered === undefined || this.#gatheredLength + chunk.length > GATHER_BYTES) {
      this.#closeGathered(parts);
      this.#gathered = Buffer.allocUnsafeSlow(GATHER_BYTES);
    }
    this.#gatheredLength += chunk.copy(this.#gathered, this.#gatheredLength);
  }

  #closeGathered(parts: Buffer[]): void {
    if (this.#gathered !== undefined) parts.push(this.#gathered.subarray(0, this.#gatheredLength));
    this.#gathered = undefined;
    this.#gatheredLength = 0;
  }

  #whole(parts: Buffer[]): Buffer {
    this.#closeGathered(parts);
    return Buffer.concat(parts, this.#length);
  }

  lose(): void {
    if (this.#reader === undefined) return; // the body was complete: "close" comes after "end" as well
    this.#report(undefined, new ClientDisconnected());
  }

  /** Fails with 413. The server discards the chunks that still arrive. */
  #refuse(): void {
    this.#first = this.#parts = this.#gathered = undefined;
    this.#source.takeBack?.();
    this.#source.pause();
    this.#report(undefined, tooLarge(this.#maxBytes));
  }

  #report(bytes: Uint8Array | undefined, error: unknown): void {
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.onBody(bytes, error);
  }
}

/**
 * Yields the chunks of a body: first those of `ahead`, which have been read before, then the others as they
 * arrive. Throws the errors of {@link collect}. If the loop ends early, the rest stays unread.
 */
export async function* chunksOf(
  source: BodySource,
  declared: number,
  maxBytes: number,
  ahead: readonly Uint8Array[] = [],
): AsyncGenerator<Uint8Array, void, undefined> {
  if (declared > maxBytes) throw tooLarge(maxBytes);
  let length = 0;
  for (const chunk of ahead) {
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
    yield chunk;
  }
  const loss = lossOf(source);
  if (loss !== undefined) throw loss;
  if (source.readableEnded) return;
  source.onFirstRead?.();
  try {
    for await (const chunk of source.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > maxBytes) throw tooLarge(maxBytes);
      yield chunk;
    }
  } catch (error) {
    throw source.destroyed && !source.readableEnded ? new ClientDisconnected() : error;
  }
}

/**
 * Reads the start of a body, and returns its chunks. Calls `isEnough` with each chunk, until it returns true
 * or throws, or the body ends. Then the source is paused. To read the whole body later, pass the result to
 * {@link chunksOf}.
 */
export function readAhead(
  source: BodySource,
  isEnough: (chunk: Uint8Array) => boolean,
): Promise<readonly Uint8Array[]> {
  const loss = lossOf(source);
  if (loss !== undefined) return Promise.reject(loss);
  if (source.readableEnded) return Promise.resolve([]);
  source.onFirstRead?.();
  const ahead = new ByteQueue(); // a ByteQueue, because it copies small chunks together
  return new Promise((resolve, reject) => {
    const leave = (): void => void source.off('data', onData).off('end', onEnd).off('close', onClose);
    const onEnd = (): void => {
      leave();
      resolve(chunksIn(ahead));
    };
    const onClose = (): void => {
      leave();
      reject(new ClientDisconnected());
    };
    const onData = (chunk: Buffer): void => {
      ahead.push(chunk);
      try {
        if (!isEnough(chunk)) return;
        source.pause();
        onEnd();
      } catch (error) {
        source.pause();
        leave();
        reject(error);
      }
    };
    source.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

function chunksIn(queue: ByteQueue): readonly Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let chunk = queue.takeChunk(); chunk !== undefined; chunk = queue.takeChunk()) chunks.push(chunk);
  return chunks;
}

/** Joins all chunks. As in {@link collect}, small ones are copied together when they arrive. */
export async function joined(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all = new ByteQueue();
  for await (const chunk of chunks) all.push(chunk);
  return all.take(all.length)!; // take() returns bytes, because the queue has exactly that many
}

/** Source of a body: the IncomingMessage of node:http, or of http/server/memory.ts. */
export interface BodySource extends Readable {
  readonly rawHeaders: readonly string[];
  [COLLECTOR]?: Collector;
  /** Whether the message was received completely. */
  readonly complete: boolean;
  /** Whether the body was discarded because its response was sent before it was read. */
  readonly isLetGo?: boolean;
  /** Called before the body is read for the first time. */
  readonly onFirstRead?: (() => void) | undefined;
  /**
   * Passes the body directly to `taker`, bypassing the stream. Returns false if it must be read as a stream.
   */
  handTo?(taker: BodyTaker): boolean;
  /** Undoes {@link handTo}: later bytes are read from the stream again. */
  takeBack?(): void;
}

/** Receives a body chunk by chunk. */
export interface BodyTaker {
  take(chunk: Buffer): void;
  /** Called when the body is complete. */
  end(): void;
  /** Called when the sender leaves before the body is complete. */
  lose(): void;
}
