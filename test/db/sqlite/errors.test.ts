/** Result codes of SQLite: the class, the SQLSTATE and the place of each error. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as errors from '../../../src/db/errors.ts';
import { isBusy, isSqliteError, sqliteError } from '../../../src/db/sqlite/errors.ts';

function failure(errcode: number, message = 'no'): Error & { errcode: number } {
  return Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode });
}

for (const [errcode, Class, sqlstate] of [
  [1, errors.StatementError, '42000'],
  [257, errors.StatementError, '42000'],
  [2, errors.DatabaseError, 'XX000'],
  [5, errors.LockTimeout, '55P03'],
  [261, errors.LockTimeout, '55P03'],
  [517, errors.SerializationFailure, '40001'],
  [6, errors.LockTimeout, '55P03'],
  [7, errors.DatabaseError, '53200'],
  [8, errors.ReadOnly, '25006'],
  [1032, errors.ReadOnly, '25006'],
  [9, errors.QueryCanceled, '57014'],
  [10, errors.StorageFailed, '58030'],
  [266, errors.StorageFailed, '58030'],
  [11, errors.Corrupt, 'XX001'],
  [267, errors.Corrupt, 'XX001'],
  [13, errors.DiskFull, '53100'],
  [14, errors.StorageFailed, '58030'],
  [18, errors.DataError, '22001'],
  [19, errors.ConstraintViolation, '23000'],
  [531, errors.ConstraintViolation, '23000'],
  [275, errors.CheckViolation, '23514'],
  [787, errors.ForeignKeyViolation, '23503'],
  [1299, errors.NotNullViolation, '23502'],
  [1555, errors.UniqueViolation, '23505'],
  [2067, errors.UniqueViolation, '23505'],
  [2579, errors.UniqueViolation, '23505'],
  [3091, errors.DataError, '22000'],
  [20, errors.DataError, '22000'],
  [23, errors.StatementError, '42501'],
  [25, errors.StatementError, '42000'],
  [26, errors.Corrupt, 'XX001'],
  [99, errors.DatabaseError, 'XX000'],
] as const)
  test(`sqliteError() returns a ${Class.name} with the SQLSTATE ${sqlstate} for the result code ${errcode}`, () => {
    const error = sqliteError(failure(errcode, 'it failed'), 'select 1') as errors.DatabaseError;
    assert.equal(error.constructor, Class);
    assert.deepEqual(
      [error.message, error.sqlstate, error.errno, error.sql],
      ['it failed', sqlstate, errcode, 'select 1'],
    );
  });

test('isBusy() returns true only for a lock that a retry of the statement may get', () => {
  for (const [errcode, expected] of [
    [5, true],
    [261, true], // SQLITE_BUSY_RECOVERY
    [773, true], // SQLITE_BUSY_TIMEOUT
    [517, false], // SQLITE_BUSY_SNAPSHOT
    [6, false],
    [1, false],
    [262, false],
  ] as const)
    assert.equal(isBusy(failure(errcode)), expected, String(errcode));
});

test('sqliteError() returns errors that SQLite has not reported unchanged', () => {
  for (const error of [
    new Error('mine'),
    Object.assign(new Error('a'), { code: 'ERR_OUT_OF_RANGE', errcode: 1 }),
    Object.assign(new Error('a'), { code: 'ERR_SQLITE_ERROR', errcode: '1' }),
    { code: 'ERR_SQLITE_ERROR', errcode: 1 },
    undefined,
  ]) {
    assert.equal(isSqliteError(error), false);
    assert.equal(sqliteError(error, undefined), error);
  }
});
