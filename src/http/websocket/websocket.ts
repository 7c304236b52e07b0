/**
 * One open WebSocket: what its peer says, in order; pings, closing, and both kinds of back-pressure.
 *
 *   stream -> FrameReader -> inbox -> handler          handler -> FrameSender -> stream
 *
 *   open -> closing (we have said so) -> closed       a peer that says so first is answered, and the connection ends
 *
 * Messages are handed over one at a time: the next when the handler of the one before has settled. Those that come meanwhile
 * wait, up to 64 KiB; beyond, nothing more is read. Nor is it from a peer that does not read what it is sent.
 */
import { Socket as NetSocket } from 'node:net';
import { ClientDisconnected, HTTPException, SvcError } from '../../base/errors.ts';
import { isThenable } from '../../base/thenable.ts';
import { Heartbeat } from '../streaming/heartbeat.ts';
import { toJson } from '../json.ts';
import { MessageDeflater, MessageInflater } from './deflate.ts';
import { CLOSE, OPCODE, isCloseCode } from './codes.ts';
import { FrameReader, copyOf } from './frames.ts';
import { closePayload } from './encode.ts';
import { FrameSender } from './sender.ts';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Awaitable } from '../contracts.ts';
import type { Beating } from '../streaming/heartbeat.ts';
import type { TransportRequest } from '../request/request.ts';
import type { RoomMember, Rooms } from './rooms.ts';
import type { DeflateAgreement } from './deflate.ts';
import type { FrameSink, SpareReaders } from './frames.ts';
import type { SenderOwner, SenderTerms } from './sender.ts';
import type { SharedMessage } from './batch.ts';

/** How a WebSocket ended. */
export interface WebSocketClose {
  /** 1005: closed without a code; 1006: the connection was lost. */
  readonly code: number;
  readonly reason: string;
  /** Whether both sides have said so. */
  readonly wasClean: boolean;
}

/** Who is told what happens on a socket, one thing after the other. */
export interface SocketListener {
  /** Before any message. */
  onOpen(socket: WebSocketConnection): Awaitable<void>;
  /** Undefined where messages are taken out of the inbox. */
  readonly onMessage?: ((socket: WebSocketConnection, message: unknown) => Awaitable<void>) | undefined;
  /** After the last message. */
  onClose(socket: WebSocketConnection, close: WebSocketClose): Awaitable<void>;
  /** Something that one of them, or {@link decode}, has thrown; the socket stays open. Undefined: it is closed, see {@link closeFor}. */
  readonly onError?: ((socket: WebSocketConnection, error: unknown) => Awaitable<void>) | undefined;
  /** A message as its handler gets it. What it throws goes to {@link onError}. */
  decode(data: string | Buffer): unknown;
}

/** What holds for the sockets of a route. */
export interface SocketTerms extends SenderTerms {
  readonly clock: Clock;
  readonly log: Logger;
  readonly rooms: Rooms;
  readonly listener: SocketListener;
  readonly readers: SpareReaders;
  readonly maxMessageBytes: number;
  /** Between a ping and the next; 0: none. */
  readonly heartbeatMs: number;
  /** Without a message from the peer; 0: for ever. */
  readonly idleTimeoutMs: number;
  /** How long the peer may take to answer a close frame. */
  readonly closeTimeoutMs: number;
  readonly maxRooms: number;
  /** Told of what nobody handles. */
  readonly onUnhandled: (error: unknown, req: TransportRequest) => void;
}

/** What holds for one socket. */
export interface SocketParts {
  readonly protocol: string;
  readonly deflate: DeflateAgreement | undefined;
  /** What its handlers get beside it. */
  readonly context: unknown;
  /** What it was opened with. */
  readonly req: TransportRequest;
  readonly host: SocketHost;
}

/** Who has opened sockets, and how many of them. */
export interface SocketHost {
  /** No message will come or go any more, though handlers may still run. */
  onClosed(socket: WebSocketConnection): void;
  /** Everything is over: its stream is closed, and nothing of it runs any more. `failure` is what ended it early. */
  onOver(socket: WebSocketConnection, failure: unknown): void;
}

