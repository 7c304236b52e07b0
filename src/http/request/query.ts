/**
 * Parses `application/x-www-form-urlencoded` text, the format of query strings and forms.
 *
 * Decodes as URL Standard §5.1 does: "+" is a space, a malformed escape stays unchanged. Invalid UTF-8
 * is refused in forms, and becomes U+FFFD in query strings, which may come from links on other sites.
 */
// imported, because reading the global `Buffer`, a getter, takes longer
import { Buffer, isUtf8 } from 'node:buffer';
import { BadRequest } from '../../base/errors.ts';
import { indexFrom } from '../cookies.ts';

/** Values by name. A name may have several values. */
export interface MultiMap {
  /** The first value of a name. */
  get(name: string): string | undefined;
  /** All values of a name, in order. */
  getAll(name: string): readonly string[];
  /** Whether the name occurs. */
  has(name: string): boolean;
  /** Each name once, in order of first use. */
  keys(): Iterable<string>;
}

const NONE: readonly string[] = Object.freeze([]);

/** Pairs in their order. get() and has() search up to 16 pairs one by one, which is faster than a Map. */
export class Pairs implements MultiMap {
  readonly #names: readonly string[];
  readonly #values: readonly string[];
  #index: Map<string, string[]> | undefined;

  constructor(names: readonly string[], values: readonly string[]) {
    this.#names = names;
    this.#values = values;
  }

  get size(): number {
    return this.#names.length;
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

  /** All pairs, in order. */
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

/**
 * Parses `a=1&b=2`. Returns undefined when there are more than `maxPairs` pairs.
 *
 * @throws BadRequest for escapes that are not UTF-8, if `isStrict`
 */
export function parsePairs(text: string, maxPairs: number = Infinity, isStrict = false): Pairs | undefined {
  const names: string[] = [];
  const values: string[] = [];
  // the next "=" is remembered from pair to pair, so a text with many "&" and no "=" is searched only once
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

/**
 * Decodes a text that decodeURIComponent() refuses. Malformed escapes stay unchanged.
 * @throws BadRequest for bytes that are not UTF-8
 */
function strictlyDecoded(text: string): string {
  const decoded = Buffer.from(text)
    .toString('latin1')
    .replace(/%([\da-f]{2})/gi, (_escape, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    );
  const bytes = Buffer.from(decoded, 'latin1');
  if (isUtf8(bytes)) return bytes.toString();
  throw new BadRequest('The form is not valid UTF-8: a name or a value has an escape of other bytes', {
    code: 'utf8',
  });
}
