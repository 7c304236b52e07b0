/**
 * The files that `svc new` writes: a path, and the text for a project. Nothing is read or written here; command-new.ts does.
 *
 * The templates are programs and documents as they will lie on the disk, but for `\`` and `\${`, which are theirs.
 */

/** Where the package comes from: the registry, a copy in the project, or the copy that runs at this moment. */
export type PackageSource = 'registry' | 'vendor' | 'link';

/** What the texts are made for. */
export interface StarterOptions {
  /** The name in package.json: one that {@link isPackageName} accepts, so it needs no escaping anywhere. */
  readonly name: string;
  readonly source: PackageSource;
  /** What stands for `svc` under `dependencies`. */
  readonly dependency: string;
  /** The range of Node that the package needs. */
  readonly engine: string;
  /** For `.env` only. */
  readonly secret: string;
}

/** A file of the project. */
export interface StarterFile {
  /** Relative, with slashes. */
  readonly path: string;
  readonly text: string;
  /** Only its owner may read it. */
  readonly isPrivate: boolean;
}

/** What `npm run typecheck` of a new project needs; tested to be what this repository uses. */
export const TYPE_CHECKERS: Readonly<Record<string, string>> = { '@types/node': '^24', typescript: '7.0.2' };

/** Every file of a new project, in the order in which a reader wants them. */
export function starterFiles(options: StarterOptions): readonly StarterFile[] {
  return Object.entries(TEMPLATES).map(([path, text]) => ({ path, text: text(options), isPrivate: path === '.env' }));
}

/** Whether npm takes it as the name of a package, and nothing resolves to another one by it. */
export function isPackageName(name: string): boolean {
  return name.length <= 214 && /^(?:@[a-z0-9-][a-z0-9._-]*\/)?[a-z0-9-][a-z0-9._-]*$/.test(name) && !TAKEN.has(name);
}

/** `svc` is what the project depends on; npm refuses the others. */
const TAKEN: ReadonlySet<string> = new Set(['svc', 'node_modules', 'favicon.ico']);

type Template = (options: StarterOptions) => string;

/** Docker has no use for a scope. */
function imageOf(name: string): string {
  return name.replace(/^@.*\//, '');
}

const README: Template = ({ name, source }) => `# ${name}

An HTTP API for notes, and a page that shows everybody their own, made with \`svc new\`. TypeScript is run as it is: there is no build.

${source === 'link' ? `\`\`\`sh
npm run dev          # http://127.0.0.1:8000, restarted whenever a file is saved
\`\`\`

It uses the copy of \`svc\` that made it, through a link. Before it goes elsewhere, name the package instead:
\`npm install svc@<version>\`.` : `\`\`\`sh
npm install${source === 'vendor' ? ' --offline' : ''}
npm run dev          # http://127.0.0.1:8000, restarted whenever a file is saved
\`\`\`${source === 'vendor' ? '\n\nThe package `svc` lies in `vendor/svc`: commit it, and nothing needs a network.' : ''}`}

| command | what |
|---|---|
| \`npm run dev\` | serves it with the settings of \`.env\` |
| \`npm start\` | serves it for production: settings come from the environment alone, \`SVC_AUTH_SECRET\` among them |
| \`npm run migrate\` | brings the database up to date: before \`npm start\`, which refuses to run on an old one |
| \`npm test\` | the tests, on a database in memory |
| \`npm run check\` | finds mistakes between declarations, as for production: run it before every deployment |
| \`npm run typecheck\` | the types |
${source === 'registry' ? '' : `
The types need two packages: \`npm install --save-dev ${Object.entries(TYPE_CHECKERS).map((pair) => pair.join('@')).join(' ')}\`.
`}
## Interface

| request | answer |
|---|---|
| \`GET /\` | the page; its forms post to \`/\`, \`/delete\`, \`/token\` and \`/logout\` |
| \`GET /oauth/login\` | begins a login, which ends at \`/oauth/callback\` and \`/welcome\` |
| \`GET /api/notes?page=1&size=20\` | \`{ items, total, page, size }\`, the newest first |
| \`POST /api/notes {"text":"hello"}\` | 201 with the note, its address in \`Location\` |
| \`GET /api/notes/{id}\` | the note, or 404 |
| \`DELETE /api/notes/{id}\` | 204, or 404 |
| \`GET /healthz\`, \`GET /readyz\`, \`GET /metrics\` | for probes and Prometheus |

Errors are \`application/problem+json\` (RFC 9457). Everything under \`/api\` needs \`Authorization: Bearer …\` with a token of scope
\`notes:read\`, to change something \`notes:write\`: the page makes one that counts for an hour. Notes of others are not found.

What protects it is in \`src/app.ts\`, one line each: security headers with a strict Content-Security-Policy, a limit of
requests for each client (429 with \`Retry-After\`), sessions in a signed cookie, and CSRF tokens, without which the forms of the
page are refused. The JSON interface needs none: it asks for a bearer token.

## Login

In development and tests \`src/login.ts\` brings an OpenID provider of its own, below \`/_dev/provider\`: anybody logs in as anybody.
It is not there in production, where people log in at GitHub:

1. Register an OAuth app there, with the callback \`https://<host>/oauth/callback\`.
2. Set \`SVC_GITHUB_CLIENT_ID\` and \`SVC_GITHUB_CLIENT_SECRET\` to what it gives, and \`SVC_BASE_URL\` to \`https://<host>\`.

Until then nobody can log in there, and the log says so (\`login_missing\`). Other providers are a line in \`src/login.ts\`:
\`googleProvider()\`, or \`new OAuthProvider()\` for any that speaks OpenID Connect. Logging out is
for everywhere: it ends all logins of a person, the sessions of every browser, copies of their cookies too, and the tokens that
the page has made; where several processes serve it, tokens after five seconds at most. A login that nobody ends lasts two weeks at most.

## Data

Notes are kept in SQLite, in the file that \`SVC_DATABASE_URL\` names: \`src/notes.ts\` has the statements. While it is open,
\`data.db-wal\` and \`data.db-shm\` lie beside it and belong to it. Several processes on one machine may share it, such as
\`npm start -- --workers 2\`; a network file system will not do. \`GET /readyz\` says whether it answers.

Its tables are made by \`migrations/\`: \`npx --no svc migrate new add_tags\` begins the next one, \`npm run dev\` applies it,
\`npx --no svc migrate status src/app.ts\` lists them. A file that has been applied is not changed any more.

A copy that is whole, while the application runs (of \`data.db\` alone it would lack what is still in the log):

\`\`\`sh
node --input-type=module -e "import { openDatabase } from 'svc/db'; await using db = await openDatabase('sqlite:./data.db'); await db.backup('./backup.db')"
\`\`\`

To go back to it, stop the application, remove all three files, and put the copy in the place of \`data.db\`.

## Settings

| variable | default | what |
|---|---|---|
| \`SVC_ENV\` | \`production\` | \`production\`, \`development\` or \`test\` |
| \`SVC_HOST\` | \`127.0.0.1\` | address to listen on |
| \`SVC_PORT\` | \`8000\` | port to listen on |
| \`SVC_DATABASE_URL\` | \`sqlite:./data.db\` | where notes are kept: \`sqlite:\` and a path, or \`sqlite:///\` and one from the root |
| \`SVC_BASE_URL\` | none | where people reach it, such as \`https://notes.example\`: needed for logins in production |
| \`SVC_GITHUB_CLIENT_ID\`, \`SVC_GITHUB_CLIENT_SECRET\` | none | log people in at GitHub |
| \`SVC_PAGE_SIZE\` | \`20\` | notes on a page unless the request says, 1 … 100 |
| \`SVC_MAX_NOTES\` | \`1000\` | notes that one person keeps at most, 1 … 1000000 |
| \`SVC_REQUESTS_PER_MINUTE\` | \`120\` | requests of one client in a minute, 1 … 1000000 |
| \`SVC_TRUST_PROXY\` | none | the proxies in front, such as \`10.0.0.0/8\`, or how many: they say who the client is, and whether it came with TLS |
| \`SVC_AUTH_SECRET\` | none | signs sessions and tokens: nothing starts without it, and every deployment has one of its own |
| \`SVC_AUTH_SECRET_PREVIOUS\` | none | the one before: what it has signed still counts |

\`.env\` holds those of your machine, a secret among them, and is not committed; \`.env.example\` lists them for others.

## Deployment

\`\`\`sh
npm run check
docker build -t ${imageOf(name)} .
export SVC_AUTH_SECRET=$(node -p "crypto.randomBytes(32).toString('hex')")    # once: keep it where your secrets are
docker run --rm -p 8000:8000 -e SVC_AUTH_SECRET -e SVC_BASE_URL -e SVC_GITHUB_CLIENT_ID -e SVC_GITHUB_CLIENT_SECRET -v ${imageOf(name)}-data:/data ${imageOf(name)}
\`\`\`

The image keeps its data in \`/data\`, which is a volume, and applies pending migrations before it serves. Without it the steps
are \`npm ci --omit=dev\`, \`npm run migrate\`, \`npm start\`; \`npx --no svc check src/app.ts --live\` says whether anything is missing.

\`npm run check\` reads \`.env\`; where there is none, \`npx --no svc check src/app.ts\` takes the secret from the environment, too.
In production cookies are sent over TLS only: put a proxy in front that speaks it, and name it in \`SVC_TRUST_PROXY\`.
${source === 'link' ? '\nThe image needs the package by its name, not the link: see above.\n' : '\nCommit `package-lock.json`: the image installs from it.\n'}
SIGTERM ends it gracefully: it stops listening at once, and requests in flight have 30 seconds (\`docker stop --time 35\`).
\`/readyz\` answers 503 from then on, which only connections that are open already still see.
`;

