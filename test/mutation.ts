/**
 * Mutation testing: changes one place of a source at a time, runs the unit tests that execute it, and prints each
 * change that no test notices.
 *
 *   node --conditions=svc-source test/mutation.ts src/oauth --count=100 --seed=7
 *   node --conditions=svc-source test/mutation.ts src/crypto src/auth --tests=test/crypto,test/auth
 *   node --conditions=svc-source test/mutation.ts src/auth/guard.ts:40 --tests=test/auth
 *
 * The sample is drawn from all places by the seed (default: from the time; it is printed). A line number after
 * the name of a file draws from that line only. Tests are those below `--tests`, by default the folders of test
 * with the same names, without integration tests. They run in a copy of the repository. A test file that takes
 * four times its usual time and ten seconds more has noticed the change. The parser acorn is installed in a
 * scratch folder; without a registry nothing runs.
 *
 * A change of `&&`, `||` or `??` takes effect when the left side is evaluated. If no test file evaluates the right
 * side, the line of the survivor says so.
 */
import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ROOT } from './support/build.ts';
import { seeded } from './support/random.ts';
import { scratch } from './support/scratch.ts';

interface AcornNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

interface Mutant {
  /** Path from the root of the repository. */
  readonly file: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** Offset of the code whose execution lets a test notice the change. */
  readonly effectAt: number;
  /** Offset of the right side of a logical operator. Undefined for other changes. */
  readonly rightAt?: number;
}

interface Range {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

interface TestFile {
  readonly path: string;
  readonly durationMs: number;
  /** Ranges of each source that the file loads: a list for each process and thread. */
  readonly ranges: ReadonlyMap<string, readonly (readonly Range[])[]>;
}

// ── the changes ──

const OPERATORS: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '+': '-',
  '-': '+',
  '*': '/',
  '&&': '||',
  '||': '&&',
  '??': '&&',
  '&': '|',
  '|': '&',
};

/** Returns the replacements of a node: an empty list for most kinds. */
function changesOf(node: AcornNode, source: string): readonly Omit<Mutant, 'file'>[] {
  const replace = (target: AcornNode, text: string): Omit<Mutant, 'file'> => {
    return { start: target.start, end: target.end, text, effectAt: target.start };
  };
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression': {
      const [left, right] = [node['left'] as AcornNode, node['right'] as AcornNode];
      const other = OPERATORS[node['operator'] as string];
      const at = source.indexOf(node['operator'] as string, left.end);
      if (other === undefined || at === -1 || at >= right.start) return [];
      const change = { start: at, end: at + (node['operator'] as string).length, text: other };
      return node.type === 'BinaryExpression'
        ? [{ ...change, effectAt: at }]
        : [{ ...change, effectAt: node.start, rightAt: right.start }]; // V8 counts the operator as part of the right side
    }
    case 'IfStatement':
    case 'ConditionalExpression': {
      const test = node['test'] as AcornNode;
      return [replace(test, 'true'), replace(test, 'false')];
    }
    case 'UnaryExpression':
      return node['operator'] === '!'
        ? [replace(node, '')].map((each) => ({ ...each, end: node.start + 1 }))
        : [];
    case 'Literal': {
      const value = node['value'];
      if (typeof value === 'boolean') return [replace(node, String(!value))];
      if (typeof value === 'number') return [replace(node, String(value + 1))];
      return typeof value === 'string' && value !== '' ? [replace(node, `'${'mutated'}'`)] : [];
    }
    case 'ExpressionStatement':
      return (node['expression'] as AcornNode).type === 'Literal' ? [] : [replace(node, ';')];
    case 'ReturnStatement': {
      const value = node['argument'] as AcornNode | null;
      return value === null || value['name'] === 'undefined'
        ? []
        : [replace(node, 'return undefined as never;')];
    }
    default:
      return [];
  }
}

