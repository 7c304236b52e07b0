import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteQueue } from '../../src/base/bytes.ts';
import { seeded } from '../support/random.ts';

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

test('ByteQueue.take(), peek() and skip() change nothing if the queue has fewer bytes than requested', () => {
  const queue = new ByteQueue();
  assert.equal(queue.take(1), undefined);
  assert.equal(queue.peek(1), undefined);
  assert.equal(queue.skip(1), false);
  queue.push(bytes(1, 2));
  assert.equal(queue.take(3), undefined);
  assert.equal(queue.peek(3), undefined);
  assert.equal(queue.skip(3), false);
  assert.equal(queue.length, 2);
  assert.deepEqual([...queue.take(2)!], [1, 2]);
  assert.equal(queue.length, 0);
});

test('ByteQueue.take(0) and peek(0) return an empty array, even if the queue is empty', () => {
  const queue = new ByteQueue();
  assert.equal(queue.take(0)!.length, 0);
  assert.equal(queue.peek(0)!.length, 0);
  assert.equal(queue.skip(0), true);
  queue.push(new Uint8Array(0));
  assert.equal(queue.length, 0);
});

test('ByteQueue.take() returns bytes from a single chunk without a copy', () => {
  const queue = new ByteQueue();
  const chunk = bytes(1, 2, 3, 4);
  queue.push(chunk);
  const part = queue.take(2)!;
  assert.equal(part.buffer, chunk.buffer);
  assert.deepEqual([...part], [1, 2]);
  assert.equal(queue.peek(2)!.buffer, chunk.buffer);
  assert.deepEqual([...queue.take(2)!], [3, 4]);
  queue.push(chunk);
  assert.equal(queue.take(4), chunk);
});

test('ByteQueue.take() joins bytes from several chunks, large or small', () => {
  const queue = new ByteQueue();
  const large = new Uint8Array(1_000).fill(7);
  for (const chunk of [bytes(1), bytes(2, 3), large, bytes(4), bytes(5)]) queue.push(chunk);
  assert.deepEqual([...queue.take(4)!], [1, 2, 3, 7]);
  assert.deepEqual([...queue.take(1_001)!], [...new Uint8Array(999).fill(7), 4, 5]);
});

test('ByteQueue.takeChunk() returns the rest of the first chunk without a copy', () => {
  const queue = new ByteQueue();
  const chunks = [Buffer.alloc(600, 'a'), Buffer.alloc(700, 'b')];
  for (const chunk of chunks) queue.push(chunk);
  queue.take(100);
  const first = queue.takeChunk()!;
  assert.deepEqual([first.length, first.buffer === chunks[0]!.buffer, queue.length], [500, true, 700]);
  assert.equal(queue.takeChunk(), chunks[1]);
  assert.deepEqual([queue.takeChunk(), queue.length], [undefined, 0]);
});

test('bytes that a ByteQueue has returned do not change when more bytes arrive', () => {
  const queue = new ByteQueue();
  queue.push(bytes(0));
  queue.push(bytes(1, 2));
  queue.skip(1);
  const taken = queue.take(1)!;
  queue.push(bytes(3));
  const seen = queue.peek(2)!;
  queue.push(bytes(4));
  assert.deepEqual([[...taken], [...seen], [...queue.take(3)!]], [[1], [2, 3], [2, 3, 4]]);
});

test("ByteQueue.push() never changes the bytes in the caller's chunks", () => {
  const queue = new ByteQueue();
  const chunks = Array.from({ length: 50 }, (_, index) => new Uint8Array(20).fill(index));
  for (const chunk of chunks) {
    queue.push(chunk);
    queue.peek(queue.length);
  }
  assert.ok(chunks.every((chunk, index) => chunk.every((byte) => byte === index)));
});

test('ByteQueue.pushCopy() copies a chunk, so that later changes to the chunk have no effect', () => {
  for (const size of [1, 300, 600, 5_000]) {
    const queue = new ByteQueue();
    const expected: number[] = [];
    const lent = new Uint8Array(size);
    for (let value = 1; value <= 3; value++) {
      lent.fill(value);
      queue.pushCopy(lent);
      expected.push(...lent);
    }
    lent.fill(0);
    assert.deepEqual([...queue.take(3 * size)!], expected);
  }
});

test('ByteQueue.indexOf() searches the unread bytes between its arguments "from" and "max"', () => {
  const queue = new ByteQueue();
  queue.push(bytes(9, 1, 2));
  queue.push(new Uint8Array(600).fill(3));
  queue.push(bytes(10, 1));
  queue.skip(1);
  assert.equal(queue.indexOf(1), 0);
  assert.equal(queue.indexOf(1, 1), 603);
  assert.equal(queue.indexOf(10), 602);
  assert.equal(queue.indexOf(10, 602), 602);
  assert.equal(queue.indexOf(10, 603), -1);
  assert.equal(queue.indexOf(10, 0, 602), -1);
  assert.equal(queue.indexOf(10, 0, 603), 602);
  assert.equal(queue.indexOf(10, 600, 2), -1);
  assert.equal(queue.indexOf(9), -1);
  assert.equal(queue.indexOf(1, 5_000), -1);
  assert.equal(new ByteQueue().indexOf(1), -1);
});

test('ByteQueue.clear() removes all bytes from the queue', () => {
  const queue = new ByteQueue();
  queue.push(bytes(1));
  queue.push(bytes(2));
  queue.clear();
  assert.equal(queue.length, 0);
  queue.push(bytes(3));
  assert.deepEqual([...queue.take(1)!], [3]);
});

test('ByteQueue returns the same bytes as a plain Buffer for random sequences of operations', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = seeded(seed);
    const queue = new ByteQueue();
    let reference = Buffer.alloc(0);
    let next = 0;
    const largest = [3, 40, 700, 6_000][seed % 4]!;
    const handedOut: [Uint8Array, Buffer][] = [];
    for (let step = 0; step < 500; step++) {
      const count = random(2) === 0 ? random(8) : random(reference.length + 4);
      const has = count <= reference.length;
      const operation = random(8);
      if (operation < 3) {
        const chunk = Uint8Array.from({ length: random(largest + 1) }, () => next++ % 251);
        queue.push(chunk);
        reference = Buffer.concat([reference, chunk]);
      } else if (operation === 3) {
        const taken = queue.take(count);
        assert.equal(taken === undefined, !has);
        if (taken !== undefined) handedOut.push([taken, reference.subarray(0, count)]);
        if (has) reference = reference.subarray(count);
      } else if (operation === 4) {
        assert.equal(queue.skip(count), has);
        if (has) reference = reference.subarray(count);
      } else if (operation === 5) {
        const [byte, from, max] = [
          random(251),
          random(reference.length + 2),
          random(2) === 0 ? Infinity : random(500),
        ];
        const found = reference.subarray(from, Math.min(reference.length, from + max)).indexOf(byte);
        assert.equal(
          queue.indexOf(byte, from, max),
          found < 0 ? -1 : from + found,
          `seed ${seed}, step ${step}`,
        );
      } else if (operation === 6) {
        const seen = queue.peek(count);
        assert.equal(seen === undefined, !has);
        if (seen !== undefined) handedOut.push([seen, reference.subarray(0, count)]);
      } else if (random(40) === 0) {
        queue.clear();
        reference = Buffer.alloc(0);
      }
      assert.equal(queue.length, reference.length);
    }
    for (const [actual, expected] of handedOut) assert.ok(expected.equals(actual), `seed ${seed}`);
    assert.ok(reference.equals(queue.take(reference.length)!));
  }
});
