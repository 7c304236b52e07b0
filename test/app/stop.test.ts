/**
 * The stop of a server after a signal: delay, drain, and the time that both share with the hooks.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { readRunOptions } from '../../src/app/options.ts';
import { Config } from '../../src/base/config.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';
import { turn } from '../support/turn.ts';
import type { TestContext } from 'node:test';
import type { RunOptions } from '../../src/app/options.ts';
import type { RunningServer } from '../../src/app/lifecycle.ts';

interface Stopping {
  readonly app: Svc;
  readonly clock: ManualClock;
  /** Names of the log events. */
  names(): unknown[];
  /** Statuses with which the process would have ended. */
  readonly exits: unknown[];
  run(options?: RunOptions): Promise<RunningServer>;
}

/** Returns an application whose process seems to end, but does not. */
function stopping(t: TestContext): Stopping {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const app = new Svc({ clock, logger, env: 'production' });
  app.get('/', () => 'hello');
  app.post('/', { public: true }, ({ req }) => req.text());
  const exits: unknown[] = [];
  t.mock.method(process, 'exit', ((status: unknown) => void exits.push(status)) as never);
  const listeners = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  const own = listeners.map((name) => [name, process.listeners(name)] as const);
  t.after(() => {
    for (const [name, before] of own)
      for (const listener of process.listeners(name))
        if (!before.includes(listener)) process.off(name, listener);
  });
  return {
    app,
    clock,
    exits,
    names: () => events.map(({ event }) => event),
    run: (options = {}) => app.run({ port: 0, ...options }),
  };
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await turn();
}

const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab';

/** Sends a request, and returns status and `Connection` of its response. */
async function ask(client: RawClient, path: string): Promise<string> {
  client.get(path);
  const answer = await client.answer();
  return `${answer.status} ${answer.field('connection') ?? ''}`;
}

test('in the delay after SIGTERM, idle connections and new ones get responses with Connection: close, and /readyz is 503', async (t) => {
  const { clock, exits, names, run } = stopping(t);
  const { port } = await run();
  await using silent = await RawClient.open(port);
  assert.equal(await ask(silent, '/readyz'), '200 keep-alive');
  const idle = await Promise.all(Array.from({ length: 40 }, () => RawClient.open(port)));
  for (const client of idle) assert.equal(await ask(client, '/'), '200 keep-alive');
  process.emit('SIGTERM', 'SIGTERM');
  await until(() => names().includes('stop_announced'));
  for (const client of idle) {
    const answer = await client.send(POST).answer('POST');
    assert.deepEqual(
      [answer.status, answer.body.toString(), answer.field('connection')],
      [200, 'ab', 'close'],
    );
    assert.equal((await client.ended()).length, 0);
  }
  await using fresh = await RawClient.open(port);
  assert.equal(await ask(fresh, '/readyz'), '503 close');
  await clock.advance(4_999);
  await using late = await RawClient.open(port);
  assert.equal(await ask(late, '/'), '200 close');
  assert.equal(names().includes('draining'), false);
  await clock.advance(1);
  assert.equal((await silent.ended()).length, 0);
  await until(() => exits.length > 0);
  assert.deepEqual(exits, [0]);
  await assert.rejects(RawClient.open(port), { code: 'ECONNREFUSED' });
});

test('in the delay after SIGTERM, every request of a pipelined connection gets a response, and only the last one has Connection: close', async (t) => {
  const { clock, exits, names, run } = stopping(t);
  const { port } = await run();
  await using client = await RawClient.open(port);
  process.emit('SIGTERM', 'SIGTERM');
  await until(() => names().includes('stop_announced'));
  client.send(POST.repeat(3));
  const fields: unknown[] = [];
  for (let left = 3; left > 0; left--) fields.push((await client.answer('POST')).field('connection'));
  assert.deepEqual(fields, ['keep-alive', 'keep-alive', 'close']);
  await clock.advance(5_000);
  await until(() => exits.length > 0);
});

for (const [what, signal, options] of [
  ['SIGINT has no delay', 'SIGINT', {}],
  ['SIGHUP without TLS has no delay', 'SIGHUP', {}],
  ['with shutdownDelaySeconds: 0, SIGTERM has no delay', 'SIGTERM', { shutdownDelaySeconds: 0 }],
] as const) {
  test(`${what} in production`, async (t) => {
    const { exits, names, run } = stopping(t);
    await run(options);
    process.emit(signal, signal);
    await until(() => exits.length > 0);
    assert.deepEqual(exits, [0]);
    assert.equal(names().includes('stop_announced'), false);
  });
}

