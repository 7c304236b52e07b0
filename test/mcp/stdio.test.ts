/**
 * JSON-RPC over stdio, line by line: malformed, unknown, cancelled and truncated messages, in both
 * generations of the protocol.
 */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { PassThrough, Writable } from 'node:stream';
import { test } from 'node:test';
import {
  BearerAuth,
  Depends,
  Field,
  NotFound,
  Svc,
  createLogger,
  createToken,
  int,
  list,
  literal,
  str,
  toolLog,
  toolProgress,
} from 'svc';
import { fixedCaller } from '../../src/mcp/calls.ts';
import { ROOT } from '../support/build.ts';
import { run } from '../support/run.ts';
import { reserveOutput } from '../../src/mcp/reserved-output.ts';
import { LineReader } from '../../src/mcp/stdio.ts';
import { McpDispatcher } from '../../src/mcp/server.ts';
import { gateOf, soon } from '../support/endings.ts';
import { seeded } from '../support/random.ts';
import type { McpServer, StdioOptions } from 'svc';
import type { TestContext } from 'node:test';

type Json = Record<string, unknown>;

const SECRET = '3f0a9c7d5e1b48263f0a9c7d5e1b4826';
const INIT = {
  jsonrpc: '2.0',
  id: 'init',
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
};
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** Handlers that wait until the test releases them. */
class Gate {
  readonly entered: PromiseWithResolvers<void> = Promise.withResolvers();
  readonly open: PromiseWithResolvers<void>;
  readonly aborted: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(t: TestContext) {
    this.open = gateOf(t);
  }
}

function shop(gate?: Gate): Svc {
  const app = new Svc({
    title: 'shop',
    version: '2.0.0',
    env: 'test',
    authSecret: SECRET,
    logger: createLogger({ sink: () => undefined }),
  });
  app.get('/items', { summary: 'Lists items' }, () => [1, 2]);
  app.get('/items/{id:int}', ({ params }) => ({ id: params.id }));
  app.get('/wait', async ({ signal }) => {
    signal.addEventListener('abort', () => gate?.aborted.resolve());
    gate?.entered.resolve();
    await gate?.open.promise;
    return 'waited';
  });
  app.get('/work', { progress: Depends(toolProgress), tell: Depends(toolLog) }, ({ progress, tell }) => {
    for (const step of [1, 1, 0, 2]) progress(step, 2, `step ${step}`);
    tell('debug', 'fine');
    tell('warning', { hot: true }, 'oven');
    return 'done';
  });
  app.get('/print', () => {
    console.log('a line that is no message');
    process.stdout.write('{"no":"message"}\n');
    return 'printed';
  });
  app.get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  app.prompt(
    'review',
    {
      title: 'Review',
      description: 'Reviews code',
      args: { code: Field(str), style: Field(literal('short', 'long'), { default: 'short' }) },
    },
    ({ args }) => `Review ${args.code}, ${args.style}`,
  );
  return app;
}

/** A server on a pair of streams. The test is its client. */
class Line {
  readonly #input = new PassThrough();
  readonly #waiting: ((message: Json) => void)[] = [];
  readonly #unread: Json[] = [];
  /** All lines that the server has written. */
  readonly lines: string[] = [];
  readonly ended: Promise<void>;

  constructor(t: TestContext, server: McpServer, signal?: AbortSignal) {
    t.after(() => this.end());
    const reader = new LineReader(1e9, {
      onLine: (text) => this.#take(text),
      onBadLine: (problem) => assert.fail(problem),
    });
    const output = new Writable({
      write(chunk: Buffer, _encoding, done) {
        reader.push(chunk);
        done();
      },
    });
    this.ended = server.serve({ input: this.#input, output, signal });
  }

  #take(text: string): void {
    this.lines.push(text);
    const message = JSON.parse(text) as Json;
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#unread.push(message);
    else waiting(message);
  }

  raw(text: string | Buffer): this {
    this.#input.write(text);
    return this;
  }

  send(message: unknown): this {
    return this.raw(`${JSON.stringify(message)}\n`);
  }

  /** Returns the next message. */
  next(): Promise<Json> {
    const unread = this.#unread.shift();
    return unread === undefined
      ? soon(new Promise((resolve) => this.#waiting.push(resolve)), 'a message')
      : Promise.resolve(unread);
  }

  ask(message: unknown): Promise<Json> {
    return this.send(message).next();
  }

  end(): Promise<void> {
    this.#input.end();
    return soon(this.ended, 'the end of the conversation');
  }
}

async function open(
  t: TestContext,
  {
    app = shop(),
    options = {},
    version = '2025-11-25',
  }: { app?: Svc; options?: StdioOptions; version?: string } = {},
): Promise<Line> {
  const line = new Line(t, app.mcpServer(options));
  await line.ask({ ...INIT, params: { ...INIT.params, protocolVersion: version } });
  line.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  return line;
}

/** Returns a server without an initialized session. */
function bare(t: TestContext, app: Svc = shop()): Line {
  return new Line(t, app.mcpServer());
}

function errorOf(message: Json): [id: unknown, code: unknown] {
  return [message['id'], (message['error'] as Json | undefined)?.['code']];
}

const call = (id: unknown, name: string, args: Json = {}, meta?: Json): Json => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) },
});

