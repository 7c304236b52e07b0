/**
 * Converts routes to MCP tools, with names, descriptions, hints and schemas.
 *
 * A tool has the name that its route declares, else a name made from method and path: `GET /users/{id:int}`
 * is `get_users_by_id`. Characters that tool names do not allow become `_`.
 */
import { pathSchema } from '../openapi/inputs.ts';
import { JsonSchemas } from '../schema/json-schema.ts';
import { responseTypes } from '../routing/spec.ts';
import { compileType, fileLimit, standardDocument, standardFields } from '../schema/schema.ts';
import { fromBase64 } from '../schema/formats.ts';
import { defined, isRecord, didYouMean, outOfRange, own } from '../base/options.ts';
import { CONVERTERS, fillTemplate, writeSegment } from '../http/path.ts';
import type { JsonSchema } from '../schema/json-schema.ts';
import type { Dialect, JsonObject } from './messages.ts';
import type { FieldPlan, TypeNode } from '../schema/schema.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { RouteSpec, ToolDescription, ToolHints } from '../routing/spec.ts';
import type { ParsedTemplate } from '../http/path.ts';
import type { RouteInputs } from '../routing/call.ts';
import type { Issue } from '../base/errors.ts';

/** A tool as clients see it. */
export interface Tool {
  /** Name by which clients call the tool. */
  readonly name: string;
  /** Name to show to users. */
  readonly title?: string;
  /** Tells the model when to use the tool. */
  readonly description?: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: JsonSchema;
  /** JSON Schema of `structuredContent`. */
  readonly outputSchema?: JsonSchema;
  /** Hints about effects of the tool. */
  readonly annotations?: ToolHints & { readonly title?: string };
}

export class PlannedTool {
  readonly name: string;
  readonly detail: RouteDetail;
  /** Whether the tool is a function of the application instead of a route. */
  readonly isFunction: boolean;
  readonly arguments: ArgumentPlan;
  readonly output: OutputPlan;
  /** Whether the declaration of the tool has a description. */
  readonly isDescribed: boolean;
  readonly #title: string | undefined;
  readonly #description: string;
  readonly #hints: ToolHints;

  constructor(name: string, detail: RouteDetail, isFunction: boolean) {
    const { route, declared } = detail;
    const { spec, template } = declared;
    const subject = `${route.method} ${route.template}`;
    const own = described(detail);
    const description = own.description ?? spec.description ?? spec.summary;
    this.name = name;
    this.detail = detail;
    this.isFunction = isFunction;
    this.arguments = new ArgumentPlan(subject, template, detail.inputs, own.paramHeaders);
    this.output = new OutputPlan(subject, spec.response);
    this.isDescribed = description !== undefined;
    this.#title = own.title ?? spec.summary;
    this.#description =
      ((spec.deprecated ?? false) !== false ? 'Deprecated. ' : '') + (description ?? subject);
    this.#hints = { ...hintsOf(route.method), ...defined(own.annotations ?? {}) };
  }

