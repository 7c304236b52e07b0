/** Applications whose statements, rooms and tools belong to a principal (SVC640, SVC641, SVC646), half of them with a mistake at a marked line. */
export const PRINCIPALS: Readonly<Record<string, string>> = {
  'nested resource: comment belongs to another issue': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { loadIssue, removeComment, editComment } from './issues.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:i.db'));
class Text extends Schema { text = Field(str, { maxLength: 2000 }); }
const auth = { me: Depends(BearerAuth()), base: Depends(db) };
app.onStartup(({ state }) => state.db.script('create table issue (id integer primary key, owner text not null); create table comment (id integer primary key, issue integer not null references issue (id), body text not null)'));
app.put('/issues/{issue:int}/comments/{comment:int}', { ...auth, body: Text }, async ({ me, base, params, body }) => {
  const issue = await loadIssue(base, params.issue, me.sub);
  if (issue === undefined) throw new NotFound();
  await editComment(base, params.issue, params.comment, body.text);
  return { saved: true };
});
app.delete('/issues/{issue:int}/comments/{comment:int}', auth, async ({ me, base, params }) => {
  const issue = await loadIssue(base, params.issue, me.sub);
  if (issue === undefined) throw new NotFound();
  await removeComment(base, params.issue, params.comment);
  return { removed: true };
});
// FILE issues.ts
import type { Database } from 'svc/db';
export const loadIssue = (base: Database, id: number, owner: string) =>
  base.fetchOne('select id from issue where id = ? and owner = ?', [id, owner]);
export const editComment = (base: Database, issue: number, id: number, text: string) =>
  base.execute('update comment set body = ? where id = ? and issue = ?', [text, id, issue]);
export const removeComment = (base: Database, issue: number, id: number) =>
  base.execute('delete from comment where id = ?', [id]); // SVC640
`,
  'right: nested resource: comment belongs to another issue': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { loadIssue, removeComment, editComment } from './issues.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:i.db'));
class Text extends Schema { text = Field(str, { maxLength: 2000 }); }
const auth = { me: Depends(BearerAuth()), base: Depends(db) };
app.onStartup(({ state }) => state.db.script('create table issue (id integer primary key, owner text not null); create table comment (id integer primary key, issue integer not null references issue (id), body text not null)'));
app.put('/issues/{issue:int}/comments/{comment:int}', { ...auth, body: Text }, async ({ me, base, params, body }) => {
  const issue = await loadIssue(base, params.issue, me.sub);
  if (issue === undefined) throw new NotFound();
  await editComment(base, params.issue, params.comment, body.text);
  return { saved: true };
});
app.delete('/issues/{issue:int}/comments/{comment:int}', auth, async ({ me, base, params }) => {
  const issue = await loadIssue(base, params.issue, me.sub);
  if (issue === undefined) throw new NotFound();
  await removeComment(base, params.issue, params.comment);
  return { removed: true };
});
// FILE issues.ts
import type { Database } from 'svc/db';
export const loadIssue = (base: Database, id: number, owner: string) =>
  base.fetchOne('select id from issue where id = ? and owner = ?', [id, owner]);
export const editComment = (base: Database, issue: number, id: number, text: string) =>
  base.execute('update comment set body = ? where id = ? and issue = ?', [text, id, issue]);
export const removeComment = (base: Database, issue: number, id: number) =>
  base.execute('delete from comment where id = ? and issue = ?', [id, issue]);
`,
  'websocket joins a room of the query': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Channels } from './channels.ts';
class Line extends Schema { text = Field(str, { maxLength: 500 }); }
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:c.db'));
app.onStartup(({ state }) => state.db.script('create table membership (channel text not null, account text not null, primary key (channel, account))'));
const guard = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/channels/{channel}/members', guard, async ({ me, base, params }) => {
  await new Channels(base).enter(params.channel, me.sub);
  return base.fetchAll('select account from membership where channel = ?', [params.channel]);
});
app.websocket('/channels/{channel}/live', { ...guard, message: Line })
  .onOpen(async (socket, { params, me, base }) => {
    socket.join(params.channel); // SVC640
  })
  .onMessage((socket, { text }, { params, me }) => socket.broadcastJson(params.channel, { from: me.sub, text }));
