/**
 * One open WebSocket: reads messages, calls its handlers in order, closes, and applies back-pressure in both directions.
 *
 *   stream -> FrameReader -> inbox -> handler          handler -> FrameSender -> stream
 *
 *   open -> closing (our close frame is sent) -> closed
 *   open -> answering (the peer has closed; handlers reply to messages before that) -> closed, and the connection ends
 *
 *   stream-events.ts   events of the stream
 *   inbox.ts           messages that wait
 *   handlers.ts        contract and call of the handlers
 *   liveness.ts        heartbeats, idle timeouts, pings
 *   closing.ts         outcome, and the close code for an error
 *
 * A handler gets the next message when its call for the one before has settled. Messages that come meanwhile wait, up to
 * 64 KiB; then nothing more is read. Nor is a peer read that does not take what it is sent.
 */
import { Socket as NetSocket } from 'node:net';
import { SvcError } from '../../base/errors.ts';
import { isThenable } from '../../base/promises.ts';
import { toJson } from '../response.ts';
import { Ending, closeFor } from './closing.ts';
import { CLOSE, OPCODE, isCloseCode } from './codes.ts';
import { deflaterOf, inflatingReader } from './deflate.ts';
import { closePayload } from './encode.ts';
import { callHandler } from './handlers.ts';
import { Inbox } from './inbox.ts';
import { PeerWatch, RoundTrip, startBeats } from './liveness.ts';
import { FrameSender } from './sender.ts';
import { destroyAfterEnd, listen } from './stream-events.ts';
import type { Duplex } from 'node:stream';
import type { Logger } from '../../observability/log.ts';
import type { Awaitable } from '../contracts.ts';
import type { Beating, Heartbeat } from '../streaming/heartbeat.ts';
import type { TransportRequest } from '../request/request.ts';
import type { WebSocketClose } from './closing.ts';
import type { InflatingSink } from './deflate.ts';
import type { FrameReader, SpareReaders } from './frames.ts';
import type { SocketListener } from './handlers.ts';
import type { LivenessOptions } from './liveness.ts';
import type { DeflateAgreement } from './handshake.ts';
import type { RoomMember, Rooms, SharedMessage } from './rooms.ts';
import type { SenderOwner, SenderOptions } from './sender.ts';
import type { StreamOwner } from './stream-events.ts';

/** Settings and services of the sockets of a route. */
export interface SharedSocketDeps extends SenderOptions, LivenessOptions {
  readonly log: Logger;
  readonly rooms: Rooms;
  readonly listener: SocketListener<WebSocketConnection>;
  readonly readers: SpareReaders;
  readonly maxMessageBytes: number;
  /** Milliseconds that the peer may take to answer a close frame. */
  readonly closeTimeoutMs: number;
  readonly maxRooms: number;
  /** Called with an error that no handler took. */
  readonly onUnhandled: (error: unknown, req: TransportRequest) => void;
}

/** Values of one socket. */
export interface SocketDeps {
  readonly protocol: string;
  readonly deflate: DeflateAgreement | undefined;
  /** Passed to the handlers with the socket. */
  readonly context: unknown;
  /** Calls a function in the async context of the handshake: what middleware has entered holds in handlers. */
  readonly enter: <R, A extends unknown[]>(fn: (...args: A) => R, ...args: A) => R;
  /** The handshake. */
  readonly req: TransportRequest;
  readonly host: SocketHost;
}

/** Server of the sockets; it counts them. */
export interface SocketHost {
  /** No message will come or go any more. Handlers may still run. */
  onClosed(socket: WebSocketConnection): void;
  /** The stream is closed and no handler runs. `failure` ended the socket early. */
  onOver(socket: WebSocketConnection, failure: unknown): void;
}

/** Milliseconds that a peer may leave its side of an ended connection open. */
const LINGER_MS = 2_000;

const EMPTY: Buffer = Buffer.alloc(0);
/** Reasons for which nothing is read. */
const HOLD = { inbox: 1, pressure: 2, inflating: 4 } as const;

type State = 'open' | 'answering' | 'closing' | 'closed';

