import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { ownFolders, packageRoot, programBeside } from '../../src/base/package-root.ts';
import { ROOT } from '../support/build.ts';

const DIST = 'file:///a%20b/svc/dist/base/package-root.js';

test('packageRoot() returns the folder of the package.json of svc, for modules in src and in dist', () => {
  assert.equal(packageRoot()?.href, `${pathToFileURL(ROOT).href}/`);
  assert.equal(packageRoot(DIST)?.href, 'file:///a%20b/svc/');
});

test('packageRoot() returns undefined in a bundled program, for ES modules and CommonJS', () => {
  for (const own of ['file:///app/dist/program.mjs', 'file:///app/package-root.js', undefined])
    assert.equal(packageRoot(own ?? ''), undefined, own);
});

test('programBeside() returns the URL of a program in the folder of the given module, or undefined if it does not exist', () => {
  const module = new URL('../../src/db/sqlite/reader.ts', import.meta.url).href;
  assert.equal(programBeside(module, 'reader-process')?.href, new URL('./reader-process.ts', module).href);
  assert.equal(programBeside(module, 'absent'), undefined);
  assert.equal(programBeside(undefined, 'reader-process'), undefined);
});

test('ownFolders() returns the folders dist and src of svc, both as URLs and as paths', () => {
  assert.deepEqual(ownFolders('', DIST, false), [
    'file:///a%20b/svc/dist/',
    '/a b/svc/dist/',
    'file:///a%20b/svc/src/',
    '/a b/svc/src/',
  ]);
  assert.deepEqual(ownFolders('db/', DIST, false), [
    'file:///a%20b/svc/dist/db/',
    '/a b/svc/dist/db/',
    'file:///a%20b/svc/src/db/',
    '/a b/svc/src/db/',
  ]);
});

test('on Windows, ownFolders() returns paths with a drive letter and backslashes', () => {
  assert.deepEqual(ownFolders('', 'file:///C:/a%20b/svc/dist/base/package-root.js', true), [
    'file:///C:/a%20b/svc/dist/',
    'C:\\a b\\svc\\dist\\',
    'file:///C:/a%20b/svc/src/',
    'C:\\a b\\svc\\src\\',
  ]);
});

test('ownFolders() returns the folder of the bundle if a bundler has joined svc with an application', () => {
  assert.deepEqual(ownFolders('', 'file:///app/out/program.mjs', false), ['file:///app/out/', '/app/out/']);
});
