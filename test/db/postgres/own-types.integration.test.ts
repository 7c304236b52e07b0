/**
 * An application's own types on PostgreSQL: lists and objects as parameters, arrays, extensions, and replaced
 * built-in types.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DataError, DatabaseError, typed } from '../../../src/db/index.ts';
import { fault } from '../../contract/database.ts';
import { postgresDatabase } from '../../support/postgres-database.ts';
import type { OwnType, Parameter } from '../../../src/db/index.ts';

const POINT: OwnType = {
  parse: (text: string) => {
    if (text.startsWith('(99,')) throw new RangeError('too far');
    return text.slice(1, -1).split(',').map(Number);
  },
  encode: (place: number[]) => {
    if (place.length !== 3) throw new RangeError('not three');
    return `(${place.join(',')})`;
  },
};

test('PostgreSQL: a list is encoded as a value of a custom type, alone and in an array of that type', async (t) => {
  const db = await postgresDatabase(t, { types: { point3: POINT } });
  if (db === undefined) return;
  await db.script(
    'create type point3 as (x float8, y float8, z float8); create table path (id integer primary key, at point3, trail point3[])',
  );
  const insert = 'insert into path (id, at, trail) values (?, ?, ?)';
  const values = (id: number): readonly Parameter[] => [id, [id, 2, 3], [[1, 2, id], null, '(7,8,9)']];
  for (let id = 1; id <= 3; id++) await db.execute(insert, values(id));
  await db.execute(insert, [4, new Float64Array([4, 2, 3]), null]);
  await db.executeMany(insert, [values(5), [6, '(1,1,1)', []]]);
  await db.insertMany(
    'path',
    ['id', 'at', 'trail'],
    Array.from({ length: 200 }, (_, index) => values(100 + index)),
  );
  const read = (id: number) => db.fetchOne('select at, trail from path where id = ?', [id]);
  for (const id of [1, 2, 3, 5, 100, 299])
    assert.deepEqual(await read(id), {
      at: [id, 2, 3],
      trail: [[1, 2, id], null, [7, 8, 9]],
    });
  assert.deepEqual(await read(4), { at: [4, 2, 3], trail: null });
  assert.deepEqual(await read(6), { at: [1, 1, 1], trail: [] });
  assert.deepEqual(await db.scalar('select array[row(1, 2, 3)::point3]'), [[1, 2, 3]]);
  for (let use = 0; use < 2; use++) {
    for (const bad of [
      [7, [1, 2], null],
      [7, null, [[1, 2]]],
    ] as const)
      // prettier-ignore
      await assert.rejects(db.execute(insert, bad), fault('E_DB_PARAMETER'));
    const rows = Array.from(
      { length: 100 },
      (_, index) => [1_000 + index, index < 90 ? [1, 2, 3] : [1], null] as const,
    );
    await assert.rejects(db.insertMany('path', ['id', 'at', 'trail'], rows), fault('E_DB_PARAMETER'));
    await assert.rejects(db.executeMany(insert, rows), fault('E_DB_PARAMETER'));
    await assert.rejects(db.scalar('select array[row(99, 2, 3)::point3]'), DataError);
    await assert.rejects(db.scalar('select row(99, 2, 3)::point3'), DataError);
  }
  assert.equal(await db.scalar('select count(*) from path'), 206);
});

test('PostgreSQL: an array of a custom type is decoded, even if the client has not yet read a single value of that type', async (t) => {
  const db = await postgresDatabase(t, { types: { point3: POINT } });
  if (db === undefined) return;
  await db.script('create type point3 as (x float8, y float8, z float8)');
  for (let use = 0; use < 3; use++)
    assert.deepEqual(await db.scalar('select array[row(1, 2, 3)::point3, null]'), [[1, 2, 3], null]);
  const text = await postgresDatabase(t, { statementCache: 0, types: { point3: POINT } });
  await text!.script('create type point3 as (x float8, y float8, z float8)');
  assert.deepEqual(await text!.scalar('select ?::point3', [typed('point3', [1, 2, 3])]), [1, 2, 3]);
});

test('PostgreSQL: a custom type can decode and encode hstore values', async (t) => {
  const db = await postgresDatabase(t, {
    types: {
      hstore: {
        parse: (text: string) =>
          Object.fromEntries(
            [...text.matchAll(/"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)/g)].map(([, key, value]) => [
              key!.replace(/\\(.)/g, '$1'),
              value?.replace(/\\(.)/g, '$1') ?? null,
            ]),
          ),
        encode: (map: Record<string, string | null>) =>
          Object.entries(map)
            .map(
              ([key, value]) => `${JSON.stringify(key)}=>${value === null ? 'NULL' : JSON.stringify(value)}`,
            )
            .join(','),
      },
    },
  });
  if (db === undefined) return;
  try {
    await db.execute('create extension hstore');
  } catch (error) {
    assert.ok(error instanceof DatabaseError);
    return t.skip('this server has no hstore');
  }
  await db.script('create table attributes (id integer primary key, data hstore)');
  const value = { a: '1', 'b "quoted"': 'x\\y', c: null };
  await db.insertMany(
    'attributes',
    ['id', 'data'],
    Array.from({ length: 100 }, (_, id) => [id, typed('hstore', value)]),
  );
  for (let use = 0; use < 3; use++)
    assert.deepEqual(await db.scalar('select data from attributes where id = ?', [use]), value);
  assert.deepEqual(await db.scalar("select data -> 'a' from attributes where id = 5"), '1');
});

test('PostgreSQL: a custom type replaces the built-in decoder of the type with the same name, also in arrays', async (t) => {
  const db = await postgresDatabase(t, {
    types: {
      numeric: { parse: BigInt as (text: string) => bigint },
      timestamptz: { parse: (at: Date) => at.getTime() },
    },
  });
  if (db === undefined) return;
  for (let use = 0; use < 3; use++)
    assert.deepEqual(
      await db.fetchOne(
        "select 12345678901234567890::numeric as n, array[1::numeric] as list, 'epoch'::timestamptz as at, 5::int8 as i",
      ),
      { n: 12_345_678_901_234_567_890n, list: [1n], at: 0, i: 5 },
    );
});
