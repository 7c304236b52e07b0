/**
 * Rows of the table of kinds (kinds.ts): types whose values contain no values of other types. Below the rows:
 * the conversions of texts, columns and responses, and the keywords of JSON Schema 2020-12.
 *
 * Accepted forms in columns of databases, whose engines return a value in different forms:
 *   - bool: true, false, 0, 1, '0' or '1'
 *   - int: a number, a bigint, or decimal text without a fraction
 *   - float: a number, a bigint, or decimal text, as the nearest number
 *   - decimal: decimal text, or an integer, which becomes text
 *   - str: text, or an integer, which becomes text
 *   - datetime: a Date, or ISO 8601 text, which is UTC if it names no zone
 *   - date: YYYY-MM-DD, or a date and time at midnight UTC
 *   - uuid: text in any case, or 16 bytes
 *   - list, record, tuple, class, union with a tag: an array, an object, or JSON text
 *
 * A conversion that would lose a digit is refused, except for `float`: engines return an average of integers
 * with more digits than a number has, depending on the data. These forms also apply inside JSON, because SQL
 * functions write true as 1 in JSON.
 *
 * Responses: a Date becomes RFC 3339 text, and bytes become base64. A safe integer as bigint becomes a number
 * in an integer field. In an `any` field, every bigint becomes decimal text.
 */
import { isJsonBytes } from '../base/bytes.ts';
import { FORGOTTEN_AWAIT, isThenable, lossInJson } from '../base/promises.ts';
import { bool as boolOption, defined, given, int as intOption, setOwn, shown } from '../base/options.ts';
import {
  BASE64_PATTERN,
  checkedMs,
  dayOf,
  decimalPattern,
  exactNumberOf,
  flagOf,
  floatOf,
  FORMATS,
  integerOf,
  MOMENT_PATTERN,
  momentMs,
  textOf,
  toBase64,
  utcMs,
  uuidOf,
} from './formats.ts';
import { FAIL } from './types.ts';
import {
  anyCheck,
  boolCheck,
  bytesCheck,
  countCheck,
  datetimeCheck,
  decimalCheck,
  formatCheck,
  literalCheck,
  literalMessage,
  MAX_CHOICES,
  MAX_DEPTH,
  nameProblem,
  numberCheck,
  Plain,
  PLAIN,
  stringCheck,
  tooDeep,
} from './validation-run.ts';
import type { JsonSchema, OptionTable, Reader, Rows } from './nodes.ts';
import type { Constraints, FileLike, FormatName, Literal, ScalarKind } from './types.ts';
import type { Check, PlainKind, Run } from './validation-run.ts';

const isText = (value: unknown): boolean => typeof value === 'string';
/** Options of records and bytes. */
export const COUNTS: OptionTable = {
  minLength: given<number>('an integer 0 … 2^53 - 1', isCount),
  maxLength: given<number>('an integer 0 … 2^53 - 1', isCount),
};
const TEXTS: OptionTable = {
  ...COUNTS,
  pattern: given<string | RegExp>(
    'a pattern as text or RegExp',
    (value) => isText(value) || value instanceof RegExp,
  ),
  email: boolOption(),
  trim: boolOption(),
  format: given<FormatName>(
    `one of ${Object.keys(FORMATS)
      .map((name) => `"${name}"`)
      .join(', ')}`,
    (value) => isText(value) && Object.hasOwn(FORMATS, value as string),
  ),
};
const finite = given<number>('a finite number', Number.isFinite);
const NUMBERS: OptionTable = {
  ge: finite,
  le: finite,
  gt: finite,
  lt: finite,
  multipleOf: given<number>('a number above 0', (value) => Number.isFinite(value) && (value as number) > 0),
};
const DECIMALS: OptionTable = {
  digits: given<number>('an integer 1 … 1000', (value) => intOption(1, 1, 1_000).accepts(value)),
  places: given<number>('an integer 0 … 1000', (value) => intOption(0, 0, 1_000).accepts(value)),
};
const FILES: OptionTable = {
  ...COUNTS,
  contentTypes: given<readonly string[]>(
    'a list of media types such as "image/png" or "image/*"',
    isMediaTypes,
  ),
};

