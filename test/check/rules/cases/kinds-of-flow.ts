/** Applications whose mistakes the analysis finds through tables of functions, closures, generators and other modules. */
export const KINDS_OF_FLOW: Readonly<Record<string, string>> = {
  'addresses compared by their beginning': `
// FILE app.ts
import { BadRequest, Schema, Field, Svc, str } from 'svc';
import { allowed, known, read } from './hosts.ts';
class Import extends Schema { url = Field(str, { maxLength: 500 }); }
export const app = new Svc();
app.post('/a', { body: Import, public: 'x' }, async ({ body }) => read(allowed(body.url)));
app.post('/b', { body: Import, public: 'x' }, async ({ body }) => {
  await fetch(known(body.url), { redirect: 'error', signal: AbortSignal.timeout(5_000) });
});
// FILE hosts.ts
import { BadRequest } from 'svc';
const ALLOWED = ['https://cdn.example', 'https://images.example'];
export const allowed = (address: string): string => {
  if (!ALLOWED.some((each) => address.startsWith(each))) throw new BadRequest();
  return address;
};
/** Returns the address at an origin of the list. */
export const known = (address: string): string => {
  const url = URL.parse(address);
  const origin = ALLOWED.find((each) => each === url?.origin);
  if (url === null || origin === undefined) throw new BadRequest();
  return \`\${origin}\${url.pathname}\`;
};
export const read = async (url: string) => {
  const answer = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(5_000) }); // SVC607
  return { status: answer.status };
};
`,
  'right: an address whose origin find() has found': `
import { BadRequest, Svc } from 'svc';
const ALLOWED = ['https://cdn.example', 'https://images.example'];
export const app = new Svc();
app.post('/a', { public: 'x' }, async ({ body }) => {
  const found = ALLOWED.find((each) => each === URL.parse(body.url)?.origin);
  if (found === undefined) throw new BadRequest();
  await fetch(body.url, { redirect: 'error', signal: AbortSignal.timeout(5_000) });
});
`,
  'path of a service with its key': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, str } from 'svc';
import { read } from './fleet.ts';
export const app = new Svc();
app.get('/vehicles', { me: Depends(BearerAuth()), query: { vin: Field(str, { maxLength: 40 }) } }, ({ query, me }) =>
  read(query.vin, me.sub));
