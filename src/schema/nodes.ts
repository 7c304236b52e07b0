/**
 * Reads the declarations of schemas once. A type such as `list(str)` with its options becomes a node; a call
 * of `Field()` becomes a {@link FieldPlan}.
 *
 * All other modules use nodes: validators, serializers, JSON Schema, OpenAPI, MCP, `svc check`. The node of a
 * schema class holds a function that returns the compiled class, because classes may refer to each other.
 */
import { SvcError } from '../base/errors.ts';
import { bool, defined, given, int, isBoolean, isRecord, readOptions, shown } from '../base/options.ts';
import type { OptionKind } from '../base/options.ts';
import { FieldType, isSchemaClass } from './types.ts';
import type {
  Deprecation,
  Extra,
  FieldSource,
  FormatName,
  Literal,
  ScalarKind,
  SchemaClass,
  TypeSource,
} from './types.ts';
import { aboutOf } from './deprecation.ts';
import { FORMATS } from './formats.ts';
import { analysePattern } from './pattern.ts';
import type { PatternFinding } from './pattern.ts';

/**
 * Constraints of a value in addition to its kind. Lengths count the code points of a string, the items of a
 * list, the members of a record, or bytes.
 */
export interface Constraints {
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly ge?: number;
  readonly le?: number;
  readonly gt?: number;
  readonly lt?: number;
  readonly multipleOf?: number;
  readonly pattern?: RegExp;
  /** Present if the pattern may backtrack exponentially or polynomially. */
  readonly hazard?: PatternFinding;
  readonly format?: FormatName;
  /** Accepted media types of files, in lower case: `type/subtype` or `type/*`. */
  readonly contentTypes?: readonly string[];
  /** Separator of list items that are sent as one text, such as `?ids=1,2`. */
  readonly separator?: ',';
  /** Whether the items of a list must be unique. */
  readonly unique?: boolean;
}

/** Description of a type or a field in API documents. */
export interface About {
  readonly title?: string;
  readonly description?: string;
  readonly example?: unknown;
  readonly examples?: readonly unknown[];
  readonly deprecated?: boolean | Deprecation;
}

interface Node {
  readonly constraints: Constraints;
  /** Description of each list item or record value, if there is one. */
  readonly about?: About;
}
/** A parsed type with its constraints. `kind` says which type it is. */
export type TypeNode =
  | (Node & { readonly kind: ScalarKind })
  | (Node & { readonly kind: 'list' | 'record'; readonly item: TypeNode })
  | (Node & { readonly kind: 'nullable'; readonly inner: TypeNode })
  | (Node & { readonly kind: 'choice' | 'tuple'; readonly members: readonly TypeNode[] })
  | (Node & { readonly kind: 'literal'; readonly values: readonly Literal[] })
  | (Node & { readonly kind: 'union'; readonly tag: string; readonly variants: () => readonly Variant[] })
  | (Node & { readonly kind: 'lazy'; readonly resolve: () => TypeNode })
  | (Node & { readonly kind: 'object'; readonly schema: SchemaClass; readonly plan: () => ObjectPlan });

/**
 * One schema class of a tagged union, with its values of the tag. `tagWire` is the alias of the tag, which
 * all classes of the union share.
 */
export interface Variant {
  readonly plan: ObjectPlan;
  readonly tagWire: string;
  readonly values: readonly Literal[];
}

/** A compiled field of a schema, in the form that all other modules use. */
export interface FieldPlan {
  readonly name: string;
  readonly wireName: string;
  readonly node: TypeNode;
  /** Whether the input must have the member. */
  readonly isRequired: boolean;
  /** Whether the value may be undefined: the field is `optional`, or `readOnly` without a default. */
  readonly isOptional: boolean;
  /** Whether a handler's result may lack the member: it is `optional`, secret, or has a default. */
  readonly isOptionalInOutput: boolean;
  readonly hasDefault: boolean;
  /** Default value, or a function that returns one for each instance. */
  readonly default: unknown;
  readonly isSecret: boolean;
  readonly isReadOnly: boolean;
  /** Whether the type is a list, so that a query, header or form may repeat the name of the field. */
  readonly isList: boolean;
  readonly about: About;
}

/** An issue that `static check()` reports. `path` leads from the object to the member, with aliases. */
export interface RuleIssue {
  readonly path: readonly (string | number)[];
  readonly code: string;
  readonly message: string;
}

