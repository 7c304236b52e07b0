/**
 * Requests to the client while a handler runs: elicitation, sampling and the list of roots. Up to 2025-11-25,
 * the server sends them before the response to the call. Since 2026-07-28, they are the result of the call, and
 * the client repeats the call with its responses.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  APIKeyAuth,
  Depends,
  Field,
  IdempotencyMiddleware,
  Svc,
  bool,
  createLogger,
  int,
  list,
  literal,
  nullable,
  provide,
  record,
  str,
  toolClient,
  toolLog,
} from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { gateOf, soon, until } from '../support/endings.ts';
import type { ClientAbility, SampleQuestion, SvcOptions, ToolClient } from 'svc';
import type { TestContext } from 'node:test';

type Json = Record<string, unknown>;

const SECRET = '3f0a9c7d5e1b48263f0a9c7d5e1b4826';
const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const NAME = { key: 'name', message: 'Who are you?', schema: { name: Field(str, { maxLength: 9 }) } };

/** Returns an application whose tool `ask` runs `handler`. */
function site(
  t: TestContext,
  handler: (client: ToolClient) => unknown,
  options: SvcOptions = {},
): { readonly app: Svc; readonly client: TestClient; readonly lines: string[] } {
  const lines: string[] = [];
  const app = new Svc({
    env: 'test',
    authSecret: SECRET,
    logger: createLogger({ format: 'json', sink: (line) => void lines.push(line) }),
    ...options,
  });
  const client = Depends(toolClient);
  app.tool('ask', { client, args: { of: Field('') } }, async ({ client }) => handler(client));
  app.prompt('greet', { client }, async ({ client }) => `Hello ${(await client.elicit(NAME)).action}`);
  app.resource('notes://mine', { client }, async ({ client }) => (await client.elicit(NAME)).action);
  app.mountMcp('/mcp', { principal: ({ req }) => req.headers['x-principal'] ?? '' });
  const tester = new TestClient(app, { raiseErrors: false });
  t.after(() => tester.close());
  return { app, client: tester, lines };
}

/* ── 2026-07-28 ── */

interface Round {
  readonly status: number;
  readonly result: Json;
  readonly error: { readonly code: number; readonly data: Json };
}

/** Sends a request of the stateless protocol. */
async function round(
  client: TestClient,
  params: Json,
  {
    method = 'tools/call',
    capabilities = { elicitation: {}, sampling: {}, roots: {} },
    principal = '',
    deep = '',
    path = '/mcp',
    headers = {},
  }: {
    method?: string;
    capabilities?: Json;
    principal?: string;
    deep?: string;
    path?: string;
    headers?: Record<string, string>;
  } = {},
): Promise<Round> {
  const name = params['name'] ?? params['uri'];
  const _meta = { [VERSION]: '2026-07-28', [CAPABILITIES]: capabilities };
  const response = await client.post(path, {
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { _meta, ...params } }).replace(
      '"DEEP"',
      deep,
    ),
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      'mcp-name': String(name),
      'x-principal': principal,
      ...headers,
    },
  });
  return { status: response.status, ...((await response.json()) as Omit<Round, 'status'>) };
}

const ASK = { name: 'ask', arguments: { of: 'x' } };
const accepted = (content: Json): Json => ({ action: 'accept', content });
const textOf = ({ result }: Round): unknown => (result['content'] as { text: string }[])[0]!.text;

test('MCP request to the client, version 2026-07-28: the result of a call contains the request, and the client repeats the call with its response', async (t) => {
  let runs = 0;
  const { client } = site(t, async (asked) => {
    runs++;
    const { content } = await asked.elicit(NAME);
    return `Hello ${content?.name}`;
  });
  const first = await round(client, ASK);
  assert.equal(first.status, 200);
  assert.equal(first.result['resultType'], 'input_required');
  assert.deepEqual(first.result['inputRequests'], {
    name: {
      method: 'elicitation/create',
      params: {
        message: 'Who are you?',
        requestedSchema: {
          type: 'object',
          properties: { name: { type: 'string', maxLength: 9 } },
          required: ['name'],
        },
      },
    },
  });
  const { requestState } = first.result;
  const second = await round(client, {
    ...ASK,
    requestState,
    inputResponses: { name: accepted({ name: 'Ada' }), other: accepted({}) },
  });
  assert.equal(second.result['resultType'], 'complete');
  assert.deepEqual([textOf(second), runs], ['Hello Ada', 2]);
});

