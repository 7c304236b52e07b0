/** A pattern repeats alternatives that overlap. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Line extends Schema {
  text = Field(str, { maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Lines', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/plain', { query: { text: Field(str, { maxLength: 200, pattern: '^[a-z0-9 ]*$' }) }, response: Line }, ({ query }) => ({ text: query.text }));
app.get('/marked', { query: { text: Field(str, { maxLength: 200, pattern: '^(?:\\w|[a-z0-9]|_)*!$' }) }, response: Line }, ({ query }) => ({ text: query.text })); // SVC304
