/**
 * What must hold of PostgreSQL whoever interleaves, is cut off, or cancels: run shortly by the suite, at length by
 * test/soak/postgres.ts.
 *
 * Each transaction writes two rows that name it, and notes what it was told: `committed` must be there whole, `undone` must not be
 * there, and what nobody knows is there whole or not at all.
 */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { systemClock } from '../../src/clock.ts';
import { CommitOutcomeUnknown, ConnectionLost, DatabaseError, PoolTimeout, QueryCanceled, QueryTimeout, openDatabase } from '../../src/db/index.ts';
import type { Database, DatabaseOptions, PoolEvent } from '../../src/db/index.ts';
import type { PostgresServer } from './postgres-server.ts';

/** Integers of 0 … below - 1. */
export type Random = (below: number) => number;
type Outcome = 'committed' | 'undone' | 'unknown';

const MINE = new Error('undone');
/** Callers at once: more than there are connections, fewer than are refused. */
const CALLERS = 100;

/** Transactions that note how they ended. */
export class Ledger {
  readonly #db: Database;
  readonly #random: Random;
  readonly #outcomes = new Map<number, Outcome>();
  #last = 0;

  constructor(db: Database, random: Random) {
    this.#db = db;
    this.#random = random;
  }

  /** With an empty table. */
  static async open(db: Database, random: Random): Promise<Ledger> {
    await db.script('drop table if exists nonce; create table nonce (id bigint generated always as identity, tx integer not null, step integer not null, value text not null); create index nonce_tx on nonce (tx)');
    return new Ledger(db, random);
  }

