/** Applications with signatures, links, logins and cookies that a client gets around (SVC204, SVC207, SVC215, SVC622, SVC624, SVC644, SVC645, SVC648), half of them with a mistake at a marked line. */
export const SIGNATURES: Readonly<Record<string, string>> = {
  'invite link is the base64 of its content': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { code } from './code.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class Invite extends Schema { email = Field(str, { email: true, maxLength: 200 }); }
app.post('/invites', { me: Depends(BearerAuth()), base: Depends(db), body: Invite }, async ({ me, base, body }) => {
  const secret = code(body.email);
  await base.execute('insert into invite (owner, email, secret) values (?, ?, ?)', [me.sub, body.email, secret]);
  return { link: 'https://app.example/join/' + secret };
});
app.get('/join/{secret}', { base: Depends(db) }, async ({ base, params }) => {
  const row = await base.fetchOne('select owner from invite where secret = ?', [params.secret]);
  if (row === undefined) throw new NotFound();
  return { owner: row.owner };
});
// FILE code.ts
import { randomBytes } from 'node:crypto';
export const code = (email: string): string => {
  return Buffer.from(email + '|' + new Date().toISOString()).toString('base64url'); // SVC622
};
`,
  'right: invite link is the base64 of its content': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { code } from './code.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
class Invite extends Schema { email = Field(str, { email: true, maxLength: 200 }); }
app.post('/invites', { me: Depends(BearerAuth()), base: Depends(db), body: Invite }, async ({ me, base, body }) => {
  const secret = code(body.email);
  await base.execute('insert into invite (owner, email, secret) values (?, ?, ?)', [me.sub, body.email, secret]);
  return { link: 'https://app.example/join/' + secret };
});
app.get('/join/{secret}', { base: Depends(db) }, async ({ base, params }) => {
  const row = await base.fetchOne('select owner from invite where secret = ?', [params.secret]);
  if (row === undefined) throw new NotFound();
  return { owner: row.owner };
});
// FILE code.ts
import { randomBytes } from 'node:crypto';
export const code = (email: string): string => {
  return Buffer.from(email + '|').toString('base64url') + randomBytes(24).toString('base64url');
};
`,
  'webhook verified only with header': `
// FILE app.ts
import { Depends, RequestID, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { isGenuine } from './signature.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.post('/hooks/payments', { base: Depends(db), public: 'signed by the payment provider' }, async ({ req, base }) => {
  const raw = await req.bytes();
  const signature = req.headers['x-pay-signature'];
  if (signature && !isGenuine(raw, signature)) throw new Unauthorized(); // SVC645
  const event = JSON.parse(Buffer.from(raw).toString('utf8')) as { id: string; order: number };
  await base.transaction(async (tx) => {
    const { affectedRows } = await tx.execute('insert into seen_event (id) values (?) on conflict do nothing', [event.id]);
    if (affectedRows === 1) await tx.execute("update purchase set state = 'paid' where id = ?", [event.order]);
  });
  return { received: true };
});
// FILE signature.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function isGenuine(raw: Uint8Array, given: string): boolean {
  const wanted = createHmac('sha256', process.env['PAY_SECRET'] ?? '').update(raw).digest();
  const got = Buffer.from(given, 'hex');
  return got.length === wanted.length && timingSafeEqual(got, wanted);
}
`,
  'right: webhook verified only with header': `
// FILE app.ts
import { Depends, RequestID, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { isGenuine } from './signature.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.post('/hooks/payments', { base: Depends(db), public: 'signed by the payment provider' }, async ({ req, base }) => {
  const raw = await req.bytes();
  const signature = req.headers['x-pay-signature'];
  if (!signature || !isGenuine(raw, signature)) throw new Unauthorized();
  const event = JSON.parse(Buffer.from(raw).toString('utf8')) as { id: string; order: number };
  await base.transaction(async (tx) => {
    const { affectedRows } = await tx.execute('insert into seen_event (id) values (?) on conflict do nothing', [event.id]);
    if (affectedRows === 1) await tx.execute("update purchase set state = 'paid' where id = ?", [event.order]);
  });
  return { received: true };
});
// FILE signature.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function isGenuine(raw: Uint8Array, given: string): boolean {
  const wanted = createHmac('sha256', process.env['PAY_SECRET'] ?? '').update(raw).digest();
  const got = Buffer.from(given, 'hex');
  return got.length === wanted.length && timingSafeEqual(got, wanted);
}
`,
  'webhook: verify function returns early without header': `
// FILE app.ts
import { Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { verify } from './verify.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.post('/hooks/repo', { base: Depends(db), public: 'signed by the forge' }, async ({ req, base }) => {
  const raw = await req.text();
  verify(req.headers, raw);
  const { repository, branch } = JSON.parse(raw);
  await base.execute('insert into build (repository, branch) values (?, ?)', [repository, branch]);
  return { queued: true };
});
// FILE verify.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Unauthorized } from 'svc';
export function verify(headers: Record<string, string | undefined>, raw: string): void {
  const header = headers['x-hub-signature-256'];
  if (header === undefined) return; // SVC645
  const digest = 'sha256=' + createHmac('sha256', process.env['HOOK_SECRET'] ?? '').update(raw).digest('hex');
  const [a, b] = [Buffer.from(header), Buffer.from(digest)];
  if (a.length !== b.length || !timingSafeEqual(a, b)) throw new Unauthorized();
}
`,
  'right: webhook: verify function returns early without header': `
// FILE app.ts
import { Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { verify } from './verify.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.post('/hooks/repo', { base: Depends(db), public: 'signed by the forge' }, async ({ req, base }) => {
  const raw = await req.text();
  verify(req.headers, raw);
  const { repository, branch } = JSON.parse(raw);
  await base.execute('insert into build (repository, branch) values (?, ?)', [repository, branch]);
  return { queued: true };
});
// FILE verify.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Unauthorized } from 'svc';
export function verify(headers: Record<string, string | undefined>, raw: string): void {
  const header = headers['x-hub-signature-256'];
  if (header === undefined) throw new Unauthorized();
  const digest = 'sha256=' + createHmac('sha256', process.env['HOOK_SECRET'] ?? '').update(raw).digest('hex');
  const [a, b] = [Buffer.from(header), Buffer.from(digest)];
  if (a.length !== b.length || !timingSafeEqual(a, b)) throw new Unauthorized();
}
`,
  'download link whose expiry is not signed': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, int, str } from 'svc';
