/**
 * Writes schemas (JSON Schema 2020-12, as in OpenAPI 3.1) as HTML: the type in words, the constraints in one
 * line, and the members as a list.
 *
 * Example of a member:
 *   string | null      1-500 characters · pattern \S · example "Buy milk"
 *
 * A named schema is written once, in its own section; other places link to it. No reference is followed
 * twice, so schemas may be recursive.
 */
import { prose } from './markdown.ts';
import { Markup, NOTHING, html, joined } from './markup.ts';
import {
  formField,
  impliedType,
  isFile,
  lastName,
  list,
  record,
  resolve,
  schemaName,
  text,
} from '../reader.ts';
import type { JsonObject } from '../reader.ts';
import type { NamedSchema, ReadDocument } from './document.ts';
import type { Content } from './markup.ts';

/** Maximum nesting of member lists; deeper members only show their type. */
const MOST_DEPTH = 6;
/** Maximum number of shown values of an enumeration. */
const MOST_VALUES = 40;
/** Maximum number of characters of an example or default in a line. */
const MOST_CHARACTERS = 120;
/** A schema without any of these keywords has no members to show. */
const HOLDERS =
  'properties items additionalProperties oneOf anyOf allOf patternProperties discriminator'.split(' ');

const CHOICE = '<div class="one">';

export class SchemaWriter {
  readonly #document: ReadDocument;
  /** HTML of member lists, by schema. Operations share schemas, so each list is written only once. */
  readonly #written = new Map<JsonObject, Markup>();
  /** Number of choices, which makes their names. */
  #choices = 0;

  constructor(document: ReadDocument) {
    this.#document = document;
  }

  /**
   * Returns the members of a schema as HTML; empty if it has none. `fieldTypes` has the media types of form
   * fields.
   */
  members(schema: unknown, fieldTypes: ReadonlyMap<string, string> = new Map()): Markup {
    const followed = this.#followed(schema);
    return fieldTypes.size === 0
      ? this.#members(followed, 0)
      : this.#writeMembers(record(followed), 0, fieldTypes);
  }

  named({ schema }: NamedSchema): Markup {
    const { description } = record(schema);
    const members = this.#members(schema, 0);
    return html`${prose(text(description))}${members === NOTHING || !isPlainObject(schema) ? html`<p class="t">${this.type(schema)}</p>${factsOf(schema)}` : NOTHING}${members}`;
  }

  type(schema: unknown, depth = 0): Markup {
    if (schema === true || schema === undefined) return html`any`;
    if (schema === false) return html`never`;
    const given = record(schema);
    const ref = text(given['$ref']);
    if (ref !== undefined) return this.#reference(ref);
    if (depth > MOST_DEPTH) return html`…`;
    if (given['const'] !== undefined) return literal(given['const']);
    const values = list(given['enum']);
    if (values.length > 0)
      return joined(
        [
          ...values.slice(0, MOST_VALUES).map(literal),
          ...(values.length > MOST_VALUES ? [`${values.length - MOST_VALUES} more`] : []),
        ],
        ' | ',
      );
    const variants = [...list(given['oneOf']), ...list(given['anyOf'])];
    if (variants.length > 0) return this.#alternatives(variants, depth);
    const parts = list(given['allOf']);
    if (parts.length > 0) return joined(parts, ' & ', (part) => this.type(part, depth + 1));
    const { type } = given;
    if (Array.isArray(type)) return joined(type, ' | ', (one) => this.#single(String(one), given, depth));
    return this.#single(text(type) ?? impliedType(given), given, depth);
  }

  /** Returns the types of a union. Duplicates are removed, and `null` comes last. */
  #alternatives(variants: readonly unknown[], depth: number): Markup {
    const types = new Map(
      variants.map((variant) => this.type(variant, depth + 1)).map((type) => [type.text, type]),
    );
    return joined(
      [...types.values()].sort((left, right) => Number(left.text === 'null') - Number(right.text === 'null')),
      ' | ',
    );
  }

