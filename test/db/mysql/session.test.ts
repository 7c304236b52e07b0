/** Sessions of MySQL and MariaDB on a fake server: their settings, and the order of requests and replies. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { ConstraintViolation, DataError, ReadOnly, openDatabase } from '../../../src/db/index.ts';
import { COMMAND } from '../../../src/db/mysql/wire.ts';
import {
  CAPABILITIES,
  END,
  IN_TRANSACTION,
  LONG_PASSWORD,
  MOST,
  OK,
  TLS_CAPABILITY,
  acceptingMySql,
  fakeMySql,
  greeting,
  needsReply,
  packet,
  packetsIn,
  prepared,
} from '../../support/mysql-bytes.ts';
import type { Socket } from 'node:net';
import type { Database, Transaction } from '../../../src/db/index.ts';
import type { PreparedStatement } from '../../../src/db/driver.ts';

const AUTOCOMMIT_OFF = Buffer.from([0, 0, 0, 0, 0, 0, 0]);
/** Error 1295. */
const UNPREPARABLE = packet(
  1,
  Buffer.of(0xff, 0x0f, 0x05),
  '#HY000This command is not supported in the prepared statement protocol yet',
);

const ENCODING = [
  'set session character_set_client = utf8mb4',
  'session character_set_results = utf8mb4',
  'session collation_connection = utf8mb4_general_ci',
  "session time_zone = '+00:00'",
  'session autocommit = 1',
];
const STRICT =
  "session sql_mode = concat(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION')";

for (const [query, options, settings, more] of [
  ['', {}, [STRICT], []],
  ['?sql_mode=server', {}, [], []],
  ['?set.sql_mode=ANSI', {}, ["session sql_mode = 'ANSI'"], []],
  [
    '?set.wait_timeout=90&set.long_query_time=1.5&set.div_precision_increment=-1&set.sql_notes=1.x',
    {},
    [
      STRICT,
      'session wait_timeout = 90',
      'session long_query_time = 1.5',
      'session div_precision_increment = -1',
      "session sql_notes = '1.x'",
    ],
    [],
  ],
  ['', { readOnly: true }, [STRICT], ['set session transaction read only']],
] as const)
  test(`MySQL client: a session begins with its settings (address: "${query}", options: ${JSON.stringify(options)})`, async (t) => {
    const { url, texts } = await acceptingMySql(t);
    await using _ = await openDatabase(`${url}${query}`, options);
    const begin = texts.indexOf([...ENCODING, ...settings].join(', '));
    assert.notEqual(begin, -1, texts.join('\n'));
    assert.deepEqual(texts.slice(begin + 1, begin + 1 + more.length), more);
    assert.equal(
      texts.some((text) => text.includes('read only')),
      more.length > 0,
    );
  });

for (const pipelining of [1, 0])
  test(`MySQL client: several statements on one connection are sent ${pipelining === 1 ? 'at once' : 'each after the reply to the one before'} (pipelining=${pipelining})`, async (t) => {
    let most = 0;
    let open = 0;
    const answer = (socket: Socket, body: Buffer): void => {
      most = Math.max(most, ++open);
      setImmediate(() => {
        open--;
        const isInside = body[0] === COMMAND.stmtExecute || body.includes('start transaction');
        if (body.includes('max_allowed_packet')) socket.write(MOST);
        else if (body[0] === COMMAND.stmtPrepare) socket.write(prepared());
        else socket.write(packet(1, isInside ? IN_TRANSACTION : OK));
      });
    };
    const { url } = await fakeMySql(t, greeting(), (received, count, socket) => {
      if (count === 0) return packet(2, OK);
      for (const body of packetsIn(received).filter(needsReply)) answer(socket, body);
      return undefined;
    });
    await using db = await openDatabase(`${url}?pipelining=${pipelining}`, { pool: { max: 1 } });
    most = 0;
    const text = 'update a set b = 1';
    await db.transaction(async (tx) => {
      await tx.execute(text);
      const affected = await Promise.all(Array.from({ length: 5 }, () => tx.execute(text)));
      assert.deepEqual(
        affected.map(({ affectedRows }) => affectedRows),
        [0, 0, 0, 0, 0],
      );
    });
    assert.equal(most, pipelining === 1 ? 5 : 1);
  });

