/**
 * Files that commands write: `svc check` and `svc routes` write none, other commands store compiled code for
 * the next start.
 */
import assert from 'node:assert/strict';
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { project, run, start } from '../support/run.ts';
import type { TestContext } from 'node:test';
import type { RunOptions } from '../support/run.ts';

before(build);

const FILES = {
  'app.ts': "import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/', () => 'hello');\n",
  'tmp/.keep': '',
  'home/.keep': '',
};

/** A project that contains its temporary folder and its home folder, in which Node.js and npm keep caches. */
function inside(t: TestContext): RunOptions & { readonly cwd: string } {
  const cwd = project(t, FILES);
  const env = {
    TMPDIR: join(cwd, 'tmp'),
    TEMP: join(cwd, 'tmp'),
    HOME: join(cwd, 'home'),
    NODE_COMPILE_CACHE: undefined,
    NODE_DISABLE_COMPILE_CACHE: undefined,
    NODE_V8_COVERAGE: undefined,
  };
  return { cwd, env };
}

/**
 * Returns every entry below a folder with its size and the time of its last change. Does not follow links.
 */
function entriesOf(path: string): string[] {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const at = join(path, entry.name);
    const { size, mtimeMs, ctimeMs } = lstatSync(at);
    return [[at, size, mtimeMs, ctimeMs].join(' '), ...(entry.isDirectory() ? entriesOf(at) : [])];
  });
}

const cachedFiles = (cwd: string): string[] =>
  readdirSync(join(cwd, 'tmp'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.includes('node-compile-cache'),
  );

for (const args of [
  ['check', 'app.ts'],
  ['check', '--list'],
  ['routes', 'app.ts'],
]) {
  test(`svc ${args.join(' ')} writes no compile cache of Node.js to disk`, async (t) => {
    const options = inside(t);
    const before = entriesOf(options.cwd);
    const { status, stdout, stderr } = await run(process.execPath, [BIN, ...args], options);
    assert.deepEqual([status, entriesOf(options.cwd)], [0, before], stdout + stderr);
  });
}

for (const args of [['--version'], ['openapi', 'app.ts'], ['mcp', 'app.ts', '--list']]) {
  test(`svc ${args.join(' ')} stores compiled code in the compile cache of Node.js`, async (t) => {
    const options = inside(t);
    const { status, stderr } = await run(process.execPath, [BIN, ...args], options);
    assert.equal(status, 0, stderr);
    assert.notDeepEqual(cachedFiles(options.cwd), []);
  });
}

test('unless NODE_DISABLE_COMPILE_CACHE is set, svc run stores compiled code in the compile cache of Node.js', async (t) => {
  for (const disabled of [undefined, '1']) {
    const { cwd, env } = inside(t);
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], {
      cwd,
      env: { ...env, NODE_DISABLE_COMPILE_CACHE: disabled },
    });
    await server.printed(/"event":"listening"/);
    server.child.kill('SIGTERM');
    assert.equal((await server.ended).status, 0);
    assert.equal(cachedFiles(cwd).length > 0, disabled === undefined);
  }
});
