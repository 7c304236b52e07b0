/**
 * Finds patterns that can backtrack exponentially or polynomially, before a request uses them.
 *
 * pattern-parser.ts parses a pattern to a tree. This file converts the tree to a Thompson automaton. Then it
 * searches for texts that match a loop of the automaton in two ways.
 *
 * A backtracking matcher tries every way in which a text can match. It is slow in two cases:
 *   - Exponential time: a loop matches one text in two ways, as in (a+)+ and (a|a)* and (\w|\d)*
 *   - Polynomial time: two loops in a row match one text, and the match fails after them, as in \s*\s*x and
 *     .*a.*b and, without an anchor, \d+x
 *
 * A look-behind is analysed as a separate pattern. A back-reference is reported as a hazard without analysis.
 */
import { ALL, hasManySplits, MANY, parsePattern, repeatsNothing, startsAnchored } from './pattern-parser.ts';
import type { CharSet, ParsedPattern, Tree } from './pattern-parser.ts';

/** Maximum number of states of an automaton that is analysed. */
const MAX_STATES = 260;

class State {
  readonly id: number;
  /** Characters that the state consumes; 0 if it consumes none. */
  readonly set: CharSet;
  /** Next states, for a state that consumes no character. A state that two moves reach is listed twice. */
  readonly free: State[];
  /** For the state of a loop: the end of its body, whose states follow directly after it. */
  bodyEnd: number;
  /** For a state that consumes a character: the states that may consume the next one. */
  following: readonly State[] = [];
  /** Members of `following` that follow in two ways. */
  doubled: ReadonlySet<State> = new Set();
  /** Whether the match may be complete after this state. */
  isComplete = false;
  #reachable: Set<State> | undefined;

  constructor(id: number, set: CharSet, free: readonly State[]) {
    this.id = this.bodyEnd = id;
    this.set = set;
    this.free = [...free];
  }

  reaches(other: State): boolean {
    if (this.#reachable === undefined) {
      this.#reachable = new Set(this.following);
      for (const state of this.#reachable) for (const next of state.following) this.#reachable.add(next);
    }
    return this.#reachable.has(other);
  }

  overlaps(other: State): boolean {
    return (this.set & other.set) !== 0n;
  }
}

/** Automaton of one tree. Its results must not be used if {@link isTooLarge} is true. */
class PatternAutomaton {
  /** True when the tree needs more than MAX_STATES states. */
  isTooLarge = false;
  #size = 0;
  readonly #final = this.#state([]);
  /** States that consume a character, each with the state after it. */
  readonly #moves = new Map<State, State>();
  /** States of `#moves` to which a text can return. */
  readonly #loops: readonly State[] = [];
  #hasEnd = false;

  constructor(tree: Tree, isAnchored: boolean) {
    const anywhere: Tree = { kind: 'repeat', part: { kind: 'chars', set: ALL }, least: 0, most: Infinity };
    this.#build(isAnchored ? tree : { kind: 'sequence', parts: [anywhere, tree] }, this.#final);
    if (this.isTooLarge) return;
    for (const [state, next] of this.#moves) this.#follow(state, next);
    this.#loops = [...this.#moves.keys()].filter((state) => state.reaches(state));
  }

  /** Adds states that match `tree` and then lead to `next`. Returns the first of these states. */
  #build(tree: Tree, next: State): State {
    if (this.#size > MAX_STATES) {
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
        const state = this.#state([], tree.set);
        if (tree.set !== 0n) this.#moves.set(state, next);
        return state;
      }
      case 'sequence':
        return tree.parts.reduceRight((after, part) => this.#build(part, after), next);
      case 'choice':
        return this.#state(tree.parts.map((part) => this.#build(part, next)));
      case 'ahead':
        return this.#state([this.#build(tree.part, next), next]);
      case 'repeat':
        return this.#repeat(tree.part, tree.least, tree.most, next);
    }
  }

  #repeat(part: Tree, least: number, most: number, next: State): State {
    let entry = next;
    if (most >= MANY || (most > 1 && hasManySplits(part, most))) {
      const loop = this.#state([next]);
      loop.free.push(this.#build(part, loop));
      loop.bodyEnd = this.#size;
      entry = loop;
      for (let i = 0; i < Math.min(least, 2); i++) entry = this.#build(part, entry);
      return entry;
    }
    for (let i = least; i < most; i++) entry = this.#state([this.#build(part, entry), next]);
    for (let i = 0; i < least; i++) entry = this.#build(part, entry);
    return entry;
  }

  #state(free: readonly State[], set: CharSet = 0n): State {
    return new State(this.#size++, set, free);
  }

  /**
   * Follows the moves from `from` that consume no character. Records which states may consume the next
   * character, and which of them are reached in two ways.
   */
  #follow(state: State, from: State): void {
    const ways = new Map<State, number>();
    let steps = 0;
    const walk = (at: State, before: readonly State[]): void => {
      // a loop must not repeat without consuming a character (ECMA-262 §22.2.2.3.1)
      if (before.includes(at) || ++steps > 4_000) return;
      if (at === this.#final) state.isComplete = true;
      if (at.set !== 0n) ways.set(at, (ways.get(at) ?? 0) + 1);
      // a new round may visit the loop body again
      const path = [...before.filter(({ id }) => id < at.id || id >= at.bodyEnd), at];
      for (const target of at.free) walk(target, path);
    };
    walk(from, []);
    state.following = [...ways.keys()];
    state.doubled = new Set(state.following.filter((target) => ways.get(target) !== 1));
  }

