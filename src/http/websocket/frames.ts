/**
 * Parser of WebSocket frames (RFC 6455 §5). It uses no sockets and no timers.
 *
 * Frames are unmasked in place, so the caller of push() must not use the chunk afterwards. The bytes of a
 * binary message may share the memory of the chunk.
 *
 * A frame or message larger than maxMessageBytes is refused before it is buffered. Each fragment of a message
 * counts as at least 64 bytes, because even an empty fragment takes memory.
 */
import { constants, isUtf8 } from 'node:buffer';
import { isThenable } from '../../base/promises.ts';
import { ByteQueue, asBuffer } from '../../base/bytes.ts';
import {
  OPCODE,
  CLOSE,
  FIN,
  RSV1,
  MASKED,
  LENGTH_16,
  LENGTH_64,
  MOST_CONTROL_BYTES,
  isCloseCode,
} from './codes.ts';
import { applyMask, readMask, rotateMask } from './encode.ts';
import { Utf8Check } from './text.ts';
import type { Awaitable } from '../contracts.ts';

/** Receives the messages and control frames that the reader has parsed. */
export interface FrameSink {
  onText(text: string): void;
  /** Called with a complete binary message. The bytes may share the memory of the received chunk. */
  onBinary(bytes: Buffer): void;
  /** Called with the payload of a ping. The payload is valid only during the call. */
  onPing(payload: Buffer): void;
  onPong(payload: Buffer): void;
  /**
   * Called when the peer has sent a close frame. `code` is {@link CLOSE.noStatus} if the frame has no code.
   * No other method is called afterwards.
   */
  onClose(code: number, reason: string): void;
  /**
   * Called when the received bytes violate the protocol, or exceed a limit. The connection must be closed
   * with this code (RFC 6455 §7.1.7). No other method is called afterwards.
   */
  onViolation(code: number, reason: string): void;
}

/** An inflated message, or the reason why it cannot be inflated. */
export type Inflated = Buffer | 'too big' | 'corrupt';

interface FrameReaderOptions {
  /** Whether received frames must be masked: true for a server, false for a client (RFC 6455 §5.1). */
  readonly isMasked: boolean;
  /** Maximum size of a message in bytes, after it was inflated. */
  readonly maxMessageBytes: number;
  /**
   * Whether no other code uses the chunks. If true, the memory of a chunk is freed as soon as it was parsed,
   * unless a message shares it. Default false.
   */
  readonly ownsChunks?: boolean | undefined;
  /**
   * Inflates messages; set if compression was negotiated. While a returned promise is pending, reading waits.
   * The promise must not reject.
   */
  readonly inflate?: ((bytes: Uint8Array, maxBytes: number) => Awaitable<Inflated>) | undefined;
}

const RSV2_3 = 0x30,
  OPCODE_BITS = 0x0f,
  CONTROL = 0x08;
const LENGTH_BITS = 0x7f;
const KNOWN_OPCODES = Object.values(OPCODE).reduce<number>((bits, opcode) => bits | (1 << opcode), 0);
/** The sum for a message must not exceed maxMessageBytes, or LEAST_BUDGET if that is larger. */
const FRAGMENT_COST = 64;
const LEAST_BUDGET = 16_384;
/**
 * Minimum size in bytes of a chunk whose memory is freed immediately after parsing. Without this, received
 * bytes would cause many slow garbage collections (test/bench/websocket.ts --only=text).
 */
const RELEASED_BYTES = 2_048;
/**
 * A message in one frame of at least this many bytes is collected in one buffer. Each chunk is copied while it
 * is in the cache of the processor, and its memory is freed (test/bench/websocket.ts --only=MiB).
 */
const LONG_BYTES = 131_072;
/**
 * The buffer for a long message is allocated when this part of the message has arrived: 1/32. So a peer that
 * only announces a long message takes no memory.
 */
const ARRIVED_PART = 32;
const NOTHING: Buffer = Buffer.alloc(0);

