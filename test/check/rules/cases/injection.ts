/** Applications with and without the mistakes of SVC601 … SVC608. A line that ends with `// SVC601` must be found by that rule. */
export const INJECTION: Readonly<Record<string, string>> = {
  'SQL by a template in a handler': `
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
app.get('/search', { db: Depends(db) }, async ({ db, query }) =>
  await db.fetchAll(\`select * from notes where title like '%\${query.q}%'\`)); // SVC601
app.get('/one/{name}', { db: Depends(db) }, async ({ db, params }) => {
  const statement = "select * from notes where name = '" + params.name + "'";
  return await db.fetchOne(statement); // SVC601
});
`,
  'SQL by pieces, a sort column, and a list of conditions': `
import { BadRequest, Router } from 'svc';
import { openDatabase } from 'svc/db';
routes(new Router(), await openDatabase('sqlite:notes.db'));
export function routes(router, db) {
  router.get('/all', {}, async ({ query }) => {
    const text = query.q === 'all' ? '' : query.q;
    if (text === 'none') return [];
    await db.fetchAll(\`select id from notes where title = '\${text}'\`); // SVC601
    if (text !== 'one' && text !== 'two') throw new BadRequest();
    return db.fetchAll(\`select id from notes where title = '\${text}'\`);
  });
  router.get('/notes', {}, async ({ req }) => {
    const sort = req.query.get('sort') ?? 'id';
    const where = [];
    if (req.query.get('q')) where.push(\`title = '\${req.query.get('q')}'\`);
    let text = 'select id from notes where ' + where.join(' and ');
    await db.fetchAll(text); // SVC601
    return db.fetchAll('select id from notes order by ' + sort); // SVC601
  });
}
`,
  'SQL by the builders of sql, and a text in their place': `
import { Svc, Depends } from 'svc';
import { db, sql } from 'svc/db';
export const app = new Svc();
app.get('/search', { db: Depends(db) }, async ({ db, query }) => {
  const filter = sql.and(query.q !== undefined && sql\`title = \${query.q}\`, sql.in(sql\`kind\`, query.kinds));
  await db.fetchAll(sql\`select * from notes where \${filter}\`);
  return await db.fetchAll(\`select * from notes where title = '\${query.q}' and \${filter}\`); // SVC601
});
app.patch('/one/{id:int}', { db: Depends(db) }, async ({ db, params, body }) => {
  await db.execute(sql\`insert into note \${sql.values([body], ['id', 'title'])} \${sql.upsert(['id'], ['title'])}\`);
  await db.execute(sql\`update notes set \${sql.set(body, ['title'])} where id = \${params.id}\`);
});
`,
  'SQL in a class that a module of its own holds': `
// FILE app.ts
import { Svc } from 'svc';
import { Notes } from './notes.ts';
export const app: Svc = new Svc();
const notes = new Notes(app.state.db);
app.get('/notes', {}, ({ query }) => notes.searchNotes(query.q));
app.get('/static', {}, () => notes.recent(7));
// FILE notes.ts
export class Notes {
  readonly #db: Database;
  constructor(db: Database) { this.#db = db; }
  searchNotes(text: string) {
    return this.#db.fetchAll(\`select id from notes where text like '%\${text}%'\`); // SVC601
  }
  recent(days: number) { return this.#db.fetchAll(\`select id from notes where age < \${days}\`); }
}
`,
  'SQL in an imported helper of JavaScript': `
// FILE app.js
import { db as database } from 'svc/db';
import { Svc, Depends } from 'svc';
import { find } from './store.js';
export const app = new Svc();
app.post('/find', { db: Depends(database) }, async ({ req, db }) => {
  const body = await req.json();
  return find(db, body.name);
});
// FILE store.js
const SELECT = 'select id, name from people';
export async function find(db, name) {
  return await db.fetchAll(SELECT + " where name = '" + name + "'"); // SVC601
}
`,
  'SQL of other clients': `
import { Router } from 'svc';
import { Pool } from 'pg';
import { PrismaClient } from '@prisma/client';
const router = new Router();
const pool = new Pool();
const prisma = new PrismaClient();
router.get('/u/{id}', (req) => {
  pool.query('SELECT * FROM users WHERE id = ' + req.params.id, (error, rows) => show(rows)); // SVC601
  prisma.$queryRawUnsafe(\`SELECT 1 FROM t WHERE x = \${req.query.x}\`); // SVC601
});
`,
  'SQL as it should be': `
import { Depends, Svc, BadRequest, Field, literal, Schema, str } from 'svc';
import { sql, db as database } from 'svc/db';
const app = new Svc();
const COLUMNS = new Map([['name', 'name'], ['age', 'age']]);
const ALLOWED = ['id', 'title'];
const TABLE = 'notes';
app.get('/a', { db: Depends(database) }, async ({ db, query, params, req }) => {
  await db.fetchAll('select * from notes where title = ?', [query.q]);
  await db.fetchAll(sql\`select * from notes where title = \${query.q}\`);
  await db.fetchAll(\`select * from \${TABLE} where id = ?\`, [params.id]);
  await db.fetchAll(\`select * from notes order by \${COLUMNS.get(query.sort) ?? 'name'}\`);
  await db.fetchAll(\`select * from notes order by \${ALLOWED.includes(query.sort) ? query.sort : 'id'}\`);
  await db.fetchAll(\`select * from notes order by id \${query.desc === '1' ? 'desc' : 'asc'}\`);
  await db.fetchAll(\`select * from notes limit \${Number(query.limit)}\`);
  await db.fetchAll(\`select * from notes limit \${Math.min(100, parseInt(query.limit, 10))}\`);
  const sort = query.sort;
  if (!ALLOWED.includes(sort)) throw new BadRequest();
  await db.fetchAll(\`select * from notes order by \${sort}\`);
  const ids = query.ids.split(',');
  await db.fetchAll(\`select * from notes where id in (\${ids.map(() => '?').join(', ')})\`, ids);
  return /^[a-z]+$/.exec(query.word);
});
app.get('/b/{id:int}', { db: Depends(database), query: { page: Field(1), by: Field(literal('a', 'b')) } }, ({ db, params, query }) =>
  db.fetchAll(\`select * from notes where id = \${params.id} order by \${query.by} limit \${query.page}\`));
class Sort extends Schema { by = Field(str, { pattern: '^[a-z]+$' }); }
app.post('/c', { db: Depends(database), body: Sort }, ({ db, body }) => db.fetchAll(\`select * from notes order by \${body.by}\`));
export function known(name) { if (!/^[a-z]+$/.test(name)) throw new Error('no'); return name; }
app.get('/d', { db: Depends(database) }, ({ db, query }) => db.fetchAll(\`select * from \${known(query.table)}\`));
`,
  'SQL in TypeScript that is more than types': `
// FILE app.ts
import { db as database } from 'svc/db';
import { Depends, Svc } from 'svc';
const app = new Svc();
enum Sort { Name = 'name' }
class Store {
  constructor(private readonly db: Database, readonly sort: Sort) {}
  route() {
    return ({ query }: Context) => query;
  }
}
app.get('/a', { db: Depends(database) }, ({ db, query }: Context) =>
  db.fetchAll(\`select * from t where a = '\${query.a}'\`)); // SVC601
`,
  commands: `
import { Svc } from 'svc';
import { exec, execFile, execSync, spawn } from 'node:child_process';
import * as cp from 'node:child_process';
import { promisify } from 'node:util';
const app = new Svc();
const run = promisify(exec);
const runFile = promisify(execFile);
app.post('/convert', {}, async ({ body, query, form }) => {
  await run(\`convert \${body.name} out.png\`); // SVC602
  execSync('ping -c 1 ' + query.host); // SVC602
  cp.exec('ls ' + form.folder, () => {}); // SVC602
  spawn('convert', [query.file], { shell: true }); // SVC602 SVC613
  spawn('sh', ['-c', \`echo \${query.text}\`]); // SVC602 SVC613
  spawn(query.program); // SVC602 SVC613
  await runFile('convert', [query.file, 'out.png']); // SVC602
  spawn('convert', [query.file]); // SVC602 SVC613
  await runFile('sort', ['--', query.file]);
  spawn('convert', ['./' + query.file]); // SVC613
  return run('convert ' + Number(query.size) + ' out.png');
});
`,
  'commands of CommonJS': `
const { exec } = require('child_process');
const { Svc } = require('svc');
const routes = (app) => {
  app.get('/ping', (req) => {
    exec('ping ' + req.query.host, (error, out) => show(out)); // SVC602
  });
};
routes(new Svc());
module.exports = routes;
`,
  code: `
import { Svc } from 'svc';
import vm from 'node:vm';
const app = new Svc();
app.post('/run', {}, async ({ body, query }) => {
  const a = eval(body.code); // SVC603
  const b = new Function('x', query.body); // SVC603
  vm.runInNewContext(body.code, {}); // SVC603
  const c = await import(\`./plugins/\${query.name}.js\`); // SVC603
  return [a, b, c, eval('1 + 1')];
});
`,
  patterns: `
import { Svc } from 'svc';
const app = new Svc();
app.get('/grep', {}, ({ query }) => {
  const a = new RegExp(query.q, 'i'); // SVC604
  const b = new RegExp(\`^\${query.start}\`); // SVC604
  const c = new RegExp(RegExp.escape(query.q), 'i');
  const d = new RegExp(query.q.replace(/[.*+?^\${}()|[\\]\\\\]/g, '\\\\$&'));
  return [a, b, c, d].some((each) => each.test('x'));
});
`,
  redirects: `
import { RedirectResponse, localPath, reply, Svc, BadRequest } from 'svc';
const app = new Svc();
app.get('/go', {}, ({ query }) => new RedirectResponse(query.to)); // SVC605
app.post('/login', {}, async ({ form, req }) => {
  const next = form.next ?? '/';
  req.session.regenerate();
  return new RedirectResponse(next, { status: 303 }); // SVC605
});
app.get('/old', {}, ({ query }) => reply(undefined, 302, { Location: query.to })); // SVC605
app.get('/slash', {}, ({ query }) => new RedirectResponse('/' + query.to)); // SVC605
app.get('/ok1', {}, ({ query }) => new RedirectResponse(localPath(query.to) ?? '/'));
app.get('/ok2', {}, ({ query }) => new RedirectResponse(\`/notes/\${query.to}\`));
app.get('/ok3', {}, ({ query }) => new RedirectResponse(\`https://shop.example/\${query.to}\`));
app.get('/ok4', {}, ({ query }) => {
  if (!query.to.startsWith('/') || query.to.startsWith('//')) throw new BadRequest();
  return new RedirectResponse(query.to);
});
app.get('/ok5', {}, ({ query }) => new RedirectResponse(\`/login?next=\${encodeURIComponent(query.to)}\`));
app.get('/ok6', {}, ({ query }) => new RedirectResponse(HOSTS.has(query.to) ? query.to : '/'));
`,
  paths: `
import { randomUUID } from 'node:crypto';
import { Field, FileResponse, NotFound, Schema, Svc, str } from 'svc';
import { readFile } from 'node:fs/promises';
import fs from 'node:fs';
import { join, basename, resolve } from 'node:path';
import * as path from 'node:path';
const app = new Svc();
app.get('/files/{name}', {}, async ({ params }) => await readFile(join('uploads', params.name))); // SVC606
app.get('/t/{name:path}', {}, ({ params }) => new FileResponse(path.join(root, params.name))); // SVC606
app.get('/page', {}, ({ query }) => fs.readFileSync(\`templates/\${query.page}.html\`, 'utf8')); // SVC606
app.post('/up', {}, async ({ form }) => { await form.picture.save(join(root, form.picture.filename)); }); // SVC606
app.delete('/files', {}, async ({ query }) => { await fs.promises.unlink('uploads/' + query.name); }); // SVC606
app.get('/ok/{name}', {}, async ({ params }) => await readFile(join('uploads', basename(params.name))));
app.get('/ok5/{name}', {}, async ({ params: { name } }) => {
  if (name !== basename(name) || name.startsWith('.')) throw new NotFound();
  return await readFile(join('uploads', name));
});
app.get('/same/{name}', {}, async ({ params: { name } }) => {
  if (name === basename(name)) throw new NotFound();
  return await readFile(join('uploads', name)); // SVC606
});
app.get('/ok2/{name}', {}, async ({ params }) => {
  const full = resolve(root, params.name);
  if (!full.startsWith(root + '/')) throw new NotFound();
  return await readFile(full);
});
app.get('/folder', {}, async ({ query }) => {
  const at = path.resolve(root, 'public', query.name);
  if (at !== path.resolve(root, 'public') && !at.startsWith(path.resolve(root, 'public') + path.sep)) throw new NotFound();
  return await fs.promises.readdir(at);
});
app.get('/whole', {}, async ({ query }) => {
  const at = join(root, query.dir, query.name);
  return join(root, 'index') === at || at.startsWith(root + '/') ? await readFile(at) : 'none';
});
app.get('/either', {}, async ({ query }) => {
  const at = join(root, query.name);
  return join(root, 'index') === at || query.name.length < 20 ? await readFile(at) : 'none'; // SVC606
});
app.get('/other', {}, async ({ query }) => {
  const at = join(root, query.name);
  if (at === join(root, 'index')) throw new NotFound();
  return await readFile(at); // SVC606
});
app.get('/ok3/{id:uuid}', {}, ({ params }) => new FileResponse(join(root, params.id)));
app.get('/ok6/{id}', {}, async ({ params }) => {
  await getNote(params.id);
  return new FileResponse(join(root, params.id));
});
app.get('/ok4/{name}', {}, async ({ params }) => {
  const page = PAGES[params.name];
  return await readFile(page);
});
app.post('/ok5', {}, async ({ form }) => { await form.picture.save(join(root, randomUUID())); });
class Photo extends Schema {
  id = Field(str);
  title = Field(str);
}
app.post('/ok7', {}, async ({ form }) => {
  const photo = Photo.parse({ id: randomUUID(), title: form.title });
  await form.picture.save(join(root, photo.id));
});
app.post('/named', {}, async ({ form }) => {
  const photo = Photo.parse({ id: form.id, title: 'none' });
  await form.picture.save(join(root, photo.id)); // SVC606
});
`,
  addresses: `
import { Svc, BadRequest } from 'svc';
const app = new Svc();
const BASE = process.env['BASE'];
app.post('/preview', {}, async ({ body }) => (await fetch(body.url, { signal })).text()); // SVC607
app.get('/proxy', {}, async ({ query }) => {
  const answer = await fetch(\`http://\${query.host}/status\`, { signal }); // SVC607
  return answer.text();
});
app.get('/ok1', {}, async ({ query }) => (await fetch(\`https://api.example/users/\${query.id}\`, { signal })).json());
app.get('/ok2', {}, async ({ query }) => (await fetch(\`\${BASE}/users/\${query.id}\`, { signal })).json());
app.get('/ok4', {}, async ({ params }) => (await fetch(new URL(\`assets/\${params.name}\`, BASE), { signal })).json());
app.post('/ok5', {}, async ({ body }) => (await fetch(body.url, { signal, dispatcher: onlyPublic })).text());
app.post('/ok3', {}, async ({ body }) => {
  const target = new URL(body.url);
  if (!HOSTS.has(target.hostname)) throw new BadRequest();
  return (await fetch(body.url, { signal, redirect: 'error' })).text();
});
app.post('/ok4', {}, async ({ body }) => {
  const url = await assertPublicAddress(body.url);
  return (await fetch(url, { signal })).text();
});
`,
  pages: `
import { HTMLResponse, HttpResponse, Svc, Field } from 'svc';
import { escapeHtml } from './escape.js';
const app = new Svc();
app.get('/hello', {}, ({ query }) => new HTMLResponse(\`<h1>Hello \${query.name}</h1>\`)); // SVC608
app.get('/hi', {}, ({ query }) => new HttpResponse('<p>' + query.name + '</p>', { mediaType: 'text/html' })); // SVC608
app.get('/list', {}, ({ query }) => {
  const items = query.items.split(',').map((item) => \`<li>\${item}</li>\`).join(''); // SVC608
  return new HTMLResponse(\`<ul>\${items}</ul>\`);
});
app.get('/page', {}, ({ query }) => page(query.title));
function page(title) {
  return new HTMLResponse(\`<title>\${title}</title>\`); // SVC608
}
app.get('/ok', {}, ({ query }) => new HTMLResponse(\`<h1>Hello \${escapeHtml(query.name)}</h1>\`));
app.get('/ok2', {}, ({ query }) => new HTMLResponse(\`<h1>Hello \${escape(query.name)}</h1>\`));
app.get('/ok3', { query: { page: Field(1) } }, ({ query }) => new HTMLResponse(\`<h1>Page \${query.page}</h1>\`));
app.get('/ok4', {}, ({ query }) => new HTMLResponse(html\`<h1>Hello \${query.name}</h1>\`));
function escape(text) { return text.replace(/[&<>"']/g, (character) => \`&#\${character.charCodeAt(0)};\`); }
app.get('/e', {}, ({ query }) => new HttpResponse('<b>' + query.name + '</b>', { mediaType: 'text/plain' }));
app.get('/e2', {}, ({ query }) => { socket.write('<b>' + query.name + '</b>'); });
`,
  'header fields': `
import { HttpResponse, Svc } from 'svc';
const app = new Svc();
app.get('/a', {}, ({ query }) => new HttpResponse('a', { headers: { 'Set-Cookie': \`seen=\${query.at}\` } })); // SVC609
app.get('/b', {}, ({ query }) => new HttpResponse('a', { headers: { 'Set-Cookie': \`seen=\${encodeURIComponent(query.at)}\` } }));
`,
  'lines of files': `
import { Svc } from 'svc';
import { appendFile } from 'node:fs/promises';
const app = new Svc();
app.get('/a', {}, async ({ query }) => await appendFile('a.log', 'read ' + query.page + '\\n')); // SVC610
app.get('/b', {}, async ({ query }) => await appendFile('a.log', 'read ' + encodeURIComponent(query.page) + '\\n'));
`,
  'messages of WebSockets, tools and middleware': `
import { openDatabase } from 'svc/db';
import { Svc, Depends, Field, str, provide } from 'svc';
const app = new Svc();
const db = await openDatabase('sqlite:notes.db');
app.websocket('/ws', { me: Depends(user) }).onMessage(async (socket, message) => { await db.fetchAll('select * from t where a = ' + message.a); }); // SVC601
app.tool('find', { args: { text: Field(str) } }, ({ args }) => db.fetchAll(\`select * from t where a = '\${args.text}'\`)); // SVC601
app.use(async ({ req }, next) => {
  await db.execute(\`insert into log (agent) values ('\${req.headers['user-agent']}')\`); // SVC601
  return await next();
});
const tenant = provide({ db: Depends(db) }, ({ db, req }) => db.fetchOne(\`select 1 from t where n = '\${req.headers['x-tenant']}'\`)); // SVC601
`,
  'keys that a look-up has found': `
import { openDatabase } from 'svc/db';
import { Svc, HTMLResponse, NotFound } from 'svc';
import { readFile } from 'node:fs/promises';
const app = new Svc();
const db = await openDatabase('sqlite:notes.db');
app.get('/a/{id}', {}, async ({ params }) => {
  const file = \`reports/\${params.id}.pdf\`;
  const report = await reports.findOne({ id: params.id });
  if (!report) return new HTMLResponse('<p>no report ' + params.id + '</p>', { status: 404 }); // SVC608
  await readFile(file);
  return new HTMLResponse(\`<h1>\${params.id}</h1>\`);
});
app.get('/b/{id}', {}, async ({ params }) => {
  const rows = await db.fetchAll('select * from reports where id = ?', [params.id]);
  if (rows.length === 0) throw new NotFound();
  return await readFile('reports/' + params.id);
});
app.get('/c/{id}', {}, async ({ params, query }) => {
  const report = REPORTS.get(params.id);
  if (report && report.isDone) await readFile('reports/' + params.id);
  const page = PAGES.find((each) => each.name === query.page);
  if (page === undefined) throw new NotFound();
  await readFile('pages/' + query.page);
});
app.get('/f/{id}', {}, async ({ params }) => {
  const report = await reports.findOne({ id: params.id });
  await readFile('reports/' + params.id); // SVC606
  if (report) return report;
});
app.get('/g/{id}', {}, async ({ params }) => {
  const report = await reports.findOne({ id: params.id });
  if (report) return report;
  return await readFile('reports/' + params.id); // SVC606
});
`,
  'headers in a page, and one of them': `
import { Svc, HTMLResponse } from 'svc';
const app = new Svc();
app.get('/echo', {}, ({ req }) => new HTMLResponse(\`<pre>\${JSON.stringify(req.headers)}</pre>\`));
app.get('/agent', {}, ({ req }) => new HTMLResponse(\`<pre>\${req.headers['user-agent']}</pre>\`)); // SVC608
`,
  'a member that is cleaned in its place': `
import { Svc } from 'svc';
import { unlink } from 'node:fs/promises';
const app = new Svc();
app.post('/a', async (req, res) => {
  await unlink('files/' + req.body.name); // SVC606
  req.body.name = sanitize(req.body.name);
  await unlink('files/' + req.body.name);
});
`,
  'redirects back to where the client comes from': `
import { Svc, RedirectResponse } from 'svc';
const app = new Svc();
app.get('/back', {}, ({ req }) => new RedirectResponse(req.headers.referer));
app.get('/before', {}, ({ req }) => new RedirectResponse(req.cookies.before));
`,
  'keys of a client in a row': `
import { Field, Svc, any, record, str } from 'svc';
const app = new Svc();
const settings = {};
const BANNED = new Set(['__proto__', 'constructor', 'prototype']);
app.put('/a', {}, ({ body }) => { settings[body.group][body.name] = body.value; }); // SVC650
app.put('/b', {}, ({ body }) => { if (Object.hasOwn(settings, body.group)) settings[body.group][body.name] = body.value; });
app.put('/c', {}, ({ body }) => { settings[body.name] = body.value; });
app.put('/d', { body: { all: Field(record(any)) } }, ({ body }) => merge(settings, body.all));
app.put('/e', { body: { all: Field(record(any)) } }, ({ body }) => mergeKnown(settings, body.all));
app.put('/f', { body: { group: Field(str, { pattern: '^[a-z]+$' }) } }, ({ body }) => { settings[body.group][body.name] = 1; });
const isObject = (value) => typeof value === 'object' && value !== null;
function merge(target, change) {
  for (const key of Object.keys(change)) {
    const present = target[key];
    if (isObject(present)) merge(present, change[key]);
    else target[key] = change[key]; // SVC650
  }
}
function mergeKnown(target, change) {
  for (const [key, value] of Object.entries(change)) {
    if (BANNED.has(key)) continue;
    if (isObject(target[key])) mergeKnown(target[key], value);
    else target[key] = value;
  }
}
`,
  'columns as arguments of programs': `
import { execFile } from 'node:child_process';
import { Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
class Scan extends Schema { path = Field(str); }
class Upload extends Schema { label = Field(str); }
app.post('/uploads', { db: Depends(db), body: Upload }, async ({ db, body }) => {
  await db.execute('insert into upload (label) values (?)', [body.label]);
});
app.get('/scans/{id}', { db: Depends(db) }, async ({ db, params }) => {
  const scan = await db.fetchOne('select path from scan where id = ?', [params.id], { as: Scan });
  if (scan !== undefined) execFile('tiffinfo', [scan.path]); // SVC602
});
app.get('/uploads/{id}', { db: Depends(db) }, async ({ db, params }) => {
  const upload = await db.fetchOne('select label from upload where id = ?', [params.id], { as: Upload });
  if (upload !== undefined) execFile('banner', [upload.label]); // SVC602
});
`,
  'names of columns that the program gives to inputs': `
import { Depends, Field, Svc, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const query = { name: Field(str, { optional: true }), mail: Field(str, { optional: true }) };
app.get('/people', { db: Depends(db), query }, async ({ db, query }) => {
  const parts = [];
  const values = [];
  for (const [column, value] of Object.entries({ name: query.name, email: query.mail }))
    if (value !== undefined) { parts.push(column + ' = ?'); values.push(value); }
  await db.fetchAll('select id from person where 1 = 1 and ' + parts.join(' and '), values);
  return db.fetchAll('select id from person where ' + Object.entries(query).map(([column]) => column + ' = 1').join(' or '));
});
app.get('/any', { db: Depends(db) }, ({ db, req }) =>
  db.fetchAll('select id from person where ' + Object.entries(req.query).map(([column]) => column + ' = 1').join(' or '))); // SVC601
`,
  'columns in the text of statements': `
import { Depends, Field, Schema, Svc, literal, str } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
class Report extends Schema { dimension = Field(str); table = Field(literal('sale', 'refund')); }
class Layout extends Schema { column = Field(str); }
app.post('/reports', { db: Depends(db), body: Report }, async ({ db, body }) => {
  await db.execute('insert into report (dimension, "table") values (?, ?)', [body.dimension, body.table]);
});
app.get('/reports/{id}', { db: Depends(db) }, async ({ db, params }) => {
  const report = await db.fetchOne('select dimension, "table" from report where id = ?', [params.id], { as: Report });
  if (report === undefined) return [];
  await db.fetchAll(\`select count(*) from \${report.table}\`);
  return await db.fetchAll(\`select \${report.dimension} from sale\`); // SVC601
});
app.get('/layouts/{id}', { db: Depends(db) }, async ({ db, params }) => {
  const layout = await db.fetchOne('select column from layout where id = ?', [params.id], { as: Layout });
  return layout === undefined ? [] : await db.fetchAll(\`select \${layout.column} from sale\`);
});
`,
  'files at the path of the request': `
import { join, resolve, sep } from 'node:path';
import { FileResponse, NotFound, Svc, localPath } from 'svc';
const uploads = resolve('uploads');
const app = new Svc();
app.get('/a/{file:path}', { public: 'files' }, ({ req }) => new FileResponse(uploads + req.path)); // SVC606
app.get('/b/{file:path}', { public: 'files' }, ({ req: { path } }) => new FileResponse(join(uploads, path))); // SVC606
app.get('/c/{file:path}', { public: 'files' }, ({ req }) => {
  const file = resolve(uploads, \`.\${req.path}\`);
  if (!file.startsWith(uploads + sep)) throw new NotFound();
  return new FileResponse(file);
});
app.get('/d', { public: 'x' }, ({ req }) => ({ path: req.path }));
`,
  'extensions of uploaded names': `
import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Field, Schema, Svc, str } from 'svc';
class Body extends Schema { original = Field(str, { maxLength: 200 }); other = Field(str, { maxLength: 200 }); }
const after = (name) => name.slice(name.lastIndexOf('.'));
export const app = new Svc();
app.post('/a', { body: Body, public: 'x', status: 204 }, async ({ body }) => { await rename('tmp', join('uploads', randomUUID() + after(body.original))); });
app.post('/b', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  const ext = after(body.original);
  const name = randomUUID() + ext;
  await rm(join('thumbs', \`\${name.slice(0, -ext.length)}.png\`));
});
const fromEnd = (name) => {
  let multi = '';
  if (/\\.\\d{3}$/.test(name)) {
    multi = name.slice(name.lastIndexOf('.') - name.length);
    name = name.slice(0, name.lastIndexOf('.'));
  }
  const preserved = name.match(/\\.tar\\.\\w+/i);
  return (preserved ? preserved[0] : name.slice(name.lastIndexOf('.') - name.length)) + multi;
};
app.post('/f', { body: Body, public: 'x', status: 204 }, async ({ body }) => { await rename('tmp', join('uploads', randomUUID() + fromEnd(body.original))); });
app.post('/g', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  await rename('tmp', join('uploads', randomUUID() + body.original.slice(body.original.lastIndexOf('.') - body.other.length))); // SVC606
});
app.post('/c', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  await rename('tmp', join('uploads', randomUUID() + body.original.slice(body.original.indexOf('.')))); // SVC606
});
app.post('/d', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  await rename('tmp', join('uploads', randomUUID() + body.original.slice(body.other.lastIndexOf('.')))); // SVC606
});
app.post('/e', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  await rename('tmp', join('uploads', randomUUID() + body.original.slice(body.original.lastIndexOf('/')))); // SVC606
});
app.post('/h', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  const dot = body.original.lastIndexOf('.');
  if (body.original === '') return;
  await rename('tmp', \`uploads/\${randomUUID()}.\${body.original.slice(dot + 1).toLowerCase()}\`);
  await rename('tmp', \`uploads/\${dot === -1 ? 'bin' : body.original.substring(1 + dot)}\`);
  await rename('tmp', \`uploads/\${body.original.slice(body.original.lastIndexOf('/') + 1)}\`);
  await rename('tmp', 'uploads' + body.original.slice(dot));
});
app.post('/i', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  const dot = body.original.lastIndexOf('.');
  const shown = 'aa' + body.original;
  await rename('tmp', \`uploads/\${shown.slice(dot)}\`); // SVC606
});
app.post('/j', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  await rename('tmp', 'uploads/.' + body.original.slice(body.original.lastIndexOf('.'))); // SVC606
});
app.post('/k', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  await rename('tmp', 'uploads/' + body.original.slice(body.original.lastIndexOf('.') + 2)); // SVC606
});
app.post('/l', { body: Body, public: 'x', status: 204 }, async ({ body }) => {
  await rename('tmp', 'uploads/' + body.original.slice(body.other.lastIndexOf('.') + 1)); // SVC606
});
`,
  'markup around parts of escaped columns': `
import { Depends, HTMLResponse, Svc, escapeHtml } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const linked = (text) => escapeHtml(text)
  .replace(/https?:\\/\\/[^\\s<>"']+/g, (url) => \`<a href="\${url}">\${url}</a>\`)
  .replace(/\\n/g, '<br>\\n');
const restored = (text) => escapeHtml(text).replace(/&lt;/g, () => '<');
app.post('/notes', { db: Depends(db), public: 'x', status: 204 }, async ({ db, body }) => { await db.execute('insert into note (id, text) values (?, ?)', [body.id, body.text]); });
app.get('/notes/{id}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  const note = await db.fetchOne('select text from note where id = ?', [params.id]);
  return new HTMLResponse(\`<p>\${linked(note?.text ?? '')}</p>\`);
});
app.get('/bad/{id}', { public: 'x' }, ({ params }) => new HTMLResponse(\`<p>\${restored(params.id)}</p>\`)); // SVC608
app.get('/good/{id}', { public: 'x' }, ({ params }) => new HTMLResponse(\`<p>\${linked(params.id)}</p>\`));
`,
};
