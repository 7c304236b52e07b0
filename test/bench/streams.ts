/**
 * Cost of long bodies and compression: CPU of the server process, compared with node:http alone. Clients run
 * in another process, every sample is two fresh processes, the sides alternate, and the median counts.
 *
 *   long        a text of 1 MiB against res.end(text)
 *   file        a file of 1 MiB against createReadStream().pipe(res)
 *   upload      a body of 4 MiB by req.stream() against "for await (const chunk of req)"
 *   br, gzip, zstd   6 kB of JSON through CompressionMiddleware against the same call of node:zlib in a bare handler
 *
 *   npm run build && node test/bench/streams.ts [--rounds=3 --only=long,gzip]        exits 1 when a ratio is above its bound
 */
import { once } from 'node:events';
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import {
  alternate,
  answering,
  argumentsOf,
  ask,
  cpuMicros,
  median,
  printHead,
  printRatios,
  started,
} from './harness.ts';
import type { AddressInfo } from 'node:net';

const values = argumentsOf('rounds', 'only', 'child', 'scenario', 'port', 'file');
const REQUESTS = 1_000;
const LONG = 'x'.repeat(1_048_576);
const UPLOAD = Buffer.alloc(4_194_304, 'x');
const PAYLOAD = Array.from({ length: 60 }, (_, id) => ({
  id,
  name: `User ${(id * 7_919) % 1_000}`,
  email: `user${id}@example.com`,
  active: id % 3 === 0,
}));

/** Maximum CPU of svc, as a multiple of the bare handler. */
const BOUNDS: Readonly<Record<string, number>> = {
  long: 1.2,
  file: 1,
  upload: 1.2,
  gzip: 1.3,
  br: 1.3,
  zstd: 1.4,
};
const QUALITY = { [constants.BROTLI_PARAM_QUALITY]: 4 };
const CODERS: Readonly<Record<string, (body: string) => Buffer>> = {
  gzip: (body) => gzipSync(body, { level: 6 }),
  br: (body) =>
    brotliCompressSync(body, { params: { ...QUALITY, [constants.BROTLI_PARAM_SIZE_HINT]: body.length } }),
  zstd: (body) => zstdCompressSync(body, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }),
};

async function parent(): Promise<void> {
  const rounds = Number(values.rounds ?? 3);
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  const file = join(folder, 'long.txt');
  writeFileSync(file, LONG);
  printHead(`CPU of the server, median of ${rounds} fresh processes each`, 'bare µs', 'svc', 'bound');
  for (const name of values.only?.split(',') ?? Object.keys(BOUNDS)) {
    const { bare: base, svc: own } = await alternate(['bare', 'svc'], rounds, (side) =>
      measure(side, name, file),
    );
    printRatios(name, median(base), [median(own) / median(base)], BOUNDS[name]!);
  }
  rmSync(folder, { recursive: true });
}

/** Returns the microseconds of CPU for a request. */
async function measure(side: string, scenario: string, file: string): Promise<number> {
  const start = (...args: string[]): ReturnType<typeof started> =>
    started(import.meta.filename, [`--scenario=${scenario}`, `--file=${file}`, ...args]);
  const { child: server, first: port } = await start(`--child=${side}`);
  const { child: clients } = await start('--child=clients', `--port=${port}`);
  try {
    await ask(clients, 'run'); // warm up
    const before = await ask(server, 'cpu');
    for (let round = 0; round < 2; round++) await ask(clients, 'run');
    return ((await ask(server, 'cpu')) - before) / (2 * REQUESTS);
  } finally {
    clients.kill('SIGKILL');
    server.kill('SIGKILL');
  }
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
    if (scenario === 'file') {
      res.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': LONG.length });
      return void createReadStream(values.file!).pipe(res);
    }
    let length = 0;
    for await (const chunk of req) length += (chunk as Buffer).length;
    const body = scenario === 'long' ? LONG : String(length);
    const fields = { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': Buffer.byteLength(body) };
    res.writeHead(200, fields).end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function svc(scenario: string): Promise<number> {
  const { CompressionMiddleware, FileResponse, Svc, createLogger } = await import('svc');
  const app = new Svc({ logger: createLogger({ level: 'error' }) });
  if (CODERS[scenario] !== undefined) app.use(new CompressionMiddleware()).get('/', () => PAYLOAD);
  else if (scenario === 'long') app.get('/', () => LONG);
  else if (scenario === 'file') app.get('/', () => new FileResponse(values.file!));
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

if (values.child === undefined) await parent();
else if (values.child === 'clients') clients(Number(values.port), values.scenario!);
else answering(await (values.child === 'bare' ? bare : svc)(values.scenario!), () => cpuMicros());
