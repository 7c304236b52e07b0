/**
 * Converts an OpenAPI 3.1 document to the data for the docs page: operations under their tags, with merged
 * parameters and resolved references.
 */

import { uniqueName } from '../openapi.ts';
import { callbacksOf, list, operationsOf, record, resolve, text } from '../reader.ts';
import type { JsonObject, ReadOperation } from '../reader.ts';

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly isRequired: boolean;
  readonly isDeprecated: boolean;
  readonly description: string | undefined;
  readonly schema: unknown;
  readonly examples: readonly Example[];
}

export interface Example {
  readonly name: string | undefined;
  readonly value: unknown;
}

/** Content of a request body or response in one media type. */
export interface MediaContent {
  readonly type: string;
  readonly schema: unknown;
  readonly examples: readonly Example[];
  /** Media types of form fields, by field name. */
  readonly fieldTypes: ReadonlyMap<string, string>;
}

export interface RequestBody {
  readonly isRequired: boolean;
  readonly description: string | undefined;
  readonly contents: readonly MediaContent[];
}

export interface DocumentedResponse {
  /** A status code (`200`), a range of statuses (`4XX`), or `default`. */
  readonly status: string;
  readonly description: string;
  readonly contents: readonly MediaContent[];
  readonly headers: readonly (readonly [name: string, description: string | undefined, schema: unknown])[];
}

/** A callback: a request that the application sends to a URL from an earlier request of the client. */
export interface Callback {
  readonly name: string;
  readonly method: string;
  /** Expression for the callback's URL, such as `{$request.body#/url}`. */
  readonly expression: string;
  readonly body: RequestBody | undefined;
}

export interface Operation {
  /** Unique id of the operation's HTML element, the target of links. */
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string | undefined;
  readonly description: string | undefined;
  readonly isDeprecated: boolean;
  readonly parameters: readonly Parameter[];
  readonly body: RequestBody | undefined;
  readonly responses: readonly DocumentedResponse[];
  readonly callbacks: readonly Callback[];
  /** True for webhooks: the application sends them, so the page has no form for calls. */
  readonly isWebhook: boolean;
  readonly security: ReadOperation['security'];
  /** Whether each security alternative has credentials, apart from a CSRF token: the page gets this token by itself. */
  readonly isProtected: boolean;
}

export interface Section {
  readonly id: string;
  readonly name: string;
  readonly description: string | undefined;
  readonly operations: readonly Operation[];
}

export interface NamedSchema {
  readonly id: string;
  readonly name: string;
  readonly schema: unknown;
}

export interface ReadDocument {
  readonly root: JsonObject;
  readonly title: string;
  readonly version: string;
  readonly summary: string | undefined;
  readonly description: string | undefined;
  readonly servers: readonly { readonly url: string; readonly description: string | undefined }[];
  /** Links about the application: licence, contact, external documentation. */
  readonly links: readonly (readonly [text: string, url: string])[];
  /** Name of a licence without an address, such as `MIT`. */
  readonly license: string | undefined;
  readonly email: string | undefined;
  readonly sections: readonly Section[];
  readonly schemas: ReadonlyMap<string, NamedSchema>;
  readonly operationCount: number;
  readonly hasSecurity: boolean;
  /** Descriptions of security schemes, by the name of the scheme. */
  readonly schemes: readonly (readonly [name: string, description: string])[];
}

/** Reads an OpenAPI document that any tool may have written. Never throws. */
export function readDocument(document: object): ReadDocument {
  const root = document as JsonObject;
  const info = record(root['info']);
  const ids = new Ids();
  const sections = sectionsOf(root, ids);
  const hooks = webhooksOf(root, ids);
  const named = Object.entries(record(record(root['components'])['schemas']));
  const schemes = record(record(root['components'])['securitySchemes']);
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
    license: licenseOf(record(info['license'])),
    email: /^[\w.+-]+@[\w.-]+$/.exec(text(record(info['contact'])['email']) ?? '')?.[0],
    schemas: new Map(named.map(([name, schema]) => [name, { id: ids.of(`schema-${name}`), name, schema }])),
    operationCount: sections.reduce((sum, { operations }) => sum + operations.length, 0),
    hasSecurity: Object.values(schemes).some((scheme) => !isCsrf(resolve(root, scheme))),
    schemes: Object.entries(schemes).flatMap(([name, scheme]) => {
      const description = text(resolve(root, scheme)['description']);
      return description === undefined ? [] : [[name, description] as const];
    }),
  };
}

/**
 * Makes unique ids for HTML elements. Ids have no spaces, which HTML forbids. Ids that start with a colon are
 * reserved for the page's script.
 */
class Ids {
  /** Ids that the page itself uses. */
  readonly #taken = new Set([
    '',
    ...'authorize count main menu nav none say schemas search theme top'.split(' '),
  ]);

  of(wanted: string): string {
    return uniqueName(wanted.replace(/\s+/g, '-').replace(/^:/, '-:'), this.#taken, '-');
  }
}

