/**
 * The application: declared, compiled once, then served.
 *
 *   declare   app.get(...), app.use(...), app.includeRouter(...), app.exceptionHandler(...), app.onStartup(...)
 *   compile   every mistake between declarations at once, as one SvcError; then nothing can be added any more
 *   serve     handle(req): match -> middleware -> handler -> answer
 */
import { BackgroundRunner } from '../routing/background.ts';
import { checkedRule, examine, examineLive, makeReport } from '../check/check.ts';
import { neededSecrets } from '../check/secrets.ts';
import { coreRules } from '../check/rules.ts';
import { passesAtStart } from '../check/start.ts';
import { systemClock } from '../base/clock.ts';
import { compileApplication, thrown } from '../routing/compile.ts';
import { Config } from '../base/config.ts';
import { SvcError } from '../base/errors.ts';
import { declaredHere } from '../base/findings.ts';
import { createLogger } from '../observability/log.ts';
import { McpServer, callTool, listTools } from '../mcp/mcp.ts';
import { mcpRoutes } from '../mcp/mount.ts';
import { Toolbox } from '../mcp/toolbox.ts';
import { createMetrics } from '../observability/metrics.ts';
import { Operations } from '../operations/operations.ts';
import { OpenApiAnswer, readOpenApiOptions } from '../openapi/answer.ts';
import { bool, given, int, readOptions, text } from '../base/options.ts';
import { sortPlugins, startPlugins, stopPlugins } from '../routing/plugin.ts';
import { Router } from '../routing/route.ts';
import { endOnSignals } from '../operations/signals.ts';
import { ACCESS_LOG_NEEDS, AccessLog, readShare } from '../http/middleware/access-log.ts';
import { ExceptionHandlers } from '../http/exception-handlers.ts';
import { LIMIT_OPTIONS, readLimits } from '../http/server/limits.ts';
import { ErrorRenderer, asMiddleware } from '../http/pipeline.ts';
import { FORWARDED_HEADERS, readTrustProxy } from '../http/request/proxy.ts';
import { RequestEvent, answerRequest, endRequest } from '../http/request/event.ts';
import { RequestIDMiddleware } from '../http/middleware/request-id.ts';
import { HttpServer } from '../http/server/server.ts';
import { Rooms, rooms } from '../http/websocket/rooms.ts';
import { AppState, services } from '../http/state.ts';
import { TLS_OPTION, readTlsOptions } from '../http/server/tls-options.ts';
import { WebSocketMeter } from '../http/websocket/meter.ts';
import type { ApplicationView, CoreRule, Examination } from '../check/check.ts';
import type { Clock } from '../base/clock.ts';
import type { DocsPage } from '../openapi/docs/page.ts';
import type { Compilation, CompilationView, CompiledApplication } from '../routing/compile.ts';
import type { Env } from '../base/config.ts';
import type { DependencySource } from '../routing/di.ts';
import type { FaultCode } from '../base/faults.ts';
import type { Declared, Finding, Place, Report } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { McpCallOptions, StdioOptions } from '../mcp/mcp.ts';
import type { McpApplication } from '../mcp/calls.ts';
import type { McpMountOptions } from '../mcp/mount.ts';
import type { ToolResult } from '../mcp/results.ts';
import type { CheckedTool, PromptReply, PromptSpec, ToolContext, ToolSpec } from '../mcp/toolbox.ts';
import type { Tool } from '../mcp/tools.ts';
import type { Counter, MetricsRegistry } from '../observability/metrics.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { OpenApiDocument } from '../openapi/document.ts';
import type { OpsOptions } from '../operations/operations.ts';
import type { RegisteredPlugin } from '../routing/plugin.ts';
import type { HandlerResult, Routes } from '../routing/route.ts';
import type {
  Awaitable,
  CompiledRoute,
  ContributedMigration,
  Host,
  Middleware,
  Plugin,
  Rule,
  Services,
  StateMap,
} from '../http/contracts.ts';
import type { ConnectionMeter } from '../http/server/connection-meter.ts';
import type { ErrorClass, ExceptionHandler } from '../http/exception-handlers.ts';
import type { Answer } from '../http/late-answer.ts';
import type { LimitOptions, Limits } from '../http/server/limits.ts';
import type { MiddlewareFunction } from '../http/pipeline.ts';
import type { ForwardedHeader, TrustProxy } from '../http/request/proxy.ts';
import type { Outcome, RequestDefaults, TransportRequest } from '../http/request/request.ts';
import type { HttpResponse } from '../http/response.ts';
import type { ServedApplication } from '../http/server/server.ts';
import type { SecureTransport } from '../http/server/tls.ts';
import type { TlsOptions, TlsWishes } from '../http/server/tls-options.ts';
import type { RoomBus } from '../cache/stores.ts';
import type { Leave } from '../operations/supervision.ts';

/** Marks applications, whichever copy of the package made them. */
export const APP_BRAND: symbol = Symbol.for('svc.app');

