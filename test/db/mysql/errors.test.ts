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
  ForeignKeyViolation,
  LockTimeout,
  NotNullViolation,
  QueryCanceled,
  QueryTimeout,
  ReadOnly,
  SerializationFailure,
  StatementError,
  StorageFailed,
  UniqueViolation,
} from '../../../src/db/errors.ts';
import {
  isFatal,
  isOfReadingServer,
  isOutOfStatements,
  isStaleStatement,
  isUnpreparable,
  mysqlError,
} from '../../../src/db/mysql/errors.ts';

const INSERT = 'insert into note (id, owner, title) values (?, ?, ?)';

for (const [server, errno, message, sql, expected] of [
  [
    'MySQL',
    1062,
    "Duplicate entry '1-sec'ret' for key 'note.note_title'",
    INSERT,
    ['unique', 'note', 'note_title', []],
  ],
  [
    'MariaDB',
    1062,
    "Duplicate entry '1-secret' for key 'note_title'",
    INSERT,
    ['unique', 'note', 'note_title', []],
  ],
  [
    'MariaDB',
    1062,
    "Duplicate entry 'secret' for key 'PRIMARY'",
    'call add_note(?)',
    ['unique', undefined, 'PRIMARY', []],
  ],
  [
    'MySQL',
    1452,
    'Cannot add or update a child row: a foreign key constraint fails (`shop`.`note`, CONSTRAINT `note_owner` FOREIGN KEY (`owner`, `kind`) REFERENCES `owner` (`id`, `kind`))',
    INSERT,
    ['foreign_key', 'note', 'note_owner', ['owner', 'kind']],
  ],
  [
    'MySQL',
    1451,
    'Cannot delete or update a parent row: a foreign key constraint fails (`shop`.`note`, CONSTRAINT `note_owner` FOREIGN KEY (`owner`) REFERENCES `owner` (`id`))',
    'delete from owner',
    ['foreign_key', 'note', 'note_owner', ['owner']],
  ],
  ['MySQL', 3819, "Check constraint 'note_stars' is violated.", INSERT, ['check', 'note', 'note_stars', []]],
  [
    'MariaDB',
    4025,
    'CONSTRAINT `note_stars` failed for `shop`.`note`',
    'update `shop`.`note` set stars = ?',
    ['check', 'note', 'note_stars', []],
  ],
  ['MySQL', 1048, "Column 'title' cannot be null", INSERT, ['not_null', 'note', undefined, ['title']]],
  [
    'MySQL',
    1586,
    "Duplicate entry '1-secret' for key 'note.note_title'",
    INSERT,
    ['unique', 'note', 'note_title', []],
  ],
  [
    'MySQL',
    1263,
    "Column set to default value; NULL supplied to NOT NULL column 'title' at row 1",
    INSERT,
    ['not_null', 'note', undefined, ['title']],
  ],
  [
    'MySQL, with a message in another language',
    1048,
    'title darf nicht NULL sein',
    INSERT,
    ['not_null', 'note', undefined, []],
  ],
  [
    'MariaDB, by a procedure',
    4025,
    'CONSTRAINT `note_stars` failed for `shop`.`note`',
    'call change()',
    ['check', 'note', 'note_stars', []],
  ],
  [
    'MariaDB, with a message in another language',
    4025,
    'note_stars',
    'update note set stars = ?',
    ['check', 'note', undefined, []],
  ],
  [
    'MySQL without the names',
    1216,
    'a foreign key constraint fails',
    INSERT,
    ['foreign_key', undefined, undefined, []],
  ],
  [
    'MySQL without the names',
    1217,
    'a foreign key constraint fails',
    INSERT,
    ['foreign_key', undefined, undefined, []],
  ],
  [
    'MySQL',
    1364,
    "Field 'title' doesn't have a default value",
    'INSERT IGNORE INTO shop.`no``te` (id) values (?)',
    ['not_null', 'no`te', undefined, ['title']],
  ],
] as const)
  test(`error ${errno} of ${server} becomes a ConstraintViolation of kind "${expected[0]}": ${message.slice(0, 60)}`, () => {
    const error = mysqlError({ errno, sqlstate: '23000', message }, sql);
    assert.ok(error instanceof ConstraintViolation);
    const { kind, table, constraint, columns } = error;
    assert.deepEqual([kind, table, constraint, columns], expected);
    assert.doesNotMatch(error.message, /sec/);
  });

