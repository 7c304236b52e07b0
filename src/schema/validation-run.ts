/**
 * State and issues of one validation, and the checks of single values that input and output share.
 *
 * A check is a function `check(value, run)`. It returns the converted value. For an invalid value, it adds an
 * issue to `run` and returns FAIL.
 *
 * A check reports an issue without a path. Each enclosing check adds its key to the paths of the new issues.
 * So valid input needs no paths.
 */
import { FAIL } from './types.ts';
import {
  checkedMs,
  decimalPattern,
  FORMATS,
  fromBase64,
  hasAtLeast,
  hasAtMost,
  isMultiple,
  momentMs,
} from './formats.ts';
import type { Issue } from '../base/errors.ts';
import type { Constraints, Literal } from './types.ts';

/** Maximum nesting of objects and lists; deeper input is refused. */
export const MAX_DEPTH = 64;
/** Maximum number of listed issues; if there are more, one further issue says so. */
const MAX_ISSUES = 100;
const MAX_KEY_LENGTH = 128;

/** A compiled check. Returns the converted value, or {@link FAIL} after it has reported an issue to `run`. */
export type Check = (value: unknown, run: Run) => unknown;
/** A valid value, or all issues of an invalid one. */
export type Result<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly issues: readonly Issue[] };

interface Draft {
  readonly code: string;
  readonly message: string;
  path: Path | undefined;
}
/** Path of an issue, as a linked list from the outermost key to the innermost. */
interface Path {
  readonly key: string | number;
  readonly within: Path | undefined;
  readonly length: number;
}

/** State of one validation: its issues, its depth, and its options. */
export class Run {
  depth = 0;
  /** Number of issues reported so far. */
  count = 0;
  /**
   * True when loops must stop: after more than {@link MAX_ISSUES} issues, or after the first issue of a dry
   * run.
   */
  isFull = false;
  /** Whether the object that was read last may have unknown members. */
  isMore = false;
  /** Number of alternatives of unions that were tried. */
  trials = 0;
  readonly isForm: boolean;
  /**
   * Whether the input is the result of JSON.parse() on text without `\\u`. Then no string has a lone
   * surrogate, and no object is an instance of a class.
   */
  readonly isPlainJson: boolean;
  /**
   * Whether the caller only needs to know if the input is valid (a dry run). Then no default function runs,
   * and no object is made.
   */
  readonly isDry: boolean;
  #issues: Draft[] | undefined;

  constructor(isForm: boolean, isPlainJson: boolean, isDry = false) {
    this.isForm = isForm;
    this.isPlainJson = isPlainJson;
    this.isDry = isDry;
  }

  fail(code: string, message: string): typeof FAIL {
    if (this.isDry || this.count >= MAX_ISSUES) {
      this.isFull = true;
      return FAIL;
    }
    const draft: Draft = { code, message, path: undefined };
    if (this.#issues === undefined)
      // not push(), which reserves memory for seventeen issues: most invalid inputs have one
      this.#issues = [draft];
    else this.#issues.push(draft);
    this.count++;
    return FAIL;
  }

  /** Reports an issue of the value at `path`, which begins at the checked value. */
  failAt(path: readonly (string | number)[], code: string, message: string): typeof FAIL {
    const mark = this.count;
    this.fail(code, message);
    for (const key of path.toReversed()) this.place(mark, key);
    return FAIL;
  }

  /**
   * Removes all issues after the first `mark` issues. Called when one type of a union does not accept the
   * value, before the next type is tried.
   */
  rewind(mark: number, wasFull: boolean): void {
    if (this.count > mark) this.#issues!.length = mark;
    this.count = mark;
    this.isFull = wasFull;
  }

  /**
   * Whether exactly one issue follows the first `mark` issues, has the code `code`, and is about the value
   * itself instead of one of its members.
   */
  isOnly(mark: number, code: string): boolean {
    const first = this.#issues?.[mark];
    return this.count === mark + 1 && first?.path === undefined && first?.code === code;
  }

  /**
   * Puts `key` in front of the path of each issue after the first `mark` issues. Returns the number of all
   * issues, which the caller passes as `mark` for the next key.
   */
  place(mark: number, key: string | number): number {
    if (mark === this.count) return mark;
    const shown = typeof key === 'number' ? key : clipped(key);
    for (let i = mark; i < this.count; i++) {
      const draft = this.#issues![i]!;
      draft.path = {
        key: shown,
        within: draft.path,
        length: draft.path === undefined ? 1 : draft.path.length + 1,
      };
    }
    return this.count;
  }

  /** Returns the issues with full paths; `at` is the first item of each path. */
  issues(at: string | undefined): readonly Issue[] {
    const issues = (this.#issues ?? []).map(({ code, message, path }): Issue => ({
      loc: locationOf(path, at),
      code,
      message,
    }));
    if (this.isFull)
      issues.push({
        loc: at === undefined ? [] : [at],
        code: 'more',
        message: `has more than ${MAX_ISSUES} problems, of which only the first ${MAX_ISSUES} are listed`,
      });
    return issues;
  }
}

