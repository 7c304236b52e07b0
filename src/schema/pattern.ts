/**
 * Patterns that backtrack without bound, found before a request finds them.
 *
 *   pattern -> tree -> automaton (Thompson) -> is one text matched by one loop in two ways?
 *     state p, text w:  two different paths p -w-> p                    exponential: (a+)+  (a|a)*  (\w|\d)*
 *     states p != q:     p -w-> p,  p -w-> q,  q -w-> q, and then failure  polynomial:  \s*\s*x  .*a.*b  (unanchored) \d+x
 *
 * Character sets are bit sets over ASCII and one bit for the rest; a bounded repetition counts as unbounded from MANY up, or
 * when its rounds can be told apart in many ways: (a{1,9}){1,9}. A look-ahead is a branch that leads nowhere, a look-behind
 * a pattern of its own; a back-reference is not analysed and said to be a hazard.
 */

/** How bad: `exponential` in the length of the text, `polynomial`, or `unknown` (too large, or back-references). */
export interface PatternHazard {
  readonly degree: 'exponential' | 'polynomial' | 'unknown';
  readonly message: string;
  /** UTF-16 units up to which a text is tested with such a pattern; longer ones are refused untested. */
  readonly maxTestedLength: number;
}

const MANY = 12;
const MAX_STATES = 260;
/** UTF-16 units tested with a pattern that is exponential, or may be. */
const LEAST_TESTED = 16;
const MOST_TESTED = 500;
/** Ways to match that are tried for one text, some 10 ns each. */
const MOST_WAYS = 1_000_000;

/** What is dangerous about a pattern, in words, or undefined. */
export function patternHazard(regex: RegExp): string | undefined {
  return analysePattern(regex)?.message;
}

/** What is dangerous about a pattern, and how long a text may be tested with it. */
export function analysePattern(regex: RegExp): PatternHazard | undefined {
  let parsed: { tree: Tree; parser: Parser };
  try {
    const parser = new Parser(regex);
    parsed = { tree: parser.parse(), parser };
  } catch {
    return hazard('unknown', 'cannot be analysed');
  }
  if (parsed.parser.hasBackreference)
    return hazard('unknown', 'has a back-reference, which cannot be analysed');
  return analyseTrees(parsed.tree, parsed.parser.lookBehinds);
}

function analyseTrees(tree: Tree, lookBehinds: readonly Tree[]): PatternHazard | undefined {
  const automata = [
    new Automaton(tree, startsAnchored(tree)),
    ...lookBehinds.map((inner) => new Automaton(inner, false)),
  ];
  if (automata.some(({ isTooLarge }) => isTooLarge)) return hazard('unknown', 'is too large to be analysed');
  if (
    [tree, ...lookBehinds].some(repeatsNothing) ||
    automata.some((automaton) => automaton.isExponential())
  ) {
    return hazard(
      'exponential',
      'can backtrack exponentially: one text fits a repeated part in several ways',
    );
  }
  const slow = automata.filter((automaton) => automaton.isPolynomial());
  if (slow.length === 0) return undefined;
  const exponent = Math.max(...slow.map((automaton) => automaton.exponent()));
  return hazard(
    'polynomial',
    'can backtrack in polynomial time: neighbouring repetitions accept the same characters',
    mostTested(exponent),
  );
}

function hazard(
  degree: PatternHazard['degree'],
  what: string,
  maxTestedLength = LEAST_TESTED,
): PatternHazard {
  return { degree, message: `the pattern ${what}`, maxTestedLength };
}

/** The length up to which a text can be cut in `exponent` places, also twice in one, in no more than MOST_WAYS ways. */
function mostTested(exponent: number): number {
  let length = MOST_TESTED;
  while (length > 1 && waysToCut(length, exponent) > MOST_WAYS) length--;
  return length;
}

/** The number of multisets of `places` places: C(length + places, places). */
function waysToCut(length: number, places: number): number {
  let ways = 1;
  for (let place = 1; place <= places; place++) ways *= (length + place) / place;
  return ways;
}

