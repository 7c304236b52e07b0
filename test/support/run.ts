/**
 * Child processes and scratch folders for tests. Tests wait for the output of a process; processes and
 * folders are removed after the test.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { BIN, ROOT } from './build.ts';
import type { ChildProcess } from 'node:child_process';

/** Registers clean-up: a `TestContext`, or the hooks of a module. */
export interface Scope {
  after(fn: () => unknown): void;
}

/** A scope that cleans up when it is disposed of: the last resource first. */
export class Ends implements Scope, AsyncDisposable {
  readonly #ends: (() => unknown)[] = [];

  after(fn: () => unknown): void {
    this.#ends.unshift(fn);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends.splice(0)) await end();
  }
}

/** Returns a scope that ends with another one, and cleans up the last resource first. */
export function inReverse(scope: Scope): Scope {
  const ends = new Ends();
  scope.after(() => ends[Symbol.asyncDispose]());
  return ends;
}

/** How a process ended. */
export interface Ended {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Folder and environment of a process. `env` is added to that of this process, without settings of svc, npm,
 * GitHub and Node.js; `undefined` removes a variable.
 */
export interface RunOptions {
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Maximum lifetime of a process in milliseconds. */
const DEADLINE_MS = 240_000;

/** A running process. */
export class Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  #stdout = '';
  #stderr = '';
  readonly #waiting = new Set<() => void>();

  constructor(command: string, args: readonly string[], { cwd, env }: RunOptions = {}) {
    this.child = spawn(command, args, { cwd, env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] });
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#tell();
    });
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
      this.#tell();
    });
    const deadline = setTimeout(() => this.child.kill('SIGKILL'), DEADLINE_MS).unref();
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject).on('close', (status, signal) => {
        clearTimeout(deadline);
        resolve({ status, signal, stdout: this.#stdout, stderr: this.#stderr });
        this.#tell();
      });
    });
  }

  /**
   * Resolves with the first match in the output of either stream. Rejects when the process ends without it.
   */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    const ended = this.ended.then(() => true);
    for (;;) {
      const match = pattern.exec(this.#stdout) ?? pattern.exec(this.#stderr);
      if (match !== null) return match;
      const news = Promise.withResolvers<false>();
      const tell = (): void => news.resolve(false);
      this.#waiting.add(tell);
      const isOver = await Promise.race([ended, news.promise]);
      this.#waiting.delete(tell);
      if (isOver && !pattern.test(this.#stdout) && !pattern.test(this.#stderr)) {
        throw new Error(
          `The process ended without printing ${String(pattern)}:\n${this.#stdout}${this.#stderr}`,
        );
      }
    }
  }

  /**
   * Resolves when a global pattern has matched `count` times on standard error. Rejects when the process ends
   * before.
   */
  async printedTimes(pattern: RegExp, count: number): Promise<void> {
    const ended = this.ended.then(() => true);
    while (this.count(pattern) < count) {
      const news = Promise.withResolvers<false>();
      const tell = (): void => news.resolve(false);
      this.#waiting.add(tell);
      const isOver = await Promise.race([ended, news.promise]);
      this.#waiting.delete(tell);
      if (isOver)
        throw new Error(`The process ended without printing ${String(pattern)} ${count} times:
${this.#stderr}`);
    }
  }

  /** Returns how often a pattern has matched on standard error. */
  count(pattern: RegExp): number {
    return this.#stderr.match(pattern)?.length ?? 0;
  }

  #tell(): void {
    for (const tell of this.#waiting) tell();
  }
}

/** Starts a process that ends with the test. */
export function start(scope: Scope, command: string, args: readonly string[], options?: RunOptions): Running {
  const running = new Running(command, args, options);
  scope.after(async () => {
    if (running.child.exitCode === null && running.child.signalCode === null) running.child.kill('SIGKILL');
    await running.ended.catch(() => {
      /* ignore it: the process never started */
    });
  });
  return running;
}

/** Runs a process to its end. */
export function run(command: string, args: readonly string[], options?: RunOptions): Promise<Ended> {
  return new Running(command, args, options).ended;
}

/** Runs the command `svc` to its end. */
export function svc(args: readonly string[], options?: RunOptions): Promise<Ended> {
  return run(process.execPath, [BIN, ...args], options);
}

function environment(env: RunOptions['env'] = {}): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) =>
      !/^(?:SVC_|GITHUB_|NODE_OPTIONS$|NODE_TEST_CONTEXT$|npm_|NO_COLOR$|FORCE_COLOR$)/i.test(name) ||
      /^npm_config_(?:cache|registry|userconfig)$/i.test(name),
  );
  // the tests of the delay set it themselves
  const all = { ...Object.fromEntries(own), SVC_SHUTDOWN_DELAY_SECONDS: '0', ...env };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** Returns a folder with these files, which is deleted after the test. */
export function folder(scope: Scope, files: Readonly<Record<string, string>> = {}): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'svc-test-')));
  scope.after(() => rmSync(path, { recursive: true, force: true }));
  write(path, files);
  return path;
}

/** Returns a folder that imports this repository as the package `svc`. */
export function project(scope: Scope, files: Readonly<Record<string, string>> = {}): string {
  const path = folder(scope, { 'package.json': '{"type":"module"}', ...files });
  mkdirSync(join(path, 'node_modules'), { recursive: true });
  symlinkSync(ROOT, join(path, 'node_modules/svc'), 'dir');
  return path;
}

/** Writes files into a folder, by their relative paths. */
export function write(path: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), content);
  }
}
