/**
 * Undocumented parts of Node that the server relies on: all of them are in this folder, each with the documented way beside it.
 *
 *   relied on                            proven  elsewhere, and with SVC_NODE_INTERNALS=off    worth, and the benchmark that shows it
 *   `headers` of a request: an accessor  24, 26  node:http makes the map of all fields         6 % of an answer, 13 fields: http-inject --headers=browser
 *   `push`, `_read`, `_destroy` of it    24, 26  events `data`, `end` and `close`              10 % of a small POST: http-inject --steps=post
 *   `finished`, `_finish` of an answer   24, 26  `writeHead(status, fields)`, `end(text)`      15 % of a plain answer: http-inject --steps=json
 *   chunks written past `write`          24, 26  `write(text)`                                 17 % of an event to many: sse
 *   `setTimeout` between two requests    24, 26  a timer of node:http for each connection      7 % of a plain answer: http
 *   `httpAllowHalfOpen`                  24, 26  a client that ends its side gets no answer    not for speed: `printf … | nc` is answered
 *
 * The way is chosen once, when this file is loaded. An answer or a request at which tools look through node:http goes the
 * documented way, too: one that subscribes to its diagnostics channels, or that has replaced its methods.
 */
import { channel } from 'node:diagnostics_channel';
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { http } from '../../../base/node-http.ts';
import { systemClock } from '../../../base/clock.ts';
import { httpDate, isAsciiValue, isNamed, isToken } from '../../headers.ts';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { SharedChunk } from '../../chunks.ts';
import type { BodyTaker } from '../../request/body-stream.ts';
import type { RequestIdentity } from '../../request-id.ts';
import type { HttpResponse } from '../../response.ts';

const { end, write, writeHead } = http.ServerResponse.prototype;

/** Whether these methods are Node's own: tools may have replaced them before this file was loaded. */
function areOwn(): boolean {
  return (
    String(end).startsWith('function end(chunk, encoding, callback)') &&
    String(write).startsWith('function write(chunk, encoding, callback)') &&
    String(writeHead).startsWith('function writeHead(statusCode, reason, obj)')
  );
}

/** Whether this process uses undocumented parts of Node. */
export const USES_INTERNALS: boolean =
  process.env['SVC_NODE_INTERNALS'] !== 'off' && /^(?:24|26)\./.test(process.versions.node) && areOwn();

/** Channels by which tracing tools get hold of messages. */
const OBSERVED = [
  'http.server.request.start',
  'http.server.response.created',
  'http.server.response.finish',
].map((name) => channel(name));

/** Whether tools may look at messages through node:http. */
function isObserved(): boolean {
  return (
    OBSERVED[0]!.hasSubscribers ||
    OBSERVED[1]!.hasSubscribers ||
    OBSERVED[2]!.hasSubscribers ||
    http.Server.prototype.emit !== EventEmitter.prototype.emit
  );
}

/** Whether tools have replaced the methods by which node:http sends answers. */
function isPatched(): boolean {
  const { prototype } = http.ServerResponse;
  return (
    prototype.end !== end ||
    prototype.write !== write ||
    prototype.writeHead !== writeHead ||
    prototype.emit !== EventEmitter.prototype.emit
  );
}

/** A request as node:http documents it. Its server reads `rawHeaders`, and requires a Host itself. */
export class ReceivedMessage extends http.IncomingMessage {
  /** Whether its answer was over before all of it was read: what is left was thrown away. Set by the server. @internal */
  declare isLetGo: boolean;
  /** Whether its sender waits for "100 Continue". Set by the server. @internal */
  declare awaitsContinue: boolean;
  /** Called when its body is first asked for. Set by the server. @internal */
  declare onFirstRead: (() => void) | undefined;

  static {
    this.prototype.isLetGo = false; // on the prototype: most requests set none of them
    this.prototype.awaitsContinue = false;
    this.prototype.onFirstRead = undefined;
  }

  /** Gives the body to `taker` past the stream; false when it has to be read as a stream. */
  handTo(_taker: BodyTaker): boolean {
    return false;
  }

  /** Lets the rest of the body go into the stream. */
  takeBack(): void {
    /* the stream gets every chunk */
  }
}

