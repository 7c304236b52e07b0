/**
 * Parser of WebSocket frames (RFC 6455 §5). It uses neither sockets nor timers; websocket.ts does.
 *
 * Grammar:
 *   frame   = FIN RSV1-3 opcode:4 | MASK length:7 | length:16 or 64 | key:32 if MASK | payload
 *   message = text or binary frame, then continuation frames up to the one with FIN; control frames may lie between
 *
 * Frames are parsed and unmasked in place, so after push() a chunk belongs to the reader. The bytes of a
 * binary message may share the memory of the chunk. Long messages of many chunks get memory of their own.
 *
 * Frames and messages above maxMessageBytes are refused before they are buffered. Each fragment counts as at
 * least 64 bytes, because an object for each one-byte fragment takes a hundred times the memory of its byte.
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

/** Receives the parsed messages and control frames. */
export interface FrameSink {
  /** Called with a whole text message. */
  onText(text: string): void;
  /** Called with a whole binary message. The bytes may share the memory of the received chunk. */
  onBinary(bytes: Buffer): void;
  /** Called with a ping or pong. The payload is valid only during the call. */
  onPing(payload: Buffer): void;
  onPong(payload: Buffer): void;
  /**
   * Called with the close frame of the peer; {@link CLOSE.noStatus} if it has no code. No other call follows.
   */
  onClose(code: number, reason: string): void;
  /**
   * Called when the bytes violate the protocol or exceed a limit. The connection must be closed with this
   * code (RFC 6455 §7.1.7). No other call follows.
   */
  onViolation(code: number, reason: string): void;
}

/** Result of an inflater. */
export type Inflated = Buffer | 'too big' | 'corrupt';

interface FrameReaderOptions {
  /**
   * Whether frames must be masked: true for frames of clients, false for frames of servers (RFC 6455 §5.1).
   */
  readonly isMasked: boolean;
  /** Maximum size of a message in bytes, after inflation. */
  readonly maxMessageBytes: number;
  /**
   * Whether only the reader uses the chunks. If true, the memory of a chunk is released as soon as it is
   * parsed, unless a message shares it. Default false.
   */
  readonly ownsChunks?: boolean | undefined;
  /** Inflates messages, if compression was negotiated. Reading waits for its promise, which never rejects. */
  readonly inflate?: ((bytes: Uint8Array, maxBytes: number) => Awaitable<Inflated>) | undefined;
}

const RSV2_3 = 0x30,
  OPCODE_BITS = 0x0f,
  CONTROL = 0x08;
const LENGTH_BITS = 0x7f;
const KNOWN_OPCODES =
  (1 << OPCODE.continuation) |
  (1 << OPCODE.text) |
  (1 << OPCODE.binary) |
  (1 << OPCODE.close) |
  (1 << OPCODE.ping) |
  (1 << OPCODE.pong);
/**
 * Minimum number of bytes that a fragment counts as, and minimum of the limit for the sum of these numbers in
 * a message.
 */
const FRAGMENT_COST = 64;
const LEAST_BUDGET = 16_384;
/**
 * The memory of a chunk of at least this size is released after parsing, unless a message shares it.
 * Otherwise V8 would mark the whole heap after every dozen megabytes of chunks (test/bench/websocket.ts:
 * text4KiB). The value is a guess: shorter chunks were not measured.
 */
const RELEASED_BYTES = 2_048;
const NOTHING: Buffer = Buffer.alloc(0);

/** Reads frames from chunks. A chunk may begin and end within a frame. */
export class FrameReader {
  readonly #sink: FrameSink;
  readonly #isMasked: boolean;
  readonly #maxMessageBytes: number;
  readonly #inflate: FrameReaderOptions['inflate'];
  readonly #ownsChunks: boolean;
  #state: () => boolean = this.#header;
  #chunk: Buffer = NOTHING;
  #at = 0;
  /** Chunks that were pushed while reading was stopped. */
  #later: Buffer[] | undefined;
  #isStopped = false;
  #isInflating = false;
  #isReading = false;
  #isOver = false;
  /** Whether a message, or the received part of one, shares the memory of the chunk. */
  #hasEscapedSlices = false;
  /** Collects a head, or the payload of a control frame, that spans several chunks. */
  #gathered: Buffer | undefined;
  #gatheredBytes = 0;
  #opcode = 0; // state of the current frame
  #isFinal = false;
  #left = 0;
  #mask = 0;
  #messageOpcode = 0; // state of the current message; the opcode is 0 if no message has begun
  #isCompressed = false;
  #messageBytes = 0;
  #cost = 0;
  #parts: ByteQueue | undefined;
  #text: Utf8Check | undefined;

  constructor(options: FrameReaderOptions, sink: FrameSink) {
    this.#sink = sink;
    this.#isMasked = options.isMasked;
    this.#maxMessageBytes = options.maxMessageBytes;
    this.#inflate = options.inflate;
    this.#ownsChunks = options.ownsChunks === true;
  }

  /** Whether parsing has ended, because the peer has sent a close frame or violated the protocol. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether this reader inflates messages. Then its state belongs to one socket. */
  get inflates(): boolean {
    return this.#inflate !== undefined;
  }

