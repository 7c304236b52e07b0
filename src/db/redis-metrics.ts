/**
 * The clients of Redis of one application in numbers.
 *
 *   svc_redis_pending, svc_redis_disconnected      gauges, over all its clients
 *   svc_redis_command_seconds{redis}               how long commands took that were answered
 *   svc_redis_events_total{redis, event}           what befell connections, and commands that were not answered: see redis-link.ts
 */
import type { Counter, Histogram, Metrics } from '../metrics.ts';
import type { Redis } from './redis.ts';

const COMMAND_BUCKETS = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1];

const known = new WeakMap<Metrics, RedisMetrics>();

/** What the Redis plugins of an application count together. */
export class RedisMetrics {
  readonly commands: Histogram;
  readonly events: Counter;
  readonly #clients = new Set<Redis>();

  private constructor(metrics: Metrics) {
    const sum = (of: (client: Redis) => number) => () => [...this.#clients].reduce((total, client) => total + of(client), 0);
    metrics.gauge('svc_redis_pending', 'Commands that wait for their replies', sum(({ load }) => load.pending + load.waiting));
    metrics.gauge('svc_redis_disconnected', 'Clients of Redis that have no connection', sum(({ isConnected }) => isConnected ? 0 : 1));
    this.commands = metrics.histogram('svc_redis_command_seconds', 'How long commands have taken that were answered', COMMAND_BUCKETS, ['redis']);
    this.events = metrics.counter('svc_redis_events_total', 'What befell connections to Redis, and commands that were not answered', ['redis', 'event']);
  }

  /** Those of an application: declared once, however many clients it has. @throws SvcError `E_METRIC` where a name is taken */
  static of(metrics: Metrics): RedisMetrics {
    let own = known.get(metrics);
    if (own === undefined) known.set(metrics, own = new RedisMetrics(metrics));
    return own;
  }

  add(client: Redis): void { this.#clients.add(client); }
}