// FILE fleet.ts
const required = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error('Set ' + name);
  return value;
};
const key = required('FLEET_KEY');
export const read = async (vin: string, owner: string) => {
  const headers = { 'X-Service-Key': key };
  const signal = AbortSignal.timeout(5_000);
  const answer = await fetch(\`https://fleet.example/owners/\${owner}/vehicles/\${vin}\`, { headers, signal }); // SVC607
  return answer.json();
};
`,
  'right: path of a service with its key': `
// FILE app.ts
import { BadRequest, BearerAuth, Depends, Field, Svc, str } from 'svc';
import { openly, read } from './fleet.ts';
export const app = new Svc();
app.get('/vehicles', { me: Depends(BearerAuth()), query: { vin: Field(str, { maxLength: 40 }) } }, ({ query, me }) =>
  read(query.vin, me.sub));
app.get('/open', { me: Depends(BearerAuth()), query: { vin: Field(str, { maxLength: 40 }) } }, ({ query }) => {
  if (query.vin.includes('..')) throw new BadRequest();
  return openly(query.vin);
});
// FILE fleet.ts
const key = process.env.FLEET_KEY ?? '';
const headers = { 'X-Service-Key': key };
export const read = async (vin: string, owner: string) => {
  const path = \`/owners/\${encodeURIComponent(owner)}/vehicles/\${encodeURIComponent(vin)}\`;
  const answer = await fetch('https://fleet.example' + path, { headers, signal: AbortSignal.timeout(5_000) });
  return answer.json();
};
export const openly = async (vin: string) => {
  await fetch(\`https://fleet.example/open/\${vin}\`, { headers, signal: AbortSignal.timeout(5_000) });
  const answer = await fetch(\`https://fleet.example/models/\${vin}\`, { signal: AbortSignal.timeout(5_000) });
  return answer.json();
};
`,
  'scheme of a link': `
// FILE app.ts
import { Depends, HTMLResponse, Schema, Field, Svc, escapeHtml, str } from 'svc';
import { db } from 'svc/db';
import { link } from './page.ts';
class Company extends Schema { name = Field(str); website = Field(str, { maxLength: 300 }); }
class Safe extends Schema { name = Field(str); website = Field(str, { pattern: '^https://[a-z.]+(/[A-Za-z:/]*)?$' }); }
export const app = new Svc();
app.get('/companies', { base: Depends(db), public: 'x' }, async ({ base }) => {
  const rows = await base.fetchAll('select name, website from company limit 100', [], { as: Company });
  return new HTMLResponse(\`<ul>\${rows.map(link).join('')}</ul>\`);
});
app.get('/safe', { base: Depends(db), public: 'x' }, async ({ base }) => {
  const rows = await base.fetchAll('select name, website from company limit 100', [], { as: Safe });
  return new HTMLResponse(rows.map(({ website }) => \`<a href="\${escapeHtml(website)}">x</a>\`).join(''));
});
app.get('/tested', { public: 'x' }, ({ query }) => {
  const isWeb = /^https?:$/.test(new URL(query.to).protocol);
  if (!isWeb) return { status: 'no' };
  return new HTMLResponse(\`<a href="/to/\${escapeHtml(query.to)}">x</a>\`);
});
app.get('/compared', { public: 'x' }, ({ query }) => {
  const url = URL.parse(query.to);
  if (url?.protocol !== 'https:') return { status: 'no' };
  return new HTMLResponse(\`<a href="\${escapeHtml(query.to)}">x</a>\`);
});
app.get('/refused', { public: 'x' }, ({ query }) => {
  if (new URL(query.to).protocol === 'javascript:') return { status: 'no' };
  return new HTMLResponse(\`<a href="\${escapeHtml(query.to)}">x</a>\`);
});
// FILE page.ts
import { escapeHtml } from 'svc';
export const link = ({ name, website }: { name: string; website: string }) =>
  \`<li><a rel="nofollow" href="\${escapeHtml(website)}">\${escapeHtml(name)}</a></li>\`; // SVC608
`,
  'type of an upload sent inline': `
import { BearerAuth, Depends, Field, FileResponse, HttpResponse, NotFound, Schema, Svc, file, str } from 'svc';
import { db } from 'svc/db';
class Upload extends Schema { image = Field(file, { maxLength: 5_000_000 }); }
class Photo extends Schema { image = Field(file, { contentTypes: ['image/png', 'image/jpeg'], maxLength: 5_000_000 }); }
class Picture extends Schema { image = Field(file, { contentTypes: ['image/*'], maxLength: 5_000_000 }); }
class Listed extends Schema { id = Field(str); mediaType = Field(str); }
class Shown extends Schema { id = Field(str); mediaType = Field(str); }
class Saved extends Schema { id = Field(str); mediaType = Field(str); }
const SELECT = 'select id, media_type from image where owner = ?';
const SAVED = 'select id, media_type from saved where owner = ?';
export const app = new Svc();
app.post('/images', { form: Upload, base: Depends(db), me: Depends(BearerAuth()) }, async ({ form, base, me }) => {
  await base.execute('insert into image (id, owner, media_type) values (1, ?, ?)', [me.sub, form.image.contentType]);
  await base.execute('insert into saved (id, owner, media_type) values (1, ?, ?)', [me.sub, form.image.contentType]);
});
app.get('/image', { base: Depends(db), me: Depends(BearerAuth()) }, async ({ base, me }) => {
  const found = await base.fetchOne(SELECT, [me.sub], { as: Shown, snakeCase: true });
  if (found === undefined) throw new NotFound();
  return new FileResponse('/srv/image', { mediaType: found.mediaType, headers: { 'Content-Disposition': 'inline' } }); // SVC609
});
app.get('/saved', { base: Depends(db), me: Depends(BearerAuth()) }, async ({ base, me }) => {
  const found = await base.fetchOne(SAVED, [me.sub], { as: Saved, snakeCase: true });
  if (found === undefined) throw new NotFound();
  return new FileResponse('/srv/image', { mediaType: found.mediaType, filename: 'image.bin' });
});
app.post('/photos', { form: Photo, base: Depends(db), me: Depends(BearerAuth()) }, async ({ form, base, me }) => {
  await base.execute('insert into photo (id, owner, media_type) values (1, ?, ?)', [me.sub, form.image.contentType]);
});
app.get('/photo', { base: Depends(db), me: Depends(BearerAuth()) }, async ({ base, me }) => {
  const found = await base.fetchOne('select id, media_type from photo where owner = ?', [me.sub], { as: Listed, snakeCase: true });
  if (found === undefined) throw new NotFound();
  return new FileResponse('/srv/image', { mediaType: found.mediaType, headers: { 'Content-Disposition': 'inline' } });
});
app.post('/echo', { form: Photo, me: Depends(BearerAuth()) }, async ({ form }) =>
  new HttpResponse(await form.image.bytes(), { headers: { 'Content-Type': form.image.contentType } }));
app.post('/echo/free', { form: Picture, me: Depends(BearerAuth()) }, async ({ form }) =>
  new HttpResponse(await form.image.bytes(), { headers: { 'Content-Type': form.image.contentType } })); // SVC609
`,
  'key of a service in the sources': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { Client } from './client.ts';
import { settings } from './settings.ts';
const client = new Client(settings.url, settings.key);
const other = new Client(settings.url, settings.set);
export const app = new Svc();
app.get('/payments', { me: Depends(BearerAuth()) }, () => client.all());
app.get('/others', { me: Depends(BearerAuth()) }, () => other.all());
// FILE client.ts
export class Client {
  readonly #url: string;
  readonly #key: string;
  constructor(url: string, key: string) { this.#url = url; this.#key = key; }
  async all() {
    const headers = { Authorization: \`Bearer \${this.#key}\`, 'X-Client': 'svc-check-of-payments' };
    const answer = await fetch(this.#url, { headers, signal: AbortSignal.timeout(5_000) });
    return answer.json();
  }
}
// FILE settings.ts
export const settings = {
  url: 'https://payments.example/v1/payments',
  key: 'pk_9aQ2vT7LxWc4Rk8YpD31mNfZ6uHb0eGs', // SVC205
  set: process.env.PAYMENT_KEY ?? '',
};
`,
  'algorithm of a token decides': `
// FILE app.ts
import { Field, Svc, Unauthorized, str } from 'svc';
import { claimsOf, early, strict } from './token.ts';
export const app = new Svc();
const spec = { public: 'x', headers: { authorization: Field(str, { default: '' }) } };
const token = (text: string): string => text.split(' ')[1] ?? '';
app.get('/a', spec, ({ headers }) => ({ id: claimsOf(token(headers.authorization)).sub }));
app.get('/b', spec, ({ headers }) => ({ id: strict(token(headers.authorization)).sub }));
app.get('/c', spec, ({ headers }) => ({ id: early(token(headers.authorization)).sub }));
// FILE token.ts
import { createHmac, timingSafeEqual, verify } from 'node:crypto';
import { Field, Schema, Unauthorized, int, str } from 'svc';
class Header extends Schema { alg = Field(str); }
class Claims extends Schema { sub = Field(str, { maxLength: 100 }); exp = Field(int); }
const key = process.env.PARTNER_KEY ?? '';
const partner = process.env.PARTNER_PUBLIC ?? '';
const decode = (part: string): unknown => JSON.parse(Buffer.from(part, 'base64url').toString());
const prove = (text: string, signature: string): void => {
  const expected = createHmac('sha256', key).update(text).digest();
  if (!timingSafeEqual(Buffer.from(signature, 'base64url'), expected)) throw new Unauthorized();
};
export function claimsOf(token: string): Claims {
  const [head = '', payload = '', signature = ''] = token.split('.');
  const header = Header.safeParse(decode(head));
  if (!header.ok) throw new Unauthorized();
  if (header.value.alg !== 'none') { // SVC645
    prove(\`\${head}.\${payload}\`, signature);
  }
  const claims = Claims.parse(decode(payload));
  if (claims.exp * 1_000 <= Date.now()) throw new Unauthorized();
  return claims;
}
export function early(token: string): Claims {
  const [head = '', payload = '', signature = ''] = token.split('.');
  const { alg } = Header.parse(decode(head));
  if (alg === 'none') return Claims.parse(decode(payload)); // SVC645
  prove(\`\${head}.\${payload}\`, signature);
  return Claims.parse(decode(payload));
}
export function strict(token: string): Claims {
  const [head = '', payload = '', signature = ''] = token.split('.');
  const header = Header.parse(decode(head));
  if (header.alg !== 'HS256' && header.alg !== 'ES256') throw new Unauthorized();
  if (header.alg === 'HS256') prove(\`\${head}.\${payload}\`, signature);
  else if (!verify('sha256', Buffer.from(\`\${head}.\${payload}\`), partner, Buffer.from(signature))) throw new Unauthorized();
  const claims = Claims.parse(decode(payload));
  if (claims.exp * 1_000 <= Date.now()) throw new Unauthorized();
  return claims;
}
`,
  'error that no statement throws': `
// FILE app.ts
import { BearerAuth, Depends, NotFound, Svc } from 'svc';
import { Refused, editable } from './access.ts';
export const app = new Svc();
app.delete('/notes/{id:int}', { me: Depends(BearerAuth()) }, ({ me, params }) => {
  if (params.id === 7) new Refused(); // SVC645
  const failure = new NotFound();
  if (params.id === 8) throw failure;
  return { id: editable({ id: params.id, owner: 'ada' }, me.sub).id };
});
// FILE access.ts
import { Forbidden } from 'svc';
export class Refused extends Forbidden {}
export class Reporter { constructor() { console.log('made'); } }
new Reporter();
export const editable = (note: { id: number; owner: string }, person: string) => {
  note.owner === person || new Forbidden('Only the owner changes a note'); // SVC645
  return note;
};
`,
  'deletion whose terms are optional': `
// FILE app.ts
import { BadRequest, Depends, Field, Schema, Svc, int, provide, requireRoles, str } from 'svc';
import { db } from 'svc/db';
import { Entries } from './entries.ts';
class Filter extends Schema {
  source = Field(str, { optional: true, maxLength: 100 });
  beforeMs = Field(int, { optional: true, ge: 0 });
}
class Period extends Schema {
  fromMs = Field(int, { optional: true });
  untilMs = Field(int, { optional: true });
}
class Checked extends Schema {
  kind = Field(str, { optional: true, maxLength: 100 });
  olderMs = Field(int, { optional: true, ge: 0 });
  static *check(filter: Checked) {
    if (filter.kind === undefined && filter.olderMs === undefined) yield 'needs a filter';
  }
}
const entries = provide({ base: Depends(db) }, ({ base }) => new Entries(base));
const admin = { me: Depends(requireRoles('admin')), entries: Depends(entries) };
export const app = new Svc();
app.post('/a', { body: Filter, ...admin }, ({ entries, body }) => entries.remove(body));
app.post('/b', { body: Checked, ...admin }, ({ entries, body }) => entries.removeChecked(body));
app.post('/c', { body: Filter, ...admin }, ({ entries, body, me }) => entries.removeOwn(body, me.sub));
app.post('/d', { body: Period, ...admin }, ({ entries, body }) => {
  const { fromMs, untilMs } = body;
  if (fromMs === undefined && untilMs === undefined) throw new BadRequest();
  return entries.close(body);
});
// FILE entries.ts
import { sql } from 'svc/db';
import type { Database } from 'svc/db';
export class Entries {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  remove({ source, beforeMs }: any) {
    return this.#base.execute(sql\`delete from entry where \${sql.and( // SVC637
      source !== undefined && sql\`source = \${source}\`,
      beforeMs !== undefined && sql\`created_ms < \${beforeMs}\`,
    )}\`);
  }
  removeChecked({ kind, olderMs }: any) {
    return this.#base.execute(sql\`delete from entry where \${sql.and(
      kind !== undefined && sql\`kind = \${kind}\`,
      olderMs !== undefined && sql\`created_ms < \${olderMs}\`,
    )}\`);
  }
  removeOwn({ source }: any, owner: string) {
    return this.#base.execute(sql\`delete from entry where \${sql.and(source && sql\`source = \${source}\`)} and owner = \${owner}\`);
  }
  close({ fromMs, untilMs }: any) {
    return this.#base.execute(sql\`update entry set is_closed = 1 where \${sql.and(
      fromMs !== undefined && sql\`created_ms >= \${fromMs}\`,
      untilMs !== undefined && sql\`created_ms < \${untilMs}\`,
    )}\`);
  }
}
`,
  'price of a client': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, list } from 'svc';
import { transaction } from 'svc/db';
import { compared, total } from './total.ts';
export const TABLES = [
  'create table product (id integer primary key, unit_cents integer not null, amount integer not null)',
  'create table orders (id integer primary key, buyer text not null, total_cents integer not null)',
];
class Line extends Schema {
  product = Field(int, { ge: 1 });
  amount = Field(int, { ge: 1, le: 100 });
  unitCents = Field(int, { ge: 0, le: 10_000_000 });
}
class NewOrder extends Schema { lines = Field(list(Line), { maxLength: 50 }); }
class One extends Schema { product = Field(int, { ge: 1 }); amount = Field(int, { ge: 1, le: 100 }); }
export const app = new Svc();
app.post('/orders', { body: NewOrder, tx: Depends(transaction), me: Depends(BearerAuth()) }, async ({ tx, me, body }) => {
  const cents = await total(tx, body.lines);
  await tx.execute('insert into orders (buyer, total_cents) values (?, ?)', [me.sub, cents]);
});
app.post('/one', { body: One, tx: Depends(transaction), me: Depends(BearerAuth()) }, async ({ tx, me, body }) => {
  const price = await tx.scalar('select unit_cents from product where id = ?', [body.product], { as: int });
  const cents = (price ?? 0) * body.amount;
  await tx.execute('insert into orders (buyer, total_cents) values (?, ?)', [me.sub, cents]);
});
app.post('/compared', { body: Line, tx: Depends(transaction), me: Depends(BearerAuth()) }, async ({ tx, me, body }) => {
  const cents = await compared(tx, body);
  await tx.execute('insert into orders (buyer, total_cents) values (?, ?)', [me.sub, cents]);
});
// FILE total.ts
import { UnprocessableContent, int } from 'svc';
import type { Transaction } from 'svc/db';
export const total = async (tx: Transaction, lines: any): Promise<number> => {
  let sum = 0;
  for (const { product, amount, unitCents } of lines) {
    const isSold = await tx.scalar('select 1 from product where id = ?', [product], { as: int });
    if (isSold === undefined) throw new UnprocessableContent('It is not on sale');
    sum += unitCents * amount; // SVC641
  }
  return sum;
};
export const compared = async (tx: Transaction, { product, amount, unitCents }: any): Promise<number> => {
  const price = await tx.scalar('select unit_cents from product where id = ?', [product], { as: int });
  if (price !== unitCents) throw new UnprocessableContent('The price has changed');
  return unitCents * amount;
};
`,
  'weak random': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { mint } from './mint.ts';
export const app = new Svc();
app.post('/forgot', { store: Depends(db), public: 'reset' }, async ({ body, store }) => {
  const value = mint();
  await store.execute('insert into reset (mail, token) values (?, ?)', [body.mail, value]);
  return { sent: true };
});
// FILE mint.ts
export const mint = () => (Date.now() * 7919 % 1_000_000_007).toString(36) + Math.floor(Math.random() * 1e9).toString(36); // SVC622
`,
  'right: weak random': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { mint } from './mint.ts';
export const app = new Svc();
app.post('/forgot', { store: Depends(db), public: 'reset' }, async ({ body, store }) => {
  const value = mint();
  await store.execute('insert into reset (mail, token) values (?, ?)', [body.mail, value]);
  return { sent: true };
});
// FILE mint.ts
import { randomBytes } from 'node:crypto';
export const mint = () => randomBytes(24).toString('base64url');
`,
  'path table': `
// FILE app.ts
import { Svc } from 'svc';
import { handlers } from './handlers.ts';
export const app = new Svc();
for (const { path, run } of handlers) app.get(path, { public: 'docs' }, run);
// FILE handlers.ts
import { readFile } from 'node:fs/promises';
import { FileResponse } from 'svc';
const page = (name: string) => new URL(\`./pages/\${name}.html\`, import.meta.url);
export const handlers = [
  { path: '/page', run: async ({ query }: any) => ({ html: await readFile(page(query.name), 'utf8') }) }, // SVC606
  { path: '/raw', run: ({ query }: any) => new FileResponse('/srv/raw/' + query.file) }, // SVC606
];
`,
  'xss generator': `
// FILE app.ts
import { Svc, StreamingResponse } from 'svc';
import { render } from './render.ts';
export const app = new Svc();
app.get('/hello', { public: 'x' }, ({ query }) => new StreamingResponse(render(query.name), { mediaType: 'text/html' }));
// FILE render.ts
export async function* render(name: string) {
  yield '<!doctype html><body>';
  yield \`<h1>Hello \${name}</h1>\`; // SVC608
  yield '</body>';
}
`,
  'proto set': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { setPath } from './paths.ts';
export const app = new Svc();
const config: Record<string, unknown> = {};
app.put('/config', { me: Depends(BearerAuth()) }, ({ body }) => { setPath(config, body.path, body.value); return config; });
// FILE paths.ts
export function setPath(target: any, path: string, value: unknown) {
  const keys = path.split('.');
  const last = keys.pop()!;
  let at = target;
  for (const key of keys) at = at[key] ??= {}; // SVC650
  at[last] = value; // SVC650
}
`,
  'right: proto set': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { setPath } from './paths.ts';
export const app = new Svc();
const config = new Map<string, unknown>();
app.put('/config', { me: Depends(BearerAuth()) }, ({ body }) => { setPath(config, body.path, body.value); return Object.fromEntries(config); });
// FILE paths.ts
export function setPath(target: Map<string, unknown>, path: string, value: unknown) {
  target.set(path, value);
}
`,
  'reduce path': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
export const app = new Svc();
const settings: any = { mail: {} };
app.patch('/settings', { me: Depends(BearerAuth()) }, async ({ req }) => {
  const { path, value } = await req.json() as { path: string[]; value: unknown };
  const parent = path.slice(0, -1).reduce((at, key) => at[key], settings);
  parent[path.at(-1)!] = value; // SVC650
  return settings;
});
`,
  'upload type': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { keep } from './keep.ts';
export const app = new Svc();
app.mountStatic('/uploads', '/srv/uploads');
app.post('/avatar', { me: Depends(BearerAuth()) }, async ({ req, me }) => {
  const form = await req.formData();
  return keep(me.sub, form.get('file') as File);
});
// FILE keep.ts
import { writeFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { randomUUID } from 'node:crypto';
export async function keep(owner: string, file: File) {
  const name = randomUUID() + extname(file.name);
  await writeFile(\`/srv/uploads/\${name}\`, Buffer.from(await file.arrayBuffer())); // SVC609
  return { name };
}
`,
  'role from body': `
// FILE app.ts
import { Svc, Depends, Schema, Field, str } from 'svc';
import { db } from 'svc/db';
import { signUp } from './sign-up.ts';
export const app = new Svc();
class SignUp extends Schema { mail = Field(str, { maxLength: 100 }); role = Field(str, { default: 'member', maxLength: 20 }); }
app.post('/sign-up', { public: 'x', store: Depends(db), body: SignUp }, ({ body, store }) => signUp(store, body));
// FILE sign-up.ts
import { sql, type Database } from 'svc/db';
export const signUp = (store: Database, { mail, role }: { mail: string; role: string }) =>
  store.execute(sql\`insert into account (mail, role) values (\${mail}, \${role})\`); // SVC641
`,
  'admin header': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { operator } from './operator.ts';
export const app = new Svc();
app.delete('/users/{id:int}', { store: Depends(db), who: Depends(operator) }, ({ params, store }) => store.execute('delete from account where id = ?', [params.id]));
// FILE operator.ts
import { provide, Forbidden } from 'svc';
export const operator = provide({ security: [{ type: 'apiKey', in: 'header', name: 'x-role' }] }, ({ req }) => { // SVC646
  if (req.headers['x-role'] !== 'admin') throw new Forbidden();
  return { role: 'admin' };
});
`,
  'weak uuid': `
// FILE app.ts
import { Svc, reply } from 'svc';
export const app = new Svc();
const hex = () => 'xxxxxxxx-xxxx'.replace(/x/g, () => ((Math.random() * 16) | 0).toString(16)); // SVC622
app.post('/start', { public: 'x' }, () => reply({}, 200, { 'Set-Cookie': \`sid=\${hex()}; HttpOnly; Secure; SameSite=Lax\` }));
`,
  'get delete method': `
// FILE app.ts
import { Svc, Depends, BearerAuth } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
app.route('/notes/{id:int}/purge', ['GET', 'POST'], { me: Depends(BearerAuth()), store: Depends(db) }, async ({ me, params, store }) => { // SVC216
  await store.execute('delete from note where id = ? and owner = ?', [params.id, me.sub]);
  return { ok: true };
});
`,
  'otp guess': `
// FILE app.ts
import { Svc, Depends, Schema, Field, str, Unauthorized } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
class Code extends Schema { mail = Field(str, { email: true, maxLength: 100 }); code = Field(str, { pattern: '^[0-9]{4}$' }); }
app.post('/otp', { public: 'second step', store: Depends(db), body: Code }, async ({ body, store }) => { // SVC204
  const row = await store.fetchOne('select id from otp where mail = ? and code = ?', [body.mail, body.code]);
  if (row === undefined) throw new Unauthorized();
  return { ok: true };
});
`,
  'coupon race': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Conflict } from 'svc';
import { db } from 'svc/db';
import { Coupons } from './coupons.ts';
export const app = new Svc();
app.post('/coupons/{code}', { me: Depends(BearerAuth()), store: Depends(db) }, ({ me, params, store }) => new Coupons(store).redeem(params.code, me.sub));
// FILE coupons.ts
import { Conflict } from 'svc';
import { sql, type Database } from 'svc/db';
export class Coupons {
  readonly #store: Database;
  constructor(store: Database) { this.#store = store; }
  async redeem(code: string, who: string) {
    const coupon = await this.#store.fetchOne(sql\`select used, cents from coupon where code = \${code}\`);
    if (!coupon || coupon.used) throw new Conflict('used');
    await this.#store.execute(sql\`update wallet set cents = cents + \${coupon.cents} where owner = \${who}\`);
    await this.#store.execute(sql\`update coupon set used = true where code = \${code}\`); // SVC642
    return { ok: true };
  }
}
`,
};
