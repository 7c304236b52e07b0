/**
 * Sending half of a WebSocket: messages -> frames -> the stream, in batches and as fast as the peer reads.
 *
 *   batch   messages of one turn leave in one write
 *   stream  up to 64 KiB that the kernel has not taken
 *   queue   whole frames after that, up to maxBufferedBytes; then the policy for slow consumers applies
 *
 * A long message is deflated in a thread. Its place in the queue waits for that, and later messages wait behind it.
 *
 *   disconnect    1008, and the connection ends: the client may reconnect
 *   drop-oldest   the oldest message is dropped: for clients that need only the latest state
 *   wait          no accepted message is lost, further ones are refused: senders await drain()
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

/** Policies for clients that read too slowly. */
export type SlowConsumerPolicy = 'disconnect' | 'drop-oldest' | 'wait';

/** Options of a sender. */
export interface SenderOptions {
  readonly maxBufferedBytes: number;
  readonly slowConsumer: SlowConsumerPolicy;
  readonly compression: ResolvedCompressionOptions | undefined;
  readonly meter: WebSocketMeter | undefined;
}

/** Callbacks of the sender's owner. */
export interface SenderOwner {
  /** The client is too slow, and the policy is to part with it. */
  onTooSlow(): void;
  /** Whether half of the limit waits: the server stops reading from a client that does not read. */
  onPressure(isHigh: boolean): void;
}

/** Below it drain() resolves, and the stream is given more. */
const HIGH_WATER_BYTES = 65_536;
/** Messages up to this size are copied into the batch; longer bytes are written without a copy (test/bench/websocket.ts: text8KiB, text64KiB). */
const SHORT_CHARACTERS = 4_096,
  SHORT_BYTES = 2_048,
  COPIED_TEXT_BYTES = 65_536;
/** Cost of a waiting frame beside its bytes. */
const FRAME_COST = 128;
/** Bytes of messages that are being deflated for one socket: a further message is deflated on the event loop. */
const MOST_PENDING_BYTES = 16_777_216;
/** Sent frames are removed from the list when there are this many, and more than waiting ones. */
const MOST_EMPTY = 64;

/** The place of a message that is being deflated. */
class PendingFrame {
  /** Length of the uncompressed message. */
  readonly bytes: number;
  /** Undefined until the message is deflated. */
  frame: Buffer | undefined;
  /** Whether the queue dropped it. */
  isDropped = false;

  constructor(bytes: number) {
    this.bytes = bytes;
  }
}

/** State for waiting frames, created on demand: most sockets are idle. */
class Backlog {
  /** Frames that wait for the stream, from `first` on; undefined while none does. */
  queue: (Buffer | PendingFrame)[] | undefined;
  first = 0;
  /** Bytes of the messages that are being deflated. */
  bytes = 0;
  /** Bytes of messages that are being deflated. */
  pendingBytes = 0;
  /** Pong for the newest ping, while other frames wait: older pings need none (RFC 6455 §5.5.3). */
  pong: Buffer | undefined;
  /** A requested ping while other frames wait: otherwise a client would be closed without having been pinged. */
  ping: Buffer | undefined;
  /** A close frame that waits for other frames. */
  close: Buffer | undefined;
  /** Called when the queue is empty. */
  onEmpty: (() => void) | undefined;
  isHigh = false;
  waiters: (() => void)[] | undefined;

  /** Whether the first frame can be sent. */
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

/** Sends the frames of one connection. */
export class FrameSender {
  readonly #stream: Duplex;
  readonly #options: SenderOptions;
  readonly #owner: SenderOwner;
  readonly #deflater: MessageDeflater | undefined;
  /** Whether written memory can be reused: a socket's, when nothing waits. */
  readonly canReuse: boolean;
  /** Undefined while nothing is being written. */
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

  /** Bytes that the kernel has not taken. */
  get bufferedAmount(): number {
    return this.#batchBytes + (this.#backlog?.bytes ?? 0) + this.#stream.writableLength;
  }

  get #batchBytes(): number {
    return this.#batch === undefined ? 0 : this.#batch.bytes;
  }

  /** The current batch; returned after sending. */
  get #open(): Batch {
    return (this.#batch ??= Batch.take());
  }

