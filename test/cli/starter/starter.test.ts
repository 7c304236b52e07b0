/**
 * The files of a new project, as texts. test/cli/new.integration.test.ts runs them.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { isPackageName, starterFiles } from '../../../src/cli/starter/starter.ts';
import { ROOT } from '../../support/build.ts';
import { manual } from '../../support/manuals.ts';
import { run } from '../../support/run.ts';
import type { AddressInfo } from 'node:net';

type StarterDeps = Parameters<typeof starterFiles>[0];
const SECRET = 'a1b2'.repeat(16);
const PASSWORD = 'c3d4'.repeat(8);
const DEPS: StarterDeps = {
  root: ROOT,
  name: '@acme/shop',
  source: 'registry',
  dependency: '1.4.0',
  engine: '>=24',
  secret: SECRET,
  password: PASSWORD,
};
const SOURCES = ['registry', 'vendor', 'link'] as const;

function textOf(path: string, deps: Partial<StarterDeps> = {}): string {
  const file = starterFiles({ ...DEPS, ...deps }).find((each) => each.path === path);
  return file?.text ?? assert.fail(`there is no ${path}`);
}

for (const source of SOURCES) {
  test(`with the package source "${source}", files of a new project have no tabs, trailing spaces or unfilled placeholders, and one final line break`, () => {
    for (const { path, text } of starterFiles({ ...DEPS, source })) {
      assert.match(text, /\S\n$/, `${path} ends with one line break`);
      assert.doesNotMatch(text, /[ \t]$|\r|\t/m, path);
      assert.doesNotMatch(text, /\{\{\w+\}\}|\[object |\bTODO\b/, path);
    }
  });
}

test('a new project contains its secrets only in .env, and only the owner can read .env', () => {
  const files = starterFiles(DEPS);
  for (const secret of [SECRET, PASSWORD])
    assert.deepEqual(
      files.filter(({ text }) => text.includes(secret)).map(({ path }) => path),
      ['.env'],
    );
  assert.deepEqual(
    files.filter(({ isPrivate }) => isPrivate).map(({ path }) => path),
    ['.env'],
  );
  for (const path of ['.gitignore', '.dockerignore']) assert.match(textOf(path), /^\.env$/m);
});

test('package.json is the last file of a new project to be written, so that its presence marks a complete project', () => {
  assert.equal(starterFiles(DEPS).at(-1)?.path, 'package.json');
});

test('README.md of a new project names TypeScript and @types/node with the versions in package.json of this repository', () => {
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    devDependencies: Record<string, string>;
  };
  const [, packages] = /npm install --save-dev ([^`]+)`/.exec(textOf('README.md'))!;
  for (const name of ['@types/node', 'typescript'])
    assert.ok(packages!.split(' ').includes(`${name}@${devDependencies[name]}`), name);
  for (const source of SOURCES) {
    const manifest = JSON.parse(textOf('package.json', { source })) as Record<string, object>;
    assert.deepEqual(manifest['dependencies'], { svc: '1.4.0' });
    assert.equal(manifest['devDependencies'], undefined);
  }
});

test('the image of a new project has the version of Node.js with which this repository is tested', () => {
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    devDependencies: Record<string, string>;
  };
  const images = [...textOf('Dockerfile').matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
  const image = `node:${devDependencies['node']}-slim`;
  assert.deepEqual(images, [image, image]);
});

test("the image's health check passes for a healthy server only, without a second Node", async (t) => {
  const [, probe = ''] = /^HEALTHCHECK .* CMD \["bash", "-c", (".*")\]$/m.exec(textOf('Dockerfile')) ?? [];
  const command = JSON.parse(probe) as string;
  assert.doesNotMatch(command, /node/);
  let status = 200;
  const server = createServer((req, res) => {
    res.writeHead(req.url === '/healthz' ? status : 404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const env = { ...process.env, SVC_PORT: String((server.address() as AddressInfo).port) };
  const checked = async (): Promise<number | null> => (await run('bash', ['-c', command], { env })).status;
  assert.equal(await checked(), 0);
  status = 503;
  assert.notEqual(await checked(), 0);
});

test('README.md of a new project lists exactly the settings that the project reads', () => {
  const read = ['SVC_DATABASE_URL', 'SVC_BASE_URL', 'SVC_GITHUB_CLIENT_ID', 'SVC_GITHUB_CLIENT_SECRET'];
  for (const variable of read) {
    const key = variable
      .slice('SVC_'.length)
      .toLowerCase()
      .replace(/_(\w)/g, (_all, letter: string) => letter.toUpperCase());
    assert.match(textOf('src/app.ts') + textOf('src/login.ts'), new RegExp(`config\\.get\\('${key}'`));
  }
  const known = new Set([
    ...read,
    'SVC_ENV',
    'SVC_HOST',
    'SVC_PORT',
    'SVC_AUTH_SECRET',
    'SVC_AUTH_SECRET_PREVIOUS',
    'SVC_ENABLE_DOCS',
    'SVC_TRUST_PROXY',
  ]);
  for (const path of ['README.md', '.env', 'Dockerfile', 'compose.yaml', '.github/workflows/ci.yml']) {
    for (const [variable] of textOf(path).matchAll(/SVC_[A-Z_]+/g))
      assert.ok(known.has(variable), `${path}: ${variable}`);
  }
  for (const variable of known)
    assert.match(textOf('README.md'), new RegExp(`^\\| (?:[^|]*, )?\`${variable}\`[ ,]`, 'm'));
});

test('compose.yaml of a new project contains no secret, and runs the application read-only and without Linux capabilities', () => {
  const text = textOf('compose.yaml');
  for (const [, variable, value] of text.matchAll(/- (\w*(?:SECRET|PASSWORD)\w*)(?:=(.*))?$/gm))
    assert.match(value ?? '', /^(?:|\$\{[A-Z_]+:\?\})$/, variable);
  assert.match(text, /postgres:\/\/app:\$\{POSTGRES_PASSWORD:\?\}@db\/app\?sslmode=disable /); // the password has only hexadecimal digits, so it needs no escaping
  for (const line of [
    'read_only: true',
    'cap_drop: [ALL]',
    'condition: service_healthy',
    'stop_grace_period: 30s',
    '127.0.0.1:8000:8000',
  ])
    assert.ok(text.includes(line), line);
});

test('the CI workflow of a new project runs the type check and svc check, and uploads the findings of svc check', () => {
  for (const source of SOURCES) {
    const text = textOf('.github/workflows/ci.yml', { source });
    assert.match(
      text,
      /- run: npm run typecheck\n +if: hashFiles\('node_modules\/typescript\/package\.json'\) != ''/,
    );
    assert.match(
      text,
      /npx --no svc check src\/app\.ts --env production --max-warnings 0 --output sarif=svc\.sarif$/m,
    );
    assert.match(text, /sarif_file: svc\.sarif$/m);
    assert.match(text, /^permissions:\n {2}contents: read$/m);
    assert.doesNotMatch(text, /\bnpx (?!--no )|npm install|@(?:latest|master|main)\b/);
  }
  assert.match(textOf('.gitignore'), /^svc\.sarif$/m);
});

test('every file and script that README.md of a new project names exists', () => {
  const readme = textOf('README.md');
  const paths: ReadonlySet<string> = new Set(starterFiles(DEPS).map(({ path }) => path));
  for (const [, path] of readme.matchAll(/`((?:src|public|test|migrations|\.github)\/[\w./-]+\.\w+)`/g))
    assert.ok(paths.has(path!), path);
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
  for (const name of Object.keys(scripts)) assert.match(readme, new RegExp(`\`npm (?:run )?${name}\``), name);
});

test('the manual of the commands lists every file of a new project, and their number', () => {
  const [, number, section = ''] =
    /^`svc new shop` writes .* in (\d+) files\.([^]*?)^The folder must be/m.exec(
      manual('src/cli/README.md'),
    ) ?? [];
  const listed = section
    .split('\n')
    .flatMap((line) => (line.startsWith('| `') ? [...line.split(' | ')[0]!.matchAll(/`([^`]+)`/g)] : []))
    .map(([, path]) => path!);
  const paths = starterFiles(DEPS).map(({ path }) => path);
  assert.deepEqual(listed.sort(), paths.sort());
  assert.equal(Number(number), paths.length);
});

test('a new project has at most 10 source files, which have at most 640 lines in total without the tests and the style sheet', () => {
  const files = starterFiles(DEPS).filter(({ path }) => /^(?:src|public|migrations|test)\//.test(path));
  const lines = files
    .filter(({ path }) => !path.startsWith('test/') && !path.endsWith('.css'))
    .flatMap(({ text }) => text.trimEnd().split('\n'));
  assert.ok(files.length <= 10, `${files.length} files`);
  assert.ok(lines.length <= 640, `${lines.length} lines`);
});

test('template files of a new project such as .env are stored without the leading dot, because npm would omit or read them', () => {
  const paths = starterFiles(DEPS).map(({ path }) => path);
  for (const path of ['.env', '.gitignore', '.dockerignore', '.github/workflows/ci.yml'])
    assert.ok(paths.includes(path), path);
  const stored = readdirSync(join(ROOT, 'src/cli/starter/template'), { recursive: true, encoding: 'utf8' });
  assert.deepEqual(
    stored.filter((path) => /(?:^|[\\/])\./.test(path)),
    [],
  );
});

test('the container image of a new project runs as a non-root user, has a health check, and migrates before it starts the server', () => {
  const lines = textOf('Dockerfile').split('\n');
  assert.ok(lines.lastIndexOf('USER node') > lines.findLastIndex((line) => line.startsWith('RUN ')));
  assert.equal(
    lines.filter((line) => line.startsWith('FROM ')).length,
    2,
    'what npm leaves behind stays in the first stage',
  );
  const commands = lines
    .filter((line) => /\bCMD \[/.test(line))
    .map((line) => JSON.parse(line.slice(line.indexOf('['))) as string[]);
  const [probe, main] = commands;
  const bin = 'node node_modules/svc/bin/svc.js';
  assert.deepEqual(main, ['sh', '-c', `${bin} migrate up src/app.ts && exec ${bin} run src/app.ts`]);
  assert.deepEqual(probe?.slice(0, 2), ['bash', '-c']);
  assert.match(probe?.[2] ?? '', /\/healthz/);
  for (const source of SOURCES)
    assert.equal(/^COPY vendor /m.test(textOf('Dockerfile', { source })), source === 'vendor');
  assert.match(lines[0]!, /-t shop /); // tags have no scope
});

test('the container image of a new project keeps data in a volume that the user of the server process owns', () => {
  const lines = textOf('Dockerfile').split('\n');
  const [owned, volume, user] = ['RUN mkdir /data && chown node:node /data', 'VOLUME /data', 'USER node'].map(
    (line) => lines.indexOf(line),
  );
  assert.ok(owned !== -1 && owned! < volume! && volume! < user!); // a Dockerfile loses changes to a volume after its declaration
  for (const name of ['src', 'public', 'migrations'])
    assert.ok(lines.includes(`COPY ${name} ./${name}`), name);
  assert.match(textOf('Dockerfile'), /^ENV .* DATABASE_URL=sqlite:\/\/\/data\/data\.db$/m);
  for (const path of ['.gitignore', '.dockerignore']) assert.match(textOf(path), /^data\.db\*$/m);
  for (const path of ['README.md', 'Dockerfile'])
    assert.match(textOf(path), /docker run [^\n]* -v shop-data:\/data shop$/m);
});

test('the manual of operations shows the Dockerfile of a new project, without its comments', () => {
  const text = textOf('Dockerfile', { source: 'vendor' }).replace(/^#.*\n/gm, '');
  assert.ok(manual('src/operations/README.md').includes(`\n\`\`\`dockerfile\n${text}\`\`\`\n`));
});

for (const name of ['shop', 'my-app', '@acme/shop', 'a.b_c', '3d', 'x'.repeat(214)]) {
  test(`isPackageName() accepts "${name.slice(0, 20)}"`, () => assert.equal(isPackageName(name), true));
}
for (const name of [
  '',
  'Shop',
  '.shop',
  '_shop',
  'a b',
  'a/b',
  '@acme',
  '@/x',
  'svc',
  'node_modules',
  "it's",
  'a`b',
  '${x}',
  'a\nb',
  'ü',
  'x'.repeat(215),
]) {
  test(`isPackageName() returns false for the package name ${JSON.stringify(name.slice(0, 20))}`, () =>
    assert.equal(isPackageName(name), false));
}
