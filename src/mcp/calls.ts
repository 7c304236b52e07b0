/**
 * A call of a tool -> a request -> its result. The request goes through everything that one over HTTP does: middleware, guards,
 * validation, limits, log and metrics.
 */
import { randomBytes } from 'node:crypto';
import { misunderstood, resultOf } from './results.ts';
import { planPrompts } from './prompts.ts';
import { isPrompt, isResource, planTools } from './tools.ts';
import { planResources } from './planned-resources.ts';
import type { PlannedResource } from './planned-resources.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { CARRIER, stateKey } from '../http/state.ts';
import { TrustedHostMiddleware } from '../http/middleware/trusted-host.ts';
import type { Clock } from '../base/clock.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { Logger } from '../observability/log.ts';
import type { Dialect, JsonObject } from './messages.ts';
import type { OpenApiDocument } from '../openapi/document.ts';
import type { PlannedPrompt } from './prompts.ts';
import type { ToolResult } from './results.ts';
import type { PlannedTool } from './tools.ts';
import type { CompiledRoute, Context, HttpRequest, StateKey } from '../http/contracts.ts';
import type { TransportRequest } from '../http/request/request.ts';

/** What the tools of an application need of it. @internal */
export interface McpApplication {
  readonly title: string;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Logger;
  startup(): Promise<void>;
  shutdown(): Promise<void>;
  /** Compiles the application. */
  application(): McpTarget;
  /** The OpenAPI document. */
  openapi(): OpenApiDocument;
}

/** A compiled application, as tools call it. @internal */
interface McpTarget {
  readonly view: Pick<CompilationView, 'details' | 'middleware' | 'tools'>;
  /** The route of a method and a path. */
  routeAt(method: string, path: string): CompiledRoute | undefined;
  /** Answers in process. `isFunction` is true for a tool that is not a route. */
  answerCall(
    request: Request,
    remoteAddress: string,
    isFunction: boolean,
    prepare: (req: TransportRequest) => void,
  ): Promise<Response>;
}

/** Who calls: what its requests bring with them. */
export interface Caller {
  /** Fields by lower-case name, for a call of that tool. */
  fieldsFor(detail: RouteDetail, fields: readonly string[]): Readonly<Record<string, string>>;
  readonly remoteAddress: string;
  /** Scheme and host: `https://example.com`. Undefined: those of an application that is called without any. */
  readonly origin: string | undefined;
  /** What its requests come with: proofs of its credentials are about that one. */
  readonly carrier?: HttpRequest | undefined;
}

/** One call. */
export interface CallDeps {
  readonly caller: Caller;
  readonly dialect: Dialect;
  readonly signal: AbortSignal;
  readonly listener?: ToolListener | undefined;
  /** Its place in a trace, as the client says. */
  readonly trace?: Readonly<Record<string, string>> | undefined;
  /** Told when the route wants another access token: none was good enough (401), or the scopes of this one are not (403). `challenge` is its WWW-Authenticate. */
  readonly challenged?: ((status: number, challenge: string) => void) | undefined;
}

/** A result that is larger is an error: nobody pays a model to read it. */
export const DEFAULT_RESULT_BYTES = 1_000_000;

const toolsets = new WeakMap<McpApplication, Toolset>();

/** The tools and prompts of an application, made once. */
export function toolsetOf(app: McpApplication): Toolset {
  return Toolset.of(app);
}

/** The tools and prompts of an application, and the way to call them. */
export class Toolset {
  readonly tools: readonly PlannedTool[];
  readonly prompts: readonly PlannedPrompt[];
  readonly resources: readonly PlannedResource[];
  readonly #app: McpApplication;
  readonly #byName: ReadonlyMap<string, PlannedTool>;
  /** Where calls go that come by no host: to one that the application answers to. */
  readonly #origin: string;
  /** Where a request without an idempotency key is refused: the field that brings it. */
  readonly #keyFields: ReadonlyMap<RouteDetail, string>;

