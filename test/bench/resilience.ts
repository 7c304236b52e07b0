/**
 * What the layers of resilience cost a request: CPU of the application, without a server, for a handler that is asynchronous.
 *
 *   passing   a layer that only passes on: what any layer costs
 *   timer     the same with a timer of the clock for each request
 *   timeout   TimeoutMiddleware, whose requests share one timer (src/http/deadlines.ts)
 *   others    each layer by itself; idempotency sees no key
 *
 * Every sample is a fresh process, the sides alternate, the median counts.
 *
 *   node --conditions=svc-source test/bench/resilience.ts [--rounds=5]      exits 1 when the shared timer costs more than BOUND of one each
 */
import { spawnSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  ConcurrencyLimitMiddleware,
  IdempotencyMiddleware,
  RequestIDMiddleware,
  Svc,
  TimeoutMiddleware,
  TrustedHostMiddleware,
  createLogger,
  systemClock,
} from 'svc';
import { TransportRequest } from '../../src/http/request/request.ts';
import type { Middleware, Next } from 'svc';
import type { Incoming } from '../../src/http/request/request.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string' }, child: { type: 'string' } } });

/** Of the cost of a timer each, both above that of a layer that only passes on. */
const BOUND = 0.8;
/** So many requests are under way at once. */
const BATCH = 64;
const REQUESTS = 64_000;
const SLICES = 8;

const LAYERS: Readonly<Record<string, () => readonly Middleware[]>> = {
  none: () => [],
  passing: () => [{ handle: (_req, next) => next() }],
  timer: () => [{ handle: ownTimer }],
  timeout: () => [new TimeoutMiddleware()],
  concurrency: () => [new ConcurrencyLimitMiddleware()],
  host: () => [new TrustedHostMiddleware({ hosts: ['a.example'] })],
  id: () => [new RequestIDMiddleware()],
  idempotency: () => [new IdempotencyMiddleware()],
  all: () => [
    new RequestIDMiddleware(),
    new TrustedHostMiddleware({ hosts: ['a.example'] }),
    new TimeoutMiddleware(),
    new ConcurrencyLimitMiddleware(),
    new IdempotencyMiddleware(),
  ],
};

function ownTimer(_req: unknown, next: Next): ReturnType<Next> {
  const answer = next();
  if (!(answer instanceof Promise)) return answer;
  return new Promise((resolve, reject) => {
    const timer = systemClock.after(30_000, () => reject(new Error('late')));
    void answer.then((response) => {
      timer[Symbol.dispose]();
      resolve(response);
    });
  });
}

function parent(): number {
  const rounds = Number(values.rounds ?? 5);
  const samples = new Map(Object.keys(LAYERS).map((name) => [name, [] as number[]]));
  for (let round = 0; round < rounds; round++) {
    const names = [...samples.keys()];
    for (const name of round % 2 === 0 ? names : names.reverse()) samples.get(name)!.push(measure(name));
  }
  const medianOf = (name: string): number =>
    samples.get(name)!.toSorted((left, right) => left - right)[rounds >> 1]!;
  console.log(
    `### ns per request, ${process.version}, median of ${rounds} fresh processes each\n\n| layers | ns | above none |\n|---|---:|---:|`,
  );
  for (const name of samples.keys())
    console.log(
      `| ${name} | ${medianOf(name).toFixed(0)} | ${(medianOf(name) - medianOf('none')).toFixed(0)} |`,
    );
  const ratio = (medianOf('timeout') - medianOf('passing')) / (medianOf('timer') - medianOf('passing'));
  console.log(
    `\nshared timer / timer each, above a layer that passes on: ${ratio.toFixed(2)}, bound ${BOUND}`,
  );
  return ratio > BOUND ? 1 : 0;
}

function measure(name: string): number {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--conditions=svc-source', fileURLToPath(import.meta.url), `--child=${name}`],
    { encoding: 'utf8' },
  );
  const result = /RESULT ([\d.]+)/.exec(stdout);
  if (result === null) throw new Error(`${name}: ${stderr}`);
  return Number(result[1]);
}

/** CPU nanoseconds per request: the best of several slices. */
async function child(name: string): Promise<void> {
  const app = new Svc({ logger: createLogger({ level: 'error' }) }).post(
    '/',
    { public: true },
    async () => 'x',
  );
  for (const layer of LAYERS[name]!()) app.use(layer);
  await app.startup();
  await run(app, REQUESTS);
  let best = Infinity;
  for (let slice = 0; slice < SLICES; slice++) {
    const before = process.cpuUsage();
    await run(app, REQUESTS);
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, ((user + system) * 1_000) / REQUESTS);
  }
  console.log(`RESULT ${best}`);
  process.exit(0);
}

async function run(app: Svc, count: number): Promise<void> {
  const outgoing = Object.assign(new EventEmitter(), { writableFinished: false, destroyed: false });
  for (let sent = 0; sent < count; sent += BATCH) {
    const answers = Array.from({ length: BATCH }, () => {
      const incoming = {
        method: 'POST',
        url: '/',
        rawHeaders: ['Host', 'a.example', 'Accept', '*/*', 'User-Agent', 'bench'],
        socket: { remoteAddress: '192.0.2.1' },
      } as unknown as Incoming; // no body is read
      return app.application().handle(new TransportRequest(incoming, outgoing, app.defaults));
    });
    for (const answer of answers) if ((await answer).status !== 200) throw new Error('wrong answers');
  }
}

if (values.child === undefined) process.exitCode = parent();
else await child(values.child);
