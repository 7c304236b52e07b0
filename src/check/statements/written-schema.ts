/**
 * Tables that SQL texts in the sources create: their columns, unique keys and foreign keys. Reads the statements only,
 * so no database is needed, and the dialect does not matter.
 */
import { walk } from '../reader/nodes.ts';
import { Outline } from './outline.ts';
import type { Project } from '../reader/modules.ts';
import type { Token } from './outline.ts';

/** A table as its statement declares it. All names are in lower case. */
export interface KnownTable {
  readonly name: string;
  readonly columns: readonly string[];
  /** Columns of the primary key and of each unique key. */
  readonly keys: readonly (readonly string[])[];
  readonly references: readonly Reference[];
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

/** Returns the tables that texts in the sources create, by their names. */
export function tablesIn(project: Project): ReadonlyMap<string, KnownTable> {
  const tables = new Map<string, KnownTable>();
  for (const text of sqlTexts(project)) {
    const { tokens } = new Outline(text, 'sqlite');
    tokens.forEach((token, index) => {
      if (token.word !== 'create') return;
      const found = tableAt(tokens, index) ?? keyAt(tokens, index, tables);
      if (found !== undefined) tables.set(found.name, found);
    });
  }
  return tables;
}

/** Returns the texts in the sources that create tables or keys. */
function sqlTexts({ modules }: Project): readonly string[] {
  const texts: string[] = [];
  for (const module of modules)
    walk(module.body, (node) => {
      const text = node.type === 'text' ? node.value : node.type === 'template' ? node.texts.join(' ') : '';
      if (/\bcreate\s/i.test(text)) texts.push(text);
    });
  return texts;
}

function tableAt(tokens: readonly Token[], create: number): KnownTable | undefined {
  const open = tokens.findIndex(({ text }, index) => index > create && text === '(');
  const head = open === -1 ? [] : tokens.slice(create, open);
  const name = head.at(-1)?.name;
  if (name === undefined || name === '' || !head.slice(1, 3).some(({ word }) => word === 'table'))
    return undefined;
  const columns: string[] = [];
  const keys: string[][] = [];
  const references: Reference[] = [];
  for (const part of partsOf(tokens, open)) {
    const [first] = part;
    if (first === undefined) continue;
    const own = CONSTRAINTS.test(first.word) ? undefined : first.name;
    if (own !== undefined) columns.push(own);
    const isKey = part.some(
      ({ word }, index) => word === 'unique' || (word === 'primary' && part[index + 1]?.word === 'key'),
    );
    const named = own === undefined ? namesIn(part) : [own];
    if (isKey) keys.push(named);
    const target = part[part.findIndex(({ word }) => word === 'references') + 1];
    const [column] = named;
    if (target !== undefined && target !== first && named.length === 1 && column !== undefined)
      references.push({ column, table: target.name });
  }
  return { name, columns, keys, references };
}

/** Returns a table with the columns of `create unique index … on table (…)`. */
function keyAt(
  tokens: readonly Token[],
  create: number,
  tables: ReadonlyMap<string, KnownTable>,
): KnownTable | undefined {
  if (tokens[create + 1]?.word !== 'unique') return undefined;
  const on = tokens.findIndex(({ word }, index) => index > create && word === 'on');
  const table = on === -1 ? undefined : tables.get(tokens[on + 1]?.name ?? '');
  const open = tokens.findIndex(({ text }, index) => index > on && text === '(');
  // a partial index leaves some rows out
  const isPartial = tokens.slice(on, on + 20).some(({ word }) => word === 'where');
  return table && open !== -1 && !isPartial
    ? { ...table, keys: [...table.keys, namesIn(tokens.slice(open))] }
    : undefined;
}

/** Returns the parts between commas in the parentheses at an index. */
function partsOf(tokens: readonly Token[], open: number): readonly (readonly Token[])[] {
  const depth = tokens[open]?.depth ?? 0;
  const end = tokens.findIndex((token, index) => index > open && token.text === ')' && token.depth === depth);
  const parts: Token[][] = [[]];
  for (const token of tokens.slice(open + 1, end === -1 ? undefined : end))
    if (token.text === ',' && token.depth === depth + 1) parts.push([]);
    else parts.at(-1)?.push(token);
  return parts;
}

/** Returns the names in the first parentheses. */
function namesIn(tokens: readonly Token[]): string[] {
  const open = tokens.findIndex(({ text }) => text === '(');
  return partsOf(tokens, open).flatMap(([first]) => (first === undefined || open === -1 ? [] : [first.name]));
}