/**
 * Groups operations by tag: first operations without a tag, then the document's list of tags, then other
 * tags.
 */
function sectionsOf(root: JsonObject, ids: Ids): Section[] {
  const described = new Map(
    list(root['tags']).map((tag) => [text(record(tag)['name']) ?? '', text(record(tag)['description'])]),
  );
  const tagged = Object.entries(record(root['paths'])).flatMap(([path, item]) =>
    operationsOf(root, item).map((read) => ({
      tag: text(list(read.operation['tags'])[0]) ?? '',
      operation: operationOf(root, path, read, ids),
    })),
  );
  const byTag = Map.groupBy(tagged, ({ tag }) => tag);
  return [...new Set(['', ...described.keys(), ...byTag.keys()])].flatMap((name) => {
    const operations = byTag.get(name)?.map(({ operation }) => operation);
    if (operations === undefined) return [];
    const id = ids.of(name === '' ? 'operations' : `tag/${name}`);
    return [{ id, name: name === '' ? 'Operations' : name, description: described.get(name), operations }];
  });
}

function webhooksOf(root: JsonObject, ids: Ids): Section | undefined {
  const operations = Object.entries(record(root['webhooks'])).flatMap(([name, item]) =>
    operationsOf(root, item).map((read) => ({ ...operationOf(root, name, read, ids), isWebhook: true })),
  );
  return operations.length === 0
    ? undefined
    : { id: ids.of('webhooks'), name: 'Webhooks', description: undefined, operations };
}

function operationOf(root: JsonObject, path: string, read: ReadOperation, ids: Ids): Operation {
  const { method, item, operation, security } = read;
  const schemes = record(record(root['components'])['securitySchemes']);
  const summary = text(operation['summary']) ?? text(item['summary']);
  return {
    id: ids.of(text(operation['operationId']) ?? `${method}${path.replace(/[^\w]+/g, '-')}`),
    method,
    path,
    // omits the summary if it only repeats the method and path
    summary: summary === `${method.toUpperCase()} ${path}` ? undefined : summary,
    description: text(operation['description']) ?? text(item['description']),
    isDeprecated: operation['deprecated'] === true,
    parameters: read.parameters.flatMap(parameterOf),
    body: bodyOf(read),
    responses: Object.entries(read.responses).map(([status, response]) => responseOf(root, status, response)),
    callbacks: callbacksOf(root, operation).flatMap(([name, expression, sent]) =>
      operationsOf(root, sent).map((request) => ({
        name,
        method: request.method,
        expression,
        body: bodyOf(request),
      })),
    ),
    isWebhook: false,
    security,
    isProtected:
      security.length > 0 &&
      security.every((alternative) => alternative.some(([name]) => !isCsrf(resolve(root, schemes[name])))),
  };
}

/** Whether a security scheme is the CSRF token of the application. */
function isCsrf({ in: place, name }: JsonObject): boolean {
  return place === 'header' && text(name)?.toLowerCase() === 'x-csrf-token';
}

/** Returns the parameter in a list, which is empty if `name` or `in` is missing. */
function parameterOf(parameter: JsonObject): Parameter[] {
  const [name, place] = [text(parameter['name']), text(parameter['in'])];
  if (name === undefined || place === undefined) return [];
  const [content] = contentsOf(parameter['content']);
  return [
    {
      name,
      in: place,
      isRequired: parameter['required'] === true,
      isDeprecated: parameter['deprecated'] === true,
      description: text(parameter['description']),
      schema: parameter['schema'] ?? content?.schema,
      examples: content?.examples ?? examplesOf(parameter),
    },
  ];
}

function bodyOf({ body }: ReadOperation): RequestBody | undefined {
  if (body === undefined) return undefined;
  return {
    isRequired: body['required'] === true,
    description: text(body['description']),
    contents: contentsOf(body['content']),
  };
}

function responseOf(root: JsonObject, status: string, response: JsonObject): DocumentedResponse {
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

/** Returns the single `example`, or all named `examples`. */
function examplesOf(owner: JsonObject): readonly Example[] {
  if (owner['example'] !== undefined) return [{ name: undefined, value: owner['example'] }];
  return Object.entries(record(owner['examples'])).flatMap(([name, example]) => {
    const { summary, value } = record(example);
    return value === undefined ? [] : [{ name: text(summary) ?? name, value }];
  });
}

function licenseOf({ name, identifier, url }: JsonObject): string | undefined {
  if (text(url) !== undefined) return undefined;
  const [title, spdx] = [text(name), text(identifier)];
  return title === undefined || spdx === undefined || title === spdx ? (title ?? spdx) : `${title} (${spdx})`;
}

/**
 * Returns links of the document. Only http and https URLs become links, because a document of another tool
 * may have `javascript:` URLs.
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
