/** Methods of a connection to MySQL or MariaDB on a fake server: each request, its reply, and its errors. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Deadlock, StatementError, TransactionAborted, openDatabase } from '../../../src/db/index.ts';
import { COMMAND, STATUS } from '../../../src/db/mysql/wire.ts';
import { fault } from '../../contract/database.ts';
import {
  IN_TRANSACTION,
  MOST,
  OK,
  acceptingMySql,
  column,
  fakeMySql,
  greeting,
  needsReply,
  packet,
  packetsIn,
} from '../../support/mysql-bytes.ts';
import type { Database } from '../../../src/db/index.ts';

/** An EOF packet with these status flags. */
const end = (status: number): Buffer => Buffer.from([0xfe, 0, 0, status & 0xff, status >> 8, 0, 0]);
/** A binary row with one BIGINT. */
const row = (value: number): Buffer => {
  const bytes = Buffer.alloc(10);
  bytes.writeUInt32LE(value, 2);
  return bytes;
};

interface Asked {
  readonly db: Database;
  /** Requests after the login: the command, and for statements the text. */
  readonly asked: string[];
}

const NAMES = new Map(Object.entries(COMMAND).map(([name, code]) => [code as number, name]));

/** Opens a database whose statements are prepared with one column. `reply` replies to the other commands. */
async function asking(
  t: TestContext,
  reply: (name: string, body: Buffer) => Buffer | undefined,
  query = '',
): Promise<Asked> {
  const asked: string[] = [];
  let status = OK;
  const { url } = await fakeMySql(t, greeting(), (bytes, count) => {
    if (count === 0) return packet(2, OK);
    const replies = packetsIn(bytes).map((body) => {
      const name = NAMES.get(body[0]!) ?? String(body[0]);
      const text = body.toString('utf8', 1);
      const isText = name === 'query' || name === 'stmtPrepare';
      if (isText && text.includes('max_allowed_packet')) return MOST;
      if (!isText || !text.startsWith('set session')) asked.push(isText ? `${name} ${text}` : name);
      if (text.startsWith('start transaction')) status = IN_TRANSACTION;
      if (isText && ['commit', 'rollback'].includes(text)) status = OK;
      return needsReply(body) ? (reply(name, body) ?? packet(1, status)) : Buffer.alloc(0);
    });
    return Buffer.concat(replies);
  });
  const db = await openDatabase(`${url}${query}`, { pool: { max: 1 } });
  t.after(() => db.close());
  asked.length = 0;
  return { db, asked };
}

/** Asserts the requests for statements, and that the next statement closes the one before. */
async function assertClosed(
  db: Database,
  asked: readonly string[],
  expected: readonly string[],
): Promise<void> {
  const statements = (): string[] => asked.filter((name) => name.startsWith('stmt'));
  assert.deepEqual(statements(), expected);
  await db.execute('update a set n = 1').catch(() => undefined);
  assert.equal(statements().filter((name) => name === 'stmtClose').length, 1);
}

/** Reply to a request for a prepared statement: its columns, and no parameters. */
function withColumns(...names: readonly string[]): Buffer {
  return Buffer.concat([
    packet(1, Buffer.of(0, 1, 0, 0, 0, names.length, 0, 0, 0, 0, 0, 0)),
    ...names.map((name, index) => packet(2 + index, column(name))),
  ]);
}

/** Reply to the run of a statement: its columns and rows. */
function result(names: readonly string[], rows: readonly Buffer[], status = 2): Buffer {
  let sequence = 1;
  const packets = [
    Buffer.of(names.length),
    ...names.map(column),
    ...(status & STATUS.cursorExists ? [end(status)] : [...rows, end(status)]),
  ];
  return Buffer.concat(packets.map((body) => packet(sequence++, body)));
}

test('MySQL client: fetchArrays() returns the columns and rows of a statement', async (t) => {
  const { db } = await asking(t, (name) =>
    name === 'stmtPrepare'
      ? withColumns('n')
      : name === 'stmtExecute'
        ? result(['n'], [row(1), row(2)])
        : undefined,
  );
  for (let round = 0; round < 2; round++)
    assert.deepEqual(await db.fetchArrays('select n from a'), {
      columns: [{ name: 'n', table: undefined, type: 'bigint' }],
      rows: [[1], [2]],
    });
});

