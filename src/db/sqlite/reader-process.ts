/**
 * Program of a reader process. It has a read-only connection to a SQLite file, and handles the requests of
 * its parent process one after another.
 */
import { systemClock } from '../../base/clock.ts';
import { DatabaseError } from '../errors.ts';
import { SqliteConnection } from './connection.ts';
import { openFile } from './file.ts';
import type { DatabaseSync } from 'node:sqlite';
import type { Row } from '../driver.ts';
import type { ReaderOptions, ReaderReply, ReaderRequest } from './reader.ts';
import type { SqliteInput } from './values.ts';

const streams = new Map<number, AsyncIterator<readonly Row[]>>();
let lastStream = 0;
let db: DatabaseSync;
let connection: SqliteConnection;

/** Handlers of requests for which the connection has no method. */
const OWN: Readonly<Record<string, (...args: never[]) => unknown>> = {
  open: async (options: ReaderOptions) => {
    db = await openFile({ path: options.path, isReadOnly: true });
    db.exec('pragma trusted_schema = off');
    connection = new SqliteConnection(db, {
      ...options,
      clock: systemClock,
      log: undefined,
      slowStatementMs: 0,
    });
  },
  stream: (sql: string, inputs: readonly SqliteInput[]) => {
    streams.set(++lastStream, connection.stream(sql, inputs, undefined)[Symbol.asyncIterator]());
    return lastStream;
  },
  // the parent sends "next" and "end" only for an open stream, so the stream exists
  next: async (_sql: string, stream: number) => (await streams.get(stream)!.next()).value,
  end: async (_sql: string, stream: number) => {
    await streams.get(stream)!.return?.();
    streams.delete(stream);
  },
  close: () => {
    connection.end();
    db.close();
  },
};

async function answer({ verb, args }: ReaderRequest): Promise<unknown> {
  if (Object.hasOwn(OWN, verb)) return OWN[verb]!(...(args as never[]));
  return (connection as unknown as Record<string, (...args: readonly unknown[]) => unknown>)[verb]!(...args);
}

async function reply(request: ReaderRequest): Promise<ReaderReply> {
  try {
    return { id: request.id, value: await answer(request) };
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    const { errno, sqlstate, constraint, table, columns, sql } =
      error instanceof DatabaseError ? error : ({} as Partial<DatabaseError>);
    return {
      id: request.id,
      error: { name, message, details: { errno, sqlstate, constraint, table, columns, sql } },
    };
  }
}

let before: Promise<unknown> = Promise.resolve();
process.on('message', (request: ReaderRequest) => {
  // process.send exists, because this process was forked
  before = before.then(async () => process.send!(await reply(request)));
});
process.on('disconnect', () => process.exit()); // the parent process has ended
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    /* ignore the signal, because running requests must still finish */
  });
