/**
 * Compares the values of placeholders with the columns that they are written to or compared with, and an insert with
 * the columns that need a value.
 */
import { within } from '../../schema/nodes.ts';
import type { Dialect } from '../../db/driver.ts';
import type { ColumnType, TableColumn, TableDescription } from '../../db/tables.ts';
import type { Constraints } from '../../schema/types.ts';
import type { Value } from '../values/value.ts';
import { tableNamed } from './outline.ts';
import type { ColumnName, Outline, Token } from './outline.ts';
import type { Problem, StatementDescriber } from './statement.ts';

/** A value that is known well enough to be judged. */
interface KnownValue {
  readonly kind: string;
  /** The value itself, if the program writes it. */
  readonly constant?: string | undefined;
  /** Values of a type `literal`. */
  readonly choices?: readonly unknown[] | undefined;
  readonly constraints?: Constraints | undefined;
}

/** Returns the problems of the values that a statement binds. `kinds` are the types of its placeholders. */
export function judgeValues(
  outline: Outline,
  values: readonly (Value | undefined)[],
  { tables, dialect }: Pick<StatementDescriber, 'tables' | 'dialect'>,
  kinds: readonly (ColumnType | undefined)[] = [],
): readonly Problem[] {
  if (values.length !== outline.placeholders.length) return [];
  return outline.placeholders.flatMap((placeholder, index) => {
    const value = knownValue(values[index]);
    if (value === undefined) return [];
    const target = outline.target(placeholder);
    const column = columnOf(outline, target ?? outline.compared(placeholder), tables);
    const type = column?.type ?? kinds[index];
    if (type === undefined) return [];
    const name = column === undefined ? 'the placeholder' : `the column "${column.name}"`;
    return judge({ placeholder, value, name, type, isWritten: target !== undefined, dialect });
  });
}

function columnOf(
  outline: Outline,
  named: ColumnName | undefined,
  tables: readonly TableDescription[],
): TableColumn | undefined {
  if (named === undefined) return undefined;
  const used = outline.tables.filter(({ alias }) => named.table === undefined || alias === named.table);
  const found = used.flatMap(
    ({ name }) =>
      tableNamed(tables, name)?.columns.filter((column) => column.name.toLowerCase() === named.column) ?? [],
  );
  return found.length === 1 ? found[0] : undefined;
}

function knownValue(value: Value | undefined): KnownValue | undefined {
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

/** A value with the column or the placeholder that receives it. */
interface Pair {
  readonly placeholder: Token;
  readonly value: KnownValue;
  /** Words for the column or the placeholder. */
  readonly name: string;
  readonly type: ColumnType;
  readonly isWritten: boolean;
  readonly dialect: Dialect;
}

function judge(pair: Pair): readonly Problem[] {
  const { placeholder, value, name, type, isWritten } = pair;
  const { start } = placeholder;
  if (type.kind === 'literal') {
    const given = value.choices ?? (value.kind === 'str' ? [value.constant] : []);
    const wrong = given.filter((choice) => choice !== undefined && !type.values.includes(String(choice)));
    // a condition may exclude some values of an input: if (query.state !== 'all') …
    if (wrong.length === 0 || wrong.length < given.length) return [];
    const found = wrong.map((choice) => JSON.stringify(choice)).join(', ');
    const allowed = type.values.map((each) => JSON.stringify(each)).join(', ');
    return [{ rule: 'SVC415', message: `${name} never holds ${found}: its values are ${allowed}`, start }];
  }
  if (!isOfOtherType(pair)) return isWritten ? tooLong(pair) : [];
  const what =
    value.constant === undefined ? `a value of the type ${value.kind}` : JSON.stringify(value.constant);
  return [{ rule: 'SVC415', message: `${name} has the type ${type.kind}, which cannot hold ${what}`, start }];
}

/** Numbers as the engines read them from a text. */
const NUMBERS =
  /^\s*[+-]?(?:(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[+-]?\d+)?|0[xob][\da-f_]+|nan|inf(?:inity)?)\s*$/i;
const FLAGS = /^\s*(?:t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|y(?:es?)?|no?|on|off?|[01])\s*$/i;

/** Whether a column or placeholder surely cannot hold a value. Only PostgreSQL converts no numbers and flags. */
function isOfOtherType({ value: { kind, constant }, type, dialect }: Pair): boolean {
  const isNumber = kind === 'number' || kind === 'int' || kind === 'float' || kind === 'decimal';
  const isStrict = dialect === 'postgres';
  const number = kind === 'number' ? Number(constant) : NaN;
  switch (type.kind) {
    case 'int':
    case 'float':
    case 'decimal':
      if (kind === 'str') return constant !== undefined && !NUMBERS.test(constant);
      return (
        /^(?:uuid|date|datetime|bytes)$/.test(kind) ||
        (isStrict && (kind === 'bool' || (type.kind === 'int' && number % 1 !== 0 && !Number.isNaN(number))))
      );
    case 'uuid':
      return isNumber || /^(?:bool|date|datetime)$/.test(kind);
    case 'date':
    case 'datetime':
      return dialect !== 'sqlite' && (isNumber || /^(?:bool|uuid)$/.test(kind));
    case 'bool':
      if (kind === 'str')
        return constant !== undefined && !FLAGS.test(constant) && (isStrict || !NUMBERS.test(constant));
      return /^(?:uuid|date|datetime|bytes)$/.test(kind) || (isStrict && number > 1);
    default:
      return false;
  }
}

function tooLong({ placeholder, value, name, type }: Pair): readonly Problem[] {
  const most = type.kind === 'str' ? type.options?.['maxLength'] : undefined;
  if (most === undefined || value.kind !== 'str') return [];
  const length = value.constant === undefined ? value.constraints?.maxLength : [...value.constant].length;
  // a pattern or a format may limit the length, too
  const isFree = value.constraints?.pattern === undefined && value.constraints?.format === undefined;
  if ((length ?? (isFree ? Infinity : 0)) <= most) return [];
  const range = value.constant === undefined ? 'of up to' : 'of';
  const found = length === undefined ? 'of any length' : `${range} ${length} characters`;
  const message = `${name} holds at most ${most} characters, but the value is a text ${found}`;
  const remedy = `Declare the input with { maxLength: ${most} }`;
  return [{ rule: 'SVC416', message, remedy, start: placeholder.start }];
}

/** Returns the columns that an insert leaves out, although the database needs a value for them. */
export function judgeInsertion(outline: Outline, tables: readonly TableDescription[]): readonly Problem[] {
  const { insertion } = outline;
  if (insertion?.columns === undefined) return [];
  const table = tableNamed(tables, insertion.table.name);
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
  const message = `the insert gives no value for ${names} of the table "${table!.name}", which may not be NULL and has no default`;
  return [{ rule: 'SVC417', message, start: insertion.table.token.start }];
}
