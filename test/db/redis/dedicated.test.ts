/** Connections to Redis for one caller: refused commands, limits, and their end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionLost, QueryCanceled, QueryTimeout, Redis, RedisError } from '../../../src/db/index.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { fault } from '../../contract/database.ts';
import { until } from '../../support/endings.ts';
import { FakeTracer } from '../../support/fake-tracer.ts';
import { openedFake, type Answer } from '../../support/fake-redis.ts';

const echo: Answer = ([name, value = '']) =>
  name === 'FAIL'
    ? '-WRONGTYPE no list\r\n'
    : name === 'BLPOP'
      ? undefined
      : `$${value.length}\r\n${value}\r\n`;

const REFUSED: readonly (readonly string[])[] = [
  ...'SUBSCRIBE PSUBSCRIBE SSUBSCRIBE MONITOR SYNC PSYNC HELLO RESET QUIT'.split(' ').map((name) => [name]),
  ['subscribe', 'a'],
  ['CLIENT', 'REPLY', 'OFF'],
  ['client', 'tracking', 'on'],
];
const ONLY_SHARED: readonly (readonly string[])[] = [
  ...(
    'BLPOP BRPOP BLMOVE BLMPOP BRPOPLPUSH BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF UNSUBSCRIBE PUNSUBSCRIBE ' +
    'SUNSUBSCRIBE MULTI EXEC DISCARD WATCH UNWATCH AUTH SELECT SHUTDOWN'
  )
    .split(' ')
    .map((name) => [name]),
  ['CLIENT', 'PAUSE', '1'],
  ['XREAD', 'BLOCK', '0', 'STREAMS', 'a', '$'],
  ['XREADGROUP', 'GROUP', 'g', 'c', 'block', '0', 'streams', 'a', '>'],
];

test('Redis commands that change the connection are refused on every connection, and blocking ones on the shared one', async (t) => {
  const { redis, fake } = await openedFake(t, (command) =>
    command[0] === 'BLPOP' ? '+x\r\n' : echo(command, undefined as never),
  );
  const dedicated = await redis.dedicated();
  fake.commands.length = 0;
  const refused = (parts: readonly string[]) => (error: unknown) => {
    assert.ok(fault('E_REDIS_COMMAND')(error));
    assert.ok((error as Error).message.startsWith(`Cannot run ${parts[0]!.toUpperCase()}: `));
    return true;
  };
  for (const parts of REFUSED)
    await assert.rejects(dedicated.command(parts), refused(parts), parts.join(' '));
  for (const parts of [...REFUSED, ...ONLY_SHARED]) {
    await assert.rejects(redis.command(parts), refused(parts), parts.join(' '));
    await assert.rejects(redis.transaction([['GET', 'a'], parts]), refused(parts), parts.join(' '));
  }
  const isLoginEnd = ([name, second]: readonly string[]): boolean =>
    name === 'CLIENT' && second === 'SETINFO';
  assert.deepEqual(
    fake.commands.filter((command) => !isLoginEnd(command)),
    [],
  );
  for (const parts of ONLY_SHARED) await dedicated.command(parts);
  await redis.command(['XREAD', 'STREAMS', 'block', '0']);
  await redis.command(['CLIENT', 'ID']);
});

for (const [reason, errors, options, cause] of [
  ['its time limit', QueryTimeout, { timeoutMs: 50 }, undefined],
  ['an abort', QueryCanceled, {}, 'enough'],
] as const)
  test(`a dedicated connection ends with ${reason} of a command, and the shared one stays open`, async (t) => {
    const clock = new ManualClock();
    const { redis, fake } = await openedFake(t, echo, { clock });
    const dedicated = await redis.dedicated();
    assert.equal(fake.sockets.size, 2);
    const abort = new AbortController();
    const running = dedicated.command(['BLPOP', 'a', 0], { ...options, signal: abort.signal });
    await until(() => fake.commands.some(([name]) => name === 'BLPOP'));
    if (cause === undefined) clock.advance(50);
    else abort.abort(new Error(cause));
    await assert.rejects(running, errors);
    await assert.rejects(dedicated.command(['ECHO', 'a']), ConnectionLost);
    await until(() => fake.sockets.size === 1);
    assert.equal(await redis.command(['ECHO', 'b']), 'b');
  });

test('a dedicated connection stays open after an error reply, and returns bytes on request', async (t) => {
  const { redis } = await openedFake(t, echo);
  await using dedicated = await redis.dedicated();
  await assert.rejects(
    dedicated.command(['FAIL']),
    (error) =>
      error instanceof RedisError &&
      error.reply === 'WRONGTYPE' &&
      error.message === 'FAIL: WRONGTYPE no list',
  );
  assert.equal(await dedicated.command(['ECHO', 'a']), 'a');
  assert.deepEqual(await dedicated.command(['ECHO', 'a'], { asBytes: true }), new Uint8Array([97]));
  await assert.rejects(dedicated.command([1 as never]), fault('E_REDIS_ARGUMENT'));
});

for (const [end, message] of [
  ['destroy', /before a reply to the command arrived/],
  ['server', /.*/],
] as const)
  test(`a pending command of a dedicated connection rejects when the ${end === 'server' ? 'server ends it' : 'caller destroys it'}`, async (t) => {
    const { redis, fake } = await openedFake(t, echo);
    const shared = [...fake.sockets][0]!;
    const dedicated = await redis.dedicated();
    const running = dedicated.command(['BLPOP', 'a', 0]);
    await until(() => fake.commands.some(([name]) => name === 'BLPOP'));
    if (end === 'destroy') dedicated.destroy();
    else for (const socket of fake.sockets) if (socket !== shared) socket.destroy();
    await assert.rejects(running, (error) => {
      assert.ok(error instanceof ConnectionLost);
      assert.match(error.message, message);
      return true;
    });
    assert.equal(await redis.command(['ECHO', 'b']), 'b');
  });

