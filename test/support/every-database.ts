/**
 * Runs one test on every engine: SQLite in a file, and PostgreSQL, MariaDB and MySQL if there is a server.
 */
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openDatabase, type Database } from '../../src/db/index.ts';
import { mysqlUrl, needsEngine } from './mysql-database.ts';
import { needsPostgres, postgresUrl } from './postgres-database.ts';
import { folder, type Scope } from './run.ts';

/** An engine, and a function for the address of an empty database; undefined if the test was skipped. */
interface Engine {
  readonly name: string;
  address(t: TestContext, scope: Scope): Promise<string | undefined>;
}

const ENGINES: readonly Engine[] = [
  { name: 'SQLite', address: async (t) => `sqlite:${join(folder(t), 'data.db')}` },
  {
    name: 'PostgreSQL',
    address: async (t, scope) => (needsPostgres(t) ? postgresUrl(scope) : undefined),
  },
  {
    name: 'MariaDB',
    address: async (t, scope) => (needsEngine(t, 'mariadb') ? mysqlUrl(scope, 'mariadb') : undefined),
  },
  {
    name: 'MySQL',
    address: async (t, scope) => (needsEngine(t, 'mysql') ? mysqlUrl(scope, 'mysql') : undefined),
  },
];

/** Registers a test for each engine. The test gets the address of its own database. */
export function onEveryDatabase(
  behavior: string,
  run: (db: Database, url: string, t: TestContext) => Promise<void>,
): void {
  for (const { name, address } of ENGINES) {
    test(`${name}: ${behavior}`, async (t) => {
      const ends: (() => void | Promise<void>)[] = [];
      t.after(async () => {
        for (const end of ends.reverse()) await end();
      });
      const url = await address(t, { after: (end) => void ends.push(end) });
      if (url === undefined) return;
      const db = await openDatabase(url);
      ends.push(() => db.close());
      await run(db, url, t);
    });
  }
}
