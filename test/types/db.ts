/**
 * Databases: rows by the type parameter, values, keys, and the property of an application's state.
 */
import { Depends, Svc } from 'svc';
import { DatabasePlugin, database, db, json, openDatabase, sql } from 'svc/db';
import type { Database, ExecuteResult, Row, Session, Transaction } from 'svc/db';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function is<A, B>(isSame: Same<A, B>): void;
declare const session: Session;

export async function rows(): Promise<void> {
  const one = await session.fetchOne<{ id: number }>('select id from t');
  is<typeof one, { id: number } | undefined>(true);
  const all = await session.fetchAll('select id from t', [
    1,
    'x',
    null,
    5n,
    true,
    new Date(),
    new Uint8Array(),
    json({ a: [1] }),
  ]);
  is<typeof all, Row[]>(true);
  const count = await session.scalar<number>(sql`select count(*) from t where id = ${5}`, { timeoutMs: 5 });
  is<typeof count, number | undefined>(true);
  const done = await session.execute('delete from t');
  is<typeof done, ExecuteResult>(true);
  for await (const row of session.stream<{ id: number }>('select id from t'))
    is<typeof row, { id: number }>(true);
  // @ts-expect-error an object is no value
  await session.execute('insert into t values (?)', [{ a: 1 }]);
  // @ts-expect-error undefined is no value
  await session.execute('insert into t values (?)', [undefined]);
  // @ts-expect-error a template has its values in it
  await session.execute(sql`delete from t`, [1]);
  // @ts-expect-error an object is no value in a template
  sql`select ${{ a: 1 }}`;
}

export async function transactions(): Promise<void> {
  await using handle = await openDatabase('sqlite::memory:', { readers: 0 });
  const result = await handle.transaction(
    async (tx) => {
      is<typeof tx, Transaction>(true);
      return tx.transaction(() => 'inner' as const);
    },
    { retries: 3, readOnly: true },
  );
  is<typeof result, 'inner'>(true);
  // @ts-expect-error an isolation that no engine has
  await handle.transaction(() => 1, { isolation: 'read uncommitted' });
}

const app = new Svc();
app.register(new DatabasePlugin('sqlite:./data.db', { synchronous: 'full', int8: 'auto' }));
is<typeof app.state.db, Database>(true);
app.get('/notes', { db: Depends(db), reports: Depends(database('reporting')) }, ({ db: notes, reports }) => {
  is<typeof notes, Database>(true);
  is<typeof reports, Database>(true);
  return notes.fetchAll('select 1');
});
