// env: SVC_AUTH_SECRET={secret}
/** A background task uses a transaction that ends before the reply is sent. */
import { BackgroundTasks, BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Note extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
}

class Writer { insert(text: string): void { text.trim(); } close(): void { /* nothing is open */ } }
function* writer(): Generator<Writer> {
  const open = new Writer();
  try { yield open; } finally { open.close(); }
}

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
const me = BearerAuth();
app.post('/notes', { me: Depends(me), body: Note, tx: Depends(writer, { scope: 'handler' }), response: Note, description: 'Stores a note.' }, ({ me, body, tx }) => {
  tx.insert(me.sub + body.text);
  return body;
});
app.put('/notes', { me: Depends(me), body: Note, tx: Depends(writer, { scope: 'handler' }), tasks: Depends(BackgroundTasks), response: Note, description: 'Stores a note in the background.' }, ({ me, body, tx, tasks }) => { // SVC112
  tasks.add(() => { tx.insert(me.sub + body.text); });
  return body;
});