for (const [method, query, expected] of [
  ['caching_sha2_password', '', 'caching_sha2_password'],
  ['mysql_native_password', '', 'mysql_native_password'],
  ['sha256_password', '', 'mysql_native_password'],
  ['sha256_password', '?auth_plugins=sha256_password,caching_sha2_password', 'caching_sha2_password'],
  ['mysql_native_password', '?auth_plugins=caching_sha2_password', 'caching_sha2_password'],
  ['caching_sha2_password', '?auth_plugins=mysql_native_password', 'mysql_native_password'],
  ['mysql_native_password', '?auth_plugins=parsec,sha256_password', 'parsec'],
] as const)
  test(`MySQL client: a login begins with the method ${expected} if the server proposes ${method} (address: "${query}")`, async (t) => {
    const { url, received } = await acceptingMySql(t, { first: greeting(undefined, method) });
    await using _ = await openDatabase(`${url}${query}`);
    assert.ok(received[0]!.includes(`shop\0${expected}\0`), received[0]!.toString('latin1'));
  });

// ── transactions ──

for (const [what, run, expected, afterRollback = OK] of [
  ['that commits', (db) => db.transaction((tx) => tx.execute('update')), ['start transaction', 'commit']],
  [
    'with options',
    (db) => db.transaction((tx) => tx.execute('update'), { isolation: 'serializable', readOnly: true }),
    ['set transaction isolation level serializable', 'start transaction read only', 'commit'],
  ],
  ['that fails', (db) => db.transaction(failing), ['start transaction', 'rollback']],
  [
    'that fails after it has switched autocommit off',
    (db) => db.transaction(failing),
    ['start transaction', 'rollback', 'set autocommit = 1'],
    AUTOCOMMIT_OFF,
  ],
  [
    'with an inner one',
    (db) => db.transaction((tx) => tx.transaction((inner) => inner.execute('update'))),
    ['start transaction', 'savepoint NAME', 'release savepoint NAME', 'commit'],
  ],
  [
    'with an inner one that fails',
    (db) => db.transaction((tx) => tx.transaction(failing).catch(() => tx.execute('update'))),
    ['start transaction', 'savepoint NAME', 'rollback to savepoint NAME', 'release savepoint NAME', 'commit'],
  ],
] as readonly (readonly [string, (db: Database) => Promise<unknown>, readonly string[], Buffer?])[])
  test(`MySQL client: a transaction ${what} sends its statements in order`, async (t) => {
    const { url, texts } = await acceptingMySql(t, { afterRollback });
    await using db = await openDatabase(url, { pool: { max: 1 } });
    for (let round = 0; round < 2; round++) {
      texts.length = 0;
      await run(db).catch((error: unknown) => assert.equal(error, STOP));
      assert.deepEqual(
        texts.map((text) => text.replace(/(?<=savepoint )\w+/, 'NAME')),
        expected,
      );
    }
  });

const STOP = new Error('stop');
async function failing(tx: Transaction): Promise<never> {
  await tx.execute('update');
  throw STOP;
}

// ── statements that the server does not prepare ──

async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const row of rows) found.push(row);
  return found;
}

