/**
 * One open WebSocket: reads messages, calls handlers in order, limits the waiting data, and closes.
 *
 * Received data: stream -> FrameReader -> inbox -> handler. Sent data: handler -> FrameSender -> stream.
 *
 * States of a socket:
 *   - the server closes: open -> closing (close frame sent) -> closed (close frame received)
 *   - the client closes: open -> answering (close frame received, may reply) -> closed (close frame sent)
 *
 * The handler of a WebSocket gets a message when its call for the previous message has settled. Messages that
 * arrive earlier wait. The server stops reading from the client if more than 64 KiB of messages wait, or if
 * too many sent bytes wait for the client to read.
 */
import { SvcError, errorAfter } from '../../base/errors.ts';
import { isThenable } from '../../base/promises.ts';
import { toJson } from '../response.ts';
import { Ending, closeFor } from './closing.ts';
import { CLOSE, OPCODE, isCloseCode } from './codes.ts';
import { MessageDeflater, inflatingReader } from './deflate.ts';
import { closePayload } from './encode.ts';
import { callHandler } from './handlers.ts';
import { Inbox, costOf } from './inbox.ts';
import { areHandlersLate } from './turns.ts';
import { FrameReader } from './frames.ts';
import { PeerWatch, RoundTrip, startBeats } from './liveness.ts';
import { Memberships } from './rooms.ts';
import { FrameSender } from './sender.ts';
import { destroyAfterEnd, listen, ownsChunks } from './stream-events.ts';
import type { Duplex } from 'node:stream';
import type { ContextRunner } from '../../base/promises.ts';
import type { Awaitable } from '../contracts.ts';
import type { Beating, Heartbeat } from '../streaming/heartbeat.ts';
import type { Holder } from '../request/budget.ts';
import type { TransportRequest } from '../request/request.ts';
import type { WebSocketClose } from './closing.ts';
import type { SharedSocketDeps, SocketDeps, SocketHost } from './handlers.ts';
import type { InflatingSink } from './deflate.ts';
import type { RoomMember, SharedMessage } from './rooms.ts';
import type { SenderOwner } from './sender.ts';
import type { StreamOwner } from './stream-events.ts';

/** Time in milliseconds after which a connection is destroyed if the client does not end its side. */
const LINGER_MS = 2_000;

const EMPTY: Buffer = Buffer.alloc(0);
/** Reasons why the server stops reading from the client, as bits. */
const HOLD = { inbox: 1, pressure: 2, inflating: 4 } as const;

type State = 'open' | 'answering' | 'closing' | 'closed';

/**
 * A WebSocket, as handlers get it. Most sockets are idle, so objects that only active sockets need are
 * created when needed (test/bench/websocket.ts: idle).
 */
