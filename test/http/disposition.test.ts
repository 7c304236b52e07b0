import assert from 'node:assert/strict';
import test from 'node:test';
import { contentDisposition } from '../../src/http/headers.ts';

for (const [name, value] of [
  ['a.txt', 'attachment; filename="a.txt"'],
  ['a b.txt', 'attachment; filename="a b.txt"'],
  ['', 'attachment; filename=""'],
  ["it's (1)*.txt", `attachment; filename="it's (1)*.txt"`],
  ['100%41.txt', `attachment; filename="100_41.txt"; filename*=UTF-8''100%2541.txt`],
  ["é'(*).txt", `attachment; filename="_'(*).txt"; filename*=UTF-8''%C3%A9%27%28%2A%29.txt`],
  ['\ud800', `attachment; filename="_"; filename*=UTF-8''%EF%BF%BD`],
  ['a"c', `attachment; filename="a_c"; filename*=UTF-8''a%22c`],
  ['\u{1f600}.png', `attachment; filename="_.png"; filename*=UTF-8''%F0%9F%98%80.png`],
  ['€ rates', `attachment; filename="_ rates"; filename*=UTF-8''%E2%82%AC%20rates`], // the example of RFC 6266 §5, its fallback apart
  ['../../etc/passwd', 'attachment; filename="passwd"'],
  ['C:\\temp\\x.exe', 'attachment; filename="x.exe"'],
  ['a/', 'attachment; filename=""'],
  [
    'a\r\nSet-Cookie: b=c',
    `attachment; filename="a__Set-Cookie: b=c"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20b%3Dc`,
  ],
] as const) {
  test(`contentDisposition() encodes a file name as RFC 6266 and RFC 8187 require: ${JSON.stringify(name)}`, () =>
    assert.equal(contentDisposition(name), value));
}

test('contentDisposition() accepts "inline" as its second argument, and shortens file names to 255 characters', () => {
  assert.equal(contentDisposition('a.pdf', 'inline'), 'inline; filename="a.pdf"');
  assert.equal(contentDisposition('x'.repeat(1_000)), `attachment; filename="${'x'.repeat(255)}"`);
});
