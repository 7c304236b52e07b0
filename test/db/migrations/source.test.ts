import assert from 'node:assert/strict';
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SvcError } from '../../../src/base/errors.ts';
import {
  fileNamed,
  hashOf,
  namesIn,
  nextNumber,
  readMigrations,
  readScript,
} from '../../../src/db/migrations/source.ts';
import { folder } from '../../support/run.ts';
import type { ContributedMigration } from '../../../src/db/migrations/source.ts';

const UP = 'create table a (id integer);';

test('readMigrations() returns the migrations of plugins in the order of registration, and then the migrations from files by number', (t) => {
  const directory = folder(t, {
    '0002_second.up.sql': UP,
    '0001_first.up.sql': UP,
    '0001_first.down.sql': 'drop table a;',
    '.hidden': '',
  });
  const sql = {
    sqlite: ['create table t (id integer)', 'create index i on t (id)'],
    postgres: [],
    mysql: [],
    mariadb: [],
  };
  const migrations = readMigrations(
    {
      directory,
      contributed: [
        { plugin: 'b', id: '0001', sql },
        { plugin: 'a', id: 'tokens', sql },
      ],
    },
    'sqlite',
  );
  assert.deepEqual(
    migrations.map(({ id, name, isContributed }) => [id, name, isContributed]),
    [
      ['b/0001', '0001', true],
      ['a/tokens', 'tokens', true],
      ['0001', 'first', false],
      ['0002', 'second', false],
    ],
  );
  assert.deepEqual(
    migrations[0]!.up.statements.map(({ text }) => text),
    sql.sqlite,
  );
  assert.deepEqual(
    migrations.map(({ up }) => [up.hasTransaction, up.hasForeignKeys]),
    Array(4).fill([true, true]),
  );
  assert.equal(migrations[0]!.up.origin, 'b/0001 of the plugin b');
  assert.equal(migrations[2]!.up.origin, join(directory, '0001_first.up.sql'));
  assert.deepEqual(
    migrations[2]!.down!().statements.map(({ text }) => text),
    ['drop table a'],
  );
  assert.equal(migrations[3]!.down, undefined);
  assert.deepEqual(readMigrations({}, 'sqlite'), []);
});

test('the checksums of readMigrations() are equal for texts that differ only in line ends, and differ for other texts', (t) => {
  const sum = (text: string): string =>
    readMigrations({ directory: folder(t, { '0001_a.up.sql': text }) }, 'sqlite')[0]!.checksum;
  const one = sum('create table a (id integer);\n-- end\n');
  assert.match(one, /^[0-9a-f]{64}$/);
  assert.equal(sum('create table a (id integer);\r\n-- end\r\n\r\n'), one);
  assert.equal(sum('\ufeffcreate table a (id integer);\n-- end'), one);
  assert.notEqual(sum('create table a (id  integer);\n-- end\n'), one);
  const contributed = (...sqlite: string[]): string =>
    readMigrations(
      { contributed: [{ plugin: 'p', id: '1', sql: { sqlite, postgres: [], mysql: [], mariadb: [] } }] },
      'sqlite',
    )[0]!.checksum;
  assert.notEqual(contributed('select 1', 'select 2'), contributed('select 1select 2'));
});

test('the checksums of readMigrations() and the result of hashOf() never change, because databases and files contain them', (t) => {
  const sql = { sqlite: ['select 1\r\n', 'select 2'], postgres: [], mysql: [], mariadb: [] };
  const directory = folder(t, { '0001_a.up.sql': 'select 1;\r\nselect 2;\r\n' });
  const migrations = readMigrations({ directory, contributed: [{ plugin: 'p', id: 'x', sql }] }, 'sqlite');
  assert.deepEqual(
    migrations.map(({ checksum }) => checksum),
    [
      // printf 'select 1\0select 2' | sha256sum
      '9b7601d481b3f208fedd1556590ec381598ce8dd559ad6e534f64fedb77a3eea',
      // printf 'select 1;\nselect 2;' | sha256sum
      'b1a668cc8f385c71b9d64504067d5145d91dcf27d37d8201c08c65a20268cab9',
    ],
  );
  const stamps = [
    { ...migrations[0]!, id: 'p/x', checksum: 'aa' },
    { ...migrations[0]!, id: '0001', checksum: 'bb' },
  ];
  // printf '1\nfalse\np/x aa\n0001 bb' | sha256sum | cut -c 1-16
  assert.equal(hashOf(stamps, false), 'eaf699690620eabb');
  assert.equal(hashOf(stamps, true), '25473e7d7022e058');
  assert.notEqual(hashOf(stamps.toReversed(), false), hashOf(stamps, false));
});

