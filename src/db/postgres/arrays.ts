/**
 * Reads and writes PostgreSQL's text form of arrays, such as {1,2,NULL,"a,\"b"}. Arrays may be nested. If a
 * lower bound is not 1, the text begins with the bounds: [0:1]={1,2}.
 */

const MAX_DEPTH = 6;

/** Parses an array; `element` parses the elements. Returns text that is not an array unchanged. */
export function arrayFromText(text: string, element: (text: string) => unknown, delimiter: string): unknown {
  // skip the bounds at the start of a text such as [0:1]={1,2}
  const start = text.startsWith('[') ? text.indexOf('=') + 1 : 0;
  const reader = new ArrayReader(text, start, element, delimiter);
  return reader.read() ?? text;
}

class ArrayReader {
  readonly #text: string;
  readonly #element: (text: string) => unknown;
  readonly #delimiter: string;
  #at: number;

  constructor(text: string, at: number, element: (text: string) => unknown, delimiter: string) {
    this.#text = text;
    this.#at = at;
    this.#element = element;
    this.#delimiter = delimiter;
  }

  read(): unknown[] | undefined {
    const list = this.#list(1);
    return this.#at === this.#text.length ? list : undefined;
  }

  #list(depth: number): unknown[] | undefined {
    if (this.#text[this.#at] !== '{' || depth > MAX_DEPTH) return undefined;
    this.#at++;
    const list: unknown[] = [];
    while (this.#text[this.#at] !== '}') {
      const value = this.#text[this.#at] === '{' ? this.#list(depth + 1) : this.#value();
      if (value === undefined) return undefined;
      list.push(value);
      if (this.#text[this.#at] === this.#delimiter) this.#at++;
      else if (this.#text[this.#at] !== '}') return undefined;
    }
    this.#at++;
    return list;
  }

  #value(): unknown {
    if (this.#text[this.#at] === '"') return this.#quoted();
    const begin = this.#at;
    while (
      this.#at < this.#text.length &&
      this.#text[this.#at] !== '}' &&
      this.#text[this.#at] !== this.#delimiter
    )
      this.#at++;
    const word = this.#text.slice(begin, this.#at);
    return word === 'NULL' ? null : this.#element(word);
  }

  #quoted(): unknown {
    let value = '';
    for (let from = ++this.#at; this.#at < this.#text.length; this.#at++) {
      const character = this.#text[this.#at];
      if (character !== '"' && character !== '\\') continue;
      value += this.#text.slice(from, this.#at);
      from = ++this.#at; // skip the backslash; the character after it is part of the value
      if (character === '"') return this.#element(value);
    }
    return undefined;
  }
}

/** Returns the text of a list. `element` returns the text of an element; null is NULL. */
export function arrayText(
  list: readonly unknown[],
  element: (value: unknown) => string | null,
  delimiter: string,
): string {
  return `{${list.map((value) => (Array.isArray(value) ? arrayText(value, element, delimiter) : quoted(element(value)))).join(delimiter)}}`;
}

function quoted(text: string | null): string {
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}
