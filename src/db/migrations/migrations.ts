/**
 * Migrations: what a database must have been through, applied once, in order, by whichever process comes first.
 *
 *   svc_migrations(id, name, checksum, applied_at)
 *   begin immediate -> look what has been applied -> run the next one -> note it -> commit          for each anew
 *
 * The lock is that transaction, or what lock.ts has for the engine: of several processes that migrate at once one runs a
 * migration, and the others find it applied.
 * An interrupted one leaves nothing, but in MySQL and MariaDB, where statements that change tables commit by themselves. Without a transaction (`-- svc: no-transaction`) it is noted first, with no time, and gets
 * its time at the end: one that has none is running elsewhere, or was interrupted, and is waited for, then reported.
 */
import { systemClock, type Clock } from '../../base/clock.ts';
import { SvcError } from '../../base/errors.ts';
import { given, int, readOptions, shown } from '../../base/options.ts';
import { CommitOutcomeUnknown, ConnectionLost, DatabaseError } from '../errors.ts';
import { limitOf } from '../limits.ts';
import { beginRunning, commitsByItself, isRunning, isUndoneTogether, locked } from './lock.ts';
import { readMigrations, type Migration, type MigrationSources, type Script } from './source.ts';
import {
  isUnfinished,
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
import type { Awaitable } from '../../cache/stores.ts';
import type { Database } from '../database.ts';
import type { Connection, Dialect, Limit } from '../driver.ts';
import type { Statement } from '../script.ts';

/** How a migrator works. */
export interface MigratorOptions {
  /** How long to wait for others that migrate the same database, 1 ... 3_600. Default 60. */
  readonly lockSeconds?: number | undefined;
  /** Told of each migration when it has been applied or undone. */
  readonly onDone?: ((done: MigrationDone) => void) | undefined;
  readonly clock?: Clock | undefined;
}

/** What happened to a migration. */
export interface MigrationDone {
  readonly direction: 'up' | 'down';
  readonly id: string;
  readonly name: string;
  readonly durationMs: number;
}

/** A migration that was begun and has not ended. */
export interface UnfinishedMigration {
  readonly id: string;
  readonly name: string;
  /** Whether a process runs it still: it has the lock then. */
  readonly isRunning: boolean;
  /** Its statements on the way up, with the lines of its file; none when no source knows it. */
  readonly statements: readonly Pick<Statement, 'text' | 'line'>[];
}

/** Outcomes of a migration that has failed. */
const UNDONE = 'nothing of it remains';
const UNFINISHED = 'the statements before that remain, and the migration is unfinished';

/** How often to look whether somebody else has ended an unfinished one. */
const POLL_MS = 200;

/** Brings one database up to date. */
export class Migrator {
  readonly #database: Database;
  readonly #sources: MigrationSources;
  readonly #lockMs: number;
  readonly #onDone: ((done: MigrationDone) => void) | undefined;
  readonly #clock: Clock;

  /** Reads nothing yet. @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
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
   * Every migration in the order in which they are applied, then those that no source knows. Writes nothing.
   *
   * @throws SvcError `E_MIGRATION_FILES`, `E_MIGRATION_CONTRIBUTED`
   */
  async status(): Promise<MigrationState[]> {
    const migrations = this.#migrations();
    const rows = await this.#database.run(
      'statement',
      (connection) => readApplied(connection, this.#database.dialect),
      undefined,
    );
    return statesOf(migrations, rows);
  }

  /** Those that have still to be applied, in their order. Writes nothing. */
  async pending(): Promise<MigrationState[]> {
    return (await this.status()).filter(({ state }) => state === 'pending');
  }

  /**
   * Applies what is pending, up to and with the id `to`, each in a transaction of its own, and gives what it has applied
   * itself. What others apply meanwhile is not applied again.
   *
   * @throws SvcError `E_MIGRATION_FAILED` with file, line and statement; `E_MIGRATION_CHANGED`, `E_MIGRATION_ORDER`,
   * `E_MIGRATION_UNFINISHED`; `E_MIGRATION_FILES`, `E_MIGRATION_CONTRIBUTED`
   */
  async up({
    to,
    signal,
  }: { readonly to?: string | undefined; readonly signal?: AbortSignal | undefined } = {}): Promise<
    MigrationDone[]
  > {
    const migrations = this.#migrations();
    if (to !== undefined && !migrations.some(({ id }) => id === to))
      throw new SvcError('E_MIGRATION_ORDER', [to, 'no migration has that id']);
    const wanted =
      to === undefined ? migrations : migrations.slice(0, migrations.findIndex(({ id }) => id === to) + 1);
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
   * Undoes the last `steps` migrations that came from files, 1 unless said otherwise, the last one first. What plugins
   * contributed stays.
   *
   * @throws SvcError `E_MIGRATION_DOWN` when one has no down file, or something unknown was applied after it;
   * `E_MIGRATION_FAILED`, `E_MIGRATION_UNFINISHED`; `E_MIGRATION_FILES`, `E_MIGRATION_CONTRIBUTED`
   */
  async down({
    steps = 1,
    signal,
  }: { readonly steps?: number | undefined; readonly signal?: AbortSignal | undefined } = {}): Promise<
    MigrationDone[]
  > {
    if (!int(1, 1, 9_999).accepts(steps))
      throw new SvcError('E_OPTION_RANGE', ['down()', 'steps', 'an integer 1 … 9999', shown(steps)]);
    const migrations = this.#migrations();
    let left = steps;
    return this.#repeat(signal, (connection, limit) =>
      left-- === 0 ? undefined : this.#step(connection, limit, 'down', (rows) => lastOf(migrations, rows)),
    );
  }

  /** The migration that was begun, commits statement by statement, and has not ended; undefined when there is none. Writes nothing. */
  async unfinished(): Promise<UnfinishedMigration | undefined> {
    const migrations = this.#migrations();
    const { dialect } = this.#database;
    return this.#database.run(
      'statement',
      async (connection) => {
        const row = (await readApplied(connection, dialect)).find(isUnfinished);
        if (row === undefined) return undefined;
        const { id, name } = row;
        return {
          id,
          name,
          isRunning: await isRunning(connection, dialect),
          statements: migrations.find((migration) => migration.id === id)?.up.statements ?? [],
        };
      },
      undefined,
    );
  }

  /**
   * Notes that an unfinished migration is applied, or pending, when its statements were completed or undone by hand. Returns the one that was
   * noted; undefined when none is unfinished.
   *
   * @throws SvcError `E_MIGRATION_UNFINISHED` while a process runs it; `E_MIGRATION_FILES`, `E_MIGRATION_CONTRIBUTED`
   */
  async repair(
    as: 'applied' | 'pending',
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<MigrationState | undefined> {
    const migrations = this.#migrations();
    return this.#database.run(
      'transaction',
      async (connection) => this.#repair(connection, migrations, as, signal),
      { signal },
    );
  }

  async #repair(
    connection: Connection,
    migrations: readonly Migration[],
    as: 'applied' | 'pending',
    signal: AbortSignal | undefined,
  ): Promise<MigrationState | undefined> {
    const { dialect } = this.#database;
    const limit = limitOf({ signal, timeoutMs: this.#lockMs }, 0, this.#clock)!; // with a time there is a limit
    if (await isRunning(connection, dialect)) refuseUnfinished(await readApplied(connection, dialect));
    let found: Applied | undefined;
    const isStill = (rows: readonly Applied[]): boolean => (found = rows.find(isUnfinished)) !== undefined;
    await locked(connection, dialect, limit, true, isStill, async () => {
      const row = found!; // by isStill()
      const known = migrations.find(({ id }) => id === row.id);
      await this.#note(connection, known ?? row, as === 'applied' ? 'up' : 'down', true);
    });
    return found === undefined
      ? undefined
      : { id: found.id, name: found.name, state: as, appliedAt: undefined };
  }

  #migrations(): Migration[] {
    return readMigrations(this.#sources, this.#database.dialect);
  }

  /** Takes one step after the other until there is none to take. What one has set, where it has gone to, does not last: the next has a session of its own. */
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
        { signal },
      ); // with a time there is a limit
      if (next === undefined) return done;
      done.push(next);
      this.#onDone?.(next);
    }
  }

  /** Does what is to be done next, if anything is. Looks again where somebody else was faster, or still runs one. */
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

  /** The migrations to run, read without a lock: they are read again under one. An unfinished one may be another process's, and is waited for while that runs. */
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
        isDead = !(await isRunning(connection, dialect)); // looked at once more: it may have ended in between
        if (!isDead) await this.#clock.sleep(POLL_MS, limit.signal);
      }
    }
  }

  /** Whether it was done here. */
  async #run(
    connection: Connection,
    limit: Limit,
    direction: 'up' | 'down',
    task: Task,
    choose: Choose,
  ): Promise<boolean> {
    const { migration, script } = task;
    const { dialect } = this.#database;
    const note = (isFinished: boolean): Awaitable<unknown> =>
      this.#note(connection, migration, direction, isFinished);
    const isStill = (rows: readonly Applied[]): boolean =>
      !rows.some((row) => row.applied_at === null) && choose(rows)?.migration === migration; // one that somebody has begun meanwhile is waited for
    let home: string | null = null;
    const begin = async (): Promise<void> => {
      home = await homeOf(connection, dialect);
    };
    const end = async (): Promise<void> => {
      await goHome(connection, dialect, home);
      if (!script.hasForeignKeys && dialect === 'sqlite') await checkForeignKeys(connection, script, outcome);
      await note(true);
    };
    let isAtEnd = false;
    const isTogether = isUndoneTogether(dialect, script);
    const outcome = isTogether ? UNDONE : UNFINISHED;
    if (isTogether) {
      try {
        return await withoutForeignKeys(connection, dialect, script, () =>
          locked(connection, dialect, limit, true, isStill, async () => {
            await begin();
            for (const statement of script.statements)
              await runStatement(connection, script, statement, UNDONE);
            isAtEnd = true; // with the commit, which deferred constraints wait for
            await end();
          }),
        );
      } catch (error) {
        throw isAtEnd ? endFault(script, error, UNDONE) : error;
      }
    }
    const bare = async (): Promise<void> => {
      await begin();
      await this.#runBare(connection, task, direction);
      try {
        if (commitsByItself(dialect)) await connection.script('set autocommit = 1', undefined); // where it was 0 this commits: or rows and note would be undone when the connection ends
        await end();
      } catch (error) {
        throw endFault(script, error, UNFINISHED);
      }
    };
    if (commitsByItself(dialect))
      return locked(connection, dialect, limit, false, isStill, async () => {
        await note(false);
        await bare();
      });
    return withoutForeignKeys(connection, dialect, script, async () => {
      let running: AsyncDisposable | undefined;
      try {
        const isMine = await locked(connection, dialect, limit, true, isStill, async () => {
          running = await beginRunning(connection, dialect, this.#clock);
          await note(false);
        });
        if (isMine) await bare();
        return isMine;
      } finally {
        await running?.[Symbol.asyncDispose]();
      }
    });
  }

  /** Statement by statement. When the first one fails, nothing has happened yet; later ones leave the migration unfinished. */
  async #runBare(
    connection: Connection,
    { migration, script }: Task,
    direction: 'up' | 'down',
  ): Promise<void> {
    for (const [index, statement] of script.statements.entries()) {
      try {
        await runStatement(connection, script, statement, index === 0 ? UNDONE : UNFINISHED);
      } catch (error) {
        if (index === 0) await this.#note(connection, migration, direction === 'up' ? 'down' : 'up', true);
        throw error;
      }
    }
  }

  /**
   * Writes down that a migration is applied or undone, or that this has begun. One statement does it, also where there
   * is no transaction: another process sees the row as it was or as it will be, and never none.
   */
  async #note(
    connection: Connection,
    { id, name, checksum }: Pick<Migration, 'id' | 'name' | 'checksum'>,
    direction: 'up' | 'down',
    isFinished: boolean,
  ): Promise<void> {
    if (direction === 'down' && isFinished)
      return void (await connection.execute('delete from svc_migrations where id = ?', [id], undefined));
    const now = isFinished ? new Date(this.#clock.nowMs()).toISOString() : null;
    const { affectedRows } = await connection.execute(
      'update svc_migrations set name = ?, checksum = ?, applied_at = ? where id = ?',
      [name, checksum, now, id],
      undefined,
    );
    if (affectedRows === 0)
      await connection.execute(
        'insert into svc_migrations (id, name, checksum, applied_at) values (?, ?, ?, ?)',
        [id, name, checksum, now],
        undefined,
      );
  }
}

