/**
 * Shared by all benches: fresh processes that take turns, medians, and Markdown tables with bounds.
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
export function childResult(file: string, args: readonly string[], quiet: boolean = false): number {
  const { stdout, stderr } = spawnSync(process.execPath, [...process.execArgv, file, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', quiet ? 'ignore' : 'pipe'],
  });
  const result = /RESULT (-?[\d.]+)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${args.join(' ')}: ${stderr}`);
  return Number(result);
}

/** Starts a file as a process that {@link answering} serves. Returns it with the number that it sends first. */
export async function started(
  file: string,
  args: readonly string[],
): Promise<{ readonly child: ChildProcess; readonly first: number }> {
  const child = fork(file, args, { execArgv: ['--expose-gc'] });
  return { child, first: await nextNumber(child) };
}

/** Returns the answer of a started process. */
export async function ask(child: ChildProcess, what: string): Promise<number> {
  child.send(what);
  return nextNumber(child);
}

async function nextNumber(child: ChildProcess): Promise<number> {
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('A process of the bench has ended')));
  return ((await Promise.race([once(child, 'message'), ended])) as [number])[0];
}

/** Called in a started process: sends a number, and the answers to the questions of the parent process. */
export function answering(first: number, answer: (what: string) => number | Promise<number>): void {
  process.on('message', async (what) => process.send!(await answer(String(what))));
  process.send!(first);
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
 * Prints a row with the cost of the first side, the others as multiples of it, and the bound of the second.
 * Exits 1 when that is above its bound.
 */
export function printRatios(name: string, costs: readonly (number | undefined)[], bound: number): void {
  const [base, own, ...others] = costs.map((cost) => cost ?? NaN) as [number, number, ...number[]];
  if (own / base > bound) process.exitCode = 1;
  const ratios = [own, ...others].map((cost) => (Number.isNaN(cost) ? '' : (cost / base).toFixed(2)));
  printRow(name, base.toFixed(base < 100 ? 2 : 0), ratios[0]!, bound.toFixed(2), ...ratios.slice(1));
}

/** Returns the CPU time of this process in microseconds. */
export function cpuMicros(before?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
