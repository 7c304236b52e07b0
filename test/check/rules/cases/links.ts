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
  if (!(await checkPassword(body.password, row?.['password']))) throw new Unauthorized();
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
  if (!(await checkPassword(body.password, row?.['password']))) throw new Unauthorized();
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
  'tries without a limit beside limited routes and counted visits': `
// FILE app.ts
import { Depends, Field, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, str } from 'svc';
import { db } from 'svc/db';
import type { Database } from 'svc/db';
import { limit } from './limits.ts';
export const app: Svc = new Svc();
class Open extends Schema { phrase = Field(str, { maxLength: 64 }); }
const ofMails = new RateLimitMiddleware({ name: 'mails', perMinute: 5 });
app.post('/contact', { body: Open, public: 'anyone', use: [ofMails] }, ({ body }) => ({ length: body.phrase.length }));
app.post('/search', { body: Open, public: 'anyone', use: limit('search') }, ({ body }) => ({ length: body.phrase.length }));
const unlock = async (db: Database, id: number, phrase: string) => {
  const link = await db.fetchOne('select target, hash from link where id = ?', [id]);
  if (!link || !(await checkPassword(phrase, String(link['hash'])))) throw new Unauthorized();
  await db.execute('update link set visits = visits + 1 where id = ?', [id]);
  return { target: link['target'] };
};
app.post('/links/{id:int}/open', { db: Depends(db), body: Open, public: 'visitors' }, ({ db, params, body }) => unlock(db, params.id, body.phrase)); // SVC204
app.post('/links/{id:int}/look', { db: Depends(db), body: Open, public: 'visitors', use: limit('look') }, ({ db, params, body }) => unlock(db, params.id, body.phrase));
// FILE limits.ts
import { RateLimitMiddleware } from 'svc';
export function limit(name: string) {
  return process.env['LIMITS'] === 'off' ? [] : [new RateLimitMiddleware({ name, perMinute: 5 })];
}
`,
  'right: tries that are counted, or limited for all routes': `
// FILE app.ts
import { Depends, Field, Schema, Svc, Unauthorized, checkPassword, str } from 'svc';
import { db } from 'svc/db';
import type { Database } from 'svc/db';
export const app: Svc = new Svc();
class Open extends Schema { phrase = Field(str, { maxLength: 64 }); }
const compare = async (phrase: string, hash: unknown) => { if (!(await checkPassword(phrase, String(hash)))) throw new Unauthorized(); };
app.post('/a/{id:int}', { db: Depends(db), body: Open, public: 'visitors' }, async ({ db, params, body }) => {
  const link = await db.fetchOne('update link set tries = tries + 1 where id = ? returning target, tries, hash', [params.id]);
  if (!link || Number(link['tries']) > 5) throw new Unauthorized();
  await compare(body.phrase, link['hash']);
  return { target: link['target'] };
});
app.post('/b/{id:int}', { db: Depends(db), body: Open, public: 'visitors' }, async ({ db, params, body }) => {
  const { count } = await counted(db, params.id);
  if (Number(count) > 5) throw new Unauthorized();
  const link = await db.fetchOne('select target, hash from link where id = ?', [params.id]);
  await compare(body.phrase, link?.['hash']);
  return { ok: true };
});
const counted = async (db: Database, id: number) =>
  (await db.fetchOne('insert into attempt (link, n) values (?, 1) on conflict (link) do update set n = attempt.n + 1 returning n as count', [id])) ?? { count: 0 };
app.post('/c/{id:int}', { db: Depends(db), body: Open, public: 'visitors' }, async ({ db, params, body }) => {
  const link = await db.fetchOne('update link set tries = tries + 1 where id = ? and tries < 5 returning hash', [params.id]);
  if (!link) throw new Unauthorized();
  await compare(body.phrase, link['hash']);
  return { ok: true };
});
`,
  'right: a limit of the application': `
// FILE app.ts
import { Depends, Field, Schema, Svc, Unauthorized, checkPassword, str } from 'svc';
import { db } from 'svc/db';
import { protect } from './limits.ts';
export const app: Svc = protect(new Svc());
class Open extends Schema { phrase = Field(str, { maxLength: 64 }); }
app.post('/links/{id:int}/open', { db: Depends(db), body: Open, public: 'visitors' }, async ({ db, params, body }) => {
  const link = await db.fetchOne('select target, hash from link where id = ?', [params.id]);
  if (!link || !(await checkPassword(body.phrase, String(link['hash'])))) throw new Unauthorized();
  return { target: link['target'] };
});
// FILE limits.ts
import { RateLimitMiddleware, type Svc } from 'svc';
const limiter = new RateLimitMiddleware({ perMinute: 60 });
export const protect = (app: Svc): Svc => app.use(limiter);
`,
  'promises with a catch that catches nothing': `
// FILE app.ts
import { Depends, Svc, requireRoles } from 'svc';
import { db } from 'svc/db';
export const app: Svc = new Svc();
app.post('/sweep', { db: Depends(db), me: Depends(requireRoles('staff')) }, ({ db }) => {
  db.execute('delete from link where visits < 0').catch(); // SVC611
  db.execute('delete from link where visits < 1').then((done) => done, undefined); // SVC611
  return { started: true };
});
`,
  'rows of helpers, and tests that hold for a part only': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { find, load } from './links.ts';
