/**
 * Compares two versions of an OpenAPI document: one walk over both reports differences by their kind, and the
 * table CHANGES judges each kind.
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
  required: ['breaking', REFUSED, () => 'is now required; it was optional'],
  new: ['breaking', REFUSED, () => 'is new and required'],
  refused: ['breaking', REFUSED, () => 'is refused; it was accepted before'],
  closed: ['breaking', REFUSED, () => 'refuses unknown members'],
  'one-type': ['breaking', REFUSED, () => 'accepts unknown members of one type only'],
  names: ['breaking', REFUSED, (names) => `refuses members called ${names}`],
  variant: ['breaking', REFUSED, (name) => `no longer accepts one of its alternatives${name && `: ${name}`}`],
  gone: ['risky', IGNORED, () => 'was removed'],
  default: ['risky', 'requests without it have another meaning', (is, was) => `has ${is}; it had ${was}`],
  deprecated: ['notice', 'it will be removed', () => 'is now deprecated'],
};
const RECEIVED: typeof SENT = {
  type: ['breaking', UNEXPECTED, news],
  typed: ['breaking', UNEXPECTED, news],
  variant: ['breaking', UNEXPECTED, news],
  constant: ['breaking', UNEXPECTED, (value) => `can now be ${value}`],
  values: ['risky', UNEXPECTED, (values) => `can now be ${values}`],
  enumerated: ['risky', UNEXPECTED, (was) => `can now be any value of its type; it was ${was}`],
  format: ['risky', UNEXPECTED, (keyword, was) => `need no longer have the ${keyword} ${was}`],
  required: ['breaking', MISSED, () => 'can now be absent; it was always present'],
  new: ['breaking', MISSED, () => 'was removed'],
  fresh: ['risky', MISSED, () => 'was removed; it was optional'],
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
  deprecated: ['notice', 'it will be removed', () => 'is now deprecated'],
};

/** Differences of operations. The first detail is the part that differs. */
const CHANGES = {
  removed: ['breaking', 'its clients get 404 or 405', (what) => `the ${what} was removed`],
  'removed-sent': ['breaking', 'its receivers wait for it', (what) => `the ${what} was removed`],
  'removed-deprecated': ['risky', 'it was deprecated', (what) => `the deprecated ${what} was removed`],
  renamed: [
    'risky',
    'generated clients have a function of another name',
    (is, was) => `the operationId is now ${is}; it was ${was}`,
  ],
  deprecated: ['notice', 'it will be removed', (what) => `${what} is now deprecated`],
  'parameter-removed': ['risky', IGNORED, (what) => `${what} was removed`],
  'body-removed': ['risky', IGNORED, (what) => `${what} was removed`],
  'new-required': ['breaking', REFUSED, (what) => `${what} is new and required`],
  required: ['breaking', REFUSED, (what) => `${what} is now required; it was optional`],
  written: [
    'breaking',
    'the server reads the texts of these clients otherwise',
    (what) => `${what} has another style`,
  ],
  'type-refused': ['breaking', REFUSED, (what, type) => `${what} can no longer have the type ${type}`],
  'type-gone': ['breaking', MISSED, (what, type) => `${what} no longer has the type ${type}`],
  'type-new': [
    'notice',
    'clients that accept this type get it',
    (what, type) => `${what} can now have the type ${type}`,
  ],
  'type-sent': ['breaking', UNEXPECTED, (what, type) => `${what} can now have the type ${type}`],
  'no-longer-sent': ['breaking', MISSED, (what) => `${what} is no longer sent`],
  absent: ['breaking', MISSED, (what) => `${what} can now be absent; it was always present`],
  'success-gone': ['breaking', UNEXPECTED, (what) => `${what} was removed`],
  'success-new': ['risky', UNEXPECTED, (what) => `${what} is new`],
  'error-gone': ['notice', 'these clients may wait for it', (what) => `${what} was removed`],
  'error-new': ['notice', 'clients treat unknown errors alike', (what) => `${what} is new`],
  'no-longer-accepted': ['breaking', REFUSED, (what) => `${what} is no longer accepted`],
  'header-gone': ['risky', MISSED, (what) => `${what} was removed; it was optional`],
  'required-header-gone': ['breaking', MISSED, (what) => `${what} was removed`],
  credentials: [
    'breaking',
    'the credentials of these clients do not suffice',
    (what) => `the operation now requires ${what}`,
  ],
} as const satisfies Readonly<Record<string, Row>>;

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

type ReportRow = (row: Row, message: string) => void;

class Comparison {
  readonly #before: Found;
  readonly #documents: Documents;
  readonly #send: ReportRow;
  /** Whether the compared response is an error, so that no difference is worse than risky. */
  #isOfError = false;

