/**
 * SPEC.md row by row, through what the package exports and the command it installs.
 *
 *   row('§1 Routing rules / 3', what, fn)        a test of the row, named after it
 *   pending('§2 Request object / session', 5)    what issue 5 brings: reported as todo, never as a pass
 *
 * Ids are read out of SPEC.md: section and nearest heading, then the row's first cell (the first two where rows of its
 * table share it), the number of a rule, the words a bullet begins with, or `sentence n` of the prose. A row that several
 * issues bring has an entry for each. The last test fails when the ids of the two files differ.
 */
import assert from 'node:assert/strict';
import { createHash, createHmac, createSign, generateKeyPairSync, pbkdf2Sync } from 'node:crypto';
import { readFileSync, renameSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import {
  BackgroundTasks,
  BadRequest,
  BearerAuth,
  CORSMiddleware,
  CSRFMiddleware,
  Config,
  Depends,
  Field,
  FileResponse,
  Forbidden,
  HTMLResponse,
  HTTPException,
  HttpResponse,
  Conflict,
  InternalError,
  InvalidToken,
  JSONResponse,
  MemoryCache,
  MemoryRateLimitStore,
  MethodNotAllowed,
  NotFound,
  PayloadTooLarge,
  RateLimitMiddleware,
  RedirectResponse,
  Router,
  Schema,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  StreamingResponse,
  Svc,
  TextResponse,
  TooManyRequests,
  Unauthorized,
  UnprocessableContent,
  cached,
  checkPassword,
  createLogger,
  createToken,
  csrfToken,
  float,
  hashPassword,
  int,
  list,
  provide,
  requireRoles,
  requireScopes,
  sessionKey,
  stateKey,
  str,
  systemClock,
  verifyToken,
} from 'svc';
import { DatabasePlugin, UniqueViolation, db, openDatabase } from 'svc/db';
import { OAuthPlugin, OAuthProvider, currentUser, githubProvider, googleProvider } from 'svc/oauth';
import { TestClient } from 'svc/testing';
import { LoginSite, SECRET as LOGIN_SECRET, claimsOf, refusedAs } from '../oauth/support/site.ts';
import { BIN, build } from '../support/build.ts';
import { SERVERS } from '../support/every-database.ts';
import { RawClient } from '../support/raw-http.ts';
import { folder, project, run, start, write } from '../support/run.ts';
import type {
  CacheBackend,
  Context,
  Dependency,
  HttpRequest,
  Next,
  Plugin,
  RunningServer,
  SvcOptions,
  UploadFile,
} from 'svc';
import type { LoginSiteOptions } from '../oauth/support/site.ts';
import type { Running } from '../support/run.ts';
import type { TestClientOptions } from 'svc/testing';
import type { TestContext } from 'node:test';

const tested = new Set<string>();

/** A test of a row. */
function row(id: string, what: string, fn: (t: TestContext) => void | Promise<void>): void {
  tested.add(id);
  test(`${id}: ${what}`, fn);
}

/** An application that keeps its log to itself. */
function make(options: SvcOptions = {}): { readonly app: Svc; readonly lines: string[] } {
  const lines: string[] = [];
  return {
    app: new Svc({
      logger: createLogger({ level: 'debug', format: 'json', sink: (line) => void lines.push(line) }),
      ...options,
    }),
    lines,
  };
}

/** An application with a database in a file: down while the file is away. */
function databaseSite(t: TestContext): {
  readonly app: Svc;
  readonly client: TestClient;
  readonly path: string;
} {
  const path = join(folder(t), 'data.db');
  const { app } = make();
  app.register(new DatabasePlugin(`sqlite:${path}`));
  return { app, client: clientOf(t, app), path };
}

/** A client that is closed with the test. Errors of handlers are answers, as they are for real clients. */
function clientOf(t: TestContext, app: Svc, options: TestClientOptions = {}): TestClient {
  const client = new TestClient(app, { raiseErrors: false, ...options });
  t.after(() => client.close());
  return client;
}

const INITIALIZE = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
};

/** The results of requests to an MCP server over streams, by id. */
async function overStdio(
  app: Svc,
  requests: readonly object[],
): Promise<ReadonlyMap<unknown, Record<string, unknown>>> {
  const input = new PassThrough();
  const output = new PassThrough();
  const served = app.mcpServer().serve({ input, output });
  for (const request of [{ id: 0, method: 'initialize', params: INITIALIZE }, ...requests])
    input.write(`${JSON.stringify({ jsonrpc: '2.0', ...request })}\n`);
  input.end();
  await served;
  let reported = '';
  for (let chunk: unknown = output.read(); chunk !== null; chunk = output.read()) reported += String(chunk); // from Node 26 on, read() gives a chunk at a time
  const lines = reported
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: unknown; result: Record<string, unknown> });
  return new Map(lines.map(({ id, result }) => [id, result]));
}

/** For tests of what signs. */
const SECRET = '5d0f3b6a91c7e2840d6f5b3a19c8e7f2';

/** The header of a bearer. */
function bearer(token: string): { readonly headers: { readonly authorization: string } } {
  return { headers: { authorization: `Bearer ${token}` } };
}

/** A token's part as it stands there. */
function partOf(token: string, index: number): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[index]!, 'base64url').toString()) as Record<string, unknown>;
}

/** A server on a free port that ends with the test. */
async function serve(t: TestContext, app: Svc): Promise<RunningServer> {
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  t.after(() => server.close());
  return server;
}

async function connection(t: TestContext, port: number): Promise<RawClient> {
  const client = await RawClient.open(port);
  t.after(() => client[Symbol.asyncDispose]());
  return client;
}

/** An application with logins over a database in production, that ends with the test. */
async function loginSite(t: TestContext, options: LoginSiteOptions = {}): Promise<LoginSite> {
  const site = await LoginSite.open({ env: 'production', ...options });
  t.after(() => site[Symbol.asyncDispose]());
  return site;
}

/** A middleware that writes its name into a list on the way in, and into a field on the way out. */
function layer(name: string, seen: string[] = []): (req: HttpRequest, next: Next) => Promise<HttpResponse> {
  return async (_req, next) => {
    seen.push(name);
    const response = await next();
    response.headers.append('X-Layer', name);
    return response;
  };
}

class Address extends Schema {
  city = Field(str, { minLength: 1 });
}

class User extends Schema {
  name = Field(str, { minLength: 2, maxLength: 5 });
  age = Field(int, { ge: 0, le: 150 });
  share = Field(0.5, { ge: 0, le: 1 });
  email = Field(str, { email: true, optional: true });
  home = Field(Address, { optional: true });
}

const ADA = { name: 'Ada', age: 36 };

// ── §1 ──

const OVERVIEW = '§1 What the service does';
row(`${OVERVIEW} / sentence 2`, 'an application answers HTTP', async (t) => {
  const { app } = make();
  app.get('/', () => 'hello');
  const { port } = await serve(t, app);
  const answer = await (await connection(t, port)).get('/').answer();
  assert.deepEqual([answer.status, answer.text()], [200, 'hello']);
});
row(
  `${OVERVIEW} / sentence 2`,
  "an application accepts a WebSocket from Node's own client, and answers its message",
  async (t) => {
    const { app } = make();
    app
      .websocket('/echo', { allowMissingOrigin: true, compression: true })
      .onMessage((socket, message) => socket.send(message));
    const socket = new WebSocket(`${(await serve(t, app)).url.replace('http', 'ws')}/echo`);
    const events: unknown[] = [];
    await new Promise<void>((resolve) => {
      socket.onopen = () => socket.send('hello '.repeat(1_000));
      socket.onmessage = ({ data }) => {
        events.push(data);
        socket.close(4000, 'enough');
      };
      socket.onclose = ({ code, wasClean }) => {
        events.push([code, wasClean]);
        resolve();
      };
    });
    assert.deepEqual(events, ['hello '.repeat(1_000), [4000, true]]);
  },
);
row(
  `${OVERVIEW} / sentence 3`,
  'handlers have a method and a path, are wrapped by middleware, and get dependencies',
  async (t) => {
    const { app } = make();
    app
      .use(layer('outer'))
      .get('/', { one: Depends(() => 1) }, ({ one }) => ({ one }))
      .post('/', () => 'posted');
    const client = clientOf(t, app);
    const got = await client.get('/');
    assert.deepEqual([await got.json(), got.headers.get('x-layer')], [{ one: 1 }, 'outer']);
    assert.equal(await (await client.post('/')).text(), 'posted');
  },
);
row(
  `${OVERVIEW} / sentence 4`,
  'a body is validated against its schema before the handler sees it',
  async (t) => {
    const { app } = make();
    app.post('/', { body: User }, ({ body }) => ({ isUser: body instanceof User, name: body.name }));
    const client = clientOf(t, app);
    assert.deepEqual(await (await client.post('/', { json: ADA })).json(), { isUser: true, name: 'Ada' });
    assert.equal((await client.post('/', { json: { name: 5 } })).status, 400);
  },
);
row(
  `${OVERVIEW} / sentence 5`,
  'liveness, readiness and metrics routes exist without a declaration',
  async (t) => {
    const client = clientOf(t, make().app);
    for (const path of ['/healthz', '/readyz', '/metrics'])
      assert.equal((await client.get(path)).status, 200, path);
  },
);
row(`${OVERVIEW} / sentence 5`, 'the OpenAPI document contains the routes', async (t) => {
  const { app } = make();
  app.get('/users/{id:int}', { name: 'user' }, () => 1);
  const { paths } = (await (await clientOf(t, app).get('/openapi.json')).json()) as {
    paths: Record<string, Record<string, { operationId: string }>>;
  };
  assert.deepEqual(
    [Object.keys(paths), paths['/users/{id}']!['get']!.operationId],
    [['/users/{id}'], 'user'],
  );
});
row(`${OVERVIEW} / sentence 5`, '/docs is a page for the OpenAPI document', async (t) => {
  const { app } = make({ title: 'Shelf' });
  app.get('/users/{id:int}', { summary: 'Read a user' }, () => 1);
  const page = await (await clientOf(t, app).get('/docs')).text();
  for (const part of ['<h1>Shelf', '/users/<i>{id}</i>', 'Read a user']) assert.ok(page.includes(part), part);
});
row(`${OVERVIEW} / sentence 5`, 'routes are tools of an MCP server over stdio', async () => {
  const { app } = make();
  app.get('/notes/{id:int}', ({ params }) => ({ id: params.id }));
  const answers = await overStdio(app, [
    { id: 1, method: 'tools/list' },
    { id: 2, method: 'tools/call', params: { name: 'get_notes_by_id', arguments: { id: 7 } } },
  ]);
  assert.deepEqual(
    (answers.get(1)!['tools'] as { name: string }[]).map(({ name }) => name),
    ['get_notes_by_id'],
  );
  assert.deepEqual(answers.get(2)!['structuredContent'], { id: 7 });
});
row(
  `${OVERVIEW} / sentence 7`,
  'the plugin logs a user in at an identity provider with an authorization code',
  async (t) => {
    const site = await loginSite(t);
    const { page, state } = await site.begin();
    assert.equal(page.searchParams.get('response_type'), 'code');
    assert.equal((await site.back({ code: 'c', state })).status, 200);
    assert.equal(site.fake.requests[0]!.form.get('grant_type'), 'authorization_code');
  },
);
row(
  `${OVERVIEW} / sentence 8`,
  'a login gives an access token that is a JWT, and a refresh token that contains no data',
  async (t) => {
    const site = await loginSite(t);
    const tokens = await site.login();
    assert.equal(verifyToken(tokens.access_token, LOGIN_SECRET, { clock: site.clock }).sub, 'user-ada');
    assert.ok(!Buffer.from(tokens.refresh_token, 'base64url').toString('latin1').includes('ada'));
  },
);
row(
  `${OVERVIEW} / sentence 9`,
  'refresh tokens are stored as hashes, rotated at every use, and a second use of one revokes its whole chain',
  async (t) => {
    const site = await loginSite(t);
    const first = await site.login();
    const second = await site.refreshed(first.refresh_token);
    const rows = JSON.stringify(await site.app.state.db.fetchAll('select * from svc_oauth_login'));
    for (const { refresh_token: token } of [first, second])
      for (const part of [token, token.split('.')[3]!]) assert.ok(!rows.includes(part));
    await refusedAs(await site.refresh(first.refresh_token), 400, 'invalid_grant');
    await refusedAs(await site.refresh(second.refresh_token), 400, 'invalid_grant');
  },
);
row(`${OVERVIEW} / sentence 10`, 'a preset needs an id and a secret, and other providers need URLs', () => {
  assert.deepEqual(
    [githubProvider('id', 'secret').name, googleProvider('id', 'secret').name],
    ['github', 'google'],
  );
  const own = {
    name: 'own',
    clientId: 'id',
    clientSecret: 'secret',
    authorizeUrl: 'https://a.example/authorize',
    tokenUrl: 'https://a.example/token',
    userinfoUrl: 'https://a.example/me',
  };
  assert.equal(new OAuthProvider(own).name, 'own');
  assert.throws(() => new OAuthProvider({ name: 'own', clientId: 'id', clientSecret: 'secret' }), {
    code: 'E_OAUTH_PROVIDER',
  });
});
row(`${OVERVIEW} / sentence 11`, 'the package has no run-time dependencies', async () => {
  const { default: manifest } = (await import('svc/package.json', { with: { type: 'json' } })) as {
    default: Record<string, unknown>;
  };
  for (const kind of ['dependencies', 'optionalDependencies', 'bundleDependencies'])
    assert.equal(manifest[kind], undefined, kind);
  assert.deepEqual(Object.keys(manifest['peerDependencies'] as object), ['@types/node']);
});