/** Returns every change of a file. Imports and exports of names stay as they are. */
function mutantsOf(file: string, parse: (text: string, options: object) => AcornNode): Mutant[] {
  const source = readFileSync(join(ROOT, file), 'utf8');
  const found: Mutant[] = [];
  const visit = (node: AcornNode): void => {
    if (node.type === 'ImportDeclaration' || (node.type === 'ExportNamedDeclaration' && node['source']))
      return;
    for (const change of changesOf(node, source)) found.push({ file, ...change });
    for (const child of Object.values(node).flat())
      if (child !== null && typeof (child as AcornNode | undefined)?.type === 'string')
        visit(child as AcornNode);
  };
  visit(parse(stripTypeScriptTypes(source), { ecmaVersion: 'latest', sourceType: 'module' }));
  return found;
}

// ── the tests ──

interface Result {
  readonly status: number | null;
  readonly durationMs: number;
}

/** Runs one test file until a test fails. `status` is null after the first failure and after the time limit. */
async function runTest(
  root: string,
  path: string,
  { limitMs, coverage }: { readonly limitMs: number; readonly coverage?: string },
): Promise<Result> {
  const startedMs = performance.now();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, ['--conditions=svc-source', '--test-reporter=tap', path], {
    cwd: root,
    env: {
      ...env,
      // coverage by a cached compilation is less precise
      ...(coverage === undefined
        ? { NODE_COMPILE_CACHE: join(root, 'compile-cache') }
        : { NODE_V8_COVERAGE: coverage }),
    },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const kill = (): void => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {
      // it has ended
    }
  };
  const late = setTimeout(kill, limitMs);
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (/^ *not ok/m.test(text)) kill();
  });
  const status = await new Promise<number | null>((resolve) => child.on('exit', resolve));
  clearTimeout(late);
  kill(); // ends its children, too
  return { status, durationMs: performance.now() - startedMs };
}

/** Runs a test file once without changes, and returns what it executes. Undefined if it fails. */
async function measured(root: string, path: string): Promise<TestFile | undefined> {
  const coverage = mkdtempSync(join(tmpdir(), 'svc-mutation-coverage-'));
  const { status, durationMs } = await runTest(root, path, { limitMs: 300_000, coverage });
  const ranges = new Map<string, Range[][]>();
  for (const file of readdirSync(coverage)) {
    const { result } = JSON.parse(readFileSync(join(coverage, file), 'utf8')) as {
      result: { url: string; functions: { ranges: Range[] }[] }[];
    };
    for (const { url, functions } of result) {
      if (!url.startsWith('file:')) continue;
      const source = relative(root, fileURLToPath(url));
      if (source.startsWith('src'))
        ranges.set(source, [...(ranges.get(source) ?? []), functions.flatMap((each) => each.ranges)]);
    }
  }
  rmSync(coverage, { recursive: true });
  return status === 0 ? { path, durationMs, ranges } : undefined;
}

/** Whether a test file executes the code at an offset of a source. */
function executes({ ranges }: TestFile, file: string, offset: number): boolean {
  return (ranges.get(file) ?? []).some((list) => {
    const around = list.filter((range) => range.startOffset <= offset && offset < range.endOffset);
    const innermost = around.sort((a, b) => a.endOffset - a.startOffset - (b.endOffset - b.startOffset))[0];
    return innermost !== undefined && innermost.count > 0;
  });
}

// ── the run ──

function filesBelow(folder: string, ending: RegExp): string[] {
  if (!existsSync(join(ROOT, folder))) return [];
  if (statSync(join(ROOT, folder)).isFile()) return [folder];
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => join(folder, file))
    .filter((file) => ending.test(file))
    .sort();
}