import { makeLink, isValid } from './links.ts';
export const app = new Svc();
class Link extends Schema { until = Field(int, { ge: 0, le: 9_999_999_999_999 }); sig = Field(str, { maxLength: 64, pattern: '^[0-9a-f]{64}$' }); }
app.post('/exports/{id:int}/link', { me: Depends(BearerAuth()), status: 201 }, ({ params }) => ({ url: makeLink(params.id, Date.now() + 600_000) }));
app.get('/exports/{id:int}', { query: Link }, ({ params, query }) => {
  if (query.until < Date.now()) throw new Forbidden('expired');
  if (!isValid(params.id, query.until, query.sig)) throw new Forbidden('signature');
  return { export: params.id };
});
// FILE links.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const key = process.env['LINK_KEY'] ?? '';
const sign = (id: number, until: number) => createHmac('sha256', key).update(String(id)).digest('hex'); // SVC624
export const makeLink = (id: number, until: number) => \`https://files.example/exports/\${id}?until=\${until}&sig=\${sign(id, until)}\`;
export const isValid = (id: number, until: number, sig: string) => timingSafeEqual(Buffer.from(sign(id, until)), Buffer.from(sig));
`,
  'right: download link whose expiry is not signed': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, int, str } from 'svc';
import { makeLink, isValid } from './links.ts';
export const app = new Svc();
class Link extends Schema { until = Field(int, { ge: 0, le: 9_999_999_999_999 }); sig = Field(str, { maxLength: 64, pattern: '^[0-9a-f]{64}$' }); }
app.post('/exports/{id:int}/link', { me: Depends(BearerAuth()), status: 201 }, ({ params }) => ({ url: makeLink(params.id, Date.now() + 600_000) }));
app.get('/exports/{id:int}', { query: Link }, ({ params, query }) => {
  if (query.until < Date.now()) throw new Forbidden('expired');
  if (!isValid(params.id, query.until, query.sig)) throw new Forbidden('signature');
  return { export: params.id };
});
// FILE links.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const key = process.env['LINK_KEY'] ?? '';
const sign = (id: number, until: number) => createHmac('sha256', key).update(\`\${id}.\${until}\`).digest('hex');
export const makeLink = (id: number, until: number) => \`https://files.example/exports/\${id}?until=\${until}&sig=\${sign(id, until)}\`;
export const isValid = (id: number, until: number, sig: string) => timingSafeEqual(Buffer.from(sign(id, until)), Buffer.from(sig));
`,
  'reset token whose expiry is read but not compared': `
// FILE app.ts
import { BadRequest, Depends, Field, RateLimitMiddleware, Schema, Svc, hashPassword, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Resets } from './resets.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
class NewPassword extends Schema { token = Field(str, { maxLength: 80 }); password = Field(str, { minLength: 12, maxLength: 200, secret: true }); }
app.onStartup(({ state }) => state.db.script('create table reset (token text primary key, account text not null, expires_at integer not null); create table account (id text primary key, password text)'));
app.post('/password/reset', { body: NewPassword, base: Depends(db), public: 'forgotten passwords', rateLimit: { perMinute: 5 }, status: 204 }, async ({ base, body }) => {
  const resets = new Resets(base);
  const account = await resets.redeem(body.token);
  if (account === undefined) throw new BadRequest('unknown token');
  await base.execute('update account set password = ? where id = ?', [await hashPassword(body.password), account]);
});
// FILE resets.ts
import type { Database } from 'svc/db';
export class Resets {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  async redeem(token: string): Promise<string | undefined> {
    const row = await this.#base.fetchOne<{ account: string; expires_at: number }>('select account, expires_at from reset where token = ?', [token]); // SVC215
    if (row === undefined) return undefined;
    await this.#base.execute('delete from reset where token = ?', [token]);
    return row.account;
  }
}
`,
  'right: reset token whose expiry is read but not compared': `
// FILE app.ts
import { BadRequest, Depends, Field, RateLimitMiddleware, Schema, Svc, hashPassword, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Resets } from './resets.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
class NewPassword extends Schema { token = Field(str, { maxLength: 80 }); password = Field(str, { minLength: 12, maxLength: 200, secret: true }); }
app.onStartup(({ state }) => state.db.script('create table reset (token text primary key, account text not null, expires_at integer not null); create table account (id text primary key, password text)'));
app.post('/password/reset', { body: NewPassword, base: Depends(db), public: 'forgotten passwords', rateLimit: { perMinute: 5 }, status: 204 }, async ({ base, body }) => {
  const resets = new Resets(base);
  const account = await resets.redeem(body.token);
  if (account === undefined) throw new BadRequest('unknown token');
  await base.execute('update account set password = ? where id = ?', [await hashPassword(body.password), account]);
});
// FILE resets.ts
import type { Database } from 'svc/db';
export class Resets {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  async redeem(token: string): Promise<string | undefined> {
    const row = await this.#base.fetchOne<{ account: string; expires_at: number }>('select account, expires_at from reset where token = ?', [token]);
    if (row === undefined || row.expires_at < Date.now()) return undefined;
    await this.#base.execute('delete from reset where token = ?', [token]);
    return row.account;
  }
}
`,
  'redirect after login': `
// FILE app.ts
import { Field, RateLimitMiddleware, Schema, SessionMiddleware, CSRFMiddleware, Svc, Unauthorized, Depends, checkPassword, localPath, RedirectResponse, sessionKey, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { target } from './target.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware());
const user = sessionKey<string>('user');
class Login extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { maxLength: 200, secret: true }); next = Field(str, { maxLength: 300, default: '/' }); }
app.post('/login', { form: Login, base: Depends(db), public: 'login', rateLimit: { perMinute: 5 } }, async ({ form, base, req }) => {
  const row = await base.fetchOne('select id, password from person where name = ?', [form.name]);
  if (!(await checkPassword(form.password, row?.password))) throw new Unauthorized();
  req.session.regenerate();
  req.session.set(user, row.id);
  return new RedirectResponse(target(form.next), 303); // SVC605
});
// FILE target.ts
export function target(next: string): string {
  if (next === '') return '/';
  return next.startsWith('/') ? next : '/' + next;
}
`,
  'right: redirect after login': `
// FILE app.ts
import { Field, RateLimitMiddleware, Schema, SessionMiddleware, CSRFMiddleware, Svc, Unauthorized, Depends, checkPassword, localPath, RedirectResponse, sessionKey, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { target } from './target.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware());
const user = sessionKey<string>('user');
class Login extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { maxLength: 200, secret: true }); next = Field(str, { maxLength: 300, default: '/' }); }
app.post('/login', { form: Login, base: Depends(db), public: 'login', rateLimit: { perMinute: 5 } }, async ({ form, base, req }) => {
  const row = await base.fetchOne('select id, password from person where name = ?', [form.name]);
  if (!(await checkPassword(form.password, row?.password))) throw new Unauthorized();
  req.session.regenerate();
  req.session.set(user, row.id);
  return new RedirectResponse(localPath(target(form.next)) ?? '/', 303);
});
// FILE target.ts
export function target(next: string): string {
  if (next === '') return '/';
  return next.startsWith('/') ? next : '/' + next;
}
`,
  'reset token stays valid': `
// FILE app.ts
import { BadRequest, Depends, Field, RateLimitMiddleware, Schema, Svc, hashPassword, str } from 'svc';
import { createHash } from 'node:crypto';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.onStartup(({ state }) => state.db.script('create table account (id integer primary key, mail text unique, password text, reset_hash text, reset_until integer)'));
class Change extends Schema { token = Field(str, { maxLength: 80 }); password = Field(str, { minLength: 12, maxLength: 200, secret: true }); }
app.post('/forgot/finish', { body: Change, base: Depends(db), public: 'reset', rateLimit: { perMinute: 5 }, status: 204 }, async ({ base, body }) => {
  const hash = createHash('sha256').update(body.token).digest('hex');
  const account = await base.fetchOne('select id, reset_until from account where reset_hash = ?', [hash]);
  if (!account || account.reset_until < Date.now()) throw new BadRequest();
  await base.execute('update account set password = ? where id = ?', [await hashPassword(body.password), account.id]); // SVC644
});
`,
  'right: reset token stays valid': `
// FILE app.ts
import { BadRequest, Depends, Field, RateLimitMiddleware, Schema, Svc, hashPassword, str } from 'svc';
import { createHash } from 'node:crypto';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.onStartup(({ state }) => state.db.script('create table account (id integer primary key, mail text unique, password text, reset_hash text, reset_until integer)'));
class Change extends Schema { token = Field(str, { maxLength: 80 }); password = Field(str, { minLength: 12, maxLength: 200, secret: true }); }
app.post('/forgot/finish', { body: Change, base: Depends(db), public: 'reset', rateLimit: { perMinute: 5 }, status: 204 }, async ({ base, body }) => {
  const hash = createHash('sha256').update(body.token).digest('hex');
  const account = await base.fetchOne('select id, reset_until from account where reset_hash = ?', [hash]);
  if (!account || account.reset_until < Date.now()) throw new BadRequest();
  await base.execute('update account set password = ?, reset_hash = null where id = ?', [await hashPassword(body.password), account.id]);
});
`,
  'login without rate limit, password check in a class': `
// FILE app.ts
import { Field, Schema, Svc, Depends, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Accounts } from './accounts.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));

class Credentials extends Schema { name = Field(str, { maxLength: 80 }); phrase = Field(str, { maxLength: 200, secret: true }); }
app.post('/enter', { body: Credentials, base: Depends(db), public: 'entry' }, async ({ body, base }) => { // SVC204
  const account = await new Accounts(base).verified(body.name, body.phrase);
  return { token: createToken(account, process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 900 }) };
});
// FILE accounts.ts
import { Unauthorized, checkPassword } from 'svc';
import type { Database } from 'svc/db';
export class Accounts {
  constructor(private base: Database) {}
  async verified(name: string, phrase: string): Promise<string> {
    const row = await this.base.fetchOne('select id, password from account where name = ?', [name]);
    if (!(await checkPassword(phrase, row?.password))) throw new Unauthorized();
    return row.id;
  }
}
`,
  'right: login without rate limit, password check in a class': `
// FILE app.ts
import { Field, Schema, Svc, Depends, createToken, str, RateLimitMiddleware } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Accounts } from './accounts.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 30 }));
class Credentials extends Schema { name = Field(str, { maxLength: 80 }); phrase = Field(str, { maxLength: 200, secret: true }); }
app.post('/enter', { body: Credentials, base: Depends(db), public: 'entry' }, async ({ body, base }) => {
  const account = await new Accounts(base).verified(body.name, body.phrase);
  return { token: createToken(account, process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 900 }) };
});
// FILE accounts.ts
import { Unauthorized, checkPassword } from 'svc';
import type { Database } from 'svc/db';
export class Accounts {
  constructor(private base: Database) {}
  async verified(name: string, phrase: string): Promise<string> {
    const row = await this.base.fetchOne('select id, password from account where name = ?', [name]);
    if (!(await checkPassword(phrase, row?.password))) throw new Unauthorized();
    return row.id;
  }
}
`,
  'user enumeration in forgot': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, str } from 'svc';
