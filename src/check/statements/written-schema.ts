/**
 * Tables that SQL texts create, in migrations and in the sources: their columns, unique keys and foreign keys. Reads the
 * statements only, so no database is needed, and the dialect does not matter.
 */
import { Outline, insideOf, splitAt, tableAt } from './outline.ts';
import type { Token } from './outline.ts';

/** A table as its statement declares it. All names are in lower case, with the schema unless that is the default one. */
export interface KnownTable {
  readonly name: string;
  readonly columns: readonly string[];
  /** Columns of the primary key and of each unique key. */
  readonly keys: readonly (readonly string[])[];
  readonly references: readonly Reference[];
  /** Columns of texts that MySQL and MariaDB compare without case, unless the database has another collation. */
  readonly caseless: readonly string[];
}

/** A foreign key of one column. */
interface Reference {
  readonly column: string;
  readonly table: string;
}

/** Whether columns name one row at most: a key of the table is among them. */
export function holdsKey({ keys }: Pick<KnownTable, 'keys'>, columns: readonly string[]): boolean {
  return keys.some((key) => key.every((column) => columns.includes(column)));
}

const CONSTRAINTS = /^(?:constraint|primary|unique|foreign|check|exclude|key|index|like|fulltext)$/;

/** Names by which statements drop keys. */
const keyNames = new WeakMap<readonly string[], string>();

/** Returns the tables that statements in texts create, by their names. */
export function tablesIn(texts: Iterable<string>): ReadonlyMap<string, KnownTable> {
  const tables = new Map<string, KnownTable>();
  for (const text of texts) {
    const { tokens } = new Outline(text, 'sqlite');
    tokens.forEach(({ word }, index) => {
      const found =
        word === 'create'
          ? (createdAt(tokens, index) ?? keyAt(tokens, index, tables))
          : word === 'alter' && tokens[index + 1]?.word === 'table'
            ? changeAt(tokens, index, tables)
            : undefined;
      if (found !== undefined) tables.set(found.name, found);
      if (word === 'drop' && /^(?:index|constraint)$/.test(tokens[index + 1]?.word ?? '')) {
        const gone = tokens[tokens[index + 2]?.word === 'if' ? index + 4 : index + 2]?.name;
        for (const table of tables.values())
          tables.set(table.name, { ...table, keys: table.keys.filter((key) => keyNames.get(key) !== gone) });
      }
    });
  }
  return tables;
}

/** A column in `create table`, or one that `alter table` adds, with its tokens. */
interface DeclaredColumn {
  readonly table: string;
  readonly part: readonly Token[];
  readonly isAdded: boolean;
}

/** Returns the columns that statements in a text declare. */
export function declaredColumns(text: string): readonly DeclaredColumn[] {
  const { tokens } = new Outline(text, 'sqlite');
  return tokens.flatMap(({ word }, index) => {
    const isAdded = word === 'alter' && tokens[index + 1]?.word === 'table';
    const [table, parts] =
      (isAdded ? addedAt(tokens, index) : word === 'create' && madeAt(tokens, index)) || [];
    return (parts ?? [])
      .filter(([first]) => first !== undefined && !CONSTRAINTS.test(first.word))
      .map((part) => ({ table: table!, part, isAdded })); // a table has the parts
  });
}

/** Returns the first index that a text creates while writers wait, with its table. */
export function createsIndex(text: string): { readonly table: string; readonly token: Token } | undefined {
  const { tokens } = new Outline(text, 'postgres');
  const at = tokens.findIndex(({ word }) => word === 'index');
  const on = tokens.findIndex(({ word }, index) => index > at && word === 'on');
  const isCreated = tokens.slice(0, at).some(({ word }) => word === 'create');
  return at === -1 || on === -1 || !isCreated || tokens[at + 1]?.word === 'concurrently'
    ? undefined
    : { table: tableAt(tokens, on + 1).name, token: tokens[at]! };
}

