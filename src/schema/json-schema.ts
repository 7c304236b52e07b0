/**
 * Schemas -> JSON Schema 2020-12, for OpenAPI 3.1 and MCP alike.
 *
 * What is published never refuses what the validators accept. Where JSON Schema can say it, it accepts nothing else either;
 * where it cannot, it is weaker: RegExp flags `i m s v`, lone surrogates, depth, bytes counted in base64, `__proto__`.
 *
 *   input    members with a default are optional; secret ones are `writeOnly`; read-only ones say only that, since they are passed over
 *   output   members with a default are required, for the serialiser fills them in; secret ones are not there
 */
import { defined } from '../base/options.ts';
import { plansOf, plansWithin } from './nodes.ts';
import type { About, Constraints, FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';
import { BASE64_PATTERN, FORMATS } from './formats.ts';
import { serializerOf } from './output.ts';
import type { Literal } from './types.ts';

/** A JSON Schema document or a part of one. */
export type JsonSchema = { [keyword: string]: unknown };
/** Whether values come in or go out. */
export type Direction = 'input' | 'output';

/** How documents are written. */
interface JsonSchemaOptions {
  /** Where the definitions will stand. Default `#/components/schemas/`. */
  readonly prefix?: string | undefined;
  /** Adds `discriminator` to tagged unions, which only OpenAPI knows. Default false. */
  readonly isOpenApi?: boolean | undefined;
}

interface Component {
  readonly base: string;
  readonly direction: Direction;
  /** Every `{ $ref }` to it, whose text is known at the end. */
  readonly refs: JsonSchema[];
  schema: JsonSchema;
}

/**
 * Collects the definitions that several schemas share. Names are given when `components()` is called, in order of first
 * use: `User`, `User2` for another class of that name, `UserOutput` where both directions are used and differ.
 */
export class JsonSchemas {
  readonly #prefix: string;
  readonly #isOpenApi: boolean;
  /** By plan or recursive type, then by direction; the same entry for both directions where they agree. */
  readonly #found = new Map<ObjectPlan | TypeNode, Map<Direction, Component>>();
  readonly #mappings: (() => void)[] = [];
  /** What has another name than its own, because that was taken: there once components() was called. */
  readonly renamed: Map<ObjectPlan | TypeNode, { readonly wanted: string; readonly name: string }> =
    new Map();
  #components: Readonly<Record<string, JsonSchema>> | undefined;

  constructor({ prefix = '#/components/schemas/', isOpenApi = false }: JsonSchemaOptions = {}) {
    this.#prefix = prefix;
    this.#isOpenApi = isOpenApi;
  }

  /** What is going to be defined by name, in order of first use. */
  get named(): ReadonlyMap<ObjectPlan | TypeNode, unknown> {
    return this.#found;
  }

  /** The schema of a type: a new object; its `$ref`s have their text once {@link components} was called. */
  type(node: TypeNode, direction: Direction): JsonSchema {
    return Object.assign(
      this.#bare(node, direction),
      node.about === undefined ? {} : described(node, node.about),
    );
  }

  /** The schema of one field, with what it says about itself. */
  field(field: FieldPlan, direction: Direction): JsonSchema {
    const about = field.isSecret ? { ...field.about, example: undefined } : field.about;
    if (field.isReadOnly && direction === 'input')
      return { ...described(field.node, { ...about, example: undefined }), readOnly: true };
    const schema = Object.assign(
      this.type(field.node, direction),
      isEmpty(about) ? undefined : described(field.node, about),
    );
    if (field.hasDefault && typeof field.default !== 'function' && !field.isSecret)
      schema['default'] = field.default;
    if (field.isSecret) schema['writeOnly'] = true;
    if (field.isReadOnly) schema['readOnly'] = true;
    return schema;
  }

  /** The schema of an object: a reference for a class, written out for a shape. */
  object(plan: ObjectPlan, direction: Direction): JsonSchema {
    if (plan.schema === undefined) return this.#members(plan, direction);
    return this.#reference(
      plan,
      plan.name,
      direction,
      () => this.#members(plan, direction),
      () => plansOf(plan),
    );
  }

  /** All definitions by name, none of which is among those `taken`. Nothing can be added afterwards. */
  components(taken: ReadonlySet<string> = new Set()): Readonly<Record<string, JsonSchema>> {
    return (this.#components ??= this.#named(taken));
  }

  #named(taken: ReadonlySet<string>): Readonly<Record<string, JsonSchema>> {
    const named: Record<string, JsonSchema> = {};
    for (const [key, byDirection] of this.#found) {
      const components = new Set(byDirection.values());
      for (const { base, direction, schema, refs } of components) {
        const wanted = components.size > 1 && direction === 'output' ? `${base}Output` : base;
        let name = wanted;
        for (let n = 2; Object.hasOwn(named, name) || taken.has(name); n++) name = `${wanted}${n}`;
        named[name] = schema;
        if (name !== wanted) this.renamed.set(key, { wanted, name });
        for (const ref of refs) ref['$ref'] = this.#prefix + name;
      }
    }
    for (const complete of this.#mappings) complete();
    return named;
  }

  #reference(
    key: ObjectPlan | TypeNode,
    name: string,
    direction: Direction,
    make: () => JsonSchema,
    within: () => ReadonlySet<ObjectPlan>,
  ): JsonSchema {
    if (this.#components !== undefined)
      throw new Error('JsonSchemas: components() has been called, nothing can be added');
    let byDirection = this.#found.get(key);
    if (byDirection === undefined) this.#found.set(key, (byDirection = new Map()));
    const [other] = byDirection.values();
    let component =
      byDirection.get(direction) ?? (other === undefined || [...within()].some(differs) ? undefined : other);
    if (component === undefined) {
      component = { base: name.replace(/[^A-Za-z0-9._-]/g, '_'), direction, refs: [], schema: {} };
      byDirection.set(direction, component); // before it is made: it may refer to itself
      component.schema = make();
    }
    byDirection.set(direction, component);
    const ref: JsonSchema = { $ref: '' };
    component.refs.push(ref);
    return ref;
  }

  #members(plan: ObjectPlan, direction: Direction): JsonSchema {
    const fields = direction === 'output' ? plan.fields.filter((field) => !field.isSecret) : plan.fields;
    const required = fields
      .filter((field) => (direction === 'input' ? field.isRequired : isAlwaysSent(field)))
      .map((field) => field.wireName);
    const properties: Record<string, JsonSchema> = {}; // no member is called __proto__
    for (const field of fields) properties[field.wireName] = this.field(field, direction);
    const schema: JsonSchema = { type: 'object', properties };
    if (required.length > 0) schema['required'] = required;
    if (plan.extra === 'forbid') schema['additionalProperties'] = false;
    return schema;
  }

  #bare(node: TypeNode, direction: Direction): JsonSchema {
    const { constraints } = node;
    switch (node.kind) {
      case 'str':
        return textSchema(constraints);
      case 'int':
        return numberSchema('integer', constraints);
      case 'float':
        return numberSchema('number', constraints);
      case 'bool':
        return { type: 'boolean' };
      case 'any':
        return {};
      case 'date':
      case 'uuid':
        return { type: 'string', format: node.kind };
      case 'datetime':
        return { type: 'string', format: 'date-time', maxLength: FORMATS['date-time'].maxLength };
      case 'bytes':
        return bytesSchema(constraints);
      case 'file':
        return fileSchema(constraints);
      case 'literal':
        return literalSchema(node.values);
      case 'list':
        return defined({
          type: 'array',
          items: this.type(node.item, direction),
          minItems: constraints.minLength,
          maxItems: constraints.maxLength,
        });
      case 'record':
        return defined({
          type: 'object',
          additionalProperties: this.type(node.item, direction),
          minProperties: constraints.minLength,
          maxProperties: constraints.maxLength,
        });
      case 'nullable':
        return orNull(this.type(node.inner, direction));
      case 'lazy':
        return this.#lazy(node, direction);
      case 'object':
        return this.object(node.plan(), direction);
      case 'union':
        return this.#union(node, direction);
    }
  }

  /** A type that contains itself needs a name; a schema class has one. */
  #lazy(node: Extract<TypeNode, { kind: 'lazy' }>, direction: Direction): JsonSchema {
    const target = node.resolve();
    if (!contains(target, target)) return this.type(target, direction);
    return this.#reference(
      target,
      'Type',
      direction,
      () => this.type(target, direction),
      () => plansWithin(target),
    );
  }

  #union(node: Extract<TypeNode, { kind: 'union' }>, direction: Direction): JsonSchema {
    const variants = node.variants();
    const { tagWire } = variants[0]!;
    const oneOf = variants.map((variant) => this.object(variant.plan, direction));
    // Required here too: a tag with a default is optional in its own schema, yet it is what tells the variants apart.
    const schema: JsonSchema = { type: 'object', required: [tagWire], oneOf };
    if (!this.#isOpenApi) return schema;
    this.#mappings.push(() => {
      const mapping = variants.flatMap(({ values }, i) =>
        values
          .filter((value) => typeof value === 'string')
          .map((value) => [value, oneOf[i]!['$ref']] as const),
      );
      schema['discriminator'] = { propertyName: tagWire, mapping: Object.fromEntries(mapping) };
    });
    return schema;
  }
}

