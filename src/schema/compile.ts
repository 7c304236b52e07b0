/**
 * Compiles types (nodes, see nodes.ts) to closures that validate JSON, without generating source text. The
 * closures do not convert types: "3" is not an int. They refuse `null` unless the type allows it. text.ts
 * handles text sources.
 *
 * Each field is validated by only one closure, because a call of a closure takes about 12 ns
 * (test/bench/parts.mjs --only=validation).
 */
import { FAIL } from './types.ts';
import {
  anyCheck,
  boolCheck,
  bytesCheck,
  countCheck,
  datetimeCheck,
  formatCheck,
  isInputObject,
  keyIssue,
  literalCheck,
  literalMessage,
  LONGEST,
  MAX_DEPTH,
  numberCheck,
  Run,
  stringCheck,
  tooDeep,
  areUnique,
  choiceCheck,
  tupleCheck,
} from './validation-run.ts';
import { FORMATS } from './formats.ts';
import type { FieldPlan, ObjectPlan, TypeNode, Variant } from './nodes.ts';
import type { Check, Result } from './validation-run.ts';

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
  // the cast is safe: the caller passes the check of a type whose values are T
  return value === FAIL ? { ok: false, issues: run.issues(at) } : { ok: true, value: value as T };
}

/** Returns `compile` with a cache, so that the check of each object type is compiled once. */
export function oncePerPlan(compile: (plan: ObjectPlan) => Check): (plan: ObjectPlan) => Check {
  const checks = new WeakMap<ObjectPlan, Check>();
  return (plan) => {
    let check = checks.get(plan);
    if (check === undefined) checks.set(plan, (check = compile(plan)));
    return check;
  };
}

/** Returns the check of a JSON object. The check is compiled once for each object type. */
export const objectCheck: (plan: ObjectPlan) => Check = oncePerPlan(compileObject);

/** Returns the function that validates JSON for a type. */
export function jsonCheck(node: TypeNode): Check {
  switch (node.kind) {
    case 'str':
      return stringCheck(node.constraints);
    case 'int':
      return numberCheck(node.constraints, true);
    case 'float':
      return numberCheck(node.constraints, false);
    case 'bool':
      return boolCheck();
    case 'any':
      return anyCheck;
    case 'date':
    case 'uuid':
      return formatCheck(node.kind);
    case 'datetime':
      return datetimeCheck();
    case 'bytes':
      return bytesCheck(node.constraints);
    case 'file':
      return (_, run) => run.fail('type', 'must be a file, sent as multipart/form-data');
    case 'literal':
      return literalCheck(node.values);
    case 'list':
      return listCheck(jsonCheck(node.item), node, new Plain(node.item));
    case 'record':
      return recordCheck(jsonCheck(node.item), node);
    case 'nullable':
      return nullableCheck(jsonCheck(node.inner));
    case 'choice':
      return choiceCheck(node.members.map(jsonCheck));
    case 'tuple':
      return tupleCheck(node.members.map(jsonCheck));
    case 'lazy':
      return deferred(() => jsonCheck(node.resolve()));
    case 'object':
      return objectCheck(node.plan());
    case 'union':
      return unionCheck(node);
  }
}

/** Returns a check that is compiled on first use, because a lazy type may contain itself. */
export function deferred(compile: () => Check): Check {
  let check: Check | undefined;
  return (value, run) => (check ??= compile())(value, run);
}

/** Returns a check that accepts `null`, and everything that `inner` accepts. */
export function nullableCheck(inner: Check): Check {
  return (value, run) => (value === null ? null : inner(value, run));
}

/**
 * Returns the check of a list. The number of items is checked first, so that a list that is too long is never
 * read.
 */
