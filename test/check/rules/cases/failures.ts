/** Applications with errors that come late, and with the same work done right (SVC657 … SVC662, and helpers of other rules). */
export const FAILURES: Readonly<Record<string, string>> = {
  'csv stream rows': `
// FILE app.ts
import { BearerAuth, Depends, StreamingResponse, Svc, requireRoles } from 'svc';
import { db } from 'svc/db';
import { reportLines } from './export.ts';
export const app: Svc = new Svc();
app.post('/feedback', { db: Depends(db), me: Depends(BearerAuth()), body: Feedback }, async ({ db, body, me }) => {
  await db.execute('insert into feedback (author, comment) values (?, ?)', [me.sub, body.comment]);
  return { ok: true };
});
app.get('/feedback.csv', { db: Depends(db), me: Depends(requireRoles('staff')) }, ({ db }) =>
  new StreamingResponse(reportLines(db), { headers: { 'content-type': 'text/csv' } }));
import { Field, Schema, str } from 'svc';
class Feedback extends Schema { comment = Field(str, { maxLength: 500 }); }
// FILE export.ts
import type { Database } from 'svc/db';
import { Field, Schema, str } from 'svc';
class Entry extends Schema { author = Field(str); comment = Field(str); }
const quoted = (text: string): string => \`"\${text.replaceAll('"', '""')}"\`; // SVC656
export async function* reportLines(db: Database): AsyncGenerator<string> {
  yield 'author,comment\\n';
  for await (const row of db.stream('select author, comment from feedback order by id', [], { as: Entry }))
    yield [row.author, row.comment].map(quoted).join(',') + '\\n';
}
`,
  'csv stream done right': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, StreamingResponse, Svc, requireRoles, str } from 'svc';
