/**
 * Downloads of a file of 2 GiB, whole and in ranges, together with clients that read slowly and clients that
 * disconnect.
 *
 *   node --conditions=svc-source test/soak/downloads.ts
 *
 *   SOAK_SECONDS    for how long slow and leaving clients go on; default 60. Below 60 the file has 64 MiB
 *   SOAK_SEED       repeats what each client does; default from the time, and printed
 *
 * The file is sparse, with its offset written every 4 MiB. The test counts every received byte and compares
 * every mark. Asserted:
 *
 *   the whole file comes through a mount and through FileResponse, and the process grows by no more than 64 MiB for it
 *   honest ranges are answered all the time, while buffers held for all clients stay below 64 MiB
 *   at the end, or soon after, the server has the descriptors and sockets that it had at the start, and after gc 8 MiB more at most
 *
 * The size of the process under load is only printed, because V8 lets its heap grow with the connections per
 * second.
 */
import { once } from 'node:events';
import {
  closeSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FileResponse, Svc, createLogger } from 'svc';
import { seeded } from '../support/random.ts';
import { held, heldBy, mib, SECONDS, SEED, serving, soak, SoakServer, together } from '../support/soak.ts';
import type { IncomingMessage } from 'node:http';
import type { Held } from '../support/soak.ts';

const SIZE = SECONDS < 60 ? 67_108_864 : 2_147_483_648;
const MARK_EVERY = 4_194_304;
const ADDED_BYTES = 67_108_864;
/** 4 MiB of this are free blocks. */
const LEFT_BYTES = 8_388_608;
const [SLOW, LEAVING, HONEST] = [24, 8, 4];
const PATHS = ['/file', '/static/large.bin'] as const;

interface Inside extends Held {
  /** Highest resident memory since the last question, in bytes. */
  readonly peak: number;
  /** Highest size of buffers since the last question, in bytes. */
  readonly buffers: number;
  readonly descriptors: number;
}

// ── the server ──

async function serve(folder: string): Promise<void> {
  const path = join(folder, 'large.bin');
  const app = new Svc({ logger: createLogger({ level: 'error' }) }).mountStatic('/static', folder);
  app.get('/file', () => new FileResponse(path));
  const { port } = await app.run({ port: 0, handleSignals: false });
  let [peak, buffers] = [0, 0];
  const look = (): void => {
    const { rss, arrayBuffers } = process.memoryUsage();
    [peak, buffers] = [Math.max(peak, rss), Math.max(buffers, arrayBuffers)];
  };
  setInterval(look, 20);
  serving(port, async (): Promise<Inside> => {
    look();
    const most = { peak, buffers };
    const descriptors = readdirSync('/proc/self/fd').length;
    const now = await held();
    [peak, buffers] = [0, 0];
    return { ...now, ...most, descriptors };
  });
}

// ── the clients ──

type Range = readonly [first: number, last: number];

/** Sends one request. `onChunk` returns false to disconnect. Returns the status and the length received. */
async function download(
  port: number,
  path: string,
  range: Range | undefined,
  onChunk: (bytes: Buffer, offset: number) => boolean | Promise<boolean>,
): Promise<{ status: number; received: number }> {
  const headers = range && { Range: `bytes=${range.join('-')}` };
  const sent = get({ port, path, headers, agent: false });
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let received = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      received += chunk.length;
      if (!(await onChunk(chunk, received - chunk.length))) break; // which closes the connection
    }
  } catch {
    // cut by the server: `received` shows it
  }
  return { status: response.statusCode!, received };
}

/** Downloads a range or the whole file, and compares its length and its marks. Returns what failed. */
async function compared(port: number, path: string, range?: Range): Promise<string[]> {
  const [first, last] = range ?? [0, SIZE - 1];
  let [wrong, at] = [0, first];
  let carry = Buffer.alloc(0);
  const { status, received } = await download(port, path, range, (bytes) => {
    const all = carry.length === 0 ? bytes : Buffer.concat([carry, bytes]);
    const from = at - carry.length;
    let mark = Math.ceil(from / MARK_EVERY) * MARK_EVERY;
    for (; mark + 8 <= from + all.length; mark += MARK_EVERY)
      if (all.readBigUInt64BE(mark - from) !== BigInt(mark)) wrong++;
    at += bytes.length;
    carry = Buffer.from(mark < from + all.length ? all.subarray(mark - from) : []);
    return true;
  });
  const length = last - first + 1;
  return status === (range === undefined ? 200 : 206) && received === length && wrong === 0
    ? []
    : [`${path} ${first}-${last}: status ${status}, ${received} of ${length} bytes, ${wrong} wrong marks`];
}

