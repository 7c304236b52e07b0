/**
 * `svc mcp`, run as its users run it.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { BIN, ROOT, build } from '../support/build.ts';
import { project, run } from '../support/run.ts';
import type { TestContext } from 'node:test';
import type { Ended } from '../support/run.ts';

before(build);

const APP = `import { APIKeyAuth, BearerAuth, Depends, Field, Svc, int } from 'svc';
console.log('printed while it is imported');
export const app = new Svc({ env: 'development', authSecret: '3f0a9c7d5e1b48263f0a9c7d5e1b4826', logger: undefined });
app.get('/items/{id:int}', { summary: 'Shows an item', query: { full: Field(false) } }, ({ params }) => { console.log('printed by a handler'); return { id: params.id }; });
app.post('/items', { description: 'Adds an item', form: { n: Field(int) } }, ({ form }) => form.n);
app.get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
app.get('/key', { client: Depends(APIKeyAuth({ keys: { shop: 'a-long-enough-key-1' } })) }, ({ client }) => client);
app.onStartup(() => { console.log('printed at the start'); });
app.onShutdown(() => { console.error('SHUT DOWN'); });
`;

interface Session {
  readonly answers: readonly Record<string, unknown>[];
  readonly ended: Ended;
}

/** Sends messages to `svc mcp`, closes its input, and waits for its end. */
async function session(
  t: TestContext,
  messages: readonly object[],
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  kill?: NodeJS.Signals,
  program = APP,
): Promise<Session> {
  const cwd = project(t, { 'app.ts': program });
  const child = spawn(process.execPath, [BIN, 'mcp', 'app.ts', ...args], {
    cwd,
    env: { PATH: process.env['PATH'], ...env },
    stdio: 'pipe',
  });
  let stdout = '',
    stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (kill !== undefined) child.kill(kill);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.write(
    messages.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join(''),
  );
  if (kill === undefined) child.stdin.end();
  const [status, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) =>
    child.on('close', (...how) => resolve(how)),
  );
  return {
    answers: stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>),
    ended: { status, signal, stdout, stderr },
  };
}

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const INIT = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } },
};
const calls = (...names: string[]): object[] =>
  names.map((name, id) => ({
    id,
    method: 'tools/call',
    params: { name, arguments: name === 'get_items_by_id' ? { id: 3 } : {}, _meta: META },
  }));

test("svc mcp responds until its input ends, and keeps the application's output out of standard output", async (t) => {
  const { answers, ended } = await session(t, [
    INIT,
    { method: 'notifications/initialized' },
    { id: 2, method: 'tools/call', params: { name: 'get_items_by_id', arguments: { id: 3 } } },
  ]);
  assert.equal(ended.status, 0, ended.stderr);
  assert.deepEqual(
    answers.map(({ id }) => id),
    [1, 2],
  );
  assert.deepEqual((answers[1]!['result'] as Record<string, unknown>)['structuredContent'], { id: 3 });
  for (const text of [
    'printed while it is imported',
    'printed at the start',
    'printed by a handler',
    'SHUT DOWN',
  ])
    assert.ok(ended.stderr.includes(text), text);
});

test('svc mcp works with a program that contains its own bundled copy of svc', async (t) => {
  const { answers, ended } = await session(
    t,
    [INIT, ...calls('get_items_by_id')],
    [],
    {},
    undefined,
    APP.replace("from 'svc'", `from ${JSON.stringify(pathToFileURL(join(ROOT, 'src/index.ts')).href)}`),
  );
  assert.deepEqual([ended.status, answers.map(({ id }) => id)], [0, [1, 0]], ended.stderr);
  assert.ok(!ended.stderr.includes('jsonrpc'));
  assert.ok(ended.stderr.includes('printed by a handler'));
});

