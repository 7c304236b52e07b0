/**
 * Memory of 10,000 idle keep-alive connections in svc and in a plain node:http server. Each connection has
 * sent one request.
 *
 *   node --conditions=svc-source test/soak/idle-connections.ts          exits 1 when the median is above 1.05 × bare
 *
 *   SOAK_CONNECTIONS    default 10,000, or what the limit of open files allows
 *
 * Each sample is a fresh process and is printed, the two alternate, three of each. Where their medians are
 * above the bound, four more of each are taken, and the medians of all seven count: an odd sample or two
 * decide nothing. Measured is the resident memory after gc, with the connections and without; what they cost
 * is the difference. FIRST others are open before, which take the room that loading has left behind, more or
 * less of it by what was loaded. The total counts the package's own code, too, and is printed.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, openFiles, serving, soak, SoakServer } from '../support/soak.ts';
import type { AddressInfo, Socket } from 'node:net';

const ROUNDS = 3;
const MORE_ROUNDS = 4;
const BOUND = 1.05;
const LONG_MS = 3_600_000;
/** Number of other files that a process has open. */
const OTHER_FILES = 200;
const MOST_AT_ONCE = 200;
const ROOM = openFiles() - OTHER_FILES;
const FIRST = Math.min(4_000, Math.floor(ROOM / 4));
const COUNT = Math.min(Number(process.env['SOAK_CONNECTIONS'] ?? 10_000), ROOM - FIRST);
const HEAD = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

// ── the server ──

async function serve(kind: string): Promise<void> {
  let port: number;
  if (kind === 'svc') {
    // imported only by svc, so that the bare server does not load it
    const { Svc, createLogger } = await import('svc');
    const app = new Svc({ logger: createLogger({ level: 'silent' }), keepAliveTimeoutMs: LONG_MS }).get(
      '/',
      () => 'hello',
    );
    ({ port } = await app.run({ port: 0 }));
  } else {
    const server = createServer({ keepAliveTimeout: LONG_MS }, (_, response) =>
      response
        .writeHead(200, ['Content-Type', 'text/plain; charset=utf-8', 'Content-Length', '5'])
        .end('hello'),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  }
  serving(port, async () => ({ rss: await measure() }));
}

async function measure(): Promise<number> {
  for (let round = 0; round < 4; round++) {
    // return free pages, which requests have left and connections do not hold
    await globalThis.gc!({ type: 'major', execution: 'async', flavor: 'last-resort' });
    await sleep(100);
  }
  return process.memoryUsage.rss();
}

// ── the clients ──

/** Opens a connection, and waits for one response. */
function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(HEAD));
    socket.once('data', (bytes: Buffer) => {
      if (bytes.includes('HTTP/1.1 200 ')) resolve(socket);
      else reject(new Error(`Answered with: ${bytes.toString().slice(0, 80)}`));
    });
    socket.once('error', reject);
  });
}

async function sample(kind: string): Promise<{ costMb: number; totalMb: number }> {
  const server = await SoakServer.start<{ rss: number }>(import.meta.filename, [kind]);
  const { port } = server;
  try {
    const sockets: Socket[] = [];
    const openUpTo = async (count: number): Promise<void> => {
      while (sockets.length < count)
        sockets.push(
          ...(await Promise.all(
            Array.from({ length: Math.min(MOST_AT_ONCE, count - sockets.length) }, () => open(port)),
          )),
        );
    };
    await openUpTo(FIRST);
    const { rss: before } = await server.ask();
    await openUpTo(FIRST + COUNT);
    const { rss: after } = await server.ask();
    const lost = sockets.filter((socket) => socket.readableEnded || socket.destroyed).length;
    for (const socket of sockets) socket.destroy();
    if (lost > 0) throw new Error(`${lost} idle connections were closed by ${kind}`);
    return { costMb: (after - before) / 1_048_576, totalMb: after / 1_048_576 };
  } finally {
    await server.kill();
  }
}

type Samples = Readonly<Record<'bare' | 'svc', { costMb: number; totalMb: number }[]>>;
const KINDS = ['bare', 'svc'] as const;

async function take(samples: Samples, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const kind of KINDS) {
      const taken = await sample(kind);
      samples[kind].push(taken);
      console.log(
        `  ${kind.padEnd(5)} ${taken.costMb.toFixed(1)} MB for the connections, ${taken.totalMb.toFixed(1)} MB in all`,
      );
    }
  }
}

const middle = (samples: Samples, kind: keyof Samples, what: 'costMb' | 'totalMb'): number =>
  median(samples[kind].map((each) => each[what]));
const ratioOf = (samples: Samples, what: 'costMb' | 'totalMb'): number =>
  middle(samples, 'svc', what) / middle(samples, 'bare', what);

async function main(): Promise<readonly string[]> {
  console.log(
    `idle connections: ${COUNT}, medians of ${ROUNDS} fresh processes each, of ${ROUNDS + MORE_ROUNDS} where those are above the bound`,
  );
  const samples: Samples = { bare: [], svc: [] };
  await take(samples, ROUNDS);
  if (!(ratioOf(samples, 'costMb') <= BOUND)) {
    console.log(`ratio ${ratioOf(samples, 'costMb').toFixed(3)}: ${MORE_ROUNDS} more of each`);
    await take(samples, MORE_ROUNDS);
  }
  for (const kind of KINDS)
    console.log(
      `${kind.padEnd(5)} ${middle(samples, kind, 'costMb').toFixed(1)} MB for the connections, ${((middle(samples, kind, 'costMb') / COUNT) * 1_024).toFixed(2)} KB each; ${middle(samples, kind, 'totalMb').toFixed(1)} MB in all`,
    );
  const ratio = ratioOf(samples, 'costMb');
  console.log(`ratio ${ratio.toFixed(3)} (in all ${ratioOf(samples, 'totalMb').toFixed(3)}), bound ${BOUND}`);
  return ratio <= BOUND ? [] : [`idle connections cost ${ratio.toFixed(3)} × bare`];
}

await soak(main, async (kind) => serve(kind!));