  constructor(before: Found, documents: Documents, send: ReportRow) {
    this.#before = before;
    this.#documents = documents;
    this.#send = send;
  }

  compare(after: Found | undefined): void {
    const { operation, isSent, subject } = this.#before;
    if (after === undefined) {
      if (isSent) this.#report('removed-sent', subject.split(' ', 1)[0]!);
      else this.#report(operation['deprecated'] === true ? 'removed-deprecated' : 'removed', 'operation');
      return;
    }
    this.#compareNames(after);
    if (isSent) return this.#compareSent(after);
    this.#compareParameters(after);
    this.#compareBody(after);
    this.#compareResponses(after);
    this.#compareSecurity(after);
  }

  #report(kind: keyof typeof CHANGES, ...details: string[]): void {
    const row: Row = CHANGES[kind];
    this.#judge(row, row[2](...details));
  }

  #judge(row: Row, message: string): void {
    const [level, , words] = row;
    const isMilder = this.#isOfError && level === 'breaking';
    this.#send(isMilder ? ['risky', 'clients that read errors may fail', words] : row, message);
  }

  #compareNames({ operation }: Found): void {
    const [was, is] = [text(this.#before.operation['operationId']), text(operation['operationId'])];
    if (was !== undefined && was !== is && !this.#before.isSent) this.#report('renamed', is ?? 'absent', was);
    if (operation['deprecated'] === true && this.#before.operation['deprecated'] !== true)
      this.#report('deprecated', 'the operation');
  }

  #compareParameters(after: Found): void {
    for (const [key, parameter] of after.parameters) {
      const what = `the ${key}`;
      const known = this.#before.parameters.get(key);
      if (parameter['required'] === true && known?.['required'] !== true)
        this.#report(known === undefined ? 'new-required' : 'required', what);
      if (known === undefined) continue;
      if (parameter['deprecated'] === true && known['deprecated'] !== true) this.#report('deprecated', what);
      if (styleOf(known) !== styleOf(parameter)) this.#report('written', what);
      this.#compareValues(SENT, what, asSent(known, parameter, this.#documents));
    }
    for (const key of this.#before.parameters.keys())
      if (!after.parameters.has(key)) this.#report('parameter-removed', `the ${key}`);
  }

  #compareBody({ body: next }: Found): void {
    const { body } = this.#before;
    if (next['required'] === true && body['required'] !== true)
      this.#report(body['content'] === undefined ? 'new-required' : 'required', 'the body');
    if (next['content'] !== undefined) this.#compareTaken('the body', body, next);
    else if (body['content'] !== undefined) this.#report('body-removed', 'the body');
  }

  #compareResponses(after: Found): void {
    for (const [status, response] of Object.entries(this.#before.responses)) {
      const isSuccess = status.startsWith('2');
      const what = `the response ${status}`;
      const later = isSuccess ? responseFor(status, after) : after.responses[status];
      if (later === undefined) this.#report(isSuccess ? 'success-gone' : 'error-gone', what);
      else {
        this.#isOfError = !isSuccess;
        this.#compareRead(what, response, later);
        this.#compareHeaders(what, response, later);
        this.#isOfError = false;
      }
    }
    // a document without errors, or with ranges of errors, leaves open which statuses there are
    const listsErrors = Object.keys(this.#before.responses).some((status) => !status.startsWith('2'));
    for (const status of Object.keys(after.responses)) {
      if (this.#before.responses[status] !== undefined) continue;
      if (status.startsWith('2')) this.#report('success-new', `the response ${status}`);
      else if (listsErrors && !status.endsWith('XX')) this.#report('error-new', `the response ${status}`);
    }
  }

  /** Compares a webhook or callback: a request that the application sends to another server. */
  #compareSent(after: Found): void {
    const { parameters, body } = this.#before;
    const next = after.body;
    for (const [key, parameter] of parameters) {
      const later = after.parameters.get(key);
      if (later === undefined) this.#report('no-longer-sent', `the ${key}`);
      else {
        this.#comparePresence(`the ${key}`, parameter, later);
        this.#compareValues(RECEIVED, `the ${key}`, [schemaOf(parameter), schemaOf(later)]);
      }
    }
    this.#compareRead('the body', body, next, 'type-sent');
    if (body['content'] !== undefined && next['content'] !== undefined)
      this.#comparePresence('the body', body, next);
    for (const [status, response] of Object.entries(this.#before.responses)) {
      if (!status.startsWith('2')) continue;
      const later = responseFor(status, after);
      if (later === undefined) this.#report('no-longer-accepted', `the response ${status}`);
      else this.#compareTaken(`the response ${status}`, response, later);
    }
  }

  #comparePresence(what: string, before: JsonObject, after: JsonObject): void {
    if (before['required'] === true && after['required'] !== true) this.#report('absent', what);
  }

  /** Reports changes of a body that clients send, or of the response of a receiver. */
  #compareTaken(what: string, before: JsonObject, after: JsonObject): void {
    const [types, kept] = [contentOf(before), contentOf(after)];
    for (const [type, media] of Object.entries(types)) {
      const later = kept[type] ?? kept['*/*'];
      if (later === undefined) this.#report('type-refused', what, type);
      else this.#compareValues(SENT, what, [schemaOf(media), schemaOf(later)]);
    }
  }

  /** Reports changes of a response, or of the body of a webhook or callback. */
  #compareRead(
    what: string,
    before: JsonObject,
    after: JsonObject,
    added: 'type-new' | 'type-sent' = 'type-new',
  ): void {
    const [types, kept] = [contentOf(before), contentOf(after)];
    for (const [type, media] of Object.entries(types)) {
      if (kept[type] === undefined) this.#report('type-gone', what, type);
      else this.#compareValues(RECEIVED, what, [schemaOf(media), schemaOf(kept[type])]);
    }
    if (before['content'] === undefined || types['*/*'] !== undefined) return;
    for (const type of Object.keys(kept)) if (types[type] === undefined) this.#report(added, what, type);
  }

  #compareHeaders(response: string, before: JsonObject, after: JsonObject): void {
    const [had, has] = [headersOf(before, this.#documents.earlier), headersOf(after, this.#documents.later)];
    for (const [name, header] of had) {
      const later = has.get(name);
      const what = `the header ${name} of ${response}`;
      if (later === undefined)
        this.#report(header['required'] === true ? 'required-header-gone' : 'header-gone', what);
      else {
        this.#comparePresence(what, header, later);
        this.#compareValues(RECEIVED, what, [schemaOf(header), schemaOf(later)]);
      }
    }
  }

  /** Reports the differences of a schema that a table judges. */
  #compareValues(
    rows: typeof SENT,
    what: string,
    [before, after]: readonly [before: JsonSchema, after: JsonSchema],
  ): void {
    const { earlier, later } = this.#documents;
    const isTurned = rows === RECEIVED;
    const name = isTurned || / (?:body|response)/.test(what) ? (path: string) => `'s ${path}` : String;
    compareSchemas(
      isTurned ? after : before,
      isTurned ? before : after,
      isTurned ? { earlier: later, later: earlier, isTurned } : this.#documents,
      (kind) => rows[kind]?.[0] === 'breaking',
      (path, kind, details) => {
        const row = rows[kind];
        if (row !== undefined)
          this.#judge(row, `${what}${path === '' ? '' : name(path)} ${row[2](...details)}`);
      },
    );
  }

  /** Reports credentials that are sufficient in the earlier document, but not in the later one. */
  #compareSecurity({ alternatives, operation }: Found): void {
    for (const had of this.#before.alternatives) {
      const lacking = alternatives
        .map((needs) => [...needs.difference(had)])
        .sort((left, right) => left.length - right.length)[0]!;
      if (lacking.length > 0) this.#report('credentials', lacking.join(' and '));
    }
    const [known, next] = [demandsOf(this.#before.operation), demandsOf(operation)];
    for (const scope of next.scopes.difference(known.scopes))
      this.#report('credentials', `the scope ${scope}`);
    const what =
      known.roles.length === 0 ? 'no role was required before' : 'other roles were sufficient before';
    for (const roles of next.roles)
      if (!known.roles.some((had) => had.isSubsetOf(roles)))
        this.#report('credentials', `the role ${[...roles].join(' or ')}: ${what}`);
  }
}

/** Returns the content of a body or response by media type, without the parameters of the types. */
function contentOf(body: JsonObject): Readonly<Record<string, unknown>> {
  const entries = Object.entries(record(body['content']));
  return Object.fromEntries(
    entries.map(([type, media]) => [type.split(';', 1)[0]!.trim().toLowerCase(), media]),
  );
}

/** Returns header fields of a response by name in lower case. */
function headersOf(response: JsonObject, resolved: Documents['earlier']): ReadonlyMap<string, JsonObject> {
  const headers = Object.entries(record(response['headers']));
  return new Map(headers.map(([name, header]) => [name.toLowerCase(), resolved(record(header))]));
}

/** How a list or an object is written as a parameter (OpenAPI 3.1 §4.8.12.2). */
function styleOf(parameter: JsonObject): string {
  const place = String(parameter['in']);
  const style = parameter['style'] ?? (place === 'query' || place === 'cookie' ? 'form' : 'simple');
  return `${String(style)} ${String(parameter['explode'] ?? style === 'form')}`;
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
