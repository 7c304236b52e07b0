/**
 * What a pool says of itself: to its log, to who counts, and in the errors of those whom it cannot serve.
 */
import { PoolTimeout, type Caller } from '../errors.ts';
import type { DriverLoad } from '../driver.ts';
import type { PoolSetup, PooledConnection } from './pool-settings.ts';

/** How often connections that were left in use are logged. */
const WARN_EVERY_MS = 60_000;

/** How busy a pool is, and why it cannot make more connections. */
export interface PoolState extends DriverLoad {
  /** Connections that are being made, asked or cleaned up. */
  readonly coming: number;
  /** Of the last attempt to make one, if that has failed. */
  readonly failure: unknown;
}

/** The voice of one pool. */
export class PoolReports {
  readonly #setup: PoolSetup<PooledConnection>;
  #warnedMs = -Infinity;

  constructor(setup: PoolSetup<PooledConnection>) {
    this.#setup = setup;
  }

  opened(failures: number): void {
    if (failures > 0) this.#setup.log?.info('database_reached_again', { failures });
    this.#setup.onEvent?.('opened');
  }

  notOpened(error: unknown, isFirst: boolean): void {
    if (isFirst) this.#setup.log?.warn('database_not_reached', { reason: error });
    this.#setup.onEvent?.('connect_failed', error);
  }

  closed(): void {
    this.#setup.onEvent?.('closed');
  }

  /** Not worth a warning: servers restart, and networks cut what is idle. */
  lost(error: Error, place: string): void {
    this.#setup.log?.debug('connection_lost', { reason: error, place });
    this.#setup.onEvent?.('lost', error);
  }

  /** Each is counted, one a minute is logged. */
  leftOpen({ isInTransaction }: PooledConnection, caller: Caller | undefined): void {
    const { clock, log, onEvent } = this.#setup;
    onEvent?.('left_open');
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = nowMs;
    const what = isInTransaction ? 'Its transaction was rolled back' : 'Its statements were waited for';
    log?.warn('connection_left_in_use', {
      remedy: `${what}: await inside its callback everything that uses a transaction`,
      acquired: caller?.frames,
    });
  }

  heldLong(heldMs: number, caller: Caller | undefined): void {
    this.#setup.log?.warn('connection_held_long', { heldMs: Math.round(heldMs), acquired: caller?.frames });
    this.#setup.onEvent?.('held_long');
  }

  closedInUse(load: DriverLoad): void {
    this.#setup.log?.warn('database_closed_in_use', {
      ...load,
      remedy: 'Let callbacks of transactions settle, and loops over streams end',
    });
  }

  timedOut(state: PoolState): PoolTimeout {
    this.#setup.onEvent?.('timeout');
    return this.#timeout(`none was free within ${this.#setup.acquireTimeoutMs} ms`, state);
  }

  refused(state: PoolState): PoolTimeout {
    this.#setup.onEvent?.('refused');
    return this.#timeout(`${state.waiting} callers wait for one already`, state);
  }

  #timeout(problem: string, { inUse, idle, waiting, coming, failure }: PoolState): PoolTimeout {
    const why =
      failure === undefined
        ? ''
        : `; the last attempt to make one failed: ${failure instanceof Error ? failure.message : String(failure)}`;
    const counts = `${inUse} in use, ${coming} on their way, at most ${this.#setup.max}; ${waiting} callers wait`;
    return new PoolTimeout(`No connection to the database: ${problem} (${counts})${why}`, {
      sqlstate: '53300',
      load: { inUse, idle, waiting },
      ...(failure === undefined ? {} : { cause: failure }),
    });
  }
}
