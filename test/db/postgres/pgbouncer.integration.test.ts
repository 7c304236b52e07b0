/**
 * PostgreSQL behind PgBouncer in transaction mode: the contract of every database, and errors for features
 * that need their own session.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Migrator, QueryTimeout, openDatabase } from '../../../src/db/index.ts';
import { databaseContract, fault } from '../../contract/database.ts';
import { patient } from '../../support/patient.ts';
import { pgbouncerProblem, sharedPgbouncer } from '../../support/pgbouncer.ts';
import { POSTGRES } from '../../support/postgres-chaos.ts';
import { seeded } from '../../support/random.ts';
import { canceled, interleaved } from '../../support/server-chaos.ts';
import { folder } from '../../support/run.ts';
import type { Database, DatabaseOptions } from '../../../src/db/index.ts';

const problem = pgbouncerProblem();
const skip = problem ?? false;

/** An empty database behind PgBouncer. */
async function emptied(t: TestContext, options: DatabaseOptions = {}): Promise<Database> {
  const url = await address();
  const db = await openDatabase(url, patient(url, options));
  t.after(() => db.close());
  await db.script('drop schema public cascade; create schema public');
  return db;
}

async function address(): Promise<string> {
  const url = await sharedPgbouncer();
  return `${url}${url.includes('?') ? '&' : '?'}statement_cache=0&startup=plain`;
}

if (problem !== undefined)
  test('PostgreSQL through PgBouncer passes the contract tests for databases', { skip }, () => undefined);
else
  databaseContract(
    'PostgreSQL through PgBouncer passes the contract tests for databases',
    (t) => emptied(t),
    {
      knowsTypes: false,
    },
  );

test(
  'behind PgBouncer, concurrent transactions see only their own rows, although the server has fewer sessions than the client has connections',
  { skip },
  async (t) => {
    const db = await emptied(t);
    await interleaved(db, POSTGRES, 300, seeded(1));
    const pids = new Set(
      await Promise.all(Array.from({ length: 50 }, () => db.scalar('select pg_backend_pid()'))),
    );
    assert.ok(pids.size <= 2 || process.env['PGBOUNCER_URL'] !== undefined, `${pids.size} sessions`);
  },
);

test('behind PgBouncer, connections stay usable when callers abort at random times', { skip }, async (t) => {
  await emptied(t);
  await canceled(await address(), POSTGRES, 200, seeded(2));
});

test(
  'behind PgBouncer, a statement that reaches its time limit is ended on the server',
  { skip },
  async (t) => {
    const db = await emptied(t, { pool: { max: 1 } });
    await assert.rejects(db.execute('select pg_sleep(62)', [], { timeoutMs: 50 }), QueryTimeout);
    assert.equal(
      await db.scalar(
        "select count(*) from pg_stat_activity where query like 'select pg_sleep(62)%' and state = 'active'",
      ),
      0,
    );
  },
);

test(
  'behind PgBouncer, executeMany() and insertMany() store all rows, stream() returns them, and arrays of an enum are decoded',
  { skip },
  async (t) => {
    const db = await emptied(t);
    await db.script(
      "create type mood as enum ('happy', 'sad'); create table item (id integer, label text, moods mood[], at timestamptz, day date, lasts interval, raw bytea)",
    );
    const at = new Date('2024-03-10T02:30:00.123Z');
    const rows = Array.from({ length: 2_000 }, (_, id) => [id, `label ${id}`] as const);
    assert.equal(await db.executeMany('insert into item (id, label) values (?, ?)', rows.slice(0, 500)), 500);
    assert.equal(await db.insertMany('item', ['id', 'label'], rows.slice(500)), 1_500);
    let sum = 0;
    for await (const row of db.stream('select id from item')) sum += Number(row['id']);
    assert.equal(sum, 1_999_000);
    await db.execute('insert into item (id, moods, at, day, lasts, raw) values (?, ?, ?, ?, ?, ?)', [
      -1,
      '{happy,sad}',
      at,
      '2024-03-10',
      '1 day 02:00:00',
      new Uint8Array([0, 255]),
    ]);
    assert.deepEqual(await db.fetchOne('select moods, at, day, raw from item where id = -1'), {
      moods: ['happy', 'sad'],
      at,
      day: '2024-03-10',
      raw: new Uint8Array([0, 255]),
    });
  },
);

