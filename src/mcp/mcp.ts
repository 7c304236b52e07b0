/**
 * `app.mcpServer()`: the tools, prompts and resources of an application for clients of the Model Context
 * Protocol.
 *
 * Example:
 *   await app.mcpServer().serve(); // over standard input and output, until the input ends
 */
import { settingOf } from '../base/config.ts';
import { SvcError } from '../base/errors.ts';
import { fixedCaller, Toolset } from './calls.ts';
import { McpConversation } from './conversation.ts';
import { McpDispatcher, serverOptions } from './server.ts';
import { NEWEST } from './messages.ts';
import { closest, given, int, isFunction, isObject, isRecord, number, readOptions } from '../base/options.ts';
import { untilAborted } from '../base/promises.ts';
import { isFieldValue, isToken } from '../http/headers.ts';
import { reserveOutput } from './reserved-output.ts';
import { Routes } from '../routing/route.ts';
import { Field, Schema, str } from '../schema/schema.ts';
import { isTypeSource } from '../routing/spec.ts';
import { parametersOf, RESOURCE } from './resources.ts';
import type { DeclaredResource } from './resources.ts';
import { FieldMarker } from '../schema/declarations.ts';
import { HttpResponse, JSONResponse } from '../http/response.ts';
import type { Caller, McpApplication, ToolListener, ToolLogLevel } from './calls.ts';
import type { ConversationDeps } from './conversation.ts';
import type { ClientRequest } from './questions.ts';
import type { McpServerOptions } from './server.ts';
import type { OptionKind } from '../base/options.ts';
import type { ToolResult } from './results.ts';
import type { Tool } from './tools.ts';
import type { Readable, Writable } from 'node:stream';
import type { Injected } from '../routing/route.ts';
import type { FieldOptions, TypeSource } from '../schema/schema.ts';
import type { CheckedSpec, InputOf, InputShape } from '../routing/di.ts';
import type { PromptMessage } from './prompts.ts';
import type { ReservedKey, RouteSpec, ToolHints } from '../routing/spec.ts';
import type { Awaitable, Context } from '../http/contracts.ts';

/** Options of an MCP server over standard input and output. An option that is `undefined` has its default. */
export interface StdioOptions extends McpServerOptions {
  /**
   * Access token that every call sends as `Authorization: Bearer`. Default: the setting `mcpToken`
   * (environment variable SVC_MCP_TOKEN). Without a token, guarded tools refuse the call.
   */
  readonly token?: string | undefined;
  /** Further header fields of every call: `{ 'x-api-key': ... }`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Maximum length of an input line in bytes, 1_000 ... 1_000_000_000. Default 10_000_000. */
  readonly maxLineBytes?: number | undefined;
  /** Time in seconds for running calls to finish after the input has ended, 0 ... 3600. Default 5. */
  readonly graceSeconds?: number | undefined;
}

/** Streams that carry the messages. Default: standard input and output. */
export interface StdioStreams {
  /** Stream of messages from the client. */
  readonly input?: Readable | undefined;
  /** Stream of messages to the client. */
  readonly output?: Writable | undefined;
  /** Stops the server when it aborts. The end of the input stops the server too. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `app.mcpCall()`, which calls a tool in this process. */
export interface McpCallOptions {
  /** Header fields of the request: `{ authorization: 'Bearer ...' }`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** If it aborts, the call rejects at once with its reason, and the signal of the handler aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each progress report of the tool. */
  readonly onProgress?:
    ((progress: number, total: number | undefined, message: string | undefined) => void) | undefined;
  /** Called with each log message of the tool. */
  readonly onLog?: ((level: ToolLogLevel, data: unknown, logger: string | undefined) => void) | undefined;
  /**
   * Called for each request that the handler sends to the client. Returns the client's result, such as
   * `{ action: 'accept', content }`. Without this option, the handler cannot send requests to the client.
   */
  readonly onQuestion?:
    | ((
        method: ClientRequest['method'],
        params: Readonly<Record<string, unknown>>,
        key: string,
      ) => Awaitable<object>)
    | undefined;
}

/** An MCP server for one client, over standard input and output or a transport of your own. */
export class McpServer {
  readonly #app: McpApplication;
  readonly #dispatcher: McpDispatcher;
  readonly #caller: Caller;
  readonly #maxLineBytes: number;
  readonly #graceMs: number;

