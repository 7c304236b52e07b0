/**
 * Prepared statements of a SQLite connection, cached by their text, because preparing a statement takes 2.6
 * times as long as running a `select` of one row by its key.
 *
 * Rows are read from node:sqlite as arrays, and converted to objects here. This is 1.4 times as fast as
 * reading objects (plain rows of test/bench/rows.ts).
 *
 * A `select` reads integers as numbers, which is 8 % faster for rows with many columns. If an integer does
 * not fit in a number, the rows are read again with bigints. Other statements read bigints at once, because
 * they cannot run twice.
 */
import { TextCache } from '../statements.ts';
import { decodeValue, encodeParams, rowOf, type SqliteInput } from './values.ts';
import { checkedStatement, type ScannedStatement } from '../placeholders.ts';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isSqliteError } from './errors.ts';
import type {
  Column,
  ExecuteResult,
  Int8,
  PreparedColumn,
  PreparedStatement,
  Row,
  Table,
} from '../driver.ts';
import type { CheckedType, OwnTypes } from '../own-types.ts';
import type { Params } from '../values.ts';

const SQLITE_OK = 0;
const SQLITE_DENY = 1;
const SQLITE_PRAGMA = 19;
/** Result code of a statement that the authorizer has denied. */
const SQLITE_AUTH = 23;
const SQLITE_INSERT = 18;
/** Actions of the authorizer for a statement that only reads: READ, SELECT, FUNCTION and RECURSIVE. */
const READING_ACTIONS: ReadonlySet<number> = new Set([20, 21, 31, 33]);
/**
 * Finds a table WITHOUT ROWID: only such a table has an index with the name of the table. pragma_table_list
 * takes longer, because it reads every table.
 */
const HAS_NO_ROWID = 'select 1 from pragma_index_info(?, ?)';
/** Number of rows that are read between two turns of the event loop. */
export const BATCH_ROWS = 256;

interface Target {
  readonly schema: string;
  readonly table: string;
}

/** Properties of a statement that SQLite reports while it compiles the statement. */
interface Compiled {
  /** Table into which an `insert` writes. */
  readonly target: Target | undefined;
  /** Whether SQLite has authorized only reads, and at least one. */
  readonly onlyReads: boolean;
}

interface Counters {
  /** Number that grows whenever SQLite compiles a statement, for example again after a schema change. */
  readonly compilations: number;
  /** Number of rows that the last statement inserted, updated or deleted. */
  changes(): number;
  /** Number of rows that all statements so far have changed. */
  totalChanges(): number;
  /** Key of the last inserted row. It is exact even if a number cannot represent it. */
  lastInsertId(): number | bigint | string;
  /**
   * Returns whether the table has integer row keys. Without them, the last insert id of SQLite belongs to
   * another table.
   */
  hasRowid(target: Target): boolean;
}

export class SqliteStatement {
  readonly scanned: ScannedStatement;
  readonly #statement: StatementSync;
  readonly #int8: Int8;
  readonly #types: OwnTypes | undefined;
  readonly #counters: Counters;
  readonly #target: Target | undefined;
  readonly #isRead: boolean;
  readonly #first: Step;
  #hasRowid: boolean | undefined;
  #names: readonly string[] | undefined;
  /** Function `parse` of each column's custom type. Undefined when no column has a custom type. */
  #parsers: readonly CheckedType['parse'][] | undefined;
  /** Whether integers in rows must be read as bigints. */
  #needsBigInts: boolean;
  #readsBigInts = false;

  constructor(
    statement: StatementSync,
    scanned: ScannedStatement,
    int8: Int8,
    counters: Counters,
    { target, onlyReads }: Compiled,
    types: OwnTypes | undefined,
  ) {
    this.#types = types;
    this.#statement = statement;
    this.scanned = scanned;
    this.#int8 = int8;
    this.#counters = counters;
    this.#target = target;
    // SQLite has no functions that write, so a statement that begins with `select` only reads
    this.#isRead = scanned.kind === 'select' || (scanned.kind === 'with' && onlyReads);
    this.#first = this.#isRead ? get : firstOfAll;
    this.#needsBigInts = int8 !== 'auto' || !this.#isRead;
    statement.setReturnArrays(true);
  }

