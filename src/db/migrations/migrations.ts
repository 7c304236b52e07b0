/**
 * Applies migrations once and in order. Several processes may start at the same time; each migration runs in
 * only one of them.
 *
 * The table `svc_migrations` has a row with id, name, checksum and time for each applied migration. Each
 * transaction reads this table, runs the next migration, adds its row, and commits.
 *
 * In SQLite, the transaction is also the lock. In PostgreSQL, the transaction takes an advisory lock
 * (lock.ts). In MySQL and MariaDB, the connection takes a lock before the transaction.
 *
 * An interrupted migration is rolled back. There are two exceptions: a migration without a transaction (`--
 * svc: no-transaction`), and statements that commit implicitly in MySQL and MariaDB. Before such a migration
 * starts, its row is added without a time. The time is set at the end.
 *
 * A row without a time belongs to a migration that is still running or was interrupted. Other processes wait
 * until the migration ends, or else throw `E_MIGRATION_UNFINISHED`.
 */
import { systemClock, type Clock } from '../../base/clock.ts';
import { SvcError } from '../../base/errors.ts';
import { given, int, readOptions, shown, outOfRange } from '../../base/options.ts';
import { isMySql } from '../dialects.ts';
import { CommitOutcomeUnknown, ConnectionLost, DatabaseError } from '../errors.ts';
import { limitOf } from '../limits.ts';
import { beginRunning, isRunning, isUndoneTogether, locked, remainsOf } from './lock.ts';
import { readMigrations, type Migration, type MigrationSources, type Script } from './source.ts';
import {
  isUnfinished,
  labelOf,
  lastOf,
  nextOf,
  readApplied,
  refuseUnfinished,
  statesOf,
  type Applied,
  type Choose,
  type MigrationState,
  type Task,
} from './state.ts';
import type { Database } from '../database.ts';
import type { Connection, Dialect, Limit } from '../driver.ts';
import type { Statement } from '../script.ts';

/** Options of a migrator. */
export interface MigratorOptions {
  /**
   * Maximum time in seconds to wait for another process that migrates the database, 1 ... 3_600. Default 60.
   */
  readonly lockSeconds?: number | undefined;
  /** Called after each migration that was applied or undone. */
  readonly onDone?: ((done: MigrationDone) => void) | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

/** A migration that was applied or undone. */
export interface MigrationDone {
  readonly direction: 'up' | 'down';
  readonly id: string;
  readonly name: string;
  readonly durationMs: number;
}

/** A migration that has begun and has not ended. */
export interface UnfinishedMigration {
  readonly id: string;
  readonly name: string;
  /** Whether a process still runs the migration. */
  readonly isRunning: boolean;
  /**
   * Statements of the up script, with their line numbers. Empty if neither a file nor a plugin has the
   * migration.
   */
  readonly statements: readonly Pick<Statement, 'text' | 'line'>[];
}

/** Endings of error messages. They state which changes of a failed migration remain in the database. */
const UNDONE = 'none of its changes remain in the database';
const UNFINISHED = 'the changes of earlier statements remain, and the migration is unfinished';

interface Run {
  readonly migration: Pick<Migration, 'id' | 'name' | 'checksum'>;
  readonly script: Script;
  readonly connection: Connection;
  readonly dialect: Dialect;
  readonly limit: Limit;
  readonly direction: 'up' | 'down';
  /** Returns whether the migration is still the next one, after the lock was taken. */
  readonly isStill: (rows: readonly Applied[]) => boolean;
}

/** Milliseconds between two checks whether an unfinished migration has ended. */
const POLL_MS = 200;

/** Applies and undoes the migrations of one database. */
export class Migrator {
  readonly #database: Database;
  readonly #sources: MigrationSources;
  readonly #lockMs: number;
  readonly #onDone: ((done: MigrationDone) => void) | undefined;
  readonly #clock: Clock;

  /**
   * Creates a migrator. Does not read the files or the database yet.
   * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value
   */
  constructor(database: Database, sources: MigrationSources, options: MigratorOptions = {}) {
    const { lockSeconds, onDone, clock } = readOptions('Migrator', options, {
      lockSeconds: int(60, 1, 3_600),
      onDone: given<(done: MigrationDone) => void>(),
      clock: given<Clock>(),
    });
    this.#database = database;
    this.#sources = sources;
    this.#lockMs = lockSeconds * 1_000;
    this.#onDone = onDone;
    this.#clock = clock ?? systemClock;
  }

