/**
 * The MCP server: handles requests of all supported protocol versions. It does no I/O; stdio.ts and http.ts
 * do.
 *
 * Generations of the protocol:
 *   - Legacy (before 2026-07-28): `initialize` negotiates a version. The methods server/discover and
 *     subscriptions/listen do not exist.
 *   - Modern (2026-07-28): `_meta` of each request names the version. The methods initialize, ping,
 *     logging/setLevel, resources/subscribe and resources/unsubscribe do not exist.
 *
 * Violations of the protocol are JSON-RPC errors. A tool call that fails is a result with `isError`.
 */
import { createHash } from 'node:crypto';
import { CallReports, credentialsOf, DEFAULT_RESULT_BYTES, TOOL_LOG_LEVELS, Toolset } from './calls.ts';
import { abilitiesOf, RepeatedCall, stateSeal, WaitingCall } from './questions.ts';
import * as rpc from './messages.ts';
import { messagesOf } from './prompts.ts';
import { contentOf, PlannedResource, resourcesOf } from './resources.ts';
import { bool, defined, int, isRecord, text } from '../base/options.ts';
import type { CallDeps, Caller, McpApplication, ReportDeps, ToolLogLevel } from './calls.ts';
import type { Dialect, JsonObject, RpcRequest } from './messages.ts';
import type { Resource, ResourceContent } from './resources.ts';
import type { ClientAbility, ClientRequest } from './questions.ts';
import type { PlannedPrompt } from './prompts.ts';
import type { PlannedTool } from './tools.ts';
import type { OptionKind } from '../base/options.ts';
import type { Services } from '../http/contracts.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { ProtectedValues } from '../crypto/protected-values.ts';

/** State that `initialize` creates: one per process over stdio, one per session over HTTP. */
export interface McpSession {
  readonly dialect: Dialect;
  /** The least severe level of log messages that the client has requested. */
  logLevel: ToolLogLevel;
  /** Kinds of requests that the server may send to the client. */
  readonly abilities: ReadonlySet<ClientAbility>;
}

/** The session of a request, the caller, and the functions that send messages to the client. */
export interface Exchange {
  /** Undefined before `initialize`, and for requests of protocol 2026-07-28. */
  readonly session: McpSession | undefined;
  readonly caller: Caller;
  /** Aborts when the response is no longer needed. */
  readonly signal: AbortSignal;
  /** Aborts when the server stops, which ends subscriptions. */
  readonly closing: AbortSignal;
  /** Sends the client a notification that belongs to this request. */
  notify(method: string, params: JsonObject): void;
  /** Called when `initialize` has negotiated a version. */
  begin(session: McpSession): void;
  /** Sends a request to the client. Undefined if the client cannot receive requests. */
  readonly ask?: ((request: Omit<ClientRequest, 'key'>) => Promise<unknown>) | undefined;
  /**
   * Identity of the caller. A repeated call, which contains the client's responses, must come from the same
   * caller.
   */
  readonly principal?: string | undefined;
  /** Called when a route asks for another access token: see {@link CallDeps}. */
  readonly challenged?: CallDeps['challenged'];
}

/** Options of an MCP server over any transport. An option that is `undefined` has its default. */
export interface McpServerOptions {
  /** Instructions for models: the purpose of the tools, and how they work together. Default: none. */
  readonly instructions?: string | undefined;
  /** Maximum number of tools, prompts or resources on one page of a list, 1 ... 10_000. Default 100. */
  readonly pageSize?: number | undefined;
  /** Maximum size of a result in bytes, 1_000 ... 1_000_000_000. A larger result is an error. Default 1_000_000. */
  readonly maxResultBytes?: number | undefined;
  /** Whether clients can read `svc://routes` and `svc://openapi.json`. Default true. */
  readonly resources?: boolean | undefined;
}

