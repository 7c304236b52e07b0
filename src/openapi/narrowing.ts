/**
 * Compares the earlier and the later JSON Schema of an input or output. It reports values that the earlier
 * schema accepts and the later one refuses.
 *
 * For responses, the caller swaps the two schemas, because clients may fail for values that are new in a
 * response.
 */
import { isRecord } from '../base/options.ts';
import { FORMAT_PATTERNS } from '../schema/formats.ts';
import { list, record } from './reader.ts';
import type { JsonSchema } from '../schema/json-schema.ts';

/** Returns the schema that a reference points to, within the document that contains the reference. */
type Resolve = (schema: JsonSchema) => JsonSchema;

export interface Documents {
  readonly earlier: Resolve;
  readonly later: Resolve;
}

/** Reports a change. `path` names a member, such as `items[].id`, and `what` describes the change. */
type Narrowed = (path: string, what: string) => void;

/** Reports each difference that makes `later` accept fewer values than `earlier`. */
export function findNarrowing(
  earlier: JsonSchema,
  later: JsonSchema,
  documents: Documents,
  report: Narrowed,
): void {
  new Comparison(documents, report).compare(earlier, later, '');
}

/**
 * Keywords of bounds. With the direction 1, a greater bound accepts fewer values; with -1, a smaller bound
 * does.
 */
const BOUNDS: readonly (readonly [inclusive: string, exclusive: string | undefined, direction: 1 | -1])[] = [
  ['minimum', 'exclusiveMinimum', 1],
  ['maximum', 'exclusiveMaximum', -1],
  ['minLength', undefined, 1],
  ['minItems', undefined, 1],
  ['minProperties', undefined, 1],
  ['maxLength', undefined, -1],
  ['maxItems', undefined, -1],
  ['maxProperties', undefined, -1],
];
/** Keywords that constrain a value. If one is new or has changed, the later schema counts as stricter. */
const RULES = ['pattern', 'format', 'contentEncoding'] as const;
/** Formats of integers in OpenAPI. */
const WIDTHS: ReadonlySet<unknown> = new Set(['int32', 'int64']);

class Comparison {
  readonly #documents: Documents;
  readonly #report: Narrowed;
  /** Pairs of schemas whose comparison has begun. Skipping them ends the comparison of recursive schemas. */
  readonly #seen: Map<JsonSchema, Set<JsonSchema>>;

  constructor(documents: Documents, report: Narrowed, seen: Map<JsonSchema, Set<JsonSchema>> = new Map()) {
    this.#documents = documents;
    this.#report = report;
    this.#seen = seen;
  }

  compare(before: JsonSchema, after: JsonSchema, path: string): void {
    const [earlier, later] = [this.#documents.earlier(before), this.#documents.later(after)];
    const known = this.#seen.get(earlier) ?? new Set();
    if (known.has(later)) return;
    this.#seen.set(earlier, known.add(later));
    const choices = choicesOf(earlier);
    if (choices !== undefined && choicesOf(later) === undefined) {
      for (const choice of choices) this.compare(choice, later, path);
      return;
    }
    if (!this.#compareValues(earlier, later, path)) return;
    this.#compareBounds(earlier, later, path);
    for (const keyword of RULES) {
      if (keyword === 'pattern' && isOfFormat(later)) continue;
      // the width of an integer follows from its bounds, which are compared
      if (keyword === 'format' && WIDTHS.has(later['format'])) continue;
      if (later[keyword] !== undefined && later[keyword] !== earlier[keyword])
        this.#report(
          path,
          `must have the ${keyword} ${JSON.stringify(later[keyword])}` +
            (earlier[keyword] === undefined ? '' : `; it was ${JSON.stringify(earlier[keyword])}`),
        );
    }
    this.#compareMembers(earlier, later, path);
    if (isRecord(earlier['items']) && isRecord(later['items']))
      this.compare(earlier['items'], later['items'], `${path}[]`);
    if (later['uniqueItems'] === true && earlier['uniqueItems'] !== true)
      this.#report(path, 'must have no two equal items');
    for (const [index, item] of itemsOf(later).entries()) {
      const known = itemsOf(earlier)[index] ?? earlier['items'];
      if (isRecord(known)) this.compare(known, item, `${path}[${index}]`);
    }
    this.#compareChoices(earlier, later, path);
  }

  /**
   * Compares types and allowed values. Returns false if more comparisons would only repeat the reported
   * difference.
   */
  #compareValues(earlier: JsonSchema, later: JsonSchema, path: string): boolean {
    const [before, after] = [valuesOf(earlier), valuesOf(later)];
    if (after !== undefined) {
      const gone = before?.filter((value) => !after.includes(value));
      if (gone === undefined)
        this.#report(path, `must now be ${listed(after)}; any value of its type was accepted`);
      else if (gone.length > 0) this.#report(path, `can no longer be ${listed(gone)}`);
      return gone !== undefined;
    }
    const [types, kept] = [typesOf(earlier), typesOf(later)];
    if (kept === undefined) return true;
    if (types === undefined) {
      if (valuesOf(earlier) === undefined)
        this.#report(path, `must now be ${listed(kept)}; any value was accepted`);
      return false;
    }
    const gone = types.filter(
      (type) => !kept.includes(type) && !(type === 'integer' && kept.includes('number')),
    );
    if (gone.length > 0) this.#report(path, `can no longer be ${listed(gone)}, only ${listed(kept)}`);
    return gone.length < types.length;
  }

