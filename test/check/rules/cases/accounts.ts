/** Applications with accounts, tokens and tenants, each with a mistake and as it should be. A mistake is marked at its line. */
export const ACCOUNTS: Readonly<Record<string, string>> = {
  'change of the password without the present password': `
// FILE app.ts
import { Depends, Field, Schema, SessionMiddleware, CSRFMiddleware, Svc, str, requireSession, sessionKey, RateLimitMiddleware, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Accounts } from './accounts.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 })).use(new SessionMiddleware()).use(new CSRFMiddleware());
app.onStartup(({ state }) => state.db.script('create table account (id text primary key, email text not null unique, password_hash text not null)'));
const user = sessionKey<string>('user');
class Change extends Schema {
  current = Field(str, { maxLength: 200, secret: true });
  next = Field(str, { minLength: 12, maxLength: 200, secret: true });
}
class Login extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { db: Depends(db), form: Login, rateLimit: { perMinute: 5 }, public: 'login' }, async ({ req, db, form }) => {
  const id = await new Accounts(db).check(form.email, form.password);
  if (id === undefined) throw new Unauthorized();
  req.session.regenerate();
  req.session.set(user, id);
});
app.post('/account/password', { me: Depends(requireSession(user)), db: Depends(db), body: Change, rateLimit: { perMinute: 5 }, status: 204 }, async ({ me, db, body, req }) => {
  const accounts = new Accounts(db);
  await accounts.setPassword(me, body.next);
  req.session.regenerate({ keep: [user] });
});
// FILE accounts.ts
import { checkPassword, hashPassword, str } from 'svc';
import type { Session } from 'svc/db';
export class Accounts {
  readonly session: Session;
  constructor(session: Session) { this.session = session; }
  async check(email: string, password: string) {
    const row = await this.session.fetchOne('select id, password_hash from account where email = ?', [email]);
    const hash = row === undefined ? undefined : String(row['password_hash']);
    return (await checkPassword(password, hash)) && row ? String(row['id']) : undefined;
  }
  async isRight(id: string, password: string) {
    return checkPassword(password, await this.session.scalar('select password_hash from account where id = ?', [id], { as: str }));
  }
  async setPassword(id: string, password: string) {
    await this.session.execute('update account set password_hash = ? where id = ?', [await hashPassword(password), id]); // SVC649
  }
}
`,
  'right: change of the password without the present password': `
// FILE app.ts
import { Depends, Field, Schema, SessionMiddleware, CSRFMiddleware, Svc, str, requireSession, sessionKey, RateLimitMiddleware, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Accounts } from './accounts.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.use(new RateLimitMiddleware({ perMinute: 60 })).use(new SessionMiddleware()).use(new CSRFMiddleware());
app.onStartup(({ state }) => state.db.script('create table account (id text primary key, email text not null unique, password_hash text not null)'));
const user = sessionKey<string>('user');
class Change extends Schema {
  current = Field(str, { maxLength: 200, secret: true });
  next = Field(str, { minLength: 12, maxLength: 200, secret: true });
}
class Login extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/login', { db: Depends(db), form: Login, rateLimit: { perMinute: 5 }, public: 'login' }, async ({ req, db, form }) => {
  const id = await new Accounts(db).check(form.email, form.password);
  if (id === undefined) throw new Unauthorized();
  req.session.regenerate();
  req.session.set(user, id);
});
app.post('/account/password', { me: Depends(requireSession(user)), db: Depends(db), body: Change, rateLimit: { perMinute: 5 }, status: 204 }, async ({ me, db, body, req }) => {
  const accounts = new Accounts(db);
  if (!(await accounts.isRight(me, body.current))) throw new Unauthorized();
  await accounts.setPassword(me, body.next);
  req.session.regenerate({ keep: [user] });
});
// FILE accounts.ts
import { checkPassword, hashPassword, str } from 'svc';
import type { Session } from 'svc/db';
export class Accounts {
  readonly session: Session;
  constructor(session: Session) { this.session = session; }
  async check(email: string, password: string) {
    const row = await this.session.fetchOne('select id, password_hash from account where email = ?', [email]);
    const hash = row === undefined ? undefined : String(row['password_hash']);
    return (await checkPassword(password, hash)) && row ? String(row['id']) : undefined;
  }
  async isRight(id: string, password: string) {
    return checkPassword(password, await this.session.scalar('select password_hash from account where id = ?', [id], { as: str }));
  }
  async setPassword(id: string, password: string) {
    await this.session.execute('update account set password_hash = ? where id = ?', [await hashPassword(password), id]);
  }
}
`,
  'reset rows without an end': `
// FILE app.ts
import { Depends, Field, Schema, Svc, str, BadRequest, RateLimitMiddleware, hashPassword } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Resets } from './resets.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 10 }));
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table account (id integer primary key, email text not null unique, password text not null); create table reset (digest text primary key, account integer not null)'));
class Forgot extends Schema { email = Field(str, { email: true, maxLength: 200 }); }
class Reset extends Schema { token = Field(str, { maxLength: 100, secret: true }); password = Field(str, { minLength: 12, maxLength: 200, secret: true }); }
app.post('/forgot', { db: Depends(db), body: Forgot, public: 'reset', status: 204 }, async ({ db, body }) => { await new Resets(db).start(body.email); });
app.post('/reset', { db: Depends(db), body: Reset, public: 'reset', status: 204 }, async ({ db, body }) => {
  const account = await new Resets(db).take(body.token);
  if (account === undefined) throw new BadRequest('The link is not valid');
  await db.execute('update account set password = ? where id = ?', [await hashPassword(body.password), account]);
});
// FILE resets.ts
import { hash, randomBytes } from 'node:crypto';
import type { Session } from 'svc/db';
import { int } from 'svc';
import { post } from './post.ts';
export class Resets {
  readonly session: Session;
  constructor(session: Session) { this.session = session; }
  async start(email: string): Promise<void> {
    const account = await this.session.scalar('select id from account where email = ?', [email], { as: int });
    if (account === undefined) return;
    const token = randomBytes(32).toString('base64url');
    await this.session.execute('insert into reset (digest, account) values (?, ?)', [hash('sha256', token), account]);
    await post(email, \`https://shop.example/reset#\${token}\`);
  }
  async take(token: string): Promise<number | undefined> {
    return this.session.scalar('delete from reset where digest = ? returning account', [hash('sha256', token)], { as: int }); // SVC215
  }
}
// FILE post.ts
export async function post(to: string, text: string): Promise<void> {
  await fetch('https://mail.internal.example/send', { method: 'POST', body: JSON.stringify({ to, text }), signal: AbortSignal.timeout(5_000) });
}
`,
  'right: reset rows without an end': `
// FILE app.ts
import { Depends, Field, Schema, Svc, str, BadRequest, RateLimitMiddleware, hashPassword } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Resets } from './resets.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 10 }));
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table account (id integer primary key, email text not null unique, password text not null); create table reset (digest text primary key, account integer not null, made_at integer not null)'));
class Forgot extends Schema { email = Field(str, { email: true, maxLength: 200 }); }
class Reset extends Schema { token = Field(str, { maxLength: 100, secret: true }); password = Field(str, { minLength: 12, maxLength: 200, secret: true }); }
app.post('/forgot', { db: Depends(db), body: Forgot, public: 'reset', status: 204 }, async ({ db, body }) => { await new Resets(db).start(body.email); });
app.post('/reset', { db: Depends(db), body: Reset, public: 'reset', status: 204 }, async ({ db, body }) => {
  const account = await new Resets(db).take(body.token);
  if (account === undefined) throw new BadRequest('The link is not valid');
  await db.execute('update account set password = ? where id = ?', [await hashPassword(body.password), account]);
});
// FILE resets.ts
import { hash, randomBytes } from 'node:crypto';
import type { Session } from 'svc/db';
import { int } from 'svc';
import { post } from './post.ts';
export class Resets {
  readonly session: Session;
  constructor(session: Session) { this.session = session; }
  async start(email: string): Promise<void> {
    const account = await this.session.scalar('select id from account where email = ?', [email], { as: int });
    if (account === undefined) return;
    const token = randomBytes(32).toString('base64url');
    await this.session.execute('insert into reset (digest, account, made_at) values (?, ?, ?)', [hash('sha256', token), account, Date.now()]);
    await post(email, \`https://shop.example/reset#\${token}\`);
  }
  async take(token: string): Promise<number | undefined> {
    return this.session.scalar('delete from reset where digest = ? and made_at > ? returning account', [hash('sha256', token), Date.now() - 3_600_000], { as: int });
  }
}
// FILE post.ts
export async function post(to: string, text: string): Promise<void> {
  await fetch('https://mail.internal.example/send', { method: 'POST', body: JSON.stringify({ to, text }), signal: AbortSignal.timeout(5_000) });
}
`,
  'one-time code of a guarded route without a limit': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, str, RateLimiter } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { codeOf } from './totp.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table factor (account text primary key, seed text not null, confirmed integer not null)'));
