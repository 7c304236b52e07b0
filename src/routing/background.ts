/**
 * Background tasks: functions that run after the response. The tasks of a request run one after another,
 * after the clean-ups of its dependencies. A failed task is logged and counted, and the next task runs.
 */
import { SvcError } from '../base/errors.ts';
import { currentContext } from '../base/promises.ts';
import { inSpan } from '../observability/tracer.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter, Metrics } from '../observability/metrics.ts';
import type { SpanStart, Tracer } from '../observability/tracer.ts';

const TASK: SpanStart = { kind: 'internal', attributes: {} };
const MAX_PER_REQUEST = 1_000;
/** Maximum number of waiting tasks of all requests together. */
const MAX_WAITING = 10_000;

/**
 * Dependency with which a handler adds background tasks:
 * `app.post('/users', { tasks: Depends(BackgroundTasks) }, ({ tasks }) => ...)`.
 */
export class BackgroundTasks {
  readonly #tasks: (() => unknown)[] = [];
  readonly #runner: BackgroundRunner;
  /** True after all tasks have run, or after the handler has failed. From then on, add() throws. */
  #isOver = false;

  /** @internal */
  constructor(runner: BackgroundRunner) {
    this.#runner = runner;
  }

  /**
   * Calls `fn(...args)` after the response was sent and the dependencies were cleaned up, unless the handler
   * fails. `fn` runs in the AsyncLocalStorage context of add(), and may add further tasks. The shutdown of
   * the application waits for all tasks.
   * @throws SvcError `E_BACKGROUND_FULL` when 1,000 tasks of this request, or 10,000 tasks of all requests,
   * are waiting; `E_BACKGROUND_OVER` when all tasks have run, or the handler has failed
   */
  add<A extends readonly unknown[]>(fn: (...args: A) => unknown, ...args: A): this {
    if (this.#isOver) throw new SvcError('E_BACKGROUND_OVER', []);
    if (this.#tasks.length >= MAX_PER_REQUEST)
      throw new SvcError('E_BACKGROUND_FULL', [MAX_PER_REQUEST, true]);
    this.#runner.reserve();
    const run = currentContext();
    const { tracer } = this.#runner;
    if (tracer === undefined) this.#tasks.push(() => run(fn, ...args));
    else {
      const task = (): unknown => inSpan(tracer, `task ${fn.name}`.trimEnd(), TASK, () => fn(...args));
      this.#tasks.push(() => run(task));
    }
    return this;
  }

  /** Number of tasks that have not run yet. */
  get size(): number {
    return this.#tasks.length;
  }

  /** Removes and returns the next task. @internal */
  next(): (() => unknown) | undefined {
    return this.#tasks.shift();
  }

  /** Makes add() throw from now on. Removes all waiting tasks, and returns their number. @internal */
  end(): number {
    this.#isOver = true;
    return this.#tasks.splice(0).length;
  }
}

/** Runs the background tasks of all requests of an application. */
export class BackgroundRunner {
  readonly #log: Logger;
  readonly #failures: Counter;
  /** Makes a span for each task; undefined without a tracer. */
  readonly tracer: Tracer | undefined;
  #waiting = 0;

  constructor(log: Logger, metrics: Metrics, tracer?: Tracer) {
    this.#log = log;
    this.tracer = tracer;
    this.#failures = metrics.counter('svc_background_failures_total', 'Background tasks that failed');
    metrics.gauge('svc_background_waiting', 'Background tasks that have not run yet', () => this.#waiting);
  }

  reserve(): void {
    if (this.#waiting >= MAX_WAITING) throw new SvcError('E_BACKGROUND_FULL', [MAX_WAITING, false]);
    this.#waiting++;
  }

  /** Also runs tasks that are added meanwhile. Calls `onFailed` for each failed task. Never rejects. */
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

  /** Removes all tasks without running them, because the handler that added them has failed. */
  drop(tasks: BackgroundTasks): void {
    this.#waiting -= tasks.end();
  }
}
