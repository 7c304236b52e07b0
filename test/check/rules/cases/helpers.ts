/** Mistakes that show only where a helper, a class, an option or another file is followed, and right code that looks alike. */
export const HELPERS: Readonly<Record<string, string>> = {
  'SQL in helpers that take an object': `
// FILE app.js
import { db as database } from 'svc/db';
import { Svc, Depends } from 'svc';
import { search } from './search.js';
export const app = new Svc();
app.get('/search', { db: Depends(database) }, async ({ db, req }) => search({ db, text: req.query.get('q') ?? '', limit: 20 }));
app.get('/recent', { db: Depends(database) }, async ({ db }) => search({ db, text: 'new', limit: 20 }));
// FILE search.js
export async function search({ db, text, limit }) {
  const where = \`title like '%\${text}%'\`;
  return db.fetchAll(\`select id from notes where \${where} limit \${limit}\`); // SVC601
}
`,
  'SQL in a module that keeps the database': `
// FILE app.ts
import { Svc } from 'svc';
import * as users from './users.ts';
export const app = new Svc();
users.connect(app);
app.get('/users', {}, async ({ query }) => await users.findByName(query.name));
// FILE users.ts
let application: { state: { db: { fetchAll(text: string): Promise<unknown[]> } } };
export function connect(app: typeof application): void { application = app; }
export function findByName(name: string) {
  return application.state.db.fetchAll("select id from users where name = '" + name + "'"); // SVC601
}
`,
  'tests that say nothing of the rest of a value': `
import { Svc, RedirectResponse, HttpResponse } from 'svc';
const app = new Svc();
const HOSTS = new Set(['a.example']);
app.get('/a', {}, async ({ query, req }) => {
  const url = new URL(query.url);
  if (url.protocol !== 'https:') return 'no';
  return await fetch(url, { signal: req.signal }); // SVC607
});
app.get('/b', {}, ({ query }) => {
  if (!query.next.startsWith('/')) return 'no';
  return new RedirectResponse(query.next); // SVC605
});
app.get('/c', {}, async ({ query, req }) => {
  const url = new URL(query.url);
  if (url.protocol !== 'https:' || !HOSTS.has(url.host)) return 'no';
  return await fetch(url, { signal: req.signal, redirect: 'error' });
});
app.get('/d', {}, ({ query }) => {
  const isLocal = query.next.startsWith('/') && !query.next.startsWith('//');
  if (!isLocal) return 'no';
  return new RedirectResponse(query.next);
});
app.get('/e', {}, ({ query }) => query.next.startsWith('/') && !query.next.startsWith('//') ? new RedirectResponse(query.next) : 'no');
app.post('/f', { body: Note }, ({ body }) => new HttpResponse(null, { status: 201, headers: { location: body.name } }));
`,
  'pages with data in scripts, and single characters': `
import { Svc, HTMLResponse } from 'svc';
const app = new Svc();
app.get('/a', {}, ({ query }) => {
  const data = JSON.stringify({ q: query.q });
  return new HTMLResponse(\`<script>window.data = \${data}</script>\`); // SVC608
});
app.get('/b', {}, ({ query }) => new HTMLResponse(\`<p>\${query.name.charAt(0)}\${query.name.slice(0, 1)}</p>\`));
`,
  'variables of a module that setters write': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { greet, setLocale } from './locale.ts';
export const app = new Svc();
app.get('/', {}, ({ req }) => { setLocale(req.headers['accept-language']); return greet(); });
let lastForm: unknown;
app.post('/forms', { public: 'a form' }, async ({ req }) => { lastForm = await req.json(); return 'taken'; }); // SVC631
let motto = '';
app.put('/motto', { me: Depends(user), body: Motto }, ({ body }) => { motto = body.text; return motto; });
app.get('/motto', {}, () => motto);
// FILE locale.ts
let locale: string | undefined = 'en';
export function setLocale(value: string | undefined): void { locale = value; } // SVC631
export function greet(): string { return locale === 'de' ? 'Hallo' : 'Hello'; }
`,
  'asynchronous functions of the project': `
// FILE app.ts
import { db as database } from 'svc/db';
import { Svc, Depends, Forbidden } from 'svc';
import { audit, findUser, log } from './people.ts';
import { Notes } from './notes.ts';
import { OAuthPlugin } from 'svc/oauth';
const notes = new Notes();
const oauth = new OAuthPlugin(options);
export const app = new Svc();
app.delete('/a/{id:int}', {}, async ({ params, me }) => {
  await notes.pin(params.id);
  audit(me.sub); // SVC611
  log(me.sub);
  void audit(me.sub); // SVC611
  audit(me.sub).catch(() => undefined);
});
app.put('/a/{id:int}', {}, async ({ params, me }) => {
  if (!notes.mayEdit(me.sub, params.id)) throw new Forbidden(); // SVC611
  const user = findUser(me.sub); // SVC611
  if (!user) throw new Forbidden();
  const [one, two] = [findUser('a'), findUser('b')];
  return await Promise.all([one, two]);
});
app.delete('/logins', {}, ({ me }) => { oauth.revokeAll(me.sub); }); // SVC611
app.post('/json', { body: Note }, ({ req }) => { const data = req.json(); return data.name; }); // SVC611
app.post('/users', { db: Depends(database) }, async ({ db, form }) => {
  await db.execute('insert into users (hash) values (?)', [hashPassword(form.password)]); // SVC611
});
import { hashPassword } from 'svc';
// FILE people.ts
export async function audit(who: string): Promise<void> { await fetch('https://audit.example/' + encodeURIComponent(who), { signal: AbortSignal.timeout(1) }); }
export async function log(who: string): Promise<void> { try { await audit(who); } catch { return; } }
export const findUser = async (name: string) => new Map([['a', { name }]]).get(name);
// FILE notes.ts
export class Notes {
  readonly #owners = new Map<number, string>();
  async mayEdit(who: string, id: number): Promise<boolean> { return this.#owners.get(id) === who; }
  async pin(id: number): Promise<void> { await Promise.resolve(id); }
}
`,
  'asynchronous functions that catch what fails': `
import { Svc } from 'svc';
const app = new Svc();
let active = 0;
const run = async () => {
  active++;
  try { await load(); } catch (error) { app.log.error('failed', { error }); } finally { active--; }
};
app.post('/run', {}, () => { run(); return {}; });
`,
  'a database handed on inside of its transaction': `
import { db as database } from 'svc/db';
import { Depends, Svc } from 'svc';
const app = new Svc();
async function book(db, who) { await db.execute('insert into journal (who) values (?)', [who]); }
app.post('/a', { db: Depends(database) }, async ({ db, me }) => {
  await db.transaction(async (tx) => { await book(db, me.sub); }); // SVC614
  await db.transaction(async (tx) => { await book(tx, me.sub); });
});
`,
  'secrets that serve two purposes, and those in objects': `
// FILE app.ts
import { APIKeyAuth, BearerAuth, SessionMiddleware, Svc } from 'svc';
import { keys, partners } from './keys.ts';
export const app = new Svc({ ops: { metrics: { auth: 'prometheus-2024-token' } } }); // SVC205
app.use(new SessionMiddleware({ secrets: keys.session }));
const me = BearerAuth(process.env['APP_SECRET'] ?? ''); // SVC205
const partner = APIKeyAuth({ keys: partners });
const env = (name, fallback) => process.env[name] ?? fallback;
const mail = env('MAIL_TOKEN', 'insecure-token-for-everyone'); // SVC205
const { HOOK_SECRET = 'a-secret-for-development' } = process.env; // SVC205
const { HOOK_NAME = 'hook' } = process.env;
// FILE keys.ts
export const keys = { session: process.env['APP_SECRET'] ?? '' };
export const partners = { acme: 'k_live_51Hx9sQ2vLrT8dPz0aWm' }; // SVC205
`,
  'rows with the hash of a password': `
import { db as database } from 'svc/db';
import { Svc, Depends } from 'svc';
const app = new Svc();
app.get('/a', { db: Depends(database) }, async ({ db }) => await db.fetchAll('select id, name, password_hash from users')); // SVC626
app.get('/b', { db: Depends(database) }, async ({ db, params }) => {
  const user = await db.fetchOne('select * from users where id = ?', [params.id]); // SVC626
  return user;
});
app.get('/c', { db: Depends(database), response: User }, async ({ db }) => await db.fetchAll('select * from users'));
app.get('/d', { db: Depends(database) }, async ({ db }) => await db.fetchAll('select * from notes'));
app.get('/e', { db: Depends(database) }, async ({ db }) => await db.fetchAll('select id, content_hash from files'));
app.post('/f', { db: Depends(database) }, async ({ db, form }) => { await db.execute('insert into users (name, password_hash) values (?, ?)', [form.name, hash]); });
`,
  'rows that may be absent': `
import { db as database } from 'svc/db';
import { Depends, Svc, NotFound } from 'svc';
const app = new Svc();
app.get('/a/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const user = await db.fetchOne('select id, name from users where id = ?', [params.id]);
  return { name: user.name }; // SVC615
});
app.get('/b/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const { name } = await db.fetchOne('select name from users where id = ?', [params.id]); // SVC615
  return { name };
});
app.get('/c/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const user = await db.fetchOne('select id, name from users where id = ?', [params.id]);
  if (user === undefined) throw new NotFound();
  return { name: user.name };
});
app.get('/d/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const user = await db.fetchOne('select id, name from users where id = ?', [params.id]);
  return { name: user?.name ?? '' };
});
app.get('/e', { db: Depends(database), response: User }, async ({ db }) => {
  const row = await db.fetchOne('select count(*) as n from users');
  return { name: String(row.n) };
});
`,
  'rows that may be absent, copied or found by functions': `
