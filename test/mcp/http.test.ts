/**
 * MCP over HTTP: header fields, sessions, streams and allowed origins, in both generations of the protocol.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  APIKeyAuth,
  BearerAuth,
  CORSMiddleware,
  CSRFMiddleware,
  ConcurrencyLimitMiddleware,
  Depends,
  Field,
  Forbidden,
  IdempotencyMiddleware,
  RateLimitMiddleware,
  SessionMiddleware,
  Svc,
  TrustedHostMiddleware,
  Unauthorized,
  createLogger,
  createToken,
  list,
  requireScopes,
  requireSession,
  sessionKey,
  str,
  toolProgress,
} from 'svc';
import { OAuthPlugin, OAuthProvider } from 'svc/oauth';
import { ManualClock, TestClient } from 'svc/testing';
import { gateOf, soon, until } from '../support/endings.ts';
import type { McpMountOptions, SvcOptions } from 'svc';
import type { TestClientOptions } from 'svc/testing';
import type { TestContext } from 'node:test';

type Json = Record<string, unknown>;

const SECRET = '3f0a9c7d5e1b48263f0a9c7d5e1b4826';
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const BOTH = 'application/json, text/event-stream';

interface Site {
  readonly app: Svc;
  readonly client: TestClient;
  readonly lines: string[];
  readonly gate: PromiseWithResolvers<void>;
  readonly aborted: PromiseWithResolvers<void>;
  readonly entered: PromiseWithResolvers<void>;
}

function site(
  t: TestContext,
  options: McpMountOptions = {},
  {
    prepare,
    app: appOptions,
    client: clientOptions,
  }: { prepare?: (app: Svc) => void; app?: SvcOptions; client?: TestClientOptions } = {},
): Site {
  const lines: string[] = [];
  const gate = gateOf(t),
    aborted = Promise.withResolvers<void>(),
    entered = Promise.withResolvers<void>();
  const app = new Svc({
    title: 'shop',
    env: 'test',
    authSecret: SECRET,
    logger: createLogger({ level: 'debug', format: 'json', sink: (line) => void lines.push(line) }),
    ...appOptions,
  });
  prepare?.(app);
  app
    .get('/items', () => ({ items: [1] }))
    .get('/me', { me: Depends(BearerAuth()) }, ({ me }) => ({ sub: me.sub }));
  app.get(
    '/key',
    { client: Depends(APIKeyAuth({ keys: { shop: 'a-long-enough-key-1' } })) },
    ({ client }) => ({ client }),
  );
  app.get(
    '/fields',
    { headers: { tenant: Field(str, { optional: true }), other: Field(str, { optional: true }) } },
    ({ headers, req }) => ({
      ...headers,
      ip: req.ip,
      host: req.host,
      scheme: req.scheme,
      custom: req.headers['x-custom'],
      hop: req.headers['x-hop'],
    }),
  );
  app.get('/wait', async ({ signal }) => {
    signal.addEventListener('abort', () => aborted.resolve());
    entered.resolve();
    await gate.promise;
    return 'waited';
  });
  app.get('/work', { progress: Depends(toolProgress) }, async ({ progress }) => {
    progress(1, 2, 'half');
    await gate.promise;
    progress(2, 2);
    return 'done';
  });
  app.post('/write', { public: true }, () => ({ written: true }));
  app.mountMcp('/mcp', options);
  const client = new TestClient(app, { raiseErrors: false, ...clientOptions });
  t.after(() => client.close());
  return { app, client, lines, gate, aborted, entered };
}

function post(
  { client }: Site,
  message: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  return soon(
    client.post('/mcp', {
      body: typeof message === 'string' ? message : JSON.stringify(message),
      headers: { 'content-type': 'application/json', accept: BOTH, ...headers },
      signal,
    }),
    'an answer of the endpoint',
  );
}

/** Returns a modern request with its header fields. */
function modern(
  of: Site,
  method: string,
  params: Json = {},
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  const name = params['name'] ?? params['uri'];
  const own = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
  };
  return post(
    of,
    { jsonrpc: '2.0', id: 1, method, params: { _meta: META, ...params } },
    { ...own, ...headers },
    signal,
  );
}

const initialize = (version = '2025-11-25'): Json => ({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: version, capabilities: {}, clientInfo: { name: 't', version: '1' } },
});

/** Returns a legacy client that has a session, as a function that sends a message of the session. */
async function legacy(
  of: Site,
  headers: Record<string, string> = {},
  version = '2025-11-25',
): Promise<{
  readonly id: string;
  send(message: unknown, more?: Record<string, string>, signal?: AbortSignal): Promise<Response>;
}> {
  const response = await post(of, initialize(version), headers);
  assert.equal(response.status, 200);
  await response.body?.cancel();
  const id = response.headers.get('mcp-session-id')!;
  return {
    id,
    send: (message, more, signal) =>
      post(
        of,
        message,
        { 'mcp-session-id': id, 'mcp-protocol-version': version, ...headers, ...more },
        signal,
      ),
  };
}

async function codeOf(response: Response): Promise<[status: number, code: unknown, id: unknown]> {
  const { error, id } = (await response.json()) as { error?: { code: number }; id?: unknown };
  return [response.status, error?.code, id];
}

/** Returns the messages of an event stream. */
async function* messages(response: Response): AsyncGenerator<Json> {
  assert.match(response.headers.get('content-type')!, /^text\/event-stream/);
  let text = '';
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data !== undefined) yield JSON.parse(data) as Json;
    }
  }
}

const call = (id: unknown, name: string, args: Json = {}, meta?: Json): Json => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) },
});

test('MCP over HTTP, version 2026-07-28: a request needs no session, and gets a JSON response', async (t) => {
  const response = await modern(site(t), 'tools/call', { name: 'get_items' });
  assert.deepEqual(
    [response.status, response.headers.get('mcp-session-id'), response.headers.get('cache-control')],
    [200, null, 'no-store'],
  );
  const { result } = (await response.json()) as { result: Json };
  assert.deepEqual([result['resultType'], result['structuredContent']], ['complete', { items: [1] }]);
});

test('MCP over HTTP, version 2026-07-28: if a header field is missing or contradicts the body, the answer is 400 with -32020', async (t) => {
  const of = site(t);
  const body = (params: Json, method = 'tools/call'): Json => ({
    jsonrpc: '2.0',
    id: 1,
    method,
    params: { _meta: META, ...params },
  });
  const good = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'get_items',
  };
  const without = (name: keyof typeof good): Record<string, string> =>
    Object.fromEntries(Object.entries(good).filter(([key]) => key !== name));
  assert.equal((await post(of, body({ name: 'get_items' }), good)).status, 200);
  for (const headers of [
    without('mcp-protocol-version'),
    without('mcp-method'),
    without('mcp-name'),
    { ...good, 'mcp-method': 'Tools/Call' },
    { ...good, 'mcp-name': 'other' },
    { ...good, 'mcp-protocol-version': '2025-11-25' },
    { ...good, 'mcp-name': '=?base64?%?=' },
    { ...good, 'mcp-name': '=?base64?Z2V0X2l0ZW1z' },
    { ...good, 'mcp-name': '=?BASE64?Z2V0X2l0ZW1z?=' },
  ]) {
    assert.deepEqual(
      await codeOf(await post(of, body({ name: 'get_items' }), headers)),
      [400, -32_020, 1],
      JSON.stringify(headers),
    );
  }
  assert.equal(
    (await post(of, body({ name: 'get_items' }), { ...good, 'mcp-name': '=?base64?Z2V0X2l0ZW1z?=' })).status,
    200,
  );
});

