/**
 * Parser of regular expressions: converts the source of a RegExp to a tree, whose nodes and character sets
 * are declared here.
 *
 * The source belongs to an existing RegExp, so the parser need not find every syntax error. Some parts are
 * simplified: \p{...} and \q{...} match every character, and \b matches the empty text.
 */

/** A repetition of at least this number of rounds counts as unbounded. */
export const MANY = 12;

/** Set of characters: bits 0-127 are ASCII, and bit 128 stands for every other character. */
export type CharSet = bigint;
export const ALL: CharSet = (1n << 129n) - 1n;
/** Every character outside ASCII. */
const OTHER: CharSet = 1n << 128n;
const DIGITS: CharSet = rangeSet(48, 57);
const WORDS: CharSet = DIGITS | rangeSet(65, 90) | rangeSet(97, 122) | setOf('_');
const SPACES: CharSet = setOf('\t\n\v\f\r ') | OTHER;

/** Returns the set of the code points `from` to `to`, both included. */
function rangeSet(from: number, to: number): CharSet {
  const low =
    from < 128 && to >= from
      ? ((1n << BigInt(Math.min(to, 127) + 1)) - 1n) & ~((1n << BigInt(from)) - 1n)
      : 0n;
  return to >= 128 ? low | OTHER : low;
}

function setOf(text: string): CharSet {
  let set = 0n;
  for (const char of text) set |= rangeSet(char.codePointAt(0)!, char.codePointAt(0)!);
  return set;
}

/** Returns every character that is not in `set`. OTHER (all characters outside ASCII) is always included. */
function negated(set: CharSet): CharSet {
  return (ALL & ~set) | OTHER;
}

/** Node of a parsed pattern. `ahead` is a look-ahead, which consumes no characters. */
export type Tree =
  | { readonly kind: 'chars'; readonly set: CharSet }
  | { readonly kind: 'empty' }
  | { readonly kind: 'start' | 'end' }
  | { readonly kind: 'ahead'; readonly part: Tree }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly Tree[] }
  | { readonly kind: 'repeat'; readonly part: Tree; readonly least: number; readonly most: number };

/** Code points of the escapes that stand for one control character. */
const CONTROLS: Readonly<Record<string, number | undefined>> = {
  n: 10,
  r: 13,
  t: 9,
  v: 11,
  f: 12,
  b: 8,
  0: 0,
};

/** Matches the empty text. */
const EMPTY: Tree = { kind: 'empty' };
/** Matches no text. */
const NEVER: Tree = { kind: 'choice', parts: [] };

/**
 * Returns whether a pattern requires many rounds of a part that may be empty, as in `(a?){20}`. Each round
 * may consume a character or not.
 */
export function repeatsNothing(tree: Tree): boolean {
  if (tree.kind === 'ahead') return repeatsNothing(tree.part);
  if (tree.kind === 'repeat')
    return repeatsNothing(tree.part) || (tree.least >= MANY && canBeEmpty(tree.part));
  return (tree.kind === 'sequence' || tree.kind === 'choice') && tree.parts.some(repeatsNothing);
}

function canBeEmpty(tree: Tree): boolean {
  if (tree.kind === 'chars') return false;
  if (tree.kind === 'sequence') return tree.parts.every(canBeEmpty);
  if (tree.kind === 'choice') return tree.parts.some(canBeEmpty);
  return tree.kind !== 'repeat' || tree.least === 0 || canBeEmpty(tree.part);
}

/**
 * Returns whether a text can be divided among the rounds of a repetition in many ways, as for
 * `(a{1,9}){1,9}`.
 */
export function hasManySplits(part: Tree, rounds: number): boolean {
  const [least, most] = extent(part);
  return least !== most && most * rounds > MANY;
}

/**
 * Returns the minimum and maximum number of characters that a part consumes. A repetition without a maximum
 * counts as one round more than its minimum.
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

/** Result of {@link parsePattern}. */
export interface ParsedPattern {
  /** The pattern without its look-behinds. */
  readonly tree: Tree;
  /**
   * Trees of the look-behinds, which are analysed separately. Each tree ends with NEVER, which matches no
   * text, so that every match counts as one that can fail.
   */
  readonly lookBehinds: readonly Tree[];
  readonly hasBackreference: boolean;
}

export function parsePattern(regex: RegExp): ParsedPattern {
  const parser = new Parser(regex);
  const tree = parser.parse();
  return { tree, lookBehinds: parser.lookBehinds, hasBackreference: parser.hasBackreference };
}

class Parser {
  hasBackreference = false;
  readonly lookBehinds: Tree[] = [];
  readonly #source: string;
  readonly #flags: string;
  #at = 0;

  constructor(regex: RegExp) {
    this.#source = regex.source;
    this.#flags = regex.flags;
  }