/** Returns the definitions of {@link McpServerOptions}, for readOptions(). */
export function serverOptions(): {
  readonly instructions: OptionKind<string | undefined>;
  readonly pageSize: OptionKind<number>;
  readonly maxResultBytes: OptionKind<number>;
  readonly resources: OptionKind<boolean>;
} {
  return {
    instructions: text(),
    pageSize: int(100, 1, 10_000),
    maxResultBytes: int(DEFAULT_RESULT_BYTES, 1_000, 1_000_000_000),
    resources: bool(true),
  };
}

/**
 * Options of {@link McpDispatcher}. `cacheScope` is "public" if lists are the same for every client.
 * @internal
 */
export interface DispatcherOptions extends McpServerOptions {
  readonly cacheScope: 'public' | 'private';
  /**
   * Services of the application. Without the setting `authSecret`, only this process can decrypt the
   * `requestState` of repeated calls.
   */
  readonly services?: Services | undefined;
}

/** A request with the parsed values of its `_meta`. */
interface Asked extends Pick<ReportDeps, 'dialect' | 'progressToken' | 'logLevel'> {
  readonly id: RpcRequest['id'];
  readonly params: JsonObject;
  readonly meta: JsonObject;
  readonly exchange: Exchange;
}

type Method = (asked: Asked) => JsonObject | Promise<JsonObject>;

const META = 'io.modelcontextprotocol/';
const VERSION_KEY = `${META}protocolVersion`;
const MODERN_ONLY: ReadonlySet<string> = new Set(['server/discover', 'subscriptions/listen']);
/** Cache lifetime of lists in milliseconds. Lists change only when the application restarts. */
const LIST_TTL_MS = 300_000;

export class McpDispatcher {
  readonly #app: McpApplication;
  readonly #options: DispatcherOptions;
  readonly #legacy: ReadonlyMap<string, Method>;
  readonly #modern: ReadonlyMap<string, Method>;
  #resources: readonly Resource[] | undefined;
  #seal: ProtectedValues | undefined;

