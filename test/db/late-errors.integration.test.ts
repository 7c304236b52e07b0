/**
 * Errors that arrive after the first row of a result: a deferred key at the implicit commit, a row that
 * cannot be computed, a full disk, a later result of a procedure. Every method of every engine rejects.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { DatabaseError, openDatabase, sql } from '../../src/db/index.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import { folder } from '../support/run.ts';
import type { Database, Dialect, Session } from '../../src/db/index.ts';

/** A statement that fails after its first row. */
interface Late {
  readonly what: string;
  readonly text: string;
  readonly sqlstate: string;
  /** Whether the error arrives only when the transaction commits. */
  readonly isDeferred?: boolean;
  /** Methods for which the statement has no meaning. */
  readonly without?: readonly string[];
}

interface EngineCase {
  readonly schema: string;
  readonly late: readonly Late[];
}

const MANY = 'executeMany';
const READ: readonly string[] = [MANY, 'script'];
const PROCEDURE: readonly string[] = [...READ, 'stream', 'stream left early'];

const DEFERRED = {
  what: 'a deferred foreign key',
  text: 'insert into child (parent) values (99) returning id',
  sqlstate: '23503',
  isDeferred: true,
} as const;
const SCHEMA = `create table written (a integer primary key, b integer);
  insert into written values (1, 1);`;
const CHILD = `create table parent (id integer primary key);`;

const SERVER_MYSQL: EngineCase = {
  schema: `${SCHEMA}
    create table numbers (n integer primary key);
    insert into numbers values (1), (2), (3);
    create procedure late() begin select 1 as n; signal sqlstate '45000' set message_text = 'late'; end;`,
  late: [
    {
      what: 'a row that cannot be computed',
      text: 'select n, if(n < 3, n, (select m.n from numbers m)) as m from numbers order by n',
      sqlstate: '21000',
      without: READ,
    },
    { what: 'an error after the first result', text: 'call late()', sqlstate: '45000', without: PROCEDURE },
  ],
};

const CASES: Readonly<Record<Dialect, EngineCase>> = {
  sqlite: {
    schema: `${SCHEMA} ${CHILD}
      create table child (id integer primary key, parent integer references parent deferrable initially deferred);
      create table guarded (a integer);
      create trigger guard after insert on guarded when new.a > 2 begin select raise(abort, 'guarded'); end;`,
    late: [
      DEFERRED,
      {
        what: 'a deferred foreign key after WITH',
        text: 'with rows_of (p) as (values (98), (99)) insert into child (parent) select p from rows_of where true returning id',
        sqlstate: '23503',
        isDeferred: true,
      },
      {
        what: 'a trigger that raises',
        text: 'insert into guarded values (1), (2), (3) returning a',
        sqlstate: '23000',
      },
      {
        what: 'a second row that is not unique',
        text: 'insert into written values (2, 2), (1, 1) returning a',
        sqlstate: '23505',
      },
    ],
  },
  postgres: {
    schema: `${SCHEMA} ${CHILD}
      create table child (id serial primary key, parent integer references parent deferrable initially deferred);`,
    late: [
      DEFERRED,
      {
        what: 'a row that cannot be computed',
        text: 'select 10 / (3 - n) as n from generate_series(1, 5) n',
        sqlstate: '22012',
        without: READ,
      },
      {
        what: 'a second row that is not unique',
        text: 'insert into written values (2, 2), (1, 1) returning a',
        sqlstate: '23505',
      },
    ],
  },
  mysql: SERVER_MYSQL,
  mariadb: {
    schema: SERVER_MYSQL.schema,
    late: [
      ...SERVER_MYSQL.late,
      {
        what: 'a second row that is not unique',
        text: 'insert into written values (2, 2), (1, 1) returning a',
        sqlstate: '23505',
      },
    ],
  },
};

const METHODS: Readonly<Record<string, (session: Session, text: string) => Promise<unknown>>> = {
  execute: (session, text) => session.execute(text),
  fetchOne: (session, text) => session.fetchOne(text),
  fetchAll: (session, text) => session.fetchAll(text),
  fetchArrays: (session, text) => session.fetchArrays(text),
  fetchSets: (session, text) => session.fetchSets(text),
  scalar: (session, text) => session.scalar(text),
  stream: (session, text) => streamed(session, text, Infinity),
  'stream left early': (session, text) => streamed(session, text, 1),
  [MANY]: (session, text) => session.executeMany(text, [[]]),
  script: (session, text) => session.script(text),
};

async function streamed(session: Session, text: string, most: number): Promise<number> {
  let rows = 0;
  for await (const _ of session.stream(text)) if (++rows >= most) break;
  return rows;
}

