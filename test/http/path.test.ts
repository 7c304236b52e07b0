import assert from 'node:assert/strict';
import test from 'node:test';
import {
  CONVERTERS,
  canonicalLiteral,
  canonicalPath,
  decodeEscapes,
  encodeLocation,
  paramsReader,
  parseTemplate,
  splitQuery,
} from '../../src/http/path.ts';
import { seeded } from '../support/random.ts';
import type { SvcError } from '../../src/base/errors.ts';
import type { ConverterName } from '../../src/http/path.ts';

test('parseTemplate() returns the literals and parameters of a template in order', () => {
  const read = (template: string): unknown => {
    const { literals, parameters } = parseTemplate(template);
    return [literals, parameters.map(({ name, converter }) => `${name}:${converter.name}`)];
  };
  assert.deepEqual(read('/'), [['/'], []]);
  assert.deepEqual(read('/a/b/'), [['/a/b/'], []]);
  assert.deepEqual(read('/u/{id:int}'), [['/u/', ''], ['id:int']]);
  assert.deepEqual(read('/{a}/{b:uuid}/x'), [
    ['/', '/', '/x'],
    ['a:str', 'b:uuid'],
  ]);
  assert.deepEqual(read('/files/{rest:path}'), [['/files/', ''], ['rest:path']]);
  assert.deepEqual(read('/{a}/'), [['/', '/'], ['a:str']]);
  assert.deepEqual(read('/café/100%/a b'), [['/café/100%/a b'], []]);
  assert.deepEqual(read('/{constructor}/{toString}'), [
    ['/', '/', ''],
    ['constructor:str', 'toString:str'],
  ]);
});

for (const [template, why] of [
  ['', 'is empty'],
  ['a', 'has no leading slash'],
  ['{a}', 'has no leading slash'],
  ['/a{b}', 'mixes text and parameter'],
  ['/{a}b', 'mixes parameter and text'],
  ['/{a}{b}', 'has two parameters in one segment'],
  ['/{a', 'has an unmatched brace'],
  ['/a}', 'has an unmatched brace'],
  ['/{}', 'has a parameter without name'],
  ['/{1a}', 'has a parameter name that is not an identifier'],
  ['/{a-b}', 'has a parameter name that is not an identifier'],
  ['/{__proto__}', 'uses __proto__ as a parameter name'],
  ['/{a:}', 'has an empty converter'],
  ['/{a:integer}', 'has an unknown converter'],
  ['/{a:toString}', 'has the name of an Object method as converter'],
  ['/{a:int:str}', 'has two converters'],
  ['/{a}/{a}', 'has two parameters with one name'],
  ['/{a:path}/b', 'continues after a path parameter'],
  ['/{a:path}/', 'continues after a path parameter'],
  ['/{a:path}/{b}', 'continues after a path parameter'],
  ['/a?b', 'has a query'],
  ['/a#b', 'has a fragment'],
  ['/%41', 'has a percent escape'],
  ['/%2f', 'has a percent escape'],
  ['/\ud800', 'has a lone surrogate'],
] as const) {
  test(`parseTemplate() refuses an invalid template (${JSON.stringify(template)} ${why})`, () => {
    assert.throws(() => parseTemplate(template), { code: 'E_PATH_TEMPLATE' });
  });
}

