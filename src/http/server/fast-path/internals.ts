/**
 * Undocumented parts of Node that the server uses. They are only in this folder, each next to a documented
 * alternative.
 *
 * Gain of each undocumented part, with its benchmark:
 *   - `headers` of a request as an accessor, not as an object: 6 % (http-inject --headers=browser)
 *   - chunks of a request body from `push`, without stream events: 10 % (http-inject --steps=post)
 *   - head and body of a response in one `socket.write()`: 15 % (http-inject --steps=json)
 *   - chunks of a response in `socket.write()`: 17 % (sse)
 *   - one timer for all idle connections: 7 % (http)
 *   - `httpAllowHalfOpen`: clients such as nc, which close their side after the request, get a response
 *
 * The server uses only documented parts of Node in three cases: with SVC_NODE_INTERNALS=off, on versions of
 * Node other than 24 and 26, and while a tool may inspect requests and responses. Such a tool has subscribed
 * to diagnostics channels of node:http, or has replaced methods of node:http.
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

/**
 * Returns whether end(), write() and writeHead() are Node's own methods. Tools may have replaced them before
 * this file was loaded.
 */
function areOwn(): boolean {
  return (
    String(end).startsWith('function end(chunk, encoding, callback)') &&
    String(write).startsWith('function write(chunk, encoding, callback)') &&
    String(writeHead).startsWith('function writeHead(statusCode, reason, obj)')
  );
}

/** Whether this process uses undocumented parts of Node.js. */
export const USES_INTERNALS: boolean =
  process.env['SVC_NODE_INTERNALS'] !== 'off' && /^(?:24|26)\./.test(process.versions.node) && areOwn();

/** Diagnostics channels from which tracing tools receive requests and responses. */
const OBSERVED = [
  'http.server.request.start',
  'http.server.response.created',
  'http.server.response.finish',
].map((name) => channel(name));

/**
 * Returns whether a tool may inspect requests or responses: through a diagnostics channel, or a replaced
 * emit().
 */
function isObserved(): boolean {
  return (
    OBSERVED[0]!.hasSubscribers ||
    OBSERVED[1]!.hasSubscribers ||
    OBSERVED[2]!.hasSubscribers ||
    http.Server.prototype.emit !== EventEmitter.prototype.emit
  );
}

/** Returns whether a tool has replaced methods with which node:http sends responses. */
function isPatched(): boolean {
  const { prototype } = http.ServerResponse;
  return (
    prototype.end !== end ||
    prototype.write !== write ||
    prototype.writeHead !== writeHead ||
    prototype.emit !== EventEmitter.prototype.emit
  );
}

/** A request that only uses documented parts of node:http. */
export class ReceivedMessage extends http.IncomingMessage {
  /**
   * Whether the rest of the body is discarded, because the response was already sent. Set by the server.
   * @internal
   */
  declare isLetGo: boolean;
  /** Whether the client waits for "100 Continue" before it sends the body. Set by the server. @internal */
  declare awaitsContinue: boolean;
  /** Called when the body is read for the first time. Set by the server. @internal */
  declare onFirstRead: (() => void) | undefined;

  static {
    // set on the prototype, because most requests keep these defaults
    this.prototype.isLetGo = false;
    this.prototype.awaitsContinue = false;
    this.prototype.onFirstRead = undefined;
  }

  /**
   * Passes the body directly to `taker` instead of the stream. Returns false if the body must be read as a
   * stream.
   */
  handTo(_taker: BodyTaker): boolean {
    return false;
  }

  /** Undoes {@link handTo}: later bytes go to the stream again. */
  takeBack(): void {
    /* handTo() has returned false, so the stream has all bytes */
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
 * Value of `headers` for a request without a body. node:http only checks whether `headers` contains fields
 * such as `content-length`.
 */
const WITHOUT_BODY: IncomingHttpHeaders = Object.freeze(Object.create(null) as IncomingHttpHeaders);
const WITH_BODY: IncomingHttpHeaders = Object.freeze(
  Object.assign(Object.create(null) as IncomingHttpHeaders, { 'content-length': '' }),
);

/**
 * Returns the object that node:http gets as `headers`. Returns undefined if the request has an Expect field,
 * because node:http then needs all fields.
 */
function bodyFieldsOf(rawHeaders: readonly string[]): IncomingHttpHeaders | undefined {
  let fields = WITHOUT_BODY;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    switch (
      name.length // most field names are excluded by their length, without a comparison
    ) {
      case 6:
        if (isNamed(name, 'expect')) return undefined;
        break;
      case 14:
        // nearly all clients write `Content-Length`, so this spelling is compared first
        if (name === 'Content-Length' || isNamed(name, 'content-length')) fields = WITH_BODY;
        break;
      case 17:
        if (isNamed(name, 'transfer-encoding')) fields = WITH_BODY;
    }
  }
  return fields;
}

/**
 * A request that builds the object `headers` only if a tool inspects requests. node:http itself reads only
 * three fields.
 *
 * When the handler reads the whole body, the parser passes the chunks directly to the reader (`BodyTaker`),
 * and not to the stream. If the first bytes of the body have already arrived, the stream is used.
 */
class FastReceived extends ReceivedMessage {
  /**
   * Receiver of the body. Undefined after the end of the body, and if the body is read as a stream.
   * @internal
   */
  declare bodyTaker: BodyTaker | undefined;
  declare isBodyTaken: boolean;

