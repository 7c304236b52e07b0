/**
 * Compares two versions of an OpenAPI document: reports changes in the later one that break clients of the
 * earlier one.
 *
 * Kinds of breaking changes:
 *   removed     a path, method, success status or media type
 *   narrower    requests: a new required input, or a value that is no longer accepted
 *   wider       responses: a member may now be absent, or has another type
 *   stronger    security: credentials that were sufficient are not any more
 *   sent        webhooks and callbacks: removed, or a payload that receivers could not get before
 *
 * Made for documents of any version of this package. Unknown parts of other documents are ignored.
 */
import { findNarrowing } from './narrowing.ts';
import { openapiDocument } from './openapi.ts';
import type { Documents, Resolve } from './narrowing.ts';
import type { Finding } from '../base/findings.ts';
import type { CompilationView } from '../routing/compile.ts';
import type { JsonSchema } from '../schema/json-schema.ts';

/** A change that breaks clients. */
interface BreakingChange {
  /**
   * Operation such as `POST /films`, `webhook paid` or `callback paid of POST /orders`, with the parameter
   * names of the later document. A removed operation has those of the earlier document.
   */
  readonly subject: string;
  readonly message: string;
}

type Part = Readonly<Record<string, unknown>>;

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/** SVC306: changes that break clients of the baseline document, at the changed routes. */
export function findBreakingChanges(
  view: CompilationView,
  baseline: Readonly<Record<string, unknown>>,
): readonly Finding[] {
  const places = new Map(
    view.routes.map(({ method, template, place }) => [
      `${method} ${shape(template)}`,
      { method, template, place },
    ]),
  );
  return compareOpenapi(baseline, openapiDocument(view)).map(({ subject, message }) => {
    const callback = /^callback .* of /.exec(subject)?.[0] ?? '';
    const route = places.get(shape(subject.slice(callback.length)));
    return {
      rule: 'SVC306',
      severity: 'error',
      subject: route === undefined ? subject : `${callback}${route.method} ${route.template}`,
      message: `clients made for the baseline document fail: ${message}`,
      remedy:
        'Keep the old part beside the new one, or publish a new version and commit its document as the baseline: svc openapi',
      place: route?.place,
    };
  });
}

function shape(path: string): string {
  return path.replace(/\{[^}]*\}/g, '{}');
}

/**
 * Returns every breaking change, in the order of the earlier document's paths. Path parameters are matched by
 * position, not by name.
 */
