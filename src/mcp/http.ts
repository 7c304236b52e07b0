/**
 * MCP over HTTP: one endpoint for modern clients (protocol 2026-07-28) and legacy clients (earlier versions).
 * mcp/mount.ts declares the routes of the endpoint.
 *
 * HTTP methods of the endpoint:
 *   - POST sends one message. A modern client's header fields must match the body. A legacy client sends
 *     `initialize`, or a message of a session.
 *   - GET opens the event stream of a legacy session. The server never sends an event. Without a
 *     session, the response is 405.
 *   - DELETE ends a legacy session.
 *
 * A response is JSON. It is an event stream instead if other messages precede the result, or if the result
 * takes longer than 10 seconds.
 */
import { ClientDisconnected, HTTPException } from '../base/errors.ts';
import { jsonOf } from '../base/options.ts';
import { issueOfFields, issueOfParams } from './fields.ts';
import * as rpc from './messages.ts';
import { McpDispatcher, issueInBatch, readModern } from './server.ts';
import { MessageStream } from './message-stream.ts';
import { SentRequests, Shares, abortOf, stopping } from './sent-requests.ts';
import { McpSessions, endSession, readNews, writeNews } from './sessions.ts';
import { HttpResponse, JSONResponse } from '../http/response.ts';
import { services } from '../http/state.ts';
import { EventStreamResponse } from '../http/streaming/event-stream.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { Caller, McpApplication } from './calls.ts';
import type { Dialect, JsonObject, Message, RequestId, RpcRequest } from './messages.ts';
import type { Exchange, McpSession, DispatcherOptions } from './server.ts';
import type { HttpSession, News } from './sessions.ts';
import type { Awaitable, Context, HttpRequest, Services } from '../http/contracts.ts';

/** Header fields that each tool call copies from the MCP request. */
const PASSED: readonly string[] = [
  'authorization',
  'cookie',
  'origin',
  'referer',
  'sec-fetch-site',
  'x-csrf-token',
  'accept-language',
  'user-agent',
  'traceparent',
  'tracestate',
  'baggage',
];

/** Options of an MCP endpoint. mountMcp() has validated them. */
export interface EndpointDeps {
  /** Returns the options of McpDispatcher. Some depend on the environment, such as `production`. */
  dispatching(provided: Services): DispatcherOptions;
  readonly headers: readonly string[];
  /** Whether the endpoint has metadata (RFC 9728), which list the issuers of tokens. */
  readonly asksForTokens: boolean;
  readonly hasSessions: boolean;
  readonly sessionSeconds: number;
  readonly maxBodyBytes: number;
  principal(context: Context): string;
  /** Returns a name for the client of a request. Each client has a limit of unanswered requests. */
  client(context: Context): string;
}

/** Time in milliseconds after which a response that is not ready becomes an event stream. */
const PATIENCE_MS = 10_000;
/** Maximum number of unanswered requests in all sessions, until their handlers end. */
const MAX_UNANSWERED = 1_000;
/** Maximum number of unanswered requests from one client, and of unanswered requests to one client. */
const MAX_OF_CLIENT = 250;

export class McpEndpoint {
  readonly #app: McpApplication;
  readonly #deps: EndpointDeps;
  readonly #sentRequests: SentRequests;
  #dispatcher: McpDispatcher | undefined;
  #sessions: McpSessions | undefined;
  readonly #unanswered = new Shares('from', MAX_UNANSWERED, MAX_OF_CLIENT);

