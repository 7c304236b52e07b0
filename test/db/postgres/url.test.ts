import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePostgresUrl, type PostgresUrl } from '../../../src/db/postgres/url.ts';
import { isLocalHost } from '../../../src/db/wire/server-url.ts';

class Refused extends Error {}
const refuse = (problem: string): never => {
  throw new Refused(problem);
};
const parse = (url: string): PostgresUrl => parsePostgresUrl(url.replace(/^postgres(?:ql)?:/, ''), refuse);

test('parsePostgresUrl() returns user, password, hosts and database, and decodes percent-encoding', () => {
  for (const [url, user, password, hosts, database] of [
    ['postgres://app@db.example/shop', 'app', undefined, ['db.example:5432'], 'shop'],
    ['postgresql://app:secret@db.example:6432/shop', 'app', 'secret', ['db.example:6432'], 'shop'],
    [
      'postgres://a%40b:p%40ss%3Aw%2Fo%20rd%25%3F%23%26+@h/d%2Fe',
      'a@b',
      'p@ss:w/o rd%?#&+',
      ['h:5432'],
      'd/e',
    ],
    ['postgres://app:a:b@h', 'app', 'a:b', ['h:5432'], 'app'],
    ['postgres://app:@h/', 'app', undefined, ['h:5432'], 'app'],
    ['postgres://app@/shop', 'app', undefined, ['localhost:5432'], 'shop'],
    [
      'postgres://app@one,two:5433,[::1],[fe80::1]:7/d',
      'app',
      undefined,
      ['one:5432', 'two:5433', '::1:5432', 'fe80::1:7'],
      'd',
    ],
    ['postgres://app@one,two/d?port=5,6', 'app', undefined, ['one:5', 'two:6'], 'd'],
    ['postgres://app@one,two/d?port=5', 'app', undefined, ['one:5', 'two:5'], 'd'],
    [
      'postgres:///d?host=/run/postgresql&user=app&password=a%2Bb+c',
      'app',
      'a+b+c',
      ['/run/postgresql:5432'],
      'd',
    ],
    ['postgres://app@%2Frun%2Fpg:5433/d', 'app', undefined, ['/run/pg:5433'], 'd'],
    ['postgres://?host=/a,b,::1&user=u&dbname=x', 'u', undefined, ['/a:5432', 'b:5432', '::1:5432'], 'x'],
  ] as const) {
    const read = parse(url);
    assert.deepEqual(
      [read.user, read.password, read.hosts.map(({ host, port }) => `${host}:${port}`), read.database],
      [user, password, hosts, database],
      url,
    );
  }
});

test('parsePostgresUrl() reads the TLS parameters, and by default requires a verified certificate unless every host is local', () => {
  for (const [url, mode] of [
    ['postgres://u@db/d', 'verify-full'],
    ['postgres://u@localhost/d', 'disable'],
    ['postgres://u@127.0.0.2,[::1]/d', 'disable'],
    ['postgres://u@127.0.0.1,db/d', 'verify-full'],
    ['postgres://u@/d?host=/run', 'disable'],
    ['postgres://u@localhost/d?sslrootcert=/ca.pem', 'verify-full'],
    ['postgres://u@db/d?sslmode=prefer', 'prefer'],
    ['postgres://u@db/d?sslmode=disable', 'disable'],
    ['postgres://u@127.0.0.1.example/d', 'verify-full'],
    ['postgres://u@localhost/d?sslmode=require', 'require'],
  ] as const)
    assert.equal(parse(url).tls.mode, mode, url);
  assert.deepEqual(
    parse(
      'postgres://u@db/d?sslnegotiation=direct&sslrootcert=system&sslcert=/c.pem&sslkey=/k.pem&sslpassword=p%20w&sslsni=0&ssl_min_protocol_version=TLSv1.3&channel_binding=require',
    ).tls,
    {
      mode: 'verify-full',
      negotiation: 'direct',
      channelBinding: 'require',
      rootCertificate: 'system',
      certificate: '/c.pem',
      key: '/k.pem',
      keyPassword: 'p w',
      sendsServerName: false,
      leastVersion: 'TLSv1.3',
    },
  );
  assert.deepEqual(parse('postgres://u@db/d').tls, {
    mode: 'verify-full',
    negotiation: 'postgres',
    channelBinding: 'prefer',
    rootCertificate: undefined,
    certificate: undefined,
    key: undefined,
    keyPassword: undefined,
    sendsServerName: true,
    leastVersion: 'TLSv1.2',
  });
  assert.deepEqual(
    ['/run', 'localhost', '127.9.9.9', '::1', 'db', '127.example', '10.0.0.1'].map(isLocalHost),
    [true, true, true, true, false, false, false],
  );
});

