/**
 * Interfaces shared by requests, middleware, plugins and rules. They refer to each other, so they are in one
 * file.
 *
 * Types only. Implementations: http/request/request.ts, pipeline.ts, routing/route.ts, routing/plugin.ts,
 * check/check.ts.
 */
import type { Clock } from '../base/clock.ts';
import type { Config, Env } from '../base/config.ts';
import type { Finding, Place, Severity } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { UploadFile } from '../schema/types.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { HeaderView } from './headers.ts';
import type { MultiMap } from './request/query.ts';
import type { HttpResponse } from './response.ts';
import type { TraceContext } from './request-id.ts';

export type { Awaitable } from '../cache/stores.ts';

// -- request --

/** A request, for middleware, dependencies and handlers. Each part is parsed once, when it is first read. */
export interface HttpRequest {
  readonly method: string;
  /** The path as it was sent, still encoded, without the query. */
  readonly path: string;
  /** The request target as it was sent. */
  readonly target: string;
  readonly scheme: 'http' | 'https';
  /**
   * The `Host` of the request with its port; empty if absent. With `trustForwardedHost`, it is the host that
   * a trusted proxy reports.
   */
  readonly host: string;
  /**
   * Address of the client: of the peer of the connection, or behind trusted proxies, of the client that they
   * report. An IPv4 address is written as IPv4 even if the socket is IPv6.
   */
  readonly ip: string;
  /** Time when the head of the request was read, in milliseconds of the monotonic clock. */
  readonly startedMs: number;
  /** Request id: a valid `X-Request-Id` of the request, or a new one; see `RequestIDMiddleware`. */
  readonly id: string;
  /**
   * Position in the trace (W3C Trace Context): that of a valid `traceparent`, else the start of a new trace.
   */
  readonly trace: TraceContext;
  /** The route that matched, before any middleware ran; undefined for 404 and 405. */
  readonly route: CompiledRoute | undefined;
  /** The parameters of the path, as parsed by their converters. */
  readonly pathParams: Readonly<Record<string, unknown>>;
  readonly query: MultiMap;
  /** Request fields by lower-case name. */
  readonly headers: HeaderView;
  readonly cookies: Readonly<Record<string, string>>;
  /** Values that middleware and plugins store for inner middleware and handlers. */
  readonly state: StateMap;
  /** Session of the client. @throws SvcError `E_SESSION_ABSENT` without session middleware */
  readonly session: Session;
  /**
   * Aborts when the client leaves before its response is complete (`ClientDisconnected`), or when the time
   * limit of the request has passed (`RequestTimeout`).
   */
  readonly signal: AbortSignal;
  /**
   * Sends early hints to a browser (103, RFC 8297): `'</app.css>; rel=preload; as=style'`. Returns false if
   * nothing was sent, because the request came over HTTP/1.0 or without a socket, or the head of the response
   * was sent before.
   * @throws SvcError `E_HEADER`
   */
  earlyHints(links: string | readonly string[]): boolean;
  /**
   * The whole body as bytes. The limit is `maxBytes`, and at most the `maxBodyBytes` of the route, or without
   * one, of the application. A larger body is 413.
   */
  body(options?: BodyOptions): Promise<Uint8Array>;
  /** The body as a stream, limited like `body()`. It cannot be combined with the other readers. */
  stream(options?: BodyOptions): AsyncIterable<Uint8Array>;
  /**
   * Parses the body as JSON. It may have 10 MB, unless `maxBytes` or the route's `maxBodyBytes` sets another
   * limit. Malformed JSON and nesting deeper than 1,000 are 400; another media type is 415.
   */
  json(options?: BodyOptions): Promise<unknown>;
  /** The body as UTF-8 text, with the limit of `json()`. */
  text(options?: BodyOptions): Promise<string>;
  /**
   * Fields and files of a form, urlencoded or multipart. It may have 10 MB, unless `maxBytes` or the route's
   * `maxBodyBytes` sets another limit. A multipart form is read once; later calls return the same form. A
   * form beyond a limit is 413, a malformed one 400, another media type 415.
   */
  form(options?: FormOptions): Promise<FormFields>;
  /**
   * Parts of a multipart form as a stream, with the limits of `form()`. Read each part before the next one;
   * unread content is skipped. Nothing is stored. It cannot be combined with the other readers.
   */
  parts(options?: FormOptions): AsyncIterable<FormPart>;
  /**
   * Fields that a multipart form has before its first file and within the first 64 KiB. Afterwards the body
   * can still be read in any way. @internal
   */
  leadingFields(): Promise<MultiMap>;
}

