/**
 * A script -> its statements, by a lexer that knows what a semicolon does not end: text, quoted names, comments, the bodies
 * of triggers and functions.
 *
 *   'it''s'  "name"  `name`  [name]  $tag$ ... $tag$  -- line comment  block comment  create trigger ... begin ...; end;
 *
 * Nothing is changed within a statement; comments around it are left out. A statement that is not ended by the end of the
 * script is one, too; a quote or comment that is not, is a mistake.
 */
import type { Dialect } from '../driver.ts';

/** One statement, and the line it begins in, counted from 1. */
export interface Statement {
  readonly text: string;
  readonly line: number;
  /** Its first words in small letters, of which no more than four are kept. */
  readonly words: readonly string[];
}

/** What is wrong with a script. */
export class ScriptProblem extends Error {
  readonly line: number;
  constructor(line: number, problem: string) {
    super(problem);
    this.line = line;
  }
}

const WORDS_KEPT = 4;
const WORD = /[\p{L}_][\p{L}\p{N}_$]*/uy;
const LINE_COMMENT = /--/y;
/** Behind `--` MySQL wants a blank or a control character: `a--1` is a sum. */
const MYSQL_LINE_COMMENT = /#|--(?=[\x00-\x20]|$)/y;
/** Its client takes any `--` for one where no statement has begun. */
const MYSQL_LINE_COMMENT_BETWEEN = /#|--/y;
/** No comments but statements, or parts of them, for servers of that version on: mysqldump writes views, partitions and settings so. */
const MYSQL_EXECUTABLE = /\/\*!\d*/y;
const MARIADB_EXECUTABLE = /\/\*M?!\d*/y;
/** What MySQL creates; of these some have bodies, in which a semicolon ends nothing. */
const OBJECT =
  /^(?:table|view|index|database|schema|user|role|server|sequence|tablespace|procedure|function|trigger|event|package)$/;
const HAS_BODY = /^(?:procedure|function|trigger|event|package)$/;
/** What stands behind `end`, where it opened a block; `case` may be an expression, which ends by `end` alone. */
const BLOCK = /^(?:if|loop|while|repeat|for)$/;
const EXPRESSION = 'case in an expression';
/** A block and no function, no clause of a query. */
const OPENS_BLOCK = /if|loop|while|case|repeat(?!\s*\()|for\s+\S+\s+in\b/iy;
/** What stands before a statement in a body. */
const BEFORE_STATEMENT = /^(?:;|:|begin|then|else|do|loop|repeat)$/;
/** The last words that may stand before the body of a procedure or function; and before a last name, type or text. */
const HEAD_END = /^(?:\)|sql|data|definer|invoker|deterministic|unsigned)$/;
const BEFORE_NAME = /^(?:returns|charset|set|collate|comment)$/;
const DOLLAR_TAG = /\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$/uy;

/** A script, taken apart. */
export interface SplitScript {
  /** The comments above the first statement, as they are written. */
  readonly head: readonly string[];
  /** In their order. */
  readonly statements: readonly Statement[];
}

/** Comments and statements of a script. @throws ScriptProblem for a quote or comment without an end */
export function splitScript(script: string, dialect: Dialect): SplitScript {
  return new Splitter(script, dialect).split();
}

/** The statements alone. @throws ScriptProblem */
export function splitStatements(script: string, dialect: Dialect): readonly Statement[] {
  return splitScript(script, dialect).statements;
}

class Splitter {
  readonly #script: string;
  readonly #isMySql: boolean;
  readonly #dialect: Dialect;
  readonly #head: string[] = [];
  readonly #found: Statement[] = [];
  #at = 0;
  /** Where the statement begins, -1 before it has. */
  #start = -1;
  #end = 0;
  #words: string[] = [];
  /** The last two things that are neither space nor comment: `;`, a word, or something else. */
  #last = '';
  #beforeLast = '';
  /** What a `create` of MySQL creates, once that is known. */
  #object = '';
  /** The words that opened what is open in a body of PostgreSQL or MySQL: `begin`, `case`, ... */
  #blocks: string[] = [];
  /** The one that `end` has just closed. */
  #closed: string | undefined;
  /** How many parentheses are open: PostgreSQL has rules of several statements, `do also (...; ...)`. */
  #parentheses = 0;

