/**
 * Plugin that gives an application a database. The database opens before all other start hooks run, and
 * closes after all other stop hooks.
 *   app.register(new DatabasePlugin('postgres://user:password@host/database'));
 *   app.get('/notes', { db: Depends(db) }, ({ db }) => db.fetchAll('select id, title from notes'));
 *   app.state.db.execute(...) // outside of requests
 *
 * A second database needs a name: `new DatabasePlugin(url, { name: 'reporting' })`. A handler gets it by
 * `Depends(database('reporting'))`.
 *
 * Importing this module adds the property `app.state.db`. Reading it before the plugin is registered throws
 * `E_STATE_UNSET`.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { SvcError } from '../base/errors.ts';
import { isServedByMany } from '../base/config.ts';
import { AppState, services, stateKey } from '../http/state.ts';
import { onePer, oneOf, readOptions, text } from '../base/options.ts';
import { Database } from './database.ts';
import { Migrator, type MigratorOptions } from './migrations/migrations.ts';
import { hashOf, readMigrations } from './migrations/source.ts';
import { Seeder } from './migrations/seeds.ts';
import {
  errorOfDatabase,
  migrateAtStart,
  type MigrationPolicy,
  type OpenMigrator,
} from './migrations/start.ts';
import { prepareDatabase, type DatabaseOptions, type PreparedDatabase } from './open.ts';
import { parseDatabaseUrl, shownUrl } from './url.ts';
import type { DescribedPlace, Describer } from './describe/describer.ts';
import type { CompiledView, HostLike, PluginLike, Rule, StateKey } from '../http/contracts.ts';
import type { ContributedMigration, MigrationSources, MigrationStamp } from './migrations/source.ts';
import type { Counter, Histogram, Metrics } from '../observability/metrics.ts';
import type { MigratedTables } from './row-classes.ts';
import type { Dialect, DriverLoad } from './driver.ts';

declare module '../http/state.ts' {
  interface AppState {
    /**
     * Database of the application's `DatabasePlugin`. Reading the property throws `E_STATE_UNSET` if no
     * `DatabasePlugin` with the default name is registered.
     */
    readonly db: Database;
  }
}

/** Default `name` of a plugin. @internal */
export const DEFAULT_NAME = 'database';
const MIGRATIONS = 'migrations';
const SEEDS = 'seeds';
const LEAK_SECONDS = 30;
const ONE_FILE =
  'A file of SQLite has one writer at a time: several processes wait for each other, and all must be on one machine';
const keys = new Map<string, StateKey<Database>>();

/** Returns the key of a database, for `Depends()` and `app.state.get()`. `name` is the name of its plugin. */
export function database(name: string): StateKey<Database> {
  let key = keys.get(name);
  if (key === undefined) keys.set(name, (key = stateKey<Database>(name === DEFAULT_NAME ? 'db' : name)));
  return key;
}

/** Key of the default database, for `Depends(db)`. */
export const db: StateKey<Database> = database(DEFAULT_NAME);

/** Settings that decide whether committed data survives a crash. */
export interface Durability {
  readonly isInMemory: boolean;
  readonly synchronous: 'full' | 'normal';
}

/**
 * Key of the {@link Durability} of the default database.
 *
 * @internal
 */
export const durability: StateKey<Durability> = stateKey('durability');

Object.defineProperty(AppState.prototype, 'db', {
  get(this: AppState) {
    return this.get(db);
  },
  configurable: true,
});

/**
 * Options of a {@link DatabasePlugin}. `clock`, `log` and `tracer` default to those of the application.
 */
export interface DatabasePluginOptions extends DatabaseOptions {
  /**
   * Name of the plugin and of its readiness check. A handler gets the database by `Depends(database(name))`.
   * Default `database`.
   */
  readonly name?: string | undefined;
  /**
   * Action for pending migrations at start: `apply`, `check`, which refuses to start, or `ignore`. The default in
   * production is `check`. In other environments, and for a database in memory, the default is `apply`.
   */
  readonly migrations?: MigrationPolicy | undefined;
  /**
   * Folder of the migrations. Default: `migrations`, if that folder exists and the plugin has the default
   * name.
   */
  readonly migrationDirectory?: string | undefined;
  /** Folder of the seeds for `svc migrate seed`. Default: `seeds`, if the plugin has the default name. */
  readonly seedDirectory?: string | undefined;
}

