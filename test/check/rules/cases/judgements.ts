/**
 * Applications in which an option, a type or a use decides, and no word: levels of isolation, introspection of tokens, rooms that
 * everyone reads, tools behind a guarded endpoint, and algorithms. Each has a right twin.
 */

/** An application on this database, whose transaction reads a seat, tests it and marks it. */
const seats = (address: string, options: string, mark = ''): string => `
// FILE app.ts
import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { take } from './seats.ts';
export const app = new Svc();
app.register(new DatabasePlugin('${address}'));
app.post('/seats/{seat}', { me: Depends(BearerAuth()), base: Depends(db) }, ({ me, base, params }) => take(base, params.seat, me.sub));
app.get('/totals', { base: Depends(db) }, ({ base }) => base.transaction((tx) => tx.scalar('select count(*) from seat'), { isolation: 'repeatable read' }));
// FILE seats.ts
import { Conflict } from 'svc';
import type { Database } from 'svc/db';
export const take = (base: Database, seat: string, who: string) =>
  base.transaction(async (tx) => {
    const row = await tx.fetchOne('select left_over from seat where name = ?', [seat]);
    if (row === undefined || row.left_over < 1) throw new Conflict('taken');
    await tx.execute('update seat set left_over = ?, last_taker = ? where name = ?', [row.left_over - 1, who, seat]);${mark}
  }${options});
`;

/** An application whose requests share a transaction with these options. */
const shared = (options: string, mark = ''): string => `
// FILE app.ts
import { BearerAuth, Conflict, Depends, Svc } from 'svc';
import { DatabasePlugin, transaction } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@localhost/app'));
app.register(new DatabasePlugin('sqlite:local.db', { name: 'local' }));
app.post('/seats/{seat}', { me: Depends(BearerAuth()), tx: Depends(transaction${options}) }, async ({ tx, params }) => {
  const row = await tx.fetchOne('select left_over from seat where name = ?', [params.seat]);
  if (row === undefined || row.left_over < 1) throw new Conflict('taken');
  await tx.execute('update seat set left_over = ? where name = ?', [row.left_over - 1, params.seat]);${mark}
});
`;

/** An application that answers whether a token counts, with this code where it does. */
const asked = (code: string, failed: string, mark = ''): string => `
// FILE app.ts
import { APIKeyAuth, BearerAuth, Depends, Field, Schema, Svc, str, verifyToken } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
class Question extends Schema { token = Field(str, { maxLength: 2_000 }); }
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:people.db'));
const claimsOf = (token: string) => verifyToken(token, app.config.get('authSecret'));${mark}
app.get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
app.post('/oauth/introspect', { form: Question, client: Depends(APIKeyAuth({ verify: (key) => known(key) })), base: Depends(db) }, async ({ form, base }) => {
  try {
    const { sub, exp } = claimsOf(form.token);
    ${code}
    return { active: true, sub, exp };
  } catch {
    ${failed}
  }
});
`;

/** A chat: members write, and this route reads the lines of a room. */
const chat = (reading: string, mark = ''): string => `
// FILE app.ts
import { BearerAuth, Depends, Field, Forbidden, Schema, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import type { Database } from 'svc/db';
class Line extends Schema { text = Field(str, { maxLength: 500 }); }
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:chat.db'));
app.onStartup(({ state }) => state.db.script(\`create table hall (id integer primary key, title text not null);
  create table seat (hall integer not null references hall(id), person text not null, primary key (hall, person));
  create table line (id integer primary key, hall integer not null references hall(id), author text not null, text text not null)\`));
const enter = async (base: Database, hall: number, person: string): Promise<void> => {
  if ((await base.fetchOne('select 1 as here from seat where hall = ? and person = ?', [hall, person])) === undefined) throw new Forbidden();
};
const known = { me: Depends(BearerAuth()), base: Depends(db) };
app.post('/halls/{hall:int}/lines', { ...known, body: Line }, async ({ me, base, params, body }) => {
  await enter(base, params.hall, me.sub);
  await base.execute('insert into line (hall, author, text) values (?, ?, ?)', [params.hall, me.sub, body.text]);
  app.rooms.broadcast('hall-' + params.hall, body.text);
});
${reading}
app.websocket('/halls/{hall:int}/live', known).onOpen((socket, { params }) => socket.join('hall-' + params.hall));${mark}
`;

