/**
 * Runs an application in several worker processes: starts them, restarts workers that exit, replaces workers
 * one by one, and stops all together.
 *
 * The first worker starts alone, so that an error which every worker would have is reported only once.
 *
 * If a worker exits by itself, another one replaces it after at most 0.1 s. The maximum doubles with each
 * further exit, up to 30 s. After a worker has served for 10 s, the maximum is 0.1 s again.
 *
 * SIGHUP replaces the workers one after another. Each old worker stops when its replacement serves. If a
 * replacement does not serve within 60 s, the remaining old workers continue.
 *
 * SIGTERM stops all workers after their running requests, and then this process. During the delay of the stop,
 * the workers still get connections. A second signal kills them.
 */
import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import { unavailablePage } from './unavailable-page.ts';
import { SocketHandoff } from './socket-handoff.ts';
import { SvcError } from '../base/errors.ts';
import { exitAfterLog } from '../observability/log.ts';
import { announceStop, delayAfter, lastLinesMs, onSignals } from './signals.ts';
import { ChildLink, preload, roleEnvironment } from './supervision.ts';
import { WorkerMetrics } from './worker-metrics.ts';
import { MOST_ON_THE_WAY } from './worker-rooms.ts';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Logger } from '../observability/log.ts';
import type { StopTimes } from './signals.ts';
import type { SupervisedServer } from './supervised.ts';
import type { Address, Child, Leave, ProcessEnd, RoomMessage, ToParent } from './supervision.ts';

interface WorkersOptions {
  /** Number of worker processes, 1 to 1024. */
  readonly count: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly fork: () => Child;
  /** Returns a random number from 0 to 1, for the random part of delays. */
  readonly random?: (() => number) | undefined;
}

const FIRST_DELAY_MS = 100;
const MOST_DELAY_MS = 30_000;
/**
 * If a worker has served for this time in milliseconds before it exits, the count of consecutive failures
 * starts again.
 */
const STEADY_MS = 10_000;
/** Number of consecutive failures after which the supervisor gives up, if no worker serves. */
const MOST_DEATHS = 5;
/** Time in milliseconds that a worker has to exit while it is still starting. */
const START_END_MS = 3_000;
/**
 * Time in milliseconds after which a worker that wants to stop is replaced. It is longer than signals take to
 * reach all processes of a group, so that the end of the whole group is not taken for the end of one worker.
 */
const GROUP_SIGNAL_MS = 100;
/**
 * Time in milliseconds in which a replacement worker must begin to serve. A slower one is stopped, so that it
 * does not block later replacements.
 */
const RENEWAL_START_MS = 60_000;

interface Worker {
  readonly id: number;
  readonly child: Child;
  state: 'starting' | 'ready' | 'draining';
  readyAtMs: number;
  /** Resolves with true when the worker serves, or with false if it exits before. */
  readonly settled: PromiseWithResolvers<boolean>;
  /** Number of messages to WebSocket rooms that were sent to this worker, but are not written yet. */
  onTheWay: number;
}

export class Workers {
  readonly #options: WorkersOptions;
  readonly #handoff: SocketHandoff;
  readonly #metrics: WorkerMetrics;
  readonly #workers = new Map<number, Worker>();
  readonly #started = Promise.withResolvers<Address | ProcessEnd>();
  readonly #over = Promise.withResolvers<number>();
  readonly #stop = new AbortController();
  #lastId = 0;
  #deaths = 0;
  #isFilling = false;
  #isRenewalDue = false;
  #rolling: Promise<void> | undefined;
  #hasServed = false;
  #place: { readonly address: Address; readonly env: Env; readonly stop: StopTimes } | undefined;
  #status = 0;

