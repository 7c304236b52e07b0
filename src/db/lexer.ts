/**
 * SQL text -> tokens, by a table of what the dialects have of their own. Changes nothing, and takes time that grows as the text does.
 *
 *             quotes            backslash in   comments              placeholders          besides
 *   SQLite    ' " ` [ ]         -              -- and block          ? ?1 :a @a $a
 *   Postgres  ' "               E'...'         --, block nests       ? $1, ?? operator     $tag$ ... $tag$
 *   MySQL     ' " `             ' "            -- and space, #,      ?                     executable comments, whose marks are
 *                                              block                                       tokens and whose text is read
 */
import type { Dialect } from './driver.ts';

/** `mark`: what opens or closes an executable comment. `other`: one character. */
type TokenKind = 'space' | 'comment' | 'quoted' | 'word' | 'number' | 'placeholder' | 'mark' | 'other';

interface Syntax {
  readonly space: RegExp;
  readonly lineComment: RegExp;
  /** A comment where no statement has begun, if that is another one. */
  readonly lineCommentBetween?: RegExp;
  readonly nestsComments?: boolean;
  /** The opening of a comment that is run. */
  readonly executable?: RegExp;
  /** The opening of a quote -> its close. */
  readonly quotes: Readonly<Record<string, string>>;
  /** Quotes in which a backslash escapes what follows it. */
  readonly escaping: string;
  readonly placeholder: RegExp;
  /** Whether there are E'...' and $tag$ ... $tag$. */
  readonly isPostgres?: boolean;
}

