import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { SvcError } from '../../../src/base/errors.ts';
import type { FaultCode } from '../../../src/base/faults.ts';
import {
  CheckViolation,
  CommitOutcomeUnknown,
  ConnectionLost,
  DataError,
  DatabaseError,
  ForeignKeyViolation,
  LockTimeout,
  NotNullViolation,
  QueryCanceled,
  QueryTimeout,
  ReadOnly,
  StatementError,
  TransactionAborted,
  UniqueViolation,
} from '../../../src/db/index.ts';
import { connectPostgres } from '../../../src/db/postgres/connect.ts';
import { refusedData } from '../../contract/database.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { connected, optionsOf, soon, withPostgres } from '../../support/postgres.ts';
import { sharedPostgres } from '../../support/postgres-database.ts';
import type { Params } from '../../../src/db/index.ts';
import type { PostgresConnection } from '../../../src/db/postgres/connection.ts';

const WRITING = { isolation: undefined, isReadOnly: false } as const;

const fault =
  (code: FaultCode) =>
  (error: unknown): boolean =>
    error instanceof SvcError && error.code === code;

/** Creates a table for this connection only. */
async function withTable(
  connection: PostgresConnection,
  columns: string = 'id int primary key, label text',
): Promise<void> {
  await connection.script(`create temp table item (${columns})`, undefined);
}

const idOf = (connection: PostgresConnection): Promise<unknown> =>
  connection.scalar('select pg_backend_pid()', [], undefined);

// ── statements ──

withPostgres(
  'PostgreSQL connection: a statement returns equal results each time it runs, before and after it is prepared',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    for (let use = 1; use <= 4; use++) {
      assert.deepEqual(
        await connection.execute(
          'insert into item values (?, ?), (?, ?)',
          [2 * use, 'a', 2 * use + 1, null],
          undefined,
        ),
        { affectedRows: 2, lastInsertId: undefined },
      );
      assert.deepEqual(
        await connection.fetchAll('select * from item where id >= ? order by id', [2 * use], undefined),
        [
          { id: 2 * use, label: 'a' },
          { id: 2 * use + 1, label: null },
        ],
      );
      assert.deepEqual(await connection.fetchOne('select * from item where id = ?', [2 * use], undefined), {
        id: 2 * use,
        label: 'a',
      });
      assert.equal(
        await connection.fetchOne('select * from item where id = ?', [-use], undefined),
        undefined,
      );
      assert.equal(await connection.scalar('select count(*) from item', [], undefined), 2 * use);
      assert.deepEqual(
        await connection.fetchArrays('select label, id, label from item where id = ?', [2], undefined),
        {
          columns: [
            { name: 'label', table: 'item', type: 'text' },
            { name: 'id', table: 'item', type: 'integer' },
            { name: 'label', table: 'item', type: 'text' },
          ],
          rows: [['a', 2, 'a']],
        },
      );
      assert.deepEqual(
        await connection.execute('update item set label = ? where id = ? returning *', ['a', 2], undefined),
        { affectedRows: 1, lastInsertId: undefined },
      );
    }
    assert.deepEqual(await connection.fetchArrays("set local work_mem = '4MB'", [], undefined), {
      columns: [],
      rows: [],
    });
    assert.equal((await connection.execute('select 1', [], undefined)).affectedRows, 0);
  },
);

withPostgres(
  'PostgreSQL connection: a row is a plain object even with a column "__proto__", and two columns with one name give the value of the last',
  async (t) => {
    const connection = await connected(t);
    const row = (await connection.fetchOne(
      'select 1 as a, 2 as a, 3 as __proto__, 4 as constructor',
      [],
      undefined,
    ))!;
    assert.equal(await connection.scalar('select 1 as a, 2 as a', [], undefined), 1);
    assert.deepEqual(
      [
        Object.keys(row),
        Object.getPrototypeOf(row),
        row['a'],
        Object.getOwnPropertyDescriptor(row, '__proto__')?.value,
        row['constructor'],
      ],
      [['a', '__proto__', 'constructor'], Object.prototype, 2, 3, 4],
    );
  },
);

withPostgres(
  'PostgreSQL connection: pipelined statements get their replies in the order in which they were sent',
  async (t) => {
    const connection = await connected(t);
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        connection.scalar(`select ?::int + ${index % 7}`, [index], undefined),
      ),
    );
    assert.deepEqual(
      answers,
      Array.from({ length: 200 }, (_, index) => index + (index % 7)),
    );
    const mixed = await Promise.allSettled([
      connection.scalar('select 1', [], undefined),
      connection.scalar('select nothing', [], undefined),
      connection.scalar('select 1/?::int', [0], undefined),
      connection.scalar('select 4', [], undefined),
    ]);
    assert.deepEqual(
      mixed.map((each) => each.status),
      ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
    );
    assert.equal(connection.isIdle, true);
  },
);

withPostgres(
  'PostgreSQL connection: at most "statementCache" statements stay prepared, and all other prepared statements are closed on the server',
  async (t) => {
    const connection = await connected(t, { statementCache: 3 });
    for (let index = 0; index < 20; index++) {
      for (let use = 0; use < 3; use++)
        assert.equal(await connection.scalar(`select ${index}`, [], undefined), index);
    }
    const named = 'select count(*) from pg_prepared_statements';
    // one statement is being closed
    for (let use = 0; use < 3; use++) assert.ok(Number(await connection.scalar(named, [], undefined)) <= 4);
  },
);

withPostgres(
  'PostgreSQL connection: when statementCache is 0, statements are sent without names',
  async (t) => {
    const connection = await connected(t, { statementCache: 0 });
    for (let use = 0; use < 3; use++)
      assert.equal(await connection.scalar('select ?::int', [use], undefined), use);
    assert.deepEqual(
      await connection.fetchOne(
        'select ?::int[] as a, ?::bytea as b',
        [[1, null], new Uint8Array([0, 255])] as unknown as Params,
        undefined,
      ),
      { a: [1, null], b: new Uint8Array([0, 255]) },
    );
    assert.equal(await connection.scalar('select count(*) from pg_prepared_statements', [], undefined), 0);
    await withTable(connection);
    assert.equal(
      await connection.executeMany(
        'insert into item values (?, ?)',
        [
          [1, 'a'],
          [2, null],
        ],
        undefined,
      ),
      2,
    );
  },
);

