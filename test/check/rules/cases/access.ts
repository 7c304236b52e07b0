/** Applications with and without the mistakes of SVC642 ... SVC646, and what rules of access find through values. */
export const ACCESS: Readonly<Record<string, string>> = {
  'stock that is read, compared and written': `
// FILE app.ts
import { BearerAuth, Conflict, Depends, Field, Schema, Svc, int, provide } from 'svc';
import { db, transaction } from 'svc/db';
import { Shelf } from './shelf.ts';
const app = new Svc();
class Order extends Schema { pieces = Field(int, { ge: 1, le: 9 }); }
const shelf = provide({ base: Depends(db) }, ({ base }) => new Shelf(base));
const safe = provide({ base: Depends(transaction) }, ({ base }) => new Shelf(base));
const me = BearerAuth();
app.post('/a/{id:int}', { me: Depends(me), shelf: Depends(shelf), body: Order }, ({ shelf, params, body }) => shelf.take(params.id, body.pieces));
app.post('/b/{id:int}', { me: Depends(me), shelf: Depends(shelf), body: Order }, ({ shelf, params, body }) => shelf.reduce(params.id, body.pieces));
app.post('/c/{id:int}', { me: Depends(me), shelf: Depends(shelf), body: Order }, ({ shelf, params, body }) => shelf.takeAtOnce(params.id, body.pieces));
app.post('/d/{id:int}', { me: Depends(me), shelf: Depends(shelf), body: Order }, ({ shelf, params, body }) => shelf.takeVersion(params.id, body.pieces));
app.post('/e/{id:int}', { me: Depends(me), shelf: Depends(safe), body: Order }, ({ shelf, params, body }) => shelf.takeInside(params.id, body.pieces));
app.post('/f/{id:int}', { me: Depends(me), db: Depends(db), body: Order }, async ({ db: base, params, body: { pieces } }) =>
  base.transaction(async (tx) => {
    const left = await tx.scalar('select stock from item where id = ?', [params.id]);
    if (left < pieces) throw new Conflict();
    await tx.execute('update item set stock = ? where id = ?', [left - pieces, params.id]);
  }));
app.put('/g/{id:int}', { me: Depends(me), db: Depends(db) }, async ({ db: base, params, query }) => {
  const row = await base.fetchOne('select name from item where id = ?', [params.id]);
  if (row === undefined) throw new Conflict();
  await base.execute('update item set name = ? where id = ?', [query.name ?? row.name, params.id]);
});
// FILE shelf.ts
import { Conflict, int } from 'svc';
import type { Session } from 'svc/db';
export class Shelf {
  #base: Session;
  constructor(base: Session) { this.#base = base; }
  #stock(id: number) { return this.#base.scalar('select stock from item where id = ?', [id], { as: int }); }
  async take(id: number, pieces: number) {
    const left = (await this.#stock(id)) ?? 0;
    if (left < pieces) throw new Conflict('sold out');
    const rest = left - pieces;
    await this.#base.execute('update item set stock = ? where id = ?', [rest, id]); // SVC642
  }
  async reduce(id: number, pieces: number) {
    const row = await this.#base.fetchOne('select stock, name from item where id = ?', [id]);
    if (row === undefined || pieces > row.stock) throw new Conflict('sold out');
    await this.#base.execute('update item set stock = stock - ? where id = ?', [pieces, id]); // SVC642
  }
  async takeAtOnce(id: number, pieces: number) {
    const left = (await this.#stock(id)) ?? 0;
    if (left < pieces) throw new Conflict('sold out');
    const { affectedRows } = await this.#base.execute('update item set stock = stock - ? where id = ? and stock >= ?', [pieces, id, pieces]);
    if (affectedRows === 0) throw new Conflict('sold out');
  }
  async takeVersion(id: number, pieces: number) {
    const row = await this.#base.fetchOne('select stock, version from item where id = ?', [id]);
    if (row === undefined || row.stock < pieces) throw new Conflict('sold out');
    await this.#base.execute('update item set stock = ?, version = version + 1 where id = ? and version = ?', [row.stock - pieces, id, row.version]);
  }
  async takeInside(id: number, pieces: number) {
    const left = (await this.#base.scalar('select stock from item where id = ?', [id], { as: int })) ?? 0;
    if (left < pieces) throw new Conflict('sold out');
    await this.#base.execute('update item set stock = ? where id = ?', [left - pieces, id]);
  }
}
`,
  'a counter and the rows that it counts': `
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.onStartup(({ state }) => state.db.script(\`
  create table lesson (id integer primary key, seats integer not null, title text not null);
  create table booking (id integer primary key, lesson integer not null references lesson, person text not null);
\`));
app.post('/lessons/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ me, db, params }) => {
  await db.execute('update lesson set seats = seats - 1 where id = ? and seats > 0', [params.id]); // SVC643
  await db.execute('insert into booking (lesson, person) values (?, ?)', [params.id, me.sub]);
});
app.put('/lessons/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ me, db, params }) => {
  await db.transaction(async (tx) => {
    await tx.execute('update lesson set seats = seats - 1 where id = ? and seats > 0', [params.id]);
    await tx.execute('insert into booking (lesson, person) values (?, ?)', [params.id, me.sub]);
  });
});
app.patch('/lessons/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ me, db, params }) => {
  await db.execute("update lesson set title = 'full' where id = ?", [params.id]);
  await db.execute('insert into booking (lesson, person) values (?, ?)', [params.id, me.sub]);
});
`,
  'two writes that belong together': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db, transaction } from 'svc/db';
