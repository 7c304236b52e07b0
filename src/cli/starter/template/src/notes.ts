/** The table of migrations/0001_notes.up.sql, with statements that run on SQLite and PostgreSQL. */
import { randomUUID } from 'node:crypto';
import { Field, Schema, datetime, int, str, uuid } from 'svc';
import type { Clock } from 'svc';
import type { Database } from 'svc/db';

/** A row of the table. The schema converts times, which SQLite returns as text and PostgreSQL as a Date. */
export class Note extends Schema {
  id = Field(uuid);
  text = Field(str);
  createdAt = Field(datetime);
}

/** Number of notes on a page. */
export const PAGE_SIZE = 20;

export class Notes {
  readonly #db: Database;
  readonly #clock: Clock;

  constructor(db: Database, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /** Returns a page of notes, the newest first, and the total number of notes. */
  async list(owner: string, page: number): Promise<{ items: Note[]; total: number }> {
    const select = `${SELECT} where owner = ? order by created_at desc, id limit ? offset ?`;
    const items = await this.#db.fetchAll(select, [owner, PAGE_SIZE, (page - 1) * PAGE_SIZE], AS_NOTE);
    const total = await this.#db.scalar('select count(*) from note where owner = ?', [owner], { as: int });
    return { items, total: total ?? 0 };
  }

  get(owner: string, id: string): Promise<Note | undefined> {
    return this.#db.fetchOne(`${SELECT} where owner = ? and id = ?`, [owner, id], AS_NOTE);
  }

  async create(owner: string, text: string): Promise<Note> {
    const note = new Note({ id: randomUUID(), text, createdAt: new Date(this.#clock.nowMs()) });
    const insert = 'insert into note (id, owner, text, created_at) values (?, ?, ?, ?)';
    await this.#db.execute(insert, [note.id, owner, text, note.createdAt]);
    return note;
  }

  /** Deletes a note. Returns whether it existed. */
  async delete(owner: string, id: string): Promise<boolean> {
    const statement = 'delete from note where owner = ? and id = ?';
    return (await this.#db.execute(statement, [owner, id])).affectedRows === 1;
  }
}

const SELECT = 'select id, text, created_at from note';
const AS_NOTE = { as: Note, snakeCase: true };
