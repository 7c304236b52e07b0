/**
 * A connection to Redis that is made anew when it is lost: at once, then after pauses that double, up to a second.
 *
 *   start -> connecting -> connected - lost --> connecting -> ...        one attempt at a time, for all who want it
 *                \ refused: the server will not have us, which is asked again twice a minute
 *
 * A connection that ends soon after it was made counts as a failed attempt: nothing is tried in a hot loop.
 */
import { SvcError } from '../../base/errors.ts';
import { Backoff } from '../wire/backoff.ts';
import { ConnectionLost } from '../errors.ts';
import { watchLimit } from '../limits.ts';
import { RedisFault, connectRedis, type RedisConnectDeps } from './connect.ts';
import type { Limit } from '../driver.ts';
import type { RedisConnection } from './connection.ts';

/** What befalls a connection to Redis: the words of `svc_redis_events_total`. */
export type RedisEventKind =
  'connected' | 'lost' | 'connect_failed' | 'evicted' | 'timeout' | 'refused' | 'frames_lost';

/** What a link is made from. */
interface RedisLinkDeps {
  readonly options: RedisConnectDeps;
  /** Done with each new connection before anybody gets it. Rejecting ends it. */
  readonly prepare?: ((connection: RedisConnection) => Promise<void>) | undefined;
  readonly onEvent: (kind: RedisEventKind, error?: unknown) => void;
}

/** One that ends sooner was not worth making. */
const YOUNG_MS = 5_000;
const REFUSED_PAUSE_MS = 30_000;

/** See above. */
export class RedisLink {
  readonly #deps: RedisLinkDeps;
  readonly #abort = new AbortController();
  readonly #backoff = new Backoff(Math.random);
  #connection: RedisConnection | undefined;
  #connectedMs = 0;
  #running: Promise<void> | undefined;
  #ready: PromiseWithResolvers<RedisConnection> = withoutWarning();
  /** Why the last attempt, or the last connection, has failed. */
  #failure: unknown;
  readonly #ending = new Set<Promise<void>>();

  constructor(deps: RedisLinkDeps) {
    this.#deps = deps;
  }

  /** Undefined while there is none. */
  get connection(): RedisConnection | undefined {
    return this.#connection;
  }
  get failure(): unknown {
    return this.#failure;
  }
  /** Attempts that have failed in a row. */
  get failures(): number {
    return this.#backoff.failures;
  }

  /** Begins to connect, if that has not been begun. */
  start(): void {
    if (this.#connection !== undefined || this.#running !== undefined || this.#abort.signal.aborted) return;
    this.#running = this.#connect().finally(() => {
      this.#running = undefined;
    });
  }

  /** Waits for a connection. @throws what the limit says, or why there is none; RedisFault, SvcError at once */
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

  /** Lets a connection go that is of no use any more, as one to a server that has become a replica, and makes another. */
  evict(connection: RedisConnection, error: unknown): void {
    if (this.#connection !== connection) return;
    this.#deps.onEvent('evicted', error);
    this.#left(error);
    this.#end(connection);
    this.start();
  }

  /** Closes what there is, and makes no more. */
  async close(): Promise<void> {
    const error = new ConnectionLost('The client is closed', { sqlstate: '08003' });
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
        if (isFinal(error)) this.#refuse(error);
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
        throw new ConnectionLost('The connection ended as soon as it was made', { sqlstate: '08006' });
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

  #refuse(error: unknown): void {
    this.#ready.reject(error);
    this.#ready = withoutWarning();
  }

  #end(connection: RedisConnection): void {
    connection.onLost = undefined;
    const ending = connection.close();
    this.#ending.add(ending);
    void ending.finally(() => this.#ending.delete(ending));
  }
}

/** Whether no other attempt changes it, unless somebody changes the server or a file. */
function isFinal(error: unknown): boolean {
  return error instanceof RedisFault || error instanceof SvcError;
}

/** Whoever waits is told. */
function withoutWarning(): PromiseWithResolvers<RedisConnection> {
  const ready = Promise.withResolvers<RedisConnection>();
  ready.promise.catch(() => undefined);
  return ready;
}
