/**
 * Compares the values of placeholders with the columns that they are written to or compared with, and an insert with
 * the columns that need a value.
 */
import { within } from '../../schema/nodes.ts';
import type { Dialect } from '../../db/driver.ts';
import type { TableColumn, TableDescription } from '../../db/tables.ts';
import type { Constraints } from '../../schema/types.ts';
import type { Value } from '../values/value.ts';
import type { ColumnName, Outline, Token } from './outline.ts';
import type { Problem, SentValue } from './statement.ts';

/** A value that is known well enough to be judged. */
interface KnownValue {
  readonly kind: string;
  /** The value itself, if the program writes it. */
  readonly constant?: string | undefined;
  /** Values of a type `literal`. */
  readonly choices?: readonly unknown[] | undefined;
  readonly constraints?: Constraints | undefined;
}

/** Returns the problems of the values that a statement binds. */
export function judgeValues(
  outline: Outline,
  values: readonly SentValue[],
  tables: readonly TableDescription[],
  dialect: Dialect,
): readonly Problem[] {
  if (values.length !== outline.placeholders.length) return [];
  return outline.placeholders.flatMap((placeholder, index) => {
    const value = knownValue(values[index]!);
    if (value === undefined) return [];
    const target = outline.target(placeholder);
    const column = columnOf(outline, target ?? outline.compared(placeholder), tables);
    return column === undefined
      ? []
      : judge({ placeholder, value, column, isWritten: target !== undefined, dialect });
  });
}

function columnOf(
  outline: Outline,
  named: ColumnName | undefined,
  tables: readonly TableDescription[],
): TableColumn | undefined {
  if (named === undefined) return undefined;
  const used = outline.tables.filter(({ alias }) => named.table === undefined || alias === named.table);
  const found = used.flatMap(({ name }) =>
    tables
      .filter((table) => table.name.toLowerCase() === name)
      .flatMap(({ columns }) => columns.filter((column) => column.name.toLowerCase() === named.column)),
  );
  return found.length === 1 ? found[0] : undefined;
}

function knownValue({ value }: SentValue): KnownValue | undefined {
  if (value === undefined) return undefined;
  const declared = value.declared?.node;
  if (declared !== undefined) {
    const { node } = within(declared);
    return {
      kind: node.kind,
      constraints: node.constraints,
      choices: node.kind === 'literal' ? node.values : undefined,
    };
  }
  return constantValue(value);
}

function constantValue({ texts }: Value): KnownValue | undefined {
  const [text, ...more] = texts;
  const part = text?.[0];
  if (more.length > 0 || text?.length !== 1 || part?.kind !== 'literal' || part.from?.length !== 1)
    return undefined;
  const { type } = part.from[0]!.node;
  if (type === 'text' || type === 'template') return { kind: 'str', constant: part.text };
  if (type !== 'value') return undefined;
  return /^(?:true|false)$/.test(part.text) ? { kind: 'bool' } : { kind: 'number', constant: part.text };
}

interface Pair {
  readonly placeholder: Token;
  readonly value: KnownValue;
  readonly column: TableColumn;
  readonly isWritten: boolean;
  readonly dialect: Dialect;
}

function judge(pair: Pair): readonly Problem[] {
  const { placeholder, value, column, isWritten } = pair;
  const { start } = placeholder;
  const name = `the column "${column.name}"`;
  const type = column.type;
  if (type.kind === 'literal') {
    const given = value.choices ?? (value.kind === 'str' ? [value.constant] : []);
    const wrong = given.filter((choice) => choice !== undefined && !type.values.includes(String(choice)));
    // a condition may exclude some values of an input: if (query.state !== 'all') …
    if (wrong.length === 0 || wrong.length < given.length) return [];
    const found = wrong.map((choice) => JSON.stringify(choice)).join(', ');
    const allowed = type.values.map((each) => JSON.stringify(each)).join(', ');
    return [{ rule: 'SVC415', message: `${name} never holds ${found}: its values are ${allowed}`, start }];
  }
  if (isOfOtherType(pair))
    return [
      {
        rule: 'SVC415',
        message: `${name} has the type ${type.kind}, which cannot hold ${value.constant === undefined ? `a value of the type ${value.kind}` : JSON.stringify(value.constant)}`,
        start,
      },
    ];
  return isWritten ? tooLong(pair, name) : [];
}

const NUMBERS = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\s*$/i;

/** Whether a column surely cannot hold a value. */
function isOfOtherType({ value: { kind, constant }, column: { type }, dialect }: Pair): boolean {
  const isNumber = kind === 'number' || kind === 'int' || kind === 'float' || kind === 'decimal';
  switch (type.kind) {
    case 'int':
    case 'float':
    case 'decimal':
      return kind === 'str'
        ? constant !== undefined && !NUMBERS.test(constant)
        : /^(?:uuid|date|datetime|bytes)$/.test(kind);
    case 'uuid':
      return isNumber || /^(?:bool|date|datetime)$/.test(kind);
    case 'date':
    case 'datetime':
      return dialect !== 'sqlite' && (isNumber || /^(?:bool|uuid)$/.test(kind));
    case 'bool':
      return kind === 'str' &&
        constant !== undefined &&
        !/^(?:t|f|true|false|yes|no|y|n|on|off|[01])$/i.test(constant)
        ? true
        : /^(?:uuid|date|datetime|bytes)$/.test(kind);
    default:
      return false;
  }
}

function tooLong({ placeholder, value, column: { type } }: Pair, name: string): readonly Problem[] {
  const most = type.kind === 'str' ? type.options?.['maxLength'] : undefined;
  if (most === undefined || value.kind !== 'str') return [];
  const length = value.constant === undefined ? value.constraints?.maxLength : [...value.constant].length;
  // a pattern or a format may limit the length, too
  const isFree = value.constraints?.pattern === undefined && value.constraints?.format === undefined;
  if ((length ?? (isFree ? Infinity : 0)) <= most) return [];
  const found =
    value.constant === undefined
      ? length === undefined
        ? 'of any length'
        : `of up to ${length} characters`
      : `of ${length} characters`;
  return [
    {
      rule: 'SVC416',
      message: `${name} holds at most ${most} characters, but the value is a text ${found}`,
      remedy: `Declare the input with { maxLength: ${most} }`,
      start: placeholder.start,
    },
  ];
}

/** Returns the columns that an insert leaves out, although the database needs a value for them. */
export function judgeInsertion(outline: Outline, tables: readonly TableDescription[]): readonly Problem[] {
  const { insertion } = outline;
  if (insertion?.columns === undefined) return [];
  const table = tables.find(({ name }) => name.toLowerCase() === insertion.table.name);
  // a trigger may give the values
  if (table?.hasInsertTrigger === true) return [];
  const given = new Set(insertion.columns.map(({ name }) => name));
  const absent = (table?.columns ?? []).filter(
    (column) =>
      !column.isNullable &&
      !column.isGenerated &&
      column.default === undefined &&
      !given.has(column.name.toLowerCase()),
  );
  if (absent.length === 0) return [];
  const names = absent.map(({ name }) => `"${name}"`).join(', ');
  return [
    {
      rule: 'SVC417',
      message: `the insert gives no value for ${names} of the table "${table!.name}", which may not be NULL and has no default`,
      start: insertion.table.token.start,
    },
  ];
}
