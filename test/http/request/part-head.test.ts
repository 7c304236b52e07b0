import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePartHead } from '../../../src/http/request/part-head.ts';

/** Result of `Content-Disposition: form-data` with these parameters: [name, filename], or undefined if refused. */
function read(parameters: string): readonly (string | undefined)[] | undefined {
  const head = parsePartHead(`Content-Disposition: form-data${parameters}`);
  const padded = parsePartHead(`X-Other: 1\r\nCONTENT-DISPOSITION:\tForm-Data ${parameters} `); // never the short way
  assert.deepEqual(
    typeof head === 'string' ? 'refused' : head,
    typeof padded === 'string' ? 'refused' : padded,
    parameters,
  );
  return typeof head === 'string' ? undefined : [head.name, head.filename];
}

test('parsePartHead() returns field names and file names as RFC 7578 §4.2 defines them', () => {
  for (const [parameters, name, filename] of [
    ['; name="user"', 'user', undefined],
    ['; name=user', 'user', undefined],
    ['; name=""', '', undefined],
    ['; name="a b;c=d"', 'a b;c=d', undefined],
    ['; name="ünï👋"', 'ünï👋', undefined],
    ['; name="f"; filename="file1.txt"', 'f', 'file1.txt'],
    ['; name="f"; filename=file1.txt', 'f', 'file1.txt'],
    ['; filename="x"; name="f"', 'f', 'x'],
    ['; name="f"; filename=""', 'f', ''],
    ['; NAME="f"; FileName="x"', 'f', 'x'],
    ['; name="f"; size=5; filename="naïve.txt"', 'f', 'naïve.txt'],
    ['\t;\tname="f"', 'f', undefined],
    ['; name="f" ; filename="x"', 'f', 'x'],
  ] as const)
    assert.deepEqual(read(parameters), [name, filename], parameters);
});

test('parsePartHead() decodes only the escapes that browsers and curl write', () => {
  for (const [quoted, text] of [
    ['a%22b', 'a"b'],
    ['a%0D%0Ab', 'a\r\nb'],
    ['a%0d%0ab', 'a\r\nb'],
    ['100%', '100%'],
    ['%2522', '%2522'],
    ['%41%00%2F', '%41%00%2F'],
    ['a\\"b', 'a"b'],
    ['a\\\\b', 'a\\b'],
    ['a\\b', 'a\\b'],
    ['\\%22', '\\"'],
  ] as const) {
    assert.deepEqual(read(`; name="${quoted}"`), [text, undefined], quoted);
  }
});

test('parsePartHead() shortens a file name to its last path segment, and removes control characters', () => {
  for (const [quoted, filename] of [
    ['../../etc/passwd', 'passwd'],
    ['/etc/passwd', 'passwd'],
    ['C:\\\\Users\\\\Ada\\\\a.txt', 'a.txt'],
    ['C:\\Users\\a.txt', 'a.txt'],
    ['..', ''],
    ['.', ''],
    ['a/..', ''],
    ['a/', ''],
    ['.env', '.env'],
    ['a..b', 'a..b'],
    ['a%0D%0ASet-Cookie: x', 'aSet-Cookie: x'],
    ['a\u0085b\u009f', 'ab'],
    ['annual\u202etxt.exe', 'annualtxt.exe'],
    ['\u2066a\u2069', 'a'],
    ['a%22.txt', 'a".txt'],
    ['mañana 👋.pdf', 'mañana 👋.pdf'],
  ] as const)
    assert.deepEqual(read(`; name="f"; filename="${quoted}"`), ['f', filename], quoted);
});