/** Tools behind this endpoint. One of them makes a change for which a route requires a role. */
const tools = (endpoint: string, spec: string, mark = ''): string => `
// FILE app.ts
import { BearerAuth, Depends, Field, Svc, int, requireRoles } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:shop.db'));
app.delete('/offers/{id:int}', { me: Depends(requireRoles('clerk')), base: Depends(db) }, ({ base, params }) => base.execute('delete from offer where id = ?', [params.id]));
app.tool('withdraw', { description: 'Withdraws an offer', args: { id: Field(int) }, base: Depends(db)${spec} }, ({ base, args }) => base.execute('delete from offer where id = ?', [args.id]));${mark}
app.mountMcp('/mcp', ${endpoint});
`;

/** A message whose member chooses a function. */
const dispatched = (functions: string, member: string, mark = ''): string => `
// FILE app.ts
import { Svc } from 'svc';
import { run } from './run.ts';
const app = new Svc();
app.post('/in', { public: 'other services' }, async ({ req }) => run(await req.text()));
// FILE run.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
const KEY = process.env.KEY;
const same = (text, mark) => timingSafeEqual(createHmac('sha256', KEY).update(text).digest(), Buffer.from(mark, 'hex'));
const TABLE = new Map(${functions});
export function run(text) {
  const head = JSON.parse(${mark === '' ? 'text' : "text.split('.')[0]"});
  const chosen = TABLE.get(head.${member});
  return chosen(text, head.mark);${mark}
}
`;

/** An application on this database, which finds accounts by the id at a provider, in a column with this collation. */
const people = (address: string, collation: string, mark = ''): string => `
// FILE app.ts
import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
import { personOf } from './people.ts';
export const app = new Svc();
app.register(new DatabasePlugin('${address}'));
app.onStartup(({ state }) => state.db.script(\`create table account (
  person char(36) not null,
  provider varchar(40) not null,
  subject varchar(255)${collation} not null,
  primary key (provider, subject)
)\`));
app.register(new OAuthPlugin({ onUser: (provider, user) => personOf(app.state.db, provider, user) }));
// FILE people.ts
import { str } from 'svc';
import type { Database } from 'svc/db';
export const personOf = (base: Database, provider: string, { subject }) =>
  base.scalar('select person from account where provider = ? and subject = ?', [provider, subject], { as: str });${mark}
`;

/** An application that finds people by the tokens of this guard. */
const members = (guard: string, mark = ''): string => `
// FILE app.ts
import { BearerAuth, Depends, IssuerAuth, Svc, str } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('mysql://app@localhost/app'));
app.onStartup(({ state }) => state.db.script('create table member (id bigint auto_increment primary key, sub varchar(255) not null unique, name text not null)'));
const token = ${guard};
app.get('/me', { me: Depends(token), base: Depends(db) }, ({ me, base }) => base.scalar('select name from member where sub = ?', [me.sub], { as: str }));${mark}
`;

/** An album whose name is stored by this expression, and shown as it is. */
const stored = (name: string, mark = ''): string => `
// FILE app.ts
import { BearerAuth, Depends, Field, HTMLResponse, NotFound, Schema, Svc, escapeHtml, int, str } from 'svc';
import { DatabasePlugin, db, sql } from 'svc/db';
class Album extends Schema { id = Field(int); name = Field(str); }
class NewAlbum extends Album.pick('name') { name = Field(str, { maxLength: 70 }); }
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:albums.db'));
app.post('/albums', { me: Depends(BearerAuth()), base: Depends(db), body: NewAlbum }, ({ base, body }) => base.execute(sql\`insert into album (name) values (\${${name}})\`));
app.get('/albums/{id:int}', { base: Depends(db) }, async ({ base, params }) => {
  const album = await base.fetchOne(sql\`select id, name from album where id = \${params.id}\`, { as: Album });
  if (album === undefined) throw new NotFound();
  return new HTMLResponse(\`<h1>\${album.name}</h1>\`);${mark}
});
`;

/** A page that each visit changes by this statement. */
const visited = (statement: string, mark = ''): string => `
// FILE app.ts
import { Depends, RedirectResponse, Svc } from 'svc';
import { DatabasePlugin, db, sql } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:links.db'));
app.get('/to/{link}', { base: Depends(db) }, async ({ base, params, req }) => {${mark}
  const browser = sql.identifier(nameOf(req.headers['user-agent']));
  await base.execute(sql\`${statement} where link = \${params.link}\`);
  return new RedirectResponse('/');
});
`;

