/**
 * Routers collect the declarations of routes. For the compilation, they list all routes with their full
 * paths.
 */
import { SvcError } from '../base/errors.ts';
import { Dependency } from './di.ts';
import { declaredHere } from '../base/findings.ts';
import { closest, given, isObject, readOptions, shown, text } from '../base/options.ts';
import { readDependencies, readSpec } from './spec.ts';
import { readExceptionHandler } from './declared-responses.ts';
import { isMethod } from '../http/headers.ts';
import { fillTemplate, parseTemplate } from '../http/path.ts';
import { asMiddleware, ExceptionHandlers } from '../http/pipeline.ts';
import { DeprecationMiddleware } from '../http/middleware/deprecation.ts';
import { readRouteRateLimit } from '../http/middleware/rate-limiter.ts';
import { StaticMount } from '../http/files/static.ts';
import type { FetchMount } from '../http/fetch-mount.ts';
import { DeclaredSocket } from './websocket.ts';
import type { ExceptionArguments, ExceptionSpec } from './declared-responses.ts';
import type { CheckedSpec, InputOf, SpecOf } from './di.ts';
import type { Declared, Finding } from '../base/findings.ts';
import type { Dependencies, GetSpec, CheckedResult, MountOptions, ReservedKey, RouteSpec } from './spec.ts';
import type { Infer } from '../schema/schema.ts';
import type { Context, HttpRequest, Middleware, MiddlewareFunction } from '../http/contracts.ts';
import type { ErrorClass, ExceptionHandler } from '../http/pipeline.ts';
import type { ParsedTemplate, PathParams, PathTemplate } from '../http/path.ts';
import type {
  CheckedSocketSpec,
  MessageOf,
  SocketContext,
  SocketHandler,
  WebSocketRouter,
  WebSocketSpec,
} from './websocket.ts';

type RouteKind = 'a route option nor Depends(…): put your own data into meta';
type GetKind = 'an option of a GET route nor Depends(…): use query, app.post(), or meta for your own data';

/** Object type with the values of the dependencies in a spec, by name. */
export type Injected<S, Taken = never> = {
  readonly [K in Exclude<keyof S, ReservedKey | Taken>]: S[K] extends Dependency<infer T> ? T : never;
};
type InputKey = 'body' | 'form' | 'query' | 'headers' | 'cookies';
/** Object type with the validated inputs, and the values of the dependencies, in a spec. */
type Given<S> = {
  readonly [K in Exclude<keyof S, Exclude<ReservedKey, InputKey>>]: K extends 'body'
    ? Infer<S[K]>
    : K extends InputKey
      ? InputOf<S[K]>
      : S[K] extends Dependency<infer T>
        ? T
        : never;
};

/** Type of the path parameters: of the option `params`, or else of the types in the path. */
type ParamsOf<P extends string, S> = S extends { readonly params: infer I } ? InputOf<I> : PathParams<P>;

/** Context of a handler: path parameters, inputs, and the dependencies of its route and routers. */
export type HandlerContext<P extends string, S = object, D = object> = Context & {
  readonly params: ParamsOf<P, S>;
} & Given<S> &
  Injected<D, keyof S>;

/** Handler function of a route. */
export type Handler<P extends string, S = object, D = object, R = unknown> = (
  context: HandlerContext<P, S, D>,
) => R | Promise<R>;

/** {@link Handler} of a route without a spec: a separate type, because it compiles faster. */
type PlainHandler<P extends string, D> = (context: PlainContext<P, D>) => unknown;
type PlainContext<P extends string, D> = Context & { readonly params: PathParams<P> } & Injected<D>;

/** Options of a router. */
export interface RouterOptions<D = Dependencies, B extends string = string> {
  /**
   * Path in front of the path of each route of this router: `''`, or a path such as `/users`, without a slash
   * at the end. It may contain parameters.
   */
  readonly prefix?: PathTemplate<B> | undefined;
  /** Tags that are added to each route, for the OpenAPI document. */
  readonly tags?: readonly string[] | undefined;
  /**
   * Dependencies of each route, even if a handler does not use them. They are resolved before the inputs of
   * the route are read.
   */
  readonly deps?: D | undefined;
}

