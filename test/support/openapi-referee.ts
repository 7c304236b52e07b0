/**
 * Generates requests from an OpenAPI document alone, and judges the responses. Schemas are validated by
 * another implementation of JSON Schema, and texts are decoded by §4.8.12.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { MediaType, OpenApiDocument, Operation, Parameter } from '../../src/index.ts';
import type { Random } from './schema-reference.ts';

type Schema = Readonly<Record<string, unknown>>;
type Judge = ((value: unknown) => boolean) & { readonly errors?: unknown };

/** Validates values by the schemas of a document. */
export class Referee {
  readonly #document: OpenApiDocument;
  readonly #compile: (pointer: string) => Judge;
  readonly #judges = new Map<string, Judge>();

  /** `folder` has ajv and ajv-formats in its node_modules. */
  constructor(folder: string, document: OpenApiDocument) {
    this.#document = document;
    const require = createRequire(join(folder, 'package.json'));
    const { default: Ajv } = require('ajv/dist/2020') as {
      default: new (options: object) => {
        compile(schema: object): Judge;
        addSchema(schema: object, key: string): void;
      };
    };
    const ajv = new Ajv({ strict: false, ownProperties: true, validateSchema: false });
    (require('ajv-formats') as { default: (ajv: object) => void }).default(ajv);
    ajv.addSchema(document, 'api.json');
    this.#compile = (pointer) => ajv.compile({ $ref: `api.json#${pointer}` });
  }

  /** Returns whether a value matches the schema at a place of the document. */
  fits(place: readonly string[], value: unknown): boolean {
    const pointer = place
      .map((step) => `/${encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))}`)
      .join('');
    let judge = this.#judges.get(pointer);
    if (judge === undefined) this.#judges.set(pointer, (judge = this.#compile(pointer)));
    return judge(value);
  }

  /** Resolves a reference to its schema. */
  resolved(schema: Schema): Schema {
    const ref = schema['$ref'];
    if (typeof ref !== 'string') return schema;
    let found: unknown = this.#document;
    for (const step of ref.slice(2).split('/'))
      found = (found as Record<string, unknown>)[step.replaceAll('~1', '/').replaceAll('~0', '~')];
    return this.resolved(found as Schema);
  }
}

const TEXTS = [
  'a',
  'ab',
  'abc',
  'b',
  'Ada',
  '12',
  'ada@example.com',
  'a.b@c',
  '2024-02-29',
  '2023-02-29',
  '2026-12-31',
  '2026-01-31T09:30:00.123Z',
  '2026-01-31T09:30:00+05:30',
  '2026-01-31T24:00:00Z',
  '123e4567-e89b-12d3-a456-426614174000',
  '123e4567e89b12d3',
  'QUJD',
  'QUI=',
  'QU-_',
  '127.0.0.1',
  '256.1.1.1',
  'true',
  'x'.repeat(40),
];
const FORMATTED: Readonly<Record<string, readonly string[]>> = {
  email: ['ada@example.com', 'x@y.zz'],
  uuid: ['123e4567-e89b-12d3-a456-426614174000'],
  date: ['2024-02-29', '2026-12-31'],
  'date-time': ['2026-01-31T09:30:00.123Z', '2026-01-31t09:30:00+05:30'],
  ipv4: ['127.0.0.1'],
};
const NUMBERS = [
  0, 1, 2, 3, 4, 7, -1, -2, 0.5, 1.5, 49.5, 100, 101, 9_007_199_254_740_991, 9_007_199_254_740_992,
];

/** Returns a random value that often matches a schema, and often almost matches it. */
export function inventFrom(random: Random, schema: Schema, referee: Referee, depth = 0): unknown {
  if (random.chance(0.05)) return random.pick<unknown>([...TEXTS, ...NUMBERS, true, null, [], {}]);
  const {
    type,
    enum: values,
    const: value,
    oneOf,
    anyOf,
    allOf,
    format,
    properties,
    items,
    additionalProperties,
  } = referee.resolved(schema) as Record<string, never> & { type?: string | string[] };
  if (value !== undefined) return value;
  if (values !== undefined) return random.pick(values as unknown[]);
  for (const choice of [oneOf, anyOf, allOf] as (Schema[] | undefined)[])
    if (choice !== undefined) return inventFrom(random, random.pick(choice), referee, depth);
  switch (Array.isArray(type) ? random.pick(type as string[]) : type) {
    case 'string':
      return random.pick(format !== undefined && random.chance(0.8) ? (FORMATTED[format] ?? TEXTS) : TEXTS);
    case 'integer':
      return random.pick(random.chance(0.8) ? NUMBERS.filter(Number.isInteger) : NUMBERS);
    case 'number':
      return random.pick(NUMBERS);
    case 'boolean':
      return random.chance(0.5);
    case 'null':
      return null;
    case 'array':
      return Array.from({ length: random.below(depth > 3 ? 2 : 5) }, () =>
        inventFrom(random, items ?? {}, referee, depth + 1),
      );
    case 'object':
      return inventObject(
        random,
        referee.resolved(schema),
        properties ?? {},
        additionalProperties,
        referee,
        depth,
      );
    default:
      return random.pick<unknown>([...TEXTS, 1, true, null, [1], { k: 'v' }]);
  }
}

