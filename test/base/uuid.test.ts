import assert from 'node:assert/strict';
import { test } from 'node:test';
import { uuid } from '../../src/http/request-id.ts';

test('uuid() is of version 4 and its variant (RFC 9562 §5.4), and new every time', () => {
  const seen = new Set<string>();
  for (let count = 0; count < 10_000; count++) {
    const id = uuid();
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    seen.add(id);
  }
  assert.equal(seen.size, 10_000);
});

test('uuid() takes every other bit from chance', () => {
  const count = 20_000;
  const ones = new Float64Array(128);
  for (let round = 0; round < count; round++) {
    const bits = BigInt(`0x${uuid().replaceAll('-', '')}`);
    for (let bit = 0; bit < 128; bit++) if (((bits >> BigInt(bit)) & 1n) === 1n) ones[bit]!++;
  }
  const fixed = new Map([
    [79, 0],
    [78, 1],
    [77, 0],
    [76, 0],
    [63, 1],
    [62, 0],
  ]); // counted from the last: 4 is 0100, the variant 10
  for (let bit = 0; bit < 128; bit++) {
    const share = ones[bit]! / count;
    if (fixed.has(bit)) assert.equal(share, fixed.get(bit), `bit ${bit}`);
    else assert.ok(Math.abs(share - 0.5) < 0.025, `bit ${bit} is set in ${share} of them`); // seven standard deviations
  }
});
