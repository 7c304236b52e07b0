/**
 * A compiled application: finds the route of each request, calls its handler, counts the response, and runs
 * clean-ups. Routes and middleware can no longer be added.
 *
 * For each request, the server calls handle(req). It passes the response to count(), sends it, and calls
 * finish(req, outcome). Test clients, `app.fetch()` and MCP call these methods, too.
 */
import { LazyModule } from '../base/promises.ts';
import { findField } from '../http/headers.ts';
import { AccessLog } from '../http/middleware/access-log.ts';
import { Delivery } from '../http/request/delivery.ts';
import { ProxyWatch } from '../http/request/proxy.ts';
import { isProbe } from './operation-routes.ts';
import type { Clock } from '../base/clock.ts';
import type { Endless } from '../http/chunks.ts';
import type { Awaitable, CompiledRoute, StateMap } from '../http/contracts.ts';
import type { Core } from '../http/pipeline.ts';
import type { Outcome, RequestDefaults, TransportRequest } from '../http/request/request.ts';
import type { HttpResponse } from '../http/response.ts';
import type { ConnectionMeter } from '../http/server/connection-meter.ts';
import type { Limits } from '../http/server/options.ts';
import type { ServedApplication } from '../http/server/server.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter } from '../observability/metrics.ts';
import type { Operations } from '../operations/operations.ts';
import type { CompilationView, CompiledApplication } from '../routing/compile.ts';
import type { CompileVariant } from './declarations.ts';
import type { EffectiveOptions } from './options.ts';

/** Code for requests without a connection, which most applications do not need. */
export const answersInMemory: LazyModule<typeof import('../http/server/memory.ts')> = new LazyModule(
  () => import('../http/server/memory.ts'),
);

/** The compiled routes, and the services that an application uses while it handles requests. */
interface ApplicationDeps {
  readonly compiled: CompiledApplication;
  readonly options: EffectiveOptions;
  /** State of the requests. A test client may replace values in it. */
  readonly state: StateMap;
  readonly clock: Clock;
  readonly log: Logger;
  readonly operations: Operations;
  /** Counts errors that no exception handler handled. */
  readonly errors: Counter;
  /** Counts connections that were closed because their client did not read the response. */
  readonly slowReaders: Counter;
  /** Running clean-ups of requests whose responses were already sent. A shutdown waits for them. */
  readonly cleanUps: Set<Promise<void>>;
  readonly endless: Set<Endless>;
  /** Called with each error that a clean-up threw, after the error was logged. */
  readonly onFailedAfter?: CompileVariant['onFailedAfter'];
}

type CleanUp = (outcome: Outcome) => Awaitable<void>;

/** An application whose routes and middleware are compiled and can no longer change. */
export class Application implements ServedApplication {
  readonly defaults: RequestDefaults;
  readonly clock: Clock;
  readonly log: Logger;
  readonly limits: Limits;
  readonly securesCookies: boolean;
  readonly connections: ConnectionMeter;
  readonly endless: Set<Endless>;
  readonly longestRequestMs: number | undefined;
  readonly routes: readonly CompiledRoute[];
  readonly view: CompilationView;
  readonly handle: Core;
  readonly upgrade: Core;
  readonly hasSocketAt: (path: string) => boolean;
  readonly routeAt: (method: string, path: string) => CompiledRoute | undefined;
  /** Also imports the WebSocket modules if a route needs them. */
  readonly start: () => Promise<() => Promise<void>>;
  readonly isProbe: (req: TransportRequest) => boolean = isProbe;
  readonly #deps: ApplicationDeps;
  readonly #accessLog: AccessLog | undefined;
  /** Detects a proxy that the setting `trustProxy` does not name; undefined after the detection. */
  #proxyWatch: ProxyWatch | undefined;
  /** Handles calls of MCP tools, prompts and resources that are declared as functions, not as routes. */
  readonly #functions: ServedApplication;

