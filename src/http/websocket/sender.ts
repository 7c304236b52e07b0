/**
 * The sending side of a WebSocket: writes messages as frames to the stream, in batches, and only as fast as
 * the client reads.
 *
 * Frames pass through three buffers:
 *   - turn: the frames of one turn of the event loop, which are joined and sent in one write
 *   - stream: up to 64 KiB that the kernel has not accepted yet
 *   - queue: further frames, up to maxBufferedBytes; beyond that, the policy for slow clients applies
 *
 * A long message is deflated in a thread. Meanwhile, a placeholder for its frame is in the queue, and later
 * messages wait behind it.
 *
 * Policies for clients that read too slowly:
 *   - disconnect: closes the connection with code 1008; the client may reconnect
 *   - drop-oldest: drops the oldest message in the queue; for clients that need only the latest data
 *   - wait: refuses further messages, and drops none; callers await drain() before they send more
 */
import { SvcError } from '../../base/errors.ts';
import { OPCODE } from './codes.ts';
import { copyOf } from './frames.ts';
import { SHORT_TO_DEFLATE_BYTES, SharedFrames } from './deflate.ts';
import { encodeFrame, encodeHead, headBytes, writeFrame } from './encode.ts';
import type { Duplex } from 'node:stream';
import type { SharedMessage } from './rooms.ts';
import type { MessageDeflater } from './deflate.ts';
import type { ResolvedCompressionOptions } from './handshake.ts';
import type { WebSocketMeter } from './meter.ts';

/**
 * Policy for clients that read too slowly. `disconnect` closes the connection, `drop-oldest` drops waiting
 * messages, `wait` refuses new ones.
 */
export type SlowConsumerPolicy = 'disconnect' | 'drop-oldest' | 'wait';

export interface SenderOptions {
  readonly maxBufferedBytes: number;
  readonly slowConsumer: SlowConsumerPolicy;
  readonly compression: ResolvedCompressionOptions | undefined;
  readonly meter: WebSocketMeter | undefined;
}

/** The socket that uses the sender. */
export interface SenderOwner {
  /** Called if the policy is `disconnect`, and more than maxBufferedBytes would wait. */
  onTooSlow(): void;
  /**
   * Called with true when many bytes wait: at least 64 KiB, and at least half of maxBufferedBytes. Called
   * with false when fewer bytes wait again. In between, the server stops reading from the client.
   */
  onPressure(isHigh: boolean): void;
}

/**
 * Maximum number of bytes that wait in the stream; further frames wait in the queue. If fewer bytes wait,
 * drain() resolves.
 */
const HIGH_WATER_BYTES = 65_536;
/** Maximum size in bytes of messages that are joined (test/bench/websocket.ts --only=16). Others are not copied. */
const SHORT_BYTES = 2_048;
/** Size in bytes of the memory for joined frames, as soon as a turn has more than one. */
const JOINED_BYTES = 4_096;
/** Memory that each waiting frame takes in addition to its content, in bytes. */
const FRAME_COST = 128;
/**
 * Maximum number of bytes in messages of one socket that wait for a thread. Further messages are deflated in
 * the event loop.
 */
const MOST_PENDING_BYTES = 16_777_216;

/** Bytes, or ASCII text, which needs no memory of its own. */
type Chunk = Buffer | string;

/** A frame in the queue, or the place of a message that is being deflated. */
class QueuedFrame {
  /** The encoded frame. Undefined until the message was deflated. */
  frame: Buffer | undefined;
  /** Size of the frame in bytes, or of the message that is being deflated. */
  bytes: number;
  /** Whether the frame was dropped from the queue. */
  isDropped = false;
  next: QueuedFrame | undefined;

  constructor(frame: Buffer | undefined, bytes: number) {
    this.frame = frame;
    this.bytes = bytes;
  }
}

/**
 * Frames that wait because the client has not read earlier ones. Created when needed, because most sockets
 * are idle.
 */
class Backlog {
  /** First frame of the queue, in sending order. Undefined if no frame waits. */
  first: QueuedFrame | undefined;
  last: QueuedFrame | undefined;
  /** Number of frames in the queue. */
  count = 0;
  bytes = 0;
  /** Size of the messages that are being deflated, in bytes. */
  pendingBytes = 0;
  /**
   * Pong that waits until the stream accepts bytes. It replaces an older one, because only the newest ping
   * needs a pong (RFC 6455 §5.5.3).
   */
  pong: Buffer | undefined;
  /**
   * Ping that waits until the stream accepts bytes. It must be sent, because the connection is closed if the
   * client does not respond to it.
   */
  ping: Buffer | undefined;
  close: Buffer | undefined;
  onEmpty: (() => void) | undefined;
  isHigh = false;
  waiters: (() => void)[] | undefined;