import { db } from 'svc/db';
class Feedback extends Schema { comment = Field(str, { maxLength: 500 }); }
export const app: Svc = new Svc();
app.post('/feedback', { db: Depends(db), me: Depends(BearerAuth()), body: Feedback }, async ({ db, body, me }) => {
  await db.execute('insert into feedback (author, comment) values (?, ?)', [me.sub, body.comment]);
  return { ok: true };
});
const cell = (value: unknown): string => {
  const text = String(value);
  return JSON.stringify(/^[=+\\-@\\t\\r]/.test(text) ? \`'\${text}\` : text);
};
app.get('/feedback.csv', { db: Depends(db), me: Depends(requireRoles('staff')) }, async ({ db }) => {
  const lines = async function* () {
    yield 'author;comment\\r\\n';
    for await (const { author, comment } of db.stream('select author, comment from feedback'))
      yield \`\${cell(author)};\${cell(comment)}\\r\\n\`;
  };
  return new StreamingResponse(lines(), { headers: { 'content-type': 'text/csv; charset=utf-8' } });
});
`,
  'password in log through helpers': `
// FILE app.ts
import { Depends, Field, Schema, Svc, Unauthorized, str } from 'svc';
import { db } from 'svc/db';
import { signIn } from './accounts.ts';
import { audit } from './audit.ts';
class Credentials extends Schema { email = Field(str, { maxLength: 200 }); phrase = Field(str, { maxLength: 200 }); }
export const app: Svc = new Svc();
app.post('/sessions', { public: 'login', db: Depends(db), body: Credentials }, async ({ db, body }) => { // SVC204
  audit('sign-in', { request: body });
  const account = await signIn(db, body);
  if (account === undefined) throw new Unauthorized('wrong');
  return { account };
});
// FILE accounts.ts
import { checkPassword } from 'svc';
import type { Database } from 'svc/db';
interface Attempt { email: string; phrase: string }
export async function signIn(db: Database, attempt: Attempt): Promise<number | undefined> {
  const row = await db.fetchOne<{ id: number; hash: string }>('select id, hash from account where email = ?', [attempt.email]);
  if (row === undefined) return undefined; // SVC648
  return (await checkPassword(attempt.phrase, row.hash)) ? row.id : undefined;
}
// FILE audit.ts
export function audit(event: string, details: Record<string, unknown>): void {
  write({ event, at: new Date().toISOString(), ...details });
}
function write(entry: Record<string, unknown>): void {
  console.info(JSON.stringify(entry)); // SVC625
}
`,
  'password in log by a class': `
// FILE app.ts
import { Depends, Field, Schema, Svc, hashPassword, str } from 'svc';
import { db } from 'svc/db';
import { Journal } from './journal.ts';
class NewAccount extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200 }); }
const journal = new Journal('accounts');
export const app: Svc = new Svc();
app.post('/accounts', { public: 'registration', db: Depends(db), body: NewAccount }, async ({ db, body }) => {
  try {
    await db.execute('insert into account (email, hash) values (?, ?)', [body.email, await hashPassword(body.password)]);
  } catch (error) {
    journal.failed(error, body);
    throw error;
  }
  return { ok: true };
});
// FILE journal.ts
export class Journal {
  readonly #area: string;
  constructor(area: string) { this.#area = area; }
  failed(error: unknown, input: object): void {
    console.error(\`[\${this.#area}] \${String(error)}\`, input); // SVC625
  }
}
`,
  'password in log done right': `
// FILE app.ts
import { Depends, Field, Schema, Svc, hashPassword, str } from 'svc';
import { db } from 'svc/db';
import { Journal } from './journal.ts';
class NewAccount extends Schema { email = Field(str, { maxLength: 200 }); password = Field(str, { maxLength: 200 }); }
const journal = new Journal('accounts');
export const app: Svc = new Svc();
app.post('/accounts', { public: 'registration', db: Depends(db), body: NewAccount }, async ({ db, body }) => {
  const { password, ...rest } = body;
  try {
    await db.execute('insert into account (email, hash) values (?, ?)', [body.email, await hashPassword(password)]);
  } catch (error) {
    journal.failed(error, rest);
    journal.failed(error, { email: body.email });
    throw error;
  }
  return { ok: true };
});
// FILE journal.ts
export class Journal {
  readonly #area: string;
  constructor(area: string) { this.#area = area; }
  failed(error: unknown, input: object): void {
    console.error(\`[\${this.#area}] \${String(error)}\`, input);
  }
}
`,
  'retry storm': `
// FILE app.ts
import { Field, Schema, Svc, str } from 'svc';
import { deliver } from './delivery.ts';
class Message extends Schema { text = Field(str, { maxLength: 500 }); }
export const app: Svc = new Svc();
app.post('/messages', { public: 'demo', body: Message }, async ({ body }) => { await deliver(body.text); return { ok: true }; });
// FILE delivery.ts
export async function deliver(text: string): Promise<void> {
  while (true) { // SVC657
    try {
      const answer = await fetch('https://push.example/send', { method: 'POST', body: text, signal: AbortSignal.timeout(5000) });
      if (answer.ok) return;
    } catch {
      continue;
    }
  }
}
`,
  'retry storm recursive': `
// FILE app.ts
import { Field, Schema, Svc, str } from 'svc';
import { Gateway } from './delivery.ts';
class Message extends Schema { text = Field(str, { maxLength: 500 }); }
const gateway = new Gateway();
export const app: Svc = new Svc();
app.post('/messages', { public: 'demo', body: Message }, async ({ body }) => { await gateway.send(body.text); return { ok: true }; });
// FILE delivery.ts
export class Gateway {
  async send(text: string): Promise<unknown> {
    try {
      const answer = await fetch('https://push.example/send', { method: 'POST', body: text, signal: AbortSignal.timeout(5000) });
      return await answer.json();
    } catch {
      return this.send(text); // SVC657
    }
  }
}
`,
  'retry done right': `
// FILE app.ts
import { Field, Schema, Svc, str } from 'svc';
import { setTimeout as sleep } from 'node:timers/promises';
class Message extends Schema { text = Field(str, { maxLength: 500 }); }
export const app: Svc = new Svc();
const post = (text: string) => fetch('https://push.example/send', { method: 'POST', body: text, signal: AbortSignal.timeout(5000) });
async function bounded(text: string): Promise<void> {
  for (let tries = 0; tries < 3; tries++) {
    try { await post(text); return; } catch { continue; }
  }
  throw new Error('no delivery');
}
async function slow(text: string): Promise<void> {
  for (;;) {
    try { await post(text); return; } catch { await sleep(1000); }
  }
}
async function counted(text: string, left = 3): Promise<unknown> {
  try { return await post(text); } catch (error) { if (left === 0) throw error; return counted(text, left - 1); }
}
async function pages(): Promise<void> {
  let next: string | undefined = 'https://push.example/list';
  while (next !== undefined) {
    const answer: Response = await fetch(next, { signal: AbortSignal.timeout(5000) });
    next = answer.headers.get('x-next') ?? undefined;
  }
}
app.post('/messages', { public: 'demo', body: Message }, async ({ body }) => {
  await bounded(body.text); await slow(body.text); await counted(body.text); await pages();
  return { ok: true };
});
`,
  'swallowed error': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
import { keep } from './orders.ts';
class Order extends Schema { item = Field(str, { maxLength: 50 }); }
export const app: Svc = new Svc();
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  await keep(db, me.sub, body.item);
  return { status: 'accepted' };
});
// FILE orders.ts
import type { Database } from 'svc/db';
export async function keep(db: Database, owner: string, item: string): Promise<void> {
  try {
    await db.execute('insert into orders (owner, item) values (?, ?)', [owner, item]);
  } catch (error) { // SVC659
    console.error('order not kept', error);
  }
}
`,
  'swallowed error by catch': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
class Order extends Schema { item = Field(str, { maxLength: 50 }); }
export const app: Svc = new Svc();
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  await db.execute('insert into orders (owner, item) values (?, ?)', [me.sub, body.item]).catch(() => {}); // SVC659
  return { status: 'accepted' };
});
`,
  'swallowed error done right': `
// FILE app.ts
import { BearerAuth, Conflict, Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
class Order extends Schema { item = Field(str, { maxLength: 50 }); }
export const app: Svc = new Svc();
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  try {
    await db.execute('insert into orders (owner, item) values (?, ?)', [me.sub, body.item]);
  } catch (error) {
    throw new Conflict('twice', { cause: error });
  }
  await db.execute('update stat set n = n + 1').catch((error: unknown) => { console.warn('counter', error); });
  try { await db.execute('insert into history (owner) values (?)', [me.sub]); } catch { return { status: 'kept, without history' }; }
  let kept = true;
  try { await db.execute('insert into index_of_orders (owner) values (?)', [me.sub]); } catch { kept = false; }
  return { status: 'accepted', kept };
});
`,
  'lock kept': `
// FILE app.ts
import { Field, Schema, Svc, str } from 'svc';
import { Mutex, locked } from './mutex.ts';
class Job extends Schema { name = Field(str, { maxLength: 50 }); }
const mutex = new Mutex();
let busy = false;
export const app: Svc = new Svc();
app.post('/jobs', { public: 'demo', body: Job }, async ({ body }) => {
  const release = await mutex.acquire(); // SVC658
  const answer = await fetch(\`https://jobs.example/run\`, { method: 'POST', body: body.name, signal: AbortSignal.timeout(1000) });
  release();
  return { status: answer.status };
});
app.post('/imports', { public: 'demo', body: Job }, async ({ body }) => {
  if (busy) return { status: 0 };
  busy = true; // SVC658
  const answer = await fetch(\`https://jobs.example/run\`, { method: 'POST', body: body.name, signal: AbortSignal.timeout(1000) });
  busy = false;
  return { status: answer.status };
});
app.post('/exports', { public: 'demo', body: Job }, async ({ body }) => {
  await locked(body.name, async () => { await fetch('https://jobs.example/run', { signal: AbortSignal.timeout(1000) }); });
  return { status: 1 };
});
// FILE mutex.ts
export class Mutex {
  #tail: Promise<void> = Promise.resolve();
  async acquire(): Promise<() => void> {
    const before = this.#tail;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = promise;
    await before;
    return resolve;
  }
}
const held = new Set<string>();
export async function locked(name: string, work: () => Promise<void>): Promise<void> {
  if (held.has(name)) return;
  held.add(name); // SVC658
  await work();
  held.delete(name);
}
`,
  'lock done right': `
// FILE app.ts
import { Field, Schema, Svc, str } from 'svc';
class Job extends Schema { name = Field(str, { maxLength: 50 }); }
let busy = false;
let last = '';
const held = new Set<string>();
export const app: Svc = new Svc();
app.post('/imports', { public: 'demo', body: Job }, async ({ body }) => {
  if (busy) return { status: 0 };
  busy = true;
  try {
    const answer = await fetch(\`https://jobs.example/run\`, { method: 'POST', body: body.name, signal: AbortSignal.timeout(1000) });
    return { status: answer.status };
  } finally {
    busy = false;
  }
});
app.post('/exports', { public: 'demo', body: Job }, async ({ body }) => {
  if (held.has(body.name)) return { status: 0 };
  held.add(body.name);
  await fetch('https://jobs.example/run', { signal: AbortSignal.timeout(1000) }).finally(() => held.delete(body.name));
  return { status: 1 };
});
`,
  'end of month': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { renewal, yearly } from './dates.ts';
