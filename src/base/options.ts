/**
 * Reads an object of options once, and checks its names and values. The caller's object is never changed.
 *
 * Example:
 *   const { perMinute, store } = readOptions('RateLimitMiddleware', options, { perMinute: int(120, 1, 1_000_000), store: given<Store>() });
 */
import { SvcError } from './errors.ts';

/**
 * Definition of one option: `accepts` validates, `needs` describes valid values, `fallback` is the default.
 */
export interface OptionKind<T> {
  readonly needs: string;
  readonly fallback: T;
  accepts(value: unknown): boolean;
}

/** Type of the object that {@link readOptions} returns for a table of option definitions. */
type OptionValues<K> = { readonly [N in keyof K]: K[N] extends OptionKind<infer T> ? T : never };

/** The options `O` after they are read: each of `D` has a value, and the others may be undefined. */
export type Resolved<O, D extends keyof O> = {
  readonly [N in keyof O]-?: N extends D ? NonNullable<O[N]> : O[N];
};

/** Option whose value is an integer from `least` to `greatest`. */
export function int(fallback: number, least: number, greatest: number): OptionKind<number> {
  return {
    fallback,
    needs: `an integer ${least} … ${greatest}`,
    accepts: (value) =>
      Number.isInteger(value) && (value as number) >= least && (value as number) <= greatest,
  };
}

/** Option whose value is an integer from `least` to `greatest`. It may be absent. */
export function optionalInt(least: number, greatest: number): OptionKind<number | undefined> {
  return { ...int(least, least, greatest), fallback: undefined };
}

/** Option whose value is a finite number from `least` to `greatest`. */
export function number(fallback: number, least: number, greatest: number): OptionKind<number> {
  return {
    fallback,
    needs: `a number ${least} … ${greatest}`,
    accepts: (value) => Number.isFinite(value) && (value as number) >= least && (value as number) <= greatest,
  };
}

/** Option whose value is `true` or `false`. Without a fallback it may be absent. */
export function bool(): OptionKind<boolean | undefined>;
export function bool(fallback: boolean): OptionKind<boolean>;
export function bool(fallback?: boolean): OptionKind<boolean | undefined> {
  return { fallback, needs: 'true or false', accepts: isBoolean };
}

/** Option whose value is a string. Without a fallback it may be absent. */
export function text(): OptionKind<string | undefined>;
export function text(fallback: string): OptionKind<string>;
export function text(fallback?: string): OptionKind<string | undefined> {
  return { fallback, needs: 'a string', accepts: (value) => typeof value === 'string' };
}

/** Option whose value is one of the listed words. */
export function oneOf<const T extends string>(words: readonly T[], fallback: T): OptionKind<T> {
  return {
    fallback,
    needs: `one of ${words.map((word) => `"${word}"`).join(', ')}`,
    accepts: (value) => (words as readonly unknown[]).includes(value),
  };
}

/** Option whose value `accepts` approves, such as a function, a store or a list. It may be absent. */
export function given<T>(
  needs = 'a value',
  accepts: (value: unknown) => boolean = () => true,
): OptionKind<T | undefined> {
  return { fallback: undefined, needs, accepts };
}

export function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

export function isFunction(value: unknown): boolean {
  return typeof value === 'function';
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

export function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !Array.isArray(value);
}

