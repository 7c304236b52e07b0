/**
 * Compiled schemas: a class, a plain object of fields or a type -> how input becomes values, and values JSON.
 *
 * Apart from schema.ts, which declares: nothing here is needed until the first schema is.
 */
import { SvcError } from '../base/errors.ts';
import { closest, shown } from '../base/options.ts';
import { jsonCheck, noteRules, objectCheck, runCheck } from './compile.ts';
import { apart, construct, learn } from './construct.ts';
import { FieldMarker, examplesOf, plansOf, plansWithin, readField, readType } from './nodes.ts';
import { rulesOf } from './rules.ts';
import { outputCheck, serializerOf } from './output.ts';
import { textCheck } from './text.ts';
import { FAIL, FieldType, isSchemaClass } from './types.ts';
import { Run } from './validation-run.ts';
import type { Constructed, Learnt } from './construct.ts';
import type { Declaration, FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';
import type { Serializer } from './output.ts';
import type { Check, Result } from './validation-run.ts';
import type { TextInput } from './text.ts';
import type { Extra, Infer, SchemaClass, TypeSource } from './types.ts';

const PLANS = new WeakMap<SchemaClass, Plan>();
const EXTRAS: readonly string[] = ['ignore', 'forbid', 'allow'] satisfies Extra[];

/** A pattern that can backtrack without bound, for `svc check`. */
export interface FieldFinding {
  readonly field: string;
  readonly message: string;
}

/** A compiled schema, as routes, OpenAPI, MCP and `svc check` use it. */
export interface SchemaPlan<T = unknown> extends ObjectPlan {
  /** Patterns of its own fields that can backtrack without bound; those of schemas within are theirs. */
  readonly hazards: readonly FieldFinding[];
  /**
   * Strict: what JSON.parse made. `at` is the first item of every path, such as `body`. `isPlainJson` says that the input
   * is what JSON.parse() made of a text without `\\u`: it can hold no lone surrogate and no class, which saves looking for them.
   */
  parseJson(input: unknown, at?: string, isPlainJson?: boolean): Result<T>;
  /** Texts converted: query, headers, cookies, path; `isForm` where files and `on` are welcome. */
  parseText(input: TextInput, at?: string, isForm?: boolean): Result<T>;
}

/** A compiled type of any kind: what `response: list(User)` or a WebSocket's `message` needs. */
export interface CompiledType<T = unknown> {
  readonly node: TypeNode;
  /** As {@link SchemaPlan.parseJson}. */
  parseJson(input: unknown, at?: string, isPlainJson?: boolean): Result<T>;
}

/** The compiled plan of a schema class, made once. @throws SvcError `E_SCHEMA_...`, `E_OPTION_...` for mistakes in its declaration */
export function planOf<T extends object>(schema: SchemaClass<T>): SchemaPlan<T> {
  return classPlan(schema) as unknown as SchemaPlan<T>; // its instances are T
}

/**
 * Compiles a plain object of fields, such as `query: { page: Field(1, { ge: 1 }) }`; its values are plain objects.
 * `owner` names it in errors.
 */
export function fieldsOf<T extends object>(
  shape: T,
  owner = 'a shape',
): SchemaPlan<{ -readonly [K in keyof T]: T[K] }> {
  return new ShapePlan(shape, owner) as unknown as SchemaPlan<{ -readonly [K in keyof T]: T[K] }>; // Field() is typed as its value
}

/** Compiles any type: a token, a schema class, a native constructor. `owner` names it in errors. @throws SvcError as {@link planOf} */
export function compileType<S extends TypeSource>(source: S, owner = 'a type'): CompiledType<Infer<S>> {
  const node = readWhole(source, owner);
  if (node.kind === 'object') {
    const plan = planOf(source as SchemaClass<object>) as SchemaPlan<Infer<S>>; // the class is the source
    return Object.freeze({ node, parseJson: plan.parseJson.bind(plan) });
  }
  const check = jsonCheck(node);
  return Object.freeze({
    node,
    parseJson: (input: unknown, at?: string, isPlainJson = false) =>
      runCheck<Infer<S>>(check, input, at, false, isPlainJson),
  });
}

/** Compiles the way out: reply values of this type -> JSON. @throws SvcError as {@link planOf} */
export function compileSerializer(source: TypeSource, owner = 'a reply'): Serializer {
  return serializerOf(readWhole(source, owner));
}

/** A type, and every class that it leads to: a mistake in one of them must show when it is compiled, not when the first value comes. */
function readWhole(source: TypeSource, owner: string): TypeNode {
  const node = readType(source, owner, classPlan);
  plansWithin(node);
  return node;
}

/** Reads declarations, refusing defaults that do not fit. */
function readFields(owner: string, declared: ReadonlyMap<string, Declaration>): readonly FieldPlan[] {
  const wires = new Set<string>();
  return Object.freeze(
    [...declared].map(([name, declaration]) => {
      const subject = `"${name}" of ${owner}`;
      const field = readField(name, subject, declaration, classPlan);
      if (wires.has(field.wireName))
        throw new SvcError('E_SCHEMA_FIELD', [
          subject,
          `another field has the name "${field.wireName}" on the wire`,
        ]);
      wires.add(field.wireName);
      if (field.hasDefault && typeof field.default !== 'function') {
        const fitting = runCheck(jsonCheck(field.node), field.default, undefined);
        if (!fitting.ok) throw new SvcError('E_SCHEMA_DEFAULT', [subject, fitting.issues[0]!.message]);
      }
      return field;
    }),
  );
}

/** What is wrong with the examples of fields, by their names: documents would show what no request may have. */
export function exampleFindings({ fields }: ObjectPlan): readonly FieldFinding[] {
  return fields.flatMap((field) => {
    return examplesOf(field.about).flatMap((example) => {
      const given = example instanceof Date ? example.toJSON() : example;
      const fitting = runCheck(jsonCheck(field.node), given, undefined);
      return fitting.ok ? [] : [{ field: field.name, message: fitting.issues[0]!.message }];
    });
  });
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

/** The values of all fields, before they are an instance. */
interface Members {
  readonly values: readonly unknown[];
  readonly extras: Readonly<Record<string, unknown>> | undefined;
}

/** The plan of a schema class, for its own instances. @throws SvcError `E_SCHEMA_...`, `E_OPTION_...` for mistakes in its declaration */
export function classPlan(schema: SchemaClass): Plan {
  let plan = PLANS.get(schema);
  if (plan === undefined) {
    if (!isSchemaClass(schema))
      throw new SvcError('E_SCHEMA_PROBE', [
        String((schema as { name?: unknown } | undefined)?.name),
        'it does not extend Schema',
      ]);
    plan = new Plan(schema);
    PLANS.set(schema, plan);
  }
  return plan;
}

/** The plan of a class. Never holds instances; its checks are compiled when first used. */
class Plan implements SchemaPlan<object>, Constructed {
  readonly name: string;
  readonly schema: SchemaClass;
  readonly learnt: Learnt;
  readonly fields: readonly FieldPlan[];
  readonly extra: Extra;
  readonly hazards: readonly FieldFinding[];
  /** Per call of `Field()` the field it is for; undefined when they are the same, which a field declared twice prevents. */
  readonly #slots: readonly number[] | undefined;
  #reserved: ReadonlySet<string> | undefined;
  /** Whether an instance must be made to know whether an input fits: a class has rules of its own. */
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

  /** Whether {@link parseJson} would take it. */
  accepts(input: unknown): boolean {
    this.#hasRules ??= [...plansOf(this)].some(({ rules }) => rules !== undefined);
    if (this.#hasRules) return this.parseJson(input).ok;
    this.#check ??= objectCheck(this);
    return this.#check(input, new Run(false, false, true)) !== FAIL;
  }

  parseText(input: TextInput, at?: string, isForm = false): Result<object> {
    return runCheck(textCheck(this), input, at, isForm);
  }

  /** The members of an instance that `new` makes: validated, not yet built. */
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
    const checked = runCheck<object>(
      (input, run) => noteRules(this, construct(this, values, input, extras), run),
      data,
      undefined,
    ); // an instance for the rules alone: `new` makes its own
    return checked.ok ? result : checked;
  }

  build(values: unknown[], input: unknown, extras: Readonly<Record<string, unknown>> | undefined): object {
    return construct(this, this.#slots === undefined ? values : this.#inCallOrder(values), input, extras);
  }

  get reserved(): ReadonlySet<string> {
    return (this.#reserved ??= reservedNames(this.schema, this.learnt));
  }

  /** Fields that toJSON() writes, with how. */
  get written(): readonly (readonly [FieldPlan, Check])[] {
    return (this.#written ??= this.fields
      .filter((field) => !field.isSecret)
      .map((field) => [field, outputCheck(field.node)] as const));
  }

  /** Members that `extra: 'allow'` has kept. */
  extras(members: Readonly<Record<string, unknown>>): readonly (readonly [string, unknown])[] {
    return this.extra === 'allow' ? Object.entries(members).filter(([name]) => !this.reserved.has(name)) : [];
  }

  #inCallOrder(values: readonly unknown[]): readonly unknown[] {
    return this.#slots === undefined ? values : this.#slots.map((field) => values[field]);
  }

  /** An instance of the class is read by its members, so that `new User(user)` is a validated copy. */
  inputOf(instance: object): Readonly<Record<string, unknown>> {
    const members = instance as Readonly<Record<string, unknown>>; // its fields, and what is kept besides
    const named = this.fields.map((field) => [field.wireName, members[field.name]] as const);
    return Object.fromEntries([...this.extras(members), ...named]);
  }
}

/** Own members of instances, and what they inherit: methods, getters, and the members of every object. */
function reservedNames(schema: SchemaClass, { ownNames }: Learnt): ReadonlySet<string> {
  const names = new Set(ownNames);
  for (
    let from = schema.prototype as object | null;
    from !== null;
    from = Object.getPrototypeOf(from) as object | null
  )
    for (const name of Object.getOwnPropertyNames(from)) names.add(name);
  return names;
}

function extraOf(schema: SchemaClass, name: string): Extra {
  const extra: unknown = (schema as { readonly extra?: unknown }).extra ?? 'ignore';
  if (typeof extra === 'string' && EXTRAS.includes(extra)) return extra as Extra;
  const suggestion = typeof extra === 'string' ? closest(extra, EXTRAS) : undefined;
  const needed = `one of "ignore", "forbid", "allow"${suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`}`;
  throw new SvcError('E_OPTION_RANGE', [name, 'static extra', needed, shown(extra)]);
}

/** The plan of a plain object of fields. */
class ShapePlan implements SchemaPlan<object> {
  readonly name: string;
  readonly schema: undefined;
  readonly fields: readonly FieldPlan[];
  readonly extra: Extra = 'ignore';
  readonly reserved: ReadonlySet<string> = new Set();
  readonly hazards: readonly FieldFinding[];

  constructor(shape: object, owner: string) {
    const declared = new Map<string, Declaration>();
    for (const [name, marker] of Object.entries(shape)) {
      if (!(marker instanceof FieldMarker))
        throw new SvcError('E_SCHEMA_FIELD', [`"${name}" of ${owner}`, 'it is not made by Field()']);
      declared.set(name, marker);
    }
    this.name = owner;
    this.fields = readFields(owner, declared);
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

/** A plausible value of a declaration, for computed initialisers that meet the probe. */
function sampleOf({ source, options }: Declaration): unknown {
  const given = options as
    | {
        readonly default?: unknown;
        readonly example?: unknown;
        readonly format?: unknown;
        readonly email?: unknown;
      }
    | undefined;
  const fallback = given?.example ?? given?.default;
  if (fallback !== undefined)
    return typeof fallback === 'function' ? apart(fallback as () => unknown) : fallback;
  if (typeof source === 'string' || typeof source === 'number' || typeof source === 'boolean') return source;
  if (given?.email === true || given?.format === 'email') return 'someone@example.com';
  return sampleOfType(source);
}

function sampleOfType(source: TypeSource): unknown {
  if (source === Number) return 1;
  if (source === Boolean) return true;
  if (source === Date) return new Date(0);
  if (!(source instanceof FieldType)) return source === String ? 'text' : {};
  const { shape } = source;
  switch (shape.kind) {
    case 'int':
    case 'float':
      return 1;
    case 'bool':
      return true;
    case 'datetime':
      return new Date(0);
    case 'date':
      return '2000-01-01';
    case 'uuid':
      return '00000000-0000-4000-8000-000000000000';
    case 'bytes':
      return new Uint8Array();
    case 'list':
      return [];
    case 'nullable':
      return sampleOfType(shape.inner);
    case 'choice':
      return sampleOfType(shape.members[0]!);
    case 'tuple':
      return shape.members.map(sampleOfType);
    case 'literal':
      return shape.values[0];
    case 'str':
      return 'text';
    default:
      return {};
  }
}
