import assert from 'node:assert/strict';
import test from 'node:test';
import { parsePairs } from '../../../src/http/request/query.ts';
import { seeded } from '../../support/random.ts';

test('for generated input, parsePairs() returns the same pairs as URLSearchParams', () => {
  const below = seeded(4);
  const parts = [
    'a',
    'b',
    '=',
    '=',
    '&',
    '&',
    '+',
    '%20',
    '%2B',
    '%26',
    '%3D',
    '%',
    '%4',
    '%zz',
    '%ff',
    '%C3%A9',
    '%C3',
    '%EF%BB%BF',
    '%00',
    '%ED%A0%80',
    'é',
    '😀',
    '?',
    '#',
    ';',
    '__proto__',
    '\ud800',
    '%F0%9F%98',
    ' ',
  ];
  for (let round = 0; round < 20_000; round++) {
    const text = Array.from({ length: below(12) }, () => parts[below(parts.length)]!).join('');
    const expected = [...new URLSearchParams(`&${text}`)]; // "&", for it drops a "?" that comes first
    const actual = parsePairs(text)!;
    assert.deepEqual([...actual], expected, JSON.stringify(text));
    for (const [name] of expected) {
      const values = expected.filter(([other]) => other === name).map(([, value]) => value);
      assert.equal(actual.get(name), values[0]);
      assert.deepEqual(actual.getAll(name), values);
      assert.ok(actual.has(name));
    }
    assert.deepEqual([...actual.keys()], [...new Set(expected.map(([name]) => name))]);
  }
});

for (const count of [3, 100]) {
  test(`Pairs.get(), getAll() and has() find only names that were sent (${count} pairs)`, () => {
    const pairs = parsePairs(Array.from({ length: count }, (_, n) => `n${n}=${n}&n${n}=again`).join('&'))!;
    assert.equal(pairs.get('absent'), undefined);
    assert.equal(pairs.get('toString'), undefined);
    assert.equal(pairs.has('__proto__'), false);
    assert.deepEqual(pairs.getAll('absent'), []);
    assert.equal(pairs.get(`n${count - 1}`), String(count - 1));
    assert.deepEqual(pairs.getAll('n1'), ['1', 'again']);
    assert.ok(pairs.has('n2'));
  });
}

test('parsePairs() returns undefined for more than maxPairs pairs', () => {
  assert.equal([...parsePairs('a=1&&b=2&', 2)!].length, 2);
  assert.equal(parsePairs('a=1&b=2&c', 2), undefined);
  assert.equal([...parsePairs('', 0)!].length, 0);
});

test('parsePairs() reads many short names before one long name', () => {
  const text = `${'a&'.repeat(999)}${'a'.repeat(9_900_000)}`;
  assert.equal([...parsePairs(text)!].length, 1_000);
  assert.equal(parsePairs(`${text}=b`)!.getAll('a').length, 999);
});
