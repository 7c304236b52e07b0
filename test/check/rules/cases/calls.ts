/** Applications with and without mistakes in calls of Node.js and of this package (SVC206, SVC207, SVC628 … SVC639). */
export const CALLS: Readonly<Record<string, string>> = {
  'origins that a reply repeats': `
import { Svc, reply } from 'svc';
const SHOPS = new Set(['https://a.example']);
const app = new Svc();
class Open {
  async handle(incoming, next) {
    const answer = await next();
    answer.headers.set('access-control-allow-credentials', 'true');
    answer.headers.set('access-control-allow-origin', incoming.headers.origin ?? 'null'); // SVC206
    return answer;
  }
}
app.use(new Open());
app.get('/direct', {}, ({ req: asked }) =>
  reply({}, 200, { 'Access-Control-Allow-Origin': asked.headers['origin'] }), // SVC206
);
app.get('/known', {}, ({ req }) => {
  const { origin } = req.headers;
  return SHOPS.has(origin) ? reply({}, 200, { 'Access-Control-Allow-Origin': origin }) : reply({});
});
const ENDS = ['.a.example', '.b.example'];
app.get('/end', {}, ({ req }) => {
  const { origin } = req.headers;
  if (!ENDS.some((end) => origin.endsWith(end))) return reply({});
  return reply({}, 200, { 'Access-Control-Allow-Origin': origin });
});
app.get('/pattern', {}, ({ req }) => {
  const { origin } = req.headers;
  if (!/^https:\\/\\/\\w+\\.a\\.example$/.test(origin)) return reply({});
  return reply({}, 200, { 'Access-Control-Allow-Origin': origin });
});
app.get('/fixed', {}, () => reply({}, 200, { 'Access-Control-Allow-Origin': 'https://a.example' }));
`,
  'origins by a pattern': `
import { CORSMiddleware, Svc } from 'svc';
const BRANDS = ['shop', 'outlet'];
const open = new RegExp(\`^https://(?:\${BRANDS.join('|')})\\.a\\.example\`); // SVC206
const closed = /^https:\\/\\/\\w+\\.a\\.example$/;
const app = new Svc();
app.use(new CORSMiddleware({ origins: (origin) => open.test(origin) || closed.test(origin) }));
app.get('/', {}, ({ query }) => /^https/.test(query.site));
`,
  'redirects of a compared host': `
import { BadRequest, Svc } from 'svc';
const HOSTS = new Set(['a.example', 'b.example']);
const app = new Svc();
const admitted = (text) => {
  const url = new URL(text);
  if (!HOSTS.has(url.host)) throw new BadRequest();
  return url;
};
app.post('/a', {}, ({ req, body }) => fetch(admitted(body.url), { signal: req.signal })); // SVC607
app.post('/b', {}, ({ req, body }) => fetch(admitted(body.url), { signal: req.signal, redirect: 'error' }));
`,
  'cells that may be numbers': `
import { Field, HttpResponse, Svc, str } from 'svc';
const app = new Svc();
const cell = (value) => (typeof value === 'string' && /^[=+@-]/.test(value) ? \`'\${value}\` : String(value));
const csv = (text) => new HttpResponse(text, { headers: { 'Content-Type': 'text/csv' } });
app.get('/', { query: { name: Field(str) } }, ({ query }) => csv(\`1,\${cell(query.name)}\`));
`,
  'patterns of quadratic time': `
import { Field, Svc, str } from 'svc';
const EDGES = /\\s+$/; // SVC636
const app = new Svc();
app.post('/', { body: { text: Field(str, { maxLength: 200_000 }), title: Field(str, { maxLength: 90 }) } }, ({ body }) => [
  body.text.replace(EDGES, ''),
  body.title.replace(/\\s+$/, ''),
]);
`,
  'origins that a reply repeats without credentials': `
import { Svc, reply } from 'svc';
const app = new Svc();
app.get('/', {}, ({ req }) => reply({}, 200, { 'Access-Control-Allow-Origin': req.headers.origin }));
`,
  'cookies in headers': `
import { APIKeyAuth, Svc, reply } from 'svc';
import * as random from 'node:crypto';
const app = new Svc();
const kiosk = APIKeyAuth({ cookie: 'kiosk', verify });
const cookieOf = (key, value, rest = '') => key + '=' + value + '; Path=/' + rest;
app.post('/a', {}, () => reply({}, 200, { 'Set-Cookie': cookieOf('visit', random.randomUUID()) })); // SVC207
app.post('/b', {}, async () => reply({}, 200, { 'Set-Cookie': cookieOf('kiosk', await keyOf()) })); // SVC207
app.post('/c', {}, () => reply({}, 200, { 'Set-Cookie': cookieOf('x', random.randomUUID(), '; HttpOnly; Secure') }));
app.post('/d', {}, ({ query }) => reply({}, 200, { 'Set-Cookie': cookieOf('colour', encodeURIComponent(query.colour)) }));
app.post('/e', {}, () => reply({}, 200, { 'Set-Cookie': 'kiosk=; Path=/; Max-Age=0' }));
app.post('/f', {}, () => reply({}, 200, { 'Set-Cookie': cookieOf('twice', random.randomUUID(), '; Secure') }));
`,
  'initialisation vectors': `
import { Svc } from 'svc';
import { createCipheriv as encrypt, randomBytes, randomFillSync } from 'node:crypto';
const app = new Svc();
const ZEROS = Buffer.alloc(12);
const WORD = '0123456789abcdef';
const cipherOf = (key, start) => encrypt('aes-256-cbc', key, start); // SVC628
export const seal = (key) => cipherOf(key, WORD);
export const box = (key) => encrypt('aes-256-gcm', key, ZEROS); // SVC628
export const bytes = (key) => encrypt('aes-256-gcm', key, Buffer.from('a constant of 16')); // SVC628
export const fresh = (key) => encrypt('aes-256-gcm', key, randomBytes(12));
export const once = () => encrypt('aes-256-gcm', randomBytes(32), ZEROS);
export const wrapped = (key) => encrypt('id-aes256-wrap', key, Buffer.from('A6A6A6A6A6A6A6A6', 'hex'));
export function filled(key) {
  const start = Buffer.alloc(12);
  randomFillSync(start);
  return encrypt('aes-256-gcm', key, start);
}
export function counted(key, count) {
  const start = Buffer.alloc(12);
  start.writeUInt32BE(count);
  return encrypt('aes-256-gcm', key, start);
}
app.get('/', {}, () => [seal(KEY), box(KEY), bytes(KEY), fresh(KEY), once(), wrapped(KEY), filled(KEY), counted(KEY, next())]);
`,
  'connections without a check of the certificate': `
import { Svc } from 'svc';
import https from 'node:https';
import { connect } from 'node:tls';
import pg from 'pg';
const app = new Svc();
const relaxed = { rejectUnauthorized: false };
const pool = new pg.Pool({ ssl: relaxed }); // SVC629
const dial = (port, more) => connect({ port, ...more }); // SVC629
app.get('/a', {}, () => dial(443, relaxed));
app.get('/b', {}, () => https.get('https://b.example', { timeout: 9, rejectUnauthorized: false })); // SVC629
app.get('/c', {}, () => https.get('https://b.example', { timeout: 9, rejectUnauthorized: true, ca }));
app.get('/d', {}, () => validate({ rejectUnauthorized: false }));
`,
  'replies of guarded routes in caches': `
import { Depends, JSONResponse, Router, requireSession } from 'svc';
const router = new Router({ deps: { me: Depends(requireSession(user)) } });
const FIVE = { 'cache-control': 's-maxage=300' };
router.get('/a', {}, () => new JSONResponse({}, { headers: FIVE })); // SVC638
router.get('/b', {}, () => new JSONResponse({}, { headers: { 'Cache-Control': 'private, max-age=3' } }));
router.get('/c', {}, ({ me }) => {
  const page = new JSONResponse({ me });
  page.headers.set('Cache-Control', 'max-age=60, public'); // SVC638
  return page;
});
const open = new Router();
open.get('/d', {}, () => new JSONResponse({}, { headers: FIVE }));
`,
  'links for the host of a request': `
import { Depends, Svc, createToken } from 'svc';
import { randomBytes } from 'node:crypto';
const app = new Svc();
const BASE = 'https://shop.example';
const keyOf = () => randomBytes(20).toString('hex');
app.post('/a', {}, async ({ req, body }) => {
  const { host } = req;
  await mail.send(body.email, 'https://' + host + '/confirm/' + keyOf()); // SVC639
});
app.post('/b', {}, async ({ req, body }) => {
  const { origin } = req.url;
  await mail.send({ to: body.email, text: \`\${origin}?key=\${createToken(body.email, KEY)}\` }); // SVC639
});
app.post('/c', {}, ({ body }) => mail.send(body.email, BASE + '/confirm/' + keyOf()));
app.get('/d', {}, ({ req }) => audit.write('https://' + req.host + '/d'));
app.get('/f', {}, ({ req }) => app.log.info(\`\${req.host} \${keyOf()}\`));
app.get('/e', {}, ({ req }) => audit.write({ host: req.host, key: keyOf() }));
`,
  'values that replies reveal': `
// FILE app.ts
import { Depends, JSONResponse, Svc, reply } from 'svc';
import { db } from 'svc/db';
import { env } from 'node:process';
import { Users } from './users.ts';
const app = new Svc();
const surroundings = () => ({ variables: env }); // SVC626
app.get('/a', {}, () => reply({ ok: true, ...surroundings() }));
app.get('/b', {}, () => ({ region: env.REGION, names: Object.keys(env) }));
app.get('/c', {}, async () => {
  try {
    return await work();
  } catch (problem) {
    const lines = problem.stack.split('\\n');
    return new JSONResponse({ lines }, { status: 500 }); // SVC626
  }
});
app.get('/d', { db: Depends(db) }, async ({ db: store }) => ({ all: await new Users(store).all() }));
app.get('/e', { db: Depends(db) }, async ({ db: store }) => (await new Users(store).named()).map(({ name }) => ({ name })));
app.get('/f', { db: Depends(db), response: User }, async ({ db: store }) => new Users(store).named());
app.get('/g', { db: Depends(db) }, async ({ db: store }) => {
  const { password_hash, ...rest } = await new Users(store).named();
  return rest;
});
app.get('/i', { db: Depends(db) }, async ({ db: store }) => {
  const one = await new Users(store).named();
  return { ...one, password_hash: undefined };
});
app.get('/j', { db: Depends(db) }, async ({ db: store }) => {
  const one = await new Users(store).named();
  delete one.password_hash;
  return one;
});
app.get('/h', { db: Depends(db) }, async ({ db: store }) => new Users(store).checked());
// FILE users.ts
const COLUMNS = 'create table users (name text, password_hash text)';
export class Users {
  constructor(store) {
    this.store = store;
  }
  all() {
    return this.store.fetchAll('select * from users'); // SVC626
  }
  named() {
    return this.store.fetchOne('select * from users where name = ?', ['a']);
  }
  checked() {
    return this.store.fetchAll('select * from users', [], { as: User });
  }
}
`,
  'rows with a secret column that a migration makes': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
app.get('/a', { public: 'a', db: Depends(db) }, ({ db }) => db.fetchAll('select * from member')); // SVC626
app.get('/b', { public: 'b', db: Depends(db) }, ({ db }) => db.fetchAll('select name from member'));
app.get('/c', { public: 'c', db: Depends(db) }, ({ db }) => db.fetchAll('select * from note'));
app.get('/d', { public: 'd', db: Depends(db), response: Member }, ({ db }) => db.fetchAll('select * from member'));
// FILE migrations/0001_member.up.sql
create table member (name text, password_hash text);
create table note (title text);
`,
  'messages of errors in responses': `
// FILE app.ts
import { BadRequest, Depends, JSONResponse, NDJSONResponse, Svc, ValidationError, reply } from 'svc';
import { db } from 'svc/db';
import { readFile } from 'node:fs/promises';
import { onError, save, textOf } from './errors.ts';
const app = new Svc();
app.exceptionHandler(Error, (err) => new JSONResponse(err.message, { status: 500 })); // SVC305 SVC626
app.exceptionHandler(Error, onError); // SVC305
app.exceptionHandler(ValidationError, (err) => [{ error: err.message }, 422]); // SVC305
app.post('/a', { public: 'a', db: Depends(db) }, async ({ db }) => {
  try {
    await db.execute('delete from notes');
    return { ok: true };
  } catch (err) {
    return reply({ error: err instanceof Error ? err.message : 'unknown' }, 500); // SVC626
  }
});
app.post('/b', { public: 'b', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch ({ message }) { // SVC626
    return [{ message }, 400];
  }
});
app.post('/c', { public: 'c', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (err) {
    throw new BadRequest((err as Error).message); // SVC626
  }
});
app.get('/d', { public: 'd' }, async () => {
  try {
    return { text: await readFile('/srv/motd', 'utf8') };
  } catch (problem) {
    return reply({ errors: [textOf(problem)] }, 500); // SVC626
  }
});
app.post('/e', { public: 'e', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (problem) {
    if (problem instanceof TypeError) return reply({ error: 'type' }, 400);
    return reply({ error: 'Failed: ' + problem.message }, 500); // SVC626
  }
});
app.post('/f', { public: 'f', db: Depends(db) }, ({ db }) =>
  db.execute('delete from notes').catch((err) => reply({ error: err.message }, 500))); // SVC626
app.post('/g', { public: 'g', db: Depends(db) }, ({ db }) =>
  save(db).then((done) => done, (err) => reply({ error: \`Failed: \${err}\` }, 500))); // SVC626
app.post('/h', { public: 'h', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (err) {
    return reply({ error: String(err) }, 500); // SVC626
  }
});
app.post('/k', { public: 'k', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (err) {
    return new NDJSONResponse([{ error: (err as Error).message }]); // SVC626
  }
});
app.post('/i', { public: 'i', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db).catch((err) => {
      console.error(err);
      throw err;
    });
  } catch (err) {
    return reply({ error: err.toString() }, 500); // SVC626
  }
});
// FILE errors.ts
import type { Database } from 'svc/db';
import { JSONResponse } from 'svc';
export const textOf = (err: unknown) => err instanceof Error ? err.message : String(err);
export function onError(err: Error) {
  console.error(err);
  return new JSONResponse({ error: { message: err.message } }, { status: 500 }); // SVC626
}
export async function save(db: Database) {
  await db.execute('delete from notes');
  return { ok: true };
}
`,
  'right: messages of errors in responses': `
// FILE app.ts
import { BadRequest, Conflict, Depends, JSONResponse, Svc, reply } from 'svc';
import { db } from 'svc/db';
import { Refused, isRefusal, onError, save, textOf } from './errors.ts';
const app = new Svc();
app.exceptionHandler(Refused, (err) => new JSONResponse(err.message, { status: 409 })); // SVC305
app.exceptionHandler(Conflict, (err) => new JSONResponse({ error: err.message }, { status: err.status })); // SVC305
app.exceptionHandler(Error, onError); // SVC305
app.exceptionHandler(Error, { response: 'application/problem+json' }, (err) => {
  console.error(err.message);
  throw err;
});
app.exceptionHandler(Error, (err) => { // SVC305
  const status = err.status ?? 500;
  return reply({ error: status < 500 ? err.message : 'internal error' }, status);
});
app.post('/a', { public: 'a', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (err) {
    return reply({ error: err instanceof Refused ? err.message : 'internal' }, 400);
  }
});
app.post('/b', { public: 'b', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (err) {
    if (!(err instanceof Refused)) throw err;
    return [{ message: err.message }, 400];
  }
});
app.post('/c', { public: 'c', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (err) {
    if (isRefusal(err)) throw new BadRequest(err.message);
    throw err;
  }
});
app.get('/d', { public: 'd' }, async ({ query }) => {
  try {
    return { host: new URL(query.address).host };
  } catch (problem) {
    return reply({ error: problem.message }, 400);
  }
});
app.post('/e', { public: 'e', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (problem) {
    if (problem.code !== 'REFUSED') throw problem;
    return reply({ error: problem.message }, 409);
  }
});
app.post('/f', { public: 'f', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (problem) {
    return reply({ error: process.env.NODE_ENV === 'production' ? 'internal' : problem.message }, 500);
  }
});
app.post('/g', { public: 'g', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db);
  } catch (problem) {
    return reply({ error: textOf(problem) }, 500);
  }
});
app.post('/h', { public: 'h', db: Depends(db) }, ({ db }) =>
  save(db).catch((err) => reply({ error: err instanceof Refused ? String(err) : 'internal' }, 400)));
app.post('/i', { public: 'i', db: Depends(db) }, async ({ db }) => {
  try {
    return await save(db).catch((err) => {
      console.error(\`not saved: \${err}\`);
      throw new Conflict('try again');
    });
  } catch (err) {
    return reply({ error: String(err) }, 409);
  }
});
app.post('/j', { public: 'j' }, ({ query }) =>
  Promise.resolve(query.text).then((text) => JSON.parse(text)).catch((err) => reply({ error: err.message }, 400)));
// FILE errors.ts
import type { Database } from 'svc/db';
import { JSONResponse } from 'svc';
export class Refused extends Error {}
export const isRefusal = (err: unknown): err is Refused => err instanceof Refused;
export function textOf(err: unknown): string {
  if (err instanceof Refused) return err.message;
  return 'internal error';
}
export function onError(err: Error) {
  console.error(err);
  return new JSONResponse({ error: { message: isRefusal(err) ? err.message : 'internal error' } }, { status: 500 });
}
export async function save(db: Database) {
  await db.execute('delete from notes');
  return { ok: true };
}
`,
  'signatures that operators compare': `
// FILE app.ts
import { Svc } from 'svc';
import { isGenuine } from './mark.ts';
const app = new Svc();
const gate = (key) => async (incoming, next) => {
  if (!isGenuine(key, await incoming.text(), incoming.headers['x-mark'])) throw new Error('no');
  return next();
};
app.post('/in', { use: [gate(KEY)] }, () => 1);
// FILE mark.ts
import * as c from 'node:crypto';
export function isGenuine(key, message, mark) {
  const mac = c.createHmac('sha512', key);
  mac.update(message);
  const wanted = mac.digest('base64');
  if (wanted.length !== mark.length) return false;
  if (message === c.createHash('sha1').digest('hex')) return true;
  return wanted === mark; // SVC621
}
`,
  'numbers of rows that a client chooses': `
import { Depends, Field, Svc, int } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const page = { size: Field(int, { ge: 1 }), count: Field(int, { ge: 1, le: 100 }), skip: Field(int) };
app.get('/a', { db: Depends(db), query: page }, ({ db, query }) =>
  db.fetchAll('select b from a where c = ? order by b limit ? offset ?', [1, query.size, query.skip]), // SVC637
);
app.get('/b', { db: Depends(db), query: page }, ({ db, query: { size } }) =>
  db.fetchAll('select b from a where c = $1 limit $2', [1, size]), // SVC637
);
app.get('/c', { db: Depends(db), query: page }, ({ db, query }) =>
  db.fetchAll('select b from a where c = ? limit ?', [query.skip, query.count]),
);
app.get('/d', { db: Depends(db), query: page }, ({ db, query }) =>
  db.fetchAll('select b from a limit ?', [Math.min(query.size, 100)]),
);
const rowsOf = (db, count) => {
  if (count > 100) throw new RangeError('too many');
  return db.fetchAll('select b from a limit ?', [count]);
};
app.get('/e', { db: Depends(db), query: { some: Field(int) } }, ({ db, query }) => rowsOf(db, query.some));
`,
  'numbers of rows that code reads from texts': `
// FILE app.ts
import { Depends, Field, Svc, str } from 'svc';
import { db, sql } from 'svc/db';
import { newest, sizeOf } from './page.ts';
const app = new Svc();
app.get('/a', { db: Depends(db) }, ({ db, query }) =>
  db.fetchAll(sql\`select b from a order by b limit \${Number(query.limit) || 10}\`), // SVC637
);
app.get('/b', { db: Depends(db) }, ({ db, req }) => {
  const limit = parseInt(req.query.get('limit') ?? '20', 10);
  return db.fetchAll('select b from a order by b limit ?', [limit]); // SVC637
});
app.get('/c', { db: Depends(db), query: { size: Field(str) } }, ({ db, query: { size } }) =>
  db.fetchAll('select b from a order by b limit ?', [+size]), // SVC637 SVC415
);
app.get('/d', { db: Depends(db) }, ({ db, query }) => newest(db, sizeOf(query)));
app.get('/e', { public: 'e' }, ({ query }) => 'ab'.repeat(Number.parseInt(query.times))); // SVC637
// FILE page.ts
export const sizeOf = ({ limit = '10' }) => Math.floor(Number(limit));
export const newest = (db, count) => db.fetchAll('select b from a order by b limit ?', [count]); // SVC637 SVC415
`,
  'numbers of rows that code takes from a list, or that are small': `
import { Depends, Field, HTTPException, Svc, int, str } from 'svc';
import { db } from 'svc/db';
const app = new Svc();
const SIZES = [10, 20, 50];
const ALLOWED = new Set([10, 20]);
const newest = (db, count) => db.fetchAll('select b from a order by b limit ?', [count]);
const query = { size: Field(int), digits: Field(str, { maxLength: 2 }), text: Field(str, { maxLength: 3 }) };
app.get('/a', { db: Depends(db), query }, ({ db, query }) => {
  const asked = Number(query.text);
  return newest(db, SIZES.includes(asked) ? asked : 20);
});
app.get('/b', { db: Depends(db), query }, ({ db, query }) => {
  const asked = Number(query.text);
  if (!ALLOWED.has(asked)) throw new HTTPException(400);
  return newest(db, asked);
});
app.get('/c', { db: Depends(db), query }, ({ db, query }) => newest(db, SIZES.includes(query.size) ? query.size : 20));
app.get('/d', { db: Depends(db), query }, ({ db, query }) => newest(db, (Number(query.text) || 0) % 100));
app.get('/e', { db: Depends(db), query }, ({ db, query }) => newest(db, Number(query.text.slice(0, 2)) || 10));
app.get('/f', { db: Depends(db), query }, ({ db, query }) => newest(db, Number(query.digits) || 10));
app.get('/g', { db: Depends(db), query }, ({ db, query }) => newest(db, Number.parseInt(query.text, 10) || 10));
app.get('/h', { db: Depends(db), query: { ...query, page: Field(str, { maxLength: 9 }) } }, ({ db, query }) => {
  const asked = Number(query.page);
  if (SIZES.includes(asked)) console.info('usual');
  return db.fetchAll('select b from a order by b limit ?', [asked]); // SVC637
});
app.get('/i', { db: Depends(db), query: { at: Field(str, { maxLength: 3 }) } }, ({ db, query }) =>
  db.fetchAll('select b from a order by b limit ?', [Number(query.at) || 10]), // SVC637
);
app.get('/j', { db: Depends(db), query: { at: Field(str, { maxLength: 2 }) } }, ({ db, query }) =>
  db.fetchAll('select b from a order by b limit ?', [Number(query.at + query.at) || 10]), // SVC637
);
app.get('/k', { db: Depends(db), query: { of: Field(str), at: Field(str) } }, ({ db, query }) =>
  db.fetchAll('select b from a order by b limit ?', [(Number(query.of) || 1) % (Number(query.at) || 1)]), // SVC637
);
app.get('/l', { db: Depends(db), query: { at: Field(int) } }, ({ db, query }) =>
  db.fetchAll('select b from a order by b limit ?', [SIZES.includes(query.at % 10) ? query.at : 20]), // SVC637
);
`,
  'numbers that may be none in statements': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { db, sql } from 'svc/db';
import { findNote, idOf } from './notes.ts';
const app = new Svc();
app.get('/a/{id}', { db: Depends(db) }, ({ db, params }) =>
  db.scalar(sql\`select text from note where id = \${Number(params.id)}\`), // SVC415
);
app.get('/b/{id}', { db: Depends(db) }, ({ db, params: { id } }) => findNote(db, parseInt(id, 10)));
app.get('/c/{id}', { db: Depends(db) }, ({ db, params }) =>
  db.scalar('select text from note where id = ?', [idOf(params)]), // SVC415
);
// FILE notes.ts
export const idOf = (params) => Number(params.id);
export function findNote(db, id) {
  console.log(id);
  return db.scalar('select text from note where id = ?', [id]); // SVC415
}
`,
  'right: numbers that may be none in statements': `
// FILE app.ts
import { Depends, Field, NotFound, Svc, int, provide } from 'svc';
import { db, sql } from 'svc/db';
import { check } from 'checks';
import { findNote, idOf, needId } from './notes.ts';
const app = new Svc();
app.get('/a/{id:int}', { db: Depends(db) }, ({ db, params }) =>
  db.scalar(sql\`select text from note where id = \${Number(params.id)}\`),
);
app.get('/b/{id}', { db: Depends(db) }, ({ db, params }) => {
  const id = Number(params.id);
  if (!Number.isInteger(id)) throw new NotFound();
  return db.scalar('select text from note where id = ?', [id]);
});
app.get('/c/{id}', { db: Depends(db) }, ({ db, params }) =>
  db.scalar('select text from note where id = ?', [Number(params.id) || 0]),
);
app.get('/d', { db: Depends(db), query: { id: Field(int, { ge: 1, le: 1000 }) } }, ({ db, query }) =>
  db.scalar('select text from note where id = ?', [query.id]),
);
app.get('/e/{id}', { db: Depends(db) }, ({ db, params }) => {
  if (!/^\\d{1,9}$/.test(params.id)) throw new NotFound();
  return findNote(db, Number(params.id));
});
app.get('/f/{id}', { db: Depends(db) }, ({ db, params }) => findNote(db, needId(params)));
const note = provide({ db: Depends(db) }, ({ db, req }) =>
  db.scalar('select text from note where id = ?', [Number(req.pathParams['id'])]),
);
app.get('/h/{id:int}', { note: Depends(note) }, ({ note }) => note);
app.get('/g/{id}', { db: Depends(db) }, ({ db, params }) => {
  check(params.id);
  return findNote(db, idOf(params));
});
// FILE notes.ts
import { NotFound } from 'svc';
export const idOf = (params) => Number(params.id);
export function needId(params) {
  const id = idOf(params);
  if (isNaN(id)) throw new NotFound();
  return id;
}
export const findNote = (db, id) => db.scalar('select text from note where id = ?', [id]);
`,
  'right: numbers of rows that code reads from texts': `
// FILE app.ts
import { Depends, Field, Svc, str } from 'svc';
import { db, sql } from 'svc/db';
import { newest, sizeOf } from './page.ts';
const app = new Svc();
const SIZES = ['10', '20', '50'];
app.get('/a', { db: Depends(db) }, ({ db, query }) =>
  db.fetchAll(sql\`select b from a order by b limit \${Math.min(Number(query.limit) || 10, 100)}\`),
);
app.get('/b', { db: Depends(db) }, ({ db, req }) => {
  const limit = parseInt(req.query.get('limit') ?? '20', 10);
  return db.fetchAll('select b from a order by b limit ?', [limit > 100 ? 100 : limit]);
});
app.get('/c', { db: Depends(db), query: { size: Field(str, { pattern: '^\\\\d{1,2}$' }) } }, ({ db, query: { size } }) =>
  db.fetchAll('select b from a order by b limit ?', [+size]),
);
app.get('/d', { db: Depends(db) }, ({ db, query }) => newest(db, sizeOf(query)));
app.get('/e', { db: Depends(db) }, ({ db, query }) =>
  db.fetchAll('select b from a order by b limit 10 offset ?', [Number(query.start) || 0]),
);
app.get('/f', { db: Depends(db) }, ({ db, query }) =>
  newest(db, SIZES.includes(query.size) ? Number(query.size) : 10),
);
// FILE page.ts
export function sizeOf({ limit = '10' }) {
  const size = Number(limit);
  if (!Number.isInteger(size) || size > 100) throw new RangeError('too many');
  return size;
}
export const newest = (db, count) => db.fetchAll('select b from a order by b limit ?', [count]);
`,
  'inputs that are passwords': `
import { Field, RateLimitMiddleware, Schema, Svc, checkPassword, hashPassword, str } from 'svc';
const app = new Svc();
class Entry extends Schema {
  name = Field(str);
  phrase = Field(str);
}
app.use(new RateLimitMiddleware({ perMinute: 6_000 }));
app.post('/enter', { body: Entry }, async ({ body: entry }) => { // SVC204
  app.log.info('enter', { name: entry.name });
  app.log.info(\`enter \${entry.phrase}\`); // SVC625
  app.log.warn('enter', { sent: JSON.stringify(entry) }); // SVC625
  return { ok: await checkPassword(entry.phrase, await hashOf(entry.name)) };
});
app.post('/change', { body: Entry }, async ({ body: { name, phrase } }) => {
  console.log(phrase); // SVC625
  app.log.info('change', { name });
  return keep(name, await hashPassword(phrase));
});
app.post('/note', { body: Entry }, async ({ body }) => app.log.info('note', { sent: JSON.stringify(body) }));
`,
  'algorithms that a token chooses': `
// FILE app.ts
import { Svc } from 'svc';
import { chosen, checked, mapped } from './token.ts';
const app = new Svc();
app.get('/a', {}, ({ req }) => chosen(req.cookies.pass));
app.get('/b', {}, ({ req }) => checked(req.cookies.pass));
app.get('/c', {}, ({ req }) => mapped(req.cookies.pass));
// FILE token.ts
import * as crypto from 'node:crypto';
const KINDS = new Map([['RS256', (text, mark) => crypto.verify('sha256', text, KEY, mark)]]);
const headOf = (text) => JSON.parse(atob(text.split('.')[0]));
export function chosen(text) {
  const { alg } = headOf(text);
  const [head, body, mark] = text.split('.');
  return crypto.createHmac('sha' + alg.slice(2), KEY).update(head + body).digest('hex').length - mark.length; // SVC624
}
export function mapped(text) {
  const run = KINDS.get(headOf(text).alg);
  return run(text, ''); // SVC624
}
export function checked(text) {
  const { alg } = headOf(text);
  if (alg !== 'HS256') throw new Error('no');
  return crypto.createHmac('sha' + alg.slice(2), KEY).update(text).digest('hex').length;
}
`,
};
