/**
 * Constraint violations, and the responses that conflictOn() makes of them, on every engine.
 */
import assert from 'node:assert/strict';
import {
  ConstraintViolation,
  DatabasePlugin,
  StatementError,
  conflictOn,
  db as dbKey,
  type Database,
} from '../../src/db/index.ts';
import { Depends, Field, HTTPException, Schema, Svc, str } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { onEveryDatabase } from '../support/every-database.ts';

const SCHEMA = `
  create table owner (id integer primary key, name varchar(40) not null);
  create table note (
    id integer primary key, owner integer not null, title varchar(40) not null, stars integer default 0,
    constraint note_title unique (owner, title),
    constraint note_owner foreign key (owner) references owner (id),
    constraint note_stars check (stars < 6));
  insert into owner (id, name) values (1, 'a');
  insert into note (id, owner, title) values (1, 1, 'first');`;
const INSERT = 'insert into note (id, owner, title, stars) values (?, ?, ?, ?)';

/** Returns the violation with which a statement is refused. */
async function violation(work: Promise<unknown>): Promise<ConstraintViolation> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ConstraintViolation, String(error));
  return error;
}

const shown = ({ kind, table, constraint, columns }: ConstraintViolation): unknown => ({
  kind,
  table,
  constraint,
  columns,
});

onEveryDatabase('a ConstraintViolation has the kind, table and columns the engine reports', async (db) => {
  await db.script(SCHEMA);
  const isSqlite = db.dialect === 'sqlite';
  const unique = { kind: 'unique', table: 'note', constraint: isSqlite ? undefined : 'note_title' };
  for (let use = 0; use < 3; use++) {
    assert.deepEqual(shown(await violation(db.execute(INSERT, [2, 1, 'first', 0]))), {
      ...unique,
      columns: ['owner', 'title'],
    });
  }
  const twice = [
    [3, 1, 'second', 0],
    [4, 1, 'second', 0],
  ] as const;
  assert.deepEqual((await violation(db.executeMany(INSERT, twice))).columns, ['owner', 'title']);
  const { kind, columns } = await violation(db.insertMany('note', ['id', 'owner', 'title', 'stars'], twice));
  assert.deepEqual([kind, columns], ['unique', ['owner', 'title']]);
  assert.deepEqual((await violation(db.execute(INSERT, [1, 1, 'other', 0]))).columns, ['id']);
  assert.deepEqual(shown(await violation(db.execute(INSERT, [5, 1, null, 0]))), {
    kind: 'not_null',
    table: 'note',
    constraint: undefined,
    columns: ['title'],
  });
  assert.deepEqual(shown(await violation(db.execute(INSERT, [5, 1, 'starry', 7]))), {
    kind: 'check',
    table: 'note',
    constraint: 'note_stars',
    columns: [],
  });
  const missing = await violation(db.execute(INSERT, [5, 99, 'orphan', 0]));
  const key = { kind: 'foreign_key', table: 'note', constraint: 'note_owner' };
  const unknown = { kind: 'foreign_key', table: undefined, constraint: undefined, columns: [] };
  assert.deepEqual(shown(missing), isSqlite ? unknown : { ...key, columns: ['owner'] });
  const referenced = await violation(db.execute('delete from owner where id = ?', [1]));
  const columnsOfReferenced = db.dialect === 'postgres' ? [] : ['owner'];
  assert.deepEqual(shown(referenced), isSqlite ? unknown : { ...key, columns: columnsOfReferenced });
});

onEveryDatabase('a constraint violation does not end the transaction, except on PostgreSQL', async (db) => {
  await db.script(SCHEMA);
  if (db.dialect === 'postgres') return; // each error ends the transaction in PostgreSQL
  await db.transaction(async (tx) => {
    assert.deepEqual((await violation(tx.execute(INSERT, [2, 1, 'first', 0]))).columns, ['owner', 'title']);
    await tx.execute(INSERT, [2, 1, 'second', 0]);
  });
  assert.equal(Number(await db.scalar('select count(*) from note')), 2);
});

