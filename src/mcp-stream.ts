/**
 * The messages of one answer over HTTP: told as they come where there is something to tell before the answer is there, else the
 * answer alone as JSON.
 */
import { EventStreamResponse, FiniteEvents } from './http/event-stream.ts';
import type { ServerSentEvent } from './http/event-format.ts';

/** Messages that wait for a client that does not read: further ones are left out, but for the last. */
const MAX_WAITING = 1_000;

/** Messages as a source of events; read by one. */
export class MessageStream extends FiniteEvents implements AsyncIterableIterator<ServerSentEvent> {
  readonly #onLeave: () => void;
  readonly #onStop: () => void;
  #waiting: string[] = [];
  #reader: PromiseWithResolvers<IteratorResult<ServerSentEvent, undefined>> | undefined;
  #isOver = false;

  /** `onLeave` is called when nobody reads any more before the end; `onStop` when the server stops, which waits for the end as for any answer. */
  constructor(onLeave: () => void, onStop: () => void) {
    super();
    this.#onLeave = onLeave;
    this.#onStop = onStop;
  }

  /** The next message. */
  push(message: object): void {
    if (this.#isOver || this.#waiting.length >= MAX_WAITING) return;
    this.#give(JSON.stringify(message));
  }

  /** The last message, or none. */
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

  [Symbol.asyncIterator](): this { return this; }

  finish(): void { this.#onStop(); }

  #give(data: string): void {
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader === undefined) this.#waiting.push(data);
    else reader.resolve({ done: false, value: { event: 'message', data } });
  }
}

/** The stream as an answer. */
export function streamed(messages: MessageStream): EventStreamResponse {
  return new EventStreamResponse(messages);
}
