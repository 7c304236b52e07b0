/** A parameter in the prefix and another in the path, each with a name of its own. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Note extends Schema {
  text = Field(str, { maxLength: 500 });
}

const notes = new Router({ prefix: '/users/{user:int}' });
notes.get('/notes/{note:int}', { response: Note }, ({ params }) => ({ text: `${params.note}` }));

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(notes);
