/**
 * Scans the text of a statement before it is sent. Counts the placeholders, and checks that the text is a
 * single statement. For PostgreSQL, replaces each `?` by `$1`, `$2`, and so on. A mistake in this scan cannot
 * cause an SQL injection, because values are sent separately.
 *
 * Differences between the database engines:
 *   PostgreSQL   `?` is a placeholder, and `??` is the operator `?`. If the text has `$1`, `?` is an operator.
 *   MySQL        The server finds each `?` itself. The scan only reports mistakes before the text is sent.
 *   SQLite       The scan refuses text that node:sqlite would accept: several statements, or a stray BEGIN.
 */
import { SvcError } from '../base/errors.ts';
import { isMySql } from './dialects.ts';
import { refuseCount } from './parameters.ts';
import { NUL, Splitter, isTransactionControl } from './script.ts';
import { TextCache } from './statements.ts';
import type { Dialect } from './driver.ts';
import type { Params } from './values.ts';

/** Kind of a statement. The SQLite driver needs it. */
type StatementKind =
  /** Only reads. */
  | 'select'
  /** Inserts rows. SQLite reports the key of the last one. */
  | 'insert'
  /**
   * Changes or deletes rows, or inserts them with `on conflict do update`. After such an insert, SQLite may
   * report the key of an earlier insert.
   */
  | 'update'
  /** Begins with `with`. It may read (`with ... select`) or write (`with ... insert`). */
  | 'with'
  /**
   * Any other statement. It may change the schema or a setting, so all cached statements are dropped after
   * it.
   */
  | 'other';

export interface ScannedStatement {
  /** Text to send to the server. */
  readonly text: string;
  readonly placeholders: number;
  readonly kind: StatementKind;
  /** Reason why the text cannot run as one statement; undefined when it can. */
  readonly problem: string | undefined;
}

const MAX_KEPT = 1_000;
/**
 * Maximum number of placeholders in a statement: the protocols of PostgreSQL and MySQL count values with 16
 * bits, and SQLite has the limit SQLITE_MAX_VARIABLE_NUMBER.
 */
const MAX_PLACEHOLDERS: Readonly<Record<Dialect, number>> = {
  sqlite: 32_766,
  postgres: 65_535,
  mysql: 65_535,
  mariadb: 65_535,
};

const KINDS: Readonly<Record<string, StatementKind>> = {
  select: 'select',
  values: 'select',
  insert: 'insert',
  replace: 'insert',
  update: 'update',
  delete: 'update',
  with: 'with',
};

const kept: Readonly<Record<Dialect, TextCache<ScannedStatement>>> = {
  sqlite: new TextCache(MAX_KEPT),
  postgres: new TextCache(MAX_KEPT),
  mysql: new TextCache(MAX_KEPT),
  mariadb: new TextCache(MAX_KEPT),
};

/**
 * Scans the text of a statement, or returns the cached result of an earlier scan. `hasPlainBackslashes` is
 * true if the setting NO_BACKSLASH_ESCAPES of MySQL is on.
 */
export function scanned(
  text: string,
  dialect: Dialect,
  hasPlainBackslashes: boolean = false,
): ScannedStatement {
  if (hasPlainBackslashes) return scan(text, dialect, true);
  const known = kept[dialect].get(text);
  if (known !== undefined) return known;
  const found = scan(text, dialect, false);
  kept[dialect].add(text, found);
  return found;
}

export function checkedStatement(
  text: string,
  dialect: Dialect,
  hasPlainBackslashes?: boolean,
): ScannedStatement {
  const found = scanned(text, dialect, hasPlainBackslashes);
  if (found.problem !== undefined) throw new SvcError('E_DB_STATEMENT', [found.problem]);
  return found;
}

interface Found {
  text: string;
  questionMarks: number;
  /** Largest n of the placeholders `$n`. */
  largest: number;
  /** For SQLite: the first placeholder that is not a plain `?`, such as `:name`. */
  named: string | undefined;
  isUpsert: boolean;
}

