/** Wrong and right applications for the rules of access that follow statements and principals (SVC640 ... SVC646). */

/** An application with a guard and a database, whose routes have this code. */
const application = (code: string): string => `
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, Unauthorized, literal, provide, str } from 'svc';
import { db as database } from 'svc/db';
import { createHmac, timingSafeEqual } from 'node:crypto';
export const app: Svc = new Svc();
const base: Dependency = Depends(database);
const me: Dependency = Depends(BearerAuth());
app.onStartup(({ state }) => state.db.script(\`
  create table album (id integer primary key, owner text not null, plays integer);
  create table photo (id integer primary key, album integer references album (id));
  create table known (message text primary key)\`));
app.get('/albums/{id}', { me, base }, ({ me, base, params }) =>
  base.fetchAll('select id from album where id = ? and owner = ?', [params.id, me.sub]));
${code}
`;

const secret = (check: string): string =>
  application(`import { checkPassword, hashPassword } from 'svc';
class Change extends Schema { name: string = Field(str); next: string = Field(str); }
app.post('/password', { me, base, body: Change }, async ({ me, base, body }) => {
  ${check}
  await base.execute('update person set hash = ? where id = ?', [await hashPassword(body.next), me.sub]);
});`);

const found = (condition: string): string =>
  application(`app.get('/films', { me, base }, ({ me, base }) =>
  base.fetchAll('select id from film where owner = ? and removed_at is null', [me.sub]));
app.delete('/films/{id}', { me, base }, ({ me, base, params }) =>
  base.execute('update film set removed_at = ? where id = ? and owner = ?', [Date.now(), params.id, me.sub]));
app.get('/films/{id}', { me, base }, ({ me, base, params }) =>
  base.fetchOne('select id from film where id = ? and owner = ?${condition}', [params.id, me.sub]));`);

const changed = (statement: string): string =>
  application(`class Patch extends Schema { name: string = Field(str); role: string = Field(literal('a', 'b')); }
app.patch('/me', { me, base, body: Patch }, async ({ me, base, body }) => {
  await base.execute(${statement});
});`);

const played = (condition: string, values: string): string =>
  application(`app.post('/albums/{id}/play', { me, base }, async ({ me, base, params }) => {
  const plays: number = await base.scalar('select plays from album where id = ? and owner = ?', [params.id, me.sub]);
  if (plays > 99) throw new Forbidden();
  await base.execute('update album set plays = ? where id = ? and owner = ?${condition}', [plays + 1, params.id, me.sub${values}]);
});`);

const created = (work: string): string =>
  application(`app.post('/albums', { me, base }, async ({ me, base }) => ${work});`);

const received = (first: string): string =>
  application(`app.post('/in', { base, public: 'signed' }, async ({ base, req, body }) => {
  const wanted: Buffer = createHmac('sha256', process.env.SIGNING).update(await req.bytes()).digest();
  if (!timingSafeEqual(wanted, Buffer.from(req.headers['x-sign'], 'hex'))) throw new Unauthorized();
  ${first}
  await base.execute('update album set plays = plays + ? where id = ?', [body.plays, body.album]);
});`);

const decided = (caught: string): string =>
  application(`async function mayPlay(name: string): Promise<boolean> {
  try {
    return await policy.ask(name);
  } catch (error: unknown) {
    ${caught}
  }
}
app.get('/play', { me }, async ({ me }) => {
  if (!(await mayPlay(me.sub))) throw new Forbidden();
  return 'music';
});`);

const named = (result: string): string =>
  application(`class Named extends Schema { xName: string = Field(str); }
const security: Security = { scheme: 'apiKey', credential: { in: 'header', name: 'X-Name' } };
const listener: Provider = provide({ headers: Named, security, me }, ({ headers, me }) => (${result}));
app.get('/name', { listener: Depends(listener) }, ({ listener }) => listener.id);`);

const forgotten = (absent: string): string =>
  application(`app.post('/forgot', { base, public: 'forgotten' }, async ({ base, form }) => {
  const account = await base.fetchOne('select id from account where mail = ?', [form.mail]);
  if (account === undefined) ${absent}
  await base.execute('update account set reset = ? where id = ?', [randomUUID(), account.id]);
  return 'sent';
});`).replace("from 'node:crypto'", "from 'node:crypto';\nimport { randomUUID } from 'node:crypto'");

/** The pair of SVC648, which stands behind those of other files. */
export const ACCOUNT_PAIR: { readonly wrong: string; readonly right: string } = {
  wrong: forgotten('throw new Forbidden();'),
  right: forgotten("return 'sent';"),
};