function inventObject(
  random: Random,
  { required = [] }: Schema & { required?: readonly string[] },
  properties: Readonly<Record<string, Schema>>,
  rest: unknown,
  referee: Referee,
  depth: number,
): object {
  const names = Object.keys(properties).filter((name) =>
    random.chance(required.includes(name) ? 0.97 : depth > 4 ? 0 : 0.6),
  );
  const surplus =
    typeof rest === 'object' && rest !== null
      ? ['k', 'l', 'm']
          .filter(() => random.chance(0.5))
          .map((name) => [name, inventFrom(random, rest as Schema, referee, depth + 1)] as const)
      : random.chance(0.1)
        ? [['zzz', 1] as const]
        : [];
  return Object.fromEntries([
    ...names.map((name) => [name, inventFrom(random, properties[name]!, referee, depth + 1)] as const),
    ...surplus,
  ]);
}

/** Returns the JSON values that a text may represent by its schema (§4.8.12.3). */
function readings(text: string, schema: Schema): unknown[] {
  const types = [schema['type'] ?? 'string'].flat() as string[];
  const found: unknown[] = types.includes('string') ? [text] : [];
  if (
    (types.includes('integer') || types.includes('number')) &&
    text.trim() !== '' &&
    String(Number(text)) === text
  )
    found.push(Number(text));
  if (types.includes('boolean') && (text === 'true' || text === 'false')) found.push(text === 'true');
  return found.length === 0 ? [text] : found;
}

/** Texts of one parameter or field, and whether its schema accepts them. */
export interface Written {
  /** An empty list: the parameter is omitted. */
  readonly texts: readonly string[];
  readonly fits: boolean;
}

/**
 * Encodes a value as the texts of a parameter or field. Values without a text form, and empty lists, are
 * omitted.
 */
export function writeTexts(
  random: Random,
  schema: Schema,
  place: readonly string[],
  isRequired: boolean,
  referee: Referee,
  isFit: (text: string) => boolean,
  most: number = Infinity,
): Written {
  const absent: Written = { texts: [], fits: !isRequired };
  if ((!isRequired && random.chance(0.4)) || (isRequired && random.chance(0.02))) return absent;
  const value = inventFrom(random, schema, referee);
  if (schema['type'] === 'array') {
    const items = schema['items'] as Schema;
    const texts = (Array.isArray(value) ? value : [value])
      .filter((item) => typeof item !== 'object')
      .map(String)
      .filter((text) => text !== '' && isFit(text))
      .slice(0, most);
    if (texts.length === 0) return absent;
    const read = texts.map(
      (text) => readings(text, items).find((reading) => referee.fits([...place, 'items'], reading)) ?? text,
    );
    return { texts, fits: referee.fits(place, read) };
  }
  if (
    typeof value === 'object' ||
    !isFit(String(value)) ||
    (schema['type'] === 'boolean' && (value === 0 || value === 1))
  )
    return absent; // `1` and `0` are accepted as booleans, too
  const text = String(value);
  return { texts: [text], fits: readings(text, schema).some((reading) => referee.fits(place, reading)) };
}

/**
 * Returns why a status, a media type and a body are not documented for an operation; undefined if they are.
 */
export function undocumented(
  { responses }: Operation,
  place: readonly string[],
  answer: {
    readonly status: number;
    readonly type: string | null;
    readonly body: unknown;
    readonly hasBody: boolean;
  },
  referee: Referee,
): string | undefined {
  const { status, type, body, hasBody } = answer;
  const key = [String(status), `${String(status)[0]}XX`].find((candidate) => candidate in responses);
  if (key === undefined) return `the status ${status}`;
  const entry = responses[key]!;
  const at = '$ref' in entry ? entry.$ref.slice(2).split('/') : [...place, 'responses', key];
  const { content } = referee.resolved(entry as unknown as Schema) as {
    content?: Readonly<Record<string, MediaType>>;
  };
  // a range without content promises nothing
  if (content === undefined) return hasBody && !key.endsWith('XX') ? `a body with ${key}` : undefined;
  const media = type?.split(';')[0];
  if (media === undefined || !(media in content)) return `the type ${type} with ${key}`;
  return referee.fits([...at, 'content', media, 'schema'], body)
    ? undefined
    : `the body ${JSON.stringify(body)} of ${media} with ${key}`;
}

/** Returns the path of a parameter's schema in the document. */
export function placeOf(
  place: readonly string[],
  operation: Operation,
  parameter: Parameter,
): readonly string[] {
  return [...place, 'parameters', String(operation.parameters!.indexOf(parameter)), 'schema'];
}
