/**
 * One connection to Redis, shared by many callers. Commands wait for their replies in a queue, and each reply
 * belongs to the first command of the queue. Commands of one turn of the event loop are written together.
 *
 * A command whose caller no longer waits stays in the queue, so that its reply never reaches another caller
 * (CVE-2023-28858).
 *
 * An unexpected reply ends the connection. Then all pending commands reject, and none of them is sent again.
 */
import {
  ConnectionLost,
  DatabaseError,
  LockTimeout,
  PoolTimeout,
  ProtocolViolation,
  ReadOnly,
  lostByProtocol,
} from '../errors.ts';
import { watchLimit } from '../limits.ts';
import { RequestQueue, type PendingRequest } from '../wire/conversation.ts';
import { foreignRefusal, foreignServer } from '../wire/server-probe.ts';
import {
  ReplyTooLarge,
  RespError,
  RespReader,
  RespWriter,
  type RespArgument,
  type RespValue,
} from './resp.ts';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

/** A value in a reply. A string is returned as text, or as bytes if the command requested bytes. */
export type RedisValue =
  string | Uint8Array | number | bigint | boolean | null | Error | RedisValue[] | Map<RedisValue, RedisValue>;

export interface RedisConnectionDeps {
  readonly socket: Socket;
  readonly clock: Clock;
  readonly maxReplyBytes: number;
  /** Maximum number of pending commands, including commands whose callers no longer wait. */
  readonly maxPending: number;
}

/** Maximum size in bytes of commands that are not sent yet. */
const MAX_UNSENT_BYTES = 64 * 1024 * 1024;
/**
 * If a command times out and the server has sent nothing for this many milliseconds, the connection counts as
 * lost.
 */
const SILENT_MS = 5_000;
/** Milliseconds that close() waits for pending commands. */
const CLOSE_MS = 1_000;

interface Waiter extends PendingRequest<Waiter> {
  /** First word of the command, for error messages. */
  readonly name: string;
  readonly isBytes: boolean;
  readonly sentMs: number;
  resolve: (value: RedisValue) => void;
  refuse: (error: Error) => void;
}

export class RedisConnection extends RequestQueue<Waiter, RespWriter> {
  readonly #clock: Clock;
  readonly #maxPending: number;
  #receivedMs: number;
  #quiet: (() => void) | undefined;
  /**
   * Called for each message of the server. Must return true if the message is not a reply to a command.
   * Without a handler, push messages of RESP3 are dropped.
   */
  onPush: ((value: RespValue, isPush: boolean) => boolean) | undefined;

  constructor({ socket, clock, maxReplyBytes, maxPending }: RedisConnectionDeps) {
    const reader = new RespReader((value, isPush) => this.#onReply(value, isPush), { maxReplyBytes });
    super({ socket, reader, writer: new RespWriter(), peer: 'Redis' });
    this.#clock = clock;
    this.#maxPending = maxPending;
    this.#receivedMs = clock.monotonicMs();
    socket.on('data', (chunk: Buffer) => this.#onBytes(chunk));
    socket.resume();
  }

  /** Number of commands that have no reply yet, including commands whose callers no longer wait. */
  get pending(): number {
    return this.size;
  }

  /**
   * Sends a command and waits for its reply. The caller has validated the arguments.
   *
   * @throws RedisError, ReadOnly, LockTimeout for an error reply; ConnectionLost when the connection breaks,
   *   although the command may have run; PoolTimeout when too many commands are pending; QueryTimeout,
   *   QueryCanceled when the limit is reached, although the command may still run
   */
  send(parts: readonly RespArgument[], limit?: Limit, isBytes: boolean = false): Promise<RedisValue> {
    return this.#refusal(1) ?? this.#enqueue(parts, limit, isBytes);
  }

  /**
   * Sends the commands of a transaction together, or none of them. Returns the reply to the last command,
   * EXEC. If EXEC fails because the server refused an earlier command, the error contains that refusal.
   */
  async sendAll(
    commands: readonly (readonly RespArgument[])[],
    limit?: Limit,
    isBytes: boolean = false,
  ): Promise<RedisValue> {
    const refusal = this.#refusal(commands.length);
    if (refusal !== undefined) return refusal;
    let refused: unknown;
    for (const parts of commands.slice(0, -1))
      this.#enqueue(parts, undefined, false).catch((error: unknown) => {
        refused ??= error;
      });
    try {
      return await this.#enqueue(commands.at(-1)!, limit, isBytes);
    } catch (error) {
      if (!(error instanceof RedisError && error.reply === 'EXECABORT' && refused instanceof Error))
        throw error;
      // throw an error such as ReadOnly, because it explains the failure better than EXECABORT
      if (!(refused instanceof RedisError)) throw refused;
      error.message += ` (${refused.message})`;
      throw error;
    }
  }

