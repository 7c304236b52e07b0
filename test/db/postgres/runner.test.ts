/** Statements of one connection to PostgreSQL, against a server that answers each message. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { connectPostgres } from '../../../src/db/postgres/connect.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import * as write from '../../support/postgres-bytes.ts';
import { PLAIN } from '../../support/postgres.ts';
import type { PostgresConnection } from '../../../src/db/postgres/connection.ts';

const TEXT = 25;
const ITEM = 16_500;

/** Result of a statement: columns and rows. */
interface Result {
  readonly columns: readonly (readonly [name: string, typeOid?: number, tableOid?: number])[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** Default: `SELECT` and the number of rows. */
  readonly tag?: string;
}

/** Reply to the query for the tables and types of columns, for one column. */
const FOUND: Result = {
  columns: [['a'], ['b'], ['c'], ['d'], ['e']],
  rows: [['item', 'character varying(20)', 'label', null, null]],
};

interface Served {
  readonly connection: PostgresConnection;
  /** Texts that the server has run, in order. */
  readonly texts: string[];
  /** Types of the messages that the server has received after the login. */
  readonly messages: string[];
}

/** Connects to a server that returns these results, by the beginning of the text. */
async function served(
  t: TestContext,
  results: Readonly<Record<string, Result>>,
  statementCache = 256,
): Promise<Served> {
  const texts: string[] = [];
  const messages: string[] = [];
  const server = createServer((socket) => {
    const prepared = new Map<string, string>();
    let text = '';
    let bytes = Buffer.alloc(0);
    let isLoggedIn = false;
    const resultOf = (): Result =>
      Object.entries(results).find(([start]) => text.startsWith(start))?.[1] ??
      assert.fail(`unexpected statement: ${text}`);
    const names = (body: Buffer): string[] => body.toString('latin1').split('\0');
    const answer = (type: string, body: Buffer): Buffer => {
      switch (type) {
        case 'P': {
          const [name, sql] = names(body) as [string, string];
          prepared.set(name, (text = sql));
          return write.message('1');
        }
        case 'D':
          text = prepared.get(names(body.subarray(1))[0]!)!;
          return Buffer.concat([
            write.message('t', write.int16(0)),
            resultOf().columns.length === 0
              ? write.message('n')
              : write.rowDescription(...resultOf().columns),
          ]);
        case 'B':
          text = prepared.get(names(body)[1]!)!;
          return write.message('2');
        case 'E':
          texts.push(text);
          return Buffer.concat([
            ...resultOf().rows.map((row) => write.dataRow(...row)),
            write.commandComplete(resultOf().tag ?? `SELECT ${resultOf().rows.length}`),
          ]);
        case 'C':
          return write.message('3');
        case 'S':
          return write.ready();
        default:
          return assert.fail(`unexpected message ${type}`);
      }
    };
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      if (!isLoggedIn) {
        isLoggedIn = true;
        socket.write(
          Buffer.concat([
            write.authentication(0),
            write.parameterStatus('server_version', '15.0'),
            write.backendKey(7, Buffer.alloc(4)),
            write.ready(),
          ]),
        );
        return;
      }
      bytes = Buffer.concat([bytes, chunk]);
      const replies: Buffer[] = [];
      while (bytes.length >= 5 && bytes.length > bytes.readInt32BE(1)) {
        const end = 1 + bytes.readInt32BE(1);
        const type = String.fromCharCode(bytes[0]!);
        messages.push(type);
        replies.push(answer(type, bytes.subarray(5, end)));
        bytes = bytes.subarray(end);
      }
      socket.write(Buffer.concat(replies));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const clock = new ManualClock();
  const connection = await connectPostgres(
    { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    {
      user: 'u',
      password: undefined,
      database: 'd',
      parameters: {},
      hasPlainStartup: false,
      slowStatementMs: 0,
      mustWrite: false,
      statementCache,
      int8: 'auto',
      log: undefined,
      clock,
      tls: PLAIN,
    },
    { signal: undefined, deadlineMs: clock.monotonicMs() + 10_000, timeoutMs: 10_000 },
  );
  t.after(() => {
    connection.destroy();
    server.close();
  });
  return { connection, texts, messages };
}

for (const [what, statementCache, expected] of [
  ['with a statement cache, PostgreSQL is asked at the first two uses', 256, 2],
  ['without a statement cache, PostgreSQL is asked each time', 0, 3],
] as const) {
  test(`PostgreSQL client: ${what} for the tables and types of a statement's columns`, async (t) => {
    const { connection, texts } = await served(
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
  const { connection, texts } = await served(t, {
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
  const { connection } = await served(t, {
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
    const { connection, texts, messages } = await served(t, { 'insert into item': INSERT }, statementCache);
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
  const { connection } = await served(t, results);
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
