/**
 * Types of requests, middleware, plugins and the rules of `svc check`. They are in one file because they
 * refer to each other.
 *
 * The classes that implement these types are in http/request/request.ts, http/pipeline.ts, routing/route.ts,
 * routing/plugin.ts and check/check.ts.
 */
import type { Clock } from '../base/clock.ts';
import type { Config, Env } from '../base/config.ts';
import type { Finding, Place, Severity } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Tracer } from '../observability/tracer.ts';
import type { UploadFile } from '../schema/types.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { HeaderView } from './headers.ts';
import type { MultiMap } from './request/query.ts';
import type { HttpResponse } from './response.ts';
import type { TraceContext } from './request-id.ts';

export type { Awaitable } from '../cache/stores.ts';

// -- request --

/**
 * An HTTP request, as middleware, dependencies and handlers read it. Members such as `cookies` are parsed
 * when they are first read.
 */
export interface HttpRequest {
  readonly method: string;
  /**
   * Path of the request target without the query, in its canonical form: paths that mean the same are equal
   * texts, and routes match this value. Visible characters are decoded. `%25`, `%2F`, `%3F`, `%23`, `%5C`,
   * spaces, controls and bytes that are not UTF-8 stay encoded, in upper case. A path with a malformed escape
   * stays as received, and gets 400. `target` is the text that the client has sent.
   */
  readonly path: string;
  /** Request target as received, such as `/users?page=2`. */
  readonly target: string;
  readonly scheme: 'http' | 'https';
  /**
   * Value of the Host field with its port; empty if the field is absent. With `trustForwardedHost`, it is the
   * host that a trusted proxy reports.
   */
  readonly host: string;
  /**
   * IP address of the client: the address of the connection, or the address that trusted proxies report. An
   * IPv4 address is in dotted form even if the socket is IPv6.
   */
  readonly ip: string;
  /** Time at which the head of the request was read, in milliseconds of the monotonic clock. */
  readonly startedMs: number;
  /**
   * Request id: `X-Request-Id` if the request has a valid one, otherwise a new id. See `RequestIDMiddleware`.
   */
  readonly id: string;
  /**
   * Trace and span of this request (W3C Trace Context). Without a valid `traceparent` field, the request
   * starts a new trace. With the option `tracer`, these are the ids of the exported span.
   */
  readonly trace: TraceContext;
  /** The matched route; undefined for 404 and 405. It is known before middleware runs. */
  readonly route: CompiledRoute | undefined;
  /** Parameters of the path, converted as the path template declares: `{id:int}` gives a number. */
  readonly pathParams: Readonly<Record<string, unknown>>;
  readonly query: MultiMap;
  /** Header fields of the request by lower-case name. */
  readonly headers: HeaderView;
  readonly cookies: Readonly<Record<string, string>>;
  /** Values that plugins and middleware pass on to the handler. */
  readonly state: StateMap;
  /** Session of the client. @throws SvcError `E_SESSION_ABSENT` when no session middleware has run yet */
  readonly session: Session;
  /**
   * Aborts when the request ends early: the client disconnects before its response is complete
   * (`ClientDisconnected`), the time limit of the request passes (`RequestTimeout`), or an event stream ends
   * because the server stops (an HTTPException with status 503) or the login ends (`Unauthorized`).
   */
  readonly signal: AbortSignal;
  /**
   * Sends the status 103 (Early Hints, RFC 8297) with links such as `'</app.css>; rel=preload; as=style'`.
   * Returns false if that is impossible: over HTTP/1.0, without a socket, or after the response has begun.
   * @throws SvcError `E_HEADER` when a link is not a URL in `<>`
   */
  earlyHints(links: string | readonly string[]): boolean;
  /**
   * Reads the whole body as bytes. The limit is the smaller of `maxBytes` and the route's `maxBodyBytes`. A
   * route without `maxBodyBytes` has the limit of the application. A larger body leads to 413.
   */
  body(options?: BodyOptions): Promise<Uint8Array>;
  /**
   * Returns the body as a stream, with the limit of `body()`. Afterwards, no other method can read the body.
   */
  stream(options?: BodyOptions): AsyncIterable<Uint8Array>;
  /**
   * Parses the body as JSON. The limit is 10 MB, unless `maxBytes` or the route's `maxBodyBytes` sets another
   * one: of both, the smaller one counts. Malformed JSON or nesting deeper than 1,000 levels leads to 400, another
   * media type to 415. So does a body without `Content-Type`, unless `strictContentType` of the route or application
   * is false.
   */
  json(options?: BodyOptions): Promise<unknown>;
  /** Reads the body as UTF-8 text, with the limit of `json()`. */
  text(options?: BodyOptions): Promise<string>;
  /**
   * Parses a form, urlencoded or multipart, into fields and files. The limit is 10 MB, unless `maxBytes` or
   * the route's `maxBodyBytes` sets another one: of both, the smaller one counts. A multipart form is read once, and
   * later calls return the same object. A form over a limit leads to 413, a malformed one to 400, another media type
   * to 415.
   */
  form(options?: FormOptions): Promise<FormFields>;
  /**
   * Returns the parts of a multipart form one after the other, without storing them. The limits of `form()`
   * apply. Read a part before you request the next one, because unread content is skipped. Afterwards, no
   * other method can read the body.
   */
  parts(options?: FormOptions): AsyncIterable<FormPart>;
  /**
   * Reads the fields before the first file of a multipart form, within its first 64 KiB. Afterwards, any
   * method can still read the whole body. @internal
   */
  leadingFields(): Promise<MultiMap>;
}