test('MySQL client: a statement that the server does not prepare runs as text, and is refused if it has values', async (t) => {
  const { url, texts } = await acceptingMySql(t, { prepare: () => UNPREPARABLE });
  await using db = await openDatabase(url, { pool: { max: 1 } });
  texts.length = 0;
  const [text, withValue] = ['lock tables a write', 'lock tables ? write'];
  const refused = (error: unknown): boolean =>
    error instanceof DataError &&
    error.errno === 1295 &&
    error.sqlstate === '0A000' &&
    error.sql === withValue &&
    /write the values as literals/.test(error.message);
  for (let round = 0; round < 2; round++) {
    assert.equal((await db.execute(text)).affectedRows, 0);
    assert.equal(await db.executeMany(text, [[], []]), 0);
    assert.deepEqual(await all(db.stream(text)), []);
    await assert.rejects(db.execute(withValue, ['a']), refused);
    await assert.rejects(db.executeMany(withValue, [['a']]), refused);
    await assert.rejects(all(db.stream(withValue, ['a'])), refused);
  }
  assert.deepEqual(
    texts.filter((each) => each.startsWith('lock')),
    Array<string>(8).fill(text),
  );
  assert.equal(db.load.inUse, 0);
});

// ── outdated statements ──

const failure = (errno: number, message: string): Buffer =>
  packet(1, Buffer.of(0xff, errno & 0xff, errno >> 8), `#HY000${message}`);

for (const [what, errno, isRepeated] of [
  ['is outdated', 1615, true],
  ['is unknown to the server', 1243, true],
  ['fails for another reason', 1146, false],
] as const)
  for (const timeoutMs of [undefined, 60_000])
    test(`MySQL client: a statement that was prepared ${isRepeated ? 'is prepared and runs again' : 'does not run again'} if it ${what} (timeoutMs: ${timeoutMs})`, async (t) => {
      const errors: Buffer[] = [];
      let [prepares, runs] = [0, 0];
      const { url } = await acceptingMySql(t, {
        prepare: () => (prepares++, prepared()),
        execute: () => (runs++, errors.shift()),
      });
      await using db = await openDatabase(url, { pool: { max: 1 } });
      const run = () => db.execute('update a set b = 1', [], timeoutMs === undefined ? {} : { timeoutMs });
      await run();
      await run();
      assert.deepEqual([prepares, runs], [1, 2]);
      errors.push(failure(errno, 'x'));
      if (isRepeated) await run();
      else await assert.rejects(run(), { errno });
      assert.deepEqual([prepares, runs], isRepeated ? [2, 4] : [1, 3]);
    });

test('MySQL client: if the server has too many statements, the client closes its own, and prepares again', async (t) => {
  const refusals: Buffer[] = [];
  let prepares = 0;
  const { url, received } = await acceptingMySql(t, {
    prepare: () => (prepares++, refusals.shift() ?? prepared()),
  });
  await using db = await openDatabase(url, { pool: { max: 1 } });
  await db.execute('update a set b = 1');
  refusals.push(failure(1461, "Can't create more than max_prepared_stmt_count statements"));
  await db.execute('update a set b = 2');
  assert.equal(prepares, 3);
  const closed = received
    .flatMap((chunk) => packetsIn(chunk))
    .filter(([command]) => command === COMMAND.stmtClose);
  assert.equal(closed.length, 1);
});

// ── the first packet of the client ──

/** longFlag, foundRows, protocol41, transactions, secureConnection, results of several kinds, plugins, attributes, lengths, no EOF. */
const FLAGS =
  0x4 | 0x2 | 0x200 | 0x2000 | 0x8000 | 0x2_0000 | 0x4_0000 | 0x8_0000 | 0x10_0000 | 0x20_0000 | 0x100_0000;
const SSL = 0x800;
const WITH_DATABASE = 0x8;

