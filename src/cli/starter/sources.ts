/**
 * The programs of a new project, and the tables that they use.
 *
 * They are texts as they will lie on the disk, but for `\`` and `\${`, which are theirs.
 */
import type { Template } from './files.ts';

/** `src/app.ts`. */
export const APP: Template = ({ name }) => `/**
 * The application: settings, then what requests look like, then what answers them.
 */
import { join } from 'node:path';
import {
  BackgroundTasks, BearerAuth, CSRFMiddleware, Depends, Field, HTTPException, LoginRequired, NotFound, RateLimitMiddleware, RedirectResponse, Schema, SecurityHeadersMiddleware,
  SessionMiddleware, Svc, ValidationError, createToken, datetime, int, list, provide, reply, requireScopes, requireSession, sessionKey, str,
} from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { currentUser } from 'svc/oauth';
import { Live } from './live.ts';
import { livePage } from './live-page.ts';
import { SCOPES, addLogin } from './login.ts';
import { Notes } from './notes.ts';
import { problemPage, startPage } from './page.ts';
import { People } from './people.ts';
import { readSettings } from './settings.ts';
import type { HTMLResponse, HttpRequest } from 'svc';
import type { Note } from './notes.ts';
import type { Person } from './people.ts';
import type { Shown } from './page.ts';

export const app = new Svc({
  title: '${name}', version: '1.0.0', maxBodyBytes: 100_000,
  openapi: { // what /openapi.json says of it all
    description: 'Notes: everybody keeps their own.', contact: { name: 'The people who run it' }, license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
    tags: { notes: 'The notes of whoever the token belongs to', oauth: 'Logging in, and keeping logged in' },
  },
});

const settings = readSettings(app.config);

// In production it refuses to start before "npm run migrate"; elsewhere it applies what is pending itself.
app.register(new DatabasePlugin(settings.databaseUrl, { migrationDirectory: join(import.meta.dirname, '../migrations') }));
const login = await addLogin(app, settings);

// The first is outermost: each of them sees the answers of those below, refusals too.
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: { defaultSrc: ["'none'"], connectSrc: ["'self'"], imgSrc: ['data:'] } })); // pages bring a nonce for their style and script
app.use(new RateLimitMiddleware({ perMinute: settings.requestsPerMinute }));
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware({ exempt: ['/api/{rest:path}'] })); // it takes tokens, which no other site can send
app.exceptionHandler(LoginRequired, () => new RedirectResponse('/', { status: 303 }));
app.exceptionHandler(HTTPException, (error, req) => {
  if (req.path.startsWith('/api/') || req.headers['accept']?.includes('text/html') !== true) throw error; // programs get it as a problem (RFC 9457)
  return problemPage(req, app.title, error);
});

class NewNote extends Schema {
  static extra = 'forbid';
  text = Field(str, { minLength: 1, maxLength: 500, pattern: '^(?![^]*\\\\0)[^]*\\\\S', description: 'At least one character that can be seen, and no NUL', example: 'Buy milk' });
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
  { query: { page: Field(1, { ge: 1, le: 1_000_000 }), size: Field(int, { default: settings.pageSize, ge: 1, le: 100 }) } },
  ({ query: { page, size } }) => ({ page, size, offset: (page - 1) * size }),
);

const notes = provide({ db: Depends(db) }, ({ db }) => new Notes(db, app.clock, settings.maxNotes));
const people = provide({ db: Depends(db) }, ({ db }) => new People(db));

/** The login that a session belongs to. A session is a signed cookie, of which there may be copies: it counts until that login ends. */
const loginId = sessionKey<string>('login');

async function isLoggedIn(id: string, currentId: string | undefined): Promise<boolean> {
  const sessions = await login?.plugin.listSessions(id, { currentId });
  return sessions?.some(({ isCurrent }) => isCurrent) === true;
}

/** Who looks at the page; undefined for somebody who has not logged in, or whose login has ended. */
const visitor = provide({ people: Depends(people) }, async ({ people, req }) => {
  const id = req.session.get(currentUser);
  return id !== undefined && await isLoggedIn(id, req.session.get(loginId)) ? people.get(id) : undefined;
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

/** Beside what the framework counts, at /metrics. */
const written = app.metrics.counter('svc_notes_written_total', 'Notes that were written, and how', ['by']);

const live = new Live(app.rooms, app.clock);

/** What is done about a note that was written. By background tasks: nobody waits for it, and nothing happens when the answer fails. */
function announce(owner: string, note: Note, by: 'page' | 'program' | 'socket'): void {
  written.add(1, by);
  live.tell(owner, note);
}

const FULL = 'There is no room for another note';
const SHORT_OR_LONG = 'A note has 1 to 500 characters';

/** For people: neither a tool for MCP clients nor a part of the interface that /openapi.json describes. */
const PAGE = { mcp: false, meta: { docs: false } } as const;

// The JSON interface

app.get('/api/notes', { token: Depends(reader), store: Depends(notes), paging: Depends(paging), response: NotePage, tags: ['notes'], summary: 'List notes, the newest first' },
  async ({ token, store, paging: { page, size, offset } }) => ({ ...await store.list(token.sub, offset, size), page, size }));

app.post('/api/notes', { token: Depends(writer), body: NewNote, store: Depends(notes), tasks: Depends(BackgroundTasks), response: StoredNote, status: 201, tags: ['notes'], summary: 'Write a note' },
  async ({ token, body, store, tasks }) => {
    const note = await store.create(token.sub, body.text);
    if (note === undefined) throw new HTTPException(507, FULL);
    tasks.add(announce, token.sub, note, 'program');
    return reply(note, 201, { Location: app.urlFor('note', { id: note.id }) });
  });

app.get('/api/notes/{id:int}', { token: Depends(reader), name: 'note', store: Depends(notes), response: StoredNote, tags: ['notes'], summary: 'Read a note' },
  async ({ token, params, store }) => await store.get(token.sub, params.id) ?? missing(params.id));

app.delete('/api/notes/{id:int}', { token: Depends(writer), store: Depends(notes), status: 204, tags: ['notes'], summary: 'Delete a note' },
  async ({ token, params, store }) => {
    if (!await store.delete(token.sub, params.id)) missing(params.id);
  });

// The page: forms, and no JavaScript

app.get('/', { visitor: Depends(visitor), store: Depends(notes), paging: Depends(paging), ...PAGE, summary: 'The start page' },
  ({ visitor, store, paging, req }) => show(req, visitor, store, paging));

app.get('/welcome', { token: Depends(BearerAuth<{ sid?: string }>()), ...PAGE, summary: 'Where the browser is sent after a login' },
  ({ token, req }) => {
    if (token.sid !== undefined && token.sub === req.session.get(currentUser)) req.session.set(loginId, token.sid); // of the cookie that the login has set
    return new RedirectResponse('/', { status: 303 });
  });

app.post('/', { form: { text: Field('', { maxLength: 10_000 }) }, me: Depends(me), store: Depends(notes), tasks: Depends(BackgroundTasks), ...PAGE, summary: 'Write a note, from the page' },
  async ({ form, me, store, tasks, req }) => {
    const input = NewNote.safeParse({ text: form.text.trim() });
    const note = input.ok ? await store.create(me.id, input.value.text) : undefined;
    if (note !== undefined) {
      tasks.add(announce, me.id, note, 'page');
      req.session.flash('info', \`Note \${note.id} is added\`);
      return new RedirectResponse('/', { status: 303 });
    }
    const [problem, status] = input.ok ? [FULL, 507] : [SHORT_OR_LONG, 400];
    return show(req, me, store, FIRST_PAGE, { problem, draft: form.text }, status);
  });

app.post('/delete', { form: { id: Field(int, { ge: 1 }) }, me: Depends(me), store: Depends(notes), ...PAGE, summary: 'Delete a note, from the page' },
  async ({ form, me, store, req }) => {
    await store.delete(me.id, form.id); // gone already: what was asked for
    req.session.flash('info', \`Note \${form.id} is deleted\`);
    return new RedirectResponse('/', { status: 303 });
  });

app.post('/token', { me: Depends(me), store: Depends(notes), ...PAGE, summary: 'Show a token for the JSON interface' },
  ({ me, store, req }) => {
    const token = createToken(me.id, app.config.get('authSecret', ''), { expiresInSeconds: 3_600, claims: { scopes: SCOPES, iat_us: app.clock.nowMicros() }, clock: app.clock }); // iat_us: logging out ends tokens from before it, to the microsecond
    return show(req, me, store, FIRST_PAGE, { token });
  });

app.post('/logout', { me: Depends(me), ...PAGE, summary: 'Log out everywhere' },
  async ({ me, req }) => {
    await login?.plugin.revokeAll(me.id); // and with the logins the sessions of all browsers, and the tokens
    live.end(me.id);
    req.session.destroy();
    return new RedirectResponse('/', { status: 303 });
  });

// Notes as they are written: a page with a script, and a WebSocket

app.get('/live', { me: Depends(me), ...PAGE, summary: 'Notes as they are written' }, ({ me, req }) => livePage(req, app.title, me));

app.websocket('/live/notes', { me: Depends(me), store: Depends(notes), message: NewNote, maxMessageBytes: 10_000, summary: 'Tells of notes that are written, and writes some' })
  .onOpen((socket, { me, req, signal }) => {
    const currentId = req.session.get(loginId);
    void live.follow(me.id, socket, signal, () => isLoggedIn(me.id, currentId));
  })
  .onMessage(async (socket, { text }, { me, store }) => {
    const note = await store.create(me.id, text);
    if (note === undefined) socket.sendJson({ problem: FULL });
    else announce(me.id, note, 'socket');
  })
  .onError((socket, error) => {
    if (!(error instanceof ValidationError)) throw error;
    socket.sendJson({ problem: SHORT_OR_LONG });
  });

const FIRST_PAGE = { page: 1, size: settings.pageSize, offset: 0 };

/** The page as somebody sees it. */
async function show(
  req: HttpRequest, person: Person | undefined, store: Notes, { page, size, offset }: typeof FIRST_PAGE, more: Partial<Shown> = {}, status = 200,
): Promise<HTMLResponse> {
  const listed = person === undefined ? { items: [], total: 0 } : await store.list(person.id, offset, size);
  return startPage(req, { title: app.title, person, logins: login?.choices(req) ?? [], hasDocs: app.config.get('enableDocs', app.env !== 'production'), ...listed, page, size, ...more }, status);
}

function missing(id: number): never {
  throw new NotFound(\`There is no note \${id}\`);
}
`;

