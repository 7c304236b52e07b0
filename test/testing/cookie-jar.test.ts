import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CookieJar, ManualClock } from 'svc/testing';

const HOME = new URL('http://localhost/');

/** Returns a jar that has stored these `Set-Cookie` fields of a response from `from`. */
function jar(fields: readonly string[], from: string | URL = HOME, clock = new ManualClock()): CookieJar {
  const made = new CookieJar(() => clock.nowMs());
  for (const field of fields) made.take(field, new URL(from));
  return made;
}

for (const [what, field, expected] of [
  ['a pair', 'a=1', { a: '1' }],
  ['a value with "="', 'a=b=c', { a: 'b=c' }],
  ['an empty value', 'a=', { a: '' }],
  ['spaces around name and value', ' a  =  1 ; Path=/', { a: '1' }],
  ['quotes, which belong to the value', 'a="1"', { a: '"1"' }],
  ['a field without "="', 'a', {}],
  ['an empty name', '=1', {}],
  ['a name of spaces', '  =1', {}],
  ['an empty field', '', {}],
  [
    'attributes in any letter case, and ignores unknown ones',
    'a=1; PATH=/; hTTPoNLY; Priority=High; ;',
    { a: '1' },
  ],
  ['the last of two attributes of one name', 'a=1; Max-Age=0; Max-Age=10', { a: '1' }],
  ['Max-Age=0, and deletes the cookie', 'a=1; Max-Age=0', {}],
  ['a negative Max-Age, and deletes the cookie', 'a=1; Max-Age=-5', {}],
  ['a Max-Age that is not a number, and ignores it', 'a=1; Max-Age=1e3', { a: '1' }],
  ['Expires in the past, and deletes the cookie', 'a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT', {}],
  ['an Expires that is not a date, and ignores it', 'a=1; Expires=soon', { a: '1' }],
  ['Max-Age before Expires', 'a=1; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT', { a: '1' }],
] as const) {
  test(`CookieJar.take() reads a Set-Cookie field as RFC 6265 §5.2 requires: ${what}`, () => {
    const kept = jar([field]);
    assert.deepEqual(Object.fromEntries(kept.names().map((name) => [name, kept.get(name)])), expected);
  });
}

for (const [how, fields] of [
  ['Max-Age=0', 'Max-Age=0'],
  ['Expires in the past', 'Expires=Thu, 01 Jan 1970 00:00:00 GMT'],
] as const) {
  test(`CookieJar deletes a cookie if it is set again with an expiry in the past (${how})`, () => {
    const kept = jar(['a=1', `a=; ${fields}`]);
    assert.deepEqual(kept.names(), []);
    assert.equal(kept.headerFor(HOME), '');
  });
}

test('CookieJar deletes a cookie at the time given by Max-Age or Expires', async () => {
  const clock = new ManualClock();
  const kept = jar(
    ['a=1; Max-Age=10', `b=2; Expires=${new Date(clock.nowMs() + 20_000).toUTCString()}`, 'c=3'],
    HOME,
    clock,
  );
  await clock.advance(9_999);
  assert.equal(kept.headerFor(HOME), 'a=1; b=2; c=3');
  await clock.advance(1);
  assert.equal(kept.headerFor(HOME), 'b=2; c=3');
  await clock.advance(10_000);
  assert.deepEqual(kept.names(), ['c']);
});

for (const [path, url, isSent] of [
  ['/', '/any/where', true],
  ['/a', '/a', true],
  ['/a', '/a/', true],
  ['/a', '/a/b', true],
  ['/a', '/ab', false],
  ['/a', '/', false],
  ['/a/', '/a/b', true],
  ['/a/', '/a', false],
  ['a', '/other', true],
  ['', '/other', true],
] as const) {
  test(`CookieJar sends a cookie only to paths that match its Path attribute, as RFC 6265 §5.1.4 requires (Path="${path}", request for ${url}: ${isSent ? 'sent' : 'not sent'})`, () => {
    assert.equal(jar([`x=1; Path=${path}`]).headerFor(new URL(url, HOME)), isSent ? 'x=1' : '');
  });
}