/** What may wait in the inbox before nothing more is read; each message costs some bytes more than it has. */
const INBOX_BYTES = 65_536;
const MESSAGE_COST = 128;
/** A second of a socket's life, in parts of its shortest interval: pings of many sockets do not fall together. */
const TICKS = 8;
/** How long a peer may leave its side of an ended connection open. */
const LINGER_MS = 2_000;

/** Why nothing is read. */
const HOLD = { inbox: 1, pressure: 2 } as const;

type State = 'open' | 'closing' | 'closed';

interface Waiter {
  resolve(result: IteratorResult<unknown, undefined>): void;
  reject(error: unknown): void;
}

/** Messages that wait, for a handler or for whoever iterates: made when one does. */
class Inbox {
  readonly messages: (string | Buffer)[] = [];
  bytes = 0;
  /** Whether messages are taken by iteration. */
  isIterated = false;
  waiter: Waiter | undefined;
}

/** How a socket ends: made when it begins to. */
class Ending {
  close: WebSocketClose | undefined;
  failure: unknown;
  timer: Disposable | undefined;
  /** Whether onClose has been called; and whether it has settled. */
  isTellingClosed = false;
  isToldClosed = false;
  /** Whether the stream has closed; and whether that, too, was told. */
  isGone = false;
  isOver = false;
}

const SOCKET: unique symbol = Symbol('websocket');
interface OwnedStream extends Duplex {
  [SOCKET]?: WebSocketConnection;
}

// one listener of each kind for all sockets: a closure for each would cost idle ones memory
function onData(this: OwnedStream, chunk: Buffer): void {
  this[SOCKET]!.receive(chunk);
}
function onDrain(this: OwnedStream): void {
  this[SOCKET]!.onDrain();
}
function onEnd(this: OwnedStream): void {
  if (this.writableEnded && !this.writableFinished)
    this.once('finish', () => this.destroy()); // our last words are on their way
  else this.destroy();
}
function onClose(this: OwnedStream): void {
  this[SOCKET]!.onStreamClose();
}
function onError(): void {
  /* "close" follows */
}

let lastPhase = 0;
let lastPing = 0;

/**
 * A WebSocket as its handlers see it. Of many most are idle: what only some need is an object of its own, made when it is
 * needed (test/bench/websocket.ts: idle).
 */
