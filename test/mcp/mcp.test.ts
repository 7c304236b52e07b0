/**
 * Routes as tools, called in process: their definitions, the places of their arguments, and calls that behave
 * like requests.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BearerAuth,
  Depends,
  EventStreamResponse,
  Field,
  FileResponse,
  IdempotencyMiddleware,
  RateLimitMiddleware,
  Schema,
  StreamingResponse,
  Svc,
  ToolContent,
  TrustedHostMiddleware,
  any,
  createLogger,
  createToken,
  file,
  float,
  int,
  list,
  literal,
  nullable,
  provide,
  requireScopes,
  str,
  toolLog,
  toolProgress,
  union,
  uuid,
} from 'svc';
import { described, ITEM, readItem, standard } from '../support/standard.ts';
import { turn } from '../support/turn.ts';
import type { SvcOptions, Tool, ToolResult } from 'svc';
import type { TestContext } from 'node:test';

const SECRET = '3f0a9c7d5e1b48263f0a9c7d5e1b4826';

function make(t: TestContext, options: SvcOptions = {}): { readonly app: Svc; readonly lines: string[] } {
  const lines: string[] = [];
  const app = new Svc({
    authSecret: SECRET,
    env: 'test',
    logger: createLogger({ level: 'debug', format: 'json', sink: (line) => void lines.push(line) }),
    ...options,
  });
  t.after(() => app.shutdown());
  return { app, lines };
}

function toolsOf(app: Svc): Record<string, Tool> {
  return Object.fromEntries(app.mcpTools().map((tool) => [tool.name, tool]));
}

function textOf({ content }: ToolResult, index = 0): string {
  const part = content[index];
  assert.equal(part?.type, 'text');
  return (part as { text: string }).text;
}

class Address extends Schema {
  city = Field(str, { minLength: 1 });
}
class User extends Schema {
  id = Field(int);
  name = Field(str, { description: 'Name of the user' });
  home = Field(Address);
  password = Field(str, { secret: true, optional: true });
}
class Loose extends Schema {
  static extra = 'allow' as const;
  a = Field(int);
}

test('mcpTools(): every route is a tool, except HEAD routes, static files, endpoints such as /healthz, and routes with mcp: false', (t) => {
  const { app } = make(t);
  app
    .get('/a', () => 1)
    .post('/a/{id:int}/b', () => 1)
    .get('/hidden', { mcp: false }, () => 1)
    .route('/c', ['HEAD', 'OPTIONS'], () => 1)
    .get('/', () => 1)
    .mountStatic('/static', import.meta.dirname);
  assert.deepEqual(
    app.mcpTools().map(({ name }) => name),
    ['get_a', 'post_a_by_id_b', 'get_root'],
  );
});

test("mcpTools(): the name of a tool is mcp.name, else the route's name, else method and path; characters that are not allowed become _", (t) => {
  const { app } = make(t);
  app
    .get('/a', { name: 'user list' }, () => 1)
    .get('/b', { name: 'b', mcp: { name: 'read-b' } }, () => 1)
    .route('/c', ['GET', 'PUT'], { name: 'c' }, () => 1)
    .get('/é/{x}', () => 1);
  assert.deepEqual(
    app.mcpTools().map(({ name }) => name),
    ['user_list', 'read-b', 'get_c', 'put_c', 'get_by_x'],
  );
});

test('mcpTools(): if two tools have the same name, the second gets a number', (t) => {
  const { app } = make(t);
  app.get('/a', { mcp: { name: 'same' } }, () => 1).get('/b', { mcp: { name: 'same' } }, () => 1);
  assert.deepEqual(
    app.mcpTools().map(({ name }) => name),
    ['same', 'same_2'],
  );
});

test('mcpTools(): titles, descriptions and hints come from the options and method of a route, unless its option "mcp" overrides them', (t) => {
  const { app } = make(t);
  app
    .get('/a', { summary: 'Short', description: 'Long' }, () => 1)
    .put('/a', { summary: 'Short', deprecated: true }, () => 1)
    .post('/a', () => 1)
    .delete(
      '/a',
      { mcp: { title: 'T', description: 'D', annotations: { destructiveHint: false, openWorldHint: true } } },
      () => 1,
    );
  const { get_a: get, put_a: put, post_a: post, delete_a: del } = toolsOf(app);
  assert.deepEqual(
    [get!.title, get!.description, get!.annotations],
    ['Short', 'Long', { title: 'Short', readOnlyHint: true, destructiveHint: false, idempotentHint: true }],
  );
  assert.deepEqual(
    [put!.description, put!.annotations],
    [
      'Deprecated. Short',
      { title: 'Short', readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    ],
  );
  assert.deepEqual(
    [post!.title, post!.description, post!.annotations],
    [undefined, 'POST /a', { readOnlyHint: false, destructiveHint: true, idempotentHint: false }],
  );
  assert.deepEqual(
    [del!.title, del!.description, del!.annotations],
    [
      'T',
      'D',
      { title: 'T', readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    ],
  );
});

test('the option "mcp" of a route refuses unknown keys, and invalid characters in the name', () => {
  assert.throws(() => new Svc().get('/a', { mcp: { name: 'a b' } }, () => 1), { code: 'E_OPTION_RANGE' });
  assert.throws(() => new Svc().get('/a', { mcp: { nmae: 'a' } as object }, () => 1), {
    code: 'E_OPTION_UNKNOWN',
  });
  assert.throws(
    () => new Svc().get('/a', { mcp: { annotations: { readonlyHint: true } as object } }, () => 1),
    { code: 'E_OPTION_UNKNOWN' },
  );
});

test('mcpTools(): path, query and body form one input object, with constraints and descriptions', (t) => {
  const { app } = make(t);
  const paging = provide(
    { query: { page: Field(1, { ge: 1 }) }, headers: { tenant: Field(str) } },
    ({ query }) => query.page,
  );
  app.post(
    '/t/{team:uuid}/users',
    { body: User, query: { dry: Field(false) }, paging: Depends(paging) },
    () => 1,
  );
  assert.deepEqual(app.mcpTools()[0]!.inputSchema, {
    type: 'object',
    additionalProperties: false,
    required: ['team', 'id', 'name', 'home'],
    properties: {
      team: { type: 'string', format: 'uuid' },
      page: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER, default: 1 },
      dry: { type: 'boolean', default: false },
      id: { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
      name: { type: 'string', description: 'Name of the user' },
      home: { $ref: '#/$defs/Address' },
      password: { type: 'string', writeOnly: true },
    },
    $defs: {
      Address: { type: 'object', properties: { city: { type: 'string', minLength: 1 } }, required: ['city'] },
    },
  });
});

test('mcpTools(): the body is one argument if it is not an object, allows undeclared fields, or has a field with the name of another input', (t) => {
  const { app } = make(t);
  app
    .put('/u/{id:int}', { body: User }, () => 1)
    .post('/loose', { body: Loose }, () => 1)
    .post('/list', { body: list(int) }, () => 1)
    .post('/body/{body}', { body: list(int) }, () => 1);
  assert.deepEqual(
    app.mcpTools().map(({ inputSchema }) => Object.keys(inputSchema['properties'] as object)),
    [['id', 'body'], ['body'], ['body'], ['body', 'request_body']],
  );
});

test('mcpTools(): the output schema is that of the response, with its definitions and without secret fields', (t) => {
  const { app } = make(t);
  app
    .get('/one', { response: User }, () => {
      throw new Error('not called');
    })
    .get('/many', { response: list(Address) }, () => [])
    .get('/either', { response: { 200: Address, 201: Address, 404: User } }, () => ({ city: 'x' }))
    .get('/none', () => 1);
  const { get_one: one, get_many: many, get_either: either, get_none: none } = toolsOf(app);
  assert.deepEqual(Object.keys(one!.outputSchema!['properties'] as object), ['id', 'name', 'home']);
  assert.deepEqual(Object.keys(one!.outputSchema!['$defs'] as object), ['Address']);
  assert.deepEqual(
    [many!.outputSchema!['type'], many!.outputSchema!['items']],
    ['array', { $ref: '#/$defs/Address' }],
  );
  assert.deepEqual(
    [either!.outputSchema!['type'], (either!.outputSchema!['anyOf'] as unknown[]).length],
    ['object', 2],
  );
  assert.equal(none!.outputSchema, undefined);
});

test('mcpCall(): arguments become path, query and body, and the handler gets them as typed values', async (t) => {
  const { app } = make(t);
  class Body extends Schema {
    at = Field(str);
    tags = Field(list(str), { default: () => [] });
  }
  app.post(
    '/u/{id:int}/{rest:path}',
    {
      body: Body,
      query: {
        n: Field(float),
        on: Field(false),
        ids: Field(list(int)),
        maybe: Field(nullable(int), { default: 7 }),
      },
    },
    ({ params, body, query }) => ({ params, body: { ...body }, query: { ...query } }),
  );
  const result = await app.mcpCall('post_u_by_id_by_rest', {
    id: 5,
    rest: 'a b/c?#',
    n: 1.5,
    on: true,
    ids: [1, 2],
    maybe: null,
    at: 'é&=',
    tags: ['x'],
  });
  assert.deepEqual(
    result.structuredContent,
    {
      params: { id: 5, rest: 'a b/c?#' },
      body: { at: 'é&=', tags: ['x'] },
      query: { n: 1.5, on: true, ids: [1, 2], maybe: 7 },
    },
    'a query has no null: the default',
  );
  assert.deepEqual(JSON.parse(textOf(result)), result.structuredContent);
  assert.deepEqual(result._meta, { 'svc/status': 200 });
});

test('mcpCall(): form fields and files are passed as arguments', async (t) => {
  const { app } = make(t);
  app.post('/plain', { form: { name: Field(str), n: Field(int) } }, ({ form }) => ({ ...form }));
  app.post('/upload', { form: { name: Field(str), doc: Field(file) } }, async ({ form }) => ({
    name: form.name,
    filename: form.doc.filename,
    type: form.doc.contentType,
    text: Buffer.from(await form.doc.bytes()).toString(),
  }));
  app.post('/size', { form: { doc: Field(file) } }, ({ form }) => String(form.doc.size));
  assert.deepEqual((await app.mcpCall('post_plain', { name: 'x', n: 3 })).structuredContent, {
    name: 'x',
    n: 3,
  });
  const doc = { filename: 'a.txt', contentType: 'text/plain', data: Buffer.from('hello').toString('base64') };
  assert.deepEqual((await app.mcpCall('post_upload', { name: 'x', doc })).structuredContent, {
    name: 'x',
    filename: 'a.txt',
    type: 'text/plain',
    text: 'hello',
  });
  for (const data of ['%', '水YYa', 'A', 'QQ=A'])
    assert.match(
      textOf(await app.mcpCall('post_upload', { name: 'x', doc: { data } })),
      /^- doc: must be/m,
      data,
    );
  const unpadded = await app.mcpCall('post_upload', { name: 'x', doc: { data: 'aGVsbG8' } });
  assert.equal((unpadded.structuredContent as { text: string }).text, 'hello');
  // a regular expression with groups overflows the stack at this length
  const data = Buffer.alloc(8_000_000, 'a').toString('base64');
  const long = await app.mcpCall('post_size', { doc: { data } });
  assert.equal(textOf(long), '8000000');
});

test('mcpCall(): all invalid arguments are reported at once, each by its name', async (t) => {
  const { app } = make(t);
  app
    .put('/u/{id:int}', { body: User, query: { n: Field(int) } }, () => 1)
    .post('/a', { body: Address }, () => 1);
  const wrong = await app.mcpCall('put_u_by_id', {
    id: 1,
    n: 'x',
    body: { id: 1, name: 'x', home: { city: '' } },
  });
  assert.equal(wrong.isError, true);
  assert.equal(
    textOf(wrong),
    '400 Bad Request: The input has 2 problems\n- n: must be an integer\n- body.home.city: must have at least 1 character',
  );
  assert.equal((JSON.parse(textOf(wrong, 1)) as { status: number }).status, 400);
  assert.equal(
    textOf(await app.mcpCall('post_a', { city: '' })),
    '400 Bad Request: The input has 1 problem\n- city: must have at least 1 character',
  );
  assert.equal(
    textOf(await app.mcpCall('put_u_by_id', { id: 'x', nn: 1, n: 1 })),
    '400 Bad Request: The arguments have 3 problems\n- nn: is not an argument of this tool: did you mean "n"?\n- body: is missing\n- id: needs a safe integer',
  );
});

test('mcpCall(): the argument for an optional path may be missing or empty', async (t) => {
  const { app } = make(t);
  app.get('/dav/{rest:path?}', ({ req, params }) => `${req.path} ${params.rest}`);
  assert.deepEqual(app.mcpTools()[0]!.inputSchema['required'] ?? [], []);
  assert.equal(textOf(await app.mcpCall('get_dav_by_rest', {})), '/dav ');
  assert.equal(textOf(await app.mcpCall('get_dav_by_rest', { rest: '' })), '/dav/ ');
  assert.equal(textOf(await app.mcpCall('get_dav_by_rest', { rest: 'a/b' })), '/dav/a/b a/b');
});

test('mcpCall(): whatever the value of a path argument is, the call reaches no route except the route of the tool', async (t) => {
  const { app } = make(t);
  app
    .get('/users/{name}', ({ params }) => `user ${params.name}`)
    .get('/users/me', { mcp: false }, () => 'hidden')
    .get('/files/{p:path}', ({ params }) => params.p)
    .get('/files/a/b', () => 'ab');
  const said = async (name: string, args: Record<string, unknown>): Promise<[string, unknown]> => {
    const result = await app.mcpCall(name, args);
    return [textOf(result), result.isError];
  };
  assert.deepEqual(await said('get_users_by_name', { name: 'me' }), [
    '400 Bad Request: The arguments have 1 problem\n- name: would make the request path match another route: choose another value',
    true,
  ]);
  assert.deepEqual(await said('get_files_by_p', { p: 'a/b' }), [
    '400 Bad Request: The arguments have 1 problem\n- p: would make the request path match another route: choose another value',
    true,
  ]);
  assert.deepEqual(await said('get_users_by_name', { name: 'me?' }), ['user me?', undefined]);
  assert.deepEqual(await said('get_files_by_p', { p: 'a/b/c' }), ['a/b/c', undefined]);
  assert.deepEqual(await said('get_files_a_b', {}), ['ab', undefined]);
});

test('mcpCall(): an argument may have the name "constructor", and arguments that are nested too deeply are refused', async (t) => {
  const { app, lines } = make(t);
  app.get(
    '/x/{constructor}',
    { query: { a: Field(str, { optional: true }) } },
    ({ params }) => params.constructor,
  );
  const deep: unknown = JSON.parse('['.repeat(200_000) + ']'.repeat(200_000));
  assert.match(
    textOf(await app.mcpCall('get_x_by_constructor', { constructor: 'c', a: deep })),
    /^400 .*\n- arguments: must be smaller or less deeply nested/,
  );
  assert.equal(
    textOf(await app.mcpCall('get_x_by_constructor', {})),
    '400 Bad Request: The arguments have 1 problem\n- constructor: is missing',
  );
  assert.equal(textOf(await app.mcpCall('get_x_by_constructor', { constructor: 'c' })), 'c');
  assert.ok(!lines.some((line) => line.includes('"level":"error"')));
});

test('mcpCall(): in production, the request of a call has a host that TrustedHostMiddleware accepts', async (t) => {
  const { app } = make(t, { env: 'production' });
  app
    .use(new TrustedHostMiddleware({ hosts: ['.example.com'] }))
    .get('/host', { public: true }, ({ req }) => req.host);
  assert.equal(textOf(await app.mcpCall('get_host')), 'example.com');
});

test('mcpCall(): an unknown tool name throws E_MCP_TOOL and suggests the most similar name', async (t) => {
  const { app } = make(t);
  app.get('/users', () => 1);
  await assert.rejects(app.mcpCall('get_user'), { code: 'E_MCP_TOOL', message: /did you mean "get_users"/ });
});

test('mcpCall(): a guarded tool refuses the same calls as its route, and accepts a valid token', async (t) => {
  const { app } = make(t);
  app
    .get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub)
    .delete('/all', { me: Depends(requireScopes('admin')) }, () => 1);
  const refused = await app.mcpCall('get_me');
  assert.deepEqual(
    [refused.isError, refused._meta?.['svc/status'], textOf(refused)],
    [true, 401, '401 Unauthorized: An access token is needed'],
  );
  const headers = { Authorization: `Bearer ${createToken('ada', SECRET)}` };
  assert.equal((await app.mcpCall('get_me', {}, { headers })).isError, undefined);
  assert.equal((await app.mcpCall('delete_all', {}, { headers }))._meta?.['svc/status'], 403);
});

test('mcpCall(): at whatever step a call is aborted, its handler either does not run or gets a signal that is aborted', async (t) => {
  let reached = 0;
  for (let steps = 0; steps < 80; steps++) {
    const { app } = make(t);
    const seen: AbortSignal[] = [];
    app.tool('wait', {}, async ({ signal }) => {
      seen.push(signal);
      await new Promise((resolve) => setImmediate(resolve));
      return 'ended';
    });
    await app.startup();
    const abort = new AbortController();
    const called = app.mcpCall('wait', {}, { signal: abort.signal }).catch(() => undefined);
    for (let step = 0; step < steps; step++) await Promise.resolve();
    abort.abort();
    await called;
    reached += seen.length;
    for (const signal of seen) assert.ok(signal.aborted, `after ${steps} steps`);
  }
  assert.ok(reached > 0, 'no call reached its handler');
});

test('mcpCall(): a call counts in log, metrics and rate limit like an HTTP request', async (t) => {
  const { app, lines } = make(t, { accessLog: true });
  app.use(new RateLimitMiddleware({ perMinute: 3 }));
  const seen: string[] = [];
  app.use(async (req, next) => {
    seen.push(`${req.method} ${req.target} ${req.ip}`);
    return next();
  });
  app.get('/u/{id:int}', ({ params }) => ({ id: params.id }));
  await app.fetch(new Request('http://localhost/u/1'));
  await app.mcpCall('get_u_by_id', { id: 2 });
  assert.deepEqual(seen, ['GET /u/1 ', 'GET /u/2 127.0.0.1']);
  const logged = lines
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ event }) => event === 'request')
    .map(({ method, route, status }) => [method, route, status]);
  assert.deepEqual(logged, [
    ['GET', '/u/{id:int}', 200],
    ['GET', '/u/{id:int}', 200],
  ]);
  assert.match(
    app.metrics.render(),
    /svc_requests_total\{method="GET",route="\/u\/\{id:int\}",status="200"\} 2/,
  );
  for (let n = 0; n < 2; n++) await app.mcpCall('get_u_by_id', { id: 2 });
  const refused = await app.mcpCall('get_u_by_id', { id: 2 });
  assert.match(textOf(refused), /^429 Too Many Requests[\s\S]*\nTry again in \d+ seconds$/);
});

test('mcpCall(): each media type of a response becomes the matching kind of MCP content', async (t) => {
  const { app } = make(t);
  app
    .get('/text', () => 'plain')
    .get('/empty', () => null)
    .get('/bytes', () => new Uint8Array([1, 2, 3]))
    .get('/image', () => new Response(new Uint8Array([1]), { headers: { 'content-type': 'image/png' } }))
    .get('/audio', () => new Response(new Uint8Array([1]), { headers: { 'content-type': 'audio/wav' } }))
    .get('/moved', () => new Response(null, { status: 303, headers: { location: '/there' } }))
    .get(
      '/own',
      () =>
        new ToolContent([
          { type: 'text', text: 'a' },
          { type: 'image', data: 'AQ==', mimeType: 'image/png' },
        ]),
    )
    .get('/stream', () => new StreamingResponse(['a', 'b'], { mediaType: 'text/csv' }))
    .get('/file', () => new FileResponse(import.meta.filename, { mediaType: 'text/plain' }));
  const content = async (name: string): Promise<unknown> => (await app.mcpCall(name)).content;
  assert.deepEqual(await content('get_text'), [{ type: 'text', text: 'plain' }]);
  assert.deepEqual(await content('get_empty'), [{ type: 'text', text: '204 No Content' }]);
  assert.deepEqual(await content('get_bytes'), [
    {
      type: 'resource',
      resource: { uri: 'svc://results/get_bytes', mimeType: 'application/octet-stream', blob: 'AQID' },
    },
  ]);
  assert.deepEqual(await content('get_image'), [{ type: 'image', data: 'AQ==', mimeType: 'image/png' }]);
  assert.deepEqual(await content('get_audio'), [{ type: 'audio', data: 'AQ==', mimeType: 'audio/wav' }]);
  assert.deepEqual(await content('get_moved'), [{ type: 'text', text: '303 See Other: /there' }]);
  assert.deepEqual(await content('get_own'), [
    { type: 'text', text: 'a' },
    { type: 'image', data: 'AQ==', mimeType: 'image/png' },
  ]);
  assert.deepEqual(await content('get_stream'), [{ type: 'text', text: 'ab' }]);
  assert.match(textOf(await app.mcpCall('get_file')), /^\/\*\*\n \* Routes as tools/);
});

test('mcpCall(): a result that does not match the output schema becomes an error, because clients reject it (MCP 2025-06-18, Tools)', async (t) => {
  const { app } = make(t);
  app
    .get(
      '/moved',
      { response: User },
      () => new Response(null, { status: 303, headers: { location: '/there' } }),
    )
    .get('/gone', { response: User }, () => new Response(null, { status: 204 }))
    .get('/own', { response: User }, () => new ToolContent([{ type: 'text', text: 'a' }]))
    .get('/list', { response: list(int) }, () => [])
    .get('/free', () => new Response(null, { status: 303, headers: { location: '/there' } }));
  const said = async (name: string): Promise<unknown[]> => {
    const result = await app.mcpCall(name);
    return [textOf(result), result.isError];
  };
  assert.deepEqual(await said('get_moved'), ['303 See Other: /there', true]);
  assert.deepEqual(await said('get_gone'), ['204 No Content', true]);
  assert.deepEqual(await said('get_own'), ['a', true]);
  assert.deepEqual(await said('get_list'), ['[]', undefined]);
  assert.deepEqual(await said('get_free'), ['303 See Other: /there', undefined]);
});

test('mcpCall(): a response that never ends, is too large or is interrupted becomes an error result', async (t) => {
  const { app } = make(t);
  let isEnded = false;
  const endless = function* (): Generator<string> {
    try {
      for (;;) yield 'x'.repeat(100_000);
    } finally {
      isEnded = true;
    }
  };
  app
    .get('/events', () => new EventStreamResponse(['a']))
    .get('/large', () => new StreamingResponse(endless()));
  app.get(
    '/broken',
    () =>
      new StreamingResponse(
        (function* () {
          yield 'a';
          throw new Error('gone');
        })(),
      ),
  );
  assert.match(textOf(await app.mcpCall('get_events')), /stream of events/);
  assert.match(
    textOf(await app.mcpCall('get_large')),
    /larger than 1000000 bytes: .*the option maxResultBytes$/,
  );
  assert.equal(isEnded, true);
  assert.match(textOf(await app.mcpCall('get_broken')), /ended before/);
});

test('mcpCall(): a response body that is not JSON, or is truncated JSON, becomes text in the result', async (t) => {
  const { app } = make(t);
  app.get('/text', () => new Response('no tea', { status: 418, headers: { 'content-type': 'text/plain' } }));
  app.get(
    '/cut',
    () => new Response('{"a":', { status: 200, headers: { 'content-type': 'application/json' } }),
  );
  assert.deepEqual(
    [(await app.mcpCall('get_text')).isError, textOf(await app.mcpCall('get_text'))],
    [true, "418 I'm a Teapot\nno tea"],
  );
  assert.deepEqual(
    [(await app.mcpCall('get_cut')).structuredContent, textOf(await app.mcpCall('get_cut'))],
    [undefined, '{"a":'],
  );
});

test('mcpCall() rejects if its signal is already aborted, or if its header fields are invalid', async (t) => {
  const { app } = make(t);
  app.get('/a', () => 1);
  await assert.rejects(app.mcpCall('get_a', {}, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  for (const headers of [{ 'a b': 'x' }, { a: 'x\ny' }, { a: '☕' }])
    await assert.rejects(async () => app.mcpCall('get_a', {}, { headers }), { code: 'E_OPTION_RANGE' });
});

test('mcpCall(): if the handler throws, the result is an error without the text of the exception', async (t) => {
  const { app, lines } = make(t);
  app.get('/bad', () => {
    throw new Error('a secret place');
  });
  const result = await app.mcpCall('get_bad');
  assert.equal(result.isError, true);
  assert.doesNotMatch(JSON.stringify(result), /secret place/);
  assert.ok(lines.some((line) => line.includes('secret place')));
});

test('mcpCall(): progress and log messages of a handler are passed to the options "onProgress" and "onLog"; a plain request discards them', async (t) => {
  const { app } = make(t);
  app.get('/work', { progress: Depends(toolProgress), tell: Depends(toolLog) }, ({ progress, tell }) => {
    progress(1, 2, 'half');
    tell('info', { done: 1 }, 'worker');
    return 1;
  });
  const reported: unknown[] = [];
  await app.mcpCall(
    'get_work',
    {},
    { onProgress: (...all) => reported.push(all), onLog: (...all) => reported.push(all) },
  );
  assert.deepEqual(reported, [
    [1, 2, 'half'],
    ['info', { done: 1 }, 'worker'],
  ]);
  assert.equal((await app.fetch(new Request('http://localhost/work'))).status, 200);
});

test('mcpCall(): if the call is aborted, it rejects at once with the reason, and the signal of its request is aborted', async (t) => {
  const { app } = make(t);
  const aborted = Promise.withResolvers<string>();
  app.get(
    '/wait',
    ({ signal }) =>
      new Promise(() =>
        signal.addEventListener('abort', () => {
          aborted.resolve((signal.reason as Error).name);
        }),
      ),
  );
  const abort = new AbortController();
  const call = app.mcpCall('get_wait', {}, { signal: abort.signal });
  await app.startup();
  const reason = new Error('enough');
  setImmediate(() => abort.abort(reason));
  await assert.rejects(call, reason);
  assert.equal(await aborted.promise, 'ClientDisconnected');
});

test('mcpCall(): if the call is aborted while the response of its route is read, no broken response is logged', async (t) => {
  const { app, lines } = make(t);
  const abort = new AbortController();
  app.get('/rows', () => {
    async function* rows(): AsyncGenerator<string> {
      yield 'a';
      abort.abort();
      yield 'b';
    }
    return new StreamingResponse(rows());
  });
  await assert.rejects(app.mcpCall('get_rows', {}, { signal: abort.signal }), { name: 'AbortError' });
  await turn();
  assert.deepEqual(
    lines.filter((line) => line.includes('mcp_answer_broken')),
    [],
  );
});

test('app.tool(): a function becomes a tool with arguments, dependencies, guards and middleware; HTTP requests cannot reach it', async (t) => {
  const { app } = make(t);
  const seen: (string | undefined)[] = [];
  app.use(async (req, next) => {
    seen.push(req.route?.template);
    return next();
  });
  app.tool(
    'add',
    {
      description: 'Adds',
      args: { a: Field(int, { le: 10 }), b: Field(2) },
      response: int,
      unit: Depends(() => 'kg'),
    },
    ({ args, unit }) => {
      assert.equal(unit, 'kg');
      return args.a + args.b;
    },
  );
  app.tool('move', { args: Address, annotations: { destructiveHint: false } }, ({ args }) => args.city);
  app.tool('secret', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  assert.deepEqual(
    app.mcpTools().map(({ name, inputSchema }) => [name, Object.keys(inputSchema['properties'] as object)]),
    [
      ['add', ['a', 'b']],
      ['move', ['city']],
      ['secret', []],
    ],
  );
  assert.equal((await app.mcpCall('add', { a: 1 })).structuredContent, 3);
  assert.equal(
    textOf(await app.mcpCall('add', { a: 11 })),
    '400 Bad Request: The input has 1 problem\n- a: must be at most 10',
  );
  assert.equal((await app.mcpCall('move', { city: 'X' })).isError, undefined);
  assert.equal((await app.mcpCall('secret'))._meta?.['svc/status'], 401);
  assert.deepEqual(new Set(seen), new Set(['/mcp/tools/add', '/mcp/tools/move', '/mcp/tools/secret']));
  assert.equal(
    (
      await app.fetch(
        new Request('http://localhost/mcp/tools/add', {
          method: 'POST',
          body: '{"a":1}',
          headers: { 'content-type': 'application/json' },
        }),
      )
    ).status,
    404,
  );
  assert.deepEqual(
    app.routes.map(({ template }) => template).filter((template) => template.startsWith('/mcp')),
    [],
  );
});

test('app.tool(), app.prompt() and app.resource() refuse a call without a spec and a function', () => {
  const app = new Svc();
  for (const kind of ['tool', 'prompt', 'resource'] as const)
    for (const given of [[], [() => 1], [{}], [null, () => 1], [{}, 'x']])
      assert.throws(() => (app[kind] as (...args: readonly unknown[]) => unknown).call(app, 'a', ...given), {
        code: 'E_ROUTE_HANDLER',
        message: new RegExp(`the ${kind} "a"`),
      });
});

test('a foreign schema gives a tool its arguments; without JSON Schema, the body is one argument', async (t) => {
  const { app } = make(t);
  app
    .tool('item', { args: standard(readItem, described(ITEM)) }, ({ args }) => args)
    .post('/bare', { body: standard(readItem), query: { loud: Field(false) } }, ({ body }) => body.name)
    .post(
      '/later',
      { body: standard((value) => Promise.resolve(readItem(value)), described(ITEM)) },
      ({ body }) => body,
    );
  const { item, post_bare: bare, post_later: later } = toolsOf(app);
  assert.deepEqual(item!.inputSchema, {
    type: 'object',
    properties: ITEM.properties,
    required: ['name'],
    additionalProperties: false,
  });
  assert.deepEqual(Object.keys(bare!.inputSchema['properties'] as object), ['loud', 'body']);
  assert.deepEqual(later!.inputSchema, item!.inputSchema);
  assert.deepEqual((await app.mcpCall('item', { name: 'a', count: '2' })).structuredContent, {
    name: 'a',
    count: 2,
  });
  assert.equal(
    textOf(await app.mcpCall('item', { name: 'a', count: 'x' })),
    '400 Bad Request: The input has 1 problem\n- count: Expected a number',
  );
  assert.equal(textOf(await app.mcpCall('post_bare', { body: { name: 'b' } })), 'b');
  assert.equal((await app.mcpCall('post_later', {})).isError, true);
});

test('app.tool() and app.prompt(): names must have valid characters and be unique', () => {
  const app = new Svc().tool('a', {}, () => 1);
  assert.throws(() => app.tool('a', {}, () => 1), { code: 'E_MCP_NAME' });
  assert.throws(() => app.tool('a b', {}, () => 1), { code: 'E_MCP_NAME' });
  assert.throws(() => app.prompt('', {}, () => ''), { code: 'E_MCP_NAME' });
  app.prompt('a', {}, () => '').compileAll();
  assert.throws(() => app.tool('b', {}, () => 1), { code: 'E_APP_FROZEN' });
});

test('mcpTools(): tagged unions, literals and lists of any value can be arguments, but computed members cannot', (t) => {
  const { app } = make(t);
  class Cat extends Schema {
    kind = Field(literal('cat'));
    lives = Field(int);
  }
  class Dog extends Schema {
    kind = Field(literal('dog'));
  }
  class Node extends Schema {
    get self(): number {
      return 1;
    }
    id = Field(uuid);
    children = Field(list(any));
  }
  app
    .post('/pet', { body: union('kind', Cat, Dog) }, () => 1)
    .post('/node', { body: Node, query: { mode: Field(literal('a', 'b')) } }, () => 1);
  const { post_pet: pet, post_node: node } = toolsOf(app);
  assert.deepEqual(Object.keys(pet!.inputSchema['properties'] as object), ['body']);
  assert.deepEqual(Object.keys(pet!.inputSchema['$defs'] as object), ['Cat', 'Dog']);
  assert.deepEqual(Object.keys(node!.inputSchema['properties'] as object), ['mode', 'id', 'children']);
});

test('mcpCall(): calls with the same idempotency key run once, and a call without a required key gets a generated key', async (t) => {
  for (const place of ['application', 'route'] as const) {
    const { app } = make(t);
    const once = new IdempotencyMiddleware({ required: true });
    if (place === 'application') app.use(once);
    let count = 0;
    app
      .post('/write', { public: true, use: place === 'route' ? [once] : [] }, () => ++count)
      .get('/read', () => ++count)
      .tool('add', {}, () => ++count);
    const call = async (name: string, headers?: Record<string, string>): Promise<unknown> =>
      (await app.mcpCall(name, {}, { headers })).structuredContent;
    assert.deepEqual(
      [await call('post_write'), await call('post_write'), await call('add'), await call('get_read')],
      [1, 2, 3, 4],
    );
    const headers = { 'idempotency-key': '"k"' };
    assert.deepEqual([await call('post_write', headers), await call('post_write', headers)], [5, 5]);
  }
});

test('mcpCall(): a body that is null reaches the handler as null', async (t) => {
  const { app } = make(t);
  class Mark extends Schema {
    text = Field(str, { optional: true });
  }
  app
    .put('/mark', { public: true, body: nullable(Mark), response: any }, ({ body }) => ({ body }))
    .put('/value', { public: true, body: any, response: any }, ({ body }) => ({ body }));
  for (const name of ['put_mark', 'put_value']) {
    for (const body of [null, {}])
      assert.deepEqual((await app.mcpCall(name, { body })).structuredContent, { body });
  }
});

test('mcpTools(): read-only fields of a form or query are not arguments, and a file keeps its description', (t) => {
  const { app } = make(t);
  app.post(
    '/upload',
    {
      public: true,
      form: {
        id: Field(int, { readOnly: true, optional: true }),
        photo: Field(file, { description: 'The face' }),
        more: Field(list(file), { description: 'The rest' }),
        title: Field(str),
      },
    },
    () => 1,
  );
  app.get('/find', { query: { q: Field(''), at: Field(int, { readOnly: true, optional: true }) } }, () => 1);
  const { post_upload: upload, get_find: find } = toolsOf(app) as unknown as Record<
    string,
    { inputSchema: { properties: Record<string, { description?: string; type: string }> } }
  >;
  assert.deepEqual(Object.keys(find!.inputSchema.properties), ['q']);
  assert.deepEqual(
    Object.entries(upload!.inputSchema.properties).map(([name, { type, description }]) => [
      name,
      type,
      description,
    ]),
    [
      ['photo', 'object', 'The face'],
      ['more', 'array', 'The rest'],
      ['title', 'string', undefined],
    ],
  );
});