/** `src/settings.ts`. */
export const SETTINGS: Template = () => `/**
 * What can be set, from outside: read once, at the start. A value that does not fit ends it with the name of the variable.
 */
import type { Config } from 'svc';

export interface Settings {
  /** Where notes are kept: \`sqlite:\` with a path, or \`postgres:\` with a server. */
  readonly databaseUrl: string;
  /** Where people reach it. */
  readonly baseUrl: URL | undefined;
  /** What it is at GitHub and Google; empty where people do not log in there. */
  readonly github: Client;
  readonly google: Client;
  /** Notes on a page unless the request says. */
  readonly pageSize: number;
  /** Notes that one person keeps at most. */
  readonly maxNotes: number;
  /** Requests of one client. */
  readonly requestsPerMinute: number;
}

/** What an identity provider knows an application by. */
export interface Client {
  readonly id: string;
  readonly secret: string;
}

export function readSettings(config: Config): Settings {
  const number = (key: string, fallback: number, greatest: number): number =>
    config.get(key, fallback, { cast: (text) => wholeNumber(text, greatest), needs: \`a whole number 1 … \${greatest}\` });
  return {
    databaseUrl: config.get('databaseUrl', process.env['DATABASE_URL'] ?? 'sqlite:./data.db'), // many platforms set that one
    baseUrl: config.get('baseUrl', undefined, { cast: (text) => new URL(text), needs: 'an address such as https://notes.example' }),
    github: { id: config.get('githubClientId', ''), secret: config.get('githubClientSecret', '') },
    google: { id: config.get('googleClientId', ''), secret: config.get('googleClientSecret', '') },
    pageSize: number('pageSize', 20, 100),
    maxNotes: number('maxNotes', 1_000, 1_000_000),
    requestsPerMinute: number('requestsPerMinute', 120, 1_000_000),
  };
}

/** NaN for a text that does not fit. */
function wholeNumber(text: string, greatest: number): number {
  const value = Number(text);
  return Number.isInteger(value) && value >= 1 && value <= greatest ? value : Number.NaN;
}
`;