test('svc mcp redirects direct writes to file descriptor 1 and output of child processes, so that standard output has only MCP messages', async (t) => {
  const program = `import cp, { spawn } from 'node:child_process';
import fs, { writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { Svc } from 'svc';
writeSync(1, 'by writeSync\\n');
const closed = (child) => new Promise((resolve) => child.on('close', resolve));
const say = (how) => ['-e', \`console.log('by \${how}')\`];
export const app = new Svc({ env: 'development' });
app.get('/around', async () => {
  const { bytesWritten } = await promisify(fs.write)(1, Buffer.from('by write\\n'));
  fs.writevSync(1, [Buffer.from('by writevSync\\n')]);
  await promisify(fs.writev)(1, [Buffer.from('by writev\\n')]);
  fs.createWriteStream('', { fd: 1, autoClose: false }).write('by a stream\\n');
  fs.writeFileSync(1, 'by writeFileSync\\n');
  fs.appendFileSync(1, 'by appendFileSync\\n');
  await promisify(fs.writeFile)(1, 'by writeFile\\n');
  cp.execSync('echo by execSync', { stdio: 'inherit' });
  cp.spawnSync(process.execPath, say('spawnSync'), { stdio: [0, 1, 2] });
  await closed(spawn(process.execPath, say('spawn'), { stdio: ['ignore', process.stdout, 'inherit'] }));
  await closed(spawn(process.execPath, say('inheritance'), { stdio: 'inherit' }));
  const piped = cp.execFileSync(process.execPath, say('nobody'), { encoding: 'utf8' });
  return { bytesWritten, piped };
});
`;
  const { answers, ended } = await session(t, [INIT, ...calls('get_around')], [], {}, undefined, program);
  assert.deepEqual([ended.status, answers.map(({ id }) => id)], [0, [1, 0]], ended.stderr);
  assert.deepEqual((answers[1]!['result'] as Record<string, unknown>)['structuredContent'], {
    bytesWritten: 9,
    piped: 'by nobody\n',
  });
  for (const how of [
    'writeSync',
    'write',
    'writevSync',
    'writev',
    'a stream',
    'writeFileSync',
    'appendFileSync',
    'writeFile',
    'execSync',
    'spawnSync',
    'spawn',
    'inheritance',
  ])
    assert.match(ended.stderr, new RegExp(`^by ${how}$`, 'm'));
});

test('svc mcp redirects output that worker threads write to file descriptor 1, so that standard output has only MCP messages', async (t) => {
  const program = `import { writeFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { Svc } from 'svc';
const own = new URL('./own.cjs', import.meta.url), module = new URL('./module.mjs', import.meta.url);
writeFileSync(own, "const fs = require('node:fs'); fs.writeSync(1, 'by a worker\\\\n'); fs.write(1, 'by ' + require('node:worker_threads').workerData + '\\\\n', () => undefined);");
writeFileSync(module, "import { writeSync } from 'node:fs'; writeSync(1, 'by a module\\\\n');");
class Named extends Worker { named = true; }
const code = (worker) => new Promise((resolve) => worker.on('exit', resolve));
export const app = new Svc({ env: 'development' });
app.get('/around', async () => {
  const named = new Named(own, { workerData: 'its data' });
  const codes = [await code(named), await code(new Worker(module, { execArgv: ['--no-warnings'] }))];
  return { codes, is: named.named && named instanceof Worker };
});
`;
  const { answers, ended } = await session(t, [INIT, ...calls('get_around')], [], {}, undefined, program);
  assert.deepEqual([ended.status, answers.map(({ id }) => id)], [0, [1, 0]], ended.stderr);
  assert.deepEqual((answers[1]!['result'] as Record<string, unknown>)['structuredContent'], {
    codes: [0, 0],
    is: true,
  });
  for (const how of ['a worker', 'its data', 'a module'])
    assert.match(ended.stderr, new RegExp(`^by ${how}$`, 'm'));
});

test('child processes of an application under svc mcp cannot read the MCP messages on standard input', async (t) => {
  const program = `import cp, { spawn } from 'node:child_process';
import { Svc } from 'svc';
export const app = new Svc({ env: 'development' });
const reads = "process.stdin.on('data', () => process.exit(8)).on('end', () => process.exit(7)); console.error('CHILD')";
app.get('/synchronous', () => ({ statuses: ['inherit', [0, 'pipe', 2]].map((stdio) => cp.spawnSync(process.execPath, ['-e', reads], { stdio }).status), piped: cp.execFileSync(process.execPath, ['-e', 'process.stdin.pipe(process.stdout)'], { input: 'its own', encoding: 'utf8' }) }));
app.get('/beside', async () => ({ status: await new Promise((resolve) => spawn(process.execPath, ['-e', reads], { stdio: [process.stdin, 'inherit', 'inherit'] }).on('close', resolve)) }));
`;
  const cwd = project(t, { 'app.ts': program });
  const child = spawn(process.execPath, [BIN, 'mcp', 'app.ts'], {
    cwd,
    env: { PATH: process.env['PATH'] },
    stdio: 'pipe',
  });
  t.after(() => child.kill());
  const send = (...messages: readonly object[]): void =>
    void child.stdin.write(
      messages.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join(''),
    );
  let stdout = '',
    stderr = '',
    reported = 0;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (stdout.split('\n').length > 5) child.stdin.end(); // two calls, and for each a message that arrived while its child process ran
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    for (const _ of text.matchAll(/CHILD/g)) send({ id: `while ${++reported}`, method: 'ping' }); // written without a wait, because the client does not read while the child process runs
  });
  send(...calls('get_synchronous', 'get_beside'));
  const status = await new Promise((resolve) => child.on('close', resolve));
  const answers = new Map(
    stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { id: unknown; result: { structuredContent?: unknown } })
      .map(({ id, result }) => [id, result]),
  );
  assert.deepEqual(
    [status, [...answers.keys()].map(String).toSorted()],
    [0, ['0', '1', 'while 1', 'while 2', 'while 3']],
    stderr,
  );
  assert.deepEqual(answers.get(0)!.structuredContent, { statuses: [7, 7], piped: 'its own' });
  assert.deepEqual(answers.get(1)!.structuredContent, { status: 7 });
});

