// args: --env development
/** Handlers hand on texts, constants, responses and refusals of other functions, or rows with a response schema. */
import { Depends, Field, HTMLResponse, Schema, SecurityHeadersMiddleware, Svc, list, reply, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import type { Database } from 'svc/db';

class Person extends Schema {
  name = Field(str, { maxLength: 80 });
}

const findPeople = (base: Database): Promise<Person[]> => base.fetchAll('select name from person order by id', [], { as: Person });
const countPeople = async (base: Database): Promise<string> => String(await base.scalar('select count(*) from person'));
const page = (): HTMLResponse => new HTMLResponse('<h1>People</h1>');
const refusal = (): ReturnType<typeof reply> => reply({ error: 'gone', at: Date.now() }, 410);
const status = (): { status: string } => ({ status: 'up' });

export const app: Svc = new Svc({ title: 'People', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:people.db'));
app.onStartup(({ state }) => state.db.script('create table person (id integer primary key, name text)'));
app.get('/', () => page());
app.get('/status', () => status());
app.get('/old', () => refusal());
app.get('/people', { base: Depends(db), response: list(Person) }, ({ base }) => findPeople(base));
app.get('/people/count', { base: Depends(db) }, async ({ base }) => {
  const count = await countPeople(base);
  return count;
});
