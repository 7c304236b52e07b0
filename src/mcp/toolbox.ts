/**
 * Functions of an application that are no routes: tools and prompts. Declared as routes are, in a table of their own that nothing
 * from outside can reach; a call goes through the same middleware, and is logged and counted as `POST /mcp/tools/name`.
 */
import { SvcError } from '../base/errors.ts';
import { Routes } from '../routing/route.ts';
import { Field, FieldType, Schema, isSchemaClass } from '../schema/schema.ts';
import { FieldMarker } from '../schema/nodes.ts';
import { JSONResponse, HttpResponse } from '../http/response.ts';
import type { InputOf, InputShape } from '../routing/di.ts';
import type { PromptMessage } from './prompts.ts';
import type { CheckedSpec, Injected } from '../routing/route.ts';
import type { RouteSpec, ToolHints } from '../routing/spec.ts';
import type { FieldOptions, TypeSource } from '../schema/schema.ts';
import type { Awaitable, Context } from '../http/contracts.ts';

/** What a tool that is no route asks for and says about itself. Every other key is a dependency, as in the spec of a route. */
export interface ToolSpec extends Pick<
  RouteSpec,
  | 'response'
  | 'headers'
  | 'cookies'
  | 'timeoutMs'
  | 'rateLimit'
  | 'security'
  | 'use'
  | 'meta'
  | 'maxBodyBytes'
  | 'public'
  | 'deprecated'
> {
  /** For people. */
  readonly title?: string | undefined;
  /** For models: what it does, and when to use it. */
  readonly description?: string | undefined;
  /** Its arguments: fields, or a schema class. */
  readonly args?: InputShape | undefined;
  /** Default: it may change and overwrite things. */
  readonly annotations?: ToolHints | undefined;
}

/** What a prompt asks for and says about itself. Every other key is a dependency. */
export interface PromptSpec extends Pick<
  RouteSpec,
  'headers' | 'cookies' | 'timeoutMs' | 'rateLimit' | 'security' | 'use' | 'meta' | 'public'
> {
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  /** Its arguments, which clients send as text: fields, or a schema class. */
  readonly args?: InputShape | undefined;
}

/** `S`, or a sentence at each key that is neither option nor dependency. */
export type CheckedTool<S, O> = {
  readonly [K in keyof S]: K extends keyof O ? O[K] : CheckedSpec<S>[K & keyof CheckedSpec<S>];
};
/** What the function of a tool or prompt gets. */
export type ToolContext<S> = Context &
  Injected<S, keyof ToolSpec> &
  (S extends { readonly args: infer A extends InputShape }
    ? { readonly args: InputOf<A> }
    : { readonly args: Record<never, never> });
/** What a prompt gives: text of the user, or messages. */
export type PromptReply = string | readonly PromptMessage[];

/** Begins the path of each. */
const TOOLS = '/mcp/tools/';
const PROMPTS = '/mcp/prompts/';
const NAME = /^[A-Za-z0-9_.-]{1,128}$/;

/** The functions of one application. */
export class Toolbox extends Routes {
  readonly #names = new Set<string>();

  constructor() {
    super({});
  }

  /** @throws SvcError `E_MCP_NAME`, `E_ROUTE_SPEC`, `E_OPTION_RANGE` */
  tool(name: string, given: object, fn: (context: never) => unknown): void {
    const { args, title, description, annotations, ...spec } = given as ToolSpec;
    const body = args === undefined ? undefined : typeOf(args);
    const handler = fn as (context: object) => unknown;
    this.#add('tool', name);
    this.addRoute(['POST'], TOOLS + name, [
      { ...spec, body, summary: title, description, mcp: { name, annotations } },
      (context: Context & { readonly body?: unknown }) =>
        handler(Object.assign(context, { args: context.body ?? {} })),
    ]);
  }

  /** @throws SvcError `E_MCP_NAME`, `E_ROUTE_SPEC`, `E_OPTION_RANGE` */
  prompt(name: string, given: object, fn: (context: never) => unknown): void {
    const { args, title, description, ...spec } = given as PromptSpec;
    const ask = fn as (context: object) => Awaitable<PromptReply>;
    this.#add('prompt', name);
    this.addRoute(['GET'], PROMPTS + name, [
      { ...spec, query: args, summary: title, description, name, tags: ['prompt'] },
      async (context: Context & { readonly query?: unknown }) =>
        promptAnswer(await ask(Object.assign(context, { args: context.query ?? {} })), description),
    ]);
  }

  #add(kind: 'tool' | 'prompt', name: string): void {
    if (typeof name !== 'string' || !NAME.test(name))
      throw new SvcError('E_MCP_NAME', [String(name), 'is not 1 … 128 characters out of A-Z a-z 0-9 _ - .']);
    if (this.#names.has(`${kind} ${name}`))
      throw new SvcError('E_MCP_NAME', [name, `belongs to another ${kind}`]);
    this.#names.add(`${kind} ${name}`);
  }
}

function promptAnswer(reply: PromptReply | HttpResponse, description: string | undefined): HttpResponse {
  if (reply instanceof HttpResponse) return reply;
  const messages: readonly PromptMessage[] =
    typeof reply === 'string' ? [{ role: 'user', content: { type: 'text', text: reply } }] : reply;
  return new JSONResponse(description === undefined ? { messages } : { description, messages });
}

/** A schema class as it is, fields as a class that has them: bodies are of a type. */
function typeOf(args: InputShape): TypeSource {
  if (isSchemaClass(args) || args instanceof FieldType) return args as TypeSource;
  const fields = Object.entries(args);
  class Arguments extends Schema {
    constructor(data: never) {
      super(data);
      for (const [name, marker] of fields) {
        if (marker instanceof FieldMarker)
          (this as Record<string, unknown>)[name] = Field(
            marker.source as TypeSource,
            marker.options as FieldOptions<unknown>,
          );
      }
    }
  }
  return Arguments as unknown as TypeSource;
}