const mapOf = Object.getOwnPropertyDescriptor(http.IncomingMessage.prototype, 'headers') as {
  get(this: IncomingMessage): IncomingHttpHeaders;
  set(this: IncomingMessage, headers: IncomingHttpHeaders): void;
};
const hasEnded = Object.getOwnPropertyDescriptor(Readable.prototype, 'readableEnded') as {
  get(this: Readable): boolean;
};

/** The field maps for `'content-length' in headers` and the like, by which node:http tells whether a body follows. */
const WITHOUT_BODY: IncomingHttpHeaders = Object.freeze(Object.create(null) as IncomingHttpHeaders);
const WITH_BODY: IncomingHttpHeaders = Object.freeze(
  Object.assign(Object.create(null) as IncomingHttpHeaders, { 'content-length': '' }),
);

/** The field map for node:http; undefined where it has to see all fields, for it answers an expectation. */
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

/**
 * A request without a map of its fields, as long as no tool looks: node:http asks it for three names.
 *
 * A body that is wanted whole goes from the parser to its taker, past the stream. Its end is reported in the next tick, as a
 * stream's is: all that has come at once is parsed first. A body that is asked for late is read as a stream.
 */
class FastReceived extends ReceivedMessage {
  /** Gets the body; undefined where it is read as a stream, and once all of it has been taken. @internal */
  declare bodyTaker: BodyTaker | undefined;
  declare isBodyTaken: boolean;

  static {
    this.prototype.bodyTaker = undefined;
    this.prototype.isBodyTaken = false;
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
      get(this: FastReceived): boolean {
        return this.isBodyTaken || hasEnded.get.call(this);
      },
    });
  }

  /** False, too, when some of the body has come, and when its sender waits for "100 Continue". */
  override handTo(taker: BodyTaker): boolean {
    if (this.complete || this.readableLength > 0 || this.readableFlowing !== null || this.awaitsContinue)
      return false;
    this.bodyTaker = taker;
    this._read(0); // as its stream would: node:http throws a body away that is not being read
    return true;
  }

  override takeBack(): void {
    this.bodyTaker = undefined;
  }

  /** Called by the parser with each part, and with null at the end. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const taker = this.bodyTaker;
    if (taker === undefined) return super.push(chunk, encoding);
    if (chunk !== null) taker.take(chunk);
    else {
      this.bodyTaker = undefined;
      this.isBodyTaken = true;
      process.nextTick(endOf, taker);
      if (this.isLetGo) super.push(null); // the response has gone: the server waits for "close"
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

/** A request, as its answer sees it. */
export interface AnsweredRequest {
  readonly id: string;
  /** Whether there is an answer. */
  readonly isAnswered: boolean;
  /** Called when the client has ended its side, and may have left. */
  leave(): void;
}

/** An answer as node:http documents it. */
export class SentMessage extends http.ServerResponse {
  /** The request that it answers. Set by the server. */
  declare request: AnsweredRequest | undefined;
  /** Whether its body comes in chunks, and its length is not known. Set by its sender. */
  declare isStream: boolean;
  /** Whether nothing but the end of its connection ends its body. Set by its sender. */
  declare endsWithConnection: boolean;
  /** Whether the connection has taken all of it, before node:http knows that it is over. */
  declare isTaken: boolean;

  static {
    this.prototype.request = undefined; // on the prototype: most answers set none of the others
    this.prototype.isStream = false;
    this.prototype.endsWithConnection = false;
    this.prototype.isTaken = false;
  }

  /** Whether {@link writeText} may send it. */
  get takesText(): boolean {
    return false;
  }

  /** Sends `text`, head and body. Where {@link takesText} only. `isAscii`: its characters are its bytes. `onOver` is called when nothing more goes out. */
  writeText(_status: number, _text: string, _isAscii: boolean, _onOver: (this: SentMessage) => void): void {
    throw new Error('writeText() needs takesText, which is false');
  }