test('MCP over stdio, initialize: the server accepts a known version, and answers an unknown version with the newest version before 2026-07-28', async (t) => {
  for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    const { result } = await bare(t).ask({ ...INIT, params: { ...INIT.params, protocolVersion: version } });
    assert.equal((result as Json)['protocolVersion'], version);
  }
  for (const version of ['2026-07-28', '1900-01-01']) {
    const { result } = await bare(t).ask({ ...INIT, params: { ...INIT.params, protocolVersion: version } });
    assert.equal((result as Json)['protocolVersion'], '2025-11-25');
  }
});

test("MCP over stdio, initialize: the result has the server's name and capabilities", async (t) => {
  const { result } = await bare(t).ask(INIT);
  assert.deepEqual(result, {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {}, logging: {}, resources: { subscribe: true }, prompts: {}, completions: {} },
    serverInfo: { name: 'shop', title: 'shop', version: '2.0.0' },
  });
});

test('MCP over stdio, initialize: an initialize request is refused if a required parameter is missing, or if it is the second one', async (t) => {
  const line = bare(t);
  for (const params of [
    undefined,
    {},
    { protocolVersion: 1 },
    { protocolVersion: '2025-11-25' },
    { protocolVersion: '2025-11-25', capabilities: {} },
  ]) {
    assert.deepEqual(errorOf(await line.ask({ ...INIT, params })), ['init', -32_602]);
  }
  await line.ask(INIT);
  assert.deepEqual(errorOf(await line.ask({ ...INIT, id: 2 })), [2, -32_600]);
});

test('MCP over stdio, before initialize: the server answers only ping and requests of version 2026-07-28', async (t) => {
  const line = bare(t);
  assert.deepEqual(await line.ask({ jsonrpc: '2.0', id: 1, method: 'ping' }), {
    jsonrpc: '2.0',
    id: 1,
    result: {},
  });
  assert.deepEqual(errorOf(await line.ask({ jsonrpc: '2.0', id: 2, method: 'tools/list' })), [2, -32_602]);
  assert.ok(
    'result' in (await line.ask({ jsonrpc: '2.0', id: 3, method: 'tools/list', params: { _meta: META } })),
  );
});

test('MCP over stdio, lines: the error for invalid JSON is -32700, and the error for an invalid message is -32600', async (t) => {
  const line = bare(t);
  for (const text of ['garbage', '{"jsonrpc":"2.0",', '{"a":1}}', '\u0000'])
    assert.deepEqual(errorOf(await line.raw(`${text}\n`).next()), [null, -32_700]);
  assert.deepEqual(errorOf(await line.raw(Buffer.from([0x22, 0xff, 0x22, 10])).next()), [null, -32_700]);
  for (const [message, id] of [
    ['null', null],
    ['1', null],
    ['"x"', null],
    ['{}', null],
    ['{"jsonrpc":"1.0","id":1,"method":"ping"}', 1],
    ['{"id":1,"method":"ping"}', 1],
    ['{"jsonrpc":"2.0","id":1}', 1],
    ['{"jsonrpc":"2.0","id":1,"method":1}', 1],
    ['{"jsonrpc":"2.0","id":null,"method":"ping"}', null],
    ['{"jsonrpc":"2.0","id":1.5,"method":"ping"}', null],
    ['{"jsonrpc":"2.0","id":true,"method":"ping"}', null],
    ['{"jsonrpc":"2.0","id":{},"method":"ping"}', null],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","params":1}', 1],
  ] as const)
    assert.deepEqual(errorOf(await line.raw(`${message}\n`).next()), [id, -32_600], message);
  assert.deepEqual(
    errorOf(await line.raw('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}\n').next()),
    [1, -32_602],
  );
});

test('MCP over stdio, lines: since version 2025-11-25 the error for a message without an id has no id either', async (t) => {
  const line = await open(t);
  assert.deepEqual(Object.keys(await line.raw('garbage\n').next()), ['jsonrpc', 'error']);
});

test('MCP over stdio, lines: the server accepts CRLF, empty lines and chunks of any size, and does not answer notifications and responses', async (t) => {
  const line = bare(t);
  line.raw(
    '\r\n\n{"jsonrpc":"2.0","method":"nobody/knows"}\n{"jsonrpc":"2.0","id":9,"result":{}}\n{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}\n{"jsonrpc":"2.0","method":"ping"}\n',
  );
  const text = '{"jsonrpc":"2.0","id":"ü","method":"ping"}\r\n';
  for (const byte of Buffer.from(text)) line.raw(Buffer.from([byte]));
  assert.deepEqual(await line.next(), { jsonrpc: '2.0', id: 'ü', result: {} });
  assert.equal(line.lines.length, 1);
});

test('MCP over stdio, lines: a line that is too long is answered with one error and skipped; the next line is processed', async (t) => {
  const line = new Line(t, shop().mcpServer({ maxLineBytes: 1_000 }));
  for (let n = 0; n < 5; n++) line.raw('x'.repeat(900));
  line.raw('\n');
  assert.deepEqual(errorOf(await line.next()), [null, -32_600]);
  assert.deepEqual(await line.ask({ jsonrpc: '2.0', id: 1, method: 'ping' }), {
    jsonrpc: '2.0',
    id: 1,
    result: {},
  });
  assert.equal(line.lines.length, 2);
});

test('LineReader returns the same lines at whatever byte the input is split', () => {
  const bytes = Buffer.from('a\r\n\n{"ü":1}\nrest');
  const read = (chunks: readonly Buffer[]): string[] => {
    const lines: string[] = [];
    const reader = new LineReader(100, {
      onLine: (text) => lines.push(text),
      onBadLine: () => assert.fail(),
    });
    for (const chunk of chunks) reader.push(chunk);
    reader.end();
    return lines;
  };
  for (let first = 0; first <= bytes.length; first++) {
    for (let second = first; second <= bytes.length; second++) {
      assert.deepEqual(
        read([bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)]),
        ['a', '{"ü":1}', 'rest'],
      );
    }
  }
});

