/**
 * Compiles the declarations of an application: fills the routing table, combines middleware, and reports
 * contradictions between declarations as findings of `svc check`.
 */
import { preflightsOf, suggester, unmatched } from './compile-unmatched.ts';
import { compileRoute } from './call.ts';
import { DependencyGraph } from './di-plan.ts';
import { SvcError } from '../base/errors.ts';
import { faultOf } from '../base/faults.ts';
import { loadWanted } from '../base/promises.ts';
import { RequestSpan } from '../http/request/span.ts';
import { CONVERTERS, canonicalPath } from '../http/path.ts';
import { CoreEdge, compose } from '../http/pipeline.ts';
import { DEFAULT_PLAN } from '../http/reply.ts';
import { RoutingTable, allowOf } from '../http/router.ts';
import { fieldDeprecations } from '../http/middleware/deprecation.ts';
import { TimeLimit, TimeoutMiddleware } from '../http/middleware/timeout.ts';
import { refusePlain } from '../http/websocket/handshake.ts';
import { fileOfPlace } from '../base/findings.ts';
import { StaticMount } from '../http/files/static.ts';
import type { BackgroundRunner } from './background.ts';
import type { RoutedEndpoint, RouteInputs } from './call.ts';
import type { Env } from '../base/config.ts';
import type { DependencySource } from './di.ts';
import type { Finding, Place } from '../base/findings.ts';
import type {
  Awaitable,
  CompiledRoute,
  CompiledView,
  Context,
  HttpRequest,
  Middleware,
  PluginLike,
  Services,
  StateMap,
} from '../http/contracts.ts';
import type { Core, ErrorRenderer, ExceptionHandlers } from '../http/pipeline.ts';
import type { Endpoint, TransportRequest } from '../http/request/request.ts';
import type { Tracer } from '../observability/tracer.ts';
import type { FlatRoute, Routes } from './route.ts';
import type { HttpResponse, Prepared } from '../http/response.ts';
import type { RouteDeps } from './steps.ts';
import type { DeclaredSocket, SocketHub } from './websocket.ts';

interface Declarations {
  readonly routes: Routes;
  /**
   * Routes of the framework, such as `/healthz`. A route of the application with the same method and path is
   * reported as an error.
   */
  readonly operations?: Routes | undefined;
  /** Rooms and metrics that all WebSockets of the application share. */
  readonly sockets: SocketHub;
  /** MCP tools, prompts and resources, as routes that no HTTP request can reach directly. */
  readonly tools?: Routes | undefined;
  readonly middleware: readonly Middleware[];
  /** Returns the place in the program's code that adds a middleware. */
  placeOfMiddleware(middleware: Middleware): Place | undefined;
  /** Plugins in the order in which they start. */
  readonly plugins: readonly PluginLike[];
  /** Findings that were detected before the compilation began. */
  readonly findings: readonly Finding[];
  readonly services: Services;
  readonly errors: ErrorRenderer;
  readonly tasks: BackgroundRunner;
  readonly state: StateMap;
  /** Replaced dependencies: maps each original function or class to its replacement. */
  readonly overrides: ReadonlyMap<unknown, DependencySource>;
  config(key: string): unknown;
}

/** A compiled route together with its declaration. The rules of `svc check` read both. */
export interface RouteDetail {
  readonly route: CompiledRoute;
  /** The declaration of the route. Compiled routes for several methods share one declaration. */
  readonly declared: FlatRoute;
  readonly isOperation: boolean;
  readonly inputs: RouteInputs;
}

/** The valid declarations of an application in compiled form, even if other declarations have mistakes. */
export interface CompilationView extends CompiledView {
  /** The compiled routes in `routes`, with their declarations and inputs, in the same order. */
  readonly details: readonly RouteDetail[];
  /** MCP tools, prompts and resources that are declared as functions, not as routes. */
  readonly tools: readonly RouteDetail[];
  /** Exception handlers of the application, without the handlers of routers. */
  readonly handlers: readonly ExceptionHandlers[];
}

/** Result of a compilation: its findings, and the application if no finding is an error. */
export interface Compilation {
  readonly view: CompilationView;
  readonly findings: readonly Finding[];
  /** Functions and classes that provide the dependencies of all routes and tools, after replacement. */
  readonly sources: ReadonlySet<unknown>;
  /**
   * Returns the compiled application.
   * @throws SvcError `E_COMPILE` with all findings, if one of them is an error
   */
  serve(): CompiledApplication;
}

