/**
 * Test of a new project: its application, called as browsers and programs call it.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** `test/app.test.ts`. */
export const APP_TEST: Template = ({ name }) => `import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createToken } from 'svc';
import { TestClient, WebSocketRefused } from 'svc/testing';

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
    ['without text', {}], ['of white space', { text: ' \\n' }], ['with a NUL', { text: 'a\\0b' }], ['with half a character', { text: '\\ud800' }], ['of more than 500 characters', { text: 'x'.repeat(501) }],
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
  assert.match(text, /aria-describedby="problem"[^]*id="problem" role="alert">A note has 1 to 500 characters/);
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

test('a person who goes astray, or is refused, sees a page, and a program a problem', async () => {
  await using browser = await browserOf('ada');
  const headers = { accept: 'text/html,*/*;q=0.8' };
  const astray = await browser.get('/nowhere', { headers });
  assert.deepEqual([astray.status, astray.headers.get('content-type')], [404, 'text/html; charset=utf-8']);
  assert.match(await astray.text(), /<html lang="en">[^]*<title>[^<]+<\\/title>[^]*<h1>Not Found<\\/h1>/);
  const refused = await browser.post('/', { form: { text: 'no token' }, headers });
  assert.equal(refused.status, 403);
  assert.match(await refused.text(), /<h1>The request does not prove/);
  for (const [path, accept] of [['/nowhere', '*/*'], ['/api/nowhere', headers.accept]] as const) {
    const answer = await browser.get(path, { headers: { accept } });
    assert.deepEqual([answer.status, answer.headers.get('content-type')], [404, 'application/problem+json'], path);
  }
});

test('a note is told to every window of its owner, however it was written, and to nobody else', async () => {
  await using browser = await browserOf('ada');
  await using program = await programOf(browser);
  await using other = await browserOf('alan');
  await using here = await browser.websocket('/live/notes');
  await using there = await browser.websocket('/live/notes');
  await using foreign = await other.websocket('/live/notes');
  const heard = async (socket: typeof here): Promise<unknown> => (JSON.parse(String(await socket.receive())) as { note?: { text: string } }).note?.text;
  await program.post('/api/notes', { json: { text: 'by a program' } });
  assert.deepEqual([await heard(here), await heard(there)], ['by a program', 'by a program']);
  await browser.post('/', { form: { text: 'by the page', _csrf_token: await csrfOf(browser) } });
  assert.deepEqual([await heard(here), await heard(there)], ['by the page', 'by the page']);
  here.sendJson({ text: 'by a socket' });
  assert.deepEqual([await heard(here), await heard(there)], ['by a socket', 'by a socket']);
  foreign.sendJson({ text: 'mine' });
  assert.equal(await heard(foreign), 'mine', 'the first thing that it hears');
  assert.match(await (await browser.get('/')).text(), /<p>by a socket<\\/p>/);
});

test('a socket tells what is wrong with a note, and goes on', async () => {
  await using browser = await browserOf('ada');
  await using socket = await browser.websocket('/live/notes');
  for (const text of ['', ' ', 'x'.repeat(501), '\\0']) {
    socket.sendJson({ text });
    assert.equal(await socket.receive(), '{"problem":"A note has 1 to 500 characters"}');
  }
  socket.sendJson({ text: 'x' });
  assert.match(String(await socket.receive()), /"text":"x"/);
});

test('a socket is for somebody who has logged in, and for pages of this site', async () => {
  await using nobody = new TestClient(app);
  await using browser = await browserOf('ada');
  await assert.rejects(nobody.websocket('/live/notes'), WebSocketRefused);
  await assert.rejects(browser.websocket('/live/notes', { headers: { origin: 'https://elsewhere.example' } }), WebSocketRefused);
  assert.equal((await nobody.get('/live')).status, 303);
  assert.equal((await nobody.get('/live/notes')).status, 426);
});

test('logging out ends the sockets of that person at once, and nobody else\\'s', async () => {
  await using browser = await browserOf('alan'); // not the one of the next test: for ten milliseconds a login after a logout may count as one before it
  await using window = await browser.websocket('/live/notes');
  await using other = await browserOf('ada');
  await using untouched = await other.websocket('/live/notes');
  await browser.post('/logout', { form: { _csrf_token: await csrfOf(browser) } });
  assert.deepEqual((await window.closed).code, 1008);
  untouched.sendJson({ text: 'still here' });
  assert.match(String(await untouched.receive()), /still here/);
});

test('the page of notes as they are written has a script with the nonce of its policy', async () => {
  await using browser = await browserOf('ada');
  const page = await browser.get('/live');
  const [, nonce] = /<script nonce="([^"]+)">/.exec(await page.text()) ?? [];
  const policy = page.headers.get('content-security-policy') ?? '';
  assert.ok(nonce !== undefined && policy.includes(\`script-src 'nonce-\${nonce}'\`), policy);
  assert.match(policy, /connect-src 'self'/);
});

test('notes are counted, by how they were written', async () => {
  await using browser = await browserOf('ada');
  await using program = await programOf(browser);
  await browser.post('/', { form: { text: 'one', _csrf_token: await csrfOf(browser) } });
  await program.post('/api/notes', { json: { text: 'two' } });
  const metrics = await (await browser.get('/metrics')).text();
  for (const by of ['page', 'program']) assert.match(metrics, new RegExp(\`^svc_notes_written_total\\\\{by="\${by}"\\\\} [1-9]\`, 'm'));
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
