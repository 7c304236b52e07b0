/**
 * The command line, run as its users run it: bin/svc.js and the built package, in a folder of their own.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect, createServer } from 'node:net';
import { once } from 'node:events';
import { delimiter, join } from 'node:path';
import { before, test } from 'node:test';
import { BIN, ROOT, build } from '../support/build.ts';
import { Running, folder, project, run, start, svc } from '../support/run.ts';
import type { AddressInfo, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import type { Ended, RunOptions } from '../support/run.ts';

before(build);

const APP = "import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/', () => 'hello');\n";

/** Runs `svc run` in a folder with these files, and waits for its end; app.ts exports the application. */
function runOver(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  args: readonly string[] = ['app.ts'],
  options: RunOptions = {},
): Promise<Ended> {
  return svc(['run', ...args], { cwd: project(t, files), ...options });
}

/** Starts `svc run` on a free port; resolves when it listens. */
async function serve(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  args: readonly string[] = ['app.ts', '--port', '0'],
  options: RunOptions = {},
): Promise<{ server: Running; url: URL }> {
  const server = start(t, process.execPath, [BIN, 'run', ...args], { cwd: project(t, files), ...options });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  return { server, url: new URL(url!) };
}

test('svc --version prints the version of the package', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  assert.deepEqual(await svc(['--version']), { status: 0, signal: null, stdout: `${version}\n`, stderr: '' });
  assert.equal((await svc(['-V'])).stdout, `${version}\n`);
});

test('svc --help lists the commands, and svc without arguments also lists them but ends with status 2', async () => {
  const { status, stdout } = await svc(['--help']);
  assert.equal(status, 0);
  assert.match(stdout, /^Usage: svc <command> \[options\]$/m);
  assert.match(stdout, /^ {2}run +serves an application$/m);
  const alone = await svc([]);
  assert.equal(alone.status, 2);
  assert.equal(alone.stdout, stdout);
});

test('svc help run and svc run --help describe the options of svc run', async () => {
  const { status, stdout } = await svc(['help', 'run']);
  assert.equal(status, 0);
  for (const option of ['--host', '--port', '--env-file'])
    assert.match(stdout, new RegExp(`^ {2}${option} `, 'm'));
  assert.equal((await svc(['run', '--help'])).stdout, stdout);
});

for (const [what, args, message] of [
  ['an unknown command', ['runn', 'app.ts'], /unknown command "runn": did you mean "run"\?/],
  ['an unknown command that is similar to no other', ['serve'], /unknown command "serve"$/m],
  ['a command with the name of an inherited property', ['constructor'], /unknown command "constructor"$/m],
  ['an unknown command after help', ['help', 'rum'], /did you mean "run"\?/],
  [
    'an unknown option before the command',
    ['--verson'],
    /unknown option "--verson": did you mean "--version"\?/,
  ],
  ['an unknown option', ['run', 'app.ts', '--prot', '1'], /unknown option "--prot": did you mean "--port"\?/],
  ['no module', ['run'], /run needs a module/],
  ['two modules', ['run', 'a.ts', 'b.ts'], /run takes one module, but found a second argument "b\.ts"/],
  ['an option without its value', ['run', 'app.ts', '--port'], /--port needs a value$/m],
  [
    'an option whose value looks like another option',
    ['run', 'app.ts', '--port', '-1'],
    /--port needs a value, found "-1"$/m,
  ],
  [
    'an option of fixed values without a value',
    ['routes', 'app.ts', '--format'],
    /--format needs one of human, json$/m,
  ],
  ['a switch with a value', ['run', 'app.ts', '--reload=yes'], /--reload takes no value$/m],
  [
    'a port that is not a number',
    ['run', 'app.ts', '--port', 'http'],
    /--port needs a number from 0 to 65535, found "http"/,
  ],
  ['a port beyond 65535', ['run', 'app.ts', '--port=65536'], /found "65536"/],
] as const) {
  test(`svc refuses ${what} with status 2, and prints one line with the mistake and one with a remedy`, async () => {
    const { status, stdout, stderr } = await svc(args);
    assert.equal(status, 2, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, message);
    assert.match(
      stderr,
      /^svc: Cannot understand the command line: [^\n]+\n {5}See: svc (?:(?:run|routes) )?--help\n$/,
    );
    assert.equal(stderr.includes(`See: svc ${args[0]} --help`), ['run', 'routes'].includes(args[0]), stderr);
  });
}

