import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExpiryHeap } from '../../src/cache/stores.ts';
import { seeded } from '../support/random.ts';

test('for generated operations, ExpiryHeap returns the same earliest time as a plain list', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed);
    const heap = new ExpiryHeap<{ readonly key: string; timeMs: number; place: number }>();
    const plain = new Map<string, number>();
    for (let step = 0; step < 2_000; step++) {
      const key = `k${random(300)}`;
      const known = heap.get(key);
      assert.equal(known?.timeMs, plain.get(key), `seed ${seed}, step ${step}`);
      const timeMs = random(1_000);
      if (known === undefined) heap.add({ key, timeMs, place: -1 });
      else if (random(3) === 0) heap.remove(known);
      else heap.move(known, timeMs);
      if (heap.get(key) === undefined) plain.delete(key);
      else plain.set(key, timeMs);
      assert.equal(heap.size, plain.size);
      assert.equal(heap.first?.timeMs ?? Infinity, Math.min(...plain.values()));
    }
  }
});
