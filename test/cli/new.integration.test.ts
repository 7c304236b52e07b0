/**
 * `svc new`, run as its users run it. The project that it writes is tested, type-checked, installed offline
 * and served.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  cpSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { moveEntries } from '../../src/cli/new.ts';
import { openDatabase } from '../../src/db/open.ts';
import { FAULTS } from '../../src/base/faults.ts';
import { createToken } from '../../src/crypto/jwt.ts';
import { starterFiles } from '../../src/cli/starter/starter.ts';
import { BIN, ROOT, build } from '../support/build.ts';
import { needsPostgres, postgresUrl } from '../support/postgres-database.ts';
import { folder, inReverse, run, start } from '../support/run.ts';
import { manual } from '../support/manuals.ts';
import { npmEnvironment } from '../support/scratch.ts';
import { Visitor } from '../support/visitor.ts';
import type { Ended, RunOptions, Running } from '../support/run.ts';
import type { TestContext } from 'node:test';

before(build);

/** Settings of logins in production. */
const GITHUB = {
  SVC_BASE_URL: 'https://notes.example',
  SVC_GITHUB_CLIENT_ID: 'client',
  SVC_GITHUB_CLIENT_SECRET: 'of-nobody',
};

const MANIFEST = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  version: string;
  engines: { node: string };
  scripts: Record<string, string>;
};
const FILES = starterFiles({
  root: ROOT,
  name: 'x',
  source: 'registry',
  dependency: '',
  engine: '',
  secret: '',
  password: '',
}).map(({ path }) => path);

function svcNew(cwd: string, args: readonly string[], bin = BIN): Promise<Ended> {
  return run(process.execPath, [bin, 'new', ...args], { cwd });
}

const shared = folder({ after });
let linked: Promise<Ended> | undefined;

/**
 * Returns a copy of a project that `svc new shop --link` has created. The project is created once for all
 * tests of this file; the test may change its copy.
 */
async function madeLinked(t: TestContext): Promise<string> {
  const { status, stderr } = await (linked ??= svcNew(shared, ['shop', '--link']));
  assert.equal(status, 0, stderr);
  const path = join(folder(t), 'shop');
  cpSync(join(shared, 'shop'), path, { recursive: true, verbatimSymlinks: true });
  return path;
}

/** Creates a project, and returns its folder, which the test may change. */
async function made(t: TestContext, args: readonly string[], bin = BIN): Promise<string> {
  const cwd = folder(t);
  const { status, stderr } = await svcNew(cwd, ['shop', ...args], bin);
  assert.equal(status, 0, stderr);
  return join(cwd, 'shop');
}

/** Environment in which npm has no network and an empty cache. */
function npm(t: TestContext, args: readonly string[], cwd: string): Promise<Ended> {
  return run('npm', args, {
    cwd,
    env: {
      ...npmEnvironment(),
      npm_config_cache: folder(t),
      npm_config_registry: 'http://127.0.0.1:1',
      npm_config_audit: 'false',
      npm_config_fund: 'false',
      npm_config_fetch_retries: '0',
    },
  });
}

/** Every entry below a folder, without following links, with the attributes that a change would affect. */
function snapshot(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .flatMap((entry) => {
      const { mode, mtimeMs, size, ino } = lstatSync(join(path, entry.name));
      const below = entry.isDirectory() ? snapshot(join(path, entry.name)) : [];
      return [[join(path, entry.name), mode, mtimeMs, size, ino].join(' '), ...below];
    })
    .sort();
}

function manifestOf(path: string): {
  name: string;
  engines: object;
  dependencies: Record<string, string>;
} {
  return JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as ReturnType<typeof manifestOf>;
}

/** Serves the project as in development, on a free port. */
async function serving(
  t: TestContext,
  path: string,
  env: RunOptions['env'] = {},
): Promise<{ readonly server: Running; readonly visitor: Visitor }> {
  const server = start(
    t,
    process.execPath,
    [join(path, 'node_modules/svc/bin/svc.js'), 'run', 'src/app.ts', '--env-file', '.env'],
    { cwd: path, env: { ...env, SVC_PORT: '0' } },
  );
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)","env":"development"/);
  return { server, visitor: new Visitor(url!) };
}

/**
 * Serves the project with a database that does not exist yet, logs in, writes one note on the page and one by
 * the JSON API, and ends the server with SIGTERM.
 */
