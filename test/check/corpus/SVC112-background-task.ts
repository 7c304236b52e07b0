// env: SVC_AUTH_SECRET={secret}
/** A transaction that is over before the answer is sent is given to a task that runs after it. */
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
app.post('/notes', { me: Depends(me), body: Note, tx: Depends(writer, { scope: 'handler' }), response: Note, description: 'Keeps a note.' }, ({ me, body, tx }) => {
  tx.insert(me.sub + body.text);
  return body;
});
app.put('/notes', { me: Depends(me), body: Note, tx: Depends(writer, { scope: 'handler' }), tasks: Depends(BackgroundTasks), response: Note, description: 'Keeps a note later.' }, ({ me, body, tx, tasks }) => { // SVC112
  tasks.add(() => { tx.insert(me.sub + body.text); });
  return body;
});
