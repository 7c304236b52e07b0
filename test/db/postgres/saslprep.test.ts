import assert from 'node:assert/strict';
import { test } from 'node:test';
import { preparedPassword, saslPrep } from '../../../src/db/postgres/saslprep.ts';

for (const [what, text, expected] of [
  ['maps SOFT HYPHEN to nothing (RFC 4013 §3, 1)', 'I\u00adX', 'IX'],
  ['does not change what needs no change (2)', 'user', 'user'],
  ['preserves case, so that 2 and 3 differ (3)', 'USER', 'USER'],
  ['normalizes to NFKC (4)', '\u00aa', 'a'],
  ['normalizes to NFKC, and equals 1 (5)', '\u2168', 'IX'],
  ['refuses a prohibited character (6)', '\u0007', undefined],
  ['refuses a bidirectional string that ends otherwise (7)', '\u0627\u0031', undefined],
  ['maps a space that is not ASCII to one that is', 'a\u00a0b\u3000c\u200bd', 'a b c d'],
  ['takes letters from the right alone, with digits between', '\u0627\u0031\u0628', '\u06271\u0628'],
  ['refuses letters of both directions', '\u0627a\u0628', undefined],
  ['refuses what Unicode 3.2 did not have', 'e\u0301\u{1f600}', undefined],
  ['refuses private use, what is no character, and tags', '\ue000', undefined],
  ['refuses a plane of private use', '\u{10fffd}', undefined],
  ['refuses U+0340 before it is normalized, as PostgreSQL does', 'a\u0340', undefined],
  ['refuses half a surrogate pair', 'a\ud800', undefined],
  ['refuses what nothing is left of', '\u00ad', undefined],
  ['composes', 'e\u0301\u00e9', '\u00e9\u00e9'],
  ['refuses nothing at all', '', undefined],
] as const) {
  test(`saslPrep() ${what}`, () => assert.equal(saslPrep(text), expected));
}

test('preparedPassword() applies SASLprep, and returns a password unchanged if SASLprep does not allow it', () => {
  assert.equal(preparedPassword('e\u0301\u{1f600}'), 'e\u0301\u{1f600}');
  assert.equal(preparedPassword('I\u00adX\u00a0\u2168'), 'IX IX');
});