  /** That of an application, made once. */
  static of(app: McpApplication): Toolset {
    let toolset = toolsets.get(app);
    if (toolset === undefined) toolsets.set(app, (toolset = new Toolset(app)));
    return toolset;
  }

  private constructor(app: McpApplication) {
    const { details, middleware, tools } = app.application().view;
    this.#app = app;
    this.tools = planTools(details, tools);
    this.prompts = planPrompts(tools.filter(isPrompt));
    this.resources = planResources(tools.filter(isResource));
    this.#byName = new Map(this.tools.map((tool) => [tool.name, tool]));
    this.#keyFields = new Map(
      [...details, ...tools].flatMap((detail) => {
        const layer = [...middleware, ...detail.declared.use].find(
          (candidate) =>
            candidate instanceof IdempotencyMiddleware &&
            candidate.isRequired &&
            candidate.covers(detail.route),
        );
        return layer instanceof IdempotencyMiddleware ? [[detail, layer.header]] : [];
      }),
    );
    this.#origin = `http://${middleware.find((layer) => layer instanceof TrustedHostMiddleware)?.usualHost ?? 'localhost'}`;
  }

  /** The tool of a name. */
  find(name: string): PlannedTool | undefined {
    return this.#byName.get(name);
  }

  /** Calls a tool. What goes wrong in it is a result, too. */
  async call(
    tool: PlannedTool,
    given: JsonObject,
    deps: CallDeps,
    maxBytes: number = DEFAULT_RESULT_BYTES,
  ): Promise<ToolResult> {
    const parts = partsOf(tool, given);
    if ('issues' in parts) return misunderstood(parts.issues, tool);
    if (this.#leadsElsewhere(tool, parts.target))
      return misunderstood(
        [
          {
            loc: ['path', tool.detail.declared.template.parameters.at(-1)!.name],
            code: 'path',
            message: 'leads to another route',
          },
        ],
        tool,
      ); // one without is where it is
    const response = await this.request(tool.detail, tool.arguments.fields, parts, deps, tool.isFunction);
    const challenge = response.headers.get('www-authenticate');
    if (challenge !== null && (WANTED[response.status]?.test(challenge) ?? false))
      deps.challenged?.(response.status, challenge);
    try {
      return await resultOf(response, tool, deps.dialect, maxBytes);
    } catch (error) {
      this.#app.log.warn('mcp_answer_broken', {
        tool: tool.name,
        problem: error instanceof Error ? error.message : String(error),
      });
      return {
        content: [{ type: 'text', text: 'The answer broke off before it was complete' }],
        isError: true,
      };
    }
  }

  /** Whether a path with arguments in it is that of a route that goes first: `/users/{name}` with `me` where there is `/users/me`. It may be one that is no tool. */
  #leadsElsewhere(
    {
      detail: {
        route: { method, template },
        declared,
      },
      isFunction,
    }: PlannedTool,
    target: string,
  ): boolean {
    if (isFunction || declared.template.parameters.length === 0) return false;
    const found = this.#app.application().routeAt(method, target.split('?', 1)[0]!);
    return found !== undefined && found.template !== template;
  }

  /** Sends a request in process. */
  async request(
    detail: RouteDetail,
    fields: readonly string[],
    {
      target,
      body,
    }: { readonly target: string; readonly body?: string | URLSearchParams | FormData | undefined },
    deps: CallDeps,
    isFunction: boolean,
  ): Promise<Response> {
    const { caller, signal, listener, trace } = deps;
    const headers = new Headers({ accept: 'application/json, */*;q=0.1', ...trace });
    for (const [name, value] of Object.entries(caller.fieldsFor(detail, fields)))
      if (!OURS.has(name)) headers.set(name, value);
    if (typeof body === 'string') headers.set('content-type', 'application/json');
    const keyField = this.#keyFields.get(detail);
    if (keyField !== undefined && !headers.has(keyField))
      headers.set(keyField, `"${randomBytes(16).toString('base64url')}"`); // clients of tools know of no keys: each call is one request
    const request = new Request((caller.origin ?? this.#origin) + target, {
      method: detail.route.method,
      headers,
      body: body ?? null,
      signal,
    });
    await this.#app.startup();
    signal.throwIfAborted();
    return this.#app.application().answerCall(request, caller.remoteAddress, isFunction, (req) => {
      if (listener !== undefined) req.state.set(TOOL_LISTENER, listener);
      if (caller.carrier !== undefined) req.state.set(CARRIER, caller.carrier);
    });
  }
}

