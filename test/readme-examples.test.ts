/**
 * Examples of the manuals do what the text around them promises: teams and invitations, codes by e-mail, acting as another
 * user, keys with scopes, streams of a right that ends. test/readme.integration.test.ts runs every example; these tests follow whole flows.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createToken, str } from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { manuals } from './support/manuals.ts';
import { blocksOf } from './support/markdown.ts';
import { project, write } from './support/run.ts';
import type { Svc } from 'svc';
import type { OAuthPlugin } from 'svc/oauth';

process.env['SVC_ENV'] = 'test';
const SECRET = 'a secret for this test, of 32 bytes or more';
process.env['SVC_AUTH_SECRET'] = SECRET;

const EXAMPLES = manuals().flatMap(({ text }) =>
  blocksOf(text).flatMap(({ language, text: code }) => (language === 'ts' ? [code] : [])),
);
const programs = project({ after });
const clock = new ManualClock();

interface Example {
  readonly app: Svc;
  readonly oauth: OAuthPlugin;
  readonly lines: readonly string[];
}

/** Loads the example that contains `mark`. Its plugin gets a provider at which users log in without a password. */
async function example(mark: string): Promise<Example> {
  const code = EXAMPLES.find((each) => each.includes(mark)) ?? assert.fail(`no example contains ${mark}`);
  const plugin = `new OAuthPlugin({
    mode: 'cookie',
    limits: { login: false, callback: false },
    provider: new TestedProvider({ env: 'test', users, redirectUris: ['/oauth/callback'] }).mount(app),
    onUser: (_provider, { subject }) => subject,
    onLink: () => true,
  })`;
  const source = [
    "import { createLogger as loggerOfTest, csrfToken as tokenOfTest } from 'svc';",
    "import { DevProvider as TestedProvider } from 'svc/testing';",
    'export const lines: string[] = [];',
    "const users = ['ada', 'alan', 'root'].map((sub) => ({ sub, name: sub }));",
    code
      .replace("new OAuthPlugin({ mode: 'cookie' })", () => plugin)
      .replace('crypto.randomUUID() + crypto.randomUUID()', () => JSON.stringify(SECRET))
      .replace(
        "title: 'Shop'",
        "title: 'Shop', logger: loggerOfTest({ sink: (line) => void lines.push(line) })",
      ),
    "app.get('/_token', ({ req }) => tokenOfTest(req));",
    code.includes('const oauth =') ? 'export { oauth };' : '',
  ];
  const file = join(programs, `${mark.replaceAll(/\W+/g, '-')}.ts`);
  write(programs, { [file.slice(programs.length + 1)]: source.join('\n') });
  return (await import(pathToFileURL(file).href)) as Example;
}

/** A client with calls of one browser, which changes its user. */
class Browser {
  readonly #client: TestClient;

  constructor(client: TestClient) {
    this.#client = client;
  }

