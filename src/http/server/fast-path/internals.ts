/**
 * Undocumented parts of Node that the server uses. All of them are in this folder, each together with the
 * documented way.
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
 * The choice is made once, when this file is loaded. The documented way is also used while a tool may inspect
 * messages. The tool has then subscribed to the diagnostics channels of node:http, or replaced methods of
 * node:http.
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

/** Whether these methods are Node's own. Tools may have replaced them before this file was loaded. */
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

/** Whether a tool may inspect messages: by a diagnostics channel, or by a replaced method emit(). */
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

/**
 * A request that uses only documented parts of node:http. The server reads `rawHeaders`, and checks the Host
 * itself.
 */
export class ReceivedMessage extends http.IncomingMessage {
  /**
   * Whether the body was discarded, because the response was sent before the body was read. Set by the
   * server.
   * @internal
   */
  declare isLetGo: boolean;
  /** Whether the client waits for "100 Continue". Set by the server. @internal */
  declare awaitsContinue: boolean;
  /** Called when the body is first read. Set by the server. @internal */
  declare onFirstRead: (() => void) | undefined;

  static {
    // defaults on the prototype, because most requests set none of these members
    this.prototype.isLetGo = false;
    this.prototype.awaitsContinue = false;
    this.prototype.onFirstRead = undefined;
  }

  /**
   * Passes the body directly to `taker`, bypassing the stream. Returns false if it must be read as a stream.
   */
  handTo(_taker: BodyTaker): boolean {
    return false;
  }

  /** Undoes {@link handTo}: the rest of the body is read from the stream. */
  takeBack(): void {
    /* nothing to undo: handTo() has refused, so the stream gets every chunk */
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
 * The two values of `headers` that node:http gets. It reads them only to find out whether a body follows, for
 * example by `'content-length' in headers`.
 */
const WITHOUT_BODY: IncomingHttpHeaders = Object.freeze(Object.create(null) as IncomingHttpHeaders);
const WITH_BODY: IncomingHttpHeaders = Object.freeze(
  Object.assign(Object.create(null) as IncomingHttpHeaders, { 'content-length': '' }),
);

/**
 * Returns the value of `headers` for node:http. Undefined if the request has the field Expect: then node:http
 * needs all fields.
 */
function bodyFieldsOf(rawHeaders: readonly string[]): IncomingHttpHeaders | undefined {
  let fields = WITHOUT_BODY;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    switch (
      name.length // the length is compared first, because few other names have one of these lengths
    ) {
      case 6:
        if (isNamed(name, 'expect')) return undefined;
        break;
      case 14:
        // first the exact comparison, because nearly all clients write the name in this way
        if (name === 'Content-Length' || isNamed(name, 'content-length')) fields = WITH_BODY;
        break;
      case 17:
        if (isNamed(name, 'transfer-encoding')) fields = WITH_BODY;
    }
  }
  return fields;
}

/**
 * A request that builds the object `headers` only if a tool inspects it, because node:http needs only three
 * fields.
 *
 * If a body is read as a whole, the parser passes it directly to its receiver, and the stream is not used.
 * The end is reported in the next tick, as by a stream, so that all received bytes are parsed first. If
 * reading begins after the first bytes of the body, the stream is used.
 */
class FastReceived extends ReceivedMessage {
  /**
   * Receiver of the body. Undefined if the body is read as a stream, and after the end of the body. @internal
   */
  declare bodyTaker: BodyTaker | undefined;
  declare isBodyTaken: boolean;

