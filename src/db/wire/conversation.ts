/**
 * Sends requests to a server over a socket and reads the replies, in any protocol. Requests wait in a queue,
 * and each reply belongs to the first request of the queue. An unexpected reply ends the connection. Then all
 * pending requests fail, and none of them is sent again. Before the first request, a ServerLogin
 * authenticates the client.
 */
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  DataError,
  ProtocolViolation,
  lostByProtocol,
  type DatabaseError,
} from '../errors.ts';
import { SharedTurns } from '../../base/promises.ts';
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

export interface RowReader {
  /** Decodes a row as a plain object. An object without a prototype would be slow. */
  object(bytes: Buffer, at: number, end: number): Row;
  list(bytes: Buffer, at: number, end: number): unknown[];
}

/** One request, and the part of its reply that has arrived. */
export class ServerExchange<Plan extends RowReader> implements PendingRequest<ServerExchange<Plan>> {
  readonly sql: string;
  /** The next request in the queue. */
  next: this | undefined;
  plan: Plan | undefined;
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

  /** Ends the request, because its reply is complete, or because the connection has ended with `lost`. */
  end(lost?: unknown): void {
    const answer = this.#answer as Answer<this, unknown> | undefined;
    // prevents an unhandled rejection: a writer that is still running handles the error later
    if (lost !== undefined) this.#done.promise.catch(() => undefined);
    try {
      if (answer !== undefined) this.#done.resolve(answer(this, lost ?? this.error));
      else if (lost === undefined) this.#done.resolve(undefined);
      else this.#done.reject(lost);
    } catch (failure) {
      this.#done.reject(failure);
    }
  }

  refuse(error: Error): void {
    this.end(this.error ?? error);
    this.onProgress?.();
  }

  /** Records the first error of the reply. */
  fail(error: DatabaseError): void {
    this.error ??= error;
    this.onProgress?.();
  }

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
        { sql: 'commit', cause: error },
      )
    : error;
}

export interface PendingRequest<R> {
  readonly sql?: string;
  next: R | undefined;
  onFirst?: (() => void) | undefined;
  /** Called when the connection has ended before the reply. */
  refuse(error: Error): void;
}

interface Reader {
  push(chunk: Buffer): void;
  /** Stops handling replies, even those in the current chunk. */
  stop(): void;
}

interface RequestQueueDeps<W> {
  readonly socket: Socket;
  readonly reader: Reader;
  readonly writer: W;
  /** Name of the server's side in error messages, for example `Redis`. */
  readonly peer: string;
}

/** Base class of connections that match replies to requests in order. */
export abstract class RequestQueue<
  R extends PendingRequest<R>,
  W extends { readonly length: number; take(): Buffer; clear(): void },
> {
  readonly writer: W;
  protected readonly socket: Socket;
  protected readonly reader: Reader;
  /** Request that the server is working on. */
  protected first: R | undefined;
  protected last: R | undefined;
  protected size = 0;
  /** Number of requests so far. Must not be set from outside. */
  asked = 0;
  /** Error that ended the connection; undefined while it is open. */
  protected endedBy: Error | undefined;
  readonly #peer: string;
  readonly #closed: PromiseWithResolvers<void> = Promise.withResolvers();
  #isFlushing = false;
  /** Called once if the connection ends, unless this client has closed it. */
  onLost: ((error: Error) => void) | undefined;

  constructor({ socket, reader, writer, peer }: RequestQueueDeps<W>) {
    this.socket = socket;
    this.writer = writer;
    this.reader = reader;
    this.#peer = peer;
    socket.on('error', (cause) =>
      this.#lose(new ConnectionLost(`The connection to ${peer} broke: ${cause.message}`, { cause })),
    );
    socket.on('close', () => {
      this.#lose(new ConnectionLost(`The server closed the connection to ${peer}`));
      this.#closed.resolve();
    });
  }

  /** Called after the connection has ended and all pending requests have failed. */
  protected abstract onEnd(): void;

  get isEnded(): boolean {
    return this.endedBy !== undefined;
  }
  /** Resolves when the socket is closed. */
  protected get closed(): Promise<void> {
    return this.#closed.promise;
  }

  flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    process.nextTick(() => this.flush());
  }

  /** Sends the buffered bytes. Returns false when the socket's buffer is full. */
  flush(): boolean {
    this.#isFlushing = false;
    if (this.writer.length === 0 || this.endedBy !== undefined) {
      this.writer.clear();
      return true;
    }
    return this.socket.write(this.writer.take());
  }

  /** Closes the connection at once. Pending requests fail. */
  destroy(error: Error = this.closedHere('08006')): void {
    this.end(error);
    this.socket.destroy();
  }

  /** Adds a written request. Refuses it if the connection has ended. */
  protected push(request: R): void {
    if (this.endedBy !== undefined) return request.refuse(this.closedError(request.sql));
    this.asked++;
    this.size++;
    if (this.last === undefined) this.first = request;
    else this.last.next = request;
    this.last = request;
  }

  /** Removes the first request, because its reply is complete. */
  protected shift(request: R): void {
    this.first = request.next;
    this.size--;
    if (this.first === undefined) this.last = undefined;
    else this.first.onFirst?.();
    // a finished request must not keep later requests in memory
    request.next = undefined;
  }

  /** Closes the connection after a failure. */
  protected abandon(error: Error): void {
    this.#lose(error);
    this.socket.destroy();
  }

  /** Ends the connection. The caller closes the socket. */
  protected end(error: Error): void {
    if (this.endedBy !== undefined) return;
    this.endedBy = error;
    this.reader.stop();
    this.onLost = undefined;
    for (let request = this.first; request !== undefined; request = request.next) request.refuse(error);
    this.first = this.last = undefined;
    this.size = 0;
    this.onEnd();
  }

  protected closedError(sql?: string): ConnectionLost {
    return new ConnectionLost(`The connection to ${this.#peer} is closed`, {
      sqlstate: '08003',
      cause: this.endedBy,
      sql,
    });
  }

  protected closedHere(sqlstate: string): ConnectionLost {
    return new ConnectionLost(`This program closed the connection to ${this.#peer}`, { sqlstate });
  }

  #lose(error: Error): void {
    if (this.endedBy !== undefined) return;
    const { onLost } = this;
    this.end(error);
    onLost?.(error);
  }
}

