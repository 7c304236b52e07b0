/**
 * The package finds its own files, and tells them from the application's, wherever it lies: as sources and compiled, in a
 * path with a blank and a letter beyond ASCII.
 *
 * Files that it starts by path: operations/supervised-preload, cli/inspect-child, db/sqlite/reader-process.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ROOT, build } from './support/build.ts';
import { folder, run, start, write } from './support/run.ts';
import type { TestContext } from 'node:test';
import type { Ended, Running } from './support/run.ts';

const place = join(folder({ after }), 'der Ort \u00e9');
let count = 0;

before(() => {
  build();
  for (const part of ['package.json', 'bin', 'dist', 'src'])
    cpSync(join(ROOT, part), join(place, 'svc', part), { recursive: true });
  write(place, {
    'from-src.mjs': "import { main } from './svc/src/cli/main.ts';\nawait main(process.argv.slice(2));\n",
  });
});

/** How the package runs: arguments for Node before those of a program, and before those of the command. */
interface Way {
  readonly from: 'src' | 'dist';
  readonly node: readonly string[];
  readonly command: string;
}
const WAYS: readonly Way[] = [
  { from: 'src', node: ['--conditions=svc-source'], command: join(place, 'from-src.mjs') },
  { from: 'dist', node: [], command: join(place, 'svc/bin/svc.js') },
];

/** A folder beside the package, from which these files import it. */
function application(files: Readonly<Record<string, string>>): string {
  const cwd = join(place, `shop ${++count}`);
  mkdirSync(join(cwd, 'node_modules'), { recursive: true });
  symlinkSync(join(place, 'svc'), join(cwd, 'node_modules/svc'), 'dir');
  write(cwd, { 'package.json': '{"type":"module"}', ...files });
  return cwd;
}

const HEAD = "import { Svc } from 'svc';\nexport const app = new Svc();\n";
const GET = "app.get('/', () => import.meta.resolve('svc'));\n";
/** The file of the package that the application has imported. */
const entryOf = ({ from }: Way): RegExp =>
  new RegExp(`/der%20Ort%20%C3%A9/svc/${from}/index\\.${from === 'src' ? 'ts' : 'js'}$`);

interface Document {
  readonly findings: readonly {
    readonly rule: string;
    readonly place: { readonly file: string; readonly line: number } | null;
  }[];
}

/** Rules and places that `svc check` finds in app.ts. */
async function placesIn({ node, command }: Way, app: string): Promise<string[]> {
  const { stdout, stderr } = await run(
    process.execPath,
    [...node, command, 'check', 'app.ts', '--format', 'json', '--skip', 'SVC404,SVC211,SVC302,SVC503'], // SVC503 depends on the load of the machine
    { cwd: application({ 'app.ts': app }) },
  );
  assert.notEqual(stdout, '', stderr);
  const { findings } = JSON.parse(stdout) as Document;
  return findings.map((finding) => `${finding.rule} ${finding.place?.file}:${finding.place?.line}`);
}

const ROUTER = `import { Router } from 'svc';
const router = new Router();
router.get('/a', () => 1);
router.get('/a', () => 2);
app.includeRouter(router);
`;
/** Applications and their findings. Each line is the application's, although code of the package runs there. */
const MISTAKES: readonly (readonly [what: string, app: string, expected: readonly string[]])[] = [
  [
    'routes that are declared twice, and of a timer that the import leaves behind',
    `${HEAD}${GET}${GET}${ROUTER}setInterval(() => undefined, 1_000);\n`,
    ['SVC001 app.ts:10', 'SVC101 app.ts:4', 'SVC101 app.ts:8'],
  ],
  [
    'an option that the package refuses while the module is imported',
    `import { Svc } from 'svc';\n\nexport const app = new Svc({\n  titel: 'x',\n});\n`,
    ['SVC001 app.ts:3'],
  ],
  [
    'a database option that svc/db refuses while the module is imported',
    `${HEAD}import { DatabasePlugin } from 'svc/db';\napp.register(\n  new DatabasePlugin('nothing:'),\n);\n`,
    ['SVC001 app.ts:5'],
  ],
  [
    'a server that is started while the module is imported',
    `${HEAD}\nawait app.run({ port: 0 });\n`,
    ['SVC001 app.ts:4'],
  ],
];