/** `src/notes.ts`. */
export const NOTES: Template = () => `/**
 * Where notes are kept: a table of the database, made by migrations/0001_notes.up.sql. The statements are for SQLite and
 * PostgreSQL alike.
 */
import type { Clock } from 'svc';
import type { Database, Transaction } from 'svc/db';

export interface Note {
  /** The how many-th note of its owner. */
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
      items: (await tx.fetchAll<Row>(\`\${SELECT} where owner = ? order by id desc limit ? offset ?\`, [owner, limit, offset])).map(noteOf),
      total: await count(tx, owner),
    }), { readOnly: true, isolation: 'repeatable read' });
  }

  async get(owner: string, id: number): Promise<Note | undefined> {
    const row = await this.#db.fetchOne<Row>(\`\${SELECT} where owner = ? and id = ?\`, [owner, id]);
    return row === undefined ? undefined : noteOf(row);
  }

  /** Undefined when there is no room, or no such person. */
  create(owner: string, text: string): Promise<Note | undefined> {
    return this.#db.transaction(async (tx) => {
      // Takes the number and, until the end of the transaction, the row: of two that write at once the other one waits here.
      const id = await tx.scalar<number>('update person set last_note = last_note + 1 where id = ? returning last_note', [owner]);
      if (id === undefined || await count(tx, owner) >= this.#most) return undefined;
      const createdAt = new Date(this.#clock.nowMs());
      await tx.execute('insert into note (owner, id, text, created_at) values (?, ?, ?, ?)', [owner, id, text, createdAt]);
      return { id, text, createdAt };
    });
  }

  /** Whether it was there. */
  async delete(owner: string, id: number): Promise<boolean> {
    return (await this.#db.execute('delete from note where owner = ? and id = ?', [owner, id])).affectedRows === 1;
  }
}

/** A note as the table has it. SQLite gives its time as text, PostgreSQL as a Date. */
interface Row {
  readonly id: number;
  readonly text: string;
  readonly createdAt: string | Date;
}

const SELECT = 'select id, text, created_at as "createdAt" from note';

function noteOf({ id, text, createdAt }: Row): Note {
  return { id, text, createdAt: new Date(createdAt) };
}

async function count(tx: Transaction, owner: string): Promise<number> {
  return await tx.scalar<number>('select count(*) from note where owner = ?', [owner]) ?? 0;
}
`;

