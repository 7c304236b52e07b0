/** Applications with amounts, races, caches and dates, each with a mistake and as it should be. A mistake is marked at its line. */
export const CONSISTENCY: Readonly<Record<string, string>> = {
  'lost update of a JSON column in a service class': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str, provide } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Preferences } from './preferences.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
const prefs = provide({ me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) => new Preferences(db, me.sub));
class Tag extends Schema { tag = Field(str, { maxLength: 40 }); }
app.post('/tags', { prefs: Depends(prefs), body: Tag, status: 204 }, ({ prefs, body }) => prefs.addTag(body.tag));
// FILE preferences.ts
import { str } from 'svc';
import type { Database, Session } from 'svc/db';
export class Preferences {
  readonly #db: Database;
  readonly #owner: string;
  constructor(db: Database, owner: string) { this.#db = db; this.#owner = owner; }
  async addTag(tag: string) {
    const tags = await this.#read(this.#db);
    if (!tags.includes(tag)) tags.push(tag);
    await this.#db.execute('update settings set tags = ? where owner = ?', [JSON.stringify(tags), this.#owner]); // SVC642
  }
  async #read(session: Session): Promise<string[]> {
    const text = await session.scalar('select tags from settings where owner = ?', [this.#owner], { as: str });
    return JSON.parse(text ?? '[]') as string[];
  }
}
// FILE migrations/0001_init.up.sql
create table settings (owner text primary key, tags text not null default '[]');
`,
  'right: lost update of a JSON column in a service class': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str, provide } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Preferences } from './preferences.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
const prefs = provide({ me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) => new Preferences(db, me.sub));
class Tag extends Schema { tag = Field(str, { maxLength: 40 }); }
app.post('/tags', { prefs: Depends(prefs), body: Tag, status: 204 }, ({ prefs, body }) => prefs.addTag(body.tag));
// FILE preferences.ts
import { str } from 'svc';
import type { Database, Session } from 'svc/db';
export class Preferences {
  readonly #db: Database;
  readonly #owner: string;
  constructor(db: Database, owner: string) { this.#db = db; this.#owner = owner; }
  async addTag(tag: string) {
    await this.#db.transaction(async (tx) => {
      const tags = await this.#read(tx);
      if (!tags.includes(tag)) tags.push(tag);
      await tx.execute('update settings set tags = ? where owner = ?', [JSON.stringify(tags), this.#owner]);
    });
  }
  async #read(session: Session): Promise<string[]> {
    const text = await session.scalar('select tags from settings where owner = ? for update', [this.#owner], { as: str });
    return JSON.parse(text ?? '[]') as string[];
  }
}
// FILE migrations/0001_init.up.sql
create table settings (owner text primary key, tags text not null default '[]');
`,
  'Redis: GET, then SET': `
// FILE app.ts
import { BearerAuth, Depends, HTTPException, Svc } from 'svc';
import { RedisPlugin, redis } from 'svc/db';
import { Quota } from './quota.ts';
export const app = new Svc();
app.register(new RedisPlugin('rediss://cache'));
app.post('/exports', { me: Depends(BearerAuth()), redis: Depends(redis), status: 202 }, async ({ me, redis }) => {
  if (!(await new Quota(redis, 10).use(me.sub))) throw new HTTPException(429, 'quota');
});
// FILE quota.ts
import type { Redis } from 'svc/db';
export class Quota {
  readonly #redis: Redis;
  readonly #most: number;
  constructor(redis: Redis, most: number) { this.#redis = redis; this.#most = most; }
  async use(who: string): Promise<boolean> {
    const key = \`quota:\${who}\`;
    const used = Number((await this.#redis.command(['GET', key])) ?? 0);
    if (used >= this.#most) return false;
    await this.#redis.command(['SET', key, String(used + 1), 'EX', '86400']); // SVC642
    return true;
  }
}
`,
  'right: Redis: GET, then SET': `
// FILE app.ts
import { BearerAuth, Depends, HTTPException, Svc } from 'svc';
import { RedisPlugin, redis } from 'svc/db';
import { Quota } from './quota.ts';
export const app = new Svc();
app.register(new RedisPlugin('rediss://cache'));
app.post('/exports', { me: Depends(BearerAuth()), redis: Depends(redis), status: 202 }, async ({ me, redis }) => {
  if (!(await new Quota(redis, 10).use(me.sub))) throw new HTTPException(429, 'quota');
});
// FILE quota.ts
import type { Redis } from 'svc/db';
export class Quota {
  readonly #redis: Redis;
  readonly #most: number;
  constructor(redis: Redis, most: number) { this.#redis = redis; this.#most = most; }
  async use(who: string): Promise<boolean> {
    const key = \`quota:\${who}\`;
    const used = Number(await this.#redis.command(['INCR', key]));
    if (used === 1) await this.#redis.command(['EXPIRE', key, '86400']);
    return used <= this.#most;
  }
}
`,
  'request of another service inside of a transaction of the route, by a class': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, provide } from 'svc';
import { DatabasePlugin, db, transaction } from 'svc/db';
import { Shop } from './shop.ts';
import { Carrier } from './carrier.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table parcel (id integer primary key, person text not null, product integer not null, label text)'));
class Order extends Schema { product = Field(int, { ge: 1 }); }
const shop = provide({ tx: Depends(transaction) }, ({ tx }) => new Shop(tx, new Carrier('https://carrier.example')));
app.post('/parcels', { me: Depends(BearerAuth()), shop: Depends(shop), body: Order }, ({ me, shop, body }) => shop.send(me.sub, body.product));
// FILE shop.ts
import { int } from 'svc';
import type { Session } from 'svc/db';
import type { Carrier } from './carrier.ts';
export class Shop {
  readonly #session: Session;
  readonly #carrier: Carrier;
  constructor(session: Session, carrier: Carrier) { this.#session = session; this.#carrier = carrier; }
  async send(person: string, product: number) {
    const id = await this.#session.scalar('insert into parcel (person, product) values (?, ?) returning id', [person, product], { as: int });
    const label = await this.#carrier.label(String(id));
    await this.#session.execute('update parcel set label = ? where id = ?', [label, id]);
    return { id, label };
  }
}
// FILE carrier.ts
export class Carrier {
  readonly #base: string;
  constructor(base: string) { this.#base = base; }
  async label(reference: string): Promise<string> {
    const response = await fetch(\`\${this.#base}/labels\`, { method: 'POST', body: JSON.stringify({ reference }), signal: AbortSignal.timeout(4_000) }); // SVC661
    if (!response.ok) throw new Error(\`carrier: \${response.status}\`);
    return response.text();
  }
}
`,
  'right: request of another service inside of a transaction of the route, by a class': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, provide } from 'svc';
import { DatabasePlugin, db, transaction } from 'svc/db';
import { Shop } from './shop.ts';
import { Carrier } from './carrier.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script('create table parcel (id integer primary key, person text not null, product integer not null, label text)'));
class Order extends Schema { product = Field(int, { ge: 1 }); }
const shop = provide({ tx: Depends(db) }, ({ tx }) => new Shop(tx, new Carrier('https://carrier.example')));
app.post('/parcels', { me: Depends(BearerAuth()), shop: Depends(shop), body: Order }, ({ me, shop, body }) => shop.send(me.sub, body.product));
// FILE shop.ts
import { int } from 'svc';
import type { Session } from 'svc/db';
import type { Carrier } from './carrier.ts';
export class Shop {
  readonly #session: Session;
  readonly #carrier: Carrier;
  constructor(session: Session, carrier: Carrier) { this.#session = session; this.#carrier = carrier; }
  async send(person: string, product: number) {
    const id = await this.#session.scalar('insert into parcel (person, product) values (?, ?) returning id', [person, product], { as: int });
    const label = await this.#carrier.label(String(id));
    await this.#session.execute('update parcel set label = ? where id = ?', [label, id]);
    return { id, label };
  }
}
// FILE carrier.ts
export class Carrier {
  readonly #base: string;
  constructor(base: string) { this.#base = base; }
  async label(reference: string): Promise<string> {
    const response = await fetch(\`\${this.#base}/labels\`, { method: 'POST', body: JSON.stringify({ reference }), signal: AbortSignal.timeout(4_000) });
    if (!response.ok) throw new Error(\`carrier: \${response.status}\`);
    return response.text();
  }
}
`,
  'money as floats': `
// FILE app.ts
import { BearerAuth, Depends, Field, HTTPException, Schema, Svc, float, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { transfer } from './ledger.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Transfer extends Schema {
  to = Field(str, { maxLength: 40 });
  amount = Field(float, { ge: 0.01, le: 10_000 });
}
app.post('/transfers', { me: Depends(BearerAuth()), db: Depends(db), body: Transfer, status: 204 }, async ({ me, db, body }) => {
  if (!(await transfer(db, { from: me.sub, to: body.to, amount: body.amount }))) throw new HTTPException(409, 'funds');
});
// FILE ledger.ts
import type { Database } from 'svc/db';
interface Move { from: string; to: string; amount: number }
export const transfer = (db: Database, { from, to, amount }: Move) =>
  db.transaction(async (tx) => {
    const { affectedRows } = await tx.execute('update wallet set amount = amount - ? where owner = ? and amount >= ?', [amount, from, amount]); // SVC647
    if (affectedRows === 0) return false;
    await tx.execute('update wallet set amount = amount + ? where owner = ?', [amount, to]); // SVC647
    return true;
  });
// FILE migrations/0001_init.up.sql
create table wallet (owner text primary key, amount real not null);
`,
  'right: money as floats': `
// FILE app.ts
import { BearerAuth, Depends, Field, HTTPException, Schema, Svc, float, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { transfer } from './ledger.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Transfer extends Schema {
  to = Field(str, { maxLength: 40 });
  amount = Field(int, { ge: 1, le: 1_000_000 });
}
app.post('/transfers', { me: Depends(BearerAuth()), db: Depends(db), body: Transfer, status: 204 }, async ({ me, db, body }) => {
  if (!(await transfer(db, { from: me.sub, to: body.to, amount: body.amount }))) throw new HTTPException(409, 'funds');
});
// FILE ledger.ts
import type { Database } from 'svc/db';
interface Move { from: string; to: string; amount: number }
export const transfer = (db: Database, { from, to, amount }: Move) =>
  db.transaction(async (tx) => {
    const { affectedRows } = await tx.execute('update wallet set amount = amount - ? where owner = ? and amount >= ?', [amount, from, amount]);
    if (affectedRows === 0) return false;
    await tx.execute('update wallet set amount = amount + ? where owner = ?', [amount, to]);
    return true;
  });
// FILE migrations/0001_init.up.sql
create table wallet (owner text primary key, amount integer not null);
`,
  'negative quantity makes the total smaller': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, list } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { placeOrder } from './orders.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Line extends Schema {
  product = Field(int, { ge: 1 });
  quantity = Field(int, { le: 99 });
}
class Order extends Schema { lines = Field(list(Line), { minLength: 1, maxLength: 20 }); }
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, ({ me, db, body }) => placeOrder(db, me.sub, body.lines));
// FILE orders.ts
import { int } from 'svc';
import { sql, type Database } from 'svc/db';
export async function placeOrder(db: Database, person: string, lines: readonly { product: number; quantity: number }[]) {
  const rows = await db.fetchAll(sql\`select id, cents from product where \${sql.in(sql\`id\`, lines.map(({ product }) => product))}\`);
  const prices = new Map(rows.map((row) => [Number(row['id']), Number(row['cents'])]));
  const total = lines.reduce((sum, { product, quantity }) => sum + (prices.get(product) ?? 0) * quantity, 0); // SVC647
  return db.transaction(async (tx) => {
    const id = await tx.scalar('insert into purchase (person, cents) values (?, ?) returning id', [person, total], { as: int });
    await tx.insertMany('purchase_line', ['purchase_id', 'product_id', 'quantity'], lines.map(({ product, quantity }) => [id, product, quantity]));
    return { id, total };
  });
}
// FILE migrations/0001_init.up.sql
create table product (id integer primary key, cents integer not null);
create table purchase (id integer primary key, person text not null, cents integer not null);
create table purchase_line (purchase_id integer not null references purchase (id), product_id integer not null references product (id), quantity integer not null);
`,
  'right: negative quantity makes the total smaller': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, list } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { placeOrder } from './orders.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Line extends Schema {
  product = Field(int, { ge: 1 });
  quantity = Field(int, { ge: 1, le: 99 });
}
class Order extends Schema { lines = Field(list(Line), { minLength: 1, maxLength: 20 }); }
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order }, ({ me, db, body }) => placeOrder(db, me.sub, body.lines));
// FILE orders.ts
import { int } from 'svc';
import { sql, type Database } from 'svc/db';
export async function placeOrder(db: Database, person: string, lines: readonly { product: number; quantity: number }[]) {
  const rows = await db.fetchAll(sql\`select id, cents from product where \${sql.in(sql\`id\`, lines.map(({ product }) => product))}\`);
  const prices = new Map(rows.map((row) => [Number(row['id']), Number(row['cents'])]));
  const total = lines.reduce((sum, { product, quantity }) => sum + (prices.get(product) ?? 0) * quantity, 0);
  return db.transaction(async (tx) => {
    const id = await tx.scalar('insert into purchase (person, cents) values (?, ?) returning id', [person, total], { as: int });
    await tx.insertMany('purchase_line', ['purchase_id', 'product_id', 'quantity'], lines.map(({ product, quantity }) => [id, product, quantity]));
    return { id, total };
  });
}
// FILE migrations/0001_init.up.sql
create table product (id integer primary key, cents integer not null);
create table purchase (id integer primary key, person text not null, cents integer not null);
create table purchase_line (purchase_id integer not null references purchase (id), product_id integer not null references product (id), quantity integer not null);
`,
  'pages without an order': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { pageOf } from './events.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Page extends Schema { page = Field(int, { default: 1, ge: 1, le: 10_000 }); size = Field(int, { default: 20, ge: 1, le: 100 }); }
app.get('/events', { me: Depends(BearerAuth()), db: Depends(db), query: Page }, async ({ me, db, query }) => ({
  items: await pageOf(db, me.sub, query),
}));
// FILE events.ts
import { sql, type Session } from 'svc/db';
export async function pageOf(session: Session, owner: string, { page, size }: { page: number; size: number }) {
  return session.fetchAll(sql\`select id, title, at from event where owner = \${owner} limit \${size} offset \${(page - 1) * size}\`); // SVC671
}
// FILE migrations/0001_init.up.sql
create table event (id integer primary key, owner text not null, title text not null, at timestamp not null);
`,
  'right: pages without an order': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { pageOf } from './events.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Page extends Schema { page = Field(int, { default: 1, ge: 1, le: 10_000 }); size = Field(int, { default: 20, ge: 1, le: 100 }); }
app.get('/events', { me: Depends(BearerAuth()), db: Depends(db), query: Page }, async ({ me, db, query }) => ({
  items: await pageOf(db, me.sub, query),
}));
// FILE events.ts
import { sql, type Session } from 'svc/db';
export async function pageOf(session: Session, owner: string, { page, size }: { page: number; size: number }) {
  return session.fetchAll(sql\`select id, title, at from event where owner = \${owner} order by at, id limit \${size} offset \${(page - 1) * size}\`);
}
// FILE migrations/0001_init.up.sql
create table event (id integer primary key, owner text not null, title text not null, at timestamp not null);
`,
  'cache key lacks the language / the tenant, by a class around MemoryCache': `
// FILE app.ts
import { BearerAuth, Depends, Field, MemoryCache, Schema, Svc, str, provide } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Remember } from './remember.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Claims extends Schema { sub = Field(str); tenant = Field(str); }
const who = BearerAuth(undefined, { schema: Claims });
const remember = new Remember(new MemoryCache({ maxEntries: 500 }), 60);
app.get('/dashboard', { who: Depends(who), db: Depends(db) }, ({ who, db }) =>
  remember.get('dashboard', () => db.fetchAll('select name, value from figure where tenant = ? order by name', [who.tenant])));
// FILE remember.ts
import type { MemoryCache } from 'svc';
export class Remember {
  readonly #cache: MemoryCache;
  readonly #seconds: number;
  constructor(cache: MemoryCache, seconds: number) { this.#cache = cache; this.#seconds = seconds; }
  async get<T>(key: string, load: () => Promise<T>): Promise<T> {
    const known = await this.#cache.get(key);
    if (known !== undefined) return known as T;
    const value = await load();
    await this.#cache.set(key, value, this.#seconds); // SVC632
    return value;
  }
}
// FILE migrations/0001_init.up.sql
create table figure (tenant text not null, name text not null, value integer not null, primary key (tenant, name));
`,
  'right: cache key lacks the language / the tenant, by a class around MemoryCache': `
// FILE app.ts
import { BearerAuth, Depends, Field, MemoryCache, Schema, Svc, str, provide } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Remember } from './remember.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Claims extends Schema { sub = Field(str); tenant = Field(str); }
const who = BearerAuth(undefined, { schema: Claims });
const remember = new Remember(new MemoryCache({ maxEntries: 500 }), 60);
app.get('/dashboard', { who: Depends(who), db: Depends(db) }, ({ who, db }) =>
  remember.get(\`dashboard:\${who.tenant}\`, () => db.fetchAll('select name, value from figure where tenant = ? order by name', [who.tenant])));
// FILE remember.ts
import type { MemoryCache } from 'svc';
export class Remember {
  readonly #cache: MemoryCache;
  readonly #seconds: number;
  constructor(cache: MemoryCache, seconds: number) { this.#cache = cache; this.#seconds = seconds; }
  async get<T>(key: string, load: () => Promise<T>): Promise<T> {
    const known = await this.#cache.get(key);
    if (known !== undefined) return known as T;
    const value = await load();
    await this.#cache.set(key, value, this.#seconds);
    return value;
  }
}
// FILE migrations/0001_init.up.sql
create table figure (tenant text not null, name text not null, value integer not null, primary key (tenant, name));
`,
  'cached result that a change does not remove': `
// FILE app.ts
import { Depends, Field, Schema, Svc, cached, str, requireRoles, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { priceOf, setPrice } from './prices.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Price extends Schema { cents: number = Field(int, { ge: 1 }); }
app.get('/prices/{sku}', ({ params }) => priceOf(params.sku));
app.put('/prices/{sku}', { admin: Depends(requireRoles('admin')), body: Price, status: 204 }, ({ params, body }) => setPrice(params.sku, body.cents));
// FILE prices.ts
import { cached, int } from 'svc';
import { app } from './app.ts';
export const priceOf = cached(async (sku: string) => app.state.db.scalar('select cents from price where sku = ?', [sku], { as: int }), { ttlSeconds: 86_400 });
export async function setPrice(sku: string, cents: number): Promise<void> {
  await app.state.db.execute('update price set cents = ? where sku = ?', [cents, sku]); // SVC632
}
// FILE migrations/0001_init.up.sql
create table price (sku text primary key, cents integer not null);
`,
  'right: cached result that a change does not remove': `
// FILE app.ts
import { Depends, Field, Schema, Svc, cached, str, requireRoles, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { priceOf, setPrice } from './prices.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
class Price extends Schema { cents: number = Field(int, { ge: 1 }); }
app.get('/prices/{sku}', ({ params }) => priceOf(params.sku));
app.put('/prices/{sku}', { admin: Depends(requireRoles('admin')), body: Price, status: 204 }, ({ params, body }) => setPrice(params.sku, body.cents));
// FILE prices.ts
import { cached, int } from 'svc';
import { app } from './app.ts';
export const priceOf = cached(async (sku: string) => app.state.db.scalar('select cents from price where sku = ?', [sku], { as: int }), { ttlSeconds: 86_400 });
export async function setPrice(sku: string, cents: number): Promise<void> {
  await app.state.db.execute('update price set cents = ? where sku = ?', [cents, sku]);
  await priceOf.delete(sku);
}
// FILE migrations/0001_init.up.sql
create table price (sku text primary key, cents integer not null);
`,
  'the day of the server as the day of the user': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { today } from './days.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.get('/agenda', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) =>
  db.fetchAll('select id, title from meeting where person = ? and day = ? order by id', [me.sub, today()]));
// FILE days.ts
export function today(): string {
  const start = new Date();
  start.setHours(0, 0, 0, 0);
  return start.toISOString().slice(0, 10); // SVC660
}
// FILE migrations/0001_init.up.sql
create table meeting (id integer primary key, person text not null, day text not null, title text not null);
`,
  'right: the day of the server as the day of the user': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { today } from './days.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.get('/agenda', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) =>
  db.fetchAll('select id, title from meeting where person = ? and day = ? order by id', [me.sub, today()]));
// FILE days.ts
export function today(): string {
  const start = new Date();
  start.setUTCHours(0, 0, 0, 0);
  return start.toISOString().slice(0, 10);
}
// FILE migrations/0001_init.up.sql
create table meeting (id integer primary key, person text not null, day text not null, title text not null);
`,
  'capacity: count, then insert': `
// FILE app.ts
import { BearerAuth, Depends, HTTPException, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { enrol } from './courses.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.post('/courses/{course:int}/enrol', { me: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ me, db, params }) => {
  if (!(await enrol(db, params.course, me.sub))) throw new HTTPException(409, 'full');
});
// FILE courses.ts
import { int } from 'svc';
import type { Database } from 'svc/db';
export async function enrol(db: Database, course: number, person: string): Promise<boolean> {
  const seats = (await db.scalar('select seats from course where id = ?', [course], { as: int })) ?? 0;
  const taken = (await db.scalar('select count(*) from enrolment where course_id = ?', [course], { as: int })) ?? 0;
  if (taken >= seats) return false;
  await db.execute('insert into enrolment (course_id, person) values (?, ?) on conflict do nothing', [course, person]); // SVC642
  return true;
}
// FILE migrations/0001_init.up.sql
create table course (id integer primary key, seats integer not null);
create table enrolment (course_id integer not null references course (id), person text not null, primary key (course_id, person));
`,
  'right: capacity: count, then insert': `
// FILE app.ts
import { BearerAuth, Depends, HTTPException, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { enrol } from './courses.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.post('/courses/{course:int}/enrol', { me: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ me, db, params }) => {
  if (!(await enrol(db, params.course, me.sub))) throw new HTTPException(409, 'full');
});
// FILE courses.ts
import { int } from 'svc';
import type { Database } from 'svc/db';
export async function enrol(db: Database, course: number, person: string): Promise<boolean> {
  return db.transaction(async (tx) => {
    const seats = (await tx.scalar('select seats from course where id = ? for update', [course], { as: int })) ?? 0;
    const taken = (await tx.scalar('select count(*) from enrolment where course_id = ?', [course], { as: int })) ?? 0;
    if (taken >= seats) return false;
    await tx.execute('insert into enrolment (course_id, person) values (?, ?) on conflict do nothing', [course, person]);
    return true;
  });
}
// FILE migrations/0001_init.up.sql
create table course (id integer primary key, seats integer not null);
create table enrolment (course_id integer not null references course (id), person text not null, primary key (course_id, person));
`,
  'amounts computed with floats, negative factors of a price list, and rights by default': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, float, int, requireRoles } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script(\`create table account (id integer primary key, balance_cents integer not null,
  is_admin integer not null default 1)\`)); // SVC423
class Fee extends Schema { rate = Field(float, { ge: 0, le: 1 }); months = Field(int, { le: 12 }); }
const MONTHLY = 900;
app.post('/accounts/{id:int}/fee', { admin: Depends(requireRoles('admin')), db: Depends(db), body: Fee, status: 204 }, async ({ db, params, body }) => {
  await db.transaction(async (tx) => {
    const row = await tx.fetchOne('select balance_cents from account where id = ?', [params.id]);
    if (row === undefined) throw new NotFound();
    const fee_cents = (row as { balance_cents: number }).balance_cents * body.rate; // SVC647
    const months_cents = MONTHLY * body.months; // SVC647
    await tx.execute('insert into fee (account, cents) values (?, ?)', [params.id, fee_cents]);
    await tx.execute('insert into subscription (account, cents) values (?, ?)', [params.id, months_cents]);
  });
});
app.get('/accounts', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id from account where id = ? order by id', [me.sub]));
`,
  'right: amounts computed with floats, negative factors of a price list, and rights by default': `
// FILE app.ts
import { BearerAuth, Depends, Field, NotFound, Schema, Svc, float, int, requireRoles } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:app.db'));
app.onStartup(({ state }) => state.db.script(\`create table account (id integer primary key, balance_cents integer not null,
  is_admin integer not null default 0)\`));
class Fee extends Schema { rate = Field(int, { ge: 0, le: 100 }); months = Field(int, { ge: 1, le: 12 }); }
const MONTHLY = 900;
app.post('/accounts/{id:int}/fee', { admin: Depends(requireRoles('admin')), db: Depends(db), body: Fee, status: 204 }, async ({ db, params, body }) => {
  await db.transaction(async (tx) => {
    const row = await tx.fetchOne('select balance_cents from account where id = ?', [params.id]);
    if (row === undefined) throw new NotFound();
    const fee_cents = (row as { balance_cents: number }).balance_cents * body.rate;
    const months_cents = MONTHLY * body.months;
    await tx.execute('insert into fee (account, cents) values (?, ?)', [params.id, fee_cents]);
    await tx.execute('insert into subscription (account, cents) values (?, ?)', [params.id, months_cents]);
  });
});
app.get('/accounts', { me: Depends(BearerAuth()), db: Depends(db) }, ({ me, db }) => db.fetchAll('select id from account where id = ? order by id', [me.sub]));
`,
  'stock is taken and the order is placed by statements of their own': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { reserve, place } from './orders.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Order extends Schema { sku = Field(str, { maxLength: 40 }); count = Field(int, { gt: 0, le: 100 }); }
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order, status: 201 }, async ({ me, db, body }) => {
  await reserve(db, body.sku, body.count); // SVC643
  const id = await place(db, me.sub, body.sku, body.count);
  return { id };
});
// FILE orders.ts
import { randomUUID } from 'node:crypto';
import { Conflict } from 'svc';
import type { Database } from 'svc/db';
export const reserve = async (db: Database, sku: string, count: number) => {
  const { affectedRows } = await db.execute('update article set stock = stock - ? where sku = ? and stock >= ?', [count, sku, count]);
  if (affectedRows === 0) throw new Conflict('sold out');
};
export const place = async (db: Database, customer: string, sku: string, count: number) => {
  const id = randomUUID();
  await db.execute('insert into purchase (id, customer, sku, count) values (?, ?, ?, ?)', [id, customer, sku, count]);
  return id;
};
// FILE migrations/0001_init.up.sql
create table article (sku text primary key, stock integer not null);
create table purchase (id uuid primary key, customer text not null, sku text not null, count integer not null);
`,
  'right: stock is taken and the order is placed by statements of their own': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { reserve, place } from './orders.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Order extends Schema { sku = Field(str, { maxLength: 40 }); count = Field(int, { gt: 0, le: 100 }); }
app.post('/orders', { me: Depends(BearerAuth()), db: Depends(db), body: Order, status: 201 }, async ({ me, db, body }) => {
  return db.transaction(async (tx) => {
    await reserve(tx, body.sku, body.count);
    return { id: await place(tx, me.sub, body.sku, body.count) };
  });
});
// FILE orders.ts
import { randomUUID } from 'node:crypto';
import { Conflict } from 'svc';
import type { Session } from 'svc/db';
export const reserve = async (db: Session, sku: string, count: number) => {
  const { affectedRows } = await db.execute('update article set stock = stock - ? where sku = ? and stock >= ?', [count, sku, count]);
  if (affectedRows === 0) throw new Conflict('sold out');
};
export const place = async (db: Session, customer: string, sku: string, count: number) => {
  const id = randomUUID();
  await db.execute('insert into purchase (id, customer, sku, count) values (?, ?, ?, ?)', [id, customer, sku, count]);
  return id;
};
// FILE migrations/0001_init.up.sql
create table article (sku text primary key, stock integer not null);
create table purchase (id uuid primary key, customer text not null, sku text not null, count integer not null);
`,
  'a change and its row of an outbox or an audit': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { emit } from './outbox.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Rename extends Schema { name = Field(str, { maxLength: 40 }); }
app.patch('/team', { me: Depends(BearerAuth()), db: Depends(db), body: Rename, status: 204 }, async ({ me, db, body }) => {
  await db.execute('update team set name = ? where owner = ?', [body.name, me.sub]); // SVC643
  await emit(db, 'team.renamed', { owner: me.sub, name: body.name });
});
app.post('/teams/close', { me: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ me, db }) => {
  await db.execute('delete from team where owner = ?', [me.sub]); // SVC643
  await db.execute('insert into audit (actor, action) values (?, ?)', [me.sub, 'team.close']);
});
// FILE outbox.ts
import type { Session } from 'svc/db';
export function emit(db: Session, kind: string, payload: object) {
  return db.execute('insert into outbox (kind, payload) values (?, ?)', [kind, JSON.stringify(payload)]);
}
// FILE migrations/0001_init.up.sql
create table team (owner text primary key, name text not null);
create table outbox (id integer primary key generated always as identity, kind text not null, payload text not null);
create table audit (id integer primary key generated always as identity, actor text not null, action text not null);
`,
  'right: a change and its row of an outbox or an audit': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { emit } from './outbox.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Rename extends Schema { name = Field(str, { maxLength: 40 }); }
app.patch('/team', { me: Depends(BearerAuth()), db: Depends(db), body: Rename, status: 204 }, async ({ me, db, body }) => {
  await db.transaction(async (tx) => {
    await tx.execute('update team set name = ? where owner = ?', [body.name, me.sub]);
    await emit(tx, 'team.renamed', { owner: me.sub, name: body.name });
  });
});
app.post('/teams/close', { me: Depends(BearerAuth()), db: Depends(db), status: 204 }, async ({ me, db }) => {
  await db.transaction(async (tx) => {
    await tx.execute('delete from team where owner = ?', [me.sub]);
    await tx.execute('insert into audit (actor, action) values (?, ?)', [me.sub, 'team.close']);
  });
});
// FILE outbox.ts
import type { Session } from 'svc/db';
export function emit(db: Session, kind: string, payload: object) {
  return db.execute('insert into outbox (kind, payload) values (?, ?)', [kind, JSON.stringify(payload)]);
}
// FILE migrations/0001_init.up.sql
create table team (owner text primary key, name text not null);
create table outbox (id integer primary key generated always as identity, kind text not null, payload text not null);
create table audit (id integer primary key generated always as identity, actor text not null, action text not null);
`,
  'two halves of one booking': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { post } from './entries.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Move extends Schema { cents = Field(int, { gt: 0, le: 1000 }); }
app.post('/moves', { me: Depends(BearerAuth()), db: Depends(db), body: Move, status: 204 }, async ({ me, db, body }) => {
  await post(db, me.sub, 'savings', body.cents);
});
// FILE entries.ts
import type { Database } from 'svc/db';
const ENTRY = 'insert into entry (owner, account, amount) values (?, ?, ?)';
export async function post(db: Database, owner: string, account: string, cents: number) {
  await db.execute(ENTRY, [owner, 'giro', -cents]); // SVC643
  await db.execute(ENTRY, [owner, account, cents]);
}
// FILE migrations/0001_init.up.sql
create table entry (id integer primary key generated always as identity, owner text not null, account text not null, amount integer not null);
`,
  'right: two halves of one booking': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { post } from './entries.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Move extends Schema { cents = Field(int, { gt: 0, le: 1000 }); }
app.post('/moves', { me: Depends(BearerAuth()), db: Depends(db), body: Move, status: 204 }, async ({ me, db, body }) => {
  await post(db, me.sub, 'savings', body.cents);
});
// FILE entries.ts
import type { Database } from 'svc/db';
const ENTRY = 'insert into entry (owner, account, amount) values (?, ?, ?)';
export async function post(db: Database, owner: string, account: string, cents: number) {
  await db.transaction(async (tx) => {
    await tx.execute(ENTRY, [owner, 'giro', -cents]);
    await tx.execute(ENTRY, [owner, account, cents]);
  });
}
// FILE migrations/0001_init.up.sql
create table entry (id integer primary key generated always as identity, owner text not null, account text not null, amount integer not null);
`,
  'a voucher whose statement asks whether it is used': `
// FILE app.ts
import { BearerAuth, Conflict, Depends, Field, Schema, Svc, int, str } from 'svc';
import { DatabasePlugin, transaction } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Redeem extends Schema { code = Field(str, { minLength: 16, maxLength: 64 }); }
const spec = { me: Depends(BearerAuth()), tx: Depends(transaction), body: Redeem };
app.post('/redeem', spec, async ({ me, tx, body }) => {
  const cents = await tx.scalar('select cents from voucher where code = ? and used_by is null', [body.code], { as: int });
  if (cents === undefined) throw new Conflict('used');
  await tx.execute('update voucher set used_by = ? where code = ?', [me.sub, body.code]); // SVC642
  await tx.execute('update wallet set cents = cents + ? where person = ?', [cents ?? 0, me.sub]);
  return { cents };
});
app.post('/redeem-once', spec, async ({ me, tx, body }) => {
  const cents = await tx.scalar('update voucher set used_by = ? where code = ? and used_by is null returning cents', [me.sub, body.code], { as: int });
  if (cents === undefined) throw new Conflict('used');
  await tx.execute('update wallet set cents = cents + ? where person = ?', [cents ?? 0, me.sub]);
  return { cents };
});
// FILE migrations/0001_init.up.sql
create table voucher (code text primary key, cents bigint not null, used_by text);
create table wallet (person text primary key, cents bigint not null);
`,
  'the header of a token names the algorithms that verify it': `
// FILE app.ts
import { Svc } from 'svc';
import { byList, byPackage, byRule, byText } from './tokens.ts';
export const app = new Svc();
app.get('/a', { public: 'x' }, ({ req }) => byPackage(req.headers['x-token'] ?? ''));
app.get('/b', { public: 'x' }, ({ req }) => byText(req.headers['x-token'] ?? ''));
app.get('/c', { public: 'x' }, ({ req }) => byRule(req.headers['x-token'] ?? ''));
app.get('/d', { public: 'x' }, ({ req }) => byList(req.headers['x-token'] ?? ''));
// FILE headers.ts
import { decodeProtectedHeader } from 'jose';
export const algorithmOf = (token: string) => decodeProtectedHeader(token).alg ?? '';
export const headerOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
// FILE tokens.ts
import { Unauthorized } from 'svc';
import jwt from 'jsonwebtoken';
import { jwtVerify } from 'jose';
import { algorithmOf, headerOf } from './headers.ts';
const key = process.env['PARTNER_KEY'] ?? '';
export const byPackage = (token: string) => jwtVerify(token, new TextEncoder().encode(key), { algorithms: [algorithmOf(token)] }); // SVC624
export function byText(token: string) {
  const { alg } = headerOf(token);
  return jwt.verify(token, key, { algorithms: [alg] }); // SVC624
}
export const byRule = (token: string) => jwt.verify(token, key, { algorithms: ['HS256'] });
export function byList(token: string) {
  const { alg } = headerOf(token);
  if (alg !== 'HS256' && alg !== 'HS512') throw new Unauthorized();
  return jwt.verify(token, key, { algorithms: [alg] });
}
`,
  'right: rows of a statistic and of searches beside a change': `
// FILE app.ts
import { BearerAuth, Conflict, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Search extends Schema { text = Field(str, { maxLength: 40 }); }
const spec = { me: Depends(BearerAuth()), db: Depends(db), body: Search, status: 204 } as const;
app.post('/searches', spec, async ({ me, db, body }) => {
  await db.execute('update profile set seen_at = now() where owner = ?', [me.sub]);
  await db.execute('insert into search_history (owner, text) values (?, ?)', [me.sub, body.text]);
});
app.post('/calls', spec, async ({ me, db }) => {
  const { affectedRows } = await db.execute('update quota set remaining = remaining - 1 where owner = ? and remaining > 0', [me.sub]);
  if (affectedRows === 0) throw new Conflict('quota');
  await db.execute('insert into call_stat (owner, kind) values (?, ?)', [me.sub, 'call']);
});
app.post('/visits', spec, async ({ me, db, body }) => {
  await db.execute('update inbox set unread = unread - 1 where owner = ? and unread > 0', [me.sub]);
  await db.execute('insert into visit (page) values (?) on conflict (page) do nothing', [body.text]);
});
// FILE migrations/0001_init.up.sql
create table profile (owner text primary key, seen_at timestamptz);
create table search_history (owner text not null, text text not null);
create table quota (owner text primary key, remaining integer not null);
create table call_stat (owner text not null, kind text not null);
create table inbox (owner text primary key, unread integer not null);
create table visit (page text primary key);
`,
  'a change and its row of a history': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
class Rename extends Schema { name = Field(str, { maxLength: 40 }); }
app.patch('/team', { me: Depends(BearerAuth()), db: Depends(db), body: Rename, status: 204 }, async ({ me, db, body }) => {
  await db.execute('update team set name = ? where owner = ?', [body.name, me.sub]); // SVC643
  await db.execute('insert into team_history (actor, name) values (?, ?)', [me.sub, body.name]);
});
// FILE migrations/0001_init.up.sql
create table team (owner text primary key, name text not null);
create table team_history (id integer primary key generated always as identity, actor text not null, name text not null);
`,
};
