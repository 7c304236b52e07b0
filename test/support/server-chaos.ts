/**
 * Invariants of a database server under interleaving, disconnects and cancellation: run shortly by the suite,
 * at length by test/soak/postgres.ts and test/soak/mysql.ts. postgres-chaos.ts and mysql-chaos.ts have the
 * differences between servers.
 *
 * Each transaction writes two rows with its identity, and records its outcome: rows of a `committed` one are
 * complete, rows of an `undone` one are absent, and rows of an unknown one are complete or absent.
 */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { systemClock } from '../../src/base/clock.ts';
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  DatabaseError,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
  openDatabase,
} from '../../src/db/index.ts';
import { Field, Schema, int, str } from '../../src/schema/schema.ts';
import { patient } from './patient.ts';
import type { Database, PoolEvent, Transaction } from '../../src/db/index.ts';

/** Integers of 0 … below - 1. */
export type Random = (below: number) => number;
type Outcome = 'committed' | 'undone' | 'unknown';

/** A row that a transaction has written. */
export class Written extends Schema {
  tx: number = Field(int);
  step: number = Field(int);
  value: string = Field(str);
  /** Identity of a transaction, from the server. */
  mark: string = Field(str);
}

/** Differences between servers. */
export interface ServerKind {
  /** Script that creates an empty table `nonce`. */
  readonly table: string;
  /** Runs the statement that identifies the transaction. */
  mark(handle: Transaction, tx: number): Promise<string>;
  /** Writes a row, and returns it together with the identity of the transaction. */
  insert(handle: Transaction, tx: number, step: number, value: string): Promise<Written>;
  /** Whether this error is allowed when the server ends, or closes the connection. */
  isCutOff(error: DatabaseError): boolean;
  /** Returns the ids of all other connections to this database. */
  connections(admin: Database): Promise<readonly number[]>;
  /** Ends a connection. Returns false when it had ended already. */
  end(admin: Database, id: number): Promise<boolean>;
  /**
   * `echo` returns its parameter, a number. `slowEcho` returns its first parameter after some seconds and in
   * some rows, which are its other parameters.
   */
  readonly echo: string;
  readonly slowEcho: string;
}

/** A server that can be taken down. */
export interface Restartable {
  start(): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

const MINE = new Error('undone');
/** Number of concurrent callers: more than there are connections, fewer than the pool refuses. */
const CALLERS = 100;

/** Runs transactions and records their outcomes. */
export class Ledger {
  readonly #db: Database;
  readonly #kind: ServerKind;
  readonly #random: Random;
  readonly #outcomes = new Map<number, Outcome>();
  #last = 0;
  /** First error that must never happen, in an object because any value can be thrown. */
  #failure: { readonly error: unknown } | undefined;

  constructor(db: Database, kind: ServerKind, random: Random) {
    this.#db = db;
    this.#kind = kind;
    this.#random = random;
  }

  /** Creates an empty table and a ledger. */
  static async open(db: Database, kind: ServerKind, random: Random): Promise<Ledger> {
    await db.script(kind.table);
    return new Ledger(db, kind, random);
  }

