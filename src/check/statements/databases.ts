/** Judges the statements of the sources by the databases of an application, and counts them. */
import { isMigratable } from '../../db/migrations/start.ts';
import { databaseOf, findStatements } from './judge.ts';
import { readLock, writeLock } from './lock.ts';
import { describedDatabases, lockedDescribers, missingLines, staleLines } from './locked.ts';
import { brokenStatements, readableIn, riskyMigrations } from './releases.ts';
import { newNames } from './written-schema.ts';
import type { ApplicationView, RuleText } from '../check.ts';
import type { Finding, Place } from '../../base/findings.ts';
import type { Describer } from '../../db/describe/describer.ts';
import type { SourceReport } from '../examine.ts';
import type { Migratable } from '../../db/migrations/start.ts';
import type { SentFile } from './locked.ts';
import type { SentCall, StatementDescriber } from './statement.ts';
import type { Engine } from './trace.ts';

/** Number of the statements of an application, and the places of those that are not known. */
export interface StatementScope {
  /** Number of statements that a database described. */
  readonly described: number;
  /** Number of statements of which no schema is known. */
  readonly other: number;
  /** Places of the calls that send a statement whose text is not known. */
  readonly unknown: readonly Place[];
  /** How to judge the statements to a database of which no schema is known. Absent if there are none. */
  readonly remedy?: string;
}

const REMEDY =
  'name a server by --scratch-database or --database, or a file with its descriptions by --statements';

/** Files of `svc check` about statements. */
export interface StatementFiles {
  /** File of --statements. Its text is empty if the file does not exist. */
  readonly lock?: SentFile | undefined;
  /** File of --statements of the previous release. */
  readonly previous?: SentFile | undefined;
}

/** Findings about statements, and the file of --statements as it is to be. */
interface StatementReport {
  readonly findings: readonly Finding[];
  readonly scope: StatementScope;
  readonly lock: string | undefined;
}

/** Judges the SQL statements of an application. `open` has its databases, by the names of their plugins. */
export async function judgeStatements(
  { plugins: all }: Pick<ApplicationView, 'plugins'>,
  { statements: finder, sources }: SourceReport,
  rules: readonly RuleText[],
  open: ReadonlyMap<string, Describer>,
  { lock, previous }: StatementFiles = {},
): Promise<StatementReport> {
  const plugins = all.filter(isMigratable);
  const databases = plugins.map(({ name }) => name);
  const present = lock && { ...lock, databases: readLock(lock.text) };
  const locked = present === undefined ? new Map() : lockedDescribers(present, plugins, open);
  const describers = new Map<string, StatementDescriber>([...open, ...locked]);
  const partial = new Set(plugins.filter((plugin) => !hasFiles(plugin, describers)).map(({ name }) => name));
  const renamed = newNames(migrationTexts(plugins));
  const rule = (id: string): RuleText => rules.find((each) => each.id === id)!; // the catalogue has every rule
  const callsOf = (name: string): readonly SentCall[] =>
    finder.calls.filter((call) => databaseOf(call, databases) === name);
  const undescribed = new Map(
    databases.filter((name) => !describers.has(name)).map((name) => [name, countOf(callsOf(name))] as const),
  );
  return {
    findings: [
      ...riskyMigrations(plugins, rule('SVC423')),
      ...(await findStatements({ finder, sources, describers, databases, partial, renamed }, rules)),
      ...(present === undefined ? [] : staleLines(present, plugins, locked, rule('SVC421'))),
      ...(present === undefined ? [] : missingLines(present, undescribed, rule('SVC421'))),
      ...(await brokenStatements(previous ? readLock(previous.text) : [], plugins, open, rule('SVC422'))),
    ],
    scope: {
      ...scopeOf(finder.calls, databases, describers),
      ...([...undescribed.values()].some((count) => count > 0) ? { remedy: REMEDY } : {}),
    },
    // without any description there is nothing to write: an empty file would look like a checked one
    lock:
      describers.size === 0
        ? lock?.text
        : present && writeLock(await describedDatabases(present.databases, plugins, open, callsOf)),
  };
}

/** Returns the statements of migrations. */
export function migrationTexts(plugins: ApplicationView['plugins']): readonly string[] {
  return plugins
    .filter(isMigratable)
    .flatMap(readableIn)
    .flatMap(({ up }) => up.statements.map(({ text }) => text));
}

/** Returns the databases of the plugins of an application by their names. */
export function enginesOf(plugins: ApplicationView['plugins']): ReadonlyMap<string, Engine> {
  return new Map(
    plugins
      .filter(isMigratable)
      .map(({ name, dialect = 'sqlite', isolation }) => [name, { dialect, isolation }] as const),
  );
}

/** Whether migrations of the application itself make the tables of a plugin. */
function hasFiles(plugin: Migratable, describers: ReadonlyMap<string, StatementDescriber>): boolean {
  const dialect = describers.get(plugin.name)?.dialect;
  return (
    dialect === undefined ||
    plugin.migrationsFor?.(dialect).some(({ isContributed }) => !isContributed) === true
  );
}

function scopeOf(
  calls: readonly SentCall[],
  databases: readonly string[],
  describers: ReadonlyMap<string, StatementDescriber>,
): StatementScope {
  const isDescribed = (call: SentCall): boolean => describers.has(databaseOf(call, databases) ?? '');
  return {
    described: countOf(calls.filter(isDescribed)),
    other: countOf(calls.filter((call) => !isDescribed(call))),
    unknown: calls.flatMap(({ unknown }) =>
      unknown === undefined ? [] : [unknown.module.placeAt(unknown.node.start)],
    ),
  };
}

function countOf(calls: readonly SentCall[]): number {
  return calls.reduce((sum, { statements }) => sum + statements.size, 0);
}
