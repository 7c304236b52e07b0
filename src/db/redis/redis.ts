/**
 * A client for Redis and Valkey, with scripts, transactions and channels. All callers share one connection,
 * and each command has a time limit.
 *
 *   const redis = new Redis('rediss://app:secret@cache.example/0');
 *   await redis.open();
 *   await redis.command(['SET', 'key', 'value', 'PX', 60_000]);
 *
 * While there is no connection, commands fail at once, unless the option `offlineQueue` lets them wait. A
 * command is never sent twice, because it may have run before its connection broke.
 */
import { createHash } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { given, int, isObject, readOptions, shown, text, outOfRange } from '../../base/options.ts';
import { systemClock, type Clock } from '../../base/clock.ts';
import { ConnectionLost, PoolTimeout, QueryTimeout, ReadOnly, atCaller } from '../errors.ts';
import { MAX_TIMEOUT_MS, limitIn } from '../limits.ts';
import { checkArguments, commandName, limitOf } from './command.ts';
import { connectRedis } from './connect.ts';
import { DedicatedRedis, REFUSED } from './dedicated.ts';
import { RedisLink, type RedisEventKind } from './link.ts';
import { RedisError } from './connection.ts';
import { RedisSubscriber, type RedisSubscribeOptions, type RedisSubscriberFunction } from './subscriber.ts';
import { isReadable, parseRedisUrl, type RedisUrl } from './url.ts';
import { shownUrl } from '../url.ts';
import { guardedTracer, type Tracer } from '../../observability/tracer.ts';
import { DatabaseSpans } from '../tracing.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit } from '../driver.ts';
import type { RedisCommandOptions } from './command.ts';
import type { RedisConnectDeps } from './connect.ts';
import type { RedisConnection, RedisValue } from './connection.ts';
import type { RespArgument } from './resp.ts';

/** An argument of a command: text, bytes or a number. */
export type RedisArgument = RespArgument;

/** Options of a Redis client. */
export interface RedisOptions {
  /**
   * Time limit of a command in milliseconds, 1 ... 2_147_483_647, or 0 for no limit. Default 1_000. When the
   * limit is reached, QueryTimeout is thrown, and the command may still run.
   */
  readonly commandTimeoutMs?: number | undefined;
  /**
   * Maximum number of commands without a reply, 1 ... 1_000_000. Commands whose callers no longer wait count,
   * too. Default 10_000. A further command gets a PoolTimeout at once.
   */
  readonly maxPending?: number | undefined;
  /**
   * Maximum number of commands that wait for a connection, each up to its time limit, 0 ... 1_000_000. With 0,
   * commands fail at once while there is no connection. Default 0.
   */
  readonly offlineQueue?: number | undefined;
  /**
   * Maximum size of a reply in bytes, 1_024 ... 536_870_912. A larger reply closes the connection, and its
   * error names this option. Default 64 MiB.
   */
  readonly maxReplyBytes?: number | undefined;
  /** Name of the connection in CLIENT LIST. Default `svc`. */
  readonly clientName?: string | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
  /** Logger of the client. */
  readonly log?: Logger | undefined;
  /** Makes a span for each command. Default: none; with a RedisPlugin, the tracer of the application. */
  readonly tracer?: Tracer | undefined;
}

interface RedisObserver {
  /** Called after each reply, with the duration of the command in seconds. */
  readonly onCommand?: (seconds: number) => void;
  readonly onEvent?: (kind: RedisEventKind) => void;
}

/** Commands that affect all callers of a shared connection, and so are refused on it. */
const SHARED: ReadonlySet<string> = new Set([
  ...REFUSED,
  ...'BLPOP BRPOP BLMOVE BLMPOP BRPOPLPUSH BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF'.split(' '),
  ...'UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE MULTI EXEC DISCARD WATCH UNWATCH'.split(' '),
  ...'AUTH SELECT SHUTDOWN'.split(' '),
]);

/** A client for Redis and Valkey. The opening comment of db/redis/redis.ts has examples. */
export class Redis implements AsyncDisposable {
  readonly #url: string;
  readonly #address: RedisUrl;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #offlineQueue: number;
  readonly #options: RedisConnectDeps;
  #log: Logger | undefined;
  /** Makes a span for each command; undefined without a tracer. */
  #spans: DatabaseSpans | undefined;
  #observers: readonly RedisObserver[] = [];
  #link: RedisLink | undefined;
  #subscriber: RedisSubscriber | undefined;
  readonly #dedicated = new Set<DedicatedRedis>();
  #waiting = 0;
  #isAway = false;

