/**
 * Compares two versions of an OpenAPI document: one walk over both finds differences, and tables judge each kind:
 * OPERATION, ROLES for parameters, bodies, responses and header fields, SENT and RECEIVED for their schemas.
 *
 *   breaking   clients of the earlier document fail: it removes something, or requires or refuses more
 *   risky      clients may fail, or get other results without an error
 *   notice     worth knowing, because clients rarely depend on it
 *
 * All other changes are safe and not reported. Unknown members of a document are ignored.
 */
import { compareSchemas } from './narrowing.ts';
import { openapiDocument } from './openapi.ts';
import { callbacksOf, list, operationsOf, record, resolve, text } from './reader.ts';
import type { Documents, SchemaChange } from './narrowing.ts';
import type { JsonObject, ReadOperation } from './reader.ts';
import type { Finding } from '../base/findings.ts';
import type { CompilationView } from '../routing/compile.ts';
import type { JsonSchema } from '../schema/json-schema.ts';

/** How likely a change breaks clients of the earlier document. */
type ChangeLevel = 'breaking' | 'risky' | 'notice';

interface Change {
  /** Name of the operation: `POST /films`, `webhook paid` or `callback paid of POST /orders`. */
  readonly subject: string;
  readonly level: ChangeLevel;
  readonly message: string;
  /** Why the change has this level. */
  readonly reason: string;
}

/** Level of a change, why it has this level, and the message, which gets the details of the change. */
type Row = readonly [level: ChangeLevel, reason: string, words: (...details: string[]) => string];

const REFUSED = 'the server refuses what these clients may send';
const IGNORED = 'the server ignores what these clients send, so the result may differ';
const MISSED = 'these clients may read it';
const UNEXPECTED = 'these clients may not expect it';
const UNCHECKED = 'clients rarely check it';
const news = (): string => 'can now have values that were not possible before';
const after = (was = ''): string => (was === '' ? '' : `; it was ${was}`);

/** Differences that parts of an operation and members of a value have in common. */
const ADDED: Row = ['breaking', REFUSED, () => 'is new and required'];
const REQUIRED: Row = ['breaking', REFUSED, () => 'is now required; it was optional'];
const UNUSED: Row = ['risky', IGNORED, () => 'was removed'];
const LOST: Row = ['breaking', MISSED, () => 'was removed'];
const LOST_OPTIONAL: Row = ['risky', MISSED, () => 'was removed; it was optional'];
const DEPRECATED: Row = ['notice', 'it will be removed', () => 'is now deprecated'];
const UNSENT: Row = ['breaking', MISSED, () => 'is no longer sent'];
const OPTIONAL: Row = ['breaking', MISSED, () => 'can now be absent; it was always present'];
const TYPE_REFUSED: Row = ['breaking', REFUSED, (type) => `can no longer have the type ${type}`];
const TYPE_GONE: Row = ['breaking', MISSED, (type) => `no longer has the type ${type}`];
const TYPE_ADDED: Row = [
  'notice',
  'clients that accept this type get it',
  (type) => `can now have the type ${type}`,
];

/**
 * Differences of a schema: of a value that clients send, and of a value that they receive. For the latter the
 * comparison is turned around, so the details of `values` are values that are new. Without a row, a
 * difference is safe.
 */
