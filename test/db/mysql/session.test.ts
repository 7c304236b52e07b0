/** Sessions of MySQL and MariaDB on a fake server: their settings, and the order of requests and replies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DataError, openDatabase } from '../../../src/db/index.ts';
import { COMMAND } from '../../../src/db/mysql/wire.ts';
import {
  IN_TRANSACTION,
  MOST,
  OK,
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
  test(
    `MySQL client: several statements on one connection are sent ${pipelining === 1 ? 'at once' : 'each after the reply to the one before'} (pipelining=${pipelining})`,
    { timeout: 30_000 },
    async (t) => {
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
    },
  );

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
