/**
 * Schema classes, which are compiled on first use. Their instances are always valid.
 *
 * Example:
 *   class User extends Schema {
 *     name = Field(str, { minLength: 2 }); // required
 *     nick = Field('anon', { maxLength: 20 }); // has a default
 *     get domain() { ... } // methods, getters, #private and computed members work as in any class
 *   }
 *   new User(data), User.parse(data) // an instance, or a ValidationError with every problem at once
 *   User.safeParse(data) // the instance or the issues, without an exception: faster
 *   User.accepts(data) // whether the data are valid: fastest
 *
 * On first use, construct.ts constructs a class once to find its declarations, and declarations.ts reads them.
 * Then kinds.ts and text.ts compile them to closures. Later changes of the options have no effect.
 */
import { inspect } from 'node:util';
import { BadRequest, SvcError, checkedIssues } from '../base/errors.ts';
import { apart, called, enter, enterDirectly } from './construct.ts';
import { fieldFault, withoutDefault } from './declarations.ts';
import { JsonSchemas } from './json-schema.ts';
import { TARGET } from './kinds-standard.ts';
import { classPlan, planOf, shapeFields } from './plan.ts';
import { Run } from './validation-run.ts';
import { FAIL, isSchemaClass } from './types.ts';
import type { InspectOptions } from 'node:util';
import type { Issue } from '../base/errors.ts';
import type { Declaration } from './declarations.ts';
import type { Result } from './validation-run.ts';
import type {
  IsWritable,
  CheckedSource,
  Direction,
  FieldSource,
  Infer,
  OptionsOf,
  SchemaClass,
  StandardProps,
  StandardResult,
  StandardSchema,
  StandardTarget,
} from './types.ts';