test('MCP over stdio: each version refuses an unknown method with -32601, and also a method that only other versions have', async (t) => {
  const line = await open(t);
  for (const method of ['nope', 'Tools/list', 'sampling/createMessage', 'constructor', '__proto__'])
    assert.deepEqual(errorOf(await line.ask({ jsonrpc: '2.0', id: 1, method })), [1, -32_601], method);
  for (const method of ['nope', 'initialize', 'ping', 'logging/setLevel', 'resources/subscribe'])
    assert.deepEqual(
      errorOf(await line.ask({ jsonrpc: '2.0', id: 1, method, params: { _meta: META } })),
      [1, -32_601],
      method,
    );
});

test('MCP over stdio, version 2026-07-28: a request without version or capabilities gets -32602, and an unsupported version gets -32022', async (t) => {
  const line = bare(t);
  const ask = (meta: unknown, method = 'tools/list'): Promise<Json> =>
    line.ask({ jsonrpc: '2.0', id: 1, method, params: { _meta: meta } });
  assert.deepEqual(errorOf(await ask({}, 'server/discover')), [1, -32_602]);
  assert.deepEqual(errorOf(await ask({ 'io.modelcontextprotocol/protocolVersion': 1 })), [1, -32_602]);
  assert.deepEqual(
    errorOf(await ask({ 'io.modelcontextprotocol/protocolVersion': '2026-07-28' })),
    [1, -32_602],
  );
  assert.deepEqual(errorOf(await ask({ ...META, 'io.modelcontextprotocol/logLevel': 'loud' })), [1, -32_602]);
  assert.deepEqual(errorOf(await ask({ ...META, progressToken: {} })), [1, -32_602]);
  assert.deepEqual(await ask({ ...META, 'io.modelcontextprotocol/protocolVersion': '1900-01-01' }), {
    jsonrpc: '2.0',
    id: 1,
    error: {
      code: -32_022,
      message: 'Unsupported protocol version',
      data: {
        supported: ['2026-07-28'],
        requested: '1900-01-01',
      },
    },
  });
});

test("MCP over stdio, version 2026-07-28: results have a type, the server's name and a cache lifetime", async (t) => {
  const line = bare(t);
  const ask = async (method: string, params: Json = {}): Promise<Json> =>
    (await line.ask({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } }))['result'] as Json;
  for (const [method, params] of [
    ['server/discover'],
    ['tools/list'],
    ['prompts/list'],
    ['resources/list'],
    ['resources/templates/list'],
    ['resources/read', { uri: 'svc://routes' }],
  ] as [string, Json?][]) {
    const result = await ask(method, params);
    assert.deepEqual(
      [result['resultType'], result['ttlMs'], result['cacheScope']],
      ['complete', 300_000, 'private'],
      method,
    );
    assert.deepEqual(result['_meta'], {
      'io.modelcontextprotocol/serverInfo': { name: 'shop', title: 'shop', version: '2.0.0' },
    });
  }
  assert.deepEqual((await ask('server/discover'))['supportedVersions'], ['2026-07-28']);
  const called = await ask('tools/call', { name: 'get_items' });
  assert.deepEqual(
    [called['resultType'], called['ttlMs'], called['structuredContent']],
    ['complete', undefined, [1, 2]],
  );
});

test('MCP over stdio, before version 2026-07-28: results have no metadata of version 2026-07-28, and structured content only since version 2025-06-18', async (t) => {
  for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    const line = await open(t, { version });
    const { tools, ...rest } = (await line.ask({ jsonrpc: '2.0', id: 1, method: 'tools/list' }))[
      'result'
    ] as { tools: Json[] };
    assert.deepEqual(rest, {});
    const has = version >= '2025-06-18';
    assert.deepEqual(
      ['title' in tools[0]!, 'annotations' in tools[0]!],
      [has, version >= '2025-03-26'],
      version,
    );
    const one = (await line.ask(call(2, 'get_items_by_id', { id: 4 })))['result'] as Json;
    assert.deepEqual(
      [one['structuredContent'], one['content']],
      [has ? { id: 4 } : undefined, [{ type: 'text', text: '{"id":4}' }]],
    );
    assert.equal(
      ((await line.ask(call(2, 'get_items')))['result'] as Json)['structuredContent'],
      undefined,
      'a list without a declared response',
    );
  }
});

test('MCP over stdio, tools/call: a call of an unknown tool gets a protocol error, but a refusal by a known tool gets a result', async (t) => {
  const line = await open(t);
  assert.deepEqual(errorOf(await line.ask(call(1, 'nope'))), [1, -32_602]);
  assert.deepEqual(
    errorOf(await line.ask({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} })),
    [1, -32_602],
  );
  assert.deepEqual(
    errorOf(
      await line.ask({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'get_items', arguments: [] },
      }),
    ),
    [1, -32_602],
  );
  assert.deepEqual(
    errorOf(
      await line.ask({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'get_items', _meta: 1 },
      }),
    ),
    [1, -32_602],
  );
  assert.equal(
    ((await line.ask(call(1, 'get_items_by_id', { id: 'x' })))['result'] as Json)['isError'],
    true,
  );
});

