/** A pattern that takes years for thirty letters. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Slug extends Schema {
  text = Field(str, { maxLength: 100, pattern: '^(?:[a-z]+-?)+$' });
}
class Code extends Schema {
  text = Field(str, { maxLength: 100, pattern: '^[a-z]+(?:-[a-z]+)*$' });
}

export const app: Svc = new Svc({ title: 'Slugs', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.post('/codes/check', { public: 'a calculation that keeps nothing', body: Code, response: Code, description: 'Whether a code is one.' }, ({ body }) => body);
app.post('/slugs/check', { public: 'a calculation that keeps nothing', body: Slug, response: Code, description: 'Whether a slug is one.' }, ({ body }) => ({ text: body.text })); // SVC304
