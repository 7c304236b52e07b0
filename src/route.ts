/**
 * Routes as they are declared: on a `Router`, with data before the handler; and as one flat list when the application compiles.
 */
import { SvcError } from './errors.ts';
import { Dependency } from './di.ts';
import { declaredHere } from './findings.ts';
import { closest, given, int, readOptions, shown, text } from './options.ts';
import { isToken } from './http/headers.ts';
import { REQUEST_TIMEOUT } from './http/limits.ts';
import { fillTemplate, parseTemplate } from './http/path.ts';
import { asMiddleware } from './http/pipeline.ts';
import { readRouteRateLimit } from './http/rate-limiter.ts';
import { MOUNT_PARAMETER, StaticMount } from './http/static.ts';
import { DeclaredSocket } from './ws-route.ts';
import type { InputOf, InputShape, TextInputs } from './di.ts';
import type { Declared, Finding } from './findings.ts';
import type { OptionKind } from './options.ts';
import type { Infer, TypeSource, Wire } from './schema.ts';
import type { Context, Middleware, RouteRateLimit, SecurityRequirement } from './http/contracts.ts';
import type { ParsedTemplate, PathParams, PathTemplate } from './http/path.ts';
import type { MiddlewareFunction } from './http/pipeline.ts';
import type { Reply } from './http/reply.ts';
import type { HttpResponse } from './http/response.ts';
import type { StaticOptions } from './http/static.ts';
import type { CheckedSocketSpec, MessageOf, SocketContext, SocketHandler, WebSocketRouter } from './ws-route.ts';

/** A finding of `svc check` that is meant to be there. */
export interface Allowance {
  readonly rule: Finding['rule'];
  readonly reason: string;
  /** A date (`2027-01-31`) after which the finding is an error again. */
  readonly until?: string | undefined;
}

/** What clients of MCP are told about a route that is a tool, in place of what its spec says. */
export interface ToolDescription {
  /** 1 … 128 characters out of `A-Z a-z 0-9 _ - .`. Default: the name of the route, else its method and path. */
  readonly name?: string | undefined;
  /** For people. Default: `summary`. */
  readonly title?: string | undefined;
  /** For models: what it does and when to use it. Default: `description`, else `summary`. */
  readonly description?: string | undefined;
  /** What clients may believe of it. Default: by its method. */
  readonly annotations?: ToolHints | undefined;
}

/** What a call does. Hints: clients decide by them whether to ask their user first. */
export interface ToolHints {
  /** It changes nothing. Default: true for GET. */
  readonly readOnlyHint?: boolean | undefined;
  /** It may overwrite or delete. Default: false for GET. */
  readonly destructiveHint?: boolean | undefined;
  /** Calling it again with the same arguments changes nothing more. Default: true for GET, PUT and DELETE. */
  readonly idempotentHint?: boolean | undefined;
  /** It reaches beyond this application. Default: not told. */
  readonly openWorldHint?: boolean | undefined;
}

/** What a route asks for and says about itself. Every other key of a spec is a dependency, named as the handler sees it. */
export interface RouteSpec extends TextInputs {
  /** The type of the JSON body: a schema class, or a type such as `list(Item)`. */
  readonly body?: TypeSource | undefined;
  /** The fields of a form. */
  readonly form?: InputShape | undefined;
  /** What the handler replies with; by status where there are several. What does not fit is a 500, never sent. */
  readonly response?: TypeSource | Readonly<Record<number, TypeSource>> | undefined;
  /** The status of a reply that names none: 200 … 599. Default 200, or 204 for nothing. */
  readonly status?: number | undefined;
  /** What `urlFor` knows the route by. Unique in an application. */
  readonly name?: string | undefined;
  readonly summary?: string | undefined;
  readonly description?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly deprecated?: boolean | undefined;
  /** Whether it is a tool for MCP clients, or what they are told about it. Default true. */
  readonly mcp?: boolean | ToolDescription | undefined;
  /** Meant to be open to everybody; text says why. */
  readonly public?: boolean | string | undefined;
  readonly allow?: readonly Allowance[] | undefined;
  /** Yours: anything that middleware or rules want to know about the route, at `req.route.meta`. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined;
  /** `false`: an array `[body, status]` is a list, never a reply with a status. */
  readonly tuple?: boolean | undefined;
  /** The most bytes of a body that this route reads. Default 10,000,000. */
  readonly maxBodyBytes?: number | undefined;
  /** How often one client may call it, in place of what the rate limit middleware says; false: as often as it likes. */
  readonly rateLimit?: RouteRateLimit | false | undefined;
  /** How long it may take to answer, 1 … 86_400_000 ms, in place of what the timeout middleware says, or without any; false: as long as it likes. Beyond it: 503. */
  readonly timeoutMs?: number | false | undefined;
  /** How long a client may take to send the whole request, 10 … 86_400_000 ms, in place of the setting `requestTimeoutMs`: for large uploads. Beyond it: 408. */
  readonly requestTimeoutMs?: number | undefined;
  /** What a client must show, where no dependency says it. */
  readonly security?: SecurityRequirement | readonly SecurityRequirement[] | undefined;
  /** Middleware around this route alone, inside the application's. */
  readonly use?: readonly (Middleware | MiddlewareFunction)[] | undefined;
}

