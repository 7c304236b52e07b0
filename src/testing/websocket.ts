/**
 * The client side of a WebSocket in a test. It sends messages at once, and stores received messages until the
 * test reads them.
 *
 * Example:
 *   await using socket = await client.websocket('/chat');
 *   socket.send('hello');
 *   assert.equal(await socket.receive(), 'hello');
 */
import { randomBytes } from 'node:crypto';
import { MessageDeflater, MessageInflater } from '../http/websocket/deflate.ts';
import { CLOSE, OPCODE } from '../http/websocket/codes.ts';
import { FrameReader } from '../http/websocket/frames.ts';
import { closePayload, encodeMaskedFrame } from '../http/websocket/encode.ts';
import { handled } from '../base/promises.ts';
import { toJson } from '../http/response.ts';
import type { Duplex } from 'node:stream';
import type { WebSocketClose } from '../http/websocket/closing.ts';

/** Options of a WebSocket handshake. */
export interface TestWebSocketOptions {
  /**
   * Header fields of the handshake. They replace fields of the client with the same name. The default of
   * `origin` is the origin of the application; `origin: ''` omits the field.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Subprotocols that the handshake offers. */
  readonly protocols?: readonly string[] | undefined;
  /** Whether the handshake offers compression. Default false. */
  readonly compression?: boolean | undefined;
}

/** Error of a handshake whose response is not 101. */
export class WebSocketRefused extends Error {
  readonly response: Response;

  constructor(response: Response) {
    super(`The WebSocket handshake was refused with status ${response.status}`);
    this.name = 'WebSocketRefused';
    this.response = response;
  }
}

/**
 * Removes and returns the error of the WebSocket whose 101 response has these header fields.
 * @internal
 */
export type ErrorSource = (headers: Headers) => HandlerError | undefined;

interface HandlerError {
  readonly error: unknown;
}

/** The client side of a WebSocket, which {@link TestClient.websocket} opens. */
export class TestWebSocket implements AsyncIterable<string | Uint8Array>, AsyncDisposable {
  /** Header fields of the 101 response. */
  readonly headers: Headers;
  readonly #closed: PromiseWithResolvers<WebSocketClose> = Promise.withResolvers();
  readonly #takeError: ErrorSource;
  /** Error that a handler of the application has thrown. */
  #failure: HandlerError | undefined;
  /** Whether the test has read `closed`, which rejects with the error of a handler. */
  #isAwaited = false;
  /** Whether a call has already rejected with the error of a handler. */
  #isRaised = false;
  readonly #stream: Duplex;
  readonly #reader: FrameReader;
  readonly #deflater: MessageDeflater | undefined;
  readonly #messages: (string | Uint8Array)[] = [];
  readonly #waiters: PromiseWithResolvers<string | Uint8Array>[] = [];
  #close: WebSocketClose | undefined;
  #hasSaidClose = false;