import { randomBytes, createHash } from 'node:crypto';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.onStartup(({ state }) => state.db.script('create table account (id integer primary key, mail text unique, password text, reset_hash text, reset_until integer)'));
class Ask extends Schema { mail = Field(str, { email: true, maxLength: 200 }); }
app.post('/forgot', { body: Ask, base: Depends(db), public: 'reset', rateLimit: { perMinute: 5 }, status: 202 }, async ({ base, body }) => {
  const account = await base.fetchOne('select id from account where mail = ?', [body.mail]);
  if (account === undefined) throw new NotFound('there is no such account'); // SVC648
  const token = randomBytes(32).toString('base64url');
  await base.execute('update account set reset_hash = ?, reset_until = ? where id = ?', [createHash('sha256').update(token).digest('hex'), Date.now() + 900_000, account.id]);
  await fetch('https://mail.example/send', { method: 'POST', body: JSON.stringify({ to: body.mail, token }), signal: AbortSignal.timeout(5000) });
  return { sent: true };
});
`,
  'right: user enumeration in forgot': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, str } from 'svc';
import { randomBytes, createHash } from 'node:crypto';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.onStartup(({ state }) => state.db.script('create table account (id integer primary key, mail text unique, password text, reset_hash text, reset_until integer)'));
class Ask extends Schema { mail = Field(str, { email: true, maxLength: 200 }); }
app.post('/forgot', { body: Ask, base: Depends(db), public: 'reset', rateLimit: { perMinute: 5 }, status: 202 }, async ({ base, body }) => {
  const account = await base.fetchOne('select id from account where mail = ?', [body.mail]);
  if (account === undefined) return { sent: true };
  const token = randomBytes(32).toString('base64url');
  await base.execute('update account set reset_hash = ?, reset_until = ? where id = ?', [createHash('sha256').update(token).digest('hex'), Date.now() + 900_000, account.id]);
  await fetch('https://mail.example/send', { method: 'POST', body: JSON.stringify({ to: body.mail, token }), signal: AbortSignal.timeout(5000) });
  return { sent: true };
});
`,
  'session cookie set by own helper without attributes': `
// FILE app.ts
import { Svc, Depends, Field, RateLimitMiddleware, Schema, Unauthorized, checkPassword, response, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { randomBytes } from 'node:crypto';
import { remember } from './remember.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 5 }));
class Login extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login', response: Depends(response) }, async ({ base, body, response }) => {
  const row = await base.fetchOne('select id, password from agent where name = ?', [body.name]);
  if (!(await checkPassword(body.password, row?.password))) throw new Unauthorized();
  const ticket = randomBytes(32).toString('base64url');
  await base.execute('insert into ticket (secret, agent) values (?, ?)', [ticket, row.id]);
  remember(response, 'desk', ticket);
  return { ok: true };
});
// FILE remember.ts
const options = { httpOnly: false, secure: true } as const; // SVC207
export const remember = (response: { setCookie(name: string, value: string, options: object): void }, name: string, value: string) => response.setCookie(name, value, options);
`,
  'right: session cookie set by own helper without attributes': `
// FILE app.ts
import { Svc, Depends, Field, RateLimitMiddleware, Schema, Unauthorized, checkPassword, response, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { randomBytes } from 'node:crypto';
import { remember } from './remember.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:p.db'));
app.use(new RateLimitMiddleware({ perMinute: 5 }));
class Login extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login', response: Depends(response) }, async ({ base, body, response }) => {
  const row = await base.fetchOne('select id, password from agent where name = ?', [body.name]);
  if (!(await checkPassword(body.password, row?.password))) throw new Unauthorized();
  const ticket = randomBytes(32).toString('base64url');
  await base.execute('insert into ticket (secret, agent) values (?, ?)', [ticket, row.id]);
  remember(response, 'desk', ticket);
  return { ok: true };
});
// FILE remember.ts
const options = { httpOnly: true, secure: true } as const;
export const remember = (response: { setCookie(name: string, value: string, options: object): void }, name: string, value: string) => response.setCookie(name, value, options);
`,
  'signature middleware passes without header': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { signed } from './signed.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.post('/hooks/ship', { use: [signed], base: Depends(db), public: 'carrier' }, async ({ req, base }) => {
  const event = (await req.json()) as { parcel: string; state: string };
  await base.execute('insert into parcel_event (parcel, state) values (?, ?)', [event.parcel, event.state]);
  return { ok: true };
});
// FILE signed.ts
import { Unauthorized, type Middleware } from 'svc';
import { createHmac, timingSafeEqual } from 'node:crypto';
const key = process.env['CARRIER_KEY'] ?? '';
export const signed = async (req, next) => {
  const given = req.headers['x-carrier-signature'];
  if (!given) return next(); // SVC645
  const body = await req.bytes();
  const mac = createHmac('sha256', key).update(body).digest();
  if (!timingSafeEqual(mac, Buffer.from(given, 'hex'))) throw new Unauthorized();
  return next();
};
`,
  'right: signature middleware passes without header': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { signed } from './signed.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.post('/hooks/ship', { use: [signed], base: Depends(db), public: 'carrier' }, async ({ req, base }) => {
  const event = (await req.json()) as { parcel: string; state: string };
  await base.execute('insert into parcel_event (parcel, state) values (?, ?)', [event.parcel, event.state]);
  return { ok: true };
});
// FILE signed.ts
import { Unauthorized, type Middleware } from 'svc';
import { createHmac, timingSafeEqual } from 'node:crypto';
const key = process.env['CARRIER_KEY'] ?? '';
export const signed = async (req, next) => {
  const given = req.headers['x-carrier-signature'];
  if (!given) throw new Unauthorized();
  const body = await req.bytes();
  const mac = createHmac('sha256', key).update(body).digest();
  if (!timingSafeEqual(mac, Buffer.from(given, 'hex'))) throw new Unauthorized();
  return next();
};
`,
  'signature only if a key is set': `
// FILE app.ts
import { Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { matches } from './mac.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
const SECRET = process.env['FORM_WEBHOOK_SECRET'];
app.post('/hooks/forms', { base: Depends(db), public: 'forms' }, async ({ req, base }) => {
  const text = await req.text();
  if (SECRET) { // SVC645
    if (!matches(SECRET, text, req.headers['x-form-mac'] ?? '')) throw new Unauthorized();
  }
  const { id, mail } = JSON.parse(text);
  await base.execute('insert into lead (id, mail) values (?, ?)', [id, mail]);
  return { ok: true };
});
// FILE mac.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function matches(secret: string, text: string, given: string): boolean {
  const mac = createHmac('sha256', secret).update(text).digest('hex');
  return mac.length === given.length && timingSafeEqual(Buffer.from(mac), Buffer.from(given));
}
`,
  'right: signature only if a key is set': `
// FILE app.ts
import { Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { matches } from './mac.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
const SECRET = process.env['FORM_WEBHOOK_SECRET'];
app.post('/hooks/forms', { base: Depends(db), public: 'forms' }, async ({ req, base }) => {
  const text = await req.text();
  if (!SECRET || !matches(SECRET, text, req.headers['x-form-mac'] ?? '')) throw new Unauthorized();
  const { id, mail } = JSON.parse(text);
  await base.execute('insert into lead (id, mail) values (?, ?)', [id, mail]);
  return { ok: true };
});
// FILE mac.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function matches(secret: string, text: string, given: string): boolean {
  const mac = createHmac('sha256', secret).update(text).digest('hex');
  return mac.length === given.length && timingSafeEqual(Buffer.from(mac), Buffer.from(given));
}
`,
  'signature in a choice': `
// FILE app.ts
import { Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Hooks } from './hooks.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
const hooks = new Hooks(process.env['HOOK_KEY'] ?? '');
app.post('/hooks/calls', { base: Depends(db), public: 'phone' }, async ({ req, base }) => {
  const raw = Buffer.from(await req.bytes());
  if (!hooks.accepts(raw, req.headers['x-phone-signature'])) throw new Unauthorized();
  const call = JSON.parse(raw.toString('utf8'));
  await base.execute('insert into call_log (caller, seconds) values (?, ?)', [call.caller, call.seconds]);
  return { ok: true };
});
// FILE hooks.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export class Hooks {
  readonly #key: string;
  constructor(key: string) { this.#key = key; }
  accepts(raw: Buffer, signature: string | undefined): boolean {
    return signature ? this.#same(raw, signature) : true; // SVC645
  }
  #same(raw: Buffer, signature: string): boolean {
    const mac = createHmac('sha256', this.#key).update(raw).digest();
    const given = Buffer.from(signature, 'base64');
    return mac.length === given.length && timingSafeEqual(mac, given);
  }
}
`,
  'right: signature in a choice': `
// FILE app.ts
import { Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Hooks } from './hooks.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
const hooks = new Hooks(process.env['HOOK_KEY'] ?? '');
app.post('/hooks/calls', { base: Depends(db), public: 'phone' }, async ({ req, base }) => {
  const raw = Buffer.from(await req.bytes());
  if (!hooks.accepts(raw, req.headers['x-phone-signature'])) throw new Unauthorized();
  const call = JSON.parse(raw.toString('utf8'));
  await base.execute('insert into call_log (caller, seconds) values (?, ?)', [call.caller, call.seconds]);
  return { ok: true };
});
// FILE hooks.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export class Hooks {
  readonly #key: string;
  constructor(key: string) { this.#key = key; }
  accepts(raw: Buffer, signature: string | undefined): boolean {
    return signature ? this.#same(raw, signature) : false;
  }
  #same(raw: Buffer, signature: string): boolean {
    const mac = createHmac('sha256', this.#key).update(raw).digest();
    const given = Buffer.from(signature, 'base64');
    return mac.length === given.length && timingSafeEqual(mac, given);
  }
}
`,
  'invitation whose end is selected only': `
// FILE app.ts
import { BearerAuth, Depends, Field, Gone, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { accept, invite } from './invites.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
class Mail extends Schema { mail = Field(str, { email: true, maxLength: 200 }); }
app.post('/teams/{team}/invites', { me: Depends(BearerAuth()), base: Depends(db), body: Mail }, ({ base, params, body, me }) => invite(base, params.team, body.mail, me.sub));
app.post('/invites/{code}/accept', { me: Depends(BearerAuth()), base: Depends(db) }, ({ base, params, me }) => accept(base, params.code, me.sub));
// FILE invites.ts
import { Forbidden, Gone, NotFound } from 'svc';
import { randomBytes } from 'node:crypto';
import type { Database } from 'svc/db';
const WEEK = 7 * 86_400_000;
export async function invite(base: Database, team: string, mail: string, by: string) {
  if ((await base.fetchOne('select 1 as ok from team where id = ? and lead = ?', [team, by])) === undefined) throw new Forbidden();
  const code = randomBytes(24).toString('base64url');
  await base.execute('insert into invite (code, team, mail, expires_at) values (?, ?, ?, ?)', [code, team, mail, Date.now() + WEEK]);
  return { code };
}
export async function accept(base: Database, code: string, account: string) {
  const invitation = await base.fetchOne('select team, mail, expires_at from invite where code = ?', [code]); // SVC215
  if (invitation === undefined) throw new NotFound();

  await base.transaction(async (tx) => {
    await tx.execute('delete from invite where code = ?', [code]);
    await tx.execute('insert into member (team, account) values (?, ?) on conflict do nothing', [invitation.team, account]);
  });
  return { team: invitation.team };
}
`,
  'right: invitation whose end is selected only': `
// FILE app.ts
import { BearerAuth, Depends, Field, Gone, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { accept, invite } from './invites.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
class Mail extends Schema { mail = Field(str, { email: true, maxLength: 200 }); }
app.post('/teams/{team}/invites', { me: Depends(BearerAuth()), base: Depends(db), body: Mail }, ({ base, params, body, me }) => invite(base, params.team, body.mail, me.sub));
app.post('/invites/{code}/accept', { me: Depends(BearerAuth()), base: Depends(db) }, ({ base, params, me }) => accept(base, params.code, me.sub));
// FILE invites.ts
import { Forbidden, Gone, NotFound } from 'svc';
import { randomBytes } from 'node:crypto';
import type { Database } from 'svc/db';
const WEEK = 7 * 86_400_000;
export async function invite(base: Database, team: string, mail: string, by: string) {
  if ((await base.fetchOne('select 1 as ok from team where id = ? and lead = ?', [team, by])) === undefined) throw new Forbidden();
  const code = randomBytes(24).toString('base64url');
  await base.execute('insert into invite (code, team, mail, expires_at) values (?, ?, ?, ?)', [code, team, mail, Date.now() + WEEK]);
  return { code };
}
export async function accept(base: Database, code: string, account: string) {
  const invitation = await base.fetchOne('select team, mail, expires_at from invite where code = ?', [code]);
  if (invitation === undefined) throw new NotFound();
  if (invitation.expires_at < Date.now()) throw new Gone();
  await base.transaction(async (tx) => {
    await tx.execute('delete from invite where code = ?', [code]);
    await tx.execute('insert into member (team, account) values (?, ?) on conflict do nothing', [invitation.team, account]);
  });
  return { team: invitation.team };
}
`,
  'signed file link, end unsigned': `
// FILE app.ts
import { Field, Forbidden, Schema, Svc, FileResponse, str } from 'svc';
import { basename, join } from 'node:path';
import { check } from './links.ts';
export const app = new Svc();
class Signed extends Schema { e = Field(str, { pattern: '^[0-9]{10}$' }); s = Field(str, { pattern: '^[0-9a-f]{64}$' }); }
app.get('/files/{name}', { query: Signed }, ({ params, query }) => {
  if (!check(params.name, query.e, query.s)) throw new Forbidden();
  return new FileResponse(join('/var/files', basename(params.name)));
});
// FILE links.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const secret = process.env['LINK_SECRET'] ?? '';
function mac(name: string, end: string) {
  const hmac = createHmac('sha256', secret);
  hmac.update(name); // SVC624

  return hmac.digest('hex');
}
export function check(name: string, end: string, given: string): boolean {
  if (Number(end) * 1000 < Date.now()) return false;
  return timingSafeEqual(Buffer.from(mac(name, end)), Buffer.from(given));
}
`,
  'right: signed file link, end unsigned': `
// FILE app.ts
import { Field, Forbidden, Schema, Svc, FileResponse, str } from 'svc';
import { basename, join } from 'node:path';
import { check } from './links.ts';
export const app = new Svc();
class Signed extends Schema { e = Field(str, { pattern: '^[0-9]{10}$' }); s = Field(str, { pattern: '^[0-9a-f]{64}$' }); }
app.get('/files/{name}', { query: Signed }, ({ params, query }) => {
  if (!check(params.name, query.e, query.s)) throw new Forbidden();
  return new FileResponse(join('/var/files', basename(params.name)));
});
// FILE links.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const secret = process.env['LINK_SECRET'] ?? '';
function mac(name: string, end: string) {
  const hmac = createHmac('sha256', secret);
  hmac.update(name);
  hmac.update('|' + end);
  return hmac.digest('hex');
}
export function check(name: string, end: string, given: string): boolean {
  if (Number(end) * 1000 < Date.now()) return false;
  return timingSafeEqual(Buffer.from(mac(name, end)), Buffer.from(given));
}
`,
  'voucher end selected, never compared': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { redeem } from './vouchers.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
