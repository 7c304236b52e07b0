/**
 * Deprecated fields with dates: replies to requests that use one have Deprecation (RFC 9745), Sunset (RFC 8594)
 * and Link.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Depends,
  Field,
  Schema,
  Svc,
  SvcError,
  createLogger,
  file,
  int,
  lazy,
  list,
  literal,
  nullable,
  provide,
  record,
  str,
  tuple,
  union,
} from 'svc';
import { TestClient } from 'svc/testing';
import type { TestContext } from 'node:test';

const OLD = { since: '2026-01-01', sunset: '2026-12-31', link: 'https://api.example/changes' };
const OLDER = { since: '2025-06-01', link: 'https://api.example/older' };
const MARKED = [
  '@1767225600',
  'Thu, 31 Dec 2026 00:00:00 GMT',
  '<https://api.example/changes>; rel="deprecation"',
];
const UNMARKED = [null, null, null];

function marksOf({ headers }: Response): (string | null)[] {
  return ['deprecation', 'sunset', 'link'].map((name) => headers.get(name));
}

function site(t: TestContext, declare: (app: Svc) => void): TestClient {
  const app = new Svc({ env: 'test', logger: createLogger({ sink: () => undefined }) });
  declare(app);
  const client = new TestClient(app, { raiseErrors: false });
  t.after(() => client.close());
  return client;
}

const old = (): string => Field(str, { optional: true, deprecated: OLD }) as string;

test('if a request uses a deprecated header, cookie or query field of a route or dependency, the response has the header field Deprecation', async (t) => {
  const paging = provide({ query: { page: Field(1, { deprecated: OLD }) } }, ({ query }) => query.page);
  const client = site(t, (app) => {
    app.get(
      '/a',
      { query: { q: old() }, headers: { xOld: old() }, cookies: { c: old() }, page: Depends(paging) },
      () => 'ok',
    );
  });
  assert.deepEqual(marksOf(await client.get('/a')), UNMARKED);
  for (const [url, headers] of [
    ['/a?q=1', {}],
    ['/a?q=', {}],
    ['/a?page=2', {}],
    ['/a', { 'x-old': '1' }],
    ['/a', { cookie: 'c=1' }],
  ] as const)
    assert.deepEqual(marksOf(await client.get(url, { headers })), MARKED, url);
});

test('if a request body has a deprecated member, at any depth, even with its default value, the response has the header field Deprecation', async (t) => {
  class Inner extends Schema {
    old = old();
  }
  class Cat extends Schema {
    kind = Field(literal('cat'));
    lives = Field(9, { deprecated: OLD, alias: 'the_lives' });
  }
  class Dog extends Schema {
    kind = Field(literal('dog'));
    lives = Field(1);
  }
  class Body extends Schema {
    n = Field(1, { deprecated: OLD });
    one = Field(Inner, { optional: true });
    many = Field(list(Inner), { default: () => [] });
    named = Field(record(Inner), { default: () => ({}) });
    maybe = Field(nullable(lazy(() => Inner)), { optional: true });
    pair = Field(tuple(int, Inner), { optional: true });
    pet = Field(union('kind', Cat, Dog), { optional: true });
  }
  const client = site(t, (app) => {
    app.post('/a', { body: Body, public: true }, () => 'ok');
    app.post('/list', { body: list(Inner), public: true }, () => 'ok');
  });
  const post = async (path: string, body: unknown): Promise<(string | null)[]> =>
    marksOf(await client.post(path, { json: body }));
  for (const body of [
    {},
    { one: {} },
    { many: [] },
    { maybe: null },
    { pair: [1, {}] },
    { pet: { kind: 'dog', lives: 2 } },
  ])
    assert.deepEqual(await post('/a', body), UNMARKED, JSON.stringify(body));
  const inner = { old: 'x' };
  for (const body of [
    { n: 1 },
    { one: inner },
    { many: [{}, inner] },
    { named: { a: inner } },
    { maybe: inner },
    { pair: [1, inner] },
    { pet: { kind: 'cat', the_lives: 9 } },
  ])
    assert.deepEqual(await post('/a', body), MARKED, JSON.stringify(body));
  assert.deepEqual(await post('/list', [{ old: 'x' }]), MARKED);
  assert.deepEqual(marksOf(await client.post('/a', { json: { n: 'wrong' } })), UNMARKED, 'a refused body');
});

test('if a form has a deprecated field or file, the response has the header field Deprecation', async (t) => {
  const client = site(t, (app) => {
    app.post(
      '/a',
      {
        form: { old: old(), photo: Field(file, { optional: true, deprecated: OLD }), now: Field('') },
        public: true,
      },
      () => 'ok',
    );
  });
  const form = (name: string, value: string | Blob): FormData => {
    const data = new FormData();
    data.append(name, value as string);
    return data;
  };
  assert.deepEqual(marksOf(await client.post('/a', { body: form('now', 'x') })), UNMARKED);
  assert.deepEqual(marksOf(await client.post('/a', { body: form('old', 'x') })), MARKED);
  assert.deepEqual(marksOf(await client.post('/a', { body: form('photo', new Blob(['x'])) })), MARKED);
  assert.deepEqual(marksOf(await client.post('/a', { body: new URLSearchParams({ old: 'x' }) })), MARKED);
});

test('if a request uses several deprecated fields, Deprecation has their earliest date, or the date of the route if it has one', async (t) => {
  const query = { a: old(), b: Field(str, { optional: true, deprecated: OLDER }) };
  const client = site(t, (app) => {
    app.get('/a', { query }, () => 'ok');
    app.get('/route', { query, deprecated: { since: '2026-03-01' } }, () => 'ok');
  });
  assert.deepEqual(marksOf(await client.get('/a?a=1&b=2')), [
    '@1748736000',
    'Thu, 31 Dec 2026 00:00:00 GMT',
    `${MARKED[2]!}, <https://api.example/older>; rel="deprecation"`,
  ]);
  assert.deepEqual(marksOf(await client.get('/a?b=2')), [
    '@1748736000',
    null,
    '<https://api.example/older>; rel="deprecation"',
  ]);
  assert.equal((await client.get('/route?a=1')).headers.get('deprecation'), '@1772323200');
});

test('OpenAPI documents mark a deprecated field, and an application with an invalid value of "deprecated" does not start', async (t) => {
  class Body extends Schema {
    old = old();
  }
  const app = new Svc({ env: 'test' });
  app.post('/a', { body: Body, query: { q: old() }, public: true }, () => 'ok');
  const { paths, components } = app.openapi();
  const members = components.schemas?.['Body']?.['properties'] as Record<string, { deprecated?: boolean }>;
  assert.equal(members['old']?.deprecated, true);
  assert.equal(paths['/a']?.post?.parameters?.[0]?.schema['deprecated'], true);
  for (const wrong of [
    { since: 'soon' },
    { since: '2026-02-30' },
    { since: '2026-01-31T10:00' },
    { since: new Date(8.64e15) },
    { since: '2026-01-01', sunset: '2025-01-01' },
    { since: '2026-01-01', until: 'x' },
    {},
  ]) {
    const deprecated = wrong as never;
    class Item extends Schema {
      old = Field(str, { deprecated });
    }
    class Page extends Schema {
      items = Field(list(nullable(Item)));
    }
    const Names = list(str, { deprecated });
    for (const declare of [
      (app: Svc) => app.get('/a', { query: { q: Field(str, { deprecated }) } }, () => 'ok'),
      (app: Svc) => app.post('/a', { body: Item, public: true }, () => 'ok'),
      (app: Svc) => app.get('/a', { response: Page }, () => ({ items: [] })),
      (app: Svc) => app.get('/a', { response: { 200: str, 404: Item } }, () => 'ok'),
      (app: Svc) => app.get('/a', { response: Names }, () => []),
      (app: Svc) => app.tool('a', { args: { q: Field(str, { deprecated }) } }, () => 'ok'),
    ]) {
      const broken = new Svc({ env: 'test', logger: createLogger({ sink: () => undefined }) });
      declare(broken);
      t.after(() => broken.shutdown());
      await assert.rejects(broken.startup(), (error: SvcError) => {
        const errors = error.findings.filter(({ severity }) => severity === 'error');
        assert.deepEqual(
          [error.code, errors.map(({ rule }) => rule)],
          ['E_COMPILE', ['SVC107']],
          declare.toString(),
        );
        assert.match(errors[0]!.message, /^Cannot configure deprecated of /);
        return true;
      });
    }
  }
});
