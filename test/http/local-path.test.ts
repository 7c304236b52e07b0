import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localPath } from '../../src/http/path.ts';
import { RedirectResponse } from '../../src/http/response.ts';
import { Svc } from '../../src/app/svc.ts';
import { TestClient } from '../../src/testing/index.ts';
import { seeded } from '../support/random.ts';

for (const path of [
  '/',
  '/path',
  '/path?x=1#y',
  '/a//b',
  '/a/../b',
  '/?q=a%0Ab',
  '/users/5?next=https://evil.example/',
  '/café',
  '/a:b',
  '/%20',
  '/#//evil.example',
]) {
  test(`localPath() returns a path without another host unchanged: ${JSON.stringify(path)}`, () =>
    assert.equal(localPath(path), path));
}

for (const path of [
  '//evil.example',
  '/\\evil.example',
  '\\\\evil.example',
  'https:evil.example',
  'https://evil.example',
  '/%09/evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  '/a\tb',
  '/a\r\nSet-Cookie: x',
  '/ x',
  'javascript:alert(1)',
  'data:text/html,x',
  '',
  'path',
  '?x',
  '#y',
  './x',
  '/%2f/evil.example',
  '/%2F%2Fevil.example',
  '/%5cevil.example',
  '/a%5C%5Cevil.example',
  '/%0d%0ax',
  '/..//evil.example',
  '/.//evil.example',
  '/%2e%2e//evil.example',
  '/a/..//evil.example',
  '/a\\b',
  '/\u0000',
  '/\u0085x',
  '/\u2028x',
  '/\ud800',
  '/x\u00a0',
  undefined,
  null,
  5,
  ['/x'],
  {},
]) {
  test(`localPath() returns undefined for a value that is not a safe path on the same host: ${JSON.stringify(path)}`, () =>
    assert.equal(localPath(path), undefined));
}

test('if localPath() accepts a generated path, a URL parser resolves the path to the origin of the base URL', () => {
  const random = seeded(3);
  const chunks = [
    '/',
    '\\',
    '//',
    '.',
    '..',
    '%09',
    '%2f',
    '%2e',
    '%5c',
    '\t',
    '\n',
    '\r',
    ' ',
    '@',
    ':',
    'https:',
    'javascript:',
    'evil.example',
    'a',
    '?',
    '#',
    '\0',
    'é',
    '\u3000',
    '%',
    '[',
    ']',
  ];
  let accepted = 0;
  for (let round = 0; round < 50_000; round++) {
    const value =
      (random(3) > 0 ? '/' : '') +
      Array.from({ length: random(6) }, () => chunks[random(chunks.length)]!).join('');
    if (localPath(value) === undefined) continue;
    accepted++;
    const url = new URL(value, 'https://app.example/deep/page');
    assert.equal(url.origin, 'https://app.example', JSON.stringify(value));
    assert.equal(
      new URL(url.pathname, 'https://app.example/').origin,
      'https://app.example',
      JSON.stringify(value),
    );
  }
  assert.ok(accepted > 3_000, String(accepted));
});

test('a handler can redirect to the result of localPath(), and to a path of its own if localPath() returns undefined', async () => {
  const app = new Svc().get(
    '/login',
    ({ req }) => new RedirectResponse(localPath(req.query.get('next')) ?? '/', { status: 303 }),
  );
  await using client = new TestClient(app);
  assert.equal(
    (await client.get('/login', { query: { next: '/inbox?page=2' } })).headers.get('location'),
    '/inbox?page=2',
  );
  assert.equal(
    (await client.get('/login', { query: { next: '//evil.example' } })).headers.get('location'),
    '/',
  );
});
