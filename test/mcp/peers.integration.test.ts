/**
 * MCP against independent peers: the official clients of both generations, the inspector and the conformance
 * suite. The tests install them.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { createToken } from 'svc';
import { ROOT, build } from '../support/build.ts';
import { needsRedis, RedisServer } from '../support/redis-server.ts';
import { roundRobin } from '../support/round-robin.ts';
import { run, start } from '../support/run.ts';
import { scratch } from '../support/scratch.ts';
import { everything } from '../support/mcp-everything.ts';
import type { TestContext } from 'node:test';

const FIXTURE = join(ROOT, 'test/support/mcp-everything.ts');
const SECRET = '3f0a9c7d5e1b48263f0a9c7d5e1b4826';
/**
 * Command that starts the fixture. Clients do not pass on the environment, so the fixture runs the built
 * package: with sources, each process would compile them again.
 */
const STDIO = { command: process.execPath, args: [FIXTURE] };

before(build);

/**
 * Code that clients of both generations run. It calls the server in every way, and prints the results as one
 * array. Each generation defines `connect`.
 */
const CONVERSATION = `
const capabilities = { elicitation: {}, sampling: {} };
const filled = ({ params }) => ({ action: 'accept', content: Object.fromEntries(Object.keys(params.requestedSchema.properties).map((name) => [name, name + ' of the user'])) });
const sampled = ({ params }) => ({ role: 'assistant', model: 'm', content: { type: 'text', text: params.messages[0].content.text + ' back' } });
const outcomes = [];
for (const target of JSON.parse(process.argv[2])) outcomes.push(await converse(target));
console.log(JSON.stringify(outcomes));
process.exit(0);

async function converse(target) {
const told = { progress: [], logs: [] };
const { client, version, era } = await connect(target, (message) => told.logs.push(message.params.data));
const code = (promise) => promise.then(() => 'none', (error) => error.code);
const out = { version: version(), era: era() };
out.tools = [];
for (let cursor; ;) {
  const page = await client.listTools(cursor === undefined ? {} : { cursor });
  out.tools.push(...page.tools.map((tool) => tool.name));
  if ((cursor = page.nextCursor) === undefined) break;
}
out.list = (await client.callTool({ name: 'get_users', arguments: { limit: 1 } })).structuredContent;
out.one = (await client.callTool({ name: 'get_users_by_id', arguments: { id: 1 } })).structuredContent;
out.added = (await client.callTool({ name: 'post_users', arguments: { name: 'Bob', tags: ['a'] } })).structuredContent;
out.wrong = (await client.callTool({ name: 'post_users', arguments: { name: 'B', tags: 1 } }));
out.absent = (await client.callTool({ name: 'get_users_by_id', arguments: { id: 99 } })).isError;
out.me = (await client.callTool({ name: 'get_me' })).structuredContent ?? null;
out.printed = (await client.callTool({ name: 'get_printing' })).content[0].text;
out.mixed = (await client.callTool({ name: 'test_multiple_content_types' })).content.map((part) => part.type);
out.progress = (await callWithProgress(client, { name: 'test_tool_with_progress', arguments: {} }, (step) => told.progress.push(step.progress))).content[0].text;
out.unknown = await code(client.callTool({ name: 'nope' }));
const abort = new AbortController();
const waiting = client.callTool({ name: 'get_waiting' }, ...signalOf(abort.signal)).then(() => 'answered', () => 'cancelled');
setTimeout(() => abort.abort('enough'), 100);
out.cancelled = await waiting;
out.concurrent = (await Promise.all(Array.from({ length: 20 }, () => client.callTool({ name: 'test_simple_text' })))).length;
out.resources = (await client.listResources()).resources.map((resource) => resource.uri);
out.routes = JSON.parse((await client.readResource({ uri: 'svc://routes' })).contents[0].text).routes.length;
out.openapi = JSON.parse((await client.readResource({ uri: 'svc://openapi.json' })).contents[0].text).openapi;
out.noResource = await code(client.readResource({ uri: 'svc://nope' }));
out.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
out.prompt = (await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } })).messages[0].content.text;
out.noPrompt = await code(client.getPrompt({ name: 'test_prompt_with_arguments', arguments: {} }));
out.completion = (await client.complete({ ref: { type: 'ref/prompt', name: 'choose' }, argument: { name: 'colour', value: 'g' } })).completion.values;
out.told = told.progress;
out.rounds = JSON.parse((await client.callTool({ name: 'test_input_required_result_multi_round' })).content[0].text);
out.sampled = (await client.callTool({ name: 'test_sampling', arguments: { prompt: 'Hello' } })).content[0].text;
await client.callTool({ name: 'test_tool_with_logging', arguments: {} });
out.logs = told.logs;
await client.close();
return out;
}
`;

