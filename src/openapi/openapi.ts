/**
 * Generates the OpenAPI 3.1 document of an application from its routes, schemas and guards.
 *
 * The document has one operation for each method of a route. The option `meta: { openapi: { ... } }` of a
 * route adds or overrides members of its operations. The document omits routes of the framework such as
 * `/docs`, static files, and routes with `meta: { docs: false }`.
 */
import {
  defined,
  given,
  isRecord,
  outOfRange,
  readOptions,
  shown,
  text,
  withoutNulls,
} from '../base/options.ts';
import { JsonSchemas } from '../schema/json-schema.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { pathParameter, requestBody, sentItem, textParameters, undescribedParts } from './inputs.ts';
import { ResponseWriter } from './documented-responses.ts';
import { describeSecurity, SecurityWriter } from './security.ts';
import { encodeLiteral, takesRest, variantsOf } from '../http/path.ts';
import { SENT_REQUESTS, readSentRequest } from '../routing/spec.ts';
import { planSent } from '../routing/steps.ts';
import type {
  Contact,
  DocumentedMethod,
  DocumentedServer,
  License,
  OpenApiDocument,
  Operation,
  Parameter,
  PathItem,
  SentItem,
} from './document.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { RouteSpec, SentRequest } from '../routing/spec.ts';
import type { Middleware } from '../http/contracts.ts';
import type { ParsedTemplate } from '../http/path.ts';

/**
 * Members of a document that describe the application as a whole. An option that is `undefined` has its
 * default.
 */
export interface OpenApiOptions {
  /** Purpose of the interface, as Markdown. */
  readonly description?: string | undefined;
  /** Purpose of the interface in one line. */
  readonly summary?: string | undefined;
  /** URL of the terms of service. */
  readonly termsOfService?: string | undefined;
  /** Whom readers of the document may ask. */
  readonly contact?: Contact | undefined;
  /** License of the API. */
  readonly license?: License | undefined;
  /** Addresses of the application. Default: the server from which the document was loaded. */
  readonly servers?: readonly DocumentedServer[] | undefined;
  /** Descriptions of tags, by tag name. These tags come first, in this order. */
  readonly tags?: Readonly<Record<string, string>> | undefined;
  /** Webhooks by name: requests that the application sends to servers that have subscribed to them. */
  readonly webhooks?: Readonly<Record<string, SentRequest>> | undefined;
}

export function readOpenApiOptions(options: OpenApiOptions): OpenApiOptions {
  const read = readOptions('openapi', options, {
    description: text(),
    summary: text(),
    termsOfService: text(),
    contact: given<Contact>('{ name, url, email }', isRecord),
    license: given<License>('{ name, identifier or url }', isRecord),
    servers: given<readonly DocumentedServer[]>(
      'a list of { url, description }, at least one',
      (value) => Array.isArray(value) && value.length > 0 && value.every(isServer),
    ),
    tags: given<Readonly<Record<string, string>>>(
      'an object: descriptions by tag',
      (value) => isRecord(value) && Object.values(value as object).every((each) => typeof each === 'string'),
    ),
    webhooks: SENT_REQUESTS,
  });
  return {
    ...read,
    contact:
      read.contact &&
      defined(readOptions('openapi.contact', read.contact, { name: text(), url: text(), email: text() })),
    license: read.license && readLicense(read.license),
    webhooks: read.webhooks && readWebhooks(read.webhooks),
  };
}

function readLicense(license: License): License {
  const read = readOptions('openapi.license', license, { name: text(), identifier: text(), url: text() });
  const { name, identifier, url } = read;
  if (name !== undefined && (identifier === undefined || url === undefined))
    return defined({ ...read, name });
  throw outOfRange(
    'openapi',
    'license',
    'must have "name", and at most one of "identifier" and "url"',
    shown(license),
  );
}

/** Validates webhooks and compiles their schemas, so that an invalid schema prevents the start. */
function readWebhooks(
  webhooks: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): NonNullable<OpenApiOptions['webhooks']> {
  return Object.fromEntries(
    Object.entries(webhooks).map(([name, given]) => {
      const webhook = readSentRequest(`webhook ${name}`, given);
      planSent(webhook, `webhook ${name}`);
      return [name, webhook];
    }),
  );
}

