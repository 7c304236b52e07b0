/**
 * Two versions of a document: what of the earlier one breaks its clients in the later.
 *
 *   gone        a path, a method, a success status, a media type
 *   narrower    inputs: something new is required, or what was taken is refused
 *   wider       answers: a member that was always there may be absent, or is of another type
 *   stronger    credentials that were enough are not any more
 *
 * Written for documents of this package, of whichever version; others may hold what is not understood, and is passed over then.
 */
import { FORMAT_PATTERNS } from '../schema/formats.ts';
import type { JsonSchema } from '../schema/json-schema.ts';

/** What breaks clients. */
interface BreakingChange {
  /** `POST /films`, with the parameters as the later document names them; of the earlier one where the operation is gone. */
  readonly subject: string;
  readonly message: string;
}

type Part = Readonly<Record<string, unknown>>;

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/** Every breaking change, in the order of the earlier document's paths. Parameters of a path are told by their place, not their names. */
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
    if (next === undefined) report('it is gone');
    else compareOperations(operation, next, { earlier: before.resolve, later: after.resolve }, report);
  }
  return changes;
}

/** An operation of one of the documents. */
interface Found {
  readonly subject: string;
  readonly operation: Part;
  /** Those of its path, too, by place and name; of a path by place and index. */
  readonly parameters: ReadonlyMap<string, Part>;
  /** What is enough, each a set of schemes by what they are. */
  readonly alternatives: readonly ReadonlySet<string>[];
}

/** One document. */
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

  /** Schemes by what they are: their names mean nothing to clients. Scopes and roles count as well. */
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
    if (parameter['required'] === true && known === undefined)
      report(`the ${key} is required, and was not there`);
    else if (parameter['required'] === true && known?.['required'] !== true)
      report(`the ${key} is required, it could be left out`);
    if (known !== undefined)
      findNarrowing(...asSent(known, parameter, documents), documents, (path, what) =>
        report(`the ${key}${path} ${what}`),
      );
  }
}

/** How long the text of a value is at most that is no text, where its schema does not say: `-9007199254740991`, `-2.2250738585072014e-308`. */
const LONGEST: Readonly<Record<string, number>> = { integer: 17, number: 24, boolean: 5 };

/** The schemas of a parameter. It is sent as text: where any text is taken now, what had to look like a number or a flag is text, too. */
function asSent(known: Part, parameter: Part, { earlier, later }: Documents): [JsonSchema, JsonSchema] {
  const asText = (schema: JsonSchema, next: JsonSchema): JsonSchema => {
    const [before, after] = [earlier(schema), later(next)];
    if (before['type'] === 'array' && after['type'] === 'array')
      return { ...before, items: asText(partOf(before['items']), partOf(after['items'])) };
    const longest = after['type'] === 'string' ? LONGEST[String(before['type'])] : undefined;
    if (longest === undefined) return before['format'] === undefined ? schema : { minLength: 1, ...before }; // no format is that of nothing
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
  if (next['required'] === true && known === undefined)
    return report('a body is required, and was not there');
  if (next['required'] === true && known?.['required'] !== true)
    report('the body is required, it could be left out');
  const [types, kept] = [partOf(known?.['content']), partOf(next['content'])];
  for (const [type, media] of Object.entries(types)) {
    const of = kept[type] ?? kept['*/*'];
    if (of === undefined) report(`the body cannot be ${type} any more`);
    else
      findNarrowing(schemaOf(media), schemaOf(of), documents, (path, what) =>
        report(`the body${path === '' ? '' : `'s ${path}`} ${what}`),
      );
  }
}

/** What clients get: nothing that they could not get before. So the schemas change places. */
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
      report(`the answer ${status} is gone`);
      continue;
    }
    const [types, kept] = [
      partOf(documents.earlier(partOf(given))['content']),
      partOf(documents.later(partOf(of))['content']),
    ];
    for (const [type, media] of Object.entries(types)) {
      if (kept[type] === undefined) report(`the answer ${status} is not ${type} any more`);
      else
        findNarrowing(schemaOf(kept[type]), schemaOf(media), turned, (path, what) =>
          report(
            `the answer ${status}${path === '' ? '' : `'s ${path}`} ${ANSWERED[what] ?? 'can be what it could not be before'}`,
          ),
        );
    }
  }
}

