/**
 * Methods that run statements, shared by the database and its transactions.
 */
import { SvcError } from '../base/errors.ts';
import { isObject, shown, outOfRange } from '../base/options.ts';
import { quotedName } from './dialects.ts';
import { atCaller } from './errors.ts';
import {
  RowDecoder,
  limitsOf,
  valueAs,
  type RowOptions,
  type SetOptions,
  type SetsOf,
  type ValueOptions,
  type VerbOptions,
} from './rows.ts';
import { encodeRows, encodeTyped, type OwnTypes } from './own-types.ts';
import { Sql } from './sql.ts';
import { SharedTurns, ignore } from '../base/promises.ts';
import { SOURCE, settledBy, type QueryOptions } from './limits.ts';
import type { Clock } from '../base/clock.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { Infer, SchemaClass, TypeSource } from '../schema/types.ts';
import type {
  Connection,
  Dialect,
  ExecuteResult,
  Limit,
  Purpose,
  Row,
  RowBatches,
  SqlValue,
  Table,
} from './driver.ts';
import type { Parameter, Params } from './values.ts';

const NO_PARAMS: Params = Object.freeze([]);

/**
 * Runs statements. Both a `Database` and a `Transaction` are sessions, so a function that takes a `Session`
 * works with both.
 *
 * A statement is an `sql` template, or a text with a `?` for each value, followed by the list of values. Rows
 * are plain objects of {@link SqlValue}s, or validated instances of a schema with the option `as`.
 *
 * Each method rejects with a DatabaseError when the database refuses the statement or its data. It rejects
 * with an SvcError (`E_DB_PARAMETER`, `E_DB_PARAMETER_COUNT`, `E_DB_STATEMENT`, ...) when the call itself is
 * wrong.
 */
export abstract class Session {
  abstract readonly dialect: Dialect;
  /** @internal */
  abstract readonly conversion: Conversion;
  /** @internal */
  abstract readonly clock: Clock;