const SENT: Readonly<Partial<Record<SchemaChange, Row>>> = {
  type: ['breaking', REFUSED, (gone, kept) => `can no longer be ${gone}, only ${kept}`],
  typed: ['breaking', REFUSED, (kept) => `must now be ${kept}; any value was accepted`],
  values: ['breaking', REFUSED, (gone) => `can no longer be ${gone}`],
  constant: ['breaking', REFUSED, (gone) => `can no longer be ${gone}`],
  enumerated: ['breaking', REFUSED, (kept) => `must now be ${kept}; any value of its type was accepted`],
  bound: ['breaking', REFUSED, (keyword, is, was) => `has the ${keyword} ${is}${after(was)}`],
  multiple: ['breaking', REFUSED, (step) => `must be a multiple of ${step}`],
  format: ['breaking', REFUSED, (keyword, is, was) => `must have the ${keyword} ${is}${after(was)}`],
  rule: ['breaking', REFUSED, (keyword, is, was) => `must have the ${keyword} ${is}${after(was)}`],
  unique: ['breaking', REFUSED, () => 'must have no two equal items'],
  required: REQUIRED,
  new: ADDED,
  refused: ['breaking', REFUSED, () => 'is refused; it was accepted before'],
  closed: ['breaking', REFUSED, () => 'refuses unknown members'],
  'one-type': ['breaking', REFUSED, () => 'accepts unknown members of one type only'],
  names: ['breaking', REFUSED, (names) => `refuses members called ${names}`],
  variant: ['breaking', REFUSED, (name) => `no longer accepts one of its alternatives${name && `: ${name}`}`],
  gone: UNUSED,
  default: ['risky', 'requests without it have another meaning', (is, was) => `has ${is}; it had ${was}`],
  deprecated: DEPRECATED,
};
const RECEIVED: typeof SENT = {
  type: ['breaking', UNEXPECTED, news],
  typed: ['breaking', UNEXPECTED, news],
  variant: ['breaking', UNEXPECTED, news],
  constant: ['breaking', UNEXPECTED, (value) => `can now be ${value}`],
  values: ['risky', UNEXPECTED, (values) => `can now be ${values}`],
  enumerated: ['risky', UNEXPECTED, (was) => `can now be any value of its type; it was ${was}`],
  format: ['risky', UNEXPECTED, (keyword, was) => `need no longer have the ${keyword} ${was}`],
  required: OPTIONAL,
  new: LOST,
  fresh: LOST_OPTIONAL,
  bound: [
    'notice',
    UNCHECKED,
    (keyword, was, is) => `no longer has the ${keyword} ${was}${is && `; it is ${is}`}`,
  ],
  multiple: ['notice', UNCHECKED, (step) => `need no longer be a multiple of ${step}`],
  rule: ['notice', UNCHECKED, (keyword, was) => `need no longer have the ${keyword} ${was}`],
  unique: ['notice', UNCHECKED, () => 'can now have equal items'],
  closed: ['notice', UNCHECKED, () => 'can now have unknown members'],
  'one-type': ['notice', UNCHECKED, () => 'can now have unknown members of any type'],
  deprecated: DEPRECATED,
};

const OPERATION = {
  removed: ['breaking', 'its clients get 404 or 405', () => 'was removed'],
  removedSent: ['breaking', 'its receivers wait for it', () => 'was removed'],
  removedDeprecated: ['risky', 'it was deprecated', () => 'was removed'],
  renamed: [
    'risky',
    'generated clients have a function of another name',
    (is, was) => `is now ${is}; it was ${was}`,
  ],
  credentials: [
    'breaking',
    'the credentials of these clients do not suffice',
    (what) => `now requires ${what}`,
  ],
} as const satisfies Readonly<Record<string, Row>>;

/** Differences of a part. Without a row for `goneRequired`, a part that was always present has the row `gone`. */
type PartChange =
  | 'gone'
  | 'goneRequired'
  | 'added'
  | 'addedRequired'
  | 'becameRequired'
  | 'becameOptional'
  | 'style'
  | 'typeGone'
  | 'typeAdded';

/** Judges the differences of one kind of part, and of its schemas. Without a row, a difference is safe. */
type Role = { readonly values: typeof SENT } & Readonly<Partial<Record<PartChange, Row>>>;

