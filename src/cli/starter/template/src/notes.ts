/**
 * Notes: the table of migrations/0001_notes.up.sql, in statements for SQLite and PostgreSQL alike.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from 'svc';
import type { Database } from 'svc/db';

export interface Note {
  readonly id: string;
  readonly text: string;
  readonly createdAt: Date;
}

/** Notes on a page. */
export const PAGE_SIZE = 20;

export class Notes {
  readonly #db: Database;
  readonly #clock: Clock;

  constructor(db: Database, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /** The newest first, and the total of all pages. */
  async list(owner: string, page: number): Promise<{ items: Note[]; total: number }> {
    const select = `${SELECT} where owner = ? order by created_at desc, id limit ? offset ?`;
    const rows = await this.#db.fetchAll<Row>(select, [owner, PAGE_SIZE, (page - 1) * PAGE_SIZE]);
    const total = await this.#db.scalar<number>('select count(*) from note where owner = ?', [owner]);
    return { items: rows.map(noteOf), total: total ?? 0 };
  }

  async get(owner: string, id: string): Promise<Note | undefined> {
    const row = await this.#db.fetchOne<Row>(`${SELECT} where owner = ? and id = ?`, [owner, id]);
    return row === undefined ? undefined : noteOf(row);
  }

  async create(owner: string, text: string): Promise<Note> {
    const note = { id: randomUUID(), text, createdAt: new Date(this.#clock.nowMs()) };
    const insert = 'insert into note (id, owner, text, created_at) values (?, ?, ?, ?)';
    await this.#db.execute(insert, [note.id, owner, text, note.createdAt]);
    return note;
  }

  /** Returns whether there was such a note. */
  async delete(owner: string, id: string): Promise<boolean> {
    const statement = 'delete from note where owner = ? and id = ?';
    return (await this.#db.execute(statement, [owner, id])).affectedRows === 1;
  }
}

/** SQLite gives a time as text, PostgreSQL as a Date. */
interface Row {
  readonly id: string;
  readonly text: string;
  readonly createdAt: string | Date;
}

const SELECT = 'select id, text, created_at as "createdAt" from note';

function noteOf({ createdAt, ...note }: Row): Note {
  return { ...note, createdAt: new Date(createdAt) };
}
