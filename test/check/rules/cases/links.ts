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
  'passwords that are stored as they are': `
// FILE app.ts
import { Depends, Field, Schema, Svc, Unauthorized, checkPassword, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
import { add, change, findRoom } from './people.ts';
export const app: Svc = new Svc();
class Person extends Schema { name = Field(str, { maxLength: 64 }); password = Field(str, { maxLength: 64 }); }
const staff = requireRoles('staff');
app.post('/people', { db: Depends(db), me: Depends(staff), body: Person }, async ({ db, body }) => {
  await add(db, body);
  return { ok: true };
});
app.patch('/people/{id:int}', { db: Depends(db), me: Depends(staff), body: Person }, async ({ db, body, params }) => {
  const { password } = body;
  await change(db, params.id, { password: password.trim() });
  return { ok: true };
});
app.post('/login', { db: Depends(db), body: Person, public: 'login', rateLimit: { perMinute: 5 } }, async ({ db, body }) => {
  const row = await db.fetchOne('select password from person where name = ? and disabled = 0', [body.name]);
  if (!row || !(await checkPassword(body.password, String(row['password'])))) throw new Unauthorized();
  return { ok: true };
});
class Room extends Schema { word = Field(str, { maxLength: 64 }); title = Field(str, { maxLength: 64 }); }
app.post('/rooms', { db: Depends(db), me: Depends(staff), body: Room }, async ({ db, body }) => {
  await db.execute(sql\`insert into room (title, passcode) values (\${body.title}, \${body.word})\`); // SVC677
  return { ok: true };
});
app.post('/rooms/open', { db: Depends(db), body: Room, public: 'guests', rateLimit: { perMinute: 5 } }, async ({ db, body }) => ({ id: await findRoom(db, body.title, body.word) }));
// FILE people.ts
import { sql, type Database } from 'svc/db';
export async function add(db: Database, person: { name: string; password: string }): Promise<void> {
  const { name, ...rest } = person;
  await db.execute('insert into person (name, password, disabled) values (?, ?, 0)', [name, rest.password]); // SVC677
}
export const change = (db: Database, id: number, to: { password?: string }) =>
  db.execute(sql\`update person set \${sql.set(to, ['password'])} where id = \${id}\`); // SVC677
export const findRoom = (db: Database, title: string, word: string) =>
  db.scalar('select id from room where title = ? and passcode = ?', [title, word]);
`,
  'right: hashes of passwords, and passwords for other services': `
// FILE app.ts
import { createTransport } from 'nodemailer';
import { Depends, Field, Schema, Svc, Unauthorized, checkPassword, hashPassword, nullable, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
import { digest } from './hash.ts';
import { protect } from 'vault-of-others';
export const app: Svc = new Svc();
class Person extends Schema { name = Field(str, { maxLength: 64 }); password = Field(str, { maxLength: 64 }); password_hash = Field(str, { maxLength: 128 }); changed = Field(nullable(str, ), { default: null, maxLength: 30 }); }
const staff = requireRoles('staff');
const of = { db: Depends(db), me: Depends(staff), body: Person };
app.post('/people', of, async ({ db, body }) => {
  await db.execute('insert into person (name, password, password_changed_at, disabled) values (?, ?, ?, 0)', [body.name, await digest(body.password), body.changed]);
  return { ok: true };
});
app.post('/people/of-others', of, async ({ db, body }) => {
  await db.execute('insert into person (name, password, disabled) values (?, ?, 0)', [body.name, protect(body.password)]);
  return { ok: true };
});
app.post('/people/by-database', of, async ({ db, body }) => {
  await db.execute("insert into person (name, password, disabled) values (?, crypt(?, gen_salt('bf')), 0)", [body.name, body.password]);
  return { ok: true };
});
app.post('/people/moved', of, async ({ db, body }) => {
  await db.execute('insert into person (name, password, disabled) values (?, ?, 0)', [body.name, body.password_hash]);
  return { ok: true };
});
app.patch('/people/{id:int}', of, async ({ db, body, params }) => {
  const to: { name: string; password?: string } = { name: body.name, password: body.password };
  if (to.password) to.password = await hashPassword(to.password);
  await db.execute(sql\`update person set \${sql.set(to, ['name', 'password'])} where id = \${params.id}\`);
  return { ok: true };
});
app.post('/login', { db: Depends(db), body: Person, public: 'login', rateLimit: { perMinute: 5 } }, async ({ db, body }) => {
  const row = await db.fetchOne('select password from person where name = ? and disabled = 0', [body.name]);
  if (!row || !(await checkPassword(body.password, String(row['password'])))) throw new Unauthorized();
  return { ok: true };
});
app.post('/mailbox', of, async ({ db, body }) => {
  await db.execute('insert into mailbox (login, password) values (?, ?)', [body.name, body.password]);
  return { ok: true };
});
app.post('/mailbox/test', of, async ({ db }) => {
  const row = await db.fetchOne('select login, password from mailbox order by id limit 1');
  if (row === undefined) throw new Unauthorized();
  await createTransport({ auth: { user: row['login'], pass: row['password'] } }).verify();
  return { ok: true };
});
// FILE hash.ts
import { scrypt } from 'node:crypto';
import { promisify } from 'node:util';
const derive = promisify(scrypt);
export const digest = async (text: string): Promise<string> => Buffer.from(await derive(text, 'salt of the house', 64)).toString('hex');
`,
};