  /**
   * Creates a client without connecting.
   * @throws SvcError `E_REDIS_URL` for an invalid address, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for invalid
   *   options
   */
  constructor(url: string, options: RedisOptions = {}) {
    const { commandTimeoutMs, maxPending, offlineQueue, maxReplyBytes, clientName, clock, log, tracer } =
      readOptions('Redis', options, {
        commandTimeoutMs: int(1_000, 0, MAX_TIMEOUT_MS),
        maxPending: int(10_000, 1, 1_000_000),
        offlineQueue: int(0, 0, 1_000_000),
        maxReplyBytes: int(64 * 1024 * 1024, 1_024, 512 * 1024 * 1024),
        clientName: text('svc'),
        clock: given<Clock>(),
        log: given<Logger>(),
        tracer: given<Tracer>('a tracer', isObject),
      });
    if (!/^[!-~]{1,64}$/.test(clientName))
      throw outOfRange('Redis', 'clientName', 'must be 1 to 64 visible ASCII characters', shown(clientName));
    this.#url = url;
    this.#address = parseRedisUrl(url);
    this.#clock = clock ?? systemClock;
    this.#log = log;
    if (tracer !== undefined) this.#spans = this.#spansOf(tracer);
    this.#timeoutMs = commandTimeoutMs;
    this.#offlineQueue = offlineQueue;
    this.#options = { address: this.#address, maxReplyBytes, maxPending, clientName, clock: this.#clock };
  }