/** Adds a database to an application. The opening comment of db/plugin.ts has examples. */
export class DatabasePlugin implements PluginLike {
  readonly name: string;
  readonly startsFirst = true;
  readonly #url: string;
  readonly #options: DatabaseOptions;
  readonly #policy: MigrationPolicy | undefined;
  readonly #directory: string | undefined;
  readonly #seeds: string | undefined;
  /** Validated address and options. */
  readonly #described: PreparedDatabase;
  /** Migrations of the stores that use this database, by their ids. */
  readonly #added = new Map<string, ContributedMigration>();
  #host: HostLike | undefined;
  #metrics: DatabaseMetrics | undefined;
  #running: Database | undefined;

  /**
   * @throws SvcError `E_DB_URL` for an invalid address, `E_DB_OPTION` for an option that the engine does not
   *   support, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for other invalid options
   */
  constructor(url: string, options: DatabasePluginOptions = {}) {
    const { name, migrations, migrationDirectory, seedDirectory, ...rest } = options;
    const read = readOptions(
      'DatabasePlugin',
      { name, migrations, migrationDirectory, seedDirectory },
      {
        name: text(DEFAULT_NAME),
        migrations: oneOf<MigrationPolicy | ''>(['check', 'apply', 'ignore'], ''),
        migrationDirectory: text(),
        seedDirectory: text(),
      },
    );
    this.name = read.name;
    this.#url = url;
    this.#options = rest;
    this.#policy = read.migrations === '' ? undefined : read.migrations;
    this.#directory = read.migrationDirectory;
    this.#seeds = read.seedDirectory ?? (read.name === DEFAULT_NAME ? SEEDS : undefined);
    this.#described = prepareDatabase(url, rest);
  }

  /**
   * Returns the open database. While a test client replaces it, and so does not start this plugin, returns its
   * replacement.
   *
   * @throws SvcError `E_DB_CLOSED` before the application has started and after it has stopped
   */
  get database(): Database {
    return this.#running ?? this.#host?.get(database(this.name)) ?? this.#opened();
  }

  #opened(): Database {
    if (this.#running === undefined)
      throw new SvcError('E_DB_CLOSED', [
        'the database of the application is open only while the application runs',
      ]);
    return this.#running;
  }

  /**
   * Adds a migration of a store that uses this database. Its full id is the name of this plugin, a slash and `id`.
   * Stores with one id share the migration.
   *
   * @internal
   */
  addMigration(id: string, sql: ContributedMigration['sql']): void {
    this.#added.set(id, { plugin: this.name, id, sql });
  }

