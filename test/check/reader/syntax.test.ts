import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutJsx } from '../../../src/check/reader/jsx.ts';
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

test('parse() reads 200 levels of each kind of nesting, and refuses 20,000 with one message', () => {
  const kinds: Record<string, (levels: number) => string> = {
    parentheses: (levels) => '('.repeat(levels) + 'a' + ')'.repeat(levels),
    lists: (levels) => '['.repeat(levels) + ']'.repeat(levels),
    objects: (levels) => '({a:'.repeat(levels) + '1' + '})'.repeat(levels),
    blocks: (levels) => '{'.repeat(levels) + '}'.repeat(levels),
    sums: (levels) => 'a' + '+a'.repeat(levels),
    powers: (levels) => 'a**'.repeat(levels) + 'a',
    'chained calls': (levels) => 'a' + '.b()'.repeat(levels),
    'nested calls': (levels) => 'f('.repeat(levels) + ')'.repeat(levels),
    negations: (levels) => '!'.repeat(levels) + 'a',
    'arrow functions': (levels) => 'a=>'.repeat(levels) + 'a',
    functions: (levels) => 'function f(){'.repeat(levels) + '}'.repeat(levels),
    classes: (levels) => 'class extends '.repeat(levels) + 'a' + '{}'.repeat(levels),
    choices: (levels) => 'a?a:'.repeat(levels) + 'a',
    conditions: (levels) => 'if(a){}else '.repeat(levels) + '{}',
    templates: (levels) => '`${'.repeat(levels) + 'a' + '}`'.repeat(levels),
    elements: (levels) => withoutJsx(`x = ${'<a>'.repeat(levels)}${'</a>'.repeat(levels)}`),
    assignments: (levels) => 'a='.repeat(levels) + 'a',
  };
  for (const [kind, nested] of Object.entries(kinds)) {
    parse(nested(200));
    assert.throws(() => parse(nested(20_000)), { message: /^the code is nested too deeply/ }, kind);
  }
});
