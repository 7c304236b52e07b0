/**
 * A private PostgreSQL server in a scratch folder, from the programs of Debian. Tests may kill and restart
 * it.
 *
 * The server is the child of a shell that waits for the end of its standard input, so it ends with the test
 * in any case. For root it runs as another user, because PostgreSQL refuses root.
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
/** Shell script that starts the server, and ends it when standard input ends. */
const SHELL = '"$@" & server=$!; cat > /dev/null; kill -INT "$server" 2> /dev/null; wait "$server"';

/** Returns the folder with initdb and postgres of the newest installed version, or undefined. */
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

/** Returns why there is no server, or undefined if there is one. */
export function postgresProblem(): string | undefined {
  if (process.env['POSTGRES_URL'] !== undefined || postgresPrograms() !== undefined) return undefined;
  const problem = 'there is no PostgreSQL: apt-get install postgresql-15, or name a server by POSTGRES_URL';
  if (process.env['REQUIRE_POSTGRES'] === '1') throw new Error(problem);
  return problem;
}

/** A server with its data, which tests may stop, kill and restart. */
export class PostgresServer {
  readonly folder: string;
  readonly port: number;
  readonly #programs: string;
  readonly #as: Account;
  #child: ChildProcess | undefined;
  /** Last part of the server's log. */
  #said = '';

  private constructor(programs: string, folder: string, port: number, as: Account) {
    this.#programs = programs;
    this.folder = folder;
    this.port = port;
    this.#as = as;
  }

  /** Creates and starts a server. `settings`: lines of postgresql.conf. */
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

  /** Address of the server over TCP, with login by SCRAM. */
  get url(): string {
    return `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${this.port}/postgres`;
  }

  /** Address of the server by the unix socket, which needs no password. */
  get socketUrl(): string {
    return `postgres://${USER}@/postgres?host=${encodeURIComponent(this.folder)}&port=${this.port}`;
  }

  /**
   * Starts the server, and waits until it accepts connections. Files of a killed server may delay the start
   * for a moment.
   */
  async start(): Promise<void> {
    const endMs = systemClock.monotonicMs() + START_MS;
    while (!(await this.#started(endMs)))
      assert.ok(systemClock.monotonicMs() < endMs, `PostgreSQL does not start:\n${this.#said}`);
  }

  /** Ends the server at once, with all its processes, as a power failure does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await killGroup(child, this.port);
    rmSync(join(this.folder, 'data/postmaster.pid'), { force: true });
  }

  /** Shuts down fast: connections get an error, and are closed. */
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

  /** Id of the postmaster process. */
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
    // at run time, pipes of child processes are sockets with unref()
    (child.stdin as unknown as { unref?(): void }).unref?.();
    (child.stderr as unknown as { unref?(): void }).unref?.();
    this.#child = child;
    const ready = join(this.folder, 'data/postmaster.pid');
    while (systemClock.monotonicMs() < endMs) {
      // FATAL alone is not enough: clients that connect too early get it, too
      if (/FATAL: {2}(?:lock file|pre-existing|could not)/.test(this.#said)) break;
      if (/^ready/m.test(textOf(ready)) && (await isListening(this.port))) return true;
      await systemClock.sleep(10);
    }
    await this.kill();
    await systemClock.sleep(50);
    return false;
  }
}

/**
 * Returns the text of a file, or an empty text without the file. A server that cannot start deletes its own
 * file, also between two reads.
 */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

/** Returns the folder with a database cluster that was never started, to be copied. */
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
