import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExpiryHeap } from '../../src/cache/stores.ts';
import { seeded } from '../support/random.ts';

test('ExpiryHeap has the earliest time at hand, as a plain list has, on generated steps', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed);
    const capacity = 1 + random(200);
    const index = new ExpiryHeap(capacity);
    const plain = new Map<string, number>();
    for (let step = 0; step < 2_000; step++) {
      const key = `k${random(400)}`;
      const slot = index.find(key);
      assert.equal(slot !== 0, plain.has(key), `seed ${seed}, step ${step}`);
      if (slot !== 0) {
        assert.equal(index.timeOf(slot), plain.get(key));
        const timeMs = plain.get(key)! + step + random(1_000) / 1_000;
        index.postpone(slot, timeMs);
        plain.set(key, timeMs);
      } else {
        const timeMs = step + random(1_000_000) / 1_000_000; // almost surely no two alike
        if (index.isFull) {
          const [earliest] = [...plain].reduce((first, other) => (other[1] < first[1] ? other : first));
          plain.delete(earliest);
          index.replaceEarliest(key, timeMs);
        } else index.add(key, timeMs);
        plain.set(key, timeMs);
      }
      assert.equal(index.size, plain.size);
      assert.equal(index.earliestMs, Math.min(...plain.values()));
    }
    assert.equal(index.isFull, plain.size === capacity);
  }
});
