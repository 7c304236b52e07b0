import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { HTTPException, Svc } from '../../src/index.ts';
import { DescriptorWatch, lacksDescriptors } from '../../src/observability/descriptors.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';

function failed(code: string): Error {
  return Object.assign(new Error(code), { code });
}

function setUp(limit?: number) {
  const { logger, events } = collectedLog();
  const metrics = createMetrics({ log: logger });
  const clock = new ManualClock();
  const system = { probe: () => Promise.resolve(), limit: () => limit };
  const watch = new DescriptorWatch(logger, metrics, clock, system);
  return { events, metrics, clock, system, watch };
}

test('lacksDescriptors() recognises EMFILE and ENFILE, also as the cause of another error', () => {
  assert.deepEqual(
    [
      failed('EMFILE'),
      new HTTPException(503, 'x', { cause: new Error('x', { cause: failed('ENFILE') }) }),
      failed('ENOENT'),
      'EMFILE',
      undefined,
    ].map(lacksDescriptors),
    [true, true, false, false, false],
  );
});

test('DescriptorWatch counts each report, and logs at most one a minute', async () => {
  const { watch, events, clock, metrics } = setUp();
  for (let count = 0; count < 3; count++) watch.report(failed('EMFILE'), { request_id: String(count) });
  assert.deepEqual(
    events.map(({ event, request_id }) => [event, request_id]),
    [['descriptors_exhausted', '0']],
  );
  await clock.advance(60_000);
  watch.report(failed('EMFILE'));
  assert.equal(events[1]!['suppressed'], 2);
  assert.match(metrics.render(), /^svc_descriptors_exhausted_total 4$/m);
});

test('DescriptorWatch opens a file every five seconds, and reports if this fails', async () => {
  const { watch, events, clock, system } = setUp();
  const watching = watch.watch(100);
  await clock.advance(60_000);
  assert.deepEqual(events, []);
  system.probe = () => Promise.reject(failed('EACCES'));
  await clock.advance(5_000);
  assert.deepEqual(events, []);
  system.probe = () => Promise.reject(failed('EMFILE'));
  await clock.advance(5_000);
  assert.deepEqual(
    events.map(({ event }) => event),
    ['descriptors_exhausted'],
  );
  watching[Symbol.dispose]();
  await clock.advance(600_000);
  assert.equal(events.length, 1);
});

for (const [limit, isLow] of [
  [99, true],
  [100, false],
  [undefined, false],
] as const)
  test(`DescriptorWatch ${isLow ? 'warns' : 'does not warn'} if the process may open ${limit ?? 'any number of'} files and accepts 100 connections`, async () => {
    const { watch, events, clock } = setUp(limit);
    using _watching = watch.watch(100);
    await clock.advance(1_000);
    assert.deepEqual(
      events.map(({ event, limit: found, max_connections }) => [event, found, max_connections]),
      isLow ? [['descriptor_limit_low', 99, 100]] : [],
    );
  });

test('if a handler fails because no file descriptor is free, the response is 503 with Retry-After, and the log has one line', async () => {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger }).get('/', () => Promise.reject(failed('EMFILE')));
  await using client = new TestClient(app);
  for (let count = 0; count < 3; count++) {
    const response = await client.get('/');
    assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '5']);
  }
  assert.deepEqual(
    events.filter(({ level }) => level === 'error').map(({ event, status }) => [event, status]),
    [['descriptors_exhausted', 503]],
  );
});

test(
  'without free file descriptors, declared forms, WebSockets and MCP endpoints work, and modules that are missing lead to 503',
  { skip: process.platform === 'win32' },
  () => {
    const child = new URL('../support/descriptors-child.ts', import.meta.url).pathname;
    const { stdout, stderr } = spawnSync(
      '/bin/sh',
      ['-c', 'ulimit -n 256 && exec "$0" "$@"', process.execPath, '--conditions=svc-source', child],
      { encoding: 'utf8' },
    );
    assert.deepEqual(
      JSON.parse(stdout || 'null'),
      { limit: 256, form: 200, ws: 'echo', mcp: 200, undeclared: 503, docs: 503, docsLater: 200 },
      stderr,
    );
  },
);
