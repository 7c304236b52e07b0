/**
 * A stream of MCP messages over HTTP, as server-sent events. It carries notifications and requests of the
 * server, then the response to the client's request.
 */
import { FiniteEvents } from '../http/streaming/event-stream.ts';
import type { ServerSentEvent } from '../http/streaming/event-stream.ts';

/** Maximum number of messages that wait for a slow reader. Further notifications are dropped. */
const MAX_WAITING = 1_000;

/** A queue of messages that one reader reads as server-sent events. */
export class MessageStream extends FiniteEvents implements AsyncIterableIterator<ServerSentEvent> {
  readonly #onLeave: () => void;
  readonly #onStop: () => void;
  #waiting: string[] = [];
  #reader: PromiseWithResolvers<IteratorResult<ServerSentEvent, undefined>> | undefined;
  #isOver = false;

  /**
   * `onLeave` is called if the reader leaves before the end of the stream. `onStop` is called when the server
   * stops, and should end the stream.
   */
  constructor(onLeave: () => void, onStop: () => void) {
    super();
    this.#onLeave = onLeave;
    this.#onStop = onStop;
  }

  push(message: object): void {
    if (this.#isOver || (this.#waiting.length >= MAX_WAITING && !('id' in message))) return;
    this.#give(JSON.stringify(message));
  }

  /** Ends the stream. If `message` is defined, it is the last message. */
  end(message: object | undefined): void {
    if (this.#isOver) return;
    if (message !== undefined) this.#give(JSON.stringify(message));
    this.#isOver = true;
    this.#reader?.resolve({ done: true, value: undefined });
    this.#reader = undefined;
  }

  next(): Promise<IteratorResult<ServerSentEvent, undefined>> {
    const data = this.#waiting.shift();
    if (data !== undefined) return Promise.resolve({ done: false, value: { event: 'message', data } });
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined });
    return (this.#reader = Promise.withResolvers()).promise;
  }

  return(): Promise<IteratorResult<ServerSentEvent, undefined>> {
    const wasOver = this.#isOver && this.#waiting.length === 0;
    this.#waiting = [];
    this.end(undefined);
    if (!wasOver) this.#onLeave();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  finish(): void {
    this.#onStop();
  }

  #give(data: string): void {
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader === undefined) this.#waiting.push(data);
    else reader.resolve({ done: false, value: { event: 'message', data } });
  }
}
