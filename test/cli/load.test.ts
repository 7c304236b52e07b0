import assert from 'node:assert/strict';
import { realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Svc, SvcError } from 'svc';
import {
  isApplication,
  isFault,
  loadApplication,
  locate,
  ownPackage,
  packageSeenBy,
  parseTarget,
} from '../../src/cli/load.ts';
import { ROOT } from '../support/build.ts';
import { folder, project } from '../support/run.ts';
import type { TestContext } from 'node:test';
import type { FaultCode } from 'svc';

const APP = "import { Svc } from 'svc';\nexport const app = new Svc();\n";

function fault(code: FaultCode, message?: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, code, error.message);
    if (message !== undefined) assert.match(error.message, message);
    return true;
  };
}

for (const [target, module, exportName] of [
  ['app.ts', 'app.ts', 'app'],
  ['app.ts:app', 'app.ts', 'app'],
  ['src/main.ts:$shop_1', 'src/main.ts', '$shop_1'],
  ['C:\\work\\app.ts', 'C:\\work\\app.ts', 'app'],
  ['C:\\work\\app.ts:main', 'C:\\work\\app.ts', 'main'],
  ['C:app', 'C:app', 'app'],
  ['@scope/shop:main', '@scope/shop', 'main'],
  ['#app', '#app', 'app'],
  ['app.ts:1', 'app.ts:1', 'app'],
  ['app.ts:', 'app.ts:', 'app'],
  ['a:b:c', 'a:b', 'c'],
] as const) {
  test(`parseTarget() splits the target "${target}" into module ${module} and export ${exportName}`, () => {
    assert.deepEqual(parseTarget(target), { module, exportName });
  });
}

test('locate() finds a module file by its exact name, or by its name with the extension .ts, .mts, .js or .mjs, in this order', (t) => {
  const cwd = folder(t, {
    'a.ts': '',
    'a.js': '',
    'b.mts': '',
    'b.js': '',
    'c.js': '',
    'd.mjs': '',
    'b c/e.ts': '',
  });
  for (const [module, file] of [
    ['a', 'a.ts'],
    ['a.js', 'a.js'],
    ['./b', 'b.mts'],
    ['c', 'c.js'],
    ['d', 'd.mjs'],
    [join(cwd, 'a.ts'), 'a.ts'],
    ['b c/e', 'b c/e.ts'],
  ] as const) {
    assert.equal(fileURLToPath(locate({ module, exportName: 'app' }, cwd)), join(cwd, file));
  }
});

test('locate() refuses ".", ".." and names that end with a slash, because they name folders', (t) => {
  const cwd = folder(t, { 'shop.ts': '', 'shop/app.ts': '', 'shop/src.ts': '', 'shop/src/app.ts': '' });
  for (const module of ['.', './', '..', '../shop/', 'src/', 'src/..']) {
    const found = fault('E_LOAD', /the path names a folder$/);
    assert.throws(() => locate({ module, exportName: 'app' }, join(cwd, 'shop')), found, module);
  }
});

test('locate() returns the target of a symbolic link', (t) => {
  const cwd = folder(t, { 'real.ts': '' });
  symlinkSync(join(cwd, 'real.ts'), join(cwd, 'link.ts'));
  assert.equal(fileURLToPath(locate({ module: 'link.ts', exportName: 'app' }, cwd)), join(cwd, 'real.ts'));
});

test('locate() resolves package names and the "imports" of package.json from the working folder', (t) => {
  const cwd = folder(t, {
    'package.json': '{"imports":{"#app":"./src/app.ts"}}',
    'src/app.ts': '',
    'node_modules/shop/package.json': '{"exports":{".":{"import":"./a.js"},"./sub":"./b.js"}}',
    'node_modules/shop/a.js': '',
    'node_modules/shop/b.js': '',
  });
  const found = (module: string): string => fileURLToPath(locate({ module, exportName: 'app' }, cwd));
  assert.equal(found('#app'), join(cwd, 'src/app.ts'));
  assert.equal(found('shop'), join(cwd, 'node_modules/shop/a.js'));
  assert.equal(found('shop/sub'), join(cwd, 'node_modules/shop/b.js'));
});

for (const module of [
  'nope',
  './nope',
  '../nope',
  '#nope',
  'node:fs',
  'fs',
  '',
  '.',
  'lib',
  'https://example.com/app.js',
]) {
  test(`locate() refuses the module "${module}", which is neither a file nor a package`, (t) => {
    const cwd = folder(t, { 'lib/index.ts': '', 'package.json': '{}' });
    assert.throws(
      () => locate({ module, exportName: 'app' }, cwd),
      fault('E_LOAD', /contains no such file, and no such package is installed/),
    );
  });
}

