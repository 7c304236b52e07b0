/**
 * Syntax tree of a pattern: its nodes, the character sets in its leaves, and properties that need no automaton.
 *
 * A character set is a bit set over ASCII with one bit for all other characters. A bounded repetition counts as unbounded
 * from MANY rounds on, or when a text can be split into its rounds in many ways: (a{1,9}){1,9}.
 */

/** Rounds from which a repetition counts as unbounded. */
export const MANY = 12;

/** Set of characters: bits 0-127 are ASCII, bit 128 stands for every other character. */
export type CharSet = bigint;
/** Every character. */
export const ALL: CharSet = (1n << 129n) - 1n;
/** Every character outside ASCII. */
export const OTHER: CharSet = 1n << 128n;
/** `\d`. */
export const DIGITS: CharSet = rangeSet(48, 57);
/** `\w`. */
export const WORDS: CharSet = DIGITS | rangeSet(65, 90) | rangeSet(97, 122) | setOf('_');
/** `\s`. */
export const SPACES: CharSet = setOf('\t\n\v\f\r ') | OTHER;

/** Returns the set of the code points `from` to `to`, both included. */
export function rangeSet(from: number, to: number): CharSet {
  const low =
    from < 128 && to >= from
      ? ((1n << BigInt(Math.min(to, 127) + 1)) - 1n) & ~((1n << BigInt(from)) - 1n)
      : 0n;
  return to >= 128 ? low | OTHER : low;
}

/** Returns the set of the characters of a text. */
export function setOf(text: string): CharSet {
  let set = 0n;
  for (const char of text) set |= rangeSet(char.codePointAt(0)!, char.codePointAt(0)!);
  return set;
}

/** Returns every character that is not in `set`. OTHER stays in, because it stands for many characters. */
export function negated(set: CharSet): CharSet {
  return (ALL & ~set) | OTHER;
}

/** Node of a pattern. `ahead` is a look-ahead: a branch that leads nowhere. */
export type Tree =
  | { readonly kind: 'chars'; readonly set: CharSet }
  | { readonly kind: 'empty' }
  | { readonly kind: 'start' | 'end' }
  | { readonly kind: 'ahead'; readonly part: Tree }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly Tree[] }
  | { readonly kind: 'repeat'; readonly part: Tree; readonly least: number; readonly most: number };

/** Matches the empty text. */
export const EMPTY: Tree = { kind: 'empty' };
/** Matches no text. */
export const NEVER: Tree = { kind: 'choice', parts: [] };

/** Returns whether a part that may be empty has many required rounds, as in `(a?){20}`: each round may read or not. */
export function repeatsNothing(tree: Tree): boolean {
  if (tree.kind === 'ahead') return repeatsNothing(tree.part);
  if (tree.kind === 'repeat')
    return repeatsNothing(tree.part) || (tree.least >= MANY && canBeEmpty(tree.part));
  return (tree.kind === 'sequence' || tree.kind === 'choice') && tree.parts.some(repeatsNothing);
}

/** Returns whether a tree can match the empty text. */
function canBeEmpty(tree: Tree): boolean {
  if (tree.kind === 'chars') return false;
  if (tree.kind === 'sequence') return tree.parts.every(canBeEmpty);
  if (tree.kind === 'choice') return tree.parts.some(canBeEmpty);
  return tree.kind !== 'repeat' || tree.least === 0 || canBeEmpty(tree.part);
}

/** Returns whether a text of several rounds can be split into them in many ways: their lengths differ, and it is long. */
export function hasManySplits(part: Tree, rounds: number): boolean {
  const [least, most] = extent(part);
  return least !== most && most * rounds > MANY;
}

/**
 * Returns the fewest and the most characters that a tree reads. An endless loop counts one round more than its least:
 * the automaton finds its hazards.
 */
function extent(tree: Tree): readonly [least: number, most: number] {
  if (tree.kind === 'chars') return [1, 1];
  if (tree.kind === 'repeat') {
    const [least, most] = extent(tree.part);
    return [least * tree.least, most * (tree.most === Infinity ? tree.least + 1 : tree.most)];
  }
  if (tree.kind !== 'sequence' && tree.kind !== 'choice') return [0, 0];
  const parts = tree.parts.map(extent);
  if (tree.kind === 'choice')
    return [Math.min(...parts.map(([least]) => least)), Math.max(...parts.map(([, most]) => most))];
  return [parts.reduce((sum, [least]) => sum + least, 0), parts.reduce((sum, [, most]) => sum + most, 0)];
}

/** Returns whether every way through the pattern begins at the start of the text. */
export function startsAnchored(tree: Tree): boolean {
  if (tree.kind === 'start') return true;
  if (tree.kind === 'sequence')
    return tree.parts.some(
      (part, i) => startsAnchored(part) && tree.parts.slice(0, i).every((before) => before.kind === 'empty'),
    );
  if (tree.kind === 'choice') return tree.parts.every(startsAnchored);
  return tree.kind === 'repeat' && tree.least > 0 && startsAnchored(tree.part);
}
