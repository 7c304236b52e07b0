/** Applications whose mistakes the analysis finds through tables of functions, closures, generators and other modules. */
export const KINDS_OF_FLOW: Readonly<Record<string, string>> = {
  'weak random': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { mint } from './mint.ts';
export const app = new Svc();
app.post('/forgot', { store: Depends(db), public: 'reset' }, async ({ body, store }) => {
  const value = mint();
  await store.execute('insert into reset (mail, token) values (?, ?)', [body.mail, value]);
  return { sent: true };
});
// FILE mint.ts
export const mint = () => (Date.now() * 7919 % 1_000_000_007).toString(36) + Math.floor(Math.random() * 1e9).toString(36); // SVC622
`,
  'right: weak random': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { mint } from './mint.ts';
export const app = new Svc();
app.post('/forgot', { store: Depends(db), public: 'reset' }, async ({ body, store }) => {
  const value = mint();
  await store.execute('insert into reset (mail, token) values (?, ?)', [body.mail, value]);
  return { sent: true };
});
// FILE mint.ts
import { randomBytes } from 'node:crypto';
export const mint = () => randomBytes(24).toString('base64url');
`,
  'path table': `
// FILE app.ts
import { Svc } from 'svc';
import { handlers } from './handlers.ts';
export const app = new Svc();
for (const { path, run } of handlers) app.get(path, { public: 'docs' }, run);
// FILE handlers.ts
import { readFile } from 'node:fs/promises';
import { FileResponse } from 'svc';
const page = (name: string) => new URL(\`./pages/\${name}.html\`, import.meta.url);
export const handlers = [
  { path: '/page', run: async ({ query }: any) => ({ html: await readFile(page(query.name), 'utf8') }) }, // SVC606
  { path: '/raw', run: ({ query }: any) => new FileResponse('/srv/raw/' + query.file) }, // SVC606
];
`,
  'xss generator': `
// FILE app.ts
import { Svc, StreamingResponse } from 'svc';
import { render } from './render.ts';
export const app = new Svc();
app.get('/hello', { public: 'x' }, ({ query }) => new StreamingResponse(render(query.name), { mediaType: 'text/html' }));
// FILE render.ts
export async function* render(name: string) {
  yield '<!doctype html><body>';
  yield \`<h1>Hello \${name}</h1>\`; // SVC608
  yield '</body>';
}
`,
  'proto set': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { setPath } from './paths.ts';
export const app = new Svc();
const config: Record<string, unknown> = {};
app.put('/config', { me: Depends(BearerAuth()) }, ({ body }) => { setPath(config, body.path, body.value); return config; });
// FILE paths.ts
export function setPath(target: any, path: string, value: unknown) {
  const keys = path.split('.');
  const last = keys.pop()!;
  let at = target;
  for (const key of keys) at = at[key] ??= {}; // SVC650
  at[last] = value; // SVC650
}
`,
  'right: proto set': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { setPath } from './paths.ts';
export const app = new Svc();
const config = new Map<string, unknown>();
app.put('/config', { me: Depends(BearerAuth()) }, ({ body }) => { setPath(config, body.path, body.value); return Object.fromEntries(config); });
// FILE paths.ts
export function setPath(target: Map<string, unknown>, path: string, value: unknown) {
  target.set(path, value);
}
`,
  'reduce path': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
export const app = new Svc();
const settings: any = { mail: {} };
app.patch('/settings', { me: Depends(BearerAuth()) }, async ({ req }) => {
  const { path, value } = await req.json() as { path: string[]; value: unknown };
  const parent = path.slice(0, -1).reduce((at, key) => at[key], settings);
  parent[path.at(-1)!] = value; // SVC650
  return settings;
});
`,
  'upload type': `
// FILE app.ts
import { Svc, BearerAuth, Depends } from 'svc';
import { keep } from './keep.ts';
export const app = new Svc();
app.mountStatic('/uploads', '/srv/uploads');
app.post('/avatar', { me: Depends(BearerAuth()) }, async ({ req, me }) => {
  const form = await req.formData();
  return keep(me.sub, form.get('file') as File);
});
// FILE keep.ts
import { writeFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { randomUUID } from 'node:crypto';
export async function keep(owner: string, file: File) {
  const name = randomUUID() + extname(file.name);
  await writeFile(\`/srv/uploads/\${name}\`, Buffer.from(await file.arrayBuffer())); // SVC609
  return { name };
}
`,
  'role from body': `
// FILE app.ts
import { Svc, Depends, Schema, Field, str } from 'svc';
import { db } from 'svc/db';
import { signUp } from './sign-up.ts';
export const app = new Svc();
class SignUp extends Schema { mail = Field(str, { maxLength: 100 }); role = Field(str, { default: 'member', maxLength: 20 }); }
app.post('/sign-up', { public: 'x', store: Depends(db), body: SignUp }, ({ body, store }) => signUp(store, body));
// FILE sign-up.ts
import { sql, type Database } from 'svc/db';
export const signUp = (store: Database, { mail, role }: { mail: string; role: string }) =>
  store.execute(sql\`insert into account (mail, role) values (\${mail}, \${role})\`); // SVC641
`,
  'admin header': `
// FILE app.ts
import { Svc, Depends } from 'svc';
import { db } from 'svc/db';
import { operator } from './operator.ts';
export const app = new Svc();
app.delete('/users/{id:int}', { store: Depends(db), who: Depends(operator) }, ({ params, store }) => store.execute('delete from account where id = ?', [params.id]));
// FILE operator.ts
import { provide, Forbidden } from 'svc';
export const operator = provide({ security: [{ type: 'apiKey', in: 'header', name: 'x-role' }] }, ({ req }) => { // SVC646
  if (req.headers['x-role'] !== 'admin') throw new Forbidden();
  return { role: 'admin' };
});
`,
  'weak uuid': `
// FILE app.ts
import { Svc, reply } from 'svc';
export const app = new Svc();
const hex = () => 'xxxxxxxx-xxxx'.replace(/x/g, () => ((Math.random() * 16) | 0).toString(16)); // SVC622
app.post('/start', { public: 'x' }, () => reply({}, 200, { 'Set-Cookie': \`sid=\${hex()}; HttpOnly; Secure; SameSite=Lax\` }));
`,
  'get delete method': `
// FILE app.ts
import { Svc, Depends, BearerAuth } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
app.route('/notes/{id:int}/purge', ['GET', 'POST'], { me: Depends(BearerAuth()), store: Depends(db) }, async ({ me, params, store }) => { // SVC216
  await store.execute('delete from note where id = ? and owner = ?', [params.id, me.sub]);
  return { ok: true };
});
`,
  'otp guess': `
// FILE app.ts
import { Svc, Depends, Schema, Field, str, Unauthorized } from 'svc';
import { db } from 'svc/db';
export const app = new Svc();
class Code extends Schema { mail = Field(str, { email: true, maxLength: 100 }); code = Field(str, { pattern: '^[0-9]{4}$' }); }
app.post('/otp', { public: 'second step', store: Depends(db), body: Code }, async ({ body, store }) => { // SVC204
  const row = await store.fetchOne('select id from otp where mail = ? and code = ?', [body.mail, body.code]);
  if (row === undefined) throw new Unauthorized();
  return { ok: true };
});
`,
  'coupon race': `
// FILE app.ts
import { Svc, BearerAuth, Depends, Conflict } from 'svc';
import { db } from 'svc/db';
import { Coupons } from './coupons.ts';
export const app = new Svc();
app.post('/coupons/{code}', { me: Depends(BearerAuth()), store: Depends(db) }, ({ me, params, store }) => new Coupons(store).redeem(params.code, me.sub));
// FILE coupons.ts
import { Conflict } from 'svc';
import { sql, type Database } from 'svc/db';
export class Coupons {
  readonly #store: Database;
  constructor(store: Database) { this.#store = store; }
  async redeem(code: string, who: string) {
    const coupon = await this.#store.fetchOne(sql\`select used, cents from coupon where code = \${code}\`);
    if (!coupon || coupon.used) throw new Conflict('used');
    await this.#store.execute(sql\`update wallet set cents = cents + \${coupon.cents} where owner = \${who}\`);
    await this.#store.execute(sql\`update coupon set used = true where code = \${code}\`); // SVC642
    return { ok: true };
  }
}
`,
};
