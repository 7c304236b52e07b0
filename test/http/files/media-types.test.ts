import assert from 'node:assert/strict';
import test from 'node:test';
import { mediaTypeOf } from '../../../src/http/files/files.ts';

test('mediaTypeOf() returns the media type for a file extension in upper or lower case', () => {
  const types = {
    'a.HTML': 'text/html; charset=utf-8',
    'a.b.json': 'application/json',
    'a.tar.gz': 'application/gzip',
    'x/y.woff2': 'font/woff2',
    'm.svg': 'image/svg+xml',
  };
  for (const [name, type] of Object.entries(types)) assert.equal(mediaTypeOf(name), type);
  for (const name of ['.txt', 'noext', 'a.constructor', 'a.__proto__', 'a.', '', 'a.html/'])
    assert.equal(
      mediaTypeOf(name),
      name === 'a.html/' ? 'text/html; charset=utf-8' : 'application/octet-stream',
      name,
    );
});

test('mediaTypeOf() adds a charset to text types only', () => {
  for (const name of ['a.txt', 'a.css', 'a.js', 'a.csv', 'a.md'])
    assert.match(mediaTypeOf(name), /^text\/[a-z]+; charset=utf-8$/);
  for (const name of ['a.png', 'a.json', 'a.pdf', 'a.wasm'])
    assert.doesNotMatch(mediaTypeOf(name), /charset/);
});
