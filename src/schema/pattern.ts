/**
 * Finds patterns that backtrack without bound, before a request does.
 *
 *   pattern -> tree -> automaton (Thompson) -> does one text match one loop in two ways?
 *
 *   pattern-parser.ts      reads the source of a RegExp
 *   pattern-tree.ts        nodes, character sets, and properties that a tree shows by itself
 *   pattern-automaton.ts   searches for the two ways
 *
 * A look-behind is analysed as a pattern of its own. A back-reference is not analysed: it is reported as a hazard.
 */
import { PatternAutomaton } from './pattern-automaton.ts';
import { parsePattern } from './pattern-parser.ts';
import { repeatsNothing, startsAnchored } from './pattern-tree.ts';
import type { ParsedPattern } from './pattern-parser.ts';
import type { Tree } from './pattern-tree.ts';

/** A danger of a pattern. */
export interface PatternHazard {
  /** Growth of the time with the length of the text; `unknown` for a pattern too large, or with back-references. */
  readonly degree: 'exponential' | 'polynomial' | 'unknown';
  readonly message: string;
  /** UTF-16 units of the longest text that is tested with the pattern. A longer text is refused untested. */
  readonly maxTestedLength: number;
}

/** UTF-16 units tested with a pattern that is exponential, or may be. */
const LEAST_TESTED = 16;
const MOST_TESTED = 500;
/** Ways to match that are tried for one text, about 10 ns each. */
const MOST_WAYS = 1_000_000;

/** Returns a sentence about the danger of a pattern, or undefined for a safe one. */
export function patternHazard(regex: RegExp): string | undefined {
  return analysePattern(regex)?.message;
}

/** Returns the danger of a pattern, and the length up to which texts are tested with it; undefined for a safe one. */
export function analysePattern(regex: RegExp): PatternHazard | undefined {
  let parsed: ParsedPattern;
  try {
    parsed = parsePattern(regex);
  } catch {
    return hazard('unknown', 'cannot be analysed');
  }
  if (parsed.hasBackreference) return hazard('unknown', 'has a back-reference, which cannot be analysed');
  return analyseTrees(parsed.tree, parsed.lookBehinds);
}

function analyseTrees(tree: Tree, lookBehinds: readonly Tree[]): PatternHazard | undefined {
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
  degree: PatternHazard['degree'],
  what: string,
  maxTestedLength = LEAST_TESTED,
): PatternHazard {
  return { degree, message: `the pattern ${what}`, maxTestedLength };
}

/** Returns the greatest length at which a text has at most MOST_WAYS ways to be cut in `exponent` places. */
function mostTested(exponent: number): number {
  let length = MOST_TESTED;
  while (length > 1 && waysToCut(length, exponent) > MOST_WAYS) length--;
  return length;
}

/** Returns the number of multisets of `places` places: C(length + places, places). */
function waysToCut(length: number, places: number): number {
  let ways = 1;
  for (let place = 1; place <= places; place++) ways *= (length + place) / place;
  return ways;
}
