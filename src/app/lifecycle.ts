/**
 * Starts and stops an application, and opens the HTTP server of `app.run()`.
 *
 * Order of the steps:
 *   startup()    compile, connect the rooms, start plugins, run startup hooks,
 *                resolve dependencies of scope `app`
 *   shutdown()   wait for clean-ups of requests, clean up dependencies of scope `app`, disconnect the rooms,
 *                run shutdown hooks, stop plugins
 *   run()        listen for signals, startup(), open the port, serve requests
 *   close()      let /readyz respond 503, accept no more connections, wait for running requests, shutdown()
 *
 * After SIGTERM, run() waits before close() for the delay of the option `shutdownDelaySeconds`: /readyz
 * responds 503, the server accepts connections, and each connection ends after its response.
 *
 * If a plugin or hook fails to start, everything that has already started is stopped, and the shutdown hooks
 * run. Afterwards, the application may be started again.
 */
import { SvcError, serverStops } from '../base/errors.ts';
import { PluginRun, STEP_MS, stopped, type Plugin, type Replace } from '../routing/plugin.ts';
import { HttpServer } from '../http/server/server.ts';
import { flushed } from '../observability/log.ts';
import { announceStop, delayAfter, endOnSignals, lastWordsMs } from '../operations/signals.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Endless } from '../http/chunks.ts';
import type { RoomBus } from '../cache/stores.ts';
import { presentClock } from '../base/clock.ts';
import { realFolder } from '../http/files/static-folder.ts';
import type { Application } from './application.ts';
import type { EmbeddedListener } from '../http/server/embedded.ts';
import type { ServedApplication } from '../http/server/server.ts';
import type { SecureTransport } from '../http/server/tls.ts';
import type { ServerTlsOptions } from '../http/server/options.ts';
import type { StopTimes } from '../operations/signals.ts';
import type {
  OpenServer,
  OpenedServer,
  ServeOptions,
  SupervisedApplication,
} from '../operations/supervised.ts';
import type { Leave } from '../operations/supervision.ts';

/**
 * Key of the flag that forbids a start. The flag is a property of `process`, so that every copy of this
 * package reads it, for example a bundled copy.
 */
const START_DENIED: unique symbol = Symbol.for('svc.start.denied');

/**
 * Makes every start of an application in this process fail. Commands such as `svc check` call it, because
 * they import the application but must not start it.
 */
export function denyStart(): void {
  Object.defineProperty(process, START_DENIED, { value: true, configurable: true });
}

/** @throws SvcError `E_START_DENIED` when {@link denyStart} was called in this process */
export function assertStartAllowed(): void {
  if (START_DENIED in process) throw new SvcError('E_START_DENIED', []);
}

/** The members of an application that its lifecycle and its servers use. `Svc` implements them. */
interface LivingApplication extends Omit<SupervisedApplication, 'metrics' | 'serving'> {
  readonly lifecycle: Lifecycle;
  /** Compiles the application on the first call. */
  application(): Application;
  /**
   * Starts the application. The servers call this method and not {@link Lifecycle.startup}, so that a
   * subclass of `Svc` can override the start.
   */
  startup(): Promise<void>;
}

const NONE: ReadonlyMap<Plugin, Replace> = new Map();

/** A startup hook with the clean-up that it returned, or a shutdown hook. */
interface Hook {
  readonly start?: () => unknown;
  stop?: (() => unknown) | undefined;
}

/** Starts and stops one application. */
export class Lifecycle {
  readonly #hooks: Hook[] = [];
  /** Running clean-ups of requests. A shutdown waits for them. */
  readonly cleanUps: Set<Promise<void>> = new Set();
  /** Event streams and WebSockets that a shutdown ends, unless a server of this framework has ended them. */
  readonly endless: Set<Endless> = new Set();
  readonly #app: LivingApplication;
  readonly #roomBus: RoomBus | undefined;
  readonly #plugins: PluginRun;
  #sharing: Promise<() => Promise<void>> | undefined;
  #starting: Promise<void> | undefined;
  #startAbort: AbortController | undefined;
  #stopping: Promise<void> | undefined;
  #step = 'a startup hook';