/** Whether a class reads differently in the two directions. */
function differs(plan: ObjectPlan): boolean {
  return plan.fields.some(
    (field) => field.isSecret || field.isReadOnly || field.isRequired !== isAlwaysSent(field),
  );
}

function isAlwaysSent(field: FieldPlan): boolean {
  return !field.isSecret && (field.hasDefault || !field.isOptionalInOutput);
}

/** Whether a type leads to `wanted` without passing through a schema class, which has a name of its own. */
function contains(node: TypeNode, wanted: TypeNode, seen: Set<TypeNode> = new Set<TypeNode>()): boolean {
  const inner =
    node.kind === 'list' || node.kind === 'record'
      ? node.item
      : node.kind === 'nullable'
        ? node.inner
        : node.kind === 'lazy'
          ? node.resolve()
          : undefined;
  if (inner === undefined || seen.has(inner)) return false;
  seen.add(inner);
  return inner === wanted || contains(inner, wanted, seen);
}

function described(node: TypeNode, about: About): JsonSchema {
  const example = about.example === undefined ? undefined : serializerOf(node).toValue(about.example);
  return defined({
    title: about.title,
    description: about.description,
    examples: example?.ok === true ? [example.value] : undefined,
  });
}

function isEmpty({ title, description, example }: About): boolean {
  return title === undefined && description === undefined && example === undefined;
}

