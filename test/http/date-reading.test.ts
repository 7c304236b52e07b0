import assert from 'node:assert/strict';
import test from 'node:test';
import { httpDate, parseHttpDate } from '../../src/http/headers.ts';
import { seeded } from '../support/random.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const read = (text: string): number | undefined => parseHttpDate(text, NOW_MS);

test('parseHttpDate() reads the three date formats of RFC 9110 §5.6.7', () => {
  for (const text of [
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
  ])
    assert.equal(read(text), 784_111_777, text);
  assert.equal(read('Thu, 01 Jan 1970 00:00:00 GMT'), 0);
  assert.equal(read('Sat, 31 Dec 2016 23:59:60 GMT'), Date.UTC(2017, 0, 1) / 1_000); // a leap second
});

test('parseHttpDate() reads a two-digit year as the latest matching year that is at most 50 years in the future (RFC 9110 §5.6.7)', () => {
  const yearOf = (digits: string): number =>
    new Date(read(`Sunday, 06-Nov-${digits} 08:49:37 GMT`)! * 1_000).getUTCFullYear();
  assert.deepEqual(['26', '76', '77', '99', '00'].map(yearOf), [2026, 2076, 1977, 1999, 2000]);
});

for (const text of [
  '',
  'now',
  '784111777',
  '1994-11-06T08:49:37Z',
  'Sun, 6 Nov 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 08:49:37',
  'Sun, 06 Nov 1994 08:49:37 UTC',
  'Sun, 06 nov 1994 08:49:37 GMT',
  'Sun, 31 Feb 1994 08:49:37 GMT',
  'Sun, 00 Nov 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 24:00:00 GMT',
  'Sun, 06 Nov 1994 08:60:00 GMT',
  'Sun, 06 Nov 1994 08:49:61 GMT',
  'Sun, 06 Nov 94 08:49:37 GMT',
  'Xxx, 06 Nov 1994 08:49:37 GMT',
  ' Sun, 06 Nov 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
]) {
  test(`parseHttpDate() returns undefined for text that is not an HTTP date: ${JSON.stringify(text)}`, () =>
    assert.equal(read(text), undefined));
}

test('parseHttpDate() reads the dates that httpDate() has written, to the second', () => {
  const random = seeded(5);
  assert.equal(httpDate(784_111_777_999), 'Sun, 06 Nov 1994 08:49:37 GMT');
  for (let round = 0; round < 2_000; round++) {
    const seconds = random(4_294_967_296) * 50;
    assert.equal(read(httpDate(seconds * 1_000)), seconds);
  }
});