/** The functions of a compiled application that servers and test clients call. */
export interface CompiledApplication {
  /** All routes, one for each method. The method of a WebSocket is `WEBSOCKET`. */
  readonly routes: readonly CompiledRoute[];
  readonly view: CompilationView;
  /** Matches a request to a route, and handles it. Never throws, never rejects. */
  readonly handle: Core;
  /** The response `SwitchingProtocols` opens the WebSocket; any other response refuses it. */
  readonly upgrade: Core;
  routeAt(method: string, path: string): CompiledRoute | undefined;
  /** Returns the value of `Allow` for a request whose method was refused. */
  allowedFor(req: TransportRequest): string;
  hasSocketAt(path: string): boolean;
  /** Handles a call of an MCP tool, prompt or resource: finds its function, and runs it. */
  readonly handleTool: Core;
  /** Resolves the dependencies of scope `app`, and returns their clean-up, which never rejects. */
  start(): Promise<() => Promise<void>>;
}

/** A mistake does not throw: it becomes a finding of `svc check`. */
export function compileApplication(declarations: Declarations): Compilation {
  const { middleware, plugins, services, errors, config, tasks, overrides } = declarations;
  const findings: Finding[] = [...declarations.findings];
  const report = (finding: Finding): void => {
    findings.push(finding);
  };
  const flat = declarations.routes.flatten(report);
  const operations = declarations.operations?.flatten(report) ?? [];
  const { env, log } = services;
  const graph = new DependencyGraph({ overrides, tasks, report });
  const usualEdge = new CoreEdge(DEFAULT_PLAN, errors);
  const deps: RouteDeps = { errors, graph, tasks, log, report, middleware, services, usualEdge };
  const tables: Tables = {
    routes: new RoutingTable(),
    sockets: new RoutingTable(),
    tools: new RoutingTable(),
  };
  const details = [
    ...enter(flat, false, tables.routes, deps),
    ...enter(operations, true, tables.routes, deps),
    ...enterSockets(flat, tables.sockets, tables.routes, declarations, deps),
  ];
  const tools = enter(declarations.tools?.flatten(report) ?? [], false, tables.tools, deps);
  for (const table of Object.values(tables)) table.freeze();
  reportDuplicateNames(flat, report);
  const routes = details.map(({ route }) => route);
  const { handlers } = errors;
  const view: CompilationView = {
    env,
    services,
    routes,
    middleware,
    plugins,
    config,
    details,
    tools,
    handlers,
  };
  askAllMiddleware(view, declarations, report);
  return {
    view,
    findings,
    sources: graph.sources,
    serve() {
      if (findings.some((finding) => finding.severity === 'error'))
        throw new SvcError('E_COMPILE', [findings], { findings });
      return serving(declarations, view, tables, graph);
    },
  };
}

/** Routing tables of an application: for requests, WebSocket handshakes and calls of MCP tools. */
type Tables = Readonly<Record<'routes' | 'sockets' | 'tools', RoutingTable<Endpoint>>>;

/** Lets the middleware of the application and of its routers report findings. */
function askAllMiddleware(
  view: CompilationView,
  declarations: Declarations,
  report: (finding: Finding) => void,
): void {
  const { middleware, details, tools } = view;
  const routes = [...view.routes, ...tools.map(({ route }) => route)];
  for (const layer of middleware)
    askMiddleware(layer, { ...view, routes }, declarations.placeOfMiddleware(layer), report);
  // routes of one router share one list of middleware, and the Map contains each list once
  const lists = new Map([...details, ...tools].map(({ declared }) => [declared.use, declared]));
  for (const [use, { spec, declared }] of lists) {
    const isOfRoute = (layer: Middleware): boolean => spec.use?.includes(layer) ?? false;
    for (const layer of use) {
      const siblings = use.filter((other) => isOfRoute(other) === isOfRoute(layer));
      const around = { ...view, routes, middleware: [...middleware, ...use], siblings };
      askMiddleware(layer, around, declared.place, report);
    }
  }
}