const INTERFACE = '§1 Programmatic interface (A)';
row(
  `${INTERFACE} / Application constructor`,
  'the constructor of Svc accepts debug, enableDocs, version and custom settings',
  async (t) => {
    const { app } = make({ debug: true, enableDocs: false, version: '2.1.0', config: { pageSize: 20 } });
    app.get('/', () => {
      throw new Error('seen in the trace');
    });
    assert.equal(app.version, '2.1.0');
    assert.equal(app.config.get('pageSize', 0), 20);
    assert.match(
      String(((await (await clientOf(t, app).get('/')).json()) as { trace?: unknown }).trace),
      /seen in the trace/,
    );
  },
);
row(`${INTERFACE} / Application constructor`, 'enableDocs shows or hides /openapi.json', async (t) => {
  for (const enableDocs of [true, false]) {
    const { app } = make({ enableDocs });
    assert.equal((await clientOf(t, app).get('/openapi.json')).status, enableDocs ? 200 : 404);
  }
});
row(`${INTERFACE} / Application constructor`, 'enableDocs shows or hides /docs', async (t) => {
  for (const enableDocs of [true, false])
    assert.equal((await clientOf(t, make({ enableDocs }).app).get('/docs')).status, enableDocs ? 200 : 404);
});
row(
  `${INTERFACE} / Route registration`,
  'Svc has get(), post(), put(), patch(), delete(), and route() for several methods',
  async (t) => {
    const { app } = make();
    app
      .get('/', () => 'get')
      .post('/', () => 'post')
      .put('/', () => 'put')
      .patch('/', () => 'patch')
      .delete('/', () => 'delete');
    app.route('/any', ['GET', 'POST', 'PROPFIND'], ({ req }) => req.method);
    const client = clientOf(t, app);
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
      assert.equal(await (await client.request(method, '/')).text(), method.toLowerCase());
    for (const method of ['GET', 'POST', 'PROPFIND'])
      assert.equal(await (await client.request(method, '/any')).text(), method);
    assert.equal((await client.put('/any')).status, 405);
  },
);
row(
  `${INTERFACE} / WebSocket`,
  'app.websocket(path) returns a router for open, message, close and error handlers, with parameters and dependencies',
  async (t) => {
    const { app } = make();
    const closed = Promise.withResolvers<number>();
    const router = app.websocket('/rooms/{room}/{n:int}', {
      user: Depends(({ req }: Context) => req.headers['x-user']),
    });
    router
      .onOpen((socket, { params, user }) => socket.sendJson([params.room, params.n, user]))
      .onMessage((socket, message) => {
        if (message === 'fail') throw new Error('on purpose');
        else socket.send(`got ${String(message)}`);
      })
      .onError((socket, error) => socket.send((error as Error).message))
      .onClose((_socket, { code }) => closed.resolve(code));
    const socket = await clientOf(t, app).websocket('/rooms/tea/5', { headers: { 'x-user': 'ada' } });
    assert.deepEqual(await socket.receiveJson(), ['tea', 5, 'ada']);
    for (const [sent, expected] of [
      ['hi', 'got hi'],
      ['fail', 'on purpose'],
    ] as const) {
      socket.send(sent);
      assert.equal(await socket.receive(), expected);
    }
    await socket.close(4001);
    assert.equal(await closed.promise, 4001);
    assert.equal((await clientOf(t, app).get('/rooms/tea/5')).status, 426);
  },
);
row(
  `${INTERFACE} / Sub-routers`,
  'routers are included below a prefix, which is empty by default, and can contain other routers',
  async (t) => {
    const { app } = make();
    const inner = new Router().get('/deep/{n:int}', ({ params }) => params.n);
    const router = new Router().get('/here', () => 'here').includeRouter(inner, '/inner');
    app.includeRouter(router).includeRouter(router, '/v1');
    const client = clientOf(t, app);
    assert.equal(await (await client.get('/here')).text(), 'here');
    assert.equal(await (await client.get('/v1/here')).text(), 'here');
    assert.equal(await (await client.get('/v1/inner/deep/7')).json(), 7);
    assert.equal((await client.get('/inner/here')).status, 404);
  },
);
row(
  `${INTERFACE} / Static files`,
  'static files are served below a path, with media types, validators and ranges, and no file outside the directory is served',
  async (t) => {
    const cwd = folder(t, {
      'public/index.html': '<p>home',
      'public/css/site.css': 'p { color: red }',
      'secret.txt': 'secret',
    });
    const { app } = make();
    app.mountStatic('/static', join(cwd, 'public')).get('/static/own', () => 'a route goes before');
    const client = clientOf(t, app);
    const css = await client.get('/static/css/site.css');
    assert.deepEqual(
      [css.status, await css.text(), css.headers.get('content-type')],
      [200, 'p { color: red }', 'text/css; charset=utf-8'],
    );
    assert.equal(
      (await client.get('/static/css/site.css', { headers: { 'if-none-match': css.headers.get('etag')! } }))
        .status,
      304,
    );
    const part = await client.get('/static/css/site.css', { headers: { range: 'bytes=0-0' } });
    assert.deepEqual([part.status, await part.text()], [206, 'p']);
    assert.equal(await (await client.get('/static/')).text(), '<p>home');
    assert.equal(await (await client.get('/static/own')).text(), 'a route goes before');
    for (const path of [
      '/static/../secret.txt',
      '/static/%2e%2e/secret.txt',
      '/static/..%2fsecret.txt',
      '/static/absent',
    ])
      assert.equal((await client.get(path)).status, 404);
    assert.equal((await client.put('/static/index.html')).status, 405);
  },
);
row(`${INTERFACE} / Middleware`, 'middleware runs in order of use(), and may skip the handler', async (t) => {
  const { app } = make();
  const seen: string[] = [];
  app
    .use(layer('outer', seen))
    .use((req, next) => (req.path === '/stop' ? new TextResponse('stopped', { status: 403 }) : next()))
    .use(layer('inner', seen));
  app.get('/', () => 'x').get('/stop', () => assert.fail('the handler ran'));
  const client = clientOf(t, app);
  assert.equal((await client.get('/')).headers.get('x-layer'), 'inner, outer');
  assert.deepEqual(seen.splice(0), ['outer', 'inner']);
  const stopped = await client.get('/stop');
  assert.deepEqual(
    [stopped.status, await stopped.text(), stopped.headers.get('x-layer')],
    [403, 'stopped', 'outer'],
  );
  assert.deepEqual(seen, ['outer']);
});
row(
  `${INTERFACE} / Plugins`,
  'plugins are registered, started and stopped in the order of their requirements, in any order of register()',
  async () => {
    const { app } = make();
    const seen: string[] = [];
    const plugin = (name: string, requires: readonly string[]): Plugin => ({
      name,
      requires,
      register: () => void seen.push(`register ${name}`),
      startup: () => void seen.push(`start ${name}`),
      shutdown: () => void seen.push(`stop ${name}`),
    });
    app
      .register(plugin('login', ['sessions', 'database']))
      .register(plugin('sessions', ['database']))
      .register(plugin('database', []));
    await app.startup();
    await app.shutdown();
    const order = ['database', 'sessions', 'login'];
    assert.deepEqual(seen, [
      ...order.map((name) => `register ${name}`),
      ...order.map((name) => `start ${name}`),
      ...order.toReversed().map((name) => `stop ${name}`),
    ]);
  },
);
row(`${INTERFACE} / Plugins`, 'a cycle of required plugins is refused with its path', () => {
  const { app } = make();
  const plugin = (name: string, requires: readonly string[]): Plugin => ({
    name,
    requires,
    register: () => assert.fail('registered'),
  });
  app
    .register(plugin('a', ['b']))
    .register(plugin('b', ['c']))
    .register(plugin('c', ['a']));
  assert.throws(() => app.compileAll(), { code: 'E_COMPILE', message: /a → b → c → a/ });
});
row(`${INTERFACE} / Lifecycle hooks`, 'startup hooks run first, and shutdown hooks run last', async (t) => {
  const { app } = make();
  const seen: string[] = [];
  app
    .onStartup(() => void seen.push('startup'))
    .onShutdown(async () => void seen.push('shutdown'))
    .get('/', () => void seen.push('request'));
  const server = await serve(t, app);
  await (await connection(t, server.port)).get('/').answer();
  assert.deepEqual(seen, ['startup', 'request']);
  await server.close();
  assert.deepEqual(seen, ['startup', 'request', 'shutdown']);
});
row(`${INTERFACE} / Exception handlers`, 'the handler for the most specific class answers', async (t) => {
  class Base extends Error {}
  class Finer extends Base {}
  class Finest extends Finer {}
  const { app } = make();
  app
    .exceptionHandler(Error, () => ['error', 500])
    .exceptionHandler(Finer, (error, req) => [`${error.constructor.name} at ${req.path}`, 418])
    .exceptionHandler(Base, () => ['base', 409]);
  app
    .get('/finest', () => {
      throw new Finest();
    })
    .get('/base', async () => {
      throw new Base();
    })
    .get('/other', () => {
      throw new TypeError();
    });
  const client = clientOf(t, app);
  for (const [path, status, body] of [
    ['/finest', 418, 'Finest at /finest'],
    ['/base', 409, 'base'],
    ['/other', 500, 'error'],
  ] as const) {
    const response = await client.get(path);
    assert.deepEqual([response.status, await response.text()], [status, body]);
  }
});
row(`${INTERFACE} / Run`, 'app.run() listens on the given host and port', async (t) => {
  const { app } = make();
  app.get('/', ({ req }) => req.host);
  const server = await app.run({ host: '127.0.0.1', port: 0, handleSignals: false });
  t.after(() => server.close());
  assert.equal(server.host, '127.0.0.1');
  assert.equal(await (await fetch(server.url)).text(), `127.0.0.1:${server.port}`);
});
row(`${INTERFACE} / Run`, 'with run({ reload: true }) a changed file is served', async (t) => {
  build();
  const cwd = project(t, {
    'app.ts':
      "import { Svc } from 'svc';\nimport { word } from './word.ts';\nconst app = new Svc();\napp.get('/', () => word);\nawait app.run({ port: 0, reload: true });\n",
    'word.ts': "export const word = 'one';\n",
  });
  const server = start(t, process.execPath, ['app.ts'], { cwd });
  await reloads(server, cwd);
});
row(`${INTERFACE} / Checks`, 'compileAll() reports all mistakes between declarations at once', () => {
  const { app } = make();
  app
    .get('/a', { name: 'x' }, () => 1)
    .get('/a', () => 2)
    .get('/b', { name: 'x' }, () => 3);
  assert.throws(
    () => app.compileAll(),
    (error: { code?: unknown; findings?: readonly { severity: string }[] }) =>
      error.code === 'E_COMPILE' &&
      error.findings?.filter(({ severity }) => severity === 'error').length === 2,
  );
});
row(
  `${INTERFACE} / Checks`,
  'check() reports mistakes with rule, place and remedy, and does not throw',
  () => {
    const { app } = make();
    app.get('/a', () => 1).get('/a', () => 2);
    const report = app.check();
    assert.equal(report.ok, false);
    const [finding] = report.findings;
    assert.deepEqual([finding!.rule, finding!.severity, finding!.subject], ['SVC101', 'error', 'GET /a']);
    assert.match(finding!.place!.file, /spec\.integration\.test\.ts$/);
    assert.ok(finding!.remedy.length > 0);
    const good = make().app;
    good.get('/a', () => 1);
    assert.equal(good.check().ok, true);
  },
);
row(
  `${INTERFACE} / MCP`,
  'mcpTools() lists the tools, mcpCall() calls a tool, and mcpServer() serves the tools',
  async () => {
    const { app } = make({ authSecret: SECRET });
    app
      .post('/users/{id:int}', { body: User, me: Depends(BearerAuth()) }, ({ params, body }) => ({
        id: params.id,
        name: body.name,
      }))
      .get('/hidden', { mcp: false }, () => 1);
    const [tool, ...others] = app.mcpTools();
    assert.deepEqual([tool!.name, others], ['post_users_by_id', []]);
    assert.equal((await app.mcpCall('post_users_by_id', { id: 3, ...ADA })).isError, true, 'no token');
    const result = await app.mcpCall(
      'post_users_by_id',
      { id: 3, ...ADA },
      bearer(createToken('ada', SECRET)),
    );
    assert.deepEqual(result.structuredContent, { id: 3, name: 'Ada' });
    assert.ok((await overStdio(app, [{ id: 1, method: 'ping' }])).has(1));
  },
);
row(
  `${INTERFACE} / URL building`,
  'urlFor() of a router and of the application encodes parameters, and refuses missing parameters',
  () => {
    const { app } = make();
    const router = new Router().get('/files/{name}/{n:int}', { name: 'file' }, () => 'x');
    app.includeRouter(router, '/v1');
    assert.equal(router.urlFor('file', { name: 'a b/c', n: 3 }), '/files/a%20b%2Fc/3');
    assert.equal(app.urlFor('file', { name: 'x', n: -1 }), '/v1/files/x/-1');
    assert.throws(() => app.urlFor('file', { name: 'x' }), { code: 'E_URL_PARAM' });
    assert.throws(() => app.urlFor('fiel', {}), { code: 'E_URL_NAME', message: /did you mean "file"/ });
  },
);
row(
  `${INTERFACE} / sentence 1`,
  'an object, a list, a string, bytes, [body, status] and a response object become responses',
  async (t) => {
    const { app } = make();
    app
      .get('/object', () => ({ a: 1 }))
      .get('/list', () => [1, 2])
      .get('/string', () => 'text')
      .get('/bytes', () => new Uint8Array([1, 2]));
    app
      .get('/tuple', () => [{ made: true }, 201])
      .get('/response', () => new HTMLResponse('<p>', { status: 202 }));
    const client = clientOf(t, app);
    for (const [path, status, type, body] of [
      ['/object', 200, 'application/json', '{"a":1}'],
      ['/list', 200, 'application/json', '[1,2]'],
      ['/string', 200, 'text/plain; charset=utf-8', 'text'],
      ['/bytes', 200, 'application/octet-stream', '\x01\x02'],
      ['/tuple', 201, 'application/json', '{"made":true}'],
      ['/response', 202, 'text/html; charset=utf-8', '<p>'],
    ] as const) {
      const response = await client.get(path);
      assert.deepEqual(
        [response.status, response.headers.get('content-type'), await response.text()],
        [status, type, body],
        path,
      );
    }
  },
);

