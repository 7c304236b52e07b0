/**
 * The child of a supervised application: starts the application, reports its address to the parent, and
 * serves the connections that the parent sends.
 *
 * Order of calls and messages:
 *   at the start: startup(), sends `wants`, receives `address`, serve(), sends `ready`
 *   for each connection: receives `socket`, sends `took`
 *   at the end: receives `announce` if the stop has a delay, receives `drain`, close(), sends `final`, exits
 *
 * The parent stops the child with the message `drain`. If the child is still starting, the parent also sends
 * SIGTERM. The child ignores SIGINT and SIGHUP, because a terminal sends them to parent and child. If the
 * parent exits, the child finishes its requests and exits.
 */
import cluster from 'node:cluster';
import { constants } from 'node:os';
import { renderMetrics } from '../observability/metrics.ts';
import { HttpServer } from '../http/server/server.ts';
import { attend, onParentMessage, sendToParent } from './supervision.ts';
import { WorkerRoomBus } from './worker-rooms.ts';
import type { Socket } from 'node:net';
import type { Services } from '../http/contracts.ts';
import type { MetricSnapshot, MetricsRegistry } from '../observability/metrics.ts';
import type { StopTimes } from './signals.ts';
import type { Operations } from './operations.ts';
import type { Rooms } from '../http/websocket/rooms.ts';
import { exitAfterLog } from '../observability/log.ts';
import type { ServedApplication } from '../http/server/server.ts';
import type { SecureTransport } from '../http/server/tls.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { ServerTlsOptions } from '../http/server/options.ts';
import type { Address, Leave, Role, ToChild } from './supervision.ts';

/** A server that `run({ workers })` or `run({ reload })` has started. */
export interface SupervisedServer extends Address {
  /**
   * Stops new connections, waits for running requests, then shuts the application down. Resolves when the
   * shutdown is complete.
   */
  close(how?: Leave): Promise<void>;
}

/** A server in the process that serves requests, with the two steps of its stop. */
export interface OpenServer extends SupervisedServer {
  /** Lets `/readyz` respond with 503, and ends connections after their responses. */
  announce(): void;
}

/** The members of an application that a supervised process uses. `Svc` implements them. */
export interface SupervisedApplication extends Pick<Services, 'clock' | 'log' | 'env'> {
  readonly metrics: MetricsRegistry;
  readonly operations: Operations;
  readonly rooms: Rooms;
  /** Compiles the application. */
  application(): ServedApplication;
  startup(): Promise<void>;
  shutdown(): Promise<void>;
  readonly serving: {
    secure(options: ServerTlsOptions | undefined): Promise<SecureTransport | undefined>;
    serve(server: HttpServer, opened: OpenedServer): Promise<OpenServer>;
  };
}

/** Address and options of a server that accepts connections. */
export interface OpenedServer extends Address {
  readonly stop: StopTimes;
  /** Whether the server owns the process: it then also watches the file descriptors of the process. */
  readonly handleSignals: boolean;
  /** Whether a parent process accepts the connections; the parent then logs the address. */
  readonly isSupervised?: boolean;
}

/** The options of `app.run()` for the process that serves, with settings and defaults applied. */
export interface ServeOptions {
  readonly place: ListenOptions;
  readonly stop: StopTimes;
  readonly handleSignals: boolean;
  /** TLS options; undefined for plain HTTP. */
  readonly tls: ServerTlsOptions | undefined;
}

/**
 * Maximum time in milliseconds for the running requests of a child that is replaced after a change. It is
 * short, because the next child waits until the old one has exited.
 */
const RELOAD_DRAIN_MS = 2_000;
/**
 * Time in milliseconds that a worker waits for the metrics of all workers. It is longer than the time in
 * which the parent collects the metrics.
 */
const METRICS_WAIT_MS = 2_000;
/** Time in milliseconds for sending the last message to the parent. */
const LAST_WORDS_MS = 1_000;

/** Serves requests in a child process whose parent passes connections to it. */
export async function serveSupervised(
  app: SupervisedApplication,
  role: Role,
  options: ServeOptions,
): Promise<SupervisedServer> {
  return new SupervisedChild(app, role, options).serve();
}

class SupervisedChild {
  readonly #app: SupervisedApplication;
  readonly #role: Role;
  readonly #options: ServeOptions;
  /** Undefined until the application has started. */
  #server: HttpServer | undefined;
  readonly #address = Promise.withResolvers<Address>();
  readonly #asked = new Map<number, (metrics: readonly MetricSnapshot[] | undefined) => void>();
  #lastId = 0;
  #running: OpenServer | undefined;
  /** Resolves when the child serves every connection that it has confirmed to the parent. */
  #taking: Promise<void> = Promise.resolve();
  #ending: Promise<never> | undefined;

