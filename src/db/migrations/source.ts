/**
 * Sources of migrations: files in a folder, and plugins. Examples:
 *   migrations/0001_create_users.up.sql      applied in the order of their numbers, which have no gaps
 *   migrations/0001_create_users.down.sql    undoes it; optional
 *   migrations/0002_search.postgres.up.sql   replaces 0002_search.up.sql on PostgreSQL; the others are sqlite, mysql, mariadb
 *   host.migration('0001', { sqlite: [...] })   in a plugin "oauth": the id of the migration is "oauth/0001"
 *
 * A file may be for one database engine, as in `0002_search.postgres.up.sql`. On that engine, it replaces the
 * file without an engine. MariaDB uses a file for mysql if there is none for mariadb. If all files of a
 * number are for other engines, the migration is skipped.
 *
 * Migrations of plugins run first, in the order in which the plugins are registered. So a migration file may
 * use the tables of a plugin, but a plugin cannot use the tables of a file.
 *
 * A comment before the first statement may contain a directive:
 *   -- svc: no-transaction      for statements such as `vacuum` that cannot run in a transaction
 *   -- svc: no-foreign-keys     SQLite: foreign keys are off during the migration, and checked before the commit
 */
import { hash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { SvcError, errorCode } from '../../base/errors.ts';
import { ScriptIssue, splitScript, type SplitScript, type Statement } from '../script.ts';
import type { Dialect } from '../driver.ts';

/** A migration of a plugin, with its statements for each database engine. */
export interface ContributedMigration {
  readonly plugin: string;
  readonly id: string;
  readonly sql: Readonly<Record<Dialect, readonly string[]>>;
}

/** Where migrations come from: a folder, plugins, or both. */
export interface MigrationSources {
  /** Folder with migration files. Default: none. */
  readonly directory?: string | undefined;
  /** Migrations of plugins. Default: none. */
  readonly contributed?: readonly ContributedMigration[] | undefined;
}

/** Statements of a migration or seed file, with its directives. */
export interface Script {
  /** Source of the script in error messages: a file path, or the id of a plugin's migration. */
  readonly origin: string;
  readonly statements: readonly Statement[];
  readonly hasTransaction: boolean;
  readonly hasForeignKeys: boolean;
}

export interface Migration {
  /** `0001` for a migration from a file, `plugin/id` for a migration of a plugin. */
  readonly id: string;
  /** `create_users` for `0001_create_users.up.sql`; for a migration of a plugin, its id without `plugin/`. */
  readonly name: string;
  /** SHA-256 of the script in hexadecimal. CRLF counts as LF, as in a Git checkout on Windows. */
  readonly checksum: string;
  readonly isContributed: boolean;
  readonly up: Script;
  readonly down: (() => Script) | undefined;
}

/** A migration without its down script, for messages about it. */
export type MigrationStamp = Pick<Migration, 'id' | 'name' | 'checksum' | 'isContributed' | 'up'>;

const FILE = /^(\d{4})_([a-z0-9_]+)(?:\.(sqlite|postgres|mysql|mariadb))?\.(up|down)\.sql$/;
const CONTROL: ReadonlySet<string | undefined> = new Set([
  'begin',
  'commit',
  'end',
  'rollback',
  'savepoint',
  'release',
  'start',
]);
const LINE_DIRECTIVE = /(?:--|^#)\s*svc:\s*(\S*)(.*)/is;
const BLOCK_DIRECTIVE = /^\/\*\s*svc:\s*(\S*)(.*)\*\/$/is;
const DIRECTIVES: readonly string[] = ['no-transaction', 'no-foreign-keys'];

/**
 * Returns the migrations of plugins and files in the order in which they are applied.
 *
 * @throws SvcError `E_MIGRATION_FILES` for an invalid folder or file, `E_MIGRATION_CONTRIBUTED` for an
 *   invalid migration of a plugin
 */
export function readMigrations({ directory, contributed }: MigrationSources, dialect: Dialect): Migration[] {
  return [
    ...readContributed(contributed ?? [], dialect),
    ...(directory === undefined ? [] : readDirectory(directory, dialect)),
  ];
}

/** Returns the engines of file names, the preferred first; undefined is a name without an engine. */
function preferredFiles(dialect: Dialect): readonly (Dialect | undefined)[] {
  return dialect === 'mariadb' ? ['mariadb', 'mysql', undefined] : [dialect, undefined];
}

/**
 * Returns the up file of the migration with this name, or undefined.
 *
 * @throws SvcError `E_MIGRATION_FILES` if the folder cannot be read or has a file that is not a migration
 */
export function fileNamed(directory: string, name: string): string | undefined {
  return listFiles(directory, true).find((file) => file.name === name && file.direction === 'up')?.file;
}

/** Returns the next free migration number as four digits: `0001` if the folder does not exist. */
export function nextNumber(directory: string): string {
  const numbers = listFiles(directory, true).map(({ number }) => Number(number));
  const next = Math.max(0, ...numbers) + 1;
  if (next > 9_999)
    throw new SvcError('E_MIGRATION_FILES', [
      directory,
      'no number is left, because a migration with the highest number, 9999, already exists',
    ]);
  return String(next).padStart(4, '0');
}

function readContributed(contributed: readonly ContributedMigration[], dialect: Dialect): Migration[] {
  const seen = new Set<string>();
  return contributed.map(({ plugin, id, sql }) => {
    const full = `${plugin}/${id}`;
    const statements: unknown = sql?.[dialect];
    const refuse = (problem: string): never => {
      throw new SvcError('E_MIGRATION_CONTRIBUTED', [full, problem]);
    };
    if (typeof id !== 'string' || !/^[\w.-]{1,100}$/.test(id))
      refuse('the id must have 1 to 100 characters: letters, digits, "_", "." and "-"');
    if (seen.has(full)) refuse('two migrations have the same id');
    if (!Array.isArray(statements) || statements.some((statement) => typeof statement !== 'string'))
      refuse(`the migration has no list of statements for ${dialect}`);
    seen.add(full);
    const texts = statements as readonly string[];
    const split = texts.flatMap(
      (text) =>
        read(text, dialect, (problem) => new SvcError('E_MIGRATION_CONTRIBUTED', [full, problem])).statements,
    );
    return {
      id: full,
      name: id,
      checksum: checksumOf(texts.map(unified).join('\0')),
      isContributed: true,
      down: undefined,
      up: {
        origin: `${full} of the plugin ${plugin}`,
        statements: split,
        hasTransaction: true,
        hasForeignKeys: true,
      },
    };
  });
}

interface FileName {
  readonly file: string;
  readonly number: string;
  readonly name: string;
  /** Engine in the file name, such as `postgres`. Undefined if the file is for all engines. */
  readonly dialect: Dialect | undefined;
  readonly direction: 'up' | 'down';
}

function readDirectory(directory: string, dialect: Dialect): Migration[] {
  const files = listFiles(directory, false);
  const numbers = Map.groupBy(files, ({ number }) => number);
  checkNumbers(directory, files, numbers);
  return [...numbers.values()].flatMap((group) => {
    const [up, down] = ['up', 'down'].map((direction) =>
      fileFor(
        group.filter((file) => file.direction === direction),
        dialect,
      ),
    );
    if (up === undefined) return []; // skip this number: all its files are for other database engines
    const text = readText(directory, up.file);
    return {
      id: up.number,
      name: up.name,
      checksum: checksumOf(unified(text)),
      isContributed: false,
      up: scriptOf(directory, up.file, text, dialect),
      down:
        down === undefined
          ? undefined
          : () => scriptOf(directory, down.file, readText(directory, down.file), dialect),
    };
  });
}

/** Throws if a number is missing, two migrations share a number, or a down file has no up file. */
function checkNumbers(
  directory: string,
  files: readonly FileName[],
  groups: ReadonlyMap<string, readonly FileName[]>,
): void {
  const refuse = (problem: string): never => {
    throw new SvcError('E_MIGRATION_FILES', [directory, problem]);
  };
  for (const { file, number, name, dialect, direction } of files) {
    const beside = groups.get(number)!;
    const twin = beside.find((other) => other.name !== name && other.direction === direction);
    if (twin !== undefined) refuse(`${file} and ${twin.file} have the same number`);
    const hasUp = beside.some(
      (other) =>
        other.direction === 'up' &&
        other.name === name &&
        (dialect === undefined || preferredFiles(dialect).includes(other.dialect)),
    );
    if (!hasUp) refuse(`${file} has no up file: add ${number}_${name}.up.sql to the folder`);
  }
  const ordered = [...groups];
  ordered.forEach(([number, [first]], index) => {
    const expected = String(index + 1).padStart(4, '0');
    if (number === expected) return;
    const { file } = first!;
    const before = ordered[index - 1]?.[1].at(-1);
    refuse(
      before === undefined
        ? `the first file is ${file}, but the numbers must begin with 0001`
        : `the number ${expected} is missing between ${before.file} and ${file}`,
    );
  });
}

/** Returns the file that an engine uses; undefined if all files are for other engines. */
export function fileFor<F extends Pick<FileName, 'dialect'>>(
  files: readonly F[],
  dialect: Dialect,
): F | undefined {
  const engine = preferredFiles(dialect).find((each) => files.some((file) => file.dialect === each));
  return files.find((file) => file.dialect === engine);
}

/**
 * Returns the files in the order of their names, without hidden files. Throws for a file with an invalid
 * name, because ignoring it would skip a misspelt migration silently.
 */
function listFiles(directory: string, mayBeAbsent: boolean): FileName[] {
  const entries = namesIn(
    directory,
    (problem, cause) => new SvcError('E_MIGRATION_FILES', [directory, problem], { cause }),
    mayBeAbsent,
  );
  return entries.map((file) => {
    const match = FILE.exec(file);
    if (match === null)
      throw new SvcError('E_MIGRATION_FILES', [
        directory,
        `"${file}" is not a valid name of a migration file: write four digits, "_" and a lower-case name, as in 0002_add_email.up.sql or 0002_add_email.postgres.down.sql`,
      ]);
    const [, number, name, engine, direction] = match;
    return {
      file,
      number: number!,
      name: name!,
      dialect: engine as Dialect | undefined,
      direction: direction as 'up' | 'down',
    };
  });
}

/** Returns the names of the files in a folder, sorted and without hidden files. */
export function namesIn(
  directory: string,
  refusal: (problem: string, cause: unknown) => SvcError,
  mayBeAbsent: boolean = false,
): readonly string[] {
  try {
    return readdirSync(directory)
      .filter((entry) => !entry.startsWith('.'))
      .sort();
  } catch (error) {
    const code = errorCode(error);
    if (code !== 'ENOENT') throw refusal(`the folder cannot be read (${code ?? String(error)})`, error);
    if (!mayBeAbsent) throw refusal('the folder does not exist', error);
    return [];
  }
}

type Refusal = (origin: string, problem: string, cause?: unknown) => SvcError;

const ofMigrations: Refusal = (origin, problem, cause) =>
  new SvcError('E_MIGRATION_FILES', [origin, problem], { cause });

function readText(directory: string, file: string, refusal: Refusal = ofMigrations): string {
  const path = join(directory, file);
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw refusal(path, `the file cannot be read (${errorCode(error) ?? String(error)})`, error);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes); // the decoder removes a byte order mark
  } catch (error) {
    throw refusal(path, 'the file is not text in UTF-8: save the file in UTF-8', error);
  }
}

