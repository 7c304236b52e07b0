/**
 * Converts schemas to JSON Schema 2020-12, for OpenAPI 3.1 and MCP.
 *
 * A published schema accepts every value that the validators accept. It accepts more values in four cases:
 * patterns with the flags `i m s v`, lone surrogates, deep nesting, and rules across fields. The schema of a text
 * with `trim` describes the text without white space at its ends.
 *
 * Members differ between input and output:
 *   - Input: a member with a default is optional. A secret member has `writeOnly`. A read-only member is
 *     omitted, because validators ignore it.
 *   - Output: a member with a default is required, because the serializer fills it in. A secret member is
 *     omitted.
 */
import { defined, isRecord } from '../base/options.ts';
import { innerOf, kindNamed, plansOf, plansWithin, serializerOf } from './kinds.ts';
import { documentMembers, partAt, standardDocument } from './kinds-standard.ts';
import { examplesOf } from './nodes.ts';
import type {
  About,
  Documents,
  FieldPlan,
  JsonSchema,
  NodeOf,
  ObjectPlan,
  TypeNode,
  Variant,
} from './nodes.ts';

import type { Direction } from './types.ts';

export type { JsonSchema } from './nodes.ts';

interface JsonSchemaOptions {
  /** Prefix of references to definitions. Default `#/components/schemas/`. */
  readonly prefix?: string | undefined;
  /**
   * Whether tagged unions get the keyword `discriminator`, and wide integers the format `int64`, which only OpenAPI
   * has. Default false.
   */
  readonly isOpenApi?: boolean | undefined;
}

/** Identity of a definition: a class, a recursive type, or a part of the document of a foreign schema. */
type Definition = object;

interface Component {
  readonly base: string;
  readonly direction: Direction;
  /**
   * All `{ $ref }` objects that refer to the definition. They are filled in when the definition has its final
   * name.
   */
  readonly refs: JsonSchema[];
  schema: JsonSchema;
}

/**
 * Collects JSON Schema definitions that several schemas share. `components()` names them in the order of
 * first use: `User`, `User2` for another class of that name, `UserOutput` if the schemas of input and output
 * differ.
 */
export class JsonSchemas {
  readonly #prefix: string;
  readonly #isOpenApi: boolean;
  /**
   * Definitions by class or recursive type, then by direction. Input and output share a definition if they do
   * not differ.
   */
  readonly #found = new Map<Definition, Map<Direction, Component>>();
  readonly #mappings: (() => void)[] = [];
  /**
   * Copies of the classes in tagged unions, by the field of the tag. In a copy, the tag is required, even if
   * the class has a default for the tag.
   */
  readonly #variants = new Map<FieldPlan, ObjectPlan>();
  /** Definitions that components() has renamed, because another definition has the wanted name. */
  readonly renamed: Map<Definition, { readonly wanted: string; readonly name: string }> = new Map();
  readonly #documents: Readonly<Record<Direction, Documents>>;
  #components: Readonly<Record<string, JsonSchema>> | undefined;

  constructor({ prefix = '#/components/schemas/', isOpenApi = false }: JsonSchemaOptions = {}) {
    this.#prefix = prefix;
    this.#isOpenApi = isOpenApi;
    this.#documents = { input: this.#documentsFor('input'), output: this.#documentsFor('output') };
  }

  /** Classes and recursive types that have a definition, in the order of first use. */
  get named(): ReadonlyMap<Definition, unknown> {
    return this.#found;
  }

  /** Returns the schema of a type as a new object. {@link components} sets its `$ref`s later. */
  type(node: TypeNode, direction: Direction): JsonSchema {
    return Object.assign(
      kindNamed(node.kind).document(node, this.#documents[direction]),
      node.about === undefined ? {} : described(node, node.about),
    );
  }

  field(field: FieldPlan, direction: Direction): JsonSchema {
    const about = field.isSecret ? withoutExamples(field.about) : field.about;
    const schema = Object.assign(this.type(field.node, direction), described(field.node, about));
    if (field.hasDefault && typeof field.default !== 'function' && !field.isSecret)
      schema['default'] = field.default;
    if (field.isSecret) schema['writeOnly'] = true;
    if (field.isReadOnly) schema['readOnly'] = true;
    return schema;
  }

  /**
   * Returns the schema of an object type: a reference for a class, the full schema for a plain object of
   * `Field()` members.
   */
  object(plan: ObjectPlan, direction: Direction): JsonSchema {
    if (plan.schema === undefined) return this.members(plan, direction);
    return this.#reference(
      plan,
      plan.name,
      direction,
      () => this.members(plan, direction),
      () => plansOf(plan),
    );
  }