test('MCP request to the client, version 2026-07-28: the "requestState" contains earlier responses, so each request is sent to the client once', async (t) => {
  const { client } = site(t, async (asked) => {
    const first = await asked.elicit(NAME);
    const second = await asked.elicit({ message: 'How old?', schema: { age: Field(int) } });
    return { first, second };
  });
  const one = await round(client, ASK);
  const two = await round(client, {
    ...ASK,
    requestState: one.result['requestState'],
    inputResponses: { name: accepted({ name: 'Ada' }) },
  });
  assert.deepEqual(Object.keys(two.result['inputRequests'] as Json), ['elicit-2']);
  const three = await round(client, {
    ...ASK,
    requestState: two.result['requestState'],
    inputResponses: { 'elicit-2': { action: 'decline' } },
  });
  assert.deepEqual(JSON.parse(textOf(three) as string), {
    first: accepted({ name: 'Ada' }),
    second: { action: 'decline' },
  });
});

test('MCP request to the client, version 2026-07-28: requests that are made at the same time are sent in one result', async (t) => {
  const { client, lines } = site(t, async (asked) => {
    const name = asked.elicit(NAME);
    const greeting = asked.sample({ messages: 'Greet', maxTokens: 5 });
    const roots = asked.roots();
    await name; // the rejections of the other two promises have no listener
    return { greeting: await greeting, roots: await roots };
  });
  const { result } = await round(client, ASK);
  assert.deepEqual(
    Object.entries(result['inputRequests'] as Record<string, Json>).map(([key, { method }]) => [key, method]),
    [
      ['name', 'elicitation/create'],
      ['sample-2', 'sampling/createMessage'],
      ['roots-3', 'roots/list'],
    ],
  );
  assert.deepEqual(
    lines.filter((line) => line.includes('"level":"error"')),
    [],
  );
});

test('MCP request to the client, version 2026-07-28: a "requestState" is refused if it is changed or expired, or comes from another caller or call', async (t) => {
  const clock = new ManualClock();
  const { client } = site(t, async (asked) => (await asked.elicit(NAME)).action, { clock });
  const { result } = await round(client, ASK, { principal: 'ada' });
  const repeated = {
    ...ASK,
    requestState: result['requestState'],
    inputResponses: { name: { action: 'cancel' } },
  };
  const own = { principal: 'ada' };
  assert.equal(textOf(await round(client, repeated, own)), 'cancel');
  const others: [Json, object][] = [
    [{ ...repeated, requestState: `${String(result['requestState'])}A` }, own],
    [{ ...repeated, requestState: 7 }, own],
    [repeated, { principal: 'bob' }],
    [{ ...repeated, arguments: { of: 'y' } }, own],
    [
      { name: 'greet', requestState: result['requestState'] },
      { ...own, method: 'prompts/get' },
    ],
  ];
  for (const [params, options] of others)
    assert.equal((await round(client, params, options)).error.code, -32_602);
  clock.advance(3_600_000);
  assert.equal((await round(client, repeated, own)).error.code, -32_602);
});

test('MCP request to the client, version 2026-07-28: a "requestState" is accepted only with the API key with which it was issued', async (t) => {
  const { app, client } = site(t, () => 'unused');
  const [ada, bob] = ['a'.repeat(32), 'b'.repeat(32)];
  const me = Depends(APIKeyAuth({ keys: { ada, bob } }));
  app.get('/mine', { name: 'mine', me, client: Depends(toolClient) }, async ({ client }) => {
    return (await client.elicit(NAME)).action;
  });
  const { result } = await round(client, { name: 'mine' }, { headers: { 'x-api-key': ada } });
  const { requestState } = result;
  const repeated = { name: 'mine', requestState, inputResponses: { name: { action: 'cancel' } } };
  const foreign = await round(client, repeated, { headers: { 'x-api-key': bob } });
  assert.equal(foreign.error.code, -32_602);
  assert.equal(textOf(await round(client, repeated, { headers: { 'x-api-key': ada } })), 'cancel');
});