// FILE channels.ts
import { Forbidden } from 'svc';
import type { Database } from 'svc/db';
export class Channels {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  async enter(channel: string, account: string): Promise<void> {
    const row = await this.#base.fetchOne('select 1 as here from membership where channel = ? and account = ?', [channel, account]);
    if (row === undefined) throw new Forbidden('not a member');
  }
}
`,
  'right: websocket joins a room of the query': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Channels } from './channels.ts';
class Line extends Schema { text = Field(str, { maxLength: 500 }); }
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:c.db'));
app.onStartup(({ state }) => state.db.script('create table membership (channel text not null, account text not null, primary key (channel, account))'));
const guard = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/channels/{channel}/members', guard, async ({ me, base, params }) => {
  await new Channels(base).enter(params.channel, me.sub);
  return base.fetchAll('select account from membership where channel = ?', [params.channel]);
});
app.websocket('/channels/{channel}/live', { ...guard, message: Line })
  .onOpen(async (socket, { params, me, base }) => {
    await new Channels(base).enter(params.channel, me.sub);
    socket.join(params.channel);
  })
  .onMessage((socket, { text }, { params, me }) => socket.broadcastJson(params.channel, { from: me.sub, text }));
// FILE channels.ts
import { Forbidden } from 'svc';
import type { Database } from 'svc/db';
export class Channels {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  async enter(channel: string, account: string): Promise<void> {
    const row = await this.#base.fetchOne('select 1 as here from membership where channel = ? and account = ?', [channel, account]);
    if (row === undefined) throw new Forbidden('not a member');
  }
}
`,
  'websocket subscribes by a message': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db, type Database } from 'svc/db';
class Wanted extends Schema { order = Field(str, { maxLength: 40 }); }
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:o.db'));
const deps = { me: Depends(BearerAuth()), base: Depends(db) };
const mine = (base: Database, order: string, buyer: string) => base.fetchOne('select id from purchase where id = ? and buyer = ?', [order, buyer]);
app.get('/orders/{id}', deps, async ({ me, base, params }) => (await mine(base, params.id, me.sub)) ?? [null, 404]);
app.websocket('/orders/live', { ...deps, message: Wanted }).onMessage(async (socket, { order }, { me, base }) => {
  const room = \`order:\${order}\`;
  socket.join(room); // SVC640
  socket.sendJson({ watching: order });
});
app.post('/orders/{id}/state', deps, async ({ me, base, params, req }) => {
  if ((await mine(base, params.id, me.sub)) === undefined) return [null, 404];
  app.rooms.broadcastJson('order:' + params.id, { state: 'changed' });
  return [null, 204];
});
`,
  'right: websocket subscribes by a message': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db, type Database } from 'svc/db';
class Wanted extends Schema { order = Field(str, { maxLength: 40 }); }
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:o.db'));
const deps = { me: Depends(BearerAuth()), base: Depends(db) };
const mine = (base: Database, order: string, buyer: string) => base.fetchOne('select id from purchase where id = ? and buyer = ?', [order, buyer]);
app.get('/orders/{id}', deps, async ({ me, base, params }) => (await mine(base, params.id, me.sub)) ?? [null, 404]);
app.websocket('/orders/live', { ...deps, message: Wanted }).onMessage(async (socket, { order }, { me, base }) => {
  if ((await mine(base, order, me.sub)) === undefined) return socket.close(4403, 'not yours');
  const room = \`order:\${order}\`;
  socket.join(room);
  socket.sendJson({ watching: order });
});
app.post('/orders/{id}/state', deps, async ({ me, base, params, req }) => {
  if ((await mine(base, params.id, me.sub)) === undefined) return [null, 404];
  app.rooms.broadcastJson('order:' + params.id, { state: 'changed' });
  return [null, 204];
});
`,
  'right: public chat: rooms open to everyone': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
class Line extends Schema { text = Field(str, { maxLength: 500 }); }
export const app = new Svc();
app.websocket('/chat/{room}', { message: Line, me: Depends(BearerAuth()) })
  .onOpen((socket, { params }) => socket.join(params.room))
  .onMessage((socket, { text }, { params, me }) => socket.broadcastJson(params.room, { who: me.sub, text }));
`,
  'mcp tool takes the account from args': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Ledger } from './ledger.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:l.db'));
const me = Depends(BearerAuth());
app.get('/entries', { me, base: Depends(db) }, ({ me, base }) => new Ledger(base).entries(me.sub, 50));
app.tool('list_entries', { description: 'Lists entries of the ledger', me, base: Depends(db), args: { account: Field(str, { maxLength: 36 }), limit: Field(int, { ge: 1, le: 100 }) } }, async ({ me, base, args }) => {
  const ledger = new Ledger(base);
  return ledger.entries(args.account, args.limit);
});
app.mountMcp('/mcp', { deps: { me } });
// FILE ledger.ts
import type { Database } from 'svc/db';
export class Ledger {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  entries(account: string, limit: number) {
    return this.#base.fetchAll('select id, cents, text from entry where account = ? order by id desc limit ?', [account, limit]); // SVC640
  }
}
`,
  'right: mcp tool takes the account from args': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Ledger } from './ledger.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:l.db'));