class Confirm extends Schema { code = Field(str, { pattern: '^\\\\d{6}$' }); }
app.post('/transfers/{id:int}/confirm', { me: Depends(BearerAuth()), db: Depends(db), body: Confirm, status: 204 }, async ({ me, db, body, params, req }) => { // SVC204
  const seed = await db.scalar('select seed from factor where account = ?', [me.sub], { as: str });
  if (seed === undefined || !codeOf(seed, body.code)) throw new Forbidden('Wrong code');
  await db.execute('update transfer set confirmed = 1 where id = ? and account = ?', [params.id, me.sub]);
});
// FILE totp.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function codeOf(seed: string, given: string, step = Math.floor(Date.now() / 30_000)): boolean {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', Buffer.from(seed, 'base64')).update(counter).digest();
  const at = mac[19]! & 15;
  const code = String((mac.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0');
  return timingSafeEqual(Buffer.from(code), Buffer.from(given));
}
`,
  'right: one-time code of a guarded route without a limit': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, str, RateLimiter } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { codeOf } from './totp.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table factor (account text primary key, seed text not null, confirmed integer not null)'));
class Confirm extends Schema { code = Field(str, { pattern: '^\\\\d{6}$' }); }
const tries = new RateLimiter({ name: 'codes', perMinute: 5 });
app.post('/transfers/{id:int}/confirm', { me: Depends(BearerAuth()), db: Depends(db), body: Confirm, status: 204 }, async ({ me, db, body, params, req }) => {
  await tries.take(req, me.sub);
  const seed = await db.scalar('select seed from factor where account = ?', [me.sub], { as: str });
  if (seed === undefined || !codeOf(seed, body.code)) throw new Forbidden('Wrong code');
  await db.execute('update transfer set confirmed = 1 where id = ? and account = ?', [params.id, me.sub]);
});
// FILE totp.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function codeOf(seed: string, given: string, step = Math.floor(Date.now() / 30_000)): boolean {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', Buffer.from(seed, 'base64')).update(counter).digest();
  const at = mac[19]! & 15;
  const code = String((mac.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0');
  return timingSafeEqual(Buffer.from(code), Buffer.from(given));
}
`,
  'invitation: role of the new member from the body of the one who accepts': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str, literal, requireRoles } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { accept, invite } from './invitations.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table invitation (token text primary key, team text not null, role text not null, expires_at integer not null); create table member (team text not null, person text not null, role text not null, primary key (team, person))'));
const ROLE = literal('reader', 'editor', 'owner');
class Invite extends Schema { team = Field(str, { maxLength: 40 }); role = Field(ROLE); }
class Accept extends Schema { token = Field(str, { maxLength: 100, secret: true });
  role = Field(ROLE, { default: 'reader' });
}
app.post('/invitations', { me: Depends(requireRoles('admin')), db: Depends(db), body: Invite }, ({ db, body }) => invite(db, body.team, body.role));
app.post('/invitations/accept', { me: Depends(BearerAuth()), db: Depends(db), body: Accept, status: 204 }, async ({ me, db, body }) => {
  await accept(db, me.sub, body.token, body.role);
});
// FILE invitations.ts
import { randomBytes } from 'node:crypto';
import { NotFound } from 'svc';
import type { Database } from 'svc/db';
export async function invite(db: Database, team: string, role: string) {
  const token = randomBytes(24).toString('base64url');
  await db.execute('insert into invitation (token, team, role, expires_at) values (?, ?, ?, ?)', [token, team, role, Date.now() + 86_400_000]);
  return { link: \`https://team.example/join#\${token}\` };
}
export async function accept(db: Database, person: string, token: string, role: string) {
  await db.transaction(async (tx) => {
    const found = await tx.fetchOne('delete from invitation where token = ? and expires_at > ? returning team, role', [token, Date.now()]);
    if (found === undefined) throw new NotFound();
    await tx.execute('insert into member (team, person, role) values (?, ?, ?)', [found['team'], person, role]); // SVC641
  });
}
`,
  'right: invitation: role of the new member from the body of the one who accepts': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str, literal, requireRoles } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { accept, invite } from './invitations.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table invitation (token text primary key, team text not null, role text not null, expires_at integer not null); create table member (team text not null, person text not null, role text not null, primary key (team, person))'));
const ROLE = literal('reader', 'editor', 'owner');
class Invite extends Schema { team = Field(str, { maxLength: 40 }); role = Field(ROLE); }
class Accept extends Schema { token = Field(str, { maxLength: 100, secret: true });
}
app.post('/invitations', { me: Depends(requireRoles('admin')), db: Depends(db), body: Invite }, ({ db, body }) => invite(db, body.team, body.role));
app.post('/invitations/accept', { me: Depends(BearerAuth()), db: Depends(db), body: Accept, status: 204 }, async ({ me, db, body }) => {
  await accept(db, me.sub, body.token);
});
// FILE invitations.ts
import { randomBytes } from 'node:crypto';
import { NotFound } from 'svc';
import type { Database } from 'svc/db';
export async function invite(db: Database, team: string, role: string) {
  const token = randomBytes(24).toString('base64url');
  await db.execute('insert into invitation (token, team, role, expires_at) values (?, ?, ?, ?)', [token, team, role, Date.now() + 86_400_000]);
  return { link: \`https://team.example/join#\${token}\` };
}
export async function accept(db: Database, person: string, token: string) {
  await db.transaction(async (tx) => {
    const found = await tx.fetchOne('delete from invitation where token = ? and expires_at > ? returning team, role', [token, Date.now()]);
    if (found === undefined) throw new NotFound();
    await tx.execute('insert into member (team, person, role) values (?, ?, ?)', [found['team'], person, found['role']]);
  });
}
`,
  'admin by a flag of the body': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, bool, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { mayModerate } from './policy.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table post (id integer primary key, author text not null, text text not null)'));
