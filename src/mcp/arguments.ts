/**
 * The arguments of a tool: path, query and body of a route as one object, and back into a request.
 *
 *   GET /users/{id:int}?verbose=...              { id, verbose }
 *   POST /users/{id:int}   { name, email }     { id, name, email }
 *   PUT /users/{id:int}    { id, name }        { id, body: { id, name } }      a name that is taken: the body stands whole
 *   POST /scores           [ 1, 2 ]            { body: [ 1, 2 ] }              so does one that is no plain object
 *
 * A member of the query whose name is taken is `query_...`. Fields and cookies are no arguments: a model neither knows nor may choose
 * them, they are those of whoever calls. Files are base64 in JSON: `{ filename, contentType, data }`.
 */
import { JsonSchemas } from '../schema/json-schema.ts';
import { isObject } from './messages.ts';
import { closest } from '../base/options.ts';
import { fileLimit } from '../schema/schema.ts';
import { fillTemplate, writeSegment } from '../http/path.ts';
import type { RouteInputs } from '../routing/call.ts';
import type { Issue } from '../base/errors.ts';
import type { JsonSchema } from '../schema/json-schema.ts';
import type { JsonObject } from './messages.ts';
import type { FieldPlan, TypeNode } from '../schema/schema.ts';
import type { ConverterName, ParsedTemplate } from '../http/path.ts';

/** Where an argument goes. */
type Part = 'path' | 'query' | 'body' | 'form' | 'whole';

/** One argument. */
interface Slot {
  readonly argument: string;
  readonly part: Part;
  /** What the route calls it. */
  readonly name: string;
  readonly schema: JsonSchema;
  readonly isRequired: boolean;
  readonly isFile: boolean;
}

/** What a request is made of. */
export interface RequestInput {
  /** The path with its query. */
  readonly target: string;
  readonly body: string | URLSearchParams | FormData | undefined;
}

/** The arguments of one tool. */
export class ArgumentPlan {
  /** Of an object; what it refers to is in its `$defs`. */
  readonly schema: JsonSchema;
  /** The fields that the route reads, in lower case: they are those of the caller. */
  readonly fields: readonly string[];
  readonly #subject: string;
  readonly #template: ParsedTemplate;
  readonly #slots: readonly Slot[];
  readonly #byName: ReadonlyMap<string, Slot>;
  /** What kind of body the route reads. */
  readonly #body: 'json' | 'form' | 'files' | undefined;

