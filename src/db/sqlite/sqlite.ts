/**
 * SQLite driver on node:sqlite. Statements and transactions use one connection, in the order of the calls. A
 * transaction holds the connection until it ends.
 *
 * Long reads, read-only transactions and streams use other connections, which cannot write. With the option
 * `readers`, these are in other processes. A `:memory:` database has one connection for all work.
 */
import { rename, rm } from 'node:fs/promises';
import { closeSync, openSync } from 'node:fs';
import { SvcError, errorCode } from '../../base/errors.ts';
import { within } from '../../base/promises.ts';
import { StorageFailed, atCaller } from '../errors.ts';
import { checkLimit } from '../limits.ts';
import { MEMORY, SqliteConnection, type SqliteOptions } from './connection.ts';
import { identityOf, openFile, openIssue, prepareFile, type FileIdentity } from './file.ts';
import { SqliteReads, readerProcess } from './reader.ts';
import { sqliteError } from './errors.ts';
import { BATCH_ROWS } from './statement.ts';
import { FairLock } from './fair-lock.ts';
import type { DatabaseSync } from 'node:sqlite';
import type { Awaitable } from '../../cache/stores.ts';
import type { Connection, Driver, DriverLoad, Limit, Purpose, Row, RowBatches } from '../driver.ts';
import type { Params } from '../values.ts';

/** Milliseconds that close() waits for running statements. Then the database is closed anyway. */
const CLOSE_MS = 10_000;

