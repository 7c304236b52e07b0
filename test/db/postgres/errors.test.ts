import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CheckViolation,
  ConnectionLost,
  ConstraintViolation,
  Corrupt,
  DataError,
  DatabaseError,
  Deadlock,
  DiskFull,
  ExclusionViolation,
  ForeignKeyViolation,
  LockTimeout,
  NotNullViolation,
  QueryCanceled,
  ReadOnly,
  SerializationFailure,
  StatementError,
  StorageFailed,
  TransactionAborted,
  UniqueViolation,
} from '../../../src/db/index.ts';
import { isFatal, isOfChangedSchema, isStalePlan, postgresError } from '../../../src/db/postgres/errors.ts';
import { readErrorFields, type ErrorFields } from '../../../src/db/postgres/messages.ts';
import { failure } from '../../support/postgres-bytes.ts';

function fields(letters: Readonly<Record<string, string>>): ErrorFields {
  const bytes = failure({ S: 'ERROR', M: 'no', ...letters });
  return readErrorFields(bytes, 5, bytes.length);
}

for (const [sqlstate, Class, isRetryable] of [
  ['23505', UniqueViolation, false],
  ['23503', ForeignKeyViolation, false],
  ['23502', NotNullViolation, false],
  ['23514', CheckViolation, false],
  ['44000', CheckViolation, false],
  ['23001', ForeignKeyViolation, false],
  ['23P01', ExclusionViolation, false],
  ['23000', ConstraintViolation, false],
  ['22P02', DataError, false],
  ['22001', DataError, false],
  ['22003', DataError, false],
  ['22012', DataError, false],
  ['42601', StatementError, false],
  ['42P01', StatementError, false],
  ['42501', StatementError, false],
  ['0A000', StatementError, false],
  ['26000', StatementError, false],
  ['40001', SerializationFailure, true],
  ['40P01', Deadlock, true],
  ['55P03', LockTimeout, true],
  ['57014', QueryCanceled, false],
  ['25006', ReadOnly, false],
  ['25P02', TransactionAborted, false],
  ['53100', DiskFull, false],
  ['53300', DatabaseError, false],
  ['58030', StorageFailed, false],
  ['XX001', Corrupt, false],
  ['XX000', DatabaseError, false],
  ['08006', ConnectionLost, false],
  ['57P01', ConnectionLost, false],
  ['57P03', ConnectionLost, false],
  ['25P03', ConnectionLost, false],
  ['28P01', DatabaseError, false],
  ['P0001', DatabaseError, false],
  ['ZZZZZ', DatabaseError, false],
  ['', DatabaseError, false],
] as const) {
  test(`a PostgreSQL error with SQLSTATE "${sqlstate}" is an instance of ${Class.name}`, () => {
    const error = postgresError(fields({ C: sqlstate }), 'select 1');
    assert.deepEqual(
      [error.constructor, error.sqlstate, error.sql, error.isRetryable],
      [Class, sqlstate, 'select 1', isRetryable],
    );
  });
}

for (const [sqlstate, message, shown] of [
  ['22P02', 'invalid input syntax for type integer: "secret"', 'invalid input syntax for type integer: "…"'],
  ['22P02', 'invalid input value for enum mood: "sec"ret"', 'invalid input value for enum mood: "…"'],
  ['22003', 'value "secret" is out of range for type integer', 'value "…" is out of range for type integer'],
  ['22008', 'date/time field value out of range: "secret"', 'date/time field value out of range: "…"'],
  [
    '22021',
    'invalid byte sequence for encoding "UTF8": 0x73 0x65',
    'invalid byte sequence for encoding "UTF8": 0x…',
  ],
  ['22012', 'division by zero', 'division by zero'],
  [
    '23505',
    'duplicate key value violates unique constraint "a_key"',
    'duplicate key value violates unique constraint "a_key"',
  ],
  ['42703', 'column "a" does not exist', 'column "a" does not exist'],
  ['42P01', 'relation does not exist: "note"', 'relation does not exist: "note"'],
] as const) {
  test(`the message of a PostgreSQL error with SQLSTATE ${sqlstate} describes the problem, but does not contain the value: ${shown}`, () =>
    assert.equal(postgresError(fields({ C: sqlstate, M: message }), undefined).message, shown));
}

