/**
 * Converts the responses of a route to OpenAPI responses, by status.
 *
 * A route has the responses that it declares, and the errors that its inputs, credentials, path and
 * middleware can cause. 4XX and 5XX stand for all other errors.
 *
 * The content of an error is problem details (RFC 9457), described once under `components`. If an exception
 * handler handles the error, the responses that this handler declares apply instead.
 */
import { http } from '../base/node-http.ts';
import {
  BadRequest,
  Forbidden,
  HTTPException,
  InternalError,
  NotFound,
  PayloadTooLarge,
  TooManyRequests,
  Unauthorized,
  UnprocessableContent,
} from '../base/errors.ts';
import { ValidationError, compileSerializer, compileType } from '../schema/schema.ts';
import { CSRFMiddleware } from '../http/session/csrf.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { PROBLEM_TYPE, hasNoContent } from '../http/response.ts';
import { isTypeSource } from '../routing/spec.ts';
import type { ErrorClass, ExceptionHandlers } from '../http/pipeline.ts';
import type { ExceptionSpec } from '../routing/declared-responses.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { JsonSchema, JsonSchemas } from '../schema/json-schema.ts';
import type { DocumentedResponse, Operation, Reference } from './document.ts';
import type { RouteSpec } from '../routing/spec.ts';
import type { TypeSource } from '../schema/schema.ts';
import type { Middleware } from '../http/contracts.ts';

/** An error response that several routes share. */
interface Refusal {
  readonly name: string;
  readonly description: string;
  readonly headers?: readonly (keyof typeof HEADERS)[];
  /** Classes of errors that cause this response. Default: HTTPException. */
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
  503: {
    name: 'ServiceUnavailable',
    description: 'The server is overloaded, or the response took too long',
    headers: ['Retry-After'],
  },
  '4XX': { name: 'ClientError', description: 'The request was refused' },
  '5XX': {
    name: 'ServerError',
    description: 'An error in the application',
    thrown: [InternalError, Error],
  },
};
const JSON_ = 'application/json';

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

  /** Returns every response of a route, successes first. */
  of(detail: RouteDetail, layers: readonly Middleware[]): Record<string, DocumentedResponse | Reference> {
    const { spec, handlers } = detail.declared;
    const own = this.#own(spec);
    const failures = Object.keys(own).filter((status) => Number(status) >= 400);
    const expected = new Set(refusalsOf(detail, layers));
    const refusals = this.#refusals([...expected.union(new Set(failures))], [...handlers, ...this.#handlers]);
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
    // 4XX stands for all errors that are not listed
    responses['4XX'] ??= { description: REFUSALS['4XX']!.description };
    return responses;
  }

  /**
   * Returns the contents of error responses by status: problem details, or the content that an exception
   * handler declares. A status is left out if its handler declares no content.
   */
  #refusals(
    statuses: readonly string[],
    handlers: readonly ExceptionHandlers[],
  ): ReadonlyMap<string, readonly (TypeSource | 'problem')[]> {
    const found = new Map<string, Set<TypeSource | 'problem'>>();
    const unknown = new Set<string>();
    const add = (status: string, content: TypeSource | 'problem'): void => {
      found.set(status, (found.get(status) ?? new Set()).add(content));
    };
    for (const status of statuses) {
      for (const { prototype } of REFUSALS[status]?.thrown ?? [HTTPException]) {
        const handled = handlers.map((each) => each.findOf(prototype)).find((each) => each !== undefined);
        // the cast is safe: exceptionHandler() has stored the spec in `declared`
        const spec = handled?.declared as ExceptionSpec | undefined;
        if (handled === undefined) add(status, 'problem');
        else if (spec === undefined) unknown.add(status);
        else if (isTypeSource(spec.response)) add(String(spec.status ?? status), spec.response);
        else for (const [key, source] of Object.entries(spec.response)) add(key, source as TypeSource);
      }
    }
    return new Map(
      [...found].filter(([status]) => !unknown.has(status)).map(([status, each]) => [status, [...each]]),
    );
  }

  /** Returns the response `own` with further contents, as alternatives to its own content. */
  #joined(own: DocumentedResponse, contents: readonly (TypeSource | 'problem')[]): DocumentedResponse {
    const known = own.content?.[JSON_];
    const schemas = known === undefined ? [] : [known.schema];
    for (const each of contents)
      if (each !== 'problem') schemas.push(this.#schemas.type(compileType(each).node, 'output'));
    const schema = schemas.length === 1 ? schemas[0]! : { anyOf: schemas };
    return {
      ...own,
      content: {
        ...own.content,
        ...(schemas.length === 0 ? {} : { [JSON_]: { ...known, schema } }),
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
      ...(hasNoContent(status) || isRedirect(status) ? {} : { content: anything }),
    },
  };
}

function refusalsOf({ route, declared, inputs }: RouteDetail, layers: readonly Middleware[]): string[] {
  const has = (kind: Middleware['kind']): boolean => layers.some((layer) => layer.kind === kind);
  const reads = inputs.body !== undefined || inputs.form !== undefined;
  const isRepeatable = layers.some((layer) => layer instanceof IdempotencyMiddleware && layer.covers(route));
  const isGuarded =
    route.security.some(({ roles, scopes }) => roles.length > 0 || scopes.length > 0) ||
    layers.some((layer) => layer instanceof CSRFMiddleware && layer.covers(route));
  const isTimed =
    typeof route.timeoutMs === 'number' ||
    (has('timeout') && route.timeoutMs !== false) ||
    (has('concurrency-limit') && route.meta['loadShedding'] !== false);
  const conditions = {
    400: reads || inputs.texts.length > 0 || isRepeatable,
    401: route.security.length > 0,
    403: isGuarded,
    404: declared.template.parameters.length > 0,
    409: isRepeatable,
    413: reads,
    415: reads,
    422: isRepeatable,
    429: has('rate-limit') && route.rateLimit !== false,
    '4XX': true,
    503: isTimed,
    '5XX': true,
  };
  return Object.entries(conditions).flatMap(([status, holds]) => (holds ? [status] : []));
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/** Returns the reason phrase of a status. An unregistered status gets `Success`, `Redirection` or `Error`. */
export function titleOf(status: number): string {
  return http.STATUS_CODES[status] ?? (status < 300 ? 'Success' : status < 400 ? 'Redirection' : 'Error');
}