  #reference(ref: string): Markup {
    const known = this.#document.schemas.get(schemaName(ref) ?? '');
    if (known !== undefined) return html`<a href="#${encodeURIComponent(known.id)}">${known.name}</a>`;
    return html`${lastName(ref)}`;
  }

  #single(type: string, schema: JsonObject, depth: number): Markup {
    switch (type) {
      case 'array': {
        const items = list(schema['prefixItems']);
        if (items.length > 0) return html`[${joined(items, ', ', (item) => this.type(item, depth + 1))}]`;
        const item = this.type(schema['items'], depth + 1);
        return item.text.includes(' | ') ? html`array of (${item})` : html`array of ${item}`;
      }
      case 'object': {
        const values = schema['additionalProperties'];
        const isMap = schema['properties'] === undefined && values !== undefined && values !== false;
        return isMap ? html`map of ${this.type(values, depth + 1)}` : html`object`;
      }
      case 'string': {
        if (isFile(schema)) return html`file`;
        const format = text(schema['format']) ?? text(schema['contentEncoding']);
        return format === undefined ? html`string` : html`string<small>${format}</small>`;
      }
      default:
        return html`${type}`;
    }
  }

  // -- members --

  /**
   * Resolves a reference to a schema. For a list whose items are a reference, returns the schema of the
   * items.
   */
  #followed(schema: unknown): unknown {
    const { root } = this.#document;
    const outer = record(schema)['$ref'] === undefined ? schema : resolve(root, schema);
    const { items } = record(outer);
    return record(items)['$ref'] === undefined ? outer : resolve(root, items);
  }

  #members(schema: unknown, depth: number): Markup {
    const given = record(schema);
    if (
      depth > MOST_DEPTH ||
      given['$ref'] !== undefined ||
      !HOLDERS.some((holder) => given[holder] !== undefined)
    )
      return NOTHING;
    const known = depth === 0 ? this.#written.get(given) : undefined;
    // each choice has a name of its own, so that folds of different operations do not close each other
    if (known !== undefined && !known.text.includes(CHOICE)) return known;
    const members = this.#writeMembers(given, depth);
    if (depth === 0) this.#written.set(given, members);
    return members;
  }

  #writeMembers(given: JsonObject, depth: number, fieldTypes?: ReadonlyMap<string, string>): Markup {
    const required = new Set(list(given['required']));
    const rows = Object.entries(record(given['properties'])).map(([name, member]) =>
      this.#member(
        name,
        fieldTypes === undefined ? member : formField(member),
        required.has(name),
        depth,
        fieldTypes?.get(name),
      ),
    );
    const others = [
      ...Object.entries(record(given['patternProperties'])).map(([pattern, member]) =>
        this.#member(`/${pattern}/`, member, false, depth),
      ),
      ...(rows.length > 0 && typeof given['additionalProperties'] === 'object'
        ? [this.#member('any other property', given['additionalProperties'], false, depth)]
        : []),
    ];
    const parts = list(given['allOf']).map((part) =>
      record(part)['$ref'] === undefined
        ? this.#members(part, depth)
        : html`<p class="k">All of ${this.type(part)}, and:</p>`,
    );
    const own = rows.length + others.length === 0 ? NOTHING : html`<ul class="f">${rows}${others}</ul>`;
    const all = [...parts, own, this.#variants(given, depth), this.#inner(given, depth)].filter(
      (part) => part !== NOTHING,
    );
    return all.length === 0 ? NOTHING : html`${all}`;
  }

  #member(name: string, schema: unknown, isRequired: boolean, depth: number, mediaType?: string): Markup {
    const given = record(schema);
    return html`<li><code>${name}</code> <span class="t">${this.type(schema)}</span>${isRequired && html` <em>required</em>`}${given['deprecated'] === true && html` <s>deprecated</s>`}${prose(text(given['description']))}${factsOf(schema, [], mediaType)}${this.#members(schema, depth + 1)}`;
  }

  /**
   * Writes the alternatives of `oneOf` and `anyOf`: as a choice, of which browsers show one, if each is a named
   * schema; else one below the other.
   */
  #variants(given: JsonObject, depth: number): Markup {
    const variants = [...list(given['oneOf']), ...list(given['anyOf'])];
    const named = variants.filter((variant) => record(variant)['type'] !== 'null');
    if (depth === 0 && named.length > 1 && named.every((one) => text(record(one)['$ref']) !== undefined))
      return this.#choice(named.map(record), record(given['discriminator']));
    const written = variants
      .map((variant) => this.#members(variant, depth + 1))
      .filter((variant) => variant !== NOTHING);
    return html`${written.map((variant, index) => html`<p class="k">${index === 0 ? (given['anyOf'] === undefined ? 'One of' : 'Any of') : 'or'}</p>${variant}`)}`;
  }

  /** Writes named schemas as folds with one name, so that opening one closes the others. */
  #choice(variants: readonly JsonObject[], { mapping, propertyName }: JsonObject): Markup {
    const { root, schemas } = this.#document;
    const name = `v${++this.#choices}`;
    const tags = Object.entries(record(mapping));
    const folds = variants.map((variant, index) => {
      const ref = String(variant['$ref']);
      const [tag] = tags.find(([, target]) => target === ref) ?? [];
      const title = schemas.get(schemaName(ref) ?? '')?.name ?? lastName(ref);
      const members = this.#members(resolve(root, variant), 1);
      const shown =
        members === NOTHING ? html`<p class="t">${this.type(resolve(root, variant))}</p>` : members;
      return html`<details name="${name}"${index === 0 && html` open`}><summary>${title}${tag !== undefined && text(propertyName) !== undefined && html` <code>${text(propertyName)}</code> <code>${tag}</code>`}</summary>${shown}</details>`;
    });
    return html`${new Markup(CHOICE)}<p class="k">One of</p>${folds}</div>`;
  }

  /** Writes the members of the objects in a list or map, unless the schema of these objects is a reference. */
  #inner(given: JsonObject, depth: number): Markup {
    const items = this.#members(given['items'], depth + 1);
    if (items !== NOTHING) return items;
    return given['properties'] === undefined
      ? this.#members(given['additionalProperties'], depth + 1)
      : NOTHING;
  }
}

