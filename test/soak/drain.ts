/**
 * SIGTERM under load, 20 times, each on a new server: accepted requests get their responses, and the process
 * exits after the last.
 *
 *   node --conditions=svc-source test/soak/drain.ts
 *
 *   SOAK_SECONDS    starts no further round after so long; default 60
 *   SOAK_SEED       repeats what each connection sends; default from the time, and printed
 *
 * A request is accepted when the application has printed its id. Asserted in each round: each accepted
 * request gets its whole response; every response after the signal has `Connection: close`, or is followed by
 * one that has, over the same connection; the port closes; every dependency is left and every background task
 * has run; connections without a whole request delay nothing; the process exits with 0, at
 * most a second after the last response (a connection kept open would delay it longer). A stalled machine
 * delays it, too: a round that was late, by less than such a connection, is repeated, and must be in time
 * then.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { BackgroundTasks, Depends, StreamingResponse, Svc } from 'svc';
import { ignore } from '../../src/base/promises.ts';
import { confirmed } from '../support/confirmed.ts';
import { seeded } from '../support/random.ts';
import { RawClient } from '../support/raw-http.ts';
import { SECONDS, SEED, soak, together } from '../support/soak.ts';
import type { ChildProcess } from 'node:child_process';
import type { RawAnswer } from '../support/raw-http.ts';

const ROUNDS = 20;
const CONNECTIONS = 24;
/** Earliest and latest time of the signal after the load has begun, in milliseconds. */
const EARLIEST_MS = 100;
const LATEST_MS = 400;
/** Longest time from the last response to the end of the process; HANG_MS: from the signal. */
const END_MS = 1_000;
const KEPT_OPEN_MS = 4_000;
const HANG_MS = 20_000;

// ── the server ──

async function serve(): Promise<void> {
  const counts = { entered: 0, left: 0, tasksAdded: 0, tasksRun: 0 };
  let isEnding = false;
  async function* unit(): AsyncGenerator<number> {
    counts.entered++;
    try {
      yield counts.entered;
    } finally {
      await sleep(5);
      counts.left++;
    }
  }
  async function* lines(count: number): AsyncGenerator<string> {
    for (let n = 0; n < count; n++) {
      yield `line ${n}\n`;
      await sleep(5);
    }
  }
  const app = new Svc({ title: 'Drain' });
  app.use(async (req, next) => {
    writeSync(1, `${req.id}\n`);
    const response = await next();
    response.headers.set('X-Ending', String(isEnding));
    return response;
  });
  app.get('/', () => 'hello');
  app.get('/slow/{ms:int}', { unit: Depends(unit) }, async ({ params }) => {
    await sleep(params.ms);
    return 'at last';
  });
  app.get('/task', { unit: Depends(unit), tasks: Depends(BackgroundTasks) }, ({ tasks }) => {
    counts.tasksAdded++;
    tasks.add(async () => {
      await sleep(20);
      counts.tasksRun++;
    });
    return 'later';
  });
  app.post('/bytes', { unit: Depends(unit) }, async ({ req }) => ({ length: (await req.body()).length }));
  app.get('/stream/{n:int}', { unit: Depends(unit) }, ({ params }) => new StreamingResponse(lines(params.n)));
  process.on('SIGTERM', () => {
    isEnding = true;
  }); // before run() adds its own listener
  process.on('exit', () => writeSync(1, `end ${JSON.stringify(counts)}\n`));
  setTimeout(() => process.exit(9), 120_000).unref(); // end the process if the parent process has died
  const { port } = await app.run({ port: 0 });
  writeSync(1, `port ${port}\n`);
}

// ── a round ──

interface Judged {
  readonly errors: readonly string[];
  /** Number of requests that the application has accepted, and of those answered after the signal. */
  readonly accepted: number;
  readonly ending: number;
  /** Time from the last response to the end of the process. */
  readonly lingeredMs: number;
}

