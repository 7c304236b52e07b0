import assert from 'node:assert/strict';
import test from 'node:test';
import { canonicalPath, fillTemplate, parseTemplate } from '../../src/http/path.ts';
import { RoutingTable } from '../../src/http/router.ts';
import { seeded } from '../support/random.ts';
import type { ConverterName } from '../../src/http/path.ts';

const UUID = '0190163d-8694-739b-aea5-966c26f8ad91';
const fill = (template: string, params: Record<string, unknown> = {}): string =>
  fillTemplate('it', parseTemplate(template), params);

test('fillTemplate() writes a value in the form that the converter of its path parameter reads', () => {
  assert.equal(fill('/u/{id:int}', { id: 5 }), '/u/5');
  assert.equal(fill('/u/{id:int}', { id: -0 }), '/u/0');
  assert.equal(fill('/u/{id:int}', { id: '17' }), '/u/17');
  assert.equal(fill('/u/{id:float}', { id: 1e-7 }), '/u/0.0000001');
  assert.equal(fill('/u/{id:float}', { id: -1.5e-7 }), '/u/-0.00000015');
  assert.equal(fill('/u/{id:float}', { id: 1e21 }), '/u/1000000000000000000000');
  assert.equal(fill('/u/{id:uuid}', { id: UUID.toUpperCase() }), `/u/${UUID}`);
  assert.equal(fill('/{name}', { name: 'a b/c?d#é%' }), '/a%20b%2Fc%3Fd%23%C3%A9%25');
  assert.equal(fill('/{name}', { name: 5 }), '/5');
  assert.equal(fill('/f/{rest:path}', { rest: 'a b/c?/%2F' }), '/f/a%20b/c%3F/%252F');
  assert.equal(fill('/café/a b/100%/[x]'), '/caf%C3%A9/a%20b/100%25/%5Bx%5D');
});

for (const [template, params, problem] of [
  ['/{a}', {}, /missing/],
  ['/{a}', { a: undefined }, /missing/],
  ['/{a}', { a: 'x', b: 'y' }, /not a parameter of the path template/],
  ['/{a}', { a: '' }, /empty/],
  ['/{a}', { a: null }, /string or a number/],
  ['/{a}', { a: '\udc00' }, /lone surrogate/],
  ['/{toString}', {}, /missing/],
  ['/{a:int}', { a: 1.5 }, /safe integer/],
  ['/{a:int}', { a: 2 ** 53 }, /safe integer/],
  ['/{a:int}', { a: '01' }, /safe integer/],
  ['/{a:int}', { a: NaN }, /safe integer/],
  ['/{a:float}', { a: Infinity }, /finite/],
  ['/{a:float}', { a: '1e3' }, /finite/],
  ['/{a:uuid}', { a: 'x' }, /UUID/],
  ['/{a:uuid}', { a: 5 }, /UUID/],
  ['/{a:path}', { a: '' }, /empty/],
  ['/{a:path}', { a: {} }, /string or a number/],
  ['/{a}', { a: '.' }, /segment/],
  ['/{a}', { a: '..' }, /segment/],
  ['/{a:path}', { a: 'x/../../y' }, /segment/],
  ['/{a:path}', { a: 'x/.' }, /segment/],
] as const) {
  test(`fillTemplate() refuses values that do not fit the parameters of the template (${template} with ${JSON.stringify(params)})`, () => {
    assert.throws(() => fill(template, params), { code: 'E_URL_PARAM', message: problem });
  });
}

test('fillTemplate() never returns a path that a client would read as another host (RFC 3986 §4.2)', () => {
  for (const rest of ['/evil.example', '//evil.example', '/\\evil.example', '\\evil.example']) {
    const path = fill('/{rest:path}', { rest });
    assert.equal(new URL(path, 'http://own.example').host, 'own.example');
  }
});

test('RoutingTable.match() returns the generated values that were given to fillTemplate(), also after a client has parsed the URL', () => {
  const below = seeded(1);
  const pick = <T>(items: readonly T[]): T => items[below(items.length)]!;
  const letters = [
    'a',
    'Z',
    '0',
    '-',
    '.',
    '_',
    '~',
    '%',
    '%2F',
    '/',
    '//',
    '?',
    '#',
    '&',
    '=',
    '+',
    ' ',
    'é',
    '中',
    '😀',
    '\\',
    '"',
    '<',
    '{',
    '}',
    '\0',
    '\n',
    '\x7f',
    ';',
    ':',
    '@',
    '\ufeff',
  ];
  const text = (): string => Array.from({ length: 1 + below(8) }, () => pick(letters)).join('');
  const hex = (length: number): string =>
    Array.from({ length }, () => pick([...'0123456789abcdef'])).join('');
  const double = (): number => {
    const view = new DataView(new ArrayBuffer(8));
    for (let at = 0; at < 8; at++) view.setUint8(at, below(256));
    const value = view.getFloat64(0);
    return Number.isFinite(value) ? value + 0 : 0.5;
  };
  const values: Readonly<Record<ConverterName, () => unknown>> = {
    str: text,
    path: text,
    'path?': text,
    float: () => pick([double, () => below(1e6) / 64])(),
    int: () => pick([1, -1]) * pick([below(10), below(2 ** 31), 2 ** 53 - 1 - below(9)]) + 0,
    uuid: () => [8, 4, 4, 4, 12].map(hex).join('-'),
  };
  let checked = 0;
  for (const converter of Object.keys(values) as ConverterName[]) {
    const first = converter.startsWith('path') ? 'str' : converter;
    const template = `/100%/é/{first:${first}}/x/{it:${converter}}`;
    const parsed = parseTemplate(template);
    const table = new RoutingTable<string>();
    table.add('GET', parsed, 'here');
    table.freeze();
    for (let round = 0; round < 3_000; round++) {
      const params = { first: values[first](), it: values[converter]() };
      if (Object.values(params).some((value) => /(^|\/)\.\.?(\/|$)/.test(String(value)))) continue;
      const path = fillTemplate('it', parsed, params);
      assert.match(path, /^[\x21-\x7e]+$/);
      assert.equal(new URL(path, 'http://a').pathname, path);
      const match = table.match('GET', canonicalPath(path));
      assert.equal(match.kind, 'found', path);
      const read =
        match.kind === 'found'
          ? match.captures.map((capture, index) => parsed.parameters[index]!.converter.read(capture))
          : [];
      assert.deepEqual(read, [params.first, params.it], path);
      checked++;
    }
  }
  assert.ok(checked > 12_000);
});

test('fillTemplate() writes an optional parameter that is empty as a slash at the end, and leaves a missing one out with its slash', () => {
  const fill = (template: string, params: Readonly<Record<string, unknown>>): string =>
    fillTemplate('it', parseTemplate(template), params);
  assert.equal(fill('/dav/{rest:path?}', {}), '/dav');
  assert.equal(fill('/dav/{rest:path?}', { rest: '' }), '/dav/');
  assert.equal(fill('/dav/{rest:path?}', { rest: 'a/b c' }), '/dav/a/b%20c');
  assert.equal(fill('/{rest:path?}', {}), '/');
  assert.equal(fill('/u/{id:int}/{rest:path?}', { id: 5 }), '/u/5');
  assert.throws(() => fill('/u/{id:int}/{rest:path?}', {}), { code: 'E_URL_PARAM' });
  assert.throws(() => fill('/dav/{rest:path?}', { rest: '../x' }), { code: 'E_URL_PARAM' });
  assert.throws(() => parseTemplate('/dav/{rest:path?}/x'), { code: 'E_PATH_TEMPLATE' });
});
