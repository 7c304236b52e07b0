/** Rows of PostgreSQL from their bytes: names of columns, NULL, both formats, and rows that are cut. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRowDescription, type WireColumn } from '../../../src/db/postgres/messages.ts';
import { RowPlan, columnLists, foundColumn, foundType, rereadRows } from '../../../src/db/postgres/rows.ts';
import { PostgresTypes } from '../../../src/db/postgres/types.ts';
import { dataRow, int32, rowDescription } from '../../support/postgres-bytes.ts';

const HEAD_BYTES = 5;
/** Oid of a type that the client does not know. */
const UNKNOWN = 70_000;

function plan(isText: boolean, ...columns: readonly (readonly [name: string, typeOid: number])[]): RowPlan {
  const bytes = rowDescription(...columns);
  return new RowPlan(readRowDescription(bytes, HEAD_BYTES, bytes.length), new PostgresTypes('auto'), isText);
}

/** Returns an object with these own members, in this order. */
function owns(...members: readonly (readonly [name: string, value: unknown])[]): object {
  const object = {};
  for (const [name, value] of members)
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  return object;
}

for (const [what, names] of [
  ['usual names', ['id', 'name', 'note']],
  ['the name __proto__ first', ['__proto__', 'name', 'note']],
  ['the name __proto__ last', ['id', 'name', '__proto__']],
  ['names of members of every object', ['constructor', 'toString', 'hasOwnProperty']],
  ['an empty name', ['', 'a b', '0']],
] as const)
  for (const isText of [true, false])
    test(`a row of PostgreSQL is a plain object whose own members are the columns (${what}, ${isText ? 'text' : 'binary'} format)`, () => {
      const { object, list, formats } = bound(plan(isText, [names[0], 23], [names[1], 25], [names[2], 25]));
      assert.deepEqual([...formats], isText ? [] : [0, 1, 0, 0, 0, 0]);
      const bytes = dataRow(isText ? '7' : int32(7), 'x', null);
      const row = object(bytes, HEAD_BYTES, bytes.length);
      const expected = owns([names[0], 7], [names[1], 'x'], [names[2], null]);
      assert.deepEqual(Object.getOwnPropertyDescriptors(row), Object.getOwnPropertyDescriptors(expected));
      assert.deepEqual(Object.keys(row), Object.keys(expected));
      assert.equal(Object.getPrototypeOf(row), Object.prototype);
      assert.deepEqual(list(bytes, HEAD_BYTES, bytes.length), [7, 'x', null]);
    });

test('a row of PostgreSQL has the last value of two columns with one name, also for the name __proto__', () => {
  for (const name of ['a', '__proto__']) {
    const { object } = bound(plan(true, [name, 23], [name, 23]));
    const bytes = dataRow('1', '2');
    const row = object(bytes, HEAD_BYTES, bytes.length);
    assert.deepEqual(
      Object.getOwnPropertyDescriptors(row),
      Object.getOwnPropertyDescriptors(owns([name, 2])),
    );
  }
});

test('rereadRows() decodes text of types that were unknown, in objects and in lists, and leaves NULL', () => {
  for (const name of ['own', '__proto__']) {
    const rows = plan(true, [name, UNKNOWN], ['id', 23], ['other', UNKNOWN]);
    assert.deepEqual(rows.unknown, [0, 2]);
    const { object, list } = bound(rows);
    const bytes = dataRow('{1,2}', '7', null);
    const found = [object(bytes, HEAD_BYTES, bytes.length), list(bytes, HEAD_BYTES, bytes.length)];
    const types = new PostgresTypes('auto');
    types.learn([{ oid: UNKNOWN, name: '_own', elementOid: 23, delimiter: ',', baseOid: 0 }]);
    rereadRows(rows, types, found);
    assert.deepEqual(
      Object.getOwnPropertyDescriptors(found[0]),
      Object.getOwnPropertyDescriptors(owns([name, [1, 2]], ['id', 7], ['other', null])),
    );
    assert.deepEqual(found[1], [[1, 2], 7, null]);
  }
});

