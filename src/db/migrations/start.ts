/**
 * What an application does about migrations when it starts, and who has any to tell of.
 *
 *   check    refuses to start while some are pending: what production does unless told otherwise
 *   apply    applies them: what development and tests do, and what a database in memory needs
 *   ignore   looks at nothing
 */
import { SvcError } from '../../base/errors.ts';
import { Migrator, type MigrationDone } from './migrations.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Database } from '../database.ts';
import type { MigrationSources } from './source.ts';
import type { Seeder } from './seeds.ts';
import type { MigrationState } from './state.ts';

/** What is done about pending migrations when an application starts. */
export type MigrationPolicy = 'check' | 'apply' | 'ignore';

/** A plugin whose database has migrations. `svc migrate` and `svc check --live` ask it. */
export interface Migratable {
  readonly name: string;
  /**
   * The database opened by itself, without the application, until it is disposed of; with `onlyReads` neither made nor written to.
   * Rejects when it cannot be reached. `onDone` is told of each migration when it has been applied or undone.
   */
  openMigrator(options?: {
    readonly onlyReads?: boolean;
    readonly onDone?: (done: MigrationDone) => void;
  }): Promise<OpenMigrator>;
}

/** A migrator, and how to leave its database. */
export interface OpenMigrator extends AsyncDisposable {
  readonly migrator: Migrator;
  /** Fills the database with rows for development, where the plugin has seeds. */
  readonly seeder?: Seeder | undefined;
}

/** Whether a plugin has migrations. */
export function isMigratable<P extends object>(plugin: P): plugin is P & Migratable {
  return typeof (plugin as Partial<Migratable>).openMigrator === 'function';
}

/** What goes with a start. */
interface MigrationStartDeps {
  /** Of the database, for messages. */
  readonly name: string;
  readonly log: Logger;
  readonly clock?: Clock | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Does what the policy says.
 *
 * @throws SvcError `E_MIGRATION_PENDING` for `check`; whatever `Migrator.up()` throws for `apply`; `E_MIGRATION_FILES`
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
      log.warn(`migration_${each.state}`, { database: name, id: each.id, name: each.name }); // an older version beside a newer database must start
  }
}

/** A migration as people call it: `0001_create_users`, `oauth/0001`. */
export function labelOf({ id, name }: Pick<MigrationState, 'id' | 'name'>): string {
  return id.includes('/') ? id : `${id}_${name}`;
}
