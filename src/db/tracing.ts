/**
 * Publishes statements on the tracing channel `svc:db:query` of node:diagnostics_channel. Costs nothing
 * without subscribers.
 *
 * A statement publishes the events start, end, error (only if it fails), asyncStart and asyncEnd. The
 * function that publishes them is in src/observability/traced.ts.
 *
 * A SQLite statement runs synchronously, so it publishes no asyncStart and no asyncEnd.
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel';
import { traced } from '../observability/traced.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { Connection, Dialect, Row } from './driver.ts';
import type { Failable } from '../observability/traced.ts';

/** Tracing channel of statements. @internal */
export const queries: TracingChannel<unknown, object> = tracingChannel('svc:db:query');

/**
 * A statement in the events of `svc:db:query`. The comment of each property names its OpenTelemetry
 * attribute.
 */
export class QueryEvent implements Failable {
  /** Error of the statement, if the statement failed. */
  error?: unknown;
  /** Engine of the database (`db.system.name`). */
  readonly system: Dialect;
  /** Name of the database's plugin, or `database` for a plugin that has no name of its own. */
  readonly database: string;
  /**
   * Text of the statement as sent (`db.query.text`), with placeholders for bound values. Values that a
   * program itself writes into the text are visible.
   */
  readonly text: string;

  /** @internal */
  constructor(system: Dialect, database: string, text: string) {
    this.system = system;
    this.database = database;
    this.text = text;
  }

  /**
   * First word of the statement after comments, in upper case (`db.operation.name`). Empty if there is no
   * word.
   */
  get operation(): string {
    return FIRST_WORD.exec(this.text)?.[1]?.toUpperCase() ?? '';
  }
}

const FIRST_WORD = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*([a-z]+)/i;

/**
 * Wraps the method `stream` of a connection or driver, and publishes each stream as one statement. @internal
 */
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

/** Functions that derive the text of a statement from the first argument of each method of a connection. */
const TEXTS: Readonly<Partial<Record<keyof Connection, (first: unknown) => string>>> = {
  execute: String,
  fetchOne: String,
  fetchAll: String,
  fetchArrays: String,
  fetchSets: String,
  scalar: String,
  executeMany: String,
  insertMany: (table) => `insert into ${String(table)}`,
  script: String,
  begin: () => 'begin',
  commit: () => 'commit',
  rollback: () => 'rollback',
  savepoint: (name) => `savepoint ${String(name)}`,
  releaseSavepoint: (name) => `release ${String(name)}`,
  rollbackTo: (name) => `rollback to ${String(name)}`,
};

const wrapped = new WeakMap<Connection, Connection>();

/** Returns a connection that passes each call to `inner`, and publishes the statement. @internal */
export function tracedConnection(inner: Connection, dialect: Dialect, name: string): Connection {
  const known = wrapped.get(inner);
  if (known !== undefined) return known;
  const methods: Record<string, unknown> = {};
  for (const [method, textOf] of Object.entries(TEXTS)) {
    // undefined if the connection does not have this method, for example `fetchSets`
    const work = inner[method as 'commit'] as ((...args: unknown[]) => Awaitable<unknown>) | undefined;
    if (work !== undefined)
      methods[method] = (...args: unknown[]) =>
        traced(queries, new QueryEvent(dialect, name, textOf(args[0])), () => work.apply(inner, args));
  }
  const connection = {
    ...tracedSource(inner, dialect, name),
    ...methods,
    retire: () => inner.retire?.(),
    get isInTransaction() {
      return inner.isInTransaction;
    },
  } as unknown as Connection;
  wrapped.set(inner, connection);
  return connection;
}

/**
 * Publishes a stream as one statement, from the first batch of rows to the last one or until the reader
 * leaves the loop.
 */
async function* tracedStream(
  event: QueryEvent,
  rows: AsyncIterable<readonly Row[]>,
): AsyncGenerator<readonly Row[], void, undefined> {
  const reading = Promise.withResolvers<void>();
  // prevents an unhandled rejection; the reader of the rows gets this error, too
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