function serving(
  { middleware, services: { env, log, tracer }, errors, state }: Declarations,
  view: CompilationView,
  tables: Tables,
  graph: DependencyGraph,
): CompiledApplication {
  const { routes, details } = view;
  const run = compose(middleware, core(details, tables.routes, env, errors), errors);
  return {
    routes,
    view,
    handle: matched(tables.routes, run, tracer),
    upgrade: matched(tables.sockets, run, tracer, SOCKET),
    routeAt(method, path) {
      const match = tables.routes.match(method, canonicalPath(path));
      return match.kind === 'found' ? match.endpoint.route : undefined;
    },
    allowedFor: (req) => allowedFor(req, tables.routes),
    hasSocketAt: (path) => tables.sockets.match(SOCKET, path).kind === 'found',
    handleTool: matched(tables.tools, run, tracer),
    async start() {
      await loadWanted();
      const leave = await graph.start(new StartContext(state), (event, error, label) => {
        log.error(event, error, { dependency: label });
        errors.failedAfter(error, '');
      });
      return async () => void (await leave());
    },
  };
}

/** Returns a function that finds the route of a request, and then calls `run` within the span of the request. */
function matched(
  table: RoutingTable<Endpoint>,
  run: Core,
  tracer: Tracer | undefined,
  method?: string,
): Core {
  return (req) => {
    req.match = table.match(method ?? req.method, req.path);
    return tracer === undefined ? run(req) : spanned(tracer, req, run);
  };
}

function spanned(tracer: Tracer, req: TransportRequest, run: Core): Awaitable<HttpResponse> {
  const span = (req.span = RequestSpan.of(tracer, req));
  return span === undefined ? run(req) : span.run(() => run(req));
}

/** Method without a route, with which the routing table returns the methods of a path. */
const NO_METHOD = '';

/** Returns the methods of a request's path, without its own method and without methods of the route that refused it. */
function allowedFor({ method, path, match }: TransportRequest, table: RoutingTable<Endpoint>): string {
  const all = table.match(NO_METHOD, path);
  if (all.kind !== 'wrong-method') return '';
  const refused = match.kind === 'found' ? match.endpoint : undefined;
  const isLeft = (other: string): boolean => {
    const found = table.match(other, path);
    return other !== method && (found.kind !== 'found' || found.endpoint !== refused);
  };
  return all.allow.split(', ').filter(isLeft).join(', ');
}

/** An exception of compile() becomes a finding, too. */
function askMiddleware(
  layer: Middleware,
  view: CompilationView,
  place: Place | undefined,
  report: (finding: Finding) => void,
): void {
  if (layer.compile === undefined) return;
  try {
    for (const finding of layer.compile(view)) report({ ...finding, place });
  } catch (error) {
    report({
      rule: 'SVC121',
      severity: 'error',
      subject: `middleware ${layer.kind ?? layer.constructor.name}`,
      place,
      message: `compile() of the middleware threw ${thrown(error)}`,
      remedy: error instanceof SvcError ? error.remedy : 'Correct the middleware: compile() must not throw',
    });
  }
}

export function thrown(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  return error instanceof Error
    ? `${error.name}: ${error.message.split('\n')[0]!}`
    : error === null
      ? 'null'
      : `a value of type ${typeof error}`;
}

/** Context of dependencies with scope `app`: it has no request. */
export class StartContext implements Context {
  readonly state: StateMap;

  constructor(state: StateMap) {
    this.state = state;
  }

  get req(): HttpRequest {
    throw new SvcError('E_REQUEST_ABSENT', ['req']);
  }
  get signal(): AbortSignal {
    throw new SvcError('E_REQUEST_ABSENT', ['signal']);
  }
}

/** Compiles all routes except WebSockets, and adds each of their methods to the routing table. */
function enter(
  flat: readonly FlatRoute[],
  isOperation: boolean,
  table: RoutingTable<Endpoint>,
  deps: RouteDeps,
): RouteDetail[] {
  const details: RouteDetail[] = [];
  const routes = flat.filter((route) => route.socket === undefined);
  // mounts come last, so that a route with the same path takes precedence
  for (const declared of [
    ...routes.filter((route) => route.mount === undefined),
    ...routes.filter((route) => route.mount !== undefined),
  ]) {
    for (const method of declared.methods) {
      const routed = compiled(declared, method, deps);
      if (routed === undefined) continue;
      const { endpoint, inputs } = routed;
      const existing = table.add(method, declared.template, endpoint);
      if (existing !== undefined && isFolderOfMount(declared)) continue;
      details.push({ route: endpoint.route, declared, isOperation, inputs });
      if (existing !== undefined)
        deps.report(
          isOperation
            ? hidden(existing.route)
            : declared.mount !== undefined
              ? mounted(existing.route, endpoint.route)
              : duplicate(endpoint.route, existing.route),
        );
    }
  }
  return details;
}

