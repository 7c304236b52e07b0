/**
 * Requests and replies of one MySQL or MariaDB connection after the login. Each reply belongs to the oldest
 * request without a reply. An unexpected packet ends the connection.
 */
import { ConnectionLost, ProtocolViolation } from '../errors.ts';
import { Conversation, type ConversationDeps } from '../wire/conversation.ts';
import { isFatal, mysqlError } from './errors.ts';
import { Exchange, type Dialogue, type ExchangeDeps } from './exchange.ts';
import { readError } from './messages.ts';
import { COMMAND, MAX_PACKET_BYTES, REPLY, STATUS, wrongSequence, type PacketReader } from './wire.ts';
import { PacketWriter } from './writer.ts';
import type { Limit } from '../driver.ts';

interface MySqlConversationDeps extends Omit<ConversationDeps<PacketWriter>, 'writer'> {
  readonly reader: PacketReader;
  readonly dialogue: Dialogue;
  readonly status: number;
}

/** Matches statements after whose failure it is unknown whether a transaction is open. */
const MAY_BEGIN = /^[\s(]*(?:call|execute|begin|xa)\b/i;
/**
 * Matches statements that only read. If one was canceled, its result is refused even without an error,
 * because it may be incomplete. For example, a canceled SLEEP() returns 1.
 */
const READS = /^[\s(]*(?:select|with|values|table)\b/i;
const INTERRUPTED = 1317;

export class MySqlConversation extends Conversation<Exchange, PacketWriter> {
  readonly dialogue: Dialogue;
  readonly #reader: PacketReader;
  #status: number;
  /** Sequence number that the next packet of the current reply must have. */
  #sequence = 0;

  constructor({ dialogue, status, ...deps }: MySqlConversationDeps) {
    super({ ...deps, writer: new PacketWriter() }, MAX_PACKET_BYTES);
    this.#reader = deps.reader;
    this.dialogue = dialogue;
    this.writer.hasTextInstants = dialogue.values.timestamps === 'string';
    this.#status = status;
  }

  /** Whether a transaction is open, according to the last status that the server has sent. */
  get isInTransaction(): boolean {
    return (this.#status & STATUS.inTransaction) !== 0;
  }
  get hasAutocommit(): boolean {
    return (this.#status & STATUS.autocommit) !== 0;
  }
  /** Whether a backslash in a string literal is an ordinary character. */
  get hasPlainBackslashes(): boolean {
    return (this.#status & STATUS.noBackslashEscapes) !== 0;
  }
  /** Resolves when all requests that are now in the queue have ended. */
  async settledAll(): Promise<void> {
    await this.last?.done.catch(() => undefined);
  }

  exchange(options: ExchangeDeps): Exchange {
    return new Exchange(options, this.dialogue);
  }

  ask(options: Omit<ExchangeDeps, 'sequence'>): Exchange {
    return this.add(this.exchange({ ...options, sequence: this.writer.end() }));
  }

  /** Sends SQL text whose rows are not wanted. */
  query(text: string): Exchange {
    this.writer.command(COMMAND.query);
    this.writer.text(text);
    return this.ask({ sql: text, kind: 'query', wanted: 'none' });
  }

  /** Closes an exchange, a group of requests and their replies. No further requests can be added. */
  close(exchange: Exchange): void {
    exchange.close();
    if (exchange === this.first && exchange.isOver) this.#finish(exchange);
    this.flushSoon();
  }

  /**
   * Waits until all replies of a request have arrived. When `limit` is reached, cancels the statement on the
   * server. After an error, asks the server whether the transaction is still open, because some errors end
   * it.
   */
  async finish(exchange: Exchange, limit: Limit | undefined): Promise<Exchange> {
    const canceling = await this.ended(exchange, limit);
    const { error } = exchange;
    if ((canceling?.wasRequested === true && error?.errno !== INTERRUPTED) || this.#isUncertain(exchange))
      await this.#settle();
    if (error !== undefined) throw error.errno === INTERRUPTED ? (canceling?.reached ?? error) : error;
    if (canceling?.wasRequested === true && exchange.plan !== undefined && READS.test(exchange.sql))
      // the server may report success for a canceled statement
      throw canceling.reached!;
    return exchange;
  }

  /** After an error, waits until the status of the transaction is known. */
  async settled(exchange: Exchange): Promise<void> {
    if (this.#isUncertain(exchange)) await this.#settle();
  }

  protected writeLeave(): void {
    this.writer.command(COMMAND.quit);
    this.writer.end();
  }

  readonly onPacket = (bytes: Buffer, at: number, end: number, sequence: number): void => {
    if (this.isEnded) return;
    const { first } = this;
    if (first === undefined) return this.#onUnasked(bytes, at, end);
    const expected = first.sequence ?? this.#sequence;
    if (sequence !== (expected & 0xff)) throw wrongSequence(sequence, expected & 0xff);
    this.#sequence = this.#reader.sequence;
    if (first.onPacket(bytes, at, end)) this.#finish(first);
  };

  #isUncertain({ error, sql }: Exchange): boolean {
    return error !== undefined && (this.isInTransaction || MAY_BEGIN.test(sql));
  }

  #finish(exchange: Exchange): void {
    if (exchange.status !== undefined) this.#status = exchange.status;
    if (exchange.error !== undefined) this.onRefusal?.(exchange.error);
    this.shift(exchange);
    exchange.end();
    if (exchange.error !== undefined && isFatal(exchange.error)) this.refused(exchange.error, '08006');
  }

  /** Handles a packet without a request: the error with which the server ends the connection. */
  #onUnasked(bytes: Buffer, at: number, end: number): void {
    if (bytes[at] !== REPLY.error)
      throw new ProtocolViolation('the server sent a packet although no request waits for a reply');
    this.refused(mysqlError(readError(bytes, at, end), undefined), '08006');
  }

  /** Asks for the status of the transaction. A late cancellation ends `do 0`, not the next statement. */
  async #settle(): Promise<void> {
    if (this.isEnded) return;
    const exchange = this.query('do 0');
    // ignore the error: the connection has ended, and the caller's next request will fail
    await exchange.done.catch(() => undefined);
    if (exchange.error?.errno === INTERRUPTED) await this.#settle();
    else if (exchange.error !== undefined)
      this.destroy(
        new ConnectionLost(
          'After an error or a cancellation, the server did not report the status of the transaction, so the connection was closed',
          { cause: exchange.error },
        ),
      );
  }
}