/** `src/people.ts`. */
export const PEOPLE: Template = () => `/**
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
    const shown = [...(name ?? id).toWellFormed().replaceAll('\\0', '')].slice(0, 100).join(''); // PostgreSQL has no NUL
    await this.#db.execute('insert into person (id, name) values (?, ?) on conflict (id) do update set name = excluded.name', [id, shown]);
    return id;
  }

  get(id: string): Promise<Person | undefined> {
    return this.#db.fetchOne<Person>('select id, name from person where id = ?', [id]);
  }
}
`;

/** `src/login.ts`. */
export const LOGIN: Template = () => `/**
 * Logging in: at GitHub and Google where these are configured, in development and tests at a provider that asks for no password.
 */
import { OAuthPlugin, githubProvider, googleProvider } from 'svc/oauth';
import { People } from './people.ts';
import type { HttpRequest, Svc } from 'svc';
import type { OAuthProvider } from 'svc/oauth';
import type { Client, Settings } from './settings.ts';

/** What whoever has logged in may do at the JSON interface. */
export const SCOPES: readonly string[] = ['notes:read', 'notes:write'];

/** How people log in. */
export interface Login {
  readonly plugin: OAuthPlugin;
  /** Where they can, for a page. */
  choices(req: HttpRequest): readonly LoginChoice[];
}

/** A way to log in. */
export interface LoginChoice {
  readonly name: string;
  readonly address: string;
}

/** Lets people log in. Undefined when nobody can: in production, without settings. */
export async function addLogin(app: Svc, settings: Settings): Promise<Login | undefined> {
  const { baseUrl, github, google } = settings;
  const configured = [...given(github) ? [githubProvider(github.id, github.secret)] : [], ...given(google) ? [googleProvider(google.id, google.secret)] : []];
  if (configured.length === 0 && app.env === 'production') {
    app.onStartup(() => app.log.warn('login_missing', { remedy: 'Set SVC_GITHUB_CLIENT_ID, SVC_GITHUB_CLIENT_SECRET and SVC_BASE_URL' }));
    return undefined;
  }
  const callback = (path: string): string => baseUrl === undefined ? path : new URL(path, baseUrl).href;
  const providers = configured.length > 0 ? configured : [await developmentProvider(app, callback('/oauth/callback'))];
  const paths = providers.length === 1 ? ['/oauth'] : providers.map(({ name }) => \`/oauth/\${name}\`);
  const plugin = new OAuthPlugin({
    providers,
    allowedRedirectUris: baseUrl === undefined ? [] : paths.map((path) => callback(\`\${path}/callback\`)), // without any: 127.0.0.1 and localhost, and none in production
    mode: 'cookie',
    afterLogin: '/welcome',
    scopes: SCOPES,
    enforceValidAfter: true, // revokeAll() ends access tokens, too, and those that the page has made
    limits: app.env === 'test' ? { login: false, callback: false } : {}, // tests log in more often than people
    onUser: (name, info) => new People(app.state.db).meet(name, info),
  });
  app.register(plugin);
  return {
    plugin,
    choices: (req) => providers.map(({ name }, index) => {
      const path = paths[index]!; // there is one for each
      const back = new URL(\`\${path}/callback\`, baseUrl ?? \`\${req.scheme}://\${req.host}\`).href;
      return { name, address: \`\${path}/login\${providers.length === 1 ? '' : \`?redirect_uri=\${encodeURIComponent(back)}\`}\` };
    }),
  };
}

function given({ id, secret }: Client): boolean {
  return id !== '' || secret !== ''; // one without the other is a mistake, which the provider tells of
}

/** Anybody logs in as anybody. It is imported here, so that production has no such thing. */
async function developmentProvider(app: Svc, callback: string): Promise<OAuthProvider> {
  const { DevProvider } = await import('svc/testing');
  return new DevProvider({ env: app.env, redirectUris: [callback] }).mount(app); // below /_dev/provider
}
`;