export const SCALARS: Rows<ScalarKind | 'literal'> = {
  str: {
    options: TEXTS,
    sample: () => 'text',
    takesEmpty: () => true,
    plain: ({ constraints }) => new Plain(plainText(constraints), constraints),
    json: ({ constraints }) => stringCheck(constraints),
    part: (node, of) => converted(textOf, of.json(node)),
    document: ({ constraints }) => textSchema(constraints),
  },

  int: {
    options: NUMBERS,
    sample: () => 1,
    plain: ({ constraints }) => new Plain(PLAIN.integer, constraints),
    json: ({ constraints }) => numberCheck(constraints, true),
    text: (node, of) => fromText(INTEGER, 'must be an integer', of.json(node)),
    part: (node, of) => converted(integerOf, of.json(node)),
    output: (node, of) => converted(integerOutput, of.json(node)),
    document: ({ constraints }, of) => integerSchema(constraints, of.isOpenApi),
  },

  float: {
    options: NUMBERS,
    sample: () => 1,
    plain: ({ constraints }) => new Plain(PLAIN.number, constraints),
    json: ({ constraints }) => numberCheck(constraints, false),
    text: (node, of) => fromText(DECIMAL, 'must be a finite number', of.json(node)),
    part: (node, of) => converted(floatOf, of.json(node)),
    document: ({ constraints }) => numberSchema('number', constraints),
  },

  decimal: {
    options: DECIMALS,
    read: (_, of) => ({ kind: 'decimal', constraints: decimalConstraints(of) }),
    sample: () => '0',
    json: ({ constraints }) => decimalCheck(constraints),
    part: (node, of) => converted(textOf, of.json(node)),
    document: ({ constraints }) => ({ type: 'string', pattern: decimalPattern(constraints).source }),
  },

  bool: {
    sample: () => true,
    plain: ({ constraints }) => new Plain(PLAIN.flag, constraints),
    json: boolCheck,
    text: () => flagText,
    part: (node, of) => converted(flagOf, of.json(node)),
    document: () => ({ type: 'boolean' }),
  },

  datetime: {
    sample: () => new Date(0),
    json: datetimeCheck,
    part: () => momentCheck,
    output: (node, of) => thatIs(Date, 'must be a Date', of.json(node), (moment) => moment.toISOString()),
    document: () => formattedSchema('datetime'),
  },

  date: {
    sample: () => '2000-01-01',
    json: () => formatCheck('date'),
    part: (node, of) => converted(dayOf, of.json(node)),
    document: () => formattedSchema('date'),
  },

  uuid: {
    sample: () => '00000000-0000-4000-8000-000000000000',
    json: () => formatCheck('uuid'),
    part: (node, of) => converted(uuidOf, of.json(node)),
    document: () => formattedSchema('uuid'),
  },

  bytes: {
    options: COUNTS,
    sample: () => new Uint8Array(),
    json: ({ constraints }) => bytesCheck(constraints),
    column: (node, of) => thatIs(Uint8Array, 'must be bytes', of.json(node), (value) => value),
    output: (node, of) => thatIs(Uint8Array, 'must be a Uint8Array', of.json(node), toBase64),
    document: ({ constraints }) => bytesSchema(constraints),
  },

  file: {
    options: FILES,
    sample: () => ({}),
    json: () => refused('must be a file, sent as multipart/form-data'),
    text: ({ constraints }) => fileText(constraints),
    textIssue: (_, isForm) => (isForm ? undefined : 'a file can only be sent in a form'),
    part: () => refused('is declared as a file, which cannot be read from a database'),
    output: () => refused('is declared as a file, which cannot be part of a response'),
    document: ({ constraints }) => fileSchema(constraints),
  },

  any: {
    sample: () => ({}),
    takesEmpty: () => true,
    json: () => anyCheck,
    texts: () => anyCheck,
    // values of the type `any` come from the database driver, and need no validation
    column: () => (value) => value,
    jsonText: 'all',
    output: () => anyOutput,
    document: () => ({}),
  },

  literal: {
    read: ({ values }, of) => ({
      kind: 'literal',
      constraints: of.constraints,
      values: literalsOf(values, of),
    }),
    sample: ({ values }) => values[0],
    takesEmpty: ({ values }) => values.includes(''),
    plain: ({ values, constraints }) =>
      values.length <= MAX_CHOICES ? new Plain(PLAIN.choice, constraints, values) : Plain.nothing,
    json: ({ values }) => literalCheck(values),
    text: ({ values }) => literalText(values),
    part: ({ values }) => literalColumn(values),
    document: ({ values }) => literalSchema(values),
  },
};