  get size(): number {
    return this.#outcomes.size;
  }
  count(outcome: Outcome): number {
    return [...this.#outcomes.values()].filter((each) => each === outcome).length;
  }

  /** Runs one transaction. Rejects only with an error that must never happen. */
  async transact(): Promise<Outcome> {
    const tx = ++this.#last;
    try {
      const outcome = await this.#outcomeOf(tx);
      this.#outcomes.set(tx, outcome);
      return outcome;
    } catch (error) {
      this.#failure ??= { error };
      throw error;
    }
  }

  /**
   * Waits until `isThere` returns true.
   * @throws an error of a caller that must never happen, instead of waiting for ever
   */
  async until(isThere: () => boolean): Promise<void> {
    while (!isThere()) {
      if (this.#failure !== undefined) throw this.#failure.error;
      await systemClock.sleep(1);
    }
  }

  /** Runs transactions with some callers while `goesOn` returns true. */
  async load(goesOn: () => boolean, callers: number = CALLERS): Promise<void> {
    await Promise.all(
      Array.from({ length: callers }, async () => {
        while (goesOn()) await this.transact();
      }),
    );
  }

  /** Compares every row with the recorded outcomes. */
  async check(): Promise<void> {
    const rows = await this.#db.fetchAll('select tx, step, value from nonce order by tx, step');
    const byTx = Map.groupBy(rows, ({ tx }) => Number(tx));
    for (const { tx, step, value } of rows) assert.equal(value, `${tx}:${step}`);
    for (const [tx, outcome] of this.#outcomes) {
      const steps = (byTx.get(tx) ?? []).map(({ step }) => step);
      const isWhole = steps.length === 2 && steps[0] === 0 && steps[1] === 1;
      if (outcome === 'committed')
        assert.ok(isWhole, `${tx} was committed, and has the steps ${steps.join()}`);
      else if (outcome === 'undone') assert.equal(steps.length, 0, `${tx} was undone, and is there`);
      else assert.ok(isWhole || steps.length === 0, `${tx} is half there`);
    }
    assert.ok(
      [...byTx.keys()].every((tx) => this.#outcomes.has(tx)),
      'a row of nobody',
    );
  }

  async #outcomeOf(tx: number): Promise<Outcome> {
    try {
      await this.#db.transaction(async (handle) => {
        const mark = await this.#kind.mark(handle, tx);
        for (const step of [0, 1]) {
          const value = `${tx}:${step}`;
          assert.deepEqual(
            { ...(await this.#kind.insert(handle, tx, step, value)) },
            { tx, step, value, mark },
            'another row, or in another transaction',
          );
          if (this.#random(3) === 0) await new Promise(setImmediate);
        }
        if (tx % 4 === 0) throw MINE;
      });
      return 'committed';
    } catch (error) {
      if (error === MINE || error instanceof PoolTimeout) return 'undone';
      if (error instanceof CommitOutcomeUnknown) return 'unknown';
      if (error instanceof ConnectionLost || (error instanceof DatabaseError && this.#kind.isCutOff(error)))
        return 'undone';
      throw error;
    }
  }
}

/** 10,000 transactions that interleave on ten connections. */
export async function interleaved(
  db: Database,
  kind: ServerKind,
  transactions: number,
  random: Random,
): Promise<void> {
  const ledger = await Ledger.open(db, kind, random);
  await ledger.load(() => ledger.size < transactions, 400);
  assert.equal(ledger.count('unknown'), 0);
  await ledger.check();
}

/** Ends connections one after the other under load, as an administrator does. */
export async function terminated(
  url: string,
  kind: ServerKind,
  kills: number,
  random: Random,
): Promise<string> {
  await using db = await openDatabase(url, patient(url));
  await using admin = await openDatabase(url, { pool: { max: 1 } });
  const ledger = await Ledger.open(db, kind, random);
  let done = 0;
  const loading = begun(ledger.load(() => done < kills));
  while (done < kills) {
    const before = ledger.size;
    const ids = await kind.connections(admin);
    if (ids.length > 0 && (await kind.end(admin, ids[random(ids.length)]!))) done++;
    await ledger.until(() => ledger.size >= before + 20);
  }
  await loading;
  await ledger.check();
  assert.ok(ledger.count('committed') > kills, 'others go on');
  return `${ledger.size} transactions, ${ledger.count('unknown')} of unknown outcome`;
}

/**
 * Stops and starts the server under load. Returns the time until it serves again, and the most failed attempts
 * to connect in a second.
 */
export async function restarted(
  server: Restartable,
  url: string,
  kind: ServerKind,
  times: number,
  how: 'kill' | 'stop',
  random: Random,
): Promise<{ readonly backMs: number; readonly attempts: number; readonly unknown: number }> {
  await using db = await openDatabase(url, patient(url));
  const ledger = await Ledger.open(db, kind, random);
  let attempts: number[] = [];
  let most = 0;
  const note = (event: unknown): void => {
    if ((event as PoolEvent).kind === 'connect_failed') attempts.push(systemClock.monotonicMs());
  };
  subscribe('svc:db:pool', note);
  let isOver = false;
  let backMs = 0;
  const loading = begun(ledger.load(() => !isOver));
  try {
    for (let round = 0; round < times; round++) {
      await advanced(ledger, 100);
      attempts = []; // count the attempts of this period
      await server[how]();
      await systemClock.sleep(200 + random(800));
      await server.start();
      const startedMs = systemClock.monotonicMs();
      await advanced(ledger, 1);
      backMs = Math.max(backMs, systemClock.monotonicMs() - startedMs);
      await advanced(ledger, 100);
      most = Math.max(
        most,
        ...attempts.map((atMs) => attempts.filter((other) => other >= atMs && other < atMs + 1_000).length),
      );
    }
  } finally {
    isOver = true;
    unsubscribe('svc:db:pool', note);
  }
  await loading;
  await ledger.check();
  return { backMs, attempts: most, unknown: ledger.count('unknown') };
}

/**
 * Ignores an early rejection of work that is awaited later, or never: another failure may come first and is
 * more informative.
 */
function begun<T>(loading: Promise<T>): Promise<T> {
  loading.catch(() => undefined);
  return loading;
}

/** Waits until `more` further transactions have committed. */
async function advanced(ledger: Ledger, more: number): Promise<void> {
  const wanted = ledger.count('committed') + more;
  await ledger.until(() => ledger.count('committed') >= wanted);
}

/** Callers that give up at any time: no result goes to another caller, and every connection stays usable. */
export async function canceled(
  url: string,
  kind: ServerKind,
  statements: number,
  random: Random,
): Promise<{ readonly canceled: number; readonly answered: number }> {
  const counts = { canceled: 0, answered: 0 };
  await using db = await openDatabase(url, patient(url));
  let next = 0;
  async function caller(): Promise<void> {
    while (next < statements) {
      const nonce = next++;
      const abort = new AbortController();
      const isByTime = random(2) === 0;
      if (!isByTime) void systemClock.sleep(random(30)).then(() => abort.abort());
      try {
        const options = isByTime ? { timeoutMs: 1 + random(30) } : { signal: abort.signal };
        const sleep = random(3) === 0 ? 0 : random(10) / 1_000;
        const rows = await db.fetchAll(kind.slowEcho, [nonce, sleep, 1 + random(3)], options);
        assert.ok(
          rows.length > 0 && rows.every((row) => row['nonce'] === nonce),
          'rows of another statement',
        );
        counts.answered++;
      } catch (error) {
        if (!(error instanceof QueryCanceled || error instanceof QueryTimeout)) throw error;
        counts.canceled++;
      }
    }
  }
  await Promise.all(Array.from({ length: 50 }, caller));
  const checks = await Promise.all(Array.from({ length: 100 }, (_, index) => db.scalar(kind.echo, [index])));
  assert.deepEqual(
    checks,
    Array.from({ length: 100 }, (_, index) => index),
  );
  // cancellations may still run: their callers did not wait for them
  const deadlineMs = systemClock.monotonicMs() + 15_000;
  while (db.load.inUse > 0 && systemClock.monotonicMs() < deadlineMs) await systemClock.sleep(10);
  assert.deepEqual([db.load.inUse, db.load.waiting], [0, 0]);
  return counts;
}
