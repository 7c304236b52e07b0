/**
 * Finds risks of migrations while a deployment runs: statements of the previous release that the present schema breaks, because
 * both releases use one database (SVC422), columns that give rights by default, and changes that fail or wait on a table with
 * rows (SVC423).
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Outline, tableNamed } from './outline.ts';
import { migrationsOf } from './locked.ts';
import { judgeInsertion } from './value-judge.ts';
import { createsIndex, declaredColumns, dropsIndex, keepsIndex } from './written-schema.ts';
import type { Token } from './outline.ts';
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
    return { text, reason: description.message, names: namesOf(outline, description.message) };
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

const YES = /^(?:1|true|'t'|'true'|'1'|'y'|'yes')$/;
/** Columns with rights, and the defaults that give them. */
const RIGHTS: readonly (readonly [column: RegExp, given: RegExp])[] = [
  [/^(?:is_?)?(?:admin|administrator|superuser|staff|moderator|owner)$/, YES],
  [/^(?:is_?|e?mail_?|phone_?)?(?:verified|approved|confirmed)$/, YES],
  [/^(?:\w+_)?roles?$/, /^'(?:admin|administrator|superuser|superadmin|owner|root|staff|moderator)'$/],
];

interface Risk {
  readonly token: Token;
  readonly message: string;
  readonly remedy?: string;
  readonly why?: string;
}

/** Returns the columns of statements that have rights by default. */
export function rightsIn(text: string): readonly Risk[] {
  return declaredColumns(text).flatMap(({ table, part }) => {
    const [column] = part;
    const given = part[part.findIndex(({ word }) => word === 'default') + 1];
    const isGiven = RIGHTS.some(
      ([name, value]) => name.test(column?.name ?? '') && value.test(given?.text.toLowerCase() ?? ''),
    );
    if (column === undefined || given === undefined || !isGiven) return [];
    const message = `each row of the table "${table}" has "${column.name}" by default: ${given.text}`;
    return [{ token: column, message }];
  });
}

/** Returns what fails or waits on a table that an earlier migration has made. */
function delaysIn(text: string, old: ReadonlySet<string>, dialect: Migratable['dialect']): readonly Risk[] {
  const absent = declaredColumns(text)
    .filter(
      ({ table, isAdded }) => isAdded && old.has(table) && /^(?:postgres|sqlite)$/.test(dialect ?? 'sqlite'),
    )
    .filter(({ part }) => {
      const isRequired = part.some(({ word }, index) => word === 'not' && part[index + 1]?.word === 'null');
      return isRequired && !part.some(({ word }) => /^(?:default|generated|serial|bigserial|as)$/.test(word));
    })
    .map(({ table, part }) => ({
      token: part[0]!, // a part has a token
      why: 'A database in use has rows, so the migration fails there, although it succeeds on an empty one',
      message: `the rows that are in the table "${table}" have no value for the column "${part[0]!.name}", which is not null and has no default, so the migration fails`,
      remedy:
        'Add the column with a default, or without "not null", fill it, and require it in a later migration',
    }));
  const index = dialect === 'postgres' ? createsIndex(text) : undefined;
  if (index === undefined || !old.has(index.table)) return absent;
  return [
    ...absent,
    {
      token: index.token,
      message: `all writers of the table "${index.table}" wait until the index is complete`,
      why: 'A plain create index locks the table against writers, and for a large table it takes minutes',
      remedy: 'Write -- svc: no-transaction at the beginning of the file, and create index concurrently',
    },
  ];
}

/** Returns an index of which a migration may leave an invalid one, unless an earlier statement of it drops the index. */
function invalidIn(text: string, before: readonly string[]): readonly Risk[] {
  const found = keepsIndex(text);
  if (found === undefined || before.some((each) => dropsIndex(each, found.index))) return [];
  return [
    {
      token: found.token,
      message: `a build of the index "${found.index}" that fails leaves it invalid, and "if not exists" then keeps the invalid index`,
      why: 'An invalid index serves no query, and a unique one does not hold for all rows, although the migration counts as applied',
      remedy: `Write before it: drop index concurrently if exists ${found.index}; and leave "if not exists" out`,
    },
  ];
}

/** Returns the findings about the migrations of databases. */
export function riskyMigrations(
  plugins: readonly Migratable[],
  { severity, remedy: usual }: Pick<RuleText, 'severity' | 'remedy'>,
): readonly Finding[] {
  return plugins.flatMap((plugin) => {
    const old = new Set<string>();
    return readableIn(plugin).flatMap(({ isContributed, up }) => {
      const file = pathToFileURL(resolve(up.origin)).href;
      const found = (isContributed ? [] : up.statements).flatMap(({ text, line }, index) =>
        [
          ...rightsIn(text),
          ...delaysIn(text, old, plugin.dialect),
          ...(plugin.dialect === 'postgres'
            ? invalidIn(
                text,
                up.statements.slice(0, index).map((each) => each.text),
              )
            : []),
        ].map(({ token, message, why, remedy = usual }): Finding => ({
          rule: 'SVC423',
          severity,
          subject: `database ${plugin.name}`,
          message,
          ...(why !== undefined && { why }),
          remedy,
          place: { file, line: line + text.slice(0, token.start).split('\n').length - 1, column: 1 },
        })),
      );
      for (const { text } of up.statements)
        for (const { table, isAdded } of declaredColumns(text)) if (!isAdded) old.add(table);
      return found;
    });
  });
}

/** Returns the migrations of a plugin; none if they cannot be read. */
export function readableIn(plugin: Migratable): ReturnType<NonNullable<Migratable['migrationsFor']>> {
  try {
    return plugin.migrationsFor?.() ?? [];
  } catch {
    return []; // SVC402 reports migrations that cannot be read
  }
}
