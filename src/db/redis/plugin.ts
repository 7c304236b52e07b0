/**
 * Adds Redis to an application. The plugin connects before the application accepts requests, and closes after
 * the other plugins. `/readyz` checks the connection.
 *
 *   const redis = new RedisPlugin('rediss://app:secret@cache.example/0');
 *   app.register(redis);
 *   app.use(new RateLimitMiddleware({ store: new RedisRateLimitStore(redis.client) }));
 *   app.get('/jobs', { redis: Depends(redis.key) }, ({ redis }) => redis.command(['LLEN', 'jobs']));
 *
 * A second RedisPlugin needs another name: `new RedisPlugin(url, { name: 'sessions' })`.
 */
import { SvcError } from '../../base/errors.ts';
import { services, stateKey } from '../../http/state.ts';
import { bool, onePer, readOptions, text } from '../../base/options.ts';
import { Redis, type RedisOptions } from './redis.ts';
import { RedisError } from './connection.ts';
import type { HostLike, PluginLike, StateKey } from '../../http/contracts.ts';
import type { Counter, Histogram, Metrics } from '../../observability/metrics.ts';

/** Options of a {@link RedisPlugin}. */
export interface RedisPluginOptions extends RedisOptions {
  /**
   * Name of the plugin. Its readiness check and the state key of its client have this name, too. Default
   * `redis`.
   */
  readonly name?: string | undefined;
  /**
   * Whether the application starts if Redis is unreachable. Default false. The start waits at most the
   * `connect_timeout` of the address, by default 10 seconds. Until Redis is reachable, caches find nothing,
   * rate limits follow their option `onStoreError`, and `/readyz` responds with 503.
   */
  readonly startsWithout?: boolean | undefined;
}

/** State key of the Redis client, if its plugin has the default name `redis`. */
export const redis: StateKey<Redis> = stateKey('redis');

/** Adds a Redis client to an application. The opening comment of db/redis/plugin.ts has examples. */
export class RedisPlugin implements PluginLike {
  readonly name: string;
  readonly startsFirst = true;
  /** State key of the Redis client, for `Depends()` and `app.state.get()`. */
  readonly key: StateKey<Redis>;
  readonly #client: Redis;
  readonly #startsWithout: boolean;
  #isHeld = false;
  #host: HostLike | undefined;

  /**
   * @throws SvcError `E_REDIS_URL` for an invalid address, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for invalid
   *   options
   */
  constructor(url: string, options: RedisPluginOptions = {}) {
    const { name, startsWithout, ...rest } = options;
    const read = readOptions(
      'RedisPlugin',
      { name, startsWithout },
      { name: text('redis'), startsWithout: bool(false) },
    );
    this.name = read.name;
    this.#startsWithout = read.startsWithout;
    this.#client = new Redis(url, rest);
    this.key = read.name === 'redis' ? redis : stateKey<Redis>(read.name);
  }

  get client(): Redis {
    this.#isHeld = true;
    return this.#client;
  }

  /** Whether the program has read {@link client}, for example for a store. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  register(host: HostLike): void {
    const metrics = RedisMetrics.of(host.metrics);
    const [name, client] = [this.name, this.#client];
    this.#host = host;
    metrics.add(client);
    client.observe(
      {
        onCommand: (seconds) => metrics.commands.observe(seconds, name),
        onEvent: (kind) => metrics.events.add(1, name, kind),
      },
      host.log,
      host.get(services).tracer,
    );
    host.provide(this.key, () => client, Redis);
    host.readiness(name, (signal) => client.ping({ signal }));
    host.rule({
      id: `${name}/tls`,
      severity: 'warning',
      phase: 'environment',
      why: 'Without TLS, attackers on the network can read the password and all data, and can change the data',
      remedy:
        'Begin the address with rediss://, and add sslrootcert=… for a certificate of a private authority',
      run: (view, report) => {
        if (view.env === 'production' && client.isReadable)
          report(
            `plugin ${name}`,
            'the connection to Redis has no TLS, because the address begins with redis://',
          );
      },
    });
  }

  async startup(): Promise<void> {
    const log = this.#host!.log;
    try {
      await this.#client.open();
    } catch (error) {
      if (!this.#startsWithout || !(error instanceof SvcError) || error.code !== 'E_REDIS_OPEN') throw error;
      log.warn('redis_not_reached', { url: this.#client.shown, reason: error });
      this.#client.start();
      return;
    }
    log.info('redis_opened', { url: this.#client.shown });
    await this.#lookAtEviction();
  }

  shutdown(): Promise<void> {
    return this.#client.close();
  }

  /**
   * Warns if the setting `maxmemory-policy` lets the server evict records. Does nothing if the user has no
   * permission to read the setting.
   */
  async #lookAtEviction(): Promise<void> {
    try {
      const policy = /^maxmemory_policy:(\S+)/m.exec(
        String(await this.#client.command(['INFO', 'memory'])),
      )?.[1];
      if (policy !== undefined && policy !== 'noeviction')
        this.#host!.log.warn('redis_evicts', {
          policy,
          remedy:
            'Set maxmemory-policy to noeviction, so that Redis does not delete sessions and idempotency records; keep caches on another server',
        });
    } catch (error) {
      if (!(error instanceof RedisError)) throw error;
    }
  }
}

/** Upper bounds of the buckets of `svc_redis_command_seconds`. */
const COMMAND_BUCKETS = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1];

class RedisMetrics {
  /** Returns the Redis metrics of an application. The first call declares them. */
  static readonly of: (metrics: Metrics) => RedisMetrics = onePer((own) => new RedisMetrics(own));
  readonly commands: Histogram;
  readonly events: Counter;
  readonly #clients = new Set<Redis>();

  private constructor(metrics: Metrics) {
    const sum = (of: (client: Redis) => number) => () =>
      [...this.#clients].reduce((total, client) => total + of(client), 0);
    metrics.gauge(
      'svc_redis_pending',
      'Commands that wait for their replies',
      sum(({ load }) => load.pending + load.waiting),
    );
    metrics.gauge(
      'svc_redis_disconnected',
      'Clients of Redis that have no connection',
      sum(({ isConnected }) => (isConnected ? 0 : 1)),
    );
    this.commands = metrics.histogram(
      'svc_redis_command_seconds',
      'How long commands took until their reply arrived',
      COMMAND_BUCKETS,
      ['redis'],
    );
    this.events = metrics.counter(
      'svc_redis_events_total',
      'Events of connections to Redis, and of commands without a reply',
      ['redis', 'event'],
    );
  }

  add(client: Redis): void {
    this.#clients.add(client);
  }
}
