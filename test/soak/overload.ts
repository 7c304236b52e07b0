/**
 * Three times as many requests as a server can handle, for half of the time: accepted requests are answered
 * in time, the others are refused at once, probes are always answered, and afterwards the server is as
 * before.
 *
 *   node --conditions=svc-source test/soak/overload.ts          SOAK_SECONDS in all, default 60
 *
 *   calm        one request after another: the capacity of the server
 *   overload    requests at a fixed rate, whether earlier ones are answered or not
 *   after       one request after another again
 *
 * The connections exist before, like those of a proxy: node:http accepts one a turn of its event loop, and
 * cannot refuse waiting ones. With a new connection for each request later ones, and probes, would wait for
 * seconds in the kernel's queue, before any layer sees them.
 *
 * Each request keeps the server busy for WORK_MS, so that the event loop is late. Without the layer the same
 * overload delays each response more than the one before: CONTROL_SECONDS of it run for comparison, and must
 * be later. A late result is measured again, and counts only if it is late twice.
 */
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConcurrencyLimitMiddleware, Svc, createLogger } from 'svc';
import { confirmed } from '../support/confirmed.ts';
import { SECONDS, serving, soak, SoakServer, together } from '../support/soak.ts';

const CONTROL_SECONDS = Math.max(2, SECONDS / 6);
const WORK_MS = 4;
const FACTOR = 3;
const CONNECTIONS = 1_500;
/** Bounds, wide enough for a busy machine. */
const ANSWER_MS = 2_000;
const REFUSAL_MS = 2_000;
const PROBE_MS = 2_000;
const LEAST_USE = 0.25;

async function serve(isLimited: boolean): Promise<void> {
  const app = new Svc({ logger: createLogger({ level: 'error' }), keepAliveTimeoutMs: 120_000 });
  if (isLimited) app.use(new ConcurrencyLimitMiddleware({ max: 25, maxEventLoopDelayMs: 100 }));
  app.get('/', async () => {
    await new Promise((resolve) => setImmediate(resolve));
    for (const until = performance.now() + WORK_MS; performance.now() < until;);
    return 'x';
  });
  const { port } = await app.run({ port: 0 });
  serving(port, () => ({}));
}

interface Answer {
  readonly status: number;
  readonly ms: number;
}

/** Port of the server, and the agent that keeps its connections. */
interface Target {
  readonly server: SoakServer<object>;
  readonly agent: Agent;
}

async function start(kind: 'limited' | 'open'): Promise<Target> {
  const server = await SoakServer.start(import.meta.filename, [kind]);
  const target = { server, agent: new Agent({ keepAlive: true, maxSockets: 2_000, maxFreeSockets: 2_000 }) };
  await together(CONNECTIONS, () => request(target, '/healthz'));
  return target;
}

/**
 * Sends a request. Repeats it, as a normal client does, if an idle connection was closed just when it was
 * used.
 */
function request(target: Target, path = '/', startedMs = performance.now()): Promise<Answer> {
  const { server, agent } = target;
  return new Promise((resolve, reject) => {
    const sent = get({ port: server.port, path, agent }, (response) => {
      response
        .resume()
        .on('end', () => resolve({ status: response.statusCode!, ms: performance.now() - startedMs }))
        .on('error', reject);
    });
    sent.on('error', (error: NodeJS.ErrnoException) => {
      if (sent.reusedSocket && error.code === 'ECONNRESET') resolve(request(target, path, startedMs));
      else reject(error);
    });
  });
}

/** Sends one request after the other. */
async function calm(target: Target, seconds: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const until = performance.now() + seconds * 1_000; performance.now() < until;)
    answers.push(await request(target));
  return answers;
}

async function overload(
  target: Target,
  perSecond: number,
  seconds: number,
): Promise<{ answers: Answer[]; probes: Answer[] }> {
  const [answers, probes]: [Promise<Answer>[], Promise<Answer>[]] = [[], []];
  const startedMs = performance.now();
  let probeMs = 0;
  for (let ms = 0; ms < seconds * 1_000; ms = performance.now() - startedMs) {
    while (answers.length < (ms / 1_000) * perSecond) answers.push(request(target));
    if (ms >= probeMs) {
      probes.push(request(target, '/healthz'));
      probeMs += 250;
    }
    await sleep(2);
  }
  return { answers: await Promise.all(answers), probes: await Promise.all(probes) };
}

function percentile(answers: readonly Answer[], part: number): number {
  const sorted = answers.map(({ ms }) => ms).toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}

async function stop({ server, agent }: Target): Promise<void> {
  agent.destroy();
  await server.kill();
}

/** Runs the phases. Appends violated invariants to `failures`; returns failures about late responses. */
async function measured(failures: string[]): Promise<readonly string[]> {
  const target = await start('limited');
  const before = await calm(target, SECONDS / 6);
  const perSecond = before.length / (SECONDS / 6);
  const seconds = SECONDS / 2;
  const { answers, probes } = await overload(target, FACTOR * perSecond, seconds);
  const taken = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 503);
  await sleep(1_000);
  const after = await calm(target, SECONDS / 6);
  await stop(target);
  const open = await start('open');
  const control = await overload(open, FACTOR * perSecond, CONTROL_SECONDS);
  await stop(open);
  const p99 = (of: readonly Answer[]): number => percentile(of, 0.99);
  const rate = (of: readonly Answer[], time = seconds): string => `${(of.length / time).toFixed(0)}/s`;
  console.log(
    `calm ${rate(before, SECONDS / 6)}; overload ${rate(answers)}: ${rate(taken)} answered, p99 ${p99(taken).toFixed(0)} ms; ` +
      `${rate(refused)} refused, p99 ${p99(refused).toFixed(0)} ms; ${probes.length} probes, worst ${percentile(probes, 1).toFixed(0)} ms; ` +
      `after ${rate(after, SECONDS / 6)}; without the layer p99 ${p99(control.answers).toFixed(0)} ms after ${CONTROL_SECONDS.toFixed(0)} s`,
  );
  const isServed = ({ status }: Answer): boolean => status === 200;
  failures.push(
    ...unmet({
      'an overloaded server answers 200 or 503': taken.length + refused.length === answers.length,
      'probes are answered with 200': probes.every(isServed),
    }),
  );
  return unmet({
    // a server whose event loop stands still may refuse, so this may be repeated
    'a calm server refuses nothing': before.every(isServed),
    'an overloaded server refuses something': refused.length > 0,
    'what it can do it does': taken.length / seconds >= LEAST_USE * perSecond,
    [`p99 of what it takes on is at most ${ANSWER_MS} ms`]: p99(taken) <= ANSWER_MS,
    [`p99 of refusals is at most ${REFUSAL_MS} ms`]: p99(refused) <= REFUSAL_MS,
    [`probes are answered within ${PROBE_MS} ms`]: probes.every(({ ms }) => ms <= PROBE_MS),
    'afterwards it refuses nothing': after.every(isServed),
    'without the layer answers are later': p99(control.answers) > p99(taken),
  });
}

function unmet(conditions: Readonly<Record<string, boolean>>): string[] {
  return Object.keys(conditions).filter((what) => !conditions[what]);
}

async function main(): Promise<readonly string[]> {
  const failures: string[] = [];
  const late = await confirmed(() => measured(failures));
  return [...failures, ...late];
}

await soak(main, (kind) => serve(kind === 'limited'));
