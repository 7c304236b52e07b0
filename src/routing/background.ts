/**
 * Background tasks: work that a handler leaves for after its answer. They run one after another when the request's
 * dependencies have been cleaned up; a failure is logged and counted, and stops none of the others.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { SvcError } from '../base/errors.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter, Metrics } from '../observability/metrics.ts';

/** The most tasks of one request, and of all requests together that have not run yet. */
const MAX_PER_REQUEST = 1_000;
const MAX_WAITING = 10_000;

/** What a handler adds tasks to: `tasks: Depends(BackgroundTasks)` in its spec. */
export class BackgroundTasks {
  readonly #tasks: (() => unknown)[] = [];
  readonly #runner: BackgroundRunner;
  /** Whether they have run, or never will: nothing is left that could run another. */
  #isOver = false;

  /** @internal */
  constructor(runner: BackgroundRunner) {
    this.#runner = runner;
  }

  /**
   * Runs `fn(...args)` after the answer has been sent and the dependencies are cleaned up, in the async context of this call
   * (AsyncLocalStorage). Not at all, when the handler fails. Shutdown waits for it. A task may add others.
   *
   * @throws SvcError `E_BACKGROUND_FULL` beyond 1,000 tasks of a request, or 10,000 that wait; `E_BACKGROUND_OVER` when the
   * last one has run
   */
  add<A extends readonly unknown[]>(fn: (...args: A) => unknown, ...args: A): this {
    if (this.#isOver) throw new SvcError('E_BACKGROUND_OVER', []);
    if (this.#tasks.length >= MAX_PER_REQUEST)
      throw new SvcError('E_BACKGROUND_FULL', [MAX_PER_REQUEST, 'of one request']);
    this.#runner.reserve();
    this.#tasks.push(AsyncLocalStorage.bind(() => fn(...args)));
    return this;
  }

  /** How many wait. */
  get size(): number {
    return this.#tasks.length;
  }

  /** Takes the next one, in order. @internal */
  next(): (() => unknown) | undefined {
    return this.#tasks.shift();
  }

  /** Takes no more; answers how many it forgets. @internal */
  end(): number {
    this.#isOver = true;
    return this.#tasks.splice(0).length;
  }
}

/** Runs the tasks of an application's requests. */
export class BackgroundRunner {
  readonly #log: Logger;
  readonly #failures: Counter;
  #waiting = 0;

  constructor(log: Logger, metrics: Metrics) {
    this.#log = log;
    this.#failures = metrics.counter('svc_background_failures_total', 'Background tasks that failed');
    metrics.gauge('svc_background_waiting', 'Background tasks that have not run yet', () => this.#waiting);
  }

  /** @throws SvcError `E_BACKGROUND_FULL` */
  reserve(): void {
    if (this.#waiting >= MAX_WAITING) throw new SvcError('E_BACKGROUND_FULL', [MAX_WAITING, 'that wait']);
    this.#waiting++;
  }

  /** Runs them in order, and those that they add. `onFailed` is called with every failure. Never rejects. */
  async run(
    tasks: BackgroundTasks,
    fields: Record<string, unknown>,
    onFailed: (error: unknown) => void,
  ): Promise<void> {
    for (let task = tasks.next(); task !== undefined; task = tasks.next()) {
      try {
        await task();
      } catch (error) {
        this.#failures.add(1);
        this.#log.error('background_task_failed', error, fields);
        onFailed(error);
      } finally {
        this.#waiting--;
      }
    }
    tasks.end();
  }

  /** Forgets them: the handler that added them has failed. */
  drop(tasks: BackgroundTasks): void {
    this.#waiting -= tasks.end();
  }
}
