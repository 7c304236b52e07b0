/** The response is an object keyed by status. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Note extends Schema {
  text = Field(str, { maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/notes', { response: { 200: Note, 404: Note } }, () => ({ text: '' }));