  /** @internal */
  constructor(stream: Duplex, headers: Headers, head?: Buffer, takeError: ErrorSource = () => undefined) {
    this.#stream = stream;
    this.headers = headers;
    this.#takeError = takeError;
    handled(this.#closed.promise);
    const extensions = headers.get('sec-websocket-extensions');
    const takesOver = (side: string): boolean =>
      extensions?.includes(`${side}_no_context_takeover`) === false;
    const inflater = extensions === null ? undefined : new MessageInflater(15, takesOver('server'));
    if (extensions !== null)
      this.#deflater = new MessageDeflater(
        Number(/client_max_window_bits=(\d+)/.exec(extensions)?.[1] ?? 15),
        6,
        takesOver('client'),
      );
    this.#reader = new FrameReader(
      {
        isMasked: false,
        maxMessageBytes: 2 ** 30,
        inflate: inflater === undefined ? undefined : (bytes, most) => inflater.inflate(bytes, most),
      },
      {
        onText: (text) => this.#take(text),
        onBinary: (bytes) => this.#take(Uint8Array.from(bytes)),
        onPing: (payload) => this.#write(OPCODE.pong, payload),
        onPong: () => undefined,
        onClose: (code, reason) => this.#onClose(code, reason),
        onViolation: (code, reason) => this.#over({ code, reason, wasClean: false }),
      },
    );
    // the bytes are copied, because without a network connection the server may reuse them
    stream.on('data', (chunk: Buffer) => this.#reader.push(Buffer.from(chunk)));
    stream
      .on('error', () => undefined)
      .once('end', () => stream.destroy())
      .once('close', () => this.#over({ code: CLOSE.abnormal, reason: '', wasClean: false }));
    if (head !== undefined && head.length > 0) this.#reader.push(head);
  }

  /** Chosen subprotocol; empty if there is none. */
  get protocol(): string {
    return this.headers.get('sec-websocket-protocol') ?? '';
  }

  /** Resolves when the connection has ended. Rejects with the error of a handler, if there is one. */
  get closed(): Promise<WebSocketClose> {
    this.#isAwaited = true;
    this.#isRaised ||= this.#failure !== undefined;
    // a new promise each time, so that a rejection without a handler is only reported if the test reads
    // `closed`
    return this.#closed.promise.then((close) => close);
  }

  /** Sends a string as a text message, or bytes as a binary message. */
  send(data: string | Uint8Array): void {
    const bytes = Buffer.from(data as string);
    const deflated = this.#deflater?.deflate(bytes);
    const opcode = typeof data === 'string' ? OPCODE.text : OPCODE.binary;
    this.#write(opcode, deflated ?? bytes, deflated !== undefined);
  }

  /** Sends a value as a JSON text message. */
  sendJson(value: unknown): void {
    this.send(toJson(value));
  }

  /** Sends raw bytes, even if they are not a valid frame. */
  sendRaw(bytes: Uint8Array): void {
    this.#stream.write(bytes);
  }

  /**
   * Resolves with the next message. If the WebSocket closes first, rejects with the error of a handler, or
   * else with an error that names the close code.
   */
  receive(): Promise<string | Uint8Array> {
    const message = this.#messages.shift();
    if (message !== undefined) return Promise.resolve(message);
    if (this.#close !== undefined) return Promise.reject(this.#raise(this.#close));
    const waiter = Promise.withResolvers<string | Uint8Array>();
    this.#waiters.push(waiter);
    return waiter.promise;
  }

  /** Resolves with the next message, parsed as JSON. */
  async receiveJson(): Promise<unknown> {
    return JSON.parse(String(await this.receive())) as unknown;
  }

  /** Closes the WebSocket. Resolves with how the connection ended. Rejects like {@link closed}. */
  close(code?: number, reason = ''): Promise<WebSocketClose> {
    if (!this.#hasSaidClose && this.#close === undefined)
      this.#write(OPCODE.close, code === undefined ? Buffer.alloc(0) : closePayload(code, reason));
    this.#hasSaidClose = true;
    return this.closed;
  }

  /** Ends the connection at once, without a close frame. */
  terminate(): void {
    this.#stream.destroy();
  }

  /** Stops reading from the connection, as a slow client does. */
  pause(): void {
    this.#stream.pause();
  }
  /** Resumes reading after `pause()`. */
  resume(): void {
    this.#stream.resume();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string | Uint8Array, void, undefined> {
    while (this.#messages.length > 0 || this.#close === undefined) {
      const message = await this.receive().catch((error: unknown) => {
        if (this.#failure !== undefined) throw error;
        return undefined;
      });
      if (message === undefined) return;
      yield message;
    }
    this.rethrow();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const wasRaised = this.#isRaised;
    await this.close(CLOSE.normal).catch((error: unknown) => {
      if (!wasRaised) throw error;
    });
  }

  /** @throws the error of a handler, unless a call has already rejected with it @internal */
  rethrow(): void {
    this.#failure ??= this.#takeError(this.headers);
    if (this.#failure === undefined || this.#isRaised) return;
    this.#isRaised = true;
    throw this.#failure.error;
  }

  #raise(close: WebSocketClose): unknown {
    this.#failure ??= this.#takeError(this.headers);
    if (this.#failure === undefined) return closedError(close);
    this.#isRaised = true;
    return this.#failure.error;
  }

  #write(opcode: number, payload: Buffer, isCompressed = false): void {
    if (!this.#hasSaidClose && !this.#stream.destroyed)
      this.#stream.write(encodeMaskedFrame(opcode, payload, randomBytes(4), isCompressed));
  }

  #take(message: string | Uint8Array): void {
    const waiter = this.#waiters.shift();
    if (waiter === undefined) this.#messages.push(message);
    else waiter.resolve(message);
  }

  #onClose(code: number, reason: string): void {
    this.#write(OPCODE.close, code === CLOSE.noStatus ? Buffer.alloc(0) : closePayload(code, reason));
    this.#hasSaidClose = true;
    this.#over({ code, reason, wasClean: true });
  }

  #over(close: WebSocketClose): void {
    if (this.#close !== undefined) return;
    this.#close = close;
    this.#failure = this.#takeError(this.headers);
    this.#isRaised = this.#isAwaited && this.#failure !== undefined;
    if (this.#failure === undefined) this.#closed.resolve(close);
    else this.#closed.reject(this.#failure.error);
    this.#stream.end();
    this.#stream.resume();
    for (const waiter of this.#waiters.splice(0)) waiter.reject(this.#raise(close));
  }
}

function closedError({ code, reason }: WebSocketClose): Error {
  return new Error(`The WebSocket has closed with code ${code}${reason === '' ? '' : `: ${reason}`}`);
}
