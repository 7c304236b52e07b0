/**
 * Uploads of 2 GB into a server of its own: through `form()`, which keeps the file until the request ends,
 * and through `parts()`; then interrupted uploads, until SOAK_SECONDS (default 60) are over.
 *
 *   node --conditions=svc-source test/soak/uploads.ts            with fewer than 60 seconds, as in CI, bodies have 64 MB
 *
 * Asserted: no upload adds more than 64 MB to the resident memory after smaller ones of its kind (until V8
 * collects, up to 64 MB of unused chunks remain, in any server); every byte arrives and is read back
 * unchanged. At the end the folder is empty, no descriptor of it is open, and heap and buffers are as before.
 * Resident memory then includes pages that malloc keeps of freed buffers, some 100 MB after some thousands of
 * uploads, and no more after more.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Svc } from 'svc';
import { seeded } from '../support/random.ts';
import { RawClient } from '../support/raw-http.ts';
import { held, heldBy, SECONDS, SEED, serving, soak, SoakServer, together } from '../support/soak.ts';
import type { Socket } from 'node:net';
import type { Held } from '../support/soak.ts';

const BODY_BYTES = SECONDS < 60 ? 64_000_000 : 2_000_000_000;
const MAX_ADDED_BYTES = 64_000_000;
const MAX_HELD_BYTES = 8_000_000;
const WARM_UP_BYTES = 100_000_000;
const MAX_BODY_BYTES = 2_100_000_000;

// ── the server ──

interface Inside extends Held {
  /** Highest resident memory in bytes since it was last asked for. */
  readonly peak: number;
  /** Upload files that still exist, by name or descriptor. */
  readonly left: readonly string[];
}

async function serve(uploadDirectory: string): Promise<void> {
  const app = new Svc({ uploadDirectory });
  let peak = 0;
  setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 10).unref();
  const linkOf = (fd: string): string => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  };
  const openFiles = (): string[] =>
    (process.platform === 'linux' ? readdirSync('/proc/self/fd') : [])
      .map(linkOf)
      .filter((path) => path.startsWith(uploadDirectory));
  app.post('/form', { maxBodyBytes: MAX_BODY_BYTES, requestTimeoutMs: 600_000 }, async ({ req }) => {
    const file = (await req.form()).file('file')!;
    const hash = createHash('sha1');
    for await (const chunk of file.stream()) hash.update(chunk);
    return { size: file.size, hash: hash.digest('hex') };
  });
  app.post('/parts', { requestTimeoutMs: 600_000 }, async ({ req }) => {
    const hash = createHash('sha1');
    let size = 0;
    for await (const part of req.parts({ maxBytes: MAX_BODY_BYTES })) {
      for await (const chunk of part) {
        hash.update(chunk);
        size += chunk.length;
      }
    }
    return { size, hash: hash.digest('hex') };
  });
  const { port } = await app.run({ port: 0 });
  serving(port, async (): Promise<Inside> => {
    const now = await held();
    const inside = { ...now, peak, left: [...readdirSync(uploadDirectory), ...openFiles()] };
    peak = now.rss;
    return inside;
  });
}

// ── the client ──

const HEAD = Buffer.from(
  '--b\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\nContent-Type: application/octet-stream\r\n\r\n',
);
const TAIL = Buffer.from('\r\n--b--\r\n');
const byte = seeded(SEED);
const BLOCK = Buffer.from(Array.from({ length: 1_000_000 }, () => byte(256)));

function requestHead(path: string, bytes: number): string {
  return `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${HEAD.length + bytes + TAIL.length}\r\n\r\n`;
}

/** Sends a part of an upload as fast as the server reads it. Returns the hash of what was sent. */
async function send(socket: Socket, bytes: number, ended: Promise<unknown>): Promise<string> {
  const hash = createHash('sha1');
  socket.write(HEAD);
  for (let sent = 0; sent < bytes && !socket.destroyed; sent += BLOCK.length) {
    const block = BLOCK.subarray(0, Math.min(BLOCK.length, bytes - sent));
    hash.update(block);
    if (!socket.write(block)) await Promise.race([once(socket, 'drain'), ended]);
  }
  return hash.digest('hex');
}

