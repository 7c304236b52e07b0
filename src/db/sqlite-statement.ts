/**
 * Prepared statements of one SQLite connection, kept by their text. Preparing costs 2.6 times what a look-up by key does.
 *
 * Rows are read as lists and made into objects here: 1.4 times as fast as node:sqlite's own objects. Integers are read as
 * numbers where a statement cannot write, which is 8 % faster on wide results, until one does not fit; then, and where it can
 * write, as bigints. Both by test/bench/db.ts.
 */
import { SvcError } from '../errors.ts';
import { LruIndex } from '../lru.ts';
import { decodeValue, encodeParams, rowFrom, rowOf, type SqliteInput } from './sqlite-values.ts';
import { scanSqlite, type ScannedText } from './sqlite-text.ts';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Column, ExecuteResult, Int8, Row, Table } from './driver.ts';
import type { Params } from './values.ts';

/** Texts longer than this are not kept: they are generated, and rarely twice the same. */
const MAX_KEPT_CHARACTERS = 15 * 1024;
/** Rows read before the loop may turn. */
export const BATCH_ROWS = 256;

/** What a connection counts beside its statements. */
interface Counters {
  /** Rows changed by all statements so far. */
  totalChanges(): number;
  /** The key that was made last, with all its digits. */
  lastInsertId(): number | bigint | string;
}

/** One statement, prepared. */
export class SqliteStatement {
  readonly scanned: ScannedText;
  readonly #statement: StatementSync;
  readonly #int8: Int8;
  readonly #counters: Counters;
  #names: readonly string[] | undefined;
  /** How its rows are read; not how it runs: there a bigint for either count would be 15 % of an insert. */
  #needsBigInts: boolean;
  #readsBigInts = false;
  #returnsArrays = true;

  constructor(statement: StatementSync, scanned: ScannedText, int8: Int8, counters: Counters) {
    this.#statement = statement;
    this.scanned = scanned;
    this.#int8 = int8;
    this.#counters = counters;
    this.#needsBigInts = int8 !== 'auto' || scanned.kind !== 'select';
    statement.setReturnArrays(true);
  }

  encode(params: Params, row?: number): SqliteInput[] {
    return encodeParams(params, this.scanned.placeholders, row);
  }

  execute(inputs: readonly SqliteInput[]): ExecuteResult {
    const { kind } = this.scanned;
    if (kind === 'insert') return this.#insert(inputs);
    if (kind === 'with') return this.#with(inputs);
    const { changes } = this.#run(inputs);
    return { affectedRows: kind === 'update' ? changes : 0, lastInsertId: undefined }; // SQLite remembers both from the last statement that wrote: others must not report them as their own
  }

  /** The rows affected only: for many rows, one after the other. */
  affect(inputs: readonly SqliteInput[]): number {
    const { kind } = this.scanned;
    return kind === 'insert' || kind === 'update' ? this.#run(inputs).changes : this.execute(inputs).affectedRows;
  }