/**
 * A WebSocket as its handlers see it. Most sockets are idle, so state that only some of them need is an object of its own, made
 * when it is needed (test/bench/websocket.ts: idle).
 */
export class WebSocketConnection
  implements InflatingSink, SenderOwner, StreamOwner, RoomMember, Beating, AsyncIterable<unknown>
{
  /** Passed to the handlers with the socket. @internal */
  readonly context: unknown;
  /** The handshake. @internal */
  readonly req: TransportRequest;
  /** The subprotocol that both speak; empty when none was agreed upon. */
  readonly protocol: string;
  readonly #stream: Duplex;
  readonly #deps: SharedSocketDeps;
  readonly #host: SocketHost;
  readonly #enter: SocketDeps['enter'];
  /** Undefined while no bytes are left to read; see {@link SpareReaders}. */
  #reader: FrameReader | undefined;
  readonly #sender: FrameSender;
  #state: State = 'open';
  #end: Ending | undefined;
  #holds = 0;
  /** The handler that runs: for a message, or another one. */
  #running: 'nothing' | 'message' | 'other' = 'other';
  #inbox: Inbox | undefined;
  #heart: Heartbeat | undefined;
  readonly #watch = new PeerWatch();
  #rooms: Set<string> | undefined;
  #ping: RoundTrip | undefined;

  /** Takes the stream over. Call {@link start} when the handshake has been answered. @internal */
  constructor(stream: Duplex, deps: SharedSocketDeps, own: SocketDeps) {
    const { protocol, deflate, context, enter, req, host } = own;
    this.#stream = stream;
    this.#deps = deps;
    this.protocol = protocol;
    this.context = context;
    this.req = req;
    this.#host = host;
    this.#enter = enter;
    const isSocket = stream instanceof NetSocket && !('encrypted' in stream);
    if (deflate !== undefined) this.#reader = inflatingReader(deflate, deps.maxMessageBytes, isSocket, this);
    const deflater = deflate === undefined ? undefined : deflaterOf(deflate, deps.compression!); // agreed upon by these settings
    this.#sender = new FrameSender(stream, deps, this, deflater, isSocket);
  }

  /** Opens the socket. `head` are bytes that came with the handshake. @internal */
  start(head: Buffer): void {
    this.#deps.meter?.enter();
    this.#heart = startBeats(this.#deps, this);
    const stream = this.#stream;
    listen(stream, this);
    const isOver = stream.readableEnded; // ended before anything listened, while the handshake was decided
    if (isOver && head.length === 0) stream.destroy();
    if (stream.destroyed) {
      // the peer has left already: handlers are not called
      this.#running = 'nothing';
      this.#ending.isReported = this.#ending.isHandled = true;
      return this.onStreamClose();
    }
    this.#run(
      () => this.#enter(this.#deps.listener.onOpen, this),
      () => this.#proceed(),
    );
    if (head.length > 0) this.receive(Buffer.from(head)); // a copy: the chunk of the handshake has other parts
    if (isOver) this.onStreamEnd();
    else if (this.#holds === 0) stream.resume();
  }

  // -- methods for handlers --

  /** Whether messages can be sent: neither side has closed, or replies to messages before the close frame of the peer may come. */
  get isOpen(): boolean {
    return this.#state === 'open' || this.#state === 'answering';
  }

  /** Bytes that were sent and that the system has not taken yet. */
  get bufferedAmount(): number {
    return this.#sender.bufferedAmount;
  }

  /**
   * Sends text as a text message, bytes as a binary one. Bytes must not be written to afterwards. Returns false when the socket is
   * closed, or closes for it: the message is left out. @throws SvcError `E_WEBSOCKET_FULL` with the policy `wait`, when there is no room
   */
  send(data: string | Uint8Array): boolean {
    if (!this.isOpen) return false;
    if (typeof data === 'string') this.#sender.sendText(data);
    else if (data instanceof Uint8Array) this.#sender.sendBytes(data);
    else throw new SvcError('E_WEBSOCKET_DATA', [data === null ? 'null' : typeof data]);
    return this.isOpen;
  }

  /** Sends a value as JSON text. Returns what {@link send} does. @throws SvcError `E_REPLY` for what has no JSON form */
  sendJson(value: unknown): boolean {
    return this.isOpen && this.send(toJson(value));
  }

  /** Resolves when there is room for more; see {@link bufferedAmount}. */
  drain(): Promise<void> {
    return this.#sender.drain();
  }

  /** Asks whether the peer is there. Resolves with the time that took, in milliseconds, or undefined when the socket has closed before. */
  ping(): Promise<number | undefined> {
    if (this.#state !== 'open') return Promise.resolve(undefined);
    if (this.#ping === undefined) {
      this.#ping = new RoundTrip(this.#deps.clock.monotonicMs());
      this.#sender.sendControl(OPCODE.ping, this.#ping.payload);
    }
    return this.#ping.durationMs;
  }

  /** Closes: what was sent goes out first. `reason` is cut to 123 bytes. @throws SvcError `E_WEBSOCKET_CLOSE` for a code that is not sent */
  close(code: number = CLOSE.normal, reason = ''): void {
    if (!isCloseCode(code)) throw new SvcError('E_WEBSOCKET_CLOSE', [code]);
    if (this.isOpen) this.#sayClose(code, reason);
  }

  /** Gets what is sent to a room from now on. @throws SvcError `E_ROOM` beyond `maxRooms`, and for what is no name */
  join(room: string): void {
    if (this.#state !== 'open') return;
    const rooms = (this.#rooms ??= new Set());
    if (!rooms.has(room) && rooms.size >= this.#deps.maxRooms)
      throw new SvcError('E_ROOM', [`a socket that is in ${rooms.size} rooms already`]);
    this.#deps.rooms.join(room, this);
    rooms.add(room);
  }

  /** Gets nothing more of a room. */
  leave(room: string): void {
    if (this.#rooms?.delete(room) === true) this.#deps.rooms.leave(room, this);
  }

  /** Sends to every member of a room but this one, in every process. It need not be a member. */
  broadcast(room: string, data: string | Uint8Array): void {
    this.#deps.rooms.broadcast(room, data, { except: this });
  }

  /** Sends a value as JSON text to every member of a room but this one; see {@link broadcast}. */
  broadcastJson(room: string, value: unknown): void {
    this.#deps.rooms.broadcastJson(room, value, { except: this });
  }

  /** The messages, one after the other; ends with the socket, which stays open when the code leaves the loop. @throws SvcError `E_WEBSOCKET_ITERATED` when something else takes them already */
  [Symbol.asyncIterator](): AsyncIterator<unknown, undefined> {
    if (this.#inbox?.isIterated === true || this.#deps.listener.onMessage !== undefined)
      throw new SvcError('E_WEBSOCKET_ITERATED', []);
    return (this.#inbox ??= new Inbox()).iterate(
      () => this.#proceed(),
      () => this.#proceed(),
    );
  }

  /** Ends the connection without a close frame. @internal */
  terminate(): void {
    this.#stream.destroy();
  }

  /** Sends a message of a room. @internal */
  deliver(message: SharedMessage): void {
    if (this.#state === 'open') this.#sender.deliver(message);
  }

  // -- events of the stream, the reader, the sender and the timer --

  /** @internal */
  receive(chunk: Buffer): void {
    this.#watch.onBytes();
    this.#deps.meter?.bytesIn.add(chunk.length);
    if (this.#end?.isGone === true) return;
    const reader = (this.#reader ??= this.#deps.readers.take(this, this.#sender.canReuse));
    this.#sender.hold();
    reader.push(chunk);
    this.#sender.flush();
    this.#letReaderGo(reader);
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

  /** A pong is the answer to the ping whose payload it has (RFC 6455 §5.5.3); others only say that the peer is there. @internal */
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
    this.#ending.close = { code, reason, wasClean: false }; // until it is answered
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

  /** The peer has ended its side. Replies that wait go out first. @internal */
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

  /** The client does not take what it is sent. @internal */
  onTooSlow(): void {
    if (!this.isOpen) return;
    this.#deps.log.warn('websocket_slow_consumer', {
      ...this.req.logFields(),
      buffered_bytes: this.bufferedAmount,
    });
    this.#deps.meter?.dropped.add(1);
    this.#sender.forget();
    this.#sayClose(CLOSE.policyViolation, 'messages are not taken in time');
  }

  /** @internal */
  onPressure(isHigh: boolean): void {
    this.#hold(HOLD.pressure, isHigh);
  }

  /** @internal */
  onInflating(isInflating: boolean): void {
    this.#hold(HOLD.inflating, isInflating);
    if (this.#stream.readableEnded) queueMicrotask(() => this.onStreamEnd()); // behind the message
  }

  /** @internal */
  beat(): void {
    if (this.#state !== 'open') return;
    const found = this.#watch.beat(
      this.#deps,
      this.#stream,
      (this.#holds & (HOLD.inbox | HOLD.inflating)) === 0,
    );
    if (found === 'idle') this.close(CLOSE.normal, 'nothing was sent for too long');
    else if (found === 'silent')
      this.#sender.sendControl(OPCODE.ping, this.#ping?.payload ?? EMPTY); // a peer may answer the newest ping alone
    else if (found === 'lost') {
      this.#deps.log.debug('websocket_peer_lost', this.req.logFields());
      this.terminate();
    }
  }

  // -- messages --

  #onMessage(data: string | Buffer): void {
    this.#watch.onMessage();
    this.#deps.meter?.messagesIn.add(1);
    if (this.#state !== 'open') return; // §7.1.6: messages behind our close frame are ignored
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
    if (listener.onMessage === undefined) return; // messages are ignored until code iterates them
    try {
      const running = this.#enter(listener.onMessage, this, listener.decode(data));
      if (!isThenable(running)) return;
      this.#running = 'message';
      running.then(
        () => this.#settled(),
        (error: unknown) => this.#failed(error, () => this.#settled()),
      );
    } catch (error) {
      this.#running = 'message';
      this.#failed(error, () => this.#settled());
    }
  }

  #settled(): void {
    this.#running = 'nothing';
    this.#proceed();
  }

  /** Calls a handler, then `then`. An error goes to onError first. */
  #run(handler: () => Awaitable<unknown>, then: () => void): void {
    this.#running = 'other';
    const done = (): void => {
      this.#running = 'nothing';
      then();
    };
    callHandler(handler, done, (error) => this.#failed(error, done));
  }

  /** Calls onError while the handler that failed counts as running. */
  #failed(error: unknown, done: () => void): void {
    const giveUp = (failure: unknown): void => {
      this.#giveUp(failure);
      done();
    };
    const { onError: handle } = this.#deps.listener;
    if (handle === undefined) return giveUp(error);
    callHandler(() => this.#enter(handle, this, error), done, giveUp);
  }

  /** Closes the socket for an error that no handler took. */
  #giveUp(error: unknown): void {
    this.#ending.failure ??= error;
    const close = closeFor(error);
    if (close.code === CLOSE.internalError) this.#deps.onUnhandled(error, this.req);
    if (this.isOpen) this.#sayClose(close.code, close.reason);
  }

  /** Hands over the messages that wait, as far as they are taken; behind the last one reports the end. */
  #proceed(): void {
    const inbox = this.#inbox;
    if (inbox !== undefined) {
      while (this.#running === 'nothing' && !inbox.isIterated && inbox.hasMessages)
        this.#handle(inbox.shift());
      inbox.answer(this.#deps.listener);
      if (inbox.hasRoom) this.#hold(HOLD.inbox, false);
    }
    if (this.#state === 'answering' && !this.#mayReply) return this.#answerClose(); // which comes back
    if (
      this.#state === 'answering' ||
      this.#end?.close === undefined ||
      (inbox?.hasMessages === true && !inbox.isIterated)
    )
      return;
    inbox?.end();
    if (this.#running === 'nothing') this.#reportClose();
  }

  /** Whether a message is being handled, or waits for that. */
  get #mayReply(): boolean {
    if (this.#running === 'message') return true;
    const inbox = this.#inbox;
    if (inbox === undefined) return false;
    return inbox.hasMessages || (inbox.isReplyDue && (inbox.isIterated || this.#running === 'other'));
  }

  #hold(why: number, isHeld: boolean): void {
    if (this.#state !== 'open' && why !== HOLD.inflating) return; // an ending socket is read to the end
    const before = this.#holds;
    this.#holds = isHeld ? before | why : before & ~why;
    if ((before === 0) === (this.#holds === 0)) return;
    if (this.#holds !== 0) {
      (this.#reader ??= this.#deps.readers.take(this, this.#sender.canReuse)).stop();
      this.#stream.pause();
    } else this.#read();
  }

  /** Continues to read, with the rest of the last chunk first. */
  #read(): void {
    this.#sender.hold();
    const reader = this.#reader;
    reader?.resume();
    this.#sender.flush();
    if (reader !== undefined) this.#letReaderGo(reader);
    if (this.#holds === 0) this.#stream.resume();
  }

  /**
   * Gives the reader to other sockets when no bytes are left, unless it inflates. The check of `#reader` is needed: a stream in
   * memory may be answered within flush(). The answer has then been read, and the reader may belong to another socket.
   */
  #letReaderGo(reader: FrameReader): void {
    if (this.#reader !== reader || !reader.isAtRest || reader.inflates) return;
    this.#reader = undefined;
    this.#deps.readers.give(reader);
  }

  // -- the end --

  get #ending(): Ending {
    return (this.#end ??= new Ending());
  }

  /** Calls `then` unless the socket gets further with its end before. */
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
      return queueMicrotask(() => this.#answerClose()); // not now, because a handler may be in progress
    }
    this.#ending.close = { code, reason, wasClean: false }; // until the peer has agreed
    this.#setTimer(this.#deps.closeTimeoutMs, () => this.terminate());
    inbox?.clear();
    this.#holds &= HOLD.inflating;
    this.#leave();
    this.#sender.sendControl(OPCODE.close, closePayload(code, reason));
    this.#sender.flush();
    inbox?.end();
    queueMicrotask(() => {
      if (this.#state === 'closing') this.#read();
    }); // up to its close frame; not now, because a message may be in progress
  }

  /** Answers the close frame of the peer, with its code and its reason (§5.5.1). */
  #answerClose(): void {
    if (this.#state === 'closed') return;
    const { code, reason } = this.#ending.close!; // the peer's
    const payload = code === CLOSE.noStatus ? EMPTY : closePayload(code, reason);
    this.#sender.sendControl(OPCODE.close, payload);
    this.#agree();
  }

  /** Ends the connection when what was sent is out, or too slow: both sides have closed. */
  #agree(): void {
    this.#closed({ ...this.#ending.close!, wasClean: true }); // one side has closed before
    this.#setTimer(this.#deps.closeTimeoutMs, () => this.#endStream());
    this.#sender.finish(() => this.#endStream());
  }

  /** Ends the socket: no message comes or goes any more. */
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
    for (const room of this.#rooms ?? []) this.#deps.rooms.leave(room, this);
    this.#rooms = undefined;
  }

  /** Ends the connection. The server does so first (§7.1.1). */
  #endStream(): void {
    this.#ending.stopTimer();
    const stream = this.#stream;
    if (stream.destroyed) return;
    this.#sender.end();
    stream.end();
    this.#setTimer(LINGER_MS, () => this.terminate());
    if (stream.readableEnded) destroyAfterEnd(stream);
    else stream.resume(); // up to the end of its side
  }

  #reportClose(): void {
    const ending = this.#ending;
    if (ending.isReported || this.#state !== 'closed') return;
    ending.isReported = true;
    this.#run(
      () => this.#enter(this.#deps.listener.onClose, this, ending.close!), // it is closed
      () => {
        ending.isHandled = true;
        this.#finish();
      },
    );
  }

  #finish(): void {
    if (this.#ending.takeOver()) this.#host.onOver(this, this.#ending.cause);
  }
}
