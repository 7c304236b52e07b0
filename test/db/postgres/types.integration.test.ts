import assert from 'node:assert/strict';
import { SvcError } from '../../../src/base/errors.ts';
import { PostgresTypes } from '../../../src/db/postgres/types.ts';
import { DataError, json, type DatabaseError } from '../../../src/db/index.ts';
import { connected, withPostgres } from '../../support/postgres.ts';
import { READ, VALUES, at, bytes } from '../../support/postgres-values.ts';
import type { PostgresConnection } from '../../../src/db/postgres/connection.ts';

const SCHEMA = `create type pg_temp.svc_mood as enum ('happy', 'so so'); create type pg_temp.svc_pair as (a int, b text);
  create domain pg_temp.svc_positive as int check (value > 0); create domain pg_temp.svc_list as int[]; set search_path = pg_temp, public; set lc_monetary = 'C'`;

/** Compares a value in each protocol mode: unnamed, named, and prepared in binary. Distinguishes -0 and NaN. */
async function same(
  connection: PostgresConnection,
  sql: string,
  params: readonly unknown[],
  expected: unknown,
  what: string,
): Promise<void> {
  for (const use of ['first', 'second', 'third']) {
    const row = await connection.fetchOne(sql, params as never, undefined);
    assert.deepEqual(row, { value: expected }, `${what}, ${use} use`);
  }
}

