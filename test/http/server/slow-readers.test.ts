import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import test from 'node:test';
import { SlowReaders } from '../../../src/http/server/slow-readers.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import type { ServerResponse } from 'node:http';
import type { heldBytes } from '../../../src/http/server/slow-readers.ts';

/** An answer of which nothing more is taken, watched by a limit of 8 s; how much the kernel holds of it is what `held` says. */
function stuck(clock: ManualClock, held: () => number | undefined): { readonly cuts: readonly string[] } {
  const cuts: string[] = [];
  const outgoing = Object.assign(new EventEmitter(), {
    closed: false,
    socket: { bytesWritten: 5_000_000, writableLength: 1_000_000 },
    destroy: () => outgoing.emit('close'),
  });
  const reported = ((sockets: readonly unknown[]) =>
    new Map(
      sockets.flatMap((socket) => (held() === undefined ? [] : [[socket, held()]])),
    )) as unknown as typeof heldBytes;
  new SlowReaders({ clock, limitMs: 8_000, onCut: (_outgoing, id) => cuts.push(id), held: reported }).watch(
    outgoing as unknown as ServerResponse,
    'its id',
  );
  return { cuts };
}

test('SlowReaders spares a client to whom the kernel gives what it took before, and cuts it once it takes nothing of that either', async () => {
  const clock = new ManualClock();
  let held = 4_000_000;
  const { cuts } = stuck(clock, () => held);
  for (let seconds = 0; seconds < 60; seconds++) {
    held -= 8_192;
    await clock.advance(1_000);
  }
  assert.deepEqual(cuts, []);
  await clock.advance(7_000);
  assert.deepEqual(cuts, []);
  await clock.advance(5_000);
  assert.deepEqual(cuts, ['its id']);
  assert.equal(clock.pending, 0);
});

test('SlowReaders cuts a client that takes a byte now and then of what the kernel holds', async () => {
  const clock = new ManualClock();
  let held = 4_000_000;
  const { cuts } = stuck(clock, () => held--);
  await clock.advance(7_000);
  assert.deepEqual(cuts, []);
  await clock.advance(5_000);
  assert.deepEqual(cuts, ['its id']);
});

test('SlowReaders goes by what was taken where the kernel does not say what it holds', async () => {
  const clock = new ManualClock();
  const { cuts } = stuck(clock, () => undefined);
  await clock.advance(7_000);
  assert.deepEqual(cuts, []);
  await clock.advance(5_000);
  assert.deepEqual(cuts, ['its id']);
});
