/**
 * A private Redis or Valkey server without files, with or without TLS, users and a unix socket. Tests may
 * kill and restart it.
 *
 * It is the child of a shell that waits for the end of its standard input, so it ends with the test in any
 * case. Without the program tests are skipped, or fail with REQUIRE_REDIS=1.
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

/** Returns the path of the program: that of REDIS_SERVER, or the one in PATH. */
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

/** Returns why there is no server, or undefined if there is one. */
export function redisProblem(): string | undefined {
  if (redisProgram() !== undefined) return undefined;
  const problem = 'there is no Redis: apt-get install redis-server';
  if (process.env['REQUIRE_REDIS'] === '1') throw new Error(problem);
  return problem;
}

/** Skips a test if there is no server. */
export function needsRedis(t: TestContext): boolean {
  const problem = redisProblem();
  if (problem !== undefined) t.skip(problem);
  return problem === undefined;
}

/** A server that tests may stop, pause, kill and restart. */
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

  /** Creates and starts a server. `settings`: arguments such as `'--requirepass', 'x'`. */
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
      // at run time, pipes of child processes are sockets with unref()
      (stream as unknown as { unref?(): void }).unref?.();
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

  /** Ends the server at once. Its data is lost. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await killGroup(child, this.port);
  }

  /** Pauses the server, as an overloaded machine does. */
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

/** Returns the server that the tests of this process share. Call `needsRedis` first. */
export function sharedRedis(): Promise<RedisServer> {
  return (shared ??= RedisServer.start({ after: (end) => void ends.push(end) }));
}
