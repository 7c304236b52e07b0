/** Applications that end the process, or lose work with it, and applications that do the same work right. */
export const PROCESS: Readonly<Record<string, string>> = {
  'errors that nothing receives': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { open } from 'node:fs/promises';
import { totals, page } from './work.ts';
import { bus } from './listeners.ts';
export const app: Svc = new Svc();
process.on('uncaughtException', (error) => console.error(error)); // SVC663
app.get('/totals', { me: Depends(BearerAuth()) }, () => totals());
app.post('/orders', { me: Depends(BearerAuth()) }, ({ me }) => { bus.emit('order', { owner: me.sub }); });
app.get('/page', { me: Depends(BearerAuth()) }, () => page());
app.get('/journal', { me: Depends(BearerAuth()) }, async () => {
  const handle = await open('journal.bin'); // SVC658
  const text = await handle.readFile('utf8');
  await handle.close();
  return text;
});
// FILE work.ts
import { readFile } from 'node:fs';
import { spawn } from 'node:child_process';
export const totals = () => new Promise((resolve) => {
  readFile('totals.json', 'utf8', (error, text) => {
    if (error) throw error; // SVC611
    resolve(text);
  });
});
export const page = () => new Promise(async (resolve) => { // SVC611
  const child = spawn('render', []); // SVC613
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout) chunks.push(chunk);
  if (chunks.length === 0) process.exit(1); // SVC663
  await new Response('done').text();
  resolve(Buffer.concat(chunks));
});
// FILE listeners.ts
import { EventEmitter } from 'node:events';
import { openDatabase } from 'svc/db';
const db = await openDatabase('file:stats.db');
export const bus = new EventEmitter();
bus.on('order', async (order) => { // SVC611
  await db.execute('update stats set orders = orders + 1 where owner = ?', [order.owner]);
});
const timer = setInterval(() => { sendOutbox().catch(console.error); }, 1_000); // SVC664
timer.unref();
async function sendOutbox(): Promise<void> {
  const rows = await db.fetchAll('select id, body from outbox order by id limit 100');
  for (const row of rows) {
    await fetch('https://partner.example/events', { method: 'POST', body: row.body, signal: AbortSignal.timeout(10_000) });
    await db.execute('delete from outbox where id = ?', [row.id]);
  }
}
`,
  'errors that code receives': `
// FILE app.ts
import { BearerAuth, Depends, HTTPException, Svc } from 'svc';
import { open } from 'node:fs/promises';
import { totals, page } from './work.ts';
import { bus } from './listeners.ts';
export const app: Svc = new Svc();
process.on('uncaughtException', (error) => { console.error(error); process.exit(1); });
app.get('/totals', { me: Depends(BearerAuth()) }, () => totals());
app.post('/orders', { me: Depends(BearerAuth()) }, ({ me }) => { bus.emit('order', { owner: me.sub }); });
app.get('/page', { me: Depends(BearerAuth()) }, () => page());
app.get('/journal', { me: Depends(BearerAuth()) }, async () => {
  const handle = await open('journal.bin');
  try {
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
});
// FILE work.ts
import { readFile } from 'node:fs';
import { spawn } from 'node:child_process';
import { HTTPException } from 'svc';
export const totals = () => new Promise((resolve, reject) => {
  readFile('totals.json', 'utf8', (error, text) => {
    if (error) return reject(error);
    resolve(text);
  });
});
export async function page(): Promise<Buffer> {
  const child = spawn('render', []);
  child.once('error', console.error);
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout) chunks.push(chunk);
  if (chunks.length === 0) throw new HTTPException(503);
  return Buffer.concat(chunks);
}
// FILE listeners.ts
import { EventEmitter } from 'node:events';
import { openDatabase } from 'svc/db';
const db = await openDatabase('file:stats.db');
export const bus = new EventEmitter();
bus.on('order', async (order) => {
  try {
    await db.execute('update stats set orders = orders + 1 where owner = ?', [order.owner]);
  } catch (error) { console.error(error); }
});
let isSending = false;
const timer = setInterval(() => { sendOutbox().catch(console.error); }, 1_000);
timer.unref();
async function sendOutbox(): Promise<void> {
  if (isSending) return;
  isSending = true;
  try {
    const rows = await db.fetchAll('select id, body from outbox order by id limit 100');
    for (const row of rows) {
      const response = await fetch('https://partner.example/events', { method: 'POST', body: row.body, signal: AbortSignal.timeout(10_000) });
      if (response.ok) await db.execute('delete from outbox where id = ?', [row.id]);
    }
  } finally { isSending = false; }
}
`,
  'work that a client takes for done': `