for (const [what, query, capabilities, expected] of [
  ['without TLS', '', CAPABILITIES, FLAGS | WITH_DATABASE | LONG_PASSWORD],
  [
    'before TLS',
    '?sslmode=require',
    CAPABILITIES | TLS_CAPABILITY,
    FLAGS | WITH_DATABASE | SSL | LONG_PASSWORD,
  ],
  [
    'to a server without plugins',
    '',
    CAPABILITIES & ~0x8_0000,
    (FLAGS & ~0x8_0000) | WITH_DATABASE | LONG_PASSWORD,
  ],
  [
    'to a server without long lengths',
    '',
    CAPABILITIES & ~0x20_0000,
    (FLAGS & ~0x20_0000) | WITH_DATABASE | LONG_PASSWORD,
  ],
  [
    'to a server without attributes',
    '',
    CAPABILITIES & ~0x10_0000,
    (FLAGS & ~0x10_0000) | WITH_DATABASE | LONG_PASSWORD,
  ],
] as const)
  test(`MySQL client: the first packet ${what} has the capabilities of both sides, the largest packet and the charset`, async (t) => {
    const refusal = packet(2, Buffer.of(0xff, 0x15, 0x04), '#28000Access denied'); // 1045
    const { url, received } = await fakeMySql(t, greeting(capabilities), () => refusal);
    await assert.rejects(openDatabase(`${url}${query}`, { clock: new ManualClock() }));
    const [first] = received as [Buffer];
    assert.equal(first.readUInt32LE(4), expected >>> 0);
    assert.equal(first.readUInt32LE(8), 0xff_ffff);
    assert.deepEqual([...first.subarray(12, 36)], [45, ...Array<number>(23).fill(0)]);
    if (what === 'before TLS') assert.equal(first.readUIntLE(0, 3), 32);
    else assert.ok(first.subarray(36).toString('latin1').startsWith('app\0'));
  });

// ── many rows ──

/** Returns the numbers of rows of the inserts that the server prepares and runs, in order. */
async function insertsOf(t: TestContext, rows: readonly (readonly number[])[], query = ''): Promise<unknown> {
  const inserts: string[] = [];
  let runs = 0;
  const { url } = await acceptingMySql(t, {
    prepare: (text) => {
      inserts.push(`${text.split('(?').length - 1}`);
      return prepared(text.split('?').length - 1);
    },
    execute: () => (runs++, undefined),
  });
  await using db = await openDatabase(`${url}${query}`, { pool: { max: 1 } });
  const values = rows[0]!.map(() => '?').join(', ');
  await db.executeMany(`insert into a values (${values})`, rows);
  return [inserts.map(Number), runs];
}

for (const [count, columns, prepares, runs] of [
  [1, 2, [1], 1],
  [15, 2, [1], 15],
  [16, 2, [16], 1],
  [499, 2, [499], 1],
  [500, 2, [500], 1],
  [501, 2, [500, 1], 2],
  [515, 2, [500, 1], 16],
  [516, 2, [500, 16], 2],
  [1_000, 2, [500], 2],
  [40, 1_000, [16, 1], 10],
  [40, 1_001, [1], 40],
] as const)
  test(`MySQL client: executeMany() inserts ${count} rows of ${columns} columns by few statements`, async (t) => {
    const rows = Array.from({ length: count }, (_, index) => Array<number>(columns).fill(index));
    assert.deepEqual(await insertsOf(t, rows), [prepares, runs]);
  });

test('MySQL client: executeMany() inserts row by row if the server is not strict', async (t) => {
  const rows = Array.from({ length: 20 }, (_, index) => [index]);
  assert.deepEqual(await insertsOf(t, rows, '?sql_mode=server'), [[1], 20]);
});

test('MySQL client: the error for a value of many rows has the number of its row', async (t) => {
  const { url } = await acceptingMySql(t);
  await using db = await openDatabase(url, { pool: { max: 1 } });
  for (const [count, wrong] of [
    [5, 3],
    [20, 18],
    [505, 503],
    [520, 519],
  ] as const) {
    const rows = Array.from({ length: count }, (_, index) => [1, index + 1 === wrong ? NaN : 2]);
    await assert.rejects(
      db.executeMany('insert into a values (?, ?)', rows),
      (error) => error instanceof DataError && error.message.includes(`parameter 2 of row ${wrong}`),
    );
    const short = rows.map(([one], index) => (index + 1 === wrong ? [one!] : [1, 2]));
    await assert.rejects(db.executeMany('insert into a values (?, ?)', short), {
      code: 'E_DB_PARAMETER_COUNT',
      message: new RegExp(
        `the values of row ${wrong}: the number of placeholders is 2, but the number of values is 1`,
      ),
    });
  }
});