  /** Returns whether one text leads from a state back to this state on two different paths. */
  isExponential(): boolean {
    return this.#loops.some((state) => hasPairLoop(state));
  }

  /**
   * Returns whether two loops in a row can match one text, and the match can fail after them, as in \s*\s*x.
   */
  isPolynomial(): boolean {
    return this.#loops.some((p) =>
      this.#loops.some(
        (q) => p !== q && p.overlaps(q) && p.reaches(q) && this.#canFailAfter(q) && hasTripleLoop(p, q),
      ),
    );
  }

  /** Returns the exponent k of the time of a match, which grows at most as length^k. */
  exponent(): number {
    const known = new Map<State | undefined, number>();
    const stepsFrom = (p: State): number => {
      const together = this.#loops.filter((other) => p.reaches(other) && other.reaches(p));
      let most = known.get(together[0]);
      if (most !== undefined) return most;
      most = 0;
      for (const q of this.#loops) {
        if (!p.reaches(q) || q.reaches(p)) continue;
        most = Math.max(most, stepsFrom(q) + (together.some((other) => other.overlaps(q)) ? 1 : 0));
      }
      known.set(together[0], most);
      return most;
    };
    return 1 + Math.max(0, ...this.#loops.map(stepsFrom));
  }

  /** More must follow after q, or the text must end there. */
  #canFailAfter(q: State): boolean {
    return this.#hasEnd || !q.isComplete;
  }
}

/** Yields the pairs of states that consume the same next character after a pair. */
function* nextPairs(a: State, b: State): Generator<readonly [State, State]> {
  for (const x of a.following) for (const y of b.following) if (x.overlaps(y)) yield [x, y];
}

/** Returns whether one text leads from the state p back to p on two different paths. */
function hasPairLoop(p: State): boolean {
  const seen = new Set<number>();
  const queue: [State, State, boolean][] = [[p, p, false]];
  for (const [a, b, hasDiffered] of queue) {
    for (const [x, y] of nextPairs(a, b)) {
      const differs = hasDiffered || x !== y || a.doubled.has(x);
      if (differs && x === p && y === p) return true;
      const key = (x.id * 4_096 + y.id) * 2 + (differs ? 1 : 0);
      if (!seen.has(key)) queue.push([x, y, differs]);
      seen.add(key);
    }
  }
  return false;
}

function hasTripleLoop(p: State, q: State): boolean {
  const seen = new Set<number>();
  const queue: [State, State, State][] = [[p, p, q]];
  for (const [a, b, c] of queue) {
    if (seen.size > 60_000) return true; // the search would take too long, so the pattern is reported as a hazard
    for (const [x, y] of nextPairs(a, b))
      for (const z of c.following) {
        if ((x.set & y.set & z.set) === 0n) continue;
        if (x === p && y === q && z === q) return true;
        const key = (x.id * 4_096 + y.id) * 4_096 + z.id;
        if (!seen.has(key)) queue.push([x, y, z]);
        seen.add(key);
      }
  }
  return false;
}

/** Report that a pattern may take very long, because it backtracks. */
export interface PatternFinding {
  /**
   * Growth of the time with the length of the text; `unknown` for a pattern that is too large, or has
   * back-references.
   */
  readonly degree: 'exponential' | 'polynomial' | 'unknown';
  readonly message: string;
  /**
   * Maximum length of a text that is tested with the pattern, in UTF-16 units. A longer text is refused
   * without a test.
   */
  readonly maxTestedLength: number;
}

/** Maximum length of a tested text for a pattern whose time is, or may be, exponential. */
const LEAST_TESTED = 16;
const MOST_TESTED = 500;
/** Maximum number of ways to match one text. A matcher takes about 10 ns for each way. */
const MOST_WAYS = 1_000_000;

/** Returns a sentence that says why a pattern may backtrack too long; undefined if the pattern is safe. */
export function patternFinding(regex: RegExp): string | undefined {
  return analysePattern(regex)?.message;
}

/**
 * Returns why a pattern may backtrack too long, and the maximum length of a text that may be tested with it;
 * undefined if the pattern is safe.
 */
export function analysePattern(regex: RegExp): PatternFinding | undefined {
  let parsed: ParsedPattern;
  try {
    parsed = parsePattern(regex);
  } catch {
    return hazard('unknown', 'cannot be analysed');
  }
  if (parsed.hasBackreference) return hazard('unknown', 'has a back-reference, which cannot be analysed');
  return analyseTrees(parsed.tree, parsed.lookBehinds);
}

function analyseTrees(tree: Tree, lookBehinds: readonly Tree[]): PatternFinding | undefined {
  const automata = [
    new PatternAutomaton(tree, startsAnchored(tree)),
    ...lookBehinds.map((inner) => new PatternAutomaton(inner, false)),
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
  degree: PatternFinding['degree'],
  what: string,
  maxTestedLength = LEAST_TESTED,
): PatternFinding {
  return { degree, message: `the pattern ${what}`, maxTestedLength };
}

/**
 * Returns the maximum length of a text that `exponent` loops can divide among themselves in at most MOST_WAYS
 * ways.
 */
function mostTested(exponent: number): number {
  let length = MOST_TESTED;
  while (length > 1 && waysToCut(length, exponent) > MOST_WAYS) length--;
  return length;
}

/**
 * Returns the number of ways to divide a text at `places` places: the binomial coefficient C(length + places,
 * places).
 */
function waysToCut(length: number, places: number): number {
  let ways = 1;
  for (let place = 1; place <= places; place++) ways *= (length + place) / place;
  return ways;
}
