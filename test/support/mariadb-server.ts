/**
 * A private MariaDB server in a scratch folder, from the programs of Debian. For root it runs as another user,
 * because MariaDB refuses root.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { OwnServer, account, freePort, installed, programOf } from './own-server.ts';
import type { Account } from './own-server.ts';
import type { Scope } from './run.ts';

const USER = 'svc';
const PASSWORD = 'only for tests';

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

/** A server with its data. */
export class MariaDbServer extends OwnServer {
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
    const port = await freePort();
    const server = new MariaDbServer(folder, port, {
      name: 'MariaDB',
      command: commandOf(folder, port, settings),
      as,
      endsBy: 'TERM',
      isReady: (log) => log.includes('ready for connections'),
      failure: /\[ERROR\] Aborting/,
    });
    scope.after(async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    });
    execFileSync('cp', ['-a', installation(as), join(folder, 'data')], { ...as, cwd: folder });
    writeFileSync(
      join(folder, 'init.sql'),
      [
        'create database if not exists svc character set utf8mb4;',
        `create user if not exists ${USER}@'%' identified by '${PASSWORD}';`,
        `grant all on *.* to ${USER}@'%' with grant option;`,
        ...statements,
        '',
      ].join('\n'),
    ); // one statement a line
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
}

/** The folder for temporary files is the server's own, because a starting server deletes files of others there. */
function commandOf(folder: string, port: number, settings: readonly string[]): readonly string[] {
  return [
    programOf('mariadbd')!,
    '--no-defaults',
    `--datadir=${join(folder, 'data')}`,
    `--tmpdir=${folder}`,
    `--socket=${join(folder, 's')}`,
    `--pid-file=${join(folder, 'pid')}`,
    `--port=${port}`,
    '--bind-address=127.0.0.1',
    `--init-file=${join(folder, 'init.sql')}`,
    '--character-set-server=utf8mb4',
    '--max-connections=200',
    '--max-allowed-packet=64M',
    '--skip-name-resolve',
    '--local-infile=1',
    '--innodb-buffer-pool-size=32M',
    '--innodb-flush-log-at-trx-commit=0',
    '--innodb-flush-method=nosync',
    '--sync-binlog=0',
    ...settings,
  ];
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
