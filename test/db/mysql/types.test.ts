/** Names of the column types of MySQL and MariaDB. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BINARY_CHARSET, type WireColumn } from '../../../src/db/mysql/messages.ts';
import { typeName } from '../../../src/db/mysql/types.ts';
import { TYPE } from '../../../src/db/mysql/wire.ts';

const UNSIGNED = 0x20;
const UTF8 = 45;

const nameOf = (type: number, changes: Partial<WireColumn> = {}): string =>
  typeName({ type, charset: UTF8, length: 0, extended: '', flags: 0, ...changes } as WireColumn);

for (const [type, name] of [
  [TYPE.tiny, 'tinyint'],
  [TYPE.short, 'smallint'],
  [TYPE.int24, 'mediumint'],
  [TYPE.long, 'int'],
  [TYPE.longlong, 'bigint'],
  [TYPE.decimal, 'decimal'],
  [TYPE.newDecimal, 'decimal'],
] as const)
  test(`typeName() returns "${name}" or "${name} unsigned" for the type ${type}`, () => {
    assert.deepEqual([nameOf(type), nameOf(type, { flags: UNSIGNED })], [name, `${name} unsigned`]);
  });

for (const [type, name] of [
  [TYPE.float, 'float'],
  [TYPE.double, 'double'],
  [TYPE.null, 'null'],
  [TYPE.timestamp, 'timestamp'],
  [TYPE.date, 'date'],
  [TYPE.newDate, 'date'],
  [TYPE.time, 'time'],
  [TYPE.datetime, 'datetime'],
  [TYPE.year, 'year'],
  [TYPE.bit, 'bit'],
  [TYPE.json, 'json'],
  [TYPE.enum, 'enum'],
  [TYPE.set, 'set'],
  [TYPE.geometry, 'geometry'],
  [TYPE.vector, 'vector'],
  [99, 'unknown'],
] as const)
  test(`typeName() returns "${name}" for the type ${type}, whatever its flags and charset are`, () => {
    for (const changes of [{}, { flags: UNSIGNED }, { charset: BINARY_CHARSET }])
      assert.equal(nameOf(type, changes), name);
  });

test('typeName() returns the name of a text or binary type by charset, flags and length', () => {
  for (const [type, changes, text, bytes] of [
    [TYPE.varchar, {}, 'varchar', 'varbinary'],
    [TYPE.varString, {}, 'varchar', 'varbinary'],
    [TYPE.string, {}, 'char', 'binary'],
    [TYPE.string, { flags: 0x100 }, 'enum', 'enum'],
    [TYPE.string, { flags: 0x800 }, 'set', 'set'],
    [TYPE.blob, { length: 4 * 0xff }, 'tinytext', 'tinyblob'],
    [TYPE.tinyBlob, { length: 4 * 0xff + 1 }, 'text', 'blob'],
    [TYPE.blob, { length: 4 * 0xffff }, 'text', 'blob'],
    [TYPE.mediumBlob, { length: 4 * 0xffff + 1 }, 'mediumtext', 'mediumblob'],
    [TYPE.blob, { length: 4 * 0xff_ffff }, 'mediumtext', 'mediumblob'],
    [TYPE.longBlob, { length: 4 * 0xff_ffff + 1 }, 'longtext', 'longblob'],
    [TYPE.blob, { length: 0xffff_ffff }, 'longtext', 'longblob'],
  ] as const)
    assert.deepEqual(
      [nameOf(type, changes), nameOf(type, { ...changes, charset: BINARY_CHARSET })],
      [text, bytes],
    );
});

test('typeName() returns the name that MariaDB sends for its own types', () => {
  assert.equal(nameOf(TYPE.string, { extended: 'uuid', charset: BINARY_CHARSET }), 'uuid');
});
