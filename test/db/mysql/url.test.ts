import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMySqlUrl, type MySqlUrl } from '../../../src/db/mysql/url.ts';
import { openDatabase } from '../../../src/db/index.ts';
import { fault } from '../../contract/database.ts';

class Refused extends Error {}
const refuse = (problem: string): never => {
  throw new Refused(problem);
};
const parse = (url: string): MySqlUrl =>
  parseMySqlUrl(url.startsWith('mariadb') ? 'mariadb' : 'mysql', url.replace(/^\w+:/, ''), refuse);

test('parseMySqlUrl() returns user, password, hosts and database, and decodes percent-encoding', () => {
  for (const [url, user, password, hosts, database] of [
    ['mysql://app@db.example/shop', 'app', undefined, ['db.example:3306'], 'shop'],
    [
      'mariadb://app:p%40ss%3Aw%2Fo%20rd%25%3F%23%26+@one,two:3307,[::1]/d',
      'app',
      'p@ss:w/o rd%?#&+',
      ['one:3306', 'two:3307', '::1:3306'],
      'd',
    ],
    ['mysql://app:@h', 'app', undefined, ['h:3306'], undefined],
    [
      'mysql://app:x@localhost/shop?socket=/run/mysqld/mysqld.sock',
      'app',
      'x',
      ['/run/mysqld/mysqld.sock:3306'],
      'shop',
    ],
    ['mysql:///shop?user=app&password=a%2Bb+c&socket=/s', 'app', 'a+b+c', ['/s:3306'], 'shop'],
  ] as const) {
    const read = parse(url);
    assert.deepEqual(
      [read.user, read.password, read.hosts.map(({ host, port }) => `${host}:${port}`), read.database],
      [user, password, hosts, database],
      url,
    );
  }
});

test('parseMySqlUrl() has secure defaults, and reads every parameter', () => {
  const plain = parse('mysql://app@db/shop');
  assert.deepEqual(
    [
      plain.tls.mode,
      plain.allowsKeyRetrieval,
      plain.isStrict,
      plain.pipelines,
      plain.values,
      plain.applicationName,
    ],
    [
      'verify-full',
      false,
      true,
      true,
      { zeroDates: 'null', hasBooleans: false, parsesJson: true, timestamps: 'date' },
      'svc',
    ],
  );
  assert.deepEqual(plain.plugins, [
    'mysql_native_password',
    'caching_sha2_password',
    'sha256_password',
    'parsec',
  ]);
  assert.equal(parse('mysql://app@127.0.0.1/shop').tls.mode, 'disable');
  const all = parse(
    'mariadb://app@db/shop?sslmode=require&auth_plugins=parsec,mysql_clear_password&server_public_key=/k.pem&allow_public_key_retrieval=1&sql_mode=server&pipelining=0&zero_dates=string&tinyint1_is_boolean=1&json=text&timestamps=string&application_name=worker&set.innodb_lock_wait_timeout=5&connect_timeout=3&statement_cache=7',
  );
  assert.deepEqual(
    [
      all.tls.mode,
      all.plugins,
      all.serverPublicKey,
      all.allowsKeyRetrieval,
      all.isStrict,
      all.pipelines,
      all.values,
    ],
    [
      'require',
      ['parsec', 'mysql_clear_password'],
      '/k.pem',
      true,
      false,
      false,
      { zeroDates: 'string', hasBooleans: true, parsesJson: false, timestamps: 'string' },
    ],
  );
  assert.deepEqual(
    [all.applicationName, all.parameters, all.connectTimeoutMs, all.statementCache],
    ['worker', { innodb_lock_wait_timeout: '5' }, 3_000, 7],
  );
});

test('parseMySqlUrl() accepts each supported "sslmode", and by default requires a verified certificate unless every host is local', () => {
  for (const mode of ['disable', 'prefer', 'require', 'verify-ca', 'verify-full']) {
    for (const host of ['db', 'localhost', 'one,two'])
      assert.equal(parse(`mysql://app@${host}/shop?sslmode=${mode}`).tls.mode, mode, `${mode} ${host}`);
  }
  for (const [hosts, query, mode] of [
    ['one,two', '', 'verify-full'],
    ['127.0.0.1,db', '', 'verify-full'],
    ['db,127.0.0.1', '', 'verify-full'],
    ['localhost,127.0.0.2,[::1]', '', 'disable'],
    ['localhost', '?sslrootcert=/ca.pem', 'verify-full'],
  ] as const)
    assert.equal(parse(`mariadb://app@${hosts}/shop${query}`).tls.mode, mode, hosts + query);
});

test('parseMySqlUrl() refuses unknown and invalid parameters', () => {
  for (const [url, hint] of [
    ['mysql:app@db', /two slashes/],
    ['mysql://db/shop', /the user name is missing/],
    ['mysql://app@db/x?sslmod=require', /did you mean "sslmode"/],
    ['mysql://app@db/x?sslmode=allow', /in clear text/],
    ['mysql://app@db/x?auth_plugins=mysql_old_password', /must contain only these names/],
    ['mysql://app@db/x?pipelining=yes', /one of "0", "1"/],
    ['mysql://app@db/x?set.time_zone=x', /must not be changed/],
    ['mysql://app@db/x?set.autocommit=0', /must not be changed/],
    ["mysql://app@db/x?set.sql_mode=a'b", /a quote/],
    ['mysql://app@db/x?set.a-b=1', /name of a run-time parameter/],
    ['mysql://app@db/x?socket=/s', /this machine/],
    ['mysql://app@localhost/x?socket=s', /absolute path/],
    ['mysql://app@localhost/x?socket=/s&sslmode=require', /no TLS/],
    ['mysql://app@db/x?target_session_attrs=standby', /"any", "read-write"/],
    ['mysql://app@db/x?sslcert=/c', /needs both parameters/],
  ] as const)
    assert.throws(
      () => parse(url),
      (error) =>
        (error instanceof Refused && hint.test(error.message)) || assert.fail(`${url}: ${String(error)}`),
    );
});

test('openDatabase() with a MySQL or MariaDB URL refuses options and parameters of other engines', async () => {
  for (const options of [{ readers: 1 }, { busyTimeoutMs: 1 }, { synchronous: 'normal' }] as const)
    await assert.rejects(openDatabase('mysql://app@localhost/app', options), fault('E_DB_OPTION'));
  await assert.rejects(
    openDatabase('mariadb://app@localhost/app?target_session_attrs=read-write', { readOnly: true }),
    fault('E_DB_OPTION'),
  );
});

test('parseMySqlUrl() refuses to change the parameters that svc sets, in any case', () => {
  for (const name of [
    'time_zone',
    'character_set_client',
    'character_set_results',
    'character_set_connection',
    'names',
    'autocommit',
    'pseudo_thread_id',
    'Time_Zone',
  ])
    assert.throws(
      () => parse(`mysql://app@db/x?set.${name}=x`),
      /must not be changed, because svc sets/,
      name,
    );
});
