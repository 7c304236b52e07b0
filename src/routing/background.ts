/**
 * Background tasks: work after the response. The tasks of a request run one after another, after the
 * request's dependencies were cleaned up. If a task fails, the failure is logged and counted, and the next
 * task runs.
 */
import { SvcError } from '../base/errors.ts';
import { currentContext } from '../base/promises.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter, Metrics } from '../observability/metrics.ts';

/** Maximum number of tasks of one request, and of waiting tasks of all requests together. */
const MAX_PER_REQUEST = 1_000;
const MAX_WAITING = 10_000;

/** Collects background tasks of a handler: `tasks: Depends(BackgroundTasks)` in its spec. */
export class BackgroundTasks {
  readonly #tasks: (() => unknown)[] = [];
  readonly #runner: BackgroundRunner;
  /** Whether the tasks have run or were dropped. A task added later would never run, so add() refuses it. */
  #isOver = false;

  /** @internal */
  constructor(runner: BackgroundRunner) {
    this.#runner = runner;
  }

  /**
   * Runs `fn(...args)` after the response was sent and the dependencies are cleaned up, in the async context
   * of this call (AsyncLocalStorage). The task does not run if the handler fails. The shutdown of the
   * application waits for the task. A task may add further tasks.
   *
   * @throws SvcError `E_BACKGROUND_FULL` beyond 1,000 tasks of a request, or 10,000 waiting ones;
   * `E_BACKGROUND_OVER` after the last task has run
   */
  add<A extends readonly unknown[]>(fn: (...args: A) => unknown, ...args: A): this {
    if (this.#isOver) throw new SvcError('E_BACKGROUND_OVER', []);
    if (this.#tasks.length >= MAX_PER_REQUEST)
      throw new SvcError('E_BACKGROUND_FULL', [MAX_PER_REQUEST, true]);
    this.#runner.reserve();
    const run = currentContext();
    this.#tasks.push(() => run(fn, ...args));
    return this;
  }

  /** Number of waiting tasks. */
  get size(): number {
    return this.#tasks.length;
  }

  /** Removes and returns the next task. @internal */
  next(): (() => unknown) | undefined {
    return this.#tasks.shift();
  }

  /** Refuses further tasks. Returns the number of dropped ones. @internal */
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

  /** Counts one more waiting task. @throws SvcError `E_BACKGROUND_FULL` */
  reserve(): void {
    if (this.#waiting >= MAX_WAITING) throw new SvcError('E_BACKGROUND_FULL', [MAX_WAITING, false]);
    this.#waiting++;
  }

  /**
   * Runs the tasks in order, including those that a running task adds. `onFailed` is called with every
   * failure. Never rejects.
   */
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

  /** Drops the tasks, because the handler that added them has failed. */
  drop(tasks: BackgroundTasks): void {
    this.#waiting -= tasks.end();
  }
}