test(
  'behind PgBouncer, dates and intervals are returned as ISO 8601, whatever the settings of the account',
  { skip },
  async (t) => {
    const admin = await emptied(t, { pool: { max: 1 } });
    const role = String(await admin.scalar('select current_user'));
    await admin.script(
      `alter role "${role}" set datestyle = 'German, DMY'; alter role "${role}" set intervalstyle = 'postgres_verbose'`,
    );
    await admin.scalar(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = current_user',
    );
    try {
      const db = await openDatabase(await address());
      t.after(() => db.close());
      assert.deepEqual(
        await db.fetchOne(
          "select '2024-03-10'::date as day, '2024-03-10 02:30'::timestamp as local, '2024-03-10T02:30:00Z'::timestamptz as at, '1 day -2 hours'::interval as lasts",
        ),
        {
          day: '2024-03-10',
          local: '2024-03-10T02:30:00',
          at: new Date('2024-03-10T02:30:00Z'),
          lasts: 'P1DT-2H',
        },
      );
    } finally {
      await admin.script(`alter role "${role}" reset datestyle; alter role "${role}" reset intervalstyle`);
    }
  },
);

test(
  'behind PgBouncer, sessions are in UTC or in the time zone of the address, whatever the settings of the account',
  { skip },
  async (t) => {
    const admin = await emptied(t, { pool: { max: 1 } });
    const role = String(await admin.scalar('select current_user'));
    await admin.script(`alter role "${role}" set timezone = 'America/New_York'`);
    await admin.scalar(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = current_user',
    );
    try {
      const zones = ['', '&set.TimeZone=Asia/Tokyo', '&set.timezone=Europe/Berlin'];
      const databases = await Promise.all(
        zones.map(async (zone) => {
          const url = `${await address()}${zone}`;
          return openDatabase(url, patient(url, { pool: { max: 3 } }));
        }),
      );
      t.after(() => Promise.all(databases.map((db) => db.close())).then(() => undefined));
      const zonesOf = async (db: Database): Promise<unknown[]> => [
        ...new Set(
          await Promise.all(
            Array.from({ length: 20 }, () =>
              db.transaction((tx) => tx.scalar("select current_setting('TimeZone')")),
            ),
          ),
        ),
      ];
      assert.deepEqual(await Promise.all(databases.map(zonesOf)), [
        ['UTC'],
        ['Asia/Tokyo'],
        ['Europe/Berlin'],
      ]);
      assert.equal(
        await databases[0]!.scalar("select (timestamptz '2024-03-10T02:30:00Z')::date::text"),
        '2024-03-10',
      );
    } finally {
      await admin.script(`alter role "${role}" reset timezone`);
    }
  },
);

test(
  'behind PgBouncer, a URL without "startup=plain" is refused, and the error names this parameter',
  { skip },
  async () => {
    const url = await sharedPgbouncer();
    await assert.rejects(openDatabase(url), (error: Error) => {
      assert.match(
        error.message,
        /the pooler refuses the start-up parameter "intervalstyle": add startup=plain&statement_cache=0/i,
      );
      return true;
    });
    await assert.rejects(
      openDatabase(`${url}?startup=plain&statement_cache=0&set.search_path=app`),
      /"search_path".*alter role/,
    );
  },
);

test(
  'behind PgBouncer, each migration is applied once by several Migrators that start together',
  { skip },
  async (t) => {
    await emptied(t);
    const sources = {
      directory: folder(t, {
        '0001_note.up.sql': 'create table note (id integer primary key)',
        '0002_row.up.sql': 'insert into note values (1)',
      }),
    };
    const databases = await Promise.all(
      Array.from({ length: 4 }, async () => openDatabase(await address(), { pool: { max: 2 } })),
    );
    t.after(() => Promise.all(databases.map((db) => db.close())).then(() => undefined));
    const done = await Promise.all(databases.map((db) => new Migrator(db, sources).up()));
    assert.deepEqual(
      done
        .flat()
        .map(({ id }) => id)
        .sort(),
      ['0001', '0002'],
    );
  },
);

test(
  'behind PgBouncer, LISTEN is refused, because another client could receive the notifications',
  { skip },
  async (t) => {
    const db = await emptied(t);
    await assert.rejects(
      db.listen('orders', () => undefined),
      fault('E_DB_OPTION'),
    );
  },
);