test('MCP version 2026-07-28: if the client answers an elicitation with a value that is not an object, the server replies with -32602; if the answer is missing, the server asks again', async (t) => {
  const { client } = site(t, async (asked) => (await asked.elicit(NAME)).action);
  for (const inputResponses of [null, 7, [], { name: 7 }, { name: [] }])
    assert.equal((await round(client, { ...ASK, inputResponses })).error.code, -32_602);
  const { result } = await round(client, { ...ASK, inputResponses: { wrong: accepted({}) } });
  assert.equal(result['resultType'], 'input_required');
  const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`;
  const { error } = await round(
    client,
    { name: 'ask', arguments: { of: 'DEEP' }, requestState: 'x' },
    { deep },
  );
  assert.equal(error.code, -32_602);
});

test('MCP request to the client, version 2026-07-28: responses that are nested too deeply, or are too large for a "requestState", get -32602', async (t) => {
  const { client, lines } = site(t, async (asked) => {
    const { content } = await asked.sample({ messages: 'x', maxTokens: 1 });
    await asked.elicit(NAME);
    return content;
  });
  const sampled = (text: string): Json => ({
    ...ASK,
    inputResponses: { 'sample-1': { role: 'assistant', model: 'm', content: { type: 'text', text } } },
  });
  const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`;
  assert.equal((await round(client, sampled('DEEP'), { deep })).error.code, -32_602);
  assert.equal((await round(client, sampled('x'.repeat(4_000_000)))).error.code, -32_602);
  assert.equal((await round(client, sampled('Hi'))).result['resultType'], 'input_required');
  assert.ok(!lines.some((line) => line.includes('mcp_request_failed')));
});

test('MCP request to the client, version 2026-07-28: a response that does not fit the schema of its elicitation becomes an error result with the problems', async (t) => {
  const { client } = site(t, async (asked) => (await asked.elicit(NAME)).action);
  for (const [answer, text] of [
    [
      accepted({ name: 'too long a name' }),
      /^400 Bad Request: The client's response to the elicitation "name" has 1 problem\n- name\.name: /,
    ],
    [accepted({}), /has 1 problem/],
    [{ action: 'accept' }, /does not have the form that the protocol defines/],
    [{ action: 'maybe' }, /does not have the form that the protocol defines/],
    [{}, /does not have the form that the protocol defines/],
  ] as const) {
    const { result } = await round(client, { ...ASK, inputResponses: { name: answer } });
    assert.equal(result['isError'], true);
    assert.match((result['content'] as { text: string }[])[0]!.text, text);
  }
});

test('MCP request to the client, version 2026-07-28: if the client lacks a capability, the answer is 400 with -32021 and the name of the capability', async (t) => {
  const requests: [ClientAbility, (client: ToolClient) => Promise<unknown>, Json][] = [
    ['elicit', (client) => client.elicit(NAME), { elicitation: { form: {} } }],
    [
      'elicit-url',
      (client) => client.elicit({ message: 'Pay', url: 'https://pay.example' }),
      { elicitation: { url: {} } },
    ],
    ['sample', (client) => client.sample({ messages: 'x', maxTokens: 1 }), { sampling: {} }],
    [
      'sample-tools',
      (client) => client.sample({ messages: 'x', maxTokens: 1, tools: [] }),
      { sampling: { tools: {} } },
    ],
    ['roots', (client) => client.roots(), { roots: {} }],
  ];
  for (const [ability, ask, required] of requests) {
    const { client } = site(t, async (asked) => (asked.can(ability) ? ask(asked) : ask(asked)));
    const lacking =
      ability === 'sample-tools'
        ? { sampling: {} }
        : ability === 'elicit'
          ? { elicitation: { url: {} } }
          : {};
    const { status, error } = await round(client, ASK, { capabilities: lacking });
    assert.deepEqual([status, error.code, error.data['requiredCapabilities']], [400, -32_021, required]);
    const { result } = await round(client, ASK, { capabilities: required });
    assert.equal(result['resultType'], 'input_required');
  }
});

test('MCP request to the client, version 2026-07-28: if the client lacks the capability for elicitation, a handler that catches the error still completes', async (t) => {
  const { client } = site(t, async (asked) => {
    if (asked.can('elicit')) return 'asked';
    return asked.elicit(NAME).catch((error: { code: string }) => error.code);
  });
  assert.equal(textOf(await round(client, ASK, { capabilities: {} })), 'client_capability');
});

