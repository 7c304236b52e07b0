import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DelimiterSearch } from '../../../src/http/request/multipart.ts';
import { seeded } from '../../support/random.ts';

const DELIMITERS = [
  '\r\n--x',
  '\r\n------WebKitFormBoundary7MA4YWxkTrZu0gW',
  `\r\n--${'a'.repeat(70)}`,
  '\r\n--abababab',
  '\r\n-----------------------------9051914041544843365972754266',
].map((text) => Buffer.from(text, 'latin1'));

test('DelimiterSearch finds what Buffer.indexOf() finds, in bytes of every kind and length, from every place', () => {
  const random = seeded(41);
  let found = 0;
  for (let round = 0; round < 6_000; round++) {
    const delimiter = DELIMITERS[random(DELIMITERS.length)]!;
    const search = new DelimiterSearch(delimiter);
    const bytes = Buffer.alloc(random(5_000));
    const kind = random(4);
    for (let index = 0; index < bytes.length; index++)
      bytes[index] =
        kind === 0
          ? random(256)
          : kind === 1
            ? delimiter[random(delimiter.length)]!
            : kind === 2
              ? delimiter[index % (delimiter.length - 1)]!
              : 255;
    for (let count = random(3); count > 0; count--)
      delimiter.copy(
        bytes,
        random(bytes.length + 1),
        0,
        random(2) === 0 ? delimiter.length : random(delimiter.length + 1),
      );
    for (let from = random(50); from <= bytes.length; from += 1 + random(700)) {
      const expected = bytes.indexOf(delimiter, from);
      assert.equal(search.indexIn(bytes, from), expected, `${round} from ${from}`);
      if (expected !== -1) found++;
    }
  }
  assert.ok(found > 2_000, `${found}`);
});

test('DelimiterSearch finds a delimiter at each place of a chunk, the first and the last too', () => {
  for (const delimiter of DELIMITERS) {
    const search = new DelimiterSearch(delimiter);
    for (let at = 0; at <= 2_000 - delimiter.length; at++) {
      const bytes = Buffer.alloc(2_000, 0xfe);
      delimiter.copy(bytes, at);
      assert.equal(search.indexIn(bytes, 0), at);
      assert.equal(search.indexIn(bytes, at), at);
      assert.equal(search.indexIn(bytes, at + 1), -1);
    }
  }
});
