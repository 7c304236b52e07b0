/**
 * Nodes -> closures that read rows of databases. Engines give one value in several forms; each is converted to what the field is,
 * then the rules of compile.ts hold.
 *
 *   bool      true, false, 0, 1                        int       number, bigint, text of a decimal without a fraction
 *   float     number, text of a decimal                str       text, and the digits of an integer
 *   datetime  Date, ISO 8601; without a zone UTC       date      YYYY-MM-DD, or midnight in UTC
 *   uuid      text in any case, 16 bytes               list, record, class, union      JSON, parsed or as text; arrays
 *
 * A conversion that would lose a digit is refused. JSON inside a column is read by the names on the wire; values in it have these
 * forms too, since SQL writes 1 for true into JSON.
 */
import {
  absence,
  deferred,
  jsonCheck,
  listCheck,
  Member,
  Members,
  nullableCheck,
  Plain,
  recordCheck,
  unknownMembers,
} from './compile.ts';
import { checkedMs, isDate, momentMs } from './formats.ts';
import { FAIL } from './types.ts';
import { isInputObject, literalCheck, literalMessage, MAX_DEPTH, tooDeep } from './validation-run.ts';
import type { Literal } from './types.ts';
import type { FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';
import type { Check, Run } from './validation-run.ts';

/** How the columns of a result become members. */
export interface RowNaming {
  /** Whether `created_at` is the member `createdAt`. */
  readonly snakeCase: boolean;
  /** Whether text in an `any` field is JSON: the engine has no type for JSON of its own. */
  readonly parsesText: boolean;
}

/** Reads rows of certain columns. */
export interface RowReading {
  /** Members that must have a column and have none, as the columns that would do. */
  readonly missing: readonly string[];
  /** Columns that are not known members, where the class forbids them. */
  readonly unknown: readonly string[];
  /** The instance of a row, or FAIL. Paths of issues begin with the column. */
  readonly check: Check;
}

type Row = Readonly<Record<string, unknown>>;

/** Compiles the reading of rows that have these columns. */
export function rowReading(plan: ObjectPlan, columns: readonly string[], naming: RowNaming): RowReading {
  const reader = new ColumnReader(columns, naming);
  const members = reader.members(plan, '');
  const rest = plan.extra === 'ignore' ? [] : columns.filter((column) => !reader.used.has(column));
  const kept = plan.extra === 'allow' ? rest.filter((column) => !plan.isReserved(column)) : [];
  return {
    missing: reader.missing,
    unknown: plan.extra === 'forbid' ? rest : [],
    check: (value, run) => {
      const row = value as Row; // its caller says so
      const values = readMembers(members, row, run);
      if (values === FAIL) return FAIL;
      const extras =
        kept.length === 0 ? undefined : Object.fromEntries(kept.map((name) => [name, row[name]]));
      return plan.build(values, value, extras);
    },
  };
}

/** A name in camelCase as columns have it: `createdAt` is `created_at`. */
export function snakeCased(name: string): string {
  return name
    .replace(/([a-z\d])([A-Z])/g, '$1_$2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1_$2')
    .toLowerCase();
}

/** A member, and where its value is: in a column, in several ones, or in none. */
type RowMember =
  | { readonly kind: 'column'; readonly member: Member }
  | {
      readonly kind: 'joined';
      readonly plan: ObjectPlan;
      readonly members: readonly RowMember[];
      readonly columns: readonly string[];
      /** Its value when each column is NULL, if it has one then. */
      readonly absent: { readonly value: null | undefined } | undefined;
    }
  | { readonly kind: 'absent'; readonly make: (run: Run) => unknown };

/** Finds the columns of members, and remembers which of them are used. */
class ColumnReader {
  readonly used = new Set<string>();
  readonly missing: string[] = [];
  readonly #columns: ReadonlySet<string>;
  /** Engines disagree on the case of names that are not quoted. */
  readonly #byLowerCase: ReadonlyMap<string, string>;
  readonly #naming: RowNaming;

  constructor(columns: readonly string[], naming: RowNaming) {
    this.#columns = new Set(columns);
    this.#byLowerCase = new Map(columns.map((column) => [column.toLowerCase(), column]));
    this.#naming = naming;
  }

  members(plan: ObjectPlan, prefix: string): readonly RowMember[] {
    return plan.fields.map((field) => this.#memberOf(field, prefix));
  }

  #memberOf(field: FieldPlan, prefix: string): RowMember {
    const name = prefix + (this.#naming.snakeCase ? snakeCased(field.name) : field.name);
    const column = this.#columnOf(name) ?? this.#columnOf(prefix + field.name);
    if (column !== undefined) {
      this.used.add(column);
      const check = orAbsent(field, columnCheck(field.node, this.#naming.parsesText));
      return { kind: 'column', member: new Member(column, new Plain(field.node), check, absence(field)) };
    }
    const joined = this.#joined(field, `${name}_`);
    if (joined !== undefined) return joined;
    const mayBeAbsent = field.hasDefault || (field.isOptional && field.isOptionalInOutput);
    if (!mayBeAbsent) this.missing.push(name);
    return { kind: 'absent', make: absence(field) };
  }

  /** A class whose members have columns that begin with the name of the field. */
  #joined(field: FieldPlan, prefix: string): RowMember | undefined {
    const { node, isNullable } = within(field.node);
    const lower = prefix.toLowerCase();
    const columns = [...this.#columns].filter((column) => column.toLowerCase().startsWith(lower));
    if (node.kind !== 'object' || columns.length === 0) return undefined;
    const plan = node.plan();
    return {
      kind: 'joined',
      plan,
      columns,
      members: this.members(plan, prefix),
      absent: isNullable ? { value: null } : field.isOptional ? { value: undefined } : undefined,
    };
  }

  #columnOf(name: string): string | undefined {
    return this.#columns.has(name) ? name : this.#byLowerCase.get(name.toLowerCase());
  }
}

/** The type within `nullable` and `lazy`. */
function within(node: TypeNode): { readonly node: TypeNode; readonly isNullable: boolean } {
  if (node.kind === 'nullable') return { node: within(node.inner).node, isNullable: true };
  return node.kind === 'lazy' ? within(node.resolve()) : { node, isNullable: false };
}

/** A row that has its columns in the order of the members is read by `for ... in`: 5 % of 1,000 rows (test/bench/rows.ts). */
function readMembers(members: readonly RowMember[], row: Row, run: Run): unknown[] | typeof FAIL {
  const values = new Array<unknown>(members.length);
  const before = run.count;
  let index = 0;
  for (const key in row) {
    const each = members[index];
    if (each?.kind !== 'column' || each.member.key !== key) break;
    values[index++] = readColumn(each.member, row[key], run);
  }
  for (; index < members.length; index++) values[index] = readMember(members[index]!, row, run);
  return run.count === before ? values : FAIL;
}

function readMember(member: RowMember, row: Row, run: Run): unknown {
  switch (member.kind) {
    case 'column':
      return readColumn(member.member, row[member.member.key], run);
    case 'joined':
      return readJoined(member, row, run);
    case 'absent':
      return member.make(run);
  }
}

function readColumn(member: Member, raw: unknown, run: Run): unknown {
  return member.plain.accepts(raw, true) ? raw : member.checked(raw, run); // text of a driver is well-formed
}

function readJoined(joined: Extract<RowMember, { kind: 'joined' }>, row: Row, run: Run): unknown {
  const { absent, columns, members, plan } = joined;
  if (absent !== undefined && columns.every((column) => row[column] === null)) return absent.value;
  const values = readMembers(members, row, run);
  return values === FAIL ? FAIL : plan.build(values, row, undefined);
}

/** NULL is how a column has no value: an optional member is absent then. */
function orAbsent(field: FieldPlan, check: Check): Check {
  if (!field.isOptional || takesNull(field.node)) return check;
  return (value, run) => (value === null ? undefined : check(value, run));
}

/** Whether null is a value of the type. */
function takesNull(node: TypeNode): boolean {
  if (node.kind === 'lazy') return takesNull(node.resolve());
  return (
    node.kind === 'nullable' || node.kind === 'any' || (node.kind === 'literal' && node.values.includes(null))
  );
}

/** The check of the value of a column. `parsesText`: as in {@link RowNaming}. */
export function columnCheck(node: TypeNode, parsesText: boolean): Check {
  switch (node.kind) {
    case 'any':
      return parsesText ? parsed((value) => value) : (value) => value; // the driver has made it
    case 'bytes':
      return binary(partCheck(node));
    case 'nullable':
      return isStructure(node) ? parsed(partCheck(node)) : nullableCheck(columnCheck(node.inner, parsesText)); // JSON may say null, too
    case 'lazy':
      return deferred(() => columnCheck(node.resolve(), parsesText));
    case 'list':
    case 'record':
    case 'object':
    case 'union':
      return parsed(partCheck(node));
    default:
      return partCheck(node);
  }
}

function isStructure(node: TypeNode): boolean {
  return ['list', 'record', 'object', 'union'].includes(within(node).node.kind);
}

/** A check of a value in a column, or within the JSON or the array that a column holds. */
function partCheck(node: TypeNode): Check {
  switch (node.kind) {
    case 'str':
      return converted(node, (value) => (isInteger(value) ? String(value) : value));
    case 'int':
      return converted(node, integerOf);
    case 'float':
      return converted(node, floatOf);
    case 'bool':
      return converted(node, flagOf);
    case 'datetime':
      return momentCheck;
    case 'date':
      return converted(node, dayOf);
    case 'uuid':
      return converted(node, uuidOf);
    case 'literal':
      return choiceCheck(node.values);
    case 'nullable':
      return nullableCheck(partCheck(node.inner));
    case 'lazy':
      return deferred(() => partCheck(node.resolve()));
    case 'list':
      return listCheck(partCheck(node.item), node, new Plain(node.item));
    case 'record':
      return recordCheck(partCheck(node.item), node);
    case 'object':
      return deferred(() => objectCheck(node.plan()));
    case 'union':
      return deferred(() => unionCheck(node));
    case 'file':
      return (_, run) => run.fail('type', 'cannot be read from a database: it is a file');
    default:
      return jsonCheck(node);
  }
}

function converted(node: TypeNode, convert: (value: unknown) => unknown): Check {
  const check = jsonCheck(node);
  return (value, run) => check(convert(value), run);
}

/** JSON: text of it where the engine, or the column, has no such type. */
function parsed(check: Check): Check {
  return (value, run) => {
    if (typeof value !== 'string') return check(value, run);
    let json: unknown;
    try {
      json = JSON.parse(value);
    } catch {
      return run.fail('type', 'must be JSON');
    }
    return check(json, run);
  };
}

function binary(check: Check): Check {
  return (value, run) =>
    value instanceof Uint8Array ? check(value, run) : run.fail('type', 'must be bytes');
}

function isInteger(value: unknown): boolean {
  return typeof value === 'bigint' || Number.isSafeInteger(value);
}

const WHOLE = /^-?\d+(?:\.0*)?$/;
const DECIMAL = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** Every decimal of so many digits has a number of its own. */
const EXACT_DIGITS = 15;

function integerOf(value: unknown): unknown {
  return typeof value === 'bigint' || (typeof value === 'string' && WHOLE.test(value))
    ? Number(value)
    : value; // beyond 2^53 it is no safe integer, and refused as one
}

/** A decimal that no number is equal to stays text, and is refused. */
function floatOf(value: unknown): unknown {
  if (typeof value === 'bigint') return BigInt(Number(value)) === value ? Number(value) : value;
  if (typeof value !== 'string' || !DECIMAL.test(value)) return value;
  const digits = value
    .replace(/[eE].*/, '')
    .replace(/\D/g, '')
    .replace(/^0+/, '')
    .replace(/0+$/, '');
  return digits.length <= EXACT_DIGITS ? Number(value) : value;
}

function flagOf(value: unknown): unknown {
  if (value === 1 || value === 1n || value === '1') return true;
  return value === 0 || value === 0n || value === '0' ? false : value;
}

const INSTANT =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?Z?$/;
const MIDNIGHT = /^(\d{4}-\d\d-\d\d)[T ]00:00:00(?:\.0+)?Z?$/;
const DAY_MS = 86_400_000;

/** An instant. Sessions are in UTC, and so is text without a zone; digits beyond milliseconds are cut. */
const momentCheck: Check = (value, run) => {
  if (value instanceof Date)
    return Number.isNaN(checkedMs(value.getTime())) ? notMoment(run, 'format') : value;
  if (typeof value !== 'string') return notMoment(run, 'type');
  const ms = INSTANT.test(value) ? instantMs(value) : momentMs(value);
  return Number.isNaN(ms) ? notMoment(run, 'format') : new Date(ms);
};

function notMoment(run: Run, code: string): typeof FAIL {
  return run.fail(code, 'must be a date and time, in the years 0000 to 9999');
}

let lastDay = NaN;
let lastDayMs = NaN;

/**
 * The milliseconds of a text that {@link INSTANT} takes; NaN for February 30. The day is kept, for rows that are read together are
 * often of one. `Date.parse()` takes three times as long (test/bench/rows.ts).
 */
function instantMs(text: string): number {
  const day =
    (twoDigits(text, 0) * 100 + twoDigits(text, 2)) * 10_000 + twoDigits(text, 5) * 100 + twoDigits(text, 8);
  if (day !== lastDay) {
    const date = text.slice(0, 10);
    lastDayMs = isDate(date) ? Date.parse(date) : NaN;
    lastDay = day;
  }
  let ms = lastDayMs + ((twoDigits(text, 11) * 60 + twoDigits(text, 14)) * 60 + twoDigits(text, 17)) * 1_000;
  for (let at = 20, unit = 100; unit >= 1; at++, unit /= 10) {
    const digit = text.charCodeAt(at) - ZERO; // NaN behind the end
    if (!(digit >= 0 && digit <= 9)) break;
    ms += digit * unit;
  }
  return ms;
}

const ZERO = 0x30;

function twoDigits(text: string, at: number): number {
  return (text.charCodeAt(at) - ZERO) * 10 + text.charCodeAt(at + 1) - ZERO;
}

function dayOf(value: unknown): unknown {
  if (typeof value === 'string') return MIDNIGHT.exec(value)?.[1] ?? value;
  return value instanceof Date && value.getTime() % DAY_MS === 0 ? value.toISOString().slice(0, 10) : value;
}

/** Engines with such a type write it in lower case. */
function uuidOf(value: unknown): unknown {
  if (typeof value === 'string') return value.toLowerCase();
  if (!(value instanceof Uint8Array) || value.length !== 16) return value;
  const hex = Buffer.from(value).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** A literal; numbers and flags in any form that an engine has for them. */
function choiceCheck(values: readonly Literal[]): Check {
  const check = literalCheck(values);
  const hasFlags = values.some((value) => typeof value === 'boolean');
  const hasNumbers = values.some((value) => typeof value === 'number');
  return (value, run) => {
    if (values.includes(value as Literal)) return value;
    const flag = hasFlags ? flagOf(value) : value;
    if (typeof flag === 'boolean') return check(flag, run);
    return check(hasNumbers ? floatOf(value) : value, run);
  };
}

const OBJECT_CHECKS = new WeakMap<ObjectPlan, Check>();

/** An object in JSON, by its names on the wire. Read-only members are read: the database sets them. */
function objectCheck(plan: ObjectPlan): Check {
  let check = OBJECT_CHECKS.get(plan);
  if (check === undefined) OBJECT_CHECKS.set(plan, (check = compileObject(plan)));
  return check;
}

function compileObject(plan: ObjectPlan): Check {
  const members = new Members(
    plan.fields.map((field) => {
      const check = orAbsent(field, partCheck(field.node));
      return new Member(field.wireName, new Plain(field.node), check, absence(field));
    }),
  );
  const unknown = plan.extra === 'ignore' ? undefined : unknownMembers(plan);
  return (value, run) => {
    if (!isInputObject(value, run)) return run.fail('type', 'must be an object');
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    const before = run.count;
    const values = members.read(value, run);
    const isGood = run.count === before && !run.isFull;
    const extras = run.isMore ? unknown?.(value, run) : undefined;
    run.depth--;
    return isGood && extras !== FAIL ? plan.build(values, value, extras) : FAIL;
  };
}

function unionCheck(node: Extract<TypeNode, { kind: 'union' }>): Check {
  const variants = node.variants();
  const byTag = new Map<unknown, Check>(
    variants.flatMap(({ plan, values }) => values.map((value) => [value, objectCheck(plan)] as const)),
  );
  const message = literalMessage([...byTag.keys()] as Literal[]); // tags are literals
  const { tagWire } = variants[0]!; // a union has variants
  return (value, run) => {
    if (!isInputObject(value, run)) return run.fail('type', 'must be an object');
    const check = Object.hasOwn(value, tagWire) ? byTag.get(value[tagWire]) : undefined;
    if (check !== undefined) return check(value, run);
    const mark = run.count;
    run.fail('enum', message);
    run.place(mark, tagWire);
    return FAIL;
  };
}