test('readMigrations() reads directives only from the comments before the first statement', (t) => {
  const script = (text: string): object => {
    const { hasTransaction, hasForeignKeys } = readMigrations(
      { directory: folder(t, { '0001_a.up.sql': text }) },
      'sqlite',
    )[0]!.up;
    return { hasTransaction, hasForeignKeys };
  };
  assert.deepEqual(script(UP), { hasTransaction: true, hasForeignKeys: true });
  assert.deepEqual(script('-- about\n\n--  svc: no-transaction\nvacuum;'), {
    hasTransaction: false,
    hasForeignKeys: true,
  });
  assert.deepEqual(script('-- svc:no-foreign-keys\n-- svc: no-transaction\nvacuum;'), {
    hasTransaction: false,
    hasForeignKeys: false,
  });
  assert.deepEqual(script(`${UP}\n-- svc: no-transaction\n`), { hasTransaction: true, hasForeignKeys: true });
  assert.deepEqual(
    script(
      '/* Copyright -- svc: no-transactions\n * of us */ -- about\n\n/**/-- svc: no-foreign-keys\nselect 1;',
    ),
    { hasTransaction: true, hasForeignKeys: false },
  );
  assert.deepEqual(script('-- SVC: no-foreign-keys\r\n;\r\n/* svc: no-transaction */\r\nvacuum;'), {
    hasTransaction: false,
    hasForeignKeys: false,
  });
  assert.deepEqual(script("select '-- svc: no-transaction';\n"), {
    hasTransaction: true,
    hasForeignKeys: true,
  });
});

for (const [dialect, taken] of [
  ['sqlite', ['0001_a.up.sql', '0003_c.sqlite.up.sql', '0004_d.up.sql']],
  ['postgres', ['0001_a.up.sql', '0002_b.postgres.up.sql', '0003_c.up.sql', '0004_d.up.sql']],
  ['mysql', ['0001_a.up.sql', '0003_c.mysql.up.sql', '0004_d.mysql.up.sql']],
  ['mariadb', ['0001_a.up.sql', '0003_c.mariadb.up.sql', '0004_d.mysql.up.sql']],
] as const) {
  test(`readMigrations() for ${dialect} prefers a file for this engine to the file for all engines, and skips files that are only for other engines`, (t) => {
    const files = [
      '0001_a.up.sql',
      '0001_a.down.sql',
      '0002_b.postgres.up.sql',
      '0002_b.postgres.down.sql',
      '0003_c.up.sql',
      '0003_c.sqlite.up.sql',
      '0003_c.mysql.up.sql',
      '0003_c.mariadb.up.sql',
      '0003_c.down.sql',
      '0003_c.sqlite.down.sql',
      '0004_d.up.sql',
      '0004_d.mysql.up.sql',
    ];
    const directory = folder(t, Object.fromEntries(files.map((file) => [file, `select '${file}';`])));
    const migrations = readMigrations({ directory }, dialect);
    assert.deepEqual(
      migrations.map(({ up }) => up.origin),
      taken.map((file) => join(directory, file)),
    );
    const byId = new Map(migrations.map((migration) => [migration.id, migration]));
    assert.equal(
      byId.get('0003')!.down!().origin,
      join(directory, dialect === 'sqlite' ? '0003_c.sqlite.down.sql' : '0003_c.down.sql'),
    );
    assert.equal(new Set(migrations.map(({ checksum }) => checksum)).size, migrations.length);
    assert.equal(nextNumber(directory), '0005');
  });
}

