/** The application: settings, middleware, the JSON API, the page and the WebSocket. */
import { hash } from 'node:crypto';
import { join } from 'node:path';
import {
  CSRFMiddleware,
  Depends,
  Field,
  HTTPException,
  NotFound,
  RateLimitMiddleware,
  RedirectResponse,
  Schema,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  Svc,
  Unauthorized,
  createToken,
  int,
  list,
  provide,
  reply,
  requireScopes,
  requireSession,
  str,
  uuid,
} from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { currentLogin, currentUser } from 'svc/oauth';
import { accountsOf } from './accounts.ts';
import { SCOPES, addLogin } from './login.ts';
import { Note, Notes } from './notes.ts';
import { loginPage, notesPage, problemPage } from './page.ts';
import type { HttpRequest } from 'svc';

const folder = (name: string): string => join(import.meta.dirname, '..', name);
export const app = new Svc({
  title: '{{name}}',
  maxBodyBytes: 100_000,
  openapi: {
    description: 'Notes that each person keeps for themselves.',
    contact: { name: 'The team of {{name}}' },
    license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
  },
});

// Hosting platforms set DATABASE_URL. In production, run "npm run migrate" before the start.
const databaseUrl = app.config.get('databaseUrl', process.env['DATABASE_URL'] ?? 'sqlite:./data.db');
app.register(new DatabasePlugin(databaseUrl, { migrationDirectory: folder('migrations') }));
const { login, providers, isDevelopment } = await addLogin(app);

// Middleware, outermost first. Each middleware also sees the error responses of the next ones.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:";
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: policy }));
app.use(new RateLimitMiddleware({ perMinute: 300 }));
app.use(new SessionMiddleware());
// paths below /api need no CSRF check, because other sites cannot send an API token
app.use(new CSRFMiddleware({ exempt: ['/api/{rest:path}'] }));
app.mountStatic('/public', folder('public'));

// Clients of the API get errors as JSON (RFC 9457), browsers get a page.
app.exceptionHandler(HTTPException, { response: 'application/problem+json' }, async (error, req) => {
  // true if the session ended after the form was loaded, for example by a logout in another window
  const isStale = error.code === 'csrf_failed' && req.headers['sec-fetch-site'] === 'same-origin';
  if (req.method === 'POST' && req.path === '/' && (error instanceof Unauthorized || isStale)) {
    const draft = Buffer.from((await req.form()).get('text')?.slice(0, 500) ?? '').toString('base64url');
    return problemPage(req, new Unauthorized('Log in again: your note is kept')).setCookie('draft', draft);
  }
  const isForPeople = req.headers['accept']?.includes('text/html') === true && !req.path.startsWith('/api/');
  if (error instanceof Unauthorized && req.path === '/')
    return loginPage(app.title, providers, isDevelopment);
  if (!isForPeople) throw error;
  if (error instanceof Unauthorized || isStale) return new RedirectResponse('/', { status: 303 });
  return problemPage(req, error);
});

class NewNote extends Schema {
  text = Field(str, {
    minLength: 1,
    maxLength: 500,
    pattern: '^(?![^]*\\0)[^]*\\S',
    description: 'At least one visible character, and no NUL character',
    example: 'Buy milk',
  });
}

class NoteList extends Schema {
  items = Field(list(Note));
  total = Field(int);
}

const paging = { page: Field(1, { ge: 1, le: 1_000_000 }) };
const notes = provide({ db: Depends(db) }, ({ db }) => new Notes(db, app.clock));

/** Access to the JSON API: a program sends its token in the header `Authorization`. */
const reader = requireScopes('notes:read');
const writer = requireScopes('notes:write');
/** Access to the pages: the id of the person, as long as the session of the browser lasts. */
const person = requireSession(currentUser);

/** Returns the name of the WebSocket room of a person. It is a hash, because an id may be too long. */
const roomOf = (person: string): string => hash('sha256', person);
const announce = (person: string): void => app.rooms.broadcast(roomOf(person), 'changed');

