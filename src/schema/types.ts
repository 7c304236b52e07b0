/**
 * The vocabulary of schemas: type tokens (`str`, `list(t)` ...), the options each of them takes, and what both mean to TypeScript.
 *
 *   FieldType<T, O>   a token: values of T, declared with the options O; both exist for the compiler only
 *   Infer<S>          what a token, a schema class, a native constructor or a default stands for
 *   Wire<T>           what a handler may return for `response: S`
 *
 * Nothing is checked here: tokens are made again whenever an instance is constructed, so they are two small objects each.
 */

/** A value that {@link literal} can name. */
export type Literal = string | number | boolean | null;
/** The kinds of value without parts. */
export type ScalarKind =
  'str' | 'int' | 'float' | 'bool' | 'datetime' | 'date' | 'uuid' | 'bytes' | 'file' | 'any';
/** Formats of strings, each as JSON Schema 2020-12 §7.3 means it. */
export type FormatName =
  'email' | 'uuid' | 'date' | 'date-time' | 'time' | 'uri' | 'hostname' | 'ipv4' | 'ipv6';
/** What becomes of members that a schema does not declare: dropped (default), refused, or kept as own data members. */
export type Extra = 'ignore' | 'forbid' | 'allow';

/** What a check returns instead of a value. */
export const FAIL: unique symbol = Symbol('fail');

/** The constructor of a schema: any class that extends `Schema`. */
export interface SchemaClass<T extends object = object> {
  new (data: never): T;
  readonly name: string;
  /** Marks the class side of `Schema`; never set by hand. */
  readonly '~schema': true;
}

/** Whether a value is a class that extends `Schema`. */
export function isSchemaClass(value: unknown): value is SchemaClass {
  return typeof value === 'function' && (value as Partial<SchemaClass>)['~schema'] === true;
}

/** A file of a multipart form, as far as a schema looks at it. `size` is in bytes. */
export interface FileLike {
  readonly filename: string;
  readonly contentType: string;
  readonly size: number;
}

/** How a file is saved. */
export interface SaveOptions {
  /** Whether a file that is there already is replaced. Default false: `E_UPLOAD_EXISTS`. */
  readonly overwrite?: boolean | undefined;
}

/** A file that came with a form. It is there until its request is over, background tasks included; then reading it is `E_UPLOAD_GONE`. */
export interface UploadFile extends FileLike {
  /** The field that it came in. */
  readonly name: string;
  /** What the client calls it, for people to read: its last segment, without control characters; may be empty. Not a path to save to. */
  readonly filename: string;
  /** What the client says it is. Whoever depends on it looks at the bytes. */
  readonly contentType: string;
  /** Bytes. */
  readonly size: number;
  /** Its content in pieces; can be called again. */
  stream(): AsyncIterable<Uint8Array>;
  /** Its content in memory: not for large files. */
  bytes(): Promise<Uint8Array>;
  /**
   * Copies it to `path`, whose folder exists: written under another name beside it and put there whole, or not at all. The
   * process's umask decides who may read it. @throws SvcError `E_UPLOAD_EXISTS`, or what the file system says
   */
  save(path: string, options?: SaveOptions): Promise<void>;
}

/** `String`, `Number`, `Boolean` or `Date`. Without what they construct: for another class the compiler says that it does not extend Schema. */
interface NativeType {
  readonly prototype: String | Number | Boolean | Date;
}
/** What may stand where a type is expected. `Number` is {@link float}, `Date` is {@link datetime}. */
export type TypeSource = NativeType | FieldType<unknown, object> | SchemaClass;
/** What `Field()` takes first: a type (required), or a default, which is the type too. */
export type FieldSource = TypeSource | string | number | boolean;
/** `S`, or a sentence for the name of a type, which would be a default. */
export type CheckedSource<S> = S extends 'string' | 'number' | 'boolean' | 'integer' | 'object' | 'array'
  ? `'${S}' would be the default of a text: write Field(str), Field(float), Field(bool), …, or Field(str, { default: '${S}' })`
  : S;

/** How a token is put together. */
type Shape =
  | { readonly kind: ScalarKind }
  | { readonly kind: 'list' | 'record'; readonly item: TypeSource; readonly options: object | undefined }
  | { readonly kind: 'nullable'; readonly inner: TypeSource }
  | { readonly kind: 'literal'; readonly values: readonly Literal[] }
  | { readonly kind: 'union'; readonly tag: string; readonly members: readonly SchemaClass[] }
  | { readonly kind: 'choice' | 'tuple'; readonly members: readonly TypeSource[] }
  | { readonly kind: 'lazy'; readonly get: () => TypeSource };

/** A type token. Made by the functions and constants below only. */
export class FieldType<out T, out O extends object> {
  /** For the compiler only: the type of the value. */
  declare readonly '~value': T;
  /** For the compiler only: the options of a field of this type. */
  declare readonly '~options': O;
  readonly shape: Shape;