// -- on a connection --

/** Where names without a schema are looked for: the search path of PostgreSQL, the database of MySQL. */
async function homeOf(connection: Connection, dialect: Dialect): Promise<string | null> {
  if (dialect === 'sqlite') return null;
  return (await connection.scalar(
    dialect === 'postgres' ? "select pg_catalog.current_setting('search_path')" : 'select database()',
    [],
    undefined,
  )) as string | null; // text, or no database
}

/** pg_dump empties the path, mysqldump uses other databases: then nobody finds the notes. */
async function goHome(connection: Connection, dialect: Dialect, home: string | null): Promise<void> {
  if (home === null || home === (await homeOf(connection, dialect))) return; // a pooler's session, which others have too, keeps what it has by default
  if (dialect === 'postgres')
    await connection.execute("select pg_catalog.set_config('search_path', ?, false)", [home], undefined);
  else await connection.script(`use \`${home.replaceAll('`', '``')}\``, undefined);
}

/** SQLite changes this outside transactions only, where a script may do so too; they are as before when it has ended. */
async function withoutForeignKeys(
  connection: Connection,
  dialect: Dialect,
  { hasForeignKeys }: Script,
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
    'at its end',
    `${broken.length} row${broken.length === 1 ? '' : 's'} of ${tables} would refer to rows that are not there`,
    outcome,
  ]);
}

