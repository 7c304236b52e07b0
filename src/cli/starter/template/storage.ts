/**
 * Storage of a new project: its tables, the classes that read and write them, and the test of the classes.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** `src/notes.ts`. */
export const NOTES: Template = () => `/**
 * Where notes are kept: a table of the database, made by migrations/0001_notes.up.sql. The statements are for SQLite and
 * PostgreSQL alike.
 */
import type { Clock } from 'svc';
import type { Database, Transaction } from 'svc/db';

export interface Note {
  /** The how many-th note of its owner. */
  readonly id: number;
  readonly text: string;
  readonly createdAt: Date;
}

export class Notes {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #most: number;

  /** A person keeps \`most\` notes at most. */
  constructor(db: Database, clock: Clock, most: number) {
    this.#db = db;
    this.#clock = clock;
    this.#most = most;
  }

  /** The newest first, and how many there are altogether: both of one moment, which is what the transaction is for. */
  list(owner: string, offset: number, limit: number): Promise<{ items: readonly Note[]; total: number }> {
    return this.#db.transaction(async (tx) => ({
      items: (await tx.fetchAll<Row>(\`\${SELECT} where owner = ? order by id desc limit ? offset ?\`, [owner, limit, offset])).map(noteOf),
      total: await count(tx, owner),
    }), { readOnly: true, isolation: 'repeatable read' });
  }

  async get(owner: string, id: number): Promise<Note | undefined> {
    const row = await this.#db.fetchOne<Row>(\`\${SELECT} where owner = ? and id = ?\`, [owner, id]);
    return row === undefined ? undefined : noteOf(row);
  }

  /** Undefined when there is no room, or no such person. */
  create(owner: string, text: string): Promise<Note | undefined> {
    return this.#db.transaction(async (tx) => {
      // Takes the number and, until the end of the transaction, the row: of two that write at once the other one waits here.
      const id = await tx.scalar<number>('update person set last_note = last_note + 1 where id = ? returning last_note', [owner]);
      if (id === undefined || await count(tx, owner) >= this.#most) return undefined;
      const createdAt = new Date(this.#clock.nowMs());
      await tx.execute('insert into note (owner, id, text, created_at) values (?, ?, ?, ?)', [owner, id, text, createdAt]);
      return { id, text, createdAt };
    });
  }

  /** Whether it was there. */
  async delete(owner: string, id: number): Promise<boolean> {
    return (await this.#db.execute('delete from note where owner = ? and id = ?', [owner, id])).affectedRows === 1;
  }
}

/** A note as the table has it. SQLite gives its time as text, PostgreSQL as a Date. */
interface Row {
  readonly id: number;
  readonly text: string;
  readonly createdAt: string | Date;
}

const SELECT = 'select id, text, created_at as "createdAt" from note';

function noteOf({ id, text, createdAt }: Row): Note {
  return { id, text, createdAt: new Date(createdAt) };
}

async function count(tx: Transaction, owner: string): Promise<number> {
  return await tx.scalar<number>('select count(*) from note where owner = ?', [owner]) ?? 0;
}
`;

/** `src/people.ts`. */
export const PEOPLE: Template = () => `/**
 * Who has ever logged in: a table of the database, made by migrations/0001_notes.up.sql.
 */
import type { Database } from 'svc/db';
import type { UserInfo } from 'svc/oauth';

export interface Person {
  /** The provider and its id for them, such as \`github:583231\`: for ever theirs, unlike names. */
  readonly id: string;
  readonly name: string;
}

export class People {
  readonly #db: Database;

  constructor(db: Database) { this.#db = db; }

  /** Remembers somebody who logs in, by their latest name, and gives their id. */
  async meet(provider: string, { subject, name }: Pick<UserInfo, 'subject' | 'name'>): Promise<string> {
    const id = \`\${provider}:\${subject}\`;
    const shown = [...(name ?? id).toWellFormed().replaceAll('\\0', '')].slice(0, 100).join(''); // PostgreSQL has no NUL
    await this.#db.execute('insert into person (id, name) values (?, ?) on conflict (id) do update set name = excluded.name', [id, shown]);
    return id;
  }

  get(id: string): Promise<Person | undefined> {
    return this.#db.fetchOne<Person>('select id, name from person where id = ?', [id]);
  }
}
`;

