/**
 * Converts the responses of a route to OpenAPI responses, by status.
 *
 * A route has the responses that it declares, and the errors that its inputs, credentials, path and
 * middleware can cause. 4XX and 5XX stand for all other errors.
 *
 * The content of an error is problem details (RFC 9457), described once under `components`. If an exception
 * handler handles the error, the responses that this handler declares apply instead. A handler without declared
 * responses may send anything, so the document promises nothing for the statuses of its class, nor for statuses of the
 * same range that only other handlers declare.
 */
import { http } from '../base/node-http.ts';
import { isRecord } from '../base/options.ts';
import {
  BadRequest,
  Conflict,
  Forbidden,
  HTTPException,
  InternalError,
  LoginRequired,
  MethodNotAllowed,
  NotFound,
  PayloadTooLarge,
  RequestTimeout,
  TooManyRequests,
  Unauthorized,
  UnprocessableContent,
} from '../base/errors.ts';
import { ValidationError, compileSerializer, compileType } from '../schema/schema.ts';
import { CSRFMiddleware } from '../http/session/csrf.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { alwaysThrows } from '../http/pipeline.ts';
import { PROBLEM_TYPE, hasNoContent } from '../http/response.ts';
import { isTypeSource } from '../routing/spec.ts';
import type { ErrorClass, ExceptionHandlers } from '../http/pipeline.ts';
import type { ExceptionSpec } from '../routing/declared-responses.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { JsonSchema, JsonSchemas } from '../schema/json-schema.ts';
import type { DocumentedResponse, Operation, Reference } from './document.ts';
import type { RouteSpec } from '../routing/spec.ts';
import type { TypeSource } from '../schema/schema.ts';
import type { ConverterName } from '../http/path.ts';
import type { Middleware } from '../http/contracts.ts';

const JSON_ = 'application/json';

/** Content of an error response: a declared type, or problem details. */
type ErrorContent = TypeSource | 'problem';

/** An error response that several routes share. */
interface Refusal {
  readonly name: string;
  readonly description: string;
  readonly headers?: readonly (keyof typeof HEADERS)[];
  /** Classes of errors that cause this response, the usual one first. Default: HTTPException. */
  readonly thrown?: readonly ErrorClass<Error>[];
}

const HEADERS = {
  'Retry-After': {
    description: 'How many seconds to wait before the next attempt',
    schema: { type: 'integer', minimum: 0 },
  },
  'WWW-Authenticate': {
    description: 'The required credentials, and what is wrong with the credentials in the request (RFC 9110)',
    schema: { type: 'string' },
  },
} as const;

/** Error responses for all errors that are not listed. */
const RANGES: Readonly<Record<string, Refusal>> = {
  '4XX': { name: 'ClientError', description: 'The request was refused' },
  '5XX': {
    name: 'ServerError',
    description: 'An error in the application',
    thrown: [InternalError, Error, HTTPException],
  },
};

/** Error responses by status or range of statuses. */
const REFUSALS: Readonly<Record<string, Refusal>> = {
  400: {
    name: 'BadRequest',
    description:
      'The request cannot be parsed, or its input is invalid: `errors` lists each problem with its place',
    thrown: [ValidationError, BadRequest],
  },
  401: {
    name: 'Unauthorized',
    description: 'Credentials are missing or invalid',
    headers: ['WWW-Authenticate'],
    thrown: [Unauthorized],
  },
  403: {
    name: 'Forbidden',
    description: 'The credentials do not permit this operation',
    thrown: [Forbidden],
  },
  404: { name: 'NotFound', description: 'No resource has this path', thrown: [NotFound] },
  409: {
    name: 'Conflict',
    description: 'Another request with this idempotency key is in progress',
    headers: ['Retry-After'],
    thrown: [Conflict, HTTPException],
  },
  413: { name: 'ContentTooLarge', description: 'The body is too large', thrown: [PayloadTooLarge] },
  415: { name: 'UnsupportedMediaType', description: 'The media type of the body is not supported' },
  422: {
    name: 'UnprocessableContent',
    description: 'The idempotency key belongs to a different request',
    thrown: [UnprocessableContent],
  },
  429: {
    name: 'TooManyRequests',
    description: 'The client has sent too many requests',
    headers: ['Retry-After'],
    thrown: [TooManyRequests],
  },
  500: {
    name: 'InternalServerError',
    description: 'An error in the application',
    thrown: [InternalError, Error],
  },
  503: {
    name: 'ServiceUnavailable',
    description: 'The server is overloaded, or the response took too long',
    headers: ['Retry-After'],
    thrown: [RequestTimeout, HTTPException],
  },
  ...RANGES,
};
const PROBLEM: JsonSchema = {
  type: 'object',
  description: 'An error response (RFC 9457)',
  required: ['type', 'title', 'status', 'request_id'],
  properties: {
    type: {
      type: 'string',
      format: 'uri-reference',
      description: 'Always `about:blank`, because the status alone says what the problem is',
    },
    title: { type: 'string', description: 'The reason phrase of the status' },
    status: { type: 'integer', minimum: 400, maximum: 599 },
    detail: { type: 'string', description: 'Explanation for people' },
    code: { type: 'string', description: 'Error code for programs' },
    errors: {
      type: 'array',
      description: 'Every problem of the input',
      items: {
        type: 'object',
        required: ['loc', 'code', 'message'],
        properties: {
          loc: {
            type: 'array',
            description:
              'Place of the problem: `body`, `query`, `path`, `header`, `cookie` or `form`, then the path to the member',
            items: { type: ['string', 'integer'] },
          },
          code: { type: 'string' },
          message: { type: 'string' },
        },
      },
    },
    request_id: { type: 'string', description: 'Id of the request in the log' },
  },
};