/** Challenges that a client answers by getting another access token, by status (RFC 6750 §3.1, RFC 9449 §7.1). */
const WANTED: Readonly<Record<number, RegExp>> = {
  401: /(?:^|,[ \t]*)(?:bearer|dpop)(?![^ ,])/i,
  403: /[ ,]error *= *"?insufficient_scope(?![^",])/i,
};

/** A request out of arguments. What is nested so deeply that nothing can be made of it is the client's mistake, none of ours. */
function partsOf(tool: PlannedTool, given: JsonObject): ReturnType<PlannedTool['arguments']['read']> {
  try {
    return tool.arguments.read(given);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return {
      issues: [{ loc: ['arguments'], code: 'depth', message: 'are nested too deeply, or too large' }],
    };
  }
}

/** They are about the message that they come with. */
const OURS: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'content-type',
  'content-encoding',
  'transfer-encoding',
  'connection',
  'accept',
  'accept-encoding',
  'te',
  'upgrade',
  'expect',
]);

/** Somebody whose fields are always the same: a process that speaks over stdio, a test. @throws TypeError for what is no field */
export function fixedCaller(fields: Readonly<Record<string, string>>, remoteAddress = '127.0.0.1'): Caller {
  const headers: Readonly<Record<string, string>> = Object.fromEntries(new Headers({ ...fields }));
  return { fieldsFor: () => headers, remoteAddress, origin: undefined };
}

/*
 * What a handler can tell whoever called it as a tool while it works: how far it is, and what happens. For everybody else it
 * tells nobody, so that a route need not know how it was called.
 */

/** How far a call is: a number that grows, the number at which it is done, and a sentence for people. */
export type ToolProgress = (progress: number, total?: number, message?: string) => void;

/** How grave a message of a tool is (RFC 5424 §6.2.1), the least first. */
export const TOOL_LOG_LEVELS = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
] as const;
/** One of them. */
export type ToolLogLevel = (typeof TOOL_LOG_LEVELS)[number];
/** Tells the client what happens: any JSON value, by a name of yours. No secrets: models read it. */
export type ToolLog = (level: ToolLogLevel, data: unknown, logger?: string) => void;

/** Who listens to a call. @internal */
export interface ToolListener {
  progress(progress: number, total: number | undefined, message: string | undefined): void;
  log(level: ToolLogLevel, data: unknown, logger: string | undefined): void;
}

/** There for requests that are calls of tools. @internal */
const TOOL_LISTENER: StateKey<ToolListener> = stateKey('toolListener');

/** `{ progress: Depends(toolProgress) }`: tells an MCP client that asked for it how far the call is. What does not grow is not told. */
export function toolProgress({ state }: Context): ToolProgress {
  if (!state.has(TOOL_LISTENER)) return nothing;
  const listener = state.get(TOOL_LISTENER);
  return (progress, total, message) => listener.progress(progress, total, message);
}

/** `{ tell: Depends(toolLog) }`: tells an MCP client that asked for it what happens. */
export function toolLog({ state }: Context): ToolLog {
  if (!state.has(TOOL_LISTENER)) return nothing;
  const listener = state.get(TOOL_LISTENER);
  return (level, data, logger) => listener.log(level, data, logger);
}

function nothing(): void {
  /* nobody has asked */
}