/** Returns the exception for a violation. */
async function thrown(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

onEveryDatabase('conflictOn() turns each kind of constraint violation into 409 or 422', async (db) => {
  await db.script(SCHEMA);
  const answers = [
    [() => db.execute(INSERT, [2, 1, 'first', 0]), 409, 'unique'],
    [() => db.execute(INSERT, [2, 99, 'orphan', 0]), 422, 'foreign_key'],
    [() => db.execute('delete from owner'), 409, 'foreign_key'],
    [() => db.execute(INSERT, [2, 1, null, 0]), 422, 'not_null'],
    [() => db.execute(INSERT, [2, 1, 'starry', 7]), 422, 'check'],
  ] as const;
  for (const [work, status, code] of answers) {
    const error = await thrown(work().catch(conflictOn()));
    assert.ok(error instanceof HTTPException, String(error));
    assert.deepEqual([error.status, error.code], [status, code]);
    assert.doesNotMatch(`${error.message}${JSON.stringify(error)}`, /note|owner|title|insert|delete|first/);
  }
  assert.ok(
    (await thrown(db.execute('insert into nowhere values (1)').catch(conflictOn()))) instanceof
      StatementError,
  );
});

onEveryDatabase(
  'rules of conflictOn() match columns and tables, and a violation without a rule is thrown unchanged',
  async (db) => {
    await db.script(SCHEMA);
    const add = (title: string | null): Promise<unknown> => db.execute(INSERT, [2, 1, title, 0]);
    const byColumns = await thrown(
      add('first').catch(conflictOn({ 'owner, title': { detail: 'Taken', field: 'title' } })),
    );
    assert.ok(byColumns instanceof HTTPException);
    assert.deepEqual(
      [byColumns.status, byColumns.detail, byColumns.issues],
      [409, 'Taken', [{ loc: ['body', 'title'], code: 'unique', message: 'Taken' }]],
    );
    const byTable = await thrown(
      add('first').catch(
        conflictOn({
          'owner, title': 'Any table',
          'note.owner, title': { detail: 'This table', status: 422 },
        }),
      ),
    );
    assert.ok(byTable instanceof HTTPException);
    assert.deepEqual([byTable.status, byTable.detail], [422, 'This table']);
    assert.equal(
      (await violation(add(null).catch(conflictOn({ 'owner, title': 'Taken' })))).kind,
      'not_null',
    );
  },
);

/** Returns an application with one route that writes a note. */
function notesAt(url: string): Svc {
  const app = new Svc({ debug: true });
  app.register(new DatabasePlugin(url));
  app.exceptionHandler(ConstraintViolation, conflictOn());
  app.post('/notes', { db: Depends(dbKey) }, async ({ db }: { db: Database }) => {
    await db.execute(INSERT, [2, 1, 'first', 0]);
    return {};
  });
  app.post('/named', { db: Depends(dbKey) }, async ({ db }: { db: Database }) => {
    await db.execute(INSERT, [2, 1, 'first', 0]).catch(conflictOn({ 'owner, title': 'Such a note exists' }));
    return {};
  });
  return app;
}

onEveryDatabase(
  'the field of conflictOn() has a location as after a failed validation: in the body or in the form of the route',
  async (db, url) => {
    await db.script(SCHEMA);
    const app = new Svc({ debug: true });
    app.register(new DatabasePlugin(url));
    const add = async ({ db }: { db: Database }): Promise<unknown> =>
      db
        .execute(INSERT, [2, 1, 'first', 0])
        .catch(conflictOn({ 'owner, title': { detail: 'Taken', field: 'title' } }));
    class Titled extends Schema {
      title = Field(str, { minLength: 1 });
    }
    app.post('/body', { body: Titled, db: Depends(dbKey) }, add);
    app.post('/form', { form: Titled, db: Depends(dbKey) }, add);
    await using client = new TestClient(app);
    for (const [place, request] of [
      ['body', (title: string) => client.post('/body', { json: { title } })],
      ['form', (title: string) => client.post('/form', { form: { title } })],
    ] as const)
      for (const given of ['', 'first']) {
        const { errors } = (await (await request(given)).json()) as { errors: { loc: unknown }[] };
        assert.deepEqual(
          errors.map(({ loc }) => loc),
          [[place, 'title']],
        );
      }
  },
);

onEveryDatabase(
  'an exception handler with conflictOn() answers a violation with a problem document that shows no SQL',
  async (db, url) => {
    await db.script(SCHEMA);
    await using client = new TestClient(notesAt(url));
    for (const [path, detail] of [
      ['/notes', 'There is such an entry already'],
      ['/named', 'Such a note exists'],
    ] as const) {
      const response = await client.post(path);
      assert.equal(response.status, 409);
      assert.equal(response.headers.get('content-type'), 'application/problem+json');
      const body = (await response.json()) as Record<string, unknown>;
      assert.deepEqual([body['detail'], body['code'], body['trace']], [detail, 'unique', undefined]);
      assert.doesNotMatch(JSON.stringify(body), /insert|note_title|owner|select/i);
    }
  },
);