withPostgres(
  'PostgreSQL connection: the property "detail" of an error has the DETAIL that the server sends, and does not appear in logs',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection, 'id int primary key, label text');
    await connection.execute('insert into item values (1, ?)', ['secret'], undefined);
    const failure = async (sql: string): Promise<DatabaseError> => {
      try {
        await connection.execute(sql, [], undefined);
      } catch (error) {
        if (error instanceof DatabaseError) return error;
      }
      throw assert.fail('not a DatabaseError');
    };
    const unique = await failure("insert into item values (1, 'x')");
    assert.equal(unique.detail, 'Key (id)=(1) already exists.');
    const missing = await failure('select labels from item');
    assert.match(missing.hint!, /label/);
    const inFunction = await failure(
      "do $$ begin raise unique_violation using detail = 'secret-' || 7; end $$",
    );
    assert.equal(inFunction.detail, 'secret-7');
    assert.match(inFunction.where!, /PL\/pgSQL/);
    for (const shown of [inspect(inFunction), JSON.stringify(inFunction)])
      assert.ok(!shown.includes('secret-7'), shown);
  },
);

withPostgres(
  'PostgreSQL connection: a statement throws QueryTimeout if it exceeds statement_timeout of the server, and QueryCanceled if its signal is aborted',
  async (t) => {
    const connection = await connected(t);
    await connection.execute("set statement_timeout = '50ms'", [], undefined);
    await assert.rejects(connection.execute('select pg_sleep(30)', [], undefined), QueryTimeout);
    await connection.execute('set statement_timeout = 0', [], undefined);
    await assert.rejects(
      connection.execute('select pg_sleep(30)', [], {
        signal: AbortSignal.timeout(50),
        deadlineMs: Infinity,
        timeoutMs: 0,
      }),
      QueryCanceled,
    );
  },
);

withPostgres(
  'PostgreSQL connection: a numeric column accepts a bigint of any length, alone, in a list and in COPY, even in a new statement',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection, 'id int primary key, amount numeric');
    const wide = 123456789012345678901234567890n;
    for (let id = 1; id <= 3; id++)
      await connection.execute('insert into item values (?, ?)', [id, wide], undefined);
    const rows = Array.from({ length: 200 }, (_, index) => [10 + index, -wide] as const);
    await connection.insertMany('item', ['id', 'amount'], rows, undefined);
    assert.deepEqual(
      await connection.fetchAll(
        'select amount, count(*) from item group by amount order by amount',
        [],
        undefined,
      ),
      [
        { amount: String(-wide), count: 200 },
        { amount: String(wide), count: 3 },
      ],
    );
    assert.equal(
      await connection.scalar('select count(*) from item where amount = any (?)', [[wide]], undefined),
      3,
    );
    await assert.rejects(
      connection.scalar('select ?::int8', [wide], undefined),
      refusedData('22003', /parameter 1: /),
    );
  },
);

withPostgres(
  'PostgreSQL connection: in a statement with placeholders such as $1, operators that contain ? keep their meaning',
  async (t) => {
    const connection = await connected(t);
    for (let use = 0; use < 3; use++) {
      assert.equal(await connection.scalar(`select '{"tag":1}'::jsonb ? $1`, ['tag'], undefined), true);
      assert.equal(
        await connection.scalar(`select '{"tag":1}'::jsonb ?| $1 and $2`, [['x', 'tag'], true], undefined),
        true,
      );
    }
  },
);

withPostgres(
  'PostgreSQL connection: when the query plan of a prepared statement is out of date, the statement is prepared again',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    await connection.execute('insert into item values (1, ?)', ['a'], undefined);
    const read = (): Promise<unknown> => connection.fetchOne('select * from item', [], undefined);
    for (let use = 0; use < 3; use++) await read();
    await connection.execute('alter table item add column extra int', [], undefined);
    assert.deepEqual(await read(), { id: 1, label: 'a', extra: null });
    for (let use = 0; use < 3; use++) await read();
    await connection.execute('deallocate all', [], undefined);
    assert.deepEqual(await read(), { id: 1, label: 'a', extra: null });
    for (let use = 0; use < 3; use++) await read();
    await connection.begin(WRITING, undefined);
    await connection.execute('alter table item rename column extra to other', [], undefined);
    await assert.rejects(read(), StatementError); // the stale plan has failed the transaction
    await connection.rollback();
    assert.deepEqual(await read(), { id: 1, label: 'a', extra: null });
  },
);

withPostgres(
  'PostgreSQL connection: an SQL function that raises SQLSTATE 0A000 runs only once per call, and its error is not retryable',
  async (t) => {
    const connection = await connected(t);
    await connection.execute('create temporary sequence runs', [], undefined);
    await connection.execute(
      "create function pg_temp.refused(n int) returns int language plpgsql as $$ begin perform nextval('runs'); if n > 3 then raise 'no' using errcode = '0A000'; end if; return n; end $$",
      [],
      undefined,
    );
    const call = (n: number): Promise<unknown> =>
      connection.scalar('select pg_temp.refused(?::int)', [n], undefined);
    for (let n = 1; n <= 3; n++) await call(n);
    const refused = (error: unknown): boolean =>
      error instanceof StatementError && error.sqlstate === '0A000' && !error.isRetryable;
    await assert.rejects(call(4), refused);
    await connection.begin(WRITING, undefined);
    await assert.rejects(call(4), refused);
    await connection.rollback();
    assert.equal(await connection.scalar("select nextval('runs')", [], undefined), 6);
  },
);