function isServer(value: unknown): boolean {
  return (
    isRecord(value) &&
    typeof (value as Partial<DocumentedServer>).url === 'string' &&
    Object.keys(value as object).every((key) => key === 'url' || key === 'description')
  );
}

/** A part of the application that the document leaves out or changes. */
interface OpenApiFinding {
  /** The route, such as `GET /users/{name}`. */
  readonly subject: string;
  readonly message: string;
  readonly detail: RouteDetail;
}

const METHODS: ReadonlySet<string> = new Set(['get', 'put', 'post', 'delete', 'patch', 'trace']);

/** Returns the OpenAPI document of a compiled application. Its title and version come from the settings. */
export function openapiDocument(view: CompilationView, options: OpenApiOptions = {}): OpenApiDocument {
  return new DocumentWriter(view, options).document();
}

export function openapiFindings(view: CompilationView): readonly OpenApiFinding[] {
  const writer = new DocumentWriter(view, {});
  writer.document();
  return writer.problems;
}

type Sections = Record<string, Record<string, unknown>>;

interface Path {
  readonly names: readonly string[];
  readonly documented: string;
  readonly byMethod: Map<DocumentedMethod, RouteDetail>;
}

class DocumentWriter {
  readonly problems: OpenApiFinding[] = [];
  readonly #view: CompilationView;
  readonly #options: OpenApiOptions;
  readonly #schemas = new JsonSchemas({ isOpenApi: true });
  readonly #responses: ResponseWriter;
  readonly #security: SecurityWriter;
  readonly #brought: Sections = {};
  readonly #ids = new Set<string>();
  /** For each item of `#schemas.named`, the first route that uses this schema. */
  readonly #firstRoutes: RouteDetail[] = [];

  constructor(view: CompilationView, options: OpenApiOptions) {
    this.#view = view;
    this.#options = options;
    this.#responses = new ResponseWriter(this.#schemas, view.handlers);
    this.#security = new SecurityWriter(view);
  }

  document(): OpenApiDocument {
    const { servers = [{ url: '/' }], tags: _, webhooks = {}, ...about } = this.#options;
    const grouped = this.#group(this.#view.details.filter(isDocumented).flatMap(withoutOptional));
    const details = [...grouped.values()].flatMap(({ byMethod }) => [...byMethod.values()]);
    const ids = this.#operationIds(details);
    const paths: Record<string, PathItem> = {};
    for (const path of grouped.values()) {
      const operations = [...path.byMethod].map(([method, detail]) => [
        method,
        this.#operation(detail, path, ids.get(detail)!),
      ]);
      paths[path.documented] = Object.fromEntries(operations);
    }
    const sent = Object.entries(webhooks).map(
      ([name, webhook]) => [name, this.#sent(name, webhook, identifier(name))] as const,
    );
    return {
      openapi: '3.1.1',
      info: defined({
        title: this.#setting('title', 'svc'),
        version: this.#setting('version', '1.0.0'),
        ...about,
      }),
      servers,
      tags: this.#tags(details),
      paths,
      ...(sent.length === 0 ? {} : { webhooks: Object.fromEntries(sent) }),
      components: this.#components(Object.values(paths).flatMap((item) => Object.values(item))),
    };
  }

  #setting(key: string, fallback: string): string {
    const value = this.#view.config(key);
    return typeof value === 'string' ? value : fallback;
  }