function decimalConstraints({ constraints, fault }: Reader): Constraints {
  const { digits = 18, places = 2 } = constraints;
  if (places > digits) throw fault(`its places (${places}) exceed its digits (${digits})`);
  return { ...constraints, digits, places };
}

function plainText({ format }: Constraints): PlainKind {
  if (format === undefined) return PLAIN.text;
  return FORMATS[format].isWhole === true ? PLAIN.formatted : PLAIN.none;
}

/** Extends a check: values of other forms are converted first. */
function converted(convert: (value: unknown) => unknown, check: Check): Check {
  return (value, run) => check(convert(value), run);
}

/** The check, as text, of a type that text cannot hold. */
export const unsendable: Check = refused('has a type that cannot be sent as text');

/** Returns a check that accepts nothing. */
function refused(message: string): Check {
  return (_, run) => run.fail('type', message);
}

/** Returns a check that accepts only instances of a class, and converts them after `check`. */
function thatIs<T extends object>(
  type: abstract new (...args: never) => T,
  message: string,
  check: Check,
  convert: (value: T) => unknown,
): Check {
  return (value, run) => {
    if (!(value instanceof type)) return run.fail('type', message);
    return check(value, run) === FAIL ? FAIL : convert(value);
  };
}

function literalsOf(values: readonly Literal[], of: Reader): readonly Literal[] {
  if (values.length === 0) throw of.fault('literal() names no value');
  for (const value of values) {
    if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value))
      continue;
    throw of.fault(
      `literal() cannot name ${shown(value)}: a string, a finite number, a boolean or null is needed`,
    );
  }
  return Object.freeze([...new Set(values)]);
}

