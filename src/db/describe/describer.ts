/**
 * Describes statements without running them: the engine prepares each one, and tells its parameters and columns, or
 * why it refuses the statement.
 *
 * Each statement is prepared in a transaction of its own, in a session that only reads. So a refusal has no effect on
 * the next statement, and no lock on a table stays.
 */
import { SvcError } from '../../base/errors.ts';
import {
  ConnectionLost,
  DatabaseError,
  LockTimeout,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
} from '../errors.ts';
import { isMySql } from '../dialects.ts';
import { tokensOf } from '../lexer.ts';
import { readTables, typeReader } from '../tables.ts';
import { placeOf, quotedTokens } from './places.ts';
import type { Database } from '../database.ts';
import type { Dialect, EngineType, PreparedColumn, PreparedStatement } from '../driver.ts';
import type { MigratedTables } from '../row-classes.ts';
import type { ColumnType, ReadType, TableColumn, TableDescription } from '../tables.ts';

interface DescribedParameter {
  /** Type as the engine names it; undefined if the engine does not tell. */
  readonly type: string | undefined;
  /** Type for values of rows; undefined if the engine does not tell. */
  readonly kind: ColumnType | undefined;
}

export interface DescribedColumn extends DescribedParameter, Pick<PreparedColumn, 'name' | 'column'> {
  /** Table from which the column comes, with its schema unless that is the current one; undefined for an expression. */
  readonly table: string | undefined;
  /**
   * Whether the column of the table may be NULL; undefined for an expression, and for a column of a view. An outer join
   * may add NULL.
   */
  readonly isNullable: boolean | undefined;
}

export interface Described {
  readonly kind: 'described';
  readonly parameters: readonly DescribedParameter[];
  readonly columns: readonly DescribedColumn[];
}

export interface Refused {
  readonly kind: 'refused';
  /** SQLSTATE, or the code of an SvcError for a text that svc itself refuses to send. */
  readonly code: string;
  readonly message: string;
  /** Offset of the mistake in the text, in UTF-16 code units; undefined if it is not known. */
  readonly position: number | undefined;
  readonly hint: string | undefined;
}

/** Statement about which the engine tells nothing. */
interface Untold {
  readonly kind: 'untold';
  readonly reason: string;
}

export type Description = Described | Refused | Untold;

/** Database on which statements are described. Without an address, a SQLite database in memory. */
export interface DescribedPlace {
  /** Address of a database with all migrations, which is only read; or of the server of a scratch database. */
  readonly url?: string | undefined;
  /** Whether the database of the application is read, at its own address. */
  readonly isOwn?: boolean | undefined;
  /** Whether a database is created on the server, migrated, and dropped in the end. */
  readonly isScratch?: boolean | undefined;
  /** Drops the scratch database at once, also while its migrations run. */
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Describes the statements of one database. Disposing of it closes the database. */
export interface Describer extends AsyncDisposable, Omit<MigratedTables, 'database'> {
  /** Error of a server that was lost or did not answer in time. After it, each statement is untold. */
  readonly failure: Error | undefined;
  /** Describes a statement. `text` has a `?` for each value, as for the methods of a database. Never rejects. */
  describeStatement(text: string): Promise<Description>;
}

/** Properties of a {@link DatabaseDescriber} that the database does not know. */
interface DescriberOptions extends Pick<Describer, 'snakeCase' | 'hash'> {
  /** Lower-case names of types that the application itself parses. */
  readonly ownTypes: ReadonlySet<string>;
  readonly timeoutMs: number;
  /** Called when the describer is disposed of, after the database was closed. */
  readonly onClose?: (() => Promise<void>) | undefined;
}

/** SQLSTATEs and error numbers of statements that the account may not run. */
const LACKS_RIGHTS: ReadonlySet<string | number | undefined> = new Set([
  '42501',
  1044,
  1045,
  1142,
  1143,
  1227,
  1370,
  1410,
]);

export class DatabaseDescriber implements Describer {
  readonly dialect: Dialect;
  readonly snakeCase: boolean;
  readonly hash: string;
  readonly tables: readonly TableDescription[];
  readonly #database: Database;
  readonly #options: DescriberOptions;
  readonly #readType: ReadType;
  readonly #columns: ReadonlyMap<string, TableColumn>;
  #failure: Error | undefined;

  private constructor(
    database: Database,
    options: DescriberOptions,
    tables: readonly TableDescription[],
    readType: ReadType,
  ) {
    this.dialect = database.dialect;
    this.snakeCase = options.snakeCase;
    this.hash = options.hash;
    this.tables = tables;
    this.#database = database;
    this.#options = options;
    this.#readType = readType;
    this.#columns = new Map(
      tables.flatMap(({ name, columns }) => columns.map((column) => [keyOf(name, column.name), column])),
    );
  }

