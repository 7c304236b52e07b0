/**
 * One message for many sockets: encoded once, and deflated once for each size of window that they have agreed upon.
 */
import { OPCODE } from './ws-codes.ts';
import { encodeFrame } from './websocket/encode.ts';
import { deflateMessage } from './ws-deflate.ts';

/** A message that several sockets get. */
export class SharedMessage {
  readonly #opcode: number;
  readonly #payload: Buffer;
  #plain: Buffer | undefined;
  /** By window and level; undefined where it would be no smaller. */
  #deflated: Map<number, Buffer | undefined> | undefined;

  /** Bytes are a binary message, unless they are said to be text. */
  constructor(data: string | Uint8Array, isText: boolean = typeof data === 'string') {
    this.#opcode = isText ? OPCODE.text : OPCODE.binary;
    this.#payload = typeof data === 'string' ? Buffer.from(data, 'utf8') : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  }

  get isText(): boolean { return this.#opcode === OPCODE.text; }

  /** Its bytes, without a frame around them. */
  get payload(): Buffer { return this.#payload; }

  /** The frame. */
  get plain(): Buffer { return this.#plain ??= encodeFrame(this.#opcode, this.#payload); }

  /** The frame deflated on its own, so that whoever gets it needs to know nothing that was said before. */
  deflated(bits: number, level: number): Buffer | undefined {
    const deflated = this.#deflated ??= new Map();
    const key = bits << 4 | level;
    if (!deflated.has(key)) {
      const bytes = deflateMessage(this.#payload, bits, level);
      deflated.set(key, bytes.length < this.#payload.length ? encodeFrame(this.#opcode, bytes, true) : undefined);
    }
    return deflated.get(key);
  }
}
