import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReadable, parseRedisUrl } from '../../../src/db/redis/url.ts';
import { fault } from '../../contract/database.ts';

test('parseRedisUrl() returns user, password, hosts and database', () => {
  for (const [url, user, password, hosts, database] of [
    ['redis://cache.example', '', undefined, ['cache.example:6379'], 0],
    ['redis://cache.example/', '', undefined, ['cache.example:6379'], 0],
    ['redis://:p%40ss@cache:6380/3', '', 'p@ss', ['cache:6380'], 3],
    ['redis://app:a%3Ab@one,two:7,[::1]/1', 'app', 'a:b', ['one:6379', 'two:7', '::1:6379'], 1],
    ['REDIS://h', '', undefined, ['h:6379'], 0],
    ['redis+unix:///run/redis.sock', '', undefined, ['/run/redis.sock:6379'], 0],
    ['redis+unix://app:x@/run/redis.sock?db=2', 'app', 'x', ['/run/redis.sock:6379'], 2],
    ['unix:///run/r.sock', '', undefined, ['/run/r.sock:6379'], 0],
    ['redis://h?db=4', '', undefined, ['h:6379'], 4],
  ] as const) {
    const read = parseRedisUrl(url);
    assert.deepEqual(
      [read.user, read.password, read.hosts.map(({ host, port }) => `${host}:${port}`), read.database],
      [user, password, hosts, database],
      url,
    );
  }
});

test('for the scheme "rediss", parseRedisUrl() requires TLS with a fully verified certificate', () => {
  for (const [url, mode] of [
    ['redis://cache.example', 'disable'],
    ['redis://127.0.0.1', 'disable'],
    ['rediss://cache.example', 'verify-full'],
    ['rediss://127.0.0.1', 'verify-full'],
    ['rediss://h?sslmode=verify-ca', 'verify-ca'],
    ['rediss://127.0.0.1?sslmode=require', 'require'],
    ['rediss://127.0.0.1?sslrootcert=/ca.pem', 'verify-full'],
  ] as const)
    assert.equal(parseRedisUrl(url).tls.mode, mode, url);
  assert.deepEqual(
    [
      'redis://cache.example',
      'rediss://cache.example',
      'redis://localhost',
      'redis+unix:///r',
      'redis://localhost,cache.example',
    ].map((url) => isReadable(parseRedisUrl(url))),
    [true, false, false, false, true],
  );
});

test('parseRedisUrl() refuses the value of an unset environment variable, and a URL that ends with a line feed', () => {
  assert.throws(
    () => parseRedisUrl(undefined as never),
    (error) => fault('E_REDIS_URL')(error) && /not set/.test((error as Error).message),
  );
  assert.throws(
    () => parseRedisUrl('redis://:hunter2@cache\n'),
    (error) =>
      fault('E_REDIS_URL')(error) &&
      /"redis:\/\/:…@cache\n": .*white space/s.test((error as Error).message) &&
      !(error as Error).message.includes('hunter2'),
  );
});

test('parseRedisUrl() refuses unknown parameters, and its error does not contain the password', () => {
  for (const url of [
    'http://h',
    'redis:h',
    'redis://h/x',
    'redis://h/0?db=1',
    'redis://h/-1',
    'redis://h?sslrootcert=/ca.pem',
    'rediss://h?sslmode=disable',
    'rediss://h?sslmode=prefer',
    'rediss://h?sslmode=allow',
    'redis://h?timeout=5',
    'redis://h?statement_cache=0',
    'redis://h?target_session_attrs=any',
    'redis://h?set.x=1',
    'redis://h?role=replica',
    'redis://h:0',
    'redis://h:99999',
    'redis://u:hunter2@h@i',
    'redis+unix://h/run/x',
    'redis+unix://u:hunter2@/run/x?db=z',
    'redis+unix:',
    'redis://u:hunter2%@h',
    '',
  ])
    assert.throws(
      () => parseRedisUrl(url),
      (error) => fault('E_REDIS_URL')(error) && !(error as Error).message.includes('hunter2'),
      url,
    );
});
