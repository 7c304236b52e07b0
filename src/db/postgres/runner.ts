/**
 * Runs the statements of one PostgreSQL connection. It decides when a statement is prepared, and whether
 * values and rows are sent as text or in binary.
 *
 * The first use of a statement sends Parse, Describe, Bind and Execute without a name, and all values as
 * text. The second use sends these messages with a name, and caches the types of parameters and columns.
 * Later uses send only Bind and Execute, with binary values where that is faster.
 *
 * Each use of a statement takes one round trip. A value that is a list, an object or bytes may need one more,
 * because its encoding depends on the type of the parameter.
 *
 * With `statement_cache=0` in the address, every statement is unnamed, and all values are text. This suits
 * poolers that change the session between two statements.
 */
import { randomUUID } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { DatabaseError, StalePlan } from '../errors.ts';
import { endingLimit } from '../limits.ts';
import { endRows, taken } from '../parameters.ts';
import { ServerRunner, type StatementRequest } from '../wire/server-connection.ts';
import { PreparedStatements } from '../statements.ts';
import { checkCount, checkedStatement } from '../placeholders.ts';
import { CAN_COPY, copyRows } from './copy.ts';
import { isOfChangedSchema, isOfTypes, isStalePlan } from './errors.ts';
import { Exchange, STEP, type Step } from './exchange.ts';
import { RepeatableRows, chained, writeMany, type Many } from './many.ts';
import {
  FIND_COLUMNS,
  FIND_TYPES,
  RowPlan,
  columnLists,
  foundColumn,
  foundType,
  rereadRows,
} from './rows.ts';
import { needsTypes, writeParams } from './values.ts';
import type { Column, Limit, PreparedColumn, Row } from '../driver.ts';
import type { WireColumn } from './messages.ts';
import type { PostgresConversation } from './conversation.ts';
import type { PostgresConnectionOptions } from './url.ts';
import type { RowsWanted } from '../wire/conversation.ts';
import type { PostgresTypes } from './types.ts';
import type { Params } from '../values.ts';

const TEXT_FORMATS = new Uint8Array(0);
const RUN: readonly Step[] = [STEP.bind, STEP.execute, STEP.ready];
const DESCRIBE_AND_RUN: readonly Step[] = [STEP.parameters, STEP.rows, ...RUN];
const PARSE_AND_RUN: readonly Step[] = [STEP.parse, ...DESCRIBE_AND_RUN];
const PREPARE: readonly Step[] = [STEP.parse, STEP.parameters, STEP.rows, STEP.ready];
const SIMPLE: readonly Step[] = [STEP.simple];
const MORE: readonly Step[] = [STEP.execute, STEP.ready];
const CLOSE: readonly Step[] = [STEP.close, STEP.ready];

/**
 * Minimum number of rows for which insert() checks whether it can use COPY. Fewer rows are always inserted
 * with INSERT.
 */
const FEW_ROWS = 64;

interface Request extends StatementRequest {
  readonly portal: Portal;
}

/** A portal (a cursor on the server), from which a stream reads. */
export interface Portal {
  /** Empty for requests that are no streams. */
  readonly name: string;
  /** Maximum number of rows of the reply; 0 means no limit. */
  readonly maxRows: number;
  /** Whether the transaction was begun for this request alone. */
  readonly ownsTransaction: boolean;
}

const UNNAMED: Portal = { name: '', maxRows: 0, ownsTransaction: false };

/** Types of the parameters of a statement, and decoders of its rows. */
interface Description {
  readonly oids: readonly number[];
  readonly plan: RowPlan | undefined;
}

/** State of the connection before a statement failed. */
interface Failed {
  readonly wasIdle: boolean;
  /** Number of requests that the statement needed. Undefined if the statement cannot be run again. */
  readonly own: number | undefined;
  /** Whether the caller rolls an open transaction back after every error. */
  readonly rollsBack: boolean;
}

interface KnownStatement {
  /** Name of the statement on the server. Empty until it is prepared. */
  name: string;
  /** Oids of the parameter types of the prepared statement. Undefined until they are known. */
  oids: readonly number[] | undefined;
  /** Decoders of the rows. Undefined for a statement that returns no rows. */
  plan: RowPlan | undefined;
  /** Whether `oids` and `plan` are valid. */
  isDescribed: boolean;
  /** Columns with the names of their tables and types. Undefined until a caller requests them. */
  columns: readonly Column[] | undefined;
}

