import assert from 'node:assert/strict';
import test from 'node:test';
import { runInNewContext } from 'node:vm';
import { SvcError } from '../../src/base/errors.ts';
import { toJson } from '../../src/http/response.ts';
import { any, compileSerializer } from '../../src/schema/schema.ts';
import type { Issue } from '../../src/base/errors.ts';

test('toJson() writes the same as JSON.stringify(), with dates in ISO 8601', () => {
  for (const value of [
    null,
    true,
    0,
    'a',
    [],
    {},
    { a: [1, { b: undefined }] },
    [undefined, () => 1],
    { toJSON: () => 'x' },
    Object.create(null),
  ])
    assert.equal(toJson(value), JSON.stringify(value));
  assert.equal(toJson({ at: new Date(0) }), '{"at":"1970-01-01T00:00:00.000Z"}');
});

test('toJson() writes bigints as decimal strings, at any depth', () => {
  assert.equal(toJson(-5n), '"-5"');
  assert.equal(
    toJson({ a: [12345678901234567890n], b: new Date(0), c: 1 }),
    '{"a":["12345678901234567890"],"b":"1970-01-01T00:00:00.000Z","c":1}',
  );
});

test('toJson() refuses a cycle, and the error has the path of the cycle', () => {
  const cyclic: Record<string, unknown> = { list: [1] };
  (cyclic['list'] as unknown[]).push({ up: cyclic });
  assert.throws(() => toJson(cyclic), { code: 'E_REPLY', message: /a cycle at \$\.list\[1\]\.up/ });
  assert.throws(() => toJson({ big: 1n, cyclic }), { code: 'E_REPLY', message: /a cycle/ });
});

for (const [path, make] of [
  ['$[1]', (root: unknown) => [1, root]],
  ['$.a.self', (root: unknown) => ({ a: { self: root } })],
  [
    '$.c[0].self',
    (root: unknown) => {
      const twice = { list: [{}] };
      return { a: twice, b: [twice, twice], c: [{ self: root }] };
    },
  ],
] as const)
  test(`toJson() finds the cycle at ${path}`, () => {
    const root: object = path === '$[1]' ? [] : {};
    Object.assign(root, make(root));
    assert.throws(
      () => toJson(root),
      (error) =>
        error instanceof SvcError &&
        error.code === 'E_REPLY' &&
        error.message.endsWith(`: a cycle at ${path}`),
    );
  });

/** Returns `levels` objects inside one another. JSON.stringify() throws a TypeError for the innermost one. */
function nested(levels: number): { value: unknown; thrown: Error } {
  const thrown = new TypeError('from toJSON()');
  let value: unknown = {
    toJSON: () => {
      throw thrown;
    },
  };
  for (let level = 1; level < levels; level++) value = level % 2 === 0 ? [value] : { value };
  return { value, thrown };
}

test('if a value cannot be written, toJson() throws the original error up to 512 levels, and else names the nesting', () => {
  for (const levels of [1, 2, 511, 512]) {
    const { value, thrown } = nested(levels);
    assert.throws(
      () => toJson(value),
      (error) => error === thrown,
      String(levels),
    );
  }
  const { value, thrown } = nested(513);
  assert.throws(
    () => toJson(value),
    (error: Error & { code?: unknown }) => {
      assert.deepEqual([error.code, error.cause], ['E_REPLY', thrown]);
      const [, path] = /nesting deeper than 512 levels at (.*)…/.exec(error.message)!;
      assert.match(path!, /^\$\[0\]\.value\[0\]\.value/);
      assert.equal(path!.length, 80);
      return true;
    },
  );
});

test('toJson() finds no cycle in a value that is referenced twice, if another value cannot be written', () => {
  const twice = { list: [{}] };
  const { value, thrown } = nested(3);
  assert.throws(
    () => toJson({ a: twice, b: [twice, { twice }], value }),
    (error) => error === thrown,
  );
});