/** Writes responses, and collects the components that they share. */
export class ResponseWriter {
  readonly #schemas: JsonSchemas;
  readonly #handlers: readonly ExceptionHandlers[];
  /** References to the problem schema. Their `$ref` is set last, when the name of the schema is known. */
  readonly #refs: JsonSchema[] = [];

  constructor(schemas: JsonSchemas, handlers: readonly ExceptionHandlers[]) {
    this.#schemas = schemas;
    this.#handlers = handlers;
  }

  /** Returns every response of a route, successes first. `outer` is the middleware of the application. */
  of(detail: RouteDetail, outer: readonly Middleware[]): Record<string, DocumentedResponse | Reference> {
    const own = this.#own(detail.declared.spec);
    const failures = new Set(Object.keys(own).filter((status) => Number(status) >= 400));
    const expected = refusalsOf(detail, [...outer, ...detail.declared.use]);
    const refusals = errorContents(detail, expected.union(failures), failures, outer, this.#handlers);
    const responses: Record<string, DocumentedResponse | Reference> = { ...own };
    for (const [status, contents] of refusals) {
      const refusal = REFUSALS[status];
      const isProblem = own[status] === undefined && contents.length === 1 && contents[0] === 'problem';
      const description = (expected.has(status) && refusal?.description) || titleOf(Number(status));
      responses[status] =
        isProblem && refusal !== undefined
          ? { $ref: referenceTo(refusal) }
          : this.#joined(own[status] ?? { description }, contents);
    }
    for (const [range, { description }] of Object.entries(RANGES)) responses[range] ??= { description };
    return responses;
  }

  /** Returns a response of `meta.openapi`. An error without content gets that of `responses` for its status or range. */
  filled(status: string, response: unknown, responses: Operation['responses']): unknown {
    if (!/^[45]/.test(status) || !isRecord(response) || 'content' in response || '$ref' in response)
      return response;
    const usual = responses[status] ?? responses[`${status[0]}XX`];
    const content = usual !== undefined && '$ref' in usual ? this.#problem() : usual?.content;
    return content === undefined ? response : { ...response, content };
  }

  /** Returns the response `own` with further contents, as alternatives to its own content. */
  #joined(own: DocumentedResponse, contents: readonly ErrorContent[]): DocumentedResponse {
    const known = own.content?.[JSON_];
    const schemas = known === undefined ? [] : [known.schema];
    for (const each of contents)
      if (each !== 'problem') schemas.push(this.#schemas.type(compileType(each).node, 'output'));
    const [first, ...others] = schemas;
    const schema = others.length === 0 ? first : { anyOf: schemas };
    return {
      ...own,
      content: {
        ...own.content,
        ...(schema === undefined ? {} : { [JSON_]: { ...known, schema } }),
        ...(contents.includes('problem') ? this.#problem() : {}),
      },
    };
  }

  /**
   * Returns the components to which the responses refer. Call it last. `name` is the name of the problem
   * schema.
   */
  components(
    operations: readonly Operation[],
    name: string,
  ): {
    readonly schemas: Record<string, JsonSchema>;
    readonly responses: Record<string, DocumentedResponse>;
    readonly headers: Record<string, unknown>;
  } {
    const referred = new Set(
      operations.flatMap((operation) =>
        Object.values(operation.responses).map((response) => ('$ref' in response ? response.$ref : '')),
      ),
    );
    const used = Object.values(REFUSALS).filter((refusal) => referred.has(referenceTo(refusal)));
    const responses = used.map(({ name, description, headers }) => {
      const refs = headers?.map((header) => [header, { $ref: `#/components/headers/${header}` }] as const);
      const response: DocumentedResponse = {
        description,
        ...(refs === undefined ? {} : { headers: Object.fromEntries(refs) }),
        content: this.#problem(),
      };
      return [name, response] as const;
    });
    const needed = new Set(used.flatMap(({ headers = [] }) => headers));
    for (const ref of this.#refs) ref['$ref'] = `#/components/schemas/${name}`;
    return {
      schemas: this.#refs.length === 0 ? {} : { [name]: PROBLEM },
      responses: Object.fromEntries(responses),
      headers: Object.fromEntries([...needed].sort().map((header) => [header, HEADERS[header]] as const)),
    };
  }

  #problem(): NonNullable<DocumentedResponse['content']> {
    const schema: JsonSchema = { $ref: '' };
    this.#refs.push(schema);
    return { [PROBLEM_TYPE]: { schema } };
  }

  #own({ response, status, examples = {} }: RouteSpec): Record<string, DocumentedResponse> {
    if (response === undefined) return undeclared(status);
    const usual = status ?? 200;
    if (isTypeSource(response)) return { [usual]: this.#json(usual, response, examples[usual]) };
    return Object.fromEntries(
      Object.entries(response).map(([key, source]) => [
        key,
        this.#json(Number(key), source as TypeSource, examples[Number(key)]),
      ]),
    );
  }

  #json(
    status: number,
    source: TypeSource,
    examples: Readonly<Record<string, unknown>> = {},
  ): DocumentedResponse {
    const description = titleOf(status);
    if (hasNoContent(status)) return { description };
    const serializer = compileSerializer(source);
    const written = Object.entries(examples).flatMap(([name, example]) => {
      const result = serializer.toValue(example);
      return result.ok ? [[name, { value: result.value }] as const] : [];
    });
    return {
      description,
      content: {
        [JSON_]: {
          schema: this.#schemas.type(compileType(source).node, 'output'),
          ...(written.length === 0 ? {} : { examples: Object.fromEntries(written) }),
        },
      },
    };
  }
}

function referenceTo({ name }: Refusal): string {
  return `#/components/responses/${name}`;
}

/** Returns the responses of a route without `response`. Their content is unknown. */
function undeclared(status: number | undefined): Record<string, DocumentedResponse> {
  const anything = { '*/*': { schema: {} } };
  if (status === undefined)
    return {
      200: { description: 'Response of the handler', content: anything },
      204: { description: titleOf(204) },
    };
  return {
    [status]: {
      description: titleOf(status),
      ...(hasNoContent(status) || (status >= 300 && status < 400) ? {} : { content: anything }),
    },
  };
}

/** Returns the statuses and ranges of the errors that the framework can cause on a route. */
function refusalsOf(detail: RouteDetail, layers: readonly Middleware[]): ReadonlySet<string> {
  const { route, declared, inputs } = detail;
  const reads = inputs.body !== undefined || inputs.form !== undefined;
  const own = {
    400: reads || inputs.texts.length > 0,
    401: route.security.length > 0,
    403: route.security.some(({ roles, scopes }) => roles.length > 0 || scopes.length > 0),
    404: declared.template.parameters.length > 0,
    413: reads,
    415: reads,
    '4XX': true,
    503: typeof route.timeoutMs === 'number',
    '5XX': true,
  };
  const found = ofLayers(detail, layers).union(holding(own));
  return new Set(Object.keys(REFUSALS).filter((status) => found.has(status)));
}

/** Returns the statuses of the errors that middleware can cause on a route. */
function ofLayers({ route }: RouteDetail, layers: readonly Middleware[]): ReadonlySet<string> {
  const has = (kind: Middleware['kind']): boolean => layers.some((layer) => layer.kind === kind);
  const isRepeatable = layers.some((layer) => layer instanceof IdempotencyMiddleware && layer.covers(route));
  return holding({
    400: isRepeatable,
    403: layers.some((layer) => layer instanceof CSRFMiddleware && layer.covers(route)),
    409: isRepeatable,
    422: isRepeatable,
    429: has('rate-limit') && route.rateLimit !== false,
    503:
      (has('timeout') && route.timeoutMs !== false) ||
      (has('concurrency-limit') && route.meta['loadShedding'] !== false),
  });
}

function holding(conditions: Readonly<Record<string, boolean>>): ReadonlySet<string> {
  return new Set(Object.keys(conditions).filter((status) => conditions[status]));
}

type Reply = readonly [status: string, content: ErrorContent];

/** Contents of error responses by status, for one route. */
class ErrorContents {
  readonly #found = new Map<string, Set<ErrorContent>>();
  /** Statuses with unknown content, because their handler declares no response. */
  readonly #open = new Set<string>();
  readonly #handlers: readonly ExceptionHandlers[];
  /** Statuses that handlers declare for errors of the application. */
  readonly #declared: ReadonlySet<string>;