  constructor(app: McpApplication, options: DispatcherOptions) {
    this.#app = app;
    this.#options = options;
    const both: [string, Method][] = [
      ['tools/list', (asked) => this.#list('tools', this.#tools.tools, asked)],
      ['tools/call', (asked) => this.#callTool(asked)],
      ['prompts/list', (asked) => this.#list('prompts', this.#tools.prompts, asked)],
      ['prompts/get', (asked) => this.#getPrompt(asked)],
      ['resources/list', (asked) => this.#list('resources', this.#listed, asked)],
      ['resources/templates/list', (asked) => this.#list('resourceTemplates', this.#templates, asked)],
      ['resources/read', (asked) => this.#readResource(asked)],
      ['completion/complete', (asked) => this.#complete(asked)],
    ];
    this.#legacy = new Map<string, Method>([
      ...both,
      ['initialize', () => Promise.reject(rpc.invalidRequest('The session is initialized already'))],
      ['ping', () => ({})],
      ['logging/setLevel', (asked) => this.#setLevel(asked)],
      ['resources/subscribe', (asked) => this.#subscribe(asked)],
      ['resources/unsubscribe', (asked) => this.#subscribe(asked)],
    ]);
    this.#modern = new Map<string, Method>([
      ...both,
      ['server/discover', () => this.#discover()],
      ['subscriptions/listen', (asked) => this.#listen(asked)],
    ]);
  }

  /**
   * Whether a request belongs to protocol 2026-07-28. Its `_meta` names a version, or its method exists only
   * in this protocol.
   */
  static isModern(method: string, params: JsonObject): boolean {
    return MODERN_ONLY.has(method) || (isRecord(params['_meta']) && VERSION_KEY in params['_meta']);
  }

  static versionOf(params: JsonObject): unknown {
    return isRecord(params['_meta']) ? params['_meta'][VERSION_KEY] : undefined;
  }

  /** Returns the response to a request. Never rejects. */
  async answer(request: RpcRequest, exchange: Exchange): Promise<JsonObject> {
    try {
      return { jsonrpc: '2.0', id: request.id, result: await this.#answer(request, exchange) };
    } catch (error) {
      const dialect = exchange.session?.dialect;
      if (exchange.signal.aborted) return rpc.failure(request.id, 'The request was cancelled', dialect);
      if (error instanceof rpc.RpcError) return rpc.failure(request.id, error, dialect);
      this.#app.log.error('mcp_request_failed', error, { method: request.method });
      return rpc.failure(request.id, new rpc.RpcError(rpc.INTERNAL_ERROR, 'Internal error'), dialect);
    }
  }

  get #tools(): Toolset {
    return Toolset.of(this.#app);
  }

  /** Resources without URI parameters. */
  get #listed(): readonly { definition(dialect: Dialect): object }[] {
    return [...this.#offered, ...this.#tools.resources.filter((known) => !known.isTemplate)];
  }

  get #templates(): readonly PlannedResource[] {
    return this.#tools.resources.filter((known) => known.isTemplate);
  }

  get #offered(): readonly Resource[] {
    return (this.#resources ??= this.#options.resources === false ? [] : resourcesOf(this.#app, this.#tools));
  }

  async #answer({ id, method, params }: RpcRequest, exchange: Exchange): Promise<JsonObject> {
    if (McpDispatcher.isModern(method, params)) {
      const asked: Asked = { id, params, exchange, ...readModern(params) };
      const answer = this.#modern.get(method);
      if (answer === undefined) throw new rpc.RpcError(rpc.METHOD_NOT_FOUND, `Method not found: ${method}`);
      const result = await answer(asked);
      return {
        resultType: 'complete',
        ...result,
        _meta: {
          ...(result['_meta'] as JsonObject | undefined),
          [`${META}serverInfo`]: this.#serverInfo(asked.dialect),
        },
      };
    }
    const { session } = exchange;
    if (session === undefined) {
      if (method === 'initialize') return this.#initialize(params, exchange);
      if (method === 'ping') return {};
      throw rpc.invalidParams(
        `A request must name the protocol version in "_meta" ("${VERSION_KEY}"), or be sent after the request "initialize"`,
        { supported: rpc.SUPPORTED },
      );
    }
    const answer = this.#legacy.get(method);
    if (answer === undefined) throw new rpc.RpcError(rpc.METHOD_NOT_FOUND, `Method not found: ${method}`);
    const meta = metaOf(params);
    return answer({
      id,
      params,
      meta,
      dialect: session.dialect,
      exchange,
      progressToken: progressTokenOf(meta),
      logLevel: session.logLevel,
    });
  }

  #initialize(params: JsonObject, exchange: Exchange): JsonObject {
    const dialect = rpc.legacyDialect(rpc.textIn(params, 'protocolVersion')) ?? rpc.NEWEST_LEGACY;
    const capabilities = rpc.objectIn(params, 'capabilities');
    rpc.objectIn(params, 'clientInfo');
    exchange.begin({ dialect, logLevel: 'info', abilities: abilitiesOf(capabilities) });
    return {
      protocolVersion: dialect.version,
      serverInfo: this.#serverInfo(dialect),
      ...this.#offer(dialect),
    };
  }

  #discover(): JsonObject {
    const supportedVersions = rpc.MODERN.map(({ version }) => version);
    return { supportedVersions, ...this.#offer(rpc.MODERN[0]!), ...this.#caching() };
  }

  #offer(dialect: Dialect): JsonObject {
    const { prompts, resources } = this.#tools;
    const hasCompletions = prompts.length + this.#templates.length > 0 && dialect.hasAnnotations;
    const capabilities = defined({
      tools: {},
      logging: {},
      resources: this.#offered.length + resources.length > 0 ? { subscribe: true } : undefined,
      prompts: prompts.length > 0 ? {} : undefined,
      completions: hasCompletions ? {} : undefined,
    });
    return defined({ capabilities, instructions: this.#options.instructions });
  }

  #serverInfo({ hasStructure }: Dialect): JsonObject {
    const { title, version } = this.#app;
    return { name: title, ...(hasStructure ? { title } : {}), version };
  }

  #caching(): JsonObject {
    return { ttlMs: LIST_TTL_MS, cacheScope: this.#options.cacheScope };
  }

  /**
   * Returns one page of a list. A cursor is valid for one list, until the length of the list changes.
   * @throws RpcError for an invalid cursor
   */
  #list(
    key: string,
    all: readonly { definition(dialect: Dialect): object }[],
    { params, dialect }: Asked,
  ): JsonObject {
    const { pageSize = 100 } = this.#options;
    const start = readCursor(params['cursor'], key, all.length);
    const end = start + pageSize;
    return {
      [key]: all.slice(start, end).map((item) => item.definition(dialect)),
      ...(end < all.length ? { nextCursor: cursorOf(end, key, all.length) } : {}),
      ...(dialect.isModern ? this.#caching() : {}),
    };
  }

  /** Returns the arguments that the caller of a tool repeats as header fields. */
  paramHeadersOf(tool: unknown): PlannedTool['arguments']['paramHeaders'] {
    return (typeof tool === 'string' ? this.#tools.find(tool)?.arguments.paramHeaders : undefined) ?? [];
  }

  async #callTool(asked: Asked): Promise<JsonObject> {
    const { name, given } = namedCall(asked.params);
    const tool = this.#tools.find(name);
    if (tool === undefined) throw rpc.invalidParams(`Unknown tool: ${name}`);
    const reports = new CallReports({ ...asked, ...asked.exchange });
    const asker = this.#askerOf(asked, tool, 'tools/call', name, given);
    try {
      const result = await this.#tools.call(
        tool,
        given,
        { ...this.#callDeps(asked, asker), listener: reports },
        this.#options.maxResultBytes ?? DEFAULT_RESULT_BYTES,
      );
      return asker.outcome(result.isError === true) ?? { ...result };
    } finally {
      reports.end();
    }
  }

  #askerOf(
    { dialect, exchange, meta, params }: Asked,
    { detail }: { readonly detail: RouteDetail },
    ...subject: unknown[]
  ): RepeatedCall | WaitingCall {
    const { session, ask, principal, caller } = exchange;
    if (!dialect.isModern)
      return ask === undefined || session === undefined
        ? new WaitingCall(new Set(), () => Promise.resolve())
        : new WaitingCall(session.abilities, ask);
    // `subject` also contains the credentials, because callers with equal principals may have different ones
    const shown = caller.carrier === undefined ? [] : credentialsOf(caller.carrier, detail.route.security);
    return new RepeatedCall({
      capabilities: meta[`${META}clientCapabilities`] as JsonObject,
      params,
      subject: [...subject, principal, shown],
      nowSeconds: Math.floor(this.#app.clock.nowMs() / 1_000),
      seal: () => (this.#seal ??= stateSeal(this.#options.services)),
    });
  }

  async #getPrompt(asked: Asked): Promise<JsonObject> {
    const { name, given } = namedCall(asked.params);
    const prompt = this.#tools.prompts.find((known) => known.name === name);
    if (prompt === undefined) throw rpc.invalidParams(`Unknown prompt: ${name}`);
    const asker = this.#askerOf(asked, prompt, 'prompts/get', name, given);
    const response = await this.#run(prompt, prompt.target(given), asked, asker);
    return asker.outcome(!response.ok) ?? messagesOf(response);
  }

  #run(
    { detail, fields }: PlannedPrompt,
    target: string,
    asked: Asked,
    asker: CallDeps['asker'],
  ): Promise<Response> {
    return this.#tools.request(detail, fields, { target }, this.#callDeps(asked, asker), true);
  }

  #callDeps(
    { exchange: { caller, signal, challenged }, dialect, meta }: Asked,
    asker: CallDeps['asker'],
  ): CallDeps {
    const trace: Record<string, string> = {};
    for (const key of ['traceparent', 'tracestate'])
      if (typeof meta[key] === 'string' && FIELD.test(meta[key])) trace[key] = meta[key];
    return { caller, signal, dialect, asker, trace, challenged };
  }

  async #readResource(asked: Asked): Promise<JsonObject> {
    const { params, dialect } = asked;
    const uri = rpc.textIn(params, 'uri');
    const resource = this.#resourceOf(uri, dialect);
    const content =
      resource instanceof PlannedResource
        ? await this.#contentOf(resource, uri, asked)
        : { text: resource.read() };
    if ('resultType' in content) return content;
    const caching =
      resource instanceof PlannedResource ? { ttlMs: 0, cacheScope: 'private' } : this.#caching();
    return {
      contents: [{ uri, mimeType: resource.mimeType, ...content }],
      ...(dialect.isModern ? caching : {}),
    };
  }

  async #contentOf(
    resource: PlannedResource,
    uri: string,
    asked: Asked,
  ): Promise<ResourceContent | JsonObject> {
    const asker = this.#askerOf(asked, resource, 'resources/read', uri);
    // match() returns a result, because the resource was found by this URI
    const target = resource.target(resource.match(uri)!);
    const response = await this.#run(resource, target, asked, asker);
    const outcome = asker.outcome(!response.ok);
    if (outcome !== undefined) return outcome;
    if (response.status === 404) throw this.#notFound(uri, asked.dialect);
    return contentOf(response, this.#options.maxResultBytes ?? DEFAULT_RESULT_BYTES);
  }

  /**
   * Accepts a subscription to a resource. The server does not watch resources, so no notification follows.
   */
  #subscribe({ params, dialect }: Asked): JsonObject {
    this.#resourceOf(rpc.textIn(params, 'uri'), dialect);
    return {};
  }

  #resourceOf(uri: string, dialect: Dialect): Resource | PlannedResource {
    const resource =
      this.#offered.find((known) => known.uri === uri) ??
      this.#tools.resources.find((known) => known.uri === uri) ??
      this.#tools.resources.find((known) => known.match(uri) !== undefined);
    if (resource === undefined) throw this.#notFound(uri, dialect);
    return resource;
  }

  #notFound(uri: string, { isModern }: Dialect): rpc.RpcError {
    return new rpc.RpcError(isModern ? rpc.INVALID_PARAMS : rpc.RESOURCE_NOT_FOUND, 'Resource not found', {
      uri,
    });
  }

  #complete({ params: { ref, argument } }: Asked): JsonObject {
    if (
      !isRecord(ref) ||
      !isRecord(argument) ||
      typeof argument['name'] !== 'string' ||
      typeof argument['value'] !== 'string'
    )
      throw rpc.invalidParams(
        '"ref" must be an object, and "argument" must be an object { name, value } with two strings',
      );
    const isResource = ref['type'] === 'ref/resource';
    const known = isResource
      ? this.#tools.resources.find(({ uri }) => uri === ref['uri'])
      : this.#tools.prompts.find(({ name }) => ref['type'] === 'ref/prompt' && name === ref['name']);
    if (known === undefined)
      throw rpc.invalidParams(isResource ? 'No resource has this URI template' : 'No prompt has this name');
    const values = known.complete(argument['name'], argument['value']);
    return {
      completion: { values: values.slice(0, 100), total: values.length, hasMore: values.length > 100 },
    };
  }