function literal(value: unknown): Markup {
  const json = JSON.stringify(value) ?? 'undefined';
  return html`<code>${json.length > MOST_CHARACTERS ? `${json.slice(0, MOST_CHARACTERS)}…` : json}</code>`;
}

function isPlainObject(schema: unknown): boolean {
  const { type, oneOf, anyOf } = record(schema);
  return type === 'object' && oneOf === undefined && anyOf === undefined;
}

/** Formats for which the page shows no pattern and length, because the format implies them. */
const NAMED_FORMATS: ReadonlySet<unknown> = new Set(
  'date date-time email hostname ipv4 ipv6 time uri uuid'.split(' '),
);

/**
 * Returns one line with the constraints, default and example of a schema. A list gets a second line for its
 * items.
 */
export function factsOf(schema: unknown, examples: readonly unknown[] = [], mediaType?: string): Markup {
  const { type, items } = record(schema);
  const own = factList(schema, examples, mediaType);
  const each = type === 'array' ? factList(items, []) : [];
  return html`${own.length > 0 && html`<p class="k">${joined(own, ' · ')}</p>`}${each.length > 0 && html`<p class="k">Each item: ${joined(each, ' · ')}</p>`}`;
}

function factList(schema: unknown, examples: readonly unknown[], mediaType?: string): Content[] {
  const whole = record(schema);
  const isNamed = NAMED_FORMATS.has(whole['format']);
  const given = isNamed ? { ...whole, pattern: undefined, maxLength: undefined } : whole;
  const example = examples[0] ?? given['example'] ?? list(given['examples'])[0];
  const patterns = [given['pattern'], ...list(given['allOf']).map((part) => record(part)['pattern'])];
  const facts: Content[] = [
    mediaType !== undefined &&
      isFile(given['type'] === 'array' ? given['items'] : given) &&
      html`<code>${mediaType}</code>`,
    ...rangesOf(given),
    given['multipleOf'] !== undefined && html`multiple of ${literal(given['multipleOf'])}`,
    given['uniqueItems'] === true && 'unique items',
    ...patterns.map((pattern) => text(pattern) !== undefined && html`pattern <code>${text(pattern)}</code>`),
    given['additionalProperties'] === false &&
      given['properties'] !== undefined &&
      'no additional properties',
    given['readOnly'] === true && 'read only',
    given['writeOnly'] === true && 'write only',
    given['default'] !== undefined && html`default ${literal(given['default'])}`,
    example !== undefined && html`example ${literal(example)}`,
  ];
  return facts.filter((fact) => fact !== false);
}

