/**
 * Paths of static files: allowed paths, and refused ones in every spelling.
 */
import assert from 'node:assert/strict';
import { posix } from 'node:path';
import test from 'node:test';
import { canonicalPath, decodeEscapes } from '../../../src/http/path.ts';
import { hidesSeparator, readStaticPath } from '../../../src/http/files/static-folder.ts';
import { seeded } from '../../support/random.ts';

const read = (rest: string, isWindows = false): string => {
  const path = readStaticPath(rest, 'ignore', isWindows);
  return path.kind === 'path' ? path.segments.join('/') : path.kind;
};

for (const [rest, expected] of [
  ['', ''],
  ['a.txt', 'a.txt'],
  ['css/site.css', 'css/site.css'],
  ['docs/', 'docs'],
  ['caf\u00e9/\u{1f600} x.txt', 'caf\u00e9/\u{1f600} x.txt'],
  ['a..b/c...', 'a..b/c...'],
  ['%2e%2e/x', '%2e%2e/x'],
  ['.well-known/security.txt', '.well-known/security.txt'],
  ['..', 'none'],
  ['../x', 'none'],
  ['a/../x', 'none'],
  ['a/..', 'none'],
  ['.', 'none'],
  ['./x', 'none'],
  ['a/./x', 'none'],
  ['/', 'none'],
  ['/etc/passwd', 'none'],
  ['a//b', 'none'],
  ['a//', 'none'],
  ['..\\x', 'none'],
  ['a\\b', 'none'],
  ['a\0.txt', 'none'],
  ['a\n', 'none'],
  ['\x7f', 'none'],
  ['\u0085', 'none'],
  ['\ud800', 'none'],
  ['x'.repeat(5_000), 'none'],
  ['.env', 'none'],
  ['a/.git/config', 'none'],
  ['...', 'none'],
  ['.well-known', '.well-known'],
  ['a/.well-known/x', 'none'],
  ['.well-known/.x', 'none'],
  ['.WELL-KNOWN/x', 'none'],
] as const) {
  test(`readStaticPath() returns a path inside the folder, or refuses the path of the request (path: ${JSON.stringify(rest.slice(0, 40))}, result: ${JSON.stringify(expected)})`, () =>
    assert.equal(read(rest), expected));
}

for (const rest of [
  'a.txt::$DATA',
  'a.txt:stream',
  'C:/x',
  'c:x',
  'nul',
  'NUL',
  'aux.txt',
  'Con',
  'con.tar.gz',
  'lpt1',
  'COM9.log',
  'com\u00b9',
  'CONIN$',
  'a/prn',
  'x.',
  'x ',
  'nul .txt',
  'GIT~1/config',
  'a?b',
  'a*',
  'a|b',
  'a"b',
  'a<b',
]) {
  test(`on Windows, readStaticPath() refuses a path that has a special meaning there: ${JSON.stringify(rest)}`, () =>
    assert.equal(read(rest, true), 'none'));
}

test('readStaticPath() accepts ordinary names on Windows', () => {
  for (const rest of [
    'console.js',
    'auxiliary.css',
    'nullable',
    'com.txt',
    'comet1',
    'a b.txt',
    '~user',
    'a.b.c',
  ])
    assert.equal(read(rest, true), rest);
});

test('readStaticPath() accepts a name that begins with a dot only if dotfiles are allowed', () => {
  assert.equal(readStaticPath('a/.env', 'deny').kind, 'denied');
  assert.deepEqual(readStaticPath('a/.env', 'allow'), { kind: 'path', segments: ['a', '.env'] });
  assert.equal(readStaticPath('a/../.env', 'deny').kind, 'none');
  for (const rest of ['..', 'a/..', '.']) assert.equal(readStaticPath(rest, 'allow').kind, 'none');
});

test('hidesSeparator() returns true for a path with an escaped slash, backslash or NUL', () => {
  for (const path of ['/a%2fb', '/a%2Fb', '/..%5c', '/x%5C', '/%00'])
    assert.equal(hidesSeparator(path), true, path);
  for (const path of ['/a/b', '/a%20b', '/%c3%a9', '/%252f', '/100%25'])
    assert.equal(hidesSeparator(path), false, path);
});

test('for generated requests, readStaticPath() never returns a path outside its folder', () => {
  const random = seeded(22);
  const parts = [
    '.',
    '..',
    '/',
    '/',
    '\\',
    '%2e',
    '%2E',
    '%2f',
    '%5c',
    '%252e',
    '%252f',
    '%c0%ae',
    '%c0%af',
    '%e0%80%ae',
    '%00',
    '%0a',
    'a',
    'b.txt',
    ':',
    ' ',
    '%20',
    '~1',
    '\u2215',
    '\uff0e',
    '%ff',
    '%',
    '%u002e',
  ];
  let accepted = 0;
  for (let round = 0; round < 50_000; round++) {
    const path = `/${Array.from({ length: 1 + random(8) }, () => parts[random(parts.length)]!).join('')}`;
    const canonical = canonicalPath(path);
    const decoded = hidesSeparator(canonical) ? undefined : decodeEscapes(canonical);
    if (decoded === undefined) continue;
    for (const isWindows of [false, true]) {
      const found = readStaticPath(decoded.slice(1), 'allow', isWindows);
      if (found.kind !== 'path') continue;
      accepted++;
      const joined = posix.join('/srv/public', ...found.segments);
      assert.ok(joined === '/srv/public' || joined.startsWith('/srv/public/'), path);
      assert.equal(joined, ['/srv/public', ...found.segments].join('/'), path); // nothing was left to resolve
      assert.ok(!found.segments.some((segment) => segment.includes('\\') || segment.includes('\0')), path);
      if (isWindows) assert.ok(!joined.includes(':'), path);
    }
  }
  assert.ok(accepted > 5_000);
});
