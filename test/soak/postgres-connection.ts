/**
 * Connections to PostgreSQL that are canceled at any moment and ended by the server, for SOAK_SECONDS (default 30): every answer
 * must be that of its own question, and a connection either goes on in order or is known to be broken. On the server that
 * POSTGRES_URL names, else on one of its own.
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/postgres-connection.ts
 */
import assert from 'node:assert/strict';
import { ConnectionLost, QueryCanceled, TransactionAborted } from '../../src/db/index.ts';
import { connectPostgres } from '../../src/db/postgres/connect.ts';
import { optionsOf, soon } from '../support/postgres.ts';
import { PostgresServer, postgresProblem } from '../support/postgres-server.ts';
import { seeded } from '../support/random.ts';
import type { PostgresConnection } from '../../src/db/postgres/connection.ts';

const WORKERS = 8;
const seconds = Number(process.env['SOAK_SECONDS'] ?? 30);
let endMs = 0;
const counts = { answers: 0, canceled: 0, lost: 0, transactions: 0 };

const ends: (() => void | Promise<void>)[] = [];
let url = process.env['POSTGRES_URL'] ?? '';

const open = (): Promise<PostgresConnection> => connectPostgres(...optionsOf(url), soon());

/** One question of several kinds, each with a number that must come back. */
async function ask(
  connection: PostgresConnection,
  nonce: number,
  kind: number,
  signal: AbortSignal,
): Promise<void> {
  const limit = { ...soon(), signal };
  switch (kind) {
    case 0:
      assert.equal(await connection.scalar('select ?::int8', [nonce], limit), nonce);
      break;
    case 1:
      assert.equal(
        await connection.scalar(`select ?::int8 + ${nonce % 500}`, [nonce], limit),
        nonce + (nonce % 500),
      );
      break;
    case 2:
      assert.deepEqual(
        await connection.fetchAll('select ?::int8 + n as n from generate_series(0, 99) n', [nonce], limit),
        Array.from({ length: 100 }, (_, n) => ({ n: nonce + n })),
      );
      break;
    case 3:
      assert.equal(
        await connection.executeMany(
          'select ?::int8',
          Array.from({ length: 300 }, () => [nonce]),
          limit,
        ),
        0,
      );
      break;
    case 4: {
      let sum = 0;
      for await (const rows of connection.stream(
        'select ?::int8 as nonce from generate_series(1, 600)',
        [nonce],
        limit,
      ))
        sum += rows.filter((row) => row['nonce'] === nonce).length;
      assert.equal(sum, 600);
      break;
    }
    default:
      assert.equal(await connection.scalar('select ?::int8 from pg_sleep(0.001)', [nonce], limit), nonce);
  }
  counts.answers++;
}

/** Together, in a transaction that sees one number of its own. */
async function transact(connection: PostgresConnection): Promise<void> {
  await connection.begin({ isolation: undefined, isReadOnly: false }, undefined);
  const [one, two, three] = await Promise.all(
    [1, 2, 3].map(() => connection.scalar('select txid_current()', [], undefined)),
  );
  assert.ok(one === two && two === three);
  await connection.commit();
  counts.transactions++;
}

async function work(worker: number, killer: PostgresConnection): Promise<void> {
  const random = seeded(worker);
  let connection = await open();
  for (let nonce = worker * 1e9; performance.now() < endMs; nonce++) {
    const abort = new AbortController();
    const choice = random(20);
    if (choice === 0) setImmediate(() => abort.abort());
    else if (choice === 1) queueMicrotask(() => abort.abort());
    const ending =
      random(200) === 0
        ? connection
            .scalar('select pg_backend_pid()', [], undefined)
            .then((pid) => killer.execute('select pg_terminate_backend(?)', [pid as number], undefined))
        : undefined;
    try {
      await ending;
      await ask(connection, nonce, random(6), abort.signal);
      assert.equal(connection.isIdle, true);
      if (random(10) === 0) await transact(connection);
    } catch (error) {
      if (error instanceof QueryCanceled) counts.canceled++;
      else if (error instanceof ConnectionLost || error instanceof TransactionAborted) counts.lost++;
      else throw error;
      if (connection.isBroken) connection = await open();
      else if (connection.isInTransaction) await connection.rollback();
    }
  }
  await connection.close();
}

const problem = postgresProblem();
if (problem !== undefined) console.log(`SKIPPED: ${problem}`);
else {
  try {
    if (url === '') ({ url } = await PostgresServer.start({ after: (end) => void ends.push(end) }));
    const killer = await open();
    endMs = performance.now() + seconds * 1_000;
    await Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(worker, killer)));
    await killer.close();
    assert.ok(counts.answers > 100, JSON.stringify(counts));
    console.log(`ok: ${JSON.stringify(counts)}`);
  } finally {
    for (const end of ends.reverse()) await end();
  }
}
