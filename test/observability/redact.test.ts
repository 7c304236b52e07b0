/**
 * Secrets planted in every object of an application that can hold one, and searched in every printed form.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { Svc } from '../../src/app/svc.ts';
import { APIKeyAuth } from '../../src/auth/api-key.ts';
import { BearerAuth } from '../../src/auth/auth.ts';
import { requireRoles, requireScopes } from '../../src/auth/require.ts';
import { Config } from '../../src/base/config.ts';
import { Depends } from '../../src/routing/di.ts';
import { Unauthorized } from '../../src/base/errors.ts';
import { createToken, verifyToken } from '../../src/crypto/jwt.ts';
import { Keyring } from '../../src/crypto/keys.ts';
import { createLogger } from '../../src/observability/log.ts';
import { MemoryRecordStore } from '../../src/cache/stores.ts';
import { TestClient } from '../../src/testing/index.ts';
import { CSRFMiddleware, csrfToken } from '../../src/http/session/csrf.ts';
import { HttpResponse, JSONResponse, StreamingResponse } from '../../src/http/response.ts';
import { SessionMiddleware } from '../../src/http/session/middleware.ts';
import { services } from '../../src/http/state.ts';

const PLANTED = {
  secret: 'planted-secret-5d0f3b6a91c7e2840d6f',
  previous: 'planted-previous-c81e9a07b2d4f653',
  apiKey: 'planted-key-9d8f7a6b5c4d',
  metrics: 'planted-metrics-9d8f7a6b',
  cookie: 'planted-cookie',
  password: 'planted-password',
  session: 'planted-session',
  body: 'planted-body',
  query: 'planted-query',
};
const token = createToken('ada', PLANTED.secret, { claims: { scopes: ['a'] } });
/** Even the MAC alone would reveal that the output contains the token. */
const secrets: string[] = [...Object.values(PLANTED), token, token.slice(-43)];

/** Prints a value in every usual way, and in some unusual ways. */
function assertShowsNothing(what: string, value: unknown, extra: readonly string[] = []): void {
  const views = {
    inspect: () => inspect(value, { depth: 10 }),
    all: () => inspect(value, { depth: 12, showHidden: true, maxArrayLength: null, maxStringLength: null }),
    json: () => JSON.stringify(value) ?? '',
    text: () => String(value),
  };
  for (const [how, view] of Object.entries(views)) {
    let text: string;
    try {
      text = view();
    } catch (error) {
      text = inspect(error); // JSON.stringify() of a cyclic object
    }
    for (const secret of [...secrets, ...extra])
      assert.ok(
        !text.includes(secret),
        `${how} of ${what} shows ${secret}: …${text.slice(Math.max(0, text.indexOf(secret) - 80), text.indexOf(secret) + 20)}`,
      );
  }
}

