/** Reads the spec of a route: separates its options from its dependencies, and checks both. */
import { readDeprecation } from '../schema/declarations.ts';
import { Dependency } from './di.ts';
import { SvcError } from '../base/errors.ts';
import {
  bool,
  closest,
  given,
  int,
  isBoolean,
  isObject,
  isRecord,
  optionalInt,
  readGiven,
  readOptions,
  shown,
  text,
} from '../base/options.ts';
import { FieldType, isStandardSchema } from '../schema/schema.ts';
import { REQUEST_TIMEOUT } from '../http/server/options.ts';
import { readRouteRateLimit } from '../http/middleware/rate-limiter.ts';
import type { InputShape, RouteTextInputs, TextInputs } from './di.ts';
import type { Finding } from '../base/findings.ts';
import type { OptionKind } from '../base/options.ts';
import type { Deprecation, Infer, Returned, TypeSource, Wire, WireOf } from '../schema/schema.ts';
import type {
  Middleware,
  MiddlewareFunction,
  RouteRateLimit,
  SecurityRequirement,
} from '../http/contracts.ts';
import type { Reply } from '../http/reply.ts';
import type { HttpResponse } from '../http/response.ts';
import type { StaticOptions } from '../http/files/static.ts';

/** Declares that a finding of `svc check` is intended. */
export interface Allowance {
  /** Id of the rule, such as `SVC204`. */
  readonly rule: Finding['rule'];
  /** Why the finding is intended. Reports show it. */
  readonly reason: string;
  /** Date such as `2027-01-31`. After this date, `svc check` reports the finding as an error again. */
  readonly until?: string | undefined;
}

/** Description of a route for MCP clients. It replaces the name, summary and description of the route. */
export interface ToolDescription {
  /**
   * Name of the tool: 1 ... 128 characters of `A-Z a-z 0-9 _ - .`. Default: the name of the route, or else
   * its method and path.
   */
  readonly name?: string | undefined;
  /** Title that MCP clients show to users. Default: `summary`. */
  readonly title?: string | undefined;
  /**
   * Description for models: what the tool does, and when to use it. Default: `description`, or else
   * `summary`.
   */
  readonly description?: string | undefined;
  /** Hints for clients about the effects of a call. Default: derived from the HTTP method. */
  readonly annotations?: ToolHints | undefined;
  /**
   * Arguments that clients over HTTP repeat as a header field, so that proxies can read them: `{ region: 'Region' }`
   * for `Mcp-Param-Region` (MCP 2026-07-28). Only text, numbers and booleans.
   */
  readonly paramHeaders?: Readonly<Record<string, string>> | undefined;
}

/** Hints about the effects of a call. Clients use them to decide whether to ask the user before the call. */
export interface ToolHints {
  /** Whether the call changes nothing. Default: true for GET. */
  readonly readOnlyHint?: boolean | undefined;
  /** Whether the call may overwrite or delete data. Default: false for GET. */
  readonly destructiveHint?: boolean | undefined;
  /** Whether a repeated call has no further effect. Default: true for GET, PUT and DELETE. */
  readonly idempotentHint?: boolean | undefined;
  /** Whether the call has effects outside this application. Default: not specified. */
  readonly openWorldHint?: boolean | undefined;
}

/** Options of all routes, including WebSocket routes. */
export interface SharedSpec extends TextInputs {
  /** Name of the route for `urlFor`; must be unique in an application. */
  readonly name?: string | undefined;
  /** One line for the OpenAPI document, which leaves out WebSockets. */
  readonly summary?: string | undefined;
  /** Explanation for the OpenAPI document, in Markdown. The document leaves out WebSockets. */
  readonly description?: string | undefined;
  /** Groups of the route in the OpenAPI document, which leaves out WebSockets. */
  readonly tags?: readonly string[] | undefined;
  /** Declares that the route needs no authentication. A string states the reason. */
  readonly public?: boolean | string | undefined;
  /** Custom data, which middleware reads from `req.route.meta`. `{ docs: false }` hides the route from the API document. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined;
  /** Security requirements of the route. Only needed if no dependency declares them. */
  readonly security?: SecurityRequirement | readonly SecurityRequirement[] | undefined;
  /**
   * Rate limit per client; false means unlimited. It replaces the limit of RateLimitMiddleware, without which the
   * option is an error (SVC121).
   */
  readonly rateLimit?: RouteRateLimit | false | undefined;
  /**
   * Maximum time until the response, or until the handshake of a WebSocket, 1 ... 86_400_000 ms; false means
   * unlimited. After this time, the response is 503. The option replaces the limit of the timeout middleware,
   * and also works without this middleware.
   */
  readonly timeoutMs?: number | false | undefined;
  /** Middleware of this route only. It runs after the middleware of the application and of the routers. */
  readonly use?: readonly (Middleware | MiddlewareFunction)[] | undefined;
}

