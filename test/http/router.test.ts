import assert from 'node:assert/strict';
import test from 'node:test';
import { canonicalPath } from '../../src/http/path.ts';
import { RoutingTable, allowOf } from '../../src/http/router.ts';
import { referenceMatch } from '../support/router-reference.ts';
import { seeded } from '../support/random.ts';
import type { ReferenceRoute } from '../support/router-reference.ts';

function tableOf(...routes: (readonly [method: string, template: string])[]): RoutingTable<string> {
  const table = new RoutingTable<string>();
  for (const [method, template] of routes) table.add(method, template, `${method} ${template}`);
  table.freeze();
  return table;
}
function found(table: RoutingTable<string>, method: string, path: string): string {
  const match = table.match(method, canonicalPath(path));
  return match.kind === 'found'
    ? [match.endpoint, ...match.captures].join(' ')
    : match.kind === 'wrong-method'
      ? match.allow
      : match.kind;
}

test('RoutingTable.match() prefers static segments to uuid, int, float, str and path parameters', () => {
  const uuid = '0190163d-8694-739b-aea5-966c26f8ad91';
  const table = tableOf(
    ['GET', '/{a:path}'],
    ['GET', '/{a}'],
    ['GET', '/{a:float}'],
    ['GET', '/{a:int}'],
    ['GET', '/{a:uuid}'],
    ['GET', '/7'],
  );
  assert.deepEqual(
    ['/7', '/8', '/8.5', `/${uuid}`, '/x', '/x/y', '/8/', '/'].map((path) => found(table, 'GET', path)),
    [
      'GET /7',
      'GET /{a:int} 8',
      'GET /{a:float} 8.5',
      `GET /{a:uuid} ${uuid}`,
      'GET /{a} x',
      'GET /{a:path} x/y',
      'GET /{a:path} 8/',
      'none',
    ],
  );
  assert.equal(found(tableOf(['GET', '/{a}/b'], ['GET', '/a/{b}']), 'GET', '/a/b'), 'GET /a/{b} b');
});

test('if one matching branch lacks the rest of the path or the method, RoutingTable.match() tries the next matching branch', () => {
  const table = tableOf(
    ['GET', '/a/b/c'],
    ['GET', '/a/{x}/d'],
    ['GET', '/{y}/b/e'],
    ['POST', '/a/b/f'],
    ['GET', '/{p:path}'],
    ['PUT', '/a/{x:int}'],
    ['DELETE', '/a/{x}'],
  );
  assert.equal(found(table, 'GET', '/a/b/d'), 'GET /a/{x}/d b');
  assert.equal(found(table, 'GET', '/a/b/e'), 'GET /{y}/b/e a');
  assert.equal(found(table, 'GET', '/a/b/f'), 'GET /{p:path} a/b/f');
  assert.equal(found(table, 'DELETE', '/a/5'), 'DELETE /a/{x} 5');
  assert.equal(found(table, 'POST', '/a/5'), 'GET, HEAD, PUT, DELETE, OPTIONS');
});

test('RoutingTable.match() returns the GET route for HEAD, unless there is a HEAD route', () => {
  const table = tableOf(['GET', '/a'], ['GET', '/{x}'], ['HEAD', '/{x}'], ['POST', '/p']);
  assert.equal(found(table, 'HEAD', '/a'), 'GET /a');
  assert.equal(found(table, 'HEAD', '/b'), 'HEAD /{x} b');
  assert.equal(found(tableOf(['POST', '/p']), 'HEAD', '/p'), 'POST, OPTIONS');
});

test('RoutingTable.match() finds each of many static paths that have the same length', () => {
  for (let count = 1; count < 9; count++) {
    const paths = Array.from({ length: count }, (_, index) => `/a/${index}`);
    const table = tableOf(
      ...paths.map((path) => ['GET', path] as const),
      ['POST', '/'],
      ['GET', '/a/{x}/b'],
      ['GET', '/long/er/than/all'],
    );
    assert.deepEqual(
      paths.map((path) => found(table, 'GET', path)),
      paths.map((path) => `GET ${path}`),
      `${count} of one length`,
    );
    assert.deepEqual(
      ['/a/9', '/a/', '/a/9/b', '/long/er/than/none', `/${'x'.repeat(99)}`, ''].map((path) =>
        found(table, 'GET', path),
      ),
      ['none', 'none', 'GET /a/{x}/b 9', 'none', 'none', 'none'],
    );
    assert.equal(found(table, 'POST', '/a/0'), 'GET, HEAD, OPTIONS');
  }
});