export function listCheck(item: Check, node: TypeNode, plain: Plain = Plain.nothing): Check {
  const count = countCheck(node.constraints, 'item');
  const isUnique = node.constraints.unique === true;
  return (value, run) => {
    if (!Array.isArray(value)) return run.fail('type', 'must be a list');
    if (count(value.length, run) === FAIL) return FAIL;
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    let mark = run.count,
      isGood = true;
    // a spread is faster than new Array(n), and makes an array without holes
    const items: unknown[] = run.isDry ? value : [...value];
    const { isPlainJson } = run;
    for (let i = 0; i < items.length; i++) {
      const raw = items[i];
      if (plain.kind !== 0 && plain.accepts(raw, isPlainJson)) continue;
      const out = item(raw, run);
      if (out === FAIL) {
        mark = run.place(mark, i);
        isGood = false;
        if (run.isFull) break;
      } else if (!run.isDry) items[i] = out;
    }
    run.depth--;
    if (isGood && isUnique && !areUnique(value, items, run)) return FAIL;
    return isGood ? items : FAIL;
  };
}

/**
 * Returns the check of a record. It makes a new plain object, refuses the name `__proto__`, and omits
 * undefined members.
 */
export function recordCheck(item: Check, node: TypeNode): Check {
  const count = countCheck(node.constraints, 'member');
  return (value, run) => {
    if (!isInputObject(value, run)) return run.fail('type', 'must be an object');
    const keys = run.isPlainJson ? Object.keys(value) : definedKeys(value);
    if (count(keys.length, run) === FAIL) return FAIL;
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    let mark = run.count,
      isGood = true;
    const members: Record<string, unknown> = {};
    for (const key of keys) {
      const out = keyIssue(key, run) ?? item(value[key], run);
      if (out === FAIL) {
        mark = run.place(mark, key);
        isGood = false;
        if (run.isFull) break;
      } else members[key] = out;
    }
    run.depth--;
    return isGood ? members : FAIL;
  };
}

function definedKeys(value: Input): string[] {
  const keys = Object.keys(value);
  return keys.every((key) => value[key] !== undefined)
    ? keys
    : keys.filter((key) => value[key] !== undefined);
}

function unionCheck(node: Extract<TypeNode, { kind: 'union' }>): Check {
  const variants = node.variants();
  const { byTag, message } = checksByTag(variants, objectCheck);
  const tagWire = variants[0]!.tagWire;
  return (value, run) => {
    if (!isInputObject(value, run))
      return variants.some(({ plan }) => value instanceof plan.schema!)
        ? value
        : run.fail('type', 'must be an object');
    const tag = Object.hasOwn(value, tagWire) ? value[tagWire] : undefined;
    const check = byTag.get(tag);
    if (check !== undefined) return check(value, run);
    const mark = run.count;
    run.fail(tag === undefined ? 'required' : 'enum', tag === undefined ? 'is required' : message);
    run.place(mark, tagWire);
    return FAIL;
  };
}

/** Returns the check for each tag value of a union, and the message for any other tag value. */
export function checksByTag(
  variants: readonly Variant[],
  checkOf: (plan: ObjectPlan) => Check,
): { readonly byTag: ReadonlyMap<unknown, Check>; readonly message: string } {
  const entries = variants.flatMap(({ plan, values }) =>
    values.map((value) => [value, checkOf(plan)] as const),
  );
  return {
    byTag: new Map<unknown, Check>(entries),
    message: literalMessage(entries.map(([value]) => value)),
  };
}

/**
 * Returns the function that is called for a missing member: it returns the default or undefined, or reports
 * an issue.
 */
export function absence(field: FieldPlan): (run: Run) => unknown {
  const fallback = field.default;
  if (typeof fallback === 'function') return (run) => (run.isDry ? undefined : (fallback as () => unknown)());
  if (field.hasDefault) return () => fallback;
  return field.isRequired ? (run) => run.fail('required', 'is required') : () => undefined;
}

function compileObject(plan: ObjectPlan): Check {
  const { schema } = plan;
  const members = new Members(plan.fields.map(memberOf));
  const unknown = plan.extra === 'ignore' ? undefined : unknownMembers(plan);
  const check: Check = (value, run) => {
    if (!isInputObject(value, run)) {
      if (schema === undefined || !(value instanceof schema)) return run.fail('type', 'must be an object');
      // a nested instance is returned unchanged, because its constructor has validated it
      return run.depth > 0 || plan.inputOf === undefined ? value : check(plan.inputOf(value), run);
    }
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    const before = run.count;
    const values = members.read(value, run);
    const isGood = run.count === before && !run.isFull;
    const extras = run.isMore ? unknown?.(value, run) : undefined;
    run.depth--;
    if (!isGood || extras === FAIL) return FAIL;
    if (run.isDry) return value;
    const made = plan.build(values, value, extras);
    return plan.rules === undefined ? made : noteRules(plan, made, run);
  };
  return check;
}

