/**
 * Compares two versions of an OpenAPI document: reports changes in the later one that break clients of the
 * earlier one.
 *
 * Kinds of breaking changes:
 *   - A path, method, success status or media type is gone.
 *   - A request has a new required input, or a value that is no longer accepted.
 *   - A member of a response may now be absent, or has another type.
 *   - Credentials that were sufficient are not sufficient any more.
 *   - A webhook or callback is gone, or can have a body that its receivers could not get before.
 *
 * Unknown members of a document are ignored.
 */
import { findNarrowing } from './narrowing.ts';
import { openapiDocument } from './openapi.ts';
import { callbacksOf, list, operationsOf, record, resolve } from './reader.ts';
import type { Documents } from './narrowing.ts';
import type { JsonObject, ReadOperation } from './reader.ts';
import type { Finding } from '../base/findings.ts';
import type { CompilationView } from '../routing/compile.ts';
import type { JsonSchema } from '../schema/json-schema.ts';

interface BreakingChange {
  /** Name of the operation: `POST /films`, `webhook paid` or `callback paid of POST /orders`. */
  readonly subject: string;
  readonly message: string;
}

/**
 * Returns a finding of rule SVC306 for each change that breaks clients of the baseline, an earlier OpenAPI
 * document.
 */
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
      message: `clients of the baseline OpenAPI document will fail, because ${message}`,
      remedy:
        'Keep the old route or field beside the new one. Or publish a new version, and commit its document as the baseline (svc openapi)',
      place: route?.place,
    };
  });
}

function shape(path: string): string {
  return path.replace(/\{[^}]*\}/g, '{}');
}

/**
 * Returns every breaking change, in the order of the earlier document's paths. Path parameters are matched by
 * position, so their names may change.
 */
export function compareOpenapi(earlier: unknown, later: unknown): readonly BreakingChange[] {
  const changes: BreakingChange[] = [];
  const [before, after] = [record(earlier), record(later)];
  const documents: Documents = {
    earlier: (schema) => resolve(before, schema),
    later: (schema) => resolve(after, schema),
  };
  const operations = versionOf(after);
  for (const [key, operation] of versionOf(before)) {
    // callbacks of a removed operation are not reported
    if (operation.parent !== undefined && !operations.has(operation.parent)) continue;
    const next = operations.get(key);
    const subject = next?.subject ?? operation.subject;
    const reported = new Set<string>();
    const report = (message: string): void => {
      if (!reported.has(message)) changes.push({ subject, message });
      reported.add(message);
    };
    if (next === undefined)
      report(`the ${operation.isSent ? operation.subject.split(' ', 1)[0]! : 'operation'} was removed`);
    else new Comparison(operation, next, documents, report).compare();
  }
  return changes;
}

interface Found extends Pick<ReadOperation, 'operation' | 'responses'> {
  readonly subject: string;
  /** The request body; empty if there is none. */
  readonly body: JsonObject;
  /** Parameters, by a key such as `query page` or `path parameter 1`. */
  readonly parameters: ReadonlyMap<string, JsonObject>;
  /**
   * Sets of required credentials; any one set is sufficient. Each item of a set is a security scheme, such as
   * `http bearer`, or a scope.
   */
  readonly alternatives: readonly ReadonlySet<string>[];
  /** Whether the application sends this request (a webhook or callback), instead of receiving it. */
  readonly isSent: boolean;
  /** For a callback: the key of the operation that declares it. */
  readonly parent?: string;
}

/** Returns the operations of a document, by a key such as `get /users/{}`. */
function versionOf(root: JsonObject): ReadonlyMap<string, Found> {
  const operations = new Map<string, Found>();
  for (const [path, item] of Object.entries(record(root['paths'])))
    for (const read of operationsOf(root, item)) {
      const key = `${read.method} ${shape(path)}`;
      const subject = `${read.method.toUpperCase()} ${path}`;
      operations.set(key, { ...foundIn(root, read, path), subject, isSent: false });
      for (const [name, url, sent] of callbacksOf(root, read.operation))
        for (const request of operationsOf(root, sent))
          operations.set(`${request.method} callback ${key} ${name} ${url}`, {
            ...foundIn(root, request),
            subject: `callback ${name} of ${subject}`,
            isSent: true,
            parent: key,
          });
    }
  for (const [name, item] of Object.entries(record(root['webhooks'])))
    for (const read of operationsOf(root, item))
      operations.set(`${read.method} webhook ${name}`, {
        ...foundIn(root, read),
        subject: `webhook ${name}`,
        isSent: true,
      });
  return operations;
}

