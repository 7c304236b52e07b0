/**
 * Databases: rows by their schema, values, keys, and the property of an application's state.
 */
import { Depends, Field, Schema, Svc, datetime, int, nullable } from 'svc';
import { DatabasePlugin, database, db, json, openDatabase, sql } from 'svc/db';
import type { Database, ExecuteResult, Row, Session, SqlValue, Transaction } from 'svc/db';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function is<A, B>(isSame: Same<A, B>): void;
declare const session: Session;

class Note extends Schema {
  id = Field(int);
}
class Other extends Schema {
  at = Field(datetime);
}

export async function rows(): Promise<void> {
  const one = await session.fetchOne('select id from t');
  is<typeof one, Record<string, SqlValue> | undefined>(true);
  const note = await session.fetchOne('select id from t', [], { as: Note });
  is<typeof note, Note | undefined>(true);
  const notes = await session.fetchAll(sql`select id from t`, { as: Note, snakeCase: true, timeoutMs: 5 });
  is<typeof notes, Note[]>(true);
  // @ts-expect-error rows are not believed to be of a type
  await session.fetchAll<{ id: number }>('select id from t');
  // @ts-expect-error an interface is not a class
  await session.fetchAll('select id from t', [], { as: {} });
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
  const count = await session.scalar(sql`select count(*) from t where id = ${5}`, { as: int, timeoutMs: 5 });
  is<typeof count, number | undefined>(true);
  const last = await session.scalar('select max(at) from t', [], { as: nullable(datetime) });
  is<typeof last, Date | null | undefined>(true);
  const sets = await session.fetchSets('call p(?)', [1], { as: [Note, Other] });
  is<typeof sets, [Note[], Other[]]>(true);
  const plainSets = await session.fetchSets(sql`call p(${1})`);
  is<typeof plainSets, Row[][]>(true);
  // @ts-expect-error each result has a schema of its own
  await session.fetchSets('call p()', [], { as: Note });
  const unread = await session.scalar('select 1');
  is<typeof unread, SqlValue | undefined>(true);
  const done = await session.execute('delete from t');
  is<typeof done, ExecuteResult>(true);
  for await (const row of session.stream('select id from t')) is<typeof row, Row>(true);
  for await (const row of session.stream('select id from t', [], { as: Note })) is<typeof row, Note>(true);
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
