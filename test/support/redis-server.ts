/**
 * A private Redis or Valkey server without files, with or without TLS, users and a unix socket. Without the
 * program tests are skipped, or fail with REQUIRE_REDIS=1.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext } from 'node:test';
import { OwnServer, freePort, isExecutable, programOf } from './own-server.ts';
import { inReverse, type Scope } from './run.ts';

/** Returns the path of the program: that of REDIS_SERVER, or the one in PATH. */
export function redisProgram(): string | undefined {
  const named = process.env['REDIS_SERVER'] ?? '';
  return isExecutable(named) ? named : (programOf('redis-server') ?? programOf('valkey-server'));
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

/** A server whose data is lost when it ends. */
export class RedisServer extends OwnServer {
  /** Creates and starts a server. `settings`: arguments such as `'--requirepass', 'x'`. */
  static async start(scope: Scope, settings: readonly string[] = []): Promise<RedisServer> {
    const program = redisProgram();
    assert.ok(program !== undefined, 'there is no Redis on this machine');
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-redis-')));
    const port = await freePort();
    const server = new RedisServer(folder, port, {
      name: 'Redis',
      command: [
        program,
        ...['--port', String(port), '--bind', '127.0.0.1', '--unixsocket', join(folder, 's')],
        ...['--dir', folder, '--save', '', '--appendonly', 'no', '--daemonize', 'no'],
        ...settings,
      ],
      endsBy: 'KILL',
    });
    scope.after(async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
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
}

/** The tests of this process. */
const PROCESS = inReverse({ after });
let shared: Promise<RedisServer> | undefined;

/** Returns the server that the tests of this process share. Call `needsRedis` first. */
export function sharedRedis(): Promise<RedisServer> {
  return (shared ??= RedisServer.start(PROCESS));
}
