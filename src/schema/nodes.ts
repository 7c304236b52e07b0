/**
 * Nodes: the form in which all modules use types. A type such as `list(str)` with its options is a node; a call
 * of `Field()` is a {@link FieldPlan}. declarations.ts makes them, and kinds.ts says how each kind of node works.
 *
 * The node of a schema class holds a function that returns the compiled class, because classes may refer to
 * each other.
 */
import type { OptionKind } from '../base/options.ts';
import type {
  Constraints,
  Deprecation,
  Extra,
  FieldType,
  Literal,
  ScalarKind,
  SchemaClass,
  StandardSchema,
  TypeSource,
} from './types.ts';
import type { Check, Plain } from './validation-run.ts';

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
/**
 * A parsed type with its constraints. `kind` says which type it is. A node of the kind `standard` may stand for
 * one member of the object that the foreign schema describes.
 */
export type TypeNode =
  | (Node & { readonly kind: ScalarKind })
  | (Node & { readonly kind: 'list' | 'record'; readonly item: TypeNode })
  | (Node & { readonly kind: 'nullable'; readonly inner: TypeNode })
  | (Node & { readonly kind: 'choice' | 'tuple'; readonly members: readonly TypeNode[] })
  | (Node & { readonly kind: 'literal'; readonly values: readonly Literal[] })
  | (Node & { readonly kind: 'union'; readonly tag: string; readonly variants: () => readonly Variant[] })
  | (Node & { readonly kind: 'lazy'; readonly resolve: () => TypeNode })
  | (Node & { readonly kind: 'standard'; readonly schema: StandardSchema; readonly member?: string })
  | (Node & { readonly kind: 'object'; readonly schema: SchemaClass; readonly plan: () => ObjectPlan });
export type KindName = TypeNode['kind'];
export type NodeOf<K extends KindName> = TypeNode & { readonly kind: K };

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

/** Returns all examples of a field; the single `example` comes first. */
export function examplesOf({ example, examples = [] }: About): readonly unknown[] {
  return example === undefined ? examples : [example, ...examples];
}

/** Removes `nullable` and `lazy` wrappers. Returns the type inside, and whether a wrapper was `nullable`. */
export function within(node: TypeNode): { readonly node: TypeNode; readonly isNullable: boolean } {
  if (node.kind === 'nullable') return { node: within(node.inner).node, isNullable: true };
  return node.kind === 'lazy' ? within(node.resolve()) : { node, isNullable: false };
}

/*
 * The form of a row in the table of kinds (kinds.ts). A row says everything about one kind of type: how it is
 * declared, how each source of values reads it, how responses write it, and how documents describe it.
 *
 * Sources differ in the forms of a value:
 *   - json: a JSON document. No conversion.
 *   - text: one text of a query, header, cookie or form. `texts` are all texts of one name.
 *   - part: a value inside JSON in a column of a database. `column` is the whole column.
 *   - output: the result of a handler, which becomes JSON.
 */

/** A JSON Schema document or a part of one. */
export type JsonSchema = { [keyword: string]: unknown };
/** Definitions of options by name. */
export type OptionTable = Readonly<Record<string, OptionKind<unknown>>>;

/** A source of values. Each has its own entry in a row; without the entry, `json` applies. */
export type Source = 'json' | 'text' | 'part' | 'output';

/**
 * Types for which text in a column is parsed as JSON: `none` if the driver has parsed all JSON, so that text is
 * a value of its own; `structures` if expressions may return JSON as text; `all` if JSON is always text.
 */
export type JsonText = 'none' | 'structures' | 'all';

/** The kind of a declared type, and the types and options inside it. */
export type Shape =
  | FieldType<unknown, object>['shape']
  | { readonly kind: 'object'; readonly schema: SchemaClass }
  | { readonly kind: 'standard'; readonly schema: StandardSchema };
type ShapeOf<K extends KindName> = Shape & { readonly kind: K };

/** Reads the types inside a declared type. */
export interface Reader {
  readonly constraints: Constraints;
  node(source: TypeSource, constraints?: Constraints): TypeNode;
  /** Reads the type of list items or record values, whose options are `options`. */
  item(source: TypeSource, options: object | undefined): TypeNode;
  plan(schema: SchemaClass): ObjectPlan;
  /** Returns the error `E_SCHEMA_FIELD` about the declaration. */
  fault(problem: string): Error;
}

/** Compiles the types inside a type for one source. */
export interface Compiler {
  check(node: TypeNode): Check;
  /** Returns the check for JSON, without the conversions of the source. */
  json(node: TypeNode): Check;
  plain(node: TypeNode): Plain;
}

/** Describes the types inside a type, for input or for output. */
export interface Documents {
  /** Whether the document is for OpenAPI, which has keywords and formats of its own. */
  readonly isOpenApi: boolean;
  type(node: TypeNode): JsonSchema;
  object(plan: ObjectPlan): JsonSchema;
  union(node: NodeOf<'union'>): JsonSchema;
  lazy(node: NodeOf<'lazy'>): JsonSchema;
  standard(node: NodeOf<'standard'>): JsonSchema;
}

/** A row of the table: one kind of type. Entries that are absent have the usual meaning. */
export interface Kind<K extends KindName> {
  /** Options of `Field()` in addition to those of every field. */
  readonly options?: OptionTable;
  /** Makes the node of a declared type. Default: a node without other types inside. */
  read?(shape: ShapeOf<K>, of: Reader): NodeOf<K>;
  /** Returns a value for initializers that run while a class is constructed to learn its fields. */
  sample(shape: ShapeOf<K>, of: (source: TypeSource) => unknown): unknown;
  /** Returns the types directly inside the type, except schema classes. Default: none. */
  inner?(node: NodeOf<K>): readonly TypeNode[];
  /** Returns the compiled schema classes of the type. Default: none. */
  plans?(node: NodeOf<K>): readonly ObjectPlan[];
  /** Whether empty text is a value of the type. Default: true if a type inside it takes empty text. */
  takesEmpty?(node: NodeOf<K>): boolean;
  /** Values of the type that are accepted without its check. Default: none. */
  plain?(node: NodeOf<K>): Plain;
  json(node: NodeOf<K>, of: Compiler): Check;
  text?(node: NodeOf<K>, of: Compiler): Check;
  /** Check of all texts of one name. Default: the check `text`, and only one text. */
  texts?(node: NodeOf<K>, of: Compiler): Check;
  /** Returns the reason why text cannot hold the type. Default: the reason of a type inside it. */
  textIssue?(node: NodeOf<K>, isForm: boolean): string | undefined;
  part?(node: NodeOf<K>, of: Compiler): Check;
  /** Check of a whole column. Default: the check `part`. */
  column?(node: NodeOf<K>, of: Compiler): Check;
  /** Columns that may hold the value as JSON text. Default: none. */
  readonly jsonText?: Exclude<JsonText, 'none'>;
  output?(node: NodeOf<K>, of: Compiler): Check;
  /** Returns the JSON Schema of the type, without its description. */
  document(node: NodeOf<K>, of: Documents): JsonSchema;
}

/** A table of rows, by the names of their kinds. */
export type Rows<K extends KindName> = { readonly [N in K]: Kind<N> };