const MANIFEST: Template = ({ name, dependency, engine, source }) => `${JSON.stringify({
  name,
  version: '1.0.0',
  private: true,
  type: 'module',
  engines: { node: engine },
  scripts: {
    start: 'svc run src/app.ts',
    dev: 'svc run src/app.ts --env-file .env --reload',
    test: 'node --test "test/**/*.test.ts"',
    migrate: 'svc migrate up src/app.ts',
    check: 'svc check src/app.ts --env production --env-file .env --max-warnings 0',
    typecheck: 'tsc -p .',
  },
  dependencies: { svc: dependency },
  ...source === 'registry' ? { devDependencies: TYPE_CHECKERS } : {}, // the others must install without a network
}, undefined, 2)}
`;

const TSCONFIG: Template = () => `{
  // What Node can run by stripping the types, and the strictest reading of it. Nothing is emitted.
  "compilerOptions": {
    "target": "esnext",
    "lib": ["es2025", "esnext.disposable", "esnext.error"],
    "types": ["node"],
    "module": "nodenext",
    "verbatimModuleSyntax": true,
    "erasableSyntaxOnly": true,
    "isolatedModules": true,
    "allowImportingTsExtensions": true,
    "noEmit": true,
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "exactOptionalPropertyTypes": true,
    "noImplicitOverride": true,
    "noPropertyAccessFromIndexSignature": true,
    "noFallthroughCasesInSwitch": true
  },
  "include": ["src", "test"]
}
`;

