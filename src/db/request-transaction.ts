/**
 * One transaction per request, as a dependency. It commits before the response is sent, so a failed commit
 * becomes an error response.
 *
 *   app.post('/transfers', { tx: Depends(transaction) }, async ({ tx }) => { … });
 *   app.get('/totals', { tx: Depends(transaction({ isolation: 'repeatable read', readOnly: true })) }, …);
 *
 *   handler returns, whatever the status     commit, then the response
 *   handler throws, also an HTTPException    rollback, then the error response
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
  /** Minimum isolation level. Default: the engine's. SQLite is always serializable. */
  readonly isolation?: Isolation | undefined;
  /** Whether writes are refused. SQLite then reads without waiting for its writer. Default false. */
  readonly readOnly?: boolean | undefined;
  /**
   * Time limit for the wait for a connection, each statement, and the end, 1 ... 2_147_483_647. The default 0
   * means no limit.
   */
  readonly timeoutMs?: number | undefined;
  /** Name of the plugin whose database is used. Default: the plugin without a name. */
  readonly database?: string | undefined;
}

/** Source for `Depends()` that gives the handle of a transaction. */
export type TransactionSource = (context: Context) => AsyncGenerator<Transaction, void, undefined>;

/** Sources by their options, so that equal options share one transaction in a request. */
const sources = new Map<string, TransactionSource>();

/**
 * The transaction of a request: `Depends(transaction)`, or `Depends(transaction({ … }))` with options. The
 * handler and all dependencies of a request that use equal options share one transaction. The transaction
 * begins after all dependencies that do not use it. In the handler and in functions that need the
 * transaction, statements on the database itself are refused with `E_DB_NESTED`.
 *
 * Its scope is `handler`, so a dependency that uses it also ends before the response is sent. A streamed body
 * cannot use it.
 *
 * @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
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

/** Calls a handler or dependency, where statements on the database itself are then refused. */
function inside(tx: unknown, work: () => unknown): unknown {
  // only sources of this file use inside(), and their value is a transaction
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
  // the transaction could not begin; `await running` below throws an error of its end
  running.catch(begun.reject);
  const tx = await begun.promise;
  try {
    yield tx;
    left.resolve();
  } catch (error) {
    left.reject(error);
  } finally {
    left.reject(new SvcError('E_DB_OVER', [])); // rolls back when neither resolve nor reject ran
  }
  await running;
}