test('MCP over HTTP, version 2026-07-28: arguments that a tool names in paramHeaders must be repeated as Mcp-Param header fields', async (t) => {
  const of = site(
    t,
    {},
    {
      prepare: (app) => {
        app.tool(
          'move',
          {
            description: 'Moves',
            args: { region: Field(str, { optional: true }), count: Field(1), more: Field(false) },
            paramHeaders: { region: 'Region', count: 'Count', more: 'More' },
          },
          ({ args }) => args.region ?? 'nowhere',
        );
      },
    },
  );
  const cases: readonly (readonly [args: Json, headers: Record<string, string>, status: number])[] = [
    [{}, {}, 200],
    [{ region: null }, {}, 200],
    [{ region: 'eu', count: 2, more: true }, { region: 'eu', count: '2', more: 'true' }, 200],
    [{ region: 'Übersee' }, { region: `=?base64?${Buffer.from('Übersee').toString('base64')}?=` }, 200],
    [{ region: '=?base64?SGVsbG8=' }, { region: '=?base64?SGVsbG8=' }, 200],
    [{ region: 'eu' }, {}, 400],
    [{}, { region: 'eu' }, 400],
    [{ region: 'eu' }, { region: 'us' }, 400],
    [{ count: 2 }, { count: '2.0' }, 400],
    [{ region: 'Hello' }, { region: '=?base64?SGVsbG8?=' }, 400],
    [{ region: 'Hello' }, { region: '=?base64?SGVs!!!bG8=?=' }, 400],
  ];
  for (const [args, given, status] of cases) {
    const headers = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [`mcp-param-${name}`, value]),
    );
    const response = await modern(of, 'tools/call', { name: 'move', arguments: args }, headers);
    const { error } = (await response.json()) as { error?: { code: number } };
    const shown = JSON.stringify([args, given]);
    assert.deepEqual([response.status, error?.code], [status, status === 200 ? undefined : -32_020], shown);
  }
  const listed = (await (await modern(of, 'tools/list')).json()) as {
    result: { tools: { name: string; inputSchema: { properties: Json } }[] };
  };
  const { properties } = listed.result.tools.find(({ name }) => name === 'move')!.inputSchema;
  assert.equal((properties['region'] as Json)['x-mcp-header'], 'Region');
  for (const [args, paramHeaders] of [
    [{ a: Field(str) }, { b: 'B' }],
    [{ a: Field(list(str)) }, { a: 'A' }],
    [
      { a: Field(str), b: Field(str) },
      { a: 'A', b: 'a' },
    ],
    [{ a: Field(str) }, { a: 'no name' }],
  ] as const) {
    const app = new Svc({ env: 'test' });
    assert.throws(
      () => app.tool('odd', { description: 'Odd', args, paramHeaders }, () => 1).mcpTools(),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(paramHeaders),
    );
  }
});

test('MCP over HTTP, version 2026-07-28: a request without _meta members or with an unknown version gets 400, and an unknown method gets 404', async (t) => {
  const of = site(t);
  const fields = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' };
  const ask = (meta: unknown, headers: Record<string, string> = fields): Promise<Response> =>
    post(of, { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } }, headers);
  assert.deepEqual(await codeOf(await ask({})), [400, -32_602, 1]);
  assert.deepEqual(
    await codeOf(await ask({ 'io.modelcontextprotocol/protocolVersion': '2026-07-28' })),
    [400, -32_602, 1],
  );
  assert.deepEqual(
    await codeOf(await ask({ ...META, 'io.modelcontextprotocol/protocolVersion': { toString: 1 } })),
    [400, -32_602, 1],
  );
  assert.deepEqual(
    await codeOf(
      await modern(of, 'completion/complete', {
        ref: { type: 'ref/prompt', name: { toString: 1 } },
        argument: { name: 'a', value: '' },
      }),
    ),
    [200, -32_602, 1],
  );
  const old = { ...META, 'io.modelcontextprotocol/protocolVersion': '1900-01-01' };
  const response = await ask(old, { ...fields, 'mcp-protocol-version': '1900-01-01' });
  assert.equal(response.status, 400);
  assert.deepEqual(((await response.json()) as { error: unknown }).error, {
    code: -32_022,
    message: 'Unsupported protocol version',
    data: {
      supported: ['2026-07-28'],
      requested: '1900-01-01',
    },
  });
  for (const method of ['ping', 'initialize'])
    assert.deepEqual(await codeOf(await modern(of, method)), [404, -32_601, 1], method);
  assert.deepEqual(await codeOf(await modern(of, 'ping')), [404, -32_601, 1]);
  assert.deepEqual(await codeOf(await modern(of, 'tools/call', { name: 'nope' })), [200, -32_602, 1]);
  assert.equal(
    (await post(of, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }, fields))
      .status,
    202,
  );
});

test('MCP over HTTP, version 2026-07-28: if a tool reports progress, the response is an event stream that ends with the result', async (t) => {
  const of = site(t);
  const params = { name: 'get_work', _meta: { ...META, progressToken: 'p' } };
  const reported = messages(await modern(of, 'tools/call', params));
  assert.deepEqual((await reported.next()).value, {
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: 'p', progress: 1, total: 2, message: 'half' },
  });
  of.gate.resolve();
  assert.equal(((await reported.next()).value as Json)['method'], 'notifications/progress');
  assert.equal(((await reported.next()).value as Json)['id'], 1);
  assert.equal((await reported.next()).done, true);
  const json = await modern(of, 'tools/call', params, { accept: 'application/json' });
  assert.match(json.headers.get('content-type')!, /^application\/json/);
});

test('MCP over HTTP, version 2026-07-28: if the client disconnects before a JSON response or during an event stream, its request is cancelled', async (t) => {
  const first = site(t);
  const abort = new AbortController();
  modern(first, 'tools/call', { name: 'get_wait' }, {}, abort.signal).catch(() => undefined);
  await soon(first.entered.promise, 'the call');
  abort.abort();
  await soon(first.aborted.promise, 'the call to be aborted');
  first.gate.resolve();

  const second = site(
    t,
    {},
    {
      prepare: (app) =>
        app.get('/streamed', { progress: Depends(toolProgress) }, async ({ progress, signal }) => {
          signal.addEventListener('abort', () => second.aborted.resolve());
          progress(1);
          await second.gate.promise;
          return 1;
        }),
    },
  );
  const response = await modern(second, 'tools/call', {
    name: 'get_streamed',
    _meta: { ...META, progressToken: 1 },
  });
  const reported = messages(response);
  await reported.next();
  await reported.return(undefined);
  await soon(second.aborted.promise, 'the call to be aborted');
  second.gate.resolve();
});

test('MCP over HTTP, version 2026-07-28: if the client closes its socket, its request is cancelled', async (t) => {
  const of = site(t, {}, { client: { listen: true } });
  const abort = new AbortController();
  const waiting = modern(of, 'tools/call', { name: 'get_wait' }, {}, abort.signal).catch(() => undefined);
  await soon(of.entered.promise, 'the call');
  abort.abort();
  await soon(of.aborted.promise, 'the call to be aborted');
  of.gate.resolve();
  await waiting;
});

