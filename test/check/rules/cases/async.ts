/** Applications with and without the mistakes of SVC611 … SVC614, SVC634, SVC635 and SVC501. */
export const ASYNC: Readonly<Record<string, string>> = {
  'promises that are not awaited': `
import { db as database } from 'svc/db';
import { checkPassword, hashPassword, Depends, RateLimiter, Svc, Unauthorized } from 'svc';
const app = new Svc();
const limiter = new RateLimiter({ perMinute: 5 });
app.post('/login', { db: Depends(database) }, async ({ form, db }) => { // SVC204
  if (!checkPassword(form.password, stored)) throw new Unauthorized(); // SVC611
  if (stored !== '' && checkPassword(form.password, stored)) return 'in'; // SVC611
  const isRight = checkPassword(form.password, stored); // SVC611
  if (!isRight) throw new Unauthorized();
  db.execute('update users set seen = ?', [now]); // SVC611
  const user = db.fetchOne('select * from users where name = ?', [form.name]); // SVC611
  if (user === undefined) throw new Unauthorized();
  const { id } = db.fetchOne('select id from users'); // SVC611
  return user.name + id;
});
app.post('/limited', {}, ({ req }) => { limiter.take(req); return 'x'; }); // SVC611
app.get('/mine', {}, async ({ me }) => { if (isAllowed(me)) return 1; return 2; }); // SVC611
async function isAllowed(me) { return await load(me); }
app.post('/sign-up', { db: Depends(database) }, async ({ form, db }) => {
  const hash = hashPassword(form.password); // SVC611
  await db.execute('insert into users (hash) values (?)', [hash.toString()]);
});
`,
  'promises that are awaited': `
import { db as database } from 'svc/db';
const app = new Svc();
export function stores(db) {
  const transaction = db.transaction(['files'], 'readonly');
  transaction.onerror = () => {};
}
import { checkPassword, Depends, Svc, Unauthorized, reply } from 'svc';
app.post('/login', { db: Depends(database) }, async ({ form, db }) => { // SVC204
  if (!(await checkPassword(form.password, stored))) throw new Unauthorized();
  const isRight = await checkPassword(form.password, stored);
  const text = await new Promise((resolve) => { process.stdin.once('data', (data) => { resolve(String(data)); }); });
  const lines = text.split('\\n').map((line) => line.trim());
  const pending = db.fetchOne('select * from users');
  const other = db.fetchAll('select * from groups');
  const [user, groups] = await Promise.all([pending, other]);
  void db.execute('update users set seen = 1'); // SVC611
  db.execute('update users set seen = 1').catch(() => undefined);
  await limiter.take(req);
  const later = db.fetchOne('select 1');
  const row = await later;
  if (row === undefined) return reply(undefined, 404);
  return db.fetchAll('select 1');
});
app.get('/all', { db: Depends(database) }, ({ db }) => db.fetchAll('select 1'));
const load = (db) => db.fetchAll('select 1');
`,
  'asynchronous functions in methods of lists': `
import { db as database } from 'svc/db';
import { Depends, Svc } from 'svc';
const app = new Svc();
const ITEMS = ['a', 'b'];
app.post('/all', { db: Depends(database) }, async ({ db }) => {
  ITEMS.forEach(async (item) => { await db.execute('insert into t values (?)', [item]); }); // SVC612
  ITEMS.forEach(async (item) => { try { await save(item); } catch (error) { log.error(error); } });
  const known = ITEMS.filter(async (item) => (await db.scalar('select 1')) === 1); // SVC612
  if (ITEMS.some(isKnown)) return known; // SVC612
  await Promise.all(ITEMS.map(async (item) => { await db.execute('insert into t values (?)', [item]); }));
  for (const item of ITEMS) await db.execute('insert into t values (?)', [item]);
  ITEMS.forEach((item) => seen.add(item));
  await cursor.forEach(async (item) => { await db.execute('insert into t values (?)', [item]); });
});
async function isKnown(item) { return await lookUp(item); }
`,
  'requests to other servers by a client named request': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/hook', {}, ({ body }) => {
  this.request.json('https://hooks.example/', body, (error) => { if (error) log.error(error); });
});
`,
  'transactions of a synchronous database': `
export const add = (db, note) => db.transaction(() => { write(db, note); });
const write = (db, note) => db.run('insert into t values (?)', note);
`,
  'functions that another function wraps': `
import { Svc } from 'svc';
import { openDatabase } from 'svc/db';
const db = await openDatabase('sqlite:notes.db');
const app = new Svc();
const loadStep = createStep('load', async (id) => await db.fetchOne('select * from t where id = ?', [id]));
app.get('/a', {}, ({ params }) => {
  const note = loadStep(params.id);
  return note.title;
});
`,
  'streams that are piped': `
