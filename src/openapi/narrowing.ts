/**
 * Compares the earlier and the later JSON Schema of a value. It reports each difference by its kind, such as
 * `required`; the table in compare.ts judges the kinds.
 *
 * The comparison finds values that the earlier schema accepts and the later one refuses. For a value that
 * clients receive, it is turned around: the later schema is taken for the earlier one, because clients may fail
 * for values that are new.
 */
import { isRecord } from '../base/options.ts';
import { FORMAT_PATTERNS } from '../schema/formats.ts';
import { lastName, list, record, text } from './reader.ts';
import type { JsonSchema } from '../schema/json-schema.ts';

/** Returns the schema that a reference points to, within the document that contains the reference. */
type Resolve = (schema: JsonSchema) => JsonSchema;

export interface Documents {
  readonly earlier: Resolve;
  readonly later: Resolve;
  /** Whether `earlier` is the newer document, because clients receive the value. */
  readonly isTurned: boolean;
}

export type SchemaChange =
  | 'bound'
  | 'closed'
  | 'constant'
  | 'default'
  | 'deprecated'
  | 'enumerated'
  | 'format'
  | 'fresh'
  | 'gone'
  | 'multiple'
  | 'names'
  | 'new'
  | 'one-type'
  | 'refused'
  | 'required'
  | 'rule'
  | 'type'
  | 'typed'
  | 'unique'
  | 'values'
  | 'variant';

/**
 * Receives a difference. `path` names a member, such as `items[].id`. `details` are the texts that the kind
 * mentions, such as the value and the former value of a bound.
 */
type ReportSchemaChange = (path: string, kind: SchemaChange, details: readonly string[]) => void;

/**
 * Reports each difference between two schemas. `isBreaking` says which kinds make an alternative of a union
 * another alternative.
 */
export function compareSchemas(
  earlier: JsonSchema,
  later: JsonSchema,
  documents: Documents,
  isBreaking: (kind: SchemaChange) => boolean,
  report: ReportSchemaChange,
): void {
  new Comparison(documents, isBreaking, report).compare(earlier, later, '');
}

/**
 * Keywords of bounds; only numbers have an exclusive one. With the direction 1, a greater bound accepts fewer
 * values; with -1, a smaller bound does.
 */
const BOUNDS: readonly (readonly [inclusive: string, exclusive: string, direction: 1 | -1])[] = [
  ['minimum', 'exclusiveMinimum', 1],
  ['maximum', 'exclusiveMaximum', -1],
  ['minLength', '', 1],
  ['minItems', '', 1],
  ['minProperties', '', 1],
  ['maxLength', '', -1],
  ['maxItems', '', -1],
  ['maxProperties', '', -1],
  ['minContains', '', 1],
  ['maxContains', '', -1],
];
/**
 * Keywords that constrain a value in ways that are not compared further. If one is new or has changed, the later
 * schema counts as stricter.
 */
const RULES = (
  'pattern contentEncoding contentMediaType contentSchema not if then else contains propertyNames ' +
  'dependentRequired dependentSchemas patternProperties unevaluatedItems unevaluatedProperties'
).split(' ');
/** Formats of integers in OpenAPI. */
const WIDTHS: ReadonlySet<unknown> = new Set(['int32', 'int64']);

class Comparison {
  readonly #documents: Documents;
  readonly #isBreaking: (kind: SchemaChange) => boolean;
  readonly #send: ReportSchemaChange;
  /** Pairs of schemas whose comparison has begun. Skipping them ends the comparison of recursive schemas. */
  readonly #seen: Map<JsonSchema, Set<JsonSchema>>;

  constructor(
    documents: Documents,
    isBreaking: (kind: SchemaChange) => boolean,
    send: ReportSchemaChange,
    seen: Map<JsonSchema, Set<JsonSchema>> = new Map(),
  ) {
    this.#documents = documents;
    this.#isBreaking = isBreaking;
    this.#send = send;
    this.#seen = seen;
  }

