/**
 * Databases of MariaDB and MySQL for tests: on the servers that MARIADB_URL and MYSQL_URL name, of MariaDB
 * else on one of our own that ends with the process. The user that is named makes databases: each test has
 * its own, so that many share one server.
 *
 * Without MariaDB tests are skipped, or fail with REQUIRE_MARIADB=1. Tests of MySQL run only if MYSQL_URL is
 * given.
 */
import { after, type TestContext } from 'node:test';
import { openDatabase, type Database, type DatabaseOptions } from '../../src/db/index.ts';
import { MariaDbServer, mariadbProblem } from './mariadb-server.ts';
import { patient } from './patient.ts';
import { inReverse, type Scope } from './run.ts';

/** Name of the engine. */
export type Engine = 'mariadb' | 'mysql';

/** Returns why tests that need the server do not run; undefined when they do. */
export function engineProblem(engine: Engine): string | undefined {
  if (engine === 'mariadb') return mariadbProblem();
  return process.env['MYSQL_URL'] === undefined ? 'no server of MySQL is named by MYSQL_URL' : undefined;
}

/** Skips a test if there is no server. */
export function needsEngine(t: Pick<TestContext, 'skip'>, engine: Engine): boolean {
  const problem = engineProblem(engine);
  if (problem !== undefined) t.skip(problem);
  return problem === undefined;
}

const servers = new Map<Engine, Promise<string>>();
const admins = new Map<Engine, Promise<Database>>();
let databases = 0;
/** The tests of this process. */
const PROCESS = inReverse({ after });

/** Returns the address of the server that the tests of this process share. Call `needsEngine` first. */
export function sharedMySql(engine: Engine): Promise<string> {
  let url = servers.get(engine);
  if (url === undefined) {
    const named = process.env[engine === 'mariadb' ? 'MARIADB_URL' : 'MYSQL_URL'];
    url =
      named === undefined
        ? MariaDbServer.start(PROCESS).then((server) => server.url)
        : Promise.resolve(named);
    servers.set(engine, url);
  }
  return url;
}

async function opened(engine: Engine): Promise<Database> {
  const admin = await openDatabase(await sharedMySql(engine), { pool: { max: 2 } });
  PROCESS.after(() => admin.close());
  return admin;
}

/** Returns the address of an empty database that is deleted after the test. Call `needsEngine` first. */
export async function mysqlUrl(scope: Scope, engine: Engine, query = ''): Promise<string> {
  const url = await sharedMySql(engine);
  let admin = admins.get(engine);
  if (admin === undefined) admins.set(engine, (admin = opened(engine)));
  const name = `svc_test_${process.pid}_${++databases}`;
  await (await admin).script(`create database ${name} character set utf8mb4`);
  scope.after(async () => (await admin).script(`drop database ${name}`));
  // the address is valid, so it matches
  const [, before, , settings = ''] = /^([^?]*\/\/[^/?]*)(\/[^?]*)?(\?.*)?$/.exec(url)!;
  return `${before}/${name}${settings}${query === '' ? '' : `${settings === '' ? '?' : '&'}${query}`}`;
}

/** Returns a database for one test. Undefined if there is no server; the test is skipped then. */
export async function mysqlDatabase(
  t: TestContext,
  engine: Engine,
  options: DatabaseOptions = {},
  query = '',
): Promise<Database | undefined> {
  if (!needsEngine(t, engine)) return undefined;
  const scope = inReverse(t); // close the connections before the tables are dropped
  const url = await mysqlUrl(scope, engine, query);
  const db = await openDatabase(url, patient(url, options));
  scope.after(() => db.close());
  return db;
}
