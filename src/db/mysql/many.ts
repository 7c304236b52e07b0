/**
 * One statement for many rows of values: sent while they are made, without waiting for answers.
 *
 *   insert ... values (?, ?)      hundreds of rows by one statement, whose text has as many groups of placeholders
 *   others, in MariaDB          COM_STMT_BULK_EXECUTE: as many rows as fit, where their values are of the same types
 *   others, in MySQL            COM_STMT_EXECUTE for each row
 *
 * By shared/bench/db 10,000 rows take a fifth of the time in the first way. All of them or none is the matter of the
 * transaction that is open.
 */
import { DatabaseError } from '../errors.ts';
import { isStaleStatement } from './errors.ts';
import { fits, pin } from './types.ts';
import { writeParams, writeValue } from './values.ts';
import { COMMAND, MARIADB, TYPE } from './wire.ts';
import { refuseCount, refuseParameter, type Parameter, type Params } from '../values.ts';
import type { Limit } from '../driver.ts';
import type { MySqlConversation } from './conversation.ts';
import type { Exchange } from './exchange.ts';
import type { KnownStatement, MySqlRunner } from './runner.ts';

/** Statements that MariaDB runs in bulk: of one table, and without rows of their own. Others it refuses (1295). */
const BULK =
  /^\s*(?:(?:insert|replace)\b[^?]*\bvalues?\s*\(|update\s+[\w.`]+\s+set\b|delete\s+from\s+[\w.`]+\s+where\b)/i;
const NOT_BULK = /\breturning\b|\bselect\b/i;
/** So much of a bulk is sent at once. */
const BULK_BYTES = 256 * 1024;
const SENDS_TYPES = 0x80;
const IS_VALUE = 0;
const IS_NULL = 1;
/** Values and rows of one statement that inserts several: more gain nothing. */
const MAX_VALUES = 16_000;
const MAX_ROWS = 500;
/** Fewer are not worth a statement of their own. */
const FEW_ROWS = 16;
/** Statements for values of different kinds that are there at once. */
const MAX_KINDS = 8;
/** An insert whose last part is a group of placeholders. */
const ROW_INSERT = /^(\s*(?:insert|replace)\b.*\bvalues?\s*)(\((?:\s*\?\s*,)*\s*\?\s*\))\s*;?\s*$/is;

/** Values that are to be run, and how they are counted where one is refused. */
interface Many {
  readonly runner: MySqlRunner;
  readonly sql: string;
  readonly limit: Limit | undefined;
  /** For values of each kind that has come so far; one, where the server takes all kinds. */
  readonly statements: KnownStatement[];
  /** Of one request. */
  readonly placeholders: number;
  /** Of one row, as the caller counts them. */
  readonly perRow: number;
  readonly source: Iterator<Params>;
  /** What is to be written next, and the number of its first row. */
  next: IteratorResult<Params, unknown>;
  row: number;
}

/** How a statement is counted and kept that stands for several rows. */
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

/** Runs it for all rows: the rows affected. */
export async function runMany(
  runner: MySqlRunner,
  sql: string,
  rows: Iterable<Params>,
  limit: Limit | undefined,
): Promise<number> {
  const placeholders = runner.placeholdersOf(sql);
  const insert = runner.isStrict ? rowInsertOf(sql, placeholders) : undefined;
  return insert === undefined
    ? runEach(runner, sql, rows, limit)
    : insertSeveral(runner, sql, insert, rows, limit);
}

/** Inserts rows of values. */
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

/** Where the server is not strict, a NULL for a column that has none is an error in one row, and 0 in several: there none are put together. */
function rowInsertOf(sql: string, placeholders: number): RowInsert | undefined {
  const match = ROW_INSERT.exec(sql);
  if (match === null || placeholders === 0) return undefined;
  const [, head, group] = match as unknown as readonly [string, string, string]; // it has both
  return group.split('?').length - 1 === placeholders ? { head, group, perRow: placeholders } : undefined; // all of them are in there, so none of it is in quotes
}

/** Whole pieces by a statement that is kept; of what is left much by one that is not, and little row by row. */
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
    source.return?.();
  }
}

/** As many rows as there are, up to `most`. */
function taken(source: Iterator<Params>, most: number): Params[] {
  const rows: Params[] = [];
  while (rows.length < most) {
    const next = source.next();
    if (next.done === true) break;
    rows.push(next.value);
  }
  return rows;
}

/** The values of several rows as those of one statement. @throws SvcError for a row that has more or fewer than it must */
function joined(rows: readonly Params[], perRow: number, before: number): Params {
  const values: Parameter[] = [];
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index]!;
    if (row.length !== perRow) refuseCount(perRow, row.length, before + index + 1);
    for (let column = 0; column < perRow; column++) values.push(row[column]!); // undefined is refused where it is written
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
  await runner.turn();
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
    source.return?.();
  }
}

