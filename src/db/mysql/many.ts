/**
 * Runs one statement for many rows of values. Sends requests without waiting for replies.
 *
 * An insert such as `insert into t values (?, ?)` becomes an insert of several hundred rows. For other
 * statements, MariaDB gets COM_STMT_BULK_EXECUTE with many rows per request. MySQL gets COM_STMT_EXECUTE for
 * each row.
 *
 * Inserts of several hundred rows take a fifth of the time of single inserts. The caller has opened a
 * transaction, so either all rows are written or none.
 */
import { DatabaseError } from '../errors.ts';
import { isStaleStatement } from './errors.ts';
import { fits, pin } from './types.ts';
import { refuse, writeParams, writeValue } from './values.ts';
import { COMMAND, MARIADB, TYPE } from './wire.ts';
import { endRows, refuseCount } from '../parameters.ts';
import type { Parameter, Params } from '../values.ts';
import type { Limit } from '../driver.ts';
import type { MySqlConversation } from './conversation.ts';
import type { Exchange } from './exchange.ts';
import type { KnownStatement, MySqlRunner } from './runner.ts';

/** Matches statements that MariaDB can run in bulk. They use one table and return no rows. */
const BULK =
  /^\s*(?:(?:insert|replace)\b[^?]*\bvalues?\s*\(|update\s+[\w.`]+\s+set\b|delete\s+from\s+[\w.`]+\s+where\b)/i;
const NOT_BULK = /\breturning\b|\bselect\b/i;
const BULK_BYTES = 256 * 1024;
const SENDS_TYPES = 0x80;
const IS_VALUE = 0;
const IS_NULL = 1;
/** Maximum numbers of values and rows in one multi-row insert. Larger inserts are not faster. */
const MAX_VALUES = 16_000;
const MAX_ROWS = 500;
/** If fewer rows than this number remain, they are inserted one by one. */
const FEW_ROWS = 16;
/** Maximum number of prepared statements that one call has open, one for each combination of value types. */
const MAX_KINDS = 8;
/** Matches an insert that ends with a group of placeholders, such as `values (?, ?)`. */
const ROW_INSERT = /^(\s*(?:insert|replace)\b.*\bvalues?\s*)(\((?:\s*\?\s*,)*\s*\?\s*\))\s*;?\s*$/is;

interface Many {
  readonly runner: MySqlRunner;
  readonly sql: string;
  readonly limit: Limit | undefined;
  /** Prepared statements, one for each combination of value types, or a single one that accepts all types. */
  readonly statements: KnownStatement[];
  readonly placeholders: number;
  /**
   * Number of values in each row of the caller. Less than `placeholders` if one statement inserts several
   * rows.
   */
  readonly perRow: number;
  readonly source: Iterator<Params>;
  /** Next row of values, which no request contains yet. */
  next: IteratorResult<Params, unknown>;
  row: number;
}

interface Several {
  readonly perRow: number;
  readonly firstRow: number;
  readonly isKept: boolean;
}

/** An insert whose placeholders are all in one group at its end. */
interface RowInsert {
  readonly head: string;
  readonly group: string;
  readonly perRow: number;
}

/** Runs the statement for all rows. Returns the number of rows affected. */
export async function runMany(
  runner: MySqlRunner,
  sql: string,
  rows: Iterable<Params>,
  limit: Limit | undefined,
): Promise<number> {
  const placeholders = runner.placeholdersOf(sql);
  // without strict mode, a multi-row insert stores 0 for NULL in a NOT NULL column and reports no error
  const insert = runner.isStrict ? rowInsertOf(sql, placeholders) : undefined;
  return insert === undefined
    ? runEach(runner, sql, rows, limit)
    : insertSeveral(runner, sql, insert, rows, limit);
}

/** Inserts rows of values into a table. Returns the number of rows inserted. */
export async function insertRows(
  runner: MySqlRunner,
  table: string,
  columns: readonly string[],
  rows: Iterable<Params>,
  limit: Limit | undefined,
): Promise<number> {
  const head = `insert into ${table} (${columns.join(', ')}) values `;
  const group = `(${columns.map(() => '?').join(', ')})`;
  return runner.isStrict
    ? insertSeveral(runner, head + group, { head, group, perRow: columns.length }, rows, limit)
    : runEach(runner, head + group, rows, limit);
}

/** Parses an insert whose rows can be combined. Returns undefined for any other statement. */
function rowInsertOf(sql: string, placeholders: number): RowInsert | undefined {
  const match = ROW_INSERT.exec(sql);
  if (match === null || placeholders === 0) return undefined;
  // the cast is safe: both groups of the pattern are captured in every match
  const [, head, group] = match as unknown as readonly [string, string, string];
  // combine rows only if the group contains all placeholders of the statement
  return group.split('?').length - 1 === placeholders ? { head, group, perRow: placeholders } : undefined;
}

/**
 * Inserts rows in batches. All full batches use one cached statement. The remaining rows use an uncached
 * statement, or one insert for each row if they are few.
 */
async function insertSeveral(
  runner: MySqlRunner,
  sql: string,
  { head, group, perRow }: RowInsert,
  rows: Iterable<Params>,
  limit: Limit | undefined,
): Promise<number> {
  const most = Math.min(MAX_ROWS, Math.floor(MAX_VALUES / perRow));
  if (most < FEW_ROWS) return runEach(runner, sql, rows, limit);
  const textOf = (count: number): string => `${head}${`${group}, `.repeat(count - 1)}${group}`;
  const source = rows[Symbol.iterator]();
  let before = 0;
  let affected = 0;
  let batch: Params[] = [];
  const next = (): boolean => {
    before += batch.length;
    batch = taken(source, most);
    return batch.length === most;
  };
  function* wholeBatches(): Generator<Params, void, undefined> {
    do yield joined(batch, perRow, before);
    while (next());
  }
  try {
    if (next())
      affected += await runEach(runner, textOf(most), wholeBatches(), limit, {
        perRow,
        firstRow: 1,
        isKept: true,
      });
    if (batch.length === 0) return affected;
    if (batch.length < FEW_ROWS)
      return (
        affected + (await runEach(runner, sql, batch, limit, { perRow, firstRow: before + 1, isKept: true }))
      );
    return (
      affected +
      (await runEach(runner, textOf(batch.length), [joined(batch, perRow, before)], limit, {
        perRow,
        firstRow: before + 1,
        isKept: false,
      }))
    );
  } finally {
    endRows(source);
  }
}

function taken(source: Iterator<Params>, most: number): Params[] {
  const rows: Params[] = [];
  while (rows.length < most) {
    const next = source.next();
    if (next.done === true) break;
    rows.push(next.value);
  }
  return rows;
}

/**
 * Joins the values of several rows for one statement.
 * @throws SvcError for a row with a wrong number of values
 */
function joined(rows: readonly Params[], perRow: number, before: number): Params {
  const values: Parameter[] = [];
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index]!;
    if (row.length !== perRow) refuseCount(perRow, row.length, before + index + 1);
    // a caller may pass undefined in spite of the types: the writer refuses it
    for (let column = 0; column < perRow; column++) values.push(row[column]!);
  }
  return values;
}

