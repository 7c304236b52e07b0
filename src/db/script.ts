/**
 * A script -> its statements: what a semicolon does not end are the bodies of triggers, functions and rules.
 *
 *   create trigger ... begin ...; end;   create function ... begin atomic ...; end   create rule ... do also (...; ...)
 *
 * Nothing is changed within a statement; comments around it are left out. A statement that is not ended by the end of the
 * script is one, too; a quote or comment that is not, is a mistake.
 */
import { SvcError } from '../base/errors.ts';
import { isMySql } from './dialects.ts';
import { Lexer, type LexerOptions } from './lexer.ts';
import type { Dialect } from './driver.ts';

/** One statement, and the line it begins in, counted from 1. */
export interface Statement {
  readonly text: string;
  readonly line: number;
  /** The first four words of the statement, in lower case. */
  readonly words: readonly string[];
}

/** A mistake in a script. */
export class ScriptIssue extends Error {
  readonly line: number;
  constructor(line: number, problem: string) {
    super(problem);
    this.line = line;
  }
}

const WORDS_KEPT = 4;
/** Objects that MySQL creates; some of them have bodies, in which a semicolon ends nothing. */
const OBJECT =
  /^(?:table|view|index|database|schema|user|role|server|sequence|tablespace|procedure|function|trigger|event|package)$/;
const HAS_BODY = /^(?:procedure|function|trigger|event|package)$/;
/** Words behind `end` that say which block it closes; `case` may be an expression, which ends by `end` alone. */
const BLOCK = /^(?:if|loop|while|repeat|for)$/;
const EXPRESSION = 'case in an expression';
/** A block and no function, no clause of a query. */
const OPENS_BLOCK = /if|loop|while|case|repeat(?!\s*\()|for\s+\S+\s+in\b/iy;
/** Tokens before a statement in a body. */
const BEFORE_STATEMENT = /^(?:;|:|begin|then|else|do|loop|repeat)$/;
/** The last words that may stand before the body of a procedure or function; and before a last name, type or text. */
const HEAD_END = /^(?:\)|sql|data|definer|invoker|deterministic|unsigned)$/;
const BEFORE_NAME = /^(?:returns|charset|set|collate|comment)$/;

/** A script, taken apart. */
export interface SplitScript {
  /** The comments above the first statement, as they are written. */
  readonly head: readonly string[];
  /** In their order. */
  readonly statements: readonly Statement[];
}

/** Comments and statements of a script. @throws ScriptIssue for a quote or comment without an end, unless it `mayBeOpen` */
export function splitScript(script: string, dialect: Dialect, mayBeOpen: boolean = false): SplitScript {
  const splitter = new Splitter(script, dialect, { isScript: true });
  while (splitter.next()) {
    if (splitter.lexer.isOpen && !mayBeOpen) throw splitter.openIssue();
  }
  const { head, statements } = splitter;
  return { head, statements };
}

