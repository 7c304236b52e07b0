import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from '../../../src/check/reader/syntax.ts';

const MODULES = [
  "import a, { b as c } from 'x' with { type: 'json' };\nexport { c as default, a } from 'y';\nimport * as all from 'z';",
  'class A extends B { #x = 1; static async *m({ a = 1, ...r }, [b, , c]) { for await (const x of `a${`b${1}`}`) yield x; } get y() { return this.#x; } }',
  'label: for (;;) { switch (a) { case 1: break label; default: x(); } } do { y++ } while (z); try { a ||= b?.[0]?.(); } catch { throw new E(...c) } finally {}',
  'const f = async (a) => /[/]+/u.test(`${a}`) ? { a, [b]: 1, get c() { return 1; } } : function* () { yield* g; };',
];

test('parse() refuses a module that ends too early, wherever it ends', () => {
  for (const source of MODULES) {
    parse(source);
    for (let end = 0; end < source.length; end++)
      try {
        parse(source.slice(0, end));
      } catch (error) {
        assert.ok(Object.hasOwn(error as Error, 'offset'), `${source.slice(0, end)}: ${String(error)}`);
      }
  }
});
