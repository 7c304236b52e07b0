/**
 * Parser of WebSocket frames (RFC 6455 §5). No socket, no timer; websocket.ts has both.
 *
 *   frame   = FIN RSV1-3 opcode:4 | MASK length:7 | length:16 or 64 | key:32 if MASK | payload
 *   message = text or binary frame, then continuation frames up to the one with FIN; control frames may lie between
 *
 * Frames are parsed and unmasked in place: a pushed chunk belongs to the reader. Bytes of a binary message may share its memory. Long
 * messages of many chunks have their own memory.
 *
 * Refused before they are buffered: frames and messages above maxMessageBytes. Each fragment counts as at least 64 bytes: one object for
 * each byte would take a hundred times the bytes that were sent.
 */
import { constants, isUtf8 } from 'node:buffer';
import { ignore, isThenable } from '../../base/promises.ts';
import { ByteQueue } from '../../base/bytes.ts';
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
import { applyMask, readMask, rotateMask, unmaskAscii } from './encode.ts';
import { Utf8Check } from './text.ts';
import type { Awaitable } from '../contracts.ts';

/** Receives the parsed events. */
export interface FrameSink {
  /** A whole text message. */
  onText(text: string): void;
  /** A whole binary message; the bytes may share the memory of the chunk they came in. */
  onBinary(bytes: Buffer): void;
  /** As with {@link onPong}: the payload is valid during the call alone. */
  onPing(payload: Buffer): void;
  onPong(payload: Buffer): void;
  /** Close frame of the peer; {@link CLOSE.noStatus} without a code. No event follows. */
  onClose(code: number, reason: string): void;
  /** The bytes break the protocol, or a limit: the connection fails with this code (§7.1.7). Nothing follows. */
  onViolation(code: number, reason: string): void;
}

/** Result of an inflater. */
export type Inflated = Buffer | 'too big' | 'corrupt';

/** Options of {@link FrameReader}. */
export interface FrameReaderOptions {
  /** Whether frames must be masked: a client's must, a server's must not (§5.1). */
  readonly isMasked: boolean;
  /** The most bytes of a message, inflated. */
  readonly maxMessageBytes: number;
  /** Whether the chunks have no other user: the memory of a chunk without handed-out parts is then released at once. Default false. */
  readonly ownsChunks?: boolean | undefined;
  /** Takes the compression off whole messages, where it was negotiated. Nothing is read before its promise resolves; it never rejects. */
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
/** Minimum cost of a fragment against its message's limit; and the minimum limit, for short messages. */
const FRAGMENT_COST = 64;
const LEAST_BUDGET = 16_384;
/**
 * A frame of this size is collected in one buffer, allocated when a thirty-second part of it has arrived: a peer that only announces a
 * long frame costs nothing. Each chunk is copied while it is in the processor's cache, and its memory is released before the next one
 * is read (test/bench/websocket.ts: 1 MiB).
 */
const LONG_BYTES = 131_072,
  SHARE_THERE = 32;
/**
 * A chunk of this size that contained only text is released after parsing. Chunks are nearly all of the allocations; left to the
 * collector, V8 marks the whole heap for each dozen megabytes of them (test/bench/websocket.ts: text4KiB). The value is chosen:
 * shorter chunks were not measured.
 */
const RELEASED_BYTES = 2_048;
/** Up to here text is judged while it is unmasked: two calls into native code cost more. */
const SHORT_TEXT_BYTES = 96;
const NOTHING: Buffer = Buffer.alloc(0);

/** Reads frames out of chunks, however they are cut. */
export class FrameReader {
  #sink: FrameSink;
  readonly #isMasked: boolean;
  readonly #maxMessageBytes: number;
  readonly #inflate: FrameReaderOptions['inflate'];
  #ownsChunks: boolean;
  #state: () => boolean = this.#header;
  #chunk: Buffer = NOTHING;
  #at = 0;
  /** Chunks that came while reading was stopped. */
  #later: Buffer[] | undefined;
  #isStopped = false;
  #isInflating = false;
  #isReading = false;
  #isOver = false;
  /** Whether bytes of the chunk were handed out, or wait for the rest of their message. */
  #hasEscapedSlices = false;
  /** A head, or the payload of a control frame, that came in parts. Undefined where none ever did. */
  #gathered: Buffer | undefined;
  #gatheredBytes = 0;
  // the frame
  #opcode = 0;
  #isFinal = false;
  #left = 0;
  #mask = 0;
  // the open message; opcode 0: none
  #messageOpcode = 0;
  #isCompressed = false;
  #messageBytes = 0;
  #cost = 0;
  #parts: ByteQueue | undefined;
  /** Buffer of a message in one long frame, when enough of it has arrived. */
  #room: Buffer | undefined;
  #text: Utf8Check | undefined;

