/**
 * A conversation with PostgreSQL over a socket that is logged in: what is asked joins a queue in the same step in which its bytes
 * are written, and what comes back belongs to the first of the queue. Whatever does not fit ends the conversation.
 */
import { Canceling } from '../wire/canceling.ts';
import { ConnectionLost, type DatabaseError, ProtocolViolation, StatementError } from '../errors.ts';
import { isFatal, postgresError } from './errors.ts';
import { MAX_MESSAGE_BYTES, MessageReader, SERVER } from './wire.ts';
import * as read from './messages.ts';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit } from '../driver.ts';
import type { Exchange } from './exchange.ts';
import type { MessageWriter } from './writer.ts';

/** What the log-in has brought. */
export interface Login {
  readonly socket: Socket;
  readonly reader: MessageReader;
  readonly writer: MessageWriter;
  readonly parameters: Map<string, string>;
  readonly processId: number;
  /** Asks the server to give up what this connection does; resolves when it has been told. */
  readonly cancel: () => Promise<void>;
}

/** How long the socket may take to close after we took leave. */
const CLOSE_MS = 1_000;
/** Once so much is written, it is sent before there is more. */
const FLUSH_BYTES = 64 * 1024;
const UTF8 = /^(?:utf-?8|unicode)$/i;
/** Settings of which we are told that are kept. The server has some 15. */
const MAX_PARAMETERS = 200;

/** See above. */
export class Conversation {
  readonly writer: MessageWriter;
  readonly parameters: Map<string, string>;
  readonly processId: number;
  readonly #socket: Socket;
  readonly #reader: MessageReader;
  readonly #cancel: () => Promise<void>;
  readonly #clock: Clock;
  readonly #log: Logger | undefined;
  readonly #closed: PromiseWithResolvers<void> = Promise.withResolvers();
  #first: Exchange | undefined;
  #last: Exchange | undefined;
  #status: 'I' | 'T' | 'E' = 'I';
  #asked = 0;
  #isFlushing = false;
  #ended: Error | undefined;
  #drained: PromiseWithResolvers<void> | undefined;
  #closing: Disposable | undefined;
  /** Told once, when it ends other than by us. */
  onLost: ((error: Error) => void) | undefined;
  onNotification: ((channel: string, payload: string, processId: number) => void) | undefined;
  /** Told of each error that the server answers with. */
  onRefusal: ((error: DatabaseError) => void) | undefined;
  onParameter: ((name: string, value: string) => void) | undefined;

