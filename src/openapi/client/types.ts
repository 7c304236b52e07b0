/**
 * Writes JSON Schemas as TypeScript: one exported type for each named schema; other schemas are written
 * inline.
 *
 * Request types leave out read-only members, and accept undefined for optional members. TypeScript cannot
 * express bounds, patterns and formats, so only the server checks them.
 */
import { uniqueName } from '../openapi.ts';
import { impliedType, list, record, schemaName, text } from '../reader.ts';
import type { JsonObject } from '../reader.ts';

/**
 * Whether a type is for the body of a request, for a parameter, or for a response. A named schema that occurs in
 * several has only the type for responses.
 */
export type Place = 'request' | 'parameter' | 'response';

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const INDENT = '  ';

/** Writes the types of one document. Types cannot have the names in `reserved`. */
export class TypeWriter {
  readonly #schemas: JsonObject;
  readonly #names: ReadonlyMap<string, string>;
  readonly #answered: ReadonlySet<string>;

  constructor(root: JsonObject, reserved: ReadonlySet<string>, responses: readonly unknown[]) {
    this.#schemas = record(record(root['components'])['schemas']);
    this.#names = namesOf(Object.keys(this.#schemas), reserved);
    this.#answered = new Set(this.#reached(responses));
  }

  declarations(): string {
    return Object.entries(this.#schemas)
      .map(([name, schema]) => this.#declaration(name, record(schema)))
      .join('\n');
  }

  /** Returns a schema as a TypeScript type. `indent` is the indentation of its first line. */
  type(schema: unknown, place: Place, indent = ''): string {
    if (schema === undefined || schema === true) return 'unknown';
    if (schema === false) return 'never';
    const given = record(schema);
    const ref = text(given['$ref']);
    if (ref !== undefined) return this.#names.get(schemaName(ref) ?? '') ?? 'unknown';
    if (given['const'] !== undefined) return JSON.stringify(given['const']);
    const values = list(given['enum']);
    if (values.length > 0) return union(values.map((value) => JSON.stringify(value)));
    const variants = [...list(given['oneOf']), ...list(given['anyOf'])];
    if (variants.length > 0) return union(variants.map((one) => this.type(one, place, indent)));
    const own = this.#own(given, place, indent);
    const parts = list(given['allOf'])
      .map((part) => this.type(part, place, indent))
      .filter((part) => part !== 'unknown');
    if (parts.length === 0) return own;
    const all = own === 'unknown' ? parts : [own, ...parts];
    return [...new Set(all)].map(bracketed).join(' & ');
  }

  #declaration(name: string, schema: JsonObject): string {
    const place = this.#answered.has(name) ? 'response' : 'request';
    const type = this.type(schema, place);
    const identifier = this.#names.get(name)!;
    return `${comment(text(schema['description']))}export ${isObject(type) ? `interface ${identifier} ${type}` : `type ${identifier} = ${type};`}\n`;
  }

  #own(given: JsonObject, place: Place, indent: string): string {
    const { type } = given;
    const types = Array.isArray(type) ? type : [text(type) ?? impliedType(given)];
    return union(types.map((one) => this.#single(one, given, place, indent)));
  }

  #single(type: unknown, given: JsonObject, place: Place, indent: string): string {
    switch (type) {
      case 'string':
        return place === 'parameter' && given['format'] === 'date-time' ? 'string | Date' : 'string';
      case 'integer':
      case 'number':
        return 'number';
      case 'boolean':
      case 'null':
        return type;
      case 'array':
        return this.#array(given, place, indent);
      case 'object':
        return this.#object(given, place, indent);
      default:
        return 'unknown';
    }
  }

  #array(given: JsonObject, place: Place, indent: string): string {
    const items = list(given['prefixItems']);
    if (items.length > 0) return `[${items.map((item) => this.type(item, place, indent)).join(', ')}]`;
    return `${place !== 'response' ? 'readonly ' : ''}${bracketed(this.type(given['items'], place, indent))}[]`;
  }