withPostgres(
  'PostgreSQL connection: after a type in a statement was dropped and created again, the statement is prepared again once',
  async (t) => {
    const connection = await connected(t);
    const run = (text: string): Promise<void> => connection.script(text, undefined);
    await run("create type pg_temp.mood as enum ('low'); create domain pg_temp.size as integer");
    await run(
      "create temp table item (id int primary key, mood pg_temp.mood); insert into item values (1, 'low')",
    );
    const path = await connection.scalar(
      'select nspname from pg_namespace where oid = pg_my_temp_schema()',
      [],
      undefined,
    );
    const insert = 'insert into item values (?, ?) on conflict (id) do update set mood = excluded.mood';
    const uses: Record<string, () => Promise<unknown>> = {
      insert: () =>
        connection.execute(insert, [1, 'low'], undefined).then(({ affectedRows }) => affectedRows),
      many: () => connection.executeMany(insert, [[1, 'low']], undefined),
      read: () => connection.scalar('select id from item where mood = ?', ['low'], undefined),
      limited: () =>
        connection.scalar('select count(*) from item where mood = ?', ['low'], {
          signal: new AbortController().signal,
          deadlineMs: Infinity,
          timeoutMs: 0,
        }),
      domain: () => connection.scalar('select count(?::pg_temp.size)', [1], undefined),
    };
    const replaced = async (): Promise<void> => {
      for (let use = 0; use < 3; use++) for (const each of Object.values(uses)) await each();
      for (const text of [
        `alter type ${String(path)}.mood rename to old_mood`,
        `create type ${String(path)}.mood as enum ('low', 'high')`,
        `alter table ${String(path)}.item alter mood type ${String(path)}.mood using mood::text::${String(path)}.mood`,
        `drop type ${String(path)}.old_mood`,
        `drop domain ${String(path)}.size`,
        `create domain ${String(path)}.size as text`,
      ])
        await connection.execute(text, [], undefined);
    };
    for (const [name, use] of Object.entries(uses)) {
      await replaced();
      assert.equal(Number(await use()), 1, name);
      assert.equal(Number(await use()), 1, name);
      await replaced();
      await connection.begin(WRITING, undefined);
      assert.equal(Number(await use()), 1, `${name}, first in a transaction`);
      await connection.rollback();
      await replaced();
      await connection.begin(WRITING, undefined);
      await connection.scalar('select 1', [], undefined);
      await assert.rejects(use(), (error) => error instanceof StatementError && error.isRetryable, name);
      await connection.rollback();
      assert.equal(Number(await use()), 1, `${name}, in the transaction that is run again`);
    }
  },
);

withPostgres(
  'PostgreSQL connection: after the type of a column was altered, a prepared statement accepts values of the new type',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    const [insert, read, WIDE] = [
      'insert into item (id, label) values (?, ?)',
      'select label from item where id = ?',
      3_000_000_000,
    ];
    const one = (id: number): Promise<unknown> => connection.execute(insert, [id, '"a"'], undefined);
    const known = (id: number): Promise<unknown> => connection.fetchOne(read, [id], undefined);
    for (let use = 0; use < 3; use++) await Promise.all([one(use), known(use)]);
    await assert.rejects(one(WIDE), DataError);
    await assert.rejects(known(WIDE), DataError);
    for (let use = 3; use < 6; use++) await Promise.all([one(use), known(use)]);
    await connection.execute('alter table item alter id type bigint', [], undefined);
    await one(WIDE);
    assert.deepEqual(await known(WIDE), { label: '"a"' });
    await connection.execute("alter table item alter label type jsonb using '1'", [], undefined);
    assert.equal(await connection.executeMany(insert, [[WIDE + 1, '"a"']], undefined), 1);
    assert.deepEqual(await known(WIDE + 1), { label: 'a' });
    for (let use = 6; use < 9; use++) await one(use);
    await connection.execute('alter table item alter label type text', [], undefined);
    await connection.begin(WRITING, undefined);
    // a failed transaction runs no further statements
    await assert.rejects(connection.execute(insert, [-1, 'no JSON'], undefined), DataError);
    await connection.rollback();
    await connection.execute(insert, [-1, 'no JSON'], undefined);
  },
);

withPostgres(
  'PostgreSQL connection: values of types that are not built in are decoded, even at the first use of a statement',
  async (t) => {
    const connection = await connected(t);
    await connection.script("create type pg_temp.svc_color as enum ('red', 'green')", undefined);
    for (let use = 0; use < 3; use++) {
      assert.deepEqual(
        await connection.fetchOne(
          "select array['red', null]::pg_temp.svc_color[] as list, 'green'::pg_temp.svc_color as one",
          [],
          undefined,
        ),
        { list: ['red', null], one: 'green' },
      );
      assert.deepEqual(
        (
          await connection.fetchArrays(
            "select array['red']::pg_temp.svc_color[] as a, array['green']::pg_temp.svc_color[] as a",
            [],
            undefined,
          )
        ).rows,
        [[['red'], ['green']]],
      );
    }
  },
);

for (const text of ['', ' -- nothing', 'select 1; select 2', 'begin', 'commit']) {
  withPostgres(
    `PostgreSQL connection: the client refuses an invalid statement and does not send it: ${JSON.stringify(text)}`,
    async (t) => {
      await assert.rejects((await connected(t)).execute(text, [], undefined), fault('E_DB_STATEMENT'));
    },
  );
}

withPostgres(
  'PostgreSQL connection: the client refuses a statement with a wrong number of values and does not send it',
  async (t) => {
    const connection = await connected(t);
    for (const params of [[], [1, 2]])
      await assert.rejects(connection.execute('select ?', params, undefined), fault('E_DB_PARAMETER_COUNT'));
    await assert.rejects(
      connection.executeMany('select ?', [[1], []], undefined),
      fault('E_DB_PARAMETER_COUNT'),
    );
    assert.equal(connection.isIdle, true);
  },
);

