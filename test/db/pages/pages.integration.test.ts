/**
 * Pagination on every engine: keyset pages in both directions, and numbered pages.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Depends, Field, Schema, Svc, int, nullable, reply, str } from '../../../src/index.ts';
import {
  DatabasePlugin,
  KeysetPages,
  OffsetPages,
  db as dbKey,
  openDatabase,
  sql,
  type Database,
  type KeysetPage,
  type KeysetPagesOptions,
  type Row,
} from '../../../src/db/index.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { fault } from '../../contract/database.ts';
import { onEveryDatabase } from '../../support/every-database.ts';

const SECRET = 'cursors-of-a-test-0123456789abcdef';

/** 40 rows with many equal values; every third has no rank. */
async function fill(db: Database): Promise<void> {
  await db.script(
    'create table entry (id integer primary key, label varchar(20) not null, stars integer not null, rank_no integer)',
  );
  await db.insertMany(
    'entry',
    ['id', 'label', 'stars', 'rank_no'],
    Array.from({ length: 40 }, (_, id) => [
      id,
      `l${id % 4}`,
      (id * 7) % 5,
      id % 3 === 0 ? null : (id * 11) % 6,
    ]),
  );
}

const ALL = sql`select id, label, stars, rank_no from entry`;

/** Returns all pages by following one of the cursors of each page. */
async function follow(
  pages: KeysetPages,
  db: Database,
  size: number,
  by: 'next' | 'previous',
  from: string | undefined,
): Promise<KeysetPage<Row>[]> {
  const found: KeysetPage<Row>[] = [];
  let cursor = from;
  do {
    const page: KeysetPage<Row> = await pages.fetch(db, ALL, { query: { size, cursor } });
    found.push(page);
    cursor = page[by] ?? undefined;
  } while (cursor !== undefined);
  return found;
}

const ids = (pages: readonly KeysetPage<Row>[]): unknown[] =>
  pages.flatMap(({ items }) => items.map(({ id }) => id));

const ORDERS: readonly KeysetPagesOptions['orderBy'][] = [
  { id: 'asc' },
  { id: 'desc' },
  { label: 'asc', id: 'desc' },
  { stars: 'desc', label: 'asc', id: 'asc' },
  { rank_no: 'asc nulls last', id: 'asc' },
  { rank_no: 'desc nulls last', stars: 'asc', id: 'desc' },
  { label: 'desc', rank_no: 'asc nulls last', id: 'desc' },
];

/** Returns the ids in the expected order of a list. */
function sorted(rows: readonly Row[], order: KeysetPagesOptions['orderBy']): unknown[] {
  const compare = (left: Row, right: Row): number => {
    for (const [name, direction] of Object.entries(order)) {
      const [a, b] = [left[name] as number | string | null, right[name] as number | string | null];
      if (a === b) continue;
      if (a === null || b === null) return a === null ? 1 : -1;
      return (a < b ? -1 : 1) * (direction.startsWith('asc') ? 1 : -1);
    }
    return 0;
  };
  return [...rows].sort(compare).map(({ id }) => id);
}

onEveryDatabase(
  'the pages of KeysetPages contain each row once, forwards and backwards, for mixed directions and NULL keys',
  async (db) => {
    await fill(db);
    const rows = await db.fetchAll(ALL);
    for (const orderBy of ORDERS) {
      const pages = new KeysetPages({ orderBy, secret: SECRET });
      const expected = sorted(rows, orderBy);
      for (const size of [1, 7, 20, 40, 41]) {
        const forward = await follow(pages, db, size, 'next', undefined);
        assert.deepEqual(ids(forward), expected, JSON.stringify(orderBy));
        assert.equal(forward[0]!.previous, null);
        const last = forward.at(-1)!;
        if (last.previous === null) continue;
        const back = (await follow(pages, db, size, 'previous', last.previous)).reverse();
        assert.deepEqual([...ids(back), ...ids([last])], expected);
        assert.equal(
          back[0]!.items.length,
          back.length === forward.length - 1 ? size : back[0]!.items.length,
        );
      }
      const [first, second] = await follow(pages, db, 10, 'next', undefined);
      const again = await pages.fetch(db, ALL, { query: { size: 10, cursor: second!.previous! } });
      assert.deepEqual(again.items, first!.items);
      assert.deepEqual(again.next, first!.next);
    }
  },
);