  /**
   * @throws SvcError `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` for an invalid option, `E_CONFIG_CAST` for
   * an invalid SVC_MCP_TOKEN
   * @internal
   */
  constructor(app: McpApplication, usualToken: string, options: StdioOptions) {
    const { token, headers, maxLineBytes, graceSeconds, ...terms } = readOptions('mcpServer()', options, {
      ...serverOptions(),
      token: given<string>(
        'a token of 1 to 8192 printable ASCII characters without spaces',
        (value) => typeof value === 'string' && TOKEN.test(value),
      ),
      headers: FIELDS,
      maxLineBytes: int(10_000_000, 1_000, 1_000_000_000),
      graceSeconds: number(5, 0, 3_600),
    });
    const bearer = token ?? (usualToken === '' ? undefined : checkedToken(usualToken));
    this.#app = app;
    this.#dispatcher = new McpDispatcher(app, { ...terms, cacheScope: 'private' });
    this.#caller = fixedCaller({
      ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
      ...headers,
    });
    this.#maxLineBytes = maxLineBytes;
    this.#graceMs = graceSeconds * 1_000;
  }

  /**
   * Starts a conversation over a transport of your own. `send` is called with the text of each outgoing
   * message. Pass the text of each incoming message to `receive()` of the conversation.
   */
  open(send: (text: string) => void): McpConversation {
    return new McpConversation({ ...this.#deps(), send });
  }

  #deps(): Omit<ConversationDeps, 'send'> {
    const { log, clock } = this.#app;
    return { dispatcher: this.#dispatcher, caller: this.#caller, log, clock };
  }

  /**
   * Starts the application, serves until the input ends, then shuts the application down. Meanwhile, standard
   * output carries messages only; other output goes to standard error.
   */
  async serve(streams: StdioStreams = {}): Promise<void> {
    const { input, output, signal } = readOptions('serve()', streams, {
      input: given<Readable>('a stream', isObject),
      output: given<Writable>('a stream', isObject),
      signal: given<AbortSignal>('an AbortSignal', isObject),
    });
    const reserved = output === undefined ? reserveOutput(process.stdout, process.stderr) : undefined;
    try {
      await this.#app.startup();
      const { serveStdio } = await import('./stdio.ts');
      await serveStdio({
        ...this.#deps(),
        maxLineBytes: this.#maxLineBytes,
        graceMs: this.#graceMs,
        input: input ?? process.stdin,
        output: output ?? process.stdout,
        signal,
      });
    } finally {
      try {
        await this.#app.shutdown();
      } finally {
        reserved?.[Symbol.dispose]();
      }
    }
  }
}

/** `app.mcpTools()`: returns the tools as clients of the newest protocol version see them. @internal */
export function listTools(app: McpApplication): readonly Tool[] {
  return Toolset.of(app).tools.map((tool) => tool.definition(NEWEST));
}

/**
 * `app.mcpCall()`: calls a tool in this process.
 * @internal
 */
export async function callTool(
  app: McpApplication,
  name: string,
  args: Readonly<Record<string, unknown>>,
  options: McpCallOptions,
): Promise<ToolResult> {
  const { headers, signal, onProgress, onLog, onQuestion } = readOptions('mcpCall()', options, {
    headers: FIELDS,
    signal: given<AbortSignal>('an AbortSignal', isObject),
    onProgress: given<NonNullable<McpCallOptions['onProgress']>>('a function', isFunction),
    onLog: given<NonNullable<McpCallOptions['onLog']>>('a function', isFunction),
    onQuestion: given<NonNullable<McpCallOptions['onQuestion']>>('a function', isFunction),
  });
  const toolset = Toolset.of(app);
  const tool = toolset.find(name);
  const names = toolset.tools.map((known) => known.name);
  if (tool === undefined) throw new SvcError('E_MCP_TOOL', [name, closest(name, names)]);
  const listener: ToolListener = {
    progress: (...values) => onProgress?.(...values),
    log: (...values) => onLog?.(...values),
  };
  const asker =
    onQuestion === undefined
      ? undefined
      : {
          abilities: new Set((await import('./questions.ts')).ABILITIES),
          keys: new Set<string>(),
          ask: ({ method, params, key }: ClientRequest) => onQuestion(method, params, key),
        };
  return untilAborted(signal, () =>
    toolset.call(tool, args, {
      caller: fixedCaller(headers ?? {}),
      dialect: NEWEST,
      signal: signal ?? new AbortController().signal,
      listener,
      asker,
    }),
  );
}

const TOKEN = /^[\x21-\x7e]{1,8192}$/;

function checkedToken(token: string): string {
  if (!TOKEN.test(token))
    throw new SvcError('E_CONFIG_CAST', [
      settingOf('SVC_MCP_TOKEN'),
      'a token of 1 to 8192 printable ASCII characters without spaces',
      'another text',
    ]);
  return token;
}

const FIELDS: OptionKind<Readonly<Record<string, string>> | undefined> = given(
  'an object of fields, by names of RFC 9110 and with values of one line',
  (value) =>
    isObject(value) &&
    Object.entries(value as object).every(
      ([name, field]) => isToken(name) && typeof field === 'string' && isFieldValue(field),
    ),
);

/**
 * Declaration of a tool that is a function, not a route. A key that is not an option declares a dependency,
 * such as `me: Depends(BearerAuth())`.
 */
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
  /** Title of the tool, for people. */
  readonly title?: string | undefined;
  /** Description for models: the purpose of the tool, and when to use it. */
  readonly description?: string | undefined;
  /** The arguments: an object of `Field()` members, or a schema class. */
  readonly args?: InputShape | undefined;
  /** Behaviour hints for clients. Default: the tool may change and overwrite data. */
  readonly annotations?: ToolHints | undefined;
  /** Arguments that clients over HTTP repeat as `Mcp-Param-…`: names of these header fields by argument. */
  readonly paramHeaders?: Readonly<Record<string, string>> | undefined;
}

