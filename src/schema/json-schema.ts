/**
 * Converts schemas to JSON Schema 2020-12, for OpenAPI 3.1 and MCP.
 *
 * A published schema accepts every value that the validators accept. It accepts more values in four cases:
 * patterns with the flags `i m s v`, lone surrogates, deep nesting, and rules across fields.
 *
 * Members differ between input and output:
 *   - Input: a member with a default is optional. A secret member has `writeOnly`. A read-only member is
 *     omitted, because validators ignore it.
 *   - Output: a member with a default is required, because the serializer fills it in. A secret member is
 *     omitted.
 */
import { defined } from '../base/options.ts';
import { examplesOf, innerOf, plansOf, plansWithin } from './nodes.ts';
import { serializerOf } from './output.ts';
import { BASE64_PATTERN, FORMATS, MOMENT_PATTERN } from './formats.ts';
import type { About, FieldPlan, ObjectPlan, TypeNode, Variant, Constraints } from './nodes.ts';
import type { Literal } from './types.ts';

/** Whether a schema describes input or output. */
type Direction = 'input' | 'output';

interface JsonSchemaOptions {
  /** Prefix of references to definitions. Default `#/components/schemas/`. */
  readonly prefix?: string | undefined;
  /** Whether tagged unions get the keyword `discriminator`, which only OpenAPI has. Default false. */
  readonly isOpenApi?: boolean | undefined;
}

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
  readonly #found = new Map<ObjectPlan | TypeNode, Map<Direction, Component>>();
  readonly #mappings: (() => void)[] = [];
  /**
   * Copies of the classes in tagged unions, by the field of the tag. In a copy, the tag is required, even if
   * the class has a default for the tag.
   */
  readonly #variants = new Map<FieldPlan, ObjectPlan>();
  /** Definitions that components() has renamed, because another definition has the wanted name. */
  readonly renamed: Map<ObjectPlan | TypeNode, { readonly wanted: string; readonly name: string }> =
    new Map();
  #components: Readonly<Record<string, JsonSchema>> | undefined;

  constructor({ prefix = '#/components/schemas/', isOpenApi = false }: JsonSchemaOptions = {}) {
    this.#prefix = prefix;
    this.#isOpenApi = isOpenApi;
  }

  /** Classes and recursive types that have a definition, in the order of first use. */
  get named(): ReadonlyMap<ObjectPlan | TypeNode, unknown> {
    return this.#found;
  }

  /** Returns the schema of a type as a new object. {@link components} sets its `$ref`s later. */
  type(node: TypeNode, direction: Direction): JsonSchema {
    return Object.assign(
      this.#bare(node, direction),
      node.about === undefined ? {} : described(node, node.about),
    );
  }

  /** Returns the schema of a field, with its description. */
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
    if (plan.schema === undefined) return this.#members(plan, direction);
    return this.#reference(
      plan,
      plan.name,
      direction,
      () => this.#members(plan, direction),
      () => plansOf(plan),
    );
  }

  /**
   * Returns all definitions by name, without using the names in `taken`. Afterwards, no schema can be added.
   */
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

  #members(plan: ObjectPlan, direction: Direction): JsonSchema {
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
      case 'datetime':
        return formattedSchema(node.kind);
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
          uniqueItems: constraints.unique === true ? true : undefined,
        });
      case 'record':
        return defined({
          type: 'object',
          additionalProperties: this.type(node.item, direction),
          propertyNames: { not: { const: '__proto__' } },
          minProperties: constraints.minLength,
          maxProperties: constraints.maxLength,
        });
      case 'choice':
        return takesAnything(node) ? {} : anyOf(node.members.map((member) => this.type(member, direction)));
      case 'tuple':
        return {
          type: 'array',
          prefixItems: node.members.map((member) => this.type(member, direction)),
          items: {}, // linters expect `items` in the schema of an array
          minItems: node.members.length,
          maxItems: node.members.length,
        };
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

  /**
   * Returns the schema of a `lazy` type. A type that contains itself needs a named definition; a schema class
   * already has one.
   */
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

  #union(node: Extract<TypeNode, { kind: 'union' }>, direction: Direction): JsonSchema {
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
  if (extra === 'allow') return { propertyNames: { not: { enum: [...reserved.difference(wires)].sort() } } };
  if (extra === 'ignore') return {};
  return direction === 'input' && fields.some((field) => field.isReadOnly)
    ? { propertyNames: { enum: [...wires] } }
    : { additionalProperties: false };
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

/**
 * Whether a type accepts every JSON value. A union with such a type accepts everything, so the other types
 * need no schema.
 */
