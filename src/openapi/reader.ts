/**
 * Reads parts of an OpenAPI 3.1 document that any tool may have written. Never throws: a member of an
 * unexpected type counts as absent.
 */

export type JsonObject = { readonly [key: string]: unknown };

/** One method of a path item. References to parameters, body and responses are resolved. */
export interface ReadOperation {
  /** HTTP method in lower case. */
  readonly method: string;
  readonly item: JsonObject;
  readonly operation: JsonObject;
  /**
   * Parameters of the path item and the operation. If several have the same name and place, the last one is
   * used.
   */
  readonly parameters: readonly JsonObject[];
  readonly body: JsonObject | undefined;
  readonly responses: Readonly<Record<string, JsonObject>>;
  /**
   * Security alternatives; any one is sufficient. Each lists all schemes that it needs, with their scopes.
   * Empty if no credentials are needed.
   */
  readonly security: readonly (readonly (readonly [scheme: string, scopes: readonly string[]])[])[];
}

const METHODS: readonly string[] = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];
/** Maximum length of a chain of references. */
const MOST_HOPS = 16;
const COMPONENT = /^#\/components\/schemas\/([^/]+)$/;

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

/**
 * Returns the object to which a `$ref` in the document points (RFC 6901). A value without `$ref` is returned
 * unchanged.
 */
export function resolve(root: JsonObject, value: unknown): JsonObject {
  let found = record(value);
  for (let hops = 0; hops < MOST_HOPS; hops++) {
    const ref = text(found['$ref']);
    if (ref === undefined) return found;
    if (!ref.startsWith('#/')) return {};
    let target: unknown = root;
    for (const part of ref.slice(2).split('/')) {
      const key = unescaped(part);
      target = Object.hasOwn(record(target), key) ? record(target)[key] : undefined;
    }
    found = record(target);
  }
  return {};
}

/** Returns the name of the schema to which a reference points, or undefined for a reference to another part. */
export function schemaName(ref: string): string | undefined {
  const part = COMPONENT.exec(ref)?.[1];
  return part === undefined ? undefined : unescaped(part);
}

/** Returns the last segment of a reference, decoded. */
export function lastName(ref: string): string {
  return unescaped(ref.slice(ref.lastIndexOf('/') + 1));
}

/** Decodes one segment of a reference. Invalid percent-encoding stays as it is. */
function unescaped(segment: string): string {
  let decoded = segment;
  try {
    decoded = decodeURIComponent(segment);
  } catch {
    /* the percent-encoding is invalid, so the text is used unchanged */
  }
  return decoded.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Returns the operations of a path item, in the order of the document. */
export function operationsOf(root: JsonObject, given: unknown): readonly ReadOperation[] {
  const item = resolve(root, given);
  const methods = Object.keys(item).filter((key) => METHODS.includes(key) && item[key] === record(item[key]));
  return methods.map((method) => {
    const operation = record(item[method]);
    const parameters = [...list(item['parameters']), ...list(operation['parameters'])].map((parameter) =>
      resolve(root, parameter),
    );
    const byName = new Map(parameters.map((one) => [`${String(one['in'])} ${String(one['name'])}`, one]));
    const responses = Object.entries(record(operation['responses']));
    return {
      method,
      item,
      operation,
      parameters: [...byName.values()],
      body: operation['requestBody'] === undefined ? undefined : resolve(root, operation['requestBody']),
      responses: Object.fromEntries(responses.map(([status, one]) => [status, resolve(root, one)])),
      security: list(operation['security'] ?? root['security']).map((alternative) =>
        Object.entries(record(alternative)).map(
          ([name, scopes]) => [name, list(scopes).map(String)] as const,
        ),
      ),
    };
  });
}

/** Returns the callbacks of an operation: their name, the expression for their URL, and their path item. */
export function callbacksOf(
  root: JsonObject,
  operation: JsonObject,
): readonly (readonly [name: string, url: string, item: unknown])[] {
  return Object.entries(record(operation['callbacks'])).flatMap(([name, given]) =>
    Object.entries(resolve(root, given)).map(([url, item]) => [name, url, item] as const),
  );
}

/** Whether a schema describes bytes rather than text. */
export function isFile(schema: unknown): boolean {
  const { format, contentMediaType, contentEncoding } = record(schema);
  return (
    format === 'binary' ||
    (contentMediaType !== undefined &&
      contentEncoding === undefined &&
      contentMediaType !== 'application/json' &&
      !String(contentMediaType).startsWith('text/'))
  );
}

/**
 * Returns the schema for a field of a form. A field with its own media type, such as `text/csv`, is a file,
 * even if it contains text.
 */
export function formField(given: unknown): JsonObject {
  const schema = record(given);
  if (schema['items'] !== undefined) return { ...schema, items: formField(schema['items']) };
  const isPart = schema['contentMediaType'] !== undefined && schema['contentEncoding'] === undefined;
  return isPart ? { ...schema, format: 'binary' } : schema;
}

/** Returns the type that follows from the other keywords of a schema without `type`. */
export function impliedType(given: JsonObject): string {
  if (given['properties'] !== undefined || given['additionalProperties'] !== undefined) return 'object';
  if (given['items'] !== undefined || given['prefixItems'] !== undefined) return 'array';
  return isFile(given) ? 'string' : 'any';
}
