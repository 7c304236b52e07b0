/** A pattern nests repetitions, so thirty letters can take years to match. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Slug extends Schema {
  text = Field(str, { maxLength: 100, pattern: '^(?:[a-z]+-?)+$' });
}
class Code extends Schema {
  text = Field(str, { maxLength: 100, pattern: '^[a-z]+(?:-[a-z]+)*$' });
}

export const app: Svc = new Svc({ title: 'Slugs', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.post('/codes/check', { public: 'a calculation that keeps nothing', body: Code, response: Code, description: 'Returns whether a code is valid.' }, ({ body }) => body);
app.post('/slugs/check', { public: 'a calculation that keeps nothing', body: Slug, response: Code, description: 'Returns whether a slug is valid.' }, ({ body }) => ({ text: body.text })); // SVC304