async function serves(t: TestContext, path: string): Promise<void> {
  const { server, visitor } = await serving(t, path);
  await visitor.logIn();
  assert.ok(
    (await (await visitor.visit('/')).text()).includes(String.raw` pattern=".*\S.*" `),
    'what browsers take for a note',
  );
  const page = await visitor.submit('/', { text: 'hello' });
  assert.match(page, /<h1>shop<\/h1>[\s\S]*Logged in as <strong>Ada Lovelace<[\s\S]*<p>hello<\/p>/);
  const [, Authorization] = /Authorization: (Bearer [\w.-]+)/.exec(await visitor.submit('/token'))!;
  const created = await fetch(`${visitor.url}/api/notes`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: Authorization! },
    body: '{"text":"by a program"}',
  });
  assert.equal(created.status, 201);
  assert.match(created.headers.get('location')!, /^\/api\/notes\/[\da-f-]{36}$/);
  assert.match(await visitor.logOut(), />Log in with dev</);
  assert.match(await (await fetch(`${visitor.url}/readyz`)).text(), /"database":\{"status":"up"/);
  await stops(server);
  assert.deepEqual(databaseFiles(path), ['data.db'], 'its log is written back');
}

async function stops(server: Running): Promise<void> {
  server.child.kill('SIGTERM');
  const { status, stderr } = await server.ended;
  assert.equal(status, 0, stderr);
  assert.match(stderr, /"event":"stopped"/);
}

function databaseFiles(path: string): string[] {
  return readdirSync(path)
    .filter((name) => name.startsWith('data.db'))
    .sort();
}

test('svc new --link creates a project that starts and passes its tests without npm install', async (t) => {
  const path = await made(t, ['--link']);
  assert.equal(realpathSync(join(path, 'node_modules/svc')), realpathSync(ROOT));
  assert.equal(realpathSync(join(path, 'node_modules/.bin/svc')), realpathSync(BIN));
  const tests = await run(process.execPath, ['--test', 'test/**/*.test.ts'], { cwd: path });
  assert.equal(tests.status, 0, tests.stdout);
  assert.match(tests.stdout, /^. pass \d\d$/m);
  await serves(t, path);
});

test('svc check reports nothing for a new project of svc new', async (t) => {
  const path = await madeLinked(t);
  for (const args of [[], ['--fail-level', 'info'], ['--fail-level', 'info', '--env', 'production']]) {
    const { status, stdout, stderr } = await run(
      process.execPath,
      [BIN, 'check', 'src/app.ts', '--max-warnings', '0', '--skip', 'SVC404', '--env-file', '.env', ...args],
      { cwd: path },
    ); // SVC404 is about the Node.js that runs the test
    assert.equal(status, 0, stdout + stderr);
  }
});

test('a new project of svc new does not start if its secret is missing, and the error names the environment variable', async (t) => {
  const { status, stderr } = await run(process.execPath, [BIN, 'run', 'src/app.ts', '--port', '0'], {
    cwd: await madeLinked(t),
  });
  assert.equal(status, 3);
  assert.match(stderr, /SVC205 setting authSecret: [^\n]*\(SVC_AUTH_SECRET\), which is not set/);
});

test('in production, a new project starts only after its database is migrated, and its stored notes survive a restart', async (t) => {
  const path = await madeLinked(t);
  const secret = randomBytes(32).toString('hex');
  const inProduction: RunOptions = {
    cwd: path,
    env: { ...GITHUB, SVC_AUTH_SECRET: secret, SVC_PORT: '0', SVC_DATABASE_URL: 'sqlite:./kept.db' },
  };
  const svc = (...args: string[]): [string, string[], RunOptions] => [
    process.execPath,
    [BIN, ...args, 'src/app.ts'],
    inProduction,
  ];
  const tooEarly = await run(...svc('run'));
  assert.equal(tooEarly.status, 1);
  assert.match(
    tooEarly.stderr,
    /Cannot start: the database "database" lacks migrations: oauth\/[^\n]*, 0001_notes\n[^\n]*svc migrate up/,
  );
  assert.match(
    (await run(...svc('migrate', 'up'))).stdout,
    /^applied {2}oauth\/[^]*^applied {2}0001_notes /m,
  );
  const headers = {
    'Content-Type': 'application/json',
    Authorization: `Bearer ${createToken('github:1', secret, { type: 'at+jwt', claims: { scopes: ['notes:read', 'notes:write'] } })}`,
  };
  for (const time of [1, 2]) {
    const server = start(t, ...svc('run'));
    const [, url] = await server.printed(/"event":"listening","url":"([^"]+)","env":"production"/);
    if (time === 1) await fetch(`${url!}/api/notes`, { method: 'POST', headers, body: '{"text":"hello"}' });
    assert.match(await (await fetch(`${url!}/api/notes`, { headers })).text(), /"text":"hello"/);
    const login = await fetch(`${url!}/oauth/login`, { redirect: 'manual' });
    assert.match(
      login.headers.get('location')!,
      /^https:\/\/github\.com\/login\/oauth\/authorize\?[^]*redirect_uri=https%3A%2F%2Fnotes\.example%2Foauth%2Fcallback/,
    );
    assert.equal((await fetch(`${url!}/_dev/dev/authorize`)).status, 404);
    await stops(server);
  }
  const live = await run(...svc('check', '--live', '--skip', 'SVC404'));
  assert.equal(live.status, 0, live.stdout);
});

