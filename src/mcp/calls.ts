/**
 * Runs MCP tool calls as requests inside this process. A tool call passes through the same middleware,
 * guards, validation, limits, log and metrics as a request over HTTP.
 */
import { randomBytes } from 'node:crypto';
import { onePer } from '../base/options.ts';
import { failed, misunderstood, resultOf } from './results.ts';
import { PlannedPrompt } from './prompts.ts';
import { isPrompt, isResource, planNames, PlannedTool } from './tools.ts';
import { PlannedResource } from './resources.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { CARRIER, SESSION, stateKey } from '../http/state.ts';
import { TrustedHostMiddleware } from '../http/middleware/trusted-host.ts';
import type { Clock } from '../base/clock.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { Rooms } from '../http/websocket/rooms.ts';
import type { Logger } from '../observability/log.ts';
import type { Dialect, JsonObject } from './messages.ts';
import type { OpenApiDocument } from '../openapi/document.ts';
import type { ToolResult } from './results.ts';
import type { RequestInput } from './tools.ts';
import type { Asker, ToolClient } from './questions.ts';
import type { CompiledRoute, Context, HttpRequest, Middleware, StateKey } from '../http/contracts.ts';
import type { TransportRequest } from '../http/request/request.ts';

/** The members of an application that the MCP server uses. @internal */
export interface McpApplication {
  readonly title: string;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Sends messages about sessions to the other processes of the application. */
  readonly rooms: Pick<Rooms, 'tell' | 'listen'>;
  startup(): Promise<void>;
  shutdown(): Promise<void>;
  application(): McpTarget;
  openapi(): OpenApiDocument;
}

/**
 * Application of a test client with replaced dependencies. Tool calls of its MCP requests have the same
 * replacements.
 */
export const REPLACED_APPLICATION: StateKey<McpTarget> = stateKey('replacedApplication');

/** @internal */
interface McpTarget {
  readonly view: Pick<CompilationView, 'details' | 'middleware' | 'tools'>;
  routeAt(method: string, path: string): CompiledRoute | undefined;
  /**
   * Handles a request inside this process, without the network. `isFunction` says whether the tool is a
   * function of the application instead of a route.
   */
  answerCall(
    request: Request,
    remoteAddress: string,
    isFunction: boolean,
    prepare: (req: TransportRequest) => void,
  ): Promise<Response>;
}

/** The client that calls a tool: over HTTP, over stdio, or by `app.mcpCall()` in this process. */
export interface Caller {
  /**
   * Returns the header fields of the caller to send with a tool call, by lower-case name. `fields` lists the
   * header fields that the route reads.
   */
  fieldsFor(detail: RouteDetail, fields: readonly string[]): Readonly<Record<string, string>>;
  readonly remoteAddress: string;
  /** Scheme and host of the HTTP request; undefined for a caller without one. */
  readonly origin: string | undefined;
  /** The HTTP request that contains the tool call. DPoP proofs name the method and URL of this request. */
  readonly carrier?: HttpRequest | undefined;
}

/**
 * Returns the credential that the request has for each security scheme: an API key, a cookie or a session id.
 * An item is undefined if its credential is missing.
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
  /** Called when a route refuses the access token, with its WWW-Authenticate field. */
  readonly challenged?: ((status: number, challenge: string) => void) | undefined;
}

/** Default maximum size of a tool's result in bytes. */
export const DEFAULT_RESULT_BYTES = 1_000_000;

/** The tools, prompts and resources of an application. */
export class Toolset {
  static readonly of: (app: McpApplication) => Toolset = onePer((app) => new Toolset(app));
  readonly tools: readonly PlannedTool[];
  readonly prompts: readonly PlannedPrompt[];
  readonly resources: readonly PlannedResource[];
  readonly #app: McpApplication;
  readonly #byName: ReadonlyMap<string, PlannedTool>;
  /** Scheme and host for callers without an HTTP request. TrustedHostMiddleware accepts the host. */
  readonly #origin: string;
  readonly #middleware: readonly Middleware[];

