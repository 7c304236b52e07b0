/**
 * A client of Redis and Valkey: commands of all callers over one connection, each with a deadline; scripts, transactions, channels.
 *
 *   const redis = new Redis('rediss://app:secret@cache.example/0');
 *   await redis.open();
 *   await redis.command(['SET', 'key', 'value', 'PX', 60_000]);
 *
 * While there is no connection commands fail at once, unless `offlineQueue` lets them wait. Nothing is sent twice: of a command
 * whose connection broke nobody knows whether it has run.
 */
import { createHash } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { given, int, readOptions, shown, text } from '../../base/options.ts';
import { systemClock, type Clock } from '../../base/clock.ts';
import { ConnectionLost, PoolTimeout, QueryTimeout, ReadOnly, atCaller } from '../errors.ts';
import { MAX_TIMEOUT_MS } from '../limits.ts';
import { checkArguments, commandName, limitOf } from './command.ts';
import { connectRedis } from './connect.ts';
import { DedicatedRedis } from './dedicated.ts';
import { RedisLink, type RedisEventKind } from './link.ts';
import { RedisError } from './connection.ts';
import { RedisSubscriber, type RedisSubscribeOptions, type RedisSubscriberFunction } from './subscriber.ts';
import { isReadable, parseRedisUrl, type RedisUrl } from './url.ts';
import { shownUrl } from '../url.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit } from '../driver.ts';
import type { RedisCommandOptions } from './command.ts';
import type { RedisConnectDeps } from './connect.ts';
import type { RedisConnection, RedisValue } from './connection.ts';
import type { RespArgument } from './resp.ts';

/** What a command is made of: text, bytes, numbers. */
export type RedisArgument = RespArgument;

/** How a client works. */
export interface RedisOptions {
  /** How long a command may take, 1 ... 2_147_483_647; 0 for as long as it does. Default 1_000; then QueryTimeout, and the command may still run. */
  readonly commandTimeoutMs?: number | undefined;
  /** Commands under way at most, those that were given up among them, 1 ... 1_000_000. Default 10_000; one more gets a PoolTimeout at once. */
  readonly maxPending?: number | undefined;
  /** Commands that wait for a connection while there is none, each up to its own time, 0 ... 1_000_000. Default 0: they fail at once. */
  readonly offlineQueue?: number | undefined;
  /** Bytes of one reply at most, 1_024 ... 536_870_912; a server that sends more loses the connection. Default 64 MiB. */
  readonly maxReplyBytes?: number | undefined;
  /** What CLIENT LIST shows. Default `svc`. */
  readonly clientName?: string | undefined;
  readonly clock?: Clock | undefined;
  readonly log?: Logger | undefined;
}

/** Who counts what a client does. @internal */
interface RedisObserver {
  /** Seconds, of each command that was answered. */
  readonly onCommand?: (seconds: number) => void;
  readonly onEvent?: (kind: RedisEventKind) => void;
}

/** They change what all others get, or hold up all of them: each needs a connection of its own, as {@link Redis.dedicated} gives. */
const REFUSED: ReadonlySet<string> = new Set([
  'SUBSCRIBE',
  'PSUBSCRIBE',
  'SSUBSCRIBE',
  'UNSUBSCRIBE',
  'PUNSUBSCRIBE',
  'SUNSUBSCRIBE',
  'MONITOR',
  'SYNC',
  'PSYNC',
  'BLPOP',
  'BRPOP',
  'BLMOVE',
  'BLMPOP',
  'BRPOPLPUSH',
  'BZPOPMIN',
  'BZPOPMAX',
  'BZMPOP',
  'WAIT',
  'WAITAOF',
  'MULTI',
  'EXEC',
  'DISCARD',
  'WATCH',
  'UNWATCH',
  'AUTH',
  'HELLO',
  'SELECT',
  'QUIT',
  'RESET',
  'SHUTDOWN',
]);

/** See above. */
export class Redis implements AsyncDisposable {
  readonly #url: string;
  readonly #address: RedisUrl;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #offlineQueue: number;
  readonly #options: RedisConnectDeps;
  #log: Logger | undefined;
  #observers: readonly RedisObserver[] = [];
  #link: RedisLink | undefined;
  #subscriber: RedisSubscriber | undefined;
  readonly #dedicated = new Set<DedicatedRedis>();
  #waiting = 0;
  #isAway = false;

