/**
 * Declared → compiled: routes into the table, middleware around the core, mistakes between declarations into findings.
 */
import { compileRoute } from './compiled-route.ts';
import { DependencyGraph } from './di.ts';
import { BadRequest, MethodNotAllowed, NotFound, SvcError } from './errors.ts';
import { closest } from './options.ts';
import { CONVERTERS } from './http/path.ts';
import { compose } from './http/pipeline.ts';
import { problem } from './http/problem.ts';
import { beginRequest, isObserved } from './http/request-event.ts';
import { HttpResponse, Prepared } from './http/response.ts';
import { RoutingTable, allowOf } from './http/router.ts';
import { TimeLimit, TimeoutMiddleware } from './http/timeout.ts';
import type { BackgroundRunner } from './background.ts';
import type { RouteParts } from './compiled-route.ts';
import type { Env } from './config.ts';
import type { DependencySource } from './di.ts';
import type { Finding, Place } from './findings.ts';
import type { Logger } from './log.ts';
import type { Awaitable, CompiledRoute, CompiledView, Context, HttpRequest, Middleware, Plugin, Services, StateMap } from './http/contracts.ts';
import type { ErrorRenderer, Layer } from './http/pipeline.ts';
import type { Endpoint, TransportRequest } from './http/request.ts';
import type { FlatRoute, Routes } from './route.ts';

/** What there is to compile. */
export interface Declarations {
  readonly routes: Routes;
  /** The framework's own: a route of the application that has one of their paths is hidden by it. */
  readonly operations?: Routes | undefined;
  readonly middleware: readonly Middleware[];
  /** Where a middleware was put to use. */
  placeOfMiddleware(middleware: Middleware): Place | undefined;
  /** In the order of what they require. */
  readonly plugins: readonly Plugin[];
  /** What has been found already. */
  readonly findings: readonly Finding[];
  readonly services: Services;
  readonly errors: ErrorRenderer;
  readonly tasks: BackgroundRunner;
  readonly state: StateMap;
  /** Sources of dependencies, and what stands in for them. */
  readonly overrides: ReadonlyMap<unknown, DependencySource>;
  config(key: string): unknown;
}

/** A route for checks: compiled, and as it was declared. */
export interface RouteDetail {
  readonly route: CompiledRoute;
  /** One for all methods of a declaration. */
  readonly declared: FlatRoute;
  readonly isOperation: boolean;
}

/** Everything that was declared, as far as it could be compiled. */
export interface CompilationView extends CompiledView {
  /** `routes`, in the same order. */
  readonly details: readonly RouteDetail[];
}

/** Compiled as far as it goes: what was found, and what serves if that is nothing grave. */
export interface Compilation {
  readonly view: CompilationView;
  /** Errors among them keep the application from serving. */
  readonly findings: readonly Finding[];
  /** @throws SvcError `E_COMPILE` with every finding, as soon as one of them is an error */
  serve(): CompiledApplication;
}

/** What serves. */
export interface CompiledApplication {
  /** Every route, one per method. */
  readonly routes: readonly CompiledRoute[];
  /** Matches the request and answers it. Never throws, never rejects. */
  readonly handle: Layer;
  /** Resolves the dependencies that live as long as the application. Answers how to leave them; that never rejects. */
  start(): Promise<() => Promise<void>>;
}

/** Compiles as much as can be, and finds every mistake between declarations. Throws for none of them. */
export function compileApplication(declarations: Declarations): Compilation {
  const { middleware, plugins, services, errors, config, tasks, state, overrides } = declarations;
  const { env, log } = services;
  const findings: Finding[] = [...declarations.findings];
  const report = (finding: Finding): void => { findings.push(finding); };
  const flat = declarations.routes.flatten(report);
  const operations = declarations.operations?.flatten(report) ?? [];
  const table = new RoutingTable<Endpoint>();
  const graph = new DependencyGraph({ overrides, tasks, report });
  const parts: RouteParts = { errors, graph, tasks, log, report, middleware, services };
  const details = [...enter(flat, false, table, parts, report), ...enter(operations, true, table, parts, report)];
  const routes = details.map((detail) => detail.route);
  table.freeze();
  reportDuplicateNames(flat, report);
  const view: CompilationView = { env, services, routes, middleware, plugins, config, details };
  for (const layer of middleware) askMiddleware(layer, view, declarations.placeOfMiddleware(layer), report);
  for (const { use, declared } of new Set(details.map((detail) => detail.declared))) {
    for (const layer of use) askMiddleware(layer, { ...view, middleware: [...middleware, ...use] }, declared.place, report);
  }
  return {
    view, findings,
    serve() {
      if (findings.some((finding) => finding.severity === 'error')) throw new SvcError('E_COMPILE', [findings], { findings });
      const run = compose(middleware, core(routes, env, errors), errors);
      return {
        routes,
        handle(req) {
          req.match = table.match(req.method, req.path);
          return isObserved() ? beginRequest(req, run) : run(req);
        },
        async start() {
          const leave = await graph.start(new StartContext(state));
          return async () => { await leave((error, label) => log.error('cleanup_failed', error, { dependency: label })); };
        },
      };
    },
  };
}