  #setLevel({ params: { level }, exchange }: Asked): JsonObject {
    if (!isLevel(level)) throw rpc.invalidParams(`"level" must be one of ${TOOL_LOG_LEVELS.join(', ')}`);
    exchange.session!.logLevel = level; // `session` is defined: only requests in a session reach this method
    return {};
  }

  /**
   * Opens a subscription. Lists change only at a restart, so the stream confirms the subscription, and then
   * stays silent until the client or the server ends it.
   */
  async #listen({ id, params, exchange }: Asked): Promise<JsonObject> {
    const wanted = rpc.objectIn(params, 'notifications');
    const uris = [wanted['resourceSubscriptions'] ?? []]
      .flat()
      .filter((uri) => [...this.#offered, ...this.#tools.resources].some((known) => known.uri === uri));
    const _meta = { [`${META}subscriptionId`]: id };
    exchange.notify('notifications/subscriptions/acknowledged', {
      _meta,
      notifications: uris.length === 0 ? {} : { resourceSubscriptions: uris },
    });
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const end = (): void => resolve();
    const signals = [exchange.closing, exchange.signal];
    for (const signal of signals) signal.addEventListener('abort', end);
    if (!signals.some((signal) => signal.aborted)) await ended;
    // removes the listeners, because the signals may exist longer than this request
    for (const signal of signals) signal.removeEventListener('abort', end);
    return { _meta };
  }
}

