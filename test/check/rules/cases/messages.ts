/** Messages to other services, columns that clients name, optional conditions, and keys beyond 2 ** 53. */
export const MESSAGES: Readonly<Record<string, string>> = {
  'a secret for the typed address': `
import { Depends, Field, Svc, str } from 'svc';
import { db } from 'svc/db';
import { createHash, randomUUID } from 'node:crypto';
export const app = new Svc();
const query = { mail: Field(str, { maxLength: 90 }) };
app.post('/magic', { base: Depends(db), query, public: 'login by mail', rateLimit: { perMinute: 3 } }, async ({ base, query: { mail } }) => {
  const member = await base.fetchOne('select id, mail from member where mail_key = ?', [mail.toLowerCase()]);
  if (member) {
    const slip = randomUUID();
    await base.execute('insert into slip (hash, member, ends_at) values (?, ?, ?)', [createHash('sha256').update(slip).digest('hex'), member.id, Date.now() + 600_000]);
    await fetch('https://mail.example/send?to=' + encodeURIComponent(mail), { method: 'POST', body: slip, signal: AbortSignal.timeout(3_000) }); // SVC639
  }
});
`,
  'right: a secret for the stored address, or for an address that ASCII limits': `
import { Depends, Field, Svc, str } from 'svc';
import { db } from 'svc/db';
import { createHash, randomUUID } from 'node:crypto';
export const app = new Svc();
const post = (to, text) => fetch('https://mail.example/send?to=' + encodeURIComponent(to), { method: 'POST', body: text, signal: AbortSignal.timeout(3_000) });
const digest = (text) => createHash('sha256').update(text).digest('hex');
app.post('/magic', { base: Depends(db), query: { mail: Field(str, { maxLength: 90 }) }, public: 'login by mail', rateLimit: { perMinute: 3 } }, async ({ base, query: { mail } }) => {
  const member = await base.fetchOne('select id, mail from member where mail_key = ?', [mail.toLowerCase()]);
  if (member) {
    const slip = randomUUID();
    await base.execute('insert into slip (hash, member, ends_at) values (?, ?, ?)', [digest(slip), member.id, Date.now() + 600_000]);
    await post(String(member.mail), slip);
  }
});
app.post('/plain', { base: Depends(db), query: { name: Field(str, { pattern: '^[A-Za-z.]{1,30}$' }) }, public: 'login by name', rateLimit: { perMinute: 3 } }, async ({ base, query: { name } }) => {
  const member = await base.fetchOne('select id from member where name_key = ?', [name.toLowerCase()]);
  if (member) {
    const slip = randomUUID();
    await base.execute('insert into slip (hash, member, ends_at) values (?, ?, ?)', [digest(slip), member.id, Date.now() + 600_000]);
    await post(name, slip);
  }
});
app.post('/join', { base: Depends(db), query: { mail: Field(str, { maxLength: 90 }) }, public: 'sign up', rateLimit: { perMinute: 3 } }, async ({ base, query: { mail } }) => {
  const taken = await base.scalar('select 1 from member where mail_key = ?', [mail.toLowerCase()]);
  const slip = randomUUID();
  if (!taken) {
    await base.execute('insert into joining (hash, mail, mail_key, ends_at) values (?, ?, ?, ?)', [digest(slip), mail, mail.toLowerCase(), Date.now() + 600_000]);
    await post(mail, slip);
  }
});
`,
  'a payment sent again': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, int } from 'svc';