const INTEGER = /^-?(?:0|[1-9]\d{0,15})$/;
const DECIMAL = /^-?(?:0|[1-9]\d{0,308})(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;

/** Extends a check: text that matches the pattern is converted to a number first. */
function fromText(pattern: RegExp, message: string, check: Check): Check {
  return (raw, run) =>
    typeof raw === 'string' && pattern.test(raw) ? check(Number(raw), run) : run.fail('type', message);
}

const flagText: Check = (raw, run) => {
  if (raw === 'true' || raw === '1' || (run.isForm && raw === 'on')) return true;
  return raw === 'false' || raw === '0' ? false : run.fail('type', 'must be true or false');
};

function literalText(values: readonly Literal[]): Check {
  const byText = new Map<unknown, Literal>();
  for (const value of values) if (!byText.has(String(value))) byText.set(String(value), value);
  const message = literalMessage(values);
  return (raw, run) => {
    const value = byText.get(raw);
    return value === undefined ? run.fail('enum', message) : value;
  };
}

function fileText(constraints: Constraints): Check {
  const count = countCheck(constraints, 'byte');
  const { contentTypes } = constraints;
  return (raw, run) => {
    if (!run.isForm || typeof raw !== 'object' || raw === null)
      return run.fail('type', 'must be a file, sent as multipart/form-data');
    const { size, contentType } = raw as FileLike;
    if (contentTypes !== undefined && !isOfType(contentType, contentTypes))
      return run.fail('content_type', `must have the media type ${contentTypes.join(' or ')}`);
    return count(size, run) ?? raw;
  };
}

/**
 * Whether the media type that the client declared, without its parameters, is one of the accepted types. A second type
 * after a comma is refused, because browsers use the last one when the text is sent back (WHATWG Fetch, "extract a MIME
 * type").
 */
function isOfType(declared: string, types: readonly string[]): boolean {
  if (/,.*\//s.test(declared)) return false;
  const type = declared.split(';', 1)[0]!.trim().toLowerCase();
  return types.includes(type) || types.includes(`${type.split('/', 1)[0]!}/*`);
}

/**
 * Converts an integer for a response. Databases return large integers as bigint, which becomes a number if no
 * digit is lost.
 */
function integerOutput(value: unknown): unknown {
  return typeof value === 'bigint' && BigInt.asIntN(54, value) === value ? Number(value) : value;
}

/**
 * Converts any value like JSON.stringify(). A bigint becomes text, bytes become base64, and a value that JSON
 * cannot express is an issue.
 */
export const anyOutput: Check = (value, run) => {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return anyCheck(value, run);
  if (isJsonBytes(value)) return toBase64(value);
  if (typeof (value as { toJSON?: unknown }).toJSON !== 'function') return partsOutput(value, run);
  if (value instanceof Date && Number.isNaN(value.getTime())) return run.fail('type', 'must be a valid Date');
  if (run.depth >= MAX_DEPTH) return tooDeep(run);
  run.depth++;
  const out = anyOutput((value as { toJSON(): unknown }).toJSON(), run);
  run.depth--;
  return out;
};

function partsOutput(value: object, run: Run): unknown {
  if (isThenable(value)) return run.fail('type', FORGOTTEN_AWAIT);
  if (run.depth >= MAX_DEPTH) return tooDeep(run);
  // the keys of a typed array are its indexes
  const keys = ArrayBuffer.isView(value) ? [] : Object.keys(value);
  const loss = keys.length === 0 ? lossInJson(value) : undefined;
  if (loss !== undefined) return run.fail('type', loss);
  run.depth++;
  const before = run.count;
  let mark = before;
  const out: Record<string | number, unknown> | unknown[] = Array.isArray(value) ? [] : {};
  for (const key of keys) {
    if (run.isFull) break;
    const part = (value as Record<string, unknown>)[key];
    if (part === undefined || typeof part === 'function') continue;
    const written = nameProblem(key, run) ?? anyOutput(part, run);
    if (written === FAIL) mark = run.place(mark, Array.isArray(value) ? Number(key) : key);
    else setOwn(out, key, written);
  }
  run.depth--;
  return mark === before && !run.isFull ? out : FAIL;
}

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
 * Returns the function that validates a `literal()` field. Accepts numbers as bigint or text, and booleans as
 * 0 and 1, because database drivers return such values.
 */
function literalColumn(values: readonly Literal[]): Check {
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

/*
 * Keywords of JSON Schema 2020-12.
 *
 * Formats and bytes are special cases:
 *   - A format becomes `format` and a pattern, because validators interpret formats differently, or not at
 *     all.
 *   - Bytes get the lengths of their base64 text, and a pattern for the padding. One, two and three bytes all
 *     have four characters, so the length alone does not determine the number of bytes.
 */

function textSchema({ minLength, maxLength = Infinity, format, pattern, hazard }: Constraints): JsonSchema {
  const known = format === undefined ? undefined : FORMATS[format];
  const longest = Math.min(maxLength, known?.maxLength ?? Infinity, hazard?.maxTestedLength ?? Infinity);
  const patterns = [known?.pattern, pattern?.flags === 'u' ? pattern : undefined]
    .filter((rule) => rule !== undefined)
    .map((rule) => ({ pattern: rule.source }));
  return defined({
    type: 'string',
    minLength,
    maxLength: longest === Infinity ? undefined : longest,
    format,
    ...(patterns.length === 1 ? patterns[0] : {}),
    allOf: patterns.length > 1 ? patterns : undefined,
  });
}

function formattedSchema(kind: 'date' | 'uuid' | 'datetime'): JsonSchema {
  if (kind !== 'datetime') return { type: 'string', format: kind, pattern: FORMATS[kind].pattern.source };
  return {
    type: 'string',
    format: 'date-time',
    maxLength: FORMATS['date-time'].maxLength,
    pattern: MOMENT_PATTERN,
  };
}

/**
 * Returns the keywords of a number. If it has both an inclusive and an exclusive bound on one side, only the
 * narrower one is written, because linters report two bounds.
 */
function numberSchema(
  type: 'integer' | 'number',
  { ge = -Infinity, le = Infinity, gt = -Infinity, lt = Infinity, multipleOf }: Constraints,
): JsonSchema {
  const [least, most] =
    type === 'integer'
      ? [Math.max(ge, Number.MIN_SAFE_INTEGER), Math.min(le, Number.MAX_SAFE_INTEGER)]
      : [ge, le];
  return defined({
    type,
    minimum: gt < least ? least : undefined,
    maximum: lt > most ? most : undefined,
    exclusiveMinimum: gt >= least && gt !== -Infinity ? gt : undefined,
    exclusiveMaximum: lt <= most && lt !== Infinity ? lt : undefined,
    multipleOf,
  });
}

/**
 * Returns the keywords of an integer. In OpenAPI, an integer that needs more than 32 bits has the format `int64`:
 * generated clients of many languages read an integer without format as 32 bits.
 */
function integerSchema(constraints: Constraints, isOpenApi: boolean): JsonSchema {
  const { type, multipleOf, ...bounds } = numberSchema('integer', constraints);
  const isWide = Object.values(bounds).some(
    (bound) => Number(bound) < -(2 ** 31) || Number(bound) >= 2 ** 31,
  );
  return defined({ type, format: isWide && isOpenApi ? 'int64' : undefined, ...bounds, multipleOf });
}

/**
 * Returns the keywords of base64 text. Each group of four characters holds three bytes; the last group holds
 * one to three.
 */
function bytesSchema({ minLength, maxLength }: Constraints): JsonSchema {
  const charactersOf = (count: number | undefined): number | undefined =>
    count === undefined ? undefined : Math.ceil(count / 3) * 4;
  const [least, most] = [charactersOf(minLength), charactersOf(maxLength)];
  const either = [
    minLength === undefined || minLength % 3 === 1 || minLength === 0
      ? undefined
      : patternOr({ minLength: least! + 1 }, minLength % 3 === 0 ? '[^=]$' : '[^=]=?$'),
    maxLength === undefined || maxLength % 3 === 0
      ? undefined
      : patternOr({ maxLength: most! - 4 }, maxLength % 3 === 1 ? '==$' : '=$'),
  ].filter((rule) => rule !== undefined);
  return defined({
    type: 'string',
    contentEncoding: 'base64',
    pattern: BASE64_PATTERN,
    minLength: least,
    maxLength: most,
    ...(either.length === 1 ? either[0] : {}),
    allOf: either.length > 1 ? either : undefined,
  });
}

function patternOr(length: JsonSchema, pattern: string): JsonSchema {
  return {
    anyOf: [
      { type: 'string', ...length },
      { type: 'string', pattern },
    ],
  };
}

/**
 * Returns the JSON Schema keywords that describe an uploaded file. `contentMediaType` can name only one media
 * type. `minLength` and `maxLength` are in octets (OpenAPI 3.1.1 §4.8.14.3).
 */
function fileSchema({ contentTypes = [], minLength, maxLength }: Constraints): JsonSchema {
  const [type] = contentTypes;
  const isOne = type !== undefined && contentTypes.length === 1 && !type.endsWith('*');
  const contentMediaType = isOne ? type : 'application/octet-stream';
  return defined({ type: 'string', contentMediaType, minLength, maxLength });
}

function literalSchema(values: readonly Literal[]): JsonSchema {
  const types = [...new Set(values.map((value) => (value === null ? 'null' : typeof value)))];
  return {
    type: types.length === 1 ? types[0] : types,
    ...(values.length === 1 ? { const: values[0] } : { enum: values }),
  };
}

function isMediaTypes(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every(
      (type) =>
        isText(type) &&
        /^[a-z0-9][a-z0-9!#$&^_.+-]*\/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]*)$/i.test(type as string),
    )
  );
}

function isCount(value: unknown): boolean {
  return intOption(0, 0, Number.MAX_SAFE_INTEGER).accepts(value);
}