export class PostgresRunner extends ServerRunner<Exchange, PostgresConversation> {
  readonly statements: PreparedStatements<KnownStatement, string>;
  /**
   * Prefix of the names of prepared statements. It is unique for each connection, because a pooler may give
   * one session to several connections.
   */
  readonly #prefix = `svc_${randomUUID().slice(0, 6)}_`;
  #names = 0;
  readonly types: PostgresTypes;
  readonly #options: PostgresConnectionOptions;
  /**
   * Number of schema changes that were known when the cached statements were prepared. If more are known now,
   * these statements may be outdated.
   */
  #changes: number;
  beginAnew: ((own: number, limit: Limit | undefined) => Promise<boolean>) | undefined;

  constructor(conversation: PostgresConversation, options: PostgresConnectionOptions, types: PostgresTypes) {
    super(conversation, options);
    this.types = types;
    this.#options = options;
    this.#changes = types.changes;
    this.statements = new PreparedStatements(options.statementCache, ({ name }) => name || undefined);
  }

  run<T>(
    sql: string,
    params: Params,
    limit: Limit | undefined,
    wanted: RowsWanted,
    answer: (exchange: Exchange) => T,
    portal: Portal = UNNAMED,
  ): Promise<T> {
    try {
      const { text, placeholders } = checkedStatement(sql, 'postgres');
      checkCount(params, placeholders);
      const request: Request = { text, params, wanted, limit, portal };
      const known = limit === undefined && this.writing === undefined ? this.statements.get(text) : undefined;
      return known?.isDescribed === true
        ? this.#atOnce(request, known, answer)
        : this.#stepByStep(request, answer);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Sends SQL text without parameters, as a simple query. */
  async simple(text: string, limit: Limit | undefined): Promise<Exchange> {
    while (this.mustWait) await this.turn();
    this.check(text, limit);
    this.conversation.writer.query(text);
    return this.#asked(text, SIMPLE, limit);
  }

  #asked(
    sql: string,
    steps: readonly Step[],
    limit: Limit | undefined,
    rows: { readonly wanted: RowsWanted; readonly plan?: RowPlan | undefined } = { wanted: 'none' },
  ): Promise<Exchange> {
    const exchange = new Exchange({ sql, steps, types: this.types, ...rows });
    this.conversation.send(exchange);
    return this.conversation.finish(exchange, limit);
  }

  /** Fetches the next rows of a portal, a cursor on the server. */
  async more(portal: string, first: Exchange, maxRows: number, limit: Limit | undefined): Promise<Exchange> {
    while (this.mustWait) await this.turn();
    this.check(first.sql, limit);
    const { writer } = this.conversation;
    writer.execute(portal, maxRows);
    writer.sync();
    const exchange = await this.#asked(first.sql, MORE, limit, { wanted: 'objects', plan: first.plan });
    this.#reread(exchange);
    return exchange;
  }

  /** Closes a portal from which not all rows were read. */
  async closePortal(portal: string, limit: Limit | undefined): Promise<void> {
    while (this.mustWait) await this.turn();
    const { writer } = this.conversation;
    writer.close('portal', portal);
    writer.sync();
    await this.#asked('close', CLOSE, limit);
  }

  /**
   * Runs one statement for many rows with one Sync. Either all rows are written or none, even outside a
   * transaction. `before` is the number of requests on this connection before the caller's first one.
   */
  async many(
    sql: string,
    rows: Iterable<Params>,
    limit: Limit | undefined,
    before: number = this.conversation.asked,
  ): Promise<number> {
    const { text, placeholders } = checkedStatement(sql, 'postgres');
    while (this.mustWait) await this.turn();
    this.check(text, limit);
    const wasIdle = this.#isIdle;
    const wasDescribed = this.statements.peek(text)?.isDescribed === true;
    const source = new RepeatableRows(rows);
    try {
      if (source.next().done === true) return 0;
      source.rewind();
      try {
        return await this.#many(text, placeholders, source, limit);
      } catch (error) {
        if (!wasDescribed) throw error;
        const own = source.rewind() ? this.conversation.asked - before : undefined;
        await this.#renew({ text, limit }, error, { wasIdle, own, rollsBack: true });
        return await this.#many(text, placeholders, source, limit);
      }
    } finally {
      source.end();
    }
  }

  async #many(
    text: string,
    placeholders: number,
    rows: RepeatableRows,
    limit: Limit | undefined,
  ): Promise<number> {
    const known = this.#isCaching ? await this.#described(text, limit) : undefined;
    while (this.mustWait) await this.turn();
    this.check(text, limit);
    const { name } = this.statements.peek(text) ?? { name: '' };
    const many: Many = { text, name, placeholders, oids: known?.oids, rows, limit };
    return this.exclusively(() => writeMany(this.conversation, this.types, many));
  }

