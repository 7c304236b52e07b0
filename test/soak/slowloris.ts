/**
 * Clients that are slow on purpose or disconnect, against a server in its own process, together with normal
 * clients.
 *
 *   node --conditions=svc-source test/soak/slowloris.ts
 *
 *   SOAK_SECONDS    how long; default 60
 *
 * Slow heads and slow bodies send a byte now and then, slow readers request much and read nothing, silent
 * ones send nothing, abusers pipeline without end, and others disconnect anywhere. Asserted: no honest
 * request is refused or fails, the slow are cut (with 408 if possible), nothing of them is left a while
 * later, and the heap is as before. If an honest client was late, or got 408, the attack is repeated, and no
 * honest client may be late then.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { StreamingResponse, Svc } from 'svc';
import { confirmed } from '../support/confirmed.ts';
import { TimedLoad } from '../support/timed-load.ts';
import { seeded } from '../support/random.ts';
import { held, mib, SECONDS, serving, soak, SoakServer, together } from '../support/soak.ts';
import type { Socket } from 'node:net';
import type { Held } from '../support/soak.ts';

/** Concurrent connections of each kind. */
const ATTACKERS = 60;
/** Each reader fills some 10 MB of the kernel's buffers, which more readers would exhaust. */
const READERS = 12;
const HONEST = 8;
const DRIP_MS = 100;
/** Server limits, short enough to be reached often. */
const TIMEOUTS = { headersTimeoutMs: 1_500, requestTimeoutMs: 2_500, sendTimeoutMs: 1_500 };
const LIMITS = { ...TIMEOUTS, keepAliveTimeoutMs: 1_000 };
/** Milliseconds after which no resource may be left. */
const SETTLE_MS = 10_000;
/** Allowed difference of the heap in bytes: compiled code and buffers that are kept. */
const SLACK_BYTES = 4 * 1_048_576;
/** Longest response time in milliseconds. It is long, because other programs may use the machine. */
const WORST_MS = 10_000;

interface Inside extends Held {
  /** Number of handlers that have not ended. */
  readonly unfinished: number;
}

// ── the server ──

async function serve(): Promise<void> {
  let unfinished = 0;
  const block = Buffer.alloc(65_536, 'x');
  async function* endless(): AsyncGenerator<Buffer> {
    unfinished++;
    try {
      for (;;) yield block;
    } finally {
      unfinished--;
    }
  }
  const app = new Svc(LIMITS);
  app.get('/', () => 'hello');
  app.get('/wait', async ({ signal }) => {
    unfinished++;
    await once(signal, 'abort');
    unfinished--;
    return 'gone';
  });
  app.post('/bytes', async ({ req }) => {
    unfinished++;
    try {
      return { length: (await req.body({ maxBytes: 1_000_000 })).length };
    } finally {
      unfinished--;
    }
  });
  app.get('/endless', () => new StreamingResponse(endless()));
  app.get('/large', () => 'x'.repeat(4_000_000));
  const { port } = await app.run({ port: 0 });
  serving(port, async (): Promise<Inside> => ({ ...(await held()), unfinished }));
}

// ── attackers ──

const HEAD = 'Host: a\r\n';

/** Attacks by kind. Each runs until its connection has ended. The received bytes show how it ended. */
const ATTACKS: Readonly<
  Record<string, (socket: Socket, random: (below: number) => number) => Promise<void>>
> = {
  async silent() {
    /* sends nothing and stays connected */
  },
  async head(socket) {
    socket.write(`GET / HTTP/1.1\r\n${HEAD}X: `);
    await drip(socket, 'x');
  },
  async body(socket) {
    socket.write(`POST /bytes HTTP/1.1\r\n${HEAD}Content-Length: 100000\r\n\r\n`);
    await drip(socket, 'x');
  },
  async chunks(socket) {
    socket.write(`POST /bytes HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n`);
    await drip(socket, '1\r\nx\r\n');
  },
  async reader(socket, random) {
    socket.pause();
    socket.write(`GET /${random(2) === 0 ? 'endless' : 'large'} HTTP/1.1\r\n${HEAD}\r\n`);
  },
  async pipeliner(socket) {
    socket.pause();
    for (let round = 0; round < 20 && !socket.destroyed; round++) {
      socket.write(`GET /${round === 0 ? 'wait' : ''} HTTP/1.1\r\n${HEAD}\r\n`.repeat(100));
      await sleep(DRIP_MS);
    }
    socket.destroy();
  },
  async aborter(socket, random) {
    const bytes = [
      `GET /wait HTTP/1.1\r\n${HEAD}\r\n`,
      `GET /endless HTTP/1.1\r\n${HEAD}\r\n`,
      `POST /bytes HTTP/1.1\r\n${HEAD}Content-Length: 1000\r\n\r\nabc`,
      `POST /bytes HTTP/1.1\r\n${HEAD}Expect: 100-continue\r\nContent-Length: 10\r\n\r\n`,
      'RUBBISH\r\n\r\n',
    ][random(5)]!;
    await sleep(random(400)); // wait, because this test is not about a flood of connections
    socket.write(bytes.slice(0, 1 + random(2 * bytes.length)));
    await sleep(random(50));
    if (random(2) === 0) socket.resetAndDestroy();
    else socket.destroy();
  },
};

