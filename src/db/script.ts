/**
 * Splits a script into statements. A semicolon inside the body of a trigger, function or rule does not end a
 * statement, for example:
 *   create trigger ... begin ...; end
 *   create function ... begin atomic ...; end
 *   create rule ... do also (...; ...)
 *
 * A statement keeps its text, but comments between statements are left out. The last statement of a script
 * needs no semicolon. A quote or comment without an end is an error.
 */
import { SvcError } from '../base/errors.ts';
import { isMySql } from './dialects.ts';
import { Lexer, type LexerOptions } from './lexer.ts';
import type { Dialect } from './driver.ts';

export interface Statement {
  readonly text: string;
  readonly line: number;
  /** Offset in the script. */
  readonly start: number;
  /** First four words of the statement, in lower case. */
  readonly words: readonly string[];
}

export class ScriptIssue extends Error {
  readonly line: number;
  constructor(line: number, problem: string) {
    super(problem);
    this.line = line;
  }
}

const WORDS_KEPT = 4;
/** Matches the kinds of objects that `create` makes in MySQL. */
const OBJECT =
  /^(?:table|view|index|database|schema|user|role|server|sequence|tablespace|procedure|function|trigger|event|package)$/;
const HAS_BODY = /^(?:procedure|function|trigger|event|package)$/;
/**
 * Matches the word after `end` in `end if`, `end loop` and so on. Does not match `case`, because a `case`
 * expression ends with plain `end`.
 */
const BLOCK = /^(?:if|loop|while|repeat|for)$/;
const EXPRESSION = 'case in an expression';
/**
 * Matches a word that opens a block, but neither the function `repeat()` nor a clause such as `for update`.
 */
const OPENS_BLOCK = /if|loop|while|case|repeat(?!\s*\()|for\s+\S+\s+in\b/iy;
/** Tokens after which a statement may begin inside the body of a procedure. */
const BEFORE_STATEMENT = /^(?:;|:|begin|then|else|do|loop|repeat)$/;
/** Tokens that may come directly before the body of a procedure or function. */
const HEAD_END = /^(?:\)|sql|data|definer|invoker|deterministic|unsigned)$/;
/** Words that may come two tokens before the body of a function, such as `returns` in `returns int begin`. */
const BEFORE_NAME = /^(?:returns|charset|set|collate|comment)$/;

export interface SplitScript {
  /** Comments above the first statement, as they are written in the script. */
  readonly head: readonly string[];
  readonly statements: readonly Statement[];
}

export function splitScript(script: string, dialect: Dialect, mayBeOpen: boolean = false): SplitScript {
  const splitter = new Splitter(script, dialect, { isScript: true });
  while (splitter.next()) {
    if (splitter.lexer.isOpen && !mayBeOpen) throw splitter.openIssue();
  }
  const { head, statements } = splitter;
  return { head, statements };
}

export function scriptStatements(script: string, dialect: Dialect): readonly string[] {
  try {
    // SQLite accepts a comment without an end, and itself reports a quote without an end
    return splitScript(script, dialect, dialect === 'sqlite').statements.map(({ text, words }) => {
      if (isTransactionControl(dialect, words))
        throw new SvcError('E_DB_STATEMENT', [
          `${words[0]!.toUpperCase()} would begin or end a transaction, which is not allowed in a script: remove the statement from the script`,
        ]);
      if (!isMySql(dialect) && text.includes('\0')) throw new SvcError('E_DB_STATEMENT', [NUL]);
      return text;
    });
  } catch (error) {
    throw error instanceof ScriptIssue
      ? new SvcError('E_DB_STATEMENT', [`in line ${error.line} ${error.message}`])
      : error;
  }
}

/** Reason for refusing a text that contains a NUL character. */
export const NUL = 'the text has a NUL, which would end it';

