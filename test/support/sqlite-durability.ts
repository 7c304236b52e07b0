/**
 * Checks invariants of a SQLite file when writing processes are killed: shortly in the suite, at length in
 * test/soak/sqlite.ts.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase, type Database } from '../../src/db/index.ts';
import { ROOT } from './build.ts';
import { folder, start, type Scope } from './run.ts';

const CHILD = join(ROOT, 'test/support/sqlite-child.ts');
/** No coverage, because a process that is killed while it writes its coverage leaves half a file. */
const UNCOVERED = { env: { NODE_V8_COVERAGE: '' } };

async function made(scope: Scope): Promise<{ path: string; url: string }> {
  const path = join(folder(scope), 'data.db');
  await using db = await openDatabase(`sqlite:${path}`);
  await db.script(`create table counter (total integer not null); insert into counter values (0);
    create table entry (id integer primary key, writer integer not null, step integer not null, part integer not null, seen integer not null, unique (writer, step, part))`);
  return { path, url: `sqlite:${path}` };
}

/**
 * Asserts that the counter is the number of transactions, that each transaction saw another number, and that
 * each has both of its rows.
 */
async function assertWhole(db: Database): Promise<number> {
  assert.equal(await db.scalar('pragma integrity_check'), 'ok');
  const total = Number(await db.scalar('select total from counter'));
  const found = await db.fetchOne('select count(*) as entries, count(distinct seen) as seen from entry');
  assert.deepEqual(found, { entries: 2 * total, seen: total });
  assert.deepEqual(
    await db.fetchAll(
      'select writer, step from entry group by writer, step having count(*) <> 2 or min(seen) <> max(seen)',
    ),
    [],
  );
  return total;
}

/** Six processes write one file: every commit is there, and none twice. */
export async function sixWriters(scope: Scope, transactionsEach: number): Promise<void> {
  const { url } = await made(scope);
  const children = Array.from({ length: 6 }, (_, id) =>
    start(scope, process.execPath, [CHILD, url, String(id), String(transactionsEach)]),
  );
  for (const { status, stderr } of await Promise.all(children.map((child) => child.ended)))
    assert.equal(status, 0, stderr);
  await using db = await openDatabase(url);
  assert.equal(await assertWhole(db), 6 * transactionsEach);
}

/**
 * Processes are killed at random moments: every transaction that they reported as committed is there, and
 * none is incomplete.
 */
export async function killed(scope: Scope, times: number, random: (below: number) => number): Promise<void> {
  const { url } = await made(scope);
  for (let id = 0; id < times; id++) {
    const child = start(scope, process.execPath, [CHILD, url, String(id), '100000'], UNCOVERED);
    await child.printed(new RegExp(`^${random(40)}$`, 'm'));
    // wait for a random moment inside a transaction
    for (let turns = random(200); turns > 0; turns--) await new Promise(setImmediate);
    child.child.kill('SIGKILL');
    const said = Number((await child.ended).stdout.trimEnd().split('\n').at(-1));
    await using db = await openDatabase(url);
    await assertWhole(db);
    const last = await db.scalar('select max(step) from entry where writer = ?', [id]);
    // one more if it was killed after COMMIT and before printing
    assert.ok(last === said || last === said + 1, `it said that ${said} was committed, ${last} is there`);
  }
}

/**
 * Copies of the files after each commit, also with the write-ahead log cut off at any place: every committed
 * transaction is there.
 */
export async function copies(
  scope: Scope,
  commits: number,
  random: (below: number) => number,
): Promise<void> {
  const { path, url } = await made(scope);
  await using db = await openDatabase(url);
  const sizes: number[] = [];
  for (let step = 0; step < commits; step++) {
    await db.transaction(async (tx) => {
      for (const part of [0, 1])
        await tx.execute('insert into entry (writer, step, part, seen) values (0, ?, ?, ?)', [
          step,
          part,
          step,
        ]);
      await tx.execute('update counter set total = ?', [step + 1]);
    });
    sizes.push(statSync(`${path}-wal`).size);
    if (step % 10 === 9) assert.equal(await inCopy(scope, path), step + 1);
  }
  const wal = readFileSync(`${path}-wal`);
  for (let cut = 0; cut < commits; cut++) {
    const step = random(commits);
    const end = sizes[step]! + random(Math.max(1, (sizes[step + 1] ?? wal.length) - sizes[step]!));
    assert.equal(await inCopy(scope, path, wal.subarray(0, end)), step + 1, `cut at ${end}`);
  }
}

async function inCopy(scope: Scope, path: string, wal?: Uint8Array): Promise<number> {
  const copy = join(folder(scope), 'copy.db');
  copyFileSync(path, copy);
  if (wal !== undefined) writeFileSync(`${copy}-wal`, wal);
  else if (existsSync(`${path}-wal`)) copyFileSync(`${path}-wal`, `${copy}-wal`);
  await using db = await openDatabase(`sqlite:${copy}`);
  return await assertWhole(db); // return await: the database is closed after this
}

/** Transactions that interleave on one database: no row is in the wrong place. */
export async function interleaved(
  db: Database,
  transactions: number,
  random: (below: number) => number,
): Promise<void> {
  await db.script(
    'create table nonce (id integer primary key, tx integer not null, step integer not null, value text not null)',
  );
  const gate = 500; // limits the concurrent callers: more than the default queue allows would be refused
  let next = 0;
  async function caller(): Promise<void> {
    while (next < transactions) {
      const tx = next++;
      const isUndone = tx % 4 === 0;
      const pauses = random(3);
      await db
        .transaction(async (handle) => {
          for (let step = 0; step < 2; step++) {
            const value = `${tx}:${step}`;
            const { lastInsertId } = await handle.execute(
              'insert into nonce (tx, step, value) values (?, ?, ?)',
              [tx, step, value],
            );
            if (pauses > step) await new Promise(setImmediate);
            assert.deepEqual(
              await handle.fetchOne('select tx, step, value from nonce where id = ?', [Number(lastInsertId)]),
              { tx, step, value },
            );
          }
          if (isUndone) throw new Error('undone');
        })
        .catch((error: Error) => {
          if (error.message !== 'undone') throw error;
        });
    }
  }
  async function reader(): Promise<void> {
    while (next < transactions) {
      const tx = random(transactions);
      const rows = await db.fetchAll('select tx, step, value from nonce where tx = ?', [tx]);
      assert.ok(
        rows.length === 0 ||
          (rows.length === 2 &&
            rows.every((row) => row['value'] === `${tx}:${String(row['step'])}` && row['tx'] === tx)),
        JSON.stringify(rows),
      );
      await new Promise(setImmediate);
    }
  }
  await db.execute('create index nonce_tx on nonce (tx)');
  await Promise.all([...Array.from({ length: gate }, caller), reader(), reader()]);
  assert.equal(
    await db.scalar("select count(*) from nonce where value <> tx || ':' || step or tx % 4 = 0"),
    0,
  );
  assert.equal(
    await db.scalar('select count(*) from nonce'),
    2 * (transactions - Math.ceil(transactions / 4)),
  );
}