  constructor(shape: Shape) {
    this.shape = shape;
  }
}

/** The value of a token, a schema class, a native constructor, or a default. */
export type Infer<S> = S extends { readonly '~value': infer T }
  ? T
  : S extends string | StringConstructor
    ? string
    : S extends number | NumberConstructor
      ? number
      : S extends boolean | BooleanConstructor
        ? boolean
        : S extends DateConstructor
          ? Date
          : S extends new (data: never) => infer I
            ? I
            : never;

/** What every field may say about itself. */
interface DescriptiveOptions<T> {
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  /** Shown in documents; never used as a value. */
  readonly example?: T | undefined;
  /** Further examples. */
  readonly examples?: readonly T[] | undefined;
  /** Documents say that clients should not use it any more. Default false. */
  readonly deprecated?: boolean | undefined;
  /** The name on the wire, for input and output alike. Default: the member's own name. */
  readonly alias?: string | undefined;
  /** Never serialised, never printed: inspect() shows `[secret]`, a reply that holds it is refused. Default false. */
  readonly secret?: boolean | undefined;
}
/** The options of any field of type `T`, besides those of its kind. */
export interface FieldOptions<T> extends DescriptiveOptions<T> {
  /** Used when the input has no such member; objects and arrays as a function, called once per instance. */
  readonly default?: T | (() => T) | undefined;
}
/** Strings. Lengths are in Unicode code points, as in JSON Schema. */
export interface TextOptions {
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  /** Must match somewhere, so anchor it: `^...$`. Text, and a RegExp without flags, are read with the flag `u`. */
  readonly pattern?: string | RegExp | undefined;
  /** The same as `format: 'email'`. */
  readonly email?: boolean | undefined;
  readonly format?: FormatName | undefined;
}
/** Numbers: inclusive and exclusive bounds. */
export interface NumberOptions {
  readonly ge?: number | undefined;
  readonly le?: number | undefined;
  readonly gt?: number | undefined;
  readonly lt?: number | undefined;
  /** Greater than 0. */
  readonly multipleOf?: number | undefined;
}
/** Whatever is counted: items of a list, members of a record, bytes of `bytes` and `file`. */
export interface CountOptions {
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
}
/** Lists. */
export interface ListOptions extends CountOptions {
  /** No two items are equal, as JSON has them. Default false. */
  readonly unique?: boolean | undefined;
  /**
   * Also takes items with commas between them in texts: `?ids=1,2,3` beside `?ids=1&ids=2&ids=3`, in a query, a cookie and a form. An
   * item cannot hold a comma then; an empty text has no items. Headers take commas without it (RFC 9110 §5.6.1).
   */
  readonly separator?: ',' | undefined;
}
/** Files: lengths are in bytes; what is beyond `maxLength` is read over, and not kept. */
export interface FileFieldOptions extends CountOptions {
  /** The types that the client may say it is: `['image/png', 'image/*']`. It may lie: look at the bytes before you depend on it. */
  readonly contentTypes?: readonly string[] | undefined;
}
/** Kinds without constraints. */
export type PlainOptions = Record<never, never>;

/** The constraints that the kind of `S` takes. */
type ConstraintsOf<S> = S extends { readonly '~options': infer O }
  ? O
  : S extends string | StringConstructor
    ? TextOptions
    : S extends number | NumberConstructor
      ? NumberOptions
      : PlainOptions;
/** The options of `Field(source, ...)`: a field that starts with its default takes no second one. */
export type OptionsOf<S> = ConstraintsOf<S> &
  (S extends string | number | boolean ? DescriptiveOptions<Infer<S>> : FieldOptions<Infer<S>>);
/** The options of an item: constraints and description, nothing about its presence. */
type ItemOptions<S> = ConstraintsOf<S> &
  Pick<DescriptiveOptions<Infer<S>>, 'title' | 'description' | 'example' | 'examples' | 'deprecated'>;

