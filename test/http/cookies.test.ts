import assert from 'node:assert/strict';
import test from 'node:test';
import { hostCookie, needsSecure, parseCookies, serializeCookie } from '../../src/http/cookies.ts';
import { HttpResponse } from '../../src/http/response.ts';
import { seeded } from '../support/random.ts';
import type { CookieOptions } from '../../src/http/cookies.ts';

for (const [field, cookies] of [
  [undefined, {}],
  ['', {}],
  [';;', {}],
  ['novalue', {}],
  ['=x', {}],
  [' =x; a=1', { a: '1' }],
  ['a=1; b=2', { a: '1', b: '2' }],
  ['a=1;b=2 ; c = 3 ', { a: '1', b: '2', c: '3' }],
  ['a=', { a: '' }],
  ['a=b=c', { a: 'b=c' }],
  ['a=first; a=second', { a: 'first' }],
  ['a=; a=second', { a: '' }],
  ['a="quoted"; b="; c=""', { a: 'quoted', b: '"', c: '' }],
  ['a=%20%C3%A9; b=%zz; c=%', { a: ' é', b: '%zz', c: '%' }],
  ['x; a=1', { a: '1' }],
  ['constructor=1', { constructor: '1' }],
] as const) {
  test(`parseCookies() returns the cookies of a Cookie field: ${JSON.stringify(field)}`, () =>
    assert.deepEqual<unknown>({ ...parseCookies(field) }, cookies));
}

for (const [field, cookies] of [
  ['\t a \t=\t1 \t', { a: '1' }],
  ['\xa0__Host-sid=evil', { '\xa0__Host-sid': 'evil' }],
  ['\ufeff__Secure-a\u2003=1', { '\ufeff__Secure-a\u2003': '1' }],
  ['a=\xa01\xa0', { a: '\xa01\xa0' }],
  ['\v=1', { '\v': '1' }],
] as const) {
  test(`parseCookies() strips only SP and HTAB, and no other white space, from names and values: ${JSON.stringify(field)}`, () =>
    assert.deepEqual<unknown>({ ...parseCookies(field) }, cookies));
}

test('for generated Cookie fields, parseCookies() returns the same as splitting at ";" and "="', () => {
  const below = seeded(5);
  const parts = ['a', 'b', '=', '=', ';', ';', ' ', '\t', '\xa0', '"'];
  for (let round = 0; round < 20_000; round++) {
    const field = Array.from({ length: below(14) }, () => parts[below(parts.length)]!).join('');
    const expected: Record<string, string> = {};
    for (const pair of field.split(';')) {
      const found = /^[ \t]*([^=]*?)[ \t]*=[ \t]*([^]*?)[ \t]*$/.exec(pair);
      if (found !== null && found[1] !== '') expected[found[1]!] ??= found[2]!.replace(/^"([^]*)"$/, '$1');
    }
    assert.deepEqual({ ...parseCookies(field) }, expected, JSON.stringify(field));
  }
});

test('parseCookies() reads a Cookie field with many short pairs before a very long one', () => {
  assert.deepEqual({ ...parseCookies(`${'a;'.repeat(999)}${'a'.repeat(9_900_000)}`) }, {});
});

test('parseCookies() returns an object without a prototype, and treats "__proto__" as an ordinary name', () => {
  const cookies = parseCookies('__proto__=1; a=2');
  assert.deepEqual(Object.keys(cookies), ['__proto__', 'a']);
  assert.equal(parseCookies('a=1')['toString'], undefined);
  assert.equal(({} as Record<string, unknown>)['1'], undefined);
});

test('serializeCookie() writes path, HttpOnly and SameSite=Lax by default', () => {
  assert.equal(serializeCookie('a', 'b'), 'a=b; Path=/; HttpOnly; SameSite=Lax');
  assert.equal(
    serializeCookie('a', 'b', { path: undefined, secure: undefined }),
    'a=b; Path=/; HttpOnly; SameSite=Lax',
  );
  assert.equal(
    serializeCookie('a', 'b', {
      path: '/x',
      domain: '.a.example',
      maxAgeSeconds: 60,
      httpOnly: false,
      sameSite: 'none',
      secure: true,
    }),
    'a=b; Path=/x; Domain=.a.example; Max-Age=60; SameSite=None; Secure',
  );
  assert.equal(
    serializeCookie('a', '', { maxAgeSeconds: -5, sameSite: 'strict' }),
    'a=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict',
  );
  assert.equal(
    serializeCookie('__Host-a', 'b', { secure: true }),
    '__Host-a=b; Path=/; HttpOnly; SameSite=Lax; Secure',
  );
});