withPostgres(
  'PostgreSQL connection: the statement COPY FROM STDIN is refused, and the statement COPY TO STDOUT returns no rows',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    await assert.rejects(connection.execute('copy item from stdin', [], undefined), StatementError);
    await assert.rejects(connection.script('copy item from stdin', undefined), StatementError);
    await connection.execute('insert into item values (1, ?)', ['a'], undefined);
    assert.equal((await connection.execute('copy item to stdout', [], undefined)).affectedRows, 1);
    await connection.script('copy item to stdout', undefined);
    for (let use = 0; use < 3; use++)
      for (const refused of [
        connection.fetchAll('copy item to stdout', [], undefined),
        connection.fetchOne('copy item to stdout', [], undefined),
        connection.scalar('copy item to stdout', [], undefined),
      ])
        await assert.rejects(
          refused,
          (error) => error instanceof StatementError && /use stream\(\)/.test(error.message),
        );
    assert.equal(await connection.scalar('select count(*) from item', [], undefined), 1);
    assert.equal(connection.isIdle, true);
  },
);

// ── errors ──

withPostgres(
  'PostgreSQL connection: an error names the constraint, the table and the position in the statement, and contains no value',
  async (t) => {
    const connection = await connected(t);
    await connection.script(
      `create temp table parent (id int primary key, name text not null unique, "odd ""name" int unique);
    create temp table child (id int primary key, parent int references parent (id), rank int constraint low check (rank < 100));
    insert into parent values (1, 'taken', 7)`,
      undefined,
    );
    for (const [Class, sql, params, expected] of [
      [
        UniqueViolation,
        'insert into parent values (?, ?)',
        [2, 'taken'],
        ['23505', 'parent', ['name'], 'parent_name_key', undefined],
      ],
      [
        UniqueViolation,
        'insert into parent values (3, ?, ?)',
        ['secret', 7],
        ['23505', 'parent', ['odd "name'], 'parent_odd "name_key', undefined],
      ],
      [
        NotNullViolation,
        'insert into parent values (?, ?)',
        [9, null],
        ['23502', 'parent', ['name'], undefined, undefined],
      ],
      [
        ForeignKeyViolation,
        'insert into child values (1, ?)',
        [987_654],
        ['23503', 'child', ['parent'], 'child_parent_fkey', undefined],
      ],
      [
        CheckViolation,
        'insert into child values (1, 1, ?)',
        [987_654],
        ['23514', 'child', [], 'low', undefined],
      ],
      [StatementError, 'select 1, nothing from parent', [], ['42703', undefined, [], undefined, 11]],
      [StatementError, 'selec 1', [], ['42601', undefined, [], undefined, 1]],
      [StatementError, 'select * from nowhere where a = ?', [1], ['42P01', undefined, [], undefined, 15]],
    ] as const) {
      for (let use = 0; use < 3; use++) {
        await assert.rejects(connection.execute(sql, params, undefined), (error) => {
          assert.ok(error instanceof Class, `${sql}: ${String(error)}`);
          assert.deepEqual(
            [error.sqlstate, error.table, error.columns, error.constraint, error.position],
            expected,
            sql,
          );
          assert.equal(error.sql, sql.replace('?, ?', '$1, $2').replace('?', '$1'));
          assert.doesNotMatch(`${error.message} ${JSON.stringify(error)}`, /taken|secret|987654/);
          return true;
        });
      }
    }
  },
);

withPostgres('PostgreSQL connection: a warning that the server sends is logged', async (t) => {
  const { logger, events } = collectedLog();
  const connection = await connected(t, { log: logger });
  await connection.script("do $$ begin raise warning 'look'; raise notice 'not this'; end $$", undefined);
  assert.deepEqual(
    events
      .map(({ msg, message, sqlstate }) => [msg ?? message, sqlstate])
      .flat()
      .filter((word) => word === '01000').length,
    1,
  );
});

// ── many rows ──

withPostgres(
  'PostgreSQL connection: executeMany() writes all rows or none, inside and outside a transaction',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    const insert = 'insert into item values (?, ?)';
    const count = (): Promise<unknown> => connection.scalar('select count(*) from item', [], undefined);
    assert.equal(await connection.executeMany(insert, [], undefined), 0);
    assert.equal(
      await connection.executeMany(
        insert,
        Array.from({ length: 20_000 }, (_, id) => [id, `label ${id}`]),
        undefined,
      ),
      20_000,
    );
    assert.equal(
      await connection.executeMany(
        'update item set label = ? where id = ?',
        [
          ['x', 0],
          ['y', -1],
          ['z', 1],
        ],
        undefined,
      ),
      2,
    );
    assert.equal(await connection.executeMany('delete from item returning id', [[]], undefined), 20_000);
    await assert.rejects(
      connection.executeMany(
        insert,
        Array.from({ length: 5_000 }, (_, id) => [id % 4_999, null]),
        undefined,
      ),
      UniqueViolation,
    );
    await assert.rejects(
      connection.executeMany(
        insert,
        [
          [1, 'a'],
          [2, 'b'],
          [3, NaN],
        ],
        undefined,
      ),
      refusedData('22003', /parameter 2 of row 3/),
    );
    await assert.rejects(
      connection.executeMany(insert, [[1, 'a'], [2]], undefined),
      (error) => fault('E_DB_PARAMETER_COUNT')(error) && /row 2/.test((error as Error).message),
    );
    const broken = function* (): Generator<Params> {
      yield [1, 'a'];
      throw new RangeError('mine');
    };
    await assert.rejects(connection.executeMany(insert, broken(), undefined), RangeError);
    assert.equal(await count(), 0);
    await connection.begin(WRITING, undefined);
    await connection.execute(insert, [1, 'kept'], undefined);
    await connection.savepoint('svc_1');
    await assert.rejects(
      connection.executeMany(
        insert,
        [
          [2, 'a'],
          [2, 'b'],
        ],
        undefined,
      ),
      UniqueViolation,
    );
    await connection.rollbackTo('svc_1');
    await assert.rejects(
      connection.executeMany(
        insert,
        [
          [3, 'a'],
          [4, Symbol('x')],
        ] as never,
        undefined,
      ),
      fault('E_DB_PARAMETER'),
    );
    await connection.rollback();
    assert.deepEqual([await count(), connection.isIdle], [0, true]);
  },
);

