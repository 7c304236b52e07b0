/**
 * Scratch databases: `svc check --scratch-database` creates one on a server, migrates it, prepares statements on it, and
 * drops it.
 *
 *   svc_check_20261129140500_1a2b3c4d     lease: the time in UTC until which a run may use it · random
 *
 * A run locks the name before it creates the database, and holds the lock until the database is dropped. The server
 * releases the lock of a run that was killed. So each run drops what earlier runs have left, and what no run holds.
 */
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { ignore } from '../../base/promises.ts';
import { isMySql, quotedName } from '../dialects.ts';
import { DatabaseError } from '../errors.ts';
import { limitIn } from '../limits.ts';
import { openForCommand } from '../open.ts';
import { parseDatabaseUrl, shownUrl, withDatabase } from '../url.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Database } from '../database.ts';
import type { Connection, Dialect } from '../driver.ts';

const NAME = /^svc_check_(\d{14})_[0-9a-f]{8}$/;
/** Longest time for which a run uses its database. After that, other runs drop it. */
const LEASE_MS = 3_600_000;
/** Time limit for creating or dropping a database, in milliseconds. */
const CREATE_MS = 60_000;

interface ServerTexts {
  readonly list: string;
  readonly create: string;
  readonly lock: string;
  /** Whether a session holds the lock, as a number. */
  readonly isLocked: string;
  /** Sessions that use a database, for `kill`. PostgreSQL ends them itself. */
  readonly sessions: string | undefined;
  /** End of `drop database`. */
  readonly force: string;
}

const MYSQL: ServerTexts = {
  list: 'select schema_name as name from information_schema.schemata',
  create: ' character set utf8mb4',
  lock: 'select get_lock(?, 0)',
  isLocked: 'select 1 - is_free_lock(?)',
  sessions: 'select id from information_schema.processlist where db = ?',
  force: '',
};
// the first number of an advisory lock is the text `svck` in ASCII
const POSTGRES: ServerTexts = {
  list: 'select datname::text as name from pg_catalog.pg_database',
  create: '',
  lock: 'select pg_catalog.pg_try_advisory_lock(1937138539, pg_catalog.hashtext(?))::int',
  // a lock belongs to one database, and another run may have named another database of the server
  isLocked: `select count(*)::int from pg_catalog.pg_locks where locktype = 'advisory' and classid = 1937138539
    and objid = (pg_catalog.hashtext(?)::int8 & 4294967295)::oid and objsubid = 2`,
  sessions: undefined,
  force: ' with (force)',
};

/** A scratch database. Disposing of it drops the database. */
interface Scratch extends AsyncDisposable {
  readonly url: string;
  /** Names of the other databases of the server. */
  readonly others: readonly string[];
}

interface ScratchDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly timeoutMs: number;
}

/**
 * Creates a scratch database on the server of an address, after dropping those that no run holds.
 *
 * @throws SvcError `E_SCRATCH_DATABASE` for SQLite, and when the database cannot be created; `E_DB_OPEN`, `E_DB_CONNECT`
 *   when the server cannot be reached
 */
export async function createScratch(url: string, deps: ScratchDeps): Promise<Scratch> {
  const { clock, log } = deps;
  if (parseDatabaseUrl(url).dialect === 'sqlite')
    throw new SvcError('E_SCRATCH_DATABASE', [
      'it needs a server, and for SQLite the migrations are applied in memory anyway',
    ]);
  const database = await openForCommand(url, { clock, log, slowStatementMs: 0, pool: { max: 1 } }, 'scratch');
  const server = new ScratchServer(database, deps);
  try {
    const { name, others } = await server.create();
    return {
      url: withDatabase(url, name),
      others,
      [Symbol.asyncDispose]: () => server.end(),
    };
  } catch (error) {
    await server.end();
    throw error instanceof DatabaseError
      ? new SvcError('E_SCRATCH_DATABASE', [`${shownUrl(url)}: ${error.message}`], { cause: error })
      : error;
  }
}