  constructor(app: McpApplication, deps: EndpointDeps) {
    this.#app = app;
    this.#deps = deps;
    this.#sentRequests = new SentRequests(app.clock, MAX_OF_CLIENT);
    app.rooms.listen((text) => this.#onNews(text));
  }

  answer(context: Context): Awaitable<HttpResponse> {
    const { req } = context;
    if (req.method === 'POST') return this.#post(context);
    const unspoken = unspokenVersion(req);
    if (unspoken !== undefined) return refused(400, unspoken);
    const session = this.#sessionOf(context);
    if (session instanceof HttpResponse) return session;
    if (session === undefined)
      return new JSONResponse(
        rpc.failure(undefined, 'Without a session, this endpoint accepts POST only', rpc.NEWEST),
        { status: 405, headers: { Allow: 'POST' } },
      );
    if (req.method === 'DELETE') {
      this.#note(session, { kind: 'ended' });
      return new HttpResponse(null, { status: 204 });
    }
    if (!accepts(req, 'text/event-stream'))
      return refused(406, 'A GET request must accept text/event-stream');
    const stream = new MessageStream(
      () => undefined,
      () => stream.end(undefined),
    );
    return new EventStreamResponse(stream);
  }

  async #post(context: Context): Promise<HttpResponse> {
    const { req } = context;
    const type = (req.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase();
    if (type !== 'application/json')
      return refused(415, 'The Content-Type of a message must be application/json');
    if (!accepts(req, 'application/json') && !accepts(req, 'text/event-stream'))
      return refused(406, 'The Accept field must include application/json and text/event-stream');
    const text = await req.text({ maxBytes: this.#deps.maxBodyBytes }).catch((error: unknown) => {
      // an empty text stands for a body that is not UTF-8: both are invalid JSON (RFC 8259 §8.1)
      if (error instanceof HTTPException && error.code === 'utf8') return '';
      throw error;
    });
    const value = jsonOf(text);
    if (value === undefined)
      return refused(
        400,
        new rpc.RpcError(rpc.PARSE_ERROR, 'Parse error: the body must be one JSON message'),
        undefined,
        saidDialect(req),
      );
    if (Array.isArray(value)) return this.#postBatch(context, value);
    const message = rpc.readMessage(value);
    if (message.kind === 'invalid') return refused(400, message.error, message.id, saidDialect(req));
    return isModern(req, message) ? this.#postModern(context, message) : this.#postLegacy(context, message);
  }

  #postModern(context: Context, message: Message): Awaitable<HttpResponse> {
    if (message.kind !== 'request') {
      const unspoken = unspokenVersion(context.req);
      return unspoken === undefined ? new HttpResponse(null, { status: 202 }) : refused(400, unspoken);
    }
    const { headers } = context.req;
    const { method, params } = message;
    const repeated = method === 'tools/call' ? this.#dispatch(context).paramHeadersOf(params['name']) : [];
    const problem = issueOfFields(headers, message) ?? issueOfParams(headers, repeated, params['arguments']);
    if (problem !== undefined) return refused(400, problem, message.id);
    try {
      // throws if a value that protocol 2026-07-28 requires is missing
      readModern(message.params);
    } catch (error) {
      return refused(400, error as rpc.RpcError, message.id);
    }
    return this.#respond(context, message, undefined);
  }