  get size(): number { return this.#outcomes.size; }
  count(outcome: Outcome): number { return [...this.#outcomes.values()].filter((each) => each === outcome).length; }

  /** One transaction. Rejects only for what must never happen. */
  async transact(): Promise<Outcome> {
    const tx = ++this.#last;
    const outcome = await this.#outcomeOf(tx);
    this.#outcomes.set(tx, outcome);
    return outcome;
  }

  /** Callers who go on while `goesOn` says so. */
  async load(goesOn: () => boolean, callers: number = CALLERS): Promise<void> {
    await Promise.all(Array.from({ length: callers }, async () => { while (goesOn()) await this.transact(); }));
  }

  /** Looks at every row. */
  async check(): Promise<void> {
    const rows = await this.#db.fetchAll<{ tx: number; step: number; value: string }>('select tx, step, value from nonce order by tx, step');
    const byTx = Map.groupBy(rows, ({ tx }) => tx);
    for (const { tx, step, value } of rows) assert.equal(value, `${tx}:${step}`);
    for (const [tx, outcome] of this.#outcomes) {
      const steps = (byTx.get(tx) ?? []).map(({ step }) => step);
      const isWhole = steps.length === 2 && steps[0] === 0 && steps[1] === 1;
      if (outcome === 'committed') assert.ok(isWhole, `${tx} was committed, and has the steps ${steps.join()}`);
      else if (outcome === 'undone') assert.equal(steps.length, 0, `${tx} was undone, and is there`);
      else assert.ok(isWhole || steps.length === 0, `${tx} is half there`);
    }
    assert.ok([...byTx.keys()].every((tx) => this.#outcomes.has(tx)), 'a row of nobody');
  }

  async #outcomeOf(tx: number): Promise<Outcome> {
    try {
      await this.#db.transaction(async (handle) => {
        const { xid } = (await handle.fetchOne<{ xid: string }>('select txid_current()::text as xid'))!;
        for (const step of [0, 1]) {
          const value = `${tx}:${step}`;
          const row = await handle.fetchOne('insert into nonce (tx, step, value) values (?, ?, ?) returning tx, step, value, txid_current()::text as xid', [tx, step, value]);
          assert.deepEqual(row, { tx, step, value, xid }, 'another row, or in another transaction');
          if (this.#random(3) === 0) await new Promise(setImmediate);
        }
        if (tx % 4 === 0) throw MINE;
      });
      return 'committed';
    } catch (error) {
      if (error === MINE || error instanceof PoolTimeout) return 'undone';
      if (error instanceof CommitOutcomeUnknown) return 'unknown';
      if (isCutOff(error)) return 'undone';
      throw error;
    }
  }
}

/** What a caller may meet whose server ends its connection, or itself. */
function isCutOff(error: unknown): boolean {
  return error instanceof ConnectionLost || (error instanceof DatabaseError && /^(?:57P0|08|25P02|53300)/.test(error.sqlstate ?? ''));
}

/** 10,000 transactions that interleave on ten connections. */
export async function interleaved(db: Database, transactions: number, random: Random): Promise<void> {
  const ledger = await Ledger.open(db, random);
  await ledger.load(() => ledger.size < transactions, 400);
  assert.equal(ledger.count('unknown'), 0);
  await ledger.check();
}

/** Connections that are ended one after the other, by an administrator, under load. */
export async function terminated(url: string, kills: number, random: Random): Promise<string> {
  await using db = await openDatabase(url, PATIENT);
  await using admin = await openDatabase(url, { pool: { max: 1 } });
  const ledger = await Ledger.open(db, random);
  let done = 0;
  const loading = ledger.load(() => done < kills);
  while (done < kills) {
    const before = ledger.size;
    const pids = await admin.fetchAll<{ pid: number }>("select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'");
    if (pids.length > 0 && await admin.scalar('select pg_terminate_backend(?)', [pids[random(pids.length)]!.pid]) === true) done++;
    while (ledger.size < before + 20) await systemClock.sleep(1);
  }
  await loading;
  await ledger.check();
  assert.ok(ledger.count('committed') > kills, 'others go on');
  return `${ledger.size} transactions, ${ledger.count('unknown')} of unknown outcome`;
}

/** The server goes down and comes back under load: how long until it serves again, and the most attempts in a second. */
export async function restarted(server: PostgresServer, url: string, times: number, how: 'kill' | 'stop', random: Random): Promise<{ readonly backMs: number; readonly attempts: number }> {
  await using db = await openDatabase(url, PATIENT);
  const ledger = await Ledger.open(db, random);
  let attempts: number[] = [];
  let most = 0;
  const note = (event: unknown): void => {
    if (['opened', 'connect_failed'].includes((event as PoolEvent).kind)) attempts.push(systemClock.monotonicMs());
  };
  subscribe('svc:db:pool', note);
  let isOver = false;
  let backMs = 0;
  const loading = ledger.load(() => !isOver);
  try {
    for (let round = 0; round < times; round++) {
      await advanced(ledger, 100);
      attempts = []; // those that belong to this time
      await server[how]();
      await systemClock.sleep(200 + random(800));
      await server.start();
      const startedMs = systemClock.monotonicMs();
      await advanced(ledger, 1);
      backMs = Math.max(backMs, systemClock.monotonicMs() - startedMs);
      await advanced(ledger, 100);
      most = Math.max(most, ...attempts.map((atMs) => attempts.filter((other) => other >= atMs && other < atMs + 1_000).length));
    }
  } finally {
    isOver = true;
    unsubscribe('svc:db:pool', note);
  }
  await loading;
  await ledger.check();
  return { backMs, attempts: most };
}

/** Waits until so many more have committed. */
async function advanced(ledger: Ledger, more: number): Promise<void> {
  const wanted = ledger.count('committed') + more;
  while (ledger.count('committed') < wanted) await systemClock.sleep(2);
}

/** Callers who give up at any moment: nobody gets what was meant for another, and every connection stays fit for use. */
export async function canceled(url: string, statements: number, random: Random): Promise<{ readonly canceled: number; readonly answered: number }> {
  const counts = { canceled: 0, answered: 0 };
  await using db = await openDatabase(url, PATIENT);
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
        const rows = await db.fetchAll<{ nonce: number }>('select ?::int as nonce, pg_sleep(?::float8) from generate_series(1, ?::int)', [nonce, sleep, 1 + random(3)], options);
        assert.ok(rows.length > 0 && rows.every((row) => row.nonce === nonce), 'rows of another statement');
        counts.answered++;
      } catch (error) {
        if (!(error instanceof QueryCanceled || error instanceof QueryTimeout)) throw error;
        counts.canceled++;
      }
    }
  }
  await Promise.all(Array.from({ length: 50 }, caller));
  const checks = await Promise.all(Array.from({ length: 100 }, (_, index) => db.scalar('select ?::int', [index])));
  assert.deepEqual(checks, Array.from({ length: 100 }, (_, index) => index));
  assert.deepEqual([db.load.inUse, db.load.waiting], [0, 0]);
  return counts;
}

/** Nobody is sent away who would be served in the end. */
const PATIENT: DatabaseOptions = { pool: { acquireTimeoutMs: 60_000, maxWaiting: 10_000 } };
