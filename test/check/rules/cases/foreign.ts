/** Right code that other applications write, and that is close to a mistake. */
export const FOREIGN: Readonly<Record<string, string>> = {
  'background work that is meant to run alone': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/a', async (req, res, next) => {
  show(req.body, next); // SVC611
  wait();
  refresh(req.body);
  // fire and forget
  report(req.body); // SVC611
  store(req.body); // SVC611
  res.sendStatus(202);
});
async function show(data, next) { await send(data); next(); }
async function wait() { await new Promise((resolve) => { setTimeout(resolve, 1_000); }); }
async function refresh(data) { try { await send(data); } catch (error) { await log(error); } }
async function report(data) { await send(data); }
async function store(data) { await send(data); }
function hashPassword(password) { return slowHash(password); }
app.post('/b', (req, res) => res.json({ isSame: hashPassword(req.body.password) === 'x' }));
`,
  'methods of another class': `
import { Svc } from 'svc';
const app = new Svc();
class Base { save() { return 1; } }
class Store { async store() { await send(1); } }
class Page extends Base {
  constructor() { super(); app.post('/page', (req, res) => { this.store(); res.sendStatus(204); }); }
}
`,
  'rejections that a listener receives': `
import { Svc } from 'svc';
const app = new Svc();
process.on('unhandledRejection', (error) => { log.error(error); });
app.post('/a', async (req, res) => { store(req.body); res.sendStatus(202); });
async function store(data) { await send(data); }
`,
  'lists of streams and cursors': `
import { db as database } from 'svc/db';
import { Depends, Svc } from 'svc';
const app = new Svc();
app.get('/a', { db: Depends(database) }, async ({ db }) => {
  await rows.filter(async (row) => await isKnown(row));
  readable.filter(async (row) => await isKnown(row));
  notes.find({}).forEach(async (note) => { await send(note); });
});
`,
  'time limits in variables': `
import { Svc } from 'svc';
import axios from 'axios';
import https from 'node:https';
const app = new Svc();
const options = { url: 'https://rates.example/eur', timeout: 5_000 };
app.get('/a', {}, async () => await axios(options));
app.get('/b', {}, () => https.request(options));
app.get('/c', {}, async () => await fetch('/api/rates'));
app.get('/d', {}, async () => await fetch('https://rates.example/eur')); // SVC635
app.get('/e', {}, () => { axios.post('https://hooks.example/a').catch(warn); });
app.get('/f', (req, res) => { axios.get('https://rates.example/a').then((rates) => res.json(rates)); }); // SVC635
`,
  'streams of a command': `
