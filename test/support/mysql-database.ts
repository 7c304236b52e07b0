/**
 * Databases of MariaDB and MySQL for tests: on the servers that MARIADB_URL and MYSQL_URL name, of MariaDB else on one of our own
 * that ends with the process. The user that is named makes databases: each test has its own, so that many share one server.
 *
 * Without MariaDB tests are skipped, which REQUIRE_MARIADB=1 turns into a failure; those of MySQL run where MYSQL_URL is given only.
 */
import { after, type TestContext } from 'node:test';
import { openDatabase, type Database, type DatabaseOptions } from '../../src/db/index.ts';
import { MariaDbServer, mariadbProblem } from './mariadb-server.ts';
import type { Scope } from './run.ts';

/** Which of the two. */
export type Engine = 'mariadb' | 'mysql';

/** Why the tests that need the server do not run; undefined when they do. */
export function engineProblem(engine: Engine): string | undefined {
  if (engine === 'mariadb') return mariadbProblem();
  return process.env['MYSQL_URL'] === undefined ? 'no server of MySQL is named by MYSQL_URL' : undefined;
}

/** Skips a test where there is no server. */
export function needsEngine(t: TestContext, engine: Engine): boolean {
  const problem = engineProblem(engine);
  if (problem !== undefined) t.skip(problem);
  return problem === undefined;
}

const servers = new Map<Engine, Promise<string>>();
const admins = new Map<Engine, Promise<Database>>();
let databases = 0;
const ends: (() => void | Promise<void>)[] = [];
after(async () => {
  for (const end of ends.reverse()) await end();
});

/** The address of the server that the tests of this process share. `needsEngine` is asked first. */
export function sharedMySql(engine: Engine): Promise<string> {
  let url = servers.get(engine);
  if (url === undefined) {
    const named = process.env[engine === 'mariadb' ? 'MARIADB_URL' : 'MYSQL_URL'];
    url =
      named === undefined
        ? MariaDbServer.start({ after: (end) => void ends.push(end) }).then((server) => server.url)
        : Promise.resolve(named);
    servers.set(engine, url);
  }
  return url;
}

async function opened(engine: Engine): Promise<Database> {
  const admin = await openDatabase(await sharedMySql(engine), { pool: { max: 2 } });
  ends.push(() => admin.close());
  return admin;
}

/** The address of an empty database, which is gone after the test. `needsEngine` is asked first. */
export async function mysqlUrl(scope: Scope, engine: Engine, query = ''): Promise<string> {
  const url = await sharedMySql(engine);
  let admin = admins.get(engine);
  if (admin === undefined) admins.set(engine, (admin = opened(engine)));
  const name = `svc_test_${process.pid}_${++databases}`;
  await (await admin).script(`create database ${name} character set utf8mb4`);
  scope.after(async () => (await admin).script(`drop database ${name}`));
  const [, before, , settings = ''] = /^([^?]*\/\/[^/?]*)(\/[^?]*)?(\?.*)?$/.exec(url)!; // it is one
  return `${before}/${name}${settings}${query === '' ? '' : `${settings === '' ? '?' : '&'}${query}`}`;
}

/** A database of its own; undefined, and the test skipped, where there is no server. */
export async function mysqlDatabase(
  t: TestContext,
  engine: Engine,
  options: DatabaseOptions = {},
  query = '',
): Promise<Database | undefined> {
  if (!needsEngine(t, engine)) return undefined;
  const after: (() => void | Promise<void>)[] = [];
  t.after(async () => {
    for (const end of after.reverse()) await end();
  }); // the tables after the connections
  const db = await openDatabase(
    await mysqlUrl({ after: (end) => void after.push(end) }, engine, query),
    options,
  );
  after.push(() => db.close());
  return db;
}
