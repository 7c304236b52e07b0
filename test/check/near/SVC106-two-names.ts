/** The prefix and the path each have a parameter with its own name. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Note extends Schema {
  text = Field(str, { maxLength: 500 });
}

const notes = new Router({ prefix: '/users/{user:int}' });
notes.get('/notes/{note:int}', { response: Note }, ({ params }) => ({ text: `${params.note}` }));

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(notes);