export function readScript(directory: string, file: string, dialect: Dialect, refusal: Refusal): Script {
  return scriptOf(directory, file, readText(directory, file, refusal), dialect, refusal);
}

function scriptOf(
  directory: string,
  file: string,
  text: string,
  dialect: Dialect,
  refusal: Refusal = ofMigrations,
): Script {
  const origin = join(directory, file);
  const refuse = (problem: string): SvcError => refusal(origin, problem);
  const { head, statements } = read(text, dialect, refuse);
  const directives = directivesOf(head, refuse);
  if (statements.length === 0)
    throw refuse('the file has no statement: write one, or remove the up and down files of this migration');
  const script = {
    origin,
    statements,
    hasTransaction: !directives.includes('no-transaction'),
    hasForeignKeys: !directives.includes('no-foreign-keys'),
  };
  if (script.hasTransaction) {
    const idle = statements.find(
      ({ words }) => dialect === 'sqlite' && words[0] === 'pragma' && words[1] === 'foreign_keys',
    );
    if (idle !== undefined)
      throw refuse(
        `line ${idle.line}: "pragma foreign_keys" does nothing inside a transaction: remove it, and write "-- svc: no-foreign-keys" above the first statement`,
      );
  }
  return script;
}

/** Returns the directives, such as `-- svc: no-transaction`, in the comments before the first statement. */
function directivesOf(head: readonly string[], refuse: (problem: string) => SvcError): string[] {
  return head.flatMap((comment) => {
    const match = (comment.startsWith('/*') ? BLOCK_DIRECTIVE : LINE_DIRECTIVE).exec(comment);
    if (match === null) return [];
    const [, directive = '', rest = ''] = match;
    if (!DIRECTIVES.includes(directive))
      throw refuse(`"-- svc: ${directive}" is not a directive: use ${DIRECTIVES.join(' or ')}`);
    const second = DIRECTIVES.find((other) => rest.split(/[\s,]+/).includes(other));
    if (second !== undefined)
      throw refuse(
        `"-- svc: ${directive}" and "${second}" are in one comment: write each directive on its own line`,
      );
    return directive;
  });
}

