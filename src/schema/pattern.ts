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

interface State {
  /** Next states, for a state that consumes no character. A state that two moves reach is listed twice. */
  readonly free: number[];
  /** Characters that the state consumes; 0 if it consumes none. */
  set: CharSet;
  next: number;
}

/** Automaton of one tree. Its results must not be used if {@link isTooLarge} is true. */
class PatternAutomaton {
  /** True when the tree needs more than MAX_STATES states. */
  isTooLarge = false;
  readonly #states: State[] = [];
  readonly #final: number;
  /** For each state that consumes a character: the states that may consume the next one. */
  readonly #following = new Map<number, readonly number[]>();
  /** Pairs of states, as `from * 4096 + to`, where `to` follows `from` in two ways. */
  readonly #doubled = new Set<number>();
  /** States after which the match may be complete. */
  readonly #complete = new Set<number>();
  readonly #consuming: number[] = [];
  /** End of the body of each loop state. The states of the body follow directly after the loop state. */
  readonly #bodies = new Map<number, number>();
  #hasEnd = false;
  /** Cached results of #reaches. */
  readonly #reachable = new Map<number, Set<number>>();

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

  /** Adds states that match `tree` and then lead to `next`. Returns the first of these states. */
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

  /**
   * Follows the moves from `from` that consume no character. Records which states may consume the next
   * character, and which of them are reached in two ways.
   */
  #follow(id: number, from: number): void {
    const ways = new Map<number, number>();
    let steps = 0;
    const walk = (at: number, before: readonly number[]): void => {
      // a loop must not repeat without consuming a character (ECMA-262 §22.2.2.3.1)
      if (before.includes(at) || ++steps > 4_000) return;
      if (at === this.#final) this.#complete.add(id);
      if (this.#states[at]!.set !== 0n) ways.set(at, (ways.get(at) ?? 0) + 1);
      const bodyEnd = this.#bodies.get(at) ?? at; // a new round may visit the loop body again
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

  /** Returns whether one text leads from a state back to this state on two different paths. */
  isExponential(): boolean {
    for (const p of this.#consuming) {
      if (!this.#reaches(p, p)) continue;
      if (this.#pairLoop(p)) return true;
    }
    return false;
  }

  /** Returns whether one text leads from the state p back to p on two different paths. */
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

  /**
   * Returns whether two loops in a row can match one text, and the match can fail after them, as in \s*\s*x.
   */
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

  /** Returns the exponent k of the time of a match, which grows at most as length^k. */
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

  /**
   * Returns whether a match that has reached q can still fail, because more must follow or the text must end
   * there.
   */
  #canFailAfter(q: number): boolean {
    return this.#hasEnd || !this.#complete.has(q);
  }

  #tripleLoop(p: number, q: number): boolean {
    const seen = new Set<number>();
    const stack: [number, number, number][] = [[p, p, q]];
    for (let item = stack.pop(); item !== undefined; item = stack.pop()) {
      if (seen.size > 60_000) return true; // the search would take too long, so the pattern is reported as a hazard
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