test('MCP request to the client, version 2026-07-28: handlers of prompts and resources can send requests to the client', async (t) => {
  const { client } = site(t, () => 'unused');
  const answers = { inputResponses: { name: { action: 'decline' } } };
  for (const [method, params] of [
    ['prompts/get', { name: 'greet' }],
    ['resources/read', { uri: 'notes://mine' }],
  ] as const) {
    const first = await round(client, params, { method });
    assert.equal(first.result['resultType'], 'input_required');
    const second = await round(client, { ...params, ...answers }, { method });
    assert.equal(second.result['resultType'], 'complete');
    assert.match(JSON.stringify(second.result), /decline/);
  }
});

test('MCP request to the client, version 2026-07-28: a call with an idempotency key can be repeated with the responses and the same key', async (t) => {
  const { app } = site(t, () => 'unused');
  let runs = 0;
  app.tool(
    'once',
    { client: Depends(toolClient), use: [new IdempotencyMiddleware()] },
    async ({ client }) => `${(await client.elicit(NAME)).action} ${++runs}`,
  );
  app.mountMcp('/keyed', { headers: ['idempotency-key'] });
  const tester = new TestClient(app, { raiseErrors: false });
  t.after(() => tester.close());
  const keyed = { path: '/keyed', headers: { 'idempotency-key': '"one"' } };
  assert.equal((await round(tester, { name: 'once' }, keyed)).result['resultType'], 'input_required');
  const answers = { name: 'once', inputResponses: { name: { action: 'decline' } } };
  for (let repeat = 0; repeat < 2; repeat++)
    assert.equal(textOf(await round(tester, answers, keyed)), 'decline 1');
});

test('MCP request to the client, version 2026-07-28: a request without a response ends the handler by an exception, so that dependencies can undo their work', async (t) => {
  const ended: unknown[] = [];
  const work = provide({ client: Depends(toolClient) }, async function* ({ client }) {
    try {
      yield client;
    } catch (error) {
      ended.push((error as { code?: string }).code);
      throw error;
    }
  });
  const { app, client } = site(t, () => 'unused');
  app.tool('write', { work: Depends(work) }, async ({ work }) => (await work.elicit(NAME)).action);
  assert.equal((await round(client, { name: 'write' })).result['resultType'], 'input_required');
  assert.deepEqual(ended, ['input_required']);
});

/* ── up to 2025-11-25 ── */

/** Returns a client on one channel, after `initialize`. */
function channel(
  t: TestContext,
  app: Svc,
  capabilities: Json = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} },
): {
  readonly sent: Json[];
  say(message: Json): void;
  call(): void;
  nth(count: number): Promise<Json>;
  finish(): Promise<void>;
} {
  const sent: Json[] = [];
  const conversation = app.mcpServer().open((text) => sent.push(JSON.parse(text) as Json));
  t.after(() => conversation.abort());
  t.after(() => app.shutdown());
  const say = (message: Json): void => conversation.receive(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const clientInfo = { name: 't', version: '1' };
  say({ id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities, clientInfo } });
  return {
    sent,
    say,
    call: () => say({ id: 1, method: 'tools/call', params: ASK }),
    finish: () => conversation.finish(),
    nth: async (count) => {
      await until(() => sent.length > count);
      return sent[count]!;
    },
  };
}

const replyOf = (message: Json): string =>
  (message['result'] as { content: { text: string }[] }).content[0]!.text;

test('MCP request to the client, before version 2026-07-28: the server sends the request before the result of the call, and waits for the response', async (t) => {
  const { app } = site(t, async (client) => {
    const user = await client.elicit(NAME);
    const page = await client.elicit({ message: 'Pay', url: 'https://pay.example/1' });
    const request: SampleQuestion = {
      messages: 'Greet',
      maxTokens: 5,
      tools: [{ name: 'x' }],
      temperature: 0,
    };
    return { user, page, sampled: await client.sample(request), roots: await client.roots() };
  });
  const { say, call, nth } = channel(t, app);
  call();
  const form = await nth(1);
  assert.equal(form['method'], 'elicitation/create');
  say({ id: form['id'], result: accepted({ name: 'Ada' }) });
  const page = await nth(2);
  const { elicitationId, ...params } = page['params'] as Json;
  assert.equal(typeof elicitationId, 'string');
  assert.deepEqual(params, { mode: 'url', message: 'Pay', url: 'https://pay.example/1' });
  say({ id: page['id'], result: { action: 'accept' } });
  const sample = await nth(3);
  assert.deepEqual(sample['params'], {
    messages: [{ role: 'user', content: { type: 'text', text: 'Greet' } }],
    maxTokens: 5,
    temperature: 0,
    tools: [{ name: 'x' }],
  });
  const sampled = { role: 'assistant', content: { type: 'text', text: 'Hi' }, model: 'm' };
  say({ id: sample['id'], result: sampled });
  const roots = await nth(4);
  assert.equal(roots['method'], 'roots/list');
  say({ id: roots['id'], result: { roots: [{ uri: 'file:///a' }] } });
  assert.deepEqual(JSON.parse(replyOf(await nth(5))), {
    user: accepted({ name: 'Ada' }),
    page: { action: 'accept' },
    sampled,
    roots: [{ uri: 'file:///a' }],
  });
});