export {
  any,
  bool,
  bytes,
  date,
  datetime,
  decimal,
  FieldType,
  file,
  float,
  int,
  isSchemaClass,
  isStandardSchema,
  lazy,
  list,
  literal,
  nullable,
  record,
  str,
  tuple,
  union,
  uuid,
} from './types.ts';
export type {
  CountOptions,
  DecimalOptions,
  Deprecation,
  Direction,
  StandardIssue,
  StandardProps,
  StandardResult,
  StandardSchema,
  StandardTarget,
  ListOptions,
  Extra,
  FieldOptions,
  FileFieldOptions,
  FormatName,
  Infer,
  Returned,
  Literal,
  NumberOptions,
  PlainOptions,
  SaveOptions,
  SchemaClass,
  TextOptions,
  TypeSource,
  UploadFile,
  Wire,
  WireOf,
} from './types.ts';
export { foreignWithin, plansOf, plansWithin } from './kinds.ts';
export { within } from './nodes.ts';
export type { FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';
export {
  compileBody,
  compileSerializer,
  compileType,
  fieldsOf,
  exampleFindings,
  exampleProblem,
  planOf,
  planOfStandard,
} from './plan.ts';
export type { CompiledBody, CompiledType, FieldFinding, SchemaPlan } from './plan.ts';
export { standardDocument, standardFields } from './kinds-standard.ts';
export { fileLimit, textIssue } from './text.ts';
export type { TextInput } from './text.ts';
export type { RuleProblem, RuleResult } from './plan.ts';
export type { Result } from './validation-run.ts';
export type { Serializer } from './kinds.ts';
export { patternFinding } from './pattern.ts';

/**
 * Error with the status 400: the input does not match its schema. `issues` lists every problem with its path,
 * but never the submitted values.
 */
export class ValidationError extends BadRequest {
  declare readonly issues: readonly Issue[];

  /** @throws TypeError if `issues` is not a list of issues */
  constructor(issues: readonly Issue[]) {
    const { length } = checkedIssues('ValidationError', issues);
    super(`The input has ${length} problem${length === 1 ? '' : 's'}`, { issues });
  }
}

/**
 * Declares one field. The first argument is a type or a default. With a type, the field is required, unless
 * `default`, `optional` or `readOnly` is set. A default also gives the type: text, an integer (`int`),
 * another number (`float`), or a boolean.
 *
 * In TypeScript, a call has the type of the field's value. While an instance is constructed, the call returns
 * this value; elsewhere it returns a marker for the declaration. An invalid option throws an SvcError when
 * the schema is compiled.
 */
export function Field<S extends FieldSource, P extends boolean = false, R extends boolean = false>(
  source: CheckedSource<S>,
  options?: OptionsOf<S> & {
    /** Whether the member may be absent, with the value undefined. Default false. */
    readonly optional?: P | undefined;
    /**
     * Whether input ignores the member (as OpenAPI allows), while responses contain it. Without a default,
     * the member is undefined in instances made from input. Default false.
     */
    readonly readOnly?: R | undefined;
  },
): Infer<S> | (true extends P | R ? undefined : never) {
  return called(source as FieldSource, options) as Infer<S>;
}

/**
 * The base class of all schemas. Subclasses declare members with {@link Field}. `static extra = 'forbid'`
 * refuses undeclared members, and `'allow'` keeps them. The default `'ignore'` drops them. Subclasses inherit
 * this setting.
 *
 * `JSON.stringify()` of an instance writes aliases and leaves secrets out. `inspect()` shows `[secret]` for
 * secrets.
 */
export class Schema {
  /** Marker that distinguishes schema classes from other classes. */
  declare static readonly '~schema': true;
  static {
    Object.defineProperty(this, '~schema', { value: true });
    Object.defineProperty(this.prototype, inspect.custom, {
      value: inspected,
      writable: true,
      configurable: true,
    });
  }

  /** @throws ValidationError if the data are not valid */
  constructor(data: unknown) {
    const schema = new.target as unknown as SchemaClass;
    const entered = enter(this, schema, data);
    if (entered === 'taken') return;
    if (entered !== undefined) return entered as this;
    const plan = classPlan(schema);
    const result = apart(() => plan.members(data));
    if (!result.ok) throw new ValidationError(result.issues);
    enterDirectly(plan, this, result.value.values, result.value.extras);
  }

  /** Returns a validated instance. @throws ValidationError if the data are not valid */
  static parse<T extends Schema>(this: new (data: never) => T, data: unknown): T {
    const result = planOf(this as unknown as SchemaClass<T>).parseJson(data);
    if (!result.ok) throw new ValidationError(result.issues);
    return result.value;
  }

  /** Returns a validated instance, or the issues. Does not throw for invalid data. */
  static safeParse<T extends Schema>(this: new (data: never) => T, data: unknown): Result<T> {
    return planOf(this as unknown as SchemaClass<T>).parseJson(data);
  }

  /**
   * Whether {@link parse} would accept the data. Faster, because no instance is made, except for a class with
   * `static check()`. Does not throw for invalid data.
   */
  static accepts(data: unknown): boolean {
    return classPlan(this as unknown as SchemaClass).accepts(data);
  }

  /**
   * The class as a Standard Schema, for tools that accept schemas of any library. TypeScript cannot give it the
   * type of a subclass: pass {@link standard} to tools that use the type.
   */
  static get '~standard'(): StandardProps<unknown, Schema> {
    return standardProps(this as unknown as SchemaClass<Schema>);
  }

  /** Returns the class as a Standard Schema with the type of its instances: `procedure.input(User.standard())`. */
  static standard<T extends Schema>(this: new (data: never) => T): StandardSchema<unknown, T> {
    return { '~standard': standardProps(this as unknown as SchemaClass<T>) };
  }

  /** Returns a class in which all fields are optional, for requests with `PATCH`. */
  static partial<T extends Schema>(
    this: new (data: never) => T,
  ): DerivedClass<{
    [K in FieldNames<T>]?: T[K] | undefined;
  }> {
    return derived(this, 'Partial', partialOf);
  }

  /**
   * Returns a class with only the named fields.
   * @throws SvcError `E_SCHEMA_FIELD` for a name that no field has
   */
  static pick<T extends Schema, const K extends FieldNames<T>>(
    this: new (data: never) => T,
    ...names: K[]
  ): DerivedClass<Pick<T, K>> {
    return derived(this, 'Pick', (fields, owner) => chosenOf(owner, fields, names, true));
  }

  /**
   * Returns a class without the named fields.
   * @throws SvcError `E_SCHEMA_FIELD` for a name that no field has
   */
  static omit<T extends Schema, const K extends FieldNames<T>>(
    this: new (data: never) => T,
    ...names: K[]
  ): DerivedClass<Pick<T, Exclude<FieldNames<T>, K>>> {
    return derived(this, 'Omit', (fields, owner) => chosenOf(owner, fields, names, false));
  }

  /**
   * Returns a subclass with further fields: `User.extend({ level: Field(int) })`.
   *
   * @throws SvcError `E_SCHEMA_FIELD` for a member that is not a call of `Field()`
   */
  static extend<T extends Schema, S extends object>(
    this: new (data: never) => T,
    shape: S,
  ): DerivedClass<Omit<T, keyof S | keyof Schema> & { -readonly [K in keyof S]: S[K] }> {
    const base = this as unknown as SchemaClass;
    return classOfFields(base, `${base.name}Extended`, shapeFields(base.name, shape)) as never;
  }

  /**
   * Returns the members as plain JSON values under their aliases, without secrets. The members are not
   * validated; a route that declares `response` validates them.
   */
  toJSON(): Record<string, unknown> {
    const plan = classPlan(classOf(this)!);
    const members = this as unknown as Readonly<Record<string, unknown>>;
    const out: Record<string, unknown> = Object.fromEntries(plan.extras(members));
    for (const [field, check] of plan.written) {
      const value = members[field.name];
      const written = check(value, new Run(false, false));
      if (value !== undefined) out[field.wireName] = written === FAIL ? value : written;
    }
    return out;
  }
}

function standardProps<T extends object>(schema: SchemaClass<T>): StandardProps<unknown, T> {
  return {
    version: 1,
    vendor: 'svc',
    validate: (value): StandardResult<T> => {
      const result = planOf(schema).parseJson(value);
      return result.ok
        ? { value: result.value }
        : { issues: result.issues.map(({ loc, message }) => ({ message, path: loc })) };
    },
    jsonSchema: {
      input: (options) => jsonSchemaOf(schema, 'input', options),
      output: (options) => jsonSchemaOf(schema, 'output', options),
    },
  };
}

function jsonSchemaOf(
  schema: SchemaClass,
  direction: Direction,
  { target }: StandardTarget,
): Readonly<Record<string, unknown>> {
  if (target !== TARGET)
    throw new SvcError('E_SCHEMA_STANDARD', [
      'svc',
      `its JSON Schema is ${TARGET}, and not ${String(target)}`,
    ]);
  const schemas = new JsonSchemas({ prefix: '#/$defs/' });
  const root = schemas.members(planOf(schema), direction);
  const $defs = schemas.components();
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...root,
    ...(Object.keys($defs).length === 0 ? {} : { $defs }),
  };
}

