/**
 * Compares the columns of a statement with the type of the option `as`: members without a column, columns of a type
 * that a member refuses, and columns that may be NULL although a member may not.
 */
import { compileType, planOf } from '../../schema/schema.ts';
import { FAIL, isSchemaClass } from '../../schema/types.ts';
import { columnCheck, rowReading, snakeCased } from '../../schema/rows.ts';
import { within } from '../../schema/nodes.ts';
import { Run } from '../../schema/validation-run.ts';
import { JSON_TEXT } from '../../db/rows.ts';
import { nearest } from '../../base/options.ts';
import { nameOfType, rowType } from './row-types.ts';
import type { Described, DescribedColumn } from '../../db/describe/describer.ts';
import type { Dialect } from '../../db/driver.ts';
import type { Constraints, TypeSource } from '../../schema/types.ts';
import type { FieldPlan, TypeNode } from '../../schema/nodes.ts';
import type { Outline } from './outline.ts';
import type { Problem, SentCall } from './statement.ts';

interface Rows {
  readonly call: SentCall;
  readonly described: Described;
  readonly outline: Outline;
  readonly dialect: Dialect;
  readonly snakeCase: boolean;
}

/** Returns the problems of the rows that a call reads with the option `as`. */
export function judgeRows(rows: Rows): readonly Problem[] {
  const { as, verb } = rows.call;
  if (as === undefined || rows.described.columns.length === 0) return [];
  const type = rowType(as);
  if (verb === 'scalar') return type === undefined ? [] : judgeScalar(rows, type as TypeSource);
  return isSchemaClass(type) ? judgeClass(rows, type) : [];
}

function judgeScalar(rows: Rows, type: TypeSource): readonly Problem[] {
  const [column] = rows.described.columns;
  try {
    const { node } = compileType(type);
    return column === undefined ? [] : judgeColumn(rows, column, node, false);
  } catch {
    return []; // the type is not valid, which the statement refuses at run time
  }
}

function judgeClass(rows: Rows, type: Parameters<typeof planOf>[0]): readonly Problem[] {
  const { columns } = rows.described;
  const plan = planOf(type);
  const naming = { snakeCase: rows.snakeCase, jsonText: JSON_TEXT[rows.dialect] };
  const names = columns.map(({ name }) => name);
  const { missing, unknown } = rowReading(plan, names, naming);
  const name = readerOf(rows);
  const absent = missing.map((member): Problem => {
    const near = names.includes(snakeCased(member)) ? snakeCased(member) : nearest(member, names, 2);
    return {
      rule: 'SVC412',
      message: `the rows have no column "${member}", which ${name} needs, so each row is refused`,
      remedy:
        near === undefined
          ? `Add "${member}" to the columns of the statement, or remove the member from ${name}`
          : near === snakeCased(member)
            ? `Set snakeCase: true, or write ${near} as "${member}"`
            : `Write ${near} as "${member}", or rename the member of ${name}`,
      ...listOf(rows.outline),
    };
  });
  const surplus = unknown.map((column): Problem => ({
    rule: 'SVC412',
    message: `${name} forbids members that it does not declare, and has none for the column "${column}"`,
    remedy: `Leave "${column}" out of the statement, or declare it in ${name}`,
    ...listOf(rows.outline),
  }));
  return [...absent, ...surplus, ...plan.fields.flatMap((field) => judgeField(rows, field))];
}

function judgeField(rows: Rows, field: FieldPlan): readonly Problem[] {
  const name = rows.snakeCase ? snakeCased(field.name) : field.name;
  const same = rows.described.columns.filter((column) => column.name.toLowerCase() === name.toLowerCase());
  const [column] = same;
  if (column === undefined || same.length > 1) return [];
  return judgeColumn(rows, column, field.node, field.isOptional || field.hasDefault);
}

function judgeColumn(
  rows: Rows,
  column: DescribedColumn,
  given: TypeNode,
  mayBeAbsent: boolean,
): readonly Problem[] {
  const { node, isNullable } = within(given);
  if (!JUDGED.has(node.kind)) return [];
  const at = placeOf(rows.outline, column);
  const reader = readerOf(rows);
  const origin = column.table === undefined ? '' : ` of the table "${column.table}"`;
  if (column.kind !== undefined && refuses(node, samplesOf(column.kind.kind, rows.dialect), rows.dialect)) {
    const message = `the column "${column.name}"${origin} has the type ${column.type ?? column.kind.kind}, which ${reader} refuses: its type is ${node.kind}`;
    return [{ rule: 'SVC413', message, ...at }];
  }
  if (isNullable || mayBeAbsent || !mayBeNull(rows, column)) return [];
  const message = `the column "${column.name}"${origin} may be NULL, which ${reader} refuses`;
  return [{ rule: 'SVC414', message, ...at }];
}