test('packageSeenBy() returns the running copy of svc for a module that can import it, and undefined if a module cannot import svc', (t) => {
  assert.equal(packageSeenBy(pathToFileURL(join(project(t), 'app.ts'))), ownPackage());
  assert.equal(packageSeenBy(pathToFileURL(join(folder(t), 'app.ts'))), undefined);
});

test('packageSeenBy() returns the running copy of svc for modules of svc itself', () => {
  assert.equal(
    packageSeenBy(pathToFileURL(join(ROOT, 'test/support/hello.ts'))) ?? ownPackage(),
    ownPackage(),
  );
});

test('packageSeenBy() returns the copy of svc in node_modules beside the module, even if a different copy is running', (t) => {
  const cwd = folder(t, { 'node_modules/svc/package.json': '{"name":"svc"}' });
  assert.equal(packageSeenBy(pathToFileURL(join(cwd, 'app.ts'))), join(cwd, 'node_modules/svc/package.json'));
});

test('ownPackage() returns the package.json of this repository', () => {
  assert.equal(ownPackage(), realpathSync(join(ROOT, 'package.json')));
});

test('isApplication() returns true for applications made by any installed copy of svc', () => {
  assert.equal(isApplication(new Svc()), true);
  assert.equal(isApplication({ [Symbol.for('svc.app')]: true }), true);
  for (const value of [undefined, null, 1, 'app', {}, () => 1, Svc])
    assert.equal(isApplication(value), false);
});

test('isFault() recognises an SvcError of any installed copy of svc by its code and remedy', () => {
  assert.equal(isFault(new SvcError('E_CLI_USAGE', ['x'])), true);
  assert.equal(isFault(Object.assign(new Error('x'), { code: 'E_CLI_USAGE', remedy: 'y' })), true);
  for (const value of [
    undefined,
    null,
    'E_X',
    new Error('x'),
    Object.assign(new Error('x'), { code: 'EACCES', remedy: 'y' }),
    { code: 'E_X', remedy: 'y' },
  ])
    assert.equal(isFault(value), false);
});

function load(t: TestContext, files: Readonly<Record<string, string>>, exportName = 'app'): Promise<Svc> {
  const target = { module: 'app.ts', exportName };
  return loadApplication(target, locate(target, project(t, files)));
}

test('loadApplication() returns the application that a module exports', async (t) => {
  assert.ok((await load(t, { 'app.ts': APP })) instanceof Svc);
  assert.ok(
    (await load(
      t,
      { 'app.ts': 'import { Svc } from "svc"; export default new Svc();' },
      'default',
    )) instanceof Svc,
  );
});

for (const [what, code] of [
  ['a function', 'export const createApp = () => new Svc({ title: "made" });'],
  ['an asynchronous function', 'export async function createApp() { return new Svc({ title: "made" }); }'],
] as const) {
  test(`loadApplication() calls the export if it is ${what}, and returns the application that the function makes`, async (t) => {
    const called: string[] = [];
    const target = { module: 'app.ts', exportName: 'createApp' };
    const cwd = project(t, { 'app.ts': `import { Svc } from 'svc';\n${code}` });
    const app = await loadApplication(target, locate(target, cwd), (name) => called.push(name));
    assert.deepEqual([app.title, called], ['made', ['createApp']]);
  });
}

for (const [what, code, message] of [
  ['returns no application', 'export const app = () => ({});', /returns a value of the type object, but/],
  ['returns nothing', 'export const app = () => undefined;', /returns a value of the type undefined, but/],
  [
    'throws',
    'export const app = () => {\n  throw new RangeError("too much");\n};',
    /app\.ts:3: RangeError: too much$/,
  ],
  [
    'rejects',
    'export const app = async () => { throw new RangeError("too much"); };',
    /RangeError: too much$/,
  ],
  ['is a class', 'export class app {}', /cannot be invoked without 'new'$/],
] as const) {
  test(`loadApplication() throws E_LOAD when the exported function ${what}`, async (t) => {
    await assert.rejects(load(t, { 'app.ts': `import 'svc';\n${code}` }), fault('E_LOAD', message));
  });
}