test('MCP request to the client, before version 2026-07-28: if the client responds with an error, with an invalid result or too late, the call has an error result', async (t) => {
  const clock = new ManualClock();
  const { app } = site(
    t,
    async (client) => (await client.sample({ messages: 'x', maxTokens: 1, timeoutMs: 50 })).model,
    {
      clock,
    },
  );
  const { say, call, nth } = channel(t, app);
  call();
  say({ id: (await nth(1))['id'], error: { code: -1, message: 'the user said no' } });
  assert.match(
    replyOf(await nth(2)),
    /^424 Failed Dependency: The client refused the request of the server: the user said no/,
  );
  call();
  say({ id: (await nth(3))['id'], result: { role: 'assistant', content: 'text', model: 'm' } });
  assert.match(
    replyOf(await nth(4)),
    /^400 Bad Request: The client's response to the request "sample-1" does not have the form/,
  );
  call();
  const tree = JSON.parse(`${'['.repeat(65)}${']'.repeat(65)}`) as unknown;
  say({
    id: (await nth(5))['id'],
    result: { role: 'assistant', content: { type: 'x', tree }, model: 'm' },
  });
  assert.match(
    replyOf(await nth(6)),
    /^400 Bad Request: The client's response to the request "sample-1" does not have the form/,
  );
  call();
  const request = await nth(7);
  clock.advance(50);
  const cancelled = await nth(8);
  assert.deepEqual(
    [cancelled['method'], (cancelled['params'] as Json)['requestId']],
    ['notifications/cancelled', request['id']],
  );
  assert.match(
    replyOf(await nth(9)),
    /^408 Request Timeout: The client did not respond to the request of the server within 50 ms/,
  );
  say({ id: request['id'], result: {} });
  say({ id: 'unknown', result: {} });
  say({ id: { toString: 1, valueOf: 1 }, result: {} });
  say({ id: 9, method: 'ping' });
  assert.equal((await nth(10))['id'], 9);
});

test('MCP request to the client, before version 2026-07-28: requests without a response are limited in number, and are cancelled when their call ends', async (t) => {
  const { app } = site(t, (client) => Promise.all(Array.from({ length: 91 }, () => client.roots())));
  const { say, sent, nth } = channel(t, app);
  for (let id = 1; id <= 11; id++) say({ id, method: 'tools/call', params: ASK });
  await until(() => sent.some(({ id, method }) => id === 11 && method === undefined));
  const requests = sent.filter((message) => message['method'] === 'roots/list');
  assert.equal(requests.length, 1_000);
  const refused = sent.find((message) => message['id'] === 11)!;
  assert.match(replyOf(refused), /^503 Service Unavailable: Already 1000 requests to this client/);
  const cancelled = sent.filter(({ method }) => method === 'notifications/cancelled');
  assert.equal(cancelled.length, 90, 'the requests to the client of the call that has ended');
  say({ id: 12, method: 'tools/call', params: ASK });
  await nth(sent.length + 89);
  assert.equal(sent.filter(({ method }) => method === 'roots/list').length, 1_090);
});

test('MCP request to the client, before version 2026-07-28: if the client cancels a call, the server cancels the requests of this call to the client', async (t) => {
  const gate = gateOf(t);
  const { app } = site(t, async (client) =>
    client.elicit(NAME).catch((error: unknown) => {
      gate.resolve();
      throw error;
    }),
  );
  const { say, call, nth } = channel(t, app);
  call();
  const request = await nth(1);
  say({ method: 'notifications/cancelled', params: { requestId: 1 } });
  await soon(gate.promise, 'the end of the request to the client');
  assert.equal(((await nth(2))['params'] as Json)['requestId'], request['id']);
});

