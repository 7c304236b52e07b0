/**
 * A pool of connections to a server, for any protocol. It lends each connection to one caller at a time,
 * limits the number of connections, and serves waiting callers in the order of their calls.
 *
 * The pool opens a connection for a waiting caller, or to reach its minimum size. A new or returned
 * connection is lent to the caller that has waited longest. If no caller waits, the connection becomes idle.
 *
 * A broken connection is never lent. A connection that is returned with an open transaction or a pending
 * statement is cleaned up before it is lent again. If an idle connection ends, no caller gets an error.
 */
import { SvcError } from '../../base/errors.ts';
import { Backoff } from './backoff.ts';
import { type Caller, ConnectionLost, PoolTimeout, atCaller, callerHere } from '../errors.ts';
import { limitIn } from '../limits.ts';
import { isPassing, type PoolDeps } from './pool-settings.ts';
import { Waiters } from '../waiters.ts';
import type { Awaitable } from '../../cache/stores.ts';
import type { DriverLoad, Limit } from '../driver.ts';
import type { PooledConnection } from './pool-settings.ts';

/** Milliseconds of idle time after which a connection is checked before it is lent. */
const TRUSTED_MS = 1_000;
const PING_MS = 2_000;
const CLEAN_UP_MS = 3_000;
/** Milliseconds between checks of idle times, ages and lent connections. */
const TICK_MS = 1_000;
/**
 * Expected minimum lifetime of a connection in milliseconds. If an unused connection ends sooner, the pool
 * waits before it opens another one.
 */
const YOUNG_MS = 5_000;
/** Fraction by which the lifetimes of connections vary at random, so that they do not all end together. */
const JITTER = 0.1;

/** State of a connection. `busy` means that the pool is checking it, cleaning it up or closing it. */
type Place = 'idle' | 'lent' | 'busy';

interface Slot<C> {
  readonly connection: C;
  readonly retireMs: number;
  readonly openedMs: number;
  place: Place;
  /** Time at which the connection entered this state. */
  sinceMs: number;
  wasLent: boolean;
  caller: Caller | undefined;
  isReported: boolean;
}

export class Pool<C extends PooledConnection> {
  readonly #deps: PoolDeps<C>;
  readonly #random: () => number;
  readonly #backoff: Backoff;
  /**
   * Pauses between attempts to open idle connections, which the option `min` requires. Attempts for waiting
   * callers do not use these pauses.
   */
  readonly #filling: Backoff;
  readonly #reports: PoolReports;
  readonly #waiters: Waiters<C>;
  readonly #slots = new Map<C, Slot<C>>();
  /** Idle connections. The last element was returned most recently. */
  readonly #idle: Slot<C>[] = [];
  readonly #ending = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  #inUse = 0;
  #opening = 0;
  #busy = 0;
  #asking = 0;
  #ticking: Disposable | undefined;
  #fillingLater: Disposable | undefined;
  #isPausing = false;
  /** Error of the last attempt to connect, if that attempt failed. */
  #failure: unknown;
  #closing: Promise<void> | undefined;
  /** Set when the pool starts to close. Settles when all connections are closed. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(deps: PoolDeps<C>) {
    this.#deps = deps;
    this.#random = deps.random ?? Math.random;
    this.#backoff = new Backoff(this.#random);
    this.#filling = new Backoff(this.#random);
    this.#reports = new PoolReports(deps);
    this.#waiters = new Waiters({
      clock: deps.clock,
      timeoutMs: deps.acquireTimeoutMs,
      timedOut: () => this.#reports.timedOut(this.#state()),
      onLeave: () => this.#settle(),
    });
  }

  get load(): DriverLoad {
    return { inUse: this.#inUse, idle: this.#idle.length, waiting: this.#waiters.size };
  }

  /** Number of connections that are open or being opened. */
  get size(): number {
    return this.#slots.size + this.#opening;
  }

