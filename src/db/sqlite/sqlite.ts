/**
 * The SQLite driver on node:sqlite: one writing connection, which owners borrow in turn, and several reading
 * connections.
 *
 *   statements, transactions            the writing connection, in order of arrival; a transaction is never interleaved
 *   long reads, read-only transactions, streams    separate connections to the file, or processes with `readers`
 *   :memory:                            a single connection for everything
 */
import { rename, rm } from 'node:fs/promises';
import { closeSync, openSync } from 'node:fs';
import { SvcError } from '../../base/errors.ts';
import { StorageFailed, atCaller } from '../errors.ts';
import { limitReached } from '../limits.ts';
import { MEMORY, SqliteConnection, type SqliteOptions } from './connection.ts';
import { identityOf, openFile, openIssue, prepareFile, type FileIdentity } from './file.ts';
import { SqliteReads, readerProcess } from './reader.ts';
import { sqliteError } from './errors.ts';
import { BATCH_ROWS } from './statement.ts';
import { FairLock } from './fair-lock.ts';
import type { DatabaseSync } from 'node:sqlite';
import type { Awaitable } from '../../cache/stores.ts';
import type { Connection, Driver, DriverLoad, Limit, Purpose, Row } from '../driver.ts';
import type { Params } from '../values.ts';

/** Milliseconds that pending work has when the database is closed. */
const CLOSE_MS = 10_000;

