/**
 * Undocumented parts of Node that the server relies on: all of them are in this folder, each with the
 * documented way beside it.
 *
 * Each row has the undocumented part, the documented way that is used on other versions of Node than 24 and 26
 * (and with SVC_NODE_INTERNALS=off), and the gain with the benchmark that shows it:
 *   request `headers`, an accessor      node:http builds an object of all fields   6 % (http-inject --headers=browser)
 *   request `push`, `_read`, `_destroy` events `data`, `end` and `close`           10 % (http-inject --steps=post)
 *   response `finished`, `_finish`      `writeHead(status, fields)`, `end(text)`   15 % (http-inject --steps=json)
 *   socket.write() for chunks           `write(text)` of the response              17 % (sse)
 *   socket `setTimeout`                 a timer for each idle connection           7 % (http)
 *   server `httpAllowHalfOpen`          no response to a client that closes its    not speed: `printf … | nc`
 *                                       side after its request                     gets a response
 *
 * The choice is made once, when this file is loaded. Messages that tools may inspect use the documented way
 * as well: if a tool has subscribed to the diagnostics channels of node:http, or has replaced its methods.
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

/** Diagnostics channels through which tracing tools get messages. */
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

/** Whether tools have replaced the methods by which node:http sends responses. */
function isPatched(): boolean {
  const { prototype } = http.ServerResponse;
  return (
    prototype.end !== end ||
    prototype.write !== write ||
    prototype.writeHead !== writeHead ||
    prototype.emit !== EventEmitter.prototype.emit
  );
}

/** A request, by documented means of node:http. The server reads `rawHeaders`, and checks the Host itself. */
export class ReceivedMessage extends http.IncomingMessage {
  /**
   * Whether the response was sent before the whole body was read; the rest was discarded. Set by the server.
   * @internal
   */
  declare isLetGo: boolean;
  /** Whether the client waits for "100 Continue". Set by the server. @internal */
  declare awaitsContinue: boolean;
  /** Called when the body is first read. Set by the server. @internal */
  declare onFirstRead: (() => void) | undefined;

  static {
    this.prototype.isLetGo = false; // on the prototype, because most requests set none of them
    this.prototype.awaitsContinue = false;
    this.prototype.onFirstRead = undefined;
  }

  /**
   * Passes the body directly to `taker`, bypassing the stream. Returns false if it must be read as a stream.
   */
  handTo(_taker: BodyTaker): boolean {
    return false;
  }

  /** Undoes {@link handTo}: the rest of the body goes into the stream. */
  takeBack(): void {
    /* nothing to undo: the stream gets every chunk */
  }
}

const mapOf = Object.getOwnPropertyDescriptor(http.IncomingMessage.prototype, 'headers') as {
  get(this: IncomingMessage): IncomingHttpHeaders;
  set(this: IncomingMessage, headers: IncomingHttpHeaders): void;
};
const hasEnded = Object.getOwnPropertyDescriptor(Readable.prototype, 'readableEnded') as {
  get(this: Readable): boolean;
};

/**
 * The two possible results for node:http, which uses `headers` only to find out whether a body follows, for
 * example by `'content-length' in headers`.
 */
const WITHOUT_BODY: IncomingHttpHeaders = Object.freeze(Object.create(null) as IncomingHttpHeaders);
const WITH_BODY: IncomingHttpHeaders = Object.freeze(
  Object.assign(Object.create(null) as IncomingHttpHeaders, { 'content-length': '' }),
);

/**
 * Returns the object for node:http; undefined if it needs all fields, because the request has an expectation.
 */
function bodyFieldsOf(rawHeaders: readonly string[]): IncomingHttpHeaders | undefined {
  let fields = WITHOUT_BODY;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    switch (
      name.length // compares lengths first, because few other fields have one of these
    ) {
      case 6:
        if (isNamed(name, 'expect')) return undefined;
        break;
      case 14:
        // the exact comparison comes first, because nearly all clients write the name this way
        if (name === 'Content-Length' || isNamed(name, 'content-length')) fields = WITH_BODY;
        break;
      case 17:
        if (isNamed(name, 'transfer-encoding')) fields = WITH_BODY;
    }
  }
  return fields;
}

/**
 * A request that does not build the object `headers` unless a tool inspects it: node:http needs only three
 * names.
 *
 * The parser passes a body that is read as a whole directly to its taker, bypassing the stream. The end is
 * reported in the next tick, as by a stream, so that all received bytes are parsed first. A body that is read
 * later goes through the stream.
 */