/** Copies the repository, so that a change is never seen by anything else. */
function copyOfRepository(): string {
  const root = mkdtempSync(join(tmpdir(), 'svc-mutation-'));
  for (const name of [
    'src',
    'test',
    'bin',
    'package.json',
    'tsconfig.json',
    'README.md',
    'LICENSE',
    '.github',
  ])
    cpSync(join(ROOT, name), join(root, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  return root;
}

/** Returns whether a test noticed the change. */
async function isNoticed(root: string, mutant: Mutant, tests: readonly TestFile[]): Promise<boolean> {
  const path = join(root, mutant.file);
  const source = readFileSync(path, 'utf8');
  writeFileSync(path, source.slice(0, mutant.start) + mutant.text + source.slice(mutant.end));
  try {
    for (const test of tests) {
      const { status } = await runTest(root, test.path, { limitMs: 4 * test.durationMs + 10_000 });
      if (status !== 0) return true;
    }
    return false;
  } finally {
    writeFileSync(path, source);
  }
}

/** Tests with the name of the source are tried first, then shorter ones. */
function costOf({ path, durationMs }: TestFile, { file }: Mutant): number {
  return basename(path, '.test.ts') === basename(file, '.ts') ? 0 : durationMs;
}

function lineOf({ file, start }: Mutant): number {
  return readFileSync(join(ROOT, file), 'utf8').slice(0, start).split('\n').length;
}

function shown(mutant: Mutant): string {
  const { file, start, end, text } = mutant;
  const source = readFileSync(join(ROOT, file), 'utf8');
  const line = lineOf(mutant);
  const old = source.slice(start, end).replace(/\s+/g, ' ').slice(0, 80);
  return `${file}:${line}: ${old} → ${text}\n      ${source.split('\n')[line - 1]!.trim()}`;
}

/** Says how many test files execute the place of a change. */
function executionOf({ file, rightAt }: Mutant, executing: readonly TestFile[]): string {
  const count = `${executing.length} test files execute it`;
  if (rightAt === undefined) return count;
  const rights = executing.filter((test) => executes(test, file, rightAt)).length;
  return `${count}, and ${rights} its right side`;
}

/** Calls a function for each item, with one worker for each root. */
async function each<T>(
  items: readonly T[],
  roots: readonly string[],
  run: (item: T, root: string) => Promise<void>,
): Promise<void> {
  const queue = [...items];
  await Promise.all(
    roots.map(async (root) => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await run(item, root);
    }),
  );
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      count: { type: 'string', default: '100' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      tests: { type: 'string' },
      workers: { type: 'string', default: String(availableParallelism()) },
    },
  });
  const folder = scratch({ skip: (why) => console.log(`nothing was run: ${String(why)}`) }, 'mutation', {
    acorn: '8.15.0',
  });
  if (folder === undefined) return;
  const { parse } = createRequire(join(folder, 'x.js'))('acorn') as {
    parse: Parameters<typeof mutantsOf>[1];
  };

  const random = seeded(Number(values.seed));
  const places = positionals
    .map((area) => area.split(':'))
    .flatMap(([area, line]) =>
      filesBelow(area!, /(?<!\.generated)\.ts$/)
        .flatMap((file) => mutantsOf(file, parse))
        .filter((mutant) => line === undefined || lineOf(mutant) === Number(line)),
    );
  const drawn: Mutant[] = [];
  while (drawn.length < Number(values.count) && places.length > 0)
    drawn.push(...places.splice(random(places.length), 1));
  const testFolders = values.tests?.split(',') ?? positionals.map((area) => area.replace(/^src/, 'test'));
  const paths = testFolders.flatMap((area) => filesBelow(area, /(?<!\.integration)\.test\.ts$/));
  console.log(
    `seed ${values.seed}: ${drawn.length} of ${drawn.length + places.length} places, ${paths.length} test files`,
  );

  const roots = Array.from({ length: Number(values.workers) }, copyOfRepository);
  try {
    const tests: TestFile[] = [];
    await each(paths, roots, async (path, root) => {
      const test = await measured(root, path);
      if (test === undefined) console.log(`${path} fails without a change, and is left out`);
      else tests.push(test);
    });
    const survivors: string[] = [];
    await each(drawn, roots, async (mutant, root) => {
      const executing = tests
        .filter((test) => executes(test, mutant.file, mutant.effectAt))
        .sort((a, b) => costOf(a, mutant) - costOf(b, mutant));
      if (await isNoticed(root, mutant, executing)) return;
      survivors.push(`${shown(mutant)}\n      ${executionOf(mutant, executing)}`);
      console.log(survivors.at(-1));
    });
    const noticed = drawn.length - survivors.length;
    console.log(
      `${noticed} of ${drawn.length} changes were noticed (${Math.round((100 * noticed) / drawn.length)} %)`,
    );
  } finally {
    for (const root of roots) rmSync(root, { recursive: true, force: true });
  }
}

await main();
