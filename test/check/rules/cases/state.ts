/** Applications with and without the mistakes of SVC631, SVC632, SVC633 and SVC636, and inputs in state of the process. */

/** Ways to keep the object `hook`, which one handler makes, for another one: the declaration, the writing, the reading. */
const WAYS: readonly (readonly [name: string, declared: string, written: string, read: string])[] = [
  ['map', 'const kept = new Map();', 'kept.set(hook.id, hook)', 'kept.get(id)'],
  ['map of copies', 'const kept = new Map();', 'kept.set(hook.id, structuredClone(hook))', 'kept.get(id)'],
  ['set', 'const kept = new Set();', 'kept.add(hook)', '[...kept][0]'],
  ['list', 'const kept = [];', 'kept.push(hook)', 'kept.find((each) => each.id === id)'],
  ['longer list', 'let kept = [];', 'kept = [...kept, hook]', 'kept[0]'],
  ['index', 'const kept = {};', 'kept[hook.id] = hook', 'kept[id]'],
  ['member', 'const kept = { last: undefined };', 'kept.last = hook', 'kept.last'],
  ['variable', 'let kept;', 'kept = hook', 'kept'],
];
/** Ways to make the object from the body. */
const MADE = {
  'an object': '{ id: randomUUID(), address: body.address }',
  'a schema': 'new Hook({ id: randomUUID(), address: body.address })',
};

const KEPT = Object.fromEntries(
  WAYS.flatMap(([name, declared, written, read]) =>
    Object.entries(MADE).map(([what, made]) => [
      `an address in a ${name} as ${what}`,
      `
// FILE app.ts
import { Field, Schema, Svc, str } from 'svc';
import { add, deliver } from './hooks.ts';
class NewHook extends Schema { address = Field(str, { maxLength: 300 }); }
const app = new Svc();
app.post('/hooks', { body: NewHook, public: 'demo' }, ({ body }) => add(body));
app.post('/hooks/{id}/test', { public: 'demo' }, ({ params }) => deliver(params.id));
// FILE hooks.ts
import { randomUUID } from 'node:crypto';
import { Field, Schema, str } from 'svc';
class Hook extends Schema { id = Field(str); address = Field(str); }
${declared}
export const add = (body) => {
  const hook = ${made};
  ${written};
  return { id: hook.id };
};
export const deliver = async (id) => {
  const hook = ${read};
  if (hook === undefined) return { status: 404 };
  const answer = await fetch(hook.address, { method: 'POST', redirect: 'error', signal: AbortSignal.timeout(3_000) }); // SVC607
  return { status: answer.status };
};
`,
    ]),
  ),
);