/** Returns an own member of an object, or undefined. An inherited one, such as `constructor`, does not count. */
export function own<T>(object: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/**
 * Sets an own member of an object. An assignment to the name `__proto__` would change the prototype instead.
 */
export function setOwn(object: object, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  else (object as Record<string, unknown>)[name] = value;
}

/** Returns the error for an invalid option. `owner` is what has the option, `found` the value as text. */
export function outOfRange(owner: string, option: string, needs: string, found: string): SvcError {
  return new SvcError('E_OPTION_RANGE', [owner, option, needs, found]);
}

/**
 * Reads every option of `kinds` from `options`. Absent and `undefined` options get their fallback.
 *
 * @throws SvcError `E_OPTION_UNKNOWN` for a name that is not in `kinds`, `E_OPTION_RANGE` for a value that is
 *   not valid, or if `options` is not an object
 */
export function readOptions<K extends Record<string, OptionKind<unknown>>>(
  owner: string,
  options: object,
  kinds: K,
): OptionValues<K> {
  if (!isRecord(options)) throw outOfRange(owner, 'options', 'needs an object', shown(options));
  for (const name of Object.keys(options)) kindNamed(owner, name, kinds);
  const values: Record<string, unknown> = {};
  for (const name of Object.keys(kinds)) {
    const kind = kinds[name]!;
    const value = options[name];
    if (value !== undefined && !kind.accepts(value))
      throw outOfRange(owner, name, `needs ${kind.needs}`, shown(value));
    values[name] = value === undefined ? kind.fallback : value;
  }
  return values as OptionValues<K>;
}

/**
 * Like {@link readOptions}, but options that are not given are absent from the result. This saves memory for
 * declarations, such as routes, of which a program may have thousands.
 */
export function readGiven<K extends Record<string, OptionKind<unknown>>>(
  owner: string,
  options: Readonly<Record<string, unknown>>,
  kinds: K,
): Partial<OptionValues<K>> {
  const values: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    const kind = kindNamed(owner, name, kinds);
    if (value === undefined) continue;
    if (!kind.accepts(value)) throw outOfRange(owner, name, `needs ${kind.needs}`, shown(value));
    values[name] = value;
  }
  return values as Partial<OptionValues<K>>;
}

function kindNamed(
  owner: string,
  name: string,
  kinds: Readonly<Record<string, OptionKind<unknown>>>,
): OptionKind<unknown> {
  const kind = own(kinds, name);
  if (kind !== undefined) return kind;
  const known = Object.keys(kinds);
  throw new SvcError('E_OPTION_UNKNOWN', [owner, name, closest(name, known), known]);
}

/** Puts an entry at the end of a Map, which keeps its last `most` entries. Returns the value. */
export function remember<K, V>(map: Map<K, V>, most: number, key: K, value: V): V {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value!); // defined, because the map is not empty
  return value;
}

/** Returns a function that makes one value for each object, and then returns this value. */
export function onePer<K extends object, V extends NonNullable<unknown>>(make: (key: K) => V): (key: K) => V {
  const made = new WeakMap<K, V>();
  return (key) => {
    let value = made.get(key);
    if (value === undefined) made.set(key, (value = make(key)));
    return value;
  };
}

/** Returns a copy of an object without the members that are undefined. */
export function defined<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T;
}

/** Returns a copy of an object without the members that are null, which some senders use for absence. */
export function withoutNulls(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

/** Returns the value of a JSON text; undefined if the text is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Describes a value for an error. Never shows the content of a string, which may be a secret. */
export function shown(value: unknown): string {
  if (typeof value === 'string')
    return `a string of ${value.length} character${value.length === 1 ? '' : 's'}`;
  if (typeof value === 'number' || typeof value === 'boolean' || value === null || value === undefined)
    return String(value);
  if (typeof value === 'bigint') return `${value}n`;
  return Array.isArray(value)
    ? 'an array'
    : typeof value === 'function'
      ? 'a function'
      : typeof value === 'symbol'
        ? 'a symbol'
        : 'an object';
}

/**
 * Returns the candidate that `word` probably means, or undefined. The candidate begins with `word`, or
 * differs from it in at most a third of the letters. A difference of one letter is always allowed, and more
 * than three letters never.
 */
export function closest(word: string, given: Iterable<string>): string | undefined {
  const candidates = [...given];
  return (
    nearest(word, candidates, Math.min(3, Math.max(1, Math.floor(word.length / 3)))) ??
    candidates.find((candidate) => word.length > 2 && candidate.toLowerCase().startsWith(word.toLowerCase()))
  );
}

/** Returns the end of a message about an unknown word. Empty if no other candidate is like the word. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const near = closest(word, candidates);
  return near === undefined || near === word ? '' : `: did you mean "${near}"?`;
}

/**
 * Returns the candidate that differs least from `word`, by at most `most` letters; undefined if there is
 * none.
 */
export function nearest(word: string, candidates: Iterable<string>, most: number): string | undefined {
  let best: string | undefined;
  let bestDistance = most + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/**
 * Returns the number of insertions, deletions, replacements and swaps of neighbours between two words
 * (optimal string alignment).
 */
function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let above = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const line = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      let cost = Math.min(above[column]! + 1, line[column - 1]! + 1, above[column - 1]! + (isSame ? 0 : 1));
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1])
        cost = Math.min(cost, before[column - 2]! + 1);
      line.push(cost);
    }
    [before, above] = [above, line];
  }
  return above[to.length]!;
}