/** A compiled object type: the fields of a schema class or of a plain object, in the order of declaration. */
export interface ObjectPlan {
  readonly name: string;
  /** Class of the schema; undefined for a plain object of `Field()` members. */
  readonly schema: SchemaClass | undefined;
  readonly fields: readonly FieldPlan[];
  readonly extra: Extra;
  /** Names of methods and other members of the class. An undeclared member must not have such a name. */
  readonly reserved: ReadonlySet<string>;
  /** Returns the members of an instance by alias, so that the instance can be validated as an input. */
  inputOf?(instance: object): Readonly<Record<string, unknown>>;
  /**
   * Runs `static check()` on a value whose fields are valid, and returns its issues. Undefined for a class
   * without `static check()`.
   */
  readonly rules?: ((value: unknown) => readonly RuleIssue[]) | undefined;
  /**
   * Makes an instance or a plain object from validated values, which are in the order of `fields`. If an
   * initializer of the class throws, the exception passes to the caller.
   */
  build(values: unknown[], input: unknown, extras: Readonly<Record<string, unknown>> | undefined): unknown;
}

/** Arguments of a call of `Field()`. */
export interface Declaration {
  readonly source: FieldSource;
  readonly options: object | undefined;
}

/**
 * Marker that `Field()` returns while no instance is constructed. In TypeScript, the marker has the type of
 * the field's value.
 */
export class FieldMarker implements Declaration {
  readonly source: FieldSource;
  readonly options: object | undefined;

  constructor(source: FieldSource, options: object | undefined) {
    this.source = source;
    this.options = options;
    Object.freeze(this);
  }
}
/** Returns the compiled form of a schema class. */
type Resolve = (schema: SchemaClass) => ObjectPlan;

const isText = (value: unknown): boolean => typeof value === 'string';
const COUNTS = {
  minLength: given<number>('an integer 0 … 2^53 - 1', isCount),
  maxLength: given<number>('an integer 0 … 2^53 - 1', isCount),
};
const TEXTS = {
  ...COUNTS,
  pattern: given<string | RegExp>(
    'a pattern as text or RegExp',
    (value) => isText(value) || value instanceof RegExp,
  ),
  email: bool(),
  format: given<FormatName>(
    `one of ${Object.keys(FORMATS)
      .map((name) => `"${name}"`)
      .join(', ')}`,
    (value) => isText(value) && Object.hasOwn(FORMATS, value as string),
  ),
};
const finite = given<number>('a finite number', Number.isFinite);
const NUMBERS = {
  ge: finite,
  le: finite,
  gt: finite,
  lt: finite,
  multipleOf: given<number>('a number above 0', (value) => Number.isFinite(value) && (value as number) > 0),
};
const FILES = {
  ...COUNTS,
  contentTypes: given<readonly string[]>(
    'a list of media types such as "image/png" or "image/*"',
    isMediaTypes,
  ),
};
const LISTS = { ...COUNTS, separator: given<','>('","', (value) => value === ','), unique: bool() };
const ABOUT = {
  title: given<string>('a string', isText),
  description: given<string>('a string', isText),
  example: given<unknown>(),
  examples: given<readonly unknown[]>('a list', Array.isArray),
  deprecated: given<boolean | Deprecation>(
    'true, false or { since, sunset, link }',
    (value) => isBoolean(value) || isRecord(value),
  ),
};
const PRESENCE = {
  alias: given<string>('a string that is not empty', (value) => isText(value) && value !== ''),
  secret: bool(),
  readOnly: bool(),
  optional: bool(),
  default: given<unknown>(),
};
const BY_KIND: Readonly<Partial<Record<string, Readonly<Record<string, OptionKind<unknown>>>>>> = {
  str: TEXTS,
  int: NUMBERS,
  float: NUMBERS,
  list: LISTS,
  record: COUNTS,
  bytes: COUNTS,
  file: FILES,
};

function isMediaTypes(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every(
      (type) =>
        isText(type) &&
        /^[a-z0-9][a-z0-9!#$&^_.+-]*\/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]*)$/i.test(type as string),
    )
  );
}
function isCount(value: unknown): boolean {
  return int(0, 0, Number.MAX_SAFE_INTEGER).accepts(value);
}

/**
 * Reads the arguments of a call of `Field()`. `owner` names the field in errors, for example `"age" of User`.
 *
 * @throws SvcError `E_SCHEMA_FIELD` for an invalid declaration, `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` for an
 * option
 */
