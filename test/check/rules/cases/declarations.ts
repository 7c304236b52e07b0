/** Applications with and without mistakes in settings and guards that show in the sources. */
export const DECLARATIONS: Readonly<Record<string, string>> = {
  'environments, guards and tokens': `
import { BearerAuth, Svc, createToken, requireIf, requireRoles, requireScopes, verifyToken } from 'svc';
export const app = new Svc();
const ofAccounts = [requireRoles({ roles: ['admin'], auth: account }), requireScopes({ scopes: ['notes'], auth: account })];
const some = [requireRoles('admin'), requireScopes('notes:write'), requireIf((claims) => claims.admin)];
const forever = BearerAuth(secret, { requireExp: false }); // SVC215
const long = createToken('me', secret, { expiresInSeconds: 10 * 365 * 86_400 }); // SVC215
const right = [BearerAuth(), createToken('me', secret, { expiresInSeconds: 3_600 }), verifyToken(token, secret)];
`,
  'cookies, policies, proxies, time limits, databases': `
import { RateLimitMiddleware, SessionMiddleware, Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
export const app = new Svc();
app.use(new RateLimitMiddleware({ key: (req) => req.headers['x-client-id'] })); // SVC210
app.use(new RateLimitMiddleware({ key: (req) => req.headers['authorization'] ?? req.ip }));
app.use(new SessionMiddleware({ cookie: { httpOnly: false } })); // SVC207
response.setCookie('session', id, { httpOnly: false }); // SVC207
response.setCookie('token', id, { secure: false }); // SVC207
response.setCookie('theme', 'dark', { httpOnly: false });
app.register(new DatabasePlugin('postgres://db.shop.example/shop?sslmode=disable')); // SVC218
app.register(new DatabasePlugin('postgres://db.shop.example/shop', { statementTimeoutMs: false })); // SVC212
app.register(new DatabasePlugin('postgres://db:5432/shop?sslmode=disable'));
app.register(new DatabasePlugin('postgres://localhost/shop?sslmode=disable', { statementTimeoutMs: 3_000 }));
`,
  'a key of a rate limit with a second limit by address': `
import { APIKeyAuth, RateLimitMiddleware, Svc } from 'svc';
export const app = new Svc();
const LIMITS = { name: 'address', perMinute: 120, rules: [{ path: '/search', perMinute: 20 }] };
app.use(new RateLimitMiddleware(LIMITS));
app.use(new RateLimitMiddleware({ key: (req) => req.headers['x-client-id'] }));
app.get('/a', { public: 'x', rateLimit: { perMinute: 5, key: (req) => req.headers['x-device'] } }, () => 'x');
`,
  'the only limit by address, which the option of a route replaces': `
import { RateLimitMiddleware, Svc } from 'svc';
export const app = new Svc();
app.use(new RateLimitMiddleware());
app.get('/a', { public: 'x', rateLimit: { perMinute: 5, key: (req) => req.headers['x-device'] } }, () => 'x'); // SVC210
`,
  'keys of rate limits that guards check': `
import { APIKeyAuth, Depends, RateLimitMiddleware, Svc } from 'svc';
export const app = new Svc();
const client = APIKeyAuth({ header: 'X-Shop-Key', verify });
app.use(new RateLimitMiddleware({ key: (req) => req.headers['x-shop-key'] }));
app.get('/a', { client: Depends(client), rateLimit: { perMinute: 5, key: (req) => req.headers['x-api-key'] } }, () => 'x');
`,
  'tools and sockets': `
import { createReadStream } from 'node:fs';
import { createHash } from 'node:crypto';
import { MongoClient } from 'mongodb';
import { openDatabase } from 'svc/db';
import { Svc, int, str, Depends, BearerAuth } from 'svc';
const app = new Svc();
const mongo = new MongoClient(url);
const db = await openDatabase('sqlite:notes.db');
app.mountMcp('/mcp');
app.tool('remove', { args: { id: int } }, ({ args }) => db.execute('delete from notes where id = ?', [args.id])); // SVC201
app.tool('count', { args: { text: str } }, ({ args }) => args.text.length);
app.tool('create_digest', { args: { text: str } }, ({ args }) => createHash('sha256').update(args.text).digest('hex'));
app.tool('read', { args: { id: int } }, ({ args }) => createReadStream(files.get(args.id)));
app.tool('page', { args: { text: str } }, ({ args }) => { const page = React.createElement('p'); page.updateText(args.text); return page; });
app.tool('once', { args: { id: int } }, ({ args }) => { const ids = new Set([1, 2]); ids.delete(args.id); return [...ids]; });
app.tool('load', { args: { id: int } }, async ({ args }) => { cache.set(args.id, await fetchNote(args.id)); });
app.tool('store', { args: { text: str } }, ({ args }) => { const notes = mongo.db('shop').collection('notes'); return notes.insertOne(args); }); // SVC201
app.tool('forget', { args: { id: int } }, ({ args }) => lines.delete(args.id)); // SVC201
const lines = new Map();
const cache = new Map();
app.tool('mine', { me: Depends(BearerAuth()), args: { id: int } }, ({ args }) => db.execute('delete from notes where id = ?', [args.id]));
app.websocket('/edit').onMessage(async (socket, message) => { await db.execute('update notes set text = ?', [message.text]); }); // SVC201
app.websocket('/mine', { me: Depends(user) }).onMessage(async (socket, message) => { await db.execute('update notes set text = ?', [message.text]); });
app.websocket('/chat').onMessage((socket, message) => socket.broadcast(message));
`,
  routes: `
import { db as database } from 'svc/db';
import { RateLimitMiddleware, ValidationError, JSONResponse, Depends, Svc } from 'svc';
const app = new Svc();
app.get('/logout', {}, ({ req }) => { req.session.destroy(); }); // SVC216
app.get('/notes/{id:int}/delete', { db: Depends(database) }, async ({ db, params }) => { await db.execute('delete from notes where id = ?', [params.id]); }); // SVC216
app.get('/notes', { db: Depends(database) }, ({ db }) => db.fetchAll('select * from notes where is_deleted = 0'));
app.post('/logout', {}, ({ req }) => { req.session.destroy(); });
app.post('/login', {}, async ({ req, form }) => { req.session.set('user', form.name); }); // SVC217
app.post('/session', {}, async ({ req, form }) => { req.session.regenerate(); req.session.set('user', form.name); });
app.exceptionHandler(ValidationError, (error) => new JSONResponse({ errors: error.issues }, { status: 422 })); // SVC305
app.exceptionHandler(ValidationError, (error) => new JSONResponse({ errors: error.issues }, { status: 400 })); // SVC305
`,
  'GET routes that change data': `
import { db as database } from 'svc/db';
import { Svc, Depends } from 'svc';
export const app = new Svc();
app.get('/orders/{id:int}/cancel', { db: Depends(database) }, async ({ db, params }) => { await db.execute("update orders set state = 'cancelled' where id = ?", [params.id]); }); // SVC216
app.get('/orders/{id:int}', { db: Depends(database) }, async ({ db, params }) => { await db.execute('update orders set last_seen = ? where id = ?', [now, params.id]); });
app.get('/verify/{code}', { db: Depends(database) }, async ({ db, params }) => { await db.execute('update users set is_verified = 1 where code = ?', [params.code]); });
app.route('/logout', ['GET', 'POST'], {}, ({ req }) => { req.session.destroy(); }); // SVC216
app.route('/leave', ['GET', 'POST'], {}, ({ req }) => { if (req.method === 'POST') req.session.destroy(); });
app.route('/end', ['POST'], {}, ({ req }) => { req.session.destroy(); });
class Pages {
  constructor() {
    app.get('/sign-off', {}, ({ req }) => this.leave(req)); // SVC216
    app.get('/account', {}, ({ req }) => this.showAccount(req));
  }
  leave(req) { req.session.destroy(); }
  showAccount(req) { return req.session.get('user'); }
}
class Notes {
  constructor(db) { this.db = db; }
  drop(id) { return this.db.execute('delete from note where id = ?', [id]); }
  purgeExpired() { return this.db.execute('delete from note where expires_at < now()'); }
}
app.get('/notes/{id:int}/drop', { db: Depends(database) }, async ({ db, params }) => { await new Notes(db).drop(params.id); }); // SVC216
app.get('/notes', { db: Depends(database) }, async ({ db }) => { await new Notes(db).purgeExpired(); return 'x'; });
`,
  'logins in helpers and classes': `
import { Svc, checkPassword } from 'svc';
export const app = new Svc();
function remember(req, id) { req.session.set('user', id); } // SVC217
function renew(req, id) { req.session.regenerate(); remember(req, id); }
app.post('/login', {}, ({ req, form }) => { remember(req, form.name); });
app.post('/sign-in', {}, ({ req, form }) => { renew(req, form.name); });
class Accounts {
  constructor() {
    app.post('/enter', {}, (context) => this.enter(context)); // SVC204
    app.post('/filter', {}, (context) => this.filter(context));
  }
  async enter({ req, form }) { if (await checkPassword(form.password, hash)) req.session.set('user', form.name); } // SVC217
  async filter({ req, form }) { req.session.set('filter', form.text); }
}
`,
  'options and secrets in constants, fields and maps': `
// FILE app.ts
import { APIKeyAuth, RateLimitMiddleware, SessionMiddleware, Svc, createToken } from 'svc';
import { COOKIE, YEAR, clients } from './constants.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 60 })); // SVC403
app.use(new SessionMiddleware({ secrets: [process.env['TEST_CASES_SHARED'] ?? ''], cookie: COOKIE }));
class Tokens {
  readonly #secret = process.env['TEST_CASES_SHARED'] ?? '';
  readonly #own = process.env['TEST_CASES_OWN'] ?? '';
  issue(user: string) { return createToken(user, this.#secret, { expiresInSeconds: 10 * YEAR }); } // SVC205 SVC215
  short(user: string) { return createToken(user, this.#own, { expiresInSeconds: YEAR / 12 }); }
  long(user: string) { return createToken(user, this.#own, { expiresInSeconds: 1 * YEAR }); }
}
const partners = APIKeyAuth({ verify: (key) => clients.get(key) });
const others = APIKeyAuth({ verify: (key) => known.get(key) });
const known = new Map(Object.entries(process.env));
const options = { workers: 4 };
if (import.meta.main) await app.run(options);
// FILE constants.ts
export const YEAR = 365 * 24 * 60 * 60;
export const COOKIE = { path: '/', httpOnly: false } as const; // SVC207
export const clients = new Map([
  ['pk_live_8f2c91d0ab4471', 'billing'], // SVC205
]);
`,
  'variables of the environment': `
// FILE app.ts
export const port = process.env['TEST_CASES_SMPT_PORT'] ?? ''; // SVC401
export const address: string = \`\${process.env.TEST_CASES_HOST}/x\`; // SVC401
export const name: string = process.env['TEST_CASES_NAME'] ?? 'shop';
const read = (name: string): string => process.env[name] ?? '';
export const ports = [
  read('TEST_CASES_SMPT_PORT'), // SVC401
  read('TEST_CASES_SMTP_PORT'),
  read('TEST_CASES_OTHER'),
];
// FILE .env.example
TEST_CASES_SMTP_PORT=25
`,
};
