/** Rows of MySQL and MariaDB from their bytes: names of columns, NULL, both formats, and rows that are cut. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProtocolViolation } from '../../../src/db/errors.ts';
import { readColumn } from '../../../src/db/mysql/messages.ts';
import { RowPlan, preparedColumn } from '../../../src/db/mysql/rows.ts';
import type { WireColumn } from '../../../src/db/mysql/messages.ts';
import type { MySqlValueOptions } from '../../../src/db/mysql/url.ts';

const OPTIONS: MySqlValueOptions = {
  int8: 'auto',
  zeroDates: 'null',
  hasBooleans: true,
  parsesJson: true,
  timestamps: 'date',
};
const LONG = 3;
const VARCHAR = 253;
const NULL = 0xfb;

/** Where a column comes from. */
interface Place {
  readonly schema?: string;
  readonly table?: string;
  readonly column?: string;
  readonly flags?: number;
}

/** Returns the description of a column of utf8mb4, as a server sends it. */
function description(
  name: string,
  type: number,
  { schema = '', table = '', column = '', flags = 0 }: Place = {},
): Buffer {
  return Buffer.concat([
    ...['def', schema, table, table, name, column].map((text) =>
      Buffer.from([text.length, ...Buffer.from(text)]),
    ),
    Buffer.from([0x0c, 45, 0, 0xff, 0, 0, 0, type, flags, 0, 0, 0, 0]),
  ]);
}

const columnOf = (...[name, type, place]: Parameters<typeof description>): WireColumn => {
  const bytes = description(name, type, place);
  return readColumn(bytes, 0, bytes.length, false);
};

function plan(isText: boolean, ...columns: readonly (readonly [name: string, type: number])[]): RowPlan {
  return new RowPlan(
    columns.map(([name, type]) => columnOf(name, type)),
    [],
    OPTIONS,
    isText,
  );
}

/** Returns an object with these own members, in this order. */
function owns(...members: readonly (readonly [name: string, value: unknown])[]): object {
  const object = {};
  for (const [name, value] of members)
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  return object;
}

/** A row with the values 7, "x" and NULL. In the bitmap of NULLs, the first two bits are unused. */
const ROWS = {
  text: Buffer.from([1, 0x37, 1, 0x78, NULL]),
  binary: Buffer.from([0, 0b1_0000, 7, 0, 0, 0, 1, 0x78]),
} as const;

for (const [what, names] of [
  ['usual names', ['id', 'name', 'note']],
  ['the name __proto__ first', ['__proto__', 'name', 'note']],
  ['the name __proto__ last', ['id', 'name', '__proto__']],
  ['names of members of every object', ['constructor', 'toString', 'hasOwnProperty']],
  ['an empty name', ['', 'a b', '0']],
] as const)
  for (const format of ['text', 'binary'] as const)
    test(`a row of MySQL is a plain object whose own members are the columns (${what}, ${format} format)`, () => {
      const rows = plan(format === 'text', [names[0], LONG], [names[1], VARCHAR], [names[2], VARCHAR]);
      const bytes = Buffer.concat([Buffer.of(0xee), ROWS[format], Buffer.of(0xee)]);
      const row = rows.object(bytes, 1, bytes.length - 1);
      const expected = owns([names[0], 7], [names[1], 'x'], [names[2], null]);
      assert.deepEqual(Object.getOwnPropertyDescriptors(row), Object.getOwnPropertyDescriptors(expected));
      assert.deepEqual(Object.keys(row), Object.keys(expected));
      assert.equal(Object.getPrototypeOf(row), Object.prototype);
      assert.deepEqual(rows.list(bytes, 1, bytes.length - 1), [7, 'x', null]);
    });

test('a row of MySQL has the last value of two columns with one name, also for the name __proto__', () => {
  for (const name of ['a', '__proto__']) {
    const bytes = Buffer.from([1, 0x31, 1, 0x32]);
    const row = plan(true, [name, LONG], [name, LONG]).object(bytes, 0, bytes.length);
    assert.deepEqual(
      Object.getOwnPropertyDescriptors(row),
      Object.getOwnPropertyDescriptors(owns([name, 2])),
    );
  }
});

test('each bit of the bitmap of NULLs belongs to one column of a binary row of MySQL', () => {
  for (const count of [1, 6, 7, 14, 15, 22, 23])
    for (let at = 0; at < count; at++) {
      const rows = plan(false, ...Array.from({ length: count }, (_, index) => [`c${index}`, LONG] as const));
      const bitmap = Buffer.alloc((count + 9) >> 3);
      for (let index = 0; index < count; index++)
        if (index !== at) bitmap[(index + 2) >> 3]! |= 1 << ((index + 2) & 7);
      const bytes = Buffer.concat([Buffer.of(0), bitmap, Buffer.from([9, 0, 0, 0])]);
      assert.deepEqual(
        rows.list(bytes, 0, bytes.length),
        Array.from({ length: count }, (_, index) => (index === at ? 9 : null)),
      );
    }
});