export function readField(
  name: string,
  owner: string,
  declaration: Declaration,
  resolve: Resolve,
): FieldPlan {
  const { source, options = {} } = declaration;
  if (typeof options !== 'object' || options === null)
    throw wrong(owner, `its options are ${shown(options)}, an object is needed`);
  const startsWithDefault =
    typeof source === 'string' || typeof source === 'number' || typeof source === 'boolean';
  const shape = shapeOf(startsWithDefault ? typeOfDefault(source, owner) : source, owner);
  const constraintKinds = BY_KIND[constrainedKind(shape, owner)] ?? {};
  const read = readOptions(`the field ${owner}`, options, { ...ABOUT, ...PRESENCE, ...constraintKinds });
  if (startsWithDefault && read.default !== undefined)
    throw wrong(owner, 'its first argument is a default, and the option "default" is another one');
  const fallback = startsWithDefault ? source : read.default;
  if (fallback !== undefined && read.optional === true)
    throw wrong(owner, 'it is optional and has a default: a member with a default may be absent already');
  if (typeof fallback === 'object' && fallback !== null)
    throw wrong(
      owner,
      'its default is an object, which all instances would share: give a function, default: () => …',
    );
  const wireName = read.alias ?? name;
  if (wireName === '__proto__' || name === '__proto__')
    throw wrong(owner, '"__proto__" cannot be a member of JSON input');
  const node = nodeOf(shape, owner, constraintsOf(read, owner), resolve);
  return Object.freeze({
    name,
    wireName,
    node,
    hasDefault: fallback !== undefined,
    default: fallback,
    isRequired: fallback === undefined && read.optional !== true && read.readOnly !== true,
    isOptional: read.optional === true || (read.readOnly === true && fallback === undefined),
    isOptionalInOutput: read.optional === true || fallback !== undefined || read.secret === true,
    isSecret: read.secret === true,
    isReadOnly: read.readOnly === true,
    isList: isListNode(node),
    about: aboutOf(read, `the field ${owner}`),
  });
}

/** Returns the node of a type without options. */
export function readType(source: TypeSource, owner: string, resolve: Resolve): TypeNode {
  return nodeOf(shapeOf(source, owner), owner, {}, resolve);
}

function wrong(owner: string, problem: string): SvcError {
  return new SvcError('E_SCHEMA_FIELD', [owner, problem]);
}

/** Returns the error `E_SCHEMA_FIELD` about the field `name` of a schema. */
export function fieldFault(name: string, owner: string, problem: string): SvcError {
  return wrong(`"${name}" of ${owner}`, problem);
}

function typeOfDefault(value: string | number | boolean, owner: string): TypeSource {
  if (typeof value === 'number' && !Number.isFinite(value))
    throw wrong(owner, `its default is ${value}, a finite number is needed`);
  return withoutDefault(value) as TypeSource; // the cast is safe: a default always implies a type
}

/** Returns the type that a default implies. An argument that is a type is returned unchanged. */
export function withoutDefault(source: FieldSource): FieldSource {
  switch (typeof source) {
    case 'string':
      return String;
    case 'boolean':
      return Boolean;
    case 'number':
      return new FieldType({ kind: Number.isInteger(source) ? 'int' : 'float' });
    default:
      return source;
  }
}

type SourceShape =
  FieldType<unknown, object>['shape'] | { readonly kind: 'object'; readonly schema: SchemaClass };

function shapeOf(source: unknown, owner: string): SourceShape {
  if (source instanceof FieldType) return source.shape;
  if (isSchemaClass(source)) return { kind: 'object', schema: source };
  if (source === String) return { kind: 'str' };
  if (source === Number) return { kind: 'float' };
  if (source === Boolean) return { kind: 'bool' };
  if (source === Date) return { kind: 'datetime' };
  const found =
    typeof source === 'function'
      ? `the function ${source.name === '' ? '(anonymous)' : source.name}`
      : shown(source);
  throw wrong(
    owner,
    `${found} is not a type: use str, int, list(…), a class that extends Schema, String, Number, Boolean or Date`,
  );
}

/** Returns the kind of the type to which a field's options apply: the type inside `nullable` or `lazy`. */
function constrainedKind(shape: SourceShape, owner: string): string {
  if (shape.kind === 'nullable') return constrainedKind(shapeOf(shape.inner, owner), owner);
  if (shape.kind === 'lazy') {
    let target: unknown;
    try {
      target = shape.get();
    } catch {
      return 'object'; // the type is declared later, so it is usually a class, which accepts no constraints
    }
    return constrainedKind(shapeOf(target, owner), owner);
  }
  return shape.kind;
}

