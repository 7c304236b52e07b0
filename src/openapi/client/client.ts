/**
 * Generates a TypeScript client from an OpenAPI document. The client is one file without imports. It has
 * types, a function for each operation, and a copy of runtime.ts.
 *
 * Use of a generated client:
 *   const api = createClient({ baseUrl: 'https://api.example.com', auth: { bearer: () => token } });
 *   const result = await api.readItem({ params: { id: 5 } });
 *   if (result.ok) show(result.data); else if (result.status === 410) ...
 *
 * Equal documents give equal clients, byte by byte.
 */
import { readFileSync } from 'node:fs';
import { packageRoot } from '../../base/package-root.ts';
import { uniqueName } from '../openapi.ts';
import { callbacksOf, formField, isFile, list, operationsOf, record, resolve, text } from '../reader.ts';
import { isJson, isJsonLines, isText } from './runtime.ts';
import { TypeWriter, comment, declared, key, union } from './types.ts';
import type { Place } from './types.ts';
import type { JsonObject, ReadOperation } from '../reader.ts';

const FORMS: ReadonlySet<string> = new Set(['multipart/form-data', 'application/x-www-form-urlencoded']);
/**
 * Place of a parameter in a request, and the name for this place in a call. For example, path parameters are
 * in `params`: `readItem({ params: { id: 5 } })`.
 */
const PLACES = [
  ['path', 'params'],
  ['query', 'query'],
  ['header', 'headers'],
  ['cookie', 'cookies'],
] as const;
/**
 * Names that the type of a schema cannot have, because TypeScript or the generated client uses them.
 * TypeWriter also gets the names that runtime.ts declares.
 */
const RESERVED = [
  'any bigint boolean never null number object string symbol undefined unknown void',
  'break case catch class const continue debugger default delete do else enum export extends false finally for function',
  'if implements import in instanceof interface let new package private protected public return static super switch this',
  'throw true try type typeof var while with yield async await',
  'AbortSignal Array AsyncGenerator AsyncIterable Awaited Blob Error Exclude Extract FormData Headers JSON Math NonNullable',
  'Object Parameters Promise ReadableStream Readonly Record RequestInit Response ReturnType String TextDecoder TextEncoder',
  'TypeError Callbacks Client ClientErrorStatus ClientOptions ErrorStatus InputOf OPERATIONS RESPONSES ResultOf SCHEMES SERVERS',
  'ServerErrorStatus Webhooks createClient',
].flatMap((names) => names.split(' '));
/** Matches the word `export` before declarations of runtime.ts that users of a client do not need. */
const PRIVATE =
  /^export (?=(?:function (?:functionsOf|isJson|isJsonLines|isText)|interface (?:Operation|Scheme))\b)/gm;

interface NamedOperation extends ReadOperation {
  readonly id: string;
  readonly path: string;
}

/** Returns the text of a client. `document` is an OpenAPI 3.1 document. */
export function clientText(document: object): string {
  const root = document as JsonObject;
  const runtime = readFileSync(new URL('src/openapi/client/runtime.ts', packageRoot()), 'utf8');
  const operations = readOperations(root);
  return new ClientWriter(root, operations, runtime).text();
}

class ClientWriter {
  readonly #root: JsonObject;
  readonly #operations: readonly NamedOperation[];
  readonly #runtime: string;
  readonly #types: TypeWriter;
  readonly #webhooks: readonly SentOperation[];
  /** Callbacks, by the id of the operation that declares them. */
  readonly #callbacks: readonly (readonly [id: string, sent: readonly SentOperation[]])[];

