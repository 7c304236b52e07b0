/**
 * The examples and tables of the manuals agree with the code. Every `ts` block is a whole program that compiles and runs,
 * with the environment of `svc run --reload`. In the manual of svc/db, only blocks that begin with an import are programs, and
 * those with requests run. Below a block that exports `app` stand, in comments, requests and the answers it gives:
 *
 *     <!-- POST /notes {"text":"x"} -> 201 {"id":1} -->
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { ManualClock, TestClient } from 'svc/testing';
import { USUAL_LIMITS } from '../src/http/server/options.ts';
import { ROOT, build } from './support/build.ts';
import { manual, manuals } from './support/manuals.ts';
import { blocksOf, dedented } from './support/markdown.ts';
import { folder, project, run, start, write } from './support/run.ts';
import type { Svc } from 'svc';

const MANUALS = manuals();
const ALL = MANUALS.map(({ text }) => text).join('\n');
const HAND_WRITTEN = MANUALS.filter(({ path }) => path !== 'src/REFERENCE.md')
  .map(({ text }) => text)
  .join('\n');
const MANIFEST = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

interface Block {
  /** Such as `src/http/README.md:12`. */
  readonly place: string;
  /** Name of its program. */
  readonly file: string;
  readonly code: string;
  readonly requests: readonly string[];
}