  /**
   * Lends a connection. Returns it at once if one is free. Otherwise returns a promise that resolves with the
   * next free connection.
   *
   * @throws PoolTimeout when too many callers wait, or the wait is too long; QueryCanceled or QueryTimeout
   *   when `limit` is reached; SvcError `E_DB_CLOSED` after close(); the server's error if it is permanent
   */
  acquire(limit: Limit | undefined): Awaitable<C> {
    if (this.#drained !== undefined) throw closed();
    const caller = this.#deps.leakAfterMs > 0 ? callerHere() : undefined;
    const slot = this.#waiters.size === 0 ? this.#popIdle() : undefined;
    if (slot !== undefined) {
      const nowMs = this.#deps.clock.monotonicMs();
      if (nowMs - slot.sinceMs <= TRUSTED_MS) return this.#lend(slot, nowMs, caller);
      void this.#ask(slot);
    }
    return this.#wait(limit, caller);
  }

  /** Takes a connection back. Ignores a connection that is not lent or belongs to another pool. */
  release(connection: C): void {
    const slot = this.#slots.get(connection);
    if (slot?.place !== 'lent') return;
    this.#inUse--;
    if (connection.isBroken) this.#drop(slot);
    else if (connection.isIdle && this.#deps.reset === 'transaction') this.#offer(slot);
    else void this.#cleanUp(slot);
  }

  /** Starts to open the minimum number of connections. */
  fill(): void {
    this.#pump();
  }

  /**
   * Refuses new callers, serves the waiting ones, and closes each connection when it is returned. After
   * `closeMs`, closes the connections that are still lent, too. May be called again.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  #lend(slot: Slot<C>, nowMs: number, caller: Caller | undefined): C {
    slot.place = 'lent';
    slot.wasLent = true;
    slot.sinceMs = nowMs;
    slot.caller = caller;
    slot.isReported = false;
    this.#inUse++;
    return slot.connection;
  }

  #wait(limit: Limit | undefined, caller: Caller | undefined): Promise<C> {
    if (this.#isHopeless()) throw this.#failure;
    if (
      this.#waiters.size - this.#coming() >= this.#deps.maxWaiting &&
      !(this.size < this.#deps.max && this.#mayConnect())
    ) {
      throw this.#reports.refused(this.#state());
    }
    const waiting = this.#waiters.add(limit, caller);
    this.#pump();
    return waiting;
  }

  /**
   * Lends a connection to the caller that has waited longest. If no caller waits, the connection becomes
   * idle.
   */
  #offer(slot: Slot<C>): void {
    const { connection } = slot;
    const nowMs = this.#deps.clock.monotonicMs();
    if (connection.isBroken || connection.isStale || nowMs >= slot.retireMs) return this.#drop(slot);
    const waiter = this.#waiters.size > 0 ? this.#waiters.shift() : undefined;
    if (waiter !== undefined) {
      waiter.resolve(this.#lend(slot, nowMs, waiter.caller));
      return;
    }
    if (this.#drained !== undefined) return this.#drop(slot);
    slot.place = 'idle';
    slot.sinceMs = nowMs;
    this.#idle.push(slot);
  }

  #popIdle(): Slot<C> | undefined {
    for (let slot = this.#idle.pop(); slot !== undefined; slot = this.#idle.pop()) {
      if (!slot.connection.isBroken && !slot.connection.isStale) return slot;
      this.#drop(slot);
    }
    return undefined;
  }

  /** Number of connections that can be lent after they are opened, checked or cleaned up. */
  #coming(): number {
    return this.#opening + this.#busy;
  }

  /** Opens connections for waiting callers, or to reach `min`. */
  #pump(): void {
    while (this.#waiters.size > this.#asking) {
      // check an idle connection for a waiting caller, because opening a new one may take longer
      const slot = this.#popIdle();
      if (slot === undefined) break;
      void this.#ask(slot);
    }
    while (this.size < this.#deps.max && this.#wantsMore() && this.#mayConnect()) void this.#open();
    this.#settle();
  }

  #wantsMore(): boolean {
    return (
      this.#waiters.size > this.#coming() ||
      (this.size < this.#deps.min && this.#drained === undefined && this.#isWorthTrying() && this.#mayFill())
    );
  }

  /**
   * Returns whether a connection may be opened although no caller waits for it. If the server has closed a
   * new connection early, only one may be opened at a time.
   */
  #mayFill(): boolean {
    if (this.#filling.failures === 0) return true;
    const { clock } = this.#deps;
    const nowMs = clock.monotonicMs();
    // wait until a new connection has lasted for YOUNG_MS; then #tick() opens more
    if (this.#opening > 0 || this.#idle.some(({ openedMs }) => nowMs - openedMs < YOUNG_MS)) return false;
    const waitMs = this.#filling.waitMs(nowMs);
    if (waitMs > 0)
      this.#fillingLater ??= clock.after(Math.ceil(waitMs), () => {
        this.#fillingLater = undefined;
        this.#pump();
      });
    return waitMs === 0;
  }

