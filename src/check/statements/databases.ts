/** Judges the statements of the sources by the databases of an application, and counts them. */
import { isMigratable } from '../../db/migrations/start.ts';
import { databaseOf, findStatements } from './judge.ts';
import type { ApplicationView, RuleText } from '../check.ts';
import type { Finding, Place } from '../../base/findings.ts';
import type { Describer } from '../../db/describe/describer.ts';
import type { SourceReport } from '../source/examine.ts';
import type { Migratable } from '../../db/migrations/start.ts';
import type { SentCall } from './statement.ts';

/** Number of the statements of an application, and the places of those that are not known. */
export interface StatementScope {
  /** Number of statements that a database described. */
  readonly described: number;
  /** Number of statements of which no schema is known. */
  readonly other: number;
  /** Places of the calls that send a statement whose text is not known. */
  readonly unknown: readonly Place[];
}

/** Judges the SQL statements of an application. `describers` are its databases, by the names of their plugins. */
export async function judgeStatements(
  { plugins }: Pick<ApplicationView, 'plugins'>,
  { statements: finder, sources }: SourceReport,
  rules: readonly RuleText[],
  describers: ReadonlyMap<string, Describer>,
): Promise<{ readonly findings: readonly Finding[]; readonly scope: StatementScope }> {
  const all = plugins.filter(isMigratable);
  const databases = all.map(({ name }) => name);
  const partial = new Set(all.filter((plugin) => !hasFiles(plugin, describers)).map(({ name }) => name));
  const findings = await findStatements({ finder, sources, describers, databases, partial }, rules);
  return { findings, scope: scopeOf(finder.calls, databases, describers) };
}

/** Whether migrations of the application itself make the tables of a plugin. */
function hasFiles(plugin: Migratable, describers: ReadonlyMap<string, Describer>): boolean {
  const dialect = describers.get(plugin.name)?.dialect;
  return (
    dialect === undefined ||
    plugin.migrationsFor?.(dialect).some(({ isContributed }) => !isContributed) === true
  );
}

function scopeOf(
  calls: readonly SentCall[],
  databases: readonly string[],
  describers: ReadonlyMap<string, Describer>,
): StatementScope {
  const isDescribed = (call: SentCall): boolean => describers.has(databaseOf(call, databases) ?? '');
  const count = (of: readonly SentCall[]): number =>
    of.reduce((sum, { statements }) => sum + statements.size, 0);
  return {
    described: count(calls.filter(isDescribed)),
    other: count(calls.filter((call) => !isDescribed(call))),
    unknown: calls.flatMap(({ unknown }) =>
      unknown === undefined ? [] : [unknown.module.placeAt(unknown.node.start)],
    ),
  };
}