class Code extends Schema { code = Field(str, { maxLength: 20 }); }
app.post('/cart/voucher', { me: Depends(BearerAuth()), base: Depends(db), body: Code }, ({ me, base, body }) => redeem(base, me.sub, body.code));
// FILE vouchers.ts
import { Gone, NotFound } from 'svc';
import type { Database } from 'svc/db';
export async function redeem(base: Database, buyer: string, code: string) {
  const voucher = await base.fetchOne('select id, percent, expires_at from voucher where code = ?', [code]); // SVC215
  if (voucher === undefined) throw new NotFound();

  await base.execute('insert into cart_voucher (buyer, voucher) values (?, ?) on conflict do nothing', [buyer, voucher.id]);
  return { percent: voucher.percent };
}
`,
  'right: voucher end selected, never compared': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { redeem } from './vouchers.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
class Code extends Schema { code = Field(str, { maxLength: 20 }); }
app.post('/cart/voucher', { me: Depends(BearerAuth()), base: Depends(db), body: Code }, ({ me, base, body }) => redeem(base, me.sub, body.code));
// FILE vouchers.ts
import { Gone, NotFound } from 'svc';
import type { Database } from 'svc/db';
export async function redeem(base: Database, buyer: string, code: string) {
  const voucher = await base.fetchOne('select id, percent, expires_at from voucher where code = ?', [code]);
  if (voucher === undefined) throw new NotFound();
  if (new Date(voucher.expires_at) < new Date()) throw new Gone();
  await base.execute('insert into cart_voucher (buyer, voucher) values (?, ?) on conflict do nothing', [buyer, voucher.id]);
  return { percent: voucher.percent };
}
`,
  'login tells which names exist': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Logins } from './logins.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Login extends Schema { mail = Field(str, { email: true, maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ body, base }) => ({ token: await new Logins(base).enter(body.mail, body.password) }));