  /** Returns the tool as clients of this protocol version see it. */
  definition(dialect: Dialect): Tool {
    const outputSchema = this.output.schema(dialect);
    const title = this.#title;
    return {
      name: this.name,
      ...(title !== undefined && dialect.hasStructure ? { title } : {}),
      description: this.#description,
      inputSchema: this.arguments.schema,
      ...(outputSchema === undefined ? {} : { outputSchema }),
      ...(dialect.hasAnnotations
        ? { annotations: title === undefined ? this.#hints : { title, ...this.#hints } }
        : {}),
    };
  }
}

interface NamedTool {
  readonly detail: RouteDetail;
  /** Name of the tool before duplicates get a number. */
  readonly wanted: string;
  readonly name: string;
}

/**
 * Returns the names of all tools: first of routes, then of functions, in the order of declaration. Duplicates
 * get a number at the end. Prompts and resources are left out.
 */
export function planNames(
  details: readonly RouteDetail[],
  functions: readonly RouteDetail[],
): readonly NamedTool[] {
  const taken = new Set<string>();
  const called = functions.filter((detail) => !isPrompt(detail) && !isResource(detail));
  return [...details.filter(isTool), ...called].map((detail) => {
    const wanted = nameOf(detail);
    let name = wanted;
    for (let n = 2; taken.has(name); n++) name = `${wanted.slice(0, MAX_NAME - 4)}_${n}`;
    taken.add(name);
    return { detail, wanted, name };
  });
}

export function isPrompt({ declared: { spec } }: RouteDetail): boolean {
  return spec.tags?.includes('prompt') === true;
}

export function isResource({ declared: { spec } }: RouteDetail): boolean {
  return spec.tags?.includes('resource') === true;
}

const MAX_NAME = 128;
const NO_TOOLS: ReadonlySet<string> = new Set(['HEAD', 'OPTIONS', 'TRACE', 'CONNECT']);

function isTool({ route, declared: { spec, mount }, isOperation }: RouteDetail): boolean {
  return !isOperation && spec.mcp !== false && mount === undefined && !NO_TOOLS.has(route.method);
}

function described({ declared }: RouteDetail): ToolDescription {
  const { mcp } = declared.spec;
  return typeof mcp === 'object' ? mcp : {};
}

function nameOf(detail: RouteDetail): string {
  const { methods, spec, template } = detail.declared;
  const method = detail.route.method.toLowerCase();
  const name = described(detail).name ?? spec.name;
  const several = methods.filter((each) => !NO_TOOLS.has(each)).length > 1 ? `${method}_` : '';
  if (name !== undefined) return clean(several + name);
  const { literals, parameters } = template;
  const words = literals.flatMap((literal, index) => [
    ...literal.split('/'),
    ...(parameters[index] === undefined ? [] : [`by_${parameters[index].name}`]),
  ]);
  const named = words.filter((word) => /[A-Za-z0-9]/.test(word));
  return clean([method, ...(named.length === 0 ? ['root'] : named)].join('_'));
}

function clean(name: string): string {
  return name.replace(/[^A-Za-z0-9_.-]+/g, '_').slice(0, MAX_NAME) || '_';
}

/** Returns the hints of an HTTP method (RFC 9110 §9.2). Changes count as destructive. */
function hintsOf(method: string): ToolHints {
  const readOnlyHint = method === 'GET' || method === 'QUERY';
  return {
    readOnlyHint,
    destructiveHint: !readOnlyHint,
    idempotentHint: readOnlyHint || method === 'PUT' || method === 'DELETE',
  };
}

/*
 * The output of a tool: the `response` of its route, as JSON Schema and as a value. In the protocol versions
 * 2025-06-18 and 2025-11-25, the output must be an object, so a list becomes { result: [...] }. Since version
 * 2026-07-28, a list stays a list.
 */

class OutputPlan {
  /** The output schema; undefined if the route declares no response. */
  readonly #schema: JsonSchema | undefined;
  readonly #wrapped: JsonSchema | undefined;

  constructor(subject: string, response: RouteSpec['response']) {
    const sources = responseTypes(response)
      .filter(([status = 200]) => status < 300)
      .map(([, source]) => source);
    if (sources.length === 0) return;
    const schemas = new JsonSchemas({ prefix: PREFIX });
    const variants = sources.map((source) =>
      schemas.type(compileType(source, `the response of ${subject}`).node, 'output'),
    );
    const { schema, definitions } = inlined(
      variants.length === 1 ? variants[0]! : { anyOf: variants },
      schemas.components(),
    );
    const isAlwaysObject =
      schema['type'] === 'object' ||
      (variants.length > 1 &&
        variants.every((variant) => inlined(variant, schemas.components()).schema['type'] === 'object'));
    const $defs = Object.keys(definitions).length === 0 ? {} : { $defs: definitions };
    this.#schema = isAlwaysObject ? { type: 'object', ...schema, ...$defs } : { ...schema, ...$defs };
    if (!isAlwaysObject)
      this.#wrapped = {
        type: 'object',
        properties: { result: schema },
        required: ['result'],
        additionalProperties: false,
        ...$defs,
      };
  }