function read(text: string, dialect: Dialect, refuse: (problem: string) => SvcError): SplitScript {
  try {
    const script = splitScript(text, dialect);
    for (const statement of script.statements) {
      const command = clientCommandOf(statement, dialect);
      if (command !== undefined)
        throw refuse(
          `line ${statement.line}: "${command}" is a command of a client program such as psql, and not SQL: remove the line`,
        );
    }
    const control = script.statements.find(({ words }) => CONTROL.has(words[0]));
    if (control !== undefined)
      throw refuse(
        `line ${control.line}: "${control.words[0]!}" begins or ends a transaction, but a migration already runs inside a transaction: remove the statement`,
      );
    return script;
  } catch (error) {
    throw error instanceof ScriptIssue ? refuse(`line ${error.line}: ${error.message}`) : error;
  }
}

/**
 * Returns the client command with which a statement begins, or undefined. Examples are `\restrict`, which
 * pg_dump writes for psql, and `delimiter` of mysql.
 */
function clientCommandOf({ text, words: [first] }: Statement, dialect: Dialect): string | undefined {
  if (dialect === 'postgres') return /^\\\w+/.exec(text)?.[0];
  return dialect !== 'sqlite' && first === 'delimiter' ? text.slice(0, first.length) : undefined;
}

function unified(text: string): string {
  return text.replaceAll('\r\n', '\n').trimEnd();
}

/** Raised when `svc migrate types` writes another text for the same migrations. */
const ROW_CLASSES_VERSION = 1;

/** Returns the hash of all that decides the text of row classes: the migrations, and the names of members. */
export function hashOf(migrations: readonly Migration[], snakeCase: boolean): string {
  const parts = migrations.map(({ id, checksum }) => `${id} ${checksum}`);
  return checksumOf([ROW_CLASSES_VERSION, snakeCase, ...parts].join('\n')).slice(0, 16);
}

function checksumOf(text: string): string {
  return hash('sha256', text);
}