/** A string without lone surrogates, which neither UTF-8 nor a database can hold. */
export const str: FieldType<string, TextOptions> = new FieldType({ kind: 'str' });
/** An integer of ±(2^53 - 1). */
export const int: FieldType<number, NumberOptions> = new FieldType({ kind: 'int' });
/** A finite number. */
export const float: FieldType<number, NumberOptions> = new FieldType({ kind: 'float' });
/** `true` or `false`; in text `true false 1 0`, and in forms `on`, which a ticked box sends. */
export const bool: FieldType<boolean, PlainOptions> = new FieldType({ kind: 'bool' });
/** Any JSON value, at most 64 levels deep. In text sources the text, or a list of texts when it is repeated. */
export const any: FieldType<unknown, PlainOptions> = new FieldType({ kind: 'any' });
/** A moment as a Date: RFC 3339 §5.6 with an offset, years 0000 ... 9999 in UTC; digits beyond milliseconds are cut off. */
export const datetime: FieldType<Date, PlainOptions> = new FieldType({ kind: 'datetime' });
/** A day of the calendar as `YYYY-MM-DD`: a string, because a Date would invent a time and a zone. */
export const date: FieldType<string, PlainOptions> = new FieldType({ kind: 'date' });
/** A UUID of any version in its text form (RFC 9562 §4), kept as it was written. */
export const uuid: FieldType<string, PlainOptions> = new FieldType({ kind: 'uuid' });
/** Bytes; on the wire base64 with `+ / =` (RFC 4648 §4), padding required, no white space. base64url is refused. */
export const bytes: FieldType<Uint8Array, CountOptions> = new FieldType({ kind: 'bytes' });
/** A file part of a multipart form; valid in no other source. `minLength`/`maxLength` bound its size in bytes. */
export const file: FieldType<UploadFile, FileFieldOptions> = new FieldType({ kind: 'file' });

/** A list; `itemOptions` constrain each item, the options of the field the number of items. */
export function list<S extends TypeSource>(
  item: S,
  itemOptions?: ItemOptions<S>,
): FieldType<Infer<S>[], ListOptions> {
  return new FieldType({ kind: 'list', item, options: itemOptions });
}
/** An object with any member names but `__proto__`; `valueOptions` constrain each value, the options of the field their number. */
export function record<S extends TypeSource>(
  value: S,
  valueOptions?: ItemOptions<S>,
): FieldType<Record<string, Infer<S>>, CountOptions> {
  return new FieldType({ kind: 'record', item: value, options: valueOptions });
}
/** The type, or `null`. The options of the field constrain the type within. */
export function nullable<S extends TypeSource>(inner: S): FieldType<Infer<S> | null, ConstraintsOf<S>> {
  return new FieldType({ kind: 'nullable', inner });
}
/** One of the values named. In text sources each is compared with its text. */
export function literal<const V extends readonly [Literal, ...Literal[]]>(
  ...values: V
): FieldType<V[number], PlainOptions> {
  return new FieldType({ kind: 'literal', values });
}
/** One of several schemas, distinguished by the literal field `tag` that each of them declares. */
export function union<
  K extends string,
  M extends readonly [SchemaClass<{ [P in K]: Literal }>, ...SchemaClass<{ [P in K]: Literal }>[]],
>(tag: K, ...members: M): FieldType<InstanceType<M[number]>, PlainOptions>;
/** One of several types: the first that a value fits. A union with a tag has clearer errors, and costs less. */
export function union<M extends readonly [TypeSource, TypeSource, ...TypeSource[]]>(
  ...members: M
): FieldType<Infer<M[number]>, PlainOptions>;
export function union(...given: readonly unknown[]): FieldType<unknown, PlainOptions> {
  const [tag, ...members] = given;
  return new FieldType(
    typeof tag === 'string'
      ? { kind: 'union', tag, members: members as readonly SchemaClass[] } // read when it is compiled
      : { kind: 'choice', members: given as readonly TypeSource[] },
  );
}
/** A list of a fixed length, each item of a type of its own: `tuple(float, float)`. */
export function tuple<const M extends readonly [TypeSource, ...TypeSource[]]>(
  ...members: M
): FieldType<{ -readonly [K in keyof M]: Infer<M[K]> }, PlainOptions> {
  return new FieldType({ kind: 'tuple', members });
}
/** A type that is looked up when it is first used: for schemas that contain themselves, or each other. Annotate such a member. */
export function lazy<S extends TypeSource>(get: () => S): FieldType<Infer<S>, ConstraintsOf<S>> {
  return new FieldType({ kind: 'lazy', get });
}

type Eq<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Fields<T> = { [K in keyof T]-?: T[K] extends (...a: never[]) => unknown ? never : K }[keyof T];
/** Whether no member is read-only, as getters are. Asked of the whole: of each member it is the dearest part of {@link Wire}. */
export type IsWritable<T> = Eq<T, { -readonly [K in keyof T]: T[K] }>;
type Loose<T, W = IsWritable<T>> = {
  [K in Fields<T>]-?: undefined extends T[K]
    ? K
    : W extends true
      ? never
      : Eq<Pick<T, K>, { -readonly [P in K]: T[P] }> extends true
        ? never
        : K;
}[Fields<T>]; // optional, and getters
/** What a handler may return for a schema: its fields without methods; optional ones and getters may be left out. `unknown` stays `unknown`. */
export type Wire<T> = unknown extends T
  ? T
  : T extends string | number | boolean | bigint | Date | Uint8Array | null | undefined
    ? T
    : T extends readonly unknown[]
      ? { readonly [K in keyof T]: Wire<T[K]> }
      : { [K in Exclude<Fields<T>, Loose<T>>]: Wire<T[K]> } & { [K in Loose<T>]?: Wire<T[K]> };
