/**
 * Writes WebSocket frames (RFC 6455 §5). Masking is for clients; servers never mask.
 */
import { FIN, LENGTH_16, LENGTH_64, MASKED, MOST_CONTROL_BYTES, RSV1 } from './codes.ts';

/** How a frame begins: its opcode, with FIN; compressed ones have RSV1, too (RFC 7692 §6). */
export function firstByte(opcode: number, isCompressed = false): number {
  return FIN | (isCompressed ? RSV1 : 0) | opcode;
}

/** The size of the head of a frame without a mask. */
export function frameHeadBytes(length: number): number {
  return length < LENGTH_16 ? 2 : length < 2 ** 16 ? 4 : 10;
}

/** Writes the head of a frame without a mask. Answers where its payload begins. */
export function writeFrameHead(into: Buffer, at: number, first: number, length: number): number {
  into[at] = first;
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

/** A frame as a server sends it, in one buffer. */
export function encodeFrame(opcode: number, payload: string | Uint8Array, isCompressed = false): Buffer {
  const length = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
  const frame = Buffer.allocUnsafe(frameHeadBytes(length) + length);
  const at = writeFrameHead(frame, 0, firstByte(opcode, isCompressed), length);
  if (typeof payload === 'string') frame.write(payload, at, 'utf8');
  else frame.set(payload, at);
  return frame;
}

/** A frame as a client sends it: the bytes of `key`, of which there are four, mask it. */
export function encodeMaskedFrame(
  opcode: number,
  payload: string | Uint8Array,
  key: Uint8Array,
  isCompressed = false,
): Buffer {
  const plain = encodeFrame(opcode, payload, isCompressed);
  const head = frameHeadBytes(typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length);
  const frame = Buffer.concat([plain.subarray(0, head), key, plain.subarray(head)]);
  frame[1]! |= MASKED;
  applyMask(frame, head + 4, frame.length, readMask(key, 0));
  return frame;
}

/** The most bytes of a reason for closing: a control frame has 125 (§5.5). */
const MOST_REASON_BYTES: number = MOST_CONTROL_BYTES - 2;

/** The payload of a close frame; a reason that is too long is cut between two characters. */
export function closePayload(code: number, reason: string): Buffer {
  let text = Buffer.from(reason, 'utf8');
  if (text.length > MOST_REASON_BYTES) {
    let end = MOST_REASON_BYTES;
    while ((text[end]! & 0xc0) === 0x80) end--; // within a character
    text = text.subarray(0, end);
  }
  return Buffer.concat([Buffer.of(code >>> 8, code & 0xff), text]);
}

/*
 * Masking (RFC 6455 §5.3): byte i of a payload XOR byte i mod 4 of the key. In place: a chunk from the socket is ours.
 *
 * A key is held as one 32-bit number whose lowest byte is the first one on the wire, so that a payload that comes in parts
 * goes on with a rotation.
 */

/** From this size on words win over bytes: a view of the memory costs some 50 ns (test/bench/websocket.ts). */
const WORDS_FROM_BYTES = 48;
const IS_LITTLE_ENDIAN = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

/** The key at `at`. */
export function readMask(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}

/** The key for what follows `count` bytes. */
export function rotateMask(mask: number, count: number): number {
  const bits = (count & 3) << 3;
  return bits === 0 ? mask : (mask >>> bits) | (mask << (32 - bits));
}

/** Masks, or unmasks, the bytes `from ... to`, the first of them with the first byte of the key. */
export function applyMask(bytes: Uint8Array, from: number, to: number, mask: number): void {
  if (mask === 0) return;
  if (to - from < WORDS_FROM_BYTES || !IS_LITTLE_ENDIAN) maskBytes(bytes, from, to, mask);
  else maskWords(bytes, from, to, mask);
}

/** Unrolled by four: half the time of a loop over single bytes. */
function maskBytes(bytes: Uint8Array, from: number, to: number, mask: number): void {
  const mask0 = mask & 0xff,
    mask1 = (mask >>> 8) & 0xff,
    mask2 = (mask >>> 16) & 0xff,
    mask3 = mask >>> 24;
  let at = from;
  for (const last = to - 3; at < last; at += 4) {
    bytes[at]! ^= mask0;
    bytes[at + 1]! ^= mask1;
    bytes[at + 2]! ^= mask2;
    bytes[at + 3]! ^= mask3;
  }
  if (at < to) bytes[at]! ^= mask0;
  if (at + 1 < to) bytes[at + 1]! ^= mask1;
  if (at + 2 < to) bytes[at + 2]! ^= mask2;
}

/** The key twice, as the words below take it. */
const KEY_HALVES = new Uint32Array(2);
const KEY_TWICE = new BigUint64Array(KEY_HALVES.buffer);

/**
 * Bytes up to a multiple of eight in memory, then words, by eight, then what is left. V8 keeps the big integers of such a loop
 * in registers once it has optimised it; until then, some thousand short messages, each costs more than a 32-bit word would
 * (4 KiB: 343 ns, by 32-bit words 641; 1 MiB: 215 µs and 410; the first thousand messages of 4 KiB: 19 ms in all and 13).
 */
function maskWords(bytes: Uint8Array, from: number, to: number, mask: number): void {
  const start = from + (-(bytes.byteOffset + from) & 7);
  maskBytes(bytes, from, start, mask);
  const key = rotateMask(mask, start - from);
  KEY_HALVES[0] = KEY_HALVES[1] = key;
  const twice = KEY_TWICE[0]!;
  const words = new BigUint64Array(bytes.buffer, bytes.byteOffset + start, (to - start) >> 3);
  const { length } = words;
  let at = 0;
  for (const last = length - 7; at < last; at += 8) {
    words[at]! ^= twice;
    words[at + 1]! ^= twice;
    words[at + 2]! ^= twice;
    words[at + 3]! ^= twice;
    words[at + 4]! ^= twice;
    words[at + 5]! ^= twice;
    words[at + 6]! ^= twice;
    words[at + 7]! ^= twice;
  }
  for (; at < length; at++) words[at]! ^= twice;
  maskBytes(bytes, start + 8 * length, to, key);
}

/** Unmasks short text. Returns whether it is ASCII. */
export function unmaskAscii(bytes: Uint8Array, from: number, to: number, mask: number): boolean {
  const mask0 = mask & 0xff,
    mask1 = (mask >>> 8) & 0xff,
    mask2 = (mask >>> 16) & 0xff,
    mask3 = mask >>> 24;
  let seen = 0;
  let at = from;
  for (const last = to - 3; at < last; at += 4) {
    seen |=
      (bytes[at] = bytes[at]! ^ mask0) |
      (bytes[at + 1] = bytes[at + 1]! ^ mask1) |
      (bytes[at + 2] = bytes[at + 2]! ^ mask2) |
      (bytes[at + 3] = bytes[at + 3]! ^ mask3);
  }
  if (at < to) seen |= bytes[at] = bytes[at]! ^ mask0;
  if (at + 1 < to) seen |= bytes[at + 1] = bytes[at + 1]! ^ mask1;
  if (at + 2 < to) seen |= bytes[at + 2] = bytes[at + 2]! ^ mask2;
  return seen < 0x80;
}