/** Names of fields: all members except methods and read-only members such as getters. */
export type FieldNames<T> = {
  [K in keyof T & string]-?: T[K] extends (...args: never[]) => unknown
    ? never
    : IsWritable<Pick<T, K>> extends true
      ? K
      : never;
}[keyof T & string];
/**
 * Type of a schema class that is derived from others, for example by `pick()` or `partial()`. Such a class
 * can be used directly or extended.
 */
export type DerivedClass<T> = Omit<typeof Schema, 'prototype'> & (new (data: unknown) => T & Schema);

/**
 * Returns a class with the fields of all given schemas. Two schemas must not have a field of the same name.
 *
 * @throws SvcError `E_SCHEMA_FIELD` when two schemas have a field of the same name
 */
export function intersection<
  const M extends readonly [new (data: never) => Schema, ...(new (data: never) => Schema)[]],
>(...schemas: M): DerivedClass<Joined<M>> {
  const classes = schemas as unknown as readonly SchemaClass[];
  const name = classes.map((schema) => classPlan(schema).name).join('And');
  const fields = joinedFields(name, classes.map(declarationsOf));
  const extra = classes.some((schema) => classPlan(schema).extra === 'forbid') ? 'forbid' : 'ignore';
  return classOfFields(Schema as unknown as SchemaClass, name, fields, extra) as never;
}
type Joined<M extends readonly unknown[]> = M extends readonly [new (data: never) => infer T, ...infer Rest]
  ? Pick<T, FieldNames<T> & keyof T> & Joined<Rest>
  : unknown;

