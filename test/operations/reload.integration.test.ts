/**
 * `--reload` with real processes: after a save, another child serves the same port.
 */
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { unavailablePage } from '../../src/operations/unavailable-page.ts';
import { systemClock } from '../../src/base/clock.ts';
import { FileWatch } from '../../src/operations/watch.ts';
import { BIN, ROOT, build } from '../support/build.ts';
import { collectedLog } from '../support/collected-log.ts';
import { Load, ask } from '../support/load.ts';
import { folder, project, start, write } from '../support/run.ts';
import { fakeRequest } from '../support/transport.ts';
import type { TestContext } from 'node:test';
import type { RunOptions, Running } from '../support/run.ts';

before(build);

const RELOADED = /"event":"reloaded"/g;
const APP = `import { Svc } from 'svc';
import { part } from './lib/part.js';
import data from './data.json' with { type: 'json' };
export const app = new Svc();
app.get('/', () => [part, data.value, app.env, process.env['FROM_FILE'] ?? ''].join(' '));
`;
const FILES = { 'app.ts': APP, 'lib/part.ts': "export const part = 'one';", 'data.json': '{"value":1}' };

async function serve(
  t: TestContext,
  files: Readonly<Record<string, string>> = FILES,
  args: readonly string[] = [],
  options: RunOptions = {},
): Promise<{ server: Running; url: string; cwd: string }> {
  const cwd = project(t, files);
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--reload', '--port', '0', ...args], {
    cwd,
    ...options,
  });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  return { server, url: `${url!}/`, cwd };
}

/** Saves a file, and waits for the child that has loaded it. */
async function save(server: Running, cwd: string, files: Readonly<Record<string, string>>): Promise<void> {
  const before = server.count(RELOADED);
  write(cwd, files);
  await server.printedTimes(RELOADED, before + 1);
}

test('svc run --reload restarts the application when a module or JSON file is saved, and loses no request', async (t) => {
  const { server, url, cwd } = await serve(t);
  await server.printedTimes(RELOADED, 1);
  assert.equal((await ask(url)).body, 'one 1 development ');
  const load = new Load(url, 6);
  await load.more(20);
  await save(server, cwd, { 'lib/part.ts': "export const part = 'two';" });
  await load.more(20);
  await save(server, cwd, { 'data.json': '{"value":2}' });
  await load.more(20);
  await load.stop();
  assert.deepEqual(load.failures, []);
  assert.equal((await ask(url)).body, 'two 2 development ');
  server.child.kill('SIGINT');
  assert.equal((await server.ended).status, 0); // the streams are closed, so the child has ended too
});

test('svc run --reload logs an SQL statement that the database would refuse after a save, and the next save does not repeat it', async (t) => {
  const text = (column: string): string => `import { Depends, Field, Schema, Svc, list, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
class Note extends Schema {
  ${column} = Field(str);
}
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:./data.db'));
app.get('/', { db: Depends(db), response: list(Note), public: 'notes are public' }, ({ db }) =>
  db.fetchAll('select ${column} from note', { as: Note }));
`;
  const { server, cwd } = await serve(t, {
    'app.ts': text('title'),
    'migrations/0001_notes.up.sql': 'create table note (id integer primary key, title text not null);',
  });
  await server.printedTimes(RELOADED, 1);
  await save(server, cwd, { 'app.ts': text('titel') });
  const [line] = await server.printed(/.*"event":"statement_finding".*/);
  const { rule, place, message } = JSON.parse(line) as Record<string, string>;
  assert.deepEqual([rule, place], ['SVC411', 'app.ts:9:23']);
  assert.match(message ?? '', /titel/);
  await save(server, cwd, { 'app.ts': `${text('titel')}\n` });
  await save(server, cwd, { 'app.ts': text('titl') });
  await server.printed(/"event":"statement_finding".*titl[^e]/);
  assert.equal(server.count(/"event":"statement_finding"/g), 2);
});

test('svc run --reload works for a program that contains its own bundled copy of svc, and starts only one child process at a time', async (t) => {
  const { server, url, cwd } = await serve(t, {
    ...FILES,
    'app.ts': APP.replace(
      "from 'svc'",
      `from ${JSON.stringify(pathToFileURL(join(ROOT, 'src/index.ts')).href)}`,
    ),
  });
  await server.printedTimes(RELOADED, 1);
  await save(server, cwd, { 'data.json': '{"value":2}' });
  assert.equal((await ask(url)).body, 'one 2 development ');
  server.child.kill('SIGINT');
  const { status, stderr } = await server.ended;
  assert.deepEqual([status, stderr.match(/"event":"listening"/g)?.length], [0, 1]);
});

test('svc run --reload does not restart the application when a file changes that the program did not import', async (t) => {
  const { server, url, cwd } = await serve(t);
  await server.printedTimes(RELOADED, 1);
  write(cwd, { 'notes.txt': 'x', 'lib/other.ts': 'x', 'node_modules/x/index.js': 'x' });
  await save(server, cwd, { 'data.json': '{"value":3}' });
  assert.equal((await ask(url)).body, 'one 3 development ');
  assert.equal(server.count(/"event":"changed"/g), 1);
});

test('svc run --reload runs the application with the value of SVC_ENV if this variable is set', async (t) => {
  const { url } = await serve(t, FILES, [], { env: { SVC_ENV: 'test' } });
  assert.equal((await ask(url)).body, 'one 1 test ');
});

