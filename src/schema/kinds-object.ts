/**
 * Rows of the table of kinds (kinds.ts): schema classes and tagged unions of them.
 *
 * Sources name members differently: JSON and the JSON in columns by their aliases, a handler's result by the
 * names of the class.
 */
import { FORGOTTEN_AWAIT, isThenable } from '../base/promises.ts';
import { setOwn, shown } from '../base/options.ts';
import { anyOutput, unsendable } from './kinds-scalar.ts';
import { FAIL, isSchemaClass } from './types.ts';
import {
  anyCheck,
  deferred,
  isInputObject,
  literalMessage,
  MAX_DEPTH,
  nameProblem,
  Plain,
  Run,
  tooDeep,
} from './validation-run.ts';
import type { Compiler, FieldPlan, NodeOf, ObjectPlan, Reader, Rows, Variant } from './nodes.ts';
import type { Literal, SchemaClass } from './types.ts';
import type { Check } from './validation-run.ts';

export const OBJECTS: Rows<'object' | 'union'> = {
  object: {
    read: ({ schema }, of) => ({
      kind: 'object',
      constraints: of.constraints,
      schema,
      plan: () => of.plan(schema),
    }),
    sample: () => ({}),
    plans: ({ plan }) => [plan()],
    json: ({ plan }, of) => compileObject(plan(), of),
    text: () => unsendable,
    textIssue: () => 'an object cannot be sent as text',
    part: ({ plan }, of) => storedCheck(plan(), of),
    jsonText: 'structures',
    output: ({ plan }, of) => outputCheck(plan(), of),
    document: ({ plan }, of) => of.object(plan()),
  },

  union: {
    read: ({ tag, members }, of) => ({
      kind: 'union',
      constraints: of.constraints,
      tag,
      variants: unionOf(tag, members, of),
    }),
    sample: () => ({}),
    plans: ({ variants }) => variants().map(({ plan }) => plan),
    json: (node, of) => unionCheck(node, of, compileObject, true),
    text: () => unsendable,
    textIssue: () => 'an object cannot be sent as text',
    part: (node, of) => unionCheck(node, of, storedCheck, false),
    jsonText: 'structures',
    output: unionOutput,
    document: (node, of) => of.union(node),
  },
};

/** Compiles the check of a class for one source. */
type CompileObject = (plan: ObjectPlan, of: Compiler) => Check;

/** Returns `compile` with a cache, so that the check of each object type is compiled once. */
export function oncePerPlan<A extends readonly unknown[]>(
  compile: (plan: ObjectPlan, ...args: A) => Check,
): (plan: ObjectPlan, ...args: A) => Check {
  const checks = new WeakMap<ObjectPlan, Check>();
  return (plan, ...args) => {
    let check = checks.get(plan);
    if (check === undefined) checks.set(plan, (check = compile(plan, ...args)));
    return check;
  };
}

export const compileObject: CompileObject = oncePerPlan((plan, of) =>
  inputCheck(
    plan,
    plan.fields.map((field) => inputMember(field, of)),
    plan.rules,
  ),
);

/**
 * Returns the check of a JSON object in a column of a database. Read-only members are accepted, because the
 * database sets them. Rules across fields do not run.
 */
const storedCheck: CompileObject = oncePerPlan((plan, of) =>
  inputCheck(
    plan,
    plan.fields.map((field) => {
      const compile = (): Check => orAbsent(field, of.check(field.node));
      return new Member(field.wireName, of.plain(field.node), compile, absence(field));
    }),
    undefined,
  ),
);

/** Compiles a field of an input. A read-only field ignores the value in the input, as OpenAPI allows. */
function inputMember(field: FieldPlan, of: Compiler): Member {
  const absent = absence(field);
  return field.isReadOnly
    ? new Member(field.wireName, Plain.nothing, () => (_, run) => absent(run), absent)
    : new Member(field.wireName, of.plain(field.node), () => of.check(field.node), absent);
}

function inputCheck(plan: ObjectPlan, each: readonly Member[], rules: ObjectPlan['rules']): Check {
  const { schema } = plan;
  const members = new Members(each);
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
    return rules === undefined ? made : noteRules(plan, made, run);
  };
  return check;
}

/** Runs the rules of a class on a value. Returns the value, or FAIL if a rule reports an issue. */
export function noteRules(plan: ObjectPlan, value: unknown, run: Run): unknown {
  if (plan.rules === undefined) return value;
  const issues = plan.rules(value);
  for (const { path, code, message } of issues) run.failAt(path, code, message);
  return issues.length === 0 ? value : FAIL;
}

function unionCheck(
  { variants: variantsOf }: NodeOf<'union'>,
  of: Compiler,
  compile: CompileObject,
  isRequired: boolean,
): Check {
  const variants = variantsOf();
  const { byTag, message } = checksByTag(variants, (plan) => compile(plan, of));
  const { tagWire } = variants[0]!; // a union has at least one variant
  return (value, run) => {
    if (!isInputObject(value, run))
      return variants.some(({ plan }) => value instanceof plan.schema!)
        ? value
        : run.fail('type', 'must be an object');
    const tag = Object.hasOwn(value, tagWire) ? value[tagWire] : undefined;
    const check = byTag.get(tag);
    if (check !== undefined) return check(value, run);
    return isRequired && tag === undefined
      ? run.failAt([tagWire], 'required', 'is required')
      : run.failAt([tagWire], 'enum', message);
  };
}

