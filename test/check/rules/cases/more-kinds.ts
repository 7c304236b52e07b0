/** Applications with mistakes that rules of another name find, and with the same work done right. */
export const MORE_KINDS: Readonly<Record<string, string>> = {
  'get writes2': `
// FILE app.ts
import { Svc, Depends, BearerAuth } from 'svc';
import { db } from 'svc/db';
import { archive } from './archive.ts';
export const app = new Svc();
app.get('/notes/{id:int}/archive', { store: Depends(db), me: Depends(BearerAuth()) }, async ({ params, store, me }) => archive(store, params.id, me.sub)); // SVC216
// FILE archive.ts
import { sql, type Database } from 'svc/db';
export async function archive(store: Database, id: number, owner: string) {
  const result = await store.execute(sql\`update note set archived = true where id = \${id} and owner = \${owner}\`);
  return { changed: result.affectedRows };
}
`,
  'right: get writes2': `
// FILE app.ts
import { Svc, Depends, BearerAuth } from 'svc';
import { db } from 'svc/db';
import { archive } from './archive.ts';
export const app = new Svc();
app.post('/notes/{id:int}/archive', { store: Depends(db), me: Depends(BearerAuth()) }, async ({ params, store, me }) => archive(store, params.id, me.sub));
app.get('/notes/{id:int}', { store: Depends(db), me: Depends(BearerAuth()) }, async ({ params, store, me }) => {
  await store.execute('update note set views = views + 1 where id = ?', [params.id]);
  return store.fetchAll('select id, text from note where id = ? and owner = ?', [params.id, me.sub]);
});
// FILE archive.ts
import { sql, type Database } from 'svc/db';
export async function archive(store: Database, id: number, owner: string) {
  const result = await store.execute(sql\`update note set archived = true where id = \${id} and owner = \${owner}\`);
  return { changed: result.affectedRows };
}
`,
  timing: `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { partner } from './partner.ts';
export const app = new Svc();
app.post('/orders', { partner: Depends(partner) }, () => ({ ok: true }));
// FILE partner.ts
import { provide, Unauthorized } from 'svc';
const own = process.env['PARTNER_CODE'] ?? '';
export const partner = provide({ security: [{ type: 'apiKey', in: 'header', name: 'x-partner' }] }, ({ req }) => {
  const sent = req.headers['x-partner'];
  if (sent !== own) throw new Unauthorized(); // SVC621
  return { name: 'partner' };
});
`,
  'right: timing': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { partner } from './partner.ts';
export const app = new Svc();
app.post('/orders', { partner: Depends(partner) }, () => ({ ok: true }));
// FILE partner.ts
import { provide, Unauthorized } from 'svc';
import { createHash, timingSafeEqual } from 'node:crypto';
const own = process.env['PARTNER_CODE'] ?? '';
const digest = (text: string) => createHash('sha256').update(text).digest();
const region = process.env['REGION'] ?? 'eu';
export const partner = provide({ security: [{ type: 'apiKey', in: 'header', name: 'x-partner' }] }, ({ req }) => {
  const sent = req.headers['x-partner'] ?? '';
  if (req.headers['x-region'] !== region) throw new Unauthorized();
  if (!timingSafeEqual(digest(sent), digest(own))) throw new Unauthorized();
  return { name: 'partner' };
});
`,
  'webhook unsigned': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { settle } from './payments.ts';
export const app = new Svc();
app.post('/webhooks/payments', { store: Depends(db), public: 'the payment provider calls it' }, async ({ req, store }) => {
  const event = await req.json();
  await settle(store, event);
  return { ok: true };
});
// FILE payments.ts
import type { Database } from 'svc/db';
export async function settle(store: Database, event: any) {
  if (event.type === 'paid') await store.execute("update invoice set state = 'paid' where id = ?", [event.invoice]); // SVC640
}
`,
  'right: webhook unsigned': `
// FILE app.ts
import { Svc, Depends, Unauthorized } from 'svc';
import { db } from 'svc/db';
import { settle, isSigned } from './payments.ts';
export const app = new Svc();
app.post('/webhooks/payments', { store: Depends(db), public: 'the payment provider calls it' }, async ({ req, store }) => {
  const raw = await req.body();
  if (!isSigned(raw, req.headers['x-signature'] ?? '')) throw new Unauthorized();
  await settle(store, JSON.parse(raw.toString()));
  return { ok: true };
});
// FILE payments.ts
import type { Database } from 'svc/db';
import { createHmac, timingSafeEqual } from 'node:crypto';
export function isSigned(raw: Uint8Array, sent: string) {
  const own = createHmac('sha256', process.env.HOOK_KEY!).update(raw).digest(); // SVC401
  const given = Buffer.from(sent, 'hex');
  return given.length === own.length && timingSafeEqual(own, given);
}
export async function settle(store: Database, event: any) {
  if (event.type === 'paid') await store.execute("update invoice set state = 'paid' where id = ?", [event.invoice]);
}
`,
  'fail open': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Forbidden } from 'svc';