const FIRST = `
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
const signalOf = (signal) => [undefined, { signal }];
const callWithProgress = (client, params, onprogress) => client.callTool(params, undefined, { onprogress });
async function connect({ url, headers, stdio }, onLog) {
  const client = new Client({ name: 'peer', version: '1' }, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, filled);
  client.setRequestHandler(CreateMessageRequestSchema, sampled);
  client.setNotificationHandler(LoggingMessageNotificationSchema, onLog);
  const transport = stdio === undefined ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }) : new StdioClientTransport({ ...stdio, stderr: 'ignore' });
  await client.connect(transport);
  return { client, version: () => transport.protocolVersion ?? client.transport?._protocolVersion ?? null, era: () => 'legacy' };
}
${CONVERSATION}`;

const SECOND = `
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
const signalOf = (signal) => [{ signal }];
const callWithProgress = (client, params, onprogress) => client.callTool(params, { onprogress });
async function connect({ url, headers, stdio, mode }, onLog) {
  const client = new Client({ name: 'peer', version: '2' }, { capabilities, versionNegotiation: { mode } });
  client.setRequestHandler('elicitation/create', filled);
  client.setRequestHandler('sampling/createMessage', sampled);
  client.setNotificationHandler('notifications/message', onLog);
  await client.connect(stdio === undefined ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }) : new StdioClientTransport({ ...stdio, stderr: 'ignore' }));
  return { client, version: () => client.getNegotiatedProtocolVersion(), era: () => client.getProtocolEra() };
}
${CONVERSATION}`;

interface Outcome {
  readonly version: string | null;
  readonly era: string;
  readonly tools: string[];
  readonly [name: string]: unknown;
}

/** Serves the fixture on a port of its own, in this process. */
async function served(t: TestContext, pageSize?: number): Promise<string> {
  const app = everything(pageSize === undefined ? {} : { pageSize });
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 0 });
  t.after(() => server.close());
  return `${server.url}/mcp`;
}

/** One process runs all targets in sequence, because loading a client takes longer than its calls. */
async function converse(folder: string, program: string, targets: readonly object[]): Promise<Outcome[]> {
  const file = join(folder, 'conversation.mjs');
  writeFileSync(file, program);
  const { status, stdout, stderr } = await run(process.execPath, [file, JSON.stringify(targets)], {
    cwd: folder,
  });
  assert.equal(status, 0, stderr.slice(0, 4_000) + stdout.slice(0, 1_000));
  return JSON.parse(stdout) as Outcome[];
}

/** Results that every client must print. */
function judge(
  out: Outcome,
  { isModern, hasToken, noResource = -32_602 }: { isModern: boolean; hasToken: boolean; noResource?: number },
): void {
  assert.equal(out.era, isModern ? 'modern' : 'legacy');
  const { version, era, tools, wrong, ...rest } = out;
  assert.deepEqual(
    tools,
    everything()
      .mcpTools()
      .map((tool) => tool.name),
  );
  const ada = { id: 1, name: 'Ada', role: 'user' };
  assert.deepEqual(rest, {
    list: isModern ? [ada] : { result: [ada] },
    one: ada,
    added: { id: 2, name: 'Bob', role: 'user' },
    absent: true,
    me: hasToken ? { sub: 'peer' } : null,
    printed: 'printed',
    mixed: ['text', 'image', 'resource'],
    progress: 'progressed',
    told: [0, 50, 100],
    unknown: -32_602,
    cancelled: 'cancelled',
    concurrent: 20,
    resources: [
      'svc://routes',
      'svc://openapi.json',
      'test://static-text',
      'test://static-binary',
      'test://watched-resource',
    ],
    routes: 6,
    openapi: '3.1.1',
    noResource,
    prompts: [
      'test_simple_prompt',
      'test_prompt_with_arguments',
      'test_prompt_with_embedded_resource',
      'test_prompt_with_image',
      'choose',
      'test_input_required_result_prompt',
    ],
    prompt: "Prompt with arguments: arg1='a', arg2='b'",
    noPrompt: -32_602,
    completion: ['green'],
    rounds: { name: 'name of the user', color: 'color of the user' },
    sampled: 'LLM response: {"type":"text","text":"Hello back"}',
    logs: isModern ? [] : ['Tool execution started', 'Tool processing data', 'Tool execution completed'],
  });
  const { isError, content } = wrong as { isError: boolean; content: { text: string }[] };
  assert.equal(isError, true);
  assert.match(content[0]!.text, /^400 Bad Request: The input has 2 problems\n- name: .*\n- tags: /);
}

const HEADERS = { authorization: `Bearer ${createToken('peer', SECRET, { expiresInSeconds: 86_400 })}` };

test('the official MCP client 1.x calls tools, reads resources and renders prompts, over stdio and HTTP', async (t) => {
  const folder = scratch(t, 'mcp-sdk-1', { '@modelcontextprotocol/sdk': '1.32.2' });
  if (folder === undefined) return;
  const [stdio, http] = await converse(folder, FIRST, [
    { stdio: STDIO },
    { url: await served(t), headers: HEADERS },
  ]);
  judge(stdio!, { isModern: false, hasToken: false, noResource: -32_002 });
  judge(http!, { isModern: false, hasToken: true, noResource: -32_002 });
});