  /** Runs a statement. Returns the number of rows affected and the key of the last inserted row. */
  execute(query: Sql, options?: QueryOptions): Promise<ExecuteResult>;
  execute(query: string, params?: Params, options?: QueryOptions): Promise<ExecuteResult>;
  execute(query: string | Sql, second?: Params | QueryOptions, third?: QueryOptions): Promise<ExecuteResult> {
    return this.run(
      'statement',
      (connection, limit) =>
        connection.execute(textOf(query, this.dialect), this.#params(query, second, third), limit),
      optionsOf(query, second, third),
    );
  }

  /** Returns the first row, or undefined. With the option `as`, the row is an instance of a schema. */
  fetchOne(query: Sql, options?: QueryOptions): Promise<Row | undefined>;
  fetchOne<T extends object>(query: Sql, options: RowOptions<T>): Promise<T | undefined>;
  fetchOne<T extends object>(query: string, params: Params, options: RowOptions<T>): Promise<T | undefined>;
  fetchOne(query: string, params?: Params, options?: QueryOptions): Promise<Row | undefined>;
  fetchOne(
    query: string | Sql,
    second?: Params | VerbOptions,
    third?: VerbOptions,
  ): Promise<object | undefined> {
    const work: Work<Row | undefined> = (connection, limit) =>
      connection.fetchOne(textOf(query, this.dialect), this.#params(query, second, third), limit);
    const options = optionsOf(query, second, third);
    if (!hasSchema(options)) return this.run('statement', work, options);
    return this.#read(work, options, (row) =>
      row === undefined ? undefined : this.#decoder(options).one(row),
    );
  }

  /**
   * Returns all rows. With the option `as`, each row is an instance of a schema. Use {@link stream} for a
   * result that does not fit in memory.
   */
  fetchAll(query: Sql, options?: QueryOptions): Promise<Row[]>;
  fetchAll<T extends object>(query: Sql, options: RowOptions<T>): Promise<T[]>;
  fetchAll<T extends object>(query: string, params: Params, options: RowOptions<T>): Promise<T[]>;
  fetchAll(query: string, params?: Params, options?: QueryOptions): Promise<Row[]>;
  fetchAll(query: string | Sql, second?: Params | VerbOptions, third?: VerbOptions): Promise<object[]> {
    const work: Work<Row[]> = (connection, limit) =>
      connection.fetchAll(textOf(query, this.dialect), this.#params(query, second, third), limit);
    const options = optionsOf(query, second, third);
    if (!hasSchema(options)) return this.run('statement', work, options);
    return this.#read(work, options, (rows) => this.#decoder(options).all(rows));
  }

  /**
   * Returns the rows of each result of a procedure in MySQL or MariaDB. A statement with one result gives a
   * list with one element. The other methods throw when there are several results.
   */
  fetchSets(query: Sql, options?: QueryOptions): Promise<Row[][]>;
  /** Returns the rows of each result as instances of its schema. `as` lists one schema for each result. */
  fetchSets<const S extends readonly SchemaClass[]>(query: Sql, options: SetOptions<S>): Promise<SetsOf<S>>;
  /** Returns the rows of each result as instances of its schema. `as` lists one schema for each result. */
  fetchSets<const S extends readonly SchemaClass[]>(
    query: string,
    params: Params,
    options: SetOptions<S>,
  ): Promise<SetsOf<S>>;
  /** Returns the rows of each result of a procedure. The rows are plain objects. */
  fetchSets(query: string, params?: Params, options?: QueryOptions): Promise<Row[][]>;
  fetchSets(
    query: string | Sql,
    second?: Params | VerbOptions,
    third?: VerbOptions,
  ): Promise<readonly object[][]> {
    const work: Work<Row[][]> = async (connection, limit) => {
      const [text, params] = [textOf(query, this.dialect), this.#params(query, second, third)];
      return (
        (await connection.fetchSets?.(text, params, limit)) ?? [
          await connection.fetchAll(text, params, limit),
        ]
      );
    };
    const options = optionsOf(query, second, third);
    if (!hasSchema(options)) return this.run('statement', work, options);
    return this.#read(work, options, (sets) => this.#readSets(sets, options as SetOptions));
  }

  /**
   * Returns all rows as arrays, together with their columns. Use it for a result in which two columns share a
   * name.
   */
  fetchArrays(query: Sql, options?: QueryOptions): Promise<Table>;
  fetchArrays(query: string, params?: Params, options?: QueryOptions): Promise<Table>;
  fetchArrays(query: string | Sql, second?: Params | QueryOptions, third?: QueryOptions): Promise<Table> {
    return this.run(
      'statement',
      (connection, limit) =>
        connection.fetchArrays(textOf(query, this.dialect), this.#params(query, second, third), limit),
      optionsOf(query, second, third),
    );
  }

  /**
   * Returns the first value of the first row, or undefined when there is no row. With the option `as`, the
   * value is validated as that type.
   */
  scalar(query: Sql, options?: QueryOptions): Promise<SqlValue | undefined>;
  scalar<S extends TypeSource>(query: Sql, options: ValueOptions<S>): Promise<Infer<S> | undefined>;
  scalar<S extends TypeSource>(
    query: string,
    params: Params,
    options: ValueOptions<S>,
  ): Promise<Infer<S> | undefined>;
  scalar(query: string, params?: Params, options?: QueryOptions): Promise<SqlValue | undefined>;
  scalar(query: string | Sql, second?: Params | VerbOptions, third?: VerbOptions): Promise<unknown> {
    const work: Work<unknown> = (connection, limit) =>
      connection.scalar(textOf(query, this.dialect), this.#params(query, second, third), limit);
    const options = optionsOf(query, second, third);
    if (!hasSchema(options)) return this.run('statement', work, options);
    return this.#read(work, options, (value) =>
      value === undefined ? undefined : valueAs(value, (options as ValueOptions).as, this.dialect),
    );
  }

  /**
   * Runs a statement once for each row of values, in a transaction: either all rows are written or none.
   * Returns the number of rows affected. An async iterable of rows is read while the transaction is open.
   */
  executeMany(
    text: string,
    rows: Iterable<Params> | AsyncIterable<Params>,
    options?: QueryOptions,
  ): Promise<number> {
    return this.#bulk(
      rows,
      (connection, some, limit) => connection.executeMany(bareText(text, this.dialect), some, limit),
      options,
    );
  }

  /**
   * Inserts rows of values into the named columns, in a transaction: either all rows are inserted or none.
   * Returns the number of rows inserted. An async iterable of rows is read while the transaction is open.
   *
   * The method quotes all names. A dot separates schema and table, as in `'public.note'`. For a table whose
   * name has a dot, pass `sql.identifier('a.b')`.
   *
   * @throws SvcError `E_DB_IDENTIFIER` for an invalid name, `E_DB_STATEMENT` without columns
   */
  async insertMany(
    table: string | Sql,
    columns: readonly string[],
    rows: Iterable<readonly Parameter[]> | AsyncIterable<readonly Parameter[]>,
    options?: QueryOptions,
  ): Promise<number> {
    if (columns.length === 0)
      throw new SvcError('E_DB_STATEMENT', ['insertMany() needs at least one column']);
    const quoted = quotedTable(table, this.dialect);
    const names = columns.map((name) => quotedName(this.dialect, name));
    const text = `insert into ${quoted} (${names.join(', ')}) values (${names.map(() => '?').join(', ')})`;
    return this.#bulk(
      rows,
      (connection, some, limit) =>
        connection.insertMany?.(quoted, names, some, limit) ?? connection.executeMany(text, some, limit),
      options,
    );
  }

  /**
   * Yields rows one by one and reads them on demand. Leaving the loop ends the statement. Outside a
   * transaction, the stream sees the database as it was at the first row, and does not block other callers.
   */
  stream(query: Sql, options?: QueryOptions): AsyncGenerator<Row, void, undefined>;
  stream<T extends object>(query: Sql, options: RowOptions<T>): AsyncGenerator<T, void, undefined>;
  stream<T extends object>(
    query: string,
    params: Params,
    options: RowOptions<T>,
  ): AsyncGenerator<T, void, undefined>;
  stream(query: string, params?: Params, options?: QueryOptions): AsyncGenerator<Row, void, undefined>;
  async *stream(
    query: string | Sql,
    second?: Params | VerbOptions,
    third?: VerbOptions,
  ): AsyncGenerator<object, void, undefined> {
    const open: OpenStream = (source, limit) =>
      source.stream(textOf(query, this.dialect), this.#params(query, second, third), limit);
    const options = optionsOf(query, second, third);
    if (!hasSchema(options)) {
      for await (const batch of this.batches(open, options)) for (const row of batch) yield row;
      return;
    }
    try {
      const decoder = this.#decoder(options);
      for await (const batch of this.batches(open, limitsOf(options)))
        for (const row of batch) yield decoder.one(row);
    } catch (error) {
      throw atCaller(error);
    }
  }

  /**
   * Runs several statements without values. Stops at the first statement that fails. Does not begin a
   * transaction.
   */
  script(text: string, options?: QueryOptions): Promise<void> {
    return this.run(
      'statement',
      (connection, limit) => connection.script(bareText(text, this.dialect), limit),
      options,
    );
  }

  #params(
    query: string | Sql,
    second: Params | VerbOptions | undefined,
    third: VerbOptions | undefined,
  ): Params {
    const params = paramsOf(query, second, third);
    const { types } = this.conversion;
    return types === undefined ? params : encodeTyped(params, types);
  }

  /** Writes rows in one transaction. Rows of an async iterable are written in chunks. */
  #bulk(
    rows: Iterable<Params> | AsyncIterable<Params>,
    write: Bulk,
    options: QueryOptions | undefined,
  ): Promise<number> {
    const { types } = this.conversion;
    return this.whole((connection, limit) => {
      const some = (part: Iterable<Params>): Awaitable<number> =>
        write(connection, types === undefined ? part : encodeRows(part, types), limit);
      return Symbol.asyncIterator in rows ? writeChunks(rows, some, limit, this.clock) : some(rows);
    }, options);
  }

  #read<T, U>(work: Work<T>, options: VerbOptions, convert: (result: T) => U): Promise<U> {
    return this.run(
      'statement',
      (connection, limit) => {
        const result = work(connection, limit);
        return result instanceof Promise ? result.then(convert) : convert(result as T);
      },
      limitsOf(options),
    );
  }