  /** Reads the tables of a migrated database, and returns its describer. */
  static async open(database: Database, options: DescriberOptions): Promise<DatabaseDescriber> {
    const { ownTypes } = options;
    const tables = await readTables(database, ownTypes);
    return new DatabaseDescriber(database, options, tables, await typeReader(database, ownTypes));
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  async describeStatement(text: string): Promise<Description> {
    if (this.#failure !== undefined) return { kind: 'untold', reason: this.#failure.message };
    try {
      const prepared = await this.#prepare(text);
      return prepared === undefined
        ? { kind: 'untold', reason: 'the engine does not prepare statements of this kind' }
        : this.#described(text, prepared);
    } catch (error) {
      return this.#refused(error, text);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#database.close();
    } finally {
      await this.#options.onClose?.();
    }
  }

  #described(text: string, { parameters, columns }: PreparedStatement): Described {
    // SQLite names the origin of the first SELECT of a UNION, although the values may come from the second
    const hasOrigin =
      this.dialect !== 'sqlite' || !tokensOf(text, this.dialect).some((token) => /^union$/i.test(token.text));
    return {
      kind: 'described',
      parameters: parameters.map((type) => this.#typed(type)),
      columns: columns.map((column) =>
        hasOrigin ? this.#column(column) : { ...this.#typed(undefined), name: column.name, ...NO_ORIGIN },
      ),
    };
  }

  /** Converts the error of a statement. Keeps an error that says nothing about the statement. */
  async #refused(error: unknown, text: string): Promise<Refused | Untold> {
    if (
      error instanceof SvcError &&
      (error.code === 'E_DB_STATEMENT' || error.code === 'E_DB_PARAMETER_COUNT')
    ) {
      const { code, message } = error;
      return { kind: 'refused', code, message, position: undefined, hint: undefined };
    }
    if (!(error instanceof DatabaseError) || isOfServer(error)) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      return { kind: 'untold', reason: this.#failure.message };
    }
    const { sqlstate, errno, message, hint } = error;
    if (LACKS_RIGHTS.has(sqlstate) || LACKS_RIGHTS.has(errno)) return { kind: 'untold', reason: message };
    const position = (await this.#syntaxPlace(error, text)) ?? placeOf(error, text, this.dialect);
    return { kind: 'refused', code: sqlstate ?? 'XX000', message, position, hint };
  }

  /** Returns the place of a syntax error of SQLite, which quotes a token that may occur several times. */
  async #syntaxPlace({ message }: DatabaseError, text: string): Promise<number | undefined> {
    const tokens = this.dialect === 'sqlite' ? quotedTokens(message, text) : [];
    for (const { start, end } of tokens) {
      const error = await this.#prepare(text.slice(0, end)).catch((reason: unknown) => reason);
      if (error instanceof DatabaseError && error.message === message) return start;
    }
    return undefined;
  }

  #prepare(text: string): Promise<PreparedStatement | undefined> {
    const { timeoutMs } = this.#options;
    return this.#database.run('statement', (connection, limit) => connection.describe?.(text, limit), {
      timeoutMs,
    });
  }

  #column({ name, type, table, schema, column, isNullable }: PreparedColumn): DescribedColumn {
    if (table === undefined || column === undefined) return { ...this.#typed(type), name, ...NO_ORIGIN };
    const found = schema === undefined ? this.#columns.get(keyOf(table, column)) : undefined;
    const typed = this.#typed(type);
    // MySQL and MariaDB name the alias of a subquery as if it were a table
    if (found === undefined && schema === undefined && isMySql(this.dialect))
      return { ...typed, name, ...NO_ORIGIN };
    return {
      name,
      type: typed.type,
      kind: found?.type ?? typed.kind,
      table: schema === undefined ? table : `${schema}.${table}`,
      column,
      isNullable: isNullable ?? (this.dialect === 'postgres' ? undefined : found?.isNullable),
    };
  }

  #typed(type: EngineType | undefined): DescribedParameter {
    return { type: type?.name, kind: type === undefined ? undefined : this.#readType(type) };
  }
}

const NO_ORIGIN = { table: undefined, column: undefined, isNullable: undefined };

function keyOf(table: string, column: string): string {
  return `${table}\0${column}`;
}

function isOfServer(error: DatabaseError): boolean {
  return [ConnectionLost, LockTimeout, PoolTimeout, QueryCanceled, QueryTimeout].some(
    (kind) => error instanceof kind,
  );
}
