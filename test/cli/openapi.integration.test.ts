/**
 * `svc openapi`, run as its users run it.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { project, run } from '../support/run.ts';
import type { TestContext } from 'node:test';
import type { Ended } from '../support/run.ts';

before(build);

const APP = `import { Svc } from 'svc';
export const app = new Svc({ title: 'Items' });
app.get('/items/{id:int}', { name: 'item', summary: 'An item' }, () => 1);
app.onStartup(() => { console.log('HOOK'); });
console.log('printed while it is imported');
`;

function openapi(
  t: TestContext,
  args: readonly string[] = [],
  app = APP,
): Promise<Ended & { readonly cwd: string }> {
  const cwd = project(t, { 'app.ts': app });
  return run(process.execPath, [BIN, 'openapi', 'app.ts', ...args], { cwd }).then((ended) => ({
    ...ended,
    cwd,
  }));
}

test('svc openapi writes only the OpenAPI document to standard output', async (t) => {
  const { status, stdout, stderr } = await openapi(t);
  assert.deepEqual([status, stderr], [0, 'printed while it is imported\n']);
  const document = JSON.parse(stdout) as {
    openapi: string;
    info: object;
    paths: Record<string, { get: { operationId: string } }>;
  };
  assert.deepEqual(
    [document.openapi, document.info, document.paths['/items/{id}']!.get.operationId],
    ['3.1.1', { title: 'Items', version: '1.0.0' }, 'item'],
  );
  assert.equal(stdout, `${JSON.stringify(document, null, 2)}\n`);
});

test('svc openapi --output writes the OpenAPI document to a file', async (t) => {
  const { status, stdout, cwd } = await openapi(t, ['--output', 'out/openapi.json', '--env', 'production']);
  assert.deepEqual([status, stdout], [0, '']);
  assert.equal(
    (JSON.parse(readFileSync(join(cwd, 'out/openapi.json'), 'utf8')) as { info: { title: string } }).info
      .title,
    'Items',
  );
  const refused = await openapi(t, ['--output', 'app.ts/openapi.json']);
  assert.deepEqual(
    [refused.status, /file "app\.ts\/openapi\.json" of --output cannot be written/.test(refused.stderr)],
    [2, true],
  );
});

test('svc openapi ends with an error if standard output is a file on a full disk', async (t) => {
  const cwd = project(t, { 'app.ts': APP });
  const shell = (line: string): Promise<Ended> =>
    run('/bin/sh', ['-c', line, 'sh', process.execPath, BIN], {
      cwd,
      env: { NODE_DISABLE_COMPILE_CACHE: '1', NODE_V8_COVERAGE: '' },
    }); // both are files that it would not write whole, either
  const half = await shell('ulimit -f 2; "$1" "$2" openapi app.ts > openapi.json');
  assert.deepEqual(
    [half.status, /standard output cannot be written: EFBIG/.test(half.stderr)],
    [2, true],
    half.stderr,
  );
  const none = existsSync('/dev/full') ? await shell('"$1" "$2" openapi app.ts > /dev/full') : undefined; // Linux has it
  if (none !== undefined)
    assert.deepEqual(
      [none.status, /standard output cannot be written: ENOSPC/.test(none.stderr)],
      [2, true],
      none.stderr,
    );
  const whole = await shell('"$1" "$2" openapi app.ts > openapi.json');
  assert.deepEqual(
    [
      whole.status,
      (JSON.parse(readFileSync(join(cwd, 'openapi.json'), 'utf8')) as { info: { title: string } }).info.title,
    ],
    [0, 'Items'],
  );
});

test('svc openapi warns if an OpenAPI document cannot distinguish two routes of the application', async (t) => {
  const { status, stderr } = await openapi(t, [], `${APP}app.get('/items/{name}', () => 2);\n`);
  assert.equal(status, 0);
  assert.match(
    stderr,
    /^svc: GET \/items\/\{name\}: OpenAPI has one path for this route and for GET \/items\/\{id:int\}/m,
  );
});

test('if an application does not compile, svc openapi prints the compilation errors and ends with status 3', async (t) => {
  const { status, stdout, stderr } = await openapi(t, [], `${APP}app.get('/items/{x:int}', () => 2);\n`);
  assert.deepEqual([status, stdout], [3, '']);
  assert.match(stderr, /SVC101/);
  const absent = await openapi(t, [], 'throw new Error("no");');
  assert.deepEqual([absent.status, absent.stdout], [3, '']);
  assert.match(absent.stderr, /Error: no/);
});

test('svc openapi ends with status 2 for an unknown format or environment, and svc openapi --help lists the options', async (t) => {
  assert.equal((await openapi(t, ['--format', 'yaml'])).status, 2);
  assert.equal((await openapi(t, ['--env', 'staging'])).status, 2);
  const { stdout } = await openapi(t, ['--help']);
  for (const option of ['--output', '--format', '--env', '--env-file', '--no-color'])
    assert.match(stdout, new RegExp(`^ {2}${option} `, 'm'));
});

test('svc openapi --client writes an API client to a file, and writes the OpenAPI document only if --output is also given', async (t) => {
  const { status, stdout, cwd } = await openapi(t, ['--client', 'web/api.ts']);
  assert.deepEqual([status, stdout], [0, '']);
  assert.match(readFileSync(join(cwd, 'web/api.ts'), 'utf8'), /^ {2}item\(input: \{\n/m);
  const both = await openapi(t, ['--client', 'api.ts', '--output', 'openapi.json']);
  assert.deepEqual(
    [
      both.status,
      both.stdout,
      existsSync(join(both.cwd, 'openapi.json')),
      existsSync(join(both.cwd, 'api.ts')),
    ],
    [0, '', true, true],
  );
  const refused = await openapi(t, ['--client', 'app.ts/api.ts']);
  assert.deepEqual(
    [refused.status, /file "app\.ts\/api\.ts" of --client cannot be written/.test(refused.stderr)],
    [2, true],
  );
});
