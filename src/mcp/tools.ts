/**
 * Compiled routes -> tools: names, descriptions, hints and schemas, decided once.
 *
 *   GET /users/{id:int}            get_users_by_id
 *   POST /users  name: 'addUser'   addUser            a name of the spec is the tool's, what no tool may have in it is `_`
 */
import { ArgumentPlan } from './arguments.ts';
import { JsonSchemas } from '../schema/json-schema.ts';
import { isObject } from './messages.ts';
import { FieldType, compileType } from '../schema/schema.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { JsonSchema } from '../schema/json-schema.ts';
import type { Dialect } from './messages.ts';
import type { RouteSpec, ToolDescription, ToolHints } from '../routing/spec.ts';
import type { TypeSource } from '../schema/schema.ts';

/** A tool as clients see it. */
export interface Tool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly annotations?: ToolHints & { readonly title?: string };
}

/** What can be called by a name. */
export class PlannedTool {
  readonly name: string;
  readonly detail: RouteDetail;
  /** Whether it is no route, and only the application itself may call it. */
  readonly isFunction: boolean;
  readonly arguments: ArgumentPlan;
  readonly output: OutputPlan;
  /** Whether somebody has said what it does. */
  readonly isDescribed: boolean;
  readonly #title: string | undefined;
  readonly #description: string;
  readonly #hints: ToolHints;

  constructor(name: string, detail: RouteDetail, isFunction: boolean) {
    const {
      route,
      declared: { spec, template },
    } = detail;
    const subject = `${route.method} ${route.template}`;
    const own = described(detail);
    const description = own.description ?? spec.description ?? spec.summary;
    this.name = name;
    this.detail = detail;
    this.isFunction = isFunction;
    this.arguments = new ArgumentPlan(subject, template, detail.inputs);
    this.output = new OutputPlan(subject, spec.response);
    this.isDescribed = description !== undefined;
    this.#title = own.title ?? spec.summary;
    this.#description = (spec.deprecated === true ? 'Deprecated. ' : '') + (description ?? subject);
    this.#hints = { ...hintsOf(route.method), ...withoutUndefined(own.annotations ?? {}) };
  }

  /** As clients of a version see it. */
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

/** Every route that is a tool, then every function, in order of declaration. */
export function planTools(
  details: readonly RouteDetail[],
  functions: readonly RouteDetail[],
): readonly PlannedTool[] {
  return planNames(details, functions).map(
    ({ name, detail }) => new PlannedTool(name, detail, functions.includes(detail)),
  );
}

/** What a tool is called. */
export interface NamedTool {
  readonly detail: RouteDetail;
  /** What it would be called if it were alone. */
  readonly wanted: string;
  readonly name: string;
}

/** The names of all tools: the second of a name has a number behind it. Prompts are none. */
export function planNames(
  details: readonly RouteDetail[],
  functions: readonly RouteDetail[],
): readonly NamedTool[] {
  const taken = new Set<string>();
  return [...details.filter(isTool), ...functions.filter((detail) => !isPrompt(detail))].map((detail) => {
    const wanted = nameOf(detail);
    let name = wanted;
    for (let n = 2; taken.has(name); n++) name = `${wanted.slice(0, MAX_NAME - 4)}_${n}`;
    taken.add(name);
    return { detail, wanted, name };
  });
}

/** Whether what is no route is a prompt. */
export function isPrompt({ declared: { spec } }: RouteDetail): boolean {
  return spec.tags?.includes('prompt') === true;
}

const MAX_NAME = 128;
/** They say something about others. */
const NO_TOOLS: ReadonlySet<string> = new Set(['HEAD', 'OPTIONS', 'TRACE', 'CONNECT']);

function isTool({ route, declared: { spec, mount }, isOperation }: RouteDetail): boolean {
  return !isOperation && spec.mcp !== false && mount === undefined && !NO_TOOLS.has(route.method);
}

function described({
  declared: {
    spec: { mcp },
  },
}: RouteDetail): ToolDescription {
  return typeof mcp === 'object' ? mcp : {};
}

function nameOf(detail: RouteDetail): string {
  const {
    route: { method },
    declared: { methods, spec, template },
  } = detail;
  const name = described(detail).name ?? spec.name;
  const several = methods.filter((each) => !NO_TOOLS.has(each)).length > 1 ? `${method.toLowerCase()}_` : '';
  if (name !== undefined) return clean(several + name);
  const { literals, parameters } = template;
  const words = literals.flatMap((literal, index) => [
    ...literal.split('/'),
    ...(parameters[index] === undefined ? [] : [`by_${parameters[index].name}`]),
  ]);
  const named = words.filter((word) => /[A-Za-z0-9]/.test(word));
  return clean([method.toLowerCase(), ...(named.length === 0 ? ['root'] : named)].join('_'));
}

/** What other names have in them becomes `_`. */
function clean(name: string): string {
  return name.replace(/[^A-Za-z0-9_.-]+/g, '_').slice(0, MAX_NAME) || '_';
}

/** What RFC 9110 §9.2 says of a method. What it leaves open is told as the worse. */
function hintsOf(method: string): ToolHints {
  const readOnlyHint = method === 'GET' || method === 'QUERY';
  return {
    readOnlyHint,
    destructiveHint: !readOnlyHint,
    idempotentHint: readOnlyHint || method === 'PUT' || method === 'DELETE',
  };
}

function withoutUndefined(hints: ToolHints): ToolHints {
  return Object.fromEntries(Object.entries(hints).filter(([, hint]) => hint !== undefined));
}

/*
 * What a tool gives back, as JSON Schema and as a value: the `response` of a route, in the form that a version has for it.
 *
 *   response: User          User                 everywhere since 2025-06-18
 *   response: list(User)    { result: [...] }      2025-06-18 ... 2025-11-25, where it is an object in any case
 *                           [...]                  since 2026-07-28
 */

/** The result of one tool. */
class OutputPlan {
  /** Undefined where the route does not say what it replies with. */
  readonly #schema: JsonSchema | undefined;
  readonly #wrapped: JsonSchema | undefined;

  constructor(subject: string, response: RouteSpec['response']) {
    const sources = successes(response);
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

  /** Undefined where there is none, or the version has no room for it. */
  schema(dialect: Dialect): JsonSchema | undefined {
    if (!dialect.hasStructure) return undefined;
    return dialect.hasAnyStructure ? this.#schema : (this.#wrapped ?? this.#schema);
  }

  /** A reply as `structuredContent`, or undefined where it has no place. */
  structure(value: unknown, dialect: Dialect): unknown {
    if (!dialect.hasStructure) return undefined;
    if (dialect.hasAnyStructure) return value;
    if (this.#wrapped !== undefined) return { result: value };
    return isObject(value) ? value : undefined;
  }
}

const PREFIX = '#/$defs/';

/** Of replies that are no error. */
function successes(response: RouteSpec['response']): readonly TypeSource[] {
  if (response === undefined) return [];
  if (typeof response === 'function' || response instanceof FieldType) return [response];
  return Object.entries(response)
    .filter(([status]) => Number(status) < 300)
    .map(([, source]) => source as TypeSource); // by status, as the spec has it
}

/** The schema without a reference at its root: clients look for `type` there. What nothing refers to any more is left out. */
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
