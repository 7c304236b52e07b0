/**
 * A private MariaDB server in a scratch folder, from the programs of Debian. Tests may kill and restart it.
 *
 * The server is the child of a shell that waits for the end of its standard input, so it ends with the test
 * in any case. For root it runs as another user, because MariaDB refuses root.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { account, freePort, installed, isListening, killGroup } from './own-server.ts';
import type { Account } from './own-server.ts';
import type { Scope } from './run.ts';

const USER = 'svc';
const PASSWORD = 'only for tests';
const START_MS = 60_000;
/** Shell script that starts the server, and ends it when standard input ends. */
const SHELL = '"$@" & server=$!; cat > /dev/null; kill -TERM "$server" 2> /dev/null; wait "$server"';

function programOf(name: string): string | undefined {
  return [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/bin']
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** Returns why there is no server, or undefined if there is one. */
export function mariadbProblem(): string | undefined {
  if (
    process.env['MARIADB_URL'] !== undefined ||
    (programOf('mariadbd') !== undefined && programOf('mariadb-install-db') !== undefined)
  )
    return undefined;
  const problem = 'there is no MariaDB: apt-get install mariadb-server, or name a server by MARIADB_URL';
  if (process.env['REQUIRE_MARIADB'] === '1') throw new Error(problem);
  return problem;
}

/** A server with its data, which tests may stop, kill and restart. */
export class MariaDbServer {
  readonly folder: string;
  readonly port: number;
  readonly #as: Account;
  readonly #settings: readonly string[];
  #child: ChildProcess | undefined;
  /** Last part of the server's log. */
  #said = '';

  private constructor(folder: string, port: number, as: Account, settings: readonly string[]) {
    this.folder = folder;
    this.port = port;
    this.#as = as;
    this.#settings = settings;
  }

  /**
   * Creates and starts a server. `settings`: further arguments. `statements`: run by the administrator at
   * each start.
   */
  static async start(
    scope: Scope,
    settings: readonly string[] = [],
    statements: readonly string[] = [],
  ): Promise<MariaDbServer> {
    const as = account('MariaDB', 'mysql');
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-ma-')));
    chmodSync(folder, 0o755);
    if (as.uid !== undefined) chownSync(folder, as.uid, as.gid!);
    const server = new MariaDbServer(folder, await freePort(), as, settings);
    scope.after(async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    });
    server.#initialize(statements);
    await server.start();
    return server;
  }

  /** Address of the server over TCP. */
  get url(): string {
    return `mariadb://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${this.port}/svc`;
  }

  /** Address of the server by the unix socket. */
  get socketUrl(): string {
    return `mariadb://${USER}:${encodeURIComponent(PASSWORD)}@localhost/svc?socket=${encodeURIComponent(join(this.folder, 's'))}`;
  }

  /** Starts the server, and waits until it accepts connections. */
  async start(): Promise<void> {
    const endMs = systemClock.monotonicMs() + START_MS;
    while (!(await this.#started(endMs)))
      assert.ok(systemClock.monotonicMs() < endMs, `MariaDB does not start:\n${this.#said}`);
  }

  /** Ends the server at once, as a power failure does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await killGroup(child, this.port);
  }

  /** Shuts down like an administrator: connections get an error, and are closed. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid === undefined) return;
    child.ref();
    const ended = once(child, 'exit');
    child.stdin!.end();
    await ended;
  }

  /**
   * Creates the data. The server has its own folder for temporary files, because a starting server deletes
   * files of others there.
   */
  #initialize(statements: readonly string[]): void {
    execFileSync('cp', ['-a', installation(this.#as), join(this.folder, 'data')], {
      ...this.#as,
      cwd: this.folder,
    });
    writeFileSync(
      join(this.folder, 'init.sql'),
      [
        'create database if not exists svc character set utf8mb4;',
        `create user if not exists ${USER}@'%' identified by '${PASSWORD}';`,
        `grant all on *.* to ${USER}@'%' with grant option;`,
        ...statements,
        '',
      ].join('\n'),
    ); // one statement a line
  }

  async #started(endMs: number): Promise<boolean> {
    this.#said = '';
    const child = spawn(
      '/bin/sh',
      [
        '-c',
        SHELL,
        'sh',
        programOf('mariadbd')!,
        '--no-defaults',
        `--datadir=${join(this.folder, 'data')}`,
        `--tmpdir=${this.folder}`,
        `--socket=${join(this.folder, 's')}`,
        `--pid-file=${join(this.folder, 'pid')}`,
        `--port=${this.port}`,
        '--bind-address=127.0.0.1',
        `--init-file=${join(this.folder, 'init.sql')}`,
        '--character-set-server=utf8mb4',
        '--max-connections=200',
        '--max-allowed-packet=64M',
        '--skip-name-resolve',
        '--local-infile=1',
        '--innodb-buffer-pool-size=32M',
        '--innodb-flush-log-at-trx-commit=0',
        '--innodb-flush-method=nosync',
        '--sync-binlog=0',
        ...this.#settings,
      ],
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
    while (systemClock.monotonicMs() < endMs) {
      if (/ready for connections/.test(this.#said) && (await isListening(this.port))) return true;
      if (/\[ERROR\] Aborting/.test(this.#said)) break;
      await systemClock.sleep(10);
    }
    await this.kill();
    await systemClock.sleep(50);
    return false;
  }
}

/** Returns the folder with data of a server that was never started, to be copied. */
function installation(as: Account): string {
  const program = programOf('mariadb-install-db')!;
  return installed(
    'mariadb',
    [realpathSync(program), statSync(programOf('mariadbd')!).mtimeMs],
    as,
    (folder, data) => {
      execFileSync(
        program,
        [
          '--no-defaults',
          `--datadir=${data}`,
          `--tmpdir=${folder}`,
          '--auth-root-authentication-method=normal',
          '--skip-test-db',
        ],
        {
          ...as,
          cwd: folder,
          stdio: ['ignore', 'ignore', 'pipe'],
        },
      );
    },
  );
}
