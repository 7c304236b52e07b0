/** Sessions of MySQL and MariaDB on a fake server: their settings, and the order of requests and replies. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openDatabase } from '../../../src/db/index.ts';
import { COMMAND } from '../../../src/db/mysql/wire.ts';
import { MOST, OK, fakeMySql, greeting, packet, packetsIn, prepared } from '../../support/mysql-bytes.ts';
import type { Socket } from 'node:net';

const IN_TRANSACTION = Buffer.from([0, 0, 0, 3, 0, 0, 0]);

/** Returns the reply to the body of a request that needs one. Prepared statements run in a transaction. */
function replyTo(body: Buffer): Buffer {
  if (body.includes('max_allowed_packet')) return MOST;
  if (body[0] === COMMAND.stmtPrepare) return prepared();
  const isInside = body[0] === COMMAND.stmtExecute || body.includes('start transaction');
  return packet(1, isInside ? IN_TRANSACTION : OK);
}

/** Starts a server that accepts each login and each statement, and collects the texts of queries. */
async function accepting(t: TestContext): Promise<{ readonly url: string; readonly texts: string[] }> {
  const texts: string[] = [];
  const { url } = await fakeMySql(t, greeting(), (received, count) => {
    if (count === 0) return packet(2, OK);
    const bodies = packetsIn(received).filter(([command]) => command !== COMMAND.quit);
    for (const body of bodies) if (body[0] === COMMAND.query) texts.push(body.toString('utf8', 1));
    return Buffer.concat(bodies.map(replyTo));
  });
  return { url, texts };
}

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
    const { url, texts } = await accepting(t);
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
      const respond = (socket: Socket, body: Buffer): void => {
        most = Math.max(most, ++open);
        setImmediate(() => {
          open--;
          socket.write(replyTo(body));
        });
      };
      const { url } = await fakeMySql(t, greeting(), (received, count, socket) => {
        if (count === 0) return packet(2, OK);
        for (const body of packetsIn(received)) if (body[0] !== COMMAND.quit) respond(socket, body);
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