for (const way of WAYS) {
  for (const [what, app, expected] of MISTAKES) {
    test(`svc check from the folder ${way.from} of svc reports the source line of ${what}`, async () => {
      assert.deepEqual((await placesIn(way, app)).sort(), expected);
    });
  }
}

async function urlOf(server: Running): Promise<string> {
  return (await server.printed(/"event":"listening","url":"([^"]+)"/))[1]!;
}

async function ends(server: Running): Promise<Ended> {
  server.child.kill('SIGTERM');
  const ended = await server.ended;
  assert.equal(ended.status, 0, ended.stderr);
  return ended;
}

/** Starts a program, or the command, that serves the application from two processes. */
async function assertWorkers(t: TestContext, way: Way, cwd: string, args: readonly string[]): Promise<void> {
  const server = start(t, process.execPath, [...way.node, ...args], { cwd });
  const url = await urlOf(server);
  await server.printedTimes(/"event":"worker_ready"/g, 2);
  assert.match(await (await fetch(url)).text(), entryOf(way));
  const { stderr } = await ends(server);
  assert.equal(stderr.match(/"event":"listening"/g)?.length, 1, stderr);
}

/** Starts a program, or the command, and saves its module: the next process serves the change. */
async function assertReloads(
  t: TestContext,
  way: Way,
  cwd: string,
  file: string,
  args: readonly string[],
  changed: string,
): Promise<void> {
  const server = start(t, process.execPath, [...way.node, ...args], {
    cwd,
    env: { SVC_ENV: 'development' },
  });
  const url = await urlOf(server);
  await server.printedTimes(/"event":"reloaded"/g, 1);
  assert.match(await (await fetch(url)).text(), entryOf(way));
  write(cwd, { [file]: changed });
  await server.printedTimes(/"event":"reloaded"/g, 2);
  assert.equal(await (await fetch(url)).text(), 'changed');
  await ends(server);
}

for (const way of WAYS) {
  test(`svc run --workers serves requests when svc runs from its folder ${way.from}`, async (t) => {
    const cwd = application({ 'app.ts': `${HEAD}${GET}` });
    await assertWorkers(t, way, cwd, [way.command, 'run', 'app.ts', '--port', '0', '--workers', '2']);
  });

  test(`app.run({ workers: 2 }) serves requests when svc runs from its folder ${way.from}`, async (t) => {
    const cwd = application({ 'app.ts': `${HEAD}${GET}await app.run({ port: 0, workers: 2 });\n` });
    await assertWorkers(t, way, cwd, ['app.ts']);
  });

  test(`svc run --reload serves a saved change when svc runs from its folder ${way.from}`, async (t) => {
    const cwd = application({ 'app.ts': `${HEAD}${GET}` });
    const args = [way.command, 'run', 'app.ts', '--port', '0', '--reload'];
    await assertReloads(t, way, cwd, 'app.ts', args, `${HEAD}app.get('/', () => 'changed');\n`);
  });

  test(`app.run({ reload: true }) serves a saved change when svc runs from its folder ${way.from}`, async (t) => {
    const serve = 'await app.run({ port: 0, reload: true });\n';
    const cwd = application({ 'app.ts': `${HEAD}${GET}${serve}` });
    await assertReloads(t, way, cwd, 'app.ts', ['app.ts'], `${HEAD}app.get('/', () => 'changed');\n${serve}`);
  });

  test(`the reader process that openDatabase() starts for a SQLite file runs the code in the folder ${way.from} of svc`, async () => {
    const cwd = application({
      'app.ts': `import { subscribe } from 'node:diagnostics_channel';
import { openDatabase } from 'svc/db';
const started = [];
subscribe('child_process', ({ process }) => started.push(process));
await using db = await openDatabase('sqlite:data.db', { readers: 1 });
await db.execute('create table note (text text)');
await db.execute("insert into note values ('kept')");
const text = await db.scalar('select text from note', [], { longRead: true });
console.log(JSON.stringify([text, ...started.map(({ spawnargs }) => spawnargs.at(-1))]));
`,
    });
    const { stdout, stderr } = await run(process.execPath, [...way.node, 'app.ts'], { cwd });
    const file = `svc/${way.from}/db/sqlite/reader-process.${way.from === 'src' ? 'ts' : 'js'}`;
    assert.deepEqual(JSON.parse(stdout), ['kept', join(place, file)], stderr);
  });
}