const ROLES = {
  parameter: {
    values: SENT,
    gone: UNUSED,
    addedRequired: ADDED,
    becameRequired: REQUIRED,
    style: ['breaking', 'the server reads the texts of these clients otherwise', () => 'has another style'],
  },
  body: {
    values: SENT,
    gone: UNUSED,
    addedRequired: ADDED,
    becameRequired: REQUIRED,
    typeGone: TYPE_REFUSED,
  },
  success: {
    values: RECEIVED,
    gone: ['breaking', UNEXPECTED, () => 'was removed'],
    added: ['risky', UNEXPECTED, () => 'is new'],
    typeGone: TYPE_GONE,
    typeAdded: TYPE_ADDED,
  },
  error: {
    values: RECEIVED,
    gone: ['notice', 'these clients may wait for it', () => 'was removed'],
    added: ['notice', 'clients treat unknown errors alike', () => 'is new'],
    typeGone: TYPE_GONE,
    typeAdded: TYPE_ADDED,
  },
  header: {
    values: RECEIVED,
    gone: LOST_OPTIONAL,
    goneRequired: LOST,
    becameOptional: OPTIONAL,
  },
  sentParameter: { values: RECEIVED, gone: UNSENT, becameOptional: OPTIONAL },
  sentBody: {
    values: RECEIVED,
    gone: UNSENT,
    becameOptional: OPTIONAL,
    typeGone: TYPE_GONE,
    typeAdded: ['breaking', UNEXPECTED, (type) => `can now have the type ${type}`],
  },
  receipt: {
    values: SENT,
    gone: ['breaking', REFUSED, () => 'is no longer accepted'],
    typeGone: TYPE_REFUSED,
  },
} satisfies Readonly<Record<string, Role>>;

/**
 * Returns a finding of rule SVC306 for each change that clients of the baseline, an earlier OpenAPI document,
 * may notice. Its severity is `error` for a breaking change, `warning` for a risky one, and `info` for a notice.
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
  return compareOpenapi(baseline, openapiDocument(view)).map(({ subject, level, message, reason }) => {
    const callback = /^callback .* of /.exec(subject)?.[0] ?? '';
    const route = places.get(shape(subject.slice(callback.length)));
    const [severity, effect, remedy] = EFFECTS[level];
    return {
      rule: 'SVC306',
      severity,
      subject: route === undefined ? subject : `${callback}${route.method} ${route.template}`,
      message: `clients of the baseline OpenAPI document ${effect}, because ${message} (${reason})`,
      remedy,
      place: route?.place,
    };
  });
}

const PUBLISH = 'publish a new version, and commit its document as the baseline (svc openapi)';
const EFFECTS: Readonly<Record<ChangeLevel, readonly [Finding['severity'], effect: string, remedy: string]>> =
  {
    breaking: ['error', 'will fail', `Keep the old route or field beside the new one. Or ${PUBLISH}`],
    risky: ['warning', 'may fail', `Tell the authors of clients, or keep the old form. Then ${PUBLISH}`],
    notice: ['info', 'may notice a change', `No action is needed. To be rid of this note, ${PUBLISH}`],
  };

function shape(path: string): string {
  return path.replace(/\{[^}]*\}/g, '{}');
}

/**
 * Returns every change that clients may notice, in the order of the earlier document's paths. Path parameters
 * are matched by position, so their names may change.
 */
export function compareOpenapi(earlier: unknown, later: unknown): readonly Change[] {
  const changes: Change[] = [];
  const [before, after] = [record(earlier), record(later)];
  const documents: Documents = {
    earlier: (schema) => resolve(before, schema),
    later: (schema) => resolve(after, schema),
    isTurned: false,
  };
  const operations = versionOf(after);
  for (const [key, operation] of versionOf(before)) {
    // callbacks of a removed operation are not reported
    if (operation.parent !== undefined && !operations.has(operation.parent)) continue;
    const next = operations.get(key);
    const subject = next?.subject ?? operation.subject;
    const reported = new Set<string>();
    new Comparison(operation, documents, ([level, reason], message) => {
      if (!reported.has(message)) changes.push({ subject, level, message, reason });
      reported.add(message);
    }).compare(next);
  }
  return changes;
}

/** A parameter, body, response or header field. */
interface Part {
  readonly rows: Role;
  readonly given: JsonObject;
  /** Schemas by media type, without the parameters of the types; by an empty text if there is no type. */
  readonly schemas: ReadonlyMap<string, JsonSchema>;
  /** Header fields of a response by name in lower case. */
  readonly fields: ReadonlyMap<string, Part>;
  /** Whether it belongs to an error, so that no difference is worse than risky. */
  readonly isOfError: boolean;
}

