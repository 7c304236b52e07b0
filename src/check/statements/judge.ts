/**
 * Describes the statements of the sources by the engines of their databases, and returns the findings: statements that
 * an engine refuses (SVC411), and problems of the rows and values of the other ones (SVC412 ... SVC419).
 *
 * A call may send several texts, of which some may be impossible: two conditions may depend on each other. So a refused
 * text counts only if it has a piece without which no accepted text is.
 */
import { nearest } from '../../base/options.ts';
import { beginnings } from '../../base/findings.ts';
import { isOnlyInDevelopment } from '../reader/once.ts';
import { isInPage } from '../sources.ts';
import { subjectOf } from '../examine.ts';
import { conditionAround, dependsOn } from '../reader/nodes.ts';
import { tableNamed } from './outline.ts';
import { judgeRows } from './row-judge.ts';
import { judgeInsertion, judgeValues } from './value-judge.ts';
import { ANY } from './finder.ts';
import { textsOf } from './statement.ts';
import type { Sources } from '../sources.ts';
import type { RuleText } from '../check.ts';
import type { Finding } from '../../base/findings.ts';
import type { Description, Refused } from '../../db/describe/describer.ts';
import type { TableDescription } from '../../db/tables.ts';
import type { Node } from '../reader/nodes.ts';
import type { Outline } from './outline.ts';
import type { StatementFinder } from './finder.ts';
import type { Problem, SentCall, SentText, Statement, StatementDescriber } from './statement.ts';

/** Statements of a project, with the databases that describe them. */
interface StatementSources {
  readonly finder: StatementFinder;
  readonly sources: Sources;
  /** Open databases with the schema of the migrations, by the names of their plugins. */
  readonly describers: ReadonlyMap<string, StatementDescriber>;
  /** Names of all plugins that have a database. */
  readonly databases: readonly string[];
  /** Plugins whose database has tables that no file of migrations makes. */
  readonly partial?: ReadonlySet<string>;
  /** New names of the tables and columns that migrations rename, by the old ones. */
  readonly renamed?: ReadonlyMap<string, string> | undefined;
}

interface Judged extends SentText {
  readonly description: Description;
}

/** A call with the database that describes its statements. */
interface Judging extends Pick<StatementSources, 'finder' | 'renamed' | 'sources'> {
  readonly call: SentCall;
  readonly describer: StatementDescriber;
}

/** Returns the findings about the statements of a project. */
export async function findStatements(
  { finder, sources, describers, databases, partial, renamed }: StatementSources,
  rules: readonly RuleText[],
): Promise<Finding[]> {
  const findings = new Map<string, Finding>();
  const texts = new Map(rules.map((rule) => [rule.id, rule]));
  const changed = tablesChangedBy(sources);
  for (const call of finder.calls) {
    const database = databaseOf(call, databases) ?? '';
    const describer = describers.get(database);
    if (describer === undefined || describer.tables.length === 0 || isLeftOut(call, sources)) continue;
    const judged = await describeAll(call, describer);
    const known = new Set(describer.tables.map(({ name }) => name.toLowerCase()));
    const isOfMigrations = ({ outline }: Judged): boolean =>
      outline.tables.every(
        ({ name }) =>
          !changed.has(name.split('.').at(-1)!) && (partial?.has(database) !== true || known.has(name)),
      );
    for (const each of judged.filter(isOfMigrations)) {
      const choices = call.verb === 'script' ? [each] : judged;
      for (const problem of problemsOf(each, choices, { call, describer, finder, sources, renamed })) {
        const { rule, message, start } = problem;
        const { severity, remedy: usual } = texts.get(rule)!; // `texts` holds every rule of the catalogue
        const place = each.statement.placeAt(each.start + start, describer.dialect);
        const remedy = problem.remedy ?? usual;
        const subject = subjectOf(call.call, call.module, sources);
        const finding: Finding = { rule, severity, subject, message, remedy, place };
        beginnings.set(finding, each.statement.placeAt(0, describer.dialect));
        findings.set(`${rule} ${place.file} ${place.line} ${place.column} ${message}`, finding);
      }
    }
  }
  return [...findings.values()];
}