withPostgres(
  'PostgreSQL types: each value is written and read unchanged, whatever the time zone of the process',
  async (t) => {
    assert.ok(VALUES.length >= 150, String(VALUES.length));
    const connection = await connected(t);
    await connection.script(SCHEMA, undefined);
    const before = process.env['TZ'];
    t.after(() => (before === undefined ? delete process.env['TZ'] : (process.env['TZ'] = before)));
    for (const zone of ['UTC', 'America/New_York', 'Asia/Kathmandu', 'Pacific/Apia']) {
      process.env['TZ'] = zone;
      const isFirst = zone === 'UTC';
      for (const [type, text, value, only] of VALUES.filter(
        ([name]) => isFirst || /date|time|int4/.test(name),
      )) {
        await same(
          connection,
          `select '${type.startsWith('text') && !type.includes('[') ? text : text.replaceAll("''", "''")}'::${type} as value /* ${zone} */`,
          [],
          value,
          `${type} ${text} in ${zone}`,
        );
        if (only !== READ)
          await same(
            connection,
            `select ?::${type} as value /* ${zone} */`,
            [value],
            value,
            `${type} ${text} written in ${zone}`,
          );
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: when statementCache is 0, values are decoded from the text format',
  async (t) => {
    const connection = await connected(t, { statementCache: 0 });
    await connection.script(SCHEMA, undefined);
    for (const [type, text, value] of VALUES)
      await same(connection, `select '${text}'::${type} as value`, [], value, `${type} ${text}`);
    assert.equal(connection.isIdle, true);
  },
);

withPostgres(
  'PostgreSQL types: the option "int8" selects the JavaScript type of int8 values, alone and in lists',
  async (t) => {
    for (const [int8, expected] of [
      ['bigint', [5n, [5n]]],
      ['string', ['5', ['5']]],
      ['auto', [5, [5]]],
    ] as const) {
      const connection = await connected(t, { int8 });
      for (let use = 0; use < 3; use++)
        assert.deepEqual(
          Object.values(
            (await connection.fetchOne("select 5::int8 as a, '{5}'::int8[] as b", [], undefined))!,
          ),
          expected,
        );
    }
  },
);

withPostgres(
  'PostgreSQL types: a value that is invalid for its column is refused before it is sent, and the error has the position of the value',
  async (t) => {
    const connection = await connected(t);
    const circle: unknown[] = [];
    circle.push(circle);
    for (const [type, value] of [
      ['text', { a: 1 }],
      ['text', [1]],
      ['int', [1]],
      ['text', bytes(1)],
      ['int[]', [undefined]],
      ['int[]', [{ a: 1 }]],
      ['int[]', circle],
      ['json', circle],
      ['json', { a: 1n }],
      ['jsonb', Promise.resolve(1)],
      ['text', undefined],
      ['text', () => 1],
      ['text[]', [bytes(1)]],
    ] as const) {
      for (let use = 0; use < 3; use++) {
        await assert.rejects(
          connection.fetchOne(`select 1, ?::int, ?::${type} as value`, [1, value as never], undefined),
          (error) => {
            assert.ok(
              error instanceof SvcError && error.code === 'E_DB_PARAMETER',
              `${type}: ${String(error)}`,
            );
            assert.match(error.message, /parameter 2/);
            return true;
          },
        );
        assert.equal(connection.isIdle, true);
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: for a value that the server would refuse, the client throws a DataError with the SQLSTATE of the server, and does not send the value',
  async (t) => {
    const connection = await connected(t);
    const fromServer = async (sql: string): Promise<unknown> =>
      connection.scalar(sql, [], undefined).then(
        () => assert.fail(sql),
        ({ name, code, sqlstate }: DatabaseError) => ({ name, code, sqlstate }),
      );
    const text = await fromServer("select convert_from('\\xff', 'UTF8')");
    const range = await fromServer('select 9223372036854775808::int8');
    const date = await fromServer("select 'Invalid Date'::timestamptz");
    for (const [type, value, expected] of [
      ['text', 'secret\0', text],
      ['text', 'secret\ud800', text],
      ['text[]', ['a', 'secret\0'], text],
      ['text[]', [['secret\udc00'], ['a']], text],
      ['int', NaN, range],
      ['int', Infinity, range],
      ['int[]', [1, NaN], range],
      ['int8', 2n ** 63n, range],
      ['int8[]', [-(2n ** 63n) - 1n], range],
      ['timestamptz', new Date(NaN), date],
      ['date[]', [new Date(NaN)], date],
    ] as const) {
      for (let use = 0; use < 3; use++) {
        await assert.rejects(
          connection.fetchOne(`select 1, ?::int, ?::${type} as value`, [1, value as never], undefined),
          (error) => {
            assert.ok(error instanceof DataError, `${type}: ${String(error)}`);
            const { name, code, sqlstate, message, sql } = error;
            assert.deepEqual({ name, code, sqlstate }, expected);
            assert.match(message, /^Cannot bind the value of parameter 2: found [^\0]+$/);
            assert.doesNotMatch(message, /secret/);
            assert.equal(sql, `select 1, $1::int, $2::${type} as value`);
            return true;
          },
        );
        assert.equal(connection.isIdle, true);
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: a value outside the range of its type causes a DataError that does not contain the value, each time the statement runs',
  async (t) => {
    const connection = await connected(t);
    for (const [type, value] of [
      ['int4', 1.5],
      ['int4', 2 ** 31],
      ['int2', 40_000],
      ['int4', 'secret'],
      ['date', 'secret'],
      ['uuid', 'secret'],
      ['bool', 'secret'],
      ['int8', '99999999999999999999'],
      ['jsonb', '{secret'],
      ['timestamptz', 'secret'],
      ['int[]', '{secret'],
    ] as const) {
      for (let use = 0; use < 3; use++) {
        await assert.rejects(
          connection.fetchOne(`select ?::${type} as value`, [value], undefined),
          (error) => error instanceof DataError && !/secret|1\.5|40000|9999|2147483648/.test(error.message),
        );
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: each value, including lists and objects, is encoded as the type of its parameter requires',
  async (t) => {
    const connection = await connected(t);
    const noon = at('2024-03-10T12:00:00.250Z');
    for (const [type, value, expected] of [
      ['text', 1.5, '1.5'],
      ['text', 5, '5'],
      ['text', 5n, '5'],
      ['text', true, 'true'],
      ['text', noon, '2024-03-10T12:00:00.25Z'],
      ['numeric', 0.1, '0.1'],
      ['numeric', 1e21, '1000000000000000000000'],
      ['numeric', 10n ** 30n, '1000000000000000000000000000000'],
      ['int4', '42', 42],
      ['int8', '42', 42],
      ['float8', 5n, 5],
      ['date', noon, '2024-03-10'],
      ['timestamp', noon, '2024-03-10T12:00:00.25'],
      ['timestamptz', noon, noon],
      ['json', json([1, { a: 2 }]), [1, { a: 2 }]],
      ['jsonb', json('x'), 'x'],
      ['text', json([1]), '[1]'],
      ['jsonb', [], []],
      ['bool', true, true],
      ['text[]', [1, true, noon], ['1', 'true', '2024-03-10T12:00:00.25Z']],
      ['timestamptz[]', [noon], [noon]],
      ['date[]', [noon], ['2024-03-10']],
      ['jsonb[]', [{ a: 1 }, json([2])], [{ a: 1 }, [2]]],
      ['bytea', Buffer.from([1]), bytes(1)],
      ['float8', -0, -0],
    ] as const)
      await same(connection, `select ?::${type} as value`, [value], expected, `${type} of ${String(value)}`);
  },
);

withPostgres(
  'the oid, name, delimiter and array type of each built-in type are those of the server',
  async (t) => {
    const connection = await connected(t);
    const types = new PostgresTypes('auto');
    const rows = (await connection.fetchAll(
      `select oid::int4 as oid, typname as name, typarray::int4 as "array", typdelim::text as delimiter
     from pg_type where oid < 10000 and typelem = 0 or typname in ('point', 'lseg', 'line', 'name', 'int2vector', 'oidvector')`,
      [],
      undefined,
    )) as unknown as readonly { oid: number; name: string; array: number; delimiter: string }[];
    let known = 0;
    for (const { oid, name, array, delimiter } of rows) {
      const type = types.get(oid);
      if (type === undefined) continue;
      known++;
      assert.deepEqual([type.name, type.oid, type.delimiter], [name, oid, delimiter]);
      if (array !== 0) assert.equal(types.get(array)?.element?.oid, oid, name);
    }
    assert.ok(known > 55, `${known} types`);
  },
);
