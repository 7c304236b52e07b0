/**
 * Databases of PostgreSQL for tests: on the server that POSTGRES_URL names, else on one of our own that ends with the process.
 *
 * Each test has a schema of its own, so that many share one server. Without a server tests are skipped, which REQUIRE_POSTGRES=1
 * turns into a failure.
 */
import { after, type TestContext } from 'node:test';
import { openDatabase, type Database, type DatabaseOptions } from '../../src/db/index.ts';
import { PostgresServer, postgresProblem } from './postgres-server.ts';
import type { Scope } from './run.ts';

/** Skips a test where there is no server, which REQUIRE_POSTGRES=1 turns into a failure. */
export function needsPostgres(t: TestContext): boolean {
  const problem = postgresProblem();
  if (problem !== undefined) t.skip(problem);
  return problem === undefined;
}

let server: Promise<string> | undefined;
let shared: Promise<Database> | undefined;
let schemas = 0;
const ends: (() => void | Promise<void>)[] = [];
after(async () => {
  for (const end of ends.reverse()) await end();
});

/** The address of the server that the tests of this process share. `needsPostgres` is asked first. */
export function sharedPostgres(): Promise<string> {
  const named = process.env['POSTGRES_URL'];
  return (server ??=
    named === undefined
      ? PostgresServer.start({ after: (end) => void ends.push(end) }).then(({ url }) => url)
      : Promise.resolve(named));
}

async function opened(): Promise<Database> {
  const admin = await openDatabase(await sharedPostgres(), { pool: { max: 2 } });
  ends.push(() => admin.close());
  return admin;
}

/** The address of an empty schema, which is gone after the test. `needsPostgres` is asked first. */
export async function postgresUrl(scope: Scope, query = ''): Promise<string> {
  const [url, admin] = [await sharedPostgres(), await (shared ??= opened())];
  const schema = `svc_test_${process.pid}_${++schemas}`;
  await admin.script(`create schema ${schema}`);
  scope.after(() => admin.script(`drop schema ${schema} cascade`));
  return `${url}${url.includes('?') ? '&' : '?'}set.search_path=${schema}${query}`;
}

/** A database in a schema of its own; undefined, and the test skipped, where there is no server. */
export async function postgresDatabase(
  t: TestContext,
  options: DatabaseOptions = {},
): Promise<Database | undefined> {
  if (!needsPostgres(t)) return undefined;
  const ends: (() => void | Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends.reverse()) await end();
  }); // the schema after the database
  const db = await openDatabase(await postgresUrl({ after: (end) => void ends.push(end) }), options);
  ends.push(() => db.close());
  return db;
}
