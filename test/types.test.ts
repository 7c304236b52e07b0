/**
 * test/types under each TypeScript that is in use: against the declarations that the package has in its tarball, not the sources.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { ROOT, build } from './support/build.ts';
import { folder } from './support/run.ts';
import { scratch } from './support/scratch.ts';
import type { TestContext } from 'node:test';

const TYPES = join(ROOT, 'test/types');
const FILES = readdirSync(TYPES).filter((file) => file.endsWith('.ts') && file !== 'schema-inside.ts'); // nobody outside can name what is in there
const TEXTS: readonly string[] = FILES.map((file) => readFileSync(join(TYPES, file), 'utf8'));

before(() => { build(); });

test('test/types holds at least 60 positive and 20 negative assertions', () => {
  const count = (pattern: RegExp): number => TEXTS.reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0);
  assert.ok(count(/^\s*(?:is|same)<.*>\(.*\);|\{ is<.*>\(\); \}/gm) >= 60);
  assert.ok(count(/\/\/ @ts-expect-error \S/g) >= 20);
});

for (const typescript of ['5.9', '6.0', '7.0']) {
  test(`test/types compiles against the built declarations under TypeScript ${typescript}`, (t) => {
    if (process.env['FAST_TESTS'] === '1') return t.skip('FAST_TESTS=1');
    const compiler = scratch(t, `typescript-${typescript}`, { typescript: `~${typescript}.0`, '@types/node': '^24.0.0' });
    if (compiler === undefined) return;
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(compiler, 'node_modules/typescript/bin/tsc'), '-p', '.'], { cwd: project(t, compiler), encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
  });
}

/** A folder in which the package is installed as its tarball would be, with the assertions beside it. */
function project(t: TestContext, compiler: string): string {
  const compilerOptions = {
    target: 'es2024', module: 'nodenext', types: ['node'], noEmit: true, strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false,
    skipDefaultLibCheck: true, // what comes with the compiler
    noPropertyAccessFromIndexSignature: true, lib: ['es2024', 'esnext.disposable'],
  };
  const cwd = folder(t, { 'package.json': '{"private":true,"type":"module"}', 'tsconfig.json': JSON.stringify({ compilerOptions, include: ['*.ts'] }) });
  const installed = join(cwd, 'node_modules/svc');
  mkdirSync(installed, { recursive: true });
  cpSync(join(ROOT, 'package.json'), join(installed, 'package.json'));
  cpSync(join(ROOT, 'dist'), join(installed, 'dist'), { recursive: true });
  symlinkSync(join(compiler, 'node_modules/@types'), join(cwd, 'node_modules/@types'), 'dir');
  FILES.forEach((file, index) => writeFileSync(join(cwd, file), fromNamespaces(TEXTS[index]!)));
  return cwd;
}

/** What a file takes from a source it takes from the namespace that was built of it. */
function fromNamespaces(text: string): string {
  const ids = new Set<string>();
  const rewritten = text.replace(/^import (?:type )?\{([^}]+)\} from '\.\.\/\.\.\/src\/(.+)\.ts';$/gm, (_all, names: string, path: string) => {
    const id = `$${path.replace(/\W/g, '_')}`;
    ids.add(id);
    return names.split(',').map((name) => name.trim()).filter((name) => name !== '').map((name) => `import ${name} = ${id}.${name};`).join('\n');
  });
  return ids.size === 0 ? text : `import { ${[...ids].join(', ')} } from './node_modules/svc/dist/types.js';\n${rewritten}`;
}
