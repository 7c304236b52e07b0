/**
 * One wrong and one right application for every rule that reads sources, in TypeScript. The wrong one breaks the rule of its key; the right
 * one does the same work and has no finding of that rule.
 */
import { FAILURE_PAIRS } from './failures.ts';
import {
  ACCESS_PAIRS,
  CHANGE_PAIR,
  MIGRATION_PAIR,
  ROW_PAIRS,
  SWITCH_PAIRS,
  ACCOUNT_PAIR,
} from './access-pairs.ts';
import { AMOUNT_PAIR, KIND_PAIRS, PROCESS_PAIRS } from './kind-pairs.ts';

/** An application whose handler has this code. */
const handler = (code: string, imports = ''): string => `
import { Depends, Svc } from 'svc';
import { db as database } from 'svc/db';
${imports}
export const app: Svc = new Svc();
app.post('/notes/{id}', { db: Depends(database) }, async ({ db, req, me, body, query, params }: Context): Promise<unknown> => {
  ${code}
});
`;

/** An application that declares this. */
const declared = (code: string, names: string): string => `
import { Svc, ${names} } from 'svc';
export const app: Svc = new Svc();
const secret: string = process.env['APP_SECRET'] ?? '';
${code}
`;

/** An application with two routes for one change, one of which has this guard. */
const closed = (guard: string): string => `
import { BearerAuth, Depends, Svc, requireRoles } from 'svc';
import { db as database } from 'svc/db';
import type { Context } from 'svc';
export const app: Svc = new Svc();
app.delete('/rooms/{id:int}', { db: Depends(database), me: Depends(requireRoles('clerk')) }, ({ db, params }: Context) => db.execute('delete from room where id = ?', [params.id]));
app.post('/rooms/{id:int}/closed', { db: Depends(database), me: Depends(${guard}) }, ({ db, params }: Context) => db.execute('delete from room where id = ?', [params.id]));
`;

/** An application that takes a code of this form. */
const redeemed = (pattern: string): string => `
import { Field, Schema, Svc, Unauthorized, str } from 'svc';
import { createHash } from 'node:crypto';
export const app: Svc = new Svc();
class Code extends Schema { digits: string = Field(str, { pattern: ${pattern} }); }
app.post('/codes', { body: Code, public: 'second step' }, async ({ body }) => {
  const hash: string = createHash('sha256').update(body.digits).digest('hex');
  if (!(await codes.use(hash))) throw new Unauthorized();
});
`;

/** An application that reads a token of a body with these options. */
const confirmed = (options: string): string => `
import { BearerAuth, Depends, Field, Schema, Svc, str, verifyToken } from 'svc';
export const app: Svc = new Svc();
class Link extends Schema { token: string = Field(str, { maxLength: 900 }); }
app.get('/me', { me: Depends(BearerAuth()) }, ({ me }): string => me.sub);
app.post('/confirm', { body: Link, public: 'by link' }, ({ body }): string => verifyToken(body.token, process.env['SVC_AUTH_SECRET'] ?? ''${options}).sub);
`;

/** An application that finds its clients by a column with this collation. */
const folded = (collation: string): string => `
import { Depends, IssuerAuth, Svc } from 'svc';
import { DatabasePlugin, db as database } from 'svc/db';
export const app: Svc = new Svc();
app.register(new DatabasePlugin('mysql://app@localhost/app'));
const table: string = 'create table member (sub varchar(255)${collation} primary key, name text)';
const token = IssuerAuth({ issuer: 'https://id.example/', audience: 'https://api.example' });
app.get('/me', { me: Depends(token), db: Depends(database) }, ({ me, db }) => db.scalar('select name from member where sub = ?', [me.sub]));
`;

