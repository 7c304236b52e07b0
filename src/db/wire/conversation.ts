/**
 * A conversation with a server over a socket, in any protocol. A request joins a queue when its bytes are
 * written, and a reply belongs to the first request in the queue. An unexpected reply ends the conversation.
 * A ServerLogin runs before the conversation.
 */
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  DataError,
  ProtocolViolation,
  lostByProtocol,
  type DatabaseError,
} from '../errors.ts';
import { watchLimit } from '../limits.ts';
import { Canceling } from './canceling.ts';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Awaitable } from '../../cache/stores.ts';
import type { Limit, Row } from '../driver.ts';
import type { ByteWriter, FrameReader } from './bytes.ts';
import type { ServerSocket } from './server-socket.ts';

/** Maximum time until the socket is closed after the last message was sent, in milliseconds. */
const CLOSE_MS = 1_000;
/** Number of buffered bytes from which the buffer is sent at once. */
const FLUSH_BYTES = 64 * 1024;

/**
 * Form in which the rows of a reply are stored. `none` stores no row, `first` stores the first row as an
 * object, and `firstList` stores it as a list. `objects` and `lists` store all rows, and `sets` stores
 * objects for several results.
 */
export type RowsWanted = 'none' | 'first' | 'firstList' | 'objects' | 'lists' | 'sets';

/**
 * Converts a complete reply to the caller's result. If `error` is set, the function throws it or handles the
 * failure.
 */
type Answer<E, T> = (exchange: E, error: unknown) => Awaitable<T>;

/** Decodes the rows of a statement. */
export interface RowReader {
  /**
   * Returns a row as a plain object. An object without a prototype would be slow, and would not be deepEqual
   * to an object literal in tests.
   */
  object(bytes: Buffer, at: number, end: number): Row;
  /** Returns a row as a list. */
  list(bytes: Buffer, at: number, end: number): unknown[];
}

/** One request, and the part of its reply that has arrived. */
export class ServerExchange<Plan extends RowReader> {
  /** SQL text as it was sent. Errors contain it. */
  readonly sql: string;
  /** The next request in the queue. */
  next: this | undefined;
  plan: Plan | undefined;
  /** Rows that have arrived, as objects or lists. */
  readonly rows: unknown[] = [];
  affectedRows = 0;
  /** Last generated key, or 0 if there is none. */
  lastInsertId: number | bigint = 0;
  error: DatabaseError | undefined;
  /**
   * Called after an error, or when the server is ready for the data of a COPY. A writer that waits for the
   * server continues then.
   */
  onProgress: (() => void) | undefined;
  /** Called when the server begins to work on this request. */
  onFirst: (() => void) | undefined;
  protected readonly wanted: RowsWanted;
  readonly #done: PromiseWithResolvers<unknown> = Promise.withResolvers();
  #answer: ((exchange: never, error: unknown) => unknown) | undefined;

  constructor(sql: string, wanted: RowsWanted, plan: Plan | undefined) {
    this.sql = sql;
    this.wanted = wanted;
    this.plan = plan;
  }

  /**
   * Resolves when the reply is complete, even if the reply is an error. Rejects if the connection ends first.
   */
  get done(): Promise<unknown> {
    return this.#done.promise;
  }

  /**
   * Resolves with the result of `answer` when the reply is complete. Creates one promise fewer than waiting
   * for {@link done}.
   */
  answered<T>(answer: Answer<this, T>): Promise<T> {
    this.#answer = answer;
    return this.#done.promise as Promise<T>;
  }

