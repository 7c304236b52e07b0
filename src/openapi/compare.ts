/**
 * Compares two versions of an OpenAPI document: reports changes in the later one that break clients of the
 * earlier one.
 *
 *   removed     a path, method, success status or media type
 *   narrower    requests: a new required input, or a value that is no longer accepted
 *   wider       responses: a member may now be absent, or has another type
 *   stronger    security: credentials that were sufficient are not any more
 *
 * Made for documents of any version of this package. Unknown parts of other documents are ignored.
 */
import { FORMAT_PATTERNS } from '../schema/formats.ts';
import type { JsonSchema } from '../schema/json-schema.ts';

/** A change that breaks clients. */
interface BreakingChange {
  /**
   * Operation such as `POST /films`. The parameter names are the later document's; for a removed operation,
   * the earlier document's.
   */
  readonly subject: string;
  readonly message: string;
}

type Part = Readonly<Record<string, unknown>>;

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/**
 * Returns every breaking change, in the order of the earlier document's paths. Path parameters are matched by
 * position, not by name.
 */
export function compareOpenapi(earlier: unknown, later: unknown): readonly BreakingChange[] {
  const changes: BreakingChange[] = [];
  const [before, after] = [new Version(earlier), new Version(later)];
  for (const [shape, operation] of before.operations) {
    const next = after.operations.get(shape);
    const subject = next?.subject ?? operation.subject;
    const reported = new Set<string>();
    const report = (message: string): void => {
      if (!reported.has(message)) changes.push({ subject, message });
      reported.add(message);
    };
    if (next === undefined) report('the operation was removed');
    else compareOperations(operation, next, { earlier: before.resolve, later: after.resolve }, report);
  }
  return changes;
}

/** An operation of one document. */
interface Found {
  readonly subject: string;
  readonly operation: Part;
  /** Parameters of the operation and its path item, by place and name; path parameters by position. */
  readonly parameters: ReadonlyMap<string, Part>;
  /** Sufficient sets of security schemes, each scheme described by its properties. */
  readonly alternatives: readonly ReadonlySet<string>[];
}

/** One version of the document. */
class Version {
  readonly operations = new Map<string, Found>();
  readonly resolve: Resolve;
  readonly #document: Part;