  /**
   * Inserts rows of values. All rows are inserted or none. For many rows, uses COPY if it has the same effect
   * as INSERT. `table` and `columns` are already quoted.
   */
  async insert(
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ): Promise<number> {
    const text = `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => `$${index + 1}`).join(', ')})`;
    const before = this.conversation.asked;
    const source = rows[Symbol.iterator]();
    try {
      const first = taken(source, FEW_ROWS);
      const all = chained(first, source);
      const oids = first.length < FEW_ROWS ? undefined : await this.#copyTypes(table, text, limit);
      if (oids === undefined) return await this.many(text, all, limit, before);
      while (this.mustWait) await this.turn();
      this.check(text, limit);
      // no fallback to INSERT: if this call fails, INSERT would fail with an equal error
      return await this.exclusively(() =>
        copyRows(this.conversation, this.types, {
          text: `copy ${table} (${columns.join(', ')}) from stdin`,
          oids,
          rows: all,
          limit,
        }),
      );
    } finally {
      endRows(source);
    }
  }

  /**
   * Returns the column types for COPY, or undefined if COPY would have another effect than INSERT. Asks for
   * the types each time, because COPY cannot be repeated if they are outdated.
   */
  async #copyTypes(
    table: string,
    text: string,
    limit: Limit | undefined,
  ): Promise<readonly number[] | undefined> {
    const [found, { oids }] = await Promise.all([
      this.run(CAN_COPY, [table], limit, 'lists', asLists),
      this.describe(text, '', limit),
    ]);
    return found.some(([canCopy]) => canCopy !== true) ? undefined : oids;
  }

  /**
   * Clears the statement cache if another connection has found that the schema changed. An outdated statement
   * would make an open transaction fail.
   */
  forgetOld(): void {
    if (this.#changes === this.types.changes) return;
    this.#changes = this.types.changes;
    this.statements.clear();
  }

  async columns(sql: string, { plan }: Exchange, limit: Limit | undefined): Promise<readonly Column[]> {
    if (plan === undefined) return [];
    const known = this.statements.peek(checkedStatement(sql, 'postgres').text);
    if (known?.columns !== undefined && known.plan?.columns === plan.columns) return known.columns;
    const found = await this.findColumns(plan.columns, endingLimit(limit, 0, this.#options.clock));
    const columns = found.map(({ name, table, type }) => ({ name, table, type: type?.name }));
    // the first use of a statement has no plan yet, and the table may change before the second use
    if (known !== undefined && known.plan?.columns === plan.columns) known.columns = columns;
    return columns;
  }

  async findColumns(columns: readonly WireColumn[], limit: Limit | undefined): Promise<PreparedColumn[]> {
    const found = await this.run(FIND_COLUMNS, columnLists(columns), limit, 'lists', asLists);
    return columns.map((column, index) => foundColumn(column, found[index]));
  }

  get #isIdle(): boolean {
    return this.conversation.status === 'I' && this.conversation.isQuiet;
  }
  get #isCaching(): boolean {
    return this.#options.statementCache > 0;
  }

  /** Fast path of run() for a statement that the server has already prepared: one write and one promise. */
  #atOnce<T>(request: Request, known: KnownStatement, answer: (exchange: Exchange) => T): Promise<T> {
    this.check(request.text, undefined);
    const wasIdle = this.#isIdle;
    const timing = request.portal.name === '' ? this.timing : undefined;
    const startedMs = timing?.begin() ?? 0;
    const onceMore = (error: unknown): Promise<Exchange> => this.#onceMore(request, error, wasIdle);
    let exchange: Exchange;
    try {
      exchange = this.#send(request, known, undefined);
    } catch (error) {
      return this.timed(request.text, timing, startedMs, () => onceMore(error), answer);
    }
    return this.answered({ exchange, timing, startedMs }, answer, onceMore);
  }

  async #stepByStep<T>(request: Request, answer: (exchange: Exchange) => T): Promise<T> {
    while (this.mustWait) await this.turn();
    this.check(request.text, request.limit);
    const timing = request.portal.name === '' ? this.timing : undefined;
    return this.timed(request.text, timing, timing?.begin() ?? 0, () => this.#withRetry(request), answer);
  }

  async #withRetry(request: Request): Promise<Exchange> {
    const wasIdle = this.#isIdle;
    const wasDescribed = this.statements.peek(request.text)?.isDescribed === true;
    try {
      return await this.#attempt(request);
    } catch (error) {
      if (!wasDescribed) throw error;
      return this.#onceMore(request, error, wasIdle);
    }
  }

  /**
   * Runs a statement again if it failed only because its plan or its parameter types are outdated. Otherwise
   * throws the error.
   */
  async #onceMore(request: Request, error: unknown, wasIdle: boolean): Promise<Exchange> {
    await this.#renew(request, error, {
      wasIdle,
      own: 1,
      rollsBack: request.portal.ownsTransaction,
    });
    return this.#attempt(request);
  }

  /**
   * Drops the prepared statement if a statement failed only because its plan or its parameter types are
   * outdated, and returns when the statement can be run again. Otherwise throws the error.
   */
  async #renew(
    { text, limit }: Pick<Request, 'text' | 'limit'>,
    error: unknown,
    { wasIdle, own, rollsBack }: Failed,
  ): Promise<void> {
    const oids = this.statements.peek(text)?.oids ?? [];
    // a value may fit the new type of a column, although this client refuses it for the old one
    const isRefused = error instanceof SvcError && error.code === 'E_DB_PARAMETER';
    const isOfParameters =
      oids.length > 0 && (isRefused || (error instanceof DatabaseError && isOfTypes(error)));
    const isStale = !isOfParameters && error instanceof DatabaseError && isStalePlan(error);
    if (!isOfParameters && !isStale) throw error;
    this.statements.delete(text);
    const failure = isStale ? this.#changed(error) : error;
    // the error of a parameter may be the caller's mistake: its transaction must stay as it is
    if (own === undefined || (isOfParameters && !isRefused && !wasIdle && !rollsBack)) throw failure;
    const { status, isEnded } = this.conversation;
    const isFree = isRefused ? status !== 'E' : wasIdle && status === 'I';
    if (isEnded || !(isFree || (!wasIdle && (await this.beginAnew?.(own, limit)) === true))) throw failure;
    if (isOfParameters && !(await this.#hasOtherTypes(text, oids, limit))) throw error;
  }

  /**
   * Returns a StalePlan error with the message of `error`, and clears the statement cache. So a retry of the
   * transaction prepares its statements again.
   */
  #changed(error: DatabaseError): DatabaseError {
    const { sqlstate, sql } = error;
    // if several connections notice a schema change, only the first one counts it
    if (this.#changes === this.types.changes && isOfChangedSchema(error)) this.types.changes++;
    this.#changes = this.types.changes;
    this.statements.clear(); // other statements may be outdated for the same reason
    return new StalePlan(error.message, { sqlstate, sql, cause: error });
  }

  /**
   * Returns whether a statement has other parameter types when it is prepared again, for example after
   * another client ran `alter table ... alter id type bigint`.
   */
  async #hasOtherTypes(text: string, before: readonly number[], limit: Limit | undefined): Promise<boolean> {
    try {
      const { oids } = await this.#described(text, limit);
      const isOther = oids.length !== before.length || oids.some((oid, index) => oid !== before[index]);
      return isOther && !this.conversation.isEnded && this.conversation.status !== 'E';
    } catch {
      return false; // the preparation failed: the caller throws the original error, which is more informative
    }
  }

  /**
   * Returns the cache entry of a statement that was used before. For a new statement, adds an entry and
   * returns undefined. A statement is prepared only at its second use, because most generated statements
   * never recur.
   */
  #seen(text: string): KnownStatement | undefined {
    const known = this.statements.get(text);
    if (known === undefined)
      this.statements.add(text, {
        name: '',
        oids: undefined,
        plan: undefined,
        isDescribed: false,
        columns: undefined,
      });
    return known;
  }

  #nextName(): string {
    return `${this.#prefix}${++this.#names}`;
  }

  async #attempt(request: Request): Promise<Exchange> {
    const { text, params, limit } = request;
    let known = this.#seen(text);
    let oids: readonly number[] | undefined;
    if (known?.isDescribed !== true && this.#isCaching && needsTypes(params)) {
      const described = await this.#described(text, limit);
      oids = described.oids;
      known = this.statements.peek(text);
    }
    const wasNamed = known === undefined || known.name !== '';
    const exchange = this.#send(request, known, oids);
    try {
      await this.conversation.finish(exchange, limit);
    } catch (error) {
      // the server has not prepared the statement, so its name must not be used
      if (!wasNamed && !exchange.isParsed) known!.name = '';
      throw error;
    }
    if (exchange.parameterOids !== undefined)
      await this.#learn(exchange.parameterOids, exchange.plan, endingLimit(limit, 0, this.#options.clock));
    if (known !== undefined && !known.isDescribed)
      this.#remember(known, exchange.parameterOids, exchange.plan);
    this.#reread(exchange);
    return exchange;
  }

  #send(
    { text, params, wanted, portal }: Request,
    known: KnownStatement | undefined,
    described: readonly number[] | undefined,
  ): Exchange {
    const { writer } = this.conversation;
    const before = writer.length;
    const closing = this.statements.takeClosing();
    const isNew = known === undefined || known.name === '';
    const isKnown = known?.isDescribed === true;
    const name = known === undefined ? '' : known.name === '' ? this.#nextName() : known.name;
    try {
      for (const each of closing) writer.close('statement', each);
      if (isNew) writer.parse(name, text);
      if (!isKnown) writer.describe('statement', name);
      writer.beginBind(portal.name, name, params.length);
      writeParams(writer, params, isKnown ? known.oids : described, this.types, text);
      writer.endBind(isKnown ? (known.plan?.formats ?? TEXT_FORMATS) : TEXT_FORMATS);
      writer.execute(portal.name, portal.maxRows);
      writer.sync();
    } catch (error) {
      writer.rewind(before);
      this.statements.closeHandles(...closing);
      throw error;
    }
    if (known !== undefined) known.name = name;
    const steps = isKnown ? RUN : isNew ? PARSE_AND_RUN : DESCRIBE_AND_RUN;
    const exchange = new Exchange({
      sql: text,
      steps: withClosing(closing, steps),
      wanted,
      types: this.types,
      plan: isKnown ? known.plan : undefined,
    });
    this.conversation.send(exchange);
    return exchange;
  }

  /**
   * Returns the parameter types and decoders of a statement. Asks the server if they are not cached. If the
   * statement was used before, prepares it under a name.
   */
  async #described(text: string, limit: Limit | undefined): Promise<Description> {
    const known = this.#seen(text) ?? this.statements.peek(text);
    if (known?.isDescribed === true) return { oids: known.oids!, plan: known.plan };
    const name = known === undefined ? '' : this.#nextName();
    const described = await this.describe(text, name, limit);
    if (known === undefined) return described;
    // another caller has meanwhile prepared the same text: close that statement
    if (known.name !== '') this.statements.closeHandles(known.name);
    known.name = name;
    return this.#remember(known, described.oids, described.plan);
  }

  /** Prepares a statement under a name, and asks the server for its parameter types and columns. */
  async describe(text: string, name: string, limit: Limit | undefined): Promise<Description> {
    const { writer } = this.conversation;
    writer.parse(name, text);
    writer.describe('statement', name);
    writer.sync();
    const exchange = await this.#asked(text, PREPARE, limit);
    // `parameterOids` is set, because the server has described the statement
    const oids = exchange.parameterOids!;
    await this.#learn(oids, exchange.plan, limit);
    return { oids, plan: exchange.plan };
  }

  #remember(
    known: KnownStatement,
    oids: readonly number[] | undefined,
    plan: RowPlan | undefined,
  ): Description {
    known.oids = oids ?? [];
    known.plan = plan === undefined ? undefined : new RowPlan(plan.columns, this.types, false);
    known.isDescribed = oids !== undefined;
    return { oids: known.oids, plan: known.plan };
  }

  async #learn(oids: readonly number[], plan: RowPlan | undefined, limit: Limit | undefined): Promise<void> {
    if (plan === undefined && oids.length === 0) return;
    const unknown = [...oids, ...(plan?.columns.map(({ typeOid }) => typeOid) ?? [])].filter(
      (oid) => this.types.get(oid) === undefined,
    );
    if (unknown.length === 0 || this.conversation.status === 'E') return;
    const found = (await this.run(FIND_TYPES, [`{${unknown.join(',')}}`], limit, 'lists', asLists)).map(
      foundType,
    );
    // treat a type that does not exist any more as text, so that the database is not asked for it again
    const missing = unknown.filter((oid) => !found.some((type) => type.oid === oid));
    this.types.learn([
      ...found,
      ...missing.map((oid) => ({ oid, name: '', elementOid: 0, delimiter: ',', baseOid: 0 })),
    ]);
  }

  #reread(exchange: Exchange): void {
    if (exchange.plan !== undefined && exchange.plan.unknown.length > 0)
      rereadRows(exchange.plan, this.types, exchange.rows as Row[]);
  }
}

function asLists({ rows }: Exchange): unknown[][] {
  return rows as unknown[][];
}

function withClosing(closing: readonly string[], steps: readonly Step[]): readonly Step[] {
  return closing.length === 0 ? steps : [...closing.map(() => STEP.close), ...steps];
}
