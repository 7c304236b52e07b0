/** Subscriptions to Redis channels: messages, the last subscriber of a channel, and the check of the connection. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis } from '../../../src/db/index.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { fault } from '../../contract/database.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { until } from '../../support/endings.ts';
import { openedFake, type Answer, type FakeRedis } from '../../support/fake-redis.ts';

/** Confirms subscriptions by pushes of RESP3, and answers PING. */
const confirming: Answer = ([name, channel = '']) =>
  /SUBSCRIBE$/.test(name!)
    ? `>3\r\n+${name!.toLowerCase()}\r\n$${channel.length}\r\n${channel}\r\n:1\r\n`
    : name === 'PUBLISH'
      ? ':2\r\n'
      : '+PONG\r\n';

function publish(fake: FakeRedis, channel: string, message: string, sign: string = '>'): void {
  const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`;
  for (const socket of fake.sockets) socket.write(`${sign}3\r\n+message\r\n${bulk(channel)}${bulk(message)}`);
}

/** Commands of the subscribing connection. */
const changesOf = ({ commands }: FakeRedis): string[] =>
  commands.filter(([name]) => /SUBSCRIBE$/.test(name!)).map((command) => command.join(' '));

test('each subscriber of a channel gets a copy of each message, and an error of one does not stop the others', async (t) => {
  const { logger, events } = collectedLog();
  const { redis, fake } = await openedFake(t, confirming, { log: logger });
  const got: string[] = [];
  const keep =
    (who: string) =>
    (message: Uint8Array, channel: string): void => {
      assert.equal(Buffer.isBuffer(message), false);
      got.push(`${who} ${channel} ${Buffer.from(message).toString()}`);
      if (who === 'first') throw new Error('nope');
    };
  await redis.subscribe('a', keep('first'));
  const second = await redis.subscribe('a', keep('second'));
  const other = await redis.subscribe('b', keep('other'));
  assert.deepEqual(
    changesOf(fake).filter((text) => text !== 'SUBSCRIBE a'),
    ['SUBSCRIBE b'],
  );
  publish(fake, 'a', 'one');
  publish(fake, 'b', 'two');
  publish(fake, 'unknown', 'three');
  await until(() => got.length === 3);
  assert.deepEqual(got, ['first a one', 'second a one', 'other b two']);
  await until(() => events.length > 0);
  assert.deepEqual(
    events.map(({ event, channel }) => [event, channel]),
    [['subscriber_failed', 'a']],
  );
  await second[Symbol.asyncDispose]();
  await second[Symbol.asyncDispose]();
  assert.deepEqual(
    changesOf(fake).filter((text) => text.startsWith('UN')),
    [],
  );
  publish(fake, 'a', 'four');
  await until(() => got.length === 4);
  assert.equal(got[3], 'first a four');
  await other[Symbol.asyncDispose]();
  assert.deepEqual(
    changesOf(fake).filter((text) => text.startsWith('UN')),
    ['UNSUBSCRIBE b'],
  );
  assert.equal(fake.sockets.size, 2);
});

test('the connection of subscriptions closes with the last subscription, and the next one opens another without "onReconnect"', async (t) => {
  const { redis, fake } = await openedFake(t, confirming);
  let reconnected = 0;
  const options = { onReconnect: () => void reconnected++ };
  for (const count of [2, 3]) {
    const subscription = await redis.subscribe('a', () => undefined, options);
    assert.deepEqual([fake.connections, fake.sockets.size], [count, 2]);
    await subscription[Symbol.asyncDispose]();
    await until(() => fake.sockets.size === 1);
  }
  assert.equal(reconnected, 0);
});

test('after a lost connection, the next one subscribes to all channels and calls "onReconnect" of each subscription', async (t) => {
  const { logger, events } = collectedLog();
  const { redis, fake } = await openedFake(t, confirming, { log: logger });
  const [shared] = fake.sockets;
  const calls: string[] = [];
  await redis.subscribe('a', () => undefined, { onReconnect: () => calls.push('a') });
  await redis.subscribe('b', () => undefined, {
    onReconnect: () => {
      calls.push('b');
      throw new Error('nope');
    },
  });
  await redis.subscribe('b', () => undefined);
  fake.commands.length = 0;
  for (const socket of fake.sockets) if (socket !== shared) socket.destroy();
  await until(() => calls.length === 2);
  assert.deepEqual(calls, ['a', 'b']);
  assert.deepEqual(changesOf(fake), ['SUBSCRIBE a', 'SUBSCRIBE b']);
  await until(() => events.some(({ event }) => event === 'subscriber_failed'));
});

test('the connection of subscriptions gets a PING every 30 seconds, and is replaced when no reply comes within 10', async (t) => {
  const clock = new ManualClock();
  let isSilent = false;
  const { redis, fake } = await openedFake(
    t,
    (command, socket) => (isSilent && command[0] === 'PING' ? undefined : confirming(command, socket)),
    { clock },
  );
  await redis.subscribe('a', () => undefined);
  const pings = (): number => fake.commands.filter(([name]) => name === 'PING').length;
  const roundTrip = async (): Promise<void> => void (await redis.publish('x', 'y'));
  clock.advance(29_999);
  await roundTrip();
  assert.equal(pings(), 0);
  for (const count of [1, 2]) {
    clock.advance(count === 1 ? 1 : 30_000);
    await until(() => pings() === count);
    for (let each = 0; each < 5; each++) await roundTrip(); // the reply has arrived
  }
  isSilent = true;
  clock.advance(30_000);
  await until(() => pings() === 3);
  assert.equal(fake.connections, 2);
  clock.advance(10_000);
  await until(() => {
    clock.advance(1_000);
    return fake.connections === 3;
  });
});

test('publish() returns the number of subscribers, and arguments of subscribe() are checked', async (t) => {
  const { redis, fake } = await openedFake(t, confirming);
  assert.equal(await redis.publish('a', new Uint8Array([98])), 2);
  assert.deepEqual(fake.commands.at(-1), ['PUBLISH', 'a', 'b']);
  await redis.ping();
  assert.deepEqual(fake.commands.at(-1), ['PING']);
  await assert.rejects(
    redis.subscribe('a\ud800', () => undefined),
    fault('E_REDIS_ARGUMENT'),
  );
  await assert.rejects(
    redis.subscribe('a', () => undefined, { onReconnect: 1 } as never),
    fault('E_OPTION_RANGE'),
  );
  assert.equal(fake.connections, 1);
});

test('subscribe() rejects when the server refuses the channel, and subscribeLater() waits for a server', async (t) => {
  const { redis, fake } = await openedFake(t, (command, socket) =>
    command[1] === 'secret' ? '-NOPERM no channel\r\n' : confirming(command, socket),
  );
  await assert.rejects(
    redis.subscribe('secret', () => undefined),
    /NOPERM no channel/,
  );
  await redis.subscribe('a', () => undefined);
  assert.equal(changesOf(fake).at(-1), 'SUBSCRIBE a');

  const clock = new ManualClock();
  const away = new Redis('redis://127.0.0.1:1', { clock });
  let isSubscribed = false;
  const waiting = away.subscribeLater('a', () => undefined).finally(() => (isSubscribed = true));
  await until(() => {
    clock.advance(1_000);
    return isSubscribed;
  });
  await (await waiting)[Symbol.asyncDispose]();
  await away.close();
  await assert.rejects(away.command(['PING']), fault('E_REDIS_CLOSED'));
});

test('close() of a client ends its subscriptions', async (t) => {
  const { redis, fake } = await openedFake(t, confirming);
  await redis.subscribe('a', () => undefined);
  await redis.close();
  await until(() => fake.sockets.size === 0);
});
