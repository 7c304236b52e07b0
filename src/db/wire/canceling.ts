/**
 * Handles a statement that exceeds its limit: cancels it on the server and waits for its reply, so that the
 * connection stays usable. If no reply arrives, closes the connection.
 */
import { ConnectionLost, type DatabaseError } from '../errors.ts';
import { watchLimit } from '../limits.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

/** Milliseconds that a canceled statement may still run. Then its connection is closed. */
const CANCEL_GRACE_MS = 5_000;
/** Milliseconds before the cancellation is sent again. Each further pause is twice as long. */
const CANCEL_AGAIN_MS = 500;

/**
 * Watches the time limit of one statement. The callback `cancel` sends a cancellation to the server, and
 * `giveUp` closes the connection.
 */
export class Canceling {
  /** Error for the caller, QueryTimeout or QueryCanceled. Undefined until the limit is reached. */
  reached: DatabaseError | undefined;
  readonly #cancel: () => Promise<void>;
  readonly #clock: Clock;
  readonly #watched: Disposable | undefined;
  readonly #giveUp: (error: Error) => void;
  #isFirst = false;
  #isOver = false;
  #canceling: Promise<void> | undefined;
  #again: Disposable | undefined;
  #grace: Disposable | undefined;

  constructor(
    sql: string,
    limit: Limit,
    clock: Clock,
    cancel: () => Promise<void>,
    giveUp: (error: Error) => void,
  ) {
    this.#cancel = cancel;
    this.#clock = clock;
    this.#giveUp = giveUp;
    this.#watched = watchLimit(
      limit,
      clock,
      (error) => {
        this.reached = error;
        this.#sendCancel();
      },
      sql,
    );
  }

  /** Whether a cancellation was sent, or is being sent. */
  get wasRequested(): boolean {
    return this.#canceling !== undefined;
  }

  /**
   * Allows cancellations, because the server starts to work on this statement. An earlier cancellation could
   * end another statement.
   */
  begin(): void {
    this.#isFirst = true;
    this.#sendCancel();
  }

  /**
   * Stops watching, because the statement has ended. If a cancellation is being sent, waits until it is sent,
   * because a late cancellation could end the next statement.
   */
  async end(): Promise<void> {
    this.#isOver = true;
    this.#watched?.[Symbol.dispose]();
    this.#again?.[Symbol.dispose]();
    await this.#canceling;
    this.#grace?.[Symbol.dispose]();
  }

  #sendCancel(): void {
    if (!this.#isFirst || this.reached === undefined || this.#canceling !== undefined) return;
    const { reached } = this;
    const given = Promise.withResolvers<void>();
    this.#grace = this.#clock.after(CANCEL_GRACE_MS, () => {
      this.#isOver = true;
      this.#again?.[Symbol.dispose]();
      this.#giveUp(
        new ConnectionLost(
          `The server did not end a canceled statement within ${CANCEL_GRACE_MS} ms, so the connection was closed`,
          { cause: reached },
        ),
      );
      given.resolve();
    });
    this.#send(given.promise, CANCEL_AGAIN_MS);
  }

  /**
   * Sends the cancellation, and repeats it while the statement runs: a server ignores a cancellation that
   * arrives just before the statement starts.
   */
  #send(given: Promise<void>, pauseMs: number): void {
    this.#canceling = Promise.race([given, this.#cancel().catch(() => undefined)]).then(() => {
      // if the cancellation cannot be sent, `giveUp` ends the statement later
      if (!this.#isOver) this.#again = this.#clock.after(pauseMs, () => this.#send(given, 2 * pauseMs));
    });
  }
}