  constructor(options: WorkersOptions) {
    this.#options = options;
    const { clock, log } = options;
    this.#handoff = new SocketHandoff({
      clock,
      log,
      unavailablePage: (req) => unavailablePage(req, UNAVAILABLE),
    });
    this.#metrics = new WorkerMetrics({ clock, log, workers: () => this.#serving().length });
  }

  /** Resolves with the exit status when all workers have exited, and none will be restarted. */
  get over(): Promise<number> {
    return this.#over.promise;
  }

  /**
   * Starts the first worker, and the others when it serves. Resolves with the address, or with the exit
   * status if the first worker exits before it serves.
   */
  start(): Promise<Address | ProcessEnd> {
    this.#fork();
    return this.#started.promise;
  }

  renew(): void {
    this.#isRenewalDue = true;
    this.#rolling ??= this.#roll().finally(() => {
      this.#rolling = undefined;
    });
  }

  /**
   * Stops all workers after their running requests, and after the delay of this signal. Resolves with the exit
   * status when the last one has exited.
   */
  async stop(signal?: NodeJS.Signals): Promise<number> {
    if (this.#stop.signal.aborted) return this.over;
    this.#stop.abort();
    const delayMs = this.#place === undefined ? 0 : delayAfter(signal, this.#place.stop);
    if (delayMs > 0)
      await announceStop(delayMs, this.#options, () => {
        for (const { child } of this.#serving()) child.send({ svc: 'announce' });
      });
    this.#handoff.close();
    for (const worker of this.#workers.values()) void this.#end(worker, 'stop', delayMs);
    this.#endWhenAlone();
    return this.over;
  }

  /** Time in milliseconds that is kept for the last log lines of this process. */
  get lastLinesMs(): number {
    return lastLinesMs(this.#place?.stop.totalMs ?? Infinity, this.#options.log);
  }

  kill(): void {
    for (const { child } of this.#workers.values()) child.kill('SIGKILL');
  }

  #serving(): Worker[] {
    return [...this.#workers.values()].filter(({ state }) => state === 'ready');
  }

  #fork(): Worker {
    const child = this.#options.fork();
    const worker: Worker = {
      id: ++this.#lastId,
      child,
      state: 'starting',
      readyAtMs: 0,
      settled: Promise.withResolvers(),
      onTheWay: 0,
    };
    this.#workers.set(worker.id, worker);
    child.listen((message) => this.#onMessage(worker, message));
    void child.ended.then((end) => this.#onEnd(worker, end));
    return worker;
  }

  #onMessage(worker: Worker, message: ToParent): void {
    const { child } = worker;
    switch (message.svc) {
      case 'wants':
        return void this.#open(worker, message);
      case 'ready':
        return this.#onReady(worker);
      case 'took':
        return this.#handoff.onTaken(child, message.id);
      case 'leaving':
        return void this.#options.clock.after(GROUP_SIGNAL_MS, () => {
          if (!this.#stop.signal.aborted && worker.state === 'ready') void this.#end(worker, 'retire');
        });
      case 'room':
        return this.#passOn(worker, message);
      case 'snapshot':
        return this.#metrics.onSnapshot(child, message.id, message.metrics);
      case 'final':
        return this.#metrics.onFinal(child, message.metrics);
      case 'metrics': {
        const { id } = message;
        const running = [...this.#workers.values()]
          .filter(({ state }) => state !== 'starting')
          .map((other) => other.child);
        return void this.#metrics
          .collect(running)
          .then((metrics) => child.send({ svc: 'metrics', id, metrics }));
      }
    }
  }

  /**
   * Sends a message to a WebSocket room to all other serving workers, except workers with too many unwritten
   * messages.
   */
  #passOn(from: Worker, message: RoomMessage): void {
    for (const worker of this.#workers.values()) {
      if (worker === from || worker.state === 'starting' || worker.onTheWay >= MOST_ON_THE_WAY) continue;
      worker.onTheWay++;
      worker.child.send(message, undefined, () => {
        worker.onTheWay--;
      });
    }
  }

  async #open(
    worker: Worker,
    { place, isSecure, env, stop }: Extract<ToParent, { svc: 'wants' }>,
  ): Promise<void> {
    const { log } = this.#options;
    try {
      const address = await this.#handoff.open(place, isSecure);
      this.#place = { address, env, stop };
      worker.child.send({ svc: 'address', address });
    } catch (error) {
      if (!this.#hasServed) this.#started.reject(error as Error);
      else log.error('listen_failed', error, { worker: worker.id });
      worker.child.kill('SIGTERM');
    }
  }

  #onReady(worker: Worker): void {
    if (worker.state !== 'starting') return;
    const { clock, log, count } = this.#options;
    worker.state = 'ready';
    worker.readyAtMs = clock.monotonicMs();
    // `#place` is defined, because a worker gets its address before it becomes ready
    const { address, env } = this.#place!;
    if (!this.#hasServed) log.info('listening', { url: address.url, env, workers: count });
    log.info('worker_ready', { worker: worker.id, pid: worker.child.pid });
    this.#handoff.admit(worker.child);
    if (this.#stop.signal.aborted) worker.child.send({ svc: 'announce' });
    worker.settled.resolve(true);
    this.#started.resolve(address);
    if (this.#hasServed || this.#stop.signal.aborted) return;
    this.#hasServed = true;
    for (let more = 1; more < count; more++) this.#fork();
  }

  #onEnd(worker: Worker, { status, signal }: ProcessEnd): void {
    const { clock, log } = this.#options;
    this.#workers.delete(worker.id);
    this.#handoff.onGone(worker.child);
    this.#metrics.onGone(worker.child);
    worker.settled.resolve(false);
    if (this.#stop.signal.aborted) return this.#endWhenAlone();
    if (worker.state === 'draining') {
      log.info('worker_ended', { worker: worker.id, pid: worker.child.pid });
      return void this.#fill(0);
    }
    if (!this.#hasServed && signal === null) {
      // the first worker exited by itself before it served requests, so a restart would fail in the same way
      this.#started.resolve({ status, signal });
      this.#stop.abort();
      this.#handoff.close();
      this.#over.resolve(status || 1);
      return;
    }
    const upMs = worker.state === 'ready' ? clock.monotonicMs() - worker.readyAtMs : 0;
    this.#deaths = upMs >= STEADY_MS ? 1 : this.#deaths + 1;
    log.warn('worker_died', {
      worker: worker.id,
      pid: worker.child.pid,
      status,
      signal,
      has_served: worker.state === 'ready',
      deaths: this.#deaths,
    });
    if (this.#deaths >= MOST_DEATHS && this.#serving().length === 0) return void this.#giveUp();
    void this.#fill(this.#delayMs());
  }

  #delayMs(): number {
    const most = Math.min(MOST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(this.#deaths - 1, 20));
    return most * (0.5 + 0.5 * (this.#options.random ?? Math.random)());
  }

  /** Waits `delayMs`, then starts as many workers as are missing. */
  async #fill(delayMs: number): Promise<void> {
    if (this.#isFilling) return;
    this.#isFilling = true;
    // sleep() rejects if stop() is called during the delay
    if (delayMs > 0) await this.#options.clock.sleep(delayMs, this.#stop.signal).catch(() => undefined);
    this.#isFilling = false;
    if (this.#stop.signal.aborted) return;
    const present = [...this.#workers.values()].filter(({ state }) => state !== 'draining').length;
    for (let missing = this.#options.count - present; missing > 0; missing--) {
      if (delayMs > 0) this.#metrics.restarts.add(1);
      this.#fork();
    }
  }

  #giveUp(): void {
    const error = new SvcError('E_WORKERS', [
      `${this.#deaths} workers in a row ended soon after their start, so no worker serves requests: see the errors above`,
    ]);
    this.#options.log.error('workers_gave_up', error);
    this.#status = 1;
    this.#started.reject(error);
    void this.stop();
  }

  async #roll(): Promise<void> {
    const { log } = this.#options;
    while (this.#isRenewalDue && !this.#stop.signal.aborted) {
      this.#isRenewalDue = false;
      log.info('rolling_restart', { workers: this.#serving().length });
      const problem = await this.#replaceAll();
      if (this.#stop.signal.aborted) return;
      if (problem === undefined) log.info('rolling_restart_done');
      else
        log.error(
          'rolling_restart_failed',
          new SvcError('E_WORKERS', [`${problem}, so the old workers continue to serve requests`]),
        );
    }
  }

  /** Replaces all serving workers. Returns the problem if a replacement failed; otherwise undefined. */
  async #replaceAll(): Promise<string | undefined> {
    for (const old of this.#serving()) {
      if (this.#stop.signal.aborted) return undefined;
      // this worker has exited meanwhile, so it was already replaced
      if (old.state !== 'ready' || !this.#workers.has(old.id)) continue;
      const problem = await this.#startOne();
      if (problem !== undefined) return problem;
      await this.#end(old, 'retire');
    }
    return undefined;
  }

  /**
   * Starts a worker, and waits until it serves. Returns the problem if it does not serve; otherwise
   * undefined.
   */
  async #startOne(): Promise<string | undefined> {
    const fresh = this.#fork();
    let isLate = false;
    using _limit = this.#options.clock.after(RENEWAL_START_MS, () => {
      isLate = true;
      fresh.settled.resolve(false);
    });
    if (await fresh.settled.promise) return undefined;
    if (!isLate) return 'a new worker has ended before it served';
    await this.#end(fresh, 'stop');
    return `a new worker did not serve within ${RENEWAL_START_MS / 1_000} s and was ended`;
  }

  /**
   * Stops a worker. It gets no new connections. If it does not exit in time, it is killed. `spentMs` is the
   * time since the signal, which counts as part of its time.
   */
  async #end(worker: Worker, how: Leave, spentMs = 0): Promise<void> {
    const { clock, log } = this.#options;
    this.#handoff.dismiss(worker.child);
    const hasServed = worker.state !== 'starting';
    worker.state = 'draining';
    worker.child.send({ svc: 'drain', how });
    // a worker that is still starting might not read the message, so it also gets SIGTERM
    if (!hasServed) worker.child.kill('SIGTERM');
    // `#place` is defined, because a worker gets its address before it serves
    const limitMs = hasServed ? this.#place!.stop.totalMs - spentMs - this.lastLinesMs : START_END_MS;
    using _limit = clock.after(limitMs, () => {
      log.warn('worker_killed', { worker: worker.id, pid: worker.child.pid });
      if (hasServed) this.#status = 1;
      worker.child.kill('SIGKILL');
    });
    await worker.child.ended;
  }

  #endWhenAlone(): void {
    if (this.#workers.size === 0) void this.#handoff.farewell().then(() => this.#over.resolve(this.#status));
  }
}

const UNAVAILABLE = {
  title: 'The service is not available',
  text: '',
  hint: 'Please try again in a moment.',
};

let isTaken = false;

/**
 * Runs this program in several worker processes, and supervises them.
 * @throws SvcError `E_LISTEN` when the address cannot be opened, `E_WORKERS` when this process cannot
 * supervise workers or the workers do not start
 */
export async function superviseWorkers(
  options: Omit<WorkersOptions, 'fork'> & { readonly handleSignals: boolean },
): Promise<SupervisedServer | ProcessEnd> {
  const { log, handleSignals } = options;
  const script = process.argv[1];
  if (isTaken)
    throw new SvcError('E_WORKERS', ['this process already runs the workers of another application']);
  if (!cluster.isPrimary)
    throw new SvcError('E_WORKERS', [
      'this process is itself a worker of node:cluster, and a worker cannot start workers',
    ]);
  if (script === undefined)
    throw new SvcError('E_WORKERS', [
      'the workers need a script file to run, but this process was started without a script file',
    ]);
  isTaken = true;
  cluster.setupPrimary({ exec: script, args: process.argv.slice(2), execArgv: preload() });
  const workers = new Workers({
    ...options,
    fork: () => new ChildLink(cluster.fork(roleEnvironment('worker')).process),
  });
  let isServing = false;
  const end = (signal: NodeJS.Signals): void =>
    void workers.stop(signal).then((status) => {
      // if the workers have served, the callback of `workers.over` below ends this process
      if (isServing) return;
      return exitAfterLog(status, log, workers.lastLinesMs);
    });
  const signals = handleSignals
    ? onSignals({ log, end, kill: () => workers.kill(), renew: () => workers.renew() })
    : undefined;
  const outcome = await workers.start().catch(async (error: unknown) => {
    await workers.stop();
    isTaken = false;
    signals?.[Symbol.dispose]();
    throw error;
  });
  if (!('url' in outcome)) return outcome;
  isServing = true;
  let isClosing = false;
  void workers.over.then((status) => {
    if (status === 0 && (isClosing || !handleSignals)) return;
    return exitAfterLog(status, log, workers.lastLinesMs);
  });
  return {
    ...outcome,
    close: async () => {
      isClosing = true;
      await workers.stop();
      isTaken = false;
      signals?.[Symbol.dispose]();
    },
  };
}

/** Returns the number of workers; `auto` means one for each available CPU core. */
export function countOf(workers: number | 'auto'): number {
  return workers === 'auto' ? availableParallelism() : workers;
}