test('for generated templates, parseTemplate() and a regular expression accept the same templates', () => {
  const random = seeded(28);
  const PIECES = [
    '/',
    '/x',
    '/{a}',
    '/{b}',
    '/{c:int}',
    '/{d:path}',
    '{a}',
    '{',
    '}',
    '?',
    '#',
    '%',
    '%41',
    'é',
  ];
  let read = 0;
  for (let round = 0; round < 20_000; round++) {
    const template = `/${Array.from({ length: random(6) }, () => PIECES[random(PIECES.length)]!).join('')}`;
    const parts = template.split(/(?<=\/)\{([^{}/]*)\}(?=\/|$)/);
    const literals = parts.filter((_part, index) => index % 2 === 0);
    const names = parts.filter((_part, index) => index % 2 === 1);
    const isClear = !literals.some((literal) => /[{}?#]|%[0-9a-f]{2}/i.test(literal));
    const isNamed =
      names.every((name) => /^(?:a|b|c:int|d:path)$/.test(name)) && new Set(names).size === names.length;
    const isInOrder =
      !names.slice(0, -1).includes('d:path') && (names.at(-1) !== 'd:path' || literals.at(-1) === '');
    const parse = (): unknown => {
      const { literals, parameters } = parseTemplate(template);
      return [
        literals,
        parameters.map(({ name, converter }) =>
          converter.name === 'str' ? name : `${name}:${converter.name}`,
        ),
      ];
    };
    if (isClear && isNamed && isInOrder) assert.deepEqual(parse(), [literals, names], template);
    else assert.throws(parse, { code: 'E_PATH_TEMPLATE' }, template);
    if (isClear && names.length > 0) read++;
  }
  assert.ok(read > 1_000);
});

test('parseTemplate() refuses values that are not strings, and suggests a similar name for an unknown converter', () => {
  for (const value of [undefined, null, 5, {}])
    assert.throws(() => parseTemplate(value as unknown as string), { code: 'E_PATH_TEMPLATE' });
  assert.throws(() => parseTemplate('/{a:itn}'), { code: 'E_PATH_TEMPLATE', message: /did you mean "int"/ });
});

const UUID = '0190163d-8694-739b-aea5-966c26f8ad91';
const READ: Readonly<
  Record<
    ConverterName,
    { readonly takes: readonly (readonly [string, unknown])[]; readonly refuses: readonly string[] }
  >
> = {
  int: {
    takes: [
      ['0', 0],
      ['-0', 0],
      ['7', 7],
      ['-7', -7],
      ['10', 10],
      ['9007199254740991', 2 ** 53 - 1],
      ['-9007199254740991', -(2 ** 53 - 1)],
      ['123456789012345', 123_456_789_012_345],
    ],
    refuses: [
      '',
      '-',
      '+1',
      '00',
      '01',
      '-01',
      '-00',
      '1.0',
      '1e3',
      '0x1',
      ' 1',
      '1 ',
      '1_0',
      '٣',
      '１',
      '9007199254740992',
      '-9007199254740992',
      '99999999999999999999',
      'NaN',
      '--1',
      '1-',
    ],
  },
  float: {
    takes: [
      ['0', 0],
      ['-0', 0],
      ['-0.0', 0],
      ['1.5', 1.5],
      ['-1.50', -1.5],
      ['0.1', 0.1],
      ['9007199254740993', 9007199254740992],
      ['1'.repeat(305), Number('1'.repeat(305))],
      [`0.${'0'.repeat(400)}1`, 0],
    ],
    refuses: [
      '',
      '-',
      '.',
      '1.',
      '.5',
      '-.5',
      '01.5',
      '1.5.5',
      '1e3',
      '1.5e3',
      'Infinity',
      'NaN',
      '1,5',
      '+1.5',
      '1.-5',
      '1'.repeat(310),
      '１.5',
    ],
  },
  uuid: {
    takes: [
      [UUID, UUID],
      [UUID.toUpperCase(), UUID],
      ['00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000'],
      ['FFFFFFFF-ffff-FFFF-ffff-FFFFFFFFFFFF', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
    ],
    refuses: [
      '',
      UUID.slice(1),
      `${UUID}0`,
      UUID.replaceAll('-', ''),
      UUID.replace('a', 'g'),
      `{${UUID}}`,
      UUID.replace('-', '0'),
      `${UUID.slice(0, 35)}\u0130`,
      `${UUID.slice(0, 35)}@`,
      `${UUID.slice(0, 35)}\x11`,
    ],
  },
  str: {
    takes: [
      ['a', 'a'],
      ['-0', '-0'],
      ['é ', 'é '],
      ['..', '..'],
      ['\0', '\0'],
    ],
    refuses: [''],
  },
  path: {
    takes: [
      ['a', 'a'],
      ['a/b', 'a/b'],
      ['a//b/', 'a//b/'],
      ['/', '/'],
    ],
    refuses: [''],
  },
  'path?': {
    takes: [
      ['', ''],
      ['a/b', 'a/b'],
      ['/', '/'],
    ],
    refuses: [],
  },
};

for (const [name, { takes, refuses }] of Object.entries(READ)) {
  const { test: accepts, read } = CONVERTERS[name as ConverterName];
  test(`a path parameter accepts every valid text of its converter, at any position of a path (converter ${name})`, () => {
    for (const [text, value] of takes) {
      assert.ok(accepts(text, 0, text.length), text);
      assert.ok(accepts(`1-./${text}/1.`, 4, 4 + text.length), text);
      assert.ok(Object.is(read(text), value), `${text} reads as ${String(read(text))}`);
    }
  });
  test(`a path parameter refuses every text that is invalid for its converter, at any position of a path (converter ${name})`, () => {
    for (const text of refuses) {
      assert.ok(!accepts(text, 0, text.length), text);
      assert.ok(!accepts(`-1/${text}/1`, 3, 3 + text.length), text);
    }
  });
}

const CANONICAL: readonly (readonly [path: string, canonical: string])[] = [
  ['/files/%61dmin/%7Euser', '/files/admin/~user'],
  ['/caf%C3%A9/%e2%82%ac/%F0%9F%98%80', '/café/€/😀'],
  ['/a%2fb%2Fc', '/a%2Fb%2Fc'],
  ['/%3f%23%5c%25', '/%3F%23%5C%25'],
  ['/%2561%252f', '/%2561%252f'],
  ['/a%20b', '/a%20b'],
  ['/%0d%0aSet-Cookie:%20a=b', '/%0D%0ASet-Cookie:%20a=b'],
  ['/%00%1f%7f%c2%85', '/%00%1F%7F%C2%85'],
  ['/%e2%80%ae%e2%80%8b%ef%bb%bf', '/%E2%80%AE%E2%80%8B%EF%BB%BF'],
  ['/%22%3C%3e%7b|%7D%5E%60', '/"<>{|}^`'],
  ['/%2e%2e/%2E', '/../.'],
  ['/%ff%c3%61%c0%af', '/%FF%C3a%C0%AF'],
  ['/%ed%a0%80', '/%ED%A0%80'],
  ['/café/\u0085', '/café/%C2%85'],
  ['/a\\b#c', '/a%5Cb%23c'],
  ['/plain/path-1_2.~', '/plain/path-1_2.~'],
];
for (const [path, canonical] of CANONICAL)
  test(`canonicalPath(${JSON.stringify(path)}) is ${canonical}, also when it is called again`, () => {
    assert.equal(canonicalPath(path), canonical);
    assert.equal(canonicalPath(canonicalPath(path)), canonical);
  });

test('canonicalPath() returns a path with a malformed escape unchanged', () => {
  for (const path of ['/%', '/%4', '/%zz', '/%2', '/a%2F%61%', '/%%2F', '/%u0041', '/%61%'])
    assert.equal(canonicalPath(path), path);
});

test('canonicalPath() gives one text for all spellings of a path, and keeps its meaning', () => {
  const random = seeded(20_261_128);
  const characters = ['a', 'Z', '/', '%', '\\', '?', '#', ' ', '\n', '~', '"', 'é', '€', '😀', '𐌰', '\u202e'];
  const spellings: readonly ((character: string) => string)[] = [
    (character) => (/[\w~"]/.test(character) ? character : encodeURIComponent(character)),
    (character) => encodeURIComponent(character).replace(/%../g, (escape) => escape.toLowerCase()),
    (character) =>
      [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  ];
  for (let round = 0; round < 5_000; round++) {
    const text = Array.from({ length: random(8) }, () => characters[random(characters.length)]!);
    const written = (): string =>
      `/${text.map((character) => spellings[random(spellings.length)]!(character)).join('')}`;
    const canonical = canonicalPath(written());
    assert.equal(canonicalPath(written()), canonical);
    assert.equal(decodeEscapes(canonical), `/${text.join('')}`);
    assert.match(canonical, /^[^\p{C}\p{Z}?#\\]*$/u);
  }
});

test('canonicalLiteral() gives the literal text of a template the form of a canonical path', () => {
  for (const literal of ['/a b', '/100%', '/café', '/a\\b', '/\u200b', '/{|}', '/x;y=1,2'])
    assert.equal(canonicalLiteral(literal), canonicalPath(encodeURI(literal)), literal);
});

test('encodeLocation() returns a valid URL unchanged, and encodes characters that are not allowed in a header field', () => {
  for (const url of ['https://a.example/b?c=d&e=%20#f', '/a/b;c=1,2', '//host/x', "/!$'()*+~-._:@[]", ''])
    assert.equal(encodeLocation(url), url);
  assert.equal(encodeLocation('/a b"<>\\^`{|}é😀'), '/a%20b%22%3C%3E%5C%5E%60%7B%7C%7D%C3%A9%F0%9F%98%80');
  assert.equal(encodeLocation('/a\r\nSet-Cookie: b=c\0'), '/a%0D%0ASet-Cookie:%20b=c%00');
  assert.equal(encodeLocation('/\ud800'), '/%EF%BF%BD');
});

test('parseTemplate() refuses templates in the syntax of Express, and suggests the equivalent template', () => {
  for (const [template, respelt] of [
    ['/u/:id', '/u/{id}'],
    ['/u/:id/notes/:note', '/u/{id}/notes/{note}'],
    ['/u/:id(\\d+)', '/u/{id}'],
    ['/u/:id?', '/u/{id}'],
    ['/files/*', '/files/{path:path}'],
    ['/files/*rest', '/files/{rest:path}'],
    ['/*', '/{path:path}'],
    ['/a/*name/b', '/a/{name}/b'],
    ['/{a}/:b', '/{a}/{b}'],
  ] as const) {
    assert.throws(
      () => parseTemplate(template),
      (error: SvcError) => error.code === 'E_PATH_TEMPLATE' && error.message.includes(`write "${respelt}"`),
      template,
    );
    parseTemplate(respelt);
  }
  for (const template of ['/a/*/b', '/:', '/a/:-'])
    assert.throws(
      () => parseTemplate(template),
      { code: 'E_PATH_TEMPLATE', message: /stand in braces/ },
      template,
    );
});

test('parseTemplate() reads ":" and "*" as ordinary text after a backslash or inside a segment', () => {
  for (const [template, literals] of [
    ['/\\:id', ['/:id']],
    ['/\\*', ['/*']],
    ['/a/\\:b/\\*c', ['/a/:b/*c']],
    ['/{a}/\\:b', ['/', '/:b']],
    ['/\\:a/{b}', ['/:a/', '']],
    ['/things:batch', ['/things:batch']],
    ['/a*', ['/a*']],
    ['/a\\:b', ['/a\\:b']],
    ['/\\a', ['/\\a']],
  ] as const)
    assert.deepEqual(parseTemplate(template).literals, literals, template);
});

test('paramsReader() returns one function for all templates with the same parameters in the same order', () => {
  const readerOf = (template: string): unknown => paramsReader(parseTemplate(template).parameters);
  const [first, ...others] = ['/a/{id:int}/{name}', '/b/{id:int}/x/{name}', '/{id:int}/{name:str}'].map(
    readerOf,
  );
  for (const other of others) assert.equal(other, first);
  for (const template of ['/a/{id}/{name}', '/a/{name}/{id:int}', '/a/{id:int}', '/a/{id:int}/{title}', '/a'])
    assert.notEqual(readerOf(template), first, template);
});

test('splitQuery() splits a request target at its first question mark (RFC 3986 §3.4)', () => {
  for (const [target, expected] of [
    ['/notes', ['/notes', '']],
    ['/notes?', ['/notes', '']],
    ['/notes?a=1&b=2', ['/notes', 'a=1&b=2']],
    ['/notes?q=a?b&page=2', ['/notes', 'q=a?b&page=2']],
    ['??', ['', '?']],
    ['', ['', '']],
  ] as const)
    assert.deepEqual(splitQuery(target), expected, target);
});