const ROUTING = '§1 Routing rules';
row(`${ROUTING} / 1`, 'each of the five converters accepts only values of its type', async (t) => {
  const { app } = make();
  const show = ({ params }: { readonly params: object }): object => params;
  app
    .get('/str/{v:str}', show)
    .get('/bare/{v}', show)
    .get('/int/{v:int}', show)
    .get('/float/{v:float}', show)
    .get('/uuid/{v:uuid}', show)
    .get('/path/{v:path}', show);
  const client = clientOf(t, app);
  const id = '0190a6d2-7b3c-7def-8123-456789abcdef';
  for (const [path, v] of [
    ['/str/a%20b', 'a b'],
    ['/bare/%C3%A9', 'é'],
    ['/int/-12', -12],
    ['/float/1.5', 1.5],
    [`/uuid/${id}`, id],
    ['/path/a/b/c.txt', 'a/b/c.txt'],
  ] as const)
    assert.deepEqual(await (await client.get(path)).json(), { v }, path);
  for (const path of ['/str/a/b', '/int/1.5', '/int/x', '/float/x', '/uuid/1', '/str/'])
    assert.equal((await client.get(path)).status, 404, path);
});
row(`${ROUTING} / 1`, 'an unknown converter is refused when the route is registered', () => {
  const { app } = make();
  assert.throws(
    () => (app.get as (path: string, handler: () => string) => void).call(app, '/{id:integer}', () => 'x'),
    { code: 'E_PATH_TEMPLATE', message: /integer/ },
  );
});
// test/soak/growth.ts compares the CPU time
row(`${ROUTING} / 2`, 'a static path is found among 20,000 routes', async (t) => {
  const { app } = make();
  for (let n = 0; n < 20_000; n++) app.get(`/s/${n}`, () => n);
  for (let n = 0; n < 20_000; n += 10) app.get(`/p${n}/{id:int}`, () => n);
  const client = clientOf(t, app);
  for (const n of [0, 9_999, 19_999]) assert.equal(await (await client.get(`/s/${n}`)).json(), n);
});
row(`${ROUTING} / 3`, 'an unknown path gets 404, and a wrong method gets 405 with Allow', async (t) => {
  const { app } = make();
  app.get('/here/{n:int}', () => 'x').put('/here/{n:int}', () => 'x');
  const client = clientOf(t, app);
  assert.equal((await client.post('/nowhere')).status, 404);
  const wrong = await client.post('/here/1');
  assert.equal(wrong.status, 405);
  assert.deepEqual(wrong.headers.get('allow')!.split(', ').sort(), ['GET', 'HEAD', 'OPTIONS', 'PUT']);
});

const CONFIGURATION = '§1 Configuration';
/** Variables for the time of one function. */
function withVariables<T>(variables: Readonly<Record<string, string>>, fn: () => T): T {
  Object.assign(process.env, variables);
  try {
    return fn();
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
  }
}
row(`${CONFIGURATION} / 1`, 'precedence is SVC_* variables, loadDict(), constructor, defaults', () => {
  const { app } = withVariables({ SVC_FOURTH: 'environment', OTHER_FIRST: 'x' }, () =>
    make({ config: { second: 'argument', third: 'argument', fourth: 'argument' } }),
  );
  app.config.loadDict({ third: 'dict', fourth: 'dict' });
  assert.deepEqual(
    ['first', 'second', 'third', 'fourth'].map((key) => app.config.get(key, 'default')),
    ['default', 'argument', 'dict', 'environment'],
  );
  const config = new Config({ defaults: { a: 1, b: 1 }, values: { b: 2 }, environment: {} });
  assert.deepEqual([config.get('a', 0), config.get('b', 0)], [1, 2]);
});
row(`${CONFIGURATION} / 1`, 'an SVC_* variable overrides an option of the constructor', () => {
  assert.deepEqual([make().app.version, make({ version: '2.0.0' }).app.version], ['1.0.0', '2.0.0']);
  assert.equal(
    withVariables({ SVC_VERSION: '3.0.0' }, () => make({ version: '2.0.0' }).app.version),
    '3.0.0',
  );
});
row(`${CONFIGURATION} / 1`, 'loadDict() overrides an option of the constructor', async (t) => {
  const { app } = make({ debug: false, version: '2.0.0' });
  app.config.loadDict({ debug: true, version: '3.0.0' });
  app.get('/', () => {
    throw new Error('boom');
  });
  assert.ok('trace' in ((await (await clientOf(t, app).get('/')).json()) as object));
  assert.equal(app.version, '3.0.0');
});
row(
  `${CONFIGURATION} / 2`,
  'config.get() converts text to the type of its default or by cast, and its error names an invalid value',
  () => {
    const { app } = withVariables(
      { SVC_PAGE_SIZE: '50', SVC_VERBOSE: 'yes', SVC_HOSTS: 'a, b', SVC_RATE: 'much' },
      () => make(),
    );
    const { config } = app;
    assert.equal(config.get('pageSize', 10), 50);
    assert.equal(config.get('verbose', false), true);
    assert.deepEqual(config.get('hosts', [], { cast: (text) => text.split(/, */) }), ['a', 'b']);
    assert.equal(config.get('missing', 2.5), 2.5);
    assert.throws(() => config.get('rate', 1), { code: 'E_CONFIG_CAST', message: /SVC_RATE/ });
  },
);

const COMMANDS = '§1 Command line';
/** A server whose word is "one" until word.ts is saved with another. */
async function reloads(server: Running, cwd: string): Promise<void> {
  const [, url] = await server.printed(/"event":"listening","url":"(http:\/\/127\.0\.0\.1:\d+)"/);
  await server.printedTimes(/"event":"reloaded"/g, 1);
  assert.equal(await (await fetch(url!)).text(), 'one');
  write(cwd, { 'word.ts': "export const word = 'two';\n" });
  await server.printedTimes(/"event":"reloaded"/g, 2);
  assert.equal(await (await fetch(url!)).text(), 'two');
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
}
row(
  `${COMMANDS} / svc run <module>:<app> [--host --port --reload]`,
  'svc run serves the given application on the given host and port',
  async (t) => {
    build();
    const cwd = project(t, {
      'shop.ts':
        "import { Svc } from 'svc';\nexport const shop: Svc = new Svc();\nshop.get('/', () => 'open');\n",
    });
    const server = start(
      t,
      process.execPath,
      [BIN, 'run', 'shop.ts:shop', '--host', '127.0.0.1', '--port', '0'],
      { cwd },
    );
    const [, url] = await server.printed(/"event":"listening","url":"(http:\/\/127\.0\.0\.1:\d+)"/);
    assert.equal(await (await fetch(url!)).text(), 'open');
    server.child.kill('SIGTERM');
    assert.equal((await server.ended).status, 0);
  },
);
row(
  `${COMMANDS} / svc run <module>:<app> [--host --port --reload]`,
  'svc run --reload serves a file again after it was saved',
  async (t) => {
    build();
    const cwd = project(t, {
      'app.ts':
        "import { Svc } from 'svc';\nimport { word } from './word.ts';\nexport const app = new Svc();\napp.get('/', () => word);\n",
      'word.ts': "export const word = 'one';\n",
    });
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts:app', '--port', '0', '--reload'], { cwd });
    await reloads(server, cwd);
  },
);
row(
  `${COMMANDS} / svc check <module>:<app>`,
  'svc check exits with 0 for an application without mistakes, and otherwise with 1 and the line of the mistake',
  async (t) => {
    build();
    const head = "import { Svc } from 'svc';\nexport const app = new Svc();\n";
    const cwd = project(t, {
      'clean.ts': `${head}app.get('/a', () => 1);\n`,
      'twice.ts': `${head}app.get('/a', () => 1);\napp.get('/a', () => 2);\n`,
    });
    assert.equal((await run(process.execPath, [BIN, 'check', 'clean.ts:app'], { cwd })).status, 0);
    const { status, stdout } = await run(process.execPath, [BIN, 'check', 'twice.ts:app'], { cwd });
    assert.equal(status, 1);
    assert.match(stdout, /SVC101[\s\S]*twice\.ts:4/);
  },
);
row(
  `${COMMANDS} / svc mcp <module>:<app>`,
  'svc mcp serves the routes as tools over standard input and output, until the input ends',
  async (t) => {
    build();
    const cwd = project(t, {
      'shop.ts':
        "import { Svc } from 'svc';\nexport const shop: Svc = new Svc();\nshop.get('/open', () => { console.log('printed'); return 'open'; });\n",
    });
    const lines =
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: INITIALIZE }) +
      '\n' +
      JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'get_open' } }) +
      '\n';
    const { status, stdout } = spawnSync(process.execPath, [BIN, 'mcp', 'shop.ts:shop'], {
      cwd,
      input: lines,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] },
    });
    assert.equal(status, 0);
    const answers = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { id: number; result: { content?: unknown } });
    assert.deepEqual(
      answers.map(({ id }) => id),
      [1, 2],
    );
    assert.deepEqual(answers[1]!.result.content, [{ type: 'text', text: 'open' }]);
  },
);
row(
  `${COMMANDS} / svc new <dir>`,
  'svc new creates a project that starts, passes its own tests, and has no findings of svc check',
  async (t) => {
    build();
    const cwd = folder(t);
    assert.equal((await run(process.execPath, [BIN, 'new', 'shop', '--link'], { cwd })).status, 0);
    const shop = join(cwd, 'shop');
    assert.equal((await run(process.execPath, ['--test', 'test/app.test.ts'], { cwd: shop })).status, 0);
    assert.equal(
      (
        await run(
          process.execPath,
          [BIN, 'check', 'src/app.ts', '--env-file', '.env', '--max-warnings', '0', '--skip', 'SVC404'],
          { cwd: shop },
        )
      ).status,
      0,
    );
  },
);
const REGISTRATION = '§1 Plugin registration (B)';
row(
  `${REGISTRATION} / sentence 1`,
  'OAuthPlugin can be registered with only a secret, a provider and the hook onUser',
  () => {
    const { app } = make({ env: 'test' });
    app.register(
      new OAuthPlugin({ authSecret: SECRET, provider: githubProvider('id', 'secret'), onUser: () => 'ada' }),
    );
    assert.deepEqual(
      app
        .compileAll()
        .routes.map(({ method, template }) => `${method} ${template}`)
        .filter((route) => route.includes('/oauth/'))
        .toSorted(),
      [
        'GET /oauth/callback',
        'GET /oauth/login',
        'POST /oauth/callback',
        'POST /oauth/revoke',
        'POST /oauth/token',
      ],
    );
  },
);
row(`${REGISTRATION} / sentence 2`, 'the provider is a preset or is defined by URLs', async (t) => {
  const { app } = make({ env: 'test', authSecret: SECRET });
  app.register(new OAuthPlugin({ provider: githubProvider('the-id', 'secret'), onUser: () => 'ada' }));
  const page = new URL((await clientOf(t, app).get('/oauth/login')).headers.get('location')!);
  assert.deepEqual([page.origin, page.searchParams.get('client_id')], ['https://github.com', 'the-id']);
  const site = await loginSite(t);
  assert.equal((await site.begin()).page.origin, site.fake.url);
});
row(
  `${REGISTRATION} / sentence 3`,
  'the hook onUser gets the provider and the user info, and returns the subject',
  async (t) => {
    const seen: unknown[] = [];
    const site = await loginSite(t, {
      plugin: {
        onUser: async (provider, { subject }) => {
          seen.push([provider, subject]);
          return 'our-17';
        },
      },
    });
    assert.equal(claimsOf((await site.login()).access_token)['sub'], 'our-17');
    assert.deepEqual(seen, [['fake', 'ada']]);
  },
);
row(`${REGISTRATION} / sentence 4`, 'revokeAll() revokes every refresh token of a subject', async (t) => {
  const site = await loginSite(t);
  const tokens = [await site.login(), await site.login()];
  assert.equal(await site.oauth.revokeAll('user-ada'), 2);
  for (const { refresh_token: token } of tokens)
    await refusedAs(await site.refresh(token), 400, 'invalid_grant');
});

// ── §2 ──