  fetchOne(inputs: readonly SqliteInput[]): Row | undefined {
    if (this.scanned.hasStar) return this.#fetchOneByName(inputs);
    this.#returnArrays(true);
    const values = this.#read(() => this.#statement.get(...inputs) as unknown[] | undefined);
    return values === undefined ? undefined : rowOf(this.#names ??= this.#readNames(), values, this.#int8);
  }

  fetchAll(inputs: readonly SqliteInput[]): Row[] {
    this.#returnArrays(true);
    const rows = this.#read(() => this.#statement.all(...inputs) as unknown as unknown[][]);
    if (rows.length === 0) return [];
    if (this.scanned.hasStar) this.#names = this.#readNames();
    const names = this.#names ??= this.#readNames();
    const int8 = this.#int8;
    for (let index = 0; index < rows.length; index++) (rows as unknown[])[index] = rowOf(names, rows[index]!, int8);
    return rows as unknown as Row[]; // each was replaced
  }

  fetchArrays(inputs: readonly SqliteInput[]): Table {
    this.#returnArrays(true);
    const rows = this.#read(() => this.#statement.all(...inputs) as unknown as unknown[][]);
    for (const row of rows) this.#decode(row);
    return { columns: this.columns(), rows };
  }

  scalar(inputs: readonly SqliteInput[]): unknown {
    this.#returnArrays(true);
    const values = this.#read(() => this.#statement.get(...inputs) as unknown[] | undefined);
    return values === undefined ? undefined : decodeValue(values[0], this.#int8);
  }

  columns(): readonly Column[] {
    return this.#statement.columns().map(({ name, table, type }) => ({ name, table: table ?? undefined, type: type ?? undefined }));
  }

  /** Rows in batches. The statement must not be used for anything else meanwhile. */
  *batches(inputs: readonly SqliteInput[]): Generator<Row[], void, undefined> {
    this.#returnArrays(true);
    this.#readBigInts(true);
    const rows = this.#statement.iterate(...inputs) as unknown as Iterator<unknown[]>;
    let names: readonly string[] | undefined;
    let batch: Row[] = [];
    try {
      for (let next = rows.next(); next.done !== true; next = rows.next()) {
        batch.push(rowOf(names ??= this.#readNames(), next.value, this.#int8));
        if (batch.length < BATCH_ROWS) continue;
        yield batch;
        batch = [];
      }
    } finally {
      rows.return?.();
    }
    if (batch.length > 0) yield batch;
  }

  /** Names of columns behind a `*` may change at any time, by another process too: node:sqlite looks each time. */
  #fetchOneByName(inputs: readonly SqliteInput[]): Row | undefined {
    this.#returnArrays(false);
    const found = this.#read(() => this.#statement.get(...inputs) as Row | undefined);
    return found === undefined ? undefined : rowFrom(found, this.#int8);
  }

  #decode(values: unknown[]): void {
    for (let index = 0; index < values.length; index++) {
      if (typeof values[index] === 'bigint') values[index] = decodeValue(values[index], this.#int8);
    }
  }

  #insert(inputs: readonly SqliteInput[]): ExecuteResult {
    const { changes, lastInsertRowid } = this.#run(inputs);
    if (changes === 0) return { affectedRows: 0, lastInsertId: undefined };
    const isExact = this.#int8 === 'auto' && Number.isSafeInteger(lastInsertRowid);
    return { affectedRows: changes, lastInsertId: isExact ? lastInsertRowid : this.#counters.lastInsertId() };
  }

  /** It may write, or only read; then what it says of changes is old. */
  #with(inputs: readonly SqliteInput[]): ExecuteResult {
    const before = this.#counters.totalChanges();
    const { changes } = this.#run(inputs);
    return { affectedRows: this.#counters.totalChanges() === before ? 0 : changes, lastInsertId: undefined };
  }

  #run(inputs: readonly SqliteInput[]): { readonly changes: number; readonly lastInsertRowid: number } {
    this.#readBigInts(false);
    return this.#statement.run(...inputs) as { changes: number; lastInsertRowid: number }; // numbers, for that is how it reads
  }

  /** A number that does not fit throws; the statement has only read, so it may be run again. */
  #read<T>(run: () => T): T {
    this.#readBigInts(this.#needsBigInts);
    if (this.#needsBigInts) return run();
    try {
      return run();
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_OUT_OF_RANGE') throw error;
      this.#needsBigInts = true;
      this.#readBigInts(true);
      return run();
    }
  }

  #readBigInts(isWanted: boolean): void {
    if (this.#readsBigInts === isWanted) return;
    this.#readsBigInts = isWanted;
    this.#statement.setReadBigInts(isWanted);
  }

  #returnArrays(isWanted: boolean): void {
    if (this.#returnsArrays === isWanted) return;
    this.#returnsArrays = isWanted;
    this.#statement.setReturnArrays(isWanted);
  }

  #readNames(): readonly string[] {
    return this.#statement.columns().map(({ name }) => name);
  }
}

/** The statements of a connection: the least recently used one goes first. */
export class SqliteStatements implements Counters {
  readonly #db: DatabaseSync;
  readonly #int8: Int8;
  readonly #index: LruIndex;
  readonly #kept: (SqliteStatement | undefined)[] = [];

  constructor(db: DatabaseSync, capacity: number, int8: Int8) {
    this.#db = db;
    this.#int8 = int8;
    this.#index = new LruIndex(capacity);
  }

  /** How many are kept. */
  get size(): number { return this.#index.size; }

  /** @throws SvcError `E_DB_STATEMENT`, and what SQLite says about the text */
  get(text: string): SqliteStatement {
    const slot = this.#index.find(text);
    if (slot !== 0) {
      this.#index.use(slot);
      return this.#kept[slot]!; // every slot in the index has one
    }
    const statement = this.prepare(text);
    if (text.length <= MAX_KEPT_CHARACTERS) this.#kept[this.#index.isFull ? this.#index.replaceOldest(text) : this.#index.add(text)] = statement;
    return statement;
  }

  /** One that is not kept, for whoever reads it slowly. */
  prepare(text: string): SqliteStatement {
    const scanned = checkedText(text);
    return new SqliteStatement(this.#db.prepare(text), scanned, this.#int8, this);
  }

  totalChanges(): number {
    return Number(this.get('select total_changes()').scalar([]));
  }

  lastInsertId(): number | bigint | string {
    return this.get('select last_insert_rowid()').scalar([]) as number | bigint | string; // an integer, as `int8` has it
  }

  /** Forgets all: what they mean may have changed. */
  clear(): void {
    for (const [, slot] of this.#index.entries()) {
      this.#index.remove(slot);
      this.#kept[slot] = undefined;
    }
  }
}

/** What is in the text of one statement. @throws SvcError `E_DB_STATEMENT` for what SQLite would take and run as something else */
export function checkedText(text: string): ScannedText {
  const scanned = scanSqlite(text);
  const problem = problemWith(scanned, text);
  if (problem !== undefined) throw new SvcError('E_DB_STATEMENT', [problem]);
  return scanned;
}

function problemWith({ kind, named, hasMore, keyword }: ScannedText, text: string): string | undefined {
  if (kind === 'empty') return 'the text has none';
  if (hasMore) return 'the text has more than one, and only the first would run';
  if (kind === 'control') return `${keyword.toUpperCase()} would change the transaction of whoever uses the connection next`;
  if (named !== undefined) return `the placeholder "${named}" has a name or number, a plain ? is needed`;
  return text.includes('\0') ? 'the text has a NUL, which would end it' : undefined;
}
