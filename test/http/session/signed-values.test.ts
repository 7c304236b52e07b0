import assert from 'node:assert/strict';
import test from 'node:test';
import { Keyring } from '../../../src/crypto/keys.ts';
import { ProtectedValues } from '../../../src/crypto/protected-values.ts';
import { seeded } from '../../support/random.ts';
import type { ValueIssue } from '../../../src/crypto/protected-values.ts';

const OLD = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';
const NEW = 'Zp5&uE1*oA7(iQ0)rW4-tK8_gV2+lX6=';
const TIMES = { issuedSeconds: 1_000, expiresSeconds: 2_000 };
const PAYLOAD = '{"name":"Ada Lovelace – 数学"}';
const BOTH = ['signed', 'sealed'] as const;
type Protection = (typeof BOTH)[number];

function values(
  protection: Protection,
  secrets: string | readonly string[] = NEW,
  label = 'test',
): ProtectedValues {
  return new ProtectedValues(Keyring.of(secrets), label, protection);
}

function reasonOf(
  reader: ProtectedValues,
  name: string,
  text: string,
  nowSeconds = 1_500,
): ValueIssue | 'valid' {
  const value = reader.read(name, text, nowSeconds);
  return value.kind === 'valid' ? 'valid' : value.reason;
}

for (const protection of BOTH) {
  test(`ProtectedValues.write() returns text that needs no encoding in a cookie, and read() returns the payload and times given to write() (${protection})`, () => {
    const text = values(protection).write('a', PAYLOAD, TIMES);
    assert.match(text, /^[se]1(?:\.[\w-]+)+$/);
    assert.deepEqual(values(protection).read('a', text, 1_999), {
      kind: 'valid',
      payload: PAYLOAD,
      times: TIMES,
      isCurrentKey: true,
    });
    for (const payload of ['', 'x', 'é'.repeat(100)]) {
      const value = values(protection).read('a', values(protection).write('a', payload, TIMES), 1_500);
      assert.equal(value.kind === 'valid' && value.payload, payload);
    }
  });

  test(`ProtectedValues.read() refuses a value from the second in which it expires (${protection})`, () => {
    const text = values(protection).write('a', PAYLOAD, TIMES);
    assert.deepEqual(
      [1_999, 2_000, 9_000].map((nowSeconds) => reasonOf(values(protection), 'a', text, nowSeconds)),
      ['valid', 'expired', 'expired'],
    );
  });

  test(`ProtectedValues.read() refuses a value that was written with another name, label, key or protection, or whose times were changed (${protection})`, () => {
    const text = values(protection).write('a', PAYLOAD, TIMES);
    assert.equal(reasonOf(values(protection), 'b', text), 'forged');
    assert.equal(reasonOf(values(protection, NEW, 'other'), 'a', text), 'forged');
    assert.equal(reasonOf(values(protection, OLD), 'a', text), 'unknown_key');
    assert.equal(reasonOf(values(protection === 'signed' ? 'sealed' : 'signed'), 'a', text), 'malformed');
    assert.equal(reasonOf(values(protection), 'a', text.replace('.1000.', '.1001.')), 'forged');
    assert.equal(reasonOf(values(protection), 'a', text.replace('.2000.', '.9999.')), 'forged');
    assert.equal(reasonOf(values(protection), 'a', text.replace('.1000.', '.01000.')), 'forged');
  });

  test(`ProtectedValues.read() accepts a value of the previous secret until this secret is removed (${protection})`, () => {
    const text = values(protection, OLD).write('a', PAYLOAD, TIMES);
    assert.deepEqual(values(protection, [NEW, OLD]).read('a', text, 1_500), {
      kind: 'valid',
      payload: PAYLOAD,
      times: TIMES,
      isCurrentKey: false,
    });
    assert.equal(reasonOf(values(protection, [NEW]), 'a', text), 'unknown_key');
    const other = values(protection, [NEW, OLD]).write('a', PAYLOAD, TIMES);
    const kids = [text, other].map((each) => each.split('.')[1]!);
    assert.equal(reasonOf(values(protection, [NEW, OLD]), 'a', text.replace(kids[0]!, kids[1]!)), 'forged');
  });

  test(`ProtectedValues.read() refuses a value with a flipped bit, a removed end or an added character, and does not throw (${protection})`, () => {
    const reader = values(protection);
    const text = reader.write('session', PAYLOAD, TIMES);
    for (let index = 0; index < text.length; index++) {
      for (let bit = 0; bit < 8; bit++) {
        const flipped =
          text.slice(0, index) +
          String.fromCharCode(text.charCodeAt(index) ^ (1 << bit)) +
          text.slice(index + 1);
        assert.notEqual(reasonOf(reader, 'session', flipped), 'valid', flipped);
      }
      assert.notEqual(reasonOf(reader, 'session', text.slice(0, index)), 'valid');
      assert.notEqual(reasonOf(reader, 'session', text.slice(index + 1)), 'valid');
      assert.notEqual(reasonOf(reader, 'session', `${text.slice(0, index)}A${text.slice(index)}`), 'valid');
      assert.notEqual(reasonOf(reader, 'session', text.slice(0, index) + text.slice(index + 1)), 'valid');
    }
    assert.equal(reasonOf(reader, 'session', text), 'valid');
  });

  test(`ProtectedValues.read() refuses 5,000 mutated values, and does not throw (${protection})`, () => {
    const below = seeded(7);
    const reader = values(protection);
    const texts = ['a', 'bb', PAYLOAD].map((payload) => reader.write('n', payload, TIMES));
    const letters = ['.', '-', '_', 'A', '0', '=', '%', '\0', 'é', '😀', ' ', '\ud800'];
    for (let round = 0; round < 5_000; round++) {
      const [left, right] = [texts[below(3)]!, texts[below(3)]!];
      const at = below(left.length),
        other = below(right.length);
      const text =
        below(2) === 0
          ? left.slice(0, at) + letters[below(letters.length)]! + left.slice(at + below(3))
          : left.slice(0, at) + right.slice(other);
      if (!texts.includes(text)) assert.notEqual(reasonOf(reader, 'n', text), 'valid', text);
    }
  });

  test(`ProtectedValues.read() refuses a value that is longer than a cookie (${protection})`, () => {
    const text = values(protection).write('a', 'x'.repeat(4_000), TIMES);
    assert.equal(reasonOf(values(protection), 'a', text), 'malformed');
    assert.equal(
      reasonOf(new ProtectedValues(Keyring.of(NEW), 'test', protection, 10_000), 'a', text),
      'valid',
    );
    assert.equal(
      reasonOf(
        values(protection),
        'a',
        `${protection === 'signed' ? 's1' : 'e1'}.${'a.'.repeat(10_000_000)}`,
      ),
      'malformed',
    );
  });
}

test('two encrypted values of one payload differ in every encrypted part, and do not contain the payload', () => {
  const [left, right] = [
    values('sealed').write('a', PAYLOAD, TIMES),
    values('sealed').write('a', PAYLOAD, TIMES),
  ].map((text) => text.split('.').at(-1)!) as [string, string];
  assert.notEqual(left.slice(0, 16), right.slice(0, 16)); // the IV
  assert.notEqual(left.slice(16), right.slice(16));
  for (const box of [left, right]) assert.ok(!Buffer.from(box, 'base64url').includes(Buffer.from('Ada')));
});

test('two signed values of the same name, label and payload are equal', () => {
  assert.equal(values('signed').write('a', PAYLOAD, TIMES), values('signed').write('a', PAYLOAD, TIMES));
});
