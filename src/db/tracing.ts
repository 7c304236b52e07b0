/**
 * Spans of statements and of Redis commands. Without a tracer, statements run on the connection itself, so
 * they cost nothing. Names and attributes follow the stable semantic conventions of OpenTelemetry for
 * databases.
 *
 * The text of a statement has placeholders for bound values. Values that a program itself writes into the
 * text are visible. Spans of Redis have the name of the command, but no arguments.
 */
import { onePer } from '../base/options.ts';
import { failSpan, inSpan } from '../observability/tracer.ts';
import { DatabaseError } from './errors.ts';
import { isUnixHost, type ServerHost } from './wire/server-url.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { Span, SpanStart, SpanValue, Tracer } from '../observability/tracer.ts';
import type { Connection, Dialect, Row, RowBatches } from './driver.ts';

const SYSTEMS: Readonly<Record<Dialect | 'redis', string>> = {
  sqlite: 'sqlite',
  postgres: 'postgresql',
  mysql: 'mysql',
  mariadb: 'mariadb',
  redis: 'redis',
};
const FIRST_WORD = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*([a-z]+)/i;

export interface TracedDatabase {
  readonly system: Dialect | 'redis';
  /** Name of the database; undefined if the address has none. */
  readonly namespace: string | undefined;
  /** Servers of the address; empty for SQLite. */
  readonly hosts: readonly ServerHost[];
  /** Returns the code of an error in the engine's own terms (`db.response.status_code`). */
  codeOf(error: DatabaseError): string | number | undefined;
}

/** Makes the spans of one database. @internal */
export class DatabaseSpans {
  readonly #tracer: Tracer;
  readonly #attributes: Readonly<Record<string, SpanValue | undefined>>;
  readonly #target: string;
  readonly #codeOf: TracedDatabase['codeOf'];

  constructor(tracer: Tracer, { system, namespace, hosts, codeOf }: TracedDatabase) {
    // with several servers, it is not known which one runs a statement
    const host = hosts.length === 1 ? hosts[0] : undefined;
    this.#tracer = tracer;
    this.#target = namespace ?? host?.host ?? SYSTEMS[system];
    this.#codeOf = codeOf;
    this.#attributes = {
      'db.system.name': SYSTEMS[system],
      'db.namespace': namespace,
      'server.address': host?.host,
      'server.port': host === undefined || isUnixHost(host.host) ? undefined : host.port,
    };
  }

  /** Runs a Redis command in a span. */
  command<T>(name: string, work: () => T): T {
    const start = this.#startOf(name, undefined);
    return inSpan(this.#tracer, `${name} ${this.#target}`, start, work, this.#describe);
  }

  /** Returns a connection that passes each call to `inner`, and runs the statement in a span. */
  readonly connection: (inner: Connection) => Connection = onePer((inner) => {
    const methods: Record<string, unknown> = {};
    for (const [method, textOf] of Object.entries(TEXTS)) {
      // undefined if the connection does not have this method, for example `fetchSets`
      const work = inner[method as 'commit'] as ((...args: unknown[]) => Awaitable<unknown>) | undefined;
      if (work !== undefined)
        methods[method] = (...args: unknown[]) =>
          this.#statement(textOf(args[0]), () => work.apply(inner, args));
    }
    return {
      ...this.source(inner),
      ...methods,
      retire: () => inner.retire?.(),
      get isInTransaction() {
        return inner.isInTransaction;
      },
    } as unknown as Connection;
  });

  /** Wraps the method `stream` of a connection or driver. Each stream has one span. */
  source(source: Pick<Connection, 'stream'>): Pick<Connection, 'stream'> {
    return { stream: (sql, params, limit) => this.#stream(sql, source.stream(sql, params, limit)) };
  }

  #statement<T>(text: string, work: () => T): T {
    const operation = operationOf(text);
    const start = this.#startOf(operation, text);
    return inSpan(this.#tracer, `${operation} ${this.#target}`.trimStart(), start, work, this.#describe);
  }

  /** The span lasts from the first batch of rows to the last one, or until the reader leaves the loop. */
  async *#stream(text: string, rows: AsyncIterable<readonly Row[]>): RowBatches {
    const operation = operationOf(text);
    const span = this.#tracer.start(
      `${operation} ${this.#target}`.trimStart(),
      this.#startOf(operation, text),
    );
    try {
      yield* rows;
    } catch (error) {
      if (span !== undefined) {
        failSpan(span, error);
        this.#describe(span, error);
      }
      throw error;
    } finally {
      span?.end();
    }
  }

  #startOf(operation: string, text: string | undefined): SpanStart {
    return {
      kind: 'client',
      attributes: {
        ...this.#attributes,
        'db.operation.name': operation === '' ? undefined : operation,
        'db.query.text': text,
      },
    };
  }

  readonly #describe = (span: Span, error: unknown): void => {
    if (!(error instanceof DatabaseError)) return;
    const code = this.#codeOf(error);
    if (code !== undefined) span.set('db.response.status_code', String(code));
  };
}

/** Returns the first word of a statement after comments, in upper case; empty if there is none. */
function operationOf(text: string): string {
  return FIRST_WORD.exec(text)?.[1]?.toUpperCase() ?? '';
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
