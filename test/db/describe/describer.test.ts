/**
 * Errors while a statement is described: an error of the server ends the describer, and one of a statement does not.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../../src/base/errors.ts';
import { DatabaseDescriber, type Description } from '../../../src/db/describe/describer.ts';
import {
  ConnectionLost,
  DataError,
  DatabaseError,
  LockTimeout,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
  StatementError,
} from '../../../src/db/errors.ts';
import { openDatabase } from '../../../src/db/open.ts';
import type { TestContext } from 'node:test';

/** Opens a describer of an empty SQLite database. Its first statement fails with `error`. */
async function failing(t: TestContext, error: unknown): Promise<DatabaseDescriber> {
  const database = await openDatabase('sqlite::memory:');
  const options = { snakeCase: false, hash: '', ownTypes: new Set<string>(), timeoutMs: 0 };
  const describer = await DatabaseDescriber.open(database, options);
  t.after(() => describer[Symbol.asyncDispose]());
  t.mock.method(database, 'run', () => Promise.reject(error as Error), { times: 1 });
  return describer;
}

const summary = (found: Description): readonly unknown[] =>
  found.kind === 'refused'
    ? [found.kind, found.code, found.message, found.hint]
    : [found.kind, found.kind === 'untold' ? found.reason : found.columns.length];

const DETAILS = { sql: 'select 1 as one' };
for (const error of [
  new ConnectionLost('lost', DETAILS),
  new LockTimeout('locked', DETAILS),
  new PoolTimeout('busy'),
  new QueryCanceled('canceled', DETAILS),
  new QueryTimeout('late', DETAILS),
  new SvcError('E_DB_CLOSED', []),
  new RangeError('a bug'),
  'a text',
])
  test(`after the error "${String(error)}", a describer sends no further statement, and each is untold`, async (t) => {
    const describer = await failing(t, error);
    const reason = error instanceof Error ? error.message : 'a text';
    for (let each = 0; each < 3; each++)
      assert.deepEqual(summary(await describer.describeStatement('select 1 as one')), ['untold', reason]);
    if (error instanceof Error) assert.equal(describer.failure, error);
    else assert.equal(describer.failure?.message, reason);
  });

const statement = new SvcError('E_DB_STATEMENT', ['it is empty']);
const count = new SvcError('E_DB_PARAMETER_COUNT', [1, 2, undefined]);
for (const [what, error, expected] of [
  ['a text that svc refuses', statement, ['refused', 'E_DB_STATEMENT', statement.message, undefined]],
  ['a wrong number of values', count, ['refused', 'E_DB_PARAMETER_COUNT', count.message, undefined]],
  [
    'a mistake with a hint',
    new StatementError('nope', { sqlstate: '42703', hint: 'write "n"' }),
    ['refused', '42703', 'nope', 'write "n"'],
  ],
  ['a value', new DataError('nope', { sqlstate: '22003' }), ['refused', '22003', 'nope', undefined]],
  ['a mistake without a code', new DatabaseError('nope', {}), ['refused', 'XX000', 'nope', undefined]],
  ['SQLSTATE 42501', new DatabaseError('denied', { sqlstate: '42501' }), ['untold', 'denied']],
  ...[1044, 1045, 1142, 1143, 1227, 1370, 1410].map(
    (errno) =>
      [
        `error ${errno} of MySQL`,
        new DatabaseError('denied', { sqlstate: '42000', errno }),
        ['untold', 'denied'],
      ] as const,
  ),
] as const)
  test(`after ${what}, a describer describes the next statement`, async (t) => {
    const describer = await failing(t, error);
    assert.deepEqual(summary(await describer.describeStatement('select 1 as one')), expected);
    assert.equal(describer.failure, undefined);
    assert.deepEqual(summary(await describer.describeStatement('select 1 as one')), ['described', 1]);
  });
