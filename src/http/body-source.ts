/**
 * What a request body is read from. Apart from body.ts, which reads it: most requests have none.
 */
import type { Readable } from 'node:stream';

/** What a body is read from: node:http's IncomingMessage, or memory.ts's stand-in. */
export interface BodySource extends Readable {
  readonly rawHeaders: readonly string[];
  /** Whether the message was received whole. */
  readonly complete: boolean;
  /** Whether it was thrown away, for its answer had been sent before anybody asked for it. */
  readonly isLetGo?: boolean;
  /** Gives the body to `taker` past the stream; false when it must be read as a stream. */
  handTo?(taker: BodyTaker): boolean;
  /** Lets what follows go into the stream again. */
  takeBack?(): void;
}

/** Who gets a body part by part. */
export interface BodyTaker {
  take(chunk: Buffer): void;
  /** The body is whole. */
  end(): void;
  /** The sender left before. */
  lose(): void;
}

/**
 * Whether there is nothing to read. A request without Content-Length and Transfer-Encoding never emits an event under
 * `optimizeEmptyRequests`, so this must be asked first.
 */
export function hasNoBody(source: BodySource): boolean {
  return source.readableEnded;
}
