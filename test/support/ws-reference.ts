/**
 * Reference implementation of RFC 6455 §5 for a server: it has all bytes at once, and is plain instead of
 * fast.
 */

/** Events of a stream of frames, in order; none follows `close` or `violation`. */
export type FrameEvent =
  | readonly ['text', string]
  | readonly ['binary' | 'ping' | 'pong', string]
  | readonly ['close', number, string]
  | readonly ['violation', number];

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Whether further bytes can complete these to valid UTF-8. */
function mayBecomeText(bytes: Uint8Array): boolean {
  if (textOf(bytes) !== undefined) return true;
  for (let cut = 1; cut <= 3 && cut <= bytes.length; cut++) {
    const head = bytes.subarray(0, bytes.length - cut);
    if (textOf(head) === undefined) continue;
    const tail = bytes.subarray(bytes.length - cut);
    for (let missing = 1; missing < 4; missing++)
      for (const second of [0x80, 0x90, 0xa0])
        if (textOf(Buffer.from([...tail, second, 0x80, 0x80].slice(0, cut + missing))) !== undefined)
          return true;
  }
  return false;
}

/** Reads masked frames. */
export function readFrames(stream: Uint8Array, maxMessageBytes: number): FrameEvent[] {
  const reported: FrameEvent[] = [];
  const violation = (code: number): FrameEvent[] => [...reported, ['violation', code]];
  let message: { opcode: number; bytes: number[]; announced: number; cost: number } | undefined;
  let at = 0;
  while (at + 2 <= stream.length) {
    const first = stream[at]!,
      second = stream[at + 1]!;
    const opcode = first & 15,
      isFinal = first >= 128,
      isControl = opcode >= 8;
    if ((first & 0x70) !== 0 || ![0, 1, 2, 8, 9, 10].includes(opcode) || second < 128) return violation(1002);
    if (isControl && (!isFinal || (second & 127) > 125)) return violation(1002);
    if (!isControl && (opcode === 0) !== (message !== undefined)) return violation(1002);
    let length = second & 127;
    let head = at + 2;
    if (length >= 126) {
      const size = length === 126 ? 2 : 8;
      if (head + size + 4 > stream.length) return reported; // wait until the head of the frame is complete
      if (size === 8 && stream[head]! >= 128) return violation(1002);
      const least = length === 126 ? 126 : 65_536;
      length = 0;
      for (let index = 0; index < size; index++) length = length * 256 + stream[head + index]!;
      if (length < least) return violation(1002);
      head += size;
    } else if (head + 4 > stream.length) return reported;
    const key = stream.subarray(head, head + 4);
    const start = head + 4;
    const payload = stream.slice(start, start + length).map((byte, index) => byte ^ key[index % 4]!);
    const isWhole = payload.length === length;
    at = start + length;
    if (isControl) {
      if (!isWhole) return reported;
      if (opcode === 8) {
        if (length === 0) return [...reported, ['close', 1005, '']];
        if (length === 1) return violation(1002);
        const code = payload[0]! * 256 + payload[1]!;
        if (!(
          (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) ||
          (code >= 3000 && code <= 4999)
        ))
          return violation(1002);
        const reason = textOf(payload.subarray(2));
        return reason === undefined ? violation(1007) : [...reported, ['close', code, reason]];
      }
      reported.push([opcode === 9 ? 'ping' : 'pong', Buffer.from(payload).toString('hex')]);
      continue;
    }
    message ??= { opcode, bytes: [], announced: 0, cost: 0 };
    message.announced += length;
    message.cost += Math.max(64, length);
    if (message.announced > maxMessageBytes || message.cost > Math.max(16_384, maxMessageBytes))
      return violation(1009);
    for (const byte of payload) message.bytes.push(byte);
    const bytes = Uint8Array.from(message.bytes);
    if (message.opcode === 1 && !mayBecomeText(bytes)) return violation(1007);
    if (!isWhole) return reported;
    if (!isFinal) continue;
    if (message.opcode === 2) reported.push(['binary', Buffer.from(bytes).toString('hex')]);
    else {
      const text = textOf(bytes);
      if (text === undefined) return violation(1007);
      reported.push(['text', text]);
    }
    message = undefined;
  }
  return reported;
}