  encode(params: Params, row?: number): SqliteInput[] {
    return encodeParams(params, this.scanned, row);
  }

  execute(inputs: readonly SqliteInput[]): ExecuteResult {
    const { kind } = this.scanned;
    if (kind === 'insert') return this.#insert(inputs);
    if (kind === 'with') return this.#with(inputs);
    const { changes } = this.#run(inputs);
    // after a statement of another kind, `changes` still belongs to an earlier statement
    return { affectedRows: kind === 'update' ? changes : 0, lastInsertId: undefined };
  }

  /** Runs the statement and returns only the number of rows affected. Used in loops over many rows. */
  affect(inputs: readonly SqliteInput[]): number {
    const { kind } = this.scanned;
    return kind === 'insert' || kind === 'update'
      ? this.#run(inputs).changes
      : this.execute(inputs).affectedRows;
  }

  fetchOne(inputs: readonly SqliteInput[]): Row | undefined {
    const values = this.#read(this.#first, inputs) as unknown[] | undefined;
    return values === undefined ? undefined : this.#row(values);
  }

  fetchAll(inputs: readonly SqliteInput[]): Row[] {
    const rows = this.#read(all, inputs) as unknown[][];
    if (rows.length === 0) return [];
    const names = (this.#names ??= this.#readNames());
    const [int8, hasOwn] = [this.#int8, this.#parsers !== undefined];
    for (let index = 0; index < rows.length; index++)
      (rows as unknown[])[index] = hasOwn ? this.#row(rows[index]!) : rowOf(names, rows[index]!, int8);
    return rows as unknown as Row[];
  }

  fetchArrays(inputs: readonly SqliteInput[]): Table {
    const rows = this.#read(all, inputs) as unknown[][];
    if (this.#types !== undefined) this.#names ??= this.#readNames();
    for (const row of rows) this.#decode(row);
    return { columns: this.columns(), rows };
  }

  scalar(inputs: readonly SqliteInput[]): unknown {
    const values = this.#read(this.#first, inputs) as unknown[] | undefined;
    if (values === undefined || this.#types === undefined)
      return values === undefined ? undefined : decodeValue(values[0], this.#int8);
    this.#names ??= this.#readNames();
    return this.#decode(values)[0];
  }

  columns(): readonly Column[] {
    return this.#statement
      .columns()
      .map(({ name, table, type }) => ({ name, table: table ?? undefined, type: type ?? undefined }));
  }

  /** Yields rows in batches. Until the last batch, the statement must not be used for anything else. */
  *batches(inputs: readonly SqliteInput[]): Generator<Row[], void, undefined> {
    if (!this.#isRead) {
      // the statement must end before its first row is used, because its end may fail
      const rows = this.fetchAll(inputs);
      for (let from = 0; from < rows.length; from += BATCH_ROWS) yield rows.slice(from, from + BATCH_ROWS);
      return;
    }
    this.#readBigInts(true);
    const rows = this.#statement.iterate(...inputs) as unknown as Iterator<unknown[]>;
    let batch: Row[] = [];
    try {
      for (let next = rows.next(); next.done !== true; next = rows.next()) {
        batch.push(this.#row(next.value));
        if (batch.length < BATCH_ROWS) continue;
        yield batch;
        batch = [];
      }
    } finally {
      rows.return?.();
    }
    if (batch.length > 0) yield batch;
  }

  #row(values: unknown[]): Row {
    const names = (this.#names ??= this.#readNames());
    // 'bigint' leaves the values unchanged, because #decode() has already converted them
    return this.#parsers === undefined
      ? rowOf(names, values, this.#int8)
      : rowOf(names, this.#decode(values), 'bigint');
  }

  #decode(values: unknown[]): unknown[] {
    const parsers = this.#parsers;
    for (let index = 0; index < values.length; index++) {
      if (typeof values[index] === 'bigint') values[index] = decodeValue(values[index], this.#int8);
      const parse = values[index] === null ? undefined : parsers?.[index];
      if (parse !== undefined) values[index] = parse(values[index]);
    }
    return values;
  }

  #insert(inputs: readonly SqliteInput[]): ExecuteResult {
    // runs before the insert, so that nothing is inserted if this query fails
    this.#hasRowid ??= this.#findRowid();
    const { changes, lastInsertRowid } = this.#run(inputs);
    if (changes === 0) return { affectedRows: 0, lastInsertId: undefined };
    if (!(this.#hasRowid ?? this.#findRowidAfter()))
      return { affectedRows: changes, lastInsertId: undefined };
    const isExact = this.#int8 === 'auto' && Number.isSafeInteger(lastInsertRowid);
    return { affectedRows: changes, lastInsertId: isExact ? lastInsertRowid : this.#counters.lastInsertId() };
  }

  #findRowid(): boolean {
    return this.#target === undefined || this.#counters.hasRowid(this.#target);
  }

  /**
   * Checks after an insert whether the table has integer row keys, if SQLite recompiled the statement. Does
   * not throw, because the row is already inserted.
   */
  #findRowidAfter(): boolean {
    try {
      return (this.#hasRowid = this.#findRowid());
    } catch {
      return false; // report no key, because it could be the key of another row
    }
  }

  /**
   * Runs a statement that starts with `with`. After a statement that only reads, SQLite reports the changes
   * of an earlier statement. So this method checks whether the total number of changes grows.
   */
  #with(inputs: readonly SqliteInput[]): ExecuteResult {
    const before = this.#counters.totalChanges();
    const { changes } = this.#run(inputs);
    return { affectedRows: this.#counters.totalChanges() === before ? 0 : changes, lastInsertId: undefined };
  }

  #run(inputs: readonly SqliteInput[]): { readonly changes: number; readonly lastInsertRowid: number } {
    // reading the number of changes as a bigint would cost 15 % of an insert
    this.#readBigInts(false);
    try {
      return this.#step(run, inputs) as { changes: number; lastInsertRowid: number };
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_OUT_OF_RANGE') throw error;
      // the statement has run, but Node 26 throws when the key does not fit in a number
      return { changes: this.#counters.changes(), lastInsertRowid: NaN };
    }
  }

  /**
   * Reads rows with integers as numbers. If one does not fit, reads the rows again with bigints. This is
   * safe, because the statement only reads.
   */
  #read(how: Step, inputs: readonly SqliteInput[]): unknown {
    this.#readBigInts(this.#needsBigInts);
    if (this.#needsBigInts) return this.#step(how, inputs);
    try {
      return this.#step(how, inputs);
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_OUT_OF_RANGE') throw error;
      this.#needsBigInts = true;
      this.#readBigInts(true);
      return this.#step(how, inputs);
    }
  }

  /** Runs the statement. If SQLite recompiles it after a schema change, clears `#names` and `#hasRowid`. */
  #step(how: Step, inputs: readonly SqliteInput[]): unknown {
    const before = this.#counters.compilations;
    try {
      return how(this.#statement, inputs);
    } finally {
      if (this.#counters.compilations !== before) this.#names = this.#hasRowid = undefined;
    }
  }

  #readBigInts(isWanted: boolean): void {
    if (this.#readsBigInts === isWanted) return;
    this.#readsBigInts = isWanted;
    this.#statement.setReadBigInts(isWanted);
  }

  #readNames(): readonly string[] {
    const columns = this.#statement.columns();
    if (this.#types !== undefined) this.#parsers = parsersOf(columns, this.#types);
    return columns.map(({ name }) => name);
  }
}

/**
 * Returns the function `parse` of each column's custom type. Ignores the length in a declared type such as
 * `vector(3)`. Returns undefined when no column has a custom type.
 */
function parsersOf(
  columns: readonly { readonly type: string | null }[],
  types: OwnTypes,
): readonly CheckedType['parse'][] | undefined {
  const parsers = columns.map(
    ({ type }) => types.get((type ?? '').toLowerCase().replace(/\s*\(.*$/, ''))?.parse,
  );
  return parsers.every((parse) => parse === undefined) ? undefined : parsers;
}

function preparedColumn({ name, database, table, column, type }: SqliteColumn): PreparedColumn {
  return {
    name,
    type: type === null ? undefined : { name: type },
    table: table ?? undefined,
    schema: database === null || database === 'main' ? undefined : database,
    column: column ?? undefined,
    isNullable: undefined,
  };
}

type SqliteColumn = ReturnType<StatementSync['columns']>[number];

type Step = (statement: StatementSync, inputs: readonly SqliteInput[]) => unknown;

function run(statement: StatementSync, inputs: readonly SqliteInput[]): unknown {
  return statement.run(...inputs);
}

/** Returns the first row of a statement that only reads. Node 24 ignores errors that arrive after this row. */
function get(statement: StatementSync, inputs: readonly SqliteInput[]): unknown {
  return statement.get(...inputs);
}

function all(statement: StatementSync, inputs: readonly SqliteInput[]): unknown {
  return statement.all(...inputs);
}

/**
 * Returns the first row of a statement that may write. Runs the statement to its end, where SQLite commits
 * and checks deferred foreign keys.
 */
function firstOfAll(statement: StatementSync, inputs: readonly SqliteInput[]): unknown {
  return statement.all(...inputs)[0];
}

/** Cache of a connection's statements. Evicts the least recently used statement. */
export class SqliteStatements implements Counters {
  readonly #db: DatabaseSync;
  readonly #int8: Int8;
  readonly #types: OwnTypes | undefined;
  readonly #kept: TextCache<SqliteStatement>;
  #compilations = 0;
  #target: Target | undefined;
  #reads = 0;
  #others = 0;
  #isDescribing = false;

  constructor(db: DatabaseSync, capacity: number, int8: Int8, types: OwnTypes | undefined) {
    this.#db = db;
    this.#int8 = int8;
    this.#types = types;
    this.#kept = new TextCache(capacity);
    db.setAuthorizer((action, table, _, schema) => {
      // this callback only observes what SQLite compiles; describe() denies a pragma, which may run at once
      if (this.#isDescribing && action === SQLITE_PRAGMA) return SQLITE_DENY;
      this.#compilations++;
      if (READING_ACTIONS.has(action)) this.#reads++;
      else this.#others++;
      // SQLite authorizes the insert of the statement before the inserts of its triggers, and always with both names
      if (action === SQLITE_INSERT) this.#target ??= { schema: schema!, table: table! };
      return SQLITE_OK;
    });
  }

  get compilations(): number {
    return this.#compilations;
  }

  get(text: string): SqliteStatement {
    const known = this.#kept.get(text);
    if (known !== undefined) return known;
    const statement = this.prepare(text);
    this.#kept.add(text, statement);
    return statement;
  }

  /** Prepares a statement without adding it to the cache. */
  prepare(text: string): SqliteStatement {
    const scanned = checkedStatement(text, 'sqlite');
    this.#target = undefined;
    this.#reads = this.#others = 0;
    const statement = this.#db.prepare(text);
    const compiled: Compiled = {
      target: this.#target,
      onlyReads: this.#reads > 0 && this.#others === 0,
    };
    return new SqliteStatement(statement, scanned, this.#int8, this, compiled, this.#types);
  }

  /** Returns what SQLite tells about a statement. Undefined for a pragma, which may run while it is prepared. */
  describe(text: string): PreparedStatement | undefined {
    const { placeholders } = checkedStatement(text, 'sqlite');
    this.#isDescribing = true;
    try {
      return {
        parameters: Array.from({ length: placeholders }, () => undefined),
        columns: this.#db.prepare(text).columns().map(preparedColumn),
      };
    } catch (error) {
      if (isSqliteError(error) && error.errcode === SQLITE_AUTH) return undefined;
      throw error;
    } finally {
      this.#isDescribing = false;
    }
  }

  changes(): number {
    return Number(this.get('select changes()').scalar([]));
  }

  totalChanges(): number {
    return Number(this.get('select total_changes()').scalar([]));
  }

  lastInsertId(): number | bigint | string {
    return this.get('select last_insert_rowid()').scalar([]) as number | bigint | string;
  }

  hasRowid({ schema, table }: Target): boolean {
    return this.get(HAS_NO_ROWID).scalar([table, schema]) === undefined;
  }

  clear(): void {
    this.#kept.clear();
  }
}
