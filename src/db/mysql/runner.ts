/**
 * Runs the statements of one MySQL or MariaDB connection. Statements are prepared, so values are sent
 * separately from the text, and rows are binary. The first use of a statement takes two round trips:
 * COM_STMT_PREPARE and COM_STMT_EXECUTE. Later uses take one.
 *
 * A script, or a statement that the server cannot prepare (error 1295), is sent as text by COM_QUERY.
 *
 * Some requests are written in several steps, for example because a statement must be prepared first. Until
 * the last step is complete, other requests wait.
 *
 * The message of a unique violation contains only the name of the key. The runner then asks the server for
 * the columns of the key, and adds them to the error.
 */
import { DataError, DatabaseError, UniqueViolation } from '../errors.ts';
import { ServerRunner, type StatementRequest } from '../wire/server-connection.ts';
import { PreparedStatements } from '../statements.ts';
import { isOutOfStatements, isStaleStatement, isUnpreparable } from './errors.ts';
import { fits, kindsKey, pin, type Kinds } from './types.ts';
import { checkCount, checkedStatement } from '../placeholders.ts';
import { LARGE_BYTES, isLarge, largeBytesOf, refuse, writeParams } from './values.ts';
import { COMMAND } from './wire.ts';
import { refuseCount, parameterIssue } from '../parameters.ts';
import type { Params } from '../values.ts';
import { writtenTable } from '../dialects.ts';
import type { Column, Limit } from '../driver.ts';
import type { MySqlConversation } from './conversation.ts';
import type { RowsWanted } from '../wire/conversation.ts';
import type { Exchange } from './exchange.ts';
import type { RowPlan } from './rows.ts';
import type { WireColumn } from './messages.ts';
import type { MySqlConnectionOptions } from './url.ts';

/** A cursor on the server, over the rows of one statement. */
export interface Cursor {
  readonly id: number;
  readonly sql: string;
  /** Reply to the request that opened the cursor. It has all rows if the server could not open a cursor. */
  readonly opened: Exchange;
}

const NO_CURSOR = 0;
const READ_ONLY_CURSOR = 1;

/** A prepared statement. By default, a server allows 16,382 of them over all connections. */
export interface KnownStatement {
  /** Id on the server. Undefined if the server cannot prepare the statement, which runs as text. */
  readonly id: number | undefined;
  /** Row decoders from the statement's last reply. */
  plan: RowPlan | undefined;
  /** Kinds of values that the parameters accept (types.ts). Undefined if they accept all. */
  readonly kinds: Kinds | undefined;
}

export class MySqlRunner extends ServerRunner<Exchange, MySqlConversation> {
  readonly statements: PreparedStatements<KnownStatement, number>;
  /** `max_allowed_packet` of the server in bytes. */
  maxPacketBytes: number = 16 * 1024 * 1024;
  readonly #options: MySqlConnectionOptions;
  /** Whether a prepared statement accepts only the value types of its first execution (types.ts). */
  readonly #pinsTypes: boolean;

  constructor(conversation: MySqlConversation, options: MySqlConnectionOptions, pinsTypes: boolean) {
    super(conversation, options);
    this.#pinsTypes = pinsTypes;
    this.#options = options;
    this.statements = new PreparedStatements(options.statementCache, ({ id }) => id);
  }

  /** Whether the server refuses a value that does not fit its column. */
  get isStrict(): boolean {
    return this.#options.isStrict && this.#options.parameters['sql_mode'] === undefined;
  }
  get pipelines(): boolean {
    return this.#options.pipelines;
  }

