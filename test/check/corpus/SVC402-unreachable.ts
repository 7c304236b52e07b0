// args: --live
/** No server listens at the address of the database. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';

class Note extends Schema {
  text = Field(str, { maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('postgres://notes@127.0.0.1:1/notes')); // SVC402
app.get('/notes', { db: Depends(db), response: list(Note) }, async ({ db }) => await db.fetchAll('select text from notes order by id limit 100', [], { as: Note }));
