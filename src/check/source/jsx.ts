/**
 * JSX as plain expressions: each element becomes a list of the expressions in its attributes and children. Every character keeps its place,
 * so that findings do; tags and text become blanks.
 *
 *   <p title={a}>Hello {b}</p>   ->   [         a,          b,     ]
 */

/** Whether a file may hold JSX. */
export function mayHoldJsx(file: string): boolean {
  return /\.[jt]sx$/.test(file);
}

/** Returns the code without JSX. Text that ends early gives what was read. */
export function withoutJsx(source: string): string {
  return new JsxReader(source).all();
}

/** Words and punctuators behind which an expression begins. */
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

  /** Code up to the brace that closes an expression of JSX, or to the end. */
  #code(close: '}' | undefined): void {
    const source = this.#source;
    let depth = 0;
    let last = ''; // the code before, without blanks and comments: its end says whether an expression begins
    while (this.#at < source.length) {
      const char = source[this.#at]!;
      const end = this.#skippedEnd(char);
      if (end !== undefined) {
        if (!source.startsWith('/', this.#at)) last = 'x';
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

  /** The end of a comment, a string or a template that begins here. */
  #skippedEnd(char: string): number | undefined {
    const source = this.#source;
    if (char === '/' && source[this.#at + 1] === '/') return endBehind(source, '\n', this.#at);
    if (char === '/' && source[this.#at + 1] === '*') return endBehind(source, '*/', this.#at + 2);
    if (char !== '"' && char !== "'" && char !== '`') return undefined;
    let end = this.#at + 1;
    while (end < source.length && source[end] !== char) end += source[end] === '\\' ? 2 : 1;
    return end + 1;
  }

  /** `<p>`, `<Page.Title `, `<>`; not `<T,>(…)` and `<T extends …>`, which are types. */
  #beginsElement(): boolean {
    return /^<(?:>|[A-Za-z_$][\w$.:-]*(?:\s*\/?>|\s+(?!extends\b)[\w${]))/.test(
      this.#source.slice(this.#at, this.#at + 200),
    );
  }

  /** An element: `[`, its expressions, `]`; as a child with a comma behind it. */
  #element(isChild: boolean): void {
    const source = this.#source;
    this.#put('[');
    while (this.#at < source.length) {
      const char = source[this.#at]!;
      if (char === '{') this.#expression();
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

  /** `{expression}`: blank, the expression, a comma. */
  #expression(): void {
    this.#put(' ');
    this.#code('}');
    this.#put(',');
  }

  /** Replaces one character; line ends stay. */
  #put(char: string): void {
    if (this.#at < this.#out.length && this.#out[this.#at] !== '\n') this.#out[this.#at] = char;
    this.#at++;
  }

  #blankTo(end: number): void {
    while (this.#at < end) this.#put(' ');
  }
}

function endBehind(source: string, mark: string, from: number): number {
  const found = source.indexOf(mark, from);
  return found === -1 ? source.length : found + mark.length;
}
