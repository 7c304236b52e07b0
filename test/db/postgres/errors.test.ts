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
  QueryTimeout,
  ReadOnly,
  SerializationFailure,
  StatementError,
  StorageFailed,
  TransactionAborted,
  UniqueViolation,
} from '../../../src/db/index.ts';
import {
  isFatal,
  isOfChangedSchema,
  isOfTypes,
  isStalePlan,
  postgresError,
} from '../../../src/db/postgres/errors.ts';
import { readErrorFields, type ErrorFields } from '../../../src/db/postgres/messages.ts';
import { failure } from '../../support/postgres-bytes.ts';

function fields(letters: Readonly<Record<string, string>>): ErrorFields {
  const bytes = failure({ S: 'ERROR', M: 'no', ...letters });
  return readErrorFields(bytes, 5, bytes.length);
}

/**
 * SQLSTATEs of appendix A of the manual of PostgreSQL, by the class of the error. Undefined is DatabaseError,
 * for errors that tell a caller nothing to do.
 */
const STATES: readonly (readonly [Class: typeof DatabaseError | undefined, states: string])[] = [
  [ConnectionLost, '08000 08001 08003 08004 08006 08007 08P01'],
  [StatementError, '0A000'],
  [undefined, '09000 0B000 0F000 0F001 0L000 0LP01 0P000 0Z000 0Z002 20000 21000'],
  [
    DataError,
    '22000 22001 22002 22003 22004 22005 22007 22008 22009 2200B 2200C 2200D 2200F 2200G 2200H 2200L 2200M 2200N ' +
      '2200S 2200T 22010 22011 22012 22013 22014 22015 22016 22018 22019 2201B 2201E 2201F 2201G 2201W 2201X 22021 ' +
      '22022 22023 22024 22025 22026 22027 2202E 2202G 2202H 22030 22031 22032 22033 22034 22035 22036 22037 22038 ' +
      '22039 2203A 2203B 2203C 2203D 2203E 2203F 2203G 22P01 22P02 22P03 22P04 22P05 22P06',
  ],
  [ConstraintViolation, '23000 40002'],
  [ForeignKeyViolation, '23001 23503'],
  [NotNullViolation, '23502'],
  [UniqueViolation, '23505'],
  [CheckViolation, '23514 44000'],
  [ExclusionViolation, '23P01'],
  [undefined, '24000 25000 25001 25002 25003 25004 25005 25007 25008 25P01'],
  [ReadOnly, '25006'],
  [TransactionAborted, '25P02'],
  // the server ends the connection of an idle or long transaction
  [ConnectionLost, '25P03 25P04'],
  [StatementError, '26000'],
  [undefined, '27000 28000 28P01'],
  [StatementError, '2B000 2BP01'],
  [undefined, '2D000 2F000 2F002 2F003 2F004 2F005'],
  [StatementError, '34000'],
  [undefined, '38000 38001 38002 38003 38004 39000 39001 39004 39P01 39P02 39P03'],
  [StatementError, '3B000 3B001'],
  [undefined, '3D000'],
  [StatementError, '3F000'],
  [undefined, '40000 40003'],
  [SerializationFailure, '40001'],
  [Deadlock, '40P01'],
  [
    StatementError,
    '42000 42501 42601 42602 42611 42622 42701 42702 42703 42704 42710 42712 42723 42725 42803 42804 42809 42830 ' +
      '42846 42883 42939 428C9 42P01 42P02 42P03 42P04 42P05 42P06 42P07 42P08 42P09 42P10 42P11 42P12 42P13 42P14 ' +
      '42P15 42P16 42P17 42P18 42P19 42P20 42P21 42P22',
  ],
  [undefined, '53000 53200 53300 53400'],
  [DiskFull, '53100'],
  [StatementError, '54000 54001 54011 54023'],
  [undefined, '55000 55006 55P02 55P04'],
  [LockTimeout, '55P03'],
  [QueryCanceled, '57014'],
  // the server stops, has stopped another process, starts, has dropped the database, or ends an idle session
  [ConnectionLost, '57P01 57P02 57P03 57P04 57P05'],
  [undefined, '57000'],
  [StorageFailed, '58000 58030 58P01 58P02'],
  [undefined, '72000 F0000 F0001 HV000 P0000 P0001 P0002 P0003 P0004 XX000'],
  [Corrupt, 'XX001 XX002'],
  // no SQLSTATE of the server
  [undefined, 'ZZZZZ'],
];

for (const [Class = DatabaseError, states] of STATES)
  test(`PostgreSQL errors with the SQLSTATEs ${states.slice(0, 60)} are instances of ${Class.name}`, () => {
    for (const sqlstate of states.split(' ')) {
      const error = postgresError(fields({ C: sqlstate }), 'select 1');
      assert.deepEqual(
        [error.constructor, error.sqlstate, error.sql, error.isRetryable],
        [Class, sqlstate, 'select 1', ['40001', '40P01', '55P03'].includes(sqlstate)],
        sqlstate,
      );
    }
  });