for (const [what, files, target, message] of [
  [
    'a missing module',
    {},
    'nope.ts',
    /^svc: Cannot load "nope\.ts": the folder .+ contains no such file, and no such package is installed\n {5}Name a module/,
  ],
  ['a missing path', {}, './nope.ts', /contains no such file/],
  [
    'a folder',
    { 'lib/x.ts': '' },
    'lib',
    /the folder .+ contains no such file, and no such package is installed; the path names a folder$/m,
  ],
  [
    'a file whose name is misspelt',
    { 'src/app.ts': APP },
    'src/ap.ts',
    /no such package is installed: did you mean "src\/app\.ts"\?$/m,
  ],
  [
    'a module without the export',
    { 'app.ts': 'export const server = 1;' },
    'app.ts',
    /Cannot load "app\.ts:app": there is no such export: the module exports server$/m,
  ],
  [
    'a misspelt export',
    { 'app.ts': APP },
    'app.ts:ap',
    /Cannot load "app\.ts:ap": there is no such export: the module exports app; did you mean ":app"\?/,
  ],
  [
    'an application of another name',
    { 'app.ts': APP.replaceAll('app', 'server') },
    'app.ts',
    /did you mean ":server"\?/,
  ],
  ['a module without exports', { 'app.ts': '' }, 'app.ts', /the module exports nothing/],
  [
    'an export of another type',
    { 'app.ts': 'export const app = () => 1;' },
    'app.ts',
    /the function returns a value of the type number, but must return an application made with new Svc\(\)/,
  ],
  [
    'an export that is null',
    { 'app.ts': 'export const app = null;' },
    'app.ts',
    /the export has the type null/,
  ],
  [
    'TypeScript that does not parse',
    { 'app.ts': '\n\nexport const app = (;\n' },
    'app.ts',
    /"app\.ts": \/.+\/app\.ts:3: Expression expected$/m,
  ],
  [
    'JavaScript that does not parse',
    { 'app.ts': "import './lib.js';", 'lib.js': 'export const one = 1;\none one;\n' },
    'app.ts',
    /"app\.ts": \/.+\/lib\.js:2: Unexpected identifier 'one'$/m,
  ],
  [
    'a decorator',
    { 'app.ts': 'const d = (c: unknown) => c as any;\n@d class A {}' },
    'app.ts',
    /app\.ts: Invalid or unexpected token: decorators and "accessor" need NODE_OPTIONS='--import tsx'/,
  ],
  [
    'an enum',
    { 'app.ts': '\nenum Colour { red }\n' },
    'app.ts',
    /app\.ts:2: TypeScript enum is not supported in strip-only mode: use erasable syntax only, or start with NODE_OPTIONS='--import tsx'/,
  ],
  [
    'a type imported as a value',
    { 'app.ts': "import { Svc, SvcOptions } from 'svc';\n" },
    'app.ts',
    /app\.ts:1: .*does not provide an export named 'SvcOptions': if the export is a type, write "import type"/,
  ],
  [
    'an alias of tsconfig',
    { 'app.ts': "import { x } from '@/lib/x';\n" },
    'app.ts',
    /Cannot find package '@\/lib' .*: tsconfig "paths" are not read; use "imports" in package\.json/,
  ],
  [
    'a package that is not installed',
    { 'app.ts': "import 'nothing-of-that-name';\n" },
    'app.ts',
    /Cannot find package 'nothing-of-that-name' imported from \/.+\/app\.ts$/m,
  ],
  [
    'TypeScript inside a package',
    {
      'app.ts': "import 'raw';",
      'node_modules/raw/package.json': '{"type":"module","exports":"./raw.ts"}',
      'node_modules/raw/raw.ts': '',
    },
    'app.ts',
    /packages must ship JavaScript/,
  ],
  [
    'a module that throws',
    { 'app.ts': '\nthrow new RangeError("too much\\nof it");\n' },
    'app.ts',
    /"app\.ts": \/.+\/app\.ts:2: RangeError: too much\n {5}Set SVC_DEBUG=1 to see the stack/,
  ],
  [
    'a module in which Node throws',
    { 'app.ts': '\n\nnew URL("x");\n' },
    'app.ts',
    /app\.ts:3: TypeError: Invalid URL/,
  ],
  ['a module that throws no error', { 'app.ts': 'throw null;' }, 'app.ts', /the module threw null/],
  [
    'a mistake in a declaration',
    { 'app.ts': "import { Svc } from 'svc';\nexport const app = new Svc({ titel: 'x' });\n" },
    'app.ts',
    /app\.ts:2: Cannot configure Svc: unknown option "titel": did you mean "title"\?\n {5}Use one of the documented options/,
  ],
  [
    'a top-level await that never settles',
    { 'app.ts': 'await new Promise(() => {});' },
    'app.ts',
    /a top-level await waits forever/,
  ],
  [
    'a function of the application that never settles',
    { 'app.ts': 'export const app = () => new Promise(() => {});' },
    'app.ts',
    /the function app\(\) waits forever/,
  ],
  [
    'a startup hook that never settles',
    { 'app.ts': `${APP}app.onStartup(() => new Promise(() => {}));` },
    'app.ts',
    /a startup hook waits forever/,
  ],
  [
    'a plugin that never starts',
    {
      'app.ts': `${APP}app.register({ name: 'stock', register: () => {}, startup: () => new Promise(() => {}) });`,
    },
    'app.ts',
    /the start of the plugin "stock" waits forever/,
  ],
  [
    'a dependency of scope "app" that never settles',
    {
      'app.ts': `import { Depends } from 'svc';
${APP}app.get('/stock', { stock: Depends(() => new Promise(() => {}), { scope: 'app' }) }, () => 'x');`,
    },
    'app.ts',
    /a dependency of scope "app" waits forever/,
  ],
] as const) {
  test(`for ${what}, svc run ends with status 3 and prints the reason`, async (t) => {
    const { status, stdout, stderr } = await runOver(t, files, [target, '--port', '0']);
    assert.equal(status, 3, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, message);
    assert.match(stderr, /^svc: [^\n]+\n {5}[^\n]+\n$/);
  });
}