function declarationsOf(schema: SchemaClass): ReadonlyMap<string, Declaration> {
  return new Map(classPlan(schema).learnt.calls.map((call) => [call.name, call] as const));
}

function derived<T>(
  from: unknown,
  suffix: string,
  change: (fields: ReadonlyMap<string, Declaration>, owner: string) => ReadonlyMap<string, Declaration>,
): DerivedClass<T> {
  const schema = from as SchemaClass;
  const { name, extra } = classPlan(schema);
  const fields = change(declarationsOf(schema), name);
  return classOfFields(Schema as unknown as SchemaClass, name + suffix, fields, extra) as never;
}

const SHOWN_SECRET = { [inspect.custom]: (): string => '[secret]' };

/** Returns the text that `console.log()` and error messages show for an instance. */
function inspected(this: Schema, depth: number, options: InspectOptions): unknown {
  const schema = classOf(this);
  if (schema === undefined) return this; // Node.js then prints the value like any other object
  const secrets = classPlan(schema).fields.filter((field) => field.isSecret);
  if (secrets.length === 0) return this;
  if (depth < 0) return `[${schema.name}]`;
  const shown: Record<string, unknown> = { ...this };
  for (const { name } of secrets) if (shown[name] !== undefined) shown[name] = SHOWN_SECRET;
  return `${schema.name} ${inspect(shown, { ...options, depth: options.depth === null ? null : depth })}`;
}

/**
 * Returns the class of an instance, even if a member has the name `constructor`; undefined for the prototype
 * of `Schema` itself.
 */
function classOf(instance: Schema): SchemaClass | undefined {
  const { constructor } = Object.getPrototypeOf(instance) as object;
  return isSchemaClass(constructor) ? constructor : undefined;
}

/*
 * Schema classes derived from others: `User.partial()`, `pick()`, `omit()`, `extend()`, `intersection(A, B)`.
 * The result is a class with a name for API documents; `class UserPatch extends User.partial() {}` gives it
 * another name.
 *
 * Except for extend(), a derived class has only fields. It does not inherit methods, getters, computed
 * members and rules.
 */

type Declarations = ReadonlyMap<string, Declaration>;

/** Returns a subclass of `base` with these fields in addition to inherited ones. */
function classOfFields(base: SchemaClass, name: string, fields: Declarations, extra?: unknown): SchemaClass {
  const Base = base as unknown as new (data: never) => object;
  const Derived = class extends Base {
    constructor(data: never) {
      super(data);
      const members = this as Record<string, unknown>;
      for (const [member, { source, options }] of fields) members[member] = called(source, options);
    }
  };
  Object.defineProperty(Derived, 'name', { value: name, configurable: true });
  if (extra !== undefined)
    Object.defineProperty(Derived, 'extra', { value: extra, writable: true, configurable: true });
  return Derived as unknown as SchemaClass;
}

/**
 * Makes all fields optional. Their defaults are removed, because a default would overwrite a member that a
 * client did not send.
 */
function partialOf(fields: Declarations): Declarations {
  return new Map(
    [...fields].map(([name, { source, options }]) => {
      const { default: _, optional: __, ...rest } = (options ?? {}) as Readonly<Record<string, unknown>>;
      return [name, { source: withoutDefault(source), options: { ...rest, optional: true } }] as const;
    }),
  );
}

/** Returns the named fields if `isKept` is true, else all other fields. */
function chosenOf(
  owner: string,
  fields: Declarations,
  names: readonly string[],
  isKept: boolean,
): Declarations {
  for (const name of names)
    if (!fields.has(name))
      throw fieldFault(name, owner, `there is no such field: ${[...fields.keys()].join(', ')}`);
  return new Map([...fields].filter(([name]) => names.includes(name) === isKept));
}

/** Returns the fields of several classes as one list. */
function joinedFields(owner: string, each: readonly Declarations[]): Declarations {
  const joined = new Map<string, Declaration>();
  for (const fields of each) {
    for (const [name, declaration] of fields) {
      if (joined.has(name)) throw fieldFault(name, owner, 'two of its schemas have a field of that name');
      joined.set(name, declaration);
    }
  }
  return joined;
}
