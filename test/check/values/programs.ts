/** Programs whose findings depend on the contents of texts, and not on names. */

/** A program of one file whose handler of `GET /notes` has this code. */
const handler = (code: string, before = ''): Readonly<Record<string, string>> => ({
  'app.ts': `import { Depends, FileResponse, HTMLResponse, RedirectResponse, Svc, BadRequest, NotFound, reply } from 'svc';
import { db as database, sql } from 'svc/db';
import { readFile } from 'node:fs/promises';
import { execFile, exec } from 'node:child_process';
import * as path from 'node:path';
${before}
export const app = new Svc();
app.get('/notes', { store: Depends(database) }, async ({ store, query, req }) => {
${code}
});
`,
});

export const PROGRAMS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'replace() cleans only with a set of characters and the flag g': handler(`
  await store.fetchAll(\`select * from a order by \${query.sort.replace(/[^\\w]/g, '')}\`);
  await store.fetchAll(\`select * from a order by \${query.sort.replace(/\\W+/g, '_')}\`);
  await store.fetchAll(\`select * from a order by \${query.sort.replaceAll(/[^a-z]/gi, '')}\`);
  await store.fetchAll(\`select * from a order by \${query.sort.replace(/[^\\w]/, '')}\`); // SVC601
  await store.fetchAll(\`select * from a where b = '\${query.sort.replace("'", "''")}'\`); // SVC601
  await store.fetchAll(\`select * from a order by \${query.sort.trim().toLowerCase().slice(0, 20)}\`); // SVC601
  await readFile('files/' + query.name.replace(/\\.\\./g, '')); // SVC606
  await readFile('files/' + query.name.replace(/[/\\\\]/g, '-'));`),
  'a test holds in its branch only': handler(
    `
  if (SORTS.has(query.sort)) await store.fetchAll('select * from a order by ' + query.sort);
  else await store.fetchAll('select * from a order by ' + query.sort); // SVC601
  await store.fetchAll('select * from b order by ' + (['a', 'b'].includes(query.by) ? query.by : 'a'));
  await store.fetchAll('select * from b order by ' + query.by); // SVC601
  if (query.order === 'asc' || query.order === 'desc') await store.fetchAll('select * from a order by b ' + query.order);
  if (query.order === 'asc' || query.x) await store.fetchAll('select * from a order by b ' + query.order); // SVC601
  if (/^[a-z]+$/.test(query.column) === false) throw new BadRequest();
  await store.fetchAll('select * from a order by ' + query.column);
  if (/[a-z]+/.test(query.table)) await store.fetchAll('select * from ' + query.table); // SVC601
  switch (query.kind) {
    case 'x':
    case 'y':
      await store.fetchAll('select * from ' + query.kind);
      break;
    default:
      await store.fetchAll('select * from ' + query.kind); // SVC601
  }
  if (query.group in COLUMNS) await store.fetchAll('select * from a group by ' + query.group);
  const column = COLUMNS[query.having] ?? 'id';
  await store.fetchAll('select * from a order by ' + column);`,
    "const SORTS = new Set(['id', 'name']);\nconst COLUMNS = { id: 'id', name: 'title' };",
  ),
  'a test that throws, returns or continues holds afterwards': handler(`
  for (const name of query.names.split(',')) {
    if (!/^\\w+$/.test(name)) continue;
    await readFile('files/' + name);
  }
  if (query.a.includes('/')) return;
  await readFile('files/' + query.a);
  if (query.b.includes('..')) throw new BadRequest();
  await readFile('files/' + query.b);
  if (query.c.includes('x')) throw new BadRequest();
  await readFile('files/' + query.c); // SVC606`),
  'functions of the project count for what they do, not for their name': handler(
    `
  await readFile('files/' + sanitize(query.a)); // SVC606
  await readFile('files/' + q(query.b));
  assertSafe(query.c);
  await readFile('files/' + query.c); // SVC606
  z(query.d);
  await readFile('files/' + query.d);
  if (!isValid(query.e)) throw new BadRequest();
  await readFile('files/' + query.e); // SVC606
  if (!y(query.f)) throw new BadRequest();
  await readFile('files/' + query.f);
  await readFile(p(query.g)); // SVC606
  await readFile(w(query.h));`,
    `function sanitize(text) { return text.trim(); }
function q(text) { return text.split('').filter((c) => /^[a-z]$/.test(c)).join(''); }
function assertSafe(text) { if (text.length > 100) throw new BadRequest(); }
function z(text) { if (!/^[\\w-]+$/.test(text)) throw new BadRequest(); }
const isValid = (text) => text !== '';
function y(text) { if (text.includes('/')) return false; return true; }
const p = (text) => path.join('files', text);
const w = (text) => { const whole = path.resolve('files', text); if (!whole.startsWith('files' + path.sep)) throw new NotFound(); return whole; };`,
  ),
  'a path that was compared with its folder stays inside': handler(
    `
  const a = path.resolve(FOLDER, query.a);
  if (!a.startsWith(FOLDER + path.sep)) throw new NotFound();
  await readFile(a);
  const b = path.resolve(FOLDER, query.b);
  if (!b.startsWith(FOLDER)) throw new NotFound();
  await readFile(b); // SVC606
  const c = path.join(FOLDER, query.c);
  const way = path.relative(FOLDER, c);
  if (way.startsWith('..') || path.isAbsolute(way)) throw new NotFound();
  await readFile(c);
  await readFile(path.join(FOLDER, path.basename(query.d)));
  await readFile(path.join(FOLDER, path.normalize('/' + query.e)));
  await readFile(path.join(FOLDER, query.f)); // SVC606
  const d = path.join(FOLDER, query.g);
  const isInside = d.startsWith(\`\${FOLDER}/\`);
  return isInside ? await readFile(d) : undefined;`,
    "const FOLDER = path.resolve('files');",
  ),
  'an address whose host is known cannot choose its host': handler(
    `
  const a = new URL(query.a);
  if (a.origin !== 'https://api.example') throw new BadRequest();
  await fetch(a, { signal: req.signal, redirect: 'error' });
  const b = new URL(query.b);
  if (b.protocol !== 'https:') throw new BadRequest();
  await fetch(b, { signal: req.signal }); // SVC607
  await fetch(\`https://api.example/\${query.c}\`, { signal: req.signal });
  await fetch(\`https://\${query.d}.example/\`, { signal: req.signal }); // SVC607
  await fetch(new URL('/notes/' + query.e, 'https://api.example'), { signal: req.signal });
  await fetch(new URL(query.f, 'https://api.example'), { signal: req.signal }); // SVC607
  if (!['a.example', 'b.example'].includes(new URL(query.g).hostname)) return;
  await fetch(query.g, { signal: req.signal, redirect: 'error' });
  const h = new URL(query.i);
  if (!HOSTS.some((host) => h.hostname === host || h.hostname.endsWith('.' + host))) throw new BadRequest();
  await fetch(h, { signal: req.signal, redirect: 'error' });
  if (!new URL(query.j).hostname.endsWith('api.example')) throw new BadRequest();
  await fetch(query.j, { signal: req.signal }); // SVC607
  const to = { hostname: query.k, port: 80, signal: req.signal };
  request(to, () => {}); // SVC607
  request({ ...to, hostname: HOSTS.includes(query.k) ? query.k : 'a.example' }, () => {});
  request({ host: query.l + '.a.example', path: '/' + query.m, signal: req.signal }, () => {});
  await fetch(new Request(query.n), { signal: req.signal }); // SVC607
  const g = query.h.startsWith('https://api.example/') ? query.h : 'https://api.example/';
  await fetch(g, { signal: req.signal });`,
    "import { request } from 'node:http';\nconst HOSTS = ['a.example', 'b.example'];",
  ),
  'redirects to paths of this site': handler(
    `
  if (query.x === '1') return new RedirectResponse(query.a); // SVC605
  if (query.x === '2') return new RedirectResponse('/' + query.a); // SVC605
  if (query.x === '3') return new RedirectResponse('/notes/' + query.a);
  if (query.x === '4') return new RedirectResponse('/' + encodeURIComponent(query.a));
  if (query.x === '5') return new RedirectResponse(encodeURIComponent(query.a));
  if (query.x === '6') return go(query.a) ?? new RedirectResponse('/');
  if (/^\\/(?!\\/)/.test(query.b)) return new RedirectResponse(query.b);
  return reply(undefined, 303, { location: query.b }); // SVC605`,
    `import { localPath as local } from 'svc';
const go = (to) => { const path = local(to); return path && new RedirectResponse(path); };`,
  ),
  'pages ask for < outside of tags and for quotes in attributes': handler(
    `
  if (query.x === '1') return new HTMLResponse(\`<p>\${query.a}</p>\`); // SVC608
  if (query.x === '2') return new HTMLResponse(\`<p>\${query.a.replaceAll('<', '&lt;')}</p>\`);
  if (query.x === '3') return new HTMLResponse(\`<a title="\${query.a.replaceAll('<', '&lt;')}">x</a>\`); // SVC608
  if (query.x === '4') return new HTMLResponse(\`<a title="\${e(query.a)}">\${e(query.a)}</a>\`);
  if (query.x === '5') return new HTMLResponse(\`<p>\${encodeURIComponent(query.a)}</p>\`);
  if (query.x === '6') return new HTMLResponse(page({ title: query.a, items: query.b.split(',') }));
  if (query.x === '8') return new HTMLResponse(\`<p>\${e(query.a).replace(/\\n\\n/g, '</p><p>').replaceAll('\\t', '<wbr>')}</p>\`);
  if (query.x === '9') return new HTMLResponse(\`<p>\${e(query.a).replaceAll('[', '<')}</p>\`); // SVC608
  if (query.x === '7') return new HTMLResponse(hello(query.a + ' ' + query.b));
  return new HTMLResponse(\`<p>\${query.a.length} \${Number(query.b)} \${parseInt(query.c, 10)}</p>\`);`,
    `const MARKS = { '<': '&lt;', '>': '&gt;', '&': '&amp;', '"': '&quot;' };
const e = (text) => text.replace(/[<>&"]/g, (mark) => MARKS[mark]);
const page = ({ title, items = [] }) => \`<h1>\${e(title)}</h1>
<ul>\${items.map((item) => \`<li>\${item}</li>\`).join('')}</ul>\`; // SVC608
const hello = (name) => '<h1>' +
  name + // SVC608
  '</h1>';`,
  ),
  'columns of rows in pages': {
    'app.ts': `import { Depends, Field, HTMLResponse, Schema, Svc, bool, escapeHtml, int, literal, nullable, str } from 'svc';
import { db, sql } from 'svc/db';
import { readFile } from 'node:fs/promises';
class Review extends Schema {
  id = Field(int);
  stars = Field(literal('1', '2'));
  isOpen = Field(nullable(bool));
  product = Field(str, { pattern: '^[a-z-]+$' });
  opinion = Field(str);
  get title() { return \`\${this.id} \${this.product} \${this.stars}\`; }
}
const cell = (text: unknown) => \`<td>\${escapeHtml(String(text))}</td>\`;
export const app = new Svc();
app.get('/a', { store: Depends(db) }, async ({ store }) => {
  const reviews = await store.fetchAll(sql\`select * from review\`, { as: Review });
  const good = reviews.filter(({ id }) => id > 3).map((review) => '<tr>' + cell(review.opinion) + review.title + review.isOpen);
  let page = '<table>' + good.join('');
  for (const { opinion, id } of reviews) page += \`<tr id=r\${id}><td>\${opinion.trim()}\`; // SVC608
  return new HTMLResponse(page);
});
app.get('/b/{id:int}', { store: Depends(db) }, async ({ store, params }) => {
  const review = await store.fetchOne(sql\`select * from review where id = \${params.id}\`, { as: Review });
  if (review === undefined) return undefined;
  await readFile('reviews/' + review.opinion);
  await store.execute('update review set seen = 1 where opinion = ' + review.product);
  return new HTMLResponse('<h1>' + review.opinion); // SVC608
});
app.get('/c', { store: Depends(db) }, async ({ store }) => {
  const [first] = await store.fetchAll('select opinion from review');
  return new HTMLResponse('<h1>' + first.opinion);
});
`,
  },
  'header fields that a browser obeys, and files that another route sends': {
    'app.ts': `import { Field, HttpResponse, Svc, contentDisposition as named, literal, reply, str } from 'svc';
const TYPES = new Set(['image/png', 'image/webp']);
class Shelf {
  files = new Map();
  get(id: string) { return this.files.get(id); }
}
const shelf = new Shelf();
const checked = new Shelf();
export const app = new Svc();
app.get('/files/{id}', {}, ({ params }) => {
  const { body, kind } = shelf.get(params.id);
  return new HttpResponse(body, { mediaType: kind }); // SVC609
});
app.get('/checked/{id}', {}, ({ params }) => {
  const { body, kind } = checked.get(params.id);
  return new HttpResponse(body, { headers: { 'content-type': kind } });
});
app.put('/files/{id}', {}, async ({ params, form }) => {
  const file = { kind: form.file.contentType, body: await form.file.bytes() };
  shelf.files.set(params.id, file);
  if (TYPES.has(form.file.contentType)) checked.files.set(params.id, { kind: form.file.contentType, body: file.body });
});
app.get('/export', { query: { as: Field(literal('csv', 'tsv')), name: Field(str), code: Field(str, { pattern: /^[A-Z]+$/ }) } }, ({ query }) => {
  if (query.as === 'csv')
    return new HttpResponse('a', { headers: { 'Content-Type': 'text/' + query.as, 'Content-Disposition': named(query.name) } });
  if (query.name === '') return reply('a', 200, { 'content-disposition': \`attachment; filename="\${query.code}.csv"\` });
  return reply(
    { mediaType: query.name },
    200,
    {
      'Content-Disposition': 'attachment; filename=' +
        query.name, // SVC609
      'X-Name': query.name,
    },
  );
});
`,
  },
  'lines of files': {
    'app.ts': `import { Field, Svc, str } from 'svc';
import fs, { appendFileSync as add } from 'node:fs';
const book = fs.createWriteStream('book.txt', { flags: 'a' });
const flat = (text: string) => text.replace(/[\\r\\n]+/g, ' ');
export const app = new Svc();
app.put('/visits/{guest}', { query: { room: Field(str, { pattern: '^[0-9a-z]+$' }) } }, async ({ params, query, req }) => {
  const who = ['visit', params.guest, query.room].join(';');
  add('visits.csv', who + '\\n'); // SVC610
  add('visits.csv', flat(who) + '\\n');
  add('visits.csv', 'visit;' + query.room + ';' + req.headers['user-agent'] + '\\n');
  add('visits.csv', JSON.stringify({ guest: params.guest }) + '\\n');
  await fs.promises.appendFile('words.txt', params.guest);
  book.write(\`\${Date.now()} \${params.guest}\\n\`); // SVC610
});
`,
  },
  'keys of objects': {
    'app.ts': `import { Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
class Change extends Schema { title = Field(str); }
const COLUMNS = new Set(['title', 'text']);
export const app = new Svc();
app.patch('/a', { db: Depends(db) }, async ({ db, req }) => {
  const changes = await req.json();
  const columns = Object.keys(changes);
  await db.execute(\`update note set \${columns.map((key) => key + ' = ?').join(', ')}\`, Object.values(changes)); // SVC601
  for (const key in changes) await db.execute('update note set ' + key + ' = ?', [changes[key]]); // SVC601
  const known = Object.keys(changes).filter((key) => COLUMNS.has(key));
  await db.execute(\`update note set \${known.map((key) => key + ' = ?').join(', ')}\`);
});
app.patch('/b', { db: Depends(db), body: Change }, async ({ db, body }) => {
  await db.execute(\`update note set \${Object.keys(body).map((key) => key + ' = ?').join(', ')}\`);
  for (const key in body) await db.execute('update note set ' + key + ' = ?', [body[key]]);
  await db.execute('update note set ' + Object.keys({ title: body.title }).join());
});
`,
  },
  'commands with options and metacharacters': handler(`
  exec('convert ' + query.a); // SVC602
  if (!/^[\\w.-]+$/.test(query.b)) throw new BadRequest();
  exec('convert ' + query.b); // SVC602
  exec('convert in/' + query.b);
  if (!/^\\w+$/.test(query.c)) throw new BadRequest();
  exec(\`convert \${query.c} out.png\`);
  execFile('convert', [query.d]); // SVC602
  execFile('sort', ['-u', '--', query.d, query.e]);
  execFile('sort', ['-u', './' + query.d, Number(query.e)]);
  execFile('sort', ['--key', query.d + '.txt'], { cwd: 'in' }); // SVC602
  execFile('sort', ['-u', ...query.files]); // SVC602
  if (query.f.startsWith('-') || !/^(?:a|b[^x]*)/.test(query.g) || !/^[^-]*$/.test(query.h)) throw new BadRequest();
  execFile('sort', [query.f, query.g, query.h]);
  execFile('sort', { cwd: query.d });`),
  'bytes of a client: archives, decoders and limits': {
    'app.ts': `import { Svc } from 'svc';
import { writeFileSync } from 'node:fs';
import { brotliDecompressSync, gunzipSync, inflate } from 'node:zlib';
import { promisify } from 'node:util';
const LIMITS = { maxOutputLength: 1_000_000 };
const unpack = promisify(inflate);
export const app = new Svc();
app.put('/a', {}, async ({ req }) => {
  const bytes = gunzipSync(await req.body(), LIMITS);
  return bytes.length + brotliDecompressSync(await req.body(), { chunkSize: 1024 }).length; // SVC634
});
app.put('/b', {}, async ({ form }) => unpack(await form.log.bytes())); // SVC634
app.put('/c', {}, async ({ req }) => {
  const bytes = await req.body();
  const size = bytes[0];
  const title = new TextDecoder().decode(bytes.subarray(1, size));
  writeFileSync('books/' + title, bytes.subarray(size)); // SVC606
  writeFileSync('books/' + Buffer.concat([bytes.subarray(1), bytes]).toString('hex').replace(/[^0-9a-f]/g, ''), bytes);
});
`,
  },
  'regular expressions that RegExp() builds': handler(
    `
  if (WORDS.test(query.a)) return 'a'; // SVC636
  if (query.b.replace(new RegExp('(x+x+)+y', 'g'), '') === '') return 'b'; // SVC636
  if (WORDS.test('constant') || FLAT.test(query.c)) return 'c';
  if (!NAME.test(query.d)) throw new BadRequest();
  await readFile('files/' + query.d);`,
    "const WORD = '[a-z]+';\nconst WORDS = new RegExp('^(' + WORD + '-?)*$');\nconst FLAT = new RegExp(`^${WORD}$`);\nconst NAME = RegExp('^[a-z]+$', 'i');",
  ),
  'objects, spreads, destructuring with defaults and lists': handler(`
  const { sort: by = 'id', page } = query;
  await store.fetchAll('select * from a order by ' + by); // SVC601
  const options = { table: 'notes', ...{ by } };
  await store.fetchAll(\`select * from \${options.table}\`);
  await store.fetchAll(\`select * from \${options.table} order by \${options.by}\`); // SVC601
  const [first, second = 'x'] = ['notes', query.table];
  await store.fetchAll(\`select * from \${first}\`);
  await store.fetchAll(\`select * from \${second}\`); // SVC601
  const parts = [];
  parts.push('a = 1');
  await store.fetchAll('select * from a where ' + parts.join(' and '));
  parts.push(\`b = '\${query.b}'\`);
  await store.fetchAll('select * from a where ' + parts.join(' and ')); // SVC601
  let text = 'select * from a';
  if (page) text += ' limit ' + Number(page);
  await store.fetchAll(text);
  if (query.c) text += \` where c = '\${query.c}'\`;
  await store.fetchAll(text); // SVC601`),
  'classes, closures and modules': {
    'app.ts': `import { Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { Notes } from './notes.ts';
import * as files from './files.ts';
export const app = new Svc();
function handlers(of: { folder: string }) {
  const open = (name: string) => files.read(of.folder, name);
  return { open };
}
const { open } = handlers({ folder: 'files' });
app.get('/notes', { notes: Depends(Notes) }, ({ notes, query }) => notes.search(query.q));
app.get('/files', {}, ({ query }) => open(query.name));
app.get('/safe', {}, ({ query }) => files.readSafe(query.name));
app.get('/later', {}, async ({ query }) => await Promise.all(query.names.split(',').map(async (name: string) => await files.read('a', name))));
`,
    'notes.ts': `class Base { protected where(text: string): string { return \`title = '\${text}'\`; } }
export class Notes extends Base {
  readonly #store;
  limit = 10;
  constructor({ state }) { super(); this.#store = state.db; }
  async search(text: string) {
    return await this.#store.fetchAll('select * from notes where ' + this.where(text) + ' limit ' + this.limit); // SVC601
  }
}
`,
    'files.ts': `import { readFile as load } from 'node:fs/promises';
import { join } from 'node:path';
export async function read(folder: string, name: string) {
  return await load(join(folder, name)); // SVC606
}
export const readSafe = async (name: string) => await load(join('files', name.replace(/[^a-z]/g, '')));
`,
  },
  'builders, getters, generators, callbacks, timers and transactions': {
    'app.ts': `import { Depends, Svc, HTMLResponse, RedirectResponse, provide } from 'svc';
import { db } from 'svc/db';
import fs from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exec } from 'node:child_process';
export const app = new Svc();
class Query { #parts: string[] = []; #order = '';
  where(text: string) { this.#parts.push(text); return this; }
  order(by: string) { this.#order = by; return this; }
  get text() { return \`select * from a where \${this.#parts.join(' and ')} order by \${this.#order}\`; }
  build() { return \`select * from a where \${this.#parts.join(' and ')} order by \${this.#order}\`; } }
app.get('/a', { store: Depends(db) }, async ({ store, query }) => await store.fetchAll(new Query().where('a = 1').order(query.sort).build())); // SVC601
app.get('/b', { store: Depends(db) }, async ({ store, query }) => await store.fetchAll(Object.entries(query).reduce((text, [key, value]) => text + \` and \${key} = ?\`, 'select * from a where 1=1'))); // SVC601
const service = { async find(store: unknown, options: { by?: string }) { const { by = 'id' } = options; return await store.fetchAll('select * from a order by ' + by); } }; // SVC601
app.get('/c', { store: Depends(db) }, ({ store, query }) => service.find(store, { ...query }));
const settings = provide({ store: Depends(db) }, async ({ store, req }) => { const lang = req.cookies.get('lang') ?? 'en'; return { lang, store }; });
app.get('/d', { s: Depends(settings) }, async ({ s }) => fs.createReadStream(join('lang', s.lang + '.json'))); // SVC606
app.post('/e', {}, async ({ req }) => { const { name } = await req.json(); exec(\`git clone \${name}\`); }); // SVC602
app.post('/f', {}, async ({ req }) => { for await (const part of req.parts()) fs.writeFileSync(join('up', part.filename), 'x'); }); // SVC606
function* names(list: string[]) { for (const one of list) yield 'dir/' + one; }
app.get('/g', {}, async ({ query }) => { for (const n of names(query.n.split(','))) await readFile(n); }); // SVC606
app.get('/h', {}, async ({ query }) => { const handlers: Record<string, () => unknown> = { a: () => readFile('x/' + query.f) }; return handlers['a'](); }); // SVC606
app.get('/i', {}, async ({ query }) => { try { decode(query.f); } catch { return 'x'; } return await readFile('x/' + query.f); }); // SVC606
function decode(text: string) { return decodeURIComponent(text); }
app.get('/j', { store: Depends(db) }, async ({ store, query }) => { await store.transaction(async (tx) => { const s = \`insert into a values ('\${query.v}')\`; await tx.execute(s); }); }); // SVC601
app.get('/k', {}, async ({ query }) => { const f = query.f; setTimeout(() => { fs.unlink('x/' + f, () => {}); }, 10); }); // SVC606
app.get('/l', {}, async ({ query }) => await Promise.all(query.ids.map((id: string) => readFile('x/' + id)))); // SVC606
app.get('/m', {}, async ({ query }) => { const box = { path: '' }; box.path = query.p; await readFile(box.path); }); // SVC606
app.get('/n', {}, async ({ query }) => { let to = '/'; if (query.next) { to = query.next; } return new RedirectResponse(to); }); // SVC605
app.get('/o', {}, async ({ query }) => { const html = ['<ul>']; for (const i of query.i) html.push('<li>' + i + '</li>'); return new HTMLResponse(html.join('')); }); // SVC608
app.get('/p', { store: Depends(db) }, async ({ store, query }) => { const q = new Query(); q.where(\`t = '\${query.t}'\`); return store.fetchAll(q.text); }); // SVC601
`,
  },
  'dependencies, middleware, sockets, tools and background tasks': {
    'app.ts': `import { BackgroundTasks, Depends, Router, Svc, provide } from 'svc';
import { db, openDatabase } from 'svc/db';
import { readFile } from 'node:fs/promises';
const tenant = provide({}, ({ req }) => req.headers['x-tenant']);
const known = provide({}, ({ req }) => (TENANTS.has(req.headers['x-tenant']) ? req.headers['x-tenant'] : 'none'));
const TENANTS = new Set(['a']);
class Audit { async handle(req, next) { await readFile('log/' + req.query.get('file')); return await next(); } } // SVC606
export const app = new Svc();
app.use(new Audit());
app.get('/a', { tenant: Depends(tenant) }, ({ tenant }) => readFile('tenants/' + tenant)); // SVC606
app.get('/b', { tenant: Depends(known) }, ({ tenant }) => readFile('tenants/' + tenant));
app.websocket('/c').onMessage(async (socket, message) => { await readFile('files/' + message.name); }); // SVC606
app.tool('d', { args: {} }, async ({ args }) => await readFile('files/' + args.name)); // SVC606
async function store(name) { await readFile('files/' + name); } // SVC606
app.post('/e', { tasks: Depends(BackgroundTasks) }, ({ tasks, body }) => { tasks.add(store, body.name); });
const router = new Router({ deps: { link: Depends(db) } });
router.get('/f', {}, async ({ link, query }) => await link.transaction(async (tx) => { await tx.execute('truncate ' + query.table); })); // SVC601
app.includeRouter(router);
const own = openDatabase('sqlite:a.db');
app.get('/g', {}, async ({ query }) => await own.execute(query.statement)); // SVC601
app.exceptionHandler(Error, (error, { req }) => readFile(req.query.get('page'))); // SVC606
`,
  },
  'declared inputs: numbers, words, patterns and paths': {
    'app.ts': `import { Depends, Field, FileResponse, Schema, Svc, int, list, literal, nullable, str, uuid } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
const Sort = literal('id', 'name');
class Page extends Schema {
  page = Field(int, { description: 'Page' });
  sort = Field(Sort);
  name = Field(str, { pattern: /^[\\w-]+$/ });
  free = Field(str, { description: 'Invoice number', maxLength: 20 });
  ids = Field(list(uuid));
  maybe = Field(nullable(int));
}
app.get('/a/{id:int}/{name}', { db: Depends(db), query: Page }, async ({ params, query, db }) => {
  await db.fetchAll(\`select * from a where id = \${params.id} and p = \${query.page} order by \${query.sort}\`);
  await db.fetchAll(\`select * from a where id in (\${query.ids.map((id) => \`'\${id}'\`).join(',')}) and m = \${query.maybe}\`);
  await db.fetchAll(\`select * from a where name = '\${query.name}'\`);
  await db.fetchAll(\`select * from a where name = '\${query.free}'\`); // SVC601
  await db.fetchAll(\`select * from a where name = '\${params.name}'\`); // SVC601
});
`,
  },
  'names that every object has, and patterns that the analysis does not know': handler(`
  await readFile('files/' + constructor(query.a) + toString(query.b) + req.toString() + req.constructor('x'));
  if (!/^[[a-z]--[aeiou]]+$/v.test(query.c)) throw new BadRequest();
  if (!/^(?<=x)y\\p{L}$/u.test(query.d)) throw new BadRequest();
  await readFile('files/' + query.d.replace(/[^\\p{L}]/gu, ''));
  await readFile('files/' + query.hasOwnProperty); // SVC606`),
  'a function of a package with unknown effect makes a note': handler(
    `
  await readFile('files/' + tidy(query.a)); // note SVC606
  await readFile('files/' + tidy(query.b) + query.b); // SVC606
  await readFile('files/' + clean(query.c));`,
    "import { tidy } from 'tidy-names';\nimport clean from 'sanitize-filename';",
  ),
  'a column as an argument is a note unless a statement writes a text of a client to it': {
    'app.ts': `import { Depends, Field, Schema, Svc, int, str } from 'svc';
import { db as database } from 'svc/db';
import { execFile } from 'node:child_process';
export const app = new Svc();
class Scan extends Schema { path = Field(str); }
class Photo extends Schema { label = Field(str); size = Field(str); }
class Upload extends Schema { label = Field(str); size = Field(int); }
app.post('/photos', { store: Depends(database), body: Upload }, async ({ store, body }) => {
  await store.execute('insert into photo (label, size) values (?, ?)', [body.label, body.size]);
});
app.get('/scans/{id}', { store: Depends(database) }, async ({ store, params }) => {
  const scan = await store.fetchOne('select path from scan where id = ?', [params.id], { as: Scan });
  if (scan !== undefined) execFile('tiffinfo', [scan.path]); // note SVC602
});
app.get('/photos/{id}', { store: Depends(database) }, async ({ store, params }) => {
  const photo = await store.fetchOne('select label, size from photo where id = ?', [params.id], { as: Photo });
  if (photo === undefined) return;
  execFile('banner', [photo.label]); // SVC602
  execFile('banner', ['-w', photo.size]); // note SVC602
});
`,
  },
};
