/**
 * Scratch databases on PostgreSQL, MariaDB and MySQL: created, migrated, and dropped by their run or by a later one.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { systemClock, type Clock } from '../../../src/base/clock.ts';
import { openDatabase, type Database } from '../../../src/db/index.ts';
import { openDescriber } from '../../../src/db/describe/open.ts';
import { createScratch } from '../../../src/db/describe/scratch.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { SERVERS } from '../../support/every-database.ts';
import { folder } from '../../support/run.ts';
import type { Describer } from '../../../src/db/describe/describer.ts';

const deps = (clock: Clock = systemClock) => ({ clock, log: collectedLog().logger, timeoutMs: 10_000 });

/** A server, and a connection to look at its databases. */
interface Server {
  readonly url: string;
  readonly admin: Database;
  /** Names of the scratch databases. */
  scratches(): Promise<readonly string[]>;
}

/** Text that returns the names of the scratch databases. */
const listOn = (engine: 'postgres' | 'mariadb' | 'mysql'): string =>
  engine === 'postgres'
    ? "select datname::text as name from pg_database where datname like 'svc\\_check\\_%' order by 1"
    : "select schema_name as name from information_schema.schemata where schema_name like 'svc\\_check\\_%' order by 1";

/** Registers a test for each server. Tests of one file run one after the other, so they share the server. */
function onEachServer(behavior: string, run: (server: Server, t: TestContext) => Promise<void>): void {
  for (const { name, dialect, server } of SERVERS)
    test(`${name}: ${behavior}`, async (t) => {
      const url = await server(t);
      if (url === undefined) return;
      await using admin = await openDatabase(url);
      const scratches = async (): Promise<string[]> =>
        (await admin.fetchAll(listOn(dialect))).map(({ name }) => String(name));
      await run({ url, admin, scratches }, t);
      assert.deepEqual(await scratches(), []);
    });
}

const described = (t: TestContext, url: string, migration: string, own = ''): Promise<Describer> =>
  openDescriber(
    { url, isScratch: true },
    {
      name: 'database',
      url: own,
      sources: { directory: folder(t, { '0001_first.up.sql': migration }) },
      snakeCase: false,
      ownTypes: new Set(),
      ...deps(),
    },
  );

onEachServer(
  'a scratch database has the migrations and its lease in its name, and ends with its describer',
  async ({ url, scratches }, t) => {
    const describer = await described(
      t,
      url,
      'create table book (id int primary key, title varchar(9) not null)',
    );
    const [name = ''] = await scratches();
    assert.match(name, /^svc_check_\d{14}_[0-9a-f]{8}$/);
    const lease = name.slice(10, 24).replace(/^(....)(..)(..)(..)(..)(..)$/, '$1-$2-$3T$4:$5:$6Z');
    assert.ok(Date.parse(lease) > Date.now() && Date.parse(lease) <= Date.now() + 3_600_000, lease);
    assert.deepEqual(
      describer.tables.map((table) => table.name),
      ['book'],
    );
    assert.equal(
      (await describer.describeStatement('insert into book (id, title) values (?, ?)')).kind,
      'described',
    );
    assert.equal((await describer.describeStatement('select titel from book')).kind, 'refused');
    await describer[Symbol.asyncDispose]();
  },
);

onEachServer(
  'a scratch database reads statements with the schemas and the mode that the application sets',
  async ({ url, admin }, t) => {
    const isPostgres = admin.dialect === 'postgres';
    await using describer = await described(
      t,
      url,
      isPostgres
        ? 'create schema shop; create table shop.book (id int)'
        : 'create table book (id int) engine = InnoDB',
      isPostgres ? `${url}?set.search_path=shop,public` : `${url}?set.sql_mode=ANSI_QUOTES`,
    );
    if (isPostgres)
      await (
        await described(t, url, 'create table shop.pen (id int)', `${url}?set.search_path=shop`)
      )[Symbol.asyncDispose]();
    const text = isPostgres ? 'select id from book' : 'select "id" from "book"';
    assert.equal((await describer.describeStatement(text)).kind, 'described');
    assert.deepEqual(
      describer.tables.map(({ name }) => name),
      ['book'],
    );
  },
);