async function drip(socket: Socket, bytes: string): Promise<void> {
  while (!socket.destroyed && socket.writable) {
    socket.write(bytes);
    await sleep(DRIP_MS);
  }
}

/** Number of connections that the server has closed, by kind, and of those with a 408 response. */
const tallies = new Map<string, { ended: number; told: number }>(
  Object.keys(ATTACKS).map((kind) => [kind, { ended: 0, told: 0 }]),
);
let isOver = false;

/** Runs one attack after the other. */
async function line(kind: string, port: number, random: (below: number) => number): Promise<void> {
  const tally = tallies.get(kind)!;
  while (!isOver) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined); // closed by the server, as expected
    socket.once('data', (bytes: Buffer) => {
      if (bytes.includes(' 408 ')) tally.told++;
    });
    const closed = new Promise((resolve) => void socket.once('close', resolve));
    const stop = setInterval(() => {
      if (isOver) socket.destroy();
    }, DRIP_MS);
    await ATTACKS[kind]!(socket, random);
    if (kind === 'reader') await Promise.race([closed, sleep(LIMITS.sendTimeoutMs * 4)]);
    socket.resume(); // because a paused socket does not notice its end
    await closed;
    clearInterval(stop);
    if (!isOver) tally.ended++;
  }
}

// ── the run ──

async function main(): Promise<readonly string[]> {
  console.log(
    `slowloris: ${SECONDS} s, ${ATTACKERS} attackers of each of ${tallies.size} kinds, ${READERS} of readers, ${HONEST} honest clients`,
  );
  const server = await SoakServer.start<Inside>(import.meta.filename);
  const { port } = server;
  const settled = (): Promise<Inside> =>
    server.settled(({ sockets, unfinished }) => sockets === 0 && unfinished === 0, SETTLE_MS);
  const failures: string[] = [];
  /**
   * Returns failures about late requests. On a busy machine a client that could not send in time gets 408,
   * like a slow one.
   */
  const late = async (seconds: number): Promise<readonly string[]> => {
    isOver = false;
    const lines = Object.keys(ATTACKS).map((kind, index) =>
      together(kind === 'reader' ? READERS : ATTACKERS, (n) => line(kind, port, seeded(1_000 * index + n))),
    );
    const load = new TimedLoad(
      `http://127.0.0.1:${port}/`,
      HONEST,
      (status, body) => status === 200 && body === 'hello',
    );
    await sleep(seconds * 1_000);
    await load.stop();
    isOver = true;
    await Promise.all(lines);
    const { answered, worstMs } = load;
    const refused = load.failures.map(({ what }) => what);
    const timedOut = refused.filter((what) => what.startsWith('408 '));
    failures.push(...refused.filter((what) => !timedOut.includes(what)));
    console.log(`${answered} honest requests answered, the slowest in ${worstMs.toFixed(0)} ms`);
    return [
      ...(worstMs > WORST_MS ? [`an honest client waited ${worstMs.toFixed(0)} ms`] : []),
      ...(timedOut.length > 0 ? [`${timedOut.length} honest requests were told 408`] : []),
    ];
  };
  // warm up: compiles code and fills buffers
  failures.push(...(await confirmed(() => late(Math.max(4, SECONDS / 5)))));
  const before = await settled();
  failures.push(...(await confirmed(() => late(SECONDS))));
  const after = await settled();
  const cut = [...tallies].map(([kind, { ended, told }]) => `${kind} ${ended} (${told} with 408)`);
  console.log(`cut: ${cut.join(', ')}`);
  console.log(
    `heap ${mib(before.heapUsed)} → ${mib(after.heapUsed)}, external ${mib(before.external)} → ${mib(after.external)}`,
  );
  for (const [kind, { ended }] of tallies) if (ended === 0) failures.push(`no ${kind} was ever cut`);
  for (const kind of ['head', 'body', 'chunks'])
    if (tallies.get(kind)!.told === 0) failures.push(`no ${kind} was told 408`);
  if (after.sockets > 0 || after.unfinished > 0)
    failures.push(`left behind: ${after.sockets} sockets, ${after.unfinished} handlers`);
  if (after.heapUsed - before.heapUsed > SLACK_BYTES || after.external - before.external > SLACK_BYTES)
    failures.push('the heap has grown');
  failures.push(...(await server.terminated()));
  return failures;
}

await soak(main, serve);
