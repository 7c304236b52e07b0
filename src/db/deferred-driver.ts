/**
 * A driver whose modules are loaded when it is opened: who uses SQLite loads nothing of the others.
 */
import { SvcError } from '../base/errors.ts';
import { atCaller } from './errors.ts';
import type { Awaitable } from '../cache/stores.ts';
import type {
  Connection,
  Dialect,
  Driver,
  DriverLoad,
  Limit,
  ListenOptions,
  Notified,
  Purpose,
  Row,
} from './driver.ts';
import type { Params } from './values.ts';

const NO_LOAD: DriverLoad = { inUse: 0, idle: 0, waiting: 0 };

/** See {@link Driver}. */
export class DeferredDriver implements Driver {
  readonly dialect: Dialect;
  readonly #load: () => Promise<Driver>;
  #driver: Driver | undefined;

  constructor(dialect: Dialect, load: () => Promise<Driver>) {
    this.dialect = dialect;
    this.#load = load;
  }

  get load(): DriverLoad {
    return this.#driver?.load ?? NO_LOAD;
  }

  async open(): Promise<void> {
    const driver = await this.#load();
    await driver.open();
    this.#driver = driver;
  }

  acquire(purpose: Purpose, limit: Limit | undefined): Awaitable<Connection> {
    return this.#opened().acquire(purpose, limit);
  }
  release(connection: Connection): void {
    this.#opened().release(connection);
  }
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]> {
    return this.#opened().stream(sql, params, limit);
  }
  ping(limit: Limit | undefined): Awaitable<void> {
    return this.#opened().ping(limit);
  }

  listen(channel: string, notified: Notified, options: ListenOptions): Promise<AsyncDisposable> {
    const driver = this.#opened();
    if (driver.listen === undefined) throw new SvcError('E_DB_OPTION', [`${this.dialect} has no LISTEN`]);
    return driver.listen(channel, notified, options);
  }

  async close(): Promise<void> {
    await this.#driver?.close();
  }

  #opened(): Driver {
    if (this.#driver === undefined) throw atCaller(new SvcError('E_DB_CLOSED', ['run a statement']));
    return this.#driver;
  }
}