  #compareBounds(earlier: JsonSchema, later: JsonSchema, path: string): void {
    for (const [inclusive, exclusive, direction] of BOUNDS)
      this.#compareBound(
        boundOf(earlier, inclusive, exclusive, direction),
        boundOf(later, inclusive, exclusive, direction),
        direction,
        path,
      );
    const [step, next] = [earlier['multipleOf'], later['multipleOf']];
    if (typeof next === 'number' && !(typeof step === 'number' && Number.isInteger(step / next)))
      this.#report(path, `must be a multiple of ${next}`);
  }

  #compareBound(earlier: Bound, later: Bound, direction: 1 | -1, path: string): void {
    if (later === undefined) return;
    const isNarrower =
      earlier === undefined ||
      later.value * direction > earlier.value * direction ||
      (later.value === earlier.value && later.isExclusive && !earlier.isExclusive);
    if (isNarrower && !isImplied(later, earlier))
      this.#report(
        path,
        `has the ${later.keyword} ${later.value}` +
          (earlier === undefined ? '' : `; it was ${earlier.value}`),
      );
  }

  #compareMembers(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const [before, after] = [membersOf(earlier), membersOf(later)];
    const needed = requiredOf(earlier);
    for (const name of requiredOf(later))
      if (!needed.has(name))
        this.#report(
          joined(path, name),
          Object.hasOwn(before, name) ? 'is now required; it was optional' : 'is new and required',
        );
    const [others, rest] = [restOf(earlier), restOf(later)];
    this.#compareNames(earlier, later, others === false, path);
    for (const [name, member] of Object.entries(after)) {
      const known = Object.hasOwn(before, name) ? before[name] : isRecord(others) ? others : undefined;
      if (known !== undefined) this.compare(known, member, joined(path, name));
    }
    for (const [name, member] of Object.entries(before)) {
      if (Object.hasOwn(after, name)) continue;
      if (rest === false) this.#report(joined(path, name), 'is refused; it was accepted before');
      else if (isRecord(rest)) this.compare(member, rest, joined(path, name));
    }
    if (others === false || rest === undefined || rest === true) return;
    if (rest === false) this.#report(path, 'refuses unknown members');
    else if (isRecord(others)) this.compare(others, rest as JsonSchema, joined(path, '*'));
    else this.#report(path, 'accepts unknown members of one type only');
  }

  /** Reports names of members that only the later schema forbids. */
  #compareNames(earlier: JsonSchema, later: JsonSchema, wasClosed: boolean, path: string): void {
    const before = membersOf(earlier);
    const refused = [...refusedNames(later).difference(refusedNames(earlier))];
    for (const name of refused)
      if (Object.hasOwn(before, name)) this.#report(joined(path, name), 'is refused; it was accepted before');
    const others = refused.filter((name) => !Object.hasOwn(before, name));
    if (!wasClosed && others.length > 0) this.#report(path, `refuses members called ${listed(others)}`);
  }

  /**
   * Compares alternatives: each alternative of the earlier schema must be accepted by an alternative of the
   * later schema.
   */
  #compareChoices(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const after = choicesOf(later);
    if (after === undefined) return;
    for (const choice of choicesOf(earlier) ?? [withoutNotes(earlier)]) {
      const isTaken = after.some((candidate) => {
        let narrower = 0;
        // a copy, because this trial reports nothing: with `#seen`, later comparisons would skip its pairs
        const seen = new Map([...this.#seen].map(([schema, others]) => [schema, new Set(others)]));
        new Comparison(this.#documents, () => narrower++, seen).compare(choice, candidate, path);
        return narrower === 0;
      });
      if (!isTaken)
        this.#report(
          path,
          `no longer accepts one of its alternatives${typeof choice['$ref'] === 'string' ? `: ${choice['$ref'].split('/').at(-1)!}` : ''}`,
        );
    }
  }
}