  constructor(handlers: readonly ExceptionHandlers[], declared: ReadonlySet<string>) {
    this.#handlers = handlers;
    this.#declared = declared;
  }

  /** Adds the responses to an error of the framework. Returns whether this status is among them. */
  add(status: string, { prototype }: ErrorClass<Error>, handlers = this.#handlers): boolean {
    return this.#add(status, prototype, handlers, status !== rangeOf(status));
  }

  /** Adds the responses to an error of the application, which every route may throw. */
  addOwn(prototype: object): void {
    for (const status of usualStatuses(prototype)) this.#add(status, prototype, this.#handlers, false);
  }

  move(status: string): void {
    const contents = this.#found.get(status) ?? [];
    if (status !== rangeOf(status)) this.#found.delete(status);
    for (const content of contents) this.#put(rangeOf(status), content);
  }

  /** Returns the contents of all statuses whose content is known, or is declared by the route itself. */
  known(own: ReadonlySet<string>): ReadonlyMap<string, readonly ErrorContent[]> {
    const known = [...this.#found].filter(([status]) => own.has(status) || !this.#isOpen(status));
    return new Map(known.map(([status, contents]) => [status, [...contents]]));
  }

  #isOpen(status: string): boolean {
    return this.#open.has(status) || (this.#declared.has(status) && this.#open.has(rangeOf(status)));
  }