for (const [what, files, message] of [
  ['an invalid file name', { '1_a.up.sql': UP }, /"1_a\.up\.sql" is not a valid name .*: write four digits/],
  ['capital letters in a file name', { '0001_A.up.sql': UP }, /"0001_A\.up\.sql"/],
  ['a name without a direction', { '0001_a.sql': UP }, /"0001_a\.sql"/],
  ['a file of another kind', { '0001_a.up.sql': UP, 'notes.txt': '' }, /"notes\.txt"/],
  [
    'a missing number between two files',
    { '0001_a.up.sql': UP, '0003_c.up.sql': UP },
    /the number 0002 is missing between 0001_a\.up\.sql and 0003_c\.up\.sql/,
  ],
  ['a missing first number', { '0002_b.up.sql': UP }, /the first file is 0002_b\.up\.sql/],
  [
    'two files with the same number',
    { '0001_a.up.sql': UP, '0001_b.up.sql': UP },
    /0001_a\.up\.sql and 0001_b\.up\.sql have the same number/,
  ],
  [
    'a down file without its up file',
    { '0001_a.up.sql': UP, '0002_b.down.sql': UP },
    /0002_b\.down\.sql has no up file: add 0002_b\.up\.sql to the folder/,
  ],
  [
    'a down file of an engine that has no up file',
    { '0001_a.postgres.up.sql': UP, '0001_a.mysql.down.sql': UP },
    /0001_a\.mysql\.down\.sql has no up file: add 0001_a\.up\.sql to the folder/,
  ],
  ['an unknown engine', { '0001_a.oracle.up.sql': UP }, /"0001_a\.oracle\.up\.sql" is not a valid name/],
  [
    'files of engines with different names',
    { '0001_a.up.sql': UP, '0001_b.postgres.up.sql': UP },
    /0001_a\.up\.sql and 0001_b\.postgres\.up\.sql have the same number/,
  ],
  [
    'a down file of another name',
    { '0001_a.up.sql': UP, '0001_b.down.sql': UP },
    /0001_b\.down\.sql has no up file: add 0001_b\.up\.sql to the folder/,
  ],
  [
    'a file without a statement',
    { '0001_a.up.sql': '-- nothing yet\n' },
    /0001_a\.up\.sql": the file has no statement: write one, or remove/,
  ],
  [
    'a quote without an end',
    { '0001_a.up.sql': "\n\nselect 'a;" },
    /0001_a\.up\.sql": line 3: the quote ' has no end/,
  ],
  [
    'a statement that ends a transaction',
    { '0001_a.up.sql': `${UP}\nBEGIN;\n${UP}\nCOMMIT;` },
    /line 2: "begin" begins or ends a transaction/,
  ],
  [
    'a pragma that does nothing in a transaction',
    { '0001_a.up.sql': 'pragma foreign_keys = off;' },
    /line 1: "pragma foreign_keys" does nothing inside a transaction: remove it, and write "-- svc: no-foreign-keys"/,
  ],
  [
    'two directives in one comment',
    { '0001_a.up.sql': `-- svc: no-transaction no-foreign-keys\n${UP}` },
    /"-- svc: no-transaction" and "no-foreign-keys" are in one comment: write each directive on its own line/,
  ],
  [
    'an unknown directive after a block comment',
    { '0001_a.up.sql': `/* us */\n-- svc: no-foreign-key\n${UP}` },
    /"-- svc: no-foreign-key" is not a directive/,
  ],
  [
    'an unknown directive',
    { '0001_a.up.sql': `-- svc: no-transactions\n${UP}` },
    /"-- svc: no-transactions" is not a directive: use no-transaction or no-foreign-keys/,
  ],
] as const) {
  test(`readMigrations() refuses a folder with ${what}`, (t) => {
    assert.throws(() => readMigrations({ directory: folder(t, files) }, 'sqlite'), {
      code: 'E_MIGRATION_FILES',
      message,
      remedy: /svc migrate new/,
    });
  });
}

for (const statement of [
  'begin',
  'commit',
  'end',
  'rollback',
  'savepoint a',
  'release savepoint a',
  'start transaction',
])
  test(`readMigrations() refuses the statement "${statement}", because svc controls the transaction`, (t) => {
    const [word] = statement.split(' ');
    const files = { '0001_a.up.sql': `select 1;\n${statement.toUpperCase()};\n` };
    assert.throws(() => readMigrations({ directory: folder(t, files) }, 'sqlite'), {
      code: 'E_MIGRATION_FILES',
      message: new RegExp(`line 2: "${word}" begins or ends`),
    });
  });

test('readMigrations() refuses a comment such as /*M!100100 COMMIT */, because MariaDB would execute its text', (t) => {
  assert.throws(
    () =>
      readMigrations(
        { directory: folder(t, { '0001_a.up.sql': 'select 1;\n/*M!100100 COMMIT */;\n' }) },
        'mariadb',
      ),
    { code: 'E_MIGRATION_FILES', message: /line 2: "commit" begins or ends/ },
  );
});

