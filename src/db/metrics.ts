/**
 * The databases of one application in numbers.
 *
 *   svc_db_connections_in_use, svc_db_connections_idle, svc_db_waiting       gauges, over all its databases
 *   svc_db_wait_seconds{database}          how long callers waited who did not get a connection at once
 *   svc_db_statement_seconds{database}     how long SQLite took for a statement, and held the loop; or a server for its answer
 *   svc_db_pool_events_total{database, event}      what befell connections to servers: see db/wire/pool-settings.ts
 */
import type { Counter, Histogram, Metrics } from '../observability/metrics.ts';
import type { DriverLoad } from './driver.ts';

const WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
const STATEMENT_BUCKETS = [0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

const known = new WeakMap<Metrics, DatabaseMetrics>();

/** What the database plugins of an application count together. */
export class DatabaseMetrics {
  readonly waits: Histogram;
  readonly statements: Histogram;
  readonly poolEvents: Counter;
  readonly #loads = new Set<() => DriverLoad | undefined>();

  private constructor(metrics: Metrics) {
    const sum = (part: keyof DriverLoad) => () =>
      [...this.#loads].reduce((total, load) => total + (load()?.[part] ?? 0), 0);
    metrics.gauge('svc_db_connections_in_use', 'Connections to databases that somebody uses', sum('inUse'));
    metrics.gauge(
      'svc_db_connections_idle',
      'Connections to databases that are open and that nobody uses',
      sum('idle'),
    );
    metrics.gauge('svc_db_waiting', 'Callers that wait for a connection to a database', sum('waiting'));
    this.waits = metrics.histogram(
      'svc_db_wait_seconds',
      'How long callers have waited for a connection; those who got one at once do not count',
      WAIT_BUCKETS,
      ['database'],
    );
    this.statements = metrics.histogram(
      'svc_db_statement_seconds',
      'How long statements have run',
      STATEMENT_BUCKETS,
      ['database'],
    );
    this.poolEvents = metrics.counter(
      'svc_db_pool_events_total',
      'What befell connections to database servers',
      ['database', 'event'],
    );
  }

  /** Those of an application: declared once, however many databases it has. @throws SvcError `E_METRIC` where a name is taken */
  static of(metrics: Metrics): DatabaseMetrics {
    let own = known.get(metrics);
    if (own === undefined) known.set(metrics, (own = new DatabaseMetrics(metrics)));
    return own;
  }

  /** Adds a database: `load` says how busy it is, undefined while it is not open. */
  add(load: () => DriverLoad | undefined): void {
    this.#loads.add(load);
  }
}
