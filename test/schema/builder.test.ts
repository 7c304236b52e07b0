import assert from 'node:assert/strict';
import test from 'node:test';
import { builderOf } from '../../src/schema/construct.ts';

test('builderOf() makes objects of any number of members, in order, with the prototype it was given', () => {
  class Shown {
    get isShown(): boolean {
      return true;
    }
  }
  for (let count = 0; count <= 12; count++) {
    const names = Array.from({ length: count }, (_, index) => `member${index}`);
    const made = new (builderOf(names, Shown.prototype))(names.map((_, index) => index));
    assert.deepEqual(
      Object.entries(made),
      names.map((name, index) => [name, index]),
    );
    assert.ok(made instanceof Shown && made.isShown);
  }
});
