/** Statements of one connection to PostgreSQL, against a server that answers each message. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionLost, DatabaseError, StatementError } from '../../../src/db/errors.ts';
import { openDatabase, type Database } from '../../../src/db/index.ts';
import { ComputingClock } from '../../support/computing-clock.ts';
import { connectedToFake, fakePostgres, type Result } from '../../support/fake-postgres.ts';

const TEXT = 25;
const ITEM = 16_500;

/** Reply to the query for the tables and types of columns, for one column. */
const FOUND: Result = {
  columns: [['a'], ['b'], ['c'], ['d'], ['e']],
  rows: [['item', 'character varying(20)', 'label', null, null]],
};

for (const [what, statementCache, expected] of [
  ['with a statement cache, PostgreSQL is asked at the first two uses', 256, 2],
  ['without a statement cache, PostgreSQL is asked each time', 0, 3],
] as const) {
  test(`PostgreSQL client: ${what} for the tables and types of a statement's columns`, async (t) => {
    const { connection, texts } = await connectedToFake(
      t,
      {
        'select label': { columns: [['label', TEXT, ITEM]], rows: [['a'], ['b']] },
        'select r.relname': FOUND,
      },
      statementCache,
    );
    for (let round = 0; round < 3; round++)
      assert.deepEqual(await connection.fetchArrays('select label from item', [], undefined), {
        columns: [{ name: 'label', table: 'item', type: 'character varying(20)' }],
        rows: [['a'], ['b']],
      });
    assert.equal(texts.filter((text) => text.startsWith('select label')).length, 3);
    assert.equal(texts.filter((text) => text.startsWith('select r.relname')).length, expected);
  });
}

test('PostgreSQL client: fetchArrays() keeps the columns of each statement apart', async (t) => {
  const { connection, texts } = await connectedToFake(t, {
    'select label': { columns: [['label', TEXT, ITEM]], rows: [] },
    'select other': { columns: [['other', TEXT, ITEM]], rows: [] },
    'select r.relname': FOUND,
  });
  for (let round = 0; round < 3; round++)
    for (const name of ['label', 'other'])
      assert.deepEqual((await connection.fetchArrays(`select ${name} from item`, [], undefined)).columns, [
        { name, table: 'item', type: 'character varying(20)' },
      ]);
  assert.equal(texts.filter((text) => text.startsWith('select r.relname')).length, 4);
});

test('PostgreSQL client: a column that the server does not find has no table and no type', async (t) => {
  const { connection } = await connectedToFake(t, {
    'select label': { columns: [['label', TEXT, 0]], rows: [] },
    'select r.relname': { ...FOUND, rows: [] },
  });
  assert.deepEqual((await connection.fetchArrays('select label', [], undefined)).columns, [
    { name: 'label', table: undefined, type: undefined },
  ]);
});

const INSERT: Result = { columns: [], rows: [], tag: 'INSERT 0 1' };

for (const [statementCache, expected] of [
  [0, ['PBEBEBES', 'PBEBEBES', 'PBEBEBES']],
  [256, ['PDSBEBEBES', 'BEBEBES', 'BEBEBES']],
] as const)
  test(`PostgreSQL client: executeMany() runs a statement for all rows with one Sync (statement cache: ${statementCache})`, async (t) => {
    const { connection, texts, messages } = await connectedToFake(
      t,
      { 'insert into item': INSERT },
      statementCache,
    );
    const seen: string[] = [];
    for (let round = 0; round < 3; round++) {
      const rows = [['a'], ['b'], ['c']];
      assert.equal(await connection.executeMany('insert into item values (?)', rows, undefined), 3);
      seen.push(messages.splice(0).join(''));
    }
    assert.equal(texts.length, 9);
    assert.deepEqual(seen, expected);
  });

test('PostgreSQL client: fetchArrays() returns the current columns if the table has changed between the first and the second use of a statement', async (t) => {
  const results: Record<string, Result> = {
    'select *': { columns: [['label', TEXT, ITEM]], rows: [['a']] },
    'select r.relname': FOUND,
  };
  const { connection } = await connectedToFake(t, results);
  const read = async (): Promise<unknown> => {
    const { columns, rows } = await connection.fetchArrays('select * from item', [], undefined);
    return [columns.map(({ name }) => name), rows];
  };
  assert.deepEqual(await read(), [['label'], [['a']]]);
  const columns = [
    ['label', TEXT, ITEM],
    ['price', TEXT, ITEM],
  ] as const;
  results['select *'] = { columns, rows: [['a', 'b']] };
  results['select r.relname'] = { ...FOUND, rows: [...FOUND.rows, ...FOUND.rows] };
  for (let round = 0; round < 2; round++) assert.deepEqual(await read(), [['label', 'price'], [['a', 'b']]]);
});