import { Policy } from './policy.ts';
export const app = new Svc();
const policy = new Policy('https://policy.example');
app.post('/deploy', { me: Depends(BearerAuth()) }, async ({ me, req }) => {
  if ((await policy.decide(me.sub, req.signal)) === 'deny') throw new Forbidden();
  return { started: true };
});
// FILE policy.ts
export class Policy {
  constructor(readonly host: string) {}
  async decide(who: string, signal: AbortSignal): Promise<'allow' | 'deny'> {
    try {
      const answer = await fetch(\`\${this.host}/decide?who=\${encodeURIComponent(who)}\`, { signal });
      return ((await answer.json()) as { result: 'allow' | 'deny' }).result;
    } catch {
      return 'allow'; // SVC645
    }
  }
}
`,
  'right: fail open': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Forbidden } from 'svc';
import { Policy } from './policy.ts';
export const app = new Svc();
const policy = new Policy('https://policy.example');
app.post('/deploy', { me: Depends(BearerAuth()) }, async ({ me, req }) => {
  if ((await policy.decide(me.sub, req.signal)) === 'deny') throw new Forbidden();
  return { started: true };
});
// FILE policy.ts
export class Policy {
  constructor(readonly host: string) {}
  async decide(who: string, signal: AbortSignal): Promise<'allow' | 'deny'> {
    try {
      const answer = await fetch(\`\${this.host}/decide?who=\${encodeURIComponent(who)}\`, { signal });
      return ((await answer.json()) as { result: 'allow' | 'deny' }).result;
    } catch {
      return 'deny';
    }
  }
}
`,
  'fail open swallow': `
// FILE app.ts
import { Svc, Depends, provide, Forbidden, BearerAuth } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
const active = provide({ me: Depends(BearerAuth()), store: Depends(db) }, async ({ me, store }) => {
  try {
    const row = await store.fetchOne('select blocked from account where id = ?', [me.sub]);
    if (row?.blocked === true) throw new Forbidden();
  } catch (error) { // SVC645
    console.error('cannot check', error);
  }
  return me;
});
app.post('/pay', { me: Depends(active) }, () => ({ ok: true }));
`,
  'cache no user': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { dashboard } from './dash.ts';
export const app = new Svc();
app.get('/dashboard', { me: Depends(BearerAuth()) }, async ({ me }) => dashboard(me));
// FILE dash.ts
const pages = new Map<string, unknown>();
async function build(who: string) { return { who, rows: [] }; }
export async function dashboard(claims: { sub: string }) {
  const key = 'dashboard';
  if (!pages.has(key)) pages.set(key, await build(claims.sub)); // SVC632
  return pages.get(key);
}
`,
  'right: cache no user': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { dashboard } from './dash.ts';
export const app = new Svc();
app.get('/dashboard', { me: Depends(BearerAuth()) }, async ({ me }) => dashboard(me));
// FILE dash.ts
import { MemoryCache } from 'svc';
const pages = new MemoryCache({ maxEntries: 100 });
async function build(who: string) { return { who, rows: [] }; }
export async function dashboard(claims: { sub: string }) {
  const key = \`dashboard \${claims.sub}\`;
  const known = await pages.get(key);
  if (known !== undefined) return known;
  const made = await build(claims.sub);
  await pages.set(key, made, 60);
  return made;
}
`,
  'host link': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { invite } from './mail.ts';
import { randomUUID } from 'node:crypto';
export const app = new Svc();
app.post('/invite', { public: 'x', store: Depends(db) }, async ({ req, body, store }) => {
  const code = randomUUID();
  await store.execute('insert into invite (code, mail) values (?, ?)', [code, body.mail]);
  await invite(body.mail, req.headers['x-forwarded-host'] ?? req.host, code);
  return { ok: true };
});
// FILE mail.ts
import { createTransport } from 'nodemailer';
const post = createTransport(process.env.SMTP_URL);
export const invite = (to: string, host: string, code: string) =>
  post.sendMail({ to, from: 'team@example', subject: 'Join', text: \`Open https://\${host}/join/\${code}\` }); // SVC639
`,
  'log injection': `
// FILE app.ts
import { Svc } from 'svc';
import { audit } from './audit.ts';
export const app = new Svc();
app.post('/login', { public: 'login' }, async ({ req }) => {
  const { name } = await req.json() as { name: string };
  await audit.note('login', name);
  return { ok: true };
});
// FILE audit.ts
import { open } from 'node:fs/promises';
class Audit {
  async note(what: string, who: string) {
    const file = await open('/var/log/audit.log', 'a'); // SVC658
    await file.write(\`\${new Date().toISOString()} \${what} \${who}\\n\`); // SVC610
    await file.close();
  }
}
export const audit = new Audit();
`,
  'websocket open': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { db } from 'svc/db';
import { rename } from './rooms.ts';
export const app = new Svc();
app.get('/rooms', { me: Depends(BearerAuth()), store: Depends(db) }, ({ store }) => store.fetchAll('select id, name from room'));
app.websocket('/rooms/live', { store: Depends(db) }).onMessage(async (socket, message, { store }) => { // SVC201
  const { id, name } = JSON.parse(String(message));
  await rename(store, id, name);
});
// FILE rooms.ts
import type { Database } from 'svc/db';
export const rename = (store: Database, id: string, name: string) => store.execute('update room set name = ? where id = ?', [name, id]);
`,
  'mail header': `
// FILE app.ts
import { Svc } from 'svc';
import { send } from './mail.ts';
export const app = new Svc();
app.post('/contact', { public: 'contact' }, async ({ req }) => {
  const form = await req.json() as { name: string; text: string };
  await send(form.name, form.text);
  return { ok: true };
});
// FILE mail.ts
import { connect } from 'node:net';
export async function send(name: string, text: string) {
  const socket = connect(25, 'mail.internal');
  socket.on('error', console.error);
  socket.write(\`MAIL FROM:<web@example>\\r\\nRCPT TO:<team@example>\\r\\nDATA\\r\\nFrom: \${name} <web@example>\\r\\nSubject: Contact\\r\\n\\r\\n\${text}\\r\\n.\\r\\n\`); // SVC610
}
`,
  idor: `
// FILE app.ts
import { Svc, BearerAuth, Depends, NotFound } from 'svc';
import { db } from 'svc/db';
import { Invoices } from './invoices.ts';
export const app = new Svc();
const auth = BearerAuth();
app.get('/invoices', { me: Depends(auth), store: Depends(db) }, ({ me, store }) => new Invoices(store).mine(me.sub));
app.get('/invoices/{id:int}', { me: Depends(auth), store: Depends(db) }, async ({ params, store }) => (await new Invoices(store).one(params.id)) ?? new NotFound());
// FILE invoices.ts
import { sql, type Database } from 'svc/db';
export class Invoices {
  readonly #store: Database;
  constructor(store: Database) { this.#store = store; }
  mine(owner: string) { return this.#store.fetchAll(sql\`select id, total from invoice where customer = \${owner}\`); }
  one(id: number) { return this.#store.fetchOne(sql\`select id, total, customer from invoice where id = \${id}\`); } // SVC640
}
`,
  'right: idor': `
// FILE app.ts
import { Svc, BearerAuth, Depends, NotFound } from 'svc';
import { db } from 'svc/db';
import { Invoices } from './invoices.ts';
export const app = new Svc();
const auth = BearerAuth();
app.get('/invoices', { me: Depends(auth), store: Depends(db) }, ({ me, store }) => new Invoices(store).mine(me.sub));
app.get('/invoices/{id:int}', { me: Depends(auth), store: Depends(db) }, async ({ me, params, store }) => {
  const found = await new Invoices(store).one(params.id);
  if (found?.customer !== me.sub) throw new NotFound();
  return found;
});
// FILE invoices.ts
import { sql, type Database } from 'svc/db';
export class Invoices {
  readonly #store: Database;
  constructor(store: Database) { this.#store = store; }
  mine(owner: string) { return this.#store.fetchAll(sql\`select id, total from invoice where customer = \${owner}\`); }
  one(id: number) { return this.#store.fetchOne(sql\`select id, total, customer from invoice where id = \${id}\`); }
}
`,
  'debug endpoint2': `
// FILE app.ts
import { Svc } from 'svc';
import { writeHeapSnapshot } from 'node:v8';
export const app = new Svc();
app.get('/_heap', { public: 'ops' }, () => ({ file: writeHeapSnapshot() })); // SVC208
`,
  'xff trust': `
// FILE app.ts
import { Svc, Forbidden } from 'svc';
import { office } from './office.ts';
export const app = new Svc();
app.get('/reports', { public: 'inside the office' }, ({ req }) => { office(req); return { rows: [] }; });
// FILE office.ts
import { Forbidden } from 'svc';
export function office(req: any) {
  const ip = String(req.headers['x-forwarded-for'] ?? '').split(',')[0]!.trim();
  if (!ip.startsWith('10.0.')) throw new Forbidden(); // SVC210
}
`,
  'right: xff trust': `
// FILE app.ts
import { Svc, Forbidden } from 'svc';
import { office } from './office.ts';
export const app = new Svc({ trustProxy: ['10.0.0.1'] });
app.get('/reports', { public: 'inside the office' }, ({ req }) => { office(req); return { rows: [] }; });
// FILE office.ts
import { Forbidden } from 'svc';
export function office(req: any) {
  if (!req.ip.startsWith('10.0.')) throw new Forbidden();
}
`,
  'weak pbkdf2': `
// FILE app.ts
import { Svc, Depends, Schema, Field, str } from 'svc';
import { db } from 'svc/db';
import { pbkdf2Sync, randomBytes } from 'node:crypto';
export const app = new Svc();
class Sign extends Schema { mail = Field(str, { maxLength: 99 }); phrase = Field(str, { secret: true, maxLength: 99 }); }
app.post('/signup', { public: 'x', store: Depends(db), body: Sign }, async ({ body, store }) => {
  const salt = randomBytes(16);
  const hash = pbkdf2Sync(body.phrase, salt, 1000, 32, 'sha1').toString('hex'); // SVC623
  await store.execute('insert into users (mail, salt, hash) values (?, ?, ?)', [body.mail, salt, hash]);
});
`,
  'static iv': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { Vault } from './vault.ts';
export const app = new Svc();
const vault = new Vault(Buffer.from(process.env.VAULT_KEY ?? '', 'hex'));
app.post('/notes', { me: Depends(BearerAuth()) }, async ({ body }) => ({ sealed: vault.seal(body.text) }));
// FILE vault.ts
import { createCipheriv, createHash } from 'node:crypto';
export class Vault {
  readonly #iv: Buffer;
  constructor(readonly key: Buffer) { this.#iv = createHash('md5').update('notes').digest(); }
  seal(text: string) {
    const cipher = createCipheriv('aes-256-cbc', this.key, this.#iv); // SVC628
    return cipher.update(text, 'utf8', 'hex') + cipher.final('hex');
  }
}
`,
  ecb: `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import * as crypto from 'node:crypto';
export const app = new Svc();
const MODE = ['aes', '128', 'ecb'].join('-');
const key = Buffer.from(process.env.CARD_KEY ?? '', 'hex');
app.post('/cards', { me: Depends(BearerAuth()) }, async ({ body }) => {
  const cipher = crypto.createCipheriv('aes-128-ecb', key, null); // SVC628
  return { sealed: cipher.update(body.number, 'utf8', 'hex') + cipher.final('hex') };
});
`,
  'jwt no exp': `
// FILE app.ts
import { Svc, Unauthorized, Depends } from 'svc';
import jwt from 'jsonwebtoken';
export const app = new Svc();
app.post('/login', { public: 'x' }, ({ body }) => {
  if (body.name !== 'ann') throw new Unauthorized();
  return { token: jwt.sign({ sub: body.name }, process.env.KEY ?? '') }; // SVC215
});
`,
  'csrf get': `
// FILE app.ts
import { Svc, Depends, requireSession, sessionKey } from 'svc';
import { db } from 'svc/db';
import { transfer } from './bank.ts';
export const app = new Svc();
const user = sessionKey<string>('user');
const PATH = '/transfer';
app.get(PATH, { me: Depends(requireSession(user)), store: Depends(db) }, async ({ me, query, store }) => transfer(store, me, query.to, Number(query.cents))); // SVC216
// FILE bank.ts
import { type Database } from 'svc/db';
export async function transfer(store: Database, from: string, to: string, cents: number) {
  await store.transaction(async (tx) => {
    await tx.execute('update wallet set cents = cents - ? where owner = ? and cents >= ?', [cents, from, cents]); // SVC415
    await tx.execute('update wallet set cents = cents + ? where owner = ?', [cents, to]);
  });
  return { ok: true };
}
`,
  'nosql operator': `
// FILE app.ts
import { Svc } from 'svc';
import { find } from './people.ts';
export const app = new Svc();
app.post('/login', { public: 'x' }, async ({ req }) => {
  const { mail, word } = await req.json() as any;
  return { found: await find(mail, word) };
});
// FILE people.ts
import { MongoClient } from 'mongodb';
const client = new MongoClient('mongodb://db');
const people = client.db('shop').collection('people');
export const find = async (mail: string, word: string) => (await people.findOne({ mail, word })) !== null; // SVC601
`,
  'right: nosql operator': `
// FILE app.ts
import { Svc } from 'svc';
import { find } from './people.ts';
export const app = new Svc();
app.post('/find', { public: 'x' }, async ({ req }) => {
  const { mail } = await req.json() as any;
  return { found: await find(String(mail)) };
});
// FILE people.ts
import { MongoClient } from 'mongodb';
const client = new MongoClient('mongodb://db');
const people = client.db('shop').collection('people');
export const find = async (mail: string) => (await people.findOne({ mail })) !== null;
`,
  'template injection': `
// FILE app.ts
import { Svc, HTMLResponse, BearerAuth, Depends } from 'svc';
import { page } from './page.ts';
export const app = new Svc();
app.post('/preview', { me: Depends(BearerAuth()) }, async ({ body }) => new HTMLResponse(page(body.layout, { name: 'Ann' })));
// FILE page.ts
import Handlebars from 'handlebars';
export const page = (layout: string, data: object) => Handlebars.compile(layout)(data); // SVC603
`,
  'v8 deserialize': `
// FILE app.ts
import { Svc } from 'svc';
import v8 from 'node:v8';
export const app = new Svc();
app.post('/restore', { public: 'x' }, async ({ req }) => {
  const state = v8.deserialize(await req.body()); // SVC603
  return { items: state.items.length };
});
`,
  yaml: `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import yaml from 'js-yaml';
export const app = new Svc();
app.put('/config', { me: Depends(BearerAuth()) }, async ({ req }) => ({ keys: Object.keys(yaml.load(await req.text(), { schema: yaml.DEFAULT_FULL_SCHEMA }) as object) })); // SVC603
`,
  serialize: `
// FILE app.ts
import { Svc } from 'svc';
import { unserialize } from 'node-serialize';
export const app = new Svc();
app.get('/cart', { public: 'x' }, ({ req }) => ({ cart: unserialize(Buffer.from(req.cookies.cart ?? '', 'base64').toString()) })); // SVC603
`,
  'no timeout': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { Rates } from './rates.ts';
export const app = new Svc();
const rates = new Rates();
app.get('/rates', { me: Depends(BearerAuth()) }, () => rates.latest());
// FILE rates.ts
export class Rates {
  readonly #ask = fetch;
  async latest() { return (await this.#ask('https://rates.example/latest')).json(); } // SVC635
}
`,
  'whole body': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { people } from './people.ts';
export const app = new Svc();
app.patch('/me', { me: Depends(BearerAuth()) }, async ({ me, req }) => people.update(me.sub, await req.json()));
// FILE people.ts
interface Person { name: string; role: string }
class People {
  readonly #all = new Map<string, Person>();
  update(id: string, patch: Partial<Person>) {
    const person = { ...this.#all.get(id), ...patch } as Person;
    this.#all.set(id, person); // SVC633
    return { name: person.name };
  }
}
export const people = new People();
`,
  collected: `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { gather } from './gather.ts';
export const app = new Svc();
app.post('/upload', { me: Depends(BearerAuth()) }, async ({ req: incoming }) => ({ size: (await gather(incoming.stream())).length }));
// FILE gather.ts
export async function gather(source: AsyncIterable<Uint8Array>) {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part); // SVC634
  return Buffer.concat(parts);
}
`,
  'secret log': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { report } from './log.ts';
export const app = new Svc();
app.post('/connect', { public: 'x' }, async ({ req }) => { report('connect', { with: req.headers.authorization }); return { ok: true }; });
// FILE log.ts
import pino from 'pino';
const out = pino();
export const report = (what: string, more: object) => out.info({ what, ...more }); // SVC625
`,
  'secret log2': `
// FILE app.ts
import { Svc, Schema, Field, str } from 'svc';
export const app = new Svc();
class Pin extends Schema { card = Field(str, { maxLength: 20 }); digits = Field(str, { secret: true, maxLength: 6 }); }
app.post('/pin', { public: 'x', body: Pin }, ({ body }) => { console.info('pin', body.digits); return { ok: true }; }); // SVC625
`,
  'hash reply': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { db } from 'svc/db';
import { Users } from './users.ts';
export const app = new Svc();
app.get('/users', { me: Depends(BearerAuth()), store: Depends(db) }, async ({ store }) => new Users(store).all());
// FILE users.ts
import { hashPassword } from 'svc';
import type { Database } from 'svc/db';
export class Users {
  constructor(readonly store: Database) {}
  all() { return this.store.fetchAll('select id, mail, pw from users'); } // SVC626
  async add(mail: string, word: string) { await this.store.execute('insert into users (mail, pw) values (?, ?)', [mail, await hashPassword(word)]); }
}
`,
  'right: no timeout': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { Rates } from './rates.ts';
export const app = new Svc();
const rates = new Rates();
app.get('/rates', { me: Depends(BearerAuth()) }, ({ req }) => rates.latest(req.signal));
// FILE rates.ts
export class Rates {
  readonly #ask = fetch;
  async latest(signal: AbortSignal) { return (await this.#ask('https://rates.example/latest', { signal: AbortSignal.any([signal, AbortSignal.timeout(2000)]) })).json(); }
}
`,
  'changes that ask for less': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, requireIf, requireScopes, str } from 'svc';
import { db, sql } from 'svc/db';
import { Rooms } from './rooms.ts';
class Chosen extends Schema { id = Field(int); }
export const app = new Svc();
app.delete('/rooms/{id:int}', { me: Depends(requireScopes('rooms:write')), store: Depends(db) }, ({ params, store }) => new Rooms(store).remove(params.id));
app.post('/rooms/closed', { body: Chosen, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, store }) => { // SVC203
  await store.execute(sql\`delete from room where id = \${body.id}\`);
});
app.put('/rooms/{id:int}/name', { me: Depends(requireIf((claims) => claims.office === 'main')), store: Depends(db) }, ({ params, req, store }) => new Rooms(store).rename(params.id, req.query.get('name')));
const renames = { args: { id: Field(int), name: Field(str) }, description: 'Renames a room', me: Depends(BearerAuth()), store: Depends(db) };
app.tool('rename_room', renames, async ({ args, me, store }) => { // SVC203
  await new Rooms(store).rename(args.id, args.name + me.sub);
  return 'renamed';
});
// FILE rooms.ts
import type { Database } from 'svc/db';
export class Rooms {
  constructor(readonly store: Database) {}
  async remove(id: number) { await this.store.execute('delete from room where id = ?', [id]); }
  async rename(id: number, name: string) { await this.store.execute('update room set name = ? where id = ?', [name, id]); }
}
`,
  'right: changes that ask for less': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, int, requireScopes } from 'svc';
import { db, sql } from 'svc/db';
class Chosen extends Schema { id = Field(int); }
export const app = new Svc();
app.delete('/rooms/{id:int}', { me: Depends(requireScopes('rooms:write')), store: Depends(db) }, ({ params, store }) => store.execute('delete from room where id = ?', [params.id]));
app.post('/rooms/closed', { body: Chosen, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, me, store }) => {
  if (me.office !== 'main') throw new Forbidden();
  await store.execute(sql\`delete from room where id = \${body.id}\`);
});
app.post('/rooms/own', { body: Chosen, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, me, store }) => {
  await store.execute('delete from room where id = ? and owner = ?', [body.id, me.sub]);
});
`,
  'moved amounts': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db, sql } from 'svc/db';
import { put, take } from './seats.ts';
class Payment extends Schema { to = Field(int); cents = Field(int, { ge: 1, le: 9_000 }); }
class Change extends Schema { from = Field(int); to = Field(int); seats = Field(int, { ge: 1, le: 9 }); }
export const app = new Svc();
app.post('/pay', { body: Payment, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, me, store }) => {
  const taken = await store.execute(sql\`update purse set cents = cents - \${body.cents} where owner = \${me.sub} and cents >= \${body.cents}\`); // SVC643
  if (taken.affectedRows === 1) await store.execute('update purse set cents = cents + ? where owner = ?', [body.cents, body.to]);
});
app.post('/change', { body: Change, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, store }) => {
  await put(store, body.to, body.seats);
  await take(store, body.from, body.seats); // SVC643
});
// FILE seats.ts
import type { Database } from 'svc/db';
export const put = (store: Database, train: number, seats: number) =>
  store.execute('update train set taken = taken + ? where id = ?', [seats, train]);
export const take = (store: Database, train: number, seats: number) =>
  store.execute('update train set taken = taken - ? where id = ?', [seats, train]);
`,
  'right: moved amounts': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db } from 'svc/db';
import { put, take } from './seats.ts';
class Change extends Schema { from = Field(int); to = Field(int); seats = Field(int, { ge: 1, le: 9 }); }
export const app = new Svc();
app.post('/change', { body: Change, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, store }) => {
  await store.transaction(async (tx) => {
    await put(tx, body.to, body.seats);
    await take(tx, body.from, body.seats);
  });
});
app.post('/one', { body: Change, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, store }) => {
  if (body.from > 0) await take(store, body.from, body.seats);
  else await put(store, body.to, body.seats);
});
app.post('/tried', { body: Change, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, store, signal }) => {
  await take(store, body.from, body.seats);
  try {
    await fetch('https://trains.example/', { signal });
  } catch (error) {
    await put(store, body.from, body.seats);
    throw error;
  }
});
// FILE seats.ts
import type { Session } from 'svc/db';
export const put = (store: Session, train: number, seats: number) =>
  store.execute('update train set taken = taken + ? where id = ?', [seats, train]);
export const take = (store: Session, train: number, seats: number) =>
  store.execute('update train set taken = taken - ? where id = ?', [seats, train]);
`,
  'deliveries of a dependency': `
// FILE app.ts
import { Depends, Field, Schema, Svc, Unauthorized, int, str } from 'svc';
import { db, transaction } from 'svc/db';
import { verified } from './signed.ts';
class Refill extends Schema { id = Field(str); card = Field(int); cents = Field(int, { ge: 1, le: 9_000 }); }
const refill = async ({ req }) => Refill.parse(JSON.parse(await verified(req)));
export const app = new Svc();
app.post('/hooks/refill', { public: 'signed', refill: Depends(refill), store: Depends(db) }, async ({ refill, store }) => {
  await store.execute('update card set cents = cents + ? where id = ?', [refill.cents, refill.card]); // SVC644
});
app.post('/hooks/once', { public: 'signed', refill: Depends(refill), tx: Depends(transaction) }, async ({ refill, tx }) => {
  await tx.execute('insert into seen (id) values (?)', [refill.id]);
  await tx.execute('update card set cents = cents + ? where id = ?', [refill.cents, refill.card]);
});
// FILE signed.ts
import { Unauthorized } from 'svc';
import { createHmac, timingSafeEqual } from 'node:crypto';
export async function verified(req) {
  const bytes = await req.body();
  const own = createHmac('sha256', process.env.HOOK_KEY ?? '').update(bytes).digest();
  const sent = Buffer.from(req.headers['x-signature'] ?? '', 'hex');
  if (own.length !== sent.length || !timingSafeEqual(own, sent)) throw new Unauthorized();
  return Buffer.from(bytes).toString();
}
`,
  'locks of others': `
// FILE app.ts
import { BearerAuth, Conflict, Depends, Svc } from 'svc';
import { randomBytes, randomUUID } from 'node:crypto';
import { RedisScript, redis } from 'svc/db';
const KEY = 'lock:report';
const release = new RedisScript("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0");
export const app = new Svc();
app.post('/report', { me: Depends(BearerAuth()), cache: Depends(redis) }, async ({ cache }) => {
  if ((await cache.command(['SET', KEY, randomUUID(), 'EX', 30, 'NX'])) !== 'OK') throw new Conflict();
  await cache.transaction([['INCR', 'reports'], ['DEL', KEY]]); // SVC658
});
app.post('/orders/{id:int}/pay', { me: Depends(BearerAuth()), cache: Depends(redis) }, async ({ params, cache }) => {
  const end = () => cache.command(['DEL', \`order:\${params.id}\`]); // SVC658
  if ((await cache.command(['SET', \`order:\${params.id}\`, randomBytes(9).toString('hex'), 'NX', 'PX', 9_000])) !== 'OK') throw new Conflict();
  await end();
});
app.post('/scripted', { me: Depends(BearerAuth()), cache: Depends(redis) }, async ({ cache }) => {
  const token = randomUUID();
  if ((await cache.command(['SET', 'scripted', token, 'NX', 'PX', 9_000])) !== 'OK') throw new Conflict();
  await cache.script(release, ['scripted'], [token]);
  await cache.command(['DEL', 'reports']);
});
app.post('/compared', { me: Depends(BearerAuth()), cache: Depends(redis) }, async ({ cache }) => {
  const token = randomUUID();
  if ((await cache.command(['SET', 'compared', token, 'NX', 'PX', 9_000])) !== 'OK') throw new Conflict();
  if ((await cache.command(['GET', 'compared'])) === token) await cache.command(['DEL', 'compared']);
});
`,
  'entries of two inputs': `
// FILE app.ts
import { Field, Svc, str } from 'svc';
import { Distances } from './distances.ts';
const digits = Field(str, { pattern: '^[0-9]{5}$', maxLength: 5 });
const distances = new Distances();
const routes = {};
export const app = new Svc();
app.get('/distance', { query: { from: digits, to: digits }, public: 'x' }, ({ query }) => distances.between(query.from, query.to));
app.get('/route', { query: { from: digits, to: digits }, public: 'x' }, ({ query }) => (routes[query.from + '-' + query.to] ??= { from: query.from })); // SVC653
app.get('/town', { query: { code: digits }, public: 'x' }, ({ query }) => distances.town(query.code));
// FILE distances.ts
export class Distances {
  readonly #known = new Map();
  readonly #towns = new Map();
  between(from, to) {
    const key = [from, to].join('/');
    if (!this.#known.has(key)) this.#known.set(key, measure(from, to)); // SVC653
    return this.#known.get(key);
  }
  town(code) {
    if (!this.#towns.has(code)) this.#towns.set(code, { code });
    return this.#towns.get(code);
  }
}
const measure = (from, to) => from.length * to.length;
`,
  'conflicts that never come': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db, sql } from 'svc/db';
import { randomUUID } from 'node:crypto';
class Vote extends Schema { poll = Field(int); }
export const app = new Svc();
app.onStartup(() => app.state.db.script('create table guest (id text primary key, poll integer not null, person text not null)'));
app.post('/votes', { body: Vote, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, me, store }) => {
  await store.execute(sql\`insert into vote (poll, person) values (\${body.poll}, \${me.sub}) on conflict do nothing\`); // SVC642
});
app.post('/guests', { body: Vote, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, me, store }) => {
  await store.execute('insert or ignore into guest (id, poll, person) values (?, ?, ?)', [randomUUID(), body.poll, me.sub]); // SVC642
});
app.post('/kept', { body: Vote, me: Depends(BearerAuth()), store: Depends(db) }, async ({ body, me, store }) => {
  await store.execute('insert into member (poll, person) values (?, ?) on conflict do nothing', [body.poll, me.sub]);
  await store.execute('insert into seat (poll, person) values (?, ?) on conflict do nothing', [body.poll, me.sub]);
});
// FILE 1.sql
create table vote (id integer primary key, poll integer not null, person text not null);
create unique index one_vote on vote (poll, person);
create table member (id integer primary key, poll integer not null, person text not null, unique (poll, person));
create table seat (id integer primary key, poll integer not null, person text not null, gone text);
create unique index one_seat on seat (poll, person) where gone is null;
// FILE 2.sql
drop index one_vote;
create table member_new (id integer primary key, poll integer not null, person text not null, unique (poll, person));
drop table member;
alter table member_new rename to member;
`,
};
