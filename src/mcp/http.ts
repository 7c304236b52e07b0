/**
 * MCP over HTTP: one endpoint, for both eras of Streamable HTTP. mcp/mount.ts declares its routes.
 *
 *   POST     a message. Modern: its fields say what it does, and must not differ. Legacy: `initialize`, or one of a session
 *   GET      legacy: a stream of a session, on which nothing is ever told, for nothing changes; else 405
 *   DELETE   legacy: ends a session
 *
 * An answer is JSON, or a stream of events once there is progress or a message to tell before it, or it takes long.
 */
import { ClientDisconnected, HTTPException } from '../base/errors.ts';
import { issueOfFields } from './fields.ts';
import {
  INTERNAL_ERROR,
  INVALID_REQUEST,
  METHOD_NOT_FOUND,
  NEWEST,
  PARSE_ERROR,
  RpcError,
  SUPPORTED,
  UNSAID,
  UNSUPPORTED_VERSION,
  failure,
  legacyDialect,
  modernDialect,
  notification,
  readMessage,
} from './messages.ts';
import { McpDispatcher, comesAlone, readModern } from './server.ts';
import { McpSessions } from './sessions.ts';
import { HttpResponse, JSONResponse } from '../http/response.ts';
import { services } from '../http/state.ts';
import { EventStreamResponse, FiniteEvents } from '../http/streaming/event-stream.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { Caller, McpApplication } from './calls.ts';
import type { Dialect, JsonObject, Message, RequestId, RpcRequest } from './messages.ts';
import type { Exchange, McpSession, DispatcherOptions } from './server.ts';
import type { HttpSession } from './sessions.ts';
import type { Awaitable, Context, HttpRequest, Services } from '../http/contracts.ts';
import type { ServerSentEvent } from '../http/streaming/event-stream.ts';

/** What stands in requests of their own, and may be passed on. */
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

/** What an endpoint is made of. */
export interface EndpointDeps {
  /** Options of the dispatcher, in this environment. */
  dispatching(provided: Services): DispatcherOptions;
  readonly headers: readonly string[];
  /** Whether its clients know where to get the token that a tool wants. */
  readonly asksForTokens: boolean;
  readonly hasSessions: boolean;
  readonly sessionSeconds: number;
  readonly maxBodyBytes: number;
  principal(context: Context): string;
}

/** How long a client waits for an answer before it is told that there will be one. */
const PATIENCE_MS = 10_000;
/** Messages in one array. */
const MAX_BATCH = 1_000;
/** Requests of sessions that are not answered yet, of all clients of an endpoint: those of a client that has left go on. */
const MAX_UNANSWERED = 1_000;

/** One endpoint. */
export class McpEndpoint {
  readonly #app: McpApplication;
  readonly #deps: EndpointDeps;
  #dispatcher: McpDispatcher | undefined;
  #sessions: McpSessions | undefined;
  /** Requests of sessions that are not answered yet. */
  #unanswered = 0;

  constructor(app: McpApplication, deps: EndpointDeps) {
    this.#app = app;
    this.#deps = deps;
  }

  /** Answers a request of any of its methods. */
  answer(context: Context): Awaitable<HttpResponse> {
    const { req } = context;
    if (req.method === 'POST') return this.#post(context);
    const unspoken = unspokenVersion(req);
    if (unspoken !== undefined) return refused(400, undefined, unspoken);
    const session = this.#sessionOf(context);
    if (session instanceof HttpResponse) return session;
    if (session === undefined)
      return new JSONResponse(
        failure(undefined, new RpcError(INVALID_REQUEST, 'This endpoint takes POST'), NEWEST),
        { status: 405, headers: { Allow: 'POST' } },
      );
    if (req.method === 'DELETE') {
      this.#sessionsOf(context).end(session);
      return new HttpResponse(null, { status: 204 });
    }
    if (!accepts(req, 'text/event-stream'))
      return refused(
        406,
        undefined,
        new RpcError(INVALID_REQUEST, 'A client that listens accepts text/event-stream'),
      );
    const stream = new MessageStream(
      () => undefined,
      () => stream.end(undefined),
    );
    return streamed(stream);
  }

