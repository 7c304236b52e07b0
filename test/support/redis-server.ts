/**
 * A Redis or Valkey server of one's own: without files, with or without TLS, users and a unix socket, killed and started at will.
 *
 * It is a child of a shell that waits for the end of its standard input: whatever becomes of the test, it does not outlive it.
 * Without the program tests are skipped, which REQUIRE_REDIS=1 turns into a failure.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { accessSync, constants, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { freePort, isListening, killGroup } from './own-server.ts';
import type { Scope } from './run.ts';

const PROGRAMS = ['redis-server', 'valkey-server'].flatMap((name) =>
  (process.env['PATH'] ?? '').split(':').map((folder) => join(folder, name)),
);
const START_MS = 20_000;
const SHELL = '"$@" & server=$!; cat > /dev/null; kill -KILL "$server" 2> /dev/null; wait "$server"';

/** The program: REDIS_SERVER names it, or it is in the path. */
export function redisProgram(): string | undefined {
  return [process.env['REDIS_SERVER'] ?? '', ...PROGRAMS].find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return path !== '';
    } catch {
      return false;
    }
  });
}

/** Why there is no server, if there is none. */
export function redisProblem(): string | undefined {
  if (redisProgram() !== undefined) return undefined;
  const problem = 'there is no Redis: apt-get install redis-server';
  if (process.env['REQUIRE_REDIS'] === '1') throw new Error(problem);
  return problem;
}

/** Skips a test where there is no server. */
export function needsRedis(t: TestContext): boolean {
  const problem = redisProblem();
  if (problem !== undefined) t.skip(problem);
  return problem === undefined;
}

/** A server, and how to be unkind to it. */
export class RedisServer {
  readonly port: number;
  readonly folder: string;
  readonly #settings: readonly string[];
  #child: ChildProcess | undefined;
  #said = '';

  private constructor(port: number, settings: readonly string[]) {
    this.port = port;
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-redis-')));
    this.#settings = settings;
  }

  /** Makes and starts one. `settings` are words of its command line: `'--requirepass', 'x'`. */
  static async start(scope: Scope, settings: readonly string[] = []): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), settings);
    scope.after(async () => {
      await server.kill();
      rmSync(server.folder, { recursive: true, force: true });
    });
    await server.start();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}/0`;
  }
  get socket(): string {
    return join(this.folder, 's');
  }

  async start(): Promise<void> {
    const program = redisProgram();
    assert.ok(program !== undefined, 'there is no Redis on this machine');
    const child = spawn(
      '/bin/sh',
      [
        '-c',
        SHELL,
        'sh',
        program,
        '--port',
        String(this.port),
        '--bind',
        '127.0.0.1',
        '--unixsocket',
        this.socket,
        '--dir',
        this.folder,
        '--save',
        '',
        '--appendonly',
        'no',
        '--daemonize',
        'no',
        ...this.#settings,
      ],
      {
        cwd: this.folder,
        detached: true,
        stdio: ['pipe', 'pipe', 'pipe'],
        env: { PATH: process.env['PATH'] ?? '' },
      },
    );
    this.#said = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#said = (this.#said + text).slice(-4_000);
      });
      (stream as unknown as { unref?(): void }).unref?.(); // pipes of child processes are sockets
    }
    child.unref();
    (child.stdin as unknown as { unref?(): void }).unref?.();
    this.#child = child;
    const endMs = systemClock.monotonicMs() + START_MS;
    while (!(await isListening(this.port))) {
      assert.ok(
        systemClock.monotonicMs() < endMs && child.exitCode === null,
        `Redis does not start:\n${this.#said}`,
      );
      await systemClock.sleep(10);
    }
  }

  /** Ends it at once, with all that it holds. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await killGroup(child, this.port);
  }

  /** Holds it up, as a machine does that is out of breath. */
  pause(): void {
    process.kill(-this.#child!.pid!, 'SIGSTOP');
  }
  resume(): void {
    process.kill(-this.#child!.pid!, 'SIGCONT');
  }
}

let shared: Promise<RedisServer> | undefined;
const ends: (() => void | Promise<void>)[] = [];
after(async () => {
  for (const end of ends.reverse()) await end();
});

/** The server that the tests of this process share. `needsRedis` is asked first. */
export function sharedRedis(): Promise<RedisServer> {
  return (shared ??= RedisServer.start({ after: (end) => void ends.push(end) }));
}