  constructor(deps: ApplicationDeps) {
    const { compiled, options, state, clock, log, operations } = deps;
    this.#deps = deps;
    this.defaults = { ...options.defaults, state };
    this.clock = clock;
    this.log = log;
    this.limits = options.limits;
    this.securesCookies = options.env === 'production';
    this.connections = operations.connections;
    this.endless = deps.endless;
    this.longestRequestMs = longestTimeout(compiled.routes, options.limits);
    this.routes = compiled.routes;
    this.view = compiled.view;
    this.handle = compiled.handle;
    this.upgrade = compiled.upgrade;
    this.hasSocketAt = compiled.hasSocketAt;
    this.routeAt = compiled.routeAt;
    this.start = compiled.start;
    this.#accessLog = options.accessLog > 0 ? new AccessLog(log, options.accessLog) : undefined;
    this.#proxyWatch = options.defaults.trust === undefined ? new ProxyWatch(log) : undefined;
    this.#functions = this.#withHandle(compiled.handleTool);
  }

  /** Adds the field `Allow` to a 405 without it (RFC 9110 §15.5.6). */
  count(req: TransportRequest, response: HttpResponse, durationMs: number): void {
    if (response.status === 405 && findField(response.fields(false), 'allow') === undefined)
      response.headers.set('Allow', this.#deps.compiled.allowedFor(req));
    this.#deps.operations.count(req, response.status, durationMs);
    if (this.#proxyWatch?.look(req) === true) this.#proxyWatch = undefined;
    req.span?.answer(response.status);
    if (this.#accessLog !== undefined) req.delivery = new Delivery(req.method, response, durationMs);
  }

  /**
   * Counts a response that could not be sent completely. `why` is `failed` if node:http refused the response,
   * or if reading its body threw. It is `slow` if the client did not read the response.
   */
  countCut(why: 'failed' | 'slow'): void {
    if (why === 'failed') this.#deps.errors.add(1);
    else this.#deps.slowReaders.add(1);
  }

  /** Ends the span, writes the line of the access log, then runs the clean-ups. */
  finish(req: TransportRequest, outcome: Outcome): Awaitable<void> {
    req.span?.end(outcome);
    if (req.delivery !== undefined) this.#accessLog?.write(req, req.delivery, outcome === undefined);
    const cleanUps = req.takeAfterwards(outcome, this);
    return cleanUps === undefined ? undefined : this.#cleanUp(cleanUps, req, outcome);
  }

  runLate(req: TransportRequest, cleanUp: CleanUp, outcome: Outcome): void {
    void this.#cleanUp([cleanUp], req, outcome);
  }

  /** `isFunction`: for a function of app.tool(), app.prompt() or app.resource(), and not for a route. */
  async answerCall(
    request: Request,
    remoteAddress: string,
    isFunction: boolean,
    prepare: (req: TransportRequest) => void,
  ): Promise<Response> {
    const { answerInMemory } = await answersInMemory.load();
    return answerInMemory(isFunction ? this.#functions : this, request, remoteAddress, prepare);
  }

  /** Returns an application for `/metrics` on a separate port, which does not count requests. */
  beside(handle: Core): ServedApplication {
    return { ...this.#withHandle(handle), count: (req, { status }) => req.span?.answer(status) };
  }

  #withHandle(handle: Core): ServedApplication {
    const { defaults, clock, log, securesCookies } = this;
    return {
      defaults,
      clock,
      log,
      securesCookies,
      handle,
      finish: (req, outcome) => this.finish(req, outcome),
      count: (req, response, durationMs) => this.count(req, response, durationMs),
      countCut: (why) => this.countCut(why),
    };
  }

  #cleanUp(cleanUps: CleanUp[], req: TransportRequest, outcome: Outcome): Promise<void> {
    const running = this.#runCleanUps(cleanUps, req, outcome);
    this.#deps.cleanUps.add(running);
    return running.finally(() => this.#deps.cleanUps.delete(running));
  }

  async #runCleanUps(cleanUps: CleanUp[], req: TransportRequest, outcome: Outcome): Promise<void> {
    for (const cleanUp of cleanUps.reverse()) {
      try {
        await cleanUp(outcome);
      } catch (error) {
        this.log.error('cleanup_failed', error, req.logFields());
        this.#deps.onFailedAfter?.(error, req.id);
      }
    }
  }
}

/** Returns the longest time limit for receiving a request; undefined if no route sets `requestTimeoutMs`. */
function longestTimeout(routes: readonly CompiledRoute[], limits: Limits): number | undefined {
  const own = routes.flatMap(({ requestTimeoutMs }) => requestTimeoutMs ?? []);
  return own.length === 0
    ? undefined
    : own.reduce((longest, ms) => Math.max(longest, ms), limits.requestTimeoutMs);
}
