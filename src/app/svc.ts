/**
 * `Svc` declares an application: it registers routes, middleware, plugins and hooks. Other files do the rest:
 *   declarations.ts   stores all declarations except routes, compiles all declarations, reports findings
 *   application.ts    handles requests with the compiled application
 *   lifecycle.ts      starts and stops the application, and opens the HTTP server of run()
 */
import { ApplicationClock, presentClock, systemClock } from '../base/clock.ts';
import { Config } from '../base/config.ts';
import { SvcError } from '../base/errors.ts';
import { untilAborted } from '../base/promises.ts';
import { examineLive } from '../check/check.ts';
import { FetchMount, MOUNTED_METHODS } from '../http/fetch-mount.ts';
import { AppState, RequestState, services } from '../http/state.ts';
import { REPLACED_APPLICATION } from '../mcp/calls.ts';
import { WebSocketMeter } from '../http/websocket/meter.ts';
import { Rooms, rooms } from '../http/websocket/rooms.ts';
import { callTool, listTools, McpServer, Toolbox } from '../mcp/mcp.ts';
import { mcpRoutes } from '../mcp/mount.ts';
import { createLogger } from '../observability/log.ts';
import { createMetrics } from '../observability/metrics.ts';
import { guardedTracer } from '../observability/tracer.ts';
import { openapiDocument, readOpenApiOptions } from '../openapi/openapi.ts';
import { Operations } from '../operations/operations.ts';
import { BackgroundRunner } from '../routing/background.ts';
import { checkedPrefix, Router } from '../routing/route.ts';
import { readDependencies } from '../routing/spec.ts';
import { Application, answersInMemory } from './application.ts';
import { Declarations, servicesOf, type CompileVariant } from './declarations.ts';
import { assertStartAllowed, Lifecycle, Serving } from './lifecycle.ts';
import { EffectiveOptions, readRunOptions, readSvcOptions } from './options.ts';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Report } from '../base/findings.ts';
import type { ApplicationView, CoreRule } from '../check/check.ts';
import type {
  Awaitable,
  CompiledRoute,
  HttpRequest,
  Middleware,
  MiddlewareFunction,
  Rule,
  Services,
} from '../http/contracts.ts';
import type { ErrorClass, ExceptionHandler } from '../http/pipeline.ts';
import type { RequestDefaults } from '../http/request/request.ts';
import type { McpApplication } from '../mcp/calls.ts';
import type {
  CheckedTool,
  McpCallOptions,
  PromptReply,
  PromptSpec,
  ResourceContext,
  ResourceSpec,
  StdioOptions,
  ToolContext,
  ToolSpec,
} from '../mcp/mcp.ts';
import type { McpMountOptions } from '../mcp/mount.ts';
import type { ToolResult } from '../mcp/results.ts';
import type { Tool } from '../mcp/tools.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter, MetricsRegistry } from '../observability/metrics.ts';
import type { Tracer } from '../observability/tracer.ts';
import type { OpenApiDocument } from '../openapi/document.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { CompiledApplication } from '../routing/compile.ts';
import type { ExceptionArguments, ExceptionSpec } from '../routing/declared-responses.ts';
import type { FetchHandler } from '../http/fetch-mount.ts';
import type { SpecOf } from '../routing/di.ts';
import type { CheckedResult, FetchMountOptions } from '../routing/spec.ts';
import type { Plugin, Replace } from '../routing/plugin.ts';
import type { RunOptions, SvcOptions } from './options.ts';
import type { RequestListeners, RunningServer } from './lifecycle.ts';

/** Property that marks an object as an application. Other copies of this package use the same property. */
export const APP_BRAND: symbol = Symbol.for('svc.app');

/** Function that `app.onStartup()` or `app.onShutdown()` runs once at each start or shutdown. */
export type LifecycleHook = (app: Svc) => unknown;

