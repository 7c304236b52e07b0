/**
 * The types of schema fields (`str`, `list(t)` ...), their options, and the TypeScript types of their values.
 *
 * Main TypeScript types:
 *   - FieldType<T, O> is the type of `str`, `int` and others. T is the type of their values, O the type of
 *     their options.
 *   - Infer<S> is the type of the values of a field with the declaration S.
 *   - Wire<T> is the type that a handler may return when its route declares a response with values of T.
 *
 * Creating a type is cheap and checks nothing, because every construction of an instance creates the types of
 * its fields again.
 */

import { isRecord } from '../base/options.ts';
import type { PatternFinding } from './pattern.ts';

/** A value that {@link literal} accepts. */
export type Literal = string | number | boolean | null;
/** Kinds of values that do not contain other values. */
export type ScalarKind =
  'str' | 'int' | 'float' | 'decimal' | 'bool' | 'datetime' | 'date' | 'uuid' | 'bytes' | 'file' | 'any';
/** Formats of strings, as defined by JSON Schema 2020-12 §7.3. */
export type FormatName =
  'email' | 'uuid' | 'date' | 'date-time' | 'time' | 'uri' | 'hostname' | 'ipv4' | 'ipv6';
/** Treatment of undeclared members of the input: dropped (default), refused, or kept as own members. */
export type Extra = 'ignore' | 'forbid' | 'allow';

/** Result of a failed check, in place of a value. */
export const FAIL: unique symbol = Symbol('fail');

/** The constructor of a schema: any class that extends `Schema`. */
export interface SchemaClass<T extends object = object> {
  new (data: never): T;
  readonly name: string;
  /** Marks schema classes. Set by `Schema`, never by applications. */
  readonly '~schema': true;
}

/** Whether a value is a class that extends `Schema`. */
export function isSchemaClass(value: unknown): value is SchemaClass {
  return typeof value === 'function' && (value as Partial<SchemaClass>)['~schema'] === true;
}

/** Whether a schema describes input or output. */
export type Direction = 'input' | 'output';

