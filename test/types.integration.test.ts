/**
 * test/types holds enough: that it compiles with the sources is a matter of `tsc`, that it does with the package of package.test.ts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TYPE_ASSERTIONS } from './support/type-assertions.ts';

test('test/types holds at least 60 positive and 20 negative assertions', () => {
  const count = (pattern: RegExp): number =>
    Object.values(TYPE_ASSERTIONS).reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0);
  assert.ok(count(/^\s*(?:is|same)<.*>\(.*\);|\{ is<.*>\(\); \}/gm) >= 60);
  assert.ok(count(/\/\/ @ts-expect-error \S/g) >= 20);
});
