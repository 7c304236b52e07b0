/**
 * Converts an OpenAPI 3.1 document into the model of the docs page: operations under their tags, with merged
 * parameters and resolved references.
 *
 * Accepts any document, also one made by another tool: missing members and members of another type are
 * ignored.
 */

/** A JSON object. */
export type JsonObject = { readonly [key: string]: unknown };

/** A parameter of an operation. */
export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly isRequired: boolean;
  readonly isDeprecated: boolean;
  readonly description: string | undefined;
  readonly schema: unknown;
  readonly examples: readonly Example[];
}

/** An example, which may have a name. */
export interface Example {
  readonly name: string | undefined;
  readonly value: unknown;
}

/** Content of a body or response in one media type. */
export interface MediaContent {
  readonly type: string;
  readonly schema: unknown;
  readonly examples: readonly Example[];
  /** Media types of the fields of a form, by name. */
  readonly fieldTypes: ReadonlyMap<string, string>;
}

/** The body of a request. */
export interface RequestBody {
  readonly isRequired: boolean;
  readonly description: string | undefined;
  readonly contents: readonly MediaContent[];
}

/** A response of an operation. */
export interface DocumentedResponse {
  /** Status code, range or key: `200`, `4XX` or `default`. */
  readonly status: string;
  readonly description: string;
  readonly contents: readonly MediaContent[];
  readonly headers: readonly (readonly [name: string, description: string | undefined, schema: unknown])[];
}

/** A callback request that the application sends because of an operation. */
export interface Callback {
  readonly name: string;
  readonly method: string;
  /** Expression for the callback's URL, such as `{$request.body#/url}`. */
  readonly expression: string;
  readonly body: RequestBody | undefined;
}

/** One method of one path. */
export interface Operation {
  /** Id that links use; unique in the page. */
  readonly id: string;
  /** HTTP method in lower case. */
  readonly method: string;
  readonly path: string;
  readonly summary: string | undefined;
  readonly description: string | undefined;
  readonly isDeprecated: boolean;
  readonly parameters: readonly Parameter[];
  readonly body: RequestBody | undefined;
  readonly responses: readonly DocumentedResponse[];
  /** Requests that the application sends to a URL of the client. */
  readonly callbacks: readonly Callback[];
  /** True for webhooks and callbacks: the application sends them, so the page cannot try them. */
  readonly isWebhook: boolean;
  /** Security alternatives, each with its schemes and scopes. Empty: no credentials are needed. */
  readonly security: readonly (readonly (readonly [scheme: string, scopes: readonly string[]])[])[];
}

/** Operations of one tag. */
export interface Section {
  readonly id: string;
  readonly name: string;
  readonly description: string | undefined;
  readonly operations: readonly Operation[];
}

/** A named schema. */
export interface NamedSchema {
  readonly id: string;
  readonly name: string;
  readonly schema: unknown;
}

/** The model of the whole page. */
export interface ReadDocument {
  readonly root: JsonObject;
  readonly title: string;
  readonly version: string;
  readonly summary: string | undefined;
  readonly description: string | undefined;
  readonly servers: readonly { readonly url: string; readonly description: string | undefined }[];
  /** Links from the document: licence, contact, external documentation. */
  readonly links: readonly (readonly [text: string, url: string])[];
  readonly sections: readonly Section[];
  readonly schemas: ReadonlyMap<string, NamedSchema>;
  readonly operationCount: number;
  readonly hasSecurity: boolean;
}

const METHODS: ReadonlySet<string> = new Set([
  'get',
  'put',
  'post',
  'delete',
  'options',
  'head',
  'patch',
  'trace',
]);
/** Maximum number of references followed in a row. */
const MOST_HOPS = 16;

/** Reads a document. Never throws. */
export function readDocument(document: object): ReadDocument {
  const root = document as JsonObject;
  const info = record(root['info']);
  const ids = new Ids();
  const sections = sectionsOf(root, ids);
  const hooks = webhooksOf(root, ids);
  const named = Object.entries(record(record(root['components'])['schemas']));
  return {
    root,
    sections: hooks === undefined ? sections : [...sections, hooks],
    title: text(info['title']) ?? 'Interface',
    version: text(info['version']) ?? '',
    summary: text(info['summary']),
    description: text(info['description']),
    servers: list(root['servers'])
      .map(record)
      .map(({ url, description }) => ({ url: text(url) ?? '/', description: text(description) })),
    links: linksOf(root, info),
    schemas: new Map(named.map(([name, schema]) => [name, { id: ids.of(`schema-${name}`), name, schema }])),
    operationCount: sections.reduce((sum, { operations }) => sum + operations.length, 0),
    hasSecurity: Object.keys(record(record(root['components'])['securitySchemes'])).length > 0,
  };
}

