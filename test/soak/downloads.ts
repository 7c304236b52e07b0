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
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FileResponse, Svc, createLogger } from 'svc';
import { seeded } from '../support/random.ts';
import { held, mib, SECONDS, SEED, serving, soak, SoakServer } from '../support/soak.ts';
import type { Held } from '../support/soak.ts';

const SIZE = SECONDS < 60 ? 67_108_864 : 2_147_483_648;
const MARK_EVERY = 4_194_304;
const ADDED_BYTES = 67_108_864;
/** 4 MiB of this are free blocks. */
const LEFT_BYTES = 8_388_608;
const SLOW = 24;
const LEAVING = 8;
const HONEST = 4;

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
    peak = Math.max(peak, rss);
    buffers = Math.max(buffers, arrayBuffers);
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

/**
 * Sends one request. `onChunk` returns false to disconnect. Resolves with status and length of the body when
 * it is complete, or after disconnecting.
 */
function download(
  port: number,
  path: string,
  range: readonly [number, number] | undefined,
  onChunk: (bytes: Buffer, offset: number) => boolean | Promise<boolean>,
): Promise<{ status: number; received: number }> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${range === undefined ? '' : `Range: bytes=${range[0]}-${range[1]}\r\n`}\r\n`,
    );
    let head = '';
    let status = 0;
    let received = 0;
    socket.on('error', reject).on('close', () => resolve({ status, received }));
    const take = async (body: Buffer): Promise<void> => {
      const offset = received;
      received += body.length;
      const answer = onChunk(body, offset);
      if (answer === true) return;
      socket.pause();
      if (answer === false || !(await answer)) socket.destroy();
      else socket.resume();
    };
    socket.on('data', (chunk: Buffer) => {
      if (status !== 0) return void take(chunk);
      head += chunk.toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end === -1) return;
      status = Number(head.slice(9, 12));
      void take(Buffer.from(head.slice(end + 4), 'latin1'));
    });
  });
}

/** Compares the marks in received bytes, from the offset `start` on. */
class Marks {
  wrong = 0;
  #carry = Buffer.alloc(0);
  #at: number;

  constructor(start: number) {
    this.#at = start;
  }

  take(bytes: Buffer): void {
    const all = this.#carry.length === 0 ? bytes : Buffer.concat([this.#carry, bytes]);
    const from = this.#at - this.#carry.length;
    let mark = Math.ceil(from / MARK_EVERY) * MARK_EVERY;
    for (; mark + 8 <= from + all.length; mark += MARK_EVERY)
      if (all.readBigUInt64BE(mark - from) !== BigInt(mark)) this.wrong++;
    this.#at += bytes.length;
    const isCut = mark < from + all.length;
    this.#carry = isCut ? Buffer.from(all.subarray(mark - from)) : Buffer.alloc(0);
  }
}

async function whole(port: number, path: string): Promise<string[]> {
  const marks = new Marks(0);
  const startedMs = performance.now();
  const { status, received } = await download(port, path, undefined, (bytes) => {
    marks.take(bytes);
    return true;
  });
  console.log(
    `${path}: ${(received / 1_048_576).toFixed(0)} MiB in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`,
  );
  return status === 200 && received === SIZE && marks.wrong === 0
    ? []
    : [`${path}: status ${status}, ${received} of ${SIZE} bytes, ${marks.wrong} wrong marks`];
}

interface Counts {
  honest: number;
  left: number;
  slowBytes: number;
  readonly failures: string[];
}

async function honest(
  port: number,
  random: (below: number) => number,
  untilMs: number,
  counts: Counts,
): Promise<void> {
  while (performance.now() < untilMs) {
    const start = random(SIZE / 4_096 - 1) * 4_096;
    const end = Math.min(SIZE, start + 1 + random(4 * MARK_EVERY));
    const marks = new Marks(start);
    const { status, received } = await download(
      port,
      random(2) === 0 ? '/file' : '/static/large.bin',
      [start, end - 1],
      (bytes) => {
        marks.take(bytes);
        return true;
      },
    );
    counts.honest++;
    if (status !== 206 || received !== end - start || marks.wrong > 0)
      counts.failures.push(
        `range ${start}-${end - 1}: status ${status}, ${received} bytes, ${marks.wrong} wrong marks`,
      );
  }
}

async function leaving(
  port: number,
  random: (below: number) => number,
  untilMs: number,
  counts: Counts,
): Promise<void> {
  while (performance.now() < untilMs) {
    const most = random(3) === 0 ? 0 : random(2_000_000);
    await download(
      port,
      random(2) === 0 ? '/file' : '/static/large.bin',
      undefined,
      (_bytes, offset) => offset < most,
    );
    counts.left++;
    await sleep(random(20));
  }
}

async function slow(
  port: number,
  random: (below: number) => number,
  untilMs: number,
  counts: Counts,
): Promise<void> {
  while (performance.now() < untilMs) {
    await download(port, random(2) === 0 ? '/file' : '/static/large.bin', undefined, async (bytes) => {
      counts.slowBytes += bytes.length;
      await sleep(20 + random(80));
      return performance.now() < untilMs;
    });
  }
}

// ── the round ──

const heldBy = ({ heapUsed, external }: Inside): number => heapUsed + external;

async function main(): Promise<readonly string[]> {
  console.log(`seed ${SEED}, ${SIZE / 1_048_576} MiB, ${SECONDS} s`);
  const folder = mkdtempSync(join(tmpdir(), 'svc-downloads-'));
  const random = seeded(SEED);
  const counts: Counts = { honest: 0, left: 0, slowBytes: 0, failures: [] };
  sparse(join(folder, 'large.bin'));
  const server = await SoakServer.start<Inside>(import.meta.filename, [folder]);
  const { port } = server;
  try {
    // warm up: this loads modules
    for (const path of ['/file', '/static/large.bin']) await download(port, path, [0, 999_999], () => true);
    await sleep(200);
    const before = await server.ask();
    for (const path of ['/file', '/static/large.bin']) counts.failures.push(...(await whole(port, path)));
    const alone = await server.ask();
    const untilMs = performance.now() + SECONDS * 1_000;
    await Promise.all(
      [
        [HONEST, honest],
        [LEAVING, leaving],
        [SLOW, slow],
      ].flatMap(([count, run]) =>
        Array.from({ length: count as number }, () => (run as typeof honest)(port, random, untilMs, counts)),
      ),
    );
    const crowd = await server.ask();
    const after = await server.settled(
      (now) =>
        now.descriptors <= before.descriptors &&
        now.sockets <= before.sockets &&
        heldBy(now) - heldBy(before) <= LEFT_BYTES,
    );
    const [grown, crowded, buffers, left] = [
      alone.peak - before.rss,
      crowd.peak - before.rss,
      crowd.buffers,
      heldBy(after) - heldBy(before),
    ];
    console.log(
      `two whole downloads: ${mib(grown)} more; ${SLOW} slow, ${LEAVING} leaving and ${HONEST} honest clients: ${mib(crowded)} more, of which buffers ${mib(buffers)}; ${mib(left)} after gc`,
    );
    console.log(
      `${counts.honest} honest ranges, ${counts.left} left, ${(counts.slowBytes / 1_048_576).toFixed(0)} MiB read slowly; descriptors ${before.descriptors} → ${after.descriptors}`,
    );
    if (grown > ADDED_BYTES) counts.failures.push(`two downloads made the process grow by ${mib(grown)}`);
    if (buffers > ADDED_BYTES) counts.failures.push(`buffers of ${mib(buffers)} were held`);
    if (left > LEFT_BYTES) counts.failures.push(`${mib(left)} more are held at the end`);
    if (after.descriptors > before.descriptors || after.sockets > before.sockets)
      counts.failures.push(`left open: ${JSON.stringify({ before, after })}`);
    if (counts.honest === 0 || counts.left === 0) counts.failures.push('nothing was tried');
  } finally {
    await server.kill();
    rmSync(folder, { recursive: true });
  }
  return counts.failures;
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