  static {
    this.prototype.bodyTaker = undefined;
    this.prototype.isBodyTaken = false;
    Object.defineProperty(this.prototype, 'headers', {
      // defined by defineProperty(), because TypeScript does not let an accessor override a property
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
    // starts the reading, as the stream would, because node:http discards a body that is not read
    this._read(0);
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
      // the response was sent, and the server waits for "close", which comes only if the stream ends
      if (this.isLetGo) super.push(null);
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

/** The members of a request that its response uses. */
export interface AnsweredRequest {
  readonly id: string;
  /** Whether the response is decided. */
  readonly isAnswered: boolean;
  /** Called when the client has closed its side of the connection, and may have left. */
  leave(): void;
}

/** A response that uses only documented parts of node:http. */
export class SentMessage extends http.ServerResponse {
  /** The request of this response. Set by the server. */
  declare request: AnsweredRequest | undefined;
  /** Whether the body is sent in chunks, without a known length. Set by the sender. */
  declare isStream: boolean;
  /**
   * Whether the end of the connection is the end of the body, because there is neither a length nor chunked
   * coding. Set by the sender.
   */
  declare endsWithConnection: boolean;
  /** Whether the connection has accepted all bytes. That may be known before node:http emits "finish". */
  declare isTaken: boolean;

  static {
    // defaults on the prototype, because most responses set none of them but `request`
    this.prototype.request = undefined;
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
   * Ends the response at once. If the end of the connection is the end of the body, the connection is reset.
   * Otherwise an HTTP/1.0 client, or a cache, would take the body for complete (RFC 9112 §8).
   */
  override destroy(error?: Error): this {
    if (this.endsWithConnection && !this.writableFinished && this.socket?.destroyed === false)
      reset(this.socket);
    return super.destroy(error);
  }
}

/**
 * Resets a TCP connection. TLS needs no reset, because its clients can tell whether the body is complete.
 * Unix sockets cannot be reset.
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
 * A response that writes head and body as one text to its connection. Then node:http treats it as a response
 * that was sent, so the order of responses and the time limits are still those of node:http. The documented
 * way is used if an earlier response is not sent yet, the connection ends with this response, or a tool
 * inspects messages.
 */
class FastSent extends SentMessage {
  /**
   * Whether a tool could get this response when it was created. If so, node:http must send it, because the
   * tool may have set fields or added callbacks.
   */
  readonly wasObserved: boolean = isObserved();
  /** Whether the response was written directly to the socket. */
  declare isWritten: boolean;
  /** @internal */
  declare _finish: () => void;

  static {
    this.prototype.isWritten = false;
    Object.defineProperties(this.prototype, {
      // defined by defineProperties(), because TypeScript does not let an accessor override a property
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

  /** Whether no earlier response is waiting, the connection stays open, and no tool inspects the response. */
  override get takesText(): boolean {
    const { socket } = this;
    return (
      socket !== null &&
      socket.writable &&
      this.shouldKeepAlive &&
      this.useChunkedEncodingByDefault &&
      !this.headersSent &&
      // the cast is safe: the server creates every request as a ReceivedMessage
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
    this._finish(); // notifies node:perf_hooks and traces
  }

  /**
   * Writes the bytes that were encoded once for all clients, if the response uses chunked coding, and
   * node:http has buffered no bytes.
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

/* Connections: the parts of Node in the last two rows of the table at the start of this file. */

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
 * Returns a replacement for the method `setTimeout` of sockets. node:http calls that method after every
 * response and before every request; the replacement only reports the begin and the end of the idle time.
 * Undefined if each connection keeps its own timer.
 */
export function noteTimeouts(limitMs: number, watch: SilenceWatch): NoteTimeout | undefined {
  if (!USES_INTERNALS) return undefined;
  return function noteTimeout(this: Socket, ms: number, onTimeout?: () => void): Socket {
    // one function for all connections of this server
    if (ms === limitMs && onTimeout === undefined) {
      watch.begin(this);
      return this;
    }
    return watch.end(this) && ms === 0
      ? this
      : // another time limit: other code has set it
        (Object.getPrototypeOf(this) as Socket).setTimeout.call(this, ms, onTimeout);
  };
}

/**
 * Lets a client close its side of the connection and still get its response. Without Node's internals,
 * node:http closes the connection at that moment.
 */
export function allowHalfOpen(server: Server): void {
  if (USES_INTERNALS) (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
}

/*
 * The head of a response as one text for writeText(), formatted as by node:http.
 *
 * Order of the parts:
 *   status line · fields of the response · X-Request-Id · Content-Length · Date · Connection · Keep-Alive
 *
 * If the head contains a field that node:http inspects or writes in a special way, node:http formats the
 * head.
 */

/**
 * Names of fields that node:http inspects or writes in a special way, by their length. Few other names have
 * one of these lengths, so most names need no comparison.
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
  /** The text after the value of Content-Length. It contains the date, so it is valid for one second. */
  #end: string | undefined;

  /**
   * `identity`: name of the field with the request id. `keepAliveTimeoutMs`: how long an idle connection
   * stays open.
   */
  constructor(identity: Pick<RequestIdentity, 'field' | 'name'>, keepAliveTimeoutMs: number) {
    this.#identity = identity;
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1_000)}\r\n`;
  }

  /**
   * Returns the head of a response after which the connection stays open. Empty if node:http must format it.
   */
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
    // uses the system clock, as node:http does, even if the application has another clock
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
 * The last valid value of each field. Most values are the same in every response, and need no check then
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
