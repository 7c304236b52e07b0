/**
 * Runs one test on every engine: SQLite in a file, and PostgreSQL, MariaDB and MySQL if there is a server.
 */
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openDatabase, type Database } from '../../src/db/index.ts';
import { mysqlUrl, needsEngine, sharedMySql } from './mysql-database.ts';
import { patient } from './patient.ts';
import { needsPostgres, postgresUrl, sharedPostgres } from './postgres-database.ts';
import { folder, inReverse, type Scope } from './run.ts';
import type { Dialect } from '../../src/db/driver.ts';

/** A database engine. */
export interface TestedEngine {
  readonly dialect: Dialect;
  readonly name: string;
  /**
   * Returns the address of an empty database, which is removed at the end of the scope. Undefined if there is
   * no server; the test is skipped then.
   */
  address(t: Skipping, scope: Scope, query?: string): Promise<string | undefined>;
}

/** An engine with a server. */
export interface TestedServer extends TestedEngine {
  readonly dialect: Exclude<Dialect, 'sqlite'>;
  /** Returns the address of the server that the tests of this process share. Undefined without a server. */
  server(t: Skipping): Promise<string | undefined>;
}

type Skipping = Pick<TestContext, 'skip'>;

const POSTGRES: TestedServer = {
  dialect: 'postgres',
  name: 'PostgreSQL',
  address: async (t, scope, query = '') =>
    needsPostgres(t) ? postgresUrl(scope, query && `&${query}`) : undefined,
  server: async (t) => (needsPostgres(t) ? sharedPostgres() : undefined),
};

function mySql(dialect: 'mariadb' | 'mysql', name: string): TestedServer {
  return {
    dialect,
    name,
    address: async (t, scope, query) =>
      needsEngine(t, dialect) ? mysqlUrl(scope, dialect, query) : undefined,
    server: async (t) => (needsEngine(t, dialect) ? sharedMySql(dialect) : undefined),
  };
}

/** Engines with a server. */
export const SERVERS: readonly [TestedServer, ...(readonly TestedServer[])] = [
  POSTGRES,
  mySql('mariadb', 'MariaDB'),
  mySql('mysql', 'MySQL'),
];

/** Every engine. */
export const ENGINES: readonly TestedEngine[] = [
  {
    dialect: 'sqlite',
    name: 'SQLite',
    address: async (_t, scope, query = '') =>
      `sqlite:${join(folder(scope), 'data.db')}${query && `?${query}`}`,
  },
  ...SERVERS,
];

/** Engines that {@link onEveryDatabase} uses. */
export const tested: { engines: readonly TestedEngine[] } = { engines: ENGINES };

/** Registers a test for each engine. The test gets the address of its own database. */
export function onEveryDatabase(
  behavior: string,
  run: (db: Database, url: string, t: TestContext) => Promise<void>,
): void {
  for (const { name, address } of tested.engines) {
    test(`${name}: ${behavior}`, async (t) => {
      const scope = inReverse(t);
      const url = await address(t, scope);
      if (url === undefined) return;
      const db = await openDatabase(url, patient(url));
      scope.after(() => db.close());
      await run(db, url, t);
    });
  }
}
