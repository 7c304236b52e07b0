/**
 * Parses `application/x-www-form-urlencoded` text: the format of query strings and simple forms.
 *
 * Decoding follows URL Standard §5.1: "+" is a space, and a malformed escape stays unchanged. Escapes that
 * are not UTF-8 are refused in forms. In query strings, which may come from links on other sites, they become
 * U+FFFD.
 */
// imported, because reading the global `Buffer` calls a getter, which takes longer
import { Buffer, isUtf8 } from 'node:buffer';
import { BadRequest } from '../../base/errors.ts';
import { indexFrom } from '../cookies.ts';

/** Values by name, as in a query string or form. A name may have several values. */
export interface MultiMap {
  /** Returns the first value of a name. */
  get(name: string): string | undefined;
  /** Returns all values of a name in order; an empty list if there are none. */
  getAll(name: string): readonly string[];
  /** Whether the name has a value. */
  has(name: string): boolean;
  /** Returns each name once, in the order of first occurrence. */
  keys(): Iterable<string>;
}

const NONE: readonly string[] = Object.freeze([]);

/** In up to 16 pairs, get() and has() search one by one, which is faster than a Map. */
export class Pairs implements MultiMap {
  readonly #names: readonly string[];
  readonly #values: readonly string[];
  #index: Map<string, string[]> | undefined;

  constructor(names: readonly string[], values: readonly string[]) {
    this.#names = names;
    this.#values = values;
  }

  get(name: string): string | undefined {
    if (this.#names.length > 16) return this.#indexed().get(name)?.[0];
    const at = this.#names.indexOf(name);
    return at === -1 ? undefined : this.#values[at];
  }

  getAll(name: string): readonly string[] {
    return this.#indexed().get(name) ?? NONE;
  }

  has(name: string): boolean {
    return this.#names.length > 16 ? this.#indexed().has(name) : this.#names.includes(name);
  }

  keys(): Iterable<string> {
    return this.#indexed().keys();
  }

  *[Symbol.iterator](): Generator<[name: string, value: string]> {
    for (let at = 0; at < this.#names.length; at++) yield [this.#names[at]!, this.#values[at]!];
  }

  #indexed(): Map<string, string[]> {
    if (this.#index !== undefined) return this.#index;
    const index = new Map<string, string[]>();
    this.#names.forEach((name, at) => {
      const values = index.get(name);
      if (values === undefined) index.set(name, [this.#values[at]!]);
      else values.push(this.#values[at]!);
    });
    return (this.#index = index);
  }
}

/** Parses text such as `a=1&b=2`. Returns undefined if it has more than `maxPairs` pairs. */
export function parsePairs(text: string, maxPairs: number = Infinity, isStrict = false): Pairs | undefined {
  const names: string[] = [];
  const values: string[] = [];
  // `equals` keeps its value for the next pairs, so that a text with many "&" and no "=" is searched for "="
  // only once
  let equals = -1;
  for (let start = 0; start < text.length;) {
    const end = indexFrom(text, '&', start);
    if (end > start) {
      if (names.length === maxPairs) return undefined;
      if (equals < start) equals = indexFrom(text, '=', start);
      const stop = Math.min(equals, end);
      names.push(decodePart(text.slice(start, stop), isStrict));
      values.push(stop === end ? '' : decodePart(text.slice(stop + 1, end), isStrict));
    }
    start = end + 1;
  }
  return new Pairs(names, values);
}

function decodePart(part: string, isStrict: boolean): string {
  const spaced = part.includes('+') ? part.replaceAll('+', ' ') : part;
  if (!spaced.includes('%')) return spaced.isWellFormed() ? spaced : spaced.toWellFormed();
  try {
    return decodeURIComponent(spaced).toWellFormed();
  } catch {
    return isStrict
      ? strictlyDecoded(spaced)
      : new URLSearchParams(`_=${part.replaceAll('&', '%26')}`).get('_')!;
  }
}

/** Percent-decodes text that decodeURIComponent() refuses. Malformed escapes stay unchanged. */
function strictlyDecoded(text: string): string {
  const decoded = Buffer.from(text)
    .toString('latin1')
    .replace(/%([\da-f]{2})/gi, (_escape, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    );
  const bytes = Buffer.from(decoded, 'latin1');
  if (isUtf8(bytes)) return bytes.toString();
  throw new BadRequest('The form has a name or value whose percent-escapes are not valid UTF-8', {
    code: 'utf8',
  });
}