async function runEach(
  runner: MySqlRunner,
  sql: string,
  rows: Iterable<Params>,
  limit: Limit | undefined,
  several?: Several,
): Promise<number> {
  const { conversation, pipelines } = runner;
  const placeholders = runner.placeholdersOf(sql);
  while (runner.mustWait) await runner.turn();
  runner.check(sql, limit);
  const canBulk =
    hasBulk(conversation) &&
    placeholders > 0 &&
    placeholders === (several?.perRow ?? placeholders) &&
    BULK.test(sql) &&
    !NOT_BULK.test(sql);
  const source = rows[Symbol.iterator]();
  try {
    const many: Many = {
      runner,
      sql,
      limit,
      statements: [],
      placeholders,
      perRow: several?.perRow ?? placeholders,
      source,
      next: source.next(),
      row: several?.firstRow ?? 1,
    };
    const affected = pipelines
      ? await runner.exclusively(() => runAll(many, limit, canBulk, several))
      : undefined;
    return affected ?? (await oneByOne(many, limit));
  } finally {
    endRows(source);
  }
}

/**
 * Runs a statement for all rows. Starts a new batch for each new combination of value types. Returns the
 * number of rows affected, or undefined if the server cannot prepare the statement.
 */
async function runAll(
  many: Many,
  limit: Limit | undefined,
  canBulk: boolean,
  several: Several | undefined,
): Promise<number | undefined> {
  const { runner, sql, statements, placeholders } = many;
  const { conversation } = runner;
  const firsts: Params[] = [];
  let affected = 0;
  let isStale = false;
  try {
    while (many.next.done !== true) {
      const params = many.next.value;
      if (params.length !== placeholders) refuseCount(placeholders, params.length, many.row);
      const statement = await runner.prepared(sql, params, limit, several?.isKept);
      if (statement.id === undefined) return undefined;
      for (let index = statements.length - 1; index >= 0; index--) {
        if (!runner.statements.isClosing(statements[index]!)) continue;
        statements.splice(index, 1); // the full cache has evicted this statement
        firsts.splice(index, 1);
      }
      if (statements.push(statement) > MAX_KINDS) runner.release(sql, firsts.shift()!, statements.shift()!);
      firsts.push(params);
      affected += await inBatch(conversation, sql, statement, limit, (batch) =>
        canBulk ? writeBulks(many, batch) : writeAll(many, batch),
      );
    }
    return affected;
  } catch (error) {
    isStale = error instanceof DatabaseError && isStaleStatement(error);
    throw error;
  } finally {
    statements.forEach((statement, index) => {
      // `firsts` has one element for each statement
      runner.release(sql, firsts[index]!, statement);
      // no retry, because the rows cannot be read twice: the next call prepares the statement again
      if (isStale) runner.forget(sql, firsts[index]!);
    });
  }
}