test('MCP over stdio, tools/call: calls have the token that the process is configured with, or no token if none is configured', async (t) => {
  const refused = (await (await open(t)).ask(call(1, 'get_me')))['result'] as {
    isError: boolean;
    _meta: Json;
  };
  assert.deepEqual([refused.isError, refused._meta['svc/status']], [true, 401]);
  const mine = await open(t, { options: { token: createToken('ada', SECRET) } });
  assert.deepEqual(((await mine.ask(call(1, 'get_me')))['result'] as Json)['content'], [
    { type: 'text', text: 'ada' },
  ]);
});

test('MCP over stdio, lists: cursors lead from page to page, and a changed cursor or a cursor of another list gets -32602', async (t) => {
  const app = shop();
  for (let n = 0; n < 5; n++) app.get(`/more/${n}`, () => n);
  const line = await open(t, { app, options: { pageSize: 4 } });
  const page = async (cursor?: unknown, method = 'tools/list'): Promise<Json> =>
    line.ask({ jsonrpc: '2.0', id: 1, method, params: cursor === undefined ? {} : { cursor } });
  const names: unknown[] = [];
  let cursor: unknown;
  let pages = 0;
  do {
    const result = (await page(cursor))['result'] as { tools: Json[]; nextCursor?: string };
    names.push(...result.tools.map(({ name }) => name));
    cursor = result.nextCursor;
    pages++;
  } while (cursor !== undefined);
  assert.deepEqual([names, pages], [app.mcpTools().map(({ name }) => name), 3]);
  const { nextCursor } = (await page())['result'] as { nextCursor: string };
  for (const bad of [
    '',
    'x',
    5,
    null,
    {},
    `${nextCursor}x`,
    nextCursor.replace(/^./, 'O'),
    nextCursor.slice(0, -1),
    Buffer.from('4').toString('base64url'),
  ])
    assert.deepEqual(errorOf(await page(bad)), [1, -32_602], String(bad));
  assert.deepEqual(errorOf(await page(nextCursor, 'prompts/list')), [1, -32_602]);
});

test('MCP over stdio, batches: versions up to 2025-03-26 answer a batch with one array in any order, without responses to its notifications', async (t) => {
  for (const version of ['2024-11-05', '2025-03-26']) {
    const line = await open(t, { version });
    line.send([
      { jsonrpc: '2.0', id: 1, method: 'ping' },
      { jsonrpc: '2.0', method: 'x' },
      5,
      call(2, 'get_items'),
      { jsonrpc: '2.0', id: 3, method: 'initialize', params: INIT.params },
    ]);
    const answers = (await line.next()) as unknown as Json[];
    assert.deepEqual(
      answers.map((answer) => [answer['id'], (answer['error'] as Json | undefined)?.['code']]),
      [
        [1, undefined],
        [null, -32_600],
        [2, undefined],
        [3, -32_600],
      ],
    );
    assert.deepEqual(errorOf(await line.ask([])), [null, -32_600]);
    assert.deepEqual(
      await line.send([{ jsonrpc: '2.0', method: 'x' }]).ask({ jsonrpc: '2.0', id: 4, method: 'ping' }),
      { jsonrpc: '2.0', id: 4, result: {} },
    );
  }
});

test('MCP over stdio, batches: a batch is refused in version 2025-06-18, and before initialize', async (t) => {
  for (const line of [await open(t, { version: '2025-06-18' }), bare(t)])
    assert.deepEqual(errorOf(await line.ask([{ jsonrpc: '2.0', id: 1, method: 'ping' }])), [null, -32_600]);
});

test('MCP over stdio, concurrent calls: a call that waits does not delay other calls, and a duplicate id is refused', async (t) => {
  const gate = new Gate(t);
  const line = await open(t, { app: shop(gate) });
  line.send(call(1, 'get_wait'));
  await soon(gate.entered.promise, 'the call');
  assert.equal((await line.ask(call(2, 'get_items')))['id'], 2);
  assert.deepEqual(errorOf(await line.ask(call(1, 'get_items'))), [1, -32_600]);
  assert.ok('result' in (await line.ask(call('1', 'get_items'))), 'a string is another id');
  gate.open.resolve();
  assert.equal((await line.next())['id'], 1);
  assert.ok('result' in (await line.ask(call(1, 'get_items'))));
});

test('MCP over stdio, cancellation: a cancelled request is aborted and gets no response', async (t) => {
  for (const meta of [undefined, META]) {
    const gate = new Gate(t);
    const line = await open(t, { app: shop(gate) });
    line.send(call(1, 'get_wait', {}, meta));
    await soon(gate.entered.promise, 'the call');
    for (const params of [{ requestId: 2 }, { requestId: '1' }, {}, { requestId: {} }])
      line.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
    line.send({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 1, reason: 'enough' },
    });
    await soon(gate.aborted.promise, 'the call to be aborted');
    gate.open.resolve();
    const before = line.lines.length;
    assert.equal((await line.ask(call(1, 'get_items', {}, meta)))['id'], 1, 'the id is free again');
    assert.equal(line.lines.length, before + 1);
  }
});

test('MCP over stdio, progress: notifications are sent only to clients that requested them, and only if the progress grows', async (t) => {
  const line = await open(t);
  line.send({ jsonrpc: '2.0', id: 0, method: 'logging/setLevel', params: { level: 'emergency' } });
  await line.next();
  line.send(call(1, 'get_work', {}, { progressToken: 'p' }));
  assert.deepEqual(await line.next(), {
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: 'p', progress: 1, total: 2, message: 'step 1' },
  });
  assert.deepEqual(await line.next(), {
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: 'p', progress: 2, total: 2, message: 'step 2' },
  });
  assert.equal((await line.next())['id'], 1);
  assert.equal((await line.ask(call(2, 'get_work')))['id'], 2);
});