const RESULT = '§2 Login result (returned by the callback)';
row(`${RESULT} / access_token`, 'access_token is a JWT', async (t) => {
  const site = await loginSite(t);
  assert.equal(
    verifyToken((await site.login()).access_token, LOGIN_SECRET, { clock: site.clock }).sub,
    'user-ada',
  );
});
row(`${RESULT} / token_type`, 'token_type is Bearer', async (t) => {
  assert.equal((await (await loginSite(t)).login()).token_type, 'Bearer');
});
row(`${RESULT} / refresh_token`, 'refresh_token is random text, and is stored as a hash', async (t) => {
  const site = await loginSite(t);
  const { refresh_token: token } = await site.login();
  assert.match(token, /^svcrt_1[\w.-]{90,150}$/);
  assert.ok(
    !JSON.stringify(await site.app.state.db.fetchAll('select * from svc_oauth_login')).includes(
      token.split('.')[3]!,
    ),
  );
});
const CLAIMS = '§2 Access token claims';
row(`${CLAIMS} / sub`, 'createToken() requires a subject, which verifyToken() returns', () => {
  assert.equal(verifyToken(createToken('ada', SECRET), SECRET).sub, 'ada');
  for (const sub of ['', undefined, null, 5])
    assert.throws(() => createToken(sub as string, SECRET), { code: 'E_TOKEN_CLAIM' });
});
row(`${CLAIMS} / scopes`, 'requireScopes() accepts only tokens with all required scopes', async (t) => {
  const { app } = make({ authSecret: SECRET });
  app.get('/', { me: Depends(requireScopes('read', 'write')) }, ({ me }) => me.sub);
  const client = clientOf(t, app);
  assert.equal(
    await (
      await client.get('/', bearer(createToken('ada', SECRET, { claims: { scopes: ['write', 'read'] } })))
    ).text(),
    'ada',
  );
  const refused = await client.get('/', bearer(createToken('ada', SECRET, { claims: { scopes: ['read'] } })));
  assert.deepEqual(
    [refused.status, refused.headers.get('www-authenticate')],
    [403, 'Bearer error="insufficient_scope", scope="read write"'],
  );
});
row(`${CLAIMS} / expiry`, 'a token expires expiresInSeconds after it was issued', () => {
  const { iat, exp } = verifyToken(createToken('ada', SECRET, { expiresInSeconds: 60 }), SECRET);
  assert.equal(exp! - iat!, 60);
  assert.throws(
    () =>
      verifyToken(createToken('ada', SECRET, { expiresInSeconds: 1 }), SECRET, {
        clock: { ...systemClock, nowMs: () => systemClock.nowMs() + 2_000 },
      }),
    InvalidToken,
  );
});
row(`${CLAIMS} / extra claims`, 'extra claims are returned unchanged', () => {
  const { tenant, tags } = verifyToken<{ tenant: string; tags: string[] }>(
    createToken('ada', SECRET, { claims: { tenant: 'acme', tags: ['a'] } }),
    SECRET,
  );
  assert.deepEqual([tenant, tags], ['acme', ['a']]);
});
row(`${CLAIMS} / jti`, 'every token of the plugin has a different jti', async (t) => {
  const site = await loginSite(t);
  const first = await site.login();
  const second = await site.refreshed(first.refresh_token);
  const ids = [first, second].map(({ access_token: token }) => claimsOf(token)['jti']);
  assert.ok(ids.every((id) => typeof id === 'string') && ids[0] !== ids[1]);
});
row(
  `${CLAIMS} / sentence 1`,
  'the header of a token has alg HS256, and its signature is the HMAC-SHA-256 of header and claims',
  () => {
    const token = createToken('ada', SECRET);
    assert.equal(partOf(token, 0)['alg'], 'HS256');
    const [header, claims, signature] = token.split('.');
    assert.equal(createHmac('sha256', SECRET).update(`${header}.${claims}`).digest('base64url'), signature);
  },
);

const SCHEMA = '§2 Schema declaration';
/** Which members of a body are refused, and by which rule. */
function problemsOf(data: object): string[] {
  const result = User.safeParse({ ...ADA, ...data });
  return result.ok ? [] : result.issues.map((issue) => `${issue.loc.join('.')} ${issue.code}`);
}
row(
  `${SCHEMA} / sentence 1`,
  'the constructor of a class derived from Schema returns an instance of this class',
  () => {
    class Point extends Schema {
      x = Field(float);
      labels = Field(list(str), { default: () => [] });
      get isLeft(): boolean {
        return this.x < 0;
      }
    }
    const point = new Point({ x: -1 });
    assert.ok(point instanceof Point && point.isLeft);
    assert.deepEqual({ ...point }, { x: -1, labels: [] });
    assert.deepEqual(Point.parse({ x: 1, labels: ['a'] }).labels, ['a']);
  },
);
row(
  `${SCHEMA} / sentence 2`,
  'a field is required if it has no default, and optional if it has a default',
  () => {
    class Point extends Schema {
      x = Field(int);
      y = Field(7);
      z = Field(int, { default: 9 });
    }
    assert.deepEqual({ ...new Point({ x: 1 }) }, { x: 1, y: 7, z: 9 });
    const result = Point.safeParse({ y: 1 });
    assert.deepEqual(result.ok ? [] : result.issues.map((issue) => issue.loc), [['x']]);
  },
);
row(`${SCHEMA} / min_length, max_length`, 'both limits are allowed lengths of a text, in characters', () => {
  for (const name of ['Al', 'Alice', '👩👩👩👩👩']) assert.deepEqual(problemsOf({ name }), [], name);
  assert.match(problemsOf({ name: 'A' }).join(), /^name /);
  assert.match(problemsOf({ name: 'Alicia' }).join(), /^name /);
});
row(`${SCHEMA} / ge, le`, 'ge and le limit numbers, and both limits are allowed', () => {
  for (const data of [{ age: 0 }, { age: 150 }, { share: 0 }, { share: 1 }])
    assert.deepEqual(problemsOf(data), []);
  for (const data of [{ age: -1 }, { age: 151 }, { share: -0.001 }, { share: 1.001 }])
    assert.equal(problemsOf(data).length, 1, JSON.stringify(data));
});
row(`${SCHEMA} / email=True`, 'a field with email: true accepts only e-mail addresses', () => {
  for (const email of ['ada@example.com', 'a.b+c@sub.example.org'])
    assert.deepEqual(problemsOf({ email }), [], email);
  for (const email of ['', 'ada', 'ada@', '@example.com', 'a b@example.com', 'ada@example.com\n'])
    assert.equal(problemsOf({ email }).length, 1, JSON.stringify(email));
});
row(`${SCHEMA} / sentence 3`, 'constraints are in the OpenAPI document', () => {
  class Member extends Schema {
    name = Field(str, { minLength: 2, maxLength: 40 });
    age = Field(int, { ge: 18, le: 150 });
    email = Field(str, { email: true });
  }
  const { app } = make();
  app.post('/', { body: Member, query: { page: Field(int, { ge: 1 }) } }, () => 1);
  const { components, paths } = app.openapi();
  const { name, age, email } = components.schemas!['Member']!['properties'] as Record<
    string,
    Record<string, unknown>
  >;
  assert.deepEqual(
    [name, [age!['minimum'], age!['maximum']], email!['format']],
    [{ type: 'string', minLength: 2, maxLength: 40 }, [18, 150], 'email'],
  );
  assert.deepEqual(components.schemas!['Member']!['required'], ['name', 'age', 'email']);
  assert.equal(paths['/']!.post!.parameters![0]!.schema['minimum'], 1);
});
row(`${SCHEMA} / sentence 3`, 'constraints are in the schemas of MCP tools', () => {
  const { app } = make();
  app.post('/users', { body: User }, () => 1);
  const { properties } = app.mcpTools()[0]!.inputSchema as {
    properties: Record<string, Record<string, unknown>>;
  };
  assert.deepEqual(
    [properties['name']!['minLength'], properties['age']!['minimum'], properties['age']!['maximum']],
    [2, 0, 150],
  );
});
row(`${SCHEMA} / sentence 4`, 'one schema validates JSON bodies and forms', async (t) => {
  const { app } = make();
  app
    .post('/json', { body: User }, ({ body }) => ({ ...body }))
    .post('/form', { form: User }, ({ form }) => ({ ...form }));
  const client = clientOf(t, app);
  const expected = { name: 'Ada', age: 36, share: 0.25 };
  assert.deepEqual(await (await client.post('/json', { json: { ...ADA, share: 0.25 } })).json(), expected);
  assert.deepEqual(
    await (await client.post('/form', { form: { name: 'Ada', age: '36', share: '0.25' } })).json(),
    expected,
  );
  assert.equal(
    (await client.post('/json', { json: { ...ADA, age: '36' } })).status,
    400,
    'text is no number in JSON',
  );
  assert.equal((await client.post('/form', { form: { name: 'Ada', age: 'old' } })).status, 400);
});

const REQUEST = '§2 Request object';
row(
  `${REQUEST} / method, path, path_params, query, headers, cookies`,
  'method, path, params, query, headers and cookies have the values of the request',
  async (t) => {
    const { app } = make();
    app.route('/u/{id:int}', ['PATCH'], ({ req }) => ({
      method: req.method,
      path: req.path,
      pathParams: req.pathParams,
      tags: req.query.getAll('tag'),
      none: req.query.get('none') ?? null,
      agent: req.headers['x-agent'],
      cookies: { ...req.cookies },
    }));
    const response = await clientOf(t, app).request('PATCH', '/u/7?tag=a&tag=b%20c', {
      headers: { 'X-Agent': 'tests', Cookie: 'one=1; two=b%20c' },
    });
    assert.deepEqual(await response.json(), {
      method: 'PATCH',
      path: '/u/7',
      pathParams: { id: 7 },
      tags: ['a', 'b c'],
      none: null,
      agent: 'tests',
      cookies: { one: '1', two: 'b c' },
    });
  },
);
row(`${REQUEST} / state`, 'req.state keeps values for one request only', async (t) => {
  const user = stateKey<string>('user');
  const { app } = make();
  app
    .use((req, next) => {
      assert.equal(req.state.has(user), false);
      if (req.query.has('user')) req.state.set(user, req.query.get('user')!);
      return next();
    })
    .get('/', ({ req, state }) => [req.state.has(user) ? state.get(user) : 'nobody', 200]);
  const client = clientOf(t, app);
  assert.equal(await (await client.get('/?user=ada')).text(), 'ada');
  assert.equal(await (await client.get('/')).text(), 'nobody');
});
row(
  `${REQUEST} / session`,
  'req.session exists with SessionMiddleware, and otherwise throws an error that names this middleware',
  async (t) => {
    const { app } = make({ authSecret: SECRET });
    const visits = sessionKey<number>('visits');
    app.use(new SessionMiddleware()).get('/', ({ req }) => {
      req.session.set(visits, (req.session.get(visits) ?? 0) + 1);
      return req.session.get(visits)!;
    });
    const client = clientOf(t, app);
    for (const count of [1, 2]) assert.equal(await (await client.get('/')).json(), count);
    assert.equal(await (await clientOf(t, app).get('/')).json(), 1);
    const without = clientOf(
      t,
      make().app.get('/', ({ req }) => req.session.id),
      { raiseErrors: true },
    );
    await assert.rejects(without.get('/'), { code: 'E_SESSION_ABSENT' });
  },
);
row(
  `${REQUEST} / await body(max_bytes=None)`,
  'req.body() returns the bytes, limited only by maxBytes, and req.stream() returns them while they arrive',
  async (t) => {
    const { app } = make();
    app
      .post('/all', async ({ req }) => (await req.body()).length)
      .post('/capped', async ({ req }) => (await req.body({ maxBytes: 4 })).length);
    const { port } = await serve(t, app);
    const client = await connection(t, port);
    client
      .send('POST /all HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n')
      .send('2\r\nde\r\n0\r\n\r\n');
    assert.equal((await client.answer()).text(), '5');
    client.send('POST /capped HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n'); // its end never comes
    assert.equal((await client.answer()).status, 413);
  },
);
row(
  `${REQUEST} / await json(max_bytes=10MB)`,
  'req.json() returns the parsed body, and refuses a malformed or too large body',
  async (t) => {
    const { app } = make();
    app
      .post('/', async ({ req }) => reply200(await req.json()))
      .post('/small', async ({ req }) => reply200(await req.json({ maxBytes: 10 })));
    const client = clientOf(t, app);
    assert.deepEqual(await (await client.post('/', { json: { a: [1, null] } })).json(), {
      got: { a: [1, null] },
    });
    assert.equal(
      (await client.post('/', { body: '{"a":', headers: { 'Content-Type': 'application/json' } })).status,
      400,
    );
    assert.deepEqual(
      [
        (await client.post('/small', { json: '12345678' })).status,
        (await client.post('/small', { json: '123456789' })).status,
      ],
      [200, 413],
    );
  },
);
row(`${REQUEST} / await form()`, 'req.form() reads urlencoded forms', async (t) => {
  const { app } = make();
  app.post('/', async ({ req }) => {
    const form = await req.form();
    return { one: form.get('one'), many: form.getAll('many'), none: form.has('none') };
  });
  const response = await clientOf(t, app).post('/', { form: { one: 'a b&c', many: ['x', 'ü'] } });
  assert.deepEqual(await response.json(), { one: 'a b&c', many: ['x', 'ü'], none: false });
});
row(`${REQUEST} / await form()`, 'req.form() returns multipart files as UploadFile objects', async (t) => {
  const { app } = make();
  const target = join(folder(t), 'saved.txt');
  app.post('/', async ({ req }) => {
    const form = await req.form();
    const upload: UploadFile = form.file('file')!;
    await upload.save(target);
    const streamed: Uint8Array[] = [];
    for await (const chunk of upload.stream()) streamed.push(chunk);
    return {
      one: form.get('one'),
      name: upload.filename,
      type: upload.contentType,
      size: upload.size,
      bytes: Buffer.from(await upload.bytes()).toString(),
      streamed: Buffer.concat(streamed).toString(),
    };
  });
  const form = new FormData();
  form.set('one', 'ü');
  form.set('file', new File(['content'], 'a.txt', { type: 'text/plain' }));
  assert.deepEqual(await (await clientOf(t, app).post('/', { form })).json(), {
    one: 'ü',
    name: 'a.txt',
    type: 'text/plain',
    size: 7,
    bytes: 'content',
    streamed: 'content',
  });
  assert.equal(readFileSync(target, 'utf8'), 'content');
});
row(`${REQUEST} / await text()`, 'req.text() returns the body as text', async (t) => {
  const { app } = make();
  app.post('/', async ({ req }) => `${await req.text()}!`);
  const client = clientOf(t, app);
  assert.equal(await (await client.post('/', { body: 'grüße 👋' })).text(), 'grüße 👋!');
  assert.equal((await client.post('/', { body: new Uint8Array([0xff, 0xfe]) })).status, 400);
});
function reply200(got: unknown): object {
  return { got };
}

