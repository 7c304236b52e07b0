/**
 * Shared by all benches: fresh processes that take turns, medians, and a Markdown table with bounds.
 *
 * A child process of a bench prints `RESULT number` and ends.
 */
import { spawnSync } from 'node:child_process';

/** Runs a file in a fresh process, and returns the number that it prints. */
export function childResult(file: string, args: readonly string[], quiet: boolean = false): number {
  const { stdout, stderr } = spawnSync(process.execPath, [...process.execArgv, file, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', quiet ? 'ignore' : 'pipe'],
  });
  const result = /RESULT (-?[\d.]+)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${args.join(' ')}: ${stderr}`);
  return Number(result);
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
  console.log(`\n### ${title}\n\n| | ${columns.join(' | ')} |\n|---|${'---:|'.repeat(columns.length)}`);
}

export function printRow(...cells: readonly string[]): void {
  console.log(`| ${cells.join(' | ')} |`);
}

/** Returns the CPU time of this process in microseconds. */
export function cpuMicros(before?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
