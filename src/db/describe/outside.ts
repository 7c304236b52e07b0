/**
 * Finds statements of migrations that act outside of their database: on users, on the server, on its files, or on other
 * databases. Such statements must not run on a scratch database.
 */
import { SvcError } from '../../base/errors.ts';
import { isMySql } from '../dialects.ts';
import { Lexer } from '../lexer.ts';
import type { Dialect } from '../driver.ts';
import type { Migration } from '../migrations/source.ts';

/** First words of statements that act outside of their database. */
const POSTGRES: readonly RegExp[] = [
  /^(?:create|alter|drop) (?:database|role|group|tablespace|subscription)\b/,
  /^(?:create|alter|drop) user\b(?! mapping)/,
  /^alter system\b/,
  /^(?:comment|security label)\b.* on (?:database|role|tablespace)\b/,
  /^(?:reassign|drop) owned\b/,
  /^(?:copy|load)\b/,
];
const MYSQL: readonly RegExp[] = [
  /^(?:create|alter|drop)(?: or replace)? (?:database|schema|user|role|server|tablespace|logfile|undo|instance|resource)\b/,
  /^(?:rename user|use|grant|revoke|flush|reset|purge|change|stop|install|uninstall|shutdown|restart|kill|load|lock instance)\b/,
  /^start (?:replica|slave|all|group_replication)\b/,
  /^set (?:global|persist|persist_only|password|default role)\b/,
];
/** Schemas of the server that hold no data of applications. */
const READABLE: ReadonlySet<string> = new Set(['information_schema', 'performance_schema']);

/**
 * Refuses migrations that act outside of their database. `others` are the names of the other databases on the server.
 */
export function refuseOutside(
  migrations: readonly Migration[],
  dialect: Dialect,
  others: readonly string[],
): void {
  const databases = new Set(others.map((name) => name.toLowerCase()));
  for (const { up } of migrations)
    for (const { text, line } of up.statements) {
      const problem = outsideOf(text, dialect, databases);
      if (problem !== undefined)
        throw new SvcError('E_SCRATCH_DATABASE', [
          `line ${line} of ${up.origin} ${problem}, so no migration was applied`,
        ]);
    }
}

/** Returns what a statement does outside of its database; undefined if that is nothing. */
function outsideOf(text: string, dialect: Dialect, databases: ReadonlySet<string>): string | undefined {
  const tokens = tokensOf(text, dialect);
  const words = tokens.join(' ');
  const patterns = isMySql(dialect) ? MYSQL : POSTGRES;
  const isGrantOfRole = dialect === 'postgres' && /^(?:grant|revoke)\b/.test(words) && !/ on /.test(words);
  if (isGrantOfRole || patterns.some((pattern) => pattern.test(words)))
    return `(${tokens.slice(0, 3).join(' ')}) acts outside of its database`;
  if (!isMySql(dialect)) return undefined;
  if (/ into (?:outfile|dumpfile) /.test(words) || /@ @ (?:global|persist)/.test(words))
    return 'changes the server';
  const other = tokens.find(
    (token, index) =>
      tokens[index + 1] === '.' && tokens[index - 1] !== '.' && databases.has(token) && !READABLE.has(token),
  );
  return other === undefined ? undefined : `names another database of the server, "${other}"`;
}

/** Returns the tokens of a statement in lower case, names without quotes. Literals stay as they are. */
function tokensOf(text: string, dialect: Dialect): string[] {
  const lexer = new Lexer(text, dialect);
  const tokens: string[] = [];
  while (lexer.next()) {
    if (lexer.kind === 'space' || lexer.kind === 'comment' || lexer.kind === 'mark') continue;
    const isName = lexer.kind === 'quoted' && /^["`]/.test(lexer.text);
    tokens.push((isName ? lexer.text.slice(1, -1) : lexer.text).toLowerCase());
  }
  return tokens;
}
