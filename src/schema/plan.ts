/**
 * Compiles a class, a plain object of `Field()` members or a type to a {@link SchemaPlan} or {@link
 * CompiledType}, which validate input.
 */
import { SvcError } from '../base/errors.ts';
import { closest, onePer, shown, outOfRange } from '../base/options.ts';
import { apart, construct, learn } from './construct.ts';
import { FieldMarker, fieldFault, readField, readType, shapeIn } from './declarations.ts';
import { noteRules } from './kinds-object.ts';
import { checkOf, innerOf, kindNamed, objectCheck, plansOf, plansWithin, serializerOf } from './kinds.ts';
import { examplesOf } from './nodes.ts';
import { assertUsable, parseStandard, standardCheck, standardFields } from './kinds-standard.ts';
import { recordOf, textCheck } from './text.ts';
import { FAIL, isSchemaClass, isStandardSchema } from './types.ts';
import { Run, runCheck } from './validation-run.ts';
import { isThenable } from '../base/promises.ts';
import type { Constructed, Learnt } from './construct.ts';
import type { Declaration } from './declarations.ts';
import type { FieldPlan, ObjectPlan, TypeNode, RuleIssue } from './nodes.ts';
import type { Serializer } from './kinds.ts';
import type { Check, Result } from './validation-run.ts';
import type { TextInput } from './text.ts';
import type { Extra, Infer, SchemaClass, StandardSchema, TypeSource } from './types.ts';

const EXTRAS: readonly string[] = ['ignore', 'forbid', 'allow'] satisfies Extra[];

/**
 * Finding about a field, which `svc check` reports: a pattern that may backtrack exponentially or
 * polynomially, or an invalid example.
 */
export interface FieldFinding {
  readonly field: string;
  readonly message: string;
}

/** A compiled schema for routes, OpenAPI, MCP and `svc check`. */
export interface SchemaPlan<T = unknown> extends ObjectPlan {
  /**
   * Patterns of the schema's own fields that may backtrack for too long. Nested schemas have their own list.
   */
  readonly hazards: readonly FieldFinding[];
  /** The foreign schema of the plan. It reads every name of a text source; `fields` may not list all of them. */
  readonly foreign?: StandardSchema;
  /**
   * Validates parsed JSON, without conversion of types. `at`, such as `body`, becomes the first item of the
   * path of every issue. `isPlainJson` means that the input comes from JSON.parse() on text without `\u`
   * escapes, so it contains no lone surrogates and no instances of classes.
   */
  parseJson(input: unknown, at?: string, isPlainJson?: boolean): Result<T>;
  /**
   * Validates and converts texts of a query, headers, cookies, a path or a form. `isForm` allows files, and
   * the text `on` for `true`.
   */
  parseText(input: TextInput, at?: string, isForm?: boolean): Result<T>;
}

/** A compiled type of any kind, for example `response: list(User)` or a WebSocket's `message`. */
export interface CompiledType<T = unknown> {
  readonly node: TypeNode;
  /** Validates parsed JSON like {@link SchemaPlan.parseJson}. */
  parseJson(input: unknown, at?: string, isPlainJson?: boolean): Result<T>;
}

/** A compiled type of a body, which a foreign schema may validate asynchronously. */
export interface CompiledBody<T = unknown> {
  readonly node: TypeNode;
  /** Validates parsed JSON like {@link SchemaPlan.parseJson}. Returns a promise if a foreign schema does. */
  parseBody(input: unknown, at?: string, isPlainJson?: boolean): Result<T> | Promise<Result<T>>;
}

/** Compiles a schema class on its first call. Later calls return the same result. */
export function planOf<T extends object>(schema: SchemaClass<T>): SchemaPlan<T> {
  return classPlan(schema) as unknown as SchemaPlan<T>;
}

/**
 * Compiles a plain object of `Field()` members, such as `query: { page: Field(1, { ge: 1 }) }`. The parsed
 * values are plain objects. `owner` names the object in errors.
 */
export function fieldsOf<T extends object>(
  shape: T,
  owner = 'a shape',
): SchemaPlan<{ -readonly [K in keyof T]: T[K] }> {
  return new ShapePlan(shape, owner) as unknown as SchemaPlan<{ -readonly [K in keyof T]: T[K] }>;
}

