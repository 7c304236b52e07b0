/**
 * Tool calls run as requests within this process. Each call passes through middleware, guards, validation,
 * limits, log and metrics, like a request over HTTP.
 */
import { randomBytes } from 'node:crypto';
import { misunderstood, resultOf } from './results.ts';
import { PlannedPrompt } from './prompts.ts';
import { isPrompt, isResource, planNames, PlannedTool } from './tools.ts';
import { PlannedResource } from './resources.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { CARRIER, SESSION, stateKey } from '../http/state.ts';
import { TrustedHostMiddleware } from '../http/middleware/trusted-host.ts';
import type { Clock } from '../base/clock.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { Logger } from '../observability/log.ts';
import type { Dialect, JsonObject } from './messages.ts';
import type { OpenApiDocument } from '../openapi/document.ts';
import type { ToolResult } from './results.ts';
import type { Asker, ToolClient } from './questions.ts';
import type { CompiledRoute, Context, HttpRequest, Middleware, StateKey } from '../http/contracts.ts';
import type { TransportRequest } from '../http/request/request.ts';

/** The methods of an application that its tools use. @internal */
export interface McpApplication {
  readonly title: string;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Logger;
  startup(): Promise<void>;
  shutdown(): Promise<void>;
  /** Returns the compiled application. */
  application(): McpTarget;
  openapi(): OpenApiDocument;
}

/** The part of a compiled application that tool calls use. @internal */
interface McpTarget {
  readonly view: Pick<CompilationView, 'details' | 'middleware' | 'tools'>;
  routeAt(method: string, path: string): CompiledRoute | undefined;
  /** Handles a request within this process. `isFunction` is true for a tool that is not a route. */
  answerCall(
    request: Request,
    remoteAddress: string,
    isFunction: boolean,
    prepare: (req: TransportRequest) => void,
  ): Promise<Response>;
}

/** The caller of a tool, on whose behalf requests are sent. */
export interface Caller {
  /**
   * Returns the header fields that the caller adds to a call of this route, by lower-case name. `fields` are
   * the names of the header fields that the route reads.
   */
  fieldsFor(detail: RouteDetail, fields: readonly string[]): Readonly<Record<string, string>>;
  readonly remoteAddress: string;
  /**
   * Scheme and host of the caller's request: `https://example.com`. Undefined for a caller in this process:
   * then the origin of the application is used.
   */
  readonly origin: string | undefined;
  /**
   * The HTTP request whose MCP message contains the call. DPoP proofs name the method and URL of this
   * request.
   */
  readonly carrier?: HttpRequest | undefined;
}

/**
 * Returns the API key, cookie or session id that the request has for each of these security schemes;
 * undefined if absent.
 */
export function credentialsOf(
  req: HttpRequest,
  security: CompiledRoute['security'],
): readonly (string | undefined)[] {
  return security.map(({ scheme, credential }) => {
    if (credential !== undefined)
      return credential.in === 'header'
        ? req.headers[credential.name.toLowerCase()]
        : req.cookies[credential.name];
    return scheme === 'session' && req.state.has(SESSION) ? req.session.id : undefined;
  });
}

export interface CallDeps {
  readonly caller: Caller;
  readonly dialect: Dialect;
  readonly signal: AbortSignal;
  readonly listener?: ToolListener | undefined;
  readonly asker?: Asker | undefined;
  /** Trace context fields that the client sent, such as `traceparent`. */
  readonly trace?: Readonly<Record<string, string>> | undefined;
  /**
   * Called when a route refuses the access token, so that the client should get another one. The status is
   * 401 if the token is invalid, and 403 if it lacks a scope. `challenge` is the WWW-Authenticate field of
   * the response.
   */
  readonly challenged?: ((status: number, challenge: string) => void) | undefined;
}

/**
 * Default limit of a result in bytes. A larger result is an error, because each token that a model reads
 * costs money.
 */
export const DEFAULT_RESULT_BYTES = 1_000_000;

const toolsets = new WeakMap<McpApplication, Toolset>();

/** The tools, prompts and resources of an application, and the methods that call them. */
export class Toolset {
  readonly tools: readonly PlannedTool[];
  readonly prompts: readonly PlannedPrompt[];
  readonly resources: readonly PlannedResource[];
  readonly #app: McpApplication;
  readonly #byName: ReadonlyMap<string, PlannedTool>;
  /** Origin for requests of callers that have none. TrustedHostMiddleware accepts its host. */
  readonly #origin: string;
  readonly #middleware: readonly Middleware[];