const counts = { honest: 0, left: 0, slowBytes: 0 };
const failures: string[] = [];

/** Clients by kind: their number, and what each does again and again until `untilMs`. */
const CLIENTS: readonly (readonly [
  count: number,
  run: (port: number, path: string, random: (below: number) => number, untilMs: number) => Promise<void>,
])[] = [
  [
    HONEST,
    async (port, path, random) => {
      const start = random(SIZE / 4_096 - 1) * 4_096;
      const end = Math.min(SIZE, start + 1 + random(4 * MARK_EVERY));
      failures.push(...(await compared(port, path, [start, end - 1])));
      counts.honest++;
    },
  ],
  [
    LEAVING,
    async (port, path, random) => {
      const most = random(3) === 0 ? 0 : random(2_000_000);
      await download(port, path, undefined, (_bytes, offset) => offset < most);
      counts.left++;
      await sleep(random(20));
    },
  ],
  [
    SLOW,
    async (port, path, random, untilMs) => {
      await download(port, path, undefined, async (bytes) => {
        counts.slowBytes += bytes.length;
        await sleep(20 + random(80));
        return performance.now() < untilMs;
      });
    },
  ],
];

async function main(): Promise<readonly string[]> {
  console.log(`seed ${SEED}, ${SIZE / 1_048_576} MiB, ${SECONDS} s`);
  const folder = mkdtempSync(join(tmpdir(), 'svc-downloads-'));
  const random = seeded(SEED);
  sparse(join(folder, 'large.bin'));
  const server = await SoakServer.start<Inside>(import.meta.filename, [folder]);
  const { port } = server;
  try {
    for (const path of PATHS) await download(port, path, [0, 999_999], () => true); // warm up: this loads modules
    await sleep(200);
    const before = await server.ask();
    const startedMs = performance.now();
    for (const path of PATHS) failures.push(...(await compared(port, path)));
    console.log(`both whole in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`);
    const alone = await server.ask();
    const untilMs = performance.now() + SECONDS * 1_000;
    await Promise.all(
      CLIENTS.map(([count, run]) =>
        together(count, async () => {
          while (performance.now() < untilMs) await run(port, PATHS[random(2)]!, random, untilMs);
        }),
      ),
    );
    const crowd = await server.ask();
    const isLeft = (now: Inside): boolean =>
      now.descriptors > before.descriptors || now.sockets > before.sockets;
    const after = await server.settled((now) => !isLeft(now) && heldBy(now) - heldBy(before) <= LEFT_BYTES);
    const [grown, left] = [alone.peak - before.rss, heldBy(after) - heldBy(before)];
    console.log(
      `two whole downloads: ${mib(grown)} more; ${SLOW} slow, ${LEAVING} leaving and ${HONEST} honest clients: ${mib(crowd.peak - before.rss)} more, of which buffers ${mib(crowd.buffers)}; ${mib(left)} after gc`,
    );
    console.log(
      `${counts.honest} honest ranges, ${counts.left} left, ${mib(counts.slowBytes)} read slowly; descriptors ${before.descriptors} → ${after.descriptors}`,
    );
    if (grown > ADDED_BYTES) failures.push(`two downloads made the process grow by ${mib(grown)}`);
    if (crowd.buffers > ADDED_BYTES) failures.push(`buffers of ${mib(crowd.buffers)} were held`);
    if (left > LEFT_BYTES) failures.push(`${mib(left)} more are held at the end`);
    if (isLeft(after)) failures.push(`left open: ${JSON.stringify({ before, after })}`);
    if (counts.honest === 0 || counts.left === 0) failures.push('nothing was tried');
  } finally {
    await server.kill();
    rmSync(folder, { recursive: true });
  }
  return failures;
}

/** Creates the sparse file, which occupies only the space of its marks. */
function sparse(path: string): void {
  const file = openSync(path, 'w');
  ftruncateSync(file, SIZE);
  const mark = Buffer.alloc(8);
  for (let at = 0; at < SIZE; at += MARK_EVERY) {
    mark.writeBigUInt64BE(BigInt(at));
    writeSync(file, mark, 0, 8, at);
  }
  closeSync(file);
  utimesSync(path, 784_111_777, 784_111_777);
}

await soak(main, serve);
