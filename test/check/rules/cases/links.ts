/** Programs such as a service of short links: mistakes beside code that resembles them. */
export const LINKS: Readonly<Record<string, string>> = {
  'right: a visit that is counted beside the answer': `
// FILE app.ts
import { Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
import type { Database } from 'svc/db';
import { add } from './visits.ts';
export const app: Svc = new Svc();
class Open extends Schema { reason = Field(str, { maxLength: 64 }); }
const find = (db: Database, id: number) => db.fetchOne('select id, target from link where id = ?', [id]);
app.post('/links/{id:int}/open', { db: Depends(db), body: Open, public: 'visitors' }, async ({ db, params }) => {
  const link = await find(db, params.id);
  if (!link) throw new NotFound();
  add(db, params.id);
  return { target: link['target'] };
});
const sweep = async (db: Database) => { await db.execute('delete from link where visits < 0'); };
app.onStartup(({ state }) => {
  const timer = setInterval(() => { sweep(state.db as Database).catch((error: unknown) => { console.error(error); }); }, 30_000);
  return () => clearInterval(timer);
});
app.post('/sweep', { db: Depends(db), public: 'a cron job' }, async ({ db }) => { await sweep(db); return { ok: true }; });
// FILE visits.ts
import type { Database } from 'svc/db';
export function add(db: Database, id: number): void {
  db.execute('update link set visits = visits + 1 where id = ?', [id]).catch((error: unknown) => {
    console.error('visit', error);
  });
}
`,
  'an order that nothing waits for': `
// FILE app.ts
import { Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
import type { Database } from 'svc/db';
export const app: Svc = new Svc();
class Order extends Schema { item = Field(str, { maxLength: 64 }); }
app.post('/shops/{id:int}/orders', { db: Depends(db), body: Order, public: 'customers' }, async ({ db, body, params }) => {
  const shop = await db.fetchOne('select id from shop where id = ?', [params.id]);
  if (!shop) throw new NotFound();
  order(db, body.item);
  return { ok: true };
});
function order(db: Database, item: string): void {
  db.execute('insert into purchase (item) values (?)', [item]).catch((error: unknown) => { // SVC659
    console.error('order', error);
  });
}
`,
};
