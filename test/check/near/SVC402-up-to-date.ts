// args: --live
// files: notes.db=
/** The database has every migration. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';

class Answer extends Schema {
  value = Field(int);
}

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./notes.db'));
app.get('/answer', { db: Depends(db), response: Answer }, async ({ db }) => ({ value: await db.scalar('select 42', [], { as: int }) ?? 0 }));