function foundIn(root: JsonObject, read: ReadOperation, path = ''): Omit<Found, 'subject' | 'isSent'> {
  const { operation, responses, body = {} } = read;
  const names = [...path.matchAll(/\{([^{}]*)\}/g)].map((match) => match[1]);
  const parameters = read.parameters.map((parameter) => {
    const [place, name] = [String(parameter['in']), String(parameter['name'])];
    if (place === 'path') return [`path parameter ${names.indexOf(name) + 1}`, parameter] as const;
    return [`${place} ${place === 'header' ? name.toLowerCase() : name}`, parameter] as const;
  });
  const schemes = record(record(root['components'])['securitySchemes']);
  const alternatives = read.security.map(
    (alternative) =>
      new Set(
        alternative.flatMap(([id, scopes]) => {
          const { type = id, scheme, in: place, name } = resolve(root, schemes[id]);
          const properties = [type, scheme, place, name].filter((word) => word !== undefined);
          return [properties.join(' '), ...scopes.map((scope) => `the scope ${scope}`)];
        }),
      ),
  );
  return {
    operation,
    responses,
    body,
    parameters: new Map(parameters),
    alternatives: alternatives.length === 0 ? [new Set()] : alternatives,
  };
}

class Comparison {
  readonly #before: Found;
  readonly #after: Found;
  readonly #documents: Documents;
  readonly #report: (message: string) => void;

  constructor(before: Found, after: Found, documents: Documents, report: (message: string) => void) {
    this.#before = before;
    this.#after = after;
    this.#documents = documents;
    this.#report = report;
  }

  compare(): void {
    if (this.#before.isSent) return this.#compareSent();
    const { body } = this.#before;
    const next = this.#after.body;
    this.#compareParameters();
    if (next['required'] === true && body['required'] !== true)
      this.#report(
        body['content'] === undefined
          ? 'the body is new and required'
          : 'the body is now required; it was optional',
      );
    if (next['content'] !== undefined) this.#compareTaken('the body', body, next);
    for (const [status, response] of successesOf(this.#before)) {
      const later = responseFor(status, this.#after);
      if (later === undefined) this.#report(`the response ${status} was removed`);
      else this.#compareRead(`the response ${status}`, response, later);
    }
    this.#compareSecurity();
  }

  /** Compares a webhook or callback: a request that the application sends to another server. */
  #compareSent(): void {
    const { parameters, body } = this.#before;
    const next = this.#after.body;
    for (const [key, parameter] of parameters) {
      const later = this.#after.parameters.get(key);
      if (later === undefined) this.#report(`the ${key} is no longer sent`);
      else {
        this.#comparePresence(`the ${key}`, parameter, later);
        this.#compareValues(`the ${key}`, schemaOf(parameter), schemaOf(later));
      }
    }
    this.#compareRead('the body', body, next);
    if (body['content'] !== undefined && next['content'] !== undefined) {
      this.#comparePresence('the body', body, next);
      const types = record(body['content']);
      for (const type of Object.keys(record(next['content'])))
        if (types[type] === undefined && types['*/*'] === undefined)
          this.#report(`the body can now have the type ${type}`);
    }
    for (const [status, response] of successesOf(this.#before)) {
      const later = responseFor(status, this.#after);
      if (later === undefined) this.#report(`the response ${status} is no longer accepted`);
      else this.#compareTaken(`the response ${status}`, response, later);
    }
  }

  #compareParameters(): void {
    for (const [key, parameter] of this.#after.parameters) {
      const known = this.#before.parameters.get(key);
      if (parameter['required'] === true && known?.['required'] !== true)
        this.#report(
          known === undefined
            ? `the ${key} is new and required`
            : `the ${key} is now required; it was optional`,
        );
      if (known !== undefined)
        findNarrowing(...asSent(known, parameter, this.#documents), this.#documents, (path, what) =>
          this.#report(`the ${key}${path} ${what}`),
        );
    }
  }

  #comparePresence(subject: string, before: JsonObject, after: JsonObject): void {
    if (before['required'] === true && after['required'] !== true)
      this.#report(`${subject} can now be absent; it was always present`);
  }

  /** Reports values of a body that the earlier document accepts, and the later one refuses. */
  #compareTaken(subject: string, before: JsonObject, after: JsonObject): void {
    const [types, kept] = [record(before['content']), record(after['content'])];
    for (const [type, media] of Object.entries(types)) {
      const later = kept[type] ?? kept['*/*'];
      if (later === undefined) this.#report(`${subject} can no longer have the type ${type}`);
      else
        findNarrowing(schemaOf(media), schemaOf(later), this.#documents, (path, what) =>
          this.#report(`${subject}${path === '' ? '' : `'s ${path}`} ${what}`),
        );
    }
  }