class FastReceived extends ReceivedMessage {
  /** Receiver of the body; undefined if the body is read as a stream, and after its end. @internal */
  declare bodyTaker: BodyTaker | undefined;
  declare isBodyTaken: boolean;

  static {
    this.prototype.bodyTaker = undefined;
    this.prototype.isBodyTaken = false;
    Object.defineProperty(this.prototype, 'headers', {
      // defined here, because TypeScript does not allow an accessor in a class to override a property
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

  /** Returns false also if a part of the body was received before, or the client waits for "100 Continue". */
  override handTo(taker: BodyTaker): boolean {
    if (this.complete || this.readableLength > 0 || this.readableFlowing !== null || this.awaitsContinue)
      return false;
    this.bodyTaker = taker;
    this._read(0); // starts the reading, as the stream would: node:http discards a body that is not read
    return true;
  }

  override takeBack(): void {
    this.bodyTaker = undefined;
  }

  /** Called by the parser with each chunk, and with null at the end. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const taker = this.bodyTaker;
    if (taker === undefined) return super.push(chunk, encoding);
    if (chunk !== null) taker.take(chunk);
    else {
      this.bodyTaker = undefined;
      this.isBodyTaken = true;
      process.nextTick(endOf, taker);
      if (this.isLetGo) super.push(null); // the response was sent: the server waits for "close"
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

/** The part of a request that its response uses. */
export interface AnsweredRequest {
  readonly id: string;
  /** Whether the response is decided. */
  readonly isAnswered: boolean;
  /** Called when the client has closed its side of the connection, and may have left. */
  leave(): void;
}

/** A response, by documented means of node:http. */
export class SentMessage extends http.ServerResponse {
  /** The request of this response. Set by the server. */
  declare request: AnsweredRequest | undefined;
  /** Whether the body is sent in chunks, without a known length. Set by the sender. */
  declare isStream: boolean;
  /** Whether the body ends with the connection, without a length or chunked coding. Set by the sender. */
  declare endsWithConnection: boolean;
  /** Whether the connection has accepted all bytes, which is known before node:http emits "finish". */
  declare isTaken: boolean;

  static {
    this.prototype.request = undefined; // on the prototype, because most responses do not set the others
    this.prototype.isStream = false;
    this.prototype.endsWithConnection = false;
    this.prototype.isTaken = false;
  }

  /** Whether {@link writeText} can send this response. */
  get takesText(): boolean {
    return false;
  }

  /**
   * Sends `text`, which has head and body. Allowed only if {@link takesText} is true. `isAscii`: whether all
   * characters are ASCII. `onOver` is called when the response has ended.
   */
  writeText(_status: number, _text: string, _isAscii: boolean, _onOver: (this: SentMessage) => void): void {
    throw new Error('writeText() must not be called while takesText is false');
  }

  /** Writes a chunk that many clients get. */
  writeShared(chunk: SharedChunk): boolean {
    return this.write(chunk.text);
  }

  /**
   * Ends the response at once. If its body ends with the connection, the connection is reset: otherwise an
   * HTTP/1.0 client, or a proxy with a cache, would take the end for that of the body (RFC 9112 §8).
   */
  override destroy(error?: Error): this {
    if (this.endsWithConnection && !this.writableFinished && this.socket?.destroyed === false)
      reset(this.socket);
    return super.destroy(error);
  }
}

/**
 * Resets a TCP connection. A client of TLS distinguishes a cut from an end by itself; Unix sockets cannot be
 * reset.
 */
function reset(socket: Socket): void {
  try {
    socket.resetAndDestroy();
  } catch {
    // not a TCP connection
  }
}

const hasFinished = Object.getOwnPropertyDescriptor(http.OutgoingMessage.prototype, 'writableFinished') as {
  get(this: ServerResponse): boolean;
};
const hasHead = Object.getOwnPropertyDescriptor(http.OutgoingMessage.prototype, 'headersSent') as {
  get(this: ServerResponse): boolean;
};

/**
 * A response that writes head and body as one text to its connection. node:http treats it as sent: the order
 * of responses and the time limits remain those of node:http. The documented way is used if an earlier
 * response is not sent yet, the connection ends with this one, or a tool inspects messages.
 */
class FastSent extends SentMessage {
  /**
   * Whether tools could get this response when it was created: what they set on it must be sent, and their
   * callbacks called.
   */
  readonly wasObserved: boolean = isObserved();
  /** Whether the response was written directly to the socket. */
  declare isWritten: boolean;
  /** @internal */
  declare _finish: () => void;

  static {
    this.prototype.isWritten = false;
    Object.defineProperties(this.prototype, {
      // defined here, because TypeScript does not allow accessors in a class to override properties
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

  /** Whether it is the response's turn, the connection stays open, and no tool inspects it. */
  override get takesText(): boolean {
    const { socket } = this;
    return (
      socket !== null &&
      socket.writable &&
      this.shouldKeepAlive &&
      this.useChunkedEncodingByDefault &&
      !this.headersSent &&
      // the server creates every request as a ReceivedMessage
      !(this.req as ReceivedMessage).awaitsContinue &&
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
    this._finish(); // notifies tools that measure: node:perf_hooks, traces
  }

  /**
   * With chunked coding, writes the bytes that were encoded once for all clients, if node:http has no
   * buffered bytes.
   */
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

/** The message classes for `createServer()`. */
export const MESSAGES: {
  readonly IncomingMessage: typeof ReceivedMessage;
  readonly ServerResponse: typeof SentMessage;
} = USES_INTERNALS
  ? { IncomingMessage: FastReceived, ServerResponse: FastSent }
  : { IncomingMessage: ReceivedMessage, ServerResponse: SentMessage };

/*
 * Connections: the last two rows of the table above.
 */

/** Receives the begin and end of the idle time between two requests. */
interface SilenceWatch {
  /** Called when the connection becomes idle. */
  begin(socket: Socket): void;
  /** Called when the idle time ends. Returns whether it had begun. */
  end(socket: Socket): boolean;
}

/** Replacement for the method `setTimeout` of a socket. */
export type NoteTimeout = (this: Socket, ms: number, onTimeout?: () => void) => Socket;

/**
 * Replaces the timers for idle connections. node:http calls `socket.setTimeout()` after every response and
 * before every request; the returned function replaces that method, and only notes the times. Undefined if
 * each connection keeps its timer.
 */
export function noteTimeouts(limitMs: number, watch: SilenceWatch): NoteTimeout | undefined {
  if (!USES_INTERNALS) return undefined;
  return function noteTimeout(this: Socket, ms: number, onTimeout?: () => void): Socket {
    // every connection of this server calls this one function
    if (ms === limitMs && onTimeout === undefined) {
      watch.begin(this);
      return this;
    }
    return watch.end(this) && ms === 0
      ? this
      : // other code may set time limits of its own
        (Object.getPrototypeOf(this) as Socket).setTimeout.call(this, ms, onTimeout);
  };
}

/**
 * Lets clients close their side of a connection and still get a response. Without Node's internals, node:http
 * closes the connection then.
 */
export function allowHalfOpen(server: Server): void {
  if (USES_INTERNALS) (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
}

/*
 * The head of a response as one text, formatted as node:http would, for writeText().
 *
 * Order of the parts:
 *   status line · fields of the response · X-Request-Id · Content-Length · Date · Connection · Keep-Alive
 *
 * node:http formats the head itself if it contains a field that node:http inspects, or writes in a special
 * way.
 */

/**
 * Names of fields that node:http inspects or writes in a special way, grouped by length: few other names have
 * such a length, so most need no comparison.
 */
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

/** Formats the heads of a server's responses. */
export class HeadTexts {
  readonly #identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly #keepAlive: string;
  /** The text after the value of Content-Length, valid for the current second. */
  #end: string | undefined;

  /**
   * `identity`: name of the field with the request id. `keepAliveTimeoutMs`: how long an idle connection
   * stays open.
   */
  constructor(identity: Pick<RequestIdentity, 'field' | 'name'>, keepAliveTimeoutMs: number) {
    this.#identity = identity;
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1_000)}\r\n`;
  }

  /** The head of a response after which the connection stays open. Empty if node:http must format it. */
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
    // the system clock, as in node:http, even if the application has another clock
    const nowMs = systemClock.nowMs();
    systemClock.after(1_000 - (nowMs % 1_000), () => {
      this.#end = undefined;
    });
    return (this.#end = `\r\nDate: ${httpDate(nowMs)}\r\n${this.#keepAlive}\r\n`);
  }
}

/**
 * Returns the status line and the fields as text. Checks each field as node:http does; returns an empty text
 * if one is invalid, so that node:http reports the error.
 */
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

/**
 * The value of each field that was valid last time: most fields are the same in every response
 * (test/bench/http.ts --only=stack).
 */
const passed = new Map<string, string>();
const MOST_PASSED = 100;
/** Maximum length of a value that is remembered, in characters. */
const LONGEST_PASSED = 1_000;

/** Whether a field is valid, and can be written as it is. */
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
