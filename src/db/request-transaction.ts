/**
 * One transaction per request, as a dependency. It commits before the response is sent, so a failed commit
 * becomes an error response.
 *
 *   app.post('/transfers', { tx: Depends(transaction) }, async ({ tx }) => { … });
 *   app.get('/totals', { tx: Depends(transaction({ isolation: 'repeatable read', readOnly: true })) }, …);
 *
 * When the handler returns, the transaction commits, whatever the status of the response. When the handler
 * throws, even an HTTPException, the transaction rolls back.
 */
import { SvcError } from '../base/errors.ts';
import { bool, int, oneOf, readOptions, text } from '../base/options.ts';
import { withScope } from '../http/state.ts';
import { MAX_TIMEOUT_MS } from './limits.ts';
import { DEFAULT_NAME, database } from './plugin.ts';
import type { Context } from '../http/contracts.ts';
import type { Isolation } from './driver.ts';
import type { Transaction, TransactionOptions } from './transaction.ts';

/** Options of the transaction of a request. */
export interface RequestTransactionOptions {
  /** Minimum isolation level. Default: the default level of the engine. SQLite is always serializable. */
  readonly isolation?: Isolation | undefined;
  /**
   * Whether the transaction refuses writes. Then SQLite reads without waiting for the writing connection.
   * Default false.
   */
  readonly readOnly?: boolean | undefined;
  /**
   * Time limit in milliseconds for the wait for a connection, for each statement, and for the commit or
   * rollback, 1 ... 2_147_483_647. The default 0 means no limit.
   */
  readonly timeoutMs?: number | undefined;
  /** Name of the plugin whose database is used. Default: the plugin that has no name of its own. */
  readonly database?: string | undefined;
}

/** Function for `Depends()` that provides a transaction. */
export type TransactionSource = (context: Context) => AsyncGenerator<Transaction, void, undefined>;

/** Functions by their options, so that equal options share one transaction in a request. */
const sources = new Map<string, TransactionSource>();

/**
 * Gives a request a transaction: `Depends(transaction)`, or `Depends(transaction({ … }))` with options. The
 * handler and all dependencies of a request that use equal options share one transaction. It begins after all
 * dependencies that do not use it have run. In the handler and in functions that need the transaction,
 * statements on the database itself are refused with `E_DB_NESTED`.
 *
 * The transaction ends before the response is sent, because its scope is `handler`. Dependencies that use the
 * transaction end then, too. A streamed body cannot use the transaction.
 *
 * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value
 */
export function transaction(options: RequestTransactionOptions): TransactionSource;
export function transaction(context: Context): AsyncGenerator<Transaction, void, undefined>;
export function transaction(
  given: RequestTransactionOptions | Context,
): TransactionSource | AsyncGenerator<Transaction, void, undefined> {
  return 'req' in given ? sourceOf({})(given) : sourceOf(given);
}
withScope(transaction, 'handler', inside);

function sourceOf(given: RequestTransactionOptions): TransactionSource {
  const {
    database: name,
    isolation,
    readOnly,
    timeoutMs,
  } = readOptions('transaction', given, {
    isolation: oneOf<Isolation | ''>(['read committed', 'repeatable read', 'serializable'], ''),
    readOnly: bool(false),
    timeoutMs: int(0, 0, MAX_TIMEOUT_MS),
    database: text(DEFAULT_NAME),
  });
  const key = JSON.stringify([name, isolation, readOnly, timeoutMs]);
  let source = sources.get(key);
  if (source === undefined) {
    const options = { isolation: isolation === '' ? undefined : isolation, readOnly, timeoutMs };
    source = withScope((context) => transactionOf(context, name, options), 'handler', inside);
    Object.defineProperty(source, 'name', { value: 'transaction' });
    sources.set(key, source);
  }
  return source;
}

/** Calls a handler or dependency so that statements on the database itself are refused inside it. */
function inside(tx: unknown, work: () => unknown): unknown {
  // the cast is safe: this function is passed to withScope() only for dependencies that provide a transaction
  return (tx as Transaction).surround(work);
}

async function* transactionOf(
  context: Context,
  name: string,
  options: TransactionOptions,
): AsyncGenerator<Transaction, void, undefined> {
  const left = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<Transaction>();
  const running = context.state.get(database(name)).transaction((tx) => {
    begun.resolve(tx);
    return left.promise;
  }, options);
  // rejects `begun` if the transaction cannot begin; `await running` below throws an error of its commit
  running.catch(begun.reject);
  const tx = await begun.promise;
  try {
    yield tx;
    left.resolve();
  } catch (error) {
    left.reject(error);
  } finally {
    left.reject(new SvcError('E_DB_OVER', [])); // rolls back if the handler has neither returned nor thrown
  }
  await running;
}
