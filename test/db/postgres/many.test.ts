/** Rows of executeMany() that can be read again after a statement was outdated. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RepeatableRows } from '../../../src/db/postgres/many.ts';

function* rowsFrom(ended: string[]): Generator<readonly number[], void, undefined> {
  try {
    for (let row = 0; row < 6; row++) yield [row];
  } finally {
    ended.push('ended');
  }
}

const read = (rows: RepeatableRows, count: number): unknown[] =>
  Array.from({ length: count }, () => {
    const { done, value } = rows.next();
    return done === true ? 'end' : (value as readonly number[])[0];
  });

test('RepeatableRows begins again at the first row until rows are dropped', () => {
  const ended: string[] = [];
  const rows = new RepeatableRows(rowsFrom(ended));
  assert.deepEqual(read(rows, 3), [0, 1, 2]);
  assert.equal(rows.rewind(), true);
  assert.deepEqual(read(rows, 1), [0]);
  assert.equal(rows.rewind(), true);
  assert.deepEqual(read(rows, 4), [0, 1, 2, 3]);
  assert.equal(rows.rewind(), true);
  assert.deepEqual(read(rows, 2), [0, 1]);
  rows.drop();
  assert.equal(rows.rewind(), false);
  assert.deepEqual(read(rows, 1), [2]);
  rows.drop();
  assert.deepEqual(read(rows, 5), [3, 4, 5, 'end', 'end']);
  assert.equal(rows.rewind(), false);
  rows.end();
  assert.deepEqual(ended, ['ended']);
});

test('RepeatableRows ends its source if not all rows were read', () => {
  const ended: string[] = [];
  const rows = new RepeatableRows(rowsFrom(ended));
  assert.deepEqual(read(rows, 1), [0]);
  rows.end();
  assert.deepEqual(ended, ['ended']);
});
