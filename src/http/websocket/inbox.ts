/**
 * Inbox of one WebSocket: messages that wait until the current handler has finished, or until code that
 * iterates the socket reads them.
 *
 * When the inbox of a WebSocket is full, the server stops reading from its client. It continues when half of
 * the inbox is free.
 */
import { SvcError } from '../../base/errors.ts';
import { copyOf } from './frames.ts';

/** Maximum size in bytes of all waiting messages. */
const MAX_BYTES = 65_536;
/** Memory that each message takes in addition to its content, in bytes. */
const MESSAGE_COST = 128;

/** Converts a received message to the value that handlers get. */
export interface MessageDecoder {
  decode(data: string | Buffer): unknown;
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

interface Waiter {
  resolve(result: IteratorResult<unknown, undefined>): void;
  reject(error: unknown): void;
}

/**
 * Waiting messages, the oldest first. Created when the first message must wait, because most sockets never
 * need it.
 */
export class Inbox {
  readonly #messages: (string | Buffer)[] = [];
  #bytes = 0;
  /** Size of the message that the code that iterates the socket is processing. */
  #takenBytes = 0;
  #isIterated = false;
  #isReplyDue = false;
  #waiter: Waiter | undefined;

  /** Whether code iterates the messages of the socket. */
  get isIterated(): boolean {
    return this.#isIterated;
  }

  /** Whether the code that iterates the socket waits for a message. */
  get isAwaited(): boolean {
    return this.#waiter !== undefined;
  }

  /** Whether the code that iterates the socket is processing a message, so it may still send a reply. */
  get isReplyDue(): boolean {
    return this.#isReplyDue;
  }

  get hasMessages(): boolean {
    return this.#messages.length > 0;
  }

  /** Size in bytes of all messages that wait or are being processed by the code that iterates the socket. */
  get heldBytes(): number {
    return this.#bytes + this.#takenBytes;
  }

  /** Whether the server must stop reading from the client. */
  get isFull(): boolean {
    return this.#bytes > MAX_BYTES;
  }

  /** Whether the server may continue reading from the client. */
  get hasRoom(): boolean {
    return this.#bytes <= MAX_BYTES / 2;
  }

  /** Copies a message that takes less than half of its chunk, so that the chunk does not stay in memory. */
  add(data: string | Buffer): void {
    const mustCopy =
      this.#waiter === undefined && typeof data !== 'string' && 2 * data.length < data.buffer.byteLength;
    this.#messages.push(mustCopy ? copyOf(data) : data);
    this.#bytes += costOf(data);
  }

  /** Removes and returns the oldest message. The inbox must not be empty. */
  shift(): string | Buffer {
    const data = this.#messages.shift()!;
    this.#bytes -= costOf(data);
    return data;
  }

  clear(): void {
    this.#messages.length = this.#bytes = 0;
  }

  /**
   * Returns an iterator of the messages. `proceed` is called when the iterator needs a message; {@link answer}
   * then provides one. It is also called when a loop is left early. After that, other code may iterate.
   */
  iterate(proceed: () => void): AsyncIterator<unknown, undefined> {
    this.#isIterated = true;
    let hasLeft = false;
    return {
      next: () => (hasLeft ? Promise.resolve(DONE) : this.#next(proceed)),
      return: () => {
        if (!hasLeft) {
          hasLeft = true;
          this.#isIterated = false;
          this.end();
          proceed();
        }
        return Promise.resolve(DONE);
      },
    };
  }

  #next(proceed: () => void): Promise<IteratorResult<unknown, undefined>> {
    // only one call at a time can wait for a message
    if (this.#waiter !== undefined) return Promise.reject(new SvcError('E_WEBSOCKET_ITERATED', []));
    this.#isReplyDue = false;
    this.#takenBytes = 0;
    this.#isIterated = true; // answer() sets #isIterated to false when decode() throws
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
      proceed();
    });
  }

  /** If `decode` throws, the promise of the iterator rejects, and the iteration ends. */
  answer(decoder: MessageDecoder): void {
    while (this.#waiter !== undefined && this.#messages.length > 0) {
      const waiter = this.#waiter;
      this.#isReplyDue = true;
      try {
        const data = this.shift();
        this.#takenBytes = costOf(data);
        const value = decoder.decode(data);
        this.#waiter = undefined;
        waiter.resolve({ done: false, value });
      } catch (error) {
        this.#waiter = undefined;
        this.#isIterated = false;
        waiter.reject(error);
      }
    }
  }

  /** Ends the iteration that waits for a message. */
  end(): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.resolve(DONE);
  }
}

/** Returns the memory in bytes that a received message takes. */
export function costOf(data: string | Buffer): number {
  return (typeof data === 'string' ? 2 : 1) * data.length + MESSAGE_COST;
}