  /** A status that is neither listed nor to be listed joins its range. */
  #add(
    status: string,
    prototype: object,
    handlers: readonly ExceptionHandlers[],
    isListed: boolean,
  ): boolean {
    const replies = repliesTo(prototype, status, handlers);
    if (replies === undefined) {
      this.#open.add(status).add(rangeOf(status));
      if (status === '400') this.#open.add('422'); // the other usual status for invalid input
      return true;
    }
    for (const [key, content] of replies) {
      const hasOwn = isListed || Number(key) < 400 || this.#found.has(key) || this.#declared.has(key);
      this.#put(hasOwn ? key : rangeOf(key), content);
    }
    return replies.some(([key]) => key === status);
  }

  #put(status: string, content: ErrorContent): void {
    this.#found.set(status, (this.#found.get(status) ?? new Set()).add(content));
  }
}

/** Returns the responses to errors of a class; undefined if their handler declares none. */
function repliesTo(
  prototype: object,
  status: string,
  handlers: readonly ExceptionHandlers[],
): readonly Reply[] | undefined {
  const spec = declaredFor(prototype, handlers);
  if (spec === 'problem') return [[status, 'problem']];
  if (spec === undefined) return undefined;
  const { response } = spec;
  if (!isTypeSource(response)) return Object.entries(response) as [string, TypeSource][]; // its type loses the values
  if (spec.status !== undefined) return [[String(spec.status), response]];
  return [
    [status, response],
    [rangeOf(status), response],
  ];
}

/** Returns what the handler for a class declares, if anything; `problem` if programs get the problem details of svc. */
function declaredFor(
  prototype: object,
  handlers: readonly ExceptionHandlers[],
): TypedSpec | 'problem' | undefined {
  const found = handlers.map((each) => each.findOf(prototype)).find((each) => each !== undefined);
  if (found === undefined || alwaysThrows(found.handler)) return 'problem';
  const spec = found.declared as ExceptionSpec | undefined;
  return spec?.response === PROBLEM_TYPE ? 'problem' : (spec as TypedSpec | undefined);
}