/** Names that no dependency may take: the parts of the context, and options that are to come. */
export type ReservedKey = keyof RouteSpec | 'params' | 'req' | 'signal' | 'state' | 'message' | 'protocols' | 'origins';
/** Dependencies by the name that the handler sees. */
export type Dependencies = Readonly<Record<string, Dependency<unknown>>>;

/** `S`, or a sentence at each key that is neither option nor dependency. */
export type CheckedSpec<S> = {
  readonly [K in keyof S]: K extends keyof RouteSpec ? RouteSpec[K]
    : K extends ReservedKey ? `"${K & string}" is reserved: give the dependency another name`
    : S[K] extends Dependency<unknown> ? S[K] : `"${K & string}" is no route option, and no Depends(…); data of your own goes under meta`;
};

/** What the dependencies of a spec give, but for those whose names are taken. */
export type Injected<S, Taken = never> = { readonly [K in Exclude<keyof S, ReservedKey | Taken>]: S[K] extends Dependency<infer T> ? T : never };
/** The validated inputs of a spec. */
export type Inputs<S> = { readonly [K in keyof S & ('body' | 'form' | 'query' | 'headers' | 'cookies')]: K extends 'body' ? Infer<S[K]> : InputOf<S[K]> };

/** What a handler gets: the parameters of the path, the inputs and dependencies of its spec, and those of its router. */
export type HandlerContext<P extends string, S = object, D = object> = Context & { readonly params: PathParams<P> } & Inputs<S> & Injected<S> & Injected<D, keyof S>;

/** Statuses whose replies are no part of `response`, unless it names them. */
export type ErrorStatus = 400 | 401 | 402 | 403 | 404 | 405 | 406 | 409 | 410 | 411 | 412 | 413 | 415 | 416 | 417 | 421 | 422 | 423 | 424 | 425 | 426 | 428 | 429 | 431 | 451
  | 500 | 501 | 502 | 503 | 504 | 507;
type Answer<T, S extends number = number> = Reply<T, S> | readonly [body: T, status: S, headers?: Readonly<Record<string, string>>];
/** What any route may return beside its `response`: nothing at all with 204, errors, and responses made by hand. */
type OtherReply = Answer<null, 204> | Answer<unknown, ErrorStatus> | HttpResponse | Response;
/** What a handler may return when its spec has a `response`. */
export type ReplyOf<R> = OtherReply | (R extends TypeSource ? Wire<Infer<R>> | Infer<R> | Answer<Wire<Infer<R>>>
  : { [K in keyof R & number]: Wire<Infer<R[K]>> | Answer<Wire<Infer<R[K]>>, K> }[keyof R & number]);
/** What a handler may return: anything that http/reply.ts reads, or what `response` asks for. */
export type HandlerResult<S> = S extends { readonly response: infer R extends object } ? ReplyOf<R> : unknown;

/** Answers requests of one route. */
export type Handler<P extends string, S = object, D = object, R = unknown> = (context: HandlerContext<P, S, D>) => R | Promise<R>;

/** What every router takes. */
export interface RouterOptions<D = Dependencies> {
  /** Before every path of this router: `''`, or `/…` without a slash at the end. */
  readonly prefix?: string | undefined;
  /** Added to the tags of every route. */
  readonly tags?: readonly string[] | undefined;
  /** Dependencies of every route, resolved before its inputs are read, whether its handler looks at them or not. */
  readonly deps?: D | undefined;
}