// ── COPY that was not asked for ──

const COPY_IN: Result = { columns: [], rows: [], copy: 'in' };
const COPY_OUT: Result = { columns: [], rows: [], copy: 'out', tag: 'COPY 1' };
const ONE: Result = { columns: [['one', TEXT]], rows: [['1']] };

test('PostgreSQL client: COPY FROM STDIN is refused as a statement and in a script, and the connection stays open', async (t) => {
  const { connection } = await connectedToFake(t, { 'copy item from stdin': COPY_IN, 'select 1': ONE });
  const refused = (error: unknown): boolean =>
    error instanceof StatementError &&
    error.sqlstate === '57014' &&
    error.sql === 'copy item from stdin' &&
    /use insertMany\(\)/.test(error.message);
  for (let round = 0; round < 3; round++) {
    await assert.rejects(connection.execute('copy item from stdin', [], undefined), refused);
    await assert.rejects(connection.script('copy item from stdin', undefined), refused);
    assert.equal(await connection.scalar('select 1', [], undefined), '1');
  }
  assert.equal(connection.isIdle, true);
});

test('PostgreSQL client: COPY FROM STDIN ends the connection if another statement was sent behind it', async (t) => {
  const { connection } = await connectedToFake(t, { 'copy item from stdin': COPY_IN, 'select 1': ONE });
  await connection.execute('copy item from stdin', [], undefined).catch(() => undefined);
  await connection.scalar('select 1', [], undefined);
  // both statements are prepared now, and are sent together
  const found = await Promise.allSettled([
    connection.execute('copy item from stdin', [], undefined),
    connection.scalar('select 1', [], undefined),
  ]);
  for (const each of found) {
    assert.ok(each.status === 'rejected' && each.reason instanceof ConnectionLost);
    assert.match(
      String((each.reason.cause as Error).message),
      /cannot be run together with other statements/,
    );
  }
  assert.equal(connection.isBroken, true);
});

test('PostgreSQL client: COPY TO STDOUT runs as a statement without rows, and is refused by methods that return rows', async (t) => {
  const { connection } = await connectedToFake(t, { 'copy item to stdout': COPY_OUT, 'select 1': ONE });
  for (let round = 0; round < 3; round++) {
    assert.equal((await connection.execute('copy item to stdout', [], undefined)).affectedRows, 1);
    await connection.script('copy item to stdout', undefined);
    for (const read of ['fetchAll', 'fetchOne', 'scalar', 'fetchArrays'] as const)
      await assert.rejects(
        connection[read]('copy item to stdout', [], undefined),
        (error) =>
          error instanceof StatementError &&
          error.sqlstate === '0A000' &&
          /use stream\(\)/.test(error.message),
      );
    assert.equal(await connection.scalar('select 1', [], undefined), '1');
  }
  assert.equal(connection.isIdle, true);
});

// ── insertMany() ──

const INTEGER = 20;
const FLOAT = 701;

for (const [what, type, value, copied] of [
  ['an integer', INTEGER, 7, '7'],
  ['a number with a fraction', FLOAT, 1.5, '1.5'],
  ['minus zero', FLOAT, -0, '-0'],
  ['text', TEXT, 'grüße', 'grüße'],
  ['empty text', TEXT, '', ''],
  ['NULL', TEXT, null, '\\N'],
  ['the text of NULL', TEXT, '\\N', '\\\\N'],
  ['the text of the end of the data', TEXT, '\\.', '\\\\.'],
  ['a line feed', TEXT, 'a\nb', 'a\\nb'],
  ['a carriage return', TEXT, 'a\rb', 'a\\rb'],
  ['a tab', TEXT, 'a\tb', 'a\\tb'],
  ['several of them', TEXT, '\t\\\r\n\t', '\\t\\\\\\r\\n\\t'],
] as const)
  test(`PostgreSQL client: insertMany() copies ${what} as one column of one line`, async (t) => {
    const {
      connection,
      copied: data,
      texts,
    } = await connectedToFake(t, {
      'select c.relkind': { columns: [['can', TEXT]], rows: [] },
      'insert into item': { columns: [], rows: [], parameters: [INTEGER, type, TEXT] },
      'copy item (a, b, c) from stdin': { columns: [], rows: [], copy: 'in', tag: 'COPY 64' },
    });
    const rows = Array.from({ length: 64 }, (_, index) => [index, value, 'end']);
    assert.equal(await connection.insertMany('item', ['a', 'b', 'c'], rows, undefined), 64);
    assert.ok(texts.includes('copy item (a, b, c) from stdin'));
    assert.equal(data.join(''), rows.map(([id]) => `${id}\t${copied}\tend\n`).join(''));
  });

