/**
 * The 28 queries of the Chinook exercises with the builders of `sql`: each has one text for all engines, and
 * the same result as on SQLite. The constant DIALECT_BRANCHES counts the texts that differ.
 */
import assert from 'node:assert/strict';
import { isMySql } from '../../src/db/dialects.ts';
import { openDatabase, sql } from '../../src/db/index.ts';
import { openChinook } from '../support/chinook.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import type { Database, Dialect, Session, Sql } from '../../src/db/index.ts';

/** Filter of the search for tracks. Each member may be absent. */
interface TrackFilter {
  readonly name?: string | undefined;
  readonly genres?: readonly number[] | undefined;
  readonly composer?: string | null | undefined;
  readonly maxMs?: number | undefined;
  readonly anyOf?: readonly Sql[] | undefined;
}

/** Returns tracks that match a filter. A `%` in the name is not a wildcard. */
function tracks({ name, genres, composer, maxMs, anyOf }: TrackFilter): Sql {
  return sql`select track_id, name, composer from track where ${sql.and(
    name !== undefined && sql`lower(name) like lower(${`%${name.replaceAll(/[%_!]/g, '!$&')}%`}) escape '!'`,
    genres && sql.in(sql`genre_id`, genres),
    composer !== undefined && sql.in(sql`composer`, [composer]),
    maxMs !== undefined && sql`milliseconds <= ${maxMs}`,
    anyOf && sql.or(...anyOf),
  )} order by track_id`;
}

const FILTERS: readonly TrackFilter[] = [
  {},
  { name: 'love' },
  { name: '100%' },
  { name: 'a_b', maxMs: 300_000 },
  { genres: [] },
  { genres: [1, 2], composer: null },
  { composer: "Rock'n'Roll" },
  { anyOf: [] },
  { anyOf: [sql`album_id is null`, sql`unit_price > ${1}`], maxMs: 200_000 },
];

const person = (alias: string): Sql =>
  sql`concat(${sql.identifier(alias, 'first_name')}, ' ', ${sql.identifier(alias, 'last_name')})`;
const year = sql`substr(cast(i.invoice_date as char(10)), 1, 4)`;
const LINES = sql`invoice_line l join invoice i on i.invoice_id = l.invoice_id join track t on t.track_id = l.track_id`;
const AGENTS = sql`invoice i join customer c on c.customer_id = i.customer_id join employee e on e.employee_id = c.support_rep_id`;

/** Number of queries whose text depends on the engine. */
const DIALECT_BRANCHES = 1;

/** Titles of the albums of each artist in one text: the standard and MySQL have different functions. */
const titlesIn = (dialect: Dialect): Sql =>
  isMySql(dialect)
    ? sql`group_concat(a.title order by a.title, a.album_id separator ' / ')`
    : sql`string_agg(a.title, ' / ' order by a.title, a.album_id)`;

