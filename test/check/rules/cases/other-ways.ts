/** Applications that make a known mistake in a less usual way, and the same ways without the mistake (SVC601 … SVC645). */
export const OTHER_WAYS: Readonly<Record<string, string>> = {
  'promises in a list that nothing reads': `
import { db as database } from 'svc/db';
import { BearerAuth, Depends, Svc } from 'svc';
const app = new Svc();
const spec = { db: Depends(database), me: Depends(BearerAuth()) };
app.post('/kept', spec, ({ db, me }) => {
  const pending = [];
  pending.push(db.execute('update account set seen = 1 where id = ?', [me.sub])); // SVC611
  return { isDone: true };
});
app.post('/awaited', spec, async ({ db, me }) => {
  const pending = [];
  pending.push(db.execute('update account set seen = 1 where id = ?', [me.sub]));
  await Promise.all(pending);
  return { isDone: true };
});
app.post('/awaited-one-by-one', spec, async ({ db, me }) => {
  const pending = [];
  pending.unshift(db.execute('update account set seen = 1 where id = ?', [me.sub]));
  for (const each of pending) await each;
  return { isDone: true };
});
app.post('/handed-on', spec, async ({ db, me }) => {
  const pending = [];
  pending.push(db.execute('update account set seen = 1 where id = ?', [me.sub]));
  await settle(pending);
  return { isDone: true };
});
app.post('/results', spec, async ({ db, me }) => {
  const results = [];
  results.push(await db.execute('update account set seen = 1 where id = ?', [me.sub]));
  return { isDone: true };
});
const settle = (all) => Promise.allSettled(all);
`,
  'streams that a function collects': `
import { text } from 'node:stream/consumers';
import { Svc } from 'svc';
const app = new Svc();
app.put('/parts', { public: 'all' }, async ({ req }) => {
  const parts = await Array.fromAsync(req.stream()); // SVC634
  return { count: parts.length };
});
app.put('/text', { public: 'all' }, async ({ req }) => {
  const whole = await text(req.stream()); // SVC634
  return { count: whole.length };
});
app.put('/limited', { public: 'all' }, async ({ req }) => {
  const parts = await Array.fromAsync(req.stream({ maxBytes: 1_000_000 }));
  return { count: parts.length };
});
app.put('/counted', { public: 'all' }, async ({ req }) => {
  const parts = await Array.fromAsync(upTo(req.stream(), 1_000_000));
  return { count: parts.length };
});
async function* upTo(source, most) {
  let bytes = 0;
  for await (const part of source) {
    bytes += part.length;
    if (bytes > most) throw new RangeError('too many bytes');
    yield part;
  }
}
`,
  'parts of lists of columns': `
import { db as database } from 'svc/db';
import { Depends, Field, Svc, str } from 'svc';
const app = new Svc();
const names = (columns) => columns.map(({ name }) => name).join(', ');
const joined = (columns) => columns.join(', ');
app.get('/rest', { db: Depends(database) }, ({ db, query }) => db.fetchAll('select ' + names([{ name: 'id' }, { name: query.column }].slice(1)) + ' from note order by id limit 9')); // SVC601
app.get('/split', { db: Depends(database) }, ({ db, query }) => db.fetchAll('select ' + joined(query.columns.split(',').slice(0, 1)) + ' from note order by id limit 9')); // SVC601
app.get('/from', { db: Depends(database) }, ({ db, query, params }) => db.fetchAll('select ' + names([{ name: 'id' }, { name: query.column }].slice(Number(params.from))) + ' from note order by id limit 9')); // SVC601
app.get('/known', { db: Depends(database) }, ({ db, query }) => db.fetchAll('select ' + names([{ name: query.column }, { name: 'id' }, { name: 'title' }].slice(1)) + ' from note order by id limit 9'));
app.get('/letter', { db: Depends(database), query: { column: Field(str, { maxLength: 20 }) } }, ({ db, query }) => db.fetchAll('select id from note_' + query.column.slice(0, 1) + ' order by id limit 9'));
`,
  'patterns that methods of texts make': `
import { db as database } from 'svc/db';
import { Depends, Field, Schema, Svc, str } from 'svc';
const app = new Svc();
class Search extends Schema { q = Field(str, { maxLength: 80 }); text = Field(str, { maxLength: 2_000 }); }
app.post('/search', { public: 'all', body: Search }, ({ body }) => ({ at: body.text.search(body.q) })); // SVC604
app.get('/words', { query: { q: Field(str, { maxLength: 80 }) } }, ({ query }) => ({ words: 'one two three'.match(query.q)?.length ?? 0 })); // SVC604
app.get('/titles', { db: Depends(database), query: { q: Field(str, { maxLength: 80 }) } }, async ({ db, query }) => {
  const rows = await db.fetchAll('select id, title from note order by id limit 50');
  return rows.filter((row) => row.title.toLowerCase().search(query.q) >= 0).map(({ id }) => id); // SVC604
});
app.post('/found', { public: 'all', body: Search }, ({ body }) => ({ at: body.text.indexOf(body.q), words: body.text.match(/\\w+/g) }));
app.post('/escaped', { public: 'all', body: Search }, ({ body }) => ({ at: body.text.search(RegExp.escape(body.q)) }));
const index = { search: (words) => [words.length] };
app.get('/index', { query: { q: Field(str, { maxLength: 80 }) } }, ({ query }) => index.search(query.q));
app.get('/elsewhere', { query: { q: Field(str, { maxLength: 80 }) } }, ({ query }) => globalThis.engine.search(query.q));
`,
  'waits of a client': `
import { setTimeout as sleep } from 'node:timers/promises';
import { Field, Svc, int } from 'svc';
const app = new Svc();
app.get('/slow', { query: { ms: Field(int, { ge: 0 }) } }, async ({ query, signal }) => {
  await sleep(query.ms, undefined, { signal }); // SVC637
  return 'late';
});
app.get('/timer', { query: { ms: Field(int, { ge: 0 }) } }, async ({ query }) => {
  await new Promise((resolve) => setTimeout(resolve, query.ms)); // SVC637
  return 'late';
});
app.get('/bounded', { query: { ms: Field(int, { ge: 0, le: 1_000 }) } }, async ({ query, signal }) => {
  await sleep(query.ms, undefined, { signal });
  return 'late';
});
app.get('/least', { query: { ms: Field(int, { ge: 0 }) } }, async ({ query, signal }) => {
  await sleep(Math.min(query.ms, 1_000), undefined, { signal });
  return 'late';
});
app.get('/refused', { query: { ms: Field(int, { ge: 0 }) } }, async ({ query, signal }) => {
  if (query.ms > 1_000) return 'too late';
  await sleep(query.ms, undefined, { signal });
  return 'late';
});
`,
  'tokens that packages decode': `
import { decode } from 'jwt-simple';
import jws from 'jws';
import worker from '@tsndr/cloudflare-worker-jwt';
import { decode as decrypt } from 'next-auth/jwt';
import { Svc } from 'svc';
const app = new Svc();
app.get('/jws', ({ req }) => ({ name: jws.decode(req.cookies.one).payload.name })); // SVC624
app.get('/worker', ({ req }) => ({ name: worker.decode(req.cookies.two).payload.name })); // SVC624
app.get('/options', ({ req }) => ({ name: jws.decode(req.cookies.three, { complete: true }).payload.name })); // SVC624
app.get('/with-key', ({ req }) => ({ name: decode(req.cookies.four, process.env.TOKEN_KEY).name }));
app.get('/decrypted', async ({ req }) => ({ name: (await decrypt({ token: req.cookies.five, secret: process.env.TOKEN_KEY })).name }));
app.get('/verified', async ({ req }) => {
  if (!(await worker.verify(req.cookies.six, process.env.TOKEN_KEY))) return 'no';
  return { name: worker.decode(req.cookies.six).payload.name };
});
`,
  'secrets of the environment in a response': `
import { Depends, Field, Schema, Svc, reply, str } from 'svc';
const app = new Svc();
class Shown extends Schema { name = Field(str, { maxLength: 80 }); }
const key = process.env.PAYMENT_API_KEY; // SVC626
app.get('/settings', { public: 'all' }, () => ({ name: 'shop', key }));
app.get('/debug', { public: 'all' }, () => reply({ login: 'Bearer ' + (process.env.PARTNER_TOKEN ?? '') })); // SVC626
app.get('/public', { public: 'all' }, () => ({ site: process.env.CAPTCHA_SITE_KEY ?? '', pay: process.env.STRIPE_PUBLISHABLE_KEY ?? '', region: process.env.REGION ?? '' }));
app.get('/is-set', { public: 'all' }, () => ({ isSet: process.env.PAYMENT_API_KEY !== undefined, hasKey: Boolean(key) }));
app.get('/declared', { public: 'all', response: Shown }, () => ({ name: 'shop', key }));
`,
  'refusals of another file that a catch keeps': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db as database } from 'svc/db';
