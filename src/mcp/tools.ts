/**
 * Compiled routes -> tools: names, descriptions, hints and schemas, decided once.
 *
 *   GET /users/{id:int}            get_users_by_id
 *   POST /users  name: 'addUser'   addUser            a name of the spec is the tool's, what no tool may have in it is `_`
 */
import { ArgumentPlan } from './arguments.ts';
import { OutputPlan } from './output.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { JsonSchema } from '../schema/json-schema.ts';
import type { Dialect } from './messages.ts';
import type { ToolDescription, ToolHints } from '../routing/spec.ts';

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