export const JUDGEMENTS: Readonly<Record<string, string>> = {
  'isolation: another transaction of the program names a level': seats(
    'postgres://app@localhost/app',
    '',
    ' // SVC642',
  ),
  'isolation: a level that reads what others have committed': seats(
    'postgres://app@localhost/app',
    ", { isolation: 'read committed' }",
    ' // SVC642',
  ),
  'isolation: repeatable read of MySQL': seats(
    'mysql://app@localhost/app',
    ", { isolation: 'repeatable read' }",
    ' // SVC642',
  ),
  'right: isolation: repeatable read of PostgreSQL': seats(
    'postgres://app@localhost/app',
    ", { isolation: 'repeatable read', retries: 2 }",
  ),
  'right: isolation: serializable of MySQL': seats(
    'mysql://app@localhost/app',
    ", { isolation: 'serializable', retries: 2 }",
  ),
  'right: isolation: the address sets the level of PostgreSQL': seats(
    'postgres://app@localhost/app?set.default_transaction_isolation=serializable',
    '',
  ),
  'right: isolation: the address sets the level of MariaDB': seats(
    'mariadb://app@localhost/app?set.transaction_isolation=SERIALIZABLE',
    '',
  ),
  'isolation: the transaction of a request': shared('', ' // SVC642'),
  'right: isolation: the transaction of a request': shared("({ isolation: 'serializable' })"),
  'right: isolation: the transaction of a request, in a file': shared("({ database: 'local' })"),
  'introspection that also writes': asked(
    "await base.execute('update person set seen = 1 where id = ?', [sub]);",
    'return { active: false };',
    ' // SVC220',
  ),
  'introspection that refuses': asked('', "throw new Error('unknown token');", ' // SVC220'),
  'right: introspection': asked(
    "await base.fetchOne('select 1 as here from person where id = ?', [sub]);",
    'return { active: false };',
  ),
  'rooms: members read, and a socket lets everyone read': chat(
    `app.get('/halls/{hall:int}/lines', known, async ({ me, base, params }) => {
  await enter(base, params.hall, me.sub);
  return base.fetchAll('select text from line where hall = ? limit 50', [params.hall]);
});`,
    ' // SVC640',
  ),
  'rooms: members write, and nothing else reads': chat('', ' // SVC640'),
  'right: rooms: everyone reads, and members write': chat(
    `app.get('/halls/{hall:int}/lines', known, ({ base, params }) => base.fetchAll('select text from line where hall = ? limit 50', [params.hall]));`,
  ),
  'tools behind a guarded endpoint': tools('{ deps: { me: Depends(BearerAuth()) } }', '', ' // SVC203'),
  'right: tools behind an endpoint that requires the role': tools(
    "{ deps: { me: Depends(requireRoles('clerk')) } }",
    '',
  ),
  'right: tools with a guard of their own': tools(
    '{ deps: { me: Depends(BearerAuth()) } }',
    ", me: Depends(requireRoles('clerk'))",
  ),
  'ids of persons in a column that ignores case': people('mysql://app@localhost/app', '', ' // SVC665'),
  'right: ids of persons in a column with a binary collation': people(
    'mariadb://app@localhost/app',
    ' character set ascii collate ascii_bin',
  ),
  'right: ids of persons on PostgreSQL': people('postgres://app@localhost/app', ''),
  'ids of an issuer in a column that ignores case': members(
    "IssuerAuth({ issuer: 'https://id.example/', audience: 'https://api.example' })",
    ' // SVC665',
  ),
  'right: ids of the program itself in a column that ignores case': members('BearerAuth()'),
  'a column that is stored as a client sent it': stored('body.name', ' // SVC608'),
  'right: a column that is stored escaped': stored('escapeHtml(body.name)'),
  'a page that changes a row': visited("update link set state = 'opened'", ' // SVC216'),
  'right: a page that counts its visits': visited('update link set opened = opened + 1'),
  'right: a page that counts its visits by a column of many': visited(
    'update link set ${browser} = ${browser} + 1',
  ),
  'a member of a message that chooses how it is verified': dispatched(
    "[['keyed', same], ['plain', () => true]]",
    'how',
    ' // SVC624',
  ),
  'right: a member of a message that chooses what is done': dispatched(
    "[['order', (text) => text.length], ['ping', () => true]]",
    'alg',
  ),
};
