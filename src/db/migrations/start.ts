/**
 * Applies or checks migrations when an application starts. Also defines the interface of plugins with
 * migrations.
 *
 * The policy `check`, the default in production, refuses to start while migrations are pending. The policy
 * `apply` applies them. It is the default in other environments, and for a database in memory. The policy
 * `ignore` does nothing.
 */
import { SvcError } from '../../base/errors.ts';
import { Migrator, type MigrationDone } from './migrations.ts';
import { labelOf } from './state.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Database } from '../database.ts';
import type { DescribedPlace, Describer } from '../describe/describer.ts';
import type { MigratedTables } from '../row-classes.ts';
import type { Dialect } from '../driver.ts';
import type { MigrationSources, MigrationStamp } from './source.ts';
import type { Seeder } from './seeds.ts';

export { labelOf };

/**
 * Decides whether an application applies pending migrations at its start, refuses to start, or ignores them.
 */
export type MigrationPolicy = 'check' | 'apply' | 'ignore';

/** A plugin whose database has migrations. `svc migrate` and `svc check --live` use this interface. */
export interface Migratable {
  /** Name of the plugin. */
  readonly name: string;
  /**
   * Opens the database without starting the application. With `onlyReads`, creates and changes no database.
   * Calls `onDone` after each migration that was applied or undone. Rejects if the database cannot be
   * reached.
   */
  openMigrator(options?: {
    readonly onlyReads?: boolean;
    readonly onDone?: (done: MigrationDone) => void;
  }): Promise<OpenMigrator>;
  /**
   * Returns the tables that the migrations make. Reads them from the server with the address `url`, by default
   * that of the plugin. Absent if the plugin cannot describe tables.
   */
  migratedTables?(url?: string): Promise<MigratedTables>;
  /**
   * Returns what describes statements on the tables that the migrations make; undefined if that needs the address of a
   * server. Absent if the plugin cannot describe statements.
   */
  openDescriber?(place?: DescribedPlace): Promise<Describer | undefined>;
  /** Engine of the database of the plugin. */
  readonly dialect?: Dialect;
  /** Isolation level that the address of the database sets for each transaction. */
  readonly isolation?: string | undefined;
  /**
   * Returns the migrations for an engine in their order, by default for that of the plugin. Opens no database.
   *
   * @throws SvcError `E_MIGRATION_FILES`, `E_MIGRATION_CONTRIBUTED` for invalid migrations
   */
  migrationsFor?(dialect?: Dialect): readonly MigrationStamp[];
  /** Returns the hash of the migrations for an engine. */
  migrationHash?(dialect: Dialect): string;
}

/** A migrator with its open database. Disposing of it closes the database. */
export interface OpenMigrator extends AsyncDisposable {
  /** Runs the migrations of the database. */
  readonly migrator: Migrator;
  /** Fills the database with seed rows. Undefined when the plugin has no seeds. */
  readonly seeder?: Seeder | undefined;
}

export function isMigratable<P extends object>(plugin: P): plugin is P & Migratable {
  return typeof (plugin as Partial<Migratable>).openMigrator === 'function';
}

/**
 * Returns whether neither files nor plugins have migrations for the database, such as for a read replica. Rows of
 * its table `svc_migrations` then belong to another plugin or application.
 *
 * @throws SvcError `E_MIGRATION_FILES`, `E_MIGRATION_CONTRIBUTED` for invalid migrations
 */
export function hasNoMigrations(plugin: Migratable): boolean {
  return plugin.migrationsFor?.().length === 0;
}

interface MigrationStartDeps {
  readonly name: string;
  readonly log: Logger;
  readonly clock?: Clock | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Applies or checks migrations, depending on the policy.
 *
 * @throws SvcError `E_MIGRATION_PENDING` when migrations are pending and the policy is `check`; errors of
 *   `Migrator.up()` when the policy is `apply`; `E_MIGRATION_FILES` for invalid files
 */
export async function migrateAtStart(
  database: Database,
  sources: MigrationSources,
  policy: MigrationPolicy,
  { name, log, clock, signal }: MigrationStartDeps,
): Promise<void> {
  // an application without migrations of its own may use a database that another application or plugin migrates
  const hasNone = sources.directory === undefined && (sources.contributed ?? []).length === 0;
  if (policy === 'ignore' || hasNone) return;
  const migrator = new Migrator(database, sources, {
    clock,
    onDone: (done) =>
      log.info('migration_applied', {
        database: name,
        id: done.id,
        name: done.name,
        duration_ms: done.durationMs,
      }),
  });
  if (policy === 'apply') await migrator.up({ signal });
  const states = await migrator.status();
  const missing = states.filter(({ state }) => state === 'pending' || state === 'unfinished');
  if (missing.length > 0) throw new SvcError('E_MIGRATION_PENDING', [name, missing.map(labelOf)]);
  // only warnings: an older version of the application must still start after a newer one has migrated
  for (const { id, name: title, state } of states.filter((each) => each.state !== 'applied'))
    log.warn(state === 'changed' ? 'migration_changed' : 'migration_unknown', {
      database: name,
      id,
      name: title,
    });
}

/**
 * Returns a text whose `svc migrate` commands choose the database of the plugin with the name `database`. Without
 * `--database`, they would do nothing for a database with a name of its own.
 */
export function forDatabase(text: string, database: string): string {
  if (database === 'database') return text;
  const word = /^[\w.-]+$/.test(database) ? database : JSON.stringify(database);
  return text.replace(
    /svc migrate (?:up|down|repair|status) <module>/g,
    (each) => `${each} --database ${word}`,
  );
}

/** Returns `error`. The remedy of an SvcError then chooses the database: see {@link forDatabase}. */
export function errorOfDatabase(error: unknown, database: string): unknown {
  if (error instanceof SvcError)
    Object.defineProperty(error, 'remedy', { value: forDatabase(error.remedy, database), enumerable: true });
  return error;
}