  async #open(): Promise<void> {
    const { clock, connect, connectTimeoutMs } = this.#deps;
    const startedMs = clock.monotonicMs();
    this.#opening++;
    let connection: C;
    try {
      connection = await connect(limitIn(connectTimeoutMs, clock, this.#abort.signal));
    } catch (error) {
      this.#opening--;
      this.#failed(error, startedMs);
      return;
    }
    this.#opening--;
    if (!connection.isBroken && !connection.isStale) return this.#opened(connection);
    // count this connection as a failure, so that the next one is opened after a pause
    connection.destroy();
    this.#failed(
      new ConnectionLost(
        'The new connection cannot be used: the server ended the connection, or does not accept writes',
        { sqlstate: '08001' },
      ),
      startedMs,
    );
  }

  #opened(connection: C): void {
    const { clock, maxLifetimeMs } = this.#deps;
    this.#reports.opened(this.#failure === undefined ? 0 : this.#backoff.failures);
    this.#backoff.succeed();
    this.#failure = undefined;
    const nowMs = clock.monotonicMs();
    const retireMs = nowMs + maxLifetimeMs * (1 + JITTER * (2 * this.#random() - 1));
    const slot: Slot<C> = {
      connection,
      retireMs,
      openedMs: nowMs,
      place: 'busy',
      sinceMs: nowMs,
      wasLent: false,
      caller: undefined,
      isReported: false,
    };
    this.#slots.set(connection, slot);
    connection.onLost = (error) => this.#lost(slot, error);
    if (this.#abort.signal.aborted) return this.#drop(slot);
    this.#tickLater();
    this.#offer(slot);
    this.#pump(); // after a success, several connections may be opened at the same time
  }

  #failed(error: unknown, startedMs: number): void {
    this.#reports.notOpened(error, this.#failure === undefined && !this.#abort.signal.aborted);
    this.#failure = error;
    this.#backoff.fail(startedMs, this.#deps.clock.monotonicMs());
    if (this.#isHopeless()) this.#waiters.rejectAll(() => error);
    this.#pump();
  }

  /** Returns whether another connection may be opened now. If not, schedules a later check. */
  #mayConnect(): boolean {
    if (this.#opening >= this.#backoff.most) return false;
    const waitMs = this.#backoff.waitMs(this.#deps.clock.monotonicMs());
    if (waitMs > 0 && !this.#isPausing) void this.#pause(waitMs);
    return waitMs === 0;
  }

  /**
   * Waits before the next attempt. Unlike the pool's other timers, this one keeps the process alive, because
   * the program may only be waiting for its database.
   */
  async #pause(ms: number): Promise<void> {
    this.#isPausing = true;
    try {
      await this.#deps.clock.sleep(Math.ceil(ms), this.#abort.signal);
    } catch {
      // ignore the error: the pool was closed, so the pause ends
    }
    this.#isPausing = false;
    this.#pump();
  }

  /**
   * Returns whether no caller can get a connection: none is open, and the server permanently refuses new
   * ones.
   */
  #isHopeless(): boolean {
    return (
      this.#slots.size === 0 &&
      !this.#isWorthTrying() &&
      this.#backoff.waitMs(this.#deps.clock.monotonicMs()) > 0
    );
  }

  #isWorthTrying(): boolean {
    return this.#failure === undefined || isPassing(this.#failure);
  }

