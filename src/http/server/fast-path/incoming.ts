/**
 * Received messages, cheaper than node:http makes them (`createServer({ IncomingMessage })`).
 *
 * The field map is made only for those who want it: node:http asks `headers` for three names, and this package reads
 * `rawHeaders` itself. Whoever else may look, through a diagnostics channel or a patched `emit`, finds the whole map.
 *
 * A body that is wanted whole goes from the parser to its taker, past the stream's buffer and events. Its end is told in the
 * next tick, as a stream's is: what has come in the same breath is parsed first and answered then, each in one go, which is
 * 4 % of a small POST (test/bench/http.ts --only=post). One that is asked for late, when parts of it are waiting in the stream,
 * is read as a stream; later still, when its answer has been sent, it is gone, which must not look like an empty one.
 */
import { channel } from 'node:diagnostics_channel';
import { EventEmitter } from 'node:events';
import { IncomingMessage, Server } from 'node:http';
import { Readable } from 'node:stream';
import { isNamed } from '../../headers.ts';
import type { IncomingHttpHeaders } from 'node:http';
import type { BodyTaker } from '../../request/body-stream.ts';

/** Where tracing tools get hold of messages. */
const OBSERVED = [
  'http.server.request.start',
  'http.server.response.created',
  'http.server.response.finish',
].map((name) => channel(name));

const mapOf = Object.getOwnPropertyDescriptor(IncomingMessage.prototype, 'headers') as {
  get(this: IncomingMessage): IncomingHttpHeaders;
  set(this: IncomingMessage, headers: IncomingHttpHeaders): void;
};
const hasEnded = Object.getOwnPropertyDescriptor(Readable.prototype, 'readableEnded') as {
  get(this: Readable): boolean;
};

/** Answers to `'content-length' in headers` and the like, which is how node:http tells whether a body follows. */
const WITHOUT_BODY: IncomingHttpHeaders = Object.freeze(Object.create(null) as IncomingHttpHeaders);
const WITH_BODY: IncomingHttpHeaders = Object.freeze(
  Object.assign(Object.create(null) as IncomingHttpHeaders, { 'content-length': '' }),
);

/** How node:http throws a body away that nobody has begun to read by the time its answer is sent. */
const dump = (IncomingMessage.prototype as unknown as { _dump(): void })._dump;

/** What node:http learns of these fields; undefined where it has to see them all, for it answers an expectation. */
function bodyFieldsOf(rawHeaders: readonly string[]): IncomingHttpHeaders | undefined {
  let fields = WITHOUT_BODY;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    switch (
      name.length // few other fields have one of these lengths
    ) {
      case 6:
        if (isNamed(name, 'expect')) return undefined;
        break;
      case 14:
        if (name === 'Content-Length' || isNamed(name, 'content-length')) fields = WITH_BODY; // as nearly all write it
        break;
      case 17:
        if (isNamed(name, 'transfer-encoding')) fields = WITH_BODY;
    }
  }
  return fields;
}

/** Whether somebody may look at messages who is none of this package. */
export function isObserved(): boolean {
  return (
    OBSERVED[0]!.hasSubscribers ||
    OBSERVED[1]!.hasSubscribers ||
    OBSERVED[2]!.hasSubscribers ||
    Server.prototype.emit !== EventEmitter.prototype.emit
  );
}

/** A request message of a server that reads `rawHeaders`, also to require a Host: with `requireHostHeader: false`. */
export class ReceivedMessage extends IncomingMessage {
  /** Who gets the body; and whether somebody has got all of it. On the prototype: most messages have none. @internal */
  declare bodyTaker: BodyTaker | undefined;
  declare isBodyTaken: boolean;
  /** Whether what nobody had read of it by the end of its answer was thrown away. @internal */
  declare isLetGo: boolean;
  /** Whether its sender waits for 100 Continue. Set by the server. @internal */
  declare awaitsContinue: boolean;

  static {
    this.prototype.bodyTaker = undefined;
    this.prototype.isBodyTaken = false;
    this.prototype.isLetGo = false;
    this.prototype.awaitsContinue = false;
    Object.defineProperty(this.prototype, 'headers', {
      // for TypeScript a property, which an accessor cannot override
      get(this: IncomingMessage): IncomingHttpHeaders {
        return isObserved() ? mapOf.get.call(this) : (bodyFieldsOf(this.rawHeaders) ?? mapOf.get.call(this));
      },
      set(this: IncomingMessage, headers: IncomingHttpHeaders) {
        mapOf.set.call(this, headers);
      },
    });
    Object.defineProperty(this.prototype, 'readableEnded', {
      get(this: ReceivedMessage): boolean {
        return this.isBodyTaken || hasEnded.get.call(this);
      },
    });
  }

  /**
   * Gives the body to `taker` as it comes. False when some of it has come already, and when its sender waits for 100 Continue,
   * which is not sent for a body that comes in the same breath: then it is read as a stream.
   */
  handTo(taker: BodyTaker): boolean {
    if (this.complete || this.readableLength > 0 || this.readableFlowing !== null || this.awaitsContinue)
      return false;
    this.bodyTaker = taker;
    this._read(0); // as its stream would: node:http dumps a body that nobody has begun to read
    return true;
  }

  /** Lets the rest of the body go into the stream. */
  takeBack(): void {
    this.bodyTaker = undefined;
  }

  /** Throws away what still comes, but what somebody reads already. */
  letGo(): void {
    this.isLetGo = true;
    this.resume();
  }

  /** @internal */
  _dump(): void {
    if (!this.readableEnded) this.isLetGo = true;
    dump.call(this);
  }

  /** What the parser calls with each part, and with null at the end. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const taker = this.bodyTaker;
    if (taker === undefined) return super.push(chunk, encoding);
    if (chunk !== null) taker.take(chunk);
    else {
      this.bodyTaker = undefined;
      this.isBodyTaken = true;
      process.nextTick(endOf, taker);
      if (this.isLetGo) super.push(null); // its answer has gone: who waits for its end to serve on hears of "close"
    }
    return true;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const taker = this.bodyTaker;
    this.bodyTaker = undefined;
    super._destroy(error, done);
    taker?.lose();
  }
}

function endOf(taker: BodyTaker): void {
  taker.end();
}