const me = Depends(BearerAuth());
app.get('/entries', { me, base: Depends(db) }, ({ me, base }) => new Ledger(base).entries(me.sub, 50));
app.tool('list_entries', { description: 'Lists entries of the ledger', me, base: Depends(db), args: { limit: Field(int, { ge: 1, le: 100 }) } }, async ({ me, base, args }) => {
  const ledger = new Ledger(base);
  return ledger.entries(me.sub, args.limit);
});
app.mountMcp('/mcp', { deps: { me } });
// FILE ledger.ts
import type { Database } from 'svc/db';
export class Ledger {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  entries(account: string, limit: number) {
    return this.#base.fetchAll('select id, cents, text from entry where account = ? order by id desc limit ?', [account, limit]);
  }
}
`,
  'organisation id of the body': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { projects } from './projects.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class NewProject extends Schema { name = Field(str, { maxLength: 80 }); org = Field(str, { maxLength: 36 }); }
const guarded = { me: Depends(BearerAuth()), store: Depends(projects) };
app.get('/projects', guarded, ({ me, store }) => store.all(String(me['org'])));
app.post('/projects', { ...guarded, body: NewProject, status: 201 }, async ({ me, store, body }) => {
  await store.add(body.org, body.name);
  return { created: body.name };
});
// FILE projects.ts
import { Depends, provide } from 'svc';
import { db } from 'svc/db';
export const projects = provide({ base: Depends(db) }, ({ base }) => ({
  all: (org: string) => base.fetchAll('select id, name from project where org_id = ?', [org]),
  add: (org: string, name: string) => base.execute('insert into project (org_id, name) values (?, ?)', [org, name]), // SVC640
}));
`,
  'right: organisation id of the body': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { projects } from './projects.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class NewProject extends Schema { name = Field(str, { maxLength: 80 }); }
const guarded = { me: Depends(BearerAuth()), store: Depends(projects) };
app.get('/projects', guarded, ({ me, store }) => store.all(String(me['org'])));
app.post('/projects', { ...guarded, body: NewProject, status: 201 }, async ({ me, store, body }) => {
  await store.add(String(me['org']), body.name);
  return { created: body.name };
});
// FILE projects.ts
import { Depends, provide } from 'svc';
import { db } from 'svc/db';
export const projects = provide({ base: Depends(db) }, ({ base }) => ({
  all: (org: string) => base.fetchAll('select id, name from project where org_id = ?', [org]),
  add: (org: string, name: string) => base.execute('insert into project (org_id, name) values (?, ?)', [org, name]),
}));
`,
  'guard in one of two methods of a class': `
