/**
 * Splits SQL text into tokens, in time linear in its length. Each dialect has its own syntax table.
 *
 * MySQL executes the text of a comment that begins with `/*!`. So the lexer returns the opening mark, the
 * closing mark and each word of such a comment as tokens.
 */
import type { Dialect } from './driver.ts';

/** Kinds of tokens. `mark` bounds a comment that MySQL executes. `other` is any other character. */
type TokenKind = 'space' | 'comment' | 'quoted' | 'word' | 'number' | 'placeholder' | 'mark' | 'other';

interface Syntax {
  readonly space: RegExp;
  readonly lineComment: RegExp;
  /** Comment syntax between statements, if it differs from the syntax inside a statement. */
  readonly lineCommentBetween?: RegExp;
  readonly nestsComments?: boolean;
  /** Start of a comment whose text the server executes. */
  readonly executable?: RegExp;
  /** Closing quote for each opening quote. */
  readonly quotes: Readonly<Record<string, string>>;
  /** Quotes in which a backslash escapes the next character. */
  readonly escaping: string;
  readonly placeholder: RegExp;
  /** Whether the dialect has strings of the form E'...' and $tag$ ... $tag$. */
  readonly isPostgres?: boolean;
}

const MYSQL: Syntax = {
  space: /\s+/y,
  lineComment: /(?:#|--(?=[\s\0-\x1f]|$))[^\n]*/y, // `a--1` is a subtraction, not a comment
  lineCommentBetween: /(?:#|--)[^\n]*/y, // MySQL's command-line client needs no space after `--`
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
/**
 * PostgreSQL joins string literals that are separated by a line break: `'a'`, a line break and `'b'` mean
 * `'ab'`.
 */
const CONTINUED = /[ \t\f]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f]|--[^\n\r]*[\n\r])*(?=')/y;

export interface LexerOptions {
  /** Whether a backslash in a string is a plain character, as with NO_BACKSLASH_ESCAPES of MySQL. */
  readonly hasPlainBackslashes?: boolean | undefined;
  /**
   * Whether the text is a script of several statements. In a script, all Unicode whitespace separates tokens.
   */
  readonly isScript?: boolean | undefined;
}

export class Lexer {
  readonly source: string;
  kind: TokenKind = 'space';
  start = 0;
  end = 0;
  /** Whether the current token is a quoted text or a comment that has no end. */
  isOpen = false;
  readonly #syntax: Syntax;
  readonly #space: RegExp;
  readonly #escaping: string;
  /** Whether the previous token was the `E` of a string such as `E'\n'`, which has escapes. */
  #isBehindE = false;
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

  /** Moves on. Returns false at the end. `isBetween`: between statements, where comments may differ. */
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
    const character = this.source[this.end]!;
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

  /**
   * Skips a quoted token. A doubled quote, as in `'it''s'`, does not end the token. The `]` of `[name]`
   * always ends it.
   */
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

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Returns the tokens of a text, without whitespace and comments. */
export function tokensOf(source: string, dialect: Dialect): readonly Token[] {
  const lexer = new Lexer(source, dialect);
  const tokens: Token[] = [];
  while (lexer.next()) {
    const { kind, text, start, end } = lexer;
    if (kind !== 'space' && kind !== 'comment') tokens.push({ kind, text, start, end });
  }
  return tokens;
}