  /**
   * Returns all migrations of files and plugins in the order in which they are applied. After them come
   * applied migrations that no file or plugin has. Changes nothing.
   *
   * @throws SvcError `E_MIGRATION_FILES` for invalid files, `E_MIGRATION_CONTRIBUTED` for an invalid
   *   migration of a plugin
   */
  async status(): Promise<MigrationState[]> {
    const migrations = this.#migrations();
    const { dialect } = this.#database;
    const rows = await this.#database.run('statement', (connection, limit) =>
      readApplied(connection, dialect, limit),
    );
    return statesOf(migrations, rows);
  }

  /** Returns the migrations that are not yet applied, in order. Changes nothing. */
  async pending(): Promise<MigrationState[]> {
    return (await this.status()).filter(({ state }) => state === 'pending');
  }

  /**
   * Applies pending migrations in order, each in its own transaction, up to and including the id `to`, such as `0003`
   * or, as `svc migrate status` prints it, `0003_search`.
   * Returns the migrations that this call applied, without those that another process applied meanwhile.
   *
   * @throws SvcError `E_MIGRATION_FAILED` when a statement fails, with its file, line and text;
   *   `E_MIGRATION_CHANGED`, `E_MIGRATION_ORDER`, `E_MIGRATION_UNFINISHED` when applied migrations do not
   *   match the files and plugins; `E_MIGRATION_FILES`, `E_MIGRATION_CONTRIBUTED` when a file or a migration
   *   of a plugin is invalid
   */
  async up({
    to,
    signal,
  }: { readonly to?: string | undefined; readonly signal?: AbortSignal | undefined } = {}): Promise<
    MigrationDone[]
  > {
    const migrations = this.#migrations();
    const last =
      to === undefined ? -1 : migrations.findIndex((each) => each.id === to || labelOf(each) === to);
    if (to !== undefined && last === -1)
      throw new SvcError('E_MIGRATION_ORDER', [
        to,
        `neither a file nor a plugin has a migration with the id "${to}"; svc migrate status lists them`,
      ]);
    const wanted = to === undefined ? migrations : migrations.slice(0, last + 1);
    return this.#repeat(signal, (connection, limit) =>
      this.#step(connection, limit, 'up', (rows) => {
        const next = nextOf(migrations, rows);
        return next === undefined || !wanted.includes(next)
          ? undefined
          : { migration: next, script: next.up };
      }),
    );
  }

  /**
   * Undoes the last `steps` applied migrations that come from files, the latest first. Default 1. Does not
   * undo migrations of plugins.
   *
   * @throws SvcError `E_MIGRATION_DOWN` if an applied migration has no file or no down file;
   *   `E_MIGRATION_FAILED` if a statement fails; `E_MIGRATION_UNFINISHED` if a migration has begun and not
   *   ended; `E_MIGRATION_FILES` if a file is invalid; `E_MIGRATION_CONTRIBUTED` if a migration of a plugin is
   *   invalid
   */
  async down({
    steps = 1,
    signal,
  }: { readonly steps?: number | undefined; readonly signal?: AbortSignal | undefined } = {}): Promise<
    MigrationDone[]
  > {
    if (!int(1, 1, 9_999).accepts(steps))
      throw outOfRange('down()', 'steps', 'must be an integer from 1 to 9999', shown(steps));
    const migrations = this.#migrations();
    let left = steps;
    return this.#repeat(signal, (connection, limit) =>
      left-- === 0 ? undefined : this.#step(connection, limit, 'down', (rows) => lastOf(migrations, rows)),
    );
  }

  /** Returns the migration that has begun and not ended, or undefined. Changes nothing. */
  async unfinished(): Promise<UnfinishedMigration | undefined> {
    const migrations = this.#migrations();
    const { dialect } = this.#database;
    return this.#database.run('statement', async (connection) => {
      const row = (await readApplied(connection, dialect)).find(isUnfinished);
      if (row === undefined) return undefined;
      const { id, name } = row;
      return {
        id,
        name,
        isRunning: await isRunning(connection, dialect),
        statements: migrations.find((migration) => migration.id === id)?.up.statements ?? [],
      };
    });
  }

  /**
   * Records an unfinished migration as applied or pending. Before that, an operator must complete or undo its
   * statements by hand. Returns the migration, or undefined if no migration is unfinished.
   *
   * @throws SvcError `E_MIGRATION_UNFINISHED` while a process still runs the migration; `E_MIGRATION_FILES`,
   *   `E_MIGRATION_CONTRIBUTED` if a file or a migration of a plugin is invalid
   */
  async repair(
    as: 'applied' | 'pending',
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<MigrationState | undefined> {
    const migrations = this.#migrations();
    return this.#database.run(
      'transaction',
      async (connection) => this.#repair(connection, migrations, as, signal),
      { signal, timeoutMs: 0 },
    );
  }

  async #repair(
    connection: Connection,
    migrations: readonly Migration[],
    as: 'applied' | 'pending',
    signal: AbortSignal | undefined,
  ): Promise<MigrationState | undefined> {
    const { dialect } = this.#database;
    // limitOf() always returns a limit when it gets a timeout
    const limit = limitOf({ signal, timeoutMs: this.#lockMs }, 0, this.#clock)!;
    if (await isRunning(connection, dialect)) refuseUnfinished(await readApplied(connection, dialect));
    let found: Applied | undefined;
    const isStill = (rows: readonly Applied[]): boolean => (found = rows.find(isUnfinished)) !== undefined;
    await locked(connection, dialect, limit, true, isStill, async () => {
      const row = found!;
      const known = migrations.find(({ id }) => id === row.id);
      await this.#note({ connection, migration: known ?? row }, as === 'applied' ? 'up' : 'down', true);
    });
    return found === undefined
      ? undefined
      : { id: found.id, name: found.name, state: as, appliedAt: undefined };
  }

  #migrations(): Migration[] {
    return readMigrations(this.#sources, this.#database.dialect);
  }

  /** Calls `step` until it returns undefined, each time with a clean session. */
  async #repeat(
    signal: AbortSignal | undefined,
    step: (connection: Connection, limit: Limit) => Promise<MigrationDone | undefined> | undefined,
  ): Promise<MigrationDone[]> {
    const done: MigrationDone[] = [];
    for (;;) {
      signal?.throwIfAborted();
      const next = await this.#database.run(
        'transaction',
        (connection) => step(connection, limitOf({ signal, timeoutMs: this.#lockMs }, 0, this.#clock)!),
        // "statementTimeoutMs" must not cut a migration off
        { signal, timeoutMs: 0 },
      );
      if (next === undefined) return done;
      done.push(next);
      this.#onDone?.(next);
    }
  }

  /** Runs the next migration. Chooses again if another process runs or has run it. */
  async #step(
    connection: Connection,
    limit: Limit,
    direction: 'up' | 'down',
    choose: Choose,
  ): Promise<MigrationDone | undefined> {
    const startMs = this.#clock.monotonicMs();
    for (;;) {
      const task = await this.#chosen(connection, limit, choose);
      if (task === undefined) return undefined;
      const { id, name } = task.migration;
      if (await this.#run(connection, limit, direction, task, choose))
        return { direction, id, name, durationMs: Math.round(this.#clock.monotonicMs() - startMs) };
    }
  }

  /** Chooses the next migration without a lock, so the caller must check the choice under the lock. */
  async #chosen(connection: Connection, limit: Limit, choose: Choose): Promise<Task | undefined> {
    const { dialect } = this.#database;
    for (let isDead = false; ;) {
      try {
        return choose(await readApplied(connection, dialect));
      } catch (error) {
        if (
          !(error instanceof SvcError && error.code === 'E_MIGRATION_UNFINISHED') ||
          isDead ||
          this.#clock.monotonicMs() + POLL_MS > limit.deadlineMs
        )
          throw error;
        // no process runs the migration now: read the table once more, because the migration may have ended
        // meanwhile
        isDead = !(await isRunning(connection, dialect));
        if (!isDead) await this.#clock.sleep(POLL_MS, limit.signal);
      }
    }
  }

  /** Runs a migration. Returns false if it is no longer the next one, because another process has run it. */
  #run(
    connection: Connection,
    limit: Limit,
    direction: 'up' | 'down',
    task: Task,
    choose: Choose,
  ): Promise<boolean> {
    const { dialect } = this.#database;
    // do not run while another migration is unfinished: #step() waits for its end
    const isStill = (rows: readonly Applied[]): boolean =>
      !rows.some(isUnfinished) && choose(rows)?.migration === task.migration;
    const run: Run = { ...task, connection, dialect, limit, direction, isStill };
    if (isUndoneTogether(dialect, task.script)) return this.#inTransaction(run);
    return isMySql(dialect) ? this.#underLock(run) : this.#besideTransactions(run);
  }

  /** Runs a script in the transaction that records it. */
  async #inTransaction(run: Run): Promise<boolean> {
    const { connection, dialect, limit, script, isStill } = run;
    let isAtEnd = false;
    try {
      return await withoutForeignKeys(run, () =>
        locked(connection, dialect, limit, true, isStill, async () => {
          const home = await homeOf(connection, dialect);
          for (const statement of script.statements)
            await runStatement(connection, script, statement, () => UNDONE);
          // later errors belong to no statement: the commit, for example, checks deferred constraints
          isAtEnd = true;
          await this.#end(run, home, UNDONE);
        }),
      );
    } catch (error) {
      throw isAtEnd ? endFault(script, error, UNDONE) : error;
    }
  }

  /** Runs a script whose statements commit implicitly. The lock of the connection lasts until the end. */
  #underLock(run: Run): Promise<boolean> {
    const { connection, dialect, limit, isStill } = run;
    return locked(connection, dialect, limit, false, isStill, async () => {
      await this.#note(run, run.direction, false);
      await this.#bare(run);
    });
  }

  /** Runs a script without a transaction. A lock of its own lasts longer than the transaction of the row. */
  #besideTransactions(run: Run): Promise<boolean> {
    const { connection, dialect, limit, isStill } = run;
    return withoutForeignKeys(run, async () => {
      let running: AsyncDisposable | undefined;
      try {
        const isMine = await locked(connection, dialect, limit, true, isStill, async () => {
          running = await beginRunning(connection, dialect, this.#clock);
          await this.#note(run, run.direction, false);
        });
        if (isMine) await this.#bare(run);
        return isMine;
      } finally {
        await running?.[Symbol.asyncDispose]();
      }
    });
  }

  /**
   * Runs a script without a transaction. A failure leaves it unfinished, except of a first statement that the
   * engine undoes as a whole.
   */
  async #bare(run: Run): Promise<void> {
    const { connection, dialect, direction, script } = run;
    const home = await homeOf(connection, dialect);
    for (const [index, statement] of script.statements.entries()) {
      let outcome = UNDONE;
      try {
        await runStatement(connection, script, statement, (error) => {
          return (outcome = outcomeOf(dialect, statement, index === 0, error));
        });
      } catch (error) {
        if (outcome === UNDONE) await this.#note(run, direction === 'up' ? 'down' : 'up', true);
        throw error;
      }
    }
    try {
      // if the script has set autocommit = 0, its changes are not committed yet and would be lost
      if (isMySql(dialect)) await connection.script('set autocommit = 1', undefined);
      await this.#end(run, home, UNFINISHED);
    } catch (error) {
      throw endFault(script, error, UNFINISHED);
    }
  }

  async #end(run: Run, home: string | null, outcome: string): Promise<void> {
    const { connection, dialect, script } = run;
    await goHome(connection, dialect, home);
    if (!script.hasForeignKeys && dialect === 'sqlite') await checkForeignKeys(connection, script, outcome);
    await this.#note(run, run.direction, true);
  }

  /**
   * Records that a migration has been applied, undone or begun. One statement changes the row, so other
   * processes see the old row or the new row, even without a transaction.
   */
  async #note(
    { connection, migration: { id, name, checksum } }: Pick<Run, 'connection' | 'migration'>,
    direction: 'up' | 'down',
    isFinished: boolean,
  ): Promise<void> {
    if (direction === 'down' && isFinished)
      return void (await connection.execute('delete from svc_migrations where id = ?', [id], undefined));
    const now = isFinished ? new Date(this.#clock.nowMs()).toISOString() : null;
    const update = 'update svc_migrations set name = ?, checksum = ?, applied_at = ? where id = ?';
    const insert = 'insert into svc_migrations (name, checksum, applied_at, id) values (?, ?, ?, ?)';
    const values = [name, checksum, now, id];
    const { affectedRows } = await connection.execute(update, values, undefined);
    if (affectedRows === 0) await connection.execute(insert, values, undefined);
  }
}