for (const [dialect, text, message] of [
  [
    'postgres',
    '-- dump\n\\restrict abc\n\nselect 1;\n\\unrestrict abc\n',
    /line 2: "\\restrict" is a command of a client program/,
  ],
  ['postgres', 'select 1;\n\\connect other\n', /line 2: "\\connect"/],
  ['mariadb', 'delimiter //\n', /line 1: "delimiter" is a command of a client program/],
  [
    'mysql',
    'select 1;\nDELIMITER //\ncreate procedure p() begin select 1; end//\nDELIMITER ;\n',
    /line 2: "DELIMITER" is a command of a client program/,
  ],
] as const) {
  test(`readMigrations() for ${dialect} refuses a command that only the command-line client understands: ${JSON.stringify(text.slice(0, 20))}`, (t) => {
    assert.throws(() => readMigrations({ directory: folder(t, { '0001_a.up.sql': text }) }, dialect), {
      code: 'E_MIGRATION_FILES',
      message,
    });
  });
}

for (const [dialect, text] of [
  ['sqlite', 'delimiter //'],
  ['postgres', 'delimiter //'],
  ['sqlite', 'pragma user_version = 2'],
  ['sqlite', 'reindex foreign_keys'],
  ['sqlite', '-- svc: no-transaction\npragma foreign_keys = off'],
  ['postgres', 'pragma foreign_keys = off'],
  ['mysql', 'pragma foreign_keys = off'],
  ['mysql', "select '\\restrict'"],
  ['mysql', 'select delimiter from t'],
] as const)
  test(`readMigrations() for ${dialect} leaves it to the database to judge ${JSON.stringify(text)}`, (t) => {
    const [migration] = readMigrations({ directory: folder(t, { '0001_a.up.sql': text }) }, dialect);
    assert.equal(migration!.up.statements.length, 1);
  });

test('an error of readMigrations() names one line, and has the text of its problem once', (t) => {
  for (const [text, problem] of [
    ['select 1;\ncommit;', 'line 2: "commit" begins or ends a transaction'],
    ['select 1;\n\n\nselect "a', 'line 4: the quote " has no end'],
  ] as const)
    assert.throws(
      () => readMigrations({ directory: folder(t, { '0001_a.up.sql': text }) }, 'sqlite'),
      ({ message }: Error) => message.includes(`": ${problem}`) && message.split('line ').length === 2,
    );
});

test('fileNamed() returns the up file of the migration with a name, or undefined', (t) => {
  const directory = folder(t, {
    '0001_a.up.sql': UP,
    '0001_a.down.sql': UP,
    '0002_b.down.sql': UP,
    '0003_c.postgres.up.sql': UP,
  });
  assert.deepEqual(
    ['a', 'b', 'c', 'd', '0001_a'].map((name) => fileNamed(directory, name)),
    ['0001_a.up.sql', undefined, '0003_c.postgres.up.sql', undefined, undefined],
  );
  assert.equal(fileNamed(join(directory, 'absent'), 'a'), undefined);
  assert.throws(() => fileNamed(folder(t, { 'x.sql': UP }), 'x'), { code: 'E_MIGRATION_FILES' });
});

test('namesIn() and readScript() report a problem as the error that the caller creates', (t) => {
  const directory = folder(t, { 'b.sql': 'select 1; select 2', 'a.sql': '', '.hidden': '' });
  const refusal = (what: string): SvcError => new SvcError('E_DB_OPTION', [what]);
  const refused = { code: 'E_DB_OPTION' };
  assert.deepEqual(namesIn(directory, refusal), ['a.sql', 'b.sql']);
  assert.throws(() => namesIn(join(directory, 'absent'), refusal), refused);
  assert.deepEqual(namesIn(join(directory, 'absent'), refusal, true), []);
  assert.throws(() => namesIn(join(directory, 'a.sql'), refusal, true), refused);
  const script = readScript(directory, 'b.sql', 'sqlite', refusal);
  assert.deepEqual(
    script.statements.map(({ text }) => text),
    ['select 1', 'select 2'],
  );
  assert.equal(script.origin, join(directory, 'b.sql'));
  for (const file of ['a.sql', 'absent.sql'])
    assert.throws(() => readScript(directory, file, 'sqlite', refusal), refused);
});