  /** Returns the toolset of an application. It is built once. */
  static of(app: McpApplication): Toolset {
    const toolset = toolsets.get(app) ?? new Toolset(app);
    toolsets.set(app, toolset);
    return toolset;
  }

  private constructor(app: McpApplication) {
    const { details, middleware, tools } = app.application().view;
    this.#app = app;
    this.tools = planNames(details, tools).map(
      ({ name, detail }) => new PlannedTool(name, detail, tools.includes(detail)),
    );
    // the `name` of a prompt is defined, because app.prompt() requires it
    this.prompts = tools
      .filter(isPrompt)
      .map((detail) => new PlannedPrompt(detail.declared.spec.name!, detail));
    this.resources = tools.filter(isResource).map((detail) => new PlannedResource(detail));
    this.#byName = new Map(this.tools.map((tool) => [tool.name, tool]));
    this.#middleware = middleware;
    this.#origin = `http://${middleware.find((layer) => layer instanceof TrustedHostMiddleware)?.usualHost ?? 'localhost'}`;
  }

  find(name: string): PlannedTool | undefined {
    return this.#byName.get(name);
  }

  /** Calls a tool. A failure of the tool is a result with `isError`, not an exception. */
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
            message: 'would make the path match another route: choose another value',
          },
        ],
        tool,
      ); // `parameters` is not empty: without parameters, a path cannot match another route
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
        content: [{ type: 'text', text: 'The response of the route ended before it was complete' }],
        isError: true,
      };
    }
  }

  /**
   * Whether the path, filled with the arguments, matches another route. For example, `/users/{name}` with
   * `me` matches `/users/me`. The other route need not be a tool.
   */
  #leadsElsewhere({ detail: { route, declared }, isFunction }: PlannedTool, target: string): boolean {
    if (isFunction || declared.template.parameters.length === 0) return false;
    const found = this.#app.application().routeAt(route.method, target.split('?', 1)[0]!);
    return found !== undefined && found.template !== route.template;
  }

  /** Sends a request to the application within this process. */
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
    const { caller, signal, listener, asker, trace } = deps;
    const headers = new Headers({ accept: 'application/json, */*;q=0.1', ...trace });
    for (const [name, value] of Object.entries(caller.fieldsFor(detail, fields)))
      if (!OURS.has(name)) headers.set(name, value);
    if (typeof body === 'string') headers.set('content-type', 'application/json');
    const layers = [...this.#middleware, ...detail.declared.use];
    const keyed = layers.find(
      (layer) => layer instanceof IdempotencyMiddleware && layer.covers(detail.route),
    );
    if (keyed instanceof IdempotencyMiddleware && keyed.isRequired && !headers.has(keyed.header))
      // tool clients send no idempotency keys, so each call gets a new key
      headers.set(keyed.header, `"${randomBytes(16).toString('base64url')}"`);
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
      if (asker !== undefined) req.state.set(ASKER, asker);
      if (caller.carrier !== undefined) req.state.set(CARRIER, caller.carrier);
    });
  }
}

/**
 * Patterns of WWW-Authenticate, by status. If a response matches, the client must get another access token
 * (RFC 6750 §3.1, RFC 9449 §7.1).
 */
const WANTED: Readonly<Record<number, RegExp>> = {
  401: /(?:^|,[ \t]*)(?:bearer|dpop)(?![^ ,])/i,
  403: /[ ,]error *= *"?insufficient_scope(?![^",])/i,
};

/**
 * Converts the arguments to the parts of a request. Arguments that are nested too deeply are an error of the
 * client.
 */
function partsOf(tool: PlannedTool, given: JsonObject): ReturnType<PlannedTool['arguments']['read']> {
  try {
    return tool.arguments.read(given);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return {
      issues: [
        { loc: ['arguments'], code: 'depth', message: 'must be smaller or less deeply nested for this tool' },
      ],
    };
  }
}

/** Header fields that describe the client's own message, and so are not copied to a call. */
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

/**
 * Returns a caller that adds the same header fields to each call. It is used over stdio, and by
 * `app.mcpCall()`.
 * @throws TypeError for an invalid field name or value
 */
export function fixedCaller(fields: Readonly<Record<string, string>>, remoteAddress = '127.0.0.1'): Caller {
  const headers: Readonly<Record<string, string>> = Object.fromEntries(new Headers({ ...fields }));
  return { fieldsFor: () => headers, remoteAddress, origin: undefined };
}

/**
 * Reports the progress of a call: a growing number, the total that it will reach, and a sentence for people.
 */
export type ToolProgress = (progress: number, total?: number, message?: string) => void;