  async login(user: string): Promise<void> {
    this.#client.cookies.clear();
    const page = new URL((await this.#client.get('/oauth/login')).headers.get('location') ?? '');
    const form = { ...Object.fromEntries(page.searchParams), user };
    const chosen = await this.#client.post(page.pathname, { form });
    assert.equal((await this.#client.get(chosen.headers.get('location') ?? '')).status, 303);
  }

  async send(method: string, path: string, json?: unknown): Promise<Response> {
    const token = await (await this.#client.get('/_token')).text();
    const headers = { 'X-CSRF-Token': token };
    return this.#client.request(method, path, json === undefined ? { headers } : { headers, json });
  }

  async status(method: string, path: string, json?: unknown): Promise<number> {
    return (await this.send(method, path, json)).status;
  }
}

test('the example of teams refuses strangers with 404 and members without the role with 403, and uses an invitation once', async () => {
  const { app } = await example('const owner = requireRoles');
  await using client = new TestClient(app, { clock });
  const browser = new Browser(client);
  const invite = async (role: string): Promise<string> =>
    ((await (await browser.send('POST', `${path}/invitations`, { role })).json()) as { token: string }).token;
  const accept = (token: string): Promise<number> => browser.status('POST', '/invitations/accept', { token });

  await browser.login('ada');
  const { id } = (await (await browser.send('POST', '/teams', { name: 'red' })).json()) as { id: string };
  const path = `/teams/${id}`;
  const [token, late, second] = [await invite('member'), await invite('member'), await invite('owner')];
  assert.equal(await browser.status('DELETE', `${path}/members/ada`), 409, 'the last owner');

  await browser.login('alan');
  assert.equal(await browser.status('GET', `${path}/members`), 404, 'a stranger');
  assert.equal(await accept('guess'), 404);
  assert.equal(await accept(token), 200);
  assert.equal(await accept(token), 404, 'a token counts once');
  assert.deepEqual(await (await browser.send('GET', `${path}/members`)).json(), [
    { person: 'ada', role: 'owner' },
    { person: 'alan', role: 'member' },
  ]);
  assert.equal(await browser.status('POST', `${path}/invitations`, {}), 403);
  assert.equal(await browser.status('DELETE', `${path}/members/ada`), 403);
  assert.equal(await accept(second), 200);
  assert.equal(await browser.status('POST', `${path}/invitations`, {}), 403, 'a member keeps the role');
  assert.equal(await browser.status('DELETE', `${path}/members/alan`), 204);
  assert.equal(await browser.status('GET', `${path}/members`), 404);
  await clock.advance(8 * 86_400_000);
  await browser.login('alan');
  assert.equal(await accept(late), 404, 'after seven days');
  assert.equal(await app.state.db.scalar('select count(*) from member'), 1);
});

test('the example of a code by e-mail logs in by a code once, counts five tries for each code, and limits the mails', async () => {
  const { app } = await example('const digestOf =');
  await using client = new TestClient(app, { clock });
  const browser = new Browser(client);
  const ask = (email: string): Promise<number> => browser.status('POST', '/login/code', { email });
  const enter = (email: string, code: string): Promise<number> =>
    browser.status('POST', '/login', { email, code });
  const codeOf = async (recipient: string): Promise<string> => {
    const { db } = app.state;
    const content = await db.scalar('select content from mail where recipient = ?', [recipient], { as: str });
    await db.execute('delete from mail');
    return /\d{8}/.exec(content ?? '')?.[0] ?? assert.fail(`no mail to ${recipient}`);
  };
  const wrong = (code: string): string => (code === '00000000' ? '00000001' : '00000000');

  assert.equal(await ask('Ada@example.test'), 204);
  const code = await codeOf('ada@example.test');
  const stored = await app.state.db.scalar('select digest from login_code', [], { as: str });
  assert.notEqual(stored, hash('sha256', code), 'the digest has a key');
  assert.equal(await enter('alan@example.test', code), 401, 'of another address');
  for (let tries = 0; tries < 4; tries += 1) assert.equal(await enter('ada@example.test', wrong(code)), 401);
  const both = await Promise.all([enter('ada@example.test', code), enter('ada@example.test', code)]);
  assert.deepEqual(both.sort(), [204, 401], 'one of two requests at the same time logs in');

  await ask('ada@example.test');
  const next = await codeOf('ada@example.test');
  for (let tries = 0; tries < 5; tries += 1) assert.equal(await enter('ada@example.test', wrong(next)), 401);
  assert.equal(await enter('ada@example.test', next), 401, 'after five tries');
  await clock.advance(60_000);

  await ask('ada@example.test');
  const late = await codeOf('ada@example.test');
  await clock.advance(600_000);
  assert.equal(await enter('ada@example.test', late), 401, 'after ten minutes');
  const asked: number[] = [];
  for (let each = 0; each < 4; each += 1) asked.push(await ask('ada@example.test'));
  assert.deepEqual(asked, [204, 204, 204, 429]);
  assert.equal(await app.state.db.scalar('select count(*) from person'), 1);
});

test('the example of acting as another user refuses routes of the user, names the actor in the log, and ends with the login of the actor', async () => {
  const { app, oauth, lines } = await example("sessionKey<{ person: string; login: string }>('acting')");
  await using client = new TestClient(app, { clock });
  const browser = new Browser(client);
  const me = async (): Promise<unknown> => {
    const { person, actor } = (await (await browser.send('GET', '/me')).json()) as Record<string, unknown>;
    return { person, actor };
  };

  await browser.login('ada');
  assert.equal(await browser.status('POST', '/act/root'), 403, 'without the role');
  await browser.login('root');
  assert.equal(await browser.status('POST', '/act/nemo'), 404);
  assert.equal(await browser.status('POST', '/act/eve'), 403, 'a user with a role');
  assert.equal(await browser.status('POST', '/password'), 204);
  assert.equal(await browser.status('POST', '/act/ada'), 303);
  assert.deepEqual(await me(), { person: 'ada', actor: 'root' });
  assert.equal(await browser.status('POST', '/password'), 403);
  assert.equal(await browser.status('POST', '/oauth/dev/link'), 403);
  assert.equal(await browser.status('POST', '/act/ada'), 403, 'not again');
  assert.equal(await browser.status('POST', '/act-stop'), 303);
  assert.deepEqual(await me(), { person: 'root', actor: null });
  assert.equal(await browser.status('POST', '/act-stop'), 409);
  const acted = lines
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ actor }) => actor === 'root');
  assert.deepEqual(
    [...new Set(acted.map(({ event, person }) => `${event} ${person}`))],
    ['acting_started ada', 'acted ada', 'acting_stopped ada'],
  );
  const adas = await oauth.listSessions('ada');
  assert.deepEqual(
    adas.map(({ provider }) => provider),
    ['dev'],
    'the login of support has ended',
  );

  assert.equal(await browser.status('POST', '/act/ada'), 303);
  await oauth.revokeAll('root');
  assert.equal(await browser.status('GET', '/me'), 401);
  assert.equal(await browser.status('GET', '/me'), 401);
  assert.equal((await oauth.listSessions('ada')).length, 1);
});

test('the examples of keys refuse a key without the scope, a revoked key and an expired one', async () => {
  const { app } = await example('create table api_key');
  await using client = new TestClient(app, { clock });
  const browser = new Browser(client);
  await browser.login('ada');
  assert.equal(await browser.status('POST', '/keys', { scopes: ['everything'] }), 400);
  const made = async (json: unknown): Promise<Record<string, string>> => {
    const { key } = (await (await browser.send('POST', '/keys', json)).json()) as { key: string };
    return { 'X-API-Key': key };
  };
  const [reading, brief] = [
    await made({ scopes: ['reports:read'] }),
    await made({ scopes: ['reports:write'], days: 1 }),
  ];
  const statuses = async (headers: Record<string, string>): Promise<number[]> => [
    (await client.get('/api/reports', { headers })).status,
    (await client.post('/api/reports', { headers })).status,
  ];
  assert.deepEqual(await statuses(reading), [200, 403]);
  assert.deepEqual(await statuses(brief), [403, 200]);
  await clock.advance(86_400_000);
  assert.deepEqual(await statuses(reading), [200, 403]);
  assert.deepEqual(await statuses(brief), [401, 401]);
  const keys = (await (await browser.send('GET', '/keys')).json()) as { id: string; scopes: string }[];
  const { id } = keys.find(({ scopes }) => scopes === 'reports:read') ?? assert.fail('no such key');
  assert.equal(await browser.status('DELETE', `/keys/${id}`), 204);
  assert.deepEqual(await statuses(reading), [401, 401]);
});

test('the example of a session or a key refuses a key without the scope', async () => {
  process.env['BILLING_KEY'] = 'a key of the billing program';
  const { app } = await example('people may do everything');
  await using client = new TestClient(app, {
    headers: { Authorization: 'Bearer a key of the billing program' },
  });
  assert.equal(await (await client.get('/orders')).text(), 'orders of billing');
  assert.equal((await client.post('/orders')).status, 403);
});

test('the example of a right that ends closes the event stream of a member who has left the team', async () => {
  const { app } = await example('const isOver =');
  await using client = new TestClient(app);
  const headersOf = (person: string): Record<string, string> => ({
    Authorization: `Bearer ${createToken(person, SECRET)}`,
  });
  const headers = headersOf('ada');
  assert.equal((await client.get('/teams/red/events', { headers: headersOf('eve') })).status, 404);
  const text = (await client.get('/teams/red/events', { headers })).text(); // ends with the stream
  await client.get('/teams/red', { headers }); // by then the source listens
  assert.equal((await client.delete('/teams/red/members/me', { headers })).status, 204);
  assert.match(await text, /event: removed/);
});