type Read = Readonly<Record<string, unknown>>;

function constraintsOf(read: Read, owner: string): Constraints {
  // the cast is safe: the option table TEXTS allows only the names of formats
  const format = (read['email'] === true ? 'email' : read['format']) as FormatName | undefined;
  if (read['email'] === true && (read['format'] ?? 'email') !== 'email')
    throw wrong(owner, `it has email: true and another format, "${format}"`);
  const pattern =
    read['pattern'] === undefined ? undefined : patternOf(read['pattern'] as string | RegExp, owner);
  const found: Record<string, unknown> = { pattern, format, hazard: pattern && analysePattern(pattern) };
  for (const name of ['minLength', 'maxLength', 'ge', 'le', 'gt', 'lt', 'multipleOf', 'separator', 'unique'])
    found[name] = read[name];
  // the cast is safe: the option table FILES allows only lists of strings
  found['contentTypes'] = (read['contentTypes'] as readonly string[] | undefined)?.map((type) =>
    type.toLowerCase(),
  );
  const constraints: Constraints = Object.freeze(defined(found));
  const {
    minLength = 0,
    maxLength = Infinity,
    ge = -Infinity,
    gt = -Infinity,
    le = Infinity,
    lt = Infinity,
  } = constraints;
  if (minLength > maxLength || Math.max(ge, gt) > Math.min(le, lt))
    throw wrong(owner, 'its lower bound is above its upper bound, so no value could satisfy both');
  return constraints;
}

/**
 * Returns the RegExp for validation. The flags `g` and `y` are removed, because they keep state between
 * tests. The flag `u` is added if the pattern allows it, because JSON Schema reads patterns with `u`.
 */
function patternOf(given: string | RegExp, owner: string): RegExp {
  const source = typeof given === 'string' ? given : given.source;
  const flags = typeof given === 'string' ? '' : given.flags.replace(/[dgy]/g, '');
  try {
    return new RegExp(source, /[uv]/.test(flags) ? flags : flags + 'u');
  } catch (error) {
    if (given instanceof RegExp) return new RegExp(source, flags);
    throw wrong(owner, `its pattern is not a regular expression: ${(error as Error).message}`);
  }
}

/** Returns all examples of a field; the single `example` comes first. */
export function examplesOf({ example, examples = [] }: About): readonly unknown[] {
  return example === undefined ? examples : [example, ...examples];
}

function nodeOf(shape: SourceShape, owner: string, constraints: Constraints, resolve: Resolve): TypeNode {
  switch (shape.kind) {
    case 'object':
      return { kind: 'object', constraints, schema: shape.schema, plan: () => resolve(shape.schema) };
    case 'nullable':
      return {
        kind: 'nullable',
        constraints: {},
        inner: nodeOf(shapeOf(shape.inner, owner), owner, constraints, resolve),
      };
    case 'list':
    case 'record':
      return { kind: shape.kind, constraints, item: itemOf(shape.item, shape.options, owner, resolve) };
    case 'literal':
      return { kind: 'literal', constraints, values: literalsOf(shape.values, owner) };
    case 'choice':
    case 'tuple':
      return {
        kind: shape.kind,
        constraints,
        members: membersOf(shape.kind, shape.members, owner, resolve),
      };
    case 'union':
      return {
        kind: 'union',
        constraints,
        tag: shape.tag,
        variants: unionOf(shape.tag, shape.members, owner, resolve),
      };
    case 'lazy':
      return lazyNode(shape, owner, constraints, resolve);
    default:
      return { kind: shape.kind, constraints };
  }
}

function membersOf(
  kind: 'choice' | 'tuple',
  members: readonly TypeSource[],
  owner: string,
  resolve: Resolve,
): readonly TypeNode[] {
  if (members.length < (kind === 'tuple' ? 1 : 2))
    throw wrong(owner, kind === 'tuple' ? 'tuple() names no type' : 'union() names less than two types');
  return members.map((member) => nodeOf(shapeOf(member, owner), owner, {}, resolve));
}

const LAZY_NODES = new WeakMap<object, TypeNode>();

/**
 * Returns one node for each `lazy()` type. So a type that contains itself gives a cycle of nodes, not an
 * endless chain.
 */