/** Runs the rules of a class on a value. Returns the value, or FAIL if a rule reports an issue. */
export function noteRules(plan: ObjectPlan, value: unknown, run: Run): unknown {
  if (plan.rules === undefined) return value;
  const issues = plan.rules(value);
  for (const { path, code, message } of issues) {
    const mark = run.count;
    run.fail(code, message);
    for (const key of path.toReversed()) run.place(mark, key);
  }
  return issues.length === 0 ? value : FAIL;
}

/** Shared list for dry runs, which only test whether the values are valid. */
const NO_VALUES: unknown[] = [];

/** Reads all members of an object with their compiled checks. */
export class Members {
  readonly #members: readonly Member[];
  readonly #indexes: ReadonlyMap<string, number>;
  /**
   * True when a field has the name of an inherited member, such as `constructor`. Then only own members are
   * read.
   */
  readonly isGuarded: boolean;

  constructor(members: readonly Member[]) {
    this.#members = members;
    this.#indexes = new Map(members.map(({ key }, i) => [key, i] as const));
    this.isGuarded = members.some(({ key }) => key in Object.prototype);
  }

  /**
   * Returns the values in the order of the fields, and records issues in `run`. If the input has this order,
   * `for ... in` reads each member once, three times as fast as a look-up by name (test/bench/parts.mjs
   * --only=validation). Fields that the loop skips are looked up by name. The loop also finds unknown
   * members.
   */
  read(object: Input, run: Run): unknown[] {
    const members = this.#members;
    const { isPlainJson } = run;
    const count = members.length;
    const values: unknown[] = run.isDry ? NO_VALUES : new Array(count);
    let at = 0;
    let isMore = false;
    for (const key in object) {
      if (at === count) {
        isMore = true; // all fields are read, so `key` is unknown, or a field that was read before
        break;
      }
      if (key !== members[at]!.key) {
        const index = this.#reach(key, at, object, run, values);
        if (index === at) {
          isMore ||= !this.#indexes.has(key);
          continue;
        }
        at = index;
      }
      const member = members[at]!;
      const raw = object[key];
      const value = member.plain.accepts(raw, isPlainJson) ? raw : member.checked(raw, run);
      if (run.isFull) return values;
      if (!run.isDry) values[at] = value;
      at++;
    }
    for (; at < count && !run.isFull; at++) this.#lookUp(at, object, run, values);
    run.isMore = isMore; // set last, because the checks of nested objects also set `run.isMore`
    return values;
  }

  /**
   * Reads the fields from the index `at` to the field before `key`, and returns the index of `key`. If no
   * field `key` follows, reads nothing, and returns `at`. A separate method keeps {@link read} small enough
   * for V8 to inline (test/bench/parts.mjs --only=validation).
   */
  #reach(key: string, at: number, object: Input, run: Run, values: unknown[]): number {
    const index = this.#indexes.get(key);
    if (index === undefined || index < at) return at;
    for (let between = at; between < index && !run.isFull; between++)
      this.#lookUp(between, object, run, values);
    return index;
  }

  /** Reads every field by name, for objects whose inherited members `for ... in` would also visit. */
  readOwn(object: Input, run: Run): unknown[] {
    const values: unknown[] = new Array(this.#members.length);
    for (let at = 0; at < values.length; at++) this.#lookUp(at, object, run, values);
    return values;
  }

  #lookUp(at: number, object: Input, run: Run, values: unknown[]): void {
    const member = this.#members[at]!;
    const raw = this.isGuarded && !Object.hasOwn(object, member.key) ? undefined : object[member.key];
    const value = member.checked(raw, run);
    if (!run.isDry) values[at] = value;
  }
}