/** Returns the index that a text creates concurrently unless it exists. */
export function keepsIndex(text: string): { readonly index: string; readonly token: Token } | undefined {
  const { tokens } = new Outline(text, 'postgres');
  const at = tokens.findIndex(({ word }) => word === 'concurrently');
  const written = tokens.slice(0, at + 4).map(({ word }) => word);
  const isKept = /^create (?:unique )?index concurrently if not exists$/.test(written.join(' '));
  return isKept ? { index: tableAt(tokens, at + 4).name, token: tokens[at - 1]! } : undefined;
}

/** Whether a text drops an index. */
export function dropsIndex(text: string, index: string): boolean {
  const [first, second, ...rest] = new Outline(text, 'postgres').tokens;
  return first?.word === 'drop' && second?.word === 'index' && rest.some(({ name }) => name === index);
}

/** Returns the new names of tables and columns that statements in texts rename, by the old ones. */
export function newNames(texts: Iterable<string>): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const text of texts) {
    const { tokens } = new Outline(text, 'sqlite');
    tokens.forEach(({ word }, index) => {
      if (word !== 'rename' && word !== 'change') return;
      const at = tokens[index + 1]?.word === 'column' ? index + 2 : index + 1;
      const isTable = tokens[at]?.word === 'to';
      const old = tokens[isTable ? index - 1 : at]?.name;
      const next = tokens[word === 'change' || isTable ? at + 1 : at + 2]?.name;
      if (old && next) names.set(old, next);
    });
  }
  return names;
}

type Parts = readonly (readonly Token[])[];

function createdAt(tokens: readonly Token[], create: number): KnownTable | undefined {
  const made = madeAt(tokens, create);
  if (made === undefined) return undefined;
  const [name, parts, open] = made;
  const table = withParts({ name, columns: [], keys: [], references: [], caseless: [] }, parts);
  const end = tokens.findIndex(
    ({ text, depth }, index) => index > open && text === ')' && depth === tokens[open]!.depth,
  );
  return isBinary(statementAt(tokens, end)) ? { ...table, caseless: [] } : table;
}

/** Returns the name of the table that a statement creates, what stands in its parentheses, and where they open. */
function madeAt(
  tokens: readonly Token[],
  create: number,
): readonly [name: string, parts: Parts, open: number] | undefined {
  const open = tokens.findIndex(({ text }, index) => index > create && text === '(');
  const head = open === -1 ? [] : tokens.slice(create, open);
  const name = nameBefore(tokens, open);
  if (name === '' || !head.slice(1, 3).some(({ word }) => word === 'table')) return undefined;
  return [name, partsOf(tokens, open), open];
}

/** Returns a table with what `alter table … add …` adds, or with its new name. */
function changeAt(
  tokens: readonly Token[],
  alter: number,
  tables: ReadonlyMap<string, KnownTable>,
): KnownTable | undefined {
  const words = statementAt(tokens, alter);
  const first = words.findIndex(({ word }) => /^(?:add|rename|modify|change|convert)$/.test(word));
  const table = tables.get(nameBefore(words, first));
  if (table === undefined) return undefined;
  if (/^(?:modify|change|convert)$/.test(words[first]!.word))
    return isBinary(words) ? { ...table, caseless: [] } : undefined;
  if (words[first]!.word === 'rename')
    return words[first + 1]?.word === 'to' ? { ...table, name: words[first + 2]?.name ?? '' } : undefined;
  return withParts(table, addedAt(tokens, alter)[1]);
}

function statementAt(tokens: readonly Token[], start: number): readonly Token[] {
  const end = tokens.findIndex(({ text }, index) => index > start && text === ';');
  return tokens.slice(start, end === -1 ? undefined : end);
}

