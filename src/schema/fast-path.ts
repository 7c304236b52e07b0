/**
 * The plainest values, recognised without calling a check: a call of some 10 ns through a closure that could be any of
 * twenty (test/bench/validate.ts), where looking at a short text or a number takes two.
 *
 * Decides nothing: what a {@link Plain} does not accept, the check of the same type accepts or refuses.
 */
import type { TypeNode } from './nodes.ts';
import { FORMATS } from './formats.ts';
import { isWellFormed, LONGEST } from './validation-run.ts';

/** The cases of {@link Plain.accepts}. There the numbers are written out: of these V8 makes a table, and the function is small enough to go into its callers. */
const KIND = { none: 0, text: 1, integer: 2, number: 3, flag: 4, formatted: 5, choice: 6 } as const;
const NO_PATTERN = /(?!)/;
const MAX_CHOICES = 8;

/** What of one type is plain. Looked at some hundred million times: its properties are public, in one shape. */
export class Plain {
  /** Accepts nothing: every value goes to its check. */
  static readonly nothing: Plain = new Plain({ kind: 'any', constraints: {} });

  readonly kind: number;
  /** UTF-16 units of a text. Apart from bounds of numbers: these are small integers, which are compared without being converted. */
  readonly shortest: number;
  readonly longest: number;
  readonly low: number;
  readonly high: number;
  readonly pattern: RegExp;
  readonly choices: readonly unknown[];

  constructor(node: TypeNode) {
    const { constraints } = node;
    const format = constraints.format === undefined ? undefined : FORMATS[constraints.format];
    this.kind = kindOf(node);
    // n UTF-16 units are at least n / 2 code points, and at most n
    this.shortest = Math.min(2 * (constraints.minLength ?? 0) - 1, LONGEST);
    this.longest = Math.min(
      constraints.maxLength ?? LONGEST,
      format?.short?.maxLength ?? format?.maxLength ?? LONGEST,
    );
    this.low = constraints.ge ?? -Number.MAX_VALUE;
    this.high = constraints.le ?? Number.MAX_VALUE;
    this.pattern = format?.short?.pattern ?? format?.pattern ?? NO_PATTERN; // what is longer goes to its check
    this.choices = node.kind === 'literal' ? [...node.values] : []; // frozen ones are read through a call
  }

  /** Whether it is a value of the type as it stands. `isPlainJson` as of a `Run`. */
  accepts(value: unknown, isPlainJson: boolean): boolean {
    switch (this.kind) {
      case 1:
        return (
          typeof value === 'string' &&
          value.length >= this.shortest &&
          value.length <= this.longest &&
          (isPlainJson || isWellFormed(value))
        );
      case 2:
        return (
          typeof value === 'number' && value >= this.low && value <= this.high && Number.isSafeInteger(value)
        );
      case 3:
        return typeof value === 'number' && value >= this.low && value <= this.high; // neither NaN nor Infinity
      case 4:
        return value === true || value === false;
      case 5:
        return (
          typeof value === 'string' &&
          value.length >= this.shortest &&
          value.length <= this.longest &&
          this.pattern.test(value)
        );
      case 6:
        return isOneOf(this.choices, value);
      default:
        return false;
    }
  }
}

function isOneOf(choices: readonly unknown[], value: unknown): boolean {
  for (let i = 0; i < choices.length; i++) if (choices[i] === value) return true;
  return false;
}

function kindOf(node: TypeNode): number {
  const { pattern, format, gt, lt, multipleOf } = node.constraints;
  if (pattern !== undefined || gt !== undefined || lt !== undefined || multipleOf !== undefined)
    return KIND.none;
  switch (node.kind) {
    case 'str':
      return format === undefined
        ? KIND.text
        : FORMATS[format].pattern === undefined
          ? KIND.none
          : KIND.formatted;
    case 'int':
      return KIND.integer;
    case 'float':
      return KIND.number;
    case 'bool':
      return KIND.flag;
    case 'literal':
      return node.values.length <= MAX_CHOICES ? KIND.choice : KIND.none;
    default:
      return KIND.none;
  }
}
