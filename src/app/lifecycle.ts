/**
 * Start and stop of an application, each once.
 *
 *   start   compile -> room bus -> plugins -> startup hooks -> dependencies of scope `app`
 *   stop    clean-ups of requests -> dependencies of scope `app` -> rooms -> shutdown hooks in reverse -> plugins in reverse
 *
 * A part that fails at the start stops the parts that had started; the start may be tried again.
 */
import { SvcError } from '../base/errors.ts';
import { startPlugins, stopPlugins } from '../routing/plugin.ts';
import type { RoomBus } from '../cache/stores.ts';
import type { Plugin } from '../http/contracts.ts';
import type { Rooms } from '../http/websocket/rooms.ts';
import type { Logger } from '../observability/log.ts';
import type { Application } from './application.ts';

/** The key is on `process`, for all copies of this package in it: a bundled program has a copy of its own. */
const START_DENIED: unique symbol = Symbol.for('svc.start.denied');

/** Forbids every start in this process: its modules are imported for inspection. */
export function denyStart(): void {
  Object.defineProperty(process, START_DENIED, { value: true, configurable: true });
}

/** @throws SvcError `E_START_DENIED` */
export function assertStartAllowed(): void {
  if (START_DENIED in process) throw new SvcError('E_START_DENIED', []);
}

/** The parts of an application that its lifecycle needs. */
export interface LifecycleDeps {
  readonly log: Logger;
  readonly rooms: Rooms;
  readonly roomBus: RoomBus | undefined;
  /** @throws SvcError `E_COMPILE` */
  compile(): Application;
  /** The application's own shutdown(), which a subclass may override. */
  shutdown(): Promise<void>;
  /** Plugins in the order of their start, once the application is compiled. */
  plugins(): readonly Plugin[];
}

/** The lifecycle of one application. */
export class Lifecycle {
  readonly startupHooks: (() => unknown)[] = [];
  readonly shutdownHooks: (() => unknown)[] = [];
  /** Clean-ups of requests that still run. */
  readonly cleanUps: Set<Promise<void>> = new Set();
  readonly #deps: LifecycleDeps;
  /** Dependencies of scope `app`: resolves with their clean-up. */
  #sharing: Promise<() => Promise<void>> | undefined;
  #starting: Promise<void> | undefined;
  #startAbort: AbortController | undefined;
  #stopping: Promise<void> | undefined;

  constructor(deps: LifecycleDeps) {
    this.#deps = deps;
  }

  /** Whether a start has begun that no stop has ended. */
  get hasBegun(): boolean {
    return this.#starting !== undefined;
  }

  /** Starts everything; once until shutdown(), however often it is called. */
  async startup(): Promise<void> {
    await this.startParts();
    try {
      await (this.#sharing ??= this.#deps.compile().start());
    } catch (error) {
      // after the catch of startParts(): shutdown() waits for #sharing
      await this.#deps.shutdown();
      throw error;
    }
  }

  /** Starts plugins and hooks alone: a test client resolves dependencies of scope `app` itself. */
  async startParts(): Promise<void> {
    assertStartAllowed();
    return (this.#starting ??= this.#start().catch((error: unknown) => {
      this.#deps.rooms.disconnect();
      this.#starting = undefined;
      throw error;
    }));
  }

  /** Stops what has started, once. */
  shutdown(): Promise<void> {
    if (this.#starting === undefined && this.#sharing === undefined) return Promise.resolve();
    return (this.#stopping ??= this.#stop().finally(() => {
      this.#starting = this.#sharing = this.#stopping = undefined;
    }));
  }

  async #start(): Promise<void> {
    const { log, rooms, roomBus } = this.#deps;
    this.#deps.compile();
    const plugins = this.#deps.plugins();
    if (roomBus !== undefined) rooms.connect(roomBus);
    const abort = (this.#startAbort = new AbortController());
    if (plugins.length > 0) await startPlugins(plugins, abort.signal, log);
    try {
      await roomBus?.settled?.(); // from here on messages of other processes arrive
      for (const hook of this.startupHooks) {
        abort.signal.throwIfAborted();
        await hook();
      }
    } catch (error) {
      if (plugins.length > 0) await stopPlugins(plugins, log);
      throw error;
    }
  }

  async #stop(): Promise<void> {
    const { log, rooms } = this.#deps;
    this.#startAbort?.abort(new Error('The application is shutting down'));
    const hasStarted =
      (await this.#starting?.then(
        () => true,
        () => false,
      )) === true;
    while (this.cleanUps.size > 0) await Promise.all(this.cleanUps);
    const cleanUp = await this.#sharing?.catch(() => undefined);
    await cleanUp?.();
    rooms.disconnect();
    if (!hasStarted) return;
    for (const hook of this.shutdownHooks.toReversed()) {
      try {
        await hook();
      } catch (error) {
        log.error('shutdown_hook_failed', error);
      }
    }
    const plugins = this.#deps.plugins();
    if (plugins.length > 0) await stopPlugins(plugins, log);
  }
}