// messages of the error references of MySQL and MariaDB
for (const [errno, message, shown] of [
  [1062, "Duplicate entry '1-sec'ret' for key 'note.a'", "Duplicate entry '…' for key 'note.a'"],
  [1586, "Duplicate entry 'sec'ret' for key 'note.a'", "Duplicate entry '…' for key 'note.a'"],
  [
    1761,
    "record 'sec'ret' would lead to a duplicate entry in table 'note', key 'a'",
    "record '…' would lead to a duplicate entry in table 'note', key 'a'",
  ],
  [
    1762,
    "record 'sec'ret' would lead to a duplicate entry in a child table",
    "record '…' would lead to a duplicate entry in a child table",
  ],
  [
    1231,
    "Variable 'sql_mode' can't be set to the value of 'sec'ret'",
    "Variable 'sql_mode' can't be set to the value of '…'",
  ],
  [1526, 'Table has no partition for value sec', 'Table has no partition for value …'],
  [1292, "Truncated incorrect DOUBLE value: 'sec'ret'", "Truncated incorrect DOUBLE value: '…'"],
  [
    1366,
    "Incorrect integer value: 'secret' for column at row 1",
    "Incorrect integer value: '…' for column at row 1",
  ],
  [
    1411,
    "Incorrect datetime value: 'secret' for function str_to_date",
    "Incorrect datetime value: '…' for function str_to_date",
  ],
  [
    3141,
    'Invalid JSON text in argument 1 to function json_extract: "secret" at position 0',
    'Invalid JSON text in argument 1 to function json_extract: "…" at position 0',
  ],
  [1264, "Out of range value for column 'a' at row 1", "Out of range value for column 'a' at row 1"],
  [1406, "Data too long for column 'a' at row 1", "Data too long for column 'a' at row 1"],
  [1048, "Column 'a' cannot be null", "Column 'a' cannot be null"],
  [1054, "Unknown column 'a' in 'field list'", "Unknown column 'a' in 'field list'"],
  [1146, "Table 'shop.note' doesn't exist", "Table 'shop.note' doesn't exist"],
] as const)
  test(`the message of error ${errno} of MySQL describes the problem, but does not contain the value: ${shown}`, () => {
    assert.equal(mysqlError({ errno, sqlstate: 'HY000', message }, 'select a from note').message, shown);
  });

test('the message of an error of MySQL that quotes a name keeps only a name of the statement', () => {
  for (const [errno, before, after] of [
    [1059, 'Identifier name ', ' is too long'],
    [1105, 'XPATH syntax error: ', ''],
    [1115, 'Unknown character set: ', ''],
    [1273, 'Unknown collation: ', ''],
    [1286, 'Unknown storage engine ', ''],
    [1298, 'Unknown or incorrect time zone: ', ''],
    [1300, 'Invalid utf8mb4 character string: ', ''],
    [1649, 'Unknown locale: ', ''],
    [1690, 'DOUBLE value is out of range in ', ''],
    [3854, 'Cannot convert string ', ' from binary to utf8mb4'],
    [4163, 'The value ', ' cannot be used'],
  ] as const) {
    const shown = (name: string, sql: string | undefined): string =>
      mysqlError({ errno, sqlstate: 'HY000', message: `${before}'${name}'${after}` }, sql).message;
    const sql = "select convert_tz(a, 'Mars/Base', ?) from note";
    assert.deepEqual(
      [shown('Mars/Base', sql), shown("sec'ret", sql), shown('Mars/Base', undefined)],
      ['Mars/Base', '…', '…'].map((name) => `${before}'${name}'${after}`),
      String(errno),
    );
  }
});

/** Error numbers by the class of the error, and its SQLSTATE where that of MySQL is too general. */
const CLASSES: readonly (readonly [
  Class: new (...args: never[]) => DatabaseError,
  state: string | undefined,
  errnos: readonly number[],
])[] = [
  [UniqueViolation, '23505', [1022, 1062, 1169, 1586, 1859]],
  [ForeignKeyViolation, '23503', [1216, 1217, 1451, 1452, 1761, 1762]],
  [NotNullViolation, '23502', [1048, 1263, 1364, 1566]],
  [CheckViolation, '23514', [3819, 4025]],
  [Deadlock, '40001', [1213, 1614, 3101]],
  [SerializationFailure, '40001', [1020]],
  [LockTimeout, '55P03', [1205, 3572, 3058]],
  [ReadOnly, '25006', [1290, 1792, 1836, 3100]],
  [QueryCanceled, '57014', [1317]],
  [QueryTimeout, '57014', [1969, 3024]],
  [DatabaseError, '53300', [1040, 1203, 1226, 3032]],
  [DatabaseError, '28000', [1129, 1820, 1862]],
  [
    ConnectionLost,
    '08006',
    [1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 4031],
  ],
  [DataError, '54000', [1153, 1301]],
  [DatabaseError, '53200', [1461, 1037, 1038, 1041]],
  [DiskFull, '53100', [1021, 1114, 1030]],
  [StorageFailed, '58030', [1016, 1024, 1026, 1296]],
  [Corrupt, 'XX001', [1034, 1035, 1194, 1195, 1712]],
  [
    DataError,
    undefined,
    [1264, 1265, 1292, 1366, 1367, 1406, 1411, 1416, 1441, 1525, 1690, 3140, 3141, 3143, 3156, 3988, 4078],
  ],
  [StatementError, undefined, [1046, 1049, 1054, 1064, 1065, 1146, 1149, 1210, 1227, 1295, 1305, 1318]],
];

