// args: --env production
// env: SVC_AUTH_SECRET={secret}
/** A reply of which the code names each member needs no response schema. */
import { createHash } from 'node:crypto';
import { BearerAuth, Depends, Field, NotFound, Schema, SecurityHeadersMiddleware, Svc, datetime, int, reply, str } from 'svc';
import { DatabasePlugin, db, sql } from 'svc/db';

class Named extends Schema {
  id = Field(int);
  name = Field(str);
}
class Person extends Named.extend({ since: Field(datetime) }) {}

export const app: Svc = new Svc({ title: 'Counts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const counts = new Map<number, number>([[1, 1]]);
app.get('/counts/{id:int}', { me: Depends(BearerAuth()) }, ({ params }) => ({
  id: params.id,
  count: counts.get(params.id) ?? 0,
}));
app.get('/counts', { me: Depends(BearerAuth()) }, () => reply({ size: counts.size }, 200));

// the class of the row names the columns
app.register(new DatabasePlugin('sqlite:people.db'));
app.get('/people/{id:int}', { me: Depends(BearerAuth()), base: Depends(db) }, async ({ base, params }) => {
  const person = await base.fetchOne(sql`select id, name, since from person where id = ${params.id}`, { as: Person });
  if (person === undefined) throw new NotFound();
  return { id: person.id, name: person.name, digest: createHash('sha256').update(person.name).digest('hex') };
});
