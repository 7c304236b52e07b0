/**
 * Requests and replies of one PostgreSQL connection after the login. Each reply belongs to the oldest request
 * without a reply. An unexpected message ends the connection.
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

interface PostgresConversationDeps extends ConversationDeps<MessageWriter> {
  readonly parameters: Map<string, string>;
  readonly processId: number;
  readonly log: Logger | undefined;
}

/** Session settings that determine how values are read, and must not be changed. */
const NEEDED: Readonly<Record<string, { readonly pattern: RegExp; readonly rule: string }>> = {
  // in encodings such as SJIS, the second byte of a character can be a backslash, which COPY reads as an escape
  client_encoding: {
    pattern: /^(?:utf-?8|unicode)$/i,
    rule: 'text must be UTF-8: use convert_from() and convert_to() for other encodings',
  },
  DateStyle: {
    pattern: /^ISO\b/,
    rule: 'dates must be ISO: use to_char() for other forms, and "ISO, DMY" to read dates with the day first',
  },
};
/** Maximum number of session settings that the server may report. A server reports about 15. */
const MAX_PARAMETERS = 200;

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

  /** Status in the last ReadyForQuery: `I` idle, `T` in a transaction, `E` in a failed one. */
  get status(): 'I' | 'T' | 'E' {
    return this.#status;
  }

  /** Waits for all replies of a request. At the limit, cancels the statement on the server. */
  async finish(exchange: Exchange, limit: Limit | undefined): Promise<Exchange> {
    const canceling = await this.ended(exchange, limit);
    const { error } = exchange;
    if (error !== undefined) throw error.sqlstate === '57014' ? (canceling?.reached ?? error) : error;
    return exchange;
  }

  protected writeLeave(): void {
    this.writer.terminate();
  }

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
    if (first === undefined)
      throw new ProtocolViolation('the server sent a message although no request waits for a reply');
    if (!first.onMessage(type, bytes, at, end)) {
      if (first.unasked !== undefined) this.#onUnasked(first);
      return;
    }
    this.#status = read.readStatus(bytes, at, end);
    this.shift(first);
    first.end();
  }

  /** Ends a COPY that ran as an ordinary statement, which would take later requests as data. */
  #onUnasked(exchange: Exchange): void {
    if (exchange.unasked !== 'copy-in') return;
    if (exchange.next !== undefined)
      throw new ProtocolViolation(
        'COPY FROM STDIN cannot be run together with other statements: use insertMany()',
      );
    exchange.unasked = 'refused';
    this.writer.copyFail('COPY is not run as a statement');
    // send another Sync, because the server has read the Sync of this request as data of the COPY
    if (!exchange.isSimple) this.writer.sync();
    this.flushSoon();
  }

  #onError(fields: read.ErrorFields): void {
    const error =
      this.first?.unasked === 'refused'
        ? new StatementError('COPY FROM STDIN cannot be run as a statement: use insertMany()', {
            sqlstate: fields.sqlstate,
            sql: this.first.sql,
          })
        : postgresError(fields, this.first?.sql);
    if (this.first === undefined && !isFatal(fields))
      throw new ProtocolViolation('the server sent an error although no request waits for a reply');
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
      throw new ProtocolViolation(`the server sent more than ${MAX_PARAMETERS} session settings`);
    this.parameters.set(name, value);
    const needed = Object.hasOwn(NEEDED, name) ? NEEDED[name] : undefined;
    if (needed?.pattern.test(value) === false)
      return this.abandon(
        new ConnectionLost(`The ${name} of the connection was changed to "${value}", but ${needed.rule}`, {
          sqlstate: '08P01',
        }),
      );
    this.onParameter?.(name, value);
  }

  #onNotification({ channel, payload, processId }: read.Notification): void {
    try {
      this.onNotification?.(channel, payload, processId);
    } catch (error) {
      this.#log?.error('notification_failed', { error });
    }
  }
}
