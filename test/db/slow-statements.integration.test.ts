import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openDatabase } from '../../src/db/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { mysqlDatabase } from '../support/mysql-database.ts';
import { postgresDatabase } from '../support/postgres-database.ts';
import type { Database, DatabaseOptions } from '../../src/db/index.ts';

for (const [name, open, text] of [
  ['PostgreSQL', postgresDatabase, 'select pg_sleep(0.2), ?::text'],
  [
    'MariaDB',
    (t: TestContext, options: DatabaseOptions) => mysqlDatabase(t, 'mariadb', options),
    'select sleep(0.2), ?',
  ],
] as const satisfies readonly (readonly [
  string,
  (t: TestContext, options: DatabaseOptions) => Promise<Database | undefined>,
  string,
])[])
  test(`${name}: a statement that takes longer than "slowStatementMs" is logged without its values`, async (t) => {
    const { logger, events } = collectedLog();
    const db = await open(t, { slowStatementMs: 20, log: logger });
    if (db === undefined) return;
    for (let use = 0; use < 3; use++) await db.fetchAll(text, ['secret']);
    await db.fetchAll(text, ['secret'], { timeoutMs: 60_000 });
    await db.transaction((tx) => tx.fetchOne(text, ['secret']));
    const slow = events.filter(
      ({ event, sql }) => event === 'slow_statement' && String(sql).includes('sleep'),
    );
    assert.equal(slow.length, 5, JSON.stringify(events));
    assert.ok(!JSON.stringify(events).includes('secret'));
  });

for (const [name, open, sleep] of [
  ['PostgreSQL', postgresDatabase, 'pg_sleep(0.1)'],
  [
    'MariaDB',
    (t: TestContext, options: DatabaseOptions) => mysqlDatabase(t, 'mariadb', options),
    'sleep(0.1)',
  ],
] as const satisfies readonly (readonly [
  string,
  (t: TestContext, options: DatabaseOptions) => Promise<Database | undefined>,
  string,
])[])
  test(`${name}: a slow executeMany(), insertMany(), script or stream is logged only once, and without values`, async (t) => {
    const { logger, events } = collectedLog();
    const db = await open(t, { slowStatementMs: 60, log: logger, pool: { max: 2 } });
    if (db === undefined) return;
    await db.script('create table slow (id integer primary key, word varchar(20))');
    await db.script(
      name === 'PostgreSQL'
        ? `create function wait() returns trigger as $$ begin if new.id % 10 = 0 then perform ${sleep}; end if; return new; end $$ language plpgsql;
           create trigger waits before insert on slow for each row execute function wait()`
        : `create trigger waits before insert on slow for each row begin if new.id % 10 = 0 then do ${sleep}; end if; end`,
    );
    const count = (part: string): number =>
      events.filter(({ event, sql }) => event === 'slow_statement' && String(sql).includes(part)).length;
    await db.executeMany('insert into slow (id, word) values (?, ?)', [
      [1, 'secret'],
      [10, 'secret'],
    ]);
    assert.equal(count('insert into slow'), 1, JSON.stringify(events));
    await db.insertMany('slow', ['id', 'word'], [[20, 'secret']]);
    assert.equal(count('insert into'), 2, JSON.stringify(events));
    await db.script(`select 1; select ${sleep}, 'in a script'`);
    assert.equal(count('in a script'), 1, JSON.stringify(events));
    const params = ['secret'];
    const text = `select ${sleep}, ${name === 'PostgreSQL' ? '?::text' : '?'} as of_a_stream`;
    for await (const _ of db.stream(text, params)) continue;
    await db.transaction(async (tx) => {
      for await (const _ of tx.stream(text, params)) break;
    });
    assert.equal(count('of_a_stream'), 2, JSON.stringify(events));
    assert.ok(!JSON.stringify(events).includes('secret'));
  });

test('SQLite: a stream is logged as a slow statement even if only its last row is slow', async () => {
  const { logger, events } = collectedLog();
  await using db = await openDatabase('sqlite::memory:', { slowStatementMs: 5, log: logger });
  const numbers = (most: number): string =>
    `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${most})`;
  await db.script(`create table big (i integer); insert into big ${numbers(1_000_000)} select i from n`);
  events.length = 0;
  const text = `${numbers(5_001)} select case when i > 5000 then (select sum(b.i * n.i) from big b) else 0 end from n`;
  for await (const _ of db.stream(text)) continue;
  assert.equal(events.filter(({ event, sql }) => event === 'slow_statement' && sql === text).length, 1);
});