async function rowsOf(db: Database): Promise<unknown> {
  const tables = db.dialect === 'mysql' || db.dialect === 'mariadb' ? ['written'] : ['written', 'child'];
  const counts: unknown[] = [];
  for (const table of tables)
    counts.push(await db.scalar(sql`select count(*) from ${sql.identifier(table)}`));
  return counts.map(Number);
}

/** Matches the error. A stream of a SQLite file refuses to write, because its connection only reads. */
function isOf(sqlstate: string, method?: string): (error: unknown) => boolean {
  return (error) =>
    error instanceof DatabaseError &&
    (error.sqlstate === sqlstate || (error.sqlstate === '25006' && method?.startsWith('stream') === true));
}

async function rejectsLateErrors(db: Database): Promise<void> {
  const { schema, late } = CASES[db.dialect];
  await db.script(schema);
  for (const each of late)
    for (const method of Object.keys(METHODS))
      if (each.without?.includes(method) !== true) await rejectsLate(db, each, method);
}

async function rejectsLate(
  db: Database,
  { what, text, sqlstate, isDeferred = false }: Late,
  method: string,
): Promise<void> {
  const before = await rowsOf(db);
  const run = METHODS[method]!;
  // several times, because a statement takes another way when the server has prepared it
  for (const use of ['first', 'second', 'third']) {
    const place = `${what}, ${method}, ${use} use`;
    await assert.rejects(run(db, text), isOf(sqlstate, method), place);
    assert.deepEqual(await rowsOf(db), before, place);
  }
  const place = `${what}, ${method} in a transaction`;
  let hasRun = false;
  const transaction = db.transaction(async (tx) => {
    await run(tx, text);
    hasRun = true;
  });
  await assert.rejects(transaction, isOf(sqlstate), place);
  assert.equal(hasRun, isDeferred, place);
  assert.deepEqual(await rowsOf(db), before, place);
}

onEveryDatabase('every method rejects when an error arrives after the first row', rejectsLateErrors);

test('SQLite in memory: every method rejects when an error arrives after the first row', async (t) => {
  const db = await openDatabase('sqlite::memory:');
  t.after(() => db.close());
  await rejectsLateErrors(db);
});

onEveryDatabase('insertMany() rejects when a later row or the commit fails', async (db) => {
  await db.script(CASES[db.dialect].schema);
  const before = await rowsOf(db);
  for (const count of [2, 1_000]) {
    const rows = Array.from({ length: count }, (_, index) => [index + 2, 1]);
    await assert.rejects(db.insertMany('written', ['a', 'b'], [...rows, [1, 1]]), DatabaseError);
    assert.deepEqual(await rowsOf(db), before);
    if (db.dialect === 'mysql' || db.dialect === 'mariadb') continue; // they have no deferred keys
    const children = Array.from({ length: count }, () => [99]);
    await assert.rejects(db.insertMany('child', ['parent'], children), isOf('23503'));
    assert.deepEqual(await rowsOf(db), before);
  }
});

const FILL = `insert into big (data) values (zeroblob(100000)) returning id`;

/** Checks that every method that writes rejects with a full disk, and stores nothing. */
async function refusesWhenFull(db: Database): Promise<void> {
  const before = await db.scalar('select count(*) from big');
  for (const [method, run] of Object.entries(METHODS)) {
    await assert.rejects(run(db, FILL), isOf('53100', method), method);
    await assert.rejects(
      db.transaction(async (tx) => void (await run(tx, FILL))),
      isOf('53100'),
      method,
    );
    assert.equal(await db.scalar('select count(*) from big'), before, method);
  }
}

test('SQLite: every method rejects when the database has reached its maximum size', async (t) => {
  const db = await openDatabase(`sqlite:${join(folder(t), 'data.db')}`);
  t.after(() => db.close());
  await db.script('create table big (id integer primary key, data blob)');
  await db.script('pragma max_page_count = 10');
  await refusesWhenFull(db);
});

test('SQLite: every method rejects when the disk is full at the commit', async (t) => {
  const at = folder(t);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', at]);
  if (mounted.status !== 0) return t.skip('only root on Linux can mount a small file system');
  try {
    await using db = await openDatabase(`sqlite:${join(at, 'data.db')}`);
    await db.script('create table big (id integer primary key, data blob)');
    const filling = Promise.all(Array.from({ length: 20 }, () => db.execute(FILL)));
    await assert.rejects(filling, isOf('53100'), 'the disk is never full');
    await refusesWhenFull(db);
  } finally {
    spawnSync('umount', ['-l', at]);
  }
});
