/** Everything that names a login ends with it: the table in the manual, cell by cell. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  BackgroundTasks,
  BearerAuth,
  Depends,
  EventStreamResponse,
  HttpResponse,
  IdempotencyMiddleware,
  requireSession,
} from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthProvider, currentUser } from 'svc/oauth';
import { ROOT } from '../support/build.ts';
import { soon } from '../support/endings.ts';
import { folder } from '../support/run.ts';
import { FakeProvider } from './support/fake-provider.ts';
import { IDLE_SECONDS, THINGS, WAYS, tableOfEnds } from './support/login-ends.ts';
import { LoginSite, claimsOf } from './support/site.ts';
import type { Svc } from 'svc';
import type { OAuthPluginOptions } from 'svc/oauth';
import type { TestContext } from 'node:test';
import type { Moment, Thing, Visit, Way } from './support/login-ends.ts';
import type { SiteDatabase, Tokens } from './support/site.ts';

const ACCESS_SECONDS = 7_200;
const MANUAL = join(ROOT, 'src/oauth/README.md');

test('the table of ways to end a login in the manual of svc/oauth is the table of these tests', () => {
  const text = readFileSync(MANUAL, 'utf8');
  const pattern = /(<!-- login ends -->\n)([^]*?)(<!-- end of login ends -->)/;
  const table = tableOfEnds();
  if (process.env['UPDATE_API'] === '1')
    writeFileSync(
      MANUAL,
      text.replace(
        pattern,
        (_all, before: string, _old, after: string) => `${before}${table.join('\n')}\n${after}`,
      ),
    );
  assert.deepEqual(pattern.exec(text)?.[2]?.trim().split('\n'), table, 'run this test with UPDATE_API=1');
});

/** An event source that never yields. It ends when the stream is closed. */
async function* silence(signal: AbortSignal): AsyncGenerator<string, void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  await promise;
}

interface Opened extends Visit, AsyncDisposable {
  /** Lets the background task finish. */
  readonly gate: PromiseWithResolvers<void>;
  /** Resolves when the background task runs. */
  readonly begun: PromiseWithResolvers<void>;
}

function addRoutes(app: Svc, site: () => LoginSite, gate: Promise<void>, begun: () => void): void {
  const user = Depends(requireSession(currentUser));
  const me = Depends(BearerAuth());
  app.use(new IdempotencyMiddleware());
  app.get('/session', { user }, ({ user }) => user);
  app.get('/token', { me }, ({ me }) => me.sub);
  app.post('/pay', { user }, () => 'paid');
  app.post('/pay-by-token', { me }, () => 'paid');
  app.get('/events', { user }, ({ req }) => new EventStreamResponse(silence(req.signal)));
  app.get('/events-by-token', { me }, ({ req }) => new EventStreamResponse(silence(req.signal)));
  app.websocket('/live', { user, heartbeatMs: false }).onOpen(() => undefined);
  app.websocket('/live-by-token', { me, heartbeatMs: false }).onOpen(() => undefined);
  app.post('/work', { user, tasks: Depends(BackgroundTasks) }, ({ tasks }) => {
    tasks.add(() => {
      begun();
      return gate;
    });
    return 'begun';
  });
  app.post('/leave', { public: true }, async ({ req }) => {
    const response = new HttpResponse(null, { status: 204 });
    await site().oauth.logout(req, response);
    return response;
  });
  app.mountMcp('/mcp', { deps: { user } });
}

/** Opens two processes that share a database, and logs a user in at the first. */
async function open(t: TestContext, more: Partial<OAuthPluginOptions> = {}): Promise<Opened> {
  const fake = await FakeProvider.start();
  const url = `sqlite:${join(folder(t), 'data.db')}`;
  const disabled = new Set<string>();
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const database = (): Promise<SiteDatabase> =>
    Promise.resolve({ plugin: new DatabasePlugin(url, { migrations: 'apply' }) });
  const unused: FakeProvider[] = [];
  const start = async (): Promise<LoginSite> => {
    const site: LoginSite = await LoginSite.open({
      database,
      hasSession: true,
      more: (app) => addRoutes(app, () => site, gate.promise, begun.resolve),
      plugin: {
        provider: new OAuthProvider({
          name: 'own',
          clientId: 'client',
          clientSecret: 'secret',
          issuer: fake.url,
          allowInsecure: true,
          authorizeUrl: `${fake.url}/authorize`,
          tokenUrl: `${fake.url}/token`,
          userinfoUrl: `${fake.url}/userinfo`,
          jwksUrl: `${fake.url}/jwks`,
        }),
        backchannelLogout: true,
        postLogoutRedirectUris: [],
        onLink: () => true,
        onUnlink: () => true,
        onRefresh: ({ sub }) => !disabled.has(sub),
        refreshIdleTtlSeconds: IDLE_SECONDS,
        accessTtlSeconds: ACCESS_SECONDS,
        limits: { login: false, callback: false, token: false },
        ...more,
      },
    });
    unused.push(site.fake);
    Object.defineProperty(site, 'fake', { value: fake });
    return site;
  };
  const here = await start();
  const there = await start();
  fake.claims = { aud: 'client' };
  const tokens = await here.login();
  return {
    here,
    there,
    tokens,
    disabled,
    gate,
    begun,
    loginId: claimsOf(tokens.access_token)['sid'] as string,
    cookie: `svc_session=${here.client.cookies.get('svc_session')!}`,
    loginAgain: (): Promise<Tokens> => here.login(here.browser()),
    [Symbol.asyncDispose]: async () => {
      gate.resolve();
      for (const site of [here, there]) await site[Symbol.asyncDispose]();
      for (const one of unused) await one[Symbol.asyncDispose]();
    },
  };
}