  resolve(): void {
    if (this.#answer === undefined) this.#done.resolve(undefined);
    else this.#end(this.#answer as Answer<this, unknown>, this.error);
  }

  reject(error: unknown): void {
    // prevents an unhandled rejection: a writer that is still running handles the error later
    this.#done.promise.catch(() => undefined);
    if (this.#answer === undefined) this.#done.reject(error);
    else this.#end(this.#answer as Answer<this, unknown>, error);
  }

  /** Records the first error of the reply. */
  fail(error: DatabaseError): void {
    this.error ??= error;
    this.onProgress?.();
  }

  /** Decodes and stores a row of the reply. */
  protected keep(bytes: Buffer, at: number, end: number): void {
    const { wanted, plan, rows } = this;
    if (wanted === 'none') return;
    if (plan === undefined)
      throw new ProtocolViolation('the server sent a row without a description of its columns');
    if (rows.length > 0 && (wanted === 'first' || wanted === 'firstList')) return;
    try {
      rows.push(
        wanted === 'firstList' || wanted === 'lists'
          ? plan.list(bytes, at, end)
          : plan.object(bytes, at, end),
      );
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      // the decoder of a custom type has thrown, so the statement fails and the conversation continues
      this.error ??= error;
    }
  }

  #end(answer: Answer<this, unknown>, error: unknown): void {
    try {
      this.#done.resolve(answer(this, error));
    } catch (failure) {
      this.#done.reject(failure);
    }
  }
}

/** Returns the first row as an object. Only valid if `wanted` is `first` or `objects`. */
export function firstRow({ rows }: ServerExchange<RowReader>): Row | undefined {
  return rows[0] as Row | undefined;
}

/** Returns the rows as objects. Only valid if `wanted` is `objects`. */
export function allRows({ rows }: ServerExchange<RowReader>): Row[] {
  return rows as Row[];
}

/** Returns the first value of the first row. Only valid if `wanted` is `firstList` or `lists`. */
export function firstValue({ rows }: ServerExchange<RowReader>): unknown {
  return rows.length === 0 ? undefined : (rows[0] as unknown[])[0];
}

/**
 * Returns the error for a COMMIT that was sent: CommitOutcomeUnknown if the connection broke before the
 * reply.
 */
export function commitError(error: unknown, isBroken: boolean): unknown {
  return error instanceof ConnectionLost || isBroken
    ? new CommitOutcomeUnknown(
        'The connection broke during COMMIT, so it is unknown whether the transaction was committed',
        {
          sqlstate: '08007',
          sql: 'commit',
          cause: error,
        },
      )
    : error;
}

/** Dependencies of a conversation. The login creates them. */
export interface ConversationDeps<W extends ByteWriter> {
  readonly socket: Socket;
  readonly reader: FrameReader;
  readonly writer: W;
  readonly clock: Clock;
  /** Sends a cancellation for the current statement. Resolves when the cancellation was sent. */
  readonly cancel: () => Promise<void>;
}

/** Sends the requests of one connection, and matches replies to requests in order. */
export abstract class Conversation<E extends ServerExchange<RowReader>, W extends ByteWriter> {
  readonly writer: W;
  /** Request that the server is working on. */
  protected first: E | undefined;
  protected last: E | undefined;
  readonly #socket: Socket;
  readonly #reader: FrameReader;
  readonly #cancel: () => Promise<void>;
  readonly #clock: Clock;
  readonly #closed: PromiseWithResolvers<void> = Promise.withResolvers();
  #asked = 0;
  #isFlushing = false;
  #ended: Error | undefined;
  #drained: PromiseWithResolvers<void> | undefined;
  #closing: Disposable | undefined;
  /** Called once if the conversation ends, unless this client ends it. */
  onLost: ((error: Error) => void) | undefined;
  /** Called for each error that the server reports. */
  onRefusal: ((error: DatabaseError) => void) | undefined;

  constructor({ socket, reader, writer, clock, cancel }: ConversationDeps<W>, maxBytes: number) {
    this.#socket = socket;
    this.#reader = reader;
    this.writer = writer;
    this.#cancel = cancel;
    this.#clock = clock;
    reader.maxBytes = maxBytes;
    socket.on('drain', () => this.#onDrain());
    socket.on('close', () => {
      this.#lose(new ConnectionLost('The server closed the connection', { sqlstate: '08006' }));
      this.#closing?.[Symbol.dispose]();
      this.#closed.resolve();
    });
    socket.on('error', (cause) =>
      this.#lose(new ConnectionLost(`The connection broke: ${cause.message}`, { sqlstate: '08006', cause })),
    );
  }

  /** Writes the message that ends a session. */
  protected abstract writeLeave(): void;

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }
  get isQuiet(): boolean {
    return this.first === undefined;
  }
  /** Number of requests that were queued so far. */
  get asked(): number {
    return this.#asked;
  }