type Bound = { readonly keyword: string; readonly value: number; readonly isExclusive: boolean } | undefined;

/** Returns the bound of a schema; the stricter one if there is an inclusive and an exclusive bound. */
function boundOf(
  schema: JsonSchema,
  inclusive: string,
  exclusive: string | undefined,
  direction: 1 | -1,
): Bound {
  const [plain, strict] = [schema[inclusive], exclusive === undefined ? undefined : schema[exclusive]];
  if (typeof strict === 'number' && !(typeof plain === 'number' && plain * direction > strict * direction))
    return { keyword: exclusive!, value: strict, isExclusive: true };
  return typeof plain === 'number' ? { keyword: inclusive, value: plain, isExclusive: false } : undefined;
}

/** Whether a new bound excludes no value: a minimum count of 0, or a limit beyond all safe integers. */
function isImplied(later: NonNullable<Bound>, earlier: Bound): boolean {
  if (earlier !== undefined) return false;
  return later.keyword.startsWith('min') && !later.keyword.startsWith('minimum')
    ? later.value <= 0
    : Math.abs(later.value) >= Number.MAX_SAFE_INTEGER;
}

function valuesOf(schema: JsonSchema): readonly unknown[] | undefined {
  if ('const' in schema) return [schema['const']];
  return Array.isArray(schema['enum']) ? (schema['enum'] as unknown[]) : undefined;
}

/** Whether the pattern of a schema only repeats its format, and so adds no constraint. */
function isOfFormat({ format, pattern }: JsonSchema): boolean {
  return typeof pattern === 'string' && typeof format === 'string' && FORMAT_PATTERNS.has(pattern);
}

function typesOf(schema: JsonSchema): readonly string[] | undefined {
  return schema['type'] === undefined ? undefined : ([schema['type']].flat() as string[]);
}

/**
 * Returns the alternatives (`oneOf`, `anyOf`) of a schema. Alternatives of a string are ignored, because they
 * only describe forms of its text, such as base64 and base64url.
 */
function choicesOf(schema: JsonSchema): readonly JsonSchema[] | undefined {
  if (schema['type'] === 'string') return undefined;
  const choices = schema['oneOf'] ?? schema['anyOf'];
  return Array.isArray(choices) ? (choices as JsonSchema[]) : undefined;
}

function withoutNotes({ title: _, description: __, examples: ___, ...schema }: JsonSchema): JsonSchema {
  return schema;
}

function membersOf(schema: JsonSchema): Readonly<Record<string, JsonSchema>> {
  return record(schema['properties']) as Record<string, JsonSchema>;
}

/** Returns the schemas of a list's first items, by position. */
function itemsOf(schema: JsonSchema): readonly JsonSchema[] {
  return list(schema['prefixItems']) as JsonSchema[];
}

/** Returns the schema for members that are not declared by name; false if only listed names are allowed. */
function restOf(schema: JsonSchema): unknown {
  return Array.isArray(record(schema['propertyNames'])['enum']) ? false : schema['additionalProperties'];
}

/** Returns the names that a schema forbids for members. */
function refusedNames(schema: JsonSchema): ReadonlySet<string> {
  const names = valuesOf(record(record(schema['propertyNames'])['not'])) ?? [];
  return new Set(names.filter((name) => typeof name === 'string'));
}

function requiredOf(schema: JsonSchema): ReadonlySet<string> {
  return new Set(list(schema['required']) as string[]);
}

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function listed(values: readonly unknown[]): string {
  const shown = values
    .slice(0, 10)
    .map((value) => (typeof value === 'string' && /^[a-z]+$/.test(value) ? value : JSON.stringify(value)));
  return shown.join(' or ') + (values.length > 10 ? ' …' : '');
}
