/** One connection to MySQL or MariaDB. A pool lends it to one caller at a time. */
import { ReadOnly, TransactionAborted } from '../errors.ts';
import { ServerConnection } from '../wire/server-connection.ts';
import { beginTexts } from '../dialects.ts';
import { checkLimit } from '../limits.ts';
import { UNTIMED, type BatchTiming } from '../slow-statements.ts';
import { isOfReadingServer } from './errors.ts';
import { insertRows, runMany } from './many.ts';
import { preparedColumn } from './rows.ts';
import { MySqlRunner, type Cursor } from './runner.ts';
import { COMMAND, STATUS } from './wire.ts';
import { scriptStatements } from '../script.ts';
import type { BeginOptions, Limit, PreparedStatement, Row, RowBatches, Table } from '../driver.ts';
import type { MySqlConversation } from './conversation.ts';
import type { RowsWanted } from '../wire/conversation.ts';
import type { Exchange } from './exchange.ts';
import type { MySqlConnectionOptions } from './url.ts';
import type { Params } from '../values.ts';

const BATCH_ROWS = 256;
/** Error message for a statement whose transaction the server has already ended. */
const OVER =
  'The server has ended the transaction, because of an error, or because a statement such as CREATE TABLE commits by itself';

export class MySqlConnection extends ServerConnection<Exchange, MySqlConversation, MySqlRunner> {
  readonly #options: MySqlConnectionOptions;

  /** `pinsTypes`: a prepared statement accepts only the value types of its first execution. */
  constructor(conversation: MySqlConversation, options: MySqlConnectionOptions, pinsTypes: boolean) {
    super(new MySqlRunner(conversation, options, pinsTypes));
    this.#options = options;
    conversation.onRefusal = (error) => {
      if (options.mustWrite && !this.isReadOnly && isOfReadingServer(error)) this.isUnfit = true;
    };
  }