class Claims extends Schema { sub = Field(str); moderator = Field(bool, { default: false }); }
class Removal extends Schema { reason = Field(str, { maxLength: 200 });
  asModerator = Field(bool, { default: false });
}
app.post('/posts/{id:int}/remove', { me: Depends(BearerAuth(undefined, { schema: Claims })), db: Depends(db), body: Removal, status: 204 }, async ({ me, db, body, params }) => {
  const author = await db.scalar('select author from post where id = ?', [params.id], { as: str });
  if (!mayModerate({ sub: me.sub, moderator: body.asModerator }, author)) throw new Forbidden();
  await db.execute('delete from post where id = ?', [params.id]);
});
// FILE policy.ts
export function mayModerate(actor: { sub: string; moderator: boolean }, author: string | undefined): boolean {
  if (actor.moderator) return true; // SVC646
  return actor.sub === author;
}
`,
  'right: admin by a flag of the body': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, bool, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { mayModerate } from './policy.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table post (id integer primary key, author text not null, text text not null)'));
class Claims extends Schema { sub = Field(str); moderator = Field(bool, { default: false }); }
class Removal extends Schema { reason = Field(str, { maxLength: 200 });
}
app.post('/posts/{id:int}/remove', { me: Depends(BearerAuth(undefined, { schema: Claims })), db: Depends(db), body: Removal, status: 204 }, async ({ me, db, body, params }) => {
  const author = await db.scalar('select author from post where id = ?', [params.id], { as: str });
  if (!mayModerate(me, author)) throw new Forbidden();
  await db.execute('delete from post where id = ?', [params.id]);
});
// FILE policy.ts
export function mayModerate(actor: { sub: string; moderator: boolean }, author: string | undefined): boolean {
  if (actor.moderator) return true;
  return actor.sub === author;
}
`,
  'APIKeyAuth verify: prefix lookup and plain comparison': `
// FILE app.ts
import { APIKeyAuth, Depends, Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { keyring } from './keys.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table api_key (prefix text primary key, secret text not null, client text not null)'));
const client = APIKeyAuth({ verify: (key) => keyring(app.state.db).clientOf(key) });
app.get('/usage', { client: Depends(client) }, ({ client }) => app.state.db.fetchAll('select day, calls from usage where client = ? order by day', [client]));
// FILE keys.ts
import { hash, timingSafeEqual } from 'node:crypto';
import type { Database } from 'svc/db';
export function keyring(db: Database) {
  return {
    async clientOf(key: string) {
      const [prefix = '', rest = ''] = key.split('.');
      const row = await db.fetchOne(\`select secret, client from api_key where prefix = '\${prefix}'\`); // SVC601
      if (row === undefined) return undefined;
      const [own, given] = [String(row['secret']), hash('sha256', rest)];
      return own.length === given.length && timingSafeEqual(Buffer.from(own), Buffer.from(given)) ? String(row['client']) : undefined;
    },
  };
}
`,
  'right: APIKeyAuth verify: prefix lookup and plain comparison': `
// FILE app.ts
import { APIKeyAuth, Depends, Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { keyring } from './keys.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table api_key (prefix text primary key, secret text not null, client text not null)'));
const client = APIKeyAuth({ verify: (key) => keyring(app.state.db).clientOf(key) });
app.get('/usage', { client: Depends(client) }, ({ client }) => app.state.db.fetchAll('select day, calls from usage where client = ? order by day', [client]));
// FILE keys.ts
import { hash, timingSafeEqual } from 'node:crypto';
import type { Database } from 'svc/db';
export function keyring(db: Database) {
  return {
    async clientOf(key: string) {
      const [prefix = '', rest = ''] = key.split('.');
      const row = await db.fetchOne('select secret, client from api_key where prefix = ?', [prefix]);
      if (row === undefined) return undefined;
      const [own, given] = [String(row['secret']), hash('sha256', rest)];
      return own.length === given.length && timingSafeEqual(Buffer.from(own), Buffer.from(given)) ? String(row['client']) : undefined;
    },
  };
}
`,
  'deactivated accounts log in': `
// FILE app.ts
import { Depends, Field, Schema, Svc, str, Unauthorized, RateLimitMiddleware, createToken, requireRoles } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Users } from './users.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 10 }));
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, email text not null unique, hash text not null, disabled integer not null default 0)'));
class Login extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/token', { db: Depends(db), body: Login, public: 'login' }, async ({ db, body }) => {
  const id = await new Users(db).verified(body.email, body.password);
  if (id === undefined) throw new Unauthorized();
  return { token: createToken(id, app.config.get('authSecret', ''), { expiresInSeconds: 900 }) };
});
app.post('/people/{id}/disable', { admin: Depends(requireRoles('admin')), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await new Users(db).disable(params.id);
});
// FILE users.ts
import { checkPassword } from 'svc';
import type { Session } from 'svc/db';
export class Users {
  readonly #session: Session;
  constructor(session: Session) { this.#session = session; }
  async verified(email: string, password: string): Promise<string | undefined> {
    const row = await this.#session.fetchOne('select id, hash from person where email = ?', [email]); // SVC672
    return (await checkPassword(password, row && String(row['hash']))) && row ? String(row['id']) : undefined;
  }
  async disable(id: string) { await this.#session.execute('update person set disabled = 1 where id = ?', [id]); }
}
`,
  'right: deactivated accounts log in': `
// FILE app.ts
import { Depends, Field, Schema, Svc, str, Unauthorized, RateLimitMiddleware, createToken, requireRoles } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Users } from './users.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 10 }));
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, email text not null unique, hash text not null, disabled integer not null default 0)'));
class Login extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200, secret: true }); }
app.post('/token', { db: Depends(db), body: Login, public: 'login' }, async ({ db, body }) => {
  const id = await new Users(db).verified(body.email, body.password);
  if (id === undefined) throw new Unauthorized();
  return { token: createToken(id, app.config.get('authSecret', ''), { expiresInSeconds: 900 }) };
});
app.post('/people/{id}/disable', { admin: Depends(requireRoles('admin')), db: Depends(db), status: 204 }, async ({ db, params }) => {
  await new Users(db).disable(params.id);
});
// FILE users.ts
import { checkPassword } from 'svc';
import type { Session } from 'svc/db';
export class Users {
  readonly #session: Session;
  constructor(session: Session) { this.#session = session; }
  async verified(email: string, password: string): Promise<string | undefined> {
    const row = await this.#session.fetchOne('select id, hash from person where email = ? and disabled = 0', [email]);
    return (await checkPassword(password, row && String(row['hash']))) && row ? String(row['id']) : undefined;
  }
  async disable(id: string) { await this.#session.execute('update person set disabled = 1 where id = ?', [id]); }
}
`,
  'jose without audience, or a token checked by hand without its end': `
// FILE app.ts
import { Depends, Svc, Unauthorized, provide } from 'svc';
import { claimsOf } from './token.ts';
export const app = new Svc();
const me = provide({ security: { scheme: 'bearer', scopes: [], roles: [] } }, ({ req }) => {
  const [, token = ''] = (req.headers['authorization'] ?? '').split(' ');
  const claims = claimsOf(token);
  if (claims === undefined) throw new Unauthorized();
  return claims;
});
app.get('/me', { me: Depends(me) }, ({ me }) => ({ id: me.sub }));
// FILE token.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const KEY = process.env['TOKEN_KEY'] ?? '';
export function tokenOf(sub: string): string {
  const body = Buffer.from(JSON.stringify({ sub, exp: Math.floor(Date.now() / 1_000) + 900 })).toString('base64url');
  return \`e30.\${body}.\${createHmac('sha256', KEY).update(\`e30.\${body}\`).digest('base64url')}\`;
}
export function claimsOf(token: string): { sub: string; exp: number } | undefined {
  const [head = '', body = '', mac = ''] = token.split('.');
  const own = createHmac('sha256', KEY).update(\`\${head}.\${body}\`).digest();
  const given = Buffer.from(mac, 'base64url');
  if (given.length !== own.length || !timingSafeEqual(given, own)) return undefined;
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as { sub: string; exp: number }; // SVC215
  return typeof claims.sub === 'string' ? claims : undefined;
}
`,
  'right: jose without audience, or a token checked by hand without its end': `
// FILE app.ts
import { Depends, Svc, Unauthorized, provide } from 'svc';
import { claimsOf } from './token.ts';
export const app = new Svc();
const me = provide({ security: { scheme: 'bearer', scopes: [], roles: [] } }, ({ req }) => {
  const [, token = ''] = (req.headers['authorization'] ?? '').split(' ');
  const claims = claimsOf(token);
  if (claims === undefined) throw new Unauthorized();
  return claims;
});
app.get('/me', { me: Depends(me) }, ({ me }) => ({ id: me.sub }));
// FILE token.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const KEY = process.env['TOKEN_KEY'] ?? '';
export function tokenOf(sub: string): string {
  const body = Buffer.from(JSON.stringify({ sub, exp: Math.floor(Date.now() / 1_000) + 900 })).toString('base64url');
  return \`e30.\${body}.\${createHmac('sha256', KEY).update(\`e30.\${body}\`).digest('base64url')}\`;
}
export function claimsOf(token: string): { sub: string; exp: number } | undefined {
  const [head = '', body = '', mac = ''] = token.split('.');
  const own = createHmac('sha256', KEY).update(\`\${head}.\${body}\`).digest();
  const given = Buffer.from(mac, 'base64url');
  if (given.length !== own.length || !timingSafeEqual(given, own)) return undefined;
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as { sub: string; exp: number };
  return typeof claims.sub === 'string' && claims.exp > Date.now() / 1000 ? claims : undefined;
}
`,
  'impersonation for every user: token for any account': `
// FILE app.ts
import { BearerAuth, Depends, Svc, createToken, requireRoles, str, NotFound } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { tokenFor } from './issue.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, email text not null)'));
const support = BearerAuth();
app.post('/support/act-as/{person}', { agent: Depends(support), db: Depends(db) }, async ({ agent, db, params }) => {
  const id = await db.scalar('select id from person where id = ?', [params.person], { as: str });
  if (id === undefined) throw new NotFound();
  app.log.info('acting as', { agent: agent.sub, id });
  return { access: tokenFor(id, app.config.get('authSecret', '')) };
});
// FILE issue.ts
import { createToken } from 'svc';
export const tokenFor = (id: string, key: string) => createToken(id, key, { expiresInSeconds: 600 }); // SVC646
`,
  'right: impersonation for every user: token for any account': `
// FILE app.ts
import { BearerAuth, Depends, Svc, createToken, requireRoles, str, NotFound } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { tokenFor } from './issue.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, email text not null)'));
const support = requireRoles('support');
app.post('/support/act-as/{person}', { agent: Depends(support), db: Depends(db) }, async ({ agent, db, params }) => {
  const id = await db.scalar('select id from person where id = ?', [params.person], { as: str });
  if (id === undefined) throw new NotFound();
  app.log.info('acting as', { agent: agent.sub, id });
  return { access: tokenFor(id, app.config.get('authSecret', '')) };
});
// FILE issue.ts
import { createToken } from 'svc';
export const tokenFor = (id: string, key: string) => createToken(id, key, { expiresInSeconds: 600 });
`,
  'batch: list of ids of a client without the owner': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, list } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { makeInbox } from './inbox.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table message (id integer primary key, recipient text not null, text text not null, seen integer not null default 0)'));
