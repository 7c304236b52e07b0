/**
 * What a database has been through, against what there is: what comes next, what came last, and what does not fit.
 */
import { SvcError } from '../../base/errors.ts';
import type { Connection, Dialect } from '../driver.ts';
import type { Migration, Script } from './source.ts';

/** What has become of a migration in this database. */
export interface MigrationState {
  readonly id: string;
  readonly name: string;
  /**
   * `applied`, `pending`; `changed`: applied, and its text is another one now; `unfinished`: begun without a transaction, and
   * not ended; `unknown`: applied, and in no source.
   */
  readonly state: 'applied' | 'pending' | 'changed' | 'unfinished' | 'unknown';
  /** ISO 8601, UTC; undefined for what is pending or unfinished. */
  readonly appliedAt: string | undefined;
}

/** A row of the table. */
export interface Applied {
  readonly id: string;
  readonly name: string;
  readonly checksum: string;
  readonly applied_at: string | null;
}

/** What is to be done with which migration. */
export interface Task {
  readonly migration: Migration;
  readonly script: Script;
}

/** Finds it by what has been applied. Throws where that does not fit the sources. */
export type Choose = (rows: readonly Applied[]) => Task | undefined;

/** Makes the table. Text is what every engine has, but for keys of MySQL; the time is ISO 8601 in UTC. */
export function createTable(dialect: Dialect): string {
  const key =
    dialect === 'mysql' || dialect === 'mariadb'
      ? 'varchar(190) character set utf8mb4 collate utf8mb4_bin'
      : 'text';
  return `create table if not exists svc_migrations (id ${key} not null primary key, name text not null, checksum text not null, applied_at text)`;
}

/** The rows of the table, by id; none where there is no table. */
export async function readApplied(connection: Connection, dialect: Dialect): Promise<readonly Applied[]> {
  if ((await connection.scalar(tableExists(dialect), [], undefined)) === undefined) return [];
  return (await connection.fetchAll(
    'select id, name, checksum, applied_at from svc_migrations order by id',
    [],
    undefined,
  )) as unknown as Applied[]; // the columns of CREATE_TABLE
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

/** Every migration in order, then what no source knows. */
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

/** The next one to apply. @throws SvcError `E_MIGRATION_CHANGED`, `E_MIGRATION_ORDER`, `E_MIGRATION_UNFINISHED` */
export function nextOf(migrations: readonly Migration[], rows: readonly Applied[]): Migration | undefined {
  refuseUnfinished(rows);
  const byId = new Map(rows.map((row) => [row.id, row]));
  for (const { id, checksum, up } of migrations) {
    const row = byId.get(id);
    if (row !== undefined && row.checksum !== checksum)
      throw new SvcError('E_MIGRATION_CHANGED', [up.origin, row.applied_at!]); // no row is unfinished
  }
  const next = migrations.find(({ id }) => !byId.has(id));
  if (next === undefined || next.isContributed) return next;
  const later = rows.filter(({ id }) => isOfFile(id) && id > next.id).at(-1);
  if (later !== undefined)
    throw new SvcError('E_MIGRATION_ORDER', [
      next.up.origin,
      `${later.id}_${later.name}, which comes after it, has been applied already`,
    ]);
  return next;
}

/** The last one to undo. @throws SvcError `E_MIGRATION_DOWN`, `E_MIGRATION_UNFINISHED` */
export function lastOf(migrations: readonly Migration[], rows: readonly Applied[]): Task | undefined {
  refuseUnfinished(rows);
  const last = rows.filter(({ id }) => isOfFile(id)).at(-1);
  if (last === undefined) return undefined;
  const migration = migrations.find(({ id }) => id === last.id);
  if (migration === undefined)
    throw new SvcError('E_MIGRATION_DOWN', [`${last.id}_${last.name}`, 'it is in no source']);
  if (migration.down === undefined)
    throw new SvcError('E_MIGRATION_DOWN', [
      `${last.id}_${last.name}`,
      `there is no ${last.id}_${migration.name}.down.sql`,
    ]);
  return { migration, script: migration.down() };
}

/** @throws SvcError `E_MIGRATION_UNFINISHED` when one is */
export function refuseUnfinished(rows: readonly Applied[]): void {
  const unfinished = rows.find(isUnfinished);
  if (unfinished !== undefined)
    throw new SvcError('E_MIGRATION_UNFINISHED', [
      isOfFile(unfinished.id) ? `${unfinished.id}_${unfinished.name}` : unfinished.id,
    ]);
}

/** Whether a migration was begun, and has not ended. */
export function isUnfinished({ applied_at }: Applied): boolean {
  return applied_at === null;
}

/** Ids of plugins have a slash. */
function isOfFile(id: string): boolean {
  return !id.includes('/');
}