// FILE app.ts
import { BearerAuth, Depends, Field, HTTPException, Schema, Svc, int, list } from 'svc';
import { db as database } from 'svc/db';
import { setTimeout as sleep } from 'node:timers/promises';
import { charge, later, sms } from './work.ts';
class Ids extends Schema { ids = Field(list(int), { maxLength: 20 }); }
export const app: Svc = new Svc();
app.post('/transfers', { me: Depends(BearerAuth()), db: Depends(database) }, ({ me, db }) => {
  later(() => db.execute('insert into transfer (owner) values (?)', [me.sub])); // SVC659
  return { accepted: true };
});
app.post('/visits', { me: Depends(BearerAuth()), db: Depends(database) }, ({ me, db }) => {
  db.execute('insert into visit (owner) values (?)', [me.sub]).catch((error) => console.error(error)); // SVC659
  return { accepted: true };
});
app.post('/archive', { me: Depends(BearerAuth()), db: Depends(database), body: Ids }, async ({ me, db, body }) => {
  await Promise.allSettled(body.ids.map((id) => db.execute('update note set archived = true where id = ? and owner = ?', [id, me.sub]))); // SVC659
  return { ok: true };
});
app.post('/welcome', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  await sms(me.sub);
  await db.execute('update customer set welcomed = true where id = ?', [me.sub]);
  return { sent: true };
});
app.get('/health', { db: Depends(database) }, async ({ db }) => {
  try {
    await db.fetchOne('select 1 as one');
  } catch (error) { // SVC659
    console.warn('database', error);
  }
  return { status: 'ok' };
});
app.post('/saved', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  let saved = false;
  try {
    await db.execute('insert into visit (owner) values (?)', [me.sub]);
    saved = true;
  } catch (error) {
    console.error(error);
  }
  if (!saved) throw new HTTPException(503);
  return 'ok';
});
app.post('/rows', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  let row;
  try {
    row = await db.fetchOne('insert into visit (owner) values (?) returning id', [me.sub]);
  } catch (error) {
    console.error(error);
  }
  return { id: row?.id ?? null };
});
app.post('/counted', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  const result = { done: 0 };
  try {
    await db.execute('insert into visit (owner) values (?)', [me.sub]);
    result.done++;
  } catch (error) {
    console.error(error);
  }
  return result;
});
app.post('/begun', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  let at = '';
  try {
    at = new Date().toISOString();
    await db.execute('insert into visit (owner) values (?)', [me.sub]);
  } catch (error) { // SVC659
    console.error(error);
  }
  return { at };
});
app.post('/logged', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  let saved = false;
  try {
    await db.execute('insert into visit (owner) values (?)', [me.sub]);
    saved = true;
  } catch (error) { // SVC659
    console.error(error);
  }
  console.info('saved', saved);
  return 'ok';
});
app.post('/charges', { me: Depends(BearerAuth()) }, ({ me }) => charge(me.sub));
app.get('/jobs/{id:int}/wait', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ params, db, me }) => {
  for (;;) { // SVC635
    const job = await db.fetchOne('select state from job where id = ? and owner = ?', [params.id, me.sub]);
    if (job?.state === 'done') return { state: 'done' };
    await sleep(1_000);
  }
});
// FILE work.ts
export function later(work: () => Promise<unknown>): void { setImmediate(() => void work().catch(console.error)); }
export async function sms(to: string): Promise<void> {
  await fetch('https://sms.example/send', { method: 'POST', body: to, signal: AbortSignal.timeout(4_000) }); // SVC659
}
export async function charge(owner: string): Promise<unknown> {
  const response = await fetch('https://pay.example/charge', { method: 'POST', body: owner, signal: AbortSignal.timeout(2_000) });
  if (response.status >= 500) return charge(owner); // SVC657
  return response.json();
}
`,
  'work that is done': `
