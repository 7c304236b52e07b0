/**
 * PostgreSQL's text form of arrays: {1,2,NULL,"a,\"b"}, nested, with bounds in front where they do not begin at 1.
 */

/** Deeper ones the server does not have. */
const MAX_DEPTH = 6;

/** An array of the server, its elements read by `element`; NULL is null. Text that is no array comes back as it is. */
export function arrayFromText(text: string, element: (text: string) => unknown, delimiter: string): unknown {
  const start = text.startsWith('[') ? text.indexOf('=') + 1 : 0; // [0:1]={...}: from which number it counts is lost
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
      from = ++this.#at; // what was escaped is taken with the next piece
      if (character === '"') return this.#element(value);
    }
    return undefined;
  }
}

/** A list as the server reads it; `element` gives the text of each, null for NULL. Lists inside are further dimensions. */
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