  /**
   * `plugins` is only called after the application was compiled, and returns them in the order of the start.
   */
  constructor(app: LivingApplication, roomBus: RoomBus | undefined, plugins: () => readonly Plugin[]) {
    this.#app = app;
    this.#roomBus = roomBus;
    // a test client's clock stands still, so it would never end the shutdown of a plugin that hangs
    this.#plugins = new PluginRun(plugins, app.log, presentClock(app.clock));
  }

  /**
   * Adds a startup hook. If the hook returns a function, or a promise of one, that function runs at shutdown.
   */
  onStartup(start: () => unknown): void {
    this.#hooks.push({ start });
  }

  onShutdown(stop: () => unknown): void {
    this.#hooks.push({ stop });
  }

  /** Whether the application is starting, running or stopping. */
  get hasBegun(): boolean {
    return this.#starting !== undefined;
  }

  /** Name of the step of the start that runs, for messages about a slow start. */
  get step(): string {
    const { starting } = this.#plugins;
    return starting === undefined ? this.#step : `the start of the plugin "${starting.name}"`;
  }

  /** Until a shutdown, further calls wait for the same start. */
  async startup(): Promise<void> {
    await this.startParts();
    this.#step = 'a dependency of scope "app"';
    try {
      await (this.#sharing ??= this.#app.application().start());
    } catch (error) {
      // do not call shutdown() in a catch() of `#sharing`: shutdown() waits for `#sharing`, so each would
      // wait for the other
      await this.#app.shutdown();
      throw error;
    }
  }

  /**
   * Starts only plugins and hooks. A test client calls this method, because it resolves the dependencies of
   * scope `app` itself. `replaced` has the plugins that this client does not need.
   */
  async startParts(replaced: ReadonlyMap<Plugin, Replace> = NONE): Promise<void> {
    assertStartAllowed();
    const isFirst = this.#starting === undefined;
    await (this.#starting ??= this.#start(replaced).catch((error: unknown) => {
      this.#app.rooms.disconnect();
      this.#starting = undefined;
      throw error;
    }));
    if (!isFirst) await this.#plugins.startNeeded(this.#startAbort!.signal, replaced);
  }

  /** Stops everything that was started. Calls during a shutdown return the same promise. */
  shutdown(): Promise<void> {
    if (this.#starting === undefined && this.#sharing === undefined) return Promise.resolve();
    return (this.#stopping ??= this.#stop().finally(() => {
      this.#starting = this.#sharing = this.#stopping = undefined;
    }));
  }

  async #start(replaced: ReadonlyMap<Plugin, Replace>): Promise<void> {
    const { rooms } = this.#app;
    this.#app.application();
    if (this.#roomBus !== undefined) rooms.connect(this.#roomBus);
    const abort = (this.#startAbort = new AbortController());
    await this.#plugins.start(abort.signal, replaced);
    try {
      this.#step = 'the option "roomBus"';
      await this.#roomBus?.settled?.(); // resolves when the rooms can receive messages of other processes
      this.#step = 'a startup hook';
      for (const [index, hook] of this.#hooks.filter(({ start }) => start !== undefined).entries()) {
        abort.signal.throwIfAborted();
        const cleanUp = await this.#started(hook.start!, index + 1, abort.signal);
        if (typeof cleanUp === 'function') hook.stop = cleanUp as () => unknown;
      }
    } catch (error) {
      await this.#stopHooks();
      await this.#plugins.stop();
      throw error;
    }
  }

  /**
   * Runs a startup hook. It may take any time, but after 12 seconds the log names it. During a shutdown, the start ends
   * without the hook if the hook does not end within 12 seconds.
   */
  async #started(start: () => unknown, position: number, signal: AbortSignal): Promise<unknown> {
    const { clock, log } = this.#app;
    const slow = clock.after(STEP_MS, () =>
      log.warn('startup_hook_slow', { hook: position, seconds: STEP_MS / 1_000 }),
    );
    const abandoned = Promise.withResolvers<never>();
    let late: Disposable | undefined;
    const onAbort = (): void => {
      late = clock.after(STEP_MS, () => abandoned.reject(signal.reason));
    };
    signal.addEventListener('abort', onAbort);
    try {
      return await Promise.race([start(), abandoned.promise]);
    } finally {
      signal.removeEventListener('abort', onAbort);
      slow[Symbol.dispose]();
      late?.[Symbol.dispose]();
    }
  }

  /**
   * Runs the shutdown hooks and the clean-ups of startup hooks, the last added first. If one fails or does
   * not end, its error is logged, and the others still run.
   */
  async #stopHooks(): Promise<void> {
    const { clock, log } = this.#app;
    for (const hook of this.#hooks.toReversed()) {
      const { start, stop } = hook;
      // the clean-up is removed, because the startup hook returns a new one at the next start
      if (start !== undefined) hook.stop = undefined;
      try {
        await stopped(clock, () => stop?.());
      } catch (error) {
        log.error('shutdown_hook_failed', error);
      }
    }
  }

  async #stop(): Promise<void> {
    const { log, rooms, clock } = this.#app;
    this.#startAbort?.abort(new Error('The application is shutting down'));
    const hasStarted =
      (await this.#starting?.then(
        () => true,
        () => false,
      )) === true;
    await Promise.all(Array.from(this.endless, (work) => work.finish(serverStops())));
    while (this.cleanUps.size > 0) await Promise.all(this.cleanUps);
    const cleanUp = await this.#sharing?.catch(() => undefined);
    await stopped(clock, () => cleanUp?.()).catch((error: unknown) => log.error('cleanup_failed', error));
    rooms.disconnect();
    if (!hasStarted) return;
    await this.#stopHooks();
    await this.#plugins.stop();
  }
}

