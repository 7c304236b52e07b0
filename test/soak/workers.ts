/**
 * Two worker processes under load, which are killed, replaced and ended again and again.
 *
 *   node --conditions=svc-source test/soak/workers.ts
 *
 *   SOAK_SECONDS    begins no further round after so long; default 60
 *
 * Asserted in each round: SIGHUP replaces both processes and no request fails; kill -9 of one fails at most
 * one request a client, all within a second of it, and another takes its place; the counts of `/metrics`
 * never fall. At the end SIGTERM under load: what was begun is answered, and the process ends with 0. No
 * request waits for 5 s.
 */
import assert from 'node:assert/strict';
import { ask } from '../support/load.ts';
import { TimedLoad } from '../support/timed-load.ts';
import { BIN, build } from '../support/build.ts';
import { project, start } from '../support/run.ts';
import { scoped, SECONDS } from '../support/soak.ts';
import type { Scope } from '../support/run.ts';

const CLIENTS = 16;
const WORST_MS = 5_000;

const APP = `import { Svc } from 'svc';
export const app = new Svc();
app.get('/', async () => { await new Promise((resolve) => setTimeout(resolve, 2)); return String(process.pid); });
`;

const READY = /"event":"worker_ready"/g;
const RENEWED = /"event":"rolling_restart_done"/g;

function requestsIn(metrics: string): number {
  return [...metrics.matchAll(/^svc_requests_total\{.*route="\/",.*\} (\d+)$/gm)].reduce(
    (sum, match) => sum + Number(match[1]),
    0,
  );
}

async function soak(scope: Scope): Promise<void> {
  build();
  const server = start(scope, process.execPath, [BIN, 'run', 'app.ts', '--workers', '2', '--port', '0'], {
    cwd: project(scope, { 'app.ts': APP }),
  });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  await server.printedTimes(READY, 2);
  const load = new TimedLoad(`${url}/`, CLIENTS);
  const startedMs = performance.now();
  let counted = 0;
  const count = async (): Promise<void> => {
    const now = requestsIn((await ask(`${url}/metrics`)).body);
    assert.ok(now >= counted, `the counts fell from ${counted} to ${now}`);
    counted = now;
  };
  let rounds = 0;
  let lost = 0;
  for (; rounds === 0 || performance.now() - startedMs < SECONDS * 1_000; rounds++) {
    await load.more(200);
    await count();
    const failuresBefore = load.failures.length;
    const renewals = server.count(RENEWED);
    server.child.kill('SIGHUP');
    await server.printedTimes(RENEWED, renewals + 1);
    await load.more(200);
    assert.deepEqual(load.failures.slice(failuresBefore), [], 'SIGHUP failed requests');
    await count();

    const readyBefore = server.count(READY);
    const victim = Number((await ask(`${url}/`)).body);
    const killedMs = performance.now();
    process.kill(victim, 'SIGKILL');
    await server.printedTimes(READY, readyBefore + 1);
    await load.more(200);
    const own = load.failures.slice(failuresBefore);
    assert.ok(
      own.length <= CLIENTS &&
        own.every(
          (failure) => failure.what === 'ECONNRESET' && load.failedAtMs.get(failure)! - killedMs < 1_000,
        ),
      JSON.stringify({ killedMs, own }),
    );
    lost += own.length;
    await count();
  }
  const before = load.failures.length;
  const pids = new Set(load.bodies.keys());
  server.child.kill('SIGTERM');
  const { status, stderr } = await server.ended;
  await Promise.race([load.stop(), new Promise((resolve) => setTimeout(resolve, 1_000).unref())]);
  assert.equal(status, 0, stderr.slice(-2_000));
  const cut = load.failures.slice(before).filter(({ what }) => what !== 'ECONNREFUSED');
  assert.ok(
    cut.length <= CLIENTS && cut.every(({ what }) => what === 'ECONNRESET'),
    JSON.stringify(cut.slice(0, 20)),
  );
  assert.ok(!/drain_deadline_exceeded|worker_killed|gave_up/.test(stderr), stderr.slice(-2_000));
  assert.ok(load.worstMs < WORST_MS, `a request waited ${load.worstMs} ms`);
  process.stdout.write(
    `${rounds} rounds, ${load.answered} requests, ${pids.size} workers; lost to kill -9: ${lost}; worst ${Math.round(load.worstMs)} ms; connections without a request that SIGTERM closed: ${cut.length}\n`,
  );
}

await scoped(soak);
process.exit(0);
