/**
 * Workers: tests with real processes, and tests of the rules for starting workers with simulated processes
 * and a manual clock.
 */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, cpSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Svc } from '../../src/app/svc.ts';
import { SocketHandoff } from '../../src/operations/socket-handoff.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { createMetrics, renderMetrics } from '../../src/observability/metrics.ts';
import { HttpResponse } from '../../src/http/response.ts';
import { ChildLink, roleEnvironment } from '../../src/operations/supervision.ts';
import { WorkerMetrics } from '../../src/operations/worker-metrics.ts';
import { Workers } from '../../src/operations/workers.ts';
import { BIN, ROOT, build } from '../support/build.ts';
import { collectedLog } from '../support/collected-log.ts';
import { Load, ask } from '../support/load.ts';
import { folder, project, run, start } from '../support/run.ts';
import { turn } from '../support/turn.ts';
import type { ChildProcess } from 'node:child_process';
import type { AddressInfo, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import type { StopTimes } from '../../src/operations/signals.ts';
import type { Child, ProcessEnd, ToChild, ToParent } from '../../src/operations/supervision.ts';
import type { RunOptions, Running } from '../support/run.ts';

before(build);

const APP = `import { Svc } from 'svc';
export const app = new Svc();
app.get('/', () => String(process.pid));
app.post('/', { public: true }, async ({ req }) => { console.log('reading'); return await req.text(); });
app.onShutdown(() => { console.log('shut down ' + process.pid); });
`;
const READY = /"event":"worker_ready"/g;

async function serve(
  t: TestContext,
  app: string = APP,
  args: readonly string[] = ['--workers', '2'],
  options: RunOptions = {},
): Promise<{ server: Running; url: string }> {
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0', ...args], {
    cwd: project(t, { 'app.ts': app }),
    ...options,
  });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await server.printedTimes(READY, Number(args[1]));
  return { server, url: `${url!}/` };
}

/** Waits until every process has answered a request. */
async function pidsOf(url: string): Promise<Set<string>> {
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask(url)));
  return new Set(answers.map(({ body }) => body));
}

test('svc run --workers serves one port with several processes, and adds up the metrics of these processes', async (t) => {
  const { server, url } = await serve(t);
  const pids = await pidsOf(url);
  assert.equal(pids.size, 2);
  assert.equal(pids.has(String(server.child.pid)), false);
  const { body } = await ask(`${url}metrics`);
  assert.match(body, /^svc_requests_total\{method="GET",route="\/",status="200"\} 8$/m);
  assert.match(body, /^svc_workers 2$/m);
  server.child.kill('SIGTERM');
  const { status, stdout } = await server.ended;
  assert.equal(status, 0);
  for (const pid of pids) assert.match(stdout, new RegExp(`^shut down ${pid}$`, 'm'));
});

test('svc run --workers works for a program that contains its own bundled copy of svc', async (t) => {
  const { server, url } = await serve(
    t,
    APP.replace("from 'svc'", `from ${JSON.stringify(pathToFileURL(join(ROOT, 'src/index.ts')).href)}`),
  );
  const pids = await pidsOf(url);
  assert.equal(pids.size, 2);
  assert.match(
    (await ask(`${url}metrics`)).body,
    /^svc_requests_total\{method="GET",route="\/",status="200"\} 8$/m,
  );
  server.child.kill('SIGTERM');
  const { status, stdout } = await server.ended;
  assert.equal(status, 0);
  for (const pid of pids) assert.match(stdout, new RegExp(`^shut down ${pid}$`, 'm'));
});