test('toJson() writes a value that is referenced twice, even if the value contains bigints', () => {
  const twice = { n: 1n };
  assert.equal(toJson([twice, twice]), '[{"n":"1"},{"n":"1"}]');
});

test('toJson() calls the method toJSON() of a value, also if the value contains a bigint', () => {
  const parent: Record<string, unknown> = { toJSON: () => 'parent' };
  parent['self'] = parent;
  assert.equal(toJson({ big: 1n, parent }), '{"big":"1","parent":"parent"}');
  let deep: unknown = 1n;
  for (let level = 0; level < 600; level++) deep = [deep];
  assert.equal(toJson(deep).length, 1_203);
});

test('toJson() refuses values that are nested too deeply for the JavaScript engine, and never overflows the stack', () => {
  let deep: unknown = [];
  for (let level = 0; level < 100_000; level++) deep = { deep };
  try {
    assert.equal(toJson(deep).length, 100_000 * '{"deep":}'.length + 2); // V8 14 needs no stack for it
  } catch (error) {
    assert.equal((error as { code?: unknown }).code, 'E_REPLY');
    assert.match((error as Error).message, /nesting/);
  }
});

test('toJson() refuses values that JSON cannot represent', () => {
  for (const value of [
    undefined,
    Symbol('s'),
    () => 1,
    function named() {
      /* nothing */
    },
    { toJSON: () => undefined },
  ])
    assert.throws(() => toJson(value), { code: 'E_REPLY' });
});

test('toJson() refuses objects of built-in classes and of classes with Symbol.toStringTag that JSON.stringify() writes as {}, and the error has their path', () => {
  class Tagged {
    readonly [Symbol.toStringTag] = 'Money';
  }
  for (const [value, type] of [
    [new Map([[1, 2]]), 'Map'],
    [new Set(), 'Set'],
    [new Map().values(), 'Map Iterator'],
    [(function* () {})(), 'Generator'],
    [new Error('secret'), 'Error'],
    [new URLSearchParams('a=1'), 'URLSearchParams'],
    [new Headers(), 'Headers'],
    [/x/, 'RegExp'],
    [new ArrayBuffer(1), 'ArrayBuffer'],
    [new Blob(['x']), 'Blob'],
    [new Tagged(), 'Money'],
  ] as const)
    assert.throws(
      () => toJson({ list: [1n, { value }] }),
      (error) =>
        error instanceof SvcError &&
        error.code === 'E_REPLY' &&
        error.message.includes(`$.list[1].value is an object of type ${type}, which JSON writes as {}`),
      type,
    );
});

test('toJson() writes objects of built-in classes that JSON.stringify() does not write as {}, and empty objects of own classes', () => {
  class Own {
    readonly #hidden = 1;
    get hidden(): number {
      return this.#hidden;
    }
  }
  const named = Object.assign(new Map(), { toJSON: () => ['a'] });
  for (const value of [new Own(), [new Number(1), new Boolean(false)], named, new Date(0)])
    assert.equal(toJson({ empty: {}, value }), JSON.stringify({ empty: {}, value }));
});

const BYTES = Uint8Array.of(0, 255, 65);

/** Values with bytes, by the kind of their place. */
const WITH_BYTES: readonly (readonly [where: string, make: (bytes: Uint8Array) => unknown])[] = [
  ['the value itself', (bytes) => bytes],
  ['a member', (bytes) => ({ id: 1, bytes })],
  ['rows', (bytes) => [{ bytes: null }, { bytes }]],
  ['a value beside a bigint', (bytes) => ({ id: 1n, bytes })],
  ['a value beside an empty object', (bytes) => ({ none: {}, bytes })],
  ['the result of toJSON()', (bytes) => ({ at: { toJSON: () => ({ bytes }) } })],
  ['the result of toJSON() itself', (bytes) => [{ toJSON: () => bytes }]],
];

