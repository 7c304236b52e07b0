/** Row sources whose return() throws: this error hides neither the error of a statement nor its result. */
import assert from 'node:assert/strict';
import { UniqueViolation } from '../../src/db/index.ts';
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