/** Bits 0-127 are ASCII characters, bit 128 every other character. */
type CharSet = bigint;
const ALL: CharSet = (1n << 129n) - 1n;
const OTHER: CharSet = 1n << 128n;
const DIGITS = rangeSet(48, 57);
const WORDS = DIGITS | rangeSet(65, 90) | rangeSet(97, 122) | setOf('_');
const SPACES = setOf('\t\n\v\f\r ') | OTHER;

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

/** Everything but `set`; the bit of non-ASCII stays, for it stands for many. */
function negated(set: CharSet): CharSet {
  return (ALL & ~set) | OTHER;
}

type Tree =
  | { readonly kind: 'chars'; readonly set: CharSet }
  | { readonly kind: 'empty' }
  | { readonly kind: 'start' | 'end' }
  | { readonly kind: 'ahead'; readonly part: Tree }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly Tree[] }
  | { readonly kind: 'repeat'; readonly part: Tree; readonly least: number; readonly most: number };

const EMPTY: Tree = { kind: 'empty' };
const NEVER: Tree = { kind: 'choice', parts: [] };

/** Reads the source of a RegExp that JavaScript has accepted, so that only what it can mean must be told apart. */
class Parser {
  hasBackreference = false;
  /** What look-behinds contain, each ended by what never fits: it is tried again wherever the pattern is. */
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

  /** The set of an escape whose backslash and letter have been read. */
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
        this.#skip(/^\{[^}]*\}/);
        return ALL; // more than it means: a hazard too many, never one too few
      case 'q':
        this.#skip(/^\{[^}]*\}/);
        return ALL;
      case 'n':
        return setOf('\n');
      case 'r':
        return setOf('\r');
      case 't':
        return setOf('\t');
      case 'v':
        return setOf('\v');
      case 'f':
        return setOf('\f');
      case 'b':
        return setOf('\b');
      case '0':
        return setOf('\0');
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
      default:
        return this.#cased(setOf(char));
    }
  }

  #coded(form: RegExp, char: string): CharSet {
    const found = form.exec(this.#source.slice(this.#at, this.#at + 12));
    if (found === null) return this.#cased(setOf(char));
    this.#at += found[0].length;
    const code = parseInt(found[1] ?? found[2]!, 16);
    return this.#cased(rangeSet(code, code));
  }

  /** A class, its opening bracket read. Set operations of the flag `v` are read as unions. */
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
    const simple = { n: 10, r: 13, t: 9, v: 11, f: 12, b: 8, 0: 0 }[letter];
    const hex = this.#source.slice(start, this.#at).replace(/[{}]/g, '');
    return { set, code: simple ?? (hex === '' ? letter.codePointAt(0) : parseInt(hex, 16)) };
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

interface State {
  /** Moves that consume nothing; one entry per way, since two ways to the same place are two ways to match. */
  readonly free: number[];
  set: CharSet;
  next: number;
}

/** A Thompson automaton over character states: its transitions run from one consuming state to the next. */
class Automaton {
  isTooLarge = false;
  readonly #states: State[] = [];
  readonly #final: number;
  /** Per consuming state the consuming states that may follow, and whether two free ways lead to the same one. */
  readonly #following = new Map<number, readonly number[]>();
  readonly #doubled = new Set<number>();
  /** Consuming states from which the pattern is complete without a further condition. */
  readonly #complete = new Set<number>();
  readonly #consuming: number[] = [];
  /** Per loop state the end of the states of its body, which come right after it. */
  readonly #bodies = new Map<number, number>();
  #hasEnd = false;

