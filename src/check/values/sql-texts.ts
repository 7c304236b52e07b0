/**
 * Texts of SQL templates: each value that a template binds becomes a piece `?`, and a template within a template
 * becomes a part of its text. Knows the functions of `sql`, and the lists that pages read.
 */
import { SQL } from './effects.ts';
import { itemOf, memberOfSource } from './inputs.ts';
import { constantIn } from './tests.ts';
import { constantOf } from './text.ts';
import * as values from './value.ts';
import type { Spot } from '../reader/modules.ts';
import type { Bound, Made, Piece, Text } from './text.ts';
import type { Value } from './value.ts';

/** An expression with its value. */
interface Written extends Spot {
  readonly value: Value;
}

/** A call of a function of `sql`, with the values of its arguments. */
interface SqlCall extends Spot {
  readonly args: readonly Value[];
}

const { ABSENT, KNOWN } = values;

/** Values of pieces `?`. They are not in the pieces, because texts are parts of values. */
const boundValues = new WeakMap<Bound, Value>();

/** Returns the value that a piece `?` of an SQL template binds. */
export function boundValue({ bound }: Piece): Value | undefined {
  return bound && boundValues.get(bound);
}

/** Returns the values that an SQL template binds. */
export function boundIn({ type, texts }: Value): readonly Value[] {
  if (type !== SQL) return [];
  const pieces = texts.flat().flatMap((part) => (part.kind === 'literal' ? (part.from ?? []) : []));
  return pieces.flatMap((piece) => boundValue(piece) ?? []);
}

/** Returns the marks of the values that an SQL template binds. */
export function boundMarks(value: Value): readonly Made[] {
  return boundIn(value).flatMap((bound) => values.madeIn(bound));
}

/** Returns the value of an SQL template: `literals` has one text more than `parts`. */
export function sqlTemplate(literals: readonly Value[], parts: readonly Written[]): Value {
  return fragment(literals.flatMap((text, index) => [text, ...parts.slice(index, index + 1).map(partOf)]));
}

function fragment(parts: readonly Value[]): Value {
  return { texts: values.joined(parts).texts, type: SQL };
}

/** Returns the text of a value in a template: the text of an inner template, or `?`. */
function partOf({ value, node, module }: Written): Value {
  if (value.type === SQL) return { texts: value.texts };
  if (value.type === 'svc/db.Sql') return KNOWN; // a template of which only the type is known
  const bound: Bound = { isCertain: isSurelyBound(value) };
  boundValues.set(bound, value);
  return values.literal('?', { text: '?', module, node, start: node.start, bound });
}

/** Whether a value is surely not a part of a statement: an input of a client, or a text or number of the program. */
function isSurelyBound(value: Value): boolean {
  const isKnownText = value.texts.some((text) => text.some(({ kind }) => kind !== 'own'));
  return value === ABSENT || value.source !== undefined || isKnownText;
}

type SqlEffect = (call: SqlCall) => Value;

/** Returns a text that a function of `sql` writes. */
function written({ node, module }: Spot, text: string, ofMySql = text): Value {
  return values.literal(text, { text, ofMySql, module, node, start: node.start });
}

function quoted(name: Value): Value {
  return {
    texts: name.texts.flatMap((text): readonly Text[] => {
      const constant = constantOf(text);
      const from = text[0]?.kind === 'literal' ? text[0].from?.[0] : undefined;
      if (constant === undefined || from === undefined) return KNOWN.texts;
      const ansi = `"${constant.replaceAll('"', '""')}"`;
      const ofMySql = `\`${constant.replaceAll('`', '``')}\``;
      // the quote of the name stands at the place of the quote of the literal
      const piece: Piece = { ...from, text: ansi, ofMySql, start: from.start - 1 };
      return values.literal(ansi, piece).texts;
    }),
  };
}

/** Returns the values of a list. A list with unknown items counts as one with a single item of each kind. */
function listed(list: Value | undefined): readonly Value[] {
  if (list === undefined) return [];
  const known = [...(list.members?.values() ?? [])];
  return list.items === undefined && known.length > 0 ? known : [...known, itemOf(list)];
}

function separated(call: Spot, parts: readonly Value[], separator: Value): readonly Value[] {
  return parts.flatMap((part, index) => [
    ...(index === 0 ? [] : [separator]),
    partOf({ ...call, value: part }),
  ]);
}

const combined =
  (word: 'and' | 'or'): SqlEffect =>
  (call) => {
    const present = call.args.flatMap((arg) =>
      arg === ABSENT ? [] : arg.type === SQL ? [arg] : listed(arg),
    );
    if (present.length === 0) return fragment([written(call, word === 'and' ? '1 = 1' : '1 = 0')]);
    const terms = present.map((part) => fragment([written(call, '('), part, written(call, ')')]));
    return fragment([
      written(call, '('),
      ...separated(call, terms, written(call, ` ${word} `)),
      written(call, ')'),
    ]);
  };

