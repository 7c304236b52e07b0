/** Every input text is bounded by length, format or values. Output needs no bound. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, date, datetime, int, list, literal, nullable, record, str, uuid } from 'svc';

class Person extends Schema {
  id = Field(uuid);
  born = Field(date);
  seen = Field(datetime);
  mood = Field(literal('good', 'bad'));
  nick = Field('anon', { maxLength: 20 });
  motto = Field(nullable(str), { default: null, maxLength: 200 });
  code = Field(str, { maxLength: 20, pattern: '^[A-Z]{2}(?:-[0-9]+)*$' });
  tags = Field(list(str, { maxLength: 20 }), { maxLength: 10 });
  scores = Field(record(int), { maxLength: 10 });
}
class Story extends Schema {
  text = Field(str);
  lines = Field(list(str));
}

export const app: Svc = new Svc({ title: 'Stories', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/stories/{name}', { query: { day: Field(date), kind: Field(literal('long', 'short'), { default: 'long' }) }, response: Story }, ({ params, query }) => ({ text: params.name + query.day + query.kind, lines: [] }));
app.post('/stories', { public: 'a calculation that keeps nothing', body: Person, response: Story, description: 'Writes a story about a person.' }, ({ body }) => ({ text: body.nick, lines: body.tags }));