  constructor(document: unknown) {
    this.#document = partOf(document);
    this.resolve = (schema) => this.#resolved(schema) as JsonSchema;
    for (const [path, given] of Object.entries(partOf(this.#document['paths']))) {
      const item = this.#resolved(partOf(given));
      for (const method of METHODS) {
        if (item[method] === undefined) continue;
        const operation = partOf(item[method]);
        this.operations.set(`${method} ${path.replace(/\{[^{}]*\}/g, '{}')}`, {
          subject: `${method.toUpperCase()} ${path}`,
          operation,
          parameters: this.#parameters(path, item, operation),
          alternatives: this.#alternatives(operation),
        });
      }
    }
  }

  #parameters(path: string, item: Part, operation: Part): ReadonlyMap<string, Part> {
    const names = [...path.matchAll(/\{([^{}]*)\}/g)].map((match) => match[1]);
    return new Map(
      [...listOf(item['parameters']), ...listOf(operation['parameters'])].map((given) => {
        const parameter = this.#resolved(partOf(given));
        const [place, name] = [String(parameter['in']), String(parameter['name'])];
        return [
          place === 'path'
            ? `path parameter ${names.indexOf(name) + 1}`
            : place === 'header'
              ? `header ${name.toLowerCase()}`
              : `${place} ${name}`,
          parameter,
        ] as const;
      }),
    );
  }

  /**
   * Returns the security alternatives. A scheme is identified by its properties, because clients never see
   * its name. Scopes and roles count as well.
   */
  #alternatives(operation: Part): readonly ReadonlySet<string>[] {
    const schemes = partOf(partOf(this.#document['components'])['securitySchemes']);
    const given = listOf(operation['security'] ?? this.#document['security']).map(
      (alternative) =>
        new Set(
          Object.entries(partOf(alternative)).flatMap(([name, scopes]) => {
            const {
              type = name,
              scheme = '',
              in: place = '',
              name: field = '',
            } = this.#resolved(partOf(schemes[name]));
            const what = [type, scheme, place, field].filter((word) => word !== '').join(' ');
            return [what, ...listOf(scopes).map((scope) => `the scope ${String(scope)}`)];
          }),
        ),
    );
    return given.length === 0 ? [new Set()] : given;
  }

  #resolved(part: Part): Part {
    let found = part;
    for (let depth = 0; typeof found['$ref'] === 'string' && depth < 100; depth++) {
      if (!found['$ref'].startsWith('#/')) return {};
      found = partOf(
        found['$ref']
          .slice(2)
          .split('/')
          .reduce<unknown>(
            (within, step) => partOf(within)[step.replaceAll('~1', '/').replaceAll('~0', '~')],
            this.#document,
          ),
      );
    }
    return found;
  }
}

function compareOperations(
  before: Found,
  after: Found,
  documents: Documents,
  report: (message: string) => void,
): void {
  compareParameters(before, after, documents, report);
  compareBodies(before.operation, after.operation, documents, report);
  compareResponses(before.operation, after.operation, documents, report);
  compareSecurity(before, after, report);
}

function compareParameters(
  before: Found,
  after: Found,
  documents: Documents,
  report: (message: string) => void,
): void {
  for (const [key, parameter] of after.parameters) {
    const known = before.parameters.get(key);
    if (parameter['required'] === true && known === undefined) report(`the ${key} is new and required`);
    else if (parameter['required'] === true && known?.['required'] !== true)
      report(`the ${key} is now required; it was optional`);
    if (known !== undefined)
      findNarrowing(...asSent(known, parameter, documents), documents, (path, what) =>
        report(`the ${key}${path} ${what}`),
      );
  }
}

/**
 * Maximum length of a value's text when its schema sets no limit, such as `-9007199254740991` and
 * `-2.2250738585072014e-308`.
 */
const LONGEST: Readonly<Record<string, number>> = { integer: 17, number: 24, boolean: 5 };

/**
 * Returns both schemas of a parameter. Parameters are sent as text, so a number or boolean that becomes a
 * string is compared as a string.
 */
function asSent(known: Part, parameter: Part, { earlier, later }: Documents): [JsonSchema, JsonSchema] {
  const asText = (schema: JsonSchema, next: JsonSchema): JsonSchema => {
    const [before, after] = [earlier(schema), later(next)];
    if (before['type'] === 'array' && after['type'] === 'array')
      return { ...before, items: asText(partOf(before['items']), partOf(after['items'])) };
    const longest = after['type'] === 'string' ? LONGEST[String(before['type'])] : undefined;
    // no format accepts an empty text
    if (longest === undefined) return before['format'] === undefined ? schema : { minLength: 1, ...before };
    const values = listOf(
      before['enum'] ?? (before['const'] === undefined ? undefined : [before['const']]),
    ).map(String);
    return values.length > 0
      ? { type: 'string', enum: values }
      : { type: 'string', minLength: 1, maxLength: longest };
  };
  const [schema, next] = [partOf(known['schema']), partOf(parameter['schema'])];
  return [asText(schema, next), next];
}

function compareBodies(
  before: Part,
  after: Part,
  documents: Documents,
  report: (message: string) => void,
): void {
  const [known, next] = [resolvedBody(before, documents.earlier), resolvedBody(after, documents.later)];
  if (next === undefined) return;
  if (next['required'] === true && known === undefined) return report('the body is new and required');
  if (next['required'] === true && known?.['required'] !== true)
    report('the body is now required; it was optional');
  const [types, kept] = [partOf(known?.['content']), partOf(next['content'])];
  for (const [type, media] of Object.entries(types)) {
    const of = kept[type] ?? kept['*/*'];
    if (of === undefined) report(`the body can no longer be ${type}`);
    else
      findNarrowing(schemaOf(media), schemaOf(of), documents, (path, what) =>
        report(`the body${path === '' ? '' : `'s ${path}`} ${what}`),
      );
  }
}

/** Reports values in responses that clients could not get before. For that, the two schemas swap roles. */
function compareResponses(
  before: Part,
  after: Part,
  documents: Documents,
  report: (message: string) => void,
): void {
  const [known, next] = [partOf(before['responses']), partOf(after['responses'])];
  const turned: Documents = {
    earlier: (schema) => loose(documents.later(schema)),
    later: (schema) => loose(documents.earlier(schema)),
  };
  for (const [status, given] of Object.entries(known)) {
    if (!/^2/.test(status)) continue;
    const of = next[status] ?? next['2XX'] ?? next['default'];
    if (of === undefined) {
      report(`the response ${status} was removed`);
      continue;
    }
    const [types, kept] = [
      partOf(documents.earlier(partOf(given))['content']),
      partOf(documents.later(partOf(of))['content']),
    ];
    for (const [type, media] of Object.entries(types)) {
      if (kept[type] === undefined) report(`the response ${status} is no longer ${type}`);
      else
        findNarrowing(schemaOf(kept[type]), schemaOf(media), turned, (path, what) =>
          report(
            `the response ${status}${path === '' ? '' : `'s ${path}`} ${ANSWERED[what] ?? 'can have values that it could not have before'}`,
          ),
        );
    }
  }
}

/** Texts for narrowed requests, and their counterparts for responses. */
const ANSWERED: Readonly<Record<string, string>> = {
  'is now required; it was optional': 'can now be absent; it was always present',
  'is new and required': 'was removed',
};

const FORM: ReadonlySet<string> = new Set([
  '$ref',
  'type',
  'properties',
  'required',
  'items',
  'oneOf',
  'anyOf',
]);
/** Relaxed copy of each schema, cached so that recursive schemas are recognised. */
const LOOSE = new WeakMap<JsonSchema, JsonSchema>();

/** Returns a response schema reduced to its structure: clients that read a response do not check bounds. */
function loose(schema: JsonSchema): JsonSchema {
  let found = LOOSE.get(schema);
  if (found === undefined)
    LOOSE.set(
      schema,
      (found = Object.fromEntries(
        Object.entries(schema).filter(
          ([keyword, value]) =>
            FORM.has(keyword) || (keyword === 'additionalProperties' && typeof value === 'object'),
        ),
      )),
    );
  return found;
}

/** Reports credentials that were sufficient in the earlier version and are not in the later one. */
function compareSecurity(before: Found, after: Found, report: (message: string) => void): void {
  for (const had of before.alternatives) {
    const lacking = after.alternatives
      .map((needs) => [...needs.difference(had)])
      .sort((left, right) => left.length - right.length)[0]!;
    if (lacking.length > 0) report(`the operation now requires ${lacking.join(' and ')}`);
  }
  const [known, next] = [demandsOf(before.operation), demandsOf(after.operation)];
  for (const scope of next.scopes.difference(known.scopes))
    report(`the operation now requires the scope ${scope}`);
  for (const roles of next.roles) {
    if (!known.roles.some((had) => had.isSubsetOf(roles)))
      report(
        `the operation now requires the role ${[...roles].join(' or ')}: ${known.roles.length === 0 ? 'no role was required before' : 'other roles were sufficient before'}`,
      );
  }
}

function demandsOf(operation: Part): {
  readonly scopes: ReadonlySet<string>;
  readonly roles: readonly ReadonlySet<string>[];
} {
  const demands = listOf(operation['x-svc-requires']).map(partOf);
  return {
    scopes: new Set(demands.flatMap(({ scopes }) => listOf(scopes).map(String))),
    roles: demands.map(({ roles }) => new Set(listOf(roles).map(String))).filter((roles) => roles.size > 0),
  };
}

function resolvedBody(operation: Part, resolve: Resolve): Part | undefined {
  return operation['requestBody'] === undefined ? undefined : resolve(partOf(operation['requestBody']));
}

function schemaOf(media: unknown): JsonSchema {
  return partOf(partOf(media)['schema']);
}

function partOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/*
 * Compares two JSON Schemas of one place: reports values that the earlier schema accepts and the later one
 * refuses.
 *
 * Request schemas are compared in order; response schemas swap roles. Only a difference in keywords is
 * reported. Members that the earlier schema did not declare are ignored.
 */

/** Returns the schema that a reference points to, within the document that contains the reference. */
type Resolve = (schema: JsonSchema) => JsonSchema;

/** The documents that contain the two schemas. */
interface Documents {
  readonly earlier: Resolve;
  readonly later: Resolve;
}

/** Reports a place, such as `title` or `items[].id`, and the values that it no longer accepts. */
type Narrowed = (path: string, what: string) => void;

/** Reports every way in which `later` accepts fewer values than `earlier`, without duplicates. */
function findNarrowing(earlier: JsonSchema, later: JsonSchema, documents: Documents, report: Narrowed): void {
  new Comparison(documents, report).compare(earlier, later, '');
}

const LOWER = ['minLength', 'minItems', 'minProperties'] as const;
const UPPER = ['maxLength', 'maxItems', 'maxProperties'] as const;
/** Keywords that constrain a value independently of other keywords. */
const RULES = ['pattern', 'format', 'contentEncoding'] as const;

class Comparison {
  readonly #documents: Documents;
  readonly #report: Narrowed;
  /** Pairs of schemas compared so far: schemas may be recursive. */
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
      if (later[keyword] !== undefined && later[keyword] !== earlier[keyword])
        this.#report(
          path,
          `must have the ${keyword} ${JSON.stringify(later[keyword])}` +
            (earlier[keyword] === undefined ? '' : `; it was ${JSON.stringify(earlier[keyword])}`),
        );
    }
    this.#compareMembers(earlier, later, path);
    if (isSchema(earlier['items']) && isSchema(later['items']))
      this.compare(earlier['items'], later['items'], `${path}[]`);
    this.#compareChoices(earlier, later, path);
  }

  /** Compares types and values. Returns false when nothing is left to compare. */
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
    const lower = (schema: JsonSchema): Bound =>
      boundOf(schema, 'minimum', 'exclusiveMinimum', (left, right) => left > right);
    const upper = (schema: JsonSchema): Bound =>
      boundOf(schema, 'maximum', 'exclusiveMaximum', (left, right) => left < right);
    this.#compareBound(lower(earlier), lower(later), 1, path);
    this.#compareBound(upper(earlier), upper(later), -1, path);
    for (const keyword of LOWER)
      this.#compareBound(countOf(earlier, keyword), countOf(later, keyword), 1, path);
    for (const keyword of UPPER)
      this.#compareBound(countOf(earlier, keyword), countOf(later, keyword), -1, path);
    const [step, next] = [earlier['multipleOf'], later['multipleOf']];
    if (typeof next === 'number' && !(typeof step === 'number' && Number.isInteger(step / next)))
      this.#report(path, `must be a multiple of ${next}`);
  }

  /** `direction` 1: a greater bound is narrower; -1: a smaller bound is narrower. */
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
    const [others, rest] = [earlier['additionalProperties'], later['additionalProperties']];
    for (const [name, member] of Object.entries(after)) {
      const known = Object.hasOwn(before, name) ? before[name] : isSchema(others) ? others : undefined;
      if (known !== undefined) this.compare(known, member, joined(path, name));
    }
    for (const [name, member] of Object.entries(before)) {
      if (Object.hasOwn(after, name)) continue;
      if (rest === false) this.#report(joined(path, name), 'is refused; it was accepted before');
      else if (isSchema(rest)) this.compare(member, rest, joined(path, name));
    }
    if (others === false || rest === undefined || rest === true) return;
    if (rest === false) this.#report(path, 'refuses unknown members');
    else if (isSchema(others)) this.compare(others, rest as JsonSchema, joined(path, '*'));
    else this.#report(path, 'accepts unknown members of one type only');
  }

  /** Each alternative of the earlier schema must fit one alternative of the later schema. */
  #compareChoices(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const after = choicesOf(later);
    if (after === undefined) return;
    for (const choice of choicesOf(earlier) ?? [withoutNotes(earlier)]) {
      const isTaken = after.some((candidate) => {
        let isNarrower = false;
        // A failed comparison must run again when the pair is met elsewhere
        const seen = new Map([...this.#seen].map(([schema, others]) => [schema, new Set(others)]));
        new Comparison(
          this.#documents,
          () => {
            isNarrower = true;
          },
          seen,
        ).compare(choice, candidate, path);
        return !isNarrower;
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

/** Returns the narrower of two bounds at one end. */
function boundOf(
  schema: JsonSchema,
  inclusive: string,
  exclusive: string,
  isNarrower: (left: number, right: number) => boolean,
): Bound {
  const [plain, strict] = [schema[inclusive], schema[exclusive]];
  if (typeof strict === 'number' && !(typeof plain === 'number' && isNarrower(plain, strict)))
    return { keyword: exclusive, value: strict, isExclusive: true };
  return typeof plain === 'number' ? { keyword: inclusive, value: plain, isExclusive: false } : undefined;
}

function countOf(schema: JsonSchema, keyword: string): Bound {
  const value = schema[keyword];
  return typeof value === 'number' ? { keyword, value, isExclusive: false } : undefined;
}

/** Bounds that every value satisfies: safe integers, and counts from 0. */
function isImplied(later: NonNullable<Bound>, earlier: Bound): boolean {
  if (earlier !== undefined) return false;
  return later.keyword.startsWith('min') && !later.keyword.startsWith('minimum')
    ? later.value <= 0
    : Math.abs(later.value) >= Number.MAX_SAFE_INTEGER;
}

function valuesOf(schema: JsonSchema): readonly unknown[] | undefined {
  return 'const' in schema
    ? [schema['const']]
    : Array.isArray(schema['enum'])
      ? (schema['enum'] as unknown[])
      : undefined;
}

/** Whether a pattern only repeats the format beside it, so that it adds no constraint. */
function isOfFormat({ format, pattern }: JsonSchema): boolean {
  return typeof pattern === 'string' && typeof format === 'string' && FORMAT_PATTERNS.has(pattern);
}

function typesOf(schema: JsonSchema): readonly string[] | undefined {
  return schema['type'] === undefined ? undefined : ([schema['type']].flat() as string[]);
}

/**
 * Returns the alternatives of a schema. Alternatives of a string, such as base64 and base64url, only
 * constrain it and are not split.
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
  return isSchema(schema['properties']) ? (schema['properties'] as Record<string, JsonSchema>) : {};
}

function requiredOf(schema: JsonSchema): ReadonlySet<string> {
  return new Set(Array.isArray(schema['required']) ? (schema['required'] as string[]) : []);
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