test('RoutingTable.match() does not split a segment at %2F, and returns %2F as a slash in the parameter', () => {
  const table = tableOf(['GET', '/{a}'], ['GET', '/{a}/{b}'], ['GET', '/f/{p:path}']);
  assert.equal(found(table, 'GET', '/x%2Fy'), 'GET /{a} x/y');
  assert.equal(found(table, 'GET', '/x%2fy/%2F'), 'GET /{a}/{b} x/y /');
  assert.equal(found(table, 'GET', '/f/x%2Fy/z'), 'GET /f/{p:path} x/y/z');
  assert.equal(found(tableOf(['GET', '/a/b']), 'GET', '/a%2Fb'), 'none');
});

test('RoutingTable.match() returns "malformed" for an invalid escape, also when a literal contains "%"', () => {
  const table = tableOf(['GET', '/100%'], ['GET', '/{a}'], ['GET', '/50%/x']);
  assert.equal(found(table, 'GET', '/100%'), 'malformed');
  assert.equal(found(table, 'GET', '/100%25'), 'GET /100%');
  assert.equal(found(table, 'GET', '/50%25/x'), 'GET /50%/x');
  assert.equal(found(table, 'GET', '/50%/x'), 'malformed');
  assert.equal(found(table, 'POST', '/100%25'), 'GET, HEAD, OPTIONS');
});

test('RoutingTable.match() finds a static path, whichever of its characters are percent-encoded', () => {
  const table = tableOf(['GET', '/a b/café']);
  assert.equal(found(table, 'GET', '/a%20b/caf%C3%A9'), 'GET /a b/café');
  assert.equal(found(table, 'POST', '/%61%20b/caf%c3%a9'), 'GET, HEAD, OPTIONS');
});

test('if a template equals an existing one except for parameter names, RoutingTable.add() keeps the existing endpoint and returns it', () => {
  const table = new RoutingTable<string>();
  assert.equal(table.add('GET', '/{a}/x', 'first'), undefined);
  assert.equal(table.add('GET', '/{b}/x', 'second'), 'first');
  assert.equal(table.add('GET', '/{b:int}/x', 'third'), undefined);
  assert.equal(table.add('POST', '/{a}/x', 'fourth'), undefined);
  assert.equal(table.add('GET', '/s', 'static'), undefined);
  assert.equal(table.add('GET', '/s', 'again'), 'static');
  table.freeze();
  assert.equal(found(table, 'GET', '/q/x'), 'first q');
  assert.throws(() => table.add('GET', 'x', 'y'), { code: 'E_PATH_TEMPLATE' });
});

test('RoutingTable finds every template, even if templates that were added later have split its prefix', () => {
  const templates = [
    '/abc/{a}',
    '/abc/{a}/x',
    '/abd/{a}',
    '/abc/{a}/y',
    '/ab/{a}',
    '/abc/{a}/z',
    '/abc/{a}/zz',
    '/a%b/{a}',
    '/{a}/c',
    '/{a}/cd',
    '/abcd/{a}',
    '/abc/{a:int}',
  ];
  const table = tableOf(
    ...templates.flatMap(
      (template) =>
        [
          ['GET', template],
          ['PUT', template],
          ['ACL', template],
        ] as const,
    ),
  );
  for (const template of templates) {
    const path = template.replace('%', '%25').replace(/\{.*?\}/, template.includes(':int') ? '7' : 'v');
    for (const method of ['GET', 'PUT', 'ACL'])
      assert.equal(
        found(table, method, path),
        `${method} ${template} ${template.includes(':int') ? '7' : 'v'}`,
      );
    assert.equal(found(table, 'POST', path).startsWith('GET, HEAD, PUT, '), true);
  }
});

