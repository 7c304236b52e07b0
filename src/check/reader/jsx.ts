/**
 * Replaces JSX by plain expressions. Tags and text become spaces, so that every other character keeps its
 * position and findings show the right place.
 *
 * Each element becomes a list of the expressions in its attributes and children:
 *   <p title={a}>Hello {b}</p>   ->   [         a,          b,     ]
 */

import { withinStack } from './nodes.ts';

/** Whether a file may contain JSX, to judge by its extension. */
export function mayHoldJsx(file: string): boolean {
  return /\.[jt]sx$/.test(file);
}

/** Returns the code without JSX. If the code ends inside an element, returns the part before the end. */
export function withoutJsx(source: string): string {
  return withinStack(() => new JsxReader(source).all());
}

/** Tokens after which an expression begins, so that `<` opens JSX. */
const BEFORE_EXPRESSION =
  /(?:^|[=(,[{;:?&|!+\-*%^~>}]|\b(?:return|yield|await|default|case|typeof|in|of|else))$/;

class JsxReader {
  readonly #source: string;
  readonly #out: string[];
  #at = 0;

  constructor(source: string) {
    this.#source = source;
    this.#out = source.split('');
  }

  all(): string {
    this.#code(undefined);
    return this.#out.join('');
  }

  /** Copies code up to the brace that closes a JSX expression, or to the end of the file. */
  #code(close: '}' | undefined): void {
    const source = this.#source;
    let depth = 0;
    // the last characters before this position, without comments. They show whether an expression begins
    // here.
    let last = '';
    while (this.#at < source.length) {
      const char = source[this.#at]!;
      if (char === '`') {
        this.#template();
        last = 'x';
        continue;
      }
      const end = this.#skippedEnd(char, last);
      if (end !== undefined) {
        if (!this.#isComment()) last = 'x';
        this.#at = end;
        continue;
      }
      if (char === '<' && BEFORE_EXPRESSION.test(last) && this.#beginsElement()) {
        this.#element(false);
        last = 'x';
        continue;
      }
      if (char === '{') depth++;
      if (char === '}' && depth-- === 0 && close === '}') return;
      if (!/\s/.test(char)) last = (last + char).slice(-12);
      else if (/\w$/.test(last)) last += /\w/.test(source[this.#at + 1] ?? '') ? ' ' : '';
      this.#at++;
    }
  }

  /** Copies a template. Its expressions may contain JSX. */
  #template(): void {
    const source = this.#source;
    this.#at++;
    while (this.#at < source.length && source[this.#at] !== '`') {
      if (source.startsWith('${', this.#at)) {
        this.#at += 2;
        this.#code('}');
      } else if (source[this.#at] === '\\') this.#at++;
      this.#at++;
    }
    this.#at++;
  }

  #isComment(): boolean {
    return this.#source.startsWith('//', this.#at) || this.#source.startsWith('/*', this.#at);
  }

  /** Returns the end of the comment, string or regular expression that begins at this position, or undefined. */
  #skippedEnd(char: string, last: string): number | undefined {
    const source = this.#source;
    if (source.startsWith('//', this.#at)) return endBehind(source, '\n', this.#at);
    if (source.startsWith('/*', this.#at)) return endBehind(source, '*/', this.#at + 2);
    if (char === '/' && BEFORE_EXPRESSION.test(last)) {
      PATTERN.lastIndex = this.#at;
      return PATTERN.test(source) ? PATTERN.lastIndex : undefined;
    }
    if (char !== '"' && char !== "'") return undefined;
    let end = this.#at + 1;
    while (end < source.length && source[end] !== char) end += source[end] === '\\' ? 2 : 1;
    return end + 1;
  }

  /**
   * Whether `<p>`, `<Page.Title `, `<List<Note>` or `<>` begins at this position. `<T,>(…)`, `<const T,>(…)` and
   * `<T extends …>` are type parameters.
   */
  #beginsElement(): boolean {
    return /^<(?:>|(?!const\s)[A-Za-z_$][\w$.:-]*(?:\s*(?:\/?>|<|\/[/*])|\s+(?!extends\b)[\w${]))/.test(
      this.#source.slice(this.#at, this.#at + 200),
    );
  }

  /** Writes an element as `[`, its expressions and `]`. Adds a comma if the element is a child or an attribute. */
  #element(isChild: boolean): void {
    const source = this.#source;
    this.#put('[');
    while (this.#at < source.length) {
      const char = source[this.#at]!;
      if (char === '{') this.#expression();
      else if (this.#isComment()) this.#at = this.#skippedEnd(char, '')!;
      else if (char === '<' && this.#isValue()) this.#element(true);
      else if (char === '<') this.#blankTo(endOfTypes(source, this.#at));
      else if (char === '"' || char === "'") this.#blankTo(endBehind(source, char, this.#at + 1));
      else if (char === '/' && source[this.#at + 1] === '>') {
        this.#put(isChild ? ']' : ' ');
        return this.#put(isChild ? ',' : ']');
      } else if (char === '>') {
        this.#put(' ');
        return this.#children(isChild);
      } else this.#put(' ');
    }
  }

  /** Whether an equals sign stands before this position. */
  #isValue(): boolean {
    let before = this.#at - 1;
    while (/\s/.test(this.#source[before] ?? '')) before--;
    return this.#source[before] === '=';
  }

  #children(isChild: boolean): void {
    const source = this.#source;
    while (this.#at < source.length) {
      const char = source[this.#at]!;
      if (char === '{') this.#expression();
      else if (char === '<' && source[this.#at + 1] === '/') {
        const end = endBehind(source, '>', this.#at);
        this.#blankTo(end - (isChild ? 2 : 1));
        if (isChild) this.#put(']');
        return this.#put(isChild ? ',' : ']');
      } else if (char === '<') this.#element(true);
      else this.#put(' ');
    }
  }

  /** Writes `{expression}` as a space, the expression and a comma. */
  #expression(): void {
    this.#put(' ');
    this.#code('}');
    this.#put(',');
  }

  /** Replaces the character at this position, unless it is a line break. */
  #put(char: string): void {
    if (this.#at < this.#out.length && this.#out[this.#at] !== '\n') this.#out[this.#at] = char;
    this.#at++;
  }

  #blankTo(end: number): void {
    while (this.#at < end) this.#put(' ');
  }
}

/** Matches a regular expression. */
const PATTERN = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y;

/** Returns the end of type arguments such as `<Map<string, () => void>>`. */
function endOfTypes(source: string, from: number): number {
  let depth = 0;
  for (let at = from; at < source.length; at++) {
    const char = source[at]!;
    if (char === '"' || char === "'" || char === '`') at = endBehind(source, char, at + 1) - 1;
    else if (char === '<') depth++;
    else if (char === '>' && source[at - 1] !== '=' && --depth === 0) return at + 1;
  }
  return source.length;
}

function endBehind(source: string, mark: string, from: number): number {
  const found = source.indexOf(mark, from);
  return found === -1 ? source.length : found + mark.length;
}
