// env: SVC_AUTH_SECRET={secret}
/** Each dependency needs only longer scopes, and a task receives values instead of a transaction. */
import { BackgroundTasks, BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, provide, str } from 'svc';
import type { Context } from 'svc';

class Note extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
}

class Pool { begin(): Writer { return new Writer(); } }
class Writer { insert(text: string): number { return text.length; } close(): void { /* nothing is open */ } }
const pool = provide({ seed: Depends(() => 17, { scope: 'app' }) }, ({ seed }) => seed > 0 ? new Pool() : undefined);
const language = ({ req }: Context): string => req.headers['accept-language'] ?? 'en';
const writer = provide({ pool: Depends(pool, { scope: 'app' }), language: Depends(language) }, function* ({ pool, language }) {
  const open = (pool ?? new Pool()).begin();
  try { yield { insert: (text: string) => open.insert(language + text) }; } finally { open.close(); }
});

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.post('/notes', { me: Depends(BearerAuth()), body: Note, tx: Depends(writer, { scope: 'handler' }), tasks: Depends(BackgroundTasks), response: Note, description: 'Keeps a note.' }, ({ me, body, tx, tasks }) => {
  const size = tx.insert(me.sub + body.text);
  tasks.add((bytes: number) => { process.stdout.write(`${bytes}`); }, size);
  return body;
});