for (const name of ['id', '__proto__'])
  test(`a row of PostgreSQL that is cut, too long or of other columns is refused (column "${name}")`, () => {
    const { object, list } = bound(plan(false, [name, 23], ['text', 25]));
    const row = dataRow(int32(7), 'text');
    const readings = [object, list] as const;
    for (const read of readings) {
      // two bytes for the number of columns, four for each length, and four for each value
      for (const [from, message] of [
        [0, /number of columns differs/],
        [2, /a truncated row/],
        [6, /a value that exceeds its row/],
        [10, /a truncated row/],
        [14, /a value that exceeds its row/],
      ] as const)
        for (let end = HEAD_BYTES + from; end < HEAD_BYTES + Math.min(from + (from === 0 ? 2 : 4), 18); end++)
          assert.throws(
            () => read(row, HEAD_BYTES, end),
            { name: 'ProtocolViolation', message },
            String(end),
          );
      const long = Buffer.concat([row, Buffer.of(0)]);
      assert.throws(() => read(long, HEAD_BYTES, long.length), /extra bytes after the last value/);
      for (const [other, message] of [
        [dataRow(int32(7)), /number of columns differs/],
        [dataRow(int32(7), 'a', 'b'), /number of columns differs/],
        [dataRow(Buffer.alloc(3), 'a'), /a value of 3 bytes for a type of 4 bytes/],
        [dataRow(Buffer.alloc(5), 'a'), /a value of 5 bytes for a type of 4 bytes/],
      ] as const)
        assert.throws(() => read(other, HEAD_BYTES, other.length), { name: 'ProtocolViolation', message });
      const negative = Buffer.from(row);
      negative.writeInt32BE(-2, HEAD_BYTES + 2);
      assert.throws(() => read(negative, HEAD_BYTES, negative.length), /a value that exceeds its row/);
    }
  });

function bound(rows: RowPlan): Pick<RowPlan, 'object' | 'list' | 'formats'> {
  return { object: rows.object.bind(rows), list: rows.list.bind(rows), formats: rows.formats };
}

test('foundType() reads a row of the query for types, whose numbers may be bigints or text', () => {
  const read = {
    oid: 70_000,
    name: 'mood',
    elementOid: 0,
    delimiter: ',',
    baseOid: 25,
    elementName: undefined,
  };
  for (const make of [Number, BigInt, String])
    assert.deepEqual(foundType([make(70_000), 'mood', make(0), ',', make(25), null]), read);
  assert.deepEqual(foundType([70_001, '_mood', 70_000, ';', 0, 'mood']), {
    oid: 70_001,
    name: '_mood',
    elementOid: 70_000,
    delimiter: ';',
    baseOid: 0,
    elementName: 'mood',
  });
});

const wire = { name: 'a', tableOid: 9, attribute: 2, typeOid: 1043, typeModifier: 24 } as WireColumn;

test('columnLists() returns a list of each number of the columns', () => {
  const other = { name: 'b', tableOid: 0, attribute: 0, typeOid: 25, typeModifier: -1 } as WireColumn;
  assert.deepEqual(columnLists([wire, other]), ['{9,0}', '{2,0}', '{1043,25}', '{24,-1}']);
});

for (const [what, row, expected] of [
  [
    'of a table',
    ['item', 'character varying(20)', 'label', null, false],
    ['item', undefined, 'label', false],
  ],
  ['of another schema', ['item', 'text', 'label', 'shop', true], ['item', 'shop', 'label', true]],
  ['of a view', ['item', 'text', 'label', null, null], ['item', undefined, 'label', undefined]],
  ['of an expression', [null, 'text', null, null, null], [undefined, undefined, undefined, undefined]],
  ['that the server does not find', undefined, [undefined, undefined, undefined, undefined]],
] as const)
  test(`foundColumn() describes a column ${what}`, () => {
    const { name, type, table, schema, column, isNullable } = foundColumn(wire, row);
    assert.deepEqual([table, schema, column, isNullable], expected);
    assert.equal(name, 'a');
    assert.deepEqual(type, row === undefined ? undefined : { name: row[1], oid: 1043, modifier: 24 });
  });