/** A route as somebody wrote it down. */
export interface DeclaredRoute {
  readonly methods: readonly string[];
  readonly path: string;
  readonly spec: RouteSpec;
  readonly deps: Dependencies;
  readonly handler: (context: never) => unknown;
  readonly declared: Declared;
  /** The static files that it is a part of. */
  readonly mount?: StaticMount | undefined;
  /** What opens as a WebSocket. */
  readonly socket?: DeclaredSocket | undefined;
}

/** A declared route with the prefixes, tags and dependencies of the routers around it. */
export interface FlatRoute extends DeclaredRoute {
  readonly template: ParsedTemplate;
  readonly tags: readonly string[];
  /** By name, those of the outermost router first; of one name, the handler sees the last, and all are resolved. */
  readonly routerDeps: readonly (readonly [name: string, dependency: Dependency<unknown>])[];
  readonly use: readonly Middleware[];
}

interface Mount {
  readonly prefix: string;
  readonly routes: Routes;
  readonly declared: Declared;
}

/** What routers around a route add to it. */
interface Surroundings {
  readonly prefix: string;
  readonly tags: readonly string[];
  readonly deps: FlatRoute['routerDeps'];
  readonly within: readonly Routes[];
}
const NOTHING_AROUND: Surroundings = { prefix: '', tags: [], deps: [], within: [] };

/** Routes without their types: what routers of any dependencies have in common. */
export class Routes {
  readonly #prefix: string;
  readonly #tags: readonly string[];
  readonly #deps: Dependencies;
  readonly #routes: DeclaredRoute[] = [];
  readonly #mounts: Mount[] = [];
  #isFrozen = false;
  #named: Map<string, ParsedTemplate> | undefined;

  /** @internal */
  constructor(options: RouterOptions) {
    const { prefix, tags, deps } = readOptions('Router', options, {
      prefix: text(''), tags: given<readonly string[]>('a list of strings', Array.isArray),
      deps: given<Dependencies>('an object of Depends(…)', (value) => typeof value === 'object' && value !== null),
    });
    this.#prefix = checkedPrefix(prefix);
    this.#tags = [...tags ?? []];
    this.#deps = readDependencies('Router', deps ?? {});
  }

  /** Makes the routes of another router, present and future, routes of this one, below `prefix`. */
  includeRouter(router: Routes, prefix = ''): this {
    this.mustNotBeFrozen('include a router');
    if (!(router instanceof Routes)) throw new SvcError('E_OPTION_RANGE', ['includeRouter()', 'router', 'a Router', shown(router)]);
    this.#mounts.push({ prefix: checkedPrefix(prefix), routes: router, declared: declaredHere() });
    return this;
  }