test('while the application cannot start, svc run --reload answers each request with 503 and the reason', async (t) => {
  const { server, url, cwd } = await serve(t, { ...FILES, 'app.ts': 'throw new Error("<no & way>");' });
  const page = await ask(url);
  assert.deepEqual([page.status, page.type], [503, 'text/html; charset=utf-8']);
  assert.match(page.body, /app\.ts:1: Error: &#60;no &#38; way&#62;/);
  const problem = await ask(url, undefined, { Accept: 'application/json' });
  assert.deepEqual([problem.status, problem.type], [503, 'application/problem+json']);
  assert.match((JSON.parse(problem.body) as { detail: string }).detail, /Error: <no & way>/);
  await save(server, cwd, { 'app.ts': APP });
  assert.equal((await ask(url)).body, 'one 1 development ');
  rmSync(join(cwd, 'lib'), { recursive: true });
  await server.printedTimes(/"event":"child_ended"/g, 2);
  assert.match((await ask(url)).body, /Cannot find module/);
  await save(server, cwd, { 'lib/part.ts': "export const part = 'back';" });
  assert.equal((await ask(url)).body, 'back 1 development ');
});

test('when the application exits by itself, svc run --reload reports the exit status, and restarts the application at the next save', async (t) => {
  const { server, url, cwd } = await serve(t, {
    'app.ts': `import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/', () => process.exit(7));`,
  });
  await assert.rejects(ask(url));
  await server.printed(/"event":"child_ended"/);
  assert.match((await ask(url)).body, /ended with status 7/);
  await save(server, cwd, {
    'app.ts': `import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/', () => 'well');`,
  });
  assert.equal((await ask(url)).body, 'well');
});

test('svc run --reload --env-file reads the environment file again when that file is saved', async (t) => {
  const { server, url, cwd } = await serve(t, { ...FILES, 'my.env': 'FROM_FILE=first\nSVC_ENV=test\n' }, [
    '--env-file',
    'my.env',
  ]);
  await server.printedTimes(RELOADED, 1);
  assert.equal((await ask(url)).body, 'one 1 test first');
  await save(server, cwd, { 'my.env': 'FROM_FILE=second\n' });
  assert.equal((await ask(url)).body, 'one 1 development second');
});

test('svc run --reload kills the process of the application if it does not exit in time', async (t) => {
  const { server, url, cwd } = await serve(t, {
    'app.ts': `import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/', () => 'old');\napp.onShutdown(() => new Promise(() => {}));`,
  });
  await server.printedTimes(RELOADED, 1);
  await save(server, cwd, {
    'app.ts': `import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/', () => 'new');`,
  });
  assert.equal(server.count(/"event":"child_killed"/g), 1);
  assert.equal((await ask(url)).body, 'new');
});

test('app.run({ reload: true }) restarts the program that called it when a module is saved', async (t) => {
  const main = (text: string): string =>
    `import { Svc } from 'svc';\nconst app = new Svc();\napp.get('/', () => '${text}');\nawait app.run({ port: 0, reload: true });\n`;
  const cwd = project(t, { 'main.ts': main('one') });
  const server = start(t, process.execPath, ['main.ts'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await server.printedTimes(RELOADED, 1);
  assert.equal((await ask(url!)).body, 'one');
  await save(server, cwd, { 'main.ts': main('two') });
  assert.equal((await ask(url!)).body, 'two');
  write(cwd, { 'main.ts': 'throw new Error("not now");' });
  await server.printed(/"event":"child_ended"/);
  assert.match((await ask(url!)).body, /not now/);
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
});

test('FileWatch reports when the missing folder of a watched file is created, and stops watching files that are no longer listed', async (t) => {
  const path = folder(t, { 'a/one.ts': '' });
  const { logger } = collectedLog();
  let news = Promise.withResolvers<string>();
  const watch = new FileWatch({ clock: systemClock, log: logger, onChange: (file) => news.resolve(file) });
  t.after(() => watch.close());
  watch.add(join(path, 'a/one.ts'), Infinity);
  watch.add(join(path, 'b/c/two.ts'), Infinity);
  assert.deepEqual(watch.directories, [path, join(path, 'a')]);
  mkdirSync(join(path, 'b'));
  assert.equal(await news.promise, join(path, 'b'));
  news = Promise.withResolvers();
  writeFileSync(join(path, 'a/one.ts'), 'x');
  assert.equal(await news.promise, join(path, 'a/one.ts'));
  watch.keepOnly([join(path, 'a/one.ts')]);
  assert.deepEqual(watch.directories, [join(path, 'a')]);
  news = Promise.withResolvers();
  watch.add(join(path, 'b/new.ts'), 0); // the file does not exist, so nothing was saved
  writeFileSync(join(path, 'b/late.ts'), '');
  watch.keepOnly([]);
  watch.add(join(path, 'b/late.ts'), 0); // the file was saved after it may have been read
  assert.equal(await news.promise, join(path, 'b/late.ts'));
});

test('unavailablePage() returns problem JSON to clients whose Accept header prefers JSON, and HTML to all other clients', () => {
  const reason = { title: 'Gone', text: '', hint: 'Wait' };
  for (const [accept, type] of [
    ['*/*', 'text/html'],
    ['text/html,application/json;q=0.5', 'text/html'],
    ['application/json', 'application/problem+json'],
    ['application/problem+json', 'application/problem+json'],
  ] as const) {
    const response = unavailablePage(fakeRequest({ headers: ['Accept', accept] }).req, reason);
    assert.match(response.headers.get('content-type') ?? '', new RegExp(`^${type.replace('+', '\\+')}`));
    assert.equal(response.headers.get('cache-control'), 'no-store');
  }
});