  /** Whether the first frame in the queue can be sent: its message is not being deflated any more. */
  get isReady(): boolean {
    return this.first?.frame !== undefined;
  }

  get isEmpty(): boolean {
    return (
      this.first === undefined &&
      this.waiters === undefined &&
      !this.isHigh &&
      this.pong === undefined &&
      this.ping === undefined &&
      this.close === undefined
    );
  }

  push(queued: QueuedFrame): void {
    if (this.last === undefined) this.first = queued;
    else this.last.next = queued;
    this.last = queued;
    this.count++;
    this.bytes += queued.bytes;
    if (queued.frame === undefined) this.pendingBytes += queued.bytes;
  }

  /**
   * Removes the first frame of the queue, and returns it. If its message is still being deflated, the message is
   * dropped, and the result is an empty buffer.
   */
  shift(): Buffer {
    const queued = this.first!; // defined: the caller has checked it
    this.first = queued.next;
    if (this.first === undefined) this.last = undefined;
    queued.next = undefined; // a message that is still being deflated must not keep later frames in memory
    this.count--;
    this.bytes -= queued.bytes;
    if (queued.frame !== undefined) return queued.frame;
    queued.isDropped = true;
    this.pendingBytes -= queued.bytes;
    return EMPTY;
  }
}

/** Encodes the messages to one client, and sends them. */
export class FrameSender {
  readonly #stream: Duplex;
  readonly #options: SenderOptions;
  readonly #owner: SenderOwner;
  readonly #deflater: MessageDeflater | undefined;
  /** Chunks of this turn: frames, or parts of long frames. Idle sockets share one empty list. */
  #turn: Chunk[] = NONE;
  /** Memory in which the last short frames of this turn are joined, up to `#joinedEnd`. */
  #joined: Buffer = EMPTY;
  #joinedEnd = 0;
  #turnBytes = 0;
  #backlog: Backlog | undefined;
  #isScheduled = false;
  #isHeld = false;
  #isOver = false;

  constructor(
    stream: Duplex,
    options: SenderOptions,
    owner: SenderOwner,
    deflater: MessageDeflater | undefined,
  ) {
    this.#stream = stream;
    this.#options = options;
    this.#owner = owner;
    this.#deflater = deflater;
  }

  /** Number of bytes that the kernel has not accepted yet. */
  get bufferedAmount(): number {
    return this.#turnBytes + (this.#backlog?.bytes ?? 0) + this.#stream.writableLength;
  }

  /** Accepts no further frames. Calls `then` when all waiting frames were written. */
  finish(then: () => void): void {
    this.flush();
    this.#isOver = true;
    this.#release();
    const backlog = this.#backlog;
    if (backlog?.first === undefined) then();
    else backlog.onEmpty = then;
  }

  /** Stops sending, and drops all waiting frames except the close frame. */
  end(): void {
    this.flush();
    const backlog = this.#backlog;
    if (backlog?.close !== undefined && backlog.first !== undefined) {
      this.forget();
      this.#add(backlog.close);
      this.flush();
    }
    this.#isOver = true;
    this.forget();
    this.#release();
  }

  /** Collects frames until {@link flush} is called, so that they are sent in one write. */
  hold(): void {
    this.#isHeld = true;
  }