test('MCP over stdio, log messages: clients set the minimum level with logging/setLevel, or in version 2026-07-28 with each request', async (t) => {
  const line = await open(t);
  assert.deepEqual(
    errorOf(await line.ask({ jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params: { level: 'loud' } })),
    [1, -32_602],
  );
  assert.ok(
    'result' in
      (await line.ask({ jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params: { level: 'warning' } })),
  );
  assert.deepEqual(await line.ask(call(2, 'get_work')), {
    jsonrpc: '2.0',
    method: 'notifications/message',
    params: { level: 'warning', logger: 'oven', data: { hot: true } },
  });
  assert.equal((await line.next())['id'], 2);
  assert.equal((await line.ask(call(3, 'get_work', {}, META)))['id'], 3, 'not asked for');
  assert.equal(
    (
      (await line.ask(call(4, 'get_work', {}, { ...META, 'io.modelcontextprotocol/logLevel': 'debug' })))[
        'params'
      ] as Json
    )['level'],
    'debug',
  );
});

test('MCP over stdio, prompts: a prompt is listed with its arguments, rendered and completed', async (t) => {
  const line = await open(t);
  const ask = (method: string, params: Json): Promise<Json> =>
    line.ask({ jsonrpc: '2.0', id: 1, method, params });
  assert.deepEqual((await ask('prompts/list', {}))['result'], {
    prompts: [
      {
        name: 'review',
        title: 'Review',
        description: 'Reviews code',
        arguments: [
          { name: 'code', required: true },
          { name: 'style', required: false },
        ],
      },
    ],
  });
  assert.deepEqual((await ask('prompts/get', { name: 'review', arguments: { code: 'x=1' } }))['result'], {
    description: 'Reviews code',
    messages: [{ role: 'user', content: { type: 'text', text: 'Review x=1, short' } }],
  });
  for (const params of [
    {},
    { name: 'nope' },
    { name: 'review' },
    { name: 'review', arguments: { code: 1 } },
    { name: 'review', arguments: { code: 'x', other: 'y' } },
    { name: 'review', arguments: { code: 'x', style: 'odd' } },
  ]) {
    assert.deepEqual(errorOf(await ask('prompts/get', params)), [1, -32_602], JSON.stringify(params));
  }
  const complete = (value: string, name = 'style'): Promise<Json> =>
    ask('completion/complete', { ref: { type: 'ref/prompt', name: 'review' }, argument: { name, value } });
  assert.deepEqual((await complete('S'))['result'], {
    completion: { values: ['short'], total: 1, hasMore: false },
  });
  assert.deepEqual((await complete('', 'code'))['result'], {
    completion: { values: [], total: 0, hasMore: false },
  });
  assert.deepEqual(
    errorOf(
      await ask('completion/complete', {
        ref: { type: 'ref/prompt', name: 'x' },
        argument: { name: 'a', value: '' },
      }),
    ),
    [1, -32_602],
  );
});

test('MCP over stdio, resources: known resources can be read, and an unknown one gets the error code of the protocol version in use', async (t) => {
  const line = await open(t);
  const read = (uri: unknown, meta?: Json): Promise<Json> =>
    line.ask({
      jsonrpc: '2.0',
      id: 1,
      method: 'resources/read',
      params: { uri, ...(meta === undefined ? {} : { _meta: meta }) },
    });
  const { contents } = (await read('svc://routes'))['result'] as { contents: { text: string }[] };
  assert.deepEqual((JSON.parse(contents[0]!.text) as { routes: Json[] }).routes[0], {
    tool: 'get_items',
    method: 'GET',
    path: '/items',
    summary: 'Lists items',
    security: [],
  });
  const document = (await read('svc://openapi.json'))['result'] as { contents: { text: string }[] };
  assert.equal((JSON.parse(document.contents[0]!.text) as { info: { title: string } }).info.title, 'shop');
  assert.deepEqual(errorOf(await read('svc://nope')), [1, -32_002]);
  assert.deepEqual(errorOf(await read('svc://nope', META)), [1, -32_602]);
  assert.deepEqual(errorOf(await read(1)), [1, -32_602]);
  assert.deepEqual(
    (
      await line.ask({
        jsonrpc: '2.0',
        id: 1,
        method: 'resources/subscribe',
        params: { uri: 'svc://routes' },
      })
    )['result'],
    {},
  );
  assert.deepEqual(
    errorOf(
      await line.ask({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'svc://nope' } }),
    ),
    [1, -32_002],
  );
});

test('MCP over stdio, subscriptions/listen: the server acknowledges the subscriptions that it accepts, and sends a result when it stops', async (t) => {
  const line = bare(t);
  const asked = { toolsListChanged: true, resourceSubscriptions: ['svc://routes', 'svc://nope'] };
  assert.deepEqual(
    await line.ask({
      jsonrpc: '2.0',
      id: 7,
      method: 'subscriptions/listen',
      params: { _meta: META, notifications: asked },
    }),
    {
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: {
        _meta: { 'io.modelcontextprotocol/subscriptionId': 7 },
        notifications: { resourceSubscriptions: ['svc://routes'] },
      },
    },
  );
  await line.end();
  const { result, id } = await line.next();
  assert.deepEqual([id, (result as { _meta: Json })._meta['io.modelcontextprotocol/subscriptionId']], [7, 7]);
});