/** Description of a request that the application sends to another server, for the OpenAPI document. */
export interface SentRequest extends Pick<TextInputs, 'query' | 'headers'> {
  /** HTTP method of the request that the application sends. Default `POST`. */
  readonly method?: SentMethod | undefined;
  /** One line for the OpenAPI document. */
  readonly summary?: string | undefined;
  /** Explanation for the OpenAPI document, in Markdown. */
  readonly description?: string | undefined;
  /** Whether receivers should no longer expect the request. */
  readonly deprecated?: boolean | undefined;
  /** Type of the JSON body: a schema class, or a type such as `list(Item)`. */
  readonly body?: TypeSource | undefined;
  /**
   * Type of the response with status 200, or an object of types by status. Default: any response with status
   * 2xx.
   */
  readonly response?: TypeSource | Readonly<Record<number, TypeSource>> | undefined;
}

/**
 * Callback in the OpenAPI document (OpenAPI 3.1 §4.8.18): a request that the application sends as a
 * consequence of a client's request.
 */
export interface Callback extends SentRequest {
  /**
   * URL, with runtime expressions of OpenAPI in braces: `{$request.body#/notifyUrl}`,
   * `{$request.query.url}/done`.
   */
  readonly url: string;
}

/** Spec of a GET route. Requests with this method have no body. */
export interface GetSpec extends SharedSpec, RouteTextInputs {
  /**
   * Type of the responses, or an object of types by status. A response that does not match becomes a 500.
   */
  readonly response?: TypeSource | Readonly<Record<number, TypeSource>> | undefined;
  /**
   * Examples of responses by status and name, for the OpenAPI document: `{ 200: { small: { ... } } }`. They are
   * values as a handler returns them, such as a `Date` for a `datetime`. The document leaves out an example that
   * `response` refuses.
   */
  readonly examples?: Readonly<Record<number, Readonly<Record<string, unknown>>>> | undefined;
  /**
   * Status for return values that name no status: 200 ... 599. Default 200, or 204 for a response without a
   * body.
   */
  readonly status?: number | undefined;
  /**
   * Callbacks by name, for the OpenAPI document: requests that the application sends as a consequence of a
   * request to this route.
   */
  readonly callbacks?: Readonly<Record<string, Callback>> | undefined;
  /**
   * Whether clients should stop using the route; the OpenAPI document says so. An object with dates also adds
   * header fields to responses (RFC 9745, RFC 8594).
   */
  readonly deprecated?: boolean | Deprecation | undefined;
  /** Whether MCP clients can call the route as a tool, or the description of this tool. Default true. */
  readonly mcp?: boolean | ToolDescription | undefined;
  /** Findings of `svc check` that are intended on this route. */
  readonly allow?: readonly Allowance[] | undefined;
  /**
   * Whether `[body, status]` means a body with its status. Set false if the route returns lists of two items
   * whose second item may be an integer 200 ... 599. Default true.
   */
  readonly tuple?: boolean | undefined;
  /**
   * Maximum size of a request body in bytes. It replaces the setting `maxBodyBytes`, and may be larger.
   * Without it and the setting, JSON, text and forms stop at 10,000,000.
   */
  readonly maxBodyBytes?: number | undefined;
  /** Whether JSON without `Content-Type` is refused with 415. Default: the setting `strictContentType`. */
  readonly strictContentType?: boolean | undefined;
  /**
   * Maximum time for receiving the whole request, 10 ... 86_400_000 ms, for example for large uploads. It
   * replaces the setting `requestTimeoutMs`. After this time, the response is 408.
   */
  readonly requestTimeoutMs?: number | undefined;
}