const CHANGES =
  /\b(?:create\s+(?:(?:temp|temporary|virtual|or\s+replace|materialized|unlogged)\s+)*(?:table|view)|alter\s+table)\s+(?:if\s+(?:not\s+)?exists\s+)?(?:\w+\.)?["`[]?(\w+)/gi;

/** Returns the tables that the sources create or change themselves, in lower case. No migration knows them. */
function tablesChangedBy(sources: Sources): ReadonlySet<string> {
  const texts = [
    ...sources.all('text').map(({ node }) => node.value),
    ...sources.all('template').flatMap(({ node }) => node.texts),
  ];
  return new Set(texts.flatMap((text) => [...text.matchAll(CHANGES)].map(([, name]) => name!.toLowerCase())));
}

/** Returns the name of the plugin whose database receives a call; undefined if it is not known. */
export function databaseOf({ database }: SentCall, databases: readonly string[]): string | undefined {
  if (database !== ANY) return database;
  return databases.length === 1 ? databases[0] : undefined;
}

function isLeftOut({ call, module }: SentCall, sources: Sources): boolean {
  return sources.isOfBrowser(module) || isInPage(call) || isOnlyInDevelopment(call, module);
}

async function describeAll(call: SentCall, describer: StatementDescriber): Promise<readonly Judged[]> {
  const judged: Judged[] = [];
  for (const sent of textsOf(call, describer.dialect))
    judged.push({ ...sent, description: await describer.describeStatement(sent.text) });
  return judged;
}

function problemsOf(
  { statement, outline, description }: Judged,
  all: readonly Judged[],
  judging: Judging,
): readonly Problem[] {
  const { call, describer, finder, sources } = judging;
  const { dialect, tables, snakeCase, isLocked } = describer;
  if (description.kind === 'untold') {
    if (isLocked !== true || description.reason !== 'absent') return [];
    const message = 'the file of --statements does not know the statement, so no database has judged it';
    return [{ rule: 'SVC421', message, start: outline.tokens[0]?.start ?? 0 }];
  }
  if (description.kind === 'refused') {
    const isReported =
      isPossible(statement, all) &&
      (statement.isCertain || !isOfSyntax(description)) &&
      !isJoined(description, outline, all) &&
      (!statement.isPartial || unknownIn(description.message) !== undefined) &&
      !ATTACHED.test(description.message) &&
      !isOfOneEngine(statement, call);
    return isReported ? [refusal(description, outline, judging)] : [];
  }
  const { values } = statement;
  const needed = description.parameters.length;
  if (values !== undefined && values.length !== needed)
    return all.length === 1 ? [wrongNumber(needed, values.length, outline)] : [];
  if (statement.isPartial) return [];
  const kinds = description.parameters.map(({ kind }) => kind);
  return [
    ...judgeRows({ call, described: description, outline, dialect, snakeCase: call.snakeCase ?? snakeCase }),
    ...(values === undefined ? [] : judgeValues(outline, values, describer, kinds)),
    ...judgeInsertion(outline, tables),
    ...(isOnlyTested(call, sources) ? [] : judgeFetchOne(call, outline, tables)),
    ...judgeStar(call, outline, finder),
  ];
}

/** Whether a refused text has a piece without which no accepted text of the call is. */
function isPossible(statement: Statement, all: readonly Judged[]): boolean {
  const accepted = all.filter(({ description }) => description.kind !== 'refused');
  if (accepted.length === 0) return true;
  const used = new Set(accepted.flatMap((each) => idsOf(each.statement)));
  return idsOf(statement).some((id) => !used.has(id));
}

function idsOf({ pieces }: Statement): readonly string[] {
  return pieces.map(({ module, start, text }) => `${module.file} ${start} ${text}`);
}

/**
 * Whether a word that joins conditions is wrong, while another text of the call is accepted. The program then decides
 * by what the text already has, such as `text += (hasWhere ? ' and ' : ' where ') + condition`.
 */
function isJoined(refused: Refused, outline: Outline, all: readonly Judged[]): boolean {
  const wrong = outline.tokens.find(({ start }) => start === refused.position)?.text ?? '';
  return (
    isOfSyntax(refused) &&
    /^(?:and|or|where|having|set|,)$/i.test(wrong) &&
    all.some(({ description }) => description.kind !== 'refused')
  );
}

/** Messages of SQLite about tables of other databases, which `attach` adds at run time. */
const ATTACHED = /^(?:unknown database|no such table: (?!(?:main|temp)\.)\w+\.)/;
const ENGINE = /dialect|sqlite|postgres|mysql|mariadb/i;

/** Whether a part of a statement, or its call, depends on a condition about the engine. */
function isOfOneEngine({ pieces }: Statement, { call, module }: SentCall): boolean {
  return [{ node: call, module }, ...pieces].some((spot) => dependsOn(spot.node, spot.module, ENGINE));
}

function isOfSyntax({ code, message }: Refused): boolean {
  return code === '42601' || code === 'E_DB_STATEMENT' || /syntax/i.test(message);
}

/** Messages of the engines about names that they do not know, some with the table of the column. */
const UNKNOWN: readonly (readonly [kind: 'table' | 'column', pattern: RegExp])[] = [
  ['table', /no such table: (?:\w+\.)?(?<name>.+)$/],
  ['table', /^relation "(?<name>[^"]+)" does not exist/],
  ['table', /Table '(?:[^'.]+\.)?(?<name>[^']+)' doesn't exist/],
  ['column', /no such column: (?:[^.]+\.)?(?<name>.+)$/],
  ['column', /table (?<table>\S+) has no column named (?<name>.+)$/],
  ['column', /column "?(?:[\w]+\.)?(?<name>[^" ]+)"? (?:of relation "(?<table>[^"]+)" )?does not exist/],
  ['column', /Unknown column '(?:[^'.]+\.)*(?<name>[^']+)'/],
];

