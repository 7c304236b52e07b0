/**
 * Connections to a server, lent to one owner at a time: bounded, fair, timed. Knows no protocol: `connect` makes them.
 *
 *   acquire - an idle one, the last that was given back -----------------------------\
 *           \ else join the queue, and see that as many are on their way -\          +-> lent - release -\
 *                                                                         v          |                  |
 *             opened | asked whether it still answers | cleaned up -> first of the queue, else idle <-----/
 *
 * Nothing is idle while anybody waits who is not about to be served. A broken connection is never lent; one that comes back with a transaction open, or with a
 * statement under way, is cleaned up first. Idle ones that end are counted, and nobody is bothered.
 */
import { SvcError } from '../../base/errors.ts';
import { Backoff } from './backoff.ts';
import { type Caller, ConnectionLost, PoolTimeout, atCaller, callerHere } from '../errors.ts';
import { isPassing, type PoolDeps } from './pool-settings.ts';
import { Waiters } from '../waiters.ts';
import type { Awaitable } from '../../cache/stores.ts';
import type { DriverLoad, Limit } from '../driver.ts';
import type { PooledConnection } from './pool-settings.ts';

/** How long a connection may have been idle before it is asked whether it still answers, and how long it may take to say so. */
const TRUSTED_MS = 1_000;
const PING_MS = 2_000;
/** How long cleaning up after an owner may take. */
const CLEAN_UP_MS = 3_000;
/** How often idle times, ages and loans are looked at. */
const TICK_MS = 1_000;
/** One that ends by itself before it is so old, and was never lent, was not worth making: others are not made at once in its place. */
const YOUNG_MS = 5_000;
/** Ages differ by up to this part, so that connections made together do not end together. */
const JITTER = 0.1;

/** Where a connection is. `busy`: it is being asked, cleaned up or ended. */
type Place = 'idle' | 'lent' | 'busy';

interface Slot<C> {
  readonly connection: C;
  readonly retireMs: number;
  readonly openedMs: number;
  place: Place;
  /** Since when it is there. */
  sinceMs: number;
  wasLent: boolean;
  caller: Caller | undefined;
  isReported: boolean;
}

/** The connections to one database. */
export class Pool<C extends PooledConnection> {
  readonly #deps: PoolDeps<C>;
  readonly #random: () => number;
  readonly #backoff: Backoff;
  /** Of those that nobody has asked for: they pause while the server ends them as soon as they are idle. Callers do not. */
  readonly #filling: Backoff;
  readonly #reports: PoolReports;
  readonly #waiters: Waiters<C>;
  readonly #slots = new Map<C, Slot<C>>();
  /** The last one is the last that was given back. */
  readonly #idle: Slot<C>[] = [];
  readonly #ending = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  #inUse = 0;
  #opening = 0;
  /** Those that are being asked or cleaned up, and of these the ones that are being asked. */
  #busy = 0;
  #asking = 0;
  #ticking: Disposable | undefined;
  #fillingLater: Disposable | undefined;
  #isPausing = false;
  /** Why the last attempt has failed, if it has. */
  #failure: unknown;
  #closing: Promise<void> | undefined;
  /** There once it is being closed. */
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

  /** All that count towards `max`: idle, lent, and on their way. */
  get size(): number {
    return this.#slots.size + this.#opening;
  }

  /**
   * Lends a connection: at once without a promise, or when it is this caller's turn.
   *
   * @throws PoolTimeout when too many wait, or it takes too long; QueryCanceled, QueryTimeout by the limit; SvcError `E_DB_CLOSED`;
   * what the server refuses every log-in with
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

  /** Takes a connection back. One that is not lent, or not one of these, is left alone. */
  release(connection: C): void {
    const slot = this.#slots.get(connection);
    if (slot?.place !== 'lent') return;
    this.#inUse--;
    if (connection.isBroken) this.#drop(slot);
    else if (connection.isIdle && this.#deps.reset === 'transaction') this.#offer(slot);
    else void this.#cleanUp(slot);
  }

  /** Begins to make the connections that are always kept. */
  fill(): void {
    this.#pump();
  }

  /**
   * Refuses new callers, serves those who wait, and ends each connection as it comes back; after `closeMs` all that are left.
   * May be called again.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  // -- lending --

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

  /** A connection that is fit to be lent: to whoever waits longest, else it is idle. */
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

  /** Those that may be offered soon. */
  #coming(): number {
    return this.#opening + this.#busy;
  }