for (const [sqlstate, message, shown] of [
  [
    '22003',
    '"secret" is out of range for type double precision',
    '"…" is out of range for type double precision',
  ],
  ['22023', 'time zone "sec"ret" not recognized', 'time zone "…" not recognized'],
  ['42883', 'function "secret" does not exist', 'function "…" does not exist'],
  ['42601', 'syntax error in tsquery: "secret"', 'syntax error in tsquery: "…"'],
  ['42704', 'unrecognized configuration parameter "secret"', 'unrecognized configuration parameter "…"'],
  [
    '58P01',
    'could not open file "/secret" for reading: No such file or directory',
    'could not open file "…" for reading: No such file or directory',
  ],
  ['42P01', 'relation "note" does not exist', 'relation "note" does not exist'],
  ['42703', 'column "x" of relation "secret" does not exist', 'column "x" of relation "…" does not exist'],
  [
    '23505',
    'duplicate key value violates unique constraint "a_key"',
    'duplicate key value violates unique constraint "a_key"',
  ],
] as const) {
  test(`the message of a PostgreSQL error with SQLSTATE ${sqlstate} may quote words of the statement, but no value: ${shown}`, () =>
    assert.equal(
      postgresError(fields({ C: sqlstate, M: message }), 'select x from note where a = $1').message,
      shown,
    ));
}

for (const [what, letters, columns] of [
  ['contains the column that is NULL', { C: '23502', c: 'a', D: 'Failing row contains (1, secret).' }, ['a']],
  [
    'contains the columns of the violated key',
    { C: '23505', D: 'Key (a, "B c")=(1, secret) already exists.' },
    ['a', 'B c'],
  ],
  [
    'contains the columns of the violated reference',
    { C: '23503', D: 'Key (parent)=(7) is not present in table "parent".' },
    ['parent'],
  ],
  [
    'is empty for a row that is still referenced, even if the message of the server is not in English',
    {
      C: '23503',
      M: 'Aktualisieren oder Löschen in Tabelle „owner“ verletzt Fremdschlüssel-Constraint „note_owner“ von Tabelle „note“',
      D: 'Auf Schlüssel (id)=(1) wird noch aus Tabelle „note“ verwiesen.',
    },
    [],
  ],
  [
    'is empty for an index over an expression',
    { C: '23505', D: 'Key (lower(a))=(secret) already exists.' },
    [],
  ],
  ['is empty when the server reports no column', { C: '23514' }, []],
  ['is empty for an error that is not a violated constraint', { C: '42601', D: 'Key (a)=(1)' }, []],
] as const) {
  test(`the property "columns" of a PostgreSQL error ${what}`, () =>
    assert.deepEqual(postgresError(fields(letters), undefined).columns, columns));
}

test('isStalePlan() is true for an error about a dropped catalog object, unless a function raised the error', () => {
  const stale = (letters: Record<string, string>): boolean =>
    isStalePlan(postgresError(fields(letters), undefined));
  for (const [M, C = 'XX000'] of [
    ['cache lookup failed for type 16388'],
    ['cache lookup failed for access method family 16388'],
    ['could not open relation with OID 16388'],
    ['type with OID 16388 does not exist', '42704'],
    ['Typ mit OID 16388 existiert nicht', '42704'],
  ] as const) {
    assert.equal(stale({ C, M }), true, M);
    assert.equal(isOfChangedSchema(postgresError(fields({ C, M }), undefined)), true, M);
    assert.equal(stale({ C, M, R: 'exec_stmt_raise' }), false, M);
  }
  assert.deepEqual(
    [
      stale({ C: 'XX000', M: 'tuple concurrently updated' }),
      stale({ C: '42704', M: 'type "x" does not exist' }),
    ],
    [false, false],
  );
  assert.deepEqual(
    ['0A000', '26000'].map((C) => isOfChangedSchema(postgresError(fields({ C }), undefined))),
    [true, false],
  );
});

test('isStalePlan() is true for errors about outdated query plans, and isFatal() is true for the severities FATAL and PANIC', () => {
  assert.deepEqual(
    ['0A000', '26000', '42P05', '42601'].map((C) => isStalePlan(postgresError(fields({ C }), undefined))),
    [true, true, true, false],
  );
  assert.deepEqual(
    ['RevalidateCachedQuery', 'exec_stmt_raise'].map((R) =>
      isStalePlan(postgresError(fields({ C: '0A000', R }), undefined)),
    ),
    [true, false],
  );
  assert.deepEqual(
    ['ERROR', 'FATAL', 'PANIC'].map((V) => isFatal(fields({ V }))),
    [false, true, true],
  );
});