import { Readable } from 'node:stream';
import { createReadStream, createWriteStream } from 'node:fs';
import { createGzip } from 'node:zlib';
import { pipeline, finished } from 'node:stream/promises';
export async function pack(file) {
  createReadStream(file).pipe(createGzip()); // SVC613
  const source = createReadStream(file);
  source.pipe(createWriteStream('out')); // SVC613
}
export const sendText = (text, res) => Readable.from(Buffer.from(text)).pipe(res);
export async function packRight(file) {
  await pipeline(createReadStream(file), createGzip(), createWriteStream('out'));
}
export function packToo(file, fail) {
  const source = createReadStream(file);
  source.on('error', fail);
  source.pipe(createGzip());
}
export async function packAgain(file) {
  await finished(createReadStream(file).pipe(createGzip()));
}
export function packLater(source) {
  const target = createWriteStream('out');
  source.pipe(target);
  return target;
}
export const schema = z.string().pipe(z.coerce.number());
`,
  'the database beside its transaction': `
import { db as database, openDatabase } from 'svc/db';
import { Depends, Svc } from 'svc';
const app = new Svc();
app.post('/move', { db: Depends(database) }, async ({ db, body }) => {
  await db.transaction(async (tx) => {
    await tx.execute('update a set x = 1');
    await db.execute('update b set x = 1'); // SVC614
  });
  await db.transaction(async (tx) => { await tx.execute('update a set x = 1'); });
  await db.execute('update c set x = 1');
});
export const run = (service) => service.transaction(async () => await start(service));
async function start(service) { return await service.load(); }
class Store {
  #db;
  constructor(db) { this.#db = db; }
  move() {
    return this.#db.transaction(async () => {
      await this.#db.execute('update a set x = 1'); // SVC614
    });
  }
}
export const store = new Store(await openDatabase('sqlite:notes.db'));
`,
  'bodies that are collected': `
import { Svc, PayloadTooLarge, file } from 'svc';
import zlib from 'node:zlib';
const app = new Svc();
app.post('/raw', {}, async ({ req }) => {
  const chunks = [];
  for await (const chunk of req.stream()) chunks.push(chunk); // SVC634
  return Buffer.concat(chunks).length;
});
app.post('/limited', {}, async ({ req }) => {
  const chunks = [];
  let length = 0;
  for await (const chunk of req.stream()) {
    length += chunk.length;
    if (length > 1_000_000) throw new PayloadTooLarge();
    chunks.push(chunk);
  }
  for await (const chunk of req.stream({ maxBytes: 1_000_000 })) chunks.push(chunk);
});
app.post('/packed', {}, async ({ req }) => {
  const packed = await req.body({ maxBytes: 1_000_000 });
  return zlib.unzipSync(packed).length + zlib.unzipSync(packed, { maxOutputLength: 1_000_000 }).length; // SVC634
});
app.post('/text', {}, async ({ req }) => {
  let body = '';
  for await (const chunk of req.stream()) body += chunk; // SVC634
  let size = 0;
  for await (const chunk of req.stream()) { size += chunk.length; file.write(chunk); }
  return [size, body];
});
`,
  'calls of other services': `
import { Svc } from 'svc';
import { ratesOf } from './rates.js';
import axios from 'axios';
const app = new Svc();
app.get('/again', {}, async ({ request }) => await axios({ ...request.options, url: 'https://rates.example/eur' }));
app.get('/rate', {}, async () => (await fetch('https://rates.example/eur')).json()); // SVC635
app.get('/post', {}, async () => (await fetch('https://rates.example/eur', { method: 'POST' })).json()); // SVC635
app.get('/limited', {}, async ({ signal }) => (await fetch('https://rates.example/eur', { signal })).json());
app.get('/sent', {}, async () => await axios.post('https://rates.example/eur', { sum: 1 }, { timeout: 5_000 }));
app.get('/helper', {}, async () => await load('eur'));
async function load(name) {
  const answer = await fetch(\`https://rates.example/\${name}\`); // SVC635
  return await answer.json();
}
const first = await fetch('https://rates.example/first');
app.get('/own', {}, async () => {
  const fetch = async () => await rates.load();
  return await fetch();
});
`,
  'blocking calls in helpers, classes and other modules': `
// FILE app.ts
import { Svc } from 'svc';
import { readFileSync } from 'node:fs';
import { render } from './render.ts';
import { Store } from './store.ts';
const app = new Svc();
const store = new Store();
const start = readFileSync('start.txt', 'utf8');
app.get('/a', {}, () => render('a'));
app.get('/b', {}, () => store.loadPage('b'));
app.onStartup(() => { readFileSync('warm.txt'); });
// FILE render.ts
import { readFileSync } from 'node:fs';
let cached: string | undefined;
export function render(name: string): string {
  return readFileSync(name, 'utf8') + footer(); // SVC501
}
function footer(): string {
  if (cached === undefined) cached = readFileSync('footer', 'utf8');
  return cached;
}
export function unused(): string { return readFileSync('x', 'utf8'); }
// FILE store.ts
import { readFileSync } from 'node:fs';
export class Store {
  loadPage(name: string): string {
    return this.#read(name);
  }
  #read(name: string): string {
    return readFileSync(name, 'utf8'); // SVC501
  }
}
`,
  'background work that catches what fails': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/a', async (req, res) => {
  notify(req.body);
  notifyAll(req.body);
  refresh(req.body);
  show(req.body, console.log);
  notifyOrFail(req.body); // SVC611
  res.sendStatus(202);
});
async function download(data) {
  try { await load(data.url); } catch (error) { console.log(error); }
}
async function notify(data) {
  if (data.isLarge) await download(data);
  try { await send(data); } catch (error) { console.log(error); }
}
async function show(data, next) {
  try { await send(data); } catch (error) { return next(error); }
}
const notifyAll = async (data) => await Promise.allSettled(data.map(notify));
const refresh = async (data) => { await load(data).catch((error) => console.log(error)); };
async function notifyOrFail(data) {
  try { await send(data); } catch (error) { throw new Error('not sent', { cause: error }); }
}
`,
  'databases without promises': `
