/**
 * A fake server for tests of the pool: its connections respond on demand, break, stay silent, or refuse.
 */
import { ConnectionLost } from '../../src/db/index.ts';
import type { Limit } from '../../src/db/driver.ts';
import type { PooledConnection } from '../../src/db/wire/pool-settings.ts';

type Unused =
  | 'retire'
  | 'execute'
  | 'fetchOne'
  | 'fetchAll'
  | 'fetchArrays'
  | 'scalar'
  | 'executeMany'
  | 'stream'
  | 'script'
  | 'begin'
  | 'commit'
  | 'savepoint'
  | 'releaseSavepoint'
  | 'rollbackTo';

/** A connection to {@link FakeServer}. */
export class FakeConnection implements Omit<PooledConnection, Unused> {
  isBroken = false;
  isStale = false;
  isInTransaction = false;
  /** Number of statements that still run although no test waits for them. */
  inFlight = 0;
  onLost: ((error: Error) => void) | undefined;
  readonly id: number;
  readonly #server: FakeServer;
  readonly calls: string[] = [];

  constructor(server: FakeServer, id: number) {
    this.#server = server;
    this.id = id;
  }

  get isIdle(): boolean {
    return !this.isBroken && !this.isInTransaction && this.inFlight === 0;
  }

  async ping(): Promise<void> {
    this.calls.push('ping');
    await this.#answer();
    this.inFlight = 0;
  }

  async rollback(): Promise<void> {
    this.calls.push('rollback');
    await this.#answer();
    this.isInTransaction = false;
  }

  async reset(): Promise<void> {
    this.calls.push('reset');
    await this.#answer();
  }

  async close(): Promise<void> {
    this.calls.push('close');
    this.#end();
    await Promise.resolve();
  }

  destroy(): void {
    this.#end();
  }

  /** Ends the connection from outside, as a server or a network does. */
  lose(): void {
    if (this.isBroken) return;
    this.#end();
    this.onLost?.(new ConnectionLost('it is gone'));
  }

  async #answer(): Promise<void> {
    await Promise.race([this.#server.answers(this), this.#ended.promise]);
    if (this.isBroken) throw new ConnectionLost('it is gone');
  }

  readonly #ended: PromiseWithResolvers<void> = Promise.withResolvers();

  #end(): void {
    this.isBroken = true;
    this.#server.open.delete(this);
    this.#ended.resolve();
  }
}

/** Server of the fake connections. */
export class FakeServer {
  readonly open: Set<FakeConnection> = new Set();
  /** Whether new connections are stale. */
  areStale = false;
  /** Time of each attempt to connect. */
  readonly attempts: number[] = [];
  /** Returns the error of an attempt to connect; undefined accepts the attempt. */
  refusal: () => Error | undefined = () => undefined;
  /** Delays attempts to connect. */
  delay: () => Promise<void> = async () => undefined;
  answers: (connection: FakeConnection) => Promise<void> = async () => undefined;
  #lastId = 0;

  /** Returns the function `connect` for a pool. */
  connect(nowMs: () => number): (limit: Limit) => Promise<PooledConnection> {
    return async (limit) => {
      this.attempts.push(nowMs());
      await Promise.race([
        this.delay(),
        new Promise((resolve) => limit.signal?.addEventListener('abort', resolve)),
      ]);
      if (limit.signal?.aborted === true) throw new ConnectionLost('given up');
      const refused = this.refusal();
      if (refused !== undefined) throw refused;
      const connection = new FakeConnection(this, ++this.#lastId);
      connection.isStale = this.areStale;
      this.open.add(connection);
      // the pool calls only these methods, because it runs no statement
      return connection as unknown as PooledConnection;
    };
  }

  /** Ends all connections, as when a server is killed. */
  die(): void {
    for (const connection of [...this.open]) connection.lose();
  }
}