/** Sends an upload. Returns what the server has read, and the hash of what was sent. */
async function upload(
  port: number,
  path: string,
  bytes: number,
): Promise<{ answered: { size: number; hash: string }; sent: string }> {
  await using client = await RawClient.open(port);
  const answer = client.answer();
  client.send(requestHead(path, bytes));
  const sent = await send(client.socket, bytes, answer);
  client.send(TAIL);
  const { status, json, text } = await answer;
  if (status !== 200) throw new Error(`${path}: ${status} ${text()}`);
  return { answered: json() as unknown as { size: number; hash: string }, sent };
}

/** Sends a part of an upload, and disconnects. */
async function brokenOff(port: number, path: string, bytes: number, hasReset: boolean): Promise<void> {
  await using client = (await RawClient.open(port)).send(requestHead(path, BODY_BYTES));
  await send(client.socket, bytes, client.ended());
  if (hasReset) client.socket.resetAndDestroy();
}

const mega = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

async function main(): Promise<readonly string[]> {
  console.log(
    `uploads: ${mega(BODY_BYTES)} each, then ones that break off for ${SECONDS} s in all, seed ${SEED}`,
  );
  const directory = mkdtempSync(join(tmpdir(), 'svc-uploads-'));
  process.on('exit', () => rmSync(directory, { recursive: true, force: true }));
  const server = await SoakServer.start<Inside>(import.meta.filename, [directory]);
  const { port } = server;
  /** Returns the memory after garbage collection. Buffers are freed later than their owners. */
  const atRest = async (): Promise<Inside> => {
    let last = Infinity;
    return server.settled((now) => {
      const isAtRest = heldBy(now) > last - 500_000;
      last = heldBy(now);
      return isAtRest;
    });
  };
  const failures: string[] = [];
  const endMs = performance.now() + SECONDS * 1_000;
  for (const path of ['/form', '/parts']) {
    for (let round = 0; round < 2; round++) await upload(port, path, WARM_UP_BYTES);
    const before = (await server.ask()).rss;
    const startMs = performance.now();
    const { answered, sent } = await upload(port, path, BODY_BYTES);
    const seconds = (performance.now() - startMs) / 1_000;
    const { peak } = await server.ask();
    console.log(
      `${path}: ${seconds.toFixed(1)} s, ${mega(BODY_BYTES / seconds)}/s, resident ${mega(before)} → ${mega(peak)} at most`,
    );
    if (answered.size !== BODY_BYTES || answered.hash !== sent)
      failures.push(`${path}: ${answered.size} bytes came, or others`);
    if (peak - before > MAX_ADDED_BYTES)
      failures.push(`${path}: ${mega(peak - before)} were added to memory`);
  }
  const random = seeded(SEED);
  let broken = 0;
  const breakOff = async (): Promise<void> => {
    await together(8, () =>
      brokenOff(port, random(2) === 0 ? '/form' : '/parts', 1 + random(8_000_000), random(2) === 0),
    );
    broken += 8;
  };
  while (broken < 200) await breakOff(); // warm up: eight uploads at once were not sent before
  const before = await atRest();
  while (performance.now() < endMs || broken < 400) await breakOff();
  // on a busy machine, the server may delete a file and free its buffers some time after the client has
  // disconnected
  const after = await server.settled(
    (now) => now.left.length === 0 && heldBy(now) - heldBy(before) <= MAX_HELD_BYTES,
  );
  const grown = heldBy(after) - heldBy(before);
  console.log(
    `${broken} uploads broken off; held ${mega(heldBy(before))} → ${mega(heldBy(after))}, resident ${mega(before.rss)} → ${mega(after.rss)}`,
  );
  if (after.left.length > 0) failures.push(`left behind: ${after.left.join(', ')}`);
  if (grown > MAX_HELD_BYTES) failures.push(`${mega(grown)} more are held after uploads that broke off`);
  failures.push(...(await server.terminated()));
  return failures;
}

await soak(main, serve);