test('a program in a single-file bundle can run workers and reload, but SQLite reader processes throw E_DB_OPTION', async (t) => {
  const cwd = folder(t, {
    'app.js': `${APP.replace("'svc'", "'./copy/bundled/index.js'")}await app.run({ port: 0, ...(process.argv[2] === 'reload' ? { reload: true } : { workers: 2 }) });\n`,
    'readers.js':
      "import { openDatabase } from './copy/bundled/db/index.js';\nawait openDatabase('sqlite:data.db', { readers: 1 });\n",
    'package.json': '{"type":"module"}',
  });
  cpSync(join(ROOT, 'package.json'), join(cwd, 'copy/package.json'));
  // so that the program cannot find the package: a bundle has no dist/base/package-root.js
  cpSync(join(ROOT, 'dist'), join(cwd, 'copy/bundled'), { recursive: true });
  for (const file of ['operations/supervised-preload.js', 'db/sqlite/reader-process.js'])
    rmSync(join(cwd, 'copy/bundled', file));
  const server = start(t, process.execPath, ['app.js'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await server.printedTimes(READY, 2);
  assert.equal((await pidsOf(`${url!}/`)).size, 2);
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
  const reloading = start(t, process.execPath, ['app.js', 'reload'], {
    cwd,
    env: { SVC_ENV: 'development' },
  });
  await reloading.printedTimes(/"event":"reloaded"/g, 1);
  appendFileSync(join(cwd, 'app.js'), '// saved\n');
  await reloading.printedTimes(/"event":"reloaded"/g, 2);
  reloading.child.kill('SIGTERM');
  assert.equal((await reloading.ended).status, 0);
  assert.match((await run(process.execPath, ['readers.js'], { cwd })).stderr, /E_DB_OPTION/);
});

test('after SIGTERM, svc run --workers finishes running requests and exits with status 0', async (t) => {
  const { server, url } = await serve(t);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  t.after(() => {
    socket.destroy();
  });
  socket.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\na');
  await server.printed(/^reading$/m);
  server.child.kill('SIGTERM');
  await server.printed(/"event":"draining","in_flight":1/);
  await assert.rejects(ask(url), { code: 'ECONNREFUSED' });
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    answer += text;
  });
  socket.write('b');
  await once(socket, 'end');
  assert.match(answer, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nab$/);
  assert.equal((await server.ended).status, 0);
});

test('svc run --workers ends all processes immediately on a second signal', async (t) => {
  const { server, url } = await serve(t);
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => undefined);
  t.after(() => {
    socket.destroy();
  });
  socket.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\na');
  await server.printed(/^reading$/m);
  server.child.kill('SIGINT');
  await server.printed(/"event":"draining","in_flight":1/);
  server.child.kill('SIGINT');
  assert.equal((await server.ended).status, 130);
});

for (const mode of [[], ['--workers', '2'], ['--reload']]) {
  test(`svc run ${mode.join(' ')} serves in the delay after SIGTERM, with 503 for /readyz and Connection: close`, async (t) => {
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0', ...mode], {
      cwd: project(t, { 'app.ts': APP }),
      env: { SVC_SHUTDOWN_DELAY_SECONDS: '600', SVC_SHUTDOWN_TIMEOUT_SECONDS: '700' },
    });
    const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
    await server.printedTimes(
      mode.length === 0 ? /"event":"listening"/g : /"event":"(?:worker_ready|reloaded)"/g,
      Number(mode[1] ?? 1),
    );
    server.child.kill('SIGTERM');
    await server.printed(/"event":"stop_announced","delay_ms":600000/);
    let ready = await fetch(`${url!}/readyz`);
    // with several processes, each gets its message in its own time
    for (let tries = 0; ready.status === 200 && tries < 1_000; tries++) ready = await fetch(`${url!}/readyz`);
    const answer = await fetch(url!, { method: 'POST', body: 'ab' });
    assert.deepEqual(
      [ready.status, answer.status, await answer.text(), answer.headers.get('connection')],
      [503, 200, 'ab', 'close'],
    );
    server.child.kill('SIGTERM');
    assert.equal((await server.ended).status, 143);
  });
}

test('svc run --workers replaces every worker process on SIGHUP, and no request fails', async (t) => {
  const { server, url } = await serve(t);
  const old = await pidsOf(url);
  const load = new Load(url, 8);
  await load.more(50);
  server.child.kill('SIGHUP');
  await server.printed(/"event":"rolling_restart_done"/);
  await load.more(50);
  await load.stop();
  assert.deepEqual(load.failures, []);
  const now = await pidsOf(url);
  assert.equal(now.size, 2);
  for (const pid of now) assert.equal(old.has(pid), false);
});