for (const [bytes, prefix] of [
  [0, Buffer.of(0)],
  [250, Buffer.of(250)],
  [251, Buffer.from([0xfc, 251, 0])],
  [65_535, Buffer.from([0xfc, 0xff, 0xff])],
  [65_536, Buffer.from([0xfd, 0, 0, 1])],
  [70_000, Buffer.from([0xfe, 0x70, 0x11, 1, 0, 0, 0, 0, 0])],
] as const)
  for (const isText of [true, false])
    test(`a value of ${bytes} bytes of MySQL follows its length of ${prefix.length} bytes (${isText ? 'text' : 'binary'} format)`, () => {
      const rows = plan(isText, ['a', VARCHAR]);
      const value = 'x'.repeat(bytes);
      const row = Buffer.concat([isText ? Buffer.alloc(0) : Buffer.of(0, 0), prefix, Buffer.from(value)]);
      assert.deepEqual(rows.list(row, 0, row.length), [value]);
      assert.deepEqual(rows.object(row, 0, row.length), { a: value });
      for (let cut = 1; cut <= Math.min(row.length, prefix.length + 2); cut++)
        assert.throws(() => rows.list(row, 0, row.length - cut), ProtocolViolation);
      const long = Buffer.concat([row, Buffer.of(0)]);
      assert.throws(() => rows.list(long, 0, long.length), /extra bytes after the last value/);
    });

/** The first length of a row that is cut there, with the message for it and for the following lengths. */
const CUTS = {
  text: [
    [0, /a truncated row/],
    [1, /a value that exceeds its row/],
    [2, /a truncated row/],
    [3, /a value that exceeds its row/],
    [4, /a truncated row/],
  ],
  binary: [
    [0, /a binary row with an invalid beginning/],
    [2, /a value that exceeds its row/],
  ],
} as const;

for (const name of ['id', '__proto__'])
  for (const format of ['text', 'binary'] as const)
    test(`a row of MySQL that is cut or too long is refused (column "${name}", ${format} format)`, () => {
      const rows = plan(format === 'text', [name, LONG], ['name', VARCHAR], ['note', VARCHAR]);
      const bytes = ROWS[format];
      for (const read of [rows.object.bind(rows), rows.list.bind(rows)]) {
        for (let end = 0; end < bytes.length; end++) {
          const message = CUTS[format].findLast(([from]) => from <= end)![1];
          assert.throws(() => read(bytes, 0, end), { name: 'ProtocolViolation', message }, String(end));
        }
        const long = Buffer.concat([bytes, Buffer.of(0)]);
        assert.throws(() => read(long, 0, long.length), /extra bytes after the last value/);
      }
    });

test('a binary row of MySQL begins with the byte 0, and may have no value but NULL', () => {
  const rows = plan(false, ['a', LONG], ['b', VARCHAR]);
  assert.deepEqual(rows.list(Buffer.from([0, 0b1100]), 0, 2), [null, null]);
  assert.throws(() => rows.list(Buffer.from([1, 0b1100]), 0, 2), /a binary row with an invalid beginning/);
});

for (const isText of [true, false])
  test(`a value of MySQL whose length is invalid or cut is refused (${isText ? 'text' : 'binary'} format)`, () => {
    const rows = plan(isText, ['a', VARCHAR]);
    const head = isText ? [] : [0, 0];
    const prefixes = [
      [0xff],
      [0xfc, 1],
      [0xfd, 1, 0],
      [0xfe, 1, 0, 0, 0, 0, 0, 0],
      ...(isText ? [] : [[NULL]]),
    ];
    for (const prefix of prefixes) {
      // the bytes after the end belong to the next row
      const bytes = Buffer.concat([Buffer.from([...head, ...prefix]), Buffer.alloc(300)]);
      const end = prefix[0] === 0xff || prefix[0] === NULL ? bytes.length : head.length + prefix.length;
      assert.throws(() => rows.list(bytes, 0, end), {
        name: 'ProtocolViolation',
        message: /a value without a length/,
      });
    }
  });

for (const [what, described, expected] of [
  [
    'of a table',
    ['a', LONG, { schema: 'shop', table: 'item', column: 'id' }],
    ['item', undefined, 'id', true],
  ],
  [
    'of another database',
    ['a', LONG, { schema: 'other', table: 'item', column: 'id' }],
    ['item', 'other', 'id', true],
  ],
  [
    'that is not null',
    ['a', LONG, { schema: 'shop', table: 'item', column: 'id', flags: 1 }],
    ['item', undefined, 'id', false],
  ],
  [
    'with other flags',
    ['a', LONG, { schema: 'shop', table: 'item', column: 'id', flags: 2 }],
    ['item', undefined, 'id', true],
  ],
  ['of an expression', ['a', LONG, { flags: 1 }], [undefined, undefined, undefined, undefined]],
  [
    'of an expression in a view',
    ['a', LONG, { schema: 'shop', table: 'item', flags: 1 }],
    [undefined, undefined, undefined, undefined],
  ],
  ['without a table', ['a', LONG, { column: 'a', flags: 1 }], [undefined, undefined, undefined, undefined]],
] as readonly (readonly [what: string, described: Parameters<typeof description>, expected: unknown[]])[])
  test(`the description of a column ${what} of a statement of MySQL`, () => {
    const { name, type, table, schema, column, isNullable } = preparedColumn(columnOf(...described), 'shop');
    assert.deepEqual([name, type?.name], ['a', 'int']);
    assert.deepEqual([table, schema, column, isNullable], expected);
  });
