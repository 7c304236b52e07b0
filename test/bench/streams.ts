/**
 * Cost of long bodies, files and compression: CPU of the server process for a request. Clients run in another
 * process.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { answering, argumentsOf, ask, cpuMicros, started } from './harness.ts';
import type { Bench, Row, Worker } from './harness.ts';
import type { AddressInfo } from 'node:net';
import type { IncomingMessage, RequestListener, Server } from 'node:http';

const values = argumentsOf('side', 'scenario', 'port', 'folder', 'peers');
const REQUESTS = 250;
const LONG = 'x'.repeat(1_048_576);
const UPLOAD = Buffer.alloc(4_194_304, 'x');
const PAYLOAD = Array.from({ length: 60 }, (_, id) => ({
  id,
  name: `User ${(id * 7_919) % 1_000}`,
  email: `user${id}@example.com`,
  active: id % 3 === 0,
}));

interface Scenario {
  readonly name: string;
  /** Maximum CPU of svc, as a multiple of `base`. */
  readonly bound: number;
  /** Default: `bare`. */
  readonly base?: 'bare' | 'sirv';
}
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  long: { name: 'text of 1 MiB', bound: 1.2 },
  upload: { name: 'body of 4 MiB by req.stream()', bound: 1.2 },
  gzip: { name: '6 kB of JSON by gzip', bound: 1.3 },
  br: { name: '6 kB of JSON by Brotli', bound: 1.3 },
  zstd: { name: '6 kB of JSON by Zstandard', bound: 1.4 },
  'long.txt': { name: 'file of 1 MiB', bound: 1 / 1.1, base: 'sirv' },
  'short.txt': { name: 'file of 1 KiB', bound: 1 / 3.3, base: 'sirv' },
  'same.txt': { name: 'file that the client has', bound: 1 / 0.9, base: 'sirv' },
};
const QUALITY = { [constants.BROTLI_PARAM_QUALITY]: 4 };
const CODERS: Readonly<Record<string, (body: string) => Buffer>> = {
  gzip: (body) => gzipSync(body, { level: 6 }),
  br: (body) =>
    brotliCompressSync(body, { params: { ...QUALITY, [constants.BROTLI_PARAM_SIZE_HINT]: body.length } }),
  zstd: (body) => zstdCompressSync(body, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }),
};

const folder = values.folder ?? mkdtempSync(join(tmpdir(), 'svc-bench-'));

function rows(peers: string | undefined): readonly Row[] {
  for (const [name, bytes] of Object.entries({
    'long.txt': LONG.length,
    'short.txt': 1_024,
    'same.txt': 1_024,
  }))
    writeFileSync(join(folder, name), LONG.slice(0, bytes));
  return Object.entries(SCENARIOS)
    .filter(([, { base }]) => base !== 'sirv' || peers)
    .map(([scenario, { name, bound, base = 'bare' }]) => ({
      ...{ name, unit: 'µs', base, bound, slices: 6 },
      start: (side, root) => serverWithClients(root, { side, scenario, folder, peers }),
    }));
}

export const bench: Bench = {
  packages: { sirv: '^3' },
  rows,
  close: () => rmSync(folder, { recursive: true }),
};

/** Starts a server and its clients. A slice costs microseconds of the server's CPU for a request. */
async function serverWithClients(root: string, given: Readonly<Record<string, unknown>>): Promise<Worker> {
  const file = join(root, 'test/bench/streams.ts');
  const { child: server, first: port } = await started(file, given);
  const { child: clients } = await started(file, { ...given, side: 'clients', port });
  for (let round = 0; round < 4; round++) await ask(clients, 'run'); // warm up
  return {
    async slice() {
      const before = await ask(server, 'cpu');
      return (await ask(clients, 'run')) && ((await ask(server, 'cpu')) - before) / REQUESTS;
    },
    stop() {
      clients.kill('SIGKILL');
      server.kill('SIGKILL');
    },
  };
}

/** Serves the folder by sirv, which looks at each file once. */
async function sirv(): Promise<number> {
  const { default: handlerOf } = (await import(join(values.peers!, 'node_modules/sirv/build.mjs'))) as {
    default: (folder: string, options: object) => RequestListener;
  };
  return portOf(createServer(handlerOf(folder, { etag: true })));
}

async function portOf(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

async function bare(scenario: string): Promise<number> {
  const code = CODERS[scenario];
  const server = createServer(async (req, res) => {
    if (code !== undefined) {
      const body = code(JSON.stringify(PAYLOAD));
      const fields = { Vary: 'Accept-Encoding', 'Content-Encoding': scenario, 'Content-Length': body.length };
      res.writeHead(200, { 'Content-Type': 'application/json', ...fields });
      return void res.end(body);
    }
    let length = 0;
    for await (const chunk of req) length += (chunk as Buffer).length;
    const body = scenario === 'long' ? LONG : String(length);
    const fields = { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': Buffer.byteLength(body) };
    res.writeHead(200, fields).end(body);
  });
  return portOf(server);
}

async function svc(scenario: string): Promise<number> {
  const { CompressionMiddleware, Svc, createLogger } = await import('svc');
  const app = new Svc({ logger: createLogger({ level: 'error' }) });
  if (CODERS[scenario] !== undefined) app.use(new CompressionMiddleware()).get('/', () => PAYLOAD);
  else if (scenario === 'long') app.get('/', () => LONG);
  else if (scenario.endsWith('.txt')) app.mountStatic('/', folder);
  else
    app.post('/', { public: 'a benchmark' }, async ({ req }) => {
      let length = 0;
      for await (const chunk of req.stream()) length += chunk.length;
      return String(length);
    });
  return (await app.run({ port: 0, handleSignals: false })).port;
}

/** Sends requests over four connections when asked. */
async function clients(port: number, scenario: string): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const body = scenario === 'upload' ? UPLOAD : undefined;
  const path = scenario.endsWith('.txt') ? `/${scenario}` : '/';
  const headers: Record<string, string | number> = { 'Accept-Encoding': scenario };
  if (body !== undefined) headers['Content-Length'] = body.length;
  const method = body === undefined ? 'GET' : 'POST';
  const send = (status: number): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const sent = request({ port, host: '127.0.0.1', path, agent, method, headers }, (res) => {
        if (res.statusCode !== status) return reject(new Error(`${scenario}: ${res.statusCode}`));
        res.resume().on('end', () => resolve(res));
      });
      sent.on('error', reject).end(body);
    });
  const isSame = scenario === 'same.txt';
  if (isSame) headers['If-None-Match'] = (await send(200)).headers.etag!;
  answering(0, async () => {
    let left = REQUESTS;
    const run = async (): Promise<void> => {
      while (left-- > 0) await send(isSame ? 304 : 200);
    };
    await Promise.all([run(), run(), run(), run()]);
    return REQUESTS;
  });
}

if (!import.meta.main) {
  /* imported by all.ts */
} else if (values.side === 'clients') await clients(Number(values.port), values.scenario!);
else {
  const serve = { bare, svc, sirv }[values.side as 'bare' | 'svc' | 'sirv'];
  answering(await serve(values.scenario!), () => cpuMicros());
}
