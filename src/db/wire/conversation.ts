/**
 * Sends requests to a database server over a socket and reads the replies, in any protocol. Requests wait in
 * a queue, and each reply belongs to the first request of the queue. An unexpected reply ends the connection.
 * Before the first request, a ServerLogin authenticates the client.
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

/**
 * Milliseconds that leave() waits for the server to close the socket. Then the client destroys the socket.
 */
const CLOSE_MS = 1_000;
/** Number of bytes from which the buffer is sent without waiting for more requests. */
const FLUSH_BYTES = 64 * 1024;

/**
 * Rows of a reply to store: `none`, the first one as an object (`first`) or as a list (`firstList`), or all
 * as `objects` or `lists`. With `sets`, the rows of several results are stored as objects.
 */
export type RowsWanted = 'none' | 'first' | 'firstList' | 'objects' | 'lists' | 'sets';

/**
 * Converts a reply to the result for the caller. If `error` is set, throws `error` or handles the failure.
 */
type Answer<E, T> = (exchange: E, error: unknown) => Awaitable<T>;

/** Decodes the rows of one statement. */
export interface RowReader {
  /** Decodes a row as a plain object. An object without a prototype would be slow. */
  object(bytes: Buffer, at: number, end: number): Row;
  /** Decodes a row as a list of values. */
  list(bytes: Buffer, at: number, end: number): unknown[];
}

/** One request, and the part of its reply that has arrived. */
export class ServerExchange<Plan extends RowReader> {
  /** SQL text of the request, for errors. */
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
   * Called when a waiting writer can continue: after an error, when the server is ready for the data of a
   * COPY, or when it has run the first of many rows.
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

  /** Resolves when the reply is complete, even if it is an error. Rejects if the connection ends first. */
  get done(): Promise<unknown> {
    return this.#done.promise;
  }

  /**
   * Resolves with the result of `answer` when the reply is complete. Saves one promise compared to {@link
   * done}.
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
      // the function `parse` of a custom type has thrown: the statement fails, but the connection can be used
      // again
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

/** Returns the first row. The rows must be stored as objects. */
export function firstRow({ rows }: ServerExchange<RowReader>): Row | undefined {
  return rows[0] as Row | undefined;
}

/** Returns all rows. The rows must be stored as objects. */
export function allRows({ rows }: ServerExchange<RowReader>): Row[] {
  return rows as Row[];
}

/** Returns the first value of the first row. The rows must be stored as lists. */
export function firstValue({ rows }: ServerExchange<RowReader>): unknown {
  return rows.length === 0 ? undefined : (rows[0] as unknown[])[0];
}

/** Returns the error of a COMMIT, or CommitOutcomeUnknown if the connection broke before the reply. */
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

/** Dependencies of a {@link Conversation}. */
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
  /** Called once if the connection ends, unless this client has closed it. */
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

  /** Writes the protocol's message that ends a session. */
  protected abstract writeLeave(): void;

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }
  get isQuiet(): boolean {
    return this.first === undefined;
  }
  /** Number of requests so far. */
  get asked(): number {
    return this.#asked;
  }

  /** @throws ConnectionLost when the connection has ended */
  check(sql?: string): void {
    if (this.#ended !== undefined) throw this.#closedError(sql);
  }

  /**
   * Adds a written request to the queue. Sends it at the end of this turn of the event loop, together with
   * other requests.
   */
  add(exchange: E): E {
    this.#queue(exchange);
    this.flushSoon();
    return exchange;
  }

  /**
   * Adds a written request to the queue. Sends it at once if no other request is pending, otherwise at the
   * end of this turn of the event loop.
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
   * Sends the buffered bytes if there are at least FLUSH_BYTES. Then returns a promise that resolves when the
   * socket accepts more data. A long write must await this promise: some servers stop reading requests until
   * the client has read their replies.
   */
  room(): Promise<void> | undefined {
    if (this.writer.length < FLUSH_BYTES) return undefined;
    if (this.flush()) return new Promise((resolve) => setImmediate(resolve));
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  /** Closes the connection at once. Pending requests reject. */
  destroy(
    error: Error = new ConnectionLost('This program closed the connection to the database', {
      sqlstate: '08006',
    }),
  ): void {
    this.#end(error);
    this.#socket.destroy();
  }

  /** Ends the session, and waits until the socket is closed. */
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

  /** Handles bytes that the socket has received. */
  readonly onBytes = (chunk: Buffer): void => {
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.violated(error);
    }
  };

  /** Closes the connection after a protocol violation. */
  violated(error: unknown): void {
    this.abandon(lostByProtocol(error));
  }

  /**
   * Waits for the complete reply to a request. At the limit, cancels the statement on the server. Returns the
   * {@link Canceling} that watched the limit, or undefined without a limit.
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

  /** Removes the first request from the queue, because its reply is complete. */
  protected shift(exchange: E): void {
    this.first = exchange.next;
    if (this.first === undefined) this.last = undefined;
    else this.first.onFirst?.();
    // a finished request must not keep later requests in memory
    exchange.next = undefined;
    exchange.resolve();
  }

  /** Ends the connection with an error that the server has sent. */
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

/** Base class of logins. Messages from the server are buffered in an inbox until the login reads them. */
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

  /** Handles bytes that the socket receives during the login. */
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
 * Logs in over a socket. `start` runs the login, and returns the {@link Conversation} for later requests.
 * `handOver` passes messages that arrived after the login to the conversation.
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