import Database from 'better-sqlite3';
import { Svc } from 'svc';
const app = new Svc();
const db = new Database('notes.db');
app.post('/a', (req, res) => {
  db.transaction(() => { insert.run(req.body.name); });
  res.sendStatus(204);
});
`,
  'answers of other servers that are collected': `
import https from 'node:https';
export function load(address, done) {
  const req = client.request({ ':path': '/' });
  let text = '';
  req.on('data', (chunk) => { text += chunk; });
  https.get(address, (req) => { // SVC613
    let body = '';
    req.on('data', (chunk) => { body += chunk; });
    req.on('end', () => done(body));
  });
}
`,
  'promises of callbacks in another function': `
// FILE app.ts
import { Svc } from 'svc';
import { db } from 'svc/db';
import { Gate } from './gate.ts';
const app = new Svc();
const gate = new Gate();
const store = async (row) => {
  await db.execute('insert into a values (?)', [row]);
};
app.post('/a', {}, async ({ body }) => {
  body.rows.forEach(store); // SVC612
  body.rows.forEach((row) => store(row)); // SVC612 SVC637
  body.rows.forEach(count);
  for (const row of body.rows) await store(row);
  await Promise.all(body.rows.map(store));
  return gate.open(body.rows);
});
function count(row) {
  return row.length;
}
// FILE gate.ts
import { db } from 'svc/db';
export class Gate {
  open(rows) {
    if (rows.every(this.isOpen)) return []; // SVC612
    return rows.some((row) => this.isOpen(row)) ? [] : rows.filter((row) => this.isShort(row)); // SVC612
  }
  async isOpen(row) {
    return (await db.scalar('select 1 from a where b = ?', [row])) === 1;
  }
  isShort(row) {
    return row.length < 3;
  }
}
`,
  'statements of another object beside a transaction': `