test('app.check() reports SVC305 for two MCP tools of one name, and for a tool that writes and has no description', () => {
  const app = new Svc({ env: 'test' });
  app
    .get('/a', { mcp: { name: 'same' } }, () => 1)
    .get('/b', { mcp: { name: 'same' } }, () => 1)
    .get('/u/{id}', () => 1)
    .get('/u/by/id', () => 1);
  app
    .post('/silent', { public: true }, () => 1)
    .post('/explained', { public: true, mcp: { description: 'Writes' } }, () => 1)
    .post('/told', { public: true, summary: 'Writes' }, () => 1)
    .post('/no-tool', { public: true, mcp: false }, () => 1);
  app
    .prompt('same', {}, () => 'x')
    .tool('get_a', { description: 'x' }, () => 1)
    .tool('same', { description: 'x' }, () => 1)
    .tool('undescribed', {}, () => 1);
  const found = (): unknown[] =>
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC305')
      .map(({ subject, severity, place }) => [subject, severity, place?.file.endsWith('mcp/http.test.ts')]);
  const twins = [
    ['GET /b', 'error', true],
    ['POST /mcp/tools/same', 'error', true],
    ['POST /mcp/tools/undescribed', 'warning', true],
  ];
  const sorted = (all: unknown[]): unknown[] =>
    all.toSorted((left, right) => String(left).localeCompare(String(right)));
  assert.deepEqual(sorted(found()), sorted(twins));
  app.mountMcp('/mcp');
  assert.deepEqual(
    sorted(found()),
    sorted([...twins, ['GET /u/by/id', 'warning', true], ['POST /silent', 'warning', true]]),
  );
  assert.deepEqual(
    app.mcpTools().map(({ name }) => name),
    [
      'same',
      'same_2',
      'get_u_by_id',
      'get_u_by_id_2',
      'post_silent',
      'post_explained',
      'post_told',
      'get_a',
      'same_3',
      'undescribed',
    ],
  );
});

test('MCP over HTTP, version 2026-07-28: if a tool takes long, the response becomes an event stream, so that the connection stays open', async (t) => {
  const clock = new ManualClock();
  const of = site(t, {}, { client: { clock } });
  const waiting = modern(of, 'tools/call', { name: 'get_wait' });
  await soon(of.entered.promise, 'the call');
  await clock.advance(10_000);
  const reported = messages(await waiting);
  of.gate.resolve();
  assert.equal(((await reported.next()).value as Json)['id'], 1);
});

test('MCP over HTTP, version 2026-07-28: subscriptions/listen is acknowledged on the event stream of its response', async (t) => {
  const of = site(t);
  const response = await modern(of, 'subscriptions/listen', { notifications: { toolsListChanged: true } });
  const reported = messages(response);
  assert.deepEqual((await reported.next()).value, {
    jsonrpc: '2.0',
    method: 'notifications/subscriptions/acknowledged',
    params: { _meta: { 'io.modelcontextprotocol/subscriptionId': 1 }, notifications: {} },
  });
  await reported.return(undefined);
  assert.equal(
    (await modern(of, 'subscriptions/listen', { notifications: {} }, { accept: 'application/json' })).status,
    406,
    'it would wait for ever',
  );
});

test('MCP over HTTP, shutdown: the server ends subscriptions, and waits for a call whose event stream has begun', async (t) => {
  const of = site(t);
  const { url, close } = await of.app.run({ port: 0, handleSignals: false, drainSeconds: 20 });
  t.after(() => close());
  const send = (method: string, params: Json): Promise<Response> =>
    fetch(`${url}/mcp`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { _meta: META, ...params } }),
      headers: {
        'content-type': 'application/json',
        accept: BOTH,
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        ...(params['name'] === undefined ? {} : { 'mcp-name': String(params['name']) }),
      },
    });
  const working = messages(
    await send('tools/call', { name: 'get_work', _meta: { ...META, progressToken: 'p' } }),
  );
  assert.equal(((await working.next()).value as Json)['method'], 'notifications/progress');
  const listening = messages(await send('subscriptions/listen', { notifications: {} }));
  assert.equal(
    ((await listening.next()).value as Json)['method'],
    'notifications/subscriptions/acknowledged',
  );
  const { id } = await legacy(of);
  const idle = await fetch(`${url}/mcp`, {
    headers: { 'mcp-session-id': id, accept: 'text/event-stream' },
  });
  const closing = close();
  assert.deepEqual(
    [await listening.next(), (await listening.next()).done],
    [
      {
        done: false,
        value: {
          jsonrpc: '2.0',
          id: 1,
          result: {
            resultType: 'complete',
            _meta: {
              'io.modelcontextprotocol/subscriptionId': 1,
              'io.modelcontextprotocol/serverInfo': { name: 'shop', title: 'shop', version: '1.0.0' },
            },
          },
        },
      },
      true,
    ],
  );
  assert.equal((await idle.text()).replaceAll(/^:?\n/gm, ''), '');
  of.gate.resolve();
  assert.equal(((await working.next()).value as Json)['method'], 'notifications/progress');
  assert.deepEqual(((await working.next()).value as { result: Json }).result['content'], [
    { type: 'text', text: 'done' },
  ]);
  assert.equal((await working.next()).done, true);
  await closing;
  assert.deepEqual(
    of.lines.filter((line) => line.includes('drain_deadline_exceeded')),
    [],
  );
});

test('MCP over HTTP, before version 2026-07-28: the response to initialize has a session id, which the client sends with later requests', async (t) => {
  const of = site(t);
  for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    const { id, send } = await legacy(of, {}, version);
    assert.match(id, /^[\x21-\x7e]+$/);
    assert.equal((await send({ jsonrpc: '2.0', method: 'notifications/initialized' })).status, 202);
    assert.equal((await send({ jsonrpc: '2.0', id: 5, result: {} })).status, 202);
    const response = await send({ jsonrpc: '2.0', id: 1, method: 'ping' });
    assert.deepEqual([response.status, await response.json()], [200, { jsonrpc: '2.0', id: 1, result: {} }]);
    assert.deepEqual(await codeOf(await send({ jsonrpc: '2.0', id: 1, method: 'nope' })), [200, -32_601, 1]);
    assert.deepEqual(await codeOf(await send(initialize())), [200, -32_600, 0]);
  }
});

test('MCP over HTTP, before version 2026-07-28: a request without a session gets 400, and a request with an invalid session gets 404', async (t) => {
  const clock = new ManualClock();
  const of = site(t, { sessionSeconds: 60 }, { client: { clock } });
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const { id, send } = await legacy(of, { authorization: 'Bearer a' });
  assert.equal((await send(ping)).status, 200);
  assert.deepEqual(await codeOf(await post(of, ping)), [400, -32_600, 1]);
  assert.deepEqual(
    await codeOf(await post(of, ping, { 'mcp-session-id': id, authorization: 'Bearer b' })),
    [404, -32_600, 1],
  );
  assert.equal(
    (
      await post(of, ping, {
        'mcp-session-id': `${id.slice(0, -2)}${id.endsWith('AA') ? 'QA' : 'AA'}`,
        authorization: 'Bearer a',
      })
    ).status,
    404,
  );
  assert.equal((await post(of, ping, { 'mcp-session-id': 'x', authorization: 'Bearer a' })).status, 404);
  const other = await legacy(of, { authorization: 'Bearer a' });
  assert.equal(
    (await of.client.delete('/mcp', { headers: { 'mcp-session-id': other.id, authorization: 'Bearer a' } }))
      .status,
    204,
  );
  assert.equal((await other.send(ping)).status, 404);
  assert.equal(
    (await of.client.delete('/mcp', { headers: { 'mcp-session-id': other.id, authorization: 'Bearer a' } }))
      .status,
    404,
  );
  assert.equal((await send(ping)).status, 200);
  await clock.advance(60_000);
  assert.equal((await send(ping)).status, 404);
});

