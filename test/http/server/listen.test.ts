/**
 * Servers that listen at the path of a Unix socket.
 */
import assert from 'node:assert/strict';
import { existsSync, lstatSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { before, test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { listenOn } from '../../../src/http/server/listen.ts';
import { BIN, build } from '../../support/build.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { folder, project, run, start } from '../../support/run.ts';
import type { IncomingMessage } from 'node:http';

const skip = process.platform === 'win32' ? 'Windows has named pipes' : false;

before(build);

/** Sends a request over a Unix socket. Returns the body of the response. */
async function ask(socketPath: string, path = '/', headers: Record<string, string> = {}): Promise<string> {
  const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ socketPath, path, headers, agent: false }, resolve).once('error', reject).end();
  });
  return text(incoming);
}

function make(): Svc {
  return new Svc({ logger: collectedLog().logger, trustProxy: 1 }).get(
    '/',
    ({ req }) => `${req.ip} ${req.scheme}`,
  );
}

const modeOf = (path: string): number => lstatSync(path).mode & 0o777;

test(
  'run({ socket }) listens on a Unix socket with mode 660, and removes the socket when it stops',
  { skip },
  async (t) => {
    const path = join(folder(t), 'app.sock');
    const running = await make().run({ socket: path, handleSignals: false });
    assert.deepEqual([running.host, running.port, running.url], [path, 0, `unix:${path}`]);
    assert.equal(modeOf(path), 0o660);
    const forwarded = { 'X-Forwarded-For': '192.0.2.7', 'X-Forwarded-Proto': 'https' };
    assert.equal(await ask(path, '/', forwarded), '192.0.2.7 https'); // the proxy at the other end is trusted by trustProxy: 1
    await running.close();
    assert.equal(existsSync(path), false);
  },
);

test(
  'run({ socket, socketMode }) sets the given permissions whatever the umask of the process is',
  { skip },
  async (t) => {
    const path = join(folder(t), 'app.sock');
    for (const umask of [0o000, 0o077]) {
      const usual = process.umask(umask);
      const running = await make().run({ socket: path, socketMode: 0o606, handleSignals: false });
      assert.equal(process.umask(usual), umask);
      assert.equal(modeOf(path), 0o606);
      await running.close();
    }
  },
);

test(
  'the file of a Unix socket has mode 600 from its creation until its final permissions are set',
  { skip },
  async (t) => {
    const path = join(folder(t), 'app.sock');
    const server = createServer();
    const { promise: created, resolve } = Promise.withResolvers<number>();
    const listen = server.listen.bind(server);
    t.mock.method(server, 'listen', (...options: Parameters<typeof listen>) => {
      const result = listen(...options); // creates the file synchronously
      resolve(modeOf(path));
      return result;
    });
    const usual = process.umask(0);
    t.after(() => process.umask(usual));
    await listenOn(server, { socket: path });
    t.after(() => server.close());
    assert.deepEqual([await created, modeOf(path)], [0o600, 0o660]);
  },
);