/** Runs a check on a whole input. `at`, such as `body`, becomes the first item of the path of every issue. */
export function runCheck<T>(
  check: Check,
  input: unknown,
  at: string | undefined,
  isForm = false,
  isPlainJson = false,
): Result<T> {
  const run = new Run(isForm, isPlainJson);
  const value = check(input, run);
  return value === FAIL ? { ok: false, issues: run.issues(at) } : { ok: true, value: value as T };
}

/** Returns a check that is compiled on first use, because a lazy type may contain itself. */
export function deferred(compile: () => Check): Check {
  let check: Check | undefined;
  return (value, run) => (check ??= compile())(value, run);
}

/** Returns a path as an array of exact size, because an array that grows reserves more memory. */
function locationOf(path: Path | undefined, at: string | undefined): (string | number)[] {
  if (path === undefined) return at === undefined ? [] : [at];
  const items: (string | number)[] = new Array(path.length + (at === undefined ? 0 : 1));
  let count = 0;
  if (at !== undefined) items[count++] = at;
  for (let part: Path | undefined = path; part !== undefined; part = part.within) items[count++] = part.key;
  return items;
}

/** Returns a member name as issues show it: cut to 128 UTF-16 units, and without lone surrogates. */
function clipped(key: string): string {
  return key.length <= MAX_KEY_LENGTH && key.isWellFormed()
    ? key
    : `${key.slice(0, MAX_KEY_LENGTH).toWellFormed()}…`;
}

function counted(count: number, one: string): string {
  return `${count} ${one}${count === 1 ? '' : 's'}`;
}

/**
 * Check of the rules other than lengths and bounds, such as `pattern` and `multipleOf`. Undefined if there
 * are none.
 */
type Rest<T> = ((value: T, run: Run) => typeof FAIL | undefined) | undefined;

/**
 * Upper bound that exceeds the length of every string in V8. Unlike Infinity it is a small integer, which V8
 * compares fast.
 */
const LONGEST = 0x3fff_ffff;

/** Returns the check of a string without lone surrogates: first lengths, then format, then pattern. */
export function stringCheck(constraints: Constraints): Check {
  const minLength = Math.min(constraints.minLength ?? 0, LONGEST),
    maxLength = Math.min(constraints.maxLength ?? LONGEST, LONGEST);
  const tooShort = `must have at least ${counted(minLength, 'character')}`,
    tooLong = `must have at most ${counted(maxLength, 'character')}`;
  const rest = stringRest(constraints);
  const isTrimmed = constraints.trim === true;
  // every format allows only ASCII, so a text with a format has no lone surrogates
  const needsLook = constraints.format === undefined;
  return (given, run) => {
    if (typeof given !== 'string') return run.fail('type', 'must be a string');
    const value = isTrimmed ? given.trim() : given;
    if (!hasAtLeast(value, minLength)) return run.fail('min_length', tooShort);
    if (!hasAtMost(value, maxLength)) return run.fail('max_length', tooLong);
    if (needsLook && !run.isPlainJson && !value.isWellFormed())
      return run.fail('unicode', 'must not contain lone surrogates');
    return rest === undefined ? value : (rest(value, run) ?? value);
  };
}

