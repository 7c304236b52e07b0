/** One connection to PostgreSQL. A pool lends it to one caller at a time. */
import { TransactionAborted } from '../errors.ts';
import { ServerConnection } from '../wire/server-connection.ts';
import { beginTexts } from '../dialects.ts';
import { endingLimit, checkLimit } from '../limits.ts';
import { checkedStatement, scanned } from '../placeholders.ts';
import { scriptStatements } from '../script.ts';
import { UNTIMED } from '../slow-statements.ts';
import { PostgresRunner, type Portal } from './runner.ts';
import type { BeginOptions, Limit, PreparedStatement, Row, RowBatches, Table } from '../driver.ts';
import type { PostgresConversation } from './conversation.ts';
import type { Exchange } from './exchange.ts';
import type { PostgresConnectionOptions, PostgresSession } from './url.ts';
import type { PostgresTypes } from './types.ts';
import type { Params } from '../values.ts';

const BATCH_ROWS = 256;
/** Matches every data-modifying statement inside a WITH, and other texts with such a word. */
const MAY_WRITE = /\b(?:insert|update|delete|merge)\b/i;
/** Column of no table, to ask for the name of a parameter's type. */
const UNTITLED = { name: '', tableOid: 0, attribute: 0, typeModifier: -1 };
const READ_WRITE: BeginOptions = { isolation: undefined, isReadOnly: false };