test('in production, a new project without a configured login provider refuses logins, and logs the reason', async (t) => {
  const path = await madeLinked(t);
  const server = start(t, process.execPath, [BIN, 'run', 'src/app.ts'], {
    cwd: path,
    env: {
      SVC_ENV: 'production',
      SVC_AUTH_SECRET: randomBytes(32).toString('hex'),
      SVC_PORT: '0',
      SVC_DATABASE_URL: 'sqlite::memory:',
    },
  });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)","env":"production"/);
  await server.printed(/"event":"login_missing"/);
  assert.match(await (await fetch(url!)).text(), /role="alert">There is no login yet/);
  for (const address of ['oauth/login', '_dev/dev/authorize'])
    assert.equal((await fetch(`${url!}/${address}`)).status, 404);
  assert.equal((await fetch(`${url!}/api/notes`)).status, 401);
  await stops(server);
});

test('svc check reports invalid login settings of a new project before the project starts', async (t) => {
  const path = await madeLinked(t);
  const check = (env: Record<string, string>): Promise<Ended> =>
    run(
      process.execPath,
      [
        BIN,
        'check',
        'src/app.ts',
        '--env',
        'production',
        '--env-file',
        '.env',
        '--max-warnings',
        '0',
        '--skip',
        'SVC404',
      ],
      { cwd: path, env },
    );
  assert.equal((await check(GITHUB)).status, 0);
  for (const [env, expected, failed = 1] of [
    [{ ...GITHUB, SVC_BASE_URL: undefined }, /SVC209 [^]*no redirect URI is allowed/],
    [{ ...GITHUB, SVC_BASE_URL: 'http://notes.example' }, /SVC209 [^]*is not https/],
    [{ ...GITHUB, SVC_BASE_URL: 'notes' }, /SVC_BASE_URL[^]*an address such as/, 3],
    [{ ...GITHUB, SVC_GITHUB_CLIENT_SECRET: undefined }, /the clientSecret is empty/, 3],
  ] as const) {
    const { status, stdout } = await check(
      Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined)) as Record<
        string,
        string
      >,
    );
    assert.equal(status, failed, stdout);
    assert.match(stdout, expected);
  }
});

test(
  'the CMD in the Dockerfile of a new project migrates the database, starts the server, and forwards SIGTERM to the server',
  { skip: process.platform === 'win32' && 'no sh' },
  async (t) => {
    const path = await madeLinked(t);
    const [command, ...args] = JSON.parse(
      /^CMD (.*)$/m.exec(readFileSync(join(path, 'Dockerfile'), 'utf8'))![1]!,
    ) as string[];
    const env = {
      ...npmEnvironment(),
      SVC_AUTH_SECRET: randomBytes(32).toString('hex'),
      SVC_PORT: '0',
      SVC_DATABASE_URL: `sqlite://${encodeURI(path)}/data/data.db`,
    };
    mkdirSync(join(path, 'data'));
    for (const expected of [/^applied {2}0001_notes /m, /^Nothing to apply$/m]) {
      const server = start(t, command!, args, { cwd: path, env });
      await server.printed(expected);
      await server.printed(/"event":"listening"/);
      await stops(server);
    }
  },
);

test('a new project stores its notes in PostgreSQL if DATABASE_URL names a PostgreSQL server, without a change of code', async (t) => {
  if (!needsPostgres(t)) return;
  const path = await madeLinked(t);
  const scope = inReverse(t); // the schema, after its users
  const url = await postgresUrl(scope);
  const inProduction: RunOptions = {
    cwd: path,
    env: { ...GITHUB, SVC_AUTH_SECRET: randomBytes(32).toString('hex'), DATABASE_URL: url },
  };
  const svc = (...args: string[]): Promise<Ended> => run(process.execPath, [BIN, ...args], inProduction);
  assert.match((await svc('migrate', 'up', 'src/app.ts')).stdout, /^applied {2}0001_notes /m);
  const live = await svc('check', 'src/app.ts', '--live', '--max-warnings', '0', '--skip', 'SVC404');
  assert.equal(live.status, 0, live.stdout + live.stderr);
  const { server, visitor } = await serving(scope as TestContext, path, { DATABASE_URL: url });
  await visitor.logIn();
  for (const text of ['hello', 'again']) await visitor.submit('/', { text });
  assert.match(await (await visitor.visit('/')).text(), /<p>again<\/p>[^]*<p>hello<\/p>/);
  await stops(server);
  await using db = await openDatabase(url);
  assert.deepEqual(await db.fetchAll('select text from note order by created_at'), [
    { text: 'hello' },
    { text: 'again' },
  ]);
  assert.deepEqual(databaseFiles(path), []);
});