const RESPONSES = '§2 Response classes';
row(`${RESPONSES} / sentence 1`, 'JSON, text, HTML, redirects, streams and files can be sent', async (t) => {
  const directory = folder(t, { 'a.csv': 'a,b\n1,2\n' });
  const { app } = make();
  app
    .get('/json', () => new JSONResponse([1], { status: 201 }))
    .get('/text', () => new TextResponse('t'))
    .get('/html', () => new HTMLResponse('<p>'));
  app
    .get('/redirect', () => new RedirectResponse('/text', { status: 303 }))
    .get(
      '/stream',
      () =>
        new StreamingResponse(
          (async function* () {
            yield 'a';
            yield 'b';
          })(),
          { mediaType: 'text/csv' },
        ),
    );
  app
    .get('/file', () => new FileResponse(join(directory, 'a.csv')))
    .get(
      '/save',
      () =>
        new FileResponse(join(directory, 'a.csv'), { mediaType: 'text/x', filename: 'b.csv', status: 203 }),
    );
  const client = clientOf(t, app);
  for (const [path, status, type, body] of [
    ['/json', 201, 'application/json', '[1]'],
    ['/text', 200, 'text/plain; charset=utf-8', 't'],
    ['/html', 200, 'text/html; charset=utf-8', '<p>'],
    ['/redirect', 303, null, ''],
    ['/stream', 200, 'text/csv', 'ab'],
    ['/file', 200, 'text/csv; charset=utf-8', 'a,b\n1,2\n'],
    ['/save', 203, 'text/x', 'a,b\n1,2\n'],
  ] as const) {
    const response = await client.get(path);
    assert.deepEqual(
      [response.status, response.headers.get('content-type'), await response.text()],
      [status, type, body],
      path,
    );
  }
  assert.equal((await client.get('/redirect')).headers.get('location'), '/text');
  assert.match(
    (await client.get('/save')).headers.get('content-disposition')!,
    /^attachment; filename="b\.csv"/,
  );
});
row(`${RESPONSES} / sentence 2`, 'every response class has setCookie() and deleteCookie()', async (t) => {
  const { app } = make();
  app
    .get('/set', () =>
      new TextResponse('x')
        .setCookie('a', '1', { path: '/x', maxAgeSeconds: 60, sameSite: 'strict' })
        .setCookie('b', '2'),
    )
    .get('/delete', () => new JSONResponse({}).deleteCookie('b'));
  const client = clientOf(t, app);
  assert.deepEqual((await client.get('/set')).headers.getSetCookie(), [
    'a=1; Path=/x; Max-Age=60; HttpOnly; SameSite=Strict',
    'b=2; Path=/; HttpOnly; SameSite=Lax',
  ]);
  assert.match((await client.get('/delete')).headers.getSetCookie()[0]!, /^b=; Path=\/; Max-Age=0/);
});

const DEPENDENCIES = '§2 Dependencies';
row(`${DEPENDENCIES} / sentence 1`, 'Depends() passes the result of a function to the handler', async (t) => {
  const { app } = make();
  app.get(
    '/',
    { agent: Depends(({ req }: Context) => req.headers['user-agent'] ?? 'none') },
    ({ agent }) => agent,
  );
  assert.equal(
    await (await clientOf(t, app, { headers: { 'User-Agent': 'tests' } }).get('/')).text(),
    'tests',
  );
});
row(`${DEPENDENCIES} / sentence 2`, 'Depends(BackgroundTasks) runs tasks after the response', async (t) => {
  const { app } = make();
  const answered = Promise.withResolvers<void>();
  const done = Promise.withResolvers<string>();
  app.get('/', { tasks: Depends(BackgroundTasks) }, ({ tasks }) => {
    tasks.add(async (word: string) => {
      await answered.promise;
      done.resolve(word);
    }, 'done');
    return 'answered';
  });
  const { port } = await serve(t, app);
  assert.equal((await (await connection(t, port)).get('/').answer()).text(), 'answered');
  answered.resolve();
  assert.equal(await done.promise, 'done');
});
row(
  `${DEPENDENCIES} / sentence 3`,
  'dependencies can be nested, run once per request by default, and may be sync or async functions or generators',
  async (t) => {
    const calls: string[] = [];
    const sync = (): string => {
      calls.push('sync');
      return 's';
    };
    const later = async (): Promise<string> => {
      calls.push('async');
      return 'a';
    };
    function* generator(): Generator<string> {
      calls.push('enter');
      yield 'g';
      calls.push('leave');
    }
    async function* laterGenerator(): AsyncGenerator<string> {
      calls.push('enter later');
      yield 'h';
      calls.push('leave later');
    }
    const nested = provide(
      { one: Depends(sync), two: Depends(later), three: Depends(generator), four: Depends(laterGenerator) },
      ({ one, two, three, four }) => one + two + three + four,
    );
    const { app } = make();
    app.get(
      '/',
      { nested: Depends(nested), again: Depends(sync), anew: Depends(sync, { cache: false }) },
      ({ nested: all, again, anew }) => `${all} ${again} ${anew}`,
    );
    const client = clientOf(t, app);
    assert.equal(await (await client.get('/')).text(), 'sagh s s');
    await client.close();
    assert.equal(
      calls.filter((call) => call === 'sync').length,
      2,
      'once for all, once for the one that opted out',
    );
    for (const call of ['async', 'enter', 'enter later', 'leave', 'leave later'])
      assert.equal(calls.filter((other) => other === call).length, 1, call);
  },
);
row(
  `${DEPENDENCIES} / sentence 4`,
  'dependencies are cleaned up after the response is sent, and also after an exception',
  async (t) => {
    const answered = Promise.withResolvers<void>();
    const left = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    let entered = 0;
    async function* resource(): AsyncGenerator<number> {
      const { resolve } = left[entered++]!;
      let outcome = 'answered';
      try {
        yield entered;
      } catch (error) {
        outcome = (error as Error).message;
        throw error;
      } finally {
        await answered.promise; // before the answer, this would hold it up for ever
        resolve(outcome);
      }
    }
    const { app } = make();
    app
      .get('/', { one: Depends(resource) }, ({ one }) => one)
      .get('/fails', { one: Depends(resource) }, () => {
        throw new Error('failed');
      });
    const { port } = await serve(t, app);
    const client = await connection(t, port);
    assert.equal((await client.get('/').answer()).status, 200);
    assert.equal((await client.get('/fails').answer()).status, 500);
    answered.resolve();
    assert.deepEqual(await Promise.all(left.map(({ promise }) => promise)), ['answered', 'failed']);
  },
);
row(
  `${DEPENDENCIES} / sentence 5`,
  'circular dependencies are refused at compilation, and the error contains the path of the cycle',
  () => {
    const first: (context: Context) => unknown = provide(
      {
        get second(): Dependency<unknown> {
          return Depends(second);
        },
      },
      function first() {
        return 1;
      },
    );
    const second: (context: Context) => unknown = provide({ first: Depends(first) }, function second() {
      return 2;
    });
    const { app } = make();
    app.get('/', { first: Depends(first) }, () => 'x');
    assert.throws(() => app.compileAll(), { code: 'E_COMPILE', message: /first → second → first/ });
  },
);

// ── §3 ──

const STATES = '§3 States and transitions';
row(
  `${STATES} / none · GET /oauth/callback succeeds`,
  'a callback with a valid state returns an active refresh token',
  async (t) => {
    const site = await loginSite(t);
    const { refresh_token: token } = await site.login();
    assert.equal((await site.refresh(token)).status, 200);
  },
);
row(
  `${STATES} / active · POST /oauth/token`,
  'the current refresh token is exchanged for new tokens, and is then invalid',
  async (t) => {
    const site = await loginSite(t);
    const first = await site.login();
    const second = await site.refreshed(first.refresh_token);
    assert.ok(second.access_token !== first.access_token && second.refresh_token !== first.refresh_token);
    await refusedAs(await site.refresh(first.refresh_token), 400, 'invalid_grant');
  },
);
row(
  `${STATES} / dead · POST /oauth/token`,
  'a second use of a refresh token revokes the whole chain',
  async (t) => {
    const site = await loginSite(t);
    const first = await site.login();
    const second = await site.refreshed(first.refresh_token);
    const third = await site.refreshed(second.refresh_token);
    await refusedAs(await site.refresh(first.refresh_token), 400, 'invalid_grant');
    await refusedAs(await site.refresh(third.refresh_token), 400, 'invalid_grant');
  },
);
row(`${STATES} / active · POST /oauth/revoke`, 'POST /oauth/revoke ends only one login', async (t) => {
  const site = await loginSite(t);
  const [one, other] = [await site.login(), await site.login()];
  assert.equal((await site.revoke({ token: one.refresh_token })).status, 200);
  await refusedAs(await site.refresh(one.refresh_token), 400, 'invalid_grant');
  await site.refreshed(other.refresh_token);
});
row(`${STATES} / active · revoke_all(sub)`, 'every refresh token of the subject is revoked', async (t) => {
  const site = await loginSite(t);
  const tokens = [await site.login(), await site.login()];
  await site.oauth.revokeAll('user-ada');
  for (const { refresh_token: token } of tokens)
    await refusedAs(await site.refresh(token), 400, 'invalid_grant');
});
row(`${STATES} / sentence 3`, 'a state is accepted only once', async (t) => {
  const site = await loginSite(t);
  const { state } = await site.begin();
  assert.equal((await site.back({ code: 'c', state })).status, 200);
  await refusedAs(await site.back({ code: 'c', state }), 400, 'invalid_state');
});
row(
  `${STATES} / sentence 4`,
  'readiness is 503 while the database is down, and 200 after it is up again',
  async (t) => {
    const { client, path } = databaseSite(t);
    const statuses: number[] = [];
    const ask = async (): Promise<void> => void statuses.push((await client.get('/readyz')).status);
    await ask();
    for (let round = 0; round < 2; round++) {
      renameSync(path, `${path}.away`);
      await ask();
      renameSync(`${path}.away`, path);
      await ask();
    }
    assert.deepEqual(statuses, [200, 503, 200, 503, 200]);
  },
);

// ── §4 ──

