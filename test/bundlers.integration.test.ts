/**
 * Bundlers: an application and the package in one file, or in several, run without the package beside them.
 */
import assert from 'node:assert/strict';
import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { installPackage } from './support/installed.ts';
import { folder, run, start, write } from './support/run.ts';
import { scratch } from './support/scratch.ts';
import type { TestContext } from 'node:test';

/** Uses each part of the package that is imported when it is first needed, and prints what it sees. */
const PROGRAM = `import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Field, Schema, Svc, file, str } from 'svc';
import { DatabasePlugin, openDatabase } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
import { TestClient } from 'svc/testing';

class Note extends Schema { text = Field(str); }
class Upload extends Schema { title = Field(str); photo = Field(file); }

const INITIALIZE = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } } };

async function main() {
  const files = mkdtempSync(join(tmpdir(), 'svc-test-'));
  writeFileSync(join(files, 'a.txt'), 'a file');
  const app = new Svc({ env: 'test', title: 'Bundled' });
  app.register(new DatabasePlugin('sqlite::memory:'));
  app.post('/notes', { body: Note, public: true }, ({ body }) => body);
  app.get('/seven', () => app.state.db.scalar('select 7'));
  app.post('/photos', { form: Upload, public: true }, async ({ form }) => [form.title, form.photo.filename, (await form.photo.bytes()).length]);
  app.mountStatic('/files', files);
  app.mountMcp('/mcp');
  app.websocket('/echo', { allowMissingOrigin: true }, async (socket) => { for await (const message of socket) socket.send(message); });

  const answer = await new TestClient(app).post('/notes', { json: { text: 'kept' } });
  const seen = { client: [answer.status, await answer.json()] };
  seen.fetch = await (await app.fetch(new Request('http://localhost/seven'))).json();
  const { url, close } = await app.run({ port: 0, handleSignals: false });
  seen.docs = /<title>[^<]*/.exec(await (await fetch(url + '/docs')).text())[0];
  seen.paths = Object.keys((await (await fetch(url + '/openapi.json')).json()).paths);
  seen.file = await (await fetch(url + '/files/a.txt')).text();
  const body = new FormData();
  body.set('title', 'cat');
  body.set('photo', new Blob(['pixels']), 'cat.png');
  seen.form = await (await fetch(url + '/photos', { method: 'POST', body })).json();
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
  seen.mcp = (await (await fetch(url + '/mcp', { method: 'POST', headers, body: JSON.stringify(INITIALIZE) })).json()).result.protocolVersion;
  seen.echo = await new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace('http', 'ws') + '/echo');
    socket.onopen = () => socket.send('hello');
    socket.onmessage = ({ data }) => { resolve(data); socket.close(); };
    socket.onerror = ({ error }) => reject(error);
  });
  await close();
  seen.readers = await openDatabase('sqlite:' + join(files, 'data.db'), { readers: 1 }).catch(({ code }) => code);
  rmSync(files, { recursive: true });

  const db = await openDatabase('sqlite::memory:');
  seen.database = await db.scalar('select 8');
  await db.close();
  const twice = new Svc();
  for (let times = 0; times < 2; times += 1) twice.get('/', () => 'same');
  seen.check = twice.check().findings.map(({ rule }) => rule).filter((rule) => rule.startsWith('SVC1'));
  seen.oauth = typeof OAuthPlugin;
  console.log(JSON.stringify(seen));
}

async function serve() {
  const app = new Svc({ env: 'test' });
  app.get('/', () => 'served');
  await app.run({ port: 0, workers: 2 });
}

void (process.argv[2] === 'workers' ? serve() : main());
`;
const EXPECTED = {
  client: [200, { text: 'kept' }],
  fetch: 7,
  docs: '<title>Bundled',
  paths: ['/notes', '/seven', '/photos', '/mcp'],
  file: 'a file',
  form: ['cat', 'cat.png', 6],
  mcp: '2025-11-25',
  echo: 'hello',
  readers: 'E_DB_OPTION', // a bundle has no file that a reader process could run
  database: 8,
  check: ['SVC101'],
  oauth: 'function',
};

/** A project that has installed the package. */
const consumer = folder({ after });
before(async () => {
  await installPackage(consumer);
  write(consumer, { 'program.js': PROGRAM });
});

/** Runs a bundle in a folder that has no package, once as a program and once with workers. */
async function assertRuns(t: TestContext, cwd: string, file: string): Promise<void> {
  const { status, stdout, stderr } = await run(process.execPath, [file], { cwd });
  assert.equal(status, 0, stderr);
  assert.deepEqual(JSON.parse(stdout.trim().split('\n').at(-1)!), EXPECTED);
  const server = start(t, process.execPath, [file, 'workers'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await server.printedTimes(/"event":"worker_ready"/g, 2);
  assert.equal(await (await fetch(url!)).text(), 'served');
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
}

for (const [name, extension, ...options] of [
  ['one minified ES module', 'mjs', '--format=esm', '--minify'],
  ['several minified ES modules', 'mjs', '--format=esm', '--minify', '--splitting'],
  ['one CommonJS module, where import.meta.url is undefined', 'cjs', '--format=cjs'],
] as const) {
  test(`an application that esbuild bundles into ${name} runs without svc in node_modules`, async (t) => {
    const tools = scratch(t, 'esbuild', { esbuild: '^0.25.0' });
    if (tools === undefined) return;
    const output = folder(t);
    const bundled = await run(
      join(tools, 'node_modules/.bin/esbuild'),
      [
        'program.js',
        '--bundle',
        '--platform=node',
        ...options,
        `--outdir=${output}`,
        `--out-extension:.js=.${extension}`,
      ],
      { cwd: consumer },
    );
    assert.equal(bundled.status, 0, bundled.stderr);
    assert.doesNotMatch(bundled.stderr, /warning/i);
    await assertRuns(t, output, `program.${extension}`);
  });
}

/** The rollup command has no option for warnings that fail a build: a configuration has. */
const rollupConfiguration = (output: object): string => `import resolve from '@rollup/plugin-node-resolve';
export default {
  input: 'program.js',
  plugins: [resolve()],
  external: /^node:/,
  onwarn: (warning) => { throw new Error(warning.message); },
  output: ${JSON.stringify(output)},
};
`;

for (const [name, extension, format, options] of [
  ['one ES module', 'mjs', 'es', { inlineDynamicImports: true }],
  ['several ES modules', 'mjs', 'es', {}],
  ['one ES module for each source', 'js', 'es', { preserveModules: true }],
  ['one CommonJS module', 'cjs', 'cjs', { inlineDynamicImports: true }],
] as const) {
  test(`an application that rollup bundles into ${name} builds without warnings and runs without svc in node_modules`, async (t) => {
    const tools = scratch(t, 'rollup', { rollup: '^4.0.0', '@rollup/plugin-node-resolve': '^16.0.0' });
    if (tools === undefined) return;
    const output = folder(t, { 'package.json': '{"type":"module"}' });
    const linked = join(consumer, 'node_modules/@rollup');
    if (!existsSync(linked)) symlinkSync(join(tools, 'node_modules/@rollup'), linked, 'dir');
    write(consumer, {
      'rollup.config.js': rollupConfiguration({
        dir: output,
        format,
        entryFileNames: `[name].${extension}`,
        chunkFileNames: `[name]-[hash].${extension}`,
        ...options,
      }),
    });
    const bundled = await run(join(tools, 'node_modules/.bin/rollup'), ['--config'], { cwd: consumer });
    assert.equal(bundled.status, 0, bundled.stderr);
    await assertRuns(t, output, `program.${extension}`);
  });
}