  /** Sees that as many connections are on their way as are waited for, or are always kept. Looks anew after each step: it may call itself. */
  #pump(): void {
    while (this.#waiters.size > this.#asking) {
      // whatever else is on its way may take longer
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

  /** Whether one may be made that nobody waits for. Where those have ended at once, one after the other, when the one before has lasted. */
  #mayFill(): boolean {
    if (this.#filling.failures === 0) return true;
    const { clock } = this.#deps;
    const nowMs = clock.monotonicMs();
    if (this.#opening > 0 || this.#idle.some(({ openedMs }) => nowMs - openedMs < YOUNG_MS)) return false; // #tick() goes on when it has lasted
    const waitMs = this.#filling.waitMs(nowMs);
    if (waitMs > 0)
      this.#fillingLater ??= clock.after(Math.ceil(waitMs), () => {
        this.#fillingLater = undefined;
        this.#pump();
      });
    return waitMs === 0;
  }

  // -- making --

  async #open(): Promise<void> {
    const { clock, connect, connectTimeoutMs } = this.#deps;
    const startedMs = clock.monotonicMs();
    this.#opening++;
    let connection: C;
    try {
      connection = await connect({
        signal: this.#abort.signal,
        deadlineMs: startedMs + connectTimeoutMs,
        timeoutMs: connectTimeoutMs,
      });
    } catch (error) {
      this.#opening--;
      this.#failed(error, startedMs);
      return;
    }
    this.#opening--;
    if (!connection.isBroken && !connection.isStale) return this.#opened(connection);
    connection.destroy(); // it would be dropped at once, and made anew at once
    this.#failed(
      new ConnectionLost('The server was reached, and is not one that can be used', { sqlstate: '08001' }),
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
    this.#pump(); // those who waited for one attempt to succeed
  }

  #failed(error: unknown, startedMs: number): void {
    this.#reports.notOpened(error, this.#failure === undefined && !this.#abort.signal.aborted);
    this.#failure = error;
    this.#backoff.fail(startedMs, this.#deps.clock.monotonicMs());
    if (this.#isHopeless()) this.#waiters.rejectAll(() => error);
    this.#pump();
  }

  /** Whether another connection may be begun now. Sees to it that this is asked again when it may later. */
  #mayConnect(): boolean {
    if (this.#opening >= this.#backoff.most) return false;
    const waitMs = this.#backoff.waitMs(this.#deps.clock.monotonicMs());
    if (waitMs > 0 && !this.#isPausing) void this.#pause(waitMs);
    return waitMs === 0;
  }

  /** Keeps the process alive, unlike other timers: a program may have nothing else to do than to wait for its database. */
  async #pause(ms: number): Promise<void> {
    this.#isPausing = true;
    try {
      await this.#deps.clock.sleep(Math.ceil(ms), this.#abort.signal);
    } catch {
      // closed
    }
    this.#isPausing = false;
    this.#pump();
  }

  /** Whether no caller can be served: nothing to be given back, and the server has said for good that it will not have us. */
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

  // -- looking after --

  /** Whether it still answers, for whoever waits by then. */
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

  /** Ends what an owner has left. A statement that is under way is waited for, by one behind it. */
  #cleanUp(slot: Slot<C>): Promise<void> {
    const { connection } = slot;
    if (!connection.isIdle) this.#reports.leftOpen(connection, slot.caller);
    return this.#prepare(slot, CLEAN_UP_MS, async (limit) => {
      if (connection.isInTransaction) await connection.rollback();
      else if (!connection.isIdle) await connection.ping(limit);
      if (this.#deps.reset === 'full') await connection.reset();
      if (!connection.isIdle)
        throw new ConnectionLost('A connection was given back in use, and could not be cleaned up');
    });
  }

  /** Does something to a connection before it is offered. When that fails, or takes too long, it is ended instead. */
  async #prepare(slot: Slot<C>, timeoutMs: number, work: (limit: Limit) => Promise<void>): Promise<void> {
    const { clock } = this.#deps;
    slot.place = 'busy';
    this.#busy++;
    const tooLong = clock.after(timeoutMs, () => slot.connection.destroy()); // so that `work` ends
    try {
      await work({ signal: this.#abort.signal, deadlineMs: clock.monotonicMs() + timeoutMs, timeoutMs });
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
    if (slot.place !== 'idle') return; // whoever has it gives it back
    const nowMs = this.#deps.clock.monotonicMs();
    if (!slot.wasLent && nowMs - slot.openedMs < YOUNG_MS) this.#filling.fail(slot.openedMs, nowMs);
    this.#idle.splice(this.#idle.indexOf(slot), 1);
    this.#drop(slot);
  }

  /** Ends a connection that nobody has. */
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
      // the one that has been idle longest first
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

  // -- ending --

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
    this.#waiters.end();
    this.#ticking?.[Symbol.dispose]();
    this.#fillingLater?.[Symbol.dispose]();
  }

  #giveUp(): void {
    this.#abort.abort(closed());
    this.#waiters.rejectAll(closed);
    for (const { connection } of this.#slots.values()) connection.destroy();
    this.#drained?.resolve();
  }

  /** When it is being closed: whether that is done. Nobody waits any more for those who are still on their way. */
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
  return atCaller(new SvcError('E_DB_CLOSED', ['run a statement']));
}