import { setTimeout } from 'node:timers/promises';
import { settle } from './payments.ts';
export const app = new Svc();
app.post('/tips', { me: Depends(BearerAuth()), query: { cents: Field(int, { ge: 1, le: 9_000 }) } }, async ({ me, query }) => {
  for (const pause of [50, 500, 5_000]) {
    try {
      await settle(me.sub, query.cents);
      break;
    } catch {
      await setTimeout(pause);
    }
  }
});
// FILE payments.ts
export async function settle(payer, cents) {
  const options = { signal: AbortSignal.timeout(2_000) };
  const answer = await fetch('https://pay.example/v1/debits', { ...options, method: 'POST', body: JSON.stringify({ payer, amount_cents: cents }) }); // SVC657
  if (!answer.ok) throw new Error('not paid');
}
`,
  'right: a payment with a key, or sent once': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, int } from 'svc';
import { setTimeout } from 'node:timers/promises';
import { settle, refund } from './payments.ts';
export const app = new Svc();
app.post('/tips', { me: Depends(BearerAuth()), query: { cents: Field(int, { ge: 1, le: 9_000 }) } }, async ({ me, query }) => {
  const key = crypto.randomUUID();
  for (const pause of [50, 500, 5_000]) {
    try {
      await settle(me.sub, query.cents, key);
      break;
    } catch {
      await setTimeout(pause);
    }
  }
});
app.post('/refunds', { me: Depends(BearerAuth()), query: { cents: Field(int, { ge: 1, le: 9_000 }) } }, async ({ me, query }) => {
  for (const payer of [me.sub, 'house']) {
    try {
      await refund(payer, query.cents);
    } catch (error) {
      throw new Error('refund', { cause: error });
    }
  }
});
// FILE payments.ts
export async function settle(payer, cents, key) {
  const answer = await fetch('https://pay.example/v1/debits', { method: 'POST', body: JSON.stringify({ payer, amount_cents: cents, idempotency_key: key }), signal: AbortSignal.timeout(2_000) });
  if (!answer.ok) throw new Error('not paid');
}
export async function refund(payer, cents) {
  const answer = await fetch('https://pay.example/v1/refunds', { method: 'POST', body: JSON.stringify({ payer, amount_cents: cents }), signal: AbortSignal.timeout(2_000) });
  if (!answer.ok) throw new Error('not paid');
}
`,
  'a job deleted too early': `
import { Svc } from 'svc';
export const app = new Svc();
const next = async (base) => {
  const [job] = await base.fetchAll('delete from ping where id = (select min(id) from ping) returning id, target'); // SVC659
  if (job) await fetch(new URL(String(job.target), 'https://ping.example'), { method: 'POST', body: String(job.id), signal: AbortSignal.timeout(4_000) });
};
app.onStartup(async () => { await next(app.state.db); });
`,
  'right: a job deleted afterwards, or written back': `
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
const ping = (job) => fetch(new URL(String(job.target), 'https://ping.example'), { method: 'POST', body: String(job.id), signal: AbortSignal.timeout(4_000) });
const next = async (base) => {
  const job = await base.fetchOne('select id, target from ping order by id limit 1');
  if (job === undefined) return;
  await ping(job);
  await base.execute('delete from ping where id = ?', [job.id]);
};
const other = async (base) => {
  const job = await base.fetchOne('delete from pong where id = (select min(id) from pong) returning id, target');
  if (job === undefined) return;
  try {
    await ping(job);
  } catch {
    await base.execute('insert into pong (id, target) values (?, ?)', [job.id, job.target]);
  }
};
app.onStartup(async () => { await next(app.state.db); await other(app.state.db); });
app.delete('/me', { me: Depends(BearerAuth()), base: Depends(db) }, async ({ me, base }) => {
  const row = await base.fetchOne('select id, target from ping where owner = ?', [me.sub]);
  if (row === undefined) return;
  await base.execute('delete from ping where id = ?', [row.id]);
  await ping(row);
});
`,
  'columns named by a client': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { patch } from './patch.ts';