  #refusal(count: number): Promise<never> | undefined {
    if (this.endedBy !== undefined) return Promise.reject(this.closedError());
    if (
      this.size + count <= this.#maxPending &&
      this.writer.length + this.socket.writableLength <= MAX_UNSENT_BYTES
    )
      return undefined;
    return Promise.reject(
      new PoolTimeout(
        `Too many Redis commands are pending: ${this.size} commands wait for replies (the limit is ${this.#maxPending}), or more than ${MAX_UNSENT_BYTES} bytes wait to be sent`,
      ),
    );
  }

  #enqueue(parts: readonly RespArgument[], limit: Limit | undefined, isBytes: boolean): Promise<RedisValue> {
    const name = String(parts[0]);
    const { promise, resolve, reject } = Promise.withResolvers<RedisValue>();
    const waiter: Waiter = {
      name,
      isBytes,
      sentMs: this.#clock.monotonicMs(),
      resolve,
      refuse: reject,
      next: undefined,
    };
    this.writer.command(parts);
    this.push(waiter);
    this.flushSoon();
    if (limit !== undefined) this.#watch(waiter, limit);
    return promise;
  }

  async close(): Promise<void> {
    const late = this.#clock.after(CLOSE_MS, () => {
      this.destroy();
    });
    if (this.endedBy === undefined && this.size > 0)
      await new Promise<void>((resolve) => {
        this.#quiet = resolve;
      });
    if (this.endedBy === undefined) {
      this.flush();
      this.end(this.closedHere('08003'));
      this.socket.end();
    }
    await this.closed;
    late[Symbol.dispose]();
  }

  /**
   * Rejects a command when its limit is reached. The command stays in the queue, because its reply may still
   * arrive.
   */
  #watch(waiter: Waiter, limit: Limit): void {
    const { resolve, refuse } = waiter;
    const watched = watchLimit(limit, this.#clock, (error) => {
      waiter.resolve = waiter.refuse = () => undefined;
      refuse(error);
      const quietMs = this.#clock.monotonicMs() - Math.max(this.#receivedMs, this.first?.sentMs ?? Infinity);
      if (quietMs >= SILENT_MS)
        this.abandon(
          new ConnectionLost(`The Redis server sent no data for ${Math.round(quietMs)} ms`, { cause: error }),
        );
    });
    if (watched === undefined) return;
    waiter.resolve = (value) => {
      watched[Symbol.dispose]();
      resolve(value);
    };
    waiter.refuse = (error) => {
      watched[Symbol.dispose]();
      refuse(error);
    };
  }

  #onBytes(chunk: Buffer): void {
    if (this.endedBy !== undefined) return;
    this.#receivedMs = this.#clock.monotonicMs();
    try {
      this.reader.push(chunk);
    } catch (error) {
      const foreign = foreignServer(chunk, 'Redis');
      const { remoteAddress = '', remotePort = '' } = this.socket;
      if (foreign !== undefined)
        return this.abandon(foreignRefusal(`${remoteAddress}:${remotePort}`, foreign, 'Redis'));
      if (error instanceof ReplyTooLarge)
        return this.abandon(
          new ConnectionLost(
            'A reply is larger than maxReplyBytes, so the connection was closed: read the value in parts (GETRANGE, HSCAN, …), or raise maxReplyBytes',
            { sqlstate: '54000', cause: error },
          ),
        );
      this.abandon(lostByProtocol(error));
    }
  }

  #onReply(value: RespValue, isPush: boolean): void {
    if (this.endedBy !== undefined) return;
    if (this.onPush?.(value, isPush) === true || (isPush && this.onPush === undefined)) return;
    const waiter = this.first;
    if (waiter === undefined)
      throw new ProtocolViolation('the server sent a reply although no command waits for a reply');
    this.shift(waiter);
    if (value instanceof RespError) waiter.refuse(redisError(value, waiter.name));
    else waiter.resolve(plain(value, waiter));
    if (this.size === 0) this.#quiet?.();
  }

  protected onEnd(): void {
    this.#quiet?.();
  }
}

function plain(value: RespValue, waiter: Waiter): RedisValue {
  if (typeof value !== 'object' || value === null) return value;
  // copy the bytes, because they may share the memory of a larger buffer
  if (Buffer.isBuffer(value)) return waiter.isBytes ? new Uint8Array(value) : value.toString();
  if (value instanceof RespError) return redisError(value, waiter.name);
  if (Array.isArray(value)) return value.map((each) => plain(each, waiter));
  return new Map([...value].map(([key, each]) => [plain(key, waiter), plain(each, waiter)]));
}

/**
 * An error reply of Redis. `reply` is its first word, such as `ERR`, `WRONGTYPE`, `NOPERM`, `OOM` or
 * `NOSCRIPT`.
 */
export class RedisError extends DatabaseError {
  readonly reply: string;

  constructor(reply: string, message: string, sqlstate?: string) {
    super(message, { sqlstate });
    this.reply = reply;
  }
}

/** Error codes of a server that is temporarily unavailable, for example while it loads its data. */
const AWAY: ReadonlySet<string> = new Set(['LOADING', 'MASTERDOWN', 'CLUSTERDOWN']);

/** Servers before Redis 7 put this text before the error of a command in a script. */
const IN_SCRIPT = /^ERR Error running script .*?: -([A-Z]+) /;

const REPLICA =
  'the server is a replica, which takes no writes: name its primary in the address, for example among several hosts (redis://one,two)';
const CLUSTER =
  'another node of a cluster has the key, and clusters are not supported: name a server that is not part of a cluster, or a proxy that speaks for the cluster';

/**
 * Converts an error reply to an error. `name` is the first word of the command. Quoted parts of the message
 * are replaced by `…`, because they may contain values.
 */
function redisError({ kind: first, message }: RespError, name: string): DatabaseError {
  const kind = IN_SCRIPT.exec(message)?.[1] ?? first;
  const text = `${name}: ${message.replace(/(['"`])[\s\S]*\1/g, '$1…$1').slice(0, 300)}`;
  if (kind === 'READONLY') return new ReadOnly(`${name}: ${REPLICA}`, { sqlstate: '25006' });
  if (kind === 'MOVED' || kind === 'ASK') return new RedisError(kind, `${name}: ${CLUSTER}`, '0A000');
  if (AWAY.has(kind)) return new ConnectionLost(text, { sqlstate: '57P03' });
  if (kind === 'BUSY') return new LockTimeout(text);
  return new RedisError(kind, text);
}