/** The queries that only read. */
const READS: Readonly<Record<string, (dialect: Dialect) => Sql>> = {
  'customers outside of two countries': () =>
    sql`select customer_id, ${person('c')} as name, country from customer c where not ${sql.in(sql`country`, ['USA', 'Canada'])} order by customer_id`,
  'customers of one country': () =>
    sql`select customer_id, email from customer where country = ${'Brazil'} order by 1`,
  'invoices of the customers of one country': () =>
    sql`select ${person('c')} as name, i.invoice_id, i.invoice_date, i.billing_country from invoice i join customer c on c.customer_id = i.customer_id where c.country = ${'Brazil'} order by i.invoice_id`,
  'sales agents': () =>
    sql`select employee_id, last_name from employee where lower(title) like ${'%agent%'} order by 1`,
  'countries of invoices': () => sql`select distinct billing_country from invoice order by 1`,
  'invoices of each sales agent': () =>
    sql`select ${person('e')} as agent, i.invoice_id from ${AGENTS} order by i.invoice_id`,
  'totals with customer and agent': () =>
    sql`select i.total, ${person('c')} as customer, i.billing_country, ${person('e')} as agent from ${AGENTS} order by i.invoice_id`,
  'invoices and sales of two years': () =>
    sql`select ${year} as year, count(*) as invoices, sum(i.total) as sales from invoice i where ${sql.in(year, ['2021', '2024'])} group by ${year} order by 1`,
  'lines of one invoice': () => sql`select count(*) as number from invoice_line where invoice_id = ${37}`,
  'lines of each invoice': () =>
    sql`select invoice_id, count(*) as number from invoice_line group by invoice_id order by 1`,
  'lines with the names of their tracks': () =>
    sql`select l.invoice_line_id, t.name from ${LINES} order by 1`,
  'lines with track and artist': () =>
    sql`select l.invoice_line_id, t.name as track, r.name as artist from ${LINES} left join album a on a.album_id = t.album_id left join artist r on r.artist_id = a.artist_id order by 1`,
  'invoices of each country': () =>
    sql`select billing_country, count(*) as invoices from invoice group by billing_country order by 1`,
  'tracks of each playlist': () =>
    sql`select p.playlist_id, p.name, count(x.track_id) as tracks from playlist p left join playlist_track x on x.playlist_id = p.playlist_id group by p.playlist_id, p.name order by 1`,
  'tracks with album, media type and genre': () =>
    sql`select t.name, a.title, m.name as media, g.name as genre from track t left join album a on a.album_id = t.album_id join media_type m on m.media_type_id = t.media_type_id left join genre g on g.genre_id = t.genre_id order by t.track_id`,
  'invoices with the number of their lines': () =>
    sql`select i.invoice_id, i.total, (select count(*) from invoice_line l where l.invoice_id = i.invoice_id) as line_count from invoice i order by 1`,
  'sales of each agent': () =>
    sql`select e.employee_id, sum(i.total) as sales from ${AGENTS} group by e.employee_id order by 1`,
  'best agent of a year': () =>
    sql`select e.employee_id, sum(i.total) as sales from ${AGENTS} where ${year} = ${'2022'} group by e.employee_id order by sales desc, e.employee_id limit ${1}`,
  'customers of each agent': () =>
    sql`select e.employee_id, count(c.customer_id) as customers from employee e left join customer c on c.support_rep_id = e.employee_id where e.title = ${'Sales Support Agent'} group by e.employee_id order by 1`,
  'sales of each country': () =>
    sql`select billing_country, sum(total) as sales, round(avg(total), 2) as mean from invoice group by billing_country order by sales desc, billing_country`,
  'tracks that were bought most in a year': () =>
    sql`select t.track_id, sum(l.quantity) as number from ${LINES} where ${year} = ${'2023'} group by t.track_id order by number desc, t.track_id limit ${5}`,
  'artists that were sold best': () =>
    sql`select r.name, sum(l.quantity * l.unit_price) as sales from ${LINES} join album a on a.album_id = t.album_id join artist r on r.artist_id = a.artist_id group by r.artist_id, r.name order by sales desc, r.name limit ${3}`,
  'media type that was bought most': () =>
    sql`select m.name, sum(l.quantity) as number from ${LINES} join media_type m on m.media_type_id = t.media_type_id group by m.media_type_id, m.name order by number desc, m.name limit ${1}`,
  'titles of each artist in one text': (dialect) =>
    sql`select r.artist_id, ${titlesIn(dialect)} as titles from artist r join album a on a.artist_id = r.artist_id group by r.artist_id order by 1`,
};

interface Customer {
  readonly email?: string | undefined;
  readonly company?: string | null | undefined;
  readonly supportRepId?: number | undefined;
}
const COLUMNS = { email: 'email', company: 'company', supportRepId: 'support_rep_id' } as const;