/** `src/page.ts`. */
export const PAGE: Template = () => `/**
 * The start page, without a script, and what every page is made of: nothing comes from elsewhere.
 */
import { HTMLResponse, cspNonce, csrfField } from 'svc';
import type { HTTPException, HttpRequest } from 'svc';
import type { LoginChoice } from './login.ts';
import type { Note } from './notes.ts';
import type { Person } from './people.ts';

/** What the page shows. */
export interface Shown {
  readonly title: string;
  /** Who has logged in. */
  readonly person: Person | undefined;
  /** Where they can, if they have not. */
  readonly logins: readonly LoginChoice[];
  /** Whether there is a page about the JSON interface. */
  readonly hasDocs: boolean;
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
pre { background: var(--card); border: 1px solid var(--line); border-radius: 0.625rem; padding: 0.875rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
label { display: block; font-weight: 600; margin-bottom: 0.375rem; }
.row { display: flex; flex-wrap: wrap; gap: 0.625rem; }
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

export function startPage(req: HttpRequest, shown: Shown, status = 200): HTMLResponse {
  const { title, person, hasDocs } = shown;
  const origin = \`\${req.scheme}://\${req.host}\`;
  const csrf = new Markup(person === undefined ? '' : csrfField(req));
  const main = html\`<header>
<h1>\${title}</h1>
<p>It runs. Its routes are in <code>src/app.ts</code>, this page is <code>src/page.ts</code>.</p>
</header>
\${whoOf(shown, csrf)}
\${req.session.takeFlashes().map(({ text }) => html\`<p role="status">\${text}</p>\`)}
\${person === undefined ? '' : notesOf(shown, csrf)}
<footer>
\${person === undefined ? '' : html\`<p><a href="/live">Notes as they are written</a>, over a WebSocket</p>\${tokenOf(shown.token, origin, csrf)}\`}
\${hasDocs ? html\`<p class="soft">For programmers: <a href="/docs">/docs</a> shows the JSON interface, and calls it</p>\` : ''}
<p class="soft">For operators: <a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>, <a href="/metrics">/metrics</a></p>
</footer>\`;
  return documentOf(req, title, main, status);
}

/** What a person sees who went astray, or was refused. */
export function problemPage(req: HttpRequest, title: string, { status, message, headers = {} }: HTTPException): HTMLResponse {
  const page = documentOf(req, \`\${message}: \${title}\`, html\`<header>
<h1>\${message}</h1>
<p>Error \${status}, request <code>\${req.id}</code></p>
</header>
<p><a href="/">To the start page</a></p>\`, status);
  for (const [name, value] of Object.entries(headers)) page.headers.set(name, value);
  return page;
}

/** A whole document. Its style has the nonce of the answer, and so has a script. */
export function documentOf(req: HttpRequest, title: string, main: Markup, status = 200, script?: string): HTMLResponse {
  const nonce = cspNonce(req);
  return new HTMLResponse(html\`<!doctype html>
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
\${main}
</main>
\${script === undefined ? '' : html\`<script nonce="\${nonce}">\${new Markup(script)}</script>\`}
</body>
</html>
\`.text, { status });
}

/** A link, not a form: the policy of the page lets forms go to this site alone, and the login leads to another one. */
function whoOf({ person, logins }: Shown, csrf: Markup): Markup {
  if (person !== undefined) {
    return html\`<div class="bar"><span>Logged in as <strong>\${person.name}</strong></span>
<form method="post" action="/logout">\${csrf}<button class="quiet">Log out everywhere</button></form></div>\`;
  }
  if (logins.length === 0) return html\`<p role="alert">Nobody can log in yet: see “Login” in README.md.</p>\`;
  return html\`<p>Notes are for those who have logged in.</p>
<p class="row">\${logins.map(({ name, address }) => html\`<a class="button" href="\${address}">Log in\${logins.length > 1 ? \` with \${NAMES[name] ?? name}\` : ''}</a>\`)}</p>\`;
}

/** How providers write themselves. */
const NAMES: Readonly<Record<string, string>> = { github: 'GitHub', google: 'Google' };

function notesOf({ items, total, page, size, problem, draft = '' }: Shown, csrf: Markup): Markup {
  return html\`<form method="post" action="/">
\${csrf}
<label for="text">New note</label>
<div class="row">
<input id="text" name="text" value="\${draft}"\${problem === undefined ? '' : new Markup(' autofocus aria-describedby="problem"')} required maxlength="500" pattern=".*\\\\S.*" title="At least one character that can be seen" autocomplete="off">
<button>Add</button>
</div>
\${problem === undefined ? '' : html\`<p id="problem" role="alert">\${problem}</p>\`}
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
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | readonly Markup[];

/** A template whose values are escaped, unless they are markup. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  return new Markup(String.raw({ raw: strings }, ...parts.map(textOf)));
}

function textOf(part: Part): string {
  if (part instanceof Markup) return part.text;
  if (typeof part === 'object') return part.map(textOf).join('');
  return String(part).replace(/[&<>"']/g, (character) => \`&#\${character.charCodeAt(0)};\`);
}
`;