  #postLegacy(context: Context, message: Message): Awaitable<HttpResponse> {
    const { req } = context;
    const id = message.kind === 'request' ? message.id : undefined;
    if (
      message.kind === 'request' &&
      message.method === 'initialize' &&
      req.headers['mcp-session-id'] === undefined
    )
      return this.#respond(context, message, undefined);
    const session = this.#deps.hasSessions ? this.#sessionOf(context, id) : alone(saidDialect(req));
    if (session instanceof HttpResponse) return session;
    if (session === undefined)
      return refused(
        400,
        'The request names no session: send "initialize" first, then its Mcp-Session-Id with each request',
        id,
        saidDialect(req),
      );
    if (message.kind === 'request') return this.#respond(context, message, session);
    if (message.kind === 'response') this.#note(session, { kind: 'response', response: message });
    if (message.kind === 'notification' && message.method === 'notifications/cancelled')
      this.#note(session, { kind: 'cancelled', request: message.params['requestId'] as RequestId });
    return new HttpResponse(null, { status: 202 });
  }

  /** Handles a batch of messages, which protocol versions up to 2025-03-26 allow. */
  async #postBatch(context: Context, values: readonly unknown[]): Promise<HttpResponse> {
    const { req } = context;
    const unspoken = unspokenVersion(req);
    if (unspoken !== undefined) return refused(400, unspoken);
    const session = this.#deps.hasSessions ? this.#sessionOf(context) : alone(saidDialect(req));
    if (session instanceof HttpResponse) return session;
    const problem = rpc.batchIssue(values, session?.dialect);
    // `problem` is defined: without a session, batchIssue() always returns a problem
    if (session === undefined || problem !== undefined)
      return refused(400, problem!, undefined, session?.dialect ?? saidDialect(req));
    // aborts when the client disconnects, because the client cannot get the response later
    const leaving = new AbortController();
    context.signal.addEventListener('abort', () => leaving.abort(new ClientDisconnected()), { once: true });
    const answers = await Promise.all(
      values.map((value) => this.#answerOf(context, rpc.readMessage(value), session, leaving.signal)),
    );
    const answered = answers.filter((answer) => answer !== undefined);
    return answered.length === 0
      ? new HttpResponse(null, { status: 202 })
      : new JSONResponse(answered, { headers: NO_STORE });
  }

  /** Returns the response to one message of a batch; undefined if the message gets none. */
  async #answerOf(
    context: Context,
    message: Message,
    session: HttpSession,
    leaving: AbortSignal,
  ): Promise<JsonObject | undefined> {
    if (message.kind === 'invalid') return rpc.failure(message.id, message.error, session.dialect);
    if (message.kind === 'response') this.#note(session, { kind: 'response', response: message });
    if (message.kind !== 'request') return undefined;
    const problem = issueInBatch(message);
    if (problem !== undefined) return rpc.failure(message.id, problem, session.dialect);
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, leaving]);
    return this.#inSession(context, session, message, abort, () =>
      this.#dispatch(context).answer(
        message,
        this.#exchange(context, session, {
          signal,
          closing: NEVER,
          notify: () => undefined,
          begin: () => undefined,
        }),
      ),
    );
  }

  async #respond(
    context: Context,
    message: RpcRequest,
    session: HttpSession | undefined,
  ): Promise<HttpResponse> {
    const { req, signal } = context;
    const mayStream = accepts(req, 'text/event-stream');
    if (!mayStream && message.method === 'subscriptions/listen')
      return refused(406, 'The Accept field of a subscription must include text/event-stream', message.id);
    const abort = new AbortController();
    const leave = (): void => abort.abort(new ClientDisconnected());
    // a disconnect cancels a request only outside of sessions (MCP 2025-11-25, transports)
    if (session === undefined) signal.addEventListener('abort', leave, { once: true });
    // aborts at shutdown and when the token expires, which ends subscriptions but not tool calls
    const closing = new AbortController();
    // aborts when the client has disconnected and can no longer receive requests
    const left = new AbortController();
    const stream = new MessageStream(
      session === undefined ? leave : () => left.abort(new ClientDisconnected()),
      () => closing.abort(stopping()),
    );
    const early = Promise.withResolvers<undefined>();
    const send = (sent: JsonObject): void => {
      stream.push(sent);
      early.resolve(undefined);
    };
    let begun: HttpSession | undefined;
    let wanted: { readonly status: number; readonly challenge: string } | undefined;
    const exchange = this.#exchange(context, session, {
      signal: abort.signal,
      closing: closing.signal,
      notify: (method, params) => {
        if (mayStream) send(rpc.notification(method, params));
      },
      ask:
        session !== undefined && mayStream
          ? (request) =>
              this.#sentRequests.ask({
                ...request,
                owner: session.id,
                client: this.#deps.client(context),
                ends: [left.signal, closing.signal],
                send,
              })
          : undefined,
      begin: (agreed) => {
        if (this.#deps.hasSessions)
          begun = this.#sessionsOf(context).begin(agreed, this.#deps.principal(context));
      },
      challenged: (status, challenge) => {
        if (this.#deps.asksForTokens) wanted = { status, challenge };
      },
    });
    const answering = this.#inSession(context, session, message, abort, () =>
      this.#dispatch(context).answer(message, exchange),
    );
    using _patience = mayStream
      ? this.#app.clock.after(PATIENCE_MS, () => early.resolve(undefined))
      : undefined;
    const answer = await Promise.race([answering, early.promise]);
    if (answer === undefined && !abort.signal.aborted) {
      void answering.then((last) => stream.end(last));
      return new EventStreamResponse(stream);
    }
    // a cancelled request has no response
    if (answer === undefined) return new HttpResponse(null, { status: 202, headers: NO_STORE });
    const isModernRequest =
      session === undefined &&
      (message.method !== 'initialize' || McpDispatcher.isModern(message.method, message.params));
    return new JSONResponse(answer, {
      status: wanted?.status ?? statusOf(answer, isModernRequest),
      headers: {
        ...NO_STORE,
        ...(begun === undefined ? {} : { 'Mcp-Session-Id': begun.id }),
        ...(wanted === undefined ? {} : { 'WWW-Authenticate': wanted.challenge }),
      },
    });
  }

  /** Handles news about a session, in this process and in others if it concerns them. */
  #note(session: HttpSession, news: News): void {
    if (!this.#isHandledHere(session, news) && session.id !== '')
      this.#app.rooms.tell(writeNews(session.id, news));
  }

  /** Handles news that another process has received. A process that knows no session has nothing to change. */
  #onNews(text: string): void {
    const read = readNews(text);
    const session = read === undefined ? undefined : this.#sessions?.named(read.session);
    if (session !== undefined) this.#isHandledHere(session, read!.news);
  }

  /** Changes the state of a session in this process. Returns whether the news concern no other process. */
  #isHandledHere(session: HttpSession, news: News): boolean {
    switch (news.kind) {
      case 'response':
        return this.#sentRequests.receive(session.id, news.response);
      case 'cancelled': {
        const request = session.inFlight.get(news.request);
        request?.abort(new ClientDisconnected());
        return request !== undefined;
      }
      case 'log level':
        session.logLevel = news.level;
        return false;
      case 'ended':
        endSession(session);
        return false;
    }
  }

  /**
   * Runs a request, and returns its response; undefined if it was cancelled. In a session, the request counts
   * toward the limits, and the client can cancel it.
   */
  async #inSession(
    context: Context,
    session: HttpSession | undefined,
    { id }: RpcRequest,
    abort: AbortController,
    answer: () => Promise<JsonObject>,
  ): Promise<JsonObject | undefined> {
    const gone = abortOf(abort.signal);
    if (session === undefined) return Promise.race([answer(), gone]);
    if (session.inFlight.has(id)) return rpc.failure(id, rpc.REPEATED_ID, session.dialect);
    const client = this.#deps.client(context);
    const problem = this.#unanswered.take(client);
    if (problem !== undefined)
      return rpc.failure(id, new rpc.RpcError(rpc.INTERNAL_ERROR, problem), session.dialect);
    session.inFlight.set(id, abort);
    const level = session.logLevel;
    // a request counts until its handler ends, even if its client has disconnected
    const answering = answer().finally(() => this.#unanswered.give(client));
    try {
      return await Promise.race([answering, gone]);
    } finally {
      session.inFlight.delete(id);
      if (session.logLevel !== level) this.#note(session, { kind: 'log level', level: session.logLevel });
    }
  }

  #exchange(
    context: Context,
    session: McpSession | undefined,
    ways: Pick<Exchange, 'signal' | 'closing' | 'notify' | 'begin' | 'challenged' | 'ask'>,
  ): Exchange {
    const principal = session === undefined ? this.#deps.principal(context) : undefined;
    return { session, caller: this.#callerOf(context.req), principal, ...ways };
  }

  /** Returns the caller for tool calls: its credentials, and the fields for the route. */
  #callerOf(req: HttpRequest): Caller {
    const { headers } = this.#deps;
    return {
      carrier: req,
      remoteAddress: req.ip,
      origin: `${req.scheme}://${req.host}`,
      fieldsFor: ({ route: { security } }: RouteDetail, fields) => {
        const keys = security.flatMap(({ credential }) =>
          credential?.in === 'header' ? [credential.name.toLowerCase()] : [],
        );
        return Object.fromEntries(
          [...PASSED, ...headers, ...keys, ...fields]
            .filter((name) => req.headers[name] !== undefined)
            .map((name) => [name, req.headers[name]!]),
        );
      },
    };
  }

  /** Returns the session of the request; undefined without one, an error for an unknown one. */
  #sessionOf(context: Context, id?: RequestId): HttpSession | HttpResponse | undefined {
    const named = context.req.headers['mcp-session-id'];
    if (named === undefined || !this.#deps.hasSessions) return undefined;
    return (
      this.#sessionsOf(context).find(named, this.#deps.principal(context)) ??
      refused(
        404,
        'The session is unknown: it has expired, was ended, or belongs to another client. Send "initialize" again',
        id,
        saidDialect(context.req),
      )
    );
  }

  #sessionsOf({ state }: Context): McpSessions {
    return (this.#sessions ??= new McpSessions(state.get(services), this.#deps.sessionSeconds));
  }

  #dispatch({ state }: Context): McpDispatcher {
    return (this.#dispatcher ??= new McpDispatcher(this.#app, this.#deps.dispatching(state.get(services))));
  }
}