  static {
    this.prototype.bodyTaker = undefined;
    this.prototype.isBodyTaken = false;
    Object.defineProperty(this.prototype, 'headers', {
      // defineProperty() is needed, because TypeScript does not let an accessor override a property
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

  /** Returns false if bytes of the body have already arrived, or the client waits for "100 Continue". */
  override handTo(taker: BodyTaker): boolean {
    if (this.complete || this.readableLength > 0 || this.readableFlowing !== null || this.awaitsContinue)
      return false;
    this.bodyTaker = taker;
    // starts reading, because node:http discards a body that is not read
    this._read(0);
    return true;
  }

  override takeBack(): void {
    this.bodyTaker = undefined;
  }

  /** Called by the parser with each chunk, and with null after the last one. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const taker = this.bodyTaker;
    if (taker === undefined) return super.push(chunk, encoding);
    if (chunk !== null) taker.take(chunk);
    else {
      this.bodyTaker = undefined;
      this.isBodyTaken = true;
      taker.end();
      // the server waits for the event "close", which the stream emits only after its end
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

/** The part of a request that its response needs. */
export interface AnsweredRequest {
  readonly id: string;
  /** Whether the response is decided and may no longer be replaced. */
  readonly isAnswered: boolean;
  /** Called when the client has closed its side of the connection. */
  leave(): void;
}

/** A response that only uses documented parts of node:http. */
export class SentMessage extends http.ServerResponse {
  /** The request of this response. Set by the server. */
  declare request: AnsweredRequest | undefined;
  /** Whether the body has no known length, and is sent in chunks. Set by send.ts. */
  declare isStream: boolean;
  /**
   * Whether the body ends with the connection, because it has neither a known length nor chunked coding. Set
   * by send.ts.
   */
  declare endsWithConnection: boolean;
  /** Whether the operating system has accepted all bytes. This may be known before the event "finish". */
  declare isTaken: boolean;

  static {
    // set on the prototype, because most responses keep these defaults
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
   * Sends `text`, which contains head and body. Call it only if {@link takesText} is true. `isAscii`: whether
   * all characters are ASCII. `onOver` is called when the response has ended.
   */
  writeText(_status: number, _text: string, _isAscii: boolean, _onOver: (this: SentMessage) => void): void {
    throw new Error('writeText() must not be called while the property takesText is false');
  }

  writeShared(chunk: SharedChunk): boolean {
    return this.write(chunk.text);
  }

  /**
   * Ends the response at once. If the body ends with the connection, the connection is reset. Without the
   * reset, an HTTP/1.0 client or a cache would take the incomplete body for complete (RFC 9112 §8).
   */
  override destroy(error?: Error): this {
    if (this.endsWithConnection && !this.writableFinished && this.socket?.destroyed === false)
      reset(this.socket);
    return super.destroy(error);
  }
}

/**
 * Resets a TCP connection. Does nothing on TLS, because TLS itself shows an incomplete body. Unix sockets
 * cannot be reset.
 */
function reset(socket: Socket): void {
  try {
    socket.resetAndDestroy();
  } catch {
    // resetAndDestroy() throws if the connection is not TCP, for example on a Unix socket
  }
}

const hasFinished = Object.getOwnPropertyDescriptor(http.OutgoingMessage.prototype, 'writableFinished') as {
  get(this: ServerResponse): boolean;
};
const hasHead = Object.getOwnPropertyDescriptor(http.OutgoingMessage.prototype, 'headersSent') as {
  get(this: ServerResponse): boolean;
};

/**
 * A response that writes head and body as one text to its socket. node:http then treats the response as sent,
 * and still controls the order of responses and the time limits. The documented methods are used if an
 * earlier response is not sent yet, the connection ends with this response, or a tool inspects responses.
 */
class FastSent extends SentMessage {
  /**
   * Whether a tool could access this response when it was created. If so, node:http must send the response,
   * because the tool may have set header fields or added callbacks.
   */
  readonly wasObserved: boolean = isObserved();
  /** Whether the response was written directly to the socket. */
  declare isWritten: boolean;
  /** @internal */
  declare _finish: () => void;

  static {
    this.prototype.isWritten = false;
    Object.defineProperties(this.prototype, {
      // defineProperties() is needed, because TypeScript does not let an accessor override a property
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

  /** Whether no earlier response is waiting, the connection stays open, and no tool inspects responses. */
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
    this._finish(); // reports the end to node:perf_hooks and to tracing
  }

  /**
   * Writes the bytes of a chunk, which are encoded once for all clients. If the response has no chunked
   * coding, or node:http has buffered bytes, the chunk is written as text.
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

/** Classes of requests and responses, for `createServer()`. */
export const MESSAGES: {
  readonly IncomingMessage: typeof ReceivedMessage;
  readonly ServerResponse: typeof SentMessage;
} = USES_INTERNALS
  ? { IncomingMessage: FastReceived, ServerResponse: FastSent }
  : { IncomingMessage: ReceivedMessage, ServerResponse: SentMessage };

/** Callbacks for the beginning and end of the idle time between two requests. */
interface SilenceWatch {
  /** Called when the connection becomes idle. */
  begin(socket: Socket): void;
  /** Called when the idle time ends. Returns whether the connection was idle. */
  end(socket: Socket): boolean;
}

/** Replacement for the method setTimeout() of a socket. */
export type NoteTimeout = (this: Socket, ms: number, onTimeout?: () => void) => Socket;

/**
 * Returns a replacement for setTimeout() of sockets, which only reports the beginning and end of the idle
 * time. node:http calls setTimeout() after each response and before each request. Returns undefined if
 * undocumented parts must not be used; then each connection has its own timer.
 */
export function noteTimeouts(limitMs: number, watch: SilenceWatch): NoteTimeout | undefined {
  if (!USES_INTERNALS) return undefined;
  // `this` is the socket: one function serves all connections of this server
  return function noteTimeout(this: Socket, ms: number, onTimeout?: () => void): Socket {
    if (ms === limitMs && onTimeout === undefined) {
      watch.begin(this);
      return this;
    }
    return watch.end(this) && ms === 0
      ? this
      : // Node's own setTimeout() applies a time limit that other code has set
        (Object.getPrototypeOf(this) as Socket).setTimeout.call(this, ms, onTimeout);
  };
}

/**
 * Lets a client close its side of the connection, and still receive its response. By default, node:http
 * closes the connection then.
 */
export function allowHalfOpen(server: Server): void {
  if (USES_INTERNALS) (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
}

/**
 * Names of fields that node:http reads or formats specially, by length. Few other fields have names of these
 * lengths, so most names need no comparison.
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

/**
 * Formats the heads of all responses of a server, in the same way as node:http. A head with a field that
 * node:http treats specially is left to node:http.
 */
export class HeadTexts {
  readonly #identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly #keepAlive: string;
  /** Text after the value of Content-Length. It contains the date, so it is valid for one second. */
  #end: string | undefined;

  /**
   * `identity` has the name of the header field for the request id. `keepAliveTimeoutMs` is announced in the
   * field `Keep-Alive`.
   */
  constructor(identity: Pick<RequestIdentity, 'field' | 'name'>, keepAliveTimeoutMs: number) {
    this.#identity = identity;
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1_000)}\r\n`;
  }

  /**
   * Returns the head of a response that does not end its connection. Returns an empty text if node:http must
   * format the head.
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
    // uses the system clock like node:http, even if the application has a clock of its own
    const nowMs = systemClock.nowMs();
    systemClock.after(1_000 - (nowMs % 1_000), () => {
      this.#end = undefined;
    });
    return (this.#end = `\r\nDate: ${httpDate(nowMs)}\r\n${this.#keepAlive}\r\n`);
  }
}

/**
 * Returns the status line and header fields as text. Returns an empty text if node:http must format them,
 * because it refuses a field or formats it specially.
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
 * Last valid value of each field. Most fields have one value in all responses, so the value is checked only
 * once (test/bench/http.ts --only=CORS).
 */
const passed = new Map<string, string>();
const MOST_PASSED = 100;
/** Maximum number of characters of a value in `passed`. */
const LONGEST_PASSED = 1_000;

/** Returns whether a field is valid, and needs no special treatment by node:http. */
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