test('MCP request to the client, before version 2026-07-28: if the client lacks a capability, no request is sent, and the call has an error result', async (t) => {
  const { app } = site(t, (client) => client.elicit(NAME));
  const { call, nth } = channel(t, app, { sampling: {} });
  call();
  const answer = await nth(1);
  assert.equal((answer['result'] as Json)['isError'], true);
  assert.match(
    replyOf(answer),
    /^400 Bad Request: Cannot send a request to the client: the client does not declare/,
  );
});

/** Sends requests of a legacy client over HTTP. */
function legacy(send: (init: { body: string; headers: Record<string, string> }) => Promise<Response>): {
  post(message: Json, headers?: Record<string, string>): Promise<Response>;
  begin(capabilities?: Json, headers?: Record<string, string>): Promise<Record<string, string>>;
} {
  const post = (message: Json, headers: Record<string, string> = {}): Promise<Response> =>
    send({
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
    });
  const begin = async (
    capabilities: Json = { elicitation: {} },
    headers: Record<string, string> = {},
  ): Promise<Record<string, string>> => {
    const clientInfo = { name: 't', version: '1' };
    const params = { protocolVersion: '2025-11-25', capabilities, clientInfo };
    const response = await post({ id: 0, method: 'initialize', params }, headers);
    await response.body?.cancel();
    return {
      'mcp-session-id': response.headers.get('mcp-session-id')!,
      'mcp-protocol-version': '2025-11-25',
    };
  };
  return { post, begin };
}

/** Reads the messages of an event stream. */
function messagesOf(response: Response): { next(): Promise<Json>; leave(): Promise<void> } {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const next = async (): Promise<Json> => {
    for (;;) {
      const found = /^data: (.*)\n/m.exec(text);
      if (found !== null) {
        text = text.slice(found.index + found[0].length);
        return JSON.parse(found[1]!) as Json;
      }
      text += String((await soon(reader.read(), 'a message of the stream')).value);
    }
  };
  return { next, leave: () => reader.cancel() };
}

test('MCP request to the client, before version 2026-07-28: over HTTP, a client that does not respond cannot prevent requests to other clients', async (t) => {
  const { client: http } = site(t, (client) => Promise.all(Array.from({ length: 50 }, () => client.roots())));
  const { post, begin } = legacy((init) => http.post('/mcp', init));
  const ask = async (principal: string, capabilities: Json = {}): Promise<Response> => {
    const session = await begin(capabilities, { 'x-principal': principal });
    return post({ id: 1, method: 'tools/call', params: ASK }, { ...session, 'x-principal': principal });
  };
  const roots = { roots: {} };
  const open: ReturnType<typeof messagesOf>[] = [];
  const opened = async (principal: string): Promise<string> => {
    const stream = messagesOf(await ask(principal, roots));
    open.push(stream);
    for (let count = 0; count < 50; count++) {
      const message = await stream.next();
      if (message['method'] !== 'roots/list') return replyOf(message);
    }
    return 'open';
  };
  for (let session = 0; session < 5; session++) assert.equal(await opened('greedy'), 'open');
  const refused = (await (await ask('greedy', roots)).json()) as Json;
  assert.match(replyOf(refused), /^503 Service Unavailable: Already 250 requests to this client/);
  assert.equal(await opened('modest'), 'open');
  assert.equal(await opened(''), 'open', 'a client without a name counts by its address');
  for (const stream of open) await stream.leave();
  assert.equal(await opened('greedy'), 'open', 'there is room again');
  await open.at(-1)!.leave();
});

test('MCP request to the client, before version 2026-07-28: over HTTP, the stream of the call carries the request, and only its session can respond', async (t) => {
  const { client } = site(t, async (asked) => (await asked.elicit(NAME)).content?.name);
  const { post, begin } = legacy((init) => client.post('/mcp', init));
  const [mine, other] = [await begin(), await begin()];
  const response = await post({ id: 1, method: 'tools/call', params: ASK }, mine);
  assert.match(response.headers.get('content-type')!, /^text\/event-stream/);
  const { next } = messagesOf(response);
  const { id, method } = await next();
  assert.equal(method, 'elicitation/create');
  assert.equal((await post({ id, result: accepted({ name: 'Eve' }) }, other)).status, 202);
  assert.equal((await post({ id: { toString: 1, valueOf: 1 }, result: {} }, mine)).status, 202);
  assert.equal((await post({ id, result: accepted({ name: 'Ada' }) }, mine)).status, 202);
  assert.equal(replyOf(await next()), 'Ada');
  const silent = await post(
    { id: 2, method: 'tools/call', params: ASK },
    { ...mine, accept: 'application/json' },
  );
  assert.match(replyOf((await silent.json()) as Json), /Cannot send a request to the client/);
});