  sendText(text: string): void {
    const { compression } = this.#options;
    if (this.#deflater !== undefined && text.length >= compression!.thresholdBytes)
      return this.#sendDeflated(OPCODE.text, Buffer.from(text, 'utf8'));
    this.#options.meter?.messagesOut.add(1);
    this.#sendFrame(OPCODE.text, text);
  }

  /** Do not change the bytes afterwards. Throws like {@link sendText}. */
  sendBytes(bytes: Uint8Array): void {
    const { compression } = this.#options;
    if (this.#deflater !== undefined && bytes.length >= compression!.thresholdBytes)
      return this.#sendDeflated(OPCODE.binary, bytes);
    this.#options.meter?.messagesOut.add(1);
    this.#sendFrame(OPCODE.binary, bytes);
  }

  /** Never throws: if the policy is `wait`, and the queue is full, the message is dropped. */
  deliver(message: SharedMessage): void {
    if (this.#isOver) return;
    this.#options.meter?.messagesOut.add(1);
    const { compression } = this.#options;
    const frames = (message.frames ??= new SharedFrames(message.payload, message.isText));
    const deflater =
      message.payload.length >= (compression?.thresholdBytes ?? Infinity) ? this.#deflater : undefined;
    if (
      deflater !== undefined &&
      message.payload.length > SHORT_TO_DEFLATE_BYTES &&
      this.#hasRoomToDeflate(message.payload.length)
    ) {
      deflater.forget();
      return this.#keepPlace(message.payload.length, frames.deflatedLong(deflater.bits, compression!.level));
    }
    const deflated = deflater === undefined ? undefined : frames.deflated(deflater.bits, compression!.level);
    if (deflated !== undefined) deflater!.forget();
    const frame = deflated ?? frames.plain;
    if (this.#isBlocked()) this.#wait(frame);
    else {
      this.#add(frame);
      this.#wrote();
    }
  }

  /** Sends a ping or pong before the messages in the queue, a close frame after them. */
  sendControl(opcode: number, payload: Buffer): void {
    const frame = encodeFrame(opcode, payload);
    if (this.#isOver) return;
    if (!this.#isBlocked()) {
      this.#add(frame);
      this.#wrote();
      return;
    }
    const backlog = (this.#backlog ??= new Backlog());
    if (opcode === OPCODE.pong) backlog.pong = frame;
    else if (opcode === OPCODE.ping) backlog.ping = frame;
    else if (opcode === OPCODE.close) this.#enqueue((backlog.close = frame));
  }

  /** Writes the frames of this turn to the stream. */
  flush(): void {
    this.#isHeld = false;
    const stream = this.#stream;
    if (this.#turnBytes === 0 || stream.destroyed || stream.writableEnded) return;
    this.#options.meter?.bytesOut.add(this.#turnBytes);
    this.#cut();
    const chunks = this.#turn;
    // cleared before write(): a stream in memory may cause replies during write(), which belong to a new turn
    this.#turn = NONE;
    this.#turnBytes = 0;
    writeAll(stream, chunks);
    if (stream.writableLength > 0) this.#feel();
  }

  /** Writes waiting frames. Called when the stream accepts more bytes. */
  onDrain(): void {
    const stream = this.#stream;
    const backlog = this.#backlog;
    if (backlog === undefined) return;
    if (!stream.writableNeedDrain) {
      if (backlog.pong !== undefined) this.#add(backlog.pong);
      if (backlog.ping !== undefined) this.#add(backlog.ping);
      backlog.pong = backlog.ping = undefined;
    }
    do {
      this.#takeFromQueue(backlog);
      this.flush();
    } while (backlog.isReady && !stream.writableNeedDrain && !stream.destroyed);
    if (backlog.first === undefined) backlog.onEmpty?.();
    this.#feel();
    if (this.bufferedAmount < HIGH_WATER_BYTES || !this.#isBlocked()) this.#release();
    if (backlog.isEmpty) this.#backlog = undefined;
  }

  /** Resolves when fewer than HIGH_WATER_BYTES wait, or when sending has ended. */
  drain(): Promise<void> {
    this.flush();
    if (
      this.#isOver ||
      this.bufferedAmount < HIGH_WATER_BYTES ||
      (!this.#isBlocked() && !this.#stream.destroyed)
    )
      return Promise.resolve(); // a stream that is not full emits no "drain", so there is nothing to wait for
    return new Promise((resolve) => {
      ((this.#backlog ??= new Backlog()).waiters ??= []).push(resolve);
    });
  }

  #sendDeflated(opcode: number, bytes: Uint8Array): void {
    this.#options.meter?.messagesOut.add(1);
    if (bytes.length > SHORT_TO_DEFLATE_BYTES && this.#hasRoomToDeflate(bytes.length))
      return this.#keepPlace(
        bytes.length,
        this.#deflater!.deflateLong(bytes).then((deflated) =>
          encodeFrame(opcode, deflated ?? bytes, deflated !== undefined),
        ),
      );
    // true if the message must wait in the queue, from which it may be dropped
    const mayBeLost = this.#options.slowConsumer !== 'disconnect' && this.#isBlocked();
    // `#deflater` is defined: the caller has checked it
    const deflated = this.#deflater!.deflate(bytes, mayBeLost);
    this.#sendFrame(opcode, deflated ?? bytes, deflated !== undefined);
  }

  /**
   * Whether another message may be deflated in a thread: not if too many bytes wait for a thread, or for the
   * client.
   */
  #hasRoomToDeflate(length: number): boolean {
    const pending = this.#backlog?.pendingBytes ?? 0;
    return pending + length <= MOST_PENDING_BYTES && this.#cost(EMPTY) <= this.#options.maxBufferedBytes;
  }

  /** `making` is the promise of the frame for a message of `length` bytes; it never rejects. */
  #keepPlace(length: number, making: Promise<Buffer>): void {
    if (this.#isOver) return;
    const pending = new QueuedFrame(undefined, length);
    this.flush(); // earlier frames must be sent first
    const backlog = (this.#backlog ??= new Backlog());
    backlog.push(pending);
    this.#feel();
    void making.then((frame) => {
      if (!pending.isDropped) this.#deflated(backlog, pending, frame);
    });
  }

  /**
   * Called when a message was deflated, so that the size of its frame is known. Sends the frame, or applies
   * the policy for slow clients.
   */
  #deflated(backlog: Backlog, pending: QueuedFrame, frame: Buffer): void {
    const { maxBufferedBytes, slowConsumer } = this.#options;
    backlog.bytes += frame.length - pending.bytes;
    backlog.pendingBytes -= pending.bytes;
    pending.frame = frame;
    pending.bytes = frame.length;
    if (!this.#stream.writableNeedDrain) return this.onDrain();
    if (slowConsumer === 'disconnect' && this.#cost(EMPTY) > maxBufferedBytes) return this.#owner.onTooSlow();
    while (
      slowConsumer === 'drop-oldest' &&
      backlog.first !== undefined &&
      this.#cost(EMPTY) > maxBufferedBytes
    )
      this.#drop(backlog);
  }

  #sendFrame(opcode: number, payload: string | Uint8Array, isCompressed = false): void {
    if (this.#isBlocked()) return this.#waitOrThrow(encodeFrame(opcode, payload, isCompressed));
    const length = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
    if (length <= SHORT_BYTES) this.#join(opcode, payload, length, isCompressed);
    else {
      this.#add(encodeHead(opcode, length, isCompressed));
      if (typeof payload !== 'string') this.#add(Buffer.from(payload.buffer, payload.byteOffset, length));
      else this.#add(length === payload.length ? payload : Buffer.from(payload));
    }
    this.#wrote();
  }

  #join(opcode: number, payload: string | Uint8Array, length: number, isCompressed: boolean): void {
    const start = this.#joinedEnd;
    const needed = start + headBytes(length) + length;
    if (needed > this.#joined.length) {
      const longer = Buffer.allocUnsafe(start === 0 ? needed : Math.max(JOINED_BYTES, 2 * needed));
      this.#joined.copy(longer, 0, 0, start);
      this.#joined = longer;
    }
    this.#joinedEnd = writeFrame(this.#joined, start, opcode, payload, length, isCompressed);
    this.#turnBytes += this.#joinedEnd - start;
  }

  #add(chunk: Chunk): void {
    this.#cut();
    this.#push(chunk);
    this.#turnBytes += chunk.length;
  }

  /** Makes the joined frames a chunk. */
  #cut(): void {
    const end = this.#joinedEnd;
    if (end === 0) return;
    this.#push(end === this.#joined.length ? this.#joined : this.#joined.subarray(0, end));
    this.#joined = EMPTY;
    this.#joinedEnd = 0;
  }

  #push(chunk: Chunk): void {
    if (this.#turn === NONE) this.#turn = [chunk];
    else this.#turn.push(chunk);
  }

  /** Schedules the sending of this turn. Called when frames were added to it. */
  #wrote(): void {
    if (this.#turnBytes >= HIGH_WATER_BYTES) {
      const isHeld = this.#isHeld;
      this.flush();
      this.#isHeld = isHeld;
    } else if (!this.#isHeld && !this.#isScheduled) {
      this.#isScheduled = true;
      process.nextTick(flushLater, this);
    }
  }

  /** @internal */
  onTick(): void {
    this.#isScheduled = false;
    if (!this.#isHeld) this.flush();
  }

  /** Whether the next frame must wait in the queue. */
  #isBlocked(): boolean {
    if (this.#backlog?.first !== undefined) return true;
    return this.#stream.writableNeedDrain;
  }

  #waitOrThrow(frame: Buffer): void {
    if (!this.#wait(frame)) throw new SvcError('E_WEBSOCKET_FULL', [this.#options.maxBufferedBytes]);
  }

  /** Returns false if the policy for slow clients refuses the frame. */
  #wait(frame: Buffer): boolean {
    const { maxBufferedBytes, slowConsumer, meter } = this.#options;
    if (this.#isOver) return true;
    if (this.#cost(frame) > maxBufferedBytes) {
      if (slowConsumer === 'disconnect') {
        this.#owner.onTooSlow();
        return true;
      }
      if (slowConsumer === 'drop-oldest') {
        while (this.#backlog?.first !== undefined && this.#cost(frame) > maxBufferedBytes)
          this.#drop(this.#backlog);
      }
      if (this.#cost(frame) > maxBufferedBytes) {
        meter?.dropped.add(1);
        return slowConsumer === 'drop-oldest';
      }
    }
    this.#enqueue(frame);
    return true;
  }

  /** Returns the memory that all waiting frames and `frame` take, in bytes. */
  #cost(frame: Buffer): number {
    const backlog = this.#backlog;
    const count = backlog?.count ?? 0;
    // messages that wait for a compression thread do not count, because the client does not cause that delay
    const pending = backlog?.pendingBytes ?? 0;
    return this.bufferedAmount - pending + frame.length + (count + 1) * FRAME_COST;
  }

  #enqueue(frame: Buffer): void {
    this.flush(); // earlier frames must be sent first
    (this.#backlog ??= new Backlog()).push(new QueuedFrame(frame, frame.length));
    this.#feel();
  }

  #takeFromQueue(backlog: Backlog): void {
    // fills the stream to its own high-water mark, because the stream emits "drain" only after it was full
    const room = Math.max(HIGH_WATER_BYTES, this.#stream.writableHighWaterMark);
    while (backlog.isReady && this.#stream.writableLength + this.#turnBytes < room)
      this.#add(backlog.shift());
  }

  #drop(backlog: Backlog): void {
    backlog.shift();
    this.#options.meter?.dropped.add(1);
  }

  /** Drops all frames in the queue. */
  forget(): void {
    const backlog = this.#backlog;
    if (backlog === undefined) return;
    for (let queued = backlog.first; queued !== undefined; queued = queued.next) queued.isDropped = true;
    backlog.first = backlog.last = undefined;
    backlog.count = backlog.bytes = backlog.pendingBytes = 0;
  }

  #feel(): void {
    const isHigh =
      this.#isBlocked() &&
      this.bufferedAmount >= Math.max(HIGH_WATER_BYTES, this.#options.maxBufferedBytes / 2);
    if (isHigh === (this.#backlog?.isHigh ?? false)) return;
    (this.#backlog ??= new Backlog()).isHigh = isHigh;
    this.#owner.onPressure(isHigh);
  }

  #release(): void {
    const waiters = this.#backlog?.waiters;
    if (waiters === undefined) return;
    this.#backlog!.waiters = undefined; // `#backlog` is defined, because it contains `waiters`
    for (const resolve of waiters) resolve();
  }
}

/**
 * Writes chunks in one write. A chunk that must wait in the stream gets memory of its own, because otherwise it
 * would keep a pool of Node in memory.
 */
function writeAll(stream: Duplex, chunks: readonly Chunk[]): void {
  const isBehind = stream.writableLength > 0;
  if (chunks.length === 1 && !isBehind) return void stream.write(chunks[0]!, 'latin1');
  stream.cork();
  for (const chunk of chunks) {
    const isPooled = typeof chunk !== 'string' && chunk.length < Buffer.poolSize;
    stream.write(isBehind && isPooled ? copyOf(chunk) : chunk, 'latin1');
  }
  stream.uncork();
}

const EMPTY: Buffer = Buffer.alloc(0);

/** List of the frames of all senders that have none. It stays empty. */
const NONE: Chunk[] = [];

function flushLater(sender: FrameSender): void {
  sender.onTick();
}