  /** Writes a chunk that goes to many. */
  writeShared(chunk: SharedChunk): boolean {
    return this.write(chunk.text);
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
}

/** Resets a connection by TCP. TLS tells a cut from an end itself; a path has no other end. */
export function reset(socket: Socket): void {
  try {
    socket.resetAndDestroy();
  } catch {
    // no TCP
  }
}

const hasFinished = Object.getOwnPropertyDescriptor(http.OutgoingMessage.prototype, 'writableFinished') as {
  get(this: ServerResponse): boolean;
};
const hasHead = Object.getOwnPropertyDescriptor(http.OutgoingMessage.prototype, 'headersSent') as {
  get(this: ServerResponse): boolean;
};

/**
 * An answer that writes one text, head and body, to its connection. node:http takes it for gone: turns on the connection
 * and time limits are node:http's as ever. An answer goes the documented way when it waits for its turn, is its connection's last, or tools look.
 */
class FastSent extends SentMessage {
  /** Whether tools could get hold of it when it was made: what they set on it has to be sent, and their functions be called. */
  readonly wasObserved: boolean = isObserved();
  /** Whether it was written past node:http. */
  declare isWritten: boolean;
  /** @internal */
  declare _finish: () => void;

  static {
    this.prototype.isWritten = false;
    Object.defineProperties(this.prototype, {
      // for TypeScript properties, which accessors cannot override
      writableFinished: {
        get(this: FastSent): boolean {
          return this.isWritten ? this.isTaken : hasFinished.get.call(this);
        },
      },
      headersSent: {
        get(this: FastSent): boolean {
          return this.isWritten || hasHead.get.call(this);
        },
      },
    });
  }

  /** Whether it is its turn, the connection stays open, and no tool looks. */
  override get takesText(): boolean {
    const { socket } = this;
    return (
      socket !== null &&
      socket.writable &&
      this.shouldKeepAlive &&
      this.useChunkedEncodingByDefault &&
      !this.headersSent &&
      !(this.req as ReceivedMessage).awaitsContinue && // every request of this server is one
      !this.wasObserved &&
      !isObserved() &&
      !isPatched()
    );
  }

  override writeText(
    status: number,
    text: string,
    isAscii: boolean,
    onOver: (this: SentMessage) => void,
  ): void {
    this.statusCode = status;
    this.statusMessage = http.STATUS_CODES[status] ?? 'unknown';
    this.isWritten = true;
    this.finished = true;
    this.socket!.write(text, isAscii ? 'latin1' : 'utf8', (error) => {
      if ((error ?? this.socket?.errored ?? null) === null) {
        this.isTaken = true;
        this.emit('finish');
      }
      onOver.call(this);
    });
    this._finish(); // tells tools that measure: node:perf_hooks, traces
  }

