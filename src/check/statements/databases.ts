/**
 * Opens the databases of an application to describe its statements, and judges the statements of its sources. Opens
 * nothing outside of the process: for SQLite, the migrations are applied in memory.
 */
import { thrown } from '../../routing/compile.ts';
import { databaseOf, findStatements } from './judge.ts';
import type { ApplicationView, RuleText } from '../check.ts';
import type { Finding, Place } from '../../base/findings.ts';
import type { Describer } from '../../db/describe/describer.ts';
import type { SourceReport } from '../source/examine.ts';
import type { SentCall } from './statement.ts';

/** A plugin that can describe statements. */
interface Describable {
  readonly name: string;
  openDescriber(): Promise<Describer | undefined>;
}

/** Number of the statements of an application, and the places of those that are not known. */
export interface StatementScope {
  /** Number of statements that a database described. */
  readonly described: number;
  /** Number of statements of which no schema is known. */
  readonly other: number;
  /** Places of the calls that send a statement whose text is not known. */
  readonly unknown: readonly Place[];
}

/** Judges the SQL statements of an application. */
export async function judgeStatements(
  { plugins }: Pick<ApplicationView, 'plugins'>,
  { statements: finder, sources }: SourceReport,
  rules: readonly RuleText[],
): Promise<{ readonly findings: readonly Finding[]; readonly scope: StatementScope }> {
  const describable = plugins.filter(isDescribable);
  const databases = describable.map(({ name }) => name);
  const describers = new Map<string, Describer>();
  const failed: Finding[] = [];
  try {
    for (const plugin of finder.calls.length === 0 ? [] : describable) {
      try {
        const describer = await plugin.openDescriber();
        if (describer !== undefined) describers.set(plugin.name, describer);
      } catch (error) {
        failed.push(unopened(plugin, error, rules));
      }
    }
    const found = await findStatements({ finder, sources, describers, databases }, rules);
    return { findings: [...failed, ...found], scope: scopeOf(finder.calls, databases, describers) };
  } finally {
    for (const describer of describers.values()) await describer[Symbol.asyncDispose]();
  }
}

function isDescribable<P extends object>(plugin: P): plugin is P & Describable {
  return 'openDescriber' in plugin && typeof plugin.openDescriber === 'function';
}

/** Returns the finding for migrations that cannot be applied. */
function unopened({ name }: Describable, error: unknown, rules: readonly RuleText[]): Finding {
  return {
    rule: 'SVC402',
    severity: 'warning',
    subject: `plugin ${name}`,
    message: `its statements were not checked, because its migrations cannot be applied: ${thrown(error)}`,
    remedy: rules.find(({ id }) => id === 'SVC402')!.remedy, // the catalogue has every rule
  };
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