  constructor(subject: string, template: ParsedTemplate, inputs: RouteInputs) {
    this.#subject = subject;
    this.#template = template;
    const schemas = new JsonSchemas({ prefix: '#/$defs/' });
    this.#slots = slotsOf(template, inputs, schemas);
    this.#byName = new Map(this.#slots.map((slot) => [slot.argument, slot]));
    this.#body =
      inputs.body !== undefined
        ? 'json'
        : inputs.form === undefined
          ? undefined
          : this.#slots.some((slot) => slot.isFile)
            ? 'files'
            : 'form';
    this.fields = inputs.texts
      .filter(({ from }) => from === 'header')
      .flatMap((input) => input.plan.fields.map(({ wireName }) => input.nameOf(wireName)));
    this.schema = objectSchema(this.#slots, schemas.components());
  }

  /** A request out of arguments, or what is wrong with them. Their values are the route's to judge. */
  read(given: JsonObject): RequestInput | { readonly issues: readonly Issue[] } {
    const issues: Issue[] = [];
    for (const name of Object.keys(given)) if (!this.#byName.has(name)) issues.push(this.#unknown(name));
    const params: Record<string, unknown> = {};
    const query = new URLSearchParams();
    const members: [string, unknown][] = [];
    const form: [Slot, unknown][] = [];
    let whole: unknown;
    for (const slot of this.#slots) {
      const value = Object.hasOwn(given, slot.argument) ? given[slot.argument] : undefined;
      if (value === undefined) {
        if (slot.part === 'path')
          issues.push({ loc: ['path', slot.name], code: 'missing', message: 'is missing' });
        if (slot.part === 'whole') issues.push({ loc: ['body'], code: 'missing', message: 'is missing' });
      } else if (slot.part === 'path') params[slot.name] = value;
      else if (slot.part === 'query') for (const text of textsOf(value)) query.append(slot.name, text);
      else if (slot.part === 'body') members.push([slot.name, value]);
      else if (slot.part === 'form') form.push([slot, value]);
      else whole = value;
    }
    for (const { name, converter } of this.#template.parameters) {
      const written = Object.hasOwn(params, name) ? writeSegment(converter, params[name]) : undefined;
      if (written !== undefined && 'problem' in written)
        issues.push({ loc: ['path', name], code: 'path', message: written.problem });
    }
    const body = this.#bodyOf(whole === undefined ? Object.fromEntries(members) : whole, form, issues);
    if (issues.length > 0) return { issues };
    const search = String(query);
    return {
      target: fillTemplate(this.#subject, this.#template, params) + (search === '' ? '' : `?${search}`),
      body,
    };
  }

  /** What the model calls the place of an issue: `query.page` is `page`. */
  placeOf(loc: Issue['loc']): string {
    const [part, name, ...rest] = loc;
    if (part === 'argument') return String(name);
    const slot = this.#slots.find((each) => each.part === part && each.name === name);
    if (slot !== undefined) return [slot.argument, ...rest].join('.');
    const whole = part === 'body' ? this.#slots.find((each) => each.part === 'whole') : undefined;
    return whole === undefined ? loc.join('.') : [whole.argument, ...loc.slice(1)].join('.');
  }

  #unknown(name: string): Issue {
    const near = closest(name, this.#byName.keys());
    return {
      loc: ['argument', name],
      code: 'unknown',
      message:
        near === undefined
          ? 'is no argument of this tool'
          : `is no argument of this tool: did you mean "${near}"?`,
    };
  }

  #bodyOf(
    value: unknown,
    form: readonly (readonly [Slot, unknown])[],
    issues: Issue[],
  ): RequestInput['body'] {
    switch (this.#body) {
      case undefined:
        return undefined;
      case 'json':
        return JSON.stringify(value);
      case 'form':
        return new URLSearchParams(
          form.flatMap(([{ name }, text]) => textsOf(text).map((one): [string, string] => [name, one])),
        );
      case 'files':
        return multipart(form, issues);
    }
  }
}

/** Every argument; of two parts of a request that have the same name, the one that comes first keeps it. */
function slotsOf(template: ParsedTemplate, { texts, body, form }: RouteInputs, schemas: JsonSchemas): Slot[] {
  const slots: Slot[] = [];
  const taken = new Set<string>();
  const add = (slot: Omit<Slot, 'isFile'> & { readonly isFile?: boolean }): void => {
    taken.add(slot.argument);
    slots.push({ isFile: false, ...slot });
  };
  for (const { name, converter } of template.parameters)
    add({ argument: name, part: 'path', name, schema: pathSchema(converter.name), isRequired: true });
  const query = texts
    .filter(({ from }) => from === 'query')
    .flatMap(({ plan }) => plan.fields)
    .filter((field) => !field.isReadOnly);
  for (const [name, fields] of Map.groupBy(query, (field) => field.wireName)) {
    // several dependencies may read the same one
    add({
      argument: free(name, 'query', taken),
      part: 'query',
      name,
      schema: schemas.field(fields[0]!, 'input'),
      isRequired: fields.some((field) => field.isRequired),
    });
  }
  for (const field of form?.fields ?? []) {
    if (field.isReadOnly) continue;
    const isFile = fileLimit(field.node) !== undefined;
    add({
      argument: free(field.wireName, 'form', taken),
      part: 'form',
      name: field.wireName,
      isRequired: field.isRequired,
      isFile,
      schema: isFile ? fileSchema(field, schemas) : schemas.field(field, 'input'),
    });
  }
  if (body === undefined) return slots;
  const members = membersOf(body.node)?.filter((field) => !field.isReadOnly);
  if (members?.every((field) => !taken.has(field.wireName)) === true) {
    for (const field of members)
      add({
        argument: field.wireName,
        part: 'body',
        name: field.wireName,
        schema: schemas.field(field, 'input'),
        isRequired: field.isRequired,
      });
  } else
    add({
      argument: free('body', 'request', taken),
      part: 'whole',
      name: 'body',
      schema: schemas.type(body.node, 'input'),
      isRequired: true,
    });
  return slots;
}

/** The fields of a plain object that takes no others. */
function membersOf(node: TypeNode): readonly FieldPlan[] | undefined {
  if (node.kind === 'lazy') return membersOf(node.resolve());
  if (node.kind !== 'object') return undefined;
  const plan = node.plan();
  return plan.extra === 'allow' ? undefined : plan.fields;
}

function free(name: string, prefix: string, taken: ReadonlySet<string>): string {
  let argument = name;
  while (taken.has(argument)) argument = `${prefix}_${argument}`;
  return argument;
}

function objectSchema(slots: readonly Slot[], definitions: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const required = slots.filter((slot) => slot.isRequired).map((slot) => slot.argument);
  return {
    type: 'object',
    properties: Object.fromEntries(slots.map((slot) => [slot.argument, slot.schema] as const)),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions }),
  };
}

const PATH_SCHEMAS: Readonly<Record<ConverterName, JsonSchema>> = {
  str: { type: 'string', minLength: 1 },
  path: { type: 'string', minLength: 1 },
  uuid: { type: 'string', format: 'uuid' },
  float: { type: 'number' },
  int: { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
};

function pathSchema(converter: ConverterName): JsonSchema {
  return { ...PATH_SCHEMAS[converter] };
}

/** A file, or a list of them. */
function fileSchema(field: FieldPlan, schemas: JsonSchemas): JsonSchema {
  const { description } = schemas.field(field, 'input');
  const one: JsonSchema = {
    type: 'object',
    required: ['data'],
    additionalProperties: false,
    properties: {
      filename: { type: 'string' },
      contentType: { type: 'string' },
      data: { type: 'string', contentEncoding: 'base64', description: 'The content in base64' },
    },
  };
  const schema: JsonSchema = field.isList ? { type: 'array', items: one } : one;
  return description === undefined ? schema : { ...schema, description };
}

/** What a text source is given for a value: each item of a list on its own; nothing for what is not there. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap((item: unknown) => textsOf(item));
  if (value === null) return [''];
  return [typeof value === 'object' ? JSON.stringify(value) : String(value)];
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

function multipart(form: readonly (readonly [Slot, unknown])[], issues: Issue[]): FormData {
  const data = new FormData();
  for (const [{ name, isFile }, value] of form) {
    if (!isFile) for (const text of textsOf(value)) data.append(name, text);
    else {
      for (const [index, file] of [value].flat().entries()) {
        const {
          data: content,
          filename = 'file',
          contentType = 'application/octet-stream',
        } = isObject(file) ? file : {};
        if (
          typeof content === 'string' &&
          BASE64.test(content) &&
          typeof filename === 'string' &&
          typeof contentType === 'string'
        ) {
          data.append(name, new Blob([Buffer.from(content, 'base64')], { type: contentType }), filename);
        } else
          issues.push({
            loc: Array.isArray(value) ? ['form', name, index] : ['form', name],
            code: 'file',
            message: 'must be { filename, contentType, data } with its content in base64',
          });
      }
    }
  }
  return data;
}