/** A web application: add routes, middleware and plugins, then call {@link Svc.run}. */
export class Svc extends Router implements McpApplication {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  /** The option `tracer`. An exception of its methods is logged, and does not reach the program. */
  readonly tracer: Tracer | undefined;
  readonly state: AppState;
  /** Groups of this application's WebSockets. A message to a room reaches every WebSocket in it. */
  readonly rooms: Rooms;
  /** @internal */
  readonly operations: Operations;
  readonly #openapi: OpenApiOptions;
  readonly #declarations: Declarations;
  /** @internal */
  readonly lifecycle: Lifecycle;
  /** @internal */
  readonly serving: Serving;
  readonly #errors: Counter;
  readonly #slowReaders: Counter;
  #testEnv: Env | undefined;
  readonly #clock: ApplicationClock;
  /**
   * Settings that the framework itself reads. Undefined until the application is compiled: until then, each
   * access reads the configuration again, because loadDict() may change it.
   */
  #effective: EffectiveOptions | undefined;
  #application: Application | undefined;

  /**
   * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for a value that is not
   * allowed, `E_CONFIG_CAST` when a setting cannot be parsed, `E_TRUST_PROXY` when `trustProxy` is invalid
   */
  constructor(options: SvcOptions = {}) {
    super();
    this.fetch = this.fetch.bind(this);
    const { logger, tracer, clock, roomBus, ops, openapi, settings } = readSvcOptions(options);
    Object.defineProperty(this, APP_BRAND, { value: true });
    this.config = new Config({ values: settings });
    this.#clock = new ApplicationClock(presentClock(clock ?? systemClock));
    this.#openapi = openapi === undefined ? {} : readOpenApiOptions(openapi);
    this.log = logger ?? createLogger({ clock: this.#clock });
    this.tracer = tracer === undefined ? undefined : guardedTracer(tracer, this.log);
    this.metrics = createMetrics({ log: this.log });
    this.#errors = this.metrics.counter(
      'svc_errors_total',
      'Errors that no exception handler has handled, and thrown exceptions with a status of 500 or more',
    );
    this.#slowReaders = this.metrics.counter(
      'svc_slow_readers_total',
      'Connections that were closed because their client read no byte of a response within sendTimeoutMs',
    );
    this.metrics.gauge(
      'svc_buffered_bytes',
      'Bytes of received request bodies and WebSocket messages that are held in memory',
      () => this.#effective?.defaults.budget?.heldBytes ?? 0,
    );
    const tasks = new BackgroundRunner(this.log, this.metrics, this.tracer);
    this.operations = new Operations({
      env: () => this.env,
      clock: this.#clock,
      log: this.log,
      metrics: this.metrics,
      options: ops,
    });
    this.rooms = new Rooms(this.log);
    this.state = new AppState();
    this.state.set(rooms, this.rooms);
    const shared = servicesOf(this);
    this.state.set(services, shared);
    this.#declarations = this.#declare(shared, tasks);
    this.lifecycle = new Lifecycle(this, roomBus, () => this.#declarations.plugins.sorted);
    this.serving = new Serving(this, () => this.application().beside(this.#declarations.metrics().handle));
    this.#readEffective(); // an invalid setting fails here, and not at the first request
  }

  /**
   * `development`, `test` or `production`. It decides, for example, whether `/docs` is served, and who may
   * read `/metrics`.
   */
  get env(): Env {
    return this.#effective?.env ?? this.#testEnv ?? this.config.env;
  }

  get title(): string {
    return this.#readEffective().title;
  }

  get version(): string {
    return this.#readEffective().version;
  }

  /** The clock of the application. A test client may replace it, and this object then uses the new one. */
  get clock(): Clock {
    return this.#clock;
  }

  /**
   * Adds middleware around every route, including routes that were registered before. The middleware that is
   * added first is the outermost.
   * @throws SvcError `E_MIDDLEWARE` when the value is neither a function nor an object with handle()
   */
  override use(middleware: Middleware | MiddlewareFunction): this {
    this.#declarations.addMiddleware(middleware);
    return this;
  }

  /**
   * Adds a function that turns errors of this class into responses. It also handles subclasses that have no
   * handler themselves.
   */
  override exceptionHandler<E>(errorClass: ErrorClass<E>, handler: ExceptionHandler<E>): this;
  /**
   * Adds an exception handler with a spec. Its `response` declares the responses, which are checked and
   * documented like the responses of routes.
   */
  override exceptionHandler<E>(
    errorClass: ErrorClass<E>,
    spec: ExceptionSpec,
    handler: ExceptionHandler<E>,
  ): this;
  override exceptionHandler<E>(errorClass: ErrorClass<E>, ...rest: ExceptionArguments<E>): this {
    this.assertNotFrozen('an exception handler');
    this.#declarations.addExceptionHandler(errorClass, rest);
    return this;
  }

  /**
   * Adds a plugin. The order of the calls does not matter: when the application compiles, each plugin
   * registers after the plugins that it requires. Plugins start in that order, and stop in reverse.
   */
  register(plugin: Plugin): this {
    this.assertNotFrozen(`the plugin "${plugin.name}"`);
    this.#declarations.plugins.add(plugin);
    return this;
  }

  /**
   * Adds a hook that runs before the first request. Hooks run in the order in which they were added. If a
   * hook returns a function, this function runs at shutdown. If a hook fails, the functions and hooks for
   * shutdown run, and `startup()` rejects with the error.
   */
  onStartup(hook: LifecycleHook): this {
    this.assertNotFrozen('a startup hook');
    this.lifecycle.onStartup(() => hook(this));
    return this;
  }

  /**
   * Adds a hook that runs after the last request, or after a failed start. The hook that was added last runs
   * first. If one fails, its error is logged, and the others still run.
   */
  onShutdown(hook: LifecycleHook): this {
    this.assertNotFrozen('a shutdown hook');
    this.lifecycle.onShutdown(() => hook(this));
    return this;
  }

  /**
   * Adds an MCP tool that calls a function instead of a route. `args` declares its arguments. All other keys
   * of `spec` have the same meaning as for a route. A call passes through the middleware like a request.
   * @throws SvcError `E_MCP_NAME` when the name is malformed or taken, `E_ROUTE_SPEC` for a mistake in `spec`
   */
  tool<S extends SpecOf<ToolSpec>, const R>(
    name: string,
    spec: CheckedTool<S, ToolSpec>,
    fn: (context: ToolContext<S>) => CheckedResult<R, S>,
  ): this {
    this.assertNotFrozen(`the tool "${name}"`);
    (this.#declarations.toolbox ??= new Toolbox()).tool(name, spec, fn);
    return this;
  }

  /**
   * Adds a prompt for MCP clients: a template of messages that the user selects and the model reads. Its
   * arguments are text.
   * @throws SvcError `E_MCP_NAME` when the name is malformed or taken, `E_ROUTE_SPEC` for a mistake in `spec`
   */
  prompt<S extends SpecOf<PromptSpec>>(
    name: string,
    spec: CheckedTool<S, PromptSpec>,
    fn: (context: ToolContext<S>) => Awaitable<PromptReply>,
  ): this {
    this.assertNotFrozen(`the prompt "${name}"`);
    (this.#declarations.toolbox ??= new Toolbox()).prompt(name, spec, fn);
    return this;
  }

  /**
   * Adds a resource for MCP clients. Its URI may have parameters: `app.resource('notes://{id}', …)`. `fn`
   * returns text, bytes or JSON. A call passes through the middleware like a request.
   * @throws SvcError `E_MCP_NAME` when the URI is malformed or taken, `E_ROUTE_SPEC` for a mistake in `spec`
   */
  resource<S extends SpecOf<ResourceSpec>>(
    uri: string,
    spec: CheckedTool<S, ResourceSpec>,
    fn: (context: ResourceContext<S>) => unknown,
  ): this {
    this.assertNotFrozen(`the resource "${uri}"`);
    (this.#declarations.toolbox ??= new Toolbox()).resource(uri, spec, fn);
    return this;
  }

  /**
   * Returns the tools for MCP clients: every route except routes with `mcp: false`, and the tools that
   * `tool()` added. Compiles the application.
   */
  mcpTools(): readonly Tool[] {
    return listTools(this);
  }

  /**
   * Calls an MCP tool in this process. The call passes through middleware, guards and validation, like a call
   * of a client. Its only header fields are `options.headers`. If the route refuses the call, the result has
   * `isError`.
   * @throws SvcError `E_MCP_TOOL` when no tool has this name
   */
  mcpCall(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: McpCallOptions = {},
  ): Promise<ToolResult> {
    return callTool(this, name, args, options);
  }

  /**
   * Creates an MCP server that talks over standard input and output: `await app.mcpServer().serve()`.
   * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for a value that is not
   * allowed
   */
  mcpServer(options: StdioOptions = {}): McpServer {
    return new McpServer(this, this.config.get('mcpToken', ''), options);
  }

  /**
   * Adds an endpoint at which MCP clients call tools over HTTP: `app.mountMcp('/mcp')`. A call has the
   * credentials of the HTTP request. It passes through middleware, guards and validation like any request.
   * @throws SvcError `E_PATH_TEMPLATE` for an invalid path, `E_OPTION_UNKNOWN` for an unknown option,
   * `E_OPTION_RANGE` for a value that is not allowed, `E_CORS` for an invalid origin
   */
  mountMcp(path: string, options: McpMountOptions = {}): this {
    answersInMemory.want(); // a call of a tool is a request without a connection
    for (const { methods, path: at, spec, handler } of mcpRoutes(this, path, options))
      this.addRoute(methods, at, [spec, handler]);
    return this;
  }

  /**
   * Passes requests below a path to a fetch handler, such as `app.fetch` of Hono: `app.mount('/legacy',
   * hono.fetch)`. Routes of this application come first. Middleware and limits apply. The handler gets the URL
   * of the client, or with `stripPrefix` the URL without the prefix.
   * @throws SvcError `E_PATH_TEMPLATE` when the path is invalid, `E_ROUTE_HANDLER` when the handler is not a
   * function, `E_OPTION_UNKNOWN` or `E_ROUTE_SPEC` for an invalid option
   */
  mount(prefix: string, handler: FetchHandler, options: FetchMountOptions = {}): this {
    const path = prefix === '/' ? '' : checkedPrefix(prefix);
    if (typeof handler !== 'function') throw new SvcError('E_ROUTE_HANDLER', [`mount ${prefix}`]);
    const { stripPrefix = false, deps, ...rest } = options;
    const mount = new FetchMount(path, handler, stripPrefix);
    const spec = { ...readDependencies(`mount(${prefix})`, deps ?? {}), ...rest, mcp: false };
    for (const at of [`${path}/{rest:path}`, `${path}/`, ...(path === '' ? [] : [path])])
      this.addRoute(
        MOUNTED_METHODS,
        at,
        [spec, ({ req }: { readonly req: HttpRequest }) => mount.answer(req)],
        mount,
      );
    return this;
  }

  /**
   * Adds a rule of your own to `svc check`.
   * @throws SvcError `E_RULE` when the rule is malformed or its id is taken
   */
  addCheck(rule: Rule): this {
    this.#declarations.addRule(rule);
    return this;
  }

  /**
   * The rules that judge the compiled application: first the rules of the framework, then the rules of plugins
   * and addCheck(). `svc check` adds rules that read sources.
   * @internal
   */
  get rules(): readonly (CoreRule | Rule)[] {
    return this.#declarations.rules;
  }

  /**
   * Returns every mistake of the application that can be found without starting it; `svc check` prints the
   * same list. The plugins register, but no hook runs, and no port or connection is opened. Afterwards,
   * routes and hooks can still be added, but no plugins. Mistakes do not throw.
   */
  check(): Report {
    return this.#declarations.check();
  }

  /** Returns the findings of the rules with `phase: 'live'`, which may query databases and other services. */
  async checkLive(): Promise<Report> {
    return examineLive(this.inspect(), this.rules);
  }

  /**
   * Returns the OpenAPI 3.1 document of all routes that are declared so far. `/openapi.json` serves this
   * document, and `svc openapi` prints it.
   */
  openapi(): OpenApiDocument {
    return openapiDocument(this.inspect(), this.#openapi);
  }

  /**
   * Returns the view of the application that the rules of `svc check` and the commands of `svc` read.
   * @internal
   */
  inspect(): ApplicationView {
    return this.#declarations.viewOf(this.#declarations.build());
  }

  /**
   * Checks all declarations, and compiles the application. startup() calls this method; further calls do
   * nothing.
   *
   * @throws SvcError `E_COMPILE` with all findings of check(), if declarations contradict each other, or a
   * rule with `phase: 'graph'` reports an error. Errors of other rules only prevent a start by `svc run` in
   * production.
   */
  compileAll(): this {
    this.application();
    return this;
  }

  /**
   * All compiled routes, one for each method. The method of a WebSocket is `WEBSOCKET`. Compiles the
   * application.
   */
  get routes(): readonly CompiledRoute[] {
    return this.application().routes;
  }

  /**
   * Compiles the application, starts the plugins, runs the startup hooks, then resolves the dependencies of
   * scope `app`. Further calls do nothing until shutdown(). If the start fails, everything that has started
   * is stopped, and the shutdown hooks run. Afterwards, the application may be started again.
   */
  startup(): Promise<void> {
    return this.lifecycle.startup();
  }

  /**
   * Waits for the clean-ups of requests, runs the shutdown hooks, and stops the plugins. Does nothing if the
   * application has not started. Does not close the server of run(): call close() of that server instead.
   */
  shutdown(): Promise<void> {
    return this.lifecycle.shutdown();
  }

  /**
   * Returns listeners for a server of node:http, node:https or another framework:
   * `createServer(app.requestListener().request)`, `express().use('/api', app.requestListener().request)`,
   * `server.on('upgrade', app.requestListener().upgrade)`. The application starts with the first request, and
   * `shutdown()` stops it.
   *
   * The other server enforces the limits of connections, such as header size, timeouts and keep-alive. The
   * application enforces `maxHeaderFields`, `maxBodyBytes`, and the time limits of routes and middleware. No
   * body parser of the other framework may read the body first.
   */
  requestListener(): RequestListeners {
    return this.serving.listeners();
  }

  /**
   * Handles a web-standard `Request` in this process. The first call starts the application. The method may
   * be detached: `export default { fetch: app.fetch }`.
   *
   * If the signal of the request aborts, the call rejects at once with its reason, and the signal of the
   * handler aborts. An already aborted request is not handled.
   */
  fetch(request: Request): Promise<Response> {
    return untilAborted(request.signal, async () => {
      await this.startup();
      const { answerInMemory } = await answersInMemory.load();
      return answerInMemory(this.application(), request);
    });
  }

  /**
   * Starts the application, and listens. Resolves when the server accepts requests. From then on, SIGTERM and
   * SIGINT drain the server, shut the application down, and end the process.
   *
   * With `workers` or `reload`, this process only supervises child processes. They run the same program, and
   * serve requests in the same call of run().
   * @throws SvcError `E_LISTEN` when the address cannot be opened, `E_COMPILE` for mistakes in declarations,
   * `E_WORKERS` when child processes cannot run, `E_TLS` for an invalid certificate or key, and the error of
   * a failed startup hook
   */
  async run(options: RunOptions = {}): Promise<RunningServer> {
    const { server, workers, reload } = readRunOptions(options, this.config);
    // called before the first `await`, so that the stack of an error contains the line that called run()
    assertStartAllowed();
    if (workers === undefined && !reload) return this.serving.run(server);
    const { runSupervised } = await import('../operations/supervise.ts');
    return runSupervised(this, workers === undefined ? { reload: true } : { workers }, server);
  }

  /**
   * Returns the compiled application; the first call compiles it.
   * @throws SvcError `E_COMPILE` when a finding forbids a start
   * @internal
   */
  application(): Application {
    return (this.#application ??= this.#compile());
  }

  /**
   * Compiles the application again for a test client, with the dependencies that the client replaces. Also
   * returns the plugins that this client does not need.
   * @throws SvcError `E_COMPILE` when declarations contradict each other
   * @internal
   */
  variant(given: CompileVariant): {
    readonly served: Application;
    readonly replaced: ReadonlyMap<Plugin, Replace>;
  } {
    this.application(); // registers the plugins
    const { plugins } = this.#declarations;
    const replacements = plugins.replacements(given.overrides ?? new Map());
    const state = new RequestState(replacements.state);
    const variant = { ...given, overrides: replacements.overrides, state };
    const compilation = this.#declarations.build(variant);
    const served = this.#applicationOf(compilation.serve(), variant);
    state.set(REPLACED_APPLICATION, served);
    return { served, replaced: plugins.unneeded(replacements, compilation.sources) };
  }

  /**
   * Replaces the environment and clock of the application, for a test client. A compiled application keeps its
   * environment instead of `usualEnv`.
   * @throws SvcError `E_APP_FROZEN` when the application is already compiled
   * @internal
   */
  withEnvironment(conditions: {
    readonly env?: Env | undefined;
    readonly usualEnv?: Env | undefined;
    readonly clock?: Clock | undefined;
  }): void {
    const usual = this.#application === undefined ? conditions.usualEnv : undefined;
    const env = conditions.env ?? usual ?? this.env;
    const clock = presentClock(conditions.clock ?? this.#clock);
    if (env === this.env && clock === this.#clock.present) return;
    this.assertNotFrozen('an environment or clock');
    this.#testEnv = env;
    this.#clock.present = clock;
  }

  /** Settings that a test client needs to create requests, such as the trusted proxies. @internal */
  get defaults(): RequestDefaults {
    return this.#readEffective().defaults;
  }

  #declare(shared: Services, tasks: BackgroundRunner): Declarations {
    return new Declarations({
      conditions: this,
      config: this.config,
      log: this.log,
      metrics: this.metrics,
      state: this.state,
      operations: this.operations,
      declaredRoutes: this,
      openapi: this.#openapi,
      services: shared,
      tasks,
      errors: this.#errors,
      sockets: { rooms: this.rooms, meter: new WebSocketMeter(this.metrics) },
      isDebug: () => this.#readEffective().debug,
      assertNotFrozen: (what) => this.assertNotFrozen(what),
    });
  }

  #compile(): Application {
    const compiled = this.#declarations.compile();
    this.freeze();
    this.config.freeze();
    this.#effective = this.#readEffective();
    return this.#applicationOf(compiled);
  }

  #applicationOf(
    compiled: CompiledApplication,
    { onFailedAfter, state = this.state }: CompileVariant = {},
  ): Application {
    return new Application({
      compiled,
      options: this.#readEffective(),
      state,
      clock: this.#clock.present,
      log: this.log,
      operations: this.operations,
      errors: this.#errors,
      slowReaders: this.#slowReaders,
      cleanUps: this.lifecycle.cleanUps,
      endless: this.lifecycle.endless,
      onFailedAfter,
    });
  }

  #readEffective(): EffectiveOptions {
    return (
      this.#effective ??
      this.config.together(
        () => new EffectiveOptions(this.config, this.state, this.#testEnv, this.#declarations.middleware),
      )
    );
  }
}
