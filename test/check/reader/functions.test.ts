/**
 * The code of functions: comments and literals are gone, everything else is there.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeOf, withoutText } from '../../../src/check/reader/functions.ts';

for (const [source, expected] of [
  ['a(); // readFileSync()\nb()', 'a(); \nb()'],
  ['a(/* readFileSync() */ b)', 'a( b)'],
  ['a("x\\"(") + \'y\'', 'a("") + \'\''],
  ['f(`t ${g("}") + `${h}`} u`)', 'f(`` (g("") + `` (h)))'],
  ['x = /readFileSync\\(["/]/.test(y)', 'x = / /.test(y)'],
  ['a / b / c', 'a / b / c'],
  ['return /x`/', 'return / /'],
  ['"unclosed', '""'],
  ['`unclosed ${a', '`` (a)'],
  ['/* unclosed', ''],
  ['a\\b', 'a\\b'],
] as const) {
  test(`withoutText() removes comments and literals: it returns ${JSON.stringify(expected)} for the code ${JSON.stringify(source)}`, () =>
    assert.equal(withoutText(source), expected));
}

test('withoutText() terminates for any source code, and removes the content of every string literal', () => {
  const pieces = [
    '"',
    "'",
    '`',
    '${',
    '}',
    '/',
    '*',
    '//',
    '/*',
    '*/',
    '\\',
    '\n',
    'a',
    '(',
    ')',
    '=',
    '[',
    ']',
  ];
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
  for (let round = 0; round < 2_000; round++) {
    const text = Array.from({ length: random(30) }, () => pieces[random(pieces.length)]).join('');
    assert.ok(withoutText(text).length <= text.length * 3 + 10, text);
  }
});

test('codeOf() returns the source code of a function, and an empty string for a native function', () => {
  assert.match(
    codeOf(() => 'text' + 1),
    /^\(\) => '' \+ 1$/,
  );
  assert.equal(codeOf(Math.max), '');
  assert.equal(
    codeOf(
      function named() {
        /* gone */
      }.bind(null),
    ),
    '',
  );
});