  #readSets(sets: Row[][], { as, snakeCase }: SetOptions): object[][] {
    if (!Array.isArray(as))
      throw outOfRange('the statement', 'as', 'must be a list of schemas', shown(as as unknown));
    if (as.length !== sets.length)
      throw new SvcError('E_DB_ROW', [
        'the results',
        'schemas',
        `the number of results is ${sets.length}, but "as" has ${as.length} schemas`,
      ]);
    return sets.map((rows, index) => this.#decoder({ as: as[index]!, snakeCase }).all(rows));
  }

  #decoder(options: VerbOptions): RowDecoder<object> {
    return new RowDecoder(options as RowOptions, this.dialect, this.conversion.snakeCase);
  }

  /** Runs `work` on a connection. @internal */
  abstract run<T>(purpose: Purpose, work: Work<T>, options?: QueryOptions): Promise<T>;
  /** Runs `work` in a transaction, so that all of its changes happen or none. @internal */
  abstract whole<T>(work: Work<T>, options: QueryOptions | undefined): Promise<T>;
  /** Yields the rows of a stream in batches. The stream opens at the first read. @internal */
  abstract batches(open: OpenStream, options: QueryOptions | undefined): RowBatches;
}

/** Settings for the conversion of parameters and rows. @internal */
export interface Conversion {
  /** Default of the option `snakeCase` of every method. */
  readonly snakeCase: boolean;
  /** Custom types; undefined when there are none. */
  readonly types: OwnTypes | undefined;
}