const APP: Template = ({ name }) => `/**
 * The application: settings, then what requests look like, then what answers them.
 */
import { join } from 'node:path';
import {
  BearerAuth, CSRFMiddleware, Depends, Field, HTTPException, LoginRequired, NotFound, RateLimitMiddleware, RedirectResponse, Schema, SecurityHeadersMiddleware,
  SessionMiddleware, Svc, createToken, datetime, int, list, provide, reply, requireScopes, requireSession, sessionKey, str,
} from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { currentUser } from 'svc/oauth';
import { SCOPES, addLogin } from './login.ts';
import { Notes } from './notes.ts';
import { startPage } from './page.ts';
import { People } from './people.ts';
import type { HTMLResponse, HttpRequest } from 'svc';
import type { Person } from './people.ts';
import type { Shown } from './page.ts';

export const app = new Svc({ title: '${name}', version: '1.0.0', maxBodyBytes: 100_000 });

// Read once, at the start: a value that does not fit ends it with the name of the variable.
const pageSize = app.config.get('pageSize', 20, { cast: wholeNumber(100), needs: 'a whole number 1 … 100' });
const maxNotes = app.config.get('maxNotes', 1_000, { cast: wholeNumber(1_000_000), needs: 'a whole number 1 … 1000000' });
const perMinute = app.config.get('requestsPerMinute', 120, { cast: wholeNumber(1_000_000), needs: 'a whole number 1 … 1000000' });
const databaseUrl = app.config.get('databaseUrl', 'sqlite:./data.db');

// In production it refuses to start before "npm run migrate"; elsewhere it applies what is pending itself.
app.register(new DatabasePlugin(databaseUrl, { migrationDirectory: join(import.meta.dirname, '../migrations') }));
const login = await addLogin(app);

// The first is outermost: each of them sees the answers of those below, refusals too.
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: { defaultSrc: ["'none'"], imgSrc: ['data:'] } })); // the page brings a nonce for its style
app.use(new RateLimitMiddleware({ perMinute }));
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware({ exempt: ['/api/{rest:path}'] })); // it takes tokens, which no other site can send
app.exceptionHandler(LoginRequired, () => new RedirectResponse('/', { status: 303 }));

class NewNote extends Schema {
  static extra = 'forbid';
  text = Field(str, { minLength: 1, maxLength: 500, pattern: '\\\\S', description: 'At least one character that can be seen', example: 'Buy milk' });
}

class StoredNote extends Schema {
  id = Field(int);
  text = Field(str);
  createdAt = Field(datetime);
}

class NotePage extends Schema {
  items = Field(list(StoredNote));
  total = Field(int);
  page = Field(int);
  size = Field(int);
}

const paging = provide(
  { query: { page: Field(1, { ge: 1, le: 1_000_000 }), size: Field(int, { default: pageSize, ge: 1, le: 100 }) } },
  ({ query: { page, size } }) => ({ page, size, offset: (page - 1) * size }),
);

const notes = provide({ db: Depends(db) }, ({ db }) => new Notes(db, app.clock, maxNotes));
const people = provide({ db: Depends(db) }, ({ db }) => new People(db));

/** The login that a session belongs to. A session is a signed cookie, of which there may be copies: it counts until that login ends. */
const loginId = sessionKey<string>('login');

/** Who looks at the page; undefined for somebody who has not logged in, or whose login has ended. */
const visitor = provide({ people: Depends(people) }, async ({ people, req }) => {
  const id = req.session.get(currentUser);
  if (id === undefined) return undefined;
  const live = await login?.listSessions(id, { currentId: req.session.get(loginId) });
  return live?.some(({ isCurrent }) => isCurrent) ? people.get(id) : undefined;
});

/** Who uses its forms. */
const me = provide({ id: Depends(requireSession(currentUser)), visitor: Depends(visitor) }, ({ visitor }) => {
  if (visitor === undefined) throw new LoginRequired();
  return visitor;
});

/** Who uses the JSON interface: the subject of the token. */
const bearer = BearerAuth(undefined, { verify: async ({ sub }, { state }) => await new People(state.get(db)).get(sub) !== undefined });
const reader = requireScopes({ scopes: ['notes:read'], auth: bearer });
const writer = requireScopes({ scopes: ['notes:write'], auth: bearer });

const FULL = 'There is no room for another note';

// The JSON interface

app.get('/api/notes', { token: Depends(reader), store: Depends(notes), paging: Depends(paging), response: NotePage, tags: ['notes'], summary: 'List notes, the newest first' },
  async ({ token, store, paging: { page, size, offset } }) => ({ ...await store.list(token.sub, offset, size), page, size }));

app.post('/api/notes', { token: Depends(writer), body: NewNote, store: Depends(notes), response: StoredNote, status: 201, tags: ['notes'], summary: 'Write a note' },
  async ({ token, body, store }) => {
    const note = await store.create(token.sub, body.text);
    if (note === undefined) throw new HTTPException(507, FULL);
    return reply(note, 201, { Location: app.urlFor('note', { id: note.id }) });
  });

app.get('/api/notes/{id:int}', { token: Depends(reader), name: 'note', store: Depends(notes), response: StoredNote, tags: ['notes'], summary: 'Read a note' },
  async ({ token, params, store }) => await store.get(token.sub, params.id) ?? missing(params.id));

app.delete('/api/notes/{id:int}', { token: Depends(writer), store: Depends(notes), status: 204, tags: ['notes'], summary: 'Delete a note' },
  async ({ token, params, store }) => {
    if (!await store.delete(token.sub, params.id)) missing(params.id);
  });

// The page: forms, and no JavaScript

app.get('/', { visitor: Depends(visitor), store: Depends(notes), paging: Depends(paging), mcp: false, summary: 'The start page' },
  ({ visitor, store, paging, req }) => show(req, visitor, store, paging));

app.get('/welcome', { token: Depends(BearerAuth<{ sid?: string }>()), mcp: false, summary: 'Where the browser is sent after a login' },
  ({ token, req }) => {
    if (token.sid !== undefined && token.sub === req.session.get(currentUser)) req.session.set(loginId, token.sid); // of the cookie that the login has set
    return new RedirectResponse('/', { status: 303 });
  });

app.post('/', { form: { text: Field('', { maxLength: 10_000 }) }, me: Depends(me), store: Depends(notes), mcp: false, summary: 'Write a note, from the page' },
  async ({ form, me, store, req }) => {
    const input = NewNote.safeParse({ text: form.text.trim() });
    const note = input.ok ? await store.create(me.id, input.value.text) : undefined;
    if (note !== undefined) {
      req.session.flash('info', \`Note \${note.id} is added\`);
      return new RedirectResponse('/', { status: 303 });
    }
    const [problem, status] = input.ok ? [FULL, 507] : ['A note has 1 to 500 characters', 400];
    return show(req, me, store, FIRST_PAGE, { problem, draft: form.text }, status);
  });

app.post('/delete', { form: { id: Field(int, { ge: 1 }) }, me: Depends(me), store: Depends(notes), mcp: false, summary: 'Delete a note, from the page' },
  async ({ form, me, store, req }) => {
    await store.delete(me.id, form.id); // gone already: what was asked for
    req.session.flash('info', \`Note \${form.id} is deleted\`);
    return new RedirectResponse('/', { status: 303 });
  });

app.post('/token', { me: Depends(me), store: Depends(notes), mcp: false, summary: 'Show a token for the JSON interface' },
  ({ me, store, req }) => {
    const token = createToken(me.id, app.config.get('authSecret', ''), { expiresInSeconds: 3_600, claims: { scopes: SCOPES, iat_us: app.clock.nowMicros() }, clock: app.clock }); // iat_us: logging out ends tokens from before it, to the microsecond
    return show(req, me, store, FIRST_PAGE, { token });
  });

app.post('/logout', { me: Depends(me), mcp: false, summary: 'Log out everywhere' },
  async ({ me, req }) => {
    await login?.revokeAll(me.id); // and with the logins the sessions of all browsers, and the tokens
    req.session.destroy();
    return new RedirectResponse('/', { status: 303 });
  });

const FIRST_PAGE = { page: 1, size: pageSize, offset: 0 };

/** The page as somebody sees it. */
async function show(
  req: HttpRequest, person: Person | undefined, store: Notes, { page, size, offset }: typeof FIRST_PAGE, more: Partial<Shown> = {}, status = 200,
): Promise<HTMLResponse> {
  const listed = person === undefined ? { items: [], total: 0 } : await store.list(person.id, offset, size);
  return startPage(req, { title: app.title, person, canLogIn: login !== undefined, ...listed, page, size, ...more }, status);
}

function missing(id: number): never {
  throw new NotFound(\`There is no note \${id}\`);
}

function wholeNumber(greatest: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    return Number.isInteger(value) && value >= 1 && value <= greatest ? value : Number.NaN; // NaN: it does not fit
  };
}
`;