const BLOCKS: readonly Block[] = MANUALS.filter(
  ({ path }) => path !== 'src/TUTORIAL.md', // test/tutorial.integration.test.ts follows it
).flatMap(({ path, text }) => {
  const parts = blocksOf(text);
  return parts.flatMap(({ language, text: code, offset }, index): Block[] => {
    if (language !== 'ts') return [];
    const end = parts.findIndex(({ kind }, at) => at > index && kind !== 'html comment');
    const comments = parts.slice(index + 1, end === -1 ? parts.length : end);
    const requests = comments.map((comment) => comment.text.replace(/^<!-- | -->$/g, ''));
    const line = text.slice(0, offset).split('\n').length;
    return [
      {
        place: `${path}:${line}`,
        file: `${path.replace('/README.md', '').replaceAll(/\W/g, '-')}-${line}.ts`,
        code: dedented(code),
        requests,
      },
    ];
  });
});
/** The rows of tables that begin with a variable. */
const ROWS: readonly string[] = [...HAND_WRITTEN.matchAll(/^\| (`SVC_[^|]*)\|/gm)].map(([, cell]) => cell!);
const programs = project({ after }, Object.fromEntries(BLOCKS.map(({ file, code }) => [file, code])));

/**
 * Environment of the examples: `svc run --reload` sets the first, and the reader the others. It has no secret of svc,
 * because a program that sends requests itself, such as a test, must run as it is printed.
 */
const ENVIRONMENT = {
  SVC_ENV: 'development',
  ...Object.fromEntries(
    ['SVC_GITHUB', 'SVC_GOOGLE', 'SVC_ENTRA', 'KEYCLOAK', 'FORGE', 'INSIDE'].map((name) => [
      `${name}_CLIENT_SECRET`,
      randomBytes(16).toString('hex'),
    ]),
  ),
};

before(() => {
  build();
  // applications that answer requests get a secret, which the manuals make before they serve
  Object.assign(process.env, ENVIRONMENT, { SVC_AUTH_SECRET: randomBytes(32).toString('hex') });
});

test('the manuals contain at least 30 example programs', () => {
  assert.ok(BLOCKS.length >= 30, `${BLOCKS.length}`);
});

test('every example program in the manuals compiles', (t) => {
  const files = Object.fromEntries(BLOCKS.map(({ file, code }) => [file, code]));
  const cwd = folder(t, {
    'package.json': '{"type":"module"}',
    'tsconfig.json': JSON.stringify({
      extends: join(ROOT, 'tsconfig.json'),
      compilerOptions: {
        isolatedDeclarations: false,
        declaration: false,
        noEmit: true,
        rootDir: null,
        noUnusedLocals: false,
        noUnusedParameters: false,
      },
      include: ['*.ts'],
    }),
  });
  write(cwd, files);
  mkdirSync(join(cwd, 'node_modules'));
  for (const [name, target] of [
    ['svc', ROOT],
    ['@types', join(ROOT, 'node_modules/@types')],
  ] as const)
    symlinkSync(target, join(cwd, 'node_modules', name), 'dir');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', '.'],
    { cwd, encoding: 'utf8' },
  );
  assert.equal(status, 0, stdout + stderr);
});

test('the command below the first example of README.md runs this example without changes', async (t) => {
  const [, command] =
    /^`npx --no (svc run app\.ts[^`]*)` serves/m.exec(manual('README.md')) ??
    assert.fail('the command is gone');
  const cwd = project(t, { 'app.ts': BLOCKS[0]!.code });
  const [, url] = await start(
    t,
    process.execPath,
    [join(ROOT, 'bin/svc.js'), ...command!.split(' ').slice(1), '--port', '0'],
    { cwd },
  ).printed(/"event":"listening","url":"([^"]+)"/);
  assert.equal(await (await fetch(`${url}/notes`)).text(), '[]');
});

for (const { place, file: name, requests } of BLOCKS) {
  const file = join(programs, name);

  test(`the example program of the manuals at ${place} runs and exits with status 0`, async () => {
    const { status, stderr } = await run(process.execPath, [file], { cwd: programs, env: ENVIRONMENT }); // by the built package, as its users do
    assert.equal(status, 0, stderr);
  });

  if (requests.length > 0) {
    test(`the example application of the manuals at ${place} answers requests as documented`, async () => {
      const { app } = (await import(pathToFileURL(file).href)) as { app: Svc };
      await using client = new TestClient(app);
      for (const request of requests) {
        const [, method, path, body, status, expected] =
          /^([A-Z]+) (\S+)(?: (\{.*\}))? -> (\d{3})(?: (.*))?$/.exec(request) ??
          assert.fail(`not a request: ${request}`);
        const response = await client.request(
          method!,
          path!,
          body === undefined ? {} : { json: JSON.parse(body) as unknown },
        );
        assert.equal(response.status, Number(status), request);
        if (expected !== undefined) assert.equal(await response.text(), expected, request);
      }
    });
  }
}

for (const [provider, login] of [
  ['github', '/oauth/login'],
  ['google', '/oauth/google/login'],
] as const) {
  test(`the first example of src/oauth/README.md logs a user in with the fake ${provider}, and out again`, async () => {
    const { file: name } = BLOCKS.find(({ place }) => place.startsWith('src/oauth/README.md:'))!;
    const { app } = (await import(pathToFileURL(join(programs, name)).href)) as { app: Svc };
    await using client = new TestClient(app, { headers: { 'Sec-Fetch-Site': 'same-origin' } });
    const page = new URL((await client.get(login)).headers.get('location')!);
    assert.equal(page.pathname, `/_dev/${provider}/authorize`);
    const form = { ...Object.fromEntries(page.searchParams), user: 'ada' };
    const chosen = await client.post(page.pathname, { form });
    assert.equal((await client.get(chosen.headers.get('location')!)).headers.get('location'), '/');
    const [, person] = /You are ([\w-]+)/.exec(await (await client.get('/')).text())!;
    assert.deepEqual(await (await client.get('/orders')).json(), { person, orders: [] });
    const left = await client.post('/oauth/logout', { form: {} });
    assert.match(left.headers.get('location')!, new RegExp(`/_dev/${provider}/logout\\?`));
    assert.equal((await client.get('/orders')).status, 401);
  });
}

test('the second factor of src/oauth/README.md is asked of admins in each new login at a provider, and each code counts once', async () => {
  const { code } = BLOCKS.find(({ code: each }) => each.includes('function totp('))!;
  const plugin = `new OAuthPlugin({
    mode: 'cookie',
    provider: new DevProvider({ env: 'test', redirectUris: ['/oauth/callback'] }).mount(app),
    onUser: (_provider, { subject }) => subject,
  })`;
  const source = code.replace("new OAuthPlugin({ mode: 'cookie' })", () => plugin);
  write(programs, { 'second-factor.ts': `import { DevProvider } from 'svc/testing';\n${source}` });
  const { app, totp } = (await import(pathToFileURL(join(programs, 'second-factor.ts')).href)) as {
    app: Svc;
    totp: (secret: Uint8Array, step: number) => string;
  };
  const vectors = [59, 1_111_111_109, 1_234_567_890, 20_000_000_000].map((seconds) =>
    totp(Buffer.from('12345678901234567890'), Math.floor(seconds / 30)),
  );
  assert.deepEqual(vectors, ['287082', '081804', '005924', '353130'], 'RFC 6238, appendix B');

  const clock = new ManualClock();
  await using client = new TestClient(app, { clock });
  const login = async (user: string): Promise<void> => {
    client.cookies.clear();
    const page = new URL((await client.get('/oauth/login')).headers.get('location')!);
    const form = { ...Object.fromEntries(page.searchParams), user };
    const chosen = await client.post(page.pathname, { form });
    assert.equal((await client.get(chosen.headers.get('location')!)).status, 303);
  };
  const post = async (path: string, fields: Record<string, string> = {}): Promise<Response> => {
    const [, token = ''] = /value="([^"]+)"/.exec(await (await client.get('/second-factor')).text())!;
    return client.post(path, { form: fields, headers: { 'X-CSRF-Token': token } });
  };
  const enter = async (entered: string): Promise<number> =>
    (await post('/second-factor', { code: entered })).status;

  await login('alan');
  assert.equal((await client.get('/admin')).status, 403, 'not an admin');
  await login('ada');
  await app.state.db.execute("insert into person_role values ('ada', 'admin')");
  assert.equal((await client.get('/admin')).headers.get('location'), '/second-factor');
  const { uri, codes } = (await (await post('/second-factor/new')).json()) as {
    uri: string;
    codes: string[];
  };
  assert.equal(
    (await post('/second-factor/new')).status,
    403,
    'only a login that has shown the factor replaces it',
  );
  const secret = decoded(new URL(uri).searchParams.get('secret')!);
  const now = (): string => totp(secret, Math.floor(clock.nowMs() / 30_000));
  const first = now();
  assert.equal(await enter(first), 303);
  assert.equal(await (await client.get('/admin')).text(), 'Hello ada');

  await login('ada');
  assert.equal((await client.get('/admin')).status, 303, 'a new login is asked again');
  assert.equal(await enter(first), 403, 'a code counts once');
  assert.equal(await enter(codes[0]!), 303);
  assert.equal((await client.get('/admin')).status, 200);
  await login('ada');
  assert.equal(await enter(codes[0]!), 403, 'a recovery code counts once');
  const late = now();
  await clock.advance(60_000);
  assert.equal(await enter(late), 403, 'two steps old');
  assert.equal(await enter(now()), 303);
  assert.equal((await post('/second-factor/new')).status, 200);
  await login('alan');
  assert.equal(await enter(codes[1]!), 403, 'of another person');
});