test('if a worker is killed under load, svc run --workers starts a new worker, and only the requests of the killed worker are lost', async (t) => {
  const { server, url } = await serve(t);
  const load = new Load(url, 8);
  await load.more(50);
  process.kill(Number((await ask(url)).body), 'SIGKILL');
  await server.printedTimes(READY, 3);
  await load.more(50);
  await load.stop();
  assert.ok(
    load.failures.length <= 8 && load.failures.every(({ what }) => what === 'ECONNRESET'),
    JSON.stringify(load.failures),
  );
  assert.equal((await pidsOf(url)).size, 2);
  const { body } = await ask(`${url}metrics`);
  assert.match(body, /^svc_worker_restarts_total 1$/m);
});

test('if one worker gets SIGTERM, the worker finishes its requests, and svc run --workers starts a new worker', async (t) => {
  const { server, url } = await serve(t);
  const [pid] = await pidsOf(url);
  process.kill(Number(pid), 'SIGTERM');
  await server.printed(new RegExp(`^shut down ${pid!}$`, 'm'));
  await server.printedTimes(READY, 3);
  assert.equal(server.count(/"event":"worker_died"/g), 0);
});

test('if the primary process of svc run --workers is killed, the workers finish their requests and exit', async (t) => {
  const { server, url } = await serve(t);
  const pids = await pidsOf(url);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  t.after(() => {
    socket.destroy();
  });
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    answer += text;
  });
  socket.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\na');
  await server.printed(/^reading$/m);
  server.child.kill('SIGKILL');
  await server.printed(/"event":"draining","in_flight":1/);
  socket.write('b');
  const { stdout } = await server.ended; // both of its streams are closed, so the workers have ended too
  assert.match(answer, /\r\n\r\nab$/);
  for (const pid of pids) assert.match(stdout, new RegExp(`^shut down ${pid}$`, 'm'));
});

for (const [what, app, expected, message] of [
  [
    'mistakes between declarations',
    `${APP}app.get('/', () => 'twice');`,
    3,
    /Cannot start the application in production: 1 mistake/g,
  ],
  ['a module that does not load', 'export const app = 1;', 3, /Cannot load "app\.ts:app"/g],
  [
    'the error of a startup hook',
    `${APP}app.onStartup(() => { throw new Error('no database'); });`,
    1,
    /Error: no database/g,
  ],
  ['a process that ends by itself', `${APP}process.exit(0);`, 1, /$/g],
] as const) {
  test(`svc run --workers prints the message for ${what} once, and exits with the status of a single process`, async (t) => {
    const { status, stderr } = await run(
      process.execPath,
      [BIN, 'run', 'app.ts', '--port', '0', '--workers', '3'],
      { cwd: project(t, { 'app.ts': app }) },
    );
    assert.equal(status, expected, stderr);
    assert.equal(stderr.match(message)?.length, 1, stderr);
  });
}

test('if the port is in use, svc run --workers reports this once and exits with status 1', async (t) => {
  const holder = createServer().listen(0, '127.0.0.1');
  t.after(() => {
    holder.close();
  });
  await once(holder, 'listening');
  const { port } = holder.address() as AddressInfo;
  const { status, stderr } = await run(
    process.execPath,
    [BIN, 'run', 'app.ts', '--port', String(port), '--workers', '2'],
    { cwd: project(t, { 'app.ts': APP }) },
  );
  assert.equal(status, 1, stderr);
  assert.equal(stderr.match(/Cannot listen on .*: the address is in use/g)?.length, 1, stderr);
});

test('if five workers in a row die soon after their start, svc run --workers exits with status 1', async (t) => {
  const { status, stderr } = await run(
    process.execPath,
    [BIN, 'run', 'app.ts', '--port', '0', '--workers', '1'],
    { cwd: project(t, { 'app.ts': `${APP}setTimeout(() => process.kill(process.pid, 'SIGKILL'), 150);` }) },
  );
  assert.equal(status, 1, stderr);
  assert.match(stderr, /"event":"workers_gave_up".*5 workers in a row ended/);
});