/**
 * Declaration of a prompt. A key that is not an option declares a dependency, such as `me:
 * Depends(BearerAuth())`.
 */
export interface PromptSpec extends Pick<
  RouteSpec,
  'headers' | 'cookies' | 'timeoutMs' | 'rateLimit' | 'security' | 'use' | 'meta' | 'public'
> {
  /** Name to show to users. */
  readonly title?: string | undefined;
  /** Tells when to use the prompt. */
  readonly description?: string | undefined;
  /** The arguments, as an object of `Field()` members or a schema class. Clients send them as text. */
  readonly args?: InputShape | undefined;
}

/**
 * Declaration of a resource. A key that is not an option declares a dependency, such as `me:
 * Depends(BearerAuth())`.
 */
export interface ResourceSpec extends Pick<
  RouteSpec,
  'headers' | 'cookies' | 'timeoutMs' | 'rateLimit' | 'security' | 'use' | 'meta' | 'public'
> {
  /** Name of the resource. Default: the URI. */
  readonly name?: string | undefined;
  /** Name to show to users. */
  readonly title?: string | undefined;
  /** Tells what the resource contains. */
  readonly description?: string | undefined;
  /** Media type of the content. Default `text/plain`. */
  readonly mimeType?: string | undefined;
  /** Types of the URI's parameters. Default: each parameter is a string. */
  readonly args?: InputShape | undefined;
}

/**
 * Type of an argument that declares a tool, prompt or resource: `S` with the options `O`. Further options of
 * routes are accepted, too. Another key is a compile error with an explanation.
 */
export type CheckedTool<S, O> = CheckedSpec<
  S,
  O & Omit<RouteSpec, keyof O>,
  ReservedKey,
  'an option nor Depends(…): put your own data into meta'
>;
/** The argument that a tool or prompt function gets: the request's context, its dependencies, and `args`. */
export type ToolContext<S> = Context &
  Injected<S, keyof ToolSpec> &
  (S extends { readonly args: infer A extends InputShape }
    ? { readonly args: InputOf<A> }
    : { readonly args: Record<never, never> });
/**
 * The argument that a resource function gets: the request's context, its dependencies, and `args`. A
 * parameter of the URI is a string unless the option `args` gives its type.
 */
export type ResourceContext<S> = Context &
  Injected<S, keyof ResourceSpec> &
  (S extends { readonly args: infer A extends InputShape }
    ? { readonly args: InputOf<A> }
    : { readonly args: Readonly<Record<string, string>> });