const ENDPOINTS = '§4 Plugin endpoints';
row(
  `${ENDPOINTS} / GET · /oauth/login`,
  '/oauth/login redirects with 302 to the provider, with an S256 code challenge',
  async (t) => {
    const site = await loginSite(t);
    const { response, page } = await site.begin({ redirect_uri: 'https://app.example/oauth/callback' });
    assert.equal(response.status, 302);
    assert.deepEqual(
      [
        page.searchParams.get('redirect_uri'),
        page.searchParams.get('code_challenge_method'),
        page.searchParams.get('code_challenge')?.length,
      ],
      ['https://app.example/oauth/callback', 'S256', 43],
    );
  },
);
row(`${ENDPOINTS} / GET · /oauth/callback`, 'code and state are exchanged for tokens', async (t) => {
  const site = await loginSite(t);
  const { state } = await site.begin();
  const tokens = (await (await site.back({ code: 'c', state })).json()) as Record<string, unknown>;
  for (const field of ['access_token', 'token_type', 'refresh_token'])
    assert.equal(typeof tokens[field], 'string');
});
row(`${ENDPOINTS} / POST · /oauth/token`, 'the tokens are rotated and not cached', async (t) => {
  const site = await loginSite(t);
  const response = await site.refresh((await site.login()).refresh_token);
  assert.deepEqual([response.status, response.headers.get('cache-control')], [200, 'no-store']);
});
row(`${ENDPOINTS} / POST · /oauth/revoke`, 'one refresh token is revoked', async (t) => {
  const site = await loginSite(t);
  const { refresh_token: token } = await site.login();
  assert.equal((await site.revoke({ token })).status, 200);
  await refusedAs(await site.refresh(token), 400, 'invalid_grant');
});
row(
  `${ENDPOINTS} / sentence 1`,
  'the callback checks the state, redeems the code, reads the user info, and calls onUser, in this order',
  async (t) => {
    const order: string[] = [];
    const site: LoginSite = await loginSite(t, {
      plugin: {
        onUser: () => {
          order.push(...site.fake.requests.map(({ endpoint }) => endpoint), 'onUser');
          return 'ada';
        },
      },
    });
    await refusedAs(await site.back({ code: 'c', state: 'unknown' }), 400, 'invalid_state');
    assert.equal(site.fake.count(), 0);
    await site.login();
    assert.deepEqual(order, ['token', 'userinfo', 'onUser']);
    assert.match(site.fake.requests[0]!.form.get('code_verifier')!, /^[\w-]{43}$/);
  },
);
const OPERATIONS = '§4 Operations endpoints (framework)';
row(`${OPERATIONS} / GET · /healthz`, '/healthz answers that the process runs', async (t) => {
  const { app } = make();
  app.register({
    name: 'database',
    register: (host) =>
      host.readiness('database', () => {
        throw new Error('down');
      }),
  });
  const response = await clientOf(t, app).get('/healthz');
  assert.deepEqual([response.status, await response.json()], [200, { status: 'ok' }], 'whatever is down');
});
row(`${OPERATIONS} / GET · /readyz`, '/readyz answers 200, and 503 while a check fails', async (t) => {
  const { app } = make();
  let isUp = true;
  app.register({
    name: 'database',
    register: (host) =>
      host.readiness('database', () => {
        if (!isUp) throw new Error('down');
      }),
  });
  const client = clientOf(t, app);
  for (const [up, status, word] of [
    [true, 200, 'up'],
    [false, 503, 'down'],
    [true, 200, 'up'],
  ] as const) {
    isUp = up;
    const response = await client.get('/readyz');
    const { checks } = (await response.json()) as { checks: { database: { status: string } } };
    assert.deepEqual([response.status, checks.database.status], [status, word]);
  }
});
row(
  `${OPERATIONS} / GET · /metrics`,
  '/metrics has the counters of requests and errors, and the uptime',
  async (t) => {
    const { app } = make();
    app.get('/u/{id:int}', ({ params }) => {
      if (params.id === 0) throw new Error('boom');
    });
    const client = clientOf(t, app);
    for (const id of [0, 1, 2]) await client.get(`/u/${id}`);
    const text = await (await client.get('/metrics')).text();
    assert.match(text, /^svc_requests_total\{method="GET",route="\/u\/\{id:int\}",status="204"\} 2$/m);
    assert.match(text, /^svc_requests_total\{method="GET",route="\/u\/\{id:int\}",status="500"\} 1$/m);
    assert.match(text, /^svc_errors_total 1$/m);
    assert.match(text, /^svc_uptime_seconds \d+(?:\.\d+)?(?:e-\d+)?$/m);
  },
);
row(
  `${OPERATIONS} / GET · /readyz`,
  '/readyz answers 503 and names the database while it is down, and /healthz still answers 200',
  async (t) => {
    const { client, path } = databaseSite(t);
    assert.equal((await client.get('/readyz')).status, 200);
    renameSync(path, `${path}.away`);
    const response = await client.get('/readyz');
    assert.deepEqual(
      [response.status, Object.keys(((await response.json()) as { checks: object }).checks)],
      [503, ['database']],
    );
    assert.equal((await client.get('/healthz')).status, 200);
  },
);
row(
  `${OPERATIONS} / GET · /openapi.json`,
  '/openapi.json is an OpenAPI 3.1 document, and is hidden in production by default',
  async (t) => {
    const response = await clientOf(t, make().app).get('/openapi.json');
    assert.equal(response.headers.get('content-type'), 'application/json');
    assert.match(((await response.json()) as { openapi: string }).openapi, /^3\.1\.\d+$/);
    assert.equal((await clientOf(t, make({ env: 'production' }).app).get('/openapi.json')).status, 404);
  },
);
row(
  `${OPERATIONS} / GET · /docs`,
  '/docs is a page with a strict Content-Security-Policy, and is hidden in production by default',
  async (t) => {
    const response = await clientOf(t, make().app).get('/docs');
    assert.equal(response.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.match(
      response.headers.get('content-security-policy')!,
      /^default-src 'none';.* script-src 'nonce-[\w+/=]+';/,
    );
    assert.doesNotMatch(await response.text(), /\b(?:src|href)="(?:https?:)?\/\//);
    assert.equal((await clientOf(t, make({ env: 'production' }).app).get('/docs')).status, 404);
  },
);
const FACILITIES = '§4 Supporting facilities';
row(
  `${FACILITIES} / Cache`,
  'cached() stores the results of a function in memory or in a given CacheBackend',
  async () => {
    const kept = new Map<string, unknown>();
    const backend: CacheBackend = {
      get: async (key) => kept.get(key),
      set: async (key, value) => void kept.set(key, value),
      delete: async (key) => kept.delete(key),
      clear: async () => kept.clear(),
    };
    for (const options of [{}, { backend, name: 'square' }]) {
      let calls = 0;
      const square = cached(
        async (n: number) => {
          calls++;
          return { n, square: n * n };
        },
        { ttlSeconds: 30, ...options },
      );
      assert.deepEqual(await Promise.all([square(3), square(3), square(4)]), [
        { n: 3, square: 9 },
        { n: 3, square: 9 },
        { n: 4, square: 16 },
      ]);
      assert.deepEqual(await square(3), { n: 3, square: 9 });
      assert.equal(calls, 2);
      assert.equal(await square.delete(3), true);
      await square(3);
      assert.equal(calls, 3);
    }
    assert.equal(kept.size, 2);
  },
);
row(
  `${FACILITIES} / Database plugin DatabasePlugin(url)`,
  'a SQLite database can execute and fetch, and its file contains the committed rows',
  async (t) => {
    const { app, client, path } = databaseSite(t);
    await client.get('/readyz'); // it has started
    const { db } = app.state;
    await db.execute('create table note (id integer primary key, title text unique)');
    assert.deepEqual(await db.execute('insert into note (title) values (?)', ['a']), {
      affectedRows: 1,
      lastInsertId: 1,
    });
    assert.equal(await db.executeMany('insert into note (title) values (?)', [['b'], ['c']]), 2);
    assert.deepEqual(await db.fetchOne('select title from note where id = ?', [2]), { title: 'b' });
    await assert.rejects(
      db.transaction(async (tx) => {
        await tx.execute('delete from note');
        await tx.executeMany('insert into note (title) values (?)', [['d'], ['d']]);
      }),
      UniqueViolation,
    );
    await db.transaction((tx) => tx.execute('update note set title = ? where id = ?', ['e', 1]));
    await client.close();
    await using again = await openDatabase(`sqlite:${path}`);
    assert.deepEqual(await again.fetchAll('select id, title from note order by id'), [
      { id: 1, title: 'e' },
      { id: 2, title: 'b' },
      { id: 3, title: 'c' },
    ]);
  },
);
for (const { dialect, name, address } of SERVERS) {
  row(
    `${FACILITIES} / Database plugin DatabasePlugin(url)`,
    `a ${name} database can execute and fetch, and its server keeps the committed rows`,
    async (t) => {
      const url = await address(t, t);
      if (url === undefined) return;
      const key = dialect === 'postgres' ? 'generated by default as identity' : 'auto_increment';
      const { app } = make();
      app.register(new DatabasePlugin(url));
      app.get('/titles', { db: Depends(db) }, ({ db: notes }) =>
        notes.fetchAll('select title from note order by id'),
      );
      const client = clientOf(t, app);
      await client.get('/readyz'); // it has started
      const { db: notes } = app.state;
      await notes.execute(`create table note (id integer primary key ${key}, title varchar(100) unique)`);
      assert.deepEqual(await notes.execute('insert into note (title) values (?)', ['a']), {
        affectedRows: 1,
        lastInsertId: dialect === 'postgres' ? undefined : 1,
      });
      assert.equal(await notes.executeMany('insert into note (title) values (?)', [['b'], ['c'], ['d']]), 3);
      assert.deepEqual(await notes.fetchOne('select title from note where id = ?', [2]), { title: 'b' });
      await assert.rejects(
        notes.transaction(async (tx) => {
          await tx.execute('delete from note');
          await tx.executeMany('insert into note (title) values (?)', [['e'], ['e']]);
        }),
        UniqueViolation,
      );
      await notes.transaction((tx) => tx.execute('update note set title = ? where id = ?', ['f', 1]));
      assert.deepEqual(await (await client.get('/titles')).json(), [
        { title: 'f' },
        { title: 'b' },
        { title: 'c' },
        { title: 'd' },
      ]);
      await using again = await openDatabase(url);
      assert.equal(await again.scalar('select count(*) from note'), 4);
    },
  );
}

// ── §5 ──

const FRAMEWORK = '§5 Framework';
row(
  `${FRAMEWORK} / create_token(sub, secret, expires_in, claims)`,
  'createToken() returns three parts, and requires a subject and a secret of at least 32 bytes',
  () => {
    const token = createToken('ada', SECRET, { expiresInSeconds: 60, claims: { role: 'admin' } });
    assert.match(token, /^[\w-]+\.[\w-]+\.[\w-]+$/);
    const { iat, ...claims } = partOf(token, 1);
    assert.deepEqual(claims, { sub: 'ada', exp: (iat as number) + 60, role: 'admin' });
    assert.throws(() => createToken('', SECRET), { code: 'E_TOKEN_CLAIM' });
    assert.throws(() => createToken('ada', 'short'), { code: 'E_SECRET_WEAK' });
  },
);
row(
  `${FRAMEWORK} / verify_token(token, secret)`,
  'verifyToken() accepts only HS256, whatever algorithm the token names',
  () => {
    const [, claims] = createToken('ada', SECRET).split('.');
    const part = (header: object): string =>
      `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${claims}`;
    const { publicKey, privateKey } = generateKeyPairSync('rsa', {
      modulusLength: 2_048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    });
    assert.equal(
      verifyToken(
        `${part({ alg: 'HS256' })}.${createHmac('sha256', SECRET)
          .update(part({ alg: 'HS256' }))
          .digest('base64url')}`,
        SECRET,
      ).sub,
      'ada',
    );
    for (const token of [
      ...['none', 'None', 'NONE'].map((alg) => `${part({ alg })}.`),
      `${part({ alg: 'HS512' })}.${createHmac('sha512', SECRET)
        .update(part({ alg: 'HS512' }))
        .digest('base64url')}`,
      `${part({ alg: 'RS256' })}.${createSign('sha256')
        .update(part({ alg: 'RS256' }))
        .sign(privateKey, 'base64url')}`,
      `${part({ alg: 'RS256' })}.${createHmac('sha256', SECRET)
        .update(part({ alg: 'RS256' }))
        .digest('base64url')}`,
    ])
      assert.throws(() => verifyToken(token, SECRET), InvalidToken);
    // RFC 8725 §2.1: a public key taken for a shared secret
    assert.throws(() => verifyToken(createToken('ada', SECRET), publicKey), { code: 'E_SECRET_FORM' });
  },
);
row(`${FRAMEWORK} / hash_password, check_password`, 'each hash by PBKDF2 has a different salt', async () => {
  const [first, second] = await Promise.all([hashPassword('correct horse'), hashPassword('correct horse')]);
  assert.match(first, /^\$pbkdf2-sha256\$i=600000\$[\w+/]+\$[\w+/]+$/);
  assert.notEqual(first, second);
  const [, , iterations, salt, hash] = first.split('$');
  assert.equal(
    pbkdf2Sync('correct horse', Buffer.from(salt!, 'base64'), Number(iterations!.slice(2)), 32, 'sha256')
      .toString('base64')
      .replace(/=+$/, ''),
    hash,
  );
  assert.deepEqual(
    await Promise.all([
      checkPassword('correct horse', first),
      checkPassword('correct horse', second),
      checkPassword('wrong horse', first),
    ]),
    [true, true, false],
  );
});
row(
  `${FRAMEWORK} / Depends(require_roles("admin"))`,
  'requireRoles() returns the claims, and answers 401 without a token and 403 without the role',
  async (t) => {
    const { app } = make({ authSecret: SECRET });
    app.get('/', { me: Depends(requireRoles('admin')) }, ({ me }) => me.sub);
    const client = clientOf(t, app);
    const tokenWith = (roles: unknown): string => createToken('ada', SECRET, { claims: { roles } });
    assert.equal(await (await client.get('/', bearer(tokenWith(['admin'])))).text(), 'ada');
    assert.deepEqual(
      [
        (await client.get('/')).status,
        (await client.get('/', bearer('x'))).status,
        (await client.get('/', bearer(tokenWith(['user'])))).status,
        (await client.get('/', bearer(tokenWith('admin')))).status,
      ],
      [401, 401, 403, 403],
    );
  },
);
row(
  `${FRAMEWORK} / Depends(BearerAuth(secret))`,
  'BearerAuth returns the claims of a token that was signed with the secret',
  async (t) => {
    const { app } = make();
    app.get('/', { me: Depends(BearerAuth(SECRET)) }, ({ me }) => me.sub);
    const client = clientOf(t, app);
    assert.equal(await (await client.get('/', bearer(createToken('ada', SECRET)))).text(), 'ada');
    const [missing, invalid] = [
      await client.get('/'),
      await client.get('/', bearer(createToken('ada', SECRET.toUpperCase()))),
    ];
    assert.deepEqual([missing.status, missing.headers.get('www-authenticate')], [401, 'Bearer']);
    assert.deepEqual(
      [invalid.status, invalid.headers.get('www-authenticate')],
      [401, 'Bearer error="invalid_token"'],
    );
  },
);
row(
  `${FRAMEWORK} / SessionMiddleware()`,
  'SessionMiddleware keeps req.session in a signed cookie, and ignores a cookie that was changed',
  async (t) => {
    const { app } = make({ authSecret: SECRET });
    app
      .use(new SessionMiddleware())
      .get('/set', ({ req }) => {
        req.session.set('user', 'ada');
      })
      .get('/get', ({ req }) => String(req.session.get('user')));
    const client = clientOf(t, app);
    const [cookie] = (await client.get('/set')).headers.getSetCookie();
    assert.match(cookie!, /^svc_session=.*; HttpOnly/);
    assert.equal(await (await client.get('/get')).text(), 'ada');
    const [name, value] = cookie!.split(';')[0]!.split('=') as [string, string];
    client.cookies.set(name, value.slice(0, -1) + (value.endsWith('A') ? 'B' : 'A'));
    assert.equal(await (await client.get('/get')).text(), 'undefined');
  },
);
row(
  `${FRAMEWORK} / CSRFMiddleware()`,
  'CSRFMiddleware accepts the token in X-CSRF-Token or in the form field _csrf_token, and refuses a request without it',
  async (t) => {
    const { app } = make({ authSecret: SECRET });
    app
      .use(new SessionMiddleware())
      .use(new CSRFMiddleware())
      .get('/token', ({ req }) => csrfToken(req))
      .post('/', async ({ req }) => (await req.form()).get('x') ?? '');
    const client = clientOf(t, app);
    const token = await (await client.get('/token')).text();
    assert.equal((await client.post('/', { form: { x: '1' } })).status, 403);
    assert.equal(
      await (await client.post('/', { form: { x: '1' }, headers: { 'X-CSRF-Token': token } })).text(),
      '1',
    );
    assert.equal(await (await client.post('/', { form: { x: '1', _csrf_token: token } })).text(), '1');
    assert.equal(
      (
        await client.post('/', {
          form: { x: '1', _csrf_token: `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}` },
        })
      ).status,
      403,
    );
  },
);
row(
  `${FRAMEWORK} / CORSMiddleware()`,
  'CORSMiddleware lets only pages of the configured origins read responses',
  async (t) => {
    const { app } = make();
    app.use(new CORSMiddleware({ origins: ['https://app.example'] })).get('/', () => 'x');
    const client = clientOf(t, app);
    for (const [origin, expected] of [
      ['https://app.example', 'https://app.example'],
      ['https://evil.example', null],
    ] as const) {
      const response = await client.get('/', { headers: { origin } });
      assert.deepEqual(
        [response.headers.get('access-control-allow-origin'), response.headers.get('vary')],
        [expected, 'Origin'],
      );
    }
  },
);
row(`${FRAMEWORK} / SecurityHeadersMiddleware()`, 'every response has security headers', async (t) => {
  const { app } = make();
  app.use(new SecurityHeadersMiddleware()).get('/', () => new HTMLResponse('<p>x</p>'));
  const client = clientOf(t, app);
  for (const path of ['/', '/404']) {
    const { headers } = await client.get(path);
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
    assert.match(headers.get('content-security-policy') ?? '', /object-src 'none'/, path);
    assert.ok(headers.has('referrer-policy'), path);
  }
});
row(
  `${FRAMEWORK} / RateLimitMiddleware(per_minute=<n>)`,
  'RateLimitMiddleware answers 429 with Retry-After above the limit, and stores a limited number of clients',
  async (t) => {
    const { app } = make();
    app
      .use(
        new RateLimitMiddleware({
          perMinute: 2,
          store: new MemoryRateLimitStore({ maxBuckets: 5 }),
          key: (req) => req.headers['x-client'],
        }),
      )
      .get('/', () => 'x');
    const client = clientOf(t, app);
    const ask = (name: string): Promise<Response> => client.get('/', { headers: { 'x-client': name } });
    assert.deepEqual([(await ask('a')).status, (await ask('a')).status], [200, 200]);
    const refused = await ask('a');
    assert.equal(refused.status, 429);
    assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/);
    for (let each = 0; each < 20; each++) assert.equal((await ask(`other ${each}`)).status, 200);
  },
);
row(
  '§5 Plugin / 1',
  'every login has an S256 code challenge, and the token request also has the client secret',
  async (t) => {
    const site = await loginSite(t);
    const { page, state } = await site.begin();
    await site.back({ code: 'c', state });
    const { form } = site.fake.requests[0]!;
    assert.equal(
      createHash('sha256').update(form.get('code_verifier')!).digest('base64url'),
      page.searchParams.get('code_challenge'),
    );
    assert.ok(form.has('client_secret'));
  },
);
row('§5 Plugin / 2', 'redirect URIs must equal a list entry, and use https in production', async (t) => {
  const site = await loginSite(t);
  await refusedAs(
    await site.client.get('/oauth/login', { query: { redirect_uri: 'https://app.example/oauth/callback/' } }),
    400,
    'invalid_redirect_uri',
  );
  const plain = await loginSite(t, {
    plugin: { allowedRedirectUris: ['http://app.example/oauth/callback'] },
  });
  assert.throws(() => plain.app.compileAll(), { code: 'E_COMPILE', message: /not https/ });
});
row('§5 Plugin / 3', 'refresh tokens are stored as hashes', async (t) => {
  const site = await loginSite(t);
  const secret = (await site.login()).refresh_token.split('.')[3]!;
  const stored = await site.app.state.db.fetchOne('select * from svc_oauth_login');
  assert.equal(
    stored!['cur_hash'],
    createHash('sha256').update(Buffer.from(secret, 'base64url')).digest('hex'),
  );
  assert.ok(!JSON.stringify(stored).includes(secret));
});
row('§5 Plugin / 4', 'a login renews the id of the session', async (t) => {
  const site = await loginSite(t, {
    hasSession: true,
    more: (app) =>
      app.get('/session', ({ req }) => ({ id: req.session.id, user: req.session.get(currentUser) ?? null })),
  });
  const look = async (): Promise<{ id: string; user: string | null }> =>
    (await (await site.client.get('/session')).json()) as never;
  const before = await look();
  await site.login();
  const { id, user } = await look();
  assert.ok(id !== before.id && user === 'user-ada');
});
row(
  '§5 Plugin / 5',
  'without a secret in the environment the application does not start, and logins are rate limited',
  async (t) => {
    const { app } = make({ env: 'test' });
    app.register(new OAuthPlugin({ provider: githubProvider('id', 'secret'), onUser: () => 'ada' }));
    assert.throws(() => app.compileAll(), { code: 'E_COMPILE', message: /SVC_AUTH_SECRET/ });
    const site = await loginSite(t);
    for (let count = 0; count < 20; count++) await site.begin();
    await refusedAs(await site.client.get('/oauth/login'), 429, 'rate_limited');
  },
);
row('§5 Plugin / 6', 'access tokens have a jti and the scopes that requireScopes() checks', async (t) => {
  const site = await loginSite(t, {
    plugin: { scopes: ['read'] },
    more: (app) =>
      app
        .get('/read', { me: Depends(requireScopes('read')) }, () => 'yes')
        .get('/write', { me: Depends(requireScopes('write')) }, () => 'yes'),
  });
  const { access_token: token } = await site.login();
  assert.deepEqual([typeof claimsOf(token)['jti'], claimsOf(token)['scopes']], ['string', ['read']]);
  assert.deepEqual(
    [
      (await site.client.get('/read', bearer(token))).status,
      (await site.client.get('/write', bearer(token))).status,
    ],
    [200, 403],
  );
});
row('§5 Plugin / 7', 'responses with tokens and refusals are not cached', async (t) => {
  const site = await loginSite(t);
  const { state } = await site.begin();
  const login = await site.back({ code: 'c', state });
  assert.equal(login.headers.get('cache-control'), 'no-store');
  assert.equal((await site.refresh('x')).headers.get('cache-control'), 'no-store');
});

// ── §6 ──

row('§6 Events / 1', 'the logger svc_oauth logs logins and refreshes', async (t) => {
  const site = await loginSite(t);
  await site.refreshed((await site.login()).refresh_token);
  for (const event of ['login_started', 'login_succeeded', 'token_refreshed'])
    assert.equal(
      site.events.filter((line) => line['logger'] === 'svc_oauth' && line['event'] === event).length,
      1,
    );
});
row(
  '§6 Events / 2',
  'startup hooks run in order, shutdown hooks in reverse order, and both get the application',
  async () => {
    const { app } = make();
    const seen: string[] = [];
    app
      .onStartup((given) => void seen.push(given === app ? 'up 1' : 'another'))
      .onStartup(async () => void seen.push('up 2'))
      .onShutdown(() => void seen.push('down 1'))
      .onShutdown(() => void seen.push('down 2'));
    await app.startup();
    assert.deepEqual(seen.splice(0), ['up 1', 'up 2']);
    await app.shutdown();
    assert.deepEqual(seen, ['down 2', 'down 1']);
  },
);

// ── §7 ──

row(
  '§7 Exception classes / sentence 1',
  'HTTPException, its seven subclasses, Conflict, UnprocessableContent and TooManyRequests answer with their status',
  async (t) => {
    const family = [
      [BadRequest, 400],
      [Unauthorized, 401],
      [Forbidden, 403],
      [NotFound, 404],
      [MethodNotAllowed, 405],
      [PayloadTooLarge, 413],
      [InternalError, 500],
      [Conflict, 409],
      [UnprocessableContent, 422],
      [TooManyRequests, 429],
    ] as const;
    const { app } = make();
    for (const [Family, status] of family)
      app.get(`/${status}`, () => {
        throw new Family('because', { headers: { 'X-Why': 'yes' } });
      });
    app.get('/410', () => {
      throw new HTTPException(410, 'because', { headers: { 'X-Why': 'yes' } });
    });
    const client = clientOf(t, app);
    for (const status of [...family.map(([, code]) => code), 410]) {
      const response = await client.get(`/${status}`);
      const { status: reported, detail } = (await response.json()) as Record<string, unknown>;
      assert.deepEqual(
        [
          response.status,
          response.headers.get('content-type'),
          reported,
          detail,
          response.headers.get('x-why'),
        ],
        [status, 'application/problem+json', status, 'because', 'yes'],
      );
    }
    for (const [Family] of family) assert.ok(new Family() instanceof HTTPException);
  },
);
row(
  '§7 Exception classes / sentence 2',
  'an exception handler of the application replaces the problem document',
  async (t) => {
    const { app } = make();
    app
      .exceptionHandler(
        NotFound,
        (error, req) => new HTMLResponse(`<h1>${req.path}</h1>`, { status: error.status }),
      )
      .get('/thrown', () => {
        throw new NotFound();
      });
    const client = clientOf(t, app);
    for (const path of ['/thrown', '/unmatched']) {
      const response = await client.get(path);
      assert.deepEqual([response.status, await response.text()], [404, `<h1>${path}</h1>`]);
    }
  },
);

const RULES = '§7 Rules';
row(
  `${RULES} / Schema validation fails (JSON or form body)`,
  'a validation error is a 400 with all problems, and without submitted values',
  async (t) => {
    const { app } = make();
    app
      .post('/json', { body: User }, () => assert.fail('the handler ran'))
      .post('/form', { form: User }, () => assert.fail('the handler ran'));
    const client = clientOf(t, app);
    for (const [at, response] of [
      ['body', await client.post('/json', { json: { name: 'Voldemort', age: 151, home: {} } })],
      ['form', await client.post('/form', { form: { name: 'Voldemort', age: '151', share: '2' } })],
    ] as const) {
      const text = await response.text();
      assert.deepEqual(
        [response.status, response.headers.get('content-type')],
        [400, 'application/problem+json'],
      );
      const { errors, request_id: id } = JSON.parse(text) as {
        errors: { loc: string[]; code: string; message: string }[];
        request_id: string;
      };
      assert.equal(errors.length, 3);
      for (const { loc, code, message } of errors) assert.ok(loc[0] === at && code !== '' && message !== '');
      assert.doesNotMatch(text.replace(id, ''), /Voldemort|151/); // an id is random, and has any three digits now and then
    }
  },
);
row(`${RULES} / req.json body exceeds the cap`, 'status 413 is sent before the body ends', async (t) => {
  const { app } = make();
  app
    .post('/', async ({ req }) => reply200(await req.json()))
    .post('/typed', { body: User }, () => assert.fail('the handler ran'));
  const { port } = await serve(t, app);
  for (const path of ['/', '/typed']) {
    const client = await connection(t, port);
    client.send(
      `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10000001\r\n\r\n`,
    ); // its body never comes
    const answer = await client.answer();
    assert.deepEqual([answer.status, answer.field('content-type')], [413, 'application/problem+json']);
  }
});
row(`${RULES} / No route for path`, 'the response is a 404 problem document', async (t) => {
  const { app } = make();
  app.get('/here', () => 'x');
  const response = await clientOf(t, app).get('/there');
  assert.deepEqual(
    [
      response.status,
      response.headers.get('content-type'),
      ((await response.json()) as { status: unknown }).status,
    ],
    [404, 'application/problem+json', 404],
  );
});
row(
  `${RULES} / Route exists for path but not for the method`,
  'a wrong method gets a 405 problem document with Allow',
  async (t) => {
    const { app } = make();
    app.post('/here', () => 'x');
    const response = await clientOf(t, app).get('/here');
    assert.deepEqual(
      [
        response.status,
        response.headers.get('content-type'),
        ((await response.json()) as { status: unknown }).status,
      ],
      [405, 'application/problem+json', 405],
    );
    assert.match(response.headers.get('allow')!, /\bPOST\b/);
  },
);
row(
  `${RULES} / require_roles without valid authentication`,
  'a request without a valid token gets a 401 problem document with a challenge',
  async (t) => {
    const { app } = make({ authSecret: SECRET });
    app.get('/', { me: Depends(requireRoles('admin')) }, () => 'x');
    const client = clientOf(t, app);
    for (const request of [
      {},
      bearer('x'),
      bearer(createToken('ada', SECRET.toUpperCase(), { claims: { roles: ['admin'] } })),
      { headers: { authorization: 'Basic YTpi' } },
    ]) {
      const response = await client.get('/', request);
      assert.deepEqual(
        [response.status, response.headers.get('content-type')],
        [401, 'application/problem+json'],
      );
      assert.match(response.headers.get('www-authenticate')!, /^Bearer\b/);
    }
  },
);
row(`${RULES} / require_roles lacking the role`, 'the response is a 403 problem document', async (t) => {
  const { app } = make({ authSecret: SECRET });
  app.get('/', { me: Depends(requireRoles('admin')) }, () => 'x');
  const response = await clientOf(t, app).get(
    '/',
    bearer(createToken('ada', SECRET, { claims: { roles: ['superadmin'] } })),
  );
  assert.deepEqual(
    [response.status, response.headers.get('content-type')],
    [403, 'application/problem+json'],
  );
});
row(`${RULES} / Rate limit exceeded`, 'the answer is a 429 problem document with Retry-After', async (t) => {
  const { app } = make();
  app.use(new RateLimitMiddleware({ perMinute: 1 })).get('/', () => 'x');
  const client = clientOf(t, app);
  assert.equal((await client.get('/')).status, 200);
  const response = await client.get('/');
  assert.deepEqual(
    [response.status, response.headers.get('content-type')],
    [429, 'application/problem+json'],
  );
  const seconds = Number(response.headers.get('retry-after'));
  assert.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60);
});
row(`${RULES} / Database down on /readyz`, '/readyz answers 503', async (t) => {
  const { client, path } = databaseSite(t);
  assert.equal((await client.get('/readyz')).status, 200);
  renameSync(path, `${path}.away`);
  assert.equal((await client.get('/readyz')).status, 503);
});
row(
  `${RULES} / Token endpoint: invalid, expired or replayed grant`,
  'the response is 400 with the error invalid_grant',
  async (t) => {
    const site = await loginSite(t, { plugin: { refreshIdleTtlSeconds: 60, accessTtlSeconds: 60 } });
    await refusedAs(await site.refresh('invalid'), 400, 'invalid_grant');
    const [replayed, expired] = [await site.login(), await site.login()];
    await site.refreshed(replayed.refresh_token);
    await refusedAs(await site.refresh(replayed.refresh_token), 400, 'invalid_grant');
    await site.clock.advance(60_000);
    await refusedAs(await site.refresh(expired.refresh_token), 400, 'invalid_grant');
  },
);
row(
  `${RULES} / 1`,
  'every 4xx and 5xx response passes through the middleware, and has the request id',
  async (t) => {
    const { app } = make();
    app.use(layer('outer')).use(layer('inner'));
    app
      .get('/400', () => {
        throw new BadRequest();
      })
      .get('/500', () => {
        throw new Error('boom');
      })
      .get('/503', async () => {
        throw new HTTPException(503);
      });
    app
      .post('/405', () => 'x')
      .get('/invalid', { query: { page: Field(int) } }, () => 'x')
      .get(
        '/dependency',
        {
          one: Depends(() => {
            throw new Forbidden();
          }),
        },
        () => 'x',
      );
    const client = clientOf(t, app, { headers: { 'X-Request-Id': 'given-1' } });
    for (const [path, status] of [
      ['/400', 400],
      ['/500', 500],
      ['/503', 503],
      ['/404', 404],
      ['/405', 405],
      ['/%zz', 400],
      ['/invalid?page=x', 400],
      ['/dependency', 403],
    ] as const) {
      const response = await client.get(path);
      assert.deepEqual(
        [response.status, response.headers.get('x-layer'), response.headers.get('x-request-id')],
        [status, 'inner, outer', 'given-1'],
        path,
      );
      assert.equal(((await response.json()) as { request_id: unknown }).request_id, 'given-1', path);
    }
  },
);
row(`${RULES} / 1`, 'every 4xx and 5xx keeps the security, CORS and rate-limit fields', async (t) => {
  const { app } = make({ authSecret: SECRET });
  app
    .use(new SecurityHeadersMiddleware())
    .use(new CORSMiddleware({ origins: ['https://app.example'] }))
    .use(new RateLimitMiddleware({ perMinute: 8 }));
  app
    .get('/400', () => {
      throw new BadRequest();
    })
    .get('/401', { me: Depends(BearerAuth()) }, () => 'x')
    .get('/403', () => {
      throw new Forbidden();
    })
    .post('/405', () => 'x')
    .get('/500', () => {
      throw new Error('boom');
    });
  const client = clientOf(t, app, { headers: { origin: 'https://app.example' } });
  for (const [path, status] of [
    ['/400', 400],
    ['/401', 401],
    ['/403', 403],
    ['/404', 404],
    ['/405', 405],
    ['/500', 500],
    ['/%zz', 400],
    ['/404', 404],
    ['/404', 429],
  ] as const) {
    const { headers, ...response } = await client
      .get(path)
      .then((answer) => ({ status: answer.status, headers: answer.headers }));
    assert.equal(response.status, status, path);
    assert.deepEqual(
      [
        headers.get('x-content-type-options'),
        headers.get('access-control-allow-origin'),
        headers.has('ratelimit'),
        headers.has('x-request-id'),
      ],
      ['nosniff', 'https://app.example', true, true],
      `${path} ${status}`,
    );
  }
});
row(`${RULES} / 2`, 'the stack is in the response only with debug, and always in the log', async (t) => {
  for (const debug of [false, true]) {
    const { app, lines } = make({ debug });
    app.get('/', () => {
      throw new Error('boom');
    });
    const text = await (await clientOf(t, app).get('/')).text();
    assert.equal(/boom|spec\.integration|at .+:\d+:\d+/.test(text), debug);
    assert.match(lines.join(), /boom.*spec\.integration/);
  }
});
row(
  `${RULES} / 3`,
  'an exception is handled by the handler of its nearest ancestor class, and otherwise becomes a problem document',
  async (t) => {
    class Mine extends Forbidden {}
    const { app } = make();
    app
      .exceptionHandler(HTTPException, (error) => [`any ${error.status}`, error.status])
      .exceptionHandler(Forbidden, () => ['forbidden', 403]);
    app
      .get('/mine', () => {
        throw new Mine();
      })
      .get('/400', () => {
        throw new BadRequest();
      })
      .get('/500', () => {
        throw new RangeError();
      });
    const client = clientOf(t, app);
    assert.equal(await (await client.get('/mine')).text(), 'forbidden');
    assert.equal(await (await client.get('/400')).text(), 'any 400');
    assert.equal((await client.get('/500')).headers.get('content-type'), 'application/problem+json');
  },
);

