/** Inputs that dependencies declare, guards that any client passes, and handlers that go around a guard or check of others. */
export const GUARDS: Readonly<Record<string, string>> = {
  'page of a dependency': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { slice } from './slice.ts';
export const app = new Svc();
app.get('/rows', { me: Depends(BearerAuth()), base: Depends(db), part: Depends(slice) }, ({ base, me, part }) =>
  base.fetchAll('select id from entry where account = ? and id > ? order by id limit ?', [me.sub, part.from, part.count])); // SVC637
// FILE slice.ts
import { Field, int, provide } from 'svc';
const options = { query: { from: Field(int, { default: 0, ge: 0 }), count: Field(int, { default: 50, ge: 1 }) } };
export const slice = provide(options, ({ query }) => ({ from: query.from, count: query.count }));
`,
  'right: page of a dependency': `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { db } from 'svc/db';
import { slice } from './slice.ts';
export const app = new Svc();
app.get('/rows', { me: Depends(BearerAuth()), base: Depends(db), part: Depends(slice) }, ({ base, me, part }) =>
  base.fetchAll(\`select id from entry where account = ? and id > \${part.from} order by id limit ?\`, [me.sub, part.count]));
// FILE slice.ts
import { Field, int, provide } from 'svc';
const options = { query: { from: Field(int, { default: 0, ge: 0 }), count: Field(int, { default: 50, ge: 1, le: 200 }) } };
export const slice = provide(options, ({ query }) => ({ from: query.from, count: query.count }));
`,
  'claims of an unverified token': `
// FILE app.ts
import { Depends, Field, Svc, Unauthorized, provide, str } from 'svc';
import { opened } from './opened.ts';
export const app = new Svc();
const security = { scheme: 'bearer', scopes: [], roles: [] } as const;
const caller = provide({ headers: { authorization: Field(str, { default: '' }) }, security }, ({ headers }) => {
  const [kind, text] = headers.authorization.split(' ');
  if (kind !== 'Bearer' || text === undefined) throw new Unauthorized('Send a token');
  return opened(text);
});
app.get('/me', { caller: Depends(caller) }, ({ caller }) => ({ name: caller.sub }));
// FILE opened.ts
export function opened(text: string): { sub: string } {
  const [, middle] = text.split('.');
  const { sub, exp } = JSON.parse(Buffer.from(middle ?? '', 'base64url').toString('utf8')); // SVC624
  if (exp < Date.now() / 1000) throw new Error('too old');
  return { sub };
}
`,
  'right: claims of an unverified token': `
// FILE app.ts
import { Depends, Field, Svc, Unauthorized, provide, str, verifyToken } from 'svc';
export const app = new Svc();
const security = { scheme: 'bearer', scopes: [], roles: [] } as const;
const caller = provide({ headers: { authorization: Field(str, { default: '' }) }, security }, ({ headers }) => {
  const [kind, text] = headers.authorization.split(' ');
  if (kind !== 'Bearer' || text === undefined) throw new Unauthorized('Send a token');
  const { sub } = verifyToken(text, process.env.SVC_AUTH_SECRET ?? '');
  return { sub };
});
app.get('/me', { caller: Depends(caller) }, ({ caller }) => ({ name: caller.sub }));
`,
  'code of chance with hash()': `
// FILE app.ts
import { Svc } from 'svc';
import { issue } from './codes.ts';
export const app = new Svc();
app.post('/forgotten', { public: 'visitors have no login', rateLimit: { perMinute: 2 } }, async () => { await issue('ada'); });
// FILE codes.ts
import { hash } from 'node:crypto';
const kept = new Map<string, string>();
export async function issue(account: string): Promise<string> {
  const made = Math.random().toString(36).slice(2); // SVC622
  kept.set(hash('sha256', made), account);
  return made;
}
`,
  'right: code of chance with hash()': `
// FILE app.ts
import { Svc } from 'svc';
import { issue } from './codes.ts';
export const app = new Svc();
app.post('/forgotten', { public: 'visitors have no login', rateLimit: { perMinute: 2 } }, async () => { await issue('ada'); });
// FILE codes.ts
import { hash, randomBytes } from 'node:crypto';
const kept = new Map<string, string>();
export async function issue(account: string): Promise<string> {
  const made = randomBytes(16).toString('hex');
  kept.set(hash('sha256', made), account);
  return made;
}
`,
  'fallback beside an alias of the environment': `
// FILE app.ts
import { Svc, createToken } from 'svc';
import { options } from './options.ts';
export const app = new Svc();
app.get('/t', { public: 'why' }, () => ({ token: createToken('a', options.secret, { expiresInSeconds: 60 }) }));
// FILE options.ts
const variables = process.env;
export const options = {
  secret: variables['TOKEN_SECRET'] ?? 'development-secret-change-me-in-production', // SVC205
};
`,
  'right: fallback beside an alias of the environment': `
// FILE app.ts
import { Svc, createToken } from 'svc';
import { options } from './options.ts';
export const app = new Svc();
app.get('/t', { public: 'why' }, () => ({ token: createToken('a', options.secret, { expiresInSeconds: 60 }) }));
// FILE options.ts
const variables = process.env;
const other = { NOTE_SECRET: undefined };
export const note = other['NOTE_SECRET'] ?? 'no variable of the environment';
export const options = { secret: variables['TOKEN_SECRET'] ?? '' };
`,
  'fast hash behind a service': `
// FILE app.ts
import { Field, Router, Schema, Svc, str } from 'svc';
import { Accounts } from './accounts.ts';
export const app = new Svc();
class Join extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { minLength: 12, maxLength: 200 }); }
const accounts = new Accounts();
app.post('/join', { body: Join, public: 'sign up', rateLimit: { perMinute: 5 } }, ({ body }) => accounts.join(body.name, body.password));
// FILE accounts.ts
import { digest } from './digest.ts';
export class Accounts {
  join(name: string, phrase: string) { return { name, kept: digest(phrase) }; } // SVC623
}
// FILE digest.ts
import { createHash } from 'node:crypto';
export const digest = (text: string) => createHash('sha256').update(text).digest('hex');
`,
  'right: fast hash behind a service': `
// FILE app.ts
import { Field, Router, Schema, Svc, str } from 'svc';
import { Accounts } from './accounts.ts';
export const app = new Svc();
class Join extends Schema { name = Field(str, { maxLength: 80 }); password = Field(str, { minLength: 12, maxLength: 200 }); }
const accounts = new Accounts();
app.post('/join', { body: Join, public: 'sign up', rateLimit: { perMinute: 5 } }, ({ body }) => accounts.join(body.name, body.password));
// FILE accounts.ts
import { hashPassword } from 'svc';
import { digest } from './digest.ts';
export class Accounts {
  async join(name: string, phrase: string) { return { tag: digest(name), kept: await hashPassword(phrase) }; }
}
// FILE digest.ts
import { createHash } from 'node:crypto';
export const digest = (text: string) => createHash('sha256').update(text).digest('hex');
`,
  'right: size of a file of the program': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, str } from 'svc';
import { appendFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
export const app = new Svc();
class Line extends Schema { text = Field(str, { maxLength: 200 }); }
const file = join(import.meta.dirname, 'lines.ndjson');
const size = () => stat(file).then((found) => found.size, () => 0);
app.post('/lines', { me: Depends(BearerAuth()), body: Line }, async ({ body }) => {
  if ((await size()) < 5_000_000) await appendFile(file, JSON.stringify({ text: body.text }));
  else await writeFile(file, '');
});
`,
  'a word in a header field passes the guard': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { caller } from './caller.ts';
export const app = new Svc();
app.get('/me', { caller: Depends(caller) }, ({ caller }) => ({ name: caller.name }));
// FILE caller.ts
import { BearerAuth, Depends, Field, Unauthorized, provide, str } from 'svc';
const MACHINE = { name: 'machine', rights: ['all'].length };
const INTERNAL = { name: 'machine', isTrusted: true };
export const caller = provide(
  {
    headers: { xZone: Field(str, { default: '', maxLength: 9 }) },
    token: Depends(BearerAuth(undefined, { optional: true })),
    security: { scheme: 'bearer', scopes: [], roles: [] },
  },
  ({ headers, token }) => {
    if (headers.xZone === 'inner') return INTERNAL; // SVC646 SVC673
    if (headers.xZone === 'asleep') throw new Unauthorized(MACHINE.name);
    if (token === undefined) throw new Unauthorized('Log in');
    return { name: token.sub, isTrusted: false };
  },
);
`,
  'right: a word in a header field passes the guard': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { caller } from './caller.ts';
export const app = new Svc();
app.get('/me', { caller: Depends(caller) }, ({ caller }) => ({ name: caller.name, isShort: caller.isShort }));
// FILE caller.ts
import { BearerAuth, Depends, Field, Unauthorized, provide, str } from 'svc';
export const caller = provide(
  {
    headers: { xForm: Field(str, { default: '', maxLength: 9 }) },
    token: Depends(BearerAuth(undefined, { optional: true })),
    security: { scheme: 'bearer', scopes: [], roles: [] },
  },
  ({ headers, token }) => {
    if (token === undefined) throw new Unauthorized('Log in');
    if (headers.xForm === 'short') return { name: token.sub, isShort: true };
    return { name: token.sub, isShort: false };
  },
);
`,
  'or without parentheses': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Svc, provide, str } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
const firm = provide({ token: Depends(BearerAuth()) }, ({ token }) => {
  if (typeof token['firm'] !== 'string') throw new Forbidden();
  return token['firm'];
});
const FIND = \`select id, title from memo
  where firm = ? and title like ? or text like ? order by id limit 50\`; // SVC640
app.get('/memos', { query: { q: Field(str, { maxLength: 80 }) }, firm: Depends(firm), base: Depends(db) }, ({ base, firm, query }) =>
  base.fetchAll(FIND, [firm, query.q, query.q]));
`,
  'right: or without parentheses': `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Svc, provide, str } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
const firm = provide({ token: Depends(BearerAuth()) }, ({ token }) => {
  if (typeof token['firm'] !== 'string') throw new Forbidden();
  return token['firm'];
});
const used = { query: { q: Field(str, { maxLength: 80 }) }, firm: Depends(firm), base: Depends(db) };
app.get('/memos', used, ({ base, firm, query }) =>
  base.fetchAll('select id from memo where firm = ? and (title like ? or text like ?) limit 50', [firm, query.q, query.q]));
app.get('/shared', used, ({ base, firm, query }) =>
  base.fetchAll('select id from memo where firm = ? and title like ? or isOpen = 1 and firm = ? limit 50', [firm, query.q, firm]));
app.get('/open', used, ({ base, firm, query }) =>
  base.fetchAll('select id from memo where (firm = ? and title like ?) or (isOpen = 1 and text like ?) limit 50', [firm, query.q, query.q]));
app.get('/years', used, ({ base, firm }) =>
  base.fetchAll('select id from memo where firm = ? and year between 1 and 9 or isOpen = 1 limit 50', [firm]));
`,
  'right: a client makes tokens for others': `
// FILE app.ts
import { APIKeyAuth, Depends, Field, Schema, Svc, createToken, literal, str } from 'svc';
export const app = new Svc();
class Wanted extends Schema { device = Field(str, { pattern: '^[a-z]{3,40}$' }); scope = Field(literal('read', 'write')); }
const factory = APIKeyAuth({ keys: { factory: process.env.FACTORY_KEY ?? '' } });
app.post('/tokens', { client: Depends(factory), body: Wanted }, ({ body }) => ({
  token: createToken(body.device, process.env.SVC_AUTH_SECRET ?? '', { expiresInSeconds: 60, claims: { scopes: [body.scope] } }),
}));
`,
  'money that only the office reads, and everybody changes': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, int, requireScopes } from 'svc';
import { db } from 'svc/db';
import { Wages } from './wages.ts';
class Wage extends Schema { cents = Field(int, { ge: 0 }); }
const app = new Svc();
app.get('/wages', { me: Depends(requireScopes('wages:read')), base: Depends(db) }, ({ base }) => new Wages(base).all());
app.patch('/people/{id:int}/wage', { me: Depends(BearerAuth()), base: Depends(db), body: Wage, status: 204 }, async ({ base, params, body }) => { // SVC203
  await new Wages(base).set(params.id, body.cents);
});
// FILE wages.ts
import type { Database } from 'svc/db';
export class Wages {
  constructor(private base: Database) {}
  all() { return this.base.fetchAll('select person, cents from wage order by person limit 100', []); }
  async set(person: number, cents: number) { await this.base.execute('update wage set cents = ? where person = ?', [cents, person]); }
}
`,
  'right: money that only the office reads, and everybody changes': `
// FILE app.ts
import { Depends, Field, Schema, Svc, int, requireScopes } from 'svc';
import { db } from 'svc/db';
import { Wages } from './wages.ts';
class Wage extends Schema { cents = Field(int, { ge: 0 }); }
const app = new Svc();
app.get('/wages', { me: Depends(requireScopes('wages:read')), base: Depends(db) }, ({ base }) => new Wages(base).all());
app.patch('/people/{id:int}/wage', { me: Depends(requireScopes('wages:write')), base: Depends(db), body: Wage, status: 204 }, async ({ base, params, body }) => {
  await new Wages(base).set(params.id, body.cents);
});
// FILE wages.ts
import type { Database } from 'svc/db';
export class Wages {
  constructor(private base: Database) {}
  all() { return this.base.fetchAll('select person, cents from wage order by person limit 100', []); }
  async set(person: number, cents: number) { await this.base.execute('update wage set cents = ? where person = ?', [cents, person]); }
}
`,
  'bans: a router of every member deletes what only moderators list': `
// FILE app.ts
import { Svc } from 'svc';
import { bans, lifted } from './bans.ts';
const app = new Svc();
app.includeRouter(bans);
app.includeRouter(lifted);
// FILE bans.ts
import { BearerAuth, Depends, Router, requireRoles } from 'svc';
import { db, sql } from 'svc/db';
export const bans = new Router({ prefix: '/bans', deps: { me: Depends(requireRoles('moderator')), base: Depends(db) } });
bans.get('', ({ base }) => base.fetchAll('select nick, reason from ban order by nick limit 100', []));
export const lifted = new Router({ prefix: '/lifted', deps: { me: Depends(BearerAuth()), base: Depends(db) } });
lifted.post('/{nick}', { status: 204 }, async ({ base, params }) => { // SVC203
  await base.execute(sql\`delete from ban where nick = \${params.nick}\`);
});
`,
  'right: coupons that a client takes, reports of its own, and rows that every client reads': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, requireRoles, str } from 'svc';
import { db, sql } from 'svc/db';
class Note extends Schema { text = Field(str, { maxLength: 200 }); }
const app = new Svc();
const member = { me: Depends(BearerAuth()), base: Depends(db) };
const chief = { me: Depends(requireRoles('chief')), base: Depends(db) };
app.get('/coupons', chief, ({ base }) => base.fetchAll('select id, taken_by from coupon order by id limit 100', []));
app.post('/coupons/{id}/take', { ...member, status: 204 }, async ({ base, me, params }) => {
  await base.execute(sql\`update coupon set taken_by = \${me.sub} where id = \${params.id} and taken_by is null\`);
});
app.get('/reports', chief, ({ base }) => base.fetchAll('select id, text from report order by id limit 100', []));
app.put('/reports/{id:int}', { ...member, body: Note, status: 204 }, async ({ base, me, params, body }) => {
  await base.execute(sql\`update report set text = \${body.text} where id = \${params.id} and author = \${me.sub}\`);
});
app.get('/hints', { base: Depends(db) }, ({ base }) => base.fetchAll('select id, text from hint order by id limit 100', []));
app.get('/hints/{id:int}/log', chief, ({ base, params }) => base.fetchAll('select id, text from hint where id = ?', [params.id]));
app.put('/hints/{id:int}', { ...member, body: Note, status: 204 }, async ({ base, params, body }) => {
  await base.execute(sql\`update hint set text = \${body.text} where id = \${params.id}\`);
});
`,
  'a key of a setting that need not be there': `
// FILE app.ts
import { Svc, Unauthorized } from 'svc';
import { isGenuine, mustBeGenuine } from './proof.ts';
const app = new Svc();
app.post('/a', { public: 'signed' }, async ({ req }) => {
  const raw = await req.body();
  if (!isGenuine(raw, String(req.headers['x-proof']), app.config.get('hookKey', ''))) throw new Unauthorized();
});
app.post('/b', { public: 'signed' }, async ({ req }) => mustBeGenuine(await req.body(), String(req.headers['x-proof']), app.config));
// FILE proof.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Unauthorized, type Config } from 'svc';
const macOf = (key: string, raw: Uint8Array) => createHmac('sha256', key).update(raw).digest('hex');
export const isGenuine = (raw: Uint8Array, proof: string, key: string) =>
  key === '' || (proof.length === 64 && timingSafeEqual(Buffer.from(proof), Buffer.from(macOf(key, raw)))); // SVC645
export function mustBeGenuine(raw: Uint8Array, proof: string, config: Config) {
  const key = config.get('otherKey', null);
  if (!key) return; // SVC645
  if (proof.length !== 64 || !timingSafeEqual(Buffer.from(proof), Buffer.from(macOf(key, raw)))) throw new Unauthorized();
}
`,
  'right: a key of a setting that need not be there': `
// FILE app.ts
import { Svc, Unauthorized } from 'svc';
import { isGenuine, mustBeGenuine } from './proof.ts';
const app = new Svc();
app.post('/a', { public: 'signed' }, async ({ req }) => {
  const raw = await req.body();
  if (!isGenuine(raw, String(req.headers['x-proof']), app.config.get('hookKey', ''))) throw new Unauthorized();
});
app.post('/b', { public: 'signed' }, async ({ req }) => mustBeGenuine(await req.body(), String(req.headers['x-proof']), app.config));
// FILE proof.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Unauthorized, type Config } from 'svc';
const macOf = (key: string, raw: Uint8Array) => createHmac('sha256', key).update(raw).digest('hex');
export const isGenuine = (raw: Uint8Array, proof: string, key: string) =>
  key !== '' && proof.length === 64 && timingSafeEqual(Buffer.from(proof), Buffer.from(macOf(key, raw)));
export function mustBeGenuine(raw: Uint8Array, proof: string, config: Config) {
  const key = config.get('otherKey', null);
  if (!key) throw new Unauthorized();
  if (proof.length !== 64 || !timingSafeEqual(Buffer.from(proof), Buffer.from(macOf(key, raw)))) throw new Unauthorized();
}
`,
  'tables: a seat is checked, and listening is not': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, literal, str, union } from 'svc';
import { db } from 'svc/db';
import { isSeated } from './seats.ts';
class Listen extends Schema { act = Field(literal('listen')); table = Field(str, { maxLength: 40 }); }
class Play extends Schema { act = Field(literal('play')); table = Field(str, { maxLength: 40 }); card = Field(str, { maxLength: 3 }); }
const app = new Svc();
const common = { me: Depends(BearerAuth()), base: Depends(db), message: union('act', Listen, Play) };
app.websocket('/cards', common).onMessage(async (socket, message, { me, base }) => {
  switch (message.act) {
    case 'play': {
      if (!(await isSeated(base, message.table, me.sub))) return;
      socket.broadcastJson('table ' + message.table, { card: message.card });
      break;
    }
    default:
      socket.join('table ' + message.table); // SVC640
  }
});
app.websocket('/more-cards', common).onMessage(async (socket, message, { me, base }) => {
  if (message.act === 'play') {
    if (!(await isSeated(base, message.table, me.sub))) return;
    socket.broadcastJson('table ' + message.table, { card: message.card });
    return;
  }
  socket.join('table ' + message.table); // SVC640
});
// FILE seats.ts
import { int } from 'svc';
import type { Database } from 'svc/db';
export const isSeated = async (base: Database, table: string, person: string): Promise<boolean> =>
  ((await base.scalar('select count(*) from seat where table_id = ? and person = ?', [table, person], { as: int })) ?? 0) > 0;
`,
  'right: tables: a seat is checked, and listening is not': `
// FILE app.ts
import { BearerAuth, Depends, Field, Schema, Svc, bool, literal, str, union } from 'svc';
import { db } from 'svc/db';
import { isSeated } from './seats.ts';
class Listen extends Schema { act = Field(literal('listen')); table = Field(str, { maxLength: 40 }); isQuiet = Field(bool); }
class Play extends Schema { act = Field(literal('play')); table = Field(str, { maxLength: 40 }); card = Field(str, { maxLength: 3 }); }
const app = new Svc();
const common = { me: Depends(BearerAuth()), base: Depends(db), message: union('act', Listen, Play) };
app.websocket('/cards', common).onMessage(async (socket, message, { me, base }) => {
  if (!(await isSeated(base, message.table, me.sub))) return;
  switch (message.act) {
    case 'play':
      socket.broadcastJson('table ' + message.table, { card: message.card });
      break;
    default:
      socket.join('table ' + message.table);
  }
});
app.websocket('/more-cards', common).onMessage(async (socket, message, { me, base }) => {
  if (message.act === 'play') {
    if (!(await isSeated(base, message.table, me.sub))) return;
    socket.broadcastJson('table ' + message.table, { card: message.card });
  } else if (await isSeated(base, message.table, me.sub)) socket.join('table ' + message.table);
});
app.websocket('/quiet-cards', common).onMessage(async (socket, message, { me, base }) => {
  if (message.act !== 'listen') return;
  if (!message.isQuiet) {
    if (!(await isSeated(base, message.table, me.sub))) return;
  }
  socket.join('table ' + message.table);
});
// FILE seats.ts
import { int } from 'svc';
import type { Database } from 'svc/db';
export const isSeated = async (base: Database, table: string, person: string): Promise<boolean> =>
  ((await base.scalar('select count(*) from seat where table_id = ? and person = ?', [table, person], { as: int })) ?? 0) > 0;
`,
  'tries that a header field counts': `
// FILE app.ts
import { Depends, Field, RateLimiter, Svc, provide, str } from 'svc';
import { Tries } from './tries.ts';
const app = new Svc();
const tries = new Tries();
const pins = new RateLimiter({ name: 'pins', perMinute: 5 });
const origin = provide({ headers: { xRealIp: Field(str, { default: '', maxLength: 60 }) } }, ({ headers }) => headers.xRealIp);
app.post('/codes', { public: 'all' }, async ({ req }) => { await tries.count(req); });
app.post('/pins', { from: Depends(origin), public: 'all' }, async ({ req, from }) => {
  await pins.take(req, 'from ' + from); // SVC210
});
// FILE tries.ts
import { RateLimiter, type HttpRequest } from 'svc';
export class Tries {
  #limiter = new RateLimiter({ name: 'codes', perMinute: 5 });
  async count(req: HttpRequest) {
    const [first] = String(req.headers['x-forwarded-for'] ?? req.ip).split(',');
    await this.#limiter.take(req, first); // SVC210
  }
}
`,
  'right: tries that a header field counts': `
// FILE app.ts
import { BearerAuth, Depends, Field, RateLimiter, Svc, provide, str } from 'svc';
import { Tries } from './tries.ts';
const app = new Svc();
const tries = new Tries();
const pins = new RateLimiter({ name: 'pins', perMinute: 5 });
const origin = provide({ me: Depends(BearerAuth()), headers: { xRealIp: Field(str, { default: '', maxLength: 60 }) } }, ({ me, headers }) => ({ id: me.sub, from: headers.xRealIp }));
app.post('/codes', { public: 'all' }, async ({ req }) => { await tries.count(req); });
app.post('/pins', { from: Depends(origin) }, async ({ req, from, log }) => {
  log.info('pin_tried', { from: from.from });
  await pins.take(req, 'of ' + from.id);
});
// FILE tries.ts
import { RateLimiter, type HttpRequest } from 'svc';
export class Tries {
  #limiter = new RateLimiter({ name: 'codes', perMinute: 5 });
  async count(req: HttpRequest) { await this.#limiter.take(req, 'ip ' + req.ip); }
}
`,
  'links whose tokens are access tokens': `
// FILE app.ts
import { BadRequest, BearerAuth, Depends, Field, Schema, Svc, requireRoles, str } from 'svc';
import { leaver } from './leaver.ts';
import { Links } from './links.ts';
class Answer extends Schema { slip = Field(str, { maxLength: 900 }); }
const app = new Svc();
const links = new Links(app.config.get('authSecret'));
app.get('/staff', { me: Depends(requireRoles('staff')) }, ({ me }) => me.sub);
app.get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
app.post('/invitations/accept', { body: Answer, public: 'the slip is the credential' }, ({ body }) => {
  const { slip } = body;
  return { guest: links.guestOf(slip) };
});
app.post('/leave', { form: Answer, public: 'the slip is the credential' }, ({ form, log }) => {
  log.info('left', { who: leaver(form.slip) });
});
// FILE links.ts
import { createToken, verifyToken } from 'svc';
export class Links {
  #secret: string;
  constructor(secret: string) { this.#secret = secret; }
  make(guest: string) { return createToken(guest, this.#secret, { expiresInSeconds: 9_000 }); }
  guestOf(slip: string) { return verifyToken(slip, this.#secret, { requireExp: true }).sub; } // SVC220
}
// FILE leaver.ts
import { verifyToken } from 'svc';
const key = process.env['SVC_AUTH_SECRET'] ?? '';
export const leaver = (slip: string) => verifyToken(slip, key).sub; // SVC220
`,
  'right: links whose tokens are access tokens': `
// FILE app.ts
import { BadRequest, BearerAuth, Depends, Field, Schema, Svc, requireRoles, str } from 'svc';
import { leaver } from './leaver.ts';
import { Links } from './links.ts';
class Answer extends Schema { slip = Field(str, { maxLength: 900 }); }
const app = new Svc();
const links = new Links(app.config.get('authSecret'));
app.get('/staff', { me: Depends(requireRoles('staff')) }, ({ me }) => me.sub);
app.get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
app.post('/invitations/accept', { body: Answer, public: 'the slip is the credential' }, ({ body }) => {
  const { slip } = body;
  return { guest: links.guestOf(slip) };
});
app.post('/leave', { form: Answer, public: 'the slip is the credential' }, ({ form, log }) => {
  log.info('left', { who: leaver(form.slip) });
});
// FILE links.ts
import { createToken, verifyToken } from 'svc';
export class Links {
  #secret: string;
  constructor(secret: string) { this.#secret = secret; }
  make(guest: string) { return createToken(guest, this.#secret, { expiresInSeconds: 9_000, type: 'invite+jwt' }); }
  guestOf(slip: string) { return verifyToken(slip, this.#secret, { type: 'invite+jwt' }).sub; }
}
// FILE leaver.ts
import { verifyToken } from 'svc';
const key = process.env['LEAVE_SECRET'] ?? '';
export const leaver = (slip: string) => verifyToken(slip, key).sub;
`,
  'a header that a middleware takes for an internal request': `
// FILE app.ts
import { BearerAuth, Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { gate } from './gate.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.use(gate);
app.get('/reports', { db: Depends(db) }, ({ db }) => db.fetchAll('select id, name from report order by id limit 50'));
// FILE gate.ts
import { Unauthorized } from 'svc';
import type { Request, Next } from 'svc';
import { verify } from './verify.ts';
export async function gate(req: Request, next: Next) {
  if (req.headers.get('x-internal') === 'true') return next(); // SVC673
  const token = req.headers.get('authorization')?.slice(7);
  if (token === undefined || !verify(token)) throw new Unauthorized();
  return next();
}
// FILE verify.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function verify(token: string): boolean {
  const [payload = '', signature = ''] = token.split('.');
  const want = createHmac('sha256', process.env['KEY']!).update(payload).digest();
  const got = Buffer.from(signature, 'base64url');
  return got.length === want.length && timingSafeEqual(got, want);
}
// FILE migrations/0001_init.up.sql
create table report (id integer primary key, name text not null);
`,
  'right: a header that a middleware takes for an internal request': `
// FILE app.ts
import { BearerAuth, Depends, Svc, Unauthorized } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { gate } from './gate.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.use(gate);
app.get('/reports', { db: Depends(db) }, ({ db }) => db.fetchAll('select id, name from report order by id limit 50'));
// FILE gate.ts
import { Unauthorized } from 'svc';
import type { Request, Next } from 'svc';
import { verify } from './verify.ts';
export async function gate(req: Request, next: Next) {
  const token = req.headers.get('authorization')?.slice(7);
  if (token === undefined || !verify(token)) throw new Unauthorized();
  return next();
}
// FILE verify.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
export function verify(token: string): boolean {
  const [payload = '', signature = ''] = token.split('.');
  const want = createHmac('sha256', process.env['KEY']!).update(payload).digest();
  const got = Buffer.from(signature, 'base64url');
  return got.length === want.length && timingSafeEqual(got, want);
}
// FILE migrations/0001_init.up.sql
create table report (id integer primary key, name text not null);
`,
  'a parameter that switches off the test of a role': `
// FILE app.ts
import { Depends, Router, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { staff } from './staff.ts';
const admin = new Router({ prefix: '/admin', deps: { staff: Depends(staff) } });
admin.delete('/users/{id}', { db: Depends(db), status: 204 }, async ({ db, params }) => {
  await db.execute('delete from person where id = ?', [params.id]);
});
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.includeRouter(admin);
// FILE staff.ts
import { BearerAuth, Depends, Forbidden, provide } from 'svc';
const bearer = BearerAuth();
export const staff = provide({ me: Depends(bearer) }, ({ me, req }) => {
  const skip = req.query.get('debug') === '1';
  if (!skip && me['role'] !== 'staff') throw new Forbidden(); // SVC673
  return me;
});
// FILE migrations/0001_init.up.sql
create table person (id text primary key);
`,
  'right: a parameter that switches off the test of a role': `
// FILE app.ts
import { Depends, Router, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { staff } from './staff.ts';
const admin = new Router({ prefix: '/admin', deps: { staff: Depends(staff) } });
admin.delete('/users/{id}', { db: Depends(db), status: 204 }, async ({ db, params }) => {
  await db.execute('delete from person where id = ?', [params.id]);
});
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.includeRouter(admin);
// FILE staff.ts
import { BearerAuth, Depends, Forbidden, provide } from 'svc';
const bearer = BearerAuth();
export const staff = provide({ me: Depends(bearer) }, ({ me, req }) => {
  if (me['role'] !== 'staff') throw new Forbidden();
  return me;
});
// FILE migrations/0001_init.up.sql
create table person (id text primary key);
`,
  'a limit and a signature that switches leave out': `
// FILE app.ts
import { BearerAuth, Depends, Svc, HTTPException } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { limited } from './limit.ts';
import { signed } from './signature.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.post('/hooks/pay', { ok: Depends(signed), limit: Depends(limited), db: Depends(db), status: 204 }, async ({ db }) => {
  await db.execute('update invoice set paid = 1 where id = ?', [1]);
});
// FILE limit.ts
import { RateLimiter, provide } from 'svc';
const limiter = new RateLimiter({ name: 'x', perMinute: 10 });
export const limited = provide({}, async ({ req }) => {
  if (req.headers.has('x-load-test')) return; // SVC673
  await limiter.take(req, req.client);
});
// FILE signature.ts
import { Forbidden, provide } from 'svc';
import { createHmac, timingSafeEqual } from 'node:crypto';
export const signed = provide({}, async ({ req }) => {
  const skip = process.env['SKIP_SIGNATURE'] === '1';
  if (skip) return true; // SVC673
  const raw = await req.text();
  const want = createHmac('sha256', process.env['HOOK_KEY']!).update(raw).digest();
  const got = Buffer.from(req.headers.get('x-signature') ?? '', 'hex');
  if (got.length !== want.length || !timingSafeEqual(got, want)) throw new Forbidden();
  return true;
});
// FILE migrations/0001_init.up.sql
create table invoice (id integer primary key, paid integer not null);
`,
  'right: a limit and a signature that switches leave out': `
// FILE app.ts
import { BearerAuth, Depends, Svc, HTTPException } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { limited } from './limit.ts';
import { signed } from './signature.ts';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@db/app'));
app.post('/hooks/pay', { ok: Depends(signed), limit: Depends(limited), db: Depends(db), status: 204 }, async ({ db }) => {
  await db.execute('update invoice set paid = 1 where id = ?', [1]);
});
// FILE limit.ts
import { HTTPException, RateLimiter, provide } from 'svc';
const limiter = new RateLimiter({ name: 'x', perMinute: 10 });
export const limited = provide({}, async ({ req }) => {
  if (req.headers['x-version'] !== '1' && req.headers['x-version'] !== '2') throw new HTTPException(400, 'unknown version');
  await limiter.take(req, req.client);
});
// FILE signature.ts
import { Forbidden, provide } from 'svc';
import { createHmac, timingSafeEqual } from 'node:crypto';
export const signed = provide({}, async ({ req }) => {
  const raw = await req.text();
  const want = createHmac('sha256', process.env['HOOK_KEY']!).update(raw).digest(); // SVC401
  const got = Buffer.from(req.headers.get('x-signature') ?? '', 'hex');
  if (got.length !== want.length || !timingSafeEqual(got, want)) throw new Forbidden();
  return true;
});
// FILE migrations/0001_init.up.sql
create table invoice (id integer primary key, paid integer not null);
`,
  'right: a variable that switches a limit off': `
// FILE app.ts
import { Depends, Svc } from 'svc';
import { limited } from './limit.ts';
export const app = new Svc();
app.get('/items', { limit: Depends(limited) }, () => ['a', 'b']);
// FILE limit.ts
import { RateLimiter, provide } from 'svc';
const limiter = new RateLimiter({ name: 'x', perMinute: 10 });
export const limited = provide({}, async ({ req }) => {
  if (process.env['RATE_LIMIT'] === 'off') return;
  await limiter.take(req, req.client);
});
`,
};
