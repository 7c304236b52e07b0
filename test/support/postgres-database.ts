/**
 * PostgreSQL databases for tests: on the server of POSTGRES_URL, or else on a private server that ends with
 * the process.
 *
 * Each test has its own schema, so that many tests share one server. Without a server tests are skipped, or
 * fail with REQUIRE_POSTGRES=1.
 */
import { after, type TestContext } from 'node:test';
import { openDatabase, type Database, type DatabaseOptions } from '../../src/db/index.ts';
import { patient } from './patient.ts';
import { PostgresServer, postgresProblem } from './postgres-server.ts';
import { inReverse, type Scope } from './run.ts';

/** Skips a test if there is no server. With REQUIRE_POSTGRES=1 it fails instead. */
export function needsPostgres(t: Pick<TestContext, 'skip'>): boolean {
  const problem = postgresProblem();
  if (problem !== undefined) t.skip(problem);
  return problem === undefined;
}

let server: Promise<string> | undefined;
let shared: Promise<Database> | undefined;
let schemas = 0;
/** The tests of this process. */
const PROCESS = inReverse({ after });

/** Returns the address of the server that the tests of this process share. Call `needsPostgres` first. */
export function sharedPostgres(): Promise<string> {
  const named = process.env['POSTGRES_URL'];
  return (server ??=
    named === undefined ? PostgresServer.start(PROCESS).then(({ url }) => url) : Promise.resolve(named));
}

async function opened(): Promise<Database> {
  const admin = await openDatabase(await sharedPostgres(), { pool: { max: 2 } });
  PROCESS.after(() => admin.close());
  return admin;
}

/** Returns the address of an empty schema that is deleted after the test. Call `needsPostgres` first. */
export async function postgresUrl(scope: Scope, query = ''): Promise<string> {
  const [url, admin] = [await sharedPostgres(), await (shared ??= opened())];
  const schema = `svc_test_${process.pid}_${++schemas}`;
  await admin.script(`create schema ${schema}`);
  scope.after(() => admin.script(`drop schema ${schema} cascade`));
  return `${url}${url.includes('?') ? '&' : '?'}set.search_path=${schema}${query}`;
}

/** Returns a database in its own schema. Undefined if there is no server; the test is skipped then. */
export async function postgresDatabase(
  t: TestContext,
  options: DatabaseOptions = {},
): Promise<Database | undefined> {
  if (!needsPostgres(t)) return undefined;
  const scope = inReverse(t); // drop the schema after the database is closed
  const url = await postgresUrl(scope);
  const db = await openDatabase(url, patient(url, options));
  scope.after(() => db.close());
  return db;
}
