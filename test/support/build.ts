/**
 * Builds the package for tests that run it as users do. Compiles only when a source is newer, in one process
 * at a time.
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

/** Folder of the repository. */
export const ROOT: string = resolve(import.meta.dirname, '../..');
/** Path of the command `svc`, as package.json names it. */
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
    // set the time of the start, so that `dist` is older than a source saved during the build
    utimesSync(join(ROOT, 'dist/index.js'), startedMs / 1_000, startedMs / 1_000);
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
    .filter((file) => ending.test(file) && !file.startsWith(join('cli', 'starter', 'template'))) // not compiled
    .map((file) => file.replace(ending, ''))
    .sort();
}

const POLL_MS = 50;

/**
 * Runs `work` while no other process on this machine runs work of the same name. Takes over the lock of a
 * process that has ended.
 */
export function exclusively(name: string, work: () => void): void {
  const lock = join(tmpdir(), `${name}.lock`);
  const owner = join(lock, 'pid');
  while (!taken(lock)) {
    if (isDead(owner)) rmSync(lock, { recursive: true, force: true });
    // wait and try again: a lock between processes has no event
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS);
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
    return isOld(owner); // the lock was just taken, or its process ended before it wrote its id
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
    return false; // the lock was released in between
  }
}