import { createGunzip } from 'node:zlib';
import { createReadStream } from 'node:fs';
const [file] = process.argv.slice(2);
createReadStream(file).pipe(createGunzip()).pipe(process.stdout);
`,
  'bodies that a schema checks, and parts of addresses': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/note', async (req, res) => {
  const { error } = schema.validate(req.body);
  if (error) return res.status(400).json(error);
  res.json(await Note.create(req.body));
});
app.post('/rest', async (req, res) => {
  const { id, owner, ...fields } = req.body;
  res.json(await Note.create(fields));
});
app.get('/lang/:lang', (req, res) => res.json(require('./lang/' + req.params.lang + '.json')));
app.get('/host', (req, res) => res.redirect('https://' + req.headers['x-forwarded-host']));
app.get('/next', (req, res) => res.redirect(\`./\${req.query.id}/edit\`));
`,
  'values that are no secrets': `
import { createHash } from 'node:crypto';
export const prodCacheBustToken = String(Math.random());
export const mode = { token(stream) { const name = 'n-' + Math.random(); return stream.next() ? name : null; } };
export const generateSessionId = () => { return \`terminal_\${Math.random()}\`; };
export function login(req, user) { return generatePassword(req.body.password, user.salt) === user.password; }
export const digest = (nonce, password) => createHash('sha256').update(nonce + password).digest('hex');
const captainDefaultPassword = process.env.START ?? 'captain';
export const isDefault = (password) => captainDefaultPassword === password;
export function refuse(token) { log.warn('Invalid token', req.body.token); }
const password = await Passwords.insert({ placeholder: String(Math.random()) });
export const claims = (tokens, token) => tokens.decodeToken(token).sub;
`,
  'settings that the first request reads': `
import { Svc } from 'svc';
const app = new Svc();
let provider;
app.get('/a', (req, res) => {
  if (!provider) provider = open(req);
  res.json(provider.list());
});
`,
  'paths with a fixed name at their end, and lists of paths': `
import { Svc, FileResponse } from 'svc';
import fs from 'node:fs';
import path from 'node:path';
const app = new Svc();
app.get('/icons/:name', (req, res) => {
  const icon = path.join(ROOT, req.params.name, 'icon.svg');
  fs.createReadStream(\`streams/\${req.params.name}/s.jpg\`).on('error', fail).pipe(res);
  return fs.existsSync(icon) && fs.existsSync(ROOT + req.params.name + '/icon.png');
});
app.get('/page/:name', (req, res) => res.json(fs.readFileSync(\`pages/\${req.params.name}.html\`, 'utf8'))); // SVC606
app.get(API + '/b/:page', (req) => new FileResponse(path.join(ROOT, req.params.page))); // SVC606
client.get(API + '/c', (response) => fs.createWriteStream(response.headers['x-file']));
`,
  'calls that a linter may leave alone': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/a', async (req, res) => {
  // eslint-disable-next-line @typescript-eslint/no-floating-promises
  store(req.body); // SVC611
  // eslint-disable-next-line @typescript-eslint/no-misused-promises
  req.body.items.forEach(async (item) => { await store(item); });
  res.sendStatus(202);
});
async function store(data) { await send(data); }
`,
  'streams of other packages': `
import fs from 'node:fs';
export const deliver = (compiler, message) => compiler.compile().createReadStream().pipe(message);
export const save = (answer) => answer.body.pipe(fs.createWriteStream('out')); // SVC613
`,
  'elements that a key finds': `
import { Depends, Svc, rooms } from 'svc';
import { db as database } from 'svc/db';
const app = new Svc();
app.get('/a/{token}', { db: Depends(database) }, async ({ params, query, db }) => {
  const all = await db.fetchAll('select * from room where open = ?', [true]);
  const room = await db.fetchOne('select * from room where id = ?', [query.id]);
  const { token } = query;
  if (room === undefined || room.token !== token) return 1; // SVC621
  if (all.find((each) => each.token === params.token)) return {};
  return rooms.filter((each) => each.isOpen && each.token === token);
});
`,
  'passwords and tokens in memory only': `
import { createHash } from 'node:crypto';
class Game {
  constructor(password) { this.password = createHash('md5').update(password).digest('hex'); }
}
export const channelToken = Math.random();
export const nonce = Math.random().toString(36);
`,
  'tokens of locks': `
const token = Math.random();
lock.take(token);
`,
  'refusals in logs': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/a', {}, async ({ req }) => {
  const { accessToken, resetToken, authToken } = await req.json();
  app.log.warn('token', accessToken); // SVC625
  app.log.info(\`\${resetToken} does not match\`); // SVC625
  if (!isKnown(authToken)) console.log('no user for', authToken); // SVC625
  console.log('starts with', authToken.slice(0, 4));
  app.log.info(\`new \${authToken}\`); // SVC625
});
`,
  'settings that administrators write, and handlers of unknown routes': `
import { Svc } from 'svc';
const app = new Svc();
app.put('/settings', (req, res) => { Object.assign(settings.mail, req.body); res.json(settings); });
export const create = async (req, res) => res.json(await Note.create(req.body));
`,
  'a variable of the module that each function sets before it reads it': `
import { Svc } from 'svc';
const app = new Svc();
let options;
app.get('/a', (req, res) => {
  options = optionsOf(req);
  options.url = req.session.base + '/a';
  ask(options).then((answer) => res.json(answer));
});
let shared;
app.get('/b', async (req, res) => {
  shared = req.query.base; // SVC631
  await ask(shared);
  res.json(await ask(shared));
});
`,
  'bodies of settings, and files of found rows': `
import { model } from 'mongoose';
import { Svc } from 'svc';
const app = new Svc();
const Note = model('Note');
app.post('/c', limit({ perMinute: 5 }), async (req) => await Note.create(req.body)); // SVC633
app.put('/d', async (req) => await Settings.update(req.body));
app.get('/e/:id', (req, res) =>
  notes.by_id('notes', req.params.id).then((note) => need(note)).then(() => res.sendFile('notes/' + req.params.id)));
`,
  'chance for marks that no client presents': `
export function generateCorrelationToken() { return Math.random().toString(36).slice(2); }
export const createSessionId = (length) => String(Math.random()).slice(2, length);
`,
  'streams of a script, and keys from settings': `
import { createGzip } from 'node:zlib';
import { createReadStream, createWriteStream } from 'node:fs';
import { createHash } from 'node:crypto';
createReadStream('site.css').pipe(createGzip()).pipe(createWriteStream('site.css.gz'));
const password = process.env.PASSWORD;
export const key = createHash('md5').update(password).digest('hex');
`,
  'passwords that a log announces': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/a', {}, async ({ req }) => {
  const user = await req.json();
  console.log('generated credentials:', user.name, user.password); // SVC625
  app.log.debug('request with', user.apiKey.length);
  console.log('credentials:', user.name, user.password); // SVC625
});
`,
  'files whose name a search has found': `