// FILE app.ts
import { Svc, Depends, BearerAuth, Field, Schema, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Documents } from './documents.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class Body extends Schema { text = Field(str, { maxLength: 9000 }); }
const deps = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/documents/{id:int}', deps, ({ me, base, params }) => new Documents(base, me.sub).read(params.id));
app.put('/documents/{id:int}', { ...deps, body: Body }, ({ me, base, params, body }) => new Documents(base, me.sub).write(params.id, body.text));
// FILE documents.ts
import { Forbidden, NotFound } from 'svc';
import type { Database } from 'svc/db';
export class Documents {
  constructor(private readonly base: Database, private readonly user: string) {}
  async #owned(id: number) {
    const row = await this.base.fetchOne('select author, text from document where id = ?', [id]);
    if (row === undefined) throw new NotFound();
    if (row.author !== this.user) throw new Forbidden();
    return row;
  }
  async read(id: number) { return { text: (await this.#owned(id)).text }; }
  async write(id: number, text: string) {
    await this.base.execute('update document set text = ? where id = ?', [text, id]); // SVC640
    return { saved: true };
  }
}
`,
  'right: guard in one of two methods of a class': `
// FILE app.ts
import { Svc, Depends, BearerAuth, Field, Schema, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Documents } from './documents.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class Body extends Schema { text = Field(str, { maxLength: 9000 }); }
const deps = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/documents/{id:int}', deps, ({ me, base, params }) => new Documents(base, me.sub).read(params.id));
app.put('/documents/{id:int}', { ...deps, body: Body }, ({ me, base, params, body }) => new Documents(base, me.sub).write(params.id, body.text));
// FILE documents.ts
import { Forbidden, NotFound } from 'svc';
import type { Database } from 'svc/db';
export class Documents {
  constructor(private readonly base: Database, private readonly user: string) {}
  async #owned(id: number) {
    const row = await this.base.fetchOne('select author, text from document where id = ?', [id]);
    if (row === undefined) throw new NotFound();
    if (row.author !== this.user) throw new Forbidden();
    return row;
  }
  async read(id: number) { return { text: (await this.#owned(id)).text }; }
  async write(id: number, text: string) {
    await this.#owned(id);
    await this.base.execute('update document set text = ? where id = ?', [text, id]);
    return { saved: true };
  }
}
`,
  'right: aggregates per group over owned rows': `
// FILE app.ts
import { Svc, Depends, BearerAuth } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
const deps = { me: Depends(BearerAuth()), base: Depends(db) };
app.onStartup(({ state }) => state.db.script('create table rating (id integer primary key, film integer not null, author text not null, stars integer not null, unique (film, author))'));
app.get('/films/{film:int}/rating', deps, ({ base, params }) => base.fetchOne('select avg(stars) as stars, count(*) as votes from rating where film = ?', [params.film]));
app.get('/films/{film:int}/spread', deps, ({ base, params }) => base.fetchAll('select stars, count(*) as votes from rating where film = ? group by stars', [params.film]));
app.put('/films/{film:int}/mine', deps, ({ me, base, params }) => base.fetchOne('select stars from rating where film = ? and author = ?', [params.film, me.sub]));
app.get('/ratings/{id:int}/count', deps, ({ base, params }) => base.scalar('select count(*) from rating where id = ?', [params.id]));
app.delete('/ratings/{id:int}', deps, ({ me, base, params }) => base.execute('delete from rating where id = ? and author = ?', [params.id, me.sub]));
`,
  'insert under a foreign parent': `
// FILE app.ts
import { Svc, Depends, BearerAuth, Field, NotFound, Schema, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { attach, listOf } from './attachments.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.onStartup(({ state }) => state.db.script('create table trip (id integer primary key, traveller text not null); create table attachment (id integer primary key, trip integer not null references trip (id), name text)'));
class Attachment extends Schema { trip = Field(int); name = Field(str, { maxLength: 90 }); }
const deps = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/trips', deps, ({ me, base }) => base.fetchAll('select id from trip where traveller = ?', [me.sub]));
app.get('/trips/{id:int}', deps, ({ me, base, params }) => base.fetchOne('select id from trip where id = ? and traveller = ?', [params.id, me.sub]));
app.post('/attachments', { ...deps, body: Attachment, status: 201 }, async ({ me, base, body }) => {
  await attach(base, body.trip, body.name);
  return { ok: true };
});
// FILE attachments.ts
import type { Database } from 'svc/db';
export const attach = (base: Database, trip: number, name: string) => base.execute('insert into attachment (trip, name) values (?, ?)', [trip, name]); // SVC640
export const listOf = (base: Database, trip: number) => base.fetchAll('select id from attachment where trip = ?', [trip]);
`,
  'right: insert under a foreign parent': `
// FILE app.ts
import { Svc, Depends, BearerAuth, Field, NotFound, Schema, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { attach, listOf } from './attachments.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.onStartup(({ state }) => state.db.script('create table trip (id integer primary key, traveller text not null); create table attachment (id integer primary key, trip integer not null references trip (id), name text)'));
class Attachment extends Schema { trip = Field(int); name = Field(str, { maxLength: 90 }); }
const deps = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/trips', deps, ({ me, base }) => base.fetchAll('select id from trip where traveller = ?', [me.sub]));
app.get('/trips/{id:int}', deps, ({ me, base, params }) => base.fetchOne('select id from trip where id = ? and traveller = ?', [params.id, me.sub]));
app.post('/attachments', { ...deps, body: Attachment, status: 201 }, async ({ me, base, body }) => {
  if ((await base.fetchOne('select id from trip where id = ? and traveller = ?', [body.trip, me.sub])) === undefined) throw new NotFound();
  await attach(base, body.trip, body.name);
  return { ok: true };
});
// FILE attachments.ts
import type { Database } from 'svc/db';
export const attach = (base: Database, trip: number, name: string) => base.execute('insert into attachment (trip, name) values (?, ?)', [trip, name]);
export const listOf = (base: Database, trip: number) => base.fetchAll('select id from attachment where trip = ?', [trip]);
`,
  'role of the login of the client chooses': `
// FILE app.ts
import { Svc, Depends, Field, RateLimitMiddleware, Schema, Unauthorized, checkPassword, createToken, literal, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { issue } from './issue.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 5 }));
class Login extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { maxLength: 200, secret: true }); role = Field(literal('agent', 'supervisor')); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ base, body }) => {
  const row = await base.fetchOne('select id, role, password from agent where name = ?', [body.name]);
  if (!(await checkPassword(body.password, row?.password))) throw new Unauthorized();
  return { token: issue(String(row.id), body.role) };
});
// FILE issue.ts
import { createToken } from 'svc';
export const issue = (sub: string, role: string) => createToken(sub, process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 900, claims: { roles: [role] } }); // SVC641
`,
  'right: role of the login of the client chooses': `
// FILE app.ts
import { Svc, Depends, Field, RateLimitMiddleware, Schema, Unauthorized, checkPassword, createToken, literal, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { issue } from './issue.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 5 }));
class Login extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { maxLength: 200, secret: true }); role = Field(literal('agent', 'supervisor')); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ base, body }) => {
  const row = await base.fetchOne('select id, role, password from agent where name = ?', [body.name]);
  if (!(await checkPassword(body.password, row?.password))) throw new Unauthorized();
  return { token: issue(String(row.id), String(row.role)) };
});
// FILE issue.ts
import { createToken } from 'svc';
export const issue = (sub: string, role: string) => createToken(sub, process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 900, claims: { roles: [role] } });
`,
  'admin decided by a query flag': `
