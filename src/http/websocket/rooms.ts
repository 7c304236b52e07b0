/**
 * Rooms: named groups of sockets that get the same messages. A RoomBus also passes the messages to other
 * processes.
 *
 * On a RoomBus, each message begins with 12 bytes that identify the sending process. A process ignores its
 * own messages, because it has already delivered them.
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

export interface RoomMember {
  /** Called with each message to the room. It must not throw. */
  deliver(message: SharedMessage): void;
}

/** Options of {@link RoomSender.broadcast}. */
export interface BroadcastOptions {
  /** A member that must not get the message, for example the socket that sent it. */
  readonly except?: object | undefined;
}

/** Sends messages to rooms. Use `app.rooms`, or `Depends(rooms)` in a handler. */
export interface RoomSender {
  /**
   * Sends a message to every member of the room, in every process. A string is sent as a text message, bytes
   * as a binary one.
   */
  broadcast(room: string, data: string | Uint8Array, options?: BroadcastOptions): void;
  /** Sends a value as a JSON text message to every member of the room. */
  broadcastJson(room: string, value: unknown, options?: BroadcastOptions): void;
  /** Returns the number of sockets in the room that are connected to this process. */
  count(room: string): number;
}

/** Dependency of handlers that send to rooms: `Depends(rooms)`. */
export const rooms: StateKey<RoomSender> = stateKey('rooms');

/** Maximum length of the name of a room, in characters. */
const MOST_NAME_CHARACTERS = 256;
const ORIGIN_BYTES = 12;
/** Room for messages between parts of the framework. Sockets cannot join it, because its name is empty. */
const INTERNAL = '';

export class Rooms implements RoomSender {
  readonly #members = new Map<string, Set<RoomMember>>();
  readonly #listeners = new Set<(text: string) => void>();
  readonly #origin: Buffer = randomBytes(ORIGIN_BYTES);
  readonly #log: Logger;
  #bus: RoomBus | undefined;
  #subscription: Disposable | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  get size(): number {
    return this.#members.size;
  }

  get isConnected(): boolean {
    return this.#bus !== undefined;
  }

  connect(bus: RoomBus): void {
    this.disconnect();
    this.#bus = bus;
    this.#subscription = bus.subscribe((room, frame, isText) => this.#onBus(room, frame, isText));
  }

  disconnect(): void {
    this.#subscription?.[Symbol.dispose]();
    this.#bus = this.#subscription = undefined;
  }

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
    this.#publish(room, message);
  }

  broadcastJson(room: string, value: unknown, options?: BroadcastOptions): void {
    this.broadcast(room, toJson(value), options);
  }

  /** Sends a text to the listeners of the other processes. It may get lost. */
  tell(text: string): void {
    this.#publish(INTERNAL, new SharedMessage(text));
  }

  /** Calls `fn` with each text that another process sends by {@link tell}. `fn` must not throw. */
  listen(fn: (text: string) => void): void {
    this.#listeners.add(fn);
  }

  #publish(room: string, message: SharedMessage): void {
    if (this.#bus === undefined) return;
    try {
      this.#bus.publish(room, Buffer.concat([this.#origin, message.payload]), message.isText);
    } catch (error) {
      this.#log.error('room_bus_failed', error, { room });
    }
  }

  #deliver(room: string, message: SharedMessage, except?: object): void {
    for (const member of this.#members.get(room) ?? []) if (member !== except) member.deliver(message);
  }

  #onBus(room: string, frame: Uint8Array, isText: boolean): void {
    const bytes = asBuffer(frame);
    // ignores messages of this process, which were delivered already, and messages without the 12 bytes that
    // identify a process
    if (bytes.length < ORIGIN_BYTES || bytes.subarray(0, ORIGIN_BYTES).equals(this.#origin)) return;
    if (room !== INTERNAL && !this.#members.has(room)) return;
    const payload = bytes.subarray(ORIGIN_BYTES);
    // ignores text that is not UTF-8, because clients would close the connection (RFC 6455 §8.1)
    if (isText && !isUtf8(payload)) return;
    if (room === INTERNAL) for (const listener of this.#listeners) listener(payload.toString());
    else this.#deliver(room, new SharedMessage(payload, isText));
  }
}

/** The rooms of one socket. */
export class Memberships {
  readonly #rooms: Rooms;
  readonly #member: RoomMember;
  readonly #maxRooms: number;
  readonly #joined = new Set<string>();

  constructor(rooms: Rooms, member: RoomMember, maxRooms: number) {
    this.#rooms = rooms;
    this.#member = member;
    this.#maxRooms = maxRooms;
  }

  /** Adds the socket to a room. */
  join(room: string): void {
    const joined = this.#joined;
    if (!joined.has(room) && joined.size >= this.#maxRooms)
      throw new SvcError('E_ROOM', [
        `the socket is already in ${joined.size} rooms, the maximum that maxRooms allows`,
      ]);
    this.#rooms.join(room, this.#member);
    joined.add(room);
  }

  leave(room: string): void {
    if (this.#joined.delete(room)) this.#rooms.leave(room, this.#member);
  }

  leaveAll(): void {
    for (const room of this.#joined) this.leave(room);
  }
}

function assertRoomName(room: string): void {
  if (typeof room !== 'string' || room === '' || room.length > MOST_NAME_CHARACTERS)
    throw new SvcError('E_ROOM', [
      typeof room === 'string'
        ? `the room name has ${room.length} characters, but must have 1 to ${MOST_NAME_CHARACTERS}`
        : 'the room name must be a string',
    ]);
}

/** A message that is sent to several sockets. */
export class SharedMessage {
  /** Content of the message, without the head of a frame. */
  readonly payload: Buffer;
  readonly isText: boolean;
  /** Encoded frames, which all sockets share. Set by FrameSender. */
  frames: SharedFrames | undefined;

  /** A string is a text message. Bytes are a binary message, unless `isText` is true. */
  constructor(data: string | Uint8Array, isText: boolean = typeof data === 'string') {
    this.isText = isText;
    this.payload = typeof data === 'string' ? Buffer.from(data) : asBuffer(data);
  }
}