/** How much of a body may be read. */
export interface BodyOptions {
  /** Maximum size in bytes, 0 ... 2^53-1; a larger body is 413. */
  readonly maxBytes?: number | undefined;
}

/** Limits of a form, in bytes unless stated otherwise. A form beyond a limit is 413. */
export interface FormOptions extends BodyOptions {
  /** Number of fields, 0 ... 1_000_000. Default 1_000. */
  readonly maxFields?: number | undefined;
  /** Number of files, 0 ... 1_000_000. Default 100. */
  readonly maxFiles?: number | undefined;
  /** Size of one field. Default 1_000_000. */
  readonly maxFieldBytes?: number | undefined;
  /** Total size of all fields of a multipart form and of the headers of all parts. Default 10_000_000. */
  readonly maxTextBytes?: number | undefined;
  /** Size of one file. Default: what remains of `maxBytes`. */
  readonly maxFileBytes?: number | undefined;
  /** Size of the headers of one part, 64 ... 1_048_576. Default 16_384. */
  readonly maxHeaderBytes?: number | undefined;
  /**
   * Memory for the content of all files together. Content beyond it is written to a temporary file. Default
   * 1_048_576.
   */
  readonly memoryBytes?: number | undefined;
  /** Folder of the temporary file. Default: the setting `uploadDirectory`. */
  readonly directory?: string | undefined;
}

/** Fields and files of a form. `has()` and `keys()` cover both, `get()` and `getAll()` only fields. */
export interface FormFields extends MultiMap {
  /** The first file with that field name. */
  file(name: string): UploadFile | undefined;
  /** Returns all files of a name. */
  files(name: string): readonly UploadFile[];
}

/** One part of a multipart form. Its content can be read once. */
export interface FormPart extends AsyncIterable<Uint8Array> {
  readonly name: string;
  /** Name of the file that the client sent; undefined for a field. See {@link UploadFile}. */
  readonly filename: string | undefined;
  /** The media type that the client declared. */
  readonly contentType: string;
  /** Content as UTF-8 text; 400 for invalid UTF-8. */
  text(): Promise<string>;
}

/** The key of a session value of type `T`, made by `sessionKey<T>(name)`. */
export interface SessionKey<out T> {
  readonly name: string;
  /** Has the type `T` for the compiler. Not set at run time. */
  readonly value?: T;
}

/** A message that the next page shows once. */
export interface Flash {
  /** Category of the message, for its styling: `info`, `error`. */
  readonly kind: string;
  readonly text: string;
}

/** Session of a client; requires the session middleware. Values are JSON values. */
export interface Session {
  /** The session id; {@link regenerate} replaces it. Reading it does not create a session. */
  readonly id: string;
  /** Whether the client sent no valid session. */
  readonly isNew: boolean;
  /** Returns a value, or undefined if the session has none. */
  get<T>(key: SessionKey<T>): T | undefined;
  get(key: string): unknown;
  /** Sets a value, which must be a JSON value. */
  set<T>(key: SessionKey<T>, value: NoInfer<T>): void;
  set(key: string, value: unknown): void;
  /** Removes a value. */
  delete(key: string | SessionKey<unknown>): void;
  /**
   * Replaces the id, and invalidates the old one. Call it after a change of privileges. All values are kept,
   * or only those named in `keep`.
   */
  regenerate(options?: { readonly keep?: readonly (string | SessionKey<unknown>)[] | undefined }): void;
  /**
   * Deletes the session and its cookie. With a store, the session ends at once. Without a store, it cannot be
   * revoked. A copy of the cookie is valid until it expires, and a concurrent request that changes the
   * session sends the cookie again.
   */
  destroy(): void;
  /**
   * Adds a message for the next page. A text of more than 500 characters is shortened. If the session has too
   * little space left, the oldest messages are dropped.
   */
  flash(kind: string, text: string): void;
  /** Returns and removes the messages of earlier requests, oldest first. */
  takeFlashes(): readonly Flash[];
}