/** What a middleware finds. One that throws instead has a mistake of its own. */
function askMiddleware(layer: Middleware, view: CompilationView, place: Place | undefined, report: (finding: Finding) => void): void {
  if (layer.compile === undefined) return;
  try {
    for (const finding of layer.compile(view)) report({ ...finding, place });
  } catch (error) {
    report({
      rule: 'SVC121', severity: 'error', subject: `middleware ${layer.kind ?? layer.constructor.name}`, place, message: `its compile() threw ${thrown(error)}`,
      remedy: error instanceof SvcError ? error.remedy : 'Mend the middleware: compile() answers its findings',
    });
  }
}

/** What was thrown, in one line. */
export function thrown(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  return error instanceof Error ? `${error.name}: ${error.message.split('\n')[0]!}` : error === null ? 'null' : `a value of type ${typeof error}`;
}

/** What dependencies of scope `app` get: there is no request yet. */
class StartContext implements Context {
  readonly state: StateMap;

  constructor(state: StateMap) { this.state = state; }

  get req(): HttpRequest { throw new SvcError('E_REQUEST_ABSENT', ['req']); }
  get signal(): AbortSignal { throw new SvcError('E_REQUEST_ABSENT', ['signal']); }
}

/** Every route's methods into the table. */
function enter(flat: readonly FlatRoute[], isOperation: boolean, table: RoutingTable<Endpoint>, parts: RouteParts, report: (finding: Finding) => void): RouteDetail[] {
  const details: RouteDetail[] = [];
  // static files come last: a route for the very path of their folder goes before
  for (const declared of [...flat.filter((route) => route.mount === undefined), ...flat.filter((route) => route.mount !== undefined)]) {
    for (const method of declared.methods) {
      const endpoint = compiled(declared, method, parts, report);
      if (endpoint === undefined) continue;
      const existing = table.add(method, declared.template, endpoint);
      if (existing !== undefined && isFolderOfMount(declared)) continue;
      details.push({ route: endpoint.route, declared, isOperation });
      if (existing !== undefined) report(isOperation ? hidden(existing.route) : duplicate(endpoint.route, existing.route));
    }
  }
  return details;
}

/** Whether it is the path of a static folder itself, which may be answered by somebody else. */
function isFolderOfMount({ mount, template }: FlatRoute): boolean {
  return mount !== undefined && template.parameters.at(-1)?.converter !== CONVERTERS.path;
}

/** One route; a mistake in its schemas or dependencies is a finding like any other. */
function compiled(route: FlatRoute, method: string, parts: RouteParts, report: (finding: Finding) => void): Endpoint | undefined {
  try {
    if (!isFolderOfMount(route)) route.mount?.open(parts.services.clock);
    const endpoint = compileRoute(route, method, parts);
    const layers = around(route, parts);
    return layers.length === 0 ? endpoint : { ...endpoint, run: compose(layers, (req) => endpoint.run(req), parts.errors) };
  } catch (error) {
    report({ // also a getter in a spec that throws: what it names is declared later
      rule: 'SVC107', severity: 'error', subject: `${method} ${route.template.template}`, place: route.declared.place,
      message: error instanceof SvcError ? error.message : `reading its declaration threw ${thrown(error)}`,
      remedy: error instanceof SvcError ? error.remedy : 'Mend what its spec, schemas and dependencies name; a getter may name only what exists when the application compiles',
    });
    return undefined;
  }
}

