/** Applications with mistakes of one kind each, and with the same work done right (SVC642, SVC647, SVC651 … SVC656). */
export const KINDS: Readonly<Record<string, string>> = {
  'xxe handmade': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { readInvoice } from './invoices/xml.ts';
export const app = new Svc();
app.post('/invoices', { me: Depends(BearerAuth()) }, async ({ req }) => readInvoice(await req.text()));
// FILE invoices/xml.ts
export function readInvoice(xml: string) {
  const entities = new Map<string, string>();
  for (const [, name, value] of xml.matchAll(/<!ENTITY\\s+(\\w+)\\s+"([^"]*)">/g)) entities.set(name!, value!);
  const expand = (text: string): string => text.replace(/&(\\w+);/g, (_, name) => expand(entities.get(name) ?? '')); // SVC651
  return { total: expand(xml.slice(xml.indexOf('<total>'), xml.indexOf('</total>'))) };
}
`,
  'right: xxe handmade': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { readInvoice } from './invoices/xml.ts';
export const app = new Svc();
app.post('/invoices', { me: Depends(BearerAuth()) }, async ({ req }) => readInvoice(await req.text()));
// FILE invoices/xml.ts
const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
export function readInvoice(xml: string) {
  const expand = (text: string): string => text.replace(/&(amp|lt|gt|quot|apos);/g, (_, name: string) => ENTITIES[name] ?? '');
  return { total: expand(xml.slice(xml.indexOf('<total>'), xml.indexOf('</total>'))) };
}
`,
  'xxe libxml': `
// FILE app.ts
import { Svc } from 'svc';
import * as libxml from 'libxmljs2';
export const app = new Svc();
app.post('/feed', { public: 'feed' }, async ({ req }) => {
  const doc = libxml.parseXml(await req.text(), { noent: true }); // SVC651
  return { title: doc.get('//title')?.text() };
});
`,
  'right: xxe libxml': `
// FILE app.ts
import { Svc } from 'svc';
import * as libxml from 'libxmljs2';
export const app = new Svc();
app.post('/feed', { public: 'feed' }, async ({ req }) => {
  const doc = libxml.parseXml(await req.text(), { noent: false, nonet: true });
  return { title: doc.get('//title')?.text() };
});
`,
  'file race': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Conflict, Field, Schema, str } from 'svc';