  compare(before: JsonSchema, after: JsonSchema, path: string): void {
    const [first, second] = [this.#documents.earlier(before), this.#documents.later(after)];
    const known = this.#seen.get(first) ?? new Set();
    if (known.has(second)) return;
    this.#seen.set(first, known.add(second));
    const earlier = this.#merged(first, this.#documents.earlier);
    const later = this.#merged(second, this.#documents.later);
    const choices = choicesOf(earlier);
    if (choices !== undefined && choicesOf(later) === undefined) {
      for (const choice of choices) this.compare(choice, later, path);
      return;
    }
    this.#compareNotes(earlier, later, path);
    if (!this.#compareValues(earlier, later, path)) return;
    this.#compareBounds(earlier, later, path);
    this.#compareRules(earlier, later, path);
    this.#compareMembers(earlier, later, path);
    if (isRecord(earlier['items']) && isRecord(later['items']))
      this.compare(earlier['items'], later['items'], `${path}[]`);
    if (later['uniqueItems'] === true && earlier['uniqueItems'] !== true) this.#report(path, 'unique');
    for (const [index, item] of itemsOf(later).entries()) {
      const known = itemsOf(earlier)[index] ?? earlier['items'];
      if (isRecord(known)) this.compare(known, item, `${path}[${index}]`);
    }
    this.#compareChoices(earlier, later, path);
  }

  #report(path: string, kind: SchemaChange, ...details: readonly string[]): void {
    this.#send(path, kind, details);
  }

  /** Returns a schema with the members and rules of the schemas in `allOf`. */
  #merged(schema: JsonSchema, resolved: Resolve, depth = 0): JsonSchema {
    const parts = list(schema['allOf']) as JsonSchema[];
    if (parts.length === 0 || depth > MOST_MERGED) return schema;
    const { allOf: _, ...own } = schema;
    return parts
      .map((part) => this.#merged(resolved(part), resolved, depth + 1))
      .reduce((merged, part) => ({ ...part, ...merged, ...joinedMembers(part, merged) }), own);
  }

  /** Compares what does not restrict values: defaults and deprecation. */
  #compareNotes(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const [was, is] = this.#documents.isTurned ? [later, earlier] : [earlier, later];
    if (JSON.stringify(was['default']) !== JSON.stringify(is['default']))
      this.#report(path, 'default', shownDefault(is), shownDefault(was));
    if (is['deprecated'] === true && was['deprecated'] !== true) this.#report(path, 'deprecated');
  }