/** Limit for reading a request body. */
export interface BodyOptions {
  /**
   * Maximum size in bytes, 0 ... 2^53-1. A smaller `maxBodyBytes` of the route, or else of the application, counts
   * instead. A larger body leads to 413.
   */
  readonly maxBytes?: number | undefined;
}

/** Limits of a form. A form over a limit leads to 413. */
export interface FormOptions extends BodyOptions {
  /**
   * Maximum size in bytes, 0 ... 2^53-1. A smaller `maxBodyBytes` of the route, or else of the application, counts
   * instead. A larger body leads to 413. Default: 10_000_000, unless the route or the setting has `maxBodyBytes`.
   */
  readonly maxBytes?: number | undefined;
  /** Maximum number of fields, 0 ... 1_000_000. Default 1_000. */
  readonly maxFields?: number | undefined;
  /** Maximum number of files, 0 ... 1_000_000. Default 100. */
  readonly maxFiles?: number | undefined;
  /** Maximum size of one field in bytes. Default 1_000_000. */
  readonly maxFieldBytes?: number | undefined;
  /** Maximum total size in bytes of the fields and part headers of a multipart form. Default 10_000_000. */
  readonly maxTextBytes?: number | undefined;
  /** Maximum size of one file in bytes. Default: no limit apart from `maxBytes`. */
  readonly maxFileBytes?: number | undefined;
  /** Maximum size in bytes of the headers of one part, 64 ... 1_048_576. Default 16_384. */
  readonly maxHeaderBytes?: number | undefined;
  /**
   * Maximum memory in bytes for the content of all files of the form. Further content goes to a temporary
   * file. Default 1_048_576.
   */
  readonly memoryBytes?: number | undefined;
  /**
   * Folder of the temporary file to which uploaded files are written. Default: the setting `uploadDirectory`.
   */
  readonly directory?: string | undefined;
}

/**
 * Fields and files of a form. `has()` and `keys()` cover fields and files; `get()` and `getAll()` return only
 * fields.
 */
export interface FormFields extends MultiMap {
  /** Returns the first file of the form field `name`. */
  file(name: string): UploadFile | undefined;
  /** Returns all files of the form field `name`. */
  files(name: string): readonly UploadFile[];
}

