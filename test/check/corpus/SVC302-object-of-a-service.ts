// args: --env development
/** A handler hands on the object of another function, and its route declares no response schema. */
import { Depends, HTMLResponse, SecurityHeadersMiddleware, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import type { Database } from 'svc/db';

async function findFirst(base: Database): Promise<unknown> {
  const first = await base.fetchOne('select * from person order by id limit 1');
  return { first, at: new Date().toISOString() };
}

export const app: Svc = new Svc({ title: 'People', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:people.db'));
app.onStartup(({ state }) => state.db.script('create table person (id integer primary key, name text)'));
app.get('/', () => new HTMLResponse('<h1>People</h1>'));
app.get('/people/first', { base: Depends(db) }, async ({ base }) => { // SVC302
  const result = await findFirst(base);
  return result;
});
