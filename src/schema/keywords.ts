/**
 * Converts the constraints of a value to keywords of JSON Schema 2020-12, exactly where possible.
 *
 * Two special cases:
 *   formats    `format` and a pattern, because validators interpret formats differently, or not at all
 *   bytes      the lengths of the base64 text; three bytes have four characters, so a pattern for the padding
 *              tells numbers of bytes with equal lengths of text apart
 */
import { defined } from '../base/options.ts';
import { BASE64_PATTERN, FORMATS, MOMENT_PATTERN } from './formats.ts';
import type { Constraints } from './nodes.ts';
import type { Literal } from './types.ts';

/** A JSON Schema document or a part of one. */
export type JsonSchema = { [keyword: string]: unknown };

/** Returns the keywords of a string. */
export function textSchema({
  minLength,
  maxLength = Infinity,
  format,
  pattern,
  hazard,
}: Constraints): JsonSchema {
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

/** Returns the keywords of a string of the kind `date`, `uuid` or `datetime`. */
export function formattedSchema(kind: 'date' | 'uuid' | 'datetime'): JsonSchema {
  if (kind !== 'datetime') return { type: 'string', format: kind, pattern: FORMATS[kind].pattern.source };
  return {
    type: 'string',
    format: 'date-time',
    maxLength: FORMATS['date-time'].maxLength,
    pattern: MOMENT_PATTERN,
  };
}

/**
 * Returns the keywords of a number. Of two bounds at one end it writes only the narrower, because linters
 * report both as a mistake.
 */
export function numberSchema(
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
 * Returns the keywords of base64 text. A group of four characters holds three bytes; the last group holds one
 * to three.
 */
export function bytesSchema({ minLength, maxLength }: Constraints): JsonSchema {
  const charactersOf = (count: number | undefined): number | undefined =>
    count === undefined ? undefined : Math.ceil(count / 3) * 4;
  const [least, most] = [charactersOf(minLength), charactersOf(maxLength)];
  const either = [
    minLength === undefined || minLength % 3 === 1 || minLength === 0
      ? undefined
      : longerOr(least! + 1, minLength % 3 === 0 ? '[^=]$' : '[^=]=?$'),
    maxLength === undefined || maxLength % 3 === 0
      ? undefined
      : shorterOr(most! - 4, maxLength % 3 === 1 ? '==$' : '=$'),
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

function longerOr(minLength: number, pattern: string): JsonSchema {
  return {
    anyOf: [
      { type: 'string', minLength },
      { type: 'string', pattern },
    ],
  };
}

function shorterOr(maxLength: number, pattern: string): JsonSchema {
  return {
    anyOf: [
      { type: 'string', maxLength },
      { type: 'string', pattern },
    ],
  };
}

/**
 * Returns the keywords of a file. They can name one media type but not a choice. Sizes are in octets (OpenAPI
 * 3.1.1 §4.8.14.3).
 */
export function fileSchema({ contentTypes = [], minLength, maxLength }: Constraints): JsonSchema {
  const [type] = contentTypes;
  const isOne = type !== undefined && contentTypes.length === 1 && !type.endsWith('*');
  const contentMediaType = isOne ? type : 'application/octet-stream';
  return defined({ type: 'string', contentMediaType, minLength, maxLength });
}

/** Returns the keywords of a literal. */
export function literalSchema(values: readonly Literal[]): JsonSchema {
  const types = [...new Set(values.map((value) => (value === null ? 'null' : typeof value)))];
  return {
    type: types.length === 1 ? types[0] : types,
    ...(values.length === 1 ? { const: values[0] } : { enum: values }),
  };
}

const BEYOND_TYPE = ['const', 'enum', 'oneOf', 'anyOf', 'allOf'];

/**
 * Returns a schema that also accepts null. A single type becomes a list of types. Other keywords need
 * `anyOf`, because null would not satisfy them.
 */
export function orNull(schema: JsonSchema): JsonSchema {
  if (Object.keys(schema).length === 0) return schema; // a schema without keywords accepts null already
  if (typeof schema['type'] !== 'string' || BEYOND_TYPE.some((keyword) => keyword in schema))
    return { anyOf: [schema, { type: 'null' }] };
  schema['type'] = [schema['type'], 'null'];
  return schema;
}