/** One part of a multipart form. Its content can be read once. */
export interface FormPart extends AsyncIterable<Uint8Array> {
  readonly name: string;
  /** File name as sent by the client; undefined for a field. */
  readonly filename: string | undefined;
  /** Media type of the part, as declared by the client. */
  readonly contentType: string;
  /** Reads the content as UTF-8 text. Invalid UTF-8 leads to 400. */
  text(): Promise<string>;
}

/** Key of a session value of type `T`. The function `sessionKey<T>(name)` creates it. */
export interface SessionKey<out T> {
  /** Name of the value in the session. */
  readonly name: string;
  /** Carries the type `T` for the compiler; never set at run time. */
  readonly value?: T;
}

/** A message for the user. The session keeps it until the next page shows it. */
export interface Flash {
  /** Category of the message, for example `info` or `error`. A page can choose a style by it. */
  readonly kind: string;
  readonly text: string;
}

/** Session of a client. Requires the session middleware. All values must be JSON values. */
export interface Session {
  /** Session id. {@link regenerate} replaces it. Reading the id does not create a session. */
  readonly id: string;
  /** Whether the session is new: the request had no valid session. */
  readonly isNew: boolean;
  /** Returns the value of a key; undefined if the session has none. */
  get<T>(key: SessionKey<T>): T | undefined;
  get(key: string): unknown;
  /** Sets a value, which must be a JSON value. */
  set<T>(key: SessionKey<T>, value: NoInfer<T>): void;
  set(key: string, value: unknown): void;
  /** Removes the value of a key. */
  delete(key: string | SessionKey<unknown>): void;
  /**
   * Replaces the id, and invalidates the old one. Call it when the user logs in or gets other permissions.
   * All values remain; with `keep`, only the values of these keys remain.
   */
  regenerate(options?: { readonly keep?: readonly (string | SessionKey<unknown>)[] | undefined }): void;
  /**
   * Deletes the session and its cookie. Without a store, the session is in the cookie itself and cannot be
   * revoked: a copy of the cookie is valid until it expires. A concurrent request that changes the session
   * can also send the cookie again.
   */
  destroy(): void;
  /**
   * Adds a message for the next page. Text over 500 characters is shortened. If the session becomes too
   * large, its oldest messages are dropped.
   */
  flash(kind: string, text: string): void;
  /** Returns and removes the messages of earlier requests, oldest first. */
  takeFlashes(): readonly Flash[];
}

/** Argument of dependency functions, and of the constructors of classes that are dependencies. */
export interface Context {
  readonly req: HttpRequest;
  readonly signal: AbortSignal;
  readonly state: StateMap;
}

/**
 * Key of a value of type `T` in a {@link StateMap}. When the key is called as a function, it returns the
 * value from a context. So `Depends(key)` passes the value to a handler.
 */
export interface StateKey<T> {
  readonly name: string;
  (context: Context): T;
}

/** Values of a request or application, each with the type of its {@link StateKey}. */
export interface StateMap {
  /** @throws SvcError `E_STATE_UNSET` when the key has no value */
  get<T>(key: StateKey<T>): T;
  /** Sets the value of a key. */
  set<T>(key: StateKey<T>, value: T): void;
  /** Whether the key has a value. */
  has(key: StateKey<unknown>): boolean;
}

/**
 * Services of an application: environment, clock, log, metrics and settings. `Depends(services)` passes them
 * to a handler.
 */
export interface Services {
  readonly env: Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly config: Config;
  /** Tracer of the application; undefined without the option `tracer`. */
  readonly tracer: Tracer | undefined;
}

// -- middleware --

/**
 * Passes the request to the next middleware or the handler. Call it once, and await the result, which is a
 * response or a promise of one.
 */
export type Next = () => Awaitable<HttpResponse>;

/** Kind of a built-in middleware. `svc check` reads it to check the order of middleware. */
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

/**
 * A middleware, which runs around all later middleware and the handler. If one of them throws, `next()`
 * returns an error response.
 */
