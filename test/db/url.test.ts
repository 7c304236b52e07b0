import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../../src/db/index.ts';
import { parseDatabaseUrl, shownUrl, readingAddress, withDatabase, withMeaning } from '../../src/db/url.ts';
import { fault } from '../contract/database.ts';

test('parseDatabaseUrl() reads relative paths, absolute paths, and the name ":memory:"', () => {
  for (const [url, path] of [
    ['sqlite:./data.db', resolve('data.db')],
    ['sqlite:data.db', resolve('data.db')],
    ['sqlite:../up.db', resolve('../up.db')],
    ['sqlite:///var/lib/app.db', '/var/lib/app.db'],
    ['sqlite:/var/lib/app.db', '/var/lib/app.db'],
    ['sqlite:///with%20space.db', '/with space.db'],
    ['SQLITE::memory:', ':memory:'],
    ['sqlite:a:b.db', resolve('a:b.db')],
  ] as const) {
    if (url.startsWith('SQLITE')) assert.throws(() => parseDatabaseUrl(url), fault('E_DB_URL'));
    else
      assert.deepEqual(parseDatabaseUrl(url), {
        dialect: 'sqlite',
        path,
        isReadOnly: false,
        synchronous: undefined,
      });
  }
  assert.deepEqual(parseDatabaseUrl('sqlite::memory:'), {
    dialect: 'sqlite',
    path: ':memory:',
    isReadOnly: false,
    synchronous: undefined,
  });
  assert.deepEqual(parseDatabaseUrl('sqlite:a.db?mode=ro&synchronous=normal'), {
    dialect: 'sqlite',
    path: resolve('a.db'),
    isReadOnly: true,
    synchronous: 'normal',
  });
});

test('parseDatabaseUrl() refuses unknown schemes and settings, and suggests the right name', () => {
  for (const [url, hint] of [
    ['', /the address is empty: set SVC_DATABASE_URL/],
    ['data.db', /does not begin/],
    ['sqlit:data.db', /did you mean "sqlite"/],
    ['oracle:x', /the scheme "oracle" is not supported/],
    ['file:data.db', /the scheme must be "sqlite"/],
    ['sqlite:', /does not name a file/],
    ['sqlite:///', /does not name a file/],
    ['sqlite:folder/', /does not name a file/],
    ['sqlite://host/data.db', /host/],
    ['sqlite:%zz', /percent/],
    ['sqlite:a%00b', /NUL/],
    ['sqlite:a?mod=ro', /did you mean "mode"/],
    ['sqlite:a?mode=rx', /must be one of "ro", "rw"/],
    ['sqlite:a?mode=ro&mode=rw', /twice/],
    ['sqlite:a?cache=shared', /unknown setting "cache"/],
  ] as const) {
    assert.throws(
      () => parseDatabaseUrl(url),
      (error) =>
        (fault('E_DB_URL')(error) && hint.test((error as Error).message)) || assert.fail(String(error)),
    );
  }
});

test('openDatabase() refuses the value of an unset environment variable, and a URL that ends with white space', async () => {
  for (const url of [undefined, null, 5, new URL('postgres://app@localhost/app')])
    await assert.rejects(
      openDatabase(url as never),
      (error) => fault('E_DB_URL')(error) && /not set/.test((error as Error).message),
    );
  for (const url of [
    'sqlite:./data.db\n',
    'sqlite::memory: ',
    'postgres://app:hunter2@localhost/app\r\n',
    'mysql://app:hunter2@localhost/app?connect_timeout=5\n',
  ]) {
    await assert.rejects(
      openDatabase(url),
      (error) =>
        fault('E_DB_URL')(error) &&
        /white space/.test((error as Error).message) &&
        (error as Error).message.includes(`"${shownUrl(url)}"`) &&
        !(error as Error).message.includes('hunter2'),
    );
  }
});

test('parseDatabaseUrl() reads URLs of MySQL and MariaDB, and neither its errors nor shownUrl() show the password', async () => {
  for (const url of ['mysql://app:hunter2@db/app', 'mariadb://app:hunter2@db/app'])
    assert.equal(parseDatabaseUrl(url).dialect, url.slice(0, url.indexOf(':')));
  await assert.rejects(
    openDatabase('mysql://app:hunter2@db/app?sslmod=x'),
    (error) => fault('E_DB_URL')(error) && !(error as Error).message.includes('hunter2'),
  );
  assert.equal(
    shownUrl('postgres://app:hunter2@db/app?password=x&sslmode=require'),
    'postgres://app:…@db/app?password=…&sslmode=…',
  );
  assert.equal(shownUrl('redis://app:p@ss:w@db/0'), 'redis://app:…@db/0');
  assert.equal(shownUrl('sqlite:./data.db'), 'sqlite:./data.db');
  assert.throws(
    () => parseDatabaseUrl('redis://app:hunter2@db'),
    (error) => fault('E_DB_URL')(error) && !(error as Error).message.includes('hunter2'),
  );
});