/** Returns a JSON object, or an empty object for any other value. */
export function record(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** Returns a JSON array, or an empty array for any other value. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns a text that is not empty, or undefined. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns a value, with a `$ref` within the document resolved. */
export function resolve(root: JsonObject, value: unknown): JsonObject {
  let found = record(value);
  for (let hops = 0; hops < MOST_HOPS; hops++) {
    const ref = text(found['$ref']);
    if (ref === undefined) return found;
    found = record(target(root, ref));
  }
  return {};
}

/** Returns the member of the document that a reference names (RFC 6901). */
function target(root: JsonObject, ref: string): unknown {
  if (!ref.startsWith('#/')) return undefined;
  let found: unknown = root;
  for (const part of ref.slice(2).split('/')) {
    const key = unescaped(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as JsonObject)[key];
  }
  return found;
}

/** Returns the text with percent-encoding decoded, or unchanged if the encoding is invalid. */
export function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Makes unique ids without spaces, which HTML forbids. None starts with a colon, because the script of the
 * page uses such ids.
 */
class Ids {
  /** Ids that the page itself uses. */
  readonly #taken = new Set([
    '',
    'authorize',
    'count',
    'main',
    'menu',
    'nav',
    'none',
    'say',
    'schemas',
    'search',
    'theme',
    'top',
  ]);

  of(wanted: string): string {
    const base = wanted.replace(/\s+/g, '-').replace(/^:/, '-:');
    let id = base;
    for (let number = 2; this.#taken.has(id); number++) id = `${base}-${number}`;
    this.#taken.add(id);
    return id;
  }
}

/**
 * Returns operations by tag, in the order of the document's tag list, then by first use. Untagged operations
 * come first.
 */
function sectionsOf(root: JsonObject, ids: Ids): Section[] {
  const described = new Map(
    list(root['tags']).map((tag) => [text(record(tag)['name']) ?? '', text(record(tag)['description'])]),
  );
  const byTag = new Map<string, Operation[]>([
    ['', []],
    ...[...described.keys()].map((name) => [name, []] as [string, Operation[]]),
  ]);
  for (const [path, entry] of Object.entries(record(root['paths']))) {
    const item = resolve(root, entry);
    for (const method of methodsIn(item)) {
      const declared = record(item[method]);
      const tag = text(list(declared['tags'])[0]) ?? '';
      const operations = byTag.get(tag) ?? [];
      byTag.set(tag, operations);
      operations.push(operationOf(root, { path, method, item, declared }, ids));
    }
  }
  return [...byTag]
    .filter(([, operations]) => operations.length > 0)
    .map(([name, operations]) => ({
      id: ids.of(name === '' ? 'operations' : `tag/${name}`),
      name: name === '' ? 'Operations' : name,
      description: described.get(name),
      operations,
    }));
}

/** Returns the webhooks as a section, or undefined if there are none. */
function webhooksOf(root: JsonObject, ids: Ids): Section | undefined {
  const operations = Object.entries(record(root['webhooks'])).flatMap(([path, entry]) => {
    const item = resolve(root, entry);
    return methodsIn(item).map((method) =>
      operationOf(root, { path, method, item, declared: record(item[method]), isWebhook: true }, ids),
    );
  });
  return operations.length === 0
    ? undefined
    : { id: ids.of('webhooks'), name: 'Webhooks', description: undefined, operations };
}

/** Returns the operations of a path item. */
function methodsIn(item: JsonObject): string[] {
  return Object.keys(item).filter(
    (method) => METHODS.has(method) && typeof item[method] === 'object' && item[method] !== null,
  );
}

function callbacksOf(root: JsonObject, declared: unknown): Callback[] {
  return Object.entries(record(declared)).flatMap(([name, callback]) =>
    Object.entries(resolve(root, callback)).flatMap(([expression, entry]) => {
      const item = resolve(root, entry);
      return methodsIn(item).map((method) => {
        const body = bodyOf(root, record(item[method])['requestBody']);
        return { name, method, expression, body };
      });
    }),
  );
}

interface Declared {
  readonly path: string;
  readonly method: string;
  readonly item: JsonObject;
  readonly declared: JsonObject;
  readonly isWebhook?: boolean;
}

