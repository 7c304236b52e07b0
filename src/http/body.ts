/**
 * Request bodies: a stream collected into bytes under a limit that holds while they arrive.
 */
import { ClientDisconnected, PayloadTooLarge } from '../errors.ts';
import type { Readable } from 'node:stream';

/** What a body is read from: node:http's IncomingMessage, or memory.ts's stand-in. */
export interface BodySource extends Readable {
  readonly rawHeaders: readonly string[];
  /** Whether the message was received whole. */
  readonly complete: boolean;
}

const EMPTY: Uint8Array = Buffer.alloc(0);

/** 413, with the limit in its detail. */
export function tooLarge(maxBytes: number): PayloadTooLarge {
  return new PayloadTooLarge(`The request body is larger than ${maxBytes} bytes`);
}

/**
 * Whether there is nothing to read. A request without Content-Length and Transfer-Encoding never emits an event under
 * `optimizeEmptyRequests`, so this must be asked first.
 */
export function hasNoBody(source: BodySource): boolean {
  return source.readableEnded;
}

/** Told of the whole body, or of why there is none. */
export type BodyReader = (bytes: Uint8Array | undefined, error: unknown) => void;

/**
 * Reads the whole body. `declared` is its Content-Length, or -1. A callback, not a promise: whoever waits for what is made
 * of the body needs one promise, not two.
 *
 * Fails with PayloadTooLarge before the first byte is kept when `declared` is too large, else with the first byte too many;
 * with ClientDisconnected when the sender left first. Nothing is allocated by what a client announces.
 */
export function collect(source: BodySource, declared: number, maxBytes: number, done: BodyReader): void {
  if (declared > maxBytes) return done(undefined, tooLarge(maxBytes));
  if (hasNoBody(source)) return done(EMPTY, undefined);
  if (source.destroyed) return done(undefined, new ClientDisconnected());
  let first: Buffer | undefined;
  let chunks: Buffer[] | undefined; // made with the second chunk: most bodies are one
  let length = 0;
  let isDone = false;
  const onData = (chunk: Buffer): void => {
    length += chunk.length;
    if (length > maxBytes) {
      isDone = true;
      source.off('data', onData).pause();
      done(undefined, tooLarge(maxBytes));
    } else if (first === undefined) first = chunk;
    else (chunks ??= [first]).push(chunk);
  };
  // the listeners stay: the source ends with its request, and taking them off costs more than they do
  source.on('data', onData).on('end', () => {
    isDone = true;
    done(chunks === undefined ? first ?? EMPTY : Buffer.concat(chunks, length), undefined);
  }).on('close', () => {
    if (!isDone) done(undefined, new ClientDisconnected());
  });
}

/** The body as it arrives. Errors as {@link collect}; leaving the loop early leaves the rest unread. */
export async function* chunksOf(source: BodySource, declared: number, maxBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
  if (declared > maxBytes) throw tooLarge(maxBytes);
  if (hasNoBody(source)) return;
  let length = 0;
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