/**
 * Compiles any type: a type such as `list(str)`, a schema class, or a native constructor. `owner` names the
 * type in errors.
 */
export function compileType<S extends TypeSource>(source: S, owner = 'a type'): CompiledType<Infer<S>> {
  const node = readWhole(source, owner);
  if (node.kind === 'object') {
    const plan = planOf(source as SchemaClass<object>) as SchemaPlan<Infer<S>>;
    return Object.freeze({ node, parseJson: plan.parseJson.bind(plan) });
  }
  const check = checkOf(node, 'json');
  return Object.freeze({
    node,
    parseJson: (input: unknown, at?: string, isPlainJson = false) =>
      runCheck<Infer<S>>(check, input, at, false, isPlainJson),
  });
}

/** Compiles the type of a body. It may be an asynchronous foreign schema, which {@link compileType} refuses. */
export function compileBody(source: TypeSource, owner: string): CompiledBody {
  if (isSchemaClass(source) || !isStandardSchema(source)) {
    const { node, parseJson } = compileType(source, owner);
    return Object.freeze({ node, parseBody: parseJson });
  }
  assertUsable(source);
  const node: TypeNode = { kind: 'standard', constraints: {}, schema: source };
  return Object.freeze({
    node,
    parseBody: (input: unknown, at?: string) => parseStandard(source, input, at),
  });
}

export function compileSerializer(source: TypeSource, owner = 'a reply'): Serializer {
  return serializerOf(readWhole(source, owner));
}

/**
 * Reads a type and every class in the type, so that an invalid declaration is reported now, not with the
 * first value.
 */
function readWhole(source: TypeSource, owner: string): TypeNode {
  const node = readType(source, owner, classPlan);
  plansWithin(node);
  return node;
}

/** Reads the declarations of fields. Throws if a default is not a valid value of its field. */
function readFields(owner: string, declared: ReadonlyMap<string, Declaration>): readonly FieldPlan[] {
  const wires = new Set<string>();
  return Object.freeze(
    [...declared].map(([name, declaration]) => {
      const subject = `"${name}" of ${owner}`;
      const field = readField(name, subject, declaration, classPlan);
      if (wires.has(field.wireName))
        throw new SvcError('E_SCHEMA_FIELD', [
          subject,
          `another field has the same name or alias "${field.wireName}"`,
        ]);
      wires.add(field.wireName);
      if (field.hasDefault && typeof field.default !== 'function') {
        const fitting = runCheck(checkOf(field.node, 'json'), field.default, undefined);
        if (!fitting.ok) throw new SvcError('E_SCHEMA_DEFAULT', [subject, fitting.issues[0]!.message]);
      }
      return field;
    }),
  );
}

/** Returns a finding for each field with an example that API documents leave out, because it cannot be written. */
export function exampleFindings({ fields }: ObjectPlan): readonly FieldFinding[] {
  return fields.flatMap(({ name: field, node, about }) =>
    [
      ...examplesOf(about).flatMap((example) => exampleProblem(serializerOf(node), example) ?? []),
      ...problemsWithin(node),
    ].map((message) => ({ field, message })),
  );
}

/** Returns the problems of examples of items, such as those of `list(str, { example: 'a' })`. */
function problemsWithin(node: TypeNode, seen: Set<TypeNode> = new Set<TypeNode>()): readonly string[] {
  if (seen.has(node)) return [];
  seen.add(node);
  return [
    ...examplesOf(node.about ?? {}).flatMap((example) => exampleProblem(serializerOf(node), example) ?? []),
    ...innerOf(node).flatMap((inner) => problemsWithin(inner, seen)),
  ];
}

/** Returns why an example cannot be written, with the path of the first problem. */
export function exampleProblem(serializer: Serializer, example: unknown): string | undefined {
  const written = serializer.toValue(example);
  if (written.ok) return undefined;
  const { loc, message } = written.issues[0]!;
  return `${loc.length === 0 ? '' : `"${loc.join('.')}" of `}the example ${message}`;
}

function findingsOf(fields: readonly FieldPlan[]): readonly FieldFinding[] {
  return Object.freeze(
    fields.flatMap((field) => {
      let node = field.node;
      while (node.kind === 'list' || node.kind === 'record' || node.kind === 'nullable')
        node = node.kind === 'nullable' ? node.inner : node.item;
      return node.constraints.hazard === undefined
        ? []
        : [{ field: field.name, message: node.constraints.hazard.message }];
    }),
  );
}