import { TABLES } from './tables.ts';
import { open, openWithKey } from './cases.ts';
const app = new Svc();
app.onStartup(({ state }) => state.db.script(TABLES));
const me = BearerAuth();
app.post('/a', { me: Depends(me), db: Depends(db) }, ({ me, db }) => open(db, me.sub));
app.post('/b', { me: Depends(me), db: Depends(db) }, ({ me, db }) => openWithKey(db, me.sub));
app.post('/c', { me: Depends(me), work: Depends(transaction) }, async ({ me, work }) => {
  const id = await work.scalar('insert into dossier (owner) values (?) returning id', [me.sub]);
  await work.execute('insert into page (dossier, text) values (?, ?)', [id, '']);
});
app.post('/d', { me: Depends(me), db: Depends(db) }, async ({ me, db }) => {
  const id = await db.scalar('insert into dossier (owner) values (?) returning id', [me.sub]); // SVC643
  await db.execute('insert into journal (line) values (?)', [id]);
});
app.post('/e', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.transaction((tx) => open(tx, me.sub)));
// FILE tables.ts
export const TABLES = \`
  create table dossier (id text primary key, owner text not null);
  create table page (id integer primary key, dossier text not null references dossier (id), text text);
  create table journal (id integer primary key, line text)\`;
// FILE cases.ts
import { randomUUID } from 'node:crypto';
import type { Session } from 'svc/db';
export async function open(base: Session, owner: string) {
  const id = await base.scalar('insert into dossier (owner) values (?) returning id', [owner]); // SVC643
  await base.execute('insert into page (dossier, text) values (?, ?)', [id, '']);
  return id;
}
export async function openWithKey(base: Session, owner: string) {
  const id = randomUUID();
  await base.execute('insert into dossier (id, owner) values (?, ?)', [id, owner]); // SVC643
  await base.execute('insert into page (dossier, text) values (?, ?)', [id, '']);
}
`,
  'messages of a service that come twice': `
// FILE app.ts
import { Depends, Svc, Unauthorized } from 'svc';
import { db } from 'svc/db';
import { credit, creditOnce, creditUnlessSeen } from './credit.ts';
import { isGenuine } from './seal.ts';
const app = new Svc();
app.onStartup(({ state }) => state.db.script('create table seen (message text primary key); create table purse (id text primary key, coins integer not null)'));
const checked = async (req) => {
  const bytes = await req.body({ maxBytes: 9_000 });
  if (!isGenuine(bytes, req.headers['x-seal'])) throw new Unauthorized();
  return JSON.parse(Buffer.from(bytes).toString());
};
app.post('/in/a', { db: Depends(db), public: 'sealed' }, async ({ db, req }) => credit(db, await checked(req)));
app.post('/in/b', { db: Depends(db), public: 'sealed' }, async ({ db, req }) => creditOnce(db, await checked(req)));
app.post('/in/c', { db: Depends(db), public: 'sealed' }, async ({ db, req }) => creditUnlessSeen(db, await checked(req)));
app.post('/in/d', { db: Depends(db), public: 'sealed' }, async ({ db, req }) => {
  const { purse } = await checked(req);
  await db.execute('update purse set visits = visits + 1 where id = ?', [purse]);
});
// FILE seal.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function isGenuine(bytes, seal) {
  const wanted = createHmac('sha256', process.env.SEAL_KEY).update(bytes).digest();
  return timingSafeEqual(wanted, Buffer.from(seal, 'hex'));
}
// FILE credit.ts
import { sql } from 'svc/db';
export const credit = (base, { purse, coins }) =>
  base.execute('update purse set coins = coins + ? where id = ?', [coins, purse]); // SVC644
export const creditOnce = (base, { id, purse, coins }) =>
  base.transaction(async (tx) => {
    const { affectedRows } = await tx.execute(sql\`insert into seen (message) values (\${id}) on conflict do nothing\`);
    if (affectedRows > 0) await tx.execute(sql\`update purse set coins = coins + \${coins} where id = \${purse}\`);
  });
export async function creditUnlessSeen(base, { id, purse, coins }) {
  const before = await base.scalar('select 1 from seen where message = ?', [id]);
  if (before !== undefined) return;
  await base.execute('update purse set coins = coins + ? where id = ?', [coins, purse]);
}
`,
  'checks that fail': `
// FILE app.ts
import { BearerAuth, Depends, Forbidden, HTTPException, Svc, Unauthorized, reply, requireIf } from 'svc';
import { Rights, mayRead, mayWrite, mayList } from './rights.ts';
const app = new Svc();
const me = BearerAuth();
const rights = new Rights();
app.get('/a', { me: Depends(me) }, async ({ me }) => {
  if (!(await mayRead(me.sub))) throw new Forbidden();
  return 'a';
});
app.get('/b', { me: Depends(me) }, async ({ me }) => {
  const isAllowed = await rights.allows(me.sub);
  if (isAllowed === false) return reply({ reason: 'no' }, 403);
  return 'b';
});
app.get('/c', { me: Depends(me) }, async ({ me }) => {
  let isAllowed = true; // SVC645
  try {
    isAllowed = await rights.ask(me.sub);
  } catch (error) {
    app.log.error('rights', error);
  }
  if (!isAllowed) throw new Forbidden();
  return 'c';
});
app.get('/d', { me: Depends(requireIf((claims) => rights.ask(claims.sub).catch(() => true))) }, () => 'd'); // SVC645
app.get('/e', { me: Depends(me) }, async ({ me }) => {
  if (!(await mayWrite(me.sub))) throw new Forbidden();
  if (!(await mayList(me.sub))) throw new Unauthorized();
  let isKnown = false;
  try {
    isKnown = await rights.ask(me.sub);
  } catch (cause) {
    throw new HTTPException(503, 'no decision', { cause });
  }
  if (!isKnown) throw new Forbidden();
  return 'e';
});
// FILE rights.ts
export class Rights {
  async ask(sub) {
    const answer = await fetch('https://rights.example/' + encodeURIComponent(sub), { signal: AbortSignal.timeout(900) });
    return answer.ok;
  }
  async allows(sub) {
    try {
      const answer = await this.ask(sub);
      return answer;
    } catch {
      return true; // SVC645
    }
  }
}
const rights = new Rights();
export async function mayRead(sub) {
  return await decided(sub);
}
async function decided(sub) {
  try {
    return await rights.ask(sub);
  } catch (error) {
    return true; // SVC645
  }
}
export async function mayWrite(sub) {
  try {
    return await rights.ask(sub);
  } catch {
    return false;
  }
}
export async function mayList(sub) {
  try {
    return await rights.ask(sub);
  } catch (error) {
    if (error.name === 'AbortError') return true;
    throw error;
  }
}
`,
  'clients that name themselves': `
import { Depends, Field, Schema, Svc, Unauthorized, provide, str } from 'svc';
import { db } from 'svc/db';
import { createHmac, timingSafeEqual } from 'node:crypto';
const app = new Svc();
class Named extends Schema { xUser = Field(str, { maxLength: 40 }); xProof = Field(str, { maxLength: 90 }); }
const security = { scheme: 'apiKey', scopes: [], roles: [], credential: { in: 'header', name: 'X-User' } };
const believed = provide({ headers: Named, security }, ({ headers }) => { // SVC646
  if (headers.xUser === '') throw new Unauthorized();
  return { id: headers.xUser };
});
const proved = provide({ headers: Named, security }, ({ headers: { xUser, xProof } }) => {
  const wanted = createHmac('sha256', process.env.PROOF_KEY).update(xUser).digest();
  if (!timingSafeEqual(wanted, Buffer.from(xProof, 'hex'))) throw new Unauthorized();
  return { id: xUser };
});
const found = provide({ headers: Named, security, db: Depends(db) }, async ({ headers, db }) => {
  const key = await db.fetchOne('select account from api_key where value = ?', [headers.xProof]);
  if (key === undefined) throw new Unauthorized();
  return { id: key.account, key: headers.xProof };
});
app.get('/a', { who: Depends(believed) }, ({ who }) => who.id);
app.get('/b', { who: Depends(proved) }, ({ who }) => who.id);
app.get('/c', { who: Depends(found) }, ({ who }) => who.id);
`,
  'header fields as the owner of rows': `
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.onStartup(({ state }) => state.db.script('create table diary (id integer primary key, writer text, page text); create table done (request text primary key, answer text)'));
app.get('/diary', { db: Depends(db) }, ({ db, req }) => db.fetchAll('select page from diary where writer = ?', [req.headers['x-writer']])); // SVC646
app.post('/diary', { me: Depends(BearerAuth({ optional: true })), db: Depends(db) }, async ({ db, req }) => 1);
app.post('/pages', { db: Depends(db) }, async ({ db, req }) => {
  const earlier = await db.scalar('select answer from done where request = ?', [req.headers['idempotency-key']]);
  if (earlier !== undefined) return earlier;
  await db.execute('insert into done (request, answer) values (?, ?)', [req.headers['idempotency-key'], 'kept']);
  await db.execute('insert into diary (writer, page) values (?, ?)', [req.headers['x-writer'], 'text']);
  return 'kept';
});
`,
  'codes of few digits': `
import { Depends, Field, RateLimitMiddleware, RateLimiter, Schema, Svc, Unauthorized, str } from 'svc';
import { db } from 'svc/db';
import { createHash } from 'node:crypto';
const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 9_000 }));
class Answer extends Schema { mail = Field(str, { maxLength: 90 }); digits = Field(str, { pattern: '^\\\\d{6}$' }); }
class Ticket extends Schema { mail = Field(str, { maxLength: 90 }); digits = Field(str, { pattern: '^[0-9a-f]{40}$' }); }
const tries = new RateLimiter({ name: 'tries', perMinute: 4 });
const hashOf = (mail, digits) => createHash('sha256').update(mail + ':' + digits).digest('hex');
const redeem = async (db, { mail, digits }) => {
  const found = await db.scalar('delete from answer where hash = ? returning person', [hashOf(mail, digits)]);
  if (found === undefined) throw new Unauthorized();
  return { person: found };
};
app.post('/answers', { db: Depends(db), body: Answer, public: 'second step' }, ({ db, body }) => redeem(db, body)); // SVC204
app.post('/slowly', { db: Depends(db), body: Answer, public: 'second step', rateLimit: { perMinute: 5 } }, ({ db, body }) => redeem(db, body));
app.post('/counted', { db: Depends(db), body: Answer, public: 'second step' }, async ({ db, body, req }) => {
  await tries.take(req, body.mail);
  return redeem(db, body);
});
app.post('/tickets', { db: Depends(db), body: Ticket, public: 'long enough' }, ({ db, body }) => redeem(db, body));
app.get('/cached', { query: { zip: Field(str, { pattern: '^\\\\d{5}$' }) } }, ({ query }) => createHash('sha1').update(query.zip).digest('hex'));
`,
  'media types of uploads': `
// FILE app.ts
import { Depends, Field, NotFound, Schema, Svc, BearerAuth, file } from 'svc';
import { db } from 'svc/db';
import { load, safely, show } from './show.ts';
const app = new Svc();
class Sent extends Schema { picture = Field(file, { maxLength: 90_000 }); }
const me = BearerAuth();
app.post('/pictures', { me: Depends(me), db: Depends(db), form: Sent, status: 204 }, async ({ db, form: { picture } }) => {
  await db.execute('insert into picture (media_type, content) values (?, ?)', [picture.contentType, await picture.bytes()]);
});
app.get('/pictures/{id:int}', { me: Depends(me), db: Depends(db) }, async ({ db, params }) => show(await load(db, params.id)));
app.get('/pictures/{id:int}/safe', { me: Depends(me), db: Depends(db) }, async ({ db, params }) => safely(await load(db, params.id)));
// FILE show.ts
import { Field, HttpResponse, NotFound, Schema, bytes, contentDisposition, str } from 'svc';
class Picture extends Schema { mediaType = Field(str); content = Field(bytes); }
export async function load(base, id) {
  const found = await base.fetchOne('select media_type, content from picture where id = ?', [id], { as: Picture, snakeCase: true });
  if (found === undefined) throw new NotFound();
  return found;
}
export const show = ({ mediaType, content }) =>
  new HttpResponse(content, { headers: { 'content-type': mediaType } }); // SVC609
const IMAGES = new Set(['image/png', 'image/jpeg']);
export function safely({ mediaType, content }) {
  if (!IMAGES.has(mediaType)) return new HttpResponse(content, { headers: { 'Content-Type': mediaType, 'Content-Disposition': contentDisposition('picture') } });
  return new HttpResponse(content, { headers: { 'Content-Type': mediaType } });
}
`,
  'links by the class URL': `
import { Depends, Field, Schema, Svc, createToken, str } from 'svc';
import { randomBytes } from 'node:crypto';
const app = new Svc();
class Mail extends Schema { mail = Field(str, { maxLength: 90 }); }
function linkTo(site, key) {
  const link = new URL('/enter', site);
  link.searchParams.set('key', key);
  return String(link);
}
const keyOf = () => randomBytes(16).toString('hex');
app.post('/a', { body: Mail, public: 'a' }, async ({ body, req }) => {
  await post.send(body.mail, linkTo('https://' + req.host, keyOf())); // SVC639
});
app.post('/b', { body: Mail, public: 'b' }, async ({ body, req }) => {
  const link = new URL('/enter', req.url.origin); // SVC639
  link.search = 'key=' + createToken(body.mail, KEY);
  await post.send(body.mail, \`Please open \${link}\`);
});
app.post('/c', { body: Mail, public: 'c' }, async ({ body }) => {
  await post.send(body.mail, linkTo('https://shop.example', keyOf()));
});
`,
  'e-mail addresses of a provider in other classes': `
// FILE app.ts
import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
import { People } from './people.ts';
const app = new Svc();
const plugin = new DatabasePlugin('sqlite:people.db');
const people = new People(plugin);
app.register(plugin).register(new OAuthPlugin({ onUser: (provider, user) => people.find(provider, user) }));
app.register(new OAuthPlugin({ onUser: (provider, user) => people.findVerified(provider, user) }));
// FILE people.ts
import type { DatabasePlugin } from 'svc/db';
export class People {
  #plugin: DatabasePlugin;
  constructor(plugin: DatabasePlugin) { this.#plugin = plugin; }
  async find(provider, { subject, email: address }) {
    const known = await this.#plugin.database.scalar('select person from login where provider = ? and subject = ?', [provider, subject]);
    return known ?? (await this.#plugin.database.scalar('select id from person where lower(mail) = ?', [address.toLowerCase()])); // SVC627
  }
  async findVerified(provider, user) {
    if (!user.emailVerified) return undefined;
    return await this.#plugin.database.scalar('select id from person where mail = ?', [user.email]);
  }
}
`,
  'rows that others may read, count and answer': `
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.onStartup(({ state }) => state.db.script('create table member (id text primary key, name text, bio text); create table post (id integer primary key, author text, topic text, text text, likes integer)'));
class Bio extends Schema { bio = Field(str, { maxLength: 90 }); }
const me = BearerAuth();
app.get('/me', { me: Depends(me), db: Depends(db) }, ({ me, db }) => db.fetchAll('select name, bio from member where id = ?', [me.sub]));
app.patch('/me', { me: Depends(me), db: Depends(db), body: Bio, status: 204 }, async ({ me, db, body }) => {
  await db.execute('update member set bio = ? where id = ?', [body.bio, me.sub]);
});
app.get('/members/{id}', { me: Depends(me), db: Depends(db) }, ({ db, params }) => db.fetchAll('select name from member where id = ?', [params.id]));
app.get('/topics/{topic}', { me: Depends(me), db: Depends(db) }, ({ db, params }) => db.fetchAll('select id, text from post where topic = ?', [params.topic]));
app.get('/posts/{id:int}', { me: Depends(me), db: Depends(db) }, ({ db, params }) => db.fetchAll('select text from post where id = ?', [params.id]));
app.get('/posts/{id:int}/draft', { me: Depends(me), db: Depends(db) }, ({ me, db, params }) => db.fetchAll('select text from post where id = ? and author = ?', [params.id, me.sub]));
app.post('/posts/{id:int}/likes', { me: Depends(me), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await db.execute('update post set likes = likes + 1 where id = ?', [params.id]);
});
app.delete('/posts/{id:int}', { me: Depends(me), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await db.execute('delete from post where id = ?', [params.id]); // SVC640
});
`,
  'an account that chooses its role when it signs up': `
import { Depends, Field, Schema, Svc, literal, requireRoles, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
class SignUp extends Schema { name = Field(str, { maxLength: 60 }); role = Field(literal('reader', 'editor')); }
app.post('/accounts', { db: Depends(db), body: SignUp, public: 'sign up', status: 204 }, async ({ db, body }) => {
  await db.execute('insert into account (name, role) values (?, ?)', [body.name, body.role]);
});
app.post('/applications', { db: Depends(db), body: SignUp, public: 'for a job', status: 204 }, async ({ db, body }) => {
  await db.execute('insert into application (name, job) values (?, ?)', [body.name, body.role]);
});
app.get('/desk', { me: Depends(requireRoles('editor')) }, () => 'desk');
`,
  'checks that find their word in another place': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, Unauthorized, list, provide, str } from 'svc';
