/**
 * `svc routes`, run as its users run it.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { project, run } from '../support/run.ts';
import type { TestContext } from 'node:test';
import type { Ended } from '../support/run.ts';

before(build);

const APP = `import { RequestIDMiddleware, Router, Svc } from 'svc';
export const app = new Svc();
const timed = (req, next) => next();
const items = new Router({ prefix: '/items' });
items.get('/{id:int}', { name: 'item', use: [timed, { handle: timed }], security: { scheme: 'bearer', scopes: ['read', 'write'], roles: ['admin', 'staff'] } }, () => 1);
items.patch('/{id:int}', { security: [{ scheme: 'session', scopes: [], roles: [] }, { scheme: 'apiKey', scopes: [], roles: [], isOptional: true }] }, () => 1);
app.get('/about', { public: 'for everybody' }, () => 1).includeRouter(items);
app.use(new RequestIDMiddleware());
app.onStartup(() => { console.log('HOOK'); });
`;

function routes(t: TestContext, args: readonly string[] = [], app = APP): Promise<Ended> {
  return run(process.execPath, [BIN, 'routes', 'app.ts', ...args], { cwd: project(t, { 'app.ts': app }) });
}

test('svc routes prints an aligned table that is sorted by path and shows the source line of each route', async (t) => {
  assert.deepEqual(await routes(t), {
    status: 0,
    signal: null,
    stderr: '',
    stdout: [
      'METHOD  PATH             NAME  SECURITY                                    MIDDLEWARE                      DECLARED',
      'GET     /about           -     public                                      request-id                      app.ts:7:5',
      'GET     /healthz         -     public                                      request-id                      (operations)',
      'GET     /items/{id:int}  item  bearer scopes:read+write roles:admin|staff  request-id, timed, (anonymous)  app.ts:5:7',
      'PATCH   /items/{id:int}  -     session, apiKey (optional)                  request-id                      app.ts:6:7',
      'GET     /metrics         -     public                                      request-id                      (operations)',
      'GET     /readyz          -     public                                      request-id                      (operations)',
      '',
    ].join('\n'),
  });
});

test('svc routes --format json prints one JSON document', async (t) => {
  const { status, stdout } = await routes(t, ['--format', 'json']);
  assert.equal(status, 0);
  const document = JSON.parse(stdout) as { schemaVersion: number; routes: Record<string, unknown>[] };
  assert.equal(document.schemaVersion, 1);
  assert.deepEqual(
    document.routes.find(({ name }) => name === 'item'),
    {
      method: 'GET',
      path: '/items/{id:int}',
      name: 'item',
      security: [{ scheme: 'bearer', scopes: ['read', 'write'], roles: ['admin', 'staff'] }],
      middleware: ['request-id', 'timed', '(anonymous)'],
      public: false,
      operations: false,
      place: { file: 'app.ts', line: 5, column: 7 },
    },
  );
  assert.deepEqual(
    document.routes.filter(({ operations }) => operations).map(({ path, place }) => [path, place]),
    [
      ['/healthz', null],
      ['/metrics', null],
      ['/readyz', null],
    ],
  );
});

test('svc routes lists the routes of an application even if it does not compile', async (t) => {
  const { status, stdout } = await routes(t, [], `${APP}app.get('/about', () => 2);\n`);
  assert.equal(status, 0);
  assert.equal(stdout.match(/^GET {5}\/about /gm)!.length, 2);
});

test('if a module cannot be imported, svc routes prints the reason and ends with status 3', async (t) => {
  const { status, stdout, stderr } = await routes(t, [], 'throw new Error("no");');
  assert.deepEqual([status, stdout], [3, '']);
  assert.match(stderr, /SVC001 {2}app\.ts {2}app\.ts:1:7\n {6}Error: no\n/);
});

test('svc routes and svc mcp --list take the environment of the application from --env, which wins over --env-file', async (t) => {
  const program = `import { Svc } from 'svc';\nexport const app = new Svc();\nif (app.env === 'test') app.post('/tests', {}, () => 1);\n`;
  const cwd = project(t, { 'app.ts': program, 'my.env': 'SVC_ENV=development\n' });
  const printed = async (...args: readonly string[]): Promise<string> =>
    (await run(process.execPath, [BIN, ...args, '--env-file', 'my.env'], { cwd })).stdout;
  assert.doesNotMatch(await printed('routes', 'app.ts'), /tests/);
  assert.match(await printed('routes', 'app.ts', '--env', 'test'), /^POST {4}\/tests/m);
  assert.match(await printed('mcp', 'app.ts', '--list', '--env', 'test'), /^post_tests\(\) {2}writes$/m);
});

test('svc routes ends with status 2 for an unknown format or environment, and svc routes --help lists the options', async (t) => {
  assert.equal((await routes(t, ['--format', 'yaml'])).status, 2);
  assert.equal((await routes(t, ['--env', 'staging'])).status, 2);
  const { stdout } = await routes(t, ['--help']);
  for (const option of ['--format', '--env', '--env-file', '--no-color'])
    assert.match(stdout, new RegExp(`^ {2}${option} `, 'm'));
});