test('MCP over stdio, subscriptions/listen: after a subscription has ended, its listener for the abort signal of the server is removed', async (t) => {
  const app = new Svc({ env: 'test' });
  t.after(() => app.shutdown());
  const closing = new AbortController(),
    leaving = new AbortController();
  const exchange = {
    session: undefined,
    caller: fixedCaller({}),
    signal: leaving.signal,
    closing: closing.signal,
    notify: () => undefined,
    begin: () => undefined,
  };
  const answer = new McpDispatcher(app, { cacheScope: 'private' }).answer(
    { kind: 'request', id: 1, method: 'subscriptions/listen', params: { _meta: META, notifications: {} } },
    exchange,
  );
  assert.equal(getEventListeners(closing.signal, 'abort').length, 1);
  leaving.abort();
  await answer;
  assert.equal(getEventListeners(closing.signal, 'abort').length, 0);
});

test('MCP over stdio, end of input: running requests are answered before the server ends, and a truncated line is not executed', async (t) => {
  const gate = new Gate(t);
  const line = new Line(t, shop(gate).mcpServer());
  line.send(INIT).send(call(1, 'get_wait'));
  await soon(gate.entered.promise, 'the call');
  line.raw('{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"na');
  const ended = line.end();
  gate.open.resolve();
  await ended;
  const answers = line.lines
    .map((text) => errorOf(JSON.parse(text) as Json))
    .sort((left, right) => String(left[0]).localeCompare(String(right[0])));
  assert.deepEqual(answers, [
    [1, undefined],
    ['init', undefined],
    [undefined, -32_700],
  ]);
});

test('MCP over stdio, end of input: calls that exceed the grace period are aborted, and then the application is shut down', async (t) => {
  const gate = new Gate(t);
  const app = shop(gate);
  let isShut = false;
  app.onShutdown(() => {
    isShut = true;
  });
  const line = new Line(t, app.mcpServer({ graceSeconds: 0 }));
  line.send(INIT).send(call(1, 'get_wait'));
  await soon(gate.entered.promise, 'the call');
  const ended = line.end();
  await soon(gate.aborted.promise, 'the call to be aborted');
  gate.open.resolve();
  await ended;
  assert.deepEqual([line.lines.length, isShut], [1, true]);
});

test('MCP over stdio: when the signal of serve() is aborted, the server ends', async (t) => {
  const abort = new AbortController();
  const line = new Line(t, shop().mcpServer(), abort.signal);
  await line.ask(INIT);
  abort.abort();
  await soon(line.ended, 'the end of the conversation');
});

test('MCP over stdio: when its output stream fails, the server ends', async (t) => {
  const input = new PassThrough();
  t.after(() => input.end());
  const output = new Writable({ write: (_piece, _encoding, done) => done(new Error('EPIPE')) });
  const served = shop().mcpServer().serve({ input, output });
  input.write(`${JSON.stringify(INIT)}\n`);
  await soon(served, 'the end of the conversation');
});

test('as soon as serve() returns, standard output is reserved for MCP messages, and console.log() writes to standard error', async () => {
  const program = `import { Svc } from 'svc';
const served = new Svc().mcpServer().serve();
console.log('printed at once');
await served;`;
  const { status, stdout, stderr } = await run(
    process.execPath,
    ['--conditions=svc-source', '--input-type=module', '--eval', program],
    { cwd: ROOT },
  );
  assert.equal(status, 0, stderr);
  assert.equal(stdout, '');
  assert.match(stderr, /^printed at once$/m);
});

test('reserveOutput(): until the reservation is disposed, writes to the reserved stream go to another stream', () => {
  const texts = { own: '', other: '' };
  const into = (key: 'own' | 'other'): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        texts[key] += String(chunk);
        done();
      },
    });
  const own = into('own');
  const reserved = reserveOutput(own, into('other'));
  own.write('a');
  using again = reserveOutput(own, into('other'));
  again[Symbol.dispose]();
  own.write('b');
  reserved[Symbol.dispose]();
  own.write('c');
  assert.deepEqual(texts, { own: 'c', other: 'ab' });
});

test('mcpServer() refuses unknown options, invalid tokens and header fields that are not strings', () => {
  assert.throws(() => shop().mcpServer({ tokn: 'x' } as StdioOptions), { code: 'E_OPTION_UNKNOWN' });
  assert.throws(() => shop().mcpServer({ token: 'a b' }), { code: 'E_OPTION_RANGE' });
  assert.throws(() => shop().mcpServer({ headers: { a: 1 } } as unknown as StdioOptions), {
    code: 'E_OPTION_RANGE',
  });
  assert.throws(() => new Svc({ config: { mcpToken: 'a\nb' } }).mcpServer(), { code: 'E_CONFIG_CAST' });
});

test('reserveOutput(): when the reservation is disposed, the stream has its original write function again', () => {
  const reported: string[] = [];
  const stream = new Writable({ write: (_piece, _encoding, done) => done() });
  stream.write = ((chunk: string) => reported.push(chunk) > 0) as typeof stream.write;
  const { write } = stream;
  const reserved = reserveOutput(stream, new Writable({ write: (_piece, _encoding, done) => done() }));
  stream.write('elsewhere');
  reserved[Symbol.dispose]();
  stream.write('back');
  assert.deepEqual([stream.write === write, reported], [true, ['back']]);
});