interface Found {
  readonly subject: string;
  readonly operation: JsonObject;
  /** Parts by a key such as `query page`, `path parameter 1` or `response 200`. */
  readonly parts: ReadonlyMap<string, Part>;
  /**
   * Sets of required credentials; any one set is sufficient. Each item of a set is a security scheme, such as
   * `http bearer`, or a scope.
   */
  readonly alternatives: readonly ReadonlySet<string>[];
  /** Whether the application sends this request (a webhook or callback), instead of receiving it. */
  readonly isSent: boolean;
  /** For a callback: the key of the operation that declares it. */
  readonly parent?: string | undefined;
}

/** Returns the operations of a document, by a key such as `get /users/{}`. */
function versionOf(root: JsonObject): ReadonlyMap<string, Found> {
  const paths = Object.entries(record(root['paths'])).flatMap(([path, item]) =>
    operationsOf(root, item).flatMap((read) => receivedIn(root, path, read)),
  );
  const webhooks = Object.entries(record(root['webhooks'])).flatMap(([name, item]) =>
    sentIn(root, item, `webhook ${name}`, `webhook ${name}`),
  );
  return new Map([...paths, ...webhooks]);
}

type Entry = readonly [key: string, found: Found];

function receivedIn(root: JsonObject, path: string, read: ReadOperation): readonly Entry[] {
  const key = `${read.method} ${shape(path)}`;
  const subject = `${read.method.toUpperCase()} ${path}`;
  const callbacks = callbacksOf(root, read.operation).flatMap(([name, url, item]) =>
    sentIn(root, item, `callback ${key} ${name} ${url}`, `callback ${name} of ${subject}`, key),
  );
  return [[key, foundIn(root, read, { subject, isSent: false })], ...callbacks];
}

function sentIn(
  root: JsonObject,
  item: unknown,
  key: string,
  subject: string,
  parent?: string,
): readonly Entry[] {
  return operationsOf(root, item).map((read) => [
    `${read.method} ${key}`,
    foundIn(root, read, { subject, isSent: true, parent }),
  ]);
}

function foundIn(
  root: JsonObject,
  read: ReadOperation,
  about: Pick<Found, 'subject' | 'isSent' | 'parent'>,
): Found {
  const schemes = record(record(root['components'])['securitySchemes']);
  const needs = ([id, scopes]: readonly [string, readonly string[]]): readonly string[] => {
    const { type = id, scheme, in: place, name } = resolve(root, schemes[id]);
    const properties = [type, scheme, place, name].filter((word) => word !== undefined);
    return [properties.join(' '), ...scopes.map((scope) => `the scope ${scope}`)];
  };
  const alternatives = read.security.map((alternative) => new Set(alternative.flatMap(needs)));
  return {
    ...about,
    operation: read.operation,
    parts: new Map(partsOf(root, read, about)),
    alternatives: alternatives.length === 0 ? [new Set()] : alternatives,
  };
}

/** Returns the parts of an operation. Receivers of a sent request only need to know which successes are accepted. */
function* partsOf(
  root: JsonObject,
  { parameters, body, responses }: ReadOperation,
  { subject, isSent }: Pick<Found, 'subject' | 'isSent'>,
): Generator<readonly [key: string, part: Part]> {
  const names = [...subject.matchAll(/\{([^{}]*)\}/g)].map((match) => match[1]);
  for (const given of parameters) {
    const [place, name] = [String(given['in']), String(given['name'])];
    const shown = place === 'path' ? `parameter ${names.indexOf(name) + 1}` : name;
    const key = `${place} ${place === 'header' ? shown.toLowerCase() : shown}`;
    yield [key, partOf(isSent ? ROLES.sentParameter : ROLES.parameter, given)];
  }
  if (body?.['content'] !== undefined) yield ['body', partOf(isSent ? ROLES.sentBody : ROLES.body, body)];
  for (const [status, given] of Object.entries(responses)) {
    const isOfError = !status.startsWith('2');
    if (isSent && isOfError) continue;
    const fields = Object.entries(isSent ? {} : record(given['headers'])).map(
      ([name, header]) =>
        [name.toLowerCase(), partOf(ROLES.header, resolve(root, header), isOfError)] as const,
    );
    const role = isSent ? ROLES.receipt : isOfError ? ROLES.error : ROLES.success;
    yield [`response ${status}`, partOf(role, given, isOfError, new Map(fields))];
  }
}