test('close() of a dedicated connection waits for the reply, and close() of the client closes it, too', async (t) => {
  const held = Promise.withResolvers<() => void>();
  const { redis, fake } = await openedFake(t, (command, socket) => {
    if (command[0] !== 'BLPOP') return echo(command, socket);
    held.resolve(() => socket.write('+late\r\n'));
    return undefined;
  });
  const first = await redis.dedicated();
  const running = first.command(['BLPOP', 'a', 0]);
  const closing = first.close();
  (await held.promise)();
  assert.equal(await running, 'late');
  await closing;
  await assert.rejects(first.command(['ECHO', 'a']), ConnectionLost);
  await until(() => fake.sockets.size === 1);
  const second = await redis.dedicated();
  await redis.close();
  await assert.rejects(second.command(['ECHO', 'a']), ConnectionLost);
  await until(() => fake.sockets.size === 0);
});

test('dedicated() requires an open client: before open(), after close(), and when close() runs meanwhile', async (t) => {
  await assert.rejects(new Redis('redis://127.0.0.1:1').dedicated(), fault('E_REDIS_CLOSED'));
  const { redis, fake } = await openedFake(t, echo);
  const opening = redis.dedicated();
  await redis.close();
  await assert.rejects(opening, fault('E_REDIS_CLOSED'));
  await until(() => fake.sockets.size === 0);
  await assert.rejects(redis.dedicated(), fault('E_REDIS_CLOSED'));
  await assert.rejects(redis.command(['PING']), fault('E_REDIS_CLOSED'));
});

test('dedicated() rejects when its signal has aborted', async (t) => {
  const { redis } = await openedFake(t, echo);
  await assert.rejects(redis.dedicated({ signal: AbortSignal.abort() }), QueryCanceled);
});

test('commands of both kinds of connection make spans with the database and the error reply', async (t) => {
  const tracer = new FakeTracer();
  const { redis } = await openedFake(t, echo, { tracer });
  await using dedicated = await redis.dedicated();
  for (const client of [redis, dedicated]) {
    tracer.spans.length = 0;
    await client.command(['echo', 'secret']);
    await assert.rejects(client.command(['FAIL', 'secret']), RedisError);
    assert.deepEqual(
      tracer.spans.map(({ name, isEnded, attributes }) => [
        name,
        isEnded,
        attributes['db.system.name'],
        attributes['db.namespace'],
        attributes['db.operation.name'],
        attributes['db.response.status_code'],
      ]),
      [
        ['ECHO 0', true, 'redis', '0', 'ECHO', undefined],
        ['FAIL 0', true, 'redis', '0', 'FAIL', 'WRONGTYPE'],
      ],
    );
    assert.ok(!JSON.stringify(tracer.spans.map(({ attributes }) => attributes)).includes('secret'));
  }
});