test('serve(): invalid streams and signals are refused before the application starts', async () => {
  for (const streams of [{ input: 'x' }, { output: 1 }, { signal: true }, { inputs: new PassThrough() }]) {
    const app = shop();
    app.onStartup(() => assert.fail('the application has started'));
    await assert.rejects(
      app.mcpServer().serve(streams as object),
      (error: { code?: string }) =>
        error.code === ('inputs' in streams ? 'E_OPTION_UNKNOWN' : 'E_OPTION_RANGE'),
      Object.keys(streams)[0],
    );
  }
});

test('MCP over stdio, prompts: an exception in a prompt gets -32602 if it is an HTTP exception, and -32603 otherwise', async (t) => {
  const app = shop();
  app.prompt('bare', {}, (context) => JSON.stringify((context as { args?: unknown }).args));
  app.prompt('broken', {}, () => {
    throw new Error('on purpose');
  });
  app.prompt('refusing', {}, () => {
    throw new NotFound('no such review');
  });
  const line = await open(t, { app });
  const ask = (name: string): Promise<Json> =>
    line.ask({ jsonrpc: '2.0', id: 1, method: 'prompts/get', params: { name } });
  assert.deepEqual((await ask('bare'))['result'], {
    messages: [{ role: 'user', content: { type: 'text', text: '{}' } }],
  });
  assert.deepEqual(errorOf(await ask('broken')), [1, -32_603]);
  assert.deepEqual(errorOf(await ask('refusing')), [1, -32_602]);
});

test('MCP over stdio, completion/complete: completion for a resource without parameters is refused with -32602', async (t) => {
  const { error } = await (
    await open(t)
  ).ask({
    jsonrpc: '2.0',
    id: 1,
    method: 'completion/complete',
    params: { ref: { type: 'ref/resource', uri: 'svc://routes' }, argument: { name: 'a', value: '' } },
  });
  assert.deepEqual(
    [(error as Json)['code'], (error as Json)['message']],
    [-32_602, 'No resource has this URI template'],
  );
});

test('mcpServer(): the option "headers" sets header fields of every call', async (t) => {
  const app = shop();
  app.get('/tenant', { headers: { tenant: Field(int) } }, ({ headers }) => ({ tenant: headers.tenant }));
  const line = await open(t, { app, options: { headers: { Tenant: '7' } } });
  assert.deepEqual(((await line.ask(call(1, 'get_tenant')))['result'] as Json)['structuredContent'], {
    tenant: 7,
  });
});

test('MCP over stdio, before version 2026-07-28: a list becomes the member "result" of an object, because structured content must be an object', async (t) => {
  const app = shop();
  app.get('/typed', { response: list(int) }, () => [1, 2]);
  const line = await open(t, { app });
  const { tools } = (await line.ask({ jsonrpc: '2.0', id: 1, method: 'tools/list' }))['result'] as {
    tools: Json[];
  };
  const integer = { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
  assert.deepEqual(tools.at(-1)!['outputSchema'], {
    type: 'object',
    properties: { result: { type: 'array', items: integer } },
    required: ['result'],
    additionalProperties: false,
  });
  assert.deepEqual(((await line.ask(call(2, 'get_typed')))['result'] as Json)['structuredContent'], {
    result: [1, 2],
  });
  const modern = (await line.ask({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: META } }))[
    'result'
  ] as { tools: Json[] };
  assert.deepEqual(modern.tools.at(-1)!['outputSchema'], { type: 'array', items: integer });
});

test('MCP over stdio, log messages: a value that JSON cannot represent is sent as text or null, and the handler continues', async (t) => {
  const app = shop();
  const circle: unknown[] = [];
  circle.push(circle);
  app.get('/odd', { tell: Depends(toolLog) }, ({ tell }) => {
    for (const data of [10n, circle, undefined]) tell('error', data);
    return 1;
  });
  const line = await open(t, { app });
  line.send(call(1, 'get_odd'));
  const reported = [await line.next(), await line.next(), await line.next(), await line.next()];
  assert.deepEqual(
    reported.map(({ params, id }) => id ?? (params as Json)['data']),
    ['10', '', null, 1],
  );
});

/**
 * Returns the expected response to a line of version 2025-06-18: the id, null for a message without an id, or
 * undefined for no response.
 */
function answeredTo(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const { id, method, jsonrpc } = value as Json;
  const readable = typeof id === 'string' || Number.isInteger(id) ? id : null;
  if (jsonrpc !== '2.0') return readable;
  if (method === undefined && ('result' in value || 'error' in value)) return undefined;
  if (typeof method !== 'string') return readable;
  return 'id' in value ? readable : undefined;
}