// FILE app.ts
import { db as database } from 'svc/db';
import type { Database } from 'svc/db';
import { Depends, Svc, NotFound } from 'svc';
import { accountOf, findUser, nameOf } from './users.ts';
const app = new Svc();
app.get('/a/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => accountOf(db, params.id));
app.get('/b/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const user = (await findUser(db, params.id)) as User;
  return { name: user.name }; // SVC615
});
app.get('/c/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const { name } = (await findUser(db, params.id)) as User; // SVC615
  return { name };
});
app.get('/d/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => ({ name: await nameOf(db, params.id) }));
// FILE users.ts
import type { Database } from 'svc/db';
export const findUser = (db: Database, id: number) => db.fetchOne('select id, name from users where id = ?', [id]);
export async function accountOf(db: Database, id: number) {
  const user = (await db.fetchOne('select id, name from users where id = ?', [id])) as User;
  return { ...user, link: linkOf(user.id) }; // SVC615
}
export async function nameOf(db: Database, id: number) {
  const user = await findUser(db, id);
  return user!.name; // SVC615
}
const linkOf = (id: number): string => \`/users/\${id}\`;
`,
  'right: rows that may be absent, copied or found by functions': `
// FILE app.ts
import { db as database } from 'svc/db';
import { Depends, Svc, NotFound } from 'svc';
import { accountOf, copyOf, findUser, needUser } from './users.ts';
const app = new Svc();
app.get('/a/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => accountOf(db, params.id));
app.get('/b/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const user = await findUser(db, params.id);
  if (!user) throw new NotFound();
  return { name: user.name };
});
app.get('/c/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const { name } = await needUser(db, params.id);
  return { name };
});
app.get('/d/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => copyOf(db, params.id));
app.get('/e/{id:int}', { db: Depends(database), response: User }, async ({ db, params }) => {
  const user = await findUser(db, params.id);
  return { name: user?.name ?? '' };
});
// FILE users.ts
import { NotFound } from 'svc';
import type { Database } from 'svc/db';
export const findUser = (db: Database, id: number) => db.fetchOne('select id, name from users where id = ?', [id]);
export async function needUser(db: Database, id: number) {
  return (await db.fetchOne('select id, name from users where id = ?', [id])) ?? notFound();
}
export async function accountOf(db: Database, id: number) {
  const user = await findUser(db, id);
  if (user === undefined) throw new NotFound();
  return { ...user, link: \`/users/\${user.id}\` };
}
export async function copyOf(db: Database, id: number) {
  const user = await findUser(db, id);
  return { name: '', ...user };
}
function notFound(): never { throw new NotFound(); }
`,
  'chance, hashes and comparisons in helpers': `
import { createHash, randomBytes } from 'node:crypto';
import { Svc } from 'svc';
const app = new Svc();
const LETTERS = 'abcdef';
function newInviteCode() {
  let code = '';
  for (let i = 0; i < 8; i++) code += LETTERS[Math.floor(Math.random() * 6)]; // SVC622
  return code;
}
function randomPassword() { return randomBytes(20 + Math.floor(Math.random() * 9)).toString('hex'); }
app.post('/invite', {}, () => ({ token: newInviteCode(), colour: newColour() }));
function newColour() { return LETTERS[Math.floor(Math.random() * 6)]; }
const digest = (text) => createHash('sha256').update('pepper' + text).digest('hex'); // SVC623
const store = (name, password) => accounts.set(name, digest(password));
app.post('/accounts', {}, ({ form }) => { store(form.name, form.password); });
export const etag = (text) => digest(text);
export function renew(user, accessToken) {
  if (user.accessToken !== accessToken) { user.accessToken = accessToken; }
}
`,
  'merges, cookies as headers, limits of routes': `
import { HttpResponse, Svc, Depends } from 'svc';
const app = new Svc();
const users = new Map();
app.patch('/a', { me: Depends(user) }, async ({ me, req }) => {
  const changes = await req.json();
  users.set(me.sub, { ...users.get(me.sub), ...changes }); // SVC633
  users.set(me.sub, { ...users.get(me.sub), name: changes.name });
});
app.get('/b', {}, () => new HttpResponse('', { headers: { 'Set-Cookie': 'session=1; Path=/' } })); // SVC207
app.get('/c', {}, () => new HttpResponse('', { headers: { 'Set-Cookie': 'session=1; Path=/; HttpOnly; Secure' } }));
app.get('/d', {}, () => new HttpResponse('', { headers: { 'Set-Cookie': 'session=; Path=/; Max-Age=0' } }));
app.get('/e', { rateLimit: { perMinute: 5, key: (req) => req.headers['x-device'] } }, () => 'x'); // SVC210
app.get('/f', { rateLimit: { perMinute: 5, key: (req) => req.ip } }, () => 'x');
`,
  'guards and tools by name': `
// FILE app.ts
import { BearerAuth, Svc } from 'svc';
import { addTools } from './tools.ts';
export const app = new Svc();
app.mountMcp('/mcp');
addTools(app);
const options = { requireExp: false }; // SVC215
const tokens = BearerAuth(undefined, options);
async function save(socket: unknown, message: { text: string }) { await app.state.db.execute('insert into lines (text) values (?)', [message.text]); }
app.websocket('/lines').onMessage(save); // SVC201
// FILE tools.ts
import { int } from 'svc';
const stock = new Map<number, number>();
export function addTools(app: { tool(...args: unknown[]): void }): void {
  app.tool('set_stock', { args: { id: int } }, ({ args }: Context) => { stock.set(args.id, args.count); }); // SVC201
  app.tool('get_stock', { args: { id: int } }, ({ args }: Context) => stock.get(args.id));
}
`,
  'routes that change data in helpers': `
// FILE app.ts
import { db as database } from 'svc/db';
import { Svc, Depends, Unauthorized } from 'svc';
import { countVisit, removeNote, signOut } from './notes.ts';
export const app = new Svc();
app.get('/notes/{id:int}/delete', { db: Depends(database) }, async ({ db, params }) => { await removeNote(db, params.id); }); // SVC216
app.get('/sign-out', {}, ({ req }) => { signOut(req); }); // SVC216
app.get('/notes', { db: Depends(database) }, async ({ db }) => { await countVisit(db); return 'x'; });
app.post('/enter', { public: 'log in' }, async ({ req, form, users }) => { // SVC204
  if (!(await checkPassword(form.password, users.get(form.name)))) throw new Unauthorized();
  const { session } = req;
  session.set('user', form.name); // SVC217
});
import { checkPassword } from 'svc';
// FILE notes.ts
export async function removeNote(db: Database, id: number) { await db.execute('delete from notes where id = ?', [id]); }
export function signOut(req: HttpRequest): void { req.session.destroy(); }
export async function countVisit(db: Database) { await db.execute('delete from visits where age > 7'); }
`,
  'handlers of exceptions that the document does not know': `
// FILE app.ts
import { Field, HTMLResponse, HTTPException, HttpResponse, JSONResponse, NotFound, RedirectResponse, Schema, ValidationError, Svc, reply, str } from 'svc';
import { SvcRefused } from 'svc-errors';
import { GONE, asJson, bodyOf } from './replies.ts';
const app = new Svc();
class Own extends Error {}
class Refusal extends Schema { error = Field(str); }
function onInvalid(error) { return new JSONResponse({ errors: error.issues }, { status: 422 }); }
app.exceptionHandler(ValidationError, onInvalid); // SVC305
app.exceptionHandler(HTTPException, (error) => new JSONResponse({ ok: false }, { status: error.status })); // SVC305
app.exceptionHandler(HTTPException, (error) => reply({ ok: false }, error.status)); // SVC305
app.exceptionHandler(RangeError, (error) => new JSONResponse({ ok: false }, { status: 409 })); // SVC305
app.exceptionHandler(Own, (error) => reply({ error: error.message }, error.status)); // SVC305
app.exceptionHandler(Own, async (error) => [{ error: error.message }, 409]); // SVC305
app.exceptionHandler(Own, () => ({ error: 'own' })); // SVC305
app.exceptionHandler(Own, (error) => { if (error.cause) throw error; const body = { error: 'own' }; return reply(body, 409); }); // SVC305
app.exceptionHandler(NotFound, (_error, req) => req.path.startsWith('/api/') ? { error: 'none' } : new HTMLResponse('none', { status: 404 })); // SVC305
app.exceptionHandler(Own, () => GONE); // SVC305
app.exceptionHandler(Own, (error) => asJson(error)); // SVC305
app.exceptionHandler(Own, async (error) => [await bodyOf(error), 409]); // SVC305
app.exceptionHandler(Own, () => Response.json({ error: 'own' }, { status: 409 })); // SVC305
app.exceptionHandler(Own, () => new HttpResponse(JSON.stringify({ error: 'own' }), { status: 409, headers: { 'Content-Type': 'application/json' } })); // SVC305
app.exceptionHandler(Own, () => new JSONResponse({ error: 'own' }, { status: 409 }).setCookie('a', 'b')); // SVC305
app.exceptionHandler(SvcRefused, (error) => { if (error.cause) throw error; return { ok: false }; }); // SVC305
app.exceptionHandler(HTTPException, (error) => { count++; throw error; }); // SVC305
emitter.exceptionHandler('failed', (error) => { throw error; });
app.exceptionHandler(HTTPException, (error, req) => { if (req.path === '/a') return { ok: false }; throw error; });
app.exceptionHandler(HTTPException, (error) => new JSONResponse({ title: error.message }, { status: error.status, headers: { 'Content-Type': 'application/problem+json' } }));
app.exceptionHandler(Own, { response: Refusal }, (error) => reply({ error: error.message }, error.status));
app.exceptionHandler(ValidationError, { response: { 422: Refusal } }, () => [{ error: 'invalid' }, 422]);
app.exceptionHandler(Own, () => new RedirectResponse('/login', { status: 303 }));
app.exceptionHandler(Own, () => ['nothing here', 404]);
app.exceptionHandler(Own, (error) => reply(error.message, 409));
app.exceptionHandler(Own, () => new HttpResponse('none', { status: 404 }));
app.exceptionHandler(Own, (error, req) => { req.log.info('own', { error }); [1].map(() => ({ a: 1 })); return 'own'; });
// FILE replies.ts
import { reply } from 'svc';
export const GONE = [{ error: 'gone' }, 410];
export function asJson(error) { return reply({ error: error.message }, 409); }
export async function bodyOf(error) { return { error: error.message }; }
`,
  'memory of one process beside several workers': `
// FILE app.ts
import { EventBroadcast, MemoryRecordStore, MemoryRoomBus, RateLimitMiddleware, SessionMiddleware, Svc } from 'svc';
import { News } from './news.ts';
const roomBus = new MemoryRoomBus(); // SVC403
export const app = new Svc({ roomBus });
app.use(new RateLimitMiddleware({ perMinute: 60 })); // SVC403
app.use(new RateLimitMiddleware({ perMinute: 60, store }));
app.use(new SessionMiddleware({ store: new MemoryRecordStore() })); // SVC403
const news = new News();
app.get('/news', () => news.listen());
app.post('/news', { public: 'a' }, ({ body }) => { news.tell(body.text); });
const workers = 4;
if (import.meta.main) await app.run({ workers });
// FILE news.ts
import { EventBroadcast } from 'svc';
export class News {
  readonly #events = new EventBroadcast({ retryMs: 2_000 }); // SVC403
  listen() { return this.#events.stream(); }
  tell(text) { this.#events.send({ data: text }); }
}
`,
  'right: events that each of several workers sends by itself': `
import { EventBroadcast, Svc } from 'svc';
import { RedisPlugin, RedisRoomBus } from 'svc/db';
const redis = new RedisPlugin(process.env.TEST_CASES_REDIS ?? 'rediss://127.0.0.1:6379/0');
export const app = new Svc({ roomBus: new RedisRoomBus(redis.client) });
app.register(redis);
const news = new EventBroadcast();
app.onStartup(async () => { await redis.client.subscribe('news', (text) => { news.send(text); }); });
app.get('/news', () => news.stream());
app.post('/news', { public: 'a' }, async ({ body }) => { await redis.client.publish('news', body.text); });
if (import.meta.main) await app.run({ workers: 'auto' });
`,
  'events of several objects beside several workers': `
import { BackgroundTasks, Depends, EventBroadcast, Svc, provide } from 'svc';
import { RedisPlugin } from 'svc/db';
const redis = new RedisPlugin(process.env.TEST_CASES_REDIS ?? 'rediss://127.0.0.1:6379/0');
export const app = new Svc();
app.register(redis);
class Channel {
  readonly #events = new EventBroadcast(); // SVC403
  tell(text) { this.#events.send({ data: text }); }
}
const fed = new EventBroadcast();
const local = new EventBroadcast(); // SVC403
const timed = new EventBroadcast();
const visits = new EventBroadcast(); // SVC403
const provided = new EventBroadcast(); // SVC403
const seen = new EventBroadcast(); // SVC403
const silent = new EventBroadcast(); // SVC403
const channel = new Channel();
const channels = provide({}, () => provided);
app.onStartup(async () => { await redis.client.subscribe('news', (text) => { fed.send(text); publish(fed, text); }); });
function publish(to, text) { to.send({ data: text }); }
setInterval(() => { timed.send({ data: 'tick' }); }, 60_000).unref();
app.use((req, next) => { visits.send({ data: req.path }); return next(); });
app.get('/fed', () => fed.stream());
app.get('/local', () => local.stream());
app.get('/timed', () => timed.stream());
app.get('/visits', () => visits.stream());
app.get('/silent', () => silent.stream());
app.post('/local', { public: 'a' }, ({ body }) => { publish(local, body.text); });
class Visits { handle(req, next) { seen.send({ data: req.path }); return next(); } }
app.use(new Visits());
app.get('/seen', () => seen.stream());
app.post('/channel', { public: 'a' }, ({ body }) => { channel.tell(body.text); });
app.post('/provided', { public: 'a', channel: Depends(channels) }, ({ body, channel }) => { channel.send(body.text); });
if (import.meta.main) await app.run({ workers: 'auto' });
`,
  'blocking calls that run once': `
import { Svc } from 'svc';
import { readFileSync, existsSync } from 'node:fs';
const app = new Svc();
const cache = new Map();
class Pages {
  show(name) { return this.#load(name); }
  #load(name) { return readFileSync(name, 'utf8'); } // SVC501
  cached(name) { return cache.get(name) ?? readFileSync(name, 'utf8'); }
}
let page;
function basePage() {
  if (page) {
    return page;
  }
  page = readFileSync('page.html', 'utf8');
  return page;
}
app.get('/base', {}, () => basePage());
const pages = new Pages();
app.get('/a', {}, () => pages.show('a'));
app.get('/b', {}, () => pages.cached('b'));
`,
  'types and elements of files .tsx': `
// FILE app.tsx
import { Svc, RedirectResponse } from 'svc';
import { renderToString } from 'react-dom/server';
import { Page } from './page.jsx';
const app = new Svc();
const identity = <T,>(value: T): T => value;
export const List = ({ title, items = [] }: { title: string; items?: string[] }) => (
  <section className="list" {...{ id: identity('x') }}>
    <h1>{title.length < 10 ? title : <b>it's {title}</b>}</h1>
    <ul>{items.map((item) => <li key={item}>{item > 'a' && <></>}</li>)}</ul><br/>
  </section>
);
app.get('/x', {}, ({ query }: Context) => renderToString(<Page><List title={query.q} /></Page>));
app.get('/y', {}, ({ query }: Context) => new RedirectResponse(query.next)); // SVC605
// FILE page.jsx
import { Svc } from 'svc';
const app = new Svc();
export function Page({ children }) { return <html lang="en"><body>{children}</body></html>; }
app.get('/z', {}, ({ query }) => eval(query.q)); // SVC603
`,
  'tokens that others verify': `
import jwt from 'jsonwebtoken';
function payloadOf(token) { return jwt.decode(token); }
export function userOf(token) {
  const payload = payloadOf(token);
  jwt.verify(token, secretOf(payload.id));
  return payload.id;
}
export async function infoOf(response) { const text = await response.text(); return jwt.decode(text); }
`,
};