test('a PostgreSQL error without SQLSTATE is a DatabaseError', () => {
  assert.equal(postgresError(fields({ C: '' }), undefined).constructor, DatabaseError);
});

// messages of PostgreSQL 15 for statement_timeout and for a cancellation
for (const [language, timeout, canceled] of [
  ['English', 'canceling statement due to statement timeout', 'canceling statement due to user request'],
  [
    'German',
    'storniere Anfrage wegen Zeitüberschreitung der Anfrage',
    'storniere Anfrage wegen Benutzeraufforderung',
  ],
  [
    'Spanish',
    'cancelando la sentencia debido a que se agotó el tiempo de espera de sentencias',
    'cancelando la sentencia debido a una petición del usuario',
  ],
  [
    'French',
    "annulation de la requête à cause du délai écoulé pour l'exécution de l'instruction",
    "annulation de la requête à la demande de l'utilisateur",
  ],
  [
    'Italian',
    "annullamento dell'istruzione a causa di timeout",
    "annullamento dell'istruzione su richiesta dell'utente",
  ],
  [
    'Japanese',
    'ステートメントのタイムアウトのためステートメントをキャンセルしています',
    'ユーザーからの要求により文をキャンセルしています',
  ],
  ['Korean', '명령실행시간 초과로 작업을 취소합니다.', '사용자 요청에 의해 작업을 취소합니다.'],
  [
    'Russian',
    'выполнение оператора отменено из-за тайм-аута',
    'выполнение оператора отменено по запросу пользователя',
  ],
  ['Swedish', 'avbryter sats på grund av sats-timeout', 'avbryter sats på användares begäran'],
  [
    'Ukrainian',
    'виконання оператора скасовано через тайм-аут',
    'виконання оператора скасовано по запиту користувача',
  ],
  ['simplified Chinese', '由于语句执行超时，正在取消语句', '由于用户请求，正在取消语句'],
  ['traditional Chinese', '因為陳述式逾時，正在取消陳述式', '因為使用者要求，正在取消陳述式'],
] as const)
  test(`a statement that PostgreSQL canceled is a QueryTimeout after statement_timeout, else QueryCanceled (${language})`, () => {
    const classOf = (C: string, M: string): unknown => postgresError(fields({ C, M }), undefined).constructor;
    assert.deepEqual([classOf('57014', timeout), classOf('57014', canceled)], [QueryTimeout, QueryCanceled]);
    assert.equal(classOf('P0001', timeout), DatabaseError);
  });

test('isOfTypes() is true for errors that a parameter of a wrong type causes', () => {
  const found = STATES.flatMap(([, states]) => states.split(' ')).filter((C) =>
    isOfTypes(postgresError(fields({ C }), undefined)),
  );
  // numeric value, date or time out of range, invalid text, no such operator or function for the types
  assert.deepEqual(found, ['22003', '22007', '22008', '22P02', '42804', '42883']);
  assert.equal(isOfTypes(new DatabaseError('none')), false);
});

test('isStalePlan() is true for 0A000 of RevalidateCachedQuery or of an unknown function, and false for 0A000 of other functions', () => {
  const stale = (C: string, R?: string): boolean =>
    isStalePlan(postgresError(fields(R === undefined ? { C } : { C, R }), undefined));
  for (const [C, R, expected] of [
    ['0A000', undefined, true],
    ['0A000', 'RevalidateCachedQuery', true],
    ['0A000', 'transformLockingClause', false],
    ['26000', 'FetchPreparedStatement', true],
    ['26000', 'exec_stmt_raise', false],
    ['42P05', 'StorePreparedStatement', true],
    ['42601', undefined, false],
  ] as const)
    assert.equal(stale(C, R), expected, `${C} ${R ?? ''}`);
  assert.deepEqual(
    [new DatabaseError('none'), new DatabaseError('none', { sqlstate: '0A000' })].map(isStalePlan),
    [false, true],
  );
});

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

test('the message of a PostgreSQL error keeps the names that the fields of the error contain, and no other name', () => {
  const message = 'the object "kept" is invalid';
  for (const letter of ['c', 't', 'n', 'd', 's'])
    for (const [name, shown] of [
      ['kept', message],
      ['other', 'the object "…" is invalid'],
    ] as const)
      assert.equal(
        postgresError(fields({ C: '42704', M: message, [letter]: name }), 'select 1').message,
        shown,
        letter,
      );
});

