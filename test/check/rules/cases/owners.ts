/**
 * Applications with owners and roles, half of them with a mistake (SVC640, SVC641). A mistake is marked at its line. An
 * application without a mark has none.
 */
export const OWNERS: Readonly<Record<string, string>> = {
  'notes: one of them is read by its number alone': `
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
const app = new Svc();
app.register(new DatabasePlugin('sqlite:notes.db'));
app.onStartup(({ state }) => state.db.script('create table note (id integer primary key, author text not null, body text)'));
const me = BearerAuth();
app.get('/notes', { me: Depends(me), db: Depends(db) }, ({ me, db }) =>
  db.fetchAll('select id, body from note where author = ?', [me.sub]));
app.get('/notes/{id:int}', { me: Depends(me), db: Depends(db) }, async ({ db, params }) => {
  const note = await db.fetchOne('select id, body from note where id = ?', [params.id]); // SVC640
  if (note === undefined) throw new NotFound();
  return note;
});
`,
  'tickets: a class deletes any of them': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc, provide } from 'svc';
import { db } from 'svc/db';
import { Desk } from './desk.ts';
const app = new Svc();
const desk = provide({ base: Depends(db) }, ({ base }) => new Desk(base));
app.get('/tickets/{number:int}', { who: Depends(BearerAuth()), desk: Depends(desk) }, async ({ who, desk, params }) => {
  const ticket = await desk.of(who.sub, params.number);
  if (!ticket) throw new NotFound();
  return ticket;
});
app.delete('/tickets/{number:int}', { who: Depends(BearerAuth()), desk: Depends(desk) }, ({ desk, params }) => desk.close(params.number));
// FILE desk.ts
import type { Database } from 'svc/db';
export class Desk {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  of(customer: string, number: number) {
    return this.#base.fetchOne('select number, text from ticket where number = ? and customer = ?', [number, customer]);
  }
  async close(number: number) {
    const { affectedRows } = await this.#base.execute('delete from ticket where number = ?', [number]); // SVC640
    return { closed: affectedRows };
  }
}
`,
  'bills: the printed form joins two tables and forgets the customer': `