function textSchema({ minLength, maxLength = Infinity, format, pattern, hazard }: Constraints): JsonSchema {
  const known = format === undefined ? undefined : FORMATS[format];
  const longest = Math.min(maxLength, known?.maxLength ?? Infinity, hazard?.maxTestedLength ?? Infinity);
  const patterns = [known?.pattern, pattern?.flags === 'u' ? pattern : undefined]
    .filter((rule) => rule !== undefined)
    .map((rule) => ({ pattern: rule.source }));
  return defined({
    type: 'string',
    minLength,
    maxLength: longest === Infinity ? undefined : longest,
    format,
    ...(patterns.length === 1 ? patterns[0] : {}),
    allOf: patterns.length > 1 ? patterns : undefined,
  });
}

/** Of two bounds at one end the narrower: both say no more, and linters take them for a mistake. */
function numberSchema(
  type: 'integer' | 'number',
  { ge = -Infinity, le = Infinity, gt = -Infinity, lt = Infinity, multipleOf }: Constraints,
): JsonSchema {
  const [least, most] =
    type === 'integer'
      ? [Math.max(ge, Number.MIN_SAFE_INTEGER), Math.min(le, Number.MAX_SAFE_INTEGER)]
      : [ge, le];
  return defined({
    type,
    minimum: gt < least ? least : undefined,
    maximum: lt > most ? most : undefined,
    exclusiveMinimum: gt >= least && gt !== -Infinity ? gt : undefined,
    exclusiveMaximum: lt <= most && lt !== Infinity ? lt : undefined,
    multipleOf,
  });
}

/** The length of base64 text only comes near the number of bytes: these bounds refuse nothing that fits. */
function bytesSchema({ minLength, maxLength }: Constraints): JsonSchema {
  const encoded = (count: number | undefined): number | undefined =>
    count === undefined ? undefined : Math.ceil(count / 3) * 4;
  return defined({
    type: 'string',
    contentEncoding: 'base64',
    pattern: BASE64_PATTERN,
    minLength: encoded(minLength),
    maxLength: encoded(maxLength),
  });
}

/** Sizes of content that is not encoded are in octets (OpenAPI 3.1.1 §4.8.14.3). */
function fileSchema(constraints: Constraints): JsonSchema {
  const { minLength, maxLength } = constraints;
  return defined({ type: 'string', contentMediaType: fileType(constraints), minLength, maxLength });
}

/** One type can be named, a choice cannot. */
function fileType({ contentTypes = [] }: Constraints): string {
  const [type] = contentTypes;
  return type === undefined || contentTypes.length > 1 || type.endsWith('*')
    ? 'application/octet-stream'
    : type;
}

function literalSchema(values: readonly Literal[]): JsonSchema {
  const types = [...new Set(values.map((value) => (value === null ? 'null' : typeof value)))];
  return {
    type: types.length === 1 ? types[0] : types,
    ...(values.length === 1 ? { const: values[0] } : { enum: values }),
  };
}

/** A type name can be a list; anything that says more about its values cannot, for `null` is not among them. */
function orNull(schema: JsonSchema): JsonSchema {
  if (Object.keys(schema).length === 0) return schema; // anything, null too
  if (typeof schema['type'] !== 'string' || 'const' in schema || 'enum' in schema || 'oneOf' in schema)
    return { anyOf: [schema, { type: 'null' }] };
  schema['type'] = [schema['type'], 'null'];
  return schema;
}