export const STATE: Readonly<Record<string, string>> = {
  'requests in module variables': `
import { BearerAuth, Depends, Svc } from 'svc';
const app = new Svc();
let current;
let hits = 0;
let lastQuery = '';
const state = { user: undefined };
const seen = new Map();
app.get('/me', { me: Depends(BearerAuth()) }, ({ me, query, req }) => {
  current = me; // SVC631
  state.user = me.sub; // SVC631
  lastQuery = query.q; // SVC631
  hits += 1;
  seen.set(me.sub, Date.now());
  const mine = me.sub;
  return mine;
});
app.onStartup(() => { current = 'ada'; });
app.use(async ({ req }, next) => { remember(req); return await next(); });
function remember(req) { lastQuery = req.query.get('q'); } // SVC631
`,
  'the client of one request in an object that all requests share': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { guest } from './guest.ts';
import { Pages } from './pages.ts';
export const app: Svc = new Svc();
app.get('/pages', { who: Depends(guest) }, ({ who }) => new Pages(who).own());
// FILE guest.ts
import { BearerAuth, Depends, provide } from 'svc';
export class Guest { name = ''; }
export const shared = new Guest();
export const guest = provide({ claims: Depends(BearerAuth()) }, ({ claims }) => {
  const own = new Guest();
  own.name = claims.sub;
  shared.name = claims.sub; // SVC631
  return own;
});
// FILE pages.ts
import type { Guest } from './guest.ts';
import { shared } from './guest.ts';
export class Pages {
  readonly #who: Guest;
  constructor(who: Guest) { this.#who = who; }
  own(): string { return this.#who.name + shared.name; }
}
`,
  'the client of one request in a field of an object that a module makes': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
class Current {
  user = '';
  #tenant: string | undefined;
  set(user: string): void { this.user = user; } // SVC631
  enter(tenant: string): void { this.#tenant = tenant; } // SVC631
  get tenant(): string | undefined { return this.#tenant; }
}
class Visit {
  user = '';
  set(user: string): void { this.user = user; }
}
const current = new Current();
const app = new Svc();
app.get('/own', { me: Depends(BearerAuth()) }, async ({ me }) => {
  const visit = new Visit();
  visit.set(me.sub);
  return await greet(visit.user);
});
app.get('/user', { me: Depends(BearerAuth()) }, async ({ me }) => {
  current.set(me.sub);
  return await greet(current.user);
});
app.get('/tenant', {}, async ({ query }) => {
  current.enter(query.tenant);
  return await greet(current.tenant);
});
`,
  'caches without a key': `
import { createHash } from 'node:crypto';
import { openDatabase } from 'svc/db';
import { BearerAuth, Depends, MemoryCache, Svc, cached } from 'svc';
const app = new Svc();
const db = await openDatabase('sqlite:notes.db');
const cache = new MemoryCache();
const fetchProfile = (who) => db.fetchOne('select * from profile where id = ?', [who]);
const page = cached(async (path, user) => render(path, user), { key: (path) => path }); // SVC632
const fixed = cached(async (user) => load(user), { key: () => 'profile' }); // SVC632
app.get('/profile', { me: Depends(BearerAuth()) }, async ({ me }) => {
  const load = cached(async () => fetchProfile(me.sub)); // SVC632
  cache.set('profile', await fetchProfile(me.sub)); // SVC632
  cache.set(\`profile:\${me.sub}\`, await fetchProfile(me.sub));
  return await load();
});
const right = cached(async (path, user) => render(path, user), { key: (path, user) => \`\${user} \${path}\` });
const lastOf = (kind, list) => kind + '/' + list.at(-1);
const whole = (kind, list) => [kind, ...list].join('/');
const first = cached(async (day, user) => render(day, user), { key: (...given) => given[0] }); // SVC632
const last = cached(async (user, day) => render(day, user), { key: (...given) => lastOf('day', given) }); // SVC632
const both = cached(async (user, day) => render(day, user), { key: (...given) => whole('day', given) });
const digest = cached(async (user, day) => render(day, user), { key: (...given) => createHash('sha256').update(JSON.stringify(given)).digest('hex') });
const named = cached(async (path, user) => render(path, user), { key: pathOnly }); // SVC632
function pathOnly(path, user) { return path.toLowerCase(); }
const byRole = cached(async (path, user) => render(path, user.isAdmin), { key: (path, user) => \`\${user.isAdmin ? 'all' : 'some'} \${path}\` });
const plain = cached(async (name) => load(name), { ttlSeconds: 60 });
const withSignal = cached(async (name, signal) => load(name, signal), { key: (name) => name });
const all = cached(async () => db.fetchAll('select * from rates'));
`,
  'bodies that are merged': `
import { createHmac } from 'node:crypto';
import { model } from 'mongoose';
import { db as database } from 'svc/db';
import { Depends, Svc, Schema, Field, str, record, any, Router } from 'svc';
const app = new Svc();
const router = new Router();
const User = model('User');
app.patch('/me', { db: Depends(database) }, async ({ req, user, db }) => {
  const body = await req.json();
  Object.assign(user, body); // SVC633
  await User.update(user.id, body); // SVC633
  await service.update(user.id, body);
  await User.insert({ ...body, owner: user.id }); // SVC633
  await this.noteStore.insert({ ...body, owner: user.id });
  return {};
});
class Rename extends Schema { name = Field(str, { maxLength: 80 }); }
app.patch('/right', { body: Rename }, async ({ body, user }) => {
  Object.assign(user, body);
  await users.update(user.id, { name: body.name });
  createHmac('sha256', key).update(await req.body({ maxBytes: 1000 }));
});
function withoutOwner(given) {
  const copy = { ...given };
  delete copy.owner;
  return copy;
}
app.post('/stripped', {}, async ({ req, user }) => {
  const body = await req.json();
  Object.assign(user, withoutOwner(body));
});
app.patch('/any', { body: record(any) }, async ({ body, user }) => Object.assign(user, body)); // SVC633
const TYPES = { free: record(any), named: Rename };
app.patch('/free', { body: TYPES.free }, async ({ body, user }) => Object.assign(user, body)); // SVC633
app.patch('/named', { body: TYPES.named }, async ({ body, user }) => Object.assign(user, body));
router.post('/users', async (req, res) => { res.json(await User.create(req.body)); }); // SVC633
`,
  'patterns that backtrack': `
import { Svc } from 'svc';
const app = new Svc();
const WORDS = /^(\\w+\\s?)*$/; // SVC636
const UNUSED = /^(\\w+\\s?)*$/;
app.get('/a', {}, ({ query }) => WORDS.test(query.q));
app.get('/b', {}, ({ query }) => /(a+)+$/.test(query.q)); // SVC636
app.get('/c', {}, ({ query }) => /^[a-z]+(-[a-z]+)*$/.test(query.q));
app.get('/d', {}, ({ query }) => query.q.replace(/^((\\*|-) (.*)(\\n|$))+/gm, listOf));
`,
  'bodies in a new object, and under a key of their own': `
import { randomUUID } from 'node:crypto';
import { openDatabase } from 'svc/db';
import { Svc } from 'svc';
const app = new Svc();
const db = await openDatabase('sqlite:notes.db');
app.post('/a', async (req, res) => {
  const all = Object.assign({}, req.query, req.body);
  await db.set('transfer:' + randomUUID(), req.body);
  Object.assign(user, req.body); // SVC633
  const [first] = Object.values(req.body);
  const form = new Form();
  Object.assign(form, req.body);
  if (!form.isValid()) return res.sendStatus(400);
  const row = new Row();
  Object.assign(row, req.body); // SVC633
  await row.save();
  res.json(all.name);
});
`,
  'models of the project, and of a package': `
// FILE app.js
import { Svc } from 'svc';
import { User } from './user.js';
import { Group } from './group.js';
const app = new Svc();
app.post('/users', async (req, res) => res.json(await User.create(req.body)));
app.post('/groups', async (req, res) => res.json(await Group.create(req.body))); // SVC633
app.post('/settings', async (req, res) => {
  const updates = {};
  for (const key of Object.keys(req.body)) if (WRITABLE.includes(key)) updates[key] = req.body[key];
  await knex('settings').update(updates);
});
// FILE user.js
export const User = { create: async ({ name }) => await insert({ name }) };
// FILE group.js
import { model } from 'mongoose';
export const Group = model('Group', groups);
`,
  'bodies with members that no type declares': `
// FILE app.ts
import { Depends, Field, Schema, Svc, str } from 'svc';
import { db } from 'svc/db';
class Open extends Schema { static extra = 'allow' as const; name = Field(str); }
class Closed extends Schema { name = Field(str); }
const app = new Svc();
const ALLOWED = new Set(['name']);
app.patch('/open/{id}', { db: Depends(db), body: Open }, async ({ db, body, params }) => {
  const row = await db.fetchOne('select * from account where id = ?', [params.id]);
  const given = Object.entries(body).filter(([, value]) => value !== undefined);
  Object.assign(row, Object.fromEntries(given)); // SVC633
  return await save(row);
});
app.patch('/some/{id}', { db: Depends(db), body: Open }, async ({ db, body, params }) => {
  const row = await db.fetchOne('select * from account where id = ?', [params.id]);
  Object.assign(row, Object.fromEntries(Object.entries(body).filter(([key]) => ALLOWED.has(key))));
  return await save(row);
});
app.patch('/closed/{id}', { db: Depends(db), body: Closed }, async ({ db, body, params }) => {
  const row = await db.fetchOne('select * from account where id = ?', [params.id]);
  Object.assign(row, Object.fromEntries(Object.entries(body)));
  return await save(row);
});
`,
  ...KEPT,
  'right: addresses of the program in state that handlers change': `
import { Svc } from 'svc';
const app = new Svc();
const state = { target: 'https://a.example', hits: 0 };
let other = 'https://c.example';
app.post('/switch', { public: 'demo' }, ({ body }) => {
  state.target = body.second ? 'https://b.example' : 'https://a.example';
  other = ['https://c.example', 'https://d.example'].find((each) => each === body.other) ?? other;
  state.hits += 1;
});
app.post('/test', { public: 'demo' }, async () => {
  await fetch(state.target, { redirect: 'error', signal: AbortSignal.timeout(3_000) });
  await fetch(other, { redirect: 'error', signal: AbortSignal.timeout(3_000) });
  return { hits: state.hits };
});
`,
};
