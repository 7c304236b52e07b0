/**
 * A connection to Redis for one caller: for commands that wait, such as BLPOP, and for those that belong together, such as WATCH,
 * MULTI and EXEC.
 *
 *   await using queue = await redis.dedicated();
 *   const item = await queue.command(['BLPOP', 'jobs', 0], { signal });
 *
 * A command that is given up ends the connection. Redis would otherwise still take an item from the list, and give it to no caller.
 */
import { ConnectionLost, QueryCanceled, QueryTimeout, atCaller } from '../errors.ts';
import { commandName, limitOf } from './command.ts';
import { SvcError } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { RedisCommandOptions } from './command.ts';
import type { RedisConnection, RedisValue } from './connection.ts';
import type { RespArgument } from './resp.ts';

/** They make replies of the connection mean something else. Redis.subscribe() and the address are there for that. */
const REFUSED: ReadonlySet<string> = new Set([
  'SUBSCRIBE',
  'PSUBSCRIBE',
  'SSUBSCRIBE',
  'MONITOR',
  'SYNC',
  'PSYNC',
  'HELLO',
  'RESET',
  'QUIT',
]);

/** A connection of its own, from {@link Redis.dedicated}. */
export class DedicatedRedis implements AsyncDisposable {
  readonly #connection: RedisConnection;
  readonly #clock: Clock;
  readonly #onClose: () => void;

  /** @internal */
  constructor(connection: RedisConnection, clock: Clock, onClose: () => void) {
    this.#connection = connection;
    this.#clock = clock;
    this.#onClose = onClose;
  }

  /**
   * Runs a command: its name, then its arguments. It may take as long as it does, unless `timeoutMs` or `signal` says otherwise: then the
   * connection ends.
   *
   * @throws RedisError for what the server refuses; ReadOnly of a replica; ConnectionLost; QueryTimeout, QueryCanceled; SvcError
   * `E_REDIS_ARGUMENT`, `E_REDIS_COMMAND`
   */
  async command(parts: readonly RespArgument[], options?: RedisCommandOptions): Promise<RedisValue> {
    const name = commandName(parts);
    const isRefused =
      REFUSED.has(name) || (name === 'CLIENT' && /^(?:REPLY|TRACKING)$/i.test(String(parts[1])));
    if (isRefused) throw new SvcError('E_REDIS_COMMAND', [name]);
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

  /** Waits a second for commands under way, and closes. */
  async close(): Promise<void> {
    this.#onClose();
    await this.#connection.close();
  }

  /** Ends the connection at once. Commands under way are a ConnectionLost. */
  destroy(): void {
    this.#onClose();
    this.#connection.destroy(new ConnectionLost('A command was given up', { sqlstate: '08006' }));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