// FILE app.ts
import { BackgroundTasks, BearerAuth, Depends, Field, HTTPException, Schema, Svc, int, list } from 'svc';
import { db as database } from 'svc/db';
import { setTimeout as sleep } from 'node:timers/promises';
import { charge, sms } from './work.ts';
class Ids extends Schema { ids = Field(list(int), { maxLength: 20 }); }
export const app: Svc = new Svc();
app.post('/transfers', { me: Depends(BearerAuth()), db: Depends(database), tasks: Depends(BackgroundTasks) }, ({ me, db, tasks }) => {
  tasks.add(() => db.execute('insert into transfer (owner) values (?)', [me.sub]));
  return { accepted: true };
});
app.post('/archive', { me: Depends(BearerAuth()), db: Depends(database), body: Ids }, async ({ me, db, body }) => {
  const results = await Promise.allSettled(body.ids.map((id) => db.execute('update note set archived = true where id = ? and owner = ?', [id, me.sub])));
  return { archived: results.filter(({ status }) => status === 'fulfilled').length };
});
app.post('/welcome', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  await sms(me.sub);
  await db.execute('update customer set welcomed = true where id = ?', [me.sub]);
  return { sent: true };
});
app.get('/notes', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ db, me }) => {
  const notes = await db.fetchAll('select id, text from note where owner = ? limit 50', [me.sub]);
  try {
    await db.execute('insert into visit (owner) values (?)', [me.sub]);
  } catch (error) {
    console.warn('visit', error);
  }
  return notes;
});
app.post('/charges', { me: Depends(BearerAuth()) }, ({ me }) => charge(me.sub, 3));
app.get('/jobs/{id:int}/wait', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ params, db, me, signal }) => {
  while (!signal.aborted) {
    const job = await db.fetchOne('select state from job where id = ? and owner = ?', [params.id, me.sub]);
    if (job?.state === 'done') return { state: 'done' };
    await sleep(1_000, undefined, { signal });
  }
  throw new HTTPException(503);
});
// FILE work.ts
import { HTTPException } from 'svc';
export async function sms(to: string): Promise<void> {
  const response = await fetch('https://sms.example/send', { method: 'POST', body: to, signal: AbortSignal.timeout(4_000) });
  if (!response.ok) throw new HTTPException(502);
}
export async function charge(owner: string, left: number): Promise<unknown> {
  const response = await fetch('https://pay.example/charge', { method: 'POST', body: owner, signal: AbortSignal.timeout(2_000) });
  if (response.status >= 500 && left > 0) return charge(owner, left - 1);
  return response.json();
}
`,
  'amounts of a client': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, list, str } from 'svc';
import { randomBytes } from 'node:crypto';
import { board, status } from './work.ts';
class Links extends Schema { ids = Field(list(str)); }
export const trustAll = (): void => { process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'; }; // SVC629
export const app: Svc = new Svc();
app.get('/random', { query: { bytes: Field(int, { ge: 1 }) } }, ({ query }) => randomBytes(query.bytes).toString('hex')); // SVC637
app.get('/board', { query: { width: Field(int, { ge: 1 }) } }, ({ query }) => board(query.width));
app.get('/banner', { query: { times: Field(int, { ge: 1 }) } }, ({ query }) => {
  for (let index = 0; index < query.times; index++) board(2); // SVC637
  return 'ok';
});
app.post('/links', { me: Depends(BearerAuth()), body: Links }, ({ body, req }) => status(body.ids, req.signal));
app.put('/settings', { me: Depends(BearerAuth()) }, async ({ req }) => merge(structuredClone(DEFAULTS), await req.json()));
const DEFAULTS = { theme: { dark: false } };
const isTree = (value: unknown): boolean => typeof value === 'object' && value !== null;
function merge(target: any, source: any): unknown {
  for (const key in source) {
    if (isTree(target[key]) && isTree(source[key])) merge(target[key], source[key]);
    else target[key] = source[key]; // SVC650
  }
  return target;
}
// FILE work.ts
export const board = (width: number): readonly number[] => new Array<number>(width).fill(0); // SVC637
const one = async (id: string, signal: AbortSignal) => (await fetch('https://links.example/' + encodeURIComponent(id), { signal })).status;
export const status = (ids: readonly string[], signal: AbortSignal) => Promise.all(ids.map((id) => one(id, signal))); // SVC637
`,
  'amounts with a limit': `
// FILE app.ts
import { BadRequest, BearerAuth, Depends, Field, Schema, Svc, int, list, str } from 'svc';
import { randomBytes } from 'node:crypto';
import { status } from './work.ts';
class Links extends Schema { ids = Field(list(str), { maxLength: 20 }); }
export const app: Svc = new Svc();
app.get('/random', { query: { bytes: Field(int, { ge: 1, le: 64 }) } }, ({ query }) => randomBytes(query.bytes).toString('hex'));
app.get('/banner', { query: { times: Field(int, { ge: 1 }) } }, ({ query }) => {
  if (query.times > 9) throw new BadRequest();
  for (let index = 0; index < query.times; index++) console.log(index);
  return 'x'.repeat(query.times);
});
app.post('/links', { me: Depends(BearerAuth()), body: Links }, ({ body, req }) => status(body.ids, req.signal));
app.put('/settings', { me: Depends(BearerAuth()) }, async ({ req }) => merge(structuredClone(DEFAULTS), await req.json()));
app.patch('/settings', { me: Depends(BearerAuth()) }, async ({ req }) => {
  const { path, value } = await req.json();
  const keys = path.split('.');
  if (keys.some((key: string) => key === '__proto__' || key === 'constructor' || key === 'prototype')) throw new BadRequest();
  const settings: any = {};
  const last = keys.pop();
  let node = settings;
  for (const key of keys) node = node[key] ??= {};
  node[last] = value;
  return settings;
});
const DEFAULTS = { theme: { dark: false } };
const isTree = (value: unknown): boolean => typeof value === 'object' && value !== null;
function merge(target: any, source: any): unknown {
  for (const key in source) {
    if (key === '__proto__') continue;
    if (isTree(target[key]) && isTree(source[key])) merge(target[key], source[key]);
    else target[key] = source[key];
  }
  return target;
}
// FILE work.ts
const one = async (id: string, signal: AbortSignal) => (await fetch('https://links.example/' + encodeURIComponent(id), { signal })).status;
export const status = (ids: readonly string[], signal: AbortSignal) => Promise.all(ids.map((id) => one(id, signal)));
`,
  'a timer of a month': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { expireLater } from './timers.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.post('/trials', { me: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ me, db }) => {
  await db.execute('insert into trial (owner) values (?)', [me.sub]);
  expireLater(db, me.sub); // SVC659
});
// FILE timers.ts
import type { Database } from 'svc/db';
const DAY = 24 * 60 * 60 * 1000;
export function expireLater(db: Database, owner: string) {
  setTimeout(() => { // SVC675
    db.execute('delete from trial where owner = ?', [owner]).catch(() => undefined);
  }, 30 * DAY);
}
// FILE migrations/0001_init.up.sql
create table trial (owner text primary key);
`,
  'a request of another service inside of a cached function': `