test('MCP over HTTP, before version 2026-07-28: a session is valid in every process that has the same secret', async (t) => {
  const { id } = await legacy(site(t));
  assert.equal(
    (await post(site(t), { jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-session-id': id })).status,
    200,
  );
  assert.equal(
    (
      await post(
        site(t, {}, { app: { authSecret: `${SECRET}x` } }),
        { jsonrpc: '2.0', id: 1, method: 'ping' },
        { 'mcp-session-id': id },
      )
    ).status,
    404,
  );
});

test('MCP over HTTP, before version 2026-07-28: a session that began with a token accepts other tokens of its subject, but no token of another subject', async (t) => {
  const of = site(t, { deps: { me: Depends(BearerAuth()) } });
  let tokens = 0;
  const token = (sub: string): { authorization: string } => ({
    authorization: `Bearer ${createToken(sub, SECRET, { claims: { n: ++tokens } })}`,
  });
  assert.equal((await post(of, initialize())).status, 401);
  const { send } = await legacy(of, token('ada'));
  assert.equal((await send({ jsonrpc: '2.0', id: 1, method: 'ping' }, token('ada'))).status, 200);
  assert.equal((await send({ jsonrpc: '2.0', id: 1, method: 'ping' }, token('bob'))).status, 404);
});

test('MCP over HTTP, before version 2026-07-28: only a session that began with a token requires a token in later requests', async (t) => {
  const of = site(t, { deps: { me: Depends(BearerAuth(undefined, { optional: true })) } });
  const token = { authorization: `Bearer ${createToken('ada', SECRET)}` };
  const anonymous = await legacy(of);
  assert.equal((await anonymous.send(call(1, 'get_me'), token)).status, 200);
  assert.equal((await anonymous.send(call(2, 'get_items'))).status, 200);
  const { id, send } = await legacy(of, token);
  assert.equal((await send(call(3, 'get_me'))).status, 200);
  assert.equal(
    (await post(of, call(4, 'get_items'), { 'mcp-session-id': id, 'mcp-protocol-version': '2025-11-25' }))
      .status,
    404,
  );
});

test('MCP over HTTP, before version 2026-07-28: if a client sends a cookie, the MCP session belongs to the identity in the cookie', async (t) => {
  const user = sessionKey<string>('user');
  const of = site(
    t,
    { deps: { me: Depends(requireSession(user)) } },
    {
      prepare: (app) =>
        void app
          .use(new SessionMiddleware())
          .post('/login/{name}', { public: 'test', mcp: false }, ({ params, req }) => {
            req.session.regenerate();
            req.session.set(user, params.name);
          }),
    },
  );
  const login = async (name: string): Promise<string> =>
    (await of.client.post(`/login/${name}`)).headers.getSetCookie()[0]!.split(';', 1)[0]!;
  const ada = await login('ada'),
    bob = await login('bob');
  assert.notEqual(ada, bob);
  const began = await post(
    of,
    {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
    },
    { cookie: ada },
  );
  const session = { 'mcp-session-id': began.headers.get('mcp-session-id')! };
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  assert.deepEqual(
    [
      (await post(of, list, { ...session, cookie: ada })).status,
      (await post(of, list, { ...session, cookie: bob })).status,
    ],
    [200, 404],
  );

  const keyed = site(t, {
    deps: {
      me: Depends(
        APIKeyAuth({ cookie: 'key', keys: { one: 'the-first-key-0001', two: 'another-key-0002' } }),
      ),
    },
  });
  const first = await post(
    keyed,
    {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
    },
    { cookie: 'key=the-first-key-0001' },
  );
  const id = { 'mcp-session-id': first.headers.get('mcp-session-id')! };
  assert.deepEqual(
    [
      (await post(keyed, list, { ...id, cookie: 'key=the-first-key-0001' })).status,
      (await post(keyed, list, { ...id, cookie: 'key=another-key-0002' })).status,
    ],
    [200, 404],
  );
});

test('MCP over HTTP, before version 2026-07-28: an unknown MCP-Protocol-Version gets 400, and with sessions: false no request needs a session', async (t) => {
  const of = site(t);
  const { send } = await legacy(of);
  assert.deepEqual(
    (
      await codeOf(
        await send({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-protocol-version': '1900-01-01' }),
      )
    ).slice(0, 2),
    [400, -32_022],
  );
  const bare = site(t, { sessions: false });
  const response = await post(bare, initialize());
  assert.equal(response.headers.get('mcp-session-id'), null);
  const { result } = (await (
    await post(bare, call(1, 'get_items'), { 'mcp-protocol-version': '2025-06-18' })
  ).json()) as { result: Json };
  assert.deepEqual(result['structuredContent'], { items: [1] });
  const older = (await (await post(bare, call(1, 'get_items'))).json()) as { result: Json };
  assert.equal(older.result['structuredContent'], undefined, 'no field: 2025-03-26');
  assert.equal((await bare.client.get('/mcp', { headers: { accept: 'text/event-stream' } })).status, 405);
});

test('MCP over HTTP: a request with an unsupported MCP-Protocol-Version gets 400 with -32022, and is not executed (MCP 2025-06-18, Transports)', async (t) => {
  const of = site(t);
  const { id, send } = await legacy(of, {}, '2025-03-26');
  const unknown = { 'mcp-protocol-version': '1900-01-01' };
  const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
  for (const message of [
    notification,
    { jsonrpc: '2.0', id: 7, result: {} },
    [{ jsonrpc: '2.0', id: 1, method: 'ping' }],
  ])
    assert.deepEqual(
      await codeOf(await send(message, unknown)),
      [400, -32_022, undefined],
      JSON.stringify(message),
    );
  const headers = { 'mcp-session-id': id, accept: 'text/event-stream', ...unknown };
  assert.deepEqual(await codeOf(await of.client.get('/mcp', { headers })), [400, -32_022, undefined]);
  assert.deepEqual(await codeOf(await of.client.delete('/mcp', { headers })), [400, -32_022, undefined]);
  assert.equal(
    (await send({ jsonrpc: '2.0', id: 1, method: 'ping' })).status,
    200,
    'the session is still there',
  );
  assert.equal((await post(of, notification, { 'mcp-protocol-version': '2026-07-28' })).status, 202);
  const bare = site(t, { sessions: false });
  assert.deepEqual(await codeOf(await post(bare, [{ jsonrpc: '2.0', id: 1, method: 'ping' }], unknown)), [
    400,
    -32_022,
    undefined,
  ]);
  assert.deepEqual(
    await codeOf(
      await post(bare, [{ jsonrpc: '2.0', id: 1, method: 'ping' }], {
        'mcp-protocol-version': '2026-07-28',
      }),
    ),
    [400, -32_600, undefined],
    'a version without batches',
  );
  assert.equal(
    (await post(bare, [{ jsonrpc: '2.0', id: 1, method: 'ping' }])).status,
    200,
    'no field: 2025-03-26',
  );
});

test('MCP over HTTP, Accept: a type with weight 0 is excluded, and the most specific media range decides (RFC 9110 §12.5.1)', async (t) => {
  const of = site(t);
  const { send } = await legacy(of);
  of.gate.resolve();
  const telling = call(1, 'get_work', {}, { progressToken: 'p' });
  const typeOf = async (accept: string): Promise<[number, string | undefined]> => {
    const response = await send(telling, { accept });
    await response.text();
    return [response.status, response.headers.get('content-type')?.split(';')[0]];
  };
  assert.deepEqual(await typeOf('application/json, text/event-stream;q=0.1'), [200, 'text/event-stream']);
  for (const accept of [
    'application/json, text/event-stream;q=0',
    'application/json, text/event-stream; Q=0.000, */*',
    'text/*;q=0, */*',
  ])
    assert.deepEqual(await typeOf(accept), [200, 'application/json'], accept);
  assert.deepEqual((await typeOf('application/json;q=0, text/event-stream;q=0'))[0], 406);
  assert.deepEqual(
    await typeOf('application/json, text/event-stream;level=1;q=0, text/event-stream'),
    [200, 'text/event-stream'],
    'a range with parameters is another one',
  );
});

test('MCP over HTTP: only versions of the protocol up to 2025-03-26 accept batches', async (t) => {
  const of = site(t);
  const { send } = await legacy(of, {}, '2025-03-26');
  const response = await send([
    { jsonrpc: '2.0', id: 1, method: 'ping' },
    { jsonrpc: '2.0', method: 'x' },
    7,
    { ...initialize(), id: 2 },
    call(3, 'get_items'),
  ]);
  assert.deepEqual(
    ((await response.json()) as Json[]).map(({ id, error }) => [id, (error as Json | undefined)?.['code']]),
    [
      [1, undefined],
      [null, -32_600],
      [2, -32_600],
      [3, undefined],
    ],
  );
  assert.equal((await send([{ jsonrpc: '2.0', method: 'x' }])).status, 202);
  assert.deepEqual(
    (
      (await (
        await send([
          {
            jsonrpc: '2.0',
            id: 4,
            method: 'subscriptions/listen',
            params: { _meta: META, notifications: {} },
          },
        ])
      ).json()) as Json[]
    ).map(({ id, error }) => [id, (error as Json)['code']]),
    [[4, -32_600]],
    'it would never be answered',
  );
  assert.equal((await send([])).status, 400);
  assert.equal((await (await legacy(of)).send([{ jsonrpc: '2.0', id: 1, method: 'ping' }])).status, 400);
  assert.equal((await post(of, [{ jsonrpc: '2.0', id: 1, method: 'ping' }])).status, 400);
});

test('MCP over HTTP, before version 2026-07-28: a request is ended by notifications/cancelled in its session, but not by a disconnect', async (t) => {
  const of = site(t);
  const { send } = await legacy(of);
  const waiting = send(call('w', 'get_wait'));
  await soon(of.entered.promise, 'the call');
  assert.deepEqual(await codeOf(await send(call('w', 'get_items'))), [200, -32_600, 'w']);
  assert.equal(
    (await send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'w' } })).status,
    202,
  );
  await soon(of.aborted.promise, 'the call to be aborted');
  assert.equal((await waiting).status, 202);
  of.gate.resolve();

  const other = site(t);
  const session = await legacy(other);
  const abort = new AbortController();
  let isAborted = false;
  void other.aborted.promise.then(() => {
    isAborted = true;
  });
  const left = session.send(call('w', 'get_wait'), {}, abort.signal).catch(() => undefined);
  await soon(other.entered.promise, 'the call');
  abort.abort();
  await session.send({ jsonrpc: '2.0', id: 1, method: 'ping' });
  assert.equal(isAborted, false);
  other.gate.resolve();
  await left;
});

test('MCP over HTTP, before version 2026-07-28: GET opens the event stream of a session, and GET or DELETE without a session gets 405', async (t) => {
  const of = site(t);
  const { id } = await legacy(of);
  const headers = { 'mcp-session-id': id, accept: 'text/event-stream' };
  const response = await of.client.get('/mcp', { headers });
  assert.deepEqual(
    [response.status, response.headers.get('content-type')!.split(';')[0]],
    [200, 'text/event-stream'],
  );
  await response.body!.cancel();
  assert.equal(
    (await of.client.get('/mcp', { headers: { ...headers, accept: 'application/json' } })).status,
    406,
  );
  assert.equal((await of.client.get('/mcp', { headers: { accept: 'text/event-stream' } })).status, 405);
  assert.equal((await of.client.delete('/mcp')).status, 405);
  assert.equal((await of.client.get('/mcp', { headers: { ...headers, 'mcp-session-id': 'x' } })).status, 404);
});

test('MCP over HTTP, bodies: invalid JSON, an invalid message, an oversized body and another media type are refused', async (t) => {
  const of = site(t, { maxBodyBytes: 1_000 });
  assert.deepEqual(await codeOf(await post(of, 'garbage')), [400, -32_700, null]);
  assert.deepEqual(await codeOf(await post(of, 'garbage', { 'mcp-protocol-version': '2026-07-28' })), [
    400,
    -32_700,
    undefined,
  ]);
  const broken = await of.client.post('/mcp', {
    body: Buffer.from('7b226a736f6e727063223a22ff227d', 'hex'),
    headers: { 'content-type': 'application/json', accept: BOTH },
  });
  assert.deepEqual(await codeOf(broken), [400, -32_700, null], 'no UTF-8, so no JSON either (RFC 8259 §8.1)');
  assert.deepEqual(await codeOf(await post(of, { jsonrpc: '2.0', id: 3 })), [400, -32_600, 3]);
  assert.equal((await post(of, { a: 'x'.repeat(1_000) })).status, 413);
  assert.equal((await post(of, initialize(), { 'content-type': 'text/plain' })).status, 415);
  assert.equal((await post(of, initialize(), { accept: 'text/html' })).status, 406);
  assert.equal((await of.client.put('/mcp')).status, 405);
});

test("MCP over HTTP, header fields Origin and Host: only the application's own and the configured values are accepted", async (t) => {
  const ok = (of: Site, headers: Record<string, string>): Promise<number> =>
    post(of, initialize(), headers).then((response) => response.status);
  const of = site(t, { origins: ['https://app.example'] });
  assert.equal(await ok(of, { origin: 'http://localhost' }), 200);
  assert.equal(await ok(of, { origin: 'http://localhost:6274' }), 200, 'a page of this machine');
  assert.equal(await ok(of, { origin: 'https://app.example' }), 200);
  for (const origin of [
    'https://evil.example',
    'null',
    'http://localhost.evil.example',
    'http://evil.example:80',
  ])
    assert.equal(await ok(of, { origin }), 403, origin);
  assert.equal(
    await ok(of, { host: 'evil.example', origin: 'http://evil.example' }),
    403,
    'a name that is made to point here',
  );
  for (const host of ['evil.example', 'localhost.evil.example', '10.0.0.1'])
    assert.equal(await ok(of, { host }), 403, host);
  for (const host of ['localhost:9', '127.0.0.1:80', '[::1]:80'])
    assert.equal(await ok(of, { host }), 200, host);
  const named = site(
    t,
    { hosts: ['api.example'] },
    { app: { env: 'production' }, client: { env: 'production' } },
  );
  assert.deepEqual(
    [await ok(named, { host: 'api.example:443' }), await ok(named, { host: 'localhost' })],
    [200, 403],
  );
  const trusted = site(
    t,
    {},
    {
      prepare: (app) => app.use(new TrustedHostMiddleware({ hosts: ['api.example'] })),
      app: { env: 'production' },
      client: { env: 'production' },
    },
  );
  assert.deepEqual(
    [await ok(trusted, { host: 'api.example' }), await ok(trusted, { host: 'evil.example' })],
    [200, 421],
  );
  const production = site(t, {}, { app: { env: 'production' }, client: { env: 'production' } });
  assert.equal(await ok(production, { origin: 'http://localhost:6274' }), 403);
  const behind = (trustProxy: boolean): Site =>
    site(
      t,
      { hosts: ['api.example'] },
      {
        app: { env: 'production', ...(trustProxy ? { config: { trustProxy: '10.0.0.1' } } : {}) },
        client: { env: 'production' },
      },
    );
  const [unsaid, reported] = [behind(false), behind(true)];
  for (const origin of ['https://api.example', 'http://api.example'])
    assert.equal(
      await ok(unsaid, { host: 'api.example', origin }),
      200,
      `${origin}: a proxy that nobody has told of may speak TLS for us`,
    );
  assert.deepEqual(
    [
      await ok(reported, { host: 'api.example', origin: 'https://api.example' }),
      await ok(reported, { host: 'api.example', origin: 'http://api.example' }),
    ],
    [403, 200],
  );
  assert.equal(await ok(unsaid, { host: 'api.example', origin: 'https://other.example' }), 403);
  assert.ok(of.lines.some((line) => line.includes('"mcp_refused"')));
});

test('an MCP call passes to the route only credentials, the header fields that the route reads, and the fields in the option "headers"', async (t) => {
  const of = site(t, { headers: ['X-Custom'] });
  const structure = async (name: string, headers: Record<string, string> = {}): Promise<unknown> =>
    ((await (await modern(of, 'tools/call', { name }, headers)).json()) as { result: Json }).result[
      'structuredContent'
    ];
  assert.equal(((await structure('get_me')) as Json | undefined)?.['status'], undefined);
  assert.deepEqual(await structure('get_me', { authorization: `Bearer ${createToken('ada', SECRET)}` }), {
    sub: 'ada',
  });
  assert.deepEqual(await structure('get_key', { 'x-api-key': 'a-long-enough-key-1' }), { client: 'shop' });
  assert.deepEqual(
    await structure('get_fields', {
      tenant: 't1',
      'x-custom': 'c',
      'x-hop': 'h',
      'x-forwarded-for': '9.9.9.9',
    }),
    { tenant: 't1', ip: '127.0.0.1', host: 'localhost', scheme: 'http', custom: 'c' },
  );
});

test("a call of a guarded MCP tool needs a token, and counts for the tool's route in log, metrics and rate limit", async (t) => {
  const of = site(
    t,
    { rateLimit: false },
    { prepare: (app) => app.use(new RateLimitMiddleware({ perMinute: 2 })), app: { accessLog: true } },
  );
  const { result } = (await (await modern(of, 'tools/call', { name: 'get_me' })).json()) as {
    result: { isError: boolean; _meta: Json };
  };
  assert.deepEqual([result.isError, result._meta['svc/status']], [true, 401]);
  await modern(of, 'tools/call', { name: 'get_items' });
  const third = (await (await modern(of, 'tools/call', { name: 'get_items' })).json()) as {
    result: { _meta: Json };
  };
  assert.equal(third.result._meta['svc/status'], 429);
  assert.equal((await of.client.get('/items')).status, 429, 'the same bucket');
  const logged = of.lines
    .map((line) => JSON.parse(line) as Json)
    .filter(({ event }) => event === 'request')
    .map(({ method, route, status }) => `${String(method)} ${String(route)} ${String(status)}`);
  assert.deepEqual(logged.slice(0, 4), ['GET /me 401', 'POST /mcp 200', 'GET /items 200', 'POST /mcp 200']);
  assert.match(of.app.metrics.render(), /svc_requests_total\{method="GET",route="\/me",status="401"\} 1/);
});

test('with ConcurrencyLimitMiddleware({ max: 1 }), an MCP tool can be called, because requests to the MCP endpoint are not counted', async (t) => {
  const of = site(t, {}, { prepare: (app) => app.use(new ConcurrencyLimitMiddleware({ max: 1 })) });
  const { result } = (await (await modern(of, 'tools/call', { name: 'get_items' })).json()) as {
    result: Json;
  };
  assert.deepEqual(result['structuredContent'], { items: [1] });
});

test("an MCP call with a session cookie must pass the CSRF check of the tool's route", async (t) => {
  const of = site(
    t,
    {},
    {
      prepare: (app) => {
        app.use(new SessionMiddleware()).use(new CSRFMiddleware());
        app.get('/login', { mcp: false }, ({ req }) => {
          req.session.set('user', 1);
          return 1;
        });
      },
    },
  );
  await of.client.get('/login');
  const { result } = (await (await modern(of, 'tools/call', { name: 'post_write' })).json()) as {
    result: { _meta: Json };
  };
  assert.equal(result._meta['svc/status'], 403);
});

test('MCP over HTTP, authorization: the metadata document of RFC 9728 is served, and a 401 response links to it', async (t) => {
  const of = site(t, {
    deps: { me: Depends(BearerAuth()) },
    authorization: { servers: ['https://login.example'], scopes: ['notes'] },
  });
  const refused = await post(of, initialize());
  assert.deepEqual(
    [refused.status, refused.headers.get('www-authenticate')],
    [401, 'Bearer resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"'],
  );
  const wrong = await post(of, initialize(), { authorization: 'Bearer x' });
  assert.equal(
    wrong.headers.get('www-authenticate'),
    'Bearer error="invalid_token", resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"',
  );
  assert.deepEqual(await (await of.client.get('/.well-known/oauth-protected-resource/mcp')).json(), {
    resource: 'http://localhost/mcp',
    authorization_servers: ['https://login.example'],
    bearer_methods_supported: ['header'],
    scopes_supported: ['notes'],
  });
});

test('MCP over HTTP, authorization: the metadata document omits scopes_supported if no scopes are configured or their list is empty (RFC 9728)', async (t) => {
  for (const authorization of [
    { servers: ['https://login.example', 'https://other.example'] },
    { servers: ['https://login.example', 'https://other.example'], scopes: undefined },
    { servers: ['https://login.example', 'https://other.example'], scopes: [] },
  ]) {
    const of = site(t, { deps: { me: Depends(BearerAuth()) }, authorization });
    const response = await of.client.get('/.well-known/oauth-protected-resource/mcp');
    assert.deepEqual(
      [response.status, await response.json()],
      [
        200,
        {
          resource: 'http://localhost/mcp',
          authorization_servers: authorization.servers,
          bearer_methods_supported: ['header'],
        },
      ],
    );
  }
});

test('MCP over HTTP, authorization: if the endpoint is at /, the path of the RFC 9728 document has no suffix', async (t) => {
  const app = new Svc({
    env: 'test',
    authSecret: SECRET,
    logger: createLogger({ sink: () => undefined }),
  }).get('/items', () => 1);
  app.mountMcp('/', {
    deps: { me: Depends(BearerAuth()) },
    authorization: { servers: ['https://login.example'] },
  });
  const client = new TestClient(app, {
    raiseErrors: false,
    baseUrl: 'https://api.example:8443',
    headers: { host: 'api.example:8443' },
  });
  t.after(() => client.close());
  const refused = await client.post('/', { json: initialize(), headers: { accept: BOTH } });
  assert.equal(refused.status, 403, 'a name that is not its own'); // DNS rebinding
  assert.equal((await client.get('/.well-known/oauth-protected-resource/')).status, 404);
  assert.equal((await client.post('/.well-known/oauth-protected-resource', { json: {} })).status, 405);
  assert.deepEqual(
    app.mcpTools().map(({ name }) => name),
    ['get_items'],
  );
  const near = new TestClient(app, { raiseErrors: false, baseUrl: 'https://localhost:8443' });
  t.after(() => near.close());
  assert.equal(
    ((await (await near.get('/.well-known/oauth-protected-resource')).json()) as Json)['resource'],
    'https://localhost:8443/',
  );
});

test('MCP over HTTP, authorization: the bearer challenge links to the metadata, even if a DPoP challenge follows or a scope is missing', async (t) => {
  const place = 'resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"';
  const provider = new OAuthProvider({
    name: 'fake',
    clientId: 'c',
    clientSecret: 's',
    authorizeUrl: 'https://login.example/a',
    tokenUrl: 'https://login.example/t',
    userinfoUrl: 'https://login.example/u',
  });
  const prepare = (app: Svc): void =>
    void app.register(new OAuthPlugin({ provider, onUser: () => 'ada', dpop: 'optional' }));
  const of = site(
    t,
    { deps: { me: Depends(BearerAuth()) }, authorization: { servers: ['https://login.example'] } },
    { prepare },
  );
  const challengeOf = async (from: Site, headers: Record<string, string>): Promise<unknown> =>
    (await post(from, initialize(), headers)).headers.get('www-authenticate');
  assert.equal(await challengeOf(of, {}), `Bearer ${place}, DPoP algs="ES256 EdDSA RS256"`);
  assert.equal(
    await challengeOf(of, { authorization: 'Bearer x' }),
    `Bearer error="invalid_token", ${place}, DPoP algs="ES256 EdDSA RS256"`,
  );
  const scoped = site(t, {
    deps: { me: Depends(requireScopes('notes')) },
    authorization: { servers: ['https://login.example'] },
  });
  const response = await post(scoped, initialize(), {
    authorization: `Bearer ${createToken('ada', SECRET)}`,
  });
  assert.deepEqual(
    [response.status, response.headers.get('www-authenticate')],
    [403, `Bearer error="insufficient_scope", scope="notes", ${place}`],
  );
});

test("MCP over HTTP, authorization: if a tool's route requires a token or a scope that the request lacks, the answer is 401 or 403 with the route's challenge", async (t) => {
  const place = 'resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"';
  const prepare = (app: Svc): void => {
    app.get('/notes', { me: Depends(requireScopes('notes')) }, () => ({ notes: [] }));
    app.get('/closed', () => {
      throw new Forbidden('Closed', {
        headers: { 'WWW-Authenticate': 'Bearer realm="error=insufficient_scope"' },
      });
    });
  };
  const options: McpMountOptions = {
    deps: { me: Depends(BearerAuth(undefined, { optional: true })) },
    authorization: { servers: ['https://login.example'] },
  };
  const token = { authorization: `Bearer ${createToken('ada', SECRET)}` };
  const seen = async (response: Response): Promise<unknown[]> => {
    const { result } = (await response.json()) as { result: { isError?: boolean; _meta: Json } };
    return [
      response.status,
      response.headers.get('www-authenticate'),
      result.isError,
      result._meta['svc/status'],
    ];
  };
  const of = site(t, options, { prepare });
  assert.deepEqual(await seen(await modern(of, 'tools/call', { name: 'get_notes' })), [
    401,
    `Bearer ${place}`,
    true,
    401,
  ]);
  assert.deepEqual(await seen(await modern(of, 'tools/call', { name: 'get_notes' }, token)), [
    403,
    `Bearer error="insufficient_scope", scope="notes", ${place}`,
    true,
    403,
  ]);
  const { send } = await legacy(of, token);
  assert.deepEqual(await seen(await send(call(1, 'get_notes'))), [
    403,
    `Bearer error="insufficient_scope", scope="notes", ${place}`,
    true,
    403,
  ]);
  // no other token would be accepted, so the refusal is a result
  assert.deepEqual(await seen(await send(call(2, 'get_closed'))), [200, null, true, 403]);
  // the challenge of an API key asks for no token, so the refusal is a result
  assert.deepEqual(await seen(await send(call(3, 'get_key'))), [200, null, true, 401]);
  const open = site(t, {}, { prepare });
  assert.deepEqual(await seen(await modern(open, 'tools/call', { name: 'get_notes' })), [
    200,
    null,
    true,
    401,
  ]); // without metadata, the refusal is a result
});

test('MCP over HTTP, authorization: the 401 of a custom guard links to the metadata, whatever challenge the guard sends', async (t) => {
  const place = 'resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"';
  const challengeOf = async (error: Error): Promise<unknown> => {
    const guard = (): never => {
      throw error;
    };
    return (
      await post(
        site(t, { deps: { me: Depends(guard) }, authorization: { servers: ['https://login.example'] } }),
        initialize(),
      )
    ).headers.get('www-authenticate');
  };
  const asking = (challenge: string): Error =>
    new Unauthorized('Who?', { headers: { 'WWW-Authenticate': challenge } });
  assert.equal(await challengeOf(new Unauthorized()), `Bearer ${place}`);
  for (const [asked, reported] of [
    [
      'Basic realm="a, Bearer", Bearer realm="b", DPoP',
      `Basic realm="a, Bearer", Bearer realm="b", ${place}, DPoP`,
    ],
    ['Basic realm="\\", Bearer"', `Bearer ${place}, Basic realm="\\", Bearer"`],
    ['DPoP algs="ES256",bearer', `DPoP algs="ES256",bearer ${place}`],
    ['Bearerish', `Bearer ${place}, Bearerish`],
    [
      'Bearer resource_metadata="https://app.example/its-own", DPoP',
      'Bearer resource_metadata="https://app.example/its-own", DPoP',
    ],
  ] as const)
    assert.equal(await challengeOf(asking(asked)), reported);
  const long = `Digest ${Array.from({ length: 40 }, (_, index) => `p${index}="v"`).join(', ')}`;
  assert.equal(await challengeOf(asking(long)), `Bearer ${place}, ${long}`);
  assert.equal(await challengeOf(new Forbidden()), null);
});

for (const [what, origins, refusedOrigin] of [
  ['all other origins', '*', undefined],
  ['other origins in a list', ['https://inspector.example'], 'https://other.example'],
  [
    'other origins that a function accepts',
    (name: string) => name.endsWith('inspector.example'),
    'https://other.example',
  ],
  [
    'other origins that an async function accepts',
    async (name: string) => name.endsWith('inspector.example'),
    'https://other.example',
  ],
  ['no other origin', undefined, 'https://inspector.example'],
] as const) {
  test(`the MCP endpoint accepts requests from the application's own origin, and from ${what}`, async (t) => {
    const of = site(t, { origins });
    const statusOf = async (origin: string): Promise<number> =>
      (await modern(of, 'tools/list', {}, { origin })).status;
    assert.equal(await statusOf('http://localhost'), 200);
    if (origins !== undefined) assert.equal(await statusOf('https://inspector.example'), 200);
    if (refusedOrigin !== undefined) assert.equal(await statusOf(refusedOrigin), 403);
  });
}

for (const [what, rateLimit, statuses] of [
  ['the limit of the option "rateLimit"', { perMinute: 1 }, [200, 429]],
  ['switched off if the option "rateLimit" is false', false, [200, 200, 200]],
  ['the limit of RateLimitMiddleware by default', undefined, [200, 200, 429]],
] as const) {
  test(`the rate limit of the MCP endpoint is ${what}`, async (t) => {
    const of = site(
      t,
      { rateLimit },
      { prepare: (app) => app.use(new RateLimitMiddleware({ perMinute: 2 })) },
    );
    const found: number[] = [];
    for (const _ of statuses) found.push((await modern(of, 'tools/list')).status);
    assert.deepEqual(found, statuses);
  });
}

test('if an application requires an idempotency key for every write, MCP messages are still accepted without a key', async (t) => {
  const of = site(t, {}, { prepare: (app) => app.use(new IdempotencyMiddleware({ required: true })) });
  assert.equal((await modern(of, 'tools/list')).status, 200);
  assert.equal((await of.client.post('/write', { json: {} })).status, 400, 'a write of the application');
});

test('with the options for CORSMiddleware in src/mcp/README.md, a page of another origin can use the MCP endpoint', async (t) => {
  const origins = ['https://inspector.example'];
  const [, allowed, exposed] =
    /new CORSMiddleware\(\{[^]*?headers: (\[[^\]]*\])[^]*?exposeHeaders: (\[[^\]]*\])/
      .exec(readFileSync(new URL('../../src/mcp/README.md', import.meta.url), 'utf8'))!
      .map((list) => list.match(/[\w-]+(?=')/g) ?? []) as string[][];
  const prepare = (app: Svc): void =>
    void app.use(new CORSMiddleware({ origins, headers: allowed!, exposeHeaders: exposed! }));
  const of = site(
    t,
    { origins, deps: { me: Depends(BearerAuth()) }, authorization: { servers: ['https://login.example'] } },
    { prepare },
  );
  const origin = { origin: origins[0]! };
  for (const [method, path] of [
    ['POST', '/mcp'],
    ['GET', '/mcp'],
    ['DELETE', '/mcp'],
    ['GET', '/.well-known/oauth-protected-resource/mcp'],
  ] as const) {
    const response = await of.client.request('OPTIONS', path, {
      headers: {
        ...origin,
        'access-control-request-method': method,
        'access-control-request-headers':
          'authorization,content-type,mcp-method,mcp-name,mcp-protocol-version,mcp-session-id',
      },
    });
    assert.deepEqual(
      [
        response.status,
        response.headers.get('access-control-allow-methods')?.includes(method),
        response.headers.get('access-control-allow-headers')?.includes('Mcp-Name'),
      ],
      [204, true, true],
    );
  }
  assert.equal(
    (await of.client.get('/.well-known/oauth-protected-resource/mcp', { headers: origin })).headers.get(
      'access-control-allow-origin',
    ),
    origin.origin,
  );
  const refused = await post(of, initialize(), origin);
  const begun = await post(of, initialize(), {
    ...origin,
    authorization: `Bearer ${createToken('ada', SECRET)}`,
  });
  for (const [response, status, field] of [
    [refused, 401, 'WWW-Authenticate'],
    [begun, 200, 'Mcp-Session-Id'],
  ] as const) {
    assert.deepEqual(
      [
        response.status,
        response.headers.has(field),
        response.headers.get('access-control-allow-origin'),
        response.headers.get('access-control-expose-headers')?.includes(field),
      ],
      [status, true, origin.origin, true],
    );
  }
});

test('the cacheScope of tools/list is "private" if a guard is set, and else "public"', async (t) => {
  const scope = async (of: Site, headers = {}): Promise<unknown> =>
    ((await (await modern(of, 'tools/list', {}, headers)).json()) as { result: Json }).result['cacheScope'];
  assert.equal(await scope(site(t)), 'public');
  assert.equal(
    await scope(site(t, { deps: { me: Depends(BearerAuth()) } }), {
      authorization: `Bearer ${createToken('ada', SECRET)}`,
    }),
    'private',
  );
  const capabilities = async (of: Site): Promise<Json> =>
    ((await (await modern(of, 'server/discover')).json()) as { result: { capabilities: Json } }).result
      .capabilities;
  assert.ok('resources' in (await capabilities(site(t))));
  assert.ok(
    !(
      'resources' in
      (await capabilities(site(t, {}, { app: { env: 'production' }, client: { env: 'production' } })))
    ),
  );
});

test('mountMcp() adds an endpoint and a metadata document that are not tools and cause no finding of app.check()', (t) => {
  const { app } = site(t, {
    deps: { me: Depends(BearerAuth()) },
    authorization: { servers: ['https://login.example'] },
  });
  assert.ok(app.mcpTools().every(({ name }) => !name.includes('mcp') && !name.includes('well')));
  assert.deepEqual(
    app
      .check()
      .findings.filter(
        ({ subject, rule }) =>
          !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && subject.includes('mcp'),
      ),
    [],
  );
  for (const options of [
    { host: [] },
    { hosts: 'x' },
    { headers: ['a b'] },
    { sessionSeconds: 1 },
    { authorization: {} },
  ] as object[])
    assert.throws(() => new Svc().mountMcp('/mcp', options), { name: 'SvcError' });
  assert.throws(() => new Svc().mountMcp('/mcp', { origins: ['https://a.example/x'] }), { code: 'E_CORS' });
  const deps = { me: Depends(BearerAuth()) };
  const servers = ['https://login.example'];
  for (const authorization of [
    { servers: [] },
    { servers: ['login.example'] },
    { servers, scope: ['a'] },
    { servers, scopes: 'a' },
  ] as { servers: string[] }[])
    assert.throws(() => new Svc().mountMcp('/mcp', { deps, authorization }), /mountMcp\(\) authorization/);
  for (const none of [{}, undefined])
    assert.throws(() => new Svc().mountMcp('/mcp', { deps: none, authorization: { servers } }), {
      code: 'E_OPTION_RANGE',
      message: /deps.*a guard/,
    });
});

test('MCP over HTTP, before version 2026-07-28: the number of requests without a response is limited per endpoint and per client', async (t) => {
  const running = new Set<number>();
  let count = 0;
  const ended = Promise.withResolvers<void>();
  const of = site(
    t,
    { rateLimit: false, principal: ({ req }) => req.headers['x-principal'] ?? '' },
    {
      prepare: (app) =>
        void app.get(
          '/hang',
          ({ signal }) =>
            new Promise((resolve) => {
              const own = ++count;
              running.add(own);
              const end = (): void => {
                running.delete(own);
                if (running.size === 0) ended.resolve();
                resolve('over');
              };
              signal.addEventListener('abort', end);
              of.gate.promise.then(end);
            }),
        ),
    },
  );
  const clients = await Promise.all(
    ['a', 'b', 'c', 'd', 'e'].map((name) => legacy(of, { 'x-principal': name }, '2025-03-26')),
  );
  const call = (id: number): Json => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 'get_hang', arguments: {} },
  });
  const leaving = new AbortController();
  const send = (client: number, first: number, length: number, signal?: AbortSignal): Promise<Response> =>
    clients[client]!.send(
      Array.from({ length }, (_, id) => call(first + id)),
      {},
      signal,
    );
  const refusals = async (response: Response, message: string): Promise<number> =>
    ((await response.json()) as { error?: { message: string } }[]).filter(
      ({ error }) => error?.message === `Already ${message} have no response: try again later`,
    ).length;
  const left = send(0, 1, 250, leaving.signal);
  const others = [send(1, 1, 240), send(2, 1, 250), send(3, 1, 240)];
  await until(() => running.size >= 980);
  assert.equal(await refusals(await send(0, 1_001, 5), '250 requests from this client'), 5);
  // ten more of the client b reach its own limit, and those of d the limit of the endpoint
  const more = send(1, 1_001, 20);
  await until(() => running.size >= 990);
  const last = send(3, 1_001, 10);
  await until(() => running.size >= 1_000);
  assert.equal(await refusals(await send(4, 1, 3), '1000 requests from clients'), 3);
  leaving.abort();
  await left.catch(() => undefined); // the outcome is irrelevant
  await until(() => running.size <= 750);
  const late = send(4, 1_001, 7);
  await until(() => running.size >= 757);
  of.gate.resolve();
  assert.equal(await refusals(await more, '250 requests from this client'), 10);
  for (const response of [...others, last, late])
    assert.equal(await refusals(await response, '1000 requests from clients'), 0);
  await soon(ended.promise, 'the calls to end');
  assert.equal(
    ((await (await clients[0]!.send(call(9_000))).json()) as { error?: unknown }).error,
    undefined,
    'there is room again',
  );
});
