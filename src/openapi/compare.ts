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
import { findNarrowing } from './narrowing.ts';
import type { Documents, Resolve } from './narrowing.ts';
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
  'prefixItems',
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
