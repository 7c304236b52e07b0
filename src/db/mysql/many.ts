/**
 * Runs one statement for many rows of values. Sends requests without waiting for replies.
 *
 * An insert such as `insert into t values (?, ?)` becomes an insert of several hundred rows, which takes a
 * third of the time of single inserts. Any other statement is executed for each row.
 *
 * The caller has opened a transaction, so either all rows are written or none.
 */
import { DatabaseError } from '../errors.ts';
import { isStaleStatement } from './errors.ts';
import { fits, pin } from './types.ts';
import { writeParams } from './values.ts';
import { endRows, taken } from '../parameters.ts';
import { checkCount } from '../placeholders.ts';
import type { Parameter, Params } from '../values.ts';
import type { Limit } from '../driver.ts';
import type { Exchange } from './exchange.ts';
import type { KnownStatement, MySqlRunner } from './runner.ts';

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
  /** One for each combination of value types, or a single one that accepts all types. */
  readonly prepared: Prepared[];
  readonly placeholders: number;
  /** Number of values in a row of the caller. One statement may insert several rows. */
  readonly perRow: number;
  readonly source: Iterator<Params>;
  /** Next row of values, which no request contains yet. */
  next: IteratorResult<Params, unknown>;
  row: number;
}

interface Prepared {
  readonly statement: KnownStatement;
  /** Values for which the statement was prepared. */
  readonly params: Params;
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
  const [, head = '', group = ''] = match;
  // combine rows only if the group contains all placeholders of the statement
  return group.split('?').length - 1 === placeholders ? { head, group, perRow: placeholders } : undefined;
}

/** Inserts rows in batches. Full batches share a cached statement; the rest uses another, or one per row. */
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
    const isFew = batch.length < FEW_ROWS;
    const text = isFew ? sql : textOf(batch.length);
    const rest = isFew ? batch : [joined(batch, perRow, before)];
    const several = { perRow, firstRow: before + 1, isKept: isFew };
    return affected + (await runEach(runner, text, rest, limit, several));
  } finally {
    endRows(source);
  }
}

function joined(rows: readonly Params[], perRow: number, before: number): Params {
  const values: Parameter[] = [];
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index]!;
    checkCount(row, perRow, before + index + 1);
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
  const placeholders = runner.placeholdersOf(sql);
  while (runner.mustWait) await runner.turn();
  runner.check(sql, limit);
  const source = rows[Symbol.iterator]();
  try {
    const many: Many = {
      runner,
      sql,
      limit,
      prepared: [],
      placeholders,
      perRow: several?.perRow ?? placeholders,
      source,
      next: source.next(),
      row: several?.firstRow ?? 1,
    };
    const affected = runner.pipelines
      ? await runner.exclusively(() => runAll(many, several?.isKept))
      : undefined;
    return affected ?? (await oneByOne(many));
  } finally {
    endRows(source);
  }
}

/**
 * Runs a statement for all rows. Prepares it for each new combination of value types. Returns the number of
 * rows affected, or undefined if the server cannot prepare the statement.
 */
async function runAll(many: Many, isKept: boolean | undefined): Promise<number | undefined> {
  const { runner, sql, limit, prepared, placeholders } = many;
  let affected = 0;
  let isStale = false;
  try {
    while (many.next.done !== true) {
      const params = many.next.value;
      checkCount(params, placeholders, many.row);
      const statement = await runner.prepared(sql, params, limit, isKept);
      if (statement.id === undefined) return undefined;
      // the full cache may have evicted earlier statements
      const open = prepared.filter((each) => !runner.statements.isClosing(each.statement));
      const surplus = open.length === MAX_KINDS ? open.shift() : undefined;
      if (surplus !== undefined) runner.release(sql, surplus.params, surplus.statement);
      prepared.splice(0, Infinity, ...open, { statement, params });
      affected += await writeAll(many, statement);
    }
    return affected;
  } catch (error) {
    isStale = error instanceof DatabaseError && isStaleStatement(error);
    throw error;
  } finally {
    for (const { statement, params } of prepared) {
      runner.release(sql, params, statement);
      // no retry, because the rows cannot be read twice: the next call prepares the statement again
      if (isStale) runner.forget(sql, params);
    }
  }
}

async function oneByOne({ runner, sql, limit, source, next }: Many): Promise<number> {
  let affected = 0;
  for (let each = next; each.done !== true; each = source.next())
    affected += await runner.run(sql, each.value, limit, 'none', ({ affectedRows }) => affectedRows);
  return affected;
}

/**
 * Sends a request for each row, until the values of a row need another prepared statement. Then waits for all
 * replies, and returns the number of rows affected.
 */
async function writeAll(many: Many, memory: KnownStatement): Promise<number> {
  const { runner, sql, limit, source } = many;
  const { conversation } = runner;
  const rowsAtOnce = many.perRow === 0 ? 1 : many.placeholders / many.perRow;
  let exchange: Exchange | undefined;
  let finished: Promise<Exchange> | undefined;
  const ended = async (): Promise<number> => {
    if (exchange !== undefined) conversation.close(exchange);
    return (await finished)?.affectedRows ?? 0;
  };
  runner.writeClosing();
  const turns = conversation.turns();
  try {
    for (; many.next.done !== true; many.next = source.next(), many.row += rowsAtOnce) {
      if (exchange?.error !== undefined || conversation.isEnded) break;
      const sequence = writeRow(many, many.next.value);
      if (sequence === undefined) break;
      if (exchange === undefined) {
        exchange = conversation.add(
          conversation.exchange({ sql, kind: 'execute', wanted: 'none', sequence, isOpen: true, memory }),
        );
        finished = conversation.finish(exchange, limit);
        finished.catch(() => undefined); // prevents an unhandled rejection: ended() throws the error
      } else exchange.add(sequence);
      const room = conversation.room(turns);
      if (room !== undefined) await room;
    }
  } catch (error) {
    // ignore the error of a reply: the earlier error, for example of an invalid value, is thrown below
    await ended().catch(() => undefined);
    throw error;
  }
  return ended();
}

/** Writes a row. Returns the number of its reply's first packet; undefined if no statement accepts it. */
function writeRow(
  { runner, sql, limit, prepared, placeholders, perRow, row }: Many,
  params: Params,
): number | undefined {
  const { writer } = runner.conversation;
  // check the time limit for each row: KILL QUERY would have no effect between two of these short statements
  runner.check(sql, limit);
  checkCount(params, placeholders, row);
  const statement = prepared.find(
    ({ statement: { kinds } }) => kinds === undefined || fits(kinds, params),
  )?.statement;
  if (statement?.id === undefined) return undefined;
  const before = writer.length;
  try {
    runner.beginExecute(statement.id, 0);
    if (statement.kinds !== undefined) pin(statement.kinds, params, perRow);
    if (placeholders > 0) writeParams(writer, params, statement.kinds, sql, { row, perRow });
  } catch (error) {
    writer.rewind(before);
    throw error;
  }
  runner.checkLength(before, sql);
  return writer.end();
}