test('allowOf() lists each method once, the common methods first, and always includes OPTIONS', () => {
  assert.equal(allowOf([]), 'OPTIONS');
  assert.equal(
    allowOf(['PURGE', 'DELETE', 'GET', 'HEAD', 'DELETE', 'ACL']),
    'GET, HEAD, DELETE, OPTIONS, ACL, PURGE',
  );
});

test('RoutingTable returns the same as a simple reference implementation for generated tables, paths and methods', () => {
  const below = seeded(20_261_121);
  const pick = <T>(items: readonly T[]): T => items[below(items.length)]!;
  const literals = [
    'a',
    'ab',
    'abc',
    'abd',
    'b',
    'é',
    'éa',
    '1',
    '12',
    '1.5',
    '-0',
    '100%',
    'x y',
    '',
    'a%b',
  ];
  const parameters = ['str', 'int', 'float', 'uuid', ''].map(
    (converter) => (name: string) => (converter === '' ? `{${name}}` : `{${name}:${converter}}`),
  );
  const methods = ['GET', 'POST', 'HEAD', 'OPTIONS', 'PURGE'];
  const texts = [
    ...literals,
    'a%62',
    '%61',
    'a%2Fb',
    '%2F',
    '%2f%2F',
    '%C3%A9',
    '%',
    '%4',
    '%zz',
    '%ff',
    '%2',
    '0',
    '01',
    '-1',
    '1.',
    '9007199254740991',
    '9007199254740992',
    '1e3',
    '%31',
    '1%2E5',
    '0190163d-8694-739b-aea5-966c26f8ad91',
    '0190163D-8694-739B-AEA5-966C26F8AD91',
    '..',
    'zzz',
    '100%25',
    'x%20y',
    'constructor',
    '__proto__',
  ];
  const plain = literals.filter((literal) => !literal.includes('%'));
  const template = (from: readonly string[]): string => {
    const segments = Array.from({ length: 1 + below(4) }, (_, index) =>
      below(2) === 0 ? pick(from) : pick(parameters)(`p${index}`),
    );
    if (below(6) === 0) segments.push('{rest:path}');
    return `/${segments.join('/')}`;
  };
  const kinds = { found: 0, 'wrong-method': 0, none: 0, malformed: 0 };
  for (let round = 0; round < 600; round++) {
    const routes: ReferenceRoute[] = [];
    const table = new RoutingTable<ReferenceRoute>();
    for (let count = 1 + below(14); count > 0; count--) {
      const route = { method: pick(methods), template: template(round % 2 === 0 ? plain : literals) }; // a table without "%" tests for escapes last
      if (table.add(route.method, route.template, route) === undefined) routes.push(route);
    }
    table.freeze();
    for (let probe = 0; probe < 50; probe++) {
      const base =
        below(3) === 0
          ? []
          : pick(routes)
              .template.split('/')
              .slice(1)
              .map((segment) =>
                segment.startsWith('{') || below(8) === 0
                  ? pick(texts)
                  : below(2) === 0
                    ? encodeURIComponent(segment)
                    : segment,
              );
      const path = `/${(base.length === 0 ? Array.from({ length: 1 + below(5) }, () => pick(texts)) : base).join('/')}`;
      const method = pick(methods);
      const expected = referenceMatch(routes, method, path);
      const actual = table.match(method, canonicalPath(path));
      const what = `${method} ${path} in ${JSON.stringify(routes)}`;
      assert.equal(actual.kind, expected.kind, what);
      kinds[expected.kind]++;
      if (actual.kind === 'found' && expected.kind === 'found') {
        assert.equal(actual.endpoint, expected.route, what);
        assert.deepEqual([...actual.captures], expected.captures, what);
      }
      if (actual.kind === 'wrong-method' && expected.kind === 'wrong-method')
        assert.equal(actual.allow, allowOf(expected.methods), what);
    }
  }
  assert.ok(Object.values(kinds).reduce((sum, count) => sum + count) >= 20_000);
  assert.ok(Math.min(...Object.values(kinds)) > 1_000, JSON.stringify(kinds));
});