test('app.run({ workers: 2 }) runs the program in two processes that share one port', async (t) => {
  const cwd = project(t, {
    'main.ts': `import { Svc } from 'svc';
const app = new Svc({ ops: { metrics: { port: 0 } } });
app.get('/', () => String(process.pid));
const { url } = await app.run({ port: 0, workers: 2 });
console.log('at ' + url);
`,
  });
  const server = start(t, process.execPath, ['main.ts'], { cwd });
  await server.printedTimes(READY, 2);
  const [, url] = await server.printed(/^at (.+)$/m);
  assert.equal((await pidsOf(url!)).size, 2);
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
});

test('app.run({ workers }) rejects if the first worker exits before it serves, or if the program is not a file', async (t) => {
  const program = (rest: string): string =>
    `import { Svc } from 'svc';\nconst app = new Svc();\n${rest}\nawait app.run({ port: 0, workers: 2 }).catch((error) => { console.log(error.code); throw error; });`;
  const cwd = project(t, { 'main.ts': program("app.onStartup(() => { throw new Error('no database'); });") });
  const failing = await run(process.execPath, ['main.ts'], { cwd });
  assert.equal(failing.status, 1);
  assert.match(failing.stdout, /E_WORKERS/);
  assert.match(failing.stderr, /no database[^]*Cannot run workers: the first worker exited with status 1/);
  const absent = await run(process.execPath, ['--input-type=module', '--eval', program('')], { cwd });
  assert.match(absent.stdout, /E_WORKERS/);
});

test('app.run({ workers }) exits with status 0 if SIGTERM arrives before the first worker serves', async (t) => {
  const cwd = project(t, {
    'main.ts': `import { Svc } from 'svc';
const app = new Svc();
app.onStartup(async () => { // in the first worker, which its parent tells so
  const told = new Promise((resolve) => { process.once('SIGTERM', resolve); });
  const work = setInterval(() => {}, 1_000); // or its loop would be empty
  console.log('starting');
  await told;
  clearInterval(work);
});
app.onShutdown(() => { console.log('shut down'); });
await app.run({ port: 0, workers: 2 });
`,
  });
  const server = start(t, process.execPath, ['main.ts'], { cwd });
  await server.printed(/^starting$/m);
  server.child.kill('SIGTERM');
  const { status, stdout, stderr } = await server.ended;
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^shut down$/m);
});

/** Starts a worker process whose parent is the test. Its program may use `app`, and runs it. */
function forkWorker(
  t: TestContext,
  program: string,
): { child: ChildProcess; link: ChildLink; said: ToParent[] } {
  const source = (file: string): string => new URL(`../../src/${file}`, import.meta.url).href;
  const cwd = project(t, {
    'main.mjs': `import { Svc } from ${JSON.stringify(source('app/svc.ts'))};\nconst app = new Svc();\n${program}\nawait app.run({ workers: 2 });`,
  });
  const child = fork(join(cwd, 'main.mjs'), {
    cwd,
    execArgv: ['--conditions=svc-source', '--import', source('operations/supervised-preload.ts')],
    env: { ...process.env, ...roleEnvironment('worker') },
  });
  t.after(() => {
    child.kill('SIGKILL');
  });
  const link = new ChildLink(child);
  const said: ToParent[] = [];
  link.listen((message) => {
    said.push(message);
    if (message.svc === 'wants')
      link.send({ svc: 'address', address: { host: '127.0.0.1', port: 1, url: 'http://127.0.0.1:1' } });
  });
  return { child, link, said };
}