// FILE app.ts
import { Depends, Svc, provide } from 'svc';
import { db } from 'svc/db';
import { Journal } from './journal.ts';
import { Orders } from './orders.ts';
export const app: Svc = new Svc();
const orders = provide({ base: Depends(db) }, ({ base }) => new Orders(base, new Journal(base)));
app.post('/orders', { orders: Depends(orders) }, async ({ orders }) => { await orders.place(); await orders.later(); });
// FILE journal.ts
import type { Database, Transaction } from 'svc/db';
export class Journal {
  readonly #base: Database;
  constructor(base: Database) { this.#base = base; }
  async write(text: string): Promise<void> { await this.#base.execute('insert into journal (text) values (?)', [text]); }
  async writeIn(tx: Transaction, text: string): Promise<void> { await tx.execute('insert into journal (text) values (?)', [text]); }
  async writeWith(given: Database | undefined, text: string): Promise<void> {
    await (given ?? this.#base).execute('insert into journal (text) values (?)', [text]);
  }
}
// FILE orders.ts
import type { Database } from 'svc/db';
import type { Journal } from './journal.ts';
export class Orders {
  readonly #base: Database;
  readonly #journal: Journal;
  readonly #after: (() => Promise<void>)[] = [];
  constructor(base: Database, journal: Journal) { this.#base = base; this.#journal = journal; }
  async #note(): Promise<void> { await this.#journal.write('noted'); }
  async place(): Promise<void> {
    await this.#journal.write('before');
    await this.#base.transaction(async (tx) => {
      await tx.execute('insert into orders (id) values (1)');
      await this.#journal.write('placed'); // SVC614
      await this.#note(); // SVC614
      await this.#journal.writeIn(tx, 'placed');
      await this.#journal.writeWith(tx, 'placed');
      this.#after.push(() => this.#journal.write('after'));
    });
    await this.#journal.write('done');
  }
  async later(): Promise<void> {
    for (const work of this.#after) await work();
  }
}
`,
  'callbacks of timers': `
import { openDatabase } from 'svc/db';
import { setInterval as every } from 'node:timers';
import { setTimeout as pause } from 'node:timers/promises';
import { Svc } from 'svc';
const db = await openDatabase('sqlite:notes.db');
const app = new Svc();
const clean = async () => { await db.execute('delete from drafts'); };
const careful = async () => { try { await clean(); } catch (error) { app.log.error('clean_up_failed', error); } };
class Poll {
  start() {
    this.first = setTimeout(() => this.read(), 10).unref(); // SVC611
    this.timer = setInterval(async () => { await this.read(); }, 1_000); // SVC611
    this.next = setInterval(() => { this.read(); }, 1_000); // SVC611
    this.quiet = setInterval(() => this.read().catch((error) => app.log.error('poll_failed', error)), 1_000);
  }
  async read() { await db.execute('delete from polls'); }
}
async function again() {
  try { await clean(); } catch (error) { app.log.error('again_failed', error); }
  setTimeout(again, 1_000);
}
async function round() { await careful(); setTimeout(() => round(), 1_000); }
app.onStartup(() => {
  new Poll().start();
  every(clean, 60_000); // SVC611
  setInterval(careful, 60_000);
  setImmediate(() => void careful());
  setTimeout(() => { app.log.info('up'); }, 10);
  return Promise.all([again(), round(), pause(10)]);
});
`,
  'promises that are kept after they failed': `
// FILE app.ts
import { Depends, Svc, provide } from 'svc';
import { Careful, Rates, Renewed, makeRates } from './rates.ts';
export const app: Svc = new Svc();
const rates = new Rates('https://rates.example');
const made = makeRates();
const careful = new Careful();
const renewed = new Renewed();
let list: Promise<unknown> | undefined;
let started: Promise<void> | undefined;
const start = async (): Promise<void> => { await rates.all(); };
const perRequest = provide({}, () => new Rates('https://other.example'));
app.get('/rates', { own: Depends(perRequest) }, async ({ own }) => {
  if (!started) started = start(); // SVC611
  list ??= rates.all().catch(() => []);
  return [await list, await rates.all(), await made.all(), await careful.all(), await own.all(), await renewed.all()];
});
// FILE rates.ts
export class Rates {
  readonly #url: string;
  #all: Promise<unknown> | undefined;
  constructor(url: string) { this.#url = url; }
  all(): Promise<unknown> { return (this.#all ??= this.#load()); } // SVC611
  async #load(): Promise<unknown> {
    const response = await fetch(this.#url, { signal: AbortSignal.timeout(1_000) });
    return await response.json();
  }
}
export const makeRates = (): Rates => new Rates('https://more.example');
export class Careful {
  #all: Promise<unknown> | undefined;
  all(): Promise<unknown> {
    this.#all ??= new Rates('https://a.example').all().finally(() => { this.#all = undefined; });
    return this.#all;
  }
}
export class Renewed {
  #all: Promise<unknown> | undefined;
  async all(): Promise<unknown> {
    try { return await (this.#all ??= new Rates('https://b.example').all()); }
    catch (error) { this.#all = undefined; throw error; }
  }
}
`,
  'promises that one request keeps for itself': `
// FILE app.ts
import { Depends, Svc, provide } from 'svc';
export const app: Svc = new Svc();
class User {
  #rights: Promise<unknown> | undefined;
  rights(): Promise<unknown> { return (this.#rights ??= this.#load()); }
  async #load(): Promise<unknown> {
    const response = await fetch('https://rights.example', { signal: AbortSignal.timeout(1_000) });
    return await response.json();
  }
}
const user = provide({}, () => new User());
app.get('/rights', { user: Depends(user) }, async ({ user }) => [await user.rights(), await new User().rights()]);
`,
  'right: pipe() of the project that waits for the end': `
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { Svc } from 'svc';
class Archive {
  async pipe(out) {
    const failed = once(out, 'error').then(([error]) => { throw error; });
    const written = (async () => { for await (const chunk of createReadStream('a')) out.write(chunk); out.end(); await once(out, 'finish'); })();
    await Promise.race([failed, written]);
  }
}
export const app = new Svc();
app.post('/a', { public: 'x' }, async () => { await new Archive().pipe(createWriteStream('z')); });
`,
};