  /** @throws ConnectionLost when the conversation has ended */
  check(sql?: string): void {
    if (this.#ended !== undefined) throw this.#closedError(sql);
  }

  /**
   * Queues a written request, and sends it at the end of this turn of the event loop, together with other
   * requests.
   */
  add(exchange: E): E {
    this.#queue(exchange);
    this.flushSoon();
    return exchange;
  }

  /**
   * Queues a request that was written completely. Sends it at once if the server is idle. Otherwise sends it
   * at the end of this turn of the event loop, together with other requests.
   */
  send(exchange: E): E {
    const isFirst = this.first === undefined;
    this.#queue(exchange);
    if (isFirst) this.flush();
    else this.flushSoon();
    return exchange;
  }

  flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    process.nextTick(() => this.flush());
  }

  /** Sends the buffered bytes. Returns false when the socket's buffer is full. */
  flush(): boolean {
    this.#isFlushing = false;
    if (this.writer.length === 0 || this.#ended !== undefined) {
      this.writer.clear();
      return true;
    }
    return this.#socket.write(this.writer.take());
  }

  /**
   * Sends the buffered bytes if there are at least FLUSH_BYTES. Then returns a promise for which a long write
   * must wait. The promise resolves when the socket accepts more data, at the earliest in the next turn of
   * the event loop. During this wait, timers run and replies are read. Some servers stop reading requests
   * until the client has read their replies.
   */
  room(): Promise<void> | undefined {
    if (this.writer.length < FLUSH_BYTES) return undefined;
    if (this.flush()) return new Promise((resolve) => setImmediate(resolve));
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  /** Ends the conversation at once. Pending requests reject. */
  destroy(
    error: Error = new ConnectionLost('This program closed the connection to the database', {
      sqlstate: '08006',
    }),
  ): void {
    this.#end(error);
    this.#socket.destroy();
  }

  /** Sends the protocol's last message, and waits until the socket is closed. */
  async leave(): Promise<void> {
    if (this.#ended === undefined && this.isQuiet) {
      this.writeLeave();
      this.flush();
      this.#end(
        new ConnectionLost('This program closed the connection to the database', { sqlstate: '08003' }),
      );
      this.#socket.end();
      this.#closing = this.#clock.after(CLOSE_MS, () => this.#socket.destroy());
    } else this.destroy();
    await this.#closed.promise;
  }

  /** Handles bytes of the socket. */
  readonly onBytes = (chunk: Buffer): void => {
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.violated(error);
    }
  };

  /** Ends the conversation after a protocol violation. */
  violated(error: unknown): void {
    this.abandon(lostByProtocol(error));
  }

  /**
   * Waits until all replies of a request have arrived. If there is a limit, returns the {@link Canceling}
   * that cancels the statement when the limit is reached.
   *
   * @throws ConnectionLost when the connection ends before the reply; QueryTimeout or QueryCanceled when it
   *   ends because of `limit`
   */
  protected async ended(exchange: E, limit: Limit | undefined): Promise<Canceling | undefined> {
    if (limit === undefined) {
      await exchange.done;
      return undefined;
    }
    const canceling = new Canceling(exchange.sql, limit, this.#clock, this.#cancel, (error) =>
      this.destroy(error),
    );
    try {
      if (this.first === exchange) canceling.begin();
      else exchange.onFirst = () => canceling.begin();
      await exchange.done;
    } catch (error) {
      throw canceling.reached ?? error;
    } finally {
      await canceling.end();
    }
    return canceling;
  }

  /** Ends the first exchange in the queue, whose reply is complete. */
  protected shift(exchange: E): void {
    this.first = exchange.next;
    if (this.first === undefined) this.last = undefined;
    else this.first.onFirst?.();
    // without this statement, a finished exchange that is still referenced would keep later ones in memory
    exchange.next = undefined;
    exchange.resolve();
  }

  /** Ends the conversation with the reason that the server gave. */
  protected refused(error: DatabaseError, sqlstate: string | undefined): void {
    this.abandon(
      error instanceof ConnectionLost
        ? error
        : new ConnectionLost('The server ended the connection', {
            sqlstate,
            errno: error.errno,
            cause: error,
          }),
    );
  }

  protected abandon(error: Error): void {
    this.#lose(error);
    this.#socket.destroy();
  }