/** Whether a thing still works. A connection resolves only when it has closed. */
interface Probe {
  isAlive(): Promise<boolean>;
}

const okOf = (ask: () => Promise<Response>): Probe => ({
  isAlive: async () => {
    const response = await ask();
    await response.body?.cancel();
    assert.ok([200, 401].includes(response.status), `${response.status}`);
    return response.status === 200;
  },
});

/** A connection that resolves `closed` with how it has ended. */
function connection(closed: Promise<unknown>): Probe & { readonly closed: Promise<unknown> } {
  let isOpen = true;
  void closed.then(() => (isOpen = false));
  return { closed, isAlive: async () => isOpen };
}

type Probes = Readonly<Record<Thing, readonly (Probe & { readonly closed?: Promise<unknown> })[]>>;

const CLOSED = { code: 1008, reason: 'the login has ended', wasClean: true };

/** Opens everything that the table names. */
async function probesOf(visit: Opened): Promise<Probes> {
  const { here, there, tokens, cookie } = visit;
  const bySession = { cookie };
  const byToken = { authorization: `Bearer ${tokens.access_token}` };
  const get = (site: LoginSite, path: string, headers: Record<string, string>): Probe =>
    okOf(() => site.browser().get(path, { headers }));
  const socket = async (site: LoginSite, path: string, headers: Record<string, string>): Promise<Probe> => {
    const { closed } = await site.browser().websocket(path, { headers });
    return connection(closed.then((close) => assert.deepEqual(close, CLOSED)));
  };
  const stream = async (path: string, headers: Record<string, string>): Promise<Probe> => {
    const response = await here.browser().get(path, { headers });
    assert.equal(response.status, 200);
    return connection(response.text());
  };
  const pay = async (path: string, headers: Record<string, string>): Promise<Probe> => {
    const send = (): Promise<Response> =>
      here.browser().post(path, { headers: { ...headers, 'idempotency-key': '"k-1"' }, json: {} });
    assert.equal((await send()).headers.get('idempotency-replayed'), null);
    return okOf(send);
  };
  // without a network, the response comes after the background task
  const working = here.browser().post('/work', { headers: bySession });
  await soon(visit.begun.promise, 'the background task');
  return {
    session: [get(here, '/session', bySession)],
    'session elsewhere': [get(there, '/session', bySession)],
    'refresh token': [],
    'access token': [
      get(here, '/token', byToken),
      get(there, '/token', byToken),
      await pay('/pay-by-token', byToken),
    ],
    WebSocket: [await socket(here, '/live', bySession), await socket(here, '/live-by-token', byToken)],
    'WebSocket elsewhere': [
      await socket(there, '/live', bySession),
      await socket(there, '/live-by-token', byToken),
    ],
    'event stream': [
      await stream('/events', bySession),
      await stream('/events-by-token', byToken),
      ...(await mcpStream(visit)),
    ],
    'MCP session': [await mcpOf(visit)],
    'stored response': [await pay('/pay', bySession)],
    'background task': [connection(working)],
  };
}

/** Begins an MCP session, and returns the header fields of its requests. */
async function mcpFields({ here, cookie }: Visit): Promise<Record<string, string>> {
  const headers = {
    cookie,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } };
  const message = { jsonrpc: '2.0', id: 0, method: 'initialize', params };
  const begun = await here.browser().post('/mcp', { body: JSON.stringify(message), headers });
  assert.equal(begun.status, 200);
  return {
    ...headers,
    'mcp-session-id': begun.headers.get('mcp-session-id')!,
    'mcp-protocol-version': '2025-11-25',
  };
}

async function mcpOf(visit: Visit): Promise<Probe> {
  const headers = await mcpFields(visit);
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
  return okOf(() => visit.here.browser().post('/mcp', { body, headers }));
}

async function mcpStream(visit: Visit): Promise<Probe[]> {
  const headers = { ...(await mcpFields(visit)), accept: 'text/event-stream' };
  const response = await visit.here.browser().get('/mcp', { headers });
  assert.equal(response.status, 200);
  return [connection(response.text())];
}

async function assertState(
  way: Way,
  probes: Probes,
  isAlive: (moment: Moment) => boolean | undefined,
): Promise<void> {
  for (const thing of THINGS) {
    const expected = isAlive(way.moments[thing]);
    if (expected === undefined) continue;
    for (const probe of probes[thing]) {
      if (!expected && probe.closed !== undefined) await soon(probe.closed, `the end: ${thing}`);
      assert.equal(await probe.isAlive(), expected, `${way.name}: ${thing}`);
    }
  }
}

for (const way of WAYS) {
  test(`OAuth: what ends when, if a login ends: ${way.name}`, async (t) => {
    await using visit = await open(t, way.plugin);
    const { here, there, tokens, gate } = visit;
    const probes = await probesOf(visit);
    await assertState(way, probes, () => true);
    await way.end(visit);
    await assertState(way, probes, (moment) =>
      moment === 'now' ? false : moment === 'soon' ? undefined : true,
    );
    assert.equal(way.moments['refresh token'], 'now');
    assert.equal((await here.refresh(tokens.refresh_token, {}, here.browser())).status, 400);
    for (const { clock } of [here, there]) await clock.advance(5_000);
    await assertState(way, probes, (moment) => moment === 'exp' || moment === '-');
    await assert.rejects(there.browser().websocket('/live', { headers: { cookie: visit.cookie } }));
    for (const { clock } of [here, there]) await clock.advance(ACCESS_SECONDS * 1_000);
    await assertState(way, probes, (moment) => moment === '-');
    gate.resolve();
    await soon(probes['background task'][0]!.closed!, 'the end of the background task');
  });
}