import { requireOwner, currentUser } from './rights.ts';
export const app = new Svc();
const spec = { db: Depends(database), me: Depends(BearerAuth()) };
app.post('/notes/{id:int}/close', spec, async ({ db, me, params }) => {
  try {
    await requireOwner(db, params.id, me.sub);
  } catch (error) { // SVC645
    app.log.warn('not_owner', { error });
  }
  await db.execute('update note set is_closed = true where id = ?', [params.id]);
  return { isClosed: true };
});
app.post('/notes/{id:int}/open', spec, async ({ db, me, params }) => {
  try {
    await requireOwner(db, params.id, me.sub);
  } catch (error) {
    app.log.warn('not_owner', { error });
    throw error;
  }
  await db.execute('update note set is_closed = false where id = ?', [params.id]);
  return { isClosed: false };
});
app.get('/hello', { public: 'all' }, async ({ req }) => {
  let user = 'stranger';
  try {
    user = await currentUser(req);
  } catch {
    app.log.info('stranger');
  }
  return { user };
});
app.get('/notes/{id:int}', spec, async ({ db, me, params }) => {
  let isOwner = true;
  try {
    await requireOwner(db, params.id, me.sub);
  } catch {
    isOwner = false;
  }
  return { isOwner };
});
// FILE rights.ts
import { Forbidden, Unauthorized } from 'svc';
export async function requireOwner(db, id, owner) {
  const note = await db.fetchOne('select owner from note where id = ?', [id]);
  if (note?.owner !== owner) throw new Forbidden();
}
export async function currentUser(req) {
  const token = req.headers['x-user'];
  if (token === undefined) throw new Unauthorized();
  return token;
}
`,
};