/** The statements of a script, each to be run as it is. @throws SvcError `E_DB_STATEMENT` for one that ends the transaction around it, and for quotes without an end */
export function scriptStatements(script: string, dialect: Dialect): readonly string[] {
  try {
    // SQLite takes a comment without an end, and refuses a quote itself, behind the statements before it
    return splitScript(script, dialect, dialect === 'sqlite').statements.map(({ text, words }) => {
      if (isTransactionControl(dialect, words))
        throw new SvcError('E_DB_STATEMENT', [
          `${words[0]!.toUpperCase()} in a script would end or hide the transaction around it`,
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

/** Why a text with a NUL is refused. */
export const NUL = 'the text has a NUL, which would end it';

const SQLITE_CONTROL = ['begin', 'commit', 'end', 'rollback', 'savepoint', 'release'];
const MYSQL_CONTROL = ['begin', 'commit', 'rollback', 'savepoint', 'release', 'xa', 'start transaction'];
/** Statements that begin or end a transaction, by their first words. */
const CONTROL: Readonly<Record<Dialect, readonly string[]>> = {
  sqlite: SQLITE_CONTROL,
  postgres: [...SQLITE_CONTROL, 'start', 'abort', 'prepare transaction'],
  mysql: MYSQL_CONTROL,
  mariadb: MYSQL_CONTROL,
};

/** Whether a statement of these first words begins or ends a transaction. */
export function isTransactionControl(
  dialect: Dialect,
  [first = '', second = '']: readonly string[],
): boolean {
  return CONTROL[dialect].includes(first) || CONTROL[dialect].includes(`${first} ${second}`);
}

/** Goes through a text token by token, and finds its statements. */
export class Splitter implements SplitScript {
  readonly head: string[] = [];
  readonly statements: Statement[] = [];
  readonly lexer: Lexer;
  readonly #dialect: Dialect;
  readonly #isMySql: boolean;
  readonly #isScript: boolean;
  /** Where the statement begins, -1 before it has. */
  #start = -1;
  #end = 0;
  /** The line that was asked for last, and where it or a later one ends. */
  #line = 1;
  #newline: number;
  #words: string[] = [];
  /** The last two things that are neither space nor comment: `;`, a word, or something else. */
  #last = '';
  #beforeLast = '';
  /** The object that a `create` of MySQL creates, once that is known. */
  #object = '';
  /** The words that opened what is open in a body of PostgreSQL or MySQL: `begin`, `case`, ... */
  #blocks: string[] = [];
  /** The one that `end` has just closed. */
  #closed: string | undefined;
  /** How many parentheses are open: PostgreSQL has rules of several statements, `do also (...; ...)`. */
  #parentheses = 0;

  constructor(source: string, dialect: Dialect, options: LexerOptions = {}) {
    this.lexer = new Lexer(source, dialect, options);
    this.#dialect = dialect;
    this.#isMySql = isMySql(dialect);
    this.#isScript = options.isScript === true;
    this.#newline = source.indexOf('\n');
  }

  /** The first words of the statement that is being read. */
  get words(): readonly string[] {
    return this.#words;
  }

  /** Reads a token; false at the end. */
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

  /** Says that the token has no end. */
  openIssue(): ScriptIssue {
    const { kind, source, start } = this.lexer;
    const quote = /\$\w*\$|./su.exec(source.slice(start))![0]; // there is a token
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

  /** Whether a semicolon ends no more than a statement inside this one. */
  #isInBody(): boolean {
    const [first, second] = this.#words;
    if (this.#isMySql && !this.#isScript)
      return first === 'create' || (first === 'alter' && second === 'event'); // the server judges more
    if (this.#dialect !== 'sqlite')
      return this.#blocks.length > 0 || (this.#parentheses > 0 && this.#dialect === 'postgres');
    const isTrigger = /^(?:explain )?create (?:temp |temporary )?trigger(?: |$)/.test(this.#words.join(' '));
    return isTrigger && !(this.#last === 'end' && this.#beforeLast === ';'); // as sqlite3_complete() decides: "end" may be a name elsewhere
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

  /** MySQL has bodies of procedures, PostgreSQL those that begin with `begin atomic`. */
  #countBlocks(word: string): void {
    if (this.#object === '' && this.#last !== '=' && this.#last !== '@' && OBJECT.test(word))
      this.#object = word; // behind those it is a name
    const hasBody = this.#isMySql && HAS_BODY.test(this.#object);
    if (word === 'end') this.#closed = this.#blocks.pop();
    else if (this.#last === 'end') {
      const isItsOwn =
        this.#closed === word || (word === 'loop' && /^(?:while|for)$/.test(this.#closed ?? '')); // as Oracle writes them
      if (BLOCK.test(word) && this.#closed !== undefined && !isItsOwn) this.#blocks.push(this.#closed); // this `end` closes a block that was not counted
    } else if ((word === 'begin' && hasBody) || (word === 'atomic' && this.#last === 'begin'))
      this.#blocks.push('begin');
    else if (hasBody && (word === 'case' || BLOCK.test(word)) && this.#isAtStatement())
      this.#blocks.push(word);
    else if (word === 'case' && this.#blocks.length > 0) this.#blocks.push(EXPRESSION);
  }

  /** Whether a word begins a statement in a body of MySQL: `if` and `repeat` are functions elsewhere. */
  #isAtStatement(): boolean {
    OPENS_BLOCK.lastIndex = this.lexer.start;
    if (!OPENS_BLOCK.test(this.lexer.source)) return false;
    if (this.#blocks.length === 0) return this.#isAtBody();
    if (this.#last === 'do' && BEFORE_STATEMENT.test(this.#beforeLast)) return false; // `do` is a statement of its own with an expression: `do if(a, b, c)`
    return (
      BEFORE_STATEMENT.test(this.#last) &&
      !(/^(?:then|else)$/.test(this.#last) && this.#blocks.at(-1) === EXPRESSION)
    );
  }

  /** Whether this is where the body begins: behind `for each row`, `do`, or the parameters and what is said of them. */
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