test('readMigrations() refuses a missing folder, and a file that cannot be read', (t) => {
  assert.throws(() => readMigrations({ directory: join(folder(t), 'absent') }, 'sqlite'), {
    code: 'E_MIGRATION_FILES',
    message: /absent": the folder does not exist/,
  });
  const directory = folder(t, { '0001_a.up.sql/x': '' });
  assert.throws(() => readMigrations({ directory }, 'sqlite'), {
    code: 'E_MIGRATION_FILES',
    message: /0001_a\.up\.sql": the file cannot be read \(EISDIR\)/,
  });
  assert.throws(() => readMigrations({ directory: join(folder(t, { file: '' }), 'file') }, 'sqlite'), {
    code: 'E_MIGRATION_FILES',
    message: /the folder cannot be read \(ENOTDIR\)/,
  });
});

test('readMigrations() refuses a file that is not UTF-8', async (t) => {
  const directory = folder(t, { '0001_a.up.sql': '' });
  const { writeFileSync } = await import('node:fs');
  writeFileSync(join(directory, '0001_a.up.sql'), Buffer.from([0x73, 0xff]));
  assert.throws(() => readMigrations({ directory }, 'sqlite'), {
    code: 'E_MIGRATION_FILES',
    message: /the file is not text in UTF-8/,
  });
});

test('readMigrations() reads a "down" file only when the caller requests the down script', (t) => {
  const directory = folder(t, { '0001_a.up.sql': UP, '0001_a.down.sql': '' });
  const [migration] = readMigrations({ directory }, 'sqlite');
  assert.throws(() => migration!.down!(), {
    code: 'E_MIGRATION_FILES',
    message: /0001_a\.down\.sql": the file has no statement/,
  });
  chmodSync(directory, 0o700);
  rmSync(join(directory, '0001_a.down.sql'));
  assert.throws(() => migration!.down!(), { code: 'E_MIGRATION_FILES', message: /ENOENT/ });
});

const empty = { sqlite: [], postgres: [], mysql: [], mariadb: [] };
for (const [what, contributed, message] of [
  [
    'an invalid id',
    [{ plugin: 'p', id: 'a b', sql: empty }],
    /"p\/a b": the id must have 1 to 100 characters/,
  ],
  ['an id that is not text', [{ plugin: 'p', id: 5, sql: empty }], /the id must have/],
  [
    'the id of another migration',
    [
      { plugin: 'p', id: '1', sql: empty },
      { plugin: 'p', id: '1', sql: empty },
    ],
    /"p\/1": two migrations have the same id/,
  ],
  [
    'no statements for the engine',
    [{ plugin: 'p', id: '1', sql: { postgres: [] } }],
    /"p\/1": the migration has no list of statements for sqlite/,
  ],
  ['statements that are not text', [{ plugin: 'p', id: '1', sql: { sqlite: [1] } }], /no list of statements/],
  ['no statements at all', [{ plugin: 'p', id: '1', sql: undefined }], /no list of statements/],
  [
    'a quote without an end',
    [{ plugin: 'p', id: '1', sql: { sqlite: ["select 'a"] } }],
    /line 1: the quote '/,
  ],
  [
    'a statement that ends a transaction',
    [{ plugin: 'p', id: '1', sql: { sqlite: ['commit'] } }],
    /"commit" begins or ends a transaction/,
  ],
] as const) {
  test(`readMigrations() refuses a plugin's migration with ${what}`, () => {
    assert.throws(
      () => readMigrations({ contributed: contributed as unknown as ContributedMigration[] }, 'sqlite'),
      { code: 'E_MIGRATION_CONTRIBUTED', message },
    );
  });
}

test('nextNumber() returns the number that follows the number of the last file, or 0001 for an empty or missing folder', (t) => {
  assert.equal(nextNumber(join(folder(t), 'absent')), '0001');
  assert.equal(nextNumber(folder(t)), '0001');
  assert.equal(nextNumber(folder(t, { '0001_a.up.sql': UP, '0009_b.up.sql': UP })), '0010');
  assert.equal(nextNumber(folder(t, { '9998_a.up.sql': UP })), '9999');
  assert.throws(() => nextNumber(folder(t, { '9999_a.up.sql': UP })), {
    code: 'E_MIGRATION_FILES',
    message: /a migration with the highest number, 9999, already exists/,
  });
  assert.throws(() => nextNumber(folder(t, { 'x.sql': UP })), { code: 'E_MIGRATION_FILES' });
});