/** A signal that never aborts, for batches: only subscriptions need to end, and a batch contains none. */
const NEVER: AbortSignal = new AbortController().signal;

const NO_STORE: Readonly<Record<string, string>> = { 'Cache-Control': 'no-store' };

function refused(
  status: number,
  error: rpc.RpcError | string,
  id?: RequestId,
  dialect: Dialect = rpc.NEWEST,
): HttpResponse {
  return new JSONResponse(rpc.failure(id, error, dialect), { status, headers: NO_STORE });
}

/** Returns a session for one request, whose handler cannot send requests to the client. */
function alone(dialect: Dialect): HttpSession {
  return { id: '', dialect, logLevel: 'info', abilities: new Set(), inFlight: new Map(), isEnded: false };
}

/** Whether a message belongs to protocol 2026-07-28, by header field, `_meta` or method. */
function isModern({ headers }: HttpRequest, message: Message): boolean {
  const said = headers['mcp-protocol-version'];
  if (said !== undefined && rpc.legacyDialect(said) === undefined) return true;
  return message.kind === 'request' && McpDispatcher.isModern(message.method, message.params);
}

/** Returns an error if MCP-Protocol-Version names an unsupported version. */
function unspokenVersion({ headers }: HttpRequest): rpc.RpcError | undefined {
  const said = headers['mcp-protocol-version'];
  if (said === undefined || rpc.legacyDialect(said) !== undefined || rpc.modernDialect(said) !== undefined)
    return undefined;
  return rpc.unsupportedVersion(said);
}

