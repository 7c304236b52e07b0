/**
 * Splits JavaScript into tokens: names, numbers, strings, templates, patterns, punctuators and comments. The
 * text must not contain types.
 *
 * The template `a${b}c` has seven tokens: the two backticks, `${` and `}` are punctuators, "a" and "c" are
 * text of the template, and "b" is a name. The tokenizer never throws. It splits text that is not JavaScript,
 * too.
 */

type TokenKind = 'name' | 'private' | 'number' | 'string' | 'template' | 'pattern' | 'punctuator' | 'comment';

/** A token with its position in the text. */
export interface Token {
  readonly kind: TokenKind;
  /** The text as written in the source. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  /** Whether a line break precedes this token. */
  readonly isFirstOfLine: boolean;
}

const LINE = /[^\n\r\u2028\u2029]*/y;
const SPACE = /[\s\uFEFF]+/y;
const NAME = /(?:[A-Za-z_$\u0080-\uFFFF]|\\u[\dA-Fa-f{]+\}?)(?:[\w$\u0080-\uFFFF]|\\u[\dA-Fa-f{]+\}?)*/y;
const NUMBER = /(?:0[xXoObB][\dA-Fa-f_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?[\d_]+)?)n?/y;
const PUNCTUATOR =
  />>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--|[-+*/%&|^]=|<<|>>|\*\*|[^]/y;
/** Words before an expression. A slash after one of them begins a regular expression. */
const BEFORE_EXPRESSION: ReadonlySet<string> = new Set([
  ...[
    'return',
    'typeof',
    'case',
    'in',
    'of',
    'void',
    'delete',
    'do',
    'else',
    'yield',
    'await',
    'throw',
    'new',
  ],
  'instanceof',
]);
/** Punctuators that end an expression. A slash after one of them is a division. */
const AFTER_EXPRESSION: ReadonlySet<string> = new Set([')', ']', '}', '`', '++', '--']);

/** Returns all tokens of a text in order, including comments. */
export function tokensOf(source: string): Token[] {
  return new Tokenizer(source).all();
}

class Tokenizer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  /** For each open brace, whether `${` opened it. */
  readonly #braces: boolean[] = [];
  #at = 0;
  #isFirstOfLine = true;
  #last: Token | undefined;

  constructor(source: string) {
    this.#source = source;
  }

  all(): Token[] {
    if (this.#source.startsWith('#!')) this.#add('comment', this.#lineEnd(0));
    while (this.#at < this.#source.length) this.#next();
    return this.#tokens;
  }

  #next(): void {
    const source = this.#source;
    if (this.#skipSpace()) return;
    const char = source[this.#at]!;
    const following = source[this.#at + 1];
    if (char === '/' && following === '/') this.#add('comment', this.#lineEnd(this.#at));
    else if (char === '/' && following === '*') this.#add('comment', endOf(source, '*/', this.#at + 2));
    else if (char === '"' || char === "'") this.#add('string', this.#quotedEnd());
    else if (char === '`') this.#openTemplate();
    else if (/\d/.test(char) || (char === '.' && /\d/.test(following ?? '')))
      this.#add('number', this.#match(NUMBER));
    else if (char === '#' && /[\w$]/.test(following ?? '')) {
      this.#at++;
      const end = this.#match(NAME);
      this.#at--;
      this.#add('private', end);
    } else if (char === '/' && this.#isBeforePattern()) this.#add('pattern', this.#patternEnd());
    else {
      const name = this.#match(NAME);
      if (name > this.#at) this.#add('name', name);
      else this.#punctuator();
    }
  }

  /** Skips spaces and line breaks. Returns whether there were any. */
  #skipSpace(): boolean {
    const source = this.#source;
    const from = this.#at;
    for (let code = source.charCodeAt(this.#at); code === 32 || (code >= 9 && code <= 13);) {
      if (code === 10 || code === 13) this.#isFirstOfLine = true;
      code = source.charCodeAt(++this.#at);
    }
    if (source.charCodeAt(this.#at) < 128 || this.#at >= source.length) return this.#at > from;
    const space = this.#match(SPACE);
    if (/[\n\r\u2028\u2029]/.test(source.slice(this.#at, space))) this.#isFirstOfLine = true;
    this.#at = space;
    return space > from;
  }

  #punctuator(): void {
    this.#add('punctuator', this.#match(PUNCTUATOR));
    const { text } = this.#last!; // `#last` is defined here: the caller has just added a token
    if (text === '{') this.#braces.push(false);
    if (text === '}' && this.#braces.pop() === true) this.#template();
  }

  #openTemplate(): void {
    this.#add('punctuator', this.#at + 1);
    this.#template();
  }

  /** Reads the text of a template up to the next `${`, or up to the closing backtick. */
  #template(): void {
    const source = this.#source;
    let end = this.#at;
    while (end < source.length && source[end] !== '`' && !(source[end] === '$' && source[end + 1] === '{'))
      end += source[end] === '\\' ? 2 : 1;
    this.#add('template', Math.min(end, source.length));
    if (this.#at >= source.length) return;
    const isEnd = source[this.#at] === '`';
    this.#add('punctuator', this.#at + (isEnd ? 1 : 2));
    if (!isEnd) this.#braces.push(true);
  }

  #add(kind: TokenKind, end: number): void {
    const token: Token = {
      kind,
      text: this.#source.slice(this.#at, end),
      start: this.#at,
      end,
      isFirstOfLine: this.#isFirstOfLine,
    };
    this.#tokens.push(token);
    this.#at = end;
    if (kind === 'comment') {
      if (token.text.includes('\n')) this.#isFirstOfLine = true;
      return;
    }
    this.#isFirstOfLine = false;
    this.#last = token;
  }

  #match(pattern: RegExp): number {
    pattern.lastIndex = this.#at;
    return pattern.test(this.#source) ? pattern.lastIndex : this.#at;
  }

  #lineEnd(from: number): number {
    LINE.lastIndex = from;
    return LINE.test(this.#source) ? LINE.lastIndex : from;
  }

  #quotedEnd(): number {
    const source = this.#source;
    let end = this.#at + 1;
    while (end < source.length && source[end] !== source[this.#at]) end += source[end] === '\\' ? 2 : 1;
    return Math.min(end + 1, source.length);
  }

  #patternEnd(): number {
    const source = this.#source;
    let isInClass = false;
    let end = this.#at + 1;
    for (; end < source.length && source[end] !== '\n'; end++) {
      const char = source[end];
      if (char === '\\') end++;
      else if (char === '[') isInClass = true;
      else if (char === ']') isInClass = false;
      else if (char === '/' && !isInClass) break;
    }
    end = Math.min(end + 1, source.length);
    return end + /^[a-z]*/.exec(source.slice(end, end + 10))![0].length;
  }

  #isBeforePattern(): boolean {
    const last = this.#last;
    if (last === undefined) return true;
    if (last.kind === 'name') return BEFORE_EXPRESSION.has(last.text);
    return last.kind === 'punctuator' && !AFTER_EXPRESSION.has(last.text);
  }
}

function endOf(source: string, mark: string, from: number): number {
  const found = source.indexOf(mark, from);
  return found === -1 ? source.length : found + mark.length;
}