/** Returns the pairs of a member and its column; undefined if they are not known. */
function columnsIn(
  columns: Value | undefined,
): readonly (readonly [member: string, column: Value])[] | undefined {
  if (columns?.members === undefined || columns.items !== undefined) return undefined;
  const isList = columns.members.has('0');
  const pairs = [...columns.members].map(
    ([key, column]) => [isList ? constantIn(column) : key, column] as const,
  );
  const known = pairs.flatMap(([member, column]) =>
    member === undefined ? [] : [[member, column] as const],
  );
  return known.length === pairs.length && known.length > 0 ? known : undefined;
}

/** Returns a member of an object whose members become columns. */
function memberOf(row: Value, key: string): Value {
  const own = row.members?.get(key);
  if (own !== undefined) return own;
  const { source } = row;
  return source === undefined || source.isRequest === true ? KNOWN : memberOfSource(source, key);
}

function rowText(at: Spot, names: readonly Value[] | undefined, cells: readonly Value[]): readonly Value[] {
  const comma = written(at, ', ');
  const columns =
    names === undefined ? [] : [written(at, '('), ...separated(at, names, comma), written(at, ') ')];
  return [...columns, written(at, 'values ('), ...separated(at, cells, comma), written(at, ')')];
}

/** Changes the pieces of a name that quoted() has made. */
function withPieces(name: Value, change: (piece: Piece) => Piece): Value {
  return {
    texts: name.texts.map((text) =>
      text.map((part) => {
        const from = part.kind === 'literal' ? part.from?.map(change) : undefined;
        return from ? { kind: 'literal', text: from.map((piece) => piece.text).join(''), from } : part;
      }),
    ),
  };
}

/** Returns the statement of `insertMany()`. */
export function insertText(
  table: Value | undefined,
  columns: Value | undefined,
  row: Value | undefined,
  at: Spot,
): Value {
  const names = columns?.items === undefined ? listed(columns).map((name) => fragment([quoted(name)])) : [];
  if (table === undefined || names.length === 0) return fragment([KNOWN]);
  const cells = names.map((_, index) => row?.members?.get(String(index)) ?? KNOWN);
  return fragment([
    written(at, 'insert into '),
    table.type === SQL ? table : tableName(table),
    written(at, ' '),
    // a value that may be a template is refused at run time
    ...rowText(
      at,
      names,
      cells.map((cell) => (cell.type === SQL ? KNOWN : cell)),
    ),
  ]);
}

/** Returns a quoted table name. A dot separates the schema and the table. */
function tableName(table: Value): Value {
  const [text, ...more] = table.texts;
  const part = text?.[0];
  const from = part?.kind === 'literal' ? part.from?.[0] : undefined;
  const names = constantIn(table)?.split('.');
  if (names === undefined || from === undefined || more.length > 0) return quoted(table);
  let { start } = from;
  return fragment(
    names.map((name, index) => {
      const piece = { ...from, text: name, start };
      start += name.length + 1;
      return fragment([
        ...(index === 0 ? [] : [values.literal('.', { ...from, text: '.' })]),
        quoted(values.literal(name, piece)),
      ]);
    }),
  );
}

/** Returns the statement of the first page of a list. */
export function pageText(query: Value | undefined, orderBy: Value | undefined, at: Spot): Value {
  const columns = [...(orderBy?.members?.keys() ?? [])];
  if (query?.type !== SQL) return fragment([KNOWN]);
  const terms = columns.map((name) => {
    const column = quoted(values.literal(name, { text: name, ...at, start: at.node.start }));
    return fragment([written(at, 'svc_page.'), column]);
  });
  return fragment([
    written(at, 'select svc_page.* from ('),
    query,
    written(at, '\n) as svc_page'),
    ...(terms.length === 0 ? [] : [written(at, ' order by '), ...separated(at, terms, written(at, ', '))]),
  ]);
}

/** A list in pages, with its sort columns. */
const pages =
  (type: string): SqlEffect =>
  ({ args: [options] }) => ({
    texts: KNOWN.texts,
    type,
    members: new Map([
      ['orderBy', options?.members?.get('orderBy') ?? KNOWN],
      ['query', KNOWN],
    ]),
  });

/** Returns the result of a function or class of `svc/db` that writes SQL; undefined for any other function. */
export function resultOfSql(meaning: string, call: SqlCall): Value | undefined {
  return Object.hasOwn(SQL_FUNCTIONS, meaning) ? SQL_FUNCTIONS[meaning]?.(call) : undefined;
}