const LOGIN: Template = () => `/**
 * Logging in: at GitHub where that is configured, in development and tests at a provider that asks for no password.
 */
import { OAuthPlugin, githubProvider } from 'svc/oauth';
import { People } from './people.ts';
import type { Svc } from 'svc';
import type { OAuthProvider } from 'svc/oauth';

/** What whoever has logged in may do at the JSON interface. */
export const SCOPES: readonly string[] = ['notes:read', 'notes:write'];

const CALLBACK = '/oauth/callback';

/** Lets people log in. Undefined when nobody can: in production, without settings. */
export async function addLogin(app: Svc): Promise<OAuthPlugin | undefined> {
  const baseUrl = app.config.get('baseUrl', undefined, { cast: (text) => new URL(text), needs: 'an address such as https://notes.example' });
  const callback = baseUrl === undefined ? undefined : new URL(CALLBACK, baseUrl).href;
  const provider = github(app) ?? (app.env === 'production' ? undefined : await developmentProvider(app, callback ?? CALLBACK));
  if (provider === undefined) {
    app.onStartup(() => app.log.warn('login_missing', { remedy: 'Set SVC_GITHUB_CLIENT_ID, SVC_GITHUB_CLIENT_SECRET and SVC_BASE_URL' }));
    return undefined;
  }
  const plugin = new OAuthPlugin({
    provider,
    allowedRedirectUris: callback === undefined ? [] : [callback], // without any: 127.0.0.1 and localhost, and none in production
    mode: 'cookie',
    afterLogin: '/welcome',
    scopes: SCOPES,
    enforceValidAfter: true, // revokeAll() ends access tokens, too, and those that the page has made
    limits: app.env === 'test' ? { login: false, callback: false } : {}, // tests log in more often than people
    onUser: (name, info) => new People(app.state.db).meet(name, info),
  });
  app.register(plugin);
  return plugin;
}

function github(app: Svc): OAuthProvider | undefined {
  const [id, secret] = [app.config.get('githubClientId', ''), app.config.get('githubClientSecret', '')];
  return id === '' && secret === '' ? undefined : githubProvider(id, secret);
}

/** Anybody logs in as anybody. It is imported here, so that production has no such thing. */
async function developmentProvider(app: Svc, callback: string): Promise<OAuthProvider> {
  const { DevProvider } = await import('svc/testing');
  return new DevProvider({ env: app.env, redirectUris: [callback] }).mount(app); // below /_dev/provider
}
`;

const PEOPLE: Template = () => `/**
 * Who has ever logged in: a table of the database, made by migrations/0001_notes.up.sql.
 */
import type { Database } from 'svc/db';
import type { UserInfo } from 'svc/oauth';

export interface Person {
  /** The provider and its id for them, such as \`github:583231\`: for ever theirs, unlike names. */
  readonly id: string;
  readonly name: string;
}

export class People {
  readonly #db: Database;

  constructor(db: Database) { this.#db = db; }

  /** Remembers somebody who logs in, by their latest name, and gives their id. */
  async meet(provider: string, { subject, name }: Pick<UserInfo, 'subject' | 'name'>): Promise<string> {
    const id = \`\${provider}:\${subject}\`;
    const shown = [...(name ?? id).toWellFormed()].slice(0, 100).join('');
    await this.#db.execute('insert into person (id, name) values (?, ?) on conflict (id) do update set name = excluded.name', [id, shown]);
    return id;
  }

  get(id: string): Promise<Person | undefined> {
    return this.#db.fetchOne<Person>('select id, name from person where id = ?', [id]);
  }
}
`;

const NOTES: Template = () => `/**
 * Where notes are kept: a table of the database, made by migrations/0001_notes.up.sql.
 */
import type { Clock } from 'svc';
import type { Database } from 'svc/db';

export interface Note {
  readonly id: number;
  readonly text: string;
  readonly createdAt: Date;
}

export class Notes {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #most: number;

  /** A person keeps \`most\` notes at most. */
  constructor(db: Database, clock: Clock, most: number) {
    this.#db = db;
    this.#clock = clock;
    this.#most = most;
  }

  /** The newest first, and how many there are altogether: both of one moment, which is what the transaction is for. */
  list(owner: string, offset: number, limit: number): Promise<{ items: readonly Note[]; total: number }> {
    return this.#db.transaction(async (tx) => ({
      items: (await tx.fetchAll<Row>(\`\${SELECT} where owner = ? order by created_at desc, id desc limit ? offset ?\`, [owner, limit, offset])).map(noteOf),
      total: await tx.scalar<number>('select count(*) from note where owner = ?', [owner]) ?? 0,
    }), { readOnly: true });
  }

  /** Undefined for a note of somebody else, too. */
  async get(owner: string, id: number): Promise<Note | undefined> {
    const row = await this.#db.fetchOne<Row>(\`\${SELECT} where id = ? and owner = ?\`, [id, owner]);
    return row === undefined ? undefined : noteOf(row);
  }

  /** Undefined when there is no room. One statement: two that write at once never share the last place. */
  async create(owner: string, text: string): Promise<Note | undefined> {
    const createdAt = new Date(this.#clock.nowMs());
    const row = await this.#db.fetchOne<{ id: number }>(
      'insert into note (owner, text, created_at) select ?, ?, ? where (select count(*) from note where owner = ?) < ? returning id', [owner, text, createdAt, owner, this.#most]);
    return row === undefined ? undefined : { id: row.id, text, createdAt };
  }

  /** Whether it was there, and the owner's. */
  async delete(owner: string, id: number): Promise<boolean> {
    return (await this.#db.execute('delete from note where id = ? and owner = ?', [id, owner])).affectedRows === 1;
  }
}

/** A note as the table has it. */
interface Row {
  readonly id: number;
  readonly text: string;
  readonly createdAt: string;
}

const SELECT = 'select id, text, created_at as createdAt from note';

function noteOf({ id, text, createdAt }: Row): Note {
  return { id, text, createdAt: new Date(createdAt) };
}
`;

const MIGRATION_UP: Template = () => `create table person (
  id text primary key,
  name text not null
) strict;

-- Ids are never given twice, so that the address of a note that is gone does not become another's.
create table note (
  id integer primary key autoincrement,
  owner text not null references person (id) on delete cascade,
  text text not null check (text <> '' and length(text) <= 500),
  created_at text not null
) strict;

-- The order in which they are listed.
create index note_by_age on note (owner, created_at, id);
`;

const MIGRATION_DOWN: Template = () => `drop table note;
drop table person;
`;

