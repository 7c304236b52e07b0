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

/** A statement whose rows a call reads, as the database describes it. */
interface Rows {
  readonly call: SentCall;
  readonly described: Described;
  readonly outline: Outline;
  readonly dialect: Dialect;
  readonly snakeCase: boolean;
}

/** Rows that a type reads. */
interface ReadRows extends Rows {
  /** Name of the type in the option `as`. */
  readonly reader: string;
}

/** The type of a member, and whether rows without it are valid. */
type Member = Pick<FieldPlan, 'node' | 'isOptional' | 'hasDefault'>;

/** Returns the problems of the rows that a call reads with the option `as`. */
export function judgeRows(rows: Rows): readonly Problem[] {
  const { as, verb } = rows.call;
  const [first] = rows.described.columns;
  if (as === undefined || first === undefined) return [];
  const type = rowType(as);
  const read = { ...rows, reader: nameOfType(as) };
  if (verb === 'scalar') return type === undefined ? [] : judgeScalar(read, first, type as TypeSource);
  return isSchemaClass(type) ? judgeClass(read, type) : [];
}

function judgeScalar(rows: ReadRows, column: DescribedColumn, type: TypeSource): readonly Problem[] {
  try {
    return judgeColumn(rows, column, { node: compileType(type).node, isOptional: false, hasDefault: false });
  } catch {
    return []; // the type is not valid, which the statement refuses at run time
  }
}

function judgeClass(rows: ReadRows, type: Parameters<typeof planOf>[0]): readonly Problem[] {
  const { reader, outline } = rows;
  const plan = planOf(type);
  const naming = { snakeCase: rows.snakeCase, jsonText: JSON_TEXT[rows.dialect] };
  const names = rows.described.columns.map(({ name }) => name);
  const { missing, unknown } = rowReading(plan, names, naming);
  const start = startOfList(outline);
  return [
    ...missing.map((member): Problem => ({
      rule: 'SVC412',
      message: `the rows have no column "${member}", which ${reader} needs, so each row is refused`,
      remedy: remedyOfMissing(member, names, reader),
      start,
    })),
    ...unknown.map((column): Problem => ({
      rule: 'SVC412',
      message: `${reader} forbids members that it does not declare, and has none for the column "${column}"`,
      remedy: `Leave "${column}" out of the statement, or declare it in ${reader}`,
      start,
    })),
    ...plan.fields.flatMap((field) => judgeField(rows, field)),
  ];
}

function remedyOfMissing(member: string, names: readonly string[], reader: string): string {
  const snake = snakeCased(member);
  if (names.includes(snake)) return `Set snakeCase: true, or write ${snake} as "${member}"`;
  const near = nearest(member, names, 2);
  return near === undefined
    ? `Add "${member}" to the columns of the statement, or remove the member from ${reader}`
    : `Write ${near} as "${member}", or rename the member of ${reader}`;
}

function judgeField(rows: ReadRows, field: FieldPlan): readonly Problem[] {
  const name = (rows.snakeCase ? snakeCased(field.name) : field.name).toLowerCase();
  const [column, ...more] = rows.described.columns.filter((each) => each.name.toLowerCase() === name);
  return column === undefined || more.length > 0 ? [] : judgeColumn(rows, column, field);
}

function judgeColumn(rows: ReadRows, column: DescribedColumn, member: Member): readonly Problem[] {
  const { reader, dialect, outline } = rows;
  const { node, isNullable } = within(member.node);
  if (!Object.hasOwn(SAMPLES, node.kind)) return [];
  const start = startOf(column, outline);
  const shown = `the column "${column.name}"${column.table === undefined ? '' : ` of the table "${column.table}"`}`;
  const kind = column.kind?.kind;
  if (kind !== undefined && refuses(node, samplesOf(kind, dialect), dialect)) {
    const message = `${shown} has the type ${column.type ?? kind}, which ${reader} refuses: its type is ${node.kind}`;
    return [{ rule: 'SVC413', message, start }];
  }
  if (isNullable || member.isOptional || member.hasDefault || !mayBeNull(rows, column)) return [];
  return [{ rule: 'SVC414', message: `${shown} may be NULL, which ${reader} refuses`, start }];
}

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

const UUID = '7b0d0fd0-1c3a-4b7e-9d43-0a3f8f2f6a11';
const TEXTS = ['a', '1', '1.5', 'true', '2024-01-31', '2024-01-31T10:00:00Z', '10:00:00', UUID];

/** Values that a driver returns, by the kind of the column. Members of other kinds are not judged. */
const SAMPLES: Readonly<Record<string, readonly unknown[]>> = {
  int: [0, 1, 7],
  float: [1, 1.5],
  decimal: ['1', '1.50', 1.5],
  bool: [0, 1, true, false],
  str: TEXTS,
  literal: TEXTS,
  date: ['2024-01-31', new Date(0)],
  datetime: ['2024-01-31T10:00:00.000Z', new Date(0)],
  uuid: [UUID],
  bytes: [new Uint8Array(1), new Uint8Array(16)], // the second may be a UUID
};
/** Values that differ in a database. Columns for times and ids of SQLite may hold anything. */
const OWN_SAMPLES: Readonly<Partial<Record<Dialect, typeof SAMPLES>>> = {
  postgres: { bool: [true, false] },
  sqlite: { bool: [0, 1], date: [], datetime: [], uuid: [] },
};

function samplesOf(kind: string, dialect: Dialect): readonly unknown[] {
  return OWN_SAMPLES[dialect]?.[kind] ?? SAMPLES[kind] ?? [];
}

/**
 * Whether a column may be NULL: its table allows it, and no condition of the statement names it. A condition of a
 * select within the statement may exclude NULL, too, so such a statement is not judged.
 */
function mayBeNull({ outline }: ReadRows, { table, column, isNullable }: DescribedColumn): boolean {
  if (isNullable !== true || table === undefined || column === undefined) return false;
  if (outline.tokens.filter(({ word }) => word === 'select').length !== 1) return false;
  const isRead = outline.tables.some(({ name }) => name === table.toLowerCase());
  const from = outline.tokens.findIndex(({ word, depth }) => word === 'from' && depth === 0);
  return isRead && !outline.isNamedAfter(from, column.toLowerCase());
}

/** Returns the position of a column in the list of columns, else that of the list. */
function startOf({ name, column }: DescribedColumn, outline: Outline): number {
  const wanted = [name, column ?? name].map((each) => each.toLowerCase());
  const from = outline.tokens.find(({ word, depth }) => word === 'from' && depth === 0)?.start ?? Infinity;
  const returning = outline.tokens.find(({ word }) => word === 'returning')?.start ?? Infinity;
  const token = outline.tokens.findLast(
    (each) => wanted.includes(each.name) && (each.start < from || each.start > returning),
  );
  return token?.start ?? startOfList(outline);
}

/** Returns the position of the list of columns. */
function startOfList({ tokens }: Outline): number {
  const list = tokens.find(({ word, depth }) => depth === 0 && /^(?:select|returning)$/.test(word));
  return (list ?? tokens[0])?.start ?? 0;
}
