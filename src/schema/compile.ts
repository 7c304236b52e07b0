/**
 * Compiles nodes to closures that validate JSON, without generating source text. The closures do not convert
 * types: "3" is not an int. They refuse `null` unless the type allows it. text.ts handles text sources.
 *
 * A closure call is megamorphic and takes about 12 ns per field (test/bench/parts.mjs --only=validation). So
 * each field has one closure, without options objects, try/catch or paths in between.
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

/** Runs a check on a whole input. `at` is the first item of every path, such as `body`. */
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

/** Returns a function that compiles the check of an object once. */
export function oncePerPlan(compile: (plan: ObjectPlan) => Check): (plan: ObjectPlan) => Check {
  const checks = new WeakMap<ObjectPlan, Check>();
  return (plan) => {
    let check = checks.get(plan);
    if (check === undefined) checks.set(plan, (check = compile(plan)));
    return check;
  };
}

/** Returns the compiled check of a JSON object. */
export const objectCheck: (plan: ObjectPlan) => Check = oncePerPlan(compileObject);

/** Returns the compiled check of any type in JSON. */
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
      return deferred(() => objectCheck(node.plan()));
    case 'union':
      return unionCheck(node);
  }
}

/** Check that is compiled on first use, because types may contain themselves. */
export function deferred(compile: () => Check): Check {
  let check: Check | undefined;
  return (value, run) => (check ??= compile())(value, run);
}

/** Check that accepts `null`, and everything that `inner` accepts. */
export function nullableCheck(inner: Check): Check {
  return (value, run) => (value === null ? null : inner(value, run));
}

/** Check of a list. It checks the number of items first, so that it never walks a list that is too long. */
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
    // a spread, because it is faster than new Array(n), and makes an array without holes
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

/** Check of a record: makes a new plain object, refuses the name `__proto__`, and omits undefined members. */
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
  return deferred(() => {
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
  });
}

/** Returns the checks of a union's members by the values of their tags, and the message for another value. */
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

/** Returns the function that makes the value of a member which the input does not have. */
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
      // an instance inside the input was validated by its constructor, so it is returned unchanged
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

/** Returns the value, or FAIL if a rule of its class reports an issue. */
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

/** List of values for dry runs, which keep no values. */
const NO_VALUES: unknown[] = [];

/** Compiled fields of an object. */
export class Members {
  readonly #members: readonly Member[];
  readonly #indexes: ReadonlyMap<string, number>;
  /**
   * Whether a field has the name of a member that every object inherits, such as `constructor`: then only own
   * members count.
   */
  readonly isGuarded: boolean;

  constructor(members: readonly Member[]) {
    this.#members = members;
    this.#indexes = new Map(members.map(({ key }, i) => [key, i] as const));
    this.isGuarded = members.some(({ key }) => key in Object.prototype);
  }

  /**
   * Returns the values in the order of declaration, and records issues in `run`. As long as the object has
   * that order, `for ... in` reads each member once. That is three times as fast as a megamorphic look-up by
   * name (test/bench/parts.mjs --only=validation). A field that the loop skipped is looked up, so any order
   * is valid. The loop also finds unknown members: a separate search in an object of five members takes 58
   * ns.
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
        isMore = true; // `key` is an unknown member, or a field that was looked up before
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
    run.isMore = isMore; // set last, because the checks of nested objects set it, too
    return values;
  }

  /**
   * Reads the fields before `key` and returns the index of its field, or `at` when no later field has that
   * name. A separate method keeps {@link read} small enough for V8 to inline (test/bench/parts.mjs
   * --only=validation).
   */
  #reach(key: string, at: number, object: Input, run: Run, values: unknown[]): number {
    const index = this.#indexes.get(key);
    if (index === undefined || index < at) return at;
    for (let between = at; between < index && !run.isFull; between++)
      this.#lookUp(between, object, run, values);
    return index;
  }

  /** Reads objects that may have a prototype of their own, whose members `for ... in` would also visit. */
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

/** A compiled field. Members are read very often, so its properties are public and have one shape. */
export class Member {
  /** Name of the member in the object that is read. */
  readonly key: string;
  readonly plain: Plain;
  readonly check: Check;
  readonly absent: (run: Run) => unknown;

  constructor(key: string, plain: Plain, check: Check, absent: (run: Run) => unknown) {
    this.key = key;
    this.plain = plain;
    this.check = check;
    this.absent = absent;
  }

  checked(raw: unknown, run: Run): unknown {
    const mark = run.count;
    const out = raw === undefined ? this.absent(run) : this.check(raw, run);
    if (out === FAIL) run.place(mark, this.key);
    return out;
  }
}

/** Compiles a field of an input. The value of a read-only field is ignored, as OpenAPI allows. */
function memberOf(field: FieldPlan): Member {
  const absent = absence(field);
  return field.isReadOnly
    ? new Member(field.wireName, Plain.nothing, (_, run) => absent(run), absent)
    : new Member(field.wireName, new Plain(field.node), jsonCheck(field.node), absent);
}

/** Members of an object. */
export type Input = Readonly<Record<string, unknown>>;
/** Returns the unknown members that are kept, undefined if there are none, or FAIL. */
type UnknownMembers = (input: Input, run: Run) => Input | typeof FAIL | undefined;

/**
 * Compiles the function for unknown members. It refuses them, or keeps those that are JSON values and do not
 * hide a member of the class.
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
            ? run.fail('key', 'is not an allowed name')
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
 * A closure call takes about 10 ns, because one call site calls about twenty different checks. Comparing a
 * short text or a number without a call takes 2 ns (test/bench/parts.mjs --only=validation). {@link Plain}
 * only accepts: a value that it does not accept goes to the check of its type.
 */

/**
 * Numbers of the cases in {@link Plain.accepts}. That function repeats them as literals, so that V8 makes a
 * jump table, and inlines the function.
 */
const KIND = { none: 0, text: 1, integer: 2, number: 3, flag: 4, formatted: 5, choice: 6 } as const;
const NO_PATTERN = /(?!)/;
const MAX_CHOICES = 8;

/**
 * Accepts the usual values of one type without calling the check of the type. Read very often, so its
 * properties are public and have one shape.
 */
export class Plain {
  /** Accepts no value, so that every value goes to its check. */
  static readonly nothing: Plain = new Plain({ kind: 'any', constraints: {} });

  readonly kind: number;
  /**
   * Bounds of a text in UTF-16 units. Separate from bounds of numbers, because small integers compare without
   * conversion.
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
    // a text of n UTF-16 units has at least n / 2 and at most n code points
    this.shortest = Math.min(2 * (constraints.minLength ?? 0) - 1, LONGEST);
    this.longest = Math.min(
      constraints.maxLength ?? LONGEST,
      format?.short?.maxLength ?? format?.maxLength ?? LONGEST,
    );
    this.low = constraints.ge ?? -Number.MAX_VALUE;
    this.high = constraints.le ?? Number.MAX_VALUE;
    // a text longer than `longest` goes to the check
    this.pattern = format?.short?.pattern ?? format?.pattern ?? NO_PATTERN;
    // a copy, because V8 reads a frozen array more slowly
    this.choices = node.kind === 'literal' ? [...node.values] : [];
  }

  /** Whether the value is valid for the type without conversion. `isPlainJson` comes from the `Run`. */
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