test(
  'run({ socket }) removes a socket that a killed process has left, and removes no other file',
  { skip },
  async (t) => {
    const cwd = project(t, {
      'app.ts':
        "import { Svc } from 'svc';\nexport const app = new Svc({ env: 'test' });\napp.get('/', () => String(process.pid));\n",
    });
    const path = join(cwd, 'app.sock');
    const killed = start(t, process.execPath, [BIN, 'run', 'app.ts', '--socket', 'app.sock'], { cwd });
    await killed.printed(/"url":"unix:/);
    await assert.rejects(make().run({ socket: path, handleSignals: false }), {
      code: 'E_LISTEN',
      message: `Cannot listen on ${path}: another process listens there`,
    });
    assert.equal(await ask(path), String(killed.child.pid)); // it still serves
    killed.child.kill('SIGKILL');
    await killed.ended;
    assert.ok(existsSync(path));
    const running = await make().run({ socket: path, handleSignals: false });
    assert.match(await ask(path), /http$/);
    await running.close();
    writeFileSync(path, 'a file');
    await assert.rejects(make().run({ socket: path, handleSignals: false }), {
      message: `Cannot listen on ${path}: the path names an existing file that is not a Unix socket`,
    });
    assert.equal(readFileSync(path, 'utf8'), 'a file');
  },
);

test(
  'run({ socket }) says why a path cannot be used, and refuses a socket together with a port or host',
  { skip },
  async (t) => {
    const cwd = folder(t);
    for (const [path, problem] of [
      [join(cwd, 'none/app.sock'), /its folder does not exist, or this user may not write in it$/],
      [join(cwd, 'x'.repeat(100)), /longer than 103 bytes, the maximum for a Unix socket$/],
    ] as const)
      await assert.rejects(make().run({ socket: path, handleSignals: false }), {
        code: 'E_LISTEN',
        message: problem,
      });
    for (const options of [{ port: 0 }, { host: '127.0.0.1' }])
      await assert.rejects(make().run({ socket: 'a.sock', ...options }), { code: 'E_OPTION_RANGE' });
    for (const options of [{ socket: '' }, { socketMode: 0o1000 }, { socketMode: -1 }])
      await assert.rejects(make().run(options), { code: 'E_OPTION_RANGE' });
  },
);

test(
  'if another server runs on a socket, run({ socket }) does not remove the socket',
  { skip },
  async (t) => {
    const path = join(folder(t), 'other.sock');
    const other = createServer((socket) => void socket.on('error', () => undefined).end('other'));
    await new Promise<void>((resolve) => other.listen(path, resolve));
    t.after(() => other.close());
    await assert.rejects(make().run({ socket: path, handleSignals: false }), /another process listens there/);
    assert.ok(existsSync(path));
  },
);

for (const [what, args] of [
  ['one process', []],
  ['workers', ['--workers', '2']],
  ['a process that reloads', ['--reload']],
] as const) {
  test(
    `svc run --socket --socket-mode serves requests, and SIGTERM removes the socket (${what})`,
    { skip },
    async (t) => {
      const cwd = project(t, {
        'app.ts':
          "import { Svc } from 'svc';\nexport const app = new Svc({ env: 'test' });\napp.get('/', () => String(process.pid));\n",
      });
      const path = join(cwd, 'app.sock');
      const server = start(
        t,
        process.execPath,
        [BIN, 'run', 'app.ts', '--socket', 'app.sock', '--socket-mode', '600', ...args],
        { cwd },
      );
      await server.printed(/"event":"listening","url":"unix:/);
      assert.equal(modeOf(path), 0o600);
      const pid = Number(await ask(path));
      assert.equal(pid === server.child.pid, args.length === 0);
      server.child.kill('SIGTERM');
      assert.equal((await server.ended).status, 0);
      assert.equal(existsSync(path), false);
    },
  );
}

test(
  'svc run reads the path and mode of its socket from SVC_SOCKET and SVC_SOCKET_MODE, and refuses invalid values',
  { skip },
  async (t) => {
    const cwd = project(t, {
      'app.ts': "import { Svc } from 'svc';\nexport const app = new Svc({ env: 'test' });\n",
    });
    const env = { SVC_SOCKET: 'app.sock', SVC_SOCKET_MODE: '640' };
    const server = start(t, process.execPath, [BIN, 'run', 'app.ts'], { cwd, env });
    await server.printed(/"event":"listening","url":"unix:/);
    assert.equal(modeOf(join(cwd, 'app.sock')), 0o640);
    server.child.kill('SIGTERM');
    await server.ended;
    for (const [args, problem] of [
      [['--socket', 'a', '--port', '1'], /--socket cannot be combined with --host or --port/],
      [
        ['--socket', 'a', '--socket-mode', '888'],
        /--socket-mode needs permissions in octal, such as 660, found "888"/,
      ],
    ] as const) {
      const { status, stderr } = await run(process.execPath, [BIN, 'run', 'app.ts', ...args], { cwd });
      assert.equal(status, 2);
      assert.match(stderr, problem);
    }
  },
);
