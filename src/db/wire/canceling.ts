/**
 * What is done about a statement that takes too long: the server is told to give it up, and its answer is waited for, so that
 * the connection is in order afterwards. Where that does not come either, the connection ends.
 */
import { ConnectionLost, type DatabaseError } from '../errors.ts';
import { watchLimit } from '../limits.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

/** How long a statement that was told to end may take to, before the connection is given up. */
const CANCEL_GRACE_MS = 5_000;
/** The first pause before it is told again; each is twice the one before. */
const CANCEL_AGAIN_MS = 500;

/** Watches over one statement. `cancel` tells the server; `giveUp` ends the connection. */
export class Canceling {
  /** Why, once the limit is reached. */
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

  /** Whether the server was told, or is being told. */
  get wasRequested(): boolean {
    return this.#canceling !== undefined;
  }

  /** It is the one that the server works on, so that no other is hit. */
  begin(): void {
    this.#isFirst = true;
    this.#sendCancel();
  }

  /** The statement is over. A request to cancel that is still on its way would hit the next one: it is waited for. */
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
        new ConnectionLost('The server did not end a statement that it was told to', {
          sqlstate: '08006',
          cause: reached,
        }),
      );
      given.resolve();
    });
    this.#send(given.promise, CANCEL_AGAIN_MS);
  }

  /** A server that is just about to begin the statement hears nothing of it, so it is told again as long as the statement runs. */
  #send(given: Promise<void>, pauseMs: number): void {
    this.#canceling = Promise.race([given, this.#cancel().catch(() => undefined)]).then(() => {
      // when nobody can be told, the grace ends it
      if (!this.#isOver) this.#again = this.#clock.after(pauseMs, () => this.#send(given, 2 * pauseMs));
    });
  }
}