/** The server of a scratch database, with the connection that holds its lock. */
class ScratchServer {
  readonly #admin: Database;
  readonly #deps: ScratchDeps;
  readonly #dialect: Dialect;
  readonly #texts: ServerTexts;
  readonly #ended = Promise.withResolvers<void>();
  #holding: Promise<void> | undefined;

  constructor(admin: Database, deps: ScratchDeps) {
    this.#admin = admin;
    this.#deps = deps;
    this.#dialect = admin.dialect;
    this.#texts = isMySql(admin.dialect) ? MYSQL : POSTGRES;
  }

  /** Creates a database, whose lock is held until end(). */
  async create(): Promise<{ readonly name: string; readonly others: readonly string[] }> {
    const created = Promise.withResolvers<{ name: string; others: readonly string[] }>();
    this.#holding = this.#run(async (connection) => {
      await this.#sweep(connection);
      const stamp = stampOf(this.#deps.clock.nowMs() + LEASE_MS);
      const name = `svc_check_${stamp}_${randomBytes(4).toString('hex')}`;
      await this.#number(connection, this.#texts.lock, name);
      try {
        await this.#script(
          connection,
          `create database ${quotedName(this.#dialect, name)}${this.#texts.create}`,
        );
        created.resolve({ name, others: (await this.#list(connection)).filter((each) => each !== name) });
        await this.#ended.promise;
      } finally {
        await this.#drop(connection, name);
      }
      await this.#sweep(connection);
    });
    this.#holding.catch(created.reject);
    return created.promise;
  }

  /** Drops the database and closes the connection. Does not throw: the next run drops what is left. */
  async end(): Promise<void> {
    this.#ended.resolve();
    try {
      await this.#holding;
    } catch (error) {
      this.#deps.log.debug('scratch_database_failed', { reason: String(error) });
      // the connection is lost: another one sees that no run holds the database
      await this.#run((connection) => this.#sweep(connection)).catch(() => undefined);
    } finally {
      await this.#admin.close();
    }
  }

  /** Drops the databases of runs that have ended without dropping them. */
  async #sweep(connection: Connection): Promise<void> {
    for (const name of await this.#list(connection)) {
      const lease = NAME.exec(name)?.[1];
      if (lease === undefined) continue;
      const isOver = lease < stampOf(this.#deps.clock.nowMs());
      if (!isOver && (await this.#number(connection, this.#texts.isLocked, name)) > 0) continue;
      try {
        await this.#drop(connection, name);
      } catch (error) {
        // another user owns it, or another run has dropped it meanwhile
        this.#deps.log.debug('scratch_database_kept', { database: name, reason: String(error) });
      }
    }
  }

  async #list(connection: Connection): Promise<readonly string[]> {
    const rows = await connection.fetchAll(this.#texts.list, [], this.#limit());
    return rows.map(({ name }) => String(name));
  }

  async #number(connection: Connection, text: string, name: string): Promise<number> {
    return Number(await connection.scalar(text, [name], this.#limit()));
  }

  /** Drops a database, after ending the sessions that still use it: its run has ended, or is about to end. */
  async #drop(connection: Connection, name: string): Promise<void> {
    const { sessions, force } = this.#texts;
    for (const { id } of sessions === undefined
      ? []
      : await connection.fetchAll(sessions, [name], this.#limit()))
      // the session may have ended meanwhile
      await this.#script(connection, `kill ${Number(id)}`).catch(ignore);
    await this.#script(connection, `drop database if exists ${quotedName(this.#dialect, name)}${force}`);
  }

  async #script(connection: Connection, text: string): Promise<void> {
    await connection.script(text, limitIn(CREATE_MS, this.#deps.clock));
  }

  #run(work: (connection: Connection) => Promise<void>): Promise<void> {
    return this.#admin.run('statement', work, { timeoutMs: 0 });
  }

  #limit(): ReturnType<typeof limitIn> {
    return limitIn(this.#deps.timeoutMs, this.#deps.clock);
  }
}

/** Returns a time in UTC as 14 digits, such as `20261129140500`. */
function stampOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\D/g, '').slice(0, 14);
}