/** `src/live.ts`. */
export const LIVE: Template = () => `/**
 * Who looks at their notes at this moment: WebSockets, by person. A socket is let in by a session, and counts as long as its login.
 *
 *   a note is written → its answer goes out → a background task sends it to the room of its owner → every window shows it
 */
import { hash } from 'node:crypto';
import type { Clock, RoomSender, Socket } from 'svc';
import type { Note } from './notes.ts';

/** How often it is asked whether a login has ended elsewhere: in another process, or by its time. */
const CHECK_MS = 30_000;
/** RFC 6455 §7.4.1: a policy is in the way. */
const POLICY = 1008;

export class Live {
  readonly #rooms: RoomSender;
  readonly #clock: Clock;
  readonly #sockets = new Map<string, Set<Socket<unknown>>>();

  constructor(rooms: RoomSender, clock: Clock) {
    this.#rooms = rooms;
    this.#clock = clock;
  }

  /** Lets a socket hear of the notes of a person, until it closes, or \`isLoggedIn\` says no. Never rejects. */
  async follow(owner: string, socket: Socket<unknown>, signal: AbortSignal, isLoggedIn: () => Promise<boolean>): Promise<void> {
    const own = this.#sockets.get(owner) ?? new Set();
    this.#sockets.set(owner, own.add(socket));
    socket.join(roomOf(owner));
    try {
      while (await this.#clock.sleep(CHECK_MS, signal).then(isLoggedIn));
      socket.close(POLICY, 'logged out');
    } catch {
      socket.close(1011, 'try again'); // nobody could be asked; or it has closed, which is what ends the sleep
    } finally {
      own.delete(socket);
      if (own.size === 0) this.#sockets.delete(owner);
    }
  }

  /** Tells every window of a person. */
  tell(owner: string, note: Note): void {
    this.#rooms.broadcastJson(roomOf(owner), { note });
  }

  /** Ends the sockets that a person has in this process. */
  end(owner: string): void {
    for (const socket of this.#sockets.get(owner) ?? []) socket.close(POLICY, 'logged out');
  }
}

function roomOf(owner: string): string {
  return \`notes-\${hash('sha256', owner)}\`; // names of rooms have an end
}
`;