test('on SIGTERM, svc mcp shuts the application down and ends with status 0', async (t) => {
  const { ended } = await session(t, [INIT], [], {}, 'SIGTERM');
  assert.deepEqual([ended.status, ended.signal], [0, null], ended.stderr);
  assert.match(ended.stderr, /SHUT DOWN/);
});

test('svc mcp can call tools with authentication only if environment variables contain the credentials', async (t) => {
  const statuses = (answers: Session['answers']): unknown[] =>
    answers
      .toSorted((left, right) => Number(left['id']) - Number(right['id']))
      .map(
        ({ result }) =>
          ((result as Record<string, unknown>)['_meta'] as Record<string, unknown>)['svc/status'],
      );
  assert.deepEqual(statuses((await session(t, calls('get_me', 'get_key'))).answers), [401, 401]);
  const { createToken } = await import('svc');
  const env = {
    SVC_MCP_TOKEN: createToken('ada', '3f0a9c7d5e1b48263f0a9c7d5e1b4826'),
    SHOP_KEY: 'a-long-enough-key-1',
  };
  assert.deepEqual(
    statuses((await session(t, calls('get_me', 'get_key'), ['--header', 'X-API-Key=SHOP_KEY'], env)).answers),
    [200, 200],
  );
});

test('svc mcp --list prints the MCP tools with arguments and descriptions, as text or, with --format json, as JSON', async (t) => {
  const cwd = project(t, {
    'app.ts': `${APP}process.on('exit', () => { console.log('printed at the end'); });\n`,
  });
  const { status, stdout } = await run(process.execPath, [BIN, 'mcp', 'app.ts', '--list'], { cwd });
  assert.equal(status, 0);
  assert.equal(
    stdout,
    [
      'get_items_by_id(id, full?)',
      '    Shows an item',
      'post_items(n)  writes',
      '    Adds an item',
      'get_me()',
      '    GET /me',
      'get_key()',
      '    GET /key',
      '',
    ].join('\n'),
  );
  const json = JSON.parse(
    (await run(process.execPath, [BIN, 'mcp', 'app.ts', '--list', '--format', 'json'], { cwd })).stdout,
  ) as { schemaVersion: number; tools: { name: string }[] };
  assert.deepEqual(
    [json.schemaVersion, json.tools.map(({ name }) => name)],
    [1, ['get_items_by_id', 'post_items', 'get_me', 'get_key']],
  );
});

test('in production, svc mcp --list prints the tools of an application that production refuses, and svc mcp names --env development', async (t) => {
  const cwd = project(t, {
    'app.ts': "import { Svc } from 'svc';\nexport const app = new Svc();\napp.post('/items', () => 1);\n",
  });
  const listed = await run(process.execPath, [BIN, 'mcp', 'app.ts', '--list'], { cwd });
  assert.deepEqual([listed.status, listed.stdout], [0, 'post_items()  writes\n    POST /items\n']);
  const served = await run(process.execPath, [BIN, 'mcp', 'app.ts'], { cwd });
  assert.equal(served.status, 3);
  assert.match(
    served.stderr,
    /^svc: Cannot start the application in production: 1 mistake\n {2}SVC201 [^]*--env development\n$/,
  );
});

test('svc mcp ends with status 2 for an invalid option, and with status 3 for an application that does not compile', async (t) => {
  const cwd = project(t, {
    'app.ts': APP,
    'bad.ts':
      "import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/a', () => 1);\napp.get('/a', () => 2);\n",
  });
  for (const args of [
    ['--format', 'xml'],
    ['--header', 'a b=X'],
    ['--header', 'X-Key=NOT_SET_ANYWHERE'],
    ['--header', 'X-Key'],
  ]) {
    const { status, stdout } = await run(process.execPath, [BIN, 'mcp', 'app.ts', ...args], { cwd });
    assert.deepEqual([status, stdout], [2, ''], args.join(' '));
  }
  const { status, stdout } = await run(process.execPath, [BIN, 'mcp', 'bad.ts'], { cwd });
  assert.deepEqual([status, stdout], [3, '']);
});
