/**
 * The client of Redis with a real server: commands, subscriptions, TLS, ACLs, unix sockets and server
 * restarts.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import { ConnectionLost, QueryCanceled, Redis, RedisError, RedisScript } from '../../../src/db/index.ts';
import { fault } from '../../contract/database.ts';
import { FIRST } from '../../support/certificates.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { FakeTracer } from '../../support/fake-tracer.ts';
import { freePort } from '../../support/own-server.ts';
import { RedisServer, needsRedis, sharedRedis } from '../../support/redis-server.ts';
import { folder } from '../../support/run.ts';

const until = async (isSo: () => boolean): Promise<void> => {
  while (!isSo()) await systemClock.sleep(2);
};

test('Redis.command() accepts text, bytes and numbers as arguments, and returns replies of each type', async (t) => {
  if (!needsRedis(t)) return;
  await using redis = await new Redis((await sharedRedis()).url).open();
  await redis.command(['FLUSHALL']);
  for (const text of ['', 'a\0b\r\nc', 'grüße 漢字 😀', 'x'.repeat(1_000_000)]) {
    assert.equal(await redis.command(['SET', text || 'empty', text]), 'OK');
    assert.equal(await redis.command(['GET', text || 'empty']), text);
  }
  const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
  await redis.command(['SET', bytes, bytes]);
  assert.deepEqual(await redis.command(['GET', bytes], { asBytes: true }), bytes);
  assert.equal(await redis.command(['INCRBY', 'n', 2n ** 62n]), 2n ** 62n);
  assert.equal(await redis.command(['INCRBYFLOAT', 'f', 1.5]), '1.5');
  await redis.command(['HSET', 'h', 'a', 1, 'b', 2]);
  assert.deepEqual(
    await redis.command(['HGETALL', 'h']),
    new Map([
      ['a', '1'],
      ['b', '2'],
    ]),
  );
  await redis.command(['SADD', 's', 'one']);
  assert.deepEqual(
    [
      await redis.command(['SMEMBERS', 's']),
      await redis.command(['GET', 'none']),
      await redis.command(['MGET', 'none', 'n']),
    ],
    [['one'], null, [null, String(2n ** 62n)]],
  );
  await redis.command(['ZADD', 'z', 1.5, 'm']);
  assert.equal(await redis.command(['ZSCORE', 'z', 'm']), 1.5);
  await assert.rejects(
    redis.command(['LPUSH', 'h', 'secret']),
    (error) => error instanceof RedisError && error.reply === 'WRONGTYPE',
  );
});

test('with a tracer, each command of Redis has a client span without its arguments, also on a dedicated connection and as a script', async (t) => {
  if (!needsRedis(t)) return;
  const tracer = new FakeTracer();
  const { url } = await sharedRedis();
  await using redis = await new Redis(url, { tracer }).open();
  await redis.command(['SET', 'hidden-key', 'hidden']);
  await assert.rejects(redis.command(['LPUSH', 'hidden-key', 'hidden']), RedisError);
  await redis.transaction([['GET', 'hidden-key']]);
  await redis.script(new RedisScript('return 1'), ['hidden-key'], []);
  await using dedicated = await redis.dedicated();
  await dedicated.command(['DEL', 'hidden-key']);
  tracer.assertEnded();
  const { hostname, port } = new URL(url);
  const usual = {
    'db.system.name': 'redis',
    'db.namespace': '0',
    'server.address': hostname,
    'server.port': Number(port),
  };
  assert.deepEqual(
    tracer.spans.map(({ name, kind, attributes }) => [name, kind, attributes]),
    [
      ['SET 0', 'client', { ...usual, 'db.operation.name': 'SET' }],
      [
        'LPUSH 0',
        'client',
        {
          ...usual,
          'db.operation.name': 'LPUSH',
          'error.type': 'RedisError',
          'db.response.status_code': 'WRONGTYPE',
        },
      ],
      ['MULTI 0', 'client', { ...usual, 'db.operation.name': 'MULTI' }],
      ['EVALSHA 0', 'client', { ...usual, 'db.operation.name': 'EVALSHA' }],
      ['DEL 0', 'client', { ...usual, 'db.operation.name': 'DEL' }],
    ],
  );
  assert.doesNotMatch(JSON.stringify(tracer.spans), /hidden/);
});

test('a Redis transaction is atomic, and its list of results contains an Error for each failed command', async (t) => {
  if (!needsRedis(t)) return;
  await using redis = await new Redis((await sharedRedis()).url).open();
  await redis.command(['DEL', 'tx', 'count']);
  const [set, refused, got] = await redis.transaction([
    ['SET', 'tx', 'a'],
    ['LPUSH', 'tx', 'b'],
    ['GET', 'tx'],
  ]);
  assert.ok(set === 'OK' && refused instanceof RedisError && got === 'a');
  await assert.rejects(
    redis.transaction([['SET', 'tx', 'c'], ['NONSENSE']]),
    (error) =>
      error instanceof RedisError &&
      error.reply === 'EXECABORT' &&
      /\(NONSENSE: ERR unknown command/.test(error.message),
  ); // the error names the command
  assert.equal(await redis.command(['GET', 'tx']), 'a');
  assert.deepEqual(await redis.transaction([]), []);
  const all = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      index % 2 === 0
        ? redis.transaction([
            ['INCR', 'count'],
            ['GET', 'count'],
          ])
        : redis.command(['INCR', 'count']),
    ),
  );
  for (const pair of all.filter((each): each is readonly number[] => Array.isArray(each)))
    assert.equal(String(pair[0]), pair[1], 'nobody came between');
});

test('every method of a Redis client rejects when a command fails after other commands have run', async (t) => {
  if (!needsRedis(t)) return;
  await using redis = await new Redis((await sharedRedis()).url).open();
  await using dedicated = await redis.dedicated();
  const text = `redis.call('SET', KEYS[1], 'a'); return redis.call('LPUSH', KEYS[1], 'b')`;
  const script = new RedisScript(text);
  const evaluated = ['EVAL', text, 1, 'late'];
  const failing: Readonly<Record<string, () => Promise<unknown>>> = {
    command: () => redis.command(evaluated),
    script: () => redis.script(script, ['late'], []),
    'transaction with a refused command': () => redis.transaction([['SET', 'late', 'a'], ['NONSENSE']]),
    'command of a dedicated connection': () => dedicated.command(evaluated),
  };
  for (const [method, run] of Object.entries(failing))
    for (const use of ['first', 'second']) await assert.rejects(run(), RedisError, `${method}, ${use} use`);
  const results = await redis.transaction([['SET', 'late', 'a'], evaluated]);
  assert.ok(results[0] === 'OK' && results[1] instanceof RedisError);
});

test('after the server has dropped a script, Redis.script() sends the text of the script again', async (t) => {
  if (!needsRedis(t)) return;
  await using redis = await new Redis((await sharedRedis()).url).open();
  const script = new RedisScript('return {KEYS[1], ARGV[1]}');
  for (let round = 0; round < 3; round++) {
    assert.deepEqual(await redis.script(script, ['k'], ['é']), ['k', 'é']);
    await redis.command(['SCRIPT', 'FLUSH']);
  }
});

test('Redis.subscribe() delivers messages in order, and delivers messages again after the server was restarted', async (t) => {
  if (!needsRedis(t)) return;
  const { logger } = collectedLog();
  const server = await RedisServer.start(t);
  await using redis = await new Redis(server.url, { log: logger }).open();
  const received: string[] = [];
  let reconnects = 0;
  const listening = await redis.subscribe(
    'news',
    (message, channel) => {
      received.push(`${channel} ${new TextDecoder().decode(message)}`);
      if (received.length === 1) throw new Error('mine');
    },
    { onReconnect: () => reconnects++ },
  );
  await using other = await redis.subscribe('other', () => received.push('never'));
  void other;
  for (let count = 0; count < 50; count++) void redis.publish('news', `${count}`);
  await until(() => received.length === 50);
  assert.deepEqual(
    received,
    Array.from({ length: 50 }, (_, count) => `news ${count}`),
  );
  await server.kill();
  await server.start();
  await until(() => reconnects === 1 && redis.isConnected);
  assert.equal(await redis.publish('news', 'again'), 1);
  await until(() => received.at(-1) === 'news again');
  await listening[Symbol.asyncDispose]();
  await listening[Symbol.asyncDispose]();
  assert.equal(await redis.publish('news', 'nobody'), 0);
});

test('Redis.open() logs in with user and password over TCP, TLS and a Unix socket, and rejects when the password is wrong', async (t) => {
  if (!needsRedis(t)) return;
  const files = folder(t, { 'key.pem': FIRST.key, 'cert.pem': FIRST.cert });
  writeFileSync(
    join(files, 'users.acl'),
    'user default on >main ~* &* +@all\nuser app on >p@ss: ~app:* &* +@all -@dangerous\n',
  );
  const port = await freePort();
  const server = await RedisServer.start(t, [
    '--aclfile',
    join(files, 'users.acl'),
    '--tls-port',
    String(port),
    '--tls-cert-file',
    join(files, 'cert.pem'),
    '--tls-key-file',
    join(files, 'key.pem'),
    '--tls-ca-cert-file',
    join(files, 'cert.pem'),
    '--tls-auth-clients',
    'no',
  ]);
  const at = `127.0.0.1:${server.port}`;
  const tls = `localhost:${port}/0?sslmode=require`;
  for (const url of [
    `redis://:main@${at}/0`,
    `redis://app:p%40ss%3A@${at}`,
    `rediss://:main@${tls}`,
    `redis+unix://app:p%40ss%3A@${server.socket}`,
  ]) {
    await using redis = await new Redis(url).open();
    assert.equal(await redis.command(['SET', 'app:key', 'value']), 'OK', url);
    if (url.includes('app:p'))
      await assert.rejects(
        redis.command(['SET', 'other', 'value']),
        (error) => error instanceof RedisError && error.reply === 'NOPERM',
      );
  }
  for (const url of [`redis://app:hunter2@${at}`, `redis://nobody:hunter2@${at}`, `redis://${at}`])
    await assert.rejects(
      new Redis(url).open(),
      (error) => fault('E_REDIS_OPEN')(error) && !(error as Error).message.includes('hunter2'),
    );
  await assert.rejects(
    new Redis(`rediss://:main@127.0.0.1:${port}`).open(),
    fault('E_DB_CONNECT'),
    'nobody has vouched for its certificate',
  );
  await assert.rejects(
    new Redis(`rediss://:main@${at}?connect_timeout=1`).open(),
    fault('E_REDIS_OPEN'),
    'it speaks no TLS there',
  );
});

test('when the Redis server is killed, each pending command rejects with ConnectionLost, and the client reconnects later', async (t) => {
  if (!needsRedis(t)) return;
  const { logger, events } = collectedLog();
  const server = await RedisServer.start(t);
  await using redis = await new Redis(server.url, { log: logger }).open();
  server.pause();
  const running = Array.from({ length: 100 }, (_, index) =>
    redis.command(['SET', `${index}`, 1], { timeoutMs: 10_000 }),
  );
  const settled = Promise.allSettled(running);
  await systemClock.sleep(20);
  await server.kill();
  assert.ok(
    (await settled).every((each) => each.status === 'rejected' && each.reason instanceof ConnectionLost),
  );
  await assert.rejects(redis.command(['GET', 'a']), ConnectionLost);
  await server.start();
  await until(() => redis.isConnected);
  assert.equal(await redis.command(['DBSIZE']), 0, 'nothing was sent again');
  assert.deepEqual(
    events.map(({ event }) => event),
    ['redis_not_reached', 'redis_reached_again'],
  );
  await redis.close();
  await redis.close();
  await assert.rejects(redis.command(['PING']), fault('E_REDIS_CLOSED'));
  await redis.open();
  await redis.ping();
});

test('while a blocking command of Redis.dedicated() waits for an item, other commands run', async (t) => {
  if (!needsRedis(t)) return;
  await using redis = await new Redis((await sharedRedis()).url).open();
  await using queue = await redis.dedicated();
  const item = queue.command(['BLPOP', 'dedicated:jobs', 0]);
  assert.equal(await redis.command(['PING']), 'PONG');
  await redis.command(['RPUSH', 'dedicated:jobs', 'one']);
  assert.deepEqual(await item, ['dedicated:jobs', 'one']);
});

test('Redis.dedicated() can run WATCH, MULTI and EXEC, and EXEC returns null if another caller has written the watched key', async (t) => {
  if (!needsRedis(t)) return;
  await using redis = await new Redis((await sharedRedis()).url).open();
  await using own = await redis.dedicated();
  for (const isDisturbed of [false, true]) {
    await own.command(['WATCH', 'dedicated:n']);
    if (isDisturbed) await redis.command(['SET', 'dedicated:n', 7]);
    await own.command(['MULTI']);
    assert.equal(await own.command(['SET', 'dedicated:n', 1]), 'QUEUED');
    assert.deepEqual(await own.command(['EXEC']), isDisturbed ? null : ['OK']);
  }
});

test('when a command of Redis.dedicated() is aborted, its connection is closed, and no item of a list is lost', async (t) => {
  if (!needsRedis(t)) return;
  await using redis = await new Redis((await sharedRedis()).url).open();
  const queue = await redis.dedicated();
  const id = await queue.command(['CLIENT', 'ID']);
  const abort = new AbortController();
  const item = queue.command(['BLPOP', 'dedicated:kept', 0], { signal: abort.signal });
  abort.abort();
  await assert.rejects(item, QueryCanceled);
  await assert.rejects(queue.command(['PING']), ConnectionLost);
  while (String(await redis.command(['CLIENT', 'LIST', 'ID', String(id)])) !== '') await systemClock.sleep(2);
  await redis.command(['RPUSH', 'dedicated:kept', 'one']);
  assert.equal(await redis.command(['LLEN', 'dedicated:kept']), 1);
});

test('Redis.dedicated() refuses commands that change how replies are sent, and is closed together with its Redis client', async (t) => {
  if (!needsRedis(t)) return;
  const redis = await new Redis((await sharedRedis()).url).open();
  const own = await redis.dedicated();
  for (const parts of [['SUBSCRIBE', 'a'], ['monitor'], ['HELLO', 2], ['CLIENT', 'REPLY', 'OFF']])
    await assert.rejects(own.command(parts), fault('E_REDIS_COMMAND'));
  await assert.rejects(own.command([Buffer.from('MONITOR')]), fault('E_REDIS_ARGUMENT'));
  await redis.close();
  await assert.rejects(own.command(['PING']), ConnectionLost);
  await assert.rejects(redis.dedicated(), fault('E_REDIS_CLOSED'));
});