/** A test for a new project: the clock advances a day between visits of the page. */
const DAYS = `
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock, TestClient } from 'svc/testing';

Object.assign(process.env, { SVC_ENV: 'test', SVC_DATABASE_URL: 'sqlite::memory:', SVC_AUTH_SECRET: '${'a1'.repeat(32)}' });
const { app } = await import('../src/app.ts');
test('days', async () => {
  const clock = new ManualClock(Date.now());
  await using client = new TestClient(app, { clock });
  const login = new URL((await client.get('/oauth/login')).headers.get('location'));
  const form = { ...Object.fromEntries(login.searchParams), user: 'ada' };
  const chosen = await client.post(login.pathname, { form });
  await client.get(chosen.headers.get('location'));
  const page = async () => (await client.get('/')).text();
  for (let day = 1; day < 30; day += 1) {
    await clock.advance(86_400_000);
    assert.match(await page(), /Logged in as <strong>Ada Lovelace</, \`day \${day}\`);
  }
  await clock.advance(86_400_000);
  assert.match(await page(), /Log in with dev/);
});
`;

test('in a new project, a person who visits the page each day stays logged in for 30 days', async (t) => {
  const path = await madeLinked(t);
  writeFileSync(join(path, 'test/days.test.js'), DAYS);
  const tests = await run(process.execPath, ['--test', 'test/days.test.js'], { cwd: path });
  assert.equal(tests.status, 0, tests.stdout);
});

test('the tests of a new project pass on PostgreSQL', async (t) => {
  if (!needsPostgres(t)) return;
  const path = await madeLinked(t);
  const tests = await run(process.execPath, ['--test', 'test/app.test.ts'], {
    cwd: path,
    env: { POSTGRES_URL: await postgresUrl(t) },
  });
  assert.equal(tests.status, 0, tests.stdout);
  assert.match(tests.stdout, /a program writes, lists, reads and deletes a note/);
});

test('the backup command in README.md of a new project works while the server runs, and a server can use the backup', async (t) => {
  const path = await madeLinked(t);
  const { server, visitor } = await serving(t, path);
  await visitor.logIn();
  await visitor.submit('/', { text: 'hello' });
  const [, type, program] = /^node (--input-type=module) -e "([^"]+)"$/m.exec(
    readFileSync(join(path, 'README.md'), 'utf8'),
  )!;
  const backup = await run(process.execPath, [type!, '-e', program!], { cwd: path });
  assert.equal(backup.status, 0, backup.stderr);
  await stops(server);
  const restored = await serving(t, path, { SVC_DATABASE_URL: 'sqlite:./backup.db' });
  await restored.visitor.logIn();
  assert.match(await (await restored.visitor.visit('/')).text(), /<p>hello<\/p>/);
  await stops(restored.server);
});