function partOf(rows: Role, given: JsonObject, isOfError = false, fields: Part['fields'] = new Map()): Part {
  const media = rows.typeGone === undefined ? { '': given } : record(given['content']);
  const schemas = Object.entries(media).map(
    ([type, one]) => [type.replace(/\s*;.*/, '').toLowerCase(), record(record(one)['schema'])] as const,
  );
  return { rows, given, schemas: new Map(schemas), fields, isOfError };
}

class Comparison {
  readonly #before: Found;
  readonly #documents: Documents;
  readonly #send: (row: Row, message: string) => void;

  constructor(before: Found, documents: Documents, send: (row: Row, message: string) => void) {
    this.#before = before;
    this.#documents = documents;
    this.#send = send;
  }

  compare(after: Found | undefined): void {
    const { operation, parts, isSent, subject } = this.#before;
    if (after === undefined) {
      const isDeprecated = operation['deprecated'] === true;
      if (isSent) this.#report(OPERATION.removedSent, `the ${subject.replace(/ .*/, '')}`);
      else if (isDeprecated) this.#report(OPERATION.removedDeprecated, 'the deprecated operation');
      else this.#report(OPERATION.removed, 'the operation');
      return;
    }
    this.#compareNames(after);
    for (const [key, part] of parts) {
      // ranges of statuses and `default` stand for a success, too
      const keys = key.startsWith('response 2') ? [key, 'response 2XX', 'response default'] : [key];
      this.#comparePart(`the ${key}`, part, after.parts.get(keys.find((one) => after.parts.has(one)) ?? key));
    }
    this.#compareAdded(after.parts);
    if (!isSent) this.#compareSecurity(after);
  }

