/**
 * Reads the declarations of schemas once: a type with its options becomes a node, and a call of `Field()` becomes
 * a {@link FieldPlan}.
 */
import { SvcError } from '../base/errors.ts';
import {
  bool,
  defined,
  given,
  isBoolean,
  isRecord,
  readOptions,
  shown,
  outOfRange,
} from '../base/options.ts';
import { checkedMs, isDate, momentMs } from './formats.ts';
import { kindNamed } from './kinds.ts';
import { analysePattern } from './pattern.ts';
import { FieldType, isSchemaClass, isStandardSchema } from './types.ts';
import type { FieldPlan, KindName, ObjectPlan, Reader, Shape, TypeNode } from './nodes.ts';
import type {
  Constraints,
  Deprecation,
  FieldSource,
  FormatName,
  ScalarKind,
  SchemaClass,
  TypeSource,
} from './types.ts';

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
type Resolve = (schema: SchemaClass) => ObjectPlan;

const isText = (value: unknown): boolean => typeof value === 'string';
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
/** Reads the arguments of a call of `Field()`. `owner` names the field in errors, for example `"age" of User`. */
export function readField(
  name: string,
  owner: string,
  declaration: Declaration,
  resolve: Resolve,
): FieldPlan {
  const { source, options = {} } = declaration;
  if (typeof options !== 'object' || options === null)
    throw wrong(owner, `its options are ${shown(options)}, an object is needed`);
  if (typeof source === 'number' && !Number.isFinite(source))
    throw wrong(owner, `its default is ${source}, a finite number is needed`);
  const type = withoutDefault(source);
  const shape = shapeOf(type, owner);
  const { options: constraintKinds } = kindNamed(constrainedKind(shape, owner));
  const read = readOptions(`the field ${owner}`, options, { ...ABOUT, ...PRESENCE, ...constraintKinds });
  if (type !== source && read.default !== undefined)
    throw wrong(owner, 'its first argument is a default, and the option "default" is another one');
  const fallback = type === source ? read.default : source;
  assertDefault(fallback, read.optional === true, owner);
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

export function readType(source: TypeSource, owner: string, resolve: Resolve): TypeNode {
  return nodeOf(shapeOf(source, owner), owner, {}, resolve);
}

function wrong(owner: string, problem: string): SvcError {
  return new SvcError('E_SCHEMA_FIELD', [owner, problem]);
}

export function fieldFault(name: string, owner: string, problem: string): SvcError {
  return wrong(`"${name}" of ${owner}`, problem);
}

function assertDefault(fallback: unknown, isOptional: boolean, owner: string): void {
  if (fallback !== undefined && isOptional)
    throw wrong(owner, 'it is optional and has a default: a member with a default may be absent already');
  if (typeof fallback === 'object' && fallback !== null)
    throw wrong(
      owner,
      'its default is an object, which all instances would share: give a function, default: () => …',
    );
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

function shapeOf(source: unknown, owner: string): Shape {
  const shape = shapeIn(source);
  if (shape !== undefined) return shape;
  const found =
    typeof source === 'function'
      ? `the function ${source.name === '' ? '(anonymous)' : source.name}`
      : shown(source);
  throw wrong(
    owner,
    `${found} is not a type: use str, int, list(…), a class that extends Schema, String, Number, Boolean, Date, or a schema with the member "~standard"`,
  );
}

/** Returns the kind of a declared type, and the types and options inside it; undefined for other values. */
export function shapeIn(source: unknown): Shape | undefined {
  if (source instanceof FieldType) return source.shape;
  if (isSchemaClass(source)) return { kind: 'object', schema: source };
  if (source === String) return { kind: 'str' };
  if (source === Number) return { kind: 'float' };
  if (source === Boolean) return { kind: 'bool' };
  if (source === Date) return { kind: 'datetime' };
  return isStandardSchema(source) ? { kind: 'standard', schema: source } : undefined;
}

/** Returns the kind of the type to which a field's options apply: the type inside `nullable` or `lazy`. */
function constrainedKind(shape: Shape, owner: string): KindName {
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

function nodeOf(shape: Shape, owner: string, constraints: Constraints, resolve: Resolve): TypeNode {
  const reader: Reader = {
    constraints,
    node: (source, inner = {}) => nodeOf(shapeOf(source, owner), owner, inner, resolve),
    item: (source, options) => itemOf(source, options, owner, resolve),
    plan: resolve,
    fault: (problem) => wrong(owner, problem),
  };
  return kindNamed(shape.kind).read?.(shape, reader) ?? { kind: shape.kind as ScalarKind, constraints };
}

function itemOf(source: TypeSource, options: object | undefined, owner: string, resolve: Resolve): TypeNode {
  const shape = shapeOf(source, owner);
  if (options === undefined) return nodeOf(shape, owner, {}, resolve);
  const { options: constraintKinds } = kindNamed(constrainedKind(shape, owner));
  const read = readOptions(`the items of ${owner}`, options, { ...ABOUT, ...constraintKinds });
  return {
    ...nodeOf(shape, owner, constraintsOf(read, owner), resolve),
    about: aboutOf(read, `the items of ${owner}`),
  };
}

/** Constraints that are options, unchanged. */
const COPIED = [
  ...['minLength', 'maxLength', 'ge', 'le', 'gt', 'lt', 'multipleOf', 'digits', 'places'],
  ...['trim', 'separator', 'unique'],
] as const;

type Read = Readonly<Record<string, unknown>>;

function constraintsOf(read: Read, owner: string): Constraints {
  const format = (read['email'] === true ? 'email' : read['format']) as FormatName | undefined;
  if (read['email'] === true && (read['format'] ?? 'email') !== 'email')
    throw wrong(owner, `it has email: true and another format, "${format}"`);
  const pattern =
    read['pattern'] === undefined ? undefined : patternOf(read['pattern'] as string | RegExp, owner);
  const found: Record<string, unknown> = { pattern, format, hazard: pattern && analysePattern(pattern) };
  for (const name of COPIED) found[name] = read[name];
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

/**
 * Returns whether a type is a list or a nullable list. False for a `lazy` type, which may not be resolvable
 * yet.
 */
function isListNode(node: TypeNode): boolean {
  return node.kind === 'list' || (node.kind === 'nullable' && isListNode(node.inner));
}

/*
 * The option `deprecated` of routes and fields.
 */

const date = (value: unknown): boolean =>
  (typeof value === 'string' || value instanceof Date) && !Number.isNaN(deprecationMs(value));

/** Returns the milliseconds since 1970 of a date, an RFC 3339 date-time or a Date; NaN for other values. */
export function deprecationMs(value: string | Date): number {
  if (value instanceof Date) return checkedMs(value.getTime());
  return isDate(value) ? Date.parse(value) : momentMs(value);
}

export function readDeprecation(subject: string, options: Deprecation): Deprecation {
  const owner = `deprecated of ${subject}`;
  const needs = 'a date such as "2026-01-31"';
  const read = readOptions(owner, options, {
    since: given<string | Date>(needs, date),
    sunset: given<string | Date>(needs, date),
    link: given<string>('a URI', (value) => typeof value === 'string' && /^[!#-;=?-~]+$/.test(value)),
  });
  if (read.since === undefined) throw outOfRange(owner, 'since', `needs ${needs}`, 'undefined');
  if (read.sunset !== undefined && deprecationMs(read.sunset) < deprecationMs(read.since))
    throw outOfRange(owner, 'sunset', 'must not be earlier than the option "since"', shown(read.sunset));
  return { since: read.since, sunset: read.sunset, link: read.link };
}

/** Returns the options of a field that only describe it in API documents, such as `title` and `examples`. */
function aboutOf(read: Readonly<Record<string, unknown>>, owner: string): object {
  const { title, description, example, examples, deprecated: given } = read;
  const deprecated = isRecord(given) ? readDeprecation(owner, given as unknown as Deprecation) : given;
  return Object.freeze(defined({ title, description, example, examples, deprecated }));
}
