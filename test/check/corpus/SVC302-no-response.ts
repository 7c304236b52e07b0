/** A handler replies with JSON, and its route declares no response schema. */
import { Field, HTMLResponse, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Person extends Schema {
  name = Field(str, { maxLength: 80 });
}

const people = [{ name: 'Ada', salary: 4_000 }];

export const app: Svc = new Svc({ title: 'People', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/', () => new HTMLResponse('<h1>People</h1>'));
app.get('/people', { response: list(Person) }, () => people);
app.get('/people/first', { summary: 'The first of all' }, () => ({ name: people[0]?.name, salary: people[0]?.salary })); // SVC302