export class WebSocketConnection
  implements InflatingSink, SenderOwner, StreamOwner, RoomMember, Beating, AsyncIterable<unknown>
{
  /** Value that handlers get in addition to the socket. @internal */
  readonly context: unknown;
  /** The request that opened the socket. @internal */
  readonly req: TransportRequest;
  /** The negotiated subprotocol; an empty text if there is none. */
  readonly protocol: string;
  readonly #stream: Duplex;
  readonly #deps: SharedSocketDeps<WebSocketConnection>;
  readonly #host: SocketHost<WebSocketConnection>;
  readonly #enter: ContextRunner;
  /** Parser of received bytes. Undefined between two messages, to save memory while the socket is idle. */
  #reader: FrameReader | undefined;
  readonly #sender: FrameSender;
  #state: State = 'open';
  #end: Ending | undefined;
  #holds = 0;
  /** Kind of the running handler: onMessage, another one such as onOpen, or none. */
  #running: 'nothing' | 'message' | 'other' = 'other';
  #inbox: Inbox | undefined;
  #heart: Heartbeat | undefined;
  readonly #watch = new PeerWatch();
  #rooms: Memberships | undefined;
  /** Counts the received bytes that are held; undefined until there are any. */
  #held: Holder | undefined;
  /** Size of the message whose handler runs. */
  #handledBytes = 0;
  #ping: RoundTrip | undefined;

  /** Call {@link start} when the response to the handshake was written. @internal */
  constructor(
    stream: Duplex,
    deps: SharedSocketDeps<WebSocketConnection>,
    own: SocketDeps<WebSocketConnection>,
  ) {
    const { protocol, deflate, context, enter, req, host } = own;
    this.#stream = stream;
    this.#deps = deps;
    this.protocol = protocol;
    this.context = context;
    this.req = req;
    this.#host = host;
    this.#enter = enter;
    if (deflate !== undefined)
      this.#reader = inflatingReader(deflate, deps.maxMessageBytes, ownsChunks(stream), this);
    // `compression` is defined: without this option, no compression is negotiated
    const deflater =
      deflate === undefined
        ? undefined
        : new MessageDeflater(deflate.serverBits, deps.compression!.level, deflate.serverTakesOver);
    this.#sender = new FrameSender(stream, deps, this, deflater);
  }

  /** Opens the socket. `head`: bytes that were received after the request of the handshake. @internal */
  start(head: Buffer): void {
    this.#deps.meter?.enter();
    this.#heart = startBeats(this.#deps, this);
    const stream = this.#stream;
    listen(stream, this);
    const isOver = stream.readableEnded; // true if the client has already ended its side of the connection
    if (isOver && head.length === 0) stream.destroy();
    if (stream.destroyed) {
      this.#running = 'nothing'; // the client has disconnected, so no handler is called
      this.#ending.isReported = this.#ending.isHandled = true;
      return this.onStreamClose();
    }
    this.#run(
      () => this.#enter(this.#deps.listener.onOpen, this),
      () => this.#proceed(),
    );
    // copied, because the reader changes the bytes in place, and other code may use the same chunk
    if (head.length > 0) this.receive(Buffer.from(head));
    if (isOver) this.onStreamEnd();
    else if (this.#holds === 0) stream.resume();
  }

  /** Whether messages can be sent. After the client has closed, handlers may finish their replies. */
  get isOpen(): boolean {
    return this.#state === 'open' || this.#state === 'answering';
  }

  /** Number of bytes of sent messages that the operating system has not accepted yet. */
  get bufferedAmount(): number {
    return this.#sender.bufferedAmount;
  }

  /**
   * Sends a string as a text message, bytes as a binary message. Do not change the bytes afterwards. Returns
   * false if the socket is closed, or is closed because of this message.
   * @throws SvcError `E_WEBSOCKET_FULL` if the option `slowConsumer` is `wait`, and the queue is full
   */
  send(data: string | Uint8Array): boolean {
    if (!this.isOpen) return false;
    if (typeof data === 'string') this.#sender.sendText(data);
    else if (data instanceof Uint8Array) this.#sender.sendBytes(data);
    else throw new SvcError('E_WEBSOCKET_DATA', [data === null ? 'null' : typeof data]);
    return this.isOpen;
  }

  /** Sends a value as JSON, like {@link send}. @throws SvcError `E_REPLY` for a value without a JSON form */
  sendJson(value: unknown): boolean {
    return this.isOpen && this.send(toJson(value));
  }

  /** Resolves when the client has read enough that more can be sent; see {@link bufferedAmount}. */
  drain(): Promise<void> {
    return this.#sender.drain();
  }

  /** Sends a ping. Resolves with the round-trip time in milliseconds; undefined if no pong arrives. */
  ping(): Promise<number | undefined> {
    if (this.#state !== 'open') return Promise.resolve(undefined);
    if (this.#ping === undefined) {
      this.#ping = new RoundTrip(this.#deps.clock.monotonicMs());
      this.#sender.sendControl(OPCODE.ping, this.#ping.payload);
    }
    return this.#ping.durationMs;
  }

  /** Closes the socket after all earlier messages were sent. `reason` is cut to 123 bytes. */
  close(code: number = CLOSE.normal, reason = ''): void {
    if (!isCloseCode(code)) throw new SvcError('E_WEBSOCKET_CLOSE', [code]);
    if (this.isOpen) this.#sayClose(code, reason);
  }

  /** Adds this socket to a room. @throws SvcError `E_ROOM` for an invalid name, or beyond `maxRooms` */
  join(room: string): void {
    if (this.#state !== 'open') return;
    (this.#rooms ??= new Memberships(this.#deps.rooms, this, this.#deps.maxRooms)).join(room);
  }

  /** Removes this socket from a room. */
  leave(room: string): void {
    this.#rooms?.leave(room);
  }

  /** Sends a message to every other member of a room, in all processes. This socket need not be a member. */
  broadcast(room: string, data: string | Uint8Array): void {
    this.#deps.rooms.broadcast(room, data, { except: this });
  }

  /** Sends a value as JSON text to every other member of a room, like {@link broadcast}. */
  broadcastJson(room: string, value: unknown): void {
    this.#deps.rooms.broadcastJson(room, value, { except: this });
  }

  /** Iterates the messages. */
  [Symbol.asyncIterator](): AsyncIterator<unknown, undefined> {
    if (this.#inbox?.isIterated === true || this.#deps.listener.onMessage !== undefined)
      throw new SvcError('E_WEBSOCKET_ITERATED', []);
    return (this.#inbox ??= new Inbox()).iterate(() => {
      if (areHandlersLate(this.#deps)) setImmediate(() => this.#proceed());
      else this.#proceed();
    });
  }

  /** Ends the connection without a close frame. @internal */
  terminate(): void {
    this.#stream.destroy();
  }

  /** Sends the client a message that was sent to one of its rooms. @internal */
  deliver(message: SharedMessage): void {
    if (this.#state === 'open') this.#sender.deliver(message);
  }

  /** @internal */
  receive(chunk: Buffer): void {
    this.#watch.onBytes();
    this.#deps.meter?.bytesIn.add(chunk.length);
    if (this.#end?.isGone === true) return;
    const reader = (this.#reader ??= this.#newReader());
    this.#sender.hold();
    reader.push(chunk);
    this.#sender.flush();
    this.#letReaderGo(reader);
    this.#count();
  }

  /** @internal */
  onText(text: string): void {
    this.#onMessage(text);
  }

  /** @internal */
  onBinary(bytes: Buffer): void {
    this.#onMessage(bytes);
  }

  /** @internal */
  onPing(payload: Buffer): void {
    if (this.#state === 'open') this.#sender.sendControl(OPCODE.pong, payload);
  }

  /** Ignores a pong whose payload differs from that of the pending ping (RFC 6455 §5.5.3). @internal */
  onPong(payload: Buffer): void {
    const ping = this.#ping;
    if (ping === undefined || !ping.payload.equals(payload)) return;
    this.#ping = undefined;
    ping.end(this.#deps.clock.monotonicMs());
  }

  /** @internal */
  onClose(code: number, reason: string): void {
    if (this.#state !== 'open') return this.#agree();
    this.#state = 'answering';
    this.#ending.close = { code, reason, wasClean: false }; // #agree() later sets `wasClean` to true
    this.#leave();
    if (this.#mayReply) this.#setTimer(this.#deps.closeTimeoutMs, () => this.#answerClose());
    else this.#answerClose();
  }

  /** @internal */
  onViolation(code: number, reason: string): void {
    if (this.#state === 'open') this.#sender.sendControl(OPCODE.close, closePayload(code, reason));
    this.#deps.log.debug('websocket_violation', { ...this.req.logFields(), code, reason });
    this.#closed({ code, reason, wasClean: false });
    this.#endStream();
  }

  /** @internal */
  onDrain(): void {
    this.#sender.onDrain();
  }

  /** Called when the client has ended its side. Waiting messages are still sent. @internal */
  onStreamEnd(): void {
    const isSending = this.#state === 'closed' && !this.#stream.writableEnded;
    const isInflating = (this.#holds & HOLD.inflating) !== 0;
    if (this.#state !== 'answering' && !isSending && !isInflating) destroyAfterEnd(this.#stream);
  }

  /** @internal */
  onStreamClose(): void {
    this.#sender.end();
    this.#reader?.end();
    this.#reader = undefined;
    this.#ending.isGone = true;
    this.#closed({ code: CLOSE.abnormal, reason: '', wasClean: false });
    this.#ending.stopTimer();
    this.#finish();
  }

  /** Closes the socket, because the client reads too slowly. @internal */
  onTooSlow(): void {
    if (!this.isOpen) return;
    this.#deps.log.warn('websocket_slow_consumer', {
      ...this.req.logFields(),
      buffered_bytes: this.bufferedAmount,
    });
    this.#deps.meter?.dropped.add(1);
    this.#sender.forget();
    this.#sayClose(CLOSE.policyViolation, 'the client reads too slowly');
  }

  /** @internal */
  onPressure(isHigh: boolean): void {
    this.#hold(HOLD.pressure, isHigh);
  }

  /** @internal */
  onInflating(isInflating: boolean): void {
    this.#hold(HOLD.inflating, isInflating);
    // the reader passes on the inflated message after this call
    if (!isInflating) queueMicrotask(() => this.#count());
    // onStreamEnd() is called again, because it does nothing while a message is being inflated
    if (this.#stream.readableEnded) queueMicrotask(() => this.onStreamEnd());
  }

  /** @internal */
  beat(): void {
    if (this.#state !== 'open') return;
    const found = this.#watch.beat(
      this.#deps,
      this.#stream,
      (this.#holds & (HOLD.inbox | HOLD.inflating)) === 0,
    );
    if (found === 'idle') this.close(CLOSE.normal, 'no message was received within the idle timeout');
    else if (found === 'silent')
      // a client may respond only to the newest ping, so a pending ping() is repeated with its payload
      this.#sender.sendControl(OPCODE.ping, this.#ping?.payload ?? EMPTY);
    else if (found === 'lost') {
      this.#deps.log.debug('websocket_peer_lost', this.req.logFields());
      this.terminate();
    }
  }

  #onMessage(data: string | Buffer): void {
    this.#watch.onMessage();
    this.#deps.meter?.messagesIn.add(1);
    if (this.#state !== 'open') return; // messages after a close frame are ignored (RFC 6455 §7.1.6)
    if (this.#running !== 'nothing' || this.#inbox?.isIterated === true) this.#keep(data);
    else this.#handle(data);
  }

  #keep(data: string | Buffer): void {
    const inbox = (this.#inbox ??= new Inbox());
    inbox.add(data);
    if (inbox.isAwaited) this.#proceed();
    else if (inbox.isFull) this.#hold(HOLD.inbox, true);
  }

  #handle(data: string | Buffer): void {
    const { listener } = this.#deps;
    if (listener.onMessage === undefined) return; // messages are ignored until the WebSocket is iterated
    try {
      const running = this.#enter(listener.onMessage, this, listener.decode(data));
      const isPending = isThenable(running);
      if (!isPending && !areHandlersLate(this.#deps)) return;
      this.#running = 'message';
      if (!isPending) return void setImmediate(() => this.#free());
      this.#handledBytes = costOf(data);
      running.then(
        () => this.#handled(),
        (error: unknown) => this.#failed(error, () => this.#handled()),
      );
    } catch (error) {
      this.#running = 'message';
      this.#failed(error, () => this.#handled());
    }
  }

  #handled(): void {
    if (areHandlersLate(this.#deps)) setImmediate(() => this.#free());
    else this.#free();
  }

  #free(): void {
    this.#running = 'nothing';
    this.#handledBytes = 0;
    this.#proceed();
  }

  /** Closes the socket if the budget of the application refuses its messages. */
  #count(): void {
    const bytes = (this.#reader?.heldBytes ?? 0) + (this.#inbox?.heldBytes ?? 0) + this.#handledBytes;
    if (bytes === (this.#held?.heldBytes ?? 0)) return;
    const held = (this.#held ??= this.req.holder());
    if (held.budget?.hold(held, bytes) !== false) return;
    this.#reader?.end();
    this.onViolation(CLOSE.tryAgainLater, 'the server holds too many messages');
  }

  #run(handler: () => Awaitable<unknown>, then: () => void): void {
    this.#running = 'other';
    const done = (): void => {
      this.#running = 'nothing';
      then();
    };
    callHandler(handler, done, (error) => this.#failed(error, done));
  }

  /** Calls the onError handler. Until it settles, the handler that has failed counts as running. */
  #failed(error: unknown, done: () => void): void {
    const giveUp = (failure: unknown): void => {
      this.#giveUp(failure);
      done();
    };
    const { onError: handle } = this.#deps.listener;
    if (handle === undefined) return giveUp(error);
    const enter = (): unknown => this.#enter(handle, this, error);
    callHandler(enter, done, (failure) => giveUp(errorAfter(failure, error)));
  }

  /** Closes the socket because of an error that the onError handler did not handle. */
  #giveUp(error: unknown): void {
    this.#ending.failure ??= error;
    const close = closeFor(error);
    if (close.code === CLOSE.internalError) this.#deps.onUnhandled(error, this.req);
    if (this.isOpen) this.#sayClose(close.code, close.reason);
  }

  /** Passes waiting messages to the handler, one at a time. Then calls onClose if the socket has closed. */
  #proceed(): void {
    const inbox = this.#inbox;
    if (inbox !== undefined) {
      while (this.#running === 'nothing' && !inbox.isIterated && inbox.hasMessages)
        this.#handle(inbox.shift());
      inbox.answer(this.#deps.listener);
      if (inbox.hasRoom) this.#hold(HOLD.inbox, false);
    }
    this.#count();
    if (this.#state === 'answering' && !this.#mayReply) return this.#answerClose();
    if (
      this.#state === 'answering' ||
      this.#end?.close === undefined ||
      (inbox?.hasMessages === true && !inbox.isIterated)
    )
      return;
    inbox?.end();
    if (this.#running === 'nothing') this.#reportClose();
  }

  /** Whether a message is being handled, or waits for its handler, so that a reply to it may follow. */
  get #mayReply(): boolean {
    if (this.#running === 'message') return true;
    const inbox = this.#inbox;
    if (inbox === undefined) return false;
    return inbox.hasMessages || (inbox.isReplyDue && (inbox.isIterated || this.#running === 'other'));
  }

  #hold(why: number, isHeld: boolean): void {
    // a closing WebSocket stops reading only for inflating, because the client's close frame must be read
    if (this.#state !== 'open' && why !== HOLD.inflating) return;
    const before = this.#holds;
    this.#holds = isHeld ? before | why : before & ~why;
    if ((before === 0) === (this.#holds === 0)) return;
    if (this.#holds !== 0) {
      (this.#reader ??= this.#newReader()).stop();
      this.#stream.pause();
    } else this.#read();
  }

  /** Continues reading. The rest of the last chunk is parsed first. */
  #read(): void {
    this.#sender.hold();
    const reader = this.#reader;
    reader?.resume();
    this.#sender.flush();
    if (reader !== undefined) this.#letReaderGo(reader);
    if (this.#holds === 0) this.#stream.resume();
    this.#count();
  }

  /** Drops the reader between two messages, unless it inflates, or a newer reader has replaced it. */
  #letReaderGo(reader: FrameReader): void {
    if (this.#reader !== reader || !reader.isAtRest || reader.inflates) return;
    this.#reader = undefined;
  }

  #newReader(): FrameReader {
    const { maxMessageBytes } = this.#deps;
    return new FrameReader({ isMasked: true, maxMessageBytes, ownsChunks: ownsChunks(this.#stream) }, this);
  }

  get #ending(): Ending {
    return (this.#end ??= new Ending());
  }

  /** Calls `then` after a delay. Stops the earlier timer, because each step of closing has its own delay. */
  #setTimer(delayMs: number, then: () => void): void {
    this.#ending.stopTimer();
    this.#ending.timer = this.#deps.clock.after(delayMs, then);
  }

  #sayClose(code: number, reason: string): void {
    const inbox = this.#inbox;
    const isAnswer = this.#state === 'answering';
    this.#state = 'closing';
    if (isAnswer) {
      inbox?.clear();
      return queueMicrotask(() => this.#answerClose()); // delayed until the current handler returns
    }
    // #agree() later sets `wasClean` to true
    this.#ending.close = { code, reason, wasClean: false };
    this.#setTimer(this.#deps.closeTimeoutMs, () => this.terminate());
    inbox?.clear();
    this.#holds &= HOLD.inflating;
    this.#leave();
    this.#sender.sendControl(OPCODE.close, closePayload(code, reason));
    this.#sender.flush();
    inbox?.end();
    // Reads until the client's close frame arrives. Delayed, because the frame reader may be running now.
    queueMicrotask(() => {
      if (this.#state === 'closing') this.#read();
    });
  }

  /** Sends a close frame with the code and reason of the client's close frame (RFC 6455 §5.5.1). */
  #answerClose(): void {
    if (this.#state === 'closed') return;
    const { code, reason } = this.#ending.close!; // `close` is defined: onClose() has set it
    const payload = code === CLOSE.noStatus ? EMPTY : closePayload(code, reason);
    this.#sender.sendControl(OPCODE.close, payload);
    this.#agree();
  }

  /** Called when both sides have closed. Ends the connection after the last frame or after closeTimeoutMs. */
  #agree(): void {
    this.#closed({ ...this.#ending.close!, wasClean: true }); // defined, because both sides have closed
    this.#setTimer(this.#deps.closeTimeoutMs, () => this.#endStream());
    this.#sender.finish(() => this.#endStream());
  }

  /** Ends the socket: no more messages are sent or received. */
  #closed(close: WebSocketClose): void {
    if (this.#state === 'closed') return;
    const said = this.#state === 'open' ? undefined : this.#ending.close;
    const how = (this.#ending.close = said === undefined ? close : { ...said, wasClean: close.wasClean });
    this.#state = 'closed';
    this.#holds = 0;
    this.#leave();
    if (!close.wasClean) this.#sender.end();
    this.#ping?.end();
    this.#deps.meter?.leave(how.code);
    this.#host.onClosed(this);
    this.#proceed();
  }

  #leave(): void {
    this.#heart?.remove(this);
    this.#heart = undefined;
    this.#rooms?.leaveAll();
    this.#rooms = undefined;
  }

  /** Ends the connection. The server has to end it before the client (RFC 6455 §7.1.1). */
  #endStream(): void {
    this.#ending.stopTimer();
    const stream = this.#stream;
    if (stream.destroyed) return;
    this.#sender.end();
    stream.end();
    this.#setTimer(LINGER_MS, () => this.terminate());
    if (stream.readableEnded) destroyAfterEnd(stream);
    else stream.resume(); // reads until the client ends its side of the connection
  }

  #reportClose(): void {
    const ending = this.#ending;
    if (ending.isReported || this.#state !== 'closed') return;
    ending.isReported = true;
    this.#run(
      () => this.#enter(this.#deps.listener.onClose, this, ending.close!), // defined: #closed() has set it
      () => {
        ending.isHandled = true;
        this.#finish();
      },
    );
  }

  #finish(): void {
    if (!this.#ending.takeOver()) return;
    if (this.#held !== undefined) this.#held.budget?.release(this.#held);
    this.#host.onOver(this, this.#ending.cause);
  }
}
