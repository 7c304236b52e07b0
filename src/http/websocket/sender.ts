/**
 * The sending side of a WebSocket: writes messages as frames to the stream, in batches, and only as fast as
 * the client reads.
 *
 * Frames pass through three buffers:
 *   - batch: the frames of one turn of the event loop, which are sent in one write
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
import { Batch } from './batch.ts';
import { OPCODE } from './codes.ts';
import { copyOf } from './frames.ts';
import { SHORT_TO_DEFLATE_BYTES, SharedFrames } from './deflate.ts';
import { encodeFrame, firstByte, frameHeadBytes, writeFrameHead } from './encode.ts';
import type { Duplex } from 'node:stream';
import type { Chunk } from './batch.ts';
import type { SharedMessage } from './rooms.ts';
import type { MessageDeflater } from './deflate.ts';
import type { ResolvedCompressionOptions } from './handshake.ts';
import type { WebSocketMeter } from './meter.ts';

/**
 * Policy for clients that read too slowly. `disconnect` closes the connection, `drop-oldest` drops waiting
 * messages, `wait` refuses new ones.
 */
export type SlowConsumerPolicy = 'disconnect' | 'drop-oldest' | 'wait';

/** Options of a FrameSender. */
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
/**
 * Maximum sizes in bytes of binary and text messages that are copied into the batch. Longer messages are
 * written without a copy (test/bench/websocket.ts: text8KiB, text64KiB).
 */
const SHORT_BYTES = 2_048,
  COPIED_TEXT_BYTES = 65_536;
/** Memory that each waiting frame takes in addition to its content, in bytes. */
const FRAME_COST = 128;
/**
 * Maximum number of bytes in messages of one socket that wait for a thread. Further messages are deflated in
 * the event loop.
 */
const MOST_PENDING_BYTES = 16_777_216;
/**
 * The queue array still contains frames that were sent. They are removed when they are more than this number,
 * and more than half of the array.
 */
const MOST_EMPTY = 64;

/** Placeholder in the queue for a message that is being deflated. */
class PendingFrame {
  /** Length of the uncompressed message in bytes. */
  readonly bytes: number;
  /** The encoded frame. Undefined until the message was deflated. */
  frame: Buffer | undefined;
  /** Whether the message was dropped from the queue. */
  isDropped = false;

  constructor(bytes: number) {
    this.bytes = bytes;
  }
}

/**
 * Frames that wait because the client has not read earlier ones. Created when needed, because most sockets
 * are idle.
 */
class Backlog {
  /** Frames in sending order; frames before index `first` were sent. Undefined if no frame waits. */
  queue: (Buffer | PendingFrame)[] | undefined;
  first = 0;
  /** Size of all waiting frames in bytes. */
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
  /** The close frame, while it waits in the queue. */
  close: Buffer | undefined;
  /** Called when the queue is empty. */
  onEmpty: (() => void) | undefined;
  isHigh = false;
  waiters: (() => void)[] | undefined;

  /** Whether the first frame in the queue can be sent: its message is not being deflated any more. */
  get isReady(): boolean {
    const first = this.queue?.[this.first];
    return first !== undefined && (!(first instanceof PendingFrame) || first.frame !== undefined);
  }

  get isEmpty(): boolean {
    return (
      this.queue === undefined &&
      this.waiters === undefined &&
      !this.isHigh &&
      this.pong === undefined &&
      this.ping === undefined &&
      this.close === undefined
    );
  }
}

/** Encodes the messages to one client, and sends them. */
export class FrameSender {
  readonly #stream: Duplex;
  readonly #options: SenderOptions;
  readonly #owner: SenderOwner;
  readonly #deflater: MessageDeflater | undefined;
  /**
   * Whether the memory of frames can be used again after write(). True for TCP sockets, which pass bytes to
   * the kernel within write() if no other bytes wait.
   */
  readonly canReuse: boolean;
  /** Frames that were not written to the stream yet. Undefined if there are none. */
  #batch: Batch | undefined;
  #backlog: Backlog | undefined;
  #isScheduled = false;
  #isHeld = false;
  #isOver = false;

