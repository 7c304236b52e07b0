/**
 * Sent messages, cheaper than node:http makes them (`createServer({ ServerResponse })`).
 *
 * An answer that is one text, head and body, is written to the connection as it is, and node:http told that it has gone: a sixth
 * of a plain answer (test/bench/http.ts --only=json). Its turn on the connection, time limits, what comes behind it and the end
 * are node:http's as ever. Where that does not do, because the answer waits for its turn, is its connection's last, or somebody
 * looks at answers through node:http, it goes the long way, as do all on lines of Node for which the tests have not shown that
 * both ways send the same.
 *
 * Events for many go the same short way, in chunks that are made once.
 *
 * The long way for a body that is whole is one `end(body)`. node:http then counts the body and asks for its head by
 * `writeHead(status)`, as it does for all who call no `writeHead` themselves, and adds the length as text that it need not check.
 *
 * What each answer has is not set when it is made, but when it is used; and who waits for its end is told by `emit` itself: a
 * listener would be a second entry in its table of events, which is a hash table.
 */
import { EventEmitter } from 'node:events';
import { OutgoingMessage, STATUS_CODES, ServerResponse } from 'node:http';
import { isObserved } from './incoming.ts';
import type { OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { ReceivedMessage } from './incoming.ts';
import type { SharedChunk } from '../../chunks.ts';
import type { TransportRequest } from '../../request/request.ts';

type Fields = OutgoingHttpHeaders | OutgoingHttpHeader[];
type Emit = (event: string | symbol, ...given: unknown[]) => boolean;

/** Lines of Node on which an answer may be written past node:http: test/http/server/fast-path/outgoing.test.ts shows that it makes no difference. */
const IS_PROVEN = /^(?:24|26)\./.test(process.versions.node);

const { end, write, writeHead } = ServerResponse.prototype;
/** Whether these are Node's own, and not what tools that were loaded before have put in their place. */
const ARE_OWN =
  String(end).startsWith('function end(chunk, encoding, callback)') &&
  String(write).startsWith('function write(chunk, encoding, callback)') &&
  String(writeHead).startsWith('function writeHead(statusCode, reason, obj)');
const hasFinished = Object.getOwnPropertyDescriptor(OutgoingMessage.prototype, 'writableFinished') as {
  get(this: ServerResponse): boolean;
};
const hasHead = Object.getOwnPropertyDescriptor(OutgoingMessage.prototype, 'headersSent') as {
  get(this: ServerResponse): boolean;
};

/** Whether tools have put something in the place of what node:http sends answers by. */
function isPatched(): boolean {
  const { prototype } = ServerResponse;
  return (
    !ARE_OWN ||
    prototype.end !== end ||
    prototype.write !== write ||
    prototype.writeHead !== writeHead ||
    prototype.emit !== EventEmitter.prototype.emit
  );
}

/** An answer that knows what it answers. */
export class SentMessage extends ServerResponse {
  /** Whether somebody could get hold of it when it was made: what is set on it then has to be sent, and functions of its own be called. */
  readonly wasObserved: boolean = isObserved();
  /** Set by the server. */
  declare request: TransportRequest | undefined;
  /** Called with it when nothing more goes out, before those who listen for `close`. Set by the server. */
  declare onClose: ((outgoing: SentMessage) => void) | undefined;
  /** Called with it when all of it has been handed to the connection, before node:http decides what becomes of that. Set by the server. */
  declare onFinish: ((outgoing: SentMessage) => void) | undefined;
  /** Called with it when the answers before it have gone. Set by who sends it. */
  declare onTurn: ((outgoing: SentMessage) => void) | undefined;
  /** Name and value in turn, until node:http asks for them. @internal */
  declare wholeFields: string[] | undefined;
  /** Whether nothing but the end of its connection says that its body is over. Set by who sends it. */
  declare endsWithConnection: boolean;
  /** Whether it was written past node:http, and whether the connection has taken all of that. */
  declare isWritten: boolean;
  declare isTaken: boolean;
  /** @internal */
  declare _finish: () => void;

  static {
    this.prototype.request = undefined;
    this.prototype.onClose = undefined;
    this.prototype.onFinish = undefined;
    this.prototype.onTurn = undefined;
    this.prototype.wholeFields = undefined;
    this.prototype.endsWithConnection = false;
    this.prototype.isWritten = false;
    this.prototype.isTaken = false;
    Object.defineProperties(this.prototype, {
      // for TypeScript properties, which accessors cannot override
      writableFinished: {
        get(this: SentMessage): boolean {
          return this.isWritten ? this.isTaken : hasFinished.get.call(this);
        },
      },
      headersSent: {
        get(this: SentMessage): boolean {
          return this.isWritten || hasHead.get.call(this);
        },
      },
    });
    this.prototype.emit = function emitEnd(
      this: SentMessage,
      event: string | symbol,
      ...given: unknown[]
    ): boolean {
      if (event === 'close') this.onClose?.(this);
      else if (event === 'finish') this.onFinish?.(this);
      else if (event === 'socket') this.onTurn?.(this);
      return (ServerResponse.prototype.emit as Emit).call(this, event, ...given); // looked up: tools patch it
    } as typeof this.prototype.emit; // one type for each event that it has
  }

  /** Whether {@link writeText} may send it: it is its turn, the connection stays open, and nobody looks on. */
  get takesText(): boolean {
    const { socket } = this;
    return (
      IS_PROVEN &&
      socket !== null &&
      socket.writable &&
      this.shouldKeepAlive &&
      this.useChunkedEncodingByDefault &&
      !this.headersSent &&
      !(this.req as ReceivedMessage).awaitsContinue &&
      !this.wasObserved &&
      !isObserved() &&
      !isPatched()
    ); // every request of this server is one
  }

  /** Sends `text`, which is all of it, past node:http, which is told that it has gone. Where {@link takesText} only. `isAscii`: its characters are its bytes. */
  writeText(status: number, text: string, isAscii: boolean): void {
    this.statusCode = status;
    this.statusMessage = STATUS_CODES[status] ?? 'unknown';
    this.isWritten = true;
    this.finished = true;
    this.socket!.write(text, isAscii ? 'latin1' : 'utf8', (error) => {
      if ((error ?? this.socket?.errored ?? null) !== null) return; // "close" follows
      this.isTaken = true;
      this.emit('finish');
    });
    this._finish(); // tells those who measure: node:perf_hooks, traces
  }

  /**
   * Writes a piece that goes to many: in chunked coding its chunk, made once for all of them, to the connection, past node:http,
   * which would write its length, line ends and text for each (1.2 × the events: the shared harness, sse). That is so where
   * {@link writeText} may be used, and once all that was given to node:http has gone on to the connection.
   */
  writeShared(chunk: SharedChunk): boolean {
    const { socket } = this;
    const isPast =
      socket !== null &&
      socket.writable &&
      this.chunkedEncoding &&
      this.headersSent &&
      !this.finished &&
      this.writableLength === socket.writableLength && // node:http holds nothing
      IS_PROVEN &&
      !this.wasObserved &&
      !isObserved() &&
      !isPatched() &&
      this.write === write;
    return isPast ? socket.write(chunk.encoded) : this.write(chunk.text);
  }

  /** Sends it whole; Content-Length is added. `isAscii`: the bytes of the body are its characters. */
  sendWhole(status: number, fields: string[], body: string | Uint8Array, isAscii: boolean): void {
    this.statusCode = status;
    this.wholeFields = fields;
    if (isAscii)
      this.end(body, 'latin1'); // the same bytes as in UTF-8, for a copy in place of a conversion
    else this.end(body);
  }

  /**
   * Cuts it off. Where its end is that of the connection, that is reset: a client, or a proxy that speaks HTTP/1.0 to us and keeps answers, takes
   * every other end for that of the body (RFC 9112 §8).
   */
  override destroy(error?: Error): this {
    if (this.endsWithConnection && !this.writableFinished && this.socket?.destroyed === false)
      reset(this.socket);
    return super.destroy(error);
  }

  /** Without fields, as node:http calls it: those of {@link sendWhole}. */
  override writeHead(status: number, reason?: string | Fields, fields?: Fields): this {
    return super.writeHead(status, (reason ?? this.wholeFields) as string, fields); // a reason or, in its place, fields: one overload each
  }
}

/** By TCP. TLS says itself that an end was none; a path has no other end. */
function reset(socket: Socket): void {
  try {
    socket.resetAndDestroy();
  } catch {
    // no TCP
  }
}
