/**
 * What only a real process shows: a start that fails half-way, a probe that hangs, a log that nobody reads.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { before, test } from 'node:test';
import { BIN, build } from './support/build.ts';
import { project, run, start } from './support/run.ts';

before(build);

const HEAD = "import { Svc } from 'svc';\nexport const app = new Svc({ env: 'test' });\n";

test('svc run of an application whose plugin fails to start stops those that had started, and ends with 1', async (t) => {
  const cwd = project(t, {
    'app.ts': `${HEAD}for (const name of ['a', 'b']) app.register({ name, register() {}, startup() { console.log('start ' + name); }, shutdown() { console.log('stop ' + name); } });
app.register({ name: 'c', requires: ['b'], register() {}, startup() { throw new Error('no database'); } });
app.onStartup(() => { console.log('hook'); });\n`,
  });
  const { status, stdout, stderr } = await run(process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], { cwd });
  assert.equal(status, 1);
  assert.deepEqual(stdout.trim().split('\n'), ['start a', 'start b', 'stop b', 'stop a']);
  assert.match(stderr, /no database/);
});

test('/readyz of a process is 503 when a probe hangs, after 2 s, and everything else is served meanwhile', async (t) => {
  const cwd = project(t, { 'app.ts': `${HEAD}app.register({ name: 'p', register(host) { host.readiness('stuck', () => new Promise(() => undefined)); } });\napp.get('/', () => 'served');\n` });
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  const startedMs = performance.now();
  const ready = fetch(`${url!}/readyz`);
  assert.equal(await (await fetch(url!)).text(), 'served');
  assert.ok(performance.now() - startedMs < 1_900);
  const response = await ready;
  assert.equal(response.status, 503);
  const { checks } = await response.json() as { checks: Record<string, { status: string; latency_ms: number }> };
  assert.equal(checks['stuck']!.status, 'down');
  assert.ok(checks['stuck']!.latency_ms >= 1_990);
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
});

for (const [what, isClosed] of [['is closed', true], ['is full and read by nobody', false]] as const) {
  test(`a process answers every request when its log pipe ${what}`, async (t) => {
    const cwd = project(t, { 'app.ts': `${HEAD}app.get('/', () => { throw new Error('x'.repeat(2_000)); });\nawait app.run({ port: 0 }).then(({ url }) => console.log(url));\n` });
    const child = spawn(process.execPath, ['app.ts'], { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    t.after(() => child.kill('SIGKILL'));
    if (isClosed) child.stderr.destroy();
    const [bytes] = await once(child.stdout, 'data') as [Buffer];
    const url = bytes.toString().trim();
    for (let index = 0; index < 500; index++) assert.equal((await fetch(url)).status, 500); // about 2 MB of log
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
}