  /**
   * Whether the reader is between two messages and has no state. If so, its socket needs no reader until the
   * next chunk.
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

  /** Parses the chunk as far as possible, and keeps the rest. */
  push(chunk: Buffer): void {
    if (this.#isOver || chunk.length === 0) return;
    if (this.#isHalted || this.#isReading) (this.#later ??= []).push(chunk);
    else {
      this.#take(chunk);
      this.#read();
    }
  }

  /** Stops reading until {@link resume}. A sink may call this while a chunk is parsed. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Continues after {@link stop}. */
  resume(): void {
    this.#isStopped = false;
    if (!this.#isReading) this.#read();
  }

  /** Drops all state: nothing is read any more. */
  end(): void {
    this.#isOver = true;
    this.#chunk = NOTHING;
    this.#at = 0;
    this.#later = this.#parts = this.#text = this.#gathered = undefined;
  }

  get #isHalted(): boolean {
    return this.#isStopped || this.#isInflating;
  }

  #read(): void {
    this.#isReading = true;
    try {
      do {
        // each state function consumes bytes and sets the next state; it returns false if it needs more bytes
        while (!this.#isHalted && this.#state());
      } while (!this.#isHalted && this.#next());
    } finally {
      this.#isReading = false;
    }
    if (!this.#isHalted) this.#take(NOTHING); // releases the last chunk, which was parsed completely
  }

  /** Takes the next chunk, and releases the previous one. */
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

  /** State: the head of a frame (RFC 6455 §5.2). */
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

  /** State: within a head that spans several chunks. Collects the head byte by byte. */
  #gatherHeader(): boolean {
    // not allocated from a pool, because it would keep the whole pool in memory
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

  /** Checks the first two bytes of a frame. */
  #judge(first: number, second: number): boolean {
    const opcode = first & OPCODE_BITS;
    // reserved bits must be 0 (RFC 6455 §5.2)
    if ((first & RSV2_3) !== 0) return this.#fail(CLOSE.protocolError, 'a reserved bit is set');
    if (((KNOWN_OPCODES >>> opcode) & 1) === 0)
      return this.#fail(CLOSE.protocolError, 'the opcode is unknown');
    if (((second & MASKED) !== 0) !== this.#isMasked)
      // clients must mask, servers must not (RFC 6455 §5.1)
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
    if ((opcode === OPCODE.continuation) !== (this.#messageOpcode !== 0)) {
      return this.#fail(
        CLOSE.protocolError,
        opcode === OPCODE.continuation
          ? 'there is no message to continue'
          : 'the previous message has not ended',
      ); // a message must end before the next one begins (RFC 6455 §5.4)
    }
    return true;
  }

  /**
   * Checks the length, which must have its shortest form (RFC 6455 §5.2), before any byte of the payload is
   * kept.
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

  /** State: the payload of a text or binary message. Takes all of it, or the available part. */
  #payload(): boolean {
    const from = this.#at;
    const to = Math.min(this.#chunk.length, from + this.#left);
    const isWhole = to - from === this.#left;
    this.#at = to;
    if (isWhole && this.#isFinal && this.#opcode !== OPCODE.continuation && this.#parts === undefined) {
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
    const kept = this.#addPart(from, to);
    this.#mask = rotateMask(this.#mask, to - from);
    this.#left -= to - from;
    if (this.#messageOpcode !== OPCODE.text || this.#isCompressed) return true;
    this.#text ??= new Utf8Check();
    // invalid UTF-8 fails the connection (RFC 6455 §8.1)
    return this.#text.push(kept) || this.#fail(CLOSE.invalidData, 'a text is not UTF-8');
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

  /** Passes on a message of one frame that lies within one chunk. */
  #deliverInPlace(from: number, to: number): boolean {
    const chunk = this.#chunk;
    this.#messageOpcode = 0;
    applyMask(chunk, from, to, this.#mask);
    this.#hasEscapedSlices ||= this.#opcode === OPCODE.binary;
    return this.#deliver(this.#opcode, chunk.subarray(from, to), false);
  }

  #deliverParts(): boolean {
    const parts = this.#parts;
    const isChecked = this.#text !== undefined;
    if (this.#text?.isComplete === false)
      return this.#fail(CLOSE.invalidData, 'a text ends within a character');
    const opcode = this.#messageOpcode;
    this.#messageOpcode = 0;
    this.#text = this.#parts = undefined;
    return this.#deliver(opcode, asBuffer(parts?.take(parts.length) ?? NOTHING), isChecked);
  }

  #deliver(opcode: number, payload: Buffer, isChecked: boolean): boolean {
    if (!this.#isCompressed) return this.#handOver(opcode, payload, isChecked);
    // `#inflate` is defined: without it, a frame with RSV1 is refused
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

  /** State: the payload of a control frame, at most 125 bytes. */
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

  /** Parses the payload of a close frame: empty, or a code and a reason (RFC 6455 §5.5.1, §7.4). */
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
 * Releases the memory of a chunk, which is empty afterwards. This is safe, because each read of a socket gets
 * memory of its own.
 */
function release(chunk: Buffer): void {
  (chunk.buffer as ArrayBuffer).transfer(0);
}

/** Size of a frame's head in bytes, by its second byte. */
function headSize(second: number): number {
  const code = second & LENGTH_BITS;
  return (code < LENGTH_16 ? 2 : code === LENGTH_16 ? 4 : 10) + (second >= MASKED ? 4 : 0);
}

function readUint32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

/** Copies bytes to memory of their own, because a slice would keep its whole chunk or pool in memory. */
export function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