export interface ConversationDeps<W extends ByteWriter> {
  readonly socket: Socket;
  readonly reader: FrameReader;
  readonly writer: W;
  readonly clock: Clock;
  /** Sends a cancellation for the current statement. Resolves when the cancellation was sent. */
  readonly cancel: () => Promise<void>;
}

/** Sends the requests of one connection, and matches replies to requests in order. */
export abstract class Conversation<
  E extends ServerExchange<RowReader>,
  W extends ByteWriter,
> extends RequestQueue<E, W> {
  readonly #cancel: () => Promise<void>;
  readonly #clock: Clock;
  #drained: PromiseWithResolvers<void> | undefined;
  readonly #onDrain = (): void => {
    this.#drained?.resolve();
    this.#drained = undefined;
  };
  /** Called for each error that the server reports. */
  onRefusal: ((error: DatabaseError) => void) | undefined;

  constructor({ socket, reader, writer, clock, cancel }: ConversationDeps<W>, maxBytes: number) {
    super({ socket, reader, writer, peer: 'the database' });
    this.#cancel = cancel;
    this.#clock = clock;
    reader.maxBytes = maxBytes;
    socket.on('drain', this.#onDrain);
  }

  /** Writes the protocol's message that ends a session. */
  protected abstract writeLeave(): void;

  get isQuiet(): boolean {
    return this.first === undefined;
  }

  /** @throws ConnectionLost when the connection has ended */
  check(sql?: string): void {
    if (this.endedBy !== undefined) throw this.closedError(sql);
  }

  /**
   * Adds a written request to the queue. Sends it at the end of this turn of the event loop, together with
   * other requests.
   */
  add(exchange: E): E {
    this.push(exchange);
    this.flushSoon();
    return exchange;
  }

  /**
   * Adds a written request to the queue. Sends it at once if no other request is pending, otherwise at the
   * end of this turn of the event loop.
   */
  send(exchange: E): E {
    const isFirst = this.first === undefined;
    this.push(exchange);
    if (isFirst) this.flush();
    else this.flushSoon();
    return exchange;
  }

  /** Returns the turns of the event loop for one long write. */
  turns(): SharedTurns {
    return new SharedTurns(this.#clock);
  }

  /** Whether the buffer has so many bytes that room() sends them. */
  get isFull(): boolean {
    return this.writer.length >= FLUSH_BYTES;
  }

  /**
   * Sends the buffered bytes if there are at least FLUSH_BYTES. Then returns a promise that resolves when the
   * socket accepts more data. Also returns a promise if `turns` are spent by the source of a long write. A long
   * write must await this promise: some servers stop reading requests until the client has read their replies.
   */
  room(turns: SharedTurns): Promise<void> | undefined {
    if (!this.isFull) return turns.isSpent ? turns.next() : undefined;
    if (this.flush()) return turns.next();
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  /** Ends the session, and waits until the socket is closed. */
  async leave(): Promise<void> {
    let late: Disposable | undefined;
    if (this.endedBy === undefined && this.isQuiet) {
      this.writeLeave();
      this.flush();
      this.end(this.closedHere('08003'));
      this.socket.end();
      late = this.#clock.after(CLOSE_MS, () => this.socket.destroy());
    } else this.destroy();
    await this.closed;
    late?.[Symbol.dispose]();
  }

  readonly onBytes = (chunk: Buffer): void => {
    try {
      this.reader.push(chunk);
    } catch (error) {
      this.violated(error);
    }
  };

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

  protected onEnd(): void {
    this.#onDrain();
  }
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
 * Logs in over a socket. `start` runs the login, and returns the {@link Conversation} for later requests, with
 * other results of the login. `handOver` passes messages that arrived after the login to the conversation.
 *
 * @throws the error of the login; ConnectionLost when the connection breaks; QueryTimeout or QueryCanceled
 *   when `limit` is reached
 */
export async function converse<
  C extends Pick<Conversation<ServerExchange<RowReader>, ByteWriter>, 'onBytes' | 'violated' | 'check'>,
  S extends { readonly conversation: C },
>(
  { socket, incoming }: ServerSocket,
  login: ServerLogin<unknown>,
  limit: Limit,
  clock: Clock,
  start: () => Promise<S>,
  handOver: (conversation: S['conversation']) => void,
): Promise<S> {
  const onEnd = (cause?: Error): void =>
    login.end(
      new ConnectionLost('The server closed the connection during the login', {
        ...(cause instanceof Error && { cause }),
      }),
    );
  incoming.listen((bytes) => login.onBytes(bytes));
  socket.on('error', onEnd);
  socket.on('close', onEnd);
  socket.resume();
  const watched = watchLimit(limit, clock, (error) => login.end(error));
  try {
    const started = await start();
    const { conversation } = started;
    incoming.listen(conversation.onBytes);
    socket.off('close', onEnd);
    try {
      handOver(conversation);
    } catch (error) {
      conversation.violated(error);
    }
    conversation.check();
    return started;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    watched?.[Symbol.dispose]();
  }
}
