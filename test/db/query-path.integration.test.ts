/**
 * Measures how much code runs for one row: files and functions of src/db that a warm `fetchOne()` on
 * PostgreSQL uses.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { ROOT } from '../support/build.ts';
import { needsPostgres, postgresUrl } from '../support/postgres-database.ts';
import { folder, run } from '../support/run.ts';

const MAX_FILES = 18;
const MAX_FUNCTIONS = 98;

/** The measurement runs in its own process, because coverage of this process may be counted too. */
const PROGRAM = `
import { Session } from 'node:inspector/promises';
const { openDatabase } = await import(process.argv[2]);
await using db = await openDatabase(process.argv[3]);
const call = () => db.fetchOne('select 1 as id, ? as name', ['x']);
for (let warm = 0; warm < 300; warm++) await call();
const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
await session.post('Profiler.takePreciseCoverage');
await call();
const { result } = await session.post('Profiler.takePreciseCoverage');
const ran = result.flatMap(({ url, functions }) => {
  const [, file] = /\\/src\\/(.*)$/.exec(url) ?? [];
  const names = functions.filter(({ ranges }) => ranges[0].count > 0).map(({ functionName }) => functionName);
  return file === undefined || names.length === 0 ? [] : [[file, names]];
});
console.log(JSON.stringify(ran));
`;

test(`one call of fetchOne() on PostgreSQL executes at most ${MAX_FUNCTIONS} functions of src/db, in at most ${MAX_FILES} files`, async (t) => {
  if (!needsPostgres(t)) return;
  const { status, stdout, stderr } = await run(
    process.execPath,
    ['program.mjs', pathToFileURL(join(ROOT, 'src/db/index.ts')).href, await postgresUrl(t)],
    { cwd: folder(t, { 'program.mjs': PROGRAM }), env: { NODE_V8_COVERAGE: '' } },
  );
  assert.equal(status, 0, stderr);
  const ran = (JSON.parse(stdout) as [file: string, names: string[]][]).filter(([file]) =>
    file.startsWith('db/'),
  );
  const functions = ran.flatMap(([, names]) => names);
  t.diagnostic(`${ran.length} files, ${functions.length} functions`);
  assert.ok(functions.includes('fetchOne') && functions.includes('object'), stdout);
  assert.ok(ran.length <= MAX_FILES && functions.length <= MAX_FUNCTIONS, stdout);
});