const SQLITE_CONTROL = ['begin', 'commit', 'end', 'rollback', 'savepoint', 'release'];
const MYSQL_CONTROL = ['begin', 'commit', 'rollback', 'savepoint', 'release', 'xa', 'start transaction'];
const CONTROL: Readonly<Record<Dialect, readonly string[]>> = {
  sqlite: SQLITE_CONTROL,
  postgres: [...SQLITE_CONTROL, 'start', 'abort', 'prepare transaction'],
  mysql: MYSQL_CONTROL,
  mariadb: MYSQL_CONTROL,
};

export function isTransactionControl(
  dialect: Dialect,
  [first = '', second = '']: readonly string[],
): boolean {
  return CONTROL[dialect].includes(first) || CONTROL[dialect].includes(`${first} ${second}`);
}

export class Splitter implements SplitScript {
  readonly head: string[] = [];
  readonly statements: Statement[] = [];
  readonly lexer: Lexer;
  readonly #dialect: Dialect;
  readonly #isMySql: boolean;
  readonly #isScript: boolean;
  #start = -1;
  #end = 0;
  #line = 1;
  #newline: number;
  #words: string[] = [];
  /** Last two tokens, without whitespace and comments. Words are in lower case. */
  #last = '';
  #beforeLast = '';
  /**
   * Kind of object that the current `create` statement makes, for example `trigger`. Empty until it is known.
   */
  #object = '';
  /** Opening words of the blocks that are still open, for example `begin` or `case`. Not used for SQLite. */
  #blocks: string[] = [];
  #closed: string | undefined;
  /**
   * Number of open parentheses. In PostgreSQL, they may contain several statements: `create rule ... do also
   * (...; ...)`.
   */
  #parentheses = 0;

  constructor(source: string, dialect: Dialect, options: LexerOptions = {}) {
    this.lexer = new Lexer(source, dialect, options);
    this.#dialect = dialect;
    this.#isMySql = isMySql(dialect);
    this.#isScript = options.isScript === true;
    this.#newline = source.indexOf('\n');
  }

  get words(): readonly string[] {
    return this.#words;
  }