const MYSQL: Syntax = {
  space: /\s+/y,
  lineComment: /(?:#|--(?=[\s\0-\x1f]|$))[^\n]*/y, // `a--1` is a sum
  lineCommentBetween: /(?:#|--)[^\n]*/y, // as its client has it
  executable: /\/\*!\d*/y,
  quotes: { "'": "'", '"': '"', '`': '`' },
  escaping: `'"`,
  placeholder: /\?/y,
};
const SYNTAX: Readonly<Record<Dialect, Syntax>> = {
  sqlite: {
    space: /[ \t\n\f\r]+/y,
    lineComment: /--[^\n]*/y,
    quotes: { "'": "'", '"': '"', '`': '`', '[': ']' },
    escaping: '',
    placeholder: /\?\d*|[:@$][\w$\u0080-\uffff]+/y,
  },
  postgres: {
    space: /[ \t\n\r\f\v]+/y,
    lineComment: /--[^\n\r]*/y,
    nestsComments: true,
    quotes: { "'": "'", '"': '"' },
    escaping: '',
    placeholder: /\?+|\$\d+/y,
    isPostgres: true,
  },
  mysql: MYSQL,
  mariadb: { ...MYSQL, executable: /\/\*M?!\d*/y },
};

const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y;
const NUMBER = /\d[\w.]*/y;
const DOLLAR_TAG = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;
const ANY_SPACE = /\s+/y;
const COMMENT_MARK = /\/\*|\*\//g;
/** Text in quotes goes on behind a line break, by the same rules. */
const CONTINUED = /(?:[ \t\f]|--[^\n\r]*)*[\n\r](?:[ \t\n\r\f]|--[^\n\r]*[\n\r])*(?=')/y;

/** How a text is read where that is not the dialect's affair. */
export interface LexerOptions {
  /** MySQL: a backslash is a character like any other (NO_BACKSLASH_ESCAPES). */
  readonly hasPlainBackslashes?: boolean | undefined;
  /** A script for a program, which may have more kinds of space than the server knows. */
  readonly isScript?: boolean | undefined;
}

/** Reads one token after the other. */
export class Lexer {
  readonly source: string;
  /** The token: its kind, and its place in the source. */
  kind: TokenKind = 'space';
  start = 0;
  end = 0;
  /** The token is a quote or a comment without an end: it reaches to the end of the text. */
  isOpen = false;
  readonly #syntax: Syntax;
  readonly #space: RegExp;
  readonly #escaping: string;
  /** The token before was the E of E'...'. */
  #isBehindE = false;
  /** An executable comment is open. */
  #isExecutable = false;

  constructor(source: string, dialect: Dialect, { hasPlainBackslashes, isScript }: LexerOptions = {}) {
    this.source = source;
    this.#syntax = SYNTAX[dialect];
    this.#space = isScript === true ? ANY_SPACE : this.#syntax.space;
    this.#escaping = hasPlainBackslashes === true ? '' : this.#syntax.escaping;
  }

  get text(): string {
    return this.source.slice(this.start, this.end);
  }

  /** Goes to the next token; false at the end. `isBetween`: no statement has begun. */
  next(isBetween: boolean = false): boolean {
    this.start = this.end;
    this.isOpen = false;
    if (this.end >= this.source.length) return false;
    const isBehindE = this.#isBehindE;
    this.#isBehindE = false;
    this.kind = this.#read(isBetween, isBehindE);
    return true;
  }

  #read(isBetween: boolean, isBehindE: boolean): TokenKind {
    const { lineComment, lineCommentBetween = lineComment, executable, quotes, isPostgres } = this.#syntax;
    if (this.#take(this.#space)) return 'space';
    if (this.#take(isBetween ? lineCommentBetween : lineComment)) return 'comment';
    const character = this.source[this.end]!; // next() looks whether there is one
    if (character === '/' && this.source[this.end + 1] === '*') {
      if (executable !== undefined && this.#take(executable)) {
        this.#isExecutable = true;
        return 'mark';
      }
      this.#skipComment();
      return 'comment';
    }
    if (this.#isExecutable && this.source.startsWith('*/', this.end)) {
      this.#isExecutable = false;
      this.end += 2;
      return 'mark';
    }
    const close = quotes[character];
    if (close !== undefined) {
      const isEscaped = isBehindE && character === "'";
      this.#skipQuoted(close, isEscaped || this.#escaping.includes(character));
      while (isEscaped && !this.isOpen && this.#take(CONTINUED)) this.#skipQuoted(close, true);
      return 'quoted';
    }
    if (this.#take(WORD)) {
      this.#isBehindE =
        isPostgres === true && this.end === this.start + 1 && (character === 'e' || character === 'E');
      return 'word';
    }
    if (isPostgres === true && character === '$' && this.#take(DOLLAR_TAG)) {
      const tag = this.text;
      this.#skipTo(this.source.indexOf(tag, this.end), tag.length);
      return 'quoted';
    }
    if (this.#take(this.#syntax.placeholder)) return 'placeholder';
    if (this.#take(NUMBER)) return 'number';
    this.end++;
    return 'other';
  }

  #skipComment(): void {
    this.end += 2;
    if (this.#syntax.nestsComments !== true) return this.#skipTo(this.source.indexOf('*/', this.end), 2);
    let depth = 1;
    COMMENT_MARK.lastIndex = this.end;
    for (let mark = COMMENT_MARK.exec(this.source); mark !== null; mark = COMMENT_MARK.exec(this.source)) {
      depth += mark[0] === '/*' ? 1 : -1;
      if (depth === 0) return this.#skipTo(mark.index, 2);
    }
    this.#skipTo(-1, 0);
  }

  /** Doubled, what closes a quote stands for itself; but for a bracket. */
  #skipQuoted(close: string, hasEscapes: boolean): void {
    const { source } = this;
    for (this.end++; this.end < source.length; this.end++) {
      const character = source[this.end];
      if (character === '\\' && hasEscapes) this.end++;
      else if (character === close) {
        this.end++;
        if (source[this.end] !== close || close === ']') return;
      }
    }
    this.#skipTo(-1, 0);
  }

  #skipTo(found: number, length: number): void {
    this.isOpen = found === -1;
    this.end = this.isOpen ? this.source.length : found + length;
  }

  #take(pattern: RegExp): boolean {
    pattern.lastIndex = this.end;
    if (!pattern.test(this.source)) return false;
    this.end = pattern.lastIndex;
    return true;
  }
}