export const app: Svc = new Svc();
app.post('/plans/renew', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ db, me }) => {
  const plan = await db.fetchOne<{ ends: string }>('select ends from plan where owner = ?', [me.sub]);
  if (plan === undefined) return { ok: false };
  await db.execute('update plan set ends = ?, reviewed = ? where owner = ?', [renewal(new Date(plan.ends)).toISOString(), yearly(plan.ends).toISOString(), me.sub]);
  return { ok: true };
});
// FILE dates.ts
export function renewal(start: Date): Date {
  const end = new Date(start);
  end.setMonth(end.getMonth() + 1); // SVC660
  return end;
}
export function yearly(text: string): Date {
  const from = new Date(text);
  return new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1, from.getUTCDate())); // SVC660
}
`,
  'end of month done right': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
export const app: Svc = new Svc();
function first(at: Date): Date { return new Date(at.getFullYear(), at.getMonth() + 1, 1); }
function last(at: Date): Date { return new Date(at.getFullYear(), at.getMonth() + 1, 0); }
function clamped(at: Date): Date {
  const day = at.getDate();
  const next = new Date(at);
  next.setDate(1);
  next.setMonth(next.getMonth() + 1);
  next.setDate(Math.min(day, new Date(next.getFullYear(), next.getMonth() + 1, 0).getDate()));
  return next;
}
function checked(at: Date): Date {
  const next = new Date(at);
  next.setMonth(next.getMonth() + 1);
  if (next.getDate() !== at.getDate()) next.setDate(0);
  return next;
}
function both(at: Date): Date { const next = new Date(at); next.setMonth(next.getMonth() + 1, 1); return next; }
app.get('/dates', { me: Depends(BearerAuth()) }, () => { const now = new Date(); return [first(now), last(now), clamped(now), checked(now), both(now)].map(String); });
`,
  'places of paths and hosts': `
// FILE app.ts
import { BearerAuth, Depends, Field, FileResponse, Schema, Svc, str } from 'svc';
import { readFile } from 'node:fs/promises';
import { fileOf, safeFileOf } from './files.ts';
import { call, callKnown, callListed } from './calls.ts';
class Target extends Schema { url = Field(str, { format: 'uri', maxLength: 500 }); }
export const app: Svc = new Svc();
app.get('/files', { me: Depends(BearerAuth()), query: { name: Field(str, { maxLength: 99 }) } }, ({ query }) => new FileResponse(fileOf(query.name)));
app.get('/texts', { me: Depends(BearerAuth()), query: { name: Field(str, { maxLength: 99 }) } }, async ({ query }) => readFile(safeFileOf(query.name), 'utf8'));
app.post('/probe', { me: Depends(BearerAuth()), body: Target }, ({ body }) => call(body.url));
app.post('/ping', { me: Depends(BearerAuth()), body: Target }, ({ body }) => callListed(body.url));
app.post('/known', { me: Depends(BearerAuth()), body: Target }, ({ body }) => callKnown(body.url));
// FILE files.ts
import { basename, resolve } from 'node:path';
export function fileOf(name: string): string {
  const path = resolve('/var/lib/files', name + '.pdf'); // SVC606
  return path;
}
export const safeFileOf = (name: string): string => resolve('/var/lib/files', basename(name));
// FILE calls.ts
import { BadRequest } from 'svc';
const HOSTS = new Set(['a.example', 'b.example']);
const options = { redirect: 'error', signal: AbortSignal.timeout(9_000) } as const;
export async function call(url: string): Promise<number> {
  const { host, protocol } = new URL(url);
  if (!HOSTS.has(host) && protocol !== 'https:') throw new BadRequest('unknown host'); // SVC607
  return (await fetch(url, options)).status;
}
export async function callListed(url: string): Promise<number> {
  const isListed = HOSTS.has(new URL(url).hostname);
  if (isListed || url.length < 99) return (await fetch(url, options)).status; // SVC607
  return 0;
}
export async function callKnown(url: string): Promise<number> {
  if (!HOSTS.has(new URL(url).host)) throw new BadRequest('unknown host');
  return (await fetch(url, options)).status;
}
`,
  'listeners of sockets': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { feed, Prices } from './feed.ts';
