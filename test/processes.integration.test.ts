/**
 * Behaviour that only a real process shows: a start that fails half-way, a probe that hangs, a log without a
 * reader.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { before, test } from 'node:test';
import { connect } from 'node:tls';
import { BIN, build } from './support/build.ts';
import { FIRST, SECOND } from './support/certificates.ts';
import { project, run, start, write } from './support/run.ts';

before(build);

const HEAD = "import { Svc } from 'svc';\nexport const app = new Svc({ env: 'test' });\n";

test('when a plugin fails to start, svc run stops the plugins that have started, and exits with status 1', async (t) => {
  const cwd = project(t, {
    'app.ts': `${HEAD}for (const name of ['a', 'b']) app.register({ name, register() {}, startup() { console.log('start ' + name); }, shutdown() { console.log('stop ' + name); } });
app.register({ name: 'c', requires: ['b'], register() {}, startup() { throw new Error('no database'); } });
app.onStartup(() => { console.log('hook'); });\n`,
  });
  const { status, stdout, stderr } = await run(process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], {
    cwd,
  });
  assert.equal(status, 1);
  assert.deepEqual(stdout.trim().split('\n'), ['start a', 'start b', 'stop b', 'stop a']);
  assert.match(stderr, /no database/);
});

test('when a readiness probe hangs, /readyz answers 503 after 2 s, and meanwhile other requests get their responses', async (t) => {
  const cwd = project(t, {
    'app.ts': `${HEAD}app.register({ name: 'p', register(host) { host.readiness('stuck', () => new Promise(() => undefined)); } });\napp.get('/', () => 'served');\n`,
  });
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  let isAnswered = false;
  const ready = fetch(`${url!}/readyz`).finally(() => {
    isAnswered = true;
  });
  assert.equal(await (await fetch(url!)).text(), 'served');
  assert.equal(isAnswered, false);
  const response = await ready;
  assert.equal(response.status, 503);
  const { checks } = (await response.json()) as {
    checks: Record<string, { status: string; latency_ms: number }>;
  };
  assert.equal(checks['stuck']!.status, 'down');
  assert.ok(checks['stuck']!.latency_ms >= 1_990);
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
});

for (const [what, isClosed] of [
  ['is closed', true],
  ['is full and has no reader', false],
] as const) {
  test(`a server answers every request even if the pipe for its log output ${what}`, async (t) => {
    const cwd = project(t, {
      'app.ts': `${HEAD}app.get('/', () => { throw new Error('x'.repeat(2_000)); });\nawait app.run({ port: 0 }).then(({ url }) => console.log(url));\n`,
    });
    const env = { ...process.env, SVC_SHUTDOWN_DELAY_SECONDS: '0' };
    const child = spawn(process.execPath, ['app.ts'], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    t.after(() => child.kill('SIGKILL'));
    if (isClosed) child.stderr.destroy();
    const [bytes] = (await once(child.stdout, 'data')) as [Buffer];
    const url = bytes.toString().trim();
    for (let index = 0; index < 500; index++) assert.equal((await fetch(url)).status, 500); // about 2 MB of log
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
}

for (const [mode, args] of [
  ['alone', []],
  ['as a worker', ['--workers', '1']],
] as const) {
  test(`if svc run (${mode}) gets SIGTERM during its start, it stops the started plugins and exits with status 0`, async (t) => {
    const cwd = project(t, {
      'app.ts': `${HEAD}app.register({ name: 'a', register() {}, startup() { console.log('start a'); }, shutdown() { console.log('stop a'); } });
app.register({ name: 'b', requires: ['a'], register() {}, async startup(signal) { console.log('start b'); await new Promise((_, reject) => { const timer = setInterval(() => undefined, 1_000); signal.addEventListener('abort', () => { clearInterval(timer); reject(signal.reason); }); }); } });
app.onStartup(() => { console.log('never'); });\n`,
    });
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0', ...args], { cwd });
    await server.printed(/start b/);
    server.child.kill('SIGTERM');
    const { status, stdout } = await server.ended;
    assert.deepEqual([status, stdout.trim().split('\n')], [0, ['start a', 'start b', 'stop a']]);
  });
}

test('a second SIGTERM ends svc run at once with status 143, during its start and during its shutdown', async (t) => {
  const cwd = project(t, {
    'starts.ts': `${HEAD}app.onStartup(() => { console.log('hook'); return new Promise(() => setInterval(() => undefined, 1_000)); });\n`,
    'drains.ts': `${HEAD}app.get('/', () => { console.log('hook'); return new Promise(() => undefined); });\n`,
  });
  for (const name of ['starts', 'drains']) {
    const server = start(t, process.execPath, [BIN, 'run', `${name}.ts`, '--port', '0'], { cwd });
    if (name === 'drains')
      fetch((await server.printed(/"event":"listening","url":"([^"]+)"/))[1]!).catch(() => undefined);
    await server.printed(/hook/);
    server.child.kill('SIGTERM');
    await server.printed(/"event":"signal"/);
    server.child.kill('SIGTERM');
    const { status, signal } = await server.ended;
    assert.deepEqual([status, signal], [143, null]);
  }
});

for (const [what, args] of [
  ['alone', []],
  ['with --reload', ['--reload']],
] as const) {
  test(`if svc run (${what}) has no TLS certificate to reload, SIGHUP makes it finish running requests and exit with status 0`, async (t) => {
    const cwd = project(t, {
      'app.ts': `${HEAD}let release;\napp.get('/slow', async () => { console.log('begun'); await new Promise((resolve) => { release = resolve; process.on('SIGUSR2', resolve); }); return String(process.pid); });\napp.get('/pid', () => String(process.pid));\napp.onShutdown(() => console.log('stopped'));\n`,
    });
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts:app', '--port', '0', ...args], { cwd });
    const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
    const pid = Number(await (await fetch(`${url!}/pid`)).text());
    const answer = fetch(`${url!}/slow`).then((response) => response.text());
    await server.printed(/begun/);
    server.child.kill('SIGHUP');
    await server.printed(/"event":"draining"/);
    process.kill(pid, 'SIGUSR2');
    assert.equal(await answer, String(pid));
    const { status, signal, stdout } = await server.ended;
    assert.deepEqual([status, signal], [0, null]);
    assert.match(stdout, /stopped/);
  });
}

for (const [what, statement, event] of [
  [
    'a rejection that is not handled',
    "void Promise.reject(new TypeError('nobody waits'));",
    'unhandled_rejection',
  ],
  [
    'an exception in a callback',
    "setImmediate(() => { throw new TypeError('nobody waits'); });",
    'uncaught_exception',
  ],
] as const) {
  test(`after ${what}, svc run logs one line with the source position and exits with status 1`, async (t) => {
    const cwd = project(t, {
      'app.ts': `${HEAD}app.get('/', () => {\n  ${statement}\n  return 'done';\n});\n`,
    });
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0'], { cwd });
    const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
    await fetch(url!).catch(() => undefined); // the process may end before its response arrives
    const { status, signal, stderr } = await server.ended;
    assert.deepEqual([status, signal], [1, null]);
    const last = stderr.trimEnd().split('\n').at(-1)!;
    const { level, event: found, place, error } = JSON.parse(last) as Record<string, unknown>;
    assert.deepEqual([level, found], ['error', event]);
    assert.match(String(place), /app\.ts:4:\d+$/);
    assert.deepEqual((error as Record<string, unknown>)['name'], 'TypeError');
    // once in the message, and once in the stack of the same line
    assert.equal(stderr.match(/nobody waits/g)!.length, 2);
  });
}

test('svc run does not exit after an uncaught error if the application has its own "uncaughtException" listener', async (t) => {
  const cwd = project(t, {
    'app.ts': `${HEAD}process.on('uncaughtException', () => console.log('caught by the application'));\napp.get('/', () => {\n  void Promise.reject(new Error('x'));\n  return 'done';\n});\n`,
  });
  // the command is "run"
  const server = start(t, process.execPath, [BIN, 'app.ts:app', '--port', '0'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await fetch(url!);
  await server.printed(/caught by the application/);
  assert.equal(await (await fetch(url!)).text(), 'done');
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
});

test('on SIGHUP, svc run and its workers load the renewed TLS certificate, and open connections stay open', async (t) => {
  const cwd = project(t, {
    'app.ts': `${HEAD}app.get('/', () => String(process.pid));\n`,
    'cert.pem': FIRST.cert,
    'key.pem': FIRST.key,
  });
  const env = { SVC_TLS_CERT: 'cert.pem', SVC_TLS_KEY: 'key.pem' };
  for (const args of [[], ['--workers', '2']]) {
    write(cwd, { 'cert.pem': FIRST.cert, 'key.pem': FIRST.key });
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0', ...args], { cwd, env });
    const url = new URL((await server.printed(/"event":"listening","url":"(https:[^"]+)"/))[1]!);
    const shown = async (): Promise<string> => {
      const socket = connect({ port: Number(url.port), host: '127.0.0.1', rejectUnauthorized: false });
      await once(socket, 'secureConnect');
      socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
      const { fingerprint256 } = socket.getPeerCertificate();
      assert.match(await text(socket), /^HTTP\/1\.1 200 /);
      return fingerprint256;
    };
    assert.equal(await shown(), new X509Certificate(FIRST.cert).fingerprint256);
    write(cwd, { 'cert.pem': SECOND.cert });
    server.child.kill('SIGHUP'); // the key file is still the old one
    await server.printed(
      /E_TLS[^]*"event":"(?:tls_reload_failed|rolling_restart_failed)"|"event":"(?:tls_reload_failed|rolling_restart_failed)"[^]*E_TLS|rolling_restart_failed/,
    );
    assert.equal(await shown(), new X509Certificate(FIRST.cert).fingerprint256);
    write(cwd, { 'key.pem': SECOND.key });
    server.child.kill('SIGHUP');
    await server.printed(/"event":"(?:tls_reloaded|rolling_restart_done)"/);
    assert.equal(await shown(), new X509Certificate(SECOND.cert).fingerprint256);
    server.child.kill('SIGTERM');
    assert.equal((await server.ended).status, 0);
  }
});

test('a message to a room is sent to the WebSockets of this room in every worker process', async (t) => {
  const cwd = project(t, {
    'app.ts': `${HEAD}app.websocket('/room', { allowMissingOrigin: true }).onOpen((socket) => { socket.join('all'); socket.send('pid ' + process.pid); }).onMessage((socket, message) => socket.broadcast('all', message));\n`,
  });
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0', '--workers', '2'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await server.printed(/(?:"event":"worker_ready"[\s\S]*){2}/);
  const sockets = new Map<string, { readonly socket: WebSocket; readonly got: string[] }>();
  while (sockets.size < 2) {
    // one socket of each worker
    const socket = new WebSocket(`${url!.replace('http', 'ws')}/room`);
    const got: string[] = [];
    const [{ data }] = (await once(socket, 'message')) as [{ data: string }];
    socket.onmessage = (event) => void got.push(String(event.data));
    if (sockets.has(data)) socket.close();
    else sockets.set(data, { socket, got });
  }
  const [one, two] = [...sockets.values()];
  const arrived = once(two!.socket, 'message');
  one!.socket.send('hello from the other process €');
  await arrived;
  const back = once(one!.socket, 'message');
  two!.socket.send('and back');
  await back;
  assert.deepEqual([one!.got, two!.got], [['and back'], ['hello from the other process €']]);
  const closed = once(one!.socket, 'close');
  server.child.kill('SIGTERM');
  const [{ code }] = (await closed) as [{ code: number }];
  assert.equal(code, 1001);
  assert.equal((await server.ended).status, 0);
});