/** Wrong and right code by rule. */
export const PAIRS: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC201: {
    wrong: declared(
      "app.mountMcp('/mcp');\nconst stock = new Map<number, number>();\napp.tool('drop', {}, ({ args }: Context) => { stock.delete(args.id); });",
      'str',
    ),
    right: declared(
      "app.mountMcp('/mcp');\nconst stock = new Map<number, number>();\napp.tool('drop', { me: Depends(account) }, ({ args }: Context) => { stock.delete(args.id); });",
      'Depends',
    ),
  },
  SVC203: { wrong: closed('BearerAuth()'), right: closed("requireRoles('clerk')") },
  SVC204: { wrong: redeemed("'^[0-9]{6}$'"), right: redeemed("'^[0-9a-f]{32}$'") },
  SVC205: {
    wrong: declared(
      "export const auth: Guard = BearerAuth('c7Qm9v2xT4bN8kLrW6yZ1pHs5dGj3fAe');",
      'BearerAuth',
    ),
    right: declared('export const auth: Guard = BearerAuth(secret);', 'BearerAuth'),
  },
  SVC206: {
    wrong: handler(
      "return reply({}, 200, { 'Access-Control-Allow-Credentials': 'true', 'Access-Control-Allow-Origin': req.headers.origin });",
      "import { reply } from 'svc';",
    ),
    right: handler(
      "return reply({}, 200, { 'Access-Control-Allow-Credentials': 'true', 'Access-Control-Allow-Origin': 'https://a.example' });",
      "import { reply } from 'svc';",
    ),
  },
  SVC207: {
    wrong: handler(
      "const res: Reply = new Reply(); res.setCookie('session', me.sid, { httpOnly: false }); return res;",
    ),
    right: handler("const res: Reply = new Reply(); res.setCookie('session', me.sid); return res;"),
  },
  SVC208: {
    wrong: `import { Svc } from 'svc';
import { writeHeapSnapshot } from 'node:v8';
export const app: Svc = new Svc();
app.get('/heap', { public: 'operations' }, (): string => writeHeapSnapshot());`,
    right: `import { Depends, Svc, requireRoles } from 'svc';
import { writeHeapSnapshot } from 'node:v8';
export const app: Svc = new Svc();
app.get('/heap', { me: Depends(requireRoles('operator')) }, (): string => writeHeapSnapshot());`,
  },
  SVC210: {
    wrong: declared(
      "app.use(new RateLimitMiddleware({ key: (req: Request) => req.headers['x-client-id'] }));",
      'RateLimitMiddleware',
    ),
    right: declared(
      'app.use(new RateLimitMiddleware({ key: (req: Request) => req.ip }));',
      'RateLimitMiddleware',
    ),
  },
  SVC212: {
    wrong: `import { DatabasePlugin } from 'svc/db';
export const plugin: Plugin = new DatabasePlugin('postgres://localhost/shop', { statementTimeoutMs: false });`,
    right: `import { DatabasePlugin } from 'svc/db';
export const plugin: Plugin = new DatabasePlugin('postgres://localhost/shop', { statementTimeoutMs: 3_000 });`,
  },
  SVC215: {
    wrong: declared('export const auth: Guard = BearerAuth(secret, { requireExp: false });', 'BearerAuth'),
    right: declared('export const auth: Guard = BearerAuth(secret, { requireExp: true });', 'BearerAuth'),
  },
  SVC216: {
    wrong: declared("app.get('/logout', {}, ({ req }: Context): void => { req.session.destroy(); });", 'str'),
    right: declared(
      "app.post('/logout', {}, ({ req }: Context): void => { req.session.destroy(); });",
      'str',
    ),
  },
  SVC217: {
    wrong: declared(
      "app.post('/login', {}, ({ req, form }: Context): void => { req.session.set('user', form.name); });",
      'str',
    ),
    right: declared(
      "app.post('/login', {}, ({ req, form }: Context): void => { req.session.regenerate(); req.session.set('user', form.name); });",
      'str',
    ),
  },
  SVC218: {
    wrong: `import { DatabasePlugin } from 'svc/db';
export const plugin: Plugin = new DatabasePlugin('postgres://db.shop.example/shop?sslmode=disable');`,
    right: `import { DatabasePlugin } from 'svc/db';
export const plugin: Plugin = new DatabasePlugin('postgres://db.shop.example/shop?sslmode=verify-full');`,
  },
  SVC220: { wrong: confirmed(''), right: confirmed(", { audience: 'confirm' }") },
  SVC305: {
    wrong: declared(
      'app.exceptionHandler(ValidationError, (error: ValidationError) => new JSONResponse({ all: error.issues }, { status: 422 }));',
      'JSONResponse, ValidationError',
    ),
    right: declared(
      'app.exceptionHandler(ValidationError, { response: { 422: Invalid } }, (error: ValidationError) => new JSONResponse({ all: error.issues }, { status: 422 }));',
      'JSONResponse, ValidationError',
    ),
  },
  SVC401: {
    wrong: 'export const address: string = `${process.env.TEST_PAIRS_HOST}/x`;',
    right: "export const address: string = `${process.env.TEST_PAIRS_HOST ?? 'localhost'}/x`;",
  },
  SVC403: {
    wrong: declared(
      'app.use(new RateLimitMiddleware({ perMinute: 60 as number }));\nif (import.meta.main) await app.run({ workers: 4 });',
      'RateLimitMiddleware',
    ),
    right: declared(
      'app.use(new RateLimitMiddleware({ perMinute: 60 as number, store }));\nif (import.meta.main) await app.run({ workers: 4 });',
      'RateLimitMiddleware',
    ),
  },
  SVC415: {
    wrong: handler("return await db.scalar('select text from notes where id = ?', [Number(params.id)]);"),
    right: handler(
      "return await db.scalar('select text from notes where id = ?', [Number(params.id) || 0]);",
    ),
  },
  ...MIGRATION_PAIR,
  SVC501: {
    wrong: `${handler('return page(params.id);')}
import { readFileSync } from 'node:fs';
function page(name: string): string { return readFileSync('page.html', 'utf8') + name; }`,
    right: `${handler('return await page(params.id);')}
import { readFile } from 'node:fs/promises';
async function page(name: string): Promise<string> { return (await readFile('page.html', 'utf8')) + name; }`,
  },
  SVC601: {
    wrong: handler(
      "return await db.fetchAll<Note>(`select id from notes where name = '${query.name as string}'`);",
    ),
    right: handler(
      'return await db.fetchAll<Note>(`select id from notes where name = ?`, [query.name as string]);',
    ),
  },
  SVC602: {
    wrong: handler(
      'return exec(`sort ${body.name as string}`);',
      "import { exec } from 'node:child_process';",
    ),
    right: handler(
      "return execFile('sort', ['--', body.name as string]);",
      "import { execFile } from 'node:child_process';",
    ),
  },
  SVC603: {
    wrong: handler('return eval(body.code as string);'),
    right: handler('return JSON.parse(body.code as string);'),
  },
  SVC604: {
    wrong: handler('return new RegExp(query.text as string).test(await textOf(params.id));'),
    right: handler('return (await textOf(params.id)).includes(query.text as string);'),
  },
  SVC605: {
    wrong: handler(
      'return new RedirectResponse(query.next as string);',
      "import { RedirectResponse } from 'svc';",
    ),
    right: handler(
      "return new RedirectResponse(localPath(query.next as string) ?? '/');",
      "import { RedirectResponse, localPath } from 'svc';",
    ),
  },
  SVC606: {
    wrong: handler(
      "return await readFile(join('notes', params.id as string));",
      "import { readFile } from 'node:fs/promises';\nimport { join } from 'node:path';",
    ),
    right: handler(
      "return await readFile(join('notes', basename(params.id as string)));",
      "import { readFile } from 'node:fs/promises';\nimport { basename, join } from 'node:path';",
    ),
  },
  SVC607: {
    wrong: handler('return await (await fetch(body.url as string, { signal: req.signal })).text();'),
    right: handler(
      'if (!HOSTS.has(new URL(body.url).host)) throw new BadRequest();\n  return await (await fetch(body.url as string, { signal: req.signal, redirect: "error" })).text();',
    ),
  },
  SVC608: {
    wrong: handler(
      'return new HTMLResponse(`<h1>${query.name as string}</h1>`);',
      "import { HTMLResponse } from 'svc';",
    ),
    right: handler(
      'return new HTMLResponse(`<h1>${escapeHtml(query.name as string)}</h1>`);',
      "import { HTMLResponse, escapeHtml } from 'svc';",
    ),
  },
  SVC609: {
    wrong: handler(
      "return new HttpResponse('a', { mediaType: query.type as string });",
      "import { HttpResponse } from 'svc';",
    ),
    right: handler(
      "return new HttpResponse('a', { mediaType: query.type === 'csv' ? 'text/csv' : 'text/plain' });",
      "import { HttpResponse } from 'svc';",
    ),
  },
  SVC610: {
    wrong: handler(
      'return await appendFile("log", `get ${query.name as string}\\n`);',
      "import { appendFile } from 'node:fs/promises';",
    ),
    right: handler(
      "return await appendFile('log', JSON.stringify([query.name]) + '\\n');",
      "import { appendFile } from 'node:fs/promises';",
    ),
  },
  SVC611: {
    wrong: handler(
      'if (!checkPassword(body.password as string, me.hash)) throw new Unauthorized();\n  return {};',
      "import { checkPassword } from 'svc';",
    ),
    right: handler(
      'if (!(await checkPassword(body.password as string, me.hash))) throw new Unauthorized();\n  return {};',
      "import { checkPassword } from 'svc';",
    ),
  },
  SVC612: {
    wrong: handler(
      'body.ids.forEach(async (id: number): Promise<void> => { await remove(id); });\n  return {};',
    ),
    right: handler(
      'await Promise.all(body.ids.map(async (id: number): Promise<void> => { await remove(id); }));\n  return {};',
    ),
  },
  SVC613: {
    wrong: handler(
      "createReadStream('a').pipe(createWriteStream('b'));\n  return {};",
      "import { createReadStream, createWriteStream } from 'node:fs';",
    ),
    right: handler(
      "await pipeline(createReadStream('a'), createWriteStream('b'));\n  return {};",
      "import { createReadStream, createWriteStream } from 'node:fs';\nimport { pipeline } from 'node:stream/promises';",
    ),
  },
  SVC614: {
    wrong: handler(
      "return await db.transaction(async (tx: Session) => { await db.execute('delete from notes'); });",
    ),
    right: handler(
      "return await db.transaction(async (tx: Session) => { await tx.execute('delete from notes'); });",
    ),
  },
  SVC615: {
    wrong: handler(
      "const row = (await db.fetchOne<Note>('select text from notes where id = ?', [params.id]));\n  return row.text;",
    ),
    right: handler(
      "const row = (await db.fetchOne<Note>('select text from notes where id = ?', [params.id]));\n  if (row === undefined) throw new NotFound();\n  return row.text;",
    ),
  },
  SVC621: {
    wrong: handler(
      "if (req.headers['x-api-key'] !== process.env['API_KEY']) throw new Unauthorized();\n  return {};",
    ),
    right: handler(
      "if (!isSame(req.headers['x-api-key'] as string, process.env['API_KEY'])) throw new Unauthorized();\n  return {};",
    ),
  },
  SVC622: {
    wrong: handler('const made: string = Math.random().toString(36);\n  return { resetToken: made };'),
    right: handler(
      "const made: string = randomBytes(32).toString('base64url');\n  return { resetToken: made };",
      "import { randomBytes } from 'node:crypto';",
    ),
  },
  SVC623: {
    wrong: handler(
      "return await save(me, createHash('sha256').update(body.password as string).digest('hex'));",
      "import { createHash } from 'node:crypto';",
    ),
    right: handler(
      'return await save(me, await hashPassword(body.password as string));',
      "import { hashPassword } from 'svc';",
    ),
  },
  SVC624: {
    wrong: handler(
      'return (jwt.decode(body.token as string) as Claims).sub;',
      "import jwt from 'jsonwebtoken';",
    ),
    right: handler(
      'return (jwt.verify(body.token as string, key) as Claims).sub;',
      "import jwt from 'jsonwebtoken';",
    ),
  },
  SVC625: {
    wrong: handler("console.log('login', body.name as string, body.password as string);\n  return {};"),
    right: handler("console.log('login', body.name as string);\n  return {};"),
  },
  SVC626: {
    wrong: handler('try { return await load(params.id); } catch (error) { return { stack: error.stack }; }'),
    right: handler(
      'try { return await load(params.id); } catch (error) { return { failed: (error as Error).name }; }',
    ),
  },
  SVC627: {
    wrong: `
import { openDatabase } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
const db: Database = await openDatabase('sqlite:a.db');
export const plugin: OAuthPlugin = new OAuthPlugin({
  onUser: async (provider: string, info: Info) => await db.scalar('select id from users where email = ?', [info.email]),
});`,
    right: `
import { openDatabase } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
const db: Database = await openDatabase('sqlite:a.db');
export const plugin: OAuthPlugin = new OAuthPlugin({
  onUser: async (provider: string, info: Info) => await db.scalar('select id from users where provider = ? and subject = ?', [provider, info.subject]),
});`,
  },
  SVC628: {
    wrong: handler(
      "return createCipheriv('aes-256-gcm', key, Buffer.alloc(12));",
      "import { createCipheriv } from 'node:crypto';",
    ),
    right: handler(
      "return createCipheriv('aes-256-gcm', key, randomBytes(12));",
      "import { createCipheriv, randomBytes } from 'node:crypto';",
    ),
  },
  SVC629: {
    wrong: handler('return new Agent({ rejectUnauthorized: false });', "import { Agent } from 'node:https';"),
    right: handler('return new Agent({ keepAlive: true });', "import { Agent } from 'node:https';"),
  },
  SVC631: {
    wrong: `let last: string | undefined;\n${handler('last = query.name;\n  return await noteOf(last);')}`,
    right: handler('const last: string = query.name;\n  return await noteOf(last);'),
  },
  SVC632: {
    wrong: `import { cached } from 'svc';
export const notesOf = cached(async (path: string, user: User) => await load(path, user.sub), { key: (path: string) => path });`,
    right: `import { cached } from 'svc';
export const notesOf = cached(async (path: string, user: User) => await load(path, user.sub), { key: (path: string, user: User) => path + user.sub });`,
  },
  SVC633: {
    wrong: handler('return Object.assign(me as User, await req.json());'),
    right: handler('return Object.assign(me as User, { name: body.name as string });'),
  },
  SVC634: {
    wrong: handler(
      'const chunks: Buffer[] = [];\n  for await (const chunk of req.stream()) chunks.push(chunk as Buffer);\n  return Buffer.concat(chunks).length;',
    ),
    right: handler('return (await req.body({ maxBytes: 1_000_000 as number })).length;'),
  },
  SVC635: {
    wrong: handler("return await (await fetch('https://rates.example/eur')).json() as Rates;"),
    right: handler(
      "return await (await fetch('https://rates.example/eur', { signal: req.signal })).json() as Rates;",
    ),
  },
  SVC636: {
    wrong: handler('return /^(\\w+\\s?)*$/.test(query.name as string);'),
    right: handler('return /^\\w+(?:\\s\\w+)*$/.test(query.name as string);'),
  },
  SVC637: {
    wrong: `
import { Depends, Field, Svc, int } from 'svc';
import { db } from 'svc/db';
export const app: Svc = new Svc();
app.get('/a', { db: Depends(db), query: { count: Field(int) } }, ({ db, query }) =>
  db.fetchAll('select a from b limit ?', [query.count]),
);`,
    right: `
import { Depends, Field, Svc, int } from 'svc';
import { db } from 'svc/db';
export const app: Svc = new Svc();
app.get('/a', { db: Depends(db), query: { count: Field(int, { le: 100 }) } }, ({ db, query }) =>
  db.fetchAll('select a from b limit ?', [query.count]),
);`,
  },
  SVC638: {
    wrong: `
import { BearerAuth, Depends, Svc, reply } from 'svc';
export const app: Svc = new Svc();
app.get('/a', { me: Depends(BearerAuth()) }, ({ me }) => reply({ me }, 200, { 'Cache-Control': 'public, max-age=60' }));`,
    right: `
import { BearerAuth, Depends, Svc, reply } from 'svc';
export const app: Svc = new Svc();
app.get('/a', { me: Depends(BearerAuth()) }, ({ me }) => reply({ me }, 200, { 'Cache-Control': 'private, max-age=60' }));`,
  },
  SVC639: {
    wrong: handler(
      'return send(`https://${req.host}/reset/${randomUUID()}`);',
      "import { randomUUID } from 'node:crypto';",
    ),
    right: handler(
      'return send(`https://a.example/reset/${randomUUID()}`);',
      "import { randomUUID } from 'node:crypto';",
    ),
  },
  ...ACCESS_PAIRS,
  SVC647: AMOUNT_PAIR,
  SVC648: ACCOUNT_PAIR,
  ...CHANGE_PAIR,
  ...KIND_PAIRS,
  ...FAILURE_PAIRS,
  ...PROCESS_PAIRS,
  SVC665: { wrong: folded(''), right: folded(' collate utf8mb4_bin') },
  ...ROW_PAIRS,
  ...SWITCH_PAIRS,
};