test('MySQL client: fetchSets() returns the rows of each result of a statement', async (t) => {
  const { db } = await asking(t, (name) => {
    if (name === 'stmtPrepare') return withColumns('n');
    if (name !== 'stmtExecute') return undefined;
    const first = [Buffer.of(1), column('n'), row(1), end(2 | STATUS.moreResults)];
    const second = [Buffer.of(1), column('m'), row(2), row(3), end(2 | STATUS.moreResults)];
    return Buffer.concat([...first, ...second, OK].map((body, index) => packet(index + 1, body)));
  });
  assert.deepEqual(await db.fetchSets('call p()'), [[{ n: 1 }], [{ m: 2 }, { m: 3 }]]);
});

test('MySQL client: a stream fetches 256 rows at once until the last one, and closes its cursor', async (t) => {
  const fetched: number[] = [];
  const { db, asked } = await asking(t, (name, body) => {
    if (name === 'stmtPrepare') return withColumns('n');
    if (name === 'stmtExecute') return result(['n'], [], 2 | STATUS.cursorExists);
    if (name !== 'stmtFetch') return undefined;
    assert.equal(body.readUInt32LE(1), 1);
    fetched.push(body.readUInt32LE(5));
    const isLast = fetched.length === 2;
    const packets = [row(fetched.length), end(isLast ? 2 | STATUS.lastRowSent : 2 | STATUS.cursorExists)];
    return Buffer.concat(packets.map((each, index) => packet(index + 1, each)));
  });
  const rows: unknown[] = [];
  for await (const each of db.stream('select n from a')) rows.push(each);
  assert.deepEqual(rows, [{ n: 1 }, { n: 2 }]);
  assert.deepEqual(fetched, [256, 256]);
  await assertClosed(db, asked, ['stmtPrepare select n from a', 'stmtExecute', 'stmtFetch', 'stmtFetch']);
});

test('MySQL client: a stream ends early without further fetches, and closes its cursor', async (t) => {
  const { db, asked } = await asking(t, (name) => {
    if (name === 'stmtPrepare') return withColumns('n');
    if (name === 'stmtExecute') return result(['n'], [], 2 | STATUS.cursorExists);
    if (name !== 'stmtFetch') return undefined;
    return Buffer.concat([packet(1, row(7)), packet(2, end(2 | STATUS.cursorExists))]);
  });
  for await (const each of db.stream('select n from a')) {
    assert.deepEqual(each, { n: 7 });
    break;
  }
  await assertClosed(db, asked, ['stmtPrepare select n from a', 'stmtExecute', 'stmtFetch']);
});

/** Error 1064. */
const MISTAKE = packet(1, Buffer.of(0xff, 0x28, 0x04), '#42000You have an error in your SQL syntax');

test('MySQL client: a stream whose statement fails closes its prepared statement', async (t) => {
  const { db, asked } = await asking(t, (name) =>
    name === 'stmtPrepare' ? withColumns('n') : name === 'stmtExecute' ? MISTAKE : undefined,
  );
  await assert.rejects(async () => {
    for await (const _ of db.stream('select n from a'));
  }, StatementError);
  await assertClosed(db, asked, ['stmtPrepare select n from a', 'stmtExecute']);
});

for (const pipelining of ['', '?pipelining=0'])
  test(`MySQL client: insertMany() and executeMany() insert several rows by one statement (address: "${pipelining}")`, async (t) => {
    const { db, asked } = await asking(
      t,
      (name, body) => {
        if (name !== 'stmtPrepare') return undefined;
        const count = body.toString().split('?').length - 1;
        return Buffer.concat([
          packet(1, Buffer.of(0, 1, 0, 0, 0, 0, 0, count & 0xff, count >> 8, 0, 0, 0)),
          ...Array.from({ length: count }, (_, index) => packet((2 + index) & 0xff, column('?'))),
        ]);
      },
      pipelining,
    );
    const rows = Array.from({ length: 17 }, (_, index) => [index, 'a']);
    await db.insertMany('note', ['id', 'text'], rows);
    await db.insertMany('note', ['id', 'text'], rows.slice(0, 2));
    await db.executeMany('insert into other values (?, ?)', rows);
    const several = `${'(?, ?), '.repeat(16)}(?, ?)`;
    const prepared = asked.filter((name) => name.startsWith('stmtPrepare')).map((name) => name.slice(12));
    const quoted = prepared.find((text) => text.includes('note'))!.slice(0, prepared[0]!.indexOf('(?'));
    assert.deepEqual(prepared, [
      `${quoted}${several}`,
      `${quoted}(?, ?)`,
      `insert into other values ${several}`,
    ]);
    assert.match(quoted, /^insert into `?note`? \(`?id`?, `?text`?\) values $/);
  });

