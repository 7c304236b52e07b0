/**
 * `Svc`: declares an application. Registers routes, middleware, plugins and hooks, and delegates the rest:
 *
 *   declarations.ts   declarations -> compilation and findings
 *   application.ts    the compiled application, which serves
 *   lifecycle.ts      start and stop, and the HTTP server of run() (http/server/server.ts)
 */
import { systemClock } from '../base/clock.ts';
import { Config } from '../base/config.ts';
import { SvcError } from '../base/errors.ts';
import { examineLive } from '../check/check.ts';
import { AppState, services } from '../http/state.ts';
import { WebSocketMeter } from '../http/websocket/meter.ts';
import { Rooms, rooms } from '../http/websocket/rooms.ts';
import { callTool, listTools, McpServer, Toolbox } from '../mcp/mcp.ts';
import { mcpRoutes } from '../mcp/mount.ts';
import { createLogger } from '../observability/log.ts';
import { createMetrics } from '../observability/metrics.ts';
import { OpenApiAnswer, readOpenApiOptions } from '../openapi/answer.ts';
import { Operations } from '../operations/operations.ts';
import { BackgroundRunner } from '../routing/background.ts';
import { Router } from '../routing/route.ts';
import { Application } from './application.ts';
import { Declarations } from './declarations.ts';
import { servicesOf } from './host.ts';
import { assertStartAllowed, Lifecycle, Serving } from './lifecycle.ts';
import { EffectiveOptions, readRunOptions, readSvcOptions } from './options.ts';
import type { RoomBus } from '../cache/stores.ts';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Report } from '../base/findings.ts';
import type { ApplicationView, CoreRule } from '../check/check.ts';
import type { Awaitable, CompiledRoute, Middleware, Plugin, Rule, Services } from '../http/contracts.ts';
import type { ErrorClass, ExceptionHandler, MiddlewareFunction } from '../http/pipeline.ts';
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
import type { OpenApiDocument } from '../openapi/document.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { CompiledApplication } from '../routing/compile.ts';
import type { ExceptionArguments, ExceptionSpec } from '../routing/exceptions.ts';
import type { HandlerResult } from '../routing/spec.ts';
import type { CompileVariant } from './declarations.ts';
import type { RunOptions, SvcOptions } from './options.ts';
import type { RequestListeners, RunningServer } from './lifecycle.ts';

/** Marks applications, whichever copy of the package made them. */
export const APP_BRAND: symbol = Symbol.for('svc.app');

/** A hook that runs once at start or stop. */
export type LifecycleHook = (app: Svc) => unknown;