test('if a worker gets SIGTERM during its start, the worker exits without asking the primary process for connections', async (t) => {
  const { link, said } = forkWorker(
    t,
    `
app.onStartup(async () => {
  const told = new Promise((resolve) => { process.once('SIGTERM', resolve); });
  const work = setInterval(() => {}, 1_000); // or its loop would be empty
  process.kill(process.pid, 'SIGTERM');
  await told;
  clearInterval(work);
});
app.onShutdown(async () => {
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => { setImmediate(resolve); }); // a start that went on would ask meanwhile
});`,
  );
  assert.deepEqual(await link.ended, { status: 0, signal: null });
  assert.deepEqual(
    said.map(({ svc }) => svc),
    ['final'],
  );
});

test('a worker that is asked to stop while it receives a connection still answers the requests of this connection', async (t) => {
  const { link, child } = forkWorker(
    t,
    `
app.get('/', () => 'hello');
const { send } = process;
process.send = (message, handle, options, done) => { // a channel that is slow to take what is said
  return send.call(process, message, handle, options, message.svc !== 'took' ? done : () => process.once('message', () => setImmediate(done)));
};`,
  );
  while ((await once(child, 'message').then(([{ svc }]) => svc as string)) !== 'ready');
  const door = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  t.after(() => {
    door.close();
  });
  await once(door, 'listening');
  const client = connect((door.address() as AddressInfo).port, '127.0.0.1').setEncoding('utf8');
  t.after(() => {
    client.destroy();
  });
  const [socket] = (await once(door, 'connection')) as [Socket];
  child.on('message', ({ svc }: ToParent) => {
    if (svc === 'took') socket.destroy();
  }); // closes only the test's copy of the handle
  link.send({ svc: 'socket', id: 1 }, socket);
  link.send({ svc: 'drain', how: 'retire' });
  let answer = '';
  client
    .on('data', (text: string) => {
      answer += text;
    })
    .on('error', () => {
      /* the connection was closed before the response */
    });
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  assert.deepEqual(await link.ended, { status: 0, signal: null });
  assert.match(answer, /^HTTP\/1\.1 200 OK\r\n[^]*Connection: close\r\n[^]*hello$/);
});

test('app.run() refuses the option "workers" if its value is out of range or "reload" is also set', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  for (const options of [
    { workers: 0 },
    { workers: 1025 },
    { workers: 1.5 },
    { workers: 'all' },
    { workers: 2, reload: true },
  ]) {
    await assert.rejects(app.run(options as object), { code: 'E_OPTION_RANGE' });
  }
});

for (const [what, args, message] of [
  ['0 workers', ['--workers', '0'], /--workers needs a number from 1 to 1024, found "0"/],
  ['too many workers', ['--workers', '1025'], /found "1025"/],
  [
    'workers and reload together',
    ['--workers', '2', '--reload'],
    /--workers and --reload cannot be combined/,
  ],
] as const) {
  test(`svc run refuses ${what} and exits with status 2`, async () => {
    const { status, stderr } = await run(process.execPath, [BIN, 'run', 'app.ts', ...args]);
    assert.equal(status, 2);
    assert.match(stderr, message);
  });
}

// ── with a manual clock and simulated processes ──

const STOP: StopTimes = { delayMs: 5_000, drainMs: 1_000, totalMs: 11_000 };

class FakeChild implements Child {
  readonly pid = 1;
  isConnected = true;
  readonly #end = Promise.withResolvers<ProcessEnd>();
  readonly ended: Promise<ProcessEnd> = this.#end.promise;
  readonly received: ToChild[] = [];
  readonly sockets: Socket[] = [];
  say: (message: ToParent) => void = () => undefined;

  listen(onMessage: (message: ToParent) => void): void {
    this.say = onMessage;
  }

  send(message: ToChild, socket?: Socket): void {
    this.received.push(message);
    if (socket !== undefined) this.sockets.push(socket);
    if (message.svc === 'address') this.say({ svc: 'ready' });
  }

  kill(signal: NodeJS.Signals): void {
    this.die({ status: null, signal });
  }

  die(end: ProcessEnd): void {
    this.isConnected = false;
    this.#end.resolve(end);
  }

  serve(): void {
    this.say({
      svc: 'wants',
      place: { host: '127.0.0.1', port: 0 },
      isSecure: false,
      env: 'test',
      stop: STOP,
    });
  }
}