const SQL_FUNCTIONS: Readonly<Record<string, SqlEffect | undefined>> = {
  'svc/db.sql.identifier': (call) =>
    fragment(
      call.args.flatMap((name, index) => [...(index === 0 ? [] : [written(call, '.')]), quoted(name)]),
    ),
  'svc/db.sql.join': (call) => {
    const [list, separator] = call.args;
    const by = separator === undefined ? written(call, ', ') : { texts: separator.texts };
    const isComplete = list?.items === undefined && (list?.members?.size ?? 0) > 0;
    return fragment([
      ...separated(call, listed(list), by),
      ...(isComplete
        ? []
        : [values.literal('', { ...call, text: '', start: call.node.start, isPartial: true })]),
    ]);
  },
  'svc/db.sql.and': combined('and'),
  'svc/db.sql.or': combined('or'),
  'svc/db.sql.in': (call) => {
    const [tested = KNOWN, list = KNOWN] = call.args;
    return fragment([
      { texts: tested.texts },
      written(call, ' in ('),
      partOf({ ...call, value: itemOf(list) }),
      written(call, ')'),
    ]);
  },
  'svc/db.sql.set': (call) => {
    const [patch = KNOWN, columns] = call.args;
    const pairs = columnsIn(columns);
    if (pairs === undefined) return fragment([KNOWN]);
    const terms = pairs.map(([member, column]) =>
      fragment([quoted(column), written(call, ' = '), partOf({ ...call, value: memberOf(patch, member) })]),
    );
    return fragment(separated(call, terms, written(call, ', ')));
  },
  'svc/db.sql.values': (call) => {
    const [rows = KNOWN, columns] = call.args;
    const [row = KNOWN] = listed(rows);
    const pairs = columnsIn(columns);
    const cells =
      columns === undefined
        ? row.items === undefined && [...(row.members?.values() ?? [])]
        : pairs?.map(([member]) => memberOf(row, member));
    if (cells === undefined || cells === false || cells.length === 0) return fragment([KNOWN]);
    const names = pairs?.map(([, column]) => fragment([quoted(column)]));
    return fragment(rowText(call, names, cells));
  },
  'svc/db.sql.upsert': (call) => {
    const [key, changes] = call.args;
    const names = listed(key).map(quoted);
    const [first] = names;
    if (first === undefined) return fragment([KNOWN]);
    const both = (standard: string, ofMySql: string): Value => written(call, standard, ofMySql);
    const assigned = listed(changes).map((change) =>
      change.type === SQL
        ? change
        : fragment([quoted(change), both(' = excluded.', ' = values('), quoted(change), both('', ')')]),
    );
    const target = [
      both('on conflict (', ''),
      ...names.flatMap((name, index) => [
        both(index === 0 ? '' : ', ', ''),
        withPieces(name, (piece) => ({ ...piece, ofMySql: '' })),
      ]),
      both(')', ''),
    ];
    if (changes?.members?.size === 0 && changes.items === undefined)
      return fragment([
        ...target,
        both(' do nothing', 'on duplicate key update '),
        // `key = key` keeps the present row
        withPieces(first, (piece) => ({
          ...piece,
          text: '',
          ofMySql: `${piece.ofMySql} = ${piece.ofMySql}`,
        })),
      ]);
    return fragment([
      ...target,
      both(' do update set ', 'on duplicate key update '),
      ...separated(call, assigned, written(call, ', ')),
    ]);
  },
  'svc/db.KeysetPages': pages('svc/db.KeysetPages'),
  'svc/db.OffsetPages': pages('svc/db.OffsetPages'),
  'svc/db.transaction': ({ args: [options] }) => ({
    ...databaseNamed(options?.members?.get('database'), 'svc/db.db'),
    isolation: isolationIn(options),
  }),
  'svc/db.database': ({ args: [name] }) => databaseNamed(name, 'svc/db.database'),
};

/** Returns the isolation level that options of a transaction name: '' if they name none, '?' if it is not known. */
export function isolationIn(options: Value | undefined): string {
  const level = options?.members?.get('isolation');
  if (level !== undefined) return constantIn(level) ?? '?';
  return options === undefined || (options.members !== undefined && options.items === undefined) ? '' : '?';
}

/** Returns the database of the plugin with a name; a value of the usual type if the name is not known. */
function databaseNamed(name: Value | undefined, usual: string): Value {
  const constant = constantIn(name);
  return { texts: KNOWN.texts, type: constant === undefined ? usual : `svc/db.database(${constant})` };
}
