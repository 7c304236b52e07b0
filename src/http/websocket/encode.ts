/**
 * Encodes WebSocket frames (RFC 6455 §5). Clients mask their frames; servers do not.
 */
import { FIN, LENGTH_16, LENGTH_64, MASKED, MOST_CONTROL_BYTES, RSV1 } from './codes.ts';

/** Returns the size of the head of an unmasked frame, in bytes. `length` is the length of the payload. */
export function headBytes(length: number): number {
  return length < LENGTH_16 ? 2 : length < 2 ** 16 ? 4 : 10;
}

/** Writes the head of an unmasked, unfragmented frame at `at`. Returns the offset of the payload. */
function writeHead(into: Buffer, at: number, opcode: number, length: number, isCompressed: boolean): number {
  into[at] = FIN | (isCompressed ? RSV1 : 0) | opcode; // RSV1 marks a compressed message (RFC 7692 §6)
  if (length < LENGTH_16) {
    into[at + 1] = length;
    return at + 2;
  }
  if (length < 2 ** 16) {
    into[at + 1] = LENGTH_16;
    into[at + 2] = length >>> 8;
    into[at + 3] = length;
    return at + 4;
  }
  into[at + 1] = LENGTH_64;
  into.writeUInt32BE(Math.floor(length / 2 ** 32), at + 2);
  into.writeUInt32BE(length % 2 ** 32, at + 6);
  return at + 10;
}

/** Writes a frame without a mask. `length` is the length of the payload in bytes. Returns the end of the frame. */
export function writeFrame(
  into: Buffer,
  at: number,
  opcode: number,
  payload: string | Uint8Array,
  length: number,
  isCompressed: boolean,
): number {
  const start = writeHead(into, at, opcode, length, isCompressed);
  if (typeof payload !== 'string') into.set(payload, start);
  // Latin-1 is written faster. Text with as many bytes as characters is ASCII, which is the same in both
  else into.write(payload, start, length === payload.length ? 'latin1' : 'utf8');
  return start + length;
}

/** Encodes the head of a frame whose payload is sent separately. */
export function encodeHead(opcode: number, length: number, isCompressed = false): Buffer {
  const head = Buffer.allocUnsafe(headBytes(length));
  writeHead(head, 0, opcode, length, isCompressed);
  return head;
}

/** Encodes a frame without a mask, as servers send it. */
export function encodeFrame(opcode: number, payload: string | Uint8Array, isCompressed = false): Buffer {
  const length = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
  const frame = Buffer.allocUnsafe(headBytes(length) + length);
  writeFrame(frame, 0, opcode, payload, length, isCompressed);
  return frame;
}

/** Encodes a masked frame, as clients send it. `key`: four bytes for the mask. */
export function encodeMaskedFrame(
  opcode: number,
  payload: string | Uint8Array,
  key: Uint8Array,
  isCompressed = false,
): Buffer {
  const plain = encodeFrame(opcode, payload, isCompressed);
  const head = headBytes(typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length);
  const frame = Buffer.concat([plain.subarray(0, head), key, plain.subarray(head)]);
  frame[1]! |= MASKED;
  applyMask(frame, head + 4, frame.length, readMask(key, 0));
  return frame;
}

/**
 * Maximum size of the reason in a close frame, in bytes. The payload of a control frame has at most 125 bytes
 * (RFC 6455 §5.5), and the close code takes two of them.
 */
const MOST_REASON_BYTES: number = MOST_CONTROL_BYTES - 2;

/** Cuts off the end of a reason that is too long, without splitting a character. */
export function closePayload(code: number, reason: string): Buffer {
  let text = Buffer.from(reason, 'utf8');
  if (text.length > MOST_REASON_BYTES) {
    let end = MOST_REASON_BYTES;
    while ((text[end]! & 0xc0) === 0x80) end--; // moves the cut to the start of a UTF-8 character
    text = text.subarray(0, end);
  }
  return Buffer.concat([Buffer.of(code >>> 8, code & 0xff), text]);
}

/**
 * Minimum number of bytes for masking eight bytes at a time. For fewer bytes this takes longer, because
 * creating a BigUint64Array takes about 50 ns (test/bench/websocket.ts).
 */
const WORDS_FROM_BYTES = 48;
const IS_LITTLE_ENDIAN = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

/** The lowest byte of the number is the first byte of the key. */
export function readMask(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}

/** Rotates the key by `count` bytes. The result is the key for the next part of the payload. */
export function rotateMask(mask: number, count: number): number {
  const bits = (count & 3) << 3;
  return bits === 0 ? mask : (mask >>> bits) | (mask << (32 - bits));
}

/**
 * Masks or unmasks the bytes from `from` (inclusive) to `to` (exclusive) in place: byte i of the range XOR
 * byte i mod 4 of the key (RFC 6455 §5.3).
 */
export function applyMask(bytes: Uint8Array, from: number, to: number, mask: number): void {
  if (mask === 0) return;
  if (to - from < WORDS_FROM_BYTES || !IS_LITTLE_ENDIAN) maskBytes(bytes, from, to, mask);
  else maskWords(bytes, from, to, mask);
}

function maskBytes(bytes: Uint8Array, from: number, to: number, mask: number): void {
  for (let at = from; at < to; at++) bytes[at]! ^= mask >>> ((at - from) << 3);
}

/** The key, twice in succession, to read it as one 64-bit number. */
const KEY_HALVES = new Uint32Array(2);
const KEY_TWICE = new BigUint64Array(KEY_HALVES.buffer);

/**
 * Masks single bytes up to an address that is a multiple of eight, then eight bytes at a time, then the
 * remaining bytes.
 */
function maskWords(bytes: Uint8Array, from: number, to: number, mask: number): void {
  const start = from + (-(bytes.byteOffset + from) & 7);
  maskBytes(bytes, from, start, mask);
  const key = rotateMask(mask, start - from);
  KEY_HALVES[0] = KEY_HALVES[1] = key;
  const twice = KEY_TWICE[0]!;
  const words = new BigUint64Array(bytes.buffer, bytes.byteOffset + start, (to - start) >> 3);
  const { length } = words;
  for (let at = 0; at < length; at++) words[at]! ^= twice;
  maskBytes(bytes, start + 8 * length, to, key);
}