withPostgres(
  'PostgreSQL connection: other requests wait until executeMany() has ended, even if executeMany() sends more data than the server reads at once',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    const text = 'x'.repeat(10_000);
    const many = connection.executeMany(
      'insert into item values (?, ?)',
      Array.from({ length: 2_000 }, (_, id) => [id, text]),
      undefined,
    );
    const others = Array.from({ length: 5 }, () =>
      connection.scalar('select count(*) from item', [], undefined),
    );
    assert.equal(await many, 2_000);
    for (const other of others) assert.ok([0, 2_000].includes(Number(await other)));
  },
);

withPostgres(
  'PostgreSQL connection: executeMany() ends even if its statements return large results',
  async (t) => {
    const connection = await connected(t);
    assert.equal(
      await connection.executeMany(
        "select repeat('x', ?)",
        Array.from({ length: 3_000 }, () => [20_000]),
        undefined,
      ),
      0,
    );
  },
);

for (const count of [63, 64]) {
  withPostgres(
    `PostgreSQL connection: insertMany() of ${count} rows stores a negative zero with its sign`,
    async (t) => {
      const connection = await connected(t);
      await connection.script('create temporary table zero (v double precision)', undefined);
      await connection.insertMany(
        'zero',
        ['v'],
        Array.from({ length: count }, () => [-0]),
        undefined,
      );
      assert.equal(Object.is(await connection.scalar('select v from zero limit 1', [], undefined), -0), true);
    },
  );
}

withPostgres(
  'PostgreSQL connection: for any number of rows, insertMany() inserts all rows or none, and refuses the values that INSERT refuses',
  async (t) => {
    const connection = await connected(t);
    await connection.script(
      `create temp table "odd ""table" (id int primary key, "te xt" text default 'd', at timestamptz, list text[], doc jsonb, raw bytea, n float8, big int8, day date, yes bool);
    create temp table always (id int generated always as identity, label text); create temp view seen as select * from always`,
      undefined,
    );
    const awkward = ['', '\\', '\\N', '\t', 'a\nb\rc', '\\.', 'grüße 😀', '\b\f\v', 'NULL'];
    const row = (id: number): unknown[] => [
      id,
      awkward[id % awkward.length],
      new Date(id * 86_400_000),
      ['a\t"', null, '\\'],
      { a: [id, 'x\ny'] },
      new Uint8Array([0, 92, id % 256]),
      id / 7,
      2n ** 60n + BigInt(id),
      new Date(id * 86_400_000),
      id % 2 === 0,
    ];
    const columns = ['id', 'te xt', 'at', 'list', 'doc', 'raw', 'n', 'big', 'day', 'yes'];
    for (const count of [3, 63, 64, 5_000]) {
      assert.equal(
        await connection.insertMany(
          '"odd ""table"',
          columns.map((name) => `"${name}"`),
          Array.from({ length: count }, (_, id) => row(id)) as never,
          undefined,
        ),
        count,
      );
      const rows = (await connection.fetchArrays('select * from "odd ""table" order by id', [], undefined))
        .rows;
      assert.deepEqual(
        rows,
        Array.from({ length: count }, (_, id) =>
          row(id).with(8, new Date(id * 86_400_000).toISOString().slice(0, 10)),
        ),
      );
      await connection.execute('delete from "odd ""table"', [], undefined);
    }
    const broken = function* (): Generator<Params> {
      for (let id = 0; id < 500; id++) yield [id];
      throw new RangeError('mine');
    };
    await assert.rejects(connection.insertMany('"odd ""table"', ['id'], broken(), undefined), RangeError);
    const ids = (last: unknown): Params[] => [
      ...Array.from({ length: 500 }, (_, id) => [id]),
      last as Params,
    ];
    await assert.rejects(
      connection.insertMany('"odd ""table"', ['id'], ids([7]), undefined),
      UniqueViolation,
    );
    await assert.rejects(
      connection.insertMany('"odd ""table"', ['id'], ids([null]), undefined),
      NotNullViolation,
    );
    await assert.rejects(
      connection.insertMany('"odd ""table"', ['id'], ids(['secret']), undefined),
      (error) =>
        error instanceof DatabaseError && error.sqlstate === '22P02' && !error.message.includes('secret'),
    );
    await assert.rejects(
      connection.insertMany('"odd ""table"', ['id'], ids([undefined]), undefined),
      (error) => fault('E_DB_PARAMETER')(error) && /parameter 1 of row 501/.test((error as Error).message),
    );
    await assert.rejects(
      connection.insertMany('"odd ""table"', ['id'], ids([[1]]), undefined),
      fault('E_DB_PARAMETER'),
    );
    await assert.rejects(
      connection.insertMany('"odd ""table"', ['id'], ids([]), undefined),
      fault('E_DB_PARAMETER_COUNT'),
    );
    await assert.rejects(connection.insertMany('always', ['id'], ids([1]), undefined), DatabaseError);
    assert.equal(
      await connection.insertMany(
        'seen',
        ['label'],
        Array.from({ length: 100 }, () => ['x']),
        undefined,
      ),
      100,
    );
    assert.equal(await connection.insertMany('always', ['label'], [], undefined), 0);
    await assert.rejects(connection.insertMany('nowhere', ['label'], ids([1]), undefined), StatementError);
    const slow = function* (): Generator<Params> {
      for (let id = 0; ; id++) yield [id, 'x'.repeat(1_000)];
    };
    await assert.rejects(
      connection.insertMany('"odd ""table"', ['id', '"te xt"'], slow(), soon(100)),
      QueryTimeout,
    );
    assert.deepEqual(
      [await connection.scalar('select count(*) from "odd ""table"', [], undefined), connection.isIdle],
      [0, true],
    );
  },
);

