/**
 * Handles migrations at the start of an application, and defines the interface of plugins with migrations.
 *
 *   check    refuses to start while migrations are pending; default in production
 *   apply    applies them; default in development, in tests, and for a database in memory
 *   ignore   does not check migrations
 */
import { SvcError } from '../../base/errors.ts';
import { Migrator, type MigrationDone } from './migrations.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Database } from '../database.ts';
import type { MigrationSources } from './source.ts';
import type { Seeder } from './seeds.ts';
import type { MigrationState } from './state.ts';

/** Action for pending migrations when an application starts. */
export type MigrationPolicy = 'check' | 'apply' | 'ignore';

/** A plugin whose database has migrations, used by `svc migrate` and `svc check --live`. */
export interface Migratable {
  readonly name: string;
  /**
   * Opens the database without the application, until the result is disposed of. With `onlyReads` the
   * database is neither created nor written. Rejects when the database cannot be reached. `onDone` is called
   * after each migration that was applied or undone.
   */
  openMigrator(options?: {
    readonly onlyReads?: boolean;
    readonly onDone?: (done: MigrationDone) => void;
  }): Promise<OpenMigrator>;
}

/** A migrator with its database; disposing of it closes the database. */
export interface OpenMigrator extends AsyncDisposable {
  readonly migrator: Migrator;
  /** Fills the database with seed rows; undefined when the plugin has no seeds. */
  readonly seeder?: Seeder | undefined;
}

/** Returns whether a plugin has migrations. */
export function isMigratable<P extends object>(plugin: P): plugin is P & Migratable {
  return typeof (plugin as Partial<Migratable>).openMigrator === 'function';
}

/** Context of a start. */
interface MigrationStartDeps {
  /** Name of the database, for messages. */
  readonly name: string;
  readonly log: Logger;
  readonly clock?: Clock | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Applies or checks migrations as the policy says.
 *
 * @throws SvcError `E_MIGRATION_PENDING` for `check`; the errors of `Migrator.up()` for `apply`;
 * `E_MIGRATION_FILES`
 */
export async function migrateAtStart(
  database: Database,
  sources: MigrationSources,
  policy: MigrationPolicy,
  { name, log, clock, signal }: MigrationStartDeps,
): Promise<void> {
  if (policy === 'ignore') return;
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
  for (const each of states) {
    if (each.state !== 'applied')
      log.warn(`migration_${each.state}`, { database: name, id: each.id, name: each.name }); // no error: an older version of the application must start with a newer database
  }
}

/** Returns the display name of a migration: `0001_create_users`, `oauth/0001`. */
export function labelOf({ id, name }: Pick<MigrationState, 'id' | 'name'>): string {
  return id.includes('/') ? id : `${id}_${name}`;
}