/** A compiled field. Every instance has the same public properties, so that V8 reads them fast. */
export class Member {
  /** Name of the member in the object. */
  readonly key: string;
  readonly plain: Plain;
  readonly compile: () => Check;
  readonly absent: (run: Run) => unknown;
  /** Check of the field's type; compiled on first use, because an object may contain its own type. */
  check: Check | undefined;

  constructor(key: string, plain: Plain, compile: () => Check, absent: (run: Run) => unknown) {
    this.key = key;
    this.plain = plain;
    this.compile = compile;
    this.absent = absent;
    this.check = undefined;
  }

  checked(raw: unknown, run: Run): unknown {
    const mark = run.count;
    const out = raw === undefined ? this.absent(run) : (this.check ??= this.compile())(raw, run);
    if (out === FAIL) run.place(mark, this.key);
    return out;
  }
}

/** Compiles a field of an input. A read-only field ignores the value in the input, as OpenAPI allows. */
function memberOf(field: FieldPlan): Member {
  const absent = absence(field);
  return field.isReadOnly
    ? new Member(field.wireName, Plain.nothing, () => (_, run) => absent(run), absent)
    : new Member(field.wireName, new Plain(field.node), () => jsonCheck(field.node), absent);
}

/** Members of an input object by name. */
export type Input = Readonly<Record<string, unknown>>;
/** Returns the undeclared members to keep, undefined if there are none, or FAIL if one is refused. */
type UnknownMembers = (input: Input, run: Run) => Input | typeof FAIL | undefined;

/**
 * Compiles the function for undeclared members. `extra: 'forbid'` refuses them, and `extra: 'allow'` keeps
 * them. The value of a kept member must be JSON, and its name must not hide a member of the class.
 */
export function unknownMembers(plan: ObjectPlan): UnknownMembers {
  const known = new Set(plan.fields.map((field) => field.wireName));
  return (input, run) => {
    let extras: Record<string, unknown> | undefined;
    let mark = run.count,
      isGood = true;
    for (const key of Object.keys(input)) {
      if (known.has(key)) continue;
      if (run.isFull) return FAIL;
      const out =
        plan.extra === 'forbid'
          ? run.fail('extra', 'is not a known member')
          : plan.reserved.has(key)
            ? run.fail('key', 'is not allowed as the name of a member')
            : (keyIssue(key, run) ?? anyCheck(input[key], run));
      if (out === FAIL) {
        mark = run.place(mark, key);
        isGood = false;
      } else (extras ??= {})[key] = out;
    }
    return isGood ? extras : FAIL;
  };
}

/*
 * The class Plain recognizes usual values by comparisons, without a call of the check of their type. A call
 * takes about 10 ns, and a comparison 2 ns (test/bench/parts.mjs --only=validation).
 */

/**
 * Numbers of the cases in {@link Plain.accepts}. That function repeats the numbers as literals, so that V8
 * can compile a jump table, and inline the function.
 */
const KIND = { none: 0, text: 1, integer: 2, number: 3, flag: 4, formatted: 5, choice: 6 } as const;
const NO_PATTERN = /(?!)/;
const MAX_CHOICES = 8;

/**
 * Accepts the usual values of one type without a call of the type's check. Every instance has the same public
 * properties, so that V8 reads them fast.
 */
export class Plain {
  /** Instance that accepts no value, so that the check of the type always decides. */
  static readonly nothing: Plain = new Plain({ kind: 'any', constraints: {} });

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

  constructor(node: TypeNode) {
    const { constraints } = node;
    const format = constraints.format === undefined ? undefined : FORMATS[constraints.format];
    this.kind = kindOf(node);
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
    this.choices = node.kind === 'literal' ? [...node.values] : [];
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

function kindOf(node: TypeNode): number {
  const { pattern, format, gt, lt, multipleOf } = node.constraints;
  if (pattern !== undefined || gt !== undefined || lt !== undefined || multipleOf !== undefined)
    return KIND.none;
  switch (node.kind) {
    case 'str':
      return format === undefined ? KIND.text : FORMATS[format].isWhole !== true ? KIND.none : KIND.formatted;
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