function hasBulk({ dialogue }: MySqlConversation): boolean {
  return (dialogue.extended & MARIADB.stmtBulkOperations) !== 0;
}

async function oneByOne({ runner, sql, source, next }: Many, limit: Limit | undefined): Promise<number> {
  let affected = 0;
  for (let each = next; each.done !== true; each = source.next())
    affected += await runner.run(sql, each.value, limit, 'none', affectedRows);
  return affected;
}

function affectedRows(exchange: Exchange): number {
  return exchange.affectedRows;
}

/** Requests that run one statement for many rows. The caller waits for all replies together. */
class Batch {
  readonly #conversation: MySqlConversation;
  readonly #sql: string;
  readonly #statement: KnownStatement;
  readonly #limit: Limit | undefined;
  #exchange: Exchange | undefined;
  #finished: Promise<Exchange> | undefined;

  constructor(
    conversation: MySqlConversation,
    sql: string,
    statement: KnownStatement,
    limit: Limit | undefined,
  ) {
    this.#conversation = conversation;
    this.#sql = sql;
    this.#statement = statement;
    this.#limit = limit;
  }

  /** Whether a request has failed. If so, the caller sends no further requests. */
  get hasFailed(): boolean {
    return this.#exchange?.error !== undefined || this.#conversation.isEnded;
  }

