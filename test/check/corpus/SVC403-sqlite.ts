// env: SVC_WORKERS=2
/** Two processes write to one SQLite file. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';

class Note extends Schema {
  text = Field(str, { maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./notes.db')); // SVC403
app.get('/notes', { db: Depends(db), response: list(Note) }, async ({ db }) => await db.fetchAll('select text from notes order by id limit 100', [], { as: Note }));

const workers = app.config.get('workers', 1);
if (import.meta.main) await app.run({ workers });
