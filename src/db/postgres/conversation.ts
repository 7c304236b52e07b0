/**
 * A conversation with PostgreSQL over a socket that is logged in: what is asked joins a queue in the same step in which its bytes
 * are written, and what comes back belongs to the first of the queue. Whatever does not fit ends the conversation.
 */
import { ConnectionLost, ProtocolViolation, StatementError } from '../errors.ts';
import { Conversation, type ConversationDeps } from '../wire/conversation.ts';
import { isFatal, postgresError } from './errors.ts';
import { MAX_MESSAGE_BYTES, SERVER } from './messages.ts';
import * as read from './messages.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit } from '../driver.ts';
import type { Exchange } from './exchange.ts';
import type { MessageWriter } from './writer.ts';

/** The parts of a conversation, which the log-in has made. */
interface PostgresConversationDeps extends ConversationDeps<MessageWriter> {
  readonly parameters: Map<string, string>;
  readonly processId: number;
  readonly log: Logger | undefined;
}

const UTF8 = /^(?:utf-?8|unicode)$/i;
/** Settings of which we are told that are kept. The server has some 15. */
const MAX_PARAMETERS = 200;

/** See the top of this file. */
export class PostgresConversation extends Conversation<Exchange, MessageWriter> {
  readonly parameters: Map<string, string>;
  readonly processId: number;
  readonly #log: Logger | undefined;
  #status: 'I' | 'T' | 'E' = 'I';
  onNotification: ((channel: string, payload: string, processId: number) => void) | undefined;
  onParameter: ((name: string, value: string) => void) | undefined;

  constructor({ parameters, processId, log, ...deps }: PostgresConversationDeps) {
    super(deps, MAX_MESSAGE_BYTES);
    this.#log = log;
    this.parameters = parameters;
    this.processId = processId;
  }

  /** By the last ReadyForQuery: `I` idle, `T` in a transaction, `E` in one that has failed. */
  get status(): 'I' | 'T' | 'E' {
    return this.#status;
  }

  /** Waits for an exchange that was added. When the limit is reached, the server is asked to give up. @throws its error, or the limit's */
  async finish(exchange: Exchange, limit: Limit | undefined): Promise<Exchange> {
    const canceling = await this.ended(exchange, limit);
    const { error } = exchange;
    if (error !== undefined) throw error.sqlstate === '57014' ? (canceling?.reached ?? error) : error;
    return exchange;
  }

  protected writeLeave(): void {
    this.writer.terminate();
  }

  /** Takes a message of the reader. */
  readonly onMessage = (type: number, bytes: Buffer, at: number, end: number): void => {
    if (this.isEnded) return;
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
  };

  #onReply(type: number, bytes: Buffer, at: number, end: number): void {
    const { first } = this;
    if (first === undefined) throw new ProtocolViolation('a reply to nothing');
    if (!first.onMessage(type, bytes, at, end)) {
      if (first.unasked !== undefined) this.#onUnasked(first);
      return;
    }
    this.#status = read.readStatus(bytes, at, end);
    this.shift(first);
  }

  /** COPY was run as a statement. What follows it in the pipeline would be taken for data. */
  #onUnasked(exchange: Exchange): void {
    if (exchange.unasked !== 'copy-in') return;
    if (exchange.next !== undefined || exchange !== this.first)
      throw new ProtocolViolation('COPY FROM STDIN among other statements');
    exchange.unasked = 'refused';
    this.writer.copyFail('COPY is not run as a statement');
    if (!exchange.isSimple) this.writer.sync(); // the one that was sent with it was read as part of the copy
    this.flushSoon();
  }

  #onError(fields: read.ErrorFields): void {
    const error =
      this.first?.unasked === 'refused'
        ? new StatementError('COPY FROM STDIN is not run as a statement: use insertMany()', {
            sqlstate: fields.sqlstate,
            sql: this.first.sql,
          })
        : postgresError(fields, this.first?.sql);
    if (this.first === undefined && !isFatal(fields)) throw new ProtocolViolation('an error about nothing');
    this.first?.fail(error);
    this.onRefusal?.(error);
    if (!isFatal(fields)) return;
    this.refused(error, error.sqlstate);
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
      this.abandon(
        new ConnectionLost(
          `The client_encoding of the connection was changed to "${value}", and text is UTF-8 here: use convert_from() and convert_to() for others`,
          { sqlstate: '08P01' },
        ),
      );
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
}
