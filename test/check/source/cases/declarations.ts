/** Applications with and without mistakes in settings and guards that show in the sources. */
export const DECLARATIONS: Readonly<Record<string, string>> = {
  'environments, guards and tokens': `
import { BearerAuth, Svc, createToken, requireIf, requireRoles, requireScopes, verifyToken } from 'svc';
export const app = new Svc({ env: 'development' }); // SVC208
const other = new Svc({ env: process.env['NODE_ENV'] });
const everybody = requireIf(() => true); // SVC201
const anyRole = requireRoles(); // SVC201
const some = [requireRoles('admin'), requireScopes('notes:write'), requireIf((claims) => claims.admin)];
const forever = BearerAuth(secret, { requireExp: false }); // SVC215
const long = createToken('me', secret, { expiresInSeconds: 10 * 365 * 86_400 }); // SVC215
const right = [BearerAuth(), createToken('me', secret, { expiresInSeconds: 3_600 }), verifyToken(token, secret)];
`,
  'cookies, policies, proxies, time limits, databases': `
import { RateLimitMiddleware, SecurityHeadersMiddleware, SessionMiddleware, Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
export const app = new Svc({ trustProxy: ['0.0.0.0/1', '10.0.0.0/8'] }); // SVC210
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: "default-src 'self'; script-src 'self' 'unsafe-inline'" })); // SVC211
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: { scriptSrc: ["'self'", 'https:'] } })); // SVC211
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: "default-src 'self'; style-src 'unsafe-inline'; script-src https://cdn.example" }));
app.use(new RateLimitMiddleware({ key: (req) => req.headers['x-client-id'] })); // SVC210
app.use(new RateLimitMiddleware({ key: (req) => req.headers['authorization'] ?? req.ip }));
app.config.loadDict({ enableDocs: true }); // SVC208
app.use(new SessionMiddleware({ cookie: { httpOnly: false } })); // SVC207
response.setCookie('session', id, { httpOnly: false }); // SVC207
response.setCookie('token', id, { secure: false }); // SVC207
response.setCookie('theme', 'dark', { httpOnly: false });
app.register(new DatabasePlugin('postgres://db.shop.example/shop?sslmode=disable')); // SVC218
app.register(new DatabasePlugin('postgres://db.shop.example/shop', { statementTimeoutMs: false })); // SVC212
app.register(new DatabasePlugin('postgres://localhost/shop?sslmode=disable', { statementTimeoutMs: 3_000 }));
`,
  'tools and sockets': `
app.mountMcp('/mcp');
app.tool('remove', { args: { id: int } }, ({ args }) => db.execute('delete from notes where id = ?', [args.id])); // SVC201
app.tool('count', { args: { text: str } }, ({ args }) => args.text.length);
app.tool('mine', { me: Depends(BearerAuth()), args: { id: int } }, ({ args }) => db.execute('delete from notes where id = ?', [args.id]));
app.websocket('/edit').onMessage(async (socket, message) => { await db.execute('update notes set text = ?', [message.text]); }); // SVC201
app.websocket('/mine', { me: Depends(user) }).onMessage(async (socket, message) => { await db.execute('update notes set text = ?', [message.text]); });
app.websocket('/chat').onMessage((socket, message) => socket.broadcast(message));
`,
  routes: `
import { RateLimitMiddleware, ValidationError, JSONResponse } from 'svc';
app.use(new RateLimitMiddleware({ perMinute: 100_000 })); // SVC204
app.post('/token', { rateLimit: { perMinute: 100_000 } }, ({ form }) => issue(form)); // SVC204
app.post('/password', { rateLimit: { perMinute: 5 } }, ({ form }) => issue(form));
app.get('/logout', {}, ({ req }) => { req.session.destroy(); }); // SVC216
app.get('/notes/{id:int}/delete', {}, async ({ db, params }) => { await db.execute('delete from notes where id = ?', [params.id]); }); // SVC216
app.get('/notes', {}, ({ db }) => db.fetchAll('select * from notes where is_deleted = 0'));
app.post('/logout', {}, ({ req }) => { req.session.destroy(); });
app.post('/login', {}, async ({ req, form }) => { req.session.set('user', form.name); }); // SVC217
app.post('/session', {}, async ({ req, form }) => { req.session.regenerate(); req.session.set('user', form.name); });
app.exceptionHandler(ValidationError, (error) => new JSONResponse({ errors: error.issues }, { status: 422 })); // SVC305
app.exceptionHandler(ValidationError, (error) => new JSONResponse({ errors: error.issues }, { status: 400 }));
`,
  'variables of the environment': `
// FILE app.ts
export const port = process.env['TEST_CASES_SMPT_PORT'] ?? ''; // SVC401
export const address: string = \`\${process.env.TEST_CASES_HOST}/x\`; // SVC401
export const name: string = process.env['TEST_CASES_NAME'] ?? 'shop';
// FILE .env.example
TEST_CASES_SMTP_PORT=25
`,
};
