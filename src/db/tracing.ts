/**
 * Publishes statements on the tracing channel `svc:db:query` of node:diagnostics_channel. Costs nothing
 * without subscribers.
 *
 *   start -> end -> [error ->] asyncStart -> asyncEnd        published by src/observability/traced.ts
 *
 * SQLite answers at once, so its statements have no asyncStart and asyncEnd.
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel';
import { traced } from '../observability/traced.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { BeginOptions, Connection, Dialect, ExecuteResult, Limit, Row, Table } from './driver.ts';
import type { Params } from './values.ts';
import type { Failable } from '../observability/traced.ts';

/** Tracing channel of statements. @internal */
export const queries: TracingChannel<unknown, object> = tracingChannel('svc:db:query');

/** A statement in the events of `svc:db:query`. Each property names its OpenTelemetry attribute. */
export class QueryEvent implements Failable {
  /** Error with which the database, or the method that was called, rejected the statement. */
  error?: unknown;
  /** Engine of the database (OpenTelemetry: `db.system.name`). */
  readonly system: Dialect;
  /** Name of the database's plugin; `database` for a plugin without a name. */
  readonly database: string;
  /**
   * `db.query.text`: the text as sent, with placeholders for bound values. Values that a program writes into
   * the text itself are visible.
   */
  readonly text: string;

  /** @internal */
  constructor(system: Dialect, database: string, text: string) {
    this.system = system;
    this.database = database;
    this.text = text;
  }

  /** `db.operation.name`: the first word after comments, in upper case; empty when there is none. */
  get operation(): string {
    return FIRST_WORD.exec(this.text)?.[1]?.toUpperCase() ?? '';
  }
}

const FIRST_WORD = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*([a-z]+)/i;

/** Returns a source that publishes each stream as one statement. @internal */
export function tracedSource(
  source: Pick<Connection, 'stream'>,
  dialect: Dialect,
  name: string,
): Pick<Connection, 'stream'> {
  return {
    stream: (sql, params, limit) =>
      tracedStream(new QueryEvent(dialect, name, sql), source.stream(sql, params, limit)),
  };
}

/** Wraps a connection and publishes each statement. @internal */
export class TracedConnection implements Connection {
  /** Absent when the wrapped connection has no such method. */
  readonly insertMany?: (
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ) => Awaitable<number>;
  /** Absent when the wrapped connection has no such method. */
  readonly fetchSets?: (sql: string, params: Params, limit: Limit | undefined) => Awaitable<Row[][]>;
  readonly #inner: Connection;
  readonly #dialect: Dialect;
  readonly #name: string;

  constructor(inner: Connection, dialect: Dialect, name: string) {
    this.#inner = inner;
    this.#dialect = dialect;
    this.#name = name;
    if (inner.fetchSets !== undefined)
      // the condition above has checked that the method exists
      this.fetchSets = (sql, params, limit) => this.#traced(sql, () => inner.fetchSets!(sql, params, limit));
    if (inner.insertMany !== undefined) {
      this.insertMany = (table, columns, rows, limit) =>
        // the condition above has checked that the method exists
        this.#traced(`insert into ${table}`, () => inner.insertMany!(table, columns, rows, limit));
    }
  }

  get isInTransaction(): boolean {
    return this.#inner.isInTransaction;
  }

  execute(sql: string, params: Params, limit: Limit | undefined): Awaitable<ExecuteResult> {
    return this.#traced(sql, () => this.#inner.execute(sql, params, limit));
  }
  fetchOne(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row | undefined> {
    return this.#traced(sql, () => this.#inner.fetchOne(sql, params, limit));
  }
  fetchAll(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[]> {
    return this.#traced(sql, () => this.#inner.fetchAll(sql, params, limit));
  }
  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Awaitable<Table> {
    return this.#traced(sql, () => this.#inner.fetchArrays(sql, params, limit));
  }
  scalar(sql: string, params: Params, limit: Limit | undefined): Awaitable<unknown> {
    return this.#traced(sql, () => this.#inner.scalar(sql, params, limit));
  }
  executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Awaitable<number> {
    return this.#traced(sql, () => this.#inner.executeMany(sql, rows, limit));
  }
  script(sql: string, limit: Limit | undefined): Awaitable<void> {
    return this.#traced(sql, () => this.#inner.script(sql, limit));
  }
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]> {
    return tracedSource(this.#inner, this.#dialect, this.#name).stream(sql, params, limit);
  }
  begin(options: BeginOptions, limit: Limit | undefined): Awaitable<void> {
    return this.#traced('begin', () => this.#inner.begin(options, limit));
  }
  commit(limit?: Limit): Awaitable<void> {
    return this.#traced('commit', () => this.#inner.commit(limit));
  }
  rollback(limit?: Limit): Awaitable<void> {
    return this.#traced('rollback', () => this.#inner.rollback(limit));
  }
  savepoint(name: string, limit?: Limit): Awaitable<void> {
    return this.#traced(`savepoint ${name}`, () => this.#inner.savepoint(name, limit));
  }
  releaseSavepoint(name: string, limit?: Limit): Awaitable<void> {
    return this.#traced(`release ${name}`, () => this.#inner.releaseSavepoint(name, limit));
  }
  rollbackTo(name: string, limit?: Limit): Awaitable<void> {
    return this.#traced(`rollback to ${name}`, () => this.#inner.rollbackTo(name, limit));
  }
  retire(): void {
    this.#inner.retire?.();
  }

  #traced<T>(text: string, work: () => Awaitable<T>): Awaitable<T> {
    return traced(queries, new QueryEvent(this.#dialect, this.#name, text), work);
  }
}

/**
 * Publishes a stream as one statement: from the first batch to the last, or until the reader leaves the loop.
 */
async function* tracedStream(
  event: QueryEvent,
  rows: AsyncIterable<readonly Row[]>,
): AsyncGenerator<readonly Row[], void, undefined> {
  const reading = Promise.withResolvers<void>();
  // no unhandled rejection: the reader of the rows gets this error below
  traced(queries, event, () => reading.promise).catch(() => undefined);
  try {
    yield* rows;
  } catch (error) {
    reading.reject(error);
    throw error;
  } finally {
    reading.resolve();
  }
}