  /** Address of the server without the password. */
  get shown(): string {
    return shownUrl(this.#url);
  }
  /**
   * Whether attackers on the network can read the traffic: TLS is off, and the server is on another machine.
   */
  get isReadable(): boolean {
    return isReadable(this.#address);
  }
  get isConnected(): boolean {
    return this.#link?.connection !== undefined;
  }
  /** Number of pending commands, and number of commands that wait for a connection. */
  get load(): { readonly pending: number; readonly waiting: number } {
    return { pending: this.#link?.connection?.pending ?? 0, waiting: this.#waiting };
  }

  /**
   * Connects. Waits at most for the `connect_timeout` of the address.
   * @throws SvcError `E_REDIS_OPEN` when no server is reachable or the login fails, `E_DB_CONNECT` when TLS
   *   fails or the server is not Redis
   */
  async open(): Promise<this> {
    const link = this.#begun();
    try {
      await link.connected(limitIn(this.#address.connectTimeoutMs, this.#clock));
      return this;
    } catch (error) {
      if (this.#link === link) this.#link = undefined;
      await link.close();
      throw error instanceof SvcError
        ? error
        : new SvcError('E_REDIS_OPEN', [this.shown, (error as Error).message], { cause: error });
    }
  }

  /** Starts to connect in the background, and retries until it succeeds. */
  start(): void {
    this.#begun().start();
  }

  /**
   * Runs a command. `parts` consists of its name and its arguments.
   *
   * @throws RedisError for a refused command; ReadOnly when the server is a replica; ConnectionLost when
   *   there is no connection or it breaks; QueryTimeout, QueryCanceled when the limit is reached; PoolTimeout
   *   when too many commands are pending; SvcError `E_REDIS_ARGUMENT` for an invalid argument,
   *   `E_REDIS_COMMAND` for a command that affects other callers, `E_REDIS_CLOSED` when the client is not
   *   open
   */
  async command(parts: readonly RedisArgument[], options?: RedisCommandOptions): Promise<RedisValue> {
    const name = checkCommand(parts);
    return this.#run(name, (connection, limit) => connection.send(parts, limit, options?.asBytes), options);
  }

  /**
   * Runs commands as one transaction, MULTI ... EXEC, with no other caller's command between them. The result
   * of a failed command is an Error.
   */
  async transaction(
    commands: readonly (readonly RedisArgument[])[],
    options?: RedisCommandOptions,
  ): Promise<readonly RedisValue[]> {
    for (const parts of commands) checkCommand(parts);
    if (commands.length === 0) return [];
    const result = await this.#run(
      'MULTI',
      (connection, limit) => connection.sendAll([['MULTI'], ...commands, ['EXEC']], limit, options?.asBytes),
      options,
    );
    return result as readonly RedisValue[]; // EXEC returns null only after WATCH, which is refused
  }

  /** Runs a script by its SHA-1 digest. Sends the script's text if the server does not know the digest. */
  async script(
    script: RedisScript,
    keys: readonly RedisArgument[],
    values: readonly RedisArgument[],
    options?: RedisCommandOptions,
  ): Promise<RedisValue> {
    checkArguments([...keys, ...values, '']);
    return this.#run(
      'EVALSHA',
      async (connection, limit) => {
        const send = (command: string, code: string): Promise<RedisValue> =>
          connection.send([command, code, keys.length, ...keys, ...values], limit, options?.asBytes);
        try {
          return await send('EVALSHA', script.sha1);
        } catch (error) {
          if (!(error instanceof RedisError) || error.reply !== 'NOSCRIPT') throw error;
          return send('EVAL', script.text);
        }
      },
      options,
    );
  }

  /**
   * Subscribes to a channel on a separate connection, until the result is disposed of. Resolves when the
   * server has confirmed the subscription.
   */
  async subscribe(
    channel: string,
    fn: RedisSubscriberFunction,
    options: RedisSubscribeOptions = {},
  ): Promise<AsyncDisposable> {
    const { onReconnect } = readOptions('subscribe', options, {
      onReconnect: given<() => unknown>('a function', (value) => typeof value === 'function'),
    });
    checkArguments([channel]);
    this.#begun();
    return this.#subscribing().subscribe(channel, fn, { onReconnect });
  }

  /**
   * Opens a connection for one caller, for blocking commands such as BLPOP and for sequences such as WATCH,
   * MULTI, EXEC. Waits for each host up to the `connect_timeout` of the address. close() of the client also
   * closes this connection.
   *
   * @throws ConnectionLost, QueryTimeout when no server responds; QueryCanceled when the signal aborts;
   *   DatabaseError for a refused login; SvcError `E_DB_CONNECT` when TLS fails, `E_REDIS_CLOSED` when the
   *   client is not open
   */
  async dedicated({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<DedicatedRedis> {
    const link = this.#link;
    if (link === undefined) throw new SvcError('E_REDIS_CLOSED', []);
    try {
      const connection = await connectRedis(this.#options, signal);
      const dedicated = new DedicatedRedis(
        connection,
        this.#clock,
        this.#spans,
        () => void this.#dedicated.delete(dedicated),
      );
      this.#dedicated.add(dedicated);
      if (this.#link !== link) {
        dedicated.destroy(); // the client was closed while this connection was opening
        throw new SvcError('E_REDIS_CLOSED', []);
      }
      return dedicated;
    } catch (error) {
      throw atCaller(error);
    }
  }

  /**
   * Like {@link subscribe}, but also resolves if the server is not reachable. Then the next connection
   * subscribes to the channel.
   * @internal
   */
  subscribeLater(channel: string, fn: RedisSubscriberFunction): Promise<AsyncDisposable> {
    return this.#subscribing().subscribe(channel, fn, {}, true);
  }

  /** Publishes a message to a channel. Returns the number of subscribers that received it. */
  async publish(
    channel: string,
    message: string | Uint8Array,
    options?: RedisCommandOptions,
  ): Promise<number> {
    return Number(await this.command(['PUBLISH', channel, message], options));
  }

  /** Sends a PING. Rejects when the server does not answer. */
  async ping(options?: RedisCommandOptions): Promise<void> {
    await this.command(['PING'], options);
  }

  /**
   * Waits up to a second for pending commands, then closes all connections. A second call has no effect.
   * Afterwards, open() connects again.
   */
  async close(): Promise<void> {
    const [link, subscriber] = [this.#link, this.#subscriber];
    this.#link = this.#subscriber = undefined;
    const closing = [...this.#dedicated].map((dedicated) => dedicated.close());
    await Promise.all([link?.close(), subscriber?.close(), ...closing]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Connects the client to the metrics, the log and the tracer of an application. @internal */
  observe(observer: RedisObserver, log: Logger, tracer: Tracer | undefined): void {
    this.#observers = [...this.#observers, observer];
    this.#log ??= log;
    if (tracer !== undefined) this.#spans ??= this.#spansOf(tracer);
  }

  /**
   * Counts an event in the metrics, for example a WebSocket frame that could not be sent to a room.
   * @internal
   */
  report(kind: RedisEventKind): void {
    for (const { onEvent } of this.#observers) onEvent?.(kind);
  }

  #begun(): RedisLink {
    return (this.#link ??= new RedisLink({
      options: this.#options,
      onEvent: (kind, error) => this.#onEvent(kind, error),
    }));
  }

  #subscribing(): RedisSubscriber {
    return (this.#subscriber ??= new RedisSubscriber({
      options: this.#options,
      timeoutMs: this.#address.connectTimeoutMs,
      log: () => this.#log,
      onEvent: (kind) => this.report(kind),
    }));
  }

  #spansOf(tracer: Tracer): DatabaseSpans {
    const { database, hosts } = this.#address;
    return new DatabaseSpans(guardedTracer(tracer, this.#log), {
      system: 'redis',
      namespace: String(database),
      hosts,
      codeOf: (error) => (error instanceof RedisError ? error.reply : undefined),
    });
  }

  #run(
    name: string,
    send: (connection: RedisConnection, limit: Limit | undefined) => Promise<RedisValue>,
    options: RedisCommandOptions | undefined,
  ): Promise<RedisValue> {
    return this.#spans === undefined
      ? this.#send(send, options)
      : this.#spans.command(name, () => this.#send(send, options));
  }

  async #send(
    send: (connection: RedisConnection, limit: Limit | undefined) => Promise<RedisValue>,
    options: RedisCommandOptions | undefined,
  ): Promise<RedisValue> {
    const startedMs = this.#clock.monotonicMs();
    const limit = limitOf(options, this.#timeoutMs, startedMs);
    let connection = this.#link?.connection;
    try {
      connection ??= await this.#waited(limit);
      const value = await send(connection, limit);
      for (const { onCommand } of this.#observers)
        onCommand?.((this.#clock.monotonicMs() - startedMs) / 1_000);
      return value;
    } catch (error) {
      if (error instanceof ReadOnly && connection !== undefined && this.#address.role === 'primary')
        // the server has become a replica, so another connection is needed
        this.#link?.evict(connection, error);
      if (error instanceof QueryTimeout) this.report('timeout');
      else if (error instanceof PoolTimeout) this.report('refused');
      throw atCaller(error);
    }
  }

  /** Waits for a connection. Throws at once if as many commands as `offlineQueue` allows already wait. */
  async #waited(limit: Limit | undefined): Promise<RedisConnection> {
    const link = this.#link;
    if (link === undefined) throw new SvcError('E_REDIS_CLOSED', []);
    if (this.#waiting >= this.#offlineQueue) {
      link.start();
      throw new ConnectionLost(
        `Redis is not reachable${link.failure instanceof Error ? `: ${link.failure.message}` : ''}`,
        { sqlstate: '08003', cause: link.failure },
      );
    }
    this.#waiting++;
    try {
      return await link.connected(limit ?? { signal: undefined, deadlineMs: Infinity, timeoutMs: 0 });
    } finally {
      this.#waiting--;
    }
  }

  /** Logs the first of several failures, and the first success after them. */
  #onEvent(kind: RedisEventKind, error: unknown): void {
    if (kind === 'connect_failed' || kind === 'lost') {
      if (!this.#isAway) this.#log?.warn('redis_not_reached', { url: this.shown, reason: error });
      this.#isAway = true;
    } else if (kind === 'connected') {
      if (this.#isAway) this.#log?.info('redis_reached_again', { url: this.shown });
      this.#isAway = false;
    }
    this.report(kind);
  }
}

/** Returns the name of a command. Throws for a command that must not run on the shared connection. */
function checkCommand(parts: readonly unknown[]): string {
  const name = commandName(parts);
  const isRefused =
    SHARED.has(name) ||
    (name === 'CLIENT' && /^(?:REPLY|PAUSE|TRACKING)$/i.test(String(parts[1]))) ||
    (name.startsWith('XREAD') && isBlockingRead(parts));
  if (isRefused) throw new SvcError('E_REDIS_COMMAND', [name]);
  return name;
}

/**
 * Returns whether an XREAD command has the option BLOCK. Words after STREAMS are names of streams, not
 * options.
 */
function isBlockingRead(parts: readonly unknown[]): boolean {
  const words = parts.map((part) => String(part).toUpperCase());
  return words.slice(0, words.indexOf('STREAMS')).includes('BLOCK');
}

/** A Lua script for {@link Redis.script}. A script may use only the keys that it gets as arguments. */
export class RedisScript {
  readonly text: string;
  /** SHA-1 in hexadecimal. */
  readonly sha1: string;

  constructor(text: string) {
    this.text = text;
    this.sha1 = createHash('sha1').update(text).digest('hex');
  }
}