  /** Checks whether the server still answers on a connection, before it is offered to a caller. */
  async #ask(slot: Slot<C>): Promise<void> {
    this.#asking++;
    await this.#prepare(slot, PING_MS, async (limit) => {
      try {
        await slot.connection.ping(limit);
      } finally {
        this.#asking--;
      }
    });
  }

  #cleanUp(slot: Slot<C>): Promise<void> {
    const { connection } = slot;
    if (!connection.isIdle) this.#reports.leftOpen(connection, slot.caller);
    return this.#prepare(slot, CLEAN_UP_MS, async (limit) => {
      if (connection.isInTransaction) await connection.rollback();
      else if (!connection.isIdle) await connection.ping(limit);
      if (this.#deps.reset === 'full') await connection.reset();
      if (!connection.isIdle)
        throw new ConnectionLost(
          'A connection came back to the pool with an open transaction or statement, which could not be ended',
        );
    });
  }

  /**
   * Runs `work` on a connection, and then lends the connection or makes it idle. If `work` fails or takes too
   * long, the connection is closed.
   */
  async #prepare(slot: Slot<C>, timeoutMs: number, work: (limit: Limit) => Promise<void>): Promise<void> {
    const { clock } = this.#deps;
    slot.place = 'busy';
    this.#busy++;
    // when the connection is destroyed, `work` rejects
    const tooLong = clock.after(timeoutMs, () => slot.connection.destroy());
    try {
      await work(limitIn(timeoutMs, clock, this.#abort.signal));
    } catch {
      slot.connection.destroy();
    }
    tooLong[Symbol.dispose]();
    this.#busy--;
    this.#offer(slot);
  }

  #lost(slot: Slot<C>, error: Error): void {
    if (!this.#slots.has(slot.connection)) return;
    this.#reports.lost(error, slot.place);
    // a lent connection is closed when its caller returns it, and a busy one when its check or cleanup ends
    if (slot.place !== 'idle') return;
    const nowMs = this.#deps.clock.monotonicMs();
    if (!slot.wasLent && nowMs - slot.openedMs < YOUNG_MS) this.#filling.fail(slot.openedMs, nowMs);
    this.#idle.splice(this.#idle.indexOf(slot), 1);
    this.#drop(slot);
  }

  #drop(slot: Slot<C>): void {
    const { connection } = slot;
    slot.place = 'busy';
    this.#slots.delete(connection);
    this.#reports.closed();
    if (connection.isBroken) {
      connection.destroy();
      this.#backoff.suspect();
    } else {
      this.#end(connection);
    }
    this.#pump();
  }

  #end(connection: C): void {
    const ending = connection.close();
    this.#ending.add(ending);
    const late = this.#deps.clock.after(CLEAN_UP_MS, () => connection.destroy());
    void ending.finally(() => {
      late[Symbol.dispose]();
      this.#ending.delete(ending);
    });
  }

  #tickLater(): void {
    this.#ticking ??= this.#deps.clock.after(TICK_MS, () => {
      this.#ticking = undefined;
      this.#tick();
      if (this.#slots.size > 0) this.#tickLater();
    });
  }

  #tick(): void {
    const { clock, idleMs, min, leakAfterMs } = this.#deps;
    const nowMs = clock.monotonicMs();
    for (const slot of this.#idle.slice()) {
      // `#idle` begins with the connection that has been idle longest, which is closed first
      const isTooMany = this.size > min && nowMs - slot.sinceMs >= idleMs;
      if (slot.place !== 'idle' || !(isTooMany || nowMs >= slot.retireMs || slot.connection.isStale))
        continue;
      this.#idle.splice(this.#idle.indexOf(slot), 1);
      this.#drop(slot);
    }
    if (this.#filling.failures > 0 && this.#idle.some(({ openedMs }) => nowMs - openedMs >= YOUNG_MS)) {
      this.#filling.succeed();
      this.#pump();
    }
    if (leakAfterMs > 0) for (const slot of this.#slots.values()) this.#reportLeak(slot, nowMs);
  }

  #reportLeak(slot: Slot<C>, nowMs: number): void {
    if (slot.place !== 'lent' || slot.isReported || nowMs - slot.sinceMs < this.#deps.leakAfterMs) return;
    slot.isReported = true;
    this.#reports.heldLong(nowMs - slot.sinceMs, slot.caller);
  }

  async #close(): Promise<void> {
    const { clock, closeMs } = this.#deps;
    const drained = (this.#drained = Promise.withResolvers<void>());
    for (const slot of this.#idle.splice(0)) this.#drop(slot);
    this.#settle();
    const late = clock.after(closeMs, () => {
      this.#reports.closedInUse(this.load);
      this.#giveUp();
    });
    await drained.promise;
    late[Symbol.dispose]();
    await Promise.all(this.#ending);
    this.#ticking?.[Symbol.dispose]();
    this.#fillingLater?.[Symbol.dispose]();
  }

  #giveUp(): void {
    this.#abort.abort(closed());
    this.#waiters.rejectAll(closed);
    for (const { connection } of this.#slots.values()) connection.destroy();
    this.#drained?.resolve();
  }

  /**
   * Has no effect unless the pool is closing. When no caller waits, stops opening connections. When no
   * connection is left, completes close().
   */
  #settle(): void {
    if (this.#drained === undefined || this.#waiters.size > 0) return;
    if (!this.#abort.signal.aborted) this.#abort.abort(closed());
    if (this.#slots.size === 0 && this.#opening === 0) this.#drained.resolve();
  }

  #state(): PoolState {
    return { ...this.load, coming: this.#coming(), failure: this.#failure };
  }
}

function closed(): unknown {
  return atCaller(new SvcError('E_DB_CLOSED', []));
}

/** Minimum milliseconds between two warnings about connections that were returned with pending work. */
const WARN_EVERY_MS = 60_000;

interface PoolState extends DriverLoad {
  /** Number of connections that are being opened, checked or cleaned up. */
  readonly coming: number;
  /** Error of the last attempt to connect, if that attempt failed. */
  readonly failure: unknown;
}

/** Writes the log entries and events of a pool, and creates its PoolTimeout errors. */
class PoolReports {
  readonly #deps: PoolDeps<PooledConnection>;
  #warnedMs = -Infinity;

  constructor(deps: PoolDeps<PooledConnection>) {
    this.#deps = deps;
  }

  opened(failures: number): void {
    if (failures > 0) this.#deps.log?.info('database_reached_again', { failures });
    this.#deps.onEvent?.('opened');
  }

  notOpened(error: unknown, isFirst: boolean): void {
    if (isFirst) this.#deps.log?.warn('database_not_reached', { reason: error });
    this.#deps.onEvent?.('connect_failed', error);
  }

  closed(): void {
    this.#deps.onEvent?.('closed');
  }

  /**
   * Records a lost connection. Logs it only at level debug, because lost connections are common, for example
   * after a restart of the server.
   */
  lost(error: Error, place: string): void {
    this.#deps.log?.debug('connection_lost', { reason: error, place });
    this.#deps.onEvent?.('lost', error);
  }

  /**
   * Records a connection that was returned with an open transaction or a pending statement. Logs at most one
   * warning a minute.
   */
  leftOpen({ isInTransaction }: PooledConnection, caller: Caller | undefined): void {
    const { clock, log, onEvent } = this.#deps;
    onEvent?.('left_open');
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = nowMs;
    const what = isInTransaction
      ? 'The pool rolled the transaction back'
      : 'The pool waited for the statements';
    log?.warn('connection_left_in_use', {
      remedy: `${what}: inside the callback of a transaction, await every statement of the transaction`,
      acquired: caller?.frames,
    });
  }

  heldLong(heldMs: number, caller: Caller | undefined): void {
    this.#deps.log?.warn('connection_held_long', { heldMs: Math.round(heldMs), acquired: caller?.frames });
    this.#deps.onEvent?.('held_long');
  }

  closedInUse(load: DriverLoad): void {
    this.#deps.log?.warn('database_closed_in_use', {
      ...load,
      remedy:
        'Before you close the database, wait until all transactions and all loops over stream() have ended',
    });
  }

  timedOut(state: PoolState): PoolTimeout {
    this.#deps.onEvent?.('timeout');
    return this.#timeout(`none became free within ${this.#deps.acquireTimeoutMs} ms`, state);
  }

  refused(state: PoolState): PoolTimeout {
    this.#deps.onEvent?.('refused');
    return this.#timeout(`${state.waiting} callers already wait, and "maxWaiting" allows no more`, state);
  }

  #timeout(problem: string, { inUse, idle, waiting, coming, failure }: PoolState): PoolTimeout {
    const why =
      failure === undefined
        ? ''
        : `; the last attempt to connect to the database failed: ${failure instanceof Error ? failure.message : String(failure)}`;
    const counts = `${inUse} in use, ${coming} being opened or checked, maximum ${this.#deps.max}; ${waiting} waiting`;
    return new PoolTimeout(`No connection to the database: ${problem} (${counts}${why})`, {
      load: { inUse, idle, waiting },
      ...(failure === undefined ? {} : { cause: failure }),
    });
  }
}
