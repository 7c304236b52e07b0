/**
 * WebSocket rooms over several workers: the parent passes each message of a worker on to all other workers.
 *
 * A message arrives at most once. If a worker reads its messages too slowly, further messages to this worker
 * are dropped, so that they do not fill the memory of the parent.
 */
import { asBuffer } from '../base/bytes.ts';
import { onParentMessage, sendToParent } from './supervision.ts';
import { MemoryRoomBus } from '../cache/stores.ts';
import type { Logger } from '../observability/log.ts';
import type { RoomBus, RoomSubscriber } from '../cache/stores.ts';

/** Maximum number of room messages to one process that are not written yet. */
export const MOST_ON_THE_WAY = 10_000;
/** Maximum total size in bytes of room messages to one process that are not written yet. */
const MOST_BYTES = 16_777_216;

/** Carries room messages between this worker and all others. */
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
      frame: asBuffer(frame).toString('base64'),
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
      problem:
        'messages to rooms reach only the sockets of this worker, because other workers do not read them fast enough',
      remedy:
        'Send fewer or smaller messages to rooms, or set the option roomBus, for example to a RedisRoomBus',
    });
  }
}