/** Each row has the keywords of a minimum and a maximum size, and their unit in singular and plural. */
const RANGES: readonly (readonly [least: string, most: string, one: string, many: string])[] = [
  ['minLength', 'maxLength', 'character', 'characters'],
  ['minItems', 'maxItems', 'item', 'items'],
  ['minProperties', 'maxProperties', 'property', 'properties'],
];

function rangesOf(given: JsonObject): Content[] {
  const isBytes = isFile(given);
  const counts = RANGES.flatMap(([least, most, one, many]): Content[] => {
    const [from, to] = [given[least], given[most]];
    if (from === undefined && to === undefined) return [];
    if (isBytes && least === 'minLength') return [span(from, to, sizeOf)];
    return [`${span(from, to, grouped)} ${(to ?? from) === 1 ? one : many}`];
  });
  // the bounds of safe integers, ±(2^53 - 1), are not shown
  const [least, most] = [given['minimum'], given['maximum']].map((bound) =>
    typeof bound === 'number' && Math.abs(bound) >= Number.MAX_SAFE_INTEGER ? undefined : bound,
  );
  const bounds =
    typeof least === 'number' && typeof most === 'number'
      ? [`${grouped(least)} … ${grouped(most)}`]
      : [
          typeof least === 'number' && `≥ ${grouped(least)}`,
          typeof most === 'number' && `≤ ${grouped(most)}`,
        ];
  const [above, below] = [given['exclusiveMinimum'], given['exclusiveMaximum']];
  return [
    ...counts,
    ...bounds,
    typeof above === 'number' && `> ${grouped(above)}`,
    typeof below === 'number' && `< ${grouped(below)}`,
  ];
}

/** Returns two limits as text: `1–500`, `at least 1` or `up to 500`. */
function span(from: unknown, to: unknown, write: (limit: unknown) => string): string {
  if (from === undefined) return `up to ${write(to)}`;
  if (to === undefined) return `at least ${write(from)}`;
  return from === to ? write(from) : `${write(from)}–${write(to)}`;
}

/** Returns a size in bytes as text, such as `1.5 MB`. */
function sizeOf(bytes: unknown): string {
  if (typeof bytes !== 'number') return String(bytes);
  for (const [unit, size] of [
    ['GB', 1e9],
    ['MB', 1e6],
    ['kB', 1e3],
  ] as const)
    if (bytes >= size) return `${grouped(Math.round((bytes / size) * 100) / 100)} ${unit}`;
  return `${bytes} ${bytes === 1 ? 'byte' : 'bytes'}`;
}

// `groups` is created on first use, because creating an Intl formatter takes longer than loading this module
let groups: Intl.NumberFormat | undefined;

/** Returns a number with grouped digits: 1,000,000. */
function grouped(value: unknown): string {
  if (typeof value !== 'number' || Math.abs(value) >= 1e15) return String(value);
  groups ??= new Intl.NumberFormat('en', { maximumFractionDigits: 20 });
  return groups.format(value);
}