/** The result of a prompt function. A string is one message with the role `user`. */
export type PromptReply = string | readonly PromptMessage[];

/**
 * Path prefixes of internal routes. The function of a tool, prompt or resource is the handler of such a
 * route.
 */
const TOOLS = '/mcp/tools/';
const PROMPTS = '/mcp/prompts/';
const RESOURCES = '/mcp/resources/';
const NAME = /^[A-Za-z0-9_.-]{1,128}$/;

function assertHandler(subject: string, spec: unknown, fn: unknown): void {
  if (!isRecord(spec) || typeof fn !== 'function') throw new SvcError('E_ROUTE_HANDLER', [subject]);
}

export class Toolbox extends Routes {
  readonly #names = new Set<string>();

  constructor() {
    super({});
  }

  tool(name: string, given: object, fn: (context: never) => unknown): void {
    assertHandler(`the tool "${name}"`, given, fn);
    const { args, title, description, annotations, paramHeaders, ...spec } = given as ToolSpec;
    const body = args === undefined ? undefined : typeOf(args);
    const handler = fn as (context: object) => unknown;
    this.#add('tool', name);
    const call = (context: Context & { readonly body?: unknown }): unknown =>
      handler(Object.assign(context, { args: context.body ?? {} }));
    this.addRoute(['POST'], TOOLS + name, [
      { ...spec, body, summary: title, description, mcp: { name, annotations, paramHeaders } },
      call,
    ]);
  }

  prompt(name: string, given: object, fn: (context: never) => unknown): void {
    assertHandler(`the prompt "${name}"`, given, fn);
    const { args, title, description, ...spec } = given as PromptSpec;
    const ask = fn as (context: object) => Awaitable<PromptReply>;
    this.#add('prompt', name);
    this.addRoute(['GET'], PROMPTS + name, [
      { ...spec, query: args, summary: title, description, name, tags: ['prompt'] },
      async (context: Context & { readonly query?: unknown }) =>
        promptAnswer(await ask(Object.assign(context, { args: context.query ?? {} })), description),
    ]);
  }

  resource(uri: string, given: object, fn: (context: never) => unknown): void {
    assertHandler(`the resource "${uri}"`, given, fn);
    const { args, title, description, meta, ...declared } = given as ResourceSpec;
    const { name = uri, mimeType = 'text/plain', ...spec } = declared;
    const parameters = parametersOf(uri);
    const query = args ?? Object.fromEntries(parameters.map((parameter) => [parameter, Field(str)]));
    const read = fn as (context: object) => unknown;
    this.#claim('resource', uri);
    const resource: DeclaredResource = { uri, name, mimeType };
    this.addRoute(['GET'], `${RESOURCES}${this.#names.size}`, [
      {
        ...spec,
        query,
        summary: title,
        description,
        tags: ['resource'],
        meta: { ...meta, [RESOURCE]: resource },
      },
      (context: Context & { readonly query?: unknown }) =>
        read(Object.assign(context, { args: context.query ?? {} })),
    ]);
  }

  #add(kind: 'tool' | 'prompt', name: string): void {
    if (typeof name !== 'string' || !NAME.test(name))
      throw new SvcError('E_MCP_NAME', [
        String(name),
        'must consist of 1 to 128 letters A-Z and a-z, digits, "_", "-" and "."',
      ]);
    this.#claim(kind, name);
  }

  #claim(kind: 'tool' | 'prompt' | 'resource', name: string): void {
    if (this.#names.has(`${kind} ${name}`))
      throw new SvcError('E_MCP_NAME', [name, `is already the name of another ${kind}`]);
    this.#names.add(`${kind} ${name}`);
  }
}

function promptAnswer(reply: PromptReply | HttpResponse, description: string | undefined): HttpResponse {
  if (reply instanceof HttpResponse) return reply;
  const messages: readonly PromptMessage[] =
    typeof reply === 'string' ? [{ role: 'user', content: { type: 'text', text: reply } }] : reply;
  return new JSONResponse(description === undefined ? { messages } : { description, messages });
}

/** Returns `args` as a type. A plain object of `Field()` members becomes a new schema class. */
function typeOf(args: InputShape): TypeSource {
  if (isTypeSource(args)) return args;
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