  constructor(script: string, dialect: Dialect) {
    this.#script = script;
    this.#dialect = dialect;
    this.#isMySql = dialect === 'mysql' || dialect === 'mariadb';
  }

  split(): SplitScript {
    while (this.#at < this.#script.length) this.#step();
    this.#finish();
    return { head: this.#head, statements: this.#found };
  }

  #step(): void {
    const character = this.#script[this.#at]!; // split() looks whether there is one
    if (/\s/.test(character)) this.#at++;
    else if (!this.#skipComment()) {
      if (character === ';') this.#onSemicolon();
      else {
        if (this.#start < 0) this.#start = this.#at;
        this.#skipPart(character);
        this.#end = this.#at;
      }
    }
  }

  #skipComment(): boolean {
    if (
      this.#matched(
        !this.#isMySql ? LINE_COMMENT : this.#start < 0 ? MYSQL_LINE_COMMENT_BETWEEN : MYSQL_LINE_COMMENT,
      ) !== undefined
    ) {
      const end = this.#script.indexOf('\n', this.#at);
      const begin = this.#at;
      this.#at = end < 0 ? this.#script.length : end;
      this.#onComment(begin);
      return true;
    }
    if (!this.#script.startsWith('/*', this.#at) || this.#executable() !== undefined) return false;
    const begin = this.#at;
    let depth = 1;
    for (this.#at += 2; depth > 0;) {
      const close = this.#script.indexOf('*/', this.#at);
      if (close < 0) throw this.#problem(begin, 'a comment /* has no end');
      const open = this.#dialect === 'postgres' ? this.#script.indexOf('/*', this.#at) : -1; // which alone nests them
      const opens = open >= 0 && open < close;
      depth += opens ? 1 : -1;
      this.#at = (opens ? open : close) + 2;
    }
    this.#onComment(begin);
    return true;
  }

  /** What opens a part that is run, `/*!50100`; nothing else has. */
  #executable(): string | undefined {
    return this.#isMySql
      ? this.#matched(this.#dialect === 'mariadb' ? MARIADB_EXECUTABLE : MYSQL_EXECUTABLE)
      : undefined;
  }

  #onComment(begin: number): void {
    if (this.#start < 0 && this.#found.length === 0) this.#head.push(this.#script.slice(begin, this.#at));
  }

