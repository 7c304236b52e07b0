/**
 * Compares the applied migrations of a database with the migrations of files and plugins. Finds the next
 * migration to apply, the last one to undo, and migrations that do not match.
 */
import { SvcError } from '../../base/errors.ts';
import { isMySql } from '../dialects.ts';
import type { Connection, Dialect, Limit } from '../driver.ts';
import type { Migration, Script } from './source.ts';

/** State of a migration in a database. */
export interface MigrationState {
  /** Number of the files, such as `0001`; for a migration of a plugin, an id such as `oauth/oauth_logins`. */
  readonly id: string;
  /** Name in the file names, such as `create_users`. */
  readonly name: string;
  /**
   * `changed` means that the text of an applied migration has changed. `unfinished` means that the migration
   * has begun and not ended. `unknown` means that it is applied, but neither a file nor a plugin has it.
   */
  readonly state: 'applied' | 'pending' | 'changed' | 'unfinished' | 'unknown';
  /**
   * Time at which the migration was applied, in ISO 8601 and UTC. Undefined for a pending or unfinished
   * migration.
   */
  readonly appliedAt: string | undefined;
  /** Name of another file with this number that was applied, such as `add_owner`. Only with `changed`. */
  readonly appliedAs?: string;
}

/** A row of the table `svc_migrations`. */
export interface Applied {
  readonly id: string;
  readonly name: string;
  readonly checksum: string;
  readonly applied_at: string | null;
}

/** A migration to run, and the script that applies or undoes it. */
export interface Task {
  readonly migration: Migration;
  readonly script: Script;
}

/** Chooses the next task. Throws if the rows do not match the files and plugins. */
export type Choose = (rows: readonly Applied[]) => Task | undefined;

/** Returns the statement for the table. MySQL has no `text` as a key. */
export function createTable(dialect: Dialect): string {
  const key = isMySql(dialect) ? 'varchar(190) character set utf8mb4 collate utf8mb4_bin' : 'text';
  return `create table if not exists svc_migrations (id ${key} not null primary key, name text not null, checksum text not null, applied_at text)`;
}

/** Returns the rows of `svc_migrations`, sorted by id. Returns an empty list if the table does not exist. */
export async function readApplied(
  connection: Connection,
  dialect: Dialect,
  limit?: Limit,
): Promise<readonly Applied[]> {
  if ((await connection.scalar(tableExists(dialect), [], limit)) === undefined) return [];
  return (await connection.fetchAll(
    'select id, name, checksum, applied_at from svc_migrations order by id',
    [],
    limit,
  )) as unknown as Applied[];
}

function tableExists(dialect: Dialect): string {
  switch (dialect) {
    case 'sqlite':
      return "select 1 from sqlite_master where type = 'table' and name = 'svc_migrations'";
    case 'postgres':
      return "select 1 where to_regclass('svc_migrations') is not null";
    default:
      return "select 1 from information_schema.tables where table_schema = database() and table_name = 'svc_migrations'";
  }
}

/** Returns the states of these migrations in order, then of applied ones that are not among them. */
export function statesOf(migrations: readonly Migration[], rows: readonly Applied[]): MigrationState[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const known = migrations.map(({ id, name, checksum }): MigrationState => {
    const row = byId.get(id);
    byId.delete(id);
    if (row === undefined) return { id, name, state: 'pending', appliedAt: undefined };
    return {
      id,
      name,
      state: row.applied_at === null ? 'unfinished' : row.checksum === checksum ? 'applied' : 'changed',
      appliedAt: row.applied_at ?? undefined,
      ...(row.checksum !== checksum && row.name !== name ? { appliedAs: row.name } : {}),
    };
  });
  return [
    ...known,
    ...[...byId.values()].map((row): MigrationState => ({
      id: row.id,
      name: row.name,
      state: row.applied_at === null ? 'unfinished' : 'unknown',
      appliedAt: row.applied_at ?? undefined,
    })),
  ];
}

/** Returns the next migration to apply, or undefined. */
export function nextOf(migrations: readonly Migration[], rows: readonly Applied[]): Migration | undefined {
  refuseUnfinished(rows);
  const byId = new Map(rows.map((row) => [row.id, row]));
  for (const { id, name, checksum, up } of migrations) {
    const row = byId.get(id);
    if (row === undefined || row.checksum === checksum) continue;
    if (row.name !== name)
      throw new SvcError('E_MIGRATION_ORDER', [
        up.origin,
        `${id} was applied as another file (${id}_${row.name})`,
      ]);
    // `applied_at` is not null, because refuseUnfinished() throws if a row has no time
    throw new SvcError('E_MIGRATION_CHANGED', [up.origin, row.applied_at!]);
  }
  const next = migrations.find(({ id }) => !byId.has(id));
  if (next === undefined || next.isContributed) return next;
  const later = rows.filter(({ id }) => isOfFile(id) && id > next.id).at(-1);
  if (later !== undefined)
    throw new SvcError('E_MIGRATION_ORDER', [
      next.up.origin,
      `the later migration ${labelOf(later)} is already applied`,
    ]);
  return next;
}

/** Returns the last applied migration from a file, with its down script, or undefined. */
export function lastOf(migrations: readonly Migration[], rows: readonly Applied[]): Task | undefined {
  refuseUnfinished(rows);
  const last = rows.filter(({ id }) => isOfFile(id)).at(-1);
  if (last === undefined) return undefined;
  const migration = migrations.find(({ id }) => id === last.id);
  if (migration === undefined)
    throw new SvcError('E_MIGRATION_DOWN', [labelOf(last), 'no file or plugin contains this migration']);
  if (migration.down === undefined)
    throw new SvcError('E_MIGRATION_DOWN', [
      labelOf(last),
      `the file ${last.id}_${migration.name}.down.sql does not exist`,
    ]);
  return { migration, script: migration.down() };
}

export function refuseUnfinished(rows: readonly Applied[]): void {
  const unfinished = rows.find(isUnfinished);
  if (unfinished !== undefined) throw new SvcError('E_MIGRATION_UNFINISHED', [labelOf(unfinished)]);
}

export function isUnfinished({ applied_at }: Applied): boolean {
  return applied_at === null;
}

/** Returns the name of a migration in messages, such as `0001_create_users` or `oauth/0001`. */
export function labelOf({ id, name }: Pick<MigrationState, 'id' | 'name'>): string {
  return isOfFile(id) ? `${id}_${name}` : id;
}

/** Ids of plugin migrations have a slash, as in `oauth/0001`. */
function isOfFile(id: string): boolean {
  return !id.includes('/');
}