/** What an application is made from. `undefined` means not given. Settings of your own go under `config`. */
export interface SvcOptions extends LimitOptions {
  /** Stack traces in 5xx answers. Default false. */
  readonly debug?: boolean | undefined;
  /** `/docs` and `/openapi.json`. Default: true outside production. */
  readonly enableDocs?: boolean | undefined;
  /** What the document at `/openapi.json` says of the application as a whole. */
  readonly openapi?: OpenApiOptions | undefined;
  /**
   * What tokens, sessions and the like are signed with unless they have a secret of their own: at least 32 bytes; of a list
   * the first signs, the others are still accepted. To be kept in the variable SVC_AUTH_SECRET instead (and the one before
   * in SVC_AUTH_SECRET_PREVIOUS).
   */
  readonly authSecret?: string | readonly string[] | undefined;
  /** The version of your interface, for documents. Default `1.0.0`. */
  readonly version?: string | undefined;
  /** Its title. Default `svc`. */
  readonly title?: string | undefined;
  /** Default `production`; the variable SVC_ENV wins. */
  readonly env?: Env | undefined;
  /** The cap of every request body in bytes. Default: none but those of `json()`, `text()` and `form()`. */
  readonly maxBodyBytes?: number | undefined;
  /** Where uploaded files are kept that do not fit in memory, until their requests are over. Default: the system's folder for temporary files. SVC_UPLOAD_DIRECTORY. */
  readonly uploadDirectory?: string | undefined;
  /**
   * Whether bodies that come with `Content-Encoding` gzip, deflate, br or zstd are read as what they stand for. Default false:
   * 415. What comes out counts for every limit, and is at most 100 times what went in where that is more than 1 MiB.
   */
  readonly decompressBodies?: boolean | undefined;
  /**
   * The proxies in front, whose word counts for `req.ip`, `req.scheme` and `req.host`: how many there are, or their addresses,
   * networks (`10.0.0.0/8`), `loopback`, `private`, `linklocal`. In the variable SVC_TRUST_PROXY with commas. Default: none.
   */
  readonly trustProxy?: TrustProxy | undefined;
  /**
   * The one family of fields that these proxies write: `x-forwarded` (default) is `X-Forwarded-For` with `X-Forwarded-Proto`,
   * `forwarded` is `Forwarded` (RFC 7239). The other is never read, for proxies pass on what clients write into it. SVC_FORWARDED_HEADER.
   */
  readonly forwardedHeader?: ForwardedHeader | undefined;
  /**
   * Whether `req.host` is what they say in `X-Forwarded-Host`, or in `host=` of `Forwarded`. Default false: it is `Host`. Safe only
   * where each of them sets the field or removes it, or clients choose the host that links are made of. SVC_TRUST_FORWARDED_HOST.
   */
  readonly trustForwardedHost?: boolean | undefined;
  /**
   * One line for each request, by the logger `svc_access`, event `request`; of a number 0 ... 1 that part of all, and every answer
   * of 500 and above. Default false. The variable SVC_ACCESS_LOG wins.
   */
  readonly accessLog?: boolean | number | undefined;
  /** Where events go. Default: standard error. */
  readonly logger?: Logger | undefined;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
  /** What carries messages to the rooms of WebSockets in other processes. Default: the workers of this program among each other. */
  readonly roomBus?: RoomBus | undefined;
  /** Who may read `/metrics`, and where. */
  readonly ops?: OpsOptions | undefined;
  /** Settings of your own, below loadDict() and the variables `SVC_*`. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
}

/** Where to listen. What is left out comes from the settings `host` and `port` (SVC_HOST, SVC_PORT). */
export interface RunOptions {
  /** Default `127.0.0.1`. */
  readonly host?: string | undefined;
  /** 0 ... 65535; 0 takes a free one. Default 8000. */
  readonly port?: number | undefined;
  /** How long requests in flight may take after SIGTERM, in seconds, 0 ... 3600. Default 30. */
  readonly drainSeconds?: number | undefined;
  /** Whether SIGTERM and SIGINT drain and end the process. Default true. */
  readonly handleSignals?: boolean | undefined;
  /** Speaks TLS. Default: where SVC_TLS_CERT and SVC_TLS_KEY name a certificate and its key. */
  readonly tls?: TlsOptions | undefined;
  /** Serves with so many processes that each run this program, 1 ... 1024, or with one for each core. Default: with this one. */
  readonly workers?: number | 'auto' | undefined;
  /** Serves with another process that runs this program, and starts it anew when a file that it imports is saved. Default false. */
  readonly reload?: boolean | undefined;
}

/** What {@link Svc.serve} needs to know. @internal */
export interface ServeOptions {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  readonly drainMs: number;
  readonly handleSignals: boolean;
  /** Whether the connections come from a parent, which also tells where they are accepted. */
  readonly isSupervised?: boolean;
}

/** A server that runs. */
export interface RunningServer {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Drains, shuts the application down, and resolves when all is done. */
  close(): Promise<void>;
}

/** Called once at start or end. */
export type LifecycleHook = (app: Svc) => unknown;

/** How a compilation differs from the application's own: for test clients. @internal */
export interface CompileVariant {
  /** Told of every error that nothing handled. */
  readonly onUnhandled?: ((error: unknown, requestId: string) => void) | undefined;
  /** What stands in for sources of dependencies. */
  readonly overrides?: ReadonlyMap<unknown, DependencySource> | undefined;
}

/** On `process`, for all copies of this package in it: a program in one file brings one of its own. */
const START_DENIED: unique symbol = Symbol.for('svc.start.denied');

/** From now on no application of this process starts: its modules are imported to be looked at. @internal */
export function denyStart(): void {
  Object.defineProperty(process, START_DENIED, { value: true, configurable: true });
}

function isStartDenied(): boolean {
  return START_DENIED in process;
}

/** A web application. */
export class Svc extends Router implements ServedApplication, McpApplication {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  readonly state: AppState;
  /** The rooms of its WebSockets. */
  readonly rooms: Rooms;
  /** @internal */
  readonly operations: Operations;
  /** As they are once compiled; until then loadDict() may change them. */
  /** Where it was made. */
  readonly #declared: Declared = declaredHere();
  #settings: Settings | undefined;
  readonly #openapi: OpenApiOptions;
  #pretendedEnv: Env | undefined;
  #clock: Clock;
  readonly #middleware: Middleware[] = [];
  readonly #middlewarePlaces = new Map<Middleware, Declared>();
  readonly #handlers = new ExceptionHandlers();
  readonly #registered: RegisteredPlugin[] = [];
  readonly #rules: Rule[] = [];
  readonly #migrations: ContributedMigration[] = [];
  #plugins: readonly Plugin[] | undefined;
  /** Of declarations and plugins, each found where it happened. */
  readonly #declaredFindings: Finding[] = [];
  /** Undefined as long as there are no tools and prompts but its routes. */
  #toolbox: Toolbox | undefined;
  readonly #startupHooks: LifecycleHook[] = [];
  readonly #shutdownHooks: LifecycleHook[] = [];
  readonly #pending = new Set<Promise<void>>();
  readonly #tasks: BackgroundRunner;
  readonly #errorCounter: Counter;
  readonly #slowReaders: Counter;
  readonly #sockets: WebSocketMeter;
  readonly #roomBus: RoomBus | undefined;
  readonly #services: Services = lent(this);
  #compiled: CompiledApplication | undefined;
  /** Undefined where there is none. */
  #accessLog: AccessLog | undefined;
  /** The dependencies that live as long as the application: how to leave them. */
  #sharing: Promise<() => Promise<void>> | undefined;
  #starting: Promise<void> | undefined;
  #startAbort: AbortController | undefined;
  #stopping: Promise<void> | undefined;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_CONFIG_CAST`, `E_TRUST_PROXY` */
  constructor(options: SvcOptions = {}) {
    super();
    const { logger, clock, config, ops, roomBus, openapi, ...settings } = readOptions('Svc', options, {
      debug: given<boolean>('true or false', (value) => typeof value === 'boolean'),
      enableDocs: given<boolean>('true or false', (value) => typeof value === 'boolean'),
      authSecret: given<string | readonly string[]>('a string or a list of strings', (value) =>
        [value].flat().every((secret) => typeof secret === 'string'),
      ),
      version: text(),
      title: text(),
      env: text(),
      maxBodyBytes: given<number>(
        'an integer 0 or more',
        (value) => Number.isSafeInteger(value) && (value as number) >= 0,
      ),
      uploadDirectory: text(),
      accessLog: given<boolean | number>(
        ACCESS_LOG_NEEDS,
        (value) => typeof value !== 'string' && readShare(value) !== undefined,
      ),
      decompressBodies: given<boolean>('true or false', (value) => typeof value === 'boolean'),
      ...LIMIT_OPTIONS,
      trustProxy: given<TrustProxy>(), // read with the other settings
      forwardedHeader: given<ForwardedHeader>(FORWARDED_NEEDS, (value) =>
        FORWARDED_HEADERS.some((known) => known === value),
      ),
      trustForwardedHost: given<boolean>('true or false', (value) => typeof value === 'boolean'),
      logger: given<Logger>('a logger', isObject),
      clock: given<Clock>('a clock', isObject),
      roomBus: given<RoomBus>('a RoomBus', isObject),
      config: given<Record<string, unknown>>('an object', isObject),
      ops: given<OpsOptions>('an object', isObject),
      openapi: given<OpenApiOptions>('an object', isObject),
    });
    this.config = new Config({ values: { ...config, ...withoutUndefined(settings) } });
    this.#clock = clock ?? systemClock;
    this.#openapi = openapi === undefined ? {} : readOpenApiOptions(openapi);
    this.log = logger ?? createLogger({ clock: this.#clock });
    Object.defineProperty(this, APP_BRAND, { value: true });
    this.metrics = createMetrics({ log: this.log });
    this.#errorCounter = this.metrics.counter(
      'svc_errors_total',
      'Errors that nothing handled, and answers of 500 and above that were thrown',
    );
    this.#slowReaders = this.metrics.counter(
      'svc_slow_readers_total',
      'Connections that were cut because their client took no byte of its answer for sendTimeoutMs',
    );
    this.#tasks = new BackgroundRunner(this.log, this.metrics);
    this.operations = new Operations({
      env: () => this.env,
      clock: () => this.#clock,
      log: this.log,
      metrics: this.metrics,
      options: ops ?? {},
    });
    this.#sockets = new WebSocketMeter(this.metrics);
    this.state = new AppState();
    this.rooms = new Rooms(this.log);
    this.#roomBus = roomBus;
    this.state.set(rooms, this.rooms);
    this.state.set(services, this.#services);
    this.#readSettings(); // a variable that does not cast is told here, not at the first request
  }

  /** Where it runs; decides what is protected and what is shown. */
  get env(): Env {
    return this.#settings?.env ?? this.#pretendedEnv ?? this.config.env;
  }

  get title(): string {
    return this.#readSettings().title;
  }

  get version(): string {
    return this.#readSettings().version;
  }

  get clock(): Clock {
    return this.#clock;
  }

  /** A layer around every route, whenever it is registered; the first is outermost. @throws SvcError `E_MIDDLEWARE` */
  use(middleware: Middleware | MiddlewareFunction): this {
    this.mustNotBeFrozen('use a middleware');
    const layer = asMiddleware(middleware);
    this.#middleware.push(layer);
    this.#middlewarePlaces.set(layer, declaredHere());
    return this;
  }

  /** Answers what is thrown of this class, or of a class below it that has no handler of its own. */
  exceptionHandler<E>(errorClass: ErrorClass<E>, handler: ExceptionHandler<E>): this {
    this.mustNotBeFrozen('register an exception handler');
    if (!this.#handlers.add(errorClass, handler)) {
      this.#declaredFindings.push({
        rule: 'SVC123',
        severity: 'info',
        subject: `exception handler of ${errorClass.name}`,
        place: declaredHere().place,
        message: 'there is another one of this class, which never runs',
        remedy: 'Keep one handler for each class',
      });
    }
    return this;
  }

