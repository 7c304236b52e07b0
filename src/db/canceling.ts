/**
 * What is done about a statement that takes too long: the server is told to give it up, and its answer is waited for, so that
 * the connection is in order afterwards. Where that does not come either, the connection ends.
 */
import { ConnectionLost, type DatabaseError } from './db-errors.ts';
import { watchLimit } from './limits.ts';
import type { Clock } from '../clock.ts';
import type { Limit } from './driver.ts';

/** How long a statement that was told to end may take to, before the connection is given up. */
const CANCEL_GRACE_MS = 5_000;

/** Watches over one statement. `cancel` tells the server; `giveUp` ends the connection. */
export class Canceling {
  /** Why, once the limit is reached. */
  reached: DatabaseError | undefined;
  readonly #cancel: () => Promise<void>;
  readonly #clock: Clock;
  readonly #watched: Disposable | undefined;
  readonly #giveUp: (error: Error) => void;
  #isFirst = false;
  #telling: Promise<void> | undefined;
  #grace: Disposable | undefined;

  constructor(sql: string, limit: Limit, clock: Clock, cancel: () => Promise<void>, giveUp: (error: Error) => void) {
    this.#cancel = cancel;
    this.#clock = clock;
    this.#giveUp = giveUp;
    this.#watched = watchLimit(limit, clock, (error) => {
      this.reached = error;
      this.#tell();
    }, sql);
  }

  /** Whether the server was told, or is being told. */
  get wasTold(): boolean { return this.#telling !== undefined; }

  /** It is the one that the server works on, so that no other is hit. */
  begin(): void {
    this.#isFirst = true;
    this.#tell();
  }

  /** The statement is over. A request to cancel that is still on its way would hit the next one: it is waited for. */
  async end(): Promise<void> {
    this.#watched?.[Symbol.dispose]();
    await this.#telling;
    this.#grace?.[Symbol.dispose]();
  }

  #tell(): void {
    if (!this.#isFirst || this.reached === undefined || this.#telling !== undefined) return;
    const { reached } = this;
    const given = Promise.withResolvers<void>();
    this.#grace = this.#clock.after(CANCEL_GRACE_MS, () => {
      this.#giveUp(new ConnectionLost('The server did not end a statement that it was told to', { sqlstate: '08006', cause: reached }));
      given.resolve();
    });
    this.#telling = Promise.race([given.promise, this.#cancel().catch(() => undefined)]); // when nobody can be told, the grace ends it
  }
}