export class SqliteDriver implements Driver {
  readonly dialect = 'sqlite';
  readonly #options: SqliteOptions;
  readonly #lock: FairLock;
  /**
   * Connections that only read. Undefined for `:memory:`, where each connection would open another database.
   */
  readonly #reads: SqliteReads | undefined;
  #db: DatabaseSync | undefined;
  #main: SqliteConnection | undefined;
  #identity: FileIdentity | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: SqliteOptions) {
    const { path, clock, acquireTimeoutMs, maxWaiting, readers } = options;
    if (path === MEMORY && readers > 0)
      throw new SvcError('E_DB_OPTION', [
        '"readers" are separate processes, which cannot read a database in memory: remove the option, or use a file',
      ]);
    if (readers > 0 && readerProcess() === undefined)
      throw new SvcError('E_DB_OPTION', [
        '"readers" cannot be used in a program that is bundled into one file: remove the option, or do not bundle svc',
      ]);
    if (path === MEMORY && options.isReadOnly)
      throw new SvcError('E_DB_OPTION', [
        '"readOnly" is useless for a database in memory, which is always empty at first: remove the option',
      ]);
    this.#options = options;
    this.#lock = new FairLock({
      what: 'the writing connection',
      hint: '; inside the callback of transaction(), run every statement on the transaction that the callback receives',
      permits: 1,
      maxWaiting,
      acquireTimeoutMs,
      clock,
    });
    this.#reads = path === MEMORY ? undefined : new SqliteReads(options);
  }

  get load(): DriverLoad {
    const { inUse, waiting } = this.#lock;
    const reads = this.#reads?.load ?? { inUse: 0, idle: 0, waiting: 0 };
    return { inUse: inUse + reads.inUse, idle: 1 - inUse + reads.idle, waiting: waiting + reads.waiting };
  }

  async open(): Promise<void> {
    const { path, isReadOnly } = this.#options;
    if (path !== MEMORY) prepareFile(this.#options);
    const db = await openFile(this.#options);
    const main = new SqliteConnection(db, this.#options);
    try {
      await configure(main, this.#options);
    } catch (error) {
      db.close();
      throw openIssue(path, error);
    }
    this.#db = db;
    this.#main = main;
    if (path !== MEMORY) this.#identity = identityOf(path);
    if (!isReadOnly) this.#options.log?.debug('database_opened', { path });
  }

  acquire(limit: Limit | undefined, purpose: Purpose): Awaitable<Connection> {
    const main = this.#opened();
    if (purpose === 'read' && this.#reads !== undefined) return this.#reads.acquire(limit);
    const locked = this.#lock.take(limit);
    return locked === undefined ? main : locked.then(() => main);
  }

  release(connection: Connection): void {
    if (connection !== this.#main) {
      this.#reads?.release(connection);
      return;
    }
    if (connection.isInTransaction) {
      this.#options.log?.warn('transaction_left_open', {
        remedy:
          'The open transaction was rolled back: a script or callback that begins a transaction must also end the transaction',
      });
      this.#main.rollback();
    }
    try {
      if (this.#main.restoreForeignKeys())
        this.#options.log?.warn('foreign_keys_restored', {
          remedy:
            'Foreign keys were switched on again, because all callers share the connection: switch them off only in a migration (-- svc: no-foreign-keys)',
        });
    } finally {
      this.#lock.give();
    }
  }

  async *stream(sql: string, params: Params, limit: Limit | undefined): RowBatches {
    if (this.#reads === undefined) {
      yield* this.#streamFromMemory(sql, params, limit);
      return;
    }
    this.#opened();
    const connection = await this.#reads.acquire(limit);
    try {
      yield* connection.stream(sql, params, limit);
    } finally {
      this.#reads.release(connection);
    }
  }

  /**
   * Checks a connection, and whether the file is still there: an open connection still works after its file
   * was deleted or replaced.
   */
  async ping(limit: Limit | undefined): Promise<void> {
    const connection = await this.acquire(limit, 'read');
    try {
      await connection.scalar('pragma schema_version', [], limit);
    } finally {
      this.release(connection);
    }
    const before = this.#identity;
    if (before === undefined) return;
    const now = identityOf(this.#options.path);
    if (now?.inode !== before.inode || now.device !== before.device) {
      throw new StorageFailed(
        now === undefined
          ? 'The database file was removed while it was open'
          : 'The database file was replaced by another file while it was open',
        { sqlstate: '58030' },
      );
    }
  }

  async backup(path: string, limit: Limit | undefined): Promise<void> {
    const partial = `${path}.partial`;
    if (this.#isOwnFile(path) || this.#isOwnFile(partial))
      throw new SvcError('E_DB_OPEN', [
        path,
        'the path belongs to the open database: write the copy to another path',
      ]);
    try {
      closeSync(openSync(partial, 'w', 0o600));
    } catch (error) {
      throw new SvcError('E_DB_OPEN', [path, `the copy cannot be written (${errorCode(error)})`], {
        cause: error,
      });
    }
    try {
      await this.#copyTo(partial, limit);
      // remove a log that a killed process left beside the copy, because SQLite would apply that log to the
      // new copy
      for (const suffix of ['-wal', '-shm']) await rm(path + suffix, { force: true });
      await rename(partial, path);
    } catch (error) {
      await rm(partial, { force: true });
      throw sqliteError(error, undefined);
    }
  }

  /**
   * Returns whether the path is the database itself or one of its log files. Replacing one of them would
   * damage the database.
   */
  #isOwnFile(path: string): boolean {
    const found = identityOf(path);
    if (found === undefined || this.#identity === undefined) return false;
    const own = [
      this.#identity,
      ...['-wal', '-shm', '-journal'].map((suffix) => identityOf(this.#options.path + suffix)),
    ];
    return own.some((file) => file?.inode === found.inode && file.device === found.device);
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    const closed = (): SvcError => new SvcError('E_DB_CLOSED', []);
    const isDrained = await this.#drained(
      Promise.all([this.#lock.close(closed), this.#reads?.drain(closed)]),
    );
    await this.#reads?.close();
    const [db, main] = [this.#db, this.#main];
    this.#db = this.#main = undefined;
    if (db === undefined || main === undefined) return;
    if (!isDrained)
      this.#options.log?.warn('database_closed_in_use', {
        remedy:
          'Before you close the database, wait until all transactions and all loops over stream() have ended',
      });
    if (main.isInTransaction) main.rollback();
    main.end();
    try {
      if (!this.#options.isReadOnly) db.exec('pragma optimize');
    } catch (error) {
      // ignore the error: another connection is writing, and the next close optimizes the database
      this.#options.log?.debug('optimize_failed', { reason: (error as Error).message });
    }
    db.close();
  }

  /**
   * Waits until all connections are returned, at most for CLOSE_MS. A callback that never settles must not
   * keep the program from ending. Returns whether all connections were returned.
   */
  #drained(drained: Promise<unknown>): Promise<boolean> {
    const isDrained = drained.then(() => true);
    return within(this.#options.clock, CLOSE_MS, isDrained, () => false, { ref: true });
  }

  #opened(): SqliteConnection {
    if (this.#main === undefined) throw atCaller(new SvcError('E_DB_CLOSED', []));
    return this.#main;
  }

  /**
   * Reads all rows at once, so that a slow reader does not block the only connection. The rows of a database
   * in memory fit in memory anyway.
   */
  async *#streamFromMemory(sql: string, params: Params, limit: Limit | undefined): RowBatches {
    const connection = await this.acquire(limit, 'statement');
    let rows: Row[];
    try {
      rows = await connection.fetchAll(sql, params, limit);
    } finally {
      this.release(connection);
    }
    for (let from = 0; from < rows.length; from += BATCH_ROWS) yield rows.slice(from, from + BATCH_ROWS);
  }

  /**
   * Copies the database. Does not use a connection with an open transaction, because the copy would contain
   * uncommitted data.
   */
  async #copyTo(path: string, limit: Limit | undefined): Promise<void> {
    const { backup } = await import('node:sqlite');
    const { clock, path: source } = this.#options;
    const progress = (): void => checkLimit(limit, clock);
    progress();
    if (source !== MEMORY) {
      this.#opened();
      const db = await openFile({ path: source, isReadOnly: true });
      try {
        await backup(db, path, { progress });
      } finally {
        db.close();
      }
      return;
    }
    const connection = await this.acquire(limit, 'statement');
    try {
      await backup(this.#db!, path, { progress });
    } finally {
      this.release(connection);
    }
  }
}

async function configure(
  main: SqliteConnection,
  { path, isReadOnly, synchronous }: SqliteOptions,
): Promise<void> {
  // the first read of the file fails if the file is not a database
  await main.scalar('pragma schema_version', [], undefined);
  if (!isReadOnly && path !== MEMORY) {
    const mode = await main.scalar('pragma journal_mode = wal', [], undefined);
    if (mode !== 'wal')
      throw new SvcError('E_DB_OPEN', [
        path,
        `the file system does not support shared memory, which WAL needs (journal mode "${String(mode)}"): move the file to a local disk`,
      ]);
  }
  await main.script(
    `pragma synchronous = ${synchronous}; pragma foreign_keys = on; pragma trusted_schema = off`,
    undefined,
  );
}