test('the svc migrate commands in README.md of a new project print the documented output', async (t) => {
  const path = await madeLinked(t);
  const readme = readFileSync(join(path, 'README.md'), 'utf8');
  const typed = [...readme.matchAll(/`npx --no svc (migrate [^`]+)`/g)].map(([, command]) =>
    command!.split(' '),
  );
  assert.equal(typed.length, 2);
  const [create, list] = typed as [string[], string[]];
  const created = await run(process.execPath, [BIN, ...create], { cwd: path });
  assert.equal(created.status, 0, created.stderr);
  for (const direction of ['up', 'down'])
    writeFileSync(join(path, `migrations/0002_add_tags.${direction}.sql`), 'select 1;\n');
  const listed = await run(process.execPath, [BIN, ...list], { cwd: path });
  // on a busy machine, a statement may be slow
  assert.deepEqual(
    listed.stderr.split('\n').filter((line) => !/^$|"slow_statement"/.test(line)),
    [],
  );
  assert.match(
    listed.stdout,
    /^pending +oauth\/oauth_logins$[^]*^pending +0001_notes$[^]*^pending +0002_add_tags$/m,
  );
});

test('the script "test" of a new project checks the version of Node before it runs the tests', () => {
  const [template] = starterFiles({
    root: ROOT,
    name: 'x',
    source: 'registry',
    dependency: '',
    engine: '',
    secret: '',
    password: '',
  }).filter(({ path }) => path === 'package.json');
  assert.match(template!.text, /"test": "node node_modules\/svc\/bin\/need-node\.cjs && node --test /);
});

test('the npm scripts of a new project use only options that svc help lists', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(await made(t, []), 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  for (const [, command, options] of Object.values(scripts)
    .join('\n')
    .matchAll(/^svc (\w+) (.*)$/gm)) {
    const help = await run(process.execPath, [BIN, 'help', command!]);
    assert.equal(help.status, 0, help.stderr);
    for (const [option] of options!.matchAll(/--[\w-]+/g))
      assert.match(help.stdout, new RegExp(`^ {2}${option} `, 'm'), `svc ${command!} ${option}`);
  }
});

test('npm install --offline accepts the dependency that svc new --link writes to package.json', async (t) => {
  const path = await madeLinked(t);
  assert.match(manifestOf(path).dependencies['svc']!, /^file:(?:\.\.\/)+/);
  const { status, stderr } = await npm(t, ['install', '--offline'], path);
  assert.equal(status, 0, stderr);
  assert.equal(realpathSync(join(path, 'node_modules/svc')), realpathSync(ROOT));
  assert.deepEqual(
    readdirSync(join(path, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['svc'],
  );
});

test('a new project compiles with TypeScript without errors', async (t) => {
  const path = await madeLinked(t);
  symlinkSync(join(ROOT, 'node_modules/@types'), join(path, 'node_modules/@types'), 'dir');
  const { status, stdout } = await run(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', '.'],
    { cwd: path },
  );
  assert.equal(status, 0, stdout);
});

test('in the generated API client of a new project, errors are problem details, as the manual shows', async (t) => {
  const path = await madeLinked(t);
  symlinkSync(join(ROOT, 'node_modules/@types'), join(path, 'node_modules/@types'), 'dir');
  const client = ['src/app.ts', '--env-file', '.env', '--client', 'src/api.ts'];
  const written = await run(process.execPath, [BIN, 'openapi', ...client], { cwd: path });
  assert.equal(written.status, 0, written.stderr);
  const [, example] = /(?<=\n)(if \(result\.ok\) show[^]*?)```/.exec(manual('src/openapi/README.md'))!;
  assert.match(example!, /report\(result\.error\.title\)/);
  const calls = [
    "import { createClient } from './api.ts';",
    'declare function show(data: { text: string }): void;',
    'declare function login(): void;',
    'declare function report(title: string): void;',
    "const api = createClient({ baseUrl: 'http://localhost' });",
    "const result = await api.postApiNotes({ body: { text: 'Buy milk' } });",
    example!,
    "const read = await api.getApiNotesById({ params: { id: '' } });",
    'if (!read.ok) report(read.error.title);',
  ];
  writeFileSync(join(path, 'src/calls.ts'), calls.join('\n'));
  const { status, stdout } = await run(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', '.'],
    { cwd: path },
  );
  assert.equal(status, 0, stdout);
});