  parse(): Tree {
    const tree = this.#choice();
    if (this.#at < this.#source.length) throw new SyntaxError('unbalanced');
    return tree;
  }

  #choice(): Tree {
    const parts = [this.#sequence()];
    while (this.#take('|')) parts.push(this.#sequence());
    return parts.length === 1 ? parts[0]! : { kind: 'choice', parts };
  }

  #sequence(): Tree {
    const parts: Tree[] = [];
    while (this.#at < this.#source.length && this.#peek() !== '|' && this.#peek() !== ')')
      parts.push(this.#quantified());
    return { kind: 'sequence', parts };
  }

  #quantified(): Tree {
    const part = this.#atom();
    const bounds = /^(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/.exec(this.#source.slice(this.#at, this.#at + 40));
    if (bounds === null) return part;
    this.#at += bounds[0].length;
    const [, sign, least, comma, most] = bounds;
    if (sign !== undefined)
      return { kind: 'repeat', part, least: sign === '+' ? 1 : 0, most: sign === '?' ? 1 : Infinity };
    return {
      kind: 'repeat',
      part,
      least: Number(least),
      most: comma === undefined ? Number(least) : most === '' ? Infinity : Number(most),
    };
  }

  #atom(): Tree {
    const char = this.#next();
    if (char === '(') return this.#group();
    if (char === '[') return { kind: 'chars', set: this.#class() };
    if (char === '.') return { kind: 'chars', set: this.#flags.includes('s') ? ALL : negated(setOf('\n\r')) };
    if (char === '^') return this.#flags.includes('m') ? EMPTY : { kind: 'start' };
    if (char === '$') return { kind: 'end' };
    if (char === '\\') return this.#escape();
    return { kind: 'chars', set: this.#cased(setOf(char)) };
  }

  #group(): Tree {
    const opening = /^\?(?:<?[=!]|:|<[^>]*>|[a-z]*(?:-[a-z]*)?:)/.exec(this.#source.slice(this.#at));
    this.#at += opening?.[0].length ?? 0;
    const inner = this.#choice();
    if (!this.#take(')')) throw new SyntaxError('unbalanced');
    if (opening === null || !/^\?<?[=!]/.test(opening[0])) return inner;
    const part: Tree = { kind: 'sequence', parts: [inner, NEVER] };
    if (opening[0].length === 2) return { kind: 'ahead', part };
    this.lookBehinds.push(part);
    return EMPTY;
  }

  #escape(): Tree {
    const char = this.#next();
    if (char === 'b' || char === 'B') return EMPTY;
    if ((char >= '1' && char <= '9') || (char === 'k' && this.#peek() === '<')) {
      this.hasBackreference = true;
      return EMPTY;
    }
    return { kind: 'chars', set: this.#escaped(char) };
  }

  /**
   * Returns the characters that an escape such as `\d` stands for. The parser has already read the letter.
   */
  #escaped(char: string): CharSet {
    switch (char) {
      case 'd':
        return DIGITS;
      case 'D':
        return negated(DIGITS);
      case 'w':
        return WORDS;
      case 'W':
        return negated(WORDS);
      case 's':
        return SPACES;
      case 'S':
        return negated(SPACES & ~OTHER);
      case 'p':
      case 'P':
      case 'q':
        this.#skip(/^\{[^}]*\}/);
        // ALL has more characters than the class, so a safe pattern may be reported, but no hazard is missed
        return ALL;
      case 'c':
        this.#next();
        return rangeSet(0, 31);
      case 'x':
        return this.#coded(/^([0-9a-fA-F]{2})/, char);
      case 'u':
        return this.#coded(
          /[uv]/.test(this.#flags) ? /^(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{4}))/ : /^([0-9a-fA-F]{4})/,
          char,
        );
      default: {
        const code = CONTROLS[char];
        return code === undefined ? this.#cased(setOf(char)) : rangeSet(code, code);
      }
    }
  }

  #coded(form: RegExp, char: string): CharSet {
    const found = form.exec(this.#source.slice(this.#at, this.#at + 12));
    if (found === null) return this.#cased(setOf(char));
    this.#at += found[0].length;
    const code = parseInt(found[1] ?? found[2]!, 16);
    return this.#cased(rangeSet(code, code));
  }

  /** Parses a character class, after its opening bracket. Set operations of the flag `v` count as unions. */
  #class(): CharSet {
    const isNegated = this.#take('^');
    let set = 0n;
    while (!this.#take(']')) {
      const from = this.#member();
      const afterDash = this.#peek() === '-' ? this.#source[this.#at + 1] : ']';
      if (from.code !== undefined && afterDash !== ']' && !(afterDash === '-' && this.#flags.includes('v'))) {
        this.#next();
        const to = this.#member();
        set |=
          to.code === undefined ? from.set | to.set | setOf('-') : this.#cased(rangeSet(from.code, to.code));
      } else set |= from.set;
    }
    return isNegated ? negated(set & ~OTHER) : set;
  }

  #member(): { readonly set: CharSet; readonly code: number | undefined } {
    const char = this.#next();
    if (char === '[' && this.#flags.includes('v')) return { set: this.#class(), code: undefined };
    if (char !== '\\') return { set: this.#cased(setOf(char)), code: char.codePointAt(0) };
    const letter = this.#next();
    const start = this.#at;
    const set = this.#escaped(letter);
    if ('dDwWsSpPqc'.includes(letter)) return { set, code: undefined };
    const hex = this.#source.slice(start, this.#at).replace(/[{}]/g, '');
    return { set, code: CONTROLS[letter] ?? (hex === '' ? letter.codePointAt(0) : parseInt(hex, 16)) };
  }

  #cased(set: CharSet): CharSet {
    if (!this.#flags.includes('i')) return set;
    const upper = set & rangeSet(65, 90),
      lower = set & rangeSet(97, 122);
    return set | (upper << 32n) | (lower >> 32n);
  }

  #peek(): string | undefined {
    return this.#source[this.#at];
  }

  #next(): string {
    const code = this.#source.codePointAt(this.#at);
    if (code === undefined) throw new SyntaxError('ends early');
    const char = String.fromCodePoint(code);
    this.#at += char.length;
    return char;
  }

  #take(char: string): boolean {
    if (this.#source[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #skip(form: RegExp): void {
    this.#at += form.exec(this.#source.slice(this.#at))?.[0].length ?? 0;
  }
}