test('if an export is missing, loadApplication() suggests an application, or else a function whose name ends with "app"', async (t) => {
  const suggested = (code: string, name: string): Promise<void> =>
    assert.rejects(
      load(t, { 'app.ts': `import { Svc } from 'svc';\n${code}` }),
      fault('E_LOAD', new RegExp(`did you mean ":${name}"\\?$`)),
    );
  await suggested('export const shop = new Svc(); export const makeApp = () => shop;', 'shop');
  await suggested('export function other() {} export const makeApp = () => new Svc();', 'makeApp');
});

test('in the imports of an application, loadApplication() resolves ./x.js and ./x to x.ts, and a folder to its index.ts', async (t) => {
  await load(t, {
    'app.ts': `${APP}import './lib/one.js';`,
    'lib/one.ts': "import '../two.mjs';",
    'two.mts': "import './three';",
    'three.ts': "import './four';",
    'four/index.ts': "import '../five';",
    'five.ts': '',
  });
});

test('if both ./x.js and ./x.ts exist, loadApplication() loads ./x.js', async (t) => {
  await load(t, {
    'app.ts': `${APP}import './one.js';`,
    'one.js': '',
    'one.ts': 'throw new Error("the other");',
  });
});

for (const [what, files, message] of [
  [
    'a relative import of a missing file',
    { 'app.ts': "import './nope.js';" },
    /Cannot find module '.*nope\.js' imported from .*app\.ts$/,
  ],
  [
    'an import of a missing file without extension',
    { 'app.ts': "import './nope';" },
    /Cannot find module '.*nope' imported from/,
  ],
  [
    'an import of a folder without an index',
    { 'app.ts': "import './lib';", 'lib/x.ts': '' },
    /Directory import '.*lib' is not supported/,
  ],
  [
    'a package that imports a missing file of its own',
    {
      'app.ts': "import 'broken';",
      'node_modules/broken/package.json': '{"type":"module","exports":"./a.js"}',
      'node_modules/broken/a.js': "import './b.js';",
      'node_modules/broken/b.ts': '',
    },
    /Cannot find module '.*b\.js'/,
  ],
  [
    'a CommonJS module that does not parse',
    { 'app.ts': "import './x.cjs';", 'x.cjs': '\n\nmodule.exports = (;' },
    /x\.cjs:3: Unexpected token ';'/,
  ],
  [
    'a JSON module that does not parse',
    { 'app.ts': "import './x.json' with { type: 'json' };", 'x.json': '{' },
    /x\.json/,
  ],
  [
    'JavaScript that parses alone and not where it is',
    { 'app.ts': "import './x.js';", 'package.json': '{}', 'x.js': '\nawait = 1;\nexport {};' },
    /x\.js:2: /,
  ],
  [
    'an ES module in a package of CommonJS',
    { 'app.ts': APP, 'package.json': '{ "type": "commonjs" }' },
    /app\.ts:1: Cannot use import statement outside a module: .*set "type": "module" there$/,
  ],
  [
    'an export in a package of CommonJS',
    {
      'app.ts': "import './x.js';",
      'package.json': '{ "type": "module" }',
      'x/package.json': '{ "type": "commonjs" }',
      'x.js': "import './x/y.js';",
      'x/y.js': '\nexport const y = 1;',
    },
    /y\.js:2: Unexpected token 'export': .*set "type": "module" there$/,
  ],
  [
    'a data: module that does not parse',
    { 'app.ts': "import 'data:text/javascript,export export';" },
    /: Unexpected token 'export'$/,
  ],
  [
    'an error without a stack',
    { 'app.ts': 'throw Object.assign(new Error("bare"), { stack: undefined });' },
    /: Error: bare$/,
  ],
  ['a thrown string', { 'app.ts': 'throw "no";' }, /the module threw a value of type string$/],
] as const) {
  test(`loadApplication() throws E_LOAD when the module to load has or causes ${what}`, async (t) => {
    await assert.rejects(load(t, files), fault('E_LOAD', message));
  });
}

test('if the import throws, loadApplication() throws an error whose cause is the thrown error, but rethrows E_COMPILE unchanged', async (t) => {
  await assert.rejects(load(t, { 'app.ts': `${APP}app.get('nope', () => 1);` }), (error: unknown) => {
    assert.ok(error instanceof SvcError && error.cause instanceof SvcError);
    assert.equal(error.cause.code, 'E_PATH_TEMPLATE');
    assert.match(error.message, /app\.ts:3: Cannot read the path template/);
    return true;
  });
  await assert.rejects(
    load(t, { 'app.ts': `${APP}app.get('/', () => 1).get('/', () => 2).compileAll();` }),
    fault('E_COMPILE'),
  );
});