function unionOutput(node: NodeOf<'union'>, of: Compiler): Check {
  const { byTag, message } = checksByTag(node.variants(), (plan) => outputCheck(plan, of));
  return (value, run) => {
    if (typeof value !== 'object' || value === null) return run.fail('type', 'must be an object');
    const check = byTag.get((value as Record<string, unknown>)[node.tag]);
    return check === undefined ? run.failAt([node.tag], 'enum', message) : check(value, run);
  };
}

/** Returns the check for each tag value of a union, and the message for any other tag value. */
function checksByTag(
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

/** Returns the function that converts an instance, or an object with its members, to JSON. */
const outputCheck: CompileObject = oncePerPlan(compileOutput);

function compileOutput(plan: ObjectPlan, of: Compiler): Check {
  const members = new Members(
    plan.fields.map(
      (field) =>
        new Member(
          field.name,
          field.isSecret ? Plain.nothing : of.plain(field.node),
          () => (field.isSecret ? secretOutput : of.check(field.node)),
          outputAbsence(field, of),
        ),
    ),
  );
  const wires = plan.fields.map((field) => field.wireName);
  return (value, run) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return run.fail('type', 'must be an object');
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    const before = run.count;
    const values = members.isGuarded
      ? members.readOwn(value as Input, run)
      : members.read(value as Input, run);
    let isGood = run.count === before && !run.isFull;
    const out: Record<string, unknown> = {};
    if ((!isGood || values.includes(undefined)) && isThenable(value)) {
      run.depth--;
      return run.fail('type', FORGOTTEN_AWAIT);
    }
    for (let i = 0; i < values.length; i++) if (values[i] !== undefined) out[wires[i]!] = values[i];
    if (plan.extra === 'allow' && !extraOutput(plan, value as Input, out, run)) isGood = false;
    run.depth--;
    return isGood ? out : FAIL;
  };
}

const secretOutput: Check = (_, run) =>
  run.fail('secret', 'is declared as secret, and must not be part of a response');

/**
 * Returns the function that is called if a member is missing in the result. It returns the default, converted
 * to JSON. A secret member may always be missing.
 */
function outputAbsence(field: FieldPlan, of: Compiler): (run: Run) => unknown {
  if (field.isSecret) return () => undefined;
  if (field.isReadOnly && field.isOptional)
    return field.isOptionalInOutput ? () => undefined : (run) => run.fail('required', 'is required');
  if (!field.hasDefault) return absence(field);
  const check = deferred(() => of.check(field.node)),
    make = absence(field);
  return (run) => check(make(run), run);
}

/**
 * Adds to `out` the undeclared members that `extra: 'allow'` keeps. Returns false if one of them is not
 * valid.
 */
function extraOutput(
  plan: ObjectPlan,
  value: Readonly<Record<string, unknown>>,
  out: Record<string, unknown>,
  run: Run,
): boolean {
  let mark = run.count,
    isGood = true;
  for (const key of Object.keys(value)) {
    if (plan.reserved.has(key) || typeof value[key] === 'function' || value[key] === undefined) continue;
    const written = nameProblem(key, run) ?? anyOutput(value[key], run);
    if (written === FAIL) {
      mark = run.place(mark, key);
      isGood = false;
    } else if (!Object.hasOwn(out, key)) setOwn(out, key, written);
  }
  return isGood;
}

/**
 * Returns the function that finds the variants of a union. It is called on first use, because the classes of
 * the variants may be declared later.
 */
function unionOf(tag: string, members: readonly SchemaClass[], of: Reader): () => readonly Variant[] {
  if (members.length === 0) throw of.fault('union() names no schema');
  for (const member of members)
    if (!isSchemaClass(member))
      throw of.fault(`union() takes classes that extend Schema, found ${shown(member)}`);
  return once(() => {
    const taken = new Set<Literal>();
    const variants = members.map((member): Variant => {
      const plan = of.plan(member);
      const field = plan.fields.find((candidate) => candidate.name === tag);
      if (field?.node.kind !== 'literal')
        throw of.fault(
          `the union needs a literal as its tag: write ${tag} = Field(literal('…')) in ${plan.name}`,
        );
      for (const value of field.node.values) {
        if (taken.has(value))
          throw of.fault(
            `two schemas of its union have the same value of the tag "${tag}": ${JSON.stringify(value)}`,
          );
        taken.add(value);
      }
      return { plan, tagWire: field.wireName, values: field.node.values };
    });
    if (variants.some((variant) => variant.tagWire !== variants[0]!.tagWire))
      throw of.fault(`the schemas of its union give "${tag}" different aliases`);
    return variants;
  });
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

/** Extends the check of an optional member: NULL in a column becomes undefined if the type does not allow null. */
export function orAbsent(field: FieldPlan, check: Check): Check {
  if (!field.isOptional || check(null, new Run(false, false)) !== FAIL) return check;
  return (value, run) => (value === null ? undefined : check(value, run));
}

/** Shared list for dry runs, which only test whether the values are valid. */
const NO_VALUES: unknown[] = [];

/** Reads all members of an object with their compiled checks. */
class Members {
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
            : (nameProblem(key, run) ?? anyCheck(input[key], run));
      if (out === FAIL) {
        mark = run.place(mark, key);
        isGood = false;
      } else setOwn((extras ??= {}), key, out);
    }
    return isGood ? extras : FAIL;
  };
}

/** Returns a function that calls `make` once, and returns its result. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}