/** A web application. */
export class Svc extends Router implements McpApplication {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  readonly state: AppState;
  /** The rooms of its WebSockets. */
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
  #clock: Clock;
  /** Undefined until the application is compiled: until then each reader reads the settings anew. */
  #effective: EffectiveOptions | undefined;
  #application: Application | undefined;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_CONFIG_CAST`, `E_TRUST_PROXY` */
  constructor(options: SvcOptions = {}) {
    super();
    this.fetch = this.fetch.bind(this);
    const { logger, clock, roomBus, ops, openapi, settings } = readSvcOptions(options);
    Object.defineProperty(this, APP_BRAND, { value: true });
    this.config = new Config({ values: settings });
    this.#clock = clock ?? systemClock;
    this.#openapi = openapi === undefined ? {} : readOpenApiOptions(openapi);
    this.log = logger ?? createLogger({ clock: this.#clock });
    this.metrics = createMetrics({ log: this.log });
    this.#errors = this.metrics.counter(
      'svc_errors_total',
      'Errors that nothing handled, and answers of 500 and above that were thrown',
    );
    this.#slowReaders = this.metrics.counter(
      'svc_slow_readers_total',
      'Connections that were cut because their client took no byte of its answer for sendTimeoutMs',
    );
    const tasks = new BackgroundRunner(this.log, this.metrics);
    this.operations = new Operations({
      env: () => this.env,
      clock: () => this.#clock,
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
    this.lifecycle = this.#makeLifecycle(roomBus);
    this.serving = this.#makeServing();
    this.#readEffective(); // a setting that cannot be read fails here, not at the first request
  }

  /** `development`, `test` or `production`: which endpoints are protected, and how much an error response shows. */
  get env(): Env {
    return this.#effective?.env ?? this.#testEnv ?? this.config.env;
  }

  get title(): string {
    return this.#readEffective().title;
  }

  get version(): string {
    return this.#readEffective().version;
  }

  get clock(): Clock {
    return this.#clock;
  }

  /** Adds middleware around every route, also around routes that were registered before. The first is the outermost. @throws SvcError `E_MIDDLEWARE` */
  override use(middleware: Middleware | MiddlewareFunction): this {
    this.#declarations.addMiddleware(middleware);
    return this;
  }

  /** Handles errors of this class, and of its subclasses that have no handler of their own. */
  override exceptionHandler<E>(errorClass: ErrorClass<E>, handler: ExceptionHandler<E>): this;
  /** Declares with `response` what the handler replies with: it is checked as replies of routes are, and documented. */
  override exceptionHandler<E>(
    errorClass: ErrorClass<E>,
    spec: ExceptionSpec,
    handler: ExceptionHandler<E>,
  ): this;
  override exceptionHandler<E>(errorClass: ErrorClass<E>, ...rest: ExceptionArguments<E>): this {
    this.assertNotFrozen('register an exception handler');
    this.#declarations.addExceptionHandler(errorClass, rest);
    return this;
  }

  /**
   * Adds a plugin. The order of the calls does not matter: when the application compiles, each plugin comes after the plugins
   * that it requires. They start in that order and stop in reverse.
   */
  register(plugin: Plugin): this {
    this.assertNotFrozen(`register the plugin "${plugin.name}"`);
    this.#declarations.plugins.add(plugin);
    return this;
  }

  /**
   * Runs a hook before the first request, in order of registration. A function that the hook returns, or resolves with, is its
   * clean-up: it runs at the stop, as if it had been registered with {@link Svc.onShutdown} here. A failure ends the start:
   * clean-ups and shutdown hooks run, and `startup()` rejects with it.
   */
  onStartup(hook: LifecycleHook): this {
    this.assertNotFrozen('register a startup hook');
    this.lifecycle.onStartup(() => hook(this));
    return this;
  }

  /** Runs a hook after the last request, or after a start that failed, in reverse order; a failure is logged and the others run. */
  onShutdown(hook: LifecycleHook): this {
    this.assertNotFrozen('register a shutdown hook');
    this.lifecycle.onShutdown(() => hook(this));
    return this;
  }

  /**
   * A tool for MCP clients that is not a route. `args` declares its arguments; all other keys mean what they mean for a route. A
   * call goes through the middleware as a request does. @throws SvcError `E_MCP_NAME`, `E_ROUTE_SPEC`
   */
  tool<const S extends object, const R extends HandlerResult<S>>(
    name: string,
    spec: S & CheckedTool<S, ToolSpec>,
    fn: (context: ToolContext<S>) => R | Promise<R>,
  ): this {
    this.assertNotFrozen(`add the tool "${name}"`);
    (this.#declarations.toolbox ??= new Toolbox()).tool(name, spec, fn);
    return this;
  }

  /** A prompt for MCP clients: a person picks it, a model reads it. Its arguments arrive as text. @throws SvcError `E_MCP_NAME`, `E_ROUTE_SPEC` */
  prompt<const S extends object>(
    name: string,
    spec: S & CheckedTool<S, PromptSpec>,
    fn: (context: ToolContext<S>) => Awaitable<PromptReply>,
  ): this {
    this.assertNotFrozen(`add the prompt "${name}"`);
    (this.#declarations.toolbox ??= new Toolbox()).prompt(name, spec, fn);
    return this;
  }

  /**
   * A resource for MCP clients, by its URI, which may have parameters: `app.resource('notes://{id}', …)`. Its function returns text, bytes
   * or JSON; a call goes through the middleware as a request does. @throws SvcError `E_MCP_NAME`, `E_ROUTE_SPEC`
   */
  resource<const S extends object>(
    uri: string,
    spec: S & CheckedTool<S, ResourceSpec>,
    fn: (context: ResourceContext<S>) => unknown,
  ): this {
    this.assertNotFrozen(`add the resource "${uri}"`);
    (this.#declarations.toolbox ??= new Toolbox()).resource(uri, spec, fn);
    return this;
  }

  /** The tools that MCP clients see: every route but those with `mcp: false`, and what tool() has added. Compiles the application. */
  mcpTools(): readonly Tool[] {
    return listTools(this);
  }

  /**
   * Calls a tool as a client would, in process: through middleware, guards and validation, with only the header fields in `headers`.
   * A refusal of the route is a result with `isError`. @throws SvcError `E_MCP_TOOL`
   */
  mcpCall(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: McpCallOptions = {},
  ): Promise<ToolResult> {
    return callTool(this, name, args, options);
  }

  /** An MCP server over standard input and output: `await app.mcpServer().serve()`. @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  mcpServer(options: StdioOptions = {}): McpServer {
    return new McpServer(this, this.config.get('mcpToken', ''), options);
  }

  /**
   * An MCP endpoint over HTTP: `app.mountMcp('/mcp')`. Calls bring the credentials of the client's request, and go through everything
   * that a request does. @throws SvcError `E_PATH_TEMPLATE`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_CORS`
   */
  mountMcp(path: string, options: McpMountOptions = {}): this {
    for (const { methods, path: at, spec, handler } of mcpRoutes(this, path, options))
      this.addRoute(methods, at, [spec, handler]);
    return this;
  }

  /** Adds a check of your own to those of the package and its plugins. @throws SvcError `E_RULE` */
  addCheck(rule: Rule): this {
    this.#declarations.addRule(rule);
    return this;
  }

  /** Every check: those of the package, then those that were added. @internal */
  get rules(): readonly (CoreRule | Rule)[] {
    return this.#declarations.rules;
  }

  /**
   * Everything that is wrong with the application, as far as it can be known without starting it: what `svc check` prints.
   * Registers the plugins, runs no hooks, opens nothing, freezes nothing, throws nothing.
   */
  check(): Report {
    return this.#declarations.check();
  }

  /** Throws when check() finds an error. @throws SvcError `E_COMPILE` with the findings @internal */
  assertChecks(): void {
    const { ok, findings } = this.check();
    if (!ok) throw new SvcError('E_COMPILE', [findings], { findings });
  }

  /** Findings of the checks of the phase `live`, which may query databases and other services. */
  async checkLive(): Promise<Report> {
    return examineLive(this.inspect(), this.rules);
  }

  /** The OpenAPI 3.1 document of the application as it is declared now: what `/openapi.json` serves and `svc openapi` prints. */
  openapi(): OpenApiDocument {
    return new OpenApiAnswer(() => this.inspect(), this.#openapi).document;
  }

  /** The application as checks and commands see it. @internal */
  inspect(): ApplicationView {
    return this.#declarations.viewOf(this.#declarations.build());
  }

  /**
   * Finds every mistake and builds what serves. Called by startup(); calling it again does nothing.
   *
   * @throws SvcError `E_COMPILE` with all that check() reports, when it finds a mistake between declarations or an error of
   * a rule of the phase `graph`. Errors of other rules only keep `svc run` in production from starting.
   */
  compileAll(): this {
    this.application();
    return this;
  }

  /** Every route after compilation, one per method; a WebSocket's is `WEBSOCKET`. */
  get routes(): readonly CompiledRoute[] {
    return this.application().routes;
  }

  /**
   * Compiles, starts the plugins, runs the startup hooks, then resolves the dependencies of scope `app`. Further
   * calls do nothing until shutdown(). After a failure the parts that had started are stopped and the shutdown hooks run;
   * the start may be tried again.
   */
  startup(): Promise<void> {
    return this.lifecycle.startup();
  }

  /** Waits for the clean-ups of requests, then runs the shutdown hooks. Does nothing when the application has not started. It does not close the server of run(). */
  shutdown(): Promise<void> {
    return this.lifecycle.shutdown();
  }

  /**
   * Listeners for a server of node:http or node:https, or of another framework: `createServer(app.requestListener().request)`,
   * `express().use('/api', app.requestListener().request)`, `server.on('upgrade', app.requestListener().upgrade)`. The application
   * starts with the first request, and `shutdown()` stops it.
   *
   * The other server keeps the limits of connections: header size, times for heads and bodies, keep-alive, the number of
   * connections, requests in flight, slow readers and draining are its own. `maxHeaderFields`, `maxBodyBytes`, time limits of
   * routes and every middleware hold as usual. A body parser of the other framework must not read the body first.
   */
  requestListener(): RequestListeners {
    return this.serving.listeners();
  }

  /** Answers a web request in process, starting the application if need be. Works without `this`: `export default { fetch: app.fetch }`. */
  async fetch(request: Request): Promise<Response> {
    await this.startup();
    const { answerInMemory } = await import('../http/server/memory.ts');
    return answerInMemory(this.application(), request);
  }

  /**
   * Starts and listens. Resolves when requests are accepted; SIGTERM and SIGINT then drain, shut down and end the process.
   *
   * With `workers` or `reload` this process only supervises worker processes. They run the same program, and serve in this same call.
   *
   * @throws SvcError `E_LISTEN`, `E_COMPILE`, `E_WORKERS`, `E_TLS`, and whatever a startup hook throws
   */
  async run(options: RunOptions = {}): Promise<RunningServer> {
    const { server, workers, reload } = readRunOptions(options, this.config);
    assertStartAllowed(); // before the first `await`, while the caller is on the stack: the error names its line
    if (workers === undefined && !reload) return this.serving.run(server);
    const { runSupervised } = await import('../operations/supervise.ts');
    return runSupervised(this, workers === undefined ? { reload: true } : { workers }, server);
  }

  /** The compiled application. @throws SvcError `E_COMPILE` @internal */
  application(): Application {
    return (this.#application ??= this.#compile());
  }

  /** The application compiled in another way, for a test client. @throws SvcError `E_COMPILE` @internal */
  variant(variant: CompileVariant): Application {
    return this.#applicationOf(this.#declarations.build(variant).serve(), variant);
  }

  /** Replaces environment and clock, for a test client. @throws SvcError `E_APP_FROZEN` @internal */
  withEnvironment(conditions: { readonly env?: Env | undefined; readonly clock?: Clock | undefined }): void {
    const { env = this.env, clock = this.#clock } = conditions;
    if (env === this.env && clock === this.#clock) return;
    this.assertNotFrozen('change where it runs');
    this.#testEnv = env;
    this.#clock = clock;
  }

  /** Settings of requests, for a test client. @internal */
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
      routes: {
        route: (path, methods, spec, handler) => void this.addRoute(methods, path, [spec, handler]),
      },
      declaredRoutes: this,
      openapi: this.#openapi,
      services: shared,
      tasks,
      errors: this.#errors,
      sockets: { rooms: this.rooms, meter: new WebSocketMeter(this.metrics) },
      isDebug: () => this.#readEffective().debug,
      isContentTypeStrict: () => this.#readEffective().strictContentType,
      assertNotFrozen: (action) => this.assertNotFrozen(action),
    });
  }

  #makeLifecycle(roomBus: RoomBus | undefined): Lifecycle {
    return new Lifecycle({
      log: this.log,
      rooms: this.rooms,
      roomBus,
      compile: () => this.application(),
      shutdown: () => this.shutdown(),
      plugins: () => this.#declarations.plugins.sorted,
    });
  }

  #makeServing(): Serving {
    return new Serving({
      lifecycle: this.lifecycle,
      startup: () => this.startup(),
      shutdown: () => this.shutdown(),
      operations: this.operations,
      log: this.log,
      application: () => this.application(),
      metricsApplication: () => this.application().beside(this.#declarations.metrics().handle),
      clock: () => this.#clock,
      env: () => this.env,
    });
  }

  #compile(): Application {
    const compiled = this.#declarations.compile();
    this.freeze();
    this.config.freeze();
    this.#effective = this.#readEffective();
    return this.#applicationOf(compiled);
  }

  #applicationOf(compiled: CompiledApplication, { onFailedAfter }: CompileVariant = {}): Application {
    return new Application({
      compiled,
      options: this.#readEffective(),
      clock: this.#clock,
      log: this.log,
      operations: this.operations,
      errors: this.#errors,
      slowReaders: this.#slowReaders,
      cleanUps: this.lifecycle.cleanUps,
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