const prices = new Prices();
export const app: Svc = new Svc();
app.websocket('/follow', { me: Depends(BearerAuth()) }).onOpen((socket) => {
  feed.subscribe((text) => socket.send(text)); // SVC654
});
const seen: unknown[] = [];
app.get('/wait', { me: Depends(BearerAuth()) }, () => {
  prices.watch((price) => seen.push(price)); // SVC654
  return { ok: true };
});
// FILE feed.ts
import { EventEmitter } from 'node:events';
export type Listener = (text: string) => void;
class Feed {
  readonly #events = new EventEmitter().setMaxListeners(0);
  subscribe(listener: Listener): void { this.#events.on('text', listener); }
  unsubscribe(listener: Listener): void { this.#events.off('text', listener); }
}
export const feed = new Feed();
export class Prices {
  readonly #events = new EventEmitter();
  watch(listener: (price: unknown) => void): void { this.#events.addListener('price', listener); }
}
`,
  'listeners of sockets that code removes': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { feed } from './feed.ts';
import type { Listener } from './feed.ts';
const listeners = new Map<string, Listener>();
export const app: Svc = new Svc();
app.websocket('/follow', { me: Depends(BearerAuth()) })
  .onOpen((socket) => {
    const listener: Listener = (text) => socket.send(text);
    listeners.set(socket.id, listener);
    feed.subscribe(listener);
  })
  .onClose((socket) => {
    const listener = listeners.get(socket.id);
    if (listener !== undefined) feed.unsubscribe(listener);
    listeners.delete(socket.id);
  });
// FILE feed.ts
import { EventEmitter } from 'node:events';
export type Listener = (text: string) => void;
class Feed {
  readonly #events = new EventEmitter().setMaxListeners(0);
  subscribe(listener: Listener): void { this.#events.on('text', listener); }
  unsubscribe(listener: Listener): void { this.#events.off('text', listener); }
}
export const feed = new Feed();
`,
  'content of people in logs': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, createLogger, date, list, str } from 'svc';
import { describe } from './describe.ts';
export class Visit extends Schema { name = Field(str, { maxLength: 99 }); born = Field(date); complaints = Field(list(str), { maxLength: 9 }); }
class Letter extends Schema { to = Field(str, { maxLength: 99 }); subject = Field(str, { maxLength: 99 }); text = Field(str, { maxLength: 999 }); }
const log = createLogger();
export const app: Svc = new Svc();
app.post('/visits', { me: Depends(BearerAuth()), body: Visit }, ({ body }) => {
  log.info('visit', { summary: describe(body) }); // SVC625
  log.info('visit', { complaints: body.complaints.length, name: body.name.length });
  return { ok: true };
});
app.post('/letters', { me: Depends(BearerAuth()), body: Letter }, ({ body: { to, subject, text } }) => {
  log.info('letter', { to, subject, text }); // SVC625
  log.info('letter', { to });
  return { ok: true };
});
// FILE describe.ts
import type { Visit } from './app.ts';
export const describe = ({ name, born, complaints }: Visit): string => \`\${name} \${born} \${complaints.join()}\`;
`,
  'failed call recorded as done': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db } from 'svc/db';
import { charge, notify } from './clients.ts';
class Order extends Schema { id = Field(int, { ge: 1, le: 999 }); }
export const app: Svc = new Svc();
app.post('/pay', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  await charge(body.id);
  await db.execute('update orders set paid = true where id = ? and owner = ?', [body.id, me.sub]);
  return { ok: true };
});
app.post('/remind', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  await notify(body.id);
  await db.execute("update orders set owner = ?, reminded_at = now() where id = ? and owner = ?", [me.sub, body.id, me.sub]);
  return { ok: true };
});
// FILE clients.ts
export async function charge(id: number): Promise<void> {
  try {
    await fetch('https://pay.example/charges/' + id, { method: 'POST', signal: AbortSignal.timeout(9_000) }); // SVC659
  } catch {} // SVC659
}
export async function notify(id: number): Promise<void> {
  await fetch('https://mail.example/send/' + id, { method: 'PUT', signal: AbortSignal.timeout(9_000) }).catch((error) => console.error(error)); // SVC659
}
`,
  'failed call told or recorded': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db } from 'svc/db';
import { charge, notify, warm } from './clients.ts';
class Order extends Schema { id = Field(int, { ge: 1, le: 999 }); }
export const app: Svc = new Svc();
app.post('/pay', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  if (!(await charge(body.id))) return { ok: false };
  await db.execute('update orders set paid = true where id = ? and owner = ?', [body.id, me.sub]);
  return { ok: true };
});
app.post('/remind', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  await db.execute("update orders set state = 'reminding' where id = ? and owner = ?", [body.id, me.sub]);
  await notify(body.id);
  return { ok: true };
});
app.post('/warm', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  await warm(body.id);
  await db.execute("update orders set state = 'open' where id = ? and owner = ?", [body.id, me.sub]);
  return { ok: true };
});
// FILE clients.ts
export async function charge(id: number): Promise<boolean> {
  try {
    return (await fetch('https://pay.example/charges/' + id, { method: 'POST', signal: AbortSignal.timeout(9_000) })).ok;
  } catch (error) { console.error(error); }
  return false;
}
export async function notify(id: number): Promise<void> {
  await fetch('https://mail.example/send/' + id, { method: 'PUT', signal: AbortSignal.timeout(9_000) }).catch((error) => console.error(error));
}
export async function warm(id: number): Promise<void> {
  await fetch('https://cache.example/' + id, { signal: AbortSignal.timeout(9_000) }).catch((error) => console.error(error));
}
`,
  'units and decimals': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, decimal, float, list, str } from 'svc';
