/** One mistake in several spellings of normal code, and right code in the same spellings. */
export const SPELLINGS: Readonly<Record<string, string>> = {
  'values through default exports, tables of functions and replaced texts': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { db as database } from 'svc/db';
import knexFactory from 'knex';
import notes from './notes.ts';
import { actions } from './actions.ts';
class Ask extends Schema { kind = Field(str, { maxLength: 10 }); text = Field(str, { maxLength: 100 }); }
const guard = { me: Depends(BearerAuth()), db: Depends(database), body: Ask };
const knex = knexFactory({ client: 'pg' });
export const app: Svc = new Svc();
app.post('/count', guard, async ({ db, body }) => ({ count: await notes.count(db, body.text) }));
app.post('/safe', guard, async ({ db, body }) => ({ count: await notes.safe(db, body.text) }));
app.post('/act', guard, async ({ db, body }) => ({ rows: await actions[body.kind]?.(db, body.text) }));
app.post('/filled', guard, async ({ db, body }) => {
  const text = 'select id from note where title = %s order by id limit 5'.replace('%s', \`'\${body.text}'\`);
  const right = 'select id from note where title = %s order by id limit 5'.replace('%s', '?');
  return [await db.fetchAll(text), await db.fetchAll(right, [body.text])]; // SVC601
});
app.post('/built', guard, async ({ body }) => {
  await knex('note').whereRaw(\`title = '\${body.text}'\`); // SVC601
  await knex.raw(\`select id from note where title = '\${body.text}'\`); // SVC601
  await knex('note').where({ title: body.text });
});
// FILE notes.ts
import type { Database } from 'svc/db';
export default {
  count: (db: Database, text: string) => db.scalar(\`select count(*) from note where title = '\${text}'\`), // SVC601
  safe: (db: Database, text: string) => db.scalar('select count(*) from note where title = ?', [text]),
};
// FILE actions.ts
import type { Database } from 'svc/db';
export const actions: Record<string, (db: Database, text: string) => Promise<unknown>> = {
  find: (db, text) => db.fetchAll('select id from note where title = ? order by id', [text]),
  raw: (db, text) => db.fetchAll('select id from note where title = "' + text + '" order by id'), // SVC601
};
`,
  'redirects, cookies and requests by constants, spreads and clients': `
// FILE app.ts
import { BearerAuth, Depends, Field, JSONResponse, Svc, reply, str } from 'svc';
import axios from 'axios';
const next = { next: Field(str, { maxLength: 300 }) };
const guard = { me: Depends(BearerAuth()), query: next };
const api = axios.create({ timeout: 1_000 });
const PLAIN = { httpOnly: false, path: '/' }; // SVC207
const SAFE = { httpOnly: true, path: '/' };
export const app: Svc = new Svc();
app.get('/created-headers', { query: next }, ({ query }) => {
  const headers = new Headers();
  headers.set('Location', query.next);
  return new Response(null, { status: 201, headers });
});
app.get('/asked', guard, async ({ query }) => (await fetch('https://weather.example/', { headers: new Headers({ location: query.next }), signal: AbortSignal.timeout(1_000) })).status);
app.get('/constant', { query: next }, ({ query }) => {
  const options = { location: query.next };
  return reply('', 303, options); // SVC605
});
app.get('/created', { query: next }, ({ query }) => reply('', 201, { Location: query.next }));
app.get('/city', guard, ({ me, query }) => { const cities = new Map<string, string>(); cities.set('location', query.next); return String(me.sub); });
app.post('/login', { public: 'x' }, () => new JSONResponse({}).setCookie('sid', crypto.randomUUID(), { ...PLAIN, sameSite: 'lax' }));
app.post('/safe', { public: 'x' }, () => new JSONResponse({}).setCookie('sid', crypto.randomUUID(), { ...SAFE, sameSite: 'lax' }));
app.get('/fetch', guard, async ({ query }) => (await api.get(query.next)).status); // SVC607
app.get('/item', guard, async ({ query }) => (await api.get('/items/' + encodeURIComponent(query.next))).status);
`,
  'secrets compared by a switch': `
// FILE app.ts
import { Depends, Field, Svc, str } from 'svc';
import { db as database } from 'svc/db';
export const app: Svc = new Svc();
app.get('/invited', { query: { token: Field(str, { maxLength: 90 }) }, db: Depends(database), public: 'x' }, async ({ query, db }) => {
  const row = await db.fetchOne('select id, token from invitation where id = 1');
  switch (query.token) {
    case row?.token: // SVC621
      return 'yes';
    case 'none':
      return 'no token';
    default:
      return 'no';
  }
});
`,
  'rows that are read one by one': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db as database } from 'svc/db';
const guard = { me: Depends(BearerAuth()), db: Depends(database) };
export const app: Svc = new Svc();
app.get('/index', guard, async ({ db }) => {
  const ids = (await db.fetchAll('select id from note order by id')).map(({ id }) => Number(id));
  const counts: unknown[] = [];
  for (let i = 0; i < ids.length; i++) counts.push(await db.scalar('select count(*) from tag where note = ?', [ids[i]])); // SVC662
  return { counts };
});
app.get('/reduced', guard, async ({ db }) => {
  const notes = await db.fetchAll('select id, author from note order by id');
  return { all: await notes.reduce(async (all, { author }) => [...(await all), await db.scalar('select name from author where id = ?', [author])], Promise.resolve([])) }; // SVC662
});
app.get('/joined', guard, async ({ db }) => {
  const rows = await db.fetchAll('select n.id, a.name from note n join author a on a.id = n.author order by n.id');
  const sums: number[] = [];
  for (let i = 0; i < rows.length; i++) sums.push(Number(rows[i].id));
  return { sums, names: await rows.reduce(async (all, { name }) => [...(await all), name], Promise.resolve([])) };
});
`,
  'places of items as conditions': `
// FILE app.ts
import { BearerAuth, Depends, Forbidden, Svc } from 'svc';
const guard = { me: Depends(BearerAuth()) };
class Shelf { indexOf(name: string): string | undefined { return name === 'stats' ? name : undefined; } }
const shelf = new Shelf();
const rolesOf = (me: { roles?: unknown }): string[] => (Array.isArray(me.roles) ? me.roles : []);
export const app: Svc = new Svc();
app.get('/a', guard, ({ me }) => {
  if (!rolesOf(me).indexOf('admin')) throw new Forbidden(); // SVC645
  return 'stats';
});
app.get('/b', guard, ({ me }) => (me.sub !== undefined && rolesOf(me).findIndex((role) => role === 'admin') ? 'stats' : 'none')); // SVC645
app.get('/c', guard, ({ me }) => {
  if (rolesOf(me).indexOf('admin') === -1) throw new Forbidden();
  if (~rolesOf(me).indexOf('editor')) return 'drafts';
  if (!shelf.indexOf('stats')) return 'none';
  return rolesOf(me).indexOf('admin') + 1 ? 'stats' : 'none';
});
`,
  'cells of columns without a class': `
// FILE app.ts
import { BearerAuth, Depends, Field, HttpResponse, Schema, Svc, str } from 'svc';
import { db as database } from 'svc/db';
import { csv, csvSafe } from './csv.ts';
class Note extends Schema { title = Field(str, { maxLength: 80 }); }
const guard = { me: Depends(BearerAuth()), db: Depends(database) };
const headers = { 'Content-Type': 'text/csv' };
export const app: Svc = new Svc();
app.post('/notes', { ...guard, body: Note }, async ({ body, me, db }) => {
  await db.execute('insert into note (owner, title) values (?, ?)', [me.sub, body.title]);
});
app.get('/notes.csv', guard, async ({ db }) => new HttpResponse(csv(await db.fetchAll('select id, title from note order by id')), { headers }));
app.get('/safe.csv', guard, async ({ db }) => new HttpResponse(csvSafe(await db.fetchAll('select id, title from note order by id')), { headers }));
// FILE csv.ts
type Row = Readonly<Record<string, unknown>>;
export const csv = (rows: readonly Row[]): string =>
  rows.map((row) => \`"\${String(row.id)}","\${String(row.title)}"\`).join('\\n'); // SVC656
export const csvSafe = (rows: readonly Row[]): string =>
  rows.map((row) => \`"\${String(row.id)}","'\${String(row.title).replaceAll('"', '""')}"\`).join('\\n');
`,
  'keys of a client that a loop has tested before': `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, list, str } from 'svc';
import { set, setKnown } from './tree.ts';
const settings: Record<string, unknown> = {};
const body = { path: Field(list(str), { maxLength: 5 }), value: Field(str, { maxLength: 50 }) };
export const app: Svc = new Svc();
app.post('/set', { me: Depends(BearerAuth()), body }, ({ body }) => { set(settings, body.path, body.value); });
app.post('/known', { me: Depends(BearerAuth()), body }, ({ body }) => { setKnown(settings, body.path, body.value); });
// FILE tree.ts
type Tree = Record<string, unknown>;
export function set(target: Tree, path: readonly string[], value: unknown): void {
  let at = target;
  for (const key of path) {
    if (key === '__proto__') continue;
    at[key] ??= {};
  }
  for (const key of path) at = (at[key] ??= {}) as Tree; // SVC650
  at[path[0]] = value; // SVC650
}
export function setKnown(target: Tree, path: readonly string[], value: unknown): void {
  for (const key of path) {
    if (['__proto__', 'constructor', 'prototype'].includes(key)) return;
  }
  let at = target;
  for (const key of path) at = (at[key] ??= {}) as Tree;
  at[path[0]] = value;
}
`,
  'defaults beside inputs': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, str } from 'svc';
import { db as database } from 'svc/db';
class Page extends Schema { page = Field(int, { ge: 1, le: 100, default: 1 }); size = Field(int, { ge: 1, le: 100, default: 20 }); }
class Sorted extends Schema { sort = Field(str, { maxLength: 20 }); }
const guard = { me: Depends(BearerAuth()), db: Depends(database) };
const DEFAULTS = { sort: 'title', page: 1, size: 20 };
export const app: Svc = new Svc();
app.get('/list', { ...guard, query: Page }, async ({ me, db, query }) => {
  const { sort, page, size } = { ...DEFAULTS, ...query };
  return db.fetchAll(\`select title from note where owner = ? order by \${sort} limit ? offset ?\`, [me.sub, size, (page - 1) * size]);
});
app.get('/inline', { ...guard, query: { size: Field(int, { ge: 1, le: 100, default: 20 }) } }, async ({ me, db, query }) => {
  const options = { ...DEFAULTS, ...query };
  return db.fetchAll(\`select title from note where owner = ? order by \${options.sort} limit ?\`, [me.sub, options.size]);
});
app.get('/params/{id:int}', guard, async ({ me, db, params }) => {
  const options = { ...DEFAULTS, ...params };
  return db.fetchAll(\`select title from note where owner = ? and id = ? order by \${options.sort} limit 10\`, [me.sub, options.id]);
});
app.get('/sorted', { ...guard, query: Sorted }, async ({ me, db, query }) => {
  const options = { ...DEFAULTS, ...query };
  return db.fetchAll(\`select title from note where owner = ? order by \${options.sort} limit 10\`, [me.sub]); // SVC601
});
`,
  'lists whose items a loop has tested': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, list, str } from 'svc';
import { db as database } from 'svc/db';
class Ask extends Schema { cols = Field(list(str), { maxItems: 20 }); only = Field(str, { maxLength: 9, default: '' }); }
const guard = { me: Depends(BearerAuth()), db: Depends(database), query: Ask };
export const app: Svc = new Svc();
app.get('/all', guard, async ({ db, query }) => {
  for (const each of query.cols) { if (!/^[a-z_]+$/.test(each)) throw new Error('bad'); }
  return db.fetchAll(\`select \${query.cols.join()} from note limit 9\`);
});
app.get('/rest', guard, async ({ db, query }) => {
  for (const each of query.cols.slice(1)) { if (!/^[a-z_]+$/.test(each)) throw new Error('bad'); }
  return db.fetchAll(\`select \${query.cols.join()} from note limit 9\`); // SVC601
});
app.get('/others', guard, async ({ db, query }) => {
  const others = query.cols.filter((each) => each !== query.only);
  for (const each of others) { if (!/^[a-z_]+$/.test(each)) throw new Error('bad'); }
  return db.fetchAll(\`select \${query.cols.join()} from note limit 9\`); // SVC601
});
`,
  // without a limit, the first text would have 2^30 alternatives, and the second one 3^30 parts
  'texts in which many places are replaced': `
// FILE app.ts
import { Depends, Field, HTMLResponse, Svc, escapeHtml, str } from 'svc';
import { db as database } from 'svc/db';
const query = { text: Field(str, { maxLength: 40, default: '' }) };
export const app: Svc = new Svc();
app.get('/page', { query }, ({ query }) => {
  let page = '<p>${Array.from({ length: 30 }, (_, n) => `{${n}}`).join(' ')}</p>';
  ${Array.from({ length: 30 }, (_, n) => `page = page.replace('{${n}}', escapeHtml(query.text || '-'));`).join('\n  ')}
  return new HTMLResponse(page);
});
app.get('/doubled', { query, db: Depends(database), public: 'x' }, async ({ query, db }) => {
  let text = 'select id from note where title = %';
  ${Array.from({ length: 30 }, () => `text = text.replaceAll('%', \`%\${query.text}%%\`);`).join('\n  ')}
  return db.fetchAll(text); // SVC601
});
`,
};
