/**
 * Shared by all benches: rows, processes that take turns, and the table.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { ChildProcess } from 'node:child_process';

/** Root of this repository. */
export const ROOT: string = join(import.meta.dirname, '../..');

/** A row of the table: the cost of svc, and of others that do the same. Lower is better. */
export interface Row {
  readonly name: string;
  readonly unit: 'ns' | 'µs' | 'ms' | 'KiB' | 'MiB';
  /** The side whose multiples the figures are. Without it, the figures have the unit. */
  readonly base?: string;
  /** Further sides besides svc. */
  readonly others?: readonly string[];
  /** Highest figure of svc that is accepted. */
  readonly bound?: number | undefined;
  /** Number of fresh processes of each side, as a multiple of the usual number. Default: 1. */
  readonly processes?: number;
  /** Number of slices of each process. Default: 25. */
  readonly slices?: number;
  /** Whether the cheapest slice of a process counts, and not the ratio of neighbouring slices. */
  readonly isCheapest?: boolean;
  /** Starts a side. `root` is the folder of this repository, or of another commit. */
  start(side: string, root: string): Promise<Worker>;
}

/** Rows that a file of this folder measures. `peers` is a folder with the packages, or undefined without a registry. */
export interface Bench {
  readonly packages: Readonly<Record<string, string>>;
  rows(peers: string | undefined): readonly Row[] | Promise<readonly Row[]>;
  /** Called when all rows are measured. */
  close?(): unknown;
}

/** Returns the arguments of this process that have one of these names. */
export function argumentsOf<Name extends string>(...names: readonly Name[]): Partial<Record<Name, string>> {
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  // not strict, because the command imports the files of its benches, and has other arguments
  return parseArgs({ options, strict: false }).values as Partial<Record<Name, string>>;
}

/** Returns an object as arguments for {@link argumentsOf}; undefined values are left out. */
export function argumentList(values: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  );
}

/** Options of {@link started}. */
interface StartOptions {
  /** Options of Node.js. Default: `--expose-gc`. */
  readonly execArgv?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

/** The last characters that a process wrote to standard error. */
const complaints = new WeakMap<ChildProcess, string>();
const MAX_COMPLAINT = 2_000;

/** Starts a file as a process that {@link answering} serves. Returns it with the number that it sends first. */
export async function started(
  file: string,
  values: Readonly<Record<string, unknown>>,
  { execArgv = ['--expose-gc'], env }: StartOptions = {},
): Promise<{ readonly child: ChildProcess; readonly first: number }> {
  const child = fork(file, argumentList(values), {
    execArgv: [...execArgv],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...process.env, ...env },
  });
  child.stderr!.on('data', (chunk: Buffer) =>
    complaints.set(child, `${complaints.get(child) ?? ''}${chunk}`.slice(-MAX_COMPLAINT)),
  );
  return { child, first: await nextNumber(child) };
}

/** Returns the answer of a started process. */
export async function ask(child: ChildProcess, what: string): Promise<number> {
  child.send(what);
  return nextNumber(child);
}

async function nextNumber(child: ChildProcess): Promise<number> {
  const settled = new AbortController();
  const ended = once(child, 'close', { signal: settled.signal }).then(() => {
    throw new Error(
      `A process of the bench has ended: ${child.spawnargs.join(' ')}\n${complaints.get(child) ?? ''}`,
    );
  });
  try {
    return ((await Promise.race([once(child, 'message'), ended])) as [number])[0];
  } finally {
    settled.abort();
  }
}

/** Called in a started process: sends a number, and the answers to the questions of the parent process. */
export function answering(first: number, answer: (what: string) => number | Promise<number>): void {
  endWithParent();
  process.on('message', async (what) => process.send!(await answer(String(what))));
  process.send!(first);
}

function endWithParent(): void {
  process.once('disconnect', () => process.exit());
}

/** Time in milliseconds for which a process works before its first slice. */
const WARM_MS = 1_500;
/** Time in milliseconds for which a process works in a slice. */
const SLICE_MS = 40;
/** Slices of each side in a round. */
const SLICES = 25;

/** A side of a row, warmed up. */
export interface Worker {
  /** Works for a slice of time, and returns the cost. */
  slice(): number | Promise<number>;
  /** Ends the process. */
  stop(): unknown;
}

/** Starts a file of this folder, in the repository or another commit, as a process that calls {@link working}. */
export async function worker(
  root: string,
  file: string,
  values: Readonly<Record<string, unknown>>,
  { execArgv = [], env = {} }: StartOptions = {},
): Promise<Worker> {
  const { child } = await started(join(root, 'test/bench', file), values, { execArgv, env });
  return { slice: () => ask(child, 'slice'), stop: () => child.kill('SIGKILL') };
}

/** Called in the process of a {@link worker}. `run` works for some milliseconds, and returns the cost. */
export async function working(run: (ms: number) => Promise<number>): Promise<void> {
  endWithParent();
  await run(WARM_MS);
  answering(0, () => run(SLICE_MS));
}

/** Costs of a side: the slices of each process. */
export type Costs = readonly (readonly number[])[];

/** The cost of one side as a multiple of another, or in its unit. */
export interface Figure {
  readonly median: number;
  /** Medians of the cheapest and of the dearest process. */
  readonly low: number;
  readonly high: number;
}

/** The side that runs svc of another commit. */
export const BEFORE = 'before';

/**
 * Returns the costs of each side. In each round, every side starts a fresh process. The processes work for
 * short slices, one after the other, in the opposite order in every second round. A busy machine slows
 * neighbouring slices alike, so their ratio stays the same. `before` is the folder of another commit.
 */
export async function inTurn(row: Row, rounds: number, before?: string): Promise<Map<string, Costs>> {
  const { base, others = [], processes = 1, slices = SLICES } = row;
  const found = new Map<string, number[][]>();
  for (const side of [base, 'svc', before && BEFORE, ...others]) if (side) found.set(side, []);
  for (let round = 0; round < rounds * processes; round++) {
    const running = new Map<string, Worker>();
    try {
      for (const side of found.keys())
        running.set(side, await (side === BEFORE ? row.start('svc', before!) : row.start(side, ROOT)));
      for (const costs of found.values()) costs.push([]);
      const order = round % 2 === 0 ? [...running] : [...running].reverse();
      for (let slice = 0; slice < slices; slice++)
        for (const [side, each] of order)
          found
            .get(side)!
            .at(-1)!
            .push(await each.slice());
    } finally {
      await Promise.allSettled([...running.values()].map((each) => each.stop()));
    }
  }
  return found;
}

/** Returns the cost of a side as a multiple of `base`; without `base`, as it is. */
export function figureOf(costs: Costs, base: Costs | undefined, isCheapest = false): Figure {
  const each = costs.map((slices, process): readonly number[] => {
    const others = base?.[process];
    if (isCheapest) return [Math.min(...slices) / (others === undefined ? 1 : Math.min(...others))];
    return slices.map((cost, slice) => cost / (others?.[slice] ?? 1));
  });
  const medians = each.map(median);
  const whole = isCheapest && base !== undefined ? lowest(costs) / lowest(base) : median(each.flat());
  return { median: whole, low: Math.min(...medians), high: Math.max(...medians) };
}

function lowest(costs: Costs): number {
  return Math.min(...costs.flat());
}

export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((left, right) => left - right);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

/** Returns the CPU time of this process in microseconds. */
export function cpuMicros(before?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
