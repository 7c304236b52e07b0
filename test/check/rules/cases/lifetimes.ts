/** Applications whose state, listeners or transactions outlive what they are for, and applications that end them. */
export const LIFETIMES: Readonly<Record<string, string>> = {
  'collections that end': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, TooManyRequests, int, str } from 'svc';
import { JobStore } from './jobs.ts';
class Progress extends Schema { id = Field(str, { maxLength: 40 }); percent = Field(int, { ge: 0, le: 100 }); }
const guard = { me: Depends(BearerAuth()) };
const store = new JobStore();
const swept = new Map<string, number>();
const capped = new Map<string, number>();
const recent: string[] = [];
const few: string[] = [];
let batch: string[] = [];
const sent: string[] = [];
const sockets = new Set<unknown>();
export const app: Svc = new Svc();
app.post('/jobs/{id}', { public: 'x' }, ({ params: { id } }) => { store.report(id, 0); });
app.use((req, next) => { swept.set(req.ip + req.path, Date.now()); return next(); });
setInterval(() => {
  for (const [key, at] of swept) if (at < Date.now() - 60_000) swept.delete(key);
  batch = [];
  sent.length = 0;
}, 60_000).unref();
app.post('/capped', { public: 'x', body: Progress }, ({ body }) => {
  if (capped.size >= 1_000) throw new TooManyRequests();
  capped.set(body.id, body.percent);
});
app.use((req, next) => { recent.push(req.path); if (recent.length > 100) recent.shift(); return next(); });
app.use((req, next) => { if (few.length < 50) few.push(req.path); return next(); });
app.use((req, next) => { batch.push(req.path); sent.push(req.path); return next(); });
app.websocket('/live', guard).onOpen((socket) => { sockets.add(socket); }).onClose((socket) => { sockets.delete(socket); });
// FILE jobs.ts
export class JobStore {
  readonly #jobs = new Map<string, number>();
  report(id: string, percent: number): void {
    this.#jobs.set(id, percent);
    setTimeout(() => this.#jobs.delete(id), 60_000).unref();
  }
}
`,
  'sessions of MCP in several processes': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
export const app: Svc = new Svc();
app.mountMcp('/mcp', { deps: { me: Depends(BearerAuth()) } }); // SVC403
await app.run({ workers: 4 });
`,
  'sessions of MCP in one process, or switched off': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import './one.ts';
export const app: Svc = new Svc();
app.mountMcp('/mcp', { deps: { me: Depends(BearerAuth()) }, sessions: false });
await app.run({ workers: 4 });
// FILE one.ts
export const workers = 1;
`,
  'listeners of many kinds that stay': `
// FILE app.ts
import { on } from 'node:events';
import { BearerAuth, Depends, EventStreamResponse, Svc, Unauthorized, provide } from 'svc';
import { db as database } from 'svc/db';
import { feed, target } from './feed.ts';
const guard = { me: Depends(BearerAuth()), db: Depends(database) };
const known = provide({}, ({ req }) => {
  feed.on('logout', () => console.log(req.id)); // SVC654
  if (req.headers['x-key'] === undefined) throw new Unauthorized();
});
export const app: Svc = new Svc();
app.use((_req, next) => { feed.prependListener('end', () => console.log('end')); return next(); }); // SVC654
app.get('/known', { known: Depends(known) }, () => 'x');
app.get('/stream', guard, () => new EventStreamResponse((async function* () {
  for await (const [data] of on(feed, 'price')) yield { data }; // SVC654
})()));
app.get('/target', guard, ({ me }) => { target.addEventListener('price', () => console.log(me.sub)); return 'x'; }); // SVC654
app.get('/listen', guard, async ({ db, me }) => {
  await db.listen('prices', () => console.log(me.sub)); // SVC654
  return 'x';
});
app.get('/tick', { known: Depends(provide({}, () => { setInterval(() => console.log('tick'), 1_000); })) }, () => 'x'); // SVC654
// FILE feed.ts
import { EventEmitter } from 'node:events';
class Feed extends EventEmitter {}
export const feed = new Feed();
export const target = new EventTarget();
`,
  'listeners of many kinds that end': `
// FILE app.ts
import { EventEmitter, on, once } from 'node:events';
import { BearerAuth, Depends, EventStreamResponse, Svc, provide } from 'svc';
import { db as database } from 'svc/db';
import { feed, target } from './feed.ts';
const guard = { me: Depends(BearerAuth()), db: Depends(database) };
const note = (): void => console.log('price');
const watched = provide({}, () => { feed.on('end', () => console.log('end')); return 'watched'; });
export const app: Svc = new Svc();
app.get('/watched', { ...guard, watched: Depends(watched, { scope: 'app' }) }, ({ watched }) => watched);
app.get('/stream', guard, ({ signal }) => new EventStreamResponse((async function* () {
  for await (const [data] of on(feed, 'price', { signal })) yield { data };
})()));
app.get('/three', guard, async () => {
  const seen: unknown[] = [];
  for await (const [data] of on(feed, 'price')) { seen.push(data); if (seen.length === 3) break; }
  return seen;
});
app.get('/first', guard, async () => {
  const events = on(feed, 'price');
  for await (const [data] of events) { if (data !== null) return data; }
});
app.get('/iterated', guard, () => new EventStreamResponse((async function* () {
  const events = on(feed, 'price');
  try { yield { data: await events.next() }; } finally { await events.return?.(); }
})()));
app.get('/target', guard, () => { target.addEventListener('price', note); return 'x'; });
app.get('/signal', guard, ({ signal }) => { target.addEventListener('price', () => console.log('x'), { signal }); return 'x'; });
app.get('/once', guard, async ({ signal }) => { await once(feed, 'price', { signal }); return 'x'; });
app.get('/own', guard, () => { const own = new EventEmitter(); own.on('x', () => console.log('x')); own.emit('x'); return 'x'; });
app.get('/request', guard, ({ req }) => { req.signal.addEventListener('abort', () => console.log('left')); return 'x'; });
app.get('/listen', guard, async ({ db }) => {
  await using prices = await db.listen('prices', () => console.log('x'));
  return String(prices);
});
app.onStartup(() => { feed.on('end', () => console.log('end')); });
// FILE feed.ts
import { EventEmitter } from 'node:events';
class Feed extends EventEmitter {}
export const feed = new Feed();
export const target = new EventTarget();
`,
  'the database in the transaction of a request': `
// FILE app.ts
import { BearerAuth, Depends, RateLimiter, RecordRateLimitStore, Svc, provide } from 'svc';
import { DatabasePlugin, DatabaseRecordStore, db as database, transaction } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
import { audit } from './audit.ts';
const plugin = new DatabasePlugin('postgres://app@db/shop');
const records = new DatabaseRecordStore(plugin, { table: 'token' });
const limiter = new RateLimiter({ name: 'codes', perMinute: 5, store: new RecordRateLimitStore(records) });
const oauth = new OAuthPlugin({ mode: 'cookie' });
const guard = { me: Depends(BearerAuth()), tx: Depends(transaction) };
export const app: Svc = new Svc();
app.register(plugin).register(oauth);
app.post('/limit', guard, async ({ me, tx, req }) => {
  await limiter.take(req, me.sub); // SVC614
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
});
app.post('/record', guard, async ({ me, tx }) => {
  await records.add(me.sub, 'x', 1_000); // SVC614
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
});
app.post('/lock', guard, async ({ me, tx }) => {
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
  await oauth.revokeAll(me.sub); // SVC614
});
app.post('/beside', { ...guard, db: Depends(database) }, async ({ me, tx, db }) => {
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
  await db.execute('insert into visit (person) values (?)', [me.sub]); // SVC614
});
app.post('/helper', guard, async ({ me, tx }) => {
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
  await audit(app.state.db, me.sub);
});
app.post('/nested', guard, async ({ me, tx }) => {
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
  await app.state.db.transaction(async (inner) => { // SVC614
    await inner.execute('insert into visit (person) values (?)', [me.sub]);
  });
});
app.post('/callback', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db }) => {
  await db.transaction(async (tx) => {
    await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
    await oauth.revokeAll(me.sub); // SVC614
  });
});
// FILE audit.ts
import type { Database } from 'svc/db';
export async function audit(db: Database, who: string): Promise<void> {
  await db.execute('insert into visit (person) values (?)', [who]); // SVC614
}
`,
  'the database before and after a transaction': `
