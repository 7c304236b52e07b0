/**
 * What streams and compression cost: CPU of the server's process, beside bare node:http in the same words. Clients are in a
 * process of their own, every sample is two fresh processes, the sides alternate, the median counts.
 *
 *   broadcast   one event to 1,000 streams by EventBroadcast against res.write(string)                 ≥ 0.95 × as fast
 *   source      an event of an async generator for each of 1,000 streams against the same res.write    for comparison
 *   long        a text of 1 MiB against res.end(text)
 *   upload      a body of 4 MiB by req.stream() against "for await (const chunk of req)"
 *   br, gzip, zstd   6 kB of JSON through CompressionMiddleware against the same call of node:zlib in a bare handler
 *
 *   npm run build && node test/bench/streams.ts [--rounds=3 --only=broadcast,gzip]        exits 1 when a ratio is above its bound
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, createServer, request } from 'node:http';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import type { ServerResponse } from 'node:http';
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

const STREAMS = 1_000;
const EVENTS = 60;
const REQUESTS = 3_000;
const PAUSE_MS = 20;
const LONG = 'x'.repeat(1_048_576);
const UPLOAD = Buffer.alloc(4_194_304, 'x');
const EVENT = { event: 'price', id: '1234', data: { tea: 3, coffee: 4, at: '2026-11-20T12:00:00Z' } };
const TEXT = `event: price\nid: 1234\ndata: ${JSON.stringify(EVENT.data)}\n\n`;
const PAYLOAD = Array.from({ length: 60 }, (_, id) => ({
  id,
  name: `User ${(id * 7_919) % 1_000}`,
  email: `user${id}@example.com`,
  active: id % 3 === 0,
}));

/** The most CPU that svc may take, as a multiple of the bare handler. */
const BOUNDS: Readonly<Record<string, number>> = {
  broadcast: 1 / 0.95,
  source: 2.5,
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
/** The scenarios of streams without an end; the others are requests. */
const EVENTFUL: ReadonlySet<string> = new Set(['broadcast', 'source']);
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

async function parent(): Promise<number> {
  const rounds = Number(values.rounds ?? 3);
  let isSlow = false;
  console.log(
    `### CPU of the server, ${process.version}, median of ${rounds} fresh processes each\n\n| | bare µs | svc µs | ratio | bound |\n|---|---:|---:|---:|---:|`,
  );
  for (const name of values.only?.split(',') ?? Object.keys(BOUNDS)) {
    const samples: Record<'bare' | 'svc', number[]> = { bare: [], svc: [] };
    for (let round = 0; round < rounds; round++)
      for (const side of round % 2 === 0 ? (['bare', 'svc'] as const) : (['svc', 'bare'] as const))
        samples[side].push(await measure(side, name));
    const [bare, svc] = [median(samples.bare), median(samples.svc)];
    isSlow ||= svc / bare > BOUNDS[name]!;
    console.log(
      `| ${name} | ${bare.toFixed(2)} | ${svc.toFixed(2)} | ${(svc / bare).toFixed(3)} | ${BOUNDS[name]!.toFixed(2)} |`,
    );
  }
  return isSlow ? 1 : 0;
}

function median(samples: readonly number[]): number {
  return samples.toSorted((left, right) => left - right)[samples.length >> 1]!;
}

/** Microseconds of CPU for an event of one stream, or for a request. */
async function measure(side: string, scenario: string): Promise<number> {
  const start = (...args: string[]): ReturnType<typeof spawn> =>
    spawn(process.execPath, [fileURLToPath(import.meta.url), `--scenario=${scenario}`, ...args], {
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

/** Prints what `times` of something have cost. */
function report(before: NodeJS.CpuUsage, times: number): void {
  const { user, system } = process.cpuUsage(before);
  console.log(`RESULT ${(user + system) / times}`);
  process.exit(0);
}

/** Sends events to all streams, once all are there. */
async function sendAll(hasAll: () => boolean, send: () => void): Promise<void> {
  while (!hasAll()) await pause();
  for (let event = 0; event < 10; event++) {
    send();
    await pause();
  }
  const before = process.cpuUsage();
  for (let event = 0; event < EVENTS; event++) {
    send();
    await pause();
  }
  report(before, EVENTS * STREAMS);
}

function counted(): () => void {
  let count = 0;
  let before: NodeJS.CpuUsage | undefined;
  return () => {
    if (++count === REQUESTS / 3) before = process.cpuUsage();
    if (count === REQUESTS) report(before!, (REQUESTS * 2) / 3);
  };
}

async function bare(scenario: string): Promise<void> {
  const streams: ServerResponse[] = [];
  const count = counted();
  const code = CODERS[scenario];
  const server = createServer(async (req, res) => {
    if (EVENTFUL.has(scenario)) {
      res.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-store, no-transform',
        'X-Accel-Buffering': 'no',
      });
      res.write(':\n\n');
      streams.push(res);
      return;
    }
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
  if (EVENTFUL.has(scenario))
    await sendAll(
      () => streams.length === STREAMS,
      () => {
        for (const res of streams) res.write(TEXT);
      },
    );
}

async function svc(scenario: string): Promise<void> {
  const { CompressionMiddleware, EventBroadcast, EventStreamResponse, Svc, createLogger } = (await import(
    new URL('../../dist/index.js', import.meta.url).href
  )) as typeof import('svc');
  const app = new Svc({ logger: createLogger({ level: 'error' }) });
  const news = new EventBroadcast();
  const count = counted();
  let opened = 0;
  let wake = Promise.withResolvers<void>();
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
  else if (scenario === 'upload') {
    app.post('/', { public: 'a benchmark' }, async ({ req }) => {
      let length = 0;
      for await (const chunk of req.stream()) length += chunk.length;
      count();
      return String(length);
    });
  } else if (scenario === 'broadcast') app.get('/', () => news.stream());
  else
    app.get(
      '/',
      () =>
        new EventStreamResponse(
          (async function* () {
            opened++;
            for (;;) {
              await wake.promise;
              yield EVENT;
            }
          })(),
        ),
    );
  const { port } = await app.run({ port: 0, handleSignals: false });
  console.log(`PORT ${port}`);
  if (scenario === 'broadcast')
    await sendAll(
      () => news.size === STREAMS,
      () => {
        news.send(EVENT);
      },
    );
  if (scenario === 'source')
    await sendAll(
      () => opened === STREAMS,
      () => {
        const { resolve } = wake;
        wake = Promise.withResolvers();
        resolve();
      },
    );
}

async function clients(port: number, scenario: string): Promise<void> {
  if (EVENTFUL.has(scenario)) {
    for (let index = 0; index < STREAMS; index++) {
      const socket = connect(port, '127.0.0.1')
        .on('error', () => process.exit(0))
        .resume();
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
      if (index % 50 === 0) await pause();
    }
    return;
  }
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