test('svc new --vendor creates a project that npm can install offline, and the installed svc can itself create such a project', async (t) => {
  const path = await made(t, ['--vendor']);
  const { status, stderr } = await npm(t, ['install', '--offline'], path);
  assert.equal(status, 0, stderr);
  assert.deepEqual(
    readdirSync(join(path, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['svc'],
  );
  assert.equal(realpathSync(join(path, 'node_modules/svc')), realpathSync(join(path, 'vendor/svc')));
  rmSync(join(path, 'node_modules'), { recursive: true });
  const again = await npm(t, ['ci', '--omit=dev'], path); // as its Dockerfile does
  assert.equal(again.status, 0, again.stderr);
  const tests = await npm(t, ['test'], path);
  assert.equal(tests.status, 0, tests.stdout);
  await serves(t, path);
  const second = await made(t, ['--vendor'], join(path, 'node_modules/svc/bin/svc.js'));
  assert.deepEqual(
    readdirSync(join(second, 'vendor/svc'), { recursive: true }).sort(),
    readdirSync(join(path, 'vendor/svc'), { recursive: true }).sort(),
  );
  assert.deepEqual(manifestOf(join(second, 'vendor/svc')), manifestOf(join(path, 'vendor/svc')));
});

test('svc new --vendor copies exactly the published files of svc, without its development dependencies and scripts', async (t) => {
  const path = join(await made(t, ['--vendor']), 'vendor/svc');
  assert.deepEqual(readdirSync(path).sort(), [
    '.github',
    'LICENSE',
    'README.md',
    'bin',
    'dist',
    'package.json',
    'src',
  ]);
  const manifest = manifestOf(path) as object;
  for (const key of ['devDependencies', 'scripts', 'allowScripts']) assert.equal(key in manifest, false, key);
  for (const key of ['version', 'exports', 'bin', 'engines', 'type'])
    assert.equal(key in manifest, true, key);
});

test('svc new copies the package even if fs.cpSync() throws, which happens when Yarn keeps the package in an archive', async (t) => {
  const cwd = folder(t, {
    'archive.cjs': `const fs = require('node:fs'); fs.cpSync = () => { throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' }); }; require('node:module').syncBuiltinESMExports();`,
  });
  const { status, stderr } = await run(
    process.execPath,
    ['--require', join(cwd, 'archive.cjs'), BIN, 'new', 'shop'],
    { cwd },
  );
  assert.equal(status, 0, stderr);
  assert.deepEqual(
    readdirSync(join(cwd, 'shop/vendor/svc/dist'), { recursive: true }).sort(),
    readdirSync(join(ROOT, 'dist'), { recursive: true }).sort(),
  );
  assert.deepEqual(
    readFileSync(join(cwd, 'shop/vendor/svc/dist/index.js')),
    readFileSync(join(ROOT, 'dist/index.js')),
  );
});

test('svc new without options makes the project depend on a copy of svc in vendor/svc', async (t) => {
  const path = await made(t, []);
  assert.deepEqual(manifestOf(path).dependencies, { svc: 'file:vendor/svc' });
  assert.ok(statSync(join(path, 'vendor/svc/dist/index.js')).isFile());
});

test('svc new --registry makes the project depend on the running version of svc from the npm registry', async (t) => {
  const path = await made(t, ['--registry']);
  const { name, engines, dependencies } = manifestOf(path);
  assert.deepEqual([name, engines, dependencies], ['shop', MANIFEST.engines, { svc: MANIFEST.version }]);
  assert.deepEqual(
    readdirSync(path, { recursive: true, encoding: 'utf8' })
      .filter((entry) => statSync(join(path, entry)).isFile())
      .sort(),
    [...FILES].sort(),
  );
});

test('svc new writes a different secret to .env in every project, and only the owner can read .env', async (t) => {
  const secrets = new Set<string>();
  for (const path of [await made(t, []), await made(t, [])]) {
    if (process.platform !== 'win32') assert.equal(statSync(join(path, '.env')).mode & 0o777, 0o600);
    const [, secret] = /^SVC_AUTH_SECRET=([0-9a-f]{64})$/m.exec(readFileSync(join(path, '.env'), 'utf8'))!;
    secrets.add(secret!);
  }
  assert.equal(secrets.size, 2);
});

test('git ignores .env, node_modules and data of a new project', async (t) => {
  const path = await madeLinked(t);
  for (const ending of ['', '-wal', '-shm']) writeFileSync(join(path, `data.db${ending}`), '');
  const git = (...args: string[]): string => spawnSync('git', args, { cwd: path, encoding: 'utf8' }).stdout;
  git('init', '--quiet');
  const added = git('status', '--porcelain', '--untracked-files=all')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.slice(3));
  assert.deepEqual(added.sort(), FILES.filter((file) => file !== '.env').sort());
});

for (const [mode, install] of [
  ['--link', 'npm test'],
  ['--vendor', 'npm install --offline'],
  ['', 'npm install --offline'],
  ['--registry', 'npm install'],
] as const) {
  test(`svc ${['new', mode].join(' ').trim()} prints the commands for the next steps`, async (t) => {
    const { stdout } = await svcNew(folder(t), ['my shop', ...(mode === '' ? [] : [mode])]);
    assert.match(stdout, /^Created "my-shop" in my shop: \d+ files\. Next:\n\n/);
    assert.deepEqual(
      stdout.split('\n\n')[1],
      `  cd "my shop"\n  ${install}\n  npm run dev        # http://127.0.0.1:8000\n`,
    );
  });
}

test('svc new can fill the current folder if it is empty, and creates no files outside this folder', async (t) => {
  const parent = folder(t);
  const path = join(parent, 'shop');
  mkdirSync(path);
  const { status, stdout, stderr } = await svcNew(path, ['.', '--link']);
  assert.equal(status, 0, stderr);
  assert.doesNotMatch(stdout, /cd /);
  assert.deepEqual(readdirSync(parent), ['shop']);
  assert.deepEqual(
    readdirSync(path).sort(),
    [...new Set([...FILES.map((file) => file.split('/')[0]!), 'node_modules'])].sort(),
  );
  assert.equal(realpathSync(join(path, 'node_modules/svc')), realpathSync(ROOT));
});

test('svc new creates missing parent folders, and --name sets the package name', async (t) => {
  const cwd = folder(t);
  const { status, stderr } = await svcNew(cwd, ['a/b/c', '--link', '--name', '@acme/shop.api']);
  assert.equal(status, 0, stderr);
  const path = join(cwd, 'a/b/c');
  assert.equal(manifestOf(path).name, '@acme/shop.api');
  assert.equal(realpathSync(join(path, 'node_modules/svc')), realpathSync(ROOT));
  const tests = await run(process.execPath, ['--test', 'test/**/*.test.ts'], { cwd: path });
  assert.equal(tests.status, 0, tests.stdout);
});

for (const [called, name] of [
  ['Küche 2', 'kuche-2'],
  ['Ku\u0308che', 'kuche'],
] as const) {
  // with a composed character, as it is typed, and with a combining one, as some file systems store it
  test(`svc new derives the package name ${name} from the folder name ${JSON.stringify(called)}`, async (t) => {
    const cwd = folder(t);
    const { status, stderr } = await svcNew(cwd, [called, '--link']);
    assert.equal(status, 0, stderr);
    assert.equal(manifestOf(join(cwd, called)).name, name);
  });
}

test('svc new refuses a folder that is not empty, lists its entries, and ends with status 1 (E_NEW_FOLDER)', async (t) => {
  const cwd = folder(t, {
    'few/b.txt': '',
    'few/.a': '',
    'many/1': '',
    'many/2': '',
    'many/3': '',
    'many/4': '',
    'many/5': '',
    'many/6': '',
    'many/7': '',
  });
  const few = await svcNew(cwd, ['few']);
  assert.deepEqual([few.status, few.stdout], [1, '']);
  assert.equal(
    few.stderr,
    `svc: Cannot create a project in "few": the folder is not empty: it holds .a, b.txt\n     ${FAULTS.E_NEW_FOLDER.remedy}\n`,
  );
  assert.match((await svcNew(cwd, ['many'])).stderr, /it holds 1, 2, 3, 4, 5 and 2 more$/m);
  assert.deepEqual(readdirSync(join(cwd, 'few')).sort(), ['.a', 'b.txt']);
});

test('svc new refuses a path that is a file or leads through a file (E_NEW_FOLDER)', async (t) => {
  const cwd = folder(t, { file: '' });
  for (const path of ['file', 'file/shop']) {
    const { status, stderr } = await svcNew(cwd, [path]);
    assert.equal(status, 1);
    assert.match(stderr, /the path, or a part of the path, is a file and not a folder$/m);
  }
});

test(
  'if svc new fails after it has created files, it removes the created files and prints the reason (E_NEW_FOLDER)',
  { skip: process.platform === 'win32' && 'no ulimit' },
  async (t) => {
    const cwd = folder(t);
    mkdirSync(join(cwd, 'empty'));
    for (const name of ['shop', 'empty']) {
      // files of the package are larger than 16 KiB, those of the project are not
      const { status, stdout, stderr } = await run(
        'sh',
        ['-c', 'ulimit -f 32; exec "$@"', 'sh', process.execPath, BIN, 'new', name, '--vendor'],
        { cwd, env: { NODE_DISABLE_COMPILE_CACHE: '1', NODE_V8_COVERAGE: '' } },
      ); // without coverage, because an incomplete report would make the whole coverage unreadable
      assert.deepEqual([status, stdout], [1, ''], stderr);
      assert.match(
        stderr,
        new RegExp(
          `^svc: Cannot create a project in "${name}": the files of the project cannot be written \\(E[A-Z]+\\); no file of the project is left behind\n {5}Choose a folder[^\n]*\n$`,
        ),
      );
    }
    assert.deepEqual(readdirSync(cwd, { recursive: true }), ['empty']);
  },
);

test(
  'svc new refuses a folder in which the operating system allows no new files (E_NEW_FOLDER)',
  { skip: process.platform !== 'linux' && 'needs /proc' },
  async (t) => {
    const { status, stderr } = await svcNew(folder(t), ['/proc/shop']); // mkdirSync({ recursive: true }) never returns for such a folder
    assert.equal(status, 1, stderr);
    assert.match(stderr, /Cannot create a project in "\/proc\/shop": [^\n]*\(ENOENT\)/);
  },
);

test('if several svc new processes fill one empty folder at once, one succeeds and the others change nothing (E_NEW_FOLDER)', async (t) => {
  const cwd = folder(t);
  const all = await Promise.all(
    Array.from({ length: 4 }, () => svcNew(cwd, ['.', '--name', 'shop', '--registry'])),
  );
  assert.deepEqual(
    all.map(({ status }) => status).sort(),
    [0, 1, 1, 1],
    all.map(({ stderr }) => stderr).join(''),
  );
  for (const { status, stderr } of all)
    if (status === 1)
      assert.match(
        stderr,
        /the folder is not empty|another process has filled the folder meanwhile \(EEXIST\); no file of the project is left behind/,
      );
  assert.deepEqual(
    readdirSync(cwd, { recursive: true, encoding: 'utf8' })
      .filter((entry) => statSync(join(cwd, entry)).isFile())
      .sort(),
    [...FILES].sort(),
  );
});

for (const [what, theirs, expected] of [
  ['an existing file', 'b', ['a']],
  ['an existing folder', 'src/theirs.ts', ['a', 'b']],
  ['an existing package.json', 'package.json', ['a', 'b', 'src']],
] as const) {
  test(`if ${what} is in the target folder, moveEntries() of svc new throws EEXIST and does not overwrite it`, (t) => {
    const cwd = folder(t, {
      'staging/package.json': 'ours',
      'staging/a': 'ours',
      'staging/b': 'ours',
      'staging/src/app.ts': 'ours',
      [`target/${theirs}`]: 'theirs',
    });
    const moved: string[] = [];
    assert.throws(() => moveEntries(join(cwd, 'staging'), join(cwd, 'target'), moved), { code: 'EEXIST' });
    assert.deepEqual(
      moved,
      expected.map((name) => join(cwd, 'target', name)),
    );
    assert.equal(readFileSync(join(cwd, 'target', theirs), 'utf8'), 'theirs');
  });
}

for (const [what, args, message] of [
  ['a missing folder argument', [], /new needs a folder$/m],
  ['an empty folder name', [''], /new needs a folder$/m],
  ['two folders', ['a', 'b'], /new takes one folder, but found a second argument "b"$/m],
  ['--vendor with --link', ['a', '--vendor', '--link'], /--vendor and --link cannot be combined: /m],
  ['--registry with --link', ['a', '--registry', '--link'], /--registry and --link cannot be combined: /m],
  ['a name with capitals', ['a', '--name', 'Shop'], /--name needs small letters, .*; found "Shop"$/m],
  ['a package name with quotes', ['a', '--name', "x', y: '"], /--name needs small letters/],
  ['the name of the package itself', ['a', '--name', 'svc'], /and not "svc"; found "svc"$/m],
  [
    'a folder without a usable name',
    ['./…'],
    /the folder's name is not a valid package name: add --name with/,
  ],
  [
    'a folder with the name of the package',
    ['svc'],
    /the folder's name is not a valid package name: add --name/,
  ],
  ['a misspelt option', ['a', '--vendr'], /unknown option "--vendr": did you mean "--vendor"\?/],
] as const) {
  test(`for ${what}, svc new ends with status 2 and writes nothing`, async (t) => {
    const cwd = folder(t);
    const { status, stdout, stderr } = await svcNew(cwd, args);
    assert.deepEqual([status, stdout], [2, '']);
    assert.match(stderr, message);
    assert.deepEqual(readdirSync(cwd), []);
  });
}

test('svc new --if-absent changes nothing if the folder already contains a project', async (t) => {
  const cwd = folder(t);
  const first = await svcNew(cwd, ['.starter', '--link', '--if-absent']);
  assert.equal(first.status, 0, first.stderr);
  assert.match(
    first.stdout,
    /^Created "starter" in \.starter: \d+ files\n$/,
    'no next steps: a script goes on',
  );
  assert.equal(manifestOf(join(cwd, '.starter')).name, 'starter');
  writeFileSync(join(cwd, '.starter/mine.txt'), 'mine');
  const asItWas = snapshot(join(cwd, '.starter'));
  const second = await svcNew(cwd, ['.starter', '--link', '--if-absent']);
  assert.deepEqual(
    [second.status, second.stdout, second.stderr],
    [0, '.starter already exists: nothing changed\n', ''],
  );
  assert.deepEqual(snapshot(join(cwd, '.starter')), asItWas);
});

test('svc new --if-absent refuses a folder that contains files but no project', async (t) => {
  const cwd = folder(t, { '.starter/notes.txt': '' });
  assert.equal((await svcNew(cwd, ['.starter', '--if-absent'])).status, 1);
});

test('npm start in this repository creates and serves a git-ignored starter project, and a second npm start changes no file', async (t) => {
  const [says, ...all] = MANIFEST.scripts['start']!.split(' && ');
  assert.match(says!, /^echo Building [\w ,.]+$/, 'what takes seconds is announced first');
  const steps = all.filter((step) => !/^echo [\w ,.+]+$/.test(step));
  assert.equal(steps.shift(), 'npm run -s build');
  assert.match(readFileSync(join(ROOT, '.gitignore'), 'utf8'), /^\.starter\/$/m);
  const [makes, enters, serves] = steps.map((step) => {
    assert.match(step, /^(?:node|cd) [\w./ -]+$/, 'a command that every shell reads');
    return step.split(' ').slice(1);
  });
  const repository = join(await made(t, ['--vendor']), 'vendor/svc'); // a copy, because this repository's own folder may be in use
  let asItWas: string[] | undefined;
  for (let time = 1; time <= 2; time++) {
    const { status, stderr } = await run(process.execPath, makes!, { cwd: repository });
    assert.equal(status, 0, stderr);
    const server = start(t, process.execPath, serves!, {
      cwd: join(repository, ...enters!),
      env: { SVC_PORT: '0' },
    });
    const [, url] = await server.printed(/"event":"listening","url":"([^"]+)","env":"development"/);
    assert.match(await (await fetch(url!)).text(), /<h1>starter<\/h1>/);
    server.child.kill('SIGTERM');
    assert.equal((await server.ended).status, 0);
    asItWas ??= snapshot(join(repository, '.starter'));
    assert.deepEqual(snapshot(join(repository, '.starter')), asItWas);
  }
  assert.equal(realpathSync(join(repository, '.starter/node_modules/svc')), realpathSync(repository));
});
