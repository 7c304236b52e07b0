/**
 * A conversation with a server over a socket, whichever protocol it speaks: a request joins a queue in the same step in which its bytes
 * are written, and an answer belongs to the first of the queue. Anything that does not fit ends the conversation.
 *
 *   ServerLogin -> Conversation: add(exchange) -> the server -> exchange.done
 */
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  DataError,
  ProtocolViolation,
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

/** How long the socket may take to close after we took leave. */
const CLOSE_MS = 1_000;
/** Once so much is written, it is sent before there is more. */
const FLUSH_BYTES = 64 * 1024;

/** How rows are kept: `first` keeps one, as an object, `firstList` as a list; `none` keeps none. `sets`: objects, of several results. */
export type RowsWanted = 'none' | 'first' | 'firstList' | 'objects' | 'lists' | 'sets';

/** Makes the result for the owner of an exchange that has ended. `error`: why it has failed, else undefined; to be thrown. */
type Answer<E, T> = (exchange: E, error: unknown) => Awaitable<T>;

/** How the rows of a statement are read. */
export interface RowReader {
  /** A row as an object. Plain: one without prototype would be a slow dictionary, and no test would call it equal. */
  object(bytes: Buffer, at: number, end: number): Row;
  /** A row as a list. */
  list(bytes: Buffer, at: number, end: number): unknown[];
}

/** One request, and its answer so far. */
export class ServerExchange<Plan extends RowReader> {
  /** As it was sent, for errors. */
  readonly sql: string;
  /** The next in the queue of its conversation. */
  next: this | undefined;
  plan: Plan | undefined;
  /** Rows as objects or lists. */
  readonly rows: unknown[] = [];
  affectedRows = 0;
  error: DatabaseError | undefined;
  /** Called when an error came, or the server is ready for more: a writer looks again. */
  onProgress: (() => void) | undefined;
  /** Called when it becomes the one that the server works on. */
  onFirst: (() => void) | undefined;
  protected readonly wanted: RowsWanted;
  readonly #done: PromiseWithResolvers<unknown> = Promise.withResolvers();
  /** The function that answered() was given. */
  #answer: ((exchange: never, error: unknown) => unknown) | undefined;

  constructor(sql: string, wanted: RowsWanted, plan: Plan | undefined) {
    this.sql = sql;
    this.wanted = wanted;
    this.plan = plan;
  }

  /** Resolves at the end of the answer, whether that is an error or not; rejects when the connection ends before. */
  get done(): Promise<unknown> {
    return this.#done.promise;
  }

  /** Instead of {@link done}: the result that `answer` makes at the end, however that was. One promise, where each that awaits another is one more. */
  answered<T>(answer: Answer<this, T>): Promise<T> {
    this.#answer = answer;
    return this.#done.promise as Promise<T>; // #end() resolves it with that
  }

