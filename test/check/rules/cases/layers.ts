/** Applications whose mistakes lie between layers: repositories, copies of bodies, inherited columns and dependencies. */
export const LAYERS: Readonly<Record<string, string>> = {
  'a seat that is changed in place and saved by a repository': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, int, provide } from 'svc';
import { db } from 'svc/db';
import { Halls } from './halls.ts';
const app = new Svc();
class Order extends Schema { seats = Field(int, { ge: 1, le: 9 }); }
const halls = provide({ base: Depends(db) }, ({ base }) => new Halls(base));
const me = BearerAuth();
app.post('/a/{id:int}', { me: Depends(me), halls: Depends(halls), body: Order }, async ({ halls, params, body }) => {
  const hall = await halls.find(params.id);
  if (hall === undefined) throw new NotFound();
  hall.free -= body.seats;
  await halls.save(hall);
});
app.post('/b/{id:int}', { me: Depends(me), halls: Depends(halls), body: Order }, async ({ halls, params, body }) => {
  const hall = await halls.find(params.id);
  if (hall === undefined) throw new NotFound();
  hall.free = body.seats;
  await halls.replace(hall);
});
// FILE halls.ts
import { Field, Schema, int, str } from 'svc';
import type { Database } from 'svc/db';
export class Hall extends Schema { id = Field(int); free = Field(int); city = Field(str); }
export class Halls {
  #base: Database;
  constructor(base: Database) { this.#base = base; }
  find(id: number) { return this.#base.fetchOne('select id, free, city from hall where id = ?', [id], { as: Hall }); }
  async save({ id, free, city }: Hall) {
    await this.#base.execute('update hall set free = ?, city = ? where id = ?', [free, city, id]); // SVC642
  }
  async replace({ id, free }: Hall) {
    await this.#base.execute('update hall set free = ? where id = ?', [free, id]);
  }
}
`,
  'a voucher that is tested before it is paid out': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
import { edit, pay, payInside, payOnce, payIfFree, rename, spend } from './vouchers.ts';
const app = new Svc();
app.onStartup(({ state }) => state.db.script(
  'create table voucher (code text primary key, cents integer, spent_by text, label text);' +
  'create table purse (owner text primary key, cents integer); create table payment (code text primary key, owner text)'));
class Claim extends Schema { code = Field(str, { pattern: '^[A-Z]{8}$' }); }
const me = BearerAuth();
app.post('/a', { me: Depends(me), db: Depends(db), body: Claim }, ({ me, db, body }) => pay(db, me.sub, body.code));
app.post('/b', { me: Depends(me), db: Depends(db), body: Claim }, ({ me, db, body }) => payInside(db, me.sub, body.code));
app.post('/c', { me: Depends(me), db: Depends(db), body: Claim }, ({ me, db, body }) => payOnce(db, me.sub, body.code));
app.post('/d', { me: Depends(me), db: Depends(db), body: Claim }, ({ me, db, body }) => payIfFree(db, me.sub, body.code));
app.post('/e', { me: Depends(me), db: Depends(db), body: Claim }, ({ me, db, body }) => rename(db, me.sub, body.code));
app.post('/f', { me: Depends(me), db: Depends(db), body: Claim }, ({ me, db, body }) => spend(db, me.sub, body.code));
app.post('/g', { me: Depends(me), db: Depends(db), body: Claim }, ({ me, db, body }) => edit(db, me.sub, body.code));
// FILE vouchers.ts
import { Conflict, Field, Schema, int, nullable, str } from 'svc';
import type { Database } from 'svc/db';
class Voucher extends Schema { cents = Field(int); spentBy = Field(nullable(str)); }
const find = (base: Database, code: string) =>
  base.fetchOne('select cents, spent_by from voucher where code = ?', [code], { as: Voucher, snakeCase: true });
const CREDIT = 'update purse set cents = cents + ? where owner = ?';
export async function pay(base: Database, me: string, code: string) {
  const voucher = await find(base, code);
  if (voucher === undefined || voucher.spentBy !== null) throw new Conflict();
  await base.execute(CREDIT, [voucher.cents, me]);
  await base.execute('update voucher set spent_by = ? where code = ?', [me, code]); // SVC642
}
export const payInside = (base: Database, me: string, code: string) => base.transaction(async (tx) => {
  const voucher = await find(tx, code);
  if (voucher === undefined || voucher.spentBy !== null) throw new Conflict();
  await tx.execute(CREDIT, [voucher.cents, me]);
  await tx.execute('update voucher set spent_by = ? where code = ?', [me, code]);
});
export async function payOnce(base: Database, me: string, code: string) {
  const voucher = await find(base, code);
  if (voucher === undefined || voucher.spentBy !== null) throw new Conflict();
  await base.execute('insert into payment (code, owner) values (?, ?)', [code, me]);
  await base.execute('update voucher set spent_by = ? where code = ?', [me, code]);
}
export async function payIfFree(base: Database, me: string, code: string) {
  const voucher = await find(base, code);
  if (voucher === undefined || voucher.spentBy !== null) throw new Conflict();
  const { affectedRows } = await base.execute('update voucher set spent_by = ? where code = ? and spent_by is null', [me, code]);
  if (affectedRows === 1) await base.execute(CREDIT, [voucher.cents, me]);
}
export async function rename(base: Database, me: string, code: string) {
  const voucher = await find(base, code);
  if (voucher === undefined || voucher.spentBy !== null) throw new Conflict();
  await base.execute('update voucher set label = ? where code = ?', ['open', code]);
  await base.execute(CREDIT, [1, me]);
}
export async function edit(base: Database, me: string, code: string) {
  const row = await base.fetchOne('select label from voucher where code = ?', [code]);
  if (row?.label === 'locked') throw new Conflict();
  await base.execute('update voucher set label = ? where code = ?', [code, code]);
  await base.execute(CREDIT, [1, me]);
}
export async function spend(base: Database, me: string, code: string) {
  const row = await base.fetchOne('select cents, spent_by from voucher where code = ?', [code]);
  if (row?.spent_by) throw new Conflict();
  await base.execute(CREDIT, [row?.cents, me]);
  await base.execute('update voucher set spent_by = ? where code = ?', [me, code]); // SVC642
}
`,
  'columns that the members of a body name': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
import { change, changeKnown, changeListed } from './people.ts';
const app = new Svc();
class Free extends Schema { static readonly extra = 'allow'; name = Field(str, { maxLength: 60 }); }
class Fixed extends Schema { name = Field(str, { maxLength: 60 }); }
const me = BearerAuth();
app.patch('/a', { me: Depends(me), db: Depends(db), body: Free }, ({ me, db, body }) => change(db, me.sub, body));
app.patch('/b', { me: Depends(me), db: Depends(db), body: Fixed }, ({ me, db, body }) => changeKnown(db, me.sub, body));
app.patch('/c', { me: Depends(me), db: Depends(db), body: Free }, ({ me, db, body }) => changeListed(db, me.sub, body));
// FILE people.ts
import { sql, type Database } from 'svc/db';
export async function change(base: Database, me: string, patch: object) {
  const copy = { ...patch };
  await base.execute(sql\`update person set \${sql.set(copy, Object.keys(copy))} where id = \${me}\`); // SVC641
}
export async function changeKnown(base: Database, me: string, patch: object) {
  const copy = { ...patch };
  await base.execute(sql\`update person set \${sql.set(copy, Object.keys(copy))} where id = \${me}\`);
}
export async function changeListed(base: Database, me: string, patch: object) {
  const known = Object.keys(patch).filter((key) => ['name', 'city'].includes(key));
  await base.execute(sql\`update person set \${sql.set(patch, known)} where id = \${me}\`);
}
`,
  'a page with an inherited column': `
// FILE app.ts
import { Depends, HTMLResponse, Svc } from 'svc';
import { db } from 'svc/db';
import { latest } from './messages.ts';
import { page } from './page.ts';
const app = new Svc();
app.get('/', { db: Depends(db), public: 'all read it' }, async ({ db }) => new HTMLResponse(page(await latest(db))));
// FILE messages.ts
import { Field, Schema, int, str } from 'svc';
import type { Database } from 'svc/db';
class Draft extends Schema { author = Field(str); text = Field(str); }
class Signed extends Draft { sign = Field(str); }
export class Message extends Signed { id = Field(int); }
export const latest = (base: Database) => base.fetchAll('select id, author, text, sign from message', [], { as: Message });
// FILE page.ts
import { escapeHtml } from 'svc';
const by = (name: string) => \`<b>\${name}</b>\`; // SVC608
const item = ({ id, author, text, sign }) => \`<li id="m\${id}">\${by(author)} \${escapeHtml(text)} \${escapeHtml(sign)}</li>\`;
export const page = (all) => \`<ul>\${all.map(item).join('')}</ul>\`;
`,
  'a branch that a header field names beside the token': `
// FILE app.ts
import { Depends, Router, Svc } from 'svc';
import { db } from 'svc/db';
import { branch, compared, known } from './branch.ts';
const app = new Svc();
app.onStartup(({ state }) => state.db.script('create table parcel (id integer primary key, branch text, receiver text); create table member (person text, branch text)'));
const parcels = new Router({ prefix: '/parcels' });
parcels.get('/a', { at: Depends(branch), db: Depends(db) }, ({ at, db }) =>
  db.fetchAll('select id, receiver from parcel where branch = ?', [at.key])); // SVC646
parcels.get('/b', { at: Depends(compared), db: Depends(db) }, ({ at, db }) =>
  db.fetchAll('select id, receiver from parcel where branch = ?', [at.key]));
parcels.get('/c', { at: Depends(known), db: Depends(db) }, ({ at, db }) =>
  db.fetchAll('select id, receiver from parcel where branch = ?', [at.key]));
parcels.get('/d', { at: Depends(branch), db: Depends(db) }, ({ at, db }) =>
  db.fetchAll('select id from parcel where branch = ? and exists (select 1 from member m where m.person = ? and m.branch = parcel.branch)', [at.key, at.who]));
app.includeRouter(parcels);
// FILE branch.ts
import { BearerAuth, Depends, Field, Forbidden, provide, str } from 'svc';
import { db } from 'svc/db';
const me = BearerAuth();
const headers = { xBranch: Field(str, { maxLength: 20 }) };
export const branch = provide({ me: Depends(me), headers }, ({ me, headers }) => ({ who: me.sub, key: headers.xBranch }));
export const compared = provide({ me: Depends(me), headers }, ({ me, headers }) => {
  if (headers.xBranch !== me.branch) throw new Forbidden();
  return { who: me.sub, key: headers.xBranch };
});
export const known = provide({ me: Depends(me), base: Depends(db), headers }, async ({ me, base, headers }) => {
  const found = await base.scalar('select 1 from member where person = ? and branch = ?', [me.sub, headers.xBranch]);
  if (!found) throw new Forbidden();
  return { who: me.sub, key: headers.xBranch };
});
`,
  'a login whose session a module of its own writes': `
// FILE app.ts
import { Depends, Svc, Unauthorized, checkPassword } from 'svc';
import { enter, enterAnew } from './session.ts';
const app = new Svc();
app.post('/enter', { public: 'log in' }, async ({ req, form, users }) => { // SVC204
  if (!(await checkPassword(form.password, users.get(form.name)))) throw new Unauthorized();
  enter(req.session, form.name);
});
app.post('/enter-anew', { public: 'log in' }, async ({ req, form, users }) => { // SVC204
  if (!(await checkPassword(form.password, users.get(form.name)))) throw new Unauthorized();
  enterAnew(req.session, form.name);
});
// FILE session.ts
import { sessionKey, type Session } from 'svc';
const user = sessionKey<string>('user');
export function enter(session: Session, name: string) {
  session.set(user, name); // SVC217
}
export function enterAnew(session: Session, name: string) {
  session.regenerate();
  session.set(user, name);
}
`,
  'a link that sets a password and stays valid': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, provide, str } from 'svc';
import { db } from 'svc/db';
import { Links } from './links.ts';
const app = new Svc();
class Mail extends Schema { mail = Field(str, { maxLength: 90 }); }
class Change extends Schema { token = Field(str, { maxLength: 90 }); password = Field(str, { maxLength: 90 }); }
const links = provide({ base: Depends(db) }, ({ base }) => new Links(base));
app.post('/forgotten', { links: Depends(links), body: Mail, public: 'lost', status: 204 }, async ({ links, body }) => { await links.make(body.mail); });
app.post('/a', { links: Depends(links), body: Change, public: 'by mail', status: 204 }, async ({ links, body }) => { await links.use(body.token, body.password); });
app.post('/b', { links: Depends(links), body: Change, public: 'by mail', status: 204 }, async ({ links, body }) => { await links.useOnce(body.token, body.password); });
app.post('/c', { links: Depends(links), body: Change, public: 'by mail', status: 204 }, async ({ links, body }) => { await links.take(body.token, body.password); });
app.post('/d', { me: Depends(BearerAuth()), links: Depends(links), body: Change, status: 204 }, async ({ links, body }) => { await links.useInside(body.token, body.password); });
// FILE links.ts
import { createHash, randomBytes } from 'node:crypto';
import { BadRequest, hashPassword } from 'svc';
import type { Database } from 'svc/db';
const digest = (token: string) => createHash('sha256').update(token).digest('hex');
const FIND = 'select person from link where token = ? and ends > ?';
const CHANGE = 'update person set password = ? where id = ?';
export class Links {
  #base: Database;
  constructor(base: Database) { this.#base = base; }
  async make(mail: string) {
    const token = randomBytes(32).toString('base64url');
    await this.#base.execute('insert into link (token, person, ends) values (?, ?, ?)', [digest(token), mail, Date.now() + 9_000]);
    return token;
  }
  async use(token: string, password: string) {
    const hash = await hashPassword(password);
    await this.#base.transaction(async (tx) => {
      const row = await tx.fetchOne('select person from link where token = ?', [digest(token)]); // SVC644
      if (row === undefined) throw new BadRequest();
      await tx.execute(CHANGE, [hash, row.person]);
    });
  }
  async useOnce(token: string, password: string) {
    const hash = await hashPassword(password);
    await this.#base.transaction(async (tx) => {
      const row = await tx.fetchOne(FIND, [digest(token), Date.now()]);
      if (row === undefined) throw new BadRequest();
      await tx.execute(CHANGE, [hash, row.person]);
      await tx.execute('delete from link where person = ?', [row.person]);
    });
  }
  async take(token: string, password: string) {
    const row = await this.#base.fetchOne('delete from link where token = ? returning person', [digest(token)]);
    if (row === undefined) throw new BadRequest();
    await this.#base.execute(CHANGE, [await hashPassword(password), row.person]);
  }
  async useInside(token: string, password: string) {
    const row = await this.#base.fetchOne(FIND, [digest(token), Date.now()]);
    if (row === undefined) throw new BadRequest();
    await this.#base.execute(CHANGE, [await hashPassword(password), row.person]);
  }
}
`,
  'nonces of one client': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, str } from 'svc';
import { createCipheriv, createHmac, hash } from 'node:crypto';
import { sealed } from './seal.ts';
export const app = new Svc();
const key = Buffer.from(process.env['BOX_KEY'] ?? '', 'hex');
const options = { me: Depends(BearerAuth()), body: { text: Field(str) } };
app.put('/a', options, ({ me, body }) => sealed(key, me.sub, body.text));
app.put('/b', options, ({ me, body }) => {
  const start = Buffer.from(hash('sha256', \`box of \${me.sub}\`), 'hex').subarray(0, 12);
  const box = createCipheriv('aes-256-gcm', key, start); // SVC628
  return box.update(body.text, 'utf8', 'hex') + box.final('hex') + box.getAuthTag().toString('hex');
});
// FILE seal.ts
import { createCipheriv, createHmac } from 'node:crypto';
const startOf = (key: Buffer, who: string) => createHmac('sha256', key).update(who).digest();
export function sealed(key: Buffer, who: string, text: string) {
  const box = createCipheriv('aes-256-gcm', key, startOf(key, who).subarray(0, 12)); // SVC628
  return box.update(text, 'utf8', 'hex') + box.final('hex') + box.getAuthTag().toString('hex');
}
`,
  'right: nonces of one client': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, str } from 'svc';
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { sealed } from './seal.ts';
export const app = new Svc();
const key = Buffer.from(process.env['BOX_KEY'] ?? '', 'hex');
const options = { me: Depends(BearerAuth()), body: { text: Field(str) } };
const digest = (text: string) => createHash('sha256').update(text).digest();
let count = 0;
app.put('/a', options, ({ me, body }) => sealed(key, createHmac('sha256', key).update(\`\${me.sub} \${body.text}\`).digest().subarray(0, 12), body.text));
app.put('/b', options, ({ me, body }) => sealed(key, Buffer.concat([digest(me.sub).subarray(0, 4), randomBytes(8)]), body.text));
app.put('/c', options, ({ me, body }) => sealed(key, digest(\`\${me.sub} \${++count}\`).subarray(0, 12), body.text));
// FILE seal.ts
import { createCipheriv } from 'node:crypto';
export function sealed(key: Buffer, start: Buffer, text: string) {
  const box = createCipheriv('aes-256-gcm', key, start);
  return box.update(text, 'utf8', 'hex') + box.final('hex') + box.getAuthTag().toString('hex');
}
`,
  'units of columns': `
// FILE app.ts
import { Depends, Field, Schema, Svc, int, str } from 'svc';
import { db } from 'svc/db';
import { seconds } from './time.ts';
export const app = new Svc();
class Invite extends Schema { team = Field(str); ends = Field(int); }
class Pass extends Schema { door = Field(str); valid_until = Field(int); }
app.post('/invites', { db: Depends(db), public: 'x', body: { token: Field(str), team: Field(str) } }, async ({ db, body }) => {
  await db.execute('insert into invite (token, team, ends) values (?, ?, ?)', [body.token, body.team, seconds() + 86_400]);
  await db.execute('insert into pass (token, door, valid_until) select ?, door, ? from team where name = ?', [body.token, app.clock.nowMs() + 60_000, body.team]);
});
app.get('/invites/{token}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  const row = await db.fetchOne('select team, ends from invite where token = ?', [params.token], { as: Invite });
  return row === undefined || Date.now() > row.ends ? {} : { team: row.team }; // SVC660
});
app.get('/passes/{token}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  return await db.fetchOne('select door, valid_until from pass where token = ? and valid_until > ?', [params.token, seconds()], { as: Pass }); // SVC660
});
// FILE time.ts
export const seconds = (): number => Math.trunc(Date.now() / 1_000);
`,
  'right: units of columns': `
// FILE app.ts
import { Depends, Field, Schema, Svc, int, str } from 'svc';
import { db } from 'svc/db';
import { seconds } from './time.ts';
export const app = new Svc();
class Invite extends Schema { team = Field(str); ends = Field(int); }
class Pass extends Schema { door = Field(str); valid_until = Field(int); }
app.post('/invites', { db: Depends(db), public: 'x', body: { token: Field(str), team: Field(str) } }, async ({ db, body }) => {
  await db.execute('insert into invite (token, team, ends) values (?, ?, ?)', [body.token, body.team, seconds() + 86_400]);
  await db.execute('insert into pass (token, door, valid_until) select ?, door, ? from team where name = ?', [body.token, app.clock.nowMs() + 60_000, body.team]);
});
app.get('/invites/{token}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  const row = await db.fetchOne('select team, ends from invite where token = ?', [params.token], { as: Invite });
  return row === undefined || Date.now() > row.ends * 1_000 || seconds() > row.ends ? {} : { team: row.team };
});
app.get('/passes/{token}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  return await db.fetchOne('select door, valid_until from pass where token = ? and valid_until > ?', [params.token, Date.now()], { as: Pass });
});
// FILE time.ts
export const seconds = (): number => Math.trunc(Date.now() / 1_000);
`,
  'trees of clients': `
// FILE app.ts
import { Field, Svc, any, record } from 'svc';
import { merge } from './merge.ts';
export const app = new Svc();
const themes: Record<string, unknown> = {};
app.patch('/a', { public: 'x', body: { theme: Field(record(any)) } }, ({ body }) => merge(themes, body.theme));
app.patch('/b', { public: 'x', body: { theme: Field(record(any)) } }, ({ body }) => fill(themes, body.theme));
function fill(into: any, from: any): void {
  Object.entries(from).forEach(([key, value]) => {
    if (typeof into[key] === 'object' && typeof value === 'object') return fill(into[key], value);
    into[key] = value; // SVC650
  });
}
// FILE merge.ts
const isTree = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
export function merge(into: Record<string, unknown>, from: Record<string, unknown>) {
  for (const [key, value] of Object.entries(from)) {
    const present = into[key];
    if (isTree(value) && isTree(present)) merge(present, value);
    else into[key] = value; // SVC650
  }
  return into;
}
`,
  'right: trees of clients': `
// FILE app.ts
import { Field, Svc, any, record } from 'svc';
import { merge } from './merge.ts';
export const app = new Svc();
const themes: Record<string, unknown> = {};
app.patch('/a', { public: 'x', body: { theme: Field(record(any)) } }, ({ body }) => merge(themes, body.theme));
// FILE merge.ts
const isTree = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
export function merge(into: Record<string, unknown>, from: Record<string, unknown>) {
  for (const [key, value] of Object.entries(from)) {
    if (key === '__proto__') continue;
    const present = into[key];
    if (isTree(value) && isTree(present)) merge(present, value);
    else into[key] = value;
  }
  return into;
}
`,
  'sets in a map that messages fill': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { Marks } from './marks.ts';
export const app = new Svc();
const marks = new Marks();
const drafts = new Map<string, Map<string, number>>();
app.websocket('/marks', { me: Depends(BearerAuth()) }).onMessage((socket, message, { me }) => {
  marks.note(me.sub, message.id);
  let own = drafts.get(me.sub);
  if (own === undefined) drafts.set(me.sub, (own = new Map()));
  own.set(message.word, Date.now()); // SVC653
});
// FILE marks.ts
export class Marks {
  readonly #all = new Map<string, Set<string>>();
  note(who: string, id: string) {
    const ids = this.#all.get(who) ?? new Set<string>();
    ids.add(id); // SVC653
    this.#all.set(who, ids);
  }
}
`,
  'right: sets in a map that messages fill': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { Marks } from './marks.ts';
export const app = new Svc();
const marks = new Marks();
const drafts = new Map<string, Set<string>>();
app.websocket('/marks', { me: Depends(BearerAuth()) }).onMessage((socket, message, { me }) => {
  marks.note(me.sub, message.id);
  if (!drafts.has(me.sub)) drafts.set(me.sub, new Set());
  drafts.get(me.sub)?.add(message.word);
}).onClose((socket, close, { me }) => { drafts.delete(me.sub); });
// FILE marks.ts
const oldest = (all: Set<string>) => all.values().next().value;
export class Marks {
  readonly #all = new Map<string, Set<string>>();
  note(who: string, id: string) {
    const ids = this.#all.get(who) ?? new Set<string>();
    ids.add(id);
    if (ids.size > 100) ids.delete(oldest(ids) ?? '');
    this.#all.set(who, ids);
  }
}
`,
  'arguments that a caller lists': `
// FILE app.ts
import { Field, Svc, str } from 'svc';
import { git, tool } from './run.ts';
export const app = new Svc();
const query = { name: Field(str, { maxLength: 90 }) };
app.get('/log', { query, public: 'x' }, async ({ query }) => {
  const args = ['log', '--oneline', query.name]; // SVC602
  return await git(args);
});
app.get('/size', { query, public: 'x' }, ({ query }) => {
  const list = ['-b', query.name]; // SVC602
  return tool('du', list);
});
// FILE run.ts
import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
const run = promisify(execFile);
export const git = async (args: readonly string[]) => (await run('git', [...args], { timeout: 9_000 })).stdout;
export function tool(name: 'du' | 'df', list: string[]) { return spawn(name, list, { timeout: 9_000 }).pid; }
`,
  'right: arguments that a caller lists': `
// FILE app.ts
import { Field, Svc, str } from 'svc';
import { git } from './run.ts';
export const app = new Svc();
app.get('/log', { query: { name: Field(str, { maxLength: 90 }) }, public: 'x' }, async ({ query }) => {
  const args = ['log', '--oneline', '--end-of-options', '--', query.name];
  return await git(args);
});
// FILE run.ts
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
const run = promisify(execFile);
export const git = async (args: readonly string[]) => (await run('git', [...args], { timeout: 9_000 })).stdout;
`,
  'transactions of a server: a coupon that is read, tested and marked': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db, transaction } from 'svc/db';
import { give, spend } from './coupons.ts';
const app = new Svc();
app.register(new DatabasePlugin('postgres://app@localhost/app'));
app.post('/coupons/{code}', { me: Depends(BearerAuth()), tx: Depends(transaction) }, ({ me, tx, params }) => spend(tx, params.code, me.sub));
app.post('/boxes/{box}/gift', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base, params }) => give(base, params.box, me.sub));
// FILE coupons.ts
import { Conflict } from 'svc';
import { sql, type Database, type Session } from 'svc/db';
export async function spend(tx: Session, code: string, who: string) {
  const coupon = await tx.fetchOne('select spent_at, cents from coupon where code = ?', [code]);
  if (coupon === undefined || coupon.spent_at !== null) throw new Conflict('spent');
  await tx.execute('update purse set cents = cents + ? where owner = ?', [coupon.cents, who]);
  await tx.execute('update coupon set spent_at = now() where code = ?', [code]); // SVC642
}
export const give = (base: Database, box: string, who: string) =>
  base.transaction(async (tx) => {
    const rest = (await tx.fetchOne(sql\`select gifts from box where id = \${box}\`))?.gifts ?? 0;
    if (rest < 1) throw new Conflict('empty');
    await tx.execute(sql\`update box set gifts = \${rest - 1}, last_owner = \${who} where id = \${box}\`); // SVC642
  });
`,
  'right: transactions of a server: a coupon that is read, tested and marked': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db, transaction } from 'svc/db';
import { give, spend } from './coupons.ts';
const app = new Svc();
app.register(new DatabasePlugin('postgres://app@localhost/app'));
app.post('/coupons/{code}', { me: Depends(BearerAuth()), tx: Depends(transaction) }, ({ me, tx, params }) => spend(tx, params.code, me.sub));
app.post('/boxes/{box}/gift', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base, params }) => give(base, params.box, me.sub));
// FILE coupons.ts
import { Conflict } from 'svc';
import { sql, type Database, type Session } from 'svc/db';
export async function spend(tx: Session, code: string, who: string) {
  const coupon = await tx.fetchOne('select spent_at, cents from coupon where code = ? for update', [code]);
  if (coupon === undefined || coupon.spent_at !== null) throw new Conflict('spent');
  await tx.execute('update purse set cents = cents + ? where owner = ?', [coupon.cents, who]);
  await tx.execute('update coupon set spent_at = now() where code = ?', [code]);
}
export const give = (base: Database, box: string, who: string) =>
  base.transaction(async (tx) => {
    await tx.execute(sql\`update box set last_owner = \${who} where id = \${box}\`);
    const rest = (await tx.fetchOne(sql\`select gifts from box where id = \${box}\`))?.gifts ?? 0;
    if (rest < 1) throw new Conflict('empty');
    await tx.execute(sql\`update box set gifts = \${rest - 1} where id = \${box}\`);
  });
`,
  'right: transactions of SQLite: a coupon that is read, tested and marked': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db, transaction } from 'svc/db';
import { give, spend } from './coupons.ts';
const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.post('/coupons/{code}', { me: Depends(BearerAuth()), tx: Depends(transaction) }, ({ me, tx, params }) => spend(tx, params.code, me.sub));
app.post('/boxes/{box}/gift', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base, params }) => give(base, params.box, me.sub));
// FILE coupons.ts
import { Conflict } from 'svc';
import { sql, type Database, type Session } from 'svc/db';
export async function spend(tx: Session, code: string, who: string) {
  const coupon = await tx.fetchOne('select spent_at, cents from coupon where code = ?', [code]);
  if (coupon === undefined || coupon.spent_at !== null) throw new Conflict('spent');
  await tx.execute('update purse set cents = cents + ? where owner = ?', [coupon.cents, who]);
  await tx.execute('update coupon set spent_at = now() where code = ?', [code]);
}
export const give = (base: Database, box: string, who: string) =>
  base.transaction(async (tx) => {
    const rest = (await tx.fetchOne(sql\`select gifts from box where id = \${box}\`))?.gifts ?? 0;
    if (rest < 1) throw new Conflict('empty');
    await tx.execute(sql\`update box set gifts = \${rest - 1}, last_owner = \${who} where id = \${box}\`);
  });
`,
};