interface DeclaredRoute {
  readonly methods: readonly string[];
  readonly path: string;
  /** Parsed path of the route, without the prefixes of routers; undefined if the path is empty. */
  readonly own: ParsedTemplate | undefined;
  readonly spec: RouteSpec;
  readonly deps: Dependencies;
  readonly handler: (context: never) => unknown;
  readonly declared: Declared;
  /** The static folder whose files the route serves. */
  readonly mount?: StaticMount | FetchMount | undefined;
  /** Options and handlers of a WebSocket route; undefined for other routes. */
  readonly socket?: DeclaredSocket | undefined;
}

/** A declared route with its full path, and with everything that its routers add, such as middleware. */
export interface FlatRoute extends DeclaredRoute {
  readonly template: ParsedTemplate;
  readonly tags: readonly string[];
  /**
   * Dependencies of the routers around the route, outer routers first. If a name occurs several times, the
   * handler gets the last one.
   */
  readonly routerDeps: readonly (readonly [name: string, dependency: Dependency<unknown>])[];
  /** Middleware of the route: first of outer routers, then of inner routers, last of its spec. */
  readonly use: readonly Middleware[];
  /** Exception handlers of the routers around the route, inner routers first. */
  readonly handlers: readonly ExceptionHandlers[];
}

interface Mount {
  readonly prefix: string;
  readonly routes: Routes;
  readonly declared: Declared;
}

/**
 * Returns the middleware of a route: first of its routers, then the middleware that announces its
 * deprecation, then of its spec.
 */
function layersOf(outer: readonly Middleware[], { use = [], deprecated }: RouteSpec): readonly Middleware[] {
  const layers = use.map(asMiddleware);
  return typeof deprecated === 'object'
    ? [...outer, new DeprecationMiddleware(deprecated), ...layers]
    : [...outer, ...layers];
}

/** Parts that outer routers add to a route. */
interface Surroundings {
  readonly prefix: string;
  readonly tags: readonly string[];
  readonly deps: FlatRoute['routerDeps'];
  readonly use: readonly Middleware[];
  readonly handlers: readonly ExceptionHandlers[];
  readonly within: readonly Routes[];
}
/** Name of the path parameter that contains the path of a static file. */
const MOUNT_PARAMETER = 'file';

const NOTHING_AROUND: Surroundings = { prefix: '', tags: [], deps: [], use: [], handlers: [], within: [] };
/**
 * Empty spec for all routes without a spec. They share it, because an application may have thousands of
 * routes.
 */
const NOTHING_ASKED: { readonly spec: RouteSpec; readonly deps: Dependencies } = Object.freeze({
  spec: Object.freeze({}),
  deps: Object.freeze({}),
});

/** Base class of all routers. It has no type parameters, so that each router can include any other one. */
export class Routes {
  readonly #prefix: string;
  readonly #tags: readonly string[];
  readonly #deps: Dependencies;
  readonly #routes: DeclaredRoute[] = [];
  readonly #mounts: Mount[] = [];
  readonly #layers: Middleware[] = [];
  readonly #handlers: ExceptionHandlers = new ExceptionHandlers();
  #isFrozen = false;
  #named: Map<string, ParsedTemplate> | undefined;

  /** @internal */
  constructor(options: RouterOptions) {
    const { prefix, tags, deps } = readOptions('Router', options, {
      prefix: text(''),
      tags: given<readonly string[]>('a list of strings', Array.isArray),
      deps: given<Dependencies>('an object of Depends(…)', isObject),
    });
    this.#prefix = checkedPrefix(prefix);
    this.#tags = [...(tags ?? [])];
    this.#deps = deps === undefined ? NOTHING_ASKED.deps : readDependencies('Router', deps);
  }

  /**
   * Adds middleware around all routes of this router and its inner routers, including routes that are added
   * later. Middleware of outer routers runs first. Within a router, middleware runs in the order in which it
   * was added.
   * @throws SvcError `E_MIDDLEWARE` when the value is neither a function nor an object with handle()
   */
  use(middleware: Middleware | MiddlewareFunction): this {
    this.assertNotFrozen('middleware');
    this.#layers.push(asMiddleware(middleware));
    return this;
  }