/*
 * What a pool says of itself: to its log, to who counts, and in the errors of those whom it cannot serve.
 */

/** How often connections that were left in use are logged. */
const WARN_EVERY_MS = 60_000;

/** How busy a pool is, and why it cannot make more connections. */
interface PoolState extends DriverLoad {
  /** Connections that are being made, asked or cleaned up. */
  readonly coming: number;
  /** Of the last attempt to make one, if that has failed. */
  readonly failure: unknown;
}

/** The voice of one pool. */
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

  /** Not worth a warning: servers restart, and networks cut what is idle. */
  lost(error: Error, place: string): void {
    this.#deps.log?.debug('connection_lost', { reason: error, place });
    this.#deps.onEvent?.('lost', error);
  }

  /** Each is counted, one a minute is logged. */
  leftOpen({ isInTransaction }: PooledConnection, caller: Caller | undefined): void {
    const { clock, log, onEvent } = this.#deps;
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
    this.#deps.log?.warn('connection_held_long', { heldMs: Math.round(heldMs), acquired: caller?.frames });
    this.#deps.onEvent?.('held_long');
  }

  closedInUse(load: DriverLoad): void {
    this.#deps.log?.warn('database_closed_in_use', {
      ...load,
      remedy: 'Let callbacks of transactions settle, and loops over streams end',
    });
  }

  timedOut(state: PoolState): PoolTimeout {
    this.#deps.onEvent?.('timeout');
    return this.#timeout(`none was free within ${this.#deps.acquireTimeoutMs} ms`, state);
  }

  refused(state: PoolState): PoolTimeout {
    this.#deps.onEvent?.('refused');
    return this.#timeout(`${state.waiting} callers wait for one already`, state);
  }

  #timeout(problem: string, { inUse, idle, waiting, coming, failure }: PoolState): PoolTimeout {
    const why =
      failure === undefined
        ? ''
        : `; the last attempt to make one failed: ${failure instanceof Error ? failure.message : String(failure)}`;
    const counts = `${inUse} in use, ${coming} on their way, at most ${this.#deps.max}; ${waiting} callers wait`;
    return new PoolTimeout(`No connection to the database: ${problem} (${counts})${why}`, {
      sqlstate: '53300',
      load: { inUse, idle, waiting },
      ...(failure === undefined ? {} : { cause: failure }),
    });
  }
}