for (const [what, name, value, options] of [
  ['an empty name', '', 'b', {}],
  ['a name with "="', 'a=', 'b', {}],
  ['a name with ";"', 'a;', 'b', {}],
  ['a name with CRLF', 'a\r\nb', 'b', {}],
  ['a name that is not a string', 5, 'b', {}],
  ['a value that is not a string', 'a', 5, {}],
  ['a lone surrogate', 'a', '\ud800', {}],
  ['a relative path', 'a', 'b', { path: 'x' }],
  ['a path with ";"', 'a', 'b', { path: '/;Domain=evil.example' }],
  ['a path with CRLF', 'a', 'b', { path: '/\r\nX: y' }],
  ['a domain with ";"', 'a', 'b', { domain: 'a;Secure' }],
  ['a domain with a space', 'a', 'b', { domain: 'a b' }],
  ['an empty domain', 'a', 'b', { domain: '' }],
  ['a fractional age', 'a', 'b', { maxAgeSeconds: 1.5 }],
  ['an age that is not a number', 'a', 'b', { maxAgeSeconds: NaN }],
  ['SameSite=None without Secure', 'a', 'b', { sameSite: 'none', secure: false }],
  ['an unknown SameSite', 'a', 'b', { sameSite: 'Lax' }],
  ['a list as SameSite', 'a', 'b', { sameSite: ['lax'] }],
  ['an inherited SameSite', 'a', 'b', { sameSite: 'constructor' }],
  ['__Secure- without Secure', '__Secure-a', 'b', { secure: false }],
  ['__Host- with a path', '__Host-a', 'b', { path: '/x', secure: true }],
  ['__host- with a domain', '__host-a', 'b', { domain: 'a.example', secure: true }],
] as const) {
  test(`serializeCookie() refuses an invalid cookie: ${what}`, () => {
    assert.throws(() => serializeCookie(name as string, value as string, options as CookieOptions), {
      code: 'E_COOKIE',
    });
  });
}

for (const [what, options, code, message] of [
  ['a name of another framework', { maxAge: 60_000 }, 'E_OPTION_UNKNOWN', /did you mean "maxAgeSeconds"/],
  ['a name in another case', { samesite: 'strict' }, 'E_OPTION_UNKNOWN', /did you mean "sameSite"/],
  [
    'an option that does not exist',
    { signed: true },
    'E_OPTION_UNKNOWN',
    /unknown option "signed"; the options are path, /,
  ],
  ['a text for Secure', { secure: 'true' }, 'E_OPTION_RANGE', /"secure" must be true or false/],
  ['a number for HttpOnly', { httpOnly: 0 }, 'E_OPTION_RANGE', /"httpOnly"/],
] as const) {
  test(`setCookie() and deleteCookie() refuse an option that would silently disable a protection of the cookie: ${what}`, () => {
    assert.throws(() => new HttpResponse().setCookie('a', 'b', options as unknown as CookieOptions), {
      code,
      message,
    });
    assert.throws(() => new HttpResponse().deleteCookie('a', options as unknown as CookieOptions), {
      code,
      message,
    });
  });
}

test('needsSecure() returns true for SameSite=None and for names with the prefix __Secure- or __Host-', () => {
  assert.deepEqual(
    [
      needsSecure('a', {}),
      needsSecure('a', { sameSite: 'none' }),
      needsSecure('__SECURE-a', {}),
      needsSecure('__Host-a', {}),
    ],
    [false, true, true, true],
  );
});

for (const [env, scheme, expected] of [
  ['production', 'http', '__Host-a true'],
  ['production', 'https', '__Host-a true'],
  ['development', 'http', 'a false'],
  ['development', 'https', '__Host-a true'],
  ['test', 'http', 'a false'],
  ['test', 'https', '__Host-a true'],
] as const) {
  test(`hostCookie() adds the prefix __Host- to the name of a cookie in production and for https (${env}, ${scheme}: ${expected.split(' ')[0]})`, () => {
    const { name, secure } = hostCookie('a', { scheme }, env);
    assert.equal(`${name} ${secure}`, expected);
  });
}

test('serializeCookie() refuses a cookie whose name and encoded value together have more than 4,096 bytes; attributes do not count', () => {
  assert.equal(
    serializeCookie('a', 'x'.repeat(4_095), { path: `/${'y'.repeat(500)}` }).length,
    4_097 + 508 + 24,
  );
  assert.throws(() => serializeCookie('a', 'x'.repeat(4_096)), { code: 'E_COOKIE', message: /4097 bytes/ });
  assert.throws(() => serializeCookie('a', 'é'.repeat(700)), { code: 'E_COOKIE' });
});

test('for generated values, parseCookies() returns the values that serializeCookie() has written', () => {
  const below = seeded(3);
  const letters = [
    'a',
    '%',
    '%41',
    ' ',
    ';',
    ',',
    '"',
    '\\',
    '=',
    '+',
    'é',
    '😀',
    '\r',
    '\n',
    '\0',
    '\x7f',
    '\t',
    '&',
  ];
  for (let round = 0; round < 5_000; round++) {
    const value = Array.from({ length: below(8) }, () => letters[below(letters.length)]!).join('');
    const field = serializeCookie('a', value);
    assert.match(field, /^[\x21-\x7e]+; Path=\/; HttpOnly; SameSite=Lax$|^a=; Path/);
    assert.equal(parseCookies(`z=1; ${field.slice(0, field.indexOf(';'))}; y=2`)['a'], value);
  }
});

test('serializeCookie() reads only own properties of its options, and ignores those of Object.prototype', (t) => {
  Object.defineProperty(Object.prototype, 'polluted', { value: true, enumerable: true, configurable: true });
  t.after(() => {
    delete (Object.prototype as { polluted?: unknown }).polluted;
  });
  assert.equal(serializeCookie('a', 'b', { path: '/x' }), 'a=b; Path=/x; HttpOnly; SameSite=Lax');
});
