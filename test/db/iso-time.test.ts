/**
 * Compares isoText() with Date.prototype.toISOString.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isoText } from '../../src/db/values.ts';
import { seeded } from '../support/random.ts';

const DAY_MS = 86_400_000;
const LONGEST_MS = 8_640_000_000_000_000;

test('isoText() equals Date.prototype.toISOString() at the limits of days, of years and of the range of Date', () => {
  for (const edge of [
    0,
    DAY_MS,
    -DAY_MS,
    Date.UTC(2000, 1, 29),
    Date.UTC(10_000, 0),
    -62_198_755_200_000,
    -62_167_219_200_000,
    LONGEST_MS,
    -LONGEST_MS,
  ]) {
    for (const away of [0, 1, -1, 999, 1_000, 59_999, 60_000, 3_599_999, 3_600_000, DAY_MS - 1]) {
      const date = new Date(edge + away);
      if (!Number.isNaN(date.getTime())) assert.equal(isoText(date), date.toISOString());
    }
  }
});

test('isoText() equals Date.prototype.toISOString() for 20,000 random dates', () => {
  const random = seeded(1);
  for (let round = 0; round < 20_000; round++) {
    const date = new Date(
      round % 2 === 0 ? random(2 * DAY_MS) - DAY_MS : (random(2 ** 31) - 2 ** 30) * random(8_000_000),
    );
    assert.equal(isoText(date), date.toISOString());
  }
});