function stringRest({ format, pattern, hazard }: Constraints): Rest<string> {
  const rule = format === undefined ? undefined : FORMATS[format];
  if (rule === undefined && pattern === undefined) return undefined;
  const code = format === 'email' ? 'email' : 'format';
  const maxTested = hazard?.maxTestedLength ?? Infinity;
  return (value, run) => {
    if (rule !== undefined && (value.length > rule.maxLength || !rule.test(value)))
      return run.fail(code, `must be ${rule.words}`);
    if (pattern === undefined) return undefined;
    if (value.length > maxTested)
      return run.fail(
        'pattern',
        `must have at most ${maxTested} characters, because the pattern is not tested on longer texts`,
      );
    return pattern.test(value) ? undefined : run.fail('pattern', 'must match the pattern of the schema');
  };
}

export function decimalCheck(constraints: Constraints): Check {
  const { digits = 0, places = 0 } = constraints;
  const pattern = decimalPattern(constraints);
  const message = `must be a decimal number as text, with at most ${counted(digits - places, 'digit')} before the point and ${places} after it`;
  return (value, run) => {
    if (typeof value !== 'string') return run.fail('type', message);
    return value.length <= digits + 3 && pattern.test(value) ? value : run.fail('format', message);
  };
}

/** Returns the check of a finite number, or of a safe integer if `isInt` is true. */
export function numberCheck(constraints: Constraints, isInt: boolean): Check {
  const { ge = -Infinity, le = Infinity } = constraints;
  const rest = numberRest(constraints);
  return (value, run) => {
    if (typeof value !== 'number' || !(isInt ? Number.isSafeInteger(value) : Number.isFinite(value)))
      return numberIssue(value, isInt, run);
    if (value < ge) return run.fail('ge', `must be at least ${ge}`);
    if (value > le) return run.fail('le', `must be at most ${le}`);
    return rest === undefined ? value : (rest(value, run) ?? value);
  };
}

function numberIssue(value: unknown, isInt: boolean, run: Run): typeof FAIL {
  if (isInt && Number.isInteger(value))
    return run.fail('unsafe_integer', 'must be an integer between -(2^53 - 1) and 2^53 - 1');
  return run.fail('type', isInt ? 'must be an integer' : 'must be a finite number');
}

function numberRest({ gt, lt, multipleOf }: Constraints): Rest<number> {
  if (gt === undefined && lt === undefined && multipleOf === undefined) return undefined;
  return (value, run) => {
    if (gt !== undefined && value <= gt) return run.fail('gt', `must be greater than ${gt}`);
    if (lt !== undefined && value >= lt) return run.fail('lt', `must be less than ${lt}`);
    if (multipleOf !== undefined && !isMultiple(value, multipleOf))
      return run.fail('multiple_of', `must be a multiple of ${multipleOf}`);
    return undefined;
  };
}

export function boolCheck(): Check {
  return (value, run) =>
    value === true || value === false ? value : run.fail('type', 'must be true or false');
}

export function formatCheck(name: 'date' | 'uuid'): Check {
  const { words, maxLength, test } = FORMATS[name];
  const message = `must be ${words}`;
  return (value, run) =>
    typeof value === 'string' && value.length <= maxLength && test(value)
      ? value
      : run.fail(typeof value === 'string' ? 'format' : 'type', message);
}

/**
 * Returns a check that converts RFC 3339 text to a Date. Also accepts a Date, which comes from the
 * application, because JSON has no dates.
 */
export function datetimeCheck(): Check {
  const message = `must be ${FORMATS['date-time'].words}`;
  return (value, run) => {
    const isText = typeof value === 'string';
    if (!isText && !(value instanceof Date)) return run.fail('type', message);
    const ms = isText ? momentMs(value) : checkedMs(value.getTime());
    return Number.isNaN(ms) ? run.fail('format', message) : isText ? new Date(ms) : value;
  };
}