const PAGE: Template = () => `/**
 * The start page: one document without a script, and without anything from elsewhere.
 */
import { HTMLResponse, cspNonce, csrfField } from 'svc';
import type { Flash, HttpRequest } from 'svc';
import type { Note } from './notes.ts';
import type { Person } from './people.ts';

/** What the page shows. */
export interface Shown {
  readonly title: string;
  /** Who has logged in. */
  readonly person: Person | undefined;
  readonly canLogIn: boolean;
  readonly items: readonly Note[];
  readonly total: number;
  readonly page: number;
  readonly size: number;
  /** Why the draft was not taken. */
  readonly problem?: string;
  readonly draft?: string;
  /** For the JSON interface; shown once. */
  readonly token?: string;
}

const STYLE = \`
:root {
  color-scheme: light dark;
  --ground: light-dark(#f4f5f7, #15181c); --card: light-dark(#ffffff, #1e2227); --line: light-dark(#dadfe5, #363d46);
  --ink: light-dark(#1a1e23, #eceef1); --soft: light-dark(#59626d, #a2abb6); --accent: light-dark(#0a5bc4, #86b7fe);
  --on-accent: light-dark(#ffffff, #0d1b2e); --alarm: light-dark(#b3261e, #ffb4ab); --edge: light-dark(#838c97, #707a86);
}
* { box-sizing: border-box; margin: 0; }
body { background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 42rem; margin: 0 auto; padding: clamp(1.5rem, 6vw, 4rem) 1.25rem; display: grid; gap: 1.5rem; }
h1 { font-size: clamp(1.75rem, 5vw, 2.5rem); line-height: 1.15; letter-spacing: -0.02em; overflow-wrap: anywhere; }
h2 { font-size: 1.125rem; }
header p, .soft { color: var(--soft); }
header p { margin-top: 0.375rem; }
a { color: var(--accent); text-underline-offset: 0.2em; }
code, pre { font: 0.875em/1.5 ui-monospace, monospace; }
pre code { font-size: 1em; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 0.625rem; padding: 0.875rem 1rem; overflow-x: auto; }
label { display: block; font-weight: 600; margin-bottom: 0.375rem; }
.row { display: flex; gap: 0.625rem; }
input { flex: 1; min-width: 0; font: inherit; color: inherit; background: var(--card); border: 1px solid var(--edge); border-radius: 0.5rem; padding: 0.5rem 0.75rem; }
button { font: inherit; font-weight: 600; cursor: pointer; color: var(--on-accent); background: var(--accent); border: 1px solid transparent; border-radius: 0.5rem; padding: 0.5rem 1.125rem; }
button.quiet { font-weight: 400; font-size: 0.875rem; color: var(--soft); background: none; border-color: var(--edge); padding: 0.125rem 0.625rem; }
a.button { display: inline-block; font-weight: 600; text-decoration: none; color: var(--on-accent); background: var(--accent); border-radius: 0.5rem; padding: 0.5rem 1.125rem; }
button:hover, a.button:hover { filter: brightness(1.1); }
button.quiet:hover { color: var(--ink); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
[role=alert] { color: var(--alarm); margin-top: 0.5rem; }
[role=status] { background: var(--card); border: 1px solid var(--line); border-left: 0.25rem solid var(--accent); border-radius: 0.625rem; padding: 0.625rem 1rem; }
ol { list-style: none; padding: 0; display: grid; gap: 0.625rem; }
li { background: var(--card); border: 1px solid var(--line); border-radius: 0.625rem; padding: 0.75rem 1rem; }
li p { white-space: pre-wrap; overflow-wrap: anywhere; }
li div { display: flex; justify-content: space-between; align-items: center; gap: 1rem; margin-top: 0.375rem; font-size: 0.875rem; }
.bar { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0.25rem 1rem; margin-bottom: 0.625rem; }
footer { border-top: 1px solid var(--line); padding-top: 1.25rem; font-size: 0.9375rem; display: grid; gap: 0.75rem; }
nav { display: flex; gap: 1rem; }
\`;

const ICON = 'data:image/svg+xml,' + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0a5bc4"/><path d="M4 5h8M4 8h8M4 11h5" stroke="#fff" stroke-width="1.5" stroke-linecap="round"/></svg>');

/** What a page needs of its request: messages, proof for the forms of whoever has logged in, leave for its style. */
interface Visit {
  /** Where it is served, for the example. */
  readonly origin: string;
  readonly flashes: readonly Flash[];
  readonly csrf: Markup;
  readonly nonce: string;
}

export function startPage(req: HttpRequest, shown: Shown, status = 200): HTMLResponse {
  const flashes = req.session.takeFlashes();
  const visit = { origin: \`\${req.scheme}://\${req.host}\`, flashes, csrf: new Markup(shown.person === undefined ? '' : csrfField(req)), nonce: cspNonce(req) };
  return new HTMLResponse(documentOf(shown, visit).text, { status });
}

function documentOf(shown: Shown, { origin, flashes, csrf, nonce }: Visit): Markup {
  const { title, person } = shown;
  return html\`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>\${title}</title>
<link rel="icon" href="\${ICON}">
<style nonce="\${nonce}">\${new Markup(STYLE)}</style>
</head>
<body>
<main>
<header>
<h1>\${title}</h1>
<p>It runs. Its routes are in <code>src/app.ts</code>, this page is <code>src/page.ts</code>.</p>
</header>
\${whoOf(shown, csrf)}
\${flashes.map(({ text }) => html\`<p role="status">\${text}</p>\`)}
\${person === undefined ? '' : notesOf(shown, csrf)}
<footer>
\${person === undefined ? '' : tokenOf(shown.token, origin, csrf)}
<p class="soft">For operators: <a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>, <a href="/metrics">/metrics</a></p>
</footer>
</main>
</body>
</html>
\`;
}

/** A link, not a form: the policy of the page lets forms go to this site alone, and the login leads to another one. */
function whoOf({ person, canLogIn }: Shown, csrf: Markup): Markup {
  if (person !== undefined) {
    return html\`<div class="bar"><span>Logged in as <strong>\${person.name}</strong></span>
<form method="post" action="/logout">\${csrf}<button class="quiet">Log out everywhere</button></form></div>\`;
  }
  return canLogIn
    ? html\`<p>Notes are for those who have logged in.</p><p><a class="button" href="/oauth/login">Log in</a></p>\`
    : html\`<p role="alert">Nobody can log in yet: see “Login” in README.md.</p>\`;
}

function notesOf({ items, total, page, size, problem, draft = '' }: Shown, csrf: Markup): Markup {
  return html\`<form method="post" action="/">
\${csrf}
<label for="text">New note</label>
<div class="row">
<input id="text" name="text" value="\${draft}" required maxlength="500" pattern=".*\\\\S.*" title="At least one character that can be seen" autocomplete="off">
<button>Add</button>
</div>
\${problem === undefined ? '' : html\`<p role="alert">\${problem}</p>\`}
</form>
<section>
<div class="bar">
<h2>Notes</h2>
<span class="soft">\${total === 0 ? 'none yet' : total === 1 ? '1 note' : \`\${total} notes\`}</span>
</div>
<ol>\${items.map((note) => noteOf(note, csrf))}</ol>
</section>
\${page > 1 || page * size < total ? pagesOf(page, size, total) : ''}\`;
}

function tokenOf(token: string | undefined, origin: string, csrf: Markup): Markup {
  if (token === undefined) {
    return html\`<p>The same notes as JSON, at <code>/api/notes</code>, need a token:</p>
<form method="post" action="/token">\${csrf}<button class="quiet">Make a token</button></form>\`;
  }
  return html\`<p>This token counts for an hour, or until you log out. It is not shown again.</p>
<pre><code>curl -H 'Authorization: Bearer \${token}' \${origin}/api/notes</code></pre>\`;
}

function noteOf({ id, text, createdAt }: Note, csrf: Markup): Markup {
  return html\`<li>
<p>\${text}</p>
<div><time class="soft" datetime="\${createdAt.toISOString()}">\${DAY_AND_TIME.format(createdAt)} UTC</time>
<form method="post" action="/delete">\${csrf}<input type="hidden" name="id" value="\${id}"><button class="quiet" aria-label="Delete note \${id}">Delete</button></form></div>
</li>
\`;
}

function pagesOf(page: number, size: number, total: number): Markup {
  const last = Math.max(1, Math.ceil(total / size));
  const link = (to: number, text: string): Markup => html\`<a href="/?page=\${to}&amp;size=\${size}">\${text}</a>\`;
  return html\`<nav aria-label="Pages">
\${page > 1 ? link(Math.min(page - 1, last), 'Newer') : ''}
<span class="soft">Page \${page} of \${last}</span>
\${page < last ? link(page + 1, 'Older') : ''}
</nav>\`;
}

const DAY_AND_TIME = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });

/** Markup that is safe as it is. */
class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | readonly Markup[];

/** A template whose values are escaped, unless they are markup. */
function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  return new Markup(String.raw({ raw: strings }, ...parts.map(textOf)));
}

function textOf(part: Part): string {
  if (part instanceof Markup) return part.text;
  if (typeof part === 'object') return part.map(textOf).join('');
  return String(part).replace(/[&<>"']/g, (character) => \`&#\${character.charCodeAt(0)};\`);
}
`;