  run<T>(
    text: string,
    params: Params,
    limit: Limit | undefined,
    wanted: RowsWanted,
    answer: (exchange: Exchange) => T,
  ): Promise<T> {
    try {
      const placeholders = this.placeholdersOf(text);
      checkCount(params, placeholders);
      const request: StatementRequest = { text, params, wanted, limit };
      const known =
        limit === undefined && this.writing === undefined && this.#options.pipelines
          ? this.#known(text, params)
          : undefined;
      return known?.id === undefined || hasLarge(params)
        ? this.#stepByStep(request, answer)
        : this.#atOnce(request, known, answer);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Adds the columns of the key to a unique violation. Returns any other error unchanged. */
  explained(error: unknown, limit: Limit | undefined): Promise<unknown> {
    return withKeyColumns(error, (text, params) =>
      this.run(text, params, limit, 'lists', ({ rows }) => rows as unknown[][]),
    );
  }

  /**
   * Returns the number of values that a statement needs. @throws SvcError `E_DB_STATEMENT` when the text
   * cannot run as one statement
   */
  placeholdersOf(text: string): number {
    return checkedStatement(text, this.#options.dialect, this.conversation.hasPlainBackslashes).placeholders;
  }

  /** Runs SQL text that has no parameters, without preparing it. */
  async query(text: string, limit: Limit | undefined, wanted: RowsWanted = 'none'): Promise<Exchange> {
    while (this.mustWait) await this.turn();
    this.check(text, limit);
    return this.conversation.finish(this.#writeQuery(text, wanted), limit);
  }

  /** Runs several statements in one round trip. If one of them fails, later ones may still run. */
  async flight(texts: readonly string[], limit: Limit | undefined): Promise<void> {
    while (this.mustWait) await this.turn();
    this.check(texts[0], limit);
    if (!this.#options.pipelines) {
      for (const text of texts) await this.conversation.finish(this.#writeQuery(text, 'none'), limit);
      return;
    }
    const exchanges = texts.map((text) => this.#writeQuery(text, 'none', false));
    const results = await Promise.allSettled(
      exchanges.map((exchange) => this.conversation.finish(exchange, limit)),
    );
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  /** Runs a protocol command that has no arguments, such as COM_RESET_CONNECTION. */
  async command(code: number, name: string, limit: Limit | undefined): Promise<void> {
    while (this.mustWait) await this.turn();
    this.check(name, limit);
    this.conversation.writer.command(code);
    const exchange = this.conversation.ask({ sql: name, kind: 'command', wanted: 'none' });
    await this.conversation.finish(exchange, limit);
  }

  /** Opens a cursor with a prepared statement of its own, which no other request uses. */
  async open(text: string, params: Params, limit: Limit | undefined): Promise<Cursor> {
    const placeholders = this.placeholdersOf(text);
    checkCount(params, placeholders);
    while (this.mustWait) await this.turn();
    this.check(text, limit);
    let id: number | undefined;
    const opened = await this.exclusively(async () => {
      const prepared = await this.#prepare(text, params.length, limit);
      id = prepared.id;
      return this.#send({ text, params, wanted: 'objects', limit }, prepared, READ_ONLY_CURSOR);
    });
    try {
      await this.conversation.finish(opened, limit);
    } catch (error) {
      if (id !== undefined) this.statements.closeHandles(id);
      throw error;
    }
    return { id: id ?? 0, sql: text, opened };
  }

  async fetch({ id, sql, opened }: Cursor, rows: number, limit: Limit | undefined): Promise<Exchange> {
    while (this.mustWait) await this.turn();
    this.check(sql, limit);
    const { writer } = this.conversation;
    writer.command(COMMAND.stmtFetch);
    writer.uint32(id);
    writer.uint32(rows);
    const exchange = this.conversation.ask({ sql, kind: 'fetch', wanted: 'objects', plan: opened.plan });
    return this.conversation.finish(exchange, limit);
  }

  /** Returns a statement for the types of `params`. Call release() before any other request. */
  async prepared(
    text: string,
    params: Params,
    limit: Limit | undefined,
    isKept: boolean = true,
  ): Promise<KnownStatement> {
    const known = this.#known(text, params);
    if (known !== undefined) return known;
    const prepared = await this.#prepare(text, params.length, limit);
    if (isKept && this.statements.keeps(text))
      this.statements.add(this.statements.get(text) === undefined ? text : variant(text, params), prepared);
    return prepared;
  }

  /** Closes a statement if it is not in the cache. */
  release(text: string, params: Params, statement: KnownStatement): void {
    if (this.statements.get(text) !== statement && this.statements.get(variant(text, params)) !== statement)
      this.statements.close(statement);
  }

  /** Removes the outdated or unusable statements of `text` from the cache. */
  forget(text: string, params: Params): void {
    this.statements.delete(text);
    if (this.#pinsTypes) this.statements.delete(variant(text, params));
  }

  /** Whether a request must wait for another one, or without pipelining for its reply. */
  override get mustWait(): boolean {
    return super.mustWait || (!this.#options.pipelines && !this.conversation.isQuiet);
  }

  override turn(): Promise<void> {
    return this.writing ?? this.conversation.settledAll();
  }

  /** Describes a statement. Returns undefined if the server cannot prepare this kind. */
  async describe(
    text: string,
    limit: Limit | undefined,
  ): Promise<{ readonly columns: readonly WireColumn[]; readonly parameters: number } | undefined> {
    const parameters = this.placeholdersOf(text);
    while (this.mustWait) await this.turn();
    this.check(text, limit);
    const { id, plan } = await this.exclusively(() => this.#prepare(text, parameters, limit));
    if (id === undefined) return undefined;
    this.statements.closeHandles(id);
    return { columns: plan?.columns ?? [], parameters };
  }

  columns({ plan }: Exchange): readonly Column[] {
    return plan?.shownColumns() ?? [];
  }

  /** Writes the requests that close statements, to which the server does not reply. */
  writeClosing(): void {
    const { writer } = this.conversation;
    for (const id of this.statements.takeClosing()) {
      writer.command(COMMAND.stmtClose);
      writer.uint32(id);
      writer.end();
    }
  }

  beginExecute(id: number, flags: number): void {
    const { writer } = this.conversation;
    writer.command(COMMAND.stmtExecute);
    writer.uint32(id);
    writer.byte(flags);
    writer.uint32(1); // iteration count, always 1
  }

  /** Checks the size of the request that begins at `before`. Removes one that is too large. */
  checkLength(before: number, text: string): void {
    const { writer } = this.conversation;
    if (writer.payloadLength < this.maxPacketBytes) return;
    const length = writer.payloadLength;
    writer.rewind(before);
    throw this.#tooLong('the statement with its values', length, text);
  }

  /** Fast path of run() for a statement that the server has already prepared: one write and one promise. */
  #atOnce<T>(
    request: StatementRequest,
    known: KnownStatement,
    answer: (exchange: Exchange) => T,
  ): Promise<T> {
    this.check(request.text, undefined);
    const { timing } = this;
    const startedMs = timing?.begin() ?? 0;
    const exchange = this.#send(request, known, NO_CURSOR);
    return this.answered({ exchange, timing, startedMs }, answer, async (error) => {
      await this.conversation.settled(exchange);
      return this.#onceMore(request, error, true);
    });
  }

  #stepByStep<T>(request: StatementRequest, answer: (exchange: Exchange) => T): Promise<T> {
    const { timing } = this;
    return this.timed(request.text, timing, timing?.begin() ?? 0, () => this.#withRetry(request), answer);
  }

  async #withRetry(request: StatementRequest): Promise<Exchange> {
    const wasKnown = this.#known(request.text, request.params) !== undefined;
    try {
      return await this.#attempt(request);
    } catch (error) {
      return this.#onceMore(request, error, wasKnown);
    }
  }

  /** Runs a statement again if it was outdated, or if the server had too many statements. */
  async #onceMore(request: StatementRequest, error: unknown, wasKnown: boolean): Promise<Exchange> {
    if (!(error instanceof DatabaseError) || this.conversation.isEnded) throw error;
    if (isOutOfStatements(error)) this.statements.clear();
    else if (wasKnown && isStaleStatement(error)) this.forget(request.text, request.params);
    else throw await this.explained(error, request.limit);
    return this.#attempt(request);
  }

  async #attempt(request: StatementRequest): Promise<Exchange> {
    const { text, params, limit } = request;
    while (this.mustWait) await this.turn();
    this.check(text, limit);
    const known = this.#known(text, params);
    const exchange =
      known !== undefined && !hasLarge(params)
        ? this.#send(request, known, NO_CURSOR)
        : await this.exclusively(() => this.#prepareAndSend(request));
    await this.conversation.finish(exchange, limit);
    return exchange;
  }

  async #prepareAndSend(request: StatementRequest): Promise<Exchange> {
    const { text, params } = request;
    const statement = await this.prepared(text, params, request.limit);
    try {
      if (statement.id !== undefined && hasLarge(params)) await this.#sendLarge(statement.id, request);
      const exchange = this.#send(request, statement, NO_CURSOR);
      this.release(text, params, statement);
      return exchange;
    } catch (error) {
      this.release(text, params, statement);
      // forget the statement: the server keeps the chunks that were already sent, and would use them in the
      // next execution
      if (hasLarge(params)) this.forget(text, params);
      throw error;
    }
  }

  #known(text: string, params: Params): KnownStatement | undefined {
    const known = this.statements.get(text);
    if (known?.kinds === undefined || fits(known.kinds, params)) return known;
    return this.statements.get(variant(text, params));
  }

  async #prepare(text: string, parameters: number, limit: Limit | undefined): Promise<KnownStatement> {
    const { writer } = this.conversation;
    const before = writer.length;
    this.writeClosing();
    writer.command(COMMAND.stmtPrepare);
    writer.text(text);
    this.checkLength(before, text);
    const exchange = this.conversation.ask({ sql: text, kind: 'prepare', wanted: 'none' });
    try {
      await this.conversation.finish(exchange, limit);
    } catch (error) {
      // the server may have prepared the statement before the error, for example a timeout
      if (exchange.statementId !== 0) this.statements.closeHandles(exchange.statementId);
      if (error instanceof DatabaseError && isUnpreparable(error))
        return { id: undefined, plan: undefined, kinds: undefined };
      throw error;
    }
    if (exchange.parameters !== parameters) {
      this.statements.closeHandles(exchange.statementId);
      // the server has counted more or fewer placeholders than the client
      refuseCount(exchange.parameters, parameters);
    }
    return {
      id: exchange.statementId,
      plan: exchange.plan,
      kinds: this.#pinsTypes ? new Uint8Array(parameters) : undefined,
    };
  }

  #send({ text, params, wanted }: StatementRequest, statement: KnownStatement, flags: number): Exchange {
    const { id, kinds } = statement;
    if (id === undefined) {
      if (params.length > 0)
        throw new DataError(
          'The server does not allow placeholders in a statement of this kind: write the values as literals into the statement',
          { sqlstate: '0A000', errno: 1295, sql: text },
        );
      return this.#writeQuery(text, wanted);
    }
    const { writer } = this.conversation;
    this.writeClosing();
    const before = writer.length;
    try {
      this.beginExecute(id, flags);
      if (kinds !== undefined) pin(kinds, params);
      if (params.length > 0) writeParams(writer, params, kinds, text, undefined, true);
    } catch (error) {
      writer.rewind(before);
      throw error;
    }
    this.checkLength(before, text);
    return this.conversation.send(
      this.conversation.exchange({
        sql: text,
        kind: 'execute',
        wanted,
        sequence: writer.end(),
        memory: statement,
      }),
    );
  }

  /** Sends large values in chunks. Checks all first: a value that is too long spoils the statement. */
  async #sendLarge(id: number, { text, params }: StatementRequest): Promise<void> {
    const { writer } = this.conversation;
    const turns = this.conversation.turns();
    this.writeClosing();
    for (const [index, value] of params.entries()) {
      if (!isLarge(value)) continue;
      const refusal = parameterIssue(value);
      if (refusal !== undefined) refuse(refusal, { position: index + 1, sql: text });
      const bytes = largeBytesOf(value);
      if (bytes.length >= this.maxPacketBytes)
        throw this.#tooLong(`parameter ${index + 1}`, bytes.length, text);
      for (let at = 0; at < bytes.length; at += LARGE_BYTES) {
        writer.command(COMMAND.stmtSendLongData);
        writer.uint32(id);
        writer.uint16(index);
        writer.raw(bytes.subarray(at, at + LARGE_BYTES));
        writer.end();
        const room = this.conversation.room(turns);
        if (room !== undefined) await room;
        this.conversation.check();
      }
    }
  }

  #tooLong(what: string, length: number, text: string): DataError {
    return new DataError(
      `The server's limit of ${this.maxPacketBytes} bytes (max_allowed_packet) is exceeded: ${what} takes ${length} bytes`,
      { sqlstate: '54000', errno: 1153, sql: text },
    );
  }

  /** Writes SQL text. `isAlone`: no other request is sent together with this one. */
  #writeQuery(text: string, wanted: RowsWanted, isAlone: boolean = true): Exchange {
    const { writer } = this.conversation;
    const before = writer.length;
    writer.command(COMMAND.query);
    writer.text(text);
    this.checkLength(before, text);
    const exchange = this.conversation.exchange({ sql: text, kind: 'query', wanted, sequence: writer.end() });
    return isAlone ? this.conversation.send(exchange) : this.conversation.add(exchange);
  }
}