// ── streams ──

withPostgres(
  'PostgreSQL connection: stream() reads rows in batches, and its transaction ends when the loop over the rows ends, breaks or throws',
  async (t) => {
    const connection = await connected(t);
    const numbers = 'select n from generate_series(1, ?::int) n';
    for (let use = 0; use < 3; use++) {
      const sizes: number[] = [];
      for await (const batch of connection.stream(numbers, [600], undefined)) sizes.push(batch.length);
      assert.deepEqual([sizes, connection.isIdle], [[256, 256, 88], true]);
    }
    for await (const _ of connection.stream(numbers, [600], undefined)) break;
    assert.equal(connection.isIdle, true);
    for await (const _ of connection.stream('select 1 where false', [], undefined))
      assert.fail('the table is empty');
    await assert.rejects(
      (async () => {
        for await (const _ of connection.stream(
          'select 1/(300 - n) from generate_series(1, 600) n',
          [],
          undefined,
        ));
      })(),
      DatabaseError,
    );
    assert.equal(connection.isIdle, true);
    await assert.rejects(
      (async () => {
        for await (const _ of connection.stream('select nothing', [], undefined));
      })(),
      StatementError,
    );
    assert.equal(connection.isIdle, true);
  },
);

withPostgres(
  'PostgreSQL connection: other statements of a transaction can run during its stream, and the stream ends with the transaction',
  async (t) => {
    const connection = await connected(t);
    await connection.begin(WRITING, undefined);
    let rows = 0;
    for await (const batch of connection.stream('select n from generate_series(1, 1000) n', [], undefined))
      rows += batch.length + Number(await connection.scalar('select 0', [], undefined));
    assert.equal(rows, 1_000);
    const left = connection.stream('select n from generate_series(1, 1000) n', [], undefined);
    await left.next();
    await connection.commit();
    assert.equal(connection.isIdle, true);
    await left.return();
    assert.equal(connection.isIdle, true);
  },
);

// ── transactions ──

withPostgres(
  'PostgreSQL connection: a transaction can be committed, rolled back, and rolled back to a savepoint',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    await connection.begin({ isolation: 'serializable', isReadOnly: false }, undefined);
    assert.equal(connection.isInTransaction, true);
    assert.equal(await connection.scalar('show transaction_isolation', [], undefined), 'serializable');
    await connection.execute('insert into item values (1)', [], undefined);
    await connection.savepoint('svc_1');
    await assert.rejects(connection.execute('insert into item values (1)', [], undefined), UniqueViolation);
    await assert.rejects(connection.execute('select 1', [], undefined), TransactionAborted);
    await connection.rollbackTo('svc_1');
    await connection.savepoint('svc_1');
    await connection.execute('insert into item values (2)', [], undefined);
    await connection.releaseSavepoint('svc_1');
    await connection.commit();
    assert.deepEqual(
      [await connection.scalar('select count(*) from item', [], undefined), connection.isInTransaction],
      [2, false],
    );
    await connection.begin({ isolation: undefined, isReadOnly: true }, undefined);
    await assert.rejects(connection.execute('create table svc_never (id int)', [], undefined), ReadOnly);
    await connection.rollback();
    await connection.rollback();
    assert.deepEqual([connection.isIdle, connection.isStale], [true, false]);
  },
);

withPostgres(
  'PostgreSQL connection: COMMIT throws if the server answers with ROLLBACK, or if no transaction is open',
  async (t) => {
    const connection = await connected(t);
    await connection.begin(WRITING, undefined);
    await assert.rejects(connection.execute('select 1/0', [], undefined), DatabaseError);
    await assert.rejects(connection.commit(), TransactionAborted);
    assert.equal(connection.isIdle, true);
    await connection.script(
      'create temp table late (id int unique deferrable initially deferred)',
      undefined,
    );
    await connection.begin(WRITING, undefined);
    await connection.executeMany('insert into late values (?)', [[1], [1]], undefined);
    await assert.rejects(connection.commit(), UniqueViolation);
    assert.equal(connection.isIdle, true);
  },
);

withPostgres(
  'PostgreSQL connection: a script runs its statements one by one, stops at the first failure, and cannot end a transaction',
  async (t) => {
    const connection = await connected(t);
    await withTable(connection);
    await assert.rejects(
      connection.script(
        "insert into item values (1, 'a;b'); nonsense; insert into item values (2)",
        undefined,
      ),
      StatementError,
    );
    assert.equal(await connection.scalar('select max(id) from item', [], undefined), 1);
    for (const script of [
      'insert into item values (9); commit',
      'insert into item values (9); rollback;',
      "insert into item values (9); select 'x",
    ])
      await assert.rejects(connection.script(script, undefined), fault('E_DB_STATEMENT'));
    assert.equal(await connection.scalar('select max(id) from item', [], undefined), 1);
    await connection.script(' ; -- nothing\n', undefined);
  },
);

// ── limits ──

withPostgres(
  'PostgreSQL connection: a statement that exceeds its time limit is ended on the server, and the connection stays usable',
  async (t) => {
    const connection = await connected(t);
    const reason = new Error('the client disconnected');
    const abort = new AbortController();
    await assert.rejects(connection.execute('select pg_sleep(60)', [], soon(30)), QueryTimeout);
    assert.deepEqual([connection.isIdle, connection.isBroken], [true, false]);
    const waiting = connection.execute('select pg_sleep(60)', [], { ...soon(), signal: abort.signal });
    setImmediate(() => abort.abort(reason));
    await assert.rejects(waiting, (error) => error instanceof QueryCanceled && error.cause === reason);
    await assert.rejects(
      connection.execute('select 1', [], { ...soon(), signal: AbortSignal.abort(reason) }),
      QueryCanceled,
    );
    await assert.rejects(
      connection.executeMany(
        'select pg_sleep(?)',
        Array.from({ length: 1_000 }, () => [0.01]),
        soon(50),
      ),
      QueryTimeout,
    );
    await assert.rejects(
      (async () => {
        for await (const _ of connection.stream('select pg_sleep(60)', [], soon(30)));
      })(),
      QueryTimeout,
    );
    assert.equal(await connection.scalar('select 1', [], soon()), 1);
    assert.equal(connection.isIdle, true);
  },
);