/** `src/live-page.ts`. */
export const LIVE_PAGE: Template = () => `/**
 * The page that shows notes as they are written, in whatever window or program: its script speaks with the WebSocket.
 */
import { documentOf, html } from './page.ts';
import type { HTMLResponse, HttpRequest } from 'svc';
import type { Person } from './people.ts';

/** When the connection is lost, it comes back: after half a second, then ever more slowly. Texts of people are set as text. */
const SCRIPT = \`
const [form, list, state, problem] = ['form', 'ol', '[role=status]', '[role=alert]'].map((selector) => document.querySelector(selector));
let socket;
let pauseMs = 500;

function connect() {
  socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/live/notes');
  socket.addEventListener('open', () => { pauseMs = 500; show('Connected'); });
  socket.addEventListener('message', ({ data }) => {
    const { note, problem: text = '' } = JSON.parse(data);
    problem.textContent = text;
    if (note !== undefined) add(note);
  });
  socket.addEventListener('close', ({ code }) => {
    if (code === 1008) { location.href = '/'; return; }
    show('Not connected: trying again');
    setTimeout(connect, pauseMs);
    pauseMs = Math.min(2 * pauseMs, 30_000);
  });
}

function show(text) {
  state.textContent = text;
  form.querySelector('button').disabled = socket.readyState !== WebSocket.OPEN;
}

function add({ text, createdAt }) {
  const [item, paragraph, time] = ['li', 'p', 'time'].map((name) => document.createElement(name));
  paragraph.textContent = text;
  time.textContent = new Date(createdAt).toLocaleTimeString();
  time.className = 'soft';
  item.append(paragraph, time);
  list.prepend(item);
  while (list.children.length > 100) list.lastChild.remove();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  socket.send(JSON.stringify({ text: form.elements.text.value.trim() }));
  form.reset();
});
connect();
\`;

export function livePage(req: HttpRequest, title: string, { name }: Person): HTMLResponse {
  return documentOf(req, \`\${title}, live\`, html\`<header>
<h1>\${title}, live</h1>
<p>Open this page in several windows: what \${name} writes in any of them, or by a program, is in all of them at once.</p>
</header>
<p role="status">Connecting</p>
<form>
<label for="text">New note</label>
<div class="row">
<input id="text" name="text" aria-describedby="problem" required maxlength="500" autocomplete="off">
<button disabled>Send</button>
</div>
<p id="problem" role="alert"></p>
</form>
<section>
<div class="bar"><h2>Since you came</h2></div>
<ol></ol>
</section>
<footer><p><a href="/">All notes</a></p></footer>\`, 200, SCRIPT);
}
`;

/** `migrations/0001_notes.up.sql`. */
export const MIGRATION_UP: Template =
  () => `-- One text for SQLite and PostgreSQL. SQLite takes any name for a type: "bigint" makes it keep whole numbers, "timestamptz" ISO 8601.
create table person (
  id text not null primary key,
  name text not null,
  -- The number of their latest note. None is given twice, so that the address of a note that is gone does not become another's.
  last_note bigint not null default 0
);

-- The key is also the order in which they are listed.
create table note (
  owner text not null references person (id) on delete cascade,
  id bigint not null,
  text text not null check (text <> '' and length(text) <= 500),
  created_at timestamptz not null,
  primary key (owner, id)
);
`;

/** `migrations/0001_notes.down.sql`. */
export const MIGRATION_DOWN: Template = () => `drop table note;
drop table person;
`;
