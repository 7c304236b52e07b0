import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase, type DatabaseOptions } from '../../../src/db/index.ts';
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