  schema(dialect: Dialect): JsonSchema | undefined {
    if (!dialect.hasStructure) return undefined;
    return dialect.isModern ? this.#schema : (this.#wrapped ?? this.#schema);
  }

  /** Returns `structuredContent`, if the protocol version can express the value. */
  structure(value: unknown, dialect: Dialect): unknown {
    if (!dialect.hasStructure) return undefined;
    if (dialect.isModern) return value;
    if (this.#wrapped !== undefined) return { result: value };
    return isRecord(value) ? value : undefined;
  }
}

const PREFIX = '#/$defs/';

/**
 * Replaces a reference at the root of a schema by its definition, because clients look for `type` at the
 * root. Definitions that are no longer used are removed.
 */
function inlined(
  schema: JsonSchema,
  definitions: Readonly<Record<string, JsonSchema>>,
): { readonly schema: JsonSchema; readonly definitions: Readonly<Record<string, JsonSchema>> } {
  const { $ref, ...beside } = schema;
  if (typeof $ref !== 'string') return { schema, definitions };
  const name = $ref.slice(PREFIX.length);
  const root = { ...definitions[name], ...beside };
  const others = Object.entries(definitions).filter(([other]) => other !== name);
  const isNeeded = JSON.stringify([root, others]).includes(JSON.stringify($ref));
  return { schema: root, definitions: isNeeded ? definitions : Object.fromEntries(others) };
}

/** The part of a request to which an argument belongs. */
type Part = 'path' | 'query' | 'body' | 'form' | 'whole';

interface Slot {
  readonly argument: string;
  readonly part: Part;
  /** The name of the path parameter, query parameter or body member in the route. */
  readonly name: string;
  readonly schema: JsonSchema;
  readonly isRequired: boolean;
  readonly isFile?: boolean;
}

/** Target and body of the request to a route. */
export interface RequestInput {
  readonly target: string;
  readonly body?: string | URLSearchParams | FormData | undefined;
}

/**
 * The arguments of a tool: path, query and body of a route as one object, which is converted back to a
 * request.
 *
 * Examples of a route, its body and the arguments of the tool:
 *   - GET /users/{id:int}?verbose=... without a body has the arguments { id, verbose }
 *   - POST /users/{id:int} with the body { name, email } has the arguments { id, name, email }
 *   - PUT /users/{id:int} with the body { id, name } has the arguments { id, body: { id, name } }
 *   - POST /scores with the body [ 1, 2 ] has the arguments { body: [ 1, 2 ] }
 *
 * The body becomes the single argument `body` if a member has the name of another argument, or if the body is
 * not a plain object.
 *
 * A query parameter with the name of another argument becomes `query_...`. Headers and cookies are not
 * arguments: the client sends them, and a model must not choose them. Files are base64 in JSON: `{ filename,
 * contentType, data }`.
 */
class ArgumentPlan {
  /** JSON Schema of the arguments. Shared definitions are in `$defs`. */
  readonly schema: JsonSchema;
  /** Arguments that clients over HTTP repeat as `Mcp-Param-` with this name. */
  readonly paramHeaders: readonly (readonly [argument: string, header: string])[];
  /** Header fields that the route reads, in lower case. The caller sends them. */
  readonly fields: readonly string[];
  readonly #subject: string;
  readonly #template: ParsedTemplate;
  readonly #slots: readonly Slot[];
  readonly #byName: ReadonlyMap<string, Slot>;
  readonly #body: 'json' | 'form' | 'files' | undefined;