export class PostgresConnection
  extends ServerConnection<Exchange, PostgresConversation, PostgresRunner>
  implements PostgresSession
{
  readonly #options: PostgresConnectionOptions;
  #beginText = '';
  #askedAtBegin = 0;
  /** How often a transaction has begun or ended, by which a stream notices the end of its own. */
  #transactions = 0;
  #portals = 0;

  constructor(conversation: PostgresConversation, options: PostgresConnectionOptions, types: PostgresTypes) {
    super(new PostgresRunner(conversation, options, types));
    this.#options = options;
    this.runner.beginAnew = (own, limit) => this.#beginAnew(own, limit);
    conversation.onParameter = (name) => this.#onParameter(name);
    conversation.onRefusal = ({ sqlstate }) => {
      if (options.mustWrite && !this.isReadOnly && sqlstate === '25006') this.isUnfit = true;
    };
    for (const name of conversation.parameters.keys()) this.#onParameter(name);
  }

  get isInTransaction(): boolean {
    return this.conversation.status !== 'I';
  }
  get isIdle(): boolean {
    return this.conversation.isQuiet && !this.runner.isWriting && !this.isInTransaction;
  }
  get processId(): number {
    return this.conversation.processId;
  }
  /** Settings that the server has reported, such as `server_version` and `in_hot_standby`. */
  get parameters(): ReadonlyMap<string, string> {
    return this.conversation.parameters;
  }

  get onNotification(): ((channel: string, payload: string, processId: number) => void) | undefined {
    return this.conversation.onNotification;
  }
  set onNotification(listener: ((channel: string, payload: string, processId: number) => void) | undefined) {
    this.conversation.onNotification = listener;
  }

  async fetchArrays(sql: string, params: Params, limit: Limit | undefined): Promise<Table> {
    const exchange = await this.runner.run(sql, params, limit, 'lists', asItIs);
    return { columns: await this.runner.columns(sql, exchange, limit), rows: exchange.rows as unknown[][] };
  }

  async describe(sql: string, limit: Limit | undefined): Promise<PreparedStatement> {
    const { text } = checkedStatement(sql, 'postgres');
    while (this.runner.mustWait) await this.runner.turn();
    this.runner.check(text, limit);
    const { oids, plan } = await this.runner.describe(text, '', limit);
    const columns = plan?.columns ?? [];
    const parameters = oids.map((typeOid) => ({ ...UNTITLED, typeOid }));
    const found =
      columns.length + oids.length === 0
        ? []
        : await this.runner.findColumns([...columns, ...parameters], limit);
    return {
      columns: found.slice(0, columns.length),
      parameters: found.slice(columns.length).map(({ type }) => type),
    };
  }

  executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Promise<number> {
    return this.timed(sql, () => this.runner.many(sql, rows, limit));
  }

  insertMany(
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ): Promise<number> {
    return this.timed(`insert into ${table}`, () => this.runner.insert(table, columns, rows, limit));
  }

  /**
   * Streams rows through a portal (a cursor), which lasts until its transaction ends. If no transaction is
   * open, begins one, and ends it after the last row.
   */
  async *stream(sql: string, params: Params, limit: Limit | undefined): RowBatches {
    const isOurs = !this.isInTransaction;
    if (isOurs) await this.begin(READ_WRITE, limit);
    const transaction = this.#transactions;
    const name = `svc_p${++this.#portals}`;
    const portal: Portal = { name, maxRows: BATCH_ROWS, ownsTransaction: isOurs };
    let hasFailed = true;
    let isOpen = false;
    const timing = this.runner.timing?.batches(sql) ?? UNTIMED;
    try {
      const first = await timing.wait(() => this.runner.run(sql, params, limit, 'objects', asItIs, portal));
      isOpen = true;
      const more = (): Promise<Exchange> => this.runner.more(name, first, BATCH_ROWS, limit);
      for (let exchange = first; ; exchange = await timing.wait(more)) {
        hasFailed = false;
        if (exchange.rows.length > 0) yield exchange.rows as Row[];
        hasFailed = true;
        if (!exchange.isSuspended) break;
        checkLimit(limit, this.#options.clock, sql);
      }
      hasFailed = false;
    } finally {
      timing.end();
      if (!this.isBroken && transaction === this.#transactions)
        await this.#endStream(sql, { name, isOpen, isOurs, hasFailed }, limit);
    }
  }

  async script(sql: string, limit: Limit | undefined): Promise<void> {
    for (const text of scriptStatements(sql, 'postgres'))
      await this.timed(text, () => this.runner.simple(text, limit));
    // the script may have changed types, so prepared statements may be outdated
    this.runner.statements.clear();
  }

  async begin(options: BeginOptions, limit: Limit | undefined): Promise<void> {
    const [text] = beginTexts('postgres', options);
    this.#transactions++;
    this.runner.forgetOld();
    await this.runner.simple(text!, limit);
    this.#beginText = text!;
    this.#askedAtBegin = this.conversation.asked;
    this.isReadOnly = options.isReadOnly;
    this.hasBegun = true;
  }

  async rollback(limit?: Limit): Promise<void> {
    const isOpen = this.isInTransaction || !this.conversation.isQuiet;
    this.over();
    if (this.isBroken || !isOpen) return;
    await this.runner.simple('rollback', limit);
  }

  async savepoint(name: string, limit?: Limit): Promise<void> {
    await this.runner.simple(`savepoint ${name}`, limit);
  }
  async releaseSavepoint(name: string, limit?: Limit): Promise<void> {
    await this.runner.simple(`release savepoint ${name}`, limit);
  }

  async rollbackTo(name: string, limit?: Limit): Promise<void> {
    // no request is pending, so the last reported transaction status is up to date
    if (this.isBroken || !this.isInTransaction) return;
    await this.runner.simple(`rollback to savepoint ${name}`, limit);
    await this.runner.simple(`release savepoint ${name}`, limit);
  }

  async reset(): Promise<void> {
    await this.rollback();
    await this.runner.simple('discard all', undefined);
    this.runner.statements.reset();
  }

  protected async sendCommit(limit: Limit | undefined): Promise<void> {
    const { tag } = await this.runner.simple('commit', limit);
    if (tag === 'ROLLBACK')
      throw new TransactionAborted('PostgreSQL has rolled the transaction back after an earlier error', {
        sql: 'commit',
      });
  }

  protected sendPing(limit: Limit | undefined): Promise<unknown> {
    return this.runner.simple('', limit);
  }

  protected endedError(sql: string): TransactionAborted {
    return new TransactionAborted(
      'The transaction had already ended before its COMMIT, for example because a statement ran COMMIT or ROLLBACK',
      { sqlstate: '25P01', sql },
    );
  }

  protected override over(): void {
    super.over();
    this.#transactions++;
  }

  async #endStream(
    sql: string,
    { name, isOpen, isOurs, hasFailed }: StreamState,
    limit: Limit | undefined,
  ): Promise<void> {
    const ending = endingLimit(limit, 0, this.#options.clock);
    if (!isOurs) {
      if (isOpen && this.conversation.status === 'T') await this.runner.closePortal(name, ending);
    } else if (hasFailed || this.conversation.status === 'E') await this.rollback(ending);
    else await this.commitWork(ending, onlyReads(sql));
  }

  /** Begins a failed transaction again, if only the last `own` requests ran in it. */
  async #beginAnew(own: number, limit: Limit | undefined): Promise<boolean> {
    if (!this.hasBegun || this.conversation.asked !== this.#askedAtBegin + own) return false;
    await this.runner.simple(`rollback; ${this.#beginText}`, endingLimit(limit, 0, this.#options.clock));
    return this.conversation.status === 'T';
  }

  #onParameter(name: string): void {
    if (name === 'search_path') this.runner.statements.clear();
    else if (name === 'in_hot_standby' || name === 'default_transaction_read_only') {
      const { parameters } = this.conversation;
      const { mustWrite, mustBePrimary = mustWrite } = this.#options;
      this.isUnfit =
        (mustBePrimary && parameters.get('in_hot_standby') === 'on') ||
        (mustWrite && parameters.get('default_transaction_read_only') === 'on');
    }
  }
}

interface StreamState {
  readonly name: string;
  readonly isOpen: boolean;
  /** Whether the transaction was begun for the stream. */
  readonly isOurs: boolean;
  readonly hasFailed: boolean;
}

/** Returns whether a statement only reads, apart from functions that it calls. */
function onlyReads(sql: string): boolean {
  const { kind } = scanned(sql, 'postgres');
  return kind === 'select' || (kind === 'with' && !MAY_WRITE.test(sql));
}

function asItIs(exchange: Exchange): Exchange {
  return exchange;
}