function namedCall(params: JsonObject): { readonly name: string; readonly given: JsonObject } {
  return { name: rpc.textIn(params, 'name'), given: rpc.objectIn(params, 'arguments', {}) };
}

/** Returns the error for a request in a batch that must be sent alone: `initialize`, or one of 2026-07-28. */
export function issueInBatch({ method, params }: RpcRequest): rpc.RpcError | undefined {
  return method === 'initialize' || McpDispatcher.isModern(method, params)
    ? rpc.invalidRequest(`"${method}" must not be part of a batch: send it alone`)
    : undefined;
}

export function readModern(
  params: JsonObject,
): Pick<Asked, 'meta' | 'dialect' | 'progressToken' | 'logLevel'> {
  const meta = metaOf(params);
  const requested = meta[VERSION_KEY];
  if (typeof requested !== 'string')
    throw rpc.invalidParams(`"_meta" of a request must contain "${VERSION_KEY}"`);
  const dialect = rpc.modernDialect(requested);
  if (dialect === undefined)
    // clients that name a version in `_meta` can use only versions that server/discover lists
    throw rpc.unsupportedVersion(
      requested,
      rpc.MODERN.map(({ version }) => version),
    );
  if (!isRecord(meta[`${META}clientCapabilities`]))
    throw rpc.invalidParams(`"_meta" of a request must contain "${META}clientCapabilities"`);
  const level = meta[`${META}logLevel`];
  if (level !== undefined && !isLevel(level))
    throw rpc.invalidParams(`"${META}logLevel" must be one of ${TOOL_LOG_LEVELS.join(', ')}`);
  return { meta, dialect, progressToken: progressTokenOf(meta), logLevel: level };
}