  /**
   * Returns all definitions by name, without using the names in `taken`. Afterwards, no schema can be added.
   */
  components(taken: ReadonlySet<string> = new Set()): Readonly<Record<string, JsonSchema>> {
    return (this.#components ??= this.#named(taken));
  }

  #documentsFor(direction: Direction): Documents {
    return {
      isOpenApi: this.#isOpenApi,
      type: (node) => this.type(node, direction),
      object: (plan) => this.object(plan, direction),
      union: (node) => this.#union(node, direction),
      lazy: (node) => this.#lazy(node, direction),
      standard: (node) => this.#standard(node, direction),
    };
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
    key: Definition,
    name: string,
    direction: Direction,
    make: () => JsonSchema,
    within: () => ReadonlySet<ObjectPlan>,
  ): JsonSchema {
    if (this.#components !== undefined)
      throw new Error('JsonSchemas: no schema can be added after components() was called');
    let byDirection = this.#found.get(key);
    if (byDirection === undefined) this.#found.set(key, (byDirection = new Map()));
    const [other] = byDirection.values();
    let component =
      byDirection.get(direction) ?? (other === undefined || [...within()].some(differs) ? undefined : other);
    if (component === undefined) {
      component = { base: name.replace(/[^A-Za-z0-9._-]/g, '_'), direction, refs: [], schema: {} };
      // added before its schema is made, because the schema may refer to its own definition
      byDirection.set(direction, component);
      component.schema = make();
    }
    byDirection.set(direction, component);
    const ref: JsonSchema = { $ref: '' };
    component.refs.push(ref);
    return ref;
  }

  /** Returns the schema of an object type without a reference, even for a class. */
  members(plan: ObjectPlan, direction: Direction): JsonSchema {
    const fields = plan.fields.filter((field) =>
      direction === 'output' ? !field.isSecret : !field.isReadOnly,
    );
    const required = fields
      .filter((field) => (direction === 'input' ? field.isRequired : isAlwaysSent(field)))
      .map((field) => field.wireName);
    // an ordinary object is safe, because no member can have the name __proto__
    const properties: Record<string, JsonSchema> = {};
    for (const field of fields) properties[field.wireName] = this.field(field, direction);
    const schema: JsonSchema = { type: 'object', properties };
    if (required.length > 0) schema['required'] = required;
    return Object.assign(schema, namesSchema(plan, direction));
  }

  /**
   * Returns the schema of a `lazy` type. A type that contains itself needs a named definition; a schema class
   * already has one.
   */
  #lazy(node: NodeOf<'lazy'>, direction: Direction): JsonSchema {
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

  /**
   * Returns the schema of a foreign schema: {} if it has no JSON Schema. Its definitions become definitions of
   * this document, because their references start at the root.
   */
  #standard({ schema, member }: NodeOf<'standard'>, direction: Direction): JsonSchema {
    const document = standardDocument(schema, direction);
    const part = member === undefined ? document : documentMembers(document)[member];
    const refer = (pointer: string): JsonSchema => {
      const target = partAt(document, pointer);
      if (!isRecord(target)) return {};
      const name = typeof target['title'] === 'string' ? target['title'] : (pointer.split('/')[2] ?? 'Type');
      const make = (): JsonSchema => copied(target, refer) as JsonSchema;
      return this.#reference(target, name, direction, make, () => new Set());
    };
    return isRecord(part) ? (copied(part, refer) as JsonSchema) : {};
  }