  constructor(tree: Tree, isAnchored: boolean) {
    this.#final = this.#state();
    const start = this.#build(
      isAnchored
        ? tree
        : {
            kind: 'sequence',
            parts: [{ kind: 'repeat', part: { kind: 'chars', set: ALL }, least: 0, most: Infinity }, tree],
          },
      this.#final,
    );
    if (this.isTooLarge) return;
    this.#consuming = this.#states.flatMap((state, id) => (state.set === 0n ? [] : [id]));
    for (const id of [...this.#consuming, start])
      this.#follow(id, this.#states[id]!.set === 0n ? id : this.#states[id]!.next);
  }

  /** Adds states that read `tree` and go on at `next`; returns where they begin. */
  #build(tree: Tree, next: number): number {
    if (this.#states.length > MAX_STATES) {
      this.isTooLarge = true;
      return next;
    }
    switch (tree.kind) {
      case 'empty':
      case 'start':
        return next;
      case 'end':
        this.#hasEnd = true;
        return next;
      case 'chars': {
        const id = this.#state();
        this.#states[id]!.set = tree.set;
        this.#states[id]!.next = next;
        return id;
      }
      case 'sequence':
        return tree.parts.reduceRight((after, part) => this.#build(part, after), next);
      case 'choice':
        return this.#fork(tree.parts.map((part) => this.#build(part, next)));
      case 'ahead':
        return this.#fork([this.#build(tree.part, next), next]);
      case 'repeat':
        return this.#repeat(tree.part, tree.least, tree.most, next);
    }
  }

  #repeat(part: Tree, least: number, most: number, next: number): number {
    let entry = next;
    if (most >= MANY || (most > 1 && hasManySplits(part, most))) {
      const loop = this.#fork([next]);
      this.#states[loop]!.free.push(this.#build(part, loop));
      this.#bodies.set(loop, this.#states.length);
      entry = loop;
      for (let i = 0; i < Math.min(least, 2); i++) entry = this.#build(part, entry);
      return entry;
    }
    for (let i = least; i < most; i++) entry = this.#fork([this.#build(part, entry), next]);
    for (let i = 0; i < least; i++) entry = this.#build(part, entry);
    return entry;
  }

