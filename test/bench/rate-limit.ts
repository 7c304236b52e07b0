/**
 * What a rate limit costs when its memory is full: CPU per request at the bucket limit and at a tenth of it.
 *
 *   known     clients that come again and again: as many as there are buckets, or a tenth
 *   new       each request from an address never seen: takes the bucket of the one that has used the least, or a free one
 *   thrashed  known clients, twice as many as there are buckets: each request takes the bucket of another
 *   refused   one client far above its limit: the exception, the audit event once, the metric
 *
 * Requests go through in-memory streams into a real http.Server, as in http.ts beside this. Every sample is a fresh process,
 * the sides alternate, the median counts. `--handle` leaves the server out: what remains is the layer and its memory.
 *
 *   node --conditions=svc-source test/bench/rate-limit.ts [--rounds=5] [--handle]       exits 1 when a ratio is above its bound
 */
import { spawnSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { RateLimitMiddleware, Svc, createLogger } from 'svc';
import { TransportRequest } from '../../src/http/request/request.ts';
import { HttpServer } from '../../src/http/server/server.ts';
import type { Incoming } from '../../src/http/request/request.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string' }, child: { type: 'string' }, handle: { type: 'boolean' } },
});

type Side = 'tenth' | 'full';
const BUCKETS = 10_000;
const BOUND = 1.25;
const SOCKETS = 64;
/** Of the server, and of `--handle`. */
const REQUESTS = values.handle === true ? 64_000 : 12_800;
const SLICES = 8;
const REQUEST = Buffer.from('GET / HTTP/1.1\r\nHost: a.example\r\n\r\n');

function parent(): number {
  const rounds = Number(values.rounds ?? 5);
  let isSlow = false;
  console.log(
    `### ns per request with a rate limit, ${process.version}, median of ${rounds} fresh processes each\n\n| | at a tenth | at the limit | ratio | bound |\n|---|---:|---:|---:|---:|`,
  );
  for (const scenario of ['known', 'new']) {
    const samples: Record<string, number[]> = { tenth: [], full: [] };
    for (let round = 0; round < rounds; round++)
      for (const side of round % 2 === 0 ? ['tenth', 'full'] : ['full', 'tenth'])
        samples[side]!.push(measure(scenario, side));
    const [tenth, full] = [median(samples['tenth']!), median(samples['full']!)];
    isSlow ||= full / tenth > BOUND;
    console.log(
      `| ${scenario} | ${tenth.toFixed(0)} | ${full.toFixed(0)} | ${(full / tenth).toFixed(3)} | ${BOUND} |`,
    );
  }
  for (const scenario of ['without', 'thrashed', 'refused'])
    console.log(
      `| ${scenario} | | ${median(Array.from({ length: rounds }, () => measure(scenario, 'full'))).toFixed(0)} | | |`,
    );
  return isSlow && values.handle !== true ? 1 : 0;
}

function measure(scenario: string, side: string): number {
  const args = [
    '--conditions=svc-source',
    fileURLToPath(import.meta.url),
    `--child=${scenario},${side}`,
    ...(values.handle === true ? ['--handle'] : []),
  ];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  const result = /RESULT ([\d.]+)/.exec(stdout);
  if (result === null) throw new Error(`${scenario} ${side}: ${stderr}`);
  return Number(result[1]);
}

function median(samples: readonly number[]): number {
  return samples.toSorted((left, right) => left - right)[samples.length >> 1]!;
}

/** CPU nanoseconds per request: the best of several slices. */
async function child(scenario: string, side: Side): Promise<void> {
  const isRefused = scenario === 'refused';
  const app = new Svc({ logger: createLogger({ level: 'error' }) }).get('/', () => 'x');
  if (scenario !== 'without')
    app.use(
      new RateLimitMiddleware({
        perMinute: isRefused ? 1 : 1_000_000,
        maxBuckets: scenario === 'new' && side === 'tenth' ? 1_000_000 : BUCKETS,
      }),
    );
  await app.startup();
  const count = scenario === 'thrashed' ? 2 * BUCKETS : side === 'full' ? BUCKETS : BUCKETS / 10;
  const nextAddress = addresses(scenario === 'new' ? Infinity : isRefused ? 1 : count);
  const run = values.handle === true ? handling(app, nextAddress) : serving(app, nextAddress);
  await run(Math.max(REQUESTS, 2 * BUCKETS));
  let best = Infinity;
  for (let slice = 0; slice < SLICES; slice++) {
    const before = process.cpuUsage();
    await run(REQUESTS);
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, ((user + system) * 1_000) / REQUESTS);
  }
  if (/^svc_rate_limited_total\{/m.test(app.metrics.render()) !== isRefused) throw new Error('wrong answers');
  console.log(`RESULT ${best}`);
  process.exit(0);
}

/** Addresses as sockets give them, in an order that no cache foresees. */
function addresses(count: number): () => string {
  const written = (index: number): string => `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`;
  let next = 0;
  if (count === Infinity) return () => written(next++);
  const known = Array.from({ length: count }, (_, index) => written(index));
  return () => known[(next = (next + 7_919) % count)]!;
}

/** Without a server. */
function handling(app: Svc, nextAddress: () => string): (count: number) => void {
  const outgoing = Object.assign(new EventEmitter(), { writableFinished: false, destroyed: false });
  return (count) => {
    for (let index = 0; index < count; index++) {
      const incoming = {
        method: 'GET',
        url: '/',
        rawHeaders: ['Host', 'a.example'],
        socket: { remoteAddress: nextAddress() },
      } as unknown as Incoming; // no body is read
      void app.application().handle(new TransportRequest(incoming, outgoing, app.defaults));
    }
  };
}

/** A connection without a kernel below it, from another address whenever it is asked. */
class FakeSocket extends Duplex {
  bytes = 0;
  readonly #nextAddress: () => string;

  constructor(nextAddress: () => string) {
    super({ allowHalfOpen: true });
    this.#nextAddress = nextAddress;
  }

  get remoteAddress(): string {
    return this.#nextAddress();
  }

  override _read(): void {
    /* pushed into from outside */
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.bytes += chunk.length;
    done();
  }

  setTimeout(): this {
    return this;
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

/** Through node:http. */
function serving(app: Svc, nextAddress: () => string): (count: number) => Promise<void> {
  const server = new HttpServer(app.application()).node;
  const sockets = Array.from({ length: SOCKETS }, () => new FakeSocket(nextAddress));
  for (const socket of sockets) {
    server.emit('connection', socket);
    socket.resume();
  }
  return async (count) => {
    for (let sent = 0; sent < count; sent += SOCKETS) {
      const before = sockets.map((socket) => socket.bytes);
      for (const socket of sockets) socket.push(REQUEST);
      for (
        let turns = 0;
        turns < 100 && sockets.some((socket, index) => socket.bytes === before[index]);
        turns++
      )
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
    }
  };
}

if (values.child === undefined) process.exitCode = parent();
else await child(...(values.child.split(',') as [string, Side]));