test('parseDatabaseUrl() reads URLs of PostgreSQL, and its errors do not show the password', () => {
  const address = parseDatabaseUrl('postgresql://app:hunter2@db,other/shop');
  assert.ok(address.dialect === 'postgres' && address.hosts.length === 2 && address.password === 'hunter2');
  assert.throws(
    () => parseDatabaseUrl('postgres://app:hunter2@db/shop?sslmod=x'),
    (error) =>
      fault('E_DB_URL')(error) &&
      /did you mean "sslmode"/.test((error as Error).message) &&
      !(error as Error).message.includes('hunter2'),
  );
});

test('openDatabase() refuses invalid options, and options that exist only for other engines', async () => {
  for (const options of [{ readers: 1 }, { busyTimeoutMs: 1 }, { pool: { min: 5, max: 4 } }])
    await assert.rejects(openDatabase('postgres://app@localhost/app', options), fault('E_DB_OPTION'));
  await assert.rejects(
    openDatabase('postgres://app@localhost/app?target_session_attrs=read-write', { readOnly: true }),
    fault('E_DB_OPTION'),
  );
  await assert.rejects(openDatabase('sqlite::memory:', { statementCache: 0 }), fault('E_DB_OPTION'));
  await assert.rejects(
    openDatabase('sqlite::memory:', { pool: { maximum: 1 } as never }),
    fault('E_OPTION_UNKNOWN'),
  );
  // one list of options for a test database and a server
  await using db = await openDatabase('sqlite::memory:', { pool: { max: 3 } });
  await assert.rejects(
    db.listen('a', () => undefined),
    fault('E_DB_OPTION'),
  );
});

const OTHERS: readonly (readonly [url: string, database: string])[] = [
  ['postgres://u:p%2Fq@h:1/shop', 'postgres://u:p%2Fq@h:1/other'],
  ['postgres://u@h', 'postgres://u@h/other'],
  ['postgres://u@h/?sslmode=require', 'postgres://u@h/other?sslmode=require'],
  ['postgres://u@h?dbname=shop&set.work_mem=1MB', 'postgres://u@h/other?set.work_mem=1MB'],
  ['mariadb://u@localhost/shop?socket=/run/my.sock', 'mariadb://u@localhost/other?socket=/run/my.sock'],
  ['mysql://u@one,two:3307,[::1]/shop', 'mysql://u@one,two:3307,[::1]/other'],
];
for (const [url, expected] of OTHERS)
  test(`the address of another database on the server of ${url} keeps its settings`, () => {
    assert.equal(withDatabase(url, 'other'), expected);
    assert.equal((parseDatabaseUrl(expected) as { database?: string }).database, 'other');
  });

test('an address for reading names a primary or any server in place of a server to write', () => {
  const attrs = (target: string): string => `//u@h/shop?x=1&target_session_attrs=${target}`;
  for (const [dialect, target] of [
    ['postgres', 'primary'],
    ['mysql', 'any'],
    ['mariadb', 'any'],
  ] as const)
    assert.equal(readingAddress(`${dialect}:${attrs('read-write')}`, dialect), `${dialect}:${attrs(target)}`);
  assert.equal(readingAddress(`postgres:${attrs('standby')}`, 'postgres'), `postgres:${attrs('standby')}`);
});

for (const [url, other, expected] of [
  ['postgres://h/a', 'postgres://h/b', ''],
  ['postgres://h/a', 'postgres://h/b?set.search_path=x', '?set.search_path=x'],
  [
    'postgres://h/a?sslmode=require',
    'postgres://h/b?sslmode=disable&set.search_path=x,y&c=1',
    '&set.search_path=x,y',
  ],
  ['postgres://h/a?set.search_path=z', 'postgres://h/b?set.search_path=x', ''],
  ['postgres://h/a?set.work_mem=1', 'postgres://h/b?set.work_mem=2', ''],
  ['mysql://h/a', 'mysql://h/b?c=1&set.sql_mode=ANSI', '?set.sql_mode=ANSI'],
  ['mysql://h/a?set.sql_mode=', 'mysql://h/b?set.sql_mode=ANSI', ''],
  ['mysql://h/a', 'mysql://h/b?sql_mode=server', ''],
] as const)
  test(`withMeaning() adds "${expected}" to ${url} for ${other}`, () => {
    assert.equal(withMeaning(url, other), url + expected);
  });