class Round {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown[]>;
  readonly #random: (below: number) => number;
  readonly #accepted = new Set<string>();
  readonly #answers = new Map<string, RawAnswer>();
  #answeredMs = 0;
  readonly #errors: string[] = [];
  #port = 0;
  #counts: Partial<Record<'entered' | 'left' | 'tasksAdded' | 'tasksRun', number>> = {};
  #sent = 0;

  constructor(seed: number) {
    this.#random = seeded(seed);
    this.#child = spawn(process.execPath, ['--conditions=svc-source', import.meta.filename, 'serve'], {
      env: { ...process.env, SVC_SHUTDOWN_DELAY_SECONDS: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#exited = once(this.#child, 'close');
    createInterface({ input: this.#child.stderr! }).on('line', (text) => {
      if (!/"level":"info"/.test(text)) this.#errors.push(`printed by the server: ${text}`);
    });
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Runs a round until the process has ended. Returns failures and figures. */
  async run(): Promise<Judged> {
    await this.#listening();
    const silent = [
      await RawClient.open(this.#port),
      (await RawClient.open(this.#port)).send('GET / HTTP/1.1\r\nHo'),
    ];
    const lines = together(CONNECTIONS, () => this.#line());
    await sleep(EARLIEST_MS + this.#random(LATEST_MS - EARLIEST_MS));
    this.#child.kill('SIGTERM');
    const hang = setTimeout(() => {
      this.#errors.push(`the process had not ended ${HANG_MS} ms after SIGTERM`);
      this.kill();
    }, HANG_MS);
    await lines;
    const [status, signal] = await this.#exited;
    const endedMs = performance.now();
    clearTimeout(hang);
    for (const client of silent) await client[Symbol.asyncDispose]();
    if (status !== 0) this.#errors.push(`the process ended with ${String(status ?? signal)}`);
    return this.#judge(endedMs);
  }

  async #listening(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    createInterface({ input: this.#child.stdout! }).on('line', (text) => {
      if (text.startsWith('port ')) {
        this.#port = Number(text.slice(5));
        resolve();
      } else if (text.startsWith('end ')) this.#counts = JSON.parse(text.slice(4)) as Record<string, number>;
      else this.#accepted.add(text);
    });
    void this.#exited.then(() => reject(new Error(`The server did not start:\n${this.#errors.join('\n')}`)));
    await promise;
  }

  /** Sends requests over one connection until the server closes it. */
  async #line(): Promise<void> {
    const client = await RawClient.open(this.#port);
    try {
      for (;;) {
        const answers = await this.#ask(client);
        const last = answers.at(-1)!;
        if (last.field('connection') === 'close') break;
        if (last.field('x-ending') === 'true')
          this.#errors.push(`${last.field('x-request-id')}: no Connection: close after the signal`);
        if (this.#random(8) === 0) await sleep(this.#random(30));
      }
      if (client.unread > 0) this.#errors.push('bytes after the answer that was the last');
      await client.ended();
      if (this.#random(4) === 0) await this.#assertRefused();
    } catch {
      // closed between two requests; judge() detects if it was during an accepted one
    } finally {
      await client[Symbol.asyncDispose]();
    }
  }

  /** A connection opened while the server closes its port is closed by the server. The next one is refused. */
  async #assertRefused(): Promise<void> {
    for (const isLast of [false, true]) {
      const socket = connect(this.#port, '127.0.0.1');
      const closed = once(socket, 'close').catch(ignore); // it is reset if the server has not accepted it
      const isOpen = await Promise.race([once(socket, 'connect').then(() => true), closed]).catch(ignore);
      if (isOpen !== true) return;
      if (isLast) this.#errors.push('a connection was accepted after the port had closed');
      socket.resume();
      await closed;
    }
  }

  /** Sends one request, or several at once, and returns the responses. */
  async #ask(client: RawClient): Promise<RawAnswer[]> {
    const random = this.#random;
    const ids = Array.from({ length: random(6) === 0 ? 2 + random(3) : 1 }, () => `r${this.#sent++}`);
    if (ids.length === 1 && random(5) === 0) return [await this.#upload(client, ids[0]!)];
    const path = (): string =>
      [`/slow/${20 + random(100)}`, '/', '/task', `/stream/${random(15)}`][random(4)]!;
    const heads = ids.map((id) => `GET ${path()} HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${id}\r\n\r\n`);
    client.send(heads.join(''));
    const answers: RawAnswer[] = [];
    for (const id of ids) answers.push(await this.#answered(client, id));
    return answers;
  }

  /** Sends a body slowly. */
  async #upload(client: RawClient, id: string): Promise<RawAnswer> {
    client.send(`POST /bytes HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${id}\r\nContent-Length: 50\r\n\r\n`);
    for (let n = 0; n < 5; n++) {
      await sleep(this.#random(20));
      client.send('0123456789');
    }
    return this.#answered(client, id);
  }

  async #answered(client: RawClient, id: string): Promise<RawAnswer> {
    const answer = await client.answer();
    this.#answers.set(id, answer);
    this.#answeredMs = performance.now();
    const found = `${answer.status}${answer.isWhole ? '' : ' cut'} ${answer.field('x-request-id')}`;
    if (found !== `200 ${id}`) this.#errors.push(`${id} got ${found}`);
    if (answer.field('x-ending') === 'false' && answer.field('connection') === 'close')
      this.#errors.push(`${id} was told Connection: close before the signal`);
    return answer;
  }

  #judge(endedMs: number): Judged {
    const errors = this.#errors;
    for (const id of this.#accepted)
      if (!this.#answers.has(id)) errors.push(`${id} was accepted and never answered`);
    const ending = [...this.#answers.values()].filter((answer) => answer.field('x-ending') === 'true');
    const { entered, left, tasksAdded, tasksRun } = this.#counts;
    if (entered !== left || tasksAdded !== tasksRun)
      errors.push(`at the end: ${JSON.stringify(this.#counts)}`);
    const lingeredMs = endedMs - this.#answeredMs;
    return { errors, accepted: this.#accepted.size, ending: ending.length, lingeredMs };
  }
}

async function main(): Promise<readonly string[]> {
  console.log(`drain: ${ROUNDS} rounds, at most ${SECONDS} s, ${CONNECTIONS} connections, seed ${SEED}`);
  const startMs = performance.now();
  const failures: string[] = [];
  let current: Round | undefined;
  process.on('exit', () => current?.kill());
  let [rounds, accepted, ending, longestMs] = [0, 0, 0, 0];
  /** Runs one round. Returns a text if its process ended late. */
  const run = async (round: number): Promise<readonly string[]> => {
    current = new Round(SEED + round);
    const { errors, lingeredMs, ...counts } = await current.run();
    const late = `round ${round + 1}: the process ended ${Math.round(lingeredMs)} ms after the last answer`;
    failures.push(...errors.map((error) => `round ${round + 1}: ${error}`));
    if (lingeredMs > KEPT_OPEN_MS) failures.push(late);
    accepted += counts.accepted;
    ending += counts.ending;
    longestMs = Math.max(longestMs, lingeredMs);
    return lingeredMs > END_MS && lingeredMs <= KEPT_OPEN_MS ? [late] : [];
  };
  for (; rounds < ROUNDS && performance.now() - startMs < SECONDS * 1_000; rounds++) {
    const round = rounds;
    failures.push(...(await confirmed(() => run(round))));
  }
  console.log(
    `${rounds} rounds in ${((performance.now() - startMs) / 1_000).toFixed(1)} s: ${accepted} requests accepted, ${ending} answered after the signal; the process ended at most ${longestMs.toFixed(0)} ms after its last answer`,
  );
  return failures;
}

await soak(main, serve);
