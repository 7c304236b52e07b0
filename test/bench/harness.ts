/**
 * Shared by all benches: processes that take turns, medians, and Markdown tables with bounds.
 */
import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { scratch } from '../support/scratch.ts';
import type { ChildProcess } from 'node:child_process';

/** Returns the arguments of this process that have one of these names. */
export function argumentsOf<Name extends string>(...names: readonly Name[]): Partial<Record<Name, string>> {
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  return parseArgs({ options }).values as Partial<Record<Name, string>>;
}

/** Returns a folder with these packages. Without the registry it prints that they are skipped. */
export function installed(name: string, packages: Readonly<Record<string, string>>): string | undefined {
  const skip = (reason?: string): void => console.log(`SKIPPED: ${Object.keys(packages)[0]}: ${reason}`);
  return scratch({ skip }, `bench-${name}`, packages);
}

/** Runs a file in a fresh process, and returns the number that it prints as `RESULT number`. */
export function childResult(file: string, args: readonly string[]): number {
  const { stdout, stderr } = spawnSync(process.execPath, [...process.execArgv, file, ...args], {
    encoding: 'utf8',
  });
  const result = /RESULT (-?[\d.]+)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${args.join(' ')}: ${stderr}`);
  return Number(result);
}

/** Options of {@link started}. */
interface StartOptions {
  /** Options of Node.js. Default: `--expose-gc`. */
  readonly execArgv?: readonly string[];
  /** Whether what the process writes to standard error is thrown away, and not kept for the message of a failure. */
  readonly isQuiet?: boolean;
}

/** The last characters that a process wrote to standard error. */
const complaints = new WeakMap<ChildProcess, string>();
const MAX_COMPLAINT = 2_000;

/** Starts a file as a process that {@link answering} serves. Returns it with the number that it sends first. */
export async function started(
  file: string,
  args: readonly string[],
  { execArgv = ['--expose-gc'], isQuiet = false }: StartOptions = {},
): Promise<{ readonly child: ChildProcess; readonly first: number }> {
  const child = fork(file, args, {
    execArgv: [...execArgv],
    stdio: ['ignore', 'inherit', isQuiet ? 'ignore' : 'pipe', 'ipc'],
  });
  child.stderr?.on('data', (chunk: Buffer) =>
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
const WARM_MS = 1_000;
/** Time in milliseconds for which a process works in a slice. */
const SLICE_MS = 40;
/** Slices of each side in a round. */
const SLICES = 25;

/** A side of {@link inTurn}, warmed up. */
export interface Worker {
  /** Works for a slice of time, and returns the cost. */
  slice(): number | Promise<number>;
  /** Ends the process. */
  stop(): unknown;
}

/** Starts a file as a process that calls {@link working}. */
export async function worker(
  file: string,
  args: readonly string[],
  { execArgv = [], ...options }: StartOptions = {},
): Promise<Worker> {
  const { child } = await started(file, args, { execArgv, ...options });
  return { slice: () => ask(child, 'slice'), stop: () => child.kill('SIGKILL') };
}

/** Called in the process of a {@link worker}. `run` works for some milliseconds, and returns the cost. */
export async function working(run: (ms: number) => Promise<number>): Promise<void> {
  endWithParent();
  await run(WARM_MS);
  answering(0, () => run(SLICE_MS));
}

/** The cost of one side. */
interface Cost {
  /** Median of all slices. */
  readonly median: number;
  /** The cheapest slice. */
  readonly lowest: number;
  /** Median of the ratios of each slice to the slice of the first side in the same turn. */
  readonly ratio: number;
  /** Median ratio of each round. */
  readonly ratios: readonly number[];
}

/**
 * Returns the cost of each side. In each round, every side starts a fresh process. The processes work for
 * short slices, one after the other, in the opposite order in every second round. A busy machine slows
 * neighbouring slices alike, so their ratio stays the same.
 */
export async function inTurn<Side extends string>(
  sides: readonly Side[],
  rounds: number,
  start: (side: Side) => Promise<Worker>,
  slicesOfRound: number = SLICES,
): Promise<Record<Side, Cost>> {
  const found = sides.map(() => [] as number[][]);
  for (let round = 0; round < rounds; round++) {
    const workers: Worker[] = [];
    try {
      for (const side of sides) workers.push(await start(side));
      const slices = sides.map(() => [] as number[]);
      const order = round % 2 === 0 ? [...workers.entries()] : [...workers.entries()].reverse();
      for (let slice = 0; slice < slicesOfRound; slice++)
        for (const [index, each] of order) slices[index]!.push(await each.slice());
      found.forEach((all, index) => all.push(slices[index]!));
    } finally {
      await Promise.allSettled(workers.map((each) => each.stop()));
    }
  }
  const base = found[0]!;
  const costs = found.map((all): Cost => {
    const ratios = all.map((slices, round) => slices.map((cost, slice) => cost / base[round]![slice]!));
    return {
      median: median(all.flat()),
      lowest: Math.min(...all.flat()),
      ratio: median(ratios.flat()),
      ratios: ratios.map(median),
    };
  });
  // the cast is safe: `costs` has an element for each side
  return Object.fromEntries(sides.map((side, index) => [side, costs[index]])) as Record<Side, Cost>;
}

/** Returns samples of each side, taken in rounds with a changing order. */
export async function alternate<Side extends string>(
  sides: readonly Side[],
  rounds: number,
  measure: (side: Side) => number | Promise<number>,
): Promise<Record<Side, number[]>> {
  // `samples` has a list for each side
  const samples = Object.fromEntries(sides.map((side) => [side, []])) as unknown as Record<Side, number[]>;
  for (let round = 0; round < rounds; round++)
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) samples[side].push(await measure(side));
  return samples;
}

export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((left, right) => left - right);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

/** Prints a title and the head of a table; the first column is the name of a row. */
export function printHead(title: string, ...columns: readonly string[]): void {
  console.log(
    `\n### ${title}, ${process.version}\n\n| | ${columns.join(' | ')} |\n|---|${'---:|'.repeat(columns.length)}`,
  );
}

export function printRow(...cells: readonly string[]): void {
  console.log(`| ${cells.join(' | ')} |`);
}

/**
 * Prints a row: the cost of the first side, the ratio of svc, its bound, and the ratios of the others. The
 * process will exit with 1 if svc is above its bound.
 */
export function printRatios(
  name: string,
  base: number,
  [own, ...others]: readonly [number, ...(number | undefined)[]],
  bound: number,
): void {
  if (own > bound) process.exitCode = 1;
  const cells = others.map((ratio) => ratio?.toFixed(2) ?? '');
  printRow(name, base.toFixed(base < 100 ? 2 : 0), own.toFixed(2), bound.toFixed(2), ...cells);
}

/** Returns the CPU time of this process in microseconds. */
export function cpuMicros(before?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
