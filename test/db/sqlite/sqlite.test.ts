import { join } from 'node:path';
import { openDatabase, type DatabaseOptions } from '../../../src/db/index.ts';
import { databaseContract, type OpenDatabase } from '../../contract/database.ts';
import { folder } from '../../support/run.ts';

/** A database in a file of its own. */
function inFile(options: DatabaseOptions = {}): OpenDatabase {
  return async (t) => {
    const db = await openDatabase(`sqlite:${join(folder(t), 'data.db')}`, options);
    t.after(() => db.close());
    return db;
  };
}

databaseContract('SQLite in a file', inFile());
databaseContract('SQLite in memory', async (t) => {
  const db = await openDatabase('sqlite::memory:');
  t.after(() => db.close());
  return db;
});
databaseContract('SQLite with reader processes', inFile({ readers: 2 }));
databaseContract(
  'SQLite with synchronous=normal and a small cache of statements',
  inFile({ synchronous: 'normal', statementCache: 1 }),
);