/** A server that accepts connections, as returned by `app.run()`. */
export interface RunningServer {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /**
   * Accepts no more connections, waits for running requests, then shuts the application down. Resolves when
   * the shutdown is complete.
   */
  close(): Promise<void>;
}

/** Listeners for the events `request` and `upgrade` of a node:http server. */
export interface RequestListeners {
  readonly request: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
  readonly upgrade: (incoming: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

/**
 * Time in milliseconds during which a draining server still waits for the first request of a new connection.
 * A parent process may have passed on the connection just before the server began to drain.
 */
const LAST_REQUEST_MS = 100;

/** Opens the servers of one application, and drains them. */
export class Serving {
  readonly #app: LivingApplication;
  readonly #metricsApplication: () => ServedApplication;

  /** `metricsApplication` returns the application that serves `/metrics` on a separate port. */
  constructor(app: LivingApplication, metricsApplication: () => ServedApplication) {
    this.#app = app;
    this.#metricsApplication = metricsApplication;
  }

  /** A signal during the start stops everything that has already started. */
  async run(options: ServeOptions): Promise<RunningServer> {
    const isFirst = !this.#app.lifecycle.hasBegun;
    const secure = await this.secure(options.tls);
    let server: HttpServer | undefined;
    let opening: Promise<OpenServer> | undefined;
    let running: OpenServer | undefined;
    const close = async (signal?: NodeJS.Signals): Promise<void> => {
      // A server accepts connections as soon as its port is open. So the server is drained before the
      // application stops.
      const open = running ?? (await opening?.catch(() => undefined));
      if (open === undefined) await this.#app.shutdown();
      else {
        const delayMs = delayAfter(signal, options.stop);
        if (delayMs > 0) await announceStop(delayMs, this.#app, () => open.announce());
        await open.close();
      }
      signals?.[Symbol.dispose]();
    };
    const signals = options.handleSignals ? this.#endOnSignals(options.stop, close, secure) : undefined;
    const isEnding = (): boolean => signals?.isEnding === true;
    try {
      await this.#app.startup();
      if (isEnding()) return await never();
      server = new HttpServer(this.#app.application(), secure);
      running = await (opening = this.#open(server, options));
      const { host, port, url } = running;
      return isEnding() ? await never() : { host, port, url, close: () => close() };
    } catch (error) {
      if (isEnding()) return never(); // the start has failed because a signal has stopped the application
      signals?.[Symbol.dispose]();
      await server?.close(0);
      // without the shutdown, plugins and hooks that have started would keep the process alive
      if (isFirst) await this.#app.shutdown();
      throw error;
    }
  }

  /**
   * Returns listeners for a server that the program creates itself. The first request starts the application.
   * If the start fails, the next request tries again.
   */
  listeners(): RequestListeners {
    const { lifecycle, log } = this.#app;
    let embedded: EmbeddedListener | undefined;
    const start = async (): Promise<EmbeddedListener> => {
      await this.#app.startup();
      const { EmbeddedListener } = await import('../http/server/embedded.ts');
      return (embedded ??= new EmbeddedListener(this.#app.application()));
    };
    const run = (use: (listener: EmbeddedListener) => void, refuse: () => void): void => {
      if (embedded !== undefined && lifecycle.hasBegun) return use(embedded);
      start().then(use, (error: unknown) => {
        log.error('startup_failed', error);
        refuse();
      });
    };
    return {
      request: (incoming, outgoing) =>
        run(
          (listener) => listener.request(incoming, outgoing),
          () => outgoing.writeHead(503, ['Content-Length', '0', 'Retry-After', '5']).end(),
        ),
      upgrade: (incoming, socket, head) =>
        run(
          (listener) => listener.upgrade(incoming, socket, head),
          () => socket.destroy(),
        ),
    };
  }

  /** Creates the TLS transport; undefined if `options` is undefined. */
  async secure(options: ServerTlsOptions | undefined): Promise<SecureTransport | undefined> {
    if (options === undefined) return undefined;
    const { SecureTransport } = await import('../http/server/tls.ts');
    return new SecureTransport(options, { clock: this.#app.clock, log: this.#app.log });
  }

  /**
   * Prepares a server that already receives connections, from its own port or from a parent process. close()
   * of the result drains the server.
   */
  async serve(
    server: HttpServer,
    { stop, handleSignals, isSupervised = false, host, port, url }: OpenedServer,
  ): Promise<OpenServer> {
    const { operations, log } = this.#app;
    operations.inFlight = () => server.inFlight;
    const metrics =
      operations.access.port === undefined ? undefined : await this.#listenForMetrics(operations.access.port);
    const watch = operations.watchEventLoop();
    const { maxConnections } = this.#app.application().limits;
    const descriptors =
      handleSignals || isSupervised ? operations.descriptors.watch(maxConnections) : undefined;
    if (!isSupervised) log.info('listening', { url, env: this.#app.env });
    let closing: Promise<void> | undefined;
    const announce = (): void => {
      operations.isStopping = true;
      server.keepsAlive = false;
    };
    const close = (how: Leave = 'stop'): Promise<void> => {
      if (how === 'stop' && closing !== undefined) server.closeIdle();
      // a retired process, which another one replaces, stays "ready" until it exits
      if (how === 'stop') operations.isStopping = true;
      return (closing ??= this.#drain(
        server,
        stop,
        how === 'retire' ? stop.drainMs : LAST_REQUEST_MS,
      ).finally(async () => {
        await metrics?.close(0);
        watch[Symbol.dispose]();
        descriptors?.[Symbol.dispose]();
      }));
    };
    return { host, port, url, announce, close };
  }

  #endOnSignals(
    { totalMs }: StopTimes,
    close: (signal: NodeJS.Signals) => Promise<void>,
    secure: SecureTransport | undefined,
  ): ReturnType<typeof endOnSignals> {
    return endOnSignals({
      clock: this.#app.clock,
      log: this.#app.log,
      deadlineMs: totalMs,
      close,
      renew: secure === undefined ? undefined : () => secure.reload(),
    });
  }

  async #open(server: HttpServer, options: ServeOptions): Promise<OpenServer> {
    const { uploadDirectory } = this.#app.application().defaults;
    // startup hooks may have made the folder; without it, only a large upload would fail
    if (uploadDirectory !== undefined) realFolder('E_UPLOAD_DIRECTORY', uploadDirectory);
    const address = await server.listen(options.place);
    const { stop, handleSignals } = options;
    return this.serve(server, { ...address, stop, handleSignals });
  }

  async #listenForMetrics(port: number): Promise<HttpServer> {
    const { operations, log } = this.#app;
    const server = new HttpServer(this.#metricsApplication());
    const { url } = await server.listen({ host: operations.access.host, port });
    log.info('listening', { url, what: 'metrics' });
    return server;
  }

  async #drain(server: HttpServer, stop: StopTimes, graceMs: number): Promise<void> {
    const { log } = this.#app;
    log.info('draining', { in_flight: server.inFlight });
    const cut = await server.close(stop.drainMs, graceMs, lastWordsMs(stop));
    if (cut > 0) log.warn('drain_deadline_exceeded', { requests_cut: cut });
    await this.#app.shutdown();
    log.info('stopped');
    await flushed(log, this.#app.clock);
  }
}

/** Returns a promise that never settles. Callers await it while a signal ends the process. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}