/** The SQLite driver. See {@link Driver}. */
export class SqliteDriver implements Driver {
  readonly dialect = 'sqlite';
  readonly #options: SqliteOptions;
  readonly #lock: FairLock;
  /** Undefined for `:memory:`, where each connection would open a separate database. */
  readonly #reads: SqliteReads | undefined;
  #db: DatabaseSync | undefined;
  #main: SqliteConnection | undefined;
  #identity: FileIdentity | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: SqliteOptions) {
    const { path, clock, acquireTimeoutMs, maxWaiting, readers } = options;
    if (path === MEMORY && readers > 0)
      throw new SvcError('E_DB_OPTION', [
        '"readers" are separate processes, which cannot access a database in this process\'s memory',
      ]);
    if (readers > 0 && readerProcess() === undefined)
      throw new SvcError('E_DB_OPTION', [
        '"readers" run a file of this package, which is missing beside a single-file program',
      ]);
    if (path === MEMORY && options.isReadOnly)
      throw new SvcError('E_DB_OPTION', [
        '"readOnly" is useless for a database in memory, which starts empty',
      ]);
    this.#options = options;
    this.#lock = new FairLock({
      what: 'the writing connection',
      hint: '; a transaction holds it: run its statements on the transaction, also in a handler with Depends(transaction)',
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
      this.#options.log?.warn('transaction_left_open', { remedy: 'It was rolled back' });
      this.#main.rollback();
    }
    try {
      if (this.#main.restoreForeignKeys())
        this.#options.log?.warn('foreign_keys_restored', {
          remedy:
            'All callers share the connection: turn foreign keys off in a migration (-- svc: no-foreign-keys)',
        });
    } finally {
      this.#lock.give();
    }
  }

  async *stream(
    sql: string,
    params: Params,
    limit: Limit | undefined,
  ): AsyncGenerator<readonly Row[], void, undefined> {
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

  /** Checks the file as well as the connection: a deleted or replaced file still answers its open connections. */
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
          : 'Another file was put in the place of the database while it was open',
        { sqlstate: '58030' },
      );
    }
  }

  async backup(path: string, limit: Limit | undefined): Promise<void> {
    const partial = `${path}.partial`;
    if (this.#isOwnFile(path) || this.#isOwnFile(partial))
      throw new SvcError('E_DB_OPEN', [path, 'a copy must not replace the database itself']);
    try {
      closeSync(openSync(partial, 'w', 0o600));
    } catch (error) {
      throw new SvcError(
        'E_DB_OPEN',
        [path, `the copy cannot be written (${(error as NodeJS.ErrnoException).code})`],
        { cause: error },
      );
    }
    try {
      await this.#copyTo(partial, limit);
      // SQLite would apply the leftover log of an older copy to this one
      for (const suffix of ['-wal', '-shm']) await rm(path + suffix, { force: true });
      await rename(partial, path);
    } catch (error) {
      await rm(partial, { force: true });
      throw sqliteError(error, undefined);
    }
  }

  /**
   * Returns whether the path is the database or its log. Replacing it would leave open connections on an
   * unlinked file, and the copy with a foreign log.
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
    const closed = (): SvcError => new SvcError('E_DB_CLOSED', ['run a statement']);
    const isDrained = await this.#drained(
      Promise.all([this.#lock.close(closed), this.#reads?.drain(closed)]),
    );
    await this.#reads?.close();
    const [db, main] = [this.#db, this.#main];
    this.#db = this.#main = undefined;
    if (db === undefined || main === undefined) return;
    if (!isDrained)
      this.#options.log?.warn('database_closed_in_use', {
        remedy: 'Let transaction callbacks settle, and loops over streams end',
      });
    if (main.isInTransaction) main.rollback();
    main.end();
    try {
      if (!this.#options.isReadOnly) db.exec('pragma optimize');
    } catch (error) {
      // another process is writing: the next checkpoint does the work
      this.#options.log?.debug('optimize_failed', { reason: (error as Error).message });
    }
    db.close();
  }

  /**
   * Returns whether the work ended in time. A callback that never settles, or an unread stream, must not keep
   * a program alive.
   */
  async #drained(drained: Promise<unknown>): Promise<boolean> {
    const abort = new AbortController();
    const late = this.#options.clock.sleep(CLOSE_MS, abort.signal).then(
      () => false,
      () => true,
    ); // an abort means that it came in time
    const isDrained = await Promise.race([drained.then(() => true), late]);
    abort.abort();
    return isDrained;
  }

  #opened(): SqliteConnection {
    if (this.#main === undefined) throw atCaller(new SvcError('E_DB_CLOSED', ['run a statement']));
    return this.#main;
  }

  /** Streams from memory. All rows are read at once, because a slow reader would block the only connection. */
  async *#streamFromMemory(
    sql: string,
    params: Params,
    limit: Limit | undefined,
  ): AsyncGenerator<readonly Row[], void, undefined> {
    const connection = await this.acquire(limit, 'statement');
    let rows: Row[];
    try {
      rows = await connection.fetchAll(sql, params, limit);
    } finally {
      this.release(connection);
    }
    for (let from = 0; from < rows.length; from += BATCH_ROWS) yield rows.slice(from, from + BATCH_ROWS);
  }

  /** Copies on a connection without a transaction, because a copy from one would include uncommitted data. */
  async #copyTo(path: string, limit: Limit | undefined): Promise<void> {
    const { backup } = await import('node:sqlite');
    const { clock, path: source } = this.#options;
    const progress = (): void => {
      const reached = limitReached(limit, clock);
      if (reached !== undefined) throw reached;
    };
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
      await backup(this.#db!, path, { progress }); // acquire() has checked that it is open
    } finally {
      this.release(connection);
    }
  }
}

async function configure(
  main: SqliteConnection,
  { path, isReadOnly, synchronous }: SqliteOptions,
): Promise<void> {
  // the first read of the file detects whether it is a database
  await main.scalar('pragma schema_version', [], undefined);
  if (!isReadOnly && path !== MEMORY) {
    const mode = await main.scalar('pragma journal_mode = wal', [], undefined);
    if (mode !== 'wal')
      throw new SvcError('E_DB_OPEN', [
        path,
        `its file system has no shared memory, which WAL needs (journal mode "${String(mode)}")`,
      ]);
  }
  await main.script(
    `pragma synchronous = ${synchronous}; pragma foreign_keys = on; pragma trusted_schema = off`,
    undefined,
  );
}
