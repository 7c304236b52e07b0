// args: --live
// files: migrations/0001_notes.up.sql=SVC402-notes.up.sql migrations/0001_notes.down.sql=SVC402-notes.down.sql notes.db=
/** The database lacks a migration. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';

class Note extends Schema {
  text = Field(str, { maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./notes.db')); // SVC402
app.get('/notes', { db: Depends(db), response: list(Note) }, async ({ db }) => await db.fetchAll('select text from notes order by id limit 100', [], { as: Note }));