import { db } from 'svc/db';
import { endOf, isOver, LIMITS } from './times.ts';
import { cents, toCents } from './money.ts';
class Line extends Schema { amount = Field(decimal, { digits: 9, places: 2 }); weight = Field(float, { ge: 0, le: 9 }); }
class Order extends Schema { lines = Field(list(Line), { maxLength: 9 }); price = Field(str, { pattern: '^[0-9]{1,6}[.][0-9]{2}$', maxLength: 9 }); }
export const app: Svc = new Svc();
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, async ({ db, body, me }) => {
  const sum = body.lines.map(({ amount }) => toCents(amount)).reduce((all, each) => all + each, 0);
  const grams = body.lines.map(({ weight }) => Math.trunc(weight * 1000)); // SVC660
  await db.execute('insert into orders (owner, cents, price, grams) values (?, ?, ?, ?)', [me.sub, sum, cents(body.price), grams.length]);
  return { ends: endOf(app.clock.nowMs(), LIMITS.short), over: isOver(Date.now()) };
});
// FILE money.ts
export function toCents(amount: string): number {
  return Math.floor(Number.parseFloat(amount) * 100); // SVC660
}
export const cents = (price: string): number => {
  const product = Number(price) * 100;
  return Math.trunc(product); // SVC660
};
// FILE times.ts
const MINUTE = 60 * 1_000;
export const LIMITS = { short: 15 * MINUTE };
const started = Date.now();
export function endOf(nowMs: number, lifetime: number): number {
  const seconds = Math.floor(nowMs / 1_000);
  return seconds + lifetime; // SVC660
}
export function isOver(now: number): boolean {
  return (now - started) / 1000 > 5 * 60 * 1000; // SVC660
}
`,
  'units and decimals done right': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, decimal, float, int, list } from 'svc';
class Line extends Schema { amount = Field(decimal, { digits: 9, places: 2 }); share = Field(float, { ge: 0, le: 1 }); count = Field(int, { ge: 1, le: 99 }); }
class Order extends Schema { lines = Field(list(Line), { maxLength: 9 }); }
const MINUTE = 60 * 1_000;
const LIFETIME_MS = 15 * MINUTE;
const started = Date.now();
function toCents(amount: string): number {
  const [whole = '0', part = ''] = amount.split('.');
  return Number(whole) * 100 + Number(part.padEnd(2, '0'));
}
export const app: Svc = new Svc();
app.post('/orders', { me: Depends(BearerAuth()), body: Order }, ({ body }) => {
  const seconds = Math.floor(app.clock.nowMs() / 1_000);
  const days = Math.floor((Date.now() - started) / (24 * 60 * MINUTE));
  const ends = [seconds + 15 * 60, seconds + LIFETIME_MS / 1_000, Date.now() + LIFETIME_MS, seconds * 1_000 + LIFETIME_MS, days + 1];
  const done = body.lines.length;
  return {
    ends, percent: Math.floor((done / 9) * 100), over: Date.now() - started > 5 * MINUTE,
    sums: body.lines.map(({ amount, count }) => toCents(amount) * count),
    rounded: body.lines.map(({ amount }) => Math.round(Number(amount) * 100)),
    shares: body.lines.map(({ share }) => Math.floor(share * 100) / 100),
  };
});
`,
  'iv made once': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { Box, seal } from './vault.ts';