for (const [said, source] of [
  [
    'Cannot use import statement outside a module',
    "import { Svc } from 'svc';\nexport const app = new Svc();\n",
  ],
  ["Unexpected token 'export'", 'export const app = 1;\n'],
] as const) {
  test(`if package.json makes the application CommonJS and Node reports "${said}", svc run suggests "type": "module"`, async (t) => {
    const { status, stderr } = await runOver(t, { 'package.json': '{"type":"commonjs"}', 'app.ts': source });
    assert.equal(status, 3, stderr);
    assert.match(
      stderr,
      /^svc: Cannot load "app\.ts": .+\/app\.ts:1: .+: the nearest package\.json makes the file a CommonJS module; set "type": "module" there$/m,
    );
    assert.ok(stderr.includes(`: ${said}: `), stderr);
  });
}

for (const [name, better] of [
  ['app.cts', '.mts'],
  ['app.cjs', '.mjs'],
] as const) {
  test(`for an ES module in the file ${name}, whose extension means CommonJS, svc run suggests the extension of ES modules`, async (t) => {
    const { status, stderr } = await runOver(t, { 'package.json': '{"type":"module"}', [name]: APP }, [name]);
    assert.equal(status, 3, stderr);
    assert.ok(stderr.includes(`: the file name means CommonJS; rename the file to ${better}\n`), stderr);
  });
}

test('svc run prints every mistake that app.compileAll() finds, with file and line, and ends with status 3', async (t) => {
  const { status, stderr } = await runOver(t, {
    'app.ts': `${APP}app.get('/', () => 'twice');\napp.get('/a', { name: 'x' }, () => 1);\napp.get('/b', { name: 'x' }, () => 2);\n`,
  });
  assert.equal(status, 3);
  assert.match(
    stderr,
    /^svc: Cannot start the application in production: 2 mistakes\n {2}SVC101 GET \/: .*app\.ts:4:\d+\)\n {2}SVC104 GET \/b: .*app\.ts:6:\d+\)\n {5}Correct each finding; "svc check" prints the same list with remedies\n$/,
  );
});