const TEST: Template = ({ name }) => `import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createToken } from 'svc';
import { TestClient } from 'svc/testing';

// Before the application is imported, which reads them. A database in memory begins anew, and empty, when the last client has left.
const authSecret = randomBytes(32).toString('hex');
Object.assign(process.env, { SVC_ENV: 'test', SVC_DATABASE_URL: 'sqlite::memory:', SVC_AUTH_SECRET: authSecret, SVC_REQUESTS_PER_MINUTE: '300' });
const { app } = await import('../src/app.ts');

/** Begins a login, and presses a button of the provider of development: where the browser is sent then. */
async function pick(client: TestClient, sub: string | undefined): Promise<string> {
  const begun = new URL((await client.get('/oauth/login')).headers.get('location') ?? '');
  const pressed = sub === undefined ? { deny: '1' } : { user: sub };
  const chosen = await client.post(begun.pathname, { form: { ...Object.fromEntries(begun.searchParams), ...pressed } });
  return chosen.headers.get('location') ?? assert.fail(await chosen.text());
}

/** Logs somebody in, as their browser does, and gives where it is sent in the end. */
async function logIn(client: TestClient, sub: string | undefined): Promise<Response> {
  const answer = await client.get(await pick(client, sub));
  return answer.status === 303 ? client.get(answer.headers.get('location') ?? '') : answer;
}

/** The browser of somebody who has logged in. */
async function browserOf(sub: string): Promise<TestClient> {
  const client = new TestClient(app);
  const { status, headers } = await logIn(client, sub);
  assert.deepEqual([status, headers.get('location')], [303, '/']);
  return client;
}

/** What the forms of the page send along. */
async function csrfOf(client: TestClient): Promise<string> {
  return /name="_csrf_token" value="([^"]+)"/.exec(await (await client.get('/')).text())?.[1] ?? '';
}

/** A client of the JSON interface, with a token that the page has made for a browser. */
async function programOf(browser: TestClient): Promise<TestClient> {
  const page = await (await browser.post('/token', { form: { _csrf_token: await csrfOf(browser) } })).text();
  const [header] = /Authorization: Bearer [\\w.-]+/.exec(page) ?? assert.fail(page);
  return new TestClient(app, { headers: { Authorization: header.slice('Authorization: '.length) } });
}

/** The same for somebody, of whom nothing else is needed. */
async function clientOf(sub: string): Promise<TestClient> {
  await using browser = await browserOf(sub);
  return await programOf(browser);
}

test('a note is written, read, listed and deleted', async () => {
  await using client = await clientOf('ada');
  const created = await client.post('/api/notes', { json: { text: 'Buy milk' } });
  assert.equal(created.status, 201);
  const location = created.headers.get('location');
  assert.equal(location, '/api/notes/1');
  const note = await created.json() as { id: number; text: string; createdAt: string };
  assert.deepEqual([note.id, note.text], [1, 'Buy milk']);
  assert.deepEqual(await (await client.get(location)).json(), note);
  assert.deepEqual(await (await client.get('/api/notes')).json(), { items: [note], total: 1, page: 1, size: 20 });
  assert.equal((await client.delete(location)).status, 204);
  assert.equal((await client.get(location)).status, 404);
  assert.equal((await client.delete(location)).status, 404);
});

test('notes are listed page by page, the newest first', async () => {
  await using client = await clientOf('ada');
  for (const text of ['one', 'two', 'three']) await client.post('/api/notes', { json: { text } });
  const page = await (await client.get('/api/notes', { query: { page: 2, size: 2 } })).json() as { items: { text: string }[]; total: number };
  assert.deepEqual(page.items.map(({ text }) => text), ['one']);
  assert.equal(page.total, 3);
});

test('nobody sees or deletes the notes of somebody else', async () => {
  await using ada = await clientOf('ada');
  await using alan = await clientOf('alan');
  assert.equal((await ada.post('/api/notes', { json: { text: 'Mine' } })).status, 201);
  assert.equal((await alan.get('/api/notes/1')).status, 404);
  assert.equal((await alan.delete('/api/notes/1')).status, 404);
  assert.equal((await (await alan.get('/api/notes')).json() as { total: number }).total, 0);
  await using browser = await browserOf('alan');
  await browser.post('/delete', { form: { id: '1', _csrf_token: await csrfOf(browser) } });
  assert.doesNotMatch(await (await browser.get('/')).text(), /Mine/);
  assert.equal((await ada.get('/api/notes/1')).status, 200);
});

test('the JSON interface wants a token: 401 without, 403 where it lacks the scope', async () => {
  await using browser = await browserOf('ada');
  const limited = { Authorization: \`Bearer \${createToken('dev:ada', authSecret, { claims: { scopes: ['notes:read'] } })}\` };
  const ofNobody = { Authorization: \`Bearer \${createToken('dev:nobody', authSecret, { claims: { scopes: ['notes:read', 'notes:write'] } })}\` };
  await using client = new TestClient(app);
  for (const [method, path] of [['GET', '/api/notes'], ['POST', '/api/notes'], ['GET', '/api/notes/1'], ['DELETE', '/api/notes/1']] as const) {
    const body = method === 'POST' ? { json: { text: 'x' } } : {};
    const refused = await client.request(method, path, body);
    assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer'], method);
    assert.equal((await client.request(method, path, { ...body, headers: ofNobody })).status, 401);
    if (method !== 'GET') assert.equal((await client.request(method, path, { ...body, headers: limited })).status, 403);
  }
  assert.equal((await client.get('/api/notes', { headers: limited })).status, 200);
  const foreign = { 'Sec-Fetch-Site': 'cross-site' };
  assert.equal((await browser.post('/api/notes', { json: { text: 'x' }, headers: foreign })).status, 401, 'no cookie counts when another site sends it');
});

test('a note that does not fit is refused, and the problem says where', async () => {
  await using client = await clientOf('ada');
  for (const [what, json] of [
    ['without text', {}], ['of white space', { text: ' \\n' }], ['of more than 500 characters', { text: 'x'.repeat(501) }],
    ['whose text is a number', { text: 1 }], ['with a member that nobody knows', { text: 'x', colour: 'red' }],
  ] as const) {
    const response = await client.post('/api/notes', { json });
    assert.equal(response.status, 400, what);
    assert.equal(response.headers.get('content-type'), 'application/problem+json');
    const { errors } = await response.json() as { errors: { loc: string[] }[] };
    assert.equal(errors[0]?.loc[0], 'body', what);
  }
});

test('pages that are no number are refused, and ids that no note has are not found', async () => {
  await using client = await clientOf('ada');
  assert.equal((await client.get('/api/notes', { query: { page: 0 } })).status, 400);
  assert.equal((await client.get('/api/notes', { query: { size: 'many' } })).status, 400);
  for (const id of ['0', '9007199254740993', '9'.repeat(30)]) assert.equal((await client.get(\`/api/notes/\${id}\`)).status, 404, id);
});

test('people log in at the provider, and see who they are', async () => {
  await using client = new TestClient(app);
  const unknown = await (await client.get('/')).text();
  assert.match(unknown, /href="\\/oauth\\/login">Log in</);
  assert.doesNotMatch(unknown, /Logged in as|<form/);
  assert.equal((await logIn(client, 'alan')).status, 303);
  assert.match(await (await client.get('/')).text(), /Logged in as <strong>Alan Turing<\\/strong>/);
  assert.equal((await client.get('/api/notes')).status, 200, 'by cookie, for the page itself');
});

test('logging out in one browser ends the sessions of the others, copies of their cookies, and the tokens', async () => {
  await using here = await browserOf('alan');
  await using there = await browserOf('alan');
  await using other = await browserOf('ada');
  await using program = await programOf(there);
  const copies = [here, there].map((client) => new TestClient(app, { headers: { Cookie: client.cookies.headerFor(new URL('http://localhost/')) } }));
  const browsers = [here, there, ...copies];
  for (const client of browsers) assert.match(await (await client.get('/')).text(), /Logged in as <strong>Alan Turing</);
  assert.equal((await program.get('/api/notes')).status, 200);
  const _csrf_token = await csrfOf(there);
  const gone = await here.post('/logout', { form: { _csrf_token: await csrfOf(here) } });
  assert.deepEqual([gone.status, gone.headers.get('location')], [303, '/']);
  for (const client of browsers) assert.doesNotMatch(await (await client.get('/')).text(), /Logged in as/);
  assert.equal((await there.post('/token', { form: { _csrf_token } })).headers.get('location'), '/', 'it makes no token any more');
  for (const client of [...browsers, program]) assert.equal((await client.get('/api/notes')).status, 401);
  for (const client of copies) assert.equal((await client.get('/welcome')).status, 401, 'the way back is closed, too');
  assert.match(await (await other.get('/')).text(), /Logged in as <strong>Ada Lovelace</, 'somebody else stays');
  for (const client of copies) await client.close();
});

test('a token that the page has made does not make a session count', async () => {
  await using browser = await browserOf('ada');
  await using program = await programOf(browser);
  assert.equal((await program.get('/welcome')).status, 303);
  assert.doesNotMatch(await (await program.get('/')).text(), /Logged in as/);
});

test('nobody is logged in who cancels at the provider, nor by an answer to a login of somebody else', async () => {
  await using client = new TestClient(app);
  assert.equal((await logIn(client, undefined)).status, 400);
  const answer = await pick(client, 'alan');
  await using victim = new TestClient(app);
  assert.equal((await victim.get(answer)).status, 400);
  for (const each of [client, victim]) assert.doesNotMatch(await (await each.get('/')).text(), /Logged in as/);
});

test('forms of somebody whom the database has forgotten lead back to the page', async () => {
  const browser = await browserOf('ada');
  const [_csrf_token, Cookie] = [await csrfOf(browser), browser.cookies.headerFor(new URL('http://localhost/'))];
  await browser.close();
  await using client = new TestClient(app, { headers: { Cookie } });
  for (const path of ['/', '/delete', '/token', '/logout']) {
    const { status, headers } = await client.post(path, { form: { text: 'x', id: '1', _csrf_token } });
    assert.deepEqual([status, headers.get('location')], [303, '/'], path);
  }
  assert.match(await (await client.get('/')).text(), /Log in</);
});

test('the page works with forms alone, and escapes what people write', async () => {
  await using client = await browserOf('ada');
  const _csrf_token = await csrfOf(client);
  const posted = await client.post('/', { form: { text: ' <script>alert(1)</script> ', _csrf_token } });
  assert.deepEqual([posted.status, posted.headers.get('location')], [303, '/']);
  const page = await client.get('/');
  assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal(page.headers.get('cache-control'), 'no-store');
  const text = await page.text();
  assert.match(text, /<h1>${name.replaceAll('/', '\\/')}<\\/h1>/);
  assert.match(text, /&#60;script&#62;alert\\(1\\)/);
  assert.doesNotMatch(text, /<script/);
  assert.match(text, /<p role="status">Note 1 is added<\\/p>/);
  assert.doesNotMatch(await (await client.get('/')).text(), /role="status"/, 'it is said once');
  assert.equal((await client.post('/delete', { form: { id: '1', _csrf_token: await csrfOf(client) } })).status, 303);
  assert.doesNotMatch(await (await client.get('/')).text(), /alert\\(1\\)/);
});

test('the page says what is wrong with a note, and keeps the draft', async () => {
  await using client = await browserOf('ada');
  const response = await client.post('/', { form: { text: 'y'.repeat(501), _csrf_token: await csrfOf(client) } });
  assert.equal(response.status, 400);
  const text = await response.text();
  assert.match(text, /role="alert">A note has 1 to 500 characters/);
  assert.match(text, /value="y{501}"/);
});

test('forms of other sites are refused, and forms without a token', async () => {
  await using client = await browserOf('ada');
  const _csrf_token = await csrfOf(client);
  for (const path of ['/', '/delete', '/token', '/logout']) {
    assert.equal((await client.post(path, { form: { text: 'x', id: '1' } })).status, 403);
    assert.equal((await client.post(path, { form: { text: 'x', id: '1', _csrf_token }, headers: { 'Sec-Fetch-Site': 'cross-site' } })).status, 403);
  }
});

test('the page runs nothing but its own style, and nothing may frame it', async () => {
  await using client = new TestClient(app);
  const page = await client.get('/');
  const policy = page.headers.get('content-security-policy') ?? '';
  for (const directive of ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"]) assert.ok(policy.includes(directive), policy);
  const [, nonce] = /<style nonce="([^"]+)">/.exec(await page.text()) ?? [];
  assert.ok(nonce !== undefined && policy.includes(\`style-src 'nonce-\${nonce}'\`), policy);
  assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
});

test('the probes answer, and readiness has the database', async () => {
  await using client = new TestClient(app);
  assert.equal((await client.get('/healthz')).status, 200);
  const ready = await client.get('/readyz');
  assert.equal(ready.status, 200);
  const { checks } = await ready.json() as { checks: Record<string, { status: string }> };
  assert.equal(checks['database']?.status, 'up');
});

// The last one: it uses up what one client may ask.
test('a client that asks too much is told when to come back', async () => {
  await using client = new TestClient(app);
  let response = await client.get('/');
  for (let asked = 1; asked < 1_000 && response.status === 200; asked++) response = await client.get('/');
  assert.equal(response.status, 429);
  assert.match(response.headers.get('retry-after') ?? '', /^[1-9]\\d*$/);
});
`;