/** What the database refuses behind the last statement, as the migration's. Of a connection that was lost it is not: nobody knows. */
function endFault({ origin }: Script, error: unknown, outcome: string): unknown {
  if (
    !(error instanceof DatabaseError) ||
    error instanceof ConnectionLost ||
    error instanceof CommitOutcomeUnknown
  )
    return error;
  return new SvcError('E_MIGRATION_FAILED', [origin, 'at its end', error.message, outcome], { cause: error });
}

/** @throws SvcError `E_MIGRATION_FAILED` with the line and the beginning of the statement */
async function runStatement(
  connection: Connection,
  { origin, hasTransaction }: Script,
  { text, line }: Statement,
  outcome: string,
): Promise<void> {
  connection.retire?.(); // a dump sets row_security and foreign_key_checks, and may fail before it sets them back
  try {
    await connection.script(text, undefined);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    const hint =
      hasTransaction && /transaction/i.test(said)
        ? ' (write "-- svc: no-transaction" above the first statement for what must not run inside one)'
        : '';
    throw new SvcError(
      'E_MIGRATION_FAILED',
      [origin, `in line ${line}, "${beginningOf(text)}"`, said + hint, outcome],
      { cause: error },
    );
  }
}

const MOST_SHOWN = 80;

function beginningOf(statement: string): string {
  const flat = statement.replace(/\s+/g, ' ');
  return flat.length <= MOST_SHOWN ? flat : `${flat.slice(0, MOST_SHOWN)}…`;
}
