/**
 * Adds up the metrics of all workers, including exited workers. Adds metrics about the workers themselves.
 *
 * The last counters and histograms of an exited worker still count, because a total that decreases looks like
 * a restart to Prometheus. Gauges of an exited worker do not count.
 */
import { createMetrics, mergeMetrics } from '../observability/metrics.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter, MetricSnapshot, MetricsRegistry } from '../observability/metrics.ts';
import type { Child } from './supervision.ts';

/** Time in milliseconds in which a worker must report its metrics. */
const ANSWER_MS = 1_000;
/** Maximum number of label sets for exited workers. Further ones count as `other`. */
const MOST_SERIES = 1_000;

type Snapshots = readonly MetricSnapshot[];

/** Collects the metrics of all workers, and counts restarts of workers. */
export class WorkerMetrics {
  readonly #clock: Clock;
  readonly #own: MetricsRegistry;
  readonly #missed: Counter;
  /** Number of workers that replaced a worker which had exited by itself. */
  readonly restarts: Counter;
  readonly #last = new Map<Child, Snapshots>();
  #ended: Snapshots = [];
  readonly #waiting = new Map<
    number,
    { readonly child: Child; readonly answer: (metrics: Snapshots | undefined) => void }
  >();
  #lastId = 0;
  #round: Promise<Snapshots> | undefined;

  constructor(deps: { readonly clock: Clock; readonly log: Logger; readonly workers: () => number }) {
    this.#clock = deps.clock;
    this.#own = createMetrics(deps);
    this.#own.gauge('svc_workers', 'Workers that serve', deps.workers);
    this.restarts = this.#own.counter(
      'svc_worker_restarts_total',
      'Workers that were started in place of a worker that had ended by itself',
    );
    this.#missed = this.#own.counter(
      'svc_worker_metrics_missed_total',
      'Times that a worker did not report its metrics in time, so that its previous counts were used',
    );
  }

  collect(children: Iterable<Child>): Promise<Snapshots> {
    return (this.#round ??= this.#collect([...children]).finally(() => {
      this.#round = undefined;
    }));
  }

  async #collect(children: readonly Child[]): Promise<Snapshots> {
    // read before the await: a worker that exits during the await is in `lists`, and `#ended` would count
    // its metrics again
    const ended = this.#ended;
    const lists = await Promise.all(children.map((child) => this.#ask(child)));
    return mergeMetrics([...lists, ended, this.#own.snapshot()]);
  }

  async #ask(child: Child): Promise<Snapshots> {
    const id = ++this.#lastId;
    const { promise, resolve } = Promise.withResolvers<Snapshots | undefined>();
    using _limit = this.#clock.after(ANSWER_MS, () => resolve(undefined));
    this.#waiting.set(id, { child, answer: resolve });
    child.send({ svc: 'snapshot', id });
    const metrics = await promise;
    this.#waiting.delete(id);
    if (metrics !== undefined) return metrics;
    this.#missed.add(1);
    return countsOf(this.#last.get(child) ?? []);
  }

  /** Stores the metrics that a worker has sent, and resolves the request for them. */
  onSnapshot(child: Child, id: number, metrics: Snapshots): void {
    this.#last.set(child, metrics);
    this.#waiting.get(id)?.answer(metrics);
  }

  /** Stores the last metrics of a worker that is exiting. */
  onFinal(child: Child, metrics: Snapshots): void {
    this.#last.set(child, metrics);
  }

  /** Adds the last metrics of an exited worker to the metrics of all exited workers. */
  onGone(child: Child): void {
    const last = this.#last.get(child);
    this.#last.delete(child);
    if (last !== undefined) this.#ended = bounded(mergeMetrics([this.#ended, countsOf(last)]));
    for (const waiting of this.#waiting.values())
      if (waiting.child === child) waiting.answer(countsOf(last ?? []));
  }
}

/** Returns metrics without gauges, because a gauge only describes a running process. */
function countsOf(metrics: Snapshots): MetricSnapshot[] {
  return metrics.filter(({ kind }) => kind !== 'gauge');
}

/** Limits the label sets, which would fill the memory of the parent. */
function bounded(metrics: MetricSnapshot[]): MetricSnapshot[] {
  if (metrics.every(({ series }) => series.length <= MOST_SERIES)) return metrics;
  return mergeMetrics(
    metrics.flatMap((metric) => [
      [{ ...metric, series: metric.series.slice(0, MOST_SERIES) }],
      ...metric.series
        .slice(MOST_SERIES)
        .map(([labels, numbers]) => [{ ...metric, series: [[labels.map(() => 'other'), numbers] as const] }]),
    ]),
  );
}