test('with SVC_DEBUG=1, svc run prints the stack of an error that the application module throws at import', async (t) => {
  const { status, stderr } = await runOver(
    t,
    { 'app.ts': 'function deep() { throw new Error("x"); }\ndeep();' },
    ['app.ts'],
    { env: { SVC_DEBUG: '1' } },
  );
  assert.equal(status, 3);
  assert.match(stderr, /at deep \(.*app\.ts:1:\d+\)\n +at .*app\.ts:2:1/);
});

test('if a startup hook throws, svc run prints the stack and ends with status 1', async (t) => {
  const { status, stderr } = await runOver(
    t,
    { 'app.ts': `${APP}app.onStartup(() => { throw new Error('no database'); });` },
    ['app.ts', '--port', '0'],
  );
  assert.equal(status, 1);
  assert.match(stderr, /^svc: Error: no database\n +at .*app\.ts:4/);
});

test('in imports of the application, svc run resolves ./x.js and ./x to ./x.ts, and a folder to its index.ts', async (t) => {
  const { url } = await serve(t, {
    'app.ts':
      "import { Svc } from 'svc';\nimport { a } from './a.js';\nimport { b } from './b';\nimport { c } from './c';\nexport const app = new Svc();\napp.get('/', () => a + b + c);\n",
    'a.ts': "export const a: string = 'a';",
    'b.ts': "export const b: string = 'b';",
    'c/index.ts': "export const c: string = 'c';",
  });
  assert.equal(await (await fetch(url)).text(), 'abc');
});

test('svc run accepts a module name without extension, and the name of an export after a colon', async (t) => {
  const { url } = await serve(t, { 'src/main.ts': APP.replaceAll('app', 'shop') }, [
    'src/main:shop',
    '--port',
    '0',
  ]);
  assert.equal(await (await fetch(url)).text(), 'hello');
});

test('svc run loads a package that has only the condition "import" in its "exports"', async (t) => {
  const { url } = await serve(
    t,
    {
      'node_modules/shop/package.json': '{"type":"module","exports":{".":{"import":"./app.js"}}}',
      'node_modules/shop/app.js': APP,
    },
    ['shop', '--port', '0'],
  );
  assert.equal(await (await fetch(url)).text(), 'hello');
});

test('svc run loads a module that is named by an entry of "imports" in package.json', async (t) => {
  const { url } = await serve(
    t,
    { 'package.json': '{"type":"module","imports":{"#app":"./src/app.ts"}}', 'src/app.ts': APP },
    ['#app', '--port', '0'],
  );
  assert.equal(await (await fetch(url)).text(), 'hello');
});

test('svc run loads modules with enums and decorators if NODE_OPTIONS is "--import tsx"', async (t) => {
  const tsx = createRequire(join(ROOT, 'package.json')).resolve('tsx');
  const { url } = await serve(
    t,
    {
      'app.ts': `${APP}enum Colour { red = 'red' }\nconst keep = (c: any, _: unknown) => c;\n@keep class A { colour = Colour.red; }\napp.get('/colour', () => new A().colour);\n`,
    },
    undefined,
    { env: { NODE_OPTIONS: `--import ${JSON.stringify(tsx)}` } },
  );
  assert.equal(await (await fetch(new URL('/colour', url))).text(), 'red');
});

test('svc run ends with status 1 when the port is in use', async (t) => {
  const holder = createServer().listen(0, '127.0.0.1');
  t.after(() => {
    holder.close();
  });
  await once(holder, 'listening');
  const { port } = holder.address() as AddressInfo;
  const { status, stderr } = await runOver(t, { 'app.ts': APP }, ['app.ts', '--port', String(port)]);
  assert.equal(status, 1);
  assert.equal(
    stderr,
    `svc: Cannot listen on 127.0.0.1:${port}: the address is in use\n     Choose another --host or --port, or stop the process that uses the address\n`,
  );
});

