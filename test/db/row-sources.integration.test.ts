/**
 * Row sources. An error of return() hides neither the error of a statement nor its result. While a source
 * computes its rows, other work goes on.
 */
import assert from 'node:assert/strict';
import { UniqueViolation, openDatabase } from '../../src/db/index.ts';
import { ComputingClock } from '../support/computing-clock.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import type { Database } from '../../src/db/index.ts';
import type { Params } from '../../src/db/values.ts';

/** Returns a source of rows that fails when it is left. */
function failing(ids: readonly number[]): Iterable<Params> {
  return {
    [Symbol.iterator]() {
      const values = ids.values();
      return {
        next: (): IteratorResult<Params, undefined> => {
          const { done, value } = values.next();
          return done === true ? { done, value: undefined } : { done: false, value: [value] };
        },
        return: () => {
          throw new Error('the source cannot be closed');
        },
      };
    },
  };
}

const METHODS: Readonly<Record<string, (db: Database, rows: Iterable<Params>) => Promise<number>>> = {
  executeMany: (db, rows) => db.executeMany('insert into item (id) values (?)', rows),
  insertMany: (db, rows) => db.insertMany('item', ['id'], rows),
};
/** Enough rows for each way in which a driver writes rows, for example COPY. */
const COUNTS: readonly number[] = [2, 5, 200, 3_000];

for (const [name, write] of Object.entries(METHODS))
  onEveryDatabase(`an error of return() of a source hides no result of ${name}()`, async (db) => {
    await db.script('create table item (id integer primary key)');
    for (const count of COUNTS) {
      const ids = Array.from({ length: count }, (_, index) => index + 1);
      await assert.rejects(write(db, failing([...ids.slice(1), 2])), UniqueViolation);
      assert.equal(Number(await db.scalar('select count(*) from item')), 0);
      assert.equal(await write(db, failing(ids)), count);
      await db.execute('delete from item');
    }
  });

for (const [name, write] of Object.entries<
  (db: Database, rows: Iterable<Params> | AsyncIterable<Params>) => Promise<number>
>({
  executeMany: (db, rows) => db.executeMany('insert into item (id) values (?)', rows),
  insertMany: (db, rows) => db.insertMany('item', ['id'], rows),
}))
  onEveryDatabase(
    `while a source computes the rows of ${name}() without a pause, other work gets turns of the event loop`,
    async (admin, url) => {
      await admin.script('create table item (id integer primary key)');
      const clock = new ComputingClock();
      await using db = await openDatabase(url, { clock });
      let id = 0;
      function* rows(): Generator<Params> {
        for (let index = 0; index < 3_000; index++) {
          clock.compute(4);
          yield [++id];
        }
      }
      async function* later(): AsyncGenerator<Params> {
        yield* rows();
      }
      using _counting = clock.counting();
      // rows are collected for a statement: by MySQL and MariaDB 500, and for the start of COPY 64
      const bound = /^(?:mysql|mariadb)$/.test(db.dialect) ? 600 : 100;
      for (const source of [rows, later]) {
        clock.most = 0;
        assert.equal(await write(db, source()), 3_000);
        assert.ok(clock.most >= 1 && clock.most <= bound, `${source.name}: ${clock.most} rows in one turn`);
      }
    },
  );
