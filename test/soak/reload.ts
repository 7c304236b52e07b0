/**
 * Twenty saves under load, a broken one among them: no request is lost.
 *
 *   node --conditions=svc-source test/soak/reload.ts
 *
 *   SOAK_SECONDS    begins no further round after so long; default 60. One round is 20 saves
 *
 * Asserted: each request gets 200 and a current or earlier version; after each save the new version is
 * served; while the application is broken every response is a 503 with the reason, and the next save
 * recovers. Printed: the duration of restarts. A round in which something took too long is repeated, and must
 * be in time then.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask } from '../support/load.ts';
import { TimedLoad } from '../support/timed-load.ts';
import { BIN, build } from '../support/build.ts';
import { project, start } from '../support/run.ts';
import { scoped, SECONDS } from '../support/soak.ts';
import type { Scope } from '../support/run.ts';

const CLIENTS = 12;
const SAVES = 20;
const WORST_MS = 5_000;
/** Time limit of a response. */
const HANG_MS = 60_000;

const APP = (version: string): string => `import { Svc } from 'svc';
import { part } from './part.ts';
export const app = new Svc();
app.get('/', async () => { await new Promise((resolve) => setTimeout(resolve, 2)); return '${version} ' + part; });
`;

async function soak(scope: Scope): Promise<void> {
  build();
  const cwd = project(scope, { 'app.ts': APP('v0'), 'part.ts': "export const part: string = 'p0';\n" });
  const server = start(scope, process.execPath, [BIN, 'run', 'app.ts', '--reload', '--port', '0'], { cwd });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  const startedMs = performance.now();
  const restarts: number[] = [];
  let answered = 0;
  let worstMs = 0;
  let expected = 0;
  let part = 0;
  const late: string[] = [];
  const last = (): number => Math.max(...restarts.slice(-SAVES));
  for (
    let round = 0, lateRound = -1;
    round === 0 ||
    (round === lateRound + 1 && late.length === 1) ||
    performance.now() - startedMs < SECONDS * 1_000;
    round++
  ) {
    const load = new TimedLoad(
      `${url}/`,
      CLIENTS,
      (status, body) => status === 200 && /^v\d+ p\d+$/.test(body),
    );
    for (let save = 0; save < SAVES; save++) {
      await load.more(100);
      if (save % 2 === 0) writeFileSync(join(cwd, 'app.ts'), APP(`v${++expected}`));
      else writeFileSync(join(cwd, 'part.ts'), `export const part: string = 'p${++part}';\n`);
      const savedMs = performance.now();
      while (load.bodies.get(`v${expected} p${part}`) === undefined) {
        assert.ok(performance.now() - savedMs < HANG_MS, 'the new version does not come');
        await load.more(1);
      }
      restarts.push(performance.now() - savedMs);
    }
    await load.stop();
    assert.deepEqual(load.failures, []);
    answered += load.answered;
    worstMs = Math.max(worstMs, load.worstMs);
    if (Math.max(load.worstMs, last()) >= WORST_MS) {
      lateRound = round;
      late.push(
        `round ${round + 1}: a request waited ${Math.round(load.worstMs)} ms, a new version came after ${Math.round(last())} ms`,
      );
    }

    const broken = new TimedLoad(
      `${url}/`,
      CLIENTS,
      (status, body) => status === 200 || (status === 503 && /Expression expected/.test(body)),
    );
    writeFileSync(join(cwd, 'app.ts'), 'export const app = (;\n');
    while ((await ask(`${url}/`)).status !== 503) await broken.more(1);
    await broken.more(100);
    writeFileSync(join(cwd, 'app.ts'), APP(`v${++expected}`));
    while ((await ask(`${url}/`)).status !== 200) await broken.more(1);
    await broken.stop();
    assert.deepEqual(broken.failures, []);
    answered += broken.answered;
  }
  server.child.kill('SIGTERM');
  assert.equal((await server.ended).status, 0);
  for (const text of late) process.stdout.write(`${text}\n`);
  assert.ok(late.length < 2, `${late.length} rounds were late`);
  restarts.sort((a, b) => a - b);
  process.stdout.write(
    `${restarts.length} saves, ${answered} requests, none lost; worst ${Math.round(worstMs)} ms; from a save to the first new answer: median ${Math.round(restarts[restarts.length >> 1]!)} ms, worst ${Math.round(restarts.at(-1)!)} ms\n`,
  );
}

await scoped(soak);
process.exit(0);