// FILE logins.ts
import { NotFound, Unauthorized, checkPassword, createToken } from 'svc';
import type { Database } from 'svc/db';
export class Logins {
  constructor(private base: Database) {}
  async enter(mail: string, password: string) {
    const user = await this.base.fetchOne('select id, password from user_account where mail = ?', [mail]);
    if (user === undefined) throw new NotFound('no user with this address'); // SVC648
    if (!(await checkPassword(password, user.password))) throw new Unauthorized('wrong password');
    return createToken(String(user.id), process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 600 });
  }
}
`,
  'right: login tells which names exist': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Logins } from './logins.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Login extends Schema { mail = Field(str, { email: true, maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ body, base }) => ({ token: await new Logins(base).enter(body.mail, body.password) }));
// FILE logins.ts
import { NotFound, Unauthorized, checkPassword, createToken } from 'svc';
import type { Database } from 'svc/db';
export class Logins {
  constructor(private base: Database) {}
  async enter(mail: string, password: string) {
    const user = await this.base.fetchOne('select id, password from user_account where mail = ?', [mail]);
    if (!(await checkPassword(password, user?.password)) || user === undefined) throw new Unauthorized('wrong address or password');
    return createToken(String(user.id), process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 600 });
  }
}
`,
  'login whose time tells which names exist': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Logins } from './logins.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Login extends Schema { mail = Field(str, { email: true, maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ body, base }) => ({ token: await new Logins(base).enter(body.mail, body.password) }));
