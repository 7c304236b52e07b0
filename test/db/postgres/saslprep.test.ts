import assert from 'node:assert/strict';
import { test } from 'node:test';
import { preparedPassword, saslPrep } from '../../../src/db/postgres/saslprep.ts';

for (const [what, text, expected] of [
  ['removes a SOFT HYPHEN (RFC 4013 §3, example 1)', 'I\u00adX', 'IX'],
  ['returns ASCII letters unchanged (RFC 4013 §3, example 2)', 'user', 'user'],
  ['returns upper-case letters unchanged (RFC 4013 §3, example 3)', 'USER', 'USER'],
  ['replaces the ordinal indicator ª by "a" (RFC 4013 §3, example 4)', '\u00aa', 'a'],
  ['replaces the Roman numeral Ⅸ by "IX" (RFC 4013 §3, example 5)', '\u2168', 'IX'],
  ['refuses a control character (RFC 4013 §3, example 6)', '\u0007', undefined],
  ['refuses a right-to-left text that ends with a digit (RFC 4013 §3, example 7)', '\u0627\u0031', undefined],
  ['replaces other spaces by ASCII spaces', 'a\u00a0b\u3000c\u200bd', 'a b c d'],
  ['accepts a digit between right-to-left letters', '\u0627\u0031\u0628', '\u06271\u0628'],
  ['refuses letters of both directions in one text', '\u0627a\u0628', undefined],
  ['refuses a character that Unicode 3.2 does not contain', 'e\u0301\u{1f600}', undefined],
  ['refuses a character for private use', '\ue000', undefined],
  ['refuses a character of a plane for private use', '\u{10fffd}', undefined],
  ['refuses U+0340 before it is normalized, as PostgreSQL does', 'a\u0340', undefined],
  ['refuses half a surrogate pair', 'a\ud800', undefined],
  ['refuses a text of which no character remains', '\u00ad', undefined],
  ['composes a letter and a combining accent', 'e\u0301\u00e9', '\u00e9\u00e9'],
  ['refuses an empty text', '', undefined],
] as const) {
  test(`saslPrep() ${what}`, () => assert.equal(saslPrep(text), expected));
}

test('preparedPassword() applies SASLprep, and returns a password unchanged if SASLprep does not allow it', () => {
  assert.equal(preparedPassword('e\u0301\u{1f600}'), 'e\u0301\u{1f600}');
  assert.equal(preparedPassword('I\u00adX\u00a0\u2168'), 'IX IX');
});