// ── the largest packet ──

/** `max_allowed_packet` of the fake server. */
const MOST_BYTES = 9_000_000;

for (const [what, run] of [
  ['one large value', (db) => db.execute('update a set b = ?', ['x'.repeat(MOST_BYTES)])],
  ['several values', (db) => db.execute('update a set b = ? + ?', ['x'.repeat(MOST_BYTES), 'y'])],
  [
    'values that are not large alone',
    (db) =>
      db.execute(`update a set b = ?${' + ?'.repeat(9)}`, Array<string>(10).fill('x'.repeat(1_000_000))),
  ],
  ['a row of many', (db) => db.executeMany('update a set b = ?', [['x'], ['x'.repeat(MOST_BYTES)]])],
  ['the text of a statement', (db) => db.execute(`update a set b = '${'x'.repeat(MOST_BYTES)}'`)],
  ['the text of a script', (db) => db.script(`update a set b = '${'x'.repeat(MOST_BYTES)}'`)],
] as readonly (readonly [string, (db: Database) => Promise<unknown>])[])
  test(`MySQL client: ${what} above max_allowed_packet is refused, and the connection can be used again`, async (t) => {
    const { url } = await acceptingMySql(t);
    await using db = await openDatabase(url, { pool: { max: 1 } });
    await assert.rejects(
      run(db),
      (error) =>
        error instanceof DataError &&
        error.sqlstate === '54000' &&
        error.errno === 1153 &&
        error.message.startsWith("The server's limit of 9000000 bytes (max_allowed_packet) is exceeded: "),
    );
    assert.equal((await db.execute('update a set b = 1')).affectedRows, 0);
    assert.deepEqual([db.load.inUse, db.load.idle], [0, 1]);
  });

// ── columns of a violated key ──

/** Reply with one column of text, and one row for each value. */
function textRows(...values: readonly (string | null)[]): Buffer {
  const described = Buffer.concat([
    ...['def', '', '', '', 'column_name', ''].map((text) => Buffer.from([text.length, ...Buffer.from(text)])),
    Buffer.from([0x0c, 45, 0, 255, 0, 0, 0, 253, 0, 0, 0, 0, 0]),
  ]);
  return Buffer.concat([
    packet(1, Buffer.of(1)),
    packet(2, described),
    ...values.map((value, index) =>
      packet(
        3 + index,
        value === null ? Buffer.of(0, 0b100) : Buffer.from([0, 0, value.length, ...Buffer.from(value)]),
      ),
    ),
    packet(3 + values.length, END),
  ]);
}

const DUPLICATE = failure(1062, "Duplicate entry 'x' for key 'a.a_b'");
const ASKED = 'select column_name from information_schema.statistics';

for (const [what, error, reply, columns] of [
  ['names the columns of its key', DUPLICATE, textRows('b', null, 'c'), ['b', 'c']],
  ['has no columns if the server refuses to name them', DUPLICATE, failure(1142, 'denied'), []],
  ['is not asked about without the name of a key', failure(1062, 'Doppelter Eintrag'), undefined, []],
  [
    'is not asked about if it is of another kind',
    failure(1048, "Column 'b' cannot be null"),
    undefined,
    ['b'],
  ],
] as const)
  test(`MySQL client: a violation of a constraint ${what}`, async (t) => {
    const replies: (Buffer | undefined)[] = [error, reply];
    const texts: string[] = [];
    const { url } = await acceptingMySql(t, {
      prepare: (text) => (texts.push(text), prepared(text.split('?').length - 1)),
      execute: () => replies.shift(),
    });
    await using db = await openDatabase(url, { pool: { max: 1 } });
    await assert.rejects(db.execute('insert into a (b) values (?)', ['x']), (found) => {
      assert.ok(found instanceof ConstraintViolation);
      assert.deepEqual(found.columns, columns);
      assert.equal(found.sql, 'insert into a (b) values (?)');
      return true;
    });
    assert.equal(
      texts.some((text) => text.startsWith(ASKED)),
      reply !== undefined,
    );
  });

