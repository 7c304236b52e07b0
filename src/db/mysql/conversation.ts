/**
 * A conversation with MySQL or MariaDB over a socket that is logged in: what is asked joins a queue in the same step in which its
 * bytes are written, and what comes back belongs to the first of the queue. Whatever does not fit ends the conversation.
 */
import { ConnectionLost, ProtocolViolation } from '../errors.ts';
import { Conversation, type ConversationDeps } from '../wire/conversation.ts';
import { isFatal, mysqlError } from './errors.ts';
import { Exchange, type Dialogue, type ExchangeDeps } from './exchange.ts';
import { readError } from './messages.ts';
import { COMMAND, MAX_PACKET_BYTES, REPLY, STATUS, wrongSequence, type PacketReader } from './wire.ts';
import { PacketWriter } from './writer.ts';
import type { Limit } from '../driver.ts';

/** The parts of a conversation, which the log-in has made. */
interface MySqlConversationDeps extends Omit<ConversationDeps<PacketWriter>, 'writer'> {
  readonly reader: PacketReader;
  readonly dialogue: Dialogue;
  readonly status: number;
}

/** They may begin a transaction, and fail behind that. */
const MAY_BEGIN = /^[\s(]*(?:call|execute|begin|xa)\b/i;
/** What has rows and writes nothing: of these one that was told to end, and has an answer all the same, was not ended in time. SLEEP() answers 1 then, and no error. */
const READS = /^[\s(]*(?:select|with|values|table)\b/i;
/** 1317: the statement was told to end. */
const INTERRUPTED = 1317;

/** See the top of this file. */
export class MySqlConversation extends Conversation<Exchange, PacketWriter> {
  readonly dialogue: Dialogue;
  readonly #reader: PacketReader;
  #status: number;
  /** The number of the next packet, within an answer. */
  #sequence = 0;

  constructor({ dialogue, status, ...deps }: MySqlConversationDeps) {
    super({ ...deps, writer: new PacketWriter() }, MAX_PACKET_BYTES);
    this.#reader = deps.reader;
    this.dialogue = dialogue;
    this.writer.hasTextInstants = dialogue.values.timestamps === 'string';
    this.#status = status;
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
  /** Resolves at the end of all requests so far. */
  async settledAll(): Promise<void> {
    await this.last?.done.catch(() => undefined);
  }

  /** A request, to be added or sent. */
  exchange(options: ExchangeDeps): Exchange {
    return new Exchange(options, this.dialogue);
  }

  /** Nothing more is written for an exchange that was left open. */
  close(exchange: Exchange): void {
    exchange.close();
    if (exchange === this.first && exchange.isOver) this.#finish(exchange);
    this.flushSoon();
  }

  /**
   * Waits for an exchange that was added. When the limit is reached, the server is told to give up. After an error it is looked at
   * whether a transaction is still open: some errors end it.
   *
   * @throws its error, or the limit's
   */
  async finish(exchange: Exchange, limit: Limit | undefined): Promise<Exchange> {
    const canceling = await this.ended(exchange, limit);
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

  protected writeLeave(): void {
    this.writer.command(COMMAND.quit);
    this.writer.end();
  }

  /** Takes a packet of the reader. */
  readonly onPacket = (bytes: Buffer, at: number, end: number, sequence: number): void => {
    if (this.isEnded) return;
    const { first } = this;
    if (first === undefined) return this.#onUnasked(bytes, at, end);
    const expected = first.sequence ?? this.#sequence;
    if (sequence !== (expected & 0xff)) throw wrongSequence(sequence, expected & 0xff);
    this.#sequence = this.#reader.sequence;
    if (first.onPacket(bytes, at, end)) this.#finish(first);
  };

  /** Whether its error may have ended a transaction. */
  #isUncertain({ error, sql }: Exchange): boolean {
    return error !== undefined && (this.isInTransaction || MAY_BEGIN.test(sql));
  }

  #finish(exchange: Exchange): void {
    if (exchange.status !== undefined) this.#status = exchange.status;
    if (exchange.error !== undefined) this.onRefusal?.(exchange.error);
    this.shift(exchange);
    if (exchange.error !== undefined && isFatal(exchange.error)) this.refused(exchange.error, '08006');
  }

  /** Nothing was asked: the server says only why it ends the connection. */
  #onUnasked(bytes: Buffer, at: number, end: number): void {
    if (bytes[at] !== REPLY.error) throw new ProtocolViolation('an answer to nothing');
    this.refused(mysqlError(readError(bytes, at, end), undefined), '08006');
  }

  /**
   * A question that the server answers whatever has been: its answer tells the state of the session. And a request to end that came
   * too late for its statement hits this one, which nobody misses.
   */
  async #settle(): Promise<void> {
    if (this.isEnded) return;
    this.writer.command(COMMAND.query);
    this.writer.text('do 0');
    const exchange = this.add(
      this.exchange({ sql: 'do 0', kind: 'query', wanted: 'none', sequence: this.writer.end() }),
    );
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
}
