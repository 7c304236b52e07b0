/**
 * A connection to Redis that reconnects after it was lost. The first attempt follows at once, and later ones
 * after pauses that double, up to a second.
 *
 * Only one attempt to connect runs at a time, and all callers wait for it. After a permanent refusal, such as
 * a wrong password, the client tries again twice a minute.
 *
 * A connection that ends within five seconds counts as a failed attempt. If it counted as a success, the
 * client would reconnect without pauses.
 */
import { SvcError } from '../../base/errors.ts';
import { Backoff } from '../wire/backoff.ts';
import { ConnectionLost } from '../errors.ts';
import { watchLimit } from '../limits.ts';
import { OnlyReplica, RedisFault, connectRedis, type RedisConnectDeps } from './connect.ts';
import type { Limit } from '../driver.ts';
import type { RedisConnection } from './connection.ts';

/** Events that the metric `svc_redis_events_total` counts. */
export type RedisEventKind =
  'connected' | 'lost' | 'connect_failed' | 'evicted' | 'timeout' | 'refused' | 'frames_lost';

interface RedisLinkDeps {
  readonly options: RedisConnectDeps;
  /**
   * Prepares each new connection before callers get it. If the returned promise rejects, the connection is
   * closed.
   */
  readonly prepare?: ((connection: RedisConnection) => Promise<void>) | undefined;
  readonly onEvent: (kind: RedisEventKind, error?: unknown) => void;
}

/** A connection that ends within this many milliseconds counts as a failed attempt. */
const YOUNG_MS = 5_000;
const REFUSED_PAUSE_MS = 30_000;

export class RedisLink {
  readonly #deps: RedisLinkDeps;
  readonly #abort = new AbortController();
  readonly #backoff = new Backoff(Math.random);
  #connection: RedisConnection | undefined;
  #connectedMs = 0;
  #hasConnected = false;
  #running: Promise<void> | undefined;
  #ready: PromiseWithResolvers<RedisConnection> = withoutWarning();
  /** Error of the last failed attempt to connect, or of the last lost connection. */
  #failure: unknown;
  readonly #ending = new Set<Promise<void>>();

  constructor(deps: RedisLinkDeps) {
    this.#deps = deps;
  }

  get connection(): RedisConnection | undefined {
    return this.#connection;
  }
  get failure(): unknown {
    return this.#failure;
  }
  /** Number of consecutive failed attempts. */
  get failures(): number {
    return this.#backoff.failures;
  }

  /** Starts to connect, unless an attempt is in progress. */
  start(): void {
    if (this.#connection !== undefined || this.#running !== undefined || this.#abort.signal.aborted) return;
    this.#running = this.#connect().finally(() => {
      this.#running = undefined;
    });
  }

  /**
   * Waits for a connection.
   *
   * @throws RedisFault or SvcError at once, when the server refuses the client permanently, and OnlyReplica
   *   when the first attempt finds only a replica. When `limit` is
   *   reached, throws the error of the last failed attempt to connect. If no attempt has failed yet, throws
   *   QueryTimeout or QueryCanceled.
   */
  async connected(limit: Limit): Promise<RedisConnection> {
    this.start();
    if (this.#connection !== undefined) return this.#connection;
    const reached = Promise.withResolvers<never>();
    const watched = watchLimit(limit, this.#deps.options.clock, (error) =>
      reached.reject(this.#failure instanceof Error ? this.#failure : error),
    );
    try {
      return await Promise.race([this.#ready.promise, reached.promise]);
    } finally {
      watched?.[Symbol.dispose]();
    }
  }

  /**
   * Closes an unusable connection, for example to a server that has become a replica, and opens another one.
   */
  evict(connection: RedisConnection, error: unknown): void {
    if (this.#connection !== connection) return;
    this.#deps.onEvent('evicted', error);
    this.#left(error);
    this.#end(connection);
    this.start();
  }

  async close(): Promise<void> {
    const error = new ConnectionLost('The Redis client is closed', { sqlstate: '08003' });
    this.#abort.abort(error);
    this.#ready.reject(error);
    if (this.#connection !== undefined) this.#end(this.#connection);
    this.#connection = undefined;
    await this.#running;
    await Promise.all(this.#ending);
  }

  async #connect(): Promise<void> {
    const {
      options: { clock },
      onEvent,
    } = this.#deps;
    const { signal } = this.#abort;
    while (!signal.aborted) {
      const waitMs = isFinal(this.#failure) ? REFUSED_PAUSE_MS : this.#backoff.waitMs(clock.monotonicMs());
      if (waitMs > 0) await clock.sleep(Math.ceil(waitMs), signal).catch(() => undefined);
      if (signal.aborted) return;
      const startedMs = clock.monotonicMs();
      try {
        this.#taken(await this.#made());
        return;
      } catch (error) {
        if (signal.aborted) return;
        this.#failure = error;
        this.#backoff.fail(startedMs, clock.monotonicMs());
        onEvent('connect_failed', error);
        // after a connection, a replica may become the primary again: callers wait for that
        if (isFinal(error) || (error instanceof OnlyReplica && !this.#hasConnected)) {
          this.#ready.reject(error);
          this.#ready = withoutWarning();
        }
      }
    }
  }

  async #made(): Promise<RedisConnection> {
    const { options, prepare } = this.#deps;
    const connection = await connectRedis(options, this.#abort.signal);
    try {
      await prepare?.(connection);
      this.#abort.signal.throwIfAborted();
      if (connection.isEnded)
        throw new ConnectionLost('The connection to Redis ended right after it was opened');
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  #taken(connection: RedisConnection): void {
    const {
      options: { clock },
      onEvent,
    } = this.#deps;
    this.#connection = connection;
    this.#connectedMs = clock.monotonicMs();
    this.#hasConnected = true;
    connection.onLost = (error) => {
      onEvent('lost', error);
      this.#left(error);
      this.start();
    };
    onEvent('connected');
    this.#failure = undefined;
    this.#ready.resolve(connection);
  }

  #left(error: unknown): void {
    const nowMs = this.#deps.options.clock.monotonicMs();
    this.#connection = undefined;
    this.#failure = error;
    this.#ready = withoutWarning();
    if (nowMs - this.#connectedMs >= YOUNG_MS) this.#backoff.succeed();
    else this.#backoff.fail(this.#connectedMs, nowMs);
  }

  #end(connection: RedisConnection): void {
    connection.onLost = undefined;
    const ending = connection.close();
    this.#ending.add(ending);
    void ending.finally(() => this.#ending.delete(ending));
  }
}

/** Returns whether the next attempt would fail, too, as with a wrong password. */
function isFinal(error: unknown): boolean {
  return error instanceof RedisFault || error instanceof SvcError;
}

function withoutWarning(): PromiseWithResolvers<RedisConnection> {
  const ready = Promise.withResolvers<RedisConnection>();
  ready.promise.catch(() => undefined);
  return ready;
}