import fs from 'node:fs';
import { Svc, FileResponse } from 'svc';
import { existsSync } from 'node:fs';
import path from 'node:path';
const app = new Svc();
app.get('/files/:file(*)', (req) => new FileResponse(path.join(ROOT, req.params.file))); // SVC606
app.get('/copies/:id', async (req, res) => {
  const copy = await copies.stateOf(req.params.id);
  switch (copy.state) {
    case 'done': return fs.createReadStream(ROOT + '/' + req.params.id).on('error', fail).pipe(res);
    default: return res.sendStatus(404);
  }
});
app.get('/old', (req, res) => res.redirect('/' + req.locale + '/pages/' + req.query.page));
app.get('/ask', async (req) => await fetch('http://' + HOST + '/pages/' + req.query.page, { signal: req.signal }));
app.get('/new/:name', (req, res) => {
  if (existsSync(ROOT + req.params.name)) return new FileResponse(ROOT + req.params.name); // SVC606
});
app.get('/start', (req, res) => res.sendFile(req.args.page));
`,
  'functions that a list calls by name': `
export const stopAll = () => Object.keys(running).forEach(stop);
async function stop(name) { await send(name); }
`,
  'a password hash and its comparison': `
import { Svc } from 'svc';
import { createHash } from 'node:crypto';
const app = new Svc();
const hashOf = (password) => createHash('sha256').update(password).digest('hex');
const digestOf = (text) => createHash('sha256').update(text).digest('hex');
export const stored = hashOf(process.env.PASSWORD);
app.post('/login', (req, res) => res.json(digestOf(req.body.password) === stored));
app.post('/join', (req, res) => keep(hashOf(req.body.password))); // SVC623
`,
  'requests that are answers, and words of other programs': `
import { Svc } from 'svc';
const app = new Svc();
function showPage(request, show) {
  let text = '';
  request.on('data', (chunk) => { text += chunk; });
  request.on('end', () => show(text));
}
app.post('/pay', (req, res) => res.json(req.params.kind === KIND.TOKEN));
`,
  'paths that cannot leave their folder': `
import { Svc, FileResponse } from 'svc';
import path from 'node:path';
const app = new Svc();
app.get('/a', {}, ({ query }) => new FileResponse(ROOT + path.normalize('/' + query.name)));
app.get('/b', {}, ({ query }) => new FileResponse(path.join(ROOT, path.resolve('/', query.name))));
app.get('/c', {}, ({ query }) => new FileResponse(path.resolve('/', query.name))); // SVC606
`,
  'a function that hands its statement on': `
import { Svc } from 'svc';
import { Pool } from 'pg';
const app = new Svc();
const pool = new Pool();
const query = async (text, values) => await pool.query(text, values);
export const db = { query };
const execute = (sql, values) => new Promise((done) => pool.query(sql, values, done));
app.get('/b', async (req, res) => res.json(await execute("select * from a where name = '" + req.query.b + "'"))); // SVC601
app.get('/a', async (req, res) => res.json(await db.query('select * from a where id = ' + req.query.id))); // SVC601
`,
  'messages that a password authenticates': `