  resolve(): void {
    if (this.#answer === undefined) this.#done.resolve(undefined);
    else this.#end(this.#answer as Answer<this, unknown>, this.error);
  }

  reject(error: unknown): void {
    this.#done.promise.catch(() => undefined); // a writer looks later
    if (this.#answer === undefined) this.#done.reject(error);
    else this.#end(this.#answer as Answer<this, unknown>, error);
  }

  /** The server has refused it. */
  fail(error: DatabaseError): void {
    this.error ??= error;
    this.onProgress?.();
  }

  /** A row of the answer. */
  protected keep(bytes: Buffer, at: number, end: number): void {
    const { wanted, plan, rows } = this;
    if (wanted === 'none') return;
    if (plan === undefined) throw new ProtocolViolation('a row that was not described');
    if (rows.length > 0 && (wanted === 'first' || wanted === 'firstList')) return;
    try {
      rows.push(
        wanted === 'firstList' || wanted === 'lists'
          ? plan.list(bytes, at, end)
          : plan.object(bytes, at, end),
      );
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      this.error ??= error; // by a type of the program's own: the conversation goes on
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

/** The first row of an exchange that wanted it. */
export function firstRow({ rows }: ServerExchange<RowReader>): Row | undefined {
  return rows[0] as Row | undefined; // as was wanted, like the others
}

/** The rows of an exchange that wanted objects. */
export function allRows({ rows }: ServerExchange<RowReader>): Row[] {
  return rows as Row[];
}

/** The first value of an exchange that wanted the first row as a list. */
export function firstValue({ rows }: ServerExchange<RowReader>): unknown {
  return rows.length === 0 ? undefined : (rows[0] as unknown[])[0];
}

/** The error of a COMMIT that was sent: not known to have taken place where the connection broke before its answer. */
export function commitError(error: unknown, isBroken: boolean): unknown {
  return error instanceof ConnectionLost || isBroken
    ? new CommitOutcomeUnknown('The connection broke during COMMIT', {
        sqlstate: '08007',
        sql: 'commit',
        cause: error,
      })
    : error;
}

/** The parts of a conversation, which the log-in has made. */
export interface ConversationDeps<W extends ByteWriter> {
  readonly socket: Socket;
  readonly reader: FrameReader;
  readonly writer: W;
  readonly clock: Clock;
  /** Asks the server to give up what this connection does; resolves when it has been asked. */
  readonly cancel: () => Promise<void>;
}

/** See the top of this file. */
export abstract class Conversation<E extends ServerExchange<RowReader>, W extends ByteWriter> {
  readonly writer: W;
  /** The exchange that the server works on, and the last one: its end is the end of all. */
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
  /** Called once, when it ends other than by us. */
  onLost: ((error: Error) => void) | undefined;
  /** Called with each error that the server answers with. */
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
  /** Whether nothing is under way. */
  get isQuiet(): boolean {
    return this.first === undefined;
  }
  /** Requests so far. */
  get asked(): number {
    return this.#asked;
  }

  /** @throws ConnectionLost when nothing can be asked any more */
  check(sql?: string): void {
    if (this.#ended !== undefined) throw this.#closedError(sql);
  }

  /** Queues a request that has just been written, and sends it at the end of this turn, together with others. */
  add(exchange: E): E {
    this.#queue(exchange);
    this.flushSoon();
    return exchange;
  }

  /** Queues a request that has just been written in one piece. It is sent now when the server has nothing to do, else together with others. */
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

  /** Sends what is written. False when the socket has enough for now. */
  flush(): boolean {
    this.#isFlushing = false;
    if (this.writer.length === 0 || this.#ended !== undefined) {
      this.writer.clear();
      return true;
    }
    return this.#socket.write(this.writer.take());
  }

  /**
   * For writers of much: sends what is enough, and waits while the socket has too much, or for a turn of the loop: a system that
   * takes all at once would keep limits, and other work, from theirs. The server reads no more while we do not read: we always do.
   */
  room(): Promise<void> | undefined {
    if (this.writer.length < FLUSH_BYTES) return undefined;
    if (this.flush()) return new Promise((resolve) => setImmediate(resolve));
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  /** Ends it at once; requests under way reject. */
  destroy(error: Error = new ConnectionLost('The connection was closed by us', { sqlstate: '08006' })): void {
    this.#end(error);
    this.#socket.destroy();
  }

  /** Takes leave, and waits until the socket is closed. */
  async leave(): Promise<void> {
    if (this.#ended === undefined && this.isQuiet) {
      this.writeLeave();
      this.flush();
      this.#end(new ConnectionLost('The connection was closed by us', { sqlstate: '08003' }));
      this.#socket.end();
      this.#closing = this.#clock.after(CLOSE_MS, () => this.#socket.destroy());
    } else this.destroy();
    await this.#closed.promise;
  }

  /** Takes bytes of the socket. */
  readonly onBytes = (chunk: Buffer): void => {
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.violated(error);
    }
  };

  /** Ends it: nothing that the server says can be believed from here on. */
  violated(error: unknown): void {
    const problem = error instanceof ProtocolViolation ? error.message : 'a value that cannot be read';
    this.abandon(
      new ConnectionLost(`The server broke the protocol: ${problem}`, { sqlstate: '08P01', cause: error }),
    );
  }

  /**
   * Waits for an exchange that was added. When the limit is reached, the server is asked to give up: see what is returned.
   *
   * @throws ConnectionLost, or the limit's error, when the connection ends before
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

  /** The first exchange has its answer. */
  protected shift(exchange: E): void {
    this.first = exchange.next;
    if (this.first === undefined) this.last = undefined;
    else this.first.onFirst?.();
    exchange.next = undefined; // a finished one must not keep later ones
    exchange.resolve();
  }

  /** The server has ended the conversation, and says why. */
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

  /** Ends it as one that was lost. */
  protected abandon(error: Error): void {
    this.#lose(error);
    this.#socket.destroy();
  }

  /** A request behind the end rejects: it may have come between an answer and its owner. */
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

/** Rejects an exchange that gets no response. */
function refuse(exchange: ServerExchange<RowReader>, error: Error): void {
  exchange.reject(exchange.error ?? error);
  exchange.onProgress?.();
}

/** A log-in: messages of the server wait in an inbox until they are asked for. */
export abstract class ServerLogin<Message> {
  abstract readonly reader: FrameReader;
  protected readonly inbox: Message[] = [];
  readonly #maxMessages: number;
  #count = 0;
  #waiting: PromiseWithResolvers<void> | undefined;
  #ended: Error | undefined;

  /** `maxMessages`: a server that has not proved itself gets no more of our memory. */
  constructor(maxMessages: number) {
    this.#maxMessages = maxMessages;
  }

  /** Takes bytes of the socket, until the conversation does. */
  onBytes(chunk: Buffer): void {
    try {
      this.reader.push(chunk);
    } catch (error) {
      this.end(lostBy(error) as Error);
    }
  }

  /** Nothing more comes. */
  end(error: Error): void {
    this.#ended ??= error;
    this.#waiting?.resolve();
  }

  /** Puts a message into the inbox. */
  protected receive(message: Message): void {
    if (++this.#count > this.#maxMessages)
      throw new ProtocolViolation('too many messages before the log-in is done');
    this.inbox.push(message);
    this.#waiting?.resolve();
  }

  /** Waits for another message in the inbox. */
  protected async more(): Promise<void> {
    if (this.#ended !== undefined) throw this.#ended;
    this.#waiting = Promise.withResolvers();
    await this.#waiting.promise;
  }

  /** Does part of the log-in. @throws ConnectionLost for what the protocol does not allow */
  protected async guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw lostBy(error);
    }
  }
}

function lostBy(error: unknown): unknown {
  return error instanceof ProtocolViolation
    ? new ConnectionLost(`The server broke the protocol: ${error.message}`, {
        sqlstate: '08P01',
        cause: error,
      })
    : error;
}

/**
 * Logs in over a socket, and begins the conversation. `start` runs the log-in and makes the conversation of its result; `handOver` gives
 * the conversation the messages that are in the inbox already, and those to come.
 *
 * @throws an error of the log-in, ConnectionLost, or the limit's error
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
      new ConnectionLost('The server closed the connection during the log-in', {
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