  #report(row: Row | undefined, what: string, ...details: string[]): void {
    if (row !== undefined) this.#send(row, `${what} ${row[2](...details)}`);
  }

  #reportPart({ isOfError }: Part, row: Row | undefined, what: string, ...details: string[]): void {
    const isMilder = isOfError && row?.[0] === 'breaking';
    this.#report(isMilder ? ['risky', 'clients that read errors may fail', row[2]] : row, what, ...details);
  }

  #compareNames({ operation }: Found): void {
    const { operation: before, isSent } = this.#before;
    const [was, is] = [text(before['operationId']), text(operation['operationId'])];
    if (was !== undefined && was !== is && !isSent)
      this.#report(OPERATION.renamed, 'the operationId', is ?? 'absent', was);
    if (isNow('deprecated', before, operation)) this.#report(DEPRECATED, 'the operation');
  }

  #comparePart(what: string, part: Part, later: Part | undefined): void {
    const { rows, given, fields } = part;
    const report = (row: Row | undefined): void => this.#reportPart(part, row, what);
    if (later === undefined) return report((given['required'] === true && rows.goneRequired) || rows.gone);
    if (isNow('required', given, later.given)) report(rows.becameRequired);
    if (isNow('required', later.given, given)) report(rows.becameOptional);
    if (isNow('deprecated', given, later.given)) report(DEPRECATED);
    if (styleOf(given) !== styleOf(later.given)) report(rows.style);
    this.#compareTypes(what, part, later.schemas);
    for (const [name, field] of fields)
      this.#comparePart(`the header ${name} of ${what}`, field, later.fields.get(name));
  }

  #compareTypes(what: string, part: Part, kept: Part['schemas']): void {
    const { rows, schemas } = part;
    for (const [type, schema] of schemas) {
      const next = kept.get(type) ?? (rows.values === SENT ? kept.get('*/*') : undefined);
      if (next === undefined) this.#reportPart(part, rows.typeGone, what, type);
      else this.#compareValues(what, part, schema, next);
    }
    if (part.given['content'] === undefined || schemas.has('*/*')) return;
    for (const type of kept.keys())
      if (!schemas.has(type)) this.#reportPart(part, rows.typeAdded, what, type);
  }

  #compareAdded(parts: Found['parts']): void {
    const known = this.#before.parts;
    // a document without errors, or with ranges of errors, leaves open which statuses there are
    const listsErrors = known.values().some(({ isOfError }) => isOfError);
    for (const [key, { rows, given, isOfError }] of parts)
      if (!known.has(key) && !(isOfError && (!listsErrors || key.endsWith('XX'))))
        this.#report(given['required'] === true ? rows.addedRequired : rows.added, `the ${key}`);
  }

  #compareValues(what: string, part: Part, before: JsonSchema, after: JsonSchema): void {
    const { earlier, later } = this.#documents;
    const { values } = part.rows;
    const isTurned = values === RECEIVED;
    const isParameter = part.rows === ROLES.parameter;
    compareSchemas(
      isTurned ? after : isParameter ? asSent(before, after, this.#documents) : before,
      isTurned ? before : after,
      isTurned ? { earlier: later, later: earlier, isTurned } : this.#documents,
      (kind) => values[kind]?.[0] === 'breaking',
      (path, kind, details) => {
        const name = path === '' || isParameter ? path : `'s ${path}`;
        this.#reportPart(part, values[kind], what + name, ...details);
      },
    );
  }

  /** Reports credentials that are sufficient in the earlier document, but not in the later one. */
  #compareSecurity({ alternatives, operation }: Found): void {
    for (const had of this.#before.alternatives) {
      const [lacking = []] = alternatives
        .map((needs) => [...needs.difference(had)])
        .sort((left, right) => left.length - right.length);
      if (lacking.length > 0) this.#report(OPERATION.credentials, 'the operation', lacking.join(' and '));
    }
    const [known, next] = [demandsOf(this.#before.operation), demandsOf(operation)];
    for (const scope of next.scopes.difference(known.scopes))
      this.#report(OPERATION.credentials, 'the operation', `the scope ${scope}`);
    const what =
      known.roles.length === 0 ? 'no role was required before' : 'other roles were sufficient before';
    for (const roles of next.roles)
      if (!known.roles.some((had) => had.isSubsetOf(roles)))
        this.#report(OPERATION.credentials, 'the operation', `the role ${[...roles].join(' or ')}: ${what}`);
  }
}

/** Whether a member is true in the later object only. */
function isNow(member: string, before: JsonObject, after: JsonObject): boolean {
  return after[member] === true && before[member] !== true;
}

/** How a list or an object is written as a parameter (OpenAPI 3.1 §4.8.12.2). */
function styleOf(parameter: JsonObject): string {
  const place = String(parameter['in']);
  const style = parameter['style'] ?? (place === 'query' || place === 'cookie' ? 'form' : 'simple');
  return `${String(style)} ${String(parameter['explode'] ?? style === 'form')}`;
}

/**
 * Maximum length of a value as text, by type. The longest texts are `-9007199254740991`,
 * `-2.2250738585072014e-308` and `false`.
 */
const LONGEST: Readonly<Record<string, number>> = { integer: 17, number: 24, boolean: 5 };

/**
 * Returns the earlier schema of a parameter. Parameters are sent as text, so a number or boolean that becomes
 * a string is compared as text.
 */
function asSent(schema: JsonSchema, next: JsonSchema, documents: Documents): JsonSchema {
  const [before, after] = [documents.earlier(schema), documents.later(next)];
  if (before['type'] === 'array' && after['type'] === 'array')
    return { ...before, items: asSent(record(before['items']), record(after['items']), documents) };
  const longest = after['type'] === 'string' ? LONGEST[String(before['type'])] : undefined;
  if (longest === undefined) return before['format'] === undefined ? schema : { minLength: 1, ...before };
  const values = list(before['enum'] ?? (before['const'] === undefined ? undefined : [before['const']])).map(
    String,
  );
  return values.length > 0
    ? { type: 'string', enum: values }
    : { type: 'string', minLength: 1, maxLength: longest };
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