test('if Node runs with --permission and lacks a required --allow flag, svc names the missing flag (E_PERMISSION)', async (t) => {
  const cwd = project(t, { 'app.ts': APP });
  const permitted = (flags: readonly string[], args: readonly string[]): Promise<Ended> =>
    run(process.execPath, ['--permission', '--allow-fs-read=*', ...flags, BIN, ...args], {
      cwd,
      env: { NODE_V8_COVERAGE: '' },
    });
  const reported = (flag: string): string =>
    `svc: Cannot continue: Node runs with --permission, but without the permission ${flag}\n     Start Node with the missing permission;`;
  const checked = await permitted([], ['check', 'app.ts']);
  assert.deepEqual(
    [checked.status, checked.stderr.slice(0, reported('--allow-child-process').length)],
    [1, reported('--allow-child-process')],
  );
  assert.equal((await permitted(['--allow-child-process'], ['check', 'app.ts'])).status, 0);
  if (!process.allowedNodeEnvironmentFlags.has('--allow-net')) return; // Node 24
  const served = await permitted([], ['run', 'app.ts', '--port', '0']);
  assert.deepEqual(
    [served.status, served.stderr.slice(0, reported('--allow-net').length)],
    [1, reported('--allow-net')],
  );
});

test('svc run listens at SVC_HOST and SVC_PORT, which the options --host and --port override', async (t) => {
  const byVariables = await serve(t, { 'app.ts': APP }, ['app.ts'], {
    env: { SVC_HOST: '0.0.0.0', SVC_PORT: '0' },
  });
  assert.equal(byVariables.url.hostname, '0.0.0.0');
  const byOptions = await serve(t, { 'app.ts': APP }, ['app.ts', '--host', '127.0.0.1', '--port', '0'], {
    env: { SVC_HOST: 'nowhere.invalid', SVC_PORT: '1' },
  });
  assert.equal(byOptions.url.hostname, '127.0.0.1');
});

test('in production, svc run ends with status 3 if SVC_PORT is not a number, and its message names SVC_PORT', async (t) => {
  const { status, stderr } = await runOver(t, { 'app.ts': APP }, ['app.ts'], { env: { SVC_PORT: 'http' } });
  assert.equal(status, 3);
  assert.match(
    stderr,
    /^svc: Cannot start the application in production: 1 mistake\n {2}SVC401 setting port: Cannot read SVC_PORT: a finite decimal number is needed/,
  );
});

test('if the application has only one compilation error, svc run also prints the remedy', async (t) => {
  const { status, stderr } = await runOver(t, {
    'app.ts': `${APP.replace('{ Svc', '{ SessionMiddleware, Svc')}app.use(new SessionMiddleware());\n`,
  });
  assert.equal(status, 3);
  assert.match(
    stderr,
    /^svc: Cannot start the application in production: 1 mistake\n {2}SVC205 setting authSecret: [^\n]+\n {5}Set SVC_AUTH_SECRET to the output of: node -p "crypto\.randomBytes\(32\)\.toString\('hex'\)"\. If a file sets the variable, name it with --env-file\n$/,
  );
});

test('svc run --env-file sets environment variables before it loads the application, but does not override existing variables', async (t) => {
  const cwd = project(t, {
    'app.ts': `${APP}console.log(process.env.FROM_FILE, process.env.SET_BEFORE);`,
    'my.env': 'FROM_FILE=file\nSET_BEFORE=file\nSVC_PORT=0\n',
  });
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--env-file', 'my.env'], {
    cwd,
    env: { SET_BEFORE: 'environment' },
  });
  await server.printed(/^file environment$/m);
  const [, port] = await server.printed(/"url":"http:\/\/127\.0\.0\.1:(\d+)"/);
  assert.notEqual(port, '8000');
});

test('svc run does not read the file .env unless --env-file names it', async (t) => {
  const { server } = await serve(t, {
    'app.ts': `${APP}console.log('env:', process.env.FROM_FILE);`,
    '.env': 'FROM_FILE=file\n',
  });
  await server.printed(/^env: undefined$/m);
});

test('svc run --env-file ends with an error if the file is missing', async (t) => {
  // Node.js itself reads the option --env-file anywhere on its command line before svc runs, so the message
  // and the status 9 are its own
  const byNode = await runOver(t, { 'app.ts': APP }, ['app.ts', '--env-file', 'nope.env']);
  assert.ok(byNode.status === 9 || byNode.status === 2, `status ${byNode.status}`);
  assert.match(byNode.stderr, /^[^\n]*nope\.env[^\n]*\n/);
  const bySvc = await run(process.execPath, ['--', BIN, 'run', 'app.ts', '--env-file', 'nope.env'], {
    cwd: project(t, { 'app.ts': APP }),
  });
  assert.equal(bySvc.status, 2);
  assert.match(bySvc.stderr, /^svc: .*--env-file nope\.env cannot be read: ENOENT\n/);
});

