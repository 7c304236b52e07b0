/**
 * Seeds: rows for development, from SQL files in a folder. The command `svc migrate seed` runs all files in
 * the order of their names, and does not record that they ran. Write each file so that it can run again:
 * delete its rows first, or skip rows that exist.
 *
 * Each file runs in its own transaction. On PostgreSQL, a file such as `seeds/20_notes.postgres.sql` replaces
 * `seeds/20_notes.sql`.
 */
import { SvcError } from '../../base/errors.ts';
import { systemClock, type Clock } from '../../base/clock.ts';
import { fileFor, namesIn, readScript, type Script } from './source.ts';
import type { Env } from '../../base/config.ts';
import type { Database } from '../database.ts';
import type { Dialect } from '../driver.ts';

const FILE = /^([a-z0-9][a-z0-9_-]*)(?:\.(sqlite|postgres|mysql|mariadb))?\.sql$/;

/** A seed file that has run. */
export interface SeedDone {
  readonly file: string;
  readonly durationMs: number;
}

/** Fills a database with the rows of seed files. */
export class Seeder {
  readonly #database: Database;
  readonly #directory: string;
  readonly #clock: Clock;

  /** Creates a seeder. Does not read the folder yet. */
  constructor(database: Database, directory: string, clock: Clock = systemClock) {
    this.#database = database;
    this.#directory = directory;
    this.#clock = clock;
  }

  /**
   * Runs all seed files in the order of their names.
   *
   * @throws SvcError `E_SEED` when a file is invalid or one of its statements fails. The rows of that file
   *   are rolled back, and the rows of earlier files remain.
   */
  async run(onDone?: (done: SeedDone) => void): Promise<readonly SeedDone[]> {
    const seeds = readSeeds(this.#directory, this.#database.dialect);
    const all: SeedDone[] = [];
    for (const { file, script } of seeds) {
      const startMs = this.#clock.monotonicMs();
      await this.#runOne(script);
      const done = { file, durationMs: Math.round(this.#clock.monotonicMs() - startMs) };
      all.push(done);
      onDone?.(done);
    }
    return all;
  }

  #runOne({ origin, statements }: Script): Promise<void> {
    return this.#database.transaction(async (tx) => {
      for (const { text, line } of statements) {
        try {
          await tx.script(text);
        } catch (error) {
          const said = error instanceof Error ? error.message : String(error);
          throw new SvcError('E_SEED', [`${origin}, line ${line}: ${said}`], { cause: error });
        }
      }
    });
  }
}

export function refuseInProduction(env: Env, isWanted: boolean): void {
  if (env === 'production' && !isWanted) throw new SvcError('E_SEED_PRODUCTION', []);
}

function readSeeds(directory: string, dialect: Dialect): readonly { file: string; script: Script }[] {
  const names = Map.groupBy(listSeeds(directory), ({ name }) => name);
  return [...names.values()].flatMap((group) => {
    const seed = fileFor(group, dialect);
    if (seed === undefined) return []; // skip this seed: all its files are for other database engines
    const script = readScript(
      directory,
      seed.file,
      dialect,
      (origin, problem, cause) => new SvcError('E_SEED', [`${origin}: ${problem}`], { cause }),
    );
    if (!script.hasTransaction || !script.hasForeignKeys)
      throw new SvcError('E_SEED', [
        `${script.origin}: remove the directives "-- svc: …" from the seed file, because only migrations can have directives`,
      ]);
    return [{ file: seed.file, script }];
  });
}

function listSeeds(
  directory: string,
): readonly { readonly file: string; readonly name: string; readonly dialect: Dialect | undefined }[] {
  const entries = namesIn(
    directory,
    (problem, cause) => new SvcError('E_SEED', [`"${directory}": ${problem}`], { cause }),
  );
  return entries.map((file) => {
    const [, name, dialect] = FILE.exec(file) ?? [];
    if (name === undefined)
      throw new SvcError('E_SEED', [
        `"${file}" in "${directory}" is not a valid name of a seed file: use lower-case letters, digits, "_" and "-", then ".sql"`,
      ]);
    return { file, name, dialect: dialect as Dialect | undefined };
  });
}