/**
 * Scans the text of a statement. `isNumbered` is true if it has placeholders of the form `$1`. Then each `?`
 * is an operator.
 */
function scan(
  source: string,
  dialect: Dialect,
  hasPlainBackslashes: boolean,
  isNumbered: boolean = false,
): ScannedStatement {
  const splitter = new Splitter(source, dialect, { hasPlainBackslashes });
  const { lexer } = splitter;
  const found: Found = { text: '', questionMarks: 0, largest: 0, named: undefined, isUpsert: false };
  let copied = 0;
  let before = '';
  while (splitter.next()) {
    if (lexer.kind === 'space' || lexer.kind === 'comment') continue;
    const { text } = lexer;
    if (lexer.kind === 'placeholder') {
      if (dialect === 'postgres' && text.startsWith('?')) {
        found.text += source.slice(copied, lexer.start) + translated(text, found, isNumbered);
        copied = lexer.end;
      } else onPlaceholder(text, dialect, found);
    }
    if (lexer.kind === 'word' && /^update$/i.test(text) && /^do$/i.test(before)) found.isUpsert = true;
    before = text;
  }
  found.text += source.slice(copied);
  if (found.questionMarks > 0 && found.largest > 0) return scan(source, dialect, hasPlainBackslashes, true);
  const { statements } = splitter;
  const words = statements[0]?.words ?? [];
  const kind = Object.hasOwn(KINDS, words[0] ?? '') ? KINDS[words[0]!]! : 'other';
  return {
    text: found.text,
    placeholders: Math.max(found.questionMarks, found.largest),
    kind: kind === 'insert' && found.isUpsert ? 'update' : kind,
    problem:
      statements.length === 0
        ? 'the text contains no statement'
        : statements.length > 1
          ? 'the text contains more than one statement'
          : isTransactionControl(dialect, words)
            ? `${words[0]!.toUpperCase()} would begin or end a transaction on a connection that other callers use, too`
            : textIssue(source, dialect, found),
  };
}

/**
 * Translates consecutive question marks for PostgreSQL. Each `??` becomes the operator `?`. A remaining `?`
 * becomes a placeholder such as `$1`, or stays an operator if `isNumbered` is true.
 */
function translated(marks: string, found: Found, isNumbered: boolean): string {
  if (isNumbered) return '?'.repeat((marks.length + 1) >> 1);
  const operators = '?'.repeat(marks.length >> 1);
  return marks.length % 2 === 0 ? operators : `${operators}$${++found.questionMarks}`;
}

function onPlaceholder(text: string, dialect: Dialect, found: Found): void {
  if (text === '?') found.questionMarks++;
  else if (dialect === 'postgres') found.largest = Math.max(found.largest, Number(text.slice(1)));
  else found.named ??= text;
}

function textIssue(
  source: string,
  dialect: Dialect,
  { questionMarks, largest, named }: Found,
): string | undefined {
  if (named !== undefined) return `the placeholder "${named}" has a name or number, but a plain ? is needed`;
  if (!isMySql(dialect) && source.includes('\0')) return NUL;
  if (Math.max(questionMarks, largest) > MAX_PLACEHOLDERS[dialect])
    return `it has more than ${MAX_PLACEHOLDERS[dialect]} placeholders: use executeMany() or insertMany()${dialect === 'postgres' ? ', or pass a list for "= any (?)"' : ''}`;
  if (dialect === 'sqlite') return undefined;
  if (!source.isWellFormed()) return 'the text has half a surrogate pair, which no encoding can send';
  return undefined;
}

/** @throws SvcError `E_DB_PARAMETER_COUNT` unless the values are a list of the needed length */
export function checkCount(params: Params, needed: number, row?: number): void {
  // a caller may pass null or text in spite of the types
  if (!Array.isArray(params)) refuseCount(needed, undefined, row);
  if (params.length !== needed) refuseCount(needed, params.length, row);
}