  /** Reports changes of a response, webhook or callback body that its receivers may not expect. */
  #compareRead(subject: string, before: JsonObject, after: JsonObject): void {
    const [types, kept] = [record(before['content']), record(after['content'])];
    for (const [type, media] of Object.entries(types)) {
      if (kept[type] === undefined) this.#report(`${subject} no longer has the type ${type}`);
      else this.#compareValues(subject, schemaOf(media), schemaOf(kept[type]));
    }
  }

  /**
   * Reports values that the later schema accepts and the earlier one refuses, because existing receivers may
   * not expect them.
   */
  #compareValues(subject: string, before: JsonSchema, after: JsonSchema): void {
    const { earlier, later } = this.#documents;
    const turned: Documents = {
      earlier: (schema) => loose(later(schema)),
      later: (schema) => loose(earlier(schema)),
    };
    findNarrowing(after, before, turned, (path, what) =>
      this.#report(
        `${subject}${path === '' ? '' : `'s ${path}`} ${ANSWERED[what] ?? 'can now have values that were not possible before'}`,
      ),
    );
  }

  /** Reports credentials that are sufficient in the earlier document, but not in the later one. */
  #compareSecurity(): void {
    for (const had of this.#before.alternatives) {
      const lacking = this.#after.alternatives
        .map((needs) => [...needs.difference(had)])
        .sort((left, right) => left.length - right.length)[0]!;
      if (lacking.length > 0) this.#report(`the operation now requires ${lacking.join(' and ')}`);
    }
    const [known, next] = [demandsOf(this.#before.operation), demandsOf(this.#after.operation)];
    for (const scope of next.scopes.difference(known.scopes))
      this.#report(`the operation now requires the scope ${scope}`);
    const what =
      known.roles.length === 0 ? 'no role was required before' : 'other roles were sufficient before';
    for (const roles of next.roles)
      if (!known.roles.some((had) => had.isSubsetOf(roles)))
        this.#report(`the operation now requires the role ${[...roles].join(' or ')}: ${what}`);
  }
}

function successesOf({ responses }: Found): [status: string, response: JsonObject][] {
  return Object.entries(responses).filter(([status]) => status.startsWith('2'));
}

/** Returns the response that the later document declares for a success status of the earlier document. */
function responseFor(status: string, { responses }: Found): JsonObject | undefined {
  return responses[status] ?? responses['2XX'] ?? responses['default'];
}

/**
 * Maximum length of a value as text, by type. The longest texts are `-9007199254740991`,
 * `-2.2250738585072014e-308` and `false`.
 */
const LONGEST: Readonly<Record<string, number>> = { integer: 17, number: 24, boolean: 5 };

/**
 * Returns the earlier and the later schema of a parameter. Parameters are sent as text, so a number or
 * boolean that becomes a string is compared as text.
 */
function asSent(
  known: JsonObject,
  parameter: JsonObject,
  { earlier, later }: Documents,
): [JsonSchema, JsonSchema] {
  const asText = (schema: JsonSchema, next: JsonSchema): JsonSchema => {
    const [before, after] = [earlier(schema), later(next)];
    if (before['type'] === 'array' && after['type'] === 'array')
      return { ...before, items: asText(record(before['items']), record(after['items'])) };
    const longest = after['type'] === 'string' ? LONGEST[String(before['type'])] : undefined;
    if (longest === undefined) return before['format'] === undefined ? schema : { minLength: 1, ...before };
    const values = list(
      before['enum'] ?? (before['const'] === undefined ? undefined : [before['const']]),
    ).map(String);
    return values.length > 0
      ? { type: 'string', enum: values }
      : { type: 'string', minLength: 1, maxLength: longest };
  };
  const [schema, next] = [schemaOf(known), schemaOf(parameter)];
  return [asText(schema, next), next];
}

/**
 * Replacements for messages of findNarrowing() about responses. The schemas of responses are compared in
 * reverse, so the original messages would state the opposite.
 */
const ANSWERED: Readonly<Record<string, string>> = {
  'is now required; it was optional': 'can now be absent; it was always present',
  'is new and required': 'was removed',
};

/** Keywords that describe the structure of a value: types and members, not bounds. */
const FORM: ReadonlySet<string> = new Set(
  '$ref type properties required items prefixItems oneOf anyOf'.split(' '),
);
/**
 * Results of loose(), by schema. A schema must always get the same result, because the comparison recognizes
 * recursive schemas by object identity.
 */
const LOOSE = new WeakMap<JsonSchema, JsonSchema>();

/**
 * Returns the structure of a schema without bounds, because clients do not check the bounds of a response.
 */
function loose(schema: JsonSchema): JsonSchema {
  const isKept = ([keyword, value]: [string, unknown]): boolean =>
    FORM.has(keyword) || (keyword === 'additionalProperties' && typeof value === 'object');
  const found = LOOSE.get(schema) ?? Object.fromEntries(Object.entries(schema).filter(isKept));
  LOOSE.set(schema, found);
  return found;
}

function demandsOf(operation: JsonObject): {
  readonly scopes: ReadonlySet<string>;
  readonly roles: readonly ReadonlySet<string>[];
} {
  const demands = list(operation['x-svc-requires']).map(record);
  return {
    scopes: new Set(demands.flatMap(({ scopes }) => list(scopes).map(String))),
    roles: demands.map(({ roles }) => new Set(list(roles).map(String))).filter((roles) => roles.size > 0),
  };
}

function schemaOf(media: unknown): JsonSchema {
  return record(record(media)['schema']);
}
