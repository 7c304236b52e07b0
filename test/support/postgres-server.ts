/**
 * A private PostgreSQL server in a scratch folder, from the programs of Debian. For root it runs as another
 * user, because PostgreSQL refuses root.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
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
import { OwnServer, account, freePort, installed, isExecutable } from './own-server.ts';
import type { Account } from './own-server.ts';
import type { Scope } from './run.ts';

const DEBIAN = '/usr/lib/postgresql';
const USER = 'svc';
const PASSWORD = 'only for tests';

/** Returns the folder with initdb and postgres of the newest installed version, or undefined. */
export function postgresPrograms(): string | undefined {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  return versions
    .map((version) => join(DEBIAN, version, 'bin'))
    .find((folder) => ['postgres', 'initdb'].every((name) => isExecutable(join(folder, name))));
}

/** Returns why there is no server, or undefined if there is one. */
export function postgresProblem(): string | undefined {
  if (process.env['POSTGRES_URL'] !== undefined || postgresPrograms() !== undefined) return undefined;
  const problem = 'there is no PostgreSQL: apt-get install postgresql-15, or name a server by POSTGRES_URL';
  if (process.env['REQUIRE_POSTGRES'] === '1') throw new Error(problem);
  return problem;
}

/** A server with its data. */
export class PostgresServer extends OwnServer {
  /** Creates and starts a server. `settings`: lines of postgresql.conf. */
  static async start(scope: Scope, settings: readonly string[] = []): Promise<PostgresServer> {
    const programs = postgresPrograms();
    assert.ok(programs !== undefined, 'there is no PostgreSQL on this machine');
    const as = account('PostgreSQL', 'postgres');
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-pg-')));
    chmodSync(folder, 0o700);
    if (as.uid !== undefined) chownSync(folder, as.uid, as.gid!);
    const data = join(folder, 'data');
    const port = await freePort();
    const server = new PostgresServer(folder, port, {
      name: 'PostgreSQL',
      command: [join(programs, 'postgres'), '-D', data],
      as,
      endsBy: 'INT',
      isReady: () => /^ready/m.test(textOf(join(data, 'postmaster.pid'))),
      // FATAL alone is not enough: clients that connect too early get it, too
      failure: /FATAL: {2}(?:lock file|pre-existing|could not)/,
    });
    scope.after(async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    });
    execFileSync('cp', ['-a', cluster(programs, as), data], { ...as, cwd: folder });
    writeFileSync(
      join(data, 'postgresql.conf'),
      [
        `listen_addresses = '127.0.0.1'`,
        `port = ${port}`,
        `unix_socket_directories = '${folder}'`,
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

  /** Ends the server at once, with all its processes, as a power failure does. */
  override async kill(): Promise<void> {
    await super.kill();
    rmSync(join(this.folder, 'data/postmaster.pid'), { force: true });
  }

  /** Id of the postmaster process. */
  get pid(): number {
    return Number(readFileSync(join(this.folder, 'data/postmaster.pid'), 'utf8').split('\n')[0]);
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