// ── §8 ──

row('§8 Limits / req.json body cap', 'json() accepts 10 MB, and refuses one more byte', async (t) => {
  const { app } = make();
  app.post('/', async ({ req }) => String(await req.json()).length);
  const client = clientOf(t, app);
  const headers = { 'Content-Type': 'application/json' };
  const most = await client.post('/', { body: `"${'x'.repeat(9_999_998)}"`, headers });
  assert.deepEqual([most.status, await most.json()], [200, 9_999_998]);
  assert.equal((await client.post('/', { body: `"${'x'.repeat(9_999_999)}"`, headers })).status, 413);
});
row('§8 Limits / req.body cap', 'body() is limited only by its own argument', async (t) => {
  const { app } = make();
  app
    .post('/', async ({ req }) => (await req.body()).length)
    .post('/capped', async ({ req }) => (await req.body({ maxBytes: 11_999_999 })).length);
  const client = clientOf(t, app);
  const body = new Uint8Array(12_000_000);
  assert.equal(await (await client.post('/', { body })).json(), 12_000_000);
  assert.equal((await client.post('/capped', { body })).status, 413);
});
row(
  '§8 Limits / Rate limiter',
  'the default is 120 requests a minute, and the number of buckets is limited',
  async (t) => {
    const { app } = make();
    const store = new MemoryRateLimitStore({ maxBuckets: 100 });
    app.use(new RateLimitMiddleware({ store, key: (req) => req.headers['x-client'] })).get('/', () => 'x');
    const client = clientOf(t, app);
    for (let each = 0; each < 120; each++) assert.equal((await client.get('/')).status, 200);
    assert.equal((await client.get('/')).status, 429);
    for (let each = 0; each < 300; each++) await client.get('/', { headers: { 'x-client': String(each) } });
    assert.ok(store.size <= 100, `${store.size} buckets`);
  },
);
row(
  '§8 Limits / Cache',
  'by default, entries, bytes and lifetime are limited: 10,000 entries and 60 seconds',
  async () => {
    const cache = new MemoryCache();
    for (let n = 0; n <= 10_000; n++) cache.set(`${n}`, n, 60_000);
    assert.deepEqual([cache.size, cache.get('0'), cache.get('10000')], [10_000, undefined, 10_000]);
    const small = new MemoryCache({ maxBytes: 1_024 });
    small.set('large', 'x'.repeat(1_024), 60_000);
    assert.equal(small.get('large'), undefined);
    let nowMs = 0;
    const clock = {
      ...systemClock,
      monotonicMs: () => nowMs,
      after: (_ms: number, fn: () => void) => {
        queueMicrotask(fn);
        return { [Symbol.dispose]: () => undefined };
      },
    };
    let calls = 0;
    const count = cached(() => ++calls, { clock });
    for (const ms of [0, 59_999, 60_000]) {
      nowMs = ms;
      await count();
    }
    assert.equal(calls, 2);
  },
);
row('§8 Limits / Rate limits on /oauth/*', '/oauth/* has rate limits by default', async (t) => {
  const site = await loginSite(t);
  for (let count = 0; count < 20; count++) await site.back({ code: 'c', state: 'x' });
  await refusedAs(await site.back({ code: 'c', state: 'x' }), 429, 'rate_limited');
});

