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
import { median, openFiles, openUpTo, serving, soak, SoakServer } from '../support/soak.ts';
import type { AddressInfo, Socket } from 'node:net';

const ROUNDS = 3;
const MORE_ROUNDS = 4;
const BOUND = 1.05;
const LONG_MS = 3_600_000;
/** Number of other files that a process has open. */
const OTHER_FILES = 200;
const ROOM = openFiles() - OTHER_FILES;
const FIRST = Math.min(4_000, Math.floor(ROOM / 4));
const COUNT = Math.min(Number(process.env['SOAK_CONNECTIONS'] ?? 10_000), ROOM - FIRST);
const HEAD = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

// ── the server ──

const STARTS = {
  bare: async (): Promise<{ port: number }> => {
    const fields = ['Content-Type', 'text/plain; charset=utf-8', 'Content-Length', '5'];
    const server = createServer({ keepAliveTimeout: LONG_MS }, (_, res) => {
      res.writeHead(200, fields).end('hello');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return server.address() as AddressInfo;
  },
  svc: async () => {
    // imported only by svc, so that the bare server does not load it
    const { Svc, createLogger } = await import('svc');
    const app = new Svc({ logger: createLogger({ level: 'silent' }), keepAliveTimeoutMs: LONG_MS });
    return app.get('/', () => 'hello').run({ port: 0 });
  },
};
type Kind = keyof typeof STARTS;
const KINDS = ['bare', 'svc'] as const;

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

interface Sample {
  readonly costMb: number;
  readonly totalMb: number;
}

async function sample(kind: Kind): Promise<Sample> {
  const server = await SoakServer.start<{ rss: number }>(import.meta.filename, [kind]);
  try {
    const sockets: Socket[] = [];
    const connect = (): Promise<Socket> => open(server.port);
    await openUpTo(FIRST, sockets, connect);
    const { rss: before } = await server.ask();
    await openUpTo(FIRST + COUNT, sockets, connect);
    const { rss: after } = await server.ask();
    const lost = sockets.filter((socket) => socket.readableEnded || socket.destroyed).length;
    for (const socket of sockets) socket.destroy();
    if (lost > 0) throw new Error(`${lost} idle connections were closed by ${kind}`);
    return { costMb: (after - before) / 1_048_576, totalMb: after / 1_048_576 };
  } finally {
    await server.kill();
  }
}

async function main(): Promise<readonly string[]> {
  console.log(`idle connections: ${COUNT}, medians of ${ROUNDS} fresh processes each`);
  const samples: Readonly<Record<Kind, Sample[]>> = { bare: [], svc: [] };
  const take = async (rounds: number): Promise<number> => {
    for (let round = 0; round < rounds; round++)
      for (const kind of KINDS) {
        const taken = await sample(kind);
        samples[kind].push(taken);
        print(`  ${kind}`, taken);
      }
    return middle('svc').costMb / middle('bare').costMb;
  };
  const middle = (kind: Kind): Sample => ({
    costMb: median(samples[kind].map(({ costMb }) => costMb)),
    totalMb: median(samples[kind].map(({ totalMb }) => totalMb)),
  });
  let ratio = await take(ROUNDS);
  if (!(ratio <= BOUND)) {
    console.log(`ratio ${ratio.toFixed(3)}: ${MORE_ROUNDS} more of each`);
    ratio = await take(MORE_ROUNDS);
  }
  for (const kind of KINDS) print(kind, middle(kind));
  console.log(`ratio ${ratio.toFixed(3)}, bound ${BOUND}`);
  return ratio <= BOUND ? [] : [`idle connections cost ${ratio.toFixed(3)} × bare`];
}

function print(kind: string, { costMb, totalMb }: Sample): void {
  const each = ((costMb / COUNT) * 1_024).toFixed(2);
  console.log(
    `${kind}: ${costMb.toFixed(1)} MB for the connections, ${each} KB each; ${totalMb.toFixed(1)} MB in all`,
  );
}

await soak(main, async (kind) => {
  const { port } = await STARTS[kind as Kind]();
  serving(port, async () => ({ rss: await measure() }));
});