  constructor(
    subject: string,
    template: ParsedTemplate,
    inputs: RouteInputs,
    paramHeaders: ToolDescription['paramHeaders'] = {},
  ) {
    this.#subject = subject;
    this.#template = template;
    const schemas = new JsonSchemas({ prefix: PREFIX });
    this.#slots = slotsOf(template, inputs, schemas);
    this.#byName = new Map(this.#slots.map((slot) => [slot.argument, slot]));
    this.#body =
      inputs.body !== undefined
        ? 'json'
        : inputs.form === undefined
          ? undefined
          : this.#slots.some(({ isFile }) => isFile === true)
            ? 'files'
            : 'form';
    this.fields = headerFieldsOf(inputs);
    this.paramHeaders = Object.entries(paramHeaders);
    const properties = this.#slots.map(({ argument, schema }): [string, JsonSchema] => [
      argument,
      Object.hasOwn(paramHeaders, argument) ? { ...schema, 'x-mcp-header': paramHeaders[argument] } : schema,
    ]);
    this.#assertRepeatable(Object.fromEntries(properties));
    this.schema = {
      ...objectSchema(this.#slots, schemas.components()),
      ...foreignRules(this.#slots, inputs),
      properties: Object.fromEntries(properties),
    };
  }

  #assertRepeatable(properties: Readonly<Record<string, JsonSchema>>): void {
    for (const [name] of this.paramHeaders) {
      const schema = own(properties, name);
      if (!['string', 'integer', 'number', 'boolean'].includes(String(schema?.['type'])))
        throw outOfRange(
          `mcp of ${this.#subject}`,
          'paramHeaders',
          'must name arguments that are text, numbers or booleans',
          name,
        );
    }
  }

