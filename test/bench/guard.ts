/**
 * Compares the cost of requests before and after a commit: the in-process requests of http.ts with both
 * builds, in processes that answer in turn. Seven pairs give a mean ratio with a confidence interval. Only a
 * ratio that is certainly too high fails.
 *
 *   node test/bench/guard.ts [--before=HEAD^] [--after=HEAD] [--pairs=7] [--only=json,param]
 *
 * `--after=work` means the files in the folder, committed or not. Both versions are compiled in the system's
 * temporary folder. Exits 1 when the lower end of the 90 % interval of any ratio is above 1.05.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { argumentsOf, inTurn, printHead, printRow, worker } from './harness.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const BENCH = join(import.meta.dirname, 'http.ts');
/** Files that a build needs. */
const PARTS = ['src', 'package.json', 'tsconfig.json'];
const LIMIT = 1.05;
/** Quantiles of Student's distribution, two-sided 90 %, by degrees of freedom 1 … 9. */
const T = [6.314, 2.92, 2.353, 2.132, 2.015, 1.943, 1.895, 1.86, 1.833];
const SCENARIOS = 'json,text,param,param2,notFound,mw5,stack,post,validated,invalid';
const given = argumentsOf('before', 'after', 'pairs', 'only');
const values = { before: 'HEAD^', after: 'HEAD', pairs: '7', ...given };

/** Compiles a commit, or the files in the folder. Returns the folder of the build as a URL. */
function built(commit: string, folder: string): string {
  if (commit === 'work')
    for (const part of PARTS) cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  else
    execFileSync('tar', ['-x', '-C', folder], {
      input: execFileSync('git', ['-C', ROOT, 'archive', commit, ...PARTS], { maxBuffer: 1 << 28 }),
    });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  execFileSync(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', join(folder, 'tsconfig.json')],
    { stdio: 'inherit' },
  );
  return `${pathToFileURL(join(folder, 'dist')).href}/`;
}

/**
 * The mean of ratios and the ends of its 90 % interval: of their logarithms, for which twice and half weigh
 * the same.
 */
function interval(ratios: readonly number[]): Readonly<Record<'mean' | 'low' | 'high', number>> {
  const logs = ratios.map(Math.log);
  const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  const deviation = Math.sqrt(logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (logs.length - 1));
  const reach = ((T[logs.length - 2] ?? 1.8) * deviation) / Math.sqrt(logs.length);
  return { mean: Math.exp(mean), low: Math.exp(mean - reach), high: Math.exp(mean + reach) };
}

async function guard(before: string, after: string): Promise<number> {
  let isSlower = false;
  const title = `CPU per request, ${values.after} × ${values.before}, ${values.pairs} pairs`;
  printHead(title, 'mean', '90 % interval');
  for (const scenario of (values.only ?? SCENARIOS).split(',')) {
    const costs = await inTurn([before, after], Number(values.pairs), (dist) =>
      worker(BENCH, ['--child=svc', `--scenario=${scenario}`, `--dist=${dist}`]),
    );
    const { mean, low, high } = interval(costs[after]!.ratios);
    isSlower ||= low > LIMIT;
    const range = `${low.toFixed(3)} … ${high.toFixed(3)}${low > LIMIT ? ' **slower**' : ''}`;
    printRow(scenario, mean.toFixed(3), range);
  }
  return isSlower ? 1 : 0;
}

if (import.meta.main) {
  const folders = [0, 1].map(() => mkdtempSync(join(tmpdir(), 'svc-guard-')));
  try {
    process.exitCode = await guard(built(values.before, folders[0]!), built(values.after, folders[1]!));
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  }
}
