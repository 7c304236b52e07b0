/** Applications with and without the mistakes of SVC621 … SVC627, and secrets in the sources (SVC205). */
export const SECRETS: Readonly<Record<string, string>> = {
  'secrets that are compared': `
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Depends, Svc, Unauthorized, BadRequest, file } from 'svc';
import { db as database } from 'svc/db';
const app = new Svc();
const TOKEN = process.env['HOOK_TOKEN'];
app.post('/hook', { db: Depends(database) }, async ({ req, body, form, db }) => {
  if (req.headers['x-api-key'] !== process.env['API_KEY']) throw new Unauthorized(); // SVC621
  if (req.headers['x-token'] === TOKEN) return 'in'; // SVC621
  const signature = createHmac('sha256', key).update(body).digest('hex');
  if (signature !== req.headers['x-signature']) throw new Unauthorized(); // SVC621
  const hook = await db.fetchOne('select token from hook where id = ?', [body.id]);
  const user = await db.fetchOne('select * from account where id = ?', [body.id]);
  if (user === undefined || hook === undefined || body.token !== hook.token) throw new Unauthorized(); // SVC621
  if (form.password === user.passwordHash) return 1; // SVC621
});
const MAGIC = 'NTLMSSP';
app.post('/right', {}, ({ req, form }) => {
  if (token === undefined || token === '' || typeof secret === 'string') return 0;
  if (form.password !== form.passwordAgain) throw new BadRequest();
  if (secret.length !== 32) return 1;
  if (type === 'password') return 2;
  if (header.digest !== computedDigest) throw new BadRequest();
  if (signature !== MAGIC) throw new BadRequest();
  if (file.hash === other.hash) return 3;
  if (user.settings.accessToken !== settings.options.accessToken) return 5;
  if (consts.ID_ZIP64 === signature) return 6;
  if (event === InteractionEvent.ForgotPassword || fields.password === ControlValue.Edit) return 7;
  const decoded = Buffer.from(secret, 'base64url');
  if (decoded.toString('base64url') !== secret) return 8;
  if (token.kind === previous.kind) return 4;
  if (sessionSecret === DEFAULT_SESSION_SECRET) return 9;
  if (left.accessToken === right.accessToken) return 13;
  if (expectedSourceKey === sourceKey) return 14;
  if (constants.CONVERT_PASSWORD === status || name === SettingName.NAMES.MfaSecret) return 15;
  if (user.password === user.digestOf(form.password)) return 10;
  if (user.password === SHA512(form.password).toString()) return 12;
  for (const name in form) if (name === secret) return 11;
  return timingSafeEqual(a, b);
});
`,
  'secrets that clients send in other ways': `
import { Depends, Field, Schema, Svc, provide, str } from 'svc';
import { db as database } from 'svc/db';
import { createHmac } from 'node:crypto';
const app = new Svc();
const settings = { hook: { word: process.env.HOOK_TOKEN } };
class Entry extends Schema { phrase = Field(str, { secret: true }); }
const security = [{ type: 'apiKey', in: 'header', name: 'X-Shop' }];
export const shop = provide({ security }, ({ req }) => req.headers['x-shop'] === wordOf(app)); // SVC621
app.post('/login', { db: Depends(database), shop: Depends(shop) }, async ({ req, body, db }) => {
  const { word, given } = body;
  if (word === app.config.get('password')) return 1; // SVC621
  const client = await db.fetchOne('select secret from client where id = ?', [body.client]);
  if (client === undefined || client.secret !== body.secret.trim()) return 3; // SVC621
  if (given === settings.hook.word) return 4; // SVC621
  if (req.headers.authorization !== \`Bearer \${wordOf(app)}\`) return 5; // SVC621
  if (body.state !== this.stateGetAccessToken || req.headers.authorization === 'none') return 7;
});
app.post('/phrase', { body: Entry }, ({ body }) => body.phrase === keeper.current()); // SVC621
app.post('/in', {}, async ({ req }) => isHook(req.headers['x-sum'], await req.text()) && isAllowed(req.headers['x-key']));
export const isHook = (signature, text) => signature === createHmac('sha256', key).update(text).digest('hex'); // SVC621
export const isAllowed = (apiKey) => apiKey === process.env.API_KEY; // SVC621
export function right(item, state, signature, desired) {
  if (getNodeSignature(item) === signature || state.signature === signature) return 1;
  if (state.key === desired.key || state.key === item) return 2;
  if (state.token === desired) return 3;
  const token = next();
  return token === state.token || token === CLOSING_TOKEN;
}
`,
  'secrets that are made': `
import { Depends, Svc, reply } from 'svc';
import { db as database } from 'svc/db';
import { randomUUID } from 'node:crypto';
const app = new Svc();
const made = () => Math.random().toString(36).slice(2); // SVC622
app.post('/a', { db: Depends(database) }, ({ db, body }) =>
  db.execute('insert into reset (mail, token) values (?, ?)', [body.mail, made()]));
app.post('/b', {}, () => ({ accessToken: 'r' + Math.random() })); // SVC622
app.post('/c', {}, () => reply({}, 200, { 'Set-Cookie': \`id=\${Date.now()}; HttpOnly; Secure\` })); // SVC622
const codes = new Map();
app.post('/d', {}, ({ body }) => { codes.set(body.mail, String(Math.floor(100000 + Math.random() * 900000))); }); // SVC622
app.post('/e', {}, ({ body }) => codes.get(body.mail) === body.code);
app.post('/f', {}, ({ body }) => mail(body.mail, \`https://a.example/in?token=\${Math.random()}\`)); // SVC622
const visits = new Map();
app.post('/g', {}, ({ body }) => { visits.set(String(Math.random()), body.name); }); // SVC622
app.get('/h', {}, ({ req }) => visits.get(req.cookies.visit));
app.post('/i', {}, ({ req }) => { req.session.setCookie('x', 'x' + Math.random()); }); // SVC622
app.get('/j', {}, () => ({ wait: Math.random() * 1000, at: Date.now(), token: \`\${randomUUID()}-\${Date.now()}\` }));
app.get('/k', { db: Depends(database) }, ({ db }) => db.execute('insert into job (id, at) values (?, ?)', [Math.random(), Date.now()]));
app.get('/l', {}, ({ query }) => letters.sort(() => Math.random() - 0.5).slice(0, query.count));
`,
  'passwords that are hashed': `
import { createHash, hash } from 'node:crypto';
import crypto from 'node:crypto';
import md5 from 'md5';
import { Svc } from 'svc';
const app = new Svc();
app.post('/a', {}, async ({ req, form }) => {
  const { password: typed, content } = await req.json();
  const a = createHash('sha256').update(typed).digest('hex'); // SVC623
  const b = crypto.createHash('md5').update(salt + form.password).digest('hex'); // SVC623
  const c = hash('sha256', form.passphrase); // SVC623
  const twice = md5(md5(form.password)); // SVC623
  const again = createHash('sha1').update(salt).update(form.password).digest('hex'); // SVC623
  const d = createHash('sha256').update(content).digest('hex');
  const e = hash('sha256', form.token);
  const password = content;
  const f = createHash('sha256').update(password).digest('hex');
});
`,
  'passwords that are hashed twice': `
import { createHash } from 'node:crypto';
import bcrypt from 'bcrypt';
export async function slow(password) {
  return await bcrypt.hash(createHash('sha512').update(password).digest('base64'), 12);
}
`,
  'passwords that are hashed for a worker': `
import { createHash } from 'node:crypto';
export async function slow(password) {
  password = createHash('sha512').update(password).digest('hex');
  return await pool.exec('hash', [password]);
}
`,
  'secrets that no client sends': `
import { parseAddress, readSetting } from './settings.js';
const state = readSetting('state');
export function setSecret(secret) {
  if (secret === state.secret) return false;
  state.secret = secret;
  return true;
}
export function warnOfReuse() {
  const apiSecret = readSetting('API_SECRET');
  const parsed = parseAddress(state.address);
  if (parsed.auth.password === apiSecret) console.warn('one secret serves two purposes');
}
export const declaredOf = (hooks, webhookKey) => hooks.find((webhook) => webhook.key === webhookKey);
export const isOurs = (state, stateOfAccessToken) => state === stateOfAccessToken;
export const isSame = (state, made) => state !== made.stateGetAccessToken;
export function isSecret(secret) {
  if (secret === state.secret) return true;
  return false;
}
`,
  'tokens that are decoded elsewhere': `
import jwt from 'jsonwebtoken';
export const expiryOf = (user) => jwt.decode(user.ssoToken, { complete: true });
export async function infoOf(tokens) {
  const { tid } = jwt.decode(tokens.idToken);
  const jwtVerifyOptions = { issuer: tid };
  return await claimsOf(tokens.idToken, jwtVerifyOptions);
}
`,
  'fallbacks of what belongs to secrets': `
const rounds = parseInt(process.env.PASSWORD_HASH_ROUNDS || '10', 10);
const region = process.env.SECRETKEY_AWS_REGION || 'us-east-1';
const lasts = process.env.ACCESS_TOKEN_LASTS || '15m';
const key = process.env.SECRETKEY_AWS || 'us-east-1'; // SVC205
`,
  'variables by what the program does with them': `
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import nodemailer from 'nodemailer';
import { Svc } from 'svc';
const word = process.env.MAIL_WORD ?? 'tulpen-und-rosen'; // SVC205
export const mail = nodemailer.createTransport({ host: 'smtp.example', auth: { user: process.env.MAIL_USER, pass: word } });
const area = process.env.PARTITION_KEY ?? 'eu-central';
const salt = process.env.LINK_SALT ?? 'pepper-and-salt-and'; // SVC205
const file = process.env.SERVICE_TOKEN ?? '/etc/service.json';
const shipping = process.env.SHIPPING ?? '';
export const app = new Svc();
app.get('/a', { public: 'a' }, async () => {
  console.log(process.env.MAIL_WORD, area); // SVC625
  console.log(process.env.MAIL_USER);
  const text = await readFile(file, 'utf8');
  console.log(process.env.SERVICE_TOKEN);
  await fetch('https://api.example/x', { headers: { authorization: \`Bearer \${shipping}\` }, signal: AbortSignal.timeout(500) });
  await fetch(\`https://api.example/x?k=\${shipping}\`, { signal: AbortSignal.timeout(500) }); // SVC655
  if (process.env.SHOW_PASSWORD === 'true') console.log(process.env.SHOW_PASSWORD);
  return createHmac('sha256', salt).update(text).digest('hex');
});
`,
  'tokens that are decoded': `
import { Svc } from 'svc';
import jwt from 'jsonwebtoken';
import { decodeJwt } from 'jose';
const app = new Svc();
const who = (text) => JSON.parse(Buffer.from(text.split('.')[1], 'base64url').toString()); // SVC624
function whoToo(text) {
  const [, payload] = text.split('.');
  return JSON.parse(atob(payload)); // SVC624
}
app.get('/a', {}, ({ req }) => who(req.headers['x-user']).sub);
app.get('/b', {}, ({ query }) => whoToo(query.text).sub);
app.get('/c', {}, ({ req }) => jwt.decode(req.cookies.c)); // SVC624
app.get('/d', {}, ({ req }) => decodeJwt(req.cookies.d).sub); // SVC624
app.get('/e', {}, ({ query }) => JSON.parse(Buffer.from(query.cursor, 'base64url').toString()));
export const unknown = (text) => jwt.decode(text).sub;
`,
  'tokens that are decoded and verified': `
import { Svc } from 'svc';
import jwt from 'jsonwebtoken';
import { createHmac, timingSafeEqual } from 'node:crypto';
const app = new Svc();
app.get('/a', {}, ({ req }) => {
  const { header } = jwt.decode(req.cookies.a, { complete: true });
  return jwt.verify(req.cookies.a, keyOf(header));
});
app.get('/b', {}, ({ req }) => {
  const [payload, sum] = req.cookies.b.split('.');
  const own = createHmac('sha256', KEY).update(payload).digest();
  if (!timingSafeEqual(own, Buffer.from(sum, 'base64url'))) return undefined;
  return JSON.parse(Buffer.from(payload, 'base64url').toString());
});
`,
  'secrets in logs': `
import { Svc, Field, str, createToken } from 'svc';
const app = new Svc();
app.post('/login', { form: { name: Field(str), password: Field(str) } }, async ({ form, req }) => {
  console.log('login', form.name, form.password); // SVC625
  const token = createToken(form.name, key);
  console.log(\`token \${token}\`); // SVC625
  console.log(req.headers); // SVC625
  console.log(form); // SVC625
  app.log.info(\`login of \${form.name} with \${form.password}\`); // SVC625
  const apiKey = process.env.SHOP_API_KEY;
  console.log({ user: form.name, apiKey }); // SVC625
  app.log.info('login', { name: form.name });
  app.log.info('login', { password: form.password });
  console.log('password is wrong', tokens.length, tokenCount);
  if (app.env === 'development') console.log('code', otp);
});
`,
  'secrets and stacks in answers': `
import { db as database } from 'svc/db';
import { JSONResponse, reply, Depends, Svc, hashPassword } from 'svc';
const app = new Svc();
app.exceptionHandler(Error, (error) => new JSONResponse({ message: error.message, stack: error.stack }, { status: 500 })); // SVC305 SVC626
app.get('/a', {}, async () => {
  try { return await load(); } catch (err) {
    return reply({ detail: err.stack }, 500); // SVC626
  }
});
app.get('/b', { db: Depends(database) }, async ({ db }) => {
  const user = await db.fetchOne('select * from users');
  return { id: user.id, passwordHash: user.password_hash }; // SVC615 SVC626
});
app.get('/env', {}, () => process.env); // SVC626
app.get('/c', { response: User }, ({ user }) => ({ id: user.id, passwordHash: user.hash }));
app.post('/d', { db: Depends(database) }, async ({ form, db }) => {
  await createUser({ name: form.name, passwordHash: await hashPassword(form.password) });
  try { await load(); } catch (error) { app.log.error('failed', { stack: error.stack }); }
  return { ok: true };
});
app.exceptionHandler(TypeError, (error) => reply({ stack: environment === 'prod' ? null : error.stack }, 500)); // SVC305
`,
  'accounts by an e-mail address': `
import { openDatabase } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
const db = await openDatabase('sqlite:notes.db');
const a = new OAuthPlugin({
  onUser: async (provider, info) => {
    const user = await db.fetchOne('select id from users where email = ?', [info.email]); // SVC627
    return { sub: user.id }; // SVC615
  },
});
const b = new OAuthPlugin({
  onUser: async (provider, { email, emailVerified, subject }) => {
    const user = emailVerified ? await db.fetchOne('select id from users where email = ?', [email]) : undefined;
    return { sub: user?.id ?? subject };
  },
});
const c = new OAuthPlugin({
  onUser: async (provider, info) => {
    const user = await db.fetchOne('select id from users where provider = ? and subject = ?', [provider, info.subject]);
    return { sub: user.id, claims: { email: info.email } }; // SVC615
  },
});
`,
  'secrets in the sources': `
// FILE app.ts
import { DatabasePlugin } from 'svc/db';
import { BearerAuth, SessionMiddleware, createToken, Svc, Depends } from 'svc';
import { githubProvider } from 'svc/oauth';
import { SECRET } from './config.ts';
export const app: Svc = new Svc();
app.use(new SessionMiddleware({ secrets: 'c7Qm9v2xT4bN8kLrW6yZ1pHs5dGj3fAe' })); // SVC205
app.get('/me', { me: Depends(BearerAuth(SECRET)) }, ({ me }) => me); // SVC205
app.get('/too', { me: Depends(BearerAuth(process.env['JWT_SECRET'] ?? 'dev')) }, ({ me }) => me); // SVC205
const login = githubProvider('shop', 'gho_16C7e42F292c6912E7710c838347Ae178B4a'); // SVC205
const token = createToken('me', 'changeme'); // SVC205
const hook = app.config.get('hookSecret', 'hook'); // SVC205
app.register(new DatabasePlugin('postgres://shop:hunter22@db.shop.example/shop')); // SVC205
const right = BearerAuth(process.env['JWT_SECRET'] ?? '');
const local = app.env === 'production' ? need('X_SECRET') : (process.env['X_SECRET'] ?? 'development only');
app.register(new DatabasePlugin('postgres://localhost/shop'));
const name = app.config.get('title', 'Shop');
// FILE config.ts
export const SECRET: string = 'c7Qm9v2xT4bN8kLrW6yZ1pHs5dGj3fAf';
`,
  'tokens that let their owner in, and others': `
import jwt from 'jsonwebtoken';
import { Svc, rooms } from 'svc';
const app = new Svc();
app.post('/chat/:token', async (req, res) => {
  const { token } = req.params;
  const room = await rooms.find(token);
  console.log(\`token \${room.token}\`);
  for (const token of tokensOf(req.body.text)) console.log(token);
  res.json(room);
});
app.post('/login', async (req, res) => {
  const token = jwt.sign({ sub: req.body.name }, key, { expiresIn: '1h' });
  console.log('new token', token); // SVC625
  console.log(req.body.token); // SVC625
  const { token: csrf, name } = req.cookies;
  res.json({ csrf, name });
});
`,
  'what commands print': `
import { parse } from 'commander';
const { password } = await createAdmin(parse());
console.log('Password:', password);
`,
  'proofs for other services, and formats of files': `
import { createHash } from 'node:crypto';
export async function signIn(name, password) {
  const proof = createHash('md5').update(name + password).digest('hex');
  return await fetch(\`https://music.example/?proof=\${proof}\`);
}
export function htpasswd(password, salt) {
  let digest = createHash('md5').update(password + salt).digest();
  for (let round = 0; round < 1000; round++) digest = createHash('md5').update(digest).digest();
  return digest;
}
export const salt = Math.random().toString(36).slice(2, 10);
`,
  'hashes that are only compared, and ids for tokens': `
import { createHash, timingSafeEqual } from 'node:crypto';
export const generateIdForToken = () => \`task-item-\${Math.ceil(Math.random() * 10000)}\`;
const isEqual = (one, other) =>
  timingSafeEqual(createHash('sha256').update(one).digest(), createHash('sha256').update(other).digest());
export const mayEnter = (password) => isEqual(password, known);
`,
  'names of tasks, and tokens of a client of a provider': `
export const sessionId = \`task-\${Date.now()}-\${Math.random().toString(36)}\`;
const apiKey = process.env.LOCAL_API_KEY ?? 'not-used';
export async function refresh(token) {
  const payload = JSON.parse(Buffer.from(token.split('.')[1], 'base64').toString());
  console.log('token of', payload.upn);
  return await post({ grant_type: 'refresh_token', client: apiKey });
}
`,
  'tokens that name the key for their check': `
import jwt from 'jsonwebtoken';
export const options = {
  secretOrKeyProvider: async (request, token, done) => done(null, await keyOf(jwt.decode(token).aud)),
};
`,
  'signatures of structures, and tests of a form': `
import { cached } from 'svc';
import jwt from 'jsonwebtoken';
export const isSame = (one, other) => one.signature === other;
export const known = (signature) => cached.signature === signature;
export const isToken = (text) => !!jwt.decode(text);
export function sessionOf(tokens, text) {
  const jwt = tokens.service;
  return jwt.decode(text);
}
`,
  'tokens of the client itself': `
import jwt from 'jsonwebtoken';
export class Client {
  headers() { return { 'x-csrf': jwt.decode(this.token).csrf }; }
}
`,
  'tokens in a browser': `
export function keep(token) {
  const { exp } = JSON.parse(atob(token.split('.')[1]));
  window.localStorage.setItem('expiry', exp);
}
`,
  'tokens that a provider has just sent': `
import jwt from 'jsonwebtoken';
export const strategy = new Strategy(options, async (request, accessToken, refreshToken, profile, done) => {
  const { tid } = jwt.decode(accessToken);
  done(null, await accountOf(tid, profile));
});
`,
  'a digest that a slow hash takes in another module': `
// FILE app.js
import { compare } from './password.js';
export const check = async (password, user) => await compare(password, user.hash);
// FILE password.js
import { createHash } from 'node:crypto';
export async function compare(password, hash) {
  password = createHash('sha512').update(password).digest('hex');
  return await pool.run('compare', password, hash);
}
`,
  'bodies with a password in a log': `
// FILE app.ts
import { Field, Schema, Svc, Unauthorized, checkPassword, str } from 'svc';
import { Journal } from './journal.ts';
export const app: Svc = new Svc();
class Entry extends Schema { name = Field(str); phrase = Field(str); }
class Login extends Schema { name = Field(str); password = Field(str); }
const journal = new Journal(app.log);
app.post('/enter', { body: Entry, public: 'the login', rateLimit: { perMinute: 5 } }, async ({ body, req }) => {
  if (await checkPassword(body.phrase, stored(body.name))) return { name: body.name };
  journal.all(body, req.ip);
  journal.most(body);
  journal.some(body.name);
  throw new Unauthorized();
});
app.post('/login', { body: Login, public: 'the login', rateLimit: { perMinute: 5 } }, async ({ body }) => {
  if (await checkPassword(body.password, stored(body.name))) return { name: body.name };
  journal.named(body);
  throw new Unauthorized();
});
// FILE journal.ts
import type { Logger } from 'svc';
export class Journal {
  readonly #log: Logger;
  constructor(log: Logger) { this.#log = log.child('logins'); }
  all(given: object, ip: string): void { this.#log.warn('login_failed', { ...given, ip }); } // SVC625
  most(given: object): void { this.#log.warn('login_failed', { ...given, phrase: undefined }); }
  some(name: string): void { this.#log.warn('login_failed', { name }); }
  named(given: object): void { this.#log.warn('login_failed', { ...given }); }
}
`,
  'keys whose fallback is in the sources, through fields and settings': `
// FILE app.ts
import { Svc } from 'svc';
import { settingsOf } from './settings.ts';
import { Seals } from './seals.ts';
export const app: Svc = new Svc();
const settings = settingsOf(app.config);
const seals = new Seals(settings.stamp);
const own = new Seals(process.env['STAMP_OF_SHOP'] ?? 'a stamp that only the shop knows'); // SVC205
const bare = new Seals(settings.empty);
app.get('/a', {}, () => seals.seal('a') + own.seal(settings.title) + bare.seal('c'));
// FILE settings.ts
import type { Config } from 'svc';
export function settingsOf(config: Config) {
  return {
    stamp: config.get('stamp', 'stamp-of-the-shop-2024'), // SVC205
    empty: config.get('empty', ''),
    title: config.get('title', 'The shop'),
    minutes: config.get('minutes', 30),
  };
}
// FILE seals.ts
import { createHmac } from 'node:crypto';
export class Seals {
  readonly #stamp: string;
  constructor(stamp: string) { this.#stamp = stamp; }
  seal(text: string): string { return createHmac('sha256', this.#stamp).update(text).digest('hex'); }
}
`,
  'a random number that code hashes or signs with': `
import { createHash, createHmac, randomBytes, randomInt } from 'node:crypto';
const digestOf = (text) => createHash('sha256').update(text).digest('hex');
export function ticket() {
  const mark = Array.from({ length: 4 }, () => Math.random().toString(36).slice(2)).join(''); // SVC622
  return { mark, digest: digestOf(mark) };
}
export function seal(text) {
  const key = String(Math.floor(Math.random())); // SVC622
  return createHmac('sha256', key).update(text).digest('hex');
}
const SIGNS = 'ABCDEFGH23456789';
const signs = (size) => Array.from({ length: size }, () => SIGNS[Math.floor(Math.random() * SIGNS.length)]); // SVC622
const sign = () => SIGNS.charAt(Math.trunc(Math.random() * 16)); // SVC622
export const vouchers = () => [digestOf(signs(9).join('')), digestOf('V' + sign() + sign())];
const HOSTS = ['a.example', 'b.example'];
export const shard = () => digestOf(HOSTS[Math.floor(Math.random() * HOSTS.length)]);
export const safe = () => digestOf(SIGNS[randomBytes(1)[0] % 16] + SIGNS[randomInt(16)]);
export const other = () => digestOf(randomBytes(32).toString('hex'));
export const shade = () => 'hsl(' + Math.floor(Math.random()) + ')';
`,
  'rows with a secret column, in parts, as classes and out of transactions': `
import { Field, Schema, Svc, int, str, Depends, NotFound } from 'svc';
import { db } from 'svc/db';
class User extends Schema { id = Field(int); name = Field(str); password = Field(str); }
class Safe extends Schema { id = Field(int); name = Field(str); password = Field(str, { secret: true }); }
class Short extends Schema { id = Field(int); name = Field(str); }
export const app = new Svc();
const one = 'select id, name, password from account where id = ?';
app.get('/rest/{id:int}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  const user = await db.fetchOne(one, [params.id]); // SVC626
  if (!user) throw new NotFound();
  const { id, ...rest } = user;
  return rest;
});
app.get('/without/{id:int}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  const user = await db.fetchOne(one, [params.id]);
  if (!user) throw new NotFound();
  const { password, ...rest } = user;
  return rest;
});
app.get('/deleted/{id:int}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  const user = await db.fetchOne(one, [params.id]);
  if (!user) throw new NotFound();
  delete user['password'];
  return user;
});
app.get('/other/{id:int}', { db: Depends(db), public: 'x' }, async ({ db, params }) => {
  const user = await db.fetchOne(one, [params.id]); // SVC626
  if (!user) throw new NotFound();
  delete user['name'];
  return user;
});
app.get('/map', { db: Depends(db), public: 'x' }, async ({ db }) => {
  const users = await db.fetchAll('select id, name, password from account limit 9'); // SVC626
  return users.map(({ id, ...rest }) => rest);
});
app.get('/as', { db: Depends(db), public: 'x' }, async ({ db }) => {
  return await db.fetchAll('select id, name, password from account limit 9', [], { as: User }); // SVC626
});
app.get('/assafe', { db: Depends(db), public: 'x' }, async ({ db }) => {
  return await db.fetchAll('select id, name, password from account limit 9', [], { as: Safe });
});
app.get('/asshort', { db: Depends(db), public: 'x' }, async ({ db }) => {
  return await db.fetchAll('select id, name from account limit 9', [], { as: Short });
});
app.get('/asspread', { db: Depends(db), public: 'x' }, async ({ db }) => {
  const users = await db.fetchAll('select id, name, password from account limit 9', [], { as: User }); // SVC626
  return { users: users.map((user) => ({ ...user, me: false })) };
});
app.get('/tx', { db: Depends(db), public: 'x' }, async ({ db }) => {
  const users = await db.transaction(async (tx) => tx.fetchAll('select id, name, password from account limit 9')); // SVC626
  return { users };
});
`,
  'passwords that a handler makes, hashes or reads': `
import { randomBytes } from 'node:crypto';
import { Depends, Field, Schema, Svc, hashPassword, requireRoles, str } from 'svc';
import { db } from 'svc/db';
class NewUser extends Schema { username = Field(str, { maxLength: 32 }); }
const app = new Svc();
app.post('/users', { body: NewUser, db: Depends(db), me: Depends(requireRoles('admin')) }, async ({ body, db }) => {
  const password = randomBytes(12).toString('base64url');
  await db.execute('insert into users (username, password) values (?, ?)', [body.username, await hashPassword(password)]);
  return { username: body.username, password };
});
app.post('/users/reset', { body: NewUser, db: Depends(db), me: Depends(requireRoles('admin')) }, async ({ body, db }) => {
  const password = await hashPassword(randomBytes(12).toString('base64url'));
  await db.execute('update users set password = ? where username = ?', [password, body.username]);
  return { username: body.username, password }; // SVC626
});
app.get('/users/{name}', { db: Depends(db), me: Depends(requireRoles('admin')) }, async ({ params, db }) => {
  const row = await db.fetchOne('select username, password from users where username = ?', [params.name]);
  return { username: row?.['username'], password: row?.['password'] }; // SVC626
});
`,
};