/** Validated values of all fields, before an instance is made from them. */
interface Members {
  readonly values: readonly unknown[];
  readonly extras: Readonly<Record<string, unknown>> | undefined;
}

/** Compiles a schema class like {@link planOf}. The result also has methods that only this folder uses. */
export const classPlan: (schema: SchemaClass) => Plan = onePer((schema) => {
  if (!isSchemaClass(schema))
    throw new SvcError('E_SCHEMA_PROBE', [
      String((schema as { name?: unknown } | undefined)?.name),
      'the class does not extend Schema',
    ]);
  return new Plan(schema);
});

/** A compiled schema class. It compiles its checks on first use. */
class Plan implements SchemaPlan<object>, Constructed {
  readonly name: string;
  readonly schema: SchemaClass;
  readonly learnt: Learnt;
  readonly fields: readonly FieldPlan[];
  readonly extra: Extra;
  readonly hazards: readonly FieldFinding[];
  /**
   * Index of the field for each call of `Field()`. Undefined if fields and calls have one order. The order
   * differs only if a class declares an inherited field again.
   */
  readonly #slots: readonly number[] | undefined;
  #reserved: ReadonlySet<string> | undefined;
  /**
   * Whether this class, or one that it contains, has a `static check()`. Then an input can only be validated
   * by making an instance.
   */
  #hasRules: boolean | undefined;
  readonly rules: ObjectPlan['rules'];
  #check: Check | undefined;
  #members: Check | undefined;
  #written: readonly (readonly [FieldPlan, Check])[] | undefined;

  constructor(schema: SchemaClass) {
    this.schema = schema;
    this.name = schema.name === '' ? 'Schema' : schema.name;
    this.extra = extraOf(schema, this.name);
    this.learnt = learn(schema, sampleOf);
    const { calls } = this.learnt;
    this.fields = readFields(this.name, new Map(calls.map((call) => [call.name, call] as const)));
    this.hazards = findingsOf(this.fields);
    const byName = new Map(this.fields.map((field, i) => [field.name, i] as const));
    this.rules = rulesOf(schema, this.name, this.fields);
    this.#slots =
      calls.length === this.fields.length ? undefined : calls.map((call) => byName.get(call.name)!);
  }

