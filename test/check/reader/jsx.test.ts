/** JSX becomes plain expressions, at the same positions. */
import assert from 'node:assert/strict';
import { stripTypeScriptTypes } from 'node:module';
import { test } from 'node:test';
import { withoutJsx } from '../../../src/check/reader/jsx.ts';

/** Each code, and the same code without JSX and without spaces. */
const CASES: readonly (readonly [what: string, code: string, expected: string])[] = [
  ['elements and expressions', "a = <p title={b} {...c}>it's {d}<br/></p>;", 'a=[b,...c,d,[],];'],
  ['a comment as a child', "a = <p>{/* it's */}{b}</p>;", "a=[/* it's */,b,];"],
  ['a comment between attributes', "a = <p /* it's > { */ title={b}>x</p>;", "a=[/* it's > { */b,];"],
  ['a line comment between attributes', "a = <p // it's\n title={b}>x</p>;", "a=[// it's\nb,];"],
  ['a comment in an expression', 'a = <p title={b /* } */}>x</p>;', 'a=[b/* } */,];'],
  ['type arguments', 'a = <List<Note> items={b} />;', 'a=[b,];'],
  ['nested type arguments', 'a = <List<Map<string, () => Note>>>{b}</List>;', 'a=[b,];'],
  ['type arguments with texts and objects', 'a = <List<"a>" | { b: 1 }> items={b} />;', 'a=[b,];'],
  ['type parameters of functions', 'a = <T,>(b: T) => <p>{b}</p>;', 'a=<T,>(b:T)=>[b,];'],
  ['constant type parameters', 'a = <const T,>(b: T) => b;', 'a=<const T,>(b:T)=>b;'],
  ['an element as an attribute', 'a = <p title=<b>x{c}</b>>y{d}</p>;', 'a=[[c,],d,];'],
  ['an element in a template', 'a = `x${<p>{b}</p>}y`;', 'a=`x${[b,]}y`;'],
  [
    'regular expressions with quotes',
    "a = /['\"<]/.test(b) && <p>it's {c}</p>;",
    'a=/[\'"<]/.test(b)&&[c,];',
  ],
  ['comparisons and divisions', 'a = b < c && d > e / f / g;', 'a=b<c&&d>e/f/g;'],
];

/** Returns code without spaces, except those in comments and after words. */
const tight = (code: string): string =>
  code.replace(/(\/\*.*?\*\/|\/\/[^\n]*\n|<const T)|\s+/g, (_all, kept: string | undefined) => kept ?? '');

for (const [what, code, expected] of CASES) {
  test(`withoutJsx() reads ${what}, and keeps all positions`, () => {
    const plain = withoutJsx(code);
    assert.equal(tight(plain), expected);
    assert.equal(plain.length, code.length);
    for (const [index, char] of [...plain].entries())
      if (!/[\s[\],]/.test(char)) assert.equal(char, code[index], `${index} of ${plain}`);
    stripTypeScriptTypes(plain); // throws if the result is not TypeScript
  });
}
