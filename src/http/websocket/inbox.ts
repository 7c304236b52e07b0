/**
 * Inbox of one WebSocket: messages that wait for a running handler, or for code that iterates the socket.
 *
 * When the inbox is full, reading from the peer stops. It continues when half of the inbox is free.
 */
import { SvcError } from '../../base/errors.ts';
import { copyOf } from './frames.ts';

/** Reading stops when more bytes than this wait. */
const MAX_BYTES = 65_536;
/** Cost of a message in addition to its bytes, in bytes. */
const MESSAGE_COST = 128;

/** Converts a message to the value that handlers get. */
export interface MessageDecoder {
  decode(data: string | Buffer): unknown;
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

interface Waiter {
  resolve(result: IteratorResult<unknown, undefined>): void;
  reject(error: unknown): void;
}

/**
 * Waiting messages, in order. Created when the first message must wait, because most sockets never need it.
 */
export class Inbox {
  readonly #messages: (string | Buffer)[] = [];
  #bytes = 0;
  #isIterated = false;
  #isReplyDue = false;
  #waiter: Waiter | undefined;

  /** Whether code iterates the messages. If true, no handler gets them. */
  get isIterated(): boolean {
    return this.#isIterated;
  }

  /** Whether the iterating code waits for a message. */
  get isAwaited(): boolean {
    return this.#waiter !== undefined;
  }

  /**
   * Whether the code that iterates has taken a message, and does not wait for the next one yet. If so, it may
   * still send a reply.
   */
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

  /** Whether reading may continue. */
  get hasRoom(): boolean {
    return this.#bytes <= MAX_BYTES / 2;
  }

  /**
   * Adds a message. Bytes that use less than half of their chunk are copied, so that a small message does not
   * keep the whole chunk in memory.
   */
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

  /** Drops all messages. */
  clear(): void {
    this.#messages.length = this.#bytes = 0;
  }

  /**
   * Returns an iterator of the messages. Calls `onWait` when the code waits for a message; then {@link
   * answer} passes one on. Calls `onStop` when the code leaves the loop. After that, other code may iterate.
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
    // only one call at a time can wait for a message
    if (this.#waiter !== undefined) return Promise.reject(new SvcError('E_WEBSOCKET_ITERATED', []));
    this.#isReplyDue = false;
    this.#isIterated = true; // iteration may continue after a message that could not be decoded
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
      onWait();
    });
  }

  /**
   * Passes messages to the code that iterates, as long as it waits for one. An error of `decode` rejects the
   * promise of that code, which ends a `for await` loop without a call of return(). So from then on other
   * code may iterate.
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

  /** Ends the iteration of code that waits for a message. */
  end(): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.resolve(DONE);
  }
}

function costOf(data: string | Buffer): number {
  return (typeof data === 'string' ? 2 : 1) * data.length + MESSAGE_COST;
}