const SOCKET = 'WEBSOCKET';

/**
 * Adds WebSocket routes to their own routing table. An ordinary GET request to the path of a WebSocket route
 * gets 426, unless another route has this path.
 */
function enterSockets(
  flat: readonly FlatRoute[],
  sockets: RoutingTable<Endpoint>,
  table: RoutingTable<Endpoint>,
  declarations: Declarations,
  deps: RouteDeps,
): RouteDetail[] {
  const details: RouteDetail[] = [];
  for (const declared of flat) {
    const routed =
      declared.socket === undefined
        ? undefined
        : compiledSocket(declared, declared.socket, declarations, deps);
    if (routed === undefined) continue;
    const { endpoint, inputs } = routed;
    const existing = sockets.add(SOCKET, declared.template, endpoint);
    details.push({ route: endpoint.route, declared, isOperation: false, inputs });
    if (existing !== undefined) deps.report(duplicate(endpoint.route, existing.route));
    table.add('GET', declared.template, {
      ...endpoint,
      tally: undefined,
      run: (req) => deps.errors.render(refusePlain(req), req),
    });
  }
  return details;
}

function compiledSocket(
  flat: FlatRoute,
  socket: DeclaredSocket,
  { sockets, services }: Declarations,
  deps: RouteDeps,
): RoutedEndpoint | undefined {
  if (socket.handlers.length === 0) {
    deps.report({
      rule: 'SVC107',
      severity: 'error',
      subject: `${SOCKET} ${flat.template.template}`,
      place: flat.declared.place,
      message: 'the WebSocket route has no handler',
      remedy: 'Add .onOpen(…) or .onMessage(…), or give websocket() a handler as the last argument',
    });
  }
  return compiled(flat, SOCKET, deps, (errors) => {
    const path = flat.template.template;
    const handler = socket.compile(path, sockets, services, (error, req) => errors.report(error, req));
    return { ...flat, handler };
  });
}

/**
 * Returns whether a route serves a static folder itself, such as `/static`, and not its files. Another route
 * may have this path.
 */
function isFolderOfMount({ mount, template }: FlatRoute): boolean {
  return mount !== undefined && template.parameters.at(-1)?.converter !== CONVERTERS.path;
}

/** Compiles one route. Mistakes in its schemas and dependencies are reported as findings. */
function compiled(
  route: FlatRoute,
  method: string,
  deps: RouteDeps,
  complete: (errors: ErrorRenderer) => FlatRoute = () => route,
): RoutedEndpoint | undefined {
  try {
    if (route.mount instanceof StaticMount && !isFolderOfMount(route))
      route.mount.open(deps.services.clock, deps.services.env === 'production');
    const errors = route.handlers.length === 0 ? deps.errors : deps.errors.within(route.handlers);
    const { endpoint, inputs } = compileRoute(complete(errors), method, withErrors(deps, errors));
    const fields = fieldDeprecations(inputs);
    const layers = fields === undefined ? around(route, deps) : [...around(route, deps), fields];
    return {
      inputs,
      endpoint:
        layers.length === 0
          ? endpoint
          : { ...endpoint, run: compose(layers, (req) => endpoint.run(req), errors) },
    };
  } catch (error) {
    deps.report({
      // SVC107 covers errors without a rule of their own, for example from a getter in the spec of the route
      rule: (error instanceof SvcError ? faultOf(error.code).rule : undefined) ?? 'SVC107',
      severity: 'error',
      subject: `${method} ${route.template.template}`,
      place: route.declared.place,
      message: error instanceof SvcError ? error.message : `compiling the route threw ${thrown(error)}`,
      remedy:
        error instanceof SvcError
          ? error.remedy
          : 'Correct the options, schemas and dependencies of the route; a getter in one of them must not use values that are set after the application compiles',
    });
    return undefined;
  }
}