test('a second signal during the delay ends the process at once', async (t) => {
  const { exits, names, run } = stopping(t);
  const { close } = await run();
  process.emit('SIGTERM', 'SIGTERM');
  await until(() => names().includes('stop_announced'));
  assert.deepEqual(exits, []);
  process.emit('SIGTERM', 'SIGTERM');
  assert.equal(exits[0], 143);
  await close();
});

test('delay, running requests and hooks share shutdownTimeoutSeconds: 28 seconds after SIGTERM, the process ends with status 1', async (t) => {
  const { app, clock, exits, names, run } = stopping(t);
  const entered = Promise.withResolvers<void>();
  app.get('/hangs', () => {
    entered.resolve();
    return new Promise<string>(() => undefined);
  });
  app.onShutdown(() => new Promise(() => undefined));
  const { port } = await run();
  await using client = await RawClient.open(port);
  client.get('/hangs');
  await entered.promise;
  process.emit('SIGTERM', 'SIGTERM');
  await clock.advance(5_000);
  await turn();
  await turn(); // the server has read everything that arrived in the delay
  await clock.advance(17_999);
  assert.equal(names().includes('drain_deadline_exceeded'), false);
  let passedMs = 0;
  // after 18 s for requests, the handler has a second to notice that its client is gone
  for (; !names().includes('drain_deadline_exceeded') && passedMs < 4_000; passedMs++) await clock.advance(1);
  await clock.advance(5_000 - passedMs);
  assert.deepEqual([exits, names().includes('drain_deadline_exceeded')], [[], true]);
  await clock.advance(1);
  assert.deepEqual(exits, [1]);
});

test('in a stop of 5 seconds, hooks run although a handler does not end', async (t) => {
  const { app, clock, exits, names, run } = stopping(t);
  const entered = Promise.withResolvers<void>();
  const hooked = Promise.withResolvers<void>();
  app.get('/hangs', () => {
    entered.resolve();
    return new Promise<string>(() => undefined);
  });
  app.onShutdown(() => hooked.resolve());
  const { port } = await run({ shutdownTimeoutSeconds: 5 });
  await using client = await RawClient.open(port);
  client.get('/hangs');
  await entered.promise;
  process.emit('SIGTERM', 'SIGTERM');
  await clock.advance(1_000); // the delay
  await turn();
  await turn();
  await clock.advance(3_000); // the running request
  for (let ms = 0; !names().includes('drain_deadline_exceeded') && ms < 400; ms++) await clock.advance(1);
  await hooked.promise;
  await until(() => exits.length > 0);
  assert.deepEqual([exits, names().includes('shutdown_deadline_exceeded')], [[0], false]);
});

test('close() answers a request that the operating system has already received on an idle connection', async (t) => {
  const { run } = stopping(t);
  const { port, close } = await run({ handleSignals: false });
  await using client = await RawClient.open(port);
  assert.equal(await ask(client, '/'), '200 keep-alive');
  client.send(POST);
  const closing = close();
  const answer = await client.answer('POST');
  assert.deepEqual([answer.status, answer.field('connection')], [200, 'close']);
  await closing;
});

test('run() derives the times of a stop from its options, else from settings, else from the environment', () => {
  const times = (env: string, options: RunOptions = {}, settings: object = {}): unknown => {
    const { delayMs, drainMs, totalMs } = readRunOptions(
      { port: 0, ...options },
      new Config({ values: { env, ...settings }, environment: {} }),
    ).server.stop;
    return [delayMs, drainMs, totalMs].map((ms) => ms / 1_000);
  };
  assert.deepEqual(times('production'), [5, 18, 28]);
  assert.deepEqual(times('development'), [0, 23, 28]);
  assert.deepEqual(times('production', { shutdownTimeoutSeconds: 10 }), [2, 6, 10]);
  assert.deepEqual(times('production', { shutdownDelaySeconds: 20 }), [20, 3, 28]);
  assert.deepEqual(times('test', { drainSeconds: 1 }), [0, 1, 28]);
  assert.deepEqual(
    times('production', {}, { shutdownDelaySeconds: 0, shutdownTimeoutSeconds: 88 }),
    [0, 83, 88],
  );
  assert.throws(() => times('production', { drainSeconds: 24 }), {
    code: 'E_OPTION_RANGE',
    message: /"shutdownTimeoutSeconds" needs at least .* found 28, with 5 and 24/,
  });
  assert.throws(() => times('test', {}, { shutdownDelaySeconds: -1 }), { code: 'E_CONFIG_CAST' });
});