/** Returns the search path of PostgreSQL or the database of MySQL, where unqualified names are found. */
async function homeOf(connection: Connection, dialect: Dialect): Promise<string | null> {
  if (dialect === 'sqlite') return null;
  const text =
    dialect === 'postgres' ? "select pg_catalog.current_setting('search_path')" : 'select database()';
  return (await connection.scalar(text, [], undefined)) as string | null; // null if no database is selected
}

/**
 * Restores the search path or database after a script. A dump of pg_dump empties the search path, and a dump
 * of mysqldump switches databases. Without the restore, the server would not find `svc_migrations`.
 */
async function goHome(connection: Connection, dialect: Dialect, home: string | null): Promise<void> {
  // change the setting only if it differs, because clients of a connection pooler share its sessions
  if (home === null || home === (await homeOf(connection, dialect))) return;
  if (dialect === 'postgres')
    await connection.execute("select pg_catalog.set_config('search_path', ?, false)", [home], undefined);
  else await connection.script(`use \`${home.replaceAll('`', '``')}\``, undefined);
}

/**
 * Turns SQLite's foreign keys off before the transaction, if the script has the directive `no-foreign-keys`.
 * Inside a transaction, the setting has no effect. Restores the setting at the end.
 */
async function withoutForeignKeys(
  { connection, dialect, script: { hasForeignKeys } }: Run,
  work: () => Promise<boolean>,
): Promise<boolean> {
  if (dialect !== 'sqlite') return work();
  const before = await connection.scalar('pragma foreign_keys', [], undefined);
  if (!hasForeignKeys) await connection.script('pragma foreign_keys = off', undefined);
  try {
    return await work();
  } finally {
    await connection.script(`pragma foreign_keys = ${before === 0 ? 'off' : 'on'}`, undefined);
  }
}

async function checkForeignKeys(connection: Connection, { origin }: Script, outcome: string): Promise<void> {
  const broken = await connection.fetchAll('pragma foreign_key_check', [], undefined);
  if (broken.length === 0) return;
  const tables = [...new Set(broken.map(({ table }) => `"${String(table)}"`))].join(', ');
  throw new SvcError('E_MIGRATION_FAILED', [
    origin,
    `foreign keys would refer to rows that do not exist (tables: ${tables}; number of rows: ${broken.length})`,
    outcome,
  ]);
}

/**
 * Converts a database error after the last statement into `E_MIGRATION_FAILED`. Returns the error of a lost
 * connection unchanged, because then the outcome is unknown.
 */
function endFault({ origin }: Script, error: unknown, outcome: string): unknown {
  if (
    !(error instanceof DatabaseError) ||
    error instanceof ConnectionLost ||
    error instanceof CommitOutcomeUnknown
  )
    return error;
  return new SvcError(
    'E_MIGRATION_FAILED',
    [origin, `the transaction could not be committed: ${error.message}`, outcome],
    { cause: error },
  );
}

/** Returns which changes remain after a statement has failed outside of a transaction. */
function outcomeOf(dialect: Dialect, { text }: Statement, isFirst: boolean, error: unknown): string {
  const remains =
    error instanceof ConnectionLost
      ? 'the connection broke, so the server may have run the statement: look for its changes'
      : remainsOf(dialect, text);
  if (remains === undefined) return isFirst ? UNDONE : UNFINISHED;
  return `${isFirst ? 'the migration is unfinished' : UNFINISHED}; ${remains}`;
}

async function runStatement(
  connection: Connection,
  { origin, hasTransaction }: Script,
  { text, line }: Statement,
  outcomeOf: (error: unknown) => string,
): Promise<void> {
  // never reuse this connection: a dump changes settings such as row_security, and may fail before it
  // restores them
  connection.retire?.();
  try {
    await connection.script(text, undefined);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    const hint =
      hasTransaction && /transaction/i.test(said)
        ? ' (if the statement must not run inside a transaction, write "-- svc: no-transaction" above the first statement)'
        : '';
    throw new SvcError(
      'E_MIGRATION_FAILED',
      [origin, `in line ${line}, "${beginningOf(text)}": ${said}${hint}`, outcomeOf(error)],
      { cause: error },
    );
  }
}

const MOST_SHOWN = 80;

function beginningOf(statement: string): string {
  const flat = statement.replace(/\s+/g, ' ');
  return flat.length <= MOST_SHOWN ? flat : `${flat.slice(0, MOST_SHOWN)}…`;
}