/** An issue of an invalid value. An item of `path` is a key, or an object with a key. */
export interface StandardIssue {
  /** Description of the problem. */
  readonly message: string;
  /** Members that lead to the value. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
/** Result of `validate`: a value without issues, or the issues. */
export type StandardResult<T> =
  { readonly value: T; readonly issues?: undefined } | { readonly issues: readonly StandardIssue[] };
/** Options of the methods in `jsonSchema`. */
export interface StandardTarget {
  /** Dialect of JSON Schema, such as `draft-2020-12`. */
  readonly target: string;
}
/** Members of a schema under the name `~standard`. */
export interface StandardProps<Input = unknown, Output = Input> {
  /** Version of the interface. */
  readonly version: 1;
  /** Name of the library. */
  readonly vendor: string;
  /** Validates a value. */
  readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
  /** Only for the compiler: the types of the values before and after the validation. */
  readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  /** Methods that return the values as JSON Schema. They throw for a dialect or type without JSON Schema. */
  readonly jsonSchema?:
    { readonly [D in Direction]: (options: StandardTarget) => Readonly<Record<string, unknown>> } | undefined;
}
/**
 * A schema of any library, such as zod 4, valibot or arktype, with the interface Standard Schema version 1
 * (https://standardschema.dev).
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': StandardProps<Input, Output>;
}

/** Whether a value has the member `~standard`. Functions may have it, too. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  return isRecord((value as { readonly '~standard'?: unknown })['~standard']);
}

/** The properties of an uploaded file that a schema checks. `size` is in bytes. */
export interface FileLike {
  readonly filename: string;
  readonly contentType: string;
  readonly size: number;
}

/** Options for saving a file. */
export interface SaveOptions {
  /** Whether an existing file is replaced. Default false, which throws `E_UPLOAD_EXISTS`. */
  readonly overwrite?: boolean | undefined;
}

/**
 * A file from a form. It is removed after the request and its background tasks; reading it later throws
 * `E_UPLOAD_GONE`.
 */
export interface UploadFile extends FileLike {
  /** Name of the form field. */
  readonly name: string;
  /**
   * File name given by the client, for display: the last path segment, without control characters; may be
   * empty. Do not use it as a path.
   */
  readonly filename: string;
  /** Media type given by the client. It may be wrong, so check the bytes if it matters. */
  readonly contentType: string;
  /** Size in bytes. */
  readonly size: number;
  /** Returns the content in chunks; can be called again. */
  stream(): AsyncIterable<Uint8Array>;
  /** Returns the whole content. Not for large files, because the content is held in memory. */
  bytes(): Promise<Uint8Array>;
  /**
   * Saves the file as `path`, whose folder must exist. The saved file is complete or absent. The process's
   * umask decides its permissions.
   *
   * If `uploadDirectory` is on the file system of `path`, and the form has no other file on disk, the first
   * call moves the file. Otherwise it is copied. The upload stays readable; do not change a moved file meanwhile.
   *
   * @throws SvcError `E_UPLOAD_EXISTS`, HTTPException 507 when the disk is full, or other errors of
   * the file system
   */
  save(path: string, options?: SaveOptions): Promise<void>;
}

/**
 * Native constructors that stand for a type, such as `String`. Only their prototypes are declared, so that
 * the compiler reports any other class that does not extend Schema.
 */
interface NativeType {
  readonly prototype: String | Number | Boolean | Date;
}
/**
 * The ways to name a type: a type of this module, a schema class, a native constructor, or a schema of another
 * library. `Number` is {@link float}, `Date` is {@link datetime}.
 */
export type TypeSource = NativeType | FieldType<unknown, object> | SchemaClass | StandardSchema;
/** First argument of `Field()`: a type, or a default, which also gives the type. */
export type FieldSource = TypeSource | string | number | boolean;
/**
 * Makes `Field('string')` a compile error with an explanation, because `'string'` would be a default, not a
 * type.
 */
export type CheckedSource<S> = S extends 'string' | 'number' | 'boolean' | 'integer' | 'object' | 'array'
  ? `'${S}' would be the default of a text: write Field(str), Field(float), Field(bool), …, or Field(str, { default: '${S}' })`
  : S;

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
  /** Digits of a decimal, and how many of them are after the point. */
  readonly digits?: number;
  readonly places?: number;
  /** Whether white space at both ends of a text is removed. */
  readonly trim?: boolean;
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

/** The kind of a type, and the types and options inside it. */
type Shape =
  | { readonly kind: ScalarKind }
  | { readonly kind: 'list' | 'record'; readonly item: TypeSource; readonly options: object | undefined }
  | { readonly kind: 'nullable'; readonly inner: TypeSource }
  | { readonly kind: 'literal'; readonly values: readonly Literal[] }
  | { readonly kind: 'union'; readonly tag: string; readonly members: readonly SchemaClass[] }
  | { readonly kind: 'choice' | 'tuple'; readonly members: readonly TypeSource[] }
  | { readonly kind: 'lazy'; readonly get: () => TypeSource };

/**
 * A type of values, such as `str` or `list(int)`. Only the functions and constants of this module make one.
 */
export class FieldType<out T, out O extends object> {
  /** Only for the compiler, never set: the TypeScript type of the values. */
  declare readonly '~value': T;
  /** Only for the compiler, never set: the options that a field of this type accepts. */
  declare readonly '~options': O;
  readonly shape: Shape;