test('RoutingTable adds 10,000 routes, and finds each of them', () => {
  const templates = Array.from(
    { length: 10_000 },
    (_, n) =>
      [`/s${n}/list`, `/r${n}/{id:int}`, `/r${n}/{id:int}/part/{part}`, `/x/${n}/{rest:path}`, `/{a}/y${n}`][
        n % 5
      ]!,
  );
  const table = tableOf(...templates.map((template) => ['GET', template] as const));
  for (const template of templates)
    assert.ok(
      found(
        table,
        'GET',
        template
          .replace('{id:int}', '1')
          .replace('{part}', 'p')
          .replace('{rest:path}', 'r/s')
          .replace('{a}', 'q'),
      ).startsWith(`GET ${template}`),
    );
});

test('RoutingTable.match() finds no route for the worst paths in a table with many branches', () => {
  const kinds = ['{a:int}', '{a:float}', '{a}', '1'];
  const templates = Array.from(
    { length: 4 ** 5 },
    (_, code) =>
      `/${Array.from({ length: 5 }, (_, at) => kinds[Math.floor(code / 4 ** at) % 4]!.replace('a', `a${at}`)).join('/')}/end`,
  );
  const table = tableOf(...templates.map((template) => ['GET', template] as const));
  const paths = [
    '/1/1/1/1/1/never',
    `/${'1'.repeat(16_000)}`,
    '/1'.repeat(8_000),
    '/'.repeat(16_000),
    '/%2F'.repeat(4_000),
    `/1/1/1/1/${'1'.repeat(15_000)}/no`,
  ];
  for (const path of paths) assert.equal(table.match('GET', canonicalPath(path)).kind, 'none');
});

test('RoutingTable matches segments that begin with ":" or "*" if their templates have a backslash before that character', () => {
  const table = new RoutingTable<string>();
  for (const template of ['/\\:id', '/a/\\*', '/\\:x/{id}']) table.add('GET', template, template);
  assert.notEqual(table.add('GET', '/\\:id', 'again'), undefined);
  table.freeze();
  for (const [path, endpoint] of [
    ['/:id', '/\\:id'],
    ['/%3Aid', '/\\:id'],
    ['/a/*', '/a/\\*'],
    ['/:x/1', '/\\:x/{id}'],
  ] as const) {
    const match = table.match('GET', canonicalPath(path));
    assert.equal(match.kind === 'found' && match.endpoint, endpoint, path);
  }
  for (const path of ['/1', '/\\:id', '/a/b'])
    assert.equal(table.match('GET', canonicalPath(path)).kind, 'none', path);
});

test('a template that ends with an optional path matches its folder with and without a slash, and all below', () => {
  const table = new RoutingTable<string>();
  table.add('GET', '/dav/{rest:path?}', 'dav');
  table.add('GET', '/u/{id:int}/{rest:path?}', 'user');
  table.add('GET', '/dav/new', 'new');
  assert.equal(table.add('GET', '/dav/{other:path}', 'x'), 'dav');
  assert.equal(table.add('GET', '/dav', 'x'), 'dav');
  assert.equal(table.add('GET', '/dav/', 'x'), 'dav');
  table.freeze();
  const root = new RoutingTable<string>();
  root.add('GET', '/{rest:path?}', 'root');
  root.freeze();
  const found = (path: string, of = table): unknown => {
    const match = of.match('GET', path);
    return match.kind === 'found' ? [match.endpoint, ...match.captures] : match.kind;
  };
  assert.deepEqual(found('/dav'), ['dav']);
  assert.deepEqual(found('/dav/'), ['dav']);
  assert.deepEqual(found('/dav/a/b'), ['dav', 'a/b']);
  assert.deepEqual(found('/dav/new'), ['new']);
  assert.equal(found('/davy'), 'none');
  assert.deepEqual(found('/u/5'), ['user', '5']);
  assert.deepEqual(found('/u/5/'), ['user', '5']);
  assert.deepEqual(found('/u/5/x'), ['user', '5', 'x']);
  assert.equal(found('/u/x'), 'none');
  assert.deepEqual(found('/', root), ['root']);
  assert.deepEqual(found('/a/', root), ['root', 'a/']);
});
