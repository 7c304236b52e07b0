/**
 * A PostgreSQL server of one's own: made in a scratch folder from the programs that Debian installs, killed and started at will.
 *
 * The server is a child of a shell that waits for the end of its standard input: whatever becomes of the test, it does not
 * outlive it. As root it runs as another user, since it refuses root.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { account, freePort, installed, isListening, killGroup } from './own-server.ts';
import type { Account } from './own-server.ts';
import type { Scope } from './run.ts';

const DEBIAN = '/usr/lib/postgresql';
const USER = 'svc';
const PASSWORD = 'only for tests';
const START_MS = 30_000;
/** Whoever holds the shell holds the server. */
const SHELL = '"$@" & server=$!; cat > /dev/null; kill -INT "$server" 2> /dev/null; wait "$server"';

/** The folder with initdb and postgres, of the newest version there is. */
export function postgresPrograms(): string | undefined {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  return versions
    .map((version) => join(DEBIAN, version, 'bin'))
    .find((folder) => {
      try {
        accessSync(join(folder, 'postgres'), constants.X_OK);
        accessSync(join(folder, 'initdb'), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** Why there is no server, if there is none. */
export function postgresProblem(): string | undefined {
  if (process.env['POSTGRES_URL'] !== undefined || postgresPrograms() !== undefined) return undefined;
  const problem = 'there is no PostgreSQL: apt-get install postgresql-15, or name a server by POSTGRES_URL';
  if (process.env['REQUIRE_POSTGRES'] === '1') throw new Error(problem);
  return problem;
}

/** A server, its data, and how to be unkind to it. */
export class PostgresServer {
  readonly folder: string;
  readonly port: number;
  readonly #programs: string;
  readonly #as: Account;
  #child: ChildProcess | undefined;
  /** The end of its log. */
  #said = '';

  private constructor(programs: string, folder: string, port: number, as: Account) {
    this.#programs = programs;
    this.folder = folder;
    this.port = port;
    this.#as = as;
  }

  /** Makes and starts one. `settings` are lines of postgresql.conf. */
  static async start(scope: Scope, settings: readonly string[] = []): Promise<PostgresServer> {
    const programs = postgresPrograms();
    assert.ok(programs !== undefined, 'there is no PostgreSQL on this machine');
    const as = account('PostgreSQL', 'postgres');
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-pg-')));
    chmodSync(folder, 0o700);
    if (as.uid !== undefined) chownSync(folder, as.uid, as.gid!);
    const server = new PostgresServer(programs, folder, await freePort(), as);
    scope.after(async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    });
    server.#initialize(settings);
    await server.start();
    return server;
  }

  /** Its address over TCP, with log-in by SCRAM. */
  get url(): string {
    return `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${this.port}/postgres`;
  }

  /** Its address by the unix socket, where everybody is trusted. */
  get socketUrl(): string {
    return `postgres://${USER}@/postgres?host=${encodeURIComponent(this.folder)}&port=${this.port}`;
  }

  /** Starts it and waits until it takes connections. What a killed one has left behind may keep it from starting for a moment. */
  async start(): Promise<void> {
    const endMs = systemClock.monotonicMs() + START_MS;
    while (!(await this.#started(endMs)))
      assert.ok(systemClock.monotonicMs() < endMs, `PostgreSQL does not start:\n${this.#said}`);
  }

  /** Ends it at once, with all its processes, as a power failure does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await killGroup(child, this.port);
    rmSync(join(this.folder, 'data/postmaster.pid'), { force: true });
  }

  /** Ends it as an administrator does who does not wait: connections are told, and closed. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid === undefined) return;
    child.ref();
    const ended = once(child, 'exit');
    process.kill(this.pid, 'SIGINT');
    child.stdin!.end();
    await ended;
  }

  /** Of the process that takes connections. */
  get pid(): number {
    return Number(readFileSync(join(this.folder, 'data/postmaster.pid'), 'utf8').split('\n')[0]);
  }

  #initialize(settings: readonly string[]): void {
    execFileSync('cp', ['-a', cluster(this.#programs, this.#as), join(this.folder, 'data')], {
      ...this.#as,
      cwd: this.folder,
    });
    writeFileSync(
      join(this.folder, 'data/postgresql.conf'),
      [
        `listen_addresses = '127.0.0.1'`,
        `port = ${this.port}`,
        `unix_socket_directories = '${this.folder}'`,
        `timezone = 'UTC'`,
        'fsync = off',
        'synchronous_commit = off',
        'full_page_writes = off',
        'max_connections = 120',
        'shared_buffers = 32MB',
        'autovacuum = off',
        ...settings,
        '',
      ].join('\n'),
    );
  }

  async #started(endMs: number): Promise<boolean> {
    this.#said = '';
    const child = spawn(
      '/bin/sh',
      ['-c', SHELL, 'sh', join(this.#programs, 'postgres'), '-D', join(this.folder, 'data')],
      {
        ...this.#as,
        cwd: this.folder,
        detached: true,
        stdio: ['pipe', 'ignore', 'pipe'],
        env: { PATH: process.env['PATH'] ?? '' },
      },
    );
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(-10_000);
    });
    child.unref();
    (child.stdin as unknown as { unref?(): void }).unref?.(); // pipes of child processes are sockets
    (child.stderr as unknown as { unref?(): void }).unref?.();
    this.#child = child;
    const ready = join(this.folder, 'data/postmaster.pid');
    while (systemClock.monotonicMs() < endMs) {
      if (/FATAL: {2}(?:lock file|pre-existing|could not)/.test(this.#said)) break; // clients that come too early are told FATAL, too
      if (/^ready/m.test(textOf(ready)) && (await isListening(this.port))) return true;
      await systemClock.sleep(10);
    }
    await this.kill();
    await systemClock.sleep(50);
    return false;
  }
}

/** Nothing where there is no file: a server that cannot start takes its own away, between two looks as well. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

/** A cluster that nobody has started yet. */
function cluster(programs: string, as: Account): string {
  return installed('postgres', [programs, USER, PASSWORD], as, (folder, data) => {
    const secret = join(folder, 'password');
    writeFileSync(secret, `${PASSWORD}\n`, { mode: 0o600 });
    if (as.uid !== undefined) chownSync(secret, as.uid, as.gid!);
    execFileSync(
      join(programs, 'initdb'),
      [
        '-D',
        data,
        '-U',
        USER,
        '--pwfile',
        secret,
        '--auth-local=trust',
        '--auth-host=scram-sha-256',
        '-E',
        'UTF8',
        '--locale=C',
        '--no-sync',
      ],
      { ...as, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] },
    );
  });
}