function hasLarge(params: Params): boolean {
  for (let index = 0; index < params.length; index++) if (isLarge(params[index])) return true;
  return false;
}

/** Returns the cache key: the text, a NUL, which SQL text cannot contain, and the kinds. */
function variant(text: string, params: Params): string {
  return `${text}\0${kindsKey(params)}`;
}

const COLUMNS = `select column_name from information_schema.statistics
  where table_schema = coalesce(?, database()) and table_name = ? and index_name = ? order by seq_in_index`;

async function withKeyColumns(
  error: unknown,
  ask: (sql: string, params: Params) => Promise<readonly (readonly unknown[])[]>,
): Promise<unknown> {
  if (!(error instanceof UniqueViolation) || error.columns.length > 0) return error;
  const { table, constraint } = error;
  if (table === undefined || constraint === undefined) return error;
  try {
    const schema = writtenTable(error.sql)?.schema ?? null;
    const rows = await ask(COLUMNS, [schema, table, constraint]);
    // the name is NULL for a part of the key that is an expression instead of a column
    const columns = rows.map(([name]) => name).filter((name) => typeof name === 'string');
    const { message, errno, sqlstate, sql } = error;
    return new UniqueViolation(message, { errno, sqlstate, sql, table, constraint, columns });
  } catch {
    return error; // the original error matters more than a failure of this query
  }
}