import { Drafts } from './drafts.ts';
export const app = new Svc();
const drafts = new Drafts('/var/lib/drafts');
class Draft extends Schema { name = Field(str, { pattern: '^[a-z]{1,20}$' }); text = Field(str, { maxLength: 1000 }); }
app.post('/drafts', { me: Depends(BearerAuth()), body: Draft }, async ({ body }) => {
  if (!(await drafts.create(body.name, body.text))) throw new Conflict('exists');
  return { ok: true };
});
// FILE drafts.ts
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
export class Drafts {
  constructor(readonly folder: string) {}
  async create(name: string, text: string) {
    const file = join(this.folder, \`\${name}.txt\`);
    if (existsSync(file)) return false; // SVC501
    await writeFile(file, text); // SVC652
    return true;
  }
}
`,
  'right: file race': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Conflict, Field, Schema, str } from 'svc';
import { Drafts } from './drafts.ts';
export const app = new Svc();
const drafts = new Drafts('/var/lib/drafts');
class Draft extends Schema { name = Field(str, { pattern: '^[a-z]{1,20}$' }); text = Field(str, { maxLength: 1000 }); }
app.post('/drafts', { me: Depends(BearerAuth()), body: Draft }, async ({ body }) => {
  if (!(await drafts.create(body.name, body.text))) throw new Conflict('exists');
  return { ok: true };
});
// FILE drafts.ts
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
export class Drafts {
  constructor(readonly folder: string) {}
  async create(name: string, text: string) {
    const file = join(this.folder, \`\${name}.txt\`);
    try {
      await writeFile(file, text, { flag: 'wx' });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    }
  }
}
`,
  'file race stat': `
// FILE app.ts
import { Svc, Depends, BearerAuth, NotFound } from 'svc';
import * as fs from 'node:fs/promises';
import { join, basename } from 'node:path';
export const app = new Svc();
app.get('/exports/{name}', { me: Depends(BearerAuth()) }, async ({ params }) => {
  const path = join('/srv/exports', basename(params.name));
  const info = await fs.lstat(path).catch(() => undefined);
  if (info === undefined || info.isSymbolicLink()) throw new NotFound();
  return await fs.readFile(path, 'utf8'); // SVC652
});
`,
  'right: file race stat': `
// FILE app.ts
import { Svc, Depends, BearerAuth, NotFound } from 'svc';
import * as fs from 'node:fs/promises';
import { constants } from 'node:fs';
import { join, basename } from 'node:path';
export const app = new Svc();
app.get('/exports/{name}', { me: Depends(BearerAuth()) }, async ({ params }) => {
  const file = await fs.open(join('/srv/exports', basename(params.name)), constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    if (!(await file.stat()).isFile()) throw new NotFound();
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
});
`,
  'memo grows': `
// FILE app.ts
import { Svc } from 'svc';
import { translate } from './translate.ts';
export const app = new Svc();
app.get('/t', { public: 'words' }, async ({ query }) => ({ text: await translate(query.text) }));
// FILE translate.ts
const memo = new Map<string, string>();
async function slow(text: string) { return text.toUpperCase(); }
export async function translate(text: string) {
  let known = memo.get(text);
  if (known === undefined) {
    known = await slow(text);
    memo.set(text, known); // SVC653
  }
  return known;
}
`,
  'right: memo grows': `
// FILE app.ts
import { Svc } from 'svc';
import { translate } from './translate.ts';
export const app = new Svc();
app.get('/t', { public: 'words' }, async ({ query }) => ({ text: await translate(query.text) }));
// FILE translate.ts
const memo = new Map<string, string>();
async function slow(text: string) { return text.toUpperCase(); }
export async function translate(text: string) {
  let known = memo.get(text);
  if (known === undefined) {
    known = await slow(text);
    if (memo.size > 500) memo.delete(memo.keys().next().value!);
    memo.set(text, known);
  }
  return known;
}
`,
  'memo object': `
// FILE app.ts
import { Svc } from 'svc';
export const app = new Svc();
class Hits {
  readonly #seen: Record<string, number> = Object.create(null);
  count(agent: string) { return (this.#seen[agent] = (this.#seen[agent] ?? 0) + 1); } // SVC653
}
const hits = new Hits();
app.get('/', { public: 'home' }, ({ req }) => ({ visits: hits.count(req.headers['user-agent'] ?? '') }));
`,
  'right: memo object': `
// FILE app.ts
import { Svc } from 'svc';
export const app = new Svc();
class Hits {
  readonly #seen: Record<string, number> = { phone: 0, desktop: 0 };
  count(agent: string) { const kind = /mobile/i.test(agent) ? 'phone' : 'desktop'; return (this.#seen[kind] = (this.#seen[kind] ?? 0) + 1); }
}
const hits = new Hits();
app.get('/', { public: 'home' }, ({ req }) => ({ visits: hits.count(req.headers['user-agent'] ?? '') }));
`,
  listeners: `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { bus } from './bus.ts';
export const app = new Svc();
app.get('/orders/wait', { me: Depends(BearerAuth()) }, async ({ req }) => {
  const seen: unknown[] = [];
  bus.on('order', (order) => seen.push(order)); // SVC654
  await new Promise<void>((resolve) => setTimeout(resolve, 1000));
  return { seen };
});
// FILE bus.ts
import { EventEmitter } from 'node:events';
export const bus = new EventEmitter();
`,
  'right: listeners': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { bus } from './bus.ts';
export const app = new Svc();
app.get('/orders/wait', { me: Depends(BearerAuth()) }, async ({ req }) => {
  const seen: unknown[] = [];
  const note = (order: unknown) => void seen.push(order);
  bus.on('order', note);
  try {
    await new Promise<void>((resolve) => setTimeout(resolve, 1000));
  } finally {
    bus.off('order', note);
  }
  return { seen };
});
// FILE bus.ts
import { EventEmitter } from 'node:events';
export const bus = new EventEmitter();
`,
  interval: `
// FILE app.ts
import { Svc, BearerAuth, Depends, reply } from 'svc';
export const app = new Svc();
const progress = { done: 0 };
const tick = () => { progress.done += 1; };
app.post('/jobs', { me: Depends(BearerAuth()) }, () => {
  setInterval(tick, 1000); // SVC654
  return reply({ started: true }, 202);
});
`,
  'right: interval': `
// FILE app.ts
import { Svc, BearerAuth, Depends, reply } from 'svc';
export const app = new Svc();
const progress = { done: 0 };
app.post('/jobs', { me: Depends(BearerAuth()) }, () => {
  const timer = setInterval(() => { progress.done += 1; if (progress.done > 10) clearInterval(timer); }, 1000);
  return reply({ started: true }, 202);
});
`,
  'jwt by hand': `
// FILE app.ts
import { Svc, Depends, Forbidden } from 'svc';
import { caller } from './who.ts';
export const app = new Svc();
app.delete('/users/{id}', { me: Depends(caller) }, ({ me, params }) => {
  if (me.role !== 'admin') throw new Forbidden();
  return { removed: params.id };
});
// FILE who.ts
import { provide, Unauthorized } from 'svc';
const payloadOf = (bearer: string) => {
  const [, middle = ''] = bearer.split('.');
  return JSON.parse(Buffer.from(middle, 'base64url').toString('utf8')); // SVC624
};
export const caller = provide({ security: [{ type: 'http', scheme: 'bearer' }] }, ({ req }) => {
  const header = req.headers.authorization;
  if (header === undefined) throw new Unauthorized();
  const body = payloadOf(header.slice(7));
  return { id: body.sub, role: body.role };
});
`,
  'right: jwt by hand': `
// FILE app.ts
import { Svc, Depends, Forbidden } from 'svc';
import { caller } from './who.ts';
export const app = new Svc();
app.delete('/users/{id}', { me: Depends(caller) }, ({ me, params }) => {
  if (me.role !== 'admin') throw new Forbidden();
  return { removed: params.id };
});
// FILE who.ts
import { provide, Unauthorized, verifyToken } from 'svc';
export const caller = provide({ security: [{ type: 'http', scheme: 'bearer' }] }, ({ req }) => {
  const header = req.headers.authorization;
  if (header === undefined) throw new Unauthorized();
  const body = verifyToken(header.slice(7), process.env.TOKEN_KEY!); // SVC401
  return { id: body.sub, role: body.role };
});
`,
  'secret in url': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { geocode } from './geo.ts';
export const app = new Svc();
app.get('/where', { me: Depends(BearerAuth()) }, ({ query, req }) => geocode(query.place, req.signal));
// FILE geo.ts
const KEY = process.env.GEO_KEY;
export const geocode = async (place: string, signal: AbortSignal) => {
  const answer = await fetch(\`https://geo.example/v1?q=\${encodeURIComponent(place)}&key=\${KEY}\`, { signal }); // SVC655
  return answer.json();
};
`,
  'unique race': `
// FILE app.ts
import { Svc, Depends, Conflict, Schema, Field, str } from 'svc';
import { db } from 'svc/db';
import { register } from './register.ts';
export const app = new Svc();
class Sign extends Schema { mail = Field(str, { format: 'email', maxLength: 100 }); }
app.post('/register', { public: 'sign up', store: Depends(db), body: Sign }, async ({ body, store }) => register(store, body.mail));
// FILE register.ts
import { Conflict } from 'svc';
import { sql, type Database } from 'svc/db';
export const SCHEMA = 'create table member (id integer primary key, mail text not null)';
export async function register(store: Database, mail: string) {
  const before = await store.fetchOne(sql\`select id from member where mail = \${mail}\`);
  if (before !== undefined) throw new Conflict('taken');
  await store.execute(sql\`insert into member (mail) values (\${mail})\`); // SVC642
  return { ok: true };
}
`,
  'right: unique race': `
// FILE app.ts
import { Svc, Depends, Conflict, Schema, Field, str } from 'svc';
import { db } from 'svc/db';
import { register } from './register.ts';
export const app = new Svc();
class Sign extends Schema { mail = Field(str, { format: 'email', maxLength: 100 }); }
app.post('/register', { public: 'sign up', store: Depends(db), body: Sign }, async ({ body, store }) => register(store, body.mail));
// FILE register.ts
import { Conflict } from 'svc';
import { sql, type Database } from 'svc/db';
export const SCHEMA = 'create table member (id integer primary key, mail text not null unique)';
export async function register(store: Database, mail: string) {
  const { affectedRows } = await store.execute(sql\`insert into member (mail) values (\${mail}) on conflict (mail) do nothing\`);
  if (affectedRows === 0) throw new Conflict('taken');
  return { ok: true };
}
`,
  batch: `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
app.post('/batch', { me: Depends(BearerAuth()), store: Depends(db) }, async ({ req, store }) => {
  const ids = await req.json() as number[];
  return Promise.all(ids.map((id) => store.fetchOne('select id, title from page where id = ?', [id]))); // SVC637
});
`,
  'right: batch': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Schema, Field, list, int } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
class Batch extends Schema { ids = Field(list(int), { maxLength: 50 }); }
app.post('/batch', { me: Depends(BearerAuth()), store: Depends(db), body: Batch }, async ({ body, store }) =>
  Promise.all(body.ids.map((id) => store.fetchOne('select id, title from page where id = ?', [id]))));
`,
  'csv formula': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { db, } from 'svc/db';
import { Entry } from './entry.ts';
import { csv } from './csv.ts';
export const app = new Svc();
app.get('/entries.csv', { me: Depends(BearerAuth()), store: Depends(db) }, async ({ store }) =>
  csv(await store.fetchAll('select id, text from entry', [], { as: Entry })));
// FILE entry.ts
import { Schema, Field, int, str } from 'svc';
export class Entry extends Schema { id = Field(int); text = Field(str); }
// FILE csv.ts
import { HttpResponse } from 'svc';
import type { Entry } from './entry.ts';
const cell = (text: string) => \`"\${text.replaceAll('"', '""')}"\`; // SVC656
export function csv(rows: Entry[]) {
  const lines = rows.map((row) => [String(row.id), cell(row.text)].join(','));
  return new HttpResponse(lines.join('\\r\\n'), { headers: { 'Content-Type': 'text/csv' } });
}
`,
  'money float': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Schema, Field, float } from 'svc';
import { db, sql } from 'svc/db';
export const app = new Svc();
class Pay extends Schema { amount = Field(float, { gt: 0, le: 1000 }); }
app.post('/pay', { me: Depends(BearerAuth()), store: Depends(db), body: Pay }, async ({ me, body, store }) => {
  await store.execute(sql\`update wallet set balance = balance - \${body.amount} where owner = \${me.sub} and balance >= \${body.amount}\`); // SVC647
  return { ok: true };
});
`,
  'negative amount': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Schema, Field, int } from 'svc';
import { db, sql } from 'svc/db';
export const app = new Svc();
class Move extends Schema { to = Field(int); cents = Field(int, { le: 100000 }); }
app.post('/move', { me: Depends(BearerAuth()), store: Depends(db), body: Move }, async ({ me, body, store }) =>
  store.transaction(async (tx) => {
    await tx.execute(sql\`update wallet set cents = cents - \${body.cents} where owner = \${me.sub} and cents >= \${body.cents}\`); // SVC647
    await tx.execute(sql\`update wallet set cents = cents + \${body.cents} where id = \${body.to}\`);
    return { ok: true };
  }));
`,
  'right: negative amount': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Schema, Field, int, Conflict } from 'svc';
import { db, sql } from 'svc/db';
export const app = new Svc();
class Move extends Schema { to = Field(int); cents = Field(int, { ge: 1, le: 100000 }); }
app.post('/move', { me: Depends(BearerAuth()), store: Depends(db), body: Move }, async ({ me, body, store }) =>
  store.transaction(async (tx) => {
    const { affectedRows } = await tx.execute(sql\`update wallet set cents = cents - \${body.cents} where owner = \${me.sub} and cents >= \${body.cents}\`);
    if (affectedRows === 0) throw new Conflict('not enough');
    await tx.execute(sql\`update wallet set cents = cents + \${body.cents} where id = \${body.to}\`);
    return { ok: true };
  }));
`,
  'right: csv formula': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { db, } from 'svc/db';
import { Entry } from './entry.ts';
import { csv } from './csv.ts';
export const app = new Svc();
app.get('/entries.csv', { me: Depends(BearerAuth()), store: Depends(db) }, async ({ store }) =>
  csv(await store.fetchAll('select id, text from entry', [], { as: Entry })));
// FILE entry.ts
import { Schema, Field, int, str } from 'svc';
export class Entry extends Schema { id = Field(int); text = Field(str); }
// FILE csv.ts
import { HttpResponse } from 'svc';
import type { Entry } from './entry.ts';
const safe = (text: string) => (/^[=+\\-@\\t\\r]/.test(text) ? \`'\${text}\` : text);
const cell = (text: string) => \`"\${safe(text).replaceAll('"', '""')}"\`;
export function csv(rows: Entry[]) {
  const lines = rows.map((row) => [String(row.id), cell(row.text)].join(','));
  return new HttpResponse(lines.join('\\r\\n'), { headers: { 'Content-Type': 'text/csv' } });
}
`,
  'right: secret in url': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { geocode } from './geo.ts';
export const app = new Svc();
app.get('/where', { me: Depends(BearerAuth()) }, ({ query, req }) => geocode(query.place, req.signal));
// FILE geo.ts
const KEY = process.env.GEO_KEY ?? '';
export const geocode = async (place: string, signal: AbortSignal) => {
  const answer = await fetch(\`https://geo.example/v1?q=\${encodeURIComponent(place)}\`, { signal, headers: { 'x-key': KEY } });
  return answer.json();
};
`,
};