/** The route's own middleware, and its time limit where no timeout middleware keeps it. */
function around({ use, spec: { timeoutMs } }: FlatRoute, { middleware, services }: RouteParts): readonly Middleware[] {
  const isKept = typeof timeoutMs !== 'number' || [...middleware, ...use].some((layer) => layer instanceof TimeoutMiddleware);
  return isKept ? use : [new TimeLimit(timeoutMs, services), ...use];
}

/** The framework answers there itself. */
function hidden(route: CompiledRoute): Finding {
  return {
    rule: 'SVC102', severity: 'error', subject: `${route.method} ${route.template}`, place: route.place,
    message: `it can never be reached: ${route.template} belongs to the operations endpoints`,
    remedy: route.template === '/metrics' ? 'Give the route another path, or the metrics a port of their own: ops: { metrics: { port } }' : 'Give the route another path',
  };
}

function duplicate(route: CompiledRoute, first: CompiledRoute): Finding {
  return {
    rule: 'SVC101', severity: 'error', subject: `${route.method} ${route.template}`, place: route.place,
    message: `the same path and method are registered as ${first.template} at ${first.place.file}:${first.place.line}`,
    remedy: 'Remove one of the two, or give it another path or method; parameter names do not tell paths apart',
  };
}

function reportDuplicateNames(flat: readonly FlatRoute[], report: (finding: Finding) => void): void {
  const first = new Map<string, FlatRoute>();
  for (const route of flat) {
    const { name } = route.spec;
    if (name === undefined) continue;
    const earlier = first.get(name);
    if (earlier === undefined) first.set(name, route);
    else {
      report({
        rule: 'SVC104', severity: 'error', subject: `${route.methods.join(', ')} ${route.template.template}`, place: route.declared.place,
        message: `the name "${name}" belongs to ${earlier.template.template} already`, remedy: 'Give each route a name of its own: urlFor() finds it by that',
      });
    }
  }
}

/** The innermost layer: the endpoint that matched, or the answer to what did not. */
function core(routes: readonly CompiledRoute[], env: Env, errors: ErrorRenderer): Layer {
  const allMethods = allowOf(routes.map((route) => route.method));
  const suggest = env === 'production' ? () => undefined : suggester(routes);
  return (req) => {
    const { match } = req;
    return match.kind === 'found' ? match.endpoint.run(req) : unmatched(req, errors, allMethods, suggest);
  };
}

/** 404, 405, OPTIONS from the table, and what is no path. */
function unmatched(req: TransportRequest, errors: ErrorRenderer, allMethods: string, suggest: (path: string) => string | undefined): Awaitable<HttpResponse> {
  const { match } = req;
  if (match.kind === 'wrong-method') {
    if (req.method === 'OPTIONS') return options(match.allow);
    return refuse(MethodNotAllowed, 405, `This path has ${match.allow}`, req, errors, match.allow);
  }
  if (match.kind === 'malformed') return refuse(BadRequest, 400, 'The path has a malformed percent escape', req, errors);
  if (req.path.charCodeAt(0) === SLASH) return refuse(NotFound, 404, suggest(req.path), req, errors);
  return req.path === '*' && req.method === 'OPTIONS' ? options(allMethods) : refuse(BadRequest, 400, 'The request target is no path', req, errors);
}

const SLASH = 47;

function options(allow: string): HttpResponse {
  return new HttpResponse(null, new Prepared(204, ['Allow', allow]));
}

/** A refusal is a value; it becomes an exception only where a handler of the application's may want to see it. */
function refuse(Exception: typeof NotFound, status: number, detail: string | undefined, req: TransportRequest, errors: ErrorRenderer, allow?: string): Awaitable<HttpResponse> {
  if (errors.hasHandlers) return errors.render(new Exception(detail, allow === undefined ? {} : { headers: { Allow: allow } }), req);
  const response = problem(status, req.id, { detail });
  if (allow !== undefined) response.headers.flat.push('Allow', allow);
  return response;
}

/** Outside production a 404 names a close path: the table is no secret there. */
function suggester(routes: readonly CompiledRoute[]): (path: string) => string | undefined {
  const templates = [...new Set(routes.map((route) => route.template))].slice(0, 1_000);
  return (path) => {
    if (path.length > 200) return undefined;
    const near = closest(path, templates);
    return near === undefined ? undefined : `Nothing is here; did you mean ${near}?`;
  };
}