interface UnknownName {
  readonly kind: 'table' | 'column';
  readonly name: string;
  /** Table that lacks the column; undefined if the message does not name it. */
  readonly table: string | undefined;
}

/** Returns the name that a message does not know. */
function unknownIn(message: string): UnknownName | undefined {
  return UNKNOWN.flatMap(([kind, pattern]) => {
    const { name, table } = pattern.exec(message)?.groups ?? {};
    return name === undefined ? [] : [{ kind, name, table }];
  })[0];
}

function refusal({ message, position }: Refused, outline: Outline, judging: Judging): Problem {
  const start = position ?? outline.tokens[0]?.start ?? 0;
  const found = unknownIn(message);
  const near = found && nearestName(found, outline, judging);
  const remedy =
    near === undefined ? undefined : `Write "${near}", or add a migration that makes "${found?.name}"`;
  return { rule: 'SVC411', message: `the database refuses the statement: ${message}`, remedy, start };
}

/** Returns the new name of a table or column that a migration renames, else the most similar name. */
function nearestName(
  { kind, name, table: lacking }: UnknownName,
  outline: Outline,
  { describer: { tables }, renamed }: Judging,
): string | undefined {
  const used = tables.filter((table) =>
    lacking === undefined
      ? outline.tables.some((each) => each.name === table.name.toLowerCase())
      : table.name === lacking,
  );
  const names =
    kind === 'table'
      ? tables.map((table) => table.name)
      : used.flatMap(({ columns }) => columns.map((column) => column.name));
  let next = renamed?.get(name.toLowerCase());
  // a later migration may rename it once more
  for (let count = 0; next !== undefined && !names.includes(next) && count < names.length; count++)
    next = renamed?.get(next);
  if (next !== undefined && names.includes(next)) return next;
  const most = Math.max(1, Math.min(3, Math.floor(name.length / 3)));
  return nearest(name, names, most) ?? (kind === 'table' ? undefined : partOf(name, names));
}

/** Returns the only name that contains another one, or is contained in it: `title` for `note_title`. */
function partOf(name: string, names: readonly string[]): string | undefined {
  const [found, ...more] = names.filter(
    (each) => each.length > 2 && (each.includes(name) || name.includes(each)),
  );
  return more.length === 0 ? found : undefined;
}