  async #post(context: Context): Promise<HttpResponse> {
    const { req } = context;
    const type = (req.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase();
    if (type !== 'application/json')
      return refused(415, undefined, new RpcError(INVALID_REQUEST, 'A message is application/json'));
    if (!accepts(req, 'application/json') && !accepts(req, 'text/event-stream'))
      return refused(
        406,
        undefined,
        new RpcError(INVALID_REQUEST, 'A client accepts application/json and text/event-stream'),
      );
    const text = await req.text({ maxBytes: this.#deps.maxBodyBytes }).catch((error: unknown) => {
      if (error instanceof HTTPException && error.code === 'utf8') return ''; // which is no JSON either (RFC 8259 §8.1)
      throw error;
    });
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return refused(
        400,
        undefined,
        new RpcError(PARSE_ERROR, 'Parse error: the body is one message of JSON'),
        saidDialect(req),
      );
    }
    if (Array.isArray(value)) return this.#postBatch(context, value);
    const message = readMessage(value);
    if (message.kind === 'invalid') return refused(400, message.id, message.error, saidDialect(req));
    return isModern(req, message) ? this.#postModern(context, message) : this.#postLegacy(context, message);
  }

  #postModern(context: Context, message: Message): Awaitable<HttpResponse> {
    if (message.kind !== 'request') {
      const unspoken = unspokenVersion(context.req);
      return unspoken === undefined
        ? new HttpResponse(null, { status: 202 })
        : refused(400, undefined, unspoken);
    }
    const problem = issueOfFields(context.req.headers, message) ?? issueOfMeta(message);
    if (problem !== undefined) return refused(400, message.id, problem, NEWEST);
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
        id,
        new RpcError(
          INVALID_REQUEST,
          'A request belongs to a session: begin with "initialize", and send its Mcp-Session-Id',
        ),
        saidDialect(req),
      );
    if (message.kind === 'request') return this.#respond(context, message, session);
    if (message.kind === 'notification' && message.method === 'notifications/cancelled')
      session.inFlight.get(message.params['requestId'] as RequestId)?.abort(new ClientDisconnected());
    return new HttpResponse(null, { status: 202 });
  }

  /** Several messages, until 2025-03-26. */
  async #postBatch(context: Context, values: readonly unknown[]): Promise<HttpResponse> {
    const { req } = context;
    const unspoken = unspokenVersion(req);
    if (unspoken !== undefined) return refused(400, undefined, unspoken);
    const session = this.#deps.hasSessions ? this.#sessionOf(context) : alone(saidDialect(req));
    if (session instanceof HttpResponse) return session;
    const problem =
      session?.dialect.hasBatches !== true
        ? 'This version has no batches: one message at a time'
        : values.length === 0
          ? 'A batch has at least one message'
          : values.length > MAX_BATCH
            ? `A batch has at most ${MAX_BATCH} messages`
            : undefined;
    if (session === undefined || problem !== undefined)
      return refused(
        400,
        undefined,
        new RpcError(INVALID_REQUEST, problem ?? ''),
        session?.dialect ?? saidDialect(req),
      );
    const leaving = new AbortController(); // what is answered as one array cannot be taken up again: nobody waits for it any more
    context.signal.addEventListener('abort', () => leaving.abort(new ClientDisconnected()), { once: true });
    const answers = await Promise.all(
      values.map((value) => this.#answerOf(context, readMessage(value), session, leaving.signal)),
    );
    const answered = answers.filter((answer) => answer !== undefined);
    return answered.length === 0
      ? new HttpResponse(null, { status: 202 })
      : new JSONResponse(answered, { headers: NO_STORE });
  }

  /** The answer to one message of several. */
  async #answerOf(
    context: Context,
    message: Message,
    session: HttpSession,
    leaving: AbortSignal,
  ): Promise<JsonObject | undefined> {
    if (message.kind === 'invalid') return failure(message.id, message.error, session.dialect);
    if (message.kind !== 'request') return undefined;
    if (comesAlone(message))
      return failure(
        message.id,
        new RpcError(INVALID_REQUEST, `"${message.method}" comes alone`),
        session.dialect,
      );
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, leaving]);
    return this.#inSession(session, message, abort, () =>
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

  /** The answer to one request: JSON, or events. */
  async #respond(
    context: Context,
    message: RpcRequest,
    session: HttpSession | undefined,
  ): Promise<HttpResponse> {
    const { req, signal } = context;
    const mayStream = accepts(req, 'text/event-stream');
    if (!mayStream && message.method === 'subscriptions/listen')
      return refused(
        406,
        message.id,
        new RpcError(INVALID_REQUEST, 'A client that listens accepts text/event-stream'),
      );
    const abort = new AbortController();
    const leave = (): void => abort.abort(new ClientDisconnected());
    if (session === undefined) signal.addEventListener('abort', leave, { once: true }); // a legacy client that leaves may not have cancelled (2025-11-25, transports)
    const closing = new AbortController(); // what listens ends when the server stops; a call has its time to answer
    const stream = new MessageStream(session === undefined ? leave : () => undefined, () => closing.abort());
    const early = Promise.withResolvers<undefined>();
    let begun: HttpSession | undefined;
    let wanted: { readonly status: number; readonly challenge: string } | undefined;
    const exchange = this.#exchange(context, session, {
      signal: abort.signal,
      closing: closing.signal,
      notify: (method, params) => {
        if (!mayStream) return;
        stream.push(notification(method, params));
        early.resolve(undefined);
      },
      begin: (agreed) => {
        if (this.#deps.hasSessions)
          begun = this.#sessionsOf(context).begin(agreed, this.#deps.principal(context));
      },
      challenged: this.#deps.asksForTokens
        ? (status, challenge) => {
            wanted = { status, challenge };
          }
        : undefined,
    });
    const answering = this.#inSession(session, message, abort, () =>
      this.#dispatch(context).answer(message, exchange),
    );
    using _patience = mayStream
      ? this.#app.clock.after(PATIENCE_MS, () => early.resolve(undefined))
      : undefined;
    const answer = await Promise.race([answering, early.promise]);
    if (answer === undefined && !abort.signal.aborted) {
      void answering.then((last) => stream.end(last));
      return streamed(stream);
    }
    if (answer === undefined) return new HttpResponse(null, { status: 202, headers: NO_STORE }); // cancelled: there is no answer
    return new JSONResponse(answer, {
      status:
        wanted?.status ??
        statusOf(
          answer,
          session === undefined &&
            (message.method !== 'initialize' || McpDispatcher.isModern(message.method, message.params)),
        ),
      headers: {
        ...NO_STORE,
        ...(begun === undefined ? {} : { 'Mcp-Session-Id': begun.id }),
        ...(wanted === undefined ? {} : { 'WWW-Authenticate': wanted.challenge }),
      },
    });
  }

  /** The answer, undefined once it is cancelled; meanwhile the session knows of the request. */
  async #inSession(
    session: HttpSession | undefined,
    { id }: RpcRequest,
    abort: AbortController,
    answer: () => Promise<JsonObject>,
  ): Promise<JsonObject | undefined> {
    if (session?.inFlight.has(id) === true)
      return failure(
        id,
        new RpcError(INVALID_REQUEST, 'The id belongs to a request that is not answered yet'),
        session.dialect,
      );
    if (session !== undefined && this.#unanswered >= MAX_UNANSWERED)
      return failure(
        id,
        new RpcError(INTERNAL_ERROR, 'Too many requests are not answered yet: send it again later'),
        session.dialect,
      );
    session?.inFlight.set(id, abort);
    if (session !== undefined) this.#unanswered++;
    const gone = Promise.withResolvers<undefined>();
    abort.signal.addEventListener('abort', () => gone.resolve(undefined), { once: true });
    const answering = answer().finally(() => {
      if (session !== undefined) this.#unanswered--;
    }); // also one that nobody waits for any more
    try {
      return await Promise.race([answering, gone.promise]);
    } finally {
      session?.inFlight.delete(id);
    }
  }

  #exchange(
    context: Context,
    session: McpSession | undefined,
    ways: Pick<Exchange, 'signal' | 'closing' | 'notify' | 'begin' | 'challenged'>,
  ): Exchange {
    return { session, caller: this.#callerOf(context.req), ...ways };
  }

  /** Fields that a call brings along: credentials, those that its route reads, and those that the mount names. */
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
        const passed: Record<string, string> = {};
        for (const name of [...PASSED, ...headers, ...keys, ...fields]) {
          const value = req.headers[name];
          if (value !== undefined) passed[name] = value;
        }
        return passed;
      },
    };
  }

  /** The session that a request names; undefined when it names none, an answer when it is not there. */
  #sessionOf(context: Context, id?: RequestId): HttpSession | HttpResponse | undefined {
    const named = context.req.headers['mcp-session-id'];
    if (named === undefined || !this.#deps.hasSessions) return undefined;
    return (
      this.#sessionsOf(context).find(named, this.#deps.principal(context)) ??
      refused(
        404,
        id,
        new RpcError(
          INVALID_REQUEST,
          'The session is not there: it has expired, has been ended, or is somebody else\'s. Begin with "initialize"',
        ),
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

/** The members of a batch: none of them listens. */
const NEVER: AbortSignal = new AbortController().signal;

const NO_STORE: Readonly<Record<string, string>> = { 'Cache-Control': 'no-store' };

/** An error that is no answer to a request that could be served. */
function refused(
  status: number,
  id: RequestId | undefined,
  error: RpcError,
  dialect: Dialect = NEWEST,
): HttpResponse {
  return new JSONResponse(failure(id, error, dialect), { status, headers: NO_STORE });
}

/** What a modern request lacks that every one has. */
function issueOfMeta({ params }: RpcRequest): RpcError | undefined {
  try {
    readModern(params);
    return undefined;
  } catch (error) {
    return error as RpcError; // it throws nothing else
  }
}

/** A legacy request without a session. */
function alone(dialect: Dialect): HttpSession {
  return { id: '', dialect, logLevel: 'info', inFlight: new Map() };
}

/** Whether a message is of the modern era: it says so itself, or its field does. */
function isModern({ headers }: HttpRequest, message: Message): boolean {
  const said = headers['mcp-protocol-version'];
  if (said !== undefined && legacyDialect(said) === undefined) return true;
  return message.kind === 'request' && McpDispatcher.isModern(message.method, message.params);
}

/** What is wrong with a field that names a version nobody here speaks: whatever comes with it is 400 (2025-06-18, transports, protocol version header). */
function unspokenVersion({ headers }: HttpRequest): RpcError | undefined {
  const said = headers['mcp-protocol-version'];
  if (said === undefined || legacyDialect(said) !== undefined || modernDialect(said) !== undefined)
    return undefined;
  return new RpcError(UNSUPPORTED_VERSION, 'Unsupported protocol version', {
    supported: SUPPORTED,
    requested: said,
  });
}

/** The version that the field says, as far as it decides how errors are written. */
function saidDialect({ headers }: HttpRequest): Dialect {
  return (
    legacyDialect(headers['mcp-protocol-version']) ??
    (headers['mcp-protocol-version'] === undefined ? UNSAID : NEWEST)
  );
}

/** Modern clients read the kind of an error off the status. */
function statusOf({ error }: JsonObject, isModernRequest: boolean): number {
  if (error === undefined || !isModernRequest) return 200;
  const { code } = error as { readonly code: number };
  return code === METHOD_NOT_FOUND ? 404 : 200;
}

/** Whether a client takes a type; without the field it takes all. The most specific range decides, and one of weight 0 is what it does not take (RFC 9110 §12.5.1). */
function accepts({ headers }: HttpRequest, type: string): boolean {
  const { accept } = headers;
  if (accept === undefined) return true;
  const ranges = accept.split(',').map((range) => range.toLowerCase());
  const found = [type, `${type.split('/', 1)[0]!}/*`, '*/*']
    .map((name) => ranges.filter((range) => range.split(';', 1)[0]!.trim() === name))
    .find((named) => named.length > 0);
  return found?.some((range) => !/;[ \t]*q=0(?:\.0{0,3})?[ \t]*(?:;|$)/.test(range)) === true; // of several with parameters one is enough
}

/*
 * The messages of one answer over HTTP: told as they come where there is something to tell before the answer is there, else the
 * answer alone as JSON.
 */

/** Messages that wait for a client that does not read: further ones are left out, but for the last. */
const MAX_WAITING = 1_000;

/** Messages as a source of events; read by one. */
class MessageStream extends FiniteEvents implements AsyncIterableIterator<ServerSentEvent> {
  readonly #onLeave: () => void;
  readonly #onStop: () => void;
  #waiting: string[] = [];
  #reader: PromiseWithResolvers<IteratorResult<ServerSentEvent, undefined>> | undefined;
  #isOver = false;

  /** `onLeave` is called when nobody reads any more before the end; `onStop` when the server stops, which waits for the end as for any answer. */
  constructor(onLeave: () => void, onStop: () => void) {
    super();
    this.#onLeave = onLeave;
    this.#onStop = onStop;
  }

  /** The next message. */
  push(message: object): void {
    if (this.#isOver || this.#waiting.length >= MAX_WAITING) return;
    this.#give(JSON.stringify(message));
  }

  /** The last message, or none. */
  end(message: object | undefined): void {
    if (this.#isOver) return;
    if (message !== undefined) this.#give(JSON.stringify(message));
    this.#isOver = true;
    this.#reader?.resolve({ done: true, value: undefined });
    this.#reader = undefined;
  }

  next(): Promise<IteratorResult<ServerSentEvent, undefined>> {
    const data = this.#waiting.shift();
    if (data !== undefined) return Promise.resolve({ done: false, value: { event: 'message', data } });
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined });
    return (this.#reader = Promise.withResolvers()).promise;
  }

  return(): Promise<IteratorResult<ServerSentEvent, undefined>> {
    const wasOver = this.#isOver && this.#waiting.length === 0;
    this.#waiting = [];
    this.end(undefined);
    if (!wasOver) this.#onLeave();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  finish(): void {
    this.#onStop();
  }

  #give(data: string): void {
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader === undefined) this.#waiting.push(data);
    else reader.resolve({ done: false, value: { event: 'message', data } });
  }
}

/** The stream as an answer. */
function streamed(messages: MessageStream): EventStreamResponse {
  return new EventStreamResponse(messages);
}
