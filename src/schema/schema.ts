/**
 * Schema classes: declared once, compiled once, and the honest instances of what fits.
 *
 *   class User extends Schema {
 *     name = Field(str, { minLength: 2 });               required
 *     nick = Field('anon', { maxLength: 20 });           a default
 *     get domain() { ... }                                 methods, getters, #private and computed members as in any class
 *   }
 *   new User(data), User.parse(data)    an instance, or a ValidationError with every problem at once
 *   User.safeParse(data)                the same as a value, for hot paths
 *   User.accepts(data)                  whether it fits, and nothing more
 *
 * A class is compiled when it is first used: constructed once by a probe (construct.ts), its declarations read
 * (nodes.ts), turned into closures (compile.ts, text.ts, output.ts). Its options are read then, and never again.
 */
import { inspect } from 'node:util';
import { BadRequest } from '../base/errors.ts';
import { apart, called, enter, enterDirectly } from './construct.ts';
import { classPlan, planOf } from './plan.ts';
import { Run } from './validation-run.ts';
import { FAIL, isSchemaClass } from './types.ts';
import type { InspectOptions } from 'node:util';
import type { Issue } from '../base/errors.ts';
import type { Result } from './validation-run.ts';
import type { CheckedSource, FieldSource, Infer, OptionsOf, SchemaClass } from './types.ts';

export {
  any,
  bool,
  bytes,
  date,
  datetime,
  FieldType,
  file,
  float,
  int,
  isSchemaClass,
  lazy,
  list,
  literal,
  nullable,
  record,
  str,
  union,
  uuid,
} from './types.ts';
export type {
  CountOptions,
  ListOptions,
  Extra,
  FieldOptions,
  FileFieldOptions,
  FormatName,
  Infer,
  Literal,
  NumberOptions,
  PlainOptions,
  SaveOptions,
  SchemaClass,
  TextOptions,
  TypeSource,
  UploadFile,
  Wire,
} from './types.ts';
export { plansOf, plansWithin } from './nodes.ts';
export type { FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';
export { compileSerializer, compileType, fieldsOf, exampleFindings, planOf } from './plan.ts';
export type { CompiledType, FieldFinding, SchemaPlan } from './plan.ts';
export { fileLimit, textIssue } from './text.ts';
export type { TextInput } from './text.ts';
export type { Result } from './validation-run.ts';
export type { Serializer } from './output.ts';
export { patternFinding } from './pattern.ts';

/** 400: the input does not fit its schema. `issues` has every problem with its path, and never the submitted value. */
export class ValidationError extends BadRequest {
  declare readonly issues: readonly Issue[];

  constructor(issues: readonly Issue[]) {
    super(`The input has ${issues.length} problem${issues.length === 1 ? '' : 's'}`, { issues });
  }
}

/**
 * Declares one field: a type first (required, unless `default` or `optional: true` says otherwise), or a default first,
 * which is the type too: text, an integer (`int`), a fraction (`float`), true or false.
 *
 * Typed as the value that instances have. In a class that is what it returns; elsewhere it returns a marker that
 * {@link fieldsOf} reads. Options are read when the schema is compiled: mistakes are `SvcError`s of that moment.
 */
export function Field<S extends FieldSource, P extends boolean = false, R extends boolean = false>(
  source: CheckedSource<S>,
  options?: OptionsOf<S> & {
    /** The member may be absent: its value is undefined then. Default false. */
    readonly optional?: P | undefined;
    /** Passed over in input (as OpenAPI allows), present in replies: without a default, instances made from input have undefined. Default false. */
    readonly readOnly?: R | undefined;
  },
): Infer<S> | (true extends P | R ? undefined : never) {
  return called(source as FieldSource, options) as Infer<S>; // the validated value, or a marker typed as one
}

/**
 * The base of all schemas. Subclasses declare members with {@link Field}, and `static extra = 'forbid'` or `'allow'` to
 * refuse or keep members that they do not declare (default `'ignore'`; inherited).
 *
 * `JSON.stringify()` of an instance writes aliases and leaves secrets out; `inspect()` shows them as `[secret]`.
 */
export class Schema {
  /** Marks schema classes. */
  declare static readonly '~schema': true;
  static {
    Object.defineProperty(this, '~schema', { value: true });
    Object.defineProperty(this.prototype, inspect.custom, {
      value: inspected,
      writable: true,
      configurable: true,
    });
  }

  /** @throws ValidationError when the data do not fit */
  constructor(data: unknown) {
    const schema = new.target as unknown as SchemaClass; // a class of schemas takes data
    const entered = enter(this, schema, data);
    if (entered === 'taken') return;
    if (entered !== undefined) return entered as this; // a Proxy of this
    const plan = classPlan(schema);
    const result = apart(() => plan.members(data));
    if (!result.ok) throw new ValidationError(result.issues);
    enterDirectly(plan, this, result.value.values, result.value.extras);
  }

  /** A validated instance. @throws ValidationError when the data do not fit */
  static parse<T extends Schema>(this: new (data: never) => T, data: unknown): T {
    const result = planOf(this as unknown as SchemaClass<T>).parseJson(data);
    if (!result.ok) throw new ValidationError(result.issues);
    return result.value;
  }

  /** A validated instance, or the problems; throws neither way. */
  static safeParse<T extends Schema>(this: new (data: never) => T, data: unknown): Result<T> {
    return planOf(this as unknown as SchemaClass<T>).parseJson(data);
  }

  /**
   * Whether {@link parse} would take the data. No instance is made of them, which costs less: defaults, initialisers and the
   * constructor do not run. Throws neither way.
   */
  static accepts(data: unknown): boolean {
    return classPlan(this as unknown as SchemaClass).accepts(data);
  }

  /** The members as they go on the wire; secrets are left out, and nothing is checked: a reply with `response` is. */
  toJSON(): Record<string, unknown> {
    const plan = classPlan(classOf(this)!);
    const members = this as unknown as Readonly<Record<string, unknown>>; // its fields are own members
    const out: Record<string, unknown> = Object.fromEntries(plan.extras(members));
    for (const [field, check] of plan.written) {
      const value = members[field.name];
      const written = check(value, new Run(false, false));
      if (value !== undefined) out[field.wireName] = written === FAIL ? value : written;
    }
    return out;
  }
}

const SHOWN_SECRET = { [inspect.custom]: (): string => '[secret]' };

/** How `console.log()` and error messages show an instance. */
function inspected(this: Schema, depth: number, options: InspectOptions): unknown {
  const schema = classOf(this);
  if (schema === undefined) return this; // as Node would
  const secrets = classPlan(schema).fields.filter((field) => field.isSecret);
  if (secrets.length === 0) return this;
  if (depth < 0) return `[${schema.name}]`;
  const shown: Record<string, unknown> = { ...this };
  for (const { name } of secrets) if (shown[name] !== undefined) shown[name] = SHOWN_SECRET;
  return `${schema.name} ${inspect(shown, { ...options, depth: options.depth === null ? null : depth })}`;
}

/** The class of an instance, whatever members it has; undefined for the prototype of `Schema` itself. */
function classOf(instance: Schema): SchemaClass | undefined {
  const { constructor } = Object.getPrototypeOf(instance) as object;
  return isSchemaClass(constructor) ? constructor : undefined;
}