export class WebSocketConnection
  implements FrameSink, SenderOwner, RoomMember, Beating, AsyncIterable<unknown>
{
  /** What its handlers get beside it. @internal */
  readonly context: unknown;
  /** What it was opened with. @internal */
  readonly req: TransportRequest;
  /** The subprotocol that both speak; empty when none was agreed upon. */
  readonly protocol: string;
  readonly #stream: OwnedStream;
  readonly #terms: SocketTerms;
  readonly #host: SocketHost;
  /** Undefined while nothing has come that is not read; see {@link SpareReaders}. */
  #reader: FrameReader | undefined;
  readonly #sender: FrameSender;
  #state: State = 'open';
  #end: Ending | undefined;
  #holds = 0;
  /** Whether a handler runs. */
  #isBusy = true;
  #inbox: Inbox | undefined;
  #heart: Heartbeat | undefined;
  #isAlive = true;
  #isPinged = false;
  #quietTicks = 0;
  #beatTicks: number;
  #taken = -1;
  #rooms: Set<string> | undefined;
  #ping:
    | {
        readonly sentMs: number;
        readonly payload: Buffer;
        readonly answer: PromiseWithResolvers<number | undefined>;
      }
    | undefined;

  /** Takes the stream over. Call {@link start} when the handshake has been answered. @internal */
  constructor(stream: Duplex, terms: SocketTerms, { protocol, deflate, context, req, host }: SocketParts) {
    this.#stream = stream;
    this.#terms = terms;
    this.protocol = protocol;
    this.context = context;
    this.req = req;
    this.#host = host;
    const isSocket = stream instanceof NetSocket && !('encrypted' in stream);
    if (deflate !== undefined) {
      const inflater = new MessageInflater(deflate.clientBits, deflate.clientTakesOver);
      this.#reader = new FrameReader(
        {
          isMasked: true,
          maxMessageBytes: terms.maxMessageBytes,
          ownsChunks: isSocket,
          inflate: (bytes, most) => inflater.inflate(bytes, most),
        },
        this,
      );
    }
    const deflater =
      deflate === undefined
        ? undefined
        : new MessageDeflater(deflate.serverBits, terms.compression!.level, deflate.serverTakesOver); // agreed upon by these settings
    this.#sender = new FrameSender(stream, terms, this, deflater, isSocket);
    this.#beatTicks = lastPhase = (lastPhase + 1) % TICKS;
    this.#stream[SOCKET] = this;
  }

  /** Begins: `head` has come with the handshake. @internal */
  start(head: Buffer): void {
    const { clock, heartbeatMs, idleTimeoutMs, meter } = this.#terms;
    meter?.enter();
    const shortest = Math.min(heartbeatMs || Infinity, idleTimeoutMs || Infinity);
    if (shortest !== Infinity) this.#heart = Heartbeat.of(clock, Math.max(1, shortest / TICKS)).add(this);
    const stream = this.#stream;
    stream.on('drain', onDrain).on('end', onEnd).on('close', onClose);
    if (stream.listenerCount('error') === 0) stream.on('error', onError); // two of a kind are a list of their own
    stream.on('data', onData);
    const isOver = stream.readableEnded; // while its handshake was decided about, when nobody listened
    if (isOver && head.length === 0) stream.destroy();
    if (stream.destroyed) {
      // its peer has left already: no handler need know
      this.#isBusy = false;
      this.#ending.isTellingClosed = this.#ending.isToldClosed = true;
      return this.onStreamClose();
    }
    this.#begin();
    if (head.length > 0) this.receive(Buffer.from(head)); // a copy: it is a part of the chunk that the handshake came in
    if (isOver) onEnd.call(stream);
    else if (this.#holds === 0) stream.resume();
  }

  // -- what handlers call --

  /** Whether messages can be sent: neither side has begun to close. */
  get isOpen(): boolean {
    return this.#state === 'open';
  }

  /** Bytes that were sent and that the system has not taken yet. */
  get bufferedAmount(): number {
    return this.#sender.bufferedAmount;
  }

  /**
   * Sends text as a text message, bytes as a binary one. Bytes must not be written to afterwards. What is sent to a socket that
   * is closed, or closing, is left out. @throws SvcError `E_WEBSOCKET_FULL` with the policy `wait`, when there is no room
   */
  send(data: string | Uint8Array): void {
    if (this.#state !== 'open') return;
    if (typeof data === 'string') this.#sender.sendText(data);
    else if (data instanceof Uint8Array) this.#sender.sendBytes(data);
    else throw new SvcError('E_WEBSOCKET_DATA', [data === null ? 'null' : typeof data]);
  }

  /** Sends a value as JSON text. @throws SvcError `E_REPLY` for what has no JSON form */
  sendJson(value: unknown): void {
    if (this.#state === 'open') this.#sender.sendText(toJson(value));
  }

  /** Resolves when there is room for more; see {@link bufferedAmount}. */
  drain(): Promise<void> {
    return this.#sender.drain();
  }

  /** Asks whether the peer is there. Resolves with the time that took, in milliseconds, or undefined when the socket has closed before. */
  ping(): Promise<number | undefined> {
    if (this.#state !== 'open') return Promise.resolve(undefined);
    if (this.#ping === undefined) {
      const payload = Buffer.allocUnsafeSlow(4);
      payload.writeUInt32BE((lastPing = (lastPing + 1) >>> 0));
      this.#ping = { sentMs: this.#terms.clock.monotonicMs(), payload, answer: Promise.withResolvers() };
      this.#sender.sendControl(OPCODE.ping, payload);
    }
    return this.#ping.answer.promise;
  }

  /** Closes: what was sent goes out first. `reason` is cut to 123 bytes. @throws SvcError `E_WEBSOCKET_CLOSE` for a code that is not sent */
  close(code: number = CLOSE.normal, reason = ''): void {
    if (!isCloseCode(code)) throw new SvcError('E_WEBSOCKET_CLOSE', [code]);
    if (this.#state === 'open') this.#sayClose(code, reason);
  }

  /** Gets what is sent to a room from now on. @throws SvcError `E_ROOM` beyond `maxRooms`, and for what is no name */
  join(room: string): void {
    if (this.#state !== 'open') return;
    const rooms = (this.#rooms ??= new Set());
    if (!rooms.has(room) && rooms.size >= this.#terms.maxRooms)
      throw new SvcError('E_ROOM', [`a socket that is in ${rooms.size} rooms already`]);
    this.#terms.rooms.join(room, this);
    rooms.add(room);
  }

  /** Gets nothing more of a room. */
  leave(room: string): void {
    if (this.#rooms?.delete(room) === true) this.#terms.rooms.leave(room, this);
  }

  /** Sends to every member of a room but this one, in every process. It need not be a member. */
  broadcast(room: string, data: string | Uint8Array): void {
    this.#terms.rooms.broadcast(room, data, { except: this });
  }

  /** The same with a value as JSON. */
  broadcastJson(room: string, value: unknown): void {
    this.#terms.rooms.broadcastJson(room, value, { except: this });
  }

  /** The messages, one after the other; ends with the socket. @throws SvcError `E_WEBSOCKET_ITERATED` when something else takes them already */
  [Symbol.asyncIterator](): AsyncIterator<unknown, undefined> {
    if (this.#inbox?.isIterated === true || this.#terms.listener.onMessage !== undefined)
      throw new SvcError('E_WEBSOCKET_ITERATED', []);
    (this.#inbox ??= new Inbox()).isIterated = true;
    return {
      next: () => this.#take(),
      return: () => {
        // whoever stops reading parts with the peer
        this.close();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  /** Ends the connection without a word. @internal */
  terminate(): void {
    this.#stream.destroy();
  }

  /** What a room sends. @internal */
  deliver(message: SharedMessage): void {
    if (this.#state === 'open') this.#sender.deliver(message);
  }

  // -- what comes --

  /** @internal */
  receive(chunk: Buffer): void {
    this.#isAlive = true;
    this.#terms.meter?.bytesIn.add(chunk.length);
    if (this.#end?.isGone === true) return;
    const reader = (this.#reader ??= this.#terms.readers.take(this, this.#sender.canReuse));
    this.#sender.hold();
    reader.push(chunk);
    this.#sender.flush();
    this.#letReaderGo(reader);
  }

  /** @internal */
  onText(text: string): void {
    this.#onMessage(text, 2 * text.length);
  }

  /** @internal */
  onBinary(bytes: Buffer): void {
    this.#onMessage(bytes, bytes.length);
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
    ping.answer.resolve(this.#terms.clock.monotonicMs() - ping.sentMs);
  }

  /** @internal */
  onClose(code: number, reason: string): void {
    if (this.#state === 'open')
      this.#sender.sendControl(OPCODE.close, code === CLOSE.noStatus ? EMPTY : closePayload(code, '')); // §5.5.1: the code is echoed
    this.#closed({ code, reason, wasClean: true });
    this.#endStream();
  }

  /** @internal */
  onViolation(code: number, reason: string): void {
    if (this.#state === 'open') this.#sender.sendControl(OPCODE.close, closePayload(code, reason));
    this.#terms.log.debug('websocket_violation', { ...this.req.logFields(), code, reason });
    this.#closed({ code, reason, wasClean: false });
    this.#endStream();
  }

  /** @internal */
  onDrain(): void {
    this.#sender.onDrain();
  }

  /** @internal */
  onStreamClose(): void {
    this.#reader?.end();
    this.#reader = undefined;
    this.#ending.isGone = true;
    this.#closed({ code: CLOSE.abnormal, reason: '', wasClean: false });
    this.#ending.timer?.[Symbol.dispose]();
    this.#leaveForGood();
  }

  /** The client does not take what it is sent. @internal */
  onTooSlow(): void {
    if (this.#state !== 'open') return;
    this.#terms.log.warn('websocket_slow_consumer', {
      ...this.req.logFields(),
      buffered_bytes: this.bufferedAmount,
    });
    this.#terms.meter?.dropped.add(1);
    this.#sender.forget();
    this.#sayClose(CLOSE.policyViolation, 'messages are not taken in time');
  }

  /** @internal */
  onPressure(isHigh: boolean): void {
    this.#hold(HOLD.pressure, isHigh);
  }

  /** One of the parts of its shortest interval. @internal */
  beat(): void {
    const { heartbeatMs, idleTimeoutMs } = this.#terms;
    if (this.#state !== 'open') return;
    const tickMs = Math.min(heartbeatMs || Infinity, idleTimeoutMs || Infinity) / TICKS;
    if (idleTimeoutMs > 0 && ++this.#quietTicks * tickMs > idleTimeoutMs)
      return this.close(CLOSE.normal, 'nothing was sent for too long');
    if (heartbeatMs > 0 && ++this.#beatTicks * tickMs >= heartbeatMs) {
      this.#beatTicks = 0;
      this.#checkPeer();
    }
  }

  /** Whether anything has come since the last time, or at least something was taken of what waits to be sent. */
  #checkPeer(): void {
    const taken = this.#takenBytes();
    const isStuck = taken !== -1 && taken === this.#taken;
    const isSilent = !this.#isAlive && this.#isPinged && (this.#holds & HOLD.inbox) === 0 && taken === -1; // whom we do not read, we do not hear
    this.#taken = taken;
    if (isStuck || isSilent) {
      this.#terms.log.debug('websocket_peer_lost', this.req.logFields());
      return this.terminate();
    }
    this.#isPinged = !this.#isAlive;
    this.#isAlive = false;
    if (this.#isPinged) this.#sender.sendControl(OPCODE.ping, this.#ping?.payload ?? EMPTY); // a peer may answer the newest ping alone
  }

  /** What the system has taken of all that was written; -1 when nothing waits. */
  #takenBytes(): number {
    const stream = this.#stream as OwnedStream & { readonly bytesWritten?: number };
    return stream.writableLength === 0 ? -1 : (stream.bytesWritten ?? 0) - stream.writableLength;
  }

  // -- messages --

  #onMessage(data: string | Buffer, bytes: number): void {
    this.#quietTicks = 0;
    this.#terms.meter?.messagesIn.add(1);
    if (this.#state !== 'open') return; // §7.1.6: nothing that comes behind our close frame is handled
    if (this.#isBusy || this.#inbox?.isIterated === true) this.#keep(data, bytes);
    else this.#handle(data);
  }

  #keep(data: string | Buffer, bytes: number): void {
    const inbox = (this.#inbox ??= new Inbox());
    inbox.messages.push(
      inbox.waiter === undefined && typeof data !== 'string' && 2 * data.length < data.buffer.byteLength
        ? copyOf(data)
        : data,
    ); // one byte that waits must not hold all of its chunk
    inbox.bytes += bytes + MESSAGE_COST;
    if (inbox.waiter !== undefined) this.#proceed();
    else if (inbox.bytes > INBOX_BYTES) this.#hold(HOLD.inbox, true);
  }

  #handle(data: string | Buffer): void {
    const { listener } = this.#terms;
    if (listener.onMessage === undefined) return; // nobody asks for it
    try {
      const running = listener.onMessage(this, listener.decode(data));
      if (!isThenable(running)) return;
      this.#isBusy = true;
      running.then(
        () => this.#settled(),
        (error: unknown) => this.#failed(error, () => this.#settled()),
      );
    } catch (error) {
      this.#failed(error, () => this.#settled());
    }
  }

  #begin(): void {
    try {
      const running = this.#terms.listener.onOpen(this);
      if (isThenable(running))
        running.then(
          () => this.#settled(),
          (error: unknown) => this.#failed(error, () => this.#settled()),
        );
      else this.#settled();
    } catch (error) {
      this.#failed(error, () => this.#settled());
    }
  }

  #settled(): void {
    this.#isBusy = false;
    this.#proceed();
  }

  /** Runs a handler; what it throws goes to onError, and then on. */
  #run(handler: () => Awaitable<void>, then: () => void): void {
    this.#isBusy = true;
    const done = (): void => {
      this.#isBusy = false;
      then();
    };
    try {
      const running = handler();
      if (isThenable(running)) running.then(done, (error: unknown) => this.#failed(error, done));
      else done();
    } catch (error) {
      this.#failed(error, done);
    }
  }

  #failed(error: unknown, then: () => void): void {
    this.#isBusy = true;
    const done = (): void => {
      this.#isBusy = false;
      then();
    };
    const giveUp = (failure: unknown): void => {
      this.#giveUp(failure);
      done();
    };
    const { onError: handle } = this.#terms.listener;
    if (handle === undefined) return giveUp(error);
    try {
      const running = handle(this, error);
      if (isThenable(running)) running.then(done, giveUp);
      else done();
    } catch (failure) {
      giveUp(failure);
    }
  }

  /** Nobody handles it: the socket closes. */
  #giveUp(error: unknown): void {
    this.#ending.failure ??= error;
    const close = closeFor(error);
    if (close.code === CLOSE.internalError) this.#terms.onUnhandled(error, this.req);
    if (this.#state === 'open') this.#sayClose(close.code, close.reason);
  }

  /** What waits, as far as somebody takes it; then the end. */
  #proceed(): void {
    const inbox = this.#inbox;
    if (inbox !== undefined) {
      while (!this.#isBusy && !inbox.isIterated && inbox.messages.length > 0) this.#handle(shift(inbox));
      while (inbox.waiter !== undefined && inbox.messages.length > 0) this.#answer(inbox, inbox.waiter);
      if (inbox.bytes <= INBOX_BYTES / 2) this.#hold(HOLD.inbox, false);
    }
    if (
      this.#end?.close === undefined ||
      (inbox !== undefined && inbox.messages.length > 0 && !inbox.isIterated)
    )
      return;
    if (inbox !== undefined) settle(inbox, { done: true, value: undefined });
    if (!this.#isBusy) this.#tellClosed();
  }

  #take(): Promise<IteratorResult<unknown, undefined>> {
    const inbox = this.#inbox!; // whoever iterates has made it
    if (inbox.waiter !== undefined) return Promise.reject(new SvcError('E_WEBSOCKET_ITERATED', [])); // one message is awaited already
    return new Promise((resolve, reject) => {
      inbox.waiter = { resolve, reject };
      this.#proceed();
    });
  }

  #answer(inbox: Inbox, waiter: Waiter): void {
    try {
      settle(inbox, { done: false, value: this.#terms.listener.decode(shift(inbox)) });
    } catch (error) {
      inbox.waiter = undefined;
      waiter.reject(error);
    }
  }

  #hold(why: number, isHeld: boolean): void {
    if (this.#state !== 'open') return; // read up to the end, whatever there is
    const before = this.#holds;
    this.#holds = isHeld ? before | why : before & ~why;
    if ((before === 0) === (this.#holds === 0)) return;
    if (this.#holds !== 0) {
      (this.#reader ??= this.#terms.readers.take(this, this.#sender.canReuse)).stop();
      this.#stream.pause();
    } else this.#read();
  }

  /** Goes on reading: what was left of the last chunk first. */
  #read(): void {
    this.#sender.hold();
    const reader = this.#reader;
    reader?.resume();
    this.#sender.flush();
    if (reader !== undefined) this.#letReaderGo(reader);
    if (this.#holds === 0) this.#stream.resume();
  }

  /**
   * When nothing is left of what has come, whoever reads next may have the reader, but for one that inflates. Once: a stream in
   * memory may be answered within flush(), and then the answer has been read with it, and it is another socket's, perhaps.
   */
  #letReaderGo(reader: FrameReader): void {
    if (this.#reader !== reader || !reader.isAtRest || reader.inflates) return;
    this.#reader = undefined;
    this.#terms.readers.give(reader);
  }

  // -- the end --

  get #ending(): Ending {
    return (this.#end ??= new Ending());
  }

  #sayClose(code: number, reason: string): void {
    const inbox = this.#inbox;
    this.#state = 'closing';
    this.#ending.close = { code, reason, wasClean: false }; // until the peer has agreed
    this.#ending.timer = this.#terms.clock.after(this.#terms.closeTimeoutMs, () => this.terminate());
    if (inbox !== undefined) inbox.messages.length = inbox.bytes = 0;
    this.#holds = 0;
    this.#leave();
    this.#sender.sendControl(OPCODE.close, closePayload(code, reason));
    this.#sender.flush();
    if (inbox !== undefined) settle(inbox, { done: true, value: undefined });
    queueMicrotask(() => {
      if (this.#state === 'closing') this.#read();
    }); // up to its close frame; not now, for we may be within a message
  }

  /** No message will come any more. */
  #closed(close: WebSocketClose): void {
    if (this.#state === 'closed') return;
    const said = this.#state === 'closing' ? this.#ending.close : undefined;
    const how = (this.#ending.close = said === undefined ? close : { ...said, wasClean: close.wasClean });
    this.#state = 'closed';
    this.#holds = 0;
    this.#leave();
    this.#sender.end();
    this.#ping?.answer.resolve(undefined);
    this.#terms.meter?.leave(how.code);
    this.#host.onClosed(this);
    this.#proceed();
  }

  #leave(): void {
    this.#heart?.remove(this);
    this.#heart = undefined;
    for (const room of this.#rooms ?? []) this.#terms.rooms.leave(room, this);
    this.#rooms = undefined;
  }

  /** Both have said what there was to say. The server ends the connection first (§7.1.1). */
  #endStream(): void {
    const ending = this.#ending;
    ending.timer?.[Symbol.dispose]();
    if (this.#stream.destroyed) return;
    this.#stream.end();
    this.#stream.resume(); // up to the end of its side
    ending.timer = this.#terms.clock.after(LINGER_MS, () => this.terminate());
  }

  #tellClosed(): void {
    const ending = this.#ending;
    if (ending.isTellingClosed || this.#state !== 'closed') return;
    ending.isTellingClosed = true;
    const close = ending.close!; // it is closed
    this.#run(
      () => this.#terms.listener.onClose(this, close),
      () => {
        ending.isToldClosed = true;
        this.#leaveForGood();
      },
    );
  }

  #leaveForGood(): void {
    const ending = this.#ending;
    if (!ending.isToldClosed || !ending.isGone || ending.isOver) return;
    ending.isOver = true;
    this.#host.onOver(
      this,
      ending.failure ?? (ending.close!.wasClean ? undefined : new ClientDisconnected()),
    ); // told how
  }
}

function shift(inbox: Inbox): string | Buffer {
  const data = inbox.messages.shift()!;
  inbox.bytes -= (typeof data === 'string' ? 2 : 1) * data.length + MESSAGE_COST;
  return data;
}

/** Answers whoever waits for a message, if anybody does. */
function settle(inbox: Inbox, result: IteratorResult<unknown, undefined>): void {
  const { waiter } = inbox;
  inbox.waiter = undefined;
  waiter?.resolve(result);
}

const EMPTY: Buffer = Buffer.alloc(0);

/**
 * How a socket closes for what a handler has thrown. What is meant for clients, an HTTPException below 500, is told them: 1007
 * for input that does not fit, 1003 for the wrong kind of message, else 1008. Anything else is 1011, without a word.
 */
export function closeFor(error: unknown): { readonly code: number; readonly reason: string } {
  if (!(error instanceof HTTPException) || error.status >= 500)
    return { code: CLOSE.internalError, reason: '' };
  const [issue] = error.issues ?? [];
  const reason = issue === undefined ? error.message : `${issue.loc.join('.')} ${issue.message}`;
  return {
    code:
      error.status === 400
        ? CLOSE.invalidData
        : error.status === 415
          ? CLOSE.unsupportedData
          : CLOSE.policyViolation,
    reason,
  };
}