/** Log levels of tool messages, least severe first (RFC 5424 §6.2.1). */
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
/** A log level of a tool message. */
export type ToolLogLevel = (typeof TOOL_LOG_LEVELS)[number];
/**
 * Sends a log message to the client: any JSON value, and an optional logger name. Models read the message, so
 * it must not contain secrets.
 */
export type ToolLog = (level: ToolLogLevel, data: unknown, logger?: string) => void;

/** Receives the progress and the log messages of a call. @internal */
export interface ToolListener {
  progress(progress: number, total: number | undefined, message: string | undefined): void;
  log(level: ToolLogLevel, data: unknown, logger: string | undefined): void;
}

/** Key in `req.state` under which a tool call stores its {@link ToolListener}. @internal */
const TOOL_LISTENER: StateKey<ToolListener> = stateKey('toolListener');

/**
 * Dependency `{ progress: Depends(toolProgress) }`: reports progress to an MCP client that has requested it.
 * A value that is not greater than the last one is not sent.
 */
export function toolProgress({ state }: Context): ToolProgress {
  if (!state.has(TOOL_LISTENER)) return nothing;
  const listener = state.get(TOOL_LISTENER);
  return (progress, total, message) => listener.progress(progress, total, message);
}

/** Dependency `{ tell: Depends(toolLog) }`: sends log messages to an MCP client that has requested them. */
export function toolLog({ state }: Context): ToolLog {
  if (!state.has(TOOL_LISTENER)) return nothing;
  const listener = state.get(TOOL_LISTENER);
  return (level, data, logger) => listener.log(level, data, logger);
}

function nothing(): void {
  /* does nothing, because the request is not a tool call */
}

/** Key in `req.state` under which an MCP call stores its {@link Asker}. */
const ASKER: StateKey<Asker> = stateKey('mcpAsker');

/**
 * Dependency `{ client: Depends(toolClient) }`: sends requests to the MCP client during a call. They ask for
 * input of the user (elicitation), for a message of the client's model (sampling), or for the list of roots.
 */
export async function toolClient({ state, signal }: Context): Promise<ToolClient> {
  const loaded = await import('./questions.ts');
  return new loaded.ToolClient(state.has(ASKER) ? state.get(ASKER) : loaded.noAsker(), signal);
}

/** Maximum number of progress and log messages for one call. Further messages are dropped. */
const MAX_MESSAGES = 10_000;

interface ReportDeps {
  readonly dialect: Dialect;
  readonly progressToken: string | number | undefined;
  /** Least severe level of the log messages to send. If undefined, none are sent. */
  readonly logLevel: ToolLogLevel | undefined;
  readonly signal: AbortSignal;
  notify(method: string, params: JsonObject): void;
}

/** Sends progress and log messages of one call, until it ends. */
export class CallReports implements ToolListener {
  readonly #deps: ReportDeps;
  #isOver = false;
  #furthest = -Infinity;
  #sent = 0;

  constructor(deps: ReportDeps) {
    this.#deps = deps;
  }

  progress(progress: number, total: number | undefined, message: string | undefined): void {
    const { progressToken, dialect, notify } = this.#deps;
    if (
      progressToken === undefined ||
      !Number.isFinite(progress) ||
      progress <= this.#furthest ||
      !this.#mayReport()
    )
      return;
    this.#furthest = progress;
    notify('notifications/progress', {
      progressToken,
      progress,
      ...(Number.isFinite(total) ? { total } : {}),
      ...(message !== undefined && dialect.hasAnnotations ? { message } : {}),
    });
  }

  log(level: ToolLogLevel, data: unknown, logger: string | undefined): void {
    const { logLevel, notify } = this.#deps;
    if (
      logLevel === undefined ||
      TOOL_LOG_LEVELS.indexOf(level) < TOOL_LOG_LEVELS.indexOf(logLevel) ||
      !this.#mayReport()
    )
      return;
    notify('notifications/message', {
      level,
      ...(logger === undefined ? {} : { logger }),
      data: jsonOf(data),
    });
  }

  end(): void {
    this.#isOver = true;
  }

  #mayReport(): boolean {
    return !this.#isOver && !this.#deps.signal.aborted && this.#sent++ < MAX_MESSAGES;
  }
}

/**
 * Returns the value as JSON can represent it. A value that JSON cannot represent becomes text, so the handler
 * does not fail.
 */
function jsonOf(data: unknown): unknown {
  try {
    return JSON.stringify(data) === undefined ? null : data;
  } catch {
    return String(data);
  }
}