class Batch extends Schema { ids = Field(list(int), { minLength: 1, maxLength: 100 }); }
const me = BearerAuth();
app.get('/inbox', { me: Depends(me), db: Depends(db) }, ({ me, db }) => makeInbox(db, me.sub).all());
app.post('/inbox/delete', { me: Depends(me), db: Depends(db), body: Batch, status: 204 }, async ({ me, db, body }) => {
  await makeInbox(db, me.sub).remove(body.ids);
});
// FILE inbox.ts
import { sql, type Session } from 'svc/db';
export function makeInbox(session: Session, owner: string) {
  const all = () => session.fetchAll(sql\`select id, text, seen from message where recipient = \${owner} order by id desc limit 100\`);
  const remove = async (ids: readonly number[]) => {
    const { affectedRows } = await session.execute(sql\`delete from message where \${sql.in(sql\`id\`, ids)}\`); // SVC640
    return affectedRows;
  };
  return { all, remove };
}
`,
  'right: batch: list of ids of a client without the owner': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, list } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { makeInbox } from './inbox.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table message (id integer primary key, recipient text not null, text text not null, seen integer not null default 0)'));
class Batch extends Schema { ids = Field(list(int), { minLength: 1, maxLength: 100 }); }
const me = BearerAuth();
app.get('/inbox', { me: Depends(me), db: Depends(db) }, ({ me, db }) => makeInbox(db, me.sub).all());
app.post('/inbox/delete', { me: Depends(me), db: Depends(db), body: Batch, status: 204 }, async ({ me, db, body }) => {
  await makeInbox(db, me.sub).remove(body.ids);
});
// FILE inbox.ts
import { sql, type Session } from 'svc/db';
export function makeInbox(session: Session, owner: string) {
  const all = () => session.fetchAll(sql\`select id, text, seen from message where recipient = \${owner} order by id desc limit 100\`);
  const remove = async (ids: readonly number[]) => {
    const { affectedRows } = await session.execute(sql\`delete from message where recipient = \${owner} and \${sql.in(sql\`id\`, ids)}\`);
    return affectedRows;
  };
  return { all, remove };
}
`,
  'webhook credits at each delivery, with a class and a switch': `
// FILE app.ts
import { Svc, Unauthorized, reply } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { Billing } from './billing.ts';
import { isSigned } from './signature.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table ledger (id integer primary key, account text not null, cents integer not null); create table hook_event (id text primary key);'));
app.post('/hooks/payments', { public: 'signed by the payment provider' }, async ({ req }) => {
  const raw = await req.text();
  if (!isSigned(raw, String(req.headers['x-signature'] ?? ''))) throw new Unauthorized();
  await new Billing(app.state.db).handle(JSON.parse(raw));
  return reply(undefined, 204);
});
// FILE signature.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const SECRET = process.env['HOOK_SECRET'];
export function isSigned(raw: string, given: string): boolean {
  if (SECRET === undefined) throw new Error('HOOK_SECRET is missing');
  const own = createHmac('sha256', SECRET).update(raw).digest('hex');
  return own.length === given.length && timingSafeEqual(Buffer.from(own), Buffer.from(given));
}
// FILE billing.ts
import type { Database, Session } from 'svc/db';
interface Event { id: string; type: string; data: { account: string; cents: number } }
export class Billing {
  readonly #db: Database;
  constructor(db: Database) { this.#db = db; }
  handle(event: Event) {
    return this.#db.transaction(async (tx) => {
      if (event.type === 'payment.succeeded') await this.#credit(tx, event);
    });
  }
  async #credit(tx: Session, { data }: Event) {
    await tx.execute('insert into ledger (account, cents) values (?, ?)', [data.account, data.cents]); // SVC644
  }
}
`,
  'right: webhook credits at each delivery, with a class and a switch': `
// FILE app.ts
import { Svc, Unauthorized, reply } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { Billing } from './billing.ts';
import { isSigned } from './signature.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table ledger (id integer primary key, account text not null, cents integer not null); create table hook_event (id text primary key);'));
app.post('/hooks/payments', { public: 'signed by the payment provider' }, async ({ req }) => {
  const raw = await req.text();
  if (!isSigned(raw, String(req.headers['x-signature'] ?? ''))) throw new Unauthorized();
  await new Billing(app.state.db).handle(JSON.parse(raw));
  return reply(undefined, 204);
});
// FILE signature.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const SECRET = process.env['HOOK_SECRET'];
export function isSigned(raw: string, given: string): boolean {
  if (SECRET === undefined) throw new Error('HOOK_SECRET is missing');
  const own = createHmac('sha256', SECRET).update(raw).digest('hex');
  return own.length === given.length && timingSafeEqual(Buffer.from(own), Buffer.from(given));
}
// FILE billing.ts
import type { Database, Session } from 'svc/db';
interface Event { id: string; type: string; data: { account: string; cents: number } }
export class Billing {
  readonly #db: Database;
  constructor(db: Database) { this.#db = db; }
  handle(event: Event) {
    return this.#db.transaction(async (tx) => {
      const { affectedRows } = await tx.execute('insert into hook_event (id) values (?) on conflict do nothing', [event.id]);
      if (affectedRows === 0) return;
      if (event.type === 'payment.succeeded') await this.#credit(tx, event);
    });
  }
  async #credit(tx: Session, { data }: Event) {
    await tx.execute('insert into ledger (account, cents) values (?, ?)', [data.account, data.cents]);
  }
}
`,
  'signature over the parsed body': `
// FILE app.ts
import { Field, Schema, Svc, str, Unauthorized, int } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { matches } from './sign.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Shipment extends Schema { id = Field(str, { maxLength: 40 }); state = Field(str, { maxLength: 20 }); step = Field(int, { ge: 0, le: 9 }); }
app.post('/hooks/shipping', { body: Shipment, headers: { xSignature: Field(str, { maxLength: 100 }) }, public: 'signed', status: 204 }, async ({ body, headers }) => {
  if (!matches(JSON.stringify(body), headers.xSignature)) throw new Unauthorized();
  await app.state.db.execute('update shipment set state = ? where id = ?', [body.state, body.id]);
});
// FILE sign.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const KEY = process.env['SHIPPING_KEY'] ?? '';
export function matches(text: string, given: string): boolean {
  if (KEY === '') throw new Error('no key');
  const own = createHmac('sha256', KEY).update(text).digest(); // SVC624
  const theirs = Buffer.from(given, 'hex');
  return own.length === theirs.length && timingSafeEqual(own, theirs);
}
// FILE migrations/0001_init.up.sql
create table shipment (id text primary key, state text not null);
`,
  'right: signature over the parsed body': `
// FILE app.ts
import { Field, Schema, Svc, str, Unauthorized, int } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { matches } from './sign.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.post('/hooks/shipping', { headers: { xSignature: Field(str, { maxLength: 100 }) }, public: 'signed', status: 204 }, async ({ req, headers }) => {
  const raw = await req.text();
  if (!matches(raw, headers.xSignature)) throw new Unauthorized();
  const body = JSON.parse(raw);
  await app.state.db.execute('update shipment set state = ? where id = ?', [body.state, body.id]);
});
// FILE sign.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const KEY = process.env['SHIPPING_KEY'] ?? '';
export function matches(text: string, given: string): boolean {
  if (KEY === '') throw new Error('no key');
  const own = createHmac('sha256', KEY).update(text).digest();
  const theirs = Buffer.from(given, 'hex');
  return own.length === theirs.length && timingSafeEqual(own, theirs);
}
// FILE migrations/0001_init.up.sql
create table shipment (id text primary key, state text not null);
`,
  'webhook without any verification: insert only': `
// FILE app.ts
import { Field, Schema, Svc, str, int, Unauthorized } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { Donations } from './donations.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Paid extends Schema { event = Field(str, { maxLength: 60 }); donor = Field(str, { maxLength: 60 }); cents = Field(int, { ge: 1 }); }
app.post('/webhooks/donations', { body: Paid, public: 'called by the payment service', status: 204 }, async ({ body }) => {
  await new Donations(app.state.db).paid(body);
});
// FILE donations.ts
import type { Session } from 'svc/db';
export class Donations {
  readonly session: Session;
  constructor(session: Session) { this.session = session; }
  async paid({ event, donor, cents }: { event: string; donor: string; cents: number }) {
    await this.session.execute('insert into donation (event, donor, cents, state) values (?, ?, ?, ?) on conflict do nothing', [event, donor, cents, 'paid']); // SVC640
  }
}
// FILE migrations/0001_init.up.sql
create table donation (event text primary key, donor text not null, cents integer not null, state text not null);
`,
  'right: webhook without any verification: insert only': `
// FILE app.ts
import { Field, Schema, Svc, str, int, Unauthorized } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { Donations } from './donations.ts';
import { createHmac, timingSafeEqual } from 'node:crypto';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Paid extends Schema { event = Field(str, { maxLength: 60 }); donor = Field(str, { maxLength: 60 }); cents = Field(int, { ge: 1 }); }
const KEY = process.env['DONATION_KEY'] ?? '';
app.post('/webhooks/donations', { public: 'called by the payment service', status: 204 }, async ({ req }) => {
  const raw = await req.text();
  const own = createHmac('sha256', KEY).update(raw).digest();
  const given = Buffer.from(String(req.headers['x-signature'] ?? ''), 'hex');
  if (KEY === '' || own.length !== given.length || !timingSafeEqual(own, given)) throw new Unauthorized();
  await new Donations(app.state.db).paid(Paid.parse(JSON.parse(raw)));
});
// FILE donations.ts
import type { Session } from 'svc/db';
export class Donations {
  readonly session: Session;
  constructor(session: Session) { this.session = session; }
  async paid({ event, donor, cents }: { event: string; donor: string; cents: number }) {
    await this.session.execute('insert into donation (event, donor, cents, state) values (?, ?, ?, ?) on conflict do nothing', [event, donor, cents, 'paid']);
  }
}
// FILE migrations/0001_init.up.sql
create table donation (event text primary key, donor text not null, cents integer not null, state text not null);
`,
  'update without where: the condition is only built for a filter': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { markRead } from './notices.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Which extends Schema { topic = Field(str, { optional: true, maxLength: 40 }); }
app.get('/notices', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id, topic, text from notice where person = ? order by id', [me.sub]));
app.post('/notices/read', { me: Depends(BearerAuth()), db: Depends(db), body: Which, status: 204 }, ({ me, db, body }) => markRead(db, me.sub, body.topic));
// FILE notices.ts
import type { Session } from 'svc/db';
export async function markRead(session: Session, person: string, topic?: string): Promise<void> {
  if (topic === undefined) await session.execute('update notice set is_read = 1'); // SVC640
  else await session.execute('update notice set is_read = 1 where person = ? and topic = ?', [person, topic]);
}
// FILE migrations/0001_init.up.sql
create table notice (id integer primary key, person text not null, topic text not null, text text not null, is_read integer not null default 0);
`,
  'right: update without where: the condition is only built for a filter': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { markRead } from './notices.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Which extends Schema { topic = Field(str, { optional: true, maxLength: 40 }); }
app.get('/notices', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id, topic, text from notice where person = ? order by id', [me.sub]));
app.post('/notices/read', { me: Depends(BearerAuth()), db: Depends(db), body: Which, status: 204 }, ({ me, db, body }) => markRead(db, me.sub, body.topic));
// FILE notices.ts
import type { Session } from 'svc/db';
export async function markRead(session: Session, person: string, topic?: string): Promise<void> {
  if (topic === undefined) await session.execute('update notice set is_read = 1 where person = ?', [person]);
  else await session.execute('update notice set is_read = 1 where person = ? and topic = ?', [person, topic]);
}
// FILE migrations/0001_init.up.sql
create table notice (id integer primary key, person text not null, topic text not null, text text not null, is_read integer not null default 0);
`,
  'export of all tenants: a list without a condition beside lists of the tenant': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Contacts } from './contacts.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Claims extends Schema { sub = Field(str); company = Field(str); }
const me = BearerAuth(undefined, { schema: Claims });
app.get('/contacts', { me: Depends(me), db: Depends(db) }, ({ me, db }) => new Contacts(db, me.company).all());
app.get('/contacts/export', { me: Depends(me), db: Depends(db) }, async ({ me, db }) => {
  const rows = await new Contacts(db, me.company).forExport();
  return rows.map((row) => \`\${row['id']},\${row['created']}\`).join('\\n');
});
// FILE contacts.ts
import type { Session } from 'svc/db';
export class Contacts {
  readonly db: Session;
  readonly company: string;
  constructor(db: Session, company: string) { this.db = db; this.company = company; }
  all() { return this.db.fetchAll('select id, name from contact where company = ? order by name', [this.company]); }
  forExport() { return this.db.fetchAll('select id, created from contact order by id limit 10000'); } // SVC640
}
// FILE migrations/0001_init.up.sql
create table contact (id integer primary key, company text not null, name text not null, created integer not null);
`,
  'right: export of all tenants: a list without a condition beside lists of the tenant': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Contacts } from './contacts.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Claims extends Schema { sub = Field(str); company = Field(str); }
const me = BearerAuth(undefined, { schema: Claims });
app.get('/contacts', { me: Depends(me), db: Depends(db) }, ({ me, db }) => new Contacts(db, me.company).all());
app.get('/contacts/export', { me: Depends(me), db: Depends(db) }, async ({ me, db }) => {
  const rows = await new Contacts(db, me.company).forExport();
  return rows.map((row) => \`\${row['id']},\${row['created']}\`).join('\\n');
});
// FILE contacts.ts
import type { Session } from 'svc/db';
export class Contacts {
  readonly db: Session;
  readonly company: string;
  constructor(db: Session, company: string) { this.db = db; this.company = company; }
  all() { return this.db.fetchAll('select id, name from contact where company = ? order by name', [this.company]); }
  forExport() { return this.db.fetchAll('select id, created from contact where company = ? order by id limit 10000', [this.company]); }
}
// FILE migrations/0001_init.up.sql
create table contact (id integer primary key, company text not null, name text not null, created integer not null);
`,
  'soft-deleted rows: one statement forgets the condition': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { documents } from './documents.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
const me = BearerAuth();
app.get('/documents', { me: Depends(me), db: Depends(db) }, ({ me, db }) => documents(db).list(me.sub));
app.get('/documents/{id:int}', { me: Depends(me), db: Depends(db) }, async ({ me, db, params }) => {
  const found = await documents(db).one(me.sub, params.id);
  if (found === undefined) throw new NotFound();
  return found;
});
app.delete('/documents/{id:int}', { me: Depends(me), db: Depends(db), status: 204 }, async ({ me, db, params }) => { await documents(db).remove(me.sub, params.id); });
// FILE documents.ts
import type { Session } from 'svc/db';
export const documents = (db: Session) => ({
  list: (owner: string) => db.fetchAll('select id, title from document where owner = ? and deleted_at is null order by id', [owner]),
  one: (owner: string, id: number) => db.fetchOne('select id, title, text from document where owner = ? and id = ?', [owner, id]), // SVC672
  remove: (owner: string, id: number) => db.execute('update document set deleted_at = ? where owner = ? and id = ? and deleted_at is null', [Date.now(), owner, id]),
});
// FILE migrations/0001_init.up.sql
create table document (id integer primary key, owner text not null, title text not null, text text not null, deleted_at integer);
`,
  'right: soft-deleted rows: one statement forgets the condition': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { documents } from './documents.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
const me = BearerAuth();
app.get('/documents', { me: Depends(me), db: Depends(db) }, ({ me, db }) => documents(db).list(me.sub));
app.get('/documents/{id:int}', { me: Depends(me), db: Depends(db) }, async ({ me, db, params }) => {
  const found = await documents(db).one(me.sub, params.id);
  if (found === undefined) throw new NotFound();
  return found;
});
app.delete('/documents/{id:int}', { me: Depends(me), db: Depends(db), status: 204 }, async ({ me, db, params }) => { await documents(db).remove(me.sub, params.id); });
// FILE documents.ts
import type { Session } from 'svc/db';
export const documents = (db: Session) => ({
  list: (owner: string) => db.fetchAll('select id, title from document where owner = ? and deleted_at is null order by id', [owner]),
  one: (owner: string, id: number) => db.fetchOne('select id, title, text from document where owner = ? and id = ? and deleted_at is null', [owner, id]),
  remove: (owner: string, id: number) => db.execute('update document set deleted_at = ? where owner = ? and id = ? and deleted_at is null', [Date.now(), owner, id]),
});
// FILE migrations/0001_init.up.sql
create table document (id integer primary key, owner text not null, title text not null, text text not null, deleted_at integer);
`,
  'e-mail change without proof: the new address counts as verified': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Mailbox } from './mailbox.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, email text not null unique, email_verified integer not null default 0); create table mail_change (digest text primary key, person text not null, email text not null, until integer not null);'));
class Change extends Schema { email = Field(str, { email: true, maxLength: 200 }); }
app.put('/me/email', { me: Depends(BearerAuth()), db: Depends(db), body: Change, status: 204 }, async ({ me, db, body }) => {
  await new Mailbox(db).change(me.sub, body.email);
});
// FILE mailbox.ts
import type { Session } from 'svc/db';
import { hash, randomBytes } from 'node:crypto';
export class Mailbox {
  readonly db: Session;
  constructor(db: Session) { this.db = db; }
  async change(id: string, email: string) {
    await this.db.execute('update person set email = ? where id = ?', [email, id]); // SVC649
  }
}
`,
  'right: e-mail change without proof: the new address counts as verified': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Mailbox } from './mailbox.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, email text not null unique, email_verified integer not null default 0); create table mail_change (digest text primary key, person text not null, email text not null, until integer not null);'));
class Change extends Schema { email = Field(str, { email: true, maxLength: 200 }); }
app.put('/me/email', { me: Depends(BearerAuth()), db: Depends(db), body: Change, status: 204 }, async ({ me, db, body }) => {
  await new Mailbox(db).change(me.sub, body.email);
});
// FILE mailbox.ts
import type { Session } from 'svc/db';
import { hash, randomBytes } from 'node:crypto';
export class Mailbox {
  readonly db: Session;
  constructor(db: Session) { this.db = db; }
  async change(id: string, email: string) {
    const token = randomBytes(32).toString('base64url');
    await this.db.execute('insert into mail_change (digest, person, email, until) values (?, ?, ?, ?)', [hash('sha256', token), id, email, Date.now() + 3_600_000]);
  }
}
`,
  'account numbers in the log, by a wrapper': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str, int } from 'svc';
import { charge } from './gateway.ts';
import { audit } from './audit.ts';
export const app = new Svc();
class Payment extends Schema {
  iban = Field(str, { maxLength: 40 });
  cvc = Field(str, { pattern: '^\\\\d{3,4}$' });
  cents = Field(int, { ge: 1, le: 1_000_000 });
}
app.post('/payments', { me: Depends(BearerAuth()), body: Payment, status: 204 }, async ({ me, body }) => {
  audit(app.log, 'payment', { person: me.sub, card: body.iban, cents: body.cents });
  await charge(body);
});
// FILE audit.ts
import type { Logger } from 'svc';
export function audit(log: Logger, what: string, facts: Record<string, unknown>): void {
  log.info(what, facts); // SVC625
}
// FILE gateway.ts
export async function charge(card: { iban: string; cvc: string; cents: number }): Promise<void> {
  const response = await fetch('https://pay.example/charges', { method: 'POST', body: JSON.stringify(card), signal: AbortSignal.timeout(5_000) });
  if (!response.ok) throw new Error('declined');
}
`,
  'right: account numbers in the log, by a wrapper': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str, int } from 'svc';
import { charge } from './gateway.ts';
import { audit } from './audit.ts';
export const app = new Svc();
class Payment extends Schema {
  iban = Field(str, { maxLength: 40 });
  cvc = Field(str, { pattern: '^\\\\d{3,4}$' });
  cents = Field(int, { ge: 1, le: 1_000_000 });
}
app.post('/payments', { me: Depends(BearerAuth()), body: Payment, status: 204 }, async ({ me, body }) => {
  audit(app.log, 'payment', { person: me.sub, card: body.iban.slice(-4), cents: body.cents });
  await charge(body);
});
// FILE audit.ts
import type { Logger } from 'svc';
export function audit(log: Logger, what: string, facts: Record<string, unknown>): void {
  log.info(what, facts);
}
// FILE gateway.ts
export async function charge(card: { iban: string; cvc: string; cents: number }): Promise<void> {
  const response = await fetch('https://pay.example/charges', { method: 'POST', body: JSON.stringify(card), signal: AbortSignal.timeout(5_000) });
  if (!response.ok) throw new Error('declined');
}
`,
  'private data under public caching, by a helper': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { cacheable } from './http.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.get('/statement', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ me, db }) => {
  const rows = await db.fetchAll('select at, cents from entry where person = ? order by at', [me.sub]);
  return cacheable(rows, 300, 'shared');
});
// FILE http.ts
import { reply } from 'svc';
export function cacheable(body: unknown, seconds: number, who: 'shared' | 'own') {
  const scope = who === 'shared' ? 'public' : 'private';
  return reply(body as never, 200, { 'Cache-Control': \`\${scope}, max-age=\${seconds}\` }); // SVC638
}
// FILE migrations/0001_init.up.sql
create table entry (person text not null, at integer not null, cents integer not null);
`,
  'right: private data under public caching, by a helper': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { cacheable } from './http.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.get('/statement', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ me, db }) => {
  const rows = await db.fetchAll('select at, cents from entry where person = ? order by at', [me.sub]);
  return cacheable(rows, 300, 'own');
});
// FILE http.ts
import { reply } from 'svc';
export function cacheable(body: unknown, seconds: number, who: 'shared' | 'own') {
  const scope = who === 'shared' ? 'public' : 'private';
  return reply(body as never, 200, { 'Cache-Control': \`\${scope}, max-age=\${seconds}\` });
}
// FILE migrations/0001_init.up.sql
create table entry (person text not null, at integer not null, cents integer not null);
`,
  'sessions that outlive a password and a switched-off account': `
// FILE app.ts
import { RateLimitMiddleware, Depends, Field, Schema, Svc, Unauthorized, checkPassword, hashPassword, provide, str, BearerAuth } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Accounts } from './accounts.ts';
import { Sessions } from './sessions.ts';
import { TABLES } from './tables.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 10 }));
app.register(new DatabasePlugin('postgres://app@db/app'));
app.onStartup(async ({ state }) => { for (const text of TABLES) await state.db.execute(text); });
const user = provide({ db: Depends(db), security: { scheme: 'cookie' } }, async ({ db, req }) => {
  const id = await new Sessions(db).find(req.cookies['sid'] ?? '');
  if (id === undefined) throw new Unauthorized();
  return id;
});
class Login extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200 }); }
class Change extends Schema { old = Field(str, { maxLength: 200 }); password = Field(str, { minLength: 12, maxLength: 200 }); }
app.post('/login', { db: Depends(db), body: Login, public: 'login' }, async ({ db, body }) => {
  const account = await new Accounts(db).byEmail(body.email);
  if (!(await checkPassword(body.password, account?.password)) || account === undefined) throw new Unauthorized();
  return { token: await new Sessions(db).start(account.id) };
});
app.post('/password', { user: Depends(user), db: Depends(db), body: Change, status: 204 }, async ({ user, db, body }) => {
  const accounts = new Accounts(db);
  if (!(await checkPassword(body.old, await accounts.passwordOf(user)))) throw new Unauthorized();
  await accounts.setPassword(user, await hashPassword(body.password));
});
app.post('/accounts/{id}/deactivate', { user: Depends(user), db: Depends(db), status: 204 }, async ({ user, db }) => {
  await new Accounts(db).deactivate(user);
});
// FILE accounts.ts
import { Schema, str, Field } from 'svc';
import type { Database } from 'svc/db';
class Account extends Schema { id = Field(str); password = Field(str); }
export class Accounts {
  #db: Database;
  constructor(db: Database) { this.#db = db; }
  byEmail(email: string) { return this.#db.fetchOne('select id, password from account where email = ? and active = 1', [email], { as: Account }); }
  async passwordOf(id: string) { return (await this.#db.scalar('select password from account where id = ?', [id], { as: str })) ?? ''; }
  async setPassword(id: string, hash: string) { await this.#db.execute('update account set password = ? where id = ?', [hash, id]); } // SVC674
  async deactivate(id: string) { await this.#db.execute('update account set active = 0 where id = ?', [id]); } // SVC674
}
// FILE sessions.ts
import { createHash, randomBytes } from 'node:crypto';
import { str } from 'svc';
import type { Database } from 'svc/db';
const digest = (token: string) => createHash('sha256').update(token).digest('hex');
export class Sessions {
  #db: Database;
  constructor(db: Database) { this.#db = db; }
  async start(account: string) {
    const token = randomBytes(32).toString('base64url');
    await this.#db.execute('insert into login (digest, account, ends) values (?, ?, ?)', [digest(token), account, new Date(Date.now() + 86400000)]);
    return token;
  }
  find(token: string) { return this.#db.scalar('select account from login where digest = ? and ends > now()', [digest(token)], { as: str }); }
}
// FILE tables.ts
export const TABLES = [
  'create table account (id text primary key, email text not null unique, password text not null, active integer not null default 1)',
  'create table login (digest text primary key, account text not null references account (id), ends timestamptz not null)',
];
`,
  'right: sessions that outlive a password and a switched-off account': `
// FILE app.ts
import { RateLimitMiddleware, Depends, Field, Schema, Svc, Unauthorized, checkPassword, hashPassword, provide, str, BearerAuth } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Accounts } from './accounts.ts';
import { Sessions } from './sessions.ts';
import { TABLES } from './tables.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 10 }));
app.register(new DatabasePlugin('postgres://app@db/app'));
app.onStartup(async ({ state }) => { for (const text of TABLES) await state.db.execute(text); });
const user = provide({ db: Depends(db), security: { scheme: 'cookie' } }, async ({ db, req }) => {
  const id = await new Sessions(db).find(req.cookies['sid'] ?? '');
  if (id === undefined) throw new Unauthorized();
  return id;
});
class Login extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200 }); }
class Change extends Schema { old = Field(str, { maxLength: 200 }); password = Field(str, { minLength: 12, maxLength: 200 }); }
app.post('/login', { db: Depends(db), body: Login, public: 'login' }, async ({ db, body }) => {
  const account = await new Accounts(db).byEmail(body.email);
  if (!(await checkPassword(body.password, account?.password)) || account === undefined) throw new Unauthorized();
  return { token: await new Sessions(db).start(account.id) };
});
app.post('/password', { user: Depends(user), db: Depends(db), body: Change, status: 204 }, async ({ user, db, body }) => {
  const accounts = new Accounts(db);
  if (!(await checkPassword(body.old, await accounts.passwordOf(user)))) throw new Unauthorized();
  await accounts.setPassword(user, await hashPassword(body.password));
});
app.post('/accounts/{id}/deactivate', { user: Depends(user), db: Depends(db), status: 204 }, async ({ user, db }) => {
  await new Accounts(db).deactivate(user);
});
// FILE accounts.ts
import { Schema, str, Field } from 'svc';
import type { Database } from 'svc/db';
class Account extends Schema { id = Field(str); password = Field(str); }
export class Accounts {
  #db: Database;
  constructor(db: Database) { this.#db = db; }
  byEmail(email: string) { return this.#db.fetchOne('select id, password from account where email = ? and active = 1', [email], { as: Account }); }
  async passwordOf(id: string) { return (await this.#db.scalar('select password from account where id = ?', [id], { as: str })) ?? ''; }
  async setPassword(id: string, hash: string) { await this.#db.transaction(async (tx) => { await tx.execute('update account set password = ? where id = ?', [hash, id]); await tx.execute('delete from login where account = ?', [id]); }); }
  async deactivate(id: string) { await this.#db.transaction(async (tx) => { await tx.execute('update account set active = 0 where id = ?', [id]); await tx.execute('delete from login where account = ?', [id]); }); }
}
// FILE sessions.ts
import { createHash, randomBytes } from 'node:crypto';
import { str } from 'svc';
import type { Database } from 'svc/db';
const digest = (token: string) => createHash('sha256').update(token).digest('hex');
export class Sessions {
  #db: Database;
  constructor(db: Database) { this.#db = db; }
  async start(account: string) {
    const token = randomBytes(32).toString('base64url');
    await this.#db.execute('insert into login (digest, account, ends) values (?, ?, ?)', [digest(token), account, new Date(Date.now() + 86400000)]);
    return token;
  }
  find(token: string) { return this.#db.scalar('select account from login where digest = ? and ends > now()', [digest(token)], { as: str }); }
}
// FILE tables.ts
export const TABLES = [
  'create table account (id text primary key, email text not null unique, password text not null, active integer not null default 1)',
  'create table login (digest text primary key, account text not null references account (id), ends timestamptz not null)',
];
`,
  'right: a column that a login does not ask': `
// FILE app.ts
import { RateLimitMiddleware, Depends, Field, Schema, Svc, Unauthorized, checkPassword, hashPassword, provide, str, BearerAuth } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Accounts } from './accounts.ts';
import { Sessions } from './sessions.ts';
import { TABLES } from './tables.ts';
export const app = new Svc();
app.use(new RateLimitMiddleware({ perMinute: 10 }));
app.register(new DatabasePlugin('postgres://app@db/app'));
app.onStartup(async ({ state }) => { for (const text of TABLES) await state.db.execute(text); });
const user = provide({ db: Depends(db), security: { scheme: 'cookie' } }, async ({ db, req }) => {
  const id = await new Sessions(db).find(req.cookies['sid'] ?? '');
  if (id === undefined) throw new Unauthorized();
  return id;
});
class Login extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200 }); }
class Change extends Schema { old = Field(str, { maxLength: 200 }); password = Field(str, { minLength: 12, maxLength: 200 }); }
app.post('/login', { db: Depends(db), body: Login, public: 'login' }, async ({ db, body }) => {
  const account = await new Accounts(db).byEmail(body.email);
  if (!(await checkPassword(body.password, account?.password)) || account === undefined) throw new Unauthorized();
  return { token: await new Sessions(db).start(account.id) };
});
app.post('/password', { user: Depends(user), db: Depends(db), body: Change, status: 204 }, async ({ user, db, body }) => {
  const accounts = new Accounts(db);
  if (!(await checkPassword(body.old, await accounts.passwordOf(user)))) throw new Unauthorized();
  await accounts.setPassword(user, await hashPassword(body.password));
});
app.get('/letters', { user: Depends(user), db: Depends(db) }, ({ user, db }) => db.fetchAll('select email from account where letters = 1 and id = ? order by id limit 9', [user]));
app.post('/letters/stop', { user: Depends(user), db: Depends(db), status: 204 }, async ({ user, db }) => {
  await new Accounts(db).deactivate(user);
});
// FILE accounts.ts
import { Schema, str, Field } from 'svc';
import type { Database } from 'svc/db';
class Account extends Schema { id = Field(str); password = Field(str); }
export class Accounts {
  #db: Database;
  constructor(db: Database) { this.#db = db; }
  byEmail(email: string) { return this.#db.fetchOne('select id, password from account where email = ? and active = 1', [email], { as: Account }); }
  async passwordOf(id: string) { return (await this.#db.scalar('select password from account where id = ?', [id], { as: str })) ?? ''; }
  async setPassword(id: string, hash: string) { await this.#db.transaction(async (tx) => { await tx.execute('update account set password = ? where id = ?', [hash, id]); await tx.execute('delete from login where account = ?', [id]); }); }
  async deactivate(id: string) { await this.#db.execute('update account set letters = 0 where id = ?', [id]); }
}
// FILE sessions.ts
import { createHash, randomBytes } from 'node:crypto';
import { str } from 'svc';
import type { Database } from 'svc/db';
const digest = (token: string) => createHash('sha256').update(token).digest('hex');
export class Sessions {
  #db: Database;
  constructor(db: Database) { this.#db = db; }
  async start(account: string) {
    const token = randomBytes(32).toString('base64url');
    await this.#db.execute('insert into login (digest, account, ends) values (?, ?, ?)', [digest(token), account, new Date(Date.now() + 86400000)]);
    return token;
  }
  find(token: string) { return this.#db.scalar('select account from login where digest = ? and ends > now()', [digest(token)], { as: str }); }
}
// FILE tables.ts
export const TABLES = [
  'create table account (id text primary key, email text not null unique, password text not null, active integer not null default 1, letters integer not null default 1)',
  'create table login (digest text primary key, account text not null references account (id), ends timestamptz not null)',
];
`,
};
