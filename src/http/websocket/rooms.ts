/**
 * Rooms: named groups of sockets that get the same messages, in this process and, over a RoomBus, in others.
 *
 *   join, leave -> members by room           broadcast -> one frame for all members here, and one message on the bus
 *
 * On the bus a message has 12 bytes in front of it, by which its own process recognizes it and does not send it twice.
 */
import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { toJson } from '../response.ts';
import { stateKey } from '../state.ts';
import { OPCODE } from './codes.ts';
import { deflateInThread, deflateMessage } from './deflate.ts';
import { encodeFrame } from './encode.ts';
import type { Logger } from '../../observability/log.ts';
import type { RoomBus } from '../../cache/stores.ts';
import type { StateKey } from '../contracts.ts';

/** A member of a room. */
export interface RoomMember {
  /** Gets a message; must not throw. */
  deliver(message: SharedMessage): void;
}

/** Whom a broadcast leaves out. */
export interface BroadcastOptions {
  /** The socket that sends it, for example. */
  readonly except?: object | undefined;
}

/** Sends to rooms from any code: `app.rooms`, and `Depends(rooms)`. */
export interface RoomSender {
  /** Sends to every member of the room, in every process. A string becomes a text message, bytes a binary one. */
  broadcast(room: string, data: string | Uint8Array, options?: BroadcastOptions): void;
  /** Sends a value as JSON. */
  broadcastJson(room: string, value: unknown, options?: BroadcastOptions): void;
  /** How many sockets of this process are in the room. */
  count(room: string): number;
}

/** The rooms of the application, for handlers of any kind: `Depends(rooms)`. */
export const rooms: StateKey<RoomSender> = stateKey('rooms');

/** Maximum length of a name. */
const MOST_NAME_CHARACTERS = 256;
const ORIGIN_BYTES = 12;

/** The rooms of one process. */
export class Rooms implements RoomSender {
  readonly #members = new Map<string, Set<RoomMember>>();
  readonly #origin: Buffer = randomBytes(ORIGIN_BYTES);
  readonly #log: Logger;
  #bus: RoomBus | undefined;
  #subscription: Disposable | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** How many rooms have members here. */
  get size(): number {
    return this.#members.size;
  }

  /** Whether other processes get the messages. */
  get isConnected(): boolean {
    return this.#bus !== undefined;
  }

  /** Connects to other processes. */
  connect(bus: RoomBus): void {
    this.disconnect();
    this.#bus = bus;
    this.#subscription = bus.subscribe((room, frame, isText) => this.#onBus(room, frame, isText));
  }

  /** Disconnects from other processes. */
  disconnect(): void {
    this.#subscription?.[Symbol.dispose]();
    this.#bus = this.#subscription = undefined;
  }

  /** @throws SvcError `E_ROOM` for an invalid name */
  join(room: string, member: RoomMember): void {
    assertRoomName(room);
    const members = this.#members.get(room);
    if (members === undefined) this.#members.set(room, new Set([member]));
    else members.add(member);
  }

  leave(room: string, member: RoomMember): void {
    const members = this.#members.get(room);
    if (members?.delete(member) === true && members.size === 0) this.#members.delete(room);
  }

  count(room: string): number {
    return this.#members.get(room)?.size ?? 0;
  }

  broadcast(room: string, data: string | Uint8Array, { except }: BroadcastOptions = {}): void {
    assertRoomName(room);
    const message = new SharedMessage(data);
    this.#deliver(room, message, except);
    if (this.#bus === undefined) return;
    try {
      this.#bus.publish(room, Buffer.concat([this.#origin, message.payload]), message.isText);
    } catch (error) {
      this.#log.error('room_bus_failed', error, { room });
    }
  }

  broadcastJson(room: string, value: unknown, options?: BroadcastOptions): void {
    this.broadcast(room, toJson(value), options);
  }

  #deliver(room: string, message: SharedMessage, except?: object): void {
    for (const member of this.#members.get(room) ?? []) if (member !== except) member.deliver(message);
  }

  #onBus(room: string, frame: Uint8Array, isText: boolean): void {
    const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
    if (bytes.length < ORIGIN_BYTES || bytes.subarray(0, ORIGIN_BYTES).equals(this.#origin)) return; // our own, which has been delivered
    if (!this.#members.has(room)) return;
    const payload = bytes.subarray(ORIGIN_BYTES);
    if (isText && !isUtf8(payload)) return; // foreign message; clients would have to fail the connection (RFC 6455 §8.1)
    this.#deliver(room, new SharedMessage(payload, isText));
  }
}

function assertRoomName(room: string): void {
  if (typeof room !== 'string' || room === '' || room.length > MOST_NAME_CHARACTERS)
    throw new SvcError('E_ROOM', [
      typeof room === 'string' ? `a name of ${room.length} characters` : 'a name that is not a string',
    ]);
}

/** A message for several sockets: encoded once, and deflated once for each window size that they have negotiated. */
export class SharedMessage {
  readonly #opcode: number;
  readonly #payload: Buffer;
  #plain: Buffer | undefined;
  /** By window and level; undefined where deflating does not make the frame smaller. */
  #deflated: Map<number, Buffer | undefined> | undefined;
  #deflatedLong: Map<number, Promise<Buffer>> | undefined;

  /** Bytes are a binary message unless `isText` is true. */
  constructor(data: string | Uint8Array, isText: boolean = typeof data === 'string') {
    this.#opcode = isText ? OPCODE.text : OPCODE.binary;
    this.#payload =
      typeof data === 'string'
        ? Buffer.from(data, 'utf8')
        : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  }

  get isText(): boolean {
    return this.#opcode === OPCODE.text;
  }

  /** The bytes of the message, without a frame. */
  get payload(): Buffer {
    return this.#payload;
  }

  /** The frame. */
  get plain(): Buffer {
    return (this.#plain ??= encodeFrame(this.#opcode, this.#payload));
  }

  /** Frame of a long message, deflated once for all sockets in a thread; uncompressed if it does not shrink. Never rejects. */
  deflatedLong(bits: number, level: number): Promise<Buffer> {
    const found = (this.#deflatedLong ??= new Map<number, Promise<Buffer>>());
    const key = (bits << 4) | level;
    let frame = found.get(key);
    if (frame === undefined) {
      frame = deflateInThread(this.#payload, bits, level).then((bytes) =>
        bytes === undefined ? this.plain : encodeFrame(this.#opcode, bytes, true),
      );
      found.set(key, frame);
    }
    return frame;
  }

  /** The frame, deflated without the context of earlier messages. */
  deflated(bits: number, level: number): Buffer | undefined {
    const deflated = (this.#deflated ??= new Map());
    const key = (bits << 4) | level;
    if (!deflated.has(key)) {
      const bytes = deflateMessage(this.#payload, bits, level);
      deflated.set(
        key,
        bytes.length < this.#payload.length ? encodeFrame(this.#opcode, bytes, true) : undefined,
      );
    }
    return deflated.get(key);
  }
}
