/**
 * Memory of 10,000 idle keep-alive connections in svc and in a plain node:http server. Each connection has
 * sent one request.
 *
 *   node --conditions=svc-source test/soak/idle-connections.ts          exits 1 when one of the bounds is exceeded
 *
 *   SOAK_CONNECTIONS    default 10,000, or what the limit of open files allows
 *
 * Each sample is a fresh process and is printed, the two alternate, three of each. Measured is memory after gc,
 * with the connections and without; what they cost is the difference. FIRST others are open before, which take
 * the room that loading has left behind.
 *
 * The heap of V8 decides: it is exact to 30 bytes for each connection, and what svc keeps is on it. The resident
 * memory differs by 5 % between processes of one kind, because allocators keep free pages. Its bound is wider,
 * and finds what svc would keep outside the heap.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, openFiles, openUpTo, serving, soak, SoakServer } from '../support/soak.ts';
import type { AddressInfo, Socket } from 'node:net';

const ROUNDS = 3;
/** Most that a connection costs, times bare, where svc and bare need the same memory outside the heap. */
const BOUND = 1.05;
/** Most resident memory that a connection costs, times bare. */
const RESIDENT_BOUND = 1.1;
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

interface Memory {
  readonly heap: number;
  readonly rss: number;
}

async function measure(): Promise<Memory> {
  for (let round = 0; round < 4; round++) {
    // return free pages, which requests have left and connections do not hold
    await globalThis.gc!({ type: 'major', execution: 'async', flavor: 'last-resort' });
    await sleep(100);
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss };
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

/** Returns the memory in bytes that one connection costs. */
async function sample(kind: Kind): Promise<Memory> {
  const server = await SoakServer.start<Memory>(import.meta.filename, [kind]);
  try {
    const sockets: Socket[] = [];
    const connect = (): Promise<Socket> => open(server.port);
    await openUpTo(FIRST, sockets, connect);
    const before = await server.ask();
    await openUpTo(FIRST + COUNT, sockets, connect);
    const after = await server.ask();
    const lost = sockets.filter((socket) => socket.readableEnded || socket.destroyed).length;
    for (const socket of sockets) socket.destroy();
    if (lost > 0) throw new Error(`${lost} idle connections were closed by ${kind}`);
    return { heap: (after.heap - before.heap) / COUNT, rss: (after.rss - before.rss) / COUNT };
  } finally {
    await server.kill();
  }
}

async function main(): Promise<readonly string[]> {
  console.log(`idle connections: ${COUNT}, medians of ${ROUNDS} fresh processes each; bytes per connection`);
  const samples: Readonly<Record<Kind, Memory[]>> = { bare: [], svc: [] };
  for (let round = 0; round < ROUNDS; round++)
    for (const kind of KINDS) {
      const taken = await sample(kind);
      samples[kind].push(taken);
      print(`  ${kind}`, taken);
    }
  const middle = (kind: Kind): Memory => ({
    heap: median(samples[kind].map(({ heap }) => heap)),
    rss: median(samples[kind].map(({ rss }) => rss)),
  });
  const [bare, svc] = [middle('bare'), middle('svc')];
  print('bare', bare);
  print('svc', svc);
  return [
    ...judge('by the heap', 1 + (svc.heap - bare.heap) / bare.rss, BOUND),
    ...judge('by resident memory', svc.rss / bare.rss, RESIDENT_BOUND),
  ];
}

function judge(what: string, ratio: number, bound: number): readonly string[] {
  console.log(`${what}: ratio ${ratio.toFixed(3)}, bound ${bound}`);
  return ratio <= bound ? [] : [`idle connections cost ${ratio.toFixed(3)} × bare ${what}`];
}

function print(kind: string, { heap, rss }: Memory): void {
  console.log(`${kind}: heap ${heap.toFixed(0)}, resident ${rss.toFixed(0)}`);
}

await soak(main, async (kind) => {
  const { port } = await STARTS[kind as Kind]();
  serving(port, measure);
});