export const app: Svc = new Svc();
app.get('/a/{id:int}', { db: Depends(db) }, async ({ db, params }) => {
  const link = await find(db, { id: params.id });
  return { domain: link!.target || 'x' }; // SVC615
});
app.get('/b/{id:int}', { db: Depends(db) }, async ({ db, params }) => {
  const { target } = await load(db, params.id); // SVC615
  return { target };
});
app.get('/c/{id:int}', { db: Depends(db) }, async ({ db, params }) => {
  const link = await db.fetchOne<{ id: number; target: string }>('select id, target from link where id = ?', [params.id]);
  if (link !== undefined) app.log.info('found', { id: link.id });
  return { ...(link && { id: link.id }), known: link ? link.id : 0, target: link!.target }; // SVC615
});
// FILE links.ts
import { sql, type Database } from 'svc/db';
interface Match { id?: number; target?: string }
const where = (match: Match) => sql.and(match.id !== undefined && sql\`id = \${match.id}\`, match.target !== undefined && sql\`target = \${match.target}\`);
export const find = (db: Database, match: Match) => db.fetchOne<{ id: number; target: string }>(sql\`select id, target from link where \${where(match)} limit 1\`);
export async function load(db: Database, id: number): Promise<{ target: string }> {
  return await db.fetchOne('select id, target from link where id = ?', [id]) as { target: string };
}
`,
  'right: rows that code has tested, or found before': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { db } from 'svc/db';
import { find, isKnown, need } from './links.ts';
export const app: Svc = new Svc();
const of = { db: Depends(db), me: Depends(BearerAuth()) };
app.get('/a/{id:int}', of, async ({ db, params }) => {
  const link = await find(db, params.id);
  if (!link) throw new NotFound();
  return { target: link.target };
});
app.get('/b/{id:int}', of, async ({ db, params }) => {
  const link = await need(db, params.id);
  return { target: link.target };
});
app.get('/c/{id:int}', of, async ({ db, params }) => {
  if (!(await isKnown(db, params.id))) throw new NotFound();
  const link = await find(db, params.id);
  return { target: link!.target };
});
app.get('/d', of, async ({ db, me }) => {
  const link = await find(db, Number(me.sub));
  return { target: link!.target };
});
app.get('/e/{id:int}', of, async ({ db, params, me }) => {
  const link = await db.fetchOne('select owner, target from link where id = ?', [params.id]);
  const isOwn = link && link['owner'] === me.sub;
  if (!isOwn) throw new NotFound();
  return { target: link['target'] };
});
app.get('/f/{id:int}', of, async ({ db, params }) => {
  const link = await db.fetchOne('select owner, target from link where id = ?', [params.id]);
  let target = 'none';
  if (link) target = String(link['target']);
  if (target === 'none') throw new NotFound();
  return { target, owner: link['owner'] };
});
// FILE links.ts
import { NotFound } from 'svc';
import type { Database } from 'svc/db';
export const find = (db: Database, id: number) => db.fetchOne<{ id: number; target: string }>('select id, target from link where id = ?', [id]);
export const isKnown = async (db: Database, id: number) => (await db.scalar('select count(*) from link where id = ?', [id])) !== 0;
export async function need(db: Database, id: number): Promise<{ target: string }> {
  const link = await find(db, id);
  if (link === undefined) throw new NotFound();
  return link;
}
`,
  'an address that is tested by conditions of which callers leave some out': `
// FILE app.ts
import { Conflict, Depends, Field, Schema, Svc, requireRoles, str } from 'svc';
import { db } from 'svc/db';
import { add, find } from './links.ts';
export const app: Svc = new Svc();
class In extends Schema { address = Field(str, { maxLength: 64 }); }
app.onStartup(({ state }) => state.db.script('create table link (id integer primary key, address text not null, visits integer)'));
app.post('/links', { db: Depends(db), me: Depends(requireRoles('staff')), body: In }, async ({ db, body }) => {
  if (await find(db, { address: body.address })) throw new Conflict();
  await add(db, body.address);
  return { ok: true };
});
// FILE links.ts
import { sql, type Database } from 'svc/db';
interface Match { id?: number; address?: string; owner?: string }
const where = (match: Match) => sql.and(
  match.id !== undefined && sql\`id = \${match.id}\`,
  match.address != null && sql\`address = \${match.address}\`,
  !!match.owner && sql\`owner = \${match.owner}\`,
);
export const find = (db: Database, match: Match) => db.fetchOne(sql\`select id from link where \${where(match)} limit 1\`);
export const add = (db: Database, address: string) => db.execute('insert into link (address) values (?)', [address]); // SVC642
`,
  'right: an address with a unique key, and rows that are listed after the insert': `
// FILE app.ts
import { Conflict, Depends, Field, Schema, Svc, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
import type { Database } from 'svc/db';
export const app: Svc = new Svc();
class In extends Schema { address = Field(str, { maxLength: 64 }); }
app.onStartup(({ state }) => state.db.script('create table link (id integer primary key, address text not null unique, kind text)'));
interface Match { id?: number; address?: string; kind?: string }
const where = (match: Match) => sql.and(match.id !== undefined && sql\`id = \${match.id}\`, match.address !== undefined && sql\`address = \${match.address}\`, match.kind !== undefined && sql\`kind = \${match.kind}\`);
const find = (db: Database, match: Match) => db.fetchOne(sql\`select id from link where \${where(match)} limit 1\`);
const list = (db: Database, match: Match) => db.fetchAll(sql\`select id, address from link where \${where(match)} order by id limit 50\`);
app.post('/links', { db: Depends(db), me: Depends(requireRoles('staff')), body: In }, async ({ db, body }) => {
  if (await find(db, { address: body.address })) throw new Conflict();
  await db.execute('insert into link (address, kind) values (?, ?)', [body.address, 'short']);
  const links = await list(db, { kind: 'short' });
  return links.map((link) => ({ id: link['id'], isLong: String(link['address']).length > 20 }));
});
`,
};