  #onSemicolon(): void {
    if (this.#start >= 0 && this.#isInBody()) {
      this.#remember(';');
      this.#end = ++this.#at;
      return;
    }
    this.#finish();
    this.#at++;
  }

  /** Whether a semicolon ends no more than a statement inside this one. */
  #isInBody(): boolean {
    if (this.#dialect !== 'sqlite')
      return this.#blocks.length > 0 || (this.#parentheses > 0 && this.#dialect === 'postgres');
    const [first, second, third] = this.#words;
    const isTrigger =
      first === 'create' &&
      (second === 'trigger' || ((second === 'temp' || second === 'temporary') && third === 'trigger'));
    return isTrigger && !(this.#last === 'end' && this.#beforeLast === ';'); // as sqlite3_complete() decides: "end" may be a name elsewhere
  }

  #skipPart(character: string): void {
    if (
      character === "'" ||
      character === '"' ||
      character === '`' ||
      (character === '[' && this.#dialect === 'sqlite')
    )
      this.#skipQuoted(character);
    else if (character === '$' && this.#dialect === 'postgres' && this.#matched(DOLLAR_TAG) !== undefined)
      this.#skipDollarQuoted();
    else if (character === '/' && this.#executable() !== undefined) this.#at += this.#executable()!.length;
    else if (this.#isMySql && this.#script.startsWith('*/', this.#at))
      this.#at += 2; // with an asterisk behind it no comment begins
    else {
      const word = this.#matched(WORD);
      if (word === undefined) {
        if (character === '(') this.#parentheses++;
        else if (character === ')') this.#parentheses--;
        this.#remember(character);
        this.#at++;
      } else this.#onWord(word);
    }
  }

  #skipQuoted(quote: string): void {
    const begin = this.#at;
    const close = quote === '[' ? ']' : quote;
    const hasEscapes =
      (quote !== '`' && this.#isMySql) ||
      (quote === "'" &&
        this.#dialect === 'postgres' &&
        this.#last === 'e' &&
        /e/i.test(this.#script[begin - 1] ?? ''));
    for (this.#at++; ; this.#at++) {
      const character = this.#script[this.#at];
      if (character === undefined) throw this.#problem(begin, `the quote ${quote} has no end`);
      if (character === '\\' && hasEscapes) this.#at++;
      else if (character === close) {
        this.#at++;
        if (this.#script[this.#at] !== close || quote === '[') break; // doubled, it stands for itself
      }
    }
    this.#remember('quoted');
  }

  #skipDollarQuoted(): void {
    const tag = this.#matched(DOLLAR_TAG)!; // the caller has looked
    const end = this.#script.indexOf(tag, this.#at + tag.length);
    if (end < 0) throw this.#problem(this.#at, `the quote ${tag} has no end`);
    this.#at = end + tag.length;
    this.#remember('quoted');
  }

  #onWord(word: string): void {
    const lower = word.toLowerCase();
    if (this.#words.length < WORDS_KEPT) this.#words.push(lower);
    if (
      this.#dialect !== 'sqlite' &&
      (this.#words[0] === 'create' || (this.#words[0] === 'alter' && this.#isMySql)) &&
      this.#last !== '.'
    )
      this.#countBlocks(lower);
    this.#at += word.length;
    this.#remember(lower);
  }

  /** MySQL has bodies of procedures, PostgreSQL those that begin with `begin atomic`. */
  #countBlocks(word: string): void {
    if (this.#object === '' && this.#last !== '=' && this.#last !== '@' && OBJECT.test(word))
      this.#object = word; // behind those it is somebody's name
    const hasBody = this.#isMySql && HAS_BODY.test(this.#object);
    if (word === 'end') this.#closed = this.#blocks.pop();
    else if (this.#last === 'end') {
      const isItsOwn =
        this.#closed === word || (word === 'loop' && /^(?:while|for)$/.test(this.#closed ?? '')); // as Oracle writes them
      if (BLOCK.test(word) && this.#closed !== undefined && !isItsOwn) this.#blocks.push(this.#closed); // it closed what was not counted
    } else if ((word === 'begin' && hasBody) || (word === 'atomic' && this.#last === 'begin'))
      this.#blocks.push('begin');
    else if (hasBody && (word === 'case' || BLOCK.test(word)) && this.#isAtStatement())
      this.#blocks.push(word);
    else if (word === 'case' && this.#blocks.length > 0) this.#blocks.push(EXPRESSION);
  }

  /** Whether a word begins a statement in a body of MySQL: `if` and `repeat` are functions elsewhere. */
  #isAtStatement(): boolean {
    if (this.#matched(OPENS_BLOCK) === undefined) return false;
    if (this.#blocks.length === 0) return this.#isAtBody();
    if (this.#last === 'do' && BEFORE_STATEMENT.test(this.#beforeLast)) return false; // it is a statement itself, with an expression: `do if(a, b, c)`
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
      this.#found.push({
        text: this.#script.slice(this.#start, this.#end),
        line: this.#lineOf(this.#start),
        words: this.#words,
      });
    [
      this.#start,
      this.#words,
      this.#last,
      this.#beforeLast,
      this.#object,
      this.#blocks,
      this.#closed,
      this.#parentheses,
    ] = [-1, [], '', '', '', [], undefined, 0];
  }

  #matched(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#script)?.[0];
  }

  #problem(at: number, problem: string): ScriptProblem {
    return new ScriptProblem(this.#lineOf(at), problem);
  }

  #lineOf(at: number): number {
    let line = 1;
    for (
      let next = this.#script.indexOf('\n');
      next >= 0 && next < at;
      next = this.#script.indexOf('\n', next + 1)
    )
      line++;
    return line;
  }
}