  register(host: HostLike): void {
    this.#host = host;
    this.#metrics = DatabaseMetrics.of(host.metrics);
    this.#metrics.add(() => this.#running?.load);
    host.provide(database(this.name), () => this.#opened(), Database);
    if (this.name === DEFAULT_NAME) host.provide(durability, () => this.#described);
    host.readiness(this.name, (signal) => this.database.ping({ signal }));
    for (const rule of this.#rules()) host.rule(rule);
  }

  async startup(signal: AbortSignal): Promise<void> {
    const { database } = await this.#prepare().open();
    try {
      signal.throwIfAborted();
      await migrateAtStart(database, this.#sources(), this.#policyIn(this.#host!.env), {
        name: this.name,
        log: this.#host!.log,
        clock: this.#options.clock ?? this.#host!.clock,
        signal,
      });
    } catch (error) {
      await database.close();
      throw errorOfDatabase(error, this.name);
    }
    this.#running = database;
    this.#host!.log.info('database_opened', { url: shownUrl(this.#url) });
  }

  async shutdown(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.close();
  }

  /**
   * Opens the database without starting the application, for `svc migrate` and `svc check --live`. Calls
   * `onDone` after each migration.
   */
  async openMigrator({
    onlyReads = false,
    onDone,
  }: {
    readonly onlyReads?: boolean;
    readonly onDone?: MigratorOptions['onDone'];
  } = {}): Promise<OpenMigrator> {
    const { database } = await (onlyReads ? this.#prepareToRead() : this.#prepare(true)).open();
    const clock = this.#options.clock ?? this.#host!.clock;
    return {
      migrator: new Migrator(database, this.#sources(), { clock, onDone }),
      seeder: this.#seeds === undefined ? undefined : new Seeder(database, this.#seeds, clock),
      [Symbol.asyncDispose]: () => database.close(),
    };
  }

  /**
   * Engine of the database.
   *
   * @internal
   */
  get dialect(): Dialect {
    return parseDatabaseUrl(this.#url).dialect;
  }

  /**
   * Isolation level that the address sets for each transaction, for `svc check`.
   *
   * @internal
   */
  get isolation(): string | undefined {
    const address = parseDatabaseUrl(this.#url);
    if (address.dialect === 'sqlite') return undefined;
    const { default_transaction_isolation, transaction_isolation, tx_isolation } = address.parameters;
    return default_transaction_isolation ?? transaction_isolation ?? tx_isolation;
  }

  /**
   * Returns the migrations for an engine in their order, by default for that of the database.
   *
   * @internal
   */
  migrationsFor(dialect: Dialect = this.dialect): readonly MigrationStamp[] {
    return readMigrations(this.#sources(), dialect);
  }

  /**
   * Returns the hash of the migrations for an engine. A file of row classes names it.
   *
   * @internal
   */
  migrationHash(dialect: Dialect): string {
    return hashOf(readMigrations(this.#sources(), dialect), this.#options.snakeCase === true);
  }

  /**
   * Returns the tables that the migration files make, for `svc migrate types`. For SQLite, applies the migrations to a
   * database in memory. For a server, only reads the database.
   *
   * @throws SvcError `E_MIGRATION_DIFFERS` when the migrations of the server differ from the files
   * @internal
   */
  async migratedTables(url: string = this.#url): Promise<MigratedTables> {
    const isSqlite = parseDatabaseUrl(url).dialect === 'sqlite';
    const describer = await this.#describer(isSqlite ? {} : { url });
    try {
      const { dialect, snakeCase, hash } = describer;
      const others = createdBy(this.migrationsFor(dialect).filter(({ isContributed }) => isContributed));
      const tables = describer.tables.filter(({ name }) => !others.has(name.toLowerCase()));
      return { database: this.name, dialect, snakeCase, hash, tables };
    } finally {
      await describer[Symbol.asyncDispose]();
    }
  }

  /**
   * Returns what describes statements on the tables that the migrations make, for `svc check`. Without an address, a
   * plugin for SQLite applies the migrations to a database in memory, and one for a server returns undefined.
   *
   * @throws SvcError `E_MIGRATION_DIFFERS` when the migrations of the database differ from the files; errors of opening,
   *   creating and migrating it
   * @internal
   */
  async openDescriber(place: DescribedPlace = {}): Promise<Describer | undefined> {
    const address = parseDatabaseUrl(this.#url);
    const isThere = address.dialect !== 'sqlite' || existsSync(address.path);
    const url = place.url ?? (place.isOwn === true && isThere ? this.#url : undefined);
    if (url === undefined && address.dialect !== 'sqlite') return undefined;
    return this.#describer({ ...place, url });
  }

  async #describer(place: DescribedPlace): Promise<Describer> {
    const { clock, log } = this.#host!;
    const own = Object.entries(this.#options.types ?? {}).filter(([, { parse }]) => parse !== undefined);
    const { openDescriber } = await import('./describe/open.ts');
    const opening = openDescriber(place, {
      name: this.name,
      url: this.#url,
      sources: this.#sources(),
      snakeCase: this.#options.snakeCase === true,
      ownTypes: new Set(own.map(([name]) => name.toLowerCase())),
      clock,
      log,
    });
    return opening.catch((error: unknown) => {
      throw errorOfDatabase(error, this.name);
    });
  }

  #prepare(isCommand: boolean = false): PreparedDatabase {
    const host = this.#host!;
    const { clock, log } = host;
    const { waits, statements, poolEvents } = this.#metrics!;
    const { name } = this;
    // capturing stacks costs time
    const pool = { leakSeconds: host.env === 'production' ? 0 : LEAK_SECONDS, ...this.#options.pool };
    return prepareDatabase(
      this.#url,
      { clock, log, tracer: host.get(services).tracer, ...this.#options, pool },
      {
        name,
        isCommand,
        onWait: (seconds) => waits.observe(seconds, name),
        onStatement: (seconds) => statements.observe(seconds, name),
        onPoolEvent: (kind) => poolEvents.add(1, name, kind),
      },
    );
  }

  /**
   * Prepares the database for a command that only reads. Uses an empty database in memory instead of a
   * missing SQLite file, so that the file is not created.
   */
  #prepareToRead(): PreparedDatabase {
    const address = parseDatabaseUrl(this.#url);
    if (this.#described.isInMemory) return this.#prepare(true);
    const { clock, log } = this.#host!;
    if (address.dialect === 'sqlite' && !existsSync(address.path) && existsSync(dirname(address.path)))
      return prepareDatabase('sqlite::memory:', { clock, log });
    // a read-only session contradicts `target_session_attrs=read-write` in the address
    const readOnly = address.dialect === 'sqlite' || address.target !== 'read-write';
    const options = { clock, log, ...this.#options, readOnly, readers: 0 };
    return prepareDatabase(this.#url, options, { name: this.name, isCommand: true });
  }

  /**
   * Returns the sources of migrations. Migrations of other plugins are applied only to the default database,
   * those of stores to the database of the store.
   */
  #sources(): MigrationSources {
    const isDefault = this.name === DEFAULT_NAME;
    const directory = this.#directory ?? (isDefault && existsSync(MIGRATIONS) ? MIGRATIONS : undefined);
    return {
      directory,
      contributed: [...(isDefault ? this.#host!.migrations : []), ...this.#added.values()],
    };
  }

  #policyIn(env: HostLike['env']): MigrationPolicy {
    return this.#policy ?? (env === 'production' && !this.#described.isInMemory ? 'check' : 'apply');
  }

  #rules(): Rule[] {
    const { dialect } = this;
    return [
      {
        id: 'SVC402',
        severity: 'error',
        phase: 'environment',
        why: 'Migrations are applied in the order of their numbers: a missing number, or two files with one number, stops every deployment',
        remedy:
          'Number the files without gaps, and give each .down.sql file an .up.sql file. The command "svc migrate new <name>" uses the next number',
        run: (_view, report) => {
          if (this.#policy === 'ignore') return;
          try {
            readMigrations(this.#sources(), dialect);
          } catch (error) {
            if (!(error instanceof SvcError)) throw error;
            report(`plugin ${this.name}`, error.message);
          }
        },
      },
      ...this.#warnings(dialect).map(({ message, applies = isProduction, ...rule }): Rule => ({
        ...rule,
        severity: 'warning',
        phase: 'environment',
        run: (view, report) => {
          if (applies(view)) report(`plugin ${this.name}`, message);
        },
      })),
    ];
  }

  #warnings(dialect: Dialect): Warning[] {
    const { isInMemory, synchronous, unproved } = this.#described;
    const warnings: (Warning & { readonly isMeant: boolean })[] = [
      {
        isMeant: dialect === 'sqlite' && !isInMemory,
        id: 'SVC403',
        why: ONE_FILE,
        remedy: 'Use a server: postgres://…; or one process',
        message: 'several processes write to one SQLite file, so each waits for the others',
        applies: isServedByMany,
      },
      {
        isMeant: isInMemory,
        id: `${this.name}/memory`,
        why: 'A database in memory is gone with its process, and each worker has another',
        remedy: 'Use a file: sqlite:./data.db',
        message: 'its data is in memory: each worker has its own, and none survives',
      },
      {
        isMeant: synchronous === 'normal' && !isInMemory,
        id: `${this.name}/synchronous`,
        why: 'With synchronous "normal" the last transactions may be undone when the power fails',
        remedy: 'Leave the option "synchronous" out: "full" is the default',
        message: 'commits do not wait for the disk (synchronous "normal")',
      },
      {
        isMeant: unproved !== undefined,
        id: `${this.name}/tls`,
        why: 'A server that need not prove itself may be any machine on the path, which then reads and changes everything',
        remedy: 'Write sslmode=verify-full into the address, and sslrootcert=… if its authority is your own',
        message: `its server is not proved (sslmode "${unproved}")`,
      },
    ];
    return warnings.filter(({ isMeant }) => isMeant);
  }
}

/** A rule that warns of a setting of this database. */
interface Warning {
  readonly id: Rule['id'];
  readonly why: string;
  readonly remedy: string;
  readonly message: string;
  /** Whether the setting is wrong for an application. Default: in production. */
  readonly applies?: (view: CompiledView) => boolean;
}

function isProduction({ env }: CompiledView): boolean {
  return env === 'production';
}

/*
 * Metrics for the databases of one application:
 *   svc_db_connections_in_use, svc_db_connections_idle, svc_db_waiting      gauges over all databases
 *   svc_db_wait_seconds{database}                wait of callers when no connection was free
 *   svc_db_statement_seconds{database}           time of a statement; in SQLite it blocks the event loop
 *   svc_db_pool_events_total{database, event}    events of connection pools, listed in db/wire/pool-settings.ts
 */

const WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
const STATEMENT_BUCKETS = [0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

/** Metrics that all database plugins of an application share. */
export class DatabaseMetrics {
  /** Returns the metrics of an application. The first call declares them. */
  static readonly of: (metrics: Metrics) => DatabaseMetrics = onePer((own) => new DatabaseMetrics(own));
  readonly waits: Histogram;
  readonly statements: Histogram;
  readonly poolEvents: Counter;
  readonly #loads = new Set<() => DriverLoad | undefined>();

  private constructor(metrics: Metrics) {
    const sum = (part: keyof DriverLoad) => () =>
      [...this.#loads].reduce((total, load) => total + (load()?.[part] ?? 0), 0);
    metrics.gauge('svc_db_connections_in_use', 'Database connections in use', sum('inUse'));
    metrics.gauge('svc_db_connections_idle', 'Open database connections that are idle', sum('idle'));
    metrics.gauge('svc_db_waiting', 'Callers that wait for a connection to a database', sum('waiting'));
    this.waits = metrics.histogram(
      'svc_db_wait_seconds',
      'How long callers have waited for a connection; those who got one at once do not count',
      WAIT_BUCKETS,
      ['database'],
    );
    this.statements = metrics.histogram(
      'svc_db_statement_seconds',
      'How long statements have run',
      STATEMENT_BUCKETS,
      ['database'],
    );
    this.poolEvents = metrics.counter(
      'svc_db_pool_events_total',
      'Events of connections to database servers',
      ['database', 'event'],
    );
  }

  /**
   * Adds a database to the metrics. `load` returns the numbers of its connections, or undefined while the
   * database is not open.
   */
  add(load: () => DriverLoad | undefined): void {
    this.#loads.add(load);
  }
}

/** Returns the names of the tables that migrations create, in lower case. */
function createdBy(migrations: readonly MigrationStamp[]): ReadonlySet<string> {
  return new Set(
    migrations.flatMap(({ up }) =>
      up.statements.flatMap(({ text }) => {
        const name = /\bcreate\s+table\s+(?:if\s+not\s+exists\s+)?["`]?(\w+)/i.exec(text)?.[1];
        return name === undefined ? [] : [name.toLowerCase()];
      }),
    ),
  );
}
