import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { isSupportedNode } from '../../src/base/need-node.ts';

const load = createRequire(import.meta.url);
const { isSupported, needed, missingParts, lack } = load('../../bin/need-node.cjs') as {
  isSupported(version: string): boolean;
  needed: Readonly<Record<string, readonly string[]>>;
  missingParts(load: (name: string) => unknown): string[];
  lack(missing: readonly string[], versions: Readonly<Record<string, string>>): string;
};
const SOURCES = join(import.meta.dirname, '../../src');
const ENTRIES = ['index.ts', 'db/index.ts', 'oauth/index.ts', 'testing/index.ts'];

test('isSupportedNode() and bin/need-node.cjs accept the same versions', () => {
  for (let major = 18; major < 30; major++) {
    for (let minor = 0; minor < 30; minor++) {
      const version = `${major}.${minor}.1`;
      assert.equal(isSupportedNode(version), isSupported(version), version);
    }
  }
});

for (const entry of ENTRIES) {
  test(`on a Node.js version that is too old, importing ${entry} prints one line and ends the process with status 2`, () => {
    const older = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '22.23.2' })`;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--conditions=svc-source', '--import', older, join(import.meta.dirname, '../../src', entry)],
      { encoding: 'utf8', env: { ...process.env, NODE_V8_COVERAGE: undefined } },
    );
    assert.equal(status, 2, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /^svc needs Node\.js 24\.18\.1 [^\n]+ found 22\.23\.2 at [^\n]+\n$/);
  });
}

test('missingParts() names each member and module that a runtime lacks', () => {
  assert.deepEqual(missingParts(load), []);
  const fake = (name: string): unknown => {
    if (name === 'node:sqlite') throw new Error('No such built-in module: node:sqlite');
    return name === 'node:module' ? { ...(load(name) as object), findPackageJSON: undefined } : load(name);
  };
  assert.deepEqual(missingParts(fake), ['findPackageJSON of node:module', 'node:sqlite']);
});

test('lack() names the runtime: Bun, Deno, or a build of Node.js', () => {
  for (const [versions, runtime] of [
    [{ node: '24.20.0', bun: '1.4.0' }, 'Bun 1.4.0'],
    [{ node: '24.20.0', deno: '2.9.0' }, 'Deno 2.9.0'],
    [{ node: '24.20.0' }, 'this build of Node.js 24.20.0'],
  ] as const)
    assert.match(
      lack(['node:sqlite'], versions),
      new RegExp(`^svc needs parts of Node\\.js that ${runtime} lacks: node:sqlite\\. Run it with`),
    );
});

test('the table of needed parts contains each member of node:module that the sources import', () => {
  const sources = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  const used = sources.flatMap((file) =>
    [
      ...readFileSync(join(SOURCES, file), 'utf8').matchAll(/^import \{([^}]+)\} from 'node:module'/gm),
    ].flatMap(([, names]) => names!.split(',').map((name) => name.trim().split(' as ')[0]!)),
  );
  const older = new Set(['SourceMap', 'createRequire', 'isBuiltin', 'syncBuiltinESMExports']);
  assert.deepEqual(
    [...new Set(used)].filter(
      (name) => name !== '' && !older.has(name) && !needed['node:module']!.includes(name),
    ),
    [],
  );
});

test('the command svc names the missing parts if its own code cannot be loaded', () => {
  // a runtime without findPackageJSON() fails when it links the modules of the command
  const hooks = `data:text/javascript,${encodeURIComponent(
    `import module, { registerHooks, syncBuiltinESMExports } from 'node:module';
     registerHooks({ load(url, context, next) {
       if (!url.endsWith('/dist/cli/main.js')) return next(url, context);
       delete module.findPackageJSON;
       throw new SyntaxError("Export named 'findPackageJSON' not found in module 'node:module'.");
     }, resolve(name, context, next) {
       return name === '../dist/cli/main.js' ? { url: 'file:///dist/cli/main.js', shortCircuit: true, format: 'module' } : next(name, context);
     } });`,
  )}`;
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--import', hooks, join(import.meta.dirname, '../../bin/svc.js'), 'routes'],
    { encoding: 'utf8', env: { ...process.env, NODE_V8_COVERAGE: undefined } },
  );
  assert.match(
    stderr,
    /^svc needs parts of Node\.js that [^\n]+ lacks: findPackageJSON of node:module\. [^\n]+\n$/,
  );
  assert.equal(status, 2);
});