/**
 * Returns the protocol version for an error response. This is the legacy version that MCP-Protocol-Version
 * names, or 2025-03-26 if the field is missing. If the field has another value, it is the newest version.
 */
function saidDialect({ headers }: HttpRequest): Dialect {
  return (
    rpc.legacyDialect(headers['mcp-protocol-version']) ??
    (headers['mcp-protocol-version'] === undefined ? rpc.UNSAID : rpc.NEWEST)
  );
}

/** Returns the HTTP status: for modern clients, 404 or 400 for two kinds of errors. */
function statusOf({ error }: JsonObject, isModernRequest: boolean): number {
  if (error === undefined || !isModernRequest) return 200;
  const { code } = error as { readonly code: number };
  return code === rpc.METHOD_NOT_FOUND ? 404 : code === rpc.MISSING_CAPABILITY ? 400 : 200;
}

/**
 * Whether the Accept field allows a media type (RFC 9110 §12.5.1). Without the field, all types are allowed.
 * The most specific range decides, and `q=0` excludes a type.
 */
function accepts({ headers }: HttpRequest, type: string): boolean {
  const { accept } = headers;
  if (accept === undefined) return true;
  const ranges = accept.split(',').map((range) => range.toLowerCase());
  const found = [type, `${type.split('/', 1)[0]!}/*`, '*/*']
    .map((name) => ranges.filter((range) => range.split(';', 1)[0]!.trim() === name))
    .find((named) => named.length > 0);
  // Accept may name a range several times: one occurrence with a weight above 0 is enough
  return found?.some((range) => !/;[ \t]*q=0(?:\.0{0,3})?[ \t]*(?:;|$)/.test(range)) === true;
}
