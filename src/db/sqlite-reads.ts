/**
 * Connections of a SQLite file that only read: for long reads, read-only transactions and streams. Each sees the file as it is
 * when it begins to read, whatever is written meanwhile. In this process, or with `readers` in processes of their own, where a read
 * does not hold the loop, and can be ended.
 */
import { openFile } from './sqlite-file.ts';
import { SqliteConnection } from './sqlite-connection.ts';
import { SqliteReader } from './sqlite-reader.ts';
import { Turns } from './turns.ts';
import type { DatabaseSync } from 'node:sqlite';
import type { Connection, DriverLoad, Limit } from './driver.ts';
import type { SqliteOptions } from './sqlite-options.ts';

/** Reading connections in this process, at most. */
const MAX_IN_PROCESS = 8;

/** A connection and how to end it. */
interface Reading {
  readonly connection: SqliteConnection | SqliteReader;
  readonly isBroken: boolean;
  close(): Promise<void> | void;
}

/** Lends them, opening them as they are needed, the last one used first. */
export class SqliteReads {
  readonly #options: SqliteOptions;
  readonly #turns: Turns;
  readonly #idle: Reading[] = [];
  readonly #lent = new Map<Connection, Reading>();

  constructor(options: SqliteOptions) {
    const { clock, acquireTimeoutMs, maxWaiting, readers } = options;
    this.#options = options;
    this.#turns = new Turns({ what: 'a reading connection', permits: readers === 0 ? MAX_IN_PROCESS : readers, maxWaiting, acquireTimeoutMs, clock });
  }

  get load(): DriverLoad {
    return { inUse: this.#turns.inUse, idle: this.#idle.length, waiting: this.#turns.waiting };
  }

  async acquire(limit: Limit | undefined): Promise<Connection> {
    await this.#turns.take(limit);
    try {
      const reading = this.#idle.pop() ?? await this.#open();
      this.#lent.set(reading.connection, reading);
      return reading.connection;
    } catch (error) {
      this.#turns.give();
      throw error;
    }
  }

  release(connection: Connection): void {
    const reading = this.#lent.get(connection);
    if (reading === undefined) return;
    this.#lent.delete(connection);
    if (reading.isBroken || connection.isInTransaction) void reading.close();
    else this.#idle.push(reading);
    this.#turns.give();
  }

  /** Refuses what comes by `error`; resolves when all are given back. */
  drain(error: () => unknown): Promise<void> { return this.#turns.close(error); }

  /** Closes all, those that are still lent too. */
  async close(): Promise<void> {
    for (const reading of [...this.#idle.splice(0), ...this.#lent.values()]) await reading.close();
    this.#lent.clear();
  }

  async #open(): Promise<Reading> {
    if (this.#options.readers > 0) return SqliteReader.start(this.#options);
    const db: DatabaseSync = await openFile({ path: this.#options.path, isReadOnly: true });
    db.exec('pragma trusted_schema = off');
    const connection = new SqliteConnection(db, this.#options);
    return { connection, isBroken: false, close: () => { connection.end(); db.close(); } };
  }
}