/**
 * An application that prints a line when a request has reached its handler, and responds when the body is
 * complete.
 */
const ECHO = `import { Svc } from 'svc';
export const app = new Svc();
app.post('/', { public: true }, async ({ req }) => { console.log('reading'); return await req.text(); });
app.onShutdown(() => { console.log('shut down'); });
`;

/** Sends a request except its last byte. Resolves when the handler waits for that byte. */
async function halfRequest(t: TestContext, server: Running, url: URL): Promise<Socket> {
  const socket = connect(Number(url.port), url.hostname);
  t.after(() => {
    socket.destroy();
  });
  socket.on('error', () => {
    /* an error of this request is expected, because the server may end at once */
  });
  socket.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\na');
  await server.printed(/^reading$/m);
  return socket;
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`on ${signal}, svc run refuses new connections, finishes the running request, shuts down and ends with status 0`, async (t) => {
    const { server, url } = await serve(t, { 'app.ts': ECHO });
    const socket = await halfRequest(t, server, url);
    server.child.kill(signal);
    await server.printed(/"event":"draining","in_flight":1/);
    // the server first reads the connections that the operating system has already accepted
    const refusal = async (): Promise<unknown> => {
      for (;;) {
        try {
          await (await fetch(url)).body?.cancel();
        } catch (error) {
          return ((error as Error).cause as NodeJS.ErrnoException).code;
        }
      }
    };
    assert.equal(await refusal(), 'ECONNREFUSED');
    let answer = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      answer += text;
    });
    socket.write('b');
    await once(socket, 'end');
    assert.match(answer, /^HTTP\/1\.1 200 OK\r\n/);
    assert.match(answer, /\r\nConnection: close\r\n/i);
    assert.match(answer, /\r\n\r\nab$/);
    const { status, stdout, stderr } = await server.ended;
    assert.equal(status, 0);
    assert.match(stdout, /^shut down$/m);
    assert.match(stderr, /"event":"stopped"/);
  });
}

test('on a second SIGTERM, svc run ends at once with status 143', async (t) => {
  const { server, url } = await serve(t, { 'app.ts': ECHO });
  await halfRequest(t, server, url);
  server.child.kill('SIGTERM');
  await server.printed(/"event":"draining"/);
  server.child.kill('SIGTERM');
  const { status, stdout } = await server.ended;
  assert.equal(status, 143);
  assert.doesNotMatch(stdout, /shut down/);
});

/** A project that contains its own copy of the package. */
function projectWithOwnCopy(t: TestContext, change: (copy: string) => void): string {
  const cwd = folder(t, { 'package.json': '{"type":"module"}', 'app.ts': APP });
  const copy = join(cwd, 'node_modules/svc');
  mkdirSync(copy, { recursive: true });
  for (const part of ['package.json', 'bin', 'dist'])
    cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  change(copy);
  return cwd;
}

test('svc run uses the copy of svc that the application imports, even if the command belongs to a different copy', async (t) => {
  const cwd = projectWithOwnCopy(t, (copy) => {
    writeFileSync(
      join(copy, 'dist/cli/main.js'),
      `console.log('their own copy');\n${readFileSync(join(copy, 'dist/cli/main.js'), 'utf8')}`,
    );
  });
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], { cwd });
  await server.printed(/^their own copy$/m);
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  assert.equal(await (await fetch(url!)).text(), 'hello');
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
});

test("svc run uses the application's own copy of svc, even if that copy is bundled with its command line in dist/cli.js", async (t) => {
  const cwd = projectWithOwnCopy(t, (copy) => {
    rmSync(join(copy, 'dist/cli/main.js'));
    writeFileSync(
      join(copy, 'dist/cli.js'),
      'export const main = async (argv) => console.log(`joined: ${argv.join(" ")}`);\n',
    );
  });
  const { status, stdout } = await svc(['run', 'app.ts'], { cwd });
  assert.deepEqual([status, stdout], [0, 'joined: run app.ts\n']);
});

