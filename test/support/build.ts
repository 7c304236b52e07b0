/**
 * The built package, for tests that run it as its users do: compiled when a source is newer, by one process at a time.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** The repository. */
export const ROOT: string = resolve(import.meta.dirname, '../..');
/** The command, as package.json names it. */
export const BIN: string = join(ROOT, 'bin/svc.js');

/** Compiles `src` into `dist` unless `dist` is up to date. Test files may call it at the same time. */
export function build(): void {
  exclusively(`svc-build-${createHash('sha256').update(ROOT).digest('hex').slice(0, 12)}`, () => {
    if (isFresh()) return;
    const startedMs = Date.now();
    const { NODE_V8_COVERAGE: _, NODE_OPTIONS: __, ...env } = process.env;
    const { status, stdout, stderr } = spawnSync('npm', ['run', '-s', 'build'], {
      cwd: ROOT,
      env,
      encoding: 'utf8',
      shell: process.platform === 'win32',
    });
    if (status !== 0) throw new Error(`The package does not compile:\n${stdout}${stderr}`);
    utimesSync(join(ROOT, 'dist/index.js'), startedMs / 1_000, startedMs / 1_000); // older than a source that was saved during the build
  });
}

/** Whether every source is older than `dist`, and every compiled file still has its source. */
function isFresh(): boolean {
  const index = join(ROOT, 'dist/index.js');
  if (!existsSync(index)) return false;
  const builtMs = statSync(index).mtimeMs;
  const sources = [
    ...readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).map((file) => join('src', file)),
    'tsconfig.json',
    'package.json',
  ];
  return (
    sources.every((file) => statSync(join(ROOT, file)).mtimeMs <= builtMs) &&
    namesOf('dist', /\.js$/).join() === namesOf('src', /(?<!\.d)\.ts$/).join()
  );
}

function namesOf(folder: string, ending: RegExp): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => ending.test(file) && !file.startsWith(join('cli', 'starter', 'template'))) // tsc leaves it out
    .map((file) => file.replace(ending, ''))
    .sort();
}

const POLL_MS = 50;

/** Runs `work` while no other process on this machine runs work of that name. What a dead process held is free. */
export function exclusively(name: string, work: () => void): void {
  const lock = join(tmpdir(), `${name}.lock`);
  const owner = join(lock, 'pid');
  while (!taken(lock)) {
    if (isDead(owner)) rmSync(lock, { recursive: true, force: true });
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS); // a lock between processes has no event to wait for
  }
  try {
    writeFileSync(owner, String(process.pid));
    work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

function taken(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function isDead(owner: string): boolean {
  let pid: string;
  try {
    pid = readFileSync(owner, 'utf8');
  } catch {
    return isOld(owner); // taken this very moment, or by one that died before it could say who it is
  }
  if (pid === '') return isOld(owner);
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch {
    return true;
  }
}

function isOld(owner: string): boolean {
  try {
    return Date.now() - statSync(resolve(owner, '..')).mtimeMs > 10_000;
  } catch {
    return false; // released meanwhile
  }
}