  /**
   * Adds a written request. `sequence` is the sequence number of the reply's first packet. If too many bytes
   * are unsent, returns a promise that the caller must await.
   */
  added(sequence: number): Promise<void> | undefined {
    if (this.#exchange === undefined) {
      this.#exchange = this.#conversation.add(
        this.#conversation.exchange({
          sql: this.#sql,
          kind: 'execute',
          wanted: 'none',
          sequence,
          isOpen: true,
          memory: this.#statement,
        }),
      );
      this.#finished = this.#conversation.finish(this.#exchange, this.#limit);
      this.#finished.catch(() => undefined); // prevents an unhandled rejection: end() handles the error
    } else this.#exchange.add(sequence);
    return this.#conversation.room();
  }

  /** Waits for all replies. Returns the number of rows affected. */
  async end(): Promise<number> {
    if (this.#exchange === undefined) return 0;
    this.#conversation.close(this.#exchange);
    return (await this.#finished!).affectedRows;
  }
}

async function inBatch(
  conversation: MySqlConversation,
  sql: string,
  statement: KnownStatement,
  limit: Limit | undefined,
  write: (batch: Batch) => Promise<void>,
): Promise<number> {
  const batch = new Batch(conversation, sql, statement, limit);
  try {
    await write(batch);
  } catch (error) {
    // ignore this error: the earlier error, for example of an invalid value, is thrown below
    await batch.end().catch(() => undefined);
    throw error;
  }
  return batch.end();
}

/** Sends a request for each row, until the values of a row need another prepared statement. */
async function writeAll(many: Many, batch: Batch): Promise<void> {
  const { runner, sql, limit, statements, placeholders, perRow, source } = many;
  const { writer } = runner.conversation;
  const rowsAtOnce = perRow === 0 ? 1 : placeholders / perRow;
  runner.writeClosing();
  for (; many.next.done !== true && !batch.hasFailed; many.next = source.next(), many.row += rowsAtOnce) {
    // check the time limit for each row: KILL QUERY would have no effect between two of these short
    // statements
    runner.check(sql, limit);
    const params = many.next.value;
    if (params.length !== placeholders) refuseCount(placeholders, params.length, many.row);
    const statement = statements.find(({ kinds }) => kinds === undefined || fits(kinds, params));
    if (statement === undefined) return;
    const before = writer.length;
    try {
      runner.beginExecute(statement.id!, 0);
      if (statement.kinds !== undefined) pin(statement.kinds, params, perRow);
      if (placeholders > 0) writeParams(writer, params, statement.kinds, sql, { row: many.row, perRow });
    } catch (error) {
      writer.rewind(before);
      throw error;
    }
    runner.checkLength(before, sql);
    const room = batch.added(writer.end());
    if (room !== undefined) await room;
  }
}

/** Sends bulk requests. Each request combines as many rows as fit, if their values have equal types. */
async function writeBulks(many: Many, batch: Batch): Promise<void> {
  const { runner, sql, limit, statements, placeholders, source } = many;
  const { writer } = runner.conversation;
  const most = Math.min(BULK_BYTES, runner.maxPacketBytes - 1);
  runner.writeClosing();
  while (many.next.done !== true && !batch.hasFailed) {
    runner.check(sql, limit);
    const before = writer.length;
    // in bulk requests, one prepared statement accepts all types of values
    const bulk = new Bulk(runner, sql, statements[0]!.id!, placeholders);
    try {
      for (
        let rows = 0;
        many.next.done !== true &&
        writer.payloadLength < most &&
        bulk.add(many.next.value, many.row, rows === 0);
        rows++, many.row++
      )
        many.next = source.next();
    } catch (error) {
      writer.rewind(before);
      throw error;
    }
    runner.checkLength(before, sql);
    const room = batch.added(bulk.end());
    if (room !== undefined) await room;
  }
}

class Bulk {
  readonly #runner: MySqlRunner;
  readonly #sql: string;
  readonly #types: (number | undefined)[];
  readonly #typesAt: number;

  constructor(runner: MySqlRunner, sql: string, id: number, columns: number) {
    this.#runner = runner;
    this.#sql = sql;
    this.#types = new Array<number | undefined>(columns);
    const { writer } = runner.conversation;
    writer.command(COMMAND.stmtBulkExecute);
    writer.uint32(id);
    writer.uint16(SENDS_TYPES);
    this.#typesAt = writer.reserve(2 * columns);
  }

  /**
   * Adds a row. Returns false if the row must begin the next request, because its values have other types or
   * do not fit.
   * @throws DataError or SvcError for a value that cannot be sent
   */
  add(params: Params, row: number, isFirst: boolean): boolean {
    const { writer } = this.#runner.conversation;
    const types = this.#types;
    const before = writer.length;
    if (params.length !== types.length) refuseCount(types.length, params.length, row);
    for (let index = 0; index < types.length; index++) {
      const value: unknown = params[index];
      if (value === null) {
        writer.byte(IS_NULL);
        continue;
      }
      writer.byte(IS_VALUE);
      const type = writeValue(writer, value);
      if (typeof type === 'object') refuse(type, { position: index + 1, row, sql: this.#sql });
      if (types[index] === undefined) types[index] = type;
      else if (types[index] !== type) {
        writer.rewind(before);
        return false;
      }
    }
    if (isFirst || writer.payloadLength < this.#runner.maxPacketBytes) return true;
    writer.rewind(before);
    return false;
  }

  /** Ends the request. Returns the sequence number of the first packet of its reply. */
  end(): number {
    const { writer } = this.#runner.conversation;
    for (let index = 0; index < this.#types.length; index++) {
      // do not use forEach(), which skips empty elements of the list
      const known = this.#types[index] ?? TYPE.varString;
      writer.set(this.#typesAt + 2 * index, known & 0xff);
      writer.set(this.#typesAt + 2 * index + 1, known > 0xff ? 0x80 : 0);
    }
    return writer.end();
  }
}