test('svc run ends with status 3 if the copy of svc that the application imports has no command-line code', async (t) => {
  const cwd = projectWithOwnCopy(t, (copy) => rmSync(join(copy, 'dist/cli/main.js')));
  const { status, stderr } = await svc(['run', 'app.ts'], { cwd });
  assert.equal(status, 3);
  assert.match(
    stderr,
    /^svc: Cannot load "app\.ts": the package "svc" that the module imports is incomplete or a different package: the file .*cli\/main\.js is missing\n/,
  );
});

test('bin/svc.js prints one line and ends with status 4 if the folder dist with its code is missing', async (t) => {
  const cwd = projectWithOwnCopy(t, (copy) => rmSync(join(copy, 'dist'), { recursive: true }));
  const { status, stderr } = await run(process.execPath, [
    join(cwd, 'node_modules/svc/bin/svc.js'),
    '--version',
  ]);
  assert.equal(status, 4);
  assert.match(stderr, /^svc: cannot load its own code: [^\n]+\n$/);
});

const need = createRequire(import.meta.url)('../../bin/need-node.cjs') as {
  isSupported(version: string): boolean;
  complaint(version: string, path: string): string;
};

for (const [version, expected] of [
  ['14.21.3', false],
  ['20.20.2', false],
  ['22.23.2', false],
  ['24.0.0', false],
  ['24.15.0', false],
  ['24.16.0', true],
  ['24.18.1', true],
  ['24.21.0', true],
  ['25.9.0', false],
  ['26.0.0', false],
  ['26.1.0', true],
  ['26.10.0', true],
  ['27.0.0-alpha.1', true],
  ['28.0.0', true],
  ['100.0.0', true],
] as const) {
  test(`need-node.cjs ${expected ? 'accepts' : 'refuses'} Node ${version}`, () => {
    assert.equal(need.isSupported(version), expected);
  });
}

test('need-node.cjs prints the required version of Node, the found version and the path of Node', () => {
  const line = need.complaint('20.1.0', '/opt/node');
  assert.match(line, /24\.18\.1.*26\.5\.1.*20\.1\.0.*\/opt\/node/);
  assert.doesNotMatch(line, /\n/);
});

/** Returns the first Node.js on PATH that is too old, with its version. */
async function oldNode(): Promise<{ path: string; version: string } | undefined> {
  for (const directory of new Set((process.env['PATH'] ?? '').split(delimiter))) {
    const path = join(directory, 'node');
    const found = await run(path, ['--version']).catch(() => undefined);
    const version = found?.stdout.trim().replace(/^v/, '');
    if (version !== undefined && Number(version.split('.')[0]) < 24) return { path, version };
  }
  return undefined;
}

test('in a Node version that is too old, bin/svc.js and need-node.cjs end with status 2 and name the required version', async (t) => {
  const old = await oldNode();
  if (old === undefined) return t.skip('there is no Node below 24 on PATH');
  const command = await run(old.path, [BIN, '--version']);
  assert.equal(command.status, 2);
  assert.equal(command.stdout, '');
  assert.match(command.stderr, /^svc needs Node\.js 24\.18\.1 [^\n]+\n$/);
  assert.ok(command.stderr.includes(old.version), command.stderr);
  const guard = await run(old.path, [join(ROOT, 'bin/need-node.cjs')]);
  assert.equal(guard.status, 2);
  assert.match(
    guard.stderr,
    /^svc needs Node\.js 24\.18\.1 [^\n]+\nIf npm refused [^\n]+ npm rebuild node\n$/,
  );
});

test('in production, svc run refuses an application with errors of svc check, unless --no-check is given', async (t) => {
  const files = {
    'app.ts': "import { Svc } from 'svc';\nexport const app = new Svc();\napp.post('/', () => 'done');\n",
  };
  const refused = await run(process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], {
    cwd: project(t, files),
  });
  assert.equal(refused.status, 3);
  assert.match(refused.stderr, /SVC201 POST \//);
  const server = new Running(process.execPath, [BIN, 'run', 'app.ts', '--port', '0', '--no-check'], {
    cwd: project(t, files),
  });
  t.after(() => server.child.kill('SIGKILL'));
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await server.printed(/"event":"check_failed","rule":"SVC201","subject":"POST \/"/);
  assert.equal(await (await fetch(url!, { method: 'POST' })).text(), 'done');
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
});