test('the official MCP client 2.x calls tools, reads resources and renders prompts, over stdio and HTTP, in version 2026-07-28 and an earlier version', async (t) => {
  const folder = scratch(t, 'mcp-sdk-2', { '@modelcontextprotocol/client': '2.4.0' });
  if (folder === undefined) return;
  const modes = [
    ['legacy', false],
    ['auto', true],
    [{ pin: '2026-07-28' }, true],
  ] as const;
  const targets: object[] = [];
  for (const [mode] of modes)
    targets.push({ stdio: STDIO, mode }, { url: await served(t), headers: HEADERS, mode });
  const outcomes = await converse(folder, SECOND, targets);
  assert.equal(outcomes.length, targets.length);
  for (const [index, [, isModern]] of modes.entries()) {
    const [stdio, http] = [outcomes[2 * index]!, outcomes[2 * index + 1]!];
    judge(stdio, { isModern, hasToken: false });
    assert.equal(stdio.version, isModern ? '2026-07-28' : '2025-11-25');
    judge(http, { isModern, hasToken: true });
  }
});

test('the MCP inspector reports no problem in strict mode, over stdio and HTTP, in version 2026-07-28 of the protocol and in an earlier version', async (t) => {
  const folder = scratch(t, 'mcp-inspector', { '@modelcontextprotocol/inspector': '2.12.0' });
  if (folder === undefined) return;
  const url = await served(t);
  const inspector = join(folder, 'node_modules/.bin/mcp-inspector');
  for (const era of ['legacy', 'modern']) {
    for (const target of [
      [STDIO.command, ...STDIO.args],
      ['--transport', 'http', '--server-url', url],
    ]) {
      const ask = (...args: string[]): ReturnType<typeof run> =>
        run(
          process.execPath,
          [inspector, '--cli', '--protocol-era', era, '--format', 'json', '--quiet', ...args, ...target],
          { cwd: folder, env: { HOME: folder } },
        );
      const listed = await ask('--method', 'tools/list', '--strict');
      assert.equal(listed.status, 0, listed.stderr);
      assert.equal(
        (JSON.parse(listed.stdout) as { result: { tools: unknown[] } }).result.tools.length,
        everything().mcpTools().length,
        'every page',
      );
      const called = await ask(
        '--method',
        'tools/call',
        '--tool-name',
        'post_users',
        '--tool-args-json',
        '{"name":"Cy"}',
      );
      assert.match(called.stdout, /"name": ?"Cy"/, called.stderr);
    }
  }
});

/** Number of scenarios that each revision requires of a server. */
const REQUIRED: Readonly<Record<string, number>> = { '2025-11-25': 30, '2026-07-28': 37 };

for (const [revision, required] of Object.entries(REQUIRED)) {
  test(`all scenarios that the MCP conformance suite requires for version ${revision} pass`, async (t) =>
    conformance(t, revision, required, () => served(t, 100)));

  test(`all scenarios that the MCP conformance suite requires for version ${revision} pass behind a load balancer with two processes`, async (t) => {
    if (!needsRedis(t)) return;
    await conformance(t, revision, required, async () => {
      const { url } = await RedisServer.start(t);
      const processes = [1, 2].map(() => start(t, process.execPath, [FIXTURE, 'http', url]));
      const urls = await Promise.all(processes.map(async (each) => (await each.printed(/^http:\S+/m))[0]));
      return `${await roundRobin(t, urls)}/mcp`;
    });
  });
}

/** `serve` returns the URL of the endpoint. Two scenarios read only the first page of a list. */
async function conformance(
  t: TestContext,
  revision: string,
  required: number,
  serve: () => Promise<string>,
): Promise<void> {
  const folder = scratch(t, 'mcp-conformance', { '@modelcontextprotocol/conformance': '0.2.0-alpha.12' });
  if (folder === undefined) return;
  const { stdout, stderr } = await run(
    process.execPath,
    [
      join(folder, 'node_modules/@modelcontextprotocol/conformance/dist/index.js'),
      'server',
      '--url',
      await serve(),
      '--requirements',
      revision,
    ],
    { cwd: folder },
  );
  const unscored = new Map(
    [...stdout.matchAll(/^ {2}([✓✗]) ([\w-]+) \(/gm)].map(([, sign, name = '']) => [name, sign]),
  );
  const results = [...stdout.matchAll(/^([✓✗]) ([\w-]+): \d+ passed, \d+ failed/gm)]
    .map(([, sign, name]) => ({ name: name!, isGood: sign === '✓' }))
    .filter(({ name }) => !unscored.has(name));
  for (const name of ['json-schema-2020-12', 'http-custom-header-server-validation'])
    assert.notEqual(unscored.get(name), '✗', `${name}: ${stdout}`);
  assert.equal(results.length, required, stdout + stderr);
  assert.deepEqual(
    results.filter(({ isGood }) => !isGood),
    [],
    stdout,
  );
}