test('the message of a PostgreSQL error keeps the names of encodings', () => {
  const shown = (encoding: string): string =>
    postgresError(fields({ C: '22021', M: `invalid bytes for encoding "${encoding}": 0x73` }), 'select 1')
      .message;
  for (const encoding of 'UTF8 LATIN1 LATIN10 WIN1252 SQL_ASCII EUC_JP EUC_CN ISO_8859_5 KOI8R KOI8U'.split(
    ' ',
  ))
    assert.equal(shown(encoding), `invalid bytes for encoding "${encoding}": 0x…`);
  for (const value of ['secret', 'UTF8 secret', 'the UTF8', 'KOI8'])
    assert.equal(shown(value), 'invalid bytes for encoding "…": 0x…');
});

// messages of PostgreSQL 15 for an invalid value, a value out of range, and an unknown time zone
for (const [language, invalid, range, zone] of [
  [
    'German',
    'ungültige Eingabesyntax für Typ integer: »secret«',
    'Wert »secret« ist außerhalb des gültigen Bereichs für Typ integer',
    'Zeitzone »sec«ret« nicht erkannt',
  ],
  [
    'Spanish',
    'la sintaxis de entrada no es válida para tipo integer: «secret»',
    'el valor «secret» está fuera de rango para el tipo integer',
    'el huso horario «sec»ret» no es reconocido',
  ],
  [
    'French',
    'syntaxe en entrée invalide pour le type integer : « secret »',
    'la valeur « secret » est en dehors des limites pour le type integer',
    "le fuseau horaire « sec»ret » n'est pas reconnu",
  ],
  [
    'Japanese',
    '"integer"型の入力構文が不正です: "secret"',
    '値"secret"は型integerの範囲外です',
    'タイムゾーン"sec"ret"は不明です',
  ],
  [
    'Russian',
    'неверный синтаксис для типа integer: "secret"',
    'значение "secret" вне диапазона для типа integer',
    'часовой пояс "sec"ret" не распознан',
  ],
] as const)
  test(`the messages of a PostgreSQL server contain no value (${language})`, () => {
    const sql = 'select $1::integer, a at time zone $2 from note';
    const shown = ([C, M]: readonly [string, string]): string => postgresError(fields({ C, M }), sql).message;
    const messages = (
      [
        ['22P02', invalid],
        ['22003', range],
        ['22023', zone],
      ] as const
    ).map(shown);
    assert.deepEqual(
      messages,
      [invalid, range, zone].map((text) => text.replace(/ ?sec.?ret ?/, '…')),
    );
    const named = [invalid, range].map((text) => text.replace('secret', 'note'));
    assert.deepEqual([shown(['42P01', named[1]!]), shown(['23505', invalid])], [named[1], invalid]);
  });

// quadratic work would take minutes
for (const part of [
  '„',
  ':„',
  '「',
  '«',
  '"',
  ': "',
  "value '",
  'value ',
  '0x',
  ': 0x',
  ': ',
  ' OID 1',
  '"a" ',
  '(',
  '”',
])
  test(`the message of a PostgreSQL error is read in linear time, even if a client fills it with ${part}`, () => {
    const M = `unknown name ${part.repeat(400_000 / part.length)}`;
    for (const C of ['22023', '42704', '23503', '57014', 'XX000'])
      assert.match(postgresError(fields({ C, M, D: M }), 'select f($1)').message, /^unknown name/);
  });

test('the message of a PostgreSQL error without a closing quotation mark is unchanged', () => {
  for (const message of ['unknown name: „a', 'value 「a', '„„a', 'value a'])
    assert.equal(postgresError(fields({ C: '22023', M: message }), 'select f($1)').message, message);
});

test('the message of a PostgreSQL error keeps 16 names of the statement, and what follows the last quotation mark', () => {
  const shown = (count: number): string =>
    postgresError(fields({ C: '22023', M: `no ${'"f" '.repeat(count)}here` }), 'select f($1)').message;
  assert.equal(shown(16), `no ${'"f" '.repeat(16)}here`);
  assert.equal(shown(17), `no ${'"f" '.repeat(16)}"…" here`);
  assert.equal(shown(400), `no ${'"f" '.repeat(16)}"…" here`);
});

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
      M: 'Aktualisieren oder Löschen in Tabelle »owner« verletzt Fremdschlüssel-Constraint »note_owner« von Tabelle »note«',
      D: 'Auf Schlüssel (id)=(1) wird noch aus Tabelle »note« verwiesen.',
    },
    [],
  ],
  [
    'contains the columns of a reference to no row, even if the message of the server is not in English',
    {
      C: '23503',
      M: 'Einfügen oder Aktualisieren in Tabelle »note« verletzt Fremdschlüssel-Constraint »note_owner«',
      D: 'Schlüssel (owner)=(7) ist nicht in Tabelle »owner« vorhanden.',
    },
    ['owner'],
  ],
  [
    'is empty for a row that is still referenced with "on delete restrict" since PostgreSQL 18',
    { C: '23001', D: 'Key (id)=(1) is referenced from table "note".' },
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
