/** Dependencies of the project: inputs that they declare, and guards that any client passes. */
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
    if (headers.xZone === 'inner') return INTERNAL; // SVC646
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
};
