import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { MemoryRoomBus } from '../../../src/cache/stores.ts';
import { Rooms } from '../../../src/http/websocket/rooms.ts';
import { collectedLog } from '../../support/collected-log.ts';
import type { RoomMember } from '../../../src/http/websocket/rooms.ts';
import type { RoomBus } from '../../../src/cache/stores.ts';

function member(): RoomMember & { readonly got: string[] } {
  const got: string[] = [];
  return {
    got,
    deliver: (message) => void got.push(`${message.isText ? 'text' : 'bytes'} ${message.payload.toString()}`),
  };
}

test('Rooms.send() sends a message once to each member in every process on the message bus, except to excluded members', () => {
  const bus = new MemoryRoomBus();
  const { logger } = collectedLog();
  const [here, there] = [new Rooms(logger), new Rooms(logger)];
  here.connect(bus);
  there.connect(bus);
  const [one, two, other, far] = [member(), member(), member(), member()];
  here.join('a', one);
  here.join('a', one);
  here.join('a', two);
  here.join('b', other);
  there.join('a', far);
  here.broadcast('a', 'hello', { except: one });
  here.broadcastJson('a', { n: 1 });
  there.broadcast('a', Buffer.from('raw'));
  here.broadcast('nobody', 'x');
  assert.deepEqual(one.got, ['text {"n":1}', 'bytes raw']);
  assert.deepEqual(two.got, ['text hello', 'text {"n":1}', 'bytes raw']);
  assert.deepEqual(far.got, ['text hello', 'text {"n":1}', 'bytes raw']);
  assert.deepEqual(other.got, []);
  assert.deepEqual([here.count('a'), there.count('a'), here.count('nobody')], [2, 1, 0]);
});

test('Rooms.leave() removes an empty room, and Rooms.disconnect() stops messages from the message bus', () => {
  const bus = new MemoryRoomBus();
  const { logger } = collectedLog();
  const [here, there] = [new Rooms(logger), new Rooms(logger)];
  here.connect(bus);
  there.connect(bus);
  const far = member();
  there.join('a', far);
  there.disconnect();
  here.broadcast('a', 'x');
  there.leave('a', far);
  there.leave('a', far);
  there.leave('never', far);
  assert.deepEqual([there.size, far.got, there.isConnected, here.isConnected], [0, [], false, true]);
});

test('if the message bus fails, Rooms.broadcast() still sends to the members of its own process, and logs the failure', () => {
  const { logger, events } = collectedLog();
  const rooms = new Rooms(logger);
  rooms.connect({
    publish: () => {
      throw new Error('away');
    },
    subscribe: () => ({ [Symbol.dispose]: () => undefined }),
  });
  const one = member();
  rooms.join('a', one);
  rooms.broadcast('a', 'x');
  assert.deepEqual(one.got, ['text x']);
  assert.deepEqual(
    events.map(({ event }) => event),
    ['room_bus_failed'],
  );
  assert.throws(() => rooms.broadcast('', 'x'), { code: 'E_ROOM' });
});

test('the class Rooms ignores frames from the message bus that do not contain a valid message', () => {
  const bus = new MemoryRoomBus();
  const { logger } = collectedLog();
  const rooms = new Rooms(logger);
  rooms.connect(bus);
  const one = member();
  rooms.join('a', one);
  const frame = (payload: readonly number[]): Uint8Array => Uint8Array.of(...new Uint8Array(12), ...payload);
  bus.publish('a', Uint8Array.of(1, 2, 3), true);
  bus.publish('a', frame([0xff, 0xfe]), true); // a text that is not UTF-8 would end every socket with 1007
  bus.publish('a', frame([0xe2, 0x82]), true);
  bus.publish('a', frame([0xff]), false);
  bus.publish('a', frame([0x6f, 0x6b]), true);
  assert.deepEqual(one.got, [`bytes ${Buffer.of(0xff).toString()}`, 'text ok']);
});

test('an application awaits settled() of the option "roomBus" before it calls startup hooks', async () => {
  const settled = Promise.withResolvers<void>();
  const steps: string[] = [];
  const bus: RoomBus = {
    publish: () => undefined,
    subscribe: () => (steps.push('subscribed'), { [Symbol.dispose]: () => undefined }),
    settled: () => (steps.push('asked'), settled.promise.then(() => void steps.push('settled'))),
  };
  const app = new Svc({ logger: collectedLog().logger, env: 'test', roomBus: bus });
  app.onStartup(() => void steps.push('hook'));
  const starting = app.startup().then(() => steps.push('started'));
  while (!steps.includes('asked')) await new Promise((resolve) => setImmediate(resolve));
  settled.resolve();
  await starting;
  await app.shutdown();
  assert.deepEqual(steps, ['subscribed', 'asked', 'settled', 'hook', 'started']);
});

test('if an application fails to start, it unsubscribes from the message bus of its rooms', async () => {
  const steps: string[] = [];
  const bus: RoomBus = {
    publish: () => undefined,
    subscribe: () => (steps.push('subscribed'), { [Symbol.dispose]: () => void steps.push('left') }),
  };
  const app = new Svc({ logger: collectedLog().logger, env: 'test', roomBus: bus });
  app.register({
    name: 'away',
    register: () => undefined,
    startup: () => {
      throw new Error('no database');
    },
  });
  await assert.rejects(app.startup(), /no database/);
  await app.shutdown();
  assert.deepEqual([steps, app.rooms.isConnected], [['subscribed', 'left'], false]);
});
