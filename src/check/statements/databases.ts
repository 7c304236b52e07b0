/** Judges the statements of the sources by the databases of an application, and counts them. */
import { databaseOf, findStatements } from './judge.ts';
import type { ApplicationView, RuleText } from '../check.ts';
import type { Finding, Place } from '../../base/findings.ts';
import type { Describer } from '../../db/describe/describer.ts';
import type { SourceReport } from '../source/examine.ts';
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
  const databases = plugins.filter((plugin) => 'openDescriber' in plugin).map(({ name }) => name);
  const findings = await findStatements({ finder, sources, describers, databases }, rules);
  return { findings, scope: scopeOf(finder.calls, databases, describers) };
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
