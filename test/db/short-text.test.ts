/**
 * Compares shortAscii() with the text that Buffer decodes from the same bytes.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortAscii } from '../../src/db/wire/bytes.ts';

test('shortAscii() decodes up to eight ASCII characters at any offset to the same text as Buffer.toString()', () => {
  const bytes = Buffer.from(Array.from({ length: 128 }, (_, code) => code));
  for (let length = 0; length <= 8; length++) {
    for (let at = 0; at + length <= bytes.length; at++)
      assert.equal(shortAscii(bytes, at, at + length), bytes.toString('utf8', at, at + length));
  }
});

test('shortAscii() returns undefined for a text of nine characters, and for a text with a non-ASCII byte at any position', () => {
  assert.equal(shortAscii(Buffer.from('123456789'), 0, 9), undefined);
  for (let length = 1; length <= 8; length++) {
    for (let place = 0; place < length; place++) {
      for (const byte of [0x80, 0xc3, 0xff]) {
        const bytes = Buffer.alloc(length, 'a');
        bytes[place] = byte;
        assert.equal(shortAscii(bytes, 0, length), undefined);
      }
    }
  }
});
