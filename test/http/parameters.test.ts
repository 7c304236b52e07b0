import assert from 'node:assert/strict';
import test from 'node:test';
import { parseParameters } from '../../src/http/headers.ts';

for (const [field, value, parameters] of [
  ['text/html', 'text/html', {}],
  [' Text/HTML ; Charset=UTF-8', 'text/html', { charset: 'UTF-8' }],
  ['a/b;x="y \\" \\\\ ;z=1";q=0.5', 'a/b', { x: 'y " \\ ;z=1', q: '0.5' }],
  ['a/b; x=1; x=2; ;;y=3', 'a/b', { x: '1', y: '3' }],
  ['a/b; x="unclosed; y=1', 'a/b', {}],
  ['a/b; x = 1', 'a/b', {}],
  ['a/b;=1', 'a/b', {}],
  [';x=1', '', { x: '1' }],
  ['', '', {}],
  ['a/b; __proto__=1', 'a/b', JSON.parse('{"__proto__":"1"}')],
] as const) {
  test(`parseParameters() reads ${JSON.stringify(field)}`, () => {
    const read = parseParameters(field);
    assert.equal(read.value, value);
    assert.deepEqual([...read.parameters], Object.entries(parameters as object));
  });
}
