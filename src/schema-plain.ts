/**
 * The plainest values, recognised without calling a check: a call of some 10 ns through a closure that could be any of
 * twenty (test/bench/validate.ts), where looking at a short text or a number takes two.
 *
 * Decides nothing: what a {@link Plain} does not accept, the check of the same type accepts or refuses.
 */
import type { TypeNode } from './schema-nodes.ts';
import { FORMATS } from './schema-formats.ts';
import { isWellFormed } from './schema-run.ts';
import type { Run } from './schema-run.ts';

const KIND = { none: 0, text: 1, integer: 2, number: 3, flag: 4, formatted: 5, choice: 6 } as const;
const NO_PATTERN = /(?!)/;
const MAX_CHOICES = 8;

/** What of one type is plain. Looked at some hundred million times: its properties are public, in one shape. */
export class Plain {
  /** Accepts nothing: every value goes to its check. */
  static readonly nothing: Plain = new Plain({ kind: 'any', constraints: {} });

  readonly kind: number;
  readonly low: number;
  readonly high: number;
  readonly pattern: RegExp;
  readonly choices: readonly unknown[];

  constructor(node: TypeNode) {
    const { kind, constraints } = node;
    const format = constraints.format === undefined ? undefined : FORMATS[constraints.format];
    this.kind = kindOf(node);
    // n UTF-16 units are at least n / 2 code points, and at most n
    this.low = kind === 'str' ? 2 * (constraints.minLength ?? 0) - 1 : (constraints.ge ?? -Number.MAX_VALUE);
    this.high = kind === 'str' ? Math.min(constraints.maxLength ?? Number.MAX_VALUE, format?.short?.maxLength ?? format?.maxLength ?? Number.MAX_VALUE) : (constraints.le ?? Number.MAX_VALUE);
    this.pattern = format?.short?.pattern ?? format?.pattern ?? NO_PATTERN; // what is longer goes to its check
    this.choices = node.kind === 'literal' ? [...node.values] : []; // frozen ones are read through a call
  }

  /** Whether it is a value of the type as it stands. */
  accepts(value: unknown, run: Run): boolean {
    switch (this.kind) {
      case KIND.text: return typeof value === 'string' && value.length >= this.low && value.length <= this.high && (run.isPlainJson || isWellFormed(value));
      case KIND.integer: return typeof value === 'number' && value >= this.low && value <= this.high && Number.isSafeInteger(value);
      case KIND.number: return typeof value === 'number' && value >= this.low && value <= this.high; // neither NaN nor Infinity
      case KIND.flag: return value === true || value === false;
      case KIND.formatted: return typeof value === 'string' && value.length >= this.low && value.length <= this.high && this.pattern.test(value);
      case KIND.choice: return isOneOf(this.choices, value);
      default: return false;
    }
  }
}

function isOneOf(choices: readonly unknown[], value: unknown): boolean {
  for (let i = 0; i < choices.length; i++) if (choices[i] === value) return true;
  return false;
}

function kindOf(node: TypeNode): number {
  const { pattern, format, gt, lt, multipleOf } = node.constraints;
  if (pattern !== undefined || gt !== undefined || lt !== undefined || multipleOf !== undefined) return KIND.none;
  switch (node.kind) {
    case 'str': return format === undefined ? KIND.text : FORMATS[format].pattern === undefined ? KIND.none : KIND.formatted;
    case 'int': return KIND.integer;
    case 'float': return KIND.number;
    case 'bool': return KIND.flag;
    case 'literal': return node.values.length <= MAX_CHOICES ? KIND.choice : KIND.none;
    default: return KIND.none;
  }
}
