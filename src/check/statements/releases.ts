/**
 * Prepares the statements of the previous release on the present schema: while a deployment runs, both releases use
 * one database. Reports the migration that breaks a statement.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Outline, tableNamed } from './outline.ts';
import { migrationsOf } from './locked.ts';
import { judgeInsertion } from './value-judge.ts';
import type { RuleText } from '../check.ts';
import type { Finding, Place } from '../../base/findings.ts';
import type { Describer } from '../../db/describe/describer.ts';
import type { Migratable } from '../../db/migrations/start.ts';
import type { MigrationStamp } from '../../db/migrations/source.ts';
import type { TableColumn, TableDescription } from '../../db/tables.ts';
import type { LockedDatabase } from './lock.ts';

/** A statement of the previous release that fails, with the name that a migration has removed or narrowed. */
interface Broken {
  readonly text: string;
  readonly reason: string;
  readonly names: readonly string[];
}

/** Returns the findings about statements of the previous release that the present schema breaks. */
export async function brokenStatements(
  previous: readonly LockedDatabase[],
  plugins: readonly Migratable[],
  describers: ReadonlyMap<string, Describer>,
  rule: RuleText,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const database of previous) {
    const plugin = plugins.find(({ name }) => name === database.name);
    const describer = describers.get(database.name);
    if (plugin === undefined || describer?.dialect !== database.dialect) continue;
    const fresh = newMigrations(database, plugin);
    if (fresh.length === 0) continue;
    for (const text of database.statements.keys()) {
      const broken = await breakageOf(text, database, describer);
      if (broken !== undefined) findings.push(findingOf(broken, database, fresh, rule));
    }
  }
  return findings;
}

function newMigrations(
  { dialect, migrations }: LockedDatabase,
  plugin: Migratable,
): readonly MigrationStamp[] {
  const present = migrationsOf(plugin, dialect);
  const isKnown = (index: number): boolean =>
    migrations.some(({ id, checksum }) => id === present[index]!.id && checksum === present[index]!.checksum);
  return (plugin.migrationsFor?.(dialect) ?? []).filter((_, index) => !isKnown(index));
}

async function breakageOf(
  text: string,
  { tables, dialect }: LockedDatabase,
  describer: Describer,
): Promise<Broken | undefined> {
  const description = await describer.describeStatement(text);
  const outline = new Outline(text, dialect);
  if (description.kind === 'refused')
    return {
      text,
      reason: description.message,
      names: namesOf(outline, description.message),
    };
  const [absent] = judgeInsertion(outline, describer.tables);
  if (absent !== undefined && judgeInsertion(outline, tables).length === 0)
    return { text, reason: absent.message, names: namesIn(absent.message) };
  const narrowed = narrowedBy(outline, tables, describer.tables);
  return narrowed && { text, ...narrowed };
}

/** Returns the names of a statement that a message has. */
function namesOf(outline: Outline, message: string): readonly string[] {
  const said = new Set(message.toLowerCase().match(/\w+/g));
  return outline.tokens.map(({ name }) => name).filter((name) => name.length > 2 && said.has(name));
}

function namesIn(message: string): readonly string[] {
  return [...message.matchAll(/"([^"]+)"/g)].map(([, name]) => name!.toLowerCase());
}

/** Returns the column to which a statement writes, and which holds less than before. */
function narrowedBy(
  outline: Outline,
  before: readonly TableDescription[],
  after: readonly TableDescription[],
): Omit<Broken, 'text'> | undefined {
  for (const placeholder of outline.placeholders) {
    const target = outline.target(placeholder);
    const used = outline.tables.find(({ alias }) => target?.table === undefined || alias === target.table);
    if (target === undefined || used === undefined) continue;
    const [old, present] = [before, after].map((tables) => columnIn(tables, used.name, target.column));
    const [most, least] = [lengthOf(old), lengthOf(present)];
    if (old !== undefined && present !== undefined && least < most)
      return {
        reason: `the column "${present.name}" holds at most ${least} characters now, and held ${most === Infinity ? 'any number' : most}`,
        names: [used.name, target.column],
      };
  }
  return undefined;
}

function columnIn(
  tables: readonly TableDescription[],
  table: string,
  column: string,
): TableColumn | undefined {
  return tableNamed(tables, table)?.columns.find(({ name }) => name.toLowerCase() === column);
}

function lengthOf(column: TableColumn | undefined): number {
  return column?.type.kind === 'str' ? (column.type.options?.['maxLength'] ?? Infinity) : Infinity;
}

const CHANGES = /\b(?:drop|rename|alter|not\s+null|create)\b/i;

function findingOf(
  { text, reason, names }: Broken,
  { name }: LockedDatabase,
  fresh: readonly MigrationStamp[],
  { severity, remedy }: RuleText,
): Finding {
  const scored = fresh.map((migration) => {
    const sql = migration.up.statements.map((statement) => statement.text.toLowerCase()).join('\n');
    return { migration, hits: CHANGES.test(sql) ? names.filter((each) => sql.includes(each)).length : 0 };
  });
  const { migration } = scored.reduce((best, each) => (each.hits > best.hits ? each : best));
  const label = migration.isContributed ? migration.id : `${migration.id}_${migration.name}`;
  return {
    rule: 'SVC422',
    severity,
    subject: `database ${name}`,
    message: `the migration ${label} breaks a statement of the previous release: ${reason}; the statement is ${JSON.stringify(shortened(text))}`,
    remedy,
    place: placeIn(migration, names),
  };
}

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > 120 ? `${line.slice(0, 117)}...` : line;
}

/** Returns the first line of a migration that has one of the names. */
function placeIn({ isContributed, up }: MigrationStamp, names: readonly string[]): Place | undefined {
  if (isContributed) return undefined;
  try {
    const lines = readFileSync(up.origin, 'utf8').toLowerCase().split('\n');
    const counts = lines.map((line) => names.filter((name) => line.includes(name)).length);
    const line = counts.indexOf(Math.max(...counts)) + 1;
    return { file: pathToFileURL(resolve(up.origin)).href, line, column: 1 };
  } catch {
    return undefined; // the file was read before, and is gone now
  }
}