/**
 * Returns a check that converts base64 text to bytes. Also accepts a Uint8Array, which comes from the
 * application, because JSON has no bytes.
 */
export function bytesCheck(constraints: Constraints): Check {
  const count = countCheck(constraints, 'byte');
  return (value, run) => {
    const decoded = typeof value === 'string' ? fromBase64(value) : value;
    if (decoded === undefined) return run.fail('format', 'must be base64 with padding (RFC 4648 section 4)');
    if (!(decoded instanceof Uint8Array)) return run.fail('type', 'must be base64 text');
    return count(decoded.length, run) ?? decoded;
  };
}

/**
 * Returns a check of the number of items, members or bytes. It returns FAIL if the number is out of bounds,
 * else undefined.
 */
export function countCheck(
  { minLength = 0, maxLength = Infinity }: Constraints,
  thing: string,
): (count: number, run: Run) => typeof FAIL | undefined {
  const tooFew = `must have at least ${counted(minLength, thing)}`,
    tooMany = `must have at most ${counted(maxLength, thing)}`;
  return (count, run) =>
    count < minLength
      ? run.fail('min_length', tooFew)
      : count > maxLength
        ? run.fail('max_length', tooMany)
        : undefined;
}

export function literalCheck(values: readonly Literal[]): Check {
  const message = literalMessage(values);
  if (values.length <= 8)
    return (value, run) => (values.includes(value as Literal) ? value : run.fail('enum', message));
  const set = new Set<unknown>(values);
  return (value, run) => (set.has(value) ? value : run.fail('enum', message));
}

/**
 * Returns the message for a value that is not one of the literals. It lists the literals, and never the
 * submitted value.
 */
export function literalMessage(values: readonly Literal[]): string {
  const shown = values
    .slice(0, 20)
    .map((value) => JSON.stringify(value))
    .join(', ');
  return values.length === 1
    ? `must be ${shown}`
    : `must be one of ${shown}${values.length > 20 ? ', …' : ''}`;
}

const { getPrototypeOf, prototype: OBJECT_PROTOTYPE } = Object;

/** Whether the value is an object that is not an instance of a class, as JSON.parse() returns it. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  return isPlainPrototype(getPrototypeOf(value));
}

function isPlainPrototype(prototype: unknown): boolean {
  return prototype === OBJECT_PROTOTYPE || prototype === null || isForeignPrototype(prototype);
}

/**
 * Whether a value inside an input is a plain object. Input from JSON has no instances of classes, so the
 * prototype is not read, which would take 6 ns (test/bench/parts.mjs --only=validation).
 */
export function isInputObject(value: unknown, run: Run): value is Record<string, unknown> {
  return run.isPlainJson
    ? typeof value === 'object' && value !== null && !Array.isArray(value)
    : isPlainObject(value);
}

/** Whether a prototype is the Object.prototype of another realm, such as a vm context. */
function isForeignPrototype(prototype: unknown): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'isPrototypeOf');
}

export function tooDeep(run: Run): typeof FAIL {
  return run.fail('depth', `must not be nested deeper than ${MAX_DEPTH} levels`);
}

/**
 * Check of any JSON value. Refuses deep nesting, lone surrogates, and values that are not JSON. Makes no
 * copy, so `__proto__` stays an own member.
 */
export const anyCheck: Check = (value, run) => {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed() ? value : run.fail('unicode', 'must not contain lone surrogates');
    case 'number':
      return Number.isFinite(value) ? value : run.fail('type', 'must be a finite number');
    case 'boolean':
      return value;
    case 'object':
      return value === null ? null : anyParts(value as object, run);
    default:
      return run.fail('type', 'must be a JSON value');
  }
};