withPostgres(
  'PostgreSQL connection: when several statements are pipelined, a cancellation ends only the canceled statement',
  async (t) => {
    const connection = await connected(t);
    const answers = await Promise.allSettled([
      connection.scalar('select 1 from pg_sleep(0.2)', [], undefined),
      connection.scalar('select 2 from pg_sleep(60)', [], soon(50)),
      connection.scalar('select 1', [], undefined),
    ]);
    assert.deepEqual([answers[0]!.status, answers[1]!.status], ['fulfilled', 'rejected']);
    assert.ok((answers[1] as PromiseRejectedResult).reason instanceof QueryTimeout);
    assert.equal(connection.isBroken, false);
  },
);

withPostgres(
  'PostgreSQL connection: the connection stays usable after 200 statements that are canceled at random times',
  async (t) => {
    const connection = await connected(t);
    for (let round = 0; round < 200; round++) {
      const abort = new AbortController();
      const answer = connection.scalar('select ?::int from pg_sleep(0.002)', [round], {
        ...soon(),
        signal: abort.signal,
      });
      if (round % 3 === 0) abort.abort();
      else setImmediate(() => abort.abort());
      const outcome = await answer.catch((error: unknown) => error);
      assert.ok(outcome === round || outcome instanceof QueryCanceled, String(outcome));
      assert.equal(await connection.scalar('select ?::int', [round], undefined), round);
    }
  },
);

withPostgres(
  'PostgreSQL connection: a statement throws LockTimeout if it waits for a lock longer than lock_timeout of the server',
  async (t) => {
    const [one, two] = [await connected(t), await connected(t, { parameters: { lock_timeout: '20' } })];
    await one.begin(WRITING, undefined);
    await one.scalar('select 1 from pg_advisory_xact_lock(?)', [4_711], undefined);
    await two.begin(WRITING, undefined);
    await assert.rejects(
      two.scalar('select 1 from pg_advisory_xact_lock(?)', [4_711], undefined),
      LockTimeout,
    );
    await Promise.all([one.rollback(), two.rollback()]);
  },
);

// ── the end ──