  /**
   * Queues an exchange. Rejects it if the conversation has ended, because the end may come between a reply
   * and the caller's next request.
   */
  #queue(exchange: E): void {
    if (this.#ended !== undefined) return refuse(exchange, this.#closedError(exchange.sql));
    this.#asked++;
    if (this.last === undefined) this.first = exchange;
    else this.last.next = exchange;
    this.last = exchange;
  }

  #onDrain(): void {
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  #lose(error: Error): void {
    if (this.#ended !== undefined) return;
    const { onLost } = this;
    this.#end(error);
    onLost?.(error);
  }

  #end(error: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#reader.stop();
    this.onLost = undefined;
    this.#onDrain();
    for (let exchange = this.first; exchange !== undefined; exchange = exchange.next) refuse(exchange, error);
    this.first = this.last = undefined;
  }

  #closedError(sql: string | undefined): ConnectionLost {
    return new ConnectionLost('The connection is closed', { sqlstate: '08003', cause: this.#ended, sql });
  }
}

function refuse(exchange: ServerExchange<RowReader>, error: Error): void {
  exchange.reject(exchange.error ?? error);
  exchange.onProgress?.();
}

/** Base class of logins. Messages of the server are buffered in an inbox until the login reads them. */
export abstract class ServerLogin<Message> {
  abstract readonly reader: FrameReader;
  protected readonly inbox: Message[] = [];
  readonly #maxMessages: number;
  #count = 0;
  #waiting: PromiseWithResolvers<void> | undefined;
  #ended: Error | undefined;

  /** `maxMessages` limits the memory that a server can use before it is authenticated. */
  constructor(maxMessages: number) {
    this.#maxMessages = maxMessages;
  }

  /** Handles bytes of the socket until the login hands over to the conversation. */
  onBytes(chunk: Buffer): void {
    try {
      this.reader.push(chunk);
    } catch (error) {
      this.end(lostBy(error) as Error);
    }
  }

  /** Ends the login with an error, for example because the socket was closed. */
  end(error: Error): void {
    this.#ended ??= error;
    this.#waiting?.resolve();
  }

  /** Adds a message to the inbox. */
  protected receive(message: Message): void {
    if (++this.#count > this.#maxMessages)
      throw new ProtocolViolation('the server sent too many messages before the login is complete');
    this.inbox.push(message);
    this.#waiting?.resolve();
  }

  /** Waits until the inbox has another message. */
  protected async more(): Promise<void> {
    if (this.#ended !== undefined) throw this.#ended;
    this.#waiting = Promise.withResolvers();
    await this.#waiting.promise;
  }

  /** Runs a step of the login. @throws ConnectionLost when the server breaks the protocol */
  protected async guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw lostBy(error);
    }
  }
}

function lostBy(error: unknown): unknown {
  return error instanceof ProtocolViolation ? lostByProtocol(error) : error;
}

/**
 * Logs in over a socket and starts the conversation. `start` runs the login and creates the conversation from
 * its result. `handOver` passes the messages of the inbox, and later ones, to the conversation.
 *
 * @throws the error of the login; ConnectionLost when the connection breaks; QueryTimeout or QueryCanceled
 *   when `limit` is reached
 */
export async function converse<
  C extends Pick<Conversation<ServerExchange<RowReader>, ByteWriter>, 'onBytes' | 'violated' | 'check'>,
>(
  { socket, incoming }: ServerSocket,
  login: ServerLogin<unknown>,
  limit: Limit,
  clock: Clock,
  start: () => Promise<C>,
  handOver: (conversation: C) => void,
): Promise<C> {
  const onEnd = (cause?: Error): void =>
    login.end(
      new ConnectionLost('The server closed the connection during the login', {
        sqlstate: '08006',
        ...(cause instanceof Error && { cause }),
      }),
    );
  incoming.listen((bytes) => login.onBytes(bytes));
  socket.on('error', onEnd);
  socket.on('close', onEnd);
  socket.resume();
  const watched = watchLimit(limit, clock, (error) => login.end(error));
  try {
    const conversation = await start();
    incoming.listen(conversation.onBytes);
    socket.off('close', onEnd);
    try {
      handOver(conversation);
    } catch (error) {
      conversation.violated(error);
    }
    conversation.check();
    return conversation;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    watched?.[Symbol.dispose]();
  }
}