  /** Takes nothing more, and calls `then` when no frame waits in the queue. */
  finish(then: () => void): void {
    this.flush();
    this.#isOver = true;
    this.#release();
    const backlog = this.#backlog;
    if (backlog?.queue === undefined) then();
    else backlog.onEmpty = then;
  }

  /** Stops sending and drops waiting frames, but not a close frame: a peer that has closed ignores everything before it. */
  end(): void {
    this.flush();
    const backlog = this.#backlog;
    if (backlog?.close !== undefined && backlog.queue !== undefined) {
      this.#forgetQueue();
      this.#open.add(backlog.close);
      this.flush();
    }
    this.#isOver = true;
    this.#forgetQueue();
    this.#release();
  }

  /** Holds everything until {@link flush}, so that messages leave together. */
  hold(): void {
    this.#isHeld = true;
  }

  /** @throws SvcError `E_WEBSOCKET_FULL` with the policy `wait`, when there is no room */
  sendText(text: string): void {
    const { compression } = this.#options;
    if (this.#deflater !== undefined && text.length >= compression!.thresholdBytes)
      return this.#sendDeflated(OPCODE.text, Buffer.from(text, 'utf8'));
    this.#options.meter?.messagesOut.add(1);
    if (this.#isBlocked()) return this.#waitOrThrow(encodeFrame(OPCODE.text, text));
    if (text.length > SHORT_CHARACTERS) this.#writeLongText(text);
    else this.#writeShortText(text);
    this.#wrote();
  }

  /** Variant for bytes, which must not change afterwards. */
  sendBytes(bytes: Uint8Array): void {
    const { compression } = this.#options;
    if (this.#deflater !== undefined && bytes.length >= compression!.thresholdBytes)
      return this.#sendDeflated(OPCODE.binary, bytes);
    this.#options.meter?.messagesOut.add(1);
    this.#sendFrame(firstByte(OPCODE.binary), bytes);
  }

  /** Sends a shared message. Never throws: without room it is dropped. */
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

  /** Sends a control frame before the queue, but never after a close frame, which is the last. */
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

  /** Writes the messages of this turn. Frames that the peer has not taken are copied: a few bytes would keep the whole batch alive. */
  flush(): void {
    this.#isHeld = false;
    const stream = this.#stream;
    const batch = this.#batch;
    if (batch === undefined || batch.bytes === 0 || stream.destroyed || stream.writableEnded) return;
    this.#options.meter?.bytesOut.add(batch.bytes);
    const one = batch.takeOne();
    this.#batch = undefined; // before the write: a stream in memory may respond within write(), and that response starts another batch
    if (one === undefined) {
      const chunks = batch.take();
      Batch.give(batch);
      this.#writeAll(chunks);
    } else {
      Batch.give(batch);
      const isBehind = stream.writableLength > 0;
      stream.write(isBehind ? copyOf(one) : one);
      if (isBehind || (this.canReuse && stream.writableLength === 0)) Batch.release(one);
    }
    if (stream.writableLength > 0) this.#feel();
  }

  /** The stream takes more. */
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

  /** Resolves when less waits than a client should have open, or when nothing is sent any more. */
  drain(): Promise<void> {
    this.flush();
    if (
      this.#isOver ||
      this.bufferedAmount < HIGH_WATER_BYTES ||
      (!this.#isBlocked() && !this.#stream.destroyed)
    )
      return Promise.resolve(); // an unblocked stream emits no drain; a destroyed one ends by itself
    return new Promise((resolve) => {
      ((this.#backlog ??= new Backlog()).waiters ??= []).push(resolve);
    });
  }

  /** Drops everything that waits. */
  forget(): void {
    this.#forgetQueue();
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
    const mayBeLost = this.#options.slowConsumer !== 'disconnect' && this.#isBlocked(); // dropped from the queue, or refused
    const deflated = this.#deflater!.deflate(bytes, mayBeLost); // checked before
    this.#sendFrame(firstByte(opcode, deflated !== undefined), deflated ?? bytes);
  }

  /** Whether a message may wait until it is deflated: the client has kept up so far. */
  #hasRoomToDeflate(length: number): boolean {
    const pending = this.#backlog?.pendingBytes ?? 0;
    return pending + length <= MOST_PENDING_BYTES && this.#cost(EMPTY) <= this.#options.maxBufferedBytes;
  }

  /** Keeps a place in the queue for the frame of a message of `length` bytes. `making` never rejects. */
  #keepPlace(length: number, making: Promise<Buffer>): void {
    if (this.#isOver) return;
    const pending = new PendingFrame(length);
    this.flush(); // earlier messages
    const backlog = (this.#backlog ??= new Backlog());
    const queue = (backlog.queue ??= []);
    queue.push(pending);
    backlog.bytes += length;
    backlog.pendingBytes += length;
    this.#feel();
    void making.then((frame) => {
      if (pending.isDropped || this.#backlog?.queue !== queue) return; // forgotten meanwhile
      this.#settle(this.#backlog, pending, frame);
    });
  }

  /** A message was deflated: sends it if it is first, and applies the policy to its new size. */
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

  /** The size of the head is known when the text has been written: as short as its characters, unless some take more bytes. */
  #writeShortText(text: string): void {
    const batch = this.#open;
    const at = batch.reserve(3 * text.length + 4);
    const { memory } = batch;
    const guessed = at + frameHeadBytes(text.length);
    const length = memory.write(text, guessed, 'utf8');
    const start = at + frameHeadBytes(length);
    if (start !== guessed) memory.copyWithin(start, guessed, guessed + length);
    writeFrameHead(memory, at, firstByte(OPCODE.text), length);
    batch.wrote(start + length);
  }

  /** Own memory for each message would make V8 mark its heap every few megabytes; the bytes of a string are allocated outside of it. */
  #writeLongText(text: string): void {
    const batch = this.#open;
    const length = Buffer.byteLength(text);
    const isAscii = length === text.length;
    if (length > COPIED_TEXT_BYTES && !isAscii) return batch.add(encodeFrame(OPCODE.text, text));
    const isCopied = length <= COPIED_TEXT_BYTES;
    let at = batch.reserve(isCopied ? length + 10 : 10);
    at = writeFrameHead(batch.memory, at, firstByte(OPCODE.text), length);
    if (isCopied) at += batch.memory.write(text, at, isAscii ? 'latin1' : 'utf8');
    batch.wrote(at);
    if (!isCopied) batch.add(text);
  }

  /** Something has been added to the batch. */
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

  /** Whether the next frame must wait for earlier ones. */
  #isBlocked(): boolean {
    if (this.#backlog?.queue !== undefined) return true;
    return this.#stream.writableNeedDrain;
  }

  #waitOrThrow(frame: Buffer): void {
    if (!this.#wait(frame)) throw new SvcError('E_WEBSOCKET_FULL', [this.#options.maxBufferedBytes]);
  }

  /** Adds a frame to the queue, if the policy allows it. Returns false if it was refused. */
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

  /** Waiting bytes with administration, plus one more frame. */
  #cost(frame: Buffer): number {
    const backlog = this.#backlog;
    const count = backlog?.queue === undefined ? 0 : backlog.queue.length - backlog.first;
    const pending = backlog?.pendingBytes ?? 0; // it is not the client that these wait for
    return this.bufferedAmount - pending + frame.length + (count + 1) * FRAME_COST;
  }

  #enqueue(frame: Buffer): void {
    this.flush(); // earlier messages
    const backlog = (this.#backlog ??= new Backlog());
    (backlog.queue ??= []).push(frame);
    backlog.bytes += frame.length;
    this.#feel();
  }

  #takeFromQueue(backlog: Backlog): void {
    const { queue } = backlog;
    if (queue === undefined) return;
    const room = Math.max(HIGH_WATER_BYTES, this.#stream.writableHighWaterMark); // with a lower mark it would not signal when to continue
    while (backlog.isReady && this.#stream.writableLength + this.#batchBytes < room)
      this.#open.add(shift(backlog, queue));
    if (backlog.first === queue.length) this.#forgetQueue();
  }

  #drop(backlog: Backlog): void {
    const queue = backlog.queue!; // checked before
    shift(backlog, queue);
    this.#options.meter?.dropped.add(1);
    if (backlog.first === queue.length) this.#forgetQueue();
  }

  #forgetQueue(): void {
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
    this.#backlog!.waiters = undefined; // it has just been there
    for (const resolve of waiters) resolve();
  }
}

/** Takes the first frame out of the queue; an empty one for a message that is not deflated yet, and is dropped. */
function shift(backlog: Backlog, queue: (Buffer | PendingFrame)[]): Buffer {
  const first = queue[backlog.first]!;
  queue[backlog.first++] = EMPTY; // releases its memory
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