// ── §9 ──

row(
  '§9 Versioning / 1',
  'the package has a version from 1.4.0 up to but not including 2.0.0, like the plugin',
  async () => {
    const { default: manifest } = (await import('svc/package.json', { with: { type: 'json' } })) as {
      default: { version: string };
    };
    assert.match(manifest.version, /^1\.(?:[4-9]|\d\d+)\.\d+$/);
  },
);
row('§9 Versioning / 2', 'the constructor of Svc accepts a version', () => {
  assert.equal(make({ version: '3.2.1' }).app.version, '3.2.1');
});
row('§9 Versioning / 3', 'the OpenAPI document follows OpenAPI 3.1', () => {
  assert.match(make().app.openapi().openapi, /^3\.1\./);
});
row('§9 Versioning / 4', 'the token endpoint answers as RFC 6749 §5 defines', async (t) => {
  const site = await loginSite(t, { plugin: { scopes: ['read'] } });
  const { refresh_token: token } = await site.login();
  await refusedAs(await site.refresh(token, { grant_type: 'password' }), 400, 'unsupported_grant_type');
  await refusedAs(await site.client.post('/oauth/token', { form: {} }), 400, 'invalid_request');
  await refusedAs(await site.refresh(token, { scope: 'write' }), 400, 'invalid_scope');
  const response = await site.refresh(token, { scope: 'read' });
  assert.deepEqual(
    [response.headers.get('content-type'), response.headers.get('pragma')],
    ['application/json', 'no-cache'],
  );
  const { token_type: type, expires_in: seconds, scope } = (await response.json()) as Record<string, unknown>;
  assert.deepEqual([type, seconds, scope], ['Bearer', 900, 'read']);
});

// ── the specification itself ──

/** Prose that names what follows, or says what there is not. Sentences that end in "not shown" leave something open: no behaviour either. */
const NO_BEHAVIOUR = [
  '§1 What the service does / sentence 1',
  '§1 What the service does / sentence 6',
  '§3 States and transitions / sentence 1',
  '§3 States and transitions / sentence 2',
  '§6 Events / sentence 2',
];

/** Every row, rule and sentence of SPEC.md by its id. */
function rowsOf(specification: string): Map<string, string> {
  const rows = new Map<string, string>();
  const plain = (text: string): string => text.replace(/`|\*\*/g, '').trim();
  let place = '';
  let sentences = 0;
  for (const block of specification.split(/\n(?=[#|\d-])(?<!\|\n)|\n\n+/)) {
    const [, section, title] = /^## (\d)\. (.+)/.exec(block) ?? [];
    const heading = /^### (.+)/.exec(block)?.[1];
    if (title !== undefined || heading !== undefined) {
      place = title === undefined ? `${place.slice(0, 2)} ${heading!}` : `§${section!} ${title}`;
      sentences = 0;
    } else if (block.startsWith('|')) {
      const [, , ...cells] = block.split('\n').map((line) => line.slice(1, -1).split('|').map(plain));
      const isTold = new Set(cells.map(([first]) => first)).size === cells.length;
      for (const [first, second] of cells)
        rows.set(`${place} / ${isTold ? first : `${first} · ${second}`}`, block);
    } else if (/^\d+\. /.test(block)) rows.set(`${place} / ${parseInt(block, 10)}`, block);
    else if (block.startsWith('- ')) rows.set(`${place} / ${plain(/^- ([^:]+)/.exec(block)![1]!)}`, block);
    else if (place !== '' && block.trim() !== '')
      for (const sentence of block.split(/(?<=\.(?:\*\*)?) (?=[A-Z`*])/))
        rows.set(`${place} / sentence ${++sentences}`, sentence);
  }
  return rows;
}

test('each row and rule of SPEC.md has a test, and each of these tests belongs to a row or rule', () => {
  const rows = rowsOf(readFileSync(new URL('SPEC.md', import.meta.url), 'utf8'));
  const ids = new Set(rows.keys());
  for (const id of NO_BEHAVIOUR) assert.ok(ids.delete(id), `SPEC.md has no ${id}`);
  for (const [id, text] of rows)
    if (/sentence \d+$/.test(id) && /not shown\.?$/.test(text.trim())) ids.delete(id);
  assert.deepEqual([...ids.difference(tested)], [], 'rows without a test');
  assert.deepEqual([...tested.difference(ids)], [], 'tests without a row');
});