  /** In chunked coding writes the chunk that was made once for all, where node:http holds nothing back. */
  override writeShared(chunk: SharedChunk): boolean {
    const { socket } = this;
    const isPast =
      socket !== null &&
      socket.writable &&
      this.chunkedEncoding &&
      this.headersSent &&
      !this.finished &&
      this.writableLength === socket.writableLength &&
      !this.wasObserved &&
      !isObserved() &&
      !isPatched() &&
      this.write === write;
    return isPast ? socket.write(chunk.encoded) : this.write(chunk.text);
  }
}

/** The classes of messages, for `createServer()`. */
export const MESSAGES: {
  readonly IncomingMessage: typeof ReceivedMessage;
  readonly ServerResponse: typeof SentMessage;
} = USES_INTERNALS
  ? { IncomingMessage: FastReceived, ServerResponse: FastSent }
  : { IncomingMessage: ReceivedMessage, ServerResponse: SentMessage };

/*
 * Connections: the last two rows of the table.
 */

/** Called about the silence between two requests. */
interface SilenceWatch {
  /** The silence before the next request begins. */
  begin(socket: Socket): void;
  /** Ends the silence. Returns whether it had begun. */
  end(socket: Socket): boolean;
}

/** Stands in for the method of a socket. */
export type NoteTimeout = (this: Socket, ms: number, onTimeout?: () => void) => Socket;

/**
 * Takes over the time limit for silent connections. node:http sets it by `socket.setTimeout()` after every answer, and takes it
 * off before every request; what is returned notes that, in place of that method. Undefined where each connection keeps its timer.
 */
export function noteTimeouts(limitMs: number, watch: SilenceWatch): NoteTimeout | undefined {
  if (!USES_INTERNALS) return undefined;
  return function noteTimeout(this: Socket, ms: number, onTimeout?: () => void): Socket {
    // one for all connections
    if (ms === limitMs && onTimeout === undefined) {
      watch.begin(this);
      return this;
    }
    return watch.end(this) && ms === 0
      ? this
      : (Object.getPrototypeOf(this) as Socket).setTimeout.call(this, ms, onTimeout); // others may set limits of their own
  };
}

/** Lets clients of a server end their side and still be answered. Elsewhere node:http ends our side, too. */
export function allowHalfOpen(server: Server): void {
  if (USES_INTERNALS) (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
}

/*
 * The head of an answer as one text, as node:http would write it, for writeText().
 *
 *   status line · fields of the response · X-Request-Id · Content-Length · Date · Connection · Keep-Alive
 *
 * Fields that node:http looks at, or writes in a way of their own, are left to it.
 */

/** By length, which few other names share. */
const LEFT_TO_NODE = new Map<number, string[]>();
for (const name of [
  'connection',
  'content-disposition',
  'content-length',
  'date',
  'expect',
  'keep-alive',
  'trailer',
  'transfer-encoding',
  'upgrade',
]) {
  LEFT_TO_NODE.set(name.length, [...(LEFT_TO_NODE.get(name.length) ?? []), name]);
}

/** The heads of a server's answers. */
export class HeadTexts {
  readonly #identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly #keepAlive: string;
  /** The text behind the length, for as long as the second lasts. */
  #end: string | undefined;

  /** `identity` names the field of the request id; `keepAliveTimeoutMs`: how long a connection stays open between two requests. */
  constructor(identity: Pick<RequestIdentity, 'field' | 'name'>, keepAliveTimeoutMs: number) {
    this.#identity = identity;
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1_000)}\r\n`;
  }

  /** The head of an answer whose connection stays open. Empty where it has to be left to node:http. */
  of(response: HttpResponse, id: string, isSecure: boolean, length: number): string {
    const { prepared } = response;
    const { field, name } = this.#identity;
    const start =
      prepared === undefined
        ? startOf(response.status, response.fields(isSecure), name)
        : (prepared.headText ??= startOf(prepared.status, prepared.flat, name));
    return start === ''
      ? ''
      : `${start}${field}: ${id}\r\nContent-Length: ${length}${this.#end ?? this.#renew()}`;
  }

  #renew(): string {
    const nowMs = systemClock.nowMs(); // the system's, as node:http has it, whatever clock the application has
    systemClock.after(1_000 - (nowMs % 1_000), () => {
      this.#end = undefined;
    });
    return (this.#end = `\r\nDate: ${httpDate(nowMs)}\r\n${this.#keepAlive}\r\n`);
  }
}

/** The status line and the fields, each checked as node:http does: what is not as it should be is left to it. */
function startOf(status: number, fields: readonly string[], idName: string): string {
  let text = `HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? 'unknown'}\r\n`;
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]!;
    const value = fields[index + 1]!;
    if (
      isNamed(name, idName) ||
      ((typeof value !== 'string' || passed.get(name) !== value) && !passes(name, value))
    )
      return '';
    text += `${name}: ${value}\r\n`;
  }
  return text;
}

/** The value that each of these names had when it was looked at last: most fields are the same in every answer (test/bench/http.ts --only=stack). */
const passed = new Map<string, string>();
const MOST_PASSED = 100;
/** Others are not worth their memory. */
const LONGEST_PASSED = 1_000;

/** Whether a field may be sent as it is. */
function passes(name: string, value: string): boolean {
  if (typeof value !== 'string' || isLeftToNode(name) || !isToken(name) || !isAsciiValue(value)) return false;
  if (
    !isNamed(name, 'set-cookie') &&
    value.length <= LONGEST_PASSED &&
    (passed.size < MOST_PASSED || passed.has(name))
  )
    passed.set(name, value);
  return true;
}

function isLeftToNode(name: string): boolean {
  const names = LEFT_TO_NODE.get(name.length);
  return names !== undefined && names.includes(name.toLowerCase());
}