  #compareRules(earlier: JsonSchema, later: JsonSchema, path: string): void {
    for (const keyword of ['format', ...RULES]) {
      if (keyword === 'pattern' && (isOfFormat(later) || later['pattern'] === '.*')) continue;
      if (keyword === 'propertyNames' && areNamesListed(later)) continue; // compared with the members
      // the width of an integer follows from its bounds, which are compared
      if (keyword === 'format' && WIDTHS.has(later['format'])) continue;
      const [was, is] = [JSON.stringify(earlier[keyword]), JSON.stringify(later[keyword])];
      if (is !== undefined && is !== was)
        this.#report(path, keyword === 'format' ? 'format' : 'rule', keyword, is, was ?? '');
    }
  }

  /**
   * Compares types and allowed values. Returns false if more comparisons would only repeat the reported
   * difference.
   */
  #compareValues(earlier: JsonSchema, later: JsonSchema, path: string): boolean {
    const [before, after] = [valuesOf(earlier), valuesOf(later)];
    if (after !== undefined) {
      const gone = before?.filter((value) => !after.includes(value));
      const isConstant = before?.length === 1 && after.length === 1;
      if (gone === undefined) this.#report(path, 'enumerated', listed(after));
      else if (this.#documents.isTurned && gone.some((value) => !hasTypeOf(value, after)))
        this.#report(path, 'typed', listed(gone));
      else if (gone.length > 0) this.#report(path, isConstant ? 'constant' : 'values', listed(gone));
      return gone !== undefined;
    }
    const [types, kept] = [typesOf(earlier), typesOf(later)];
    if (kept === undefined) return true;
    if (types === undefined) {
      if (valuesOf(earlier) === undefined) this.#report(path, 'typed', listed(kept));
      return false;
    }
    const gone = types.filter(
      (type) => !kept.includes(type) && !(type === 'integer' && kept.includes('number')),
    );
    if (gone.length > 0) this.#report(path, 'type', listed(gone), listed(kept));
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
      this.#report(path, 'multiple', String(next));
  }

  #compareBound(earlier: Bound, later: Bound, direction: 1 | -1, path: string): void {
    if (later === undefined) return;
    const isNarrower =
      earlier === undefined ||
      later.value * direction > earlier.value * direction ||
      (later.value === earlier.value && later.isExclusive && !earlier.isExclusive);
    if (isNarrower && !isImplied(later, earlier))
      this.#report(path, 'bound', later.keyword, String(later.value), String(earlier?.value ?? ''));
  }

  #compareMembers(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const [before, after] = [this.#membersOf(earlier), this.#membersOf(later)];
    const needed = this.#requiredOf(earlier, before);
    // a schema without members accepts any, and those of alternatives are compared with the alternatives
    const areObjects = [earlier, later].every(
      (schema) => isRecord(schema['properties']) && choicesOf(schema) === undefined,
    );
    const required = this.#requiredOf(later, after);
    for (const name of required)
      if (!needed.has(name))
        this.#report(joined(path, name), Object.hasOwn(before, name) ? 'required' : 'new');
    const [others, rest] = [restOf(earlier), restOf(later)];
    this.#compareNames(earlier, later, others === false, path);
    for (const [name, member] of Object.entries(after)) {
      const known = Object.hasOwn(before, name) ? before[name] : isRecord(others) ? others : undefined;
      if (known !== undefined) this.compare(known, member, joined(path, name));
    }
    for (const [name, member] of Object.entries(before)) {
      if (Object.hasOwn(after, name)) continue;
      if (rest === false) this.#report(joined(path, name), 'refused');
      else if (isRecord(rest)) this.compare(member, rest, joined(path, name));
      else if (areObjects) this.#report(joined(path, name), 'gone');
    }
    if (areObjects && !isRecord(others))
      for (const name of Object.keys(after))
        if (!Object.hasOwn(before, name) && !required.has(name)) this.#report(joined(path, name), 'fresh');
    if (others === false || rest === undefined || rest === true) return;
    if (rest === false) this.#report(path, 'closed');
    else if (isRecord(others)) this.compare(others, rest as JsonSchema, joined(path, '*'));
    else this.#report(path, 'one-type');
  }

  /** Returns the members that clients send, which are not read-only, or receive, which are not write-only. */
  #membersOf(schema: JsonSchema): Readonly<Record<string, JsonSchema>> {
    const hidden = this.#documents.isTurned ? 'writeOnly' : 'readOnly';
    return Object.fromEntries(
      Object.entries(membersOf(schema)).filter(([, member]) => record(member)[hidden] !== true),
    );
  }

  /** Returns the names of required members, without members that are left out of `members`. */
  #requiredOf(schema: JsonSchema, members: Readonly<Record<string, unknown>>): ReadonlySet<string> {
    const declared = membersOf(schema);
    const isKept = (name: string): boolean => Object.hasOwn(members, name) || !Object.hasOwn(declared, name);
    return new Set([...requiredOf(schema)].filter(isKept));
  }

  /** Reports names of members that only the later schema forbids. */
  #compareNames(earlier: JsonSchema, later: JsonSchema, wasClosed: boolean, path: string): void {
    const before = this.#membersOf(earlier);
    const refused = [...refusedNames(later).difference(refusedNames(earlier))];
    for (const name of refused) if (Object.hasOwn(before, name)) this.#report(joined(path, name), 'refused');
    const others = refused.filter((name) => !Object.hasOwn(before, name));
    if (!wasClosed && others.length > 0) this.#report(path, 'names', listed(others));
  }

  /**
   * Compares alternatives: each alternative of the earlier schema must be accepted by an alternative of the
   * later schema. The differences to the most similar one are reported.
   */
  #compareChoices(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const after = choicesOf(later);
    if (after === undefined) return;
    for (const choice of choicesOf(earlier) ?? [withoutNotes(earlier)]) {
      const [nearest] = after
        .map((candidate) => this.#tried(choice, candidate, path))
        .filter((changes) => !changes.some(([, kind]) => this.#isBreaking(kind)))
        .sort((left, right) => left.length - right.length);
      if (nearest === undefined) this.#report(path, 'variant', lastName(text(choice['$ref']) ?? ''));
      else for (const change of nearest) this.#send(...change);
    }
  }

  #tried(choice: JsonSchema, candidate: JsonSchema, path: string): readonly Parameters<ReportSchemaChange>[] {
    const changes: Parameters<ReportSchemaChange>[] = [];
    // a copy, because a failed trial reports nothing: with `#seen`, later comparisons would skip its pairs
    const seen = new Map([...this.#seen].map(([schema, others]) => [schema, new Set(others)]));
    const collect: ReportSchemaChange = (...change) => changes.push(change);
    new Comparison(this.#documents, this.#isBreaking, collect, seen).compare(choice, candidate, path);
    return changes;
  }
}

function hasTypeOf(value: unknown, values: readonly unknown[]): boolean {
  return values.some((one) => typeof one === typeof value && (one === null) === (value === null));
}

/** Maximum depth of `allOf` in `allOf`. */
const MOST_MERGED = 8;

function joinedMembers(one: JsonSchema, other: JsonSchema): JsonSchema {
  const members = { ...membersOf(one), ...membersOf(other) };
  const required = [...requiredOf(one).union(requiredOf(other))];
  return {
    ...(Object.keys(members).length === 0 ? {} : { properties: members }),
    ...(required.length === 0 ? {} : { required }),
  };
}

function shownDefault(schema: JsonSchema): string {
  return schema['default'] === undefined ? 'no default' : `the default ${JSON.stringify(schema['default'])}`;
}

type Bound = { readonly keyword: string; readonly value: number; readonly isExclusive: boolean } | undefined;

/** Returns the bound of a schema; the stricter one if there is an inclusive and an exclusive bound. */
function boundOf(schema: JsonSchema, inclusive: string, exclusive: string, direction: 1 | -1): Bound {
  const plain = schema[inclusive];
  const strict = schema[exclusive];
  if (typeof strict === 'number' && !(typeof plain === 'number' && plain * direction > strict * direction))
    return { keyword: exclusive, value: strict, isExclusive: true };
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

/** Whether `propertyNames` only lists names that are allowed or forbidden. */
function areNamesListed(schema: JsonSchema): boolean {
  const { enum: allowed, not } = record(schema['propertyNames']);
  return allowed !== undefined || not !== undefined;
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
