/**
 * A driver whose statements can be watched: it lends connections that tell `svc:db:query` while somebody subscribes, and else
 * those of the driver itself; and counts how long callers wait for one.
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel';
import { traced } from '../observability/traced.ts';
import { quotedName } from './dialects.ts';
import type { Clock } from '../base/clock.ts';
import type { Awaitable } from '../cache/stores.ts';
import type {
  BeginOptions,
  Connection,
  Dialect,
  Driver,
  DriverLoad,
  ExecuteResult,
  Limit,
  Purpose,
  Row,
  Table,
} from './driver.ts';
import type { Params } from './values.ts';
import type { Failable } from '../observability/traced.ts';

/** Who it is that is watched. */
export interface Watched {
  /** Of the database. */
  readonly name: string;
  readonly clock: Clock;
  /** Told in seconds how long a caller has waited for a connection; not of those who got one at once. */
  readonly onWait?: ((seconds: number) => void) | undefined;
}

/** See {@link Driver}. */
export class ObservedDriver implements Driver {
  readonly dialect: Dialect;
  /** Absent where the driver has none. */
  readonly backup?: (path: string, limit: Limit | undefined) => Promise<void>;
  readonly listen?: NonNullable<Driver['listen']>;
  readonly #driver: Driver;
  readonly #watched: Watched;

  constructor(driver: Driver, watched: Watched) {
    this.dialect = driver.dialect;
    this.#driver = driver;
    this.#watched = watched;
    if (driver.backup !== undefined) this.backup = driver.backup.bind(driver);
    if (driver.listen !== undefined) this.listen = driver.listen.bind(driver);
  }

  get load(): DriverLoad {
    return this.#driver.load;
  }

  open(): Promise<void> {
    return this.#driver.open();
  }

  acquire(purpose: Purpose, limit: Limit | undefined): Awaitable<Connection> {
    const connection = this.#driver.acquire(purpose, limit);
    if (connection instanceof Promise) return this.#waited(connection);
    return queries.hasSubscribers ? this.#observed(connection) : connection;
  }

  release(connection: Connection): void {
    this.#driver.release(connection instanceof ObservedConnection ? connection.inner : connection);
  }

  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]> {
    const rows = this.#driver.stream(sql, params, limit);
    return queries.hasSubscribers
      ? tracedStream(new QueryEvent(this.dialect, this.#watched.name, sql), rows)
      : rows;
  }

  ping(limit: Limit | undefined): Awaitable<void> {
    return this.#driver.ping(limit);
  }
  close(): Promise<void> {
    return this.#driver.close();
  }

  async #waited(pending: Promise<Connection>): Promise<Connection> {
    const { clock, onWait } = this.#watched;
    const startedMs = clock.monotonicMs();
    try {
      const connection = await pending;
      return queries.hasSubscribers ? this.#observed(connection) : connection;
    } finally {
      onWait?.((clock.monotonicMs() - startedMs) / 1_000);
    }
  }

  #observed(connection: Connection): ObservedConnection {
    return new ObservedConnection(connection, this.dialect, this.#watched.name);
  }
}

/** A connection that tells of each statement. */
class ObservedConnection implements Connection {
  readonly inner: Connection;
  /** Absent where the connection has none. */
  readonly insertMany?: (
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ) => Awaitable<number>;
  readonly #dialect: Dialect;
  readonly #name: string;