class Note extends Schema { text = Field(str, { maxLength: 200 }); }
const box = new Box(process.env['VAULT_KEY'] ?? '');
export const app: Svc = new Svc();
app.post('/notes', { me: Depends(BearerAuth()), body: Note }, ({ body }) => ({ sealed: box.seal(body.text) }));
app.post('/texts', { me: Depends(BearerAuth()), body: Note }, ({ body }) => ({ sealed: seal(body.text, app.config.get('recordKey', '')) }));
// FILE vault.ts
import { createCipheriv, createHmac, randomBytes } from 'node:crypto';
export class Box {
  readonly #key: Buffer;
  readonly #nonce = randomBytes(12);
  constructor(key: string) { this.#key = Buffer.from(key, 'hex'); }
  seal(text: string): string {
    const cipher = createCipheriv('aes-256-gcm', this.#key, this.#nonce); // SVC628
    return Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
  }
}
export function seal(text: string, secret: string): string {
  const key = Buffer.from(secret, 'hex');
  const nonce = createHmac('sha256', key).update('nonce').digest().subarray(0, 12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce); // SVC628
  return Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
}
`,
  'iv made for each text': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { Box, seal } from './vault.ts';
class Note extends Schema { text = Field(str, { maxLength: 200 }); }
const box = new Box(process.env['VAULT_KEY'] ?? '');
export const app: Svc = new Svc();
app.post('/notes', { me: Depends(BearerAuth()), body: Note }, ({ body }) => ({ sealed: box.seal(body.text) }));
app.post('/texts', { me: Depends(BearerAuth()), body: Note }, ({ body }) => ({ sealed: seal(body.text, app.config.get('recordKey', '')) }));
// FILE vault.ts
import { createCipheriv, createHmac, randomBytes } from 'node:crypto';
export class Box {
  readonly #key: Buffer;
  constructor(key: string) { this.#key = Buffer.from(key, 'hex'); }
  #nonce(): Buffer { return randomBytes(12); }
  seal(text: string): string {
    const nonce = this.#nonce();
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
  }
}
export function seal(text: string, secret: string): string {
  const key = Buffer.from(secret, 'hex');
  const nonce = createHmac('sha256', key).update(text).digest().subarray(0, 12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
}
`,
  'iv reuse': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { Vault } from './vault.ts';
class Note extends Schema { text = Field(str, { maxLength: 200 }); }
const vault = new Vault(process.env['VAULT_KEY'] ?? '');
export const app: Svc = new Svc();
app.post('/notes', { me: Depends(BearerAuth()), body: Note }, ({ body }) => ({ sealed: vault.seal(body.text) }));
app.post('/open', { me: Depends(BearerAuth()), body: Note }, ({ body }) => ({ text: vault.open(body.text) }));
// FILE vault.ts
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
const NONCE = randomBytes(12);
export class Vault {
  readonly #key: Buffer;
  constructor(key: string) { this.#key = Buffer.from(key, 'hex'); }
  seal(text: string): string {
    const cipher = createCipheriv('aes-256-gcm', this.#key, NONCE); // SVC628
    return Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
  }
  open(text: string): string {
    const bytes = Buffer.from(text, 'base64');
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, 12)); // SVC628
    return decipher.update(bytes.subarray(12)).toString('utf8');
  }
}
`,
  'external call in transaction': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db } from 'svc/db';
import { charge } from './payments.ts';
class Purchase extends Schema { product = Field(int, { ge: 1 }); }
export const app: Svc = new Svc();
app.post('/purchases', { me: Depends(BearerAuth()), db: Depends(db), body: Purchase }, async ({ db, body, me }) => {
  await db.transaction(async (tx) => {
    await tx.execute('update stock set n = n - 1 where product = ? and n > 0', [body.product]);
    await charge(me.sub, body.product); // SVC661
    await tx.execute('insert into purchase (owner, product) values (?, ?)', [me.sub, body.product]);
  });
  return { ok: true };
});
// FILE payments.ts
export async function charge(who: string, product: number): Promise<void> {
  const answer = await fetch('https://pay.example/charge', { method: 'POST', body: JSON.stringify({ who, product }), signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error('refused');
}
`,
  'n+1': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { Orders } from './orders.ts';
export const app: Svc = new Svc();
app.get('/orders', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ db, me }) => new Orders(db).all(me.sub));
// FILE orders.ts
import type { Database } from 'svc/db';
export class Orders {
  constructor(private readonly db: Database) {}
  async all(owner: string) {
    const orders = await this.db.fetchAll<{ id: number }>('select id from orders where owner = ? limit 50', [owner]);
    return Promise.all(orders.map(async (order) => ({ ...order, items: await this.items(order.id) })));
  }
  items(id: number) { return this.db.fetchAll('select name from item where order_id = ?', [id]); } // SVC662
}
`,
  blocking: `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { digest } from './digest.ts';