for (const [where, make] of WITH_BYTES)
  test(`toJson() writes bytes as base64, as a response schema does: ${where}`, () => {
    for (const bytes of [
      BYTES,
      Buffer.from(BYTES),
      new Uint8Array(),
      Buffer.alloc(0),
      Buffer.alloc(3).subarray(1),
      runInNewContext('Uint8Array.of(1, 2)') as Uint8Array,
      runInNewContext('new Uint8Array()') as Uint8Array,
    ]) {
      const written = compileSerializer(any).toJson(make(bytes));
      assert.ok(written.ok);
      assert.equal(toJson(make(bytes)), written.value);
      assert.ok(written.value.includes(`"${Buffer.from(bytes).toString('base64')}"`));
    }
  });

test('toJson() writes bytes of a class with a method toJSON() as this method says, whatever else the value has', () => {
  class Hex extends Uint8Array {
    toJSON(): string {
      return Buffer.from(this).toString('hex');
    }
  }
  const hash = Hex.of(1, 255);
  for (const other of [1, {}, 1n, Buffer.from('a'), { 0: 'a' }])
    for (const value of [
      { hash, other },
      { other, hash },
    ]) {
      const written = compileSerializer(any).toJson(value);
      assert.ok(written.ok);
      assert.equal(toJson(value), written.value);
      assert.ok(written.value.includes('"hash":"01ff"'), written.value);
    }
});

test('toJson() writes a value with bytes and bigints as JSON.stringify() writes it with their texts', () => {
  const at = { toJSON: (key: string) => ({ toJSON: () => 'second', key }) };
  const others = {
    at,
    list: [undefined, () => 1, Symbol('a'), at, new Date(0)],
    none: undefined,
    run: () => 1,
    of: [new Number(1), new String('a'), new Boolean(false), NaN],
    ['__proto__']: { a: 1 },
    raw: (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON('12345678901234567890'),
    1: 'first',
  };
  const twice = { a: 1 };
  const value = (bytes: unknown, big: unknown): unknown => ({ ...others, bytes, big, twice: [twice, twice] });
  assert.equal(toJson(value(BYTES, 1n)), JSON.stringify(value('AP9B', '1')));
  assert.equal(toJson(value(Buffer.from(BYTES), 1)), JSON.stringify(value('AP9B', 1)));
});

test('toJson() calls toJSON() of a Buffer only once', (t) => {
  const made = t.mock.method(Buffer.prototype, 'toJSON');
  toJson({ rows: [{ bytes: Buffer.from('a') }] });
  assert.equal(made.mock.callCount(), 1);
});

test('toJson() and a response schema refuse a typed array other than Uint8Array, and the error has its path', () => {
  for (const view of [Float32Array.of(1.5), new Uint16Array(), new DataView(new ArrayBuffer(1))]) {
    const type = view.constructor.name;
    assert.throws(() => toJson({ a: [{ view }] }), {
      code: 'E_REPLY',
      message: new RegExp(
        `\\$\\.a\\[0\\]\\.view is an object of type ${type}, which JSON writes as an object`,
      ),
    });
    const { issues } = compileSerializer(any).toJson({ view }) as { issues: readonly Issue[] };
    assert.deepEqual(
      issues.map(({ loc, code, message }) => [loc, code, message.includes(type)]),
      [[['view'], 'type', true]],
    );
  }
});

test('toJson() writes objects whose JSON looks like bytes unchanged', () => {
  const value = [{ 0: 'a' }, { type: 'Buffer', data: [1] }, '{"0":1}'];
  assert.equal(toJson(value), JSON.stringify(value));
});

test('toJson() rethrows the error that a method toJSON() throws, whatever the class of the error', () => {
  for (const error of [new TypeError('mine'), new RangeError('mine'), new Error('mine')]) {
    assert.throws(
      () =>
        toJson({
          toJSON: () => {
            throw error;
          },
        }),
      (thrown) => thrown === error,
    );
  }
});