test('no public object of svc reveals a secret, token, cookie or password in inspect(), JSON.stringify() or the log', async () => {
  const lines: string[] = [];
  const logger = createLogger({ level: 'debug', sink: (line) => void lines.push(line) });
  const store = new MemoryRecordStore();
  const session = new SessionMiddleware({ store });
  const csrf = new CSRFMiddleware({ exemptBearer: true, exempt: ['/form', '/fail/{p:path}'] });
  const app = new Svc({
    logger,
    authSecret: [PLANTED.secret, PLANTED.previous],
    config: { databasePassword: PLANTED.password },
    ops: { metrics: { auth: PLANTED.metrics } },
  });
  const [bearer, key] = [BearerAuth(PLANTED.secret), APIKeyAuth({ keys: { shop: PLANTED.apiKey } })];
  app.use(session).use(csrf);
  app.get(
    '/',
    {
      me: Depends(requireScopes({ scopes: ['a'], auth: bearer })),
      shop: Depends(key),
      lent: Depends(services),
    },
    ({ req, lent }) => {
      req.session.set('x', PLANTED.session);
      secrets.push(csrfToken(req));
      for (const touched of [req.headers, req.cookies, req.signal, req.query.get('code')]) void touched;
      const response = new JSONResponse({ a: PLANTED.body }).setCookie('c', PLANTED.cookie);
      for (const [what, value] of Object.entries({
        req,
        session: req.session,
        state: req.state,
        lent,
        response,
        fields: response.headers,
        query: req.query,
      })) {
        assertShowsNothing(what, value);
        lent.log.debug('looked_at', { [what]: value, list: [value] });
      }
      lent.log.info('as_node_has_them', {
        headers: req.headers,
        cookies: { cookie: req.headers['cookie'] },
        authorization: req.headers['authorization'],
        url: req.target,
      });
      return response;
    },
  );
  app.post('/form', async ({ req }) => {
    const form = await req.form();
    for (const [what, value] of Object.entries({ form, req, body: req.state }))
      assertShowsNothing(what, value);
    return form.has('password');
  });
  app.get('/fail/{how}', ({ req, params }) => {
    if (params.how === 'thrown')
      throw new Error(`the upstream answered Bearer ${token}, Set-Cookie: sid=${PLANTED.cookie}; Path=/`, {
        cause: new Unauthorized('no', {
          cause: new Error(`at https://api.example/?access_token=${PLANTED.query}`),
        }),
      });
    throw new Error('with fields', {
      cause: { password: PLANTED.password, headers: req.headers, rawHeaders: ['Cookie', PLANTED.cookie] },
    });
  });
  const client = new TestClient(app, {
    raiseErrors: false,
    headers: { authorization: `Bearer ${token}`, 'x-api-key': PLANTED.apiKey },
  });
  client.cookies.set('sid', PLANTED.cookie);
  assert.equal((await client.get(`/?code=${PLANTED.query}&access_token=${token}`)).status, 200);
  const issued = client.cookies
    .names()
    .filter((name) => name !== 'sid')
    .map((name) => client.cookies.get(name)!);
  assert.equal(issued.filter((value) => value.startsWith('s1.')).length, 1);
  secrets.push(...issued.filter((value) => value.startsWith('s1.')));
  assert.equal((await client.post('/form', { form: { password: PLANTED.password } })).status, 200);
  for (const how of ['thrown', 'cause']) assert.equal((await client.get(`/fail/${how}`)).status, 500);
  for (const wrong of [`${token}x`, PLANTED.secret])
    assert.equal((await client.get('/', { headers: { authorization: `Bearer ${wrong}` } })).status, 401);
  assert.equal((await client.get('/', { headers: { 'x-api-key': PLANTED.secret } })).status, 401);
  assert.equal(
    (
      await client.get('/', {
        headers: { cookie: `svc_session=${issued[0]!.slice(0, -2)}AA; sid=${PLANTED.cookie}` },
      })
    ).status,
    200,
  );
  const things = {
    app,
    client,
    jar: client.cookies,
    config: app.config,
    state: app.state,
    ops: app.operations,
    routes: app.routes,
    view: app.inspect(),
    report: app.check(),
    session,
    csrf,
    store,
    bearer,
    key,
    roles: requireRoles({ roles: ['a'], auth: bearer }),
    depends: Depends(bearer),
    ring: Keyring.of(PLANTED.secret),
    own: new SessionMiddleware({ secrets: [PLANTED.secret] }),
  };
  for (const [what, value] of Object.entries(things)) {
    assertShowsNothing(what, value);
    logger.info('looked_at', { [what]: value });
  }
  await client.close();
  assert.ok(lines.length > 25);
  for (const line of lines)
    for (const secret of secrets) assert.ok(!line.includes(secret), `${secret} is in ${line}`);
});

test('error messages of svc contain none of the secrets that caused the errors', () => {
  const short = 'planted-short';
  for (const fail of [
    () => Keyring.of(short),
    () => createToken('ada', short),
    () => verifyToken(`${token}x`, PLANTED.secret),
    () => verifyToken(token, short),
    () => new SessionMiddleware({ secrets: short }),
    () => new SessionMiddleware({ secrets: [PLANTED.secret, 5 as unknown as string] }),
    () => APIKeyAuth({ keys: { shop: short } }),
    () => BearerAuth(short),
    () => new Svc({ authSecret: { x: PLANTED.secret } as never }),
    () => new Config({ values: { pageSize: PLANTED.secret } }).get('pageSize', 20),
    () => new HttpResponse().setCookie('a', 'b', { domain: PLANTED.cookie + '/' }),
    () => new HttpResponse().headers.set('X-Secret', `${PLANTED.secret}\n`),
  ]) {
    assert.throws(fail, (error) => {
      assertShowsNothing('the error', error, [short]);
      return true;
    });
  }
});