/** `migrations/0001_notes.up.sql`. */
export const MIGRATION_UP: Template =
  () => `-- One text for SQLite and PostgreSQL. SQLite takes any name for a type: "bigint" makes it keep whole numbers, "timestamptz" ISO 8601.
create table person (
  id text not null primary key,
  name text not null,
  -- The number of their latest note. None is given twice, so that the address of a note that is gone does not become another's.
  last_note bigint not null default 0
);

-- The key is also the order in which they are listed.
create table note (
  owner text not null references person (id) on delete cascade,
  id bigint not null,
  text text not null check (text <> '' and length(text) <= 500),
  created_at timestamptz not null,
  primary key (owner, id)
);
`;

/** `migrations/0001_notes.down.sql`. */
export const MIGRATION_DOWN: Template = () => `drop table note;
drop table person;
`;

/** `test/notes.test.ts`. */
export const NOTES_TEST: Template = () => `/**
 * Notes and people, on SQLite, and on PostgreSQL where POSTGRES_URL names a server: each test there in a schema of its own.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CheckViolation, Migrator, openDatabase } from 'svc/db';
import { ManualClock } from 'svc/testing';
import { Notes } from '../src/notes.ts';
import { People } from '../src/people.ts';
import type { TestContext } from 'node:test';
import type { Database } from 'svc/db';

const MIGRATIONS = { directory: join(import.meta.dirname, '../migrations') };
const POSTGRES_URL = process.env['POSTGRES_URL'];
const ADA = 'dev:ada';

/** An empty database, which the test closes. */
type Open = (t: TestContext) => Promise<Database>;

async function openSqlite(): Promise<Database> {
  return openDatabase('sqlite::memory:');
}

async function openPostgres(t: TestContext): Promise<Database> {
  const schema = \`test_\${randomBytes(8).toString('hex')}\`;
  const admin = await openDatabase(POSTGRES_URL!); // there are such tests only with one
  t.after(async () => {
    await admin.script(\`drop schema \${schema} cascade\`);
    await admin.close();
  });
  await admin.script(\`create schema \${schema}\`);
  return openDatabase(\`\${POSTGRES_URL!}\${POSTGRES_URL!.includes('?') ? '&' : '?'}set.search_path=\${schema}\`);
}

/** Makes every table, and two people. */
async function migrated(db: Database): Promise<Database> {
  await new Migrator(db, MIGRATIONS).up();
  for (const subject of ['ada', 'alan']) await new People(db).meet('dev', { subject, name: subject });
  return db;
}

const ENGINES: readonly (readonly [string, Open])[] = [['SQLite', openSqlite], ...POSTGRES_URL === undefined ? [] : [['PostgreSQL', openPostgres] as const]];

for (const [engine, open] of ENGINES) {
  test(\`\${engine}: the newest are listed first, of one moment too, and the total counts all pages\`, async (t) => {
    await using db = await migrated(await open(t));
    const clock = new ManualClock(0);
    const notes = new Notes(db, clock, 10);
    for (const text of ['one', 'two', 'three']) await notes.create(ADA, text);
    await clock.advance(1_000);
    await notes.create(ADA, 'four');
    const { items, total } = await notes.list(ADA, 1, 2);
    assert.deepEqual([items.map(({ text }) => text), total], [['three', 'two'], 4]);
    assert.deepEqual(await notes.get(ADA, 4), { id: 4, text: 'four', createdAt: new Date(1_000) });
    assert.deepEqual(await notes.list(ADA, 10, 10), { items: [], total: 4 });
  });

  test(\`\${engine}: nobody keeps more notes than fit, however many are written at once\`, async (t) => {
    await using db = await migrated(await open(t));
    const notes = new Notes(db, new ManualClock(0), 3);
    const written = await Promise.all(Array.from({ length: 10 }, (_, index) => notes.create(ADA, \`note \${index}\`)));
    assert.equal(written.filter((note) => note !== undefined).length, 3);
    assert.equal((await notes.list(ADA, 0, 10)).total, 3);
    assert.notEqual(await notes.create('dev:alan', 'the room of somebody else'), undefined);
    assert.equal(await notes.create('dev:nobody', 'of nobody'), undefined);
  });

  test(\`\${engine}: an id is not given twice, and everybody counts their own\`, async (t) => {
    await using db = await migrated(await open(t));
    const notes = new Notes(db, new ManualClock(0), 10);
    const written = await Promise.all(['a', 'b', 'c'].map((text) => notes.create(ADA, text)));
    assert.deepEqual(written.map((note) => note?.id).sort(), [1, 2, 3]);
    assert.equal(await notes.delete(ADA, 3), true);
    assert.equal(await notes.delete(ADA, 3), false);
    assert.equal((await notes.create(ADA, 'again'))?.id, 4);
    assert.equal((await notes.create('dev:alan', 'mine'))?.id, 1);
    assert.equal((await notes.get('dev:alan', 1))?.text, 'mine');
    assert.equal(await notes.get(ADA, Number.MAX_SAFE_INTEGER), undefined);
  });

  test(\`\${engine}: the table itself refuses a note without text, and one that is too long\`, async (t) => {
    await using db = await migrated(await open(t));
    const notes = new Notes(db, new ManualClock(0), 10);
    for (const text of ['', 'x'.repeat(501)]) await assert.rejects(notes.create(ADA, text), CheckViolation);
    for (const text of ['x'.repeat(500), '😀'.repeat(250)]) assert.equal((await notes.create(ADA, text))?.text, text);
  });

  test(\`\${engine}: somebody who logs in again has the name of now; a long one is cut, and none is the id\`, async (t) => {
    await using db = await migrated(await open(t));
    const people = new People(db);
    for (const [name, shown] of [['Ada King', 'Ada King'], ['😀'.repeat(200), '😀'.repeat(100)], ['\\ud800 \\0', '\\ufffd '], [null, ADA]] as const) {
      assert.equal(await people.meet('dev', { subject: 'ada', name }), ADA);
      assert.deepEqual(await people.get(ADA), { id: ADA, name: shown });
    }
  });

  test(\`\${engine}: every migration can be undone, and applied again\`, async (t) => {
    await using db = await open(t);
    const migrator = new Migrator(db, MIGRATIONS);
    const { length } = await migrator.up();
    assert.equal((await migrator.down({ steps: length })).length, length);
    await assert.rejects(db.fetchAll('select id from note'), { code: 'statement' });
    assert.equal((await migrator.up()).length, length);
  });
}

test('notes are there again when a file of SQLite is opened again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'notes-'));
  try {
    const url = \`sqlite:\${encodeURI(join(folder, 'data.db'))}\`;
    const createdAt = new Date('2030-01-31T12:00:00.000Z');
    {
      await using db = await migrated(await openDatabase(url));
      assert.deepEqual(await new Notes(db, new ManualClock(createdAt.getTime()), 10).create(ADA, 'Buy milk'), { id: 1, text: 'Buy milk', createdAt });
    }
    await using db = await migrated(await openDatabase(url));
    assert.deepEqual(await new Notes(db, new ManualClock(0), 10).list(ADA, 0, 10), { items: [{ id: 1, text: 'Buy milk', createdAt }], total: 1 });
  } finally {
    await rm(folder, { recursive: true });
  }
});
`;