export const app = new Svc();
app.put('/card', { me: Depends(BearerAuth()), base: Depends(db) }, async ({ req, me, base }) => patch(base, await req.json(), me.sub));
// FILE patch.ts
const plain = /^\\w+$/;
export async function patch(base, wishes, owner) {
  const columns = Object.keys(wishes).filter((name) => plain.test(name));
  await base.execute(\`update card set \${columns.map((name) => name + ' = ?').join()} where owner = ?\`, [...columns.map((name) => String(wishes[name])), owner]); // SVC641
}
`,
  'right: columns of a list, and a column after which a client sorts': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { patch } from './patch.ts';
export const app = new Svc();
app.put('/card', { me: Depends(BearerAuth()), base: Depends(db) }, async ({ req, me, base }) => patch(base, await req.json(), me.sub));
// FILE patch.ts
const free = new Set(['title', 'color']);
export async function patch(base, wishes, owner) {
  const columns = Object.keys(wishes).filter((name) => free.has(name));
  await base.execute(\`update card set \${columns.map((name) => name + ' = ?').join()} where owner = ?\`, [...columns.map((name) => String(wishes[name])), owner]);
}
`,
  'a condition whose lists may be empty': `
import { Depends, Field, Schema, Svc, list, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
export const app = new Svc();
class Choice extends Schema {
  tags = Field(list(str), { maxLength: 20, default: () => [] });
  names = Field(list(str), { maxLength: 20, default: () => [] });
}
app.post('/purge', { me: Depends(requireRoles('keeper')), base: Depends(db), body: Choice }, async ({ base, body }) => {
  const { tags, names } = body;
  await base.execute(sql\`delete from entry where \${sql.and(tags.length !== 0 && sql.in(sql\`tag\`, tags), names.length > 0 && sql.in(sql\`name\`, names))}\`); // SVC637
});
`,
  'right: a condition with one list at least': `
import { BadRequest, Depends, Field, Schema, Svc, list, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
export const app = new Svc();
class Choice extends Schema {
  tags = Field(list(str), { maxLength: 20, default: () => [] });
  names = Field(list(str), { maxLength: 20, default: () => [] });
}
app.post('/purge', { me: Depends(requireRoles('keeper')), base: Depends(db), body: Choice }, async ({ base, body }) => {
  const { tags, names } = body;
  if (tags.length + names.length === 0) throw new BadRequest('Choose entries');
  await base.execute(sql\`delete from entry where \${sql.and(tags.length !== 0 && sql.in(sql\`tag\`, tags), names.length > 0 && sql.in(sql\`name\`, names))}\`);
});
`,
  'a key read as a number': `
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
const fresh = () => BigInt(Date.now()) * 4096n;
app.post('/marks', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base }) => base.execute('insert into mark (key, owner) values (?, ?)', [fresh(), me.sub]));
app.delete('/marks/{key}', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base, params }) =>
  base.execute('delete from mark where key = ? and owner = ?', [Number(params.key), me.sub])); // SVC660 SVC415
`,
  'right: a key read as a bigint, or refused where a number does not hold it': `
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
const fresh = () => BigInt(Date.now()) * 4096n;
app.post('/marks', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base }) => base.execute('insert into mark (key, owner) values (?, ?)', [fresh(), me.sub]));
app.delete('/marks/{key}', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base, params }) =>
  base.execute('delete from mark where key = ? and owner = ?', [BigInt(params.key), me.sub]));
app.put('/marks/{old}', { me: Depends(BearerAuth()), base: Depends(db) }, async ({ me, base, params }) => {
  const old = Number(params.old);
  if (!Number.isSafeInteger(old)) throw new NotFound();
  await base.execute('update mark set seen = 1 where key = ? and owner = ?', [old, me.sub]);
});
`,
  'an account found by a claimed address': `
import { Depends, Field, Schema, SessionMiddleware, Svc, Unauthorized, sessionKey, str } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
app.use(new SessionMiddleware());
const who = sessionKey('who');
class Code extends Schema { code = Field(str, { maxLength: 300, secret: true }); }
app.post('/sso', { base: Depends(db), body: Code, public: 'login', rateLimit: { perMinute: 5 } }, async ({ req, base, body }) => {
  const answer = await fetch('https://id.example/me', { headers: { Authorization: \`Bearer \${body.code}\` }, signal: AbortSignal.timeout(2_000) });
  const person = await answer.json();
  const id = await base.scalar('select id from member where mail = ?', [person.email]); // SVC627
  if (id === undefined) throw new Unauthorized();
  req.session.regenerate();
  req.session.set(who, id);
});
`,
  'right: an account found by a verified address, and a contact that is no login': `
import { BearerAuth, Depends, Field, Schema, SessionMiddleware, Svc, Unauthorized, sessionKey, str } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
app.use(new SessionMiddleware());
const who = sessionKey('who');
class Code extends Schema { code = Field(str, { maxLength: 300, secret: true }); }
app.post('/sso', { base: Depends(db), body: Code, public: 'login', rateLimit: { perMinute: 5 } }, async ({ req, base, body }) => {
  const answer = await fetch('https://id.example/me', { headers: { Authorization: \`Bearer \${body.code}\` }, signal: AbortSignal.timeout(2_000) });
  const person = await answer.json();
  if (person.email_verified !== true) throw new Unauthorized();
  const id = await base.scalar('select id from member where mail = ?', [person.email]);
  if (id === undefined) throw new Unauthorized();
  req.session.regenerate();
  req.session.set(who, id);
});
app.get('/contact', { me: Depends(BearerAuth()), base: Depends(db) }, async ({ base }) => {
  const answer = await fetch('https://crm.example/newest', { signal: AbortSignal.timeout(2_000) });
  const { email } = await answer.json();
  return base.fetchAll('select id, name from contact where mail = ? limit 20', [email]);
});
`,
  'addresses that wait for the login': `
// FILE app.ts
import { Svc, Depends, RedirectResponse, requireSession, SessionMiddleware, str, Field, reply } from 'svc';
import { backTo, remember } from './back.ts';
export const app = new Svc({ middleware: [new SessionMiddleware()] });
app.get('/login', { query: { next: Field(str, { default: '/' }) }, public: 'login' }, ({ req, query }) => {
  req.session.set('next', query.next);
  return 'form';
});
app.get('/callback', { public: 'login' }, ({ req }) => {
  const to = req.session.get('next');
  return new RedirectResponse(to ?? '/'); // SVC605
});
app.get('/start', { query: { return_to: str }, public: 'login' }, ({ query }) => reply('ok', 200, { 'Set-Cookie': \`back=\${encodeURIComponent(query.return_to)}; Path=/; HttpOnly\` }));
app.get('/done', { public: 'x' }, ({ req }) => new RedirectResponse(decodeURIComponent(req.cookies.back ?? '/'))); // SVC605
app.get('/login2', { query: { next: str }, public: 'x' }, ({ req, query }) => { remember(req, query.next); return 'form'; });
app.get('/done2', { public: 'x' }, ({ req }) => backTo(req));
// FILE back.ts
import { reply } from 'svc';
export function remember(req, next) { req.session.set('target', { path: next }); }
export function backTo(req) { return reply(null, 303, { Location: req.session.get('target')?.path ?? '/' }); } // SVC605
`,
  'right: addresses that wait for the login': `
// FILE app.ts
import { Svc, RedirectResponse, SessionMiddleware, str, localPath } from 'svc';
export const app = new Svc({ middleware: [new SessionMiddleware()] });
app.get('/login', { query: { next: str }, public: 'login' }, ({ req, query }) => {
  req.session.set('next', localPath(query.next) ?? '/');
  return 'form';
});
app.get('/callback', { public: 'login' }, ({ req }) => new RedirectResponse(req.session.get('next') ?? '/'));
app.get('/x', { query: { page: str }, public: 'login' }, ({ req, query }) => {
  req.session.set('page', query.page);
  return 'form';
});
app.get('/y', { public: 'login' }, ({ req }) => new RedirectResponse(localPath(req.session.get('page')) ?? '/'));
`,
  'uploads shown by the type in their row': `
// FILE app.ts
import { Svc, Depends, BearerAuth, reply, HttpResponse, FileResponse, int, Field, UploadFile, contentDisposition } from 'svc';
import { db } from 'svc/db';
import { Files } from './files.ts';
export const app = new Svc();
app.post('/files', { me: Depends(BearerAuth()), form: { file: Field(UploadFile) }, db: Depends(db), }, async ({ form, db, me }) => {
  await db.execute('insert into file (owner, name, type, data) values (?, ?, ?, ?)', [me.sub, form.file.filename, form.file.contentType, await form.file.bytes()]);
  return { ok: true };
});
app.get('/files/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ params, db, me }) => {
  const row = await db.fetchOne('select type, data from file where id = ? and owner = ?', [params.id, me.sub]);
  if (row === undefined) throw new Error('x');
  return new HttpResponse(row.data, { headers: { 'Content-Type': row.type } }); // SVC609
});
app.get('/files2/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ params, db, me }) => new Files(db).send(params.id, me.sub));
app.get('/files3/{id:int}', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ params, db, me }) => {
  const row = await db.fetchOne('select name, type, data from file where id = ? and owner = ?', [params.id, me.sub]);
  if (row === undefined) throw new Error('x');
  return new HttpResponse(row.data, { headers: { 'Content-Type': row.type, 'Content-Disposition': contentDisposition(row.name) } });
});
// FILE files.ts
import { HttpResponse, NotFound } from 'svc';
export class Files {
  constructor(readonly db) {}
  async send(id, owner) {
    const file = await this.db.fetchOne('select name, type, data from file where id = ? and owner = ?', [id, owner]);
    if (file === undefined) throw new NotFound();
    return new HttpResponse(file.data, { mediaType: file.type, headers: { 'Content-Disposition': \`inline; filename="x"\` } }); // SVC609
  }
}
`,
  'columns of rows without a class in pages': `
// FILE app.ts
import { Svc, Depends, BearerAuth, HTMLResponse, Schema, Field, str, escapeHtml, int } from 'svc';
import { db } from 'svc/db';
import { page, card } from './views.ts';
class Comment extends Schema { text = Field(str, { maxLength: 2000 }); stars = int; }
export const app = new Svc();
app.post('/comments', { me: Depends(BearerAuth()), body: Comment, db: Depends(db) }, async ({ body, db, me }) => {
  await db.execute('insert into comment (owner, text, stars) values (?, ?, ?)', [me.sub, body.text, body.stars]);
  return { ok: true };
});
app.get('/comments', { public: 'a', db: Depends(db) }, async ({ db }) => {
  const rows = await db.fetchAll('select text, stars from comment order by id limit 50');
  return new HTMLResponse(\`<ul>\${rows.map((row) => \`<li>\${row.text} \${row.stars}</li>\`).join('')}</ul>\`); // SVC608
});
app.get('/comments2', { public: 'a', db: Depends(db) }, async ({ db }) => {
  const rows = await db.fetchAll('select text, stars from comment order by id limit 50');
  return new HTMLResponse(\`<ul>\${rows.map((row) => \`<li>\${escapeHtml(row.text)} \${row.stars}</li>\`).join('')}</ul>\`);
});
app.get('/comments3', { public: 'a', db: Depends(db) }, async ({ db }) => {
  const rows = await db.fetchAll('select text, stars from comment order by id limit 50');
  return new HTMLResponse(page(rows));
});
app.get('/comments/{id:int}', { public: 'a', db: Depends(db) }, async ({ db, params }) => {
  const row = await db.fetchOne('select text from comment where id = ?', [params.id]);
  return new HTMLResponse(row === undefined ? 'no' : card(row));
});
// FILE views.ts
export const card = ({ text }) => \`<article>\${text}</article>\`; // SVC608
export function page(rows) {
  let html = '<ul>';
  for (const { text, stars } of rows) html += \`<li title="\${stars}">\${text}</li>\`; // SVC608
  return html + '</ul>';
}
`,
};