import { contentOf, otherOf } from './ticket.ts';
export const app = new Svc();
class Claims extends Schema { scope = Field(str, { maxLength: 900 }); scopes = Field(list(str)); }
const known = BearerAuth(undefined, { schema: Claims });
const writer = provide({ me: Depends(known) }, ({ me }) => {
  if (me.scope.indexOf('write') === -1) throw new Forbidden(); // SVC645
  return me;
});
const reader = provide({ me: Depends(known) }, ({ me }) => {
  if (!me.scope.split(' ').includes('read') && !me.scopes.includes('read')) throw new Forbidden();
  return me;
});
app.use((req, next) => {
  if (req.target.endsWith('/health')) return next(); // SVC645
  if (req.headers['x-office'] === undefined) throw new Unauthorized();
  return next();
});
app.use((req, next) => {
  if (!['/open', '/health'].some((path) => req.target.includes(path))) { // SVC645
    if (req.headers['x-office'] === undefined) throw new Unauthorized();
  }
  return next();
});
app.use((req, next) => {
  if (req.path.endsWith('/health') || req.path.startsWith('/open/')) return next();
  if (req.target.includes('..')) throw new Forbidden();
  if (req.headers['x-office'] === undefined) throw new Unauthorized();
  return next();
});
app.post('/a', { me: Depends(writer), mcp: false }, () => 'a');
app.get('/b', { me: Depends(reader) }, () => 'b');
app.get('/c', { public: 'a ticket opens it', headers: { ticket: Field(str, { maxLength: 900 }) } }, ({ headers }) => [contentOf(headers.ticket), otherOf(headers.ticket)]);
// FILE ticket.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Unauthorized } from 'svc';
const key = process.env['TICKET_KEY'] ?? '';
const parse = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString());
const isSigned = (text: string, signature: string) => timingSafeEqual(createHmac('sha256', key).update(text).digest(), Buffer.from(signature, 'base64url'));
export function contentOf(ticket: string): unknown {
  const [head = '', content = '', signature = ''] = ticket.split('.');
  const { alg } = parse(head);
  if (alg !== 'none' && !isSigned(head + '.' + content, signature)) throw new Unauthorized(); // SVC645
  return parse(content);
}
export function otherOf(ticket: string): unknown {
  const [head = '', content = '', signature = ''] = ticket.split('.');
  if (parse(head).alg === 'HS256') { // SVC645
    if (!isSigned(head + '.' + content, signature)) throw new Unauthorized();
  }
  return parse(content);
}
`,
  'right: checks that find their word in another place': `