// FILE app.ts
import { BackgroundTasks, BearerAuth, Depends, RateLimiter, RecordRateLimitStore, Svc, provide } from 'svc';
import { DatabasePlugin, DatabaseRecordStore, RedisPlugin, RedisRecordStore, database as named, db as database, transaction } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
const plugin = new DatabasePlugin('postgres://app@db/shop');
const stats = new DatabasePlugin('postgres://app@db/stats', { name: 'stats' });
const redis = new RedisPlugin('redis://cache:6379/0');
const elsewhere = new DatabaseRecordStore(stats, { table: 'token' });
const oauth = new OAuthPlugin({ mode: 'cookie', records: new RedisRecordStore(redis.client) });
const limiter = new RateLimiter({ name: 'codes', perMinute: 5, store: new RecordRateLimitStore(elsewhere) });
const memory = new RateLimiter({ name: 'mails', perMinute: 5 });
const shared = new RateLimiter({ name: 'logins', perMinute: 5, store: new RecordRateLimitStore(new DatabaseRecordStore(plugin)) });
const limited = provide({}, async ({ req }) => { await shared.take(req); return 'limited'; });
const guard = { me: Depends(BearerAuth()), tx: Depends(transaction) };
export const app: Svc = new Svc();
app.register(plugin).register(stats).register(redis).register(oauth);
app.post('/limit', { ...guard, limited: Depends(limited), stats: Depends(named('stats')) }, async ({ me, tx, req, limited, stats }) => {
  await limiter.take(req, me.sub);
  await memory.take(req, me.sub);
  await elsewhere.add(me.sub, limited, 1_000);
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
  await stats.execute('insert into visit (person) values (?)', [me.sub]);
});
app.post('/after', { me: Depends(BearerAuth()), db: Depends(database) }, async ({ me, db, req }) => {
  await shared.take(req, me.sub);
  await db.transaction(async (tx) => { await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]); });
  await oauth.revokeAll(me.sub);
});
app.post('/task', { ...guard, tasks: Depends(BackgroundTasks) }, async ({ me, tx, tasks }) => {
  await tx.execute('update account set seen = seen + 1 where id = ?', [me.sub]);
  tasks.add(() => oauth.revokeAll(me.sub));
});
`,
};