  #object(given: JsonObject, place: Place, indent: string): string {
    const members = Object.entries(record(given['properties'])).filter(
      ([, member]) => place === 'response' || record(member)['readOnly'] !== true,
    );
    const others = [
      given['additionalProperties'],
      ...Object.values(record(given['patternProperties'])),
    ].filter(
      (one) => one !== undefined && one !== false && (one !== true || given['properties'] === undefined),
    );
    const map = union(others.map((one) => this.type(one, place, indent)));
    if (members.length === 0 && (others.length > 0 || given['properties'] === undefined))
      return `Record<string, ${others.length === 0 ? 'unknown' : map}>`;
    const required = new Set(list(given['required']));
    const lines = members.map(([name, member]) =>
      this.member(name, member, required.has(name), place, indent),
    );
    const object = lines.length === 0 ? 'Record<string, never>' : `{\n${lines.join('')}${indent}}`;
    // an intersection, because in a single type, every member would have to match the index signature
    return others.length === 0 ? object : `${object} & Record<string, unknown>`;
  }

  /** Returns one member of an object type as lines of TypeScript, with its description. */
  member(name: string, schema: unknown, isRequired: boolean, place: Place, indent: string): string {
    const inner = indent + INDENT;
    const given = record(schema);
    const type = this.type(schema, place, inner);
    const isLoose = !isRequired && place !== 'response' && type !== 'unknown';
    const about = [text(given['description']), given['deprecated'] === true ? '@deprecated' : undefined];
    return `${comment(about.filter((line) => line !== undefined).join('\n\n'), inner)}${inner}${declared(name, type, isRequired, isLoose)}`;
  }

  /** Returns the names of all schemas to which the values refer, directly or indirectly. */
  #reached(values: readonly unknown[]): Iterable<string> {
    const found = new Set<string>();
    const visit = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return;
      const ref = text(record(value)['$ref']);
      const name = ref === undefined ? undefined : schemaName(ref);
      if (name !== undefined && Object.hasOwn(this.#schemas, name) && !found.has(name)) {
        found.add(name);
        visit(this.#schemas[name]);
      }
      for (const inner of Object.values(value)) visit(inner);
    };
    visit(values);
    return found;
  }
}

/** Returns a member's name, quoted unless it is an identifier. */
export function key(name: string): string {
  return IDENTIFIER.test(name) ? name : JSON.stringify(name);
}

/** Returns the declaration of a member in TypeScript. With `isLoose`, the member also accepts undefined. */
export function declared(
  name: string,
  type: string,
  isRequired: boolean,
  isLoose: boolean = !isRequired,
): string {
  return `${key(name)}${isRequired ? '' : '?'}: ${type}${isLoose ? ' | undefined' : ''};\n`;
}

/** Returns a description as a doc comment on lines of its own; an empty text if there is no description. */
export function comment(about: string | undefined, indent = ''): string {
  if (about === undefined || about.trim() === '') return '';
  const lines = about
    .trim()
    .replaceAll('*/', '*\\/')
    .split(/\r\n|[\r\n\u2028\u2029]/);
  if (lines.length === 1) return `${indent}/** ${lines[0]!} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

/** Returns a union as text, without duplicate types. */
export function union(types: readonly string[]): string {
  const distinct = [...new Set(types)];
  if (distinct.includes('unknown')) return 'unknown';
  return distinct.length === 0
    ? 'never'
    : distinct.map((type) => (distinct.length === 1 ? type : part(type))).join(' | ');
}

/** Returns an identifier for each schema: `Note`, or `NoteSchema` or `NoteSchema2` if the name is taken. */
function namesOf(names: readonly string[], reserved: ReadonlySet<string>): ReadonlyMap<string, string> {
  const taken = new Set(reserved);
  const found = new Map<string, string>();
  for (const name of names) {
    const base = name.replace(/[^\w$]+/g, '_').replace(/^(?=\d|$)/, '_');
    found.set(name, uniqueName(taken.has(base) ? `${base}Schema` : base, taken));
  }
  return found;
}

function part(type: string): string {
  return type.includes(' & ') ? bracketed(type) : type;
}

function bracketed(type: string): string {
  return /[|&]|^readonly /.test(type) && !isObject(type) ? `(${type})` : type;
}

/** Whether the text `type` is one object type, such as `{ id: number }`. */
function isObject(type: string): boolean {
  return type.startsWith('{') && type.endsWith('}') && !/^ *\} [&|]/m.test(type);
}