/** Argument of dependency functions, classes, hooks and state keys. */
export interface Context {
  readonly req: HttpRequest;
  readonly signal: AbortSignal;
  readonly state: StateMap;
}

/**
 * Names a value of type `T` in a {@link StateMap}. The key is also a function that returns the value from a
 * context, so `Depends(key)` works.
 */
export interface StateKey<T> {
  readonly name: string;
  (context: Context): T;
}

/** Typed values by their state keys. */
export interface StateMap {
  /** @throws SvcError `E_STATE_UNSET`, which names the middleware or plugin that sets the value */
  get<T>(key: StateKey<T>): T;
  /** Sets the value of a key. */
  set<T>(key: StateKey<T>, value: T): void;
  /** Whether the key has a value. */
  has(key: StateKey<unknown>): boolean;
}

/** Services of an application. Every request's state has them under the key `services`. */
export interface Services {
  readonly env: Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly config: Config;
}

// -- middleware --

/**
 * Passes the request to the next layer. Call it once, and await the result, which is a promise or a response.
 */
export type Next = () => Awaitable<HttpResponse>;

/** Kind of a middleware, by which the order of middleware is checked. */
export type MiddlewareKind =
  | 'request-id'
  | 'trusted-host'
  | 'security-headers'
  | 'cors'
  | 'rate-limit'
  | 'concurrency-limit'
  | 'compression'
  | 'etag'
  | 'timeout'
  | 'session'
  | 'csrf'
  | 'idempotency';

/** A middleware. Each one surrounds the following ones, the handler and the rendering of errors. */
export interface Middleware {
  readonly kind?: MiddlewareKind;
  /** Returns a response, or calls `next()` and returns its response, changed or not. */
  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse>;
  /**
   * Names of required secret settings, for example `['authSecret']`: an application that lacks one does not
   * start.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Reports mistakes of order and configuration. Called when the application is compiled or checked, before
   * any request. The middleware gets its services here (`view.services`). `view.middleware` lists all
   * middleware up to this one, the outermost first.
   */
  compile?(view: CompiledView): Iterable<Omit<Finding, 'place'>>;
}

// -- the compiled application, for rules, documents and plugins --

/** One route after compilation; also `req.route`. */
export interface CompiledRoute {
  /** Method in capitals; `WEBSOCKET` for a WebSocket route. */
  readonly method: string;
  readonly template: string;
  readonly name: string | undefined;
  readonly place: Place;
  readonly security: readonly SecurityRequirement[];
  readonly meta: Readonly<Record<string, unknown>>;
  /** Rate limit from the declaration of the route; false: unlimited. */
  readonly rateLimit?: RouteRateLimit | false | undefined;
  /** Time limit in milliseconds from the declaration of the route; false: unlimited. */
  readonly timeoutMs?: number | false | undefined;
  /** Time limit in milliseconds for receiving the whole request, if the declaration of the route has one. */
  readonly requestTimeoutMs?: number | undefined;
}

/** Returns the key by which a request is counted. If it is undefined, the client's address is the key. */
export type RateLimitKey = (req: HttpRequest) => string | undefined;

/** How often one client may call a route. */
export interface RouteRateLimit {
  /** Requests per minute, 1 ... 1_000_000. */
  readonly perMinute: number;
  /** Number of requests that may come at once, 1 ... 1_000_000. Default: `perMinute`. */
  readonly burst?: number | undefined;
  readonly key?: RateLimitKey | undefined;
}

/**
 * One way to get access to a route: a credential that has all of the scopes and at least one of the roles.
 */