interface TypedSpec extends ExceptionSpec {
  readonly response: Exclude<ExceptionSpec['response'], typeof PROBLEM_TYPE>;
}

/** Returns the error statuses that the handler for a class declares, so that they need no range. */
function declaredStatuses(prototype: object, handlers: readonly ExceptionHandlers[]): readonly string[] {
  const spec = declaredFor(prototype, handlers);
  if (spec === undefined || spec === 'problem') return [];
  const { response, status } = spec;
  const found = isTypeSource(response) ? [status ?? 0] : Object.keys(response).map(Number);
  return found.filter((each) => each >= 400).map(String);
}

/**
 * Returns the contents of a route's error responses by status. `own` are the error statuses that the route
 * declares itself. Exception handlers of routers do not see the errors of the application's middleware, nor
 * those of paths that fit no route.
 */
function errorContents(
  detail: RouteDetail,
  statuses: ReadonlySet<string>,
  own: ReadonlySet<string>,
  outer: readonly Middleware[],
  ofApplication: readonly ExceptionHandlers[],
): ReadonlyMap<string, readonly ErrorContent[]> {
  const { route, declared } = detail;
  const handlers = [...declared.handlers, ...ofApplication];
  // routes that only accept other credentials do not ask for a login
  const mayLogin = route.security.length === 0 || route.security.some(({ scheme }) => scheme === 'session');
  const prototypes = [...new Set(handlers.flatMap((each) => [...each.prototypes()]))].filter((prototype) =>
    prototype === LoginRequired.prototype ? mayLogin : prototype !== WRONG_METHOD,
  );
  const ofOwn = prototypes.filter((prototype) => !statuses.has(STATUS_OF_CLASS.get(prototype) ?? ''));
  const ofRanges = prototypes.filter((prototype) => STATUS_OF_CLASS.get(prototype)?.endsWith('XX'));
  const named = new Set([...ofOwn, ...ofRanges].flatMap((each) => declaredStatuses(each, handlers)));
  const contents = new ErrorContents(handlers, named);
  const outside = new Set(declared.handlers.length === 0 ? [] : ofLayers(detail, outer));
  if (declared.template.parameters.some(({ converter }) => STRICT.has(converter.name))) outside.add('404');
  const replaced: string[] = [];
  for (const status of statuses.union(named)) {
    const [usual = HTTPException, ...others] = REFUSALS[status]?.thrown ?? [];
    if (!contents.add(status, usual) && statuses.has(status) && !own.has(status)) replaced.push(status);
    for (const other of others) contents.add(status, other);
    if (outside.has(status)) for (const each of [usual, ...others]) contents.add(status, each, ofApplication);
  }
  for (const prototype of ofOwn) contents.addOwn(prototype);
  for (const status of replaced) contents.move(status);
  return contents.known(own);
}

/** Converters that leave some segments of a path to no route. */
const STRICT: ReadonlySet<ConverterName> = new Set(['int', 'float', 'uuid']);

/** Classes with a status or a range of their own. */
const STATUS_OF_CLASS: ReadonlyMap<object, string> = new Map(
  Object.entries(REFUSALS).flatMap(([status, { thrown = [HTTPException] }]) =>
    thrown
      .filter((each) => each !== HTTPException || status === '4XX')
      .map(({ prototype }) => [prototype, status] as const),
  ),
);
/** Thrown before a route is found. */
const WRONG_METHOD: object = MethodNotAllowed.prototype;

/** Returns the statuses that errors of an application's class usually have: those of its nearest base class. */
function usualStatuses(prototype: object): readonly string[] {
  for (let at: object | null = prototype; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    if (at === HTTPException.prototype) break;
    const status = STATUS_OF_CLASS.get(at);
    if (status !== undefined && at !== Error.prototype) return [status];
  }
  return ['4XX', '5XX'];
}

function rangeOf(status: string): string {
  return `${status.charAt(0)}XX`;
}

/** Returns the reason phrase of a status. An unregistered status gets `Success`, `Redirection` or `Error`. */
export function titleOf(status: number): string {
  return http.STATUS_CODES[status] ?? (status < 300 ? 'Success' : status < 400 ? 'Redirection' : 'Error');
}