onEachServer(
  'a scratch database ends when its migrations fail or act outside of it',
  async ({ url, admin }, t) => {
    const before = await databasesOf(admin);
    await assert.rejects(described(t, url, 'create table a (id int);\ncreate tabel b (id int)'), {
      code: 'E_MIGRATION_FAILED',
    });
    await assert.rejects(described(t, url, 'create database svc_other'), { code: 'E_SCRATCH_DATABASE' });
    assert.deepEqual(await databasesOf(admin), before);
  },
);

async function databasesOf(admin: Database): Promise<unknown> {
  return admin.fetchAll(
    admin.dialect === 'postgres' ? 'select datname from pg_database order by 1' : 'show databases',
  );
}

onEachServer(
  'two runs at one time use two databases, and none drops that of the other',
  async ({ url, scratches }) => {
    const one = await createScratch(url, deps());
    const other = await createScratch(url, deps());
    assert.equal((await scratches()).length, 2);
    await one[Symbol.asyncDispose]();
    assert.equal((await scratches()).length, 1);
    assert.ok(other.url.includes((await scratches())[0]!));
    await other[Symbol.asyncDispose]();
  },
);

onEachServer(
  'a run drops the databases that no run holds, and only those with its kind of name',
  async ({ url, admin, scratches }) => {
    const kept = [
      'svc_check_2026',
      'svc_check_20261129140500_1a2b3c4d_old',
      'my_svc_check_20261129140500_1a2b3c4d',
    ];
    const left = ['svc_check_20991129140500_1a2b3c4d', 'svc_check_20001129140500_00000000'];
    for (const name of [...kept, ...left]) await admin.script(`create database ${name}`);
    const scratch = await createScratch(url, deps());
    assert.equal(
      (await scratches()).some((name) => left.includes(name)),
      false,
    );
    await scratch[Symbol.asyncDispose]();
    const present = JSON.stringify(await databasesOf(admin));
    for (const name of kept) {
      assert.ok(present.includes(`"${name}"`), name);
      await admin.script(`drop database ${name}`);
    }
  },
);

onEachServer(
  'a run drops a database after its lease, although another run still holds it',
  async ({ url, scratches }) => {
    const hung = await createScratch(url, deps(new ManualClock(Date.now() - 3_700_000)));
    const [old] = await scratches();
    const next = await createScratch(url, deps());
    assert.equal((await scratches()).includes(old!), false);
    await next[Symbol.asyncDispose]();
    await hung[Symbol.asyncDispose]();
  },
);

onEachServer(
  'a scratch database is dropped by another connection when the first one is lost',
  async ({ url, admin }) => {
    const scratch = await createScratch(url, deps());
    if (admin.dialect === 'postgres')
      await admin.fetchAll(
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'",
      );
    else {
      const others = await admin.fetchAll(
        'select id from information_schema.processlist where id <> connection_id() and user = substring_index(current_user(), ?, 1)',
        ['@'],
      );
      for (const { id } of others) await admin.script(`kill ${String(id)}`);
    }
    await scratch[Symbol.asyncDispose]();
  },
);

onEachServer(
  'an account that may not create databases gets E_SCRATCH_DATABASE, and its password is not shown',
  async ({ url, admin }) => {
    const [user, password] = [`svc_poor_${process.pid}`, 'hidden-secret'];
    const isPostgres = admin.dialect === 'postgres';
    await admin.script(
      isPostgres
        ? `create role ${user} login password '${password}'`
        : `create user ${user} identified by '${password}'`,
    );
    try {
      // an account without rights on any database of MariaDB logs in without a database
      const poor = url
        .replace(/\/\/[^@]*@/, `//${user}:${password}@`)
        .replace(isPostgres ? /^$/ : /\/[^/]*$/, '/');
      await assert.rejects(createScratch(poor, deps()), (error: Error & { code: string }) => {
        assert.equal(error.code, 'E_SCRATCH_DATABASE');
        assert.equal(`${error.message}${String(error.cause)}`.includes(password), false);
        return true;
      });
    } finally {
      await admin.script(isPostgres ? `drop role ${user}` : `drop user ${user}`);
    }
  },
);

test('SQLite has no scratch database', async () => {
  await assert.rejects(createScratch('sqlite:./data.db', deps()), { code: 'E_SCRATCH_DATABASE' });
});