// FILE app.ts
import { Svc, Depends, BearerAuth, Field, Forbidden, Schema, bool, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { canSeeAll } from './rights.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class Query extends Schema { asAdmin = Field(bool, { default: false }); role = Field(str, { maxLength: 20, default: 'user' }); }
app.get('/tickets', { me: Depends(BearerAuth()), base: Depends(db), query: Query }, async ({ me, base, query }) => {
  if (canSeeAll(query)) return base.fetchAll('select id, title from ticket order by id limit 100');
  return base.fetchAll('select id, title from ticket where author = ?', [me.sub]);
});
// FILE rights.ts
export function canSeeAll(given: { role?: unknown }): boolean {
  return given.role === 'admin'; // SVC646
}
`,
  'right: admin decided by a query flag': `
// FILE app.ts
import { Svc, Depends, BearerAuth, Field, Forbidden, Schema, bool, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { canSeeAll } from './rights.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class Query extends Schema { asAdmin = Field(bool, { default: false }); role = Field(str, { maxLength: 20, default: 'user' }); }
app.get('/tickets', { me: Depends(BearerAuth()), base: Depends(db), query: Query }, async ({ me, base, query }) => {
  if (canSeeAll(me)) return base.fetchAll('select id, title from ticket order by id limit 100');
  return base.fetchAll('select id, title from ticket where author = ?', [me.sub]);
});
// FILE rights.ts
export function canSeeAll(given: { role?: unknown }): boolean {
  return given.role === 'admin';
}
`,
  'delete lacks the owner check that a helper does in code': `
// FILE app.ts
import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { albums } from './routes/albums.ts';
export const app = new Svc({ title: 'albums' });
app.register(new DatabasePlugin(process.env['DB'] ?? 'sqlite:a.db'));
app.includeRouter(albums);
// FILE routes/albums.ts
import { BearerAuth, Depends, Field, Router, Schema, provide, str } from 'svc';
import { db } from 'svc/db';
import { AlbumService } from '../service.ts';
class Rename extends Schema { title = Field(str, { maxLength: 60 }); }
const service = provide({ base: Depends(db), user: Depends(BearerAuth()) }, ({ base, user }) => new AlbumService(base, { id: user.sub }));
export const albums = new Router({ prefix: '/albums', deps: { service: Depends(service), user: Depends(BearerAuth()) } });
albums.get('/{id:int}', ({ service, params }) => service.show(params.id));
albums.patch('/{id:int}', { body: Rename }, ({ service, params, body }) => service.rename(params.id, body.title));
albums.delete('/{id:int}', ({ service, params }) => service.destroy(params.id));
// FILE service.ts
import { Forbidden, NotFound } from 'svc';
import type { Database } from 'svc/db';
import { ensureOwner } from './ensure.ts';
interface Actor { readonly id: string }
export class AlbumService {
  #base: Database; #actor: Actor;
  constructor(base: Database, actor: Actor) { this.#base = base; this.#actor = actor; }
  private async load(id: number) {
    const album = await this.#base.fetchOne<{ id: number; owner: string; title: string }>('select id, owner, title from album where id = ?', [id]);
    if (!album) throw new NotFound();
    return album;
  }
  async show(id: number) { const album = await this.load(id); ensureOwner(this.#actor, album.owner); return { title: album.title }; }
  async rename(id: number, title: string) {
    const album = await this.load(id);
    ensureOwner(this.#actor, album.owner);
    await this.#base.execute('update album set title = ? where id = ?', [title, album.id]);
    return { title };
  }
  async destroy(id: number) {
    const album = await this.load(id);
    await this.#base.execute('delete from album where id = ?', [album.id]); // SVC640
    return { deleted: true };
  }
}
// FILE ensure.ts
import { Forbidden } from 'svc';
export function ensureOwner(actor: { id: string }, owner: string): void {
  if (actor.id !== owner) throw new Forbidden();
}
`,
  'right: delete lacks the owner check that a helper does in code': `
// FILE app.ts
import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { albums } from './routes/albums.ts';
export const app = new Svc({ title: 'albums' });
app.register(new DatabasePlugin(process.env['DB'] ?? 'sqlite:a.db'));
app.includeRouter(albums);
// FILE routes/albums.ts
import { BearerAuth, Depends, Field, Router, Schema, provide, str } from 'svc';
import { db } from 'svc/db';
import { AlbumService } from '../service.ts';
class Rename extends Schema { title = Field(str, { maxLength: 60 }); }
const service = provide({ base: Depends(db), user: Depends(BearerAuth()) }, ({ base, user }) => new AlbumService(base, { id: user.sub }));
export const albums = new Router({ prefix: '/albums', deps: { service: Depends(service), user: Depends(BearerAuth()) } });
albums.get('/{id:int}', ({ service, params }) => service.show(params.id));
albums.patch('/{id:int}', { body: Rename }, ({ service, params, body }) => service.rename(params.id, body.title));
albums.delete('/{id:int}', ({ service, params }) => service.destroy(params.id));
// FILE service.ts
import { Forbidden, NotFound } from 'svc';
import type { Database } from 'svc/db';
import { ensureOwner } from './ensure.ts';
interface Actor { readonly id: string }
export class AlbumService {
  #base: Database; #actor: Actor;
  constructor(base: Database, actor: Actor) { this.#base = base; this.#actor = actor; }
  private async load(id: number) {
    const album = await this.#base.fetchOne<{ id: number; owner: string; title: string }>('select id, owner, title from album where id = ?', [id]);
    if (!album) throw new NotFound();
    return album;
  }
  async show(id: number) { const album = await this.load(id); ensureOwner(this.#actor, album.owner); return { title: album.title }; }
  async rename(id: number, title: string) {
    const album = await this.load(id);
    ensureOwner(this.#actor, album.owner);
    await this.#base.execute('update album set title = ? where id = ?', [title, album.id]);
    return { title };
  }
  async destroy(id: number) {
    const album = await this.load(id);
    ensureOwner(this.#actor, album.owner);
    await this.#base.execute('delete from album where id = ?', [album.id]);
    return { deleted: true };
  }
}
// FILE ensure.ts
import { Forbidden } from 'svc';
export function ensureOwner(actor: { id: string }, owner: string): void {
  if (actor.id !== owner) throw new Forbidden();
}
`,
  'websocket loop subscribes to a project': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { memberOf } from './members.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
const common = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/projects/{project}/tasks', common, async ({ me, base, params }) => {
  if (!(await memberOf(base, params.project, me.sub))) throw new NotFound();
  return base.fetchAll('select id, title from task where project_id = ?', [params.project]);
});
app.websocket('/live', common, async (socket, { me, base }) => {
  for await (const raw of socket) {
    const { type, project } = JSON.parse(String(raw)) as { type: string; project: string };
    if (type !== 'watch') continue;
    socket.join('project/' + project); // SVC640
  }
});
// FILE members.ts
import type { Database } from 'svc/db';
export const memberOf = async (base: Database, project: string, account: string): Promise<boolean> =>
  (await base.scalar('select count(*) from project_member where project_id = ? and account_id = ?', [project, account])) === 1;
`,
  'right: websocket loop subscribes to a project': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { memberOf } from './members.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
const common = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/projects/{project}/tasks', common, async ({ me, base, params }) => {
  if (!(await memberOf(base, params.project, me.sub))) throw new NotFound();
  return base.fetchAll('select id, title from task where project_id = ?', [params.project]);
});
app.websocket('/live', common, async (socket, { me, base }) => {
  for await (const raw of socket) {
    const { type, project } = JSON.parse(String(raw)) as { type: string; project: string };
    if (type !== 'watch') continue;
    if (!(await memberOf(base, project, me.sub))) continue;
    socket.join('project/' + project);
  }
});
// FILE members.ts
import type { Database } from 'svc/db';
export const memberOf = async (base: Database, project: string, account: string): Promise<boolean> =>
  (await base.scalar('select count(*) from project_member where project_id = ? and account_id = ?', [project, account])) === 1;
`,
  'header decides the role behind a guard': `
// FILE app.ts
import { BearerAuth, Depends, Forbidden, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { isAdmin } from './who.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.delete('/posts/{id:int}', { me: Depends(BearerAuth()), base: Depends(db), status: 204 }, async ({ req, me, base, params }) => {
  if (!isAdmin(req.headers)) throw new Forbidden();
  await base.execute('delete from post where id = ?', [params.id]);
});
// FILE who.ts
export const isAdmin = (from: Record<string, unknown>): boolean => from['x-user-role'] === 'admin'; // SVC646
`,
  'right: header decides the role behind a guard': `
// FILE app.ts
import { BearerAuth, Depends, Forbidden, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { isAdmin } from './who.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.delete('/posts/{id:int}', { me: Depends(BearerAuth()), base: Depends(db), status: 204 }, async ({ req, me, base, params }) => {
  if (!isAdmin(me)) throw new Forbidden();
  await base.execute('delete from post where id = ?', [params.id]);
});
// FILE who.ts
export const isAdmin = (from: Record<string, unknown>): boolean => from['role'] === 'admin';
`,
  'right: social app': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, name text); create table post (id integer primary key, author text not null references person (id), text text, likes integer not null default 0); create table follow (follower text not null references person (id), followed text not null references person (id), primary key (follower, followed)); create table reply (id integer primary key, post integer not null references post (id), author text not null references person (id), text text); create table report (id integer primary key, post integer not null references post (id), reason text)'));
class Text extends Schema { text = Field(str, { maxLength: 300 }); }
const c = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/timeline', c, ({ base }) => base.fetchAll('select id, author, text, likes from post order by id desc limit 50'));
app.get('/people/{id}', c, ({ base, params }) => base.fetchOne('select id, name from person where id = ?', [params.id]));
app.get('/people/{id}/posts', c, ({ base, params }) => base.fetchAll('select id, text from post where author = ?', [params.id]));
app.get('/me/posts', c, ({ base, me }) => base.fetchAll('select id, text from post where author = ?', [me.sub]));
app.get('/posts/{id:int}', c, ({ base, params }) => base.fetchOne('select id, text, author from post where id = ?', [params.id]));
app.get('/posts/{id:int}/replies', c, ({ base, params }) => base.fetchAll('select id, text, author from reply where post = ?', [params.id]));
app.post('/posts/{id:int}/replies', { ...c, body: Text }, ({ base, params, me, body }) => base.execute('insert into reply (post, author, text) values (?, ?, ?)', [params.id, me.sub, body.text]));
app.post('/posts/{id:int}/report', { ...c, body: Text }, ({ base, params, body }) => base.execute('insert into report (post, reason) values (?, ?)', [params.id, body.text]));
app.post('/posts/{id:int}/like', c, ({ base, params }) => base.execute('update post set likes = likes + 1 where id = ?', [params.id]));
app.delete('/posts/{id:int}', { ...c, status: 204 }, async ({ base, params, me }) => { const { affectedRows } = await base.execute('delete from post where id = ? and author = ?', [params.id, me.sub]); if (affectedRows === 0) throw new NotFound(); });
app.put('/people/{id}/follow', c, ({ base, params, me }) => base.execute('insert into follow (follower, followed) values (?, ?) on conflict do nothing', [me.sub, params.id]));
app.get('/people/{id}/followers', c, ({ base, params }) => base.fetchAll('select follower from follow where followed = ?', [params.id]));
app.get('/me/following', c, ({ base, me }) => base.fetchAll('select followed from follow where follower = ?', [me.sub]));
app.patch('/me', { ...c, body: Text }, ({ base, me, body }) => base.execute('update person set name = ? where id = ?', [body.text, me.sub]));
`,
  'right: messages and notifications': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
class Message extends Schema { to = Field(str, { maxLength: 36 }); text = Field(str, { maxLength: 900 }); }
const c = { me: Depends(BearerAuth()), base: Depends(db) };
app.get('/inbox', c, ({ me, base }) => base.fetchAll('select id, sender, text from message where recipient = ? order by id desc limit 50', [me.sub]));
app.get('/sent', c, ({ me, base }) => base.fetchAll('select id, recipient, text from message where sender = ? order by id desc limit 50', [me.sub]));
app.post('/messages', { ...c, body: Message, status: 201 }, async ({ me, base, body }) => {
  await base.transaction(async (tx) => {
    await tx.execute('insert into message (sender, recipient, text) values (?, ?, ?)', [me.sub, body.to, body.text]);
    await tx.execute("insert into notification (account, kind) values (?, 'message')", [body.to]);
  });
  app.rooms.broadcastJson('inbox:' + body.to, { from: me.sub });
  return { sent: true };
});
app.get('/notifications', c, ({ me, base }) => base.fetchAll('select kind from notification where account = ?', [me.sub]));
app.websocket('/inbox/live', c).onOpen((socket, { me }) => socket.join('inbox:' + me.sub));
app.get('/messages/{id}', c, async ({ me, base, params }) => {
  const message = await base.fetchOne('select id, sender, recipient, text from message where id = ?', [params.id]);
  if (message === undefined || (message.sender !== me.sub && message.recipient !== me.sub)) throw new NotFound();
  return { text: message.text };
});
`,
};