// FILE app.ts
import { BearerAuth, Depends, Router, Svc } from 'svc';
import { db } from 'svc/db';
import { readBill, printBill } from './bills.ts';
const app = new Svc();
const bills = new Router({ prefix: '/bills', deps: { client: Depends(BearerAuth()), base: Depends(db) } });
bills.get('/{id:int}', ({ client, base, params }) => readBill(base, client.sub, params.id));
bills.get('/{id:int}/print', ({ base, params: { id } }) => printBill(base, id));
app.includeRouter(bills);
// FILE bills.ts
import { sql, type Database } from 'svc/db';
export const readBill = (base: Database, customer: string, id: number) =>
  base.fetchOne(sql\`select id, total from bill where id = \${id} and customer = \${customer}\`);
export const printBill = (base: Database, id: number) =>
  base.fetchOne(sql\`select b.id, b.total, c.street from bill b join customer c on c.id = b.customer where b.id = \${id}\`); // SVC640
`,
  'addresses: a session says who asks, and the change does not compare it': `
import { Depends, Field, Schema, Svc, requireSession, sessionKey, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const shopper = sessionKey<{ id: string }>('shopper');
class Address extends Schema { street = Field(str, { maxLength: 80 }); }
const signedIn = { me: Depends(requireSession(shopper)), db: Depends(db) };
app.get('/addresses/{id:int}', signedIn, ({ me, db, params }) =>
  db.fetchAll('select street from address where id = ? and shopper = ?', [params.id, me.id]));
app.put('/addresses/{id:int}', { ...signedIn, body: Address, status: 204 }, async ({ db, params, body }) => {
  await db.execute('update address set street = ? where id = ?', [body.street, params.id]); // SVC640
});
`,
  'documents: a dependency loads any of them': `
import { APIKeyAuth, Depends, Gone, NotFound, Svc, provide } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const machine = APIKeyAuth({ header: 'X-Key', verify: (key) => lookup(key) });
const document = provide({ owner: Depends(machine), db: Depends(db) }, async ({ db, params }) => {
  const found = await db.fetchOne('select id, text from document where id = ?', [params.id]); // SVC640
  if (found === undefined) throw new NotFound();
  return found;
});
app.get('/documents/{id}', { document: Depends(document) }, ({ document }) => document);
app.get('/documents/{id}/size', { owner: Depends(machine), db: Depends(db) }, ({ owner, db, params }) =>
  db.scalar('select length(text) from document where id = ? and machine = ?', [params.id, owner.id]));
app.get('/old', () => { throw new Gone(); });
`,
  'club: members change their own role': `
import { BearerAuth, Depends, Field, Schema, Svc, literal, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
const app = new Svc();
class Patch extends Schema { name = Field(str, { maxLength: 60 }); role = Field(literal('guest', 'chair')); }
app.patch('/me', { me: Depends(BearerAuth()), db: Depends(db), body: Patch, status: 204 }, async ({ me, db, body }) => {
  await db.execute(sql\`update member set \${sql.set(body, ['name', 'role'])} where id = \${me.sub}\`); // SVC641
});
app.delete('/members/{id}', { me: Depends(requireRoles('chair')), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await db.execute('delete from member where id = ?', [params.id]);
});
`,
  'wallet: a client writes its own balance': `
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
class Wallet extends Schema { balance = Field(int, { ge: 0, le: 1000 }); }
app.put('/wallet', { me: Depends(BearerAuth()), db: Depends(db), body: Wallet, status: 204 }, async ({ me, db, body }) => {
  const { balance } = body;
  await db.execute('update wallet set balance = ?, changed = current_timestamp where owner = ?', [balance, me.sub]); // SVC641
});
`,
  'reports: a transaction changes any of them': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { archive } from './archive.ts';
const app = new Svc();
app.get('/reports/{id:int}', { user: Depends(BearerAuth()), db: Depends(db) }, async ({ user, db, params }) =>
  db.fetchOne('select * from report where id = ? and creator = ?', [params.id, user.sub]));
app.post('/reports/{id:int}/archive', { user: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await archive(db, params.id);
});
// FILE archive.ts
import type { Database } from 'svc/db';
export async function archive(base: Database, report: number): Promise<void> {
  await base.transaction(async (tx) => {
    await tx.execute("update report set state = 'archived' where id = ?", [report]); // SVC640
    await tx.execute('insert into history (report) values (?)', [report]);
  });
}
`,
  'orders: another name of the input': `
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.get('/orders/{id:int}', { buyer: Depends(BearerAuth()), db: Depends(db) }, ({ buyer, db, params }) =>
  db.fetchOne('select id, total from purchase where id = ? and buyer = ?', [params.id, buyer.sub]));
app.get('/orders/{id:int}/state', { buyer: Depends(BearerAuth()), db: Depends(db) }, ({ db, params: { id: number } }) => {
  const asked = number;
  return db.scalar('select state from purchase where id = ?', [asked]); // SVC640
});
`,
  'calendar: the wrapper of the database hides who asks': `
// FILE app.ts
import { Svc } from 'svc';
import { calendar } from './calendar.ts';
const app = new Svc();
app.includeRouter(calendar);
// FILE calendar.ts
import { BearerAuth, Depends, NotFound, Router, provide } from 'svc';
import { db } from 'svc/db';
const account = BearerAuth();
const dates = provide({ store: Depends(db), account: Depends(account) }, ({ store, account }) => ({
  mine: (id: string) => store.fetchOne('select day from entry where id = ? and person = ?', [id, account.sub]),
  any: (id: string) => store.fetchOne('select day, place from entry where id = ?', [id]), // SVC640
}));
export const calendar = new Router({ deps: { account: Depends(account), dates: Depends(dates) } });
calendar.get('/entries/{id}', async ({ dates, params }) => (await dates.mine(params.id)) ?? new NotFound());
calendar.get('/entries/{id}/place', async ({ dates, params }) => (await dates.any(params.id)) ?? new NotFound());
`,
  'right: every statement compares the owner': `
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const me = BearerAuth();
app.get('/notes', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id from note where author = ?', [me.sub]));
app.get('/notes/{id:int}', { me: Depends(me), db: Depends(db) }, ({ me, db, params }) =>
  db.fetchAll('select body from note where id = ? and author = ?', [params.id, me.sub]));
app.delete('/notes/{id:int}', { me: Depends(me), db: Depends(db), status: 204 }, async ({ me, db, params }) => {
  const { affectedRows } = await db.execute('delete from note where author = ? and id = ?', [me.sub, params.id]);
  if (affectedRows === 0) throw new NotFound();
});
`,
  'right: the row is compared after it was read': `
import { BearerAuth, Depends, Forbidden, NotFound, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const me = BearerAuth();
app.get('/files', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id from file where owner = ? and kind = ?', [me.sub, 'plain']));
app.get('/files/{id:int}', { me: Depends(me), db: Depends(db) }, async ({ me, db, params }) => {
  const row = await db.fetchOne('select owner, name from file where id = ?', [params.id]);
  if (row === undefined) throw new NotFound();
  if (row.owner !== me.sub) throw new Forbidden();
  await db.execute('update file set seen = 1 where id = ?', [params.id]);
  return { name: row.name };
});
app.get('/files/{id:int}/lines', { me: Depends(me), db: Depends(db) }, ({ me, db, params }) =>
  db.fetchAll('select text from file where id = ? and owner = ?', [params.id, me.sub]));
`,
  'right: a dependency compares the owner, and the handler reads on': `
import { BearerAuth, Depends, NotFound, Svc, provide } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const project = provide({ me: Depends(BearerAuth()), db: Depends(db) }, async ({ me, db, params }) => {
  const found = await db.fetchOne('select id from project where id = ? and owner = ?', [params.id, me.sub]);
  if (found === undefined) throw new NotFound();
  return found;
});
app.get('/projects/{id:int}', { project: Depends(project) }, ({ project }) => project);
app.delete('/projects/{id:int}', { project: Depends(project), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await db.execute('delete from project where id = ?', [params.id]);
});
`,
  'right: a role reads the rows of everyone': `
import { BearerAuth, Depends, Svc, requireRoles } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.get('/claims/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db, params }) =>
  db.fetchAll('select text from claim where id = ? and insured = ?', [params.id, me.sub]));
app.get('/office/claims/{id:int}', { clerk: Depends(requireRoles('clerk')), db: Depends(db) }, ({ db, params }) =>
  db.fetchAll('select text, insured from claim where id = ?', [params.id]));
app.get('/audit/claims/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db, params }) => {
  if (me.department !== 'audit') return [];
  return db.fetchAll('select text from claim where id = ?', [params.id]);
});
`,
  'right: advertisements are for all to read': `
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.onStartup(({ state }) => state.db.script('create table ad (id integer primary key, seller text, title text)'));
const me = BearerAuth();
app.get('/ads', { db: Depends(db) }, ({ db }) => db.fetchAll('select id, title from ad order by id limit 50'));
app.get('/ads/mine', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id, title from ad where seller = ?', [me.sub]));
app.get('/ads/{id:int}', { me: Depends(me), db: Depends(db) }, ({ db, params }) => db.fetchAll('select title from ad where id = ?', [params.id]));
`,
  'right: members of the team may read': `
import { BearerAuth, Depends, Forbidden, Svc } from 'svc';
import { db } from 'svc/db';
import type { Database } from 'svc/db';
const app = new Svc();
const me = BearerAuth();
async function requireMember(db, user, team) {
  const found = await db.scalar('select 1 from membership where person = ? and team = ?', [user, team]);
  if (found === undefined) throw new Forbidden();
}
app.get('/teams/{id:int}/tasks', { me: Depends(me), db: Depends(db) }, async ({ me, db, params }) => {
  await requireMember(db, me.sub, params.id);
  return db.fetchAll('select title from task where team = ?', [params.id]);
});
app.get('/teams/{id:int}/name', { me: Depends(me), db: Depends(db) }, async ({ me, db, params }) => {
  const teams = await db.fetchAll('select team from membership where person = ?', [me.sub]);
  if (!teams.some((each) => each.team === params.id)) throw new Forbidden();
  return db.fetchAll('select name from team where id = ?', [params.id]);
});
app.get('/tasks/mine', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll('select title from task where team = ? and assignee = ?', [1, me.sub]));
`,
  'right: sender or recipient, and a subquery': `
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const me = BearerAuth();
app.get('/messages/{id:int}', { me: Depends(me), db: Depends(db) }, ({ me, db, params }) =>
  db.fetchAll('select text from message where id = ? and (sender = ? or recipient = ?)', [params.id, me.sub, me.sub]));
app.get('/threads/{id:int}', { me: Depends(me), db: Depends(db) }, ({ me, db, params }) =>
  db.fetchAll('select text from message where thread = ? and thread in (select thread from guest where person = ?)', [params.id, me.sub]));
app.get('/outbox', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll('select text from message where sender = ?', [me.sub]));
`,
  'right: profiles without rights, and roles by an administrator': `
import { BearerAuth, Depends, Field, Schema, Svc, literal, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
const app = new Svc();
class Profile extends Schema { name = Field(str, { maxLength: 60 }); motto = Field(str, { maxLength: 99 }); }
class Rank extends Schema { role = Field(literal('guest', 'chair')); }
app.patch('/me', { me: Depends(BearerAuth()), db: Depends(db), body: Profile, status: 204 }, async ({ me, db, body }) => {
  await db.execute(sql\`update member set \${sql.set(body, ['name', 'motto'])} where id = \${me.sub}\`);
});
app.put('/members/{id}/role', { chair: Depends(requireRoles('chair')), db: Depends(db), body: Rank, status: 204 }, async ({ db, params, body }) => {
  await db.execute('update member set role = ? where id = ?', [body.role, params.id]);
});
app.post('/join', { db: Depends(db), body: Profile, public: 'everyone may join', status: 204 }, async ({ db, body }) => {
  await db.execute("insert into member (name, role) values (?, 'guest')", [body.name]);
});
`,
  'right: an invitation is for the one who has its token': `
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const me = BearerAuth();
app.get('/invitations', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id, mail from invitation where host = ?', [me.sub]));
app.delete('/invitations/{id:int}', { me: Depends(me), db: Depends(db), status: 204 }, async ({ me, db, params }) => {
  await db.execute('delete from invitation where id = ? and host = ?', [params.id, me.sub]);
});
app.post('/invitations/{token}/accept', { me: Depends(me), db: Depends(db), status: 204 }, async ({ me, db, params }) => {
  const found = await db.fetchOne('delete from invitation where token = ? returning team', [params.token]);
  if (found === undefined) throw new NotFound();
  await db.execute('insert into membership (team, person) values (?, ?)', [found.team, me.sub]);
});
`,
  'right: the database compares the owner by its policies': `
import { BearerAuth, Depends, Svc, provide } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const me = BearerAuth();
app.onStartup(({ state }) => state.db.script('alter table letter enable row level security'));
const scoped = provide({ me: Depends(me), db: Depends(db) }, async ({ me, db }) => {
  await db.execute("select set_config('app.person', ?, true)", [me.sub]);
  return db;
});
app.get('/letters', { db: Depends(scoped) }, ({ db }) => db.fetchAll('select id from letter'));
app.get('/letters/{id:int}', { me: Depends(me), db: Depends(scoped) }, ({ db, params }) => db.fetchAll('select text from letter where id = ?', [params.id]));
app.get('/letters/{id:int}/copy', { me: Depends(me), db: Depends(db) }, ({ me, db, params }) =>
  db.fetchAll('select text from letter where id = ? and person = ?', [params.id, me.sub]));
`,
  'pets: a foreign key of a migration says to whom a row belongs': `
// FILE 0001_pets.up.sql
create table keeper (id uuid primary key, name text not null);
create table pet (id integer primary key, keeper_id uuid not null references keeper (id), name text not null);
alter table only public.pet add column vet_id integer references vet;
create table post (id integer primary key, author uuid not null references keeper (id), text text not null);
create table kind (id integer primary key, name text not null);
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, requireRoles, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const known = { me: Depends(BearerAuth()), db: Depends(db) };
class Name extends Schema { name = Field(str, { maxLength: 40 }); }
app.get('/me', known, ({ me, db }) => db.fetchOne('select name from keeper where id = ?', [me.sub]));
app.get('/pets/{id:int}', known, ({ db, params }) => db.fetchOne('select name from pet where id = ?', [params.id])); // SVC640
app.put('/pets/{id:int}', { ...known, body: Name, status: 204 }, async ({ db, params, body }) => {
  await db.execute('update pet set name = ? where id = ?', [body.name, params.id]); // SVC640
});
app.delete('/pets/{id:int}', { vet: Depends(requireRoles('vet')), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await db.execute('delete from pet where id = ?', [params.id]);
});
app.get('/posts', known, ({ db }) => db.fetchAll('select id, text from post order by id desc limit 20'));
app.get('/posts/{id:int}', known, ({ db, params }) => db.fetchOne('select text from post where id = ?', [params.id]));
app.get('/kinds/{id:int}', known, ({ db, params }) => db.fetchOne('select name from kind where id = ?', [params.id]));
app.get('/keepers/{id}', known, ({ db, params }) => db.fetchOne('select name from keeper where id = ?', [params.id]));
`,
  'shops: the keys of a dump are added after its tables, and halves are written alone': `
// FILE 0001_dump.up.sql
CREATE TABLE public.sale (id bigint NOT NULL, buyer text NOT NULL);
CREATE TABLE public.line (id bigint NOT NULL, sale_id bigint NOT NULL, goods text NOT NULL);
ALTER TABLE ONLY public.sale ADD CONSTRAINT sale_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.line ADD CONSTRAINT line_pkey PRIMARY KEY (id),
  ADD CONSTRAINT line_sale FOREIGN KEY (sale_id) REFERENCES public.sale(id) ON DELETE CASCADE;
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { randomUUID } from 'node:crypto';
const app = new Svc();
const known = { me: Depends(BearerAuth()), db: Depends(db) };
app.post('/sales', { ...known, status: 201 }, async ({ me, db, body }) => {
  const id = randomUUID();
  await db.execute('insert into sale (id, buyer) values (?, ?)', [id, me.sub]); // SVC643
  await db.execute('insert into line (id, sale_id, goods) values (?, ?, ?)', [1, id, body.goods]);
});
app.get('/sales', known, ({ me, db }) => db.fetchAll('select id from sale where buyer = ?', [me.sub]));
app.delete('/sales/{id}', { ...known, status: 204 }, async ({ db, params }) => {
  await db.execute('delete from sale where id = ?', [params.id]); // SVC640
});
`,
  'right: the policies of a migration compare the owner': `
// FILE 0001_diary.up.sql
create table diary (id integer primary key, person text not null, text text not null);
alter table diary enable row level security;
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const known = { me: Depends(BearerAuth()), db: Depends(db) };
app.get('/diary', known, ({ me, db }) => db.fetchAll('select id from diary where person = ?', [me.sub]));
app.get('/diary/{id:int}', known, ({ db, params }) => db.fetchAll('select text from diary where id = ?', [params.id]));
`,
  'archive: a guard asks for the shelf of the path, and a statement ignores it': `
// FILE 0001_archive.up.sql
create table reader (shelf integer not null, person text not null, primary key (shelf, person));
create table paper (id integer primary key, shelf integer not null, text text not null);
create table topic (id integer primary key, title text not null);
// FILE app.ts
import { Depends, Field, Forbidden, Router, Schema, str } from 'svc';
import { db } from 'svc/db';
import { onShelf } from './on-shelf.ts';
class Text extends Schema { text = Field(str, { maxLength: 900 }); }
export const papers = new Router({ prefix: '/shelves/{shelf:int}/papers', deps: { shelf: Depends(onShelf), base: Depends(db) } });
papers.get('', ({ base, shelf }) => base.fetchAll('select id from paper where shelf = ? limit 50', [shelf]));
papers.get('/{id:int}', ({ base, params }) => base.fetchOne('select text from paper where id = ?', [params.id])); // SVC640
papers.get('/{id:int}/text', ({ base, params, shelf }) => base.fetchOne('select text from paper where id = ? and shelf = ?', [params.id, shelf]));
papers.put('/{id:int}', { body: Text }, async ({ base, params, shelf, body }) => {
  const paper = await base.fetchOne('select shelf from paper where id = ?', [params.id]);
  if (paper?.shelf !== shelf) throw new Forbidden();
  await base.execute('update paper set text = ? where id = ?', [body.text, params.id]);
});
papers.get('/topics/{topic:int}', ({ base, params }) => base.fetchOne('select title from topic where id = ?', [params.topic]));
// FILE on-shelf.ts
import { BearerAuth, Depends, Forbidden, provide } from 'svc';
import { db } from 'svc/db';
export const onShelf = provide({ me: Depends(BearerAuth()), base: Depends(db) }, async ({ req, me, base }) => {
  const shelf = Number(req.pathParams['shelf']);
  const found = await base.scalar('select 1 from reader where shelf = ? and person = ?', [shelf, me.sub]);
  if (found === undefined) throw new Forbidden();
  return shelf;
});
`,
  'settings: a guard compares the name in the path, and a statement uses another one': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, provide, requireIf, requireRoles, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.onStartup(({ state }) => state.db.script('create table colour (person text primary key, name text not null)'));
const own = requireIf((claims, { req }) => claims.sub === req.pathParams['person']);
const ownOrStaff = requireIf((claims, { req }) => claims.sub === req.pathParams['person'] || claims.roles.includes('staff'));
const same = provide({ me: Depends(BearerAuth()) }, ({ me, req }) => {
  if (me.sub !== req.pathParams['person']) throw new Forbidden();
  return me;
});
const base = Depends(db);
class Colour extends Schema { person = Field(str, { maxLength: 40 }); name = Field(str, { maxLength: 40 }); }
app.get('/colours/{person}', { me: Depends(own), base }, ({ base, me }) => base.fetchOne('select name from colour where person = ?', [me.sub]));
app.put('/colours/{person}', { me: Depends(own), base, body: Colour }, async ({ base, body }) => {
  await base.execute('update colour set name = ? where person = ?', [body.name, body.person]); // SVC640
});
app.patch('/colours/{person}', { me: Depends(same), base, body: Colour }, async ({ base, body }) => {
  await base.execute('update colour set name = ? where person = ?', [body.name, body.person]); // SVC640
});
app.post('/colours/{person}/reset', { me: Depends(own), base }, async ({ base, params }) => {
  await base.execute("update colour set name = 'grey' where person = ?", [params.person]);
});
app.delete('/colours/{person}', { me: Depends(same), base }, async ({ base, params }) => {
  await base.execute('delete from colour where person = ?', [params.person]);
});
app.put('/staff/colours/{person}', { me: Depends(ownOrStaff), base, body: Colour }, async ({ base, body }) => {
  await base.execute('update colour set name = ? where person = ?', [body.name, body.person]);
});
`,
  'halls: a list shows those of the client, and a room opens any': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const known = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/halls', known, ({ me, base }) =>
  base.fetchAll('select h.id, h.name from hall h join visitor v on v.hall_no = h.id where v.person = ? limit 90', [me.sub]));
app.websocket('/halls/{hall:int}/live', known).onOpen((socket, { params }) => socket.join('hall-' + params.hall)); // SVC640
app.websocket('/stages/{stage:int}/live', known).onOpen((socket, { params }) => socket.join('stage-' + params.stage));
`,
  'a table of statements that a helper sends by named arguments': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { run, one } from './store/run.ts';
import { Q } from './store/queries.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
const user = BearerAuth();
app.get('/invoices', { user: Depends(user), db: Depends(db) }, ({ user, db }) => run(db, Q.listInvoices, { owner: user.sub }));
app.get('/invoices/{id:int}', { user: Depends(user), db: Depends(db) }, async ({ user, db, params }) => {
  const row = await one(db, Q.invoiceById, { id: params.id, owner: user.sub });
  if (row === undefined) throw new NotFound();
  return row;
});
app.delete('/invoices/{id:int}', { user: Depends(user), db: Depends(db), status: 204 }, async ({ user, db, params }) => {
  await run(db, Q.dropInvoice, { id: params.id });
});
// FILE store/queries.ts
export interface Statement { readonly text: string; readonly names: readonly string[] }
export const Q = {
  listInvoices: { text: 'select id, total from invoice where owner = ? order by id limit 100', names: ['owner'] },
  invoiceById: { text: 'select id, total, iban from invoice where id = ?', names: ['id'] }, // SVC640
  dropInvoice: { text: 'delete from invoice where id = ?', names: ['id'] }, // SVC640
} satisfies Record<string, Statement>;
// FILE store/run.ts
import type { Database } from 'svc/db';
import type { Statement } from './queries.ts';
type Args = Readonly<Record<string, string | number>>;
export async function run(db: Database, statement: Statement, args: Args) {
  return db.fetchAll(statement.text, statement.names.map((name) => args[name]!));
}
export async function one(db: Database, statement: Statement, args: Args) {
  const rows = await run(db, statement, args);
  return rows[0];
}
// FILE migrations/0001_init.up.sql
create table invoice (id integer primary key, owner text not null, total integer not null, iban text not null);
`,
  'right: a table of statements that a helper sends by named arguments': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { run, one } from './store/run.ts';
import { Q } from './store/queries.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
const user = BearerAuth();
app.get('/invoices', { user: Depends(user), db: Depends(db) }, ({ user, db }) => run(db, Q.listInvoices, { owner: user.sub }));
app.get('/invoices/{id:int}', { user: Depends(user), db: Depends(db) }, async ({ user, db, params }) => {
  const row = await one(db, Q.invoiceById, { id: params.id, owner: user.sub });
  if (row === undefined) throw new NotFound();
  return row;
});
app.delete('/invoices/{id:int}', { user: Depends(user), db: Depends(db), status: 204 }, async ({ user, db, params }) => {
  await run(db, Q.dropInvoice, { id: params.id, owner: user.sub });
});
// FILE store/queries.ts
export interface Statement { readonly text: string; readonly names: readonly string[] }
export const Q = {
  listInvoices: { text: 'select id, total from invoice where owner = ? order by id limit 100', names: ['owner'] },
  invoiceById: { text: 'select id, total, iban from invoice where id = ? and owner = ?', names: ['id', 'owner'] },
  dropInvoice: { text: 'delete from invoice where id = ? and owner = ?', names: ['id', 'owner'] },
} satisfies Record<string, Statement>;
// FILE store/run.ts
import type { Database } from 'svc/db';
import type { Statement } from './queries.ts';
type Args = Readonly<Record<string, string | number>>;
export async function run(db: Database, statement: Statement, args: Args) {
  return db.fetchAll(statement.text, statement.names.map((name) => args[name]!));
}
export async function one(db: Database, statement: Statement, args: Args) {
  const rows = await run(db, statement, args);
  return rows[0];
}
// FILE migrations/0001_init.up.sql
create table invoice (id integer primary key, owner text not null, total integer not null, iban text not null);
`,
  'a repository that gets the owner and leaves it out': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Router, Schema, Svc, provide, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { LetterRepository } from './letters.ts';
const letters = provide({ db: Depends(db) }, ({ db }) => new LetterRepository(db));
class Edit extends Schema { text = Field(str, { maxLength: 4000 }); }
const router = new Router({ prefix: '/letters', deps: { me: Depends(BearerAuth()) } });
router.get('/', { letters: Depends(letters) }, ({ me, letters }) => letters.findByOwner(me.sub));
router.get('/{letterId:uuid}', { letters: Depends(letters) }, async ({ me, letters, params }) => {
  const letter = await letters.findById(params.letterId, me.sub);
  if (!letter) throw new NotFound();
  return letter;
});
router.put('/{letterId:uuid}', { letters: Depends(letters), body: Edit, status: 204 }, async ({ me, letters, params, body }) => {
  await letters.update(me.sub, params.letterId, { text: body.text });
});
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.includeRouter(router);
// FILE base.ts
import type { Database } from 'svc/db';
export abstract class Repository {
  constructor(protected readonly database: Database) {}
  protected async first(text: string, ...values: readonly (string | number)[]) {
    return this.database.fetchOne(text, values);
  }
  protected async write(text: string, ...values: readonly (string | number)[]) {
    const { affectedRows } = await this.database.execute(text, values);
    return affectedRows;
  }
}
// FILE letters.ts
import { Repository } from './base.ts';
export class LetterRepository extends Repository {
  async findByOwner(owner: string) {
    return this.database.fetchAll('select id, text from letter where owner_id = ? order by id limit 50', [owner]);
  }
  async findById(id: string, _owner: string) {
    return this.first('select id, text from letter where id = ?', id); // SVC640
  }
  async update(owner: string, id: string, patch: { text: string }) {
    await this.write('update letter set text = ?, edited_by = ? where id = ?', patch.text, owner, id); // SVC640
  }
}
// FILE migrations/0001_init.up.sql
create table letter (id uuid primary key, owner_id text not null, text text not null, edited_by text);
`,
  'right: a repository that gets the owner and leaves it out': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Router, Schema, Svc, provide, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { LetterRepository } from './letters.ts';
const letters = provide({ db: Depends(db) }, ({ db }) => new LetterRepository(db));
class Edit extends Schema { text = Field(str, { maxLength: 4000 }); }
const router = new Router({ prefix: '/letters', deps: { me: Depends(BearerAuth()) } });
router.get('/', { letters: Depends(letters) }, ({ me, letters }) => letters.findByOwner(me.sub));
router.get('/{letterId:uuid}', { letters: Depends(letters) }, async ({ me, letters, params }) => {
  const letter = await letters.findById(params.letterId, me.sub);
  if (!letter) throw new NotFound();
  return letter;
});
router.put('/{letterId:uuid}', { letters: Depends(letters), body: Edit, status: 204 }, async ({ me, letters, params, body }) => {
  await letters.update(me.sub, params.letterId, { text: body.text });
});
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.includeRouter(router);
// FILE base.ts
import type { Database } from 'svc/db';
export abstract class Repository {
  constructor(protected readonly database: Database) {}
  protected async first(text: string, ...values: readonly (string | number)[]) {
    return this.database.fetchOne(text, values);
  }
  protected async write(text: string, ...values: readonly (string | number)[]) {
    const { affectedRows } = await this.database.execute(text, values);
    return affectedRows;
  }
}
// FILE letters.ts
import { Repository } from './base.ts';
export class LetterRepository extends Repository {
  async findByOwner(owner: string) {
    return this.database.fetchAll('select id, text from letter where owner_id = ? order by id limit 50', [owner]);
  }
  async findById(id: string, _owner: string) {
    return this.first('select id, text from letter where id = ? and owner_id = ?', id, _owner);
  }
  async update(owner: string, id: string, patch: { text: string }) {
    await this.write('update letter set text = ?, edited_by = ? where id = ? and owner_id = ?', patch.text, owner, id, owner);
  }
}
// FILE migrations/0001_init.up.sql
create table letter (id uuid primary key, owner_id text not null, text text not null, edited_by text);
`,
  'a map of statements': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { statements } from './statements.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
const me = BearerAuth();
app.get('/my/photos', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll(statements.get('mine')!, [me.sub]));
app.get('/photos/{id}', { me: Depends(me), db: Depends(db) }, async ({ db, params }) => {
  const photo = await db.fetchOne(statements.get('one')!, [params.id]);
  if (!photo) throw new NotFound();
  return photo;
});
// FILE statements.ts
export const statements: ReadonlyMap<string, string> = new Map([
  ['mine', 'select id, url from photo where account_id = ? order by id limit 20'],
  ['one', 'select id, url from photo where id = ?'], // SVC640
]);
// FILE migrations/0001_init.up.sql
create table account (id text primary key);
create table photo (id text primary key, account_id text not null references account (id), url text not null);
`,
  'right: a map of statements': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { statements } from './statements.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
const me = BearerAuth();
app.get('/my/photos', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll(statements.get('mine')!, [me.sub]));
app.get('/photos/{id}', { me: Depends(me), db: Depends(db) }, async ({ me, db, params }) => {
  const photo = await db.fetchOne(statements.get('one')!, [params.id, me.sub]);
  if (!photo) throw new NotFound();
  return photo;
});
// FILE statements.ts
export const statements: ReadonlyMap<string, string> = new Map([
  ['mine', 'select id, url from photo where account_id = ? order by id limit 20'],
  ['one', 'select id, url from photo where id = ? and account_id = ?'],
]);
// FILE migrations/0001_init.up.sql
create table account (id text primary key);
create table photo (id text primary key, account_id text not null references account (id), url text not null);
`,
  'accounts: a change over the row that was read': `
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, literal, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
class Account extends Schema { id = Field(str); name = Field(str); role = Field(literal('member', 'admin')); }
class Change extends Schema { name = Field(str, { maxLength: 80, optional: true }); role = Field(literal('member', 'admin'), { optional: true }); }
class Name extends Change.pick('name') {}
app.patch('/me', { me: Depends(BearerAuth()), db: Depends(db), body: Change, status: 204 }, async ({ me, db, body }) => {
  const current = await db.fetchOne('select id, name, role from account where id = ?', [me.sub], { as: Account });
  if (current === undefined) throw new NotFound();
  const given = Object.entries(body).filter(([, value]) => value !== undefined);
  const changed = Account.parse({ ...current, ...Object.fromEntries(given) });
  await db.execute('update account set name = ?, role = ? where id = ?', [changed.name, changed.role, me.sub]); // SVC641
});
app.put('/me', { me: Depends(BearerAuth()), db: Depends(db), body: Change, status: 204 }, async ({ me, db, body }) => {
  const current = await db.fetchOne('select id, name, role from account where id = ?', [me.sub], { as: Account });
  if (current === undefined) throw new NotFound();
  await db.execute('update account set name = ?, role = ? where id = ?', [body.name, body.role ?? current.role, me.sub]); // SVC641
});
app.put('/me/name', { me: Depends(BearerAuth()), db: Depends(db), body: Name, status: 204 }, async ({ me, db, body }) => {
  const current = await db.fetchOne('select id, name, role from account where id = ?', [me.sub], { as: Account });
  if (current === undefined) throw new NotFound();
  const changed = Account.parse({ ...current, ...body });
  await db.execute('update account set name = ?, role = ? where id = ?', [changed.name, current.role, me.sub]);
});
`,
};