/** What is told the other way round. */
const ANSWERED: Readonly<Record<string, string>> = {
  'is required, it could be left out': 'can be absent, it was always there',
  'is required, and was not there': 'is gone',
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
/** One for each schema, so that those that contain themselves are known again. */
const LOOSE = new WeakMap<JsonSchema, JsonSchema>();

/** Of an answer only its form counts: clients that read it do not check its bounds. */
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

/** Whoever had enough must have enough still. */
function compareSecurity(before: Found, after: Found, report: (message: string) => void): void {
  for (const had of before.alternatives) {
    const lacking = after.alternatives
      .map((needs) => [...needs.difference(had)])
      .sort((left, right) => left.length - right.length)[0]!;
    if (lacking.length > 0) report(`it needs ${lacking.join(' and ')}, which was not needed`);
  }
  const [known, next] = [demandsOf(before.operation), demandsOf(after.operation)];
  for (const scope of next.scopes.difference(known.scopes))
    report(`it needs the scope ${scope}, which was not needed`);
  for (const roles of next.roles) {
    if (!known.roles.some((had) => had.isSubsetOf(roles)))
      report(
        `it needs the role ${[...roles].join(' or ')}, ${known.roles.length === 0 ? 'which was not needed' : 'and others were enough'}`,
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
 * Two JSON Schemas of one place: whether the later one refuses a value that the earlier one accepted.
 *
 * Schemas of requests are compared as they are, schemas of responses the other way round. Only a difference in keywords is
 * reported. Members that the earlier schema did not declare are ignored.
 */

/** Finds the schema that a reference means, in the document that it stands in. */
type Resolve = (schema: JsonSchema) => JsonSchema;

/** The documents that the two schemas belong to. */
interface Documents {
  readonly earlier: Resolve;
  readonly later: Resolve;
}

/** Tells of a place, `title` or `items[].id`, and what it refuses now. */
type Narrowed = (path: string, what: string) => void;

/** Yields every way in which `later` accepts less than `earlier`, each once. */
function findNarrowing(earlier: JsonSchema, later: JsonSchema, documents: Documents, report: Narrowed): void {
  new Comparison(documents, report).compare(earlier, later, '');
}

const LOWER = ['minLength', 'minItems', 'minProperties'] as const;
const UPPER = ['maxLength', 'maxItems', 'maxProperties'] as const;
/** Keywords that say something of their own, whatever else is there. */
const RULES = ['pattern', 'format', 'contentEncoding'] as const;

class Comparison {
  readonly #documents: Documents;
  readonly #report: Narrowed;
  /** Pairs that are being compared, or have been: schemas may contain themselves. */
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
            (earlier[keyword] === undefined ? '' : `, it was ${JSON.stringify(earlier[keyword])}`),
        );
    }
    this.#compareMembers(earlier, later, path);
    if (isSchema(earlier['items']) && isSchema(later['items']))
      this.compare(earlier['items'], later['items'], `${path}[]`);
    this.#compareChoices(earlier, later, path);
  }

  /** Types and values. False where there is nothing left to compare. */
  #compareValues(earlier: JsonSchema, later: JsonSchema, path: string): boolean {
    const [before, after] = [valuesOf(earlier), valuesOf(later)];
    if (after !== undefined) {
      const gone = before?.filter((value) => !after.includes(value));
      if (gone === undefined)
        this.#report(path, `must be ${listed(after)}, it could be anything of its type`);
      else if (gone.length > 0) this.#report(path, `cannot be ${listed(gone)} any more`);
      return gone !== undefined;
    }
    const [types, kept] = [typesOf(earlier), typesOf(later)];
    if (kept === undefined) return true;
    if (types === undefined) {
      if (valuesOf(earlier) === undefined)
        this.#report(path, `must be ${listed(kept)}, it could be anything`);
      return false;
    }
    const gone = types.filter(
      (type) => !kept.includes(type) && !(type === 'integer' && kept.includes('number')),
    );
    if (gone.length > 0) this.#report(path, `cannot be ${listed(gone)} any more, but ${listed(kept)}`);
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

  /** `direction` 1: a greater bound is the narrower; -1: a smaller one. */
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
          (earlier === undefined ? '' : `, it was ${earlier.value}`),
      );
  }

  #compareMembers(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const [before, after] = [membersOf(earlier), membersOf(later)];
    const needed = requiredOf(earlier);
    for (const name of requiredOf(later))
      if (!needed.has(name))
        this.#report(
          joined(path, name),
          Object.hasOwn(before, name)
            ? 'is required, it could be left out'
            : 'is required, and was not there',
        );
    const [others, rest] = [earlier['additionalProperties'], later['additionalProperties']];
    for (const [name, member] of Object.entries(after)) {
      const known = Object.hasOwn(before, name) ? before[name] : isSchema(others) ? others : undefined;
      if (known !== undefined) this.compare(known, member, joined(path, name));
    }
    for (const [name, member] of Object.entries(before)) {
      if (Object.hasOwn(after, name)) continue;
      if (rest === false) this.#report(joined(path, name), 'is refused, it could be there');
      else if (isSchema(rest)) this.compare(member, rest, joined(path, name));
    }
    if (others === false || rest === undefined || rest === true) return;
    if (rest === false) this.#report(path, 'refuses members that it does not know');
    else if (isSchema(others)) this.compare(others, rest as JsonSchema, joined(path, '*'));
    else this.#report(path, 'takes other members of one type only');
  }

  /** Each of the earlier choices must fit into one of the later. */
  #compareChoices(earlier: JsonSchema, later: JsonSchema, path: string): void {
    const after = choicesOf(later);
    if (after === undefined) return;
    for (const choice of choicesOf(earlier) ?? [withoutNotes(earlier)]) {
      const isTaken = after.some((candidate) => {
        let isNarrower = false;
        const seen = new Map([...this.#seen].map(([schema, others]) => [schema, new Set(others)])); // a comparison that failed does not count as seen
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
          `takes one of its earlier forms no more${typeof choice['$ref'] === 'string' ? `: ${choice['$ref'].split('/').at(-1)!}` : ''}`,
        );
    }
  }
}

type Bound = { readonly keyword: string; readonly value: number; readonly isExclusive: boolean } | undefined;

/** The narrower of two bounds at one end. */
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

/** Bounds that every value has anyway: integers that a number holds, counts from 0. */
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

/** Whether a pattern says what the format beside it says: nothing of its own. */
function isOfFormat({ format, pattern }: JsonSchema): boolean {
  return typeof pattern === 'string' && typeof format === 'string' && FORMAT_PATTERNS.has(pattern);
}

function typesOf(schema: JsonSchema): readonly string[] | undefined {
  return schema['type'] === undefined ? undefined : ([schema['type']].flat() as string[]);
}

/** The schemas that a value may choose from; choices of a text are bounds of it, as of base64. */
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
