/**
 * Sent messages, cheaper than node:http makes them (`createServer({ ServerResponse })`).
 *
 * An answer whose body is whole is one `end(body)`. node:http then counts the body and asks for its head by `writeHead(status)`,
 * as it does for all who call no `writeHead` themselves, and adds the length as text that it need not check: 3 % of a plain
 * answer (test/bench/http.ts --only=json).
 *
 * What each answer has is not set when it is made, but when it is used; and who waits for its end is told by `emit` itself: a
 * listener would be a second entry in its table of events, which is a hash table.
 */
import { ServerResponse } from 'node:http';
import type { OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { TransportRequest } from './request.ts';

type Fields = OutgoingHttpHeaders | OutgoingHttpHeader[];
type Emit = (event: string | symbol, ...given: unknown[]) => boolean;

/** An answer that knows what it answers. */
export class SentMessage extends ServerResponse {
  /** Set by the server. */
  declare request: TransportRequest | undefined;
  /** Called with it when nothing more goes out, before those who listen for `close`. Set by the server. */
  declare onClose: ((outgoing: SentMessage) => void) | undefined;
  /** Called with it when all of it has been handed to the connection, before node:http decides what becomes of that. Set by the server. */
  declare onFinish: ((outgoing: SentMessage) => void) | undefined;
  /** Name and value in turn, until node:http asks for them. @internal */
  declare wholeFields: string[] | undefined;
  /** Whether nothing but the end of its connection says that its body is over. Set by who sends it. */
  declare endsWithConnection: boolean;

  static {
    this.prototype.request = undefined;
    this.prototype.onClose = undefined;
    this.prototype.onFinish = undefined;
    this.prototype.wholeFields = undefined;
    this.prototype.endsWithConnection = false;
    this.prototype.emit = function emitEnd(this: SentMessage, event: string | symbol, ...given: unknown[]): boolean {
      if (event === 'close') this.onClose?.(this);
      else if (event === 'finish') this.onFinish?.(this);
      return (ServerResponse.prototype.emit as Emit).call(this, event, ...given); // looked up: tools patch it
    } as typeof this.prototype.emit; // one type for each event that it has
  }

  /** Sends it whole; Content-Length is added. `isAscii`: the bytes of the body are its characters. */
  sendWhole(status: number, fields: string[], body: string | Uint8Array, isAscii: boolean): void {
    this.statusCode = status;
    this.wholeFields = fields;
    if (isAscii) this.end(body, 'latin1'); // the same bytes as in UTF-8, for a copy in place of a conversion
    else this.end(body);
  }

  /**
   * Cuts it off. Where its end is that of the connection, that is reset: a client, or a proxy that speaks HTTP/1.0 to us and keeps answers, takes
   * every other end for that of the body (RFC 9112 §8).
   */
  override destroy(error?: Error): this {
    if (this.endsWithConnection && !this.writableFinished && this.socket?.destroyed === false) reset(this.socket);
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