onEveryDatabase('rows that are inserted or deleted do not shift the next page of KeysetPages', async (db) => {
  await fill(db);
  const pages = new KeysetPages({ orderBy: { id: 'asc' }, secret: SECRET });
  const first = await pages.fetch(db, ALL, { query: { size: 10, cursor: undefined } });
  await db.execute('delete from entry where id in (3, 9)');
  await db.execute("insert into entry (id, label, stars) values (-1, 'new', 1)");
  const second = await pages.fetch(db, ALL, { query: { size: 10, cursor: first.next! } });
  assert.deepEqual(ids([second]), [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
  assert.deepEqual(Object.keys(second.items[0]!), ['id', 'label', 'stars', 'rank_no']);
});

onEveryDatabase('KeysetPages loses no rows whose timestamps differ only in microseconds', async (db) => {
  const type = { postgres: 'timestamptz', sqlite: 'text' }[db.dialect as string] ?? 'timestamp(6) null';
  await db.script(`create table event (id integer primary key, at ${type})`);
  for (let id = 0; id < 12; id++)
    await db.script(
      `insert into event (id, at) values (${id}, '2024-02-29 12:00:00.1234${String(10 + id)}')`,
    );
  const pages = new KeysetPages({ orderBy: { at: 'desc' }, secret: SECRET });
  const found: unknown[] = [];
  let cursor: string | undefined;
  do {
    const page: KeysetPage<Row> = await pages.fetch(db, sql`select id, at from event`, {
      query: { size: 5, cursor },
    });
    found.push(...page.items.map(({ id }) => id));
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  assert.deepEqual(found, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
});

onEveryDatabase(
  'KeysetPages supports keys above 2^53, keys with any characters, and queries that have joins and values',
  async (db) => {
    await db.script('create table word (id bigint primary key, word varchar(40) not null)');
    const words = ["it's", 'ü', '%_', '"quoted"', '?', '\\', 'z;--', '🙂'];
    const base = 9_007_199_254_740_993n;
    await db.insertMany(
      'word',
      ['id', 'word'],
      words.map((word, index) => [base + BigInt(index), word]),
    );
    for (const orderBy of [{ word: 'asc', id: 'asc' }, { id: 'desc' }] as const) {
      const pages = new KeysetPages({ orderBy, secret: SECRET });
      const found: unknown[] = [];
      let cursor: string | undefined;
      do {
        const query = sql`select a.id, a.word from word a join word b on a.id = b.id where b.id >= ${base} -- all`;
        const page: KeysetPage<Row> = await pages.fetch(db, query, { query: { size: 3, cursor } });
        found.push(...page.items.map(({ word }) => word));
        cursor = page.next ?? undefined;
      } while (cursor !== undefined);
      assert.deepEqual([...found].sort(), [...words].sort());
    }
  },
);

onEveryDatabase('KeysetPages reads all rows by a FLOAT key, or refuses this key on MySQL', async (db) => {
  await db.script('create table ratio (id integer primary key, rate float not null)');
  await db.insertMany('ratio', ['id', 'rate'], [[1, 1.1], [2, 1.1], [3, 0.1], [4, 2.5]]); // prettier-ignore
  const pages = new KeysetPages({ orderBy: { rate: 'asc', id: 'asc' }, secret: SECRET });
  const found: unknown[] = [];
  const readAll = async (): Promise<void> => {
    let cursor: string | undefined;
    do {
      const query = sql`select id, rate from ratio`;
      const page: KeysetPage<Row> = await pages.fetch(db, query, { query: { size: 1, cursor } });
      found.push(...page.items.map(({ id }) => id));
      cursor = page.next ?? undefined;
    } while (cursor !== undefined && found.length < 10);
  };
  // MySQL and MariaDB send 0.1 for a FLOAT that is a little more than 0.1
  if (db.dialect === 'mysql' || db.dialect === 'mariadb') await assert.rejects(readAll, fault('E_DB_PAGE'));
  else {
    await readAll();
    assert.deepEqual(found, [3, 1, 2, 4]);
  }
});

onEveryDatabase(
  'OffsetPages returns each row once and the total number of rows, and limits the size of a page to "maxSize"',
  async (db) => {
    await fill(db);
    const pages = new OffsetPages({ orderBy: { label: 'asc', id: 'desc' }, maxSize: 15 });
    const rows = await db.fetchAll(ALL);
    const expected = sorted(rows, { label: 'asc', id: 'desc' });
    const found: unknown[] = [];
    for (let page = 1; page <= 3; page++) {
      const { items, total } = await pages.fetch(db, ALL, { query: { page, size: 15 } });
      assert.equal(total, 40);
      found.push(...items.map(({ id }) => id));
    }
    assert.deepEqual(found, expected);
    const beyond = await pages.fetch(db, ALL, { query: { page: 9, size: 500 } });
    assert.deepEqual([beyond.items, beyond.total, beyond.size], [[], 40, 15]);
  },
);

test('KeysetPages answers 400 to a cursor that was changed, or that was made for another sort order or with another secret', async () => {
  await using db = await openDatabase('sqlite::memory:');
  await fill(db);
  const pages = new KeysetPages({ orderBy: { id: 'asc' }, secret: SECRET });
  const { next } = await pages.fetch(db, ALL, { query: { size: 5, cursor: undefined } });
  const [payload, mac] = next!.split('.') as [string, string];
  const forged = Buffer.from('["next",1]').toString('base64url');
  const others = [
    new KeysetPages({ orderBy: { id: 'desc' }, secret: SECRET }),
    new KeysetPages({ orderBy: { id: 'asc' }, secret: `${SECRET}x` }),
  ];
  const fetch = (list: KeysetPages, cursor: string): Promise<unknown> =>
    list.fetch(db, ALL, { query: { size: 5, cursor } });
  for (const cursor of [
    '',
    '.',
    'x',
    payload,
    `.${mac}`,
    `${forged}.${mac}`,
    `${payload}.${mac}.x`,
    `${payload}.${mac.slice(1)}`,
    `${next!}=`,
  ])
    await assert.rejects(fetch(pages, cursor), { status: 400 }, cursor);
  for (const other of others) await assert.rejects(fetch(other, next!), { status: 400 });
  const rotated = new KeysetPages({ orderBy: { id: 'asc' }, secret: [`${SECRET}x`, SECRET] });
  await fetch(rotated, next!);
});

test('KeysetPages refuses sort columns with NULL, duplicate or very long values, an invalid "orderBy", and a missing secret', async () => {
  await using db = await openDatabase('sqlite::memory:');
  await fill(db);
  const fetch = (orderBy: KeysetPagesOptions['orderBy'], query = ALL): Promise<unknown> =>
    new KeysetPages({ orderBy, secret: SECRET }).fetch(db, query, { query: { size: 5, cursor: undefined } });
  await assert.rejects(fetch({ rank_no: 'asc', id: 'asc' }), fault('E_DB_PAGE'));
  await assert.rejects(fetch({ label: 'asc' }), fault('E_DB_PAGE'));
  await assert.rejects(fetch({ id: 'asc' }, sql`select id + 0.0 / 0 as id from entry`), fault('E_DB_PAGE'));
  const long = sql`select id, ${'x'.repeat(2_000)} as label from entry`;
  await assert.rejects(fetch({ label: 'asc', id: 'asc' }, long), fault('E_DB_PAGE'));
  assert.throws(() => new KeysetPages({ orderBy: {} }), fault('E_DB_PAGE'));
  assert.throws(() => new KeysetPages({ orderBy: { id: 'up' as never } }), fault('E_DB_PAGE'));
  assert.throws(() => new OffsetPages({ orderBy: { '': 'asc' } }), fault('E_DB_IDENTIFIER'));
  await assert.rejects(
    new KeysetPages({ orderBy: { id: 'asc' } }).fetch(db, ALL, { query: { size: 5, cursor: undefined } }),
    fault('E_SECRET_ABSENT'),
  );
});

class Entry extends Schema {
  id = Field(int);
  label = Field(str);
  stars = Field(int);
  rank_no = Field(nullable(int));
}

/** Returns an application that lists entries in both kinds of pages. */
async function listing(): Promise<Svc> {
  const entries = new KeysetPages({ orderBy: { stars: 'desc', id: 'asc' }, size: 3, maxSize: 10 });
  const numbered = new OffsetPages({ orderBy: { id: 'asc' }, size: 30 });
  const app = new Svc({ authSecret: SECRET });
  app.register(new DatabasePlugin('sqlite::memory:'));
  app.get(
    '/entries',
    {
      db: Depends(dbKey),
      query: { ...entries.query, label: Field(str, { optional: true }) },
      response: entries.response(Entry),
    },
    async ({ db, query, req }) => {
      const where = query.label === undefined ? sql`1 = 1` : sql`label = ${query.label}`;
      const page = await entries.fetch(
        db,
        sql`select * from entry where ${where}`,
        { query, req },
        { as: Entry },
      );
      assert.ok(page.items.every((entry) => entry instanceof Entry));
      return reply(page, 200, page.headers);
    },
  );
  app.get(
    '/numbered',
    { db: Depends(dbKey), query: numbered.query, response: numbered.response(Entry) },
    async ({ db, query, req }) => {
      const page = await numbered.fetch(db, ALL, { query, req }, { as: Entry, timeoutMs: 60_000 });
      assert.ok(page.items.every((entry) => entry instanceof Entry));
      return reply(page, 200, page.headers);
    },
  );
  app.onStartup(() => fill(app.state.db));
  return app;
}

/** Returns the resolved URLs of a `Link` field by their relation. */
function linksOf(response: Response, url: string): Record<string, string> {
  const field = response.headers.get('link') ?? '';
  return Object.fromEntries(
    [...field.matchAll(/<([^>]*)>; rel="(\w+)"/g)].map(([, target, rel]) => {
      const { pathname, search } = new URL(target!, `http://localhost${url}`);
      return [rel, pathname + search];
    }),
  );
}

test('a route with KeysetPages sends Link headers that keep the query parameters of the request, and answers 400 to invalid sizes and cursors', async () => {
  await using client = new TestClient(await listing());
  const found: unknown[] = [];
  let url: string | undefined = '/entries?size=4&label=l1';
  const seen: string[][] = [];
  while (url !== undefined) {
    const response: Response = await client.get(url);
    assert.equal(response.status, 200);
    const body = (await response.json()) as {
      items: Entry[];
      next: string | null;
      previous: string | null;
    };
    assert.deepEqual(Object.keys(body), ['items', 'next', 'previous']);
    found.push(...body.items.map(({ id }) => id));
    const links = linksOf(response, url);
    seen.push(Object.keys(links));
    assert.equal(links['first'], '/entries?size=4&label=l1');
    url = links['next'];
    if (url !== undefined)
      assert.equal(new URL(url, 'http://localhost').searchParams.get('cursor'), body.next);
  }
  assert.deepEqual(found.length, 10);
  assert.deepEqual(seen, [
    ['first', 'next'],
    ['first', 'prev', 'next'],
    ['first', 'prev'],
  ]);
  for (const bad of ['?size=0', '?size=11', '?cursor=abc', '?cursor=', `?cursor=${'x'.repeat(3_000)}`]) {
    const response = await client.get(`/entries${bad}`);
    assert.equal(response.status, 400, bad);
    assert.doesNotMatch(await response.text(), /select|svc_page/);
  }
});

test('a route with OffsetPages sends Link headers to the first, previous, next and last page', async () => {
  await using client = new TestClient(await listing());
  const response = await client.get('/numbered?page=2&size=15');
  const { page, size, total } = (await response.json()) as Record<string, unknown>;
  assert.deepEqual([page, size, total], [2, 15, 40]);
  assert.deepEqual(linksOf(response, '/numbered'), {
    first: '/numbered?size=15&page=1',
    prev: '/numbered?size=15&page=1',
    next: '/numbered?size=15&page=3',
    last: '/numbered?size=15&page=3',
  });
  assert.equal((await client.get('/numbered?page=1001')).status, 400);
});

test('the OpenAPI document contains the query parameters and response schemas of routes with KeysetPages and OffsetPages', async () => {
  await using client = new TestClient(await listing());
  const document = (await (await client.get('/openapi.json')).json()) as {
    paths: Record<
      string,
      { get: { parameters: { name: string; description?: string; schema: Record<string, unknown> }[] } }
    >;
    components: { schemas: Record<string, { properties: Record<string, { description?: string }> }> };
  };
  const parameters = document.paths['/entries']!.get.parameters;
  assert.deepEqual(
    parameters.map(({ name }) => name),
    ['size', 'cursor', 'label'],
  );
  const { minimum, maximum } = parameters[0]!.schema;
  assert.deepEqual([minimum, maximum, parameters[0]!.schema['default']], [1, 10, 3]);
  assert.deepEqual(Object.keys(document.components.schemas['EntryPage']!.properties), [
    'items',
    'next',
    'previous',
  ]);
  const described = (path: string, page: string): unknown => [
    Object.fromEntries(
      document.paths[path]!.get.parameters.map(({ name, description, schema }) => [
        name,
        description ?? schema['description'],
      ]),
    ),
    Object.fromEntries(
      Object.entries(document.components.schemas[page]!.properties).map(([name, { description }]) => [
        name,
        description,
      ]),
    ),
  ];
  assert.deepEqual(described('/entries', 'EntryPage'), [
    {
      size: 'Number of entries per page',
      cursor: 'Cursor of the page: the value of "next" or "previous" from another page',
      label: undefined,
    },
    { items: undefined, next: 'Cursor of the next page', previous: 'Cursor of the previous page' },
  ]);
  assert.deepEqual(described('/numbered', 'EntryNumberedPage'), [
    { page: 'Number of the page, from 1', size: 'Number of entries per page' },
    {
      items: undefined,
      page: 'Number of the page, from 1',
      size: 'Number of entries per page',
      total: 'Number of entries on all pages',
    },
  ]);
});