export interface SecurityRequirement {
  readonly scheme: 'bearer' | 'session' | 'apiKey';
  readonly scopes: readonly string[];
  readonly roles: readonly string[];
  /** Where the credential is sent: the API key, or the cookie of the session. */
  readonly credential?: { readonly in: 'header' | 'cookie'; readonly name: string } | undefined;
  /** Whether requests without the credential pass as well. */
  readonly isOptional?: true | undefined;
}

/** The compiled application: all its declarations, for rules, documents and plugins. */
export interface CompiledView {
  readonly env: Env;
  readonly routes: readonly CompiledRoute[];
  readonly middleware: readonly Middleware[];
  readonly plugins: readonly Plugin[];
  readonly services: Services;
  /** Returns the value of a setting. */
  config(key: string): unknown;
}

/** A rule of `svc check`. Only rules of the phase `live` may be asynchronous. */
export interface Rule {
  readonly id: Finding['rule'];
  readonly severity: Severity;
  readonly why: string;
  readonly remedy: string;
  readonly phase: 'graph' | 'security' | 'contract' | 'environment' | 'live';
  /** Checks the application, and calls `report` for each problem found. */
  run(view: CompiledView, report: (subject: string, message: string, place?: Place) => void): Awaitable<void>;
}

// -- plugins --

/** A reusable part of an application. */
export interface Plugin {
  readonly name: string;
  /** Names of plugins that must be registered. They start before this one. */
  readonly requires?: readonly string[];
  /** Names of plugins that start before this one if they are registered. */
  readonly after?: readonly string[];
  /**
   * If true, this plugin starts before all plugins without this flag, and stops after them. Databases set it.
   */
  readonly startsFirst?: boolean;
  /**
   * Names of required secret settings, for example `['authSecret']`: an application that lacks one does not
   * start.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Declares routes, middleware and other contributions. Runs before compilation; must be synchronous and do
   * no I/O.
   */
  register(host: Host): void;
  /**
   * Called in dependency order, before the callbacks of `app.onStartup`. After a failure the started plugins
   * are shut down.
   */
  startup?(signal: AbortSignal): Awaitable<void>;
  /** Called in reverse order, after the last request and background task. */
  shutdown?(): Awaitable<void>;
}

/** The part of the application that a plugin can use. */
export interface Host {
  readonly env: Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly routes: RouterLike;
  /** A configuration value, typed by its fallback or by `cast`. */
  option<T>(key: string, fallback: T, cast?: (text: string) => T): T;
  /**
   * Adds middleware that runs inside the application's own. With `outside`, it runs outside all middleware
   * that was added so far.
   */
  use(middleware: Middleware, where?: 'inside' | 'outside'): void;
  /** Returns the value that an earlier plugin provides under this key. @throws SvcError `E_STATE_UNSET` */
  get<T>(key: StateKey<T>): T;
  /** Whether an earlier plugin provides a value under this key. */
  has(key: StateKey<unknown>): boolean;
  /** Provides a value under a key. `read` is called anew for each request. */
  provide<T>(key: StateKey<T>, read: () => T): void;
  /**
   * Adds a check to `/readyz`. If the probe throws or takes more than 2 s, the part counts as down. The error
   * is logged, but not shown in the response.
   */
  readiness(name: string, probe: (signal: AbortSignal) => Awaitable<void>): void;
  /** Adds a rule of `svc check`. */
  rule(rule: Rule): void;
  /**
   * Adds migrations by database engine. `svc migrate up` applies each once, before the application's own,
   * under the id `plugin/id`.
   */
  migration(
    id: string,
    sql: Readonly<Record<'sqlite' | 'postgres' | 'mysql' | 'mariadb', readonly string[]>>,
  ): void;
  /** Migrations of all plugins so far. @internal */
  readonly migrations: readonly ContributedMigration[];
}

/** Statements of a plugin for the database, by engine. @internal */
export interface ContributedMigration {
  readonly plugin: string;
  readonly id: string;
  readonly sql: Parameters<Host['migration']>[1];
}

/** The methods with which a plugin declares routes. */
export interface RouterLike {
  /** Adds a route for several methods. */
  route(path: string, methods: readonly string[], spec: object, handler: (context: never) => unknown): void;
}