// FILE app.ts
import { Svc } from 'svc';
import { rateOf } from './rates.ts';
export const app = new Svc();
app.get('/rates/{currency}', ({ params }) => rateOf(params.currency));
// FILE rates.ts
import { NotFound, cached } from 'svc';
const CURRENCIES = new Set(['EUR', 'USD']);
const load = cached(async (currency: string) => {
  const response = await fetch(new URL(\`/v1/\${currency}\`, 'https://rates.example.com')); // SVC635
  return response.json();
}, { ttlSeconds: 300 });
const bounded = cached(async (currency: string) => (await fetch(new URL(\`/v2/\${currency}\`, 'https://rates.example.com'), { signal: AbortSignal.timeout(5_000) })).json(), { ttlSeconds: 300 });
export async function rateOf(currency: string) {
  if (!CURRENCIES.has(currency)) throw new NotFound();
  return [await load(currency), await bounded(currency)];
}
`,
  'right: a timer of a month': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { expireLater } from './timers.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.post('/trials', { me: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ me, db }) => {
  await db.execute('insert into trial (owner) values (?)', [me.sub]);
});
// FILE timers.ts
import type { Database } from 'svc/db';
const DAY = 24 * 60 * 60 * 1000;
export function expireLater(db: Database, owner: string) {
  setTimeout(() => {
    db.execute('delete from trial where owner = ?', [owner]).catch(() => undefined);
  }, 24 * DAY);
}
// FILE migrations/0001_init.up.sql
create table trial (owner text primary key);
`,
  'a start that drops tables, and a job that deletes all rows': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { prepare } from './schema.ts';
import { cleanUp } from './jobs.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.onStartup(async ({ state }) => {
  await prepare(state.db);
  setInterval(() => { cleanUp(state.db).catch(() => undefined); }, 3_600_000).unref();
});
app.post("/jobs", { db: Depends(db), public: "x", status: 204 }, async ({ db }) => { await db.execute("insert into job (id) values (1)"); });
// FILE schema.ts
import type { Database } from 'svc/db';
export async function prepare(db: Database) {
  await db.script('drop table if exists job; create table job (id integer primary key, ends timestamptz)'); // SVC676
  await db.execute('truncate table session'); // SVC676
}
// FILE jobs.ts
import type { Database } from 'svc/db';
export async function cleanUp(db: Database) {
  await db.execute('delete from job'); // SVC676
}
// FILE migrations/0001_init.up.sql
create table session (id text primary key);
create table job (id integer primary key, ends timestamptz);
`,
  'right: a start that drops tables, and a job that deletes all rows': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { prepare } from './schema.ts';
import { cleanUp } from './jobs.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.onStartup(async ({ state }) => {
  await prepare(state.db);
  setInterval(() => { cleanUp(state.db).catch(() => undefined); }, 3_600_000).unref();
});
app.post("/jobs", { db: Depends(db), public: "x", status: 204 }, async ({ db }) => { await db.execute("insert into job (id) values (1)"); });
// FILE schema.ts
import type { Database } from 'svc/db';
export async function prepare(db: Database) {
  await db.script('create table if not exists job (id integer primary key, ends timestamptz)');
}
// FILE jobs.ts
import type { Database } from 'svc/db';
export async function cleanUp(db: Database) {
  await db.execute('delete from job where ends < now()');
}
// FILE migrations/0001_init.up.sql
create table session (id text primary key);
create table job (id integer primary key, ends timestamptz);
`,
  'right: a job that computes the rows of a table again': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { load, refresh } from './jobs.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.onStartup(async ({ state }) => {
  await load(state.db);
  await refresh(state.db);
});
app.post('/refresh', { me: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ db }) => { await refresh(db); });
// FILE jobs.ts
import type { Database } from 'svc/db';
export const refresh = (db: Database) => db.transaction(async (tx) => {
  await tx.execute('delete from best');
  await tx.execute('insert into best (sku, sold) select sku, sum(count) from purchase group by sku');
});
export const load = (db: Database) => db.transaction(async (tx) => {
  await tx.execute('truncate price');
  await tx.execute("insert into price (sku, cents) values ('a', 1)");
});
// FILE migrations/0001_init.up.sql
create table purchase (id integer primary key, sku text not null, count integer not null);
create table best (sku text primary key, sold integer not null);
create table price (sku text primary key, cents integer not null);
`,
};