  constructor(inner: Connection, dialect: Dialect, name: string) {
    this.inner = inner;
    this.#dialect = dialect;
    this.#name = name;
    if (inner.insertMany !== undefined) {
      this.insertMany = (table, columns, rows, limit) =>
        this.#traced(`insert into ${quotedName(dialect, table)}`, () =>
          inner.insertMany!(table, columns, rows, limit),
        ); // it was there a line above
    }
  }

  get isInTransaction(): boolean {
    return this.inner.isInTransaction;
  }

  execute(sql: string, params: Params, limit: Limit | undefined): Awaitable<ExecuteResult> {
    return this.#traced(sql, () => this.inner.execute(sql, params, limit));
  }
  fetchOne(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row | undefined> {
    return this.#traced(sql, () => this.inner.fetchOne(sql, params, limit));
  }
  fetchAll(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[]> {
    return this.#traced(sql, () => this.inner.fetchAll(sql, params, limit));
  }
  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Awaitable<Table> {
    return this.#traced(sql, () => this.inner.fetchArrays(sql, params, limit));
  }
  scalar(sql: string, params: Params, limit: Limit | undefined): Awaitable<unknown> {
    return this.#traced(sql, () => this.inner.scalar(sql, params, limit));
  }
  executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Awaitable<number> {
    return this.#traced(sql, () => this.inner.executeMany(sql, rows, limit));
  }
  script(sql: string, limit: Limit | undefined): Awaitable<void> {
    return this.#traced(sql, () => this.inner.script(sql, limit));
  }
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]> {
    return tracedStream(this.#event(sql), this.inner.stream(sql, params, limit));
  }
  begin(options: BeginOptions, limit: Limit | undefined): Awaitable<void> {
    return this.#traced('begin', () => this.inner.begin(options, limit));
  }
  commit(limit?: Limit): Awaitable<void> {
    return this.#traced('commit', () => this.inner.commit(limit));
  }
  rollback(limit?: Limit): Awaitable<void> {
    return this.#traced('rollback', () => this.inner.rollback(limit));
  }
  savepoint(name: string, limit?: Limit): Awaitable<void> {
    return this.#traced(`savepoint ${name}`, () => this.inner.savepoint(name, limit));
  }
  releaseSavepoint(name: string, limit?: Limit): Awaitable<void> {
    return this.#traced(`release ${name}`, () => this.inner.releaseSavepoint(name, limit));
  }
  rollbackTo(name: string, limit?: Limit): Awaitable<void> {
    return this.#traced(`rollback to ${name}`, () => this.inner.rollbackTo(name, limit));
  }
  retire(): void {
    this.inner.retire?.();
  }

  #event(text: string): QueryEvent {
    return new QueryEvent(this.#dialect, this.#name, text);
  }

  #traced<T>(text: string, work: () => Awaitable<T>): Awaitable<T> {
    return traced(queries, this.#event(text), work);
  }
}

/** Told as one statement: from the first batch that is asked for to the last, or until the loop is left. */
async function* tracedStream(
  event: QueryEvent,
  rows: AsyncIterable<readonly Row[]>,
): AsyncGenerator<readonly Row[], void, undefined> {
  const reading = Promise.withResolvers<void>();
  traced(queries, event, () => reading.promise).catch(() => undefined); // whoever reads is told below
  try {
    yield* rows;
  } catch (error) {
    reading.reject(error);
    throw error;
  } finally {
    reading.resolve();
  }
}

/*
 * What others may watch of statements: the tracing channel `svc:db:query` of node:diagnostics_channel. Costs nothing while nobody does.
 *
 *   start -> end -> [error ->] asyncStart -> asyncEnd        src/observability/traced.ts; without the last two where the engine answers at once, as SQLite does
 */

/** @internal */
const queries: TracingChannel<unknown, object> = tracingChannel('svc:db:query');

/** One statement, in the events of `svc:db:query`. OpenTelemetry's names are beside each. */
export class QueryEvent implements Failable {
  /** What the database, or the verb, has refused it with. */
  error?: unknown;
  /** `db.system.name` */
  readonly system: Dialect;
  /** The name of its plugin; `database` for one that has no other. */
  readonly database: string;
  /** `db.query.text`: as it is sent, with placeholders where values are. What a program writes into the text itself is in it. */
  readonly text: string;

  /** @internal */
  constructor(system: Dialect, database: string, text: string) {
    this.system = system;
    this.database = database;
    this.text = text;
  }

  /** `db.operation.name`: the first word in capitals, comments before it left out; empty where there is none. */
  get operation(): string {
    return FIRST_WORD.exec(this.text)?.[1]?.toUpperCase() ?? '';
  }
}

const FIRST_WORD = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*([a-z]+)/i;