test('MCP over stdio, random lines: each request gets exactly one response, and other lines get none', async (t) => {
  const random = seeded(12);
  const pick = <T>(all: readonly T[]): T => all[random(all.length)]!;
  let ids = 0;
  const anything = (): unknown =>
    pick<unknown>([
      null,
      true,
      0,
      -1,
      1.5,
      '',
      'x',
      [],
      {},
      [1],
      { name: 'get_items' },
      { name: 'get_items_by_id', arguments: { id: 1 } },
      { cursor: 'x' },
      { _meta: META },
      { _meta: 1 },
      { uri: 'svc://routes' },
    ]);
  const make = (): string => {
    const message: Json = {
      jsonrpc: '2.0',
      id: pick<unknown>([++ids, `s${ids}`]),
      method: pick([
        'ping',
        'tools/list',
        'tools/call',
        'prompts/get',
        'resources/read',
        'nope',
        'server/discover',
        'logging/setLevel',
        'completion/complete',
      ]),
      params: anything(),
    };
    for (let n = random(3); n > 0; n--) {
      const key = pick(['jsonrpc', 'id', 'method', 'params', 'result', 'error']);
      if (random(2) === 0) Reflect.deleteProperty(message, key);
      else message[key] = key === 'id' ? pick<unknown>([null, true, {}, 1.5, `t${++ids}`]) : anything();
    }
    const text = JSON.stringify(message);
    return random(10) === 0
      ? text.slice(0, random(text.length))
      : random(20) === 0
        ? JSON.stringify([message])
        : text;
  };
  const lines = Array.from({ length: 2_000 }, make).filter((text) => text !== '');
  const line = new Line(t, shop().mcpServer());
  await line.ask({ ...INIT, params: { ...INIT.params, protocolVersion: '2025-06-18' } });
  line.raw(lines.map((text) => `${text}\n`).join(''));
  await line.end();
  const answers = line.lines
    .slice(1)
    .map((text) => JSON.parse(text) as Json)
    .filter((message) => 'id' in message);
  for (const answer of answers)
    assert.deepEqual([answer['jsonrpc'], 'result' in answer !== 'error' in answer], ['2.0', true]);
  const sorted = (all: readonly unknown[]): string[] => all.map((id) => JSON.stringify(id)).sort();
  assert.deepEqual(
    sorted(answers.map(({ id }) => id)),
    sorted(lines.map(answeredTo).filter((id) => id !== undefined)),
  );
});

test('mcpServer().open(): the server can exchange messages over a custom transport', async (t) => {
  const app = shop();
  t.after(() => app.shutdown());
  const texts: string[] = [];
  const conversation = app.mcpServer().open((text) => texts.push(text));
  conversation.receive(
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: META } }),
  );
  assert.equal(conversation.inFlight, 1);
  await conversation.finish();
  assert.deepEqual([conversation.inFlight, texts.length, (JSON.parse(texts[0]!) as Json)['id']], [0, 1, 1]);
});

/** Returns an application with resources of its own. */
function library(): Svc {
  const app = new Svc({ env: 'test', authSecret: SECRET, logger: createLogger({ sink: () => undefined }) });
  app.resource('notes://all', { title: 'All notes', mimeType: 'application/json' }, () => [{ id: 1 }]);
  app.resource(
    'notes://{id}/{part}',
    { args: { id: Field(int), part: Field(literal('head', 'body')) } },
    ({ args }) => (args.id === 7 ? `${args.part} of ${args.id + 1}` : [null, 404]),
  );
  app.resource('notes://picture', { mimeType: 'image/png' }, () => new Uint8Array([1, 2, 3]));
  app.resource('notes://mine', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  return app;
}

test('app.resource(): resources and templates are listed separately, and read by their URI', async (t) => {
  const line = await open(t, { app: library(), options: { resources: false } });
  let id = 1;
  const ask = (method: string, params: Json = {}): Promise<Json> =>
    line.ask({ jsonrpc: '2.0', id: id++, method, params });
  assert.deepEqual((await ask('resources/list'))['result'], {
    resources: [
      { uri: 'notes://all', name: 'notes://all', title: 'All notes', mimeType: 'application/json' },
      { uri: 'notes://picture', name: 'notes://picture', mimeType: 'image/png' },
      { uri: 'notes://mine', name: 'notes://mine', mimeType: 'text/plain' },
    ],
  });
  assert.deepEqual((await ask('resources/templates/list'))['result'], {
    resourceTemplates: [
      { uriTemplate: 'notes://{id}/{part}', name: 'notes://{id}/{part}', mimeType: 'text/plain' },
    ],
  });
  const read = async (uri: string): Promise<unknown> => {
    const { result, error } = await ask('resources/read', { uri });
    return (result as { contents: unknown } | undefined)?.contents ?? (error as Json)['code'];
  };
  assert.deepEqual(await read('notes://all'), [
    { uri: 'notes://all', mimeType: 'application/json', text: '[{"id":1}]' },
  ]);
  assert.deepEqual(await read('notes://picture'), [
    { uri: 'notes://picture', mimeType: 'image/png', blob: 'AQID' },
  ]);
  assert.deepEqual(await read('notes://7/body'), [
    { uri: 'notes://7/body', mimeType: 'text/plain', text: 'body of 8' },
  ]);
  assert.equal(await read('notes://8/body'), -32_002, 'the function knows of none');
  for (const uri of ['notes://x/body', 'notes://7/tail', 'notes://mine'])
    assert.equal(await read(uri), -32_602, uri);
  for (const uri of [
    'notes://7',
    'notes://7/body/more',
    'notes://%/body',
    'notes://7/body?x=1',
    'file:///etc/passwd',
  ])
    assert.equal(await read(uri), -32_002, uri);
  const completed = await ask('completion/complete', {
    ref: { type: 'ref/resource', uri: 'notes://{id}/{part}' },
    argument: { name: 'part', value: 'b' },
  });
  assert.deepEqual((completed['result'] as { completion: { values: unknown } }).completion.values, ['body']);
  assert.deepEqual((await ask('resources/subscribe', { uri: 'notes://all' }))['result'], {});
});

test('app.resource(): an invalid URI and a duplicate URI are refused', () => {
  for (const uri of ['notes', 'notes://{id', 'notes://{id}/{id}', 'svc://routes', 'notes://a b', ''])
    assert.throws(() => library().resource(uri, {}, () => 1), { code: 'E_MCP_NAME' }, uri);
  assert.throws(() => library().resource('notes://all', {}, () => 1), { code: 'E_MCP_NAME' });
});
