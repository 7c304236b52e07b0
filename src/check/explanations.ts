/**
 * Explanations of rules for `--explain` and SARIF: wrong code, right code, CWE numbers and further reading.
 */
import type { Finding } from '../base/findings.ts';

interface Explanation {
  readonly wrong: string;
  readonly right: string;
  /** Numbers of the Common Weakness Enumeration. */
  readonly cwe?: readonly number[];
  /** Further reading, such as RFCs and OWASP. */
  readonly sources?: readonly string[];
}

const TOP_10 = 'OWASP Top 10 2021';
const cheat = (name: string): string => `OWASP Cheat Sheet: ${name}`;

/** Explanation of each rule, by the id of the rule. */
export const EXPLANATIONS: Readonly<Partial<Record<Finding['rule'], Explanation>>> = {
  SVC001: { wrong: 'await app.run();', right: 'if (import.meta.main) await app.run();' },
  SVC101: {
    wrong: "app.get('/users/{id}', a); app.get('/users/{name}', b);",
    right: "app.get('/users/{id:int}', a); app.get('/users/{name}', b);",
  },
  SVC102: {
    wrong: "app.get('/f/{x}', a); … app.get('/f/{all:path}', b);",
    right: "app.get('/files/{all:path}', b);",
  },
  SVC103: {
    wrong: "app.get('/notes', a); app.get('/notes/', b);",
    right: "app.get('/notes', a);",
    cwe: [863],
  },
  SVC104: {
    wrong: "app.get('/a', { name: 'home' }, a); app.get('/b', { name: 'home' }, b);",
    right: "app.get('/b', { name: 'other' }, b);",
  },
  SVC105: {
    wrong: "app.route('/a', ['HEAD'], other);",
    right: "app.get('/a', a);  // answers HEAD, too",
    sources: ['RFC 9110 §9.3.2'],
  },
  SVC106: {
    wrong: "new Router({ prefix: '/u/{id}' }).get('/{id}', a)",
    right: "new Router({ prefix: '/u/{id}' }).get('/{note}', a)",
  },
  SVC107: {
    wrong: "app.get('/a', { response: {} as never }, a);",
    right: "app.get('/a', { response: User }, a);",
  },
  SVC109: {
    wrong: "app.mount('/legacy', legacy.fetch);",
    right: "app.get('/legacy/notes', notes);",
  },
  SVC111: {
    wrong: 'const a = provide({ b: Depends(b) }, …); const b = provide({ a: Depends(a) }, …);',
    right: 'const b = provide({}, ({ req }) => …);',
  },
  SVC112: {
    wrong: "Depends(provide({ me: Depends(user) }, …), { scope: 'app' })",
    right: "Depends(provide({ me: Depends(user) }, …), { scope: 'request' })",
  },
  SVC113: {
    wrong: "app.get('/a', { db: Depends(db) }, () => 1);",
    right: "app.get('/a', { db: Depends(db) }, ({ db }) => db.fetchAll(…));",
  },
  SVC114: {
    wrong: "requires: ['db'] without app.register(new DatabasePlugin(…))",
    right: 'app.register(new DatabasePlugin(…)); app.register(new Shop());',
  },
  SVC121: {
    wrong: 'app.use(new CSRFMiddleware()); app.use(new SessionMiddleware());',
    right: 'app.use(new SessionMiddleware()); app.use(new CSRFMiddleware());',
  },
  SVC123: {
    wrong: 'app.exceptionHandler(NotFound, a).exceptionHandler(NotFound, b);',
    right: 'app.exceptionHandler(NotFound, b);',
  },
  SVC201: {
    wrong: "app.post('/notes', { body: Note }, save);",
    right: "app.post('/notes', { body: Note, me: Depends(BearerAuth()) }, save);",
    cwe: [306, 862],
    sources: [`${TOP_10}: A01 Broken Access Control`],
  },
  SVC202: {
    wrong: 'app.use(new SessionMiddleware());',
    right: 'app.use(new SessionMiddleware()); app.use(new CSRFMiddleware());',
    cwe: [352],
    sources: [cheat('Cross-Site Request Forgery Prevention')],
  },
  SVC203: {
    wrong: "PUT asks for requireRoles('admin'), DELETE for BearerAuth()",
    right: "both ask for requireRoles('admin')",
    cwe: [863],
    sources: [`${TOP_10}: A01 Broken Access Control`],
  },
  SVC204: {
    wrong: "app.post('/login', { form: Login }, login);",
    right: "app.post('/login', { form: Login, rateLimit: { perMinute: 5 } }, login);",
    cwe: [307],
    sources: [cheat('Authentication')],
  },
  SVC205: {
    wrong: "BearerAuth('changeme')",
    right: 'BearerAuth()  // SVC_AUTH_SECRET',
    cwe: [798, 521],
    sources: [cheat('Secrets Management')],
  },
  SVC206: {
    wrong: "origins: (origin) => origin.endsWith('shop.example'), credentials: true",
    right: "origins: ['https://shop.example'], credentials: true",
    cwe: [942],
    sources: ['Fetch §3.2'],
  },
  SVC207: {
    wrong: "setCookie('session', id, { httpOnly: false })",
    right: "setCookie('session', id)",
    cwe: [614, 1004],
    sources: ['RFC 6265 §4.1.2', cheat('Session Management')],
  },
  SVC208: { wrong: "new Svc({ env: 'development' })", right: 'new Svc()', cwe: [489, 215] },
  SVC209: {
    wrong: "allowedRedirectUris: ['http://shop.example/*']",
    right: "allowedRedirectUris: ['https://shop.example/oauth/callback']",
    cwe: [601],
    sources: ['RFC 9700 §2.1'],
  },
  SVC210: {
    wrong: "trustProxy: 'all'",
    right: "trustProxy: ['10.0.0.0/8']",
    cwe: [348],
    sources: ['RFC 7239 §8.1'],
  },
  SVC211: {
    wrong: 'contentSecurityPolicy: "script-src \'unsafe-inline\'"',
    right: 'new SecurityHeadersMiddleware()',
    cwe: [693, 1021],
    sources: [cheat('Content Security Policy')],
  },
  SVC212: { wrong: 'await req.body()', right: 'await req.body({ maxBytes: 1_000_000 })', cwe: [770, 400] },
  SVC213: { wrong: "app.mountStatic('/', '.')", right: "app.mountStatic('/public', 'public')", cwe: [552] },
  SVC214: {
    wrong: 'form: { file: Field(file, { maxLength: 50_000_000 }) }',
    right: 'form: { file: Field(file, { maxLength: 50_000_000 }) }, maxBodyBytes: 51_000_000',
  },
  SVC215: {
    wrong: 'BearerAuth({ requireExp: false })',
    right: 'createToken(sub, secret, { expiresInSeconds: 3_600 })',
    cwe: [613],
    sources: ['RFC 8725 §3.10'],
  },
  SVC216: {
    wrong: "app.get('/logout', ({ req }) => req.session.destroy());",
    right: "app.post('/logout', ({ req }) => req.session.destroy());",
    cwe: [650, 352],
    sources: ['RFC 9110 §9.2.1'],
  },
  SVC217: {
    wrong: "req.session.set('user', id);",
    right: "req.session.regenerate(); req.session.set('user', id);",
    cwe: [384],
    sources: [cheat('Session Management')],
  },
  SVC218: {
    wrong: "'postgres://db.example/shop?sslmode=disable'",
    right: "'postgres://db.example/shop'",
    cwe: [319],
  },
  SVC219: {
    wrong: 'app.use(new SecurityHeadersMiddleware());',
    right: "app.use(new TrustedHostMiddleware({ hosts: ['app.example'] }));",
    cwe: [644],
    sources: ['Django security.W020 and W008'],
  },
  SVC301: {
    wrong: "app.post('/a', async ({ req }) => await req.json());",
    right: "app.post('/a', { body: Note }, ({ body }) => body);",
    cwe: [20],
  },
  SVC302: {
    wrong: "app.get('/me', ({ me }) => ({ ...me }));",
    right: "app.get('/me', { response: Me }, ({ me }) => me);",
    cwe: [201],
  },
  SVC303: {
    wrong: '{ status: 204, response: Note }',
    right: '{ response: Note }',
    sources: ['RFC 9110 §15.3.5'],
  },
  SVC304: { wrong: 'Field(str)', right: 'Field(str, { maxLength: 200 })', cwe: [770, 1333] },
  SVC305: {
    wrong: 'two schema classes named Note in one document',
    right: 'schema classes named Note and Draft',
  },
  SVC306: {
    wrong: 'Field(str), after Field(str, { optional: true }) in the baseline',
    right: 'Field(str, { optional: true })',
  },
  SVC401: { wrong: 'SVC_PAGE_SIZE=many, where a number is read', right: 'SVC_PAGE_SIZE=50' },
  SVC402: {
    wrong: 'a deployment before svc migrate up',
    right: 'svc migrate up src/app.ts before the deployment',
  },
  SVC403: {
    wrong: 'SVC_WORKERS=4 with new MemoryRecordStore()',
    right: 'SVC_WORKERS=4 with a store in the database or in Redis',
  },
  SVC404: { wrong: 'Node.js 24.1', right: 'Node.js 24.18.1', cwe: [1104] },
  SVC405: { wrong: 'a certificate that expires tomorrow', right: 'a renewed certificate', cwe: [298] },
  SVC501: { wrong: 'readFileSync(path)', right: 'await readFile(path)', cwe: [400] },
  SVC502: {
    wrong: 'async function* db() { … yield x; await x.close(); }',
    right: 'try { yield x; } finally { await x.close(); }',
    cwe: [772],
  },
  SVC503: {
    wrong: 'const table = await build();  // at import',
    right: 'app.onStartup(async () => { table = await build(); });',
  },
  SVC601: {
    wrong: "db.fetchAll(`select * from notes where title = '${query.q}'`)",
    right: 'db.fetchAll(sql`select * from notes where title = ${query.q}`)',
    cwe: [89],
    sources: [cheat('SQL Injection Prevention')],
  },
  SVC602: {
    wrong: 'exec(`convert ${body.name} out.png`)',
    right: "execFile('convert', [body.name, 'out.png'])",
    cwe: [78],
    sources: [cheat('OS Command Injection Defense')],
  },
  SVC603: {
    wrong: 'vm.runInNewContext(body.formula)',
    right: 'FORMULAS[body.name]?.(body.value)',
    cwe: [94, 95],
  },
  SVC604: { wrong: 'new RegExp(query.q)', right: 'new RegExp(RegExp.escape(query.q))', cwe: [1333, 400] },
  SVC605: {
    wrong: 'new RedirectResponse(query.next)',
    right: "new RedirectResponse(localPath(query.next) ?? '/')",
    cwe: [601],
    sources: [cheat('Unvalidated Redirects and Forwards')],
  },
  SVC606: {
    wrong: "readFile(join('uploads', params.name))",
    right: "readFile(join('uploads', basename(params.name)))",
    cwe: [22],
  },
  SVC607: {
    wrong: 'fetch(body.url)',
    right: 'if (!HOSTS.has(new URL(body.url).host)) throw new BadRequest(); fetch(body.url)',
    cwe: [918],
    sources: [cheat('Server-Side Request Forgery Prevention')],
  },
  SVC608: {
    wrong: 'new HTMLResponse(`<p>${query.name}</p>`)',
    right: 'new HTMLResponse(`<p>${escapeHtml(query.name)}</p>`)',
    cwe: [79],
    sources: [cheat('Cross Site Scripting Prevention')],
  },
  SVC611: {
    wrong: 'if (!checkPassword(password, hash)) throw new Unauthorized();',
    right: 'if (!(await checkPassword(password, hash))) throw new Unauthorized();',
    cwe: [252, 253],
  },
  SVC612: {
    wrong: 'items.forEach(async (item) => { await save(item); });',
    right: 'for (const item of items) await save(item);',
    cwe: [252],
  },
  SVC613: { wrong: 'source.pipe(target)', right: 'await pipeline(source, target)', cwe: [755] },
  SVC614: {
    wrong: 'db.transaction(async () => { await db.execute(…); })',
    right: 'db.transaction(async (tx) => { await tx.execute(…); })',
    cwe: [662],
  },
  SVC615: {
    wrong: "const user = await db.fetchOne('… where id = ?', [id]); return user.name;",
    right: 'if (user === undefined) throw new NotFound(); return user.name;',
    cwe: [476],
  },
  SVC621: {
    wrong: "if (req.headers['x-key'] !== process.env['KEY'])",
    right: 'if (!timingSafeEqual(sha256(given), sha256(key)))',
    cwe: [208],
  },
  SVC622: {
    wrong: 'const token = Math.random().toString(36);',
    right: "const token = randomBytes(32).toString('base64url');",
    cwe: [338],
  },
  SVC623: {
    wrong: "createHash('sha256').update(password)",
    right: 'await hashPassword(password)',
    cwe: [916],
    sources: [cheat('Password Storage')],
  },
  SVC624: {
    wrong: "JSON.parse(Buffer.from(token.split('.')[1], 'base64url'))",
    right: 'verifyToken(token, secret)',
    cwe: [347],
    sources: ['RFC 8725 §3'],
  },
  SVC625: {
    wrong: 'console.log(`login with ${password}`)',
    right: "log.info('login', { name })",
    cwe: [532],
    sources: [cheat('Logging')],
  },
  SVC626: { wrong: '({ ...user, passwordHash: user.hash })', right: '{ response: User }', cwe: [200, 209] },
  SVC627: {
    wrong: "fetchOne('… where email = ?', [info.email])",
    right: "fetchOne('… where provider = ? and subject = ?', [provider, info.subject])",
    cwe: [287],
    sources: ['OpenID Connect Core §5.7'],
  },
  SVC631: { wrong: 'let current; … current = me;', right: 'const current = me;', cwe: [488] },
  SVC632: {
    wrong: 'cached(load, { key: (path) => path })',
    right: 'cached(load, { key: (path, user) => `${user} ${path}` })',
    cwe: [524],
  },
  SVC633: {
    wrong: 'Object.assign(user, await req.json())',
    right: 'user.name = body.name',
    cwe: [915],
    sources: [cheat('Mass Assignment')],
  },
  SVC634: {
    wrong: 'for await (const chunk of req.stream()) chunks.push(chunk);',
    right: 'await req.body({ maxBytes: 1_000_000 })',
    cwe: [770],
  },
  SVC635: {
    wrong: 'await fetch(address)',
    right: 'await fetch(address, { signal: req.signal })',
    cwe: [400],
  },
  SVC636: {
    wrong: String.raw`/^(\w+\s?)*$/.test(query.q)`,
    right: String.raw`/^\w+(\s\w+)*$/.test(query.q)`,
    cwe: [1333],
  },
};
