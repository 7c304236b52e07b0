/**
 * Opens a migrated database to describe statements: one in memory, one whose migrations equal those of the
 * application, or a scratch database on a server (scratch.ts).
 */
import { SvcError } from '../../base/errors.ts';
import { Migrator } from '../migrations/migrations.ts';
import { hashOf, readMigrations, type MigrationSources } from '../migrations/source.ts';
import { labelOf } from '../migrations/start.ts';
import { openForCommand } from '../open.ts';
import { MEMORY } from '../sqlite/connection.ts';
import { parseDatabaseUrl, readingAddress, shownUrl, withMeaning } from '../url.ts';
import { DatabaseDescriber, type DescribedPlace, type Describer } from './describer.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Database } from '../database.ts';

/** Default time limit of each statement in milliseconds, also while tables are read. */
const STATEMENT_MS = 10_000;

/** One connection, which logs no slow statements. */
const QUIET = { slowStatementMs: 0, pool: { max: 1 } };

/** Creates the schema of `search_path`, which the database of the application had before its first migration. */
const NEEDED_SCHEMA = `do $$ begin
  if current_schema() is null then
    execute 'create schema ' || split_part(current_setting('search_path'), ',', 1);
  end if;
end $$`;

interface DescribedPlugin {
  readonly name: string;
  /** Address of the database that the application uses. */
  readonly url: string;
  readonly sources: MigrationSources;
  readonly snakeCase: boolean;
  readonly ownTypes: ReadonlySet<string>;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Opens a database to describe statements.
 *
 * @throws SvcError `E_MIGRATION_DIFFERS` when the migrations of `place.url` differ from the files,
 *   `E_MIGRATION_FAILED` when they cannot be applied, `E_DB_OPEN`, `E_DB_CONNECT`, `E_DB_URL`, `E_SCRATCH_DATABASE`
 */
export async function openDescriber(place: DescribedPlace, plugin: DescribedPlugin): Promise<Describer> {
  const { isScratch = false, signal, timeoutMs = STATEMENT_MS } = place;
  if (place.url !== undefined) {
    const url = withMeaning(place.url, plugin.url);
    if (isScratch) return onScratch(url, plugin, timeoutMs, signal);
    const database = await openToRead(url, plugin, timeoutMs);
    return describing(database, plugin, timeoutMs, () => refuseOthers(url, database, plugin));
  }
  const { clock, log, name } = plugin;
  const database = await openForCommand(`sqlite:${MEMORY}`, { clock, log }, name);
  return describing(database, plugin, timeoutMs, async () => {
    await new Migrator(database, plugin.sources, { clock }).up();
  });
}

function openToRead(
  url: string,
  { clock, log, name }: DescribedPlugin,
  timeoutMs: number,
): Promise<Database> {
  const { dialect } = parseDatabaseUrl(url);
  const options = { clock, log, ...QUIET, readOnly: true, statementTimeoutMs: timeoutMs };
  return openForCommand(readingAddress(url, dialect), options, name);
}

/** Returns the describer of an open database, after `migrate` has made sure that it has all migrations. */
async function describing(
  database: Database,
  { sources, snakeCase, ownTypes }: DescribedPlugin,
  timeoutMs: number,
  migrate: () => Promise<void>,
  onClose?: () => Promise<void>,
): Promise<Describer> {
  try {
    await migrate();
    const hash = hashOf(readMigrations(sources, database.dialect), snakeCase);
    return await DatabaseDescriber.open(database, { snakeCase, hash, ownTypes, timeoutMs, onClose });
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function refuseOthers(
  url: string,
  database: Database,
  { sources, clock }: DescribedPlugin,
): Promise<void> {
  const states = await new Migrator(database, sources, { clock }).status();
  const hasOwn = readMigrations(sources, database.dialect).some(({ isContributed }) => !isContributed);
  // without migrations of its own, an application uses the tables of another one
  const differing = states.filter(({ state }) => state !== 'applied' && (hasOwn || state !== 'unknown'));
  if (differing.length > 0)
    throw new SvcError('E_MIGRATION_DIFFERS', [
      shownUrl(url),
      differing.map((each) => `${labelOf(each)} is ${each.state}`),
    ]);
}

async function onScratch(
  url: string,
  plugin: DescribedPlugin,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<Describer> {
  const { createScratch } = await import('./scratch.ts');
  const { refuseOutside } = await import('./outside.ts');
  const { dialect } = parseDatabaseUrl(url);
  const { clock, log, name, sources } = plugin;
  const migrations = readMigrations(sources, dialect);
  const scratch = await createScratch(url, { clock, log, timeoutMs });
  const end = async (): Promise<void> => {
    await scratch[Symbol.asyncDispose]();
  };
  signal?.addEventListener('abort', end);
  try {
    signal?.throwIfAborted();
    refuseOutside(migrations, dialect, scratch.others);
    const database = await openForCommand(scratch.url, { clock, log, ...QUIET }, name);
    try {
      if (dialect === 'postgres') await database.script(NEEDED_SCHEMA);
      await new Migrator(database, sources, { clock }).up();
    } finally {
      await database.close();
    }
    const reader = await openToRead(scratch.url, plugin, timeoutMs);
    return await describing(reader, plugin, timeoutMs, () => refuseOthers(scratch.url, reader, plugin), end);
  } catch (error) {
    await end();
    throw error;
  }
}
