/**
 * Rooms: named groups of sockets that get the same messages. A RoomBus passes the messages to other
 * processes, too.
 *
 * On the bus, the first 12 bytes of each message identify the process that sent it. So no process delivers
 * its own messages twice.
 */
import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { asBuffer } from '../../base/bytes.ts';
import { SvcError } from '../../base/errors.ts';
import { toJson } from '../response.ts';
import { stateKey } from '../state.ts';
import type { Logger } from '../../observability/log.ts';
import type { RoomBus } from '../../cache/stores.ts';
import type { StateKey } from '../contracts.ts';
import type { SharedFrames } from './deflate.ts';

/** A socket in a room. */
export interface RoomMember {
  /** Called with each message; must not throw. */
  deliver(message: SharedMessage): void;
}

/** Options of a broadcast. */
export interface BroadcastOptions {
  /** A member that does not get the message, for example the sending socket. */
  readonly except?: object | undefined;
}

/** Sends to rooms from any code: use `app.rooms`, or `Depends(rooms)`. */
export interface RoomSender {
  /** Sends to every member of the room, in every process. A string becomes a text message, bytes a binary one. */
  broadcast(room: string, data: string | Uint8Array, options?: BroadcastOptions): void;
  /** Sends a value as JSON. */
  broadcastJson(room: string, value: unknown, options?: BroadcastOptions): void;
  /** Number of sockets of this process in the room. */
  count(room: string): number;
}

/** Key of the application's rooms, for handlers of any kind: `Depends(rooms)`. */
export const rooms: StateKey<RoomSender> = stateKey('rooms');

/** Maximum length of a room's name, in characters. */
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

  /** Number of rooms that have members in this process. */
  get size(): number {
    return this.#members.size;
  }

  /** Whether a bus connects this process with others. */
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

  /** Adds a member to a room. @throws SvcError `E_ROOM` for an invalid name */
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
    const bytes = asBuffer(frame);
    // a message of this process has been delivered already; a shorter one is not of this framework
    if (bytes.length < ORIGIN_BYTES || bytes.subarray(0, ORIGIN_BYTES).equals(this.#origin)) return;
    if (!this.#members.has(room)) return;
    const payload = bytes.subarray(ORIGIN_BYTES);
    // invalid UTF-8 is not a message of this framework; clients would close the connection because of it (RFC
    // 6455 §8.1)
    if (isText && !isUtf8(payload)) return;
    this.#deliver(room, new SharedMessage(payload, isText));
  }
}

function assertRoomName(room: string): void {
  if (typeof room !== 'string' || room === '' || room.length > MOST_NAME_CHARACTERS)
    throw new SvcError('E_ROOM', [
      typeof room === 'string'
        ? `a room name of ${room.length} characters`
        : 'a room name that is not a string',
    ]);
}

/** A message for several sockets. */
export class SharedMessage {
  /** The bytes of the message, without a frame. */
  readonly payload: Buffer;
  readonly isText: boolean;
  /**
   * Frames for all sockets. Set by the first socket that sends the message, so that this file need not load
   * the code that encodes frames.
   */
  frames: SharedFrames | undefined;

  /** Bytes become a binary message, unless `isText` is true. */
  constructor(data: string | Uint8Array, isText: boolean = typeof data === 'string') {
    this.isText = isText;
    this.payload = typeof data === 'string' ? Buffer.from(data) : asBuffer(data);
  }
}