/** Pattern of an allowed trace context field: at most 1,024 printable characters. */
const FIELD = /^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/;

function metaOf(params: JsonObject): JsonObject {
  return rpc.objectIn(params, '_meta', {});
}

function progressTokenOf({ progressToken }: JsonObject): string | number | undefined {
  if (progressToken === undefined || typeof progressToken === 'string' || Number.isSafeInteger(progressToken))
    return progressToken as string | number | undefined;
  throw rpc.invalidParams('"progressToken" must be a string or an integer');
}

function isLevel(value: unknown): value is ToolLogLevel {
  return (TOOL_LOG_LEVELS as readonly unknown[]).includes(value);
}

function cursorOf(start: number, list: string, length: number): string {
  const tag = createHash('sha256').update(`${list} ${length} ${start}`).digest('base64url').slice(0, 16);
  return `${Buffer.from(String(start)).toString('base64url')}.${tag}`;
}

/** Returns the index at which the page of a cursor begins. */
function readCursor(cursor: unknown, list: string, length: number): number {
  if (cursor === undefined) return 0;
  const start =
    typeof cursor === 'string'
      ? Number(Buffer.from(cursor.split('.', 1)[0]!, 'base64url').toString())
      : Number.NaN;
  if (!Number.isSafeInteger(start) || cursorOf(start, list, length) !== cursor)
    throw rpc.invalidParams(
      'The cursor is invalid, or the list has changed: request the list again without a cursor',
    );
  return start;
}