/** Returns the name of the table that a statement alters, and what it adds. */
function addedAt(tokens: readonly Token[], alter: number): readonly [name: string, parts: Parts] {
  const words = statementAt(tokens, alter);
  const first = words.findIndex(({ word }) => word === 'add');
  const parts = splitAt(words.slice(first), isComma(0)).filter(([add]) => add?.word === 'add');
  return [
    nameBefore(words, first),
    parts.map((part) =>
      part.slice(part.findIndex(({ word }) => !/^(?:add|column|if|not|exists)$/.test(word))),
    ),
  ];
}

/** Returns a table with columns and constraints, each of which is one part. */
function withParts(table: KnownTable, parts: Parts): KnownTable {
  const columns = [...table.columns];
  const keys = [...table.keys];
  const references = [...table.references];
  const caseless = [...table.caseless];
  for (const part of parts) {
    const [first] = part;
    if (first === undefined) continue;
    const own = CONSTRAINTS.test(first.word) ? undefined : first.name;
    if (own !== undefined) columns.push(own);
    if (own !== undefined && TEXT.test(part[1]?.word ?? '') && !isBinary(part)) caseless.push(own);
    const isKey = part.some(
      ({ word }, index) => word === 'unique' || (word === 'primary' && part[index + 1]?.word === 'key'),
    );
    const named = own === undefined ? namesIn(part) : [own];
    if (isKey) {
      keys.push(named);
      const name = `${table.name}_${named.join('_')}_key`;
      keyNames.set(named, first.word === 'constraint' ? (part[1]?.name ?? name) : name);
    }
    const to = part.findIndex(({ word }) => word === 'references');
    const [column] = named;
    if (to !== -1 && named.length === 1 && column !== undefined)
      references.push({ column, table: tableAt(part, to + 1).name });
  }
  return { ...table, columns, keys, references, caseless };
}

const TEXT = /^(?:n?(?:var)?char|(?:tiny|medium|long)?text)$/;

/** Whether options of a column or table choose a collation that tells letters by their case. */
function isBinary(tokens: readonly Token[]): boolean {
  return tokens.some(({ name }) => /(?:^|_)(?:bin|binary|cs)$/.test(name));
}

/** Returns the name of the table that ends before a token. */
function nameBefore(tokens: readonly Token[], index: number): string {
  return tableAt(tokens, tokens[index - 2]?.text === '.' ? index - 3 : index - 1).name;
}

/** Returns a table with the columns of `create unique index … on table (…)`. */
function keyAt(
  tokens: readonly Token[],
  create: number,
  tables: ReadonlyMap<string, KnownTable>,
): KnownTable | undefined {
  if (tokens[create + 1]?.word !== 'unique') return undefined;
  const on = tokens.findIndex(({ word }, index) => index > create && word === 'on');
  const only = tokens[on + 1]?.word === 'only' ? 1 : 0;
  const table = on === -1 ? undefined : tables.get(tableAt(tokens, on + 1 + only).name);
  const open = tokens.findIndex(({ text }, index) => index > on && text === '(');
  // a partial index leaves some rows out, so no columns hold its key
  const partial = tokens.slice(on, on + 20).some(({ word }) => word === 'where') ? [''] : [];
  if (table === undefined || open === -1) return undefined;
  const key = [...namesIn(tokens.slice(open)), ...partial];
  keyNames.set(key, tokens[on - 1]?.name ?? '');
  return { ...table, keys: [...table.keys, key] };
}

/** Returns the parts between commas in the parentheses at an index. */
function partsOf(tokens: readonly Token[], open: number): Parts {
  return splitAt(insideOf(tokens, open), isComma((tokens[open]?.depth ?? 0) + 1));
}

function isComma(at: number): (token: Token) => boolean {
  return ({ text, depth }) => text === ',' && depth === at;
}

/** Returns the names in the first parentheses. */
function namesIn(tokens: readonly Token[]): string[] {
  const open = tokens.findIndex(({ text }) => text === '(');
  return partsOf(tokens, open).flatMap(([first]) => (first === undefined || open === -1 ? [] : [first.name]));
}