test('inspect() and the log show only those parts of a request that can contain no secret', async () => {
  const { events, logger } = (() => {
    const collected: Record<string, unknown>[] = [];
    return {
      events: collected,
      logger: createLogger({
        sink: (line) => void collected.push(JSON.parse(line) as Record<string, unknown>),
      }),
    };
  })();
  const app = new Svc({ logger }).get('/notes/{id:int}', ({ req }) => {
    app.log.info('seen', { req });
    return inspect({ req });
  });
  await using client = new TestClient(app, { headers: { 'x-request-id': 'given-1' } });
  assert.equal(
    (await (await client.get('/notes/7?x=1')).text()).replace(/\s+/g, ' '),
    "{ req: HttpRequest { method: 'GET', path: '/notes/7', route: '/notes/{id:int}', id: 'given-1', ip: '127.0.0.1' } }",
  );
  assert.deepEqual(events.find(({ event }) => event === 'seen')!['req'], {
    method: 'GET',
    path: '/notes/7',
    route: '/notes/{id:int}',
    id: 'given-1',
    ip: '127.0.0.1',
  });
});

test('inspect() and the log show the status of a response, its headers without secrets, and the size of its body', () => {
  const response = new JSONResponse(
    { a: 1 },
    { status: 201, headers: { 'X-A': '1', Location: '/x?code=abc' } },
  )
    .setCookie('a', 'b')
    .setCookie('c', 'd');
  assert.deepEqual(JSON.parse(JSON.stringify(response)), {
    status: 201,
    headers: {
      'Content-Type': 'application/json',
      'X-A': '1',
      Location: '/x?code=[redacted]',
      'Set-Cookie': ['[redacted]', '[redacted]'],
    },
    body: '[7 characters]',
  });
  assert.match(inspect(response), /^JSONResponse \{\s+status: 201,/);
  assert.match(inspect(response.headers), /^HeaderList \{/);
  assert.deepEqual(
    [new HttpResponse(new Uint8Array(3)), new HttpResponse(), new StreamingResponse(['a'])].map(
      (each) => each.toJSON()['body'],
    ),
    ['[3 bytes]', null, '[chunks]'],
  );
});

test('the log masks cookies, refresh tokens, and signed or encrypted values inside a text', () => {
  const lines: string[] = [];
  const log = createLogger({ format: 'json', sink: (line) => void lines.push(line) });
  const signed =
    's1.AbCdEfGhIjKl.1795273024.1795877824.eyJhIjoxfQ.0123456789abcdefghijklmnopqrstuvwxyzABCDEFG';
  for (const [text, expected] of [
    ['refresh svcrt_1a.Zm9v.3.c2VjcmV0.dGFn failed', 'refresh [refresh token] failed'],
    [`value ${signed} is forged`, 'value [signed value] is forged'],
    ['e1.k.1.2.AbCd_-', '[signed value]'],
    ['sent Cookie: sid=abc; b=c', 'sent Cookie: [redacted]'],
    ['set-cookie:sid=abc; Path=/', 'set-cookie: [redacted]'],
    ['the svcrt_ prefix, s1.x and cookies: two', 'the svcrt_ prefix, s1.x and cookies: two'],
  ] as const) {
    log.info('event', { text });
    assert.equal((JSON.parse(lines.pop()!) as { text: string }).text, expected);
  }
  log.info('event', { authSecretPrevious: 'x', pepper: 'x', SVC_AUTH_SECRET_PREVIOUS: 'x' });
  assert.equal(lines.pop()!.match(/\[redacted\]/g)?.length, 3);
});