/** Decodes Base32 without padding (RFC 4648 §6). */
function decoded(text: string): Uint8Array {
  const bits = [...text]
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('');
  return Uint8Array.from(bits.match(/.{8}/g) ?? [], (eight) => parseInt(eight, 2));
}

test('every npm command that the manuals mention is a script in package.json', () => {
  const named = [...ALL.matchAll(/\bnpm (?:run )?(start|test|typecheck|coverage|bench|build)\b/g)].map(
    (match) => match[1]!,
  );
  assert.ok(named.includes('start') && named.includes('test'));
  for (const name of named) assert.ok(name in MANIFEST.scripts, name);
});

test('every file that a manual mentions exists in the repository or in a new project', () => {
  const roots = [ROOT, join(ROOT, 'src/cli/starter/template')];
  for (const [, path] of ALL.matchAll(/`((?:test|src|bin|\.ci)\/[\w./-]+)`/g))
    assert.ok(
      roots.some((root) => existsSync(join(root, path!))),
      path,
    );
});

/** But for those of new projects. */
const SOURCES: readonly string[] = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.startsWith('cli/starter/'))
  .map((file) => readFileSync(join(ROOT, 'src', file), 'utf8'));

/** `SVC_PAGE_SIZE` → `pageSize` */
function settingOf(variable: string): string {
  return variable
    .slice('SVC_'.length)
    .toLowerCase()
    .replace(/_(\w)/g, (_all, letter: string) => letter.toUpperCase());
}

test('every environment variable in a table of the manuals belongs to a setting that the source code reads', () => {
  const sources = SOURCES.join('\n');
  for (const [variable] of ROWS.join('\n').matchAll(/(?<=`)SVC_[A-Z_]+(?=`)/g)) {
    const key = settingOf(variable);
    const isRead =
      new RegExp(`(?:get(?:<[^(]*>)?|readSeconds)\\('${key}'`).test(sources) ||
      sources.includes(`process.env['${variable}']`); // before there is an application
    assert.ok(isRead, `${variable}: no source reads "${key}"`);
  }
});

test('every setting that the source code reads is listed in a manual, as an environment variable or as a limit', () => {
  const read = new Set(
    SOURCES.flatMap((text) =>
      [...text.matchAll(/[cC]onfig(?:\(\))?\.get(?:<[^(]*>)?\('([a-zA-Z]+)'/g)].map(([, key]) => key!),
    ),
  );
  assert.ok(read.size >= 18, [...read].join(' '));
  const reported = new Set(
    [...ROWS.join('\n').matchAll(/(?<=`)SVC_[A-Z_]+(?=`)/g)].map(([variable]) => settingOf(variable)),
  );
  assert.deepEqual(
    [...read].filter((key) => !reported.has(key)),
    [],
  );
  for (const limit of Object.keys(USUAL_LIMITS))
    assert.match(ALL, new RegExp(`^\\| \`${limit}\` \\|`, 'm'), limit);
});

test('the manuals use the file name that npm pack gives the package, and never "npx svc", which could run another package', () => {
  const { name, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    name: string;
    version: string;
  };
  for (const [, file] of ALL.matchAll(/\b(svc-\d[\w.-]*\.tgz)/g))
    assert.equal(file, `${name}-${version}.tgz`);
  assert.deepEqual(ALL.match(/npx svc\b.*/g), null, 'of the public registry that is another package');
});