const NOTES_TEST: Template = () => `import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CheckViolation, Migrator, openDatabase } from 'svc/db';
import { ManualClock } from 'svc/testing';
import { Notes } from '../src/notes.ts';
import { People } from '../src/people.ts';
import type { Database } from 'svc/db';

const MIGRATIONS = { directory: join(import.meta.dirname, '../migrations') };

/** A database with every table, and two people. */
async function migrated(url: string): Promise<Database> {
  const db = await openDatabase(url);
  await new Migrator(db, MIGRATIONS).up();
  for (const subject of ['ada', 'alan']) await new People(db).meet('dev', { subject, name: subject });
  return db;
}

const ADA = 'dev:ada';

test('notes are there again when the database is opened again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'notes-'));
  try {
    const url = \`sqlite:\${encodeURI(join(folder, 'data.db'))}\`;
    const createdAt = new Date('2030-01-31T12:00:00.000Z');
    {
      await using db = await migrated(url);
      assert.deepEqual(await new Notes(db, new ManualClock(createdAt.getTime()), 10).create(ADA, 'Buy milk'), { id: 1, text: 'Buy milk', createdAt });
    }
    await using db = await migrated(url);
    assert.deepEqual(await new Notes(db, new ManualClock(0), 10).list(ADA, 0, 10), { items: [{ id: 1, text: 'Buy milk', createdAt }], total: 1 });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('the newest are listed first, of one moment too, and the total counts all pages', async () => {
  await using db = await migrated('sqlite::memory:');
  const clock = new ManualClock(0);
  const notes = new Notes(db, clock, 10);
  for (const text of ['one', 'two', 'three']) await notes.create(ADA, text);
  await clock.advance(1_000);
  await notes.create(ADA, 'four');
  const { items, total } = await notes.list(ADA, 1, 2);
  assert.deepEqual([items.map(({ text }) => text), total], [['three', 'two'], 4]);
  assert.deepEqual(await notes.list(ADA, 10, 10), { items: [], total: 4 });
});

test('nobody keeps more notes than fit, however many are written at once', async () => {
  await using db = await migrated('sqlite::memory:');
  const notes = new Notes(db, new ManualClock(0), 3);
  const written = await Promise.all(Array.from({ length: 10 }, (_, index) => notes.create(ADA, \`note \${index}\`)));
  assert.equal(written.filter((note) => note !== undefined).length, 3);
  assert.equal((await notes.list(ADA, 0, 10)).total, 3);
  assert.notEqual(await notes.create('dev:alan', 'the room of somebody else'), undefined);
  assert.equal(await notes.delete(ADA, 3), true);
  assert.equal((await notes.create(ADA, 'again'))?.id, 5, 'an id is not given twice');
});

test('the table itself refuses a note without text, and one that is too long', async () => {
  await using db = await migrated('sqlite::memory:');
  const notes = new Notes(db, new ManualClock(0), 10);
  for (const text of ['', 'x'.repeat(501)]) await assert.rejects(notes.create(ADA, text), CheckViolation);
  for (const text of ['x'.repeat(500), '\\0']) assert.equal((await notes.create(ADA, text))?.text, text);
});

test('somebody who logs in again has the name of now; a long one is cut, and none is the id', async () => {
  await using db = await migrated('sqlite::memory:');
  const people = new People(db);
  for (const [name, shown] of [['Ada King', 'Ada King'], ['😀'.repeat(200), '😀'.repeat(100)], ['\\ud800', '\\ufffd'], [null, ADA]] as const) {
    assert.equal(await people.meet('dev', { subject: 'ada', name }), ADA);
    assert.deepEqual(await people.get(ADA), { id: ADA, name: shown });
  }
});

test('every migration can be undone, and applied again', async () => {
  await using db = await openDatabase('sqlite::memory:');
  const migrator = new Migrator(db, MIGRATIONS);
  const { length } = await migrator.up();
  assert.equal((await migrator.down({ steps: length })).length, length);
  assert.deepEqual(await db.fetchAll("select name from sqlite_schema where name not like 'svc_%' and name not like 'sqlite_%'"), []);
  assert.equal((await migrator.up()).length, length);
});
`;