function anyParts(value: object, run: Run): unknown {
  if (!Array.isArray(value) && !isPlainObject(value)) return run.fail('type', 'must be a JSON value');
  if (run.depth >= MAX_DEPTH) return tooDeep(run);
  run.depth++;
  const before = run.count;
  let mark = before;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && !run.isFull; i++)
      if (anyCheck(value[i], run) === FAIL) mark = run.place(mark, i);
  } else {
    for (const key of Object.keys(value)) {
      if (run.isFull) break;
      if (nameProblem(key, run) === FAIL || (value[key] !== undefined && anyCheck(value[key], run) === FAIL))
        mark = run.place(mark, key);
    }
  }
  run.depth--;
  return mark === before && !run.isFull ? value : FAIL;
}

/** Refuses a member name with lone surrogates, because databases cannot store them. */
export function nameProblem(key: string, run: Run): typeof FAIL | undefined {
  return key.isWellFormed() ? undefined : run.fail('unicode', 'must not have a name with lone surrogates');
}

/*
 * The class Plain recognizes usual values by comparisons, without a call of the check of their type. A call
 * takes about 10 ns, and a comparison 2 ns (test/bench/parts.mjs --only=validation).
 */

/**
 * Numbers of the cases in {@link Plain.accepts}. That function repeats the numbers as literals, so that V8
 * can compile a jump table, and inline the function.
 */
export const PLAIN = { none: 0, text: 1, integer: 2, number: 3, flag: 4, formatted: 5, choice: 6 } as const;
/** A number of a case; a kind of type names it in its row of the table. */
export type PlainKind = (typeof PLAIN)[keyof typeof PLAIN];
const NO_PATTERN = /(?!)/;
/** Maximum number of values of a literal that are compared one by one. */
export const MAX_CHOICES = 8;

/**
 * Accepts the usual values of one type without a call of the type's check. Every instance has the same public
 * properties, so that V8 reads them fast.
 */
export class Plain {
  /** Instance that accepts no value, so that the check of the type always decides. */
  static readonly nothing: Plain = new Plain(PLAIN.none, {});

  readonly kind: number;
  /**
   * Bounds of a text's length in UTF-16 units. They are small integers, so V8 compares them faster than the
   * bounds `low` and `high`.
   */
  readonly shortest: number;
  readonly longest: number;
  readonly low: number;
  readonly high: number;
  readonly pattern: RegExp;
  readonly choices: readonly unknown[];

  constructor(kind: PlainKind, constraints: Constraints, choices: readonly unknown[] = []) {
    const { pattern, gt, lt, multipleOf, trim } = constraints;
    const hasMore =
      trim === true ||
      pattern !== undefined ||
      gt !== undefined ||
      lt !== undefined ||
      multipleOf !== undefined;
    const format = constraints.format === undefined ? undefined : FORMATS[constraints.format];
    this.kind = hasMore ? PLAIN.none : kind;
    // a text of this length has at least `minLength` code points: each takes one or two UTF-16 units
    this.shortest = Math.min(2 * (constraints.minLength ?? 0) - 1, LONGEST);
    this.longest = Math.min(
      constraints.maxLength ?? LONGEST,
      format?.short?.maxLength ?? format?.maxLength ?? LONGEST,
    );
    this.low = constraints.ge ?? -Number.MAX_VALUE;
    this.high = constraints.le ?? Number.MAX_VALUE;
    // the faster pattern for short texts is enough, because longer texts go to the check of their type
    this.pattern = format?.short?.pattern ?? format?.pattern ?? NO_PATTERN;
    // `choices` is a copy, because V8 reads a frozen array more slowly
    this.choices = [...choices];
  }

  /**
   * Returns true if the value is valid without conversion; false means that the check of the type must
   * decide. Pass {@link Run.isPlainJson} as `isPlainJson`.
   */
  accepts(value: unknown, isPlainJson: boolean): boolean {
    switch (this.kind) {
      case 1:
        return (
          typeof value === 'string' &&
          value.length >= this.shortest &&
          value.length <= this.longest &&
          (isPlainJson || value.isWellFormed())
        );
      case 2:
        return (
          typeof value === 'number' && value >= this.low && value <= this.high && Number.isSafeInteger(value)
        );
      case 3:
        // the comparisons are false for NaN and infinite numbers
        return typeof value === 'number' && value >= this.low && value <= this.high;
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