  /**
   * Groups routes by path. OpenAPI treats two paths as equal if only their parameter names differ. If several
   * routes have such paths, only the route that the router tries first is documented.
   */
  #group(details: readonly RouteDetail[]): ReadonlyMap<string, Path> {
    const paths = new Map<string, Path>();
    for (const detail of details) {
      const { template } = detail.declared;
      const shape = documentedPath(template);
      const method = detail.route.method.toLowerCase() as DocumentedMethod;
      const names = template.parameters.map((parameter) => parameter.name);
      const path = paths.get(shape) ?? {
        names,
        documented: documentedPath(template, names),
        byMethod: new Map<DocumentedMethod, RouteDetail>(),
      };
      paths.set(shape, path);
      const known = path.byMethod.get(method);
      const [stays, goes] =
        known !== undefined && rankOf(detail) >= rankOf(known) ? [known, detail] : [detail, known];
      path.byMethod.set(method, stays);
      if (goes !== undefined)
        this.#report(
          goes,
          `OpenAPI has one path for this route and for ${stays.route.method} ${stays.route.template}, so the document leaves out this route`,
        );
    }
    return paths;
  }

  #operation(detail: RouteDetail, path: Path, operationId: string): Operation {
    const { route, declared, inputs } = detail;
    const { spec, template, use } = declared;
    const layers = [...this.#view.middleware, ...use];
    const parameters = [
      ...template.parameters.map((parameter, index) =>
        pathParameter(parameter, path.names[index]!, inputs.texts, this.#schemas),
      ),
      ...textParameters(inputs.texts, this.#schemas),
      ...idempotencyKey(detail, layers),
    ];
    const body = requestBody(inputs, this.#schemas);
    const operation: Operation = {
      operationId,
      tags: tagsOf(detail),
      summary: spec.summary ?? titleOf(detail),
      description: describe(detail),
      ...((spec.deprecated ?? false) !== false ? { deprecated: true } : {}),
      ...(parameters.length === 0 ? {} : { parameters }),
      ...(body === undefined ? {} : { requestBody: body }),
      responses: this.#responses.of(detail, this.#view.middleware),
      security: this.#security.alternatives(detail),
      ...this.#callbacks(spec, operationId),
      ...demandsOf(detail),
    };
    while (this.#firstRoutes.length < this.#schemas.named.size) this.#firstRoutes.push(detail);
    const own = route.meta['openapi'];
    return own === undefined ? operation : this.#laidOver(operation, own, detail);
  }

  /** Returns unique operation ids. Routes with a name get theirs first. */
  #operationIds(details: readonly RouteDetail[]): ReadonlyMap<RouteDetail, string> {
    const isUnnamed = ({ route }: RouteDetail): number => Number(route.name === undefined);
    const ordered = details.toSorted((one, other) => isUnnamed(one) - isUnnamed(other));
    return new Map(ordered.map((detail) => [detail, uniqueName(wantedId(detail), this.#ids)]));
  }

  #callbacks({ callbacks }: RouteSpec, operationId: string): Pick<Operation, 'callbacks'> {
    if (callbacks === undefined) return {};
    const items = Object.entries(callbacks).map(
      ([name, { url, ...sent }]) =>
        [name, { [url]: this.#sent(name, sent, operationId + capitals(name)) }] as const,
    );
    return { callbacks: Object.fromEntries(items) };
  }

  #sent(name: string, sent: SentRequest, wanted: string): SentItem {
    return sentItem(name, sent, uniqueName(wanted, this.#ids), this.#schemas);
  }

  /**
   * Merges `meta.openapi` of a route into its operation. Responses are merged by status (null removes one); errors
   * keep their content if no other is given. Parameters are merged by `in` and name, other members by name.
   */
  #laidOver(operation: Operation, own: unknown, detail: RouteDetail): Operation {
    if (!isRecord(own)) {
      this.#report(detail, 'meta.openapi of the route must be an object');
      return operation;
    }
    const { components, responses, parameters, ...rest } = own;
    if (isRecord(components)) {
      for (const [section, parts] of Object.entries(components))
        if (isRecord(parts)) this.#brought[section] = { ...this.#brought[section], ...parts };
    }
    const laid: Record<string, unknown> = { ...operation, ...rest };
    if (isRecord(responses)) {
      const given = Object.entries(responses).map(
        ([status, response]) =>
          [status, this.#responses.filled(status, response, operation.responses)] as const,
      );
      laid['responses'] = withoutNulls({ ...operation.responses, ...Object.fromEntries(given) });
    }
    if (Array.isArray(parameters))
      laid['parameters'] = mergedParameters(operation.parameters ?? [], parameters as readonly Parameter[]);
    // the cast may be wrong: the author of `meta.openapi` is responsible for its types
    return laid as unknown as Operation;
  }

  #tags(details: readonly RouteDetail[]): OpenApiDocument['tags'] {
    const given = this.#options.tags ?? {};
    const uses = details.flatMap((detail) => tagsOf(detail).map((tag) => ({ tag, detail })));
    const byTag = Map.groupBy(uses, ({ tag }) => tag);
    return [...new Set([...Object.keys(given), ...byTag.keys()])].flatMap((name) => {
      const templates = byTag.get(name)?.map(({ detail }) => detail.route.template);
      if (templates === undefined) return [];
      return [{ name, description: given[name] ?? `Operations under ${commonPath(templates)}` }];
    });
  }

  #components(operations: readonly Operation[]): OpenApiDocument['components'] {
    const brought = this.#brought['schemas'] ?? {};
    const own = this.#schemas.components(new Set(Object.keys(brought)));
    [...this.#schemas.named.keys()].forEach((key, index) => {
      const renamed = this.#schemas.renamed.get(key);
      const firstRoute = this.#firstRoutes[index]; // undefined if only a webhook uses the schema
      if (renamed !== undefined && firstRoute !== undefined)
        this.#report(
          firstRoute,
          `the schema ${renamed.wanted} of this route is called ${renamed.name} in the document, because another schema is called ${renamed.wanted}`,
        );
    });
    const taken = new Set([...Object.keys(own), ...Object.keys(brought)]);
    const shared = this.#responses.components(operations, uniqueName('Problem', taken));
    const sections: Sections = {
      schemas: { ...own, ...shared.schemas },
      responses: shared.responses,
      headers: shared.headers,
      securitySchemes: { ...this.#security.components() },
    };
    for (const [section, parts] of Object.entries(this.#brought))
      sections[section] = { ...sections[section], ...parts };
    return Object.fromEntries(
      Object.entries(sections).filter(([, parts]) => Object.keys(parts).length > 0),
    ) as OpenApiDocument['components'];
  }

  #report(detail: RouteDetail, message: string): void {
    this.problems.push({ subject: `${detail.route.method} ${detail.route.template}`, message, detail });
  }
}

function isDocumented({ route, declared, isOperation }: RouteDetail): boolean {
  return (
    !isOperation &&
    declared.mount === undefined &&
    route.meta['docs'] !== false &&
    METHODS.has(route.method.toLowerCase())
  );
}

/** Returns the rank of a route as text. The router tries routes with a lower rank first. */
function rankOf({ declared: { template } }: RouteDetail): string {
  return template.parameters.map(({ converter }) => converter.rank).join('');
}

/**
 * Returns the description of a route, followed by sentences about its credentials, its rate limit and the parts
 * that the document cannot describe.
 */
function describe(detail: RouteDetail): string {
  const { route, declared } = detail;
  const { spec } = declared;
  const { description = '' } = spec;
  const undescribed = undescribedParts(detail);
  const facts = [
    spec.description === undefined || route.security.length > 0 ? describeSecurity(route.security) : '',
    typeof route.rateLimit === 'object'
      ? `A client may call it ${route.rateLimit.perMinute} times a minute.`
      : '',
    undescribed.length > 0
      ? `This document does not describe ${undescribed.join(' and ')}, whose schema has no JSON Schema.`
      : '',
  ];
  return [description, facts.filter(Boolean).join(' ')].filter(Boolean).join('\n\n');
}

/**
 * Returns the required scopes and roles as the extension `x-svc-requires`, because OpenAPI has scopes only
 * for OAuth schemes.
 */
function demandsOf({ route }: RouteDetail): Pick<Operation, 'x-svc-requires'> {
  const demands = route.security
    .filter(({ scopes, roles }) => scopes.length > 0 || roles.length > 0)
    .map(({ scheme, scopes, roles }) => ({ scheme, scopes, roles }));
  return demands.length === 0 ? {} : { 'x-svc-requires': demands };
}

/** Returns the header parameter for the idempotency key, if IdempotencyMiddleware covers the route. */
function idempotencyKey({ route }: RouteDetail, layers: readonly Middleware[]): Parameter[] {
  const layer = layers.find((candidate) => candidate instanceof IdempotencyMiddleware);
  if (layer === undefined || !layer.covers(route)) return [];
  return [
    {
      name: layer.header,
      in: 'header',
      ...(layer.isRequired ? { required: true } : {}),
      description:
        'A string of your choice, in quotation marks. The server executes repeated requests with the same string only once',
      schema: { type: 'string', pattern: '^"[ !#-\\[\\]-~]{1,255}"$' },
      example: '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
    },
  ];
}

function mergedParameters(derived: readonly Parameter[], own: readonly Parameter[]): readonly Parameter[] {
  const keyOf = (parameter: Parameter): string => `${parameter.in} ${parameter.name}`;
  return [...new Map([...derived, ...own].map((parameter) => [keyOf(parameter), parameter])).values()];
}

/**
 * Returns a route as it is documented, because OpenAPI has no optional path parameters. `/dav/{rest:path?}` becomes
 * `/dav` and `/dav/{rest}`; the document leaves out `/dav/`, which is equal to `/dav`.
 */
function withoutOptional(detail: RouteDetail): readonly RouteDetail[] {
  const variants = variantsOf(detail.declared.template);
  const documented = variants.filter((_, index) => variants.length < 3 || index !== 1);
  return documented.map((template) =>
    template === detail.declared.template
      ? detail
      : { ...detail, declared: { ...detail.declared, template } },
  );
}

/**
 * Returns the path of a route, with encoded literals and the given parameter names. Without names, it returns
 * a key such as `/users/{}`. OpenAPI treats paths with the same key as equal (OpenAPI 3.1 §4.8.8).
 */
function documentedPath({ literals, parameters }: ParsedTemplate, names: readonly string[] = []): string {
  const parts = literals.map((literal, index) => {
    const parameter = index < parameters.length ? `{${names[index] ?? ''}}` : '';
    return encodeLiteral(literal) + parameter;
  });
  return parts.join('');
}

/** Returns the name, followed by a number if the name is taken. Adds the result to `taken`. */
export function uniqueName(wanted: string, taken: Set<string>, separator = ''): string {
  let name = wanted;
  for (let n = 2; taken.has(name); n++) name = `${wanted}${separator}${n}`;
  taken.add(name);
  return name;
}

/** Replaces characters that would need escaping in a URL, because links to an operation contain its id. */
function identifier(name: string): string {
  return name.replace(/[^A-Za-z0-9._~-]+/g, '_');
}

/**
 * Returns the id that an operation should have: the route's name, or else one made from method and path, such as
 * `getNotesById` for `GET /notes/{id}`.
 */
function wantedId({ route, declared: { methods, template } }: RouteDetail): string {
  const method = route.method.toLowerCase();
  if (route.name !== undefined) {
    const last = template.template === route.template ? undefined : template.parameters.at(-1);
    const suffix = last !== undefined && takesRest(last) ? `By${capitals(last.name)}` : '';
    return (methods.length === 1 ? identifier(route.name) : method + capitals(route.name)) + suffix;
  }
  const parts = template.literals.map((literal, index) => {
    const parameter = template.parameters[index];
    return capitals(literal) + (parameter === undefined ? '' : `By${capitals(parameter.name)}`);
  });
  return method + (parts.join('') || 'Root');
}

/** Returns `/api/note-books` as `ApiNoteBooks`. */
function capitals(text: string): string {
  return text
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

/**
 * Converts the name of a route to a title: `createUser` and `create_user` become `Create user`. A route
 * without a name gets its method and path.
 */
function titleOf({ route, declared }: RouteDetail): string {
  if (route.name === undefined)
    return `${route.method} ${declared.template.template.replace(/:[a-z]+\}/g, '}')}`;
  const words = route.name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/[_.\s-]+/g, ' ')
    .trim()
    .toLowerCase();
  return words === '' ? route.name : words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Returns the tags of a route, without duplicates. Default: the first literal segment of its path, except
 * `api` and versions such as `v1`.
 */
function tagsOf({ declared: { tags, template } }: RouteDetail): readonly string[] {
  if (tags.length > 0) return [...new Set(tags)];
  const words = template.template.split('/').filter((word) => word !== '' && !word.startsWith('{'));
  return [words.find((word) => word !== 'api' && !/^v\d+$/.test(word)) ?? words[0] ?? 'root'];
}

/** Returns the longest path without parameters with which all templates begin. */
function commonPath(templates: readonly string[]): string {
  const [first = [], ...others] = templates.map((template) => template.split('/'));
  const end = first.findIndex(
    (segment, index) => segment.startsWith('{') || others.some((other) => other[index] !== segment),
  );
  return first.slice(0, end === -1 ? undefined : end).join('/') || '/';
}
