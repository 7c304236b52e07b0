/**
 * Tests call the application as browsers and programs do: on SQLite in memory, or on the server of
 * POSTGRES_URL.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createToken } from 'svc';
import { TestClient, WebSocketRefused } from 'svc/testing';

// Settings, which the application reads when it is imported.
const authSecret = randomBytes(32).toString('hex');
Object.assign(process.env, {
  SVC_ENV: 'test',
  SVC_DATABASE_URL: process.env['POSTGRES_URL'] ?? 'sqlite::memory:',
  SVC_AUTH_SECRET: authSecret,
});
const { app } = await import('../src/app.ts');

/** Returns a browser in which a user has logged in at the development provider. */
async function browserOf(user: string, login = '/oauth/login'): Promise<TestClient> {
  await using steps = new AsyncDisposableStack(); // closes the client if a step throws
  const client = steps.use(new TestClient(app));
  await choose(client, user, await client.get(login));
  steps.move(); // from here on, the caller closes it
  return client;
}

/** Chooses a user at the provider to which a response leads: by a redirect, or by the page that a form gets. */
async function choose(client: TestClient, user: string, begun: Response): Promise<void> {
  const [, address = ''] = /content="0; url=([^"]+)"/.exec(await begun.text()) ?? [];
  const page = new URL(begun.headers.get('location') ?? address.replaceAll('&#38;', '&'));
  const form = { ...Object.fromEntries(page.searchParams), user };
  const chosen = await client.post(page.pathname, { form });
  const { status, headers } = await client.get(chosen.headers.get('location') ?? '');
  assert.deepEqual([status, headers.get('location')], [303, '/']);
}

/** Sends a form of the page with its CSRF token. */
async function submit(
  client: TestClient,
  path: string,
  fields: Record<string, string> = {},
): Promise<Response> {
  const [, _csrf_token = ''] = /name="_csrf_token" value="([^"]+)"/.exec(await textOf(client)) ?? [];
  return client.post(path, { form: { ...fields, _csrf_token } });
}

async function textOf(client: TestClient, path = '/'): Promise<string> {
  return (await client.get(path)).text();
}

/** Creates an API token on the page /token, and returns a client that sends the token with each request. */
async function programOf(browser: TestClient): Promise<TestClient> {
  const page = await (await submit(browser, '/token')).text();
  const [, Authorization] = /Authorization: (Bearer [\w.-]+)/.exec(page) ?? assert.fail(page);
  return new TestClient(app, { headers: { Authorization: Authorization! } });
}

test('a program writes, lists, reads and deletes a note', async () => {
  await using browser = await browserOf('ada');
  await using program = await programOf(browser);
  const created = await program.post('/api/notes', { json: { text: 'Buy milk' } });
  const note = (await created.json()) as { id: string; text: string };
  const location = created.headers.get('location') ?? '';
  assert.deepEqual([created.status, location, note.text], [201, `/api/notes/${note.id}`, 'Buy milk']);
  assert.deepEqual(await (await program.get(location)).json(), note);
  const listed = (await (await program.get('/api/notes')).json()) as { items: unknown[]; total: number };
  assert.deepEqual(listed.items[0], note);
  assert.equal((await program.delete(location)).status, 204);
  assert.equal((await program.delete(location)).status, 404);
  const { total } = (await (await program.get('/api/notes?page=2')).json()) as { total: number };
  assert.equal(total, listed.total - 1);
});

test('a note that does not fit is refused, and the problem says where', async () => {
  await using browser = await browserOf('ada');
  await using program = await programOf(browser);
  for (const text of [undefined, ' \n', 'a\0b', 'x'.repeat(501)]) {
    const response = await program.post('/api/notes', { json: { text } });
    assert.equal(response.status, 400);
    const { errors } = (await response.json()) as { errors: { loc: string[] }[] };
    assert.equal(errors[0]?.loc[0], 'body');
  }
});