  constructor(options: FrameReaderOptions, sink: FrameSink) {
    this.#sink = sink;
    this.#isMasked = options.isMasked;
    this.#maxMessageBytes = options.maxMessageBytes;
    this.#inflate = options.inflate;
    this.#ownsChunks = options.ownsChunks === true;
  }

  /** Whether parsing has ended: the peer closed, or broke the protocol. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether it inflates: then its state determines how the next bytes are read. */
  get inflates(): boolean {
    return this.#inflate !== undefined;
  }

  /** Whether it is between two messages without any state: it can serve another socket. */
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

  /** Starts to serve another sink, at rest; `ownsChunks` as in the options. */
  serve(sink: FrameSink, ownsChunks: boolean): this {
    this.#sink = sink;
    this.#ownsChunks = ownsChunks;
    return this;
  }

  /** Parses as much as possible, and keeps the rest. */
  push(chunk: Buffer): void {
    if (this.#isOver || chunk.length === 0) return;
    if (this.#isHalted || this.#isReading) (this.#later ??= []).push(chunk);
    else {
      this.#take(chunk);
      this.#read();
    }
  }

  /** Reads nothing more until {@link resume}; also in the middle of a chunk, out of a sink's method. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Continues after {@link stop}. */
  resume(): void {
    this.#isStopped = false;
    if (!this.#isReading) this.#read();
  }

  /** Forgets everything: nothing is read any more. */
  end(): void {
    this.#isOver = true;
    this.#chunk = NOTHING;
    this.#at = 0;
    this.#later = this.#parts = this.#room = this.#text = this.#gathered = undefined;
  }

  get #isHalted(): boolean {
    return this.#isStopped || this.#isInflating;
  }

  #read(): void {
    this.#isReading = true;
    try {
      do {
        while (!this.#isHalted && this.#state()); // a state consumes its bytes and names the next one, or returns false: more needed
      } while (!this.#isHalted && this.#next());
    } finally {
      this.#isReading = false;
    }
    if (!this.#isHalted) this.#take(NOTHING); // all of it is parsed
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

  /** FIN RSV1-3 opcode | MASK length ... key: RFC 6455 §5.2. */
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

  /** A head that may be cut in the middle, byte by byte. */
  #gatherHeader(): boolean {
    const head = (this.#gathered ??= Buffer.allocUnsafeSlow(MOST_CONTROL_BYTES)); // not out of a pool, all of which it would keep
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

  /** The first two bytes of a frame. */
  #judge(first: number, second: number): boolean {
    const opcode = first & OPCODE_BITS;
    if ((first & RSV2_3) !== 0) return this.#fail(CLOSE.protocolError, 'a reserved bit is set'); // §5.2
    if (((KNOWN_OPCODES >>> opcode) & 1) === 0)
      return this.#fail(CLOSE.protocolError, 'the opcode is not known');
    if (((second & MASKED) !== 0) !== this.#isMasked)
      return this.#fail(CLOSE.protocolError, this.#isMasked ? 'a frame is not masked' : 'a frame is masked'); // §5.1
    if ((opcode & CONTROL) !== 0) {
      if ((first & RSV1) !== 0) return this.#fail(CLOSE.protocolError, 'a control frame is compressed'); // RFC 7692 §6.1
      if ((first & FIN) === 0) return this.#fail(CLOSE.protocolError, 'a control frame is fragmented'); // §5.5
      if ((second & LENGTH_BITS) > MOST_CONTROL_BYTES)
        return this.#fail(CLOSE.protocolError, 'a control frame is too long');
      return true;
    }
    if ((first & RSV1) !== 0 && (this.#inflate === undefined || opcode === OPCODE.continuation))
      return this.#fail(CLOSE.protocolError, 'a reserved bit is set'); // RFC 7692 §6: on the first frame alone
    if ((opcode === OPCODE.continuation) !== (this.#messageOpcode !== 0)) {
      return this.#fail(
        CLOSE.protocolError,
        opcode === OPCODE.continuation ? 'there is no message to continue' : 'the message before has no end',
      ); // §5.4
    }
    return true;
  }

  /** The length, as short as it can be (§5.2), before anything is kept of the payload. */
  #begin(head: Uint8Array, at: number): boolean {
    const first = head[at]!;
    let length = head[at + 1]! & LENGTH_BITS;
    let end = at + 2;
    if (length === LENGTH_16) {
      length = (head[end]! << 8) | head[end + 1]!;
      end += 2;
      if (length < LENGTH_16) return this.#fail(CLOSE.protocolError, 'a length is not as short as it can be');
    } else if (length === LENGTH_64) {
      if (head[end]! > 0x7f) return this.#fail(CLOSE.protocolError, 'a length is negative');
      length = readUint32(head, end) * 2 ** 32 + readUint32(head, end + 4);
      end += 8;
      if (length < 2 ** 16) return this.#fail(CLOSE.protocolError, 'a length is not as short as it can be');
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

  /** Payload of a text or binary message: all of it, or the available part. */
  #payload(): boolean {
    const from = this.#at;
    const to = Math.min(this.#chunk.length, from + this.#left);
    const isWhole = to - from === this.#left;
    this.#at = to;
    if (
      isWhole &&
      this.#isFinal &&
      this.#opcode !== OPCODE.continuation &&
      this.#parts === undefined &&
      this.#room === undefined
    ) {
      this.#state = this.#header;
      return this.#deliverInPlace(from, to);
    }
    if (to === from && !isWhole) return false;
    if (!this.#keep(from, to)) return false;
    if (!isWhole) return false;
    this.#state = this.#header;
    return !this.#isFinal || this.#deliverParts();
  }

  /** Adds to the message. */
  #keep(from: number, to: number): boolean {
    const kept = this.#isRoomy(to - from) ? this.#moveIn(from, to) : this.#addPart(from, to);
    this.#mask = rotateMask(this.#mask, to - from);
    this.#left -= to - from;
    if (this.#messageOpcode !== OPCODE.text || this.#isCompressed) return true;
    this.#text ??= new Utf8Check();
    return this.#text.push(kept) || this.#fail(CLOSE.invalidData, 'a text is not UTF-8'); // §8.1
  }

  /** Whether the frame is a long message, and enough of it has arrived to allocate one buffer. */
  #isRoomy(there: number): boolean {
    if (this.#room !== undefined) return true;
    const length = this.#messageBytes;
    return (
      length >= LONG_BYTES &&
      this.#isFinal &&
      this.#opcode !== OPCODE.continuation &&
      (length - this.#left + there) * SHARE_THERE >= length
    );
  }

  /** Copies bytes into the buffer, and releases the chunk if this frame has all of it. */
  #moveIn(from: number, to: number): Buffer {
    const chunk = this.#chunk;
    const room = (this.#room ??= this.#makeRoom());
    const at = room.length - this.#left;
    chunk.copy(room, at, from, to);
    applyMask(room, at, at + to - from, this.#mask);
    if (this.#ownsChunks && from === 0 && to === chunk.length && chunk.buffer.byteLength === to) {
      this.#chunk = NOTHING;
      this.#at = 0;
      release(chunk);
    }
    return room.subarray(at, at + to - from);
  }

  /** Includes the bytes that have arrived. */
  #makeRoom(): Buffer {
    const room = Buffer.allocUnsafeSlow(this.#messageBytes);
    const parts = this.#parts;
    if (parts !== undefined) room.set(parts.take(parts.length)!, 0);
    this.#parts = undefined;
    return room;
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

  /** A message of one frame within one chunk. */
  #deliverInPlace(from: number, to: number): boolean {
    const chunk = this.#chunk;
    this.#messageOpcode = 0;
    if (this.#opcode === OPCODE.text && to - from <= SHORT_TEXT_BYTES && !this.#isCompressed) {
      const isAscii = unmaskAscii(chunk, from, to, this.#mask);
      if (!isAscii && !isUtf8(chunk.subarray(from, to)))
        return this.#fail(CLOSE.invalidData, 'a text is not UTF-8');
      this.#sink.onText(chunk.toString(isAscii ? 'latin1' : 'utf8', from, to));
      return !this.#isOver;
    }
    applyMask(chunk, from, to, this.#mask);
    this.#hasEscapedSlices ||= this.#opcode === OPCODE.binary;
    return this.#deliver(this.#opcode, chunk.subarray(from, to), false);
  }

  #deliverParts(): boolean {
    const [parts, room] = [this.#parts, this.#room];
    const isChecked = this.#text !== undefined;
    if (this.#text?.isComplete === false)
      return this.#fail(CLOSE.invalidData, 'a text ends within a character');
    const opcode = this.#messageOpcode;
    this.#messageOpcode = 0;
    this.#text = this.#parts = this.#room = undefined;
    return this.#deliver(opcode, room ?? asBuffer(parts?.take(parts.length) ?? NOTHING), isChecked);
  }

  #deliver(opcode: number, payload: Buffer, isChecked: boolean): boolean {
    if (!this.#isCompressed) return this.#handOver(opcode, payload, isChecked);
    const inflated = this.#inflate!(payload, this.#maxMessageBytes); // RSV1 is refused without it
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

  /** Payload of a control frame, at most 125 bytes. */
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

  /** §5.5.1, §7.4: a code and a reason, or nothing. */
  #close(payload: Buffer): boolean {
    if (payload.length === 0) return this.#finish(() => this.#sink.onClose(CLOSE.noStatus, ''));
    if (payload.length === 1) return this.#fail(CLOSE.protocolError, 'a close frame has half a code');
    const code = payload.readUInt16BE(0);
    if (!isCloseCode(code)) return this.#fail(CLOSE.protocolError, 'the close code is not one that is sent');
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

/** Releases the memory of a chunk, which is empty afterwards: the memory of socket reads is not shared. */
function release(chunk: Buffer): void {
  (chunk.buffer as ArrayBuffer).transfer(0);
}

/** The size of a whole head, by its second byte. */
function headSize(second: number): number {
  const code = second & LENGTH_BITS;
  return (code < LENGTH_16 ? 2 : code === LENGTH_16 ? 4 : 10) + (second >= MASKED ? 4 : 0);
}

function readUint32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

/** In memory of its own: a part of a chunk, or of a pool, would hold all of that. */
export function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/*
 * Pool of idle frame readers. A socket takes one with a chunk, and returns it after the last whole message, so that ten thousand idle
 * sockets have none: 232 bytes each (test/bench/websocket.ts: idle).
 */

/** Limit of pooled readers. */
const MOST_SPARE = 16;

/** The spare readers of one route. They inflate nothing. */
export class SpareReaders {
  readonly #maxMessageBytes: number;
  readonly #spare: FrameReader[] = [];

  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  /** Takes a reader for this sink until it is returned; `ownsChunks` as in the options of a reader. */
  take(sink: FrameSink, ownsChunks: boolean): FrameReader {
    return (
      this.#spare.pop()?.serve(sink, ownsChunks) ??
      new FrameReader({ isMasked: true, maxMessageBytes: this.#maxMessageBytes, ownsChunks }, sink)
    );
  }

  /** Takes one back, at rest. */
  give(reader: FrameReader): void {
    if (this.#spare.length < MOST_SPARE) this.#spare.push(reader.serve(DISCARD, false));
  }
}

/** Sink of a pooled reader. */
const DISCARD: FrameSink = {
  onText: ignore,
  onBinary: ignore,
  onPing: ignore,
  onPong: ignore,
  onClose: ignore,
  onViolation: ignore,
};