function lazyNode(
  shape: Extract<SourceShape, { kind: 'lazy' }>,
  owner: string,
  constraints: Constraints,
  resolve: Resolve,
): TypeNode {
  const isBare = Object.keys(constraints).length === 0;
  const known = isBare ? LAZY_NODES.get(shape) : undefined;
  if (known !== undefined) return known;
  const node: TypeNode = {
    kind: 'lazy',
    constraints,
    resolve: once(() => nodeOf(shapeOf(shape.get(), owner), owner, constraints, resolve)),
  };
  if (isBare) LAZY_NODES.set(shape, node);
  return node;
}

function itemOf(source: TypeSource, options: object | undefined, owner: string, resolve: Resolve): TypeNode {
  const shape = shapeOf(source, owner);

  if (options === undefined) return nodeOf(shape, owner, {}, resolve);
  const read = readOptions(`the items of ${owner}`, options, {
    ...ABOUT,
    ...(BY_KIND[constrainedKind(shape, owner)] ?? {}),
  });
  return {
    ...nodeOf(shape, owner, constraintsOf(read, owner), resolve),
    about: aboutOf(read, `the items of ${owner}`),
  };
}

function literalsOf(values: readonly Literal[], owner: string): readonly Literal[] {
  if (values.length === 0) throw wrong(owner, 'literal() names no value');
  for (const value of values) {
    if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value))
      continue;
    throw wrong(
      owner,
      `literal() cannot name ${shown(value)}: a string, a finite number, a boolean or null is needed`,
    );
  }
  return Object.freeze([...new Set(values)]);
}

/**
 * Returns the function that finds the variants of a union. It is called on first use, because the classes of
 * the variants may be declared later.
 */
function unionOf(
  tag: string,
  members: readonly SchemaClass[],
  owner: string,
  resolve: Resolve,
): () => readonly Variant[] {
  if (members.length === 0) throw wrong(owner, 'union() names no schema');
  for (const member of members)
    if (!isSchemaClass(member))
      throw wrong(owner, `union() takes classes that extend Schema, found ${shown(member)}`);
  return once(() => {
    const taken = new Set<Literal>();
    const variants = members.map((member): Variant => {
      const plan = resolve(member);
      const field = plan.fields.find((candidate) => candidate.name === tag);
      if (field?.node.kind !== 'literal')
        throw wrong(owner, `${plan.name} has no literal field "${tag}", which the union needs as its tag`);
      for (const value of field.node.values) {
        if (taken.has(value))
          throw wrong(
            owner,
            `two schemas of its union have the same value of the tag "${tag}": ${JSON.stringify(value)}`,
          );
        taken.add(value);
      }
      return { plan, tagWire: field.wireName, values: field.node.values };
    });
    if (variants.some((variant) => variant.tagWire !== variants[0]!.tagWire))
      throw wrong(owner, `the schemas of its union give "${tag}" different aliases`);
    return variants;
  });
}

/**
 * Returns whether a type is a list or a nullable list. False for a `lazy` type, which may not be resolvable
 * yet.
 */
function isListNode(node: TypeNode): boolean {
  return node.kind === 'list' || (node.kind === 'nullable' && isListNode(node.inner));
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Returns the types directly inside a type, except schema classes. */
export function innerOf(node: TypeNode): readonly TypeNode[] {
  switch (node.kind) {
    case 'list':
    case 'record':
      return [node.item];
    case 'nullable':
      return [node.inner];
    case 'choice':
    case 'tuple':
      return node.members;
    case 'lazy':
      return [node.resolve()];
    default:
      return [];
  }
}

/** Returns the {@link ObjectPlan} of every schema class that occurs in a type, at any depth. */
export function plansWithin(
  node: TypeNode,
  found: Set<ObjectPlan> = new Set<ObjectPlan>(),
  seen: Set<TypeNode> = new Set<TypeNode>(),
): Set<ObjectPlan> {
  if (seen.has(node)) return found;
  seen.add(node);
  if (node.kind === 'object') plansOf(node.plan(), found, seen);
  if (node.kind === 'union') for (const variant of node.variants()) plansOf(variant.plan, found, seen);
  for (const inner of innerOf(node)) plansWithin(inner, found, seen);
  return found;
}

/** Adds `plan` to `found`, and the plans of all schema classes in its fields, at any depth. */
export function plansOf(
  plan: ObjectPlan,
  found: Set<ObjectPlan> = new Set<ObjectPlan>(),
  seen: Set<TypeNode> = new Set<TypeNode>(),
): Set<ObjectPlan> {
  if (found.has(plan)) return found;
  found.add(plan);
  for (const field of plan.fields) plansWithin(field.node, found, seen);
  return found;
}