  constructor(
    stream: Duplex,
    options: SenderOptions,
    owner: SenderOwner,
    deflater: MessageDeflater | undefined,
    canReuse: boolean,
  ) {
    this.#stream = stream;
    this.#options = options;
    this.#owner = owner;
    this.#deflater = deflater;
    this.canReuse = canReuse;
  }

  /** Number of bytes that the kernel has not accepted yet. */
  get bufferedAmount(): number {
    return this.#batchBytes + (this.#backlog?.bytes ?? 0) + this.#stream.writableLength;
  }

  get #batchBytes(): number {
    return this.#batch === undefined ? 0 : this.#batch.bytes;
  }

  /** The batch for the next frames, which is created when needed. */
  get #open(): Batch {
    return (this.#batch ??= new Batch());
  }

  /** Accepts no further frames. Calls `then` when all waiting frames were written. */
  finish(then: () => void): void {
    this.flush();
    this.#isOver = true;
    this.#release();
    const backlog = this.#backlog;
    if (backlog?.queue === undefined) then();
    else backlog.onEmpty = then;
  }

  /** Stops sending, and drops all waiting frames except the close frame. */
  end(): void {
    this.flush();
    const backlog = this.#backlog;
    if (backlog?.close !== undefined && backlog.queue !== undefined) {
      this.forget();
      this.#open.add(backlog.close);
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

  /**
   * Sends a text message.
   * @throws SvcError `E_WEBSOCKET_FULL` if the policy is `wait`, and the queue is full
   */
  sendText(text: string): void {
    const { compression } = this.#options;
    if (this.#deflater !== undefined && text.length >= compression!.thresholdBytes)
      return this.#sendDeflated(OPCODE.text, Buffer.from(text, 'utf8'));
    this.#options.meter?.messagesOut.add(1);
    if (this.#isBlocked()) return this.#waitOrThrow(encodeFrame(OPCODE.text, text));
    this.#writeText(text);
    this.#wrote();
  }

  /**
   * Sends a binary message. The caller must not change the bytes afterwards. Throws like {@link sendText}.
   */
  sendBytes(bytes: Uint8Array): void {
    const { compression } = this.#options;
    if (this.#deflater !== undefined && bytes.length >= compression!.thresholdBytes)
      return this.#sendDeflated(OPCODE.binary, bytes);
    this.#options.meter?.messagesOut.add(1);
    this.#sendFrame(firstByte(OPCODE.binary), bytes);
  }

  /**
   * Sends a message that several sockets share. Never throws: if the policy is `wait`, and the queue is full,
   * the message is dropped.
   */
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
      this.#open.add(frame);
      this.#wrote();
    }
  }

  /**
   * Sends a control frame. A ping or pong is sent before the messages in the queue, a close frame after them.
   */
  sendControl(opcode: number, payload: Buffer): void {
    const frame = encodeFrame(opcode, payload);
    if (this.#isOver) return;
    if (!this.#isBlocked()) {
      this.#open.add(frame);
      this.#wrote();
      return;
    }
    const backlog = (this.#backlog ??= new Backlog());
    if (opcode === OPCODE.pong) backlog.pong = frame;
    else if (opcode === OPCODE.ping) backlog.ping = frame;
    else if (opcode === OPCODE.close) this.#enqueue((backlog.close = frame));
  }

  /**
   * Writes the frames of the batch to the stream. Frames that must wait in the stream are copied, because
   * they would keep the buffer that all sockets share in memory.
   */
  flush(): void {
    this.#isHeld = false;
    const stream = this.#stream;
    const batch = this.#batch;
    if (batch === undefined || batch.bytes === 0 || stream.destroyed || stream.writableEnded) return;
    this.#options.meter?.bytesOut.add(batch.bytes);
    const one = batch.takeOne();
    // cleared before write(): a stream in memory may cause replies during write(), which need a new batch
    this.#batch = undefined;
    if (one === undefined) this.#writeAll(batch.take());
    else {
      const isBehind = stream.writableLength > 0;
      stream.write(isBehind ? copyOf(one) : one);
      if (isBehind || (this.canReuse && stream.writableLength === 0)) Batch.release(one);
    }
    if (stream.writableLength > 0) this.#feel();
  }

  /** Writes waiting frames. Called when the stream accepts more bytes. */
  onDrain(): void {
    const stream = this.#stream;
    const backlog = this.#backlog;
    if (backlog === undefined) return;
    if (!stream.writableNeedDrain) {
      if (backlog.pong !== undefined) this.#open.add(backlog.pong);
      if (backlog.ping !== undefined) this.#open.add(backlog.ping);
      backlog.pong = backlog.ping = undefined;
    }
    do {
      this.#takeFromQueue(backlog);
      this.flush();
    } while (backlog.isReady && !stream.writableNeedDrain && !stream.destroyed);
    if (backlog.queue === undefined) backlog.onEmpty?.();
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
    this.#sendFrame(firstByte(opcode, deflated !== undefined), deflated ?? bytes);
  }

  /**
   * Whether another message may be deflated in a thread: not if too many bytes wait for a thread, or for the
   * client.
   */
  #hasRoomToDeflate(length: number): boolean {
    const pending = this.#backlog?.pendingBytes ?? 0;
    return pending + length <= MOST_PENDING_BYTES && this.#cost(EMPTY) <= this.#options.maxBufferedBytes;
  }

  /**
   * Adds a placeholder for a message of `length` bytes to the queue. `making` is the promise of its frame; it
   * never rejects.
   */
  #keepPlace(length: number, making: Promise<Buffer>): void {
    if (this.#isOver) return;
    const pending = new PendingFrame(length);
    this.flush(); // earlier frames must be sent first
    const backlog = (this.#backlog ??= new Backlog());
    const queue = (backlog.queue ??= []);
    queue.push(pending);
    backlog.bytes += length;
    backlog.pendingBytes += length;
    this.#feel();
    void making.then((frame) => {
      // the placeholder or the whole queue was dropped in the meantime
      if (pending.isDropped || this.#backlog?.queue !== queue) return;
      this.#settle(this.#backlog, pending, frame);
    });
  }

  /**
   * Called when a message was deflated, so that the size of its frame is known. Sends the frame, or applies
   * the policy for slow clients.
   */
  #settle(backlog: Backlog, pending: PendingFrame, frame: Buffer): void {
    const { maxBufferedBytes, slowConsumer } = this.#options;
    pending.frame = frame;
    backlog.bytes += frame.length - pending.bytes;
    backlog.pendingBytes -= pending.bytes;
    if (!this.#stream.writableNeedDrain) return this.onDrain();
    if (slowConsumer === 'disconnect' && this.#cost(EMPTY) > maxBufferedBytes) return this.#owner.onTooSlow();
    while (
      slowConsumer === 'drop-oldest' &&
      backlog.queue !== undefined &&
      this.#cost(EMPTY) > maxBufferedBytes
    )
      this.#drop(backlog);
  }

  #sendFrame(first: number, bytes: Uint8Array): void {
    const { length } = bytes;
    if (this.#isBlocked()) {
      const frame = Buffer.allocUnsafe(frameHeadBytes(length) + length);
      frame.set(bytes, writeFrameHead(frame, 0, first, length));
      return this.#waitOrThrow(frame);
    }
    const batch = this.#open;
    const isShort = length <= SHORT_BYTES;
    let at = batch.reserve(isShort ? length + 4 : 10);
    at = writeFrameHead(batch.memory, at, first, length);
    if (isShort) batch.memory.set(bytes, at);
    batch.wrote(isShort ? at + length : at);
    if (!isShort) batch.add(Buffer.from(bytes.buffer, bytes.byteOffset, length));
    this.#wrote();
  }

  /**
   * Writes a text message into the batch. A long text is encoded into a buffer of its own, which is added to
   * the batch.
   */
  #writeText(text: string): void {
    const length = Buffer.byteLength(text);
    if (length > COPIED_TEXT_BYTES) return this.#open.add(encodeFrame(OPCODE.text, text));
    const batch = this.#open;
    const at = batch.reserve(length + 10);
    const start = writeFrameHead(batch.memory, at, firstByte(OPCODE.text), length);
    batch.wrote(start + batch.memory.write(text, start, length === text.length ? 'latin1' : 'utf8'));
  }

  /** Schedules the sending of the batch. Called when bytes were added to it. */
  #wrote(): void {
    if (this.#batchBytes >= HIGH_WATER_BYTES) {
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

  #writeAll(chunks: readonly Chunk[]): void {
    const stream = this.#stream;
    if (chunks.length === 1) return void stream.write(chunks[0]!, 'latin1');
    const isBehind = stream.writableLength > 0;
    stream.cork();
    for (const chunk of chunks)
      stream.write(isBehind && Batch.holds(chunk) ? copyOf(chunk) : chunk, 'latin1');
    stream.uncork();
  }

  /** Whether the next frame must wait in the queue. */
  #isBlocked(): boolean {
    if (this.#backlog?.queue !== undefined) return true;
    return this.#stream.writableNeedDrain;
  }

  #waitOrThrow(frame: Buffer): void {
    if (!this.#wait(frame)) throw new SvcError('E_WEBSOCKET_FULL', [this.#options.maxBufferedBytes]);
  }

  /**
   * Adds a frame to the queue, if the policy for slow clients allows this. Returns false if the frame was
   * refused.
   */
  #wait(frame: Buffer): boolean {
    const { maxBufferedBytes, slowConsumer, meter } = this.#options;
    if (this.#isOver) return true;
    if (this.#cost(frame) > maxBufferedBytes) {
      if (slowConsumer === 'disconnect') {
        this.#owner.onTooSlow();
        return true;
      }
      if (slowConsumer === 'drop-oldest') {
        while (this.#backlog?.queue !== undefined && this.#cost(frame) > maxBufferedBytes)
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
    const count = backlog?.queue === undefined ? 0 : backlog.queue.length - backlog.first;
    // messages that wait for a compression thread do not count, because the client does not cause that delay
    const pending = backlog?.pendingBytes ?? 0;
    return this.bufferedAmount - pending + frame.length + (count + 1) * FRAME_COST;
  }

  #enqueue(frame: Buffer): void {
    this.flush(); // earlier frames must be sent first
    const backlog = (this.#backlog ??= new Backlog());
    (backlog.queue ??= []).push(frame);
    backlog.bytes += frame.length;
    this.#feel();
  }

  #takeFromQueue(backlog: Backlog): void {
    const { queue } = backlog;
    if (queue === undefined) return;
    // fills the stream to its own high-water mark, because the stream emits "drain" only after it was full
    const room = Math.max(HIGH_WATER_BYTES, this.#stream.writableHighWaterMark);
    while (backlog.isReady && this.#stream.writableLength + this.#batchBytes < room)
      this.#open.add(shift(backlog, queue));
    if (backlog.first === queue.length) this.forget();
  }

  #drop(backlog: Backlog): void {
    const queue = backlog.queue!; // defined: the caller has checked it
    shift(backlog, queue);
    this.#options.meter?.dropped.add(1);
    if (backlog.first === queue.length) this.forget();
  }

  /** Drops all frames in the queue. */
  forget(): void {
    const backlog = this.#backlog;
    if (backlog === undefined) return;
    backlog.queue = undefined;
    backlog.first = backlog.bytes = backlog.pendingBytes = 0;
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
 * Removes and returns the first frame of the queue. If its message is still being deflated, the message is
 * dropped, and the result is an empty buffer.
 */
function shift(backlog: Backlog, queue: (Buffer | PendingFrame)[]): Buffer {
  const first = queue[backlog.first]!;
  queue[backlog.first++] = EMPTY; // replaced, so that the frame does not stay in memory
  let frame = EMPTY;
  if (!(first instanceof PendingFrame)) frame = first;
  else if (first.frame !== undefined) frame = first.frame;
  else {
    first.isDropped = true;
    backlog.bytes -= first.bytes;
    backlog.pendingBytes -= first.bytes;
  }
  backlog.bytes -= frame.length;
  if (backlog.first > MOST_EMPTY && 2 * backlog.first > queue.length) {
    queue.splice(0, backlog.first);
    backlog.first = 0;
  }
  return frame;
}

const EMPTY: Buffer = Buffer.alloc(0);

function flushLater(sender: FrameSender): void {
  sender.onTick();
}