test('parsePartHead() reads "filename*" (RFC 8187 §3.2.3) only if there is no "filename"', () => {
  for (const [parameters, filename] of [
    ["; filename*=UTF-8''%c2%a3%20and%20%e2%82%ac%20rates", '£ and € rates'],
    ["; filename*=utf-8'en'%2e%2e%2fa.txt", 'a.txt'],
    ["; filename*=UTF-8''a%00%0ab", 'ab'],
    ['; filename="plain.txt"; filename*=UTF-8\'\'other.txt', 'plain.txt'],
    ['; filename*=UTF-8\'\'other.txt; filename="plain.txt"', 'plain.txt'],
    ["; filename*=UTF-8''", ''],
  ] as const)
    assert.deepEqual(read(`; name="f"${parameters}`), ['f', filename], parameters);
  for (const wrong of [
    "ISO-8859-1'en'%A3%20rates",
    "UTF-8''%ff",
    "UTF-8''%e2%82",
    "UTF-8'%41",
    'abc',
    "UTF-8''%4",
    "UTF-8'''",
    '"UTF-8\'\'a"',
  ])
    assert.equal(read(`; name="f"; filename*=${wrong}`), undefined, wrong);
});

test('parsePartHead() refuses a Content-Disposition that is malformed, ambiguous, or not form-data', () => {
  for (const parameters of [
    '',
    ';',
    '; filename="x"',
    '; name',
    '; name=',
    '; name="a',
    '; name="a\\"',
    '; name="a" x',
    '; name="a";',
    '; name="a"; name="b"',
    '; name=a; NAME=a',
    '; name="a"; filename="x"; filename="y"',
    ', name="a"',
    '; name="a", b',
    '; name=ü',
    'x; name="a"',
    "; name*=UTF-8''a",
  ]) {
    assert.equal(read(parameters), undefined, parameters);
  }
  for (const head of [
    '',
    'Content-Type: text/plain',
    'Content-Disposition: attachment; name="a"',
    'Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="a"',
    ' Content-Disposition: form-data; name="a"',
    'Content-Disposition : form-data; name="a"',
    'Content-Disposition: form-data;\r\n name="a"',
    'Content-Disposition: form-data; name="a"\nX: y',
    'Content-Disposition: form-data; name="a"\rX: y',
    'Content-Disposition: form-data; name="a\0"',
    'Content-Disposition: form-data; name="a"\r\n',
    'Content-Disposition: form-data; name="a"\r\nx',
    'Content-Disposition: form-data; name="a"\r\n: x',
    '--b: c\r\nContent-Disposition: form-data; name="a"',
    'Content-Disposition: form-data; name="a"\r\nContent-Type: a/b\r\nContent-Type: a/b',
  ]) {
    assert.equal(typeof parsePartHead(head), 'string', JSON.stringify(head));
  }
  const many = (count: number): string =>
    `${'X: y\r\n'.repeat(count - 1)}Content-Disposition: form-data; name="a"`;
  assert.deepEqual(
    [typeof parsePartHead(many(32)), typeof parsePartHead(many(33)), typeof parsePartHead(many(5_000))],
    ['object', 'string', 'string'],
  );
});

test('parsePartHead() returns the Content-Type of a part, text/plain by default, and refuses content encodings such as base64', () => {
  const typeOf = (lines: string): unknown => {
    const head = parsePartHead(`Content-Disposition: form-data; name="f"; filename="x"${lines}`);
    return typeof head === 'string' ? undefined : head.contentType;
  };
  assert.deepEqual(
    [
      '',
      '\r\nContent-Type:',
      '\r\nContent-Type: image/png',
      '\r\ncontent-type: Text/HTML; charset="utf-8" ',
      '\r\nContent-Transfer-Encoding: BINARY\r\nContent-Type: a/b',
    ].map(typeOf),
    ['text/plain', 'text/plain', 'image/png', 'Text/HTML; charset="utf-8"', 'a/b'],
  );
  for (const encoding of ['base64', 'quoted-printable', 'gzip', '', '8bit, base64'])
    assert.equal(typeOf(`\r\nContent-Transfer-Encoding: ${encoding}`), undefined, encoding);
});
