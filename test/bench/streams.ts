/**
 * Cost of long bodies and compression: CPU of the server process for a request. Clients run in another
 * process.
 */
import { once } from 'node:events';
import { Agent, createServer, request } from 'node:http';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { answering, argumentsOf, ask, cpuMicros, started } from './harness.ts';
import type { Bench, Row, Worker } from './harness.ts';
import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';

const values = argumentsOf('side', 'scenario', 'port');
const REQUESTS = 250;
const LONG = 'x'.repeat(1_048_576);
const UPLOAD = Buffer.alloc(4_194_304, 'x');
const PAYLOAD = Array.from({ length: 60 }, (_, id) => ({
  id,
  name: `User ${(id * 7_919) % 1_000}`,
  email: `user${id}@example.com`,
  active: id % 3 === 0,
}));

/** Rows with the maximum CPU of svc, as a multiple of node:http. */
const SCENARIOS: Readonly<Record<string, readonly [name: string, bound: number]>> = {
  long: ['text of 1 MiB', 1.2],
  upload: ['body of 4 MiB by req.stream()', 1.2],
  gzip: ['6 kB of JSON by gzip', 1.3],
  br: ['6 kB of JSON by Brotli', 1.3],
  zstd: ['6 kB of JSON by Zstandard', 1.4],
};
const QUALITY = { [constants.BROTLI_PARAM_QUALITY]: 4 };
const CODERS: Readonly<Record<string, (body: string) => Buffer>> = {
  gzip: (body) => gzipSync(body, { level: 6 }),
  br: (body) =>
    brotliCompressSync(body, { params: { ...QUALITY, [constants.BROTLI_PARAM_SIZE_HINT]: body.length } }),
  zstd: (body) => zstdCompressSync(body, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }),
};

const rows = (): readonly Row[] =>
  Object.entries(SCENARIOS).map(([scenario, [name, bound]]) => ({
    ...{ name, unit: 'µs', base: 'bare', bound, slices: 6 },
    start: (side, root) => serverWithClients(root, { side, scenario }),
  }));

export const bench: Bench = { packages: {}, rows };

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
  else
    app.post('/', { public: 'a benchmark' }, async ({ req }) => {
      let length = 0;
      for await (const chunk of req.stream()) length += chunk.length;
      return String(length);
    });
  return (await app.run({ port: 0, handleSignals: false })).port;
}

/** Sends requests over four connections when asked. */
function clients(port: number, scenario: string): void {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const body = scenario === 'upload' ? UPLOAD : undefined;
  const headers = { 'Accept-Encoding': scenario, ...(body && { 'Content-Length': body.length }) };
  const method = body === undefined ? 'GET' : 'POST';
  const send = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const sent = request({ port, host: '127.0.0.1', agent, method, headers }, (res) => {
        if (res.statusCode !== 200) return reject(new Error(`${scenario}: ${res.statusCode}`));
        res.resume().on('end', resolve);
      });
      sent.on('error', reject).end(body);
    });
  answering(0, async () => {
    let left = REQUESTS;
    const run = async (): Promise<void> => {
      while (left-- > 0) await send();
    };
    await Promise.all([run(), run(), run(), run()]);
    return REQUESTS;
  });
}

if (!import.meta.main) {
  /* imported by all.ts */
} else if (values.side === 'clients') clients(Number(values.port), values.scenario!);
else answering(await { bare, svc }[values.side as 'bare' | 'svc'](values.scenario!), () => cpuMicros());