/**
 * Spec of a route. Every key that is not an option is a dependency, which the handler receives under this
 * name.
 */
export interface RouteSpec extends GetSpec {
  /** Type of the JSON body: a schema class, or a type such as `list(Item)`. */
  readonly body?: TypeSource | undefined;
  /** Fields of the form in the body: an object of `Field()` members, or a schema class. */
  readonly form?: InputShape | undefined;
}

/**
 * Names that dependencies cannot have: options of routes, some options of WebSocket routes, and members of
 * the context.
 */
export type ReservedKey = keyof RouteSpec | 'req' | 'signal' | 'state' | 'message' | 'protocols' | 'origins';
/** Dependencies by the name under which the handler receives them. */
export type Dependencies = Readonly<Record<string, Dependency<unknown>>>;

/** Definitions of the options that all routes have, for readOptions(). */
export const SHARED_SPEC: { readonly [K in keyof SharedSpec]-?: OptionKind<SharedSpec[K]> } = {
  query: given<InputShape>(),
  headers: given<InputShape>(),
  cookies: given<InputShape>(),
  name: text(),
  summary: text(),
  description: text(),
  tags: given<readonly string[]>('a list of strings', Array.isArray),
  public: given<boolean | string>(
    'true, false or a reason',
    (value) => isBoolean(value) || typeof value === 'string',
  ),
  meta: given<Readonly<Record<string, unknown>>>('an object', isObject),
  rateLimit: given<RouteRateLimit | false>(
    'false or { perMinute, burst, key }',
    (value) => value === false || isObject(value),
  ),
  timeoutMs: given<number | false>(
    'false or an integer 1 … 86400000',
    (value) => value === false || int(1, 1, 86_400_000).accepts(value),
  ),
  security: given<SecurityRequirement | readonly SecurityRequirement[]>(
    'a requirement or a list of them',
    isObject,
  ),
  use: given<readonly (Middleware | MiddlewareFunction)[]>('a list of middleware', Array.isArray),
};

const SENT_METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
type SentMethod = (typeof SENT_METHODS)[number];

const SENT: { readonly [K in keyof SentRequest]-?: OptionKind<SentRequest[K]> } = {
  method: given<SentMethod>(SENT_METHODS.join(', '), (value) => SENT_METHODS.some((each) => each === value)),
  summary: text(),
  description: text(),
  deprecated: bool(),
  query: given<InputShape>('an object of fields', isObject),
  headers: given<InputShape>('an object of fields', isObject),
  body: given<TypeSource>(),
  response: given<NonNullable<SentRequest['response']>>(),
};
const CALLBACK = {
  ...SENT,
  url: given<string>(
    'an address, such as "{$request.body#/notifyUrl}"',
    (value) => typeof value === 'string' && value !== '',
  ),
};

/** Option `callbacks` or `webhooks`: descriptions, by name, of requests that the application sends. */
export const SENT_REQUESTS: OptionKind<
  Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined
> = given('an object: requests by name', (value) => isRecord(value) && Object.values(value).every(isRecord));