test('MCP request to the client, before version 2026-07-28: if the client closes the stream, the request rejects with ClientDisconnected', async (t) => {
  const ended = gateOf<unknown>(t, undefined);
  const { client } = site(t, (asked) => asked.elicit(NAME).catch((error: unknown) => ended.resolve(error)));
  const { post, begin } = legacy((init) => client.post('/mcp', init));
  const response = await post({ id: 1, method: 'tools/call', params: ASK }, await begin());
  const { next, leave } = messagesOf(response);
  await next();
  await leave();
  assert.equal(
    ((await soon(ended.promise, 'the end of the request to the client')) as Error).name,
    'ClientDisconnected',
  );
});

test('MCP request to the client, before version 2026-07-28: if a slow client loses log messages, it still gets the request', async (t) => {
  const { app, client } = site(t, () => 'unused');
  const talk = { client: Depends(toolClient), tell: Depends(toolLog) };
  app.tool('talk', talk, async ({ client: asked, tell }) => {
    for (let i = 0; i < 1_500; i++) tell('error', i);
    return (await asked.elicit(NAME)).action;
  });
  const { post, begin } = legacy((init) => client.post('/mcp', init));
  const mine = await begin();
  const { next } = messagesOf(await post({ id: 1, method: 'tools/call', params: { name: 'talk' } }, mine));
  let message = await next();
  while (message['method'] === 'notifications/message') message = await next();
  assert.equal(message['method'], 'elicitation/create');
  await post({ id: message['id'], result: { action: 'decline' } }, mine);
  assert.equal(replyOf(await next()), 'decline');
});

test('MCP request to the client, before version 2026-07-28: if the server stops, requests to the client without a response end with 408', async (t) => {
  const handler = async (client: ToolClient): Promise<string> => (await client.elicit(NAME)).action;
  const { call, nth, finish } = channel(t, site(t, handler).app);
  call();
  await nth(1);
  await soon(finish(), 'the end of the conversation');
  assert.equal((await nth(2))['method'], 'notifications/cancelled');
  assert.match(replyOf(await nth(3)), /^408 Request Timeout: .*before the server stopped/);

  const run = { port: 0, handleSignals: false, drainSeconds: 20 };
  const { url, close } = await site(t, handler).app.run(run);
  t.after(() => close());
  const { post, begin } = legacy((init) => fetch(`${url}/mcp`, { method: 'POST', ...init }));
  const { next } = messagesOf(await post({ id: 1, method: 'tools/call', params: ASK }, await begin()));
  await next();
  const closing = close();
  assert.equal((await next())['method'], 'notifications/cancelled');
  assert.match(replyOf(await next()), /^408 Request Timeout: .*before the server stopped/);
  await soon(closing, 'the end of the server');
});

/* ── every version ── */

test('MCP request to the client: the server accepts a "requestState" and issues sessions even if authSecret is missing or empty', async (t) => {
  for (const authSecret of [undefined, '']) {
    const { client } = site(t, async (asked) => (await asked.elicit(NAME)).action, { authSecret });
    const { result } = await round(client, ASK);
    const answer = { requestState: result['requestState'], inputResponses: { name: { action: 'cancel' } } };
    assert.equal(textOf(await round(client, { ...ASK, ...answer })), 'cancel');
    const { begin } = legacy((init) => client.post('/mcp', init));
    assert.equal(typeof (await begin())['mcp-session-id'], 'string');
  }
});