test('the class Workers waits longer before each restart of a dying worker, until a period without deaths resets the delay', async () => {
  const clock = new ManualClock();
  const { logger } = collectedLog();
  const children: FakeChild[] = [];
  const workers = new Workers({
    count: 1,
    clock,
    log: logger,
    random: () => 1,
    fork: () => {
      children.push(new FakeChild());
      return children.at(-1)!;
    },
  });
  const started = workers.start();
  children[0]!.serve();
  await started;
  for (const delayMs of [100, 200, 400, 800]) {
    const count = children.length;
    children.at(-1)!.die({ status: 9, signal: null });
    await turn();
    await clock.advance(delayMs - 1);
    assert.equal(children.length, count);
    await clock.advance(1);
    assert.equal(children.length, count + 1, `after ${delayMs} ms`);
    children.at(-1)!.serve();
    await turn();
  }
  await clock.advance(10_000);
  const count = children.length;
  children.at(-1)!.die({ status: 9, signal: null });
  await turn();
  await clock.advance(100);
  assert.equal(children.length, count + 1);
  const over = workers.stop();
  await turn();
  assert.equal(await over, 0);
});

test('when the class Workers replaces a worker, it keeps the old worker if the new worker exits before it serves', async () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const children: FakeChild[] = [];
  const workers = new Workers({
    count: 1,
    clock,
    log: logger,
    fork: () => {
      children.push(new FakeChild());
      return children.at(-1)!;
    },
  });
  const started = workers.start();
  children[0]!.serve();
  await started;
  workers.renew();
  children[1]!.die({ status: 1, signal: null });
  await turn();
  await clock.advance(60_000);
  assert.equal(children.length, 2);
  assert.deepEqual(
    children[0]!.received.map(({ svc }) => svc),
    ['address'],
  );
  assert.ok(events.some(({ event }) => event === 'rolling_restart_failed'));
  const over = workers.stop();
  assert.deepEqual(children[0]!.received.at(-1), { svc: 'drain', how: 'stop' });
  await clock.advance(11_000); // the old worker does not end within its time
  assert.equal(await over, 1);
  assert.ok(events.some(({ event }) => event === 'worker_killed'));
});

test('when the class Workers replaces a worker, it ends a new worker that does not serve within a minute, and keeps the old worker', async () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const children: FakeChild[] = [];
  const workers = new Workers({
    count: 1,
    clock,
    log: logger,
    fork: () => {
      children.push(new FakeChild());
      return children.at(-1)!;
    },
  });
  const count = (name: string): number => events.filter(({ event }) => event === name).length;
  const started = workers.start();
  children[0]!.serve();
  await started;
  workers.renew();
  await clock.advance(59_999);
  assert.equal(count('rolling_restart_failed'), 0);
  workers.renew();
  await clock.advance(1);
  await turn();
  assert.deepEqual(
    [count('rolling_restart_failed'), count('worker_died'), children[1]!.isConnected],
    [1, 0, false],
  );
  assert.match(
    JSON.stringify(events.find(({ event }) => event === 'rolling_restart_failed')),
    /did not serve within 60 s and was ended, so the old workers continue/,
  );
  assert.deepEqual(
    children[0]!.received.map(({ svc }) => svc),
    ['address'],
  );
  assert.equal(children.length, 3);
  children[2]!.serve();
  await turn();
  assert.deepEqual(children[0]!.received.at(-1), { svc: 'drain', how: 'retire' });
  children[0]!.die({ status: 0, signal: null });
  await turn();
  assert.deepEqual([count('rolling_restart_done'), children.length, clock.pending], [1, 3, 0]);
  const over = workers.stop();
  children[2]!.die({ status: 0, signal: null });
  assert.equal(await over, 0);
});