  constructor(root: JsonObject, operations: readonly NamedOperation[], runtime: string) {
    this.#root = root;
    this.#operations = operations;
    this.#runtime = runtime;
    this.#webhooks = readSent(root, record(root['webhooks']));
    this.#callbacks = operations.map(({ id, operation }) => [id, readCallbacks(root, operation)]);
    const own = [
      ...runtime.matchAll(/^(?:export )?(?:async )?(?:type|interface|class|function\*?|const) (\w+)/gm),
    ];
    this.#types = new TypeWriter(root, new Set([...RESERVED, ...own.map(([, name]) => name!)]), [
      ...operations.map(({ responses }) => responses),
      ...[...this.#webhooks, ...this.#callbacks.flatMap(([, sent]) => sent)].map(({ read }) => read.body),
    ]);
  }

  text(): string {
    const info = record(this.#root['info']);
    const title = [text(info['title']) ?? 'svc', text(info['version'])].filter((word) => word !== undefined);
    const parts = [
      comment(
        `Client of ${title.join(' ')}, written by \`svc openapi --client\`. Do not edit: write it again.`,
      ),
      this.#servers(),
      this.#types.declarations(),
      STATUSES,
      this.#client(),
      HELPERS,
      this.#receiving(),
      this.#options(),
      this.#table(),
      this.#runtime
        .replace(/^\/\*\*[^]*?\*\/\n/, '')
        .replace(PRIVATE, '')
        .trim(),
    ].filter((part) => part !== '');
    return `${parts.join('\n')}\n`;
  }

  #servers(): string {
    const urls = list(this.#root['servers']).flatMap((server) => text(record(server)['url']) ?? []);
    const absolute = urls.filter((url) => /^https?:/.test(url)).map((url) => JSON.stringify(url));
    return absolute.length === 0
      ? ''
      : `/** Addresses that the document names: one of them is the \`baseUrl\`. */\nexport const SERVERS = [${absolute.join(', ')}] as const;\n`;
  }

  #client(): string {
    const members = this.#operations.map((read) => {
      const { id, method, path, operation } = read;
      const about = [
        text(operation['summary']),
        text(operation['description']),
        `\`${method.toUpperCase()} ${path}\``,
        operation['deprecated'] === true ? '@deprecated' : undefined,
      ].filter((line) => line !== undefined);
      return `${comment(about.join('\n\n'), '  ')}  ${key(id)}(${this.#input(read)}, call?: CallOptions): Promise<${this.#result(read)}>;\n`;
    });
    return `/** A function for each operation. It rejects when no response arrives, and with {@link UnexpectedResponse}. */\nexport interface Client {\n${members.join('')}}\n`;
  }

  /** Returns types for code that receives the webhooks and callbacks of the application. */
  #receiving(): string {
    const members = (requests: readonly SentOperation[], indent: string): string =>
      requests.map((request) => this.#received(request, indent)).join('');
    const byOperation = this.#callbacks
      .filter(([, requests]) => requests.length > 0)
      .map(([id, requests]) => `  ${key(id)}: {\n${members(requests, '    ')}  };\n`);
    return [
      interfaceText(
        'Webhooks',
        'Requests that the application sends, by name, for the code that receives them.',
        members(this.#webhooks, '  '),
      ),
      interfaceText(
        'Callbacks',
        'Requests that the application sends because of an operation, by its name.',
        byOperation.join(''),
      ),
    ]
      .filter((part) => part !== '')
      .join('\n');
  }

  #received({ name, read: { operation, parameters, body } }: SentOperation, indent: string): string {
    const inner = `${indent}  `;
    const groups = PLACES.map(([place, group]) => {
      const lines = parameters
        .filter((parameter) => parameter['in'] === place)
        .map((parameter) => this.#parameter(parameter, inner, 'response'));
      return lines.length === 0 ? '' : `${inner}${group}: {\n${lines.join('')}${inner}};\n`;
    });
    const content = contentOf(body);
    const received =
      content === undefined
        ? ''
        : `${inner}body: ${this.#types.type(content[1]['schema'], 'response', inner)};\n`;
    return `${comment(text(operation['description']), indent)}${indent}${key(name)}: {\n${groups.join('')}${received}${indent}};\n`;
  }

  /** Returns the type of the first parameter of an operation's function. */
  #input({ parameters, body }: NamedOperation): string {
    const indent = '    ';
    const groups = PLACES.flatMap(([place, name]) => {
      const found = parameters.filter((parameter) => parameter['in'] === place);
      const isRequired = found.some((parameter) => parameter['required'] === true);
      const lines = found.map((parameter) => this.#parameter(parameter, indent));
      const type = `{\n${lines.join('')}${indent}}`;
      return found.length === 0 ? [] : [{ isRequired, member: declared(name, type, isRequired) }];
    });
    const content = contentOf(body);
    if (content !== undefined) {
      const [type, media] = content;
      const isRequired = body?.['required'] === true;
      const member = FORMS.has(type)
        ? declared('form', this.#form(media, indent), isRequired)
        : declared(
            'body',
            isJson(type) ? this.#types.type(media['schema'], 'request', indent) : 'RawBody',
            isRequired,
          );
      groups.push({ isRequired, member });
    }
    if (groups.length === 0) return 'input?: Record<string, never>';
    const isRequired = groups.some((group) => group.isRequired);
    return `input${isRequired ? '' : '?'}: {\n${groups.map(({ member }) => indent + member).join('')}  }`;
  }

  #parameter(parameter: JsonObject, indent: string, place: Place = 'parameter'): string {
    const [content] = Object.values(record(parameter['content']));
    const schema = record(parameter['schema'] ?? record(content)['schema']);
    const about = {
      description: parameter['description'] ?? schema['description'],
      deprecated: parameter['deprecated'],
    };
    const isRequired = parameter['required'] === true;
    return this.#types.member(String(parameter['name']), { ...schema, ...about }, isRequired, place, indent);
  }

  /** Returns the type of a form's fields. The type of a file is `Blob`. */
  #form(media: JsonObject, indent: string): string {
    const schema = resolve(this.#root, media['schema']);
    const required = new Set(list(schema['required']));
    const lines = Object.entries(record(schema['properties'])).map(([name, given]) => {
      const member = formField(resolve(this.#root, given));
      const item = formField(resolve(this.#root, member['items']));
      const type = isFile(member) ? 'Blob' : isFile(item) ? 'Blob[]' : undefined;
      const isRequired = required.has(name);
      if (type === undefined) return this.#types.member(name, given, isRequired, 'request', indent);
      const inner = `${indent}  `;
      return comment(text(member['description']), inner) + inner + declared(name, type, isRequired);
    });
    return lines.length === 0 ? 'Record<string, never>' : `{\n${lines.join('')}${indent}}`;
  }

  /**
   * Returns the result type of an operation: a union with one type for each success status, and one for each
   * group of failures with the same body.
   */
  #result({ responses }: NamedOperation): string {
    const successes: string[] = [];
    const failures = new Map<string, string[]>();
    const bodies = Object.entries(responses).map(([status, response]) => {
      const body = this.#body(record(response['content']));
      // a document that describes no content of an error leaves it open, so resultOf() reads what was sent
      return [status, isFailure(status) && body === 'undefined' ? 'unknown' : body] as const;
    });
    for (const [status, body] of bodies) {
      if (isFailure(status)) failures.set(body, [...(failures.get(body) ?? []), status]);
      else successes.push(`Success<${statusType(status, [])}, ${body}>`);
    }
    const known = bodies.map(([status]) => status);
    const failed = [...failures].map(
      ([body, statuses]) => `Failure<${failureStatuses(statuses, known)}, ${body}>`,
    );
    return union([...successes, ...failed]);
  }

  #body(content: JsonObject): string {
    const types = Object.entries(content).map(([type, media]) => {
      if (type === '*/*') return 'Response';
      if (type === 'text/event-stream') return 'AsyncIterable<ServerSentEvent>';
      const schema = record(media)['schema'];
      if (isJsonLines(type))
        return `AsyncIterable<${this.#types.type(record(media)['itemSchema'], 'response', '  ')}>`;
      if (isText(type)) return 'string';
      return isJson(type) ? this.#types.type(schema, 'response', '  ') : 'Blob';
    });
    return types.length === 0 ? 'undefined' : union(types);
  }

  #options(): string {
    const given = Object.entries(record(record(this.#root['components'])['securitySchemes']));
    const schemes = given.map(([name, value]) => [name, resolve(this.#root, value)] as const);
    const members = schemes.map(
      ([name, scheme]) =>
        `${comment(text(scheme['description']), '    ')}    readonly ${key(name)}?: Credential | undefined;\n`,
    );
    const auth = members.length === 0 ? '' : `  readonly auth?: {\n${members.join('')}  };\n`;
    const entries = schemes.map(([name, scheme]) => `  ${keyOfTable(name)}: ${schemeText(scheme)},\n`);
    return `/** Options of {@link createClient}. */
export interface ClientOptions extends BaseOptions {
${auth}}

/** A client of the application at \`baseUrl\`. */
export function createClient(options: ClientOptions): Client {
  return functionsOf(OPERATIONS, SCHEMES, options) as unknown as Client; // OPERATIONS has every member of Client
}

const SCHEMES: Readonly<Record<string, Scheme>> = {
${entries.join('')}};
`;
  }

  /**
   * Returns the tables RESPONSES and OPERATIONS, which runtime.ts reads. Operations with equal responses
   * share an entry of RESPONSES.
   */
  #table(): string {
    const shared = new Map<string, number>();
    const rows = this.#operations.map(({ id, method, path, parameters, body, responses, security }) => {
      const types = Object.entries(responses).map(
        ([status, { content }]) =>
          `${JSON.stringify(status)}: ${JSON.stringify(Object.keys(record(content)))}`,
      );
      const written = `{ ${types.join(', ')} }`;
      const number = shared.get(written) ?? shared.size;
      shared.set(written, number);
      const [type, media] = contentOf(body) ?? [];
      const joined = [...joinedParameters(parameters), ...joinedFields(media)];
      const alternatives = security.map((alternative) => alternative.map(([scheme]) => scheme));
      const members = [
        `method: ${JSON.stringify(method.toUpperCase())}`,
        `path: ${JSON.stringify(path)}`,
        ...(type === undefined ? [] : [`body: ${JSON.stringify(type)}`]),
        ...(joined.length === 0 ? [] : [`joined: ${JSON.stringify(joined)}`]),
        `responses: RESPONSES[${number}]!`,
        ...(security.length === 0 ? [] : [`security: ${JSON.stringify(alternatives)}`]),
      ];
      return `  ${keyOfTable(id)}: { ${members.join(', ')} },\n`;
    });
    const responses = [...shared.keys()].map((written) => `  ${written},\n`);
    return `/** Media types of responses by status. */
const RESPONSES: readonly Operation['responses'][] = [
${responses.join('')}];

const OPERATIONS: Readonly<Record<string, Operation>> = {
${rows.join('')}};
`;
  }
}

/** Returns an exported interface; empty without members. */
function interfaceText(name: string, about: string, members: string): string {
  return members === '' ? '' : `/** ${about} */\nexport interface ${name} {\n${members}}\n`;
}

const STATUSES = `${statusUnion('ClientErrorStatus', 400)}${statusUnion('ServerErrorStatus', 500)}/** Every status of a failure. */
export type ErrorStatus = ClientErrorStatus | ServerErrorStatus;
`;

const HELPERS = `/** The input of an operation: \`InputOf<'readItem'>\`. */
export type InputOf<K extends keyof Client> = Parameters<Client[K]>[0];

/** The result of an operation: \`ResultOf<'readItem'>\`. */
export type ResultOf<K extends keyof Client> = Awaited<ReturnType<Client[K]>>;
`;

function statusUnion(name: string, first: number): string {
  const rows = Array.from({ length: 10 }, (_, ten) =>
    Array.from({ length: 10 }, (_, one) => first + ten * 10 + one).join(' | '),
  );
  return `/** Statuses ${first} to ${first + 99}. */\nexport type ${name} =\n  | ${rows.join('\n  | ')};\n`;
}

/**
 * Returns the operations of a document. An operation without an `operationId` is named after its method and
 * path.
 */
function readOperations(root: JsonObject): NamedOperation[] {
  const found: NamedOperation[] = [];
  const taken = new Set<string>();
  for (const [path, item] of Object.entries(record(root['paths'])))
    for (const read of operationsOf(root, item)) {
      const wanted = text(read.operation['operationId']) ?? `${read.method}${path.replace(/\W+/g, '_')}`;
      found.push({ id: uniqueName(wanted, taken), path, ...read });
    }
  return found;
}

interface SentOperation {
  readonly name: string;
  readonly read: ReadOperation;
}

/**
 * Returns the operations of several path items. An operation has the name of its path item. If a path item
 * has several operations, the method is added, as in `paid post`.
 */
function readSent(root: JsonObject, items: JsonObject): SentOperation[] {
  return Object.entries(items).flatMap(([name, item]) => {
    const operations = operationsOf(root, item);
    return operations.map((read) => ({
      name: operations.length === 1 ? name : `${name} ${read.method}`,
      read,
    }));
  });
}

/**
 * Returns the callbacks of an operation. If a callback has several URLs, each URL gives an item whose name
 * contains the URL.
 */
function readCallbacks(root: JsonObject, operation: JsonObject): SentOperation[] {
  const callbacks = callbacksOf(root, operation);
  return callbacks.flatMap(([name, url, item]) => {
    const isOnly = callbacks.filter(([other]) => other === name).length === 1;
    return readSent(root, { [isOnly ? name : `${name} ${url}`]: item });
  });
}

/**
 * Returns the media type and the content of a body. Prefers multipart, which can contain both files and text.
 */
function contentOf(body: JsonObject = {}): readonly [type: string, media: JsonObject] | undefined {
  const contents = Object.entries(record(body['content']));
  const chosen = contents.find(([type]) => type === 'multipart/form-data') ?? contents[0];
  return chosen && [chosen[0], record(chosen[1])];
}

function joinedParameters(parameters: readonly JsonObject[]): string[] {
  return parameters
    .filter((parameter) => parameter['in'] === 'query' && parameter['explode'] === false)
    .map((parameter) => String(parameter['name']));
}

function joinedFields(media: JsonObject = {}): string[] {
  return Object.entries(record(media['encoding']))
    .filter(([, encoding]) => record(encoding)['explode'] === false)
    .map(([name]) => name);
}

function schemeText(scheme: JsonObject): string {
  const { type, in: place, name } = scheme;
  if (type === 'apiKey' && ['header', 'query', 'cookie'].includes(String(place)))
    return `{ in: ${JSON.stringify(place)}, name: ${JSON.stringify(String(name))} }`;
  const isBasic = type === 'http' && String(scheme['scheme']).toLowerCase() === 'basic';
  return `{ in: "${isBasic ? 'basic' : 'bearer'}" }`;
}

/**
 * Returns a name as a key of an object literal. `__proto__` must be a computed key, because a plain key would
 * set the prototype.
 */
function keyOfTable(name: string): string {
  return name === '__proto__' ? `['__proto__']` : key(name);
}

function isFailure(status: string): boolean {
  return /^[45]|^default$/.test(status);
}

function statusType(status: string, except: readonly string[]): string {
  const range = { '4XX': 'ClientErrorStatus', '5XX': 'ServerErrorStatus', default: 'ErrorStatus' }[status];
  if (range === undefined) return /^\d{3}$/.test(status) ? status : 'number';
  return except.length === 0 ? range : `Exclude<${range}, ${except.join(' | ')}>`;
}

/**
 * Returns the type of `status` for failures with the same body. A range such as 4XX excludes single statuses
 * with a different body.
 */
function failureStatuses(statuses: readonly string[], known: readonly string[]): string {
  const ranges = statuses.filter((status) => /\D/.test(status));
  const single = statuses.filter((status) => /^\d/.test(status) && !ranges.includes(`${status[0]!}XX`));
  const others = known.filter((status) => /^[45]\d\d$/.test(status) && !statuses.includes(status));
  const isAll = ranges.includes('4XX') && ranges.includes('5XX');
  const parts = isAll
    ? [statusType('default', others)]
    : ranges.map((range) =>
        statusType(
          range,
          others.filter((status) => range === 'default' || status[0] === range[0]),
        ),
      );
  return union([...single.filter((status) => /^\d{3}$/.test(status)), ...parts]);
}
