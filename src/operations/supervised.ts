/**
 * Child of a supervisor: starts the application, sends the address to the parent, and serves the connections
 * that the parent passes on.
 *
 * Steps, with the messages:
 *   startup() -> wants -> address -> serve() -> ready -> socket -> took -> ...          drain -> close() -> final -> exit
 *
 * The parent decides when the child ends: it sends SIGTERM. The child ignores SIGINT and SIGHUP, which
 * terminals send to all processes. A child without a parent drains and exits.
 */
import cluster from 'node:cluster';
import { constants } from 'node:os';
import { renderMetrics } from '../observability/metrics.ts';
import { HttpServer } from '../http/server/server.ts';
import { attend, onParentMessage, sendToParent } from './supervision.ts';
import { WorkerRoomBus } from './worker-rooms.ts';
import type { Socket } from 'node:net';
import type { Env } from '../base/config.ts';
import type { MetricSnapshot, MetricsRegistry } from '../observability/metrics.ts';
import type { Operations } from './operations.ts';
import type { Rooms } from '../http/websocket/rooms.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';
import type { ServedApplication } from '../http/server/server.ts';
import type { SecureTransport } from '../http/server/tls.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { ServerTlsOptions } from '../http/server/options.ts';
import type { Address, Leave, Role, ToChild } from './supervision.ts';

/** A running server. */
export interface SupervisedServer extends Address {
  /** Drains, shuts the application down, and resolves when both are done. */
  close(how?: Leave): Promise<void>;
}

/** The interface of an application that a supervisor needs; `Svc` implements it. */
export interface SupervisedApplication {
  readonly clock: Clock;
  readonly log: Logger;
  readonly env: Env;
  readonly metrics: MetricsRegistry;
  readonly operations: Operations;
  readonly rooms: Rooms;
  /** Compiles the application. */
  application(): ServedApplication;
  startup(): Promise<void>;
  shutdown(): Promise<void>;
  readonly serving: {
    secure(options: ServerTlsOptions | undefined): Promise<SecureTransport | undefined>;
    serve(
      server: HttpServer,
      options: Address & {
        readonly drainMs: number;
        readonly handleSignals: boolean;
        readonly isSupervised: boolean;
      },
    ): Promise<SupervisedServer>;
  };
}

/** Address, drain time, and whether this process handles signals. */
export interface SupervisedServeOptions {
  readonly place: ListenOptions;
  readonly drainMs: number;
  readonly handleSignals: boolean;
  /** TLS options; undefined without TLS. */
  readonly tls: ServerTlsOptions | undefined;
}

/**
 * Maximum drain time in milliseconds of a child that is replaced after a change. It is short, because the
 * next child starts only after this one has exited.
 */
const RELOAD_DRAIN_MS = 2_000;
/**
 * Time in milliseconds that a worker waits for the metrics of all workers. The parent stops collecting them
 * earlier, so its answer usually arrives in time.
 */
const METRICS_WAIT_MS = 2_000;
/** Time in milliseconds for sending the last message. */
const LAST_WORDS_MS = 1_000;

/** Serves as the child of a supervisor. */
export async function serveSupervised(
  app: SupervisedApplication,
  role: Role,
  options: SupervisedServeOptions,
): Promise<SupervisedServer> {
  return new SupervisedChild(app, role, options).serve();
}

class SupervisedChild {
  readonly #app: SupervisedApplication;
  readonly #role: Role;
  readonly #options: SupervisedServeOptions;
  /** Undefined until the application has started. */
  #server: HttpServer | undefined;
  readonly #address = Promise.withResolvers<Address>();
  readonly #asked = new Map<number, (metrics: readonly MetricSnapshot[] | undefined) => void>();
  #lastId = 0;
  #running: SupervisedServer | undefined;
  /** Resolves when every connection that was reported as taken has been adopted. */
  #taking: Promise<void> = Promise.resolve();
  #ending: Promise<never> | undefined;

  constructor(app: SupervisedApplication, role: Role, options: SupervisedServeOptions) {
    this.#app = app;
    this.#role = role;
    this.#options =
      role === 'reload' ? { ...options, drainMs: Math.min(options.drainMs, RELOAD_DRAIN_MS) } : options;
  }