/** Returns the name of the type in the option `as`. */
function readerOf({ call }: Rows): string {
  return nameOfType(call.as!); // judgeRows() judges no other calls
}

/** Kinds of types whose values a column is judged by. */
const JUDGED: ReadonlySet<string> = new Set([
  ...['str', 'int', 'float', 'decimal', 'bool', 'datetime', 'date', 'uuid', 'bytes'],
  'literal',
]);

/** Constraints that allow every value of a type. A decimal always has digits. */
const WIDEST: Constraints = { digits: 1_000, places: 500 };

/** Whether a type refuses every one of the values. The constraints of the type do not count. */
function refuses(node: TypeNode, samples: readonly unknown[], dialect: Dialect): boolean {
  if (samples.length === 0) return false;
  const values = node.kind === 'literal' ? node.values : undefined;
  if (values !== undefined)
    return !samples.some((sample) => values.some((value) => typeof value === typeof sample));
  const check = columnCheck({ ...node, constraints: WIDEST }, JSON_TEXT[dialect]);
  return samples.every((sample) => check(sample, new Run(false, false)) === FAIL);
}

const TEXTS: readonly unknown[] = [
  ...['a', '1', '1.5', 'true', '2024-01-31', '2024-01-31T10:00:00Z', '10:00:00'],
  '7b0d0fd0-1c3a-4b7e-9d43-0a3f8f2f6a11',
];

/** Returns values that a driver returns for columns of a kind. Empty for a kind whose values may be anything. */
function samplesOf(kind: string, dialect: Dialect): readonly unknown[] {
  const isSqlite = dialect === 'sqlite';
  switch (kind) {
    case 'int':
      return [0, 1, 7];
    case 'float':
      return [1, 1.5];
    case 'bool':
      return [...(dialect === 'postgres' ? [] : [0, 1]), ...(isSqlite ? [] : [true, false])];
    case 'decimal':
      return ['1', '1.50', 1.5];
    case 'str':
    case 'literal':
      return TEXTS;
    case 'date':
      return isSqlite ? [] : ['2024-01-31', new Date(0)];
    case 'datetime':
      return isSqlite ? [] : ['2024-01-31T10:00:00.000Z', new Date(0)];
    case 'uuid':
      return isSqlite ? [] : ['7b0d0fd0-1c3a-4b7e-9d43-0a3f8f2f6a11'];
    case 'bytes':
      return [new Uint8Array(1), new Uint8Array(16)]; // the second may be a UUID
    default:
      return [];
  }
}

/**
 * Whether a column may be NULL: its table allows it, and no condition of the statement names it. A condition of a
 * select within the statement may exclude NULL, too, so such a statement is not judged.
 */
function mayBeNull({ outline }: Rows, { table, column, isNullable }: DescribedColumn): boolean {
  if (isNullable !== true || table === undefined || column === undefined) return false;
  if (outline.tokens.filter(({ word }) => word === 'select').length !== 1) return false;
  const isRead = outline.tables.some(({ name }) => name === table.toLowerCase());
  const from = outline.tokens.findIndex(({ word, depth }) => word === 'from' && depth === 0);
  return isRead && !outline.isNamedAfter(from, column.toLowerCase());
}

/** Returns the place of a column in the list of columns, else that of the list. */
function placeOf(outline: Outline, { name, column }: DescribedColumn): Pick<Problem, 'start'> {
  const wanted = [name, column ?? name].map((each) => each.toLowerCase());
  const from = outline.tokens.find(({ word, depth }) => word === 'from' && depth === 0)?.start ?? Infinity;
  const isReturned = outline.tokens.find(({ word }) => word === 'returning')?.start;
  const token = outline.tokens.findLast(
    (each) => wanted.includes(each.name) && (each.start < from || each.start > (isReturned ?? Infinity)),
  );
  return token === undefined ? listOf(outline) : { start: token.start };
}

/** Returns the place of the list of columns. */
function listOf(outline: Outline): Pick<Problem, 'start'> {
  const list = outline.tokens.findIndex(
    ({ word, depth }) => depth === 0 && /^(?:select|returning)$/.test(word),
  );
  return { start: (outline.tokens[list] ?? outline.tokens[0])?.start ?? 0 };
}
