/**
 * Contract of every RoomBus, in one process and in several.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Awaitable, RoomBus } from '../../src/cache/stores.ts';

/** Two ends of one bus, the same object or one each for two processes, and how to wait until frames have arrived. */
export interface RoomBusUnderTest {
  readonly here: RoomBus;
  readonly there: RoomBus;
  settle(): Awaitable<void>;
  close?(): Awaitable<void>;
}

/** Registers the contract's tests for one implementation. */
export function roomBusContract(name: string, make: () => Awaitable<RoomBusUnderTest>): void {
  function contract(does: string, run: (under: RoomBusUnderTest) => Promise<void>): void {
    test(`${name}: ${does}`, async () => {
      const under = await make();
      try {
        await run(under);
      } finally {
        await under.close?.();
      }
    });
  }
  const frame = (text: string): Uint8Array => new TextEncoder().encode(text);

  contract('RoomBus delivers frames for a room whose name is empty', async ({ here, there, settle }) => {
    const got: string[] = [];
    using _ = there.subscribe((room, bytes) => got.push(room + new TextDecoder().decode(bytes)));
    await settle();
    here.publish('', frame('news'), true);
    await settle();
    assert.deepEqual(got, ['news']);
  });

  contract(
    'RoomBus delivers each frame exactly once to every subscriber in two processes',
    async ({ here, there, settle }) => {
      const got: string[] = [];
      using _a = here.subscribe((room, bytes, isText) =>
        got.push(`here ${room} ${new TextDecoder().decode(bytes)} ${isText}`),
      );
      using _b = there.subscribe((room, bytes, isText) =>
        got.push(`there ${room} ${new TextDecoder().decode(bytes)} ${isText}`),
      );
      await settle();
      here.publish('lobby', frame('hello'), true);
      there.publish('hall', frame('bytes'), false);
      await settle();
      assert.deepEqual(got.sort(), [
        'here hall bytes false',
        'here lobby hello true',
        'there hall bytes false',
        'there lobby hello true',
      ]);
    },
  );

  contract(
    'RoomBus delivers the frames of a publisher in order, with their bytes unchanged',
    async ({ here, there, settle }) => {
      const got: Uint8Array[] = [];
      using _ = there.subscribe((_room, bytes) => got.push(bytes));
      await settle();
      const sent = Array.from({ length: 50 }, (_unused, index) => Uint8Array.of(index, 0, 13, 10, 255));
      for (const bytes of sent) here.publish('r', bytes, false);
      here.publish('r', new Uint8Array(0), false);
      await settle();
      assert.deepEqual(
        got.map((bytes) => [...bytes]),
        [...sent.map((bytes) => [...bytes]), []],
      );
    },
  );

  contract(
    'after a subscription is disposed, RoomBus no longer calls its subscriber',
    async ({ here, settle }) => {
      let count = 0;
      const subscription = here.subscribe(() => count++);
      await settle();
      here.publish('r', frame('1'), true);
      await settle();
      subscription[Symbol.dispose]();
      subscription[Symbol.dispose]();
      here.publish('r', frame('2'), true);
      await settle();
      assert.equal(count, 1);
    },
  );

  contract(
    'when a function was subscribed twice and one of the subscriptions is disposed, RoomBus calls the function once for each frame',
    async ({ here, settle }) => {
      let count = 0;
      const fn = (): void => {
        count++;
      };
      const first = here.subscribe(fn);
      using _second = here.subscribe(fn);
      await settle();
      first[Symbol.dispose]();
      here.publish('r', frame('1'), true);
      await settle();
      assert.equal(count, 1);
    },
  );
}