/** A function that runs statements on a connection. @internal */
export type Work<T> = (connection: Connection, limit: Limit | undefined) => Awaitable<T>;
/** @internal */
export type OpenStream = (
  source: Pick<Connection, 'stream'>,
  limit: Limit | undefined,
) => AsyncIterable<readonly Row[]>;

/** Returns whether the options contain `as`. @internal */
export function hasSchema(
  options: VerbOptions | undefined,
): options is RowOptions | ValueOptions | SetOptions {
  return isObject(options) && 'as' in options;
}

function textOf(query: string | Sql, dialect: Dialect): string {
  if (typeof query === 'string') return query;
  if (query instanceof Sql) return query.text(dialect);
  throw new SvcError('E_DB_STATEMENT', [
    `the statement must be text or an sql template, found ${shown(query)}`,
  ]);
}

/** Returns the text of a statement whose values are not part of it. */
function bareText(query: string | Sql, dialect: Dialect): string {
  if (query instanceof Sql && query.params.length > 0)
    throw new SvcError('E_DB_STATEMENT', [
      'the sql template contains values, which this method would ignore: write ? for the values of a row',
    ]);
  return textOf(query, dialect);
}

function quotedTable(table: string | Sql, dialect: Dialect): string {
  if (!(table instanceof Sql))
    return table
      .split('.')
      .map((name) => quotedName(dialect, name))
      .join('.');
  if (table.params.length > 0)
    throw new SvcError('E_DB_IDENTIFIER', ['the sql template that names the table must not contain values']);
  return table.text(dialect);
}

/** Number of rows that are collected from an async iterable before they are written together. */
const CHUNK_ROWS = 1_000;

/** Writes rows on a connection. Returns the number of rows affected. */
type Bulk = (connection: Connection, rows: Iterable<Params>, limit: Limit | undefined) => Awaitable<number>;

/** Writes the rows of `source` in chunks. At the limit, rejects without waiting for `source`. */
async function writeChunks(
  source: AsyncIterable<Params>,
  write: (rows: Iterable<Params>) => Awaitable<number>,
  limit: Limit | undefined,
  clock: Clock,
): Promise<number> {
  const rows = new RowSource(source, clock);
  const waited = <T>(work: Promise<T>): Promise<T> => settledBy(work, limit, clock, ignore, SOURCE);
  let affectedRows = 0;
  try {
    while (!rows.isOver) {
      const chunk = await waited(rows.chunk());
      if (chunk.length > 0) affectedRows += await write(chunk);
    }
    return affectedRows;
  } catch (error) {
    // this error matters more than an error of return()
    await waited(rows.leave()).catch(ignore);
    throw error;
  }
}

/** An async iterable of rows, read in chunks. */
class RowSource {
  readonly #rows: AsyncIterator<Params>;
  readonly #turns: SharedTurns;
  /** Whether no more rows are read: the iterable has ended or failed, or was left. */
  isOver = false;

  constructor(source: AsyncIterable<Params>, clock: Clock) {
    this.#rows = source[Symbol.asyncIterator]();
    this.#turns = new SharedTurns(clock);
  }

  async chunk(): Promise<Params[]> {
    const rows: Params[] = [];
    try {
      while (!this.isOver && rows.length < CHUNK_ROWS) {
        const { done, value } = await this.#rows.next();
        if (done === true) this.isOver = true;
        else rows.push(value);
        if (this.#turns.isSpent) await this.#turns.next();
      }
      return rows;
    } catch (error) {
      this.isOver = true;
      throw error;
    }
  }

  /** Ends the iterable, as a `for await` loop does that is left early. */
  async leave(): Promise<void> {
    if (this.isOver) return;
    this.isOver = true;
    await this.#rows.return?.();
  }
}

function paramsOf(
  query: string | Sql,
  second: Params | VerbOptions | undefined,
  third: VerbOptions | undefined,
): Params {
  if (typeof query !== 'string') {
    if (third === undefined && !Array.isArray(second)) return query.params;
    throw new SvcError('E_DB_PARAMETER', [
      'the values',
      'an sql template contains its values: write each value as ${…} inside the template, and pass the options as the second argument',
    ]);
  }
  if (second === undefined) return NO_PARAMS;
  if (Array.isArray(second)) return second as Params;
  throw new SvcError('E_DB_PARAMETER', ['the values', `a list of values is needed, found ${shown(second)}`]);
}

function optionsOf(
  query: string | Sql,
  second: Params | VerbOptions | undefined,
  third: VerbOptions | undefined,
): VerbOptions | undefined {
  // an `sql` template contains its values, so the options are the second argument
  if (typeof query === 'string') return third;
  return Array.isArray(second) ? undefined : (second as VerbOptions | undefined);
}
