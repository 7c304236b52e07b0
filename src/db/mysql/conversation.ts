/**
 * A conversation with MySQL or MariaDB over a socket that is logged in: what is asked joins a queue in the same step in which its
 * bytes are written, and what comes back belongs to the first of the queue. Whatever does not fit ends the conversation.
 */
import { Canceling } from '../wire/canceling.ts';
import { ConnectionLost, ProtocolViolation } from '../errors.ts';
import { isFatal, mysqlError } from './errors.ts';
import { Exchange, type Dialogue, type ExchangeOptions } from './exchange.ts';
import { readError } from './messages.ts';
import { COMMAND, MAX_PACKET_BYTES, REPLY, STATUS, wrongSequence, type PacketReader } from './wire.ts';
import { PacketWriter } from './writer.ts';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { DatabaseError } from '../errors.ts';
import type { Limit } from '../driver.ts';

/** What the log-in has brought. */
export interface MySqlStart {
  readonly socket: Socket;
  readonly reader: PacketReader;
  readonly dialogue: Dialogue;
  readonly status: number;
  /** Asks the server to give up what this connection does; resolves when it has been told. */
  readonly cancel: () => Promise<void>;
}

/** How long the socket may take to close after we took leave. */
const CLOSE_MS = 1_000;
/** Once so much is written, it is sent before there is more. */
const FLUSH_BYTES = 64 * 1024;
/** They may begin a transaction, and fail behind that. */
const MAY_BEGIN = /^[\s(]*(?:call|execute|begin|xa)\b/i;
/** What has rows and writes nothing: of these one that was told to end, and has an answer all the same, was not ended in time. SLEEP() answers 1 then, and no error. */
const READS = /^[\s(]*(?:select|with|values|table)\b/i;
/** 1317: the statement was told to end. */
const INTERRUPTED = 1317;

/** See above. */
export class MySqlConversation {
  readonly writer: PacketWriter = new PacketWriter();
  readonly dialogue: Dialogue;
  readonly #socket: Socket;
  readonly #reader: PacketReader;
  readonly #cancel: () => Promise<void>;
  readonly #clock: Clock;
  readonly #closed: PromiseWithResolvers<void> = Promise.withResolvers();
  #first: Exchange | undefined;
  #last: Exchange | undefined;
  #status: number;
  /** The number of the next packet, within an answer. */
  #sequence = 0;
  #isFlushing = false;
  #ended: Error | undefined;
  #drained: PromiseWithResolvers<void> | undefined;
  #closing: Disposable | undefined;
  /** Told once, when it ends other than by us. */
  onLost: ((error: Error) => void) | undefined;
  /** Told of each error that the server answers with. */
  onRefusal: ((error: DatabaseError) => void) | undefined;

  constructor({ socket, reader, dialogue, status, cancel }: MySqlStart, clock: Clock) {
    this.#socket = socket;
    this.#reader = reader;
    this.#cancel = cancel;
    this.#clock = clock;
    this.dialogue = dialogue;
    this.#status = status;
    reader.maxBytes = MAX_PACKET_BYTES;
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

  /** By the last answer that told it. */
  get isInTransaction(): boolean {
    return (this.#status & STATUS.inTransaction) !== 0;
  }
  get hasAutocommit(): boolean {
    return (this.#status & STATUS.autocommit) !== 0;
  }
  /** Whether a backslash is a character like any other. */
  get hasPlainBackslashes(): boolean {
    return (this.#status & STATUS.noBackslashEscapes) !== 0;
  }
  get isEnded(): boolean {
    return this.#ended !== undefined;
  }
  /** Whether nothing is under way. */
  get isQuiet(): boolean {
    return this.#first === undefined;
  }
  /** What is asked last: its end is that of all. */
  get last(): Exchange | undefined {
    return this.#last;
  }

  /** Why nothing can be asked any more. @throws ConnectionLost */
  check(sql?: string): void {
    if (this.#ended !== undefined) throw this.#closedError(sql);
  }

  /** Queues what has just been written, and sends it at the end of this turn, together with what else is. */
  add(options: ExchangeOptions): Exchange {
    const exchange = this.#queue(options);
    this.flushSoon();
    return exchange;
  }

  /** Queues what has just been written in one piece. It is sent now when the server has nothing to do, else together with what else is. */
  send(options: ExchangeOptions): Exchange {
    const isFirst = this.#first === undefined;
    const exchange = this.#queue(options);
    if (isFirst) this.flush();
    else this.flushSoon();
    return exchange;
  }

  /** Nothing more is written for an exchange that was left open. */
  close(exchange: Exchange): void {
    exchange.close();
    if (exchange === this.#first && exchange.isOver) this.#finish(exchange);
    this.flushSoon();
  }

  /**
   * Waits for an exchange that was added. When the limit is reached, the server is told to give up. After an error it is looked at
   * whether a transaction is still open: some errors end it.
   *
   * @throws its error, or the limit's
   */
  async finish(exchange: Exchange, limit: Limit | undefined): Promise<Exchange> {
    const canceling =
      limit === undefined
        ? undefined
        : new Canceling(exchange.sql, limit, this.#clock, this.#cancel, (error) => this.destroy(error));
    try {
      if (canceling !== undefined) {
        if (this.#first === exchange) canceling.begin();
        else exchange.onFirst = () => canceling.begin();
      }
      await exchange.done;
    } catch (error) {
      throw canceling?.reached ?? error;
    } finally {
      await canceling?.end();
    }
    const { error } = exchange;
    if ((canceling?.wasRequested === true && error?.errno !== INTERRUPTED) || this.#isUncertain(exchange))
      await this.#settle();
    if (error !== undefined) throw error.errno === INTERRUPTED ? (canceling?.reached ?? error) : error;
    if (canceling?.wasRequested === true && exchange.plan !== undefined && READS.test(exchange.sql))
      throw canceling.reached!; // it was told for that
    return exchange;
  }

  /** What finish() does behind an error, for whoever did not wait by it. */
  async settled(exchange: Exchange): Promise<void> {
    if (this.#isUncertain(exchange)) await this.#settle();
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
   * For whoever writes much: sends what is enough, and waits while the socket has too much, or for a turn of the loop: a system that
   * takes all at once would keep limits, and everybody else, from theirs. The server reads no more while we do not read: we always do.
   */
  room(): Promise<void> | undefined {
    if (this.writer.length < FLUSH_BYTES) return undefined;
    if (this.flush()) return new Promise((resolve) => setImmediate(resolve));
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  /** Ends it at once; what is under way rejects. */
  destroy(error: Error = new ConnectionLost('The connection was closed by us', { sqlstate: '08006' })): void {
    this.#end(error);
    this.#socket.destroy();
  }

  /** Takes leave, and waits until the socket is closed. */
  async leave(): Promise<void> {
    if (this.#ended === undefined && this.isQuiet) {
      this.writer.command(COMMAND.quit);
      this.writer.end();
      this.flush();
      this.#end(new ConnectionLost('The connection was closed by us', { sqlstate: '08003' }));
      this.#socket.end();
      this.#closing = this.#clock.after(CLOSE_MS, () => this.#socket.destroy());
    } else this.destroy();
    await this.#closed.promise;
  }

  /** What the reader tells. */
  onPacket(bytes: Buffer, at: number, end: number, sequence: number): void {
    if (this.#ended !== undefined) return;
    const first = this.#first;
    if (first === undefined) return this.#onUnasked(bytes, at, end);
    const expected = first.sequence ?? this.#sequence;
    if (sequence !== (expected & 0xff)) throw wrongSequence(sequence, expected & 0xff);
    this.#sequence = this.#reader.sequence;
    if (first.onPacket(bytes, at, end)) this.#finish(first);
  }

  /** Bytes of the socket. */
  onBytes(chunk: Buffer): void {
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.violated(error);
    }
  }

  /** Nothing that the server says can be believed from here on. */
  violated(error: unknown): void {
    const problem = error instanceof ProtocolViolation ? error.message : 'a value that cannot be read';
    this.#lose(
      new ConnectionLost(`The server broke the protocol: ${problem}`, { sqlstate: '08P01', cause: error }),
    );
    this.#socket.destroy();
  }

  /** What comes behind the end rejects: it may have come between an answer and what it was waited for. */
  #queue(options: ExchangeOptions): Exchange {
    const exchange = new Exchange(options, this.dialogue);
    if (this.#ended !== undefined) exchange.reject(this.#closedError(exchange.sql));
    else {
      if (this.#last === undefined) this.#first = exchange;
      else this.#last.next = exchange;
      this.#last = exchange;
    }
    return exchange;
  }

  /** Whether its error may have ended a transaction. */
  #isUncertain({ error, sql }: Exchange): boolean {
    return error !== undefined && (this.isInTransaction || MAY_BEGIN.test(sql));
  }

  #finish(exchange: Exchange): void {
    if (exchange.status !== undefined) this.#status = exchange.status;
    this.#first = exchange.next;
    if (this.#first === undefined) this.#last = undefined;
    else this.#first.onFirst?.();
    exchange.next = undefined; // a finished one must not keep those that came after it
    if (exchange.error !== undefined) this.onRefusal?.(exchange.error);
    exchange.resolve();
    if (exchange.error !== undefined && isFatal(exchange.error)) this.#leaveAlone(exchange.error);
  }

  /** Nothing was asked: the server says only why it ends the connection. */
  #onUnasked(bytes: Buffer, at: number, end: number): void {
    if (bytes[at] !== REPLY.error) throw new ProtocolViolation('an answer to nothing');
    this.#leaveAlone(mysqlError(readError(bytes, at, end), undefined));
  }

  #leaveAlone(error: DatabaseError): void {
    this.#lose(
      error instanceof ConnectionLost
        ? error
        : new ConnectionLost('The server ended the connection', {
            sqlstate: '08006',
            errno: error.errno,
            cause: error,
          }),
    );
    this.#socket.destroy();
  }

  /**
   * A question that the server answers whatever has been: its answer tells the state of the session. And a request to end that came
   * too late for its statement hits this one, which nobody misses.
   */
  async #settle(): Promise<void> {
    if (this.#ended !== undefined) return;
    this.writer.command(COMMAND.query);
    this.writer.text('do 0');
    const exchange = this.add({ sql: 'do 0', kind: 'query', wanted: 'none', sequence: this.writer.end() });
    await exchange.done.catch(() => undefined); // the connection has ended: whoever asks is told
    if (exchange.error?.errno === INTERRUPTED) await this.#settle();
    else if (exchange.error !== undefined)
      this.destroy(
        new ConnectionLost('The state of the session could not be told', {
          sqlstate: '08006',
          cause: exchange.error,
        }),
      );
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
    for (let exchange = this.#first; exchange !== undefined; exchange = exchange.next) {
      exchange.reject(exchange.error ?? error);
      exchange.onProgress?.();
    }
    this.#first = this.#last = undefined;
  }

  #closedError(sql: string | undefined): ConnectionLost {
    return new ConnectionLost('The connection is closed', { sqlstate: '08003', cause: this.#ended, sql });
  }
}
