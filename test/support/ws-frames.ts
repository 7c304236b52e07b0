/**
 * Creates frames for tests, and reads them with the frame reader.
 */
import { OPCODE } from '../../src/http/websocket/codes.ts';
import { FrameReader } from '../../src/http/websocket/frames.ts';
import type { FrameSink } from '../../src/http/websocket/frames.ts';
import type { FrameEvent } from './ws-reference.ts';

type FrameReaderOptions = ConstructorParameters<typeof FrameReader>[0];

/** Parts of a frame, valid or not. */
export interface FrameOptions {
  readonly opcode?: number;
  readonly isFinal?: boolean;
  /** Reserved bits: RSV1 is 4, RSV2 is 2, RSV3 is 1. */
  readonly rsv?: number;
  readonly payload?: string | Uint8Array;
  /** Masking key; undefined for an unmasked frame. */
  readonly key?: readonly number[] | undefined;
  /** Size of the length field: 7, 16 or 64 bits. Default: the shortest that fits. */
  readonly lengthBits?: 7 | 16 | 64;
  /** Announced length, if it differs from the payload. */
  readonly length?: bigint;
}

/** Returns the bytes of a client's frame. */
export function frame(options: FrameOptions): Buffer {
  const { opcode = OPCODE.text, isFinal = true, rsv = 0, payload = '' } = options;
  const key = 'key' in options ? options.key : [0x37, 0xfa, 0x21, 0x3d];
  const bytes = Buffer.from(payload as string);
  const length = options.length ?? BigInt(bytes.length);
  const bits = options.lengthBits ?? (length < 126n ? 7 : length < 65_536n ? 16 : 64);
  const field = Buffer.alloc(8);
  field.writeBigUInt64BE(length);
  const masked = key === undefined ? 0 : 0x80;
  const head = [
    (isFinal ? 0x80 : 0) | (rsv << 4) | opcode,
    ...(bits === 7
      ? [masked | Number(length)]
      : bits === 16
        ? [masked | 126, ...field.subarray(6)]
        : [masked | 127, ...field]),
  ];
  return Buffer.from([
    ...head,
    ...(key ?? []),
    ...bytes.map((byte, index) => byte ^ (key?.[index % 4] ?? 0)),
  ]);
}

/** Returns the payload of a close frame. */
export function closing(code: number, reason: string | Uint8Array = ''): Buffer {
  return Buffer.concat([Buffer.of(code >> 8, code & 255), Buffer.from(reason as string)]);
}

/** Returns the events of a reader for copies of these chunks. */
export function read(chunks: readonly Uint8Array[], options: Partial<FrameReaderOptions> = {}): FrameEvent[] {
  const reported: FrameEvent[] = [];
  const reader = new FrameReader(
    { isMasked: true, maxMessageBytes: 1_048_576, ...options },
    sinkInto(reported),
  );
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  return reported;
}

function sinkInto(reported: FrameEvent[]): FrameSink {
  return {
    onText: (text) => void reported.push(['text', text]),
    onBinary: (bytes) => void reported.push(['binary', bytes.toString('hex')]),
    onPing: (payload) => void reported.push(['ping', payload.toString('hex')]),
    onPong: (payload) => void reported.push(['pong', payload.toString('hex')]),
    onClose: (code, reason) => void reported.push(['close', code, reason]),
    onViolation: (code) => void reported.push(['violation', code]),
  };
}

/** Yields the bytes whole, cut in two at every position, and one by one. */
export function* everySplit(
  bytes: Uint8Array,
): Generator<readonly [how: string, chunks: readonly Uint8Array[]]> {
  yield ['whole', [bytes]];
  for (let at = 1; at < bytes.length; at++)
    yield [`cut at ${at}`, [bytes.subarray(0, at), bytes.subarray(at)]];
  yield ['byte by byte', [...bytes].map((byte) => Uint8Array.of(byte))];
}