function withErrors(deps: RouteDeps, errors: ErrorRenderer): RouteDeps {
  return errors === deps.errors ? deps : { ...deps, errors, usualEdge: new CoreEdge(DEFAULT_PLAN, errors) };
}

/** If no timeout middleware enforces the time limit of the route, a {@link TimeLimit} comes first. */
function around(
  { use, spec: { timeoutMs } }: FlatRoute,
  { middleware, services }: RouteDeps,
): readonly Middleware[] {
  const isKept =
    typeof timeoutMs !== 'number' ||
    [...middleware, ...use].some((layer) => layer instanceof TimeoutMiddleware);
  return isKept ? use : [new TimeLimit(timeoutMs, services), ...use];
}

function reportDuplicateNames(flat: readonly FlatRoute[], report: (finding: Finding) => void): void {
  const first = new Map<string, FlatRoute>();
  for (const route of flat) {
    const { name } = route.spec;
    if (name === undefined) continue;
    const earlier = first.get(name);
    if (earlier === undefined) first.set(name, route);
    else
      report({
        rule: 'SVC104',
        severity: 'error',
        subject: `${route.methods.join(', ')} ${route.template.template}`,
        place: route.declared.place,
        message: `the name "${name}" is already the name of the route ${earlier.template.template}`,
        remedy: 'Give each route a unique name, because urlFor() finds a route by its name',
      });
  }
}

/** Calls the matched route, or responds itself if no route matches. */
function core(
  details: readonly RouteDetail[],
  table: RoutingTable<Endpoint>,
  env: Env,
  errors: ErrorRenderer,
): Core {
  const routes = details.map((detail) => detail.route);
  const methods = new Set(routes.map((route) => route.method));
  const allMethods = allowOf(
    [...methods].flatMap((method) =>
      method === SOCKET ? 'GET' : method === 'GET' ? ['GET', 'HEAD'] : method,
    ),
  );
  const suggest = env === 'production' ? () => undefined : suggester(routes);
  // responses to CORS preflights are only needed if a route has CORS middleware of its own
  const hasPreflights = details.some(({ declared: { use } }) => use.some(({ kind }) => kind === 'cors'));
  const parts = {
    errors,
    allMethods,
    suggest,
    refusals: new Map<string, Prepared>(),
    preflight: hasPreflights ? preflightsOf(details, table, errors) : undefined,
  };
  return (req) => {
    const { match } = req;
    return match.kind === 'found' ? match.endpoint.run(req) : unmatched(req, parts);
  };
}

/** Further advice for a finding about a route with the path of a framework route. The key is this path. */
const OTHER_WAYS: Readonly<Record<string, string>> = {
  '/metrics': ', or the metrics a port of their own: ops: { metrics: { port } }',
  '/docs': ', or switch the page off with enableDocs: false',
  '/openapi.json': ', or switch the document off with enableDocs: false',
};

function hidden(route: CompiledRoute): Finding {
  return mistakeOf(
    route,
    'SVC102',
    `the route can never be reached: ${route.template} is a route of the framework`,
    `Give the route another path${OTHER_WAYS[route.template] ?? ''}`,
  );
}

function mounted(route: CompiledRoute, { template, place }: CompiledRoute): Finding {
  return mistakeOf(
    route,
    'SVC102',
    `the folder or handler mounted as ${template} at ${fileOfPlace(place)}:${place.line} has the same paths, and one of the two is never reached`,
    'Give the route another path, or mount the other one elsewhere',
  );
}

/** Returns the finding that two routes match the same requests. */
function duplicate(route: CompiledRoute, first: CompiledRoute): Finding {
  return mistakeOf(
    route,
    'SVC101',
    `this path and method are also registered as ${first.template} at ${fileOfPlace(first.place)}:${first.place.line}`,
    'Remove one of the two routes, or give one of them another path or method; paths that differ only in the names of parameters are equal',
  );
}

function mistakeOf(
  { method, template, place }: CompiledRoute,
  rule: Finding['rule'],
  message: string,
  remedy: string,
): Finding {
  return { rule, severity: 'error', subject: `${method} ${template}`, place, message, remedy };
}