export function compareOpenapi(earlier: unknown, later: unknown): readonly BreakingChange[] {
  const changes: BreakingChange[] = [];
  const [before, after] = [new Version(earlier), new Version(later)];
  for (const [shape, operation] of before.operations) {
    // the removed operation is reported; its callbacks are not reported in addition
    if (operation.parent !== undefined && !after.operations.has(operation.parent)) continue;
    const next = after.operations.get(shape);
    const subject = next?.subject ?? operation.subject;
    const reported = new Set<string>();
    const report = (message: string): void => {
      if (!reported.has(message)) changes.push({ subject, message });
      reported.add(message);
    };
    if (next === undefined)
      report(`the ${operation.isSent ? operation.subject.split(' ', 1)[0]! : 'operation'} was removed`);
    else {
      const compare = operation.isSent ? compareSent : compareOperations;
      compare(operation, next, { earlier: before.resolve, later: after.resolve }, report);
    }
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
  /** Whether the application sends this request (a webhook or callback), instead of receiving it. */
  readonly isSent: boolean;
  /** Key of the operation that has this callback; undefined for others. */
  readonly parent: string | undefined;
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
      const shape = path.replace(/\{[^{}]*\}/g, '{}');
      for (const [method, operation] of this.#add(path, given, shape, (verb) => `${verb} ${path}`)) {
        const subject = `${method.toUpperCase()} ${path}`;
        for (const [name, byUrl] of Object.entries(partOf(operation['callbacks'])))
          for (const [url, item] of Object.entries(this.#resolved(partOf(byUrl))))
            this.#add(
              '',
              item,
              `callback ${method} ${shape} ${name} ${url}`,
              () => `callback ${name} of ${subject}`,
              true,
              `${method} ${shape}`,
            );
      }
    }
    for (const [name, item] of Object.entries(partOf(this.#document['webhooks'])))
      this.#add('', item, `webhook ${name}`, () => `webhook ${name}`, true);
  }

  /** Adds the operations of a path item, and returns them by method. */
  #add(
    path: string,
    given: unknown,
    key: string,
    subjectOf: (method: string) => string,
    isSent = false,
    parent?: string,
  ): readonly (readonly [method: string, operation: Part])[] {
    const item = this.#resolved(partOf(given));
    const found = METHODS.filter((method) => item[method] !== undefined).map(
      (method) => [method, partOf(item[method])] as const,
    );
    for (const [method, operation] of found)
      this.operations.set(`${method} ${key}`, {
        subject: subjectOf(method.toUpperCase()),
        operation,
        parameters: this.#parameters(path, item, operation),
        alternatives: this.#alternatives(operation),
        isSent,
        parent,
      });
    return found;
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
  compareTaken('the body', known ?? {}, next, documents, report);
}

/**
 * Reports values in responses that clients could not get before. For that, the two schemas are compared in
 * reverse.
 */
function compareResponses(
  before: Part,
  after: Part,
  documents: Documents,
  report: (message: string) => void,
): void {
  const [known, next] = [partOf(before['responses']), partOf(after['responses'])];
  for (const [status, given] of Object.entries(known)) {
    if (!/^2/.test(status)) continue;
    const of = next[status] ?? next['2XX'] ?? next['default'];
    if (of === undefined) {
      report(`the response ${status} was removed`);
      continue;
    }
    const [body, nextBody] = [documents.earlier(partOf(given)), documents.later(partOf(of))];
    compareRead(`the response ${status}`, body, nextBody, documents, report);
  }
}

/** Reports values of a body that could not occur in the earlier version, and so break those who read it. */
function compareRead(
  subject: string,
  before: Part,
  after: Part,
  documents: Documents,
  report: (message: string) => void,
): void {
  const [types, kept] = [partOf(before['content']), partOf(after['content'])];
  for (const [type, media] of Object.entries(types)) {
    if (kept[type] === undefined) report(`${subject} no longer has the type ${type}`);
    else compareValues(subject, schemaOf(media), schemaOf(kept[type]), documents, report);
  }
}

function compareValues(
  subject: string,
  before: JsonSchema,
  after: JsonSchema,
  documents: Documents,
  report: (message: string) => void,
): void {
  const turned: Documents = {
    earlier: (schema) => loose(documents.later(schema)),
    later: (schema) => loose(documents.earlier(schema)),
  };
  findNarrowing(after, before, turned, (path, what) =>
    report(
      `${subject}${path === '' ? '' : `'s ${path}`} ${ANSWERED[what] ?? 'can now have values that were not possible before'}`,
    ),
  );
}

/**
 * Compares a webhook or callback, which the application sends. Its receivers read the parameters and the
 * body, and send the response.
 */
function compareSent(
  before: Found,
  after: Found,
  documents: Documents,
  report: (message: string) => void,
): void {
  for (const [key, parameter] of before.parameters) {
    const next = after.parameters.get(key);
    if (next === undefined) report(`the ${key} is no longer sent`);
    else {
      if (parameter['required'] === true && next['required'] !== true)
        report(`the ${key} can now be absent; it was always present`);
      compareValues(`the ${key}`, partOf(parameter['schema']), partOf(next['schema']), documents, report);
    }
  }
  const [body, nextBody] = [
    resolvedBody(before.operation, documents.earlier),
    resolvedBody(after.operation, documents.later),
  ];
  compareRead('the body', body ?? {}, nextBody ?? {}, documents, report);
  if (body !== undefined && nextBody !== undefined) {
    if (body['required'] === true && nextBody['required'] !== true)
      report('the body can now be absent; it was always present');
    const types = partOf(body['content']);
    for (const type of Object.keys(partOf(nextBody['content'])))
      if (types[type] === undefined && types['*/*'] === undefined)
        report(`the body can now have the type ${type}`);
  }
  const [known, kept] = [partOf(before.operation['responses']), partOf(after.operation['responses'])];
  for (const [status, given] of Object.entries(known)) {
    const of = kept[status] ?? kept[`${status[0]!}XX`] ?? kept['default'];
    if (!/^2/.test(status)) continue;
    if (of === undefined) report(`the response ${status} is no longer accepted`);
    else
      compareTaken(
        `the response ${status}`,
        documents.earlier(partOf(given)),
        documents.later(partOf(of)),
        documents,
        report,
      );
  }
}

/** Reports values of a body that the earlier version accepted, and the later one does not. */
function compareTaken(
  subject: string,
  before: Part,
  after: Part,
  documents: Documents,
  report: (message: string) => void,
): void {
  const [types, kept] = [partOf(before['content']), partOf(after['content'])];
  for (const [type, media] of Object.entries(types)) {
    const of = kept[type] ?? kept['*/*'];
    if (of === undefined) report(`${subject} can no longer have the type ${type}`);
    else
      findNarrowing(schemaOf(media), schemaOf(of), documents, (path, what) =>
        report(`${subject}${path === '' ? '' : `'s ${path}`} ${what}`),
      );
  }
}

/** Texts for changes in responses, by the text for the same change in requests. */
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
  'prefixItems',
  'oneOf',
  'anyOf',
]);
/** Relaxed copy of each schema, cached so that recursive schemas are recognized. */
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

/** Reports credentials that were sufficient in the earlier version, but are not in the later one. */
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