test('the notes of other people are not found', async () => {
  await using ada = await browserOf('ada');
  await using alan = await browserOf('alan');
  await using program = await programOf(ada);
  const { id } = (await (await program.post('/api/notes', { json: { text: 'Only mine' } })).json()) as {
    id: string;
  };
  assert.equal((await alan.get(`/api/notes/${id}`)).status, 404);
  assert.equal((await alan.delete(`/api/notes/${id}`)).status, 404);
  await submit(alan, '/delete', { id });
  assert.doesNotMatch(await textOf(alan), /Only mine/);
  assert.match(await textOf(ada), /Only mine/);
});

test('the JSON interface responds with 401 without a token, and 403 without the scope', async () => {
  await using client = new TestClient(app);
  const token = createToken('dev:ada', authSecret, {
    type: 'at+jwt',
    claims: { scopes: ['notes:read'] },
  });
  const headers = { Authorization: `Bearer ${token}` };
  assert.equal((await client.get('/api/notes')).status, 401);
  assert.equal((await client.get('/api/notes', { headers })).status, 200);
  assert.equal((await client.post('/api/notes', { json: { text: 'x' }, headers })).status, 403);
  assert.match(
    await (await client.get('/', { headers })).text(),
    /Log in with/,
    'the page is for logins only',
  );
});

test('the page works with forms alone, and escapes the text of notes', async () => {
  await using client = await browserOf('ada');
  const posted = await submit(client, '/', { text: '<script>alert(1)</script>' });
  assert.deepEqual([posted.status, posted.headers.get('location')], [303, '/']);
  const page = await textOf(client);
  assert.match(page, /Logged in as <strong>Ada Lovelace<[^]*&#60;script&#62;alert\(1\)/);
  const [, id = ''] = /name="id" value="([^"]+)"/.exec(page) ?? [];
  assert.equal((await submit(client, '/delete', { id })).status, 303);
  assert.doesNotMatch(await textOf(client), /alert\(1\)/);
});

test('forms without a token of the page are refused, and forms of other sites', async () => {
  await using client = await browserOf('ada');
  for (const path of ['/', '/delete', '/token', '/logins/end', '/logout'])
    assert.equal((await client.post(path, { form: { text: 'x', id: '1' } })).status, 403, path);
});

test('the page lists the logins of a person, and ends one of them', async () => {
  await using here = await browserOf('alan');
  await using there = await browserOf('alan');
  await using other = await browserOf('ada');
  const page = await textOf(here);
  assert.match(page, /A program, this browser/);
  const [, id = ''] =
    /action="\/logins\/end">[^]*?name="id" value="([^"]+)" \/>\s*<span>A program, with dev/.exec(page)!;
  assert.equal((await submit(other, '/logins/end', { id })).status, 303);
  assert.match(await textOf(there), /Logged in as/, 'the login belongs to another person');
  assert.equal((await submit(here, '/logins/end', { id })).status, 303);
  assert.match(await textOf(there), /Log in with dev/);
  assert.match(await textOf(here), /Logged in as/);
});

test('a logout ends the logins of a person in every browser, and the tokens', async () => {
  await using here = await browserOf('alan');
  await using there = await browserOf('alan');
  await using other = await browserOf('ada');
  await using program = await programOf(there);
  assert.equal((await program.get('/api/notes')).status, 200);
  const response = await submit(here, '/logout');
  assert.deepEqual([response.status, response.headers.get('location')], [307, '/oauth/logout']);
  for (const client of [here, there])
    assert.match(await textOf(client), /href="\/oauth\/login">Log in with dev</);
  assert.equal((await program.get('/api/notes')).status, 401);
  assert.match(await textOf(other), /Logged in as/);
});

