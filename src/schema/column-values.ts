/**
 * Compiles types to functions that validate values of database columns. Database engines return a value in
 * different forms: true may be 1. Each form is converted to the type of the field, and then validated as in
 * compile.ts.
 *
 * Accepted forms of each type:
 *   - bool: true, false, 0, 1, '0' or '1'
 *   - int: a number, a bigint, or decimal text without a fraction
 *   - float: a number, a bigint, or decimal text, as the nearest number
 *   - str: text, or an integer, which becomes text
 *   - datetime: a Date, or ISO 8601 text, which is UTC if it names no zone
 *   - date: YYYY-MM-DD, or a date and time at midnight UTC
 *   - uuid: text in any case, or 16 bytes
 *   - list, record, class, union: an array, an object, or JSON text (see {@link JsonText})
 *
 * A conversion that would lose a digit is refused, except for `float`: engines return an average of integers
 * with more digits than a number has, depending on the data. Members of JSON objects in a column have the names that
 * clients use (their aliases). The accepted forms also apply inside JSON, because SQL functions write true as
 * 1 in JSON.
 */
import {
  absence,
  checksByTag,
  deferred,
  jsonCheck,
  listCheck,
  Member,
  Members,
  nullableCheck,
  oncePerPlan,
  Plain,
  recordCheck,
  unknownMembers,
} from './compile.ts';
import { checkedMs, isDate, momentMs } from './formats.ts';
import { FAIL } from './types.ts';
import { isInputObject, literalCheck, MAX_DEPTH, tooDeep } from './validation-run.ts';
import type { Literal } from './types.ts';
import type { FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';
import type { Check, Run } from './validation-run.ts';

/**
 * Types for which text is parsed as JSON: `none` if the driver has parsed all JSON, so that text is a value
 * of its own; `structures` if expressions may return JSON as text; `all` if JSON is always text.
 */
export type JsonText = 'none' | 'structures' | 'all';

/** Returns the function that validates the value of a column. */
export function columnCheck(node: TypeNode, jsonText: JsonText): Check {
  switch (node.kind) {
    case 'any':
      // values of the type `any` come from the database driver, and need no validation
      return jsonText === 'all' ? parsed((value) => value) : (value) => value;
    case 'bytes':
      return binary(partCheck(node));
    case 'nullable':
      // the column may contain the JSON text `null`, so the text is parsed before the check for null
      return isStructure(node) && jsonText !== 'none'
        ? parsed(partCheck(node))
        : nullableCheck(columnCheck(node.inner, jsonText));
    case 'lazy':
      return deferred(() => columnCheck(node.resolve(), jsonText));
    case 'list':
    case 'record':
    case 'object':
    case 'union':
      return jsonText === 'none' ? partCheck(node) : parsed(partCheck(node));
    default:
      return partCheck(node);
  }
}

function isStructure(node: TypeNode): boolean {
  return ['list', 'record', 'object', 'union'].includes(within(node).node.kind);
}

/**
 * Returns the function that validates a single value: a column, a member of a JSON object, or an item of an
 * array.
 */
function partCheck(node: TypeNode): Check {
  switch (node.kind) {
    case 'str':
      return converted(node, (value) => (isInteger(value) ? String(value) : value));
    case 'int':
      return converted(node, integerOf);
    case 'float':
      return converted(node, floatOf);
    case 'bool':
      return flagCheck;
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
      return objectCheck(node.plan());
    case 'union':
      return unionCheck(node);
    case 'file':
      return (_, run) => run.fail('type', 'is declared as a file, which cannot be read from a database');
    default:
      return jsonCheck(node);
  }
}

function converted(node: TypeNode, convert: (value: unknown) => unknown): Check {
  const check = jsonCheck(node);
  return (value, run) => check(convert(value), run);
}

/**
 * Returns a check that parses text as JSON before `check` runs, for engines and columns without a JSON type.
 */
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
/** A JavaScript number keeps every digit of a decimal with at most this number of digits. */
const EXACT_DIGITS = 15;

function integerOf(value: unknown): unknown {
  // Number() rounds integers beyond ±2^53, but the validation refuses such integers
  return typeof value === 'bigint' || (typeof value === 'string' && WHOLE.test(value))
    ? Number(value)
    : value;
}

/**
 * Converts decimal text or a bigint to the nearest number. The validation refuses NaN, and a number that is
 * too large.
 */
function floatOf(value: unknown): unknown {
  return typeof value === 'bigint' || (typeof value === 'string' && DECIMAL.test(value))
    ? Number(value)
    : value;
}

/**
 * Converts decimal text or a bigint to a number. If digits could be lost, the value stays unchanged, and the
 * validation refuses it.
 */
function exactNumberOf(value: unknown): unknown {
  if (typeof value === 'bigint') return BigInt(Number(value)) === value ? Number(value) : value;
  if (typeof value !== 'string' || !DECIMAL.test(value)) return value;
  const digits = value
    .replace(/[eE].*/, '')
    .replace(/\D/g, '')
    .replace(/^0+/, '')
    .replace(/0+$/, '');
  return digits.length <= EXACT_DIGITS ? Number(value) : value;
}

const flagCheck: Check = (value, run) => {
  const flag = flagOf(value);
  return flag === true || flag === false ? flag : run.fail('type', 'must be true or false');
};

function flagOf(value: unknown): unknown {
  if (value === 1 || value === 1n || value === '1') return true;
  return value === 0 || value === 0n || value === '0' ? false : value;
}

const MIDNIGHT = /^(\d{4}-\d\d-\d\d)[T ]00:00:00(?:\.0+)?Z?$/;
const DAY_MS = 86_400_000;
const [ZERO, DOT, COLON, SPACE, LETTER_T, LETTER_Z] = [0x30, 0x2e, 0x3a, 0x20, 0x54, 0x5a];

/**
 * Validates a date and time. Text without a zone is UTC, because database sessions use UTC. Digits beyond
 * milliseconds are dropped.
 */
const momentCheck: Check = (value, run) => {
  if (typeof value === 'string') {
    const utc = utcMs(value);
    const ms = Number.isNaN(utc) ? momentMs(value) : utc;
    return Number.isNaN(ms) ? notMoment(run, 'format') : new Date(ms);
  }
  if (!(value instanceof Date)) return notMoment(run, 'type');
  return Number.isNaN(checkedMs(value.getTime())) ? notMoment(run, 'format') : value;
};

function notMoment(run: Run, code: string): typeof FAIL {
  return run.fail(code, 'must be a date and time, in the years 0000 to 9999');
}

/**
 * Parses `2024-02-29T12:30:15.250Z` to milliseconds since 1970. The T may be a space, and the Z may be
 * missing. Returns NaN for other text. It does not call `Date.parse()`, which would take 15 % of the time for
 * reading rows (test/bench/rows.ts).
 */
function utcMs(text: string): number {
  const [hour, minute, second] = [twoDigits(text, 11), twoDigits(text, 14), twoDigits(text, 17)];
  const isTime =
    hour < 24 && minute < 60 && second < 60 && text.charCodeAt(13) === COLON && text.charCodeAt(16) === COLON;
  const separator = text.charCodeAt(10);
  if (!isTime || (separator !== LETTER_T && separator !== SPACE)) return NaN;
  let ms = utcDayMs(text) + ((hour * 60 + minute) * 60 + second) * 1_000;
  let at = 19;
  if (text.charCodeAt(at) === DOT) {
    if (!isDigit(text.charCodeAt(++at))) return NaN;
    for (let unit = 100; isDigit(text.charCodeAt(at)); at++, unit /= 10)
      if (unit >= 1) ms += (text.charCodeAt(at) - ZERO) * unit;
  }
  if (text.charCodeAt(at) === LETTER_Z) at++;
  return at === text.length ? ms : NaN;
}

let lastDate = '-'; // differs from every date
let lastDateMs = NaN;

/**
 * Returns the milliseconds since 1970 of the date at the start of a text. The last date is cached, because
 * consecutive rows often have the same date.
 */
function utcDayMs(text: string): number {
  if (text.startsWith(lastDate)) return lastDateMs;
  const date = text.slice(0, 10);
  if (!isDate(date)) return NaN; // checked first, because Date.parse() reads February 30 as a day in March
  lastDate = date;
  return (lastDateMs = Date.parse(date));
}

/** Returns the two digits at a position as a number, or NaN. */
function twoDigits(text: string, at: number): number {
  const [tens, ones] = [text.charCodeAt(at), text.charCodeAt(at + 1)];
  return isDigit(tens) && isDigit(ones) ? (tens - ZERO) * 10 + ones - ZERO : NaN;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code < ZERO + 10;
}

function dayOf(value: unknown): unknown {
  if (typeof value === 'string') return MIDNIGHT.exec(value)?.[1] ?? value;
  return value instanceof Date && value.getTime() % DAY_MS === 0 ? value.toISOString().slice(0, 10) : value;
}

/** Converts a UUID (text or 16 bytes) to lower-case text, the form that engines with a UUID type return. */
function uuidOf(value: unknown): unknown {
  if (typeof value === 'string') return value.toLowerCase();
  if (!(value instanceof Uint8Array) || value.length !== 16) return value;
  const hex = Buffer.from(value).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/**
 * Returns the function that validates a `literal()` field. Accepts numbers as bigint or text, and booleans as
 * 0 and 1, because database drivers return such values.
 */
function choiceCheck(values: readonly Literal[]): Check {
  const check = literalCheck(values);
  const hasFlags = values.some((value) => typeof value === 'boolean');
  const hasNumbers = values.some((value) => typeof value === 'number');
  return (value, run) => {
    if (values.includes(value as Literal)) return value;
    const flag = hasFlags ? flagOf(value) : value;
    if (typeof flag === 'boolean') return check(flag, run);
    return check(hasNumbers ? exactNumberOf(value) : value, run);
  };
}

/**
 * Returns the function that validates a JSON object in a column. Members have the names that clients use
 * (their aliases). Read-only members are accepted, because the database sets them.
 */
const objectCheck = oncePerPlan(compileObject);

function compileObject(plan: ObjectPlan): Check {
  const members = new Members(
    plan.fields.map((field) => {
      const compile = (): Check => orAbsent(field, partCheck(field.node));
      return new Member(field.wireName, new Plain(field.node), compile, absence(field));
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
  const { byTag, message } = checksByTag(variants, objectCheck);
  const { tagWire } = variants[0]!; // a union has at least one variant
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

/** Extends `check` for an optional member: NULL becomes undefined if the type does not allow null. */
export function orAbsent(field: FieldPlan, check: Check): Check {
  if (!field.isOptional || takesNull(field.node)) return check;
  return (value, run) => (value === null ? undefined : check(value, run));
}

function takesNull(node: TypeNode): boolean {
  if (node.kind === 'lazy') return takesNull(node.resolve());
  return (
    node.kind === 'nullable' || node.kind === 'any' || (node.kind === 'literal' && node.values.includes(null))
  );
}

/** Removes `nullable` and `lazy` wrappers. Returns the type inside, and whether a wrapper was `nullable`. */
export function within(node: TypeNode): { readonly node: TypeNode; readonly isNullable: boolean } {
  if (node.kind === 'nullable') return { node: within(node.inner).node, isNullable: true };
  return node.kind === 'lazy' ? within(node.resolve()) : { node, isNullable: false };
}