  private constructor(app: McpApplication) {
    const { details, middleware, tools } = app.application().view;
    this.#app = app;
    this.tools = planNames(details, tools).map(
      ({ name, detail }) => new PlannedTool(name, detail, tools.includes(detail)),
    );
    // each prompt has a `name`, because app.prompt() requires one
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
            // at(-1) is defined, because the path of this tool has parameters
            loc: ['path', tool.detail.declared.template.parameters.at(-1)!.name],
            code: 'path',
            message: 'would make the request path match another route: choose another value',
          },
        ],
        tool,
      );
    const response = await this.request(tool.detail, tool.arguments.fields, parts, deps, tool.isFunction);
    const challenge = response.headers.get('www-authenticate');
    if (challenge !== null && (WANTED[response.status]?.test(challenge) ?? false))
      deps.challenged?.(response.status, challenge);
    try {
      return await resultOf(response, tool, deps.dialect, maxBytes);
    } catch (error) {
      if (deps.signal.aborted) throw error; // the call was cancelled
      this.#app.log.warn('mcp_answer_broken', {
        tool: tool.name,
        problem: error instanceof Error ? error.message : String(error),
      });
      return failed('The response of the route ended before it was complete');
    }
  }

  /** Whether the path matches another route: `me` turns `/users/{name}` into `/users/me`. */
  #leadsElsewhere({ detail: { route, declared }, isFunction }: PlannedTool, target: string): boolean {
    if (isFunction || declared.template.parameters.length === 0) return false;
    const found = this.#app.application().routeAt(route.method, target.split('?', 1)[0]!);
    return found !== undefined && found.template !== route.template;
  }

  async #servedFor({ carrier }: Caller): Promise<McpTarget> {
    if (carrier?.state.has(REPLACED_APPLICATION) === true) return carrier.state.get(REPLACED_APPLICATION);
    await this.#app.startup();
    return this.#app.application();
  }

  /** Sends a request to a route of the application, without the network. */
  async request(
    detail: RouteDetail,
    fields: readonly string[],
    { target, body }: RequestInput,
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
      // MCP clients send no idempotency keys, so each call gets a new key
      headers.set(keyed.header, `"${randomBytes(16).toString('base64url')}"`);
    const request = new Request((caller.origin ?? this.#origin) + target, {
      method: detail.route.method,
      headers,
      body: body ?? null,
      signal,
    });
    const served = await this.#servedFor(caller);
    return served.answerCall(request, caller.remoteAddress, isFunction, (req) => {
      if (listener !== undefined) req.state.set(TOOL_LISTENER, listener);
      if (asker !== undefined) req.state.set(ASKER, asker);
      if (caller.carrier !== undefined) req.state.set(CARRIER, caller.carrier);
    });
  }
}

/** Fields that ask for another access token, by status (RFC 6750 §3.1, RFC 9449 §7.1). */
const WANTED: Readonly<Record<number, RegExp>> = {
  401: /(?:^|,[ \t]*)(?:bearer|dpop)(?![^ ,])/i,
  403: /[ ,]error *= *"?insufficient_scope(?![^",])/i,
};

/** Converts arguments to a request. Returns an issue if they are too large or too deep. */
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

/** Header fields that a tool call never copies from the MCP request. */
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
 * Returns a caller that sends the same header fields with every tool call. It is used for stdio and
 * `app.mcpCall()`.
 * @throws TypeError for an invalid field name or value
 */
export function fixedCaller(fields: Readonly<Record<string, string>>): Caller {
  const headers: Readonly<Record<string, string>> = Object.fromEntries(new Headers({ ...fields }));
  return { fieldsFor: () => headers, remoteAddress: '127.0.0.1', origin: undefined };
}

/**
 * Reports the progress of a tool call. `progress` must grow with each report. `total` is its final value, and
 * `message` is text for people.
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
/** Log level of a message that a tool sends. */
export type ToolLogLevel = (typeof TOOL_LOG_LEVELS)[number];
/**
 * Sends a log message to the MCP client. `data` is any JSON value. Models may read the message, so it must
 * not contain secrets.
 */
export type ToolLog = (level: ToolLogLevel, data: unknown, logger?: string) => void;

/** Receives the progress and the log messages of a call. @internal */
export interface ToolListener {
  progress(progress: number, total: number | undefined, message: string | undefined): void;
  log(level: ToolLogLevel, data: unknown, logger: string | undefined): void;
}

/** @internal */
const TOOL_LISTENER: StateKey<ToolListener> = stateKey('toolListener');

/**
 * Dependency `{ progress: Depends(toolProgress) }`: a function that reports progress to the MCP client, if
 * the client has requested it. A report is sent only if its `progress` is greater than the last one.
 */
export function toolProgress({ state }: Context): ToolProgress {
  const listener = listenerIn(state);
  return (progress, total, message) => listener?.progress(progress, total, message);
}

/**
 * Dependency `{ tell: Depends(toolLog) }`: a function that sends log messages to the MCP client, if the
 * client has requested them.
 */
export function toolLog({ state }: Context): ToolLog {
  const listener = listenerIn(state);
  return (level, data, logger) => listener?.log(level, data, logger);
}

/** Returns undefined if the request is not a tool call. */
function listenerIn(state: Context['state']): ToolListener | undefined {
  return state.has(TOOL_LISTENER) ? state.get(TOOL_LISTENER) : undefined;
}

const ASKER: StateKey<Asker> = stateKey('mcpAsker');

/**
 * Dependency `{ client: Depends(toolClient) }`: sends requests to the MCP client while the handler runs. A
 * request shows a form to the user (elicitation), asks the client's model for a message (sampling), or lists
 * the client's folders (roots).
 */
export async function toolClient({ state, signal }: Context): Promise<ToolClient> {
  const loaded = await import('./questions.ts');
  return new loaded.ToolClient(state.has(ASKER) ? state.get(ASKER) : loaded.noAsker(), signal);
}

/** Maximum number of progress and log messages for one call. Further messages are dropped. */
const MAX_MESSAGES = 10_000;

export interface ReportDeps {
  readonly dialect: Dialect;
  readonly progressToken: string | number | undefined;
  /** Least severe level of the log messages to send; undefined if none are sent. */
  readonly logLevel: ToolLogLevel | undefined;
  readonly signal: AbortSignal;
  notify(method: string, params: JsonObject): void;
}

/** Sends the progress and log messages of one call to the client, until the call ends. */
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

/** Replaces a value that JSON cannot represent by null or text, so that logging never throws. */
function jsonOf(data: unknown): unknown {
  try {
    return JSON.stringify(data) === undefined ? null : data;
  } catch {
    return String(data);
  }
}