  /**
   * Adds a plugin. Whenever it is called, plugins are registered in the order of what they require when the application
   * compiles, started in that order and stopped in reverse.
   */
  register(plugin: Plugin): this {
    this.mustNotBeFrozen(`register the plugin "${plugin.name}"`);
    if (this.#plugins !== undefined)
      throw new SvcError('E_APP_FROZEN', [`register the plugin "${plugin.name}"`]);
    this.#registered.push({ plugin, place: declaredHere().place });
    return this;
  }

  /** Before the first request, in order; a failure ends the start and is what `startup()` rejects with. */
  onStartup(hook: LifecycleHook): this {
    this.mustNotBeFrozen('register a startup hook');
    this.#startupHooks.push(hook);
    return this;
  }

  /** After the last request, in reverse order; a failure is logged and the others run. */
  onShutdown(hook: LifecycleHook): this {
    this.mustNotBeFrozen('register a shutdown hook');
    this.#shutdownHooks.push(hook);
    return this;
  }

  /**
   * A tool for MCP clients that is no route: its `args` are fields, every other key of the spec is as a route has it. A call goes
   * through the middleware as a request does. @throws SvcError `E_MCP_NAME`, `E_ROUTE_SPEC`
   */
  tool<const S extends object, const R extends HandlerResult<S>>(
    name: string,
    spec: S & CheckedTool<S, ToolSpec>,
    fn: (context: ToolContext<S>) => R | Promise<R>,
  ): this {
    this.mustNotBeFrozen(`add the tool "${name}"`);
    (this.#toolbox ??= new Toolbox()).tool(name, spec, fn);
    return this;
  }

  /** A prompt for MCP clients: what a person picks, and a model reads. Its `args` come as text. @throws SvcError `E_MCP_NAME`, `E_ROUTE_SPEC` */
  prompt<const S extends object>(
    name: string,
    spec: S & CheckedTool<S, PromptSpec>,
    fn: (context: ToolContext<S>) => Awaitable<PromptReply>,
  ): this {
    this.mustNotBeFrozen(`add the prompt "${name}"`);
    (this.#toolbox ??= new Toolbox()).prompt(name, spec, fn);
    return this;
  }

  /** The tools that MCP clients see: every route but those with `mcp: false`, and what tool() has added. Compiles the application. */
  mcpTools(): readonly Tool[] {
    return listTools(this);
  }

  /**
   * Calls a tool as a client would, in process: through middleware, guards and validation, with the fields in `headers` and no others.
   * What the route refuses is a result with `isError`. @throws SvcError `E_MCP_TOOL`
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
    this.mustNotBeFrozen(`add the check "${rule.id}"`);
    this.#rules.push(checkedRule(rule, this.rules));
    return this;
  }

  /** Every check: those of the package, then those that were added. @internal */
  get rules(): readonly (CoreRule | Rule)[] {
    return [...coreRules(), ...this.#rules];
  }

  /**
   * Everything that is wrong with the application, as far as it can be known without starting it: what `svc check` prints.
   * Registers the plugins, runs no hooks, opens nothing, freezes nothing, throws nothing.
   */
  check(): Report {
    try {
      return this.#examine(this.#build({})).report;
    } catch (error) {
      // a setting of the framework that loadDict() has spoilt: without it nothing else can be judged
      if (!(error instanceof SvcError)) throw error;
      const rule = SPOILT[error.code as FaultCode];
      if (rule === undefined) throw error;
      return makeReport([
        { rule, severity: 'error', subject: 'the settings', message: error.message, remedy: error.remedy },
      ]);
    }
  }

  /** Refuses an application of which a check finds an error. @throws SvcError `E_COMPILE` with the findings @internal */
  mustPass(): void {
    const { ok, findings } = this.check();
    if (!ok) throw new SvcError('E_COMPILE', [findings], { findings });
  }

  /** What the checks of the phase `live` find, which may ask databases and other services. */
  async checkLive(): Promise<Report> {
    return examineLive(this.inspect(), this.rules);
  }

  /** The OpenAPI 3.1 document of the application as it is declared now: what `/openapi.json` serves and `svc openapi` prints. */
  openapi(): OpenApiDocument {
    return new OpenApiAnswer(() => this.inspect(), this.#openapi).document;
  }

  /** The application as checks and commands see it. @internal */
  inspect(): ApplicationView {
    return this.#viewOf(this.#build({}));
  }

  /**
   * Finds every mistake and builds what serves. Called by startup(); calling it again does nothing.
   *
   * @throws SvcError `E_COMPILE` with all that check() reports, when a mistake between declarations or a rule of the phase
   * `graph` is among it. Errors of other rules keep nothing from starting but `svc run` in production.
   */
  compileAll(): this {
    this.#compile();
    return this;
  }

  /** Every route after compilation, one per method; a WebSocket's is `WEBSOCKET`. */
  get routes(): readonly CompiledRoute[] {
    return this.#compile().routes;
  }

  /**
   * Compiles, starts the plugins, runs the startup hooks, then resolves the dependencies of scope `app`; once until
   * shutdown(), however often it is called. What had started is stopped again when something fails; it may be tried again.
   */
  async startup(): Promise<void> {
    await this.startParts();
    try {
      await (this.#sharing ??= this.#compile().start());
    } catch (error) {
      // out here: shutdown() waits for #sharing
      await this.shutdown();
      throw error;
    }
  }

  /** Plugins and hooks alone: a test client has shared dependencies of its own. @internal */
  startParts(): Promise<void> {
    if (isStartDenied()) return Promise.reject(new SvcError('E_START_DENIED', []));
    return (this.#starting ??= this.#start().catch((error: unknown) => {
      this.rooms.disconnect();
      this.#starting = undefined;
      throw error;
    }));
  }

  /** Waits for what still runs after answers, then runs the shutdown hooks: those of an application that has started, once. */
  shutdown(): Promise<void> {
    if (this.#starting === undefined && this.#sharing === undefined) return Promise.resolve();
    return (this.#stopping ??= this.#stop().finally(() => {
      this.#starting = this.#sharing = this.#stopping = undefined;
    }));
  }

  /** @internal */
  mcpView(): Pick<CompilationView, 'details' | 'middleware' | 'tools'> {
    return this.#compile().view;
  }

  /** The route that answers to a method at a path. @internal */
  routeAt(method: string, path: string): CompiledRoute | undefined {
    return this.#compile().routeAt(method, path);
  }

  /** Answers a call of a tool. @internal */
  async answerCall(
    request: Request,
    remoteAddress: string,
    isFunction: boolean,
    prepare: (req: TransportRequest) => void,
  ): Promise<Response> {
    const { handle, handleTool } = this.#compile();
    const { answerInMemory } = await import('../http/server/memory.ts');
    return answerInMemory(
      { ...this.#served(), handle: isFunction ? handleTool : handle },
      request,
      remoteAddress,
      prepare,
    );
  }

  /** Answers a web request in process, starting the application if need be. */
  async fetch(request: Request): Promise<Response> {
    await this.startup();
    const { answerInMemory } = await import('../http/server/memory.ts');
    return answerInMemory(this, request);
  }

  /**
   * Starts and listens. Resolves when requests are accepted; SIGTERM and SIGINT then drain, shut down and end the process.
   *
   * With `workers` or `reload` this process only supervises others that run the same program, in which the same call serves.
   *
   * @throws SvcError `E_LISTEN`, `E_COMPILE`, `E_WORKERS`, `E_TLS`, and whatever a startup hook throws
   */
  async run(options: RunOptions = {}): Promise<RunningServer> {
    const { host, port, drainSeconds, handleSignals, workers, reload, tls } = readOptions('run()', options, {
      host: given<string>('a string', (value) => typeof value === 'string'),
      port: given<number>(
        'an integer 0 … 65535',
        (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 65_535,
      ),
      drainSeconds: int(30, 0, 3_600),
      handleSignals: bool(true),
      reload: bool(false),
      tls: TLS_OPTION,
      workers: given<number | 'auto'>(
        'an integer 1 … 1024, or "auto"',
        (value) => value === 'auto' || int(1, 1, 1_024).accepts(value),
      ),
    });
    if (workers !== undefined && reload)
      throw new SvcError('E_OPTION_RANGE', [
        'run()',
        'reload',
        'to be left out where "workers" is given',
        'both',
      ]);
    const wishes = {
      host: host ?? this.config.get('host', '127.0.0.1'),
      port: port ?? this.config.get('port', 8000),
      drainMs: drainSeconds * 1_000,
      handleSignals,
      tls: readTlsOptions(tls, this.config),
    };
    if (isStartDenied()) throw new SvcError('E_START_DENIED', []); // before anything is awaited: its place is the caller's
    if (workers !== undefined || reload) {
      const { runSupervised } = await import('../operations/supervise.ts');
      return runSupervised(this, workers === undefined ? { reload: true } : { workers }, wishes);
    }
    return this.#runAlone(wishes);
  }

  /** Starts, listens and serves in this process. From the first moment a signal ends it in order: what had started is stopped. */
  async #runAlone(
    wishes: Omit<ServeOptions, 'url'> & { readonly tls: TlsWishes | undefined },
  ): Promise<RunningServer> {
    const isFirst = this.#starting === undefined;
    const secure = await this.secure(wishes.tls);
    let server: HttpServer | undefined;
    let opening: Promise<RunningServer> | undefined;
    let running: RunningServer | undefined;
    const close = async (): Promise<void> => {
      const open = running ?? (await opening?.catch(() => undefined)); // once its ports are open it has accepted connections
      await (open === undefined ? this.shutdown() : open.close());
      signals?.[Symbol.dispose]();
    };
    const signals = !wishes.handleSignals
      ? undefined
      : endOnSignals({
          clock: this.#clock,
          log: this.log,
          deadlineMs: wishes.drainMs + SHUTDOWN_MS,
          close,
          renew: secure === undefined ? undefined : () => secure.reload(),
        });
    const isEnding = (): boolean => signals?.isEnding === true;
    try {
      await this.startup();
      if (isEnding()) return await never();
      server = new HttpServer(this, secure);
      running = await (opening = this.#open(server, wishes));
      return isEnding() ? await never() : { ...running, close };
    } catch (error) {
      if (isEnding()) return never(); // that is why it failed
      signals?.[Symbol.dispose]();
      await server?.close(0);
      if (isFirst) await this.shutdown(); // what had started would keep the process alive
      throw error;
    }
  }

  /** Listens and serves. @throws SvcError `E_LISTEN` */
  async #open(server: HttpServer, wishes: Omit<ServeOptions, 'url'>): Promise<RunningServer> {
    return this.serve(server, { ...wishes, ...(await server.listen(wishes)) });
  }

  /** What speaks TLS. @throws SvcError `E_TLS` @internal */
  async secure(wishes: TlsWishes | undefined): Promise<SecureTransport | undefined> {
    if (wishes === undefined) return undefined;
    const { SecureTransport } = await import('../http/server/tls.ts');
    return new SecureTransport(wishes, { clock: this.#clock, log: this.log });
  }

  /** Goes on with a server that accepts requests, however they reach it. @internal */
  async serve(
    server: HttpServer,
    { drainMs, isSupervised = false, host, port, url }: ServeOptions,
  ): Promise<RunningServer & { close(how?: Leave): Promise<void> }> {
    const { operations } = this;
    operations.inFlight = () => server.inFlight;
    const metrics =
      operations.access.port === undefined ? undefined : await this.#listenForMetrics(operations.access.port);
    const watch = operations.watchEventLoop();
    if (!isSupervised) this.log.info('listening', { url, env: this.env });
    let closing: Promise<void> | undefined;
    const close = (how: Leave = 'stop'): Promise<void> => {
      if (how === 'stop' && closing !== undefined) server.closeIdle();
      if (how === 'stop') operations.isStopping = true; // one that retires leaves others that are ready
      return (closing ??= this.#drain(server, drainMs, how === 'retire' ? drainMs : LAST_REQUEST_MS).finally(
        async () => {
          await metrics?.close(0);
          watch[Symbol.dispose]();
        },
      ));
    };
    return { host, port, url, close };
  }

  /** `/metrics` on the port of its own that `ops.metrics.port` asks for. */
  async #listenForMetrics(port: number): Promise<HttpServer> {
    const { host } = this.operations.access;
    const router = new Router().getOwn('/metrics', OPS_SPEC, ({ req }) => this.operations.metrics(req));
    const compiled = this.#compileRoutes({ routes: router }, {}).serve();
    const { defaults, clock, log, securesCookies } = this;
    const server = new HttpServer({
      defaults,
      clock,
      log,
      securesCookies,
      handle: compiled.handle,
      finish: (req, outcome) => this.finish(req, outcome),
      count: (req, response, durationMs) => this.#tell(req, response, durationMs),
    });
    const { url } = await server.listen({ host, port });
    this.log.info('listening', { url, what: 'metrics' });
    return server;
  }

  /** @internal */
  count(req: TransportRequest, response: HttpResponse, durationMs: number): void {
    this.operations.count(req, response.status, durationMs);
    if (this.#accessLog !== undefined) req.event ??= new RequestEvent(req);
    this.#tell(req, response, durationMs);
  }

  /** Those who watch requests. */
  #tell(req: TransportRequest, response: HttpResponse, durationMs: number): void {
    if (req.event !== undefined) answerRequest(req.event, response, durationMs);
  }

  /** @internal */
  get limits(): Limits {
    return this.#readSettings().limits;
  }

  /** @internal */
  get longestRequestMs(): number | undefined {
    let longest: number | undefined;
    for (const { requestTimeoutMs } of this.routes)
      if (requestTimeoutMs !== undefined)
        longest = Math.max(requestTimeoutMs, longest ?? this.limits.requestTimeoutMs);
    return longest;
  }

  /** @internal */
  isProbe({ path }: TransportRequest): boolean {
    return PROBES.has(path);
  }

  /** @internal */
  get connections(): ConnectionMeter {
    return this.operations.connections;
  }

  /** @internal */
  countCut(why: 'failed' | 'slow'): void {
    if (why === 'failed') this.#errorCounter.add(1);
    else this.#slowReaders.add(1);
  }

  /** @internal */
  get defaults(): RequestDefaults {
    return this.#readSettings().defaults;
  }

  /** @internal */
  get securesCookies(): boolean {
    return this.#readSettings().env === 'production';
  }

  /** @internal */
  handle(req: TransportRequest): Answer {
    return this.#compiled!.handle(req); // run(), fetch() and test clients start the application first
  }

  /** @internal */
  upgrade(req: TransportRequest): Answer {
    return this.#compiled!.upgrade(req);
  } // as above

  /** @internal */
  hasSocketAt(path: string): boolean {
    return this.#compiled!.hasSocketAt(path);
  }

  /** Lets a test say where the application runs, and what time it is. @throws SvcError `E_APP_FROZEN` @internal */
  pretend(conditions: { readonly env?: Env | undefined; readonly clock?: Clock | undefined }): void {
    const { env = this.env, clock = this.#clock } = conditions;
    if (env === this.env && clock === this.#clock) return;
    this.mustNotBeFrozen('change where it runs');
    this.#pretendedEnv = env;
    this.#clock = clock;
  }

  /** The application compiled in another way, for a test client. @internal */
  variant(variant: CompileVariant): ServedApplication & Pick<CompiledApplication, 'start'> {
    const { handle, upgrade, hasSocketAt, start } = this.#build(variant).serve();
    return { ...this.#served(), handle, upgrade, hasSocketAt, start };
  }

  /** All that serves but what answers. */
  #served(): Omit<ServedApplication, 'handle'> {
    const { defaults, clock, log, securesCookies, connections } = this;
    return {
      defaults,
      clock,
      log,
      securesCookies,
      connections,
      finish: (req, outcome) => this.finish(req, outcome),
      count: (req, response, durationMs) => this.count(req, response, durationMs),
      countCut: (why) => this.countCut(why),
    };
  }

  /** @internal */
  finish(req: TransportRequest, outcome: Outcome): Awaitable<void> {
    if (req.event !== undefined) {
      endRequest(req.event, outcome);
      this.#accessLog?.write(req, req.event);
    }
    const hooks = req.takeAfterwards(outcome, this);
    return hooks === undefined ? undefined : this.#afterwards(hooks, req, outcome);
  }

  /** @internal */
  runLate(req: TransportRequest, hook: (outcome: Outcome) => Awaitable<void>, outcome: Outcome): void {
    void this.#afterwards([hook], req, outcome);
  }

  /** Shutdown waits for it. */
  #afterwards(
    hooks: ((outcome: Outcome) => Awaitable<void>)[],
    req: TransportRequest,
    outcome: Outcome,
  ): Promise<void> {
    const running = this.#runAfterwards(hooks, req, outcome);
    this.#pending.add(running);
    return running.finally(() => this.#pending.delete(running));
  }

  async #runAfterwards(
    hooks: ((outcome: Outcome) => Awaitable<void>)[],
    req: TransportRequest,
    outcome: Outcome,
  ): Promise<void> {
    for (const hook of hooks.reverse()) {
      try {
        await hook(outcome);
      } catch (error) {
        this.log.error('cleanup_failed', error, req.logFields());
      }
    }
  }

  #compile(): CompiledApplication {
    if (this.#compiled !== undefined) return this.#compiled;
    const compilation = this.#build({});
    if (!this.#isFlawless(compilation)) this.#mustStart(compilation);
    const compiled = compilation.serve();
    this.freeze();
    this.#toolbox?.freeze();
    this.config.freeze();
    this.#settings = this.#readSettings();
    const { accessLog } = this.#settings;
    if (accessLog > 0) this.#accessLog = new AccessLog(this.log, accessLog);
    return (this.#compiled = compiled);
  }

  /** Whether no rule that counts at a start finds anything: then none of their texts is needed. */
  #isFlawless(compilation: Compilation): boolean {
    return (
      compilation.findings.length === 0 &&
      !this.#rules.some(countsAtStart) &&
      passesAtStart(this.#viewOf(compilation))
    );
  }

  /** @throws SvcError `E_COMPILE` with all that check() reports, when something keeps it from starting */
  #mustStart(compilation: Compilation): void {
    const { report, refuses } = this.#examine(compilation, this.rules.filter(countsAtStart));
    if (refuses) {
      const { findings } = this.#examine(compilation).report;
      throw new SvcError('E_COMPILE', [findings], { findings });
    }
    // others can wait for the next deployment; a secret that can be guessed is no protection from this moment on
    for (const { rule, message, remedy } of report.findings)
      if (rule === 'SVC205') this.log.warn('secret_weak', { message, remedy });
  }

  #readSettings(): Settings {
    return (
      this.#settings ??
      this.config.together(() => new Settings(this.config, this.state, this.#pretendedEnv, this.#middleware))
    );
  }

  /** Puts the plugins in order and lets each declare what it brings; once. */
  #registerPlugins(report: (finding: Finding) => void): void {
    if (this.#plugins !== undefined) return;
    if (this.#registered.length === 0) {
      this.#plugins = [];
      return;
    }
    const findings: Finding[] = [];
    const sorted = sortPlugins(this.#registered, (finding) => findings.push(finding));
    findings.forEach(report);
    if (findings.length > 0) return;
    this.#plugins = sorted;
    for (const plugin of sorted) {
      try {
        plugin.register(this.#hostFor(plugin));
      } catch (error) {
        this.#declaredFindings.push({
          rule: 'SVC114',
          severity: 'error',
          subject: `plugin ${plugin.name}`,
          place: this.#placeOfPlugin(plugin),
          message: `its register() threw ${thrown(error)}`,
          remedy: error instanceof SvcError ? error.remedy : 'Mend the plugin, or what it is made with',
        });
      }
    }
  }

  #placeOfPlugin(plugin: Plugin): Place | undefined {
    return this.#registered.find((registered) => registered.plugin === plugin)?.place;
  }

  #hostFor(plugin: Plugin): Host {
    const app = this;
    return {
      get env() {
        return app.env;
      },
      get clock() {
        return app.clock;
      },
      log: this.log.child(plugin.name),
      metrics: this.metrics,
      routes: { route: (path, methods, spec, handler) => void this.addRoute(methods, path, [spec, handler]) },
      option: (key, fallback, cast) =>
        this.config.get(
          key,
          fallback as never,
          cast === undefined ? (undefined as never) : { cast: cast as never },
        ) as never, // get() has an overload for each kind
      use: (middleware, where = 'inside') => {
        this.use(middleware);
        if (where === 'outside') this.#middleware.unshift(this.#middleware.pop()!); // use() has put it last
      },
      get: (key) => this.state.get(key),
      has: (key) => this.state.has(key),
      provide: (key, read) => this.state.provide(key, read),
      readiness: (name, probe) => this.operations.probe(name, probe),
      rule: (rule) => {
        this.mustNotBeFrozen(`add the check "${rule.id}"`);
        this.#rules.push(checkedRule(rule, this.rules, { mayExtend: true }));
      },
      migration: (id, sql) => void this.#migrations.push({ plugin: plugin.name, id, sql }),
      migrations: this.#migrations,
    };
  }

  #build(variant: CompileVariant): Compilation {
    const findings: Finding[] = [];
    this.#registerPlugins((finding) => findings.push(finding));
    const compilation = this.#compileRoutes(
      { routes: this, operations: this.#operationRoutes(() => compilation.view), tools: this.#toolbox },
      variant,
      this.#middleware,
      [...findings, ...this.#declaredFindings],
    );
    return compilation;
  }

  #examine(compilation: Compilation, rules: readonly (CoreRule | Rule)[] = this.rules): Examination {
    return examine(this.#viewOf(compilation), compilation.findings, rules);
  }

  #viewOf({ view }: Compilation): ApplicationView {
    const declared = this.#declared;
    const placeOfPlugin = (plugin: Plugin): Place | undefined => this.#placeOfPlugin(plugin);
    return {
      ...view,
      get place() {
        return declared.place;
      },
      placeOfMiddleware: (layer) => this.#middlewarePlaces.get(layer)?.place,
      placeOfPlugin: (name) => this.#registered.find(({ plugin }) => plugin.name === name)?.place,
      metricsGuard: this.operations.guard,
      hasPublicDocs: this.operations.hasPublicDocs,
      settings: this.config,
      nowMs: this.clock.nowMs(),
      nodeVersion: process.versions.node,
      get secrets() {
        return neededSecrets(view, placeOfPlugin);
      },
    };
  }

  #compileRoutes(
    routes: { routes: Routes; operations?: Routes; tools?: Routes | undefined },
    variant: CompileVariant,
    middleware: readonly Middleware[] = [],
    findings: readonly Finding[] = [],
  ): Compilation {
    const errors = new ErrorRenderer({
      handlers: this.#handlers,
      log: this.log,
      errors: this.#errorCounter,
      debug: this.#readSettings().debug,
      onUnhandled: variant.onUnhandled,
    });
    return compileApplication({
      ...routes,
      middleware,
      plugins: this.#plugins ?? [],
      findings,
      services: this.#services,
      config: (key) => this.config.peek(key),
      errors,
      placeOfMiddleware: (layer) => this.#middlewarePlaces.get(layer)?.place,
      tasks: this.#tasks,
      state: this.state,
      overrides: variant.overrides ?? new Map(),
      sockets: { rooms: this.rooms, meter: this.#sockets },
    });
  }

  /** The probes, the metrics where they have no port of their own, and the documents where they are shown. */
  #operationRoutes(view: () => CompilationView): Routes {
    const { operations } = this;
    const router = new Router();
    router.getOwn('/healthz', PROBE_SPEC, () => operations.health());
    router.getOwn('/readyz', PROBE_SPEC, () => operations.readiness());
    if (operations.access.port === undefined)
      router.getOwn('/metrics', OPS_SPEC, ({ req }) => operations.metrics(req));
    if (this.config.get('enableDocs', this.env !== 'production')) {
      const openapi = new OpenApiAnswer(view, this.#openapi);
      let page: Promise<DocsPage> | undefined;
      const docs = (): Promise<DocsPage> =>
        (page ??= import('../openapi/docs/page.ts').then(
          ({ DocsPage }) => new DocsPage(() => openapi.document),
        ));
      router.getOwn('/openapi.json', DOCS_SPEC, ({ req }) =>
        operations.document(req, () => openapi.answer(req)),
      );
      router.getOwn('/docs', DOCS_SPEC, ({ req }) =>
        operations.document(req, async () => (await docs()).respond(req)),
      );
    }
    return router;
  }

  async #start(): Promise<void> {
    this.#compile();
    const plugins = this.#plugins!; // compiling has put them in order
    if (this.#roomBus !== undefined) this.rooms.connect(this.#roomBus);
    const abort = (this.#startAbort = new AbortController());
    if (plugins.length > 0) await startPlugins(plugins, abort.signal, this.log);
    try {
      await this.#roomBus?.settled?.(); // whoever comes after this hears what others send
      for (const hook of this.#startupHooks) {
        abort.signal.throwIfAborted();
        await hook(this);
      }
    } catch (error) {
      if (plugins.length > 0) await stopPlugins(plugins, this.log);
      throw error;
    }
  }

  async #stop(): Promise<void> {
    this.#startAbort?.abort(new Error('The application is shutting down'));
    const hasStarted =
      (await this.#starting?.then(
        () => true,
        () => false,
      )) === true;
    while (this.#pending.size > 0) await Promise.all(this.#pending);
    const leave = await this.#sharing?.catch(() => undefined);
    await leave?.();
    this.rooms.disconnect();
    if (!hasStarted) return;
    for (const hook of this.#shutdownHooks.toReversed()) {
      try {
        await hook(this);
      } catch (error) {
        this.log.error('shutdown_hook_failed', error);
      }
    }
    if (this.#plugins!.length > 0) await stopPlugins(this.#plugins!, this.log); // it has started, so they are in order
  }

  async #drain(server: HttpServer, deadlineMs: number, graceMs: number): Promise<void> {
    this.log.info('draining', { in_flight: server.inFlight });
    const cut = await server.close(deadlineMs, graceMs);
    if (cut > 0) this.log.warn('drain_deadline_exceeded', { requests_cut: cut });
    await this.shutdown();
    this.log.info('stopped');
  }
}

/** The framework's own settings, read together. */
class Settings {
  readonly env: Env;
  readonly debug: boolean;
  readonly title: string;
  readonly version: string;
  readonly defaults: RequestDefaults;
  readonly limits: Limits;
  /** The part of all requests that has a line in the access log. */
  readonly accessLog: number;

  /** @throws SvcError `E_CONFIG_CAST`, `E_TRUST_PROXY` */
  constructor(
    config: Config,
    state: StateMap,
    pretendedEnv: Env | undefined,
    middleware: readonly Middleware[],
  ) {
    this.env = pretendedEnv ?? config.env;
    this.debug = config.get('debug', false);
    this.title = config.get('title', 'svc');
    this.version = config.get('version', '1.0.0');
    const share = readShare(
      config.get('accessLog', undefined, { cast: readShare, needs: ACCESS_LOG_NEEDS }) ?? false,
    );
    if (share === undefined)
      throw new SvcError('E_CONFIG_CAST', [
        'the setting "accessLog" (SVC_ACCESS_LOG)',
        ACCESS_LOG_NEEDS,
        'another value',
      ]);
    this.accessLog = share;
    const header = config.get<ForwardedHeader | undefined>('forwardedHeader', 'x-forwarded', {
      cast: (text) => FORWARDED_HEADERS.find((known) => known === text),
      needs: FORWARDED_NEEDS,
    })!;
    const saysHost = config.get('trustForwardedHost', false);
    const trusted = config.get('trustProxy', undefined, { cast: (text): unknown => text });
    const trust = trusted === undefined ? undefined : readTrustProxy(trusted, { header, saysHost });
    const identity = middleware.find((layer) => layer instanceof RequestIDMiddleware)?.identity;
    this.limits = readLimits(config, trust !== undefined);
    this.defaults = {
      state,
      maxBodyBytes: config.get('maxBodyBytes', Infinity),
      decompressBodies: config.get('decompressBodies', false),
      trust,
      identity,
      uploadDirectory: config.get('uploadDirectory', '') || undefined,
    };
  }
}

const FORWARDED_NEEDS = FORWARDED_HEADERS.map((name) => `"${name}"`).join(' or ');

/** Others keep nothing from starting. */
function countsAtStart({ id, phase }: CoreRule | Rule): boolean {
  return phase === 'graph' || id === 'SVC205';
}

/** The rules of settings that the framework itself cannot read. */
const SPOILT: Readonly<Partial<Record<FaultCode, Finding['rule']>>> = {
  E_CONFIG_CAST: 'SVC401',
  E_TRUST_PROXY: 'SVC210',
};

/** What an application lends, read anew each time: a test may pretend other conditions. */
function lent(app: Svc): Services {
  return {
    get env() {
      return app.env;
    },
    get clock() {
      return app.clock;
    },
    get log() {
      return app.log;
    },
    get metrics() {
      return app.metrics;
    },
    get config() {
      return app.config;
    },
  };
}

/** A process that is about to end answers nobody any more. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

/** How long a connection that a parent has just handed over may take to send its first request while the application stops. */
const LAST_REQUEST_MS = 100;

/** How long background tasks, hooks and plugins may take to end after the last request, before a signal ends the process anyway. */
const SHUTDOWN_MS = 10_000;

/** Answered by a process that is merely busy. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

const OPS_SPEC = {
  public: 'operations',
  mcp: false,
  rateLimit: false,
  timeoutMs: false,
  meta: { loadShedding: false },
} as const; // a probe that is refused restarts what is healthy
/** They are read by people, or by programs at their desks. */
const DOCS_SPEC = { public: 'documentation', mcp: false } as const;
/** Probes come by address, and their answers give nothing away. */
const PROBE_SPEC = { ...OPS_SPEC, meta: { ...OPS_SPEC.meta, trustedHost: false } } as const;

/** What was not given does not hide what `config` says of the same name. */
function withoutUndefined(values: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