class Secret extends Schema { text = Field(str, { maxLength: 200 }); }
export const app: Svc = new Svc();
app.post('/digest', { me: Depends(BearerAuth()), body: Secret }, ({ body }) => ({ digest: digest(body.text) }));
// FILE digest.ts
import { pbkdf2Sync as derive } from 'node:crypto';
export const digest = (text: string): string => derive(text, 'salt', 600_000, 32, 'sha256').toString('hex'); // SVC501
`,
  'secret in url': `
// FILE app.ts
import { BearerAuth, Depends, Svc, Config } from 'svc';
import { Maps } from './maps.ts';
export const app: Svc = new Svc();
const maps = new Maps(process.env['MAPS_SECRET_KEY'] ?? '');
app.get('/places', { me: Depends(BearerAuth()) }, () => maps.near(1, 2));
// FILE maps.ts
export class Maps {
  readonly #key: string;
  constructor(key: string) { this.#key = key; }
  async near(x: number, y: number): Promise<unknown> {
    const url = new URL('https://maps.example/near');
    url.searchParams.set('x', String(x));
    url.searchParams.set('key', this.#key);
    const answer = await fetch(url, { signal: AbortSignal.timeout(2000) }); // SVC655
    return answer.json();
  }
}
`,
  'right: requests, rows and tags': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { db, sql } from 'svc/db';
import type { Database } from 'svc/db';
import { createDecipheriv } from 'node:crypto';
class Purchase extends Schema { product = Field(int, { ge: 1 }); }
export const app: Svc = new Svc();
const charge = (product: number) => fetch(\`https://pay.example/charge/\${product}\`, { method: 'POST', signal: AbortSignal.timeout(5000) });
app.post('/purchases', { me: Depends(BearerAuth()), db: Depends(db), body: Purchase }, async ({ db, body, me }) => {
  await db.transaction(async (tx) => {
    await tx.execute('insert into purchase (owner, product) values (?, ?)', [me.sub, body.product]);
  });
  await charge(body.product);
  return { ok: true };
});
class Orders {
  constructor(private readonly db: Database) {}
  async all(owner: string) {
    const orders = await this.db.fetchAll<{ id: number }>('select id from orders where owner = ? limit 50', [owner]);
    const [first] = orders;
    const ids = orders.map(({ id }) => id);
    return { first: await this.items(first?.id ?? 0), all: await this.db.fetchAll(sql\`select name from item where order_id in (\${sql.list(ids)})\`) };
  }
  items(id: number) { return this.db.fetchAll('select name from item where order_id = ?', [id]); }
}
app.get('/orders', { me: Depends(BearerAuth()), db: Depends(db) }, async ({ db, me }) => new Orders(db).all(me.sub));
app.get('/open', { me: Depends(BearerAuth()), query: { text: Field('', { maxLength: 100 }) } }, ({ query }) => {
  const bytes = Buffer.from(query.text, 'base64');
  const decipher = createDecipheriv('aes-256-gcm', Buffer.from(process.env['BOX_KEY'] ?? '', 'hex'), bytes.subarray(0, 12));
  decipher.setAuthTag(bytes.subarray(-16));
  return { text: decipher.update(bytes.subarray(12, -16), undefined, 'utf8') + decipher.final('utf8') };
});
`,
};

/** An application whose handler has this code. */
const handler = (code: string): string => `
import { BearerAuth, Depends, Svc } from 'svc';
import { db as database } from 'svc/db';
export const app: Svc = new Svc();
const held: Set<string> = new Set();
const ask = (): Promise<Response> => fetch('https://b.example/', { signal: AbortSignal.timeout(9) });
app.post('/a', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ db, me }: Context): Promise<unknown> => {
  ${code}
});
`;

/** Wrong and right code by rule. */
export const FAILURE_PAIRS: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC657: {
    wrong: handler('for (;;) { try { return await ask(); } catch { continue; } }'),
    right: handler(
      'for (let tries = 0; tries < 3; tries++) { try { return await ask(); } catch { continue; } }',
    ),
  },
  SVC658: {
    wrong: handler('if (held.has(me.sub)) return; held.add(me.sub); await ask(); held.delete(me.sub);'),
    right: handler(
      'if (held.has(me.sub)) return; held.add(me.sub); try { await ask(); } finally { held.delete(me.sub); }',
    ),
  },
  SVC659: {
    wrong: handler(
      "try { await db.execute('delete from note where owner = ?', [me.sub]); } catch {} return {};",
    ),
    right: handler("await db.execute('delete from note where owner = ?', [me.sub]); return {};"),
  },
  SVC660: {
    wrong: handler('const end = new Date(); end.setMonth(end.getMonth() + 1); return { end };'),
    right: handler('const end = new Date(); end.setMonth(end.getMonth() + 1, 1); return { end };'),
  },
  SVC661: {
    wrong: handler(
      "await db.transaction(async (tx: Database) => { await tx.execute('delete from note'); await ask(); });",
    ),
    right: handler(
      "await db.transaction(async (tx: Database) => { await tx.execute('delete from note'); }); await ask();",
    ),
  },
  SVC662: {
    wrong: handler(
      "for (const { id } of await db.fetchAll('select id from a limit 9')) await db.fetchAll('select x from b where a = ?', [id]);",
    ),
    right: handler("return db.fetchAll('select x from b join a on a.id = b.a limit 9');"),
  },
};
