/**
 * Shared by all soaks: their duration, a server in its own process, the resources of that process, and the
 * verdict.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChildProcess } from 'node:child_process';
import { Ends, type Scope } from './run.ts';

/** Duration of a soak in seconds: SOAK_SECONDS, default 60. */
export const SECONDS: number = Number(process.env['SOAK_SECONDS'] ?? 60);
/** Seed of the clients' random numbers: SOAK_SEED, by default from the time. */
export const SEED: number = Number(process.env['SOAK_SEED'] ?? Date.now() % 1_000_000_000);
const SETTLE_MS = 15_000;
const MOST_SHOWN = 20;

type Awaitable<T> = T | Promise<T>;

/** Memory of a process after garbage collection, in bytes, and its open TCP sockets. */
export interface Held {
  readonly heapUsed: number;
  readonly external: number;
  readonly rss: number;
  readonly sockets: number;
}

/**
 * Returns the memory after several garbage collections, because finalizers release what only the next
 * collection finds. Needs `--expose-gc`.
 */
export async function held(): Promise<Held> {
  for (let round = 0; round < 3; round++) {
    globalThis.gc!();
    await sleep(10);
  }
  globalThis.gc!(); // collect right before measuring, because a server under load allocates all the time
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heapUsed, external, rss, sockets: resources()['TCPSocketWrap'] ?? 0 };
}

/** Returns the memory of a process after garbage collection, in bytes. */
export function heldBy({ heapUsed, external }: Held): number {
  return heapUsed + external;
}

/** Runs a function `count` times at once. */
export function together<T>(count: number, run: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => run(index)));
}

/** Opens connections, at most 200 at once, until `opened` has `count`. */
export async function openUpTo<T>(count: number, opened: T[], open: () => Promise<T>): Promise<T[]> {
  while (opened.length < count)
    opened.push(...(await together(Math.min(200, count - opened.length), () => open())));
  return opened;
}

/** Returns the number of open handles of this process by kind. */
export function resources(): Readonly<Record<string, number>> {
  const kinds = Map.groupBy(process.getActiveResourcesInfo(), (kind) => kind);
  return Object.fromEntries([...kinds].map(([kind, { length }]) => [kind, length]));
}

/** Called in the server's process: sends the port, and answers requests of {@link SoakServer.ask}. */
export function serving(port: number, answer: (what: string) => Awaitable<object>): void {
  process.on('message', async (what) => process.send!(await answer(String(what))));
  process.on('disconnect', () => process.exit(9)); // the soak has ended
  process.channel!.unref(); // SIGTERM must be able to end the process
  process.send!({ port });
}

/** The server of a soak in its own process: the same file, started with `serve` and further arguments. */
export class SoakServer<Inside extends object> {
  readonly child: ChildProcess;
  readonly port: number;
  readonly exited: Promise<unknown[]>;

  private constructor(child: ChildProcess, port: number, exited: Promise<unknown[]>) {
    this.child = child;
    this.port = port;
    this.exited = exited;
  }

  /**
   * Starts the server. `onStart` gets the process before it has printed anything, to read its standard error.
   */
  static async start<Inside extends object>(
    file: string,
    args: readonly string[] = [],
    onStart?: (child: ChildProcess) => void,
  ): Promise<SoakServer<Inside>> {
    const child = fork(file, ['serve', ...args], {
      execArgv: ['--conditions=svc-source', '--expose-gc', '--no-flush-bytecode'],
      env: { ...process.env, NODE_V8_COVERAGE: '', SVC_SHUTDOWN_DELAY_SECONDS: '0' },
      stdio: ['ignore', 'inherit', onStart === undefined ? 'inherit' : 'pipe', 'ipc'],
    });
    const exited = once(child, 'exit');
    onStart?.(child);
    const kill = (): void => void child.kill('SIGKILL');
    process.on('exit', kill);
    child.on('exit', () => process.off('exit', kill));
    const [message] = await Promise.race([once(child, 'message'), exited.then(() => [])]);
    if (message === undefined) throw new Error('The server did not start');
    return new SoakServer<Inside>(child, (message as { port: number }).port, exited);
  }

  async ask(what = 'inside'): Promise<Inside> {
    this.child.send(what);
    const ended = this.exited.then((how) => {
      throw new Error(`The server has ended: ${how.join(' ')}`);
    });
    return ((await Promise.race([once(this.child, 'message'), ended])) as [Inside])[0];
  }

  /** Asks until the server is at rest, or `settleMs` have passed. Returns the last response. */
  async settled(isAtRest: (inside: Inside) => boolean, settleMs: number = SETTLE_MS): Promise<Inside> {
    for (const endMs = performance.now() + settleMs; ; await sleep(100)) {
      const inside = await this.ask();
      if (isAtRest(inside) || performance.now() > endMs) return inside;
    }
  }

  /** Sends SIGTERM. Returns a failure unless the process ended with status 0. */
  async terminated(): Promise<readonly string[]> {
    this.child.kill('SIGTERM');
    const late = setTimeout(() => this.child.kill('SIGKILL'), SETTLE_MS);
    const [status, signal] = await this.exited;
    clearTimeout(late);
    return status === 0 ? [] : [`SIGTERM ended the server with ${String(status ?? signal)}`];
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }
}

/** Runs a soak, or its server when this process was started as one. The soak returns what failed. */
export async function soak(
  main: () => Promise<readonly string[]>,
  serve?: (...args: string[]) => Promise<void>,
): Promise<void> {
  if (serve !== undefined && process.argv[2] === 'serve') return serve(...process.argv.slice(3));
  const failures = [...new Set(await main())];
  if (failures.length === 0) return console.log('passed');
  const more = failures.length > MOST_SHOWN ? `\n  … ${failures.length} in all` : '';
  console.error(`\nFAILED, seed ${SEED}:\n  ${failures.slice(0, MOST_SHOWN).join('\n  ')}${more}`);
  process.exitCode = 1;
}

/** Runs a function with a scope, and cleans up after it. */
export async function scoped(run: (scope: Scope) => Promise<void>): Promise<void> {
  await using scope = new Ends();
  await run(scope);
}

export function mib(bytes: number): string {
  return `${(bytes / 1_048_576).toFixed(1)} MiB`;
}

export function median(samples: readonly number[]): number {
  return samples.toSorted((left, right) => left - right)[samples.length >> 1]!;
}

/** Returns the limit of open files of this process, which its children inherit. */
export function openFiles(): number {
  const { userLimits } = process.report.getReport() as unknown as {
    userLimits: Record<string, { soft: number | 'unlimited' }>;
  };
  const soft = userLimits['open_files']?.soft ?? 'unlimited';
  return soft === 'unlimited' ? Infinity : soft;
}
