/** RedisRoomBus with a fake client: the contract of every RoomBus, subscriptions, and messages that are not its own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis, RedisRoomBus, type RedisSubscriberFunction } from '../../../src/db/index.ts';
import { roomBusContract } from '../../contract/room-bus.ts';

/** Subscribers of all clients, by channel. */
type Hub = Map<string, Set<RedisSubscriberFunction>>;

/** A client whose messages pass to all subscribers of a hub at once. */
class HubRedis extends Redis {
  readonly #hub: Hub;
  isAway = false;
  readonly reports: string[] = [];
  readonly messages: Uint8Array[] = [];

  constructor(hub: Hub) {
    super('redis://127.0.0.1:1/0');
    this.#hub = hub;
  }

  override async publish(channel: string, message: string | Uint8Array): Promise<number> {
    if (this.isAway) throw new Error('away');
    this.messages.push(Uint8Array.from(message as Uint8Array));
    const subscribers = this.#hub.get(channel) ?? new Set();
    for (const fn of subscribers) fn(message as Uint8Array, channel);
    return subscribers.size;
  }

  override async subscribeLater(channel: string, fn: RedisSubscriberFunction): Promise<AsyncDisposable> {
    const subscribers = this.#hub.get(channel) ?? new Set();
    this.#hub.set(channel, subscribers.add(fn));
    return { [Symbol.asyncDispose]: async () => void subscribers.delete(fn) };
  }

  override report(kind: string): void {
    this.reports.push(kind);
  }
}

roomBusContract('RedisRoomBus with a fake client', () => {
  const hub: Hub = new Map();
  const [here, there] = [new RedisRoomBus(new HubRedis(hub)), new RedisRoomBus(new HubRedis(hub))];
  return { here, there, settle: async () => void (await Promise.all([here.settled(), there.settled()])) };
});

test('RedisRoomBus has one subscription in Redis while it has subscribers, however often they are disposed of', async () => {
  const hub: Hub = new Map();
  const bus = new RedisRoomBus(new HubRedis(hub), { channel: 'c' });
  const size = async (): Promise<number> => {
    await bus.settled();
    return hub.get('c')?.size ?? 0;
  };
  for (let round = 0; round < 2; round++) {
    const [first, second] = [bus.subscribe(() => undefined), bus.subscribe(() => undefined)];
    assert.equal(await size(), 1);
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    assert.equal(await size(), 1);
    second[Symbol.dispose]();
    assert.equal(await size(), 0);
    second[Symbol.dispose]();
  }
});

test('RedisRoomBus ignores messages that are cut or in another format', async () => {
  const hub: Hub = new Map();
  const [here, there] = [new HubRedis(hub), new HubRedis(hub)];
  const bus = new RedisRoomBus(here);
  const got: unknown[] = [];
  using _ = bus.subscribe((room, bytes, isText) => got.push([room, Buffer.from(bytes).toString(), isText]));
  await bus.settled();
  new RedisRoomBus(there).publish('room', Buffer.from('news'), true);
  const expected = [['room', 'news', true]];
  assert.deepEqual(got, expected);
  const [message] = there.messages as [Uint8Array];
  const frameBytes = 4;
  for (let length = 0; length < message.length - frameBytes; length++)
    await there.publish('svc:rooms', message.subarray(0, length));
  await there.publish('svc:rooms', Uint8Array.from([message[0]! + 1, ...message.subarray(1)]));
  assert.deepEqual(got, expected);
  await there.publish('svc:rooms', message.subarray(0, message.length - frameBytes));
  assert.deepEqual(got, [...expected, ['room', '', true]]);
});

test('RedisRoomBus delivers frames in its own process and reports them as lost while Redis is away, and refuses long names', async () => {
  const redis = new HubRedis(new Map());
  redis.isAway = true;
  const bus = new RedisRoomBus(redis);
  const got: string[] = [];
  using _ = bus.subscribe((room) => got.push(room));
  const longest = 'x'.repeat(65_535);
  bus.publish(longest, Buffer.alloc(1), false);
  await Promise.resolve();
  await bus.settled();
  assert.deepEqual([got, redis.reports], [[longest], ['frames_lost']]);
  assert.throws(() => bus.publish(`${longest}y`, Buffer.alloc(1), false), RangeError);
});