test('MySQL client: executeMany() names the row and the parameter of an invalid value, and of a wrong number of values', async (t) => {
  const { url } = await acceptingMySql(t);
  await using db = await openDatabase(url, { pool: { max: 1 } });
  for (const [rows, place] of [
    [[[{}], [1]], /parameter 1 of row 1\b/],
    [[[1], [{}]], /parameter 1 of row 2\b/],
    [[...Array.from({ length: 20 }, () => [1]), [{}]], /parameter 1 of row 21\b/],
  ] as const)
    for (const text of ['update note set id = ?', 'insert into note values (?)'])
      await assert.rejects(db.executeMany(text, rows as never), (error) => {
        assert.ok(fault('E_DB_PARAMETER')(error));
        assert.match((error as Error).message, place);
        return true;
      });
  for (const text of ['update note set id = ?', 'insert into note values (?)'])
    await assert.rejects(db.executeMany(text, [[1], [1, 2]]), (error) => {
      assert.ok(fault('E_DB_PARAMETER_COUNT')(error));
      assert.match((error as Error).message, /row 2\b/);
      return true;
    });
});

test('MySQL client: nested transactions set, release and roll back savepoints', async (t) => {
  const { url, texts } = await acceptingMySql(t);
  await using db = await openDatabase(url, { pool: { max: 1 } });
  texts.length = 0;
  await db.transaction(async (tx) => {
    await tx.transaction(async () => undefined);
    await assert.rejects(
      tx.transaction(async () => {
        throw new Error('nope');
      }),
      /nope/,
    );
  });
  const names = texts.map((text) => text.replace(/svc_\w+/, 'x'));
  assert.deepEqual(names.slice(1), [
    'savepoint x',
    'release savepoint x',
    'savepoint x',
    'rollback to savepoint x',
    'release savepoint x',
    'commit',
  ]);
  assert.match(texts[0]!, /^start transaction/);
});

test('MySQL client: after the server has ended a transaction, each method of the transaction is refused', async (t) => {
  const calls: readonly ((tx: Database) => Promise<unknown>)[] = [
    (tx) => tx.execute('update a set b = 1'),
    (tx) => tx.fetchArrays('select 1'),
    (tx) => tx.executeMany('update a set b = ?', [[1]]),
    (tx) => tx.insertMany('a', ['b'], [[1]]),
    (tx) => tx.script('update a set b = 1'),
    (tx) => tx.transaction(async () => undefined),
    async (tx) => {
      for await (const _ of tx.stream('select 1'));
    },
  ];
  for (const call of calls) {
    const { db, asked } = await asking(t, (name) =>
      name === 'stmtPrepare' ? withColumns() : name === 'stmtExecute' ? packet(1, OK) : undefined,
    );
    await assert.rejects(
      db.transaction(async (tx) => {
        await tx.execute('create table a (b int)');
        asked.length = 0;
        await call(tx as never);
      }),
      (error) => {
        assert.ok(error instanceof TransactionAborted, `${String(error)} ${String(call)}`);
        assert.deepEqual(
          [error.sqlstate, error.message],
          [
            '25P01',
            'The server has ended the transaction, because of an error, or because a statement such as CREATE TABLE commits by itself',
          ],
        );
        return true;
      },
    );
    assert.deepEqual(
      asked.filter((name) => !/rollback|autocommit/.test(name)),
      [],
    );
  }
});

/** Error 1213, after which the server has rolled the transaction back. */
const DEADLOCK = packet(1, Buffer.of(0xff, 0xbd, 0x04), '#40001Deadlock found when trying to get lock');

test('MySQL client: after an error of a known statement in a transaction, the client asks whether the transaction is open', async (t) => {
  let executions = 0;
  const { db, asked } = await asking(t, (name, body) => {
    if (name === 'stmtPrepare') return withColumns();
    if (name === 'stmtExecute') return ++executions === 1 ? packet(1, IN_TRANSACTION) : DEADLOCK;
    return body.toString('utf8', 1) === 'do 0' ? packet(1, OK) : undefined;
  });
  const text = 'update a set b = 1';
  await assert.rejects(
    db.transaction(async (tx) => {
      await tx.execute(text);
      await assert.rejects(tx.execute(text), Deadlock);
      assert.deepEqual(asked.slice(1), [`stmtPrepare ${text}`, 'stmtExecute', 'stmtExecute', 'query do 0']);
      await tx.execute(text);
    }),
    TransactionAborted,
  );
  assert.equal(executions, 2);
});

test('MySQL client: a ping is a command of the protocol, and gives its connection back', async (t) => {
  const { db, asked } = await asking(t, () => undefined);
  await db.ping();
  assert.deepEqual(asked, ['ping']);
  assert.equal(db.load.inUse, 0);
});
