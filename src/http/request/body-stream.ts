/**
 * Receives the bytes of a request body, as a whole or chunk by chunk, and checks the size limit with each chunk.
 *
 * A body that is received as a whole counts for the budget of held bytes (budget.ts).
 *
 * A body is received completely even if its client has disconnected meanwhile: it stays readable.
 */
import { ByteQueue } from '../../base/bytes.ts';
import { ClientDisconnected, PayloadTooLarge, SvcError, withoutStack } from '../../base/errors.ts';
import { budgetExceeded, holdBytes } from './budget.ts';
import type { Readable } from 'node:stream';
import type { Awaitable } from '../contracts.ts';
import type { Holder } from './budget.ts';

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

/** Returns all bytes that are left of a body that has arrived, even if its client has left; else undefined. */
function begin(source: BodySource): Uint8Array | undefined {
  const { destroyed, complete } = source;
  if (source.isLetGo === true)
    throw destroyed && !complete ? new ClientDisconnected() : new SvcError('E_BODY_DISCARDED', []);
  if (source.readableEnded) return EMPTY;
  if (complete) return bufferedIn(source);
  if (destroyed) throw new ClientDisconnected();
  source.onFirstRead?.();
  return undefined;
}

/** Takes all bytes out of the buffer of a stream. On Node 26, read() returns only one chunk of it. */
function bufferedIn(source: BodySource): Uint8Array {
  const chunks: Buffer[] = [];
  for (let chunk: unknown = source.read(); chunk !== null; chunk = source.read())
    chunks.push(chunk as Buffer);
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

/**
 * Receives a whole body. Returns it at once if it has arrived, of any size; else a promise. `declared` is the
 * Content-Length of the body, or -1. Memory is reserved only for received bytes, even if `declared` is large.
 * @throws PayloadTooLarge at once when `declared` is over `maxBytes`; else when more bytes than that arrive
 * @throws HTTPException 503 when the budget of held bytes has no room for `declared` bytes, or later for the
 *   received bytes
 * @throws ClientDisconnected when the client disconnects before the end of the body
 * @throws SvcError `E_BODY_DISCARDED` when the response was sent before the body was read
 */
export function receive(
  source: BodySource,
  declared: number,
  maxBytes: number,
  holder: Holder,
): Awaitable<Uint8Array> {
  if (declared > maxBytes) throw tooLarge(maxBytes);
  const { budget } = holder;
  // compared here, because a call of the budget is only needed while much is held
  if (budget !== undefined && budget.heldBytes > budget.shareBytes && !budget.admits(holder, declared))
    throw budgetExceeded();
  const bytes = begin(source);
  if (bytes !== undefined) {
    holdBytes(holder, bytes.length);
    return bytes;
  }
  return new Promise((resolve, reject) => {
    const collector = new Collector(source, maxBytes, holder, resolve, reject);
    if (source.handTo?.(collector) === true) return;
    source[COLLECTOR] = collector;
    // the listeners are not removed at the end of the body, because removing them would take longer than
    // keeping them
    source.on('data', onData).on('end', onEnd).on('close', onClose);
    source.read(0); // starts the flow of chunks to onData(), so that the stream does not buffer them
  });
}

export function limited(bytes: Uint8Array, maxBytes: number): Uint8Array {
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}

/*
 * All bodies share these three listeners. Together with read(0), this saves 5 % of the time of a small POST
 * (http-inject --steps=post with SVC_NODE_INTERNALS=off).
 */

function onData(this: BodySource, chunk: Buffer): void {
  this[COLLECTOR]!.take(chunk); // defined: receive() has set the collector
}

function onEnd(this: BodySource): void {
  this[COLLECTOR]!.end();
}

function onClose(this: BodySource): void {
  this[COLLECTOR]!.lose();
}

/** Collects the chunks of one body in memory, and settles the promise of the body. */
class Collector implements BodyTaker {
  readonly #source: BodySource;
  readonly #maxBytes: number;
  readonly #holder: Holder;
  readonly #resolve: (bytes: Uint8Array) => void;
  readonly #reject: (error: Error) => void;
  #first: Buffer | undefined;
  /** All chunks in order, with small ones copied together; undefined while `#first` is the only chunk. */
  #parts: Buffer[] | undefined;
  #length = 0;
  #isRefused = false;
  /** Buffer into which small chunks are copied. */
  #gathered: Buffer | undefined;
  #gatheredLength = 0;

  constructor(
    source: BodySource,
    maxBytes: number,
    holder: Holder,
    resolve: (bytes: Uint8Array) => void,
    reject: (error: Error) => void,
  ) {
    this.#source = source;
    this.#maxBytes = maxBytes;
    this.#holder = holder;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  take(chunk: Buffer): void {
    if (this.#isRefused) return;
    this.#length += chunk.length;
    if (this.#length > this.#maxBytes) this.#refuse(tooLarge(this.#maxBytes));
    else if (this.#holder.budget?.hold(this.#holder, this.#length) === false) this.#refuse(budgetExceeded());
    else if (this.#first === undefined) this.#first = chunk;
    else this.#add(chunk);
  }

  end(): void {
    this.#resolve(this.#parts === undefined ? (this.#first ?? EMPTY) : this.#whole(this.#parts));
  }

  /** Copies small chunks into one buffer, because each Buffer object takes about a hundred bytes of memory. */
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
    // the event "close" also follows "end"
    if (!this.#source.readableEnded) this.#reject(new ClientDisconnected());
  }

  /** Rejects with an error. The server discards the chunks that still arrive. */
  #refuse(error: Error): void {
    this.#isRefused = true;
    this.#first = this.#parts = this.#gathered = undefined;
    this.#source.takeBack?.();
    this.#source.pause();
    this.#reject(error);
  }
}

/**
 * Yields the chunks of a body: first the chunks in `ahead`, which were read before, then further chunks as
 * they arrive. If the client disconnects after the whole body has arrived, the last chunk has all bytes that are
 * left. Throws the errors of {@link receive}. If the caller stops early, the remaining body stays unread.
 */
export async function* chunksOf(
  source: BodySource,
  declared: number,
  maxBytes: number,
  ahead: readonly Uint8Array[] = [],
): AsyncGenerator<Uint8Array, void, undefined> {
  if (declared > maxBytes) throw tooLarge(maxBytes);
  let length = 0;
  const counted = (chunk: Uint8Array): Uint8Array => {
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
    return chunk;
  };
  for (const chunk of ahead) yield counted(chunk);
  let rest = begin(source);
  try {
    if (rest === undefined)
      for await (const chunk of source.iterator({ destroyOnReturn: false })) yield counted(chunk as Buffer);
  } catch (error) {
    if (!source.destroyed || source.readableEnded) throw error;
    rest = begin(source);
  }
  if (rest !== undefined && rest.length > 0) yield counted(rest);
}

/**
 * Reads chunks until `isEnough` returns true for one of them, or the body ends. Then pauses the body and
 * returns the chunks. To read the whole body later, pass them to {@link chunksOf}.
 */
export async function readAhead(
  source: BodySource,
  isEnough: (chunk: Uint8Array) => boolean,
  holder: Holder,
): Promise<readonly Uint8Array[]> {
  const rest = begin(source);
  if (rest !== undefined) {
    holdBytes(holder, rest.length);
    isEnough(rest);
    return [rest];
  }
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
        holdBytes(holder, ahead.length);
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

/** Joins all chunks to one. `holder` may already hold the first ones, which were read ahead. */
export async function joined(chunks: AsyncIterable<Uint8Array>, holder: Holder): Promise<Uint8Array> {
  const all = new ByteQueue();
  for await (const chunk of chunks) {
    all.push(chunk);
    holdBytes(holder, Math.max(all.length, holder.heldBytes));
  }
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
  /** Passes the body directly to `taker`. Returns false if it must be read as a stream. */
  handTo?(taker: BodyTaker): boolean;
  /** Reverses {@link handTo}: bytes that arrive later go to the stream again. */
  takeBack?(): void;
}

/** Receives the chunks of a body directly from the connection. */
export interface BodyTaker {
  take(chunk: Buffer): void;
  /**
   * Called when the body is complete. The parser may still be parsing further bytes, so this
   * method must only settle a promise.
   */
  end(): void;
  /** Called when the client disconnects before the body is complete. */
  lose(): void;
}