  constructor(
    { socket, reader, writer, parameters, processId, cancel }: Login,
    clock: Clock,
    log: Logger | undefined,
  ) {
    this.#socket = socket;
    this.#reader = reader;
    this.writer = writer;
    this.#cancel = cancel;
    this.#clock = clock;
    this.#log = log;
    this.parameters = parameters;
    this.processId = processId;
    reader.maxBytes = MAX_MESSAGE_BYTES;
    socket.on('drain', () => this.#onDrain());
    socket.on('close', () => {
      if (this.#ended === undefined)
        this.#lose(new ConnectionLost('The server closed the connection', { sqlstate: '08006' }));
      this.#closing?.[Symbol.dispose]();
      this.#closed.resolve();
    });
    socket.on('error', (cause) =>
      this.#lose(new ConnectionLost(`The connection broke: ${cause.message}`, { sqlstate: '08006', cause })),
    );
  }

  /** By the last ReadyForQuery: `I` idle, `T` in a transaction, `E` in one that has failed. */
  get status(): 'I' | 'T' | 'E' {
    return this.#status;
  }
  get isEnded(): boolean {
    return this.#ended !== undefined;
  }
  /** Whether nothing is under way. */
  get isQuiet(): boolean {
    return this.#first === undefined;
  }
  /** Requests so far. */
  get asked(): number {
    return this.#asked;
  }

  /** Why nothing can be asked any more. @throws ConnectionLost */
  check(sql?: string): void {
    if (this.#ended !== undefined) throw this.#closedError(sql);
  }

  /** Queues what has just been written, and sends it at the end of this turn, together with what else is. */
  add(exchange: Exchange): void {
    this.#queue(exchange);
    this.flushSoon();
  }

  /** Queues what has just been written in one piece. It is sent now when the server has nothing to do, else together with what else is. */
  send(exchange: Exchange): void {
    const isFirst = this.#first === undefined;
    this.#queue(exchange);
    if (isFirst) this.flush();
    else this.flushSoon();
  }

  /** What comes behind the end rejects: it may have come between an answer and what it was waited for. */
  #queue(exchange: Exchange): void {
    if (this.#ended !== undefined) return refuse(exchange, this.#closedError(exchange.sql));
    this.#asked++;
    if (this.#last === undefined) this.#first = exchange;
    else this.#last.next = exchange;
    this.#last = exchange;
  }

  /** Waits for an exchange that was added. When the limit is reached, the server is told to give up. @throws its error, or the limit's */
  async finish(exchange: Exchange, limit: Limit | undefined): Promise<Exchange> {
    if (limit === undefined) {
      await exchange.done;
      if (exchange.error !== undefined) throw exchange.error;
      return exchange;
    }
    const canceling = new Canceling(exchange.sql, limit, this.#clock, this.#cancel, (error) =>
      this.destroy(error),
    );
    try {
      if (this.#first === exchange) canceling.begin();
      else exchange.onFirst = () => canceling.begin();
      await exchange.done;
    } catch (error) {
      throw canceling.reached ?? error;
    } finally {
      await canceling.end();
    }
    if (exchange.error !== undefined)
      throw exchange.error.sqlstate === '57014' ? (canceling.reached ?? exchange.error) : exchange.error;
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
  async close(): Promise<void> {
    if (this.#ended === undefined && this.isQuiet) {
      this.writer.terminate();
      this.flush();
      this.#end(new ConnectionLost('The connection was closed by us', { sqlstate: '08003' }));
      this.#socket.end();
      this.#closing = this.#clock.after(CLOSE_MS, () => this.#socket.destroy());
    } else this.destroy();
    await this.#closed.promise;
  }

  /** What the reader tells. */
  onMessage(type: number, bytes: Buffer, at: number, end: number): void {
    if (this.#ended !== undefined) return;
    switch (type) {
      case SERVER.notice:
        return this.#onNotice(read.readErrorFields(bytes, at, end));
      case SERVER.parameterStatus:
        return this.#onParameterStatus(...read.readParameterStatus(bytes, at, end));
      case SERVER.notification:
        return this.#onNotification(read.readNotification(bytes, at, end));
      case SERVER.error:
        return this.#onError(read.readErrorFields(bytes, at, end));
      default:
        return this.#onReply(type, bytes, at, end);
    }
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

  #onReply(type: number, bytes: Buffer, at: number, end: number): void {
    const first = this.#first;
    if (first === undefined) throw new ProtocolViolation('a reply to nothing');
    if (!first.onMessage(type, bytes, at, end)) {
      if (first.unasked !== undefined) this.#onUnasked(first);
      return;
    }
    this.#status = read.readStatus(bytes, at, end);
    this.#first = first.next;
    if (this.#first === undefined) this.#last = undefined;
    else this.#first.onFirst?.();
    first.next = undefined; // a finished one must not keep those that came after it
    first.resolve();
  }

  /** COPY was run as a statement. What follows it in the pipeline would be taken for data. */
  #onUnasked(exchange: Exchange): void {
    if (exchange.unasked !== 'copy-in') return;
    if (exchange.next !== undefined || exchange !== this.#first)
      throw new ProtocolViolation('COPY FROM STDIN among other statements');
    exchange.unasked = 'refused';
    this.writer.copyFail('COPY is not run as a statement');
    if (!exchange.isSimple) this.writer.sync(); // the one that was sent with it was read as part of the copy
    this.flushSoon();
  }

  #onError(fields: read.ErrorFields): void {
    const error =
      this.#first?.unasked === 'refused'
        ? new StatementError('COPY FROM STDIN is not run as a statement: use insertMany()', {
            sqlstate: fields.sqlstate,
            sql: this.#first.sql,
          })
        : postgresError(fields, this.#first?.sql);
    if (this.#first === undefined && !isFatal(fields)) throw new ProtocolViolation('an error about nothing');
    this.#first?.fail(error);
    this.onRefusal?.(error);
    if (!isFatal(fields)) return;
    this.#lose(
      error instanceof ConnectionLost
        ? error
        : new ConnectionLost('The server ended the connection', { sqlstate: error.sqlstate, cause: error }),
    );
    this.#socket.destroy();
  }

  #onNotice({ sqlstate, severity, message }: read.ErrorFields): void {
    if (severity === 'WARNING') this.#log?.warn('database_notice', { sqlstate, message });
  }

  #onParameterStatus(name: string, value: string): void {
    if (!this.parameters.has(name) && this.parameters.size >= MAX_PARAMETERS)
      throw new ProtocolViolation('too many settings');
    this.parameters.set(name, value);
    if (name === 'client_encoding' && !UTF8.test(value)) {
      // what we escape for COPY ends elsewhere in encodings like SJIS
      this.#lose(
        new ConnectionLost(
          `The client_encoding of the connection was changed to "${value}", and text is UTF-8 here: use convert_from() and convert_to() for others`,
          { sqlstate: '08P01' },
        ),
      );
      this.#socket.destroy();
      return;
    }
    this.onParameter?.(name, value);
  }

  #onNotification({
    channel,
    payload,
    processId,
  }: {
    channel: string;
    payload: string;
    processId: number;
  }): void {
    try {
      this.onNotification?.(channel, payload, processId);
    } catch (error) {
      this.#log?.error('notification_failed', { error });
    }
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
    for (let exchange = this.#first; exchange !== undefined; exchange = exchange.next)
      refuse(exchange, error);
    this.#first = this.#last = undefined;
  }

  #closedError(sql: string | undefined): ConnectionLost {
    return new ConnectionLost('The connection is closed', { sqlstate: '08003', cause: this.#ended, sql });
  }
}

/** It will not be answered. */
function refuse(exchange: Exchange, error: Error): void {
  exchange.reject(exchange.error ?? error);
  exchange.onProgress?.();
}