  #state(): number {
    this.#states.push({ free: [], set: 0n, next: -1 });
    return this.#states.length - 1;
  }

  #fork(targets: readonly number[]): number {
    const id = this.#state();
    this.#states[id]!.free.push(...targets);
    return id;
  }

  /** Walks the free moves behind `from`: what may be consumed next. A second way to the same state is remembered. */
  #follow(id: number, from: number): void {
    const ways = new Map<number, number>();
    let steps = 0;
    const walk = (at: number, before: readonly number[]): void => {
      if (before.includes(at) || ++steps > 4_000) return; // a loop may not go round without reading (ECMA-262 §22.2.2.3.1)
      if (at === this.#final) this.#complete.add(id);
      if (this.#states[at]!.set !== 0n) ways.set(at, (ways.get(at) ?? 0) + 1);
      const bodyEnd = this.#bodies.get(at) ?? at; // a new round of a loop enters its body anew
      const path = [...before.filter((state) => state < at || state >= bodyEnd), at];
      for (const target of this.#states[at]!.free) walk(target, path);
    };
    walk(from, []);
    this.#following.set(id, [...ways.keys()]);
    for (const [target, count] of ways) if (count > 1) this.#doubled.add(id * 4_096 + target);
  }

  #overlap(a: number, b: number): boolean {
    return (this.#states[a]!.set & this.#states[b]!.set) !== 0n;
  }

  /** Some state p reaches the pair (p, p) again by two different paths over one text. */
  isExponential(): boolean {
    for (const p of this.#consuming) {
      if (!this.#reaches(p, p)) continue;
      if (this.#pairLoop(p)) return true;
    }
    return false;
  }

  /** From (p, p) over pairs that read the same characters back to (p, p), having differed on the way. */
  #pairLoop(p: number): boolean {
    const seen = new Set<number>();
    const stack: [number, number, boolean][] = [[p, p, false]];
    for (let item = stack.pop(); item !== undefined; item = stack.pop()) {
      const [a, b, hasDiffered] = item;
      for (const x of this.#following.get(a)!) {
        for (const y of this.#following.get(b)!) {
          if (!this.#overlap(x, y)) continue;
          const differs = hasDiffered || x !== y || this.#doubled.has(a * 4_096 + x);
          if (differs && x === p && y === p) return true;
          const key = (x * 4_096 + y) * 2 + (differs ? 1 : 0);
          if (seen.has(key)) continue;
          seen.add(key);
          stack.push([x, y, differs]);
        }
      }
    }
    return false;
  }

  /** Loops p and q != p where one text leads p to p, p to q, and q to q, and what follows q can fail. */
  isPolynomial(): boolean {
    const loops = this.#consuming.filter((state) => this.#reaches(state, state));
    for (const p of loops) {
      for (const q of loops) {
        if (
          p !== q &&
          this.#overlap(p, q) &&
          this.#reaches(p, q) &&
          this.#canFailAfter(q) &&
          this.#tripleLoop(p, q)
        )
          return true;
      }
    }
    return false;
  }

  /** The exponent of the time, at most: one more than the steps from loop to loop on one way that share characters. */
  exponent(): number {
    const loops = this.#consuming.filter((state) => this.#reaches(state, state));
    const known = new Map<number, number>();
    const stepsFrom = (p: number): number => {
      const together = loops.filter((other) => this.#reaches(p, other) && this.#reaches(other, p));
      let most = known.get(together[0]!);
      if (most !== undefined) return most;
      most = 0;
      for (const q of loops) {
        if (!this.#reaches(p, q) || this.#reaches(q, p)) continue;
        most = Math.max(most, stepsFrom(q) + (together.some((other) => this.#overlap(other, q)) ? 1 : 0));
      }
      known.set(together[0]!, most);
      return most;
    };
    return 1 + Math.max(0, ...loops.map(stepsFrom));
  }

  /** Whether a match that has come to q can still fail: something is yet to be read, or the text must end here. */
  #canFailAfter(q: number): boolean {
    return this.#hasEnd || !this.#complete.has(q);
  }

  #tripleLoop(p: number, q: number): boolean {
    const seen = new Set<number>();
    const stack: [number, number, number][] = [[p, p, q]];
    for (let item = stack.pop(); item !== undefined; item = stack.pop()) {
      if (seen.size > 60_000) return true; // too large to finish: said to be a hazard
      for (const x of this.#following.get(item[0])!) {
        for (const y of this.#following.get(item[1])!) {
          if (!this.#overlap(x, y)) continue;
          for (const z of this.#following.get(item[2])!) {
            if ((this.#states[x]!.set & this.#states[y]!.set & this.#states[z]!.set) === 0n) continue;
            if (x === p && y === q && z === q) return true;
            const key = (x * 4_096 + y) * 4_096 + z;
            if (seen.has(key)) continue;
            seen.add(key);
            stack.push([x, y, z]);
          }
        }
      }
    }
    return false;
  }

  readonly #reachable = new Map<number, Set<number>>();
  #reaches(from: number, to: number): boolean {
    let found = this.#reachable.get(from);
    if (found === undefined) {
      found = new Set();
      const stack = [from];
      for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
        for (const next of this.#following.get(at)!) {
          if (found.has(next)) continue;
          found.add(next);
          stack.push(next);
        }
      }
      this.#reachable.set(from, found);
    }
    return found.has(to);
  }
}

/** Whether something that may match nothing must be repeated many times, as in `(a?){20}`: every round may or may not read. */
function repeatsNothing(tree: Tree): boolean {
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

/** Whether rounds of differing lengths make so long a text that its ways to be split into rounds are many. */
function hasManySplits(part: Tree, rounds: number): boolean {
  const [least, most] = extent(part);
  return least !== most && most * rounds > MANY;
}

/** The fewest and the most characters that a tree reads. An endless loop counts one round more than it must: the analysis sees it anyway. */
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

/** Whether every way through the pattern begins at the start of the text. */
function startsAnchored(tree: Tree): boolean {
  if (tree.kind === 'start') return true;
  if (tree.kind === 'sequence')
    return tree.parts.some(
      (part, i) => startsAnchored(part) && tree.parts.slice(0, i).every((before) => before.kind === 'empty'),
    );
  if (tree.kind === 'choice') return tree.parts.every(startsAnchored);
  return tree.kind === 'repeat' && tree.least > 0 && startsAnchored(tree.part);
}