function wrongNumber(needed: number, given: number, outline: Outline): Problem {
  const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;
  return {
    rule: 'SVC411',
    message: `the statement has ${count(needed, 'placeholder')}, but the call passes ${count(given, 'value')}`,
    remedy: 'Pass one value for each placeholder. In an sql template, write each value as ${…}',
    start: (outline.placeholders[given] ?? outline.placeholders.at(-1) ?? outline.tokens[0])?.start ?? 0,
  };
}

const SHAPES_ROWS = /^(?:limit|order|group|having|union|intersect|except|join|with|fetch|distinct)$/;

/** Whether code only asks whether a call has found a row: `if ((await db.fetchOne(…)) !== undefined)`, also by a variable. */
function isOnlyTested({ call, module }: SentCall, sources: Sources): boolean {
  const row = call.parent?.type === 'await' ? call.parent : call;
  const { parent } = row;
  if (parent?.type !== 'declarator' || parent.target.type !== 'name') return isTest(row);
  const uses = sources.usesOf(parent, parent.target.name).filter((each) => each.module === module);
  return uses.length > 0 && uses.every(({ node }) => isTest(node));
}

/** Whether an expression says only whether there is a value: the condition of a branch, or a comparison with `undefined`. */
function isTest(node: Node): boolean {
  const { parent } = node;
  if (parent?.type === 'binary' && /^[!=]==?$/.test(parent.operator)) return true;
  if (parent?.type === 'unary' && parent.operator === '!') return true;
  const { whole } = conditionAround(node, /^(?:&&|\|\|)$/);
  const around = whole.parent;
  return (around?.type === 'if' || around?.type === 'choice') && around.test === whole;
}

/** A `fetchOne()` whose conditions fit several rows. */
function judgeFetchOne(
  { verb }: SentCall,
  outline: Outline,
  tables: readonly TableDescription[],
): readonly Problem[] {
  const [used, ...more] = outline.tables;
  const { equalities } = outline;
  if (verb !== 'fetchOne' || outline.verb !== 'select' || used === undefined || more.length > 0) return [];
  const table = tableNamed(tables, used.name);
  const keys = table === undefined ? [] : keysOf(table);
  if (equalities === undefined || keys.length === 0 || outline.has(SHAPES_ROWS)) return [];
  const isAggregate = outline.tokens.some(
    ({ word }, index) => AGGREGATE.test(word) && outline.tokens[index + 1]?.text === '(',
  );
  if (isAggregate) return []; // it returns one row
  const fixed = new Set(equalities.map(({ column }) => column));
  if (keys.some((key) => key.every((column) => fixed.has(column.toLowerCase())))) return [];
  const where = outline.tokens.find(({ word, depth }) => word === 'where' && depth === 0);
  const message = `several rows of the table "${table!.name}" may match, and fetchOne() returns any one of them: its unique keys are ${keys.map((key) => `(${key.join(', ')})`).join(' and ')}`;
  return [{ rule: 'SVC418', message, start: where?.start ?? 0 }];
}

const AGGREGATE =
  /^(?:count|sum|total|avg|min|max|group_concat|string_agg|json_\w*agg\w*|jsonb_\w*agg\w*|array_agg|bool_and|bool_or|every)$/;

function keysOf({ primaryKey, uniqueKeys }: TableDescription): readonly (readonly string[])[] {
  return [...(primaryKey.length === 0 ? [] : [primaryKey]), ...uniqueKeys];
}

/** A `select *` whose rows a response contains as they are. */
function judgeStar(call: SentCall, outline: Outline, finder: StatementFinder): readonly Problem[] {
  if (!outline.hasStar || call.as !== undefined || !finder.isReplied(call)) return [];
  const star = outline.tokens.find(({ text, depth }) => text === '*' && depth === 0);
  const message = 'the response contains every column of the rows, also columns that later migrations add';
  return [{ rule: 'SVC419', message, start: star?.start ?? 0 }];
}