  /** Sets the session variables, and reads `max_allowed_packet`. */
  async setUp(limit: Limit | undefined): Promise<void> {
    await this.runner.flight(sessionTexts(this.#options), limit);
    const { rows } = await this.runner.query('select @@max_allowed_packet', limit, 'firstList');
    this.runner.maxPacketBytes = Number((rows[0] as unknown[])[0]);
  }

  get isInTransaction(): boolean {
    return this.conversation.isInTransaction;
  }
  get isIdle(): boolean {
    return (
      this.conversation.isQuiet &&
      !this.runner.isWriting &&
      !this.isInTransaction &&
      this.conversation.hasAutocommit
    );
  }

  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Promise<Table> {
    return this.run(sql, params, limit, 'lists', (exchange) => ({
      columns: this.runner.columns(exchange),
      rows: exchange.rows as unknown[][],
    }));
  }

  async describe(sql: string, limit: Limit | undefined): Promise<PreparedStatement | undefined> {
    const described = await this.#describe(sql, limit);
    if (described === undefined) return undefined;
    const { columns, parameters } = described;
    return {
      parameters: Array.from({ length: parameters }, () => undefined), // the server sends the type of a text for each
      columns: columns.map((column) => preparedColumn(column, this.#options.database)),
    };
  }

  fetchSets(sql: string, params: Params, limit: Limit | undefined): Promise<Row[][]> {
    return this.run(sql, params, limit, 'sets', ({ sets }) => sets);
  }

  async executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Promise<number> {
    this.#checkTransaction(sql);
    return this.#many(sql, () => runMany(this.runner, sql, rows, limit), limit);
  }

  async insertMany(
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ): Promise<number> {
    this.#checkTransaction('insert');
    return this.#many(
      `insert into ${table}`,
      () => insertRows(this.runner, table, columns, rows, limit),
      limit,
    );
  }

  /**
   * Streams rows through a cursor. The server computes all rows when it opens the cursor, so later writes are
   * not visible. Other requests can run between two fetches.
   */
  async *stream(sql: string, params: Params, limit: Limit | undefined): RowBatches {
    this.#checkTransaction(sql);
    const timing = this.runner.timing?.batches(sql) ?? UNTIMED;
    let cursor: Cursor | undefined;
    try {
      cursor = await timing.wait(() => this.runner.open(sql, params, limit));
      // if the server supports no cursor for this statement, it has already sent all rows
      if (cursor.opened.rows.length > 0) yield cursor.opened.rows as Row[];
      if (hasMore(cursor.opened)) yield* this.#chunks(cursor, limit, timing);
    } finally {
      timing.end();
      if (cursor !== undefined && cursor.id !== 0) this.runner.statements.closeHandles(cursor.id);
    }
  }

  async script(sql: string, limit: Limit | undefined): Promise<void> {
    for (const text of scriptStatements(sql, this.#options.dialect)) {
      this.#checkTransaction(text);
      await this.timed(text, () => this.runner.query(text, limit));
    }
  }

  async begin(options: BeginOptions, limit: Limit | undefined): Promise<void> {
    try {
      await this.runner.flight(beginTexts(this.#options.dialect, options), limit);
    } catch (error) {
      // close the connection, because its isolation level may already be set for the next transaction
      if (options.isolation !== undefined) this.destroy();
      throw error;
    }
    this.isReadOnly = options.isReadOnly;
    this.hasBegun = true;
  }

  async rollback(limit?: Limit): Promise<void> {
    const isOpen = this.isInTransaction || !this.conversation.isQuiet || this.runner.isWriting;
    this.over();
    if (this.isBroken) return;
    if (isOpen) await this.runner.query('rollback', limit);
    if (!this.conversation.hasAutocommit) await this.runner.query('set autocommit = 1', limit);
  }

  async savepoint(name: string, limit?: Limit): Promise<void> {
    this.#checkTransaction('savepoint');
    await this.runner.query(`savepoint ${name}`, limit);
  }

  async releaseSavepoint(name: string, limit?: Limit): Promise<void> {
    this.#checkTransaction('release savepoint');
    await this.runner.query(`release savepoint ${name}`, limit);
  }

  async rollbackTo(name: string, limit?: Limit): Promise<void> {
    // the status of the transaction is up to date, because no request is pending
    if (this.isBroken || !this.isInTransaction) return;
    await this.runner.flight([`rollback to savepoint ${name}`, `release savepoint ${name}`], limit);
  }

  /** Resets the session. MySQL 5.6 has no such command, so the connection is closed there. */
  async reset(): Promise<void> {
    await this.rollback();
    await this.runner.command(COMMAND.resetConnection, 'reset', undefined);
    this.runner.statements.reset();
    await this.setUp(undefined);
  }

  protected async sendCommit(limit: Limit | undefined): Promise<void> {
    await this.runner.query('commit', limit);
  }

  protected sendPing(limit: Limit | undefined): Promise<unknown> {
    return this.runner.command(COMMAND.ping, 'ping', limit);
  }

  protected endedError(sql: string): TransactionAborted {
    return new TransactionAborted(OVER, { sqlstate: '25P01', sql });
  }

  protected override run<T>(
    sql: string,
    params: Params,
    limit: Limit | undefined,
    wanted: RowsWanted,
    answer: (exchange: Exchange) => T,
  ): Promise<T> {
    return this.hasEnded
      ? Promise.reject(this.endedError(sql))
      : this.runner.run(sql, params, limit, wanted, answer);
  }

  async #describe(sql: string, limit: Limit | undefined): ReturnType<MySqlRunner['describe']> {
    try {
      return await this.runner.describe(sql, limit);
    } catch (error) {
      if (!(error instanceof ReadOnly) || this.isInTransaction) throw error;
    }
    // a session that only reads refuses to prepare a write: prepare it in a transaction that is rolled back
    await this.runner.query('start transaction read write', limit);
    try {
      return await this.runner.describe(sql, limit);
    } finally {
      await this.rollback(limit);
    }
  }

  async *#chunks(cursor: Cursor, limit: Limit | undefined, timing: BatchTiming): RowBatches {
    for (;;) {
      checkLimit(limit, this.#options.clock, cursor.sql);
      const chunk = await timing.wait(() => this.runner.fetch(cursor, BATCH_ROWS, limit));
      if (chunk.rows.length > 0) yield chunk.rows as Row[];
      if (((chunk.status ?? 0) & STATUS.lastRowSent) !== 0) return;
    }
  }

  /** Runs `work`. Adds details to its error, such as the columns of a violated key. */
  async #many<T>(sql: string, work: () => Promise<T>, limit: Limit | undefined): Promise<T> {
    try {
      return await this.timed(sql, work);
    } catch (error) {
      throw await this.runner.explained(error, limit);
    }
  }

  /**
   * Throws if the server has ended the transaction. Without this check, the server would commit each further
   * statement separately.
   */
  #checkTransaction(sql: string): void {
    if (this.hasEnded) throw this.endedError(sql);
  }
}

function hasMore({ status }: Exchange): boolean {
  return ((status ?? 0) & STATUS.cursorExists) !== 0 && (status! & STATUS.lastRowSent) === 0;
}

/**
 * SQL modes that make the server refuse a value that does not fit its column, instead of changing it. With
 * NO_AUTO_VALUE_ON_ZERO, the server stores 0 in an AUTO_INCREMENT column instead of generating a key.
 */
const STRICT =
  'NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

/**
 * Returns the statements that set up the session. They select UTF-8 again after the login, because a server
 * setting such as `init_connect` may have changed the encoding.
 */
function sessionTexts({ isStrict, isReadOnly, parameters }: MySqlConnectionOptions): readonly string[] {
  const settings = [
    'character_set_client = utf8mb4',
    'character_set_results = utf8mb4',
    'collation_connection = utf8mb4_general_ci',
    "time_zone = '+00:00'",
    'autocommit = 1',
    ...(isStrict && parameters['sql_mode'] === undefined
      ? [`sql_mode = concat(@@sql_mode, ',${STRICT}')`]
      : []),
    // the values need no escaping, because url.ts refuses values that contain quotes
    ...Object.entries(parameters).map(
      ([name, value]) => `${name} = ${/^-?\d+(?:\.\d+)?$/.test(value) ? value : `'${value}'`}`,
    ),
  ];
  return [
    `set ${settings.map((setting) => `session ${setting}`).join(', ')}`,
    ...(isReadOnly ? ['set session transaction read only'] : []),
  ];
}