function operationOf(
  root: JsonObject,
  { path, method, item, declared, isWebhook = false }: Declared,
  ids: Ids,
): Operation {
  const summary = text(declared['summary']) ?? text(item['summary']);
  return {
    id: ids.of(text(declared['operationId']) ?? `${method}${path.replace(/[^\w]+/g, '-')}`),
    method,
    path,
    // omits the summary if it only repeats the method and path
    summary: summary === `${method.toUpperCase()} ${path}` ? undefined : summary,
    description: text(declared['description']) ?? text(item['description']),
    isDeprecated: declared['deprecated'] === true,
    parameters: parametersOf(root, [...list(item['parameters']), ...list(declared['parameters'])]),
    body: bodyOf(root, declared['requestBody']),
    responses: Object.entries(record(declared['responses'])).map(([status, response]) =>
      responseOf(root, status, response),
    ),
    callbacks: callbacksOf(root, declared['callbacks']),
    isWebhook,
    security: list(declared['security'] ?? root['security']).map((alternative) =>
      Object.entries(record(alternative)).map(
        ([scheme, scopes]) => [scheme, list(scopes).map(String)] as const,
      ),
    ),
  };
}

/**
 * Merges parameters. Of several with one name and place, the last is used, so the operation's replace those
 * of its path.
 */
function parametersOf(root: JsonObject, declared: readonly unknown[]): Parameter[] {
  const byName = new Map<string, Parameter>();
  for (const entry of declared) {
    const parameter = resolve(root, entry);
    const [name, place] = [text(parameter['name']), text(parameter['in'])];
    if (name === undefined || place === undefined) continue;
    const [content] = contentsOf(parameter['content']);
    byName.set(`${place} ${name}`, {
      name,
      in: place,
      isRequired: parameter['required'] === true,
      isDeprecated: parameter['deprecated'] === true,
      description: text(parameter['description']),
      schema: parameter['schema'] ?? content?.schema,
      examples: content?.examples ?? examplesOf(parameter),
    });
  }
  return [...byName.values()];
}

function bodyOf(root: JsonObject, declared: unknown): RequestBody | undefined {
  if (declared === undefined) return undefined;
  const body = resolve(root, declared);
  return {
    isRequired: body['required'] === true,
    description: text(body['description']),
    contents: contentsOf(body['content']),
  };
}

function responseOf(root: JsonObject, status: string, declared: unknown): DocumentedResponse {
  const response = resolve(root, declared);
  return {
    status,
    description: text(response['description']) ?? '',
    contents: contentsOf(response['content']),
    headers: Object.entries(record(response['headers'])).map(([name, header]) => {
      const { description, schema } = resolve(root, header);
      return [name, text(description), schema] as const;
    }),
  };
}

function contentsOf(content: unknown): MediaContent[] {
  return Object.entries(record(content)).map(([type, media]) => ({
    type,
    schema: record(media)['schema'],
    examples: examplesOf(record(media)),
    fieldTypes: new Map(
      Object.entries(record(record(media)['encoding'])).flatMap(([name, encoding]) => {
        const contentType = text(record(encoding)['contentType']);
        return contentType === undefined ? [] : [[name, contentType] as const];
      }),
    ),
  }));
}

/** Returns one example, or several named ones. */
function examplesOf(owner: JsonObject): readonly Example[] {
  if (owner['example'] !== undefined) return [{ name: undefined, value: owner['example'] }];
  return Object.entries(record(owner['examples'])).flatMap(([name, example]) => {
    const { summary, value } = record(example);
    return value === undefined ? [] : [{ name: text(summary) ?? name, value }];
  });
}

/**
 * Returns links of the document. Only URLs that lead to a page become links; others, such as `javascript:`
 * URLs in a foreign document, stay text.
 */
function linksOf(root: JsonObject, info: JsonObject): [string, string][] {
  const [contact, license, external] = [
    record(info['contact']),
    record(info['license']),
    record(root['externalDocs']),
  ];
  const links: readonly (readonly [string, unknown])[] = [
    [text(external['description']) ?? 'Further documents', external['url']],
    ['Terms of service', info['termsOfService']],
    [text(contact['name']) ?? 'Contact', contact['url']],
    [text(license['name']) ?? 'Licence', license['url']],
  ];
  return links.flatMap(([name, url]): [string, string][] =>
    typeof url === 'string' && /^https?:$/.test(URL.parse(url)?.protocol ?? '') ? [[name, url]] : [],
  );
}