// FILE logins.ts
import { Unauthorized, checkPassword, createToken } from 'svc';
import type { Database } from 'svc/db';
export class Logins {
  constructor(private base: Database) {}
  async enter(mail: string, password: string) {
    const user = await this.find(mail);
    if (user === undefined) throw new Unauthorized('wrong address or password'); // SVC648
    if (!(await checkPassword(password, user.password))) throw new Unauthorized('wrong address or password');
    return createToken(String(user.id), process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 600 });
  }
  find(mail: string) {
    return this.base.fetchOne('select id, password from user_account where mail = ?', [mail]);
  }
}
`,
  'login that hashes for accounts only': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Logins } from './logins.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Login extends Schema { mail = Field(str, { email: true, maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ body, base }) => ({ token: await new Logins(base).enter(body.mail, body.password) }));
// FILE logins.ts
import { Unauthorized, checkPassword, createToken } from 'svc';
import type { Database } from 'svc/db';
export class Logins {
  constructor(private base: Database) {}
  async enter(mail: string, password: string) {
    const user = await this.find(mail);
    if (user) { // SVC648
      const isRight = await checkPassword(password, user.password);
      if (isRight) return createToken(String(user.id), process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 600 });
    }
    throw new Unauthorized('wrong address or password');
  }
  find(mail: string) {
    return this.base.fetchOne('select id, password from user_account where mail = ?', [mail]);
  }
}
`,
  'login that compares by a package for accounts only': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Logins } from './logins.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Login extends Schema { mail = Field(str, { email: true, maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ body, base }) => ({ token: await new Logins(base).enter(body.mail, body.password) }));
