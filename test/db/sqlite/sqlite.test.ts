import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase, type DatabaseOptions } from '../../../src/db/index.ts';
import { SqliteConnection } from '../../../src/db/sqlite/connection.ts';
import { SvcError } from '../../../src/base/errors.ts';
import { databaseContract, type OpenDatabase } from '../../contract/database.ts';
import { ownTypeContract } from '../../contract/own-types.ts';
import { patient } from '../../support/patient.ts';
import { folder } from '../../support/run.ts';

/** Opens a database in a file of its own. */
function inFile(options: DatabaseOptions = {}): OpenDatabase {
  return async (t) => {
    const url = `sqlite:${join(folder(t), 'data.db')}`;
    const db = await openDatabase(url, patient(url, options));
    t.after(() => db.close());
    return db;
  };
}

databaseContract('a SQLite database in a file passes the contract tests for databases', inFile());
databaseContract('a SQLite database in memory passes the contract tests for databases', async (t) => {
  const db = await openDatabase('sqlite::memory:');
  t.after(() => db.close());
  return db;
});
databaseContract(
  'a SQLite database with reader processes passes the contract tests for databases',
  inFile({ readers: 2 }),
);
databaseContract(
  'a SQLite database with synchronous=normal and a cache of one statement passes the contract tests for databases',
  inFile({ synchronous: 'normal', statementCache: 1 }),
);

ownTypeContract('SQLite', 'sqlite', (t, options) => inFile(options)(t));

test('SQLite refuses custom types in a database with reader processes', async (t) => {
  await assert.rejects(inFile({ readers: 1, types: { money: { parse: Number } } })(t), {
    code: 'E_DB_OPTION',
  });
});

for (const [what, url, options, problem] of [
  [
    'reader processes of a database in memory',
    'sqlite::memory:',
    { readers: 1 },
    '"readers" are separate processes, which cannot read a database in memory: remove the option, or use a file',
  ],
  [
    'a database in memory that is only read',
    'sqlite::memory:',
    { readOnly: true },
    '"readOnly" is useless for a database in memory, which is always empty at first: remove the option',
  ],
] as const)
  test(`SQLite refuses ${what}`, async () => {
    await assert.rejects(openDatabase(url, options), {
      code: 'E_DB_OPTION',
      message: `Cannot use an option or method of the database: ${problem}`,
    });
  });

test('SQLite refuses a file whose file system does not support WAL', async (t) => {
  t.mock.method(SqliteConnection.prototype, 'scalar', () => 'delete');
  const path = join(folder(t), 'data.db');
  await assert.rejects(openDatabase(`sqlite:${path}`), (error) => {
    assert.ok(error instanceof SvcError);
    assert.equal(error.code, 'E_DB_OPEN');
    assert.ok(
      error.message.includes(
        'the file system does not support shared memory, which WAL needs (journal mode "delete"): move the file to a local disk',
      ),
      error.message,
    );
    return true;
  });
});
