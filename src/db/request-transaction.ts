/**
 * One transaction for a request, as a dependency. It is committed before the response is sent, so that a commit that fails is the response.
 *
 *   app.post('/transfers', { tx: Depends(transaction) }, async ({ tx }) => { … });
 *   app.get('/totals', { tx: Depends(transaction({ isolation: 'repeatable read', readOnly: true })) }, …);
 *
 *   handler returns, whatever the status     commit, then the response
 *   handler throws, also an HTTPException    rollback, then the response of the error
 */
import { SvcError } from '../base/errors.ts';
import { bool, int, oneOf, readOptions, text } from '../base/options.ts';
import { withScope } from '../http/state.ts';
import { MAX_TIMEOUT_MS } from './limits.ts';
import { DEFAULT_NAME, database } from './plugin.ts';
import type { Context } from '../http/contracts.ts';
import type { Isolation } from './driver.ts';
import type { Transaction, TransactionOptions } from './transaction.ts';

/** How the transaction of a request is run. */
export interface RequestTransactionOptions {
  /** At least this; the engine's default is used without it. SQLite is always serializable. */
  readonly isolation?: Isolation | undefined;
  /** Refuses writes, and lets an engine read beside its writers. Default false. */
  readonly readOnly?: boolean | undefined;
  /** Bounds the waiting for a connection, each statement and the end, 1 ... 2_147_483_647; 0, the default, is no limit. */
  readonly timeoutMs?: number | undefined;
  /** The name of the plugin whose database it is. Default: the plugin without a name. */
  readonly database?: string | undefined;
}

/** A source for `Depends()`, which gives the handle of a transaction. */
export type TransactionSource = (context: Context) => AsyncGenerator<Transaction, void, undefined>;

/** Sources by their options: equal options mean one transaction for a request. */
const sources = new Map<string, TransactionSource>();

/**
 * The transaction of a request: `Depends(transaction)`, or `Depends(transaction({ … }))` with options. All dependencies and the handler
 * of a request that ask with equal options share one. Statements on the database itself are not part of it; on SQLite they wait for its end.
 *
 * Its scope is `handler`: a dependency that needs it is left before the response is sent, too. A body that is streamed cannot use it.
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
withScope(transaction, 'handler');

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
    source = withScope((context) => transactionOf(context, name, options), 'handler');
    Object.defineProperty(source, 'name', { value: 'transaction' });
    sources.set(key, source);
  }
  return source;
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
  running.catch(begun.reject); // it could not begin; a failure of its end is awaited below
  const tx = await begun.promise;
  try {
    yield tx;
    left.resolve();
  } catch (error) {
    left.reject(error);
  } finally {
    left.reject(new SvcError('E_DB_OVER', [])); // rolls back where neither of them happened
  }
  await running;
}
