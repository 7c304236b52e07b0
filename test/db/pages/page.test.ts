/** The `Link` header of a page, from the request target. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linkHeaders } from '../../../src/db/pages/page.ts';
import type { HttpRequest } from '../../../src/http/contracts.ts';

for (const [target, expected] of [
  ['/notes', '?page=3'],
  ['/notes?', '?page=3'],
  ['/notes?q=a&q=b&size=20', '?q=a&q=b&size=20&page=3'],
  ['/notes?page=2&page=7&cursor=x&cursors=1', '?cursors=1&page=3'],
  ['/notes?q=what?&mine=true', '?q=what%3F&mine=true&page=3'],
  ['/notes?q=a%26b+c', '?q=a%26b+c&page=3'],
] as const)
  test(`linkHeaders() keeps the query parameters of other names: ${target}`, () => {
    const links = { next: { page: '3' }, prev: undefined };
    assert.deepEqual(linkHeaders({ target } as HttpRequest, links), { Link: `<${expected}>; rel="next"` });
  });

test('linkHeaders() joins several links, and returns no header without a link or a request', () => {
  const req = { target: '/notes?size=2' } as HttpRequest;
  assert.deepEqual(linkHeaders(req, { first: {}, next: { cursor: 'a,b' } }), {
    Link: '<?size=2>; rel="first", <?size=2&cursor=a%2Cb>; rel="next"',
  });
  assert.deepEqual(linkHeaders(req, { prev: undefined }), {});
  assert.deepEqual(linkHeaders(undefined, { first: {} }), {});
});