  /** Reads one token. Returns false at the end of the text. */
  next(): boolean {
    const { lexer } = this;
    if (!lexer.next(this.#isScript && this.#start < 0)) {
      this.#finish();
      return false;
    }
    if (lexer.kind === 'comment') {
      if (this.#start < 0 && this.statements.length === 0) this.head.push(lexer.text);
    } else if (lexer.kind !== 'space' && (lexer.kind !== 'mark' || this.#isScript)) this.#onToken();
    return true;
  }

  /** Returns the error for the current token, a quote or comment without an end. */
  openIssue(): ScriptIssue {
    const { kind, source, start } = this.lexer;
    const quote = /\$\w*\$|./su.exec(source.slice(start))![0];
    return new ScriptIssue(
      this.#lineOf(start),
      kind === 'comment' ? 'a comment /* has no end' : `the quote ${quote} has no end`,
    );
  }

  #onToken(): void {
    const { lexer } = this;
    const { kind, text, start, end } = lexer;
    if (text === ';' && !(this.#start >= 0 && this.#isInBody())) return this.#finish();
    if (this.#start < 0) this.#start = start;
    this.#end = end;
    if (kind === 'word') this.#onWord(text.toLowerCase());
    else if (kind !== 'mark') {
      if (text === '(') this.#parentheses++;
      else if (text === ')') this.#parentheses--;
      this.#remember(kind === 'quoted' ? 'quoted' : text);
    }
  }

  /** Whether a semicolon belongs to the body of the current statement, and so does not end the statement. */
  #isInBody(): boolean {
    const [first, second] = this.#words;
    if (this.#isMySql && !this.#isScript)
      // the text is a single statement, so every semicolon belongs to its body
      return first === 'create' || (first === 'alter' && second === 'event');
    if (this.#dialect !== 'sqlite')
      return this.#blocks.length > 0 || (this.#parentheses > 0 && this.#dialect === 'postgres');
    const isTrigger = /^(?:explain )?create (?:temp |temporary )?trigger(?: |$)/.test(this.#words.join(' '));
    // as in sqlite3_complete(), "end" ends the body of a trigger only after a semicolon; elsewhere it may be
    // a name
    return isTrigger && !(this.#last === 'end' && this.#beforeLast === ';');
  }

  #onWord(word: string): void {
    if (this.#words.length < WORDS_KEPT) this.#words.push(word);
    if (
      this.#dialect !== 'sqlite' &&
      (this.#words[0] === 'create' || (this.#words[0] === 'alter' && this.#isMySql)) &&
      this.#last !== '.'
    )
      this.#countBlocks(word);
    this.#remember(word);
  }

  /** Tracks the open blocks of procedures in MySQL, and of bodies with `begin atomic` in PostgreSQL. */
  #countBlocks(word: string): void {
    if (this.#object === '' && this.#last !== '=' && this.#last !== '@' && OBJECT.test(word))
      this.#object = word; // a word after `=` or `@` is a name
    const hasBody = this.#isMySql && HAS_BODY.test(this.#object);
    if (word === 'end') this.#closed = this.#blocks.pop();
    else if (this.#last === 'end') {
      const isItsOwn =
        // true if `word` names the block that `end` has closed, as in `end if`. In the Oracle mode of
        // MariaDB, `end loop` also closes `while` and `for`.
        this.#closed === word || (word === 'loop' && /^(?:while|for)$/.test(this.#closed ?? ''));
      if (BLOCK.test(word) && this.#closed !== undefined && !isItsOwn) this.#blocks.push(this.#closed);
    } else if ((word === 'begin' && hasBody) || (word === 'atomic' && this.#last === 'begin'))
      this.#blocks.push('begin');
    else if (hasBody && (word === 'case' || BLOCK.test(word)) && this.#isAtStatement())
      this.#blocks.push(word);
    else if (word === 'case' && this.#blocks.length > 0) this.#blocks.push(EXPRESSION);
  }

  /**
   * Whether the current word begins a statement in the body of a MySQL procedure. Elsewhere, `if` and
   * `repeat` are functions.
   */
  #isAtStatement(): boolean {
    OPENS_BLOCK.lastIndex = this.lexer.start;
    if (!OPENS_BLOCK.test(this.lexer.source)) return false;
    if (this.#blocks.length === 0) return this.#isAtBody();
    // `do` may also be a statement with an expression, in which `if` is a function: `do if(a, b, c)`
    if (this.#last === 'do' && BEFORE_STATEMENT.test(this.#beforeLast)) return false;
    return (
      BEFORE_STATEMENT.test(this.#last) &&
      !(/^(?:then|else)$/.test(this.#last) && this.#blocks.at(-1) === EXPRESSION)
    );
  }

  /** Whether the body of a trigger, event, procedure or function begins at the current token. */
  #isAtBody(): boolean {
    if (this.#last === ':') return true;
    switch (this.#object) {
      case 'trigger':
        return (
          (this.#last === 'row' && this.#beforeLast === 'each') ||
          /^(?:follows|precedes)$/.test(this.#beforeLast)
        );
      case 'event':
        return this.#last === 'do';
      case 'package':
        return false;
      default:
        return this.#parentheses === 0 && (HEAD_END.test(this.#last) || BEFORE_NAME.test(this.#beforeLast));
    }
  }

  #remember(part: string): void {
    this.#beforeLast = this.#last;
    this.#last = part;
  }

  #finish(): void {
    if (this.#start >= 0)
      this.statements.push({
        text: this.lexer.source.slice(this.#start, this.#end),
        line: this.#lineOf(this.#start),
        start: this.#start,
        words: this.#words,
      });
    this.#start = -1;
    this.#words = [];
    this.#last = this.#beforeLast = this.#object = '';
    this.#blocks = [];
    this.#closed = undefined;
    this.#parentheses = 0;
  }

  #lineOf(at: number): number {
    while (this.#newline >= 0 && this.#newline < at) {
      this.#line++;
      this.#newline = this.lexer.source.indexOf('\n', this.#newline + 1);
    }
    return this.#line;
  }
}
