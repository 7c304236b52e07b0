/**
 * Private servers of databases and stores: processes, data that is created once for each machine, users and
 * ports. Tests may stop, kill and restart a server.
 *
 * A server is the child of a shell that waits for the end of its standard input, so it ends with the test in
 * any case.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { accessSync, chownSync, constants, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { exclusively } from './build.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { ChildProcess } from 'node:child_process';
import type { AddressInfo } from 'node:net';

/** User of a program: the current one, or one with fewer rights than root. */
export interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

/** Returns the account for a server that refuses to run as root. */
export function account(server: string, user: string): Account {
  if (process.getuid?.() !== 0) return {};
  for (const name of [user, 'nobody']) {
    try {
      return { uid: Number(execFileSync('id', ['-u', name])), gid: Number(execFileSync('id', ['-g', name])) };
    } catch {
      // try the next name
    }
  }
  throw new Error(`${server} does not run as root, and there is no user "${user}" or "nobody"`);
}

/**
 * Returns the folder with data of a server that was never started. It is created once for each machine and
 * value of `of`, and copied for each server, which takes a fraction of the time. `make` creates the data in a
 * folder of the account `as`.
 */
export function installed(
  server: string,
  of: unknown,
  as: Account,
  make: (folder: string, data: string) => void,
): string {
  const name = `svc-${server}-${hash('sha256', JSON.stringify([of, as])).slice(0, 12)}`;
  const folder = join(tmpdir(), 'svc-scratch', name);
  const data = join(folder, 'data');
  exclusively(name, () => {
    if (existsSync(data)) return;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    if (as.uid !== undefined) chownSync(folder, as.uid, as.gid!);
    const making = join(folder, 'making');
    make(folder, making);
    renameSync(making, data);
  });
  return data;
}

/** Returns the path of a program in PATH or in the folders of Debian, or undefined. */
export function programOf(name: string): string | undefined {
  return [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/bin', '/usr/local/bin']
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** Returns whether a path is a program. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns a free port. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Returns whether a port of this machine accepts connections. */
export async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Maximum duration of a start, with all its attempts. */
const START_MS = 60_000;

/** Program of a server, and what it prints. */
export interface ServerProgram {
  /** Name in messages. */
  readonly name: string;
  /** Program and arguments. */
  readonly command: readonly string[];
  readonly as?: Account;
  /** Signal that ends the server when the test ends. */
  readonly endsBy: 'INT' | 'KILL' | 'TERM';
  /** Whether the server has started, by its log. Its port accepts connections. Default: always. */
  isReady?(log: string): boolean;
  /** Matches the log of a start that fails, perhaps because another program has taken the port. */
  readonly failure?: RegExp;
}

/** A server in a folder, which tests may stop, pause, kill and restart. */
export class OwnServer {
  readonly folder: string;
  readonly port: number;
  readonly #program: ServerProgram;
  #child: ChildProcess | undefined;
  /** Last part of the server's log. */
  #said = '';

  constructor(folder: string, port: number, program: ServerProgram) {
    this.folder = folder;
    this.port = port;
    this.#program = program;
  }

  /**
   * Starts the server, and waits until it accepts connections. Repeats a start that fails: files of a killed
   * server may delay the start for a moment.
   */
  async start(): Promise<void> {
    const endMs = systemClock.monotonicMs() + START_MS;
    while (!(await this.#started(endMs)))
      assert.ok(systemClock.monotonicMs() < endMs, `${this.#program.name} does not start:\n${this.#said}`);
  }

  /** Ends the server at once, with all its processes, as a power failure does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const ended = once(child, 'exit');
    process.kill(-child.pid, 'SIGKILL');
    await ended;
    while (await isListening(this.port)) await systemClock.sleep(5);
  }

  /** Shuts down like an administrator: connections get an error, and are closed. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid === undefined || child.exitCode !== null) return;
    child.ref();
    const ended = once(child, 'exit');
    child.stdin!.end();
    await ended;
  }

  /** Pauses the server, as an overloaded machine does. */
  pause(): void {
    process.kill(-this.#child!.pid!, 'SIGSTOP');
  }
  resume(): void {
    process.kill(-this.#child!.pid!, 'SIGCONT');
  }

  async #started(endMs: number): Promise<boolean> {
    const { command, as = {}, failure } = this.#program;
    this.#said = '';
    const child = spawn('/bin/sh', ['-c', this.#script(), 'sh', ...command], {
      ...as,
      cwd: this.folder,
      detached: true,
      stdio: 'pipe',
      env: { PATH: process.env['PATH'] ?? '' },
    });
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#said = (this.#said + text).slice(-10_000);
      });
    child.unref();
    // at run time, pipes of child processes are sockets with unref()
    for (const stream of child.stdio) (stream as { unref?(): void } | null | undefined)?.unref?.();
    this.#child = child;
    while (systemClock.monotonicMs() < endMs && !failure?.test(this.#said)) {
      if ((this.#program.isReady?.(this.#said) ?? true) && (await isListening(this.port))) return true;
      await systemClock.sleep(10);
    }
    await this.kill();
    await systemClock.sleep(50);
    return false;
  }

  /** Returns the shell script that starts the server, and ends it when standard input ends. */
  #script(): string {
    return `"$@" & server=$!; cat > /dev/null; kill -${this.#program.endsBy} "$server" 2> /dev/null; wait "$server"`;
  }
}