function takesAnything(node: TypeNode, seen: Set<TypeNode> = new Set<TypeNode>()): boolean {
  if (node.kind === 'any') return true;
  if (seen.has(node) || node.kind === 'list' || node.kind === 'record' || node.kind === 'tuple') return false;
  seen.add(node);
  return innerOf(node).some((inner) => takesAnything(inner, seen));
}

/**
 * Returns a schema that accepts every value that at least one of `schemas` accepts. Duplicates are removed.
 */
function anyOf(schemas: readonly JsonSchema[]): JsonSchema {
  const distinct = new Map(
    schemas.map((schema) => {
      const text = JSON.stringify(schema);
      // schemas with references are not compared, because the text of their references is still empty
      return [text.includes('"$ref":""') ? schema : text, schema] as const;
    }),
  );
  const [only, ...others] = distinct.values();
  return others.length === 0 ? only! : { anyOf: [only, ...others] };
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

/*
 * The functions below convert the constraints of a value to keywords of JSON Schema 2020-12.
 *
 * Formats and bytes are special cases:
 *   - A format becomes `format` and a pattern, because validators interpret formats differently, or not at
 *     all.
 *   - Bytes get the lengths of their base64 text, and a pattern for the padding. One, two and three bytes all
 *     have four characters, so the length alone does not determine the number of bytes.
 */

/** A JSON Schema document or a part of one. */
export type JsonSchema = { [keyword: string]: unknown };

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

function formattedSchema(kind: 'date' | 'uuid' | 'datetime'): JsonSchema {
  if (kind !== 'datetime') return { type: 'string', format: kind, pattern: FORMATS[kind].pattern.source };
  return {
    type: 'string',
    format: 'date-time',
    maxLength: FORMATS['date-time'].maxLength,
    pattern: MOMENT_PATTERN,
  };
}

/**
 * Returns the keywords of a number. If it has both an inclusive and an exclusive bound on one side, only the
 * narrower one is written, because linters report two bounds.
 */
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

/**
 * Returns the keywords of base64 text. Each group of four characters holds three bytes; the last group holds
 * one to three.
 */
function bytesSchema({ minLength, maxLength }: Constraints): JsonSchema {
  const charactersOf = (count: number | undefined): number | undefined =>
    count === undefined ? undefined : Math.ceil(count / 3) * 4;
  const [least, most] = [charactersOf(minLength), charactersOf(maxLength)];
  const either = [
    minLength === undefined || minLength % 3 === 1 || minLength === 0
      ? undefined
      : patternOr({ minLength: least! + 1 }, minLength % 3 === 0 ? '[^=]$' : '[^=]=?$'),
    maxLength === undefined || maxLength % 3 === 0
      ? undefined
      : patternOr({ maxLength: most! - 4 }, maxLength % 3 === 1 ? '==$' : '=$'),
  ].filter((rule) => rule !== undefined);
  return defined({
    type: 'string',
    contentEncoding: 'base64',
    pattern: BASE64_PATTERN,
    minLength: least,
    maxLength: most,
    ...(either.length === 1 ? either[0] : {}),
    allOf: either.length > 1 ? either : undefined,
  });
}

function patternOr(length: JsonSchema, pattern: string): JsonSchema {
  return {
    anyOf: [
      { type: 'string', ...length },
      { type: 'string', pattern },
    ],
  };
}

/**
 * Returns the JSON Schema keywords that describe an uploaded file. `contentMediaType` can name only one media
 * type. `minLength` and `maxLength` are in octets (OpenAPI 3.1.1 §4.8.14.3).
 */
function fileSchema({ contentTypes = [], minLength, maxLength }: Constraints): JsonSchema {
  const [type] = contentTypes;
  const isOne = type !== undefined && contentTypes.length === 1 && !type.endsWith('*');
  const contentMediaType = isOne ? type : 'application/octet-stream';
  return defined({ type: 'string', contentMediaType, minLength, maxLength });
}

function literalSchema(values: readonly Literal[]): JsonSchema {
  const types = [...new Set(values.map((value) => (value === null ? 'null' : typeof value)))];
  return {
    type: types.length === 1 ? types[0] : types,
    ...(values.length === 1 ? { const: values[0] } : { enum: values }),
  };
}

const BEYOND_TYPE = ['const', 'enum', 'oneOf', 'anyOf', 'allOf'];

/**
 * Returns a schema that also accepts null. If the schema has only a type, null is added to the type. Other
 * keywords need `anyOf`, because null would not satisfy them.
 */
function orNull(schema: JsonSchema): JsonSchema {
  if (Object.keys(schema).length === 0) return schema; // a schema without keywords also accepts null
  if (typeof schema['type'] !== 'string' || BEYOND_TYPE.some((keyword) => keyword in schema))
    return { anyOf: [schema, { type: 'null' }] };
  schema['type'] = [schema['type'], 'null'];
  return schema;
}
