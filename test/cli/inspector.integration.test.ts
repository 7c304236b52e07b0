/**
 * `svc run --inspect`: the inspector belongs to the process that serves.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { project, start, svc, write } from '../support/run.ts';
import type { TestContext } from 'node:test';
import type { Running } from '../support/run.ts';

before(build);

const APP = `import { Svc } from 'svc';
export const app = new Svc();
app.get('/', () => String(process.pid));
`;
const LISTENING = /"event":"listening","url":"([^"]+)"/;
const DEBUGGER = /Debugger listening on (ws:\S+)/g;

function serve(t: TestContext, args: readonly string[]): { server: Running; cwd: string } {
  const cwd = project(t, { 'app.ts': APP });
  return { cwd, server: start(t, process.execPath, [BIN, 'run', 'app.ts', '--port', '0', ...args], { cwd }) };
}

/** A debugger that is attached to a process. */
class Attached {
  readonly #socket: WebSocket;
  #lastId = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  static async to(t: TestContext, url: string): Promise<Attached> {
    const socket = new WebSocket(url);
    t.after(() => socket.close());
    await once(socket, 'open');
    return new Attached(socket);
  }

  /** Calls a method of the Chrome DevTools Protocol, and returns its result. */
  async call(method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#lastId;
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const onMessage = ({ data }: MessageEvent): void => {
      const message = JSON.parse(String(data)) as { readonly id?: number; readonly result?: unknown };
      if (message.id === id) resolve(message.result);
    };
    this.#socket.addEventListener('message', onMessage);
    this.#socket.send(JSON.stringify({ id, method, params }));
    const result = await promise;
    this.#socket.removeEventListener('message', onMessage);
    return result;
  }

  async evaluate(expression: string): Promise<unknown> {
    const { result } = (await this.call('Runtime.evaluate', { expression })) as {
      readonly result: { readonly value: unknown };
    };
    return result.value;
  }
}

for (const mode of [[], ['--reload'], ['--workers', '1']]) {
  test(`svc run ${mode.join(' ')} --inspect attaches to the process that serves`, async (t) => {
    const { server } = serve(t, ['--inspect=127.0.0.1:0', ...mode]);
    const [, url] = await server.printed(LISTENING);
    const [, address] = await server.printed(new RegExp(DEBUGGER, ''));
    const attached = await Attached.to(t, address!);
    assert.equal(String(await attached.evaluate('process.pid')), await (await fetch(url!)).text());
    assert.equal(server.count(DEBUGGER), 1);
  });
}

test('svc run --reload --inspect replaces its process although a debugger is attached, and opens the inspector again', async (t) => {
  const { server, cwd } = serve(t, ['--reload', '--inspect=0']);
  await server.printedTimes(/"event":"reloaded"/g, 1);
  const [, address] = await server.printed(new RegExp(DEBUGGER, ''));
  await Attached.to(t, address!);
  write(cwd, { 'app.ts': `${APP}// saved` });
  await server.printedTimes(/"event":"reloaded"/g, 2);
  assert.equal(server.count(DEBUGGER), 2);
  assert.equal(server.count(/"event":"child_killed"/g), 0);
});

test('svc run --inspect-brk loads the application after a debugger is attached', async (t) => {
  const { server } = serve(t, ['--inspect-brk=0']);
  const [, address] = await server.printed(new RegExp(DEBUGGER, ''));
  const attached = await Attached.to(t, address!);
  assert.equal(server.count(LISTENING), 0);
  await attached.call('Runtime.runIfWaitingForDebugger');
  await server.printed(LISTENING);
});

for (const [args, message] of [
  [
    ['--inspect=nowhere:x'],
    /--inspect needs a port, or an address such as 127\.0\.0\.1:9229, found "nowhere:x"/,
  ],
  [['--inspect-brk=70000'], /--inspect-brk needs a port/],
  [['--inspect', '--workers', '2'], /--inspect cannot be combined with 2 workers/],
  [['--inspect', '--workers', 'auto'], /--inspect cannot be combined with auto workers/],
] as const) {
  test(`svc run ${args.join(' ')} ends with status 2`, async () => {
    const { status, stderr } = await svc(['run', 'app.ts', ...args]);
    assert.equal(status, 2);
    assert.match(stderr, message);
  });
}