// FILE app.ts
import { Field, Svc } from 'svc';
import { contentOf } from './ticket.ts';
export const app = new Svc();
app.get('/c', { public: 'a ticket opens it', headers: { ticket: Field(str, { maxLength: 900 }) } }, ({ headers }) => contentOf(headers.ticket));
// FILE ticket.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Unauthorized } from 'svc';
const key = process.env['TICKET_KEY'] ?? '';
const parse = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString());
const isSigned = (text: string, signature: string, hash = 'sha256') => timingSafeEqual(createHmac(hash, key).update(text).digest(), Buffer.from(signature, 'base64url'));
export function contentOf(ticket: string): unknown {
  const [head = '', content = '', signature = ''] = ticket.split('.');
  const { alg } = parse(head);
  if (alg !== 'HS256' || !isSigned(head + '.' + content, signature)) throw new Unauthorized();
  if (alg === 'HS256') {
    if (!isSigned(head + '.' + content, signature)) throw new Unauthorized();
  } else if (alg === 'HS512') {
    if (!isSigned(head + '.' + content, signature, 'sha512')) throw new Unauthorized();
  } else throw new Unauthorized();
  const read = parse(content);
  if (read.kind === 'guest' || isSigned(read.kind, signature)) return read;
  return content;
}
`,
  'GET routes that note the time, or change a name': `
import { Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.get('/zip/{id}', { db: Depends(db), public: 'albums' }, async ({ params, db }) => {
  await db.execute('update album set zipGeneratedAt = ? where id = ?', [Date.now(), params.id]);
  await db.execute('update album set opened = now() where id = ?', [params.id]);
  return 'zip';
});
app.get('/name/{id}', { db: Depends(db), public: 'albums' }, async ({ params, query, db }) => { // SVC216
  await db.execute('update album set name = ? where id = ?', [query.name, params.id]);
  return 'name';
});
`,
};
