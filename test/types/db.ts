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

interface Person {
  readonly id: number;
  readonly name?: string | undefined;
  readonly bio: string | null;
  readonly tags: { readonly of: string };
}

export function builders(person: Person, filter: { readonly name?: string; readonly min?: number }): void {
  const { name, min } = filter;
  sql.and(sql`a`, name !== undefined && sql`name = ${name}`, min === undefined ? null : sql`min = ${min}`);
  // @ts-expect-error an empty name would leave the filter out
  sql.and(name && sql`name = ${name}`);
  // @ts-expect-error the number 0 would leave the filter out
  sql.or(min && sql`min = ${min}`);
  // @ts-expect-error text is not a condition
  sql.and('a = 1');
  sql.in(sql`id`, new Set([1, 2]));
  // @ts-expect-error a text is not a list
  sql.in(sql`id`, 'abc');
  // @ts-expect-error text is not an expression
  sql.in('id', [1]);
  sql.set(person, ['name', 'bio']);
  sql.set(person, { name: 'full_name' });
  // @ts-expect-error the columns are required
  sql.set(person);
  // @ts-expect-error not a member
  sql.set(person, ['admin']);
  // @ts-expect-error not a value that can be bound
  sql.set(person, ['tags']);
  // @ts-expect-error names that a client could choose
  sql.set(person, Object.keys(person));
  // @ts-expect-error unchecked JSON has no known members
  sql.set({} as Record<string, unknown>, ['name']);
  sql.values([[1, 'x', sql`now()`]]);
  sql.values([{ id: 1, bio: 'x' }], ['id', 'bio']);
  // @ts-expect-error the columns of objects are required
  sql.values([{ id: 1, bio: 'x' }]);
  // @ts-expect-error not a member
  sql.values([{ id: 1 }], ['bio']);
  sql.upsert(['id'], ['name', sql`hits = t.hits + 1`]);
  // @ts-expect-error the changes are required
  sql.upsert(['id']);
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