/** Definitions of the options of a route, for readOptions(). */
const SPEC = {
  ...SHARED_SPEC,
  deprecated: given<boolean | Deprecation>(
    'true, false or { since, sunset, link }',
    (value) => isBoolean(value) || isObject(value),
  ),
  callbacks: SENT_REQUESTS,
  examples: given<NonNullable<RouteSpec['examples']>>('examples by status and name', isObject),
  params: given<InputShape>(),
  body: given<TypeSource>(),
  form: given<InputShape>(),
  response: given<NonNullable<RouteSpec['response']>>(),
  status: optionalInt(200, 599),
  mcp: given<boolean | ToolDescription>(
    'true, false or { name, title, description, annotations }',
    (value) => isBoolean(value) || isObject(value),
  ),
  allow: given<readonly Allowance[]>('a list of { rule, reason }', Array.isArray),
  tuple: bool(),
  maxBodyBytes: given<number>(
    'an integer 0 or more',
    (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  ),
  strictContentType: bool(),
  requestTimeoutMs: REQUEST_TIMEOUT,
} satisfies Record<keyof RouteSpec, OptionKind<unknown>>;

const RESERVED: ReadonlySet<string> = new Set<ReservedKey>([
  'req',
  'signal',
  'state',
  'message',
  'protocols',
  'origins',
]);

/** Options of `mountStatic()`: how the files are served, and what runs before that. */
export interface MountOptions extends StaticOptions {
  /** Dependencies that are resolved before a file is looked up, for example a guard. */
  readonly deps?: Dependencies | undefined;
  /** Middleware of these files only. */
  readonly use?: RouteSpec['use'];
}

/** Options of `mount()`: what the handler gets, and what runs before it. */
export interface FetchMountOptions extends Pick<
  RouteSpec,
  'use' | 'maxBodyBytes' | 'timeoutMs' | 'requestTimeoutMs' | 'rateLimit'
> {
  /** Whether the URL of the handler's request lacks the prefix. Default false: it is the URL of the client. */
  readonly stripPrefix?: boolean | undefined;
  /** Dependencies that are resolved before the handler is called, for example a guard. */
  readonly deps?: Dependencies | undefined;
}

/** Separates the options of a spec from its dependencies, and checks both. */
export function readSpec(subject: string, spec: unknown): { spec: RouteSpec; deps: Dependencies } {
  if (typeof spec !== 'object' || spec === null) throw new SvcError('E_ROUTE_HANDLER', [subject]);
  const [options, deps] = apart(spec, SPEC);
  const { rateLimit, mcp, deprecated, callbacks, ...rest } = readGiven(subject, options, SPEC);
  return {
    spec: {
      ...rest,
      deprecated: typeof deprecated === 'object' ? readDeprecation(subject, deprecated) : deprecated,
      callbacks: callbacks === undefined ? undefined : readCallbacks(subject, callbacks),
      rateLimit: typeof rateLimit === 'object' ? readRouteRateLimit(subject, rateLimit) : rateLimit,
      mcp: typeof mcp === 'object' ? readTool(subject, mcp) : mcp,
    },
    deps: readDependencies(subject, deps),
  };
}

export function readSentRequest(owner: string, sent: Readonly<Record<string, unknown>>): SentRequest {
  return readGiven(owner, sent, SENT);
}

function readCallbacks(
  subject: string,
  callbacks: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): Readonly<Record<string, Callback>> {
  return Object.fromEntries(
    Object.entries(callbacks).map(([name, callback]) => {
      const owner = `callback ${name} of ${subject}`;
      const { url, ...sent } = readGiven(owner, callback, CALLBACK);
      if (url === undefined)
        throw new SvcError('E_OPTION_RANGE', [owner, 'url', `needs ${CALLBACK.url.needs}`, shown(url)]);
      return [name, { ...sent, url }];
    }),
  );
}

const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/;
const HINT = bool();

function readTool(subject: string, tool: ToolDescription): ToolDescription {
  const { annotations, ...rest } = readOptions(`mcp of ${subject}`, tool, {
    name: given<string>(
      '1 … 128 characters out of A-Z a-z 0-9 _ - .',
      (value) => typeof value === 'string' && TOOL_NAME.test(value),
    ),
    title: text(),
    description: text(),
    annotations: given<ToolHints>('an object', isObject),
    paramHeaders: given<Readonly<Record<string, string>>>(
      'an object: names of header fields by argument, each of them once',
      isParamHeaders,
    ),
  });
  if (annotations === undefined) return rest;
  return {
    ...rest,
    annotations: readOptions(`mcp.annotations of ${subject}`, annotations, {
      readOnlyHint: HINT,
      destructiveHint: HINT,
      idempotentHint: HINT,
      openWorldHint: HINT,
    }),
  };
}

function isParamHeaders(value: unknown): boolean {
  if (!isObject(value)) return false;
  const names = Object.values(value).map((name) => (typeof name === 'string' ? name.toLowerCase() : ''));
  return names.every((name) => /^[\w!#$%&'*+.^`|~-]+$/.test(name)) && new Set(names).size === names.length;
}

type Table = Readonly<Record<string, unknown>>;

/** Members with a name in `kinds` are options, all others dependencies. */
export function apart(spec: object, kinds: Table): readonly [options: Table, dependencies: Table] {
  const { options = [], others = [] } = Object.groupBy(Object.entries(spec), ([key]) =>
    Object.hasOwn(kinds, key) ? 'options' : 'others',
  );
  return [Object.fromEntries(options), Object.fromEntries(others)];
}

/** If a value is not a dependency, the error suggests the option with the most similar name. */
export function readDependencies(
  subject: string,
  given: Table,
  reserved: ReadonlySet<string> = RESERVED,
  option = 'a route option',
  kinds: Table = SPEC,
): Dependencies {
  const deps: Record<string, Dependency<unknown>> = {};
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (reserved.has(key) || key === '__proto__')
      throw new SvcError('E_ROUTE_SPEC', [subject, key, 'is reserved']);
    if (!Dependency.is(value)) {
      const near = closest(key, Object.keys(kinds));
      throw new SvcError('E_ROUTE_SPEC', [
        subject,
        key,
        near === undefined
          ? `is ${shown(value)}, but must be Depends(…)`
          : `is neither ${option} nor a dependency: did you mean "${near}"?`,
      ]);
    }
    deps[key] = value;
  }
  return deps;
}

const ERROR_STATUSES = [
  400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 412, 413, 415, 416, 417, 421, 422, 423, 424, 425, 426,
  428, 429, 431, 451, 500, 501, 502, 503, 504, 507,
] as const;
/** Statuses of error responses. A handler may return them even if `response` does not declare them. */
export type ErrorStatus = (typeof ERROR_STATUSES)[number];
/**
 * Error statuses that are not keys of `R`. This type compiles faster than `Exclude`, which tests each status
 * for each route.
 */
type UndeclaredError<R> = ({ [S in ErrorStatus]: S } & { [K in keyof R]: never })[ErrorStatus];
/**
 * The tuple `[body, status, headers]` without array methods. With them, the compiler would compare members of
 * a body with array methods of the same name.
 */
interface StatusTuple<T, S extends number> {
  readonly 0: T;
  readonly 1: S;
  readonly 2?: Readonly<Record<string, string>>;
  readonly length: 2 | 3;
}
type Answer<T, S extends number = number> = Reply<T, S> | StatusTuple<T, S>;
/**
 * Responses that every handler may return in addition to `response`: an empty response with 204, and response
 * objects.
 */
type OtherReply = Reply<null, 204> | StatusTuple<null, 204> | HttpResponse | Response;
/**
 * Responses of a route whose `response` is a list. A returned array is always the body, and never
 * `[body, status]`.
 */
type ListReply<T> =
  Wire<T> | T | Reply<Wire<T>> | Reply<unknown, ErrorStatus> | Reply<null, 204> | HttpResponse | Response;
/**
 * Type that a handler may return if its spec has `response`. Errors whose status `response` does not declare
 * may have any body.
 */
export type ReplyOf<R> = R extends TypeSource
  ? R extends FieldType<readonly unknown[], object>
    ? ListReply<Infer<R>>
    : Returned<R> | Answer<Returned<R>> | Answer<unknown, ErrorStatus> | OtherReply
  : R extends object
    ? | { [K in keyof R & number]: Returned<R[K]> | Answer<Returned<R[K]>, K> }[keyof R & number]
      | Answer<unknown, UndeclaredError<R>>
      | OtherReply
    : unknown;
/** Type that a handler may return: the type that `response` declares, or else any type. */
export type HandlerResult<S> = 'response' extends keyof S ? ReplyOf<S['response' & keyof S]> : unknown;

/**
 * Result of a handler that returns values of the type `R`, in a route with the spec `S`. A value that `response`
 * does not declare is compared with a type that names the mistake, which the compiler shows. With `NoInfer`,
 * the compiler does not resolve that type for the inference of `R`.
 */
export type CheckedResult<R, S> =
  IsDeclared<R, S> extends false
    ? NoInfer<unknown extends R ? HandlerResult<S> : Expected<R, S['response' & keyof S]>>
    : R | Promise<R>;
/** Separate, because the compiler infers `R` as a union only where no condition constrains `R`. */
type IsDeclared<R, S> = [R] extends [HandlerResult<S>] ? true : false;

/** Type with which a result `V` is compared, if `response` is `D`. */
type Expected<V, D> =
  V extends ReplyOf<D>
    ? V | Promise<V>
    : V extends Reply<infer T, infer N>
      ? Reply<ExpectedBody<T, N, D>, N> | Promise<Reply<ExpectedBody<T, N, D>, N>>
      : D extends FieldType<readonly unknown[], object>
        ? Eventual<ExpectedValue<V, SuccessOf<D>, 'response'>>
        : V extends StatusTuple<infer T, infer N>
          ? Eventual<readonly [ExpectedBody<T, N, D>, N]>
          : Eventual<ExpectedValue<V, SuccessOf<D>, 'response'>>;
/** The value or a promise of it; an error text stays alone. */
type Eventual<E> = E extends string | Declared<string, unknown> ? E : E | Promise<E>;

/** Expected type of a body of the type `T` with the status `N`. */
type ExpectedBody<T, N extends number, D> = D extends TypeSource
  ? ExpectedValue<T, WireOf<D>, 'response'>
  : number extends N
    ? 'response declares types by status: add the status, such as reply(body, 201)'
    : N extends keyof D
      ? ExpectedValue<T, WireOf<D[N]>, `response.${N}`>
      : `response declares no status ${N}: declare it, or return a declared status`;

/** Types of bodies that `response` declares for successes. */
type SuccessOf<D> = D extends TypeSource
  ? WireOf<D>
  : { [N in keyof D]: `${N & number}` extends `2${string}` ? WireOf<D[N]> : never }[keyof D];

/** The declared type `W`, with {@link Declared} or an error text in place of each wrong member of `T`. */
type ExpectedValue<T, W, Path extends string> = [T] extends [W]
  ? W
  : [T] extends [PromiseLike<unknown>]
    ? `${Path} is a promise: write await before it`
    : [W] extends [readonly (infer I)[]]
      ? T extends readonly (infer J)[]
        ? readonly ExpectedValue<J, I, `${Path}[]`>[]
        : `${Path} is declared as a list, and this is one value`
      : T extends readonly unknown[]
        ? `${Path} is declared as one value, and this is a list`
        : [T, W] extends [object, object]
          ? ExpectedMembers<T, W, Path>
          : Declared<Path, W>;
type ExpectedMembers<T, W, Path extends string> = W extends Date | Uint8Array
  ? Declared<Path, W>
  : { [K in keyof W]: K extends keyof T ? ExpectedValue<T[K], W[K], `${Path}.${K & string}`> : W[K] };

/** Type that is declared for the part `Path` of a response. Only error messages contain it. */
interface Declared<Path extends string, Type> {
  readonly '~declared': readonly [Path, Type];
}

/** Returns whether `response` is a single type, and not an object of types by status. */
export function isTypeSource(response: object): response is TypeSource {
  return typeof response === 'function' || response instanceof FieldType || isStandardSchema(response);
}

/** Returns the types of `response` with their statuses. `undefined` stands for the default status. */
export function responseTypes(
  response: RouteSpec['response'],
): readonly (readonly [status: number | undefined, type: TypeSource])[] {
  if (response === undefined) return [];
  if (isTypeSource(response)) return [[undefined, response]];
  return Object.entries(response).map(([status, type]) => [Number(status), type]);
}

export function typesByStatus(
  response: Readonly<Record<number, TypeSource>>,
  subject: string,
): (readonly [status: number, type: TypeSource])[] {
  return Object.entries(response).map(([key, source]) => {
    if (!/^[2-5]\d\d$/.test(key))
      throw new SvcError('E_ROUTE_SPEC', [
        subject,
        'response',
        `has the key "${key}", which is not a status code from 200 to 599: use a type, or an object such as { 200: User }`,
      ]);
    return [Number(key), source];
  });
}
