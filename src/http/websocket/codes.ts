/**
 * Constants of WebSockets (RFC 6455): opcodes, bits and lengths of frames, and close codes.
 */

/** Opcodes of frames (RFC 6455 §5.2, §11.8). */
export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/**
 * Close codes (RFC 6455 §7.4.1, and the registry of RFC 6455 §11.7). 1005, 1006 and 1015 are never sent: they
 * mean that no close frame with a code was received.
 */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  protocolError: 1002,
  unsupportedData: 1003,
  noStatus: 1005,
  abnormal: 1006,
  invalidData: 1007,
  policyViolation: 1008,
  messageTooBig: 1009,
  internalError: 1011,
  serviceRestart: 1012,
  tryAgainLater: 1013,
} as const;

/** Bit in the first byte of a frame: the frame is the last one of its message (RFC 6455 §5.2). */
export const FIN = 0x80;
/** Bit in the first byte of a frame: the message is compressed (RFC 7692 §6). */
export const RSV1 = 0x40;
/** Bit in the second byte of a frame: the payload is masked (RFC 6455 §5.2). */
export const MASKED = 0x80;
/** Value of the length in the second byte of a frame: the length follows in two bytes (RFC 6455 §5.2). */
export const LENGTH_16 = 126;
/** Value of the length in the second byte of a frame: the length follows in eight bytes (RFC 6455 §5.2). */
export const LENGTH_64 = 127;

/** Maximum length of the payload of a control frame, in bytes (RFC 6455 §5.5). */
export const MOST_CONTROL_BYTES = 125;

/**
 * Whether a close frame may contain this code (RFC 6455 §7.4): a registered code, a code of a library (3000
 * ... 3999) or of an application (4000 ... 4999).
 */
export function isCloseCode(code: number): boolean {
  if (code >= 3000) return code <= 4999;
  return (
    code >= CLOSE.normal &&
    code <= 1014 &&
    code !== 1004 &&
    code !== CLOSE.noStatus &&
    code !== CLOSE.abnormal
  );
}
