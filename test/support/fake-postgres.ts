/**
 * A fake PostgreSQL server that accepts the login, and returns prepared results for statements.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { connectPostgres } from '../../src/db/postgres/connect.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import * as write from './postgres-bytes.ts';
import { PLAIN } from './postgres.ts';
import type { TestContext } from 'node:test';
import type { PostgresConnection } from '../../src/db/postgres/connection.ts';

/** Result of a statement: columns and rows. */
export interface Result {
  readonly columns: readonly (readonly [name: string, typeOid?: number, tableOid?: number])[];
  readonly rows: readonly (readonly (string | Uint8Array | null)[])[];
  /** Types of the parameters; none by default. */
  readonly parameters?: readonly number[];
  /** Default: `SELECT` and the number of rows. */
  readonly tag?: string;
  /** Errors of the next runs, by their letters; removed when they are sent. */
  readonly failures?: Readonly<Record<string, string>>[];
  /** Direction of the data if the statement is a COPY. */
  readonly copy?: 'in' | 'out';
}

export interface FakePostgres {
  readonly port: number;
  /** Texts that the server has run, in order. */
  readonly texts: string[];
  /** Types of the messages that the server has received after the login. */
  readonly messages: string[];
  /** Data that the server has received by COPY. */
  readonly copied: string[];
}

const WELCOME = Buffer.concat([
  write.authentication(0),
  write.parameterStatus('server_version', '15.0'),
  write.backendKey(7, Buffer.alloc(4)),
  write.ready(),
]);

const TRANSACTIONS: Readonly<Record<string, Result>> = Object.fromEntries(
  ['begin', 'commit', 'rollback'].map((text) => [text, { columns: [], rows: [], tag: text.toUpperCase() }]),
);

/** Answers the messages of one client, as PostgreSQL does. */
class Backend {
  readonly #results: Readonly<Record<string, Result>>;
  readonly #served: Omit<FakePostgres, 'port'>;
  readonly #prepared = new Map<string, string>();
  readonly #portals = new Set<string>();
  /** Rows that a suspended portal has not sent. */
  readonly #left = new Map<string, Result['rows']>();
  #text = '';
  /** Whether a simple query runs, whose end needs no Sync. */
  #isSimple = false;
  #isCopying = false;
  /** Whether messages are ignored until the next Sync, because one of them has failed. */
  #isSkipping = false;
  /** `T` inside a transaction, else `I`. */
  #status = 'I';

  constructor(results: Readonly<Record<string, Result>>, served: Omit<FakePostgres, 'port'>) {
    this.#results = results;
    this.#served = served;
  }