export interface Middleware {
  /** Name of the kind, by which `svc check` knows the middleware. */
  readonly kind?: MiddlewareKind;
  /** Returns a response of its own, or calls `next()` and returns that response, changed or unchanged. */
  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse>;
  /**
   * Names of settings with secrets that this middleware needs, for example `['authSecret']`. Without them,
   * the application does not start.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Returns findings for `svc check` about the order and configuration of the middleware. Called before any
   * request, when the application is compiled or checked. `view.middleware` lists all middleware up to this
   * one, the outermost first.
   */
  compile?(view: CompiledView): Iterable<Omit<Finding, 'place'>>;
}

/** Middleware as a function. Its result may be any value that a handler may return. */
export type MiddlewareFunction = (req: HttpRequest, next: Next) => unknown;

/** One route of the compiled application. The route that matches a request is `req.route`. */
export interface CompiledRoute {
  /** HTTP method in capitals; `WEBSOCKET` for a WebSocket route. */
  readonly method: string;
  /** Path with its parameters, such as `/users/{id:int}`. */
  readonly template: string;
  /** Name for `urlFor`. */
  readonly name: string | undefined;
  /** Where the route is declared. */
  readonly place: Place;
  /** Security requirements, one of which a client must meet. */
  readonly security: readonly SecurityRequirement[];
  /** Custom data of the route. */
  readonly meta: Readonly<Record<string, unknown>>;
  /** Rate limit that the definition of the route sets; false means unlimited. */
  readonly rateLimit?: RouteRateLimit | false | undefined;
  /** Time limit in milliseconds that the definition of the route sets; false means unlimited. */
  readonly timeoutMs?: number | false | undefined;
  /** Time limit in milliseconds for receiving the whole request, if the definition of the route sets one. */
  readonly requestTimeoutMs?: number | undefined;
}

/**
 * Returns the key by which requests are counted, such as a user id. If it is undefined, requests are counted
 * by client address.
 */
export type RateLimitKey = (req: HttpRequest) => string | undefined;

/** Limit on the number of requests of each client to one route. */
export interface RouteRateLimit {
  /** Number of requests per minute, 1 ... 1_000_000. */
  readonly perMinute: number;
  /** Number of requests that may arrive at once, 1 ... 1_000_000. Default: `perMinute`. */
  readonly burst?: number | undefined;
  /** Returns the key by which a request is counted. Default: the client's address, for IPv6 its network. */
  readonly key?: RateLimitKey | undefined;
}

/**
 * One way to authenticate for a route. The credential must grant all `scopes`, and at least one of `roles` if
 * there are any.
 */
export interface SecurityRequirement {
  /** Scheme of the OpenAPI document. */
  readonly scheme: 'bearer' | 'session' | 'apiKey';
  /** Scopes that a client needs. */
  readonly scopes: readonly string[];
  /** Roles, one of which a client needs. */
  readonly roles: readonly string[];
  /** Issuers of the accepted tokens. Undefined for tokens of the application itself. */
  readonly issuers?: readonly string[] | undefined;
  /** Where clients send an API key or the session cookie. */
  readonly credential?: { readonly in: 'header' | 'cookie'; readonly name: string } | undefined;
  /** Whether requests without this credential are also accepted. */
  readonly isOptional?: true | undefined;
}

/** The compiled application, as the rules of `svc check`, the OpenAPI document and plugins read it. */
export interface CompiledView {
  readonly env: Env;
  readonly routes: readonly CompiledRoute[];
  readonly middleware: readonly Middleware[];
  /**
   * For the middleware of a route or of its routers: the middleware that is declared beside it. Its order among these can be
   * changed, its order among others cannot. Undefined for middleware of the application.
   * @internal
   */
  readonly siblings?: readonly Middleware[] | undefined;
  readonly plugins: readonly PluginLike[];
  readonly services: Services;
  /** Returns the value of a setting by its name. */
  config(key: string): unknown;
}

/**
 * A rule of `svc check`, which finds mistakes in an application. `run` may return a promise only if `phase`
 * is `live`.
 */