app.get(
  '/api/notes',
  {
    token: Depends(reader),
    store: Depends(notes),
    query: paging,
    response: NoteList,
    summary: 'List notes, the newest first',
  },
  ({ token, store, query }) => store.list(token.sub, query.page),
);

app.post(
  '/api/notes',
  {
    token: Depends(writer),
    store: Depends(notes),
    body: NewNote,
    response: Note,
    status: 201,
    summary: 'Write a note',
  },
  async ({ token, store, body }) => {
    const note = await store.create(token.sub, body.text);
    announce(token.sub);
    return reply(note, 201, { Location: `/api/notes/${note.id}` });
  },
);

app.get(
  '/api/notes/{id:uuid}',
  { token: Depends(reader), store: Depends(notes), response: Note, summary: 'Read a note' },
  async ({ token, store, params }) => (await store.get(token.sub, params.id)) ?? missing(),
);

app.delete(
  '/api/notes/{id:uuid}',
  { token: Depends(writer), store: Depends(notes), status: 204, summary: 'Delete a note' },
  async ({ token, store, params }) => {
    if (!(await store.delete(token.sub, params.id))) missing();
    announce(token.sub);
  },
);

function missing(): never {
  throw new NotFound('There is no such note');
}

// The page is neither a tool for MCP clients nor part of /openapi.json
const PAGE = { mcp: false, meta: { docs: false } } as const;
const base = app.config.get('baseUrl', `http://127.0.0.1:${app.config.get('port', 8000)}`);
const home = (): RedirectResponse => new RedirectResponse('/', { status: 303 });
const shownTo = async (me: string, req: HttpRequest, store: Notes, page = 1) => {
  const accounts = await accountsOf(app.state.db, me);
  const logins = (await login?.listSessions(me, { currentId: req.session.get(currentLogin)?.id })) ?? [];
  return { page, providers, accounts, logins, ...(await store.list(me, page)) };
};

app.get('/login', { public: 'people log in here', ...PAGE }, ({ req }) =>
  loginPage(app.title, providers, isDevelopment, req.query.get('error')),
);

app.get(
  '/',
  { me: Depends(person), store: Depends(notes), query: paging, ...PAGE },
  async ({ me, store, query, req }) => notesPage(req, app.title, await shownTo(me, req, store, query.page)),
);

app.post(
  '/',
  { me: Depends(person), store: Depends(notes), form: NewNote, ...PAGE },
  async ({ me, store, form }) => {
    await store.create(me, form.text);
    announce(me);
    return home().deleteCookie('draft');
  },
);

app.post(
  '/delete',
  { me: Depends(person), store: Depends(notes), form: { id: Field(uuid) }, ...PAGE },
  async ({ me, store, form }) => {
    await store.delete(me, form.id);
    announce(me);
    return home();
  },
);

app.post('/token', { me: Depends(person), store: Depends(notes), ...PAGE }, async ({ me, store, req }) => {
  const token = createToken(me, app.config.get('authSecret', ''), {
    type: 'at+jwt', // the type of login tokens: BearerAuth() accepts no other
    expiresInSeconds: 3_600,
    // the time of issue, because a logout revokes all tokens that were issued earlier
    claims: { scopes: SCOPES, iat_us: app.clock.nowMicros() },
    clock: app.clock,
  });
  const call = `curl -H 'Authorization: Bearer ${token}' ${new URL('/api/notes', base).href}`;
  return notesPage(req, app.title, { call, ...(await shownTo(me, req, store)) });
});

app.post(
  '/logins/end',
  { me: Depends(person), form: { id: Field(str, { maxLength: 100 }) }, ...PAGE },
  async ({ me, form }) => {
    await login?.revokeSession(me, form.id); // ends no login of another person
    return home();
  },
);

app.post('/logout', { me: Depends(person), ...PAGE }, async ({ me }) => {
  await login?.revokeAll(me); // ends the sessions in every browser, and revokes the tokens of programs
  announce(me);
  // /oauth/logout also ends the session at the provider
  return new RedirectResponse('/oauth/logout', { status: 307 });
});

app
  .websocket('/live', { me: Depends(person), summary: 'Sends a message when notes have changed' })
  .onOpen((socket, { me }) => socket.join(roomOf(me)));
