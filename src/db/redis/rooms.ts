/**
 * Sends WebSocket frames for rooms, which are groups of connections, to all processes over one Redis channel.
 *
 * Fields of a message on the channel, with their lengths in bytes: version (1), flags (1), publisher (16),
 * length of the room's name (2), the name, the frame. The flag 1 marks a text frame.
 *
 * Members of a room in this process get a frame at once. Members in other processes get it through Redis.
 * While Redis is unavailable, frames for other processes are lost, and are counted as `frames_lost`.
 */
import { randomBytes } from 'node:crypto';
import { asBuffer } from '../../base/bytes.ts';
import { readOptions, text } from '../../base/options.ts';
import { Turns } from '../../base/promises.ts';
import { MemoryRoomBus, type RoomBus, type RoomSubscriber } from '../../cache/stores.ts';
import type { Redis } from './redis.ts';

/** Options of a {@link RedisRoomBus}. */
export interface RedisRoomBusOptions {
  /** Name of the channel. Default `svc:rooms`. Two applications that use one server need different names. */
  readonly channel?: string | undefined;
}

const VERSION = 1;
const TEXT = 1;
const PUBLISHER_BYTES = 16;
const HEADER_BYTES = 2 + PUBLISHER_BYTES + 2;
const MAX_ROOM_BYTES = 0xffff;

/** Sends frames for rooms to all processes that use the same channel. */
export class RedisRoomBus implements RoomBus {
  readonly #redis: Redis;
  readonly #channel: string;
  readonly #here = new MemoryRoomBus();
  readonly #publisher = randomBytes(PUBLISHER_BYTES);
  #count = 0;
  #listening: Promise<AsyncDisposable> | undefined;
  readonly #turns = new Turns();

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(redis: Redis, options: RedisRoomBusOptions = {}) {
    this.#redis = redis;
    this.#channel = readOptions('RedisRoomBus', options, { channel: text('svc:rooms') }).channel;
  }

  publish(room: string, frame: Uint8Array, isText: boolean): void {
    void this.#redis
      .publish(this.#channel, this.#message(room, frame, isText))
      .catch(() => this.#redis.report('frames_lost'));
    this.#here.publish(room, frame, isText);
  }

  subscribe(fn: RoomSubscriber): Disposable {
    const subscription = this.#here.subscribe(fn);
    if (this.#count++ === 0)
      this.#listening = this.#turns.take(() =>
        this.#redis.subscribeLater(this.#channel, (message) => this.#onMessage(message)),
      );
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        subscription[Symbol.dispose]();
        if (isOver) return;
        isOver = true;
        if (--this.#count > 0) return;
        // `#listening` is set, because the first call of subscribe() sets it
        const listening = this.#listening!;
        // errors are ignored, because the client may be closed
        void this.#turns.take(async () => (await listening)[Symbol.asyncDispose]()).catch(() => undefined);
      },
    };
  }

  /** Resolves when all requested subscriptions are active, or are postponed until the server is reachable. */
  async settled(): Promise<void> {
    await this.#turns.settled();
  }

  #message(room: string, frame: Uint8Array, isText: boolean): Uint8Array {
    const name = Buffer.from(room);
    if (name.length > MAX_ROOM_BYTES)
      throw new RangeError(`The name of a room has ${name.length} bytes; the limit is ${MAX_ROOM_BYTES}`);
    const message = Buffer.allocUnsafe(HEADER_BYTES + name.length + frame.length);
    message[0] = VERSION;
    message[1] = isText ? TEXT : 0;
    this.#publisher.copy(message, 2);
    message.writeUInt16BE(name.length, 2 + PUBLISHER_BYTES);
    name.copy(message, HEADER_BYTES);
    message.set(frame, HEADER_BYTES + name.length);
    return message;
  }

  /**
   * Delivers a frame from another process. Ignores frames from this process, because they are already
   * delivered. Ignores messages in an unknown format.
   */
  #onMessage(bytes: Uint8Array): void {
    const message = asBuffer(bytes);
    if (message.length < HEADER_BYTES || message[0] !== VERSION) return;
    if (message.compare(this.#publisher, 0, PUBLISHER_BYTES, 2, 2 + PUBLISHER_BYTES) === 0) return;
    const end = HEADER_BYTES + message.readUInt16BE(2 + PUBLISHER_BYTES);
    if (end > message.length) return;
    this.#here.publish(
      message.toString('utf8', HEADER_BYTES, end),
      bytes.subarray(end),
      (message[1]! & TEXT) !== 0,
    );
  }
}
