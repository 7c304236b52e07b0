/** Reads, judges and writes the file of `svc check --statements`. */
import { pathToFileURL } from 'node:url';
import { differenceOf, lockDescriber, lockedMigrations } from './lock.ts';
import { textsOf } from './statement.ts';
import type { RuleText } from '../check.ts';
import type { Finding, Place } from '../../base/findings.ts';
import type { Describer } from '../../db/describe/describer.ts';
import type { Dialect } from '../../db/driver.ts';
import type { Migratable } from '../../db/migrations/start.ts';
import type { LockedDatabase, LockedMigration, LockedStatement } from './lock.ts';
import type { SentCall, StatementDescriber } from './statement.ts';

/** A file with its absolute path. */
export interface SentFile {
  readonly file: string;
  readonly text: string;
}

/** A file of locked statements. */
interface LockFile extends SentFile {
  readonly databases: readonly LockedDatabase[];
}

/** Returns the describers of the databases that only the lock file knows. */
export function lockedDescribers(
  { databases }: LockFile,
  plugins: readonly Migratable[],
  open: ReadonlyMap<string, Describer>,
): ReadonlyMap<string, StatementDescriber> {
  return new Map(
    databases.flatMap((database): [string, StatementDescriber][] => {
      const plugin = plugins.find(({ name }) => name === database.name);
      const hash = plugin?.migrationHash?.(database.dialect);
      return hash === undefined || open.has(database.name)
        ? []
        : [[database.name, lockDescriber(database, hash)]];
    }),
  );
}

/** Returns a finding for each database whose statements were described for other migrations. */
export function staleLines(
  { file, text, databases }: LockFile,
  plugins: readonly Migratable[],
  describers: ReadonlyMap<string, StatementDescriber>,
  rule: RuleText,
): Finding[] {
  return databases.flatMap((database): Finding[] => {
    const describer = describers.get(database.name);
    const stale = [...database.statements].filter(
      ([, { hash }]) => describer !== undefined && hash !== describer.hash,
    );
    const [first] = stale;
    if (first === undefined) return [];
    const plugin = plugins.find(({ name }) => name === database.name);
    const difference = differenceOf(database.migrations, migrationsOf(plugin, database.dialect));
    const reason = difference ?? 'they were described for other migrations';
    const message = `${stale.length} of ${database.statements.size} lines of the database are stale: ${reason}`;
    return [findingOf(rule, database.name, message, { file, line: lineOf(text, first[0]) })];
  });
}

/** Returns a finding for each database that neither an engine nor the file describes, by its number of statements. */
export function missingLines(
  { file, text }: LockFile,
  undescribed: ReadonlyMap<string, number>,
  rule: RuleText,
): Finding[] {
  return [...undescribed]
    .filter(([, count]) => count > 0)
    .map(([name, count]) => {
      const why = text === '' ? 'the file is missing or empty' : 'the file has no line of the database';
      const message = `${count} statement${count === 1 ? '' : 's'} cannot be checked: ${why}, and no --database is named`;
      return findingOf(rule, name, message, { file, line: 1 });
    });
}

function findingOf(
  { severity, remedy }: RuleText,
  name: string,
  message: string,
  { file, line }: Omit<Place, 'column'>,
): Finding {
  const place = { file: pathToFileURL(file).href, line, column: 1 };
  return { rule: 'SVC421', severity, subject: `database ${name}`, message, remedy, place };
}

function lineOf(text: string, statement: string): number {
  const wanted = JSON.stringify(statement);
  return text.split('\n').findIndex((line) => line.startsWith('statement ') && line.includes(wanted)) + 1;
}

export function migrationsOf(plugin: Migratable | undefined, dialect: Dialect): readonly LockedMigration[] {
  return lockedMigrations(plugin?.migrationsFor?.(dialect) ?? []);
}

/**
 * Returns the databases for the file: those that are open with what they say now, and the other ones as they are.
 */
export async function describedDatabases(
  present: readonly LockedDatabase[],
  plugins: readonly Migratable[],
  open: ReadonlyMap<string, Describer>,
  callsOf: (database: string) => readonly SentCall[],
): Promise<readonly LockedDatabase[]> {
  const kept = present.filter(
    ({ name }) => plugins.some((plugin) => plugin.name === name) && !open.has(name),
  );
  const described: LockedDatabase[] = [];
  for (const [name, describer] of open) {
    const { dialect, snakeCase, hash, tables } = describer;
    const statements = new Map<string, LockedStatement>();
    for (const call of callsOf(name))
      for (const { text } of textsOf(call, dialect)) {
        const description = await describer.describeStatement(text);
        if (description.kind === 'described') statements.set(text, { hash, described: description });
      }
    const plugin = plugins.find((each) => each.name === name);
    const migrations = migrationsOf(plugin, dialect);
    described.push({ name, dialect, snakeCase, hash, migrations, tables, statements });
  }
  return [...kept, ...described];
}
