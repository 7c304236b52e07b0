/** The prefix of the router and the path of the route both have a parameter named "id". */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Note extends Schema {
  text = Field(str, { maxLength: 500 });
}

const notes = new Router({ prefix: '/users/{id:int}' });
notes.get('/notes/{id:int}', { response: Note }, () => ({ text: '' })); // SVC106

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(notes);