withPostgres(
  'PostgreSQL connection: when the server ends the connection, onLost() is called once, and pending requests reject',
  async (t) => {
    const [victim, other] = [await connected(t), await connected(t)];
    const lost: Error[] = [];
    victim.onLost = (error) => lost.push(error);
    const pid = await idOf(victim);
    const sleeping = victim.execute('select pg_sleep(60)', [], undefined);
    const behind = victim.execute('select 1', [], undefined);
    sleeping.catch(() => undefined);
    behind.catch(() => undefined);
    await other.execute('select pg_terminate_backend(?)', [pid as number], undefined);
    const isReset = ({ cause }: ConnectionLost): boolean =>
      // the server has not read the second statement, and its reset may overtake its error message
      (cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNRESET';
    await assert.rejects(
      sleeping,
      (error) => error instanceof ConnectionLost && (error.sqlstate === '57P01' || isReset(error)),
    );
    await assert.rejects(behind, ConnectionLost);
    assert.deepEqual([victim.isBroken, lost.length, lost[0] instanceof ConnectionLost], [true, 1, true]);
    await assert.rejects(victim.execute('select 1', [], undefined), ConnectionLost);
    await assert.rejects(victim.commit(), ConnectionLost);
    await victim.rollback();
    await victim.close();
  },
);

withPostgres(
  'PostgreSQL connection: when the server ends an idle connection, onLost() is called',
  async (t) => {
    const [victim, other] = [await connected(t), await connected(t)];
    const lost = Promise.withResolvers<Error>();
    victim.onLost = lost.resolve;
    await other.execute('select pg_terminate_backend(?)', [(await idOf(victim)) as number], undefined);
    assert.ok((await lost.promise) instanceof ConnectionLost);
    assert.equal(victim.isBroken, true);
  },
);

withPostgres(
  'PostgreSQL connection: when the connection breaks before the reply to a COMMIT, the outcome of the COMMIT is reported as unknown',
  async (t) => {
    const connection = await connected(t);
    await connection.begin(WRITING, undefined);
    const committing = connection.commit();
    connection.destroy();
    await assert.rejects(committing, CommitOutcomeUnknown);
    assert.equal(connection.isBroken, true);
  },
);

withPostgres(
  'PostgreSQL connection: destroy() rejects pending statements without a call of onLost(), and destroy() and close() can be called twice',
  async (t) => {
    const connection = await connected(t);
    let lost = 0;
    connection.onLost = () => lost++;
    const sleeping = connection.execute('select pg_sleep(60)', [], undefined);
    sleeping.catch(() => undefined);
    connection.destroy();
    await assert.rejects(sleeping, ConnectionLost);
    connection.destroy();
    await connection.close();
    const other = await connected(t);
    await Promise.all([other.close(), other.close()]);
    assert.deepEqual([lost, other.isBroken], [0, true]);
  },
);

withPostgres(
  'PostgreSQL connection: reset() ends the open transaction and every LISTEN, and the session keeps the time zone UTC',
  async (t) => {
    const connection = await connected(t);
    await connection.ping(soon());
    for (let use = 0; use < 3; use++) await connection.scalar('select 1', [], undefined);
    await connection.script("set work_mem = '5MB'; listen svc_reset", undefined);
    await connection.begin(WRITING, undefined);
    await connection.reset();
    assert.deepEqual(
      [
        connection.isIdle,
        await connection.scalar('show timezone', [], undefined),
        await connection.scalar('select 1', [], undefined),
      ],
      [true, 'UTC', 1],
    );
    assert.equal(await connection.scalar('select count(*) from pg_listening_channels()', [], undefined), 0);
  },
);

withPostgres(
  'PostgreSQL connection: onNotification() gets the channel, the payload and the process id of a notification from another connection',
  async (t) => {
    const [listener, other] = [await connected(t), await connected(t)];
    const reported = Promise.withResolvers<unknown[]>();
    await listener.script('listen svc_news', undefined);
    listener.onNotification = (...all) => reported.resolve(all);
    await other.execute('select pg_notify(?, ?)', ['svc_news', 'grüße'], undefined);
    assert.deepEqual(await reported.promise, ['svc_news', 'grüße', await idOf(other)]);
  },
);

withPostgres(
  'PostgreSQL connection: with the option "mustWrite", isStale of a connection is true while the server refuses writes',
  async (t) => {
    const connection = await connected(t, { mustWrite: true, parameters: { application_name: 'test' } });
    assert.deepEqual(
      [
        connection.isStale,
        connection.parameters.get('in_hot_standby'),
        connection.parameters.get('application_name'),
      ],
      [false, 'off', 'test'],
    );
    await connection.script('set default_transaction_read_only = on', undefined);
    assert.equal(connection.isStale, true);
    await connection.script('set default_transaction_read_only = off', undefined);
    assert.equal(connection.isStale, false);
    await connection.script('set transaction_read_only = on', undefined).catch(() => undefined);
  },
);

withPostgres(
  'PostgreSQL connection: a refused login throws an error with the SQLSTATE of the server, and an unreachable server throws ConnectionLost',
  async () => {
    const url = await sharedPostgres();
    await assert.rejects(
      connectPostgres(...optionsOf(url, { password: 'wrong' }), soon()),
      (error) => error instanceof DatabaseError && error.sqlstate === '28P01' && !/wrong/.test(error.message),
    );
    await assert.rejects(
      connectPostgres(...optionsOf(url, { database: 'svc_nowhere' }), soon()),
      (error) => error instanceof DatabaseError && error.sqlstate === '3D000',
    );
    await assert.rejects(
      connectPostgres(...optionsOf(url, { password: undefined }), soon()),
      fault('E_DB_CONNECT'),
    );
    const [host, options] = optionsOf(url);
    await assert.rejects(connectPostgres({ ...host, port: 1 }, options, soon()), ConnectionLost);
    await assert.rejects(connectPostgres({ host: '/nowhere', port: 1 }, options, soon()), ConnectionLost);
    await assert.rejects(
      connectPostgres(host, options, { ...soon(), signal: AbortSignal.abort() }),
      QueryCanceled,
    );
  },
);

// ── every kind of account, where they are ──

for (const [name, ways] of [
  ['PG_SOCKET_URL', 1],
  ['PG_MD5_URL', 1],
  ['PG_CLEAR_URL', 1],
  ['PG_TRUST_URL', 1],
  ['PG_ODD_URL', 1],
  ['PG_SASLPREP_URL', 1],
  ['PG_TLS_URL', 1],
  ['PG_CERT_URL', 1],
  ['PG_NOTLS_URL', 1],
  ['PG_LATIN1_URL', 1],
  ['PG18_URL', 1],
  ['PG18_TLS_URL', 1],
  ['PG18_DIRECT_TLS_URL', 1],
] as const) {
  const url = process.env[name];
  test(
    `PostgreSQL: the client can log in, and cancel a statement, with the URL in the environment variable ${name}`,
    { skip: url === undefined && `needs a server with that account: set ${name}` },
    async (t) => {
      const connection = await connected(t, {}, url);
      assert.equal(await connection.scalar('select ?::int', [ways], undefined), ways);
      // a CancelRequest connects in the same way
      await assert.rejects(connection.execute('select pg_sleep(60)', [], soon(20)), QueryTimeout);
      assert.equal(connection.isIdle, true);
    },
  );
}

const TLS_URL = process.env['PG_TLS_URL'];
test(
  'PostgreSQL: each "sslmode" verifies the same parts of the certificate as libpq does for this value of "sslmode"',
  { skip: TLS_URL === undefined && 'needs a server with TLS: set PG_TLS_URL' },
  async (t) => {
    const other = process.env['OTHER_CA_FILE'];
    const url = TLS_URL!;
    for (const tls of [
      { mode: 'require', rootCertificate: undefined },
      { mode: 'prefer', rootCertificate: undefined },
      { mode: 'verify-ca' },
      { mode: 'verify-full', channelBinding: 'require' },
      { mode: 'verify-full', channelBinding: 'disable' },
      { mode: 'require', sendsServerName: false, leastVersion: 'TLSv1.3' },
    ] as const)
      assert.equal(await (await connected(t, { tls }, url)).scalar('select 1', [], undefined), 1);
    for (const tls of [
      { mode: 'verify-full', rootCertificate: 'system' },
      { mode: 'verify-ca', rootCertificate: other },
      { mode: 'require', rootCertificate: other },
      { mode: 'verify-full', rootCertificate: '/nowhere' },
      { mode: 'require', rootCertificate: undefined, negotiation: 'direct' },
    ] as const) {
      await assert.rejects(
        connectPostgres(...optionsOf(url, { tls }), soon()),
        (error) =>
          fault('E_DB_CONNECT')(error) || (error instanceof ConnectionLost && tls.mode === 'require'),
      );
    }
    await assert.rejects(
      connectPostgres(...optionsOf(url, { tls: { mode: 'disable' } }), soon()),
      (error) => error instanceof DatabaseError && error.sqlstate === '28000',
    );
    await assert.rejects(
      connectPostgres(
        ...optionsOf(process.env['PG_URL'] ?? url, { tls: { mode: 'disable', channelBinding: 'require' } }),
        soon(),
      ),
      (error) => error instanceof Error,
    );
  },
);