  async serve(): Promise<SupervisedServer> {
    const { place, drainMs, handleSignals, tls } = this.#options;
    if (handleSignals) this.#leaveOnSignal();
    const secure = await this.#app.serving.secure(tls);
    await this.#app.startup().catch((error: unknown) => {
      if (this.#ending === undefined) throw error;
      return this.#ending; // the start has failed because the child is stopping
    });
    if (this.#ending !== undefined) return this.#ending;
    const server = (this.#server = new HttpServer(this.#app.application(), secure));
    // a reload child closes each connection after its response, because a request on an open connection would
    // fail when the child is replaced
    server.keepsAlive = this.#role === 'worker';
    // without this flag, node:cluster exits a worker at once when its parent is gone
    if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
    attend(() => this.#onParentGone());
    onParentMessage((message, socket) => this.#onMessage(message, socket));
    void sendToParent({ svc: 'wants', place, isSecure: server.isSecure, env: this.#app.env, drainMs });
    const running = await this.#app.serving.serve(server, {
      ...(await this.#address.promise),
      drainMs,
      handleSignals: false,
      isSupervised: true,
    });
    this.#running = running;
    if (this.#role === 'worker' && !this.#app.rooms.isConnected)
      this.#app.rooms.connect(new WorkerRoomBus(this.#app.log));
    if (this.#role === 'worker') this.#app.operations.renderMetrics = () => this.#renderAll();
    // the child is stopping, so it must not report that it is ready
    if (this.#ending !== undefined) return this.#ending;
    void sendToParent({ svc: 'ready' });
    return { ...running, close: () => this.#leave() };
  }

  #onMessage(message: ToChild, socket: Socket | undefined): void {
    switch (message.svc) {
      case 'address':
        return this.#address.resolve(message.address);
      case 'socket':
        return this.#onSocket(message.id, socket);
      case 'drain':
        // waits until the connections that were reported as taken are adopted, because no other process would
        // serve them
        return void this.#taking.then(() => this.#end(message.how));
      case 'snapshot':
        return void sendToParent({ svc: 'snapshot', id: message.id, metrics: this.#app.metrics.snapshot() });
      case 'metrics':
        return this.#asked.get(message.id)?.(message.metrics);
    }
  }

  /**
   * Takes a connection. It is not read before the parent knows that it was taken: the parent sends
   * connections that were not taken to other children.
   */
  #onSocket(id: number, socket: Socket | undefined): void {
    socket?.pause();
    this.#taking = sendToParent({ svc: 'took', id }).then(() => {
      // undefined if the client closed the connection before the child received it
      if (socket !== undefined) this.#server!.adopt(socket);
    });
  }

  /**
   * Returns the metrics of all workers, summed by the parent; those of this process if the parent does not
   * respond.
   */
  async #renderAll(): Promise<string> {
    const id = ++this.#lastId;
    const { promise, resolve } = Promise.withResolvers<readonly MetricSnapshot[] | undefined>();
    using _limit = this.#app.clock.after(METRICS_WAIT_MS, () => resolve(undefined));
    this.#asked.set(id, resolve);
    void sendToParent({ svc: 'metrics', id });
    const all = await promise;
    this.#asked.delete(id);
    return renderMetrics(all ?? this.#app.metrics.snapshot());
  }

  /**
   * Reports to the parent that this child is leaving. The parent then sends it no more connections, and lets
   * it drain.
   */
  async #leave(): Promise<void> {
    if (process.connected) void sendToParent({ svc: 'leaving' });
    else this.#onParentGone();
    await Promise.withResolvers<never>().promise; // waits forever, because the process ends after the parent's message `drain`
  }

  #leaveOnSignal(): void {
    let isLeaving = false;
    process.on('SIGTERM', () => {
      if (isLeaving) process.exit(128 + constants.signals.SIGTERM);
      isLeaving = true;
      // a child that does not serve yet has no connections, so it ends without a message to the parent
      void (this.#running === undefined ? this.#end('stop') : this.#leave());
    });
    process.on('SIGINT', () => {
      /* ignored, because the terminal sends SIGINT to the parent as well */
    });
    process.on('SIGHUP', () => {
      /* ignored, because the terminal sends SIGHUP to the parent as well */
    });
  }

  #onParentGone(): void {
    this.#app.log.warn('supervisor_gone');
    void this.#end('stop');
  }

  #end(how: Leave): Promise<never> {
    // `stop` also closes the idle connections of a child that is retiring
    if (this.#ending !== undefined && how === 'stop') void this.#running?.close(how);
    return (this.#ending ??= this.#close(how)
      .then(
        () => 0,
        (error: unknown) => {
          this.#app.log.error('shutdown_failed', error);
          return 1;
        },
      )
      .then((status) => process.exit(status)));
  }

  async #close(how: Leave): Promise<void> {
    await (this.#running === undefined ? this.#app.shutdown() : this.#running.close(how));
    if (this.#role !== 'worker') return;
    await Promise.race([
      sendToParent({ svc: 'final', metrics: this.#app.metrics.snapshot() }),
      this.#app.clock.sleep(LAST_WORDS_MS),
    ]);
  }
}