  constructor(shape: Shape) {
    this.shape = shape;
  }
}

/** The types of a foreign schema: of the values before and after its validation. */
interface Typed<I, O> {
  readonly '~standard': { readonly types?: { readonly input: I; readonly output: O } | undefined };
}
/** Any schema class. {@link Infer} tests it first, because most types of routes are classes. */
interface AnySchemaClass {
  readonly '~schema': true;
}
/** TypeScript type of the values of a type, a schema class, a native constructor, or a default. */
export type Infer<S> = S extends AnySchemaClass
  ? InstanceOf<S>
  : S extends { readonly '~value': infer T }
    ? T
    : S extends string | StringConstructor
      ? string
      : S extends number | NumberConstructor
        ? number
        : S extends boolean | BooleanConstructor
          ? boolean
          : S extends DateConstructor
            ? Date
            : S extends Typed<unknown, infer T>
              ? T
              : InstanceOf<S>;
type InstanceOf<S> = S extends new (data: never) => infer I ? I : never;

/** Dates of the deprecation of a route or field. Each is `2026-01-31`, an RFC 3339 date-time, or a Date. */
export interface Deprecation {
  /** Time from which on clients should not use the route or field; may be in the future. */
  readonly since: string | Date;
  /** Time at which the route or field stops working. Not before `since`. */
  readonly sunset?: string | Date | undefined;
  /** Address of a page that explains the deprecation. */
  readonly link?: string | undefined;
}

/** Options that describe a field in API documents. */
interface DescriptiveOptions<T> {
  /** Short name for API documents. */
  readonly title?: string | undefined;
  /** Meaning for API documents, in Markdown. */
  readonly description?: string | undefined;
  /** Example in API documents, as a handler has it: a `Date` for a `datetime`. It is never used as a value. */
  readonly example?: T | undefined;
  /** Further examples. */
  readonly examples?: readonly T[] | undefined;
  /**
   * Whether API documents mark the field as deprecated. Default false. With dates, responses to requests that
   * use the field have the header fields `Deprecation`, `Sunset` and `Link`.
   */
  readonly deprecated?: boolean | Deprecation | undefined;
  /** Name in requests and responses. Default: the name of the member. */
  readonly alias?: string | undefined;
  /**
   * Whether the value is secret. It is never serialised, `inspect()` shows `[secret]`, and a response that
   * contains it is refused. Default false.
   */
  readonly secret?: boolean | undefined;
}
/** The options of every field with values of type `T`. The type of the field adds more. */
export interface FieldOptions<T> extends DescriptiveOptions<T> {
  /**
   * Value for an input without this member. Objects and arrays need a function, which is called once per
   * instance.
   */
  readonly default?: T | (() => T) | undefined;
}
/** Options of strings. Lengths are in Unicode code points, as in JSON Schema. */
export interface TextOptions {
  /** Texts: least number of characters (code points). */
  readonly minLength?: number | undefined;
  /** Texts: largest number of characters (code points). */
  readonly maxLength?: number | undefined;
  /**
   * Pattern that must match somewhere in the text, so anchor the pattern: `^...$`. A pattern given as text,
   * or as a RegExp without flags, gets the flag `u`.
   */
  readonly pattern?: string | RegExp | undefined;
  /** Whether white space at both ends is removed, before all other options apply. Default false. */
  readonly trim?: boolean | undefined;
  /** Short form of `format: 'email'`. */
  readonly email?: boolean | undefined;
  /**
   * Format that the text must have: `email`, `uuid`, `date`, `date-time`, `time`, `uri`, `hostname`, `ipv4` or
   * `ipv6`. The OpenAPI document names it.
   */
  readonly format?: FormatName | undefined;
}
/** Options of numbers: inclusive and exclusive bounds. */
export interface NumberOptions {
  /** Least value, included. */
  readonly ge?: number | undefined;
  /** Largest value, included. */
  readonly le?: number | undefined;
  /** Lower bound, excluded. */
  readonly gt?: number | undefined;
  /** Upper bound, excluded. */
  readonly lt?: number | undefined;
  /** The value must be a multiple of this number, which is greater than 0. */
  readonly multipleOf?: number | undefined;
}
/** Options of decimals, as in a column of the type `numeric(digits, places)`. */
export interface DecimalOptions {
  /** Number of digits before and after the point: 1 … 1000. Default 18. */
  readonly digits?: number | undefined;
  /** Number of digits after the point: 0 … `digits`. Default 2. */
  readonly places?: number | undefined;
}
/** Limits for the number of list items, of record members, or of bytes in `bytes` and `file`. */
export interface CountOptions {
  /** Lists, records, bytes and files: least number of items, members or bytes. */
  readonly minLength?: number | undefined;
  /** Lists, records, bytes and files: largest number of items, members or bytes. */
  readonly maxLength?: number | undefined;
}
/** Options of lists. */
export interface ListOptions extends CountOptions {
  /** Whether all items must differ from each other when written as JSON. Default false. */
  readonly unique?: boolean | undefined;
  /**
   * With `','`, one text in a query, cookie or form may contain several items: `?ids=1,2,3`. Then an item
   * cannot contain a comma, and empty text has no items. Headers always accept commas (RFC 9110 §5.6.1); a
   * comma in a quoted string separates no items.
   */
  readonly separator?: ',' | undefined;
}
/** Options of files. Lengths are in bytes. Content after the first `maxLength` bytes is discarded. */
export interface FileFieldOptions extends CountOptions {
  /**
   * Media types that the client may declare: `['image/png', 'image/*']`. A client may declare a wrong type,
   * so check the bytes if it matters.
   */
  readonly contentTypes?: readonly string[] | undefined;
}
/** Options of types that have no constraints. */
export type PlainOptions = Record<never, never>;

/** Constraints that a field of the type `S` accepts. */
type ConstraintsOf<S> = S extends { readonly '~options': infer O }
  ? O
  : S extends string | StringConstructor
    ? TextOptions
    : S extends number | NumberConstructor
      ? NumberOptions
      : PlainOptions;
/** Options of `Field(source, ...)`. If `source` is a default, there is no option `default`. */
export type OptionsOf<S> = ConstraintsOf<S> &
  (S extends string | number | boolean ? DescriptiveOptions<Infer<S>> : FieldOptions<Infer<S>>);
type ItemOptions<S> = ConstraintsOf<S> &
  Pick<DescriptiveOptions<Infer<S>>, 'title' | 'description' | 'example' | 'examples' | 'deprecated'>;

/** A string without lone surrogates, which neither UTF-8 nor databases can store. */
export const str: FieldType<string, TextOptions> = new FieldType({ kind: 'str' });
/** An integer from -(2^53 - 1) to 2^53 - 1. */
export const int: FieldType<number, NumberOptions> = new FieldType({ kind: 'int' });
/** A finite number. */
export const float: FieldType<number, NumberOptions> = new FieldType({ kind: 'float' });
/**
 * A decimal number without rounding, such as an amount of money: text such as `-12.50`, kept as it was written. A
 * JSON number is refused, because programs round such numbers.
 */
export const decimal: FieldType<string, DecimalOptions> = new FieldType({ kind: 'decimal' });
/**
 * `true` or `false`. Queries, headers, cookies and forms accept `true`, `false`, `1` and `0`. Forms also
 * accept `on`, which a ticked box sends.
 */
export const bool: FieldType<boolean, PlainOptions> = new FieldType({ kind: 'bool' });
/**
 * Any JSON value, at most 64 levels deep. In a query or form, the value is text, or a list of texts if the
 * name is repeated.
 */
export const any: FieldType<unknown, PlainOptions> = new FieldType({ kind: 'any' });
/**
 * A point in time as a Date. In JSON, it is text in the form of RFC 3339 §5.6 with an offset, years 0000 ...
 * 9999 in UTC. Digits beyond milliseconds are cut off.
 */
export const datetime: FieldType<Date, PlainOptions> = new FieldType({ kind: 'datetime' });
/** A day of the calendar as `YYYY-MM-DD`: a string, because a Date also has a time of day. */
export const date: FieldType<string, PlainOptions> = new FieldType({ kind: 'date' });
/** A UUID of any version in its text form (RFC 9562 §4), kept as it was written. */
export const uuid: FieldType<string, PlainOptions> = new FieldType({ kind: 'uuid' });
/**
 * Bytes. In JSON, they are base64 text with `+ / =` (RFC 4648 §4). Padding is required; white space and
 * base64url are refused.
 */
export const bytes: FieldType<Uint8Array, CountOptions> = new FieldType({ kind: 'bytes' });
/**
 * An uploaded file, which only a multipart form can contain. `minLength` and `maxLength` limit its size in
 * bytes.
 */
export const file: FieldType<UploadFile, FileFieldOptions> = new FieldType({ kind: 'file' });

/** A list. `itemOptions` constrain each item; the options of the field constrain the number of items. */
export function list<S extends TypeSource>(
  item: S,
  itemOptions?: ItemOptions<S>,
): FieldType<Infer<S>[], ListOptions> {
  return new FieldType({ kind: 'list', item, options: itemOptions });
}
/**
 * An object with any member names. `valueOptions` constrain each value; the options of the
 * field constrain the number of members.
 */
export function record<S extends TypeSource>(
  value: S,
  valueOptions?: ItemOptions<S>,
): FieldType<Record<string, Infer<S>>, CountOptions> {
  return new FieldType({ kind: 'record', item: value, options: valueOptions });
}
/** The type `inner`, or `null`. The options of the field constrain the inner type. */
export function nullable<S extends TypeSource>(inner: S): FieldType<Infer<S> | null, ConstraintsOf<S>> {
  return new FieldType({ kind: 'nullable', inner });
}
/**
 * One of the given values. In a query or form, the text of the value is compared: `literal(1)` accepts
 * `?page=1`.
 */
export function literal<const V extends readonly [Literal, ...Literal[]]>(
  ...values: V
): FieldType<V[number], PlainOptions> {
  return new FieldType({ kind: 'literal', values });
}
/** One of several schemas, distinguished by the literal field `tag`, which each schema declares. */
export function union<
  K extends string,
  M extends readonly [SchemaClass<{ [P in K]: Literal }>, ...SchemaClass<{ [P in K]: Literal }>[]],
>(tag: K, ...members: M): FieldType<InstanceType<M[number]>, PlainOptions>;
/**
 * One of several types: the first one that accepts the value is used. A union with a tag gives clearer errors
 * and is faster.
 */
export function union<M extends readonly [TypeSource, TypeSource, ...TypeSource[]]>(
  ...members: M
): FieldType<Infer<M[number]>, PlainOptions>;
export function union(...given: readonly unknown[]): FieldType<unknown, PlainOptions> {
  const [tag, ...members] = given;
  return new FieldType(
    typeof tag === 'string'
      ? { kind: 'union', tag, members: members as readonly SchemaClass[] }
      : { kind: 'choice', members: given as readonly TypeSource[] },
  );
}
/** A list of a fixed length with a type for each item: `tuple(float, float)`. */
export function tuple<const M extends readonly [TypeSource, ...TypeSource[]]>(
  ...members: M
): FieldType<{ -readonly [K in keyof M]: Infer<M[K]> }, PlainOptions> {
  return new FieldType({ kind: 'tuple', members });
}
/**
 * A type that is looked up on first use: for schemas that contain themselves or each other. Such a member
 * needs a type annotation.
 */
export function lazy<S extends TypeSource>(get: () => S): FieldType<Infer<S>, ConstraintsOf<S>> {
  return new FieldType({ kind: 'lazy', get });
}

type Eq<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/**
 * Any function. This is an interface, because the compiler would instantiate a function type for each member.
 */
interface AnyFunction {
  (...args: never[]): unknown;
}
type Fields<T> = { [K in keyof T]-?: T[K] extends AnyFunction ? never : K }[keyof T];
/**
 * Whether a type has no read-only members, such as getters. One test of the whole type compiles faster than a
 * test of each member.
 */
export type IsWritable<T> = Eq<{ [K in keyof T]: 1 }, { -readonly [K in keyof T]: 1 }>;
/** Whether a type has no read-only and no undefined members. Then {@link Wire} need not test each member. */
type IsPlain<T> = T extends { [K in keyof T]: {} | null } ? IsWritable<T> : false;
/** Names of optional members and getters. */
type Loose<T> = {
  [K in Fields<T>]-?: undefined extends T[K]
    ? K
    : IsWritable<T> extends true
      ? never
      : IsWritable<Pick<T, K>> extends true
        ? never
        : K;
}[Fields<T>];
/**
 * Type of a value that a handler may return for a schema with values of the type `T`. It has the schema's fields without methods.
 * Optional fields and getters may be absent. `unknown` stays `unknown`.
 */
export type Wire<T> = unknown extends T
  ? T
  : T extends string | number | boolean | bigint | Date | Uint8Array | null | undefined
    ? T
    : T extends readonly unknown[]
      ? { readonly [K in keyof T]: Wire<T[K]> }
      : IsPlain<T> extends true
        ? { [K in Fields<T>]: Wire<T[K]> }
        : { [K in Exclude<Fields<T>, Loose<T>>]: Wire<T[K]> } & { [K in Loose<T>]?: Wire<T[K]> };
/**
 * Type of a value that a handler may return for a declared type. A schema of another library validates the
 * value, so it is the type before the validation.
 */
export type Returned<S> = S extends AnySchemaClass
  ? Wire<Infer<S>> | Infer<S>
  : S extends Typed<infer I, unknown>
    ? I
    : Wire<Infer<S>> | Infer<S>;
/** {@link Returned} without the instances of schema classes, for error messages. */
export type WireOf<S> = S extends AnySchemaClass
  ? Wire<Infer<S>>
  : S extends Typed<infer I, unknown>
    ? I
    : Wire<Infer<S>>;
