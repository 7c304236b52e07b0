/**
 * Inbox of one WebSocket: messages that wait, for the handler that runs or for the code that iterates the socket.
 *
 * The peer is read no further when the inbox is full. It is read again when half of the room is free.
 */
import { SvcError } from '../../base/errors.ts';
import { copyOf } from './frames.ts';

/** Bytes that may wait before reading stops. */
const MAX_BYTES = 65_536;
/** Bytes that a message costs besides its own. */
const MESSAGE_COST = 128;

/** Converts a message for the code that takes it. */
export interface MessageDecoder {
  decode(data: string | Buffer): unknown;
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

interface Waiter {
  resolve(result: IteratorResult<unknown, undefined>): void;
  reject(error: unknown): void;
}

/** Messages that wait, in order. A socket makes an inbox with the first one: most sockets never need it. */
export class Inbox {
  readonly #messages: (string | Buffer)[] = [];
  #bytes = 0;
  #isIterated = false;
  #isReplyDue = false;
  #waiter: Waiter | undefined;

  /** Whether code iterates the messages, so that no handler takes them. */
  get isIterated(): boolean {
    return this.#isIterated;
  }

  /** Whether the iterating code waits for a message. */
  get isAwaited(): boolean {
    return this.#waiter !== undefined;
  }

  /** Whether iterating code has taken a message and does not wait for the next one: a reply may come. */
  get isReplyDue(): boolean {
    return this.#isReplyDue;
  }

  get hasMessages(): boolean {
    return this.#messages.length > 0;
  }

  /** Whether reading must stop. */
  get isFull(): boolean {
    return this.#bytes > MAX_BYTES;
  }

  /** Whether reading may go on. */
  get hasRoom(): boolean {
    return this.#bytes <= MAX_BYTES / 2;
  }

  /** Adds a message. Bytes that must wait are copied when they use less than half of their memory: a small part must not hold a whole chunk. */
  add(data: string | Buffer): void {
    const mustCopy =
      this.#waiter === undefined && typeof data !== 'string' && 2 * data.length < data.buffer.byteLength;
    this.#messages.push(mustCopy ? copyOf(data) : data);
    this.#bytes += costOf(data);
  }

  /** Removes the oldest message. There must be one. */
  shift(): string | Buffer {
    const data = this.#messages.shift()!;
    this.#bytes -= costOf(data);
    return data;
  }

  /** Forgets all messages. */
  clear(): void {
    this.#messages.length = this.#bytes = 0;
  }

  /**
   * Iterates the messages. Calls `onWait` when the code waits for a message, which {@link answer} gives to it; `onStop` when
   * the code leaves the loop. Other code may iterate then.
   */
  iterate(onWait: () => void, onStop: () => void): AsyncIterator<unknown, undefined> {
    this.#isIterated = true;
    let hasLeft = false;
    return {
      next: () => (hasLeft ? Promise.resolve(DONE) : this.#next(onWait)),
      return: () => {
        if (!hasLeft) {
          hasLeft = true;
          this.#isIterated = false;
          this.end();
          onStop();
        }
        return Promise.resolve(DONE);
      },
    };
  }

  #next(onWait: () => void): Promise<IteratorResult<unknown, undefined>> {
    if (this.#waiter !== undefined) return Promise.reject(new SvcError('E_WEBSOCKET_ITERATED', [])); // one message is awaited already
    this.#isReplyDue = false;
    this.#isIterated = true; // again, behind a message that could not be decoded
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
      onWait();
    });
  }

  /**
   * Gives messages to the iterating code, as long as it waits and there are some. An error of `decode` rejects its promise. A
   * `for await` loop ends with that and does not say so, thus other code may iterate then.
   */
  answer(decoder: MessageDecoder): void {
    while (this.#waiter !== undefined && this.#messages.length > 0) {
      const waiter = this.#waiter;
      this.#isReplyDue = true;
      try {
        const value = decoder.decode(this.shift());
        this.#waiter = undefined;
        waiter.resolve({ done: false, value });
      } catch (error) {
        this.#waiter = undefined;
        this.#isIterated = false;
        waiter.reject(error);
      }
    }
  }

  /** Ends the iteration, if code waits for a message. */
  end(): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.resolve(DONE);
  }
}

function costOf(data: string | Buffer): number {
  return (typeof data === 'string' ? 2 : 1) * data.length + MESSAGE_COST;
}
