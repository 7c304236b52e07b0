import assert from 'node:assert/strict';
import { test } from 'node:test';
import { declaredHere, placeOf } from '../../src/base/findings.ts';

const PACKAGE = new URL('../../src/', import.meta.url);

test('declaredHere() returns the source position of its caller, and reading the position twice returns one frozen object', () => {
  const here = line() + 1;
  const declared = declaredHere();
  const { place } = declared;
  assert.ok(place.file.endsWith('/test/base/findings.test.ts'), place.file);
  assert.equal(place.line, here);
  assert.ok(place.column > 0);
  assert.equal(declared.place, place);
  assert.ok(Object.isFrozen(place));
});

test('placeOf() returns the first stack frame outside svc and Node.js', () => {
  const stack = [
    'Error: place',
    `    at new CapturedPlace (${new URL('findings.ts', PACKAGE).href}:1:2)`,
    `    at Svc.get (${new URL('app.ts', PACKAGE).pathname}:3:4)`,
    '    at node:internal/modules/run_main:101:5',
    '    at Array.map (<anonymous>)',
    '    at async main (file:///home/me/app.ts:10:20)',
    '    at file:///home/me/other.ts:1:1',
  ].join('\n');
  assert.deepEqual(placeOf(stack), { file: 'file:///home/me/app.ts', line: 10, column: 20 });
});

test('placeOf() parses stack frames with and without a function name, and with URLs and paths', () => {
  assert.deepEqual(placeOf('    at file:///a/b.ts:1:2'), { file: 'file:///a/b.ts', line: 1, column: 2 });
  assert.deepEqual(placeOf('    at f (/a/b c.js:3:4)'), { file: '/a/b c.js', line: 3, column: 4 });
  assert.deepEqual(placeOf('    at f (C:\\a\\b.js:5:6)'), { file: 'C:\\a\\b.js', line: 5, column: 6 });
});

test('placeOf() returns the position <unknown> 0:0 if every stack frame belongs to svc or Node.js', () => {
  assert.deepEqual(placeOf(''), { file: '<unknown>', line: 0, column: 0 });
  assert.deepEqual(placeOf('Error: x\n    at node:internal/a:1:2'), {
    file: '<unknown>',
    line: 0,
    column: 0,
  });
});

/** Functions of the package that a program calls, and functions of the program that call them. */
function declare(): ReturnType<typeof declaredHere> {
  return declaredHere(declare);
}
const line = (): number => Number(/:(\d+):\d+\)?$/.exec(new Error('here').stack!.split('\n')[2]!)![1]);

test('declaredHere(fn) returns the source position of the code that called fn, even through Reflect.apply() or map()', () => {
  const { stackTraceLimit } = Error;
  try {
    for (const limit of [10, 1]) {
      Error.stackTraceLimit = limit;
      const direct = declare();
      const reflected = Reflect.apply(declare, undefined, []);
      const [mapped] = [1].map(declare);
      assert.equal(Error.stackTraceLimit, limit);
      Error.stackTraceLimit = 10;
      const here = line();
      assert.deepEqual(
        [direct, reflected, mapped!].map(({ place }) => place.line),
        [here - 5, here - 4, here - 3],
      );
      for (const { place } of [direct, reflected, mapped!])
        assert.ok(place.file.endsWith('/test/base/findings.test.ts'), place.file);
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
});