  /** Returns a copy of a union's class in which the tag is required, because the tag selects the class. */
  #tagged({ plan, tagWire }: Variant): ObjectPlan {
    const tag = plan.fields.find((field) => field.wireName === tagWire)!;
    if (tag.isRequired) return plan;
    let tagged = this.#variants.get(tag);
    if (tagged === undefined) {
      const required = {
        ...tag,
        isRequired: true,
        hasDefault: false,
        default: undefined,
        isOptionalInOutput: false,
      };
      tagged = {
        name: `${plan.name}Variant`,
        schema: plan.schema,
        fields: plan.fields.map((field) => (field === tag ? required : field)),
        extra: plan.extra,
        reserved: plan.reserved,
        build: plan.build.bind(plan),
      };
      this.#variants.set(tag, tagged);
    }
    return tagged;
  }

  #union(node: NodeOf<'union'>, direction: Direction): JsonSchema {
    const variants = node.variants();
    const { tagWire } = variants[0]!;
    const oneOf = variants.map((variant) => this.object(this.#tagged(variant), direction));
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

/**
 * Returns the keywords that restrict the names of members. `extra: 'forbid'` allows only the names of fields.
 * An input may contain read-only fields, although its `properties` do not list them. `extra: 'allow'` forbids
 * the names of methods and other members of the class.
 */
function namesSchema({ fields, extra, reserved }: ObjectPlan, direction: Direction): JsonSchema {
  const wires = new Set(fields.map((field) => field.wireName));
  const hidden = [...reserved.difference(wires)].sort();
  if (extra === 'allow') return hidden.length === 0 ? {} : { propertyNames: { not: { enum: hidden } } };
  if (extra === 'ignore') return {};
  return direction === 'input' && fields.some((field) => field.isReadOnly)
    ? { propertyNames: { enum: [...wires] } }
    : { additionalProperties: false };
}

/** Keywords whose values are schemas by name. */
const BY_NAME: ReadonlySet<string> = new Set(['properties', 'patternProperties', 'dependentSchemas']);
/** Keywords whose values are data of the application, which may look like a schema. */
const DATA: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples']);
/** Keywords that are only allowed, or only found, at the root of a document. */
const AT_ROOT: ReadonlySet<string> = new Set(['$schema', '$id', '$defs', 'definitions']);

/** Copies a schema, or a list of schemas. `refer` makes each reference. */
function copied(part: unknown, refer: (pointer: string) => JsonSchema): unknown {
  if (Array.isArray(part)) return part.map((each) => copied(each, refer));
  if (!isRecord(part)) return part;
  const schema = typeof part['$ref'] === 'string' ? refer(part['$ref']) : {};
  for (const [keyword, value] of Object.entries(part)) {
    if (keyword === '$ref' || AT_ROOT.has(keyword)) continue;
    schema[keyword] =
      BY_NAME.has(keyword) && isRecord(value)
        ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copied(each, refer)]))
        : DATA.has(keyword)
          ? value
          : copied(value, refer);
  }
  return schema;
}

/** Whether a class needs different schemas for input and output. */
function differs(plan: ObjectPlan): boolean {
  return plan.fields.some(
    (field) => field.isSecret || field.isReadOnly || field.isRequired !== isAlwaysSent(field),
  );
}

function isAlwaysSent(field: FieldPlan): boolean {
  return !field.isSecret && (field.hasDefault || !field.isOptionalInOutput);
}

/**
 * Whether a type contains `wanted`, at any depth. The search does not enter schema classes, because they have
 * definitions of their own.
 */
function contains(node: TypeNode, wanted: TypeNode, seen: Set<TypeNode> = new Set<TypeNode>()): boolean {
  return innerOf(node).some((inner) => {
    if (seen.has(inner)) return false;
    seen.add(inner);
    return inner === wanted || contains(inner, wanted, seen);
  });
}

function described(node: TypeNode, about: About): JsonSchema {
  const examples = examplesOf(about).flatMap((example) => {
    const written = serializerOf(node).toValue(example);
    return written.ok ? [written.value] : [];
  });
  return defined({
    title: about.title,
    description: about.description,
    deprecated: (about.deprecated ?? false) === false ? undefined : true,
    examples: examples.length > 0 ? examples : undefined,
  });
}

function withoutExamples({ example: _, examples: __, ...about }: About): About {
  return about;
}