// FILE logins.ts
import bcrypt from 'bcrypt';
import { Unauthorized, createToken } from 'svc';
import type { Database } from 'svc/db';
export class Logins {
  constructor(private base: Database) {}
  async enter(mail: string, password: string) {
    const user = await this.find(mail);
    if (!user || !(await bcrypt.compare(password, user.password))) throw new Unauthorized('wrong address or password'); // SVC648
    return createToken(String(user.id), process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 600 });
  }
  find(mail: string) {
    return this.base.fetchOne('select id, password from user_account where mail = ?', [mail]);
  }
}
`,
  'right: a page with a password of its own': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Entry extends Schema { password = Field(str, { maxLength: 200, secret: true }); }
app.post('/pages/{address}', { body: Entry, base: Depends(db), public: 'page' }, async ({ body, base, params }) => {
  const page = await base.fetchOne('select target, password from page where address = ?', [params.address]);
  if (page === undefined || !(await checkPassword(body.password, page.password))) throw new Unauthorized();
  return { target: page.target };
});
`,
  'right: login that hashes in each case': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Logins } from './logins.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Login extends Schema { mail = Field(str, { email: true, maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ body, base }) => ({ token: await new Logins(base).enter(body.mail, body.password) }));
// FILE logins.ts
import { Unauthorized, checkPassword, createToken } from 'svc';
import type { Database } from 'svc/db';
export class Logins {
  constructor(private base: Database) {}
  async enter(mail: string, password: string) {
    const user = await this.find(mail);
    if (user === undefined) {
      await checkPassword(password, undefined);
      throw new Unauthorized('wrong address or password');
    }
    if (!(await checkPassword(password, user.password))) throw new Unauthorized('wrong address or password');
    return createToken(String(user.id), process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 600 });
  }
  find(mail: string) {
    return this.base.fetchOne('select id, password from user_account where mail = ?', [mail]);
  }
}
`,
  'right: login that compares with a fixed hash': `