/** Batch after batch, one for each kind of values that has not come before. Undefined for what cannot be prepared. */
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
        if (!runner.statements.isClosing(statements[index]!)) continue; // there are as many
        statements.splice(index, 1); // a small cache has let it go for this one
        firsts.splice(index, 1);
      }
      if (statements.push(statement) > MAX_KINDS) runner.release(sql, firsts.shift()!, statements.shift()!); // there are as many
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
      runner.release(sql, firsts[index]!, statement); // one for each
      if (isStale) runner.forget(sql, firsts[index]!); // the rows are not there once more: the next call prepares it anew
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

/** Requests that are answered one after the other, and waited for together. */
class Batch {
  readonly #conversation: MySqlConversation;
  readonly #sql: string;
  readonly #statement: KnownStatement;
  readonly #limit: Limit | undefined;
  #exchange: Exchange | undefined;
  #finished: Promise<Exchange> | undefined;

  /** `statement`: of the first request; where there are others, the server describes what each gives. */
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

  /** Whether there is no use in writing more. */
  get hasFailed(): boolean {
    return this.#exchange?.error !== undefined || this.#conversation.isEnded;
  }

  /** A request was written, which is answered from this number on. Waits while there is no room for more. */
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
      this.#finished.catch(() => undefined); // looked at by end()
    } else this.#exchange.add(sequence);
    return this.#conversation.room();
  }

  /** Waits for all answers: the rows affected. */
  async end(): Promise<number> {
    if (this.#exchange === undefined) return 0;
    this.#conversation.close(this.#exchange);
    return (await this.#finished!).affectedRows; // it was made with the exchange
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
    await batch.end().catch(() => undefined); // that of the value, or of whoever made it, came first
    throw error;
  }
  return batch.end();
}

/** A request for each row, up to one whose values are of kinds for which there is no statement yet. */
async function writeAll(many: Many, batch: Batch): Promise<void> {
  const { runner, sql, limit, statements, placeholders, perRow, source } = many;
  const { writer } = runner.conversation;
  const rowsAtOnce = perRow === 0 ? 1 : placeholders / perRow;
  runner.writeClosing();
  for (; many.next.done !== true && !batch.hasFailed; many.next = source.next(), many.row += rowsAtOnce) {
    runner.check(sql, limit); // KILL QUERY comes to nothing between two statements, and those here are short
    const params = many.next.value;
    if (params.length !== placeholders) refuseCount(placeholders, params.length, many.row);
    const statement = statements.find(({ kinds }) => kinds === undefined || fits(kinds, params));
    if (statement === undefined) return;
    const before = writer.length;
    try {
      runner.beginExecute(statement.id!, 0); // it has one: see runAll()
      if (statement.kinds !== undefined) pin(statement.kinds, params, perRow);
      if (placeholders > 0) writeParams(writer, params, statement.kinds, { row: many.row, perRow });
    } catch (error) {
      writer.rewind(before);
      throw error;
    }
    runner.checkLength(before, sql);
    const room = batch.added(writer.end());
    if (room !== undefined) await room;
  }
}

/** Rows together, as long as they fit and their values are of the types of those before. */
async function writeBulks(many: Many, batch: Batch): Promise<void> {
  const { runner, sql, limit, statements, placeholders, source } = many;
  const { writer } = runner.conversation;
  const most = Math.min(BULK_BYTES, runner.maxPacketBytes - 1);
  runner.writeClosing();
  while (many.next.done !== true && !batch.hasFailed) {
    runner.check(sql, limit);
    const before = writer.length;
    const bulk = new Bulk(runner, statements[0]!.id!, placeholders); // MariaDB takes all kinds
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

/** One COM_STMT_BULK_EXECUTE. */
class Bulk {
  readonly #runner: MySqlRunner;
  readonly #types: (number | undefined)[];
  readonly #typesAt: number;

  constructor(runner: MySqlRunner, id: number, columns: number) {
    this.#runner = runner;
    this.#types = new Array<number | undefined>(columns);
    const { writer } = runner.conversation;
    writer.command(COMMAND.stmtBulkExecute);
    writer.uint32(id);
    writer.uint16(SENDS_TYPES);
    this.#typesAt = writer.reserve(2 * columns);
  }

  /** Adds a row, unless it has other types, or is too much: then it is for the next one. @throws SvcError for what cannot be sent */
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
      if (typeof type === 'string') refuseParameter(index + 1, type, row);
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

  /** The number that the answer has. */
  end(): number {
    const { writer } = this.#runner.conversation;
    for (let index = 0; index < this.#types.length; index++) {
      // forEach() would leave out what is not set
      const known = this.#types[index] ?? TYPE.varString;
      writer.set(this.#typesAt + 2 * index, known & 0xff);
      writer.set(this.#typesAt + 2 * index + 1, known > 0xff ? 0x80 : 0);
    }
    return writer.end();
  }
}