test('a person links an account at another provider, logs in with either, and keeps one', async () => {
  await using here = await browserOf('ada');
  // headers that a browser sends with a form of the same site
  const own = { 'sec-fetch-site': 'same-origin', accept: 'text/html' };
  await submit(here, '/', { text: 'Linked' });
  await choose(here, 'alan', await here.post('/oauth/other/link', { headers: own }));
  await using there = await browserOf('alan', '/oauth/other/login');
  assert.match(await textOf(there), /Linked[^]*Ways to log in: dev, other/);
  await using stranger = await browserOf('alan');
  assert.doesNotMatch(
    await textOf(stranger),
    /Linked/,
    'the same name at another provider is another person',
  );
  const taken = await stranger.post('/oauth/other/link', { headers: own });
  await assert.rejects(choose(stranger, 'alan', taken), 'the account belongs to ada');
  assert.equal((await here.post('/oauth/other/unlink', { headers: own })).status, 303);
  assert.equal((await here.post('/oauth/dev/unlink', { headers: own })).status, 409);
  await using again = await browserOf('alan', '/oauth/other/login');
  assert.doesNotMatch(await textOf(again), /Linked/);
});

test('a person whose login has ended goes through the login before accounts are linked', async () => {
  await using here = await browserOf('ada');
  const cookie = here.cookies
    .names()
    .map((name) => `${name}=${here.cookies.get(name)}`)
    .join('; ');
  await here.post('/oauth/revoke', { headers: { 'sec-fetch-site': 'same-origin' } });
  await using copied = new TestClient(app, { headers: { cookie } });
  for (const path of ['/oauth/other/link', '/oauth/dev/unlink']) {
    const headers = { 'sec-fetch-site': 'same-origin', accept: 'text/html' };
    const { status, headers: fields } = await copied.post(path, { headers });
    const location = fields.get('location') ?? '';
    assert.equal(status, 303);
    assert.match(location, /^\/login\?error=login_required&/);
    assert.match(await textOf(copied, location), /log in again[^]*Log in with dev[^]*Log in with other/);
  }
});

test('an open page learns of changes, however a note was written', async () => {
  await using browser = await browserOf('ada');
  await using program = await programOf(browser);
  await using socket = await browser.websocket('/live');
  assert.equal((await program.post('/api/notes', { json: { text: 'by a program' } })).status, 201);
  assert.equal(await socket.receive(), 'changed');
  assert.equal((await submit(browser, '/', { text: 'by the page' })).status, 303);
  assert.equal(await socket.receive(), 'changed');
  await using stranger = new TestClient(app);
  await assert.rejects(stranger.websocket('/live'), WebSocketRefused);
});

test('people get errors as pages, programs as problems', async () => {
  await using client = new TestClient(app);
  for (const [path, accept, expected] of [
    ['/nowhere', 'text/html,*/*;q=0.8', 'text/html; charset=utf-8'],
    ['/nowhere', '*/*', 'application/problem+json'],
    ['/api/nowhere', 'text/html', 'application/problem+json'],
  ] as const) {
    const { status, headers } = await client.get(path, { headers: { accept } });
    assert.deepEqual([status, headers.get('content-type')], [404, expected]);
  }
});

test('a note that is sent after a logout elsewhere is kept until the person has logged in again', async () => {
  await using here = await browserOf('alan');
  await using there = await browserOf('alan');
  const [, _csrf_token = ''] = /name="_csrf_token" value="([^"]+)"/.exec(await textOf(here)) ?? [];
  await submit(there, '/logout');
  // a browser whose session has ended
  await using closed = new TestClient(app);
  for (const client of [here, closed]) {
    const refused = await client.post('/', {
      headers: { 'Sec-Fetch-Site': 'same-origin' }, // sent by browsers
      form: { text: `Buy "milk"${'x'.repeat(50_000)}`, _csrf_token },
    });
    assert.equal(refused.status, 401);
    assert.match(await refused.text(), /Log in again: your note is kept/);
    await using again = await browserOf('alan');
    for (const cookie of refused.headers.getSetCookie())
      if (cookie.startsWith('draft=')) again.cookies.take(cookie, new URL('http://localhost/'));
    assert.match(await textOf(again), /name="text" value="Buy &#34;milk&#34;x+"/);
    await submit(again, '/', { text: 'Buy milk' });
    assert.match(await textOf(again), /name="text" value=""/);
  }
});

test('readiness has the database', async () => {
  await using client = new TestClient(app);
  assert.match(await textOf(client, '/readyz'), /"database":\{"status":"up"/);
});
