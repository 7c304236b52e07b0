/** Collects the chunks of a request body into bytes, and checks the size limit with each chunk. */
import { ByteQueue } from '../../base/bytes.ts';
import { ClientDisconnected, PayloadTooLarge, SvcError, withoutStack } from '../../base/errors.ts';
import type { Readable } from 'node:stream';

const EMPTY: Uint8Array = Buffer.alloc(0);
/** If a body has more chunks than this, small chunks are copied together into buffers of `GATHER_BYTES`. */
const FEW_PARTS = 8;
const SMALL_BYTES = 4_096;
const GATHER_BYTES = 16_384;

/** Key of the property in which a body stream stores its {@link Collector}. */
const COLLECTOR: unique symbol = Symbol('collector');

/** Returns a 413 error that names the limit. */
export function tooLarge(maxBytes: number): PayloadTooLarge {
  return withoutStack(() => new PayloadTooLarge(`The request body is larger than ${maxBytes} bytes`));
}

/**
 * Returns an error if a body can no longer be read: its client has disconnected, or the body was discarded
 * after the response.
 */
function lossOf(source: BodySource): Error | undefined {
  const { destroyed, complete } = source;
  if (source.isLetGo === true)
    return destroyed && !complete ? new ClientDisconnected() : new SvcError('E_BODY_DISCARDED', []);
  return destroyed && !source.readableEnded ? new ClientDisconnected() : undefined;
}

/** Receives a complete body, or the error that prevented its reading. */
export interface BodyReader {
  onBody(bytes: Uint8Array | undefined, error: unknown): void;
}

/**
 * Reads a complete body, and passes it to `reader`. `declared` is the Content-Length of the body, or -1.
 * Returns no promise, because the caller creates one for the parsed value.
 *
 * A body over `maxBytes` leads to PayloadTooLarge: at once if `declared` exceeds the limit, else at the first
 * byte beyond the limit. Memory is reserved only for received bytes, even if `declared` is large.
 *
 * If the client disconnects before the end of the body, the error is ClientDisconnected. If the response was
 * sent before the body was read, the error is E_BODY_DISCARDED.
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
  // the listeners are not removed at the end of the body, because removing them would take longer than
  // keeping them
  source.on('data', onData).on('end', onEnd).on('close', onClose);
  source.read(0); // starts the flow of chunks to onData(), so that the stream does not buffer them
}

/*
 * All bodies share these three listeners. Together with read(0), this saves 5 % of the time of a small POST
 * (http-inject --steps=post with SVC_NODE_INTERNALS=off).
 */

function onData(this: BodySource, chunk: Buffer): void {
  this[COLLECTOR]!.take(chunk); // defined: collect() has set the collector
}

function onEnd(this: BodySource): void {
  this[COLLECTOR]!.end();
}

function onClose(this: BodySource): void {
  this[COLLECTOR]!.lose();
}

/** Collects the chunks of one body in memory, and passes the body to its reader. */
class Collector implements BodyTaker {
  readonly #source: BodySource;
  readonly #maxBytes: number;
  /** Gets the body or an error, only once; undefined afterwards. */
  #reader: BodyReader | undefined;
  #first: Buffer | undefined;
  /**
   * All chunks in order, with small ones copied together. Undefined while there is only the chunk in
   * `#first`.
   */
  #parts: Buffer[] | undefined;
  #length = 0;
  /** Buffer into which small chunks are copied. */
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
   * Adds a chunk. Small chunks are copied into one buffer, because each Buffer object takes about a hundred
   * bytes of memory.
   */
  #add(chunk: Buffer): void {
    const parts = (this.#parts ??= [this.#first!]); // `#first` is defined: take() has set it
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
    if (this.#reader === undefined) return; // the body is complete: the event "close" also follows "end"
    this.#report(undefined, new ClientDisconnected());
  }

  /** Passes a 413 error to the reader. The server discards the chunks that still arrive. */
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
 * Yields the chunks of a body: first the chunks in `ahead`, which were read before, then further chunks as
 * they arrive. Throws the errors that {@link collect} passes to its reader. If the caller stops early, the
 * remaining body stays unread.
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
 * Reads chunks until `isEnough` returns true for one of them, or the body ends. Then pauses the body and
 * returns the chunks. To read the whole body later, pass them to {@link chunksOf}.
 */
export function readAhead(
  source: BodySource,
  isEnough: (chunk: Uint8Array) => boolean,
): Promise<readonly Uint8Array[]> {
  const loss = lossOf(source);
  if (loss !== undefined) return Promise.reject(loss);
  if (source.readableEnded) return Promise.resolve([]);
  source.onFirstRead?.();
  const ahead = new ByteQueue();
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

/** Joins all chunks to one. */
export async function joined(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all = new ByteQueue();
  for await (const chunk of chunks) all.push(chunk);
  return all.take(all.length)!; // defined: the queue contains this number of bytes
}

/** Stream of a request body: an IncomingMessage of node:http, or its substitute in http/server/memory.ts. */
export interface BodySource extends Readable {
  readonly rawHeaders: readonly string[];
  [COLLECTOR]?: Collector;
  /** Whether the request was received completely. */
  readonly complete: boolean;
  /** Whether the server discarded the body, because the response was sent before the body was read. */
  readonly isLetGo?: boolean;
  /** Called before the body is read for the first time. */
  readonly onFirstRead?: (() => void) | undefined;
  /**
   * Passes the body directly to `taker` instead of the stream. Returns false if the body must be read as a
   * stream.
   */
  handTo?(taker: BodyTaker): boolean;
  /** Reverses {@link handTo}: bytes that arrive later go to the stream again. */
  takeBack?(): void;
}

/** Receives the chunks of a body directly from the connection. */
export interface BodyTaker {
  take(chunk: Buffer): void;
  /** Called when the body is complete. */
  end(): void;
  /** Called when the client disconnects before the body is complete. */
  lose(): void;
}
