/**
 * Measures the targets of performance, and prints them as one Markdown table.
 *
 *   npm run bench                                    40 minutes; nothing else should run on the machine
 *   npm run bench -- http startup                    these alone: http, sockets, startup, parts, tokens, dependencies, rows, streams, websocket
 *   npm run bench -- http --only=JSON,POST           rows whose names contain one of these texts
 *   npm run bench -- http --against=HEAD^            one more side: svc of another commit
 *   npm run bench -- parts --processes=5             fresh processes of each side. Default: 3
 *   npm run bench -- --write                         also writes the rows into test/README.md
 *
 * Figures are medians of costs, as multiples of the side in the second column; in brackets the medians of the
 * cheapest and the dearest process. Exits 1 when a figure is above its bound, or when every process of a row
 * cost more than 1.03 times the other commit. A row skips what needs a missing server, program or registry.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { scratch } from '../support/scratch.ts';
import { BEFORE, ROOT, figureOf, inTurn, median } from './harness.ts';
import type { Bench, Costs, Figure, Row } from './harness.ts';

const BENCHES = ['http', 'sockets', 'startup', 'parts', 'tokens', 'dependencies', 'rows', 'streams', 'websocket']; // prettier-ignore
const HEAD = ['row', 'multiples of', 'svc', 'bound', 'others'];
/** Highest cost of the cheapest process, as a multiple of the other commit. */
const MOST_OF_BEFORE = 1.03;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    against: { type: 'string' },
    only: { type: 'string', default: '' },
    processes: { type: 'string', default: '3' },
    write: { type: 'boolean', default: false },
  },
});

/** Builds a commit in a scratch folder, with the benches of this one. Returns the folder. */
function builtCommit(name: string): string {
  const git = (...args: readonly string[]): Buffer =>
    execFileSync('git', ['-C', ROOT, ...args], { maxBuffer: 1 << 28 });
  const commit = String(git('rev-parse', `${name}^{commit}`)).trim();
  const folder = join(tmpdir(), 'svc-scratch', `commit-${commit}`);
  if (!existsSync(join(folder, 'dist'))) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    execFileSync('tar', ['-x', '-C', folder], { input: git('archive', commit) });
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    execFileSync('npm', ['run', '-s', 'build'], { cwd: folder, stdio: 'inherit' });
  }
  // candidate.mjs stays: it names files of its own commit
  for (const part of ['bench', 'support'])
    cpSync(join(ROOT, 'test', part), join(folder, 'test', part), {
      recursive: true,
      filter: (source) => !source.endsWith('candidate.mjs'),
    });
  return folder;
}

const shown = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
const spread = ({ median: middle, low, high }: Figure): string =>
  `${shown(middle)} (${shown(low)}–${shown(high)})`;

/** Measures a row, prints it, and sets the exit code. */
async function measure(row: Row, before: string | undefined): Promise<void> {
  const { name, unit, base, others = [], bound = Infinity } = row;
  const costs = await costsOf(row, before);
  const figure = (side: string, to = base && costs.get(base)): Figure =>
    figureOf(costs.get(side)!, to || undefined, row.isCheapest);
  const own = figure('svc');
  const change = costs.has(BEFORE) ? figure('svc', costs.get(BEFORE)) : undefined;
  if (own.median > bound || (change?.low ?? 0) > MOST_OF_BEFORE) process.exitCode = 1;
  const cells = [
    name,
    base === undefined ? unit : `${base}: ${shown(median(costs.get(base)!.flat()))} ${unit}`,
    spread(own),
    bound === Infinity ? '' : `≤ ${bound}`,
    others.map((side) => `${side} ${shown(figure(side).median)}`).join(', '),
  ];
  if (values.write) writeRow(name, cells);
  if (before !== undefined) cells.push(...(change ? [spread(figure(BEFORE)), spread(change)] : ['', '']));
  console.log(`| ${cells.join(' | ')} |`);
}

/** Replaces a row of the manual's table, or adds it at the end. */
function writeRow(name: string, cells: readonly string[]): void {
  const manual = join(ROOT, 'test/README.md');
  const lines = readFileSync(manual, 'utf8').split('\n');
  const head = lines.indexOf(`| ${HEAD.join(' | ')} |`);
  const at = lines.findIndex(
    (line, index) => index > head && (line === '' || line.startsWith(`| ${name} |`)),
  );
  lines.splice(at, lines[at] === '' ? 0 : 1, `| ${cells.join(' | ')} |`);
  writeFileSync(manual, lines.join('\n'));
}

/** Returns the costs of a row. If the other commit cannot run it, its side is left out. */
async function costsOf(row: Row, before: string | undefined): Promise<ReadonlyMap<string, Costs>> {
  const rounds = Number(values.processes);
  try {
    return await inTurn(row, rounds, before);
  } catch (error) {
    if (before === undefined) throw error;
    console.error(`${row.name}, with ${values.against}: ${String(error).slice(0, 500)}`);
    return inTurn(row, rounds);
  }
}

const unknown = positionals.find((name) => !BENCHES.includes(name));
if (unknown !== undefined) throw new Error(`"${unknown}" is not a bench: ${BENCHES.join(', ')}`);
const before = values.against === undefined ? undefined : builtCommit(values.against);
const head = [...HEAD, ...(before ? [values.against!, `svc × ${values.against}`] : [])];
console.log(`${process.version}\n\n| ${head.join(' | ')} |\n|${'---|'.repeat(head.length)}`);
for (const name of positionals.length > 0 ? positionals : BENCHES) {
  const file = ['.ts', '.mjs'].map((end) => join(import.meta.dirname, `${name}${end}`)).find(existsSync)!;
  const { bench } = (await import(file)) as { readonly bench: Bench };
  const skip = (reason?: string): void => console.error(`SKIPPED: ${name}: ${reason}`);
  const hasPackages = Object.keys(bench.packages).length > 0;
  const peers = hasPackages ? scratch({ skip }, `bench-${name}`, bench.packages) : undefined;
  try {
    for (const row of await bench.rows(peers))
      if (values.only.split(',').some((text) => row.name.includes(text))) await measure(row, before);
  } finally {
    await bench.close?.();
  }
}