  /** Connects to nothing yet. @throws SvcError `E_REDIS_URL`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  constructor(url: string, options: RedisOptions = {}) {
    const { commandTimeoutMs, maxPending, offlineQueue, maxReplyBytes, clientName, clock, log } = readOptions(
      'Redis',
      options,
      {
        commandTimeoutMs: int(1_000, 0, MAX_TIMEOUT_MS),
        maxPending: int(10_000, 1, 1_000_000),
        offlineQueue: int(0, 0, 1_000_000),
        maxReplyBytes: int(64 * 1024 * 1024, 1_024, 512 * 1024 * 1024),
        clientName: text('svc'),
        clock: given<Clock>(),
        log: given<Logger>(),
      },
    );
    if (!/^[!-~]{1,64}$/.test(clientName))
      throw new SvcError('E_OPTION_RANGE', [
        'Redis',
        'clientName',
        '1 … 64 visible characters of ASCII',
        shown(clientName),
      ]);
    this.#url = url;
    this.#address = parseRedisUrl(url);
    this.#clock = clock ?? systemClock;
    this.#log = log;
    this.#timeoutMs = commandTimeoutMs;
    this.#offlineQueue = offlineQueue;
    this.#options = { address: this.#address, maxReplyBytes, maxPending, clientName, clock: this.#clock };
  }

  /** The address without its password. */
  get shown(): string {
    return shownUrl(this.#url);
  }
  /** Whether what is said to the server can be read on the way. */
  get isReadable(): boolean {
    return isReadable(this.#address);
  }
  get isConnected(): boolean {
    return this.#link?.connection !== undefined;
  }
  /** Commands under way, and those that wait for a connection. */
  get load(): { readonly pending: number; readonly waiting: number } {
    return { pending: this.#link?.connection?.pending ?? 0, waiting: this.#waiting };
  }

  /** Connects, and waits until that is done, as long as one attempt may take. @throws SvcError `E_REDIS_OPEN`, `E_DB_CONNECT` */
  async open(): Promise<this> {
    const link = this.#begun();
    try {
      const timeoutMs = this.#address.connectTimeoutMs;
      await link.connected({
        signal: undefined,
        deadlineMs: this.#clock.monotonicMs() + timeoutMs,
        timeoutMs,
      });
      return this;
    } catch (error) {
      if (this.#link === link) this.#link = undefined;
      await link.close();
      throw error instanceof SvcError
        ? error
        : new SvcError('E_REDIS_OPEN', [this.shown, (error as Error).message], { cause: error });
    }
  }

  /** Begins to connect, and goes on until it succeeds. */
  start(): void {
    this.#begun().start();
  }

  /**
   * Runs a command: its name, then its arguments.
   *
   * @throws RedisError for what the server refuses; ReadOnly of a replica; ConnectionLost; QueryTimeout, QueryCanceled; PoolTimeout;
   * SvcError `E_REDIS_ARGUMENT`, `E_REDIS_COMMAND`, `E_REDIS_CLOSED`
   */
  async command(parts: readonly RedisArgument[], options?: RedisCommandOptions): Promise<RedisValue> {
    checkCommand(parts);
    return this.#run((connection, limit) => connection.send(parts, limit, options?.asBytes), options);
  }

  /** Runs commands one after the other, with none of anybody else's between: MULTI ... EXEC. What one refuses stands as an Error in its place. */
  async transaction(
    commands: readonly (readonly RedisArgument[])[],
    options?: RedisCommandOptions,
  ): Promise<readonly RedisValue[]> {
    for (const parts of commands) checkCommand(parts);
    if (commands.length === 0) return [];
    const result = await this.#run(
      (connection, limit) => connection.sendAll([['MULTI'], ...commands, ['EXEC']], limit, options?.asBytes),
      options,
    );
    return result as readonly RedisValue[]; // without WATCH it is no null
  }

  /** Runs a script by its digest, and with its text where the server does not know it. */
  async script(
    script: RedisScript,
    keys: readonly RedisArgument[],
    values: readonly RedisArgument[],
    options?: RedisCommandOptions,
  ): Promise<RedisValue> {
    checkArguments([...keys, ...values, '']);
    return this.#run(async (connection, limit) => {
      try {
        return await connection.send(
          ['EVALSHA', script.sha1, keys.length, ...keys, ...values],
          limit,
          options?.asBytes,
        );
      } catch (error) {
        if (!(error instanceof RedisError) || error.reply !== 'NOSCRIPT') throw error; // it has not run
        return connection.send(
          ['EVAL', script.text, keys.length, ...keys, ...values],
          limit,
          options?.asBytes,
        );
      }
    }, options);
  }

  /** Hears what is published to a channel, until it is disposed of, over a connection of its own. Resolves when the server knows of it. */
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
   * A connection for one caller, for commands that wait (BLPOP, XREAD BLOCK) or that belong together (WATCH, MULTI, EXEC). Connects within the
   * time that the address gives. close() of the client closes it, too.
   *
   * @throws ConnectionLost, QueryTimeout when no server answers; QueryCanceled; RedisError for a refused login; SvcError `E_DB_CONNECT`, `E_REDIS_CLOSED`
   */
  async dedicated({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<DedicatedRedis> {
    const link = this.#link;
    if (link === undefined) throw new SvcError('E_REDIS_CLOSED', []);
    try {
      const connection = await connectRedis(this.#options, signal);
      const dedicated = new DedicatedRedis(
        connection,
        this.#clock,
        () => void this.#dedicated.delete(dedicated),
      );
      this.#dedicated.add(dedicated);
      if (this.#link !== link) {
        dedicated.destroy(); // closed meanwhile
        throw new SvcError('E_REDIS_CLOSED', []);
      }
      return dedicated;
    } catch (error) {
      throw atCaller(error);
    }
  }

  /** As subscribe(), but waits for no connection: there may be none yet. @internal */
  subscribeLater(channel: string, fn: RedisSubscriberFunction): Promise<AsyncDisposable> {
    return this.#subscribing().subscribe(channel, fn, {}, true);
  }

  /** Sends to a channel: how many connections have heard it. */
  async publish(
    channel: string,
    message: string | Uint8Array,
    options?: RedisCommandOptions,
  ): Promise<number> {
    return Number(await this.command(['PUBLISH', channel, message], options));
  }

  /** Rejects when the server does not answer. */
  async ping(options?: RedisCommandOptions): Promise<void> {
    await this.command(['PING'], options);
  }

  /** Waits a second for what is under way, and closes. May be called again; open() opens it anew. */
  async close(): Promise<void> {
    const [link, subscriber] = [this.#link, this.#subscriber];
    this.#link = this.#subscriber = undefined;
    const closing = [...this.#dedicated].map((dedicated) => dedicated.close());
    await Promise.all([link?.close(), subscriber?.close(), ...closing]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Tells whoever counts, and logs to where the application does. @internal */
  observe(observer: RedisObserver, log: Logger): void {
    this.#observers = [...this.#observers, observer];
    this.#log ??= log;
  }

  /** Says that frames for rooms got lost. @internal */
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

  async #run(
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
        this.#link?.evict(connection, error); // it has become a replica
      if (error instanceof QueryTimeout) this.report('timeout');
      else if (error instanceof PoolTimeout) this.report('refused');
      throw atCaller(error);
    }
  }

  /** Waits for a connection, if one may. */
  async #waited(limit: Limit | undefined): Promise<RedisConnection> {
    const link = this.#link;
    if (link === undefined) throw new SvcError('E_REDIS_CLOSED', []);
    if (this.#waiting >= this.#offlineQueue) {
      link.start();
      throw new ConnectionLost(
        `Redis is away${link.failure instanceof Error ? `: ${link.failure.message}` : ''}`,
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

  /** The first of several failures is logged, and the end of them. */
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

/** @throws SvcError `E_REDIS_ARGUMENT`; `E_REDIS_COMMAND` for a command that other callers would notice */
function checkCommand(parts: readonly unknown[]): void {
  const name = commandName(parts);
  const isRefused =
    REFUSED.has(name) ||
    (name === 'CLIENT' && /^(?:REPLY|PAUSE|TRACKING)$/i.test(String(parts[1]))) ||
    (name.startsWith('XREAD') && parts.some((part) => /^block$/i.test(String(part))));
  if (isRefused) throw new SvcError('E_REDIS_COMMAND', [name]);
}

/** A script of Lua. It may use only the keys that it is given, and no random values but those of the server. */
export class RedisScript {
  readonly text: string;
  /** In hex. */
  readonly sha1: string;

  constructor(text: string) {
    this.text = text;
    this.sha1 = createHash('sha1').update(text).digest('hex');
  }
}