/** Wrong and right code by rule. */
export const ACCESS_PAIRS: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC640: {
    wrong: application(`app.delete('/albums/{id}', { me, base }, async ({ base, params }) => {
  await base.execute('delete from album where id = ?', [params.id]);
});`),
    right: application(`app.delete('/albums/{id}', { me, base }, async ({ me, base, params }) => {
  await base.execute('delete from album where id = ? and owner = ?', [params.id, me.sub]);
});`),
  },
  SVC641: {
    wrong: changed("'update account set name = ?, role = ? where id = ?', [body.name, body.role, me.sub]"),
    right: changed("'update account set name = ? where id = ?', [body.name, me.sub]"),
  },
  SVC642: { wrong: played('', ''), right: played(' and plays = ?', ', plays') },
  SVC643: {
    wrong: created(`{
  const id: unknown = await base.scalar('insert into album (owner) values (?) returning id', [me.sub]);
  await base.execute('insert into photo (album) values (?)', [id]);
}`),
    right: created(`base.transaction(async (tx) => {
  const id: unknown = await tx.scalar('insert into album (owner) values (?) returning id', [me.sub]);
  await tx.execute('insert into photo (album) values (?)', [id]);
})`),
  },
  SVC644: {
    wrong: received(''),
    right: received("await base.execute('insert into known (message) values (?)', [body.message]);"),
  },
  SVC645: { wrong: decided('return true;'), right: decided('return false;') },
  SVC646: { wrong: named('{ id: headers.xName }'), right: named('{ id: me.sub, as: headers.xName }') },
};

/** The pair of SVC423. */
export const MIGRATION_PAIR: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC423: {
    wrong: application(
      "app.onStartup(({ state }) => state.db.script('create table person (id integer, is_admin integer default 1)'));",
    ),
    right: application(
      "app.onStartup(({ state }) => state.db.script('create table person (id integer, is_admin integer default 0)'));",
    ),
  },
};

/** The pair of SVC649. */
export const CHANGE_PAIR: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC649: {
    wrong: secret(''),
    right: secret(
      'if (!(await checkPassword(body.name, (await base.scalar("select hash from person where id = ?", [me.sub])) as string))) throw new Unauthorized();',
    ),
  },
};

/** The pairs of SVC671 and SVC672. */
export const ROW_PAIRS: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC671: {
    wrong: application(
      "app.get('/list', { base }, ({ base }) => base.fetchAll('select id from album limit 10 offset 20'));",
    ),
    right: application(
      "app.get('/list', { base }, ({ base }) => base.fetchAll('select id from album order by id limit 10 offset 20'));",
    ),
  },
  SVC672: {
    wrong: found(''),
    right: found(' and removed_at is null'),
  },
};

const guarded = (test: string): string =>
  application(`app.use((req, next) => {
  ${test}
  if (req.cookies['seen'] !== 'yes') throw new Forbidden();
  return next();
});`);

const signedIn = (more: string): string =>
  application(`import { hashPassword } from 'svc';
import { createHash, randomUUID } from 'node:crypto';
class Name extends Schema { name: string = Field(str); }
const signedIn = provide({ base, security: { scheme: 'cookie' } }, ({ base, req }) =>
  base.scalar('select person from login where token = ?', [createHash('sha256').update(req.cookies['sid'] ?? '').digest('hex')]));
app.onStartup(({ state }) => state.db.script('create table person (id text primary key, hash text); create table login (token text primary key, person text references person)'));
app.post('/login', { base }, ({ base, req }) => base.execute('insert into login (token, person) values (?, ?)', [createHash('sha256').update(randomUUID()).digest('hex'), 'a']));
app.post('/hash', { who: Depends(signedIn), base, body: Name }, ({ base, who, body }) => base.transaction(async (tx) => {
  await tx.execute('update person set hash = ? where id = ?', [await hashPassword(body.name), who]);
  ${more}
}));`);

const stored = (password: string): string =>
  application(`import { Unauthorized, checkPassword, hashPassword } from 'svc';
class Login extends Schema { name: string = Field(str); password: string = Field(str); }
app.post('/people', { me, base, body: Login }, async ({ base, body }) => {
  await base.execute('insert into person (name, password) values (?, ?)', [body.name, ${password}]);
});
app.post('/login', { base, body: Login }, async ({ base, body }) => {
  const hash = String(await base.scalar('select password from person where name = ?', [body.name]));
  if (!(await checkPassword(body.password, hash))) throw new Unauthorized();
});`);

/** The pairs of SVC673 to SVC677. */
export const SWITCH_PAIRS: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC673: {
    wrong: guarded("if (req.headers.get('x-internal') === '1') return next();"),
    right: guarded("if (req.path === '/') return next();"),
  },
  SVC674: {
    wrong: signedIn(''),
    right: signedIn("await tx.execute('delete from login where person = ?', [who]);"),
  },
  SVC675: {
    wrong: application('app.onStartup(() => void setTimeout(() => undefined, 30 * 86_400_000).unref());'),
    right: application('app.onStartup(() => void setTimeout(() => undefined, 20 * 86_400_000).unref());'),
  },
  SVC676: {
    wrong: application("app.onStartup(({ state }) => state.db.script('drop table if exists job'));"),
    right: application("app.onStartup(({ state }) => state.db.script('drop table if exists temp_job'));"),
  },
  SVC677: { wrong: stored('body.password'), right: stored('await hashPassword(body.password)') },
};