  parseJson(input: unknown, at?: string, isPlainJson = false): Result<object> {
    return runCheck((this.#check ??= objectCheck(this)), input, at, false, isPlainJson);
  }

  accepts(input: unknown): boolean {
    this.#hasRules ??= [...plansOf(this)].some(({ rules }) => rules !== undefined);
    if (this.#hasRules) return this.parseJson(input).ok;
    this.#check ??= objectCheck(this);
    return this.#check(input, new Run(false, false, true)) !== FAIL;
  }

  parseText(input: TextInput, at?: string, isForm = false): Result<object> {
    return runCheck(textCheck(this), input, at, isForm);
  }

  /** Validates the data that `new` received. Returns the members, without making the instance. */
  members(data: unknown): Result<Members> {
    const { name, schema, fields, extra } = this;
    this.#members ??= objectCheck({
      name,
      schema,
      fields,
      extra,
      reserved: this.reserved,
      inputOf: (instance) => this.inputOf(instance),
      build: (values, _, extras) => ({ values: this.#inCallOrder(values), extras }),
    });
    const result = runCheck<Members>(this.#members, data, undefined);
    if (!result.ok || this.rules === undefined) return result;
    const { values, extras } = result.value;
    // this instance is only used to run the rules, because `new` makes another one
    const checked = runCheck<object>(
      (input, run) => noteRules(this, construct(this, values, input, extras), run),
      data,
      undefined,
    );
    return checked.ok ? result : checked;
  }

  build(values: unknown[], input: unknown, extras: Readonly<Record<string, unknown>> | undefined): object {
    return construct(this, this.#slots === undefined ? values : this.#inCallOrder(values), input, extras);
  }

  get reserved(): ReadonlySet<string> {
    return (this.#reserved ??= reservedNames(this.schema, this.learnt));
  }

  /** Returns the fields that toJSON() writes, with their serializers. */
  get written(): readonly (readonly [FieldPlan, Check])[] {
    return (this.#written ??= this.fields
      .filter((field) => !field.isSecret)
      .map((field) => [field, checkOf(field.node, 'output')] as const));
  }

  /** Returns the undeclared members that an instance has kept with `extra: 'allow'`. */
  extras(members: Readonly<Record<string, unknown>>): readonly (readonly [string, unknown])[] {
    return this.extra === 'allow' ? Object.entries(members).filter(([name]) => !this.reserved.has(name)) : [];
  }

  #inCallOrder(values: readonly unknown[]): readonly unknown[] {
    return this.#slots === undefined ? values : this.#slots.map((field) => values[field]);
  }

  /** Returns the members of an instance as input, so that `new User(user)` makes a validated copy. */
  inputOf(instance: object): Readonly<Record<string, unknown>> {
    // the own members of an instance are its fields, and the undeclared members that `extra` allows
    const members = instance as Readonly<Record<string, unknown>>;
    const named = this.fields.map((field) => [field.wireName, members[field.name]] as const);
    return Object.fromEntries([...this.extras(members), ...named]);
  }
}

/**
 * Returns the names of all members that instances have, or inherit from their classes: fields, methods, getters.
 * Names of the members of Object, such as `constructor`, are ordinary names of data.
 */
function reservedNames(schema: SchemaClass, { ownNames }: Learnt): ReadonlySet<string> {
  const names = new Set(ownNames);
  for (
    let from = schema.prototype as object | null;
    from !== null && from !== Object.prototype;
    from = Object.getPrototypeOf(from) as object | null
  )
    for (const name of Object.getOwnPropertyNames(from)) if (name !== 'constructor') names.add(name);
  return names;
}

function extraOf(schema: SchemaClass, name: string): Extra {
  const extra: unknown = (schema as { readonly extra?: unknown }).extra ?? 'ignore';
  if (typeof extra === 'string' && EXTRAS.includes(extra)) return extra as Extra;
  const suggestion = typeof extra === 'string' ? closest(extra, EXTRAS) : undefined;
  const needed = `must be one of "ignore", "forbid", "allow"${suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`}`;
  throw outOfRange(name, 'static extra', needed, shown(extra));
}

/** The compiled form of a plain object of `Field()` members. */
class ShapePlan implements SchemaPlan<object> {
  readonly name: string;
  readonly schema: undefined;
  readonly fields: readonly FieldPlan[];
  readonly extra: Extra = 'ignore';
  readonly reserved: ReadonlySet<string> = new Set();
  readonly hazards: readonly FieldFinding[];

  constructor(shape: object, owner: string) {
    this.name = owner;
    this.fields = readFields(owner, shapeFields(owner, shape));
    this.hazards = findingsOf(this.fields);
  }

  parseJson(input: unknown, at?: string, isPlainJson = false): Result<object> {
    return runCheck(objectCheck(this), input, at, false, isPlainJson);
  }

  parseText(input: TextInput, at?: string, isForm = false): Result<object> {
    return runCheck(textCheck(this), input, at, isForm);
  }

  build(values: unknown[]): object {
    const value: Record<string, unknown> = {};
    for (let i = 0; i < values.length; i++) value[this.fields[i]!.name] = values[i];
    return value;
  }
}

/**
 * Compiles a foreign schema for text inputs. It gets an object of all texts: a text for each name, and a list
 * for a repeated name or for a member that is a list in its JSON Schema.
 */
export function planOfStandard(schema: StandardSchema, owner: string): SchemaPlan {
  readType(schema, owner, classPlan);
  return new StandardPlan(schema, owner);
}

/** The compiled form of a foreign schema for text inputs. Its JSON Schema lists its fields. */
class StandardPlan implements SchemaPlan<unknown> {
  readonly name: string;
  readonly schema: undefined;
  readonly fields: readonly FieldPlan[];
  readonly extra: Extra;
  readonly reserved: ReadonlySet<string> = new Set();
  readonly hazards: readonly FieldFinding[] = [];
  readonly foreign: StandardSchema;
  readonly #check: Check;

  constructor(schema: StandardSchema, owner: string) {
    this.name = owner;
    this.foreign = schema;
    ({ extra: this.extra, fields: this.fields } = standardFields(schema));
    this.#check = standardCheck(schema);
  }

  parseJson(input: unknown, at?: string): Result<unknown> {
    return runCheck(this.#check, input, at);
  }

  parseText(input: TextInput, at?: string, isForm = false): Result<unknown> {
    const texts: Record<string, unknown> = { ...recordOf(input) };
    for (const { isList, wireName } of this.fields)
      if (isList && typeof texts[wireName] === 'string') texts[wireName] = [texts[wireName]];
    return runCheck(this.#check, texts, at, isForm);
  }

  build(_: unknown[], input: unknown): unknown {
    return input;
  }
}

export function shapeFields(owner: string, shape: object): ReadonlyMap<string, Declaration> {
  return new Map(
    Object.entries(shape).map(([name, marker]) => {
      if (!(marker instanceof FieldMarker)) throw fieldFault(name, owner, 'its value is not made by Field()');
      return [name, marker] as const;
    }),
  );
}

/**
 * Returns a sample value for a field. While a class is constructed to learn its fields, initializers that use
 * other fields get such samples.
 */
function sampleOf({ source, options }: Declaration): unknown {
  const given = (options ?? {}) as Readonly<Record<string, unknown>>;
  const fallback = given['example'] ?? given['default'];
  if (fallback !== undefined)
    return typeof fallback === 'function' ? apart(fallback as () => unknown) : fallback;
  if (typeof source === 'string' || typeof source === 'number' || typeof source === 'boolean') return source;
  if (given['email'] === true || given['format'] === 'email') return 'someone@example.com';
  return sampleOfType(source);
}

function sampleOfType(source: TypeSource): unknown {
  const shape = shapeIn(source);
  return shape === undefined ? {} : kindNamed(shape.kind).sample(shape, sampleOfType);
}

/*
 * Rules about several fields. `static check(self)` of a schema class gets an instance whose fields are valid.
 * It returns or yields an issue for each combination that is not valid.
 *
 * Example:
 *   static *check(self: Stay) {
 *     if (self.from >= self.to) yield { loc: ['to'], message: 'must be after "from"' };
 *   }
 */

/** An issue that `static check()` reports. Clients read its message, so it must not contain secret values. */
export interface RuleProblem {
  /** Path from the object to the member, with the names that the class uses. Default: the object itself. */
  readonly loc?: readonly (string | number)[] | undefined;
  /** Machine-readable code. Default `rule`. */
  readonly code?: string | undefined;
  /** Rest of a sentence that begins with the member: `must be after "from"`. */
  readonly message: string;
}
/**
 * Result of `static check(self)`: nothing, one issue, or several. A text is the message of an issue about the
 * whole object.
 */
export type RuleResult = undefined | string | RuleProblem | Iterable<string | RuleProblem>;

/** Returns the rules of a class: its own `static check`, or an inherited one. */
function rulesOf(
  schema: SchemaClass,
  owner: string,
  fields: readonly FieldPlan[],
): ((value: unknown) => readonly RuleIssue[]) | undefined {
  const { check } = schema as { readonly check?: unknown };
  if (check === undefined) return undefined;
  if (typeof check !== 'function') throw wrong(owner, 'is not a function');
  const wires = new Map(fields.map(({ name, wireName }) => [name, wireName] as const));
  return (value) => {
    const result: unknown = check.call(schema, value);
    if (isThenable(result)) throw wrong(owner, 'returns a promise, and rules are synchronous');
    return listOf(result).map((problem): RuleIssue => {
      const {
        loc = [],
        code = 'rule',
        message,
      } = typeof problem === 'string' ? { message: problem } : problem;
      const [first, ...rest] = loc;
      return {
        path: first === undefined ? [] : [wires.get(String(first)) ?? first, ...rest],
        code,
        message: String(message),
      };
    });
  };
}

function listOf(result: unknown): readonly (string | RuleProblem)[] {
  if (result === undefined || result === null || result === true) return [];
  if (typeof result === 'object' && Symbol.iterator in result)
    return [...(result as Iterable<string | RuleProblem>)];
  return [result as string | RuleProblem];
}

function wrong(owner: string, problem: string): SvcError {
  return fieldFault('check', owner, `its static check ${problem}`);
}