  /**
   * Adds a function that turns errors of this class, and of its subclasses, into responses. It handles errors
   * of routes and middleware of this router. Handlers of inner routers take precedence. Within a router, the
   * handler of the most specific class is called.
   * @throws SvcError `E_EXCEPTION_HANDLER` when the arguments are invalid, or this router already has a
   * handler for this class
   */
  exceptionHandler<E>(errorClass: ErrorClass<E>, handler: ExceptionHandler<E>): this;
  /**
   * Adds an exception handler with a spec. Its `response` declares the responses, which are checked and
   * documented like the responses of routes.
   */
  exceptionHandler<E>(errorClass: ErrorClass<E>, spec: ExceptionSpec, handler: ExceptionHandler<E>): this;
  exceptionHandler<E>(errorClass: ErrorClass<E>, ...rest: ExceptionArguments<E>): this {
    this.assertNotFrozen('an exception handler');
    const { handler, plan, spec } = readExceptionHandler(errorClass, rest);
    if (!this.#handlers.add(errorClass, handler, plan, spec))
      throw new SvcError('E_EXCEPTION_HANDLER', [
        `${errorClass.name} already has an exception handler in this router`,
      ]);
    return this;
  }

  /** Adds all routes of another router below `prefix`, including routes that are added to it later. */
  includeRouter(router: Routes, prefix = ''): this {
    this.assertNotFrozen('a router');
    if (!(router instanceof Routes))
      throw new SvcError('E_OPTION_RANGE', ['includeRouter()', 'router', 'must be a Router', shown(router)]);
    this.#mounts.push({ prefix: checkedPrefix(prefix), routes: router, declared: declaredHere() });
    return this;
  }

  /**
   * Returns the path of the route with this name in this router or an included one. Parameters are
   * percent-encoded. The path begins at this router: only `app.urlFor()` returns the full path.
   * @throws SvcError `E_URL_NAME` when no route has this name, `E_URL_PARAM` when a parameter is missing,
   * unknown or invalid
   */
  urlFor(name: string, params: Readonly<Record<string, unknown>> = {}): string {
    const found = this.#findNamed(name);
    if (found === undefined)
      throw new SvcError('E_URL_NAME', [name, closest(name, this.#templates().keys())]);
    return fillTemplate(name, found, params);
  }

  /**
   * Returns all routes with their full paths, in the order of declaration. Invalid paths, and routers that
   * include themselves, are reported as findings.
   * @internal
   */
  flatten(report: (finding: Finding) => void, around: Surroundings = NOTHING_AROUND): FlatRoute[] {
    const prefix = around.prefix + this.#prefix;
    const tags = [...around.tags, ...this.#tags];
    const routerDeps = [...around.deps, ...Object.entries(this.#deps)];
    const use = this.#layers.length === 0 ? around.use : [...around.use, ...this.#layers];
    const handlers = this.#handlers.size === 0 ? around.handlers : [this.#handlers, ...around.handlers];
    const within = [...around.within, this];
    const flat: FlatRoute[] = [];
    for (const route of this.#routes) {
      const template =
        prefix === '' && route.own !== undefined ? route.own : readWhole(prefix + route.path, route, report);
      if (template === undefined) continue;
      const { spec } = route;
      flat.push({
        ...route,
        template,
        routerDeps,
        tags: spec.tags === undefined ? tags : [...tags, ...spec.tags],
        use: spec.use === undefined && typeof spec.deprecated !== 'object' ? use : layersOf(use, spec),
        handlers,
      });
    }
    for (const mount of this.#mounts) {
      if (within.includes(mount.routes)) {
        report({
          rule: 'SVC106',
          severity: 'error',
          subject: `includeRouter(${mount.prefix || "''"})`,
          place: mount.declared.place,
          message: 'a router is included in itself',
          remedy: 'Remove one of the includeRouter() calls, so that no router contains itself',
        });
        continue;
      }
      const inside = { prefix: prefix + mount.prefix, tags, deps: routerDeps, use, handlers, within };
      // one push() for each route, because a call with too many arguments would overflow the stack
      for (const route of mount.routes.flatten(report, inside)) flat.push(route);
    }
    return flat;
  }

  /** Makes further declarations throw, in this router and in included ones. @internal */
  freeze(): void {
    if (this.#isFrozen) return;
    this.#isFrozen = true;
    for (const mount of this.#mounts) mount.routes.freeze();
  }

  /**
   * Adds a route. `by` is the method that the program called, such as get(). Findings name the place of that
   * call.
   * @internal
   */
  protected addRoute(
    methods: readonly string[],
    path: string,
    rest: readonly unknown[],
    mount?: StaticMount | FetchMount,
    by?: (...args: never[]) => unknown,
  ): this {
    if (this.#isFrozen) this.assertNotFrozen(subjectOf(methods, path));
    const known = readMethods(methods);
    const handler = rest.length > 1 ? rest[1] : rest[0];
    if (typeof handler !== 'function') throw new SvcError('E_ROUTE_HANDLER', [subjectOf(methods, path)]);
    const template = path === '' ? undefined : parseTemplate(path);
    const { spec, deps } = rest.length > 1 ? readSpec(subjectOf(methods, path), rest[0]) : NOTHING_ASKED;
    this.#routes.push({
      methods: known,
      path,
      own: template,
      spec,
      deps,
      handler: handler as DeclaredRoute['handler'],
      declared: declaredHere(by),
      mount,
      socket: undefined,
    });
    return this;
  }

  /**
   * Serves the files of a directory for GET and HEAD: `app.mountStatic('/static', 'public')`. A relative
   * directory starts at the working directory. Other routes with a matching path take precedence.
   * `{ deps: { user: Depends(requireRoles('staff')) } }` guards the files.
   * @throws SvcError `E_PATH_TEMPLATE` when the path is invalid, `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` for
   * an invalid option. A missing directory is reported when the application compiles.
   */
  mountStatic(urlPath: string, directory: string | URL, options: MountOptions = {}): this {
    const prefix = urlPath === '/' ? '' : checkedPrefix(urlPath);
    const { deps, use, ...files } = options;
    const mount = new StaticMount(directory, files);
    const spec = { ...readDependencies(`mountStatic(${urlPath})`, deps ?? {}), use, mcp: false };
    const add = (path: string, name: string | undefined, restOf: (req: HttpRequest) => string | undefined) =>
      this.addRoute(
        ['GET'],
        path,
        [{ ...spec, name }, ({ req }: Context): unknown => mount.answer(req, restOf(req))],
        mount,
      );
    add(
      `${prefix}/{${MOUNT_PARAMETER}:path}`,
      mount.name,
      ({ pathParams }) => (pathParams as { readonly [MOUNT_PARAMETER]?: string })[MOUNT_PARAMETER],
    );
    add(`${prefix}/`, undefined, () => '');
    return prefix === '' ? this : add(prefix, undefined, () => undefined);
  }

  /** @internal */
  protected addSocket(path: string, rest: readonly unknown[]): DeclaredSocket {
    this.assertNotFrozen(`WEBSOCKET ${path}`);
    const template = path === '' ? undefined : parseTemplate(path);
    const socket = new DeclaredSocket(path, rest);
    const { rateLimit, use = [], ...options } = socket.options;
    const spec: RouteSpec = {
      ...options,
      mcp: false,
      use: [...use, socket.guard],
      rateLimit: typeof rateLimit === 'object' ? readRouteRateLimit(socket.subject, rateLimit) : rateLimit,
    };
    this.#routes.push({
      methods: ['WEBSOCKET'],
      path,
      own: template,
      spec,
      deps: socket.deps,
      handler: notCalled,
      declared: declaredHere(),
      mount: undefined,
      socket,
    });
    return socket;
  }

  /** @throws SvcError `E_APP_FROZEN` when the application is already compiled @internal */
  protected assertNotFrozen(what: string): void {
    if (this.#isFrozen) throw new SvcError('E_APP_FROZEN', [what]);
  }

  /** Returns the path template of the route with this name. After freeze(), all templates are cached. */
  #findNamed(name: string): ParsedTemplate | undefined {
    if (!this.#isFrozen) return this.#templates().get(name);
    return (this.#named ??= this.#templates()).get(name);
  }

  #templates(): Map<string, ParsedTemplate> {
    return new Map(
      this.flatten(() => undefined).flatMap((route) =>
        route.spec.name === undefined ? [] : [[route.spec.name, route.template] as const],
      ),
    );
  }
}

/** The prefix of a router, followed by the path of a route. */
type Below<B extends string, P extends string> = `${B}${P}`;

/** Collects routes. The application itself is a router; includeRouter() adds the routes of other routers. */
export class Router<
  const D extends Dependencies = Record<never, never>,
  const B extends string = '',
> extends Routes {
  /** @throws SvcError `E_PATH_TEMPLATE` for an invalid prefix, `E_ROUTE_SPEC` for an invalid dependency */
  constructor(options: RouterOptions<D, B> = {}) {
    super(options);
  }

  /** Adds a route for GET and HEAD. */
  get<const P extends string, S extends SpecOf<GetSpec>, const R>(
    path: PathTemplate<P>,
    spec: CheckedSpec<S, GetSpec, ReservedKey, GetKind>,
    handler: (context: HandlerContext<Below<B, P>, S, D>) => CheckedResult<R, S>,
  ): this;
  get<const P extends string>(path: PathTemplate<P>, handler: PlainHandler<Below<B, P>, D>): this;
  get(path: string, ...rest: never[]): this {
    return this.addRoute(GET, path, rest, undefined, get);
  }

  /** Adds a route for POST. */
  post<const P extends string, S extends SpecOf<RouteSpec>, const R>(
    path: PathTemplate<P>,
    spec: CheckedSpec<S, RouteSpec, ReservedKey, RouteKind>,
    handler: (context: HandlerContext<Below<B, P>, S, D>) => CheckedResult<R, S>,
  ): this;
  post<const P extends string>(path: PathTemplate<P>, handler: PlainHandler<Below<B, P>, D>): this;
  post(path: string, ...rest: never[]): this {
    return this.addRoute(POST, path, rest, undefined, post);
  }

  /** Adds a route for PUT. */
  put<const P extends string, S extends SpecOf<RouteSpec>, const R>(
    path: PathTemplate<P>,
    spec: CheckedSpec<S, RouteSpec, ReservedKey, RouteKind>,
    handler: (context: HandlerContext<Below<B, P>, S, D>) => CheckedResult<R, S>,
  ): this;
  put<const P extends string>(path: PathTemplate<P>, handler: PlainHandler<Below<B, P>, D>): this;
  put(path: string, ...rest: never[]): this {
    return this.addRoute(PUT, path, rest, undefined, put);
  }

  /** Adds a route for PATCH. */
  patch<const P extends string, S extends SpecOf<RouteSpec>, const R>(
    path: PathTemplate<P>,
    spec: CheckedSpec<S, RouteSpec, ReservedKey, RouteKind>,
    handler: (context: HandlerContext<Below<B, P>, S, D>) => CheckedResult<R, S>,
  ): this;
  patch<const P extends string>(path: PathTemplate<P>, handler: PlainHandler<Below<B, P>, D>): this;
  patch(path: string, ...rest: never[]): this {
    return this.addRoute(PATCH, path, rest, undefined, patch);
  }

  /** Adds a route for DELETE. */
  delete<const P extends string, S extends SpecOf<RouteSpec>, const R>(
    path: PathTemplate<P>,
    spec: CheckedSpec<S, RouteSpec, ReservedKey, RouteKind>,
    handler: (context: HandlerContext<Below<B, P>, S, D>) => CheckedResult<R, S>,
  ): this;
  delete<const P extends string>(path: PathTemplate<P>, handler: PlainHandler<Below<B, P>, D>): this;
  delete(path: string, ...rest: never[]): this {
    return this.addRoute(DELETE, path, rest, undefined, remove);
  }

  /** Adds a route for several methods, such as `['GET', 'POST']`. */
  route<const P extends string, S extends SpecOf<RouteSpec>, const R>(
    path: PathTemplate<P>,
    methods: readonly string[],
    spec: CheckedSpec<S, RouteSpec, ReservedKey, RouteKind>,
    handler: (context: HandlerContext<Below<B, P>, S, D>) => CheckedResult<R, S>,
  ): this;
  route<const P extends string>(
    path: PathTemplate<P>,
    methods: readonly string[],
    handler: PlainHandler<Below<B, P>, D>,
  ): this;
  route(path: string, methods: readonly string[], ...rest: never[]): this {
    return this.addRoute(methods, path, rest, undefined, route);
  }

  /**
   * Adds a WebSocket route (RFC 6455). The last argument may be a handler, which is called once for each
   * WebSocket. Without a handler, websocket() returns a router for the handlers of events. An ordinary GET
   * request to the path gets 426, unless a GET route has the same path.
   */
  websocket<const P extends string, S extends SpecOf<WebSocketSpec>>(
    path: PathTemplate<P>,
    spec: CheckedSocketSpec<S>,
    handler: SocketHandler<SocketContext<Below<B, P>, S, D>, MessageOf<S>>,
  ): this;
  websocket<const P extends string>(
    path: PathTemplate<P>,
    handler: SocketHandler<SocketContext<Below<B, P>, object, D>>,
  ): this;
  websocket<const P extends string, S extends SpecOf<WebSocketSpec>>(
    path: PathTemplate<P>,
    spec: CheckedSocketSpec<S>,
  ): WebSocketRouter<SocketContext<Below<B, P>, S, D>, MessageOf<S>>;
  websocket<const P extends string>(
    path: PathTemplate<P>,
  ): WebSocketRouter<SocketContext<Below<B, P>, object, D>, MessageOf<object>>;
  websocket(path: string, ...rest: never[]): unknown {
    const socket = this.addSocket(path, rest);
    return typeof rest.at(-1) === 'function' ? this : socket.router;
  }
}

/** Methods that add routes. declaredHere() finds the code that called such a method. */
const { get, post, put, patch, delete: remove, route } = Router.prototype;
const only = (method: string): readonly string[] => Object.freeze([method]);
const GET = only('GET'),
  POST = only('POST'),
  PUT = only('PUT'),
  PATCH = only('PATCH'),
  DELETE = only('DELETE');
const VERBS: ReadonlySet<readonly string[]> = new Set([GET, POST, PUT, PATCH, DELETE]);

/** The constant lists, such as `GET`, are not copied, so that thousands of routes can share them. */
function readMethods(methods: readonly string[]): readonly string[] {
  if (VERBS.has(methods)) return methods;
  if (!Array.isArray(methods) || methods.length === 0) throw new SvcError('E_ROUTE_METHOD', ['']);
  for (const method of methods) if (!isMethod(method)) throw new SvcError('E_ROUTE_METHOD', [method]);
  return [...methods];
}

function subjectOf(methods: readonly string[], path: string): string {
  return `${methods.join(', ')} ${path}`;
}

/** Placeholder for the handler of a WebSocket route, which is created when the application compiles. */
function notCalled(): undefined {
  return undefined;
}

/** Parses prefix and path together, so that a parameter that occurs in both is reported. */
function readWhole(
  path: string,
  route: DeclaredRoute,
  report: (finding: Finding) => void,
): ParsedTemplate | undefined {
  try {
    return parseTemplate(path);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    report({
      rule: 'SVC106',
      severity: 'error',
      subject: `${route.methods.join(', ')} ${path}`,
      message: error.message,
      remedy: error.remedy,
      place: route.declared.place,
    });
    return undefined;
  }
}

export function checkedPrefix(prefix: string): string {
  if (prefix === '') return prefix;
  if (typeof prefix === 'string' && prefix.endsWith('/'))
    throw new SvcError('E_PATH_TEMPLATE', [prefix, 'a prefix must not end with "/"']);
  parseTemplate(prefix);
  return prefix;
}