export interface Rule {
  readonly id: Finding['rule'];
  readonly severity: Severity;
  readonly why: string;
  readonly remedy: string;
  readonly phase: 'graph' | 'security' | 'contract' | 'environment' | 'live';
  /** Examines the application. Calls `report` once for each problem. */
  run(view: CompiledView, report: (subject: string, message: string, place?: Place) => void): Awaitable<void>;
}

// -- plugins --

/** The part of a `Plugin` that needs no router: `Plugin` itself is in routing/plugin.ts. */
export interface PluginLike {
  /** Unique name, which errors and reports show. */
  readonly name: string;
  /** Names of plugins that must also be registered. They start before this one. */
  readonly requires?: readonly string[];
  /** Names of plugins that start before this one, if they are registered. */
  readonly after?: readonly string[];
  /**
   * Whether this plugin starts before all plugins without this flag, and stops after them. Database plugins
   * set it.
   */
  readonly startsFirst?: boolean;
  /**
   * Names of settings with secrets that this plugin needs, for example `['authSecret']`. Without them, the
   * application does not start.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Whether the program holds an object of this plugin, for example to pass it to a middleware. Then a test
   * client starts the plugin even if the client replaces its values.
   */
  readonly isHeld?: boolean;
  /**
   * Adds routes, middleware and so on to the application, through `host`. Runs before the application is
   * compiled. Must be synchronous, without input or output.
   */
  register(host: HostLike): void;
  /**
   * Called when the application starts: after the required plugins, and before the hooks of `app.onStartup`.
   * If it fails, the plugins that have started are shut down.
   */
  startup?(signal: AbortSignal): Awaitable<void>;
  /**
   * Called after the last request and background task. Plugins shut down in the reverse order of their start.
   */
  shutdown?(): Awaitable<void>;
}

/** The part of a `Host` that needs no router: `Host` itself is in routing/plugin.ts. */
export interface HostLike {
  readonly env: Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /**
   * Returns a setting, or `fallback` if it is not set. The value is converted by `cast`, or to the type of
   * `fallback`.
   */
  option<T>(key: string, fallback: T, cast?: (text: string) => T): T;
  /**
   * Adds middleware. `inside` (default) places it after all earlier middleware, next to the handler;
   * `outside` places it around all earlier middleware.
   * @throws SvcError `E_MIDDLEWARE` when the value is neither a function nor an object with handle()
   */
  use(middleware: Middleware | MiddlewareFunction, where?: 'inside' | 'outside'): void;
  /**
   * Returns the value that an earlier plugin has provided under this key.
   * @throws SvcError `E_STATE_UNSET` when no earlier plugin has provided the value
   */
  get<T>(key: StateKey<T>): T;
  /** Whether an earlier plugin has provided a value under this key. */
  has(key: StateKey<unknown>): boolean;
  /**
   * Provides a value in the state of every request. Each access to the value calls `read`. A test client may
   * replace the value by an object of its own. If that object lacks a member of the class `like`, reading
   * this member throws `E_REPLACEMENT`.
   */
  provide<T>(key: StateKey<T>, read: () => T, like?: abstract new (...args: never[]) => T): void;
  /**
   * Adds a check to `/readyz`. If `probe` throws or takes more than 2 s, `/readyz` reports that `name` is
   * down. The error is logged, but not part of the response.
   */
  readiness(name: string, probe: (signal: AbortSignal) => Awaitable<void>): void;
  /** Adds a rule to `svc check`. */
  rule(rule: Rule): void;
  /**
   * Adds a migration, with statements for each database engine. `svc migrate up` applies it once, before the
   * migrations of the application. Its full id is the name of the plugin, a slash and `id`.
   */
  migration(
    id: string,
    sql: Readonly<Record<'sqlite' | 'postgres' | 'mysql' | 'mariadb', readonly string[]>>,
  ): void;
  /** Migrations that all plugins have added so far. @internal */
  readonly migrations: readonly ContributedMigration[];
}

/** A migration that a plugin has added, with its statements by database engine. @internal */
export interface ContributedMigration {
  readonly plugin: string;
  readonly id: string;
  readonly sql: Parameters<HostLike['migration']>[1];
}