test('mcpCall(): onQuestion responds to the requests that a handler sends to the client, and without onQuestion these requests fail', async (t) => {
  const { app, client } = site(t, async (asked) => ({
    can: asked.can('elicit'),
    answer: await asked.elicit(NAME),
  }));
  app.get('/plain', { client: Depends(toolClient) }, ({ client }) => client.roots());
  const asked: unknown[] = [];
  const result = await app.mcpCall(
    'ask',
    {},
    {
      onQuestion: (method, params, key) => {
        asked.push([method, params['message'], key]);
        return accepted({ name: 'Ada' });
      },
    },
  );
  assert.deepEqual(asked, [['elicitation/create', 'Who are you?', 'name']]);
  assert.deepEqual(JSON.parse((result.content[0] as { text: string }).text), {
    can: true,
    answer: accepted({ name: 'Ada' }),
  });
  assert.equal((await app.mcpCall('ask', {})).isError, true);
  const plain = await client.get('/plain');
  assert.deepEqual([plain.status, ((await plain.json()) as Json)['code']], [400, 'client_capability']);
});

test('elicit(): the schema that the client gets has only keywords that the protocol allows', async (t) => {
  const { app } = site(t, (client) =>
    client.elicit({
      message: 'm',
      schema: {
        mail: Field(str, { email: true, title: 'Mail', description: 'Where', minLength: 3 }),
        host: Field(str, { format: 'hostname', pattern: /^a/u, optional: true }),
        age: Field(int, { ge: 1, le: 99, default: 7 }),
        one: Field(literal('only')),
        size: Field(literal('s', 'm'), { default: 's', alias: 'the_size' }),
        tags: Field(list(literal('a', 'b')), { minLength: 1, maxLength: 2 }),
        sure: Field(bool),
      },
    }),
  );
  let form: unknown;
  await app.mcpCall(
    'ask',
    {},
    {
      onQuestion: (_, { requestedSchema }) => {
        form = requestedSchema;
        return { action: 'cancel' };
      },
    },
  );
  assert.deepEqual(form, {
    type: 'object',
    properties: {
      mail: {
        type: 'string',
        minLength: 3,
        maxLength: 254,
        format: 'email',
        title: 'Mail',
        description: 'Where',
      },
      host: { type: 'string', maxLength: 253 },
      age: { type: 'integer', minimum: 1, maximum: 99, default: 7 },
      one: { type: 'string', enum: ['only'] },
      the_size: { type: 'string', enum: ['s', 'm'], default: 's' },
      tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] }, minItems: 1, maxItems: 2 },
      sure: { type: 'boolean' },
    },
    required: ['mail', 'one', 'tags', 'sure'],
  });
});

test('elicit() and sample() refuse invalid arguments with E_MCP_QUESTION or E_OPTION_RANGE', async (t) => {
  const code = 'E_MCP_QUESTION';
  const message = 'm';
  const circular: Json = {};
  circular['itself'] = circular;
  const requests: [string, (client: ToolClient) => Promise<unknown>][] = [
    [code, (client) => client.elicit({ message, schema: { a: Field(list(str)) } })],
    [code, (client) => client.elicit({ message, schema: { a: Field(record(str)) } })],
    [code, (client) => client.elicit({ message, schema: { a: Field(nullable(str)) } })],
    [code, (client) => client.elicit({ message, schema: { a: Field(str, { secret: true }) } })],
    [code, (client) => client.elicit({ message } as never)],
    [code, (client) => client.elicit({ message, schema: {}, url: 'https://a.example' } as never)],
    [code, (client) => client.sample({ messages: [], maxTokens: 1 })],
    [code, (client) => client.sample({ messages: 'x' } as never)],
    [code, (client) => client.sample({ messages: 'x', maxTokens: 1, metadata: { id: 1n } })],
    [code, (client) => client.sample({ messages: 'x', maxTokens: 1, metadata: circular })],
    [code, (client) => Promise.all([client.roots({ key: 'a' }), client.roots({ key: 'a' })])],
    [code, (client) => Promise.all(Array.from({ length: 101 }, () => client.roots()))],
    ['E_OPTION_RANGE', (client) => client.elicit({ message, url: 'no address' })],
    ['E_OPTION_RANGE', (client) => client.roots({ timeoutMs: 0 })],
    ['E_OPTION_UNKNOWN', (client) => client.roots({ timeout: 1 } as never)],
  ];
  for (const [expected, ask] of requests) {
    let found: unknown;
    const { app } = site(t, (client) =>
      ask(client).catch((error: { code: unknown }) => (found = error.code)),
    );
    await app.mcpCall('ask', {}, { onQuestion: () => ({ roots: [] }) });
    assert.equal(found, expected);
  }
});