const DOCKERFILE: Template = ({ source, name }) => `# docker build -t ${imageOf(name)} . && docker run --rm -p 8000:8000 -e SVC_AUTH_SECRET -v ${imageOf(name)}-data:/data ${imageOf(name)}
FROM node:24-slim
ENV SVC_ENV=production SVC_HOST=0.0.0.0 SVC_PORT=8000 SVC_DATABASE_URL=sqlite:///data/data.db
WORKDIR /app
COPY package.json package-lock.json ./
${source === 'vendor' ? 'COPY vendor ./vendor\n' : ''}RUN npm ci --omit=dev
COPY src ./src
COPY migrations ./migrations
# A new volume takes over whose folder this is. SQLite writes files beside the database, so it needs one of its own.
RUN mkdir /data && chown node:node /data
VOLUME /data
USER node
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.SVC_PORT + '/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Not through npm, and by exec: SIGTERM must reach the process that drains.
CMD ["sh", "-c", "node node_modules/svc/bin/svc.js migrate up src/app.ts && exec node node_modules/svc/bin/svc.js run src/app.ts"]
`;

const DOCKERIGNORE: Template = () => `.env
.env.*
.git
node_modules
test
coverage
data.db*
*.log
`;

const GITIGNORE: Template = () => `.env
node_modules/
coverage/
data.db*
*.log
`;

const ENV: Template = ({ secret }) => `# This machine's settings, for "npm run dev". Never committed, and never copied to another machine.
SVC_ENV=development
SVC_AUTH_SECRET=${secret}
`;

const ENV_EXAMPLE: Template = () => `# Copy to .env, and fill in: README.md says what each of them is for.
SVC_ENV=development
# node -p "crypto.randomBytes(32).toString('hex')"
SVC_AUTH_SECRET=
# SVC_HOST=127.0.0.1
# SVC_PORT=8000
# SVC_DATABASE_URL=sqlite:./data.db
# SVC_BASE_URL=
# SVC_GITHUB_CLIENT_ID=
# SVC_GITHUB_CLIENT_SECRET=
# SVC_PAGE_SIZE=20
# SVC_MAX_NOTES=1000
# SVC_REQUESTS_PER_MINUTE=120
# SVC_TRUST_PROXY=
# SVC_AUTH_SECRET_PREVIOUS=
`;

const TEMPLATES: Readonly<Record<string, Template>> = {
  'README.md': README,
  'src/app.ts': APP,
  'src/notes.ts': NOTES,
  'src/people.ts': PEOPLE,
  'src/login.ts': LOGIN,
  'src/page.ts': PAGE,
  'migrations/0001_notes.up.sql': MIGRATION_UP,
  'migrations/0001_notes.down.sql': MIGRATION_DOWN,
  'test/app.test.ts': TEST,
  'test/notes.test.ts': NOTES_TEST,
  'tsconfig.json': TSCONFIG,
  Dockerfile: DOCKERFILE,
  '.dockerignore': DOCKERIGNORE,
  '.gitignore': GITIGNORE,
  '.env.example': ENV_EXAMPLE,
  '.env': ENV,
  'package.json': MANIFEST,
};