/** Reads frames from chunks of bytes. A chunk may begin and end within a frame. */
export class FrameReader {
  readonly #sink: FrameSink;
  readonly #isMasked: boolean;
  readonly #maxMessageBytes: number;
  readonly #inflate: FrameReaderOptions['inflate'];
  readonly #ownsChunks: boolean;
  #state: () => boolean = this.#header;
  #chunk: Buffer = NOTHING;
  #at = 0;
  /** Chunks that were received while reading was stopped. */
  #later: Buffer[] | undefined;
  #isStopped = false;
  #isInflating = false;
  #isReading = false;
  #isOver = false;
  /** Whether a message, or the received part of a message, shares the memory of the chunk. */
  #hasEscapedSlices = false;
  /** Buffer for the head of a frame, or the payload of a control frame, if it arrives in several chunks. */
  #gathered: Buffer | undefined;
  #gatheredBytes = 0;
  #opcode = 0; // the members from #opcode to #mask describe the current frame
  #isFinal = false;
  #left = 0;
  #mask = 0;
  #messageOpcode = 0; // 0 until a message has begun
  #isCompressed = false;
  #messageBytes = 0;
  #cost = 0;
  #parts: ByteQueue | undefined;
  /** Buffer for a long message; allocated when enough of the message has arrived. */
  #whole: Buffer | undefined;
  #text: Utf8Check | undefined;

  constructor(options: FrameReaderOptions, sink: FrameSink) {
    this.#sink = sink;
    this.#isMasked = options.isMasked;
    this.#maxMessageBytes = options.maxMessageBytes;
    this.#inflate = options.inflate;
    this.#ownsChunks = options.ownsChunks === true;
  }

  /** Whether parsing has ended, because the peer has sent a close frame, or has violated the protocol. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Whether this reader inflates messages. Such a reader may contain earlier bytes to which the next message
   * refers, so it must be kept between messages.
   */
  get inflates(): boolean {
    return this.#inflate !== undefined;
  }

  /**
   * Whether the reader has parsed only complete messages. If so, it has no state, and a new reader can
   * replace it.
   */
  get isAtRest(): boolean {
    return (
      this.#state === this.#header &&
      this.#messageOpcode === 0 &&
      this.#gatheredBytes === 0 &&
      !this.#isHalted &&
      !this.#isReading &&
      !this.#isOver
    );
  }

  /** Number of received bytes of a message that is not complete yet. */
  get heldBytes(): number {
    return this.#whole === undefined ? (this.#parts?.length ?? 0) : this.#whole.length - this.#left;
  }