  answer(type: string, body: Buffer): Buffer {
    this.#served.messages.push(type);
    if (type === 'S') this.#isSkipping = false;
    if (this.#isSkipping) return Buffer.alloc(0);
    const names = (bytes: Buffer): string[] => bytes.toString('latin1').split('\0');
    switch (type) {
      case 'P': {
        const [name, sql] = names(body) as [string, string];
        this.#prepared.set(name, (this.#text = sql));
        return write.message('1');
      }
      case 'D':
        this.#text = this.#prepared.get(names(body.subarray(1))[0]!)!;
        return this.#description();
      case 'B':
        this.#portals.add(names(body)[0]!);
        this.#text = this.#prepared.get(names(body)[1]!)!;
        return write.message('2');
      case 'Q':
        this.#text = names(body)[0]!;
        this.#isSimple = true;
        return this.#run();
      case 'E':
        this.#isSimple = false;
        if (this.#portals.has(names(body)[0]!))
          return this.#batch(names(body)[0]!, body.readInt32BE(body.length - 4));
        this.#isSkipping = true;
        return write.failure({ S: 'ERROR', C: '34000', M: 'portal does not exist' });
      case 'C':
        return write.message('3');
      case 'S':
        return this.#isCopying ? Buffer.alloc(0) : write.ready(this.#status); // a Sync is ignored during COPY
      case 'd':
        this.#served.copied.push(body.toString());
        return Buffer.alloc(0);
      case 'c':
        return this.#endCopy(write.commandComplete(this.#result.tag ?? 'COPY 0'));
      case 'f':
        return this.#endCopy(write.failure({ S: 'ERROR', C: '57014', M: 'COPY from stdin failed' }));
      case 'H':
      case 'X':
        return Buffer.alloc(0);
      default:
        return assert.fail(`unexpected message ${type}`);
    }
  }

  get #result(): Result {
    return (
      [...Object.entries(this.#results), ...Object.entries(TRANSACTIONS)].find(([start]) =>
        this.#text.startsWith(start),
      )?.[1] ?? assert.fail(`unexpected statement: ${this.#text}`)
    );
  }

  #description(): Buffer {
    const { columns, parameters = [] } = this.#result;
    return Buffer.concat([
      write.message('t', write.int16(parameters.length), ...parameters.map(write.int32)),
      columns.length === 0 ? write.message('n') : write.rowDescription(...columns),
    ]);
  }

  #run(): Buffer {
    const { rows, tag, copy, failures } = this.#result;
    this.#served.texts.push(this.#text);
    const failure = failures?.shift();
    if (failure !== undefined) {
      this.#isSkipping = !this.#isSimple;
      const error = write.failure({ S: 'ERROR', ...failure });
      return Buffer.concat([error, this.#isSimple ? write.ready(this.#status) : Buffer.alloc(0)]);
    }
    if (tag === 'BEGIN') this.#status = 'T';
    else if (tag === 'COMMIT' || tag === 'ROLLBACK') this.#status = 'I';
    if (copy === 'in') {
      this.#isCopying = true;
      return write.message('G', Buffer.alloc(1), write.int16(0));
    }
    const data =
      copy === 'out'
        ? [
            write.message('H', Buffer.alloc(1), write.int16(0)),
            write.message('d', Buffer.from('1\n')),
            write.message('c'),
          ]
        : rows.map((row) => write.dataRow(...row));
    return Buffer.concat([
      ...data,
      write.commandComplete(tag ?? `SELECT ${rows.length}`),
      this.#isSimple ? write.ready(this.#status) : Buffer.alloc(0),
    ]);
  }

  /** Runs a portal, or sends its next rows. */
  #batch(portal: string, maxRows: number): Buffer {
    const left = this.#left.get(portal);
    if (maxRows === 0 || (left === undefined && this.#result.rows.length <= maxRows)) return this.#run();
    if (left === undefined) this.#served.texts.push(this.#text);
    const rows = left ?? this.#result.rows;
    this.#left.set(portal, rows.slice(maxRows));
    return Buffer.concat([
      ...rows.slice(0, maxRows).map((row) => write.dataRow(...row)),
      rows.length > maxRows ? write.message('s') : write.commandComplete(`SELECT ${rows.length}`),
    ]);
  }

  #endCopy(reply: Buffer): Buffer {
    this.#isCopying = false;
    return Buffer.concat([reply, this.#isSimple ? write.ready(this.#status) : Buffer.alloc(0)]);
  }
}

function serve(socket: Socket, backend: Backend): void {
  let bytes = Buffer.alloc(0);
  let isLoggedIn = false;
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    if (!isLoggedIn) {
      isLoggedIn = true;
      socket.write(WELCOME);
      return;
    }
    bytes = Buffer.concat([bytes, chunk]);
    const replies: Buffer[] = [];
    while (bytes.length >= 5 && bytes.length > bytes.readInt32BE(1)) {
      const end = 1 + bytes.readInt32BE(1);
      replies.push(backend.answer(String.fromCharCode(bytes[0]!), bytes.subarray(5, end)));
      bytes = bytes.subarray(end);
    }
    socket.write(Buffer.concat(replies));
  });
}

/** Starts a server that returns these results, by the beginning of the text. */
export async function fakePostgres(
  t: TestContext,
  results: Readonly<Record<string, Result>>,
): Promise<FakePostgres> {
  const served = { texts: [], messages: [], copied: [] };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    serve(socket, new Backend(results, served));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, ...served };
}

/** Starts a server as {@link fakePostgres} does, and connects to it. */
export async function connectedToFake(
  t: TestContext,
  results: Readonly<Record<string, Result>>,
  statementCache = 256,
): Promise<FakePostgres & { readonly connection: PostgresConnection }> {
  const fake = await fakePostgres(t, results);
  const clock = new ManualClock();
  const connection = await connectPostgres(
    { host: '127.0.0.1', port: fake.port },
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
  t.after(() => connection.destroy());
  return { connection, ...fake };
}