test('parsePostgresUrl() reads the documented parameters, and passes parameters that begin with "set." to the server as settings', () => {
  const { parameters, target, connectTimeoutMs, statementCache, hasPlainStartup } = parse(
    'postgres://u@db/d?application_name=my%20app&options=-c%20geqo%3Doff&set.search_path=app,public&set.my.flag=1&target_session_attrs=read-write&connect_timeout=3&statement_cache=0&startup=plain',
  );
  assert.deepEqual(parameters, {
    application_name: 'my app',
    options: '-c geqo=off',
    search_path: 'app,public',
    'my.flag': '1',
  });
  assert.deepEqual(
    [target, connectTimeoutMs, statementCache, hasPlainStartup],
    ['read-write', 3_000, 0, true],
  );
  const plain = parse('postgres://u@db/d');
  assert.deepEqual(
    ['', '?max_protocol_version=3.0', '?max_protocol_version=3.2', '?max_protocol_version=latest'].map(
      (query) => parse(`postgres://u@db/d${query}`).protocol,
    ),
    ['3.0', '3.0', '3.2', '3.2'],
  );
  assert.deepEqual(
    [plain.parameters, plain.target, plain.connectTimeoutMs, plain.statementCache, plain.hasPlainStartup],
    [{}, 'any', 10_000, undefined, false],
  );
});

test('parsePostgresUrl() refuses contradictory parameters, and suggests a name for an unknown parameter', () => {
  for (const [url, hint] of [
    ['postgres:db/d', /two slashes/],
    ['postgres://db/d', /the user name is missing/],
    ['postgres://u:p@ss@db/d', /%40/],
    ['postgres://u:p#x@db/d', /%23/],
    ['postgres://u:%zz@db/d', /percent/],
    ['postgres://u@db/d%00', /NUL/],
    ['postgres://u@db:x/d', /is not a host/],
    ['postgres://u@db:0/d', /"port" must be an integer/],
    ['postgres://u@db:65536/d', /"port" must be an integer/],
    ['postgres://u@::1/d', /is not a host/],
    ['postgres://u@[db]/d', /IPv6/],
    ['postgres://u@a b/d', /character/],
    ['postgres://u@db/d?sslmod=require', /did you mean "sslmode"/],
    ['postgres://u@db/d?ssl_mode=require', /did you mean "sslmode"/],
    ['postgres://u@db/d?search_path=app', /set\.search_path/],
    ['postgres://u@db/d?statement_timeout=5', /set\.statement_timeout|did you mean/],
    ['postgres://u@db/d?sslmode=full', /one of "disable"/],
    ['postgres://u@db/d?sslmode=allow', /clear/],
    ['postgres://u@db/d?sslmode', /needs a value/],
    ['postgres://u@db/d?sslmode=require&sslmode=disable', /twice/],
    ['postgres://u@db/d?host=/run', /"host" occurs twice/],
    ['postgres://u@db/d?user=v', /"user" occurs twice/],
    ['postgres://u@db/d?dbname=e', /"dbname" occurs twice/],
    ['postgres://u:p@db/d?password=q', /"password" occurs twice/],
    ['postgres://u@db:1/d?port=2', /"port" occurs twice/],
    ['postgres://u@a,b/d?port=1,2,3', /hosts \(2\) differs from the number of ports \(3\)/],
    ['postgres://u@db/d?connect_timeout=0', /connect_timeout/],
    ['postgres://u@db/d?statement_cache=x', /statement_cache/],
    ['postgres://u@db/d?set.=1', /run-time parameter/],
    ['postgres://u@db/d?set.a%20b=1', /run-time parameter/],
    ['postgres://u@db/d?set.DateStyle=SQL', /must not be changed/],
    ['postgres://u@db/d?set.client_encoding=x', /must not be changed/],
    ['postgres://u@db/d?sslmode=disable&sslrootcert=x', /contradict/],
    ['postgres://u@/d?host=/run&sslmode=require', /Unix socket/],
    ['postgres://u@db/d?sslcert=x', /needs both parameters/],
    ['postgres://u@db/d?sslmode=prefer&sslnegotiation=direct', /direct/],
    ['postgres://u@db/d?sslmode=disable&channel_binding=require', /channel_binding/],
  ] as const) {
    assert.throws(
      () => parse(url),
      (error) =>
        (error instanceof Refused && hint.test(error.message)) || assert.fail(`${url}: ${String(error)}`),
      url,
    );
  }
});

test('parsePostgresUrl() refuses to change the parameters that svc sets, in any case', () => {
  for (const name of [
    'client_encoding',
    'datestyle',
    'intervalstyle',
    'standard_conforming_strings',
    'user',
    'database',
    'replication',
    'DateStyle',
  ])
    assert.throws(
      () => parse(`postgres://u@db/d?set.${name}=x`),
      /must not be changed, because svc sets/,
      name,
    );
});