import { createHash } from 'node:crypto';
export const code = (message, password) => createHash('sha256').update(message + password).digest('hex');
`,
  'tokens that a package of the organisation verifies, and keys of a cache': `
import { createHash } from 'node:crypto';
import { decodeToken } from '@acme/tokens';
export const who = (token) => decodeToken(token).account;
export const cacheKeyOf = (name, password) => name + createHash('sha256').update(password).digest('hex');
`,
  'code that runs in development only': `
import fs from 'node:fs';
import { Svc, FileResponse } from 'svc';
const app = new Svc();
if (config.dev) app.post('/files', (req, res) => fs.writeFile(req.body.file, '', () => res.end()));
if (process.env.NODE_ENV !== 'production') app.get('/a', {}, ({ query }) => new FileResponse(ROOT + query.name));
else app.get('/a', {}, ({ query }) => new FileResponse(ROOT + query.name)); // SVC606
app.delete('/users/:id', (req, res) => { const myId = req.session.token; res.json(req.params.id === myId); });
app.get('/challenges/:token', (req, res) => res.json(config.challenge.token === req.params.token));
`,
  'addresses of services, whatever their name': `
import { Svc } from 'svc';
const app = new Svc();
app.post('/models', async (req, res) => res.json(await (await fetch(req.body.basePath + '/models', { signal })).json())); // SVC607
app.post('/page', async (req, res) => res.json(await (await fetch(req.body.page, { signal })).json())); // SVC607
`,
  'redirects that stay, and members named location': `
import { Svc, HttpResponse } from 'svc';
const app = new Svc();
app.get('/a', (req, res) => res.redirect('comics/list?title=' + req.query.title));
app.get('/b', (req, res) => res.redirect((isRelative(req.query.next) && req.query.next) || '/'));
app.post('/c', async (req, res) => res.json(await insert({ name: req.body.name, location: req.body.location })));
app.get('/d', {}, ({ query }) => new HttpResponse(null, { status: 302, headers: { location: query.next } })); // SVC605
`,
  'contexts of other programs, and settings': `
import { Svc } from 'svc';
const app = new Svc();
let appConfig = {};
export const actions = { async send(ctx) { return await fetch(ctx.params.url, { signal: ctx.signal }); } };
app.get('/a', (req, res) => { setTenant(req); });
function setTenant(req) { appConfig.owner = req.user; }
`,
  'listeners around a pipe, answers with headers, and bodies that code validates': `
import { Svc } from 'svc';
import fs from 'node:fs';
const app = new Svc();
let cache;
export const copy = (from, to) => new Promise((resolve, reject) => {
  const source = fs.createReadStream(from);
  source.on('error', reject).on('open', () => source.pipe(to));
});
app.get('/a', async (req, res) => {
  const { headers, data } = await ask('https://rates.example/');
  cache = { tag: headers.etag, data };
  res.json(await later(cache));
});
app.post('/b', async (req, res) => {
  if (!isValidated(req.body)) return res.sendStatus(400);
  res.json(await Note.create(req.body));
});
app.post('/c', async (req, res) => res.json(await C_NOTES.update(1, req.body)));
`,
  'values that an address ends with': `
import { Svc } from 'svc';
const app = new Svc();
app.get('/a', async (req, res) => {
  let address = BASE + '/pages';
  if (req.query.page) address += '?page=' + req.query.page;
  res.json(await (await fetch(address, { signal })).json());
  let target = req.query.target;
  target += '/pages';
  res.json(await (await fetch(target, { signal })).json()); // SVC607
});
`,
  'code of a page, lengths of passwords, and currencies': `
import { Svc } from 'svc';
const app = new Svc();
app.get('/page', async (req, res) => res.json(await page.evaluate(() => fetch('https://rates.example/').then(show))));
const password = randomText(10 + Math.floor(Math.random() * 10));
export function randomNonce() { return Math.random().toString(36); }
app.post('/send', (req, res) => log.info(\`amount \${req.body.amount} of \${req.body.token}\`));
`,
};
