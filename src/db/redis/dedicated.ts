/**
 * A connection to Redis for one caller: for blocking commands such as BLPOP, and for sequences such as WATCH,
 * MULTI and EXEC.
 *
 *   await using queue = await redis.dedicated();
 *   const item = await queue.command(['BLPOP', 'jobs', 0], { signal });
 *
 * When the limit of a command is reached, the connection ends. On an open connection, Redis could later
 * remove an item from a list and send it to a caller that no longer waits.
 */
import { ConnectionLost, QueryCanceled, QueryTimeout, atCaller } from '../errors.ts';
import { commandName, limitOf } from './command.ts';
import { SvcError } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { DatabaseSpans } from '../tracing.ts';
import type { RedisCommandOptions } from './command.ts';
import type { RedisConnection, RedisValue } from './connection.ts';
import type { RespArgument } from './resp.ts';

/**
 * Commands that are refused, because they change the connection or the order of its replies. Use
 * Redis.subscribe() or parameters of the address instead.
 * @internal
 */
export const REFUSED: readonly string[] =
  'SUBSCRIBE PSUBSCRIBE SSUBSCRIBE MONITOR SYNC PSYNC HELLO RESET QUIT'.split(' ');

/** A connection to Redis for one caller. {@link Redis.dedicated} opens it. */
export class DedicatedRedis implements AsyncDisposable {
  readonly #connection: RedisConnection;
  readonly #clock: Clock;
  readonly #spans: DatabaseSpans | undefined;
  readonly #onClose: () => void;

  /** @internal */
  constructor(
    connection: RedisConnection,
    clock: Clock,
    spans: DatabaseSpans | undefined,
    onClose: () => void,
  ) {
    this.#connection = connection;
    this.#clock = clock;
    this.#spans = spans;
    this.#onClose = onClose;
  }

  /**
   * Runs a command. `parts` consists of its name and its arguments. Without `timeoutMs` and `signal`, the
   * command has no time limit. Reaching the limit ends the connection.
   *
   * @throws RedisError for a refused command; ReadOnly when the server is a replica; ConnectionLost when the
   *   connection breaks; QueryTimeout, QueryCanceled when the limit is reached; SvcError `E_REDIS_ARGUMENT`
   *   for an invalid argument, `E_REDIS_COMMAND` for a command such as SUBSCRIBE or HELLO
   */
  async command(parts: readonly RespArgument[], options?: RedisCommandOptions): Promise<RedisValue> {
    const name = commandName(parts);
    const isRefused =
      REFUSED.includes(name) || (name === 'CLIENT' && /^(?:REPLY|TRACKING)$/i.test(String(parts[1])));
    if (isRefused) throw new SvcError('E_REDIS_COMMAND', [name]);
    return this.#spans === undefined
      ? this.#send(parts, options)
      : this.#spans.command(name, () => this.#send(parts, options));
  }

  async #send(parts: readonly RespArgument[], options?: RedisCommandOptions): Promise<RedisValue> {
    try {
      return await this.#connection.send(
        parts,
        limitOf(options, 0, this.#clock.monotonicMs()),
        options?.asBytes,
      );
    } catch (error) {
      if (error instanceof QueryTimeout || error instanceof QueryCanceled) this.destroy();
      throw atCaller(error);
    }
  }

  /** Waits up to a second for pending commands, then closes the connection. */
  async close(): Promise<void> {
    this.#onClose();
    await this.#connection.close();
  }

  /** Ends the connection at once. Pending commands reject with ConnectionLost. */
  destroy(): void {
    this.#onClose();
    this.#connection.destroy(
      new ConnectionLost('The connection to Redis was closed before a reply to the command arrived'),
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