// ── outdated statements ──

const STALE = { C: '0A000', M: 'cached plan must not change result type', R: 'RevalidateCachedQuery' };
const NO_TABLE = { C: '42P01', M: 'relation "item" does not exist' };

for (const limit of [undefined, { signal: undefined, deadlineMs: Infinity, timeoutMs: 0 }])
  test(`PostgreSQL client: a statement that was prepared runs again if only its plan is outdated (${limit === undefined ? 'without' : 'with'} a limit)`, async (t) => {
    const failures: Record<string, string>[] = [];
    const { connection, texts, messages } = await connectedToFake(t, {
      'select label': { columns: [['label', TEXT]], rows: [['a']], failures },
    });
    const read = () => connection.scalar('select label from item', [], limit);
    for (let use = 0; use < 3; use++) assert.equal(await read(), 'a');
    failures.push(STALE);
    messages.length = 0;
    assert.equal(await read(), 'a');
    assert.equal(texts.length, 5);
    assert.ok(messages.includes('P'), 'prepared again');
    failures.push(NO_TABLE);
    await assert.rejects(read(), { sqlstate: '42P01' });
    assert.equal(texts.length, 6);
    assert.equal(connection.isIdle, true);
  });

test('PostgreSQL client: an error like that of an outdated plan is thrown if the statement was not prepared before', async (t) => {
  const failures = [STALE, STALE];
  const { connection, texts } = await connectedToFake(t, {
    'select label': { columns: [['label', TEXT]], rows: [['a']], failures },
  });
  for (let use = 1; use <= 2; use++) {
    await assert.rejects(
      connection.scalar('select label from item', [], undefined),
      (error) => error instanceof DatabaseError && error.sqlstate === STALE.C,
    );
    assert.equal(texts.length, use);
  }
});

// ── fatal errors ──

for (const [code, hasCause] of [
  ['57P01', false],
  ['57P05', false],
  ['XX000', true],
  ['53200', true],
] as const)
  test(`PostgreSQL client: the FATAL error ${code} ends the connection, and is ${hasCause ? 'the cause of ConnectionLost' : 'ConnectionLost itself'}`, async (t) => {
    const failures = [{ S: 'FATAL', V: 'FATAL', C: code, M: 'no more' }];
    const { connection } = await connectedToFake(t, {
      'select label': { columns: [['label', TEXT]], rows: [], failures },
    });
    const ended = Promise.withResolvers<Error>();
    connection.onLost = ended.resolve;
    await connection.scalar('select label', [], undefined).catch(() => undefined);
    const lost = await ended.promise;
    assert.ok(lost instanceof ConnectionLost);
    assert.equal(lost.sqlstate, code);
    assert.equal(lost.message.includes('The server ended the connection'), hasCause, lost.message);
    assert.equal((lost.cause as DatabaseError | undefined)?.sqlstate, hasCause ? code : undefined);
    assert.equal(connection.isBroken, true);
  });

for (const [what, write] of Object.entries<(db: Database, rows: Iterable<[string]>) => Promise<number>>({
  'executeMany()': (db, rows) => db.executeMany('update item set a = ?', rows),
  'insertMany() of a few rows': (db, rows) => db.insertMany('item', ['a'], rows),
}))
  test(`PostgreSQL client: ${what} asks for no reply before its end, however old the connection and slow the source is`, async (t) => {
    const clock = new ComputingClock();
    const { port, messages } = await fakePostgres(t, {
      'insert into "item"': { columns: [], rows: [], parameters: [TEXT], tag: 'INSERT 0 1' },
      'update item': { columns: [], rows: [], parameters: [TEXT], tag: 'UPDATE 1' },
    });
    await using db = await openDatabase(`postgres://u@127.0.0.1:${port}/d`, { clock, pool: { max: 1 } });
    function* rows(ms: number): Generator<[string]> {
      for (let row = 0; row < 10; row++) {
        clock.compute(ms);
        yield ['x'];
      }
    }
    for (const ms of [0, 4, 50]) {
      await write(db, rows(ms)); // prepares the statement
      clock.compute(1_000);
      messages.length = 0;
      assert.equal(await write(db, rows(ms)), 10);
      assert.equal(messages.filter((type) => type === 'E').length, 10);
      assert.equal(messages.includes('H'), false, messages.join(''));
    }
  });
