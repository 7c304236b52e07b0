/**
 * The rooms of several workers as one: what one of them sends to a room goes by way of the parent to all others.
 *
 * It is sent at most once, and left out where a process does not keep up: a parent must not fill its memory with what one of its
 * children does not read.
 */
import { onParentMessage, sendToParent } from './supervision.ts';
import { MemoryRoomBus } from '../cache/stores.ts';
import type { Logger } from '../observability/log.ts';
import type { RoomBus, RoomSubscriber } from '../cache/stores.ts';

/** What may be on its way from a process to another, in messages. */
export const MOST_ON_THE_WAY = 10_000;
/** How much of it, in bytes. */
const MOST_BYTES = 16_777_216;

/** The bus of a worker. */
export class WorkerRoomBus implements RoomBus {
  readonly #local = new MemoryRoomBus();
  readonly #log: Logger;
  #messages = 0;
  #bytes = 0;
  #isReported = false;

  constructor(log: Logger) {
    this.#log = log;
    onParentMessage((message) => {
      if (message.svc === 'room')
        this.#local.publish(message.room, Buffer.from(message.frame, 'base64'), message.isText);
    });
  }

  publish(room: string, frame: Uint8Array, isText: boolean): void {
    this.#local.publish(room, frame, isText);
    if (this.#messages >= MOST_ON_THE_WAY || this.#bytes + frame.length > MOST_BYTES) return this.#leaveOut();
    this.#messages++;
    this.#bytes += frame.length;
    void sendToParent({
      svc: 'room',
      room,
      frame: Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength).toString('base64'),
      isText,
    }).then(() => {
      this.#messages--;
      this.#bytes -= frame.length;
    });
  }

  subscribe(fn: RoomSubscriber): Disposable {
    return this.#local.subscribe(fn);
  }

  #leaveOut(): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#log.warn('room_bus_overloaded', {
      problem: 'what is sent to rooms reaches the sockets of this worker only: the others do not keep up',
      remedy: 'Send less, or in larger messages',
    });
  }
}