/** The queries that search or write. Each returns rows that show its effect. */
const WRITES: Readonly<Record<string, (tx: Session) => Promise<unknown>>> = {
  'a search with optional filters': (tx) =>
    Promise.all(FILTERS.map(async (filter) => (await tx.fetchArrays(tracks(filter))).rows)),
  'a patch of a customer': async (tx) => {
    const patch: Customer & { readonly country: string } = {
      company: null,
      supportRepId: 4,
      country: 'nowhere',
    };
    await tx.execute(sql`update customer set ${sql.set(patch, COLUMNS)} where customer_id = ${1}`);
    return await tx.fetchAll('select * from customer where customer_id < 3 order by 1');
  },
  'an import that changes or adds tracks': async (tx) => {
    const rows = [
      { track_id: 1, name: 'changed', media_type_id: 1, milliseconds: 5, unit_price: '2.50' },
      { track_id: 9_001, name: 'added', media_type_id: 2, milliseconds: 6, unit_price: '3.50' },
    ];
    const import_ = sql`insert into track ${sql.values(rows, ['track_id', 'name', 'media_type_id', 'milliseconds', 'unit_price'])}
      ${sql.upsert(['track_id'], ['name', sql`unit_price = track.unit_price + ${1}`])}`;
    for (let round = 0; round < 2; round++) await tx.execute(import_);
    await tx.execute(sql`insert into playlist_track ${sql.values([[1, 1], [1, 1], [2, 9_001]])} ${sql.upsert(['playlist_id', 'track_id'], [])}`); // prettier-ignore
    return [
      await tx.fetchAll(
        sql`select name, milliseconds, unit_price from track where ${sql.in(sql`track_id`, [1, 9_001])} order by track_id`,
      ),
      await tx.scalar('select count(*) from playlist_track'),
    ];
  },
  'a bulk insert of a thousand lines': async (tx) => {
    const rows = Array.from({ length: 1_000 }, (_, index) => [
      100_000 + index,
      1,
      1 + (index % 7),
      '0.99',
      1,
    ]);
    const count = await tx.insertMany(
      'invoice_line',
      ['invoice_line_id', 'invoice_id', 'track_id', 'unit_price', 'quantity'],
      rows,
    );
    return [
      count,
      await tx.fetchAll(
        'select track_id, count(*) as number from invoice_line where invoice_id = 1 group by track_id order by 1',
      ),
    ];
  },
};

/** Decimals and sums are text on servers and numbers on SQLite; dates have a `T` on servers. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'string')
    return /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : value.replace(/^(\d{4}-\d\d-\d\d)T/, '$1 ');
  if (typeof value === 'number') return Number(value.toFixed(6));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]));
}

async function resultsOf(db: Database): Promise<Readonly<Record<string, unknown>>> {
  await openChinook(db);
  const results: Record<string, unknown> = {};
  for (const [name, query] of Object.entries(READS))
    results[name] = plain(await db.fetchAll(query(db.dialect)));
  for (const [name, run] of Object.entries(WRITES)) results[name] = plain(await db.transaction(run));
  return results;
}

let reference: Promise<Readonly<Record<string, unknown>>> | undefined;

async function resultsOnSqlite(): Promise<Readonly<Record<string, unknown>>> {
  await using db = await openDatabase('sqlite::memory:');
  return await resultsOf(db);
}

onEveryDatabase(
  'the 28 queries of Chinook have the results that they have on SQLite in memory',
  async (db) => {
    const expected = await (reference ??= resultsOnSqlite());
    const found = await resultsOf(db);
    assert.equal(Object.keys(found).length, 28);
    for (const [name, rows] of Object.entries(found)) {
      assert.deepEqual(rows, expected[name], name);
      assert.notDeepEqual(rows, [], name);
    }
    const branching = Object.values(READS).filter(
      (query) => query('sqlite').text('sqlite') !== query('mysql').text('sqlite'),
    );
    assert.equal(branching.length, DIALECT_BRANCHES);
    const [all, , , , none, , , neither] = expected['a search with optional filters'] as readonly unknown[][];
    assert.deepEqual([none, neither, all!.length > 100], [[], [], true]);
  },
);