  /** Parses a chunk. If reading is stopped, keeps the rest of the chunk for later. */
  push(chunk: Buffer): void {
    if (this.#isOver || chunk.length === 0) return;
    if (this.#isHalted || this.#isReading) (this.#later ??= []).push(chunk);
    else {
      this.#take(chunk);
      this.#read();
    }
  }

  /** Stops reading until {@link resume} is called. A sink may call it while a chunk is being parsed. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Continues after {@link stop}. */
  resume(): void {
    this.#isStopped = false;
    if (!this.#isReading) this.#read();
  }

  /** Ends reading, and drops all bytes that were received. */
  end(): void {
    this.#isOver = true;
    this.#chunk = NOTHING;
    this.#at = 0;
    this.#later = this.#parts = this.#whole = this.#text = this.#gathered = undefined;
  }

  get #isHalted(): boolean {
    return this.#isStopped || this.#isInflating;
  }

  #read(): void {
    this.#isReading = true;
    try {
      do {
        // a parse function consumes bytes, and chooses the next function; it returns false if it needs more
        // bytes
        while (!this.#isHalted && this.#state());
      } while (!this.#isHalted && this.#next());
    } finally {
      this.#isReading = false;
    }
    if (!this.#isHalted) this.#take(NOTHING); // frees the memory of the last chunk
  }

  /** Takes a chunk for parsing, and frees the memory of the previous one. */
  #take(chunk: Buffer): void {
    const before = this.#chunk;
    if (
      before.length >= RELEASED_BYTES &&
      !this.#hasEscapedSlices &&
      this.#ownsChunks &&
      before.buffer.byteLength === before.length
    )
      release(before);
    this.#chunk = chunk;
    this.#at = 0;
    this.#hasEscapedSlices = false;
  }

  #next(): boolean {
    const chunk = this.#isOver ? undefined : this.#later?.shift();
    if (chunk === undefined) return false;
    this.#take(chunk);
    return true;
  }

  /** Parses the head of a frame (RFC 6455 §5.2). */
  #header(): boolean {
    const chunk = this.#chunk;
    const at = this.#at;
    const there = chunk.length - at;
    if (there === 0) return false;
    if (this.#gatheredBytes > 0 || there < 2) return this.#gatherHeader();
    const size = headSize(chunk[at + 1]!);
    if (there < size) return this.#gatherHeader();
    if (!this.#judge(chunk[at]!, chunk[at + 1]!)) return false;
    this.#at = at + size;
    return this.#begin(chunk, at);
  }

  /** Parses the head of a frame that arrives in several chunks. Collects its bytes in a buffer. */
  #gatherHeader(): boolean {
    // not allocated from Node's pool, because this buffer would keep the whole pool in memory
    const head = (this.#gathered ??= Buffer.allocUnsafeSlow(MOST_CONTROL_BYTES));
    for (let size = 2; ; size = headSize(head[1]!)) {
      while (this.#gatheredBytes < size) {
        if (this.#at === this.#chunk.length) return false;
        head[this.#gatheredBytes++] = this.#chunk[this.#at++]!;
      }
      if (!this.#judge(head[0]!, head[1]!)) return false;
      if (size === headSize(head[1]!)) break;
    }
    this.#gatheredBytes = 0;
    return this.#begin(head, 0);
  }

  /** Checks the first two bytes of a frame. Returns false if they violate the protocol. */
  #judge(first: number, second: number): boolean {
    const opcode = first & OPCODE_BITS;
    // reserved bits must be 0 (RFC 6455 §5.2)
    if ((first & RSV2_3) !== 0) return this.#fail(CLOSE.protocolError, 'a reserved bit is set');
    if (((KNOWN_OPCODES >>> opcode) & 1) === 0)
      return this.#fail(CLOSE.protocolError, 'the opcode is unknown');
    if (((second & MASKED) !== 0) !== this.#isMasked)
      // clients must mask their frames, servers must not (RFC 6455 §5.1)
      return this.#fail(CLOSE.protocolError, this.#isMasked ? 'a frame is not masked' : 'a frame is masked');
    if ((opcode & CONTROL) !== 0) {
      // control frames are never compressed (RFC 7692 §6.1)
      if ((first & RSV1) !== 0) return this.#fail(CLOSE.protocolError, 'a control frame is compressed');
      // control frames are never fragmented (RFC 6455 §5.5)
      if ((first & FIN) === 0) return this.#fail(CLOSE.protocolError, 'a control frame is fragmented');
      if ((second & LENGTH_BITS) > MOST_CONTROL_BYTES)
        return this.#fail(CLOSE.protocolError, 'a control frame is too long');
      return true;
    }
    if ((first & RSV1) !== 0 && (this.#inflate === undefined || opcode === OPCODE.continuation))
      // RSV1 is allowed only on the first frame of a message (RFC 7692 §6)
      return this.#fail(CLOSE.protocolError, 'a reserved bit is set');
    // before a message has ended, no other message may begin (RFC 6455 §5.4)
    if ((opcode === OPCODE.continuation) !== (this.#messageOpcode !== 0)) {
      return this.#fail(
        CLOSE.protocolError,
        opcode === OPCODE.continuation
          ? 'there is no message to continue'
          : 'the previous message has not ended',
      );
    }
    return true;
  }

  /**
   * Checks the length of a frame before any byte of its payload is buffered. The length must have its
   * shortest form (RFC 6455 §5.2).
   */
  #begin(head: Uint8Array, at: number): boolean {
    const first = head[at]!;
    let length = head[at + 1]! & LENGTH_BITS;
    let end = at + 2;
    if (length === LENGTH_16) {
      length = (head[end]! << 8) | head[end + 1]!;
      end += 2;
      if (length < LENGTH_16) return this.#fail(CLOSE.protocolError, 'a length is not in its shortest form');
    } else if (length === LENGTH_64) {
      if (head[end]! > 0x7f) return this.#fail(CLOSE.protocolError, 'a length is negative');
      length = readUint32(head, end) * 2 ** 32 + readUint32(head, end + 4);
      end += 8;
      if (length < 2 ** 16) return this.#fail(CLOSE.protocolError, 'a length is not in its shortest form');
    }
    this.#mask = this.#isMasked ? readMask(head, end) : 0;
    this.#opcode = first & OPCODE_BITS;
    this.#isFinal = (first & FIN) !== 0;
    this.#left = length;
    if ((first & CONTROL) !== 0) {
      this.#state = this.#control;
      return true;
    }
    return this.#beginData((first & RSV1) !== 0, length);
  }

  #beginData(isCompressed: boolean, length: number): boolean {
    if (this.#opcode !== OPCODE.continuation) {
      this.#messageOpcode = this.#opcode;
      this.#isCompressed = isCompressed;
      this.#messageBytes = this.#cost = 0;
    }
    this.#messageBytes += length;
    this.#cost += Math.max(length, FRAGMENT_COST);
    if (this.#messageBytes > this.#maxMessageBytes)
      return this.#fail(CLOSE.messageTooBig, `a message has more than ${this.#maxMessageBytes} bytes`);
    if (this.#cost > Math.max(this.#maxMessageBytes, LEAST_BUDGET))
      return this.#fail(CLOSE.messageTooBig, 'a message has too many fragments');
    this.#state = this.#payload;
    return true;
  }

  /** Parses the payload of a text or binary frame, as far as it has been received. */
  #payload(): boolean {
    const from = this.#at;
    const to = Math.min(this.#chunk.length, from + this.#left);
    const isWhole = to - from === this.#left;
    this.#at = to;
    if (isWhole && this.#isSingle && this.#parts === undefined && this.#whole === undefined) {
      this.#state = this.#header;
      return this.#deliverInPlace(from, to);
    }
    if (to === from && !isWhole) return false;
    if (!this.#keep(from, to)) return false;
    if (!isWhole) return false;
    this.#state = this.#header;
    return !this.#isFinal || this.#deliverParts();
  }

  /** Adds a range of the chunk to the message. */
  #keep(from: number, to: number): boolean {
    const kept = this.#isLong(to - from) ? this.#copyPart(from, to) : this.#addPart(from, to);
    this.#mask = rotateMask(this.#mask, to - from);
    this.#left -= to - from;
    if (this.#messageOpcode !== OPCODE.text || this.#isCompressed) return true;
    this.#text ??= new Utf8Check();
    // invalid UTF-8 closes the connection (RFC 6455 §8.1)
    return this.#text.push(kept) || this.#fail(CLOSE.invalidData, 'a text is not UTF-8');
  }

  /** Whether the current frame is a whole message. */
  get #isSingle(): boolean {
    return this.#isFinal && this.#opcode !== OPCODE.continuation;
  }

  /** Returns whether the message is long, and enough of it has arrived: `count` bytes more than before. */
  #isLong(count: number): boolean {
    if (this.#whole !== undefined) return true;
    const length = this.#messageBytes;
    const arrived = length - this.#left + count;
    return length >= LONG_BYTES && this.#isSingle && arrived * ARRIVED_PART >= length;
  }

  /** Copies a range of the chunk into the buffer of the message. Frees the chunk if it has no other bytes. */
  #copyPart(from: number, to: number): Buffer {
    const chunk = this.#chunk;
    const whole = (this.#whole ??= this.#allocateWhole());
    const at = whole.length - this.#left;
    const end = at + to - from;
    chunk.copy(whole, at, from, to);
    applyMask(whole, at, end, this.#mask);
    if (from === 0 && to === chunk.length) this.#take(NOTHING);
    return whole.subarray(at, end);
  }

  #allocateWhole(): Buffer {
    const whole = Buffer.allocUnsafeSlow(this.#messageBytes);
    const parts = this.#parts;
    if (parts !== undefined) whole.set(parts.take(parts.length)!);
    this.#parts = undefined;
    return whole;
  }

  #addPart(from: number, to: number): Buffer {
    const chunk = this.#chunk;
    applyMask(chunk, from, to, this.#mask);
    const part = chunk.subarray(from, to);
    this.#parts ??= new ByteQueue();
    const isCopied = part.length * 2 < chunk.length;
    this.#hasEscapedSlices ||= !isCopied;
    this.#parts.push(isCopied ? copyOf(part) : part);
    return part;
  }

  /** Passes a message to the sink. The message is a single frame within one chunk. */
  #deliverInPlace(from: number, to: number): boolean {
    const chunk = this.#chunk;
    this.#messageOpcode = 0;
    applyMask(chunk, from, to, this.#mask);
    this.#hasEscapedSlices ||= this.#opcode === OPCODE.binary;
    return this.#deliver(this.#opcode, chunk.subarray(from, to), false);
  }

  #deliverParts(): boolean {
    const [parts, whole] = [this.#parts, this.#whole];
    const isChecked = this.#text !== undefined;
    if (this.#text?.isComplete === false)
      return this.#fail(CLOSE.invalidData, 'a text ends within a character');
    const opcode = this.#messageOpcode;
    this.#messageOpcode = 0;
    this.#text = this.#parts = this.#whole = undefined;
    const payload = whole ?? asBuffer(parts?.take(parts.length) ?? NOTHING);
    return this.#deliver(opcode, payload, isChecked);
  }

  #deliver(opcode: number, payload: Buffer, isChecked: boolean): boolean {
    if (!this.#isCompressed) return this.#handOver(opcode, payload, isChecked);
    // `#inflate` is defined: without it, a compressed frame is refused because of its bit RSV1
    const inflated = this.#inflate!(payload, this.#maxMessageBytes);
    if (!isThenable(inflated)) return this.#handInflated(opcode, inflated);
    this.#isInflating = true;
    void inflated.then((result) => {
      this.#isInflating = false;
      if (!this.#isOver && this.#handInflated(opcode, result)) this.#read();
    });
    return false;
  }

  #handInflated(opcode: number, inflated: Inflated): boolean {
    if (inflated === 'too big')
      return this.#fail(CLOSE.messageTooBig, `a message has more than ${this.#maxMessageBytes} bytes`);
    if (inflated === 'corrupt') return this.#fail(CLOSE.invalidData, 'a message cannot be inflated');
    return this.#handOver(opcode, inflated, false);
  }

  #handOver(opcode: number, bytes: Buffer, isChecked: boolean): boolean {
    if (opcode === OPCODE.binary) this.#sink.onBinary(bytes);
    else if (bytes.length > constants.MAX_STRING_LENGTH)
      return this.#fail(CLOSE.messageTooBig, 'a text is longer than a string can be');
    else if (!isChecked && !isUtf8(bytes)) return this.#fail(CLOSE.invalidData, 'a text is not UTF-8');
    else this.#sink.onText(bytes.toString('utf8'));
    return !this.#isOver;
  }

  /** Parses the payload of a control frame, which has at most 125 bytes. */
  #control(): boolean {
    const there = Math.min(this.#chunk.length - this.#at, this.#left);
    if (this.#gatheredBytes === 0 && there === this.#left)
      return this.#finishControl(this.#chunk.subarray(this.#at, (this.#at += there)));
    const payload = (this.#gathered ??= Buffer.allocUnsafeSlow(MOST_CONTROL_BYTES));
    payload.set(this.#chunk.subarray(this.#at, this.#at + there), this.#gatheredBytes);
    this.#at += there;
    this.#gatheredBytes += there;
    this.#left -= there;
    if (this.#left > 0) return false;
    const whole = payload.subarray(0, this.#gatheredBytes);
    this.#gatheredBytes = 0;
    return this.#finishControl(whole);
  }

  #finishControl(payload: Buffer): boolean {
    applyMask(payload, 0, payload.length, this.#mask);
    this.#state = this.#header;
    if (this.#opcode === OPCODE.close) return this.#close(payload);
    if (this.#opcode === OPCODE.ping) this.#sink.onPing(payload);
    else this.#sink.onPong(payload);
    return !this.#isOver;
  }

  /** Parses the payload of a close frame: nothing, or a code and a reason (RFC 6455 §5.5.1, §7.4). */
  #close(payload: Buffer): boolean {
    if (payload.length === 0) return this.#finish(() => this.#sink.onClose(CLOSE.noStatus, ''));
    if (payload.length === 1) return this.#fail(CLOSE.protocolError, 'a close frame has a code of one byte');
    const code = payload.readUInt16BE(0);
    if (!isCloseCode(code)) return this.#fail(CLOSE.protocolError, 'the close code must not be sent');
    const reason = payload.subarray(2);
    if (!isUtf8(reason)) return this.#fail(CLOSE.invalidData, 'the reason for closing is not UTF-8');
    const text = reason.toString('utf8');
    return this.#finish(() => this.#sink.onClose(code, text));
  }

  #fail(code: number, reason: string): false {
    return this.#finish(() => this.#sink.onViolation(code, reason));
  }

  #finish(answer: () => void): false {
    this.end();
    answer();
    return false;
  }
}

/**
 * Frees the memory of a chunk, which then has the length 0. No other buffer shares this memory, because each
 * read from a socket allocates its own.
 */
function release(chunk: Buffer): void {
  (chunk.buffer as ArrayBuffer).transfer(0);
}

/** Returns the size of a frame's head in bytes. `second` is the second byte of the head. */
function headSize(second: number): number {
  const code = second & LENGTH_BITS;
  return (code < LENGTH_16 ? 2 : code === LENGTH_16 ? 4 : 10) + (second >= MASKED ? 4 : 0);
}

function readUint32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

/** Copies bytes to a new buffer. A slice would keep the whole chunk or pool in memory. */
export function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