test('each error number of MySQL and MariaDB has the class and the SQLSTATE of the same error on PostgreSQL', () => {
  for (const [Class, state, errnos] of CLASSES)
    for (const errno of errnos) {
      const error = mysqlError({ errno, sqlstate: 'HY000', message: 'failed' }, undefined);
      assert.deepEqual(
        [error.constructor, error.sqlstate, error.errno],
        [Class, state ?? 'HY000', errno],
        String(errno),
      );
    }
});

test('an unknown error of MySQL has the class of its SQLSTATE', () => {
  for (const [sqlstate, Class] of [
    ['08S01', ConnectionLost],
    ['0A000', StatementError],
    ['21S01', StatementError],
    ['22001', DataError],
    ['23000', ConstraintViolation],
    ['34000', StatementError],
    ['3D000', StatementError],
    ['42000', StatementError],
    ['70100', QueryCanceled],
    ['HY000', DatabaseError],
    ['', DatabaseError],
  ] as const) {
    const error = mysqlError({ errno: 9_999, sqlstate, message: 'failed' }, undefined);
    assert.deepEqual([error.constructor, error.sqlstate], [Class, sqlstate || undefined], sqlstate);
  }
});

test('the errors that end a connection, a prepared statement or a server are recognised by their numbers', () => {
  const errnos = new Set([...CLASSES.flatMap(([, , each]) => each), 1243, 1615]);
  const recognised = (is: (error: DatabaseError) => boolean, sql?: string): number[] =>
    [...errnos]
      .filter((errno) => is(mysqlError({ errno, sqlstate: 'HY000', message: 'failed' }, sql)))
      .sort((a, b) => a - b);
  assert.deepEqual(
    recognised(isFatal),
    [1053, 1079, 1080, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 4031],
  );
  assert.deepEqual(recognised(isUnpreparable), [1295]);
  assert.deepEqual(recognised(isOutOfStatements), [1461]);
  assert.deepEqual(recognised(isOfReadingServer), [1290, 1836]);
  assert.deepEqual(recognised(isStaleStatement, 'call change()'), [1243, 1615]);
  for (const word of ['insert', 'REPLACE', ' update', 'delete', 'select', 'with'])
    assert.deepEqual(recognised(isStaleStatement, `${word} x`), [1243, 1615, 3988]);
  assert.deepEqual(recognised(isStaleStatement), [1243, 1615]);
});

// quadratic work would take minutes
for (const part of [
  "entry '",
  "record '",
  "value of '",
  "value '",
  "for key '",
  '`',
  '`a`, CONSTRAINT `b` FOREIGN KEY (',
  "'",
  'value ',
])
  test(`the message of a MySQL error is read in linear time, even if it is filled with ${part}`, () => {
    const message = `no ${part.repeat(400_000 / part.length)}`;
    for (const errno of [1048, 1059, 1062, 1231, 1366, 1452, 1526, 1761, 3819, 4025]) {
      const error = mysqlError({ errno, sqlstate: '23000', message }, INSERT);
      assert.match(error.message, /^no /);
      assert.equal(error.constraint, undefined);
    }
  });

test('the message of a MySQL error contains no value between the first and the last mark of the value', () => {
  for (const [errno, message, shown] of [
    [1062, "Duplicate entry 'a' for key b' for key 'c'", "Duplicate entry '…' for key 'c'"],
    [1062, "' for key 'c', Duplicate entry 'a", "' for key 'c', Duplicate entry 'a"],
    [1062, "' for key 'c'", "' for key 'c'"],
    [1062, "Duplicate entry '' for key 'c'", "Duplicate entry '…' for key 'c'"],
    [1761, "record 'a' would lead 'b' would lead to", "record '…' would lead to"],
  ] as const)
    assert.equal(mysqlError({ errno, sqlstate: '23000', message }, INSERT).message, shown);
});
