/**
 * Functions of an application whose promises never settle, at the stop and in probes: one table. Each has a
 * limit, and everything else still runs.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Depends, Svc } from '../../src/index.ts';
import { ManualClock, TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { turn } from '../support/turn.ts';

/** Longest time of one step of a shutdown. */
const STEP_MS = 12_000;
const PROBE_MS = 2_000;

type Never = () => Promise<never>;

interface Case {
  readonly name: string;
  declare(app: Svc, never: Never): void;
  /** Event of the log line that reports the step. */
  readonly event: string;
}

const CASES: readonly Case[] = [
  {
    name: 'a hook of onShutdown()',
    declare: (app, never) => void app.onShutdown(never),
    event: 'shutdown_hook_failed',
  },
  {
    name: 'the function that a hook of onStartup() returned',
    declare: (app, never) => void app.onStartup(() => never),
    event: 'shutdown_hook_failed',
  },
  {
    name: 'shutdown() of a plugin',
    declare: (app, never) => void app.register({ name: 'stuck', register: () => undefined, shutdown: never }),
    event: 'plugin_shutdown_failed',
  },
  {
    name: 'the clean-up of a dependency of scope "app"',
    declare: (app, never) => {
      async function* connection(): AsyncGenerator<string> {
        try {
          yield 'open';
        } finally {
          await never();
        }
      }
      app.get('/shared', { value: Depends(connection, { scope: 'app' }) }, ({ value }) => value);
    },
    event: 'cleanup_failed',
  },
];

for (const { name, declare, event } of CASES)
  test(`Svc.shutdown() does not wait for ever, and runs its other steps, if this never settles: ${name}`, async () => {
    const clock = new ManualClock();
    const { logger, events } = collectedLog();
    const app = new Svc({ clock, logger });
    const ran: string[] = [];
    app.register({ name: 'first', register: () => undefined, shutdown: () => void ran.push('plugin') });
    app.onShutdown(() => void ran.push('hook'));
    declare(app, () => new Promise(() => undefined));
    await app.startup();
    let isDown = false;
    const down = app.shutdown().then(() => {
      isDown = true;
    });
    await turn();
    await clock.advance(STEP_MS - 1);
    assert.ok(!isDown);
    await clock.advance(1);
    await down;
    assert.deepEqual(ran, ['hook', 'plugin']);
    const errors = events.filter(({ level }) => level === 'error');
    assert.deepEqual(
      errors.map((line) => line['event']),
      [event],
    );
    assert.match(JSON.stringify(errors), /did not end within 12000 ms/);
  });

test('Svc.shutdown() runs all steps within their limits, even if several of them never settle', async () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const app = new Svc({ clock, logger });
  for (const { declare } of CASES) declare(app, () => new Promise(() => undefined));
  await app.startup();
  const down = app.shutdown();
  await turn();
  await clock.advance(STEP_MS * CASES.length);
  await down;
  assert.equal(events.filter(({ level }) => level === 'error').length, CASES.length);
});

test('/readyz responds 503 after two seconds if a probe never settles, and other probes are still reported', async () => {
  const clock = new ManualClock();
  const { logger } = collectedLog();
  const app = new Svc({ clock, logger });
  app.register({
    name: 'probes',
    register: (host) => {
      host.readiness('stuck', () => new Promise(() => undefined));
      host.readiness('good', () => Promise.resolve());
    },
  });
  await using client = new TestClient(app);
  const asked = client.get('/readyz');
  await turn();
  await clock.advance(PROBE_MS);
  const response = await asked;
  assert.equal(response.status, 503);
  const { checks } = (await response.json()) as { checks: Record<string, { status: string }> };
  assert.deepEqual([checks['stuck']?.status, checks['good']?.status], ['down', 'up']);
});

test('Svc.shutdown() still waits for clean-ups of requests and for background tasks, which may commit work', async () => {
  const clock = new ManualClock();
  const { logger } = collectedLog();
  const app = new Svc({ clock, logger });
  const [leaving, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  async function* lease(): AsyncGenerator<string> {
    yield 'lent';
    leaving.resolve();
    await go.promise;
  }
  app.get('/', { value: Depends(lease, { scope: 'request' }) }, ({ value }) => value);
  await app.startup();
  const asked = app.fetch(new Request('http://localhost/'));
  await leaving.promise;
  let isDown = false;
  const down = app.shutdown().then(() => {
    isDown = true;
  });
  await clock.advance(3 * STEP_MS);
  assert.ok(!isDown);
  go.resolve();
  await Promise.all([asked, down]);
});

test('a startup hook that never settles is named in the log after 12 seconds, and a shutdown waits 12 seconds for it', async () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const app = new Svc({ clock, logger });
  const ran: string[] = [];
  app.onStartup(() => () => void ran.push('clean-up'));
  app.onStartup(() => new Promise(() => undefined));
  const started = assert.rejects(app.startup(), /The application is shutting down/);
  await turn();
  await clock.advance(STEP_MS);
  assert.deepEqual(
    events.map(({ level, event, hook }) => [level, event, hook]),
    [['warn', 'startup_hook_slow', 2]],
  );
  const down = app.shutdown();
  await clock.advance(STEP_MS - 1);
  assert.deepEqual(ran, []);
  await clock.advance(1);
  await Promise.all([started, down]);
  assert.deepEqual(ran, ['clean-up']);
});