test('if Workers.stop() is called while workers are replaced, the replacement is not logged as failed', async () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const children: FakeChild[] = [];
  const workers = new Workers({
    count: 1,
    clock,
    log: logger,
    fork: () => {
      children.push(new FakeChild());
      return children.at(-1)!;
    },
  });
  const started = workers.start();
  children[0]!.serve();
  await started;
  workers.renew();
  const over = workers.stop();
  children[0]!.die({ status: 0, signal: null });
  assert.equal(await over, 0);
  await turn();
  assert.deepEqual(
    [events.filter(({ event }) => event === 'rolling_restart_failed'), clock.pending],
    [[], 0],
  );
});

/** Returns workers that serve, with their simulated processes. */
async function serving(
  count: number,
): Promise<{ clock: ManualClock; workers: Workers; children: FakeChild[]; port: number }> {
  const clock = new ManualClock();
  const children: FakeChild[] = [];
  const workers = new Workers({
    count,
    clock,
    log: collectedLog().logger,
    fork: () => {
      children.push(new FakeChild());
      return children.at(-1)!;
    },
  });
  const started = workers.start();
  children[0]!.serve();
  const address = await started;
  for (const child of children.slice(1)) child.serve();
  await turn();
  return { clock, workers, children, port: 'port' in address ? address.port : 0 };
}

test('in the delay after SIGTERM, the class Workers still passes connections to its workers, and replaces none of them', async (t) => {
  const { clock, workers, children, port } = await serving(2);
  const [first, second] = children as [FakeChild, FakeChild];
  const over = workers.stop('SIGTERM');
  for (const child of children) assert.deepEqual(child.received.at(-1), { svc: 'announce' });
  await clock.advance(4_999);
  const client = connect(port, '127.0.0.1').on('error', () => undefined);
  t.after(() => client.destroy());
  while (first.sockets.length + second.sockets.length === 0) await turn();
  for (const socket of [...first.sockets, ...second.sockets]) socket.destroy();
  first.die({ status: 1, signal: null });
  await clock.advance(1);
  assert.equal(children.length, 2);
  assert.deepEqual(second.received.at(-1), { svc: 'drain', how: 'stop' });
  await clock.advance(5_999);
  assert.equal(second.isConnected, true);
  await clock.advance(1); // 11 s after the signal
  assert.equal(second.isConnected, false);
  assert.equal(await over, 1);
});

test('if all processes of a group get SIGTERM, the class Workers does not take it for the end of single workers', async () => {
  const { clock, workers, children } = await serving(2);
  for (const child of children) child.say({ svc: 'leaving' });
  const over = workers.stop('SIGTERM');
  await clock.advance(4_999);
  for (const child of children) assert.deepEqual(child.received.at(-1), { svc: 'announce' });
  await clock.advance(1);
  for (const child of children) {
    assert.deepEqual(child.received.at(-1), { svc: 'drain', how: 'stop' });
    child.die({ status: 0, signal: null });
  }
  assert.equal(await over, 0);
});

for (const signal of [undefined, 'SIGINT'] as const) {
  test(`Workers.stop(${signal ?? ''}) has no delay`, async () => {
    const { workers, children } = await serving(1);
    const over = workers.stop(signal);
    assert.deepEqual(children[0]!.received.at(-1), { svc: 'drain', how: 'stop' });
    children[0]!.die({ status: 0, signal: null });
    assert.equal(await over, 0);
  });
}

test('if a worker exits before it accepts a connection, SocketHandoff gives the connection to another worker, or answers 503 after a time limit', async (t) => {
  const clock = new ManualClock();
  const { logger } = collectedLog();
  const handoff = new SocketHandoff({
    clock,
    log: logger,
    unavailablePage: () => new HttpResponse('sorry', { status: 503 }),
  });
  const { port } = await handoff.open({ host: '127.0.0.1', port: 0 });
  const [first, second] = [new FakeChild(), new FakeChild()];
  handoff.admit(first);
  const client = connect(port, '127.0.0.1').setEncoding('utf8');
  t.after(() => {
    client.destroy();
  });
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  while (first.sockets.length === 0) await turn();
  assert.equal(first.sockets[0]!.bytesRead, 0);
  first.die({ status: null, signal: 'SIGKILL' });
  handoff.onGone(first);
  assert.equal(handoff.waiting, 1);
  handoff.admit(second);
  assert.equal(second.sockets[0], first.sockets[0]);
  handoff.onGone(second);
  await clock.advance(30_000);
  assert.equal(handoff.waiting, 0);
  const [answer] = (await once(client, 'data')) as [string];
  assert.match(answer, /^HTTP\/1\.1 503 [^]*Connection: close[^]*sorry$/);
  await handoff.farewell();
});