  /** Converts arguments to a request, whose values the route validates, or returns issues. */
  read(given: JsonObject): RequestInput | { readonly issues: readonly Issue[] } {
    const issues: Issue[] = [];
    for (const name of Object.keys(given)) if (!this.#byName.has(name)) issues.push(this.#unknown(name));
    const params: Record<string, unknown> = {};
    const query = new URLSearchParams();
    const members: [string, unknown][] = [];
    const form: [Slot, unknown][] = [];
    let whole: unknown;
    for (const slot of this.#slots) {
      const value = own(given, slot.argument);
      if (value === undefined) {
        if (slot.part === 'path' && slot.isRequired)
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

  /** Converts the location of an issue to an argument: `query.page` becomes `page`. */
  placeOf(loc: Issue['loc']): string {
    const [part, name, ...rest] = loc;
    if (part === 'argument') return String(name);
    const slot = this.#slots.find((each) => each.part === part && each.name === name);
    if (slot !== undefined) return [slot.argument, ...rest].join('.');
    const whole = part === 'body' ? this.#slots.find((each) => each.part === 'whole') : undefined;
    return whole === undefined ? loc.join('.') : [whole.argument, ...loc.slice(1)].join('.');
  }

  #unknown(name: string): Issue {
    const message = `is not an argument of this tool${didYouMean(name, this.#byName.keys())}`;
    return { loc: ['argument', name], code: 'unknown', message };
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

/** Returns the header fields that a route reads, in lower case. */
export function headerFieldsOf({ texts }: RouteInputs): readonly string[] {
  return texts
    .filter(({ from }) => from === 'header')
    .flatMap((input) => input.plan.fields.map(({ wireName }) => input.nameOf(wireName)));
}

/**
 * Returns one argument for each path parameter, query parameter, form field and body member. A name that is
 * already taken gets a prefix. The JSON body is one argument if a member's name is already taken, or if the
 * body is not a plain object.
 */
function slotsOf(template: ParsedTemplate, { texts, body, form }: RouteInputs, schemas: JsonSchemas): Slot[] {
  const slots = new Map<string, Slot>();
  const add = (slot: Omit<Slot, 'argument'>, prefix: string): void => {
    let argument = slot.name;
    while (slots.has(argument)) argument = `${prefix}_${argument}`;
    slots.set(argument, { ...slot, argument });
  };
  const addField = (part: Part, field: FieldPlan): void => {
    const { wireName: name, isRequired } = field;
    const isFile = part === 'form' && fileLimit(field.node) !== undefined;
    const schema = isFile ? fileSchema(field, schemas) : schemas.field(field, 'input');
    add({ part, name, schema, isRequired, isFile }, part);
  };
  for (const { name, converter } of template.parameters) {
    const isRequired = converter !== CONVERTERS['path?'];
    add({ part: 'path', name, schema: pathSchema(converter), isRequired }, 'path');
  }
  const query = texts.filter(({ from }) => from === 'query').flatMap(({ plan }) => plan.fields);
  for (const field of query) {
    const earlier = slots.values().find(({ part, name }) => part === 'query' && name === field.wireName);
    if (field.isReadOnly) continue;
    if (earlier === undefined) addField('query', field);
    else if (field.isRequired) slots.set(earlier.argument, { ...earlier, isRequired: true });
  }
  for (const field of form?.fields ?? []) if (!field.isReadOnly) addField('form', field);
  if (body === undefined) return [...slots.values()];
  const members = membersOf(body.node)?.filter((field) => !field.isReadOnly);
  if (members?.every((field) => !slots.has(field.wireName)) === true)
    for (const field of members) addField('body', field);
  else
    add(
      { part: 'whole', name: 'body', schema: schemas.type(body.node, 'input'), isRequired: true },
      'request',
    );
  return [...slots.values()];
}

/** Keywords of an object that follow from its arguments, or say nothing. */
const OF_ARGUMENTS: ReadonlySet<string> = new Set(
  '$schema type properties required additionalProperties title description'.split(' '),
);

/** Returns the schema of another library, if it has rules between all arguments. */
function foreignRules(slots: readonly Slot[], { body }: RouteInputs): JsonSchema {
  if (body?.node.kind !== 'standard' || !slots.every(({ part }) => part === 'body')) return {};
  const document = standardDocument(body.node.schema, 'input') ?? {};
  const hasRules = Object.keys(document).some((keyword) => !OF_ARGUMENTS.has(keyword));
  return hasRules ? { ...document, additionalProperties: false } : {};
}

/** Returns the fields of an object schema that allows no other members; undefined for other types. */
function membersOf(node: TypeNode): readonly FieldPlan[] | undefined {
  if (node.kind === 'lazy') return membersOf(node.resolve());
  if (node.kind !== 'object' && node.kind !== 'standard') return undefined;
  const plan = node.kind === 'object' ? node.plan() : standardFields(node.schema);
  if (node.kind === 'standard' && plan.fields.length === 0) return undefined;
  return plan.extra === 'allow' ? undefined : plan.fields;
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

/** Converts a value to texts for a query or form: one for each item of a list, an empty text for null. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap((item: unknown) => textsOf(item));
  if (value === null) return [''];
  return [typeof value === 'object' ? JSON.stringify(value) : String(value)];
}

/** Decodes base64 text. The padding may be missing, because models often omit it. */
function bytesOf(data: unknown): Uint8Array<ArrayBuffer> | undefined {
  if (typeof data !== 'string') return undefined;
  return fromBase64(data.endsWith('=') ? data : data + '='.repeat(-data.length & 3));
}

function multipart(form: readonly (readonly [Slot, unknown])[], issues: Issue[]): FormData {
  const data = new FormData();
  for (const [{ name, isFile }, value] of form) {
    if (isFile !== true) for (const text of textsOf(value)) data.append(name, text);
    else {
      for (const [index, file] of [value].flat().entries()) {
        const given = isRecord(file) ? file : {};
        const { data: coded, filename = 'file', contentType = 'application/octet-stream' } = given;
        const content = bytesOf(coded);
        if (content !== undefined && typeof filename === 'string' && typeof contentType === 'string') {
          data.append(name, new Blob([content], { type: contentType }), filename);
        } else
          issues.push({
            loc: Array.isArray(value) ? ['form', name, index] : ['form', name],
            code: 'file',
            message: 'must be { filename, contentType, data }, where "data" is the content in base64',
          });
      }
    }
  }
  return data;
}
