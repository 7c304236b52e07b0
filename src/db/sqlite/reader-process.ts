/**
 * Program of a reader process: one connection that only reads, and handles one request after another.
 */
import { systemClock } from '../../base/clock.ts';
import { DatabaseError } from '../errors.ts';
import { SqliteConnection } from './connection.ts';
import { openFile } from './file.ts';
import type { DatabaseSync } from 'node:sqlite';
import type { Row } from '../driver.ts';
import type { ReaderReply, ReaderRequest } from './reader.ts';

const streams = new Map<number, AsyncIterator<readonly Row[]>>();
let lastStream = 0;
let db: DatabaseSync;
let connection: SqliteConnection;

async function answer({
  verb,
  sql = '',
  inputs = [],
  stream = 0,
  begin,
  data,
}: ReaderRequest): Promise<unknown> {
  switch (verb) {
    case 'open':
      db = await openFile({ path: data!.path, isReadOnly: true }); // SqliteReader.start() passes the data
      db.exec('pragma trusted_schema = off');
      connection = new SqliteConnection(db, {
        ...data!,
        clock: systemClock,
        log: undefined,
        slowStatementMs: 0,
      });
      return undefined;
    case 'execute':
    case 'fetchOne':
    case 'fetchArrays':
    case 'scalar':
      return connection[verb](sql, inputs, undefined);
    case 'stream':
      streams.set(++lastStream, connection.stream(sql, inputs, undefined)[Symbol.asyncIterator]());
      return lastStream;
    case 'next':
      // the parent sends "next" only for an open stream
      return (await streams.get(stream)!.next()).value;
    case 'end':
      await streams.get(stream)!.return?.();
      return void streams.delete(stream);
    case 'script':
      return connection.script(sql, undefined);
    case 'begin':
      return connection.begin(begin!, undefined); // SqliteReader.begin() passes the options
    case 'savepoint':
    case 'releaseSavepoint':
    case 'rollbackTo':
      return connection[verb](sql);
    case 'commit':
    case 'rollback':
      return connection[verb]();
    case 'close':
      connection.end();
      return db.close();
  }
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
  before = before.then(async () => process.send!(await reply(request))); // a forked process has process.send
});
process.on('disconnect', () => process.exit()); // the parent process has ended
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    /* ignore the signal, which goes to the whole process group: running requests must still finish */
  });