for (const [from, path, isSent] of [
  ['/a/b', '/a', true],
  ['/a/b', '/a/c', true],
  ['/a/b', '/', false],
  ['/a/b/', '/a/b', true],
  ['/a/b/', '/a', false],
  ['/a', '/z', true],
] as const) {
  test(`CookieJar derives the path of a cookie without Path from its URL, as RFC 6265 §5.1.4 requires (set by ${from}, request for ${path}: ${isSent ? 'sent' : 'not sent'})`, () => {
    assert.equal(jar(['x=1'], new URL(from, HOME)).headerFor(new URL(path, HOME)), isSent ? 'x=1' : '');
  });
}

for (const [from, domain, to, isSent] of [
  ['http://example.com', '', 'http://example.com', true],
  ['http://example.com', '', 'http://www.example.com', false],
  ['http://example.com', 'example.com', 'http://www.example.com', true],
  ['http://www.example.com', '.EXAMPLE.com', 'http://api.example.com', true],
  ['http://www.example.com', 'www.example.com', 'http://example.com', false],
  ['http://example.com', 'www.example.com', 'http://www.example.com', false],
  ['http://example.com', 'other.org', 'http://other.org', false],
  ['http://notexample.com', 'example.com', 'http://example.com', false],
  ['http://1.2.3.4', '3.4', 'http://1.2.3.4', false],
  ['http://1.2.3.4', '1.2.3.4', 'http://1.2.3.4', true],
] as const) {
  test(`CookieJar sends a cookie only to hosts that match its Domain attribute, as RFC 6265 §5.1.3 requires (Domain="${domain}" from ${from}, request to ${to}: ${isSent ? 'sent' : 'not sent'})`, () => {
    assert.equal(jar([`x=1; Domain=${domain}`], from).headerFor(new URL(to)), isSent ? 'x=1' : '');
  });
}

for (const [from, to, isSent] of [
  ['https://example.com', 'https://example.com', true],
  ['https://example.com', 'http://example.com', false],
  ['http://example.com', 'https://example.com', false],
  ['http://localhost', 'http://localhost', true],
  ['http://127.0.0.1', 'http://127.0.0.1', true],
  ['http://[::1]', 'http://[::1]', true],
] as const) {
  test(`CookieJar accepts and sends a Secure cookie only over https or on the local machine (set by ${from}, request to ${to}: ${isSent ? 'sent' : 'not sent'})`, () => {
    assert.equal(jar(['x=1; Secure; Path=/'], from).headerFor(new URL(to)), isSent ? 'x=1' : '');
  });
}

for (const [field, isKept] of [
  ['__Host-x=1; Secure; Path=/', true],
  ['__Host-x=1; Secure; Path=/; Domain=', true],
  ['__Host-x=1; Path=/', false],
  ['__Host-x=1; Secure', false],
  ['__Host-x=1; Secure; Path=/a', false],
  ['__Host-x=1; Secure; Path=/; Domain=localhost', false],
  ['__Secure-x=1; Secure', true],
  ['__Secure-x=1', false],
  ['__host-x=1; Path=/', false],
] as const) {
  test(`CookieJar.take() keeps a cookie with a prefix only if it has the attributes that RFC 6265bis §4.1.3 requires (${field}: ${isKept ? 'kept' : 'refused'})`, () => {
    assert.equal(jar([field]).names().length, isKept ? 1 : 0);
  });
}

test('CookieJar sends cookies in the order of RFC 6265 §5.4: longer paths first, then older cookies', () => {
  const kept = jar(['a=1; Path=/', 'b=2; Path=/deep', 'c=3; Path=/', 'a=4; Path=/', 'a=5; Path=/deep']);
  assert.equal(kept.headerFor(new URL('/deep/er', HOME)), 'b=2; a=5; a=4; c=3');
});

test('CookieJar.set() adds a cookie for all names of the local machine, or for one given host', () => {
  const kept = jar([]);
  kept.set('mine', '1');
  kept.set('theirs', '2', 'example.com');
  for (const url of ['http://localhost/a', 'http://127.0.0.1:8000/', 'http://[::1]/'])
    assert.equal(kept.headerFor(new URL(url)), 'mine=1');
  assert.equal(kept.headerFor(new URL('http://example.com/')), 'theirs=2');
  assert.equal(kept.headerFor(new URL('http://www.example.com/')), '');
});

test('CookieJar.delete() deletes every cookie with the given name, and CookieJar.clear() deletes all cookies', () => {
  const kept = jar(['a=1; Path=/', 'a=2; Path=/deep', 'b=3']);
  kept.delete('a');
  kept.delete('nothing');
  assert.deepEqual(kept.names(), ['b']);
  kept.clear();
  assert.deepEqual(kept.names(), []);
});