  /**
   * The path of a named route of this router or one below it, parameters encoded. On the application it is the whole path.
   *
   * @throws SvcError `E_URL_NAME` with the nearest name, `E_URL_PARAM`
   */
  urlFor(name: string, params: Readonly<Record<string, unknown>> = {}): string {
    const found = this.#findNamed(name);
    if (found === undefined) throw new SvcError('E_URL_NAME', [name, closest(name, this.#templates().keys())]);
    return fillTemplate(name, found, params);
  }

  /** Every route with its whole path, in order of declaration; what does not fit together is reported. @internal */
  flatten(report: (finding: Finding) => void, around: Surroundings = NOTHING_AROUND): FlatRoute[] {
    const prefix = around.prefix + this.#prefix;
    const tags = [...around.tags, ...this.#tags];
    const deps = [...around.deps, ...Object.entries(this.#deps)];
    const flat: FlatRoute[] = [];
    for (const route of this.#routes) {
      const template = readWhole(prefix + route.path, route, report);
      if (template === undefined) continue;
      const { spec } = route;
      flat.push({ ...route, template, tags: [...tags, ...spec.tags ?? []], routerDeps: deps, use: (spec.use ?? []).map(asMiddleware) });
    }
    for (const mount of this.#mounts) {
      if (mount.routes === this || around.within.includes(mount.routes)) {
        report({
          rule: 'SVC106', severity: 'error', subject: `includeRouter(${mount.prefix || "''"})`, place: mount.declared.place,
          message: 'a router is included in itself', remedy: 'Include each router below routers that do not lead back to it',
        });
      } else flat.push(...mount.routes.flatten(report, { prefix: prefix + mount.prefix, tags, deps, within: [...around.within, this] }));
    }
    return flat;
  }

  /** Ends registration, here and in every included router. @internal */
  freeze(): void {
    if (this.#isFrozen) return;
    this.#isFrozen = true;
    for (const mount of this.#mounts) mount.routes.freeze();
  }

  /** @internal */
  protected addRoute(methods: readonly string[], path: string, rest: readonly unknown[], mount?: StaticMount): this {
    const subject = `${methods.join(', ')} ${path}`;
    this.mustNotBeFrozen(`register ${subject}`);
    if (methods.length === 0) throw new SvcError('E_ROUTE_METHOD', ['']);
    for (const method of methods) if (typeof method !== 'string' || !isToken(method) || method !== method.toUpperCase()) throw new SvcError('E_ROUTE_METHOD', [method]);
    const [given, handler] = rest.length > 1 ? rest : [{}, rest[0]];
    if (typeof handler !== 'function') throw new SvcError('E_ROUTE_HANDLER', [subject]);
    if (path !== '') parseTemplate(path);
    const { spec, deps } = readSpec(subject, given);
    this.#routes.push({ methods: [...methods], path, spec, deps, handler: handler as DeclaredRoute['handler'], declared: declaredHere(), mount });
    return this;
  }

  /**
   * The files of a directory, for GET and HEAD: `app.mountStatic('/static', 'public')`. A relative path counts from where the
   * program was started, a URL from the module that makes it. Each route of yours that matches a path, too, goes before.
   *
   * @throws SvcError `E_PATH_TEMPLATE`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`; a directory that is not there is a finding
   */
  mountStatic(urlPath: string, directory: string | URL, options: StaticOptions = {}): this {
    const prefix = urlPath === '/' ? '' : checkedPrefix(urlPath);
    const mount = new StaticMount(directory, options);
    const handler = ({ req }: Context): unknown => mount.answer(req, (req.pathParams as { readonly [MOUNT_PARAMETER]?: string })[MOUNT_PARAMETER] ?? '');
    this.addRoute(['GET'], `${prefix}/{${MOUNT_PARAMETER}:path}`, [{ name: mount.name, mcp: false }, handler], mount);
    this.addRoute(['GET'], `${prefix}/`, [{ mcp: false }, handler], mount);
    return prefix === '' ? this : this.addRoute(['GET'], prefix, [{ mcp: false }, ({ req }: Context) => mount.answer(req, undefined)], mount);
  }

  /** @internal */
  protected addSocket(path: string, rest: readonly unknown[]): DeclaredSocket {
    this.mustNotBeFrozen(`register WEBSOCKET ${path}`);
    if (path !== '') parseTemplate(path);
    const socket = new DeclaredSocket(path, rest);
    const { query, headers, cookies, name, summary, description, tags, deprecated, public: isPublic, allow, meta, rateLimit, timeoutMs, security, use = [] } = socket.settings;
    const spec: RouteSpec = {
      query, headers, cookies, name, summary, description, tags, deprecated, public: isPublic, allow, meta, timeoutMs, security, mcp: false, use: [...use, socket.guard],
      rateLimit: typeof rateLimit === 'object' ? readRouteRateLimit(socket.subject, rateLimit) : rateLimit,
    };
    this.#routes.push({ methods: ['WEBSOCKET'], path, spec, deps: socket.deps, handler: notCalled, declared: declaredHere(), socket });
    return socket;
  }

  /** @throws SvcError `E_APP_FROZEN` once compiled @internal */
  protected mustNotBeFrozen(what: string): void {
    if (this.#isFrozen) throw new SvcError('E_APP_FROZEN', [what]);
  }

  /** The template of a named route, remembered once nothing can be added any more. */
  #findNamed(name: string): ParsedTemplate | undefined {
    if (!this.#isFrozen) return this.#templates().get(name);
    return (this.#named ??= this.#templates()).get(name);
  }

  #templates(): Map<string, ParsedTemplate> {
    return new Map(this.flatten(() => undefined).flatMap((route) => route.spec.name === undefined ? [] : [[route.spec.name, route.template] as const]));
  }
}

/** Collects routes. An application is one; others are made for a part of it and included. */
export class Router<const D extends Dependencies = Record<never, never>> extends Routes {
  /** @throws SvcError `E_PATH_TEMPLATE` for a prefix that is none, `E_ROUTE_SPEC` for what is no dependency */
  constructor(options: RouterOptions<D> = {}) { super(options); }

  get<const P extends string>(path: PathTemplate<P>, handler: Handler<P, object, D>): this;
  get<const P extends string, const S extends object, const R extends HandlerResult<S>>(path: PathTemplate<P>, spec: S & CheckedSpec<S>, handler: Handler<P, S, D, R>): this;
  get(path: string, ...rest: never[]): this { return this.addRoute(['GET'], path, rest); }

  post<const P extends string>(path: PathTemplate<P>, handler: Handler<P, object, D>): this;
  post<const P extends string, const S extends object, const R extends HandlerResult<S>>(path: PathTemplate<P>, spec: S & CheckedSpec<S>, handler: Handler<P, S, D, R>): this;
  post(path: string, ...rest: never[]): this { return this.addRoute(['POST'], path, rest); }

  put<const P extends string>(path: PathTemplate<P>, handler: Handler<P, object, D>): this;
  put<const P extends string, const S extends object, const R extends HandlerResult<S>>(path: PathTemplate<P>, spec: S & CheckedSpec<S>, handler: Handler<P, S, D, R>): this;
  put(path: string, ...rest: never[]): this { return this.addRoute(['PUT'], path, rest); }

  patch<const P extends string>(path: PathTemplate<P>, handler: Handler<P, object, D>): this;
  patch<const P extends string, const S extends object, const R extends HandlerResult<S>>(path: PathTemplate<P>, spec: S & CheckedSpec<S>, handler: Handler<P, S, D, R>): this;
  patch(path: string, ...rest: never[]): this { return this.addRoute(['PATCH'], path, rest); }

  delete<const P extends string>(path: PathTemplate<P>, handler: Handler<P, object, D>): this;
  delete<const P extends string, const S extends object, const R extends HandlerResult<S>>(path: PathTemplate<P>, spec: S & CheckedSpec<S>, handler: Handler<P, S, D, R>): this;
  delete(path: string, ...rest: never[]): this { return this.addRoute(['DELETE'], path, rest); }

  /** A route of any methods, each in capitals. */
  route<const P extends string>(path: PathTemplate<P>, methods: readonly string[], handler: Handler<P, object, D>): this;
  route<const P extends string, const S extends object, const R extends HandlerResult<S>>(path: PathTemplate<P>, methods: readonly string[], spec: S & CheckedSpec<S>, handler: Handler<P, S, D, R>): this;
  route(path: string, methods: readonly string[], ...rest: never[]): this { return this.addRoute(methods, path, rest); }

  /**
   * A WebSocket (RFC 6455): what happens on it is told to the handlers of the router that this answers, or a handler takes each
   * socket from its opening to its end. A request that asks for none is answered with 426, unless a GET route has the path.
   */
  websocket<const P extends string>(path: PathTemplate<P>, handler: SocketHandler<SocketContext<P, object, D>>): this;
  websocket<const P extends string, const S extends object>(path: PathTemplate<P>, spec: S & CheckedSocketSpec<S>, handler: SocketHandler<SocketContext<P, S, D>, MessageOf<S>>): this;
  websocket<const P extends string, const S extends object = object>(path: PathTemplate<P>, spec?: S & CheckedSocketSpec<S>): WebSocketRouter<SocketContext<P, S, D>, MessageOf<S>>;
  websocket(path: string, ...rest: never[]): unknown {
    const socket = this.addSocket(path, rest);
    return typeof rest.at(-1) === 'function' ? this : socket.router;
  }
}

/** The handler of a WebSocket route is made when the application compiles. */
function notCalled(): undefined { return undefined; }

const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null;

/** The options of a route by name. */
const SPEC = {
  body: given<TypeSource>(), form: given<InputShape>(), query: given<InputShape>(), headers: given<InputShape>(), cookies: given<InputShape>(), response: given<NonNullable<RouteSpec['response']>>(),
  status: given<number>('an integer 200 … 599', (value) => Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599),
  name: text(), summary: text(), description: text(), tags: given<readonly string[]>('a list of strings', Array.isArray),
  deprecated: given<boolean>('true or false', isFlag), mcp: given<boolean | ToolDescription>('true, false or { name, title, description, annotations }', (value) => isFlag(value) || isRecord(value)),
  public: given<boolean | string>('true, false or a reason', (value) => isFlag(value) || typeof value === 'string'),
  allow: given<readonly Allowance[]>('a list of { rule, reason }', Array.isArray),
  meta: given<Readonly<Record<string, unknown>>>('an object', isRecord), tuple: given<boolean>('true or false', isFlag),
  maxBodyBytes: given<number>('an integer 0 or more', (value) => Number.isSafeInteger(value) && (value as number) >= 0),
  rateLimit: given<RouteRateLimit | false>('false or { perMinute, burst, key }', (value) => value === false || isRecord(value)),
  timeoutMs: given<number | false>('false or an integer 1 … 86400000', (value) => value === false || int(1, 1, 86_400_000).accepts(value)),
  requestTimeoutMs: REQUEST_TIMEOUT,
  security: given<SecurityRequirement | readonly SecurityRequirement[]>('a requirement or a list of them', isRecord),
  use: given<readonly (Middleware | MiddlewareFunction)[]>('a list of middleware', Array.isArray),
} satisfies Record<keyof RouteSpec, OptionKind<unknown>>;

const RESERVED: ReadonlySet<string> = new Set<ReservedKey>(['params', 'req', 'signal', 'state', 'message', 'protocols', 'origins']);

/** Options and dependencies of a spec, told apart. @throws SvcError `E_ROUTE_SPEC`, `E_OPTION_RANGE` */
function readSpec(subject: string, spec: unknown): { spec: RouteSpec; deps: Dependencies } {
  if (typeof spec !== 'object' || spec === null) throw new SvcError('E_ROUTE_HANDLER', [subject]);
  const options: Record<string, unknown> = {};
  const deps: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(spec)) (Object.hasOwn(SPEC, key) ? options : deps)[key] = value;
  const { rateLimit, mcp, ...rest } = readOptions(subject, options, SPEC);
  return {
    spec: { ...rest, rateLimit: typeof rateLimit === 'object' ? readRouteRateLimit(subject, rateLimit) : rateLimit, mcp: typeof mcp === 'object' ? readTool(subject, mcp) : mcp },
    deps: readDependencies(subject, deps),
  };
}

/** What the names of tools are made of. */
const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/;
const HINT = given<boolean>('true or false', isFlag);

/** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
function readTool(subject: string, tool: ToolDescription): ToolDescription {
  const { annotations, ...rest } = readOptions(`mcp of ${subject}`, tool, {
    name: given<string>('1 … 128 characters out of A-Z a-z 0-9 _ - .', (value) => typeof value === 'string' && TOOL_NAME.test(value)),
    title: text(), description: text(), annotations: given<ToolHints>('an object', isRecord),
  });
  if (annotations === undefined) return rest;
  return { ...rest, annotations: readOptions(`mcp.annotations of ${subject}`, annotations, { readOnlyHint: HINT, destructiveHint: HINT, idempotentHint: HINT, openWorldHint: HINT }) };
}

function readDependencies(subject: string, given: Readonly<Record<string, unknown>>): Dependencies {
  const deps: Record<string, Dependency<unknown>> = {};
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (RESERVED.has(key) || key === '__proto__') throw new SvcError('E_ROUTE_SPEC', [subject, key, 'is reserved']);
    if (!Dependency.is(value)) {
      const near = closest(key, Object.keys(SPEC));
      throw new SvcError('E_ROUTE_SPEC', [subject, key, near === undefined ? `is ${shown(value)}, no Depends(…)` : `is no route option; did you mean "${near}"?`]);
    }
    deps[key] = value;
  }
  return deps;
}

/** A prefix and a path read together: a parameter that both have is a mistake between two declarations. */
function readWhole(path: string, route: DeclaredRoute, report: (finding: Finding) => void): ParsedTemplate | undefined {
  try {
    return parseTemplate(path);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    report({
      rule: 'SVC106', severity: 'error', subject: `${route.methods.join(', ')} ${path}`, message: error.message,
      remedy: error.remedy, place: route.declared.place,
    });
    return undefined;
  }
}

function checkedPrefix(prefix: string): string {
  if (prefix === '') return prefix;
  if (typeof prefix === 'string' && prefix.endsWith('/')) throw new SvcError('E_PATH_TEMPLATE', [prefix, 'a prefix does not end with "/"']);
  parseTemplate(prefix);
  return prefix;
}