test('after SocketHandoff.close(), waiting connections get a response as soon as no worker is left', async (t) => {
  const clock = new ManualClock();
  const { logger } = collectedLog();
  const handoff = new SocketHandoff({
    clock,
    log: logger,
    unavailablePage: () => new HttpResponse('sorry', { status: 503 }),
  });
  const { port } = await handoff.open({ host: '127.0.0.1', port: 0 });
  const child = new FakeChild();
  handoff.admit(child);
  const clients = Array.from({ length: 5 }, () => connect(port, '127.0.0.1').setEncoding('utf8'));
  t.after(() => {
    for (const client of clients) client.destroy();
  });
  for (const client of clients) client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  // the child has not taken any connection yet
  while (child.sockets.length < 4 || handoff.waiting === 0) await turn();
  handoff.close();
  assert.equal(handoff.waiting, 1);
  handoff.dismiss(child);
  assert.equal(handoff.waiting, 0); // otherwise the connection would wait until the child has drained
  const [answer] = (await Promise.race(clients.map((client) => once(client, 'data')))) as [string];
  assert.match(answer, /^HTTP\/1\.1 503 [^]*Connection: close[^]*sorry$/);
  handoff.onGone(child);
  await handoff.farewell();
});

test('WorkerMetrics keeps the counters of workers that have exited, and omits workers that do not respond', async () => {
  const clock = new ManualClock();
  const { logger } = collectedLog();
  const metrics = new WorkerMetrics({ clock, log: logger, workers: () => 2 });
  const count = (amount: number): ReturnType<ReturnType<typeof createMetrics>['snapshot']> => {
    const registry = createMetrics({ log: logger });
    registry.counter('svc_x_total', 'x').add(amount);
    registry.gauge('svc_now', 'now', () => amount);
    return registry.snapshot();
  };
  const [quick, mute] = [new FakeChild(), new FakeChild()];
  metrics.onFinal(mute, count(5));
  const collecting = metrics.collect([quick, mute]);
  assert.equal(metrics.collect([]), collecting);
  const asked = quick.received[0] as Extract<ToChild, { svc: 'snapshot' }>;
  metrics.onSnapshot(quick, asked.id, count(2));
  await clock.advance(1_000);
  const text = renderMetrics(await collecting);
  assert.match(text, /^svc_x_total 7$/m);
  assert.match(text, /^svc_now 2$/m);
  assert.match(text, /^svc_worker_metrics_missed_total 1$/m);
  metrics.onGone(quick);
  metrics.onGone(mute);
  const rest = renderMetrics(await metrics.collect([]));
  assert.match(rest, /^svc_x_total 7$/m);
  assert.doesNotMatch(rest, /^svc_now/m);
});

test('for exited workers, WorkerMetrics keeps 1,000 label sets of a metric, and adds up all further ones under the label "other"', async () => {
  const clock = new ManualClock();
  const { logger } = collectedLog();
  const metrics = new WorkerMetrics({ clock, log: logger, workers: () => 0 });
  for (const generation of ['a', 'b']) {
    const registry = createMetrics({ log: logger });
    const counter = registry.counter('svc_x_total', 'x', ['label']);
    for (let index = 0; index < 700; index++) counter.add(1, `${generation}${index}`);
    const child = new FakeChild();
    metrics.onFinal(child, registry.snapshot());
    metrics.onGone(child);
  }
  const found = (await metrics.collect([])).find(({ name }) => name === 'svc_x_total')!;
  assert.equal(found.series.length, 1_001);
  assert.deepEqual(found.series.at(-1), [['other'], [400]]);
});
