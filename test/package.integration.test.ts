/**
 * The package as others get it: what the tarball holds, that it installs offline and serves, and that its types hold with
 * every TypeScript that is in use.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, realpathSync, symlinkSync } from 'node:fs';
import { join, posix } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { ROOT } from './support/build.ts';
import { installPackage } from './support/installed.ts';
import { MANUAL_PATHS } from './support/manuals.ts';
import { folder, run, start, write } from './support/run.ts';
import { npmEnvironment, scratch } from './support/scratch.ts';
import { typeAssertionsOutside } from './support/type-assertions.ts';
import type { TestContext } from 'node:test';
import type { Running } from './support/run.ts';

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  name: string;
  version: string;
  scripts: Record<string, string>;
  dependencies?: object;
  exports: Record<string, string | Record<string, string>>;
};
let tarball = '';
/** A project that has installed the package. */
const consumer = folder({ after });

before(async () => {
  tarball = await installPackage(consumer);
});

/** The files of a tarball: 512-byte headers with the name, and in octal the size, each before its content (POSIX ustar). */
function filesOf(path: string): Map<string, Buffer> {
  const bytes = gunzipSync(readFileSync(path));
  const files = new Map<string, Buffer>();
  for (let at = 0; bytes[at] !== 0;) {
    const text = (from: number, length: number): string =>
      bytes.toString('utf8', at + from, at + from + length).replace(/\0.*$/s, '');
    const size = Number.parseInt(text(124, 12), 8);
    files.set(
      [text(345, 155), text(0, 100)].filter((part) => part !== '').join('/'),
      bytes.subarray(at + 512, at + 512 + size),
    );
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}

test('the npm package contains LICENSE, README and the files that package.json names, and no other files', () => {
  const names = [...filesOf(tarball).keys()];
  for (const name of [
    'package.json',
    'LICENSE',
    'bin/svc.js',
    'bin/need-node.cjs',
    ...MANUAL_PATHS.filter((path) => !path.startsWith('test/')),
    'src/cli/starter/template/gitignore',
    'src/openapi/client/runtime.ts',
  ])
    assert.ok(names.includes(`package/${name}`), name);
  const others = names.filter(
    (name) =>
      !/^package\/(?:package\.json|README\.md|LICENSE|bin\/(?:svc\.js|need-node\.cjs)|(?:src\/|\.github\/)(?:\w+\/)?[A-Z]+\.md|src\/cli\/starter\/template\/[^.].+|src\/openapi\/client\/runtime\.ts|dist\/package\.json|dist\/.+\.(?:js|d\.ts))$/.test(
        name,
      ),
  );
  assert.deepEqual(others, []);
  for (const entry of Object.values(manifest.exports)) {
    for (const [condition, target] of typeof entry === 'string'
      ? [['default', entry]]
      : Object.entries(entry)) {
      if (condition !== 'svc-source') assert.ok(names.includes(target!.replace('.', 'package')), target); // that one is for this repository
    }
  }
});

test('the npm package unpacks to at most 6.5 MiB, and contains one .js file for each source file', () => {
  const files = filesOf(tarball);
  const size = [...files.values()].reduce((sum, content) => sum + content.length, 0);
  assert.ok(size <= 6.5 * 1_048_576, `${size} bytes`);
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts') && !path.startsWith('cli/starter/template/'))
    .map((path) => path.replace(/\.ts$/, '.js'));
  const compiled = [...files.keys()]
    .filter((name) => name.startsWith('package/dist/') && name.endsWith('.js'))
    .map((name) => name.slice('package/dist/'.length));
  assert.deepEqual(compiled.sort(), sources.sort());
});

test('the npm package has the types that its entry points import, and none of the commands and of the rules', () => {
  const files = filesOf(tarball);
  const types = [...files.keys()].filter((name) => name.endsWith('.d.ts'));
  for (const { types: entry } of Object.values(manifest.exports).filter((to) => typeof to !== 'string'))
    assert.ok(types.includes(entry!.replace('.', 'package')), entry);
  const imported = types.flatMap((name) =>
    [
      ...files
        .get(name)!
        .toString()
        .matchAll(/(?:from |import\()'(\.[^']+)\.(?:js|ts)'/g),
    ].map(([, to]) => posix.join(posix.dirname(name), `${to}.d.ts`)),
  );
  assert.ok(imported.length > 1_000, `${imported.length}`);
  assert.deepEqual(
    imported.filter((name) => !files.has(name)),
    [],
  );
  assert.deepEqual(
    types.filter((name) => /^package\/dist\/(?:check|cli)\//.test(name)),
    ['package/dist/check/check.d.ts'],
  );
});

test('dist/package.json in the npm package contains only "type" and "sideEffects", with the values of the main package.json', () => {
  // Node looks at the nearest package.json for each import: the small one saves 9 % of the CPU of a start
  const nearest = JSON.parse(filesOf(tarball).get('package/dist/package.json')!.toString()) as object;
  const { type, sideEffects } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    readonly type: string;
    readonly sideEffects: boolean;
  };
  assert.deepEqual(nearest, { type, sideEffects });
});

test('the npm package contains no test, no secret and no path of the machine that built the package', () => {
  for (const [name, content] of filesOf(tarball)) {
    const isTemplate = name.startsWith('package/src/cli/starter/template/'); // has the tests of new projects
    assert.doesNotMatch(name, isTemplate ? /\.env|\.npmrc|\.tgz$/ : /test\/|\.test\.|\.env|\.npmrc|\.tgz$/);
    assert.ok(!content.includes(ROOT), `${name} names ${ROOT}`);
  }
});

test('the npm package has no dependencies and no install scripts', () => {
  const packed = JSON.parse(filesOf(tarball).get('package/package.json')!.toString()) as typeof manifest;
  assert.deepEqual(Object.keys(packed.dependencies ?? {}), []);
  for (const script of ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish'])
    assert.equal(packed.scripts[script], undefined, script);
});

test('prepack builds', () => {
  assert.match(manifest.scripts['prepack'] ?? '', /\bbuild\b/); // the tests above pack without scripts, so that test files can share dist
});

const APP = `import { Svc, reply } from 'svc';
export const app = new Svc({ title: 'Consumer' });
app.get('/users/{id:int}', ({ params }) => reply({ id: params.id }, 201));
app.onShutdown(() => { console.log('shut down'); });
console.log('pid', process.pid);
`;

/** Starts `npx svc run`. The application prints its process id, because npx may not pass a signal on. */
async function npxRun(
  t: TestContext,
  args: readonly string[],
): Promise<{ server: Running; url: string; end(): void }> {
  let pid = 0;
  t.after(() => {
    try {
      if (pid !== 0) process.kill(pid, 'SIGKILL');
    } catch {
      /* it has ended, as it should */
    }
  }); // before the hook of start(), which waits until the application has closed the pipe
  const server = start(t, 'npx', ['--no', 'svc', 'run', ...args], {
    cwd: consumer,
    env: { ...npmEnvironment(), SVC_PORT: '0' },
  });
  pid = Number((await server.printed(/^pid (\d+)$/m))[1]);
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  return { server, url: url!, end: () => process.kill(pid, 'SIGTERM') };
}

test('npx svc run serves an application with the installed npm package, and SIGTERM ends the process with status 0', async (t) => {
  write(consumer, { 'app.ts': APP });
  const { server, url, end } = await npxRun(t, ['app.ts:app']);
  const response = await fetch(`${url}/users/7`);
  assert.deepEqual([response.status, await response.json()], [201, { id: 7 }]);
  end();
  const { status, stdout } = await server.ended;
  assert.equal(status, 0);
  assert.match(stdout, /^shut down$/m);
});

/** The frames of a stack: file and line of each. */
function framesOf(stack: string): { file: string; line: number }[] {
  return [...stack.matchAll(/(file:\/\/\S+?):(\d+):\d+\)?$/gm)].map(([, address, line]) => ({
    file: fileURLToPath(address!),
    line: Number(line),
  }));
}

test('when a handler throws, the stack trace refers to existing files and lines of the installed npm package', async (t) => {
  write(consumer, {
    'app.js': `import { Svc } from 'svc';
export const app = new Svc();
app.get('/fails', () => { throw new Error('thrown by the handler'); });
app.use((_req, next) => next());
console.log('pid', process.pid);
`,
  });
  const { server, url } = await npxRun(t, ['app.js']);
  const application = join(realpathSync(consumer), 'app.js');
  const own = join(realpathSync(consumer), 'node_modules/svc/dist/');
  assert.equal((await fetch(`${url}/fails`)).status, 500);
  const [line] = await server.printed(/^\{.*thrown by the handler.*\}$/m);
  const [handler, ...callers] = framesOf(stackIn(JSON.parse(line)));
  assert.equal(handler?.file, application);
  assert.ok(
    callers.some(({ file }) => file !== application),
    line,
  );
  for (const { file, line: number } of callers) {
    if (file === application) continue; // its middleware
    assert.ok(file.startsWith(own), file);
    const source = readFileSync(file, 'utf8');
    assert.match(source, /^\/\*\*\n \* /m, `${file} has doc comments`);
    assert.match(source.split('\n')[number - 1]!, /^ .*\w\(/, `${file}:${number} calls`);
  }
});

/** The stack in a record of the log, wherever it is. */
function stackIn(record: unknown): string {
  if (typeof record === 'string') return /^ {4}at /m.test(record) ? record : '';
  return typeof record === 'object' && record !== null ? Object.values(record).map(stackIn).join('') : '';
}

for (const mode of ['--vendor', '--link']) {
  test(`"svc new ${mode}" from the installed npm package creates a project that installs offline, passes its tests and serves requests`, async (t) => {
    const env = { ...npmEnvironment(), npm_config_audit: 'false', npm_config_fund: 'false' };
    const cwd = folder(t);
    const bin = join(consumer, 'node_modules/.bin/svc');
    const made = await run(bin, ['new', 'shop', mode], { cwd, env });
    assert.equal(made.status, 0, made.stderr);
    const shop = join(cwd, 'shop');
    for (const args of [['install', '--offline'], ['test']]) {
      const { status, stdout, stderr } = await run('npm', args, { cwd: shop, env });
      assert.equal(status, 0, stdout + stderr);
    }
    const server = start(
      t,
      process.execPath,
      ['node_modules/svc/bin/svc.js', 'run', 'src/app.ts', '--env-file', '.env'],
      { cwd: shop, env: { SVC_PORT: '0' } },
    );
    const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
    assert.match(await (await fetch(url!)).text(), /<h1>shop<\/h1>/);
  });
}

test('every public module of the installed npm package can be imported by its name', async () => {
  const entries = Object.keys(manifest.exports)
    .filter((path) => path !== './package.json')
    .map((path) => path.replace('.', 'svc'));
  write(consumer, {
    'entries.ts': `${entries.map((entry, index) => `import * as e${index} from '${entry}';`).join('\n')}\nconsole.log([${entries.map((_, index) => `e${index}`).join(', ')}].length);`,
  });
  const { status, stdout, stderr } = await run(process.execPath, ['entries.ts'], { cwd: consumer });
  assert.equal(status, 0, stderr);
  assert.equal(stdout, `${entries.length}\n`);
});

/** A program that uses the types; each line that must not compile says so. */
const TYPED = `import { Config, NotFound, Router, Svc, reply, stateKey } from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import type { HttpRequest, Middleware, SvcOptions } from 'svc';
import 'svc/db';
import 'svc/oauth';

const options: SvcOptions = { title: 'Typed', env: 'test', maxBodyBytes: undefined };
const app = new Svc(options);
// @ts-expect-error an option of no such name
new Svc({ titel: 'x' });
// @ts-expect-error an environment of no such name
new Svc({ env: 'staging' });
app.get('/u/{id:int}/{name}', ({ params, req, signal }) => {
  const id: number = params.id;
  const name: string = params.name;
  // @ts-expect-error a number is no string
  const wrong: string = params.id;
  // @ts-expect-error the template has no such parameter
  params.nothing;
  const request: HttpRequest = req;
  const aborted: boolean = signal.aborted;
  return reply({ id, name, wrong, method: request.method, aborted }, 201);
});
// @ts-expect-error no such converter
app.get('/u/{id:integer}', () => 1);
// @ts-expect-error no handler
app.get('/nothing');
const layer: Middleware = { async handle(_req, next) { const response = await next(); response.headers.set('x', 'y'); return response; } };
app.use(layer).use((_req, next) => next());
app.exceptionHandler(NotFound, (error) => { const status: number = error.status; return { status }; });
const key = stateKey<number>('count');
app.state.set(key, 1);
// @ts-expect-error the key is one for numbers
app.state.set(key, 'one');
const size: number = new Config().get('pageSize', 20);
// @ts-expect-error the type comes from the default
const text: string = new Config().get('pageSize', 20);
const router = new Router({ prefix: '/admin' });
app.includeRouter(router);
const client = new TestClient(app, { clock: new ManualClock() });
const answered: Promise<Response> = client.get('/u/1/x', { query: { a: 1 } });
// @ts-expect-error no such field of a request
client.get('/', { jsn: {} });
export { answered, size, text };
`;

/** A program whose declarations others use: what it exports has types of the package that it names nowhere. */
const DECLARED = `import { BearerAuth, Depends, Field, Router, Schema, Svc, bool, bytes, cached, createLogger, file, float, lazy, list, literal, nullable, provide, record, reply, requireRoles, rooms, sessionKey, stateKey, str, union } from 'svc';
import { database, db, json, openDatabase, redis, sql } from 'svc/db';
import { currentUser, githubProvider } from 'svc/oauth';
import { TestClient } from 'svc/testing';
import type { Database } from 'svc/db';

export class Note extends Schema { kind = Field(literal('note')); text = Field(str); more = Field(list(lazy(() => Note))); }
export const types = [bool, bytes, file, float, str, list(str), nullable(float), record(Note), literal('a', 1), union('kind', Note)];
export const app = new Svc();
export const user = sessionKey<Note>('user'), stock = stateKey<number>('stock');
export const me = BearerAuth(), admin = requireRoles('admin');
export const paging = provide({ query: { page: Field(1) }, me: Depends(me) }, ({ query, me: { sub } }) => ({ page: query.page, sub }));
export const price = cached(async (product: string) => product.length, { ttlSeconds: 30 });
export const router = new Router({ deps: { me: Depends(me) } }).get('/', ({ me: { sub }, req }) => [sub, req.session, req.query]);
export const state = app.state, log = createLogger(), report = app.check(), document = app.openapi(), tool = app.mcpServer();
export const databases = [db, database('other')], places = { redis, rooms, currentUser };
export const text = sql\`select \${1}\`, value = json({}), provider = githubProvider('id', 'secret');
export const serve = (port: number) => app.run({ port });
export const handler = () => reply('made', 201);
export const parsed = Note.safeParse({});
export const read = async (from: Database) => [await from.fetchAll(text), await from.execute(text), await from.transaction(async (inside) => inside)] as const;
export const opened = openDatabase('sqlite::memory:'), asked = new TestClient(app).websocket('/');
`;

const NODE_TYPES = '^24.0.0';

for (const typescript of ['5.9', '6.0', '7.0']) {
  test(`programs that use the installed npm package compile with TypeScript ${typescript} and the moduleResolution "nodenext" or "bundler"`, (t) => {
    const compiler = scratch(t, `typescript-${typescript}`, {
      typescript: `~${typescript}.0`,
      '@types/node': NODE_TYPES,
    });
    if (compiler === undefined) return;
    const { version } = JSON.parse(
      readFileSync(join(compiler, 'node_modules/typescript/package.json'), 'utf8'),
    ) as { version: string };
    assert.ok(version.startsWith(`${typescript}.`), version);
    // both of what is asserted at once, for a compiler takes longest to read the declarations; once without those of browsers, which not everybody has
    typeCheck(
      t,
      compiler,
      {
        module: 'nodenext',
        moduleResolution: 'nodenext',
        lib: ['es2024', 'esnext.disposable'],
        types: ['node'],
      },
      { 'typed.ts': TYPED, ...typeAssertionsOutside() },
    );
    typeCheck(t, compiler, { module: 'esnext', moduleResolution: 'bundler' }, { 'typed.ts': TYPED }); // the package asks for the types of Node
    typeCheck(t, compiler, { module: 'nodenext', declaration: true }, { 'declared.ts': DECLARED }); // TS2742, TS2883
  });
}

function typeCheck(
  t: TestContext,
  compiler: string,
  options: object,
  files: Readonly<Record<string, string>>,
): void {
  const compilerOptions = {
    target: 'es2024',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noPropertyAccessFromIndexSignature: true,
    skipLibCheck: false,
    skipDefaultLibCheck: true,
    noEmit: true,
    ...options,
  }; // the compiler's own library is none of ours, and a quarter of the time
  const cwd = folder(t, {
    'package.json': '{"private":true,"type":"module"}',
    ...files,
    'tsconfig.json': JSON.stringify({ compilerOptions, files: Object.keys(files) }),
  });
  mkdirSync(join(cwd, 'node_modules'));
  for (const [name, target] of [
    ['svc', join(consumer, 'node_modules/svc')],
    ['@types', join(compiler, 'node_modules/@types')],
  ] as const)
    symlinkSync(target, join(cwd, 'node_modules', name), 'dir');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(compiler, 'node_modules/typescript/bin/tsc'), '-p', '.'],
    { cwd, encoding: 'utf8' },
  );
  assert.equal(status, 0, `${JSON.stringify(options)}\n${stdout}${stderr}`);
}