// ── statements that are only described, and sessions that are reset ──

const described = (db: Database, text: string): Promise<PreparedStatement | undefined> =>
  db.run('statement', (connection, limit) => connection.describe!(text, limit), {});

test('MySQL client: describe() closes the statement, and tells its parameters and columns', async (t) => {
  const { url, received } = await acceptingMySql(t);
  await using db = await openDatabase(url, { pool: { max: 1 } });
  assert.deepEqual(await described(db, 'update a set b = ? where c = ?'), {
    parameters: [undefined, undefined],
    columns: [],
  });
  await db.execute('select 1');
  assert.equal(
    received.some((bytes) => bytes.includes(packet(0, Buffer.of(COMMAND.stmtClose, 1, 0, 0, 0)))),
    true,
  );
});

test('MySQL client: describe() returns undefined for a statement that the server cannot prepare', async (t) => {
  const { url } = await acceptingMySql(t, { prepare: () => UNPREPARABLE });
  await using db = await openDatabase(url, { pool: { max: 1 } });
  assert.equal(await described(db, 'lock tables a read'), undefined);
});

for (const [what, refusals, texts] of [
  [
    'prepares a write in a transaction that is rolled back if the session only reads',
    1,
    ['start transaction read write', 'rollback'],
  ],
  [
    'rolls the transaction back if the server refuses the write there, too',
    2,
    ['start transaction read write', 'do 0', 'rollback'], // the second asks for the status of the transaction,
  ],
] as const)
  test(`MySQL client: describe() ${what}`, async (t) => {
    let left: number = refusals;
    const server = await acceptingMySql(t, {
      prepare: () =>
        left-- > 0 ? failure(1792, 'Cannot execute statement in a READ ONLY transaction.') : prepared(1),
    });
    await using db = await openDatabase(server.url, { readOnly: true, pool: { max: 1 } });
    server.texts.length = 0;
    const result = described(db, 'update a set b = ?');
    if (refusals === 1) assert.deepEqual(await result, { parameters: [undefined], columns: [] });
    else await assert.rejects(result, ReadOnly);
    assert.deepEqual(server.texts, texts);
  });

test('MySQL client: with the option reset: "full", a session gets its settings again after each use', async (t) => {
  const { url, received, texts } = await acceptingMySql(t);
  await using db = await openDatabase(url, { pool: { max: 1, reset: 'full' } });
  const settings = texts.filter((text) => text.startsWith(ENCODING[0]!)).length;
  const before = received.length;
  await db.transaction((tx) => tx.execute('update a set b = 1'));
  await db.execute('update a set b = 1');
  const requests = packetsIn(Buffer.concat(received.slice(before)));
  assert.ok(requests.some(([command]) => command === COMMAND.resetConnection));
  assert.ok(texts.filter((text) => text.startsWith(ENCODING[0]!)).length > settings);
  // statements of before the reset do not exist any more, so each is prepared again
  assert.equal(requests.filter(([command]) => command === COMMAND.stmtPrepare).length, 2);
});

test('MySQL client: a connection whose transaction cannot begin with its isolation level is closed', async (t) => {
  let logins = 0;
  const { url } = await fakeMySql(t, greeting(), (received, count) => {
    if (count === 0) return (logins++, packet(2, OK));
    return Buffer.concat(
      packetsIn(received)
        .filter(needsReply)
        .map((body) =>
          body.includes('max_allowed_packet')
            ? MOST
            : body.includes('start transaction')
              ? failure(1045, 'denied')
              : body[0] === COMMAND.stmtPrepare
                ? prepared()
                : packet(1, OK),
        ),
    );
  });
  await using db = await openDatabase(url, { pool: { max: 1 } });
  for (const expected of [2, 3]) {
    await assert.rejects(
      db.transaction(() => undefined, { isolation: 'serializable' }),
      { errno: 1045 },
    );
    await db.execute('insert');
    assert.equal(logins, expected);
  }
});
