/**
 * Writes WebSocket frames (RFC 6455 §5). Masking is for clients; servers never mask.
 */
import { FIN, LENGTH_16, LENGTH_64, MASKED, MOST_CONTROL_BYTES, RSV1 } from './codes.ts';
import { applyMask, readMask } from './mask.ts';

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
export const MOST_REASON_BYTES: number = MOST_CONTROL_BYTES - 2;

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