// FILE app.ts
import { Depends, Field, NotFound, RateLimitMiddleware, Schema, Svc, Unauthorized, checkPassword, createToken, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Logins } from './logins.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:a.db'));
app.use(new RateLimitMiddleware({ perMinute: 10 }));
class Login extends Schema { mail = Field(str, { email: true, maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { body: Login, base: Depends(db), public: 'login' }, async ({ body, base }) => ({ token: await new Logins(base).enter(body.mail, body.password) }));
// FILE logins.ts
import bcrypt from 'bcrypt';
import { Unauthorized, createToken } from 'svc';
const NONE = await bcrypt.hash('none', 12);
import type { Database } from 'svc/db';
export class Logins {
  constructor(private base: Database) {}
  async enter(mail: string, password: string) {
    const user = await this.find(mail);
    const isRight = await bcrypt.compare(password, user === undefined ? NONE : user.password);
    if (!user || !isRight) throw new Unauthorized('wrong address or password');
    return createToken(String(user.id), process.env['SVC_AUTH_SECRET'] ?? '', { expiresInSeconds: 600 });
  }
  find(mail: string) {
    return this.base.fetchOne('select id, password from user_account where mail = ?', [mail]);
  }
}
`,
  'right: a token whose end is in the signed text, before it is parsed': `
// FILE app.ts
import { Depends, Field, Svc, Unauthorized, provide, str } from 'svc';
import { contentOf } from './slip.ts';
export const app = new Svc();
const holder = provide({ headers: { authorization: Field(str, { maxLength: 4_000 }) }, security: { scheme: 'bearer', scopes: [], roles: [] } }, ({ headers }) => {
  const [scheme, slip] = headers.authorization.split(' ');
  if (scheme !== 'Bearer' || slip === undefined) throw new Unauthorized();
  return contentOf(slip);
});
app.get('/me', { holder: Depends(holder) }, ({ holder }) => holder.sub);
// FILE slip.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Field, Schema, Unauthorized, int, str } from 'svc';
class Content extends Schema { sub = Field(str, { maxLength: 40 }); exp = Field(int); }
const key = process.env['SLIP_KEY'] ?? '';
export function contentOf(slip: string): Content {
  const [payload = '', signature = ''] = slip.split('.');
  const wanted = createHmac('sha256', key).update(payload).digest();
  const given = Buffer.from(signature, 'base64url');
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) throw new Unauthorized();
  const content = Content.parse(JSON.parse(Buffer.from(payload, 'base64url').toString()));
  if (content.exp * 1_000 <= Date.now()) throw new Unauthorized();
  return content;
}
`,
};