  constructor(app: SupervisedApplication, role: Role, options: ServeOptions) {
    this.#app = app;
    this.#role = role;
    const { stop } = options;
    const drainMs = Math.min(stop.drainMs, role === 'reload' ? RELOAD_DRAIN_MS : Infinity);
    this.#options = { ...options, stop: { ...stop, drainMs } };
  }

  async serve(): Promise<SupervisedServer> {
    const { place, stop, handleSignals, tls } = this.#options;
    if (handleSignals) this.#leaveOnSignal();
    const secure = await this.#app.serving.secure(tls);
    await this.#app.startup().catch((error: unknown) => {
      if (this.#ending === undefined) throw error;
      return this.#ending; // the start failed because the child is being stopped
    });
    if (this.#ending !== undefined) return this.#ending;
    const server = (this.#server = new HttpServer(this.#app.application(), secure));
    // With `reload`, each connection closes after its response. If the connection stayed open, its next
    // request would fail when this child is replaced.
    server.keepsAlive = this.#role === 'worker';
    // by default, node:cluster ends a worker at once when its parent has exited
    if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
    attend(() => this.#onParentGone());
    onParentMessage((message, socket) => this.#onMessage(message, socket));
    void sendToParent({ svc: 'wants', place, isSecure: server.isSecure, env: this.#app.env, stop });
    const running = await this.#app.serving.serve(server, {
      ...(await this.#address.promise),
      stop,
      handleSignals: false,
      isSupervised: true,
    });
    this.#running = running;
    if (this.#role === 'worker' && !this.#app.rooms.isConnected)
      this.#app.rooms.connect(new WorkerRoomBus(this.#app.log));
    if (this.#role === 'worker') this.#app.operations.renderMetrics = () => this.#renderAll();
    // the child is being stopped, so it must not report that it is ready
    if (this.#ending !== undefined) return this.#ending;
    void sendToParent({ svc: 'ready' });
    const { host, port, url } = running;
    return { host, port, url, close: () => this.#leave() };
  }

  #onMessage(message: ToChild, socket: Socket | undefined): void {
    switch (message.svc) {
      case 'address':
        return this.#address.resolve(message.address);
      case 'socket':
        return this.#onSocket(message.id, socket);
      case 'announce':
        return this.#running?.announce();
      case 'drain':
        // connections that this process has confirmed are served first, because no other process has them
        return void this.#taking.then(() => this.#end(message.how));
      case 'snapshot':
        return void sendToParent({ svc: 'snapshot', id: message.id, metrics: this.#app.metrics.snapshot() });
      case 'metrics':
        return this.#asked.get(message.id)?.(message.metrics);
    }
  }

  /**
   * Confirms a connection to the parent, then serves it. Reads nothing before the confirmation, because the
   * parent may still send the connection to another child.
   */
  #onSocket(id: number, socket: Socket | undefined): void {
    socket?.pause();
    this.#taking = sendToParent({ svc: 'took', id }).then(() => {
      // `socket` is undefined if the client closed the connection before it reached the child
      if (socket !== undefined) this.#server!.adopt(socket);
    });
  }

  /** Returns the metrics of all workers, or without an answer those of this process. */
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

  /** Asks the parent to stop this child; it answers with `drain`. */
  async #leave(): Promise<void> {
    if (process.connected) void sendToParent({ svc: 'leaving' });
    else this.#onParentGone();
    await Promise.withResolvers<never>().promise; // never resolves: the message `drain` ends the process
  }

  #leaveOnSignal(): void {
    let isLeaving = false;
    process.on('SIGTERM', () => {
      if (isLeaving) return void exitAfterLog(128 + constants.signals.SIGTERM, this.#app.log);
      isLeaving = true;
      // a child that does not serve yet has no connections, so it stops without asking the parent
      void (this.#running === undefined ? this.#end('stop') : this.#leave());
    });
    process.on('SIGINT', () => {
      /* ignored, because the terminal also sends SIGINT to the parent */
    });
    process.on('SIGHUP', () => {
      /* ignored, because the terminal also sends SIGHUP to the parent */
    });
  }

  #onParentGone(): void {
    this.#app.log.warn('supervisor_gone');
    void this.#end('stop');
  }

  #end(how: Leave): Promise<never> {
    // a child that ends with `retire` still has idle connections; `stop` closes them
    if (this.#ending !== undefined && how === 'stop') void this.#running?.close(how);
    return (this.#ending ??= this.#close(how)
      .then(
        () => 0,
        (error: unknown) => {
          this.#app.log.error('shutdown_failed', error);
          return 1;
        },
      )
      .then((status) => exitAfterLog(status, this.#app.log)));
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
