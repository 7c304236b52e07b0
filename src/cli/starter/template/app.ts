/**
 * The application of a new project: its routes, pages and WebSocket, in one file.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

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
