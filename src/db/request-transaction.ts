/**
 * One transaction per request, as a dependency. It commits before the response is sent, so a failed commit
 * becomes an error response.
 *   app.post('/transfers', { tx: Depends(transaction) }, async ({ tx }) => { … });
 *   app.get('/totals', { tx: Depends(transaction({ isolation: 'repeatable read', readOnly: true })) }, …);
 *
 * The transaction commits when the handler returns, with any status of the response. It rolls back when the
 * handler throws, even an HTTPException.
 */
import { SvcError } from '../base/errors.ts';
import { bool, int, oneOf, readOptions, text } from '../base/options.ts';
import { withSurround } from '../http/state.ts';
import { MAX_TIMEOUT_MS } from './limits.ts';
import { DEFAULT_NAME, database } from './plugin.ts';
import type { Context } from '../http/contracts.ts';
import type { Isolation } from './driver.ts';
import { LEVELS, type Transaction, type TransactionOptions } from './transaction.ts';

/** Options of {@link transaction}. */
export interface RequestTransactionOptions {
  /**
   * Minimum isolation level: `read committed`, `repeatable read` or `serializable`. Default: the default level of
   * the engine. SQLite is always serializable.
   */
  readonly isolation?: Isolation | undefined;
  /**
   * Whether the transaction refuses writes. In SQLite, it then does not wait for the connection that writes.
   * Default false.
   */
  readonly readOnly?: boolean | undefined;
  /**
   * Time limit in milliseconds for the wait for a connection, for each statement, and for the handler, 1 ...
   * 2_147_483_647. At the limit, the transaction is rolled back. 0 means no limit. Default 0.
   */
  readonly timeoutMs?: number | undefined;
  /** Name of the `DatabasePlugin` whose database is used. Default: the plugin without a name of its own. */
  readonly database?: string | undefined;
}

/** Function for `Depends()` that provides a transaction. */
export type TransactionSource = (context: Context) => AsyncGenerator<Transaction, void, undefined>;

/**
 * Functions that transaction() has returned, by their options. Equal options get one function, and so share
 * one transaction per request.
 */
const sources = new Map<string, TransactionSource>();

/**
 * Dependency that gives a request a transaction: `Depends(transaction)`, or `Depends(transaction({ … }))`
 * with options. The handler and all dependencies with equal options share one transaction per request.
 *
 * The transaction begins after all dependencies that do not use it have run. Inside the handler, and inside
 * dependencies that use the transaction, a statement on the database itself throws `E_DB_NESTED`.
 *
 * The transaction ends before the response is sent, together with the dependencies that use it. So a streamed
 * body cannot use it.
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
withSurround(transaction, inside);

function sourceOf(given: RequestTransactionOptions): TransactionSource {
  const {
    database: name,
    isolation,
    readOnly,
    timeoutMs,
  } = readOptions('transaction', given, {
    isolation: oneOf<Isolation | ''>(LEVELS, ''),
    readOnly: bool(false),
    timeoutMs: int(0, 0, MAX_TIMEOUT_MS),
    database: text(DEFAULT_NAME),
  });
  const key = JSON.stringify([name, isolation, readOnly, timeoutMs]);
  let source = sources.get(key);
  if (source === undefined) {
    const options = { isolation: isolation === '' ? undefined : isolation, readOnly, timeoutMs };
    source = withSurround((context) => transactionOf(context, name, options), inside);
    Object.defineProperty(source, 'name', { value: 'transaction' });
    sources.set(key, source);
  }
  return source;
}

/**
 * Runs a handler or dependency inside the transaction, so that statements on the database itself are refused.
 */
function inside(tx: unknown, work: () => unknown): unknown {
  // `tx` is the value of a dependency that transaction() has made
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
  // rejects `begun` if the transaction cannot begin; an error of its commit is thrown by `await running`
  // below
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
