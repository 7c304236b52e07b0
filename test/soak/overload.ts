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
import { SECONDS, serving, soak, SoakServer } from '../support/soak.ts';

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

async function start(isLimited: boolean): Promise<Target> {
  const server = await SoakServer.start(import.meta.filename, [isLimited ? 'limited' : 'open']);
  const target: Target = {
    server,
    agent: new Agent({ keepAlive: true, maxSockets: 2_000, maxFreeSockets: 2_000 }),
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, () => request(target, '/healthz')));
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
  const late: string[] = [];
  const must = (isTrue: boolean, what: string): void => {
    if (!isTrue) failures.push(what);
  };
  const inTime = (isTrue: boolean, what: string): void => {
    if (!isTrue) late.push(what);
  };
  const target = await start(true);
  const before = await calm(target, SECONDS / 6);
  const perSecond = before.length / (SECONDS / 6);
  const seconds = SECONDS / 2;
  const { answers, probes } = await overload(target, FACTOR * perSecond, seconds);
  const taken = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 503);
  await sleep(1_000);
  const after = await calm(target, SECONDS / 6);
  await stop(target);
  const open = await start(false);
  const control = await overload(open, FACTOR * perSecond, CONTROL_SECONDS);
  await stop(open);
  console.log(
    `calm ${perSecond.toFixed(0)}/s; overload ${(answers.length / seconds).toFixed(0)}/s: ${(taken.length / seconds).toFixed(0)}/s answered, p99 ${percentile(taken, 0.99).toFixed(0)} ms; ` +
      `${(refused.length / seconds).toFixed(0)}/s refused, p99 ${percentile(refused, 0.99).toFixed(0)} ms; ${probes.length} probes, worst ${percentile(probes, 1).toFixed(0)} ms; ` +
      `after ${(after.length / (SECONDS / 6)).toFixed(0)}/s; without the layer p99 ${percentile(control.answers, 0.99).toFixed(0)} ms after ${CONTROL_SECONDS.toFixed(0)} s`,
  );
  must(taken.length + refused.length === answers.length, 'an overloaded server answers 200 or 503');
  must(
    probes.every(({ status }) => status === 200),
    'probes are answered with 200',
  );
  inTime(
    before.every(({ status }) => status === 200),
    'a calm server refuses nothing',
  ); // a server whose event loop stands still may refuse, so this may be repeated
  inTime(refused.length > 0, 'an overloaded server refuses something');
  inTime(taken.length / seconds >= LEAST_USE * perSecond, 'what it can do it does');
  inTime(percentile(taken, 0.99) <= ANSWER_MS, `p99 of what it takes on is at most ${ANSWER_MS} ms`);
  inTime(percentile(refused, 0.99) <= REFUSAL_MS, `p99 of refusals is at most ${REFUSAL_MS} ms`);
  inTime(
    probes.every(({ ms }) => ms <= PROBE_MS),
    `probes are answered within ${PROBE_MS} ms`,
  );
  inTime(
    after.every(({ status }) => status === 200),
    'afterwards it refuses nothing',
  );
  inTime(percentile(control.answers, 0.99) > percentile(taken, 0.99), 'without the layer answers are later');
  return late;
}

async function main(): Promise<readonly string[]> {
  const failures: string[] = [];
  failures.push(...(await confirmed(() => measured(failures))));
  return failures;
}

await soak(main, (kind) => serve(kind === 'limited'));
