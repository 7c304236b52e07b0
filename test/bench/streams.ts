/**
 * Cost of long bodies and compression: CPU of the server process, compared with node:http alone. Clients run
 * in another process, every sample is two fresh processes, the sides alternate, and the median counts.
 *
 *   long        a text of 1 MiB against res.end(text)
 *   upload      a body of 4 MiB by req.stream() against "for await (const chunk of req)"
 *   br, gzip, zstd   6 kB of JSON through CompressionMiddleware against the same call of node:zlib in a bare handler
 *
 *   npm run build && node test/bench/streams.ts [--rounds=3 --only=long,gzip]        exits 1 when a ratio is above its bound
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, createServer, request } from 'node:http';
import { parseArgs } from 'node:util';
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { alternate, cpuMicros, median, printHead, printRow } from './harness.ts';
import type { AddressInfo } from 'node:net';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    only: { type: 'string' },
    child: { type: 'string' },
    scenario: { type: 'string' },
    port: { type: 'string' },
  },
});

const REQUESTS = 3_000;
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
  upload: 1.2,
  gzip: 1.3,
  br: 1.3,
  zstd: 1.4,
};
const CODERS: Readonly<Record<string, (body: string) => Buffer>> = {
  gzip: (body) => gzipSync(body, { level: 6 }),
  br: (body) =>
    brotliCompressSync(body, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 4,
        [constants.BROTLI_PARAM_SIZE_HINT]: Buffer.byteLength(body),
      },
    }),
  zstd: (body) => zstdCompressSync(body, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }),
};
async function parent(): Promise<number> {
  const rounds = Number(values.rounds ?? 3);
  let isSlow = false;
  const title = `CPU of the server, ${process.version}, median of ${rounds} fresh processes each`;
  printHead(title, 'bare µs', 'svc µs', 'ratio', 'bound');
  for (const name of values.only?.split(',') ?? Object.keys(BOUNDS)) {
    const samples = await alternate(['bare', 'svc'], rounds, (side) => measure(side, name));
    const [bare, svc] = [median(samples.bare), median(samples.svc)];
    isSlow ||= svc / bare > BOUNDS[name]!;
    printRow(name, bare.toFixed(2), svc.toFixed(2), (svc / bare).toFixed(3), BOUNDS[name]!.toFixed(2));
  }
  return isSlow ? 1 : 0;
}

/** Returns the microseconds of CPU for a request. */
async function measure(side: string, scenario: string): Promise<number> {
  const start = (...args: string[]): ReturnType<typeof spawn> =>
    spawn(process.execPath, [import.meta.filename, `--scenario=${scenario}`, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  const server = start(`--child=${side}`);
  let output = '';
  server.stdout!.setEncoding('utf8');
  const until = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const match = pattern.exec(output);
      if (match !== null) return match[1]!;
      const [chunk] = (await Promise.race([
        once(server.stdout!, 'data'),
        once(server, 'close').then(() => {
          throw new Error(`${side} ${scenario} has ended`);
        }),
      ])) as [string];
      output += chunk;
    }
  };
  const clients = start('--child=clients', `--port=${await until(/PORT (\d+)/)}`);
  const result = Number(await until(/RESULT ([\d.]+)/));
  clients.kill();
  await once(server, 'close');
  return result;
}

/** Counts responses. Prints the cost of each response in the last two thirds. */
function counted(): () => void {
  let count = 0;
  let before: NodeJS.CpuUsage | undefined;
  return () => {
    if (++count === REQUESTS / 3) before = process.cpuUsage();
    if (count < REQUESTS) return;
    console.log(`RESULT ${cpuMicros(before) / ((REQUESTS * 2) / 3)}`);
    process.exit(0);
  };
}

async function bare(scenario: string): Promise<void> {
  const count = counted();
  const code = CODERS[scenario];
  const server = createServer(async (req, res) => {
    if (code !== undefined) {
      const body = code(JSON.stringify(PAYLOAD));
      res.writeHead(200, {
        'Content-Type': 'application/json',
        Vary: 'Accept-Encoding',
        'Content-Encoding': scenario,
        'Content-Length': body.length,
      });
      res.end(body);
    } else {
      let length = 0;
      for await (const chunk of req) length += (chunk as Buffer).length;
      const body = scenario === 'long' ? LONG : String(length);
      res.writeHead(200, {
        'Content-Type': 'text/plain; charset=utf-8',
        'Content-Length': Buffer.byteLength(body),
      });
      res.end(body);
    }
    count();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  console.log(`PORT ${(server.address() as AddressInfo).port}`);
}

async function svc(scenario: string): Promise<void> {
  const { CompressionMiddleware, Svc, createLogger } = (await import(
    new URL('../../dist/index.js', import.meta.url).href
  )) as typeof import('svc');
  const app = new Svc({ logger: createLogger({ level: 'error' }) });
  const count = counted();
  if (CODERS[scenario] !== undefined)
    app.use(new CompressionMiddleware()).get('/', () => {
      count();
      return PAYLOAD;
    });
  else if (scenario === 'long')
    app.get('/', () => {
      count();
      return LONG;
    });
  else
    app.post('/', { public: 'a benchmark' }, async ({ req }) => {
      let length = 0;
      for await (const chunk of req.stream()) length += chunk.length;
      count();
      return String(length);
    });
  const { port } = await app.run({ port: 0, handleSignals: false });
  console.log(`PORT ${port}`);
}

async function clients(port: number, scenario: string): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const body = scenario === 'upload' ? UPLOAD : undefined;
  const next = (): void => {
    const headers = {
      'Accept-Encoding': scenario,
      ...(body === undefined ? {} : { 'Content-Length': body.length }),
    };
    const sent = request(
      { port, host: '127.0.0.1', agent, method: body === undefined ? 'GET' : 'POST', headers },
      (res) => {
        if (res.statusCode !== 200) throw new Error(`${scenario}: ${res.statusCode}`);
        res.resume().on('end', next);
      },
    );
    sent.on('error', () => process.exit(0)).end(body);
  };
  for (let index = 0; index < 4; index++) next();
}

if (values.child === undefined) process.exitCode = await parent();
else if (values.child === 'clients') await clients(Number(values.port), values.scenario!);
else await (values.child === 'bare' ? bare : svc)(values.scenario!);
